/*
 * Files in version 1.0 of the format stay readable on every machine. Each file is verified, its
 * keys are found, and writing its filter again reproduces the file bit for bit.
 * tests/support/golden.h describes the files' content.
 */
#include "support/golden.h"

enum { GOLDEN_MAX = 1 << 16 };

static size_t golden_read(unsigned i, unsigned char bytes[GOLDEN_MAX], char path[1024])
{
    (void)snprintf(path, 1024, "%s/golden/files/%s.bg", CHECK_FOLDER, golden_name(i));
    FILE *file = fopen(path, "rb");
    if (!file) {
        check_fail(__FILE__, __LINE__, "cannot open %s", path);
    }
    size_t n = fread(bytes, 1, GOLDEN_MAX, file);
    (void)fclose(file);
    CHECK(n > 0 && n < GOLDEN_MAX);
    return n;
}

static void check_about(unsigned i, const char *path, bg_file_info *about)
{
    const bg_spec spec = golden_spec(i);
    const bg_save_options saved = golden_save_options();
    *about = (bg_file_info){ .struct_size = sizeof *about };
    CHECK_OK(bg_file_get_info(path, about, NULL));
    CHECK_EQ(about->major, 1);
    CHECK_EQ(about->minor, 0);
    CHECK_EQ(about->kind, spec.kind);
    CHECK_EQ(about->profile, spec.hash.profile);
    CHECK_EQ(about->seed, spec.hash.seed);
    CHECK_EQ(about->present_canaries, BG_CANARY_COUNT);
    CHECK_EQ(about->generation, saved.generation);
    CHECK_EQ(about->created, saved.created);
    CHECK_STR(about->metadata, saved.metadata);
    CHECK(memcmp(about->key_id, saved.key_id, sizeof saved.key_id) == 0);
}

/* Returns whether a byte of a header depends on the estimated number of keys. The estimate for aged
 * windows has changed since the files were written. */
static bool is_estimated(unsigned i, size_t at)
{
    const bg_spec spec = golden_spec(i);
    return spec.window && spec.window->mode == BG_WINDOW_AGED
           && ((at >= 184 && at < 192) || (at >= 264 && at < 280)
               || (at >= 4092 && at < 4096));
}

/* Encodes a filter and checks that all bytes from offset `first` on are the same as in the original
 * file. */
static void check_same_bytes(const bg_filter *filter, unsigned i,
                             const unsigned char *bytes, size_t n, size_t first)
{
    static unsigned char again[GOLDEN_MAX];
    const bg_save_options saved = golden_save_options();
    size_t written = 0;
    CHECK_OK(bg_encode(filter, &saved, again, sizeof again, &written, NULL));
    CHECK_EQ(written, n);
    for (size_t at = first; at < n; at++) {
        if (again[at] != bytes[at] && !is_estimated(i, at)) {
            check_fail(__FILE__, __LINE__, "%s: byte %zu", golden_name(i), at);
        }
    }
}

TEST(golden__files_are_read_and_written_again)
{
    static unsigned char bytes[GOLDEN_MAX];
    const bg_open_options options = golden_open_options();
    for (unsigned i = 0; i < GOLDEN_CASES; i++) {
        char path[1024];
        size_t n = golden_read(i, bytes, path);
        bg_filter *filter = NULL, *mapped = NULL;
        bg_file_info about;
        bg_errinfo why;
        check_about(i, path, &about);
        CHECK_EQ(about.file_bytes, n);
        if (bg_verify(path, &options, NULL, &why)
            || bg_open(path, &options, &filter, &why)
            || bg_map(path, &options, &mapped, &why)) {
            check_fail(__FILE__, __LINE__, "%s: %s", golden_name(i), why.message);
        }
        files_check_keys(filter);
        files_check_keys(mapped);
        for (uint64_t j = 0; about.profile == BG_HASH_FAST_INT && j < FILES_KEYS; j++) {
            CHECK(bg_filter_may_contain_u64(filter, j));
        }
        CHECK(bg_filter_equal(filter, mapped));
        check_same_bytes(filter, i, bytes, n, 0);
        check_same_bytes(mapped, i, bytes, n, 0);
        bg_filter_free(mapped);
        bg_filter_free(filter);
    }
}

/* The same keys still produce the same numbers and words. The header is not compared, because it
 * contains the planned rate, whose last digit may differ between machines. The planner may also
 * change and choose a different geometry, in which case there is nothing to compare. */
TEST(golden__files_are_made_again)
{
    static unsigned char bytes[GOLDEN_MAX];
    unsigned same = 0;
    for (unsigned i = 0; i < GOLDEN_CASES; i++) {
        char path[1024];
        size_t n = golden_read(i, bytes, path);
        bg_spec spec = golden_spec(i);
        bg_file_info about;
        check_about(i, path, &about);
        bg_filter *filter = golden_fill(&spec);
        bg_filter_info info = info_of(filter);
        if (info.units == about.units * (about.shards ? about.shards : 1)
            && info.k == about.k) {
            /* Windows now also store the number of keys in a period, so only their words are
             * compared. */
            const size_t first = spec.kind == BG_KIND_WINDOW ? 8192 : 4096;
            check_same_bytes(filter, i, bytes, n, first);
            same++;
        }
        bg_filter_free(filter);
    }
    CHECK(same >= 20);
}

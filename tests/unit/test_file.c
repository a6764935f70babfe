/*
 * Files: every kind is restored from memory, from disk and from a mapping; every flipped
 * bit and every truncation is detected; lookups in damaged blocks answer "maybe". Also tests
 * secrets, versions and canaries.
 */
#define _GNU_SOURCE /* symlink, mkfifo, readlink */

#include "support/adds.h"
#include "support/files.h"
#include "support/forge.h"

#include "store/container.h"

#include <errno.h>
#include <math.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- Round trips ------------------------------------------------------------------- */

TEST(file__every_kind_comes_back_from_memory)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        size_t n;
        bg_filter *filter = files_make(i, 7), *back = NULL;
        unsigned char *bytes = files_encode(filter, 7, &n);
        bg_errinfo why;
        if (bg_decode(bytes, n, NULL, &back, &why)) {
            check_fail(__FILE__, __LINE__, "%s: %s", files_name(i), why.message);
        }
        CHECK(bg_filter_equal(filter, back));
        files_check_keys(back);
        size_t m;
        unsigned char *again = files_encode(back, 7, &m);
        CHECK_EQ(m, n);
        CHECK(memcmp(again, bytes, n) == 0);
        bg_verify_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_encoded_verify(bytes, n, NULL, &report, NULL));
        CHECK_EQ(report.bad, 0);
        free(again);
        free(bytes);
        bg_filter_free(back);
        bg_filter_free(filter);
    }
}

TEST(file__every_kind_comes_back_from_disk_and_map)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_filter *filter = files_make(i, 9), *back = NULL, *mapped = NULL;
        const char *path = files_path(files_name(i));
        bg_save_options options = BG_SAVE_OPTIONS_INIT;
        options.generation = 9;
        CHECK_OK(bg_save(filter, path, &options, NULL));
        CHECK_OK(bg_open(path, NULL, &back, NULL));
        CHECK_OK(bg_map(path, NULL, &mapped, NULL));
        CHECK_OK(bg_verify(path, NULL, NULL, NULL));
        CHECK(bg_filter_equal(filter, back));
        CHECK(bg_filter_equal(filter, mapped));
        files_check_keys(mapped);
        if (!(bg_kind_traits(bg_filter_kind(filter)) & BG_TRAIT_STATIC)) {
            /* Adds to a mapped filter do not change the file. */
            (void)added(mapped, "new", 3);
            CHECK(bg_filter_may_contain(mapped, "new", 3));
            CHECK_OK(bg_verify(path, NULL, NULL, NULL));
        }
        bg_file_info about = { .struct_size = sizeof about };
        CHECK_OK(bg_file_get_info(path, &about, NULL));
        CHECK_EQ(about.kind, bg_filter_kind(filter));
        CHECK_EQ(about.present_canaries, BG_CANARY_COUNT);
        CHECK_EQ(about.generation, 9);
        bg_filter_free(mapped);
        bg_filter_free(back);
        bg_filter_free(filter);
    }
    files_clean();
}

TEST(file__a_scalable_filter_goes_on_growing_after_a_map)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_SCALABLE;
    spec.items = 100;
    spec.rate = 0.01;
    bg_filter *filter = files_make_spec(&spec, 0), *mapped = NULL;
    const char *path = files_path("scalable");
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    CHECK_OK(bg_map(path, NULL, &mapped, NULL));
    for (uint64_t i = 0; i < 100000; i++) {
        (void)added_u64(mapped, i);
    }
    for (uint64_t i = 0; i < 100000; i++) {
        CHECK(bg_filter_may_contain_u64(mapped, i));
    }
    files_check_keys(mapped);
    bg_filter_free(mapped);
    bg_filter_free(filter);
    files_clean();
}

/* ---- Damage ------------------------------------------------------------------------ */

TEST(file__every_flipped_bit_is_noticed)
{
    uint64_t flips = 0;
    const unsigned step = CHECK_EMULATED ? 997 : CHECK_SANITIZED ? 31 : 1;
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        size_t n;
        bg_filter *filter = files_make(i, 1);
        unsigned char *bytes = files_encode(filter, 1, &n);
        for (size_t bit = 0; bit < 8 * n; bit += step) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            bg_err err = bg_encoded_verify(bytes, n, NULL, NULL, NULL);
            if (err == BG_OK) {
                check_fail(__FILE__, __LINE__, "%s: bit %zu of byte %zu", files_name(i),
                           bit % 8, bit / 8);
            }
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            flips++;
        }
        free(bytes);
        bg_filter_free(filter);
    }
    CHECK(flips > 1000);
}

TEST(file__every_truncation_is_noticed)
{
    const size_t step = CHECK_EMULATED ? 211 : CHECK_SANITIZED ? 13 : 1;
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        size_t n;
        bg_filter *filter = files_make(i, 1), *back = NULL;
        unsigned char *bytes = files_encode(filter, 1, &n);
        for (size_t length = 0; length < n; length += step) {
            unsigned char *part = malloc(length ? length : 1); /* for sanitizers */
            CHECK(part);
            memcpy(part, bytes, length);
            CHECK(bg_encoded_verify(part, length, NULL, NULL, NULL) != BG_OK);
            CHECK(bg_decode(part, length, NULL, &back, NULL) != BG_OK);
            CHECK(back == NULL);
            free(part);
        }
        bytes = realloc(bytes, n + 1);
        CHECK(bytes);
        bytes[n] = 0;
        CHECK_EQ(bg_encoded_verify(bytes, n + 1, NULL, NULL, NULL), BG_EFORMAT);
        free(bytes);
        bg_filter_free(filter);
    }
}

/* A filter that consists of several blocks. */
static bg_spec large_spec(bg_kind kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = 300000;
    spec.rate = 0.01;
    return spec;
}

TEST(file__blocks_zeroed_swapped_and_doubled_are_noticed)
{
    bg_spec spec = large_spec(BG_KIND_BLOCKED);
    bg_filter *filter = files_make_spec(&spec, 1);
    for (uint64_t i = 0; i < 100000; i++) {
        (void)added_u64(filter, i);
    }
    size_t n;
    unsigned char *bytes = files_encode(filter, 1, &n), *copy = malloc(n);
    CHECK(copy);
    const size_t block = 65536, first = 8192, blocks = (n - first) / block;
    CHECK(blocks > 4);
    bg_verify_report report;
    for (size_t a = 0; a < blocks; a++) {
        memcpy(copy, bytes, n);
        memset(copy + first + a * block, 0, block);
        CHECK_EQ(bg_encoded_verify(copy, n, NULL, &report, NULL), BG_ECHECKSUM);
        CHECK_EQ(report.bad_blocks, 1);
        CHECK_EQ(report.first_offset, first + a * block);
        for (size_t b = 0; b < blocks; b++) {
            if (a == b) {
                continue;
            }
            memcpy(copy, bytes, n);
            memcpy(copy + first + a * block, bytes + first + b * block, block);
            CHECK_EQ(bg_encoded_verify(copy, n, NULL, &report, NULL), BG_ECHECKSUM);
            CHECK_EQ(report.bad_blocks, 1);
            memcpy(copy + first + b * block, bytes + first + a * block, block);
            CHECK_EQ(bg_encoded_verify(copy, n, NULL, &report, NULL), BG_ECHECKSUM);
            CHECK_EQ(report.bad_blocks, 2);
        }
    }
    free(copy);
    free(bytes);
    bg_filter_free(filter);
}

static size_t middle_of_words(const unsigned char *bytes)
{
    struct container_header header;
    struct container_layout layout;
    CHECK_OK(container_read_header(bytes, &header, NULL));
    CHECK(container_layout(&header, &layout));
    return (size_t)(layout.words_at + header.word_bytes / 2);
}

/* For every kind, a file with one bad block is refused, or its filter still finds all keys. */
TEST(file__a_bad_block_never_says_no)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED,  BG_KIND_CLASSIC,
                                     BG_KIND_COUNTING, BG_KIND_CUCKOO,
                                     BG_KIND_QUOTIENT, BG_KIND_FUSE,
                                     BG_KIND_RIBBON,   BG_KIND_SCALABLE,
                                     BG_KIND_WINDOW };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (uint32_t mode = 0; mode < 2; mode++) {
            if (mode && kinds[i] != BG_KIND_WINDOW) {
                continue;
            }
            bg_spec spec = large_spec(kinds[i]);
            spec.window = kinds[i] == BG_KIND_WINDOW ? files_window(mode) : NULL;
            bg_filter *filter = files_make_spec(&spec, 1), *back = NULL;
            size_t n;
            unsigned char *bytes = files_encode(filter, 1, &n);
            size_t at = middle_of_words(bytes);
            bytes[at] ^= 0x10;
            bg_errinfo why;
            CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_ECHECKSUM);
            CHECK(why.offset > 0 && why.offset <= at && back == NULL);
            bg_open_options options = BG_OPEN_OPTIONS_INIT;
            options.flags = BG_FILE_TOLERATE_DAMAGE;
            if (bg_decode(bytes, n, &options, &back, &why)) {
                check_fail(__FILE__, __LINE__, "%s: %s", bg_kind_name(kinds[i]),
                           why.message);
            }
            CHECK(info_of(back).degraded);
            files_check_keys(back);
            bg_filter *copy = NULL;
            CHECK_OK(bg_filter_copy(back, &copy, NULL));
            CHECK(info_of(copy).degraded);
            files_check_keys(copy);
            bg_filter_free(copy);
            bg_filter_free(back);
            bg_filter_free(filter);
            free(bytes);
        }
    }
}

TEST(file__damage_outside_of_blocks_is_refused_even_if_tolerated)
{
    bg_filter *filter = files_make(8, 1), *back = NULL; /* quotient: has numbers */
    size_t n;
    unsigned char *bytes = files_encode(filter, 1, &n);
    bg_open_options options = BG_OPEN_OPTIONS_INIT;
    options.flags = BG_FILE_TOLERATE_DAMAGE;
    const size_t places[] = { 0, 9, 40, 2000, 4093, 4096, 4104, 8000, n - 1 };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bytes[places[i]] ^= 1;
        CHECK(bg_decode(bytes, n, &options, &back, NULL) != BG_OK);
        CHECK(back == NULL);
        bytes[places[i]] ^= 1;
    }
    free(bytes);
    bg_filter_free(filter);
}

/* ---- Forged headers ----------------------------------------------------------------- */

TEST(file__versions)
{
    bg_filter *filter = files_make(2, 1), *back = NULL;
    size_t n;
    unsigned char *bytes = files_encode(filter, 1, &n);
    bg_errinfo why;
    forge(bytes, 10, 2, 7); /* 1.7 */
    CHECK_OK(bg_decode(bytes, n, NULL, &back, &why));
    bg_filter_free(back);
    forge(bytes, 300, 1, 1); /* a feature that version 1.7 is assumed to have added */
    CHECK_OK(bg_decode(bytes, n, NULL, &back, &why));
    bg_filter_free(back);
    unsigned char *old = malloc(n);
    CHECK(old);
    memcpy(old, bytes, n);
    forge(old, 10, 2, 0);
    CHECK_EQ(bg_decode(old, n, NULL, &back, &why), BG_EFORMAT);
    free(old);
    forge(bytes, 8, 4, 2);
    CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_EVERSION);
    CHECK_STR(why.found, "2.0");
    CHECK(back == NULL);
    free(bytes);
    bg_filter_free(filter);
}

TEST(file__unknown_profiles_are_refused)
{
    bg_filter *filter = files_make(2, 1), *back = NULL;
    size_t n;
    unsigned char *bytes = files_encode(filter, 1, &n);
    bg_errinfo why;
    forge(bytes, 128, 4, 77);
    CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_EFORMAT);
    CHECK_STR(why.what, "profile");
    CHECK_EQ(bg_encoded_verify(bytes, n, NULL, NULL, NULL), BG_EFORMAT);
    free(bytes);
    bg_filter_free(filter);
}

/* Fields that a kind or a profile does not use must be 0. In fields that are used, 0 is not
 * accepted as "use the default". */
TEST(file__headers_that_nobody_writes_are_refused)
{
    static const struct {
        unsigned filter;
        size_t offset, size;
        uint64_t value;
    } lies[] = {
        { 2, 52, 4, 1 },  /* blocked: window_mode */
        { 2, 80, 8, 1 },  /* max_bytes */
        { 2, 96, 8, 1 },  /* length */
        { 5, 32, 4, 0 },  /* counting: width 0 for 4 */
        { 12, 32, 4, 4 }, /* window: width */
        /* The file names a custom hash, although the filter does not use one. */
        { 2, 232, 4, 'x' },
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        bg_filter *filter = files_make(lies[i].filter, 1), *back = NULL;
        size_t n;
        unsigned char *bytes = files_encode(filter, 1, &n);
        forge(bytes, lies[i].offset, lies[i].size, lies[i].value);
        bg_err err = bg_decode(bytes, n, NULL, &back, NULL);
        if (err != BG_EFORMAT) {
            check_fail(__FILE__, __LINE__, "lie %zu: %d", i, (int)err);
        }
        free(bytes);
        bg_filter_free(filter);
    }
}

/* No writer creates a filter with one shard. In this file, the number of shards is the only error.
 * For consistency, the test also extends the list of numbers by a zero: the shard has no numbers of
 * its own. */
TEST(file__one_shard_is_refused)
{
    bg_filter *filter = files_make(2, 1), *back = NULL;
    size_t n;
    unsigned char *bytes = files_encode(filter, 1, &n);
    forge(bytes, 112, 8, 2);
    forge(bytes, 48, 4, 1);
    CHECK_EQ(bg_decode(bytes, n, NULL, &back, NULL), BG_EFORMAT);
    free(bytes);
    bg_filter_free(filter);
}

/* No builder creates a static filter with one unit, because lookups would read beyond it. */
TEST(file__static_filters_without_room_for_a_key_are_refused)
{
    for (unsigned i = 9; i < 11; i++) {
        unsigned char bytes[CONTAINER_HEADER + CONTAINER_PAGE + 8 * 32 + 4] = { 0 };
        bg_filter *filter = files_make(i, 1), *back = NULL;
        bg_errinfo why;
        size_t n;
        unsigned char *whole = files_encode(filter, 1, &n);
        struct container_header header;
        struct container_layout layout;
        CHECK_OK(container_read_header(whole, &header, NULL));
        header.k = 32;
        header.units = 1;
        header.word_bytes = i == 9 ? 64 : 8 * 32;
        header.absent_maybes = CONTAINER_UNASKED;
        header.present_canaries = 0;
        CHECK(container_layout(&header, &layout));
        header.file_bytes = layout.file_bytes;
        memcpy(bytes + CONTAINER_HEADER, whole + CONTAINER_HEADER, CONTAINER_PAGE);
        uint32_t crc =
            bgi_crc32c(0, bytes + layout.words_at, (size_t)header.word_bytes);
        for (size_t b = 0; b < 4; b++) {
            bytes[layout.table_at + b] = (unsigned char)(crc >> 8 * b);
        }
        container_write_header(&header, bytes);
        forge(bytes, 36, 4, 32);
        CHECK_EQ(bg_decode(bytes, (size_t)layout.file_bytes, NULL, &back, &why),
                 BG_EFORMAT);
        CHECK_STR(why.what, "content");
        free(whole);
        bg_filter_free(filter);
    }
}

/* A filter that is saved with a new generation keeps its canaries. Version 0.1 ignores them,
 * because it would look for the canaries of the new generation. */
TEST(file__canaries_survive_a_new_generation)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL, *copy = NULL, *back = NULL;
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_file_info about = { .struct_size = sizeof about };
    struct container_header header;
    unsigned char bytes[65536];
    bg_errinfo why;
    size_t n;
    spec.items = 100;
    spec.rate = 0.0001;
    spec.canaries = BG_CANARY_COUNT;
    how.generation = 3;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        uint8_t key[BG_CANARY_BYTES];
        bg_canary(how.generation, i, key);
        CHECK_OK(bg_filter_add(filter, key, sizeof key, NULL));
    }
    for (uint64_t generation = 3; generation != 0; generation = generation == 3   ? 9
                                                                : generation == 9 ? 1
                                                                                  : 0) {
        how.generation = generation;
        CHECK_OK(bg_encode(filter, &how, bytes, sizeof bytes, &n, NULL));
        CHECK_OK(container_read_header(bytes, &header, NULL));
        CHECK_EQ(header.minor, 2);
        CHECK_EQ(header.present_canaries, generation == 3 ? BG_CANARY_COUNT : 0);
        CHECK_OK(bg_encoded_get_info(bytes, n, &about, NULL));
        CHECK_EQ(about.present_canaries, BG_CANARY_COUNT);
        CHECK_EQ(about.canary_generation, 3);
        CHECK_EQ(about.generation, generation);
        bg_filter_free(filter);
        CHECK_OK(bg_decode(bytes, n, NULL, &filter, NULL));
        CHECK_OK(bg_filter_copy(filter, &copy, NULL));
        bg_filter_free(filter);
        filter = copy;
    }
    forge(bytes, 280, 8, header.canary_age + 1);
    CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_EFORMAT);
    CHECK_STR(why.what, "canaries");
    bg_filter_free(filter);
}

/* A filter has at most 65,536 canaries. */
TEST(file__too_many_canaries)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL, *back = NULL;
    unsigned char bytes[65536];
    bg_errinfo why;
    size_t n;
    spec.items = 10;
    spec.rate = 0.01;
    spec.canaries = 16;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK_OK(bg_encode(filter, NULL, bytes, sizeof bytes, &n, NULL));
    forge(bytes, 196, 4, 65536);
    CHECK_OK(bg_decode(bytes, n, NULL, &back, NULL));
    bg_filter_free(back);
    forge(bytes, 196, 4, 65537);
    CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_EFORMAT);
    CHECK_STR(why.what, "canaries");
    bg_filter_free(filter);
}

/* Sets each header field to each of the values in a list. Each file must be refused, or its filter
 * must be usable. */
TEST(file__forged_headers_do_no_harm)
{
    static const uint64_t values[] = { 0,
                                       1,
                                       2,
                                       3,
                                       63,
                                       64,
                                       255,
                                       65537,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       1ull << 40,
                                       INT64_MAX,
                                       UINT64_MAX,
                                       0x7ff0000000000000 /* infinite */,
                                       0x7ff8000000000000 /* not a number */,
                                       0xbff0000000000000 /* -1.0 */ };
    static const struct {
        size_t offset, size;
    } fields[] = {
#define FIELD(offset, size, name) { offset, size },
        CONTAINER_FIELDS(FIELD)
#undef FIELD
    };
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        size_t n;
        bg_filter *filter = files_make(i, 1);
        unsigned char *bytes = files_encode(filter, 1, &n), *copy = malloc(n);
        CHECK(copy);
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                if (CHECK_EMULATED && (f + v) % 7) {
                    continue;
                }
                memcpy(copy, bytes, n);
                forge(copy, fields[f].offset, fields[f].size, values[v]);
                bg_filter *back = NULL;
                if (bg_decode(copy, n, NULL, &back, NULL) == BG_OK) {
                    (void)bg_filter_may_contain(back, "x", 1);
                    (void)added(back, "x", 1);
                }
                bg_filter_free(back);
            }
        }
        free(copy);
        free(bytes);
        bg_filter_free(filter);
    }
}

/* ---- Hash functions ------------------------------------------------------------------ */

static uint64_t own_hash(void *context, const void *key, size_t len)
{
    uint64_t h = *(const uint64_t *)context;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ ((const unsigned char *)key)[i]) * 0x9fb21c651e98df25u;
        h ^= h >> 29;
    }
    return h * 0xd6e8feb86659fd93u;
}

TEST(file__secrets_and_functions)
{
    const uint8_t secret[BG_SECRET_BYTES] = { 1, 2, 3 }, other[BG_SECRET_BYTES] = { 4 };
    uint64_t start = 5, another = 6;
    static const uint32_t profiles[] = { BG_HASH_KEYED, BG_HASH_KEYED24,
                                         BG_HASH_KEYED_INT, BG_HASH_CUSTOM };
    for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
        bg_spec spec = files_spec(2);
        bg_hash_spec right = { .profile = profiles[p] };
        bool custom = profiles[p] == BG_HASH_CUSTOM;
        if (custom) {
            right.custom = own_hash;
            right.custom_context = &start;
            right.custom_name = "own";
        } else {
            right.secret = secret;
        }
        spec.hash = right;
        bg_filter *filter = files_make_spec(&spec, 3), *back = NULL;
        size_t n;
        unsigned char *bytes = files_encode(filter, 3, &n);
        bg_open_options options = BG_OPEN_OPTIONS_INIT;
        bg_errinfo why;
        CHECK_EQ(bg_decode(bytes, n, NULL, &back, &why), BG_EINVAL);
        CHECK_STR(why.what, "hash");
        options.hash = &right;
        CHECK_OK(bg_decode(bytes, n, &options, &back, &why));
        files_check_keys(back);
        bg_filter_free(back);
        bg_hash_spec wrong = right;
        wrong.secret = other;
        wrong.custom_context = &another;
        options.hash = &wrong;
        CHECK_EQ(bg_decode(bytes, n, &options, &back, &why), BG_EINCOMPAT);
        CHECK(back == NULL);
        CHECK_OK(
            bg_encoded_verify(bytes, n, NULL, NULL, NULL)); /* without the secret */
        /* The secret itself does not occur in the file. */
        for (size_t i = 0; !custom && i + sizeof secret <= n; i++) {
            CHECK(memcmp(bytes + i, secret, sizeof secret) != 0);
        }
        free(bytes);
        bg_filter_free(filter);
    }
}

/* The canaries detect a file that has valid checksums but contains the words of a different
 * filter. */
TEST(file__canaries_see_an_empty_filter)
{
    bg_spec spec = files_spec(2);
    bg_filter *full = files_make_spec(&spec, 1), *empty = must_create(&spec);
    size_t n, m;
    unsigned char *bytes = files_encode(full, 1, &n);
    unsigned char *others = files_encode(empty, 1, &m);
    struct container_header header;
    CHECK_EQ(n, m);
    CHECK_OK(container_read_header(bytes, &header, NULL));
    CHECK_EQ(header.present_canaries, BG_CANARY_COUNT);
    forge(others, 168, 4, BG_CANARY_COUNT);
    bg_filter *back = NULL;
    bg_errinfo why;
    CHECK_EQ(bg_decode(others, m, NULL, &back, &why), BG_EFORMAT);
    CHECK_STR(why.what, "canaries");
    free(bytes);
    free(others);
    bg_filter_free(full);
    bg_filter_free(empty);
}

/* ---- Publication --------------------------------------------------------------------- */

TEST(file__publish_and_follow)
{
    bg_filter *first = files_make(2, 1), *second = files_make(0, 2), *back = NULL;
    char one[BG_DIGEST_TEXT_BYTES], two[BG_DIGEST_TEXT_BYTES];
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = 1;
    CHECK_OK(bg_publish(first, files_folder(), "seen", &options, one, NULL));
    CHECK_OK(bg_open(files_path("seen"), NULL, &back, NULL));
    CHECK(bg_filter_equal(first, back));
    bg_filter_free(back);
    options.generation = 2;
    CHECK_OK(bg_publish(second, files_folder(), "seen", &options, two, NULL));
    CHECK(strcmp(one, two) != 0);
    CHECK_OK(bg_map(files_path("seen"), NULL, &back, NULL));
    CHECK(bg_filter_equal(second, back));
    bg_filter_free(back);
    char name[128];
    (void)snprintf(name, sizeof name, "seen-%s.bg", one);
    CHECK_OK(bg_verify(files_path(name), NULL, NULL, NULL));
    bg_filter_free(first);
    bg_filter_free(second);
    files_clean();
}

/* ---- What a save replaces ---------------------------------------------------------- */

static bool has_type(const char *path, mode_t type)
{
    struct stat about;
    return lstat(path, &about) == 0 && (about.st_mode & S_IFMT) == type;
}

static void check_saved(const bg_filter *filter, const char *path, const char *target)
{
    bg_filter *back = NULL;
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    CHECK(has_type(path, S_IFLNK));
    CHECK(has_type(target, S_IFREG));
    CHECK_OK(bg_open(path, NULL, &back, NULL));
    CHECK(bg_filter_equal(filter, back));
    bg_filter_free(back);
}

TEST(file__a_save_follows_symbolic_links)
{
    bg_filter *filter = files_make(2, 1), *other = files_make(2, 2);
    const char *target = files_path("real/target"), *hop = files_path("links/hop");
    const char *path = files_path("path");
    struct stat about;
    bg_errinfo why;
    CHECK(mkdir(files_path("real"), 0700) == 0);
    CHECK(mkdir(files_path("links"), 0700) == 0);
    CHECK(symlink("../real/target", hop) == 0);
    CHECK(symlink("links/hop", path) == 0);
    check_saved(filter, path, target); /* the target does not exist yet */
    CHECK(chmod(target, 0640) == 0);
    check_saved(other, path, target);
    CHECK(has_type(hop, S_IFLNK));
    CHECK(stat(target, &about) == 0 && (about.st_mode & 07777) == 0640);
    CHECK(unlink(path) == 0 && symlink(target, path) == 0); /* an absolute link */
    check_saved(filter, path, target);
    /* Through a directory that is a link itself. */
    CHECK(symlink("links", files_path("also")) == 0);
    CHECK_OK(bg_save(other, files_path("also/hop"), NULL, NULL));
    CHECK(has_type(hop, S_IFLNK));
    /* No temporary files are left behind in either directory. */
    CHECK(unlink(hop) == 0 && rmdir(files_path("links")) == 0);
    CHECK(unlink(target) == 0 && rmdir(files_path("real")) == 0);
    CHECK_EQ(bg_save(filter, path, NULL, &why), BG_EIO); /* no directory */
    CHECK_EQ(why.os_errno, ENOENT);
    CHECK(unlink(path) == 0 && symlink("path", path) == 0);
    CHECK_EQ(bg_save(filter, path, NULL, &why), BG_EIO); /* a loop */
    CHECK_EQ(why.os_errno, ELOOP);
    bg_filter_free(filter);
    bg_filter_free(other);
    files_clean();
}

static void check_not_replaced(const bg_filter *filter, const char *path, mode_t type,
                               const char *text)
{
    const char *link = files_path("link");
    bg_errinfo why;
    CHECK(symlink(path, link) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(bg_save(filter, i ? link : path, NULL, &why), BG_EINVAL);
        CHECK_STR(why.what, "path");
        CHECK(strstr(why.message, text) != NULL);
    }
    CHECK(has_type(path, type));
    CHECK(has_type(link, S_IFLNK));
    CHECK(unlink(link) == 0);
}

TEST(file__a_save_replaces_only_regular_files)
{
    bg_filter *filter = files_make(2, 1);
    const char *path = files_path("path");
    bg_errinfo why;
    CHECK(mkfifo(path, 0600) == 0);
    check_not_replaced(filter, path, S_IFIFO, "it is a FIFO");
    CHECK_EQ(bg_publish(filter, files_folder(), "path", NULL, NULL, &why), BG_EINVAL);
    CHECK(has_type(path, S_IFIFO));
    CHECK(unlink(path) == 0);
    CHECK(mkdir(path, 0700) == 0);
    check_not_replaced(filter, path, S_IFDIR, "it is a directory");
    CHECK(rmdir(path) == 0);
    check_not_replaced(filter, "/dev/null", S_IFCHR, "it is a device");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) < sizeof address.sun_path) {
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        memcpy(address.sun_path, path, strlen(path) + 1);
        CHECK(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0);
        check_not_replaced(filter, path, S_IFSOCK, "it is a socket");
        CHECK(close(fd) == 0 && unlink(path) == 0);
    }
    bg_filter_free(filter);
    files_clean();
}

/* The file behind a descriptor can have no name: a pipe, or a deleted file. */
TEST(file__a_save_refuses_files_without_a_name)
{
    bg_filter *filter = files_make(2, 1);
    char path[64];
    bg_errinfo why;
    int ends[2];
    CHECK(pipe(ends) == 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    if (access(path, F_OK) == 0) {
        CHECK_EQ(bg_save(filter, path, NULL, &why), BG_EINVAL);
        FILE *file = fopen(files_path("deleted"), "w");
        CHECK(file && unlink(files_path("deleted")) == 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
        CHECK_EQ(bg_save(filter, path, NULL, &why), BG_EINVAL);
        CHECK(fclose(file) == 0);
    }
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    bg_filter_free(filter);
    files_clean();
}

TEST(file__a_publication_replaces_a_symbolic_link)
{
    bg_filter *filter = files_make(2, 1), *back = NULL;
    CHECK_OK(bg_save(filter, files_path("old"), NULL, NULL));
    CHECK(symlink("old", files_path("seen")) == 0);
    CHECK_OK(bg_publish(filter, files_folder(), "seen", NULL, NULL, NULL));
    CHECK(has_type(files_path("seen"), S_IFREG));
    CHECK_OK(bg_verify(files_path("old"), NULL, NULL, NULL));
    CHECK_OK(bg_open(files_path("seen"), NULL, &back, NULL));
    bg_filter_free(back);
    bg_filter_free(filter);
    files_clean();
}

/* ---- Arguments --------------------------------------------------------------------- */

TEST(file__arguments)
{
    bg_filter *filter = files_make(2, 1), *back = NULL;
    bg_errinfo why;
    CHECK_EQ(bg_open("/nonexistent/file", NULL, &back, &why), BG_EIO);
    CHECK(why.os_errno == 2);
    CHECK_EQ(bg_open(files_folder(), NULL, &back, &why), BG_EFORMAT);
    CHECK(mkfifo(files_path("pipe"), 0600) == 0);
    CHECK_EQ(bg_open(files_path("pipe"), NULL, &back, &why), BG_EFORMAT);
    CHECK_EQ(bg_open(NULL, NULL, &back, &why), BG_EINVAL);
    CHECK_EQ(bg_save(filter, "/nonexistent/file", NULL, &why), BG_EIO);
    CHECK_EQ(bg_save(filter, "", NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_save(NULL, "x", NULL, &why), BG_EINVAL);
    char long_text[4000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = 0;
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.metadata = long_text;
    CHECK_EQ(bg_save(filter, files_path("x"), &options, &why), BG_EINVAL);
    CHECK_STR(why.what, "metadata");
    long_text[BG_METADATA_MAX - 1] = 0;
    CHECK_OK(bg_save(filter, files_path("x"), &options, &why));
    bg_file_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_file_get_info(files_path("x"), &about, &why));
    CHECK_STR(about.metadata, long_text);
    bg_file_info read = { .struct_size = sizeof read };
    CHECK_OK(bg_open_with_info(files_path("x"), NULL, &read, &back, &why));
    CHECK(bg_filter_equal(filter, back));
    CHECK_STR(read.digest_text, about.digest_text);
    bg_filter_free(back);
    CHECK_EQ(bg_open_with_info(files_path("x"), NULL, NULL, &back, &why), BG_EINVAL);
    CHECK_EQ(bg_open_with_info(files_path("x"), NULL, &read, NULL, &why), BG_EINVAL);
    read.struct_size = 3;
    CHECK_EQ(bg_open_with_info(files_path("x"), NULL, &read, &back, &why), BG_EINVAL);
    options.struct_size = 3;
    CHECK_EQ(bg_save(filter, files_path("x"), &options, &why), BG_EINVAL);
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    opening.max_bytes = 64;
    CHECK_EQ(bg_open(files_path("x"), &opening, &back, &why), BG_ENOMEM);
    CHECK(back == NULL);
    bg_filter_free(filter);
    files_clean();
}

/* ---- Without canaries -------------------------------------------------------------------- */

/* Returns the number of absent canaries for which the filter answered "maybe", as stored in a
 * file's header. 2^32 - 1 means unknown. */
static uint32_t absent_maybes(const unsigned char *bytes)
{
    return (uint32_t)bytes[172] | (uint32_t)bytes[173] << 8 | (uint32_t)bytes[174] << 16
           | (uint32_t)bytes[175] << 24;
}

TEST(file__without_canaries)
{
    static unsigned char with[1 << 16], without[1 << 16];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL, *again = NULL;
    size_t n = 0, m = 0;
    spec.items = 1000;
    spec.rate = 0.01;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK(added(filter, "pear", 4));
    how.created = 1;
    CHECK_OK(bg_encode(filter, &how, with, sizeof with, &n, NULL));
    how.flags = BG_FILE_NO_CANARIES;
    CHECK_OK(bg_encode(filter, &how, without, sizeof without, &m, NULL));
    CHECK_EQ(n, m);
    CHECK(absent_maybes(with) <= 4096);
    CHECK_EQ(absent_maybes(without), UINT32_MAX);
    CHECK_OK(bg_encoded_verify(without, m, NULL, NULL, NULL));
    CHECK_OK(bg_decode(without, m, NULL, &again, NULL));
    CHECK(bg_filter_may_contain(again, "pear", 4));
    bg_filter_free(again);
    without[m - 5] ^= 1; /* the checksums still detect damage */
    CHECK(bg_decode(without, m, NULL, &again, NULL) != BG_OK);
    bg_filter_free(filter);
}

/* The header of a file in memory is reported the same way as that of a file on disk. */
TEST(file__about_bytes)
{
    static unsigned char bytes[1 << 16];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    bg_file_info here = { .struct_size = sizeof here };
    bg_file_info there = { .struct_size = sizeof there };
    size_t n = 0;
    spec.items = 1000;
    spec.rate = 0.01;
    how.created = how.generation = 7;
    how.metadata = "fruit";
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK_OK(bg_encode(filter, &how, bytes, sizeof bytes, &n, NULL));
    CHECK_OK(bg_save(filter, files_path("about"), &how, NULL));
    CHECK_OK(bg_file_get_info(files_path("about"), &there, NULL));
    CHECK_OK(bg_encoded_get_info(bytes, n, &here, NULL));
    CHECK(memcmp(&here, &there, sizeof here) == 0);
    CHECK_EQ(bg_encoded_get_info(bytes, 4095, &here, NULL), BG_EFORMAT);
    CHECK_EQ(bg_encoded_get_info(NULL, 1, &here, NULL), BG_EINVAL);
    here.struct_size = 1;
    CHECK_EQ(bg_encoded_get_info(bytes, n, &here, NULL), BG_EINVAL);
    bg_filter_free(filter);
}

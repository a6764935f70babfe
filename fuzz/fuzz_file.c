/*
 * fuzz_file.c - an input is a file, or a list of changes to valid files. The checksums of changed
 * files are corrected, so that the decoder processes content that no encoder would write, such as
 * an invalid kind or geometry, or invalid numbers and filter words. Refusing a file must not leak
 * memory. An accepted file is a valid filter: it can be queried, changed, saved and read again, and
 * merged with another filter.
 */
#include "base/bits.h"
#include "base/crc32c.h"
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "store/container.h"
#include "support/adds.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_CASES = 15, FILE_MAX = 40000, FILE_EDITS = 24, FILE_KEYS = 60 };

static struct {
    size_t n;
    unsigned char bytes[FILE_MAX];
} whole[FILE_CASES];

/* ---- Valid files ------------------------------------------------------------------ */

static bg_window_options file_windows[2] = { BG_WINDOW_OPTIONS_INIT,
                                             BG_WINDOW_OPTIONS_INIT };

static bg_spec file_spec(unsigned i)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = FILE_KEYS;
    spec.rate = 0.02;
    spec.kind = BG_KIND_CLASSIC + i % 12;
    if (i == 12) {
        spec.kind = BG_KIND_WINDOW;
        file_windows[1].mode = BG_WINDOW_AGED;
        spec.window = &file_windows[1];
    } else if (i == 13) {
        spec.kind = BG_KIND_CUCKOO;
        spec.shards = 2;
    } else if (i == 14) {
        spec.kind = BG_KIND_SCALABLE;
        spec.shards = 2;
    }
    if (spec.kind == BG_KIND_WINDOW) {
        file_windows[0].generations = file_windows[1].generations = 2;
        spec.window = spec.window ? spec.window : &file_windows[0];
    }
    spec.items = spec.kind == BG_KIND_SCALABLE ? 10 : spec.items;
    return spec;
}

static bg_filter *file_filter(unsigned i)
{
    bg_spec spec = file_spec(i);
    bg_filter *filter = NULL;
    if (bg_kind_traits((bg_kind)spec.kind) & BG_TRAIT_STATIC) {
        bg_builder *builder = NULL;
        FUZZ_MUST(bg_builder_create(&spec, &builder, NULL) == BG_OK);
        for (uint64_t key = 0; key < FILE_KEYS; key++) {
            FUZZ_MUST(bg_builder_add_u64(builder, key) == BG_OK);
        }
        FUZZ_MUST(bg_builder_finish(builder, &filter, NULL) == BG_OK);
        bg_builder_free(builder);
        return filter;
    }
    FUZZ_MUST(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    for (uint64_t key = 0; key < FILE_KEYS; key++) {
        (void)added_u64(filter, key);
    }
    return filter;
}

static void file_make(unsigned i)
{
    if (whole[i].n == 0) {
        bg_filter *filter = file_filter(i);
        bg_save_options options = BG_SAVE_OPTIONS_INIT;
        options.created = 1;
        FUZZ_MUST(
            bg_encode(filter, &options, whole[i].bytes, FILE_MAX, &whole[i].n, NULL)
            == BG_OK);
        bg_filter_free(filter);
    }
}

/* ---- Changes --------------------------------------------------------------------- */

static void file_put(unsigned char *p, unsigned n, uint64_t value)
{
    for (unsigned i = 0; i < n; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

/* Corrects the checksum of the header and, if the layout in the header matches the file size, all
 * other checksums. Clears the canary fields, so that canaries are not checked. */
static void file_seal(unsigned char *bytes, size_t n)
{
    file_put(bytes + 168, 4, 0);
    file_put(bytes + 172, 4, CONTAINER_UNASKED);
    struct container_header h = { .numbers = bgi_load_le64(bytes + 112),
                                  .word_bytes = bgi_load_le64(bytes + 120) };
    struct container_layout layout;
    if (container_layout(&h, &layout) && layout.file_bytes == n) {
        file_put(bytes + 132, 4,
                 bgi_crc32c(0, bytes + CONTAINER_HEADER,
                            (size_t)layout.words_at - CONTAINER_HEADER));
        for (uint64_t i = 0; i < layout.blocks; i++) {
            uint64_t at = layout.words_at + i * CONTAINER_BLOCK;
            uint64_t size = layout.table_at - at;
            size = size < CONTAINER_BLOCK ? size : CONTAINER_BLOCK;
            file_put(bytes + layout.table_at + 4 * i, 4,
                     bgi_crc32c(0, bytes + at, (size_t)size));
        }
        container_digest(bytes, &layout, bytes + CONTAINER_HEADER,
                         bytes + layout.table_at, bytes + CONTAINER_DIGEST_AT);
    }
    file_put(bytes + CONTAINER_CRC_AT, 4, bgi_crc32c(0, bytes, CONTAINER_CRC_AT));
}

static unsigned char *file_changed(struct fuzz_input *in, size_t *n)
{
    unsigned i = fuzz_byte(in) % FILE_CASES;
    file_make(i);
    *n = whole[i].n;
    unsigned char *bytes = malloc(*n);
    FUZZ_MUST(bytes);
    memcpy(bytes, whole[i].bytes, *n);
    for (unsigned edits = fuzz_byte(in) % FILE_EDITS; edits > 0; edits--) {
        uint8_t where = fuzz_byte(in);
        size_t at = where < 96    ? where * 2 + 8u             /* the header */
                    : where < 128 ? 4096u + (where - 96u) * 8  /* numbers */
                                  : (size_t)fuzz_any(in) % *n; /* anywhere */
        unsigned size = 1u << fuzz_byte(in) % 4;
        if (at + size <= *n) {
            file_put(bytes + at, size, fuzz_any(in));
        }
    }
    file_seal(bytes, *n);
    return bytes;
}

/* ---- Accepted files ---------------------------------------------------------------- */

static bg_filter *file_decode(const unsigned char *bytes, size_t n, uint32_t flags)
{
    bg_filter *filter = NULL;
    bg_open_options options = BG_OPEN_OPTIONS_INIT;
    bg_errinfo why;
    options.flags = flags;
    options.max_bytes = 1 << 20;
    bg_err err = bg_decode(bytes, n, &options, &filter, &why);
    FUZZ_MUST((err == BG_OK) == (filter != NULL));
    FUZZ_MUST(err == BG_OK || why.message[0]);
    return filter;
}

static void file_use(bg_filter *filter, const bg_filter *other)
{
    bg_filter_info info = { .struct_size = sizeof info };
    FUZZ_MUST(bg_filter_get_info(filter, &info) == BG_OK);
    FUZZ_MUST(bg_filter_health(&info) <= BG_HEALTH_ACT);
    FUZZ_MUST(bg_health_of_rate(info.rate, info.design_rate) <= BG_HEALTH_ACT);
    FUZZ_MUST(bg_health_of_items(info.items, info.design_items) <= BG_HEALTH_ACT);
    for (uint64_t key = 0; key < 2 * FILE_KEYS; key++) {
        (void)bg_filter_may_contain_u64(filter, key);
        (void)bg_filter_count_u64(filter, key);
    }
    if (other && bg_filter_merge(filter, other, NULL) == BG_OK) {
        for (uint64_t key = 0; key < FILE_KEYS; key++) {
            FUZZ_MUST(!bg_filter_may_contain_u64(other, key)
                      || bg_filter_may_contain_u64(filter, key));
        }
    }
    for (uint64_t key = 0; key < 16; key++) {
        (void)bg_filter_remove_u64(filter, key);
        (void)added_u64(filter, 1000 + key);
        FUZZ_MUST(bg_filter_may_contain_u64(filter, 1000 + key));
    }
}

/* The bytes of a file that was written all at once. file_compare checks that writing in chunks
 * produces the same bytes. */
struct file_whole {
    const unsigned char *bytes;
    size_t n, at;
};

static bg_err file_compare(void *context, const void *bytes, size_t n)
{
    struct file_whole *at_once = context;
    FUZZ_MUST(n <= at_once->n - at_once->at);
    FUZZ_MUST(memcmp(bytes, at_once->bytes + at_once->at, n) == 0);
    at_once->at += n;
    return BG_OK;
}

/* Writes a filter, all at once and in chunks, reads it back, and checks that it is unchanged. */
static void file_return(const bg_filter *filter)
{
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    size_t n = 0;
    options.created = 1;
    if (bg_encode(filter, &options, NULL, 0, &n, NULL) != BG_OK || n > FILE_MAX * 4) {
        return;
    }
    unsigned char *bytes = malloc(n);
    FUZZ_MUST(bytes);
    FUZZ_MUST(bg_encode(filter, &options, bytes, n, &n, NULL) == BG_OK);
    struct file_whole at_once = { bytes, n, 0 };
    FUZZ_MUST(bg_encode_stream(filter, &options, file_compare, &at_once, NULL)
              == BG_OK);
    FUZZ_MUST(at_once.at == n);
    FUZZ_MUST(bg_encoded_verify(bytes, n, NULL, NULL, NULL) == BG_OK);
    bg_filter *back = file_decode(bytes, n, 0);
    FUZZ_MUST(back && bg_filter_equal(filter, back));
    bg_filter_free(back);
    free(bytes);
}

static void file_run_raw(struct fuzz_input *in)
{
    unsigned char *bytes = malloc(in->left ? in->left : 1);
    size_t n = in->left;
    FUZZ_MUST(bytes);
    memcpy(bytes, in->data, n);
    bg_verify_report report;
    bg_err err = bg_encoded_verify(bytes, n, NULL, &report, NULL);
    FUZZ_MUST((err == BG_OK) == (report.bad == 0));
    bg_filter_free(file_decode(bytes, n, 0));
    if (n >= CONTAINER_HEADER) {
        file_seal(bytes, n);
        bg_filter_free(file_decode(bytes, n, BG_FILE_TOLERATE_DAMAGE));
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    uint8_t how = fuzz_byte(&in);
    if (how & 1) {
        file_run_raw(&in);
        return 0;
    }
    size_t n, m;
    unsigned char *a = file_changed(&in, &n), *b = file_changed(&in, &m);
    if (how & 2) {
        a[fuzz_any(&in) % n] ^= 1; /* damaged content, which must be tolerated */
    }
    bg_filter *first = file_decode(a, n, how & 2 ? BG_FILE_TOLERATE_DAMAGE : 0);
    bg_filter *second = file_decode(b, m, 0);
    if (first) {
        if (how & 4) {
            file_return(first);
        }
        file_use(first, second);
        file_return(first);
    }
    bg_filter_free(first);
    bg_filter_free(second);
    free(a);
    free(b);
    return 0;
}

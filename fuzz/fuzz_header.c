/*
 * fuzz_header.c - uses the input as a raw file, or overwrites fields in the header and in the
 * numbers section of a small valid file, and then corrects the checksums. This is a fast way to run
 * the decoder on many inputs. (fuzz_file runs fewer inputs and tests them more deeply.) The decoder
 * must not trust a value that contradicts the actual bytes.
 */
#include "base/bits.h"
#include "base/crc32c.h"
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "store/container.h"
#include "support/adds.h"

#include <string.h>

enum { HEADER_MAX = 16384, HEADER_KINDS = 4 };

static struct {
    size_t n;
    unsigned char bytes[HEADER_MAX];
} header_files[HEADER_KINDS];

static void header_make(unsigned i)
{
    static const bg_kind kinds[HEADER_KINDS] = { BG_KIND_BLOCKED, BG_KIND_CUCKOO,
                                                 BG_KIND_QUOTIENT, BG_KIND_SCALABLE };
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = (uint32_t)kinds[i];
    spec.items = 20;
    spec.rate = 0.05;
    FUZZ_MUST(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    FUZZ_MUST(bg_encode(filter, NULL, header_files[i].bytes, HEADER_MAX,
                        &header_files[i].n, NULL)
              == BG_OK);
    bg_filter_free(filter);
}

static void header_put32(unsigned char *p, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

/* Corrects the checksums of the header and the numbers, and clears the canary fields, so that
 * canaries are not checked. */
static void header_seal(unsigned char *bytes, size_t n)
{
    struct container_header h = { .numbers = bgi_load_le64(bytes + 112),
                                  .word_bytes = bgi_load_le64(bytes + 120) };
    struct container_layout layout;
    header_put32(bytes + 168, 0);
    header_put32(bytes + 172, CONTAINER_UNASKED);
    if (container_layout(&h, &layout) && layout.file_bytes == n) {
        header_put32(bytes + 132,
                     bgi_crc32c(0, bytes + CONTAINER_HEADER,
                                (size_t)layout.words_at - CONTAINER_HEADER));
        container_digest(bytes, &layout, bytes + CONTAINER_HEADER,
                         bytes + layout.table_at, bytes + CONTAINER_DIGEST_AT);
    }
    header_put32(bytes + CONTAINER_CRC_AT, bgi_crc32c(0, bytes, CONTAINER_CRC_AT));
}

/* Overwrites fields. For each field, the input contains a byte that determines the offset, and a
 * four-byte value. */
static void header_change(struct fuzz_input *in, unsigned char *bytes)
{
    while (in->left >= 5) {
        uint8_t where = fuzz_byte(in);
        uint32_t value = fuzz_u32(in);
        size_t at = where < 48 ? 8 + 4u * where : 4096 + 4u * (where - 48u);
        header_put32(bytes + at, value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bytes[HEADER_MAX];
    struct fuzz_input in = { data, size };
    uint8_t how = fuzz_byte(&in);
    bg_filter *filter = NULL;
    if (how & 1) {
        FUZZ_MUST(bg_encoded_verify(in.data, in.left, NULL, NULL, NULL) != BG_OK
                  || bg_decode(in.data, in.left, NULL, &filter, NULL) == BG_OK);
        bg_filter_free(filter);
        return 0;
    }
    unsigned i = how / 2 % HEADER_KINDS;
    if (header_files[i].n == 0) {
        header_make(i);
    }
    memcpy(bytes, header_files[i].bytes, header_files[i].n);
    header_change(&in, bytes);
    header_seal(bytes, header_files[i].n);
    if (bg_decode(bytes, header_files[i].n, NULL, &filter, NULL) == BG_OK) {
        FUZZ_MUST(bg_filter_size_bytes(filter) <= header_files[i].n);
        (void)bg_filter_may_contain_u64(filter, 1);
        (void)added_u64(filter, 2);
        FUZZ_MUST(bg_filter_may_contain_u64(filter, 2));
    }
    bg_filter_free(filter);
    return 0;
}

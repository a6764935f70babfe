/*
 * foreign_go.c - the format of github.com/bits-and-blooms/bloom (formerly willf/bloom), v2 and v3,
 * as written by WriteTo.
 *
 *     u64 m | u64 k | u64 m again | ceil(m / 64) x u64      big-endian
 *
 * Unlike in Guava, m is not rounded up to whole words, and positions are taken modulo the exact m.
 * Two hashes, one of the key and one of the key followed by the byte 1, give four 64-bit numbers,
 * h[0] to h[3]. Position i is h[i % 2] + i * h[2 + (i + i % 2) % 4 / 2].
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include "base/checked.h"

#include <math.h>

enum { GO_HEADER = 24 };

static void go_positions(const bg_foreign *foreign, const struct foreign_part *part,
                         const void *key, size_t len, uint64_t *to)
{
    const struct foreign_pair a = foreign_murmur3_x64_128(key, len);
    const struct foreign_pair b = foreign_murmur3_x64_128_then_1(key, len);
    const uint64_t h[4] = { a.h1, a.h2, b.h1, b.h2 };
    (void)foreign;
    for (uint32_t i = 0; i < part->k; i++) {
        to[i] = (h[i % 2] + i * h[2 + (i + i % 2) % 4 / 2]) % part->bits;
    }
}

static bg_err go_make(uint64_t m, uint32_t k, uint64_t input,
                      const bg_foreign_options *options, bg_foreign **foreign,
                      bg_errinfo *info)
{
    const struct foreign_part part = { .bits = m,
                                       .bytes = foreign_words(m) * 8,
                                       .k = k };
    return foreign_make_bloom(&foreign_go, options, &part, 0, input, foreign, info);
}

static bg_err go_read(struct foreign_input input, const bg_foreign_options *options,
                      bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, GO_HEADER, info);
    if (!header) {
        return BG_EFORMAT;
    }
    const uint64_t m = foreign_be64(header), k = foreign_be64(header + 8);
    if (m == 0) {
        return foreign_refuse(info, 0, "m", "at least 1", "0");
    }
    if (foreign_be64(header + 16) != m) {
        return foreign_refuse(info, 16, "length of the bit array",
                              "the same value as m at byte 0", "%llu",
                              (unsigned long long)foreign_be64(header + 16));
    }
    bg_err err = foreign_check_k(k, 8, info);
    err = err ? err : foreign_last(&input, foreign_words(m) * 8, &bits, info);
    err = err ? err : go_make(m, (uint32_t)k, input.n, options, foreign, info);
    if (err) {
        return err;
    }
    foreign_copy_swapped((*foreign)->bytes, bits, foreign_words(m));
    return foreign_check_padding(foreign, GO_HEADER, info);
}

static bg_err go_create(uint64_t items, double rate, const bg_foreign_options *options,
                        bg_foreign **foreign, bg_errinfo *info)
{
    const double ideal = ceil(foreign_ideal_bits(items, rate));
    const double k = ceil(log(2) * ideal / (double)items);
    uint64_t m;
    if (!bgi_u64_from_double(ideal, &m) || k > FOREIGN_K_MAX) {
        return foreign_too_large(ideal, info);
    }
    return go_make(m, (uint32_t)k, 0, options, foreign, info);
}

static uint64_t go_written(const bg_foreign *foreign)
{
    return GO_HEADER + foreign->parts[0].bytes;
}

static void go_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    foreign_put_be64(to, part->bits);
    foreign_put_be64(to + 8, part->k);
    foreign_put_be64(to + 16, part->bits);
    foreign_copy_swapped(to + GO_HEADER, foreign->bytes, part->bytes / 8);
}

const struct foreign_format foreign_go = {
    .id = BG_FOREIGN_GO,
    .name = "go",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = go_read,
    .create = go_create,
    .positions = go_positions,
    .written = go_written,
    .write = go_write,
};

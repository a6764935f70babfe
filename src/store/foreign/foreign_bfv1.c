/*
 * foreign_bfv1.c - BFv1, a small wire format that is often used for teaching.
 *
 *     "BFv1" | u32 m | u16 k | u32 seed | u32 bytes | ceil(m / 8) bytes    little-endian
 *
 * The format does not specify the hash function. Here, h1 and h2 are 8-byte BLAKE2b digests of the
 * key with the personalizations "bf1" and "bf2", and h2 is made odd. Position i is (h1 + i * h2 +
 * seed) mod m, computed without overflow.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_digests.h"

#include <math.h>
#include <string.h>

enum { BFV1_HEADER = 18 };

static const unsigned char bfv1_magic[4] = { 'B', 'F', 'v', '1' };

/* h1, h2 and the seed are below 2^32, and i * h2 is below 2^40, so the sum does not overflow. */
static void bfv1_positions(const bg_foreign *foreign, const struct foreign_part *part,
                           const void *key, size_t len, uint64_t *to)
{
    const uint64_t m = part->bits;
    const uint64_t h1 = foreign_blake2b_64("bf1", key, len) % m;
    const uint64_t h2 = (foreign_blake2b_64("bf2", key, len) | 1) % m;
    for (uint32_t i = 0; i < part->k; i++) {
        to[i] = (h1 + i * h2 + foreign->seed) % m;
    }
}

static bg_err bfv1_make(uint64_t m, uint32_t k, uint64_t input,
                        const bg_foreign_options *options, bg_foreign **foreign,
                        bg_errinfo *info)
{
    const struct foreign_part part = { .bits = m, .bytes = (m + 7) / 8, .k = k };
    bg_err err =
        foreign_make_bloom(&foreign_bfv1, options, &part, 0, input, foreign, info);
    if (!err) {
        (*foreign)->version = 1;
    }
    return err;
}

static bg_err bfv1_read(struct foreign_input input, const bg_foreign_options *options,
                        bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, BFV1_HEADER, info);
    if (!header) {
        return BG_EFORMAT;
    }
    const uint32_t m = bgi_load_le32(header + 4),
                   k = header[8] | (uint32_t)header[9] << 8;
    const uint64_t bytes = ((uint64_t)m + 7) / 8;
    if (memcmp(header, bfv1_magic, sizeof bfv1_magic) != 0) {
        return foreign_refuse(info, 0, "magic", "BFv1", "%s", "other bytes");
    }
    if (m == 0) {
        return foreign_refuse(info, 4, "m", "at least 1", "0");
    }
    if (bgi_load_le32(header + 14) != bytes) {
        return foreign_refuse(info, 14, "bytes", "m / 8, rounded up", "%u",
                              bgi_load_le32(header + 14));
    }
    bg_err err = foreign_check_k(k, 8, info);
    err = err ? err : foreign_last(&input, bytes, &bits, info);
    err = err ? err : bfv1_make(m, k, input.n, options, foreign, info);
    if (err) {
        return err;
    }
    (*foreign)->seed = bgi_load_le32(header + 10);
    memcpy((*foreign)->bytes, bits, (size_t)bytes);
    return foreign_check_padding(foreign, BFV1_HEADER, info);
}

static bg_err bfv1_create(uint64_t items, double rate,
                          const bg_foreign_options *options, bg_foreign **foreign,
                          bg_errinfo *info)
{
    const double m = ceil(foreign_ideal_bits(items, rate));
    const double k = nearbyint(m / (double)items * log(2));
    if (!(m <= UINT32_MAX) || k > FOREIGN_K_MAX) {
        return foreign_too_large(m, info);
    }
    if (options->seed > UINT32_MAX) {
        return bgi_err(info, BG_EINVAL, "seed", "a 32-bit number", "%llu",
                       (unsigned long long)options->seed);
    }
    return bfv1_make((uint64_t)m, k < 1 ? 1 : (uint32_t)k, 0, options, foreign, info);
}

static uint64_t bfv1_written(const bg_foreign *foreign)
{
    return BFV1_HEADER + foreign->parts[0].bytes;
}

static void bfv1_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    memcpy(to, bfv1_magic, sizeof bfv1_magic);
    bgi_store_le32(to + 4, (uint32_t)part->bits);
    to[8] = (unsigned char)part->k;
    to[9] = (unsigned char)(part->k >> 8);
    bgi_store_le32(to + 10, (uint32_t)foreign->seed);
    bgi_store_le32(to + 14, (uint32_t)part->bytes);
    memcpy(to + BFV1_HEADER, foreign->bytes, (size_t)part->bytes);
}

const struct foreign_format foreign_bfv1 = {
    .id = BG_FOREIGN_BFV1,
    .name = "bfv1",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = bfv1_read,
    .create = bfv1_create,
    .positions = bfv1_positions,
    .written = bfv1_written,
    .write = bfv1_write,
};

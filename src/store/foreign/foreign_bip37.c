/*
 * foreign_bip37.c - the filter in Bitcoin's `filterload` message (BIP37), without the message
 * header.
 *
 *     compactsize of the bytes | bytes | u32 k | u32 tweak | u8 flags     little-endian
 *
 * Position i is the MurmurHash3 x86 32 hash of the key with the seed i * 0xfba4c795 + tweak, modulo
 * the number of bits. A filter has at most 36,000 bytes and 50 hash functions. Peers reject larger
 * filters, and so does this decoder.
 *
 * A filter with no bytes or no hash functions is allowed and answers "maybe" for every key, as in
 * Bitcoin Core. In older software, an empty filter caused a division by zero (CVE-2013-5700). When
 * a filter is created, `seed` is the tweak, and `version` contains the flags. The flags specify
 * what the peer adds to the filter on a match: 0 for nothing, 1 for all matching outputs, 2 for
 * only outputs that pay to public keys.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include <math.h>
#include <string.h>

enum { BIP37_BYTES_MAX = 36000, BIP37_K_MAX = 50, BIP37_TRAILER = 9 };

enum { BIP37_K = 0 /* index in extra[] of the k in the file */ };

static void bip37_positions(const bg_foreign *foreign, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    for (uint32_t i = 0; i < part->k; i++) {
        uint32_t seed = i * 0xfba4c795u + (uint32_t)foreign->seed;
        to[i] = foreign_murmur3_x86_32(key, len, seed) % part->bits;
    }
}

static bg_err bip37_make(uint64_t bytes, uint32_t k, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    /* A filter with no bits has no positions, so k is 0 and the answer is "maybe" for every key. */
    const struct foreign_part part = { .bits = bytes * 8,
                                       .bytes = bytes,
                                       .k = bytes ? k : 0 };
    bg_err err =
        foreign_make_bloom(&foreign_bip37, options, &part, 0, input, foreign, info);
    if (!err) {
        (*foreign)->extra[BIP37_K] = k;
    }
    return err;
}

/* Reads the size of the filter in bytes, which is stored in one byte, or in three bytes if it is
 * 253 or more. Returns -1 if the encoding or the size is invalid. */
static int32_t bip37_size(struct foreign_input *input)
{
    const unsigned char *p = foreign_take(input, 1);
    if (!p) {
        return -1;
    }
    if (*p < 253) {
        return *p;
    }
    const bool two = *p == 253;
    p = two ? foreign_take(input, 2) : NULL;
    const int32_t size = p ? p[0] | p[1] << 8 : 0;
    return size < 253 || size > BIP37_BYTES_MAX ? -1 : size;
}

static bg_err bip37_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    const int32_t size = bip37_size(&input);
    const uint64_t at = input.at;
    const unsigned char *bits;
    if (size < 0) {
        return foreign_refuse(info, 0, "size", "0 to 36,000 in the shortest encoding",
                              "an invalid size");
    }
    bg_err err = foreign_last(&input, (uint64_t)size + BIP37_TRAILER, &bits, info);
    if (err) {
        return err;
    }
    const unsigned char *trailer = bits + size;
    const uint32_t k = bgi_load_le32(trailer);
    if (k > BIP37_K_MAX) {
        return foreign_refuse(info, at + (uint64_t)size, "k", "0 to 50", "%u", k);
    }
    err = bip37_make((uint64_t)size, k, input.n, options, foreign, info);
    if (!err) {
        (*foreign)->seed = bgi_load_le32(trailer + 4);
        (*foreign)->version = trailer[8];
        memcpy((*foreign)->bytes, bits, (size_t)size);
    }
    return err;
}

/* As in Bitcoin Core, the number of bits per key is truncated to an integer before k is
 * computed. */
static bg_err bip37_create(uint64_t items, double rate,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    const double ideal = foreign_ideal_bits(items, rate);
    const uint64_t bytes = (uint64_t)fmin(ideal, BIP37_BYTES_MAX * 8.0) / 8;
    const uint64_t bits_per_key = bytes * 8 / items;
    const double k = fmin((double)bits_per_key * log(2), BIP37_K_MAX);
    if (options->seed > UINT32_MAX) {
        return bgi_err(info, BG_EINVAL, "seed", "a 32-bit tweak", "%llu",
                       (unsigned long long)options->seed);
    }
    if (options->version > 2) {
        return bgi_err(info, BG_EINVAL, "version", "flags: 0, 1 or 2", "%u",
                       options->version);
    }
    return bip37_make(bytes, (uint32_t)k, 0, options, foreign, info);
}

static uint64_t bip37_written(const bg_foreign *foreign)
{
    const uint64_t bytes = foreign->parts[0].bytes;
    return (bytes < 253 ? 1 : 3) + bytes + BIP37_TRAILER;
}

static void bip37_write(const bg_foreign *foreign, unsigned char *to)
{
    const uint64_t bytes = foreign->parts[0].bytes;
    *to++ = bytes < 253 ? (unsigned char)bytes : 253;
    if (bytes >= 253) {
        *to++ = (unsigned char)bytes;
        *to++ = (unsigned char)(bytes >> 8);
    }
    memcpy(to, foreign->bytes, (size_t)bytes);
    bgi_store_le32(to + bytes, (uint32_t)foreign->extra[BIP37_K]);
    bgi_store_le32(to + bytes + 4, (uint32_t)foreign->seed);
    to[bytes + 8] = (unsigned char)foreign->version;
}

const struct foreign_format foreign_bip37 = {
    .id = BG_FOREIGN_BIP37,
    .name = "bip37",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = bip37_read,
    .create = bip37_create,
    .positions = bip37_positions,
    .written = bip37_written,
    .write = bip37_write,
};

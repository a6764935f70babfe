/*
 * siphash.h - SipHash-1-3 and SipHash-2-4 with 64-bit output; see siphash.c.
 *
 * `features` are BGI_HAS_ bits that select the instructions. The hashes do not depend on the
 * instructions.
 */
#ifndef BGI_SIPHASH_H
#define BGI_SIPHASH_H

#include "bloomgate/hasher.h"

#include "base/bits.h"
#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

/* The number of rounds per word and the number of final rounds, as two decimal digits. */
enum bgi_siphash { BGI_SIPHASH_13 = 13, BGI_SIPHASH_24 = 24 };

/* The 128-bit secret as two little-endian words. Functions receive a pointer to the original
 * words, so that no function needs a copy in memory. */
typedef uint64_t bgi_siphash_key[2];

/* Returns the hash of `len` bytes. `data` may be NULL if `len` is 0. */
uint64_t bgi_siphash(enum bgi_siphash variant, const bgi_siphash_key key,
                     const void *data, size_t len);

/* Hashes n keys of `width` bytes, stored one after another. */
void bgi_siphash_fixed(enum bgi_siphash variant, uint32_t features,
                       const bgi_siphash_key key, const uint8_t *keys, size_t width,
                       size_t n, uint64_t *out);

/* Hashes n keys given as (pointer, length) pairs. */
void bgi_siphash_pairs(enum bgi_siphash variant, uint32_t features,
                       const bgi_siphash_key key, const bg_bytes *keys, size_t n,
                       uint64_t *out);

/*
 * The rest of this file contains definitions that siphash.c and siphash_x86.c share.
 *
 * One SipRound on four state words of any type that supports + ^ << >> and |: uint64_t, or vectors
 * of uint64_t. This is a macro because C has no functions that are generic over types. Compilers
 * turn the rotations into single instructions on CPUs that have rotate instructions.
 */
#define BGI_SIPHASH_ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
#define BGI_SIPHASH_ROUND(v0, v1, v2, v3)                                              \
    do {                                                                               \
        (v0) += (v1);                                                                  \
        (v2) += (v3);                                                                  \
        (v1) = BGI_SIPHASH_ROTATE(v1, 13) ^ (v0);                                      \
        (v3) = BGI_SIPHASH_ROTATE(v3, 16) ^ (v2);                                      \
        (v0) = BGI_SIPHASH_ROTATE(v0, 32);                                             \
        (v2) += (v1);                                                                  \
        (v0) += (v3);                                                                  \
        (v1) = BGI_SIPHASH_ROTATE(v1, 17) ^ (v2);                                      \
        (v3) = BGI_SIPHASH_ROTATE(v3, 21) ^ (v0);                                      \
        (v2) = BGI_SIPHASH_ROTATE(v2, 32);                                             \
    } while (0)

/* "somepseudorandomlygeneratedbytes", the initial state before the secret is mixed in. */
#define BGI_SIPHASH_V0 UINT64_C(0x736f6d6570736575)
#define BGI_SIPHASH_V1 UINT64_C(0x646f72616e646f6d)
#define BGI_SIPHASH_V2 UINT64_C(0x6c7967656e657261)
#define BGI_SIPHASH_V3 UINT64_C(0x7465646279746573)

/*
 * Returns the last word of a message: its last len % 8 bytes, and the length modulo 256 in the
 * top byte. Reads nothing outside the message, and has no loop. If the message has 8 bytes or more,
 * the function loads its last eight bytes and shifts out the bytes that have already been processed
 * (in two steps, because a shift by 64 is undefined).
 */
BGI_INLINE uint64_t bgi_siphash_last(const uint8_t *data, size_t len)
{
    const uint64_t top = (uint64_t)len << 56;
    const unsigned rest = (unsigned)len & 7;
    if (len >= 8) {
        return top | bgi_load_le64(data + len - 8) >> 8 * (7 - rest) >> 8;
    }
    if (len >= 4) {
        uint64_t low = bgi_load_le32(data), high = bgi_load_le32(data + len - 4);
        return top | low | high << 8 * (len - 4);
    }
    if (len > 0) {
        uint64_t a = data[0], b = data[len / 2], c = data[len - 1];
        return top | a | b << 8 * (len / 2) | c << 8 * (len - 1);
    }
    return top;
}

/* These functions hash the first n - n % lanes keys in parallel, where `lanes` is 4 (AVX2) or 8
 * (AVX-512). They return the number of keys hashed. */
size_t bgi_siphash_fixed_avx2(enum bgi_siphash variant, const bgi_siphash_key key,
                              const uint8_t *keys, size_t width, size_t n,
                              uint64_t *out);
size_t bgi_siphash_pairs_avx2(enum bgi_siphash variant, const bgi_siphash_key key,
                              const bg_bytes *keys, size_t n, uint64_t *out);
size_t bgi_siphash_fixed_avx512(enum bgi_siphash variant, const bgi_siphash_key key,
                                const uint8_t *keys, size_t width, size_t n,
                                uint64_t *out);
size_t bgi_siphash_pairs_avx512(enum bgi_siphash variant, const bgi_siphash_key key,
                                const bg_bytes *keys, size_t n, uint64_t *out);

#endif

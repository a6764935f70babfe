/*
 * fast.h - the functions of `fast` and `fast-int` for short keys.
 *
 * `fast` is XXH3. This file contains it for 8-byte and 16-byte keys, with several keys hashed in
 * parallel.
 *
 * XXH3 treats an 8-byte key as one word. It rotates the word by 32 bits, XORs it with a mask
 * derived from the seed, and mixes it with two multiplications (xxHash 0.8, "rrmxmx"). The function
 * has been stable since xxHash 0.8.0. The two words of XXH3's secret that the function uses are
 * written out below. The function uses only operations within a lane, so the same source serves
 * single keys and vectors of keys (fast_x86.c).
 *
 * A 16-byte key is two words. The words are XORed with masks derived from the seed and multiplied,
 * and the halves of the 128-bit product are XORed; an addition and an avalanche step follow. In
 * vector code, each 128-bit product takes four 32-bit multiplications, which pays off only for
 * vectors of eight words.
 *
 * `fast-int` hashes 8-byte keys with fewer instructions. In a loop of single lookups in a large
 * filter, the CPU runs ahead to later keys while cache lines are fetched, and the number of
 * instructions per key limits how many fetches overlap. XXH3 takes about 14 instructions,
 * `fast-int` about 7:
 *
 *     x = key ^ mask                            the mask of XXH3, derived from the seed
 *     y = high(x * A) ^ low(x * A)              a folded 128-bit product
 *     hash = high(y * B) ^ low(y * B)           again
 *
 * Failed attempts (docs/adr/0034): without the second step, filters at 12 bits per key had rates
 * between 0.33% and 1.0% instead of 0.42% for strided integers and for doubles. With y * B or
 * y * B ^ y >> 32 as the second step, the low bits are not well mixed.
 */
#ifndef BGI_FAST_H
#define BGI_FAST_H

#include "bloomgate/hasher.h"

#include "base/bits.h"
#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

#define BGI_FAST8_SECRET        (UINT64_C(0x1cad21f72c81017c) ^ UINT64_C(0xdb979083e96dd4de))
#define BGI_FAST8_MULTIPLY      UINT64_C(0x9fb21c651e98df25)
#define BGI_FAST8_ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

/* Hashes x, a number or a vector of numbers, in place. */
#define BGI_FAST8(x, mask)                                                             \
    do {                                                                               \
        (x) = BGI_FAST8_ROTATE(x, 32) ^ (mask);                                        \
        (x) ^= BGI_FAST8_ROTATE(x, 49) ^ BGI_FAST8_ROTATE(x, 24);                      \
        (x) *= BGI_FAST8_MULTIPLY;                                                     \
        (x) ^= ((x) >> 35) + 8;                                                        \
        (x) *= BGI_FAST8_MULTIPLY;                                                     \
        (x) ^= (x) >> 28;                                                              \
    } while (0)

/* Returns the mask for a seed. The seed's byte-reversed lower half is first mixed into its upper
 * half. */
BGI_INLINE uint64_t bgi_fast8_mask(uint64_t seed)
{
    return BGI_FAST8_SECRET
           - (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
}

/* Returns the hash of `key` (8 bytes in little-endian order), given the mask for a seed. */
BGI_INLINE uint64_t bgi_fast8_masked(uint64_t mask, uint64_t key)
{
    BGI_FAST8(key, mask);
    return key;
}

/* Returns the hash of `key` with a seed. */
BGI_INLINE uint64_t bgi_fast8_one(uint64_t seed, uint64_t key)
{
    return bgi_fast8_masked(bgi_fast8_mask(seed), key);
}

#define BGI_FAST_INT_MULTIPLY UINT64_C(0x9e6c63d0876a9a47)

/* Returns the `fast-int` hash of `key`, given the mask for a seed. */
BGI_INLINE uint64_t bgi_fast_int_masked(uint64_t mask, uint64_t key)
{
    const uint64_t y = bgi_fold(key ^ mask, BGI_FAST8_MULTIPLY);
    return bgi_fold(y, BGI_FAST_INT_MULTIPLY);
}

/* Returns the `fast-int` hash of `key` with a seed. */
BGI_INLINE uint64_t bgi_fast_int_one(uint64_t seed, uint64_t key)
{
    return bgi_fast_int_masked(bgi_fast8_mask(seed), key);
}

#define BGI_FAST16_SECRET_LOW                                                          \
    (UINT64_C(0x1f67b3b7a4a44072) ^ UINT64_C(0x78e5c0cc4ee679cb))
#define BGI_FAST16_SECRET_HIGH                                                         \
    (UINT64_C(0x2172ffcc7dd05a82) ^ UINT64_C(0x8e2443f7744608b8))
#define BGI_FAST16_MULTIPLY UINT64_C(0x165667919e3779f9)

/* These functions hash the first n - n % lanes keys, where `lanes` is 4 (AVX2) or 8 (AVX-512). They
 * return the number of keys hashed. */
size_t bgi_fast8_avx2(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);
size_t bgi_fast8_avx512(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);
size_t bgi_fast16_avx512(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);

/* Hashes (pointer, length) pairs, eight at a time, and stops at the first group of eight keys that
 * are not all 8 bytes or all 16 bytes long. Returns the number of keys hashed. */
size_t bgi_fast_pairs_avx512(uint64_t seed, const bg_bytes *keys, size_t n,
                             uint64_t *out);

#endif

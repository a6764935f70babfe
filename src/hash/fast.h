/*
 * fast.h - XXH3 of keys of 8 and of 16 bytes, several side by side.
 *
 * XXH3 treats a key of 8 bytes as one word, which it turns by 32 bits, masks with the
 * seed, and mixes by two multiplications (xxHash 0.8, "rrmxmx"). The function is frozen
 * since 0.8.0. The two words of XXH3's secret that enter here are written out below.
 * Nothing in it needs more than one lane, so the same text serves one key and several
 * side by side (fast_x86.c).
 *
 * A key of 16 bytes is two words. Masked with the seed, they are multiplied to 128 bits,
 * whose halves are folded; sum and avalanche follow. Four products of 32 bits make the
 * one of 128, which only pays with vectors of eight.
 */
#ifndef BGI_FAST_H
#define BGI_FAST_H

#include "bloomgate/hash.h"

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

/* The seed with its lower half, byte for byte reversed, mixed into the upper one. */
BGI_INLINE uint64_t bgi_fast8_mask(uint64_t seed)
{
    return BGI_FAST8_SECRET
           - (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
}

/* The hash of the 8 bytes of `key` in little-endian order, by the seed's mask ... */
BGI_INLINE uint64_t bgi_fast8_masked(uint64_t mask, uint64_t key)
{
    BGI_FAST8(key, mask);
    return key;
}

/* ... or by the seed itself. */
BGI_INLINE uint64_t bgi_fast8_one(uint64_t seed, uint64_t key)
{
    return bgi_fast8_masked(bgi_fast8_mask(seed), key);
}

#define BGI_FAST16_SECRET_LOW                                                          \
    (UINT64_C(0x1f67b3b7a4a44072) ^ UINT64_C(0x78e5c0cc4ee679cb))
#define BGI_FAST16_SECRET_HIGH                                                         \
    (UINT64_C(0x2172ffcc7dd05a82) ^ UINT64_C(0x8e2443f7744608b8))
#define BGI_FAST16_MULTIPLY UINT64_C(0x165667919e3779f9)

/* Many, 4 or 8 side by side: the first n - n % lanes keys are hashed, their number is
 * returned. */
size_t bgi_fast8_avx2(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);
size_t bgi_fast8_avx512(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);
size_t bgi_fast16_avx512(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);

/* The same for pairs: eights that all have 8 or all have 16 bytes; ends before others. */
size_t bgi_fast_pairs_avx512(uint64_t seed, const bg_bytes *keys, size_t n,
                             uint64_t *out);

#endif

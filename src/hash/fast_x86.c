/*
 * fast_x86.c - XXH3 of 8-byte keys, 8 (AVX-512) or 4 (AVX2) side by side.
 *
 * XXH3 treats a key of 8 bytes as one word, which it turns by 32 bits, masks with the
 * seed, and mixes by two multiplications (xxHash 0.8, "rrmxmx"); nothing in that needs
 * more than a lane. The function is frozen since 0.8.0. The two words of XXH3's secret
 * that enter here are written out below.
 */
#include "base/compiler.h"

#if defined(BGI_X86_64)

#include "hash/fast.h"

#include <string.h>

typedef uint64_t fast_x86_vector4 __attribute__((vector_size(32)));
typedef uint64_t fast_x86_vector8 __attribute__((vector_size(64)));

#define FAST_X86_SECRET        (UINT64_C(0x1cad21f72c81017c) ^ UINT64_C(0xdb979083e96dd4de))
#define FAST_X86_MULTIPLY      UINT64_C(0x9fb21c651e98df25)
#define FAST_X86_ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

/* The seed with its lower half, byte for byte reversed, mixed into the upper one. */
BGI_INLINE uint64_t fast_x86_mask(uint64_t seed)
{
    return FAST_X86_SECRET - (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
}

/* A macro because C has no functions over types. */
#define FAST_X86_DEFINE(name, features, lanes, vector)                                 \
    __attribute__((target(features))) size_t name(uint64_t seed, const uint8_t *keys,  \
                                                  size_t n, uint64_t *out)             \
    {                                                                                  \
        const uint64_t mask = fast_x86_mask(seed);                                     \
        size_t i = 0;                                                                  \
        for (; i + (lanes) <= n; i += (lanes)) {                                       \
            vector x;                                                                  \
            memcpy(&x, keys + 8 * i, sizeof x);                                        \
            x = FAST_X86_ROTATE(x, 32) ^ mask;                                         \
            x ^= FAST_X86_ROTATE(x, 49) ^ FAST_X86_ROTATE(x, 24);                      \
            x *= FAST_X86_MULTIPLY;                                                    \
            x ^= (x >> 35) + 8;                                                        \
            x *= FAST_X86_MULTIPLY;                                                    \
            x ^= x >> 28;                                                              \
            memcpy(out + i, &x, sizeof x);                                             \
        }                                                                              \
        return i;                                                                      \
    }

FAST_X86_DEFINE(bgi_fast8_avx2, "avx2", 4, fast_x86_vector4)
FAST_X86_DEFINE(bgi_fast8_avx512, "avx512f,avx512dq", 8, fast_x86_vector8)

#else
/* ISO C forbids an empty file. */
typedef int fast_x86_unused;
#endif

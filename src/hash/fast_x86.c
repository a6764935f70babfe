/*
 * fast_x86.c - XXH3 of 8-byte keys, 8 (AVX-512) or 4 (AVX2) side by side: see fast.h.
 */
#include "hash/fast.h"

#if defined(BGI_X86_64)

#include <string.h>

typedef uint64_t fast_x86_vector4 __attribute__((vector_size(32)));
typedef uint64_t fast_x86_vector8 __attribute__((vector_size(64)));

/* A macro because C has no functions over types. */
#define FAST_X86_DEFINE(name, features, lanes, vector)                                 \
    __attribute__((target(features))) size_t name(uint64_t seed, const uint8_t *keys,  \
                                                  size_t n, uint64_t *out)             \
    {                                                                                  \
        const uint64_t mask = bgi_fast8_mask(seed);                                    \
        size_t i = 0;                                                                  \
        for (; i + (lanes) <= n; i += (lanes)) {                                       \
            vector x;                                                                  \
            memcpy(&x, keys + 8 * i, sizeof x);                                        \
            BGI_FAST8(x, mask);                                                        \
            memcpy(out + i, &x, sizeof x);                                             \
        }                                                                              \
        return i;                                                                      \
    }

FAST_X86_DEFINE(bgi_fast8_avx2, "avx2", 4, fast_x86_vector4)
FAST_X86_DEFINE(bgi_fast8_avx512, "avx512f,avx512dq", 8, fast_x86_vector8)

#endif

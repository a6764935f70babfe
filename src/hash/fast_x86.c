/*
 * fast_x86.c - XXH3 for 8-byte and 16-byte keys, with 8 (AVX-512) or 4 (AVX2) keys hashed in
 * parallel; see fast.h.
 */
#include "hash/fast.h"

#if defined(BGI_X86_64)

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

typedef uint64_t fast_x86_vector4 __attribute__((vector_size(32)));
typedef uint64_t fast_x86_vector8 __attribute__((vector_size(64)));

/* This is a macro because C has no functions that are generic over types. */
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

/* ---- 16 bytes --------------------------------------------------------------------- */

#define FAST_X86_512 __attribute__((target("avx512f,avx512dq,avx512bw")))

/* Multiplies eight pairs of 64-bit numbers and folds the halves of each product with XOR. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_fold(__m512i a, __m512i b)
{
    const __m512i low32 = _mm512_set1_epi64(UINT32_MAX);
    __m512i a_high = _mm512_srli_epi64(a, 32), b_high = _mm512_srli_epi64(b, 32);
    __m512i low_low = _mm512_mul_epu32(a, b);
    __m512i high_low = _mm512_mul_epu32(a_high, b);
    __m512i cross =
        _mm512_add_epi64(_mm512_add_epi64(_mm512_srli_epi64(low_low, 32),
                                          _mm512_and_si512(high_low, low32)),
                         _mm512_mul_epu32(a, b_high));
    __m512i upper = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_srli_epi64(high_low, 32), _mm512_srli_epi64(cross, 32)),
        _mm512_mul_epu32(a_high, b_high));
    __m512i lower =
        _mm512_mask_blend_epi32(0x5555, _mm512_slli_epi64(cross, 32), low_low);
    return _mm512_xor_si512(upper, lower);
}

/* Hashes eight 16-byte keys, given their lower and upper halves. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_16(uint64_t seed, __m512i low, __m512i high)
{
    const __m512i reverse = _mm512_broadcast_i32x4(
        _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    const uint64_t low_mask = BGI_FAST16_SECRET_LOW + seed;
    const uint64_t high_mask = BGI_FAST16_SECRET_HIGH - seed;
    low = _mm512_xor_si512(low, _mm512_set1_epi64((long long)low_mask));
    high = _mm512_xor_si512(high, _mm512_set1_epi64((long long)high_mask));
    __m512i sum = _mm512_add_epi64(_mm512_shuffle_epi8(low, reverse), high);
    sum = _mm512_add_epi64(sum, _mm512_set1_epi64(16));
    sum = _mm512_add_epi64(sum, fast_x86_fold(low, high));
    sum = _mm512_xor_si512(sum, _mm512_srli_epi64(sum, 37));
    sum = _mm512_mullo_epi64(sum, _mm512_set1_epi64((long long)BGI_FAST16_MULTIPLY));
    return _mm512_xor_si512(sum, _mm512_srli_epi64(sum, 32));
}

/* Returns the first words (if `which` is 0) or the second words (if 1) of two vectors of word
 * pairs. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_each(__m512i a, __m512i b, int which)
{
    const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    __m512i index = _mm512_add_epi64(even, _mm512_set1_epi64(which));
    return _mm512_permutex2var_epi64(a, index, b);
}

FAST_X86_512 size_t bgi_fast16_avx512(uint64_t seed, const uint8_t *keys, size_t n,
                                      uint64_t *out)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512i a = _mm512_loadu_si512(keys + 16 * i);
        __m512i b = _mm512_loadu_si512(keys + 16 * i + 64);
        __m512i hashes =
            fast_x86_16(seed, fast_x86_each(a, b, 0), fast_x86_each(a, b, 1));
        _mm512_storeu_si512(out + i, hashes);
    }
    return i;
}

/* ---- Pairs ------------------------------------------------------------------------ */

/* Returns the lengths of eight keys. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_lengths(const bg_bytes *keys)
{
    _Static_assert(sizeof *keys == 16 && offsetof(bg_bytes, len) == 8,
                   "pairs of words");
    return fast_x86_each(_mm512_loadu_si512(keys), _mm512_loadu_si512(keys + 4), 1);
}

BGI_INLINE FAST_X86_512 bool fast_x86_all(__m512i lengths, long long length)
{
    return _mm512_cmpneq_epi64_mask(lengths, _mm512_set1_epi64(length)) == 0;
}

/* Loads eight 8-byte keys. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_gather8(const bg_bytes *keys)
{
    uint64_t k[8];
    for (int i = 0; i < 8; i++) {
        memcpy(&k[i], keys[i].data, sizeof k[i]);
    }
#define FAST_X86_KEY(i) (long long)k[i]
    return _mm512_set_epi64(FAST_X86_KEY(7), FAST_X86_KEY(6), FAST_X86_KEY(5),
                            FAST_X86_KEY(4), FAST_X86_KEY(3), FAST_X86_KEY(2),
                            FAST_X86_KEY(1), FAST_X86_KEY(0));
#undef FAST_X86_KEY
}

/* Loads four 16-byte keys. */
BGI_INLINE FAST_X86_512 __m512i fast_x86_gather4(const bg_bytes *keys)
{
#define FAST_X86_KEY(i) _mm_loadu_si128((const __m128i *)keys[i].data)
    __m512i all = _mm512_castsi128_si512(FAST_X86_KEY(0));
    all = _mm512_inserti64x2(all, FAST_X86_KEY(1), 1);
    all = _mm512_inserti64x2(all, FAST_X86_KEY(2), 2);
    return _mm512_inserti64x2(all, FAST_X86_KEY(3), 3);
#undef FAST_X86_KEY
}

BGI_INLINE FAST_X86_512 __m512i fast_x86_pairs_16(uint64_t seed, const bg_bytes *keys)
{
    __m512i a = fast_x86_gather4(keys), b = fast_x86_gather4(keys + 4);
    return fast_x86_16(seed, fast_x86_each(a, b, 0), fast_x86_each(a, b, 1));
}

BGI_INLINE FAST_X86_512 __m512i fast_x86_pairs_8(uint64_t seed, const bg_bytes *keys)
{
    fast_x86_vector8 x = (fast_x86_vector8)fast_x86_gather8(keys);
    BGI_FAST8(x, bgi_fast8_mask(seed));
    return (__m512i)x;
}

FAST_X86_512 size_t bgi_fast_pairs_avx512(uint64_t seed, const bg_bytes *keys, size_t n,
                                          uint64_t *out)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512i lengths = fast_x86_lengths(keys + i);
        if (fast_x86_all(lengths, 16)) {
            _mm512_storeu_si512(out + i, fast_x86_pairs_16(seed, keys + i));
        } else if (fast_x86_all(lengths, 8)) {
            _mm512_storeu_si512(out + i, fast_x86_pairs_8(seed, keys + i));
        } else {
            break;
        }
    }
    return i;
}

#endif

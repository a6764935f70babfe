/*
 * isa_avx512.c - every kind with 512-bit vectors: a whole line in a register, and masks
 * of lanes in registers of their own.
 */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#if defined(BGI_X86_64)

# include <immintrin.h>
# include <string.h>

# define ISA avx512
# define ISA_TARGET                                                                    \
     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,avx2,bmi,bmi2,popcnt")))

typedef __m256i line_split;

/* Bits of the lanes, and a vector whose sign bits say which lanes are in the upper half
 * of the line. */
typedef struct {
    __m256i bit;
    __m256i upper;
} line_columns;

typedef __m512i line_words;

BGI_INLINE ISA_TARGET line_split line_split_make(uint32_t x)
{
    __m256i salt = _mm256_loadu_si256((const __m256i *)(const void *)line_split_salts);
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salt);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(product, 27));
}

BGI_INLINE ISA_TARGET bool line_split_test(const void *line, line_split pattern)
{
    __m256i words = _mm256_load_si256((const __m256i *)line);
    return _mm256_testn_epi32_mask(words, pattern) == 0;
}

BGI_INLINE ISA_TARGET bool line_split_set(void *line, line_split pattern)
{
    __m256i words = _mm256_load_si256((const __m256i *)line);
    _mm256_store_si256((__m256i *)line, _mm256_or_si256(words, pattern));
    return _mm256_testn_epi32_mask(words, pattern) != 0;
}

BGI_INLINE ISA_TARGET uint32_t line_split_missing(const void *line, line_split pattern,
                                                  uint64_t *bits)
{
    __m256i words = _mm256_load_si256((const __m256i *)line);
    __m256i lacks = _mm256_andnot_si256(words, pattern);
    _mm256_storeu_si256((__m256i *)(void *)bits, pattern);
    return (uint32_t)_mm256_test_epi64_mask(lacks, lacks);
}

/* The rotation takes its count modulo 32, so the top bit of the product, which chooses
 * the half of the line, need not be removed from it. */
BGI_INLINE ISA_TARGET line_columns line_columns_make(uint32_t x)
{
    __m256i salt = _mm256_loadu_si256((const __m256i *)(const void *)line_words_salts);
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salt);
    __m256i position = _mm256_srli_epi32(product, 26);
    return (line_columns){ _mm256_rolv_epi32(_mm256_set1_epi32(1), position), product };
}

BGI_INLINE ISA_TARGET line_columns line_columns_mask(line_columns pattern,
                                                     const uint32_t *window)
{
    __m256i lanes = _mm256_loadu_si256((const __m256i *)(const void *)window);
    pattern.bit = _mm256_and_si256(pattern.bit, lanes);
    return pattern;
}

/* A blend takes each lane's word from the half that its key chose; mask registers would
 * do it in as many instructions, but take longer. */
BGI_INLINE ISA_TARGET bool line_columns_test(const unsigned char *line,
                                             line_columns pattern)
{
    __m256 low = _mm256_load_ps((const float *)(const void *)line);
    __m256 high = _mm256_load_ps((const float *)(const void *)(line + 32));
    __m256 chosen = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(pattern.upper));
    return _mm256_testc_si256(_mm256_castps_si256(chosen), pattern.bit);
}

/* The pattern as the words of the whole line. */
BGI_INLINE ISA_TARGET __m512i line_columns_spread(line_columns pattern)
{
    uint32_t upper = _mm256_movepi32_mask(pattern.upper);
    __mmask16 words = (__mmask16)(upper << 8 | (upper ^ 0xff));
    return _mm512_maskz_broadcast_i32x8(words, pattern.bit);
}

BGI_INLINE ISA_TARGET line_words line_words_make(uint32_t x)
{
    __m512i salt = _mm512_loadu_si512(line_words_salts);
    __m512i product = _mm512_mullo_epi32(_mm512_set1_epi32((int)x), salt);
    return _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32(product, 27));
}

BGI_INLINE ISA_TARGET line_words line_words_mask(line_words pattern,
                                                 const uint32_t *window)
{
    return _mm512_and_si512(pattern, _mm512_loadu_si512(window));
}

BGI_INLINE ISA_TARGET bool line_words_test(const void *line, line_words pattern)
{
    __m512i missing = _mm512_andnot_si512(_mm512_load_si512(line), pattern);
    return _mm512_test_epi32_mask(missing, missing) == 0;
}

BGI_INLINE ISA_TARGET bool line_words_set(void *line, line_words pattern)
{
    __m512i words = _mm512_load_si512(line);
    __m512i missing = _mm512_andnot_si512(words, pattern);
    _mm512_store_si512(line, _mm512_or_si512(words, pattern));
    return _mm512_test_epi32_mask(missing, missing) != 0;
}

BGI_INLINE ISA_TARGET uint32_t line_words_missing(const void *line, line_words pattern,
                                                  uint64_t *bits)
{
    __m512i missing = _mm512_andnot_si512(_mm512_load_si512(line), pattern);
    _mm512_storeu_si512(bits, pattern);
    return (uint32_t)_mm512_test_epi64_mask(missing, missing);
}

BGI_INLINE ISA_TARGET bool line_columns_set(void *line, line_columns pattern)
{
    return line_words_set(line, line_columns_spread(pattern));
}

BGI_INLINE ISA_TARGET uint32_t line_columns_missing(const void *line,
                                                    line_columns pattern, uint64_t *bits)
{
    return line_words_missing(line, line_columns_spread(pattern), bits);
}

/*
 * Eight hashes at once. Their lines are found in one go. They are looked up two at a
 * time, half a register for each; the answers of all eight come out as bytes that are
 * zero where no bit is missing.
 */
# define ISA_EIGHTS

BGI_INLINE ISA_TARGET void line_split_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    __m512i high = _mm512_srli_epi64(_mm512_loadu_si512(hashes), 32);
    __m512i product = _mm512_mul_epu32(high, _mm512_set1_epi64((long long)units));
    __m512i line = _mm512_srli_epi64(product, 32);
    _mm512_storeu_si512(at, _mm512_slli_epi64(line, 5));
}

BGI_INLINE ISA_TARGET void line_words_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    __m512i high = _mm512_srli_epi64(_mm512_loadu_si512(hashes), 12);
    __m512i line = _mm512_madd52hi_epu64(_mm512_setzero_si512(), high,
                                         _mm512_set1_epi64((long long)units));
    _mm512_storeu_si512(at, _mm512_slli_epi64(line, 6));
}

# define line_columns_locate8 line_words_locate8

/* The low halves of hashes 2 * pair and 2 * pair + 1, eight times each. */
BGI_INLINE ISA_TARGET __m512i line_avx512_two(__m512i hashes, int pair)
{
    const __m512i first = _mm512_set_epi32(2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i index = _mm512_add_epi32(first, _mm512_set1_epi32(4 * pair));
    return _mm512_permutexvar_epi32(index, hashes);
}

BGI_INLINE ISA_TARGET __m512i line_avx512_join(const void *low, const void *high)
{
    __m256i first = _mm256_load_si256((const __m256i *)low);
    __m256i second = _mm256_load_si256((const __m256i *)high);
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

BGI_INLINE ISA_TARGET __m512i line_avx512_salts(const uint32_t *salts)
{
    return _mm512_broadcast_i32x8(
        _mm256_loadu_si256((const __m256i *)(const void *)salts));
}

/* One bit for each of eight bytes, given as four pairs: whether it is zero. */
BGI_INLINE ISA_TARGET uint64_t line_avx512_zero_bytes(const __mmask16 *pair)
{
    __mmask32 low = _mm512_kunpackw(pair[1], pair[0]);
    __mmask32 high = _mm512_kunpackw(pair[3], pair[2]);
    __m128i bytes = _mm_cvtsi64_si128((long long)_mm512_kunpackd(high, low));
    __m128i zero = _mm_cmpeq_epi8(bytes, _mm_setzero_si128());
    return (uint64_t)_mm_movemask_epi8(zero) & 0xff;
}

BGI_INLINE ISA_TARGET uint64_t line_split_test8(const unsigned char *words,
                                                const uint64_t *at,
                                                const uint64_t *hashes,
                                                const uint64_t *rotations)
{
    const __m512i salt = line_avx512_salts(line_split_salts);
    const __m512i one = _mm512_set1_epi32(1);
    __m512i all = _mm512_loadu_si512(hashes);
    __mmask16 missing[4];
    (void)rotations;
    for (int pair = 0; pair < 4; pair++) {
        __m512i product = _mm512_mullo_epi32(line_avx512_two(all, pair), salt);
        __m512i bit = _mm512_sllv_epi32(one, _mm512_srli_epi32(product, 27));
        __m512i block = line_avx512_join(words + at[2 * pair], words + at[2 * pair + 1]);
        missing[pair] = _mm512_testn_epi32_mask(block, bit);
    }
    return line_avx512_zero_bytes(missing);
}

/* The lanes in use of eight keys, one byte each: `rotations` shifted to the byte that the
 * top three bits of line_rotation's product number. */
BGI_INLINE ISA_TARGET uint64_t line_avx512_lanes(__m512i hashes, uint64_t rotations)
{
    __m512i product = _mm512_mullo_epi32(hashes, _mm512_set1_epi64(line_rotation_salt));
    __m512i shift = _mm512_and_si512(_mm512_srli_epi32(product, 26),
                                     _mm512_set1_epi64(0x38));
    __m512i byte = _mm512_srlv_epi64(_mm512_set1_epi64((long long)rotations), shift);
    return (uint64_t)_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(byte));
}

BGI_INLINE ISA_TARGET uint64_t line_columns_test8(const unsigned char *words,
                                                  const uint64_t *at,
                                                  const uint64_t *hashes,
                                                  const uint64_t *rotations)
{
    const __m512i salt = line_avx512_salts(line_words_salts);
    const __m512i one = _mm512_set1_epi32(1);
    __m512i all = _mm512_loadu_si512(hashes);
    uint64_t lanes = rotations ? line_avx512_lanes(all, *rotations) : UINT64_MAX;
    __mmask16 missing[4];
    for (int pair = 0; pair < 4; pair++) {
        const unsigned char *a = words + at[2 * pair], *b = words + at[2 * pair + 1];
        __m512i product = _mm512_mullo_epi32(line_avx512_two(all, pair), salt);
        __m512i bit = _mm512_rolv_epi32(one, _mm512_srli_epi32(product, 26));
        __m512i chosen = _mm512_mask_blend_epi32(_mm512_movepi32_mask(product),
                                                 line_avx512_join(a, b),
                                                 line_avx512_join(a + 32, b + 32));
        __mmask16 active = (__mmask16)(lanes >> (16 * pair));
        missing[pair] = _mm512_mask_testn_epi32_mask(active, chosen, bit);
    }
    return line_avx512_zero_bytes(missing);
}

# include "kind/ops_pick.h"

#endif

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
     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt")))

typedef __m256i line_split;

/* One bit in each of the 16 words, and the mask of the words that count. */
typedef struct {
    __m512i bit;
    __mmask16 words;
} line_columns;

typedef line_columns line_words;

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

/*
 * Each column's product stands in both halves. The rotation takes its count modulo 32,
 * so the top bit, which chooses the half, need not be removed from it.
 */
BGI_INLINE ISA_TARGET line_columns line_columns_make(uint32_t x)
{
    __m256i salts = _mm256_loadu_si256((const __m256i *)(const void *)line_words_salts);
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salts);
    __m512i both = _mm512_broadcast_i64x4(product);
    uint32_t upper = (uint32_t)_mm256_movepi32_mask(product);
    __m512i bit = _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32(both, 26));
    return (line_columns){ bit, (__mmask16)(upper << 8 | (upper ^ 0xff)) };
}

BGI_INLINE ISA_TARGET line_columns line_columns_mask(line_columns pattern,
                                                     const uint32_t *window)
{
    __m256i lanes = _mm256_loadu_si256((const __m256i *)(const void *)window);
    uint32_t mask = (uint32_t)_mm256_movepi32_mask(lanes);
    pattern.words = (__mmask16)(pattern.words & (mask << 8 | mask));
    return pattern;
}

BGI_INLINE ISA_TARGET bool line_columns_test(const void *line, line_columns pattern)
{
    __m512i words = _mm512_load_si512(line);
    return _mm512_mask_testn_epi32_mask(pattern.words, words, pattern.bit) == 0;
}

BGI_INLINE ISA_TARGET bool line_columns_set(void *line, line_columns pattern)
{
    __m512i words = _mm512_load_si512(line);
    __m512i both = _mm512_mask_or_epi32(words, pattern.words, words, pattern.bit);
    _mm512_store_si512(line, both);
    return _mm512_mask_testn_epi32_mask(pattern.words, words, pattern.bit) != 0;
}

BGI_INLINE ISA_TARGET uint32_t line_columns_missing(const void *line,
                                                    line_columns pattern, uint64_t *bits)
{
    __m512i words = _mm512_load_si512(line);
    __m512i wanted = _mm512_maskz_mov_epi32(pattern.words, pattern.bit);
    __m512i lacks = _mm512_andnot_si512(words, wanted);
    _mm512_storeu_si512(bits, wanted);
    return (uint32_t)_mm512_test_epi64_mask(lacks, lacks);
}

BGI_INLINE ISA_TARGET line_words line_words_make(uint32_t x)
{
    __m512i salt = _mm512_loadu_si512(line_words_salts);
    __m512i product = _mm512_mullo_epi32(_mm512_set1_epi32((int)x), salt);
    __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32(product, 27));
    return (line_words){ bit, 0xffff };
}

BGI_INLINE ISA_TARGET line_words line_words_mask(line_words pattern,
                                                 const uint32_t *window)
{
    pattern.words = _mm512_movepi32_mask(_mm512_loadu_si512(window));
    return pattern;
}

# define line_words_test    line_columns_test
# define line_words_set     line_columns_set
# define line_words_missing line_columns_missing

# include "kind/ops_pick.h"

#endif

/* isa_avx512.c - implements all kinds with 512-bit vectors; a register holds a whole line. */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#if defined(BGI_X86_64)

#include <immintrin.h>
#include <string.h>

#define ISA            avx512
#define ISA_RACES      BGI_NO_TSAN
#define ISA_LANE_MASKS 1
#define ISA_TARGET                                                                     \
    __attribute__((                                                                    \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,avx2,bmi,bmi2,popcnt")))
#define ISA_WIDE_COMPARE
#define ISA_EIGHTS
#define ISA_EIGHTS_UNITS (((uint64_t)1 << 52) - 1)

/* ---- Locating lines and lanes of eight hashes at once ------------ */

BGI_INLINE ISA_TARGET void line_split_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    __m512i high = _mm512_srli_epi64(_mm512_loadu_si512(hashes), 32);
    __m512i product = _mm512_mul_epu32(high, _mm512_set1_epi64((long long)units));
    __m512i line = _mm512_srli_epi64(product, 32);
    _mm512_storeu_si512(at, _mm512_slli_epi64(line, 5));
}

/* Computes bgi_range52 of eight hashes, and shifts the results left by `shift`. */
BGI_INLINE ISA_TARGET void isa_range52_8(const uint64_t *hashes, uint64_t units,
                                         unsigned shift, uint64_t *at)
{
    __m512i high = _mm512_srli_epi64(_mm512_loadu_si512(hashes), 12);
    __m512i line = _mm512_madd52hi_epu64(_mm512_setzero_si512(), high,
                                         _mm512_set1_epi64((long long)units));
    _mm512_storeu_si512(at, _mm512_slli_epi64(line, shift));
}

BGI_INLINE ISA_TARGET void line_words_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    isa_range52_8(hashes, units, 6, at);
}

#define line_columns_locate8 line_words_locate8

/* Returns the lanes of eight hashes from the table of rotations, each in the low 16 bits of a
 * 64-bit element. */
BGI_INLINE ISA_TARGET __m512i line_avx512_lanes(const uint64_t *hashes,
                                                const uint16_t *rotations, int shift)
{
    __m256i once = _mm256_loadu_si256((const __m256i *)(const void *)rotations);
    __m512i product = _mm512_mullo_epi32(_mm512_loadu_si512(hashes),
                                         _mm512_set1_epi64(line_rotation_salt));
    __m512i index = _mm512_srli_epi32(product, (unsigned)shift);
    return _mm512_permutexvar_epi16(index, _mm512_broadcast_i64x4(once));
}

BGI_INLINE ISA_TARGET void
line_columns_needed8(const uint64_t *hashes, const uint16_t *rotations, uint8_t *needed)
{
    __m512i lanes = line_avx512_lanes(hashes, rotations, 29);
    _mm_storel_epi64((__m128i *)(void *)needed, _mm512_cvtepi64_epi8(lanes));
}

BGI_INLINE ISA_TARGET void
line_words_needed8(const uint64_t *hashes, const uint16_t *rotations, uint16_t *needed)
{
    __m512i lanes = line_avx512_lanes(hashes, rotations, 28);
    _mm_storeu_si128((__m128i *)(void *)needed, _mm512_cvtepi64_epi16(lanes));
}

/* ---- Split: a block is half a register -------------------------------------------- */

typedef __m256i line_split;

/* Lines are aligned, except in packed filters, which are only read. */
BGI_INLINE ISA_TARGET __m256i line_avx512_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

BGI_INLINE ISA_TARGET __m256i line_avx512_product(uint32_t x, const uint32_t *salts)
{
    __m256i salt = _mm256_loadu_si256((const __m256i *)(const void *)salts);
    return _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salt);
}

BGI_INLINE ISA_TARGET line_split line_split_make(uint32_t x)
{
    __m256i product = line_avx512_product(x, line_split_salts);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(product, 27));
}

BGI_INLINE ISA_TARGET uint32_t line_split_found(const void *line, uint32_t x)
{
    return _mm256_test_epi32_mask(line_avx512_load(line), line_split_make(x));
}

BGI_INLINE ISA_TARGET uint32_t line_split_set(void *line, line_split pattern)
{
    __m256i words = line_avx512_load(line);
    _mm256_store_si256((__m256i *)line, _mm256_or_si256(words, pattern));
    return _mm256_testn_epi32_mask(words, pattern);
}

BGI_INLINE ISA_TARGET bool line_split_lacks(const void *line, line_split pattern)
{
    return !_mm256_testc_si256(line_avx512_load(line), pattern);
}

BGI_INLINE ISA_TARGET uint32_t line_split_missing(const void *line, line_split pattern,
                                                  uint64_t *bits)
{
    __m256i lacks = _mm256_andnot_si256(line_avx512_load(line), pattern);
    _mm256_storeu_si256((__m256i *)(void *)bits, pattern);
    return _mm256_test_epi64_mask(lacks, lacks);
}

/* ---- Words ------------------------------------------------------------------------ */

typedef __m512i line_words;

/*
 * Loads a line in two halves. With one 512-bit load, a batch lookup in a filter of 1e8 keys takes
 * 7.6 ns/key instead of 4.9 ns/key, apparently because such a load occupies two line-fill buffers
 * (Zen 4). The empty asm keeps compilers from merging the two loads.
 */
BGI_INLINE ISA_TARGET __m512i line_avx512_load_line(const void *line)
{
    const __m256i *half = line;
    __m256i low = line_avx512_load(half);
    __asm__("" : "+v"(low));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), line_avx512_load(half + 1),
                              1);
}

BGI_INLINE ISA_TARGET __m512i line_words_place(uint32_t x)
{
    __m512i salt = _mm512_loadu_si512(line_words_salts);
    return _mm512_srli_epi32(_mm512_mullo_epi32(_mm512_set1_epi32((int)x), salt), 27);
}

BGI_INLINE ISA_TARGET uint32_t line_words_found(const void *line, uint32_t x)
{
    __m512i sign = _mm512_sllv_epi32(line_avx512_load_line(line), line_words_place(x));
    return _mm512_movepi32_mask(sign);
}

BGI_INLINE ISA_TARGET line_words line_words_make(uint32_t x)
{
    return _mm512_srlv_epi32(_mm512_set1_epi32(INT32_MIN), line_words_place(x));
}

BGI_INLINE ISA_TARGET line_words line_words_mask(line_words pattern,
                                                 const struct bgi_core *core,
                                                 uint32_t rotation, uint32_t lanes)
{
    (void)core, (void)rotation;
    return _mm512_maskz_mov_epi32((__mmask16)lanes, pattern);
}

BGI_INLINE ISA_TARGET uint32_t line_words_set(void *line, line_words pattern)
{
    __m512i words = line_avx512_load_line(line),
            after = _mm512_or_si512(words, pattern);
    _mm512_store_si512(line, after);
    return _mm512_cmpneq_epi32_mask(words, after);
}

BGI_INLINE ISA_TARGET bool line_words_lacks(const void *line, line_words pattern)
{
    const __m512i lacks = _mm512_andnot_si512(line_avx512_load_line(line), pattern);
    return _mm512_test_epi32_mask(lacks, lacks) != 0;
}

BGI_INLINE ISA_TARGET uint32_t line_words_missing(const void *line, line_words pattern,
                                                  uint64_t *bits)
{
    __m512i lacks = _mm512_andnot_si512(line_avx512_load_line(line), pattern);
    _mm512_storeu_si512(bits, pattern);
    return _mm512_test_epi64_mask(lacks, lacks);
}

/* ---- Columns ---------------------------------------------------------------------- */

/*
 * Works on the two halves of the line separately, because 512-bit operations take twice as long,
 * and with 512-bit loads only half as many lines can be in flight from memory.
 */
typedef struct {
    __m256i low, high;
} line_columns;

/*
 * Uses a blend to select each lane's word from the half of the line that the hash selects.
 * Rotations use their count modulo 32, so the top bit of the product, which selects the half,
 * need not be cleared.
 */
BGI_INLINE ISA_TARGET uint32_t line_columns_found(const unsigned char *line, uint32_t x)
{
    __m256i product = line_avx512_product(x, line_words_salts);
    __m256 low = _mm256_castsi256_ps(line_avx512_load(line));
    __m256 high = _mm256_castsi256_ps(line_avx512_load(line + 32));
    __m256 chosen = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(product));
    __m256i sign =
        _mm256_rolv_epi32(_mm256_castps_si256(chosen), _mm256_srli_epi32(product, 26));
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(sign));
}

/*
 * The top six bits of the product are the distance of the key's bit from the top of the lower word.
 * With the highest of the six bits flipped, they are the distance from the top of the upper word.
 * In the word that is not selected, the distance is 32 or more; a shift by that distance gives 0.
 */
BGI_INLINE ISA_TARGET line_columns line_columns_make(uint32_t x)
{
    __m256i place = _mm256_srli_epi32(line_avx512_product(x, line_words_salts), 26);
    __m256i other = _mm256_xor_si256(place, _mm256_set1_epi32(32));
    __m256i top = _mm256_set1_epi32(INT32_MIN);
    return (line_columns){ _mm256_srlv_epi32(top, place),
                           _mm256_srlv_epi32(top, other) };
}

BGI_INLINE ISA_TARGET line_columns line_columns_mask(line_columns pattern,
                                                     const struct bgi_core *core,
                                                     uint32_t rotation, uint32_t lanes)
{
    (void)core, (void)rotation;
    return (line_columns){ _mm256_maskz_mov_epi32((__mmask8)lanes, pattern.low),
                           _mm256_maskz_mov_epi32((__mmask8)lanes, pattern.high) };
}

BGI_INLINE ISA_TARGET uint32_t line_columns_set(unsigned char *line,
                                                line_columns pattern)
{
    __m256i low = line_avx512_load(line), high = line_avx512_load(line + 32);
    __m256i low_after = _mm256_or_si256(low, pattern.low);
    __m256i high_after = _mm256_or_si256(high, pattern.high);
    _mm256_store_si256((__m256i *)(void *)line, low_after);
    _mm256_store_si256((__m256i *)(void *)(line + 32), high_after);
    enum { A_OR_B_XOR_C = 0xf6 };
    __m256i changed = _mm256_ternarylogic_epi32(_mm256_xor_si256(low, low_after), high,
                                                high_after, A_OR_B_XOR_C);
    return _mm256_test_epi32_mask(changed, changed);
}

BGI_INLINE ISA_TARGET bool line_columns_lacks(const unsigned char *line,
                                              line_columns pattern)
{
    enum { A_OR_B_ANDNOT_C = 0xf4 };
    const __m256i low = _mm256_andnot_si256(line_avx512_load(line), pattern.low);
    const __m256i lacks = _mm256_ternarylogic_epi32(
        low, pattern.high, line_avx512_load(line + 32), A_OR_B_ANDNOT_C);
    return !_mm256_testz_si256(lacks, lacks);
}

BGI_INLINE ISA_TARGET uint32_t line_columns_missing(const void *line,
                                                    line_columns pattern,
                                                    uint64_t *bits)
{
    __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(pattern.low), pattern.high, 1);
    return line_words_missing(line, both, bits);
}

/* ---- 64 answers ------------------------------------------------------------------- */

BGI_INLINE ISA_TARGET uint64_t line_columns_all(const uint8_t *found,
                                                const uint8_t *needed)
{
    __m512i lacks =
        _mm512_andnot_si512(_mm512_load_si512(found), _mm512_load_si512(needed));
    return _mm512_testn_epi8_mask(lacks, lacks);
}

#define line_split_all line_columns_all

BGI_INLINE ISA_TARGET uint64_t line_words_all(const uint16_t *found,
                                              const uint16_t *needed)
{
    __m512i low =
        _mm512_andnot_si512(_mm512_load_si512(found), _mm512_load_si512(needed));
    __m512i high = _mm512_andnot_si512(_mm512_load_si512(found + 32),
                                       _mm512_load_si512(needed + 32));
    return _mm512_testn_epi16_mask(low, low)
           | (uint64_t)_mm512_testn_epi16_mask(high, high) << 32;
}

#include "kind/ops_pick.h"

#endif

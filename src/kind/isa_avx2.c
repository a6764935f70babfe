/* isa_avx2.c - implements all kinds with 256-bit vectors; a register holds half a line. */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#if defined(BGI_X86_64)

#include <immintrin.h>
#include <string.h>

#define ISA            avx2
#define ISA_RACES      BGI_NO_TSAN
#define ISA_LANE_MASKS 0
#define ISA_TARGET     __attribute__((target("avx2,bmi,bmi2,popcnt")))

#define ISA_EIGHTS
#define ISA_EIGHTS_UNITS UINT32_MAX

/* ---- Locating lines and lanes of eight hashes at once ------------------------------- */

BGI_INLINE ISA_TARGET __m256i line_avx2_loadu(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

BGI_INLINE ISA_TARGET void line_avx2_storeu(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

BGI_INLINE ISA_TARGET void line_split_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    const __m256i range = _mm256_set1_epi64x((long long)units);
    for (unsigned i = 0; i < 8; i += 4) {
        __m256i high = _mm256_srli_epi64(line_avx2_loadu(hashes + i), 32);
        __m256i line = _mm256_srli_epi64(_mm256_mul_epu32(high, range), 32);
        line_avx2_storeu(at + i, _mm256_slli_epi64(line, 5));
    }
}

/* Computes bgi_range52 of eight hashes, and shifts the results left by `shift`. The high part of a
 * 52 x 32 bit product is computed from two 32-bit products: with a = a1 2^32 + a0, floor(a u /
 * 2^52) = floor((a1 u + floor(a0 u / 2^32)) / 2^20). */
BGI_INLINE ISA_TARGET void isa_range52_8(const uint64_t *hashes, uint64_t units,
                                         unsigned shift, uint64_t *at)
{
    const __m256i range = _mm256_set1_epi64x((long long)units);
    for (unsigned i = 0; i < 8; i += 4) {
        __m256i a = _mm256_srli_epi64(line_avx2_loadu(hashes + i), 12);
        __m256i low = _mm256_srli_epi64(_mm256_mul_epu32(a, range), 32);
        __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), range);
        __m256i line = _mm256_srli_epi64(_mm256_add_epi64(high, low), 20);
        line_avx2_storeu(at + i, _mm256_slli_epi64(line, (int)shift));
    }
}

BGI_INLINE ISA_TARGET void line_words_locate8(const uint64_t *hashes, uint64_t units,
                                              uint64_t *at)
{
    isa_range52_8(hashes, units, 6, at);
}

#define line_columns_locate8 line_words_locate8

/* Returns the rotations of four hashes, each in the low byte of a 64-bit element. */
BGI_INLINE ISA_TARGET __m256i line_avx2_rotation(const uint64_t *hashes, int shift)
{
    const __m256i salt = _mm256_set1_epi64x(line_rotation_salt);
    __m256i product = _mm256_mullo_epi32(line_avx2_loadu(hashes), salt);
    return _mm256_srli_epi32(product, shift);
}

/* Looks up byte 0 of each 64-bit element in a table of 16 bytes, and packs the results into the low
 * two bytes of each 128-bit half. */
BGI_INLINE ISA_TARGET __m256i line_avx2_look_up(__m256i index, __m128i table)
{
    const __m256i pick =
        _mm256_setr_epi8(0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                         0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i both = _mm256_broadcastsi128_si256(table);
    return _mm256_shuffle_epi8(_mm256_shuffle_epi8(both, index), pick);
}

/* Returns the low bytes of sixteen 16-bit numbers, or the high bytes if `shift` is 8. */
BGI_INLINE ISA_TARGET __m128i line_avx2_bytes(const uint16_t *numbers, int shift)
{
    __m256i half = _mm256_srli_epi16(line_avx2_loadu(numbers), shift);
    __m256i byte = _mm256_and_si256(half, _mm256_set1_epi16(0xff));
    return _mm_packus_epi16(_mm256_castsi256_si128(byte),
                            _mm256_extracti128_si256(byte, 1));
}

BGI_INLINE ISA_TARGET uint32_t line_avx2_four(__m256i looked_up)
{
    uint32_t low = (uint32_t)_mm256_cvtsi256_si32(looked_up);
    uint32_t high = (uint32_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(looked_up, 1));
    return low | high << 16;
}

BGI_INLINE ISA_TARGET void
line_columns_needed8(const uint64_t *hashes, const uint16_t *rotations, uint8_t *needed)
{
    const __m128i table = line_avx2_bytes(rotations, 0);
    for (unsigned i = 0; i < 8; i += 4) {
        __m256i index = line_avx2_rotation(hashes + i, 29);
        uint32_t four = line_avx2_four(line_avx2_look_up(index, table));
        memcpy(needed + i, &four, sizeof four);
    }
}

BGI_INLINE ISA_TARGET void
line_words_needed8(const uint64_t *hashes, const uint16_t *rotations, uint16_t *needed)
{
    const __m128i low = line_avx2_bytes(rotations, 0);
    const __m128i high = line_avx2_bytes(rotations, 8);
    for (unsigned i = 0; i < 8; i += 4) {
        __m256i index = line_avx2_rotation(hashes + i, 28);
        __m256i lanes = _mm256_unpacklo_epi8(line_avx2_look_up(index, low),
                                             line_avx2_look_up(index, high));
        uint64_t upper =
            (uint32_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(lanes, 1));
        uint64_t four = (uint32_t)_mm256_cvtsi256_si32(lanes) | upper << 32;
        memcpy(needed + i, &four, sizeof four);
    }
}

/* ---- The shapes --------------------------------------------------------------------- */

typedef __m256i line_split;

/* One bit for each lane, and a vector whose sign bits mark the lanes whose bit is in the upper half
 * of the line. */
typedef struct {
    __m256i bit;
    __m256i upper;
} line_columns;

typedef struct {
    __m256i low;
    __m256i high;
} line_words;

BGI_INLINE ISA_TARGET __m256i line_avx2_product(uint32_t x, const uint32_t *salts)
{
    __m256i salt = _mm256_loadu_si256((const __m256i *)(const void *)salts);
    return _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salt);
}

/* Returns a vector with one bit set in each lane. The top five bits of each lane of `top5` specify
 * the position of that lane's bit, counted from the top. */
BGI_INLINE ISA_TARGET __m256i line_avx2_bit(__m256i top5)
{
    return _mm256_srlv_epi32(_mm256_set1_epi32(INT32_MIN), _mm256_srli_epi32(top5, 27));
}

/* Returns a mask of the lanes in which the bit specified by `top5` is set in `words`. */
BGI_INLINE ISA_TARGET uint32_t line_avx2_found(__m256i words, __m256i top5)
{
    __m256i sign = _mm256_sllv_epi32(words, _mm256_srli_epi32(top5, 27));
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(sign));
}

/* Lines are aligned, except in packed filters, which are only read. */
BGI_INLINE ISA_TARGET __m256i line_avx2_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* ORs `bits` into 32 bytes. Returns the bits that were not set before. */
BGI_INLINE ISA_TARGET __m256i line_avx2_or(void *p, __m256i bits)
{
    __m256i old = line_avx2_load(p);
    _mm256_store_si256((__m256i *)p, _mm256_or_si256(old, bits));
    return _mm256_andnot_si256(old, bits);
}

/* Returns a mask of the 64-bit words (out of four) in which some of `bits` are not set. */
BGI_INLINE ISA_TARGET uint32_t line_avx2_lacking(const void *p, __m256i bits)
{
    __m256i lacks = _mm256_andnot_si256(line_avx2_load(p), bits);
    __m256i none = _mm256_cmpeq_epi64(lacks, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(none)) ^ 0xfu;
}

BGI_INLINE ISA_TARGET void line_avx2_store(uint64_t *to, __m256i bits)
{
    _mm256_storeu_si256((__m256i *)(void *)to, bits);
}

/* Parquet counts bit positions from the lowest bit. */
BGI_INLINE ISA_TARGET line_split line_split_make(uint32_t x)
{
    __m256i product = line_avx2_product(x, line_split_salts);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(product, 27));
}

BGI_INLINE ISA_TARGET uint32_t line_split_found(const void *line, uint32_t x)
{
    __m256i bit = line_split_make(x);
    __m256i same = _mm256_cmpeq_epi32(_mm256_and_si256(line_avx2_load(line), bit), bit);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same));
}

BGI_INLINE ISA_TARGET bool line_split_lacks(const void *line, line_split pattern)
{
    return !_mm256_testc_si256(line_avx2_load(line), pattern);
}

BGI_INLINE ISA_TARGET uint32_t line_split_set(void *line, line_split pattern)
{
    __m256i missing = line_avx2_or(line, pattern);
    return !_mm256_testz_si256(missing, missing);
}

BGI_INLINE ISA_TARGET uint32_t line_split_missing(const void *line, line_split pattern,
                                                  uint64_t *bits)
{
    line_avx2_store(bits, pattern);
    return line_avx2_lacking(line, pattern);
}

BGI_INLINE ISA_TARGET line_columns line_columns_make(uint32_t x)
{
    __m256i product = line_avx2_product(x, line_words_salts);
    return (line_columns){ line_avx2_bit(_mm256_slli_epi32(product, 1)), product };
}

BGI_INLINE ISA_TARGET line_columns line_columns_mask(line_columns pattern,
                                                     const struct bgi_core *core,
                                                     uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    __m256i used = _mm256_loadu_si256((const __m256i *)(const void *)window);
    pattern.bit = _mm256_and_si256(pattern.bit, used);
    return pattern;
}

/* Uses a blend to select each lane's word from the half of the line that the hash selects. */
BGI_INLINE ISA_TARGET uint32_t line_columns_found(const unsigned char *line, uint32_t x)
{
    __m256i product = line_avx2_product(x, line_words_salts);
    __m256 low = _mm256_castsi256_ps(line_avx2_load(line));
    __m256 high = _mm256_castsi256_ps(line_avx2_load(line + 32));
    __m256 chosen = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(product));
    return line_avx2_found(_mm256_castps_si256(chosen), _mm256_slli_epi32(product, 1));
}

/* Returns the pattern as the words of the whole line. */
BGI_INLINE ISA_TARGET line_words line_columns_spread(line_columns pattern)
{
    __m256i upper = _mm256_srai_epi32(pattern.upper, 31);
    return (line_words){ _mm256_andnot_si256(upper, pattern.bit),
                         _mm256_and_si256(upper, pattern.bit) };
}

BGI_INLINE ISA_TARGET line_words line_words_make(uint32_t x)
{
    return (line_words){ line_avx2_bit(line_avx2_product(x, line_words_salts)),
                         line_avx2_bit(line_avx2_product(x, line_words_salts + 8)) };
}

BGI_INLINE ISA_TARGET line_words line_words_mask(line_words pattern,
                                                 const struct bgi_core *core,
                                                 uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)window);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(window + 8));
    return (line_words){ _mm256_and_si256(pattern.low, low),
                         _mm256_and_si256(pattern.high, high) };
}

BGI_INLINE ISA_TARGET uint32_t line_words_found(const unsigned char *line, uint32_t x)
{
    uint32_t low =
        line_avx2_found(line_avx2_load(line), line_avx2_product(x, line_words_salts));
    uint32_t high = line_avx2_found(line_avx2_load(line + 32),
                                    line_avx2_product(x, line_words_salts + 8));
    return low | high << 8;
}

BGI_INLINE ISA_TARGET bool line_words_lacks(const unsigned char *line,
                                            line_words pattern)
{
    __m256i low = _mm256_andnot_si256(line_avx2_load(line), pattern.low);
    __m256i high = _mm256_andnot_si256(line_avx2_load(line + 32), pattern.high);
    __m256i lacks = _mm256_or_si256(low, high);
    return !_mm256_testz_si256(lacks, lacks);
}

BGI_INLINE ISA_TARGET uint32_t line_words_set(unsigned char *line, line_words pattern)
{
    __m256i low = line_avx2_or(line, pattern.low);
    __m256i high = line_avx2_or(line + 32, pattern.high);
    __m256i missing = _mm256_or_si256(low, high);
    return !_mm256_testz_si256(missing, missing);
}

BGI_INLINE ISA_TARGET uint32_t line_words_missing(const uint64_t *line,
                                                  line_words pattern, uint64_t *bits)
{
    line_avx2_store(bits, pattern.low);
    line_avx2_store(bits + 4, pattern.high);
    return line_avx2_lacking(line, pattern.low)
           | line_avx2_lacking(line + 4, pattern.high) << 4;
}

BGI_INLINE ISA_TARGET bool line_columns_lacks(const unsigned char *line,
                                              line_columns pattern)
{
    return line_words_lacks(line, line_columns_spread(pattern));
}

BGI_INLINE ISA_TARGET uint32_t line_columns_set(unsigned char *line,
                                                line_columns pattern)
{
    return line_words_set(line, line_columns_spread(pattern));
}

BGI_INLINE ISA_TARGET uint32_t line_columns_missing(const uint64_t *line,
                                                    line_columns pattern,
                                                    uint64_t *bits)
{
    return line_words_missing(line, line_columns_spread(pattern), bits);
}

/* Returns a bit mask of the bytes in which `found` includes all bits of `needed`. */
BGI_INLINE ISA_TARGET uint64_t line_avx2_zero_bytes(const void *found,
                                                    const void *needed)
{
    __m256i lacks = _mm256_andnot_si256(line_avx2_load(found), line_avx2_load(needed));
    __m256i zero = _mm256_cmpeq_epi8(lacks, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_epi8(zero);
}

BGI_INLINE ISA_TARGET uint64_t line_columns_all(const uint8_t *found,
                                                const uint8_t *needed)
{
    return line_avx2_zero_bytes(found, needed)
           | line_avx2_zero_bytes(found + 32, needed + 32) << 32;
}

#define line_split_all line_columns_all

/* The instruction that packs two vectors of 16-bit results into bytes works on each 128-bit half
 * separately; the permutation restores the order. */
BGI_INLINE ISA_TARGET uint64_t line_avx2_zero_pairs(const uint16_t *found,
                                                    const uint16_t *needed)
{
    const __m256i none = _mm256_setzero_si256();
    __m256i a = _mm256_andnot_si256(line_avx2_load(found), line_avx2_load(needed));
    __m256i b =
        _mm256_andnot_si256(line_avx2_load(found + 16), line_avx2_load(needed + 16));
    __m256i packed =
        _mm256_packs_epi16(_mm256_cmpeq_epi16(a, none), _mm256_cmpeq_epi16(b, none));
    __m256i sorted = _mm256_permute4x64_epi64(packed, 0xd8);
    return (uint32_t)_mm256_movemask_epi8(sorted);
}

BGI_INLINE ISA_TARGET uint64_t line_words_all(const uint16_t *found,
                                              const uint16_t *needed)
{
    return line_avx2_zero_pairs(found, needed)
           | line_avx2_zero_pairs(found + 32, needed + 32) << 32;
}

#include "kind/ops_pick.h"

#endif

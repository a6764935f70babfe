/*
 * isa_neon.c - implements all kinds with the 128-bit vectors of ARMv8; a register holds a
 * quarter of a line.
 */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#if defined(BGI_AARCH64)

#include <arm_neon.h>
#include <string.h>

#define ISA            neon
#define ISA_RACES      BGI_NO_TSAN
#define ISA_LANE_MASKS 0
#define ISA_TARGET

/* A pattern, stored as the words of a line in which the pattern's bits are set. */
typedef struct {
    uint32x4_t part[2];
} line_split;

typedef struct {
    uint32x4_t part[4];
} line_columns;

typedef line_columns line_words;

BGI_INLINE uint32x4_t line_neon_product(uint32_t x, const uint32_t *salts)
{
    return vmulq_n_u32(vld1q_u32(salts), x);
}

/* The top five bits of each lane specify a bit position, counted from the top of the word.
 * line_neon_place returns these positions, and line_neon_bit returns words in which the bits at
 * these positions are set. */
BGI_INLINE int32x4_t line_neon_place(uint32x4_t top5)
{
    return vreinterpretq_s32_u32(vshrq_n_u32(top5, 27));
}

BGI_INLINE uint32x4_t line_neon_bit(uint32x4_t top5)
{
    return vshlq_u32(vdupq_n_u32(0x80000000u), vnegq_s32(line_neon_place(top5)));
}

/* Returns the sign bits of four lanes as bits 0 .. 3. */
BGI_INLINE uint32_t line_neon_signs(uint32x4_t v)
{
    const int32x4_t place = { 0, 1, 2, 3 };
    return vaddvq_u32(vshlq_u32(vshrq_n_u32(v, 31), place));
}

/* Returns a mask of the lanes in which the bit specified by `top5` is set in `words`. */
BGI_INLINE uint32_t line_neon_found(uint32x4_t words, uint32x4_t top5)
{
    return line_neon_signs(vshlq_u32(words, line_neon_place(top5)));
}

/* Parquet counts bit positions from the lowest bit. */
BGI_INLINE line_split line_split_make(uint32_t x)
{
    line_split pattern;
    for (unsigned i = 0; i < 2; i++) {
        uint32x4_t product = line_neon_product(x, line_split_salts + 4 * i);
        pattern.part[i] = vshlq_u32(vdupq_n_u32(1), line_neon_place(product));
    }
    return pattern;
}

BGI_INLINE uint32_t line_split_found(const void *line, uint32_t x)
{
    line_split pattern = line_split_make(x);
    uint32_t found = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint32x4_t words = vld1q_u32((const uint32_t *)line + 4 * i);
        found |= line_neon_signs(vtstq_u32(words, pattern.part[i])) << (4 * i);
    }
    return found;
}

/* Returns a mask for each column: all ones if the product selects the word in the upper half of the
 * line, and 0 otherwise. */
BGI_INLINE uint32x4_t line_neon_upper(uint32x4_t product)
{
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(product), 31));
}

BGI_INLINE uint32_t line_columns_found(const void *line, uint32_t x)
{
    const uint32_t *at = line;
    uint32_t found = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint32x4_t product = line_neon_product(x, line_words_salts + 4 * i);
        uint32x4_t chosen = vbslq_u32(line_neon_upper(product),
                                      vld1q_u32(at + 8 + 4 * i), vld1q_u32(at + 4 * i));
        found |= line_neon_found(chosen, vshlq_n_u32(product, 1)) << (4 * i);
    }
    return found;
}

BGI_INLINE line_columns line_columns_make(uint32_t x)
{
    line_columns pattern;
    for (unsigned i = 0; i < 2; i++) {
        uint32x4_t product = line_neon_product(x, line_words_salts + 4 * i);
        uint32x4_t bit = line_neon_bit(vshlq_n_u32(product, 1));
        uint32x4_t upper = line_neon_upper(product);
        pattern.part[i] = vbicq_u32(bit, upper);
        pattern.part[i + 2] = vandq_u32(bit, upper);
    }
    return pattern;
}

BGI_INLINE line_columns line_columns_mask(line_columns pattern,
                                          const struct bgi_core *core,
                                          uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = vandq_u32(pattern.part[i], vld1q_u32(window + 4 * (i % 2)));
    }
    return pattern;
}

BGI_INLINE uint32_t line_words_found(const void *line, uint32_t x)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32x4_t words = vld1q_u32((const uint32_t *)line + 4 * i);
        uint32x4_t product = line_neon_product(x, line_words_salts + 4 * i);
        found |= line_neon_found(words, product) << (4 * i);
    }
    return found;
}

BGI_INLINE line_words line_words_make(uint32_t x)
{
    line_words pattern;
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = line_neon_bit(line_neon_product(x, line_words_salts + 4 * i));
    }
    return pattern;
}

BGI_INLINE line_words line_words_mask(line_words pattern, const struct bgi_core *core,
                                      uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = vandq_u32(pattern.part[i], vld1q_u32(window + 4 * i));
    }
    return pattern;
}

/* The functions below work for all shapes, on a row of `parts` vectors. */
BGI_INLINE uint32_t line_neon_set(void *line, const uint32x4_t *part, unsigned parts)
{
    uint32_t *at = line;
    uint32x4_t missing = vdupq_n_u32(0);
    for (unsigned i = 0; i < parts; i++) {
        uint32x4_t old = vld1q_u32(at + 4 * i);
        missing = vorrq_u32(missing, vbicq_u32(part[i], old));
        vst1q_u32(at + 4 * i, vorrq_u32(old, part[i]));
    }
    return vmaxvq_u32(missing) != 0;
}

BGI_INLINE bool line_neon_lacks(const void *line, const uint32x4_t *part,
                                unsigned parts)
{
    const uint32_t *at = line;
    uint32x4_t missing = vdupq_n_u32(0);
    for (unsigned i = 0; i < parts; i++) {
        missing = vorrq_u32(missing, vbicq_u32(part[i], vld1q_u32(at + 4 * i)));
    }
    return vmaxvq_u32(missing) != 0;
}

BGI_INLINE uint32_t line_neon_missing(const void *line, const uint32x4_t *part,
                                      uint64_t *bits, unsigned parts)
{
    const uint64_t *at = line;
    uint32_t missing = 0;
    for (unsigned i = 0; i < parts; i++) {
        uint64x2_t wanted = vreinterpretq_u64_u32(part[i]);
        uint64x2_t lacks = vbicq_u64(wanted, vld1q_u64(at + 2 * i));
        vst1q_u64(bits + 2 * i, wanted);
        missing |= (uint32_t)(vgetq_lane_u64(lacks, 0) != 0) << (2 * i);
        missing |= (uint32_t)(vgetq_lane_u64(lacks, 1) != 0) << (2 * i + 1);
    }
    return missing;
}

#define NEON_SHAPE(shape)                                                              \
    BGI_INLINE bool shape##_lacks(const void *line, shape pattern)                     \
    {                                                                                  \
        return line_neon_lacks(line, pattern.part, shape##_bytes / 16);                \
    }                                                                                  \
    BGI_INLINE uint32_t shape##_set(void *line, shape pattern)                         \
    {                                                                                  \
        return line_neon_set(line, pattern.part, shape##_bytes / 16);                  \
    }                                                                                  \
    BGI_INLINE uint32_t shape##_missing(const void *line, shape pattern,               \
                                        uint64_t *bits)                                \
    {                                                                                  \
        return line_neon_missing(line, pattern.part, bits, shape##_bytes / 16);        \
    }

NEON_SHAPE(line_split)
NEON_SHAPE(line_columns)
NEON_SHAPE(line_words)

#define line_split_all   line_all8
#define line_columns_all line_all8
#define line_words_all   line_all16

#include "kind/ops_pick.h"

#endif

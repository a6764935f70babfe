/*
 * isa_neon.c - every kind with the 128-bit vectors of ARMv8: a quarter of a line in a
 * register.
 */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#if defined(BGI_AARCH64)

# include <arm_neon.h>
# include <string.h>

# define ISA neon
# define ISA_TARGET

/* A pattern is the words of the line with its bits set. */
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

/* One bit in each lane, at the top five bits of the product. */
BGI_INLINE uint32x4_t line_neon_bit(uint32x4_t product)
{
    return vshlq_u32(vdupq_n_u32(1), vreinterpretq_s32_u32(vshrq_n_u32(product, 27)));
}

BGI_INLINE line_split line_split_make(uint32_t x)
{
    line_split pattern;
    for (unsigned i = 0; i < 2; i++) {
        pattern.part[i] = line_neon_bit(line_neon_product(x, line_split_salts + 4 * i));
    }
    return pattern;
}

BGI_INLINE line_columns line_columns_make(uint32_t x)
{
    line_columns pattern;
    for (unsigned i = 0; i < 2; i++) {
        uint32x4_t product = line_neon_product(x, line_words_salts + 4 * i);
        uint32x4_t bit = line_neon_bit(vshlq_n_u32(product, 1));
        uint32x4_t upper
            = vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(product), 31));
        pattern.part[i] = vbicq_u32(bit, upper);
        pattern.part[i + 2] = vandq_u32(bit, upper);
    }
    return pattern;
}

BGI_INLINE line_columns line_columns_mask(line_columns pattern, const uint32_t *window)
{
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = vandq_u32(pattern.part[i], vld1q_u32(window + 4 * (i % 2)));
    }
    return pattern;
}

BGI_INLINE line_words line_words_make(uint32_t x)
{
    line_words pattern;
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = line_neon_bit(line_neon_product(x, line_words_salts + 4 * i));
    }
    return pattern;
}

BGI_INLINE line_words line_words_mask(line_words pattern, const uint32_t *window)
{
    for (unsigned i = 0; i < 4; i++) {
        pattern.part[i] = vandq_u32(pattern.part[i], vld1q_u32(window + 4 * i));
    }
    return pattern;
}

/* Whether a vector has any bit set. */
BGI_INLINE bool line_neon_any(uint32x4_t v)
{
    return vmaxvq_u32(v) != 0;
}

/* The rest is the same for all shapes: a row of `parts` vectors. */
BGI_INLINE bool line_neon_test(const void *line, const uint32x4_t *part, unsigned parts)
{
    const uint32_t *at = line;
    uint32x4_t missing = vdupq_n_u32(0);
    for (unsigned i = 0; i < parts; i++) {
        missing = vorrq_u32(missing, vbicq_u32(part[i], vld1q_u32(at + 4 * i)));
    }
    return !line_neon_any(missing);
}

BGI_INLINE bool line_neon_set(void *line, const uint32x4_t *part, unsigned parts)
{
    uint32_t *at = line;
    uint32x4_t missing = vdupq_n_u32(0);
    for (unsigned i = 0; i < parts; i++) {
        uint32x4_t old = vld1q_u32(at + 4 * i);
        missing = vorrq_u32(missing, vbicq_u32(part[i], old));
        vst1q_u32(at + 4 * i, vorrq_u32(old, part[i]));
    }
    return line_neon_any(missing);
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

# define NEON_SHAPE(shape)                                                             \
     BGI_INLINE bool shape##_test(const void *line, shape pattern)                     \
     {                                                                                 \
         return line_neon_test(line, pattern.part, shape##_bytes / 16);                \
     }                                                                                 \
     BGI_INLINE bool shape##_set(void *line, shape pattern)                            \
     {                                                                                 \
         return line_neon_set(line, pattern.part, shape##_bytes / 16);                 \
     }                                                                                 \
     BGI_INLINE uint32_t shape##_missing(const void *line, shape pattern,              \
                                         uint64_t *bits)                               \
     {                                                                                 \
         return line_neon_missing(line, pattern.part, bits, shape##_bytes / 16);       \
     }

NEON_SHAPE(line_split)
NEON_SHAPE(line_columns)
NEON_SHAPE(line_words)

# include "kind/ops_pick.h"

#endif

/*
 * isa_scalar.c - implements all kinds in plain C. This is the reference that all other
 * implementations must match bit for bit, and the implementation for machines without vector
 * instructions. Concurrent reads in this file use C atomics, so that the thread sanitizer can check
 * the algorithm.
 */
#include "kind/isa.h"
#include "kind/line_shapes.h"

#include <string.h>

#define ISA scalar
#define ISA_RACES
#define ISA_LANE_MASKS 0
#define ISA_TARGET

/* A pattern, stored as the words of a line in which the pattern's bits are set. */
typedef struct {
    uint32_t word[8];
} line_split;

typedef struct {
    uint32_t word[16];
} line_columns;

typedef struct {
    uint32_t word[16];
} line_words;

BGI_INLINE line_split line_split_make(uint32_t x)
{
    line_split pattern;
    for (unsigned j = 0; j < 8; j++) {
        pattern.word[j] = 1u << ((x * line_split_salts[j]) >> 27);
    }
    return pattern;
}

BGI_INLINE line_columns line_columns_make(uint32_t x)
{
    line_columns pattern;
    for (unsigned j = 0; j < 8; j++) {
        uint32_t product = x * line_words_salts[j];
        uint32_t bit = 0x80000000u >> ((product >> 26) & 31);
        uint32_t high = 0u - (product >> 31);
        pattern.word[j] = bit & ~high;
        pattern.word[j + 8] = bit & high;
    }
    return pattern;
}

BGI_INLINE line_words line_words_make(uint32_t x)
{
    line_words pattern;
    for (unsigned j = 0; j < 16; j++) {
        pattern.word[j] = 0x80000000u >> ((x * line_words_salts[j]) >> 27);
    }
    return pattern;
}

BGI_INLINE line_columns line_columns_mask(line_columns pattern,
                                          const struct bgi_core *core,
                                          uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    for (unsigned j = 0; j < 8; j++) {
        pattern.word[j] &= window[j];
        pattern.word[j + 8] &= window[j];
    }
    return pattern;
}

BGI_INLINE line_words line_words_mask(line_words pattern, const struct bgi_core *core,
                                      uint32_t rotation, uint32_t lanes)
{
    (void)lanes;
    const uint32_t *window = core->window + rotation;
    for (unsigned j = 0; j < 16; j++) {
        pattern.word[j] &= window[j];
    }
    return pattern;
}

BGI_INLINE uint32_t line_scalar_word(const void *line, unsigned word)
{
    return __atomic_load_n((const uint32_t *)line + word, __ATOMIC_RELAXED);
}

BGI_INLINE uint32_t line_split_found(const void *line, uint32_t x)
{
    uint32_t found = 0;
    for (unsigned j = 0; j < 8; j++) {
        uint32_t product = x * line_split_salts[j];
        found |= (line_scalar_word(line, j) >> (product >> 27) & 1) << j;
    }
    return found;
}

BGI_INLINE uint32_t line_columns_found(const void *line, uint32_t x)
{
    uint32_t found = 0;
    for (unsigned j = 0; j < 8; j++) {
        uint32_t product = x * line_words_salts[j];
        uint32_t word = line_scalar_word(line, j + 8 * (product >> 31));
        found |= (word << ((product >> 26) & 31)) >> 31 << j;
    }
    return found;
}

BGI_INLINE uint32_t line_words_found(const void *line, uint32_t x)
{
    uint32_t found = 0;
    for (unsigned j = 0; j < 16; j++) {
        uint32_t product = x * line_words_salts[j];
        found |= (line_scalar_word(line, j) << (product >> 27)) >> 31 << j;
    }
    return found;
}

/* The functions below are the same for all shapes. They handle arrays of n 32-bit words as n / 2
 * 64-bit words, in the machine's byte order. */
BGI_INLINE uint32_t line_scalar_missing(const void *line, const void *pattern,
                                        uint64_t *bits, unsigned words64)
{
    const uint64_t *at = line;
    uint32_t missing = 0;
    memcpy(bits, pattern, 8 * (size_t)words64);
    for (unsigned w = 0; w < words64; w++) {
        uint64_t lacks = bits[w] & ~__atomic_load_n(&at[w], __ATOMIC_RELAXED);
        missing |= (uint32_t)(lacks != 0) << w;
    }
    return missing;
}

BGI_INLINE uint32_t line_scalar_set(void *line, const void *pattern, unsigned words64)
{
    uint64_t bits[8], *at = line;
    uint32_t missing = line_scalar_missing(line, pattern, bits, words64);
    for (unsigned w = 0; w < words64; w++) {
        at[w] |= bits[w];
    }
    return missing;
}

#define SCALAR_SHAPE(shape)                                                            \
    BGI_INLINE bool shape##_lacks(const void *line, shape pattern)                     \
    {                                                                                  \
        uint64_t bits[shape##_bytes / 8];                                              \
        return line_scalar_missing(line, &pattern, bits, shape##_bytes / 8) != 0;      \
    }                                                                                  \
    BGI_INLINE uint32_t shape##_set(void *line, shape pattern)                         \
    {                                                                                  \
        return line_scalar_set(line, &pattern, shape##_bytes / 8);                     \
    }                                                                                  \
    BGI_INLINE uint32_t shape##_missing(const void *line, shape pattern,               \
                                        uint64_t *bits)                                \
    {                                                                                  \
        return line_scalar_missing(line, &pattern, bits, shape##_bytes / 8);           \
    }

SCALAR_SHAPE(line_split)
SCALAR_SHAPE(line_columns)
SCALAR_SHAPE(line_words)

#define line_split_all   line_all8
#define line_columns_all line_all8
#define line_words_all   line_all16

#include "kind/ops_pick.h"

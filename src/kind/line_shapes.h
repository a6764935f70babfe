/*
 * line_shapes.h - the shapes of a key's bits within one line, independent of the instruction
 * set.
 *
 * A line consists of 32-bit words. The high bits of a hash h select the line, and the hash's low 32
 * bits x determine a pattern of bits. Lane j uses the top bits of the product p = x * salt[j]
 * modulo 2^32, because they are the best mixed (multiply-shift: Dietzfelbinger et al., "A reliable
 * randomized algorithm for the closest-pair problem", 1997). One vector multiplication computes the
 * positions in all lanes at once. In Bloomgate's own shapes, positions are counted from the top of
 * a word. So a lookup can shift the bit that it tests into the sign bit, and one instruction
 * collects the sign bits of all lanes.
 *
 *   split      8 words; lane j is word j; the bit is p >> 27
 *
 *                word     0       1       2      ...     7
 *                      [..x...][.....x][x.....]     [...x..]        32 bytes
 *
 *   columns   16 words; lane j is the pair of words j and j + 8; the top bit of p
 *             selects the word, the next five bits the bit in it, from the top
 *
 *                word     0       1       2      ...     7
 *                      [..x...][......][x.....]     [......]        64 bytes
 *                      [......][...x..][......]     [.x....]
 *                word     8       9      10      ...    15
 *
 *             Each lane has 64 bits, but needs only 32-bit arithmetic and one selection.
 *
 *   words     16 words; lane j is word j; the bit is p >> 27, from the top
 *
 * Masked columns and words use only k of the 8 or 16 lanes. These lanes are a fixed pattern of k
 * lanes, rotated by an amount r that is derived from x. core->rotations[r] contains the lanes in
 * use as bits (a pattern of 8 lanes is stored twice, once for each half of the line). core->window
 * contains the pattern twice in a row, as words that are all ones or all zeros; reading
 * core->window from offset r gives the pattern rotated by r.
 */
#ifndef BGI_LINE_SHAPES_H
#define BGI_LINE_SHAPES_H

#include "base/bits.h"
#include "hash/fast.h"

#include <stdint.h>

enum {
    line_split_bytes = 32,
    line_columns_bytes = 64,
    line_words_bytes = 64,
    line_split_lanes = 8,
    line_columns_lanes = 8,
    line_words_lanes = 16
};

/* A set of lanes as a bit mask, in which lane 0 is the lowest bit. */
typedef uint8_t line_split_bits;
typedef uint8_t line_columns_bits;
typedef uint16_t line_words_bits;

/* The number of different patterns, which is the number of values of a hash's low 32 bits. */
static const double line_patterns = 4294967296.0;

/* The salts of the split-block filter in the Parquet specification. */
static const uint32_t line_split_salts[8] = {
    0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
    0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u,
};

/* Bloomgate's own salts are hexadecimal digits of pi, with the lowest bit set to make them odd.
 * Columns use the first eight salts. */
static const uint32_t line_words_salts[16] = {
    0x243f6a89u, 0x85a308d3u, 0x13198a2fu, 0x03707345u, 0xa4093823u, 0x299f31d1u,
    0x082efa99u, 0xec4e6c89u, 0x452821e7u, 0x38d01377u, 0xbe5466cfu, 0x34e90c6du,
    0xc0ac29b7u, 0xc97c50ddu, 0x3f84d5b5u, 0xb5470917u,
};

/*
 * Returns the index of a hash's line among `units` lines. For the split shape, the index is
 * computed from the high 32 bits of the hash, as in Parquet; for the other shapes, from the high 52
 * bits. In both cases, halving the number of lines halves the line's index (see bgi_mulhi), as
 * folding requires.
 */
BGI_INLINE uint64_t line_split_index(uint64_t hash, uint64_t units)
{
    return ((hash >> 32) * units) >> 32;
}

BGI_INLINE uint64_t line_words_index(uint64_t hash, uint64_t units)
{
    return bgi_range52(hash, units);
}

BGI_INLINE uint64_t line_columns_index(uint64_t hash, uint64_t units)
{
    return bgi_range52(hash, units);
}

/* Tests for each of 64 keys whether all needed lanes were found. Instruction sets without a faster
 * method use this function. */
#define LINE_SHAPES_ALL(name, type)                                                    \
    BGI_INLINE uint64_t name(const type *found, const type *needed)                    \
    {                                                                                  \
        uint64_t all = 0;                                                              \
        for (unsigned i = 0; i < 64; i++) {                                            \
            all |= (uint64_t)((needed[i] & ~found[i]) == 0) << i;                      \
        }                                                                              \
        return all;                                                                    \
    }

LINE_SHAPES_ALL(line_all8, uint8_t)
LINE_SHAPES_ALL(line_all16, uint16_t)
#undef LINE_SHAPES_ALL

static const uint32_t line_rotation_salt = 0x9216d5d9u;

/* Returns the number of lanes by which the pattern of a masked shape is rotated, from 0 to lanes -
 * 1. */
BGI_INLINE uint32_t line_rotation(uint32_t x, uint32_t lanes)
{
    return (uint32_t)(((uint64_t)(x * line_rotation_salt) * lanes) >> 32);
}

#endif

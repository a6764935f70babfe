/*
 * small_filter.h - filters of some dozen keys each, as LevelDB makes them: one for every data
 * block, so that what a filter costs beyond its keys is paid thousands of times in a table.
 *
 * The layout, and the argument for it, are at the head of small_filter.c. Here are hashes and
 * bytes only: no keys, no LevelDB, no memory but the scratch that the caller gives.
 *
 * Threads: functions of their arguments, with no state.
 */
#ifndef SMALL_FILTER_H
#define SMALL_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SMALL_HEADER = 2,          /* bytes before the bits: layout, check */
    SMALL_MAX_ROWS = 24,       /* of a ribbon: bits per key; of a Bloom filter: its k */
    SMALL_SEEDS = 8,           /* matrices that can be named in the header */
    SMALL_DENSE = 128,         /* up to so many columns an equation spans all of them */
    SMALL_MAX_RIBBON = 1 << 20 /* more keys get a Bloom filter */
};

/* How a filter of n different hashes is to be made. */
struct small_shape {
    uint32_t rows;    /* of the ribbon, or 0 for a Bloom filter */
    uint32_t k;       /* of the Bloom filter, or 0 */
    size_t columns;   /* of the ribbon: the fewest to try, */
    size_t limit;     /* ... and the most */
    size_t max_bytes; /* of the whole filter, whichever comes out */
};

/* One equation of the ribbon: its coefficients, of which bit 0 is that of column `start`, and
 * the bit that every row is to yield. Also a pivot while the system is being solved. */
struct small_equation {
    uint64_t low, high;
    uint32_t start, values;
};

/*
 * The shape for n hashes (1 or more) at that many bits per key (1 .. SMALL_MAX_ROWS); as a
 * Bloom filter if so wished, or if a ribbon would take more bits or has too many keys.
 */
struct small_shape small_shape_for(size_t n, uint32_t bits_per_key, bool bloom);

/*
 * Writes the filter of n hashes to `out`, which has shape->max_bytes bytes, and returns its
 * length. `scratch` has room for shape->limit equations; it is not used for a Bloom filter.
 * Returns 0 if no ribbon was found, which is all but impossible; then ask for a Bloom filter.
 */
size_t small_filter_make(const struct small_shape *shape, const uint64_t *hashes,
                         size_t n, struct small_equation *scratch, uint8_t *out);

/*
 * False: the hash was certainly not among those that the filter was made of. Bytes that are
 * not a whole filter of this layout may be of any set: true. With `popcnt`, which needs
 * small_filter_can_popcnt, the answer is the same and faster.
 */
bool small_filter_may_match(const uint8_t *filter, size_t len, uint64_t hash,
                            bool popcnt);

/* Whether the processor has an instruction that counts ones. */
bool small_filter_can_popcnt(void);

#endif

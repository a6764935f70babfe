/*
 * small_filter.h - filters with a few dozen keys each, as used in LevelDB. Every data block has a
 * filter, so a table incurs the per-filter overhead thousands of times.
 *
 * small_filter.c describes the layout and its rationale. This interface handles only hashes and
 * bytes, and does not depend on LevelDB. The functions allocate no memory; the caller provides
 * scratch space.
 *
 * Thread safety: these are pure functions.
 */
#ifndef SMALL_FILTER_H
#define SMALL_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SMALL_HEADER = 2,    /* header size in bytes: the layout byte and the check byte */
    SMALL_MAX_ROWS = 24, /* maximum rows (bits per key) of a ribbon, and maximum k */
    SMALL_SEEDS = 8,     /* number of seeds; each seed yields a different matrix */
    SMALL_DENSE = 128,   /* up to this many columns, an equation spans all of them */
    SMALL_MAX_RIBBON = 1 << 20 /* maximum number of keys in a ribbon */
};

/* The parameters of a filter for n distinct hashes. */
struct small_shape {
    uint32_t rows;    /* rows of the ribbon, or 0 for a Bloom filter */
    uint32_t k;       /* k of the Bloom filter, or 0 */
    size_t columns;   /* minimum number of columns of the ribbon */
    size_t limit;     /* maximum number of columns of the ribbon */
    size_t max_bytes; /* maximum size of the whole filter in bytes */
};

/* One equation of the ribbon: its coefficients, where bit 0 belongs to column `start`, and the
 * required bit of every row. Elimination also uses this struct for its pivots. */
struct small_equation {
    uint64_t low, high;
    uint32_t start, values;
};

/*
 * Returns the shape of a filter for n hashes (at least 1) with this many bits per key (from 1 to
 * SMALL_MAX_ROWS). The shape is that of a Bloom filter if `bloom` is set, if there are too many
 * keys for a ribbon, or if a ribbon would not have a lower false-positive rate.
 */
struct small_shape small_shape_for(size_t n, uint32_t bits_per_key, bool bloom);

/*
 * Writes a filter for n hashes to `out`, and returns the filter's length. `out` must have space for
 * shape->max_bytes bytes, and `scratch` for shape->limit equations; `scratch` is not used for a
 * Bloom filter. Returns 0 if no ribbon was found, which is extremely unlikely; in that case, build
 * a Bloom filter.
 */
size_t small_filter_make(const struct small_shape *shape, const uint64_t *hashes,
                         size_t n, struct small_equation *scratch, uint8_t *out);

/*
 * Returns false if the hash is definitely not in the filter. Returns true if the bytes are not a
 * valid filter. `popcnt` selects a faster implementation with the same results; set it only if
 * small_filter_can_popcnt returns true.
 */
bool small_filter_may_match(const uint8_t *filter, size_t len, uint64_t hash,
                            bool popcnt);

/* Returns whether the CPU has a popcount instruction. */
bool small_filter_can_popcnt(void);

#endif

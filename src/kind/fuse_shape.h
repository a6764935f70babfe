/*
 * fuse_shape.h - the shape of a fuse filter with a given number of slots: its pieces, its
 * segments and its capacity. See fuse.c for the idea.
 *
 * The constants were found by experiments with random hashes at the sizes that fuse_capacity
 * allows, on a grid of sizes from 1 key to 2.2 million keys (the maximum for a piece) in steps of
 * 5% to 12%. At the worst size on the grid, 8 of 10 seeds succeeded with three slots per key (at
 * about 300,000 keys), and 9 of 10 seeds with four slots per key. Small sizes were tested with up
 * to 400 seeds each, but sizes of half a million keys and more with only 6 to 20 seeds, so the
 * fractions for large sizes are rough.
 */
#ifndef BGI_FUSE_SHAPE_H
#define BGI_FUSE_SHAPE_H

#include "base/compiler.h"
#include "kind/sealed.h"

#include <math.h>

enum {
    FUSE_UNIT = 8,              /* slots per unit */
    FUSE_PIECE_SLOTS = 2400000, /* maximum per piece */
    FUSE_LOG2_MIN = 3,          /* log2 of the number of slots per segment */
    FUSE_LOG2_MAX = 13,
    FUSE_ATTEMPTS = 100
};

struct fuse_shape {
    uint64_t pieces;
    uint64_t slots;  /* slots per piece; a whole number of segments */
    uint64_t starts; /* number of possible first slots; 0 if no key fits */
    uint64_t length; /* slots per segment, a power of two */
};

/* This struct is stored after the filter's handle. */
struct fuse_state {
    struct sealed sealed; /* first: see sealed.h */
    struct fuse_shape shape;
    uint64_t seeds[]; /* one per piece */
};

/* The segment length doubles whenever the number of slots in a piece grows by a factor of
 * 10/3. */
BGI_INLINE uint32_t fuse_log2(uint32_t arity, uint64_t slots)
{
    uint64_t next = arity == 3 ? 26 : 60;
    uint32_t log2 = FUSE_LOG2_MIN;
    for (; log2 < FUSE_LOG2_MAX && slots >= next; log2++) {
        next = next * 10 / 3;
    }
    return log2;
}

BGI_INLINE struct fuse_shape fuse_shape_of(uint32_t arity, uint64_t units)
{
    uint64_t all = units * FUSE_UNIT;
    uint64_t pieces = all / FUSE_PIECE_SLOTS + 1;
    uint32_t log2 = fuse_log2(arity, all / pieces);
    uint64_t segments = all / pieces >> log2;
    return (struct fuse_shape){ .pieces = pieces,
                                .slots = segments << log2,
                                .starts = segments < arity
                                              ? 0
                                              : (segments - (arity - 1)) << log2,
                                .length = (uint64_t)1 << log2 };
}

/*
 * Returns the number of keys that `units` units can hold. Keys are distributed randomly over the
 * pieces, so each piece has space for one and a half standard deviations more keys than the
 * average. If a piece gets even more keys, at worst it needs additional seeds.
 */
BGI_INLINE double fuse_capacity(uint32_t arity, uint64_t units)
{
    struct fuse_shape shape = fuse_shape_of(arity, units);
    if (shape.starts == 0) {
        return 0;
    }
    double slots = (double)shape.slots;
    double slots_per_key = arity == 3 ? fmax(1.125, 0.875 + 3.6 / log(slots))
                                      : fmax(1.075, 0.77 + 4.1 / log(slots));
    double keys = floor(slots / slots_per_key);
    return shape.pieces == 1 ? keys
                             : floor((keys - 1.5 * sqrt(keys)) * (double)shape.pieces);
}

#endif

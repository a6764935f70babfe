/*
 * fuse_shape.h - how many slots make what fuse filter: pieces, segments, and how many keys
 * they take. See fuse.c for the idea.
 *
 * The constants were found by trying random hashes at the sizes that fuse_capacity allows,
 * on a grid in steps of 5 to 12 per cent from 1 to 2.2 million keys, the most that a piece
 * has. Of the sizes on it, the worst for three slots (some 300,000 keys) let 8 of 10 seeds
 * succeed, the worst for four 9 of 10. Small sizes had up to 400 seeds each, those from
 * half a million keys on 6 to 20, so the shares there are rough.
 */
#ifndef BGI_FUSE_SHAPE_H
#define BGI_FUSE_SHAPE_H

#include "base/compiler.h"
#include "kind/sealed.h"

#include <math.h>

enum {
    FUSE_UNIT = 8,              /* slots of a unit */
    FUSE_PIECE_SLOTS = 2400000, /* at most */
    FUSE_LOG2_MIN = 3,          /* of a segment's slots */
    FUSE_LOG2_MAX = 13,
    FUSE_ATTEMPTS = 100
};

struct fuse_shape {
    uint64_t pieces;
    uint64_t slots;  /* of a piece: whole segments */
    uint64_t starts; /* slots at which a key can begin; 0: too small for any key */
    uint64_t length; /* slots of a segment, a power of two */
};

/* Behind the handle of a filter. */
struct fuse_state {
    struct sealed sealed; /* first: see sealed.h */
    struct fuse_shape shape;
    uint64_t seeds[]; /* one per piece */
};

/* Segments double whenever the slots of a piece have become 10/3 times as many. */
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
 * How many keys so many units take. Keys spread over the pieces by chance, so each is
 * given room for one and a half standard deviations more; one that gets still more
 * needs, at worst, some more seeds.
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

/*
 * ribbon_shape.h - how many units make what ribbon filter: pieces, layers, and how many
 * keys they take. See ribbon.c for the idea.
 *
 * The constants come from simulation. A first layer of a million slots with 1.03 keys per
 * slot sends 3.1 % of them on and leaves 0.2 % of its slots empty. A band of 64 takes
 * 1000 to 100,000 keys at 1.09 slots per key, and 64 slots more, with 19 of 20 seeds.
 */
#ifndef BGI_RIBBON_SHAPE_H
#define BGI_RIBBON_SHAPE_H

#include "base/compiler.h"
#include "kind/sealed.h"

#include <math.h>

enum {
    RIBBON_BLOCK = 64,     /* slots of a block, which is a unit */
    RIBBON_BUCKET = 256,   /* slots of the first layer with a limit of their own ... */
    RIBBON_CELL = 16,      /* ... which is a multiple of this */
    RIBBON_LIMIT_ALL = 15, /* the limit that sends all keys of a bucket on */
    RIBBON_PIECE_UNITS = 32768, /* at most */
    RIBBON_LAYERED = 256,       /* units of the smallest piece with two layers */
    RIBBON_ATTEMPTS = 100
};

/* Of a piece: its first layer, its second, and the limits, in this order. */
struct ribbon_shape {
    uint64_t pieces;
    uint64_t units;     /* of a piece */
    uint64_t starts[2]; /* slots at which a key can begin, in each layer; 0: no layer */
    uint64_t second;    /* the slot at which the second layer begins */
    uint64_t limits;    /* the unit at which the limits begin */
};

/* Behind the handle of a filter. */
struct ribbon_state {
    struct sealed sealed; /* first: see sealed.h */
    struct ribbon_shape shape;
    uint64_t seeds[]; /* one per piece */
};

/* Slots at which a key can begin in a layer of so many blocks: the block after that of
 * its first slot is read as well. */
BGI_INLINE uint64_t ribbon_starts(uint64_t blocks)
{
    return blocks < 2 ? 0 : (blocks - 1) * RIBBON_BLOCK;
}

BGI_INLINE struct ribbon_shape ribbon_shape_of(uint64_t units, uint32_t k)
{
    struct ribbon_shape shape = { .pieces = units / RIBBON_PIECE_UNITS + 1 };
    uint64_t first = 0, blocks = shape.units = units / shape.pieces;
    if (blocks >= RIBBON_LAYERED) {
        blocks -= blocks / (64 * k) + 1; /* 16 k limits to a unit, for 4 units each */
        first = blocks - (blocks * 9 / 250 + 2);
    }
    shape.starts[0] = ribbon_starts(first);
    shape.starts[1] = ribbon_starts(blocks - first);
    shape.second = first * RIBBON_BLOCK;
    shape.limits = blocks;
    return shape;
}

/* How many keys so many units take; as in all pieces, with room for two and a half
 * standard deviations of what chance gives one of them. */
BGI_INLINE double ribbon_capacity(uint64_t units, uint32_t k)
{
    struct ribbon_shape shape = ribbon_shape_of(units, k);
    double first = (double)shape.second, second = (double)shape.starts[1];
    double keys = floor(second / 1.1);
    if (first > 0) {
        keys = floor(fmin(1.03 * first, 0.9965 * first + keys));
    }
    return shape.pieces == 1 ? keys
                             : floor((keys - 2.5 * sqrt(keys)) * (double)shape.pieces);
}

/* ---- Keys ----------------------------------------------------------------------------- */

/* The equation of a key: which of the slots from `at` on XOR to its fingerprint. */
struct ribbon_key {
    uint64_t at;
    uint64_t band; /* bit i for slot at + i; bit 0 is set */
};

/* The first layer's equation within the piece. `mix` is the hash mixed with the seed,
 * `rest` what is left of the hash after the choice of the piece. */
BGI_INLINE struct ribbon_key ribbon_first(const struct ribbon_shape *shape,
                                          uint64_t rest, uint64_t mix)
{
    return (struct ribbon_key){ bgi_mulhi(rest, shape->starts[0]), mix | 1 };
}

/* What the second layer uses as the hash of a key ... */
BGI_INLINE uint64_t ribbon_rehash(uint64_t mix)
{
    return sealed_mix(mix, 0x8ebc6af09c88c6e3u);
}

/* ... and the equation, in slots of that layer. */
BGI_INLINE struct ribbon_key ribbon_second(const struct ribbon_shape *shape,
                                           uint64_t rehash)
{
    return (struct ribbon_key){ bgi_mulhi(rehash, shape->starts[1]),
                                sealed_mix(rehash, 0x589965cc75374cc3u) | 1 };
}

BGI_INLINE uint32_t ribbon_fingerprint(uint64_t band, uint32_t k)
{
    return (uint32_t)(band * 0xd1342543de82ef95u >> (64 - k));
}

/* The cell of a slot, in its bucket. The last two count as one, so that a limit of 15
 * means all. */
BGI_INLINE uint64_t ribbon_cell(uint64_t slot)
{
    uint64_t cell = slot % RIBBON_BUCKET / RIBBON_CELL;
    return cell < RIBBON_LIMIT_ALL - 1 ? cell : RIBBON_LIMIT_ALL - 1;
}

/* The limit of the bucket of a slot: 4 bits of the word that starts with `limits`. Keys
 * that begin in cells below it were sent on. */
BGI_INLINE uint64_t ribbon_limit(const uint64_t *limits, uint64_t slot)
{
    uint64_t bucket = slot / RIBBON_BUCKET;
    return limits[bucket / 16] >> bucket % 16 * 4 & 15;
}

#endif

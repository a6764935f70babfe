/*
 * ribbon_shape.h - the shape of a ribbon filter with a given number of units: its pieces, its
 * layers and its capacity. See ribbon.c for the idea.
 *
 * The constants come from simulations. A first layer of a million slots with 1.03 keys per slot
 * sends 3.1% of the keys to the second layer and leaves 0.2% of its slots empty. In a plain ribbon
 * with a band of 64 slots, 1.09 slots per key and 64 additional slots, 19 of 20 seeds succeed for
 * 1000 to 100,000 keys.
 */
#ifndef BGI_RIBBON_SHAPE_H
#define BGI_RIBBON_SHAPE_H

#include "base/compiler.h"
#include "kind/sealed.h"

#include <math.h>

enum {
    RIBBON_BLOCK = 64,   /* slots per block; a block is a unit */
    RIBBON_BUCKET = 256, /* number of first-layer slots that share a limit */
    RIBBON_CELL = 16,    /* granularity of a limit, in slots */
    RIBBON_LIMIT_ALL =
        15, /* the limit that sends all keys of a bucket to the second layer */
    RIBBON_PIECE_UNITS = 32768, /* maximum */
    RIBBON_LAYERED = 256,       /* smallest piece with two layers, in units */
    RIBBON_ATTEMPTS = 100
};

/* A piece consists of its first layer, its second layer, and the limits, in this order. */
struct ribbon_shape {
    uint64_t pieces;
    uint64_t units;     /* per piece */
    uint64_t starts[2]; /* number of possible first slots in each layer, or 0 */
    uint64_t second;    /* the slot at which the second layer starts */
    uint64_t limits;    /* the unit at which the limits start */
};

/* The kind-specific state, stored after the filter's handle. */
struct ribbon_state {
    struct sealed sealed; /* first: see sealed.h */
    struct ribbon_shape shape;
    uint64_t seeds[]; /* one per piece */
};

/* Returns the number of possible first slots in a layer of `blocks` blocks. No key starts in the
 * last block, because a lookup also reads the block after the one that contains the first slot. */
BGI_INLINE uint64_t ribbon_starts(uint64_t blocks)
{
    return blocks < 2 ? 0 : (blocks - 1) * RIBBON_BLOCK;
}

BGI_INLINE struct ribbon_shape ribbon_shape_of(uint64_t units, uint32_t k)
{
    struct ribbon_shape shape = { .pieces = units / RIBBON_PIECE_UNITS + 1 };
    uint64_t first = 0, blocks = shape.units = units / shape.pieces;
    if (blocks >= RIBBON_LAYERED) {
        /* A unit holds 16 * k limits, each of which covers 4 units. */
        blocks -= blocks / (64 * k) + 1;
        first = blocks - (blocks * 9 / 250 + 2);
    }
    shape.starts[0] = ribbon_starts(first);
    shape.starts[1] = ribbon_starts(blocks - first);
    shape.second = first * RIBBON_BLOCK;
    shape.limits = blocks;
    return shape;
}

/* Returns the number of keys that `units` units can hold. Keys are distributed randomly among the
 * pieces, so if there are several, each piece has space for 2.5 standard deviations more keys than
 * the average. */
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

/* The equation of a key: the slots, starting at `at`, that XOR to its fingerprint. */
struct ribbon_key {
    uint64_t at;
    uint64_t band; /* bit i stands for slot at + i; bit 0 is set */
};

/* Returns a key's equation in the first layer. Slots are numbered within the piece. `mix` is the
 * hash mixed with the seed; `rest` is the part of the hash that remains after the piece is
 * selected. */
BGI_INLINE struct ribbon_key ribbon_first(const struct ribbon_shape *shape,
                                          uint64_t rest, uint64_t mix)
{
    return (struct ribbon_key){ bgi_mulhi(rest, shape->starts[0]), mix | 1 };
}

/* Returns a key's hash for the second layer. */
BGI_INLINE uint64_t ribbon_rehash(uint64_t mix)
{
    return sealed_mix(mix, 0x8ebc6af09c88c6e3u);
}

/* Returns a key's equation in the second layer. Slots are numbered within that layer. */
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

/* Returns the index of a slot's cell in its bucket. The last two cells count as one, so that a
 * limit of 15 covers all cells. */
BGI_INLINE uint64_t ribbon_cell(uint64_t slot)
{
    uint64_t cell = slot % RIBBON_BUCKET / RIBBON_CELL;
    return cell < RIBBON_LIMIT_ALL - 1 ? cell : RIBBON_LIMIT_ALL - 1;
}

/* Returns the limit for a slot's bucket from an array of 4-bit limits. Keys that start in cells
 * below the limit are in the second layer. */
BGI_INLINE uint64_t ribbon_limit(const uint64_t *limits, uint64_t slot)
{
    uint64_t bucket = slot / RIBBON_BUCKET;
    return limits[bucket / 16] >> bucket % 16 * 4 & 15;
}

#endif

/*
 * ladder.h - the sizes of a scalable filter's layers, fixed by its spec alone.
 *
 * Layer i of every scalable filter of one spec has the same geometry, whenever and in
 * whatever company it was made: that is what makes two of them mergeable.
 *
 *     units(i)    = units(0) * growth^i                   growth 2, 4 or 8
 *     rate(i)     = rate * (1 - 0.8) * 0.8^i              sums up to less than `rate`
 *     capacity(i) = the most keys at which a filter of units(i) has rate(i)
 *
 * Sizes are exact multiples, so that layers can be folded and unfolded onto each other,
 * and k is the same in all. The price of the falling rate is paid in capacity: at 1 %
 * and growth 2 the layers take 1, 1.92, 3.68, 7.07, 13.6 ... times the first one's
 * keys.
 */
#ifndef BGI_LADDER_H
#define BGI_LADDER_H

#include "filter/handle.h"

/* Layers at most. From one key on, doubling, they hold 2^56. */
enum { LADDER_LAYERS = 64 };

struct ladder {
    const struct bgi_kind *kind; /* of the layers */
    uint32_t k;
    uint32_t growth;
    uint64_t units; /* of layer 0 */
    double rate;    /* of all layers together */
};

/* Finds the ladder of a spec of kind scalable. Allocates nothing. */
bg_err ladder_solve(const bg_spec *spec, struct ladder *ladder, bg_errinfo *info);

/* The geometry of layer i, items being its capacity; false when it cannot be addressed. */
bool ladder_layer(const struct ladder *ladder, uint32_t i, struct bgi_geometry *layer);

#endif

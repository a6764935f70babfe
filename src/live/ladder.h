/*
 * ladder.h - the sizes of a scalable filter's layers. The sizes depend only on the filter's spec.
 *
 * Layer i has the same geometry in every scalable filter with the same spec, no matter when the
 * layer was created. So two filters with the same spec can be merged.
 *
 *     units(i)    = units(0) * growth^i                   growth 2, 4 or 8
 *     rate(i)     = rate * (1 - 0.8) * 0.8^i              sums up to less than `rate`
 *     capacity(i) = the maximum number of keys at which a filter of units(i) has rate(i)
 *
 * Each size is an exact multiple of the previous size and all layers have the same k, so layers can
 * be folded or unfolded to each other's size. The decreasing rate reduces the capacity: at a rate
 * of 1% and a growth of 2, the layers hold 1, 1.92, 3.68, 7.07, 13.6 ... times as many keys as the
 * first layer.
 */
#ifndef BGI_LADDER_H
#define BGI_LADDER_H

#include "filter/handle.h"

/* The maximum number of layers. If the first layer holds one key and sizes double, 64 layers hold
 * 2^56 keys. */
enum { LADDER_LAYERS = 64 };

struct ladder {
    const struct bgi_kind *kind; /* of the layers */
    uint32_t k;
    uint32_t growth;
    uint64_t units; /* of layer 0 */
    double rate;    /* maximum combined rate of all layers */
};

/* Computes the ladder for a spec of the kind `scalable`. Allocates nothing. */
bg_err ladder_solve(const bg_spec *spec, struct ladder *ladder, bg_errinfo *info);

/* Computes the geometry of layer i; layer->items is its capacity. Returns false if the layer is too
 * large to be addressed. */
bool ladder_layer(const struct ladder *ladder, uint32_t i, struct bgi_geometry *layer);

#endif

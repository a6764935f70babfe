#include "live/ladder.h"

#include "base/checked.h"
#include "base/errinfo.h"

#include <math.h>

/*
 * The ratio of a layer's rate to the previous layer's rate. The model was evaluated for the ratios
 * 0.75, 0.80 .. 0.95, with growth factors of 2, 3 and 4, and for 1 to 1000 times as many keys as
 * the first layer holds. The ratio 0.8 needs the fewest bits. Series that decrease more slowly,
 * such as 1/((i+1)(i+2)), need fewer bits only after about twelve layers, and up to 2 more bits per
 * key before that.
 */
static const double ladder_tightening = 0.8;

/* k is chosen for the fourth layer, because the large layers contain most of the keys. */
enum { LADDER_TYPICAL = 3, LADDER_FAST_K = 8 };

/* The minimum size of layer 0. In a filter with only a few lines, the rate depends so much on
 * the particular keys that the mean rate is meaningless. */
enum { LADDER_LEAST_BYTES = 2048 };

enum { LADDER_REMEMBERED = 31 }; /* number of layer capacities cached per thread */

static double ladder_rate(double rate, uint32_t i)
{
    return rate * (1 - ladder_tightening) * pow(ladder_tightening, i);
}

static bg_err ladder_check(const bg_spec *spec, bg_errinfo *info)
{
    if (spec->bits_per_key != 0 || spec->bytes != 0) {
        return bgi_err(info, BG_EINVAL, "bits_per_key, bytes",
                       "0, because a scalable filter requires a rate", "%g, %llu",
                       spec->bits_per_key, (unsigned long long)spec->bytes);
    }
    if (!(spec->rate > 0 && spec->rate < 1)) {
        return bgi_err(info, BG_EINVAL, "rate", "a number above 0 and below 1", "%g",
                       spec->rate);
    }
    if (spec->width && spec->width != 2 && spec->width != 4 && spec->width != 8) {
        return bgi_err(info, BG_EINVAL, "width", "2, 4 or 8 for a scalable filter",
                       "%u", spec->width);
    }
    if (spec->flags & BG_SPEC_ONE_WINNER) {
        return bgi_err(info, BG_ENOTSUP, "kind", "register, for BG_SPEC_ONE_WINNER",
                       "scalable");
    }
    return BG_OK;
}

/* Eight bits in eight lanes need no masks, so k = 8 is used if it needs less than 2% more memory
 * than the best k. */
static bg_err ladder_choose_k(bg_spec *layer, bg_errinfo *info)
{
    struct bgi_geometry best, eight;
    if (layer->k) {
        return BG_OK;
    }
    bg_err err = bgi_solve(layer, 1, &best, info);
    if (err) {
        return err;
    }
    layer->k = LADDER_FAST_K;
    err = bgi_solve(layer, 1, &eight, NULL);
    if (layer->kind != BG_KIND_BLOCKED || err
        || (double)eight.units > 1.02 * (double)best.units) {
        layer->k = best.k;
    }
    return BG_OK;
}

bg_err ladder_solve(const bg_spec *spec, struct ladder *ladder, bg_errinfo *info)
{
    struct bgi_geometry first;
    bg_err err = ladder_check(spec, info);
    if (err) {
        return err;
    }
    bg_spec layer = *spec;
    layer.kind = spec->flags & BG_SPEC_SCATTERED ? BG_KIND_CLASSIC : BG_KIND_BLOCKED;
    layer.flags = spec->flags & ~(uint32_t)BG_SPEC_SCATTERED;
    layer.width = 0;
    layer.rate = ladder_rate(spec->rate, LADDER_TYPICAL);
    err = ladder_choose_k(&layer, info);
    if (err) {
        return err;
    }
    layer.rate = ladder_rate(spec->rate, 0);
    err = bgi_solve(&layer, 1, &first, info);
    if (err) {
        return err;
    }
    uint64_t least = LADDER_LEAST_BYTES / first.kind->unit_bytes(first.k);
    least = least < (uint64_t)1 << spec->folds ? (uint64_t)1 << spec->folds : least;
    *ladder = (struct ladder){ .kind = first.kind,
                               .k = first.k,
                               .growth = spec->width ? spec->width : 2,
                               .units = first.units > least ? first.units : least,
                               .rate = spec->rate };
    return BG_OK;
}

/* Returns the maximum number of keys at which a filter of `units` units has at most this rate. The
 * result is at least 1. */
static double ladder_find_capacity(const struct ladder *ladder, uint64_t units,
                                   double rate)
{
    double bits = 8.0 * ladder->kind->unit_bytes(ladder->k) * (double)units;
    double low = 0, high = bits; /* no filter can hold one key per bit */
    while (high - low > fmax(0.5, low * 1e-6)) {
        double middle = (low + high) / 2;
        if (bgi_kind_rate(ladder->kind, units, ladder->k, middle) <= rate) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return fmax(1, floor(low));
}

/*
 * Does the same as ladder_find_capacity, but caches results. The computation evaluates the model
 * about twenty times, which takes longer than creating or loading the rest of a small filter. A
 * cache helps because most filters on a host share a few specs.
 */
static double ladder_capacity(const struct ladder *ladder, uint64_t units, double rate)
{
    static _Thread_local struct {
        struct ladder ladder; /* kind is NULL in an empty entry */
        uint64_t units;
        double rate, capacity;
    } found[LADDER_REMEMBERED], *at;
    at = &found[units % LADDER_REMEMBERED];
    if (at->ladder.kind != ladder->kind || at->ladder.k != ladder->k
        || at->units != units || at->rate < rate || at->rate > rate) {
        at->capacity = ladder_find_capacity(ladder, units, rate);
        at->ladder = *ladder;
        at->units = units;
        at->rate = rate;
    }
    return at->capacity;
}

bool ladder_layer(const struct ladder *ladder, uint32_t i, struct bgi_geometry *layer)
{
    uint64_t units = ladder->units, bytes;
    for (uint32_t step = 0; step < i; step++) {
        if (!bgi_mul_u64(units, ladder->growth, &units)
            || units > ladder->kind->units_max) {
            return false;
        }
    }
    *layer = (struct bgi_geometry){ .kind = ladder->kind,
                                    .k = ladder->k,
                                    .units = units,
                                    .rate = ladder_rate(ladder->rate, i),
                                    .target = ladder->rate };
    if (i >= LADDER_LAYERS || !bgi_geometry_bytes(layer, &bytes)) {
        return false;
    }
    return bgi_u64_from_double(ladder_capacity(ladder, units, layer->rate),
                               &layer->items);
}

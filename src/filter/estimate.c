/*
 * estimate.c - what a filter knows of itself: its fill, and what follows from it.
 *
 * The number of different keys follows from the number of ones: the model of the kind
 * gives the expected fill for n keys, and its inverse is the estimate (Swamidass and
 * Baldi, "Mathematical correction for fingerprint similarity measures", 2007, for classic
 * filters). The interval is the estimate +- 1.96 standard deviations, from the variance
 * of the number of ones in the model. Two compatible filters' OR has the ones of the
 * union of their sets, so the union can be estimated as well, and by |A| + |B| - |A or B|
 * the intersection; its error is taken as if the three were independent, which is on the
 * safe side: they err in the same direction.
 */
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"
#include "kind/model.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const double estimate_z = 1.959963984540054; /* 95 % of a normal distribution */

/* The number of keys that left `ones` bits set. A filter with no zero left could hold
 * any number above the one that is most likely to leave half a zero. */
static bg_estimate estimate_items(const struct bgi_model *model, uint64_t ones,
                                  uint64_t bits)
{
    bool full = ones >= bits;
    double fill = full ? 1 - 0.5 / (double)bits : (double)ones / (double)bits;
    double items = bgi_model_items(model, fill);
    double error = ones ? estimate_z * bgi_model_items_error(model, items) : 0;
    return (bg_estimate){ items, fmax(0, items - error),
                          full ? HUGE_VAL : items + error };
}

static uint64_t estimate_ones(const bg_filter *filter)
{
    return filter->core.word_ops->count(bgi_filter_words(filter), filter->bytes / 8);
}

double bg_filter_fill(const bg_filter *filter)
{
    return filter ? (double)estimate_ones(filter) / (8 * (double)filter->bytes) : 0;
}

bg_kind bg_filter_kind(const bg_filter *filter)
{
    return filter ? filter->kind->id : BG_KIND_AUTO;
}

uint64_t bg_filter_size_bytes(const bg_filter *filter)
{
    return filter ? filter->bytes : 0;
}

const bg_hasher *bg_filter_hasher(const bg_filter *filter)
{
    return filter ? &filter->hasher : NULL;
}

bg_err bg_filter_info(const bg_filter *filter, bg_info *info)
{
    if (!filter || !info || info->struct_size < offsetof(bg_info, units)
        || info->struct_size > sizeof *info) {
        return BG_EINVAL;
    }
    struct bgi_model model = bgi_filter_model(filter);
    uint64_t ones = estimate_ones(filter), bits = 8 * (uint64_t)filter->bytes;
    bg_estimate items = estimate_items(&model, ones, bits);
    bg_info all = {
        .struct_size = info->struct_size,
        .kind = filter->kind->id,
        .units = filter->core.units,
        .bits = bits,
        .bytes = filter->bytes,
        .k = filter->core.k,
        .foldable = (uint32_t)__builtin_ctzll(filter->core.units),
        .design_items = filter->design_items,
        .design_rate = filter->design_rate,
        .ones = ones,
        .fill = (double)ones / (double)bits,
        .items = items,
        .rate = ones >= bits ? 1 : bgi_model_rate(&model, items.value),
        .hash = bg_hasher_profile(&filter->hasher),
        .hash_check = bg_hasher_check(&filter->hasher),
        .cpu = filter->cpu,
        .flags = filter->flags,
    };
    memcpy(info, &all, info->struct_size);
    return BG_OK;
}

static double estimate_deviation(bg_estimate e)
{
    return (e.high - e.value) / estimate_z;
}

static bg_estimate estimate_interval(double value, double deviation, double most)
{
    double error = estimate_z * deviation;
    value = fmin(fmax(value, 0), most);
    return (bg_estimate){ value, fmax(0, value - error), fmin(most, value + error) };
}

bg_err bg_filter_overlap(const bg_filter *a, const bg_filter *b, bg_overlap *overlap,
                         bg_errinfo *info)
{
    bgi_err_clear(info);
    bg_err err = bgi_filter_match(a, b, info);
    if (err) {
        return err;
    }
    if (!overlap) {
        return bgi_err(info, BG_EINVAL, "overlap", "where to put the estimates",
                       "NULL");
    }
    struct bgi_model model = bgi_filter_model(a);
    uint64_t bits = 8 * (uint64_t)a->bytes;
    uint64_t ones = a->core.word_ops->count_or(bgi_filter_words(a), bgi_filter_words(b),
                                               a->bytes / 8);
    bg_overlap o;
    o.a = estimate_items(&model, estimate_ones(a), bits);
    o.b = estimate_items(&model, estimate_ones(b), bits);
    o.either = estimate_items(&model, ones, bits);
    double sa = estimate_deviation(o.a), sb = estimate_deviation(o.b);
    double se = estimate_deviation(o.either);
    double sboth = sqrt(sa * sa + sb * sb + se * se);
    o.both = estimate_interval(o.a.value + o.b.value - o.either.value, sboth,
                               fmin(o.a.high, o.b.high));
    double share = o.either.value > 0 ? o.both.value / o.either.value : 0;
    double sshare = o.either.value > 0
                        ? sqrt(sboth * sboth + share * share * se * se) / o.either.value
                        : 0;
    o.jaccard = estimate_interval(share, sshare, 1);
    *overlap = o;
    return BG_OK;
}

bg_estimate bg_observed_rate(uint64_t hits, uint64_t trials)
{
    if (trials == 0) {
        return (bg_estimate){ 0, 0, 1 };
    }
    double n = (double)trials, p = (double)hits / n, z = estimate_z;
    double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
    double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
    return (bg_estimate){ p, hits ? fmax(0, centre - half) : 0,
                          hits < trials ? fmin(1, centre + half) : 1 };
}

/*
 * estimate.c - measures the fill of a filter and computes estimates from it.
 *
 * The number of distinct keys is estimated from the number of set bits. The kind's model predicts
 * the fill for n keys, and inverting the model gives the estimate (for classic filters, Swamidass
 * and Baldi, "Mathematical correction for fingerprint similarity measures", 2007). The interval
 * is the estimate +- 1.96 standard deviations, computed from the variance that the model predicts
 * for the number of set bits.
 *
 * The OR of two compatible filters has the same bits set as a filter for the union of their keys.
 * So the size of the union can be estimated in the same way, and the size of the intersection as
 * |A| + |B| - |A or B|. The error of the intersection is computed as if the three estimates were
 * independent. This is conservative, because the errors of the estimates are positively
 * correlated.
 */
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"
#include "kind/model.h"
#include "kind/sample.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const double estimate_z = 1.959963984540054; /* 95% of a normal distribution */

static uint64_t estimate_count(const void *context, uint64_t first, uint64_t n)
{
    const bg_filter *filter = context;
    return filter->core.word_ops->count(bgi_filter_words(filter) + first, (size_t)n);
}

/* Measures a filter of a bit-set kind by counting its set bits. */
static void estimate_bits(const bg_filter *filter, struct bgi_measure *m)
{
    struct bgi_model model = filter->kind->model(filter->core.units, filter->core.k);
    m->ones =
        (uint64_t)bgi_sample_sum(filter->bytes / 8, filter->bytes, m->most,
                                 filter->core.k, estimate_count, filter, &m->missed);
    m->of = 8 * (uint64_t)filter->bytes;
    bgi_model_measure(&model, m);
}

void bgi_filter_measure_part(const bg_filter *filter, uint64_t most,
                             struct bgi_measure *m)
{
    *m = (struct bgi_measure){ .most = most };
    if (filter->kind->measure) {
        filter->kind->measure(&filter->core, m);
    } else {
        estimate_bits(filter, m);
    }
}

void bgi_filter_measure(const bg_filter *filter, struct bgi_measure *m)
{
    bgi_filter_measure_part(filter, 0, m);
}

/* Estimates the number of keys other than the canaries. */
static bg_estimate estimate_items(const struct bgi_measure *m, uint32_t canaries)
{
    double error = estimate_z * m->error, items = m->items - canaries;
    bool full = m->ones >= m->of || m->overflowed;
    return (bg_estimate){ fmax(0, items), fmax(0, items - error),
                          full ? HUGE_VAL : fmax(0, items + error) };
}

double bg_filter_fill(const bg_filter *filter)
{
    struct bgi_measure m;
    if (!filter) {
        return 0;
    }
    bgi_filter_measure(filter, &m);
    return (double)m.ones / (double)m.of;
}

bg_kind bg_filter_kind(const bg_filter *filter)
{
    return filter ? filter->kind->id : BG_KIND_AUTO;
}

uint64_t bg_filter_size_bytes(const bg_filter *filter)
{
    if (!filter) {
        return 0;
    }
    return filter->kind->composed ? filter->kind->composed->bytes(filter)
                                  : filter->bytes;
}

uint64_t bg_filter_capacity(const bg_filter *filter)
{
    if (!filter) {
        return 0;
    }
    const struct bgi_kind *kind = filter->kind;
    if (kind->composed && kind->composed->capacity) {
        return kind->composed->capacity(filter);
    }
    return kind->room ? (uint64_t)kind->room(filter->core.units, filter->core.k)
                      : filter->design_items;
}

uint32_t bg_filter_layers(const bg_filter *filter)
{
    return filter && filter->kind->composed && filter->kind->composed->layers
               ? filter->kind->composed->layers(filter)
               : filter != NULL;
}

const bg_hasher *bg_filter_hasher(const bg_filter *filter)
{
    return filter ? &filter->hasher : NULL;
}

bg_err bg_filter_get_info(const bg_filter *filter, bg_filter_info *info)
{
    return bg_filter_sample_info(filter, 0, info);
}

bg_err bg_filter_sample_info(const bg_filter *filter, uint64_t most,
                             bg_filter_info *info)
{
    double missed;
    if (!filter || !info || info->struct_size < offsetof(bg_filter_info, units)
        || info->struct_size > sizeof *info) {
        return BG_EINVAL;
    }
    bgi_filter_info(filter, most, info, &missed);
    return BG_OK;
}

void bgi_filter_info(const bg_filter *filter, uint64_t most, bg_filter_info *info,
                     double *missed)
{
    struct bgi_measure m;
    const uint32_t canaries = bgi_filter_canaries(filter);
    bgi_filter_measure_part(filter, most, &m);
    *missed = m.missed;
    bg_filter_info all = {
        .struct_size = info->struct_size,
        .kind = filter->kind->id,
        .units = filter->core.units,
        .bits = 8 * bg_filter_size_bytes(filter),
        .bytes = bg_filter_size_bytes(filter),
        .k = filter->core.k,
        .foldable = bgi_filter_foldable(filter),
        .design_items = filter->design_items,
        .design_rate = filter->design_rate,
        .ones = m.ones,
        .fill = (double)m.ones / (double)m.of,
        .items = estimate_items(&m, canaries),
        .rate = m.overflowed ? 1 : m.rate,
        .hash = bg_hasher_profile(&filter->hasher),
        .hash_check = bg_hasher_check(&filter->hasher),
        .cpu = filter->cpu,
        .flags = filter->flags,
        .width = filter->kind->width,
        .shards = filter->shards ? filter->shards : 1,
        .overflowed = m.overflowed,
        .degraded = __atomic_load_n(&filter->degraded, __ATOMIC_RELAXED),
        .saturated = m.saturated,
        .canaries = canaries,
    };
    memcpy(info, &all, info->struct_size);
}

static double estimate_deviation(bg_estimate e)
{
    return (e.high - e.value) / estimate_z;
}

double bgi_estimate_error(const bg_estimate *e)
{
    return (isfinite(e->high) ? fmax(e->high - e->value, e->value - e->low)
                              : e->value - e->low)
           / estimate_z;
}

static bg_estimate estimate_interval(double value, double deviation, double most)
{
    double error = estimate_z * deviation;
    value = fmin(fmax(value, 0), most);
    return (bg_estimate){ value, fmax(0, value - error), fmin(most, value + error) };
}

/* Measures the merge of two filters without creating the merged filter. */
void bgi_filter_measure_or(const bg_filter *a, const bg_filter *b,
                           struct bgi_measure *m)
{
    bgi_filter_measure(a, m);
    if (a->kind->measure_or) {
        a->kind->measure_or(&a->core, &b->core, m);
        return;
    }
    m->ones = a->kind->ones_or
                  ? a->kind->ones_or(&a->core, &b->core)
                  : a->core.word_ops->count_or(bgi_filter_words(a), bgi_filter_words(b),
                                               a->bytes / 8);
    struct bgi_model model = a->kind->model(a->core.units, a->core.k);
    bgi_model_measure(&model, m);
}

bg_err bg_filter_overlap(const bg_filter *a, const bg_filter *b, bg_overlap *overlap,
                         bg_errinfo *info)
{
    bgi_err_clear(info);
    bg_err err = bgi_filter_match(a, b, info);
    err = err ? err : bgi_filter_can(a, BG_TRAIT_OVERLAP, "compared", info);
    if (err) {
        return err;
    }
    if (!overlap) {
        return bgi_err(info, BG_EINVAL, "overlap", "a pointer to receive the estimates",
                       "NULL");
    }
    struct bgi_measure in_a, in_b, either;
    bgi_filter_measure(a, &in_a);
    bgi_filter_measure(b, &in_b);
    bgi_filter_measure_or(a, b, &either);
    const uint32_t ca = bgi_filter_canaries(a), cb = bgi_filter_canaries(b);
    bg_overlap o = { .a = estimate_items(&in_a, ca),
                     .b = estimate_items(&in_b, cb),
                     .either = estimate_items(&either, ca > cb ? ca : cb) };
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

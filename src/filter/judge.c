/*
 * judge.c - the health rule: decides whether a filter's rate and key count need attention.
 *
 * This is the only place that compares the figures of a filter with its design. The CLI, the
 * service's API and dashboard, the metrics and the alerts all use these functions, so they agree
 * on every filter. The limits are constants in inspect.h.
 *
 * Rate. The rate is compared with the requested rate (design_rate), regardless of the reason for
 * the difference: too many keys, a merge, a fold, a resize, or layers that could not be created.
 *
 * Chance. Equal numbers of keys do not set exactly equal numbers of bits. In a filter with a few
 * dozen keys, the rate can differ from its mean by a third. An operator cannot change that, and a
 * rebuild with the same keys gives the same filter. Therefore the rule uses the lower of two
 * rates: the rate at the current fill, and the mean rate of filters with as many keys as the lower
 * bound of the estimated number of keys. In large filters, the two rates are almost equal. The
 * second rate is not used if the filter certainly holds too many keys, nor for scalable and sharded
 * filters, whose parts are larger. The mean rate of a window also depends on the age of its keys,
 * so a lower bound of the mean rate is used: the rate grows at most with the k-th power of the
 * number of keys. This bound is at least half of the measured rate, because the number of keys in
 * an overfull window is uncertain.
 *
 * Keys. The number of keys is an estimate that varies by a few percent. The margin, and the use of
 * the lower bound, keep a filter at its planned size from switching between two states.
 */
#include "filter/handle.h"

#include <math.h>

static double judge_window(const bg_filter_info *info)
{
    const double share =
        info->items.value > 0 ? info->items.low / info->items.value : 1;
    return info->rate * fmax(0.5, pow(share, info->k));
}

double bgi_judge_rate(const bg_filter_info *info)
{
    const struct bgi_kind *kind =
        bgi_kind_variant(info->kind, info->width, info->flags);
    if (!kind || info->shards > 1 || info->overflowed
        || bg_health_of_items(info->items, info->design_items) == BG_HEALTH_ACT) {
        return info->rate;
    }
    if (kind->composed) {
        return kind->id == BG_KIND_WINDOW ? judge_window(info) : info->rate;
    }
    return fmin(info->rate, bgi_kind_rate(kind, info->units, info->k,
                                          info->items.low + info->canaries));
}

bg_health bg_health_of_rate(double rate, double target)
{
    return !(target > 0)                          ? BG_HEALTH_FINE
           : rate > BG_HEALTH_RATE_ACT * target   ? BG_HEALTH_ACT
           : rate > BG_HEALTH_RATE_WATCH * target ? BG_HEALTH_WATCH
                                                  : BG_HEALTH_FINE;
}

bg_health bg_health_of_items(bg_estimate items, uint64_t capacity)
{
    const double most = (double)capacity;
    return capacity == 0                                ? BG_HEALTH_FINE
           : items.low > BG_HEALTH_ITEMS_ACT * most     ? BG_HEALTH_ACT
           : items.value > BG_HEALTH_ITEMS_WATCH * most ? BG_HEALTH_WATCH
                                                        : BG_HEALTH_FINE;
}

bg_health bg_filter_health(const bg_filter_info *info)
{
    if (!info || info->struct_size != sizeof *info) {
        return BG_HEALTH_FINE;
    }
    return info->degraded || info->overflowed
               ? BG_HEALTH_ACT
               : bg_health_of_rate(bgi_judge_rate(info), info->design_rate);
}

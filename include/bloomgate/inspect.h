/*
 * inspect.h - additional measurements of filters, and predictions without a filter.
 */
#ifndef BLOOMGATE_INSPECT_H
#define BLOOMGATE_INSPECT_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/kind.h"
#include "bloomgate/plan.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Describes a filter as bg_filter_get_info does, but reads at most about `max_bytes` bytes
 * of each part of the filter; 0 reads all bytes. `ones`, `fill` and `rate` are then
 * estimates, and the interval of `items` is wider. A sample of 1 MiB determines the fill
 * to within one part in a thousand.
 * Errors: those of bg_filter_get_info. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_sample_info(const bg_filter *filter,
                                                  uint64_t max_bytes,
                                                  bg_filter_info *out);

/* Returns the share of bits that are set. Thread safety: MT-Safe. Cost: reads every byte. */
BG_API double bg_filter_fill(const bg_filter *filter);

/*
 * Returns the number of keys that the filter can hold in its current state. For a scalable
 * filter, this is the total capacity of its layers. For kinds with BG_TRAIT_FILLS_UP, it
 * is the number of slots times the maximum load that plans allow; below that load, adds
 * are rarely refused. For other kinds, it is `items` from the spec. Returns 0 if the
 * capacity is unknown, and for NULL.
 * Thread safety: MT-Safe; with concurrent adds the result is a snapshot. Cost: a few loads
 * per layer and shard.
 */
BG_API uint64_t bg_filter_capacity(const bg_filter *filter);

/*
 * Returns the number of layers in which a key is looked up: the layers of a scalable
 * filter (in the shard with the most layers), the generations of a window, or 1 for other
 * kinds. Returns 0 for NULL.
 * Thread safety: MT-Safe; with concurrent adds the result is a snapshot.
 */
BG_API uint32_t bg_filter_layers(const bg_filter *filter);

/*
 * Measures how evenly a filter is filled: divides its words, in file order, into `cells`
 * (1 to 65536) parts of equal size, and sets shares[i] to the share of set bits in part i.
 * If there are more cells than words, neighboring cells show the same word. For kinds with
 * counters, fingerprints or slots, the shares are not comparable with bg_filter_info.fill,
 * but show how evenly the counters, fingerprints or slots are distributed.
 * Errors: BG_EINVAL for NULL or an out-of-range number of cells.
 * Thread safety: MT-Safe; with concurrent adds the result is a snapshot. Cost: reads every
 * byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_occupancy(const bg_filter *filter, double *shares,
                                                size_t cells);

/*
 * Returns the predicted false-positive rate of a filter of the given kind, with `bytes`
 * bytes of bits and `k` bits per key, that contains `items` keys; NaN if no such filter
 * exists.
 * Thread safety: MT-Safe. Cost: microseconds.
 */
BG_API double bg_predict_rate(bg_kind kind, uint64_t bytes, uint32_t k, uint64_t items);

/* ---- Health ---------------------------------------------------------------------- */

/* The urgency with which a filter needs attention. */
typedef enum bg_health {
    BG_HEALTH_FINE = 0,
    BG_HEALTH_WATCH = 1, /* rebuild the filter when convenient */
    BG_HEALTH_ACT = 2    /* rebuild the filter now */
} bg_health;

/* The limits of the health rule: ratios of the rate to the requested rate, and of the number of
 * keys to the capacity. The CLI, service, metrics and alerts use no other limits. */
#define BG_HEALTH_RATE_WATCH  1.25
#define BG_HEALTH_RATE_ACT    2.0
#define BG_HEALTH_ITEMS_WATCH 0.9
#define BG_HEALTH_ITEMS_ACT   1.05

/*
 * Returns the health of a filter: BG_HEALTH_ACT if the filter is degraded or has overflowed, else
 * the result of comparing its rate with design_rate, the requested rate. A rate that is too high
 * only by chance, as in a filter with a few dozen keys, is fine. Returns BG_HEALTH_FINE if the
 * requested rate is unknown, and for NULL or an unknown struct_size.
 * Thread safety: MT-Safe. Cost: microseconds.
 */
BG_API bg_health bg_filter_health(const bg_filter_info *info);

/* Compares a rate with the requested rate. If `target` is 0, the requested rate is unknown, and the
 * result is BG_HEALTH_FINE. Thread safety: MT-Safe. */
BG_API bg_health bg_health_of_rate(double rate, double target);

/*
 * Compares the number of keys with the capacity. If `capacity` is 0, it is unknown or unlimited,
 * and the result is BG_HEALTH_FINE. BG_HEALTH_WATCH means that the filter is nearly full or full,
 * and BG_HEALTH_ACT that it almost certainly holds more keys than it was designed for. Thread
 * safety: MT-Safe.
 */
BG_API bg_health bg_health_of_items(bg_estimate items, uint64_t capacity);

/* ---- Predictions ------------------------------------------------------------------ */

/*
 * Measures the hashing speed on this machine and sets plan->keyed_hash_ns. The measurement takes a
 * few milliseconds.
 * Thread safety: MT-Safe for different plans.
 */
BG_API void bg_plan_calibrate(bg_plan *plan);

/*
 * Returns the rate `hits` / `trials` with its 95% Wilson interval. Use it for observed
 * false-positive rates. Thread safety: MT-Safe.
 */
BG_API bg_estimate bg_observed_rate(uint64_t hits, uint64_t trials);

#ifdef __cplusplus
}
#endif

#endif

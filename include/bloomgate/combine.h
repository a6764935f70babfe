/*
 * combine.h - merge, fold, resize, compact and compare filters.
 *
 *     bg_filter_merge(all, monday, NULL);            // union of two filters
 *     bg_filter_fold(all, 1, &half, NULL);           // half the size at a higher rate
 *     bg_filter_overlap(monday, tuesday, &o, NULL);  // how many keys they share
 *
 * bg_kind_traits reports which operations a kind supports. Filters in shards can be merged
 * and compared, but not folded, resized, compacted or enumerated (BG_ENOTSUP).
 */
#ifndef BLOOMGATE_COMBINE_H
#define BLOOMGATE_COMBINE_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates an empty filter with the geometry, hash, flags and allocator of `filter`. A
 * window filter starts in the same period as `filter`. The content of `filter` is not
 * read. The new filter has space for as many canaries as `filter`, but contains none, so
 * canaries that are added to it are counted as keys.
 * Errors: BG_EINVAL if an argument is NULL; BG_ENOMEM. On error *empty is NULL.
 * Thread safety: MT-Safe. Cost: same as bg_filter_create.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create_like(const bg_filter *filter,
                                                  bg_filter **empty, bg_errinfo *info);

/*
 * Adds all keys in `other` to `filter`, which then answers as if the keys of both filters
 * had been added to it. Merging a filter into itself changes nothing. In kinds with
 * counters, the counters are added together, so each key can be removed as many times as
 * it was added to the two filters in total. Merging a filter with counters into itself is
 * refused. `quotient` filters may differ in size if bg_filter_resize could turn one into
 * the other.
 * Errors: BG_EINCOMPAT if the filters differ in kind, size, k or hash, or if two windows
 * differ in their periods; the message describes the difference. BG_ENOTSUP unless the kind
 * has BG_TRAIT_MERGE. BG_EFULL if the keys of both filters do not fit; `filter` is then
 * unchanged, except that a sharded filter with concurrent adds may have received part of
 * `other`. BG_ENOMEM can occur only for a sharded filter or a filter that must grow.
 * Thread safety: MT-Safe (MT-Excl on a BG_SPEC_EXCLUSIVE `filter`). Cost: reads both filters
 * and writes one.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_merge(bg_filter *filter, const bg_filter *other,
                                            bg_errinfo *info);

/*
 * Halves the size `times` times: creates a smaller filter with the same keys and a higher
 * false-positive rate. The result is the filter that you would get by adding the keys to an empty
 * filter of that size. You can therefore size a filter generously, and fold it once the number of
 * keys is known.
 * Errors: BG_EINVAL if the size cannot be halved that many times (see bg_spec.folds);
 * BG_ENOTSUP unless the kind has BG_TRAIT_FOLD; BG_ENOMEM; BG_EFORMAT if the filter is a
 * mapped file that was modified in place.
 * Thread safety: MT-Safe. Cost: reads every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_fold(const bg_filter *filter, uint32_t times,
                                           bg_filter **folded, bg_errinfo *info);

/*
 * Creates a filter with the same content, the same rate and 2^doublings times the
 * capacity. A negative `doublings` creates a smaller filter. `filter` is unchanged. Each
 * doubling moves one bit of the stored hashes from the remainder to the quotient, so `k`
 * becomes k - doublings.
 * Errors: BG_EINVAL if the filter cannot have that size; BG_EFULL if the content does not
 * fit; BG_ENOTSUP unless the kind has BG_TRAIT_RESIZE; BG_ENOMEM. On error *resized is
 * NULL.
 * Thread safety: MT-Safe; adds wait until the call returns. Cost: reads one filter and
 * writes the other.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_resize(const bg_filter *filter, int doublings,
                                             bg_filter **resized, bg_errinfo *info);

/*
 * Creates a single-layer filter (blocked or classic) from a scalable filter. The result
 * contains the same keys, its false-positive rate is at most the rate in the spec, and it
 * is as small as that rate allows. The keys are not needed: large layers are folded, small
 * layers are unfolded (each line repeated), and the lines are ORed, so the fills of the
 * layers add up. Compaction therefore works only while the layers are sparse, typically if
 * there is only one layer or the last layer has received few keys.
 * Errors: BG_EFULL if the layers are too full; in that case, add the keys to a new filter
 * whose spec.items is the value of bg_filter_info.items. BG_ENOTSUP unless the kind is
 * scalable; BG_ENOMEM.
 * Thread safety: MT-Safe. Cost: reads every byte, and some bytes several times.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_compact(const bg_filter *filter,
                                              bg_filter **compacted, bg_errinfo *info);

/*
 * Returns whether two filters have the same kind, geometry and hash, and can therefore be
 * merged. Thread safety: MT-Safe.
 */
BG_API bool bg_filter_compatible(const bg_filter *a, const bg_filter *b);

/*
 * Returns whether two filters are compatible and have the same content, bit for bit. Two
 * cuckoo filters with the same keys may store them in different slots, and are then not
 * equal.
 * Thread safety: MT-Safe; with concurrent adds the result is a snapshot. Cost: reads both
 * filters up to the first difference.
 */
BG_API bool bg_filter_equal(const bg_filter *a, const bg_filter *b);

/* Estimated numbers of keys in two filters. */
typedef struct bg_overlap {
    bg_estimate a;       /* distinct keys in a */
    bg_estimate b;       /* distinct keys in b */
    bg_estimate both;    /* keys in both filters */
    bg_estimate either;  /* keys in at least one filter */
    bg_estimate jaccard; /* both / either, 0 to 1 */
} bg_overlap;

/*
 * Estimates how many keys two compatible filters share.
 * Errors: BG_EINCOMPAT; BG_ENOTSUP unless the kind has BG_TRAIT_OVERLAP.
 * Thread safety: MT-Safe. Cost: reads both filters.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_overlap(const bg_filter *a, const bg_filter *b,
                                              bg_overlap *overlap, bg_errinfo *info);

/*
 * Calls `visit` for each stored hash in ascending order, until `visit` returns false.
 * `hash_prefix` contains the leading bits of the hash that the filter stores, followed by
 * zeros; `count` is the number of times the hash was added. Keys with the same leading
 * bits count as one key. Keys that did not fit (bg_filter_info.overflowed) are not
 * included. `visit` may change the filter; concurrent changes may or may not be included.
 * Errors: BG_ENOTSUP unless the kind has BG_TRAIT_ENUMERATE; BG_EINVAL for NULL.
 * Thread safety: MT-Safe. Cost: reads every byte.
 */
BG_API bg_err bg_filter_for_each(const bg_filter *filter,
                                 bool (*visit)(void *context, uint64_t hash_prefix,
                                               uint64_t count),
                                 void *context);

#ifdef __cplusplus
}
#endif

#endif

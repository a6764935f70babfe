/*
 * layers.h - looks up groups of keys in several filters that use the same hash function.
 *
 * A key may be a member if any filter may contain it. A key is absent only if every filter answers
 * "no", so at least one cache line of each filter must be read. All filters have the same Bloom
 * kind and k. The number of units in a filter is the number of units in the first filter divided by
 * a power of two. The high bits of a hash select the unit, so the index of a hash's unit in a
 * filter is the index of its unit in the first filter, divided by the same power of two. There are
 * two ways to query the filters:
 *
 *   at once    Look up a key in all filters, then the next key (bgi_ops.has_any). This is faster
 *              for kinds with one cache line per key.
 *   in turn    Look up the group in one filter, then in the next filter, whose lines have been
 *              prefetched in the meantime. This way is used for kinds with more than one line per
 *              key, and for filters of equal size that do not fit into the cache. Such filters
 *              start at the same page offset, so a key's lines in all filters map to the same cache
 *              set, which has fewer ways than there are filters. In contrast, the lines of a group
 *              in one filter are spread over many sets.
 *
 * The first filter should be the most likely to contain a key. If it answers "maybe" for all of
 * the first few hashes of a group, it is queried alone, and the other filters are queried only
 * for the remaining hashes. If fewer hashes match, querying the first filter alone is slower,
 * because the remaining hashes must be gathered and their lines have not been prefetched. When one
 * half, three quarters or seven eighths of the keys were in the first filter, such lookups took up
 * to 1.5 times as long at 1e7 keys. At 1e8 keys, they took from 4% less to 20% more time (Zen 4).
 *
 * Whether lines are prefetched depends on the total size of all filters, because 24 filters that
 * would each fit into the cache evict each other's lines.
 */
#ifndef BGI_LAYERS_H
#define BGI_LAYERS_H

#include "filter/handle.h"

struct layers {
    /* The largest filter, which is the most likely to contain a key, comes first. */
    const struct bgi_core *core[BGI_LAYERS_MAX];
    uint32_t count;
    uint32_t step;  /* each filter has 2^step times as many units as the next */
    uint64_t bytes; /* total size */
};

BGI_INLINE void layers_begin(struct layers *layers, uint32_t step)
{
    layers->count = 0;
    layers->step = step;
    layers->bytes = 0;
}

BGI_INLINE void layers_push(struct layers *layers, const bg_filter *filter)
{
    layers->core[layers->count++] = &filter->core;
    layers->bytes += filter->bytes;
}

/* Returns a mask of the hashes that at least one filter may contain. Also prefetches the lines of
 * the group `next`, unless it is NULL. */
uint64_t layers_has_group(const struct layers *layers, const struct bgi_group *group,
                          const struct bgi_group *next);

/* Adds the hashes of a group whose bits are set in `which`. Returns a mask of the hashes that were
 * new. */
uint64_t layers_add_group(struct bgi_core *core, const struct bgi_group *group,
                          uint64_t which, const struct bgi_group *next);

/* Returns a mask with a bit for every hash of the group. */
BGI_INLINE uint64_t layers_all(const struct bgi_group *group)
{
    return group->n < 64 ? ((uint64_t)1 << group->n) - 1 : UINT64_MAX;
}

#endif

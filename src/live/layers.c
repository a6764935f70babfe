#include "live/layers.h"

#include "base/features.h"

/* LAYERS_AHEAD is the number of filters by which prefetching runs ahead when filters are queried in
 * turn. The first filter is queried alone if it answers "maybe" for the first LAYERS_SAMPLE hashes
 * of a group. */
enum { LAYERS_AHEAD = 2, LAYERS_SAMPLE = 16 };

/* Some hashes of a group, gathered into consecutive entries. */
struct layers_rest {
    struct bgi_group group;
    uint64_t hashes[64];
};

static void layers_gather(const struct bgi_group *group, uint64_t which,
                          struct layers_rest *rest)
{
    rest->group.hashes = rest->hashes;
    rest->group.n = 0;
    for (; which; which &= which - 1) {
        rest->hashes[rest->group.n++] = group->hashes[__builtin_ctzll(which)];
    }
}

/* Moves the result bits of gathered hashes to the positions that these hashes have in the original
 * group. */
static uint64_t layers_scatter(uint64_t which, uint64_t bits)
{
    uint64_t answer = 0;
    for (; which && bits; which &= which - 1, bits >>= 1) {
        answer |= bits & 1 ? which & -which : 0;
    }
    return answer;
}

/* Computes the locations of a group's hashes in a filter. */
static const struct bgi_group *layers_locate(const struct bgi_core *core,
                                             const struct bgi_group *group,
                                             struct bgi_group *to)
{
    to->hashes = group->hashes;
    to->n = group->n;
    core->ops->locate(core, to);
    return to;
}

/* Returns whether the filters are larger than the cache, so that lines must be prefetched. */
static bool layers_large(const struct layers *layers)
{
    return layers->bytes > bgi_second_level_bytes() / 4 * 5;
}

/* ---- The two ways to query, starting at filter `from` ------------------------- */

static uint64_t layers_in_turn(const struct layers *layers, uint32_t from,
                               const struct bgi_group *group,
                               const struct bgi_group *next)
{
    struct bgi_group here, there;
    uint32_t count = layers->count - from;
    uint64_t maybe = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ahead = i + (LAYERS_AHEAD < count ? LAYERS_AHEAD : count);
        const struct bgi_group *after = ahead < count ? group : next;
        const struct bgi_core *core = layers->core[from + i];
        const struct bgi_core *later = layers->core[from + ahead % count];
        after =
            layers_large(layers) && after ? layers_locate(later, after, &there) : NULL;
        maybe |= core->ops->has_group(core, layers_locate(core, group, &here), after);
    }
    return maybe;
}

static uint64_t layers_at_once(const struct layers *layers, uint32_t from,
                               const struct bgi_group *group,
                               const struct bgi_group *next)
{
    struct bgi_group here, there = { .n = 0 };
    const struct bgi_core *core = layers->core[from];
    if (next) {
        (void)layers_locate(core, next, &there);
    }
    return core->ops->has_any(layers->core + from, layers->count - from, layers->step,
                              layers_locate(core, group, &here),
                              layers_large(layers) ? &there : NULL);
}

static uint64_t layers_query(const struct layers *layers, uint32_t from,
                             const struct bgi_group *group,
                             const struct bgi_group *next)
{
    bool spread = layers->step || !layers_large(layers);
    return spread && layers->core[0]->ops->has_any
               ? layers_at_once(layers, from, group, next)
               : layers_in_turn(layers, from, group, next);
}

/* ---- Groups ---------------------------------------------------------------------- */

/* Returns whether the first filter is likely to answer "maybe" for all hashes. If it is not, a
 * single lookup usually reveals this. */
static bool layers_first_knows(const struct layers *layers,
                               const struct bgi_group *group)
{
    const struct bgi_core *first = layers->core[0];
    unsigned sample = group->n < LAYERS_SAMPLE ? group->n : LAYERS_SAMPLE, known = 0;
    while (known < sample && first->has(first, group->hashes[known])) {
        known++;
    }
    return sample && known == sample;
}

/* Queries the other filters for the hashes for which the first filter answers "no". */
static uint64_t layers_query_rest(const struct layers *layers,
                                  const struct bgi_group *group, uint64_t which)
{
    struct layers_rest rest;
    const struct bgi_group none = { .n = 0 };
    layers_gather(group, which, &rest);
    (void)layers_query(layers, 1, &none, &rest.group); /* only prefetches */
    return layers_scatter(which, layers_query(layers, 1, &rest.group, NULL));
}

uint64_t layers_has_group(const struct layers *layers, const struct bgi_group *group,
                          const struct bgi_group *next)
{
    struct bgi_group here, there;
    const struct bgi_core *first = layers->core[0];
    if (layers->count > 1 && !layers_first_knows(layers, group)) {
        return layers_query(layers, 0, group, next);
    }
    bool asks = next && layers_large(layers);
    uint64_t maybe =
        first->ops->has_group(first, layers_locate(first, group, &here),
                              asks ? layers_locate(first, next, &there) : NULL);
    uint64_t unknown = layers->count > 1 ? layers_all(group) & ~maybe : 0;
    return unknown ? maybe | layers_query_rest(layers, group, unknown) : maybe;
}

uint64_t layers_add_group(struct bgi_core *core, const struct bgi_group *group,
                          uint64_t which, const struct bgi_group *next)
{
    struct layers_rest rest;
    struct bgi_group there;
    layers_gather(group, which, &rest);
    core->ops->locate(core, &rest.group);
    const struct bgi_group *after =
        next && core->adds_prefetch ? layers_locate(core, next, &there) : NULL;
    return layers_scatter(which, core->ops->add_group(core, &rest.group, after));
}

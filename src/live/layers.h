/*
 * layers.h - words of a batch, asked in several filters that share their hashes.
 *
 * What a member needs is one filter that knows it; what an absent key needs is a "no"
 * from all, and for that a line of each. The filters are of one Bloom kind and k, and the
 * units of each are those of the first divided by a power of two; units being found by
 * the high bits of a hash, so is the number of a unit. There are two ways to ask:
 *
 *   at once    A key in all filters, then the next key (bgi_ops.has_any). The faster one,
 *              for kinds of one line.
 *   in turn    The word in one filter, then in the next, whose lines are asked for
 *              meanwhile. For kinds of more than one line, and for filters of one size
 *              that do not fit the cache: they begin at the same place of their pages, so
 *              the lines of a key fall into one set of the cache, which holds fewer of
 *              them than there are filters; those of a word in one filter spread.
 *
 * Only if the first filter, which should be the likeliest, knows the first few hashes of
 * a word without exception is it asked alone, and the others for what it does not know.
 * With less than that it does not pay, since a rest must be pushed together and its lines
 * were not asked for ahead: members of which the first filter had one half, three quarters
 * or seven eighths took up to 1.5 times as long at 1e7 keys, and from 4 % less to 20 % more
 * time at 1e8 (Zen 4).
 *
 * Whether lines are asked for ahead depends on the size of all filters together: each of
 * 24 that would fit the cache alone drives the others out of it.
 */
#ifndef BGI_LAYERS_H
#define BGI_LAYERS_H

#include "filter/handle.h"

struct layers {
    const struct bgi_core
        *core[BGI_LAYERS_MAX]; /* the likeliest first, none is larger */
    uint32_t count;
    uint32_t step;  /* each has 2^step times fewer units than the one before */
    uint64_t bytes; /* of all of them */
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

/* Which hashes one of them may contain; asks for the memory of `next`, unless NULL. */
uint64_t layers_has_group(const struct layers *layers, const struct bgi_group *group,
                          const struct bgi_group *next);

/* Adds those of a word's hashes that `which` tells; returns which of them were new. */
uint64_t layers_add_group(struct bgi_core *core, const struct bgi_group *group,
                          uint64_t which, const struct bgi_group *next);

/* A bit for every hash of the word. */
BGI_INLINE uint64_t layers_all(const struct bgi_group *group)
{
    return group->n < 64 ? ((uint64_t)1 << group->n) - 1 : UINT64_MAX;
}

#endif

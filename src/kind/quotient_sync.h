/*
 * quotient_sync.h - who may change which part of a quotient filter, and how readers find
 * out that it changed under them. The argument is in quotient.c.
 *
 * A region is 64 blocks. It has one word:
 *
 *     bit 0       locked: one thread may change the region
 *     bits 1..63  its sequence number: odd while it is being changed
 *
 * What an operation touches is known only when it has looked: runs and the slots that have
 * to move may reach into the next region, and where offsets are saturated it has to look
 * at earlier ones. So operations collect the span of blocks that they touch, begin with
 * the region of the quotient, and start over with a wider range when that was not enough.
 */
#ifndef BGI_QUOTIENT_SYNC_H
#define BGI_QUOTIENT_SYNC_H

#include "kind/quotient_table.h"

/* The blocks that were touched, first and last. */
struct quotient_span {
    uint64_t first, last;
};

/* The regions that are locked or watched, first and last. */
struct quotient_range {
    uint64_t first, last;
};

BGI_INLINE struct quotient_span quotient_span_at(uint64_t block)
{
    return (struct quotient_span){ block, block };
}

BGI_INLINE void quotient_touch(struct quotient_span *span, uint64_t block)
{
    span->last = block > span->last ? block : span->last;
}

BGI_INLINE struct quotient_range quotient_range_of(struct quotient_span span)
{
    return (struct quotient_range){ span.first / QUOTIENT_REGION,
                                    span.last / QUOTIENT_REGION };
}

/* Whether the range covers the span; if not, it is widened. */
BGI_INLINE bool quotient_covers(struct quotient_range *range, struct quotient_span span)
{
    struct quotient_range needed = quotient_range_of(span);
    if (needed.first >= range->first && needed.last <= range->last) {
        return true;
    }
    range->first = needed.first < range->first ? needed.first : range->first;
    range->last = needed.last > range->last ? needed.last : range->last;
    return false;
}

BGI_INLINE uint64_t *quotient_region(const struct bgi_core *core, uint64_t region)
{
    return &quotient_state_of(core)->regions[region];
}

BGI_INLINE struct quotient_range quotient_all(const struct bgi_core *core)
{
    struct quotient_span all = { 0, quotient_state_of(core)->blocks - 1 };
    return quotient_range_of(all);
}

/* ---- Writers ------------------------------------------------------------------------- */

/* In ascending order, so that no two wait for each other. */
BGI_INLINE void quotient_lock(const struct bgi_core *core, struct quotient_range range)
{
    for (uint64_t i = range.first; i <= range.last; i++) {
        uint64_t *region = quotient_region(core, i);
        while (__atomic_fetch_or(region, 1, __ATOMIC_ACQUIRE) & 1) {
            while (__atomic_load_n(region, __ATOMIC_RELAXED) & 1) {
                bgi_pause();
            }
        }
    }
}

BGI_INLINE void quotient_unlock(const struct bgi_core *core,
                                struct quotient_range range)
{
    for (uint64_t i = range.first; i <= range.last; i++) {
        (void)__atomic_fetch_and(quotient_region(core, i), ~(uint64_t)1,
                                 __ATOMIC_RELEASE);
    }
}

/* Before and after a change to regions that the caller has locked. */
BGI_INLINE void quotient_next_number(const struct bgi_core *core,
                                     struct quotient_range range)
{
    for (uint64_t i = range.first; i <= range.last; i++) {
        (void)__atomic_fetch_add(quotient_region(core, i), 2, __ATOMIC_RELEASE);
    }
}

/* ---- Readers ------------------------------------------------------------------------- */

/* The sum of the sequence numbers of a range. They only rise, so that an equal sum means
 * that none has changed. False when one is odd. */
BGI_INLINE bool quotient_sequence(const struct bgi_core *core,
                                  struct quotient_range range, uint64_t *sum)
{
    uint64_t odd = 0, total = 0;
    for (uint64_t i = range.first; i <= range.last; i++) {
        uint64_t number = quotient_load(quotient_region(core, i)) >> 1;
        odd |= number & 1;
        total += number;
    }
    *sum = total;
    return !odd;
}

/* Whether what was read between `before` and now, within `span`, was all of one moment. */
BGI_INLINE bool quotient_unchanged(const struct bgi_core *core,
                                   struct quotient_range *range,
                                   struct quotient_span span, uint64_t before)
{
    uint64_t now;
    return quotient_covers(range, span) && quotient_sequence(core, *range, &now)
           && now == before;
}

#endif

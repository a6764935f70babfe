/*
 * quotient_sync.h - locks for the regions of a quotient filter, and functions with which readers
 * detect concurrent changes. The proof is in quotient.c.
 *
 * A region consists of 64 blocks. Its state is one word:
 *
 *     bit 0       set if the region is locked: one thread may change it
 *     bits 1..63  the sequence number, which is odd while the region is being changed
 *
 * The blocks that an operation touches are known only after it has read the table. Runs and the
 * slots to be moved may extend into the next region, and if offsets are saturated, earlier regions
 * must be read. So operations collect the span of blocks that they touch. They start with the
 * quotient's region. If that region does not cover the span, they start over with a wider range.
 */
#ifndef BGI_QUOTIENT_SYNC_H
#define BGI_QUOTIENT_SYNC_H

#include "kind/quotient_table.h"

/* The first and the last block that an operation touches. */
struct quotient_span {
    uint64_t first, last;
};

/* The first and the last region that a writer locks or a reader checks. */
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

/* Returns whether the range covers the span. If not, widens the range. */
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

/* Locks the regions in ascending order, so that no two threads deadlock. */
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

/* Increments the sequence number of each region in a range. Called before and after a change to
 * regions that the caller has locked. */
BGI_INLINE void quotient_next_number(const struct bgi_core *core,
                                     struct quotient_range range)
{
    for (uint64_t i = range.first; i <= range.last; i++) {
        (void)__atomic_fetch_add(quotient_region(core, i), 2, __ATOMIC_RELEASE);
    }
}

/* ---- Readers ------------------------------------------------------------------------- */

/* Computes the sum of the sequence numbers of a range. The numbers only increase, so an equal sum
 * means that no number has changed. Returns false if one of the numbers is odd. */
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

/* Returns whether everything that was read within `span` since the sum `before` was computed is a
 * consistent snapshot. If `range` does not cover `span`, widens `range`. */
BGI_INLINE bool quotient_unchanged(const struct bgi_core *core,
                                   struct quotient_range *range,
                                   struct quotient_span span, uint64_t before)
{
    uint64_t now;
    return quotient_covers(range, span) && quotient_sequence(core, *range, &now)
           && now == before;
}

#endif

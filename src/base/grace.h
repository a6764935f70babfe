/*
 * grace.h - when is nobody looking any more? Memory that is replaced under its readers.
 *
 * The idea (sleepable RCU, McKenney 2006). Readers find what they read through one atomic
 * pointer. They count themselves in before they follow it and out afterwards; whoever
 * replaces it waits, or has others wait, until all who were in at that moment are out. Then
 * the old thing can be freed.
 *
 * A reader's cost is two atomic additions, to a cache line that belongs to the processor it
 * runs on, so readers do not disturb each other. It never waits and never tries again.
 *
 *     struct bgi_grace
 *       phase          0 or 1: the pair of counters that new readers use
 *       lines[n]       per processor, a cache line: entered[2], left[2]
 *       retired        a list of things, each with how to free it
 *
 * Readers
 *     (R1) i = phase; entered[i] of this processor += 1; then the pointer is read
 *     (R2) left[i] of the same line += 1
 *     (R3) if anything is retired, see whether it can be freed
 *
 * Freeing. A thing X was retired after the pointer was replaced. It may be freed once each
 * of the two pairs of counters has been seen drained since: sum of left[i] = sum of
 * entered[i], with the lefts read first.
 *
 *   Proof. All of R1, R2, the replacement and the sums are sequentially consistent, so
 *   there is one order of them. Take a reader that got X: it read the pointer before the
 *   replacement, and entered before that. So its entry is in every sum of entries that is
 *   made later. If that sum equals a sum of leaves made before it, then: every leave that
 *   was counted has its own entry counted, as that came earlier and entries are summed
 *   later; so equal sums mean that every counted entry has its leave counted, also that of
 *   our reader. It has left. It may have used either pair, hence both are looked at.
 *
 *   Progress. The pair that new readers use may never be seen drained under load. So first
 *   the other pair is waited for, which only late-comers enter (those who had read `phase`
 *   before it changed); then `phase` changes, and the first pair is waited for. Neither gets
 *   new readers for long.
 *
 * Who frees. Those who replace things usually wait until they can free them themselves
 * (bgi_grace_wait_retired); they look every millisecond. If they do not wait, or no longer,
 * `orphaned` is set, and whoever leaves tries. Trying takes a lock without waiting for it;
 * who does not get it has said so in `again`, and who has it looks once more before he lets
 * go. So what is retired is freed at the latest when its last reader leaves, and no reader
 * waits for that; he may find himself doing it.
 */
#ifndef BGI_GRACE_H
#define BGI_GRACE_H

#include "base/memory.h"
#include "base/stripe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in what is retired. */
struct bgi_retired {
    struct bgi_retired *next;
    void (*release)(struct bgi_retired *retired);
};

struct bgi_grace_line {
    _Alignas(64) _Atomic uint64_t entered[2];
    _Atomic uint64_t left[2];
};

struct bgi_grace {
    atomic_uint phase;
    atomic_bool orphaned; /* something is retired, and nobody waits for it */
    atomic_bool again;    /* somebody left, and did not get the lock */
    uint32_t lines_count;
    struct bgi_grace_line *lines;
    struct bgi_memory memory;
    pthread_mutex_t lock;         /* of all below */
    struct bgi_retired *draining; /* the batch that is being waited for */
    struct bgi_retired *later;    /* the next one, the last first */
    uint64_t batch;               /* number of `draining`; `later` will be the next */
    uint64_t done;                /* batches up to this one are freed */
    uint64_t things;              /* in both lists */
    unsigned step; /* 0: the unused pair drains; 1: the one used before */
    unsigned waiters;
};

/* What a reader must keep between entering and leaving. */
typedef unsigned bgi_grace_token;

bool bgi_grace_init(struct bgi_grace *grace, const bg_allocator *allocator);

/* The same with n lines of the caller's, all zero; n is a power of two. */
void bgi_grace_init_at(struct bgi_grace *grace, struct bgi_grace_line *lines,
                       uint32_t n);

/* Whether nobody is in and nothing is retired. */
bool bgi_grace_is_idle(struct bgi_grace *grace);

/* Frees what is retired: nobody may be in. */
void bgi_grace_end(struct bgi_grace *grace);

static inline bgi_grace_token bgi_grace_enter(struct bgi_grace *grace)
{
    const unsigned i = atomic_load_explicit(&grace->phase, memory_order_relaxed);
    const unsigned line = bgi_stripe(grace->lines_count);
    atomic_fetch_add(&grace->lines[line].entered[i], 1);
    return line << 1 | i;
}

/* The line that a reader used; those who count something may use the same number. */
static inline unsigned bgi_grace_stripe(bgi_grace_token token)
{
    return token >> 1;
}

void bgi_grace_try(struct bgi_grace *grace);

static inline void bgi_grace_leave(struct bgi_grace *grace, bgi_grace_token token)
{
    atomic_fetch_add(&grace->lines[bgi_grace_stripe(token)].left[token & 1], 1);
    if (atomic_load(&grace->orphaned)) {
        bgi_grace_try(grace);
    }
}

/* Gives `retired` away, to be released when all who are in now have left. The pointer to it
 * must have been replaced before. `release` is called with the lock held: it must not
 * retire anything here. */
void bgi_grace_retire(struct bgi_grace *grace, struct bgi_retired *retired,
                      void (*release)(struct bgi_retired *));

/* Waits until everybody who is in now has left; not from within. */
void bgi_grace_wait(struct bgi_grace *grace);

/* Waits until what is retired by now is freed, but not longer than so many milliseconds. */
void bgi_grace_wait_retired(struct bgi_grace *grace, unsigned milliseconds);

/* How many things wait to be freed. */
uint64_t bgi_grace_pending(struct bgi_grace *grace);

#endif

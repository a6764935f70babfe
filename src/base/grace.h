/*
 * grace.h - safe memory reclamation: replacing objects while readers use them.
 *
 * Idea (sleepable RCU, McKenney 2006). Readers reach an object through one atomic pointer. A
 * reader increments one counter before it follows the pointer, and a second counter when it is
 * done. A writer that replaces the pointer waits until every reader that had entered by then has
 * left, or delegates the wait to another thread. Then the old object can be freed.
 *
 * A reader's cost is two atomic additions to a cache line that belongs to the core it runs on,
 * so readers do not disturb each other. A reader never waits and never retries.
 *
 *     struct bgi_grace
 *       phase          0 or 1: the pair of counters that new readers use
 *       lines[n]       one cache line per core: entered[2], left[2]
 *       retired        a list of objects, each with a function to free it
 *
 * Readers
 *     (R1) i = phase; entered[i] of this core's line += 1; then read the pointer
 *     (R2) left[i] of the same line += 1
 *     (R3) if anything is retired and no writer waits for it, check whether it can be freed
 *
 * Freeing. Suppose object X was retired after the pointer to it was replaced. X may be freed once
 * each of the two pairs of counters has been observed to be drained since then. Pair i is drained
 * if the sum of left[i], which is computed first, equals the sum of entered[i].
 *
 *   Proof. R1, R2, the replacement and the sums are all sequentially consistent, so they have
 *   one total order. Consider a reader that got X. It read the pointer before the replacement and
 *   had entered before that read, so every later sum of entries includes its entry. Now suppose
 *   that such a sum equals a sum of exits that was computed earlier. For every exit that was
 *   counted, the corresponding entry was counted, too, because the entry happened earlier and
 *   entries are summed later. So if the sums are equal, the exit of every counted entry was
 *   counted, including our reader's exit. The reader has left. The reader may have used either
 *   pair, so both pairs are checked.
 *
 *   Progress. Under load, the pair that new readers use may never be observed to be drained. So
 *   the writer first waits for the other pair, which only stragglers enter (readers that loaded
 *   `phase` before it changed). Then `phase` changes, so that new readers use the drained pair, and
 *   the writer waits for the pair that was in use before. So while a pair drains, it gets no new
 *   readers except stragglers.
 *
 * Which thread frees. Writers usually wait until they can free their objects
 * (bgi_grace_wait_retired), checking every millisecond. If no writer is waiting, or a wait times
 * out, `orphaned` is set, and every reader that leaves tries to free the retired objects. Such an
 * attempt uses trylock, so it never blocks. A thread sets `again` before it tries the lock. After
 * releasing the lock, its holder makes another pass if `again` is set, so a failed attempt is not
 * lost. So a retired object is freed no later than when its last reader leaves. No reader waits for
 * the lock, but the work of freeing objects may fall on a reader.
 */
#ifndef BGI_GRACE_H
#define BGI_GRACE_H

#include "base/memory.h"
#include "base/stripe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in objects that can be retired. */
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
    /* True if there are retired objects and no writer is waiting to free them. */
    atomic_bool orphaned;
    atomic_bool again; /* the lock holder must make another pass */
    uint32_t lines_count;
    struct bgi_grace_line *lines;
    struct bgi_memory memory;
    pthread_mutex_t lock;         /* protects everything below */
    struct bgi_retired *draining; /* the batch that is draining */
    struct bgi_retired *later;    /* the next batch, newest object first */
    uint64_t batch;               /* sequence number of the draining batch */
    uint64_t done;                /* batches up to this number have been freed */
    uint64_t things;              /* number of objects in both lists */
    /* The pair that is draining: 0 is the pair that was not in use when the batch started, and 1 is
     * the pair that was. */
    unsigned step;
    unsigned waiters;
};

/* State that a reader keeps between entering and leaving. */
typedef unsigned bgi_grace_token;

bool bgi_grace_init(struct bgi_grace *grace, const bg_allocator *allocator);

/* Like bgi_grace_init, but uses n zeroed counter lines in the caller's memory. n is a power of
 * two. */
void bgi_grace_init_at(struct bgi_grace *grace, struct bgi_grace_line *lines,
                       uint32_t n);

/* Returns whether there are no readers and no retired objects. */
bool bgi_grace_is_idle(struct bgi_grace *grace);

/* Frees all retired objects. There must be no readers. */
void bgi_grace_end(struct bgi_grace *grace);

static inline bgi_grace_token bgi_grace_enter(struct bgi_grace *grace)
{
    const unsigned i = atomic_load_explicit(&grace->phase, memory_order_relaxed);
    const unsigned line = bgi_stripe(grace->lines_count);
    atomic_fetch_add(&grace->lines[line].entered[i], 1);
    return line << 1 | i;
}

/* Returns the index of the counter line that a reader used. Callers may use the index for their own
 * per-core counters. */
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

/* Schedules `retired` to be released when all current readers have left. The pointer to the
 * object must already have been replaced. `release` is called with the lock held, so it must not
 * retire objects through `grace`. */
void bgi_grace_retire(struct bgi_grace *grace, struct bgi_retired *retired,
                      void (*release)(struct bgi_retired *));

/* Waits until all current readers have left. Readers must not call this, because they would
 * deadlock. */
void bgi_grace_wait(struct bgi_grace *grace);

/* Waits up to `milliseconds` for all objects retired so far to be freed. */
void bgi_grace_wait_retired(struct bgi_grace *grace, unsigned milliseconds);

/* Returns the number of retired objects that have not been freed yet. */
uint64_t bgi_grace_pending(struct bgi_grace *grace);

#endif

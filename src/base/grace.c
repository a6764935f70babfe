/*
 * grace.c - the writer side of grace periods. grace.h explains the idea and contains the proof.
 *
 * Objects that are retired while a batch is draining go into the next batch, because the sums
 * observed so far do not cover them.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "base/grace.h"

#include <time.h>

void bgi_grace_init_at(struct bgi_grace *grace, struct bgi_grace_line *lines,
                       uint32_t n)
{
    *grace = (struct bgi_grace){ .lines_count = n, .lines = lines };
    (void)pthread_mutex_init(&grace->lock, NULL);
}

bool bgi_grace_init(struct bgi_grace *grace, const bg_allocator *allocator)
{
    const uint32_t n = bgi_stripes();
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, n * sizeof *grace->lines, allocator, true)) {
        *grace = (struct bgi_grace){ .lines_count = n };
        return false;
    }
    bgi_grace_init_at(grace, memory.base, n);
    grace->memory = memory;
    return true;
}

static void grace_release_all(struct bgi_retired *list)
{
    while (list) {
        struct bgi_retired *next = list->next;
        list->release(list);
        list = next;
    }
}

void bgi_grace_end(struct bgi_grace *grace)
{
    if (grace->lines) {
        grace_release_all(grace->draining);
        grace_release_all(grace->later);
        (void)pthread_mutex_destroy(&grace->lock);
        bgi_memory_give(&grace->memory);
        grace->lines = NULL;
    }
}

/* Returns whether all readers that used counter pair i have left. The `left` counters must be
 * summed first; see the proof in grace.h. */
static bool grace_is_drained(struct bgi_grace *grace, unsigned i)
{
    uint64_t left = 0, entered = 0;
    for (uint32_t line = 0; line < grace->lines_count; line++) {
        left += atomic_load(&grace->lines[line].left[i]);
    }
    for (uint32_t line = 0; line < grace->lines_count; line++) {
        entered += atomic_load(&grace->lines[line].entered[i]);
    }
    return left == entered;
}

bool bgi_grace_is_idle(struct bgi_grace *grace)
{
    (void)pthread_mutex_lock(&grace->lock);
    const bool idle =
        grace->things == 0 && grace_is_drained(grace, 0) && grace_is_drained(grace, 1);
    (void)pthread_mutex_unlock(&grace->lock);
    return idle;
}

static void grace_begin_batch(struct bgi_grace *grace)
{
    grace->draining = grace->later;
    grace->later = NULL;
    grace->batch++;
    grace->step = 0;
}

static void grace_end_batch(struct bgi_grace *grace)
{
    for (struct bgi_retired *r = grace->draining; r; r = r->next) {
        grace->things--;
    }
    grace_release_all(grace->draining);
    grace->draining = NULL;
    grace->done = grace->batch;
}

/* Frees as many retired objects as possible without waiting. The caller holds the lock. */
static void grace_work(struct bgi_grace *grace)
{
    while (grace->draining || grace->later) {
        if (!grace->draining) {
            grace_begin_batch(grace);
        }
        unsigned used = atomic_load(&grace->phase);
        if (!grace_is_drained(grace, 1 - used)) {
            return;
        }
        if (grace->step == 0) { /* the other pair drains next */
            atomic_store(&grace->phase, 1 - used);
            grace->step = 1;
        } else {
            grace_end_batch(grace);
        }
    }
}

/* Updates `orphaned`, which makes readers free objects when no writer is waiting to free them. The
 * caller holds the lock. */
static void grace_set_orphaned(struct bgi_grace *grace)
{
    atomic_store(&grace->orphaned, grace->things > 0 && grace->waiters == 0);
}

void bgi_grace_try(struct bgi_grace *grace)
{
    atomic_store(&grace->again, true);
    while (atomic_load(&grace->again) && pthread_mutex_trylock(&grace->lock) == 0) {
        atomic_store(&grace->again, false);
        if (grace->waiters == 0) {
            grace_work(grace);
        }
        grace_set_orphaned(grace);
        (void)pthread_mutex_unlock(&grace->lock);
    }
}

/* Adds an object to the next batch and returns the sequence number of that batch. */
static uint64_t grace_put(struct bgi_grace *grace, struct bgi_retired *retired,
                          void (*release)(struct bgi_retired *))
{
    (void)pthread_mutex_lock(&grace->lock);
    *retired = (struct bgi_retired){ .next = grace->later, .release = release };
    grace->later = retired;
    grace->things++;
    grace_set_orphaned(grace);
    uint64_t batch = grace->batch + 1;
    (void)pthread_mutex_unlock(&grace->lock);
    return batch;
}

void bgi_grace_retire(struct bgi_grace *grace, struct bgi_retired *retired,
                      void (*release)(struct bgi_retired *))
{
    (void)grace_put(grace, retired, release);
    bgi_grace_try(grace);
}

/* Frees objects until `batch` has been freed or `milliseconds` have passed. */
static void grace_wait_batch(struct bgi_grace *grace, uint64_t batch,
                             uint64_t milliseconds)
{
    const struct timespec pause = { 0, 1000000 };
    (void)pthread_mutex_lock(&grace->lock);
    grace->waiters++;
    grace_set_orphaned(grace);
    grace_work(grace);
    for (uint64_t waited = 0; grace->done < batch && waited < milliseconds; waited++) {
        (void)pthread_mutex_unlock(&grace->lock);
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&grace->lock);
        grace_work(grace);
    }
    grace->waiters--;
    grace_set_orphaned(grace);
    (void)pthread_mutex_unlock(&grace->lock);
    /* Readers that left in the meantime may have relied on this thread to free objects. */
    bgi_grace_try(grace);
}

static void grace_release_marker(struct bgi_retired *marker)
{
    (void)marker;
}

void bgi_grace_wait(struct bgi_grace *grace)
{
    struct bgi_retired marker;
    grace_wait_batch(grace, grace_put(grace, &marker, grace_release_marker),
                     UINT64_MAX);
}

void bgi_grace_wait_retired(struct bgi_grace *grace, unsigned milliseconds)
{
    (void)pthread_mutex_lock(&grace->lock);
    uint64_t batch = grace->later      ? grace->batch + 1
                     : grace->draining ? grace->batch
                                       : grace->done;
    (void)pthread_mutex_unlock(&grace->lock);
    grace_wait_batch(grace, batch, milliseconds);
}

uint64_t bgi_grace_pending(struct bgi_grace *grace)
{
    (void)pthread_mutex_lock(&grace->lock);
    uint64_t things = grace->things;
    (void)pthread_mutex_unlock(&grace->lock);
    bgi_grace_try(grace);
    return things;
}

/*
 * quiet.h - detects when no thread can still be using removed data (quiescence).
 *
 * Worker threads look up names without locks, and use the results until the end of a batch of
 * requests. Before a thread frees an object (a dropped filter, an old table), it must wait until
 * every batch that may have seen the object has ended. A thread that writes a snapshot must wait
 * until every recorded change has been applied.
 *
 * Each thread has a seat with its own counter, which is odd while the thread is inside a batch:
 *
 *     quiet_enter(q, seat);   ... look up, record, change ...   quiet_leave(q, seat);
 *
 * quiet_wait reads all counters and returns when each counter that was odd has changed. Batches
 * are short, so quiet_wait sleeps for a few microseconds at a time. quiet_wait must not be called
 * inside a batch.
 *
 * Why this is sufficient. The store that marks the start of a batch and the loads in quiet_wait are
 * sequentially consistent. By contract, so are the store that removes the object before the wait
 * and the loads that find the object in a batch. So either the batch sees that the object was
 * removed, or quiet_wait sees the odd counter. In the second case, quiet_wait waits for the batch's
 * release store, which orders all accesses in the batch before all accesses after the wait.
 */
#ifndef SERVER_UTIL_QUIET_H
#define SERVER_UTIL_QUIET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { QUIET_SEATS = 256 };

struct quiet_seat {
    _Alignas(64) _Atomic uint64_t count; /* odd: inside a batch */
    _Atomic uint32_t taken;
};

struct quiet {
    struct quiet_seat seats[QUIET_SEATS];
};

void quiet_init(struct quiet *quiet);

/* quiet_sit reserves a seat for a thread and returns its index, or -1 if all seats are in use.
 * quiet_rise releases the seat. Thread-safe. */
int quiet_sit(struct quiet *quiet);
void quiet_rise(struct quiet *quiet, int seat);

static inline void quiet_enter(struct quiet *quiet, int seat)
{
    atomic_fetch_add(&quiet->seats[seat].count, 1);
}

static inline void quiet_leave(struct quiet *quiet, int seat)
{
    atomic_fetch_add_explicit(&quiet->seats[seat].count, 1, memory_order_release);
}

/* Leaves the current batch and enters a new one in a single step. */
static inline void quiet_pass(struct quiet *quiet, int seat)
{
    atomic_fetch_add(&quiet->seats[seat].count, 2);
}

/* Waits until all batches that were running when it was called have ended. */
void quiet_wait(struct quiet *quiet);

/* A nonblocking alternative to quiet_wait: quiet_note records which batches are running, and
 * quiet_passed returns whether those batches have ended. */
struct quiet_mark {
    uint64_t seen[QUIET_SEATS];
};
void quiet_note(struct quiet *quiet, struct quiet_mark *mark);
bool quiet_passed(struct quiet *quiet, const struct quiet_mark *mark);

#endif

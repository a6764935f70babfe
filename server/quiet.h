/*
 * quiet.h - detects when all threads have stopped using what was there before.
 *
 * Worker threads look up names without locks, and use what they find until the end of a batch of
 * requests. A thread that removes something (a dropped filter, an old table) must wait until
 * every batch that may have seen it has ended. A thread that writes a snapshot must wait until
 * every recorded change has been applied.
 *
 * Each thread has a seat with its own counter, which is odd while the thread is inside a batch:
 *
 *     quiet_enter(q, seat);   ... look up, record, change ...   quiet_leave(q, seat);
 *
 * quiet_wait reads all counters, and returns when each of them that was odd has changed. Batches
 * are short, so it waits by sleeping for some microseconds. It must not be called inside a batch.
 *
 * Why that suffices. Entering is sequentially consistent, as are the loads of quiet_wait and, by
 * contract, the store that removed the object before the wait and the loads by which batches find
 * it. So either the batch sees the store, or quiet_wait sees the odd counter and waits for the
 * batch's release store, which orders everything in the batch before everything after the wait.
 */
#ifndef SERVER_QUIET_H
#define SERVER_QUIET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUIET_SEATS = 256 };

struct quiet_seat {
    _Alignas(64) _Atomic uint64_t count; /* odd: inside */
    _Atomic uint32_t taken;
};

struct quiet {
    struct quiet_seat seats[QUIET_SEATS];
};

void quiet_init(struct quiet *quiet);

/* Take a seat for a thread, and give it back; -1: all are taken. Thread-safe. */
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

/* Leaves and enters again, in one step. */
static inline void quiet_pass(struct quiet *quiet, int seat)
{
    atomic_fetch_add(&quiet->seats[seat].count, 2);
}

/* Returns once all batches that are running now have ended. */
void quiet_wait(struct quiet *quiet);

/* The same without waiting: quiet_note records the batches that are running now, and quiet_passed
 * returns whether they have ended. */
struct quiet_mark {
    uint64_t seen[QUIET_SEATS];
};
void quiet_note(struct quiet *quiet, struct quiet_mark *mark);
bool quiet_passed(struct quiet *quiet, const struct quiet_mark *mark);

#endif

/*
 * Tests how threads get seats (see quiet.h), and how a thread waits for running batches of
 * requests. A thread that removes an object waits for all batches that may have found the object,
 * so that no batch uses a removed object. The thread does not wait for batches that started later.
 */
#include "util/quiet.h"

#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>

TEST(quiet__seats_are_given_once)
{
    static struct quiet q;
    quiet_init(&q);
    for (int i = 0; i < QUIET_SEATS; i++) {
        CHECK_EQ(quiet_sit(&q), i);
    }
    CHECK_EQ(quiet_sit(&q), -1);
    quiet_rise(&q, 7);
    CHECK_EQ(quiet_sit(&q), 7);
    CHECK_EQ(quiet_sit(&q), -1);
}

TEST(quiet__nobody_inside_is_not_waited_for)
{
    static struct quiet q;
    quiet_init(&q);
    const int seat = quiet_sit(&q);
    quiet_wait(&q);
    quiet_enter(&q, seat);
    quiet_leave(&q, seat);
    quiet_wait(&q);
}

/* ---- One batch, and a thread that waits for it ------------------------------------------ */

static struct {
    struct quiet quiet;
    _Atomic bool waits, waited;
} one;

static void *one_waits(void *unused)
{
    (void)unused;
    atomic_store(&one.waits, true);
    quiet_wait(&one.quiet);
    atomic_store(&one.waited, true);
    return NULL;
}

TEST(quiet__a_batch_is_waited_for)
{
    pthread_t waiting;
    quiet_init(&one.quiet);
    const int seat = quiet_sit(&one.quiet), other = quiet_sit(&one.quiet);
    quiet_enter(&one.quiet, seat);
    CHECK_EQ(pthread_create(&waiting, NULL, one_waits, NULL), 0);
    while (!atomic_load(&one.waits)) {
    }
    for (int i = 0; i < 1000; i++) { /* another thread's batches do not end the wait */
        quiet_enter(&one.quiet, other);
        quiet_leave(&one.quiet, other);
        CHECK(!atomic_load(&one.waited));
    }
    /* Later batches of the same thread must not delay the waiter, although one of them is running
     * whenever the waiter checks. The waiter may start late, so new batches run until it has
     * finished. */
    while (!atomic_load(&one.waited)) {
        quiet_leave(&one.quiet, seat);
        quiet_enter(&one.quiet, seat);
    }
    CHECK_EQ(pthread_join(waiting, NULL), 0);
    quiet_leave(&one.quiet, seat);
}

/* ---- Objects stay valid while batches use them ----------------------------------------------- */

enum { READERS = 3, ROUNDS = 3000, ALIVE = 0x5eed, DEAD = 0xdead };

struct thing {
    uint64_t state;
};

static struct {
    struct quiet quiet;
    _Atomic(struct thing *) now;
    _Atomic bool ends;
    _Atomic uint64_t read;
} many;

static void *many_read(void *unused)
{
    const int seat = quiet_sit(&many.quiet);
    (void)unused;
    while (!atomic_load(&many.ends)) {
        quiet_enter(&many.quiet, seat);
        const struct thing *thing = atomic_load(&many.now);
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(thing->state, ALIVE);
        }
        quiet_leave(&many.quiet, seat);
        atomic_fetch_add(&many.read, 1);
    }
    quiet_rise(&many.quiet, seat);
    return NULL;
}

static struct thing *thing_create(void)
{
    struct thing *thing = malloc(sizeof *thing);
    if (!thing) {
        abort();
    }
    thing->state = ALIVE;
    return thing;
}

TEST(quiet__what_is_found_is_there)
{
    pthread_t readers[READERS];
    quiet_init(&many.quiet);
    atomic_store(&many.now, thing_create());
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_create(&readers[i], NULL, many_read, NULL), 0);
    }
    for (size_t i = 0; i < ROUNDS * check_scale(); i++) {
        struct thing *old = atomic_exchange(&many.now, thing_create());
        quiet_wait(&many.quiet);
        old->state = DEAD;
        free(old);
    }
    while (atomic_load(&many.read) < 1000) {
    }
    atomic_store(&many.ends, true);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_join(readers[i], NULL), 0);
    }
    free(atomic_load(&many.now));
}

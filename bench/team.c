/*
 * team.c - threads that sleep between tasks and start each task at the same time.
 *
 * Waking up a thread takes tens of microseconds, and the time varies between threads. Therefore,
 * threads first wait at a sleeping barrier and then at a spinning one, and each thread records its
 * own start and end times.
 */
#define _GNU_SOURCE /* for pthread_barrier_t under -std=c17 */

#include "team.h"

#include "harness.h"
#include "machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct team_member {
    _Alignas(64) struct bgb_team *team;
    unsigned index;
    pthread_t thread;
    uint64_t begin, end;
};

struct bgb_team {
    unsigned size;
    pthread_barrier_t asleep; /* where members and bgb_team_run wait */
    _Atomic unsigned awake;   /* number of members ready to start */
    void (*work)(void *arg, unsigned i);
    void *arg;
    struct team_member *members;
};

static void *team_loop(void *arg)
{
    struct team_member *me = arg;
    struct bgb_team *team = me->team;
    bgb_machine_pin(bgb_machine_core(me->index));
    for (;;) {
        (void)pthread_barrier_wait(&team->asleep);
        if (!team->work) {
            return NULL;
        }
        atomic_fetch_add(&team->awake, 1);
        while (atomic_load_explicit(&team->awake, memory_order_acquire) < team->size) {
            (void)sched_yield();
        }
        me->begin = bgb_now_ns();
        team->work(team->arg, me->index);
        me->end = bgb_now_ns();
        (void)pthread_barrier_wait(&team->asleep);
    }
}

struct bgb_team *bgb_team_start(unsigned threads)
{
    struct bgb_team *team = bgb_alloc(1, sizeof *team);
    team->size = threads;
    team->members = bgb_alloc(threads, sizeof *team->members);
    if (pthread_barrier_init(&team->asleep, NULL, threads + 1) != 0) {
        bgb_die("cannot create a barrier");
    }
    (void)bgb_machine_cores(); /* lists the cores before any threads exist */
    for (unsigned i = 0; i < threads; i++) {
        team->members[i].team = team;
        team->members[i].index = i;
        if (pthread_create(&team->members[i].thread, NULL, team_loop, &team->members[i])
            != 0) {
            bgb_die("cannot start thread %u of %u", i, threads);
        }
    }
    return team;
}

uint64_t bgb_team_run(struct bgb_team *team, void (*work)(void *arg, unsigned i),
                      void *arg)
{
    team->work = work;
    team->arg = arg;
    atomic_store(&team->awake, 0);
    (void)pthread_barrier_wait(&team->asleep);
    (void)pthread_barrier_wait(&team->asleep);
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < team->size; i++) {
        begin = team->members[i].begin < begin ? team->members[i].begin : begin;
        end = team->members[i].end > end ? team->members[i].end : end;
    }
    return end - begin;
}

unsigned bgb_team_size(const struct bgb_team *team)
{
    return team->size;
}

void bgb_team_stop(struct bgb_team *team)
{
    team->work = NULL;
    (void)pthread_barrier_wait(&team->asleep);
    for (unsigned i = 0; i < team->size; i++) {
        (void)pthread_join(team->members[i].thread, NULL);
    }
    (void)pthread_barrier_destroy(&team->asleep);
    free(team->members);
    free(team);
}

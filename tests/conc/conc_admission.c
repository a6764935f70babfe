/*
 * conc_admission.c - tests an admission filter that many threads use at once.
 *
 *   race     threads present the same new keys at the same time: for each key at least one
 *            thread is refused, never all admitted; and afterwards the key is known
 *   own      threads present their own keys twice while periods end: the second time, the
 *            key is always admitted
 *   figures  every answer is counted once
 */
#define _POSIX_C_SOURCE 200809L /* pthread_barrier */

#include "support/check.h"

#include "bloomgate/admission.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 4, BATCH = 50, CALLS = 3 * BATCH };

struct job {
    bg_admission *door;
    uint64_t keys;
    atomic_uint ready;
    atomic_uchar
        *refused; /* for each key, the number of threads whose calls were refused */
    pthread_barrier_t together;
};

struct member {
    pthread_t thread;
    struct job *job;
    unsigned number;
    uint64_t asked, admitted, missed;
};

static void member_wait(struct job *job)
{
    atomic_fetch_add(&job->ready, 1);
    while (atomic_load(&job->ready) < THREADS) {
        sched_yield();
    }
}

static bool member_admit(struct member *m, uint64_t key)
{
    bool in = bg_admission_admit(m->job->door, &key, sizeof key);
    m->asked++;
    m->admitted += in;
    return in;
}

static void run(struct job *job, void *(*work)(void *))
{
    struct member team[THREADS];
    bg_admission_info stats = { .struct_size = sizeof stats };
    uint64_t asked = 0, admitted = 0;
    atomic_store(&job->ready, 0);
    CHECK_OK(bg_admission_get_info(job->door, &stats));
    asked = stats.requests;
    admitted = stats.admitted;
    for (unsigned i = 0; i < THREADS; i++) {
        team[i] = (struct member){ .job = job, .number = i };
        CHECK_EQ(pthread_create(&team[i].thread, NULL, work, &team[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(team[i].thread, NULL), 0);
        CHECK_EQ(team[i].missed, 0);
        asked += team[i].asked;
        admitted += team[i].admitted;
    }
    CHECK_OK(bg_admission_get_info(job->door, &stats));
    CHECK_EQ(stats.requests, asked);
    CHECK_EQ(stats.admitted, admitted);
}

static bg_admission *make_door(uint64_t items)
{
    bg_admission_options options = BG_ADMISSION_OPTIONS_INIT;
    bg_admission *door = NULL;
    options.items = items;
    options.rate = 1e-9;
    CHECK_OK(bg_admission_create(&options, &door, NULL));
    return door;
}

/* All threads try to admit all keys, in the same order. */
static void *bring_all(void *argument)
{
    struct member *m = argument;
    member_wait(m->job);
    for (uint64_t key = 0; key < m->job->keys; key++) {
        if (!member_admit(m, key)) {
            atomic_fetch_add(&m->job->refused[key], 1);
        }
    }
    for (uint64_t key = 0; key < m->job->keys; key++) {
        m->missed += !member_admit(m, key);
    }
    return NULL;
}

TEST(admission__of_each_key_the_first_is_refused)
{
    struct job job = { .keys = (CHECK_SANITIZED ? 5000 : 50000) * check_scale() };
    job.refused = calloc((size_t)job.keys, sizeof *job.refused);
    CHECK(job.refused);
    job.door = make_door(2 * THREADS * job.keys);
    run(&job, bring_all);
    for (uint64_t key = 0; key < job.keys; key++) {
        unsigned refused = atomic_load(&job.refused[key]);
        CHECK(refused >= 1 && refused <= THREADS);
    }
    bg_admission_free(job.door);
    free(job.refused);
}

/* Tries to admit this thread's own keys. The first attempt for each key must be refused, and later
 * attempts must succeed. Periods end in the middle of batches, but no thread is more than one batch
 * ahead of another, so no key is forgotten while a thread is delayed. */
static void *bring_own(void *argument)
{
    struct member *m = argument;
    uint64_t numbers[BATCH], in;
    bg_bytes keys[BATCH];
    for (uint64_t i = 0; i < m->job->keys; i += BATCH) {
        (void)pthread_barrier_wait(&m->job->together);
        for (uint64_t j = 0; j < BATCH; j++) {
            numbers[j] = (uint64_t)m->number << 40 | (i + j);
            keys[j] = (bg_bytes){ &numbers[j], sizeof numbers[j] };
            m->missed += member_admit(m, numbers[j]);
            m->missed += !member_admit(m, numbers[j]);
        }
        m->asked += BATCH;
        m->admitted += BATCH;
        m->missed +=
            bg_admission_admit_many(m->job->door, bg_keys_bytes(keys, BATCH), &in)
                != BATCH
            || in != ((uint64_t)1 << BATCH) - 1;
    }
    return NULL;
}

TEST(admission__what_was_just_seen_is_admitted_while_periods_end)
{
    struct job job = { .keys = (CHECK_SANITIZED ? 2000 : 20000) * check_scale() };
    bg_admission_info stats = { .struct_size = sizeof stats };
    const uint64_t window =
        THREADS * CALLS; /* total number of calls that all threads make per batch */
    CHECK_EQ(pthread_barrier_init(&job.together, NULL, THREADS), 0);
    job.door = make_door(window);
    run(&job, bring_own);
    CHECK_OK(bg_admission_get_info(job.door, &stats));
    CHECK(stats.periods >= stats.requests / window);
    bg_admission_free(job.door);
    CHECK_EQ(pthread_barrier_destroy(&job.together), 0);
}

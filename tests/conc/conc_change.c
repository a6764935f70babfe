/*
 * conc_change.c - many threads add, remove and query keys at the same time, on one filter of a
 * kind that supports removal.
 *
 * Some keys are always present: readers look them up continuously, and a single "no" is a failure.
 * Meanwhile, each writer adds and removes its own keys and checks that a key is present between its
 * add and its removal. At the end, every writer has removed all of its own keys, so the number of
 * keys in the filter must be the same as at the start.
 */
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/filters.h"

#include <pthread.h>
#include <stdio.h>

enum { FIXED = 2000, OWN = 200, WRITERS = 3, READERS = 2 };

struct crowd {
    bg_filter *filter;
    size_t rounds;
    int writing; /* number of writers still running */
};

struct member {
    struct crowd *crowd;
    uint64_t first; /* the first of this thread's own keys */
};

static void *write_and_take_back(void *arg)
{
    const struct member *m = arg;
    bg_filter *filter = m->crowd->filter;
    for (size_t round = 0; round < m->crowd->rounds; round++) {
        for (uint64_t i = 0; i < OWN; i++) {
            CHECK_OK(bg_filter_add_u64(filter, m->first + i, NULL));
            CHECK(bg_filter_may_contain_u64(filter, m->first + i));
        }
        for (uint64_t i = 0; i < OWN; i++) {
            CHECK(bg_filter_may_contain_u64(filter, m->first + i));
            CHECK_OK(bg_filter_remove_u64(filter, m->first + i));
        }
    }
    (void)__atomic_fetch_sub(&m->crowd->writing, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *ask_for_the_fixed(void *arg)
{
    const struct member *m = arg;
    uint64_t keys[FIXED], missing = 0;
    for (uint64_t i = 0; i < FIXED; i++) {
        keys[i] = i;
    }
    do {
        for (uint64_t i = 0; i < FIXED; i++) {
            missing += !bg_filter_may_contain_u64(m->crowd->filter, i);
        }
        missing += FIXED
                   - bg_filter_may_contain_many(m->crowd->filter,
                                                bg_keys_u64(keys, FIXED), NULL);
    } while (__atomic_load_n(&m->crowd->writing, __ATOMIC_ACQUIRE) > 0);
    CHECK_EQ(missing, 0);
    return NULL;
}

static void crowd_run(bg_kind kind, uint32_t width, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = FIXED + WRITERS * OWN;
    spec.rate = 0.01;
    spec.width = width;
    spec.flags = flags;
    struct crowd crowd = { .filter = must_create(&spec),
                           .rounds = (CHECK_SANITIZED || CHECK_EMULATED ? 10 : 200)
                                     * check_scale(),
                           .writing = WRITERS };
    for (uint64_t i = 0; i < FIXED; i++) {
        CHECK_OK(bg_filter_add_u64(crowd.filter, i, NULL));
    }
    uint64_t before = info_of(crowd.filter).ones;
    pthread_t threads[WRITERS + READERS];
    struct member members[WRITERS + READERS];
    for (int i = 0; i < WRITERS + READERS; i++) {
        members[i] = (struct member){ &crowd, (uint64_t)(i + 1) << 32 };
        CHECK_EQ(pthread_create(&threads[i], NULL,
                                i < WRITERS ? write_and_take_back : ask_for_the_fixed,
                                &members[i]),
                 0);
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(info_of(crowd.filter).ones, before);
    CHECK_EQ(info_of(crowd.filter).saturated, 0);
    bg_filter_free(crowd.filter);
}

TEST(change__threads_add_and_remove)
{
    unsigned tested = 0;
    for (bg_kind kind; (kind = removing_kind(tested)) != BG_KIND_AUTO; tested++) {
        crowd_run(kind, 0, 0);
    }
    CHECK(tested >= 3); /* counting, cuckoo, quotient */
}

TEST(change__threads_add_and_remove__counting_variants)
{
    crowd_run(BG_KIND_COUNTING, 4, BG_SPEC_SCATTERED);
    crowd_run(BG_KIND_COUNTING, 8, 0);
    crowd_run(BG_KIND_COUNTING, 32, BG_SPEC_SCATTERED);
}

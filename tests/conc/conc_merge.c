/*
 * conc_merge.c - for every kind that can be merged, threads merge filters while other threads add
 * and query keys. A second test rotates windows during merges.
 *
 * There are two filters with the same spec. Each filter starts with some of its own keys, and has a
 * writer that keeps adding more of them. Two threads keep merging the filters, one in each
 * direction. Kinds that count are merged in one direction and only a few times, so that counts do
 * not keep doubling. Readers look up the initial keys and the keys that writers have announced. A
 * single "no" is a failure, because bg_filter_merge is MT-Safe, and guarantees (C1) and (C2) of
 * filter.h hold during a merge. At the end, after one more merge, each destination filter
 * must contain the keys from both filters.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/samples.h"

#include <pthread.h>
#include <sched.h>

enum {
    SIDES = 2,
    FIXED = 500,
    OWN = CHECK_SANITIZED || CHECK_EMULATED ? 4000 : 20000,
    GAP = 1 << 20 /* distance between the two sides' key ranges */
};

struct side {
    bg_filter *filter;
    uint64_t added; /* number of this side's keys that have been added */
};

struct pair {
    struct side side[SIDES];
    bool both_ways;
    int writing; /* number of writers still running */
};

struct thread {
    struct pair *pair;
    unsigned side;
};

static uint64_t key_of(unsigned side, uint64_t i)
{
    return (uint64_t)side * GAP + i;
}

static bool pair_busy(struct pair *pair)
{
    return __atomic_load_n(&pair->writing, __ATOMIC_ACQUIRE) > 0;
}

/* Adds the side's own keys, singly and in batches. */
static void *write_own(void *arg)
{
    const struct thread *t = arg;
    struct side *side = &t->pair->side[t->side];
    uint64_t keys[100], i = FIXED;
    while (i < FIXED + OWN) {
        size_t n = i % 3 ? 1 : 100;
        n = n < FIXED + OWN - i ? n : (size_t)(FIXED + OWN - i);
        for (size_t j = 0; j < n; j++) {
            keys[j] = key_of(t->side, i + j);
        }
        (void)added_many(side->filter, bg_keys_u64(keys, n), NULL);
        i += n;
        __atomic_store_n(&side->added, i, __ATOMIC_RELEASE);
    }
    (void)__atomic_fetch_sub(&t->pair->writing, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Merges the other filter into this side's filter repeatedly. Kinds that count are merged at most
 * three times while the other filter is being filled. */
static void *merge_from_the_other(void *arg)
{
    const struct thread *t = arg;
    bg_filter *to = t->pair->side[t->side].filter;
    const struct side *from = &t->pair->side[!t->side];
    unsigned merges = 0;
    do {
        CHECK_OK(bg_filter_merge(to, from->filter, NULL));
        merges++;
        while (!t->pair->both_ways && pair_busy(t->pair)
               && __atomic_load_n(&from->added, __ATOMIC_RELAXED) < merges * OWN / 3) {
            (void)sched_yield();
        }
    } while (pair_busy(t->pair) && (t->pair->both_ways || merges < 3));
    return NULL;
}

/* Keeps checking that keys announced by the side's own writer are present. */
static void *ask_for_own(void *arg)
{
    const struct thread *t = arg;
    const struct side *side = &t->pair->side[t->side];
    uint64_t missing = 0, turn = 0;
    do {
        uint64_t in = __atomic_load_n(&side->added, __ATOMIC_ACQUIRE);
        for (uint64_t i = 0; i < 200; i++) {
            uint64_t key = (turn++ * 7919) % in;
            missing += !bg_filter_may_contain_u64(side->filter, key_of(t->side, key));
        }
    } while (pair_busy(t->pair));
    CHECK_EQ(missing, 0);
    return NULL;
}

static void check_both(const struct pair *pair, unsigned side)
{
    for (unsigned of = 0; of < SIDES; of++) {
        for (uint64_t i = 0; i < FIXED + OWN; i++) {
            CHECK(bg_filter_may_contain_u64(pair->side[side].filter, key_of(of, i)));
        }
    }
}

static void pair_run(const bg_spec *spec, bool both_ways)
{
    static void *(*const roles[])(void *) = { write_own, merge_from_the_other,
                                              ask_for_own };
    enum { ROLES = sizeof roles / sizeof *roles };
    struct pair pair = { .writing = SIDES, .both_ways = both_ways };
    pthread_t threads[SIDES][ROLES];
    struct thread args[SIDES];
    for (unsigned s = 0; s < SIDES; s++) {
        pair.side[s] = (struct side){ must_create(spec), FIXED };
        for (uint64_t i = 0; i < FIXED; i++) {
            (void)added_u64(pair.side[s].filter, key_of(s, i));
        }
        args[s] = (struct thread){ &pair, s };
    }
    unsigned merging = both_ways ? SIDES : 1;
    for (unsigned s = 0; s < SIDES; s++) {
        for (int r = 0; r < ROLES; r++) {
            if (r != 1 || s < merging) {
                CHECK_EQ(pthread_create(&threads[s][r], NULL, roles[r], &args[s]), 0);
            }
        }
    }
    for (unsigned s = 0; s < SIDES; s++) {
        for (int r = 0; r < ROLES; r++) {
            if (r != 1 || s < merging) {
                CHECK_EQ(pthread_join(threads[s][r], NULL), 0);
            }
        }
    }
    for (unsigned s = 0; s < merging; s++) {
        CHECK_OK(bg_filter_merge(pair.side[s].filter, pair.side[!s].filter, NULL));
        check_both(&pair, s);
    }
    bg_filter_free(pair.side[0].filter);
    bg_filter_free(pair.side[1].filter);
}

/* Each filter has enough capacity for the keys from both filters; scalable filters grow during the
 * test. */
static bg_spec pair_spec(unsigned sample)
{
    bg_spec spec = sample_variant(sample);
    spec.items = spec.kind == BG_KIND_SCALABLE ? 100 : 2 * (FIXED + OWN);
    spec.items *= sample_can(sample, BG_TRAIT_FILLS_UP) ? 4 : 1; /* counts use slots */
    spec.rate = 0.01;
    return spec;
}

TEST(merge__beside_adds_and_queries)
{
    unsigned tested = 0;
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (sample_can(s, BG_TRAIT_MERGE)) {
            bg_spec spec = pair_spec(s);
            pair_run(&spec, !sample_can(s, BG_TRAIT_REMOVE));
            tested++;
        }
    }
    CHECK(tested
          >= 13); /* Bloom kinds, counting, quotient, scalable, windows and shards */
}

/* ---- Windows that are rotated during merges --------------------------------------------- */

enum { TURNS = CHECK_SANITIZED || CHECK_EMULATED ? 40 : 200, GENERATIONS = 4 };

struct turning {
    bg_filter *filter;
    bg_filter *other;
    bool stop;
};

static void *merge_when_it_can(void *arg)
{
    struct turning *t = arg;
    while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
        bg_err err = bg_filter_merge(t->filter, t->other, NULL);
        CHECK(err == BG_OK
              || err == BG_EINCOMPAT); /* the windows are in different periods */
        /* Let the rotating thread acquire the lock. */
        (void)sched_yield();
    }
    return NULL;
}

/* Adds keys to the two windows alternately. After a merge, the keys must be present until they have
 * aged out. */
static void turning_run(uint32_t mode)
{
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    options.mode = mode;
    options.generations = GENERATIONS;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 3000;
    spec.rate = 0.01;
    spec.window = &options;
    struct turning t = { must_create(&spec), must_create(&spec), false };
    pthread_t merging;
    CHECK_EQ(pthread_create(&merging, NULL, merge_when_it_can, &t), 0);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        for (uint64_t i = 0; i < 100; i++) {
            (void)added_u64(turn % 2 ? t.filter : t.other, turn << 20 | i);
        }
        /* Both windows are in the same period, because no other thread rotates them. */
        if (turn % 2 == 0) {
            CHECK_OK(bg_filter_merge(t.filter, t.other, NULL));
        }
        for (uint64_t back = 0; back < GENERATIONS && back <= turn; back++) {
            for (uint64_t i = 0; i < 100; i++) {
                CHECK(bg_filter_may_contain_u64(t.filter, (turn - back) << 20 | i));
            }
        }
        CHECK_OK(bg_filter_rotate(turn % 3 ? t.filter : t.other, 0, NULL));
        CHECK_OK(bg_filter_rotate(turn % 3 ? t.other : t.filter, 0, NULL));
    }
    __atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
    CHECK_EQ(pthread_join(merging, NULL), 0);
    bg_filter_free(t.filter);
    bg_filter_free(t.other);
}

TEST(merge__of_windows_that_turn)
{
    turning_run(BG_WINDOW_GENERATIONS);
    turning_run(BG_WINDOW_AGED);
}

/*
 * conc_filter.c - tests guarantees (C1) to (C3) in filter.h with many threads that share one
 * filter.
 *
 *   publish     threads add keys, announce them by a release store, and look up keys
 *               that other threads have announced; there must be no false negatives
 *   race        threads add the same keys at once; at least one thread gets "new", and
 *               exactly one does in a register filter
 *   set         merge, copy, fold and other operations run while other threads add keys
 *   handover    threads take turns using an exclusive filter under a lock
 *
 * After each test, the filter's words must equal those of a filter built by one thread. All tests
 * run for every kind and every instruction set that this machine supports. A "check" is the lookup
 * of one key. The thread sanitizer does not see vector reads, so it verifies only the scalar path.
 */
#define _POSIX_C_SOURCE 200809L /* pthread_rwlock */

#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64, BATCH = 128, BATCH_WORDS = BATCH / 64, SOAK = 10 };

/* ---- Teams ---------------------------------------------------------------------- */

struct member {
    pthread_t thread;
    void (*work)(struct member *);
    void *job;
    unsigned number; /* index, from 0 to size - 1 */
    unsigned size;
    atomic_uint *ready; /* number of threads that have started */
    uint64_t random;
    uint64_t checks;
};

static uint64_t member_below(struct member *m, uint64_t n)
{
    return check_random_next(&m->random) % n;
}

static void *member_start(void *argument)
{
    struct member *m = argument;
    atomic_fetch_add(m->ready, 1);
    while (atomic_load(m->ready) < m->size) {
        sched_yield();
    }
    m->work(m);
    return NULL;
}

/* Runs `work` in `size` threads that start together. Returns the total number of checks that the
 * threads made. */
static uint64_t team_run(unsigned size, void (*work)(struct member *), void *job)
{
    static struct member team[THREADS];
    atomic_uint ready;
    uint64_t checks = 0;
    atomic_init(&ready, 0);
    for (unsigned i = 0; i < size; i++) {
        team[i] = (struct member){ .work = work,
                                   .job = job,
                                   .number = i,
                                   .size = size,
                                   .ready = &ready,
                                   .random = check_random() };
        CHECK_EQ(pthread_create(&team[i].thread, NULL, member_start, &team[i]), 0);
    }
    for (unsigned i = 0; i < size; i++) {
        CHECK_EQ(pthread_join(team[i].thread, NULL), 0);
        checks += team[i].checks;
    }
    return checks;
}

/* Returns the number of rounds at the current scale; soak tests run ten times as many rounds. */
static unsigned conc_rounds(unsigned usual)
{
    unsigned scale = (unsigned)check_scale();
    return usual * (scale >= SOAK ? 10 * scale : scale);
}

/* ---- Keys ----------------------------------------------------------------------- */

/* Returns the key with this number in the round that uses `seed`. */
static uint64_t conc_key(uint64_t seed, uint64_t number)
{
    seed += number * 0x9e3779b97f4a7c15u;
    return check_random_next(&seed);
}

struct keys {
    size_t n;
    uint64_t numbers[BATCH];
    unsigned char fixed[BATCH][8];
    bg_bytes pairs[BATCH];
    uint64_t hashes[BATCH];
    uint64_t bitmap[BATCH_WORDS];
};

/* Prepares the keys with the numbers `first` to `first + n - 1`, in every form that the API
 * accepts. */
static void keys_name(struct keys *keys, const bg_filter *filter, uint64_t seed,
                      uint64_t first, size_t n)
{
    keys->n = n;
    for (size_t i = 0; i < n; i++) {
        keys->numbers[i] = conc_key(seed, first + i);
        bgi_store_le64(keys->fixed[i], keys->numbers[i]);
        keys->pairs[i] = (bg_bytes){ keys->fixed[i], 8 };
        keys->hashes[i] = bg_hash_u64(bg_filter_hasher(filter), keys->numbers[i]);
    }
}

static void keys_set_bit(struct keys *keys, size_t i, bool value)
{
    keys->bitmap[i / 64] |= (uint64_t)value << (i % 64);
}

/* Adds the keys with the API call that `how` selects, and marks the new keys in the bitmap. Returns
 * the number of new keys. */
static size_t keys_add(struct keys *k, bg_filter *filter, uint64_t how)
{
    memset(k->bitmap, 0, sizeof k->bitmap);
    switch (how % 7) {
    case 0: return added_many(filter, bg_keys_bytes(k->pairs, k->n), k->bitmap);
    case 1: return added_many(filter, bg_keys_fixed(k->fixed, 8, k->n), k->bitmap);
    case 2: return added_many(filter, bg_keys_u64(k->numbers, k->n), k->bitmap);
    case 3: return added_many(filter, bg_keys_hashes(k->hashes, k->n), k->bitmap);
    default: break;
    }
    size_t count = 0;
    for (size_t i = 0; i < k->n; i++) {
        bool is_new = how % 7 == 4   ? added(filter, k->fixed[i], 8)
                      : how % 7 == 5 ? added_u64(filter, k->numbers[i])
                                     : added_hash(filter, k->hashes[i]);
        keys_set_bit(k, i, is_new);
        count += is_new;
    }
    return count;
}

/* Looks up the keys with the API call that `how` selects. Returns the number of "maybe" answers. */
static size_t keys_ask(const struct keys *k, const bg_filter *filter, uint64_t how)
{
    switch (how % 7) {
    case 0:
        return bg_filter_may_contain_many(filter, bg_keys_bytes(k->pairs, k->n), NULL);
    case 1:
        return bg_filter_may_contain_many(filter, bg_keys_fixed(k->fixed, 8, k->n),
                                          NULL);
    case 2:
        return bg_filter_may_contain_many(filter, bg_keys_u64(k->numbers, k->n), NULL);
    case 3:
        return bg_filter_may_contain_many(filter, bg_keys_hashes(k->hashes, k->n),
                                          NULL);
    default: break;
    }
    size_t count = 0;
    for (size_t i = 0; i < k->n; i++) {
        count += how % 7 == 4   ? bg_filter_may_contain(filter, k->fixed[i], 8)
                 : how % 7 == 5 ? bg_filter_may_contain_u64(filter, k->numbers[i])
                                : bg_filter_may_contain_hash(filter, k->hashes[i]);
    }
    return count;
}

/* ---- Filters -------------------------------------------------------------------- */

static bg_filter *conc_filter(bg_kind kind, uint64_t items, double bits, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter;
    spec.kind = kind;
    spec.items = items;
    spec.bits_per_key = bits;
    spec.flags = flags;
    spec.folds = 2;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    return filter;
}

/* Checks that `filter` equals a filter that one thread builds from the first n keys. */
static void conc_check_words(const bg_filter *filter, uint64_t seed, uint64_t n)
{
    bg_filter *alone;
    CHECK_OK(bg_filter_create_like(filter, &alone, NULL));
    for (uint64_t i = 0; i < n; i++) {
        (void)added_u64(alone, conc_key(seed, i));
    }
    CHECK(bg_filter_equal(filter, alone));
    bg_filter_free(alone);
}

/* Runs a test for every available instruction set, and prints a summary. */
static void conc_each_cpu(bg_kind kind, const char *what,
                          uint64_t (*test)(bg_kind kind))
{
    static const bg_cpu cpus[] = {
#define CONC_CPU(NAME, number, text) BG_CPU_##NAME,
        BG_CPUS(CONC_CPU)
    };
    bg_cpu before = bg_cpu_current();
    uint64_t checks = 0;
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        if (bg_cpu_available(cpus[i])) {
            CHECK_OK(bg_cpu_select(cpus[i]));
            checks += test(kind);
        }
    }
    CHECK_OK(bg_cpu_select(before));
    printf("= %s, %s: %llu checks, no false negatives\n", what, bg_kind_name(kind),
           (unsigned long long)checks);
}

#define CONC_TEST(what, kind_name, KIND)                                               \
    TEST(what##__##kind_name)                                                          \
    {                                                                                  \
        conc_each_cpu(BG_KIND_##KIND, #what, what##_test);                             \
    }

/* ---- First use: several threads trigger the library's one-time initialization at once --- */

static void first_use(struct member *m)
{
    bg_filter *filter = conc_filter(BG_KIND_AUTO, 100, 10, 0);
    m->checks += added_u64(filter, m->number);
    CHECK(bg_filter_may_contain_u64(filter, m->number));
    bg_filter_free(filter);
}

TEST(first_use)
{
    CHECK_EQ(team_run(THREADS, first_use, NULL), THREADS);
}

/* ---- Publish -------------------------------------------------------------------- */

/* A thread's progress: it has added the first `count` keys in its range. Each count is on its own
 * cache line. */
struct published {
    _Alignas(64) atomic_uint_fast64_t count;
};

struct publish {
    bg_filter *filter;
    uint64_t seed;
    uint64_t each; /* keys per thread; half are also in the next thread's range */
    unsigned threads;
    struct published published[THREADS];
};

static uint64_t publish_first(const struct publish *job, unsigned thread)
{
    return thread * (job->each / 2);
}

/* Looks up a range of keys that a randomly chosen thread has announced. */
static void publish_ask(struct member *m, struct publish *job)
{
    struct keys keys;
    unsigned other = (unsigned)member_below(m, job->threads);
    uint64_t count =
        atomic_load_explicit(&job->published[other].count, memory_order_acquire);
    if (count == 0) {
        return;
    }
    size_t n = 1 + (size_t)member_below(m, count < BATCH ? count : BATCH);
    uint64_t start = member_below(m, 2) ? count - n : member_below(m, count - n + 1);
    keys_name(&keys, job->filter, job->seed, publish_first(job, other) + start, n);
    CHECK_EQ(keys_ask(&keys, job->filter, member_below(m, 7)), n);
    m->checks += n;
}

static void publish_work(struct member *m)
{
    struct publish *job = m->job;
    struct keys keys;
    for (uint64_t done = 0; done < job->each;) {
        uint64_t left = job->each - done;
        size_t n = 1 + (size_t)member_below(m, left < BATCH ? left : BATCH);
        keys_name(&keys, job->filter, job->seed, publish_first(job, m->number) + done,
                  n);
        (void)keys_add(&keys, job->filter, member_below(m, 7));
        done += n;
        atomic_store_explicit(&job->published[m->number].count, done,
                              memory_order_release);
        CHECK_EQ(keys_ask(&keys, job->filter, member_below(m, 7)), n);
        m->checks += n;
        for (unsigned i = 0; i < 8; i++) {
            publish_ask(m, job);
        }
        if (member_below(m, 4) == 0) {
            /* If there are more threads than cores, yielding makes the threads interleave. */
            sched_yield();
        }
    }
}

/* In every fourth round, the filter is so small that all threads write to the same few lines. */
static uint64_t publish_test(bg_kind kind)
{
    static struct publish job;
    uint64_t checks = 0;
    for (unsigned round = 0; round < conc_rounds(4); round++) {
        memset(&job, 0, sizeof job);
        job.threads = round % 4 == 3 ? 4 : THREADS;
        job.each = round % 4 == 0 ? 32 : 1000;
        job.seed = check_random();
        uint64_t keys = publish_first(&job, job.threads - 1) + job.each;
        job.filter = conc_filter(kind, keys, 12, 0);
        checks += team_run(job.threads, publish_work, &job);
        conc_check_words(job.filter, job.seed, keys);
        bg_filter_free(job.filter);
    }
    return checks;
}

/* ---- Race ----------------------------------------------------------------------- */

enum { RACE_KEYS = 1024 };

struct race {
    bg_filter *filter;
    uint64_t seed;
    uint64_t how;
    unsigned threads;
    uint64_t news[THREADS][RACE_KEYS / 64]; /* the keys that were new to each thread */
};

/* All threads add the same keys in the same order. */
static void race_work(struct member *m)
{
    struct race *job = m->job;
    struct keys keys;
    for (size_t i = 0; i < RACE_KEYS; i += BATCH) {
        keys_name(&keys, job->filter, job->seed, i, BATCH);
        size_t count = keys_add(&keys, job->filter, job->how + m->number % 2 * 3);
        size_t ones = 0;
        for (size_t w = 0; w < BATCH_WORDS; w++) {
            job->news[m->number][i / 64 + w] = keys.bitmap[w];
            ones += (size_t)__builtin_popcountll(keys.bitmap[w]);
        }
        CHECK_EQ(count, ones);
        CHECK_EQ(keys_ask(&keys, job->filter, m->number), BATCH);
        m->checks += 2 * BATCH;
    }
}

static unsigned race_winners(const struct race *job, size_t key)
{
    unsigned winners = 0;
    for (unsigned t = 0; t < job->threads; t++) {
        winners += job->news[t][key / 64] >> (key % 64) & 1;
    }
    return winners;
}

/*
 * For every bit, the add that set it first returned "new". So all bits were set by keys that were
 * new to some thread, and a filter with only these keys has the same words. If the filter has ample
 * space, every key was new to some thread.
 */
static void race_check(const struct race *job, bool roomy)
{
    bg_filter *alone;
    CHECK_OK(bg_filter_create_like(job->filter, &alone, NULL));
    for (size_t i = 0; i < RACE_KEYS; i++) {
        unsigned winners = race_winners(job, i);
        if (winners) {
            (void)added_u64(alone, conc_key(job->seed, i));
        }
        CHECK(winners || !roomy);
        CHECK(winners <= 1 || bg_filter_kind(job->filter) != BG_KIND_REGISTER);
    }
    CHECK(bg_filter_equal(alone, job->filter));
    bg_filter_free(alone);
    conc_check_words(job->filter, job->seed, RACE_KEYS);
}

static uint64_t race_test(bg_kind kind)
{
    static struct race job;
    static const unsigned sizes[] = { 2, 3, 4, 8, THREADS };
    uint64_t checks = 0;
    for (unsigned round = 0; round < conc_rounds(20); round++) {
        bool roomy = round % 2;
        memset(&job, 0, sizeof job);
        job.threads = sizes[round / 2 % 5];
        job.seed = check_random();
        job.how = check_random();
        job.filter = conc_filter(kind, RACE_KEYS, roomy ? 1000 : 6, 0);
        checks += team_run(job.threads, race_work, &job);
        race_check(&job, roomy);
        bg_filter_free(job.filter);
    }
    return checks;
}

/* ---- Sets: merge, copy, fold and other operations while other threads add -------- */

enum { SET_ADDERS = 8, SET_OTHERS = 5, SET_KEYS = 2000 };

/* Adders with even indexes add to `filter`, and adders with odd indexes add to `source`, which is
 * merged into `filter`. */
struct sets {
    bg_filter *filter;
    bg_filter *source;
    uint64_t seed;
    struct published published[SET_ADDERS];
    atomic_uint adding;
};

static void sets_add(struct member *m, struct sets *job)
{
    struct keys keys;
    bg_filter *to = m->number % 2 ? job->source : job->filter;
    for (uint64_t done = 0; done < SET_KEYS;) {
        uint64_t left = SET_KEYS - done;
        size_t n = 1 + (size_t)member_below(m, left < 32 ? left : 32);
        keys_name(&keys, to, job->seed, m->number * SET_KEYS + done, n);
        (void)keys_add(&keys, to, member_below(m, 7));
        done += n;
        atomic_store_explicit(&job->published[m->number].count, done,
                              memory_order_release);
    }
    atomic_fetch_sub(&job->adding, 1);
}

/* Records how many keys each adder of one filter has announced so far. */
static void sets_note(struct sets *job, unsigned first, uint64_t *counts)
{
    for (unsigned t = first; t < SET_ADDERS; t += 2) {
        counts[t] =
            atomic_load_explicit(&job->published[t].count, memory_order_acquire);
    }
}

/* Checks that all announced keys are in `filter`. */
static void sets_check(struct member *m, struct sets *job, const bg_filter *filter,
                       unsigned first, const uint64_t *counts)
{
    struct keys keys;
    for (unsigned t = first; t < SET_ADDERS; t += 2) {
        for (uint64_t i = 0; i < counts[t]; i += BATCH) {
            uint64_t left = counts[t] - i;
            size_t n = (size_t)(left < BATCH ? left : BATCH);
            keys_name(&keys, filter, job->seed, t * SET_KEYS + i, n);
            CHECK_EQ(keys_ask(&keys, filter, member_below(m, 7)), n);
            m->checks += n;
        }
    }
}

/* Checks that a copy or a fold of the filter contains all announced keys. */
static void sets_copy(struct member *m, struct sets *job, uint32_t folds)
{
    uint64_t counts[SET_ADDERS];
    bg_filter *copy;
    sets_note(job, 0, counts);
    if (folds) {
        CHECK_OK(bg_filter_fold(job->filter, folds, &copy, NULL));
    } else {
        CHECK_OK(bg_filter_copy(job->filter, &copy, NULL));
    }
    sets_check(m, job, copy, 0, counts);
    bg_filter_free(copy);
}

static void sets_merge(struct member *m, struct sets *job)
{
    uint64_t counts[SET_ADDERS];
    sets_note(job, 1, counts);
    CHECK_OK(bg_filter_merge(job->filter, job->source, NULL));
    sets_check(m, job, job->filter, 1, counts);
}

/* Checks that the number of set bits never decreases. */
static void sets_look(struct member *m, struct sets *job)
{
    bg_filter_info before = { .struct_size = sizeof before }, after = before;
    bg_overlap overlap;
    CHECK_OK(bg_filter_get_info(job->filter, &before));
    (void)bg_filter_equal(job->filter, job->source);
    CHECK(bg_filter_compatible(job->filter, job->source));
    CHECK_OK(bg_filter_overlap(job->filter, job->source, &overlap, NULL));
    CHECK_OK(bg_filter_get_info(job->filter, &after));
    CHECK(after.ones >= before.ones);
    CHECK(bg_filter_fill(job->filter) >= after.fill);
    m->checks += 2;
}

static void sets_work(struct member *m)
{
    struct sets *job = m->job;
    if (m->number < SET_ADDERS) {
        sets_add(m, job);
        return;
    }
    bool adding;
    do { /* the last iteration runs after all keys have been added */
        adding = atomic_load(&job->adding) > 0;
        switch (m->number - SET_ADDERS) {
        case 0: sets_copy(m, job, 0); break;
        case 1: sets_copy(m, job, 1 + (uint32_t)member_below(m, 2)); break;
        case 2: sets_look(m, job); break;
        default: sets_merge(m, job);
        }
    } while (adding);
}

static uint64_t sets_test(bg_kind kind)
{
    static struct sets job;
    const uint64_t keys = (uint64_t)SET_ADDERS * SET_KEYS;
    uint64_t checks = 0;
    for (unsigned round = 0; round < conc_rounds(4); round++) {
        memset(&job, 0, sizeof job);
        job.seed = check_random();
        job.filter = conc_filter(kind, keys, 12, 0);
        job.source = conc_filter(kind, keys, 12, 0);
        atomic_store(&job.adding, SET_ADDERS);
        checks += team_run(SET_ADDERS + SET_OTHERS, sets_work, &job);
        conc_check_words(job.filter, job.seed, keys);
        bg_filter_free(job.filter);
        bg_filter_free(job.source);
    }
    return checks;
}

/* ---- Handover: exclusive filters ------------------------------------------------ */

enum { HANDOVER_THREADS = 16, HANDOVER_KEYS = 20000 };

struct handover {
    bg_filter *filter;
    uint64_t seed;
    pthread_rwlock_t lock;
    uint64_t added; /* the first `added` keys are present; protected by the lock */
};

/* Adds the next keys while holding the lock exclusively. */
static bool handover_add(struct member *m, struct handover *job)
{
    struct keys keys;
    CHECK_EQ(pthread_rwlock_wrlock(&job->lock), 0);
    uint64_t left = HANDOVER_KEYS - job->added;
    size_t n = (size_t)member_below(m, left < BATCH ? left + 1 : BATCH);
    keys_name(&keys, job->filter, job->seed, job->added, n);
    (void)keys_add(&keys, job->filter, member_below(m, 7));
    job->added += n;
    CHECK_EQ(pthread_rwlock_unlock(&job->lock), 0);
    return left > n;
}

/* Looks up some keys, concurrently with other readers. */
static void handover_ask(struct member *m, struct handover *job)
{
    struct keys keys;
    CHECK_EQ(pthread_rwlock_rdlock(&job->lock), 0);
    uint64_t most = job->added < BATCH ? job->added : BATCH;
    size_t n = (size_t)member_below(m, most + 1);
    uint64_t start = member_below(m, job->added - n + 1);
    keys_name(&keys, job->filter, job->seed, start, n);
    CHECK_EQ(keys_ask(&keys, job->filter, member_below(m, 7)), n);
    CHECK_EQ(pthread_rwlock_unlock(&job->lock), 0);
    m->checks += n;
}

static void handover_work(struct member *m)
{
    struct handover *job = m->job;
    while (handover_add(m, job)) {
        for (unsigned i = 0; i < 8; i++) {
            handover_ask(m, job);
        }
    }
}

static uint64_t handover_test(bg_kind kind)
{
    static struct handover job;
    uint64_t checks = 0;
    for (unsigned round = 0; round < conc_rounds(1); round++) {
        job.seed = check_random();
        job.added = 0;
        job.filter = conc_filter(kind, HANDOVER_KEYS, 12, BG_SPEC_EXCLUSIVE);
        CHECK_EQ(pthread_rwlock_init(&job.lock, NULL), 0);
        checks += team_run(HANDOVER_THREADS, handover_work, &job);
        CHECK_EQ(pthread_rwlock_destroy(&job.lock), 0);
        CHECK_EQ(job.added, HANDOVER_KEYS);
        conc_check_words(job.filter, job.seed, HANDOVER_KEYS);
        bg_filter_free(job.filter);
    }
    return checks;
}

/* ---- All tests for every kind -------------------------------------------------- */

#define CONC_TESTS(NAME, number, name)                                                 \
    CONC_TEST(publish, name, NAME)                                                     \
    CONC_TEST(race, name, NAME)                                                        \
    CONC_TEST(sets, name, NAME)                                                        \
    CONC_TEST(handover, name, NAME)
BG_BLOOM_KINDS(CONC_TESTS)

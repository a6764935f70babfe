/*
 * bench_concurrency.c - what does it cost to share one filter between threads?
 *
 * All schemes use the same keys, the same kind and the same total number of bits: one
 * mutex, one readers-writer lock, 64 shards with a mutex each, atomic instructions without
 * a lock (Bloomgate's shared mode), and 64 shards with atomic instructions. Filters protected
 * by locks are created with BG_SPEC_EXCLUSIVE, as a caller would create them. Every scheme is
 * measured with single calls; the single mutex and the unsharded atomic filter are also measured
 * with batches. The workloads are adds of fresh keys, lookups (half of them for present keys), and
 * a mix of nine lookups per add. Thread counts range from 1 to twice the number of cores. "ratio"
 * is the speed relative to one mutex at the same thread count; "scaling" is the speed relative to
 * the same scheme on one thread. Within a workload, all schemes and thread counts are measured in
 * turn.
 */
#define _GNU_SOURCE /* for pthread_rwlock_t under -std=c17 */

#include "bench.h"
#include "bench_adds.h"
#include "keys.h"
#include "machine.h"
#include "ours.h"
#include "output.h"
#include "team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHARDS = 64, SKEW = 65 * 64, BATCH = 640, COUNTS_MAX = 16, THREADS_MAX = 512 };

enum conc_scheme {
    CONC_MUTEX,
    CONC_RWLOCK,
    CONC_SHARDED_MUTEX,
    CONC_ATOMIC,
    CONC_SHARDED_ATOMIC,
    CONC_MUTEX_BATCH,
    CONC_ATOMIC_BATCH,
    CONC_SCHEMES
};

static const char *const conc_names[CONC_SCHEMES] = {
    "one mutex",
    "one rwlock",
    "64 mutexes",
    "atomic (bloomgate)",
    "64 atomic shards",
    "one mutex, batches",
    "atomic (bloomgate), batches",
};

enum conc_load { CONC_ADDS, CONC_LOOKUPS, CONC_NINE_TO_ONE, CONC_LOADS };

static const char *const conc_loads[CONC_LOADS] = { "adds", "lookups",
                                                    "90% lookups, 10% adds" };

/* A lock on its own cache lines. */
struct conc_lock {
    _Alignas(128) pthread_mutex_t mutex;
};

/* One scheme: its filters (one, or one per shard) and its locks. */
struct conc_filters { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    enum conc_scheme scheme;
    size_t shards;
    struct bgb_arena *arenas;
    struct conc_lock locks[SHARDS];
    _Alignas(128) pthread_rwlock_t rwlock;
};

/* One thread's count of positive answers, on its own cache line. */
struct conc_count {
    _Alignas(128) uint64_t positives;
};

/* A subject: one scheme with one thread count. */
struct conc_state {
    struct conc_filters *filters;
    const struct bgb_keys *keys;
    enum conc_load load;
    struct bgb_team *team;
    uint64_t team_ns;
    size_t first, n;
    struct conc_count counts[THREADS_MAX];
};

/* ---- One operation under each scheme ------------------------------------------- */

/* Returns the shard for a hash. Mixes all bits of the hash, so that the keys in a shard do not have
 * hash bits in common, which the filter would use as well. */
static size_t conc_shard(uint64_t hash)
{
    return (size_t)(((hash ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93)) >> 58);
}

static bool conc_do(bg_filter *filter, uint64_t hash, bool add)
{
    return add ? added_hash(filter, hash) : bg_filter_may_contain_hash(filter, hash);
}

static bool conc_under_mutex(pthread_mutex_t *mutex, bg_filter *filter, uint64_t hash,
                             bool add)
{
    (void)pthread_mutex_lock(mutex);
    bool answer = conc_do(filter, hash, add);
    (void)pthread_mutex_unlock(mutex);
    return answer;
}

static bool conc_under_rwlock(struct conc_filters *f, uint64_t hash, bool add)
{
    if (add) {
        (void)pthread_rwlock_wrlock(&f->rwlock);
    } else {
        (void)pthread_rwlock_rdlock(&f->rwlock);
    }
    bool answer = conc_do(f->arenas[0].filter, hash, add);
    (void)pthread_rwlock_unlock(&f->rwlock);
    return answer;
}

static inline bool conc_one(struct conc_filters *f, enum conc_scheme scheme,
                            uint64_t hash, bool add)
{
    size_t shard;
    switch (scheme) {
    case CONC_MUTEX:
        return conc_under_mutex(&f->locks[0].mutex, f->arenas[0].filter, hash, add);
    case CONC_RWLOCK: return conc_under_rwlock(f, hash, add);
    case CONC_SHARDED_MUTEX:
        shard = conc_shard(hash);
        return conc_under_mutex(&f->locks[shard].mutex, f->arenas[shard].filter, hash,
                                add);
    case CONC_SHARDED_ATOMIC:
        return conc_do(f->arenas[conc_shard(hash)].filter, hash, add);
    default: return conc_do(f->arenas[0].filter, hash, add);
    }
}

/* Returns whether operation i of a workload is an add. */
static bool conc_is_add(enum conc_load load, size_t i)
{
    return load == CONC_ADDS || (load == CONC_NINE_TO_ONE && i % 10 == 9);
}

static uint64_t conc_singles(const struct conc_state *s, size_t first, size_t n)
{
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        bool add = conc_is_add(s->load, i);
        uint64_t hash = add ? s->keys->fresh_hash[i] : s->keys->mixed_hash[i];
        positives += conc_one(s->filters, s->filters->scheme, hash, add);
    }
    return positives;
}

/* Runs a batch of adds or a batch of lookups, holding the mutex if the scheme has one. */
static uint64_t conc_batch(struct conc_filters *f, const uint64_t *hashes, size_t n,
                           bool add)
{
    uint64_t bitmap[BG_BITMAP_WORDS(BATCH)];
    bg_filter *filter = f->arenas[0].filter;
    bool locked = f->scheme == CONC_MUTEX_BATCH;
    if (locked) {
        (void)pthread_mutex_lock(&f->locks[0].mutex);
    }
    size_t positives =
        add ? added_many(filter, bg_keys_hashes(hashes, n), bitmap)
            : bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, n), bitmap);
    if (locked) {
        (void)pthread_mutex_unlock(&f->locks[0].mutex);
    }
    return positives;
}

/* Runs batches of 640 operations: all adds, all lookups, or 576 lookups followed by 64 adds. */
static uint64_t conc_batches(const struct conc_state *s, size_t first, size_t n)
{
    uint64_t positives = 0;
    for (size_t i = 0; i < n; i += BATCH) {
        size_t count = n - i < BATCH ? n - i : BATCH;
        size_t adds = s->load == CONC_ADDS ? count : 0;
        if (s->load == CONC_NINE_TO_ONE) {
            adds = count / 10;
        }
        size_t looks = count - adds;
        if (looks) {
            positives +=
                conc_batch(s->filters, s->keys->mixed_hash + first + i, looks, false);
        }
        if (adds) {
            positives += conc_batch(s->filters, s->keys->fresh_hash + first + i + looks,
                                    adds, true);
        }
    }
    return positives;
}

/* ---- Subjects ------------------------------------------------------------------ */

static void conc_work(void *arg, unsigned i)
{
    struct conc_state *s = arg;
    size_t part = s->n / bgb_team_size(s->team);
    bool batches = s->filters->scheme >= CONC_MUTEX_BATCH;
    size_t first = s->first + i * part;
    s->counts[i].positives =
        batches ? conc_batches(s, first, part) : conc_singles(s, first, part);
}

static uint64_t conc_pass(void *state, size_t first, size_t n)
{
    struct conc_state *s = state;
    s->first = first;
    s->n = n;
    s->team_ns = bgb_team_run(s->team, conc_work, s);
    uint64_t positives = 0;
    for (unsigned i = 0; i < bgb_team_size(s->team); i++) {
        positives += s->counts[i].positives;
    }
    return positives;
}

static void conc_rewind(void *state)
{
    struct conc_state *s = state;
    for (size_t i = 0; i < s->filters->shards; i++) {
        bgb_arena_rewind(&s->filters->arenas[i]);
    }
}

/* Adds each present key to its shard. */
static void conc_fill_shards(struct conc_filters *f, uint64_t n)
{
    const bg_hasher *hasher = bg_filter_hasher(f->arenas[0].filter);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = bg_hash_u64(hasher, bgb_key(BGB_SET_PRESENT, i));
        (void)added_hash(f->arenas[conc_shard(hash)].filter, hash);
    }
}

/* Creates a scheme's filters, which contain all n present keys. Together, they are sized for 2 n
 * keys, because fresh keys are added later. */
static void conc_filters_make(struct conc_filters *f, enum conc_scheme scheme,
                              uint32_t kind, uint64_t n, double rate)
{
    bool sharded = scheme == CONC_SHARDED_MUTEX || scheme == CONC_SHARDED_ATOMIC;
    bool atomic = scheme == CONC_ATOMIC || scheme == CONC_SHARDED_ATOMIC
                  || scheme == CONC_ATOMIC_BATCH;
    f->scheme = scheme;
    f->shards = sharded ? SHARDS : 1;
    f->arenas = bgb_alloc(f->shards, sizeof *f->arenas);
    bg_spec spec =
        bgb_spec(kind, 2 * n / f->shards, rate, atomic ? 0 : BG_SPEC_EXCLUSIVE);
    for (size_t i = 0; i < f->shards; i++) {
        bgb_arena_make(&f->arenas[i], &spec, 0, i * SKEW);
        (void)pthread_mutex_init(&f->locks[i].mutex, NULL);
    }
    (void)pthread_rwlock_init(&f->rwlock, NULL);
    if (sharded) {
        conc_fill_shards(f, n);
    } else {
        bgb_keys_fill(f->arenas[0].filter, n);
    }
    for (size_t i = 0; i < f->shards; i++) {
        bgb_arena_save(&f->arenas[i]);
    }
}

static void conc_filters_free(struct conc_filters *f)
{
    for (size_t i = 0; i < f->shards; i++) {
        bgb_arena_free(&f->arenas[i]);
        (void)pthread_mutex_destroy(&f->locks[i].mutex);
    }
    (void)pthread_rwlock_destroy(&f->rwlock);
    free(f->arenas);
}

/* Runs the workload on the whole pool with all threads at once. If the workload consists of adds,
 * also checks that every added key is found. */
static void conc_check(struct conc_state *s, struct bgb_subject *subject)
{
    conc_rewind(s);
    (void)conc_pass(s, 0, subject->pool);
    size_t part = subject->pool / bgb_team_size(s->team);
    size_t asked = part * bgb_team_size(s->team);
    for (size_t i = 0; i < asked && s->load == CONC_ADDS; i++) {
        if (!conc_one(s->filters, s->filters->scheme, s->keys->fresh_hash[i], false)) {
            subject->broken = true;
            bgb_broken_add(subject->name, "a lookup missed a key that was added");
            break;
        }
    }
}

static void conc_subject(struct bgb_subject *subject, struct conc_state *s)
{
    size_t chunk = s->keys->fresh_pool / (BGB_TIMED_PASSES + 1);
    unsigned threads = bgb_team_size(s->team);
    *subject = (struct bgb_subject){ .pass = conc_pass,
                                     .rewind = conc_rewind,
                                     .state = s,
                                     .pool = s->keys->fresh_pool,
                                     .chunk = chunk - chunk % threads,
                                     .most = 1,
                                     .own_ns = &s->team_ns };
    subject->least = s->load == CONC_ADDS ? 0.9 : 0.45;
    (void)snprintf(subject->name, sizeof subject->name, "%s, %u thread%s",
                   conc_names[s->filters->scheme], threads, threads == 1 ? "" : "s");
    conc_check(s, subject);
}

/* ---- The table ----------------------------------------------------------------- */

/* 1, 2, 4 .. cores, 2 x cores. */
static size_t conc_thread_counts(unsigned counts[COUNTS_MAX])
{
    unsigned cores = bgb_machine_cores();
    cores = cores > THREADS_MAX / 2 ? THREADS_MAX / 2 : cores;
    size_t n = 0;
    for (unsigned t = 1; t < cores && n < COUNTS_MAX - 2; t *= 2) {
        counts[n++] = t;
    }
    counts[n++] = cores;
    counts[n++] = 2 * cores;
    return n;
}

static void conc_print(const struct bgb_subject *subjects, const unsigned *counts,
                       size_t columns, enum conc_load load, uint64_t n)
{
    for (size_t c = 0; c < columns; c++) {
        for (size_t i = 0; i < CONC_SCHEMES; i++) {
            const struct bgb_subject *s = &subjects[i * columns + c];
            const struct bgb_subject *mutex = &subjects[CONC_MUTEX * columns + c];
            const struct bgb_subject *alone = &subjects[i * columns];
            bgb_row_begin();
            bgb_cell_text("subject", "subject", -34, s->name);
            bgb_cell_text("load", "", 0, conc_loads[load]);
            bgb_cell_count("n", "n", 10, n);
            bgb_cell_real("bits_per_key", "", 0, 0, BGB_NONE);
            bgb_cell_real("fpr", "", 0, 0, BGB_NONE);
            bgb_cell_count("threads", "threads", 7, counts[c]);
            bgb_cell_real("mops", "Mops/s", 8, 1, 1000 / s->p5);
            bgb_cell_real("mops_median", "median", 8, 1, 1000 / s->median);
            bgb_cell_real("ns_per_key", "", 0, 0, s->p5);
            bgb_cell_real("ns_median", "", 0, 0, s->median);
            bgb_cell_real("ratio", "ratio", 7, 2, mutex->p5 / s->p5);
            bgb_cell_real("scaling", "scaling", 7, 2, alone->p5 / s->p5);
            bgb_cell_text("status", "status", -6, s->broken ? "BROKEN" : "ok");
            bgb_row_end();
        }
    }
}

static void conc_run(const struct bgb_options *options, const struct bgb_keys *keys,
                     struct conc_filters *filters, enum conc_load load)
{
    unsigned counts[COUNTS_MAX];
    size_t columns = conc_thread_counts(counts);
    size_t total = columns * CONC_SCHEMES;
    struct bgb_team *teams[COUNTS_MAX];
    struct bgb_subject *subjects = bgb_alloc(total, sizeof *subjects);
    struct conc_state *states = bgb_alloc(total, sizeof *states);
    for (size_t c = 0; c < columns; c++) {
        teams[c] = bgb_team_start(counts[c]);
    }
    for (size_t i = 0; i < total; i++) {
        states[i].filters = &filters[i / columns];
        states[i].keys = keys;
        states[i].load = load;
        states[i].team = teams[i % columns];
        conc_subject(&subjects[i], &states[i]);
    }
    bgb_table("concurrency",
              "%s, %llu keys; ratio: vs. one mutex; scaling: vs. one thread",
              conc_loads[load], (unsigned long long)keys->n);
    bgb_run(subjects, total, options->seconds);
    conc_print(subjects, counts, columns, load, keys->n);
    for (size_t c = 0; c < columns; c++) {
        bgb_team_stop(teams[c]);
    }
    free(subjects);
    free(states);
}

void bgb_bench_concurrency(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 1000000, 10000000 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 2, n);
    uint32_t kind = options->kind ? options->kind : (uint32_t)BG_KIND_BLOCKED;
    double rate = options->rate > 0 ? options->rate : 0.01;
    struct conc_filters *filters = bgb_alloc(CONC_SCHEMES, sizeof *filters);
    for (size_t i = 0; i < count; i++) {
        struct bgb_keys keys;
        bgb_keys_make(&keys, n[i]);
        for (int scheme = 0; scheme < CONC_SCHEMES; scheme++) {
            conc_filters_make(&filters[scheme], (enum conc_scheme)scheme, kind, n[i],
                              rate);
        }
        for (int load = 0; load < CONC_LOADS; load++) {
            conc_run(options, &keys, filters, (enum conc_load)load);
        }
        for (int scheme = 0; scheme < CONC_SCHEMES; scheme++) {
            conc_filters_free(&filters[scheme]);
        }
        bgb_keys_free(&keys);
    }
    free(filters);
}

/*
 * bench_slot.c - what does it cost to read a filter that can be replaced at any time, and does a
 * replacement slow readers down?
 *
 * The first table measures single and batch lookups of absent keys, in a filter and in a slot
 * that holds this filter. The ratio is the filter's time divided by the slot's time.
 *
 * In the second table, one reader looks up absent keys, 16 at a time, and records the time of each
 * group of 16. It does so in quiet intervals, in which no other thread runs, and while a second
 * thread does one of three things: fill an unrelated filter, replace the slot's filter with a copy
 * of another filter fifty times per second, or repeatedly rebuild the slot's filter from a source.
 * With two or more cores, the second thread has its own core. Ratios compare the 99.9th percentile
 * with that of the preceding quiet interval, so other work on the machine affects both. Each
 * comparison runs several times; the median, best and worst ratios are reported.
 */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"
#include "bench_adds.h"
#include "keys.h"
#include "machine.h"
#include "ours.h"
#include "output.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SLOT_GROUP = 16,
    SLOT_BATCH = 1024,
    SLOT_SAMPLES = 400000,
    SLOT_ROUNDS = 11,
    SLOT_PAUSE = 20000000
};

static bg_filter *slot_filter(uint64_t n)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.items = n;
    spec.rate = 0.01;
    if (bg_filter_create(&spec, &filter, NULL)) {
        bgb_die("cannot create a filter");
    }
    for (uint64_t i = 0; i < n; i++) {
        (void)added_u64(filter, bgb_key(BGB_SET_PRESENT, i));
    }
    return filter;
}

static bg_slot *slot_of(uint64_t n)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    options.flags = BG_SLOT_SEALED;
    if (bg_slot_create(slot_filter(n), &options, &slot, NULL)) {
        bgb_die("cannot create a slot");
    }
    return slot;
}

/* ---- Overhead -------------------------------------------------------------------- */

struct slot_price {
    const bg_filter *filter; /* or */
    const bg_slot *slot;
    const uint64_t *keys;
    bool batches;
};

static uint64_t slot_pass(void *state, size_t first, size_t n)
{
    const struct slot_price *p = state;
    uint64_t found = 0;
    if (p->batches) {
        for (size_t i = 0; i < n; i += SLOT_BATCH) {
            size_t here = n - i < SLOT_BATCH ? n - i : SLOT_BATCH;
            found += p->slot
                         ? bg_slot_may_contain_many(
                             p->slot, bg_keys_u64(p->keys + first + i, here), NULL)
                         : bg_filter_may_contain_many(
                             p->filter, bg_keys_u64(p->keys + first + i, here), NULL);
        }
        return found;
    }
    for (size_t i = 0; i < n; i++) {
        found += p->slot ? bg_slot_may_contain_u64(p->slot, p->keys[first + i])
                         : bg_filter_may_contain_u64(p->filter, p->keys[first + i]);
    }
    return found;
}

static void slot_run_price(const struct bgb_options *options, uint64_t n)
{
    static const char *const names[] = { "filter, single", "slot, single",
                                         "filter, batches", "slot, batches" };
    enum { POOL = 1 << 20 };
    struct slot_price prices[4];
    struct bgb_subject subjects[4];
    uint64_t *keys = bgb_alloc(POOL, sizeof *keys);
    bg_filter *filter = slot_filter(n);
    bg_slot *slot = slot_of(n);
    for (uint64_t i = 0; i < POOL; i++) {
        keys[i] = bgb_key(BGB_SET_ABSENT, i);
    }
    for (int i = 0; i < 4; i++) {
        prices[i] = (struct slot_price){ i % 2 ? NULL : filter, i % 2 ? slot : NULL,
                                         keys, i >= 2 };
        subjects[i] = (struct bgb_subject){ .pass = slot_pass,
                                            .state = &prices[i],
                                            .pool = POOL,
                                            .chunk = POOL / 4,
                                            .most = 0.02 };
        (void)snprintf(subjects[i].name, sizeof subjects[i].name, "%s", names[i]);
    }
    bgb_table("slot", "lookups of absent keys, %llu keys in the filter",
              (unsigned long long)n);
    bgb_run(subjects, 4, options->seconds);
    for (int i = 0; i < 4; i++) {
        bgb_row_begin();
        bgb_cells_subject(subjects[i].name, n, BGB_NONE, BGB_NONE);
        bgb_cells_times(&subjects[i], subjects[i - i % 2].p5 / subjects[i].p5);
        bgb_row_end();
    }
    bg_slot_free(slot);
    bg_filter_free(filter);
    free(keys);
}

/* ---- The reader ------------------------------------------------------------------------ */

struct slot_race {
    bg_slot *slot;
    bg_filter *stock; /* copies of this filter are swapped in */
    uint64_t n;
    uint32_t *samples;
    int rounds;
    atomic_bool over;
    uint64_t changes;
};

static int slot_order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void slot_read(struct slot_race *race)
{
    uint64_t found = 0, key = 0;
    for (size_t i = 0; i < SLOT_SAMPLES; i++) {
        uint64_t before = bgb_now_ns();
        for (unsigned j = 0; j < SLOT_GROUP; j++) {
            found +=
                bg_slot_may_contain_u64(race->slot, bgb_key(BGB_SET_ABSENT, key++));
        }
        uint64_t took = bgb_now_ns() - before;
        race->samples[i] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    }
    bgb_sink(found);
    qsort(race->samples, SLOT_SAMPLES, sizeof *race->samples, slot_order);
}

/* Repeatedly fills an unrelated filter of the same size. */
static void *slot_fill(void *argument)
{
    struct slot_race *race = argument;
    bgb_machine_pin(bgb_machine_core(1));
    for (; !atomic_load(&race->over); race->changes++) {
        bg_filter_free(slot_filter(race->n));
    }
    return NULL;
}

static void *slot_swap(void *argument)
{
    struct slot_race *race = argument;
    bgb_machine_pin(bgb_machine_core(1));
    while (!atomic_load(&race->over)) {
        bg_filter *copy = NULL;
        if (bg_filter_copy(race->stock, &copy, NULL)
            || bg_slot_swap(race->slot, copy, 0, 0, NULL)) {
            bgb_die("cannot swap the filter");
        }
        race->changes++;
        (void)nanosleep(&(struct timespec){ .tv_nsec = SLOT_PAUSE }, NULL);
    }
    return NULL;
}

struct slot_source {
    uint64_t at, n, keys[1024];
};

static bg_err slot_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                        bg_errinfo *info)
{
    struct slot_source *s = context;
    (void)info;
    for (*n = 0; *n < room && *n < 1024 && s->at < s->n; ++*n) {
        s->keys[*n] = bgb_key(BGB_SET_PRESENT, s->at++);
        keys[*n] = (bg_bytes){ &s->keys[*n], 8 };
    }
    return BG_OK;
}

static void *slot_rebuild(void *argument)
{
    struct slot_race *race = argument;
    bgb_machine_pin(bgb_machine_core(1));
    while (!atomic_load(&race->over)) {
        struct slot_source from = { .n = race->n };
        bg_source source = { slot_next, NULL, &from, race->n };
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        how.headroom = 1;
        if (bg_slot_rebuild(race->slot, &source, &how, NULL, NULL)) {
            bgb_die("cannot rebuild the filter");
        }
        race->changes++;
    }
    return NULL;
}

enum {
    SLOT_P50 = SLOT_SAMPLES / 2,
    SLOT_P99 = SLOT_SAMPLES / 100 * 99,
    SLOT_P999 = SLOT_SAMPLES / 1000 * 999
};

/* Percentiles of the times measured by a reader, in nanoseconds per group. */
struct slot_seen {
    double p50, p99, p999, most;
};

static struct slot_seen slot_look(struct slot_race *race)
{
    slot_read(race);
    const uint32_t *s = race->samples;
    return (struct slot_seen){ s[SLOT_P50], s[SLOT_P99], s[SLOT_P999],
                               s[SLOT_SAMPLES - 1] };
}

static struct slot_seen slot_look_during(struct slot_race *race,
                                         void *(*change)(void *))
{
    pthread_t thread;
    atomic_store(&race->over, false);
    if (pthread_create(&thread, NULL, change, race) != 0) {
        bgb_die("cannot start a thread");
    }
    struct slot_seen seen = slot_look(race);
    atomic_store(&race->over, true);
    (void)pthread_join(thread, NULL);
    return seen;
}

static int slot_order_ratios(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* `ratios` is sorted; it is NULL for a quiet interval. */
static void slot_row(const char *name, uint64_t changes, struct slot_seen seen,
                     const double *ratios, int rounds)
{
    bgb_row_begin();
    bgb_cell_text("subject", "subject", -20, name);
    bgb_cell_count("changes", "changes", 9, changes);
    bgb_cell_real("p50", "p50 ns/16", 10, 0, seen.p50);
    bgb_cell_real("p99", "p99", 8, 0, seen.p99);
    bgb_cell_real("p999", "p99.9", 8, 0, seen.p999);
    bgb_cell_real("max", "max", 10, 0, seen.most);
    bgb_cell_real("ratio", "p99.9 ratio", 12, 2,
                  ratios ? ratios[rounds / 2] : BGB_NONE);
    bgb_cell_real("best", "best", 6, 2, ratios ? ratios[0] : BGB_NONE);
    bgb_cell_real("worst", "worst", 6, 2, ratios ? ratios[rounds - 1] : BGB_NONE);
    bgb_row_end();
}

/* Alternates quiet intervals with intervals that include changes. The reported times are from
 * the last interval of each type. */
static void slot_run_race(struct slot_race *race, const char *name,
                          void *(*change)(void *))
{
    double ratios[SLOT_ROUNDS];
    struct slot_seen quiet = { 0 }, during = { 0 };
    race->changes = 0;
    for (int i = 0; i < race->rounds; i++) {
        quiet = slot_look(race);
        during = slot_look_during(race, change);
        ratios[i] = during.p999 / quiet.p999;
    }
    qsort(ratios, (size_t)race->rounds, sizeof *ratios, slot_order_ratios);
    slot_row("quiet", 0, quiet, NULL, 0);
    slot_row(name, race->changes, during, ratios, race->rounds);
}

void bgb_bench_slot(const struct bgb_options *options)
{
    const uint64_t n = options->n_count ? options->n[0] : 1000000;
    slot_run_price(options, n);
    struct slot_race race = { .slot = slot_of(n), .stock = slot_filter(n), .n = n };
    /* Only tests set --seconds below 0.1, and one round is enough for them. */
    race.rounds = options->seconds < 0.1 ? 1 : SLOT_ROUNDS;
    race.samples = bgb_alloc(SLOT_SAMPLES, sizeof *race.samples);
    bgb_table("slot_readers", "a reader while a filter of %llu keys is replaced",
              (unsigned long long)n);
    slot_run_race(&race, "unrelated work", slot_fill);
    slot_run_race(&race, "during swaps", slot_swap);
    slot_run_race(&race, "during rebuilds", slot_rebuild);
    bgb_note(
        "ratio: 99.9th percentile vs. the preceding quiet interval; median, best and "
        "worst of %d",
        race.rounds);
    bg_slot_free(race.slot);
    bg_filter_free(race.stock);
    free(race.samples);
}

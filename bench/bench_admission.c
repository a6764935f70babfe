/*
 * bench_admission.c - how much does a bouncer (an admission filter) improve a cache without extra
 * memory, and what does a decision cost?
 *
 * Hit ratios. A cache for a given number of objects serves a trace (cache_trace.h) in which
 * 70% of the distinct keys occur exactly once. The catalog contains one key for every ten
 * requests. Every row uses the same amount of memory: the memory for the bouncer's filter is taken
 * from the cache, rounded up to whole objects. The first quarter of the trace warms up the cache
 * and is not counted. "window" is the number of remembered keys, as a multiple of the number of
 * objects in the cache; "stored" is the percentage of requests that put an object into the cache.
 * These values do not depend on timing. They are the same in every run, except for the effect of
 * false positives. The last tables show a workload that a bouncer is not suited for, in which the
 * popularity of keys changes before they are requested again.
 *
 * Speed. The bouncer's window has a fixed size and is full. All keys are new, like most misses.
 */
#include "bench.h"
#include "cache_trace.h"
#include "harness.h"
#include "keys.h"
#include "output.h"

#include "bloomgate/all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hit ratios -------------------------------------------------------------------- */

struct admission_setup {
    double s;
    unsigned changes;
    uint32_t share; /* objects in the cache = requests / share */
    uint32_t bytes; /* size of an object */
};

static const struct admission_setup admission_setups[] = {
    { 0.9, 0, 500, 100 }, { 0.9, 0, 500, 4096 },  { 0.9, 0, 100, 100 },
    { 1.0, 0, 500, 100 }, { 0.9, 10, 500, 4096 }, { 0.9, 100, 500, 4096 },
};

static const double admission_windows[] = { 0, 0.5, 1, 2, 4, 8 };

struct admission_result {
    uint64_t requests, hits, stored; /* counts after the warm-up */
    uint64_t filter_bytes;
    uint32_t objects;
    double admitted; /* fraction of misses that are admitted */
};

static bg_admission *admission_open(uint64_t items, const struct bgb_options *options,
                                    const bg_hash_spec *hash)
{
    bg_admission_options how = BG_ADMISSION_OPTIONS_INIT;
    bg_admission *door = NULL;
    bg_errinfo why;
    how.items = items;
    how.rate = options->rate;
    if (hash) {
        how.hash = *hash;
    }
    if (bg_admission_create(&how, &door, &why)) {
        bgb_die("%s", why.message);
    }
    return door;
}

static uint64_t admission_bytes(const bg_admission *door)
{
    bg_admission_info stats = { .struct_size = sizeof stats };
    return door && bg_admission_get_info(door, &stats) == BG_OK ? stats.bytes : 0;
}

/* Runs the trace through a cache with this bouncer, or without a bouncer if `door` is NULL. */
static void admission_play(const struct bgb_trace *trace, struct bgb_lru *lru,
                           bg_admission *door, struct admission_result *result)
{
    size_t warm = trace->requests / 4;
    for (size_t i = 0; i < trace->requests; i++) {
        uint64_t key = trace->keys[i];
        bool hit = bgb_lru_get(lru, trace->keys[i]);
        bool stores = !hit && bg_admission_admit(door, &key, sizeof key);
        if (stores) {
            bgb_lru_put(lru, trace->keys[i]);
        }
        if (i >= warm) {
            result->requests++;
            result->hits += hit;
            result->stored += stores;
        }
    }
}

static struct admission_result admission_try(const struct bgb_options *options,
                                             const struct bgb_trace *trace,
                                             const struct admission_setup *setup,
                                             double window)
{
    struct admission_result r = { .requests = 0 };
    uint64_t objects = trace->requests / setup->share;
    uint64_t items = (uint64_t)llround(window * (double)objects);
    bg_admission *door = items ? admission_open(items, options, NULL) : NULL;
    r.filter_bytes = admission_bytes(door);
    uint64_t left = objects * setup->bytes - r.filter_bytes;
    if (r.filter_bytes >= objects * setup->bytes || left < setup->bytes) {
        bgb_die("the filter leaves no memory for objects of %u bytes", setup->bytes);
    }
    r.objects = (uint32_t)(left / setup->bytes);
    struct bgb_lru lru;
    bgb_lru_make(&lru, trace->key_count, r.objects);
    admission_play(trace, &lru, door, &r);
    bgb_lru_free(&lru);
    bg_admission_free(door);
    r.admitted = (double)r.stored / (double)(r.requests - r.hits);
    return r;
}

static double admission_percent(uint64_t part, uint64_t of)
{
    return 100 * (double)part / (double)of;
}

static void admission_row(double window, const struct admission_result *r,
                          double without)
{
    char name[32] = "none";
    double hits = admission_percent(r->hits, r->requests);
    if (window > 0) {
        (void)snprintf(name, sizeof name, "%g x", window);
    }
    bgb_row_begin();
    bgb_cell_text("window", "window", -8, name);
    bgb_cell_count("filter_bytes", "filter bytes", 13, r->filter_bytes);
    bgb_cell_count("objects", "objects", 9, r->objects);
    bgb_cell_real("hits", "hits %", 8, 2, hits);
    bgb_cell_real("gain", "gain", 8, 2, window > 0 ? hits - without : BGB_NONE);
    bgb_cell_real("admitted", "admitted %", 11, 2, 100 * r->admitted);
    bgb_cell_real("stored", "stored %", 9, 2,
                  admission_percent(r->stored, r->requests));
    bgb_row_end();
}

static void admission_table(const struct bgb_options *options,
                            const struct bgb_trace *trace,
                            const struct admission_setup *setup)
{
    const size_t rows = sizeof admission_windows / sizeof *admission_windows;
    double without = 0;
    bgb_table("admission",
              "%zu requests, Zipf s = %.1f, popularity changes %u times; %.1f%% of the "
              "distinct keys occur once (%.1f%% of requests); memory for %zu objects "
              "of %u bytes",
              trace->requests, trace->s, trace->changes,
              admission_percent(trace->asked_once, trace->different),
              admission_percent(trace->asked_once, trace->requests),
              trace->requests / setup->share, setup->bytes);
    for (size_t i = 0; i < rows; i++) {
        struct admission_result r =
            admission_try(options, trace, setup, admission_windows[i]);
        without = i ? without : admission_percent(r.hits, r.requests);
        admission_row(admission_windows[i], &r, without);
    }
}

static void admission_ratios(const struct bgb_options *options, uint64_t requests)
{
    struct bgb_trace trace = { .keys = NULL };
    for (size_t i = 0; i < sizeof admission_setups / sizeof *admission_setups; i++) {
        const struct admission_setup *setup = &admission_setups[i];
        if (!trace.keys || trace.s != setup->s || trace.changes != setup->changes) {
            bgb_trace_free(&trace);
            trace = (struct bgb_trace){ .requests = (size_t)requests,
                                        .catalogue = (uint32_t)(requests / 10),
                                        .s = setup->s,
                                        .once = 0.7,
                                        .changes = setup->changes };
            bgb_trace_make(&trace);
        }
        admission_table(options, &trace, setup);
    }
    bgb_trace_free(&trace);
    bgb_note("same memory in every row: the filter's bytes are taken from the cache");
}

/* ---- Speed ------------------------------------------------------------------------- */

enum admission_way {
    ADMISSION_ONE,
    ADMISSION_ONE_KEYED,
    ADMISSION_MANY,
    ADMISSION_WOULD,
    ADMISSION_WAYS
};

static const char *const admission_names[ADMISSION_WAYS] = { "admit", "admit, keyed",
                                                             "admit_many",
                                                             "would_admit" };

enum { ADMISSION_CHUNK = 1 << 14 };

struct admission_state {
    enum admission_way way;
    bg_admission *door;
    uint64_t next; /* keys never repeat */
    uint64_t keys[ADMISSION_CHUNK];
    bg_bytes pairs[ADMISSION_CHUNK];
    uint64_t ns;
};

static uint64_t admission_decide(struct admission_state *s, size_t n)
{
    uint64_t in = 0;
    if (s->way == ADMISSION_MANY) {
        return bg_admission_admit_many(s->door, bg_keys_bytes(s->pairs, n), NULL);
    }
    for (size_t i = 0; i < n; i++) {
        in += s->way == ADMISSION_WOULD
                  ? bg_admission_would_admit(s->door, &s->keys[i], sizeof s->keys[i])
                  : bg_admission_admit(s->door, &s->keys[i], sizeof s->keys[i]);
    }
    return in;
}

static uint64_t admission_pass(void *state, size_t first, size_t n)
{
    struct admission_state *s = state;
    (void)first;
    for (size_t i = 0; i < n; i++) {
        s->keys[i] = bgb_key(BGB_SET_FRESH, s->next++);
        s->pairs[i] = (bg_bytes){ &s->keys[i], sizeof s->keys[i] };
    }
    uint64_t start = bgb_now_ns();
    uint64_t in = admission_decide(s, n);
    s->ns = bgb_now_ns() - start;
    return in;
}

/* Adds twice as many keys as the window holds, so that new keys advance the window from then on. */
static void admission_fill(struct admission_state *s, uint64_t items)
{
    enum admission_way way = s->way;
    s->way = ADMISSION_MANY;
    while (s->next < 2 * items) {
        (void)admission_pass(s, 0, ADMISSION_CHUNK);
    }
    s->way = way;
}

static void admission_speed(const struct bgb_options *options, uint64_t items)
{
    static const uint8_t secret[BG_SECRET_BYTES] = { 1, 2, 3 };
    const bg_hash_spec keyed = { .profile = BG_HASH_KEYED, .secret = secret };
    struct bgb_subject subjects[ADMISSION_WAYS];
    struct admission_state *states = bgb_alloc(ADMISSION_WAYS, sizeof *states);
    double rate = options->rate > 0 ? options->rate : 0.01;
    for (int i = 0; i < ADMISSION_WAYS; i++) {
        states[i].way = (enum admission_way)i;
        states[i].door =
            admission_open(items, options, i == ADMISSION_ONE_KEYED ? &keyed : NULL);
        admission_fill(&states[i], items);
        subjects[i] = (struct bgb_subject){ .pass = admission_pass,
                                            .state = &states[i],
                                            .pool = ADMISSION_CHUNK,
                                            .chunk = ADMISSION_CHUNK,
                                            .least = 0,
                                            .most = 1.5 * rate,
                                            .own_ns = &states[i].ns };
        (void)snprintf(subjects[i].name, sizeof subjects[i].name, "%s",
                       admission_names[i]);
    }
    bgb_table("admission_speed", "decisions, window of %llu keys, all keys new",
              (unsigned long long)items);
    bgb_run(subjects, ADMISSION_WAYS, options->seconds);
    for (int i = 0; i < ADMISSION_WAYS; i++) {
        double bits = 8 * (double)admission_bytes(states[i].door) / (double)items;
        bgb_row_begin();
        bgb_cells_subject(subjects[i].name, items, bits, subjects[i].share);
        bgb_cells_times(&subjects[i], BGB_NONE);
        bgb_row_end();
        bg_admission_free(states[i].door);
    }
    free(states);
}

void bgb_bench_admission(const struct bgb_options *options)
{
    static const uint64_t usual[] = { 10000000 };
    static const uint64_t windows[] = { 100000, 10000000 };
    uint64_t requests[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, usual, 1, requests);
    for (size_t i = 0; i < count; i++) {
        if (requests[i] < 10000 || requests[i] > UINT32_MAX / 2) {
            bgb_die("admission: --n is the number of requests, 1e4 to 2e9");
        }
        admission_ratios(options, requests[i]);
    }
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        admission_speed(options, windows[i]);
    }
}

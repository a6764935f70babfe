/*
 * bench_others.c - how fast are filter kinds that can remove, count or expire keys, that can grow,
 * or that are immutable?
 *
 * There is one table per number of keys and setup (a kind with its variant and rate).
 * Lookups run singly and in batches, in a filter filled to its capacity of n keys. For kinds that
 * support removal, inserts and removals are also measured: a pass inserts fresh keys and then
 * removes them, so the filter stays full. The two halves of a pass are timed separately. "build"
 * starts with an empty filter and adds n keys. The ratio compares each row with the limit (limit.h)
 * for reading random lines at the filter's size. The ratio cannot exceed about 0.5 for a kind that
 * touches two lines per key, and about 0.33 for a kind that touches three lines. Kinds with several
 * layers or generations have an additional limit (layers_limit.h): reading one line from each of
 * several tables with the same sizes.
 */
#include "bench.h"
#include "keys.h"
#include "layers_limit.h"
#include "limit.h"
#include "machine.h"
#include "ours.h"
#include "output.h"

#include "bloomgate/builder.h"
#include "bloomgate/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct others_setup {
    const char *name;
    double rate;
    const bg_window_options *window;
    bg_kind kind;
    uint32_t k; /* 0 if derived from the rate */
    uint32_t width;
    uint32_t flags;
    uint32_t
        part; /* the filter is sized for n / part keys instead of n; 0 is treated as 1 */
    uint32_t step;  /* each layer has 2^step times as many lines as the previous one */
    uint32_t spare; /* number of additional layers that are not read */
    bool layered;   /* a lookup of an absent key reads a line from each planned layer */
};

static const bg_window_options others_generations = { .struct_size =
                                                          sizeof(bg_window_options),
                                                      .mode = BG_WINDOW_GENERATIONS,
                                                      .generations = 24 };
static const bg_window_options others_aged = { .struct_size = sizeof(bg_window_options),
                                               .mode = BG_WINDOW_AGED,
                                               .generations = 24 };

static const struct others_setup others_setups[] = {
    { .name = "counting", .kind = BG_KIND_COUNTING, .rate = 0.01 },
    { .name = "counting, scattered",
      .kind = BG_KIND_COUNTING,
      .flags = BG_SPEC_SCATTERED,
      .rate = 0.01 },
    { .name = "cuckoo, 12 bits", .kind = BG_KIND_CUCKOO, .k = 12, .rate = 0.002 },
    { .name = "cuckoo, 16 bits", .kind = BG_KIND_CUCKOO, .k = 16, .rate = 0.00013 },
    { .name = "quotient, 0.2%", .kind = BG_KIND_QUOTIENT, .rate = 0.002 },
    { .name = "fuse, 8 bits", .kind = BG_KIND_FUSE, .k = 8, .rate = 0.004 },
    { .name = "fuse, 16 bits", .kind = BG_KIND_FUSE, .k = 16, .rate = 0.000016 },
    { .name = "ribbon, 8 bits", .kind = BG_KIND_RIBBON, .k = 8, .rate = 0.004 },
    { .name = "scalable", .kind = BG_KIND_SCALABLE, .rate = 0.01 },
    { .name = "scalable, 8 layers",
      .kind = BG_KIND_SCALABLE,
      .rate = 0.01,
      .part = 190,
      .layered = true,
      .step = 1 },
    { .name = "window, 24 generations",
      .kind = BG_KIND_WINDOW,
      .rate = 0.01,
      .window = &others_generations,
      .layered = true,
      .spare = 1 },
    { .name = "window, 24 ages",
      .kind = BG_KIND_WINDOW,
      .rate = 0.01,
      .window = &others_aged },
};

enum {
    OTHERS_SETUPS = sizeof others_setups / sizeof *others_setups,
    OTHERS_BUILD_MAX = 200000000,
    OTHERS_THREADS = 2
};

enum {
    ROW_ABSENT_ONE,
    ROW_PRESENT_ONE,
    ROW_ABSENT,
    ROW_PRESENT,
    ROW_INSERT,
    ROW_REMOVE,
    ROWS
};

static const char *const others_rows[ROWS] = {
    "lookup absent, single", "lookup present, single", "lookup absent, batch",
    "lookup present, batch", "insert, batch",          "remove, batch",
};

/* One setup: a filter and everything that is measured with it. */
struct others {
    const struct others_setup *setup;
    const struct bgb_keys *keys;
    bg_filter *filter;
    uint64_t *bitmap;
    uint64_t own_ns; /* time of the measured half of a pass */
    double build_ns, threaded_ns;
    double fpr;
    struct bgb_subject subjects[ROWS + 2]; /* the rows and the limits */
    struct bgb_ours looks[ROW_INSERT];     /* states of the lookup rows */
    int row_of[ROWS];
    size_t rows, count;
    struct bgb_region region;
    struct bgb_limit limit;
    struct bgb_layers_limit layers;
};

/* ---- Passes -------------------------------------------------------------------- */

/* Inserts keys and then removes them. Returns the number of keys removed, and stores the end time
 * of each half. */
static size_t others_both(struct others *o, size_t first, size_t n, uint64_t *between,
                          uint64_t *end)
{
    const uint64_t *fresh = o->keys->fresh_hash + first;
    size_t done = 0;
    if (bg_filter_add_many(o->filter, bg_keys_hashes(fresh, n), NULL, &done, NULL)
        != BG_OK) {
        bgb_die("%s: the filter is full", o->setup->name);
    }
    *between = bgb_now_ns();
    done = bg_filter_remove_many(o->filter, bg_keys_hashes(fresh, n), o->bitmap);
    *end = bgb_now_ns();
    return done;
}

static uint64_t others_insert(void *state, size_t first, size_t n)
{
    struct others *o = state;
    uint64_t begin = bgb_now_ns(), between, end;
    size_t done = others_both(o, first, n, &between, &end);
    o->own_ns = between - begin;
    return done;
}

static uint64_t others_remove(void *state, size_t first, size_t n)
{
    struct others *o = state;
    uint64_t between, end;
    size_t done = others_both(o, first, n, &between, &end);
    o->own_ns = end - between;
    return done;
}

/* ---- One setup ----------------------------------------------------------------- */

static bg_spec others_spec(const struct others_setup *setup, uint64_t n)
{
    static bg_window_options window; /* referenced by the spec */
    bg_spec spec = bgb_spec((uint32_t)setup->kind, n / (setup->part ? setup->part : 1),
                            setup->rate, setup->flags | BG_SPEC_EXCLUSIVE);
    spec.k = setup->k;
    spec.width = setup->width;
    if (setup->window) {
        window = *setup->window;
        window.count = n;
        spec.window = &window;
    }
    return spec;
}

/* Returns the hashes of all present keys. */
static uint64_t *others_hashes(uint64_t n)
{
    const bg_hash_spec fast = { .profile = BG_HASH_FAST };
    uint64_t *hashes = bgb_alloc((size_t)n, sizeof *hashes);
    bg_hasher hasher;
    if (bg_hasher_init(&hasher, &fast, NULL) != BG_OK) {
        bgb_die("cannot create a hasher");
    }
    for (uint64_t i = 0; i < n; i++) {
        hashes[i] = bgb_key(BGB_SET_PRESENT, i);
    }
    bg_hash_many(&hasher, bg_keys_u64(hashes, (size_t)n), hashes);
    return hashes;
}

/* Builds a filter of a static kind from hashes. */
static bg_filter *others_finish(const bg_spec *spec, const uint64_t *hashes, size_t n,
                                unsigned threads)
{
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bg_errinfo why;
    if (bg_builder_create(spec, &builder, &why) != BG_OK
        || bg_builder_add_many(builder, bg_keys_hashes(hashes, n)) != BG_OK
        || bg_builder_finish_threaded(builder, threads, &filter, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    bg_builder_free(builder);
    return filter;
}

/* Creates a filter of any other kind and adds all hashes, which fill it to its capacity. */
static bg_filter *others_fill(const bg_spec *spec, const uint64_t *hashes, size_t n)
{
    bg_filter *filter = NULL;
    bg_errinfo why;
    size_t done = 0;
    if (bg_filter_create(spec, &filter, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    if (bg_filter_add_many(filter, bg_keys_hashes(hashes, n), NULL, &done, NULL)
        != BG_OK) {
        bgb_die("%s: full after %zu keys", bg_kind_name(bg_filter_kind(filter)), done);
    }
    return filter;
}

static void others_build(struct others *o)
{
    size_t n = (size_t)o->keys->n;
    uint64_t *hashes = others_hashes(n);
    bg_spec spec = others_spec(o->setup, n);
    bool is_static = bg_kind_traits(o->setup->kind) & BG_TRAIT_STATIC;
    uint64_t begin = bgb_now_ns();
    o->filter =
        is_static ? others_finish(&spec, hashes, n, 1) : others_fill(&spec, hashes, n);
    o->build_ns = (double)(bgb_now_ns() - begin) / (double)n;
    if (is_static) {
        bgb_machine_unpin(); /* otherwise, all threads would share one core */
        begin = bgb_now_ns();
        bg_filter_free(others_finish(&spec, hashes, n, OTHERS_THREADS));
        o->threaded_ns = (double)(bgb_now_ns() - begin) / (double)n;
        bgb_machine_pin(bgb_machine_core(0));
    }
    free(hashes);
}

/* Lookups use the same code as all other tables (ours.h). */
static void others_add_look(struct others *o, int row)
{
    bool absent = row == ROW_ABSENT || row == ROW_ABSENT_ONE;
    bool single = row == ROW_ABSENT_ONE || row == ROW_PRESENT_ONE;
    struct bgb_ours_what what = { BGB_FORM_HASH,
                                  absent ? BGB_LOAD_ABSENT : BGB_LOAD_PRESENT,
                                  single ? BGB_GRAIN_ONE : BGB_GRAIN_ALL };
    bgb_ours_prepare(&o->looks[row], &o->subjects[o->count], o->keys, what, o->filter,
                     NULL);
}

static void others_add_change(struct others *o, int row)
{
    o->subjects[o->count] = (struct bgb_subject){
        .pass = row == ROW_INSERT ? others_insert : others_remove,
        .state = o,
        .pool = o->keys->fresh_pool,
        .chunk = o->keys->fresh_pool / 256 + 1, /* not enough to overfill the filter */
        .least = 1,
        .most = 1,
        .own_ns = &o->own_ns,
    };
}

static void others_add_row(struct others *o, int row)
{
    bool changes = row == ROW_INSERT || row == ROW_REMOVE;
    if (changes && !(bg_kind_traits(o->setup->kind) & BG_TRAIT_REMOVE)) {
        return;
    }
    if (changes) {
        others_add_change(o, row);
    } else {
        others_add_look(o, row);
    }
    struct bgb_subject *s = &o->subjects[o->count];
    (void)snprintf(s->name, sizeof s->name, "%s: %s", o->setup->name, others_rows[row]);
    o->row_of[o->count++] = row;
}

/* ---- Limits -------------------------------------------------------------------- */

static void others_add_limit(struct others *o)
{
    uint64_t bytes = bg_filter_size_bytes(o->filter);
    bgb_region_make(&o->region, (size_t)bytes, false);
    bgb_limit_prepare(&o->limit, &o->subjects[o->count++], &o->region,
                      o->keys->absent_hash, o->keys->pool,
                      bgb_keys_chunk(o->keys, bytes), BGB_LIMIT_READ);
}

/* Gets the number of layers from the plan, and derives the size of the newest (largest) layer from
 * the size of the filter. */
static void others_add_layers_limit(struct others *o)
{
    const struct others_setup *setup = o->setup;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = others_spec(setup, o->keys->n);
    ask.growth = setup->part ? setup->part : 1;
    if (bg_plan_compute(&ask, &plan, NULL) != BG_OK) {
        bgb_die("%s: cannot plan the filter", setup->name);
    }
    uint64_t bytes = bg_filter_size_bytes(o->filter), parts = setup->spare;
    for (uint32_t i = 0; i < plan.layers; i++) {
        parts += UINT64_C(1) << (i * setup->step);
    }
    uint64_t newest = bytes / 64 / parts << ((plan.layers - 1) * setup->step);
    o->layers = (struct bgb_layers_limit){ .lines = newest,
                                           .count = plan.layers,
                                           .step = setup->step,
                                           .stream = o->keys->absent_hash };
    bgb_layers_limit_prepare(&o->layers, &o->subjects[o->count++], o->keys->pool,
                             bgb_keys_chunk(o->keys, bytes));
}

/* ---- Results ------------------------------------------------------------------- */

static void others_print(const struct others *o)
{
    uint64_t n = o->keys->n;
    double bits = bgb_ours_bits_per_key(o->filter, n);
    const struct bgb_subject *limit = &o->subjects[o->rows];
    for (size_t i = 0; i < o->count; i++) {
        const struct bgb_subject *s = &o->subjects[i];
        bool absent = i < o->rows
                      && (o->row_of[i] == ROW_ABSENT || o->row_of[i] == ROW_ABSENT_ONE);
        bgb_row_begin();
        bgb_cells_subject(s->name, n, i < o->rows ? bits : BGB_NONE,
                          absent ? o->fpr : BGB_NONE);
        bgb_cells_times(s, limit->p5 / s->p5);
        bgb_row_end();
    }
    if (o->setup->layered) {
        bgb_note(
            "%s: batch lookups of absent keys run at %.2f of the limit for one line per layer",
            o->setup->name, limit[1].p5 / o->subjects[ROW_ABSENT].p5);
    }
    bgb_note("%s: build from scratch: %.1f ns/key", o->setup->name, o->build_ns);
    if (o->threaded_ns > 0) {
        bgb_note("%s: build with %d threads: %.1f ns/key", o->setup->name,
                 OTHERS_THREADS, o->threaded_ns);
    }
}

static void others_run(const struct bgb_options *options, const struct bgb_keys *keys,
                       const struct others_setup *setup)
{
    enum { TRIALS = 1 << 22 };
    struct others *o = bgb_alloc(1, sizeof *o);
    o->setup = setup;
    o->keys = keys;
    o->bitmap = bgb_alloc(BG_BITMAP_WORDS(keys->pool), sizeof(uint64_t));
    others_build(o);
    o->fpr = (double)bgb_ours_false_positives(o->filter, TRIALS) / TRIALS;
    for (int row = 0; row < ROWS; row++) {
        others_add_row(o, row);
    }
    o->rows = o->count;
    others_add_limit(o);
    if (setup->layered) {
        others_add_layers_limit(o);
    }
    bgb_table("others", "%s, %llu keys; ratio = ns of the limit / ns of the row",
              setup->name, (unsigned long long)keys->n);
    bgb_run(o->subjects, o->count, options->seconds);
    others_print(o);
    for (int row = 0; row < ROW_INSERT; row++) {
        bgb_ours_free(&o->looks[row]);
    }
    bg_filter_free(o->filter);
    bgb_region_free(&o->region);
    bgb_layers_limit_free(&o->layers);
    free(o->bitmap);
    free(o);
}

void bgb_bench_others(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 100000, 10000000 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 2, n);
    for (size_t i = 0; i < count; i++) {
        struct bgb_keys keys;
        if (n[i] > OTHERS_BUILD_MAX) {
            continue;
        }
        bgb_keys_make(&keys, n[i]);
        for (int s = 0; s < OTHERS_SETUPS; s++) {
            if (bgb_options_wants(options, (uint32_t)others_setups[s].kind)) {
                others_run(options, &keys, &others_setups[s]);
            }
        }
        bgb_keys_free(&keys);
    }
}

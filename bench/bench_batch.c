/*
 * bench_batch.c - do batches run at the speed at which memory delivers cache lines?
 *
 * Prints one table per size and kind. Measures batch lookups and adds, with keys passed as
 * hashes, integers, contiguous 16-byte records and 16-byte strings (pointer and length), with
 * and without atomic instructions. Each row is compared with the limit (limit.h) for memory of the
 * same size: the limit for reading lines (lookups) or for rewriting lines (adds). A ratio of 1.00
 * means that a filter that touches one cache line per key cannot be faster on this machine. Classic
 * and partitioned filters touch more than one line per key, so their ratios are lower.
 */
#include "bench.h"
#include "bench_adds.h"
#include "keys.h"
#include "limit.h"
#include "ours.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The filter that a row uses. */
enum batch_target { TARGET_FILTER, TARGET_EXCLUSIVE, TARGET_SHARED };

static const struct batch_row {
    const char *name;
    struct bgb_ours_what what;
    enum batch_target target;
} batch_rows[] = {
    { "lookup absent, hashes",
      { BGB_FORM_HASH, BGB_LOAD_ABSENT, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "lookup absent, hashes by 32",
      { BGB_FORM_HASH, BGB_LOAD_ABSENT, BGB_GRAIN_32 },
      TARGET_FILTER },
    { "lookup half present, hashes",
      { BGB_FORM_HASH, BGB_LOAD_MIXED, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "lookup present, hashes",
      { BGB_FORM_HASH, BGB_LOAD_PRESENT, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "lookup absent, u64",
      { BGB_FORM_U64, BGB_LOAD_ABSENT, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "lookup absent, 16-byte records",
      { BGB_FORM_FIXED, BGB_LOAD_ABSENT, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "lookup absent, 16-byte strings",
      { BGB_FORM_BYTES, BGB_LOAD_ABSENT, BGB_GRAIN_ALL },
      TARGET_FILTER },
    { "add exclusive, hashes",
      { BGB_FORM_HASH, BGB_LOAD_ADD, BGB_GRAIN_ALL },
      TARGET_EXCLUSIVE },
    { "add exclusive, u64",
      { BGB_FORM_U64, BGB_LOAD_ADD, BGB_GRAIN_ALL },
      TARGET_EXCLUSIVE },
    { "add exclusive, 16-byte records",
      { BGB_FORM_FIXED, BGB_LOAD_ADD, BGB_GRAIN_ALL },
      TARGET_EXCLUSIVE },
    { "add exclusive, 16-byte strings",
      { BGB_FORM_BYTES, BGB_LOAD_ADD, BGB_GRAIN_ALL },
      TARGET_EXCLUSIVE },
    { "add shared, hashes",
      { BGB_FORM_HASH, BGB_LOAD_ADD, BGB_GRAIN_ALL },
      TARGET_SHARED },
    { "add shared, u64", { BGB_FORM_U64, BGB_LOAD_ADD, BGB_GRAIN_ALL }, TARGET_SHARED },
    { "re-add shared, hashes",
      { BGB_FORM_HASH, BGB_LOAD_READD, BGB_GRAIN_ALL },
      TARGET_FILTER },
};

enum {
    ROWS = sizeof batch_rows / sizeof *batch_rows,
    READ_LIMIT = ROWS,
    WRITE_LIMIT,
    BUILD,
    SUBJECTS,
    BUILD_MAX = 10000000 /* maximum, because a build keeps all keys in memory */
};

/* The state of one table. */
struct batch_table {
    struct bgb_subject subjects[SUBJECTS];
    struct bgb_ours states[ROWS];
    struct bgb_limit limits[2];
    struct bgb_region region;
    bg_filter *filter;          /* shared mode, n keys */
    struct bgb_arena arenas[2]; /* exclusive, shared; n / 2 keys */
    bg_filter *built;
    uint64_t *build_keys;
};

/* Clears a filter and adds all keys. */
static uint64_t batch_build(void *state, size_t first, size_t n)
{
    struct batch_table *t = state;
    bg_filter_clear(t->built);
    return added_many(t->built, bg_keys_u64(t->build_keys + first, n), NULL);
}

static size_t batch_prepare_build(struct batch_table *t, const bg_spec *spec,
                                  uint64_t n)
{
    if (n > BUILD_MAX) {
        return 0;
    }
    t->built = bgb_filter_make(spec, n);
    t->build_keys = bgb_alloc((size_t)n, sizeof *t->build_keys);
    for (size_t i = 0; i < n; i++) {
        t->build_keys[i] = bgb_key(BGB_SET_PRESENT, i);
    }
    t->subjects[BUILD] = (struct bgb_subject){ .name = "build: clear, add all, u64",
                                               .pass = batch_build,
                                               .state = t,
                                               .pool = (size_t)n,
                                               .chunk = (size_t)n,
                                               .cold = true,
                                               .least = 0.5,
                                               .most = 1 };
    return 1;
}

/* Prepares the rows and limits of one table. Returns the number of subjects. */
static size_t batch_prepare(struct batch_table *t, const struct bgb_keys *keys,
                            uint32_t kind, double rate)
{
    bg_spec shared = bgb_spec(kind, keys->n, rate, 0);
    bg_spec exclusive = bgb_spec(kind, keys->n, rate, BG_SPEC_EXCLUSIVE);
    t->filter = bgb_filter_make(&shared, keys->n);
    bgb_arena_make(&t->arenas[0], &exclusive, keys->n / 2, 0);
    bgb_arena_make(&t->arenas[1], &shared, keys->n / 2, 0);
    for (int i = 0; i < ROWS; i++) {
        const struct batch_row *row = &batch_rows[i];
        struct bgb_arena *arena =
            row->target == TARGET_FILTER ? NULL : &t->arenas[row->target - 1];
        (void)snprintf(t->subjects[i].name, BGB_NAME_BYTES, "%s", row->name);
        bgb_ours_prepare(&t->states[i], &t->subjects[i], keys, row->what, t->filter,
                         arena);
    }
    uint64_t bytes = bg_filter_size_bytes(t->filter);
    bgb_region_make(&t->region, (size_t)bytes, false);
    for (int i = 0; i < 2; i++) {
        bgb_limit_prepare(&t->limits[i], &t->subjects[READ_LIMIT + i], &t->region,
                          keys->absent_hash, keys->pool, bgb_keys_chunk(keys, bytes),
                          i ? BGB_LIMIT_WRITE : BGB_LIMIT_READ);
    }
    return BUILD + batch_prepare_build(t, &exclusive, keys->n);
}

static void batch_release(struct batch_table *t)
{
    for (int i = 0; i < ROWS; i++) {
        bgb_ours_free(&t->states[i]);
    }
    bg_filter_free(t->filter);
    bg_filter_free(t->built);
    free(t->build_keys);
    bgb_arena_free(&t->arenas[0]);
    bgb_arena_free(&t->arenas[1]);
    bgb_region_free(&t->region);
}

/* Returns whether a subject writes. If so, its ratio refers to the limit for rewriting lines, not
 * for reading them. */
static bool batch_writes(size_t i)
{
    return i == WRITE_LIMIT || i == BUILD
           || (i < ROWS && batch_rows[i].what.load >= BGB_LOAD_ADD);
}

static void batch_print(const struct batch_table *t, size_t count, uint32_t kind,
                        uint64_t n)
{
    for (size_t i = 0; i < count; i++) {
        const struct bgb_subject *s = &t->subjects[i];
        const struct bgb_subject *bound =
            &t->subjects[batch_writes(i) ? WRITE_LIMIT : READ_LIMIT];
        bool absent = i < ROWS && batch_rows[i].what.load == BGB_LOAD_ABSENT;
        bool limit = i == READ_LIMIT || i == WRITE_LIMIT;
        bgb_row_begin();
        bgb_cells_subject(s->name, n,
                          limit ? BGB_NONE : bgb_ours_bits_per_key(t->filter, n),
                          absent ? s->share : BGB_NONE);
        bgb_cells_times(s, bound->p5 / s->p5);
        bgb_cell_text("kind", "", 0, bg_kind_name((bg_kind)kind));
        bgb_cell_count("bytes", "", 0, bg_filter_size_bytes(t->filter));
        bgb_row_end();
    }
}

static void batch_run(const struct bgb_options *options, const struct bgb_keys *keys,
                      uint32_t kind, double rate)
{
    struct batch_table *t = bgb_alloc(1, sizeof *t);
    size_t count = batch_prepare(t, keys, kind, rate);
    bgb_table("batch", "%s, %llu keys, %g%%; ratio = ns of the limit / ns of the row",
              bg_kind_name((bg_kind)kind), (unsigned long long)keys->n, rate * 100);
    bgb_run(t->subjects, count, options->seconds);
    batch_print(t, count, kind, keys->n);
    batch_release(t);
    free(t);
}

void bgb_bench_batch(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 100000, 1000000, 10000000 };
    static const uint32_t kinds[] = { BG_KIND_BLOCKED, BG_KIND_SPLIT, BG_KIND_REGISTER,
                                      BG_KIND_CLASSIC, BG_KIND_PARTITIONED };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 3, n);
    double rate = options->rate > 0 ? options->rate : 0.01;
    for (size_t i = 0; i < count; i++) {
        struct bgb_keys keys;
        bgb_keys_make(&keys, n[i]);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (bgb_options_wants(options, kinds[k])) {
                batch_run(options, &keys, kinds[k], rate);
            }
        }
        bgb_keys_free(&keys);
    }
}

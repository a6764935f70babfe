/*
 * bench_single.c - what does one call per key cost, through the public functions?
 *
 * Most rows use precomputed hashes and measure only the call and the filter. For filters that are
 * larger than the caches, the result depends on how many lookups the CPU overlaps. The ratio
 * compares each row with the limit (limit.h) for the same size, as in bench_batch.c. The row "empty
 * call" shows the minimum cost of any function that is not inlined. A lookup through the public
 * function costs at least one such call plus an indirect jump.
 */
#include "bench.h"
#include "keys.h"
#include "limit.h"
#include "ours.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROW_ABSENT, ROW_MIXED, ROW_U64, ROW_EXCLUSIVE, ROW_SHARED, ROWS };

static const struct {
    const char *name;
    struct bgb_ours_what what;
} single_rows[ROWS] = {
    { "lookup absent, hash", { BGB_FORM_HASH, BGB_LOAD_ABSENT, BGB_GRAIN_ONE } },
    { "lookup half present, hash", { BGB_FORM_HASH, BGB_LOAD_MIXED, BGB_GRAIN_ONE } },
    { "lookup absent, u64", { BGB_FORM_U64, BGB_LOAD_ABSENT, BGB_GRAIN_ONE } },
    { "add exclusive, hash", { BGB_FORM_HASH, BGB_LOAD_ADD, BGB_GRAIN_ONE } },
    { "add shared, hash", { BGB_FORM_HASH, BGB_LOAD_ADD, BGB_GRAIN_ONE } },
};

enum { READ_LIMIT = ROWS, WRITE_LIMIT, EMPTY_CALL, SUBJECTS };

/* Does nothing, and is never inlined. */
__attribute__((noinline)) static bool single_nothing(const void *filter, uint64_t hash)
{
    __asm__ volatile("" : : "r"(filter), "r"(hash));
    return hash & 1;
}

static uint64_t single_empty_pass(void *state, size_t first, size_t n)
{
    const uint64_t *stream = state;
    uint64_t sum = 0;
    for (size_t i = first; i < first + n; i++) {
        sum += single_nothing(state, stream[i]);
    }
    bgb_sink(sum);
    return 0;
}

struct single_table {
    struct bgb_subject subjects[SUBJECTS];
    struct bgb_ours states[ROWS];
    struct bgb_limit limits[2];
    struct bgb_region region;
    bg_filter *filter;
    struct bgb_arena arenas[2];
};

static void single_prepare(struct single_table *t, const struct bgb_keys *keys,
                           uint32_t kind, double rate)
{
    bg_spec shared = bgb_spec(kind, keys->n, rate, 0);
    bg_spec exclusive = bgb_spec(kind, keys->n, rate, BG_SPEC_EXCLUSIVE);
    t->filter = bgb_filter_make(&shared, keys->n);
    bgb_arena_make(&t->arenas[0], &exclusive, keys->n / 2, 0);
    bgb_arena_make(&t->arenas[1], &shared, keys->n / 2, 0);
    for (int i = 0; i < ROWS; i++) {
        struct bgb_arena *arena =
            i < ROW_EXCLUSIVE ? NULL : &t->arenas[i - ROW_EXCLUSIVE];
        (void)snprintf(t->subjects[i].name, BGB_NAME_BYTES, "%s", single_rows[i].name);
        bgb_ours_prepare(&t->states[i], &t->subjects[i], keys, single_rows[i].what,
                         t->filter, arena);
    }
    uint64_t bytes = bg_filter_size_bytes(t->filter);
    bgb_region_make(&t->region, (size_t)bytes, false);
    for (int i = 0; i < 2; i++) {
        bgb_limit_prepare(&t->limits[i], &t->subjects[READ_LIMIT + i], &t->region,
                          keys->absent_hash, keys->pool, bgb_keys_chunk(keys, bytes),
                          i ? BGB_LIMIT_WRITE : BGB_LIMIT_READ);
    }
    t->subjects[EMPTY_CALL] =
        (struct bgb_subject){ .name = "empty call",
                              .pass = single_empty_pass,
                              .state = keys->absent_hash,
                              .pool = keys->pool,
                              .chunk = bgb_keys_chunk(keys, bytes) };
}

static void single_release(struct single_table *t)
{
    for (int i = 0; i < ROWS; i++) {
        bgb_ours_free(&t->states[i]);
    }
    bg_filter_free(t->filter);
    bgb_arena_free(&t->arenas[0]);
    bgb_arena_free(&t->arenas[1]);
    bgb_region_free(&t->region);
}

static void single_print(const struct single_table *t, uint32_t kind, uint64_t n)
{
    for (int i = 0; i < SUBJECTS; i++) {
        const struct bgb_subject *s = &t->subjects[i];
        bool writes = i == WRITE_LIMIT || i == ROW_EXCLUSIVE || i == ROW_SHARED;
        bool absent = i == ROW_ABSENT || i == ROW_U64;
        const struct bgb_subject *bound =
            &t->subjects[writes ? WRITE_LIMIT : READ_LIMIT];
        bgb_row_begin();
        bgb_cells_subject(s->name, n,
                          i >= ROWS ? BGB_NONE : bgb_ours_bits_per_key(t->filter, n),
                          absent ? s->share : BGB_NONE);
        bgb_cells_times(s, bound->p5 / s->p5);
        bgb_cell_text("kind", "", 0, bg_kind_name((bg_kind)kind));
        bgb_row_end();
    }
}

static void single_run(const struct bgb_options *options, const struct bgb_keys *keys,
                       uint32_t kind, double rate)
{
    struct single_table *t = bgb_alloc(1, sizeof *t);
    single_prepare(t, keys, kind, rate);
    bgb_table("single", "%s, %llu keys, %g%%, one call per key",
              bg_kind_name((bg_kind)kind), (unsigned long long)keys->n, rate * 100);
    bgb_run(t->subjects, SUBJECTS, options->seconds);
    single_print(t, kind, keys->n);
    single_release(t);
    free(t);
}

void bgb_bench_single(const struct bgb_options *options)
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
                single_run(options, &keys, kinds[k], rate);
            }
        }
        bgb_keys_free(&keys);
    }
}

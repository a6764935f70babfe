/*
 * bench_scale.c - what happens when a filter outgrows one cache after another?
 *
 * Prints one row per size, for one kind (default: blocked). Each row shows the time of single
 * lookups and of batch lookups of absent keys, and the memory limit at that size (limit.h). The
 * ratio is the limit's time divided by the batch's time.
 */
#include "bench.h"
#include "keys.h"
#include "limit.h"
#include "ours.h"
#include "output.h"

#include <stdio.h>

enum { SINGLE, BATCH, LIMIT, SUBJECTS };

static void scale_print(const struct bgb_subject *subjects, const bg_filter *filter,
                        uint64_t n)
{
    const struct bgb_subject *batch = &subjects[BATCH];
    char name[BGB_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s lookup absent",
                   bg_kind_name(bg_filter_kind(filter)));
    bgb_row_begin();
    bgb_cell_text("subject", "subject", -28, name);
    bgb_cell_count("n", "n", 11, n);
    bgb_cell_count("bytes", "bytes", 11, bg_filter_size_bytes(filter));
    bgb_cell_real("bits_per_key", "bits/key", 8, 2, bgb_ours_bits_per_key(filter, n));
    bgb_cell_real("fpr", "fpr", 8, 5, batch->share);
    bgb_cell_real("ns_single", "single", 8, 2, subjects[SINGLE].p5);
    bgb_cell_real("ns_per_key", "batch", 8, 2, batch->p5);
    bgb_cell_real("ns_best", "", 0, 0, batch->best);
    bgb_cell_real("ns_median", "median", 8, 2, batch->median);
    bgb_cell_real("ns_limit", "limit", 8, 2, subjects[LIMIT].p5);
    bgb_cell_real("ratio", "ratio", 6, 2, subjects[LIMIT].p5 / batch->p5);
    bgb_cell_text("status", "status", -6,
                  batch->broken || subjects[SINGLE].broken ? "BROKEN" : "ok");
    bgb_row_end();
}

static void scale_run(const struct bgb_options *options, uint32_t kind, uint64_t n)
{
    struct bgb_keys keys;
    bgb_keys_make(&keys, n);
    bg_spec spec = bgb_spec(kind, n, options->rate > 0 ? options->rate : 0.01, 0);
    bg_filter *filter = bgb_filter_make(&spec, n);
    uint64_t bytes = bg_filter_size_bytes(filter);
    struct bgb_subject subjects[SUBJECTS] = { { .name = "single" },
                                              { .name = "batch" } };
    struct bgb_ours states[2];
    for (int i = SINGLE; i <= BATCH; i++) {
        struct bgb_ours_what what = { BGB_FORM_HASH, BGB_LOAD_ABSENT,
                                      i == SINGLE ? BGB_GRAIN_ONE : BGB_GRAIN_ALL };
        bgb_ours_prepare(&states[i], &subjects[i], &keys, what, filter, NULL);
    }
    struct bgb_region region;
    struct bgb_limit limit;
    bgb_region_make(&region, (size_t)bytes, false);
    bgb_limit_prepare(&limit, &subjects[LIMIT], &region, keys.absent_hash, keys.pool,
                      bgb_keys_chunk(&keys, bytes), BGB_LIMIT_READ);
    bgb_run(subjects, SUBJECTS, options->seconds);
    scale_print(subjects, filter, n);
    bgb_region_free(&region);
    bgb_ours_free(&states[0]);
    bgb_ours_free(&states[1]);
    bg_filter_free(filter);
    bgb_keys_free(&keys);
}

void bgb_bench_scale(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 100000,   300000,   1000000,  3000000,
                                         10000000, 30000000, 100000000 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count =
        bgb_options_sizes(options, defaults, sizeof defaults / sizeof *defaults, n);
    uint32_t kind = options->kind ? options->kind : (uint32_t)BG_KIND_BLOCKED;
    bgb_table("scale",
              "lookups of absent keys; ratio = ns of the limit / ns of the batch");
    for (size_t i = 0; i < count; i++) {
        scale_run(options, kind, n[i]);
    }
}

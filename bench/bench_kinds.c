/*
 * bench_kinds.c - how much memory and time does each Bloom kind need, and what is its
 * false-positive rate?
 *
 * For each kind, at 1% and at 0.1%, prints the bits per key, the rate predicted for exactly
 * this geometry, the measured rate with its 95% interval, and the lookup time for absent keys,
 * singly and in batches. Status "off" means that the prediction differs from the measured rate by
 * more than 5% and lies outside the 95% interval.
 */
#include "bench.h"
#include "keys.h"
#include "ours.h"
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 5, SINGLE = 0, BATCH = 1, TRIALS_MAX = 20000000 };

static const uint32_t kinds_all[KINDS] = { BG_KIND_BLOCKED, BG_KIND_SPLIT,
                                           BG_KIND_REGISTER, BG_KIND_CLASSIC,
                                           BG_KIND_PARTITIONED };

struct kinds_table {
    size_t count;
    bg_filter *filters[KINDS];
    struct bgb_subject subjects[2 * KINDS];
    struct bgb_ours states[2 * KINDS];
};

static void kinds_add(struct kinds_table *t, const struct bgb_keys *keys, uint32_t kind,
                      double rate)
{
    bg_spec spec = bgb_spec(kind, keys->n, rate, 0);
    size_t i = t->count++;
    t->filters[i] = bgb_filter_make(&spec, keys->n);
    for (int how = SINGLE; how <= BATCH; how++) {
        struct bgb_subject *subject = &t->subjects[2 * i + (size_t)how];
        struct bgb_ours_what what = { BGB_FORM_HASH, BGB_LOAD_ABSENT,
                                      how == SINGLE ? BGB_GRAIN_ONE : BGB_GRAIN_ALL };
        (void)snprintf(subject->name, sizeof subject->name, "%s, %s",
                       bg_kind_name((bg_kind)kind), how == SINGLE ? "single" : "batch");
        bgb_ours_prepare(&t->states[2 * i + (size_t)how], subject, keys, what,
                         t->filters[i], NULL);
    }
}

/* Checks that a lookup finds every added key in the pool. */
static bool kinds_has_all(const bg_filter *filter, const struct bgb_keys *keys)
{
    bool all =
        bg_filter_may_contain_many(filter, bg_keys_u64(keys->present, keys->pool), NULL)
        == keys->pool;
    if (!all) {
        bgb_broken_add(bg_kind_name(bg_filter_kind(filter)),
                       "a lookup missed a key that was added");
    }
    return all;
}

static void kinds_print(const struct kinds_table *t, size_t i,
                        const struct bgb_keys *keys, double rate)
{
    const bg_filter *filter = t->filters[i];
    const struct bgb_subject *single = &t->subjects[2 * i + SINGLE];
    const struct bgb_subject *batch = &t->subjects[2 * i + BATCH];
    bg_filter_info info = { .struct_size = sizeof info };
    if (bg_filter_get_info(filter, &info) != BG_OK) {
        bgb_die("cannot get filter info");
    }
    double wanted = 20000 / rate; /* enough false positives for a narrow interval */
    uint64_t trials = wanted < TRIALS_MAX ? (uint64_t)wanted : TRIALS_MAX;
    bg_estimate seen =
        bg_observed_rate(bgb_ours_false_positives(filter, trials), trials);
    double predicted = info.rate;
    bool off = fabs(predicted / seen.value - 1) > 0.05
               && (predicted < seen.low || predicted > seen.high);
    bool broken = single->broken || batch->broken || !kinds_has_all(filter, keys);
    bgb_row_begin();
    bgb_cell_text("subject", "kind", -12, bg_kind_name(info.kind));
    bgb_cell_count("n", "n", 10, keys->n);
    bgb_cell_real("wanted", "wanted %", 9, 3, rate * (bgb_out_is_json() ? 1 : 100));
    bgb_cell_real("bits_per_key", "bits/key", 8, 2,
                  bgb_ours_bits_per_key(filter, keys->n));
    bgb_cell_count("k", "k", 3, info.k);
    double percent = bgb_out_is_json() ? 1 : 100;
    bgb_cell_real("predicted", "predicted", 9, 4, predicted * percent);
    bgb_cell_real("fpr", "measured", 9, 4, seen.value * percent);
    bgb_cell_real("fpr_low", "low", 8, 4, seen.low * percent);
    bgb_cell_real("fpr_high", "high", 8, 4, seen.high * percent);
    bgb_cell_real("ns_single", "single", 8, 2, single->p5);
    bgb_cell_real("ns_per_key", "batch", 8, 2, batch->p5);
    bgb_cell_real("ns_median", "median", 8, 2, batch->median);
    bgb_cell_real("ratio", "s/b", 6, 2, single->p5 / batch->p5);
    bgb_cell_text("status", "status", -6, broken ? "BROKEN" : off ? "off" : "ok");
    bgb_row_end();
}

static void kinds_run(const struct bgb_options *options, const struct bgb_keys *keys,
                      double rate)
{
    struct kinds_table *t = bgb_alloc(1, sizeof *t);
    for (int i = 0; i < KINDS; i++) {
        if (bgb_options_wants(options, kinds_all[i])) {
            kinds_add(t, keys, kinds_all[i], rate);
        }
    }
    bgb_run(t->subjects, 2 * t->count, options->seconds);
    for (size_t i = 0; i < t->count; i++) {
        kinds_print(t, i, keys, rate);
    }
    for (size_t i = 0; i < t->count; i++) {
        bgb_ours_free(&t->states[2 * i]);
        bgb_ours_free(&t->states[2 * i + 1]);
        bg_filter_free(t->filters[i]);
    }
    free(t);
}

void bgb_bench_kinds(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 1000000 };
    static const double rates[] = { 0.01, 0.001 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 1, n);
    bgb_table("kinds",
              "rates in %%, ns per lookup of an absent key, ratio = single / batch");
    for (size_t i = 0; i < count; i++) {
        struct bgb_keys keys;
        bgb_keys_make(&keys, n[i]);
        for (int r = 0; r < 2; r++) {
            if (options->rate > 0 && r == 0) {
                kinds_run(options, &keys, options->rate);
            } else if (options->rate <= 0) {
                kinds_run(options, &keys, rates[r]);
            }
        }
        bgb_keys_free(&keys);
    }
}

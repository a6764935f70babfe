/*
 * prop_rate.c - tests that the measured rate matches the predicted rate for every kind, over a grid
 * of sizes and rates. The keys are random hashes, so this file tests only the layouts and the rate
 * model; prop_keys.c uses real keys and hash functions.
 *
 *   items   1e3 to 1e6, or to 1e7 in soak tests
 *   rate    1e-1 to 1e-4, or to 1e-5 in soak tests
 *
 * Measuring the lowest rate takes most of the time. Therefore, soak tests measure 1e-5 only with
 * 1e6 items, and other runs measure 1e-4 only with 1e4 and 1e6 items.
 *
 * Each cell uses enough probes for about 16,000 expected false positives (sigma 0.8%), or for 1000
 * x scale in soak tests if that is more. It also uses enough filters to average out the variance
 * between them: together, the filters contain at least 4e6 keys, or 4e6 x scale in soak tests.
 *
 * Windows and kinds that do more than set bits have fewer cells. Except in soak tests, more of
 * these cells are weak (see measure.h).
 */
#include "bloomgate/all.h"
#include "bloomgate/builder.h"
#include "bloomgate/window.h"
#include "prop/measure.h"
#include "support/adds.h"

#include <math.h>
#include <stdio.h>

enum { CHUNK = 4096 };

/* Adds or looks up `n` random hashes that have not been used before. Returns how many added hashes
 * were new, or how many lookups answered "maybe". */
static size_t rate_run(bg_filter *filter, uint64_t *state, uint64_t n, bool add)
{
    uint64_t hashes[CHUNK];
    size_t count = 0;
    while (n) {
        size_t here = n < CHUNK ? (size_t)n : CHUNK;
        for (size_t i = 0; i < here; i++) {
            hashes[i] = check_random_next(state);
        }
        count += add ? added_many(filter, bg_keys_hashes(hashes, here), NULL)
                     : bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, here),
                                                  NULL);
        n -= here;
    }
    return count;
}

/* Chooses the number of filters, and the number of probes for each filter. */
static void rate_effort(uint64_t items, double rate, double *filters, double *probes)
{
    double keys = 4e6 * (measure_soaks() ? (double)check_scale() : 1);
    double hits = measure_soaks() ? fmax(16000, 1000 * (double)check_scale()) : 16000;
    if (MEASURE_SANITIZED) {
        keys /= 8;
        hits /= 16;
    }
    *filters = fmax(measure_soaks() ? 8 : 4, ceil(keys / (double)items));
    *probes = fmax(256, ceil(hits / rate / *filters));
}

/* Measures one cell. Its filters are designed for `items` keys at `rate`, and contain `load` x
 * `items` keys. */
static void rate_cell(bg_kind kind, uint64_t items, double rate, double load,
                      uint64_t *state, struct measure_summary *summary)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = items;
    spec.rate = rate;
    spec.flags = BG_SPEC_EXCLUSIVE;
    bg_filter *filter;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(filter, &info));
    CHECK(info.design_rate == rate);

    double filters, probes;
    struct measure cell = { 0 };
    uint64_t keys = (uint64_t)((double)items * load);
    double predicted = bg_predict_rate(kind, info.bytes, info.k, keys);
    if (load != 1 && predicted < (measure_soaks() ? 2e-5 : 2e-4)) { /* takes too long */
        bg_filter_free(filter);
        return;
    }
    rate_effort(keys, predicted, &filters, &probes);
    for (; filters > 0; filters--) {
        bg_filter_clear(filter);
        (void)rate_run(filter, state, keys, true);
        measure_add(&cell, rate_run(filter, state, (uint64_t)probes, false),
                    (size_t)probes);
    }
    char name[96];
    (void)snprintf(name, sizeof name, "%-11s %.0e x %-4g rate %.0e, k %2u, %4.1f b/key",
                   bg_kind_name(kind), (double)items, load, rate, info.k,
                   (double)info.bits / (double)items);
    measure_enter(summary, name, &cell, predicted);
    bg_filter_free(filter);
}

/* ---- Other kinds ------------------------------------------------------------------ */

/* Builds a static filter from `n` random hashes. */
static bg_filter *rate_build(const bg_spec *spec, uint64_t *state, uint64_t n)
{
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    CHECK_OK(bg_builder_create(spec, &builder, NULL));
    for (uint64_t i = 0; i < n; i++) {
        CHECK_OK(bg_builder_add_hash(builder, check_random_next(state)));
    }
    CHECK_OK(bg_builder_finish(builder, &filter, NULL));
    bg_builder_free(builder);
    return filter;
}

/* Measures one cell for a kind that is neither a Bloom kind nor a window. Some of these kinds have
 * much lower rates than requested. Except in soak tests, rates below 0.1% are measured with a tenth
 * of the probes. */
static void rate_other_cell(bg_kind kind, uint64_t items, double rate, uint64_t *state,
                            struct measure_summary *summary)
{
    bool is_static = bg_kind_traits(kind) & BG_TRAIT_STATIC;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    double filters, probes;
    struct measure cell = { 0 };
    ask.spec.kind = kind;
    ask.spec.items = items;
    ask.spec.rate = rate;
    ask.spec.flags = BG_SPEC_EXCLUSIVE;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK(plan.rate <= rate);
    if (plan.rate < (measure_soaks() ? 1e-5 : 1e-4)) {
        return; /* takes too long */
    }
    rate_effort(items, plan.rate, &filters, &probes);
    if (!measure_soaks() && plan.rate < 1e-3) {
        probes = fmax(256, probes / 10);
    }
    filters = measure_soaks() ? filters : fmin(filters, 100);
    for (; filters > 0; filters--) {
        bg_filter *filter = NULL;
        if (is_static) {
            filter = rate_build(&ask.spec, state, items);
        } else {
            CHECK_OK(bg_filter_create(&ask.spec, &filter, NULL));
            (void)rate_run(filter, state, items, true);
        }
        measure_add(&cell, rate_run(filter, state, (uint64_t)probes, false),
                    (size_t)probes);
        bg_filter_free(filter);
    }
    char name[96];
    (void)snprintf(name, sizeof name, "%-11s %.0e rate %.0e, k %2u, %4.1f b/key",
                   bg_kind_name(kind), (double)items, rate, plan.k, plan.bits_per_key);
    measure_enter(summary, name, &cell, plan.rate);
}

static void rate_other_grid(bg_kind kind)
{
    const uint64_t most = measure_soaks() ? 10000000 : 100000;
    struct measure_summary summary = { 0 };
    uint64_t state = check_random();
    for (uint64_t items = 1000; items <= most; items *= 10) {
        for (double rate = 0.1; rate > 0.9e-5; rate /= 10) {
            if (rate > 2e-5 || items == 1000000) {
                rate_other_cell(kind, items, rate, &state, &summary);
            }
        }
    }
    measure_close(&summary, bg_kind_name(kind));
    CHECK_EQ(summary.bad, 0);
}

/* ---- Windows ---------------------------------------------------------------------- */

/* The planned rate applies to a window that has been in use for a while: all of its periods are
 * full, and keys from older periods have expired. */
struct rate_window {
    bg_window_options options;
    uint64_t items; /* number of keys in generations - 1 periods */
    double rate;
};

/* Returns the number of periods after which all current keys have expired. */
static uint32_t rate_window_periods(const struct rate_window *window)
{
    const uint32_t fading = window->options.mode == BG_WINDOW_AGED ? 10 : 0;
    return window->options.generations + fading;
}

static void rate_window_run(bg_filter *filter, const struct rate_window *window,
                            uint64_t *state)
{
    uint64_t period = window->items / (window->options.generations - 1);
    for (uint32_t p = 0; p < rate_window_periods(window); p++) {
        CHECK_OK(bg_filter_rotate(filter, 0, NULL));
        (void)rate_run(filter, state, period, true);
    }
}

static void rate_window_cell(const struct rate_window *window, uint64_t *state,
                             struct measure_summary *summary)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_filter *filter = NULL;
    double filters, probes;
    struct measure cell = { 0 };
    ask.spec.kind = BG_KIND_WINDOW;
    ask.spec.items = window->items;
    ask.spec.rate = window->rate;
    ask.spec.flags = BG_SPEC_EXCLUSIVE;
    ask.spec.window = &window->options;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK(plan.rate <= window->rate * 1.0001);
    CHECK_OK(bg_filter_create(&ask.spec, &filter, NULL));
    uint64_t keys =
        window->items * rate_window_periods(window) / (window->options.generations - 1);
    rate_effort(keys * (measure_soaks() ? 8 : 1), plan.rate, &filters, &probes);
    filters = measure_soaks() ? filters : fmin(filters, 50);
    probes = measure_soaks() || plan.rate > 5e-3 ? probes : fmax(256, probes / 4);
    for (; filters > 0; filters--) {
        rate_window_run(filter, window, state);
        measure_add(&cell, rate_run(filter, state, (uint64_t)probes, false),
                    (size_t)probes);
    }
    char name[96];
    (void)snprintf(name, sizeof name, "window, %s, %2u of %s %.0e rate %.0e",
                   window->options.mode == BG_WINDOW_AGED ? "aged" : "generations",
                   window->options.generations,
                   bg_kind_name((bg_kind)window->options.kind), (double)window->items,
                   window->rate);
    measure_enter(summary, name, &cell, plan.rate);
    bg_filter_free(filter);
}

/* Tests all sizes and rates for one mode and one number of generations. */
static void rate_window_grid(bg_window_mode mode, uint32_t generations, uint32_t kind,
                             struct measure_summary *summary)
{
    const uint64_t least = measure_soaks() ? 1000 : 10000;
    const uint64_t most = measure_soaks() ? 1000000 : 100000;
    const double lowest = measure_soaks() ? 0.9e-4 : 0.9e-3;
    uint64_t state = check_random();
    struct rate_window window = { .options = BG_WINDOW_OPTIONS_INIT };
    window.options.mode = mode;
    window.options.generations = generations;
    window.options.kind = kind;
    for (uint64_t items = least; items <= most; items *= 10) {
        window.items = items / (generations - 1) * (generations - 1);
        for (double rate = 0.1; rate > lowest; rate /= 10) {
            bool too_long = rate < 2e-4 && items != 100000;
            /* An aged window with few keys per period has only a handful of blocks. At a rate of
             * 10% and with 40 generations, the model's rate is then up to 5% too high, so such
             * windows are skipped. */
            bool tiny = items / (generations - 1) < 50;
            if (!too_long && !tiny) {
                window.rate = rate;
                rate_window_cell(&window, &state, summary);
            }
        }
    }
}

TEST(rate__window_generations)
{
    struct measure_summary summary = { 0 };
    rate_window_grid(BG_WINDOW_GENERATIONS, 2, BG_KIND_BLOCKED, &summary);
    rate_window_grid(BG_WINDOW_GENERATIONS, 8, BG_KIND_CLASSIC, &summary);
    rate_window_grid(BG_WINDOW_GENERATIONS, 24, BG_KIND_BLOCKED, &summary);
    rate_window_grid(BG_WINDOW_GENERATIONS, 5, BG_KIND_PARTITIONED, &summary);
    rate_window_grid(BG_WINDOW_GENERATIONS, 4, BG_KIND_SPLIT, &summary);
    rate_window_grid(BG_WINDOW_GENERATIONS, 3, BG_KIND_REGISTER, &summary);
    measure_close(&summary, "window, generations");
    CHECK_EQ(summary.bad, 0);
}

TEST(rate__window_aged)
{
    const uint32_t generations[] = { 2, 5, 8, 13, 24, 40 };
    struct measure_summary summary = { 0 };
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        rate_window_grid(BG_WINDOW_AGED, generations[i], 0, &summary);
    }
    measure_close(&summary, "window, aged");
    CHECK_EQ(summary.bad, 0);
}

/* ---- Bloom kinds ------------------------------------------------------------------- */

static void rate_grid(bg_kind kind)
{
    const uint64_t most = measure_soaks() ? 10000000 : 1000000;
    const double least = measure_soaks() ? 0.9e-5 : 0.9e-4;
    struct measure_summary summary = { 0 };
    uint64_t state = check_random();
    for (uint64_t items = 1000; items <= most; items *= 10) {
        for (double rate = 0.1; rate > least; rate /= 10) {
            bool dear = measure_soaks()
                            ? rate < 2e-5 && items != 1000000
                            : rate < 2e-4 && (items == 1000 || items == 100000);
            if (!dear) {
                rate_cell(kind, items, rate, 1, &state, &summary);
            }
        }
    }
    measure_close(&summary, bg_kind_name(kind));
    CHECK_EQ(summary.bad, 0);
}

/* Tests filters that are filled with fewer or more keys than they were designed for. */
static void rate_loads(bg_kind kind)
{
    const double loads[] = { 0.25, 0.5, 0.75, 2, 4 };
    struct measure_summary summary = { 0 };
    uint64_t state = check_random();
    for (double rate = 0.1; rate > 0.9e-3; rate /= 10) {
        for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
            rate_cell(kind, 100000, rate, loads[i], &state, &summary);
        }
    }
    char what[64];
    (void)snprintf(what, sizeof what, "%s at different loads", bg_kind_name(kind));
    measure_close(&summary, what);
    CHECK_EQ(summary.bad, 0);
}

#define LOAD_TEST(NAME, number, name)                                                  \
    TEST(load__##name)                                                                 \
    {                                                                                  \
        rate_loads(BG_KIND_##NAME);                                                    \
    }
BG_BLOOM_KINDS(LOAD_TEST)

#define RATE_TEST(NAME, number, name)                                                  \
    TEST(rate__##name)                                                                 \
    {                                                                                  \
        rate_grid(BG_KIND_##NAME);                                                     \
    }
BG_BLOOM_KINDS(RATE_TEST)

#define OTHER_RATE_TEST(NAME, name)                                                    \
    TEST(rate__##name)                                                                 \
    {                                                                                  \
        rate_other_grid(BG_KIND_##NAME);                                               \
    }
OTHER_RATE_TEST(COUNTING, counting)
OTHER_RATE_TEST(CUCKOO, cuckoo)
OTHER_RATE_TEST(QUOTIENT, quotient)
OTHER_RATE_TEST(FUSE, fuse)
OTHER_RATE_TEST(RIBBON, ribbon)
OTHER_RATE_TEST(SCALABLE, scalable)

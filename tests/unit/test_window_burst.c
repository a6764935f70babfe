/*
 * Tests windows whose keys do not arrive evenly: all keys arrive within one period, or all keys
 * arrive in every period. The false-positive rate holds, no key expires early, and no unnecessary
 * memory is allocated.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/forge.h"

#include <math.h>
#include <stdlib.h>

enum { ITEMS = CHECK_EMULATED ? 2000 : 20000, PROBES = CHECK_EMULATED ? 4000 : 50000 };

static const uint64_t absent = (uint64_t)1 << 40;

static bg_filter *make(uint32_t generations, uint32_t kind, double rate,
                       uint64_t max_bytes, bg_plan *plan)
{
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    options.generations = generations;
    options.kind = kind;
    ask.spec.kind = BG_KIND_WINDOW;
    ask.spec.items = ITEMS;
    ask.spec.rate = rate;
    ask.spec.max_bytes = max_bytes;
    ask.spec.window = &options;
    CHECK_OK(bg_plan_compute(&ask, plan, NULL));
    return must_create(&ask.spec);
}

static void rotate(bg_filter *filter)
{
    CHECK_OK(bg_filter_rotate(filter, 0, NULL));
}

static double measured(const bg_filter *filter)
{
    return (double)ask_range(filter, absent, PROBES) / PROBES;
}

/* Returns an upper bound for the measured rate if the true rate is `rate`. The bound is exceeded in
 * about one of 30,000 runs. */
static double at_most(double rate)
{
    return rate + 4 * sqrt(rate / PROBES);
}

static void add_singly(bg_filter *filter, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++) {
        (void)added_u64(filter, i);
    }
}

/* ---- Rates ----------------------------------------------------------------------------- */

/* All keys of a window are added within one of its periods. */
TEST(window_burst__all_keys_in_one_period_keep_the_rate)
{
    static const uint32_t generations[] = { 2, 3, 8, 24, 64 };
    static const uint32_t kinds[] = { 0, BG_KIND_CLASSIC, BG_KIND_SPLIT, 0, 0 };
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        for (double rate = 0.05; rate > 1e-4; rate /= 10) {
            bg_plan plan;
            bg_filter *filter = make(generations[i], kinds[i], rate, 0, &plan);
            rotate(filter);
            if (i % 2) {
                add_singly(filter, 0, ITEMS);
            } else {
                (void)add_range(filter, 0, ITEMS);
            }
            CHECK(measured(filter) <= at_most(rate));
            CHECK(info_of(filter).rate <= rate);
            CHECK_NEAR(info_of(filter).items.value, ITEMS, 0.03);
            for (uint32_t p = 0; p < generations[i]; p++) {
                const size_t some = p == 0 || p == generations[i] - 1 ? ITEMS : 1000;
                CHECK_EQ(ask_range(filter, 0, some), some);
                rotate(filter);
            }
            CHECK((double)ask_range(filter, 0, ITEMS) <= 10 + 2 * rate * ITEMS);
            bg_filter_free(filter);
        }
    }
}

/* Blocked filters cannot reach the rates of such windows and their layers. By default, classic
 * filters are used. */
TEST(window_burst__very_low_rates_are_kept)
{
    static const uint32_t generations[] = { 2, 8, 64 };
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        for (double rate = 1e-6; rate > 1e-12; rate /= 10) {
            bg_plan plan;
            bg_filter *filter = make(generations[i], 0, rate, 0, &plan);
            (void)add_range(filter, 0, ITEMS);
            const bg_filter_info info = info_of(filter);
            CHECK(info.rate <= rate);
            CHECK_EQ(bg_filter_health(&info), BG_HEALTH_FINE);
            CHECK_EQ(ask_range(filter, 0, ITEMS), ITEMS);
            bg_filter_free(filter);
        }
    }
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *none = NULL;
    options.kind = BG_KIND_BLOCKED;
    spec.kind = BG_KIND_WINDOW;
    spec.items = ITEMS;
    spec.rate = 1e-8;
    spec.window = &options;
    CHECK_EQ(bg_filter_create(&spec, &none, NULL), BG_ENOTSUP);
}

static bg_filter *make_aged(uint32_t generations, uint32_t k, uint64_t items)
{
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    options.generations = generations;
    options.mode = BG_WINDOW_AGED;
    spec.kind = BG_KIND_WINDOW;
    spec.items = items;
    spec.rate = 0.02;
    spec.k = k;
    spec.window = &options;
    return must_create(&spec);
}

/* Checks the reported rate and number of keys against the measured rate and `items`. */
static void check_aged(const bg_filter *filter, uint64_t items)
{
    const bg_filter_info info = info_of(filter);
    const double rate = measured(filter);
    CHECK(fabs(rate - info.rate) <= 0.05 * rate + 4 * sqrt(info.rate / PROBES));
    if (info.items.high < 1.1 * info.items.value) { /* no slice is full */
        CHECK_NEAR(info.items.value, (double)items, CHECK_EMULATED ? 0.15 : 0.05);
    }
    CHECK(info.items.low < info.items.value && info.items.value < info.items.high);
    CHECK(rate < 2.2 * info.design_rate || bg_filter_health(&info) == BG_HEALTH_ACT);
    CHECK(rate > 1.1 * info.design_rate || bg_filter_health(&info) == BG_HEALTH_FINE);
}

/* All keys of an aged window arrive in one period, `age` periods ago, after many periods with
 * evenly distributed keys or in a new window. */
static void aged_burst(uint32_t generations, uint32_t k, uint32_t age, uint64_t items)
{
    for (uint32_t before = 0; before <= 2 * generations; before += 2 * generations) {
        bg_filter *filter = make_aged(generations, k, ITEMS);
        const uint64_t even = ITEMS / (generations - 1);
        for (uint32_t p = 0; p < before; p++) {
            add_singly(filter, 2 * absent + p * even, even);
            rotate(filter);
        }
        add_singly(filter, 0, items);
        for (uint32_t p = 0; p < age; p++) {
            rotate(filter);
        }
        const uint64_t others = before ? (generations - 1 - age) * even : 0;
        check_aged(filter, items + others);
        bg_filter_free(filter);
    }
}

/* An aged window cannot grow. It reports its rate, however the keys are distributed. */
TEST(window_burst__aged_windows_report_their_rate)
{
    static const uint32_t generations[] = { 2, 3, 8, 24, 50 }, ks[] = { 0, 2, 10 };
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
            const uint32_t g = generations[i];
            aged_burst(g, ks[j], 0, ITEMS);
            aged_burst(g, ks[j], 0, 4 * ITEMS);
            aged_burst(g, ks[j], 1, 4 * ITEMS);
            aged_burst(g, ks[j], g - 1, ITEMS);
        }
    }
}

/* Evenly distributed keys, while the window is young and later. */
TEST(window_burst__aged_windows_of_any_age_report_their_rate)
{
    static const uint32_t generations[] = { 2, 3, 8, 24 };
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const uint32_t g = generations[i];
        const uint64_t even = ITEMS / (g - 1);
        bg_filter *filter = make_aged(g, 0, ITEMS);
        for (uint32_t p = 1; p < 2 * g + 10; p++) {
            add_singly(filter, p * even, even);
            check_aged(filter, even * (p < g ? p : g));
            rotate(filter);
        }
        bg_filter_free(filter);
    }
}

/* The rate of a small aged window varies by chance, which is no reason for an alarm. */
TEST(window_burst__small_aged_windows_are_fine)
{
    unsigned watch = 0;
    for (uint64_t run = 0; run < 50; run++) {
        bg_filter *filter = make_aged(16, 0, 15);
        for (uint64_t p = 0; p < 40; p++) {
            rotate(filter);
            add_singly(filter, run << 32 | p, 1);
        }
        const bg_filter_info info = info_of(filter);
        CHECK(bg_filter_health(&info) != BG_HEALTH_ACT);
        watch += bg_filter_health(&info) == BG_HEALTH_WATCH;
        bg_filter_free(filter);
    }
    CHECK(watch <= 1);
}

/* All keys of a window are added in each of its periods, so every add renews a key. */
TEST(window_burst__keys_that_are_renewed_keep_the_rate)
{
    const uint32_t g = 8;
    bg_plan plan;
    bg_filter *filter = make(g, 0, 0.01, 0, &plan);
    for (uint32_t p = 0; p < 3 * g; p++) {
        CHECK(add_range(filter, 0, ITEMS) == 0 || p == 0);
        CHECK_EQ(ask_range(filter, 0, ITEMS), ITEMS);
        rotate(filter);
    }
    CHECK(measured(filter) <= at_most(0.01));
    bg_filter_free(filter);
}

/* With more keys than planned, the measured rate matches the rate that the plan predicts. */
TEST(window_burst__plans_of_more_keys_are_true)
{
    const uint32_t g = 8;
    bg_plan plan;
    bg_filter *filter = make(g, 0, 0.05, 0, &plan);
    for (uint64_t p = 0; p < g; p++) {
        rotate(filter);
        (void)add_range(filter, p << 24, 2 * (ITEMS / (g - 1) + 1));
    }
    const double error = 5 * sqrt(plan.rate_2x / PROBES);
    CHECK(fabs(measured(filter) - plan.rate_2x) <= 0.05 * plan.rate_2x + error);
    bg_filter_free(filter);
}

/* ---- Memory ---------------------------------------------------------------------------- */

TEST(window_burst__keys_that_come_evenly_take_what_was_planned)
{
    const uint32_t g = 8;
    bg_plan plan;
    bg_filter *filter = make(g, 0, 0.01, 0, &plan);
    CHECK_EQ(bg_filter_size_bytes(filter), plan.bytes);
    for (uint64_t p = 0; p < 2 * g; p++) {
        (void)add_range(filter, p << 24, ITEMS / (g - 1));
        rotate(filter);
    }
    CHECK_EQ(bg_filter_size_bytes(filter), plan.bytes);
    const uint64_t once = ITEMS;
    (void)add_range(filter, absent, once);
    const uint64_t grown = bg_filter_size_bytes(filter);
    CHECK(grown > plan.bytes && grown < 4 * plan.bytes);
    for (uint64_t p = 0; p <= g;
         p++) { /* rotates until the memory of this period and its layers is reused */
        rotate(filter);
    }
    (void)add_range(filter, 2 * absent, once);
    CHECK_EQ(bg_filter_size_bytes(filter), grown);
    bg_filter_free(filter);
}

TEST(window_burst__without_room_nothing_is_lost)
{
    bg_plan plan;
    bg_filter *filter = make(8, 0, 0.01, 0, &plan);
    bg_filter_free(filter);
    filter = make(8, 0, 0.01, plan.bytes, &plan);
    (void)add_range(filter, 0, ITEMS);
    CHECK_EQ(bg_filter_size_bytes(filter), plan.bytes);
    CHECK_EQ(ask_range(filter, 0, ITEMS), ITEMS);
    CHECK(info_of(filter).rate > 0.01); /* the filter reports the higher rate */
    bg_filter_free(filter);
}

/* ---- Files, copies, merges ------------------------------------------------------------- */

static unsigned char *save(const bg_filter *filter, size_t *n)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.created = 1;
    CHECK_OK(bg_encode(filter, &how, NULL, 0, n, NULL));
    unsigned char *bytes = malloc(*n);
    CHECK(bytes != NULL);
    CHECK_OK(bg_encode(filter, &how, bytes, *n, n, NULL));
    return bytes;
}

static void check_same(const bg_filter *a, const bg_filter *b)
{
    size_t n, m;
    unsigned char *one = save(a, &n), *other = save(b, &m);
    CHECK(n == m && memcmp(one, other, n) == 0);
    CHECK(bg_filter_equal(a, b));
    free(one);
    free(other);
}

/* A window with layers is restored from its file, and behaves like the window in memory. */
TEST(window_burst__files_and_copies_have_the_layers)
{
    bg_plan plan;
    bg_filter *filter = make(8, 0, 0.01, 0, &plan), *back = NULL, *copy = NULL;
    for (uint64_t p = 0; p < 20; p++) {
        (void)add_range(filter, p << 24, p % 3 ? ITEMS / 100 : ITEMS / 2);
        size_t n;
        unsigned char *bytes = save(filter, &n);
        CHECK_OK(bg_decode(bytes, n, NULL, &back, NULL));
        CHECK_OK(bg_filter_copy(filter, &copy, NULL));
        check_same(filter, back);
        check_same(filter, copy);
        (void)add_range(filter, absent + p, ITEMS / 5);
        (void)add_range(back, absent + p, ITEMS / 5);
        (void)add_range(copy, absent + p, ITEMS / 5);
        rotate(filter);
        rotate(back);
        rotate(copy);
        check_same(filter, back);
        check_same(filter, copy);
        bg_filter_free(filter);
        bg_filter_free(copy);
        filter = back;
        free(bytes);
    }
    bg_filter_free(filter);
}

TEST(window_burst__merged_windows_have_the_layers_of_both)
{
    bg_plan plan;
    bg_filter *a = make(8, 0, 0.01, 0, &plan), *b = make(8, 0, 0.01, 0, &plan);
    (void)add_range(a, 0, ITEMS / 2);
    rotate(a);
    rotate(b);
    (void)add_range(b, absent, ITEMS / 2);
    CHECK_OK(bg_filter_merge(a, b, NULL));
    CHECK_OK(bg_filter_merge(a, a, NULL));
    CHECK_EQ(ask_range(a, 0, ITEMS / 2), ITEMS / 2);
    CHECK_EQ(ask_range(a, absent, ITEMS / 2), ITEMS / 2);
    CHECK(!bg_filter_equal(a, b));
    bg_filter_clear(a);
    bg_filter_clear(b);
    CHECK(bg_filter_equal(a, b));
    CHECK_EQ(ask_range(a, 0, ITEMS / 2), 0);
    bg_filter_free(a);
    bg_filter_free(b);
}

/* A merge that would need more memory than the limit allows is refused. */
TEST(window_burst__a_merge_obeys_the_limit)
{
    bg_plan plan;
    bg_filter *from = make(8, 0, 0.01, 0, &plan),
              *to = make(8, 0, 0.01, plan.bytes, &plan);
    (void)add_range(from, 0, ITEMS / 2);
    (void)add_range(to, absent, ITEMS / 16);
    CHECK(bg_filter_size_bytes(from) > plan.bytes);
    CHECK_EQ(bg_filter_merge(to, from, NULL), BG_ENOMEM);
    CHECK_EQ(bg_filter_size_bytes(to), plan.bytes);
    CHECK_EQ(ask_range(to, absent, ITEMS / 16), ITEMS / 16);
    bg_filter_free(from);
    bg_filter_free(to);
}

TEST(window_burst__layers_that_cannot_be_are_refused)
{
    enum { NUMBERS = CONTAINER_HEADER };
    static const struct {
        /* Index of the changed value. Index 0 is the count of the root's numbers. The numbers
         * follow: period, cleared, added, filled, ... */
        unsigned number;
        uint64_t value;
    } lies[] = { { 0, 4 },          { 0, 8 }, { 5, 1 << 20 },
                 { 5, UINT64_MAX }, { 6, 0 }, { 6, 7 },
                 { 6, UINT64_MAX }, { 7, 0 }, { 7, UINT64_MAX } };
    bg_plan plan;
    bg_filter *filter = make(8, 0, 0.01, 0, &plan), *back = NULL;
    (void)add_range(filter, 0, ITEMS);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t n;
        unsigned char *bytes = save(filter, &n);
        CHECK_OK(bg_decode(bytes, n, NULL, &back, NULL));
        bg_filter_free(back);
        forge(bytes, NUMBERS + 8 * lies[i].number, 8, lies[i].value);
        if (bg_decode(bytes, n, NULL, &back, NULL) != BG_EFORMAT) {
            check_fail(__FILE__, __LINE__, "lie %zu", i);
        }
        free(bytes);
    }
    bg_filter_free(filter);
}

/* A file that claims too many keys for its size does not make the window allocate memory for
 * that many keys. */
TEST(window_burst__claimed_keys_take_no_memory)
{
    enum { PERIOD_ITEMS_AT = 88, FILLED_AT = CONTAINER_HEADER + 24 };
    const uint64_t claimed = (uint64_t)1 << 28;
    bg_plan plan;
    bg_filter *filter = make(8, 0, 0.01, 0, &plan), *back = NULL;
    size_t n;
    unsigned char *bytes = save(filter, &n);
    forge(bytes, PERIOD_ITEMS_AT, 8, claimed);
    forge(bytes, FILLED_AT, 8, claimed);
    CHECK_OK(bg_decode(bytes, n, NULL, &back, NULL));
    (void)add_range(back, 0, 10);
    CHECK_EQ(ask_range(back, 0, 10), 10);
    CHECK(bg_filter_size_bytes(back) < 100 * n);
    bg_filter_free(back);
    bg_filter_free(filter);
    free(bytes);
}

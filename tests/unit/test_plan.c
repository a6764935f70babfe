/* Tests plans: values derived from a geometry, costs, latency objectives, and invalid requests. */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

static bg_plan_request request_of(uint64_t items, double rate)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    ask.spec.items = items;
    ask.spec.rate = rate;
    return ask;
}

static bg_plan plan_of(const bg_plan_request *ask)
{
    bg_plan plan = { 0 };
    bg_errinfo why;
    if (bg_plan_compute(ask, &plan, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "plan: %s", why.message);
    }
    return plan;
}

/* ---- Derived figures ------------------------------------------------------------- */

TEST(plan__figures_agree_with_each_other)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_plan_request ask = request_of(123456, 0.01);
        ask.spec.kind = (uint32_t)kind_at(i);
        bg_plan p = plan_of(&ask);
        CHECK_EQ(p.kind, kind_at(i));
        CHECK_EQ(p.items, 123456);
        CHECK_EQ(p.bytes, p.units * kind_unit_bytes(p.kind, p.k));
        CHECK_NEAR(p.bits_per_key, 8 * (double)p.bytes / 123456, 1e-12);
        CHECK_NEAR(p.rate, bg_predict_rate(p.kind, p.bytes, p.k, 123456), 1e-12);
        CHECK_NEAR(p.rate_2x, bg_predict_rate(p.kind, p.bytes, p.k, 2 * 123456), 1e-12);
        CHECK_NEAR(p.rate_10x, bg_predict_rate(p.kind, p.bytes, p.k, 1234560), 1e-12);
        CHECK(p.rate < p.rate_2x && p.rate_2x < p.rate_10x && p.rate_10x <= 1);
        CHECK(p.fill > 0.2 && p.fill < 0.6);
        bool scattered = p.kind == BG_KIND_CLASSIC || p.kind == BG_KIND_PARTITIONED;
        CHECK_EQ(p.lines_per_lookup, scattered ? p.k : 1);
        CHECK(p.keyed_hash_ns == 0 && p.calls_avoided == 0 && p.calls_wasted == 0);
        CHECK(p.cost == 0);
        CHECK(p.reason[0] != 0);
    }
}

/* The predicted fill matches the actual fill. */
TEST(plan__fill_is_what_comes)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_plan_request ask = request_of(20000, 0.01);
        ask.spec.kind = (uint32_t)kind_at(i);
        bg_plan p = plan_of(&ask);
        bg_filter *filter = must_create(&ask.spec);
        for (int n = 0; n < 20000; n++) {
            added_hash(filter, check_random());
        }
        CHECK_NEAR(bg_filter_fill(filter), p.fill, 0.02);
        bg_filter_free(filter);
    }
}

TEST(plan__cache_level_is_the_smallest_that_holds_it)
{
    const bool narrow = sizeof(size_t) < 8;
    uint32_t last = 1;
    for (uint64_t items = 100; items < UINT64_C(1) << (narrow ? 29 : 36); items *= 4) {
        bg_plan_request ask = request_of(items, 0.01);
        bg_plan p = plan_of(&ask);
        uint32_t expected = 4;
        for (int level = 3; level >= 1; level--) {
            expected =
                p.bytes <= bg_cpu_cache_bytes(level) ? (uint32_t)level : expected;
        }
        CHECK_EQ(p.cache_level, expected);
        CHECK(p.cache_level >= last || bg_cpu_cache_bytes(1) == 0);
        last = p.cache_level;
    }
    CHECK(last == 4 || narrow);
}

TEST(plan__growth_multiplies_the_items)
{
    bg_plan_request ask = request_of(100000, 0.01), more = request_of(250000, 0.01);
    ask.growth = 2.5;
    bg_plan grown = plan_of(&ask), direct = plan_of(&more);
    CHECK_EQ(grown.items, 250000);
    CHECK_EQ(grown.bytes, direct.bytes);
    CHECK_EQ(grown.k, direct.k);
    ask.growth = 1;
    CHECK_EQ(plan_of(&ask).items, 100000);
    ask.growth = 0; /* same as 1 */
    CHECK_EQ(plan_of(&ask).items, 100000);
    /* A double cannot represent this number exactly. */
    ask.spec.items = (UINT64_C(1) << 55) + 1;
    ask.spec.max_bytes = 0;
    bg_plan p;
    if (bg_plan_compute(&ask, &p, NULL) == BG_OK) {
        CHECK_EQ(p.items, ask.spec.items);
    }
}

TEST(plan__calls_avoided_and_wasted)
{
    bg_plan_request ask = request_of(100000, 0.01);
    ask.queries_per_second = 5000;
    /* If absent_share is not set, all keys are assumed to be absent. */
    bg_plan p = plan_of(&ask);
    CHECK_NEAR(p.calls_wasted, 5000 * p.rate, 1e-12);
    CHECK_NEAR(p.calls_avoided + p.calls_wasted, 5000, 1e-12);
    ask.absent_share = 0.25;
    p = plan_of(&ask);
    CHECK_NEAR(p.calls_wasted, 1250 * p.rate, 1e-12);
    CHECK_NEAR(p.calls_avoided + p.calls_wasted, 1250, 1e-12);
    ask.call_cost = 3;
    ask.memory_cost = 7;
    p = plan_of(&ask);
    CHECK_NEAR(p.cost, 7 * (double)p.bytes / 1073741824.0 + 3 * p.calls_wasted, 1e-12);
}

/* ---- From plan to filter --------------------------------------------------------- */

/* Creates the filter that a plan describes. */
static inline bg_err create_planned(const bg_plan *plan, const bg_plan_request *request,
                                    bg_filter **filter)
{
    bg_spec spec;
    bg_plan_to_spec(plan, request, &spec);
    return bg_filter_create(&spec, filter, NULL);
}

static void check_same_geometry(const bg_plan_request *ask)
{
    bg_plan p = plan_of(ask);
    bg_spec spec;
    bg_filter *filter = NULL, *direct = NULL;
    bg_plan_to_spec(&p, ask, &spec);
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    bg_filter_info info = info_of(filter);
    CHECK_EQ(info.kind, p.kind);
    CHECK_EQ(info.k, p.k);
    CHECK_EQ(info.units, p.units);
    CHECK_EQ(info.bytes, p.bytes);
    CHECK_EQ(info.design_items, p.items);
    CHECK(info.design_rate == (p.target > 0 ? p.target : p.rate));
    CHECK_EQ(info.flags, ask->spec.flags);
    CHECK_OK(create_planned(&p, ask, &direct));
    CHECK(bg_filter_compatible(filter, direct));
    CHECK_EQ(info_of(direct).flags, ask->spec.flags);
    bg_filter_free(filter);
    bg_filter_free(direct);
}

TEST(plan__spec_and_filter_have_its_geometry)
{
    for (int i = 0; i <= KIND_COUNT; i++) {
        bg_plan_request ask = request_of(12345, 0.013);
        ask.spec.kind = i < KIND_COUNT ? (uint32_t)kind_at(i) : BG_KIND_AUTO;
        check_same_geometry(&ask);
        ask.growth = 1.7;
        ask.spec.folds = 3;
        ask.spec.flags = BG_SPEC_EXCLUSIVE | BG_SPEC_SMALL_PAGES;
        ask.spec.max_bytes = 1 << 20;
        ask.spec.hash.seed = 99;
        check_same_geometry(&ask);
        ask.spec.rate = 0;
        ask.spec.bits_per_key = 11.3;
        check_same_geometry(&ask);
        ask.spec.bits_per_key = 0;
        ask.spec.bytes = 7777;
        check_same_geometry(&ask);
    }
    bg_plan_request ask = request_of(12345, 0.01);
    ask.spec.flags = BG_SPEC_ONE_WINNER;
    check_same_geometry(&ask);
}

/* ---- The cheapest plan, and the latency ------------------------------------------ */

static double cost_at(bg_plan_request ask, double rate)
{
    ask.spec.rate = rate;
    return plan_of(&ask).cost;
}

/* Checks that no higher or lower rate costs less, apart from rounding to whole units. */
static void check_cheapest(const bg_plan_request *ask)
{
    bg_plan p = plan_of(ask);
    CHECK(p.cost > 0);
    for (double factor = 1.05; factor < 50; factor *= 1.3) {
        if (p.rate * factor < 0.5) {
            CHECK(cost_at(*ask, p.rate * factor) >= p.cost * (1 - 1e-3));
        }
        if (p.rate / factor > 1e-7) {
            CHECK(cost_at(*ask, p.rate / factor) >= p.cost * (1 - 1e-3));
        }
    }
}

TEST(plan__cheapest_is_a_minimum)
{
    static const double costs[] = { 1e-7, 1e-5, 1e-3 };
    for (int i = 0; i < KIND_COUNT; i++) {
        for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
            bg_plan_request ask = request_of(1000000, 0);
            ask.spec.kind = (uint32_t)kind_at(i);
            ask.queries_per_second = 10000;
            ask.call_cost = costs[c];
            ask.memory_cost = 0.5;
            check_cheapest(&ask);
        }
    }
}

/* More expensive backing-store calls lower the chosen false-positive rate; more expensive memory
 * raises it. */
TEST(plan__cheapest_follows_the_prices)
{
    bg_plan_request ask = request_of(1000000, 0);
    ask.queries_per_second = 10000;
    ask.call_cost = 1e-5;
    ask.memory_cost = 1;
    double rate = plan_of(&ask).rate;
    ask.call_cost *= 100;
    CHECK(plan_of(&ask).rate < rate / 5);
    ask.call_cost /= 100;
    ask.memory_cost *= 100;
    CHECK(plan_of(&ask).rate > rate * 5);
}

TEST(plan__cheapest_stays_below_max_bytes)
{
    bg_plan_request ask = request_of(1000000, 0);
    ask.queries_per_second = 1e6;
    ask.call_cost = 1;
    ask.memory_cost = 1e-3;
    CHECK(plan_of(&ask).bytes > 1000000);
    ask.spec.max_bytes = 1000000;
    bg_plan p = plan_of(&ask);
    CHECK(p.bytes <= 1000000 && p.bytes > 800000);
}

TEST(plan__latency_objective_bounds_the_rate)
{
    bg_plan_request ask = request_of(100000, 0);
    ask.call_seconds = 0.01;
    ask.latency_objective = 0.0001;
    bg_plan p = plan_of(&ask);
    CHECK(p.rate <= 0.01 && p.rate > 0.009);
    ask.spec.rate = 0.2; /* too high for the latency objective */
    p = plan_of(&ask);
    CHECK(p.rate <= 0.01 && p.rate > 0.009);
    ask.spec.rate = 0.001; /* low enough */
    p = plan_of(&ask);
    CHECK(p.rate <= 0.001 && p.rate > 0.0009);
}

TEST(plan__latency_objective_bounds_the_cheapest)
{
    bg_plan_request ask = request_of(100000, 0);
    ask.queries_per_second = 1;
    ask.call_cost = 1e-9;
    ask.memory_cost = 100;
    CHECK(plan_of(&ask).rate > 0.1);
    ask.call_seconds = 1;
    ask.latency_objective = 0.001;
    CHECK(plan_of(&ask).rate <= 0.001);
}

TEST(plan__calibration_measures_the_keyed_hash)
{
    bg_plan_request ask = request_of(1000, 0.01);
    bg_plan p = plan_of(&ask), same = p;
    bg_plan_calibrate(&p);
    CHECK(p.keyed_hash_ns >= 0 && p.keyed_hash_ns < 1e6);
    CHECK(isfinite(p.keyed_hash_ns));
    p.keyed_hash_ns = 0;
    CHECK(memcmp(&p, &same, sizeof p) == 0); /* calibration changes nothing else */
    bg_plan_calibrate(NULL);
}

/* ---- Predictions ----------------------------------------------------------------- */

TEST(predict__no_such_geometry_is_nan)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        uint32_t low = kind_k_min(kind), high = kind_k_max(kind);
        CHECK(isnan(bg_predict_rate(kind, 4096, low - 1, 10)));
        CHECK(isnan(bg_predict_rate(kind, 4096, high + 1, 10)));
        CHECK(isnan(bg_predict_rate(kind, 4096, UINT32_MAX, 10)));
        CHECK(isnan(bg_predict_rate(kind, 0, low, 10)));
        CHECK(isnan(bg_predict_rate(kind, kind_unit_bytes(kind, high) - 1, high, 10)));
        CHECK(isnan(bg_predict_rate(kind, UINT64_MAX, low, 10)));
        CHECK(bg_predict_rate(kind, 4096, low, 0) == 0);
        CHECK(bg_predict_rate(kind, 4096, low, 10) > 0);
        CHECK(bg_predict_rate(kind, 4096, high, UINT64_MAX) == 1);
        CHECK(bg_predict_rate(kind, kind_unit_bytes(kind, high), high, 1) > 0);
    }
    CHECK(isnan(bg_predict_rate(BG_KIND_AUTO, 4096, 8, 10)));
    CHECK(isnan(bg_predict_rate((bg_kind)99, 4096, 8, 10)));
}

TEST(predict__rounds_bytes_down_to_units)
{
    double whole = bg_predict_rate(BG_KIND_BLOCKED, 640, 8, 50);
    CHECK(bg_predict_rate(BG_KIND_BLOCKED, 703, 8, 50) == whole);
    CHECK(bg_predict_rate(BG_KIND_BLOCKED, 704, 8, 50) < whole);
}

/* ---- Invalid requests ------------------------------------------------------------ */

/* Checks that the request is refused, that the plan is unchanged, and that the error details name
 * the argument and its value. */
static void check_refused(const bg_plan_request *ask, const char *what,
                          const char *found)
{
    bg_plan plan, before;
    bg_errinfo why;
    memset(&plan, 0x77, sizeof plan);
    before = plan;
    CHECK_EQ(bg_plan_compute(ask, &plan, &why), BG_EINVAL);
    CHECK_EQ(why.code, BG_EINVAL);
    CHECK_STR(why.what, what);
    CHECK_STR(why.found, found);
    CHECK(why.expected[0] != 0);
    CHECK(memcmp(&plan, &before, sizeof plan) == 0);
    CHECK_EQ(bg_plan_compute(ask, &plan, NULL), BG_EINVAL);
}

TEST(plan__refuses_bad_numbers)
{
    static const struct {
        const char *what;
        size_t offset;
    } field[] = {
        { "queries_per_second", offsetof(bg_plan_request, queries_per_second) },
        { "absent_share", offsetof(bg_plan_request, absent_share) },
        { "call_cost", offsetof(bg_plan_request, call_cost) },
        { "memory_cost", offsetof(bg_plan_request, memory_cost) },
        { "call_seconds", offsetof(bg_plan_request, call_seconds) },
        { "latency_objective", offsetof(bg_plan_request, latency_objective) },
        { "growth", offsetof(bg_plan_request, growth) },
    };
    static const struct {
        double value;
        const char *text;
    } bad[] = { { -1, "-1" },
                { -DBL_MIN, "-2.22507e-308" },
                { (double)INFINITY, "inf" },
                { -(double)INFINITY, "-inf" },
                { (double)NAN, "nan" } };
    for (size_t f = 0; f < sizeof field / sizeof *field; f++) {
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            bg_plan_request ask = request_of(1000, 0.01);
            memcpy((char *)&ask + field[f].offset, &bad[b].value, sizeof(double));
            check_refused(&ask, field[f].what, bad[b].text);
        }
    }
}

TEST(plan__refuses_what_is_out_of_range)
{
    bg_plan_request ask = request_of(1000, 0.01);
    ask.absent_share = 1.5;
    check_refused(&ask, "absent_share", "1.5");
    ask = request_of(1000, 0.01);
    ask.growth = 0.5;
    check_refused(&ask, "growth", "0.5");
    ask.growth = 1000001;
    check_refused(&ask, "growth", "1e+06");
    ask = request_of(UINT64_C(1) << 50, 0.01);
    ask.growth = 1000;
    check_refused(&ask, "growth", "1000");
    ask = request_of(1000, 0.01);
    ask.latency_objective = 0.1;
    check_refused(&ask, "call_seconds", "0");
    ask.call_seconds = 0.1; /* calls already meet the objective without a filter */
    check_refused(&ask, "latency_objective", "0.1");
    ask = request_of(1000, 0.01);
    ask.reserved = 1;
    check_refused(&ask, "reserved", "1");
    ask = request_of(1000, 0.01);
    ask.struct_size--;
    char text[20];
    (void)snprintf(text, sizeof text, "%u", ask.struct_size);
    check_refused(&ask, "struct_size", text);
    /* The request contains neither a rate nor a size, and not all values needed to derive them. */
    ask = request_of(1000, 0);
    check_refused(&ask, "rate, bits_per_key, bytes", "0 values");
    ask.call_cost = ask.memory_cost = 1;
    check_refused(&ask, "rate, bits_per_key, bytes", "0 values");
}

TEST(plan__refuses_nothing_at_all)
{
    bg_plan_request ask = request_of(1000, 0.01);
    bg_plan plan;
    bg_errinfo why;
    CHECK_EQ(bg_plan_compute(NULL, &plan, &why), BG_EINVAL);
    CHECK_STR(why.what, "request");
    CHECK_EQ(bg_plan_compute(&ask, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_plan_compute(NULL, NULL, NULL), BG_EINVAL);
}

TEST(plan__defaults_by_function_and_by_macro_are_the_same)
{
    bg_plan_request macro = BG_PLAN_REQUEST_INIT, filled;
    memset(&filled, 0xff, sizeof filled);
    bg_plan_request_init(&filled);
    bg_plan_request returned = bg_plan_request_default();
    CHECK_EQ(filled.struct_size, macro.struct_size);
    CHECK_EQ(filled.spec.struct_size, macro.spec.struct_size);
    CHECK(filled.growth == 0 && filled.latency_objective == 0 && filled.reserved == 0);
    CHECK_EQ(returned.struct_size, sizeof returned);
    CHECK_EQ(returned.spec.struct_size, sizeof returned.spec);
    CHECK(filled.spec.allocator == NULL && filled.spec.hash.secret == NULL);
}

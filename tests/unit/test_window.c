/*
 * Tests both types of window (generational and aged): ages, rates, batches, copies, merges, clocks,
 * comparison with exact ages, threads, and failed allocations.
 */
#include "filter/handle.h"
#include "live/window_body.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <math.h>
#include <pthread.h>

static bg_window_options options_of(int mode, uint32_t generations)
{
    bg_window_options o = BG_WINDOW_OPTIONS_INIT;
    o.mode = (uint32_t)mode;
    o.generations = generations;
    return o;
}

static bg_spec window_spec(const bg_window_options *options, uint64_t items,
                           double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_WINDOW;
    spec.items = items;
    spec.rate = rate;
    spec.window = options;
    return spec;
}

static void rotate(bg_filter *filter, uint64_t now)
{
    CHECK_OK(bg_filter_rotate(filter, now, NULL));
}

static const uint64_t absent = (uint64_t)1 << 40;

/* Returns the maximum number of periods for which a key can still be found after it has expired. An
 * aged window clears expired keys slice by slice. */
static uint64_t fading(int mode)
{
    return mode == BG_WINDOW_AGED ? AGED_K_MAX : 0;
}

/* ---- Ages ------------------------------------------------------------------------ */

TEST(window__keeps_for_a_window_and_drops_after_one_period_more)
{
    for (int mode = 0; mode < 2; mode++) {
        for (uint32_t g = 2; g <= (CHECK_EMULATED || CHECK_SANITIZED ? 17 : 50);
             g += g < 10 ? 1 : 7) {
            bg_window_options o = options_of(mode, g);
            bg_spec spec = window_spec(&o, 1000 * (g - 1), 0.001);
            bg_filter *filter = must_create(&spec);
            for (uint64_t p = 0; p < 2 * g + 15; p++) {
                CHECK_EQ(bg_filter_window_period(filter), WINDOW_FIRST + p);
                (void)add_range(filter, p << 20, 500);
                for (uint64_t back = 0; back <= p && back < g; back++) {
                    CHECK_EQ(ask_range(filter, (p - back) << 20, 500), 500);
                }
                uint64_t gone = g + fading(mode);
                if (p >= gone) {
                    CHECK(ask_range(filter, (p - gone) << 20, 500) < 10);
                }
                rotate(filter, 0);
            }
            bg_filter_free(filter);
        }
    }
}

TEST(window__adding_again_renews)
{
    for (int mode = 0; mode < 2; mode++) {
        bg_window_options o = options_of(mode, 4);
        bg_spec spec = window_spec(&o, 1000, 0.001);
        bg_filter *filter = must_create(&spec);
        CHECK(added_u64(filter, 5));
        for (int p = 0; p < 40; p++) {
            CHECK(bg_filter_may_contain_u64(filter, 5));
            if (p % 3 == 0) {
                CHECK(!added_u64(filter, 5) || p == 0);
            }
            rotate(filter, 0);
        }
        for (int p = 0; p < 4; p++) {
            rotate(filter, 0);
        }
        CHECK(!bg_filter_may_contain_u64(filter, 5));
        CHECK(added_u64(filter, 5));
        bg_filter_free(filter);
    }
}

static uint64_t test_now;

static uint64_t test_clock(void *context)
{
    CHECK(context == &test_now);
    return __atomic_load_n(&test_now, __ATOMIC_RELAXED);
}

TEST(window__follows_a_clock)
{
    for (int mode = 0; mode < 2; mode++) {
        bg_window_options o = options_of(mode, 7);
        o.length = 60;
        o.clock = test_clock;
        o.context = &test_now;
        test_now = 1000;
        bg_spec spec = window_spec(&o, 6000, 0.001);
        bg_filter *filter = must_create(&spec);
        for (uint64_t t = 1000; t < 1400; t++) {
            test_now = t;
            (void)add_range(filter, t << 20, 100);
            for (uint64_t back = 0; back < 60 && back + 1000 <= t; back++) {
                CHECK_EQ(ask_range(filter, (t - back) << 20, 100), 100);
            }
            uint64_t gone = 71 + 10 * fading(mode);
            if (t > 1000 + gone) {
                CHECK(ask_range(filter, (t - gone) << 20, 100) < 5);
            }
        }
        test_now = 1455; /* no keys have been added for a while */
        rotate(filter, 1455);
        CHECK_EQ(ask_range(filter, (uint64_t)1399 << 20, 100), 100);
        test_now = 100000; /* no keys have been added for a long time */
        added_u64(filter, 1);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        CHECK(ask_range(filter, (uint64_t)1399 << 20, 100) < 5);
        uint64_t period = bg_filter_window_period(filter);
        rotate(filter, 500); /* moving the clock back has no effect */
        CHECK_EQ(bg_filter_window_period(filter), period);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        bg_filter_free(filter);
    }
}

TEST(window__time_by_hand_begins_with_the_first_call)
{
    for (int mode = 0; mode < 2; mode++) {
        bg_window_options o = options_of(mode, 4);
        o.length = 300;
        bg_spec spec = window_spec(&o, 1000, 0.001);
        bg_filter *filter = must_create(&spec);
        added_u64(filter, 1);
        rotate(filter, 5000000);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        rotate(filter, 4000000);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        rotate(filter, 5000399);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        rotate(filter, 5000400);
        CHECK(!bg_filter_may_contain_u64(filter, 1));
        rotate(filter, UINT64_MAX);
        added_u64(filter, 1);
        CHECK(bg_filter_may_contain_u64(filter, 1));
        bg_filter_free(filter);
    }
}

TEST(window__counts_adds)
{
    for (int mode = 0; mode < 2; mode++) {
        const uint64_t counts[] = { 1, 10, 100,
                                    CHECK_EMULATED || CHECK_SANITIZED ? 250 : 5000 };
        for (size_t c = 0; c < 4; c++) {
            bg_window_options o = options_of(mode, 5);
            o.count = counts[c];
            bg_spec spec = window_spec(&o, 0, 0.001);
            bg_filter *filter = must_create(&spec);
            uint64_t period = (counts[c] + 3) / 4;
            for (uint64_t i = 0; i < 40 * counts[c]; i += 37) {
                (void)add_range(filter, i, 37);
                uint64_t n = i + 37 < counts[c] ? i + 37 : counts[c];
                CHECK_EQ(ask_range(filter, i + 37 - n, (size_t)n), n);
                uint64_t gone = (6 + fading(mode)) * period + 40;
                if (i + 37 > gone) {
                    CHECK(ask_range(filter, i + 37 - gone, 20) < 5);
                }
            }
            bg_filter_free(filter);
        }
    }
}

/* ---- Rates ----------------------------------------------------------------------- */

static void check_rate(int mode, uint32_t kind, uint32_t g, double rate,
                       double tolerance)
{
    bg_window_options o = options_of(mode, g);
    o.kind = kind;
    uint64_t period = CHECK_EMULATED ? 1000 : CHECK_SANITIZED ? 3000 : 20000;
    bg_spec spec = window_spec(&o, period * (g - 1), rate);
    spec.flags = g % 2 ? BG_SPEC_EXCLUSIVE : 0;
    bg_filter *filter = must_create(&spec);
    for (uint64_t p = 0; p < 3 * g + 12; p++) {
        rotate(filter, 0);
        (void)add_range(filter, p << 24, (size_t)period);
    }
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = spec;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK(plan.rate <= rate * 1.0001);
    size_t probes = CHECK_EMULATED ? 20000 : CHECK_SANITIZED ? 100000 : 2000000;
    double measured = (double)ask_range(filter, absent, probes) / (double)probes;
    double error = 4 * sqrt(plan.rate / (double)probes);
    if (fabs(measured - plan.rate) > tolerance * plan.rate + error) {
        check_fail(__FILE__, __LINE__, "mode %d g %u: measured %g, planned %g", mode, g,
                   measured, plan.rate);
    }
    bg_filter_info info = info_of(filter);
    CHECK_NEAR(info.rate, plan.rate, CHECK_EMULATED ? 0.3 : 0.1);
    CHECK_NEAR(info.items.value, (double)period * g, CHECK_EMULATED ? 0.1 : 0.03);
    CHECK(info.design_rate == rate);
    CHECK_EQ(info.bytes, plan.bytes);
    bg_filter_free(filter);
}

TEST(window__generations_have_the_planned_rate)
{
    const double rates[] = { 0.1, 0.01, 0.001 };
    for (size_t r = 0; r < 3; r++) {
        check_rate(BG_WINDOW_GENERATIONS, 0, 3, rates[r], 0.05);
        check_rate(BG_WINDOW_GENERATIONS, BG_KIND_CLASSIC, 8, rates[r], 0.05);
        check_rate(BG_WINDOW_GENERATIONS, BG_KIND_SPLIT, 24, rates[r], 0.05);
    }
    check_rate(BG_WINDOW_GENERATIONS, BG_KIND_REGISTER, 5, 0.01, 0.05);
    check_rate(BG_WINDOW_GENERATIONS, BG_KIND_PARTITIONED, 4, 0.01, 0.05);
}

TEST(window__aged_has_the_planned_rate)
{
    if (CHECK_EMULATED) {
        /* This test is too slow under emulators. */
        return;
    }
    const uint32_t generations[] = { 2, 5, 8, 13, 24, 40 };
    for (size_t i = 0; i < 6; i++) {
        check_rate(BG_WINDOW_AGED, 0, generations[i], 0.05, 0.05);
        check_rate(BG_WINDOW_AGED, 0, generations[i], 0.01, 0.05);
        check_rate(BG_WINDOW_AGED, 0, generations[i], 0.001, 0.05);
    }
}

/* ---- Key types and batches ------------------------------------------------------- */

static void check_agree(int mode, uint32_t generations, uint32_t kind)
{
    bg_window_options o = options_of(mode, generations);
    o.kind = kind;
    bg_spec spec = window_spec(&o, 3000, 0.01);
    bg_filter *one = must_create(&spec), *many = must_create(&spec);
    for (size_t n = 1; n < 900; n = n * 5 / 4 + 1) {
        check_batch_agrees(one, many, n, 2000, 10000);
        rotate(one, 0);
        rotate(many, 0);
    }
    bg_filter_free(one);
    bg_filter_free(many);
}

TEST(window__single_and_batch_agree)
{
    for (uint32_t g = 2; g <= 10; g += CHECK_EMULATED ? 4 : 1) {
        check_agree(BG_WINDOW_AGED, g, 0);
        check_agree(BG_WINDOW_GENERATIONS, g, g % 2 ? BG_KIND_SPLIT : BG_KIND_BLOCKED);
        check_agree(BG_WINDOW_GENERATIONS, g,
                    g % 2 ? BG_KIND_CLASSIC : BG_KIND_REGISTER);
    }
}

TEST(window__takes_keys_of_every_form)
{
    bg_spec spec = window_spec(NULL, 1000, 0.01);
    bg_filter *filter = must_create(&spec);
    bool is_new = false;
    CHECK(added(filter, "apple", 5));
    CHECK(!added(filter, "apple", 5));
    CHECK(bg_filter_may_contain(filter, "apple", 5));
    CHECK_OK(bg_filter_add_u64(filter, 77, &is_new));
    CHECK(is_new);
    CHECK_EQ(bg_filter_count_u64(filter, 77), 1);
    CHECK(added_hash(filter, 12345));
    CHECK_EQ(bg_filter_remove_u64(filter, 77), BG_ENOTSUP);
    bg_filter_clear(filter);
    CHECK(!bg_filter_may_contain(filter, "apple", 5));
    CHECK(bg_filter_window_period(NULL) == 0);
    bg_filter_free(filter);
}

/* ---- A model --------------------------------------------------------------------- */

enum { MODEL_KEYS = 4096, MODEL_STEPS = CHECK_EMULATED ? 500 : 4000 };

static void model_check(const bg_filter *filter, const uint64_t *when, uint32_t g,
                        uint64_t fades, double most)
{
    uint64_t period = bg_filter_window_period(filter);
    size_t wrong = 0, out = 0;
    for (uint64_t key = 0; key < MODEL_KEYS; key++) {
        bool in = when[key] + g > period, has = bg_filter_may_contain_u64(filter, key);
        CHECK(has || !in);
        bool gone = when[key] + g + fades <= period;
        wrong += has && gone;
        out += gone;
    }
    CHECK((double)wrong < 20 + most * (double)out);
}

/* Runs adds, batches, short and long rotations, copies, merges and clears, and compares the windows
 * with exact ages. */
static void model_run(int mode, uint32_t g, uint64_t share, uint32_t flags)
{
    static uint64_t when[2][MODEL_KEYS];
    bg_window_options o = options_of(mode, g);
    o.length = 1000 * (g - 1);
    bg_spec spec = window_spec(&o, share * (g - 1), 0.01);
    spec.flags = flags;
    bg_filter *filter[2] = { must_create(&spec), must_create(&spec) }, *copy;
    uint64_t now = 0;
    memset(when, 0, sizeof when);
    rotate(filter[0], 0);
    rotate(filter[1], 0);
    for (int step = 0; step < (CHECK_SANITIZED ? MODEL_STEPS / 4 : MODEL_STEPS);
         step++) {
        int f = (int)check_random_below(2);
        uint64_t key = check_random_below(MODEL_KEYS - 100);
        uint64_t period = bg_filter_window_period(filter[f]);
        switch (check_random_below(step % 50 == 49 ? 7 : 3)) {
        case 0:
            for (uint64_t i = 0; i < 10; i++) {
                bool was = when[f][key + i] + g > period;
                CHECK(!added_u64(filter[f], key + i) || !was);
                when[f][key + i] = period;
            }
            break;
        case 1:
            (void)add_range(filter[f], key, 90);
            for (uint64_t i = 0; i < 90; i++) {
                when[f][key + i] = period;
            }
            break;
        case 2:
            now += check_random_below(600);
            rotate(filter[0], now);
            rotate(filter[1], now);
            break;
        case 3:
            now += check_random_below(3000 * g);
            rotate(filter[0], now);
            rotate(filter[1], now);
            break;
        case 4:
            CHECK_OK(bg_filter_copy(filter[f], &copy, NULL));
            CHECK(bg_filter_equal(copy, filter[f]));
            bg_filter_free(filter[f]);
            filter[f] = copy;
            break;
        case 5:
            CHECK_OK(bg_filter_merge(filter[f], filter[!f], NULL));
            for (size_t i = 0; i < MODEL_KEYS; i++) {
                when[f][i] = when[!f][i] > when[f][i] ? when[!f][i] : when[f][i];
            }
            break;
        default:
            bg_filter_clear(filter[f]);
            memset(when[f], 0, sizeof when[f]);
            break;
        }
        if (step % 20 == 0) {
            /* A merge overfills small filters, so their false-positive rate is higher. */
            model_check(filter[f], when[f], g, fading(mode), share < 2000 ? 0.3 : 0.1);
        }
    }
    bg_filter_free(filter[0]);
    bg_filter_free(filter[1]);
}

TEST(window__like_an_exact_set_with_ages)
{
    for (size_t i = 0; i < check_scale(); i++) {
        for (int mode = 0; mode < 2; mode++) {
            model_run(mode, 2, 2000, 0);
            model_run(mode, 8, 2000, BG_SPEC_EXCLUSIVE);
            model_run(mode, 24, 2000, 0);
        }
        /* In these runs, one period gets more than its share of keys. */
        model_run(BG_WINDOW_GENERATIONS, 8, 600, 0);
        model_run(BG_WINDOW_GENERATIONS, 24, 180, BG_SPEC_EXCLUSIVE);
    }
}

TEST(window__merges_only_its_like_of_the_same_age)
{
    for (int mode = 0; mode < 2; mode++) {
        bg_window_options o = options_of(mode, 8), p;
        bg_spec spec = window_spec(&o, 1000, 0.01), other;
        bg_filter *filter = must_create(&spec), *stranger;
        bg_errinfo why;
        for (int c = 0; c < 6; c++) {
            p = o;
            other = spec;
            other.window = &p;
            p.generations = c == 0 ? 9 : 8;
            other.rate = c == 1 ? 0.001 : 0.01;
            other.hash.seed = c == 2;
            p.count = c == 3 ? 1000 : 0;
            p.mode = c == 4 ? !o.mode : o.mode;
            stranger = must_create(&other);
            if (c == 5) {
                CHECK_OK(bg_filter_merge(filter, stranger, NULL));
                rotate(stranger, 0);
            }
            CHECK_EQ(bg_filter_merge(filter, stranger, &why), BG_EINCOMPAT);
            CHECK(c != 3 || strcmp(why.what, "window") == 0);
            CHECK(c != 5 || strcmp(why.what, "period of the window") == 0);
            CHECK(!bg_filter_compatible(filter, stranger));
            bg_filter_free(stranger);
        }
        CHECK_OK(bg_filter_merge(filter, filter, NULL));
        bg_filter_free(filter);
    }
}

/* ---- Bad arguments --------------------------------------------------------------- */

static void check_refused(const bg_spec *spec, bg_err code, const char *what)
{
    bg_filter *filter = (bg_filter *)(void *)&filter;
    bg_errinfo why;
    CHECK_EQ(bg_filter_create(spec, &filter, &why), code);
    CHECK(filter == NULL);
    CHECK(strstr(why.what, what) != NULL);
}

TEST(window__refuses_nonsense)
{
    const double rates[] = { 0, 1, -0.5, (double)NAN, (double)INFINITY };
    for (int mode = 0; mode < 2; mode++) {
        bg_window_options o = options_of(mode, 8);
        bg_spec spec = window_spec(&o, 1000, 0.01);
        for (size_t i = 0; i < 5; i++) {
            spec.rate = rates[i];
            check_refused(&spec, BG_EINVAL, "rate");
        }
        spec = window_spec(&o, 0, 0.01);
        check_refused(&spec, BG_EINVAL, "items");
        spec = window_spec(&o, UINT64_MAX, 0.01);
        check_refused(&spec, BG_EINVAL, "items");
        spec = window_spec(&o, 1000, 0.01);
        spec.bytes = 1000;
        check_refused(&spec, BG_EINVAL, "bytes");
        spec = window_spec(&o, 1000, 0.01);
        spec.folds = 1;
        check_refused(&spec, BG_ENOTSUP, "folds");
        spec = window_spec(&o, 1000, 0.01);
        spec.flags = BG_SPEC_SCATTERED;
        check_refused(&spec, BG_ENOTSUP, "flags");
        spec = window_spec(&o, 1000, 0.01);
        spec.max_bytes = 100;
        check_refused(&spec, BG_ENOMEM, "size");
        spec = window_spec(&o, 1000, 0.01);
        spec.k = 99;
        check_refused(&spec, BG_EINVAL, "k");
        spec = window_spec(&o, (uint64_t)1 << 56, 0.01);
        check_refused(&spec, BG_ENOMEM, "");
    }
}

TEST(window__refuses_nonsense_in_options)
{
    bg_window_options o = options_of(0, 1);
    bg_spec spec = window_spec(&o, 1000, 0.01);
    check_refused(&spec, BG_EINVAL, "generations");
    o = options_of(0, 65);
    check_refused(&spec, BG_EINVAL, "generations");
    o = options_of(1, 64);
    check_refused(&spec, BG_ENOTSUP, "generations");
    o = options_of(2, 8);
    check_refused(&spec, BG_EINVAL, "mode");
    o = options_of(0, 8);
    o.struct_size = 4;
    check_refused(&spec, BG_EINVAL, "struct_size");
    o = options_of(0, 8);
    o.length = o.count = 10;
    check_refused(&spec, BG_EINVAL, "length");
    o = options_of(0, 8);
    o.clock = test_clock;
    check_refused(&spec, BG_EINVAL, "length");
    o = options_of(1, 8);
    o.kind = BG_KIND_BLOCKED;
    check_refused(&spec, BG_EINVAL, "kind");
    o = options_of(0, 8);
    o.kind = BG_KIND_COUNTING;
    check_refused(&spec, BG_ENOTSUP, "kind");
    o.kind = BG_KIND_WINDOW;
    check_refused(&spec, BG_ENOTSUP, "kind");
    o.kind = 99;
    check_refused(&spec, BG_EINVAL, "kind");
    bg_filter *plain = make_filter(BG_KIND_BLOCKED, 4096, 0), *none;
    size_t bytes;
    CHECK_EQ(bg_filter_rotate(plain, 0, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_rotate(NULL, 0, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_window_period(plain), 0);
    o = options_of(0, 8);
    CHECK_EQ(bg_filter_memory_needed(&spec, &bytes, NULL), BG_ENOTSUP);
    bg_filter *filter = must_create(&spec);
    CHECK_EQ(bg_filter_compact(filter, &none, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_fold(filter, 1, &none, NULL), BG_ENOTSUP);
    bg_filter_free(filter);
    bg_filter_free(plain);
}

/* ---- Failed allocations ---------------------------------------------------------- */

static struct counting c;

static unsigned fault_scenario(int mode)
{
    bg_window_options o = options_of(mode, 5);
    bg_spec spec = window_spec(&o, 1000, 0.01);
    spec.allocator = &c.hooks;
    bg_filter *filter = NULL, *copy = NULL;
    if (bg_filter_create(&spec, &filter, NULL) != BG_OK) {
        CHECK(filter == NULL);
        return 1;
    }
    uint64_t bytes = bg_filter_size_bytes(filter);
    (void)add_range(filter, 0, 300); /* more than a quarter of the planned keys */
    unsigned failed =
        mode == BG_WINDOW_GENERATIONS && bg_filter_size_bytes(filter) == bytes;
    failed |= bg_filter_copy(filter, &copy, NULL) != BG_OK;
    CHECK(failed || ask_range(copy, 0, 300) == 300);
    rotate(filter, 0);
    CHECK_EQ(ask_range(filter, 0, 300), 300);
    bg_filter_free(copy);
    bg_filter_free(filter);
    return failed;
}

TEST(window__every_allocation_fails_once)
{
    for (int mode = 0; mode < 2; mode++) {
        counting_start(&c);
        CHECK_EQ(fault_scenario(mode), 0);
        size_t calls = c.calls;
        CHECK(calls >= 4);
        for (size_t n = 1; n <= calls; n++) {
            counting_start(&c);
            c.fail_at = n;
            CHECK_EQ(fault_scenario(mode), 1);
            CHECK_EQ(c.live, 0);
            CHECK_EQ(c.mistakes, 0);
        }
    }
}

/* ---- Threads --------------------------------------------------------------------- */

enum { ADDERS = 3, ROUNDS = CHECK_EMULATED ? 200 : 1500, BATCH = 70 };

struct conc {
    bg_filter *filter;
    bg_filter *copy; /* a copy that is rotated at the same time, for comparison */
    uint32_t generations;
    bool stop;
    uint64_t id;
};

/* Adds batches, and checks that all of their keys are found as long as they are younger than the
 * window. */
static void *conc_add(void *context)
{
    struct conc *t = context;
    uint64_t begun[ROUNDS];
    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint64_t first = t->id << 40 | r << 20;
        begun[r] = bg_filter_window_period(t->filter);
        if (r % 2) {
            (void)add_range(t->filter, first, BATCH);
        } else {
            for (uint64_t i = 0; i < BATCH; i++) {
                added_u64(t->filter, first + i);
            }
        }
        uint64_t back = r % 5 < r ? r - r % 5 : r;
        size_t found = ask_range(t->filter, t->id << 40 | back << 20, BATCH);
        uint64_t period = bg_filter_window_period(t->filter);
        CHECK(found == BATCH || period >= begun[back] + t->generations);
        (void)bg_filter_equal(t->filter, t->copy);
    }
    return NULL;
}

static void *conc_rotate(void *context)
{
    struct conc *t = context;
    while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 20; i++) {
            (void)ask_range(t->filter, check_random(), 64);
        }
        rotate(t->filter, 0);
        rotate(t->copy, 0);
    }
    return NULL;
}

static void conc_run(int mode, uint32_t generations, uint64_t count, uint64_t items)
{
    bg_window_options o = options_of(mode, generations);
    o.count = count;
    bg_spec spec = window_spec(&o, items, 0.01);
    struct conc t[ADDERS + 1];
    pthread_t threads[ADDERS + 1];
    bg_filter *filter = must_create(&spec), *copy = must_create(&spec);
    for (int i = 0; i <= ADDERS; i++) {
        t[i] = (struct conc){ filter, copy, generations, false, (uint64_t)i + 1 };
        CHECK_EQ(pthread_create(&threads[i], NULL, i < ADDERS ? conc_add : conc_rotate,
                                &t[i]),
                 0);
    }
    for (int i = 0; i < ADDERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    __atomic_store_n(&t[ADDERS].stop, true, __ATOMIC_RELAXED);
    CHECK_EQ(pthread_join(threads[ADDERS], NULL), 0);
    CHECK(bg_filter_equal(filter, filter));
    bg_filter_free(filter);
    bg_filter_free(copy);
}

TEST(window__threads_find_what_is_young_while_it_turns)
{
    const uint64_t items = CHECK_SANITIZED ? 1000 : 3000;
    for (int mode = 0; mode < 2; mode++) {
        conc_run(mode, 2, 0, items);
        conc_run(mode, 4, 500, items);
        conc_run(mode, 24, 0, items);
    }
    conc_run(BG_WINDOW_GENERATIONS, 8, 0,
             70); /* periods with more keys than their share */
    conc_run(BG_WINDOW_GENERATIONS, 8, 5000, 700);
}

/*
 * Tests scalable filters: layer sizes, growth, merging, compaction, planning, comparison with exact
 * sets, threads, and failed allocations.
 */
#include "filter/handle.h"
#include "live/ladder.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <math.h>
#include <pthread.h>

static bg_spec scalable_spec(uint64_t items, double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_SCALABLE;
    spec.items = items;
    spec.rate = rate;
    return spec;
}

static const uint64_t absent = (uint64_t)1 << 40;

static bg_plan plan_of(const bg_spec *spec, double growth)
{
    bg_plan plan;
    bg_errinfo why;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    memset(&plan, 0, sizeof plan);
    ask.spec = *spec;
    ask.growth = growth;
    if (bg_plan_compute(&ask, &plan, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "plan: %s", why.message);
    }
    return plan;
}

/* ---- The ladder ------------------------------------------------------------------ */

TEST(scalable__ladder_sums_up_to_less_than_the_rate)
{
    const double rates[] = { 0.3, 0.05, 0.01, 0.001, 1e-5 };
    for (size_t r = 0; r < 5; r++) {
        bg_spec spec = scalable_spec(10000, rates[r]);
        struct ladder ladder;
        CHECK_OK(ladder_solve(&spec, &ladder, NULL));
        double sum = 0;
        uint64_t before = 0;
        struct bgi_geometry g;
        for (uint32_t i = 0; i < 14; i++) {
            CHECK(ladder_layer(&ladder, i, &g));
            CHECK(g.items > before);
            CHECK(i > 0 || g.items >= spec.items);
            CHECK_EQ(g.units, ladder.units << i);
            double at = bgi_kind_rate(g.kind, g.units, g.k, (double)g.items);
            CHECK(at <= g.rate);
            CHECK_NEAR(at, g.rate, 0.02);
            sum += g.rate;
            before = g.items;
        }
        CHECK(sum < rates[r]);
    }
}

TEST(scalable__ladder_ends)
{
    bg_spec spec = scalable_spec((uint64_t)1 << 40, 0.01);
    struct ladder ladder;
    struct bgi_geometry g;
    if (sizeof(size_t) < 8) {
        return; /* not even the first layer fits */
    }
    CHECK_OK(ladder_solve(&spec, &ladder, NULL));
    CHECK(!ladder_layer(&ladder, 63, &g));
    CHECK(!ladder_layer(&ladder, LADDER_LAYERS, &g));
}

/* ---- Keys and rates -------------------------------------------------------------- */

TEST(scalable__grows_to_a_thousand_times_under_its_rate)
{
    const struct {
        uint64_t items;
        double rate;
        uint32_t width, flags;
    } cases[] = {
        { 1000, 0.01, 0, 0 },
        { 1000, 0.05, 4, 0 },
        { 300, 0.01, 8, BG_SPEC_EXCLUSIVE },
        { 1000, 0.01, 2, BG_SPEC_SCATTERED },
        { 1000, 0.001, 4, 0 },
    };
    size_t probes = CHECK_SANITIZED || CHECK_EMULATED ? 100000 : 1000000;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bg_spec spec = scalable_spec(cases[c].items, cases[c].rate);
        spec.width = cases[c].width;
        spec.flags = cases[c].flags;
        size_t n = 1000 * (size_t)cases[c].items;
        n = CHECK_SANITIZED || CHECK_EMULATED ? n / 10 : n;
        bg_filter *filter = must_create(&spec);
        size_t added = add_range(filter, 1, n);
        CHECK(added <= n && (double)added > (double)n * (1 - cases[c].rate));
        CHECK_EQ(ask_range(filter, 1, n), n);
        double measured = (double)ask_range(filter, absent, probes) / (double)probes;
        double error = 4 * sqrt(cases[c].rate / (double)probes);
        CHECK(measured < cases[c].rate + error);
        bg_plan plan = plan_of(&spec, (double)n / (double)spec.items);
        CHECK(plan.rate < cases[c].rate);
        bg_filter_info info = info_of(filter);
        CHECK(fabs(measured - plan.rate) < 0.05 * plan.rate + error);
        CHECK_NEAR(info.rate, plan.rate, 0.05);
        CHECK_NEAR(info.items.value, added, 0.02);
        CHECK_EQ(info.saturated, 0);
        CHECK(!info.overflowed);
        CHECK_NEAR(info.bytes, plan.bytes, 0.001);
        CHECK_EQ(info.bytes, bg_filter_size_bytes(filter));
        bg_filter_free(filter);
    }
}

TEST(scalable__planned_memory_is_below_18_bits_at_100_times)
{
    bg_spec spec = scalable_spec(1000000, 0.01);
    bg_plan plan = plan_of(&spec, 100);
    CHECK_EQ(plan.kind, BG_KIND_SCALABLE);
    CHECK_EQ(plan.items, 100000000);
    CHECK(plan.bits_per_key <= 18);
    CHECK_EQ(plan.layers, 7);
    CHECK_EQ(plan.lines_per_lookup, 7);
    CHECK(plan.rate < 0.01 && plan.rate_2x < 0.01 && plan.rate_10x < 0.01);
    CHECK(strstr(plan.reason, "7 layers of blocked") != NULL);
    bg_plan one = plan_of(&spec, 0);
    CHECK_EQ(one.layers, 1);
    CHECK(strstr(one.reason, "; 1 layer of blocked") != NULL);
    CHECK_EQ(one.items, 1000000);
    CHECK(one.bytes < plan.bytes / 100);
}

/* Creates the filter that a plan describes. */
static inline bg_err create_planned(const bg_plan *plan, const bg_plan_request *request,
                                    bg_filter **filter)
{
    bg_spec spec;
    bg_plan_to_spec(plan, request, &spec);
    return bg_filter_create(&spec, filter, NULL);
}

TEST(scalable__plan_makes_a_filter)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_filter *filter = NULL;
    ask.spec = scalable_spec(1000, 0.02);
    ask.growth = 50;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK_OK(create_planned(&plan, &ask, &filter));
    bg_filter_info info = info_of(filter);
    CHECK_EQ(info.design_items, 1000);
    CHECK_NEAR(info.design_rate, 0.02, 1e-9);
    bg_filter_free(filter);
    ask.spec.rate = 0; /* the cheapest rate */
    ask.call_cost = 1e-6;
    ask.queries_per_second = 1000;
    ask.memory_cost = 1;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK(plan.target > 0 && plan.rate <= plan.target);
    CHECK(isnan(bg_predict_rate(BG_KIND_SCALABLE, 4096, 8, 10)));
}

TEST(scalable__single_and_batch_agree)
{
    bg_spec spec = scalable_spec(10, 0.01);
    bg_filter *one = must_create(&spec), *many = must_create(&spec);
    for (size_t n = 1; n < 9000; n = n * 3 / 2 + 7) {
        check_batch_agrees(one, many, n, 20000, 60000);
    }
    bg_filter_free(one);
    bg_filter_free(many);
}

/* Looks up batches of every length, with members and other keys, after each new layer. On most
 * machines, the last layers exceed the L2 cache. */
TEST(scalable__batches_agree_with_every_number_of_layers)
{
    enum { MOST = CHECK_EMULATED ? 5 : 10, KEYS = 200 };
    static const size_t lengths[] = { 1, 31, 63, 64, 65, 97, 128, KEYS };
    for (int c = 0; c < 2; c++) {
        bg_spec spec = scalable_spec(1, 0.05);
        spec.flags = c ? BG_SPEC_SCATTERED : 0;
        bg_filter *filter = must_create(&spec);
        uint64_t first = bg_filter_size_bytes(filter), keys[KEYS], bits[4], added = 0;
        for (uint64_t layers = 1; layers <= MOST; layers++) {
            uint64_t bytes = first * (((uint64_t)1 << layers) - 1);
            for (; bg_filter_size_bytes(filter) < bytes; added += 50) {
                (void)add_range(filter, added, 50);
            }
            CHECK_EQ(bg_filter_size_bytes(filter), bytes);
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                size_t n = lengths[l];
                for (size_t i = 0; i < n; i++) {
                    bool member = l % 2 ? i % 3 != 0 : check_random_below(8) == 0;
                    keys[i] = added && member ? check_random_below(added)
                                              : absent + check_random();
                }
                size_t count =
                    bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), bits);
                for (size_t i = 0; i < n; i++) {
                    bool maybe = bg_filter_may_contain_u64(filter, keys[i]);
                    CHECK_EQ(bits[i / 64] >> (i % 64) & 1, maybe);
                    CHECK(maybe || keys[i] >= added);
                    count -= maybe;
                }
                CHECK_EQ(count, 0);
            }
        }
        bg_filter_free(filter);
    }
}

TEST(scalable__takes_keys_of_every_form)
{
    bg_spec spec = scalable_spec(100, 0.01);
    bg_filter *filter = must_create(&spec);
    bool is_new = false;
    CHECK(added(filter, "apple", 5));
    CHECK(!added(filter, "apple", 5));
    CHECK(bg_filter_may_contain(filter, "apple", 5));
    CHECK_OK(bg_filter_add_u64(filter, 77, &is_new));
    CHECK(is_new);
    CHECK_EQ(bg_filter_count_u64(filter, 77), 1);
    CHECK(added_hash(filter, 12345));
    CHECK(bg_filter_may_contain_hash(filter, 12345));
    CHECK_EQ(bg_filter_remove_u64(filter, 77), BG_ENOTSUP);
    CHECK_EQ(bg_filter_kind(filter), BG_KIND_SCALABLE);
    bg_filter_clear(filter);
    CHECK(!bg_filter_may_contain(filter, "apple", 5));
    CHECK_NEAR(info_of(filter).items.value + 1, 1, 1e-9);
    bg_filter_free(filter);
}

/* ---- A model --------------------------------------------------------------------- */

enum { MODEL_KEYS = 1 << 16, MODEL_STEPS = 3000 };

static void model_check(const bg_filter *filter, const unsigned char *in)
{
    size_t wrong = 0, present = 0;
    for (uint64_t key = 0; key < MODEL_KEYS; key++) {
        bool has = bg_filter_may_contain_u64(filter, key);
        CHECK(has || !in[key]);
        wrong += has && !in[key];
        present += in[key];
    }
    double expected = info_of(filter).rate * (double)(MODEL_KEYS - present);
    CHECK((double)wrong <= 10 + 1.3 * expected);
}

/* Adds keys to two filters, singly and in batches. Also copies, clears and merges the filters, and
 * compares them with exact sets. */
static void model_run(uint32_t width, uint32_t flags)
{
    static unsigned char in[2][MODEL_KEYS];
    bg_spec spec = scalable_spec(64, 0.02);
    spec.width = width;
    spec.flags = flags;
    bg_filter *filter[2] = { must_create(&spec), must_create(&spec) }, *copy;
    memset(in, 0, sizeof in);
    for (int step = 0; step < MODEL_STEPS; step++) {
        int f = (int)check_random_below(2);
        uint64_t key = check_random_below(MODEL_KEYS - 64);
        switch (check_random_below(step % 100 == 99 ? 6 : 3)) {
        case 0:
        case 1:
            add_range(filter[f], key, 40);
            memset(in[f] + key, 1, 40);
            break;
        case 2:
            CHECK(!added_u64(filter[f], key) || !in[f][key]);
            in[f][key] = 1;
            CHECK(bg_filter_may_contain_u64(filter[f], key));
            break;
        case 3:
            CHECK_OK(bg_filter_copy(filter[f], &copy, NULL));
            CHECK(bg_filter_equal(copy, filter[f]));
            bg_filter_free(filter[f]);
            filter[f] = copy;
            break;
        case 4:
            bg_filter_clear(filter[f]);
            memset(in[f], 0, sizeof in[f]);
            break;
        default:
            CHECK_OK(bg_filter_merge(filter[f], filter[!f], NULL));
            for (size_t i = 0; i < MODEL_KEYS; i++) {
                in[f][i] |= in[!f][i];
            }
            break;
        }
    }
    model_check(filter[0], in[0]);
    model_check(filter[1], in[1]);
    bg_filter_free(filter[0]);
    bg_filter_free(filter[1]);
}

TEST(scalable__like_an_exact_set)
{
    for (size_t i = 0; i < check_scale(); i++) {
        model_run(0, 0);
        model_run(4, BG_SPEC_EXCLUSIVE);
        model_run(8, BG_SPEC_SCATTERED);
    }
}

/* ---- Two filters ----------------------------------------------------------------- */

TEST(scalable__merges_whatever_the_order)
{
    bg_spec spec = scalable_spec(1000, 0.01);
    bg_filter *small = must_create(&spec), *large = must_create(&spec), *both;
    add_range(small, 0, 1500);
    add_range(large, 100000, 20000);
    CHECK(bg_filter_compatible(small, large));
    CHECK(!bg_filter_equal(small, large));
    CHECK_OK(bg_filter_copy(small, &both, NULL));
    CHECK_OK(bg_filter_merge(both, large, NULL));
    CHECK_OK(bg_filter_merge(large, small, NULL));
    CHECK(bg_filter_equal(both, large));
    CHECK_EQ(ask_range(both, 0, 1500), 1500);
    CHECK_EQ(ask_range(both, 100000, 20000), 20000);
    CHECK_OK(bg_filter_merge(both, both, NULL));
    CHECK(bg_filter_equal(both, large));
    bg_filter_info info = info_of(both);
    CHECK_NEAR(info.items.value, 21500, 0.03);
    CHECK(info.saturated > 0); /* layer 0 contains keys from both filters */
    CHECK(info.rate < 0.2);
    bg_filter_free(small);
    bg_filter_free(large);
    bg_filter_free(both);
}

TEST(scalable__merges_only_its_like)
{
    bg_spec spec = scalable_spec(1000, 0.01), other;
    bg_filter *filter = must_create(&spec), *stranger;
    bg_errinfo why;
    for (int c = 0; c < 6; c++) {
        other = spec;
        other.items = c == 0 ? 50000 : spec.items;
        other.rate = c == 1 ? 0.0101 : spec.rate;
        other.hash.seed = c == 2;
        other.width = c == 3 ? 4 : 0;
        other.flags = c == 4 ? BG_SPEC_SCATTERED : 0;
        other.kind = c == 5 ? BG_KIND_BLOCKED : spec.kind;
        stranger = must_create(&other);
        CHECK_EQ(bg_filter_merge(filter, stranger, &why), BG_EINCOMPAT);
        CHECK(c != 1 || strcmp(why.what, "rate") == 0);
        CHECK(!bg_filter_equal(filter, stranger));
        bg_filter_free(stranger);
    }
    CHECK_EQ(bg_filter_overlap(filter, filter, &(bg_overlap){ 0 }, &why), BG_ENOTSUP);
    CHECK_EQ(bg_filter_fold(filter, 1, &stranger, &why), BG_ENOTSUP);
    bg_filter_free(filter);
}

static void check_compact(uint32_t flags, size_t keys, bool possible)
{
    bg_spec spec = scalable_spec(4000, 0.01);
    spec.flags = flags;
    spec.folds = 3;
    bg_filter *filter = must_create(&spec), *one = filter;
    bg_errinfo why;
    add_range(filter, 0, keys);
    bg_err err = bg_filter_compact(filter, &one, &why);
    CHECK_EQ(err, possible ? BG_OK : BG_EFULL);
    if (possible) {
        CHECK_EQ(bg_filter_kind(one), flags ? BG_KIND_CLASSIC : BG_KIND_BLOCKED);
        CHECK_EQ(ask_range(one, 0, keys), keys);
        CHECK(info_of(one).rate <= 0.01);
        CHECK((double)ask_range(one, absent, 50000) < 50000 * 0.013);
        CHECK(bg_filter_size_bytes(one) <= bg_filter_size_bytes(filter));
        CHECK(keys > 500 || 8 * info_of(one).bytes <= info_of(filter).bytes);
    } else {
        CHECK(one == NULL);
        CHECK(strstr(why.message, "rebuild") != NULL);
    }
    bg_filter_free(one);
    bg_filter_free(filter);
}

TEST(scalable__compacts_what_is_sparse)
{
    for (int c = 0; c < 2; c++) {
        uint32_t flags = c ? BG_SPEC_SCATTERED : 0;
        check_compact(flags, 0, true);
        check_compact(flags, 500, true);
        check_compact(flags, 4000, true);
        check_compact(flags, 4600, true); /* two layers */
        check_compact(flags, 100000, false);
    }
    bg_filter *plain = make_filter(BG_KIND_BLOCKED, 4096, 0), *one = plain;
    CHECK_EQ(bg_filter_compact(plain, &one, NULL), BG_ENOTSUP);
    CHECK(one == NULL);
    CHECK_EQ(bg_filter_compact(NULL, &one, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_compact(plain, NULL, NULL), BG_EINVAL);
    bg_filter_free(plain);
}

/* ---- Bad arguments --------------------------------------------------------------- */

static void check_refused(const bg_spec *spec, bg_err code, const char *what)
{
    bg_filter *filter = (bg_filter *)(void *)&filter;
    bg_errinfo why;
    CHECK_EQ(bg_filter_create(spec, &filter, &why), code);
    CHECK(filter == NULL);
    CHECK(strstr(why.what, what) != NULL);
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = *spec;
    CHECK_EQ(bg_plan_compute(&ask, &plan, &why), code);
}

TEST(scalable__refuses_nonsense)
{
    const double rates[] = { 0, 1, -0.5, (double)NAN, (double)INFINITY };
    bg_spec spec;
    for (size_t i = 0; i < 5; i++) {
        spec = scalable_spec(1000, rates[i]);
        check_refused(&spec, BG_EINVAL, "rate");
    }
    spec = scalable_spec(0, 0.01);
    check_refused(&spec, BG_EINVAL, "items");
    spec = scalable_spec(((uint64_t)1 << 56) + 1, 0.01);
    check_refused(&spec, BG_EINVAL, "items");
    spec = scalable_spec(1000, 0.01);
    spec.bytes = 4096;
    check_refused(&spec, BG_EINVAL, "bytes");
    spec = scalable_spec(1000, 0.01);
    spec.bits_per_key = 10;
    check_refused(&spec, BG_EINVAL, "bits_per_key");
    spec = scalable_spec(1000, 0.01);
    spec.width = 3;
    check_refused(&spec, BG_EINVAL, "width");
    spec = scalable_spec(1000, 0.01);
    spec.k = 17;
    check_refused(&spec, BG_EINVAL, "k");
    spec = scalable_spec(1000, 0.01);
    spec.flags = BG_SPEC_ONE_WINNER;
    check_refused(&spec, BG_ENOTSUP, "kind");
    spec = scalable_spec(1000000, 0.01);
    spec.max_bytes = 1000;
    check_refused(&spec, BG_ENOMEM, "size");
    spec = scalable_spec(1000, 0.01);
    spec.struct_size = 8;
    check_refused(&spec, BG_EINVAL, "struct_size");
}

TEST(scalable__is_not_one_piece_of_memory)
{
    bg_spec spec = scalable_spec(1000, 0.01);
    static _Alignas(64) unsigned char memory[65536];
    bg_filter *filter = NULL;
    size_t bytes = 0;
    bg_errinfo why;
    CHECK_EQ(bg_filter_memory_needed(&spec, &bytes, &why), BG_ENOTSUP);
    CHECK_EQ(bg_filter_create_at(memory, sizeof memory, &spec, &filter, &why),
             BG_ENOTSUP);
    CHECK(filter == NULL);
}

TEST(scalable__growth_in_a_plan_has_bounds)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_errinfo why;
    ask.spec = scalable_spec((uint64_t)1 << 50, 0.01);
    ask.growth = 1000;
    CHECK_EQ(bg_plan_compute(&ask, &plan, &why),
             sizeof(size_t) < 8 ? BG_ENOMEM : BG_EINVAL);
    ask.spec = scalable_spec(1000, 0.01);
    ask.growth = 0.5;
    CHECK_EQ(bg_plan_compute(&ask, &plan, &why), BG_EINVAL);
    CHECK_STR(why.what, "growth");
}

TEST(scalable__smallest_and_largest_first_capacity)
{
    bg_spec spec = scalable_spec(1, 0.01);
    bg_filter *filter = must_create(&spec);
    add_range(filter, 0, 30000);
    CHECK_EQ(ask_range(filter, 0, 30000), 30000);
    CHECK((double)ask_range(filter, absent, 100000) < 100000 * 0.012);
    bg_filter_free(filter);
    spec = scalable_spec((uint64_t)1 << 56, 0.01);
    bg_errinfo why;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOMEM);
    CHECK(filter == NULL);
}

/* ---- Failed allocations ---------------------------------------------------------- */

static struct counting c;

/* Grows, copies, merges and compacts filters, and checks that no added key is lost. */
static unsigned fault_scenario(void)
{
    bg_spec spec = scalable_spec(300, 0.01);
    spec.allocator = &c.hooks;
    bg_filter *filter = NULL, *copy = NULL, *one = NULL;
    unsigned failed = 0;
    if (bg_filter_create(&spec, &filter, NULL) != BG_OK) {
        CHECK(filter == NULL);
        return 1;
    }
    for (uint64_t key = 0; key < 5000; key++) {
        added_u64(filter, key);
        CHECK(bg_filter_may_contain_u64(filter, key));
    }
    CHECK_EQ(ask_range(filter, 0, 5000), 5000);
    bg_filter_info info = info_of(filter);
    CHECK(!info.overflowed);
    failed += info.saturated > 0;
    failed += bg_filter_copy(filter, &copy, NULL) != BG_OK;
    bg_filter_clear(filter);
    added_u64(filter, 9999);
    if (copy) {
        bg_err err = bg_filter_merge(filter, copy, NULL);
        CHECK(err == BG_OK || err == BG_ENOMEM);
        failed += err != BG_OK;
        CHECK(err || ask_range(filter, 0, 5000) == 5000);
    }
    CHECK(bg_filter_may_contain_u64(filter, 9999));
    bg_filter_clear(filter);
    added_u64(filter, 7);
    failed += bg_filter_compact(filter, &one, NULL) != BG_OK;
    CHECK(!one || bg_filter_may_contain_u64(one, 7));
    bg_filter_free(one);
    bg_filter_free(copy);
    bg_filter_free(filter);
    return failed;
}

TEST(scalable__every_allocation_fails_once)
{
    for (int onwards = 0; onwards < 2; onwards++) {
        counting_start(&c);
        CHECK_EQ(fault_scenario(), 0);
        size_t calls = c.calls;
        CHECK(calls > 10);
        for (size_t n = 1; n <= calls; n++) {
            counting_start(&c);
            c.fail_at = n;
            c.fail_onwards = onwards;
            CHECK(fault_scenario() > 0);
            CHECK_EQ(c.live, 0);
            CHECK_EQ(c.mistakes, 0);
        }
    }
}

TEST(scalable__max_bytes_stops_growth_and_loses_nothing)
{
    bg_spec spec = scalable_spec(1000, 0.01);
    spec.max_bytes = 16384;
    bg_filter *filter = must_create(&spec);
    add_range(filter, 0, 50000);
    CHECK_EQ(ask_range(filter, 0, 50000), 50000);
    bg_filter_info info = info_of(filter);
    CHECK(info.bytes <= 16384);
    CHECK(info.saturated > 0);
    CHECK(info.rate > 0.01);
    bg_filter_free(filter);
}

/* ---- Threads --------------------------------------------------------------------- */

enum { THREADS = 4, THREAD_KEYS = 30000 };

struct conc {
    bg_filter *filter;
    uint64_t first;
    size_t added;
    bool done[THREAD_KEYS / 100];
};

/* Adds the thread's keys in groups of 100, alternately one by one and as a batch, and publishes the
 * thread's progress. */
static void *conc_add(void *context)
{
    struct conc *t = context;
    for (uint64_t i = 0; i < THREAD_KEYS; i += 100) {
        if (i % 200) {
            t->added += add_range(t->filter, t->first + i, 100);
        } else {
            for (uint64_t j = 0; j < 100; j++) {
                t->added += added_u64(t->filter, t->first + i + j);
            }
        }
        __atomic_store_n(&t->done[i / 100], true, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Checks that keys reported as added are found. */
static void *conc_ask(void *context)
{
    struct conc *all = context;
    uint64_t state = 42;
    for (int turn = 0; turn < 3000; turn++) {
        struct conc *t = &all[check_random_next(&state) % THREADS];
        uint64_t i = check_random_next(&state) % (THREAD_KEYS / 100);
        if (__atomic_load_n(&t->done[i], __ATOMIC_ACQUIRE)) {
            CHECK_EQ(ask_range(t->filter, t->first + 100 * i, 100), 100);
        }
    }
    return NULL;
}

TEST(scalable__threads_lose_nothing_while_it_grows)
{
    static struct conc t[THREADS];
    pthread_t adders[THREADS], asker;
    bg_spec spec = scalable_spec(100, 0.01);
    bg_filter *filter = must_create(&spec);
    memset(t, 0, sizeof t);
    for (int i = 0; i < THREADS; i++) {
        t[i].filter = filter;
        t[i].first = (uint64_t)i << 32;
    }
    CHECK_EQ(pthread_create(&asker, NULL, conc_ask, t), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&adders[i], NULL, conc_add, &t[i]), 0);
    }
    size_t added = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(adders[i], NULL), 0);
        added += t[i].added;
    }
    CHECK_EQ(pthread_join(asker, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(ask_range(filter, t[i].first, THREAD_KEYS), THREAD_KEYS);
    }
    bg_filter_info info = info_of(filter);
    CHECK_NEAR(info.items.value, added, 0.03);
    CHECK(info.rate < 0.0101);
    CHECK(info.saturated < 64 * THREADS * 12); /* (I4) of scalable.c */
    /* Each time the filter grew, only one thread created a layer, so the filter is about as large
     * as if a single thread had added all keys. */
    bg_plan plan = plan_of(&spec, (double)added / 100);
    CHECK(info.bytes <= plan.bytes * 2 + 64 && info.bytes * 2 >= plan.bytes);
    bg_filter_free(filter);
}

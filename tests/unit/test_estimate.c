/*
 * Tests the estimates that a filter reports about itself. The documentation promises that the
 * intervals include the true value 19 times out of 20. The test counts the seeded trials in which
 * the interval includes the true value. The count may fall short of 95% of the trials by four
 * standard deviations, plus 1% for model error. To reject intervals that are too wide, the test
 * also compares their width with the observed standard deviation of the estimates. The tolerance is
 * five standard errors of that deviation, plus 3% for model error. Both tolerances shrink when
 * BG_TEST_SCALE increases the number of trials.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"
#include "kind/model.h"

#include <math.h>

enum { BYTES = 8192, MOST = 400000, TRIALS = 200 };

static uint64_t hashes[MOST];

/* The number of trials in which the interval included the true value, and the sums from which the
 * standard deviation of the estimates is computed. */
struct tally {
    double trials, inside, sum, squares, widths;
};

static void tally_add(struct tally *t, bg_estimate e, double truth)
{
    CHECK(e.low <= e.value && e.value <= e.high);
    CHECK(e.low >= 0);
    t->trials++;
    t->inside += e.low <= truth && truth <= e.high;
    t->sum += e.value - truth;
    t->squares += (e.value - truth) * (e.value - truth);
    t->widths += e.high - e.low;
}

static void tally_check(const struct tally *t, const char *what, bg_kind kind,
                        double fill)
{
    double share = t->inside / t->trials;
    double least = 0.94 - 4 * sqrt(0.95 * 0.05 / t->trials);
    if (share < least) {
        check_fail(
            __FILE__, __LINE__,
            "%s, %s at fill %g: the interval includes the true value in only %g of %g trials",
            what, bg_kind_name(kind), fill, t->inside, t->trials);
    }
}

/* Checks that the mean width of the intervals is that of a 95% interval with the observed standard
 * deviation. */
static void tally_check_width(const struct tally *t, bg_kind kind, double fill)
{
    double mean = t->sum / t->trials;
    double deviation = sqrt(t->squares / t->trials - mean * mean);
    double said = t->widths / t->trials / 2 / 1.96;
    double allowed = 0.03 + 5 / sqrt(2 * t->trials);
    if (!(fabs(said / deviation - 1) < allowed)) {
        check_fail(
            __FILE__, __LINE__,
            "%s at fill %g: the estimate reports +- %g, but the observed standard deviation is %g",
            bg_kind_name(kind), fill, said, deviation);
    }
}

/* Returns the number of keys that bring a filter to the given fill. */
static size_t keys_for(const bg_filter *filter, double fill)
{
    struct bgi_model model = filter->kind->model(filter->core.units, filter->core.k);
    size_t n = (size_t)bgi_model_items(&model, fill);
    CHECK(n > 0 && n <= MOST);
    return n;
}

/* ---- One filter ------------------------------------------------------------------ */

static void check_items(bg_kind kind, uint32_t k, double fill)
{
    bg_spec spec =
        exact_spec(kind, BYTES / kind_unit_bytes(kind, k), k, BG_SPEC_EXCLUSIVE);
    bg_filter *filter = must_create(&spec);
    size_t n = keys_for(filter, fill), trials = TRIALS * check_scale();
    struct tally t = { 0 };
    for (size_t i = 0; i < trials; i++) {
        random_hashes(hashes, n);
        bg_filter_clear(filter);
        (void)added_many(filter, bg_keys_hashes(hashes, n), NULL);
        bg_filter_info info = info_of(filter);
        CHECK_NEAR(info.fill, fill, 0.15);
        tally_add(&t, info.items, (double)n);
    }
    tally_check(&t, "items", kind, fill);
    tally_check_width(&t, kind, fill);
    bg_filter_free(filter);
}

#define ITEMS_TEST(NAME, number, name)                                                 \
    TEST(estimate__items_of_##name)                                                    \
    {                                                                                  \
        static const double fills[] = { 0.03, 0.1, 0.5, 0.9 };                         \
        for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {                    \
            check_items(BG_KIND_##NAME, kind_k_usual(BG_KIND_##NAME), fills[i]);       \
            check_items(BG_KIND_##NAME, kind_k_max(BG_KIND_##NAME), fills[i]);         \
        }                                                                              \
    }
BG_BLOOM_KINDS(ITEMS_TEST)
#undef ITEMS_TEST

/* In a large filter with few keys, nearly every key has set k bits of its own. */
TEST(estimate__few_keys_in_a_large_filter)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        struct tally t = { 0 };
        bg_filter *filter = make_filter(kind_at(i), 1 << 20, 0);
        for (size_t n = 1; n < 100; n++) {
            (void)added_hash(filter, check_random());
            bg_estimate e = info_of(filter).items;
            CHECK_NEAR(e.value, n, 0.5);
            e.low = floor(e.low); /* the number of keys is an integer */
            e.high = ceil(e.high);
            tally_add(&t, e, (double)n);
        }
        tally_check(&t, "items", kind_at(i), 0);
        bg_filter_free(filter);
    }
}

TEST(estimate__of_an_empty_filter)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), BYTES, 0);
        bg_filter_info info = info_of(filter);
        CHECK(info.items.value == 0 && info.items.low == 0 && info.items.high == 0);
        CHECK(info.rate == 0 && info.fill == 0 && info.ones == 0);
        CHECK(bg_filter_fill(filter) == 0);
        bg_overlap o;
        CHECK_OK(bg_filter_overlap(filter, filter, &o, NULL));
        CHECK(o.both.value == 0 && o.either.value == 0 && o.jaccard.value == 0);
        CHECK(o.both.high == 0 && o.jaccard.high == 0);
        bg_filter_free(filter);
    }
}

static void fill_up(bg_filter *filter)
{
    memset(filter->core.words, 0xff, filter->bytes);
}

TEST(estimate__of_a_full_filter)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), BYTES, 0);
        fill_up(filter);
        bg_filter_info info = info_of(filter);
        CHECK_EQ(info.ones, info.bits);
        CHECK(info.fill == 1 && info.rate == 1);
        CHECK(isinf(info.items.high) && info.items.high > 0);
        CHECK(isfinite(info.items.value) && info.items.value > BYTES);
        CHECK(info.items.low > 0 && info.items.low <= info.items.value);
        CHECK(bg_filter_may_contain_hash(filter, check_random()));
        CHECK(!added_hash(filter, check_random()));
        bg_filter_free(filter);
    }
}

TEST(estimate__rate_is_the_predicted_one_at_this_fill)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), BYTES, 0);
        size_t n = BYTES * 8 / 10;
        random_hashes(hashes, n);
        (void)added_many(filter, bg_keys_hashes(hashes, n), NULL);
        bg_filter_info info = info_of(filter);
        CHECK_NEAR(info.rate, bg_predict_rate(info.kind, info.bytes, info.k, n), 0.1);
        CHECK_NEAR(bg_filter_fill(filter), info.fill, 1e-12);
        CHECK_NEAR((double)info.ones / (double)info.bits, info.fill, 1e-12);
        bg_filter_free(filter);
    }
}

/* ---- Two filters ----------------------------------------------------------------- */

/* Checks the estimates for two sets of n keys each that have `common` keys in common. */
static void check_overlap(bg_kind kind, size_t n, size_t common)
{
    struct tally both = { 0 }, either = { 0 }, jaccard = { 0 };
    bg_filter *a = make_filter(kind, BYTES, 0), *b = make_filter(kind, BYTES, 0);
    double all = (double)(2 * n - common);
    for (size_t i = 0; i < TRIALS / 2 * check_scale(); i++) {
        bg_overlap o;
        random_hashes(hashes, 2 * n - common);
        bg_filter_clear(a);
        bg_filter_clear(b);
        (void)added_many(a, bg_keys_hashes(hashes, n), NULL);
        (void)added_many(b, bg_keys_hashes(hashes + n - common, n), NULL);
        CHECK_OK(bg_filter_overlap(a, b, &o, NULL));
        CHECK(o.a.value == info_of(a).items.value && o.b.high == info_of(b).items.high);
        tally_add(&both, o.both, (double)common);
        tally_add(&either, o.either, all);
        tally_add(&jaccard, o.jaccard, (double)common / all);
        CHECK(o.jaccard.high <= 1);
    }
    tally_check(&both, "both", kind, (double)n);
    tally_check(&either, "either", kind, (double)n);
    tally_check(&jaccard, "jaccard", kind, (double)n);
    bg_filter_free(a);
    bg_filter_free(b);
}

TEST(overlap__holds_the_truth)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        check_overlap(kind_at(i), 3000, 0);
        check_overlap(kind_at(i), 3000, 1000);
        check_overlap(kind_at(i), 3000, 2900);
        check_overlap(kind_at(i), 8000, 4000);
        check_overlap(kind_at(i), 500, 100);
    }
}

TEST(overlap__of_a_filter_with_itself)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), BYTES, 0);
        bg_overlap o;
        random_hashes(hashes, 2000);
        (void)added_many(filter, bg_keys_hashes(hashes, 2000), NULL);
        CHECK_OK(bg_filter_overlap(filter, filter, &o, NULL));
        CHECK_NEAR(o.both.value, o.a.value, 1e-9);
        CHECK_NEAR(o.either.value, o.a.value, 1e-9);
        CHECK_NEAR(o.jaccard.value, 1, 1e-9);
        bg_filter_free(filter);
    }
}

TEST(overlap__with_a_full_filter_has_no_upper_bound)
{
    bg_filter *a = make_filter(BG_KIND_BLOCKED, BYTES, 0);
    bg_filter *full = make_filter(BG_KIND_BLOCKED, BYTES, 0);
    bg_overlap o;
    fill_up(full);
    for (int filled = 0; filled <= 1; filled++) {
        CHECK_OK(bg_filter_overlap(a, full, &o, NULL));
        CHECK(isinf(o.either.high) && isinf(o.b.high));
        CHECK(o.both.value >= 0 && o.both.low == 0 && o.both.high <= o.a.high);
        CHECK(o.jaccard.value >= 0 && o.jaccard.low == 0 && o.jaccard.high == 1);
        (void)added_many(a, bg_keys_hashes(hashes, 1000), NULL);
    }
    CHECK_OK(bg_filter_overlap(full, full, &o, NULL));
    CHECK(isinf(o.both.high) && isfinite(o.both.value));
    CHECK(o.jaccard.low == 0 && o.jaccard.high == 1);
    bg_filter_free(a);
    bg_filter_free(full);
}

/* ---- Observed rates -------------------------------------------------------------- */

/* By definition, the bounds are the rates p that are exactly 1.96 standard deviations away from
 * the observed rate: |hits / n - p| = 1.96 sqrt(p (1 - p) / n). */
static void check_wilson_bound(double observed, double n, double p)
{
    CHECK(p > 0 && p < 1);
    CHECK_NEAR(fabs(observed - p), 1.959963984540054 * sqrt(p * (1 - p) / n), 1e-9);
}

TEST(observed_rate__is_the_wilson_interval)
{
    static const uint64_t cases[][2] = { { 5, 100 },      { 10, 100 },    { 99, 100 },
                                         { 1, 2 },        { 3, 1000000 }, { 1, 7 },
                                         { 12345, 23456 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double n = (double)cases[i][1], observed = (double)cases[i][0] / n;
        bg_estimate e = bg_observed_rate(cases[i][0], cases[i][1]);
        CHECK_NEAR(e.value, observed, 1e-12);
        CHECK(e.low < e.value && e.value < e.high);
        check_wilson_bound(observed, n, e.low);
        check_wilson_bound(observed, n, e.high);
    }
}

TEST(observed_rate__at_the_ends)
{
    bg_estimate e = bg_observed_rate(0, 100);
    CHECK(e.value == 0 && e.low == 0);
    check_wilson_bound(0, 100, e.high);
    e = bg_observed_rate(100, 100);
    CHECK(e.value == 1 && e.high == 1);
    check_wilson_bound(1, 100, e.low);
    e = bg_observed_rate(0, 0);
    CHECK(e.value == 0 && e.low == 0 && e.high == 1);
    e = bg_observed_rate(1, UINT64_MAX);
    CHECK(e.low > 0 && e.low < e.value && e.value < e.high && e.high < 1e-18);
}

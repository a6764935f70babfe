/*
 * Checks the rate model against sums that are computed directly, and more slowly: one over the
 * number of keys per unit, and one over the number of set bits. (The tests in tests/prop compare
 * the model with measured rates.)
 */
#define _POSIX_C_SOURCE 200809L /* fork, alarm */

#include "support/check.h"
#include "support/filters.h"

#include "kind/model.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BITS_MAX = 1024 };

static struct bgi_model model_of(bg_kind kind, uint64_t units, uint32_t k)
{
    return bgi_kind_of(kind)->model(units, k);
}

/* Returns the probability that j of n keys fall into a unit, if each key does so with probability
 * p. */
static double binomial(double n, double j, double p)
{
    return exp(lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) + j * log(p)
               + (n - j) * log1p(-p));
}

/* Sets after[x] to the probability that `balls` throws into `bits` bits hit exactly x different
 * bits. */
static void occupancy(unsigned bits, unsigned balls, double *after)
{
    memset(after, 0, (bits + 1) * sizeof *after);
    after[0] = 1;
    for (unsigned ball = 0; ball < balls; ball++) {
        for (unsigned x = bits; x > 0; x--) {
            double again = (double)x / bits, fresh = 1 - (x - 1.0) / bits;
            after[x] = after[x] * again + after[x - 1] * fresh;
        }
        after[0] = 0;
    }
}

/* Returns the probability that all of k throws hit set bits, after `balls` throws have set some
 * bits. */
static double slow_rate_throws(unsigned bits, unsigned balls, unsigned k)
{
    static double after[BITS_MAX + 1];
    double rate = 0;
    occupancy(bits, balls, after);
    for (unsigned x = 0; x <= bits; x++) {
        rate += after[x] * pow((double)x / bits, k);
    }
    return rate;
}

/* Returns the false-positive rate for units with `lanes` lanes, if every key sets a bit in every
 * lane. For a given number of keys in the unit, the lanes are independent. */
static double slow_rate_lanes(unsigned units, unsigned lanes, unsigned bits, unsigned n)
{
    double rate = 0;
    for (unsigned j = 1; j <= n; j++) {
        rate += binomial(n, j, 1.0 / units) * pow(1 - pow(1 - 1.0 / bits, j), lanes);
    }
    return rate;
}

/* The model is exact down to 1e-10. For lower rates, it treats lanes as independent and the number
 * of keys per unit as Poisson-distributed, which overestimates the rate by a small factor and never
 * underestimates it. */
static void check_rate(const struct bgi_model *model, double n, double exact)
{
    double rate = bgi_model_rate(model, n);
    if (exact > 2e-10) {
        CHECK_NEAR(rate, exact, 1e-6);
    } else {
        CHECK(rate > 0.99 * exact && rate < 1e-8);
    }
}

/* ---- Rates ----------------------------------------------------------------------- */

static void check_lanes(bg_kind kind, uint32_t k, unsigned bits, unsigned n)
{
    struct bgi_model model = model_of(kind, 50, k);
    CHECK(model.patterns > 0);
    model.patterns = 0;
    check_rate(&model, n, slow_rate_lanes(50, k, bits, n));
}

TEST(model__split_and_full_lines_equal_the_sum_over_loads)
{
    for (unsigned n = 10; n < 5000; n = n * 2 + 5) {
        check_lanes(BG_KIND_SPLIT, 8, 32, n);
        check_lanes(BG_KIND_BLOCKED, 8, 64, n);
        check_lanes(BG_KIND_BLOCKED, 16, 32, n);
    }
}

/* An absent key that shares a line and the low half of its hash with a present key is always a
 * false positive. */
TEST(model__equal_patterns_are_a_floor)
{
    struct bgi_model model = model_of(BG_KIND_BLOCKED, 1000, 16);
    struct bgi_model without = model;
    without.patterns = 0;
    double floor_rate = bgi_model_rate(&model, 500) - bgi_model_rate(&without, 500);
    CHECK_NEAR(floor_rate, 0.5 / 4294967296.0, 1e-6);
}

static double choose(unsigned n, unsigned k)
{
    double c = 1;
    for (unsigned i = 0; i < k; i++) {
        c = k > n ? 0 : c * (n - i) / (i + 1);
    }
    return c;
}

/* Returns the probability that k distinct random bits of a word are set, after j keys have set k
 * bits each. */
static double slow_rate_word(unsigned j, unsigned k)
{
    double after[65] = { 1 }, rate = 0;
    for (unsigned key = 0; key < j; key++) {
        for (int x = 64; x >= 0; x--) {
            double sum = 0;
            for (unsigned fresh = 0; fresh <= k && fresh <= (unsigned)x; fresh++) {
                unsigned before = (unsigned)x - fresh;
                sum += after[before] * choose(64 - before, fresh)
                       * choose(before, k - fresh) / choose(64, k);
            }
            after[x] = sum;
        }
    }
    for (unsigned x = 0; x <= 64; x++) {
        rate += after[x] * choose(x, k) / choose(64, k);
    }
    return rate;
}

TEST(model__register_equals_the_sum_over_loads_and_bits)
{
    const unsigned units = 40;
    for (unsigned k = 1; k <= 10; k += 3) {
        for (unsigned n = 1; n <= 400; n = n * 3 + 7) {
            struct bgi_model model = model_of(BG_KIND_REGISTER, units, k);
            /* The reference assumes that the bits are not clustered; prop_rate.c tests the rate
             * with clustering. */
            model.clustered = false;
            double rate = 0;
            for (unsigned j = 1; j <= n && j < 60; j++) {
                rate += binomial(n, j, 1.0 / units) * slow_rate_word(j, k);
            }
            check_rate(&model, n, rate);
        }
    }
}

TEST(model__classic_equals_the_sum_over_throws)
{
    for (unsigned k = 2; k <= 16; k += 7) {
        for (unsigned n = 20; n <= 100; n += 40) {
            struct bgi_model model = model_of(BG_KIND_CLASSIC, BITS_MAX / 64, k);
            CHECK_NEAR(bgi_model_rate(&model, n), slow_rate_throws(BITS_MAX, n * k, k),
                       0.01);
        }
    }
}

TEST(model__partitioned_is_the_product_over_slices)
{
    for (uint32_t k = 1; k <= 64; k += 9) {
        struct bgi_model model = model_of(BG_KIND_PARTITIONED, 10, k);
        for (unsigned n = 1; n < 3000; n = 3 * n + 1) {
            CHECK_NEAR(bgi_model_rate(&model, n), pow(1 - pow(1 - 1 / 640.0, n), k),
                       1e-9);
        }
    }
}

/* A key uses only some of the lanes. With one line and one key, a false positive must use the same
 * k of 8 lanes as the key, and the same bit in each of them. */
TEST(model__masked_lines_with_one_key)
{
    for (uint32_t k = 3; k < 8; k++) {
        struct bgi_model model = model_of(BG_KIND_BLOCKED, 1, k);
        model.patterns = 0;
        check_rate(&model, 1, pow(64, -(double)k) / choose(8, k));
    }
}

TEST(model__rate_rises_with_keys_from_0_to_1)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            struct bgi_model model = model_of(kind, 4096 / kind_unit_bytes(kind, k), k);
            double last = 0;
            CHECK(bgi_model_rate(&model, 0) == 0);
            CHECK(bgi_model_rate(&model, -5) == 0);
            CHECK(bgi_model_rate(&model, (double)NAN) == 0);
            for (double n = 0.5; n < 1e7; n *= 1.1) {
                double rate = bgi_model_rate(&model, n);
                CHECK(rate >= last * (1 - 1e-6) || last < 1e-8);
                CHECK(rate >= 0 && rate <= 1);
                last = rate;
            }
            CHECK(last > 0.999);
        }
    }
}

TEST(model__rate_falls_with_size)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        uint32_t k = kind_k_usual(kind);
        double last = 2;
        for (uint64_t units = 1; units < 100000; units = units * 5 / 4 + 1) {
            struct bgi_model model = model_of(kind, units, k);
            double rate = bgi_model_rate(&model, 1000);
            CHECK(rate < last || (rate <= last && rate > 0.999));
            last = rate;
        }
    }
}

/* ---- Fill and its inverse -------------------------------------------------------- */

TEST(model__items_is_the_inverse_of_fill)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            struct bgi_model model =
                model_of(kind, 65536 / kind_unit_bytes(kind, k), k);
            CHECK(bgi_model_fill(&model, 0) == 0);
            CHECK(bgi_model_items(&model, 0) == 0);
            for (double n = 1; n < 200000; n *= 3) {
                double fill = bgi_model_fill(&model, n);
                CHECK(fill > 0 && fill <= 1);
                if (fill < 0.9999) {
                    CHECK_NEAR(bgi_model_items(&model, fill), n, 1e-9);
                }
            }
        }
    }
}

/* In a classic filter, two of the bits that a key sets can coincide, but this is rare. */
TEST(model__one_key_sets_k_bits)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            uint64_t units = 1000;
            struct bgi_model model = model_of(kind, units, k);
            double bits = 8.0 * (double)units * kind_unit_bytes(kind, k);
            CHECK_NEAR(bgi_model_fill(&model, 1) * bits, k, 1e-3);
        }
    }
}

TEST(model__a_single_smallest_unit)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            struct bgi_model model = model_of(kind, 1, k);
            for (double n = 1; n < 1e6; n *= 10) {
                double rate = bgi_model_rate(&model, n);
                double error = bgi_model_items_error(&model, n);
                CHECK(rate > 0 && rate <= 1);
                CHECK(error >= 0);
            }
        }
    }
}

/*
 * With few keys in many bits, keys rarely share a bit, and the error of the estimate derived
 * from the set bits decreases with the square root of the filter's size. A filter of sixteen times
 * the size has a quarter of the error. The remaining error is the difference between two much
 * larger terms. It must not be computed by subtracting them, because the result would be
 * inaccurate.
 */
TEST(model__items_error_of_few_keys_falls_with_size)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        uint32_t k = kind_k_usual(kind);
        uint64_t units = (UINT64_C(1) << 20) / kind_unit_bytes(kind, k);
        struct bgi_model model = model_of(kind, units, k);
        double last = bgi_model_items_error(&model, 10000);
        CHECK(last > 1 && last < 10);
        for (int step = 0; step < 4; step++) { /* up to 64 GiB */
            units *= 16;
            model = model_of(kind, units, k);
            double error = bgi_model_items_error(&model, 10000);
            if (!(fabs(last / error - 4) < 0.2)) {
                check_fail(__FILE__, __LINE__, "%s, %llu units: %g after %g",
                           bg_kind_name(kind), (unsigned long long)units, error, last);
            }
            last = error;
        }
    }
}

/* ---- Cases found by fuzz_plan: few keys in more bits than any machine has -------- */

TEST(model__rates_are_never_negative)
{
    for (double bits = 1e9; bits < 1e18; bits *= 3) {
        for (uint32_t k = 2; k <= 64; k++) {
            struct bgi_model model =
                model_of(BG_KIND_CLASSIC, (uint64_t)(bits / 64), k);
            CHECK(bgi_model_rate(&model, 4) >= 0);
        }
    }
}

/* The model does not lose digits in filters of more than 2^53 bits. */
TEST(model__rates_of_huge_filters)
{
    for (double items = 1e12; items < 1e17; items *= 10) {
        for (uint32_t k = 5; k <= 9; k++) {
            const double expected = pow(-expm1(-(double)k / 9.5), k);
            struct bgi_model model =
                model_of(BG_KIND_CLASSIC, (uint64_t)(items * 9.5 / 64), k);
            CHECK(fabs(bgi_model_rate(&model, items) / expected - 1) < 1e-6);
            CHECK(
                fabs(bgi_model_items(&model, bgi_model_fill(&model, items)) / items - 1)
                < 1e-6);
        }
    }
}

/* The summation over the number of keys per unit ends even if the later terms are negligible
 * compared with the first one. The test runs in a child process, so that an endless summation fails
 * only this test. */
TEST(model__sums_over_tiny_loads_end)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct bgi_model model = model_of(BG_KIND_REGISTER, UINT64_C(1) << 54, 1);
        (void)alarm(300);
        _exit(bgi_model_rate(&model, 1) > 0 ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

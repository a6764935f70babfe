/*
 * The rate model against sums that are computed in another way, slowly: over the number
 * of keys in a unit, and over the number of bits that are set. (Measured rates are
 * compared in tests/prop.)
 */
#include "support/check.h"
#include "support/filters.h"

#include "kind/model.h"

#include <math.h>

enum { BITS_MOST = 1024 };

static struct bgi_model model_of(bg_kind kind, uint64_t units, uint32_t k)
{
    return bgi_kind_of(kind)->model(units, k);
}

/* Probability that j of n keys come to a unit. */
static double binomial(double n, double j, double p)
{
    return exp(lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) + j * log(p)
               + (n - j) * log1p(-p));
}

/* after[x]: probability that `balls` throws into `bits` bits have hit x of them. */
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

/* The chance that k throws hit bits that are set, after `balls` throws have set some. */
static double slow_rate_throws(unsigned bits, unsigned balls, unsigned k)
{
    static double after[BITS_MOST + 1];
    double rate = 0;
    occupancy(bits, balls, after);
    for (unsigned x = 0; x <= bits; x++) {
        rate += after[x] * pow((double)x / bits, k);
    }
    return rate;
}

/* Units with `lanes` lanes of which a key uses all: lanes are independent, given the
 * number of keys in the unit. */
static double slow_rate_lanes(unsigned units, unsigned lanes, unsigned bits, unsigned n)
{
    double rate = 0;
    for (unsigned j = 1; j <= n; j++) {
        rate += binomial(n, j, 1.0 / units) * pow(1 - pow(1 - 1.0 / bits, j), lanes);
    }
    return rate;
}

/* ---- Rates --------------------------------------------------------------------------- */

TEST(model__split_and_full_lines_equal_the_sum_over_loads)
{
    static const unsigned keys[] = { 1, 10, 300, 1000, 3000 };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        unsigned n = keys[i];
        double floor_rate = n / 50.0 / 4294967296.0; /* equal patterns */
        struct bgi_model split = model_of(BG_KIND_SPLIT, 50, 8);
        struct bgi_model columns = model_of(BG_KIND_BLOCKED, 50, 8);
        struct bgi_model full = model_of(BG_KIND_BLOCKED, 50, 16);
        CHECK_NEAR(bgi_model_rate(&split, n),
                   slow_rate_lanes(50, 8, 32, n) + floor_rate, 1e-6);
        CHECK_NEAR(bgi_model_rate(&columns, n),
                   slow_rate_lanes(50, 8, 64, n) + floor_rate, 1e-6);
        CHECK_NEAR(bgi_model_rate(&full, n),
                   slow_rate_lanes(50, 16, 32, n) + floor_rate, n > 100 ? 1e-6 : 0.1);
    }
}

TEST(model__register_equals_the_sum_over_loads_and_throws)
{
    for (unsigned k = 1; k <= 10; k++) {
        for (unsigned n = 1; n <= 400; n = n * 3 + 7) {
            const unsigned units = 40;
            struct bgi_model model = model_of(BG_KIND_REGISTER, units, k);
            double rate = 0;
            for (unsigned j = 1; j <= n && j < 60; j++) {
                rate += binomial(n, j, 1.0 / units) * slow_rate_throws(64, j * k, k);
            }
            CHECK_NEAR(bgi_model_rate(&model, n), rate, rate > 1e-9 ? 1e-6 : 0.2);
        }
    }
}

TEST(model__classic_equals_the_sum_over_throws)
{
    for (unsigned k = 2; k <= 16; k += 7) {
        for (unsigned n = 20; n <= 100; n += 40) {
            struct bgi_model model = model_of(BG_KIND_CLASSIC, BITS_MOST / 64, k);
            CHECK_NEAR(bgi_model_rate(&model, n), slow_rate_throws(BITS_MOST, n * k, k),
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

/* Lanes of which a key uses some: below all of them independent with the same number of
 * bits, above one bit anywhere. Exactly: one line, one key. */
TEST(model__masked_lines_with_one_key)
{
    for (uint32_t k = 3; k < 8; k++) {
        struct bgi_model model = model_of(BG_KIND_BLOCKED, 1, k);
        double choose = 1; /* the same k of 8 lanes, and the same bit in each */
        for (uint32_t i = 0; i < k; i++) {
            choose = choose * (8 - i) / (i + 1);
        }
        double rate = pow(64, -(double)k) / choose + 1 / 4294967296.0;
        CHECK_NEAR(bgi_model_rate(&model, 1), rate, k < 5 ? 1e-6 : 0.3);
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
                CHECK(rate >= last * (1 - 1e-6) && rate <= 1);
                last = rate;
            }
            CHECK(last > 0.999);
        }
    }
}

/* Where the exact sum has too few digits another one takes over: no step there. */
TEST(model__small_rates_have_no_step)
{
    for (uint32_t k = 3; k <= 16; k++) {
        struct bgi_model model = model_of(BG_KIND_BLOCKED, 1000, k);
        model.patterns = 0;
        double last = 0;
        for (double n = 20; n < 20000; n *= 1.02) {
            double rate = bgi_model_rate(&model, n);
            if (last > 1e-14) {
                CHECK(rate / last >= 1 && rate / last < 1.5);
            }
            last = rate;
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

/* ---- Fill and its inverse -------------------------------------------------------------- */

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

/* One key sets k bits, or a bit fewer where they may coincide. */
TEST(model__one_key_sets_k_bits)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            uint64_t units = 1000;
            struct bgi_model model = model_of(kind, units, k);
            double bits = 8.0 * (double)units * kind_unit_bytes(kind, k);
            double expected = kind == BG_KIND_REGISTER ? 64 - 64 * pow(63 / 64.0, k)
                                                       : (double)k;
            CHECK_NEAR(bgi_model_fill(&model, 1) * bits, expected, 1e-3);
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

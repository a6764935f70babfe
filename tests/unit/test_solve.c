/*
 * Tests the computation of a geometry for a request: the documented bits per key, the best k, sizes
 * that grow with the request, limits, and the choice of kind.
 */
#include "support/check.h"
#include "support/filters.h"

#include <math.h>
#include <stdio.h>

static bg_plan plan_of(const bg_spec *spec)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan = { 0 };
    bg_errinfo why;
    ask.spec = *spec;
    if (bg_plan_compute(&ask, &plan, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "plan: %s", why.message);
    }
    return plan;
}

static bg_spec rate_spec(bg_kind kind, uint64_t items, double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = rate;
    return spec;
}

static bg_spec bytes_spec(bg_kind kind, uint64_t items, uint64_t bytes)
{
    bg_spec spec = rate_spec(kind, items, 0);
    spec.bytes = bytes;
    return spec;
}

static double bits_for(bg_kind kind, double rate)
{
    bg_spec spec = rate_spec(kind, 10000000, rate);
    return plan_of(&spec).bits_per_key;
}

/* ---- Documented figures ---------------------------------------------------------- */

TEST(solve__promised_bits_per_key)
{
    CHECK(bits_for(BG_KIND_CLASSIC, 0.01) <= 9.6);
    CHECK(bits_for(BG_KIND_CLASSIC, 0.001) <= 14.4);
    CHECK(bits_for(BG_KIND_PARTITIONED, 0.01) <= 9.6);
    CHECK(bits_for(BG_KIND_PARTITIONED, 0.001) <= 14.4);
    CHECK(bits_for(BG_KIND_BLOCKED, 0.01) <= 10.2);
    CHECK(bits_for(BG_KIND_BLOCKED, 0.001) <= 15.8);
    CHECK(bits_for(BG_KIND_SPLIT, 0.01) <= 10.6);
    CHECK(bits_for(BG_KIND_SPLIT, 0.001) <= 17.0);
    CHECK(bits_for(BG_KIND_REGISTER, 0.01) <= 11.9);
    CHECK(bits_for(BG_KIND_REGISTER, 0.001) <= 23.2);
}

/* A Bloom filter needs at least 1.44 log2(1 / rate) bits per key, so a model that predicts fewer is
 * wrong. */
TEST(solve__no_kind_beats_what_is_possible)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        for (double rate = 0.3; rate > 1e-4; rate /= 2) {
            CHECK(bits_for(kind_at(i), rate) > -1.44 * log2(rate) * 0.999);
        }
    }
}

/* As plan.h documents, 10 bits per key give a rate of 0.82% in a classic filter, 0.97% in a blocked
 * filter and 1.27% in a Parquet filter. */
TEST(solve__rates_at_10_bits_per_key)
{
    bg_spec spec = rate_spec(BG_KIND_CLASSIC, 1000000, 0);
    spec.bits_per_key = 10;
    CHECK_NEAR(plan_of(&spec).rate, 0.0082, 0.01);
    spec.kind = BG_KIND_BLOCKED;
    CHECK_NEAR(plan_of(&spec).rate, 0.0097, 0.02);
    spec.kind = BG_KIND_SPLIT;
    CHECK_NEAR(plan_of(&spec).rate, 0.0127, 0.01);
}

/* ---- The best k ------------------------------------------------------------------ */

/* Checks that no other k needs fewer bytes for the given rate, apart from one unit and the
 * tolerance of the size search. */
static void check_best_for_rate(bg_kind kind, uint64_t items, double rate)
{
    bg_spec spec = rate_spec(kind, items, rate);
    bg_plan best = plan_of(&spec);
    CHECK(best.rate <= rate);
    for (spec.k = kind_k_min(kind); spec.k <= kind_k_max(kind); spec.k++) {
        bg_plan_request ask = BG_PLAN_REQUEST_INIT;
        bg_plan other;
        ask.spec = spec;
        if (bg_plan_compute(&ask, &other, NULL) != BG_OK) {
            continue; /* this k cannot reach the rate */
        }
        CHECK_EQ(other.k, spec.k);
        CHECK(other.rate <= rate);
        double most =
            (double)other.bytes * (1 + 2.0 / 4096) + kind_unit_bytes(kind, best.k);
        if ((double)best.bytes > most) {
            check_fail(__FILE__, __LINE__,
                       "%s, %llu items, rate %g: k %u takes %llu bytes, k %u %llu",
                       bg_kind_name(kind), (unsigned long long)items, rate, best.k,
                       (unsigned long long)best.bytes, other.k,
                       (unsigned long long)other.bytes);
        }
    }
}

TEST(solve__k_is_the_best_for_a_rate)
{
    static const double rates[] = { 0.5, 0.1, 0.02, 0.01, 1e-3, 1e-4, 1e-5 };
    static const uint64_t items[] = { 10, 100, 1000, 100000, 100000000 };
    for (int i = 0; i < KIND_COUNT; i++) {
        for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
            if (kind_at(i) == BG_KIND_REGISTER && rates[r] < 1e-4) {
                continue;
            }
            for (size_t n = 0; n < sizeof items / sizeof *items; n++) {
                check_best_for_rate(kind_at(i), items[n], rates[r]);
            }
        }
    }
}

/* Checks that no other k has a lower rate for the given size. */
static void check_best_for_bytes(bg_kind kind, uint64_t items, uint64_t bytes)
{
    bg_spec spec = bytes_spec(kind, items, bytes);
    bg_plan best = plan_of(&spec);
    CHECK(best.bytes <= bytes);
    for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
        double rate = bg_predict_rate(kind, bytes, k, items);
        if (rate < best.rate * (1 - 1e-9)) {
            check_fail(__FILE__, __LINE__,
                       "%s, %llu items in %llu bytes: k %u gives %g, k %u %g",
                       bg_kind_name(kind), (unsigned long long)items,
                       (unsigned long long)bytes, best.k, best.rate, k, rate);
        }
    }
}

TEST(solve__k_is_the_best_for_a_size)
{
    static const double bits[] = { 2, 4, 8, 10, 14.4, 20, 33, 51.2, 100 };
    static const uint64_t items[] = { 10, 100, 1000, 100000, 100000000 };
    for (int i = 0; i < KIND_COUNT; i++) {
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            for (size_t n = 0; n < sizeof items / sizeof *items; n++) {
                double bytes = (double)items[n] * bits[b] / 8;
                bytes = fmax(bytes, 64);
                check_best_for_bytes(kind_at(i), items[n], (uint64_t)bytes);
            }
        }
    }
}

/* ---- Bits per key ---------------------------------------------------------------- */

/* The size is less than one unit below the requested size. It exceeds the requested size only if
 * the kind's smallest unit does. */
TEST(solve__bits_per_key_are_kept)
{
    static const uint64_t items[] = { 1, 10, 100, 1000, 1000000 };
    for (int i = 0; i < KIND_COUNT; i++) {
        for (size_t n = 0; n < sizeof items / sizeof *items; n++) {
            for (double bits = 1; bits <= 1024; bits *= 2) {
                bg_spec spec = rate_spec(kind_at(i), items[n], 0);
                spec.bits_per_key = bits;
                bg_plan plan = plan_of(&spec);
                double bytes = (double)items[n] * bits / 8;
                double unit = kind_unit_bytes(kind_at(i), plan.k);
                double least = kind_unit_bytes(kind_at(i), kind_k_min(kind_at(i)));
                if (!((double)plan.bytes <= fmax(bytes, least)
                      && (double)plan.bytes > bytes - unit)) {
                    check_fail(__FILE__, __LINE__,
                               "%s: %llu items x %g bits: k %u, %llu bytes",
                               bg_kind_name(kind_at(i)), (unsigned long long)items[n],
                               bits, plan.k, (unsigned long long)plan.bytes);
                }
            }
        }
    }
}

TEST(solve__bits_per_key_with_k)
{
    bg_spec spec = rate_spec(BG_KIND_PARTITIONED, 10, 0);
    spec.bits_per_key = 10;
    spec.k = 20; /* a single unit exceeds the requested size */
    bg_plan plan = plan_of(&spec);
    CHECK_EQ(plan.k, 20);
    CHECK_EQ(plan.units, 1);
    CHECK_EQ(plan.bytes, 160);
}

/* ---- Sizes ----------------------------------------------------------------------- */

TEST(solve__size_grows_with_items_and_shrinks_with_rate)
{
    const uint64_t most = UINT64_C(1) << (sizeof(size_t) < 8 ? 29 : 34);
    for (int i = 0; i < KIND_COUNT; i++) {
        uint64_t last = 0;
        for (uint64_t items = 1; items < most; items = items * 3 + 1) {
            bg_spec spec = rate_spec(kind_at(i), items, 0.01);
            bg_plan plan = plan_of(&spec);
            CHECK(plan.bytes >= last);
            CHECK(plan.rate <= 0.01);
            last = plan.bytes;
        }
        last = UINT64_MAX;
        for (double rate = 1e-4; rate < 0.9; rate *= 1.3) {
            bg_spec spec = rate_spec(kind_at(i), 100000, rate);
            bg_plan plan = plan_of(&spec);
            CHECK(plan.bytes <= last);
            CHECK(plan.rate <= rate && plan.rate > rate * 0.9);
            last = plan.bytes;
        }
    }
}

/* Within the tolerance of the size search, any smaller filter would exceed the requested rate. */
TEST(solve__size_is_not_larger_than_needed)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        for (uint64_t items = 50; items < 1000000; items *= 7) {
            bg_spec spec = rate_spec(kind_at(i), items, 0.01);
            bg_plan plan = plan_of(&spec);
            uint64_t unit = plan.bytes / plan.units;
            uint64_t less = (uint64_t)((double)plan.units * (1 - 2.0 / 4096));
            if (less < 2) {
                continue;
            }
            double rate = bg_predict_rate(plan.kind, --less * unit, plan.k, items);
            if (!(rate > 0.01)) {
                check_fail(
                    __FILE__, __LINE__, "%s, %llu items: %llu units, but %llu give %g",
                    bg_kind_name(plan.kind), (unsigned long long)items,
                    (unsigned long long)plan.units, (unsigned long long)less, rate);
            }
        }
    }
}

TEST(solve__rate_falls_with_bytes)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        double last = 2;
        for (uint64_t bytes = 2000; bytes < 100000; bytes = bytes * 9 / 8) {
            bg_spec spec = bytes_spec(kind_at(i), 10000, bytes);
            bg_plan plan = plan_of(&spec);
            CHECK(plan.bytes <= bytes);
            CHECK(plan.bytes + kind_unit_bytes(kind_at(i), plan.k) > bytes);
            CHECK(plan.rate < last);
            last = plan.rate;
        }
    }
}

TEST(solve__exact_geometry_needs_no_items)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            bg_spec spec = exact_spec(kind, 11, k, 0);
            spec.bytes += kind_unit_bytes(kind, k) - 1; /* rounded down */
            bg_plan plan = plan_of(&spec);
            CHECK_EQ(plan.kind, kind);
            CHECK_EQ(plan.k, k);
            CHECK_EQ(plan.units, 11);
            CHECK_EQ(plan.bytes, 11 * kind_unit_bytes(kind, k));
            CHECK(plan.rate == 0 && plan.bits_per_key == 0);
        }
    }
}

/* A number of bytes that a double cannot represent exactly is still rounded down to an exact
 * multiple of the unit. */
TEST(solve__bytes_are_exact_beyond_2_to_the_53)
{
    if (sizeof(size_t) < 8) {
        return;
    }
    bg_spec spec = exact_spec(BG_KIND_REGISTER, UINT64_C(12057449592163819), 5, 0);
    for (uint64_t more = 0; more < 8; more++) {
        CHECK_EQ(plan_of(&spec).units, UINT64_C(12057449592163819));
        spec.bytes++;
    }
    CHECK_EQ(plan_of(&spec).units, UINT64_C(12057449592163820));
}

/* ---- Folds ----------------------------------------------------------------------- */

TEST(solve__folds_are_honoured)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        for (uint32_t folds = 0; folds <= 10; folds++) {
            bg_spec spec = rate_spec(kind_at(i), 50001, 0.01);
            uint64_t plain = plan_of(&spec).units;
            spec.folds = folds;
            bg_plan plan = plan_of(&spec);
            CHECK_EQ(plan.units % (1u << folds), 0);
            CHECK(plan.units >= plain && plan.units < plain + (1u << folds));
            CHECK(plan.rate <= 0.01);
            bg_filter *filter = must_create(&spec), *folded = NULL;
            CHECK(info_of(filter).foldable >= folds);
            if (folds) {
                CHECK_OK(bg_filter_fold(filter, folds, &folded, NULL));
                bg_filter_free(folded);
            }
            bg_filter_free(filter);
        }
    }
}

/* A foldable filter's size is rounded down to fit the given number of bytes, never up. */
TEST(solve__folds_within_given_bytes)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = bytes_spec(kind_at(i), 10000, 100000);
        spec.folds = 5;
        bg_plan plan = plan_of(&spec);
        CHECK_EQ(plan.units % 32, 0);
        CHECK(plan.bytes <= 100000);
        CHECK(plan.bytes + 32 * kind_unit_bytes(kind_at(i), plan.k) > 100000);
        CHECK_NEAR(plan.rate,
                   bg_predict_rate(plan.kind, plan.bytes, plan.k, plan.items), 1e-12);
    }
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, 31, 8, 0);
    bg_filter *filter = NULL;
    bg_errinfo why;
    spec.folds = 5;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "bytes");
}

/* ---- Limits ---------------------------------------------------------------------- */

TEST(solve__max_bytes_is_a_limit_and_nothing_is_allocated)
{
    static struct counting c;
    for (int i = 0; i < KIND_COUNT; i++) {
        counting_start(&c);
        bg_spec spec = rate_spec(kind_at(i), 1000000, 0.01);
        uint64_t bytes = plan_of(&spec).bytes;
        bg_filter *filter = (bg_filter *)(void *)&spec;
        bg_errinfo why;
        char text[40];
        spec.allocator = &c.hooks;
        spec.max_bytes = bytes - 1;
        CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOMEM);
        CHECK(filter == NULL);
        CHECK_EQ(c.calls, 0);
        CHECK_STR(why.what, "size in bytes");
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        CHECK_STR(why.found, text);
        CHECK(strstr(why.expected, "max_bytes") != NULL);
        spec.max_bytes = bytes;
        CHECK_OK(bg_filter_create(&spec, &filter, &why));
        CHECK_EQ(why.code, BG_OK);
        CHECK_EQ(c.calls, 1);
        bg_filter_free(filter);
        CHECK_EQ(c.live, 0);
    }
}

/* ---- The kind -------------------------------------------------------------------- */

TEST(solve__auto_is_blocked)
{
    bg_spec spec = rate_spec(BG_KIND_AUTO, 1000000, 0.01);
    bg_plan plan = plan_of(&spec);
    CHECK_EQ(plan.kind, BG_KIND_BLOCKED);
    CHECK(strstr(plan.reason, "blocked") != NULL);
    spec.kind = BG_KIND_BLOCKED;
    CHECK_EQ(plan_of(&spec).bytes, plan.bytes);
    CHECK(strstr(plan_of(&spec).reason, "as requested") != NULL);
}

TEST(solve__auto_is_classic_where_only_that_fits)
{
    bg_spec spec = rate_spec(BG_KIND_AUTO, 1000000, 0.001);
    /* A blocked filter needs 15.6 bits per key, a classic one 14.4. */
    spec.max_bytes = 15 * 1000000 / 8;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_errinfo why;
    ask.spec = spec;
    CHECK_OK(bg_plan_compute(&ask, &plan, &why));
    CHECK_EQ(why.code, BG_OK);
    CHECK_STR(why.message, "");
    CHECK_EQ(plan.kind, BG_KIND_CLASSIC);
    CHECK(strstr(plan.reason, "classic") != NULL);
    CHECK(plan.bytes <= spec.max_bytes && plan.rate <= 0.001);
    ask.spec.max_bytes = 14 * 1000000 / 8; /* neither fits */
    CHECK_EQ(bg_plan_compute(&ask, &plan, &why), BG_ENOMEM);
    ask.spec = rate_spec(BG_KIND_AUTO, 1000000, 0.01);
    ask.spec.k = 40; /* too large for the lines of a blocked filter */
    CHECK_OK(bg_plan_compute(&ask, &plan, &why));
    CHECK_EQ(plan.kind, BG_KIND_CLASSIC);
    CHECK_EQ(plan.k, 40);
}

/* Below a rate of about 1e-7, the lines of a blocked filter are filled so unevenly that it needs
 * more than 1.5 times as much memory as a classic filter. */
TEST(solve__auto_is_classic_where_blocked_takes_half_as_much_again)
{
    for (double rate = 0.1; rate > 1e-9; rate /= 3) {
        bg_spec spec = rate_spec(BG_KIND_AUTO, 1000000, rate);
        bg_plan chosen = plan_of(&spec);
        spec.kind = BG_KIND_CLASSIC;
        double classic = (double)plan_of(&spec).bytes;
        bg_plan_request ask = BG_PLAN_REQUEST_INIT;
        bg_plan blocked;
        ask.spec = spec;
        ask.spec.kind = BG_KIND_BLOCKED;
        bool pays = bg_plan_compute(&ask, &blocked, NULL) == BG_OK
                    && (double)blocked.bytes <= 1.5 * classic;
        CHECK_EQ(chosen.kind, pays ? BG_KIND_BLOCKED : BG_KIND_CLASSIC);
        CHECK(pays || rate < 1e-5);
        CHECK(!pays || rate > 1e-9);
    }
}

TEST(solve__one_winner_is_register)
{
    bg_spec spec = rate_spec(BG_KIND_AUTO, 1000000, 0.01);
    spec.flags = BG_SPEC_ONE_WINNER;
    bg_plan plan = plan_of(&spec);
    CHECK_EQ(plan.kind, BG_KIND_REGISTER);
    CHECK(strstr(plan.reason, "register") != NULL);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = (bg_filter *)(void *)&spec;
        bg_errinfo why;
        spec.kind = (uint32_t)kind_at(i);
        bg_err err = bg_filter_create(&spec, &filter, &why);
        if (kind_at(i) == BG_KIND_REGISTER) {
            CHECK_OK(err);
            bg_filter_free(filter);
        } else {
            CHECK_EQ(err, BG_ENOTSUP);
            CHECK(filter == NULL);
            CHECK_STR(why.what, "kind");
            CHECK_STR(why.found, bg_kind_name(kind_at(i)));
        }
    }
}

TEST(solve__a_rate_that_no_size_reaches)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = rate_spec(kind_at(i), 1000, 1e-300);
        bg_filter *filter = (bg_filter *)(void *)&spec;
        bg_errinfo why;
        CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOTSUP);
        CHECK(filter == NULL);
        CHECK_STR(why.what, "rate");
        CHECK_STR(why.found, "1e-300 for 1000 items");
        CHECK(strstr(why.expected, "1024 bits") != NULL);
    }
}

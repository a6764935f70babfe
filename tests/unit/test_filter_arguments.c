/*
 * Invalid arguments: each one is refused with the right error code. The error details include the
 * argument, its value and the allowed values. Nothing is allocated, and the returned handle is
 * NULL.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/samples.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static struct counting c;

static bg_spec good_spec(void)
{
    bg_spec spec = BG_SPEC_INIT;
    counting_start(&c);
    spec.items = 1000;
    spec.rate = 0.01;
    spec.allocator = &c.hooks;
    return spec;
}

/* Checks that the spec is refused, and that the allowed values in the error details include
 * `allowed`. */
static void check_refused(const bg_spec *spec, bg_err code, const char *what,
                          const char *found, const char *allowed)
{
    bg_filter *filter = (bg_filter *)(void *)&c;
    bg_errinfo why;
    size_t bytes = 12345;
    memset(&why, 0xff, sizeof why);
    CHECK_EQ(bg_filter_create(spec, &filter, &why), code);
    CHECK(filter == NULL);
    CHECK_EQ(why.code, code);
    CHECK_STR(why.what, what);
    CHECK_STR(why.found, found);
    CHECK(strstr(why.expected, allowed) != NULL);
    CHECK(strstr(why.message, what) && strstr(why.message, found)
          && strstr(why.message, allowed));
    CHECK_EQ(c.calls, 0);
    filter = (bg_filter *)(void *)&c;
    CHECK_EQ(bg_filter_create(spec, &filter, NULL), code);
    CHECK(filter == NULL);
    CHECK_EQ(bg_filter_memory_needed(spec, &bytes, &why), code);
    CHECK_EQ(bytes, 12345);
    CHECK_STR(why.what, what);
    filter = (bg_filter *)(void *)&c;
    CHECK_EQ(bg_filter_create_at(&c, sizeof c, spec, &filter, &why), code);
    CHECK(filter == NULL);
    CHECK_STR(why.what, what);
}

/* ---- Items ----------------------------------------------------------------------- */

TEST(arguments__items)
{
    bg_spec spec = good_spec();
    spec.items = 0;
    check_refused(&spec, BG_EINVAL, "items", "0", "1 or more");
    spec.items = (UINT64_C(1) << 56) + 1;
    check_refused(&spec, BG_EINVAL, "items", "72057594037927937", "2^56");
    spec.items = UINT64_C(1) << 63;
    check_refused(&spec, BG_EINVAL, "items", "9223372036854775808", "2^56");
    spec.items = UINT64_MAX;
    check_refused(&spec, BG_EINVAL, "items", "18446744073709551615", "2^56");
}

TEST(arguments__items_beside_bytes)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = exact_spec(kind_at(i), 100, kind_k_usual(kind_at(i)), 0);
        (void)good_spec();
        spec.k = 0; /* a kind and a size alone do not determine a geometry */
        check_refused(&spec, BG_EINVAL, "items", "0", "1 or more");
        spec.k = kind_k_usual(kind_at(i));
        spec.kind = BG_KIND_AUTO;
        check_refused(&spec, BG_EINVAL, "items", "0", "1 or more");
    }
}

/* ---- Rates and sizes ------------------------------------------------------------- */

TEST(arguments__rate)
{
    static const struct {
        double rate;
        const char *text;
    } bad[] = { { 1, "1" },
                { 1.5, "1.5" },
                { -0.01, "-0.01" },
                { -DBL_MIN, "-2.22507e-308" },
                { (double)NAN, "nan" },
                { (double)INFINITY, "inf" },
                { -(double)INFINITY, "-inf" },
                { DBL_MAX, "1.79769e+308" } };
    bg_spec spec = good_spec();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spec.rate = bad[i].rate;
        check_refused(&spec, BG_EINVAL, "rate", bad[i].text, "above 0 and below 1");
    }
    spec.rate = 0;
    check_refused(&spec, BG_EINVAL, "rate, bits_per_key, bytes", "0 values",
                  "exactly one");
    spec.rate =
        4.94065645841246544e-324; /* the smallest positive double; no filter can reach this rate */
    for (int i = 0; i < KIND_COUNT; i++) {
        spec.kind = (uint32_t)kind_at(i);
        check_refused(&spec, BG_ENOTSUP, "rate", "4.94066e-324 for 1000 items",
                      "1024 bits");
    }
}

TEST(arguments__bits_per_key)
{
    static const struct {
        double bits;
        const char *text;
    } bad[] = { { 0.99, "0.99" },
                { 1024.5, "1024.5" },
                { 1e9, "1e+09" },
                { -1, "-1" },
                { DBL_MIN, "2.22507e-308" },
                { (double)NAN, "nan" },
                { (double)INFINITY, "inf" } };
    bg_spec spec = good_spec();
    spec.rate = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spec.bits_per_key = bad[i].bits;
        check_refused(&spec, BG_EINVAL, "bits_per_key", bad[i].text, "1 .. 1024");
    }
}

TEST(arguments__exactly_one_size)
{
    bg_spec spec = good_spec();
    spec.bits_per_key = 10;
    check_refused(&spec, BG_EINVAL, "rate, bits_per_key, bytes", "2 values",
                  "exactly one");
    spec.bytes = 1000;
    check_refused(&spec, BG_EINVAL, "rate, bits_per_key, bytes", "3 values",
                  "exactly one");
}

TEST(arguments__bytes)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        bg_spec spec = exact_spec(kind, 1, kind_k_max(kind), 0);
        (void)good_spec();
        char text[32];
        spec.bytes--; /* less than a unit */
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)spec.bytes);
        check_refused(&spec, BG_EINVAL, "bytes", text, bg_kind_name(kind));
        spec.bytes = UINT64_MAX;
        check_refused(&spec, BG_EINVAL, "bytes", "18446744073709551615",
                      bg_kind_name(kind));
        spec.k = 0;
        spec.items = 1000;
        check_refused(&spec, BG_EINVAL, "bytes", "18446744073709551615",
                      bg_kind_name(kind));
    }
}

/* Sizes that are legal but exceed the memory of any machine are refused before any allocation. */
TEST(arguments__sizes_that_no_machine_has)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = good_spec();
        bg_filter *filter = (bg_filter *)(void *)&c;
        bg_errinfo why;
        spec.kind = (uint32_t)kind_at(i);
        spec.items = UINT64_C(1) << 56;
        spec.rate = 0;
        spec.bits_per_key = 1024;
        bg_err err = bg_filter_create(&spec, &filter, &why);
        CHECK(err == BG_EINVAL || err == BG_ENOMEM);
        CHECK(filter == NULL);
        CHECK_EQ(c.calls, 0);
        CHECK(why.message[0] != 0);
    }
}

/* ---- Every kind, and builders ------------------------------------------------------ */

/* Checks that creating a filter (and, for static kinds, a builder) is refused and allocates
 * nothing. */
static void check_every_refused(unsigned sample, const bg_spec *spec, bg_err code,
                                const char *what)
{
    bg_filter *filter = (bg_filter *)(void *)&c;
    bg_builder *builder = (bg_builder *)(void *)&c;
    bg_errinfo why;
    bg_err err = bg_filter_create(spec, &filter, &why);
    CHECK(filter == NULL);
    CHECK(why.message[0] != 0);
    CHECK_EQ(c.calls, 0);
    if (sample_is_static(sample)) {
        /* BG_ENOTSUP means that the kind needs a builder. */
        CHECK(err == code || err == BG_ENOTSUP);
        err = bg_builder_create(spec, &builder, &why);
        CHECK(builder == NULL);
        CHECK_EQ(c.calls, 0);
    }
    if (err != code || !strstr(why.what, what)) {
        check_fail(__FILE__, __LINE__, "%s: %s", samples[sample].name, why.message);
    }
}

static bg_spec every_spec(unsigned sample, uint64_t items, double rate)
{
    bg_spec spec = sample_variant(sample);
    counting_start(&c);
    spec.items = items;
    spec.rate = rate;
    spec.allocator = &c.hooks;
    return spec;
}

TEST(arguments__every_kind_refuses_rates_that_are_none)
{
    static const double bad[] = {
        0, 1, 1.5, -0.01, (double)NAN, (double)INFINITY, -(double)INFINITY
    };
    for (unsigned s = 0; s < SAMPLES; s++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            bg_spec spec = every_spec(s, 1000, bad[i]);
            check_every_refused(s, &spec, BG_EINVAL, "rate");
        }
    }
}

TEST(arguments__every_kind_refuses_numbers_of_keys_that_are_none)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (!sample_is_static(s)) { /* builders ignore it */
            bg_spec spec = every_spec(s, 0, 0.01);
            check_every_refused(s, &spec, BG_EINVAL, "items");
            spec = every_spec(s, UINT64_MAX, 0.01);
            check_every_refused(s, &spec, BG_EINVAL, "items");
        }
    }
}

/* For 2^40 keys, planning either succeeds or returns the reason why it failed. A size over
 * max_bytes is refused. */
TEST(arguments__every_kind_plans_a_trillion_keys)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        bg_spec spec = every_spec(s, UINT64_C(1) << 40, 0.01);
        bg_plan_request ask = BG_PLAN_REQUEST_INIT;
        bg_filter *filter = NULL;
        bg_plan plan;
        bg_errinfo why;
        ask.spec = spec;
        bg_err err = bg_plan_compute(&ask, &plan, &why);
        if (err == BG_OK) {
            CHECK(plan.rate <= 0.01);
            CHECK(plan.bytes > UINT64_C(1) << 38);
        } else { /* the size exceeds the kind's 32-bit unit indexes or a 32-bit size_t */
            CHECK(sizeof(size_t) == 4 || err == BG_ENOTSUP);
            CHECK(sizeof(size_t) == 4 || strstr(why.message, "maximum size"));
        }
        spec.max_bytes = 1 << 30;
        bg_err refused = bg_filter_create(&spec, &filter, &why);
        CHECK(refused == BG_ENOMEM || refused == BG_ENOTSUP);
        CHECK(filter == NULL && why.message[0] != 0);
        CHECK_EQ(c.calls, 0);
    }
}

/* One key. */
TEST(arguments__every_kind_is_made_for_one_key)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        bg_spec spec = sample_spec(s, 1, 0.01);
        struct filling fill;
        const uint64_t key = 42;
        size_t strangers = 0;
        filling_begin(&fill, s, &spec, 1);
        filling_add_u64(&fill, &key, 1);
        bg_filter *filter = filling_end(&fill);
        CHECK(bg_filter_may_contain_u64(filter, key));
        for (uint64_t i = 100; i < 1100; i++) {
            strangers += bg_filter_may_contain_u64(filter, i);
        }
        /* At most 10 false positives are expected; 40 is 9 standard deviations more. */
        CHECK(strangers < 40);
        bg_filter_free(filter);
    }
}

/* Checks that a filter that has overflowed reports no key as new and answers "maybe" for all
 * keys. */
static void check_gave_up(bg_filter *filter)
{
    bool is_new = true;
    CHECK(info_of(filter).overflowed);
    for (uint64_t key = 1 << 20; key < (1 << 20) + 500; key++) {
        CHECK(bg_filter_may_contain_u64(filter, key));
        CHECK_OK(bg_filter_remove_u64(filter, key));
        if (bg_filter_add_u64(filter, key, &is_new) == BG_OK) {
            CHECK(!is_new);
        }
        CHECK(!added_u64(filter, key));
    }
}

/* Adds eight times as many keys as the filter was created for. All accepted keys are found. A kind
 * that fills up accepts at least as many keys as it was created for before it refuses one, and it
 * overflows only if an add is forced. */
TEST(arguments__every_kind_is_filled_past_its_capacity)
{
    enum { MADE_FOR = 500 };
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (sample_is_static(s)) {
            continue; /* static filters accept no adds; see the builder tests */
        }
        bg_spec spec = sample_spec(s, MADE_FOR, 0.01);
        bg_filter *filter = must_create(&spec);
        uint64_t in = 0, refused = 0;
        for (uint64_t key = 0; key < (uint64_t)8 * MADE_FOR; key++) {
            bg_err err = bg_filter_add_u64(filter, key, NULL);
            CHECK(err == BG_OK || err == BG_EFULL);
            refused += err == BG_EFULL;
            in += !refused;
        }
        CHECK_EQ(refused > 0, sample_can(s, BG_TRAIT_FILLS_UP));
        CHECK(in >= MADE_FOR);
        for (uint64_t key = 0; key < in; key++) {
            CHECK(bg_filter_may_contain_u64(filter, key));
        }
        CHECK(!info_of(filter).overflowed);
        CHECK(bg_filter_fill(filter) <= 1);
        for (uint64_t key = 1 << 16; key < (1 << 16) + MADE_FOR; key++) {
            (void)added_u64(filter, key);
            CHECK(bg_filter_may_contain_u64(filter, key));
        }
        if (samples[s].shards) {
            CHECK_EQ(info_of(filter).overflowed, refused > 0);
        } else if (refused) {
            check_gave_up(filter);
        }
        bg_filter_free(filter);
    }
}

/* ---- Other arguments ------------------------------------------------------------- */

TEST(arguments__k)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        const uint32_t bad[] = { kind_k_min(kind) - 1, kind_k_max(kind) + 1,
                                 UINT32_MAX };
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            bg_spec spec = good_spec();
            char text[32], range[64];
            spec.kind = (uint32_t)kind;
            spec.k = bad[b];
            if (spec.k == 0) {
                continue; /* 0 requests the best k */
            }
            (void)snprintf(text, sizeof text, "%u", bad[b]);
            (void)snprintf(range, sizeof range, "%u .. %u for a %s filter",
                           kind_k_min(kind), kind_k_max(kind), bg_kind_name(kind));
            check_refused(&spec, BG_EINVAL, "k", text, range);
        }
    }
}

TEST(arguments__words)
{
    bg_spec spec = good_spec();
    spec.folds = 21;
    check_refused(&spec, BG_EINVAL, "folds", "21", "0 .. 20");
    spec.folds = UINT32_MAX;
    check_refused(&spec, BG_EINVAL, "folds", "4294967295", "0 .. 20");
    spec = good_spec();
    spec.flags = 1u << 9;
    check_refused(&spec, BG_EINVAL, "flags", "0x200", "BG_SPEC_EXCLUSIVE");
    spec.flags = UINT32_MAX;
    check_refused(&spec, BG_EINVAL, "flags", "0xffffffff", "BG_SPEC_ONE_WINNER");
    spec = good_spec();
    spec.kind = 99;
    check_refused(&spec, BG_EINVAL, "kind", "99", "kind.h");
    spec.kind = UINT32_MAX;
    check_refused(&spec, BG_EINVAL, "kind", "4294967295", "kind.h");
    spec = good_spec();
    spec.kind = BG_KIND_BLOCKED;
    spec.width = 7;
    check_refused(&spec, BG_EINVAL, "width, flags", "7 for a blocked filter", "spec.h");
    spec.kind = BG_KIND_COUNTING;
    check_refused(&spec, BG_EINVAL, "width, flags", "7 for a counting filter",
                  "spec.h");
    spec.width = 4;
    spec.folds = 1;
    check_refused(&spec, BG_ENOTSUP, "folds", "1 for a counting filter", "0");
    spec = good_spec();
    spec.kind = BG_KIND_SPLIT;
    spec.flags = BG_SPEC_SCATTERED;
    check_refused(&spec, BG_EINVAL, "width, flags",
                  "0 and BG_SPEC_SCATTERED for a split filter", "spec.h");
}

TEST(arguments__struct_size)
{
    static const uint32_t wrong[] = { 0, 4, sizeof(bg_spec) - 1, sizeof(bg_spec) + 8 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bg_spec spec = good_spec();
        char text[32];
        spec.struct_size = wrong[i];
        (void)snprintf(text, sizeof text, "%u", wrong[i]);
        check_refused(&spec, BG_EINVAL, "struct_size", text, "BG_SPEC_INIT");
    }
}

TEST(arguments__allocator_without_a_function)
{
    bg_spec spec = good_spec();
    bg_allocator half = c.hooks;
    half.release = NULL;
    spec.allocator = &half;
    check_refused(&spec, BG_EINVAL, "allocator", "a NULL function", "both functions");
    half = c.hooks;
    half.allocate = NULL;
    check_refused(&spec, BG_EINVAL, "allocator", "a NULL function", "both functions");
}

/* Checks that invalid hash settings are refused at creation, before any allocation. */
static void check_hash_refused(const bg_hash_spec *hash)
{
    bg_spec spec = good_spec();
    bg_filter *filter = (bg_filter *)(void *)&c;
    bg_errinfo why;
    spec.hash = *hash;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK(filter == NULL);
    CHECK_EQ(c.calls, 0);
    CHECK_EQ(why.code, BG_EINVAL);
    CHECK(why.what[0] && why.message[0]);
}

TEST(arguments__hash)
{
    check_hash_refused(&(bg_hash_spec){ .profile = BG_HASH_FAST_INT + 1 });
    check_hash_refused(&(bg_hash_spec){ .profile = UINT32_MAX });
    check_hash_refused(&(bg_hash_spec){ .profile = BG_HASH_KEYED });
    check_hash_refused(&(bg_hash_spec){ .profile = BG_HASH_KEYED24 });
    check_hash_refused(&(bg_hash_spec){ .profile = BG_HASH_KEYED_INT });
    check_hash_refused(&(bg_hash_spec){ .profile = BG_HASH_CUSTOM });
}

TEST(arguments__nothing_at_all)
{
    bg_spec spec = good_spec();
    bg_filter *filter = (bg_filter *)(void *)&c;
    bg_errinfo why;
    size_t bytes;
    CHECK_EQ(bg_filter_create(NULL, &filter, &why), BG_EINVAL);
    CHECK(filter == NULL);
    CHECK_STR(why.what, "spec");
    CHECK_STR(why.found, "NULL");
    CHECK_EQ(bg_filter_create(&spec, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "filter");
    CHECK_EQ(bg_filter_create(NULL, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_memory_needed(NULL, &bytes, &why), BG_EINVAL);
    CHECK_STR(why.what, "spec");
    CHECK_EQ(bg_filter_memory_needed(&spec, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "bytes");
    CHECK_EQ(bg_filter_create_at(&c, sizeof c, NULL, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "spec");
    CHECK_EQ(c.calls, 0);
}

TEST(arguments__success_clears_the_details)
{
    bg_spec spec = good_spec();
    bg_errinfo why, zero;
    bg_filter *filter = NULL;
    size_t bytes;
    memset(&why, 0xff, sizeof why);
    memset(&zero, 0, sizeof zero);
    CHECK_OK(bg_filter_create(&spec, &filter, &why));
    CHECK(memcmp(&why, &zero, sizeof why) == 0);
    memset(&why, 0xff, sizeof why);
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, &why));
    CHECK(memcmp(&why, &zero, sizeof why) == 0);
    memset(&why, 0xff, sizeof why);
    CHECK_OK(bg_filter_merge(filter, filter, &why));
    CHECK(memcmp(&why, &zero, sizeof why) == 0);
    bg_filter_free(filter);
}

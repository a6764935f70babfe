/* test_judge.c - the health rule, and canaries that are not counted as keys. */
#include "bloomgate/all.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

static bg_filter *filled(bg_kind kind, uint64_t items, uint64_t keys, uint32_t folds)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = kind;
    spec.items = items;
    spec.rate = 0.01;
    spec.folds = folds;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    for (uint64_t i = 0; i < keys; i++) {
        CHECK_OK(bg_filter_add_u64(filter, i, NULL));
    }
    return filter;
}

/* A variable, because some compilers evaluate constants with extra precision. */
static const double one_percent = 0.01;

static bg_filter_info info_of(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(filter, &info));
    return info;
}

static bg_health health_of(const bg_filter *filter)
{
    const bg_filter_info info = info_of(filter);
    return bg_filter_health(&info);
}

TEST(judge__limits)
{
    CHECK_EQ(bg_health_of_rate(0.0124, 0.01), BG_HEALTH_FINE);
    CHECK_EQ(bg_health_of_rate(0.0126, 0.01), BG_HEALTH_WATCH);
    CHECK_EQ(bg_health_of_rate(0.0201, 0.01), BG_HEALTH_ACT);
    CHECK_EQ(bg_health_of_rate(1, 0), BG_HEALTH_FINE); /* unknown */
    const bg_estimate some = { 90, 85, 95 }, most = { 91, 85, 97 };
    const bg_estimate all = { 110, 104, 115 }, more = { 110, 106, 115 };
    CHECK_EQ(bg_health_of_items(some, 100), BG_HEALTH_FINE);
    CHECK_EQ(bg_health_of_items(most, 100), BG_HEALTH_WATCH);
    CHECK_EQ(bg_health_of_items(all, 100), BG_HEALTH_WATCH);
    CHECK_EQ(bg_health_of_items(more, 100), BG_HEALTH_ACT);
    CHECK_EQ(bg_health_of_items(more, 0), BG_HEALTH_FINE);
    CHECK_EQ(bg_filter_health(NULL), BG_HEALTH_FINE);
}

/* The requested rate is kept, not the rate that was predicted for the rounded size. */
TEST(judge__requested_rate)
{
    static const bg_kind kinds[] = { BG_KIND_CLASSIC,  BG_KIND_BLOCKED,
                                     BG_KIND_COUNTING, BG_KIND_CUCKOO,
                                     BG_KIND_WINDOW,   BG_KIND_SCALABLE,
                                     BG_KIND_QUOTIENT, BG_KIND_SPLIT };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_filter *filter = filled(kinds[i], 1000, 1000, 0);
        CHECK(info_of(filter).design_rate == one_percent);
        CHECK_EQ(health_of(filter), BG_HEALTH_FINE);
        bg_filter_free(filter);
    }
}

/* A filter that is created from a plan has the plan's rate as its target. */
TEST(judge__planned)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_CUCKOO,
                                     BG_KIND_QUOTIENT };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_plan_request ask = BG_PLAN_REQUEST_INIT;
        bg_plan plan;
        bg_spec spec = BG_SPEC_INIT;
        bg_filter *filter = NULL;
        ask.spec.kind = kinds[i];
        ask.spec.items = 10;
        ask.spec.rate = 0.01;
        CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
        bg_plan_to_spec(&plan, &ask, &spec);
        CHECK_OK(bg_filter_create(&spec, &filter, NULL));
        CHECK(info_of(filter).design_rate == one_percent);
        CHECK_EQ(bg_filter_size_bytes(filter), plan.bytes);
        CHECK_EQ(health_of(filter), BG_HEALTH_FINE);
        bg_filter_free(filter);
    }
}

/* A compacted filter has the target of the scalable filter. */
TEST(judge__compacted)
{
    bg_filter *filter = filled(BG_KIND_SCALABLE, 1000, 1000, 0), *plain = NULL;
    CHECK_OK(bg_filter_compact(filter, &plain, NULL));
    CHECK(info_of(plain).design_rate == one_percent);
    CHECK_EQ(health_of(plain), BG_HEALTH_FINE);
    for (uint64_t i = 1000; i < 5000; i++) {
        CHECK_OK(bg_filter_add_u64(plain, i, NULL));
    }
    CHECK_EQ(health_of(plain), BG_HEALTH_ACT);
    bg_filter_free(plain);
    bg_filter_free(filter);
}

TEST(judge__too_many_keys)
{
    bg_filter *filter = filled(BG_KIND_BLOCKED, 10000, 12500, 0);
    CHECK_EQ(health_of(filter), BG_HEALTH_ACT);
    bg_filter_free(filter);
    filter = filled(BG_KIND_BLOCKED, 10000, 10700, 0);
    CHECK_EQ(health_of(filter), BG_HEALTH_WATCH);
    bg_filter_free(filter);
}

TEST(judge__folded)
{
    bg_filter *filter = filled(BG_KIND_BLOCKED, 10000, 10000, 2), *half = NULL;
    CHECK_EQ(health_of(filter), BG_HEALTH_FINE);
    CHECK_OK(bg_filter_fold(filter, 1, &half, NULL));
    CHECK(info_of(half).design_rate == one_percent);
    CHECK_EQ(health_of(half), BG_HEALTH_ACT);
    bg_filter_free(half);
    bg_filter_free(filter);
    filter = filled(BG_KIND_BLOCKED, 10000, 4000, 2); /* has space */
    CHECK_OK(bg_filter_fold(filter, 1, &half, NULL));
    CHECK_EQ(health_of(half), BG_HEALTH_FINE);
    bg_filter_free(half);
    bg_filter_free(filter);
}

TEST(judge__merged)
{
    bg_filter *a = filled(BG_KIND_CLASSIC, 5000, 1000, 0);
    bg_filter *b = filled(BG_KIND_CLASSIC, 5000, 0, 0);
    for (uint64_t i = 0; i < 7000; i++) {
        CHECK_OK(bg_filter_add_u64(b, UINT64_C(1) << 40 | i, NULL));
    }
    CHECK_EQ(health_of(a), BG_HEALTH_FINE);
    CHECK_OK(bg_filter_merge(a, b, NULL));
    CHECK_EQ(health_of(a), BG_HEALTH_ACT);
    bg_filter_free(a);
    bg_filter_free(b);
}

/* A doubled quotient filter keeps its hash bits, so its rate rises with the number of keys. */
TEST(judge__resized)
{
    bg_filter *filter = filled(BG_KIND_QUOTIENT, 1000, 1000, 0), *twice = NULL;
    CHECK_OK(bg_filter_resize(filter, 1, &twice, NULL));
    CHECK(info_of(twice).design_rate == one_percent);
    CHECK_EQ(health_of(twice), BG_HEALTH_FINE);
    bg_filter_free(twice);
    bg_filter_free(filter);
}

/* In a small filter, the rate can differ from its mean by chance. That alone is never
 * BG_HEALTH_ACT. */
TEST(judge__chance)
{
    unsigned above = 0;
    for (uint64_t run = 0; run < 200; run++) {
        bg_filter *filter = filled(BG_KIND_CLASSIC, 33, 0, 0);
        for (uint64_t i = 0; i < 33; i++) {
            CHECK_OK(bg_filter_add_u64(filter, run << 32 | i, NULL));
        }
        above += bg_health_of_rate(info_of(filter).rate, 0.01) != BG_HEALTH_FINE;
        CHECK(health_of(filter) != BG_HEALTH_ACT);
        bg_filter_free(filter);
    }
    CHECK(above > 0);
}

/* ---- Canaries ---------------------------------------------------------------------- */

/* Adds the canaries of generation 0. */
static void add_canaries(bg_filter *filter)
{
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        uint8_t canary[BG_CANARY_BYTES];
        bg_canary(0, i, canary);
        CHECK_OK(bg_filter_add(filter, canary, sizeof canary, NULL));
    }
}

static void canaries_of(bg_kind kind, uint64_t items)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL, *opened = NULL;
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    unsigned char bytes[65536];
    size_t size = 0;
    spec.kind = kind;
    spec.items = items;
    spec.rate = 0.01;
    spec.canaries = BG_CANARY_COUNT;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    add_canaries(filter);
    for (uint64_t i = 0; i < items; i++) {
        CHECK_OK(bg_filter_add_u64(filter, i, NULL));
    }
    how.flags = BG_FILE_NO_CANARIES; /* as the service saves filters */
    how.generation = 77;
    CHECK_OK(bg_encode(filter, &how, bytes, sizeof bytes, &size, NULL));
    CHECK_OK(bg_decode(bytes, size, NULL, &opened, NULL));
    const bg_filter *both[] = { filter, opened };
    for (size_t i = 0; i < 2; i++) {
        const bg_filter_info info = info_of(both[i]);
        CHECK_EQ(info.canaries, BG_CANARY_COUNT);
        CHECK_EQ(info.design_items, items);
        CHECK(info.items.low <= (double)items + 2
              && info.items.high >= (double)items - 2);
        CHECK_EQ(bg_filter_health(&info), BG_HEALTH_FINE);
    }
    bg_filter_clear(filter);
    CHECK_EQ(info_of(filter).canaries, 0);
    bg_filter_free(filter);
    bg_filter_free(opened);
}

TEST(judge__canaries_are_not_keys)
{
    canaries_of(BG_KIND_CLASSIC, 10);
    canaries_of(BG_KIND_BLOCKED, 1000);
    canaries_of(BG_KIND_CUCKOO, 10);
    canaries_of(BG_KIND_QUOTIENT, 1000);
    canaries_of(BG_KIND_SCALABLE, 10);
}

/* Returns the mean rate of filters with the same canaries and different keys. */
static double mean_rate(const bg_spec *spec, uint64_t runs, uint64_t queries)
{
    uint64_t maybes = 0;
    for (uint64_t run = 1; run <= runs; run++) {
        bg_filter *filter = NULL;
        CHECK_OK(bg_filter_create(spec, &filter, NULL));
        add_canaries(filter);
        for (uint64_t i = 0; i < spec->items; i++) {
            CHECK_OK(bg_filter_add_u64(filter, run << 32 | i, NULL));
        }
        for (uint64_t i = 0; i < queries; i++) {
            maybes += bg_filter_may_contain_u64(filter, run << 40 | i);
        }
        bg_filter_free(filter);
    }
    return (double)maybes / (double)(runs * queries);
}

/* The canaries are the same in every filter, so an uneven distribution of the canaries does not
 * average out. Small filters meet their target nevertheless. */
TEST(judge__small_filters_with_canaries)
{
    static const bg_kind kinds[] = { BG_KIND_REGISTER, BG_KIND_SPLIT, BG_KIND_BLOCKED,
                                     BG_KIND_COUNTING };
    static const double rates[] = { 0.02, 0.01, 0.005, 0.002, 0.001 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (uint64_t items = 1; items < 100; items += 1 + items / 4) {
            for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
                bg_spec spec = BG_SPEC_INIT;
                spec.kind = kinds[i];
                spec.items = items;
                spec.rate = rates[r];
                spec.canaries = BG_CANARY_COUNT;
                CHECK(mean_rate(&spec, 20, 1000) <= 1.1 * rates[r] + 0.0003);
            }
        }
    }
}

/* The default filter is not larger than needed. */
TEST(judge__canaries_need_little_space)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    spec.items = 100;
    spec.rate = 0.01;
    spec.canaries = BG_CANARY_COUNT;
    ask.spec = spec;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK_EQ(plan.bytes, 192);
    CHECK_EQ(plan.items, 100);
    CHECK(plan.rate == bg_predict_rate(plan.kind, plan.bytes, plan.k, 116));
}

/* An error names the number of keys that the caller requested, without the canaries. */
TEST(judge__errors_do_not_count_canaries)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    bg_errinfo why;
    spec.kind = BG_KIND_CUCKOO;
    spec.items = 100;
    spec.bytes = 96;
    spec.canaries = BG_CANARY_COUNT;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK(strstr(why.message, "for 100 items") != NULL);
}

/* A merge that fails changes nothing. */
TEST(judge__failed_merge)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *a = filled(BG_KIND_QUOTIENT, 1000, 1500, 0), *b = NULL;
    spec.kind = BG_KIND_QUOTIENT;
    spec.items = 1000;
    spec.rate = 0.01;
    spec.canaries = BG_CANARY_COUNT;
    CHECK_OK(bg_filter_create(&spec, &b, NULL));
    for (uint64_t i = 0; i < 1500; i++) {
        CHECK_OK(bg_filter_add_u64(b, 10000 + i, NULL));
    }
    CHECK_EQ(bg_filter_merge(a, b, NULL), BG_EFULL);
    CHECK_EQ(info_of(a).canaries, 0);
    bg_filter_free(a);
    bg_filter_free(b);
}

/* A bg_filter_info that the caller filled in may contain any numbers. A sanitizer detects undefined
 * behavior. */
TEST(judge__any_numbers)
{
    static const double numbers[] = { 0, 1, 1e300, (double)INFINITY, (double)NAN };
    bg_filter_info none = { .struct_size = sizeof none,
                            .kind = BG_KIND_BLOCKED,
                            .k = 8 };
    none.items = (bg_estimate){ 1, 1, 1 };
    none.rate = 0.5;
    none.design_rate = 0.01;
    CHECK_EQ(bg_filter_health(&none), BG_HEALTH_ACT);
    for (uint32_t kind = 0; kind < 20; kind++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            bg_filter_info info = { .struct_size = sizeof info, .kind = kind, .k = 8 };
            info.items = (bg_estimate){ numbers[i], numbers[i], numbers[i] };
            info.rate = 0.5;
            info.design_rate = 0.01;
            (void)bg_filter_health(&info);
            info.units = 1;
            (void)bg_filter_health(&info);
        }
    }
}

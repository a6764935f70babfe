/*
 * test_counting.c - tests what is specific to counting filters: widths and layouts, saturation,
 * removal of absent keys, and merging.
 */
#include "bloomgate/all.h"
#include "filter/handle.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <string.h>

enum { KEYS = 2000 };

static const uint32_t widths[] = { 4, 8, 16, 32 };
enum { WIDTHS = sizeof widths / sizeof *widths };

static bg_spec counting_spec(uint32_t width, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_COUNTING;
    spec.items = KEYS;
    spec.rate = 0.01;
    spec.width = width;
    spec.flags = flags;
    return spec;
}

/* Runs a test with every width, layout and mode. */
static void for_each_variant(void (*body)(const bg_spec *spec))
{
    for (int w = 0; w < WIDTHS; w++) {
        for (uint32_t mode = 0; mode < 4; mode++) {
            bg_spec spec =
                counting_spec(widths[w], (mode & 1 ? BG_SPEC_EXCLUSIVE : 0)
                                             | (mode & 2 ? BG_SPEC_SCATTERED : 0));
            body(&spec);
        }
    }
}

static uint64_t highest(uint32_t width)
{
    return UINT64_MAX >> (64 - width);
}

static void remembers_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec);
    for (uint64_t key = 0; key < KEYS; key++) {
        bool known = bg_filter_may_contain_u64(filter, key);
        CHECK_EQ(added_u64(filter, key), !known);
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        CHECK(bg_filter_may_contain_u64(filter, key));
        CHECK(bg_filter_count_u64(filter, key) >= 1);
    }
    bg_filter_info info = info_of(filter);
    CHECK_EQ(info.width, spec->width);
    CHECK_NEAR(info.items.value, KEYS, 0.05);
    for (uint64_t key = 0; key < KEYS; key++) {
        CHECK_OK(bg_filter_remove_u64(filter, key));
    }
    info = info_of(filter);
    CHECK_EQ(info.ones, 0);
    CHECK_EQ(info.saturated, 0);
    CHECK(!bg_filter_may_contain_u64(filter, 7));
    bg_filter_free(filter);
}

TEST(counting__remembers_and_forgets)
{
    for_each_variant(remembers_body);
}

static void strangers_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec);
    for (uint64_t key = 0; key < KEYS / 2; key++) {
        (void)added_u64(filter, key);
    }
    bg_filter *before = NULL;
    CHECK_OK(bg_filter_copy(filter, &before, NULL));
    size_t refused = 0;
    for (uint64_t key = 1000000; key < 1000000 + KEYS; key++) {
        if (!bg_filter_may_contain_u64(filter, key)) {
            CHECK_EQ(bg_filter_count_u64(filter, key), 0);
            CHECK_EQ(bg_filter_remove_u64(filter, key), BG_ENOTFOUND);
            refused++;
        }
    }
    CHECK(refused > KEYS * 9 / 10);
    CHECK(bg_filter_equal(filter, before)); /* all or nothing */
    CHECK_OK(bg_filter_remove_u64(filter, 3));
    /* The key was added once, so it cannot be removed twice. */
    if (!bg_filter_may_contain_u64(filter, 3)) {
        CHECK_EQ(bg_filter_remove_u64(filter, 3), BG_ENOTFOUND);
    }
    for (uint64_t key = 0; key < KEYS / 2; key++) {
        CHECK(key == 3 || bg_filter_may_contain_u64(filter, key));
    }
    bg_filter_free(before);
    bg_filter_free(filter);
}

TEST(counting__refuses_to_remove_strangers)
{
    for_each_variant(strangers_body);
}

/* Counts are exact as long as no other key shares the counters. */
static void counts_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec);
    uint64_t times = highest(spec->width) < 200 ? highest(spec->width) - 1 : 200;
    times = spec->flags & BG_SPEC_SCATTERED ? times / 4 : times; /* repeated counters */
    for (uint64_t i = 1; i <= times; i++) {
        CHECK_EQ(added(filter, "again", 5), i == 1);
        CHECK(bg_filter_count(filter, "again", 5) >= i);
    }
    if (!(spec->flags & BG_SPEC_SCATTERED)) {
        CHECK_EQ(bg_filter_count(filter, "again", 5), times);
    }
    for (uint64_t i = times; i > 0; i--) {
        CHECK(bg_filter_may_contain(filter, "again", 5));
        CHECK_OK(bg_filter_remove(filter, "again", 5));
    }
    CHECK(!bg_filter_may_contain(filter, "again", 5));
    CHECK_EQ(bg_filter_remove(filter, "again", 5), BG_ENOTFOUND);
    bg_filter_free(filter);
}

TEST(counting__counts)
{
    for_each_variant(counts_body);
}

/* A counter that has reached its maximum no longer changes, so its keys stay present no matter what
 * is removed. */
static void saturation_body(const bg_spec *spec)
{
    if (spec->width > 8) {
        return; /* takes too long */
    }
    bg_filter *filter = must_create(spec);
    uint64_t most = highest(spec->width);
    for (uint64_t i = 0; i < most + 5; i++) {
        (void)added_u64(filter, 42);
    }
    bg_filter_info info = info_of(filter);
    CHECK(info.saturated >= 1 && info.saturated <= info.k);
    CHECK_EQ(info.saturated, info.ones);
    CHECK_EQ(bg_filter_count_u64(filter, 42), most);
    for (uint64_t i = 0; i < 3 * most; i++) {
        CHECK_OK(bg_filter_remove_u64(filter, 42));
    }
    CHECK(bg_filter_may_contain_u64(filter, 42));
    bg_filter *copy = NULL;
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    CHECK_EQ(info_of(copy).saturated, info.saturated);
    bg_filter_clear(filter);
    CHECK_EQ(info_of(filter).saturated, 0);
    CHECK_EQ(info_of(filter).ones, 0);
    (void)added_u64(filter, 42); /* the cleared filter still works */
    CHECK(bg_filter_may_contain_u64(filter, 42));
    CHECK(bg_filter_may_contain_u64(copy, 42));
    bg_filter_free(copy);
    bg_filter_free(filter);
}

TEST(counting__saturated_counters_stay)
{
    for_each_variant(saturation_body);
}

/* Merging adds counters, so a key that is in both filters must be removed twice. */
static void merge_body(const bg_spec *spec)
{
    bg_filter *a = must_create(spec), *b = must_create(spec), *sum = must_create(spec);
    for (uint64_t key = 0; key < 600; key++) {
        (void)added_u64(a, key);
        (void)added_u64(b, key + 300);
        (void)added_u64(sum, key);
        (void)added_u64(sum, key + 300);
    }
    bg_overlap overlap;
    CHECK_OK(bg_filter_overlap(a, b, &overlap, NULL));
    CHECK_NEAR(overlap.both.value, 300, 0.25);
    CHECK_NEAR(overlap.either.value, 900, 0.08);
    CHECK_OK(bg_filter_merge(a, b, NULL));
    CHECK(bg_filter_equal(a, sum));
    CHECK_OK(bg_filter_remove_u64(a, 400));
    CHECK(bg_filter_may_contain_u64(a, 400));
    bg_errinfo why;
    CHECK_EQ(bg_filter_merge(a, a, &why), BG_EINVAL);
    bg_filter *folded = NULL;
    CHECK_EQ(bg_filter_fold(a, 1, &folded, &why), BG_ENOTSUP);
    CHECK(!folded && strstr(why.message, "counting"));
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(sum);
}

TEST(counting__merge_adds)
{
    for_each_variant(merge_body);
}

TEST(counting__merge_saturates)
{
    bg_spec spec = counting_spec(4, 0);
    bg_filter *a = must_create(&spec), *b = must_create(&spec);
    for (int i = 0; i < 9; i++) {
        (void)added_u64(a, 1);
        (void)added_u64(b, 1);
    }
    CHECK_OK(bg_filter_merge(a, b, NULL));
    CHECK_EQ(bg_filter_count_u64(a, 1), 15);
    CHECK_EQ(info_of(a).saturated, info_of(a).k);
    bg_filter_free(a);
    bg_filter_free(b);
}

TEST(counting__variants_do_not_mix)
{
    bg_errinfo why;
    bg_spec four = counting_spec(4, 0), eight = counting_spec(8, 0);
    bg_spec scattered = counting_spec(4, BG_SPEC_SCATTERED);
    bg_filter *a = must_create(&four), *b = must_create(&eight);
    bg_filter *c = must_create(&scattered);
    CHECK_EQ(bg_filter_merge(a, b, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "width, flags");
    CHECK_EQ(bg_filter_merge(a, c, &why), BG_EINCOMPAT);
    CHECK(!bg_filter_compatible(a, b) && !bg_filter_equal(a, c));
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(c);
}

/* Batches give the same results as single calls. */
static void batches_body(const bg_spec *spec)
{
    uint64_t keys[300], bitmap[BG_BITMAP_WORDS(300)];
    bg_filter *one = must_create(spec), *many = must_create(spec);
    many->core.adds_prefetch = many->core.lookups_prefetch =
        1; /* behaves as if the filter were larger than the cache */
    for (size_t i = 0; i < 300; i++) {
        keys[i] = check_random_below(200);
    }
    size_t added = 0, done = 0, count = 0;
    CHECK_OK(bg_filter_add_many(many, bg_keys_u64(keys, 300), NULL, &done, &added));
    CHECK_EQ(done, 300);
    for (size_t i = 0; i < 300; i++) {
        bool is_new;
        CHECK_OK(bg_filter_add_u64(one, keys[i], &is_new));
        count += is_new;
    }
    CHECK_EQ(added, count);
    CHECK(bg_filter_equal(one, many));
    for (size_t i = 0; i < 300; i++) {
        keys[i] += i % 3 == 0 ? 1000 : 0; /* absent */
    }
    count = bg_filter_may_contain_many(many, bg_keys_u64(keys, 300), bitmap);
    for (size_t i = 0; i < 300; i++) {
        bool maybe = bitmap[i / 64] >> (i % 64) & 1;
        CHECK_EQ(maybe, bg_filter_may_contain_u64(one, keys[i]));
        count -= maybe;
    }
    CHECK_EQ(count, 0);
    count = bg_filter_remove_many(many, bg_keys_u64(keys, 300), bitmap);
    for (size_t i = 0; i < 300; i++) {
        bool removed = bitmap[i / 64] >> (i % 64) & 1;
        CHECK_EQ(removed, bg_filter_remove_u64(one, keys[i]) == BG_OK);
        count -= removed;
    }
    CHECK_EQ(count, 0);
    CHECK(bg_filter_equal(one, many));
    bg_filter_free(one);
    bg_filter_free(many);
}

TEST(counting__batches_equal_single_calls)
{
    for_each_variant(batches_body);
}

/* Compares the predicted rate with the measured rate, averaged over many small filters or a few
 * large ones, because a single small filter may deviate considerably. */
static void rate_of(uint64_t items, double rate, uint32_t flags)
{
    bg_spec spec = counting_spec(4, flags | BG_SPEC_EXCLUSIVE);
    spec.items = items;
    spec.rate = rate;
    bg_filter *filter = must_create(&spec);
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = spec;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    const double planned = plan.rate;
    uint64_t filters = 1 + 100000 / items, hits = 0;
    uint64_t trials = 1 + (uint64_t)(10000 / rate) / filters;
    double predicted = 0;
    for (uint64_t f = 0; f < filters; f++) {
        bg_filter_clear(filter);
        for (uint64_t i = 0; i < items; i++) {
            (void)added_hash(filter, check_random());
        }
        for (uint64_t i = 0; i < trials; i++) {
            hits += bg_filter_may_contain_hash(filter, check_random());
        }
        predicted += info_of(filter).rate;
    }
    CHECK_NEAR((double)hits / (double)trials, predicted, 0.04);
    CHECK_NEAR(predicted / (double)filters, planned, 0.04);
    CHECK(planned <= rate && info_of(filter).design_rate == rate);
    bg_filter_free(filter);
}

TEST(counting__rate_is_as_predicted)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        /* Too slow under emulators and sanitizers; the arithmetic is the same on every machine. */
        return;
    }
    static const double rates[] = { 0.1, 0.01, 0.001 };
    for (int r = 0; r < 3; r++) {
        for (uint64_t items = 1000; items <= 100000; items *= 100) {
            rate_of(items, rates[r], 0);
            rate_of(items, rates[r], BG_SPEC_SCATTERED);
        }
    }
}

TEST(change__null_and_kinds_that_cannot)
{
    bool is_new = true;
    size_t done = 9;
    uint64_t bitmap = 1;
    CHECK_EQ(bg_filter_add(NULL, "a", 1, &is_new), BG_EINVAL);
    CHECK(!is_new);
    CHECK_EQ(bg_filter_remove(NULL, "a", 1), BG_EINVAL);
    CHECK_EQ(bg_filter_count(NULL, "a", 1), 1);
    CHECK_EQ(bg_filter_add_many(NULL, bg_keys_u64(&bitmap, 1), NULL, &done, NULL),
             BG_EINVAL);
    CHECK_EQ(done, 0);
    CHECK_EQ(bg_filter_remove_many(NULL, bg_keys_u64(&bitmap, 1), &bitmap), 0);
    CHECK_EQ(bitmap, 0);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), 4096, 0);
        CHECK_EQ(bg_kind_traits(kind_at(i)),
                 BG_TRAIT_MERGE | BG_TRAIT_FOLD | BG_TRAIT_OVERLAP);
        CHECK_OK(bg_filter_add(filter, "a", 1, &is_new));
        CHECK(is_new);
        CHECK_OK(bg_filter_add(filter, "a", 1, &is_new));
        CHECK(!is_new);
        CHECK_EQ(bg_filter_count(filter, "a", 1), 1);
        CHECK_EQ(bg_filter_remove(filter, "a", 1), BG_ENOTSUP);
        CHECK(bg_filter_may_contain(filter, "a", 1));
        uint64_t keys[3] = { 1, 2, 1 };
        size_t added;
        CHECK_OK(bg_filter_add_many(filter, bg_keys_u64(keys, 3), NULL, &done, &added));
        CHECK(done == 3 && added == 2);
        CHECK_EQ(bg_filter_remove_many(filter, bg_keys_u64(keys, 3), &bitmap), 0);
        bg_filter_free(filter);
    }
    CHECK_EQ(bg_kind_traits(BG_KIND_AUTO), 0);
    CHECK_EQ(bg_kind_traits((bg_kind)99), 0);
}

/* The same operations produce the same answers and the same words with every instruction set. */
TEST(counting__every_set_equals_scalar)
{
    bg_cpu before = bg_cpu_current();
    for (uint32_t flags = 0; flags <= BG_SPEC_EXCLUSIVE; flags++) {
        for (int cpu = BG_CPU_SCALAR; cpu <= BG_CPU_NEON; cpu++) {
            for (uint32_t k = 1; bg_cpu_available((bg_cpu)cpu) && k <= 8; k++) {
                bg_spec spec = counting_spec(4, flags);
                spec.k = k;
                CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
                bg_filter *plain = must_create(&spec);
                CHECK_OK(bg_cpu_select((bg_cpu)cpu));
                bg_filter *other = must_create(&spec);
                for (int i = 0; i < 20000; i++) {
                    uint64_t key = check_random_below(check_random_below(9) ? 3000 : 5);
                    if (check_random_below(2)) {
                        CHECK_EQ(added_u64(plain, key), added_u64(other, key));
                    } else {
                        CHECK_EQ(bg_filter_remove_u64(plain, key),
                                 bg_filter_remove_u64(other, key));
                    }
                    CHECK_EQ(bg_filter_may_contain_u64(plain, key + 1),
                             bg_filter_may_contain_u64(other, key + 1));
                }
                CHECK(bg_filter_equal(plain, other));
                CHECK_EQ(info_of(plain).saturated, info_of(other).saturated);
                bg_filter_free(plain);
                bg_filter_free(other);
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

/*
 * test_capacity.c - tests the capacity and number of layers of every kind of filter: after
 * creation, during growth, in shards, and after copying and clearing.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

static bg_spec spec_of(bg_kind kind, uint64_t items, uint32_t shards)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = 0.01;
    spec.shards = shards;
    return spec;
}

static bg_filter *make_of(bg_kind kind, uint64_t items, uint32_t shards)
{
    bg_spec spec = spec_of(kind, items, shards);
    return must_create(&spec);
}

static void check_figures(const bg_filter *filter, uint64_t capacity, uint32_t layers)
{
    CHECK_EQ(bg_filter_capacity(filter), capacity);
    CHECK_EQ(bg_filter_layers(filter), layers);
}

TEST(capacity__of_bloom_kinds_is_what_the_spec_said)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        for (uint32_t shards = 0; shards <= 4; shards += 4) {
            bg_filter *filter = make_of(kind_at(i), 12345, shards);
            check_figures(filter, 12345, 1);
            bg_filter_free(filter);
        }
        /* This filter is sized by bytes, not by items. */
        bg_filter *exact = make_filter(kind_at(i), 4096, 0);
        CHECK_EQ(bg_filter_capacity(exact), info_of(exact).design_items);
        bg_filter_free(exact);
    }
    bg_filter *counting = make_of(BG_KIND_COUNTING, 777, 0);
    check_figures(counting, 777, 1);
    bg_filter_free(counting);
    check_figures(NULL, 0, 0);
}

/* Checks that a filter accepts at least as many keys as its reported capacity, and at most about
 * 10% more. */
static void check_fills(bg_filter *filter)
{
    const uint64_t capacity = bg_filter_capacity(filter);
    uint64_t in = 0;
    while (bg_filter_add_u64(filter, in, NULL) == BG_OK) {
        in++;
    }
    CHECK(in >= capacity);
    CHECK((double)in <= 1.1 * (double)capacity + 64);
    CHECK_EQ(bg_filter_capacity(filter), capacity);
}

TEST(capacity__of_kinds_that_fill_up_is_what_goes_in)
{
    static const bg_kind kinds[] = { BG_KIND_CUCKOO, BG_KIND_QUOTIENT };
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t items = 100; items < 100000; items *= 7) {
            bg_filter *filter = make_of(kinds[i], items, 0);
            CHECK(bg_filter_capacity(filter) >= items);
            CHECK_EQ(bg_filter_layers(filter), 1);
            check_fills(filter);
            bg_filter_free(filter);
        }
    }
}

TEST(capacity__of_shards_that_fill_up_is_their_sum)
{
    bg_filter *many = make_of(BG_KIND_QUOTIENT, 4000, 4);
    CHECK(bg_filter_capacity(many) >= 4000);
    CHECK_EQ(bg_filter_capacity(many) % 4, 0);
    CHECK_EQ(bg_filter_layers(many), 1);
    bg_filter_free(many);
}

TEST(capacity__follows_a_quotient_filter_that_is_resized)
{
    bg_filter *filter = make_of(BG_KIND_QUOTIENT, 1000, 0), *resized = NULL;
    const uint64_t capacity = bg_filter_capacity(filter);
    CHECK_OK(bg_filter_resize(filter, 2, &resized, NULL));
    CHECK(bg_filter_capacity(resized) >= 4 * capacity);
    CHECK(bg_filter_capacity(resized) <= 4 * capacity + 4);
    bg_filter_free(resized);
    bg_filter_free(filter);
}

static void check_same(const bg_filter *a, const bg_filter *b)
{
    check_figures(a, bg_filter_capacity(b), bg_filter_layers(b));
}

/* A scalable filter adds a layer whenever it reaches its capacity. */
TEST(capacity__of_a_scalable_filter_grows_with_its_layers)
{
    bg_filter *filter = make_of(BG_KIND_SCALABLE, 500, 0), *copy = NULL;
    const uint64_t first = bg_filter_capacity(filter);
    uint64_t capacity = first, news = 0;
    uint32_t layers = 1;
    CHECK(capacity >= 500);
    CHECK_EQ(bg_filter_layers(filter), 1);
    for (uint64_t key = 0; layers < 6; key++) {
        news += added_u64(filter, key);
        if (bg_filter_layers(filter) != layers) {
            CHECK_EQ(bg_filter_layers(filter), ++layers);
            CHECK_EQ(news, capacity + 1);
            CHECK(bg_filter_capacity(filter) > capacity + capacity / 2);
            capacity = bg_filter_capacity(filter);
        }
        CHECK_EQ(bg_filter_capacity(filter), capacity);
    }
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    check_same(copy, filter);
    bg_filter_clear(copy);
    check_figures(copy, first, 1);
    bg_filter_free(copy);
    bg_filter_free(filter);
}

TEST(capacity__of_scalable_shards)
{
    bg_filter *filter = make_of(BG_KIND_SCALABLE, 1000, 4);
    const uint64_t first = bg_filter_capacity(filter);
    CHECK(first >= 1000);
    CHECK_EQ(bg_filter_layers(filter), 1);
    uint64_t key = 0;
    /* Adds keys until one of the shards adds a layer. */
    while (bg_filter_layers(filter) == 1) {
        (void)added_u64(filter, key++);
    }
    CHECK_EQ(bg_filter_layers(filter), 2);
    CHECK(bg_filter_capacity(filter) > first && bg_filter_capacity(filter) < 2 * first);
    bg_filter_free(filter);
}

TEST(capacity__of_a_window)
{
    for (uint32_t mode = 0; mode < 2; mode++) {
        bg_window_options options = BG_WINDOW_OPTIONS_INIT;
        options.mode = mode ? BG_WINDOW_AGED : BG_WINDOW_GENERATIONS;
        options.generations = 6;
        bg_spec spec = spec_of(BG_KIND_WINDOW, 3000, 0);
        spec.window = &options;
        bg_filter *filter = must_create(&spec);
        check_figures(filter, 3000, 6);
        bg_filter_free(filter);
    }
}

TEST(capacity__of_a_static_kind_is_what_is_in)
{
    bg_spec spec = spec_of(BG_KIND_FUSE, 1000, 0);
    bg_filter *filter = build_of_hashes(&spec, 1000);
    check_figures(filter, info_of(filter).design_items, 1);
    CHECK_EQ(bg_filter_capacity(filter), 1000);
    bg_filter_free(filter);
}

/*
 * Tests the decision whether a filter is filled evenly: ordinary filters of all kinds and sizes are
 * even, and filters with keys in one place are not.
 */
#include "api/evenness.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <math.h>

enum { PARTS = 1024 };

static double shares[PARTS];

static struct evenness evenness_measure(const bg_filter *filter)
{
    const size_t words = (size_t)bg_filter_size_bytes(filter) / 8;
    const size_t parts = words < PARTS ? words : PARTS;
    const size_t words_per_part = words / parts;
    CHECK(bg_filter_occupancy(filter, shares, parts) == BG_OK);
    return evenness_of(shares, parts, 64 * (double)words_per_part,
                       evenness_bits_per_key(filter));
}

static bg_filter *evenness_make(bg_kind kind, uint64_t items, double rate,
                                uint32_t shards)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = kind;
    spec.items = items;
    spec.rate = rate;
    spec.shards = shards;
    CHECK(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    return filter;
}

static const bg_kind kinds[] = { BG_KIND_CLASSIC, BG_KIND_PARTITIONED, BG_KIND_BLOCKED,
                                 BG_KIND_SPLIT,   BG_KIND_REGISTER,    BG_KIND_COUNTING,
                                 BG_KIND_CUCKOO,  BG_KIND_QUOTIENT,    BG_KIND_SCALABLE,
                                 BG_KIND_WINDOW };

enum { KINDS = sizeof kinds / sizeof *kinds };

/* The filters are examined again and again while they fill. All keys are fixed, so the result is the
 * same in every run. */
TEST(evenness__of_ordinary_filters)
{
    static const uint64_t sizes[] = { 10, 300, 3000, 30000, 200000 };
    static const double rates[] = { 0.1, 0.01, 1e-4 };
    for (size_t i = 0; i < KINDS; i++) {
        for (size_t j = 0; j < 15; j++) {
            const uint64_t items = sizes[j % 5];
            const uint32_t shards = j % 2 && kinds[i] != BG_KIND_WINDOW ? 4 : 0;
            bg_filter *filter = evenness_make(kinds[i], items, rates[j / 5], shards);
            for (uint64_t n = 0, next = 1; n < items; n++) {
                (void)added_u64(filter, n * 15 + j);
                if (n + 1 == next || n + 1 == items) {
                    CHECK_EQ(evenness_measure(filter).uneven, 0);
                    next *= 2;
                }
            }
            bg_filter_free(filter);
        }
    }
}

/* Static kinds are built from all keys at once. */
TEST(evenness__of_static_filters)
{
    static const bg_kind built[] = { BG_KIND_FUSE, BG_KIND_RIBBON };
    static uint64_t keys[50000];
    for (uint64_t i = 0; i < 50000; i++) {
        keys[i] = i;
    }
    for (size_t i = 0; i < 2; i++) {
        bg_spec spec = BG_SPEC_INIT;
        bg_builder *builder = NULL;
        bg_filter *filter = NULL;
        spec.kind = built[i];
        spec.rate = 0.01;
        CHECK_OK(bg_builder_create(&spec, &builder, NULL));
        CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(keys, 50000)));
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        CHECK_EQ(evenness_measure(filter).uneven, 0);
        bg_filter_free(filter);
        bg_builder_free(builder);
    }
}

/* Parts differ far more than independent bits would: a limit of eight standard deviations of
 * independent bits would flag this filter. */
TEST(evenness__expects_keys_to_set_adjacent_bits)
{
    bg_filter *filter = evenness_make(BG_KIND_BLOCKED, 200000, 0.001, 0);
    for (uint64_t n = 0; n < 200000; n++) {
        (void)added_u64(filter, n);
    }
    const struct evenness e = evenness_measure(filter);
    const double bits = 8 * (double)bg_filter_size_bytes(filter) / PARTS;
    const double most = fmax(e.most - e.mean, e.mean - e.least);
    CHECK(most > 8 * sqrt(e.mean * (1 - e.mean) / bits));
    CHECK_EQ(e.uneven, 0);
    bg_filter_free(filter);
}

/* A part that is full, as damaged parts are, and a part that is empty. */
TEST(evenness__finds_parts_that_differ)
{
    for (size_t i = 0; i < KINDS; i++) {
        bg_filter *filter = evenness_make(kinds[i], 200000, 0.01, 0);
        const double bits_per_key = evenness_bits_per_key(filter);
        for (uint64_t n = 0; n < 190000; n++) {
            (void)added_u64(filter, n);
        }
        CHECK_EQ(evenness_measure(filter).uneven, 0);
        const double bits = 8 * (double)bg_filter_size_bytes(filter) / PARTS;
        shares[100] = 1;
        shares[PARTS - 1] = 0;
        CHECK_EQ(evenness_of(shares, PARTS, floor(bits), bits_per_key).uneven,
                 bits_per_key > 0 ? 2 : 0);
        bg_filter_free(filter);
    }
}

/* The high bits of a hash select the position. An attacker who knows the hash function can add all
 * keys to one part. */
TEST(evenness__finds_keys_in_one_place)
{
    static const bg_kind local[] = { BG_KIND_BLOCKED, BG_KIND_SPLIT, BG_KIND_REGISTER,
                                     BG_KIND_COUNTING };
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        bg_filter *filter = evenness_make(local[i], 200000, 0.01, 0);
        uint64_t state = 1;
        for (uint64_t n = 0; n < 100000; n++) {
            (void)added_u64(filter, n);
        }
        CHECK_EQ(evenness_measure(filter).uneven, 0);
        for (uint64_t n = 0; n < 1000; n++) { /* in 1/512 of the filter */
            (void)added_hash(filter, check_random_next(&state) >> 9);
        }
        const size_t uneven = evenness_measure(filter).uneven;
        CHECK(uneven >= 1 && uneven <= 3);
        bg_filter_free(filter);
    }
}

TEST(evenness__of_empty_and_full_filters)
{
    static const double none[4] = { 0, 0, 0, 0 }, full[4] = { 1, 1, 1, 1 };
    CHECK_EQ(evenness_of(none, 4, 64, 7).uneven, 0);
    CHECK_EQ(evenness_of(full, 4, 64, 7).uneven, 0);
    CHECK_EQ(evenness_of(none, 1, 64, 7).uneven, 0);
}

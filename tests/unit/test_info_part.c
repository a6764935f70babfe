/*
 * bg_filter_sample_info: statistics computed from part of a filter match those of the whole filter
 * within the reported interval, and only that part is read.
 */
#include "support/adds.h"
#include "support/files.h"

#include <math.h>

enum { PART_KEYS = 400000, PART_MAX = 64 << 10 };

static bg_filter *part_make(unsigned i, unsigned keys)
{
    bg_spec spec = files_spec(i);
    spec.items = spec.kind == BG_KIND_SCALABLE ? 100000 : 2 * PART_KEYS;
    bg_filter *filter = must_create(&spec);
    for (unsigned j = 0; j < keys; j++) {
        (void)added_u64(filter, j);
    }
    return filter;
}

static bool part_is_static(unsigned i)
{
    return bg_kind_traits((bg_kind)files_spec(i).kind) & BG_TRAIT_STATIC;
}

/* Returns whether the filter's kind provides its statistics without counting bits. */
static bool part_knows(const bg_filter *filter)
{
    return bg_filter_kind(filter) == BG_KIND_CUCKOO;
}

TEST(info_part__tells_of_all)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        if (part_is_static(i)) {
            continue;
        }
        bg_filter *filter = part_make(i, PART_KEYS);
        bg_filter_info all = { .struct_size = sizeof all }, part = all, same = all;
        CHECK_OK(bg_filter_get_info(filter, &all));
        CHECK_OK(bg_filter_sample_info(filter, 0, &same));
        CHECK_OK(bg_filter_sample_info(filter, PART_MAX, &part));
        CHECK_EQ(same.ones, all.ones);
        CHECK(memcmp(&all.items, &same.items, sizeof all.items) == 0);
        const double error = (part.items.high - part.items.low) / 2;
        if (fabs(part.fill / all.fill - 1) > 0.02
            || fabs(part.items.value - all.items.value) > 1.5 * error
            || fabs(part.rate / all.rate - 1) > 0.2 || error > all.items.value / 20) {
            check_fail(__FILE__, __LINE__,
                       "%s: fill %g %g, items %g %g +- %g, rate %g %g", files_name(i),
                       part.fill, all.fill, part.items.value, all.items.value, error,
                       part.rate, all.rate);
        }
        /* The values are estimated from a sample, so they differ slightly from the exact values,
         * and their intervals are wider. */
        if (!part_knows(filter)) {
            CHECK(part.items.value < all.items.value
                  || part.items.value > all.items.value);
            CHECK(part.items.high - part.items.low > all.items.high - all.items.low);
        }
        CHECK_EQ(part.units, all.units);
        CHECK_EQ(part.foldable, all.foldable);
        bg_filter_free(filter);
    }
}

/* The interval must allow for keys whose bits are all outside the sampled ranges. */
TEST(info_part__what_is_rare_may_be_there)
{
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        if (part_is_static(i)) {
            continue;
        }
        bg_filter *filter = part_make(i, 3);
        bg_filter_info part = { .struct_size = sizeof part };
        CHECK_OK(bg_filter_sample_info(filter, PART_MAX, &part));
        if (!(part.items.low <= 3.1 && part.items.high >= 3)) {
            check_fail(__FILE__, __LINE__, "%s: %g .. %g", files_name(i),
                       part.items.low, part.items.high);
        }
        bg_filter_free(filter);
    }
}

TEST(info_part__arguments)
{
    bg_filter *filter = files_make(2, 1);
    bg_filter_info part = { .struct_size = sizeof part };
    CHECK_EQ(bg_filter_sample_info(NULL, 1, &part), BG_EINVAL);
    CHECK_EQ(bg_filter_sample_info(filter, 1, NULL), BG_EINVAL);
    part.struct_size = 1;
    CHECK_EQ(bg_filter_sample_info(filter, 1, &part), BG_EINVAL);
    part.struct_size = sizeof part;
    /* If the limit is 1 byte, the sample has the smallest possible size. */
    CHECK_OK(bg_filter_sample_info(filter, 1, &part));
    CHECK(part.fill > 0 && part.fill < 1);
    bg_filter_free(filter);
}

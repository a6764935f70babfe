/*
 * Tests the buffer for data that arrives in several parts. Bytes that are only announced use no
 * memory, received bytes can be read, and the memory of released bytes is freed.
 */
#include "support/check.h"
#include "support/filters.h"

#include "gather.h"

#include <string.h>

enum { STEP = 4 << 20 };

TEST(gather__is_zero_until_it_comes)
{
    static const size_t sizes[] = { 1, 4096, (1 << 20) - 1, 1 << 20, (3 << 20) + 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct gather gather;
        CHECK(gather_begin(&gather, sizes[i], NULL));
        CHECK_EQ(gather.size, sizes[i]);
        CHECK_EQ(gather.given, 0);
        CHECK(gather.bytes[0] == 0 && gather.bytes[sizes[i] - 1] == 0);
        memset(gather.bytes, 'x', sizes[i]);
        /* releases fewer than GATHER_STEP bytes, so no memory is freed */
        gather_give(&gather, sizes[i]);
        CHECK_EQ(gather.given, 0);
        CHECK(gather.bytes[0] == 'x' && gather.bytes[sizes[i] - 1] == 'x');
        gather_end(&gather);
        CHECK(gather.bytes == NULL);
        CHECK_EQ(gather.size, 0);
        gather_end(&gather);
    }
}

TEST(gather__gives_back_whole_steps)
{
    struct gather gather;
    CHECK(gather_begin(&gather, 3 * STEP, NULL));
    memset(gather.bytes, 'x', 3 * STEP);
    gather_give(&gather, STEP + 5);
    CHECK_EQ(gather.given, STEP);
    CHECK(gather.bytes[0] == 0 && gather.bytes[STEP - 1] == 0);
    CHECK(gather.bytes[STEP] == 'x' && gather.bytes[3 * STEP - 1] == 'x');
    gather_give(&gather, 5); /* less than before */
    CHECK_EQ(gather.given, STEP);
    gather_give(&gather, 3 * STEP);
    CHECK_EQ(gather.given, 3 * STEP);
    CHECK(gather.bytes[3 * STEP - 1] == 0);
    gather_end(&gather);
}

TEST(gather__takes_promises_for_addresses)
{
    struct gather gather;
    CHECK(!gather_begin(&gather, SIZE_MAX, NULL));
    CHECK(gather.bytes == NULL);
    CHECK_EQ(gather.size, 0);
    CHECK(!gather_begin(&gather, SIZE_MAX / 2, NULL));
    gather_end(&gather);
}

TEST(gather__counts_what_has_come)
{
    static const size_t sizes[] = { 1, 4096, 1 << 20, 3 * STEP + 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct counting c;
        struct gather gather;
        counting_start(&c);
        CHECK(gather_begin(&gather, sizes[i], &c.hooks));
        CHECK_EQ(c.live, 0); /* reserved address space does not count as memory */
        for (size_t n = 1; n <= sizes[i]; n += sizes[i] / 5 + 1) {
            CHECK(gather_count(&gather, n));
            CHECK(gather.counted >= n && gather.counted < n + STEP + 4096);
        }
        CHECK(gather_count(&gather, sizes[i]));
        CHECK(gather.counted >= sizes[i] && c.live > 0);
        gather_uncount(&gather);
        CHECK_EQ(c.live, 0);
        CHECK(gather_count(&gather, 1));
        gather_end(&gather);
        CHECK_EQ(c.live, 0);
        CHECK_EQ(c.mistakes, 0);
    }
}

TEST(gather__occupies_whole_pages)
{
    const size_t small = (1 << 20) - 1, large = 1 << 20;
    CHECK_EQ(gather_footprint(1, 0), 1);
    CHECK_EQ(gather_footprint(small, 1), small);
    CHECK_EQ(gather_footprint(small, small), small);
    const size_t page = gather_footprint(large, 0);
    CHECK(page >= 4096 && page < large);
    CHECK_EQ(gather_footprint(large, 1), 2 * page);
    CHECK_EQ(gather_footprint(large, page), 2 * page);
    CHECK_EQ(gather_footprint(large, page + 1), 3 * page);
    CHECK_EQ(gather_footprint(large, large), large + page);
}

TEST(gather__is_refused_by_its_allocator)
{
    struct counting c;
    struct gather gather;
    counting_start(&c);
    CHECK(gather_begin(&gather, 3 * STEP, &c.hooks));
    CHECK(gather_count(&gather, 1));
    c.fail_at = c.calls + 1;
    CHECK(!gather_count(&gather, 2 * STEP));
    CHECK(gather_count(&gather, 2 * STEP)); /* a retry is possible */
    gather_end(&gather);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

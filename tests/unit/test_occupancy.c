/*
 * Tests how the distribution of set bits in a filter is reported. The words of all parts of the
 * filter are divided into cells of equal size.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <math.h>

enum { CELLS = 100 };

static bg_filter *occupancy_make(bg_kind kind, uint64_t items, uint32_t shards)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = kind;
    spec.items = items;
    spec.rate = 0.01;
    spec.shards = shards;
    CHECK(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    return filter;
}

TEST(occupancy__of_one_cell_is_the_fill)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = occupancy_make(kind_at(i), 10000, 0);
        double share = -1;
        for (uint64_t key = 0; key < 10000; key++) {
            (void)added_u64(filter, key);
        }
        CHECK(bg_filter_occupancy(filter, &share, 1) == BG_OK);
        CHECK_NEAR(share, bg_filter_fill(filter), 1e-12);
        bg_filter_free(filter);
    }
}

TEST(occupancy__of_an_empty_filter_is_nothing)
{
    double shares[CELLS];
    bg_filter *filter = occupancy_make(BG_KIND_BLOCKED, 1000, 0);
    CHECK(bg_filter_occupancy(filter, shares, CELLS) == BG_OK);
    for (int i = 0; i < CELLS; i++) {
        CHECK(shares[i] == 0);
    }
    bg_filter_free(filter);
}

/* The high bits of a hash select the position. The two highest bits of these hashes are 0, so the
 * hashes fill the first quarter of the filter. */
TEST(occupancy__shows_where_the_bits_are)
{
    double shares[8];
    bg_filter *filter = occupancy_make(BG_KIND_BLOCKED, 100000, 0);
    for (uint64_t i = 0; i < 20000; i++) {
        (void)added_hash(filter, (i * UINT64_C(0x9e3779b97f4a7c15)) >> 2);
    }
    CHECK(bg_filter_occupancy(filter, shares, 8) == BG_OK);
    CHECK(shares[0] > 0.1 && shares[1] > 0.1);
    /* Cell 2 is not checked, because a cell boundary may lie within a line. */
    for (int i = 3; i < 8; i++) {
        CHECK(shares[i] == 0);
    }
    bg_filter_free(filter);
}

/* The parts are laid out one after another, and every word belongs to exactly one cell, for any
 * number of cells. */
TEST(occupancy__of_parts_adds_up)
{
    for (uint32_t shards = 2; shards <= 7; shards += 5) {
        double shares[4096], all, sum = 0;
        bg_filter *filter = occupancy_make(BG_KIND_BLOCKED, 5000, shards);
        for (uint64_t key = 0; key < 5000; key++) {
            (void)added_u64(filter, key);
        }
        const size_t words = (size_t)bg_filter_size_bytes(filter) / 8;
        CHECK(words <= 4096 && words % shards == 0);
        CHECK(bg_filter_occupancy(filter, &all, 1) == BG_OK);
        CHECK_NEAR(all, bg_filter_fill(filter), 1e-12);
        CHECK(bg_filter_occupancy(filter, shares, words) == BG_OK);
        for (size_t i = 0; i < words; i++) { /* one word each */
            CHECK(shares[i] * 64 == floor(shares[i] * 64));
            sum += shares[i];
        }
        CHECK_NEAR(sum / (double)words, all, 1e-9);
        bg_filter_free(filter);
    }
}

TEST(occupancy__of_more_cells_than_words_repeats_them)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    double words[8], shares[24];
    spec.kind = BG_KIND_BLOCKED;
    spec.bytes = 64;
    spec.k = 8;
    CHECK(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    for (uint64_t key = 0; key < 5; key++) {
        (void)added_u64(filter, key);
    }
    CHECK(bg_filter_occupancy(filter, words, 8) == BG_OK);
    CHECK(bg_filter_occupancy(filter, shares, 24) == BG_OK);
    for (int i = 0; i < 24; i++) {
        CHECK(shares[i] == words[i / 3]);
    }
    bg_filter_free(filter);
}

/* Kinds that consist of counters, slots, layers or generations also report an occupancy. */
TEST(occupancy__is_told_by_every_kind)
{
    static const bg_kind kinds[] = { BG_KIND_COUNTING, BG_KIND_CUCKOO, BG_KIND_QUOTIENT,
                                     BG_KIND_SCALABLE, BG_KIND_WINDOW };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double shares[CELLS], sum = 0;
        bg_filter *filter = occupancy_make(kinds[i], 1000, 0);
        for (uint64_t key = 0; key < 900; key++) {
            (void)added_u64(filter, key);
        }
        CHECK(bg_filter_occupancy(filter, shares, CELLS) == BG_OK);
        for (int c = 0; c < CELLS; c++) {
            CHECK(shares[c] >= 0 && shares[c] <= 1);
            sum += shares[c];
        }
        CHECK(sum > 0);
        bg_filter_free(filter);
    }
}

TEST(occupancy__refuses_what_makes_no_sense)
{
    bg_filter *filter = occupancy_make(BG_KIND_BLOCKED, 1000, 0);
    double share = 7;
    CHECK(bg_filter_occupancy(NULL, &share, 1) == BG_EINVAL);
    CHECK(bg_filter_occupancy(filter, NULL, 1) == BG_EINVAL);
    CHECK(bg_filter_occupancy(filter, &share, 0) == BG_EINVAL);
    CHECK(bg_filter_occupancy(filter, &share, 65537) == BG_EINVAL);
    CHECK(share == 7);
    bg_filter_free(filter);
}

/*
 * Filters of more than 2^32 bits and of more than 4 GiB. Positions must be computed with full
 * precision. (32-bit positions, the classic bug in large filters, would cause keys to alias or be
 * lost.) The filters are never filled, so only the touched pages use memory.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "base/bits.h"
#include "filter/handle.h"

#include <stdio.h>

enum { PLACES = 64 };

/* Returns NULL, and prints a note, if the machine has too little address space. */
static bg_filter *large_filter(bg_kind kind, uint64_t units)
{
    bg_spec spec = exact_spec(kind, units, kind_k_usual(kind), BG_SPEC_SMALL_PAGES);
    bg_filter *filter = NULL;
    bg_err err = bg_filter_create(&spec, &filter, NULL);
    if (err == BG_ENOMEM) {
        printf("skipped: cannot allocate %llu MiB for a filter of kind %s\n",
               (unsigned long long)spec.bytes >> 20, bg_kind_name(kind));
        return NULL;
    }
    CHECK_OK(err);
    CHECK_EQ(bg_filter_size_bytes(filter), spec.bytes);
    return filter;
}

/* Returns whether any bit is set in the `bytes` bytes that start at `start`. */
static bool any_bit(const bg_filter *filter, uint64_t start, size_t bytes)
{
    const unsigned char *p = filter->core.words + start;
    for (size_t i = 0; i < bytes; i++) {
        if (p[i]) {
            return true;
        }
    }
    return false;
}

/* Returns the byte offset of the unit that must contain the first bit of a hash. The hash, as a
 * fraction of 2^64, selects a unit of the whole filter or, in a partitioned filter, of the first
 * slice. */
static uint64_t place_of(const bg_filter *filter, uint64_t hash)
{
    uint64_t units = filter->core.units;
    uint64_t unit = bgi_mulhi(hash, units);
    bool sliced = filter->kind->id == BG_KIND_PARTITIONED;
    return unit * (sliced ? 8 : filter->kind->unit_bytes(filter->core.k));
}

static size_t place_bytes(const bg_filter *filter)
{
    bool sliced = filter->kind->id == BG_KIND_PARTITIONED;
    return sliced ? 8 : filter->kind->unit_bytes(filter->core.k);
}

/* Tests hashes that map to the start, the end and the middle of the filter. Each hash sets bits
 * where it must, and nowhere else. */
static void check_corners(bg_filter *filter)
{
    static const uint64_t corner[] = { 0, UINT64_MAX, UINT64_C(1) << 63,
                                       (UINT64_C(1) << 63) - 1,
                                       UINT64_C(0xfffffffe00000001) };
    for (size_t i = 0; i < sizeof corner / sizeof *corner; i++) {
        uint64_t at = place_of(filter, corner[i]);
        CHECK(at < bg_filter_size_bytes(filter));
        CHECK(!bg_filter_may_contain_hash(filter, corner[i]));
        CHECK(added_hash(filter, corner[i]));
        CHECK(bg_filter_may_contain_hash(filter, corner[i]));
        CHECK(any_bit(filter, at, place_bytes(filter)));
    }
    CHECK(any_bit(filter, 0, place_bytes(filter)));
    if (filter->kind->id != BG_KIND_PARTITIONED) {
        uint64_t end = bg_filter_size_bytes(filter);
        CHECK(any_bit(filter, end - place_bytes(filter), place_bytes(filter)));
    }
    bg_filter_clear(filter);
    for (size_t i = 0; i < sizeof corner / sizeof *corner; i++) {
        CHECK(!bg_filter_may_contain_hash(filter, corner[i]));
    }
}

/*
 * Tests hashes that differ only in their six highest bits, so they are spread evenly over the
 * filter. If any of these bits were lost, two hashes would select the same position. Only every
 * second hash is added, and only the added hashes must be found.
 */
static void check_no_aliases(bg_filter *filter)
{
    uint64_t hash[PLACES], bitmap[1];
    uint32_t low = (uint32_t)check_random();
    for (uint64_t i = 0; i < PLACES; i++) {
        hash[i] = i << 58 | UINT64_C(0x12345) << 34 | low;
    }
    for (int i = 0; i < PLACES; i += 2) {
        CHECK(added_hash(filter, hash[i]));
    }
    for (int i = 0; i < PLACES; i++) {
        CHECK_EQ(bg_filter_may_contain_hash(filter, hash[i]), i % 2 == 0);
    }
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(hash, PLACES), bitmap),
             PLACES / 2);
    CHECK_EQ(bitmap[0], UINT64_C(0x5555555555555555));
}

static void check_members(bg_filter *filter)
{
    uint64_t hash[200], bitmap[BG_BITMAP_WORDS(200)];
    random_hashes(hash, 200);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(hash, 200), bitmap), 0);
    CHECK_EQ(added_many(filter, bg_keys_hashes(hash, 100), NULL), 100);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(bg_filter_may_contain_hash(filter, hash[i]), i < 100);
    }
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(hash, 200), bitmap),
             100);
}

/* Tests a filter of 2^log2_bytes bytes, and one whose size is slightly larger and not a power of
 * two. */
static void check_size(bg_kind kind, unsigned log2_bytes)
{
    uint32_t unit = kind_unit_bytes(kind, kind_k_usual(kind));
    for (unsigned odd = 0; odd <= 1; odd++) {
        uint64_t units = ((UINT64_C(1) << log2_bytes) / unit) + 12345 * odd;
        bg_filter *filter = large_filter(kind, units);
        if (filter) {
            check_corners(filter);
            check_no_aliases(filter);
            check_members(filter);
            bg_filter_free(filter);
        }
    }
}

TEST(large__beyond_2_to_the_32_bits)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        check_size(
            kind_at(i),
            30); /* with 2^33 bits, 32-bit positions would make the two halves alias */
    }
}

TEST(large__beyond_4_gib)
{
    if (CHECK_EMULATED || CHECK_SANITIZED || sizeof(size_t) < 8) {
        return;
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        check_size(kind_at(i), 33); /* 2^36 bits, 2^33 bytes */
    }
}

/* Sizes beyond the kind's range of positions, or beyond a 32-bit size_t, are refused, not
 * truncated. */
TEST(large__what_cannot_be_addressed_is_refused)
{
    const bool narrow = sizeof(size_t) < 8;
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        uint32_t k = kind_k_usual(kind);
        uint64_t least = UINT64_C(1) << (narrow ? 32 : 62);
        bg_spec spec = exact_spec(kind, least / kind_unit_bytes(kind, k) + 1, k, 0);
        bg_filter *filter = (bg_filter *)(void *)&spec;
        size_t bytes = 7;
        bg_err expected = narrow ? BG_ENOMEM : BG_EINVAL;
        CHECK_EQ(bg_filter_create(&spec, &filter, NULL), expected);
        CHECK(filter == NULL);
        CHECK_EQ(bg_filter_memory_needed(&spec, &bytes, NULL), expected);
        CHECK_EQ(bytes, 7);
    }
}

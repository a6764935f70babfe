/*
 * test_slot_hash.c - tests adds and lookups by hash: hashes have the same effect as keys in every
 * state of a slot, and no effect on filters with a different hasher.
 */
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/slots.h"

#include "base/bits.h"

#include <string.h>

enum { MOST = 1500 };

/* Keys first .. first + n - 1, as bytes and as hashes computed by a slot. */
struct batch {
    /* The little-endian bytes that bg_hash_u64 hashes for an integer. */
    uint8_t keys[MOST][8];
    bg_bytes bytes[MOST];
    uint64_t hashes[MOST];
    uint64_t check;
};

static struct batch *batch_of(uint64_t first, size_t n)
{
    static struct batch batch;
    for (size_t i = 0; i < n; i++) {
        bgi_store_le64(batch.keys[i], first + i);
        batch.bytes[i] = (bg_bytes){ batch.keys[i], 8 };
    }
    return &batch;
}

static struct batch *hashed(const bg_slot *slot, uint64_t first, size_t n)
{
    struct batch *batch = batch_of(first, n);
    CHECK_OK(bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, n), batch->hashes,
                               &batch->check));
    return batch;
}

static bool bit(const uint64_t *bitmap, size_t i)
{
    return bitmap[i / 64] >> i % 64 & 1;
}

/* Creates a filter with a different hasher, and sets *check to the hasher's check value. */
static bg_filter *other_filter(uint64_t *check)
{
    bg_filter *filter = make_seeded(BG_KIND_BLOCKED, 2000, 77);
    *check = bg_hasher_check(bg_filter_hasher(filter));
    return filter;
}

/* Looks up n keys by hash, starting at `first`, and returns the number of "maybe" answers. The
 * bitmap and single lookups must agree. */
static size_t ask_hashes(const bg_slot *slot, uint64_t first, size_t n)
{
    uint64_t maybe[BG_BITMAP_WORDS(MOST)];
    const struct batch *batch = hashed(slot, first, n);
    size_t found = bg_slot_may_contain_many(
        slot, bg_keys_hashes_of(batch->hashes, n, batch->check), maybe);
    CHECK_EQ(bg_slot_may_contain_many(
                 slot, bg_keys_hashes_of(batch->hashes, n, batch->check), NULL),
             found);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(bit(maybe, i), bg_slot_may_contain_u64(slot, first + i));
    }
    return found;
}

TEST(slot_hash__is_the_hash_of_the_filters)
{
    bg_filter *filter = make_seeded(BG_KIND_BLOCKED, 2000, 5);
    const bg_hasher *hasher = bg_filter_hasher(filter);
    bg_slot *slot = make_slot(filter, 0);
    const struct batch *batch = hashed(slot, 10, MOST);
    CHECK_EQ(batch->check, bg_hasher_check(hasher));
    for (size_t i = 0; i < MOST; i++) {
        CHECK_EQ(batch->hashes[i], bg_hash_u64(hasher, 10 + i));
    }
    uint64_t check = 0;
    CHECK_OK(bg_slot_hash_many(slot, bg_keys_bytes(NULL, 0), NULL, &check));
    CHECK_EQ(check, batch->check);
    bg_slot_free(slot);
}

TEST(slot_hash__refuses_what_has_no_hasher)
{
    bg_slot *slot = make_slot(NULL, 0);
    struct batch *batch = batch_of(0, 3);
    batch->check = 9;
    CHECK_EQ(bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, 3), batch->hashes,
                               &batch->check),
             BG_ENOTFOUND);
    CHECK_EQ(batch->check, 0);
    uint64_t maybe = 0;
    CHECK_EQ(
        bg_slot_may_contain_many(slot, bg_keys_hashes_of(batch->hashes, 3, 0), &maybe),
        3);
    CHECK_EQ(maybe, 7);
    CHECK_EQ(bg_slot_add_many(slot, bg_keys_hashes_of(batch->hashes, 3, 0), NULL, NULL,
                              NULL),
             BG_ENOTSUP);
    CHECK_EQ(bg_slot_remove_hash(slot, 1, 0), BG_ENOTSUP);
    CHECK_EQ(bg_slot_count(slot, "a", 1), 1);
    CHECK_EQ(bg_slot_hash_many(NULL, bg_keys_bytes(batch->bytes, 3), batch->hashes,
                               &batch->check),
             BG_EINVAL);
    CHECK_EQ(
        bg_slot_hash_many(slot, bg_keys_bytes(NULL, 3), batch->hashes, &batch->check),
        BG_EINVAL);
    CHECK_EQ(
        bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, 3), NULL, &batch->check),
        BG_EINVAL);
    CHECK_EQ(
        bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, 3), batch->hashes, NULL),
        BG_EINVAL);
    bg_slot_free(slot);
    CHECK_EQ(
        bg_slot_may_contain_many(NULL, bg_keys_hashes_of(batch->hashes, 3, 0), &maybe),
        3);
    CHECK_EQ(bg_slot_add_many(NULL, bg_keys_hashes_of(batch->hashes, 3, 0), NULL, NULL,
                              NULL),
             BG_EINVAL);
    CHECK_EQ(bg_slot_add_many(NULL, bg_keys_bytes(batch->bytes, 3), NULL, NULL, NULL),
             BG_EINVAL);
    CHECK_EQ(bg_slot_remove_hash(NULL, 1, 0), BG_EINVAL);
    CHECK_EQ(bg_slot_count(NULL, "a", 1), 1);
}

/* For every kind that accepts adds, keys added by hash are found by key, and the bitmap matches the
 * results of single adds. */
TEST(slot_hash__adds_as_keys_do)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED,  BG_KIND_CLASSIC,
                                     BG_KIND_COUNTING, BG_KIND_CUCKOO,
                                     BG_KIND_QUOTIENT, BG_KIND_SCALABLE };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint64_t is_new[BG_BITMAP_WORDS(MOST)];
        bg_slot *slot = make_slot(make(kinds[k], 4000), 0);
        bg_slot *one = make_slot(make(kinds[k], 4000), 0);
        for (uint64_t first = 0; first < 2000; first += 1000) { /* 500 of them twice */
            const struct batch *batch = hashed(slot, first, MOST);
            size_t done = 0;
            CHECK_OK(bg_slot_add_many(
                slot, bg_keys_hashes_of(batch->hashes, MOST, batch->check), is_new,
                &done, NULL));
            CHECK_EQ(done, MOST);
            for (size_t i = 0; i < MOST; i++) {
                bool single = false;
                CHECK_OK(bg_slot_add_u64(one, first + i, &single));
                CHECK_EQ(bit(is_new, i), single);
            }
            CHECK_EQ(is_new[MOST / 64] >> MOST % 64, 0);
        }
        CHECK_EQ(count_keys(slot, 0, 2500), 2500);
        CHECK_EQ(ask_hashes(slot, 700, MOST), MOST);
        CHECK(ask_hashes(slot, 1000000, MOST) < 30);
        CHECK_EQ(stats_of(slot).adds, stats_of(one).adds);
        CHECK_EQ(stats_of(slot).news, stats_of(one).news);
        bg_slot_free(one);
        bg_slot_free(slot);
    }
}

TEST(slot_hash__a_key_twice_in_a_batch_is_new_once)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_CUCKOO,
                                     BG_KIND_SCALABLE };
    for (size_t k = 0; k < 3; k++) {
        uint64_t is_new[BG_BITMAP_WORDS(MOST)] = { 0 };
        bg_slot *slot = make_slot(make(kinds[k], 4000), 0);
        struct batch *batch = hashed(slot, 0, MOST);
        for (size_t i = 0; i < MOST; i++) { /* adds each of 750 keys twice in a row */
            bgi_store_le64(batch->keys[i], i / 2);
        }
        CHECK_OK(bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, MOST),
                                   batch->hashes, &batch->check));
        size_t done = 0, news = 0;
        if (k == 1) { /* this batch is added by key */
            CHECK_OK(bg_slot_add_many(slot, bg_keys_bytes(batch->bytes, MOST), is_new,
                                      &done, NULL));
        } else {
            CHECK_OK(bg_slot_add_many(
                slot, bg_keys_hashes_of(batch->hashes, MOST, batch->check), is_new,
                &done, NULL));
        }
        CHECK_EQ(done, MOST);
        for (size_t i = 0; i < MOST; i++) {
            news += bit(is_new, i);
            CHECK(i % 2 == 0 || !bit(is_new, i));
        }
        CHECK(news > 740);
        CHECK_EQ(news, stats_of(slot).news);
        bg_slot_free(slot);
    }
}

TEST(slot_hash__of_another_hasher_adds_nothing_and_finds_everything)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    const struct batch *batch = hashed(slot, 5000, 100);
    uint64_t maybe[2], is_new[2] = { 7, 7 }, check = 0;
    bg_filter *filter = other_filter(&check);
    CHECK_OK(bg_slot_swap(slot, filter, 0, BG_SLOT_DISCARD, NULL));
    CHECK(check != batch->check);
    size_t done = 9;
    CHECK_EQ(bg_slot_add_many(slot, bg_keys_hashes_of(batch->hashes, 100, batch->check),
                              is_new, &done, NULL),
             BG_EINCOMPAT);
    CHECK_EQ(done, 0);
    CHECK_EQ(is_new[0] | is_new[1], 0);
    CHECK_EQ(info_of(filter).ones, 0);
    CHECK_EQ(stats_of(slot).adds + stats_of(slot).refused, 0);
    CHECK_EQ(bg_slot_may_contain_many(
                 slot, bg_keys_hashes_of(batch->hashes, 100, batch->check), maybe),
             100);
    CHECK_EQ(maybe[0], UINT64_MAX);
    CHECK_EQ(maybe[1], (UINT64_C(1) << 36) - 1);
    CHECK_EQ(stats_of(slot).queries, 100);
    CHECK_EQ(stats_of(slot).maybes, 100);
    bg_slot_free(slot);
}

/* During a migration, each key must be added to both filters. Therefore, keys can be added by hash
 * only if both filters have the same hasher. */
TEST(slot_hash__in_a_migration)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    struct batch *batch = hashed(slot, 6000, 100);
    uint64_t other = 0, unused = 0;
    CHECK_OK(bg_slot_begin_migration(slot, other_filter(&other), NULL));
    CHECK_EQ(bg_slot_hash_many(slot, bg_keys_bytes(batch->bytes, 100), batch->hashes,
                               &unused),
             BG_EINCOMPAT);
    const uint64_t checks[] = { batch->check, other };
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(bg_slot_add_many(slot,
                                  bg_keys_hashes_of(batch->hashes, 100, checks[i]),
                                  NULL, NULL, NULL),
                 BG_EINCOMPAT);
        CHECK_EQ(bg_slot_may_contain_many(
                     slot, bg_keys_hashes_of(batch->hashes, 100, checks[i]), NULL),
                 100);
    }
    CHECK(count_keys(slot, 6000, 100) < 10);
    uint64_t is_new[2] = { 0, 0 };
    size_t done = 0;
    CHECK_OK(
        bg_slot_add_many(slot, bg_keys_bytes(batch->bytes, 100), is_new, &done, NULL));
    CHECK_EQ(done, 100);
    CHECK_EQ(count_keys(slot, 6000, 100), 100);
    CHECK_OK(bg_slot_end_migration(slot, true, NULL));
    CHECK_OK(bg_slot_begin_migration(slot, make(BG_KIND_CLASSIC, 500), NULL));
    CHECK_EQ(ask_hashes(slot, 6000, 100), 100);
    batch = hashed(slot, 7000, 100);
    CHECK_OK(bg_slot_add_many(slot, bg_keys_hashes_of(batch->hashes, 100, batch->check),
                              is_new, &done, NULL));
    /* Keeps only the new filter, which must contain the added keys. */
    CHECK_OK(bg_slot_end_migration(slot, false, NULL));
    CHECK_EQ(ask_hashes(slot, 7000, 100), 100);
    bg_slot_free(slot);
}

/* The slot has a sealed base with a different hasher, and a delta. The base cannot be queried by
 * hash, so no key is reported as new. */
TEST(slot_hash__beside_a_base_of_another_hasher_nothing_is_certainly_new)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    uint64_t check = 0, unused, is_new[2] = { 7, 7 };
    bg_filter *delta = other_filter(&check);
    struct batch *batch = batch_of(400, 100);
    bg_hash_many(bg_filter_hasher(delta), bg_keys_bytes(batch->bytes, 100),
                 batch->hashes);
    CHECK_OK(bg_slot_set_delta(slot, delta, NULL));
    CHECK_EQ(bg_slot_hash_many(slot, bg_keys_bytes(NULL, 0), NULL, &unused),
             BG_EINCOMPAT);
    size_t done = 0;
    CHECK_OK(bg_slot_add_many(slot, bg_keys_hashes_of(batch->hashes, 100, check),
                              is_new, &done, NULL));
    CHECK_EQ(done, 100);
    CHECK_EQ(is_new[0] | is_new[1], 0);
    CHECK_EQ(
        bg_filter_may_contain_many(delta, bg_keys_hashes(batch->hashes, 100), NULL),
        100);
    CHECK_EQ(stats_of(slot).adds, 100);
    CHECK_EQ(stats_of(slot).news, 0);
    bg_slot_free(slot);
}

/* If the delta has the same hasher as the base, keys in the base are not reported as new. */
TEST(slot_hash__in_layers)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    uint64_t is_new[BG_BITMAP_WORDS(1000)];
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    const struct batch *batch = hashed(slot, 0, 1000);
    CHECK_OK(bg_slot_add_many(slot,
                              bg_keys_hashes_of(batch->hashes, 1000, batch->check),
                              is_new, NULL, NULL));
    size_t news = 0;
    for (size_t i = 0; i < 1000; i++) {
        CHECK(i >= 500 || !bit(is_new, i));
        news += bit(is_new, i);
    }
    CHECK(news > 480);
    CHECK_EQ(ask_hashes(slot, 0, 1000), 1000);
    bg_slot_free(slot);
}

TEST(slot_hash__tells_what_a_full_filter_took)
{
    bg_slot *slot = make_slot(make(BG_KIND_CUCKOO, 100), 0);
    uint64_t is_new[BG_BITMAP_WORDS(MOST)];
    memset(is_new, 0xff, sizeof is_new);
    const struct batch *batch = hashed(slot, 0, MOST);
    size_t done = 0;
    CHECK_EQ(bg_slot_add_many(slot,
                              bg_keys_hashes_of(batch->hashes, MOST, batch->check),
                              is_new, &done, NULL),
             BG_EFULL);
    CHECK(done >= 100 && done < MOST);
    CHECK_EQ(count_keys(slot, 0, done), done);
    for (size_t i = done; i < MOST; i++) {
        CHECK(!bit(is_new, i));
    }
    CHECK_EQ(stats_of(slot).refused, 1);
    CHECK_EQ(stats_of(slot).adds, done);
    bg_slot_free(slot);
}

TEST(slot_hash__removes_and_counts)
{
    bg_slot *slot = make_slot(make(BG_KIND_COUNTING, 1000), 0);
    const struct batch *batch = hashed(slot, 42, 1);
    const uint8_t *key = batch->keys[0];
    const uint64_t hash = batch->hashes[0], check = batch->check;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(bg_slot_count(slot, key, 8), i);
        CHECK_OK(bg_slot_add_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL, NULL,
                                  NULL));
    }
    CHECK_EQ(bg_slot_remove_hash(slot, hash, check + 1), BG_EINCOMPAT);
    CHECK_EQ(bg_slot_count(slot, key, 8), 3);
    CHECK_OK(bg_slot_remove_hash(slot, hash, check));
    CHECK_EQ(bg_slot_count(slot, key, 8), 2);
    CHECK_EQ(stats_of(slot).queries, 5);
    CHECK_EQ(stats_of(slot).maybes, 4);
    CHECK_OK(bg_slot_begin_migration(slot, make(BG_KIND_QUOTIENT, 1000), NULL));
    CHECK_OK(bg_slot_add(slot, key, 8, NULL));
    CHECK_EQ(bg_slot_count(slot, key, 8), 4); /* 3 and 1 */
    CHECK_EQ(bg_slot_remove_hash(slot, hash, check), BG_ENOTSUP);
    bg_slot_free(slot);
}

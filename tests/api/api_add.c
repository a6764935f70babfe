/*
 * api_add.c - results of adds: full filters, static filters, key arrays, and hashes from a
 * different hasher.
 */
#include "bloomgate/all.h"
#include "support/check.h"

#include <string.h>

enum { ITEMS = 1000, ABSENT = 20000 };

static bg_filter *create(bg_kind kind, const uint8_t *secret)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = (uint32_t)kind;
    spec.items = ITEMS;
    spec.rate = 0.01;
    if (secret) {
        spec.hash.profile = BG_HASH_KEYED;
        spec.hash.secret = secret;
    }
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    return filter;
}

static bg_filter_info info_of(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(filter, &info));
    return info;
}

/* Looks up ABSENT keys that were never added; returns the number of "maybe" answers. */
static size_t false_positives(const bg_filter *filter)
{
    size_t count = 0;
    for (uint64_t key = 0; key < ABSENT; key++) {
        count += bg_filter_may_contain_u64(filter, UINT64_MAX - key);
    }
    return count;
}

/* Adds keys 0, 1, 2 ... until one is refused; returns the refused key. */
static uint64_t fill_up(bg_filter *filter)
{
    for (uint64_t key = 0; key < 1000 * ITEMS; key++) {
        bool is_new = true;
        const bg_err err = bg_filter_add_u64(filter, key, &is_new);
        if (err) {
            CHECK_EQ(err, BG_EFULL);
            CHECK(!is_new);
            return key;
        }
    }
    CHECK(false);
    return 0;
}

static void check_full(bg_kind kind)
{
    bg_filter *filter = create(kind, NULL);
    const uint64_t full = fill_up(filter);
    CHECK(full >= ITEMS);
    for (uint64_t key = 0; key < full; key++) {
        CHECK(bg_filter_may_contain_u64(filter, key));
    }
    CHECK(!info_of(filter).overflowed);
    /* The filter still rejects most absent keys. */
    CHECK(false_positives(filter) < ABSENT / 20);

    const uint64_t keys[3] = { 0, full, 1 };
    uint64_t is_new[1] = { 77 };
    size_t done = 9, added = 9;
    CHECK_EQ(
        bg_filter_add_many(filter, bg_keys_u64(keys + 1, 2), is_new, &done, &added),
        BG_EFULL);
    CHECK_EQ(done, 0);
    CHECK_EQ(added, 0);
    CHECK_EQ(is_new[0], 0);

    CHECK_OK(bg_filter_add_forced(filter, bg_keys_u64(keys + 1, 1), NULL, NULL));
    CHECK(info_of(filter).overflowed);
    CHECK(bg_filter_may_contain_u64(filter, full));
    CHECK_EQ(false_positives(filter), ABSENT);
    bg_filter_free(filter);
}

TEST(add__full_filter_is_unchanged)
{
    check_full(BG_KIND_CUCKOO);
    check_full(BG_KIND_QUOTIENT);
}

TEST(add__static_filter_is_unchanged)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bool is_new = true;
    size_t done = 9;
    const uint64_t keys[2] = { ITEMS, ITEMS + 1 };
    spec.kind = BG_KIND_FUSE;
    spec.rate = 0.01;
    CHECK_OK(bg_builder_create(&spec, &builder, NULL));
    for (uint64_t key = 0; key < ITEMS; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    CHECK_OK(bg_builder_finish(builder, &filter, NULL));
    const size_t before = false_positives(filter);
    CHECK_EQ(bg_filter_add(filter, "apple", 5, &is_new), BG_ENOTSUP);
    CHECK(!is_new);
    CHECK_EQ(bg_filter_add_u64(filter, ITEMS, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_add_hash(filter, 1, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_add_many(filter, bg_keys_u64(keys, 2), NULL, &done, NULL),
             BG_ENOTSUP);
    CHECK_EQ(done, 0);
    CHECK_EQ(false_positives(filter), before);
    bg_filter_free(filter);
    bg_builder_free(builder);
}

TEST(add__array_stops_at_the_first_refused_key)
{
    bg_filter *filter = create(BG_KIND_CUCKOO, NULL);
    static uint64_t keys[4 * ITEMS], is_new[BG_BITMAP_WORDS(4 * ITEMS)];
    size_t done = 0, added = 0, ones = 0;
    for (uint64_t i = 0; i < 4 * ITEMS; i++) {
        keys[i] = i;
    }
    CHECK_EQ(
        bg_filter_add_many(filter, bg_keys_u64(keys, 4 * ITEMS), is_new, &done, &added),
        BG_EFULL);
    CHECK(done >= ITEMS && done < 4 * ITEMS);
    for (size_t i = 0; i < 4 * ITEMS; i++) {
        const bool one = is_new[i / 64] >> i % 64 & 1;
        ones += one;
        CHECK(i < done || !one);
        CHECK(i >= done || bg_filter_may_contain_u64(filter, keys[i]));
    }
    CHECK_EQ(ones, added);
    CHECK_EQ(bg_filter_add_u64(filter, keys[done], NULL), BG_EFULL);
    bg_filter_free(filter);
}

TEST(keys__hashes_of_another_hasher_are_refused)
{
    static const uint8_t one[BG_SECRET_BYTES] = { 1 }, two[BG_SECRET_BYTES] = { 2 };
    bg_filter *mine = create(BG_KIND_BLOCKED, one),
              *other = create(BG_KIND_BLOCKED, two);
    uint64_t keys[100], hashes[100], maybe[BG_BITMAP_WORDS(100)];
    size_t done = 9;
    for (uint64_t i = 0; i < 100; i++) {
        keys[i] = i;
    }
    bg_hash_many(bg_filter_hasher(mine), bg_keys_u64(keys, 100), hashes);
    const bg_keys checked =
        bg_keys_hashes_of(hashes, 100, bg_hasher_check(bg_filter_hasher(mine)));
    CHECK_EQ(bg_filter_add_many(other, checked, NULL, &done, NULL), BG_EINCOMPAT);
    CHECK_EQ(done, 0);
    CHECK_EQ(bg_filter_add_forced(other, checked, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(bg_filter_remove_many(other, checked, NULL), 0);
    CHECK_EQ(info_of(other).ones, 0);
    CHECK_EQ(bg_filter_may_contain_many(other, checked, maybe), 100);
    CHECK_EQ(maybe[0], UINT64_MAX);
    CHECK_OK(bg_filter_add_many(mine, checked, NULL, &done, NULL));
    CHECK_EQ(done, 100);
    CHECK_EQ(bg_filter_may_contain_many(mine, bg_keys_u64(keys, 100), NULL), 100);
    bg_filter_free(mine);
    bg_filter_free(other);
}

TEST(keys__views_without_keys_are_refused)
{
    bg_filter *filter = create(BG_KIND_BLOCKED, NULL);
    const uint64_t key = 1;
    bg_keys unknown = bg_keys_u64(&key, 1);
    unknown.form = 4;
    const bg_keys wrong[] = { unknown,
                              bg_keys_u64(NULL, 1),
                              bg_keys_bytes(NULL, 3),
                              bg_keys_fixed(&key, 0, 1),
                              bg_keys_fixed(&key, SIZE_MAX / 2, 3),
                              bg_keys_hashes(&key, SIZE_MAX / 4) };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(bg_filter_add_many(filter, wrong[i], NULL, NULL, NULL), BG_EINVAL);
        CHECK_EQ(bg_filter_add_forced(filter, wrong[i], NULL, NULL), BG_EINVAL);
        CHECK_EQ(bg_filter_may_contain_many(filter, wrong[i], NULL), wrong[i].count);
    }
    CHECK_EQ(info_of(filter).ones, 0);
    CHECK_OK(bg_filter_add_many(filter, bg_keys_bytes(NULL, 0), NULL, NULL, NULL));
    CHECK_EQ(bg_filter_add(NULL, "apple", 5, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_add_hash(NULL, 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_add_u64(NULL, 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_add_many(NULL, bg_keys_u64(&key, 1), NULL, NULL, NULL),
             BG_EINVAL);
    bg_filter_free(filter);
}

TEST(names__are_parsed_and_printed)
{
    bg_hash_profile profile = BG_HASH_CUSTOM;
    CHECK(bg_hash_parse("keyed-int", &profile));
    CHECK_EQ(profile, BG_HASH_KEYED_INT);
    CHECK(!bg_hash_parse("keyed-", &profile) && !bg_hash_parse(NULL, &profile));
    CHECK_EQ(profile, BG_HASH_KEYED_INT);
}

/* A path that does not fit is shortened in the middle, so that the message keeps the end of the
 * path. */
TEST(errinfo__long_paths_are_shortened)
{
    static char path[3000];
    bg_errinfo why;
    bg_filter *filter;
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    for (size_t i = 100; i < sizeof path - 100; i += 100) {
        path[i] = '/';
    }
    memcpy(path + sizeof path - 10, "/users.bg", 10);
    CHECK_EQ(bg_open(path, NULL, &filter, &why), BG_EIO);
    CHECK(strlen(why.message) < BG_ERR_MESSAGE_MAX);
    CHECK(strstr(why.message, "users.bg") != NULL);
    CHECK(strstr(why.message, "No such file") != NULL);
}

/* Output handles are set to NULL on every failure, even if an argument is invalid. */
TEST(handles__are_null_after_invalid_arguments)
{
    bg_filter *filter = create(BG_KIND_BLOCKED, NULL);
    bg_gate *gate = (bg_gate *)(void *)filter;
    bg_watch *watch = (bg_watch *)(void *)filter;
    bg_oplog *log = (bg_oplog *)(void *)filter;
    CHECK_EQ(bg_gate_create(NULL, NULL, &gate, NULL), BG_EINVAL);
    CHECK(gate == NULL);
    CHECK_EQ(bg_watch_create(NULL, "path", NULL, &watch, NULL), BG_EINVAL);
    CHECK(watch == NULL);
    CHECK_EQ(bg_oplog_open("path", NULL, NULL, &log, NULL, NULL), BG_EINVAL);
    CHECK(log == NULL);
    bg_filter_free(filter);
}

/* A rebuild that received invalid keys, or hashes from an unknown hasher, cannot be committed. */
TEST(rebuild__refused_keys_fail_the_commit)
{
    uint64_t keys[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    const bg_keys wrong[] = { bg_keys_fixed(keys, 0, 10), bg_keys_hashes(keys, 10) };
    const bg_err expected[] = { BG_EINVAL, BG_EINCOMPAT };
    for (size_t i = 0; i < 2; i++) {
        bg_slot *slot = NULL;
        bg_rebuild *rebuild = NULL;
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        CHECK_OK(bg_slot_create(create(BG_KIND_BLOCKED, NULL), NULL, &slot, NULL));
        CHECK_OK(bg_slot_add_many(slot, bg_keys_u64(keys, 10), NULL, NULL, NULL));
        how.spec.items = ITEMS;
        CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
        CHECK_OK(bg_rebuild_add_many(rebuild, bg_keys_u64(keys, 5), NULL));
        CHECK_EQ(bg_rebuild_add_many(rebuild, wrong[i], NULL), expected[i]);
        CHECK_EQ(bg_rebuild_commit(rebuild, NULL, NULL), expected[i]);
        CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_u64(keys, 10), NULL), 10);
        bg_slot_free(slot);
    }
}

TEST(results__are_set_after_invalid_arguments)
{
    size_t done = 7, added = 7;
    bool is_new = true;
    bg_loader *loader = (bg_loader *)(void *)&done;
    CHECK_EQ(bg_slot_add_many(NULL, bg_keys_u64(NULL, 0), NULL, &done, &added),
             BG_EINVAL);
    CHECK_EQ(done, 0);
    CHECK_EQ(added, 0);
    CHECK_EQ(bg_slot_add(NULL, "apple", 5, &is_new), BG_EINVAL);
    CHECK(!is_new);
    CHECK_EQ(bg_loader_create(NULL, &loader, NULL), BG_EINVAL);
    CHECK(loader == NULL);
}

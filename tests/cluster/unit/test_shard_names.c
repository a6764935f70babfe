/* test_shard_names.c - tests shard names, slots, routes and capacities against fixed values, and
 * checks their properties. */
#include "support/check.h"

#include "shard_names.h"

#include <string.h>

static bg_bytes bytes(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

/* Values from the Redis Cluster documentation and CLUSTER KEYSLOT. */
TEST(slots)
{
    CHECK_EQ(shard_slot(bytes("123456789")), 0x31c3);
    CHECK_EQ(shard_slot(bytes("")), 0);
    CHECK_EQ(shard_slot(bytes("foo")), 12182);
    CHECK_EQ(shard_slot(bytes("{user1000}.following")), shard_slot(bytes("user1000")));
    CHECK_EQ(shard_slot(bytes("foo{}{bar}")), 8363); /* an empty tag is ignored */
    CHECK_EQ(shard_slot(bytes("foo{{bar}}zap")), shard_slot(bytes("{bar")));
    CHECK_EQ(shard_slot(bytes("foo{bar}{zap}")), shard_slot(bytes("bar")));
    CHECK_EQ(shard_slot(bytes("{")), shard_slot((bg_bytes){ "{", 1 }));
    CHECK(shard_slot(bytes("}{")) != shard_slot(bytes("")));
}

TEST(every_number_of_shards_has_its_names)
{
    struct shard_tags tags;
    char name[SHARD_NAME_MORE + 8];
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++) {
        CHECK(shard_tags_make(shards, &tags));
        for (uint32_t i = 0; i < shards; i++) {
            const size_t n = shard_name(&tags, i, bytes("a{b}c"), name);
            const unsigned slot = shard_slot((bg_bytes){ name, n });
            if (slot * shards / SHARD_SLOTS != i || strlen(name) != n) {
                check_fail(__FILE__, __LINE__, "%u of %u: %s, slot %u", i, shards, name,
                           slot);
            }
        }
    }
    CHECK(!shard_tags_make(0, &tags));
    CHECK(!shard_tags_make(SHARDS_MAX + 1, &tags));
    CHECK(!shard_tags_make(UINT64_MAX, &tags));
}

TEST(names_are_frozen)
{
    static const char *const expected[] = { "{3}seen/0of4", "{2}seen/1of4",
                                            "{1}seen/2of4", "{0}seen/3of4" };
    struct shard_tags tags;
    char name[SHARD_NAME_MORE + 8];
    CHECK(shard_tags_make(4, &tags));
    for (uint32_t i = 0; i < 4; i++) {
        (void)shard_name(&tags, i, bytes("seen"), name);
        CHECK_STR(name, expected[i]);
    }
    CHECK(shard_tags_make(SHARDS_MAX, &tags));
    CHECK(shard_name(&tags, SHARDS_MAX - 1, bytes(""), name) < SHARD_NAME_MORE);
    CHECK(shard_tags_make(1, &tags));
    (void)shard_name(&tags, 0, bytes(""), name);
    CHECK_STR(name, "{0}/0of1");
}

/* tests/cluster/shard_reference.py computes these values with an independent implementation. */
TEST(routes_are_frozen)
{
    const bg_bytes items[] = { bytes("a"), bytes("b"), bytes("c"), bytes("") };
    uint16_t to[4];
    shard_route(items, 4, 16, to);
    CHECK_EQ(to[0], 0);
    CHECK_EQ(to[1], 6);
    CHECK_EQ(to[2], 3);
    CHECK(to[3] < 16);
    shard_route(items, 4, 1, to);
    CHECK_EQ(to[0] + to[1] + to[2] + to[3], 0);
}

/* No shard exceeds its capacity, and every shard receives a fair share of the keys. */
TEST(capacities_suffice)
{
    enum { ITEMS = 50000 };
    static uint16_t to[ITEMS];
    static bg_bytes items[ITEMS];
    static uint32_t numbers[ITEMS];
    static const uint32_t shards[] = { 2, 3, 16, 100, 1024 };
    for (uint32_t i = 0; i < ITEMS; i++) {
        numbers[i] = i;
        items[i] = (bg_bytes){ &numbers[i], 4 };
    }
    for (size_t s = 0; s < sizeof shards / sizeof *shards; s++) {
        uint32_t counts[SHARDS_MAX] = { 0 };
        const uint64_t capacity = shard_capacity(ITEMS, shards[s]);
        shard_route(items, ITEMS, shards[s], to);
        for (size_t i = 0; i < ITEMS; i++) {
            CHECK(to[i] < shards[s]);
            counts[to[i]]++;
        }
        for (uint32_t i = 0; i < shards[s]; i++) {
            CHECK(counts[i] <= capacity);
            CHECK((double)counts[i] > 0.3 * ITEMS / shards[s]);
        }
        CHECK(capacity >= ITEMS / shards[s]);
    }
    CHECK_EQ(shard_capacity(1000, 1), 1000);
    CHECK_EQ(shard_capacity(5, 16), 5); /* enough if one shard gets all keys */
    CHECK_EQ(shard_capacity(1000000, 16), 63900);
    CHECK(shard_capacity(UINT64_MAX, 16) > UINT64_MAX / 16);
}

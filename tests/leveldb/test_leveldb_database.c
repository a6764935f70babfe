/*
 * test_leveldb_database.c - tests the policy in a real LevelDB database. Keys must not be lost when
 * the database is written, compacted, repaired, damaged, or opened with another policy. The filters
 * must prevent unnecessary reads.
 */
#define _GNU_SOURCE /* memmem */

#include "leveldb_world.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KEYS = 8000 };

/* ---- A policy that counts calls and "no" answers -------------------------------------- */

struct counted {
    bg_leveldb_codec *codec;
    atomic_size_t made, keys, asked, denied;
};

static char *counted_make(void *state, const char *const *keys, const size_t *lengths,
                          int n, size_t *bytes)
{
    struct counted *c = state;
    atomic_fetch_add(&c->made, 1);
    atomic_fetch_add(&c->keys, (size_t)n);
    return bg_leveldb_codec_make(c->codec, keys, lengths, (size_t)n, bytes);
}

static unsigned char counted_match(void *state, const char *key, size_t len,
                                   const char *filter, size_t bytes)
{
    struct counted *c = state;
    bool maybe = bg_leveldb_codec_may_match(c->codec, key, len, filter, bytes);
    atomic_fetch_add(&c->asked, 1);
    atomic_fetch_add(&c->denied, !maybe);
    return maybe;
}

static const char *counted_name(void *state)
{
    return bg_leveldb_codec_name(((struct counted *)state)->codec);
}

static void counted_free(void *state)
{
    bg_leveldb_codec_free(((struct counted *)state)->codec);
}

static leveldb_filterpolicy_t *counted_policy(struct counted *c, uint32_t kind)
{
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    options.kind = kind;
    CHECK_OK(bg_leveldb_codec_create(&options, &c->codec, NULL));
    return leveldb_filterpolicy_create(c, counted_free, counted_make, counted_match,
                                       counted_name);
}

/* ---- Lifecycle ------------------------------------------------------------------------- */

TEST(database__filters_are_made_and_asked)
{
    static const uint32_t kinds[] = { BG_KIND_RIBBON, BG_KIND_CLASSIC };
    for (int i = 0; i < 2; i++) {
        struct counted counted = { 0 };
        struct world w;
        leveldb_filterpolicy_t *policy = counted_policy(&counted, kinds[i]);
        world_start(&w, i ? "asked-classic" : "asked-ribbon", policy);
        world_fill(&w, KEYS, 1);
        world_compact(&w);
        CHECK(counted.made >= KEYS / 60 && counted.keys / counted.made >= 20);
        world_reopen(&w, policy);
        counted.asked = counted.denied = 0;
        for (size_t k = 0; k < KEYS; k++) {
            CHECK(!world_has(&w, 2 * k + 1, 1));
        }
        /* A few keys are between the key ranges of two tables, so no filter is queried for them. */
        CHECK(counted.asked >= KEYS - 100);
        CHECK(counted.denied >= counted.asked - (i ? 130 : 25)); /* expected: 65, 8 */
        counted.denied = 0;
        world_check(&w, KEYS, 1);
        CHECK(counted.denied > 0);
        world_end(&w);
        leveldb_filterpolicy_destroy(policy);
    }
}

TEST(database__drop_in)
{
    struct world w;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    world_start(&w, "drop-in", policy);
    world_fill(&w, KEYS, 1);
    world_check(&w, KEYS, 1); /* partly from memory */
    world_reopen(&w, policy);
    world_check(&w, KEYS, 1);
    world_fill(&w, KEYS / 2, 2); /* existing keys, which are then in several levels */
    world_compact(&w);
    world_check(&w, KEYS / 2, 2);
    world_reopen(&w, policy);
    world_check(&w, KEYS / 2, 2);
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

static bool has_filters(uint8_t *file, size_t size, void *name)
{
    return world_filters_of(file, size, name).n > 0;
}

/* Returns the number of tables that have filters from the given policy. */
static size_t tables_with(const struct world *w, const char *name)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", name);
    return world_tables(w, ".ldb", has_filters, copy);
}

static const char own_name[] = "leveldb.BuiltinBloomFilter2";

TEST(database__of_another_policy_and_back)
{
    struct world w;
    leveldb_filterpolicy_t *ours = bg_leveldb_policy(10);
    leveldb_filterpolicy_t *own = leveldb_filterpolicy_create_bloom(10);
    world_start(&w, "another", own);
    world_fill(&w, KEYS, 1);
    world_compact(&w);
    world_close(&w);
    CHECK(tables_with(&w, own_name) > 0);
    CHECK_EQ(tables_with(&w, BG_LEVELDB_NAME), 0);
    world_open(&w, ours);
    world_check(&w, KEYS, 1); /* filters from LevelDB's own policy are ignored */
    world_fill(&w, KEYS, 2);
    world_check(&w, KEYS, 2); /* the database contains filters from both policies */
    world_compact(&w);
    world_close(&w);
    CHECK(tables_with(&w, BG_LEVELDB_NAME) > 0);
    CHECK_EQ(tables_with(&w, own_name), 0);
    world_open(&w, own);
    world_check(&w, KEYS, 2);
    world_reopen(&w, NULL);
    world_check(&w, KEYS, 2);
    world_reopen(&w, ours);
    world_check(&w, KEYS, 2);
    world_end(&w);
    leveldb_filterpolicy_destroy(ours);
    leveldb_filterpolicy_destroy(own);
}

TEST(database__of_another_secret)
{
    static const uint8_t secret[BG_SECRET_BYTES] = "fifteen letters";
    struct world w;
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    leveldb_filterpolicy_t *keyed, *plain = bg_leveldb_policy(10);
    options.hash = (bg_hash_spec){ .profile = BG_HASH_KEYED, .secret = secret };
    CHECK_OK(bg_leveldb_policy_create(&options, &keyed, NULL));
    world_start(&w, "secret", keyed);
    world_fill(&w, KEYS, 1);
    world_compact(&w);
    world_check(&w, KEYS, 1);
    world_reopen(&w, plain);
    world_check(&w, KEYS, 1);
    world_reopen(&w, keyed);
    world_check(&w, KEYS, 1);
    world_end(&w);
    leveldb_filterpolicy_destroy(keyed);
    leveldb_filterpolicy_destroy(plain);
}

TEST(database__repaired)
{
    struct world w;
    char *error = NULL;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    world_start(&w, "repaired", policy);
    world_fill(&w, KEYS, 1);
    world_close(&w);
    char current[600];
    (void)snprintf(current, sizeof current, "%s/CURRENT", w.path);
    CHECK_EQ(unlink(current), 0); /* the list of tables is lost */
    leveldb_repair_db(w.options, w.path, &error);
    world_must(error);
    world_open(&w, policy);
    world_check(&w, KEYS, 1);
    world_compact(&w);
    world_check(&w, KEYS, 1);
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

/* ---- Damage ---------------------------------------------------------------------------- */

/* Changes one byte of every filter. */
static bool damage_each(uint8_t *file, size_t size, void *count)
{
    struct world_filters filters = world_filters_of(file, size, BG_LEVELDB_NAME);
    for (size_t i = 0; i < filters.n; i++) {
        uint32_t start = world_u32(filters.offsets + 4 * i);
        uint32_t end = world_u32(filters.offsets + 4 * i + 4);
        if (start < end) {
            size_t at = start + check_random_below(end - start);
            filters.data[at] ^= (uint8_t)(1 + check_random_below(255));
            ++*(size_t *)count;
        }
    }
    return filters.n > 0;
}

static bool zero_all(uint8_t *file, size_t size, void *count)
{
    struct world_filters filters = world_filters_of(file, size, BG_LEVELDB_NAME);
    if (filters.n) {
        memset(filters.data, 0, (size_t)(filters.offsets - filters.data));
        *(size_t *)count += filters.n;
    }
    return filters.n > 0;
}

/* Makes all filters empty, without changing the data blocks. */
static bool empty_all(uint8_t *file, size_t size, void *count)
{
    struct world_filters filters = world_filters_of(file, size, BG_LEVELDB_NAME);
    if (filters.n) {
        memset(filters.offsets, 0, 4 * filters.n);
        *(size_t *)count += filters.n;
    }
    return filters.n > 0;
}

/* Simulates filters from a future version that uses unknown layouts. */
static bool later_layouts(uint8_t *file, size_t size, void *count)
{
    struct world_filters filters = world_filters_of(file, size, BG_LEVELDB_NAME);
    for (size_t i = 0; i < filters.n; i++) {
        uint32_t start = world_u32(filters.offsets + 4 * i);
        if (start < world_u32(filters.offsets + 4 * i + 4)) {
            filters.data[start] = (uint8_t)(216 + check_random_below(40));
            ++*(size_t *)count;
        }
    }
    return filters.n > 0;
}

/* Without paranoid checks, LevelDB does not detect damaged filters; the policy does. */
TEST(database__damaged_filters_lose_nothing)
{
    bool (*damages[])(uint8_t *, size_t, void *) = { damage_each, zero_all, empty_all,
                                                     later_layouts };
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct world w;
        char name[32];
        size_t damaged = 0;
        (void)snprintf(name, sizeof name, "damaged-%zu", i);
        world_start(&w, name, policy);
        world_fill(&w, KEYS, 1);
        world_compact(&w);
        world_close(&w);
        CHECK(world_tables(&w, ".ldb", damages[i], &damaged) > 0);
        CHECK(damaged >= KEYS / 60);
        world_open(&w, policy);
        world_check(&w, KEYS, 1);
        world_compact(&w); /* restores valid filters */
        world_check(&w, KEYS, 1);
        world_end(&w);
    }
    leveldb_filterpolicy_destroy(policy);
}

/* Replaces filters and offsets with random bytes. Losing a few keys is acceptable, but reads must
 * not fail. */
static bool garbage(uint8_t *file, size_t size, void *count)
{
    struct world_filters filters = world_filters_of(file, size, BG_LEVELDB_NAME);
    size_t bytes = (size_t)(filters.offsets - filters.data) + 4 * filters.n + 5;
    for (size_t i = 0; filters.n && i < bytes; i++) {
        filters.data[i] = (uint8_t)check_random();
    }
    *(size_t *)count += filters.n;
    return filters.n > 0;
}

TEST(database__garbage_for_filters)
{
    struct world w;
    size_t damaged = 0, lost = 0;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    world_start(&w, "garbage", policy);
    world_fill(&w, KEYS, 1);
    world_compact(&w);
    world_close(&w);
    CHECK(world_tables(&w, ".ldb", garbage, &damaged) > 0);
    world_open(&w, policy);
    for (size_t i = 0; i < KEYS; i++) {
        lost += !world_has(&w, 2 * i, 1);
    }
    CHECK(lost <= KEYS / 64); /* 1 in 256 filters has the right check value by chance */
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

/* ---- Unusual keys and blocks ----------------------------------------------------------- */

static size_t binary_key(char key[300], uint64_t i)
{
    uint64_t state = i * 7919 + 1;
    size_t len = i % 97 == 0 ? (size_t)(i / 97 % 300) : check_random_next(&state) % 40;
    for (size_t j = 0; j < len; j++) {
        key[j] = (char)(check_random_next(&state) % (i % 3 ? 256 : 3));
    }
    return len;
}

TEST(database__binary_keys_without_values)
{
    struct world w;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(8);
    size_t n = 20000 * check_scale(), lost = 0;
    char key[300], *error = NULL;
    world_start(&w, "binary", policy);
    for (uint64_t i = 0; i < n;
         i++) { /* hundreds of keys per block, some of them repeated */
        leveldb_put(w.db, w.write, key, binary_key(key, i), "", 0, &error);
        world_must(error);
    }
    world_compact(&w);
    world_reopen(&w, policy);
    for (uint64_t i = 0; i < n; i++) {
        size_t bytes;
        char *value =
            leveldb_get(w.db, w.read, key, binary_key(key, i), &bytes, &error);
        world_must(error);
        lost += !value;
        leveldb_free(value);
    }
    CHECK_EQ(lost, 0);
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

TEST(database__large_blocks)
{
    struct world w;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    world_start(&w, "large-blocks", policy);
    leveldb_options_set_block_size(w.options, 1 << 20);
    world_reopen(&w, policy);
    world_fill(&w, KEYS, 1); /* thousands of keys per block */
    world_compact(&w);
    size_t lost = 0;
    for (size_t i = 0; i < KEYS;
         i += 37) { /* only every 37th key, because reading a 1 MiB block is slow */
        lost += !world_has(&w, 2 * i, 1) || world_has(&w, 2 * i + 1, 1);
    }
    CHECK_EQ(lost, 0);
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

/* ---- Threads --------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    struct world *world;
    atomic_size_t *written;
    size_t lost;
};

static void *read_what_is_written(void *argument)
{
    struct reader *me = argument;
    uint64_t state = (uintptr_t)me;
    for (size_t written = 0; written < KEYS;) {
        written = atomic_load(me->written);
        if (written) {
            me->lost +=
                !world_has(me->world, 2 * (check_random_next(&state) % written), 1);
        }
    }
    return NULL;
}

TEST(database__read_while_it_compacts)
{
    struct world w;
    atomic_size_t written = 0;
    leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
    struct reader readers[2];
    world_start(&w, "threads", policy);
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){ .world = &w, .written = &written };
        CHECK_EQ(
            pthread_create(&readers[i].thread, NULL, read_what_is_written, &readers[i]),
            0);
    }
    for (size_t i = 0; i < KEYS; i++) {
        world_put(&w, 2 * i, 1);
        atomic_store(&written, i + 1);
        if (i == KEYS / 2) {
            world_compact(&w);
        }
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(readers[i].thread, NULL), 0);
        CHECK_EQ(readers[i].lost, 0);
    }
    world_end(&w);
    leveldb_filterpolicy_destroy(policy);
}

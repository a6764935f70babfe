/*
 * conc_slot_content.c - tests merging filters into slots, and clearing and rotating slots, while
 * threads add and query keys. A concurrent rebuild must not lose merged keys, a key that is added
 * after a clear has returned must be found, and freed memory must not be used.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { KEYS = 50, MERGES = 400, ITEMS = KEYS * MERGES, BATCH = 64 };

struct world {
    bg_slot *slot;
    /* Number of merges recorded in the store, and number of merges that the slot has completed. */
    _Atomic uint64_t true_to, merged_to;
    atomic_bool over;
    _Atomic uint64_t checks, missed;
};

static bg_spec spec_of(bg_kind kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = ITEMS;
    spec.rate = 0.01;
    return spec;
}

static uint64_t key_of(uint64_t merge, uint64_t i)
{
    return merge << 20 | i;
}

/* ---- Merges and rebuilds ---------------------------------------------------------------- */

/* Merges filters into the slot. Each merge is recorded in the store first. */
static void *merge_all(void *argument)
{
    struct world *world = argument;
    const bg_spec spec = spec_of(BG_KIND_BLOCKED);
    for (uint64_t merge = 0; merge < MERGES; merge++) {
        bg_filter *other = must_create(&spec);
        for (uint64_t i = 0; i < KEYS; i++) {
            (void)added_u64(other, key_of(merge, i));
        }
        atomic_store(&world->true_to, merge + 1);
        CHECK_OK(bg_slot_merge(world->slot, other, NULL));
        atomic_store(&world->merged_to, merge + 1);
        bg_filter_free(other);
        (void)sched_yield();
    }
    return NULL;
}

static uint64_t missing(const bg_slot *slot, uint64_t merge)
{
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = key_of(merge, i);
    }
    return KEYS - bg_slot_may_contain_many(slot, bg_keys_u64(keys, KEYS), NULL);
}

static void *ask_merged(void *argument)
{
    struct world *world = argument;
    uint64_t random = 1;
    while (!atomic_load(&world->over)) {
        const uint64_t to = atomic_load(&world->merged_to);
        if (to) {
            atomic_fetch_add(&world->missed, missing(world->slot, to - 1));
            atomic_fetch_add(&world->missed,
                             missing(world->slot, check_random_next(&random) % to));
            atomic_fetch_add(&world->checks, 2);
        }
    }
    return NULL;
}

/* Rebuilds the slot. The store is read after the rebuild has started, by which time merges go to
 * the new base. */
static void rebuild(struct world *world, bool give_up)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    how.spec = spec_of(BG_KIND_BLOCKED);
    CHECK_OK(bg_slot_begin_rebuild(world->slot, &how, &rebuild, NULL));
    const uint64_t to = atomic_load(&world->true_to);
    for (uint64_t merge = 0; merge < to; merge++) {
        uint64_t keys[KEYS];
        bg_bytes bytes[KEYS];
        for (uint64_t i = 0; i < KEYS; i++) {
            keys[i] = key_of(merge, i);
            bytes[i] = (bg_bytes){ &keys[i], 8 };
        }
        CHECK_OK(bg_rebuild_add_many(rebuild, bg_keys_bytes(bytes, KEYS), NULL));
    }
    if (give_up) {
        bg_rebuild_abort(rebuild);
    } else {
        CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    }
}

TEST(slot_content__merges_are_not_lost_by_rebuilds)
{
    static struct world world;
    pthread_t merger, asker;
    const bg_spec spec = spec_of(BG_KIND_BLOCKED);
    unsigned rebuilds = 0;
    CHECK_OK(bg_slot_create(must_create(&spec), NULL, &world.slot, NULL));
    CHECK(pthread_create(&merger, NULL, merge_all, &world) == 0);
    CHECK(pthread_create(&asker, NULL, ask_merged, &world) == 0);
    while (atomic_load(&world.merged_to) < MERGES || rebuilds < 5) {
        rebuild(&world, rebuilds++ % 4 == 3);
    }
    CHECK(pthread_join(merger, NULL) == 0);
    while (atomic_load(&world.checks) < 10) {
        (void)sched_yield();
    }
    atomic_store(&world.over, true);
    CHECK(pthread_join(asker, NULL) == 0);
    CHECK_EQ(atomic_load(&world.missed), 0);
    for (uint64_t merge = 0; merge < MERGES; merge++) {
        CHECK_EQ(missing(world.slot, merge), 0);
    }
    printf("  %u rebuilds, %llu batches looked up\n", rebuilds,
           (unsigned long long)atomic_load(&world.checks));
    bg_slot_free(world.slot);
}

/* ---- Clears and rotations --------------------------------------------------------------- */

/* Adds and queries keys by hash, ignoring the results. */
static void *use(void *argument)
{
    struct world *world = argument;
    uint64_t random = (uint64_t)(uintptr_t)&random, at = 0;
    while (!atomic_load(&world->over)) {
        uint64_t keys[BATCH], hashes[BATCH], is_new[1], maybe[1], check = 0;
        bg_bytes bytes[BATCH];
        size_t done = 0;
        for (size_t i = 0; i < BATCH; i++) {
            keys[i] = check_random_next(&random);
            bytes[i] = (bg_bytes){ &keys[i], 8 };
        }
        CHECK_OK(bg_slot_hash_many(world->slot, bg_keys_bytes(bytes, BATCH), hashes,
                                   &check));
        if (at++ % 8 == 0) {
            CHECK_OK(bg_slot_add_many(world->slot,
                                      bg_keys_hashes_of(hashes, BATCH, check), is_new,
                                      &done, NULL));
            CHECK_EQ(done, BATCH);
        }
        (void)bg_slot_may_contain_many(world->slot,
                                       bg_keys_hashes_of(hashes, BATCH, check), maybe);
        (void)bg_slot_count(world->slot, &keys[0], 8);
        atomic_fetch_add(&world->checks, 1);
    }
    return NULL;
}

/* Clears a filter under load and, if it is a window, also rotates it. */
static void clear_under_load(const bg_spec *spec)
{
    struct world world = { .slot = NULL };
    pthread_t users[3];
    bg_slot_info stats = { .struct_size = sizeof stats };
    const bool window = spec->kind == BG_KIND_WINDOW;
    CHECK_OK(bg_slot_create(must_create(spec), NULL, &world.slot, NULL));
    for (size_t i = 0; i < 3; i++) {
        CHECK(pthread_create(&users[i], NULL, use, &world) == 0);
    }
    for (uint64_t i = 0; i < 200; i++) {
        const uint64_t before = atomic_load(&world.checks);
        if (i % 2) {
            CHECK_OK(bg_slot_clear(world.slot, NULL));
        } else {
            CHECK_EQ(bg_slot_rotate(world.slot, i, NULL), window ? BG_OK : BG_ENOTSUP);
        }
        CHECK_OK(bg_slot_add_u64(world.slot, i, NULL));
        CHECK(bg_slot_may_contain_u64(world.slot, i));
        /* Wait until a reader has seen the change. */
        while (atomic_load(&world.checks) == before) {
            (void)sched_yield();
        }
    }
    atomic_store(&world.over, true);
    for (size_t i = 0; i < 3; i++) {
        CHECK(pthread_join(users[i], NULL) == 0);
    }
    CHECK_OK(bg_slot_get_info(world.slot, &stats));
    CHECK_EQ(stats.retired, 0);
    CHECK_EQ(stats.swaps, 100);
    bg_slot_free(world.slot);
}

TEST(slot_content__is_cleared_and_rotated_under_load)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_SCALABLE,
                                     BG_KIND_COUNTING };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bg_spec spec = spec_of(kinds[i]);
        clear_under_load(&spec);
    }
    for (uint32_t mode = 0; mode < 2; mode++) {
        bg_window_options options = BG_WINDOW_OPTIONS_INIT;
        bg_spec spec = spec_of(BG_KIND_WINDOW);
        options.mode = mode ? BG_WINDOW_AGED : BG_WINDOW_GENERATIONS;
        spec.window = &options;
        clear_under_load(&spec);
    }
}

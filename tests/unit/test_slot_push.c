/*
 * test_slot_push.c - tests rebuilds whose keys are pushed by the caller. The new base contains
 * every key in the backing store and every key added in the meantime. If anything fails, the old
 * base stays.
 */
#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/slots.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { BATCH = 50 };

static bg_rebuild_options options_for(bg_kind kind, uint64_t items, bg_filter *delta)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = (uint32_t)kind;
    how.spec.items = items;
    how.spec.rate = 0.001;
    how.delta = delta;
    return how;
}

static bg_rebuild *begin(bg_slot *slot, bg_kind kind, uint64_t items, bg_filter *delta)
{
    const bg_rebuild_options how = options_for(kind, items, delta);
    bg_rebuild *rebuild = NULL;
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    CHECK(rebuild != NULL);
    return rebuild;
}

/* Pushes keys first .. first + n - 1. Requires that n is a multiple of BATCH. */
static bg_err push(bg_rebuild *rebuild, uint64_t first, uint64_t n)
{
    bg_err err = BG_OK;
    for (uint64_t at = 0; at < n && !err; at += BATCH) {
        uint64_t keys[BATCH];
        bg_bytes bytes[BATCH];
        for (size_t i = 0; i < BATCH; i++) {
            keys[i] = bgi_le64(first + at + i);
            bytes[i] = (bg_bytes){ &keys[i], 8 };
        }
        err = bg_rebuild_add_many(rebuild, bg_keys_bytes(bytes, BATCH), NULL);
    }
    return err;
}

TEST(slot_push__replaces_the_base)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild_report report = { .struct_size = sizeof report };
    bg_rebuild *rebuild = begin(slot, BG_KIND_CLASSIC, 3000, NULL);
    CHECK_EQ(stats_of(slot).rebuilding, 1);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    add_keys(slot, 2000, 300);
    CHECK_OK(push(rebuild, 300, 1000)); /* the store no longer contains keys 0 .. 299 */
    CHECK_OK(bg_rebuild_add_many(rebuild, bg_keys_bytes(NULL, 0), NULL));
    add_keys(slot, 2300, 300);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK(count_keys(slot, 700, 500) < 20); /* the next base is not queried yet */
    CHECK_OK(bg_rebuild_commit(rebuild, &report, NULL));
    CHECK_EQ(count_keys(slot, 300, 1000), 1000);
    CHECK_EQ(count_keys(slot, 2000, 600), 600);
    CHECK(count_keys(slot, 0, 300) < 20);
    CHECK_EQ(report.keys, 1000);
    CHECK_EQ(report.items, 3000);
    CHECK_EQ(report.undersized, 0);
    bg_slot_info stats = stats_of(slot);
    CHECK_EQ(stats.rebuilds, 1);
    CHECK_EQ(stats.rebuild_failures, 0);
    CHECK_EQ(stats.rebuilding, 0);
    CHECK_EQ(stats.filters, 1);
    add_keys(slot, 9000, 10);
    CHECK_EQ(count_keys(slot, 9000, 10), 10);
    bg_slot_free(slot);
}

TEST(slot_push__of_a_static_kind_beside_a_delta)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild *rebuild = begin(slot, BG_KIND_FUSE, 1000, make(BG_KIND_BLOCKED, 2000));
    CHECK_OK(push(rebuild, 0, 500));
    add_keys(slot, 500, 100);
    CHECK_OK(push(rebuild, 5000, 500));
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(count_keys(slot, 0, 600), 600);
    CHECK_EQ(count_keys(slot, 5000, 500), 500);
    CHECK_EQ(stats_of(slot).filters, 2);
    CHECK_OK(bg_slot_add_u64(slot, 70000, NULL));
    CHECK(bg_slot_may_contain_u64(slot, 70000));
    bg_slot_free(slot);
}

TEST(slot_push__as_the_first_base)
{
    bg_slot *slot = make_slot(NULL, 0);
    bg_rebuild *rebuild = begin(slot, BG_KIND_BLOCKED, 1000, NULL);
    CHECK(bg_slot_may_contain_u64(slot, 999999));
    CHECK_OK(push(rebuild, 0, 500));
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK(!bg_slot_may_contain_u64(slot, 999999));
    CHECK_OK(bg_slot_add_u64(slot, 1, NULL));
    bg_slot_free(slot);
}

TEST(slot_push__aborted_leaves_what_was)
{
    for (int with_delta = 0; with_delta < 2; with_delta++) {
        bg_slot *slot = make_slot(make_with(0, 500), 0);
        bg_rebuild *rebuild = begin(slot, BG_KIND_BLOCKED, 1000,
                                    with_delta ? make(BG_KIND_BLOCKED, 2000) : NULL);
        CHECK_OK(push(rebuild, 5000, 500));
        add_keys(slot, 500, 100);
        bg_rebuild_abort(rebuild);
        CHECK_EQ(count_keys(slot, 0, 600), 600);
        CHECK(count_keys(slot, 5000, 500) < 20);
        bg_slot_info stats = stats_of(slot);
        CHECK_EQ(stats.rebuilding, 0);
        CHECK_EQ(stats.rebuilds, 0);
        CHECK_EQ(stats.rebuild_failures, 1);
        CHECK_EQ(stats.last_failure.code, BG_ECANCELED);
        CHECK_EQ(stats.filters, 1 + with_delta);
        rebuild = begin(slot, BG_KIND_BLOCKED, 1000, NULL);
        CHECK_OK(push(rebuild, 0, 600));
        CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
        CHECK_EQ(count_keys(slot, 0, 600), 600);
        CHECK_EQ(stats_of(slot).filters, 1);
        bg_slot_free(slot);
    }
    bg_rebuild_abort(NULL);
}

static bg_err no_keys(void *context, bg_bytes *keys, size_t room, size_t *n,
                      bg_errinfo *info)
{
    (void)context, (void)keys, (void)room, (void)info;
    *n = 0;
    return BG_OK;
}

TEST(slot_push__keeps_other_changes_away)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild *rebuild = begin(slot, BG_KIND_BLOCKED, 2000, NULL), *second = NULL;
    const bg_rebuild_options how = options_for(BG_KIND_BLOCKED, 100, NULL);
    const bg_source source = { no_keys, NULL, NULL, 1 };
    bg_filter *filter = make(BG_KIND_BLOCKED, 2000);
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, &second, NULL), BG_EBUSY);
    CHECK(second == NULL);
    CHECK_EQ(bg_slot_rebuild(slot, &source, &how, NULL, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_clear(slot, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_swap(slot, filter, 0, BG_SLOT_DISCARD, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_begin_migration(slot, filter, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_set_delta(slot, filter, NULL), BG_EBUSY);
    bg_filter_free(filter);
    CHECK_EQ(stats_of(slot).rebuilding, 1); /* the first rebuild is still running */
    CHECK_OK(push(rebuild, 0, 500));
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_OK(bg_slot_clear(slot, NULL));
    bg_slot_free(slot);
}

/* During a rebuild, a merge is also applied to the next base. The merge is refused if the merged
 * filter is incompatible with the next base. */
TEST(slot_push__gets_what_is_merged_meanwhile)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_filter *other = make_with(500, 500);
    bg_rebuild *rebuild = begin(slot, BG_KIND_BLOCKED, 2000, NULL);
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    CHECK_OK(push(rebuild, 0, 500));
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    rebuild = begin(slot, BG_KIND_BLOCKED, 9000, NULL);
    bg_filter *third = make_with(1000, 500);
    CHECK_EQ(bg_slot_merge(slot, third, NULL), BG_EINCOMPAT);
    CHECK(count_keys(slot, 1000, 500) < 20);
    bg_rebuild_abort(rebuild);
    CHECK_OK(bg_slot_merge(slot, third, NULL));
    CHECK_EQ(count_keys(slot, 1000, 500), 500);
    bg_filter_free(third);
    bg_filter_free(other);
    bg_slot_free(slot);
}

/* A merge that does not fit into the next base makes the rebuild fail, not the merge. */
TEST(slot_push__is_given_up_when_a_merge_does_not_fit_the_next_base)
{
    bg_slot *slot = make_slot(make(BG_KIND_QUOTIENT, 100), 0);
    bg_filter *other = make(BG_KIND_QUOTIENT, 100);
    const uint64_t n = bg_filter_capacity(other) * 2 / 3 / BATCH * BATCH;
    CHECK(n > 0);
    for (uint64_t key = 0; key < n; key++) {
        CHECK_OK(bg_filter_add_u64(other, key, NULL));
    }
    bg_rebuild *rebuild = begin(slot, BG_KIND_QUOTIENT, 100, NULL);
    CHECK_OK(push(rebuild, 7000, n));
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    CHECK_EQ(bg_rebuild_commit(rebuild, NULL, NULL), BG_EFULL);
    CHECK_EQ(count_keys(slot, 0, n), n);
    bg_filter_free(other);
    bg_slot_free(slot);
}

/* If the new base is too small for the pushed keys, or for keys added in the meantime, the old
 * base stays. */
TEST(slot_push__that_was_too_small_fails)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild *rebuild = begin(slot, BG_KIND_CUCKOO, 100, NULL);
    bg_errinfo why;
    CHECK_EQ(push(rebuild, 0, 500), BG_EFULL);
    CHECK_EQ(bg_rebuild_commit(rebuild, NULL, &why), BG_EFULL);
    CHECK(why.message[0]);
    CHECK_EQ(stats_of(slot).last_failure.code, BG_EFULL);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    rebuild = begin(slot, BG_KIND_CUCKOO, 100, NULL);
    CHECK_OK(push(rebuild, 0, 50));
    add_keys(slot, 2000, 300); /* fit the base */
    CHECK_EQ(bg_rebuild_commit(rebuild, NULL, NULL), BG_EFULL);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK_EQ(count_keys(slot, 2000, 300), 300);
    CHECK_EQ(stats_of(slot).rebuild_failures, 2);
    bg_slot_free(slot);
}

TEST(slot_push__refuses_what_cannot_be)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild *rebuild = (bg_rebuild *)(void *)slot;
    bg_errinfo why;
    bg_rebuild_options how = options_for(BG_KIND_BLOCKED, 0, NULL);
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, &rebuild, &why), BG_EINVAL);
    CHECK(rebuild == NULL);
    CHECK_STR(why.what, "spec.items");
    how.spec.items = 100;
    how.flags = 1;
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL), BG_EINVAL);
    how.flags = 0;
    how.headroom = -1;
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL), BG_EINVAL);
    how = options_for(BG_KIND_FUSE, 100, NULL);
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, &rebuild, &why), BG_EINVAL);
    CHECK_STR(why.what, "delta");
    how = options_for(BG_KIND_BLOCKED, 100, NULL);
    CHECK_EQ(bg_slot_begin_rebuild(NULL, &how, &rebuild, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_begin_rebuild(slot, NULL, &rebuild, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_begin_rebuild(slot, &how, NULL, NULL), BG_EINVAL);
    CHECK_EQ(stats_of(slot).rebuilding, 0);
    /* Only the rebuild that was in progress counts as a failure. */
    CHECK_EQ(stats_of(slot).rebuild_failures, 1);
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    CHECK_EQ(bg_rebuild_add_many(rebuild, bg_keys_bytes(NULL, 1), NULL), BG_EINVAL);
    CHECK_EQ(bg_rebuild_add_many(NULL, bg_keys_bytes(NULL, 0), NULL), BG_EINVAL);
    bg_rebuild_abort(rebuild);
    CHECK_EQ(bg_rebuild_commit(NULL, NULL, NULL), BG_EINVAL);
    bg_slot_free(slot);
}

/* The caller hashes a key, but then a rebuild uses a different hash seed. Hashes with the old seed
 * must never be added to the new filter, and hashes with the new seed must never be added to the
 * old filter. */
TEST(slot_push__with_another_hasher)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 2000), 0);
    const uint64_t key = bgi_le64(77);
    const bg_bytes bytes = { &key, 8 };
    uint64_t hash = 0, check = 0, unused = 0;
    CHECK_OK(bg_slot_hash_many(slot, bg_keys_bytes(&bytes, 1), &hash, &check));
    bg_rebuild_options how = options_for(BG_KIND_BLOCKED, 2000, NULL);
    bg_rebuild *rebuild = NULL;
    how.spec.hash.seed = 4711;
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    CHECK_EQ(bg_slot_hash_many(slot, bg_keys_bytes(&bytes, 1), &unused, &unused),
             BG_EINCOMPAT);
    CHECK_EQ(
        bg_slot_add_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL, NULL, NULL),
        BG_EINCOMPAT);
    CHECK(!bg_slot_may_contain(slot, &key, 8));
    /* Only the base is queried, and it has the old hasher. */
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL),
             0);
    CHECK_OK(bg_slot_add_many(slot, bg_keys_bytes(&bytes, 1), NULL, NULL, NULL));
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL),
             1);
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(
        bg_slot_add_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL, NULL, NULL),
        BG_EINCOMPAT);
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_hashes_of(&hash, 1, check), NULL),
             1);
    CHECK(bg_slot_may_contain(slot, &key, 8));
    CHECK_OK(bg_slot_hash_many(slot, bg_keys_bytes(&bytes, 1), &hash, &unused));
    CHECK(unused != check);
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_hashes_of(&hash, 1, unused), NULL),
             1);
    bg_slot_free(slot);
}

TEST(slot_push__says_how_complete_it_is)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_rebuild_options how = options_for(BG_KIND_BLOCKED, 100, NULL);
    bg_rebuild *rebuild = NULL;
    how.complete = 900;
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    CHECK_EQ(bg_slot_complete_to(slot), 0);
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(bg_slot_complete_to(slot), 900);
    bg_slot_free(slot);
}

/* If memory runs out at any point, the slot stays unchanged. */
TEST(slot_push__without_memory_changes_nothing)
{
    size_t failures = 0;
    bool done = false;
    for (size_t at = 1; !done; at++) {
        struct counting counting;
        counting_start(&counting);
        bg_slot_options options = BG_SLOT_OPTIONS_INIT;
        bg_slot *slot = NULL;
        bg_rebuild_options how = options_for(BG_KIND_FUSE, 500, NULL);
        bg_rebuild *rebuild = NULL;
        options.allocator = how.spec.allocator = &counting.hooks;
        CHECK_OK(bg_slot_create(make_with(0, 500), &options, &slot, NULL));
        how.delta = make(BG_KIND_BLOCKED, 1000);
        counting.fail_at = counting.calls + at;
        bg_err err = bg_slot_begin_rebuild(slot, &how, &rebuild, NULL);
        CHECK_EQ(err == BG_OK, rebuild != NULL);
        if (!err) {
            (void)push(rebuild, 0, 500);
            (void)push(rebuild, 500, 500);
            err = bg_rebuild_commit(rebuild, NULL, NULL);
        }
        done = !err;
        failures += err != BG_OK;
        counting.fail_at = 0;
        CHECK_EQ(stats_of(slot).rebuilding, 0);
        CHECK_EQ(count_keys(slot, 0, 500), 500);
        CHECK_EQ(count_keys(slot, 500, 500) > 50, done);
        add_keys(slot, 8000, 10);
        CHECK_EQ(count_keys(slot, 8000, 10), 10);
        bg_slot_free(slot);
        CHECK_EQ(counting.live, 0);
        CHECK_EQ(counting.mistakes, 0);
    }
    CHECK(failures >= 4);
}

/* ---- Threads ------------------------------------------------------------------------ */

enum { PUSHERS = 4, PUSHED = 5000, ADDED = 2000 };

struct pusher {
    bg_slot *slot;
    bg_rebuild *rebuild;
    uint64_t first;
    pthread_t thread;
};

static void *push_and_add(void *argument)
{
    const struct pusher *me = argument;
    for (uint64_t i = 0; i < PUSHED; i += BATCH) {
        CHECK_OK(push(me->rebuild, me->first + i, BATCH));
        for (uint64_t k = 0; k < ADDED * BATCH / PUSHED; k++) {
            CHECK_OK(bg_slot_add_u64(
                me->slot, me->first + 500000 + i * ADDED / PUSHED + k, NULL));
        }
    }
    return NULL;
}

TEST(slot_push__by_several_threads)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_CUCKOO, BG_KIND_SCALABLE,
                                     BG_KIND_RIBBON };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const bool is_static = bg_kind_traits(kinds[k]) & BG_TRAIT_STATIC;
        struct pusher pushers[PUSHERS];
        bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 20000), 0);
        bg_rebuild *rebuild = begin(slot, kinds[k], PUSHERS * (PUSHED + ADDED),
                                    is_static ? make(BG_KIND_BLOCKED, 20000) : NULL);
        for (uint64_t i = 0; i < PUSHERS; i++) {
            pushers[i] = (struct pusher){ slot, rebuild, i << 24, 0 };
            CHECK_EQ(
                pthread_create(&pushers[i].thread, NULL, push_and_add, &pushers[i]), 0);
        }
        for (size_t i = 0; i < PUSHERS; i++) {
            CHECK_EQ(pthread_join(pushers[i].thread, NULL), 0);
        }
        bg_rebuild_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_rebuild_commit(rebuild, &report, NULL));
        CHECK_EQ(report.keys, PUSHERS * PUSHED);
        for (size_t i = 0; i < PUSHERS; i++) {
            for (uint64_t at = 0; at < PUSHED; at += 1000) {
                CHECK_EQ(count_keys(slot, pushers[i].first + at, 1000), 1000);
            }
            CHECK_EQ(count_keys(slot, pushers[i].first + 500000, ADDED), ADDED);
        }
        CHECK(count_keys(slot, UINT64_C(1) << 50, 1000) < 20);
        bg_slot_free(slot);
    }
}

struct beginner {
    bg_slot *slot;
    bg_rebuild *rebuild;
    atomic_bool begun;
};

static void *begin_it(void *argument)
{
    struct beginner *me = argument;
    me->rebuild = begin(me->slot, BG_KIND_BLOCKED, 1000, NULL);
    atomic_store(&me->begun, true);
    return NULL;
}

/* Starting a rebuild waits for all operations that started before the next base existed. Otherwise,
 * an add among them would miss the next base. */
TEST(slot_push__begins_when_all_have_left_who_did_not_see_it)
{
    struct beginner beginner = { .slot = make_slot(make_with(0, 500), 0) };
    bg_pin pin;
    pthread_t thread;
    bg_slot_pin(beginner.slot, &pin);
    CHECK_EQ(pthread_create(&thread, NULL, begin_it, &beginner), 0);
    /* Waits until the slot's list of filters includes the next base. */
    while (stats_of(beginner.slot).filters < 2) {
        (void)sched_yield();
    }
    for (int i = 0; i < 1000; i++) {
        (void)sched_yield();
        CHECK(!atomic_load(&beginner.begun));
    }
    bg_slot_unpin(beginner.slot, &pin);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(atomic_load(&beginner.begun));
    bg_rebuild_abort(beginner.rebuild);
    bg_slot_free(beginner.slot);
}

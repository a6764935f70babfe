/*
 * test_slot_guard.c - tests the state that a slot keeps across changes so that no acknowledged key
 * is lost: which adds a new base must include, and the generation of the last file. Each test is a
 * sequence of changes; test_slot_model.c runs random sequences.
 */
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/files.h"
#include "support/filters.h"
#include "support/slots.h"

#include <stdlib.h>
#include <string.h>

/* Swaps the base. Frees the filter if the slot refuses it. */
static bg_err swap(bg_slot *slot, bg_filter *filter, uint64_t complete, uint32_t flags)
{
    bg_err err = bg_slot_swap(slot, filter, complete, flags, NULL);
    if (err) {
        bg_filter_free(filter);
    }
    return err;
}

static bg_filter *empty(void)
{
    return make(BG_KIND_BLOCKED, 2000);
}

static void save(const char *path, uint64_t keys, uint64_t generation,
                 const char *metadata)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_filter *filter = make_with(0, keys);
    how.generation = generation;
    how.metadata = metadata;
    CHECK_OK(bg_save(filter, path, &how, NULL));
    bg_filter_free(filter);
}

/* ---- Adds ------------------------------------------------------------------------------ */

static bg_err no_keys(void *context, bg_bytes *keys, size_t room, size_t *n,
                      bg_errinfo *info)
{
    (void)context;
    (void)keys;
    (void)room;
    (void)info;
    *n = 0;
    return BG_EIO;
}

/* Starts a rebuild with a delta. The rebuild is aborted if `pushes` is true; otherwise, its source
 * fails. */
static void fail_to_rebuild(bg_slot *slot, bool pushes)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    const bg_source source = { no_keys, NULL, NULL, 1000 };
    bg_rebuild *rebuild = NULL;
    how.delta = empty();
    how.spec.items = 1000;
    if (pushes) {
        CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
        bg_rebuild_abort(rebuild);
    } else {
        CHECK_EQ(bg_slot_rebuild(slot, &source, &how, NULL, NULL), BG_EIO);
    }
}

/* If a rebuild with a delta fails, a new base must still include the keys that were added to the
 * base before the rebuild. */
TEST(slot_guard__after_a_rebuild_that_failed)
{
    for (int pushes = 0; pushes < 2; pushes++) {
        bg_slot *slot = make_slot(empty(), 0);
        add_keys(slot, 0, 1000);
        bg_slot_advance(slot, 1000);
        CHECK_EQ(swap(slot, empty(), 5, 0), BG_EINCOMPAT);
        for (int failed = 0; failed < 8; failed++) {
            fail_to_rebuild(slot, pushes);
            CHECK_EQ(swap(slot, empty(), 5, 0), BG_EINCOMPAT);
            CHECK_EQ(count_keys(slot, 0, 1000), 1000);
        }
        CHECK(bg_slot_may_contain_up_to(slot, "stranger", 8, 1001));
        add_keys(slot, 1000, 10);
        CHECK_OK(swap(slot, make_with(0, 1000), 1000, 0));
        CHECK_EQ(count_keys(slot, 0, 1010), 1010); /* the deltas stayed */
        CHECK_EQ(swap(slot, empty(), 5, 0), BG_EINCOMPAT);
        CHECK_OK(swap(slot, empty(), 5, BG_SLOT_DISCARD));
        CHECK_EQ(bg_slot_complete_to(slot), 5); /* the deltas start at 1000 */
        bg_slot_free(slot);
    }
}

/* A rebuild that follows several failed rebuilds keeps only the last of their deltas, which does
 * not include keys added before that delta was created. If the base is older than the delta, there
 * is a gap between them, so the slot is complete only up to the base's number. */
TEST(slot_guard__a_delta_reaches_back_to_its_own_beginning)
{
    enum { STEP = 100 };
    uint64_t keys = STEP;
    bg_slot *slot = make_slot(empty(), 0);
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    add_keys(slot, 0, keys);
    bg_slot_advance(slot, keys);
    for (int failed = 0; failed < 8; failed++, keys += STEP) {
        fail_to_rebuild(slot, true);
        add_keys(slot, keys, STEP);
        bg_slot_advance(slot, keys + STEP);
    }
    how.delta = empty();
    how.spec.items = 2000;
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    for (uint64_t i = 0; i < keys; i++) {
        const bg_bytes key = { &i, sizeof i };
        CHECK_OK(bg_rebuild_add_many(rebuild, bg_keys_bytes(&key, 1), NULL));
    }
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(bg_slot_complete_to(slot), keys);
    CHECK_OK(swap(slot, make_with(0, 2 * STEP), 2 * STEP, BG_SLOT_DISCARD));
    CHECK_EQ(bg_slot_complete_to(slot), 2 * STEP);
    bg_slot_free(slot);
}

/* If a key must be in the next base, it must also be in every later base. */
TEST(slot_guard__after_two_swaps)
{
    bg_slot *slot = make_slot(empty(), 0);
    for (uint64_t number = 1; number < 4; number++) {
        if (number == 3) {
            CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
        }
        add_keys(slot, number, 1);
        bg_slot_advance(slot, number);
    }
    CHECK_EQ(swap(slot, make_with(1, 1), 1, 0), BG_EINCOMPAT);
    CHECK_OK(swap(slot, make_with(1, 3), 3, 0));
    CHECK_EQ(swap(slot, make_with(1, 1), 1, 0), BG_EINCOMPAT);
    CHECK_OK(swap(slot, make_with(1, 2), 2, 0)); /* the delta contains the third key */
    CHECK_EQ(count_keys(slot, 1, 3), 3);
    CHECK_EQ(bg_slot_complete_to(slot), 3);
    bg_slot_free(slot);
}

/* A file's completeness number does not cover keys that were added later. */
TEST(slot_guard__without_a_number_nothing_is_as_complete)
{
    for (int advances = 0; advances < 2; advances++) {
        bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
        CHECK_OK(swap(slot, make_with(0, 5), 5, 0));
        CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
        add_keys(slot, 5, 1);
        if (advances) {
            bg_slot_advance(slot, 6);
        }
        CHECK_OK(bg_slot_compact(slot, empty(), NULL));
        CHECK_EQ(swap(slot, make_with(0, 5), 5, 0), BG_EINCOMPAT);
        CHECK_EQ(swap(slot, make_with(0, 9), 9, 0), advances ? BG_OK : BG_EINCOMPAT);
        CHECK(bg_slot_may_contain_u64(slot, 5));
        bg_slot_free(slot);
    }
}

/* After a less complete base has lowered the completeness number, a new base must still include all
 * keys that were added to the slot. */
TEST(slot_guard__after_completeness_was_lowered)
{
    bg_slot *slot = make_slot(make_with(0, 5), BG_SLOT_SEALED);
    bg_slot_advance(slot, 5);
    CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
    add_keys(slot, 5, 3);
    bg_slot_advance(slot, 8);
    /* Keys 3 and 4 were in the old base, but were never added to the slot. */
    CHECK_OK(swap(slot, make_with(0, 3), 3, 0));
    CHECK_EQ(bg_slot_complete_to(slot), 3);
    CHECK_OK(bg_slot_compact(slot, empty(), NULL));
    CHECK_EQ(swap(slot, make_with(0, 4), 4, 0), BG_EINCOMPAT);
    CHECK_EQ(count_keys(slot, 5, 3), 3);
    CHECK_OK(swap(slot, make_with(0, 8), 8, 0));
    bg_slot_free(slot);
}

/* ---- Migrations ------------------------------------------------------------------------- */

/* Compaction merges the delta only into the new filter, so the migration can no longer be
 * undone. */
TEST(slot_guard__no_way_back_after_a_compaction)
{
    for (int ends = 0; ends < 3; ends++) {
        bg_slot *slot = make_slot(make_with(0, 1), 0);
        bg_filter *other = make_seeded(BG_KIND_BLOCKED, 2000, 7);
        bg_errinfo why;
        CHECK_OK(bg_slot_begin_migration(slot, other, NULL));
        CHECK_OK(bg_slot_set_delta(slot, make_seeded(BG_KIND_BLOCKED, 2000, 7), NULL));
        add_keys(slot, 1, 1);
        if (ends == 0) {
            CHECK_OK(bg_slot_end_migration(slot, true, NULL)); /* the delta stays */
            CHECK_EQ(count_keys(slot, 0, 2), 2);
            bg_slot_free(slot);
            continue;
        }
        CHECK_OK(bg_slot_compact(slot, make_seeded(BG_KIND_BLOCKED, 2000, 7), NULL));
        CHECK_EQ(bg_slot_end_migration(slot, true, &why), BG_EINCOMPAT);
        CHECK(strstr(why.message, "rebuild"));
        CHECK_EQ(count_keys(slot, 0, 2), 2);
        if (ends == 1) {
            CHECK_OK(bg_slot_end_migration(slot, false, NULL));
            CHECK_OK(bg_slot_begin_migration(slot, make_with(0, 0), NULL));
            CHECK_OK(bg_slot_end_migration(slot, true, NULL)); /* another migration */
        } else {
            CHECK_OK(swap(slot, make_with(0, 2), 0, BG_SLOT_DISCARD));
        }
        CHECK(bg_slot_may_contain_u64(slot, 1));
        bg_slot_free(slot);
    }
}

/* ---- Files ------------------------------------------------------------------------------- */

/* Runs the change that `way` selects. Each change replaces or restores the base that was loaded
 * from a file. */
static void change_base(int way, bg_slot *slot)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    how.spec.items = 100;
    switch (way) {
    case 0: CHECK_OK(bg_slot_begin_migration(slot, empty(), NULL)); break;
    case 1:
    case 2:
        CHECK_OK(bg_slot_begin_migration(slot, empty(), NULL));
        CHECK_OK(bg_slot_end_migration(slot, way == 1, NULL));
        break;
    case 3:
        CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
        CHECK_OK(bg_slot_compact(slot, empty(), NULL));
        break;
    case 4:
        CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
        CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
        break;
    case 5: CHECK_OK(swap(slot, empty(), 0, 0)); break;
    default: CHECK_OK(swap(slot, empty(), 0, BG_SLOT_DISCARD)); break;
    }
}

TEST(slot_guard__no_older_generation_whatever_comes_between)
{
    const char *five = files_path("five"), *seven = files_path("seven");
    save(five, 5, 5, NULL);
    save(seven, 7, 7, NULL);
    for (int way = 0; way < 7; way++) {
        bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
        bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
        CHECK_OK(bg_slot_reload(slot, seven, NULL, NULL));
        change_base(way, slot);
        how.flags = BG_SLOT_DISCARD;
        CHECK_EQ(bg_slot_reload(slot, five, &how, NULL), BG_EINCOMPAT);
        CHECK_EQ(stats_of(slot).generation, 7);
        CHECK_EQ(stats_of(slot).digest[0] != 0, way == 1);
        how.flags |= BG_SLOT_ANY_GENERATION;
        CHECK_OK(bg_slot_reload(slot, five, &how, NULL));
        CHECK_EQ(stats_of(slot).generation, 5);
        bg_slot_free(slot);
    }
    files_clean();
}

TEST(slot_guard__forgets_the_generation_when_cleared)
{
    const char *five = files_path("five"), *seven = files_path("seven");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    save(five, 5, 5, NULL);
    save(seven, 7, 7, NULL);
    CHECK_OK(bg_slot_reload(slot, seven, NULL, NULL));
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_OK(bg_slot_reload(slot, five, NULL, NULL));
    bg_slot_free(slot);
    files_clean();
}

TEST(slot_guard__requires_the_generation_that_it_is_told)
{
    const char *five = files_path("five");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    save(five, 5, 5, NULL);
    CHECK_EQ(bg_slot_require_generation(NULL, 6, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_generation(NULL), 0);
    CHECK_EQ(bg_slot_generation(slot), 0);
    CHECK_OK(bg_slot_require_generation(slot, 6, NULL));
    CHECK_EQ(bg_slot_generation(slot), 6);
    CHECK_OK(bg_slot_require_generation(slot, 3, NULL)); /* changes nothing */
    CHECK_EQ(stats_of(slot).generation, 6);
    CHECK_EQ(bg_slot_reload(slot, five, NULL, NULL), BG_EINCOMPAT);
    save(five, 5, 6, NULL);
    CHECK_OK(bg_slot_reload(slot, five, NULL, NULL));
    bg_slot_free(slot);
    files_clean();
}

/* After a delta has been merged with the filter from a file, the same file cannot be loaded again,
 * because it is missing the keys of the delta. */
TEST(slot_guard__not_the_same_file_again_after_a_compaction)
{
    const char *path = files_path("file");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    save(path, 5, 1, "complete: 5\n");
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));
    CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
    add_keys(slot, 5, 1);
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL)); /* the file is already loaded */
    CHECK_EQ(stats_of(slot).reload_unchanged, 1);
    CHECK_OK(bg_slot_compact(slot, empty(), NULL));
    CHECK_EQ(bg_slot_reload(slot, path, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(count_keys(slot, 0, 6), 6);
    bg_slot_free(slot);
    files_clean();
}

/* ---- Without memory ---------------------------------------------------------------------- */

static bg_slot *counted_slot(struct counting *counting)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    counting_start(counting);
    options.allocator = &counting->hooks;
    CHECK_OK(bg_slot_create(make_with(0, 100), &options, &slot, NULL));
    return slot;
}

static void no_more_memory(struct counting *counting)
{
    counting->fail_at = counting->calls + 1;
    counting->fail_onwards = true;
}

static void free_counted(bg_slot *slot, const struct counting *counting)
{
    bg_slot_free(slot);
    CHECK_EQ(counting->live, 0);
    CHECK_EQ(counting->mistakes, 0);
}

/* A caller that has started a migration must be able to end it, even without free memory. */
TEST(slot_guard__settles_without_memory)
{
    for (int back = 0; back < 2; back++) {
        struct counting counting;
        bg_slot *slot = counted_slot(&counting);
        CHECK_OK(bg_slot_begin_migration(slot, make_with(0, 100), NULL));
        CHECK_OK(bg_slot_set_delta(slot, empty(), NULL));
        no_more_memory(&counting);
        CHECK_OK(bg_slot_end_migration(slot, back, NULL));
        CHECK_EQ(stats_of(slot).migrating, 0);
        CHECK_EQ(stats_of(slot).filters, 2);
        CHECK_EQ(count_keys(slot, 0, 100), 100);
        free_counted(slot, &counting);
    }
}

/* Even without free memory, neither a failed nor a successful rebuild leaves an unused filter
 * behind. */
TEST(slot_guard__a_rebuild_ends_without_memory)
{
    for (int way = 0; way < 4; way++) {
        struct counting counting;
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        bg_rebuild *rebuild = NULL;
        bg_slot *slot = counted_slot(&counting);
        how.spec.items = 100;
        if (way & 1) {
            CHECK_OK(bg_slot_begin_migration(slot, make_with(0, 100), NULL));
        }
        CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
        no_more_memory(&counting);
        if (way & 2) {
            CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
            CHECK_EQ(stats_of(slot).filters, 1);
        } else {
            bg_rebuild_abort(rebuild);
            CHECK_EQ(stats_of(slot).filters, 1 + (way & 1));
            CHECK_EQ(count_keys(slot, 0, 100), 100);
            CHECK_EQ(bg_slot_end_migration(slot, true, NULL),
                     way & 1 ? BG_OK : BG_EINVAL);
        }
        free_counted(slot, &counting);
    }
}

/* If memory runs out while a migration is being started, the slot stays unchanged. */
TEST(slot_guard__migrates_or_not)
{
    bool done = false;
    for (size_t at = 1; !done; at++) {
        struct counting counting;
        bg_slot *slot = counted_slot(&counting);
        bg_filter *other = make_with(0, 100);
        counting.fail_at = counting.calls + at;
        done = bg_slot_begin_migration(slot, other, NULL) == BG_OK;
        CHECK_EQ(stats_of(slot).migrating, done);
        if (!done) {
            bg_filter_free(other);
        }
        /* Starting a migration makes three allocations: for the description of the slot, for a view
         * of its filters, and for the view that ends the migration. */
        CHECK(done == (at > 3));
        free_counted(slot, &counting);
    }
}

/* ---- Concurrent adds and advances -------------------------------------------------------- */

/* A slot's allocator is called in the middle of a change, and a custom hash function in the middle
 * of an add. These callbacks advance the slot, as another thread would. */
struct meanwhile {
    bg_slot *slot;
    uint64_t advance; /* the number to advance to, or 0 for no advance */
    int call;         /* the call in which to advance, counted from 1 */
};

static void advance_meanwhile(struct meanwhile *now)
{
    if (now->advance && --now->call == 0) {
        bg_slot_advance(now->slot, now->advance);
    }
}

static void *allocate_meanwhile(void *context, size_t bytes, size_t alignment,
                                bool zeroed)
{
    const size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);
    CHECK(memory != NULL);
    memset(memory, zeroed ? 0 : 0xa5, bytes);
    advance_meanwhile(context);
    return memory;
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

/* A swap does not undo an advance that occurs between the steps of the swap. A later base must
 * include the key that the advance covers. */
TEST(slot_guard__an_advance_during_a_swap)
{
    for (int way = 0; way < 4; way++) {
        const uint64_t complete =
            way & 1 ? 40 : 50; /* lower than the slot's completeness number, or equal */
        struct meanwhile now = { .slot = NULL };
        const bg_allocator allocator = { allocate_meanwhile, release, &now };
        bg_slot_options options = BG_SLOT_OPTIONS_INIT;
        options.allocator = &allocator;
        options.complete = 50;
        options.flags = BG_SLOT_SEALED;
        CHECK_OK(bg_slot_create(make_with(0, 51), &options, &now.slot, NULL));
        CHECK_OK(bg_slot_set_delta(now.slot, empty(), NULL));
        add_keys(now.slot, 100, 1);
        now.advance = 100;
        now.call = way & 2 ? 2 : 1;
        CHECK_OK(bg_slot_swap(now.slot, make_with(0, 51), complete, 0, NULL));
        CHECK(now.call <= 0);
        CHECK_OK(bg_slot_compact(now.slot, empty(), NULL));
        CHECK_EQ(swap(now.slot, make_with(0, 61), 60, 0), BG_EINCOMPAT);
        CHECK_EQ(count_keys(now.slot, 100, 1), 1);
        CHECK_EQ(swap(now.slot, make_with(0, 101), 100, 0), BG_OK);
        bg_slot_free(now.slot);
    }
}

static uint64_t hash_meanwhile(void *context, const void *key, size_t len)
{
    uint64_t hash = 0;
    memcpy(&hash, key, len < sizeof hash ? len : sizeof hash);
    advance_meanwhile(context);
    return (hash + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static bg_filter *make_meanwhile(struct meanwhile *now)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 2000;
    spec.rate = 0.001;
    spec.hash.profile = BG_HASH_CUSTOM;
    spec.hash.custom = hash_meanwhile;
    spec.hash.custom_context = now;
    spec.hash.custom_name = "meanwhile";
    return must_create(&spec);
}

/* An advance that occurs before an add has finished does not cover the added key. */
TEST(slot_guard__an_advance_during_an_add)
{
    for (int way = 0; way < 3; way++) {
        struct meanwhile now = { .advance = 50 };
        const uint64_t key = 100;
        const unsigned char same[8] = { 100 };
        const bg_bytes bytes = { same, sizeof same };
        bg_filter *other = make_meanwhile(&now);
        now.slot = make_slot(make_meanwhile(&now), 0);
        now.call = 1;
        CHECK_OK(way == 0   ? bg_slot_add_u64(now.slot, key, NULL)
                 : way == 1 ? bg_slot_add(now.slot, same, sizeof same, NULL)
                            : bg_slot_add_many(now.slot, bg_keys_bytes(&bytes, 1), NULL,
                                               NULL, NULL));
        CHECK_EQ(bg_slot_complete_to(now.slot), 50);
        CHECK_OK(bg_slot_set_delta(now.slot, make_meanwhile(&now), NULL));
        bg_slot_advance(now.slot, 100);
        CHECK_EQ(bg_slot_swap(now.slot, other, 50, 0, NULL), BG_EINCOMPAT);
        CHECK(bg_slot_may_contain_u64(now.slot, key));
        bg_filter_free(other);
        bg_slot_free(now.slot);
    }
}

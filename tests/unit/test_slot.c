/*
 * test_slot.c - tests slots in a single thread: which filters are queried and which accept adds in
 * each state, all operations that change a slot, files, rebuilds, and refused operations. (The
 * multithreaded tests are in conc_slot.c.)
 */
#define _GNU_SOURCE /* truncate */

#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/files.h"
#include "support/filters.h"
#include "support/slots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- States ---------------------------------------------------------------------------- */

TEST(slot__plain_takes_and_answers)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 2000), 0);
    bool is_new = false;
    CHECK_OK(bg_slot_add(slot, "apple", 5, &is_new));
    CHECK(is_new);
    CHECK_OK(bg_slot_add(slot, "apple", 5, &is_new));
    CHECK(!is_new);
    CHECK(bg_slot_may_contain(slot, "apple", 5));
    CHECK(!bg_slot_may_contain(slot, "pear", 4));
    add_keys(slot, 0, 1000);
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    CHECK(count_keys(slot, 1000000, 1000) < 20);
    bg_slot_info stats = stats_of(slot);
    CHECK_EQ(stats.adds, 1002);
    CHECK_EQ(stats.queries, 2 + 3 * 2000);
    CHECK_EQ(stats.filters, 1);
    CHECK_EQ(stats.retired, 0);
    bg_slot_free(slot);
}

TEST(slot__without_a_filter_everything_may_be_in)
{
    bg_slot *slot = make_slot(NULL, 0);
    uint64_t bitmap[2] = { 0, 0 }, keys[70] = { 0 };
    CHECK(bg_slot_may_contain_u64(slot, 1));
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_u64(keys, 70), bitmap), 70);
    CHECK_EQ(bitmap[0], UINT64_MAX);
    CHECK_EQ(bitmap[1], 63);
    CHECK_EQ(bg_slot_add_u64(slot, 1, NULL), BG_ENOTSUP);
    CHECK_EQ(stats_of(slot).refused, 1);
    CHECK_OK(bg_slot_swap(slot, make(BG_KIND_CLASSIC, 100), 0, 0, NULL));
    CHECK(!bg_slot_may_contain_u64(slot, 1));
    CHECK_OK(bg_slot_add_u64(slot, 1, NULL));
    bg_slot_free(slot);
    CHECK(bg_slot_may_contain_u64(NULL, 1));
    CHECK_EQ(bg_slot_may_contain_many(NULL, bg_keys_u64(keys, 70), bitmap), 70);
    CHECK_EQ(bg_slot_add_u64(NULL, 1, NULL), BG_EINVAL);
    bg_slot_free(NULL);
}

TEST(slot__sealed_refuses_adds_and_may_be_swapped)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    CHECK_EQ(bg_slot_add_u64(slot, 9999, NULL), BG_ENOTSUP);
    CHECK(!bg_slot_may_contain_u64(slot, 9999));
    CHECK_OK(bg_slot_swap(slot, make_with(500, 500), 0, 0, NULL));
    CHECK_EQ(count_keys(slot, 500, 500), 500);
    CHECK_EQ(bg_slot_add_u64(slot, 9999, NULL), BG_ENOTSUP); /* still sealed */
    CHECK_EQ(stats_of(slot).swaps, 1);
    bg_slot_free(slot);
}

TEST(slot__what_takes_adds_is_not_thrown_away)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 2000), 0);
    bg_filter *other = make_with(500, 500);
    bg_errinfo why;
    add_keys(slot, 0, 500);
    CHECK_EQ(bg_slot_swap(slot, other, 0, 0, &why), BG_EINCOMPAT);
    CHECK(strstr(why.message, "DISCARD"));
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK_OK(bg_slot_swap(slot, other, 0, BG_SLOT_DISCARD, NULL));
    CHECK_EQ(count_keys(slot, 500, 500), 500);
    add_keys(slot, 0, 10);
    bg_slot_free(slot);
}

TEST(slot__exclusive_filters_must_be_sealed)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 100;
    spec.rate = 0.01;
    spec.flags = BG_SPEC_EXCLUSIVE;
    bg_filter *filter = must_create(&spec);
    bg_slot *slot = NULL;
    CHECK_EQ(bg_slot_create(filter, NULL, &slot, NULL), BG_EINVAL);
    CHECK(slot == NULL);
    slot = make_slot(filter, BG_SLOT_SEALED);
    bg_filter *delta = must_create(&spec);
    CHECK_EQ(bg_slot_set_delta(slot, delta, NULL), BG_EINVAL);
    bg_filter_free(delta);
    bg_slot_free(slot);
}

/* ---- Layers ---------------------------------------------------------------------------- */

TEST(slot__a_delta_takes_the_adds)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    bool is_new = true;
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_CLASSIC, 2000), NULL));
    add_keys(slot, 500, 500);
    CHECK_OK(bg_slot_add_u64(slot, 3, &is_new));
    CHECK(!is_new); /* the base already contains the key */
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    CHECK_OK(bg_slot_swap(slot, make_with(1000, 500), 0, 0, NULL));
    CHECK_EQ(count_keys(slot, 500, 1000), 1000); /* the delta stayed */
    CHECK(bg_slot_may_contain_u64(slot, 3));     /* key 3 was also added to the delta */
    bg_slot_free(slot);
}

TEST(slot__compaction_makes_one_of_base_and_delta)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    CHECK_EQ(bg_slot_compact(slot, make(BG_KIND_BLOCKED, 2000), NULL), BG_EINVAL);
    bg_slot_free(slot);
    slot = make_slot(make_with(0, 500), 0);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    for (uint64_t round = 1; round < 4; round++) {
        add_keys(slot, 500 * round, 500);
        CHECK_OK(bg_slot_compact(slot, make(BG_KIND_BLOCKED, 2000), NULL));
        CHECK_EQ(count_keys(slot, 0, 500 * (round + 1)), 500 * (round + 1));
        CHECK_EQ(stats_of(slot).filters, 2);
    }
    CHECK_EQ(stats_of(slot).compactions, 3);
    bg_slot_free(slot);
}

/* A compaction also merges two deltas. A slot has two deltas after two calls to bg_slot_set_delta
 * or after a failed compaction. */
TEST(slot__compaction_takes_two_deltas)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    for (uint64_t round = 1; round < 3; round++) {
        CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
        add_keys(slot, 500 * round, 500);
    }
    CHECK_EQ(stats_of(slot).filters, 3);
    CHECK_OK(bg_slot_compact(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    CHECK_EQ(stats_of(slot).filters, 2);
    CHECK_EQ(count_keys(slot, 0, 1500), 1500);
    bg_slot_free(slot);
}

TEST(slot__what_cannot_be_merged_stays_in_layers)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_CLASSIC, 2000), NULL));
    add_keys(slot, 500, 500);
    CHECK_EQ(bg_slot_compact(slot, make(BG_KIND_CLASSIC, 2000), NULL), BG_EINCOMPAT);
    add_keys(slot, 1000, 500);
    CHECK_EQ(count_keys(slot, 0, 1500), 1500);
    bg_filter *third = make(BG_KIND_CLASSIC, 2000);
    CHECK_EQ(bg_slot_set_delta(slot, third, NULL), BG_EBUSY);
    bg_filter_free(third);
    CHECK_EQ(bg_slot_compact(slot, make(BG_KIND_CLASSIC, 2000), NULL), BG_EINCOMPAT);
    CHECK_EQ(count_keys(slot, 0, 1500), 1500);
    CHECK_EQ(stats_of(slot).filters, 3);
    bg_slot_free(slot);
}

/* ---- Migrations ------------------------------------------------------------------------- */

TEST(slot__both_are_asked_during_a_migration)
{
    for (int back = 0; back < 2; back++) {
        bg_slot *slot = make_slot(make_with(0, 500), 0);
        bg_filter *again = make(BG_KIND_BLOCKED, 10);
        CHECK_EQ(bg_slot_end_migration(slot, false, NULL), BG_EINVAL);
        CHECK_OK(bg_slot_begin_migration(slot, make_seeded(BG_KIND_CLASSIC, 4000, 77),
                                         NULL));
        CHECK_EQ(bg_slot_begin_migration(slot, again, NULL), BG_EBUSY);
        bg_filter_free(again);
        CHECK_EQ(stats_of(slot).migrating, 1);
        add_keys(slot, 500, 500);
        CHECK_EQ(count_keys(slot, 0, 1000), 1000);
        CHECK_OK(bg_slot_end_migration(slot, back, NULL));
        CHECK_EQ(count_keys(slot, 500, 500), 500);
        CHECK(back ? count_keys(slot, 0, 500) == 500 : count_keys(slot, 0, 500) < 20);
        CHECK_EQ(stats_of(slot).filters, 1);
        bg_slot_free(slot);
    }
}

/* A migration to a filter that accepts no adds would lose the keys added during the migration,
 * either when the migration is settled or when the base is swapped. (A swap requires
 * BG_SLOT_DISCARD only if the filter accepts adds.) */
TEST(slot__nobody_migrates_to_what_takes_no_adds)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_filter *fixed = make_static(0, 500);
    CHECK_EQ(bg_slot_begin_migration(slot, fixed, NULL), BG_EINCOMPAT);
    CHECK_EQ(stats_of(slot).migrating, 0);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    CHECK_OK(bg_slot_begin_migration(slot, fixed, NULL)); /* adds go to the delta */
    add_keys(slot, 500, 500);
    CHECK_OK(bg_slot_end_migration(slot, false, NULL));
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    bg_slot_free(slot);
}

/* A batch gives the same results as single calls, no matter which hashers the filters have. */
TEST(slot__batches_over_several_hashes)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    uint64_t keys[1500];
    size_t done = 0, added = 0;
    CHECK_OK(
        bg_slot_begin_migration(slot, make_seeded(BG_KIND_CUCKOO, 4000, 77), NULL));
    for (uint64_t i = 0; i < 1500; i++) {
        keys[i] = i;
    }
    CHECK_OK(bg_slot_add_many(slot, bg_keys_u64(keys, 1500), NULL, &done, &added));
    CHECK_EQ(done, 1500);
    CHECK(added >= 980 && added <= 1000);
    CHECK_EQ(count_keys(slot, 0, 1500), 1500);
    bg_bytes bytes[3] = { { "a", 1 }, { "bb", 2 }, { "", 0 } };
    uint64_t bitmap = 0;
    CHECK_OK(bg_slot_add_many(slot, bg_keys_bytes(bytes, 3), NULL, &done, &added));
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_bytes(bytes, 3), &bitmap), 3);
    CHECK_EQ(bitmap, 7);
    bg_slot_free(slot);
}

TEST(slot__a_full_filter_refuses)
{
    bg_slot *slot = make_slot(make(BG_KIND_CUCKOO, 100), 0);
    uint64_t keys[4000];
    size_t done = 0, added = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        keys[i] = i;
    }
    CHECK_EQ(bg_slot_add_many(slot, bg_keys_u64(keys, 4000), NULL, &done, &added),
             BG_EFULL);
    CHECK(done >= 100 && done < 4000);
    CHECK_EQ(count_keys(slot, 0, done), done);
    CHECK_EQ(bg_slot_add_u64(slot, keys[done], NULL), BG_EFULL);
    CHECK_EQ(stats_of(slot).refused, 2);
    CHECK_OK(bg_slot_remove(slot, "\0\0\0\0\0\0\0", 8));
    bg_slot_free(slot);
}

/* ---- Pins and completeness --------------------------------------------------------------- */

TEST(slot__a_pin_keeps_what_is_replaced)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    bg_pin pin;
    bg_role role = BG_ROLE_NEXT;
    bg_slot_pin(slot, &pin);
    CHECK_OK(bg_slot_swap(slot, make_with(500, 500), 0, 0, NULL));
    CHECK_EQ(stats_of(slot).retired, 1);
    const bg_filter *held = bg_pin_filter(&pin, 0, &role);
    CHECK(held && role == BG_ROLE_BASE && bg_pin_filter(&pin, 1, NULL) == NULL);
    CHECK(bg_filter_may_contain_u64(held, 7));
    CHECK(!bg_slot_may_contain_u64(slot, 7));
    bg_slot_unpin(slot, &pin);
    CHECK_EQ(stats_of(slot).retired, 0);
    bg_slot_free(slot);
}

TEST(slot__no_is_said_only_of_what_is_known)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    options.flags = BG_SLOT_SEALED;
    options.complete = 100;
    CHECK_OK(bg_slot_create(make_with(0, 10), &options, &slot, NULL));
    CHECK(!bg_slot_may_contain_up_to(slot, "x", 1, 100));
    CHECK(bg_slot_may_contain_up_to(slot, "x", 1, 101));
    CHECK_OK(
        bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 100), NULL)); /* from 100 on */
    bg_slot_advance(slot, 150);
    bg_slot_advance(slot, 120);
    CHECK_EQ(bg_slot_complete_to(slot), 150);
    CHECK(!bg_slot_may_contain_up_to(slot, "x", 1, 150));
    CHECK_OK(bg_slot_swap(slot, make_with(0, 10), 130, 0,
                          NULL)); /* the delta contains the remaining keys */
    CHECK_EQ(bg_slot_complete_to(slot), 150);
    CHECK_OK(bg_slot_swap(slot, make_with(0, 10), 90, 0,
                          NULL)); /* keys 91 .. 99 are in no filter */
    CHECK_EQ(bg_slot_complete_to(slot), 90);
    CHECK_OK(bg_slot_swap(slot, make_with(0, 10), 200, 0, NULL));
    CHECK_EQ(bg_slot_complete_to(slot), 200);
    bg_slot_free(slot);
}

/* ---- Files ------------------------------------------------------------------------------- */

static void save_keys(const char *path, uint64_t first, uint64_t n, uint64_t generation,
                      const char *metadata)
{
    bg_filter *filter = make_with(first, n);
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = generation;
    how.metadata = metadata;
    CHECK_OK(bg_save(filter, path, &how, NULL));
    bg_filter_free(filter);
}

TEST(slot__reloads_what_is_good)
{
    const char *path = files_path("filter");
    for (uint32_t flags = 0; flags <= BG_SLOT_MAP; flags += BG_SLOT_MAP) {
        bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
        bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
        how.flags = flags;
        save_keys(path, 0, 500, 1, "complete: 42\n");
        CHECK_OK(bg_slot_reload(slot, path, &how, NULL));
        CHECK_EQ(count_keys(slot, 0, 500), 500);
        CHECK_EQ(bg_slot_complete_to(slot), 42);
        CHECK_OK(bg_slot_reload(slot, path, &how, NULL));
        CHECK_EQ(stats_of(slot).reload_unchanged, 1);
        save_keys(path, 500, 500, 2, NULL);
        CHECK_OK(bg_slot_reload(slot, path, &how, NULL));
        CHECK_EQ(count_keys(slot, 500, 500), 500);
        bg_slot_info stats = stats_of(slot);
        CHECK_EQ(stats.reloads, 2);
        CHECK_EQ(stats.generation, 2);
        CHECK_EQ(strlen(stats.digest), 32);
        bg_slot_free(slot);
    }
    files_clean();
}

/* Checks that the slot refuses an invalid file and keeps using the old filter. */
static void check_refused(bg_slot *slot, const char *path, const bg_reload_options *how,
                          bg_err expected, const char *what)
{
    uint64_t failures = stats_of(slot).reload_failures;
    bg_errinfo why;
    CHECK_EQ(bg_slot_reload(slot, path, how, &why), expected);
    CHECK(why.message[0]);
    if (what) {
        CHECK_STR(why.what, what);
    }
    bg_slot_info stats = stats_of(slot);
    CHECK_EQ(stats.reload_failures, failures + 1);
    CHECK_EQ(stats.last_failure.code, expected);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
}

static void flip_byte(const char *path, long at)
{
    FILE *file = fopen(path, "r+");
    CHECK(file && fseek(file, at, SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(byte != EOF && fseek(file, at, SEEK_SET) == 0);
    CHECK(fputc(byte ^ 4, file) != EOF && fclose(file) == 0);
}

TEST(slot__drill_corrupt_and_half_written_files)
{
    const char *path = files_path("filter"), *bad = files_path("bad");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    save_keys(path, 0, 500, 1, NULL);
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));
    for (uint32_t flags = 0; flags <= BG_SLOT_MAP; flags += BG_SLOT_MAP) {
        bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
        how.flags = flags;
        save_keys(bad, 500, 500, 2, NULL);
        flip_byte(bad, 5000); /* flips a byte in the words, which begin at 4096 */
        check_refused(slot, bad, &how, BG_ECHECKSUM, NULL);
        CHECK(truncate(bad, 6000) == 0);
        check_refused(slot, bad, &how, BG_EFORMAT, NULL);
        CHECK(truncate(bad, 0) == 0);
        check_refused(slot, bad, &how, BG_EFORMAT, NULL);
    }
    check_refused(slot, files_path("none"), NULL, BG_EIO, NULL);
    bg_slot_free(slot);
    files_clean();
}

TEST(slot__drill_files_of_another_filter)
{
    const char *path = files_path("filter"), *other = files_path("other");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    save_keys(path, 0, 500, 5, NULL);
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));

    bg_filter *seeded = make_seeded(BG_KIND_BLOCKED, 2000, 3);
    CHECK_OK(bg_save(seeded, other, NULL, NULL));
    check_refused(slot, other, NULL, BG_EINCOMPAT, "hash function in the file");
    bg_filter_free(seeded);

    bg_filter *classic = make(BG_KIND_CLASSIC, 2000);
    CHECK_OK(bg_save(classic, other, NULL, NULL));
    check_refused(slot, other, NULL, BG_EINCOMPAT, "filter kind in the file");
    bg_filter_free(classic);

    save_keys(other, 0, 700, 4, NULL);
    check_refused(slot, other, NULL, BG_EINCOMPAT, "generation in the file");
    how.flags = BG_SLOT_ANY_GENERATION;
    how.key_id[0] = 'k';
    check_refused(slot, other, &how, BG_EINCOMPAT, "key id in the file");
    how.key_id[0] = 0;
    CHECK_OK(bg_slot_reload(slot, other, &how, NULL));
    CHECK_EQ(count_keys(slot, 0, 700), 700);
    bg_slot_free(slot);

    slot = make_slot(make_with(0, 500), 0); /* accepts adds */
    save_keys(other, 0, 500, 9, NULL);
    check_refused(slot, other, NULL, BG_EINCOMPAT, "slot");
    bg_slot_free(slot);
    files_clean();
}

TEST(slot__saves_with_its_completeness)
{
    const char *path = files_path("saved");
    bg_slot *slot = make_slot(make_with(0, 500), 0), *other = make_slot(NULL, 0);
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.metadata = "keys: lower case";
    bg_slot_advance(slot, 77);
    add_keys(slot, 500, 500);
    CHECK_OK(bg_slot_save(slot, path, &how, NULL));
    CHECK_OK(bg_slot_reload(other, path, NULL, NULL));
    CHECK_EQ(count_keys(other, 0, 1000), 1000);
    CHECK_EQ(bg_slot_complete_to(other), 77);
    how.metadata = "complete: 5\n";
    CHECK_EQ(bg_slot_save(slot, path, &how, NULL), BG_EINVAL);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    CHECK_EQ(bg_slot_save(slot, path, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(bg_slot_save(slot, NULL, NULL, NULL), BG_EINVAL);
    bg_slot_free(slot);
    bg_slot_free(other);
    files_clean();
}

/* ---- Watching ---------------------------------------------------------------------------- */

#if !CHECK_EMULATED /* some emulators do not support inotify */
TEST(slot__a_watch_reloads_when_the_file_is_replaced)
{
    const char *path = files_path("watched");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    bool reloaded = true;
    CHECK_OK(bg_watch_create(slot, path, NULL, &watch, NULL));
    CHECK(bg_watch_fd(watch) >= 0);
    CHECK_OK(bg_watch_poll(watch, 0, &reloaded, NULL));
    CHECK(!reloaded);
    save_keys(path, 0, 500, 1, NULL);
    CHECK_OK(bg_watch_poll(watch, 300000, &reloaded, NULL));
    CHECK(reloaded);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    save_keys(files_path("neighbour"), 0, 500, 1, NULL);
    CHECK_OK(bg_watch_poll(watch, 0, &reloaded, NULL));
    CHECK(!reloaded);
    FILE *half = fopen(path, "w");
    CHECK(half && fputs("half of it", half) > 0 && fclose(half) == 0);
    CHECK_EQ(bg_watch_poll(watch, 300000, &reloaded, NULL), BG_EFORMAT);
    CHECK(!reloaded);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    save_keys(path, 0, 900, 2, NULL);
    CHECK_OK(bg_watch_poll(watch, 300000, &reloaded, NULL));
    CHECK(reloaded);
    bg_watch_free(watch);
    CHECK_EQ(bg_watch_create(slot, files_path("no/such/folder"), NULL, &watch, NULL),
             BG_EIO);
    CHECK(watch == NULL);
    bg_slot_free(slot);
    files_clean();
}

/* If the directory of the watched file is moved or deleted, the watch detects a file that appears
 * later at the watched path. */
TEST(slot__a_watch_finds_its_folder_again)
{
    char folder[512], away[512], path[600];
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    bool reloaded = false;
    (void)snprintf(folder, sizeof folder, "%s", files_path("folder"));
    (void)snprintf(away, sizeof away, "%s", files_path("away"));
    (void)snprintf(path, sizeof path, "%s/watched", folder);
    CHECK_EQ(mkdir(folder, 0700), 0);
    CHECK_OK(bg_watch_create(slot, path, NULL, &watch, NULL));
    for (uint64_t round = 0; round < 2; round++) {
        CHECK_EQ(round ? rmdir(folder) : rename(folder, away), 0);
        CHECK_OK(bg_watch_poll(watch, 0, &reloaded, NULL)); /* there is none */
        CHECK(!reloaded);
        CHECK_EQ(mkdir(folder, 0700), 0);
        save_keys(path, 500 * round, 500, round, NULL);
        CHECK_OK(bg_watch_poll(watch, 300000, &reloaded, NULL));
        CHECK(reloaded);
        CHECK_EQ(count_keys(slot, 500 * round, 500), 500);
        CHECK_EQ(unlink(path), 0);
    }
    CHECK_EQ(rmdir(folder) | rmdir(away), 0);
    bg_watch_free(watch);
    bg_slot_free(slot);
    files_clean();
}

/* State of a source that publishes a file during a rebuild. The file must be loaded after the
 * rebuild. */
struct publisher {
    bg_watch *watch;
    const char *path;
};

static bg_err publish_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                           bg_errinfo *info)
{
    struct publisher *publisher = context;
    (void)keys;
    (void)room;
    (void)info;
    save_keys(publisher->path, 500, 500, 1, NULL);
    CHECK_EQ(bg_watch_poll(publisher->watch, 300000, NULL, NULL), BG_EBUSY);
    CHECK_OK(bg_watch_poll(publisher->watch, 0, NULL,
                           NULL)); /* the failure is reported only once */
    *n = 0;
    return BG_OK;
}

TEST(slot__a_watch_waits_for_the_end_of_a_rebuild)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    struct publisher publisher = { .path = files_path("watched") };
    bg_source source = { publish_next, NULL, &publisher, 500 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bool reloaded = false;
    CHECK_OK(bg_watch_create(slot, publisher.path, NULL, &publisher.watch, NULL));
    CHECK_OK(bg_slot_rebuild(slot, &source, &how, NULL, NULL));
    CHECK_OK(bg_watch_poll(publisher.watch, 0, &reloaded, NULL));
    CHECK(reloaded);
    CHECK_EQ(count_keys(slot, 500, 500), 500);
    CHECK_EQ(stats_of(slot).reload_failures, 1);
    bg_watch_free(publisher.watch);
    bg_slot_free(slot);
    files_clean();
}

TEST(slot__a_watch_with_a_thread_of_its_own)
{
    const char *path = files_path("watched");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    CHECK_OK(bg_watch_create(slot, path, NULL, &watch, NULL));
    CHECK_OK(bg_watch_thread_start(watch, NULL));
    CHECK_EQ(bg_watch_thread_start(watch, NULL), BG_EINVAL);
    save_keys(path, 0, 500, 1, NULL);
    for (int i = 0; i < 10000 && stats_of(slot).reloads == 0; i++) {
        (void)usleep(1000);
    }
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK_EQ(stats_of(slot).reloads, 1);
    bg_watch_free(watch);
    bg_slot_free(slot);
    files_clean();
}
#endif

/* ---- Rebuilding -------------------------------------------------------------------------- */

/* A source that returns the integers from 0 to n - 1 and fails at `dies`. Keys are added to the
 * slot while the source is being read. */
struct numbers {
    uint64_t n, at, dies;
    uint64_t key[64];
    bg_slot *slot;
    uint64_t add; /* the next key to add while the source is being read */
    bool counted; /* the source is read twice, because the first pass counts the keys */
    unsigned rewinds, stops;
};

static bg_err numbers_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                           bg_errinfo *info)
{
    struct numbers *numbers = context;
    (void)info;
    *n = 0;
    while (*n < room && *n < 64 && numbers->at < numbers->n) {
        if (numbers->at == numbers->dies) {
            return BG_EIO;
        }
        numbers->key[*n] = bgi_le64(numbers->at++);
        keys[*n] = (bg_bytes){ &numbers->key[*n], 8 };
        ++*n;
    }
    if (numbers->slot && *n && (numbers->rewinds > 1 || !numbers->counted)) {
        CHECK_OK(bg_slot_add_u64(numbers->slot, numbers->add++, NULL));
    }
    return BG_OK;
}

static bg_err numbers_rewind(void *context, bg_errinfo *info)
{
    struct numbers *numbers = context;
    (void)info;
    numbers->at = 0;
    numbers->rewinds++;
    return BG_OK;
}

static bool numbers_progress(void *context, const bg_rebuild_progress *progress)
{
    struct numbers *numbers = context;
    CHECK(progress->keys <= numbers->n);
    CHECK(progress->expected == 0 || progress->expected == numbers->n);
    return numbers->stops == 0 || --numbers->stops > 0;
}

static const uint64_t added_from = UINT64_C(1) << 40;

static struct numbers numbers_of(uint64_t n, bg_slot *slot)
{
    return (
        struct numbers){ .n = n, .dies = UINT64_MAX, .slot = slot, .add = added_from };
}

static bg_err rebuild(bg_slot *slot, struct numbers *numbers, bg_filter *delta,
                      bg_kind kind, bg_rebuild_report *report, bg_errinfo *why)
{
    bg_source source = { numbers_next, numbers_rewind, numbers, 0 };
    numbers->counted = true;
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = (uint32_t)kind;
    how.delta = delta;
    how.progress = numbers_progress;
    how.context = numbers;
    return bg_slot_rebuild(slot, &source, &how, report, why);
}

TEST(slot__rebuilds_by_the_true_count)
{
    bg_slot *slot = make_slot(make_seeded(BG_KIND_BLOCKED, 100, 8), 0);
    bg_rebuild_report report = { .struct_size = sizeof report };
    struct numbers numbers = numbers_of(3000, slot);
    bg_slot_health health = { .struct_size = sizeof health };
    for (uint64_t key = 0; key < 3000; key++) {
        /* Adds thirty times as many keys as the filter was created for. */
        CHECK_OK(bg_slot_add_u64(slot, key, NULL));
    }
    CHECK(count_keys(slot, 1000000, 1000) > 500);
    CHECK_OK(rebuild(slot, &numbers, NULL, BG_KIND_AUTO, &report, NULL));
    CHECK_EQ(numbers.rewinds, 2); /* at the start, and after counting */
    CHECK_EQ(report.keys, 3000);
    CHECK_EQ(report.items, 6000);
    CHECK_EQ(report.undersized, 0);
    CHECK_EQ(count_keys(slot, 0, 3000), 3000);
    CHECK_EQ(count_keys(slot, added_from, numbers.add - added_from),
             numbers.add - added_from);
    CHECK(count_keys(slot, 1000000, 1000) < 20);
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.capacity, 6000);
    CHECK_NEAR(health.items.value, 3000 + (double)(numbers.add - added_from), 0.05);
    CHECK_OK(bg_slot_add_u64(slot, 12345678, NULL)); /* the slot still accepts adds */
    CHECK_EQ(stats_of(slot).rebuilds, 1);
    bg_slot_free(slot);
}

/* A program may keep one source for all rebuilds of a slot. */
TEST(slot__rebuilds_again_from_the_same_source)
{
    for (uint64_t known = 0; known <= 3000; known += 3000) {
        bg_slot *slot = make_slot(make_seeded(BG_KIND_BLOCKED, 100, 8), 0);
        struct numbers numbers = numbers_of(3000, NULL);
        bg_source source = { numbers_next, numbers_rewind, &numbers, known };
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        for (int round = 0; round < 3; round++) {
            bg_rebuild_report report = { .struct_size = sizeof report };
            numbers.at =
                round == 2 ? 1000 : numbers.at; /* a failed rebuild stops here */
            CHECK_OK(bg_slot_rebuild(slot, &source, &how, &report, NULL));
            CHECK_EQ(report.keys, 3000);
            CHECK_EQ(report.items, 6000);
            CHECK_EQ(count_keys(slot, 0, 3000), 3000);
        }
        bg_slot_free(slot);
    }
}

/* Seals, compacts or rebuilds the base, so that it includes all keys added so far. */
static void let_base_have_adds(int way, bg_slot *slot)
{
    struct numbers numbers = numbers_of(1000, NULL);
    bg_filter *delta = make(BG_KIND_BLOCKED, 2000);
    CHECK_OK(way == 0   ? bg_slot_set_delta(slot, delta, NULL)
             : way == 1 ? bg_slot_compact(slot, delta, NULL)
                        : rebuild(slot, &numbers, delta, BG_KIND_AUTO, NULL, NULL));
}

TEST(slot__what_has_adds_is_not_thrown_away)
{
    for (int way = 0; way < 3; way++) {
        bg_slot *slot =
            make_slot(make(BG_KIND_BLOCKED, 2000), way ? BG_SLOT_SEALED : 0);
        bg_filter *other = make_with(5000, 500);
        if (way) {
            CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
        }
        add_keys(slot, 0, 500);
        bg_slot_advance(slot, 70);
        let_base_have_adds(way, slot);
        CHECK_EQ(bg_slot_swap(slot, other, 0, 0, NULL), BG_EINCOMPAT);
        CHECK_EQ(bg_slot_swap(slot, other, 69, 0, NULL), BG_EINCOMPAT);
        CHECK_EQ(count_keys(slot, 0, 500), 500);
        CHECK_OK(bg_slot_swap(slot, other, 70, 0, NULL));
        /* This base is missing keys that the previous base had to include. */
        other = make_with(0, 10);
        CHECK_EQ(bg_slot_swap(slot, other, 69, 0, NULL), BG_EINCOMPAT);
        CHECK_OK(bg_slot_swap(slot, other, 69, BG_SLOT_DISCARD, NULL));
        CHECK_OK(bg_slot_swap(slot, make_with(0, 10), 0, 0,
                              NULL)); /* the base no longer has to include any keys */
        bg_slot_free(slot);
    }
}

/* Checks that, without a base, the slot answers "maybe" for every key, even if there is a delta,
 * because earlier keys are unknown. This applies while the first base is being created, and after
 * its creation has failed. */
static bool maybe_while_making(void *context, const bg_rebuild_progress *progress)
{
    bg_slot *slot = context;
    uint64_t keys[70] = { 0 }, maybe[2];
    bool is_new = true;
    CHECK(bg_slot_may_contain_u64(slot, 1999));
    CHECK_EQ(bg_slot_count(slot, "stranger", 8), 1);
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_u64(keys, 70), maybe), 70);
    CHECK_EQ(maybe[1], 63);
    CHECK_OK(bg_slot_add_u64(slot, 5000 + progress->keys, &is_new));
    CHECK(!is_new);
    return progress->keys < 2000;
}

TEST(slot__a_delta_alone_denies_nothing)
{
    bg_slot *slot = make_slot(NULL, 0);
    bg_slot_health health = { .struct_size = sizeof health };
    for (int failed = 0; failed < 2; failed++) {
        struct numbers numbers = numbers_of(2000, NULL);
        bg_source source = { numbers_next, NULL, &numbers, 2000 };
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        how.spec.kind = BG_KIND_FUSE;
        how.spec.rate = 0.001;
        how.delta = make(BG_KIND_BLOCKED, 2000);
        how.progress = maybe_while_making;
        how.context = slot;
        CHECK_EQ(bg_slot_rebuild(slot, &source, &how, NULL, NULL), BG_ECANCELED);
        CHECK(bg_slot_may_contain_u64(slot, 1999));
        CHECK_OK(bg_slot_get_health(slot, &health));
        CHECK_NEAR(health.rate, 1, 0);
        CHECK_NEAR(health.measured.value, 1, 0);
    }
    bg_filter *delta = make(BG_KIND_BLOCKED, 2000);
    bg_errinfo why;
    CHECK_EQ(bg_slot_compact(slot, delta, &why), BG_EINVAL); /* there is no base */
    CHECK(strstr(why.message, "base") != NULL);
    CHECK_OK(bg_slot_swap(slot, make_with(0, 2000), 0, 0, NULL));
    CHECK_EQ(count_keys(slot, 0, 2000), 2000);
    CHECK(count_keys(slot, 100000, 2000) < 20);
    bg_slot_free(slot);
}

TEST(slot__rebuilds_that_failed_do_not_use_it_up)
{
    for (int last = 0; last < 2; last++) {
        bg_slot *slot = make_slot(make_with(0, 500), 0);
        struct numbers numbers;
        for (uint64_t round = 0; round < 10; round++) {
            add_keys(slot, 500 + 10 * round, 10);
            numbers = numbers_of(2000, slot);
            numbers.stops = 3; /* the third progress call cancels the rebuild */
            CHECK_EQ(rebuild(slot, &numbers, make(BG_KIND_BLOCKED, 2000), BG_KIND_AUTO,
                             NULL, NULL),
                     BG_ECANCELED);
            CHECK_EQ(count_keys(slot, 0, 510 + 10 * round), 510 + 10 * round);
        }
        numbers = numbers_of(2000, slot);
        CHECK_OK(rebuild(slot, &numbers, last ? make(BG_KIND_BLOCKED, 2000) : NULL,
                         BG_KIND_AUTO, NULL, NULL));
        CHECK_EQ(count_keys(slot, 0, 2000), 2000);
        CHECK_EQ(count_keys(slot, added_from, numbers.add - added_from),
                 numbers.add - added_from);
        CHECK_EQ(stats_of(slot).filters, last ? 2 : 1);
        bg_slot_free(slot);
    }
}

TEST(slot__a_static_base_with_a_new_delta)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    struct numbers numbers = numbers_of(2000, NULL);
    bg_errinfo why;
    CHECK_EQ(rebuild(slot, &numbers, NULL, BG_KIND_FUSE, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "delta");
    for (int round = 0; round < 3; round++) {
        numbers = numbers_of(2000, slot);
        CHECK_OK(rebuild(slot, &numbers, make(BG_KIND_BLOCKED, 2000), BG_KIND_FUSE,
                         NULL, &why));
        CHECK_EQ(count_keys(slot, 0, 2000), 2000);
        CHECK_EQ(count_keys(slot, added_from, numbers.add - added_from),
                 numbers.add - added_from);
        CHECK_EQ(stats_of(slot).filters, 2);
        bg_pin pin;
        bg_slot_pin(slot, &pin);
        bool fuse = false;
        for (size_t i = 0; bg_pin_filter(&pin, i, NULL); i++) {
            fuse = fuse || bg_filter_kind(bg_pin_filter(&pin, i, NULL)) == BG_KIND_FUSE;
        }
        bg_slot_unpin(slot, &pin);
        CHECK(fuse);
    }
    bg_slot_free(slot);
}

TEST(slot__drill_the_source_dies_in_the_middle)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_errinfo why;
    for (int with_delta = 0; with_delta < 2; with_delta++) {
        struct numbers numbers = numbers_of(2000, slot);
        bg_source source = { numbers_next, NULL, &numbers, 2000 };
        bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
        how.delta = with_delta ? make(BG_KIND_BLOCKED, 2000) : NULL;
        numbers.dies = 1000;
        CHECK_EQ(bg_slot_rebuild(slot, &source, &how, NULL, &why), BG_EIO);
        CHECK_STR(why.what, "source");
        CHECK_EQ(count_keys(slot, 0, 500), 500);
        CHECK_EQ(count_keys(slot, added_from, numbers.add - added_from),
                 numbers.add - added_from);
        CHECK(!bg_slot_may_contain_u64(slot, 999));
        CHECK_EQ(stats_of(slot).rebuild_failures, with_delta + 1);
        CHECK_EQ(stats_of(slot).rebuilding, 0);
        CHECK_EQ(stats_of(slot).filters, with_delta + 1);
    }
    struct numbers numbers = numbers_of(2000, slot);
    CHECK_OK(rebuild(slot, &numbers, NULL, BG_KIND_AUTO, NULL, NULL));
    CHECK_EQ(count_keys(slot, 0, 2000), 2000);
    CHECK_EQ(stats_of(slot).filters, 1);
    bg_slot_free(slot);
}

TEST(slot__rebuilds_are_stopped_and_refused)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    struct numbers numbers = numbers_of(20000, NULL);
    bg_source once = { numbers_next, NULL, &numbers, 0 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    for (unsigned stops = 1; stops < 4; stops++) {
        numbers = numbers_of(20000, NULL);
        numbers.stops = stops;
        CHECK_EQ(rebuild(slot, &numbers, NULL, BG_KIND_AUTO, NULL, NULL), BG_ECANCELED);
        CHECK_EQ(count_keys(slot, 0, 500), 500);
        CHECK_EQ(stats_of(slot).filters, 1);
    }
    CHECK_EQ(bg_slot_rebuild(slot, &once, &how, NULL, NULL), BG_ENOTSUP);
    how.headroom = -1;
    CHECK_EQ(bg_slot_rebuild(slot, &once, &how, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_rebuild(slot, NULL, &how, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_rebuild(NULL, &once, &how, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_rebuild(slot, &once, NULL, NULL, NULL), BG_EINVAL);
    bg_slot_free(slot);
}

/* A rebuild into a cuckoo filter that is too small for the source fails, and the old filter
 * stays in use. */
TEST(slot__a_new_filter_without_room_is_not_used)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    struct numbers numbers = numbers_of(4000, slot);
    bg_source source = { numbers_next, NULL, &numbers, 4000 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = BG_KIND_CUCKOO;
    how.spec.items = 100;
    how.spec.rate = 0.01;
    CHECK_EQ(bg_slot_rebuild(slot, &source, &how, NULL, NULL), BG_EFULL);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    CHECK_EQ(count_keys(slot, added_from, numbers.add - added_from),
             numbers.add - added_from);
    bg_slot_free(slot);
}

/* A source that checks that, during a rebuild, every other change is refused with BG_EBUSY. */
static bg_err next_that_changes(void *context, bg_bytes *keys, size_t room, size_t *n,
                                bg_errinfo *info)
{
    bg_slot *slot = context;
    bg_filter *other = make(BG_KIND_BLOCKED, 10);
    struct numbers numbers = numbers_of(10, NULL);
    (void)keys;
    (void)room;
    (void)info;
    *n = 0;
    CHECK_EQ(bg_slot_swap(slot, other, 0, BG_SLOT_DISCARD, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_set_delta(slot, other, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_begin_migration(slot, other, NULL), BG_EBUSY);
    CHECK_EQ(bg_slot_end_migration(slot, false, NULL), BG_EBUSY);
    CHECK_EQ(rebuild(slot, &numbers, NULL, BG_KIND_AUTO, NULL, NULL), BG_EBUSY);
    CHECK_EQ(stats_of(slot).rebuilding, 1);
    CHECK_OK(bg_slot_save(slot, files_path("meanwhile"), NULL, NULL));
    bg_filter_free(other);
    return BG_OK;
}

TEST(slot__one_rebuild_at_a_time)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_source source = { next_that_changes, NULL, slot, 10 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    CHECK_OK(bg_slot_rebuild(slot, &source, &how, NULL, NULL));
    CHECK_EQ(count_keys(slot, 0, 500), 0); /* the source was empty */
    bg_slot_free(slot);
    files_clean();
}

/* ---- Health ------------------------------------------------------------------------------ */

static uint64_t test_time;

static uint64_t test_clock(void *context)
{
    (void)context;
    return test_time;
}

TEST(slot__advises_a_rebuild_for_each_reason)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_policy policy = BG_POLICY_INIT;
    bg_slot *slot = NULL;
    options.clock = test_clock;
    test_time = 1000;
    CHECK_OK(bg_slot_create(make(BG_KIND_BLOCKED, 1000), &options, &slot, NULL));
    add_keys(slot, 0, 500);
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), 0);
    policy.age = 500;
    test_time = 1400;
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), 0);
    test_time = 1600;
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), BG_REASON_AGE);
    test_time = 10; /* the clock jumped back */
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), 0);
    bg_estimate observed = { 0.01, 0.001, 0.02 };
    CHECK_EQ(bg_slot_advise(slot, &policy, &observed), 0);
    observed.low = 0.002;
    CHECK_EQ(bg_slot_advise(slot, &policy, &observed), BG_REASON_OBSERVED);
    add_keys(slot, 500, 450);
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), BG_REASON_FILL);
    add_keys(slot, 950, 400);
    CHECK_EQ(bg_slot_advise(slot, &policy, NULL), BG_REASON_FILL | BG_REASON_PREDICTED);
    CHECK_EQ(bg_slot_advise(NULL, &policy, NULL), 0);
    bg_slot_free(slot);
}

/* Returns the key, out of eight candidates, that sets the most bits. */
static uint64_t greediest(const bg_slot *slot, uint64_t *candidate)
{
    uint64_t best = 0, most = 0;
    bg_pin pin;
    bg_slot_pin(slot, &pin);
    for (unsigned i = 0; i < 8; i++) {
        bg_filter *trial = NULL;
        CHECK_OK(bg_filter_copy(bg_pin_filter(&pin, 0, NULL), &trial, NULL));
        (void)added_u64(trial, ++*candidate);
        uint64_t ones = info_of(trial).ones;
        best = ones > most ? *candidate : best;
        most = ones > most ? ones : most;
        bg_filter_free(trial);
    }
    bg_slot_unpin(slot, &pin);
    return best;
}

/* Ordinary keys set as many bits as expected; keys chosen to pollute the filter set more. */
TEST(slot__notices_pollution)
{
    bg_kind kinds[] = { BG_KIND_CLASSIC, BG_KIND_PARTITIONED, BG_KIND_BLOCKED,
                        BG_KIND_SPLIT, BG_KIND_REGISTER };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_slot *slot = make_slot(make(kinds[i], 20000), 0);
        bg_slot_health health = { .struct_size = sizeof health };
        add_keys(slot, 0, 40000); /* overfills the filter */
        CHECK_OK(bg_slot_get_health(slot, &health));
        CHECK_EQ(health.polluted, 0);
        CHECK_NEAR(health.bits_per_insert, health.honest_per_insert, 0.1);
        bg_slot_free(slot);
        bg_filter *full = make(kinds[i], 100000);
        for (uint64_t key = 0; key < 100000; key++) {
            (void)added_u64(full, key);
        }
        slot = make_slot(full, 0);
        /* Adds only a few keys, so that the result of a sample fluctuates strongly. */
        add_keys(slot, 200000, 2000);
        for (uint64_t most = 512; most <= 65536; most *= 2) {
            CHECK_OK(bg_slot_sample_health(slot, most, &health));
            CHECK_EQ(health.polluted, 0);
        }
        bg_slot_free(slot);
    }
    bg_slot *slot = make_slot(make(BG_KIND_CLASSIC, 4000), 0);
    bg_slot_health health = { .struct_size = sizeof health };
    uint64_t candidate = 0;
    for (unsigned added = 0; added < 2000; added++) {
        CHECK_OK(bg_slot_add_u64(slot, greediest(slot, &candidate), NULL));
    }
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.polluted, 1);
    CHECK(health.bits_per_insert > 1.15 * health.honest_per_insert);
    CHECK_EQ(bg_slot_advise(slot, NULL, NULL) & BG_REASON_POLLUTED, BG_REASON_POLLUTED);
    bg_slot_free(slot);
}

/* A sample of the filter is enough to detect bits that no add has set. */
TEST(slot__notices_pollution_from_a_part)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 20000), 0);
    bg_slot_health health = { .struct_size = sizeof health };
    bg_filter *other = make(BG_KIND_BLOCKED, 20000);
    bg_pin pin;
    for (uint64_t key = 0; key < 6000; key++) {
        (void)added_u64(other, key);
    }
    add_keys(slot, 10000, 3000);
    bg_slot_pin(slot, &pin);
    CHECK_OK(bg_filter_merge((bg_filter *)(uintptr_t)bg_pin_filter(&pin, 0, NULL),
                             other, NULL));
    bg_slot_unpin(slot, &pin);
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.polluted, 1);
    const uint64_t ones = health.ones;
    CHECK_OK(bg_slot_sample_health(slot, 4096, &health));
    CHECK(health.ones != ones); /* not all bits were counted */
    CHECK_EQ(health.polluted, 1);
    CHECK_EQ(bg_slot_sample_health(NULL, 1, &health), BG_EINVAL);
    CHECK_EQ(bg_slot_sample_health(slot, 1, NULL), BG_EINVAL);
    bg_filter_free(other);
    bg_slot_free(slot);
}

/* Keys that are already in the base still set bits in the delta. */
TEST(slot__adding_again_is_no_pollution)
{
    bg_slot *slot = make_slot(make_with(0, 2000), 0);
    bg_slot_health health = { .struct_size = sizeof health };
    uint64_t keys[3000];
    for (uint64_t i = 0; i < 3000; i++) {
        keys[i] = i;
    }
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_CLASSIC, 20000), NULL));
    add_keys(slot, 0, 3000);
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.polluted, 0);
    CHECK_NEAR(health.bits_per_insert, health.honest_per_insert, 0.1);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_CLASSIC, 20000), NULL));
    CHECK_OK(bg_slot_add_many(slot, bg_keys_u64(keys, 3000), NULL, NULL, NULL));
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.polluted, 0);
    CHECK_NEAR(health.bits_per_insert, health.honest_per_insert, 0.1);
    bg_slot_free(slot);
}

/* Absent canaries, which are keys that were never added, measure the false-positive rate, even if
 * the filter is overfilled. */
TEST(slot__measures_its_rate)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 20000), 0);
    bg_slot_health health = { .struct_size = sizeof health };
    double before = -1;
    unsigned others = 0;
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK(health.measured.value == 0);
    CHECK(health.measured.high < 0.001);
    for (unsigned round = 1; round <= 4; round++) {
        add_keys(slot, (round - 1) * 20000, 20000);
        CHECK_OK(bg_slot_get_health(slot, &health));
        const double width = health.measured.high - health.measured.low;
        CHECK(health.measured.low < health.measured.value);
        CHECK(fabs(health.measured.value - health.rate) < 2 * width);
        CHECK(health.measured.value > before);
        before = health.measured.value;
    }
    for (unsigned i = 0; i < 4; i++) { /* each call samples different keys */
        CHECK_OK(bg_slot_get_health(slot, &health));
        others += health.measured.value != before;
    }
    CHECK(others > 0);
    CHECK_EQ(stats_of(slot).queries, 0);
    bg_slot_free(slot);
}

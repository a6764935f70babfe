/*
 * Tests recovery in individual cases that once failed or might fail: bases (saved filter files)
 * that are missing, damaged or keyed with an unknown secret; records that must outlive a failed
 * checkpoint; a failed journal; loads that never complete; windows; unneeded files; torn tails.
 */
#define _GNU_SOURCE

#include "support/adds.h"
#include "support/crossing.h"
#include "support/scratch.h"
#include "support/service_world.h"

#include "clock.h"
#include "config/gate_settings.h"

/* ---- Helpers ------------------------------------------------------------------------------------- */

static struct world w;

static void must_open(const char *folder)
{
    disk.patient = true;
    if (!world_open(&w, folder, "")) {
        check_fail(__FILE__, __LINE__, "%s", w.why.message);
    }
}

static void again_after_crash(const char *folder)
{
    world_crash(&w);
    must_open(folder);
}

static void again(const char *folder)
{
    CHECK(world_ack(&w));
    again_after_crash(folder);
}

static void ok(const char *line)
{
    if (strcmp(world_ask(&w, "%s", line), "+OK") != 0) {
        check_fail(__FILE__, __LINE__, "%s: %s", line, w.said);
    }
}

static void must_open_with_bf(const char *folder)
{
    must_open(folder);
    ok("BF.RESERVE bf 0.001 200");
    world_add(&w, "bf", 0, 50);
}

/* Returns whether the filter reports almost all never-added keys as absent. */
static bool knows(const char *name)
{
    unsigned denied = 0;
    for (unsigned i = 0; i < 50; i++) {
        denied += strcmp(world_ask(&w, "BG.EXISTS %s nobody%u", name, i), ":0") == 0;
    }
    return denied > 40;
}

static struct journal *journal(void)
{
    return w.server.persist->journal;
}

static struct journal_state state(void)
{
    struct journal_state s;
    journal_about(journal(), &s);
    return s;
}

/* Returns the entry for a name. The caller must release the entry. */
static struct entry *entry_of(const char *name)
{
    session_begin(&w.session);
    struct entry *entry = session_find(&w.session, (bg_bytes){ name, strlen(name) });
    CHECK(entry != NULL);
    catalog_hold(entry);
    session_end(&w.session);
    return entry;
}

static const char *base_of(const char *name)
{
    static char path[PERSIST_PATH];
    struct entry *entry = entry_of(name);
    CHECK(entry->base.file[0] != 0);
    persist_path(w.server.persist, entry->base.file, path);
    catalog_release(entry);
    return path;
}

static unsigned count_files(const char *folder)
{
    char path[600];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "%s/filters", folder);
    DIR *files = opendir(path);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private directory */
    for (const struct dirent *entry; files && (entry = readdir(files)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    CHECK(files != NULL);
    (void)closedir(files);
    return n;
}

/* ---- Bases that cannot be read ------------------------------------------------------------------------- */

/* Tests a filter with a base and later records. `spoil` damages the base and `repair` restores
 * it. While the base is damaged, every lookup answers "maybe", and a snapshot must not drop the
 * records. */
static void spoilt(const char *folder, void (*spoil)(const char *path),
                   void (*repair)(const char *path))
{
    char path[PERSIST_PATH];
    must_open(folder);
    ok("BF.RESERVE bf 0.001 100");
    ok("CF.RESERVE cf 100");
    ok("BF.RESERVE other 0.001 100");
    world_add(&w, "bf", 0, 50);
    world_add(&w, "cf", 0, 50);
    world_add(&w, "other", 0, 50);
    ok("SAVE");
    world_add(&w, "bf", 50, 100);
    world_add(&w, "cf", 50, 100);
    CHECK(world_ack(&w));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cf" : "bf";
        (void)snprintf(path, sizeof path, "%s", base_of(name));
        world_crash(&w);
        spoil(path);
        must_open(folder);
        CHECK(!knows(name));
        world_has(&w, name, 0, 1000);
        CHECK(world_ask(&w, "BG.ADD %s x", name)[0] == '-');
        CHECK(knows("other"));
        for (int n = 0; n < 3; n++) {
            world_add(&w, "other", 50 + 10 * (unsigned)n, 60 + 10 * (unsigned)n);
            ok("SAVE");
            again(folder);
        }
        world_has(&w, name, 0, 1000);
        CHECK(world_ack(&w));
        world_crash(&w);
        repair(path);
        must_open(folder);
        CHECK(knows(name));
        world_has(&w, name, 0, 100);
        world_has(&w, "other", 0, 80);
    }
    world_close(&w);
}

static char moved[PERSIST_PATH + 8];

static void move_away(const char *path)
{
    (void)snprintf(moved, sizeof moved, "%s", scratch_path("moved"));
    CHECK_EQ(__real_rename(path, moved), 0);
}

static void move_back(const char *path)
{
    CHECK_EQ(__real_rename(moved, path), 0);
}

TEST(recover__a_base_is_missing)
{
    spoilt(scratch_path("missing"), move_away, move_back);
}

/* Flips a bit in the file. A second call restores the bit. */
static void flip(const char *path)
{
    FILE *file = fopen(path, "r+e");
    CHECK(file != NULL);
    CHECK_EQ(fseek(file, 20, SEEK_SET), 0);
    const int c = fgetc(file);
    CHECK_EQ(fseek(file, 20, SEEK_SET), 0);
    CHECK(fputc(c ^ 4, file) != EOF);
    CHECK_EQ(fclose(file), 0);
}

TEST(recover__a_base_is_damaged)
{
    spoilt(scratch_path("damaged"), flip, flip);
}

static void cut(const char *path)
{
    (void)snprintf(moved, sizeof moved, "%s", scratch_path("whole"));
    disk_copy(path, moved);
    CHECK_EQ(truncate(path, 1000), 0);
}

static void mend(const char *path)
{
    disk_copy(moved, path);
}

TEST(recover__a_base_is_cut_off)
{
    spoilt(scratch_path("cut"), cut, mend);
}

/* Replaces the base with the intact file of a different filter. */
static void exchange(const char *path)
{
    (void)snprintf(moved, sizeof moved, "%s", scratch_path("right"));
    disk_copy(path, moved);
    const bg_hash_spec hash = { .profile = BG_HASH_FAST };
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.items = 10;
    spec.rate = 0.01;
    spec.hash = hash;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK_EQ(__real_unlink(path), 0);
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    bg_filter_free(filter);
}

TEST(recover__a_base_is_another_one)
{
    spoilt(scratch_path("another"), exchange, mend);
}

/* Tests filters with and without a base. */
TEST(recover__the_secret_is_missing)
{
    const char *folder = scratch_path("secret");
    char ring[600], aside[600];
    (void)snprintf(ring, sizeof ring, "%s.keyring", folder);
    (void)snprintf(aside, sizeof aside, "%s.aside", folder);
    must_open(folder);
    ok("BF.RESERVE saved 0.001 100");
    ok("BF.RESERVE recorded 0.001 100");
    ok("BG.CREATE plain KIND blocked CAPACITY 100 ERROR 0.001 HASH fast");
    world_add(&w, "saved", 0, 50);
    ok("SAVE");
    world_add(&w, "saved", 50, 100);
    world_add(&w, "recorded", 0, 100);
    world_add(&w, "plain", 0, 60);
    CHECK(world_ack(&w));
    world_crash(&w);
    CHECK_EQ(__real_rename(ring, aside), 0);
    for (int i = 0; i < 3; i++) { /* creates a keyring with a new secret */
        must_open(folder);
        world_has(&w, "saved", 0, 200);
        world_has(&w, "recorded", 0, 200);
        world_has(&w, "plain", 0, 60);
        CHECK(!knows("saved") && !knows("recorded") && knows("plain"));
        ok("SAVE");
        CHECK(world_ack(&w));
        world_crash(&w);
    }
    CHECK_EQ(__real_rename(aside, ring), 0);
    must_open(folder);
    CHECK(knows("saved") && knows("recorded"));
    world_has(&w, "saved", 0, 100);
    world_has(&w, "recorded", 0, 100);
    world_close(&w);
}

/* The journal fails while a base cannot be read. The filter's records are removed with the old
 * segments, so the filter's content stays unknown even after its base is restored. */
TEST(recover__a_failed_journal_and_a_missing_base)
{
    const char *folder = scratch_path("lost");
    char path[PERSIST_PATH];
    must_open(folder);
    ok("BF.RESERVE bf 0.001 100");
    ok("BF.RESERVE quiet 0.001 100");
    world_add(&w, "bf", 0, 50);
    world_add(&w, "quiet", 0, 50);
    ok("SAVE");
    world_add(&w, "bf", 50, 100);
    CHECK(world_ack(&w));
    (void)snprintf(path, sizeof path, "%s", base_of("bf"));
    world_crash(&w);
    move_away(path);
    must_open(folder);
    disk.calls = 0;
    disk.at = 1;
    disk.fault = DISK_EIO;
    (void)world_ask(&w, "BF.ADD other x");
    CHECK(!world_ack(&w));
    disk.at = 0;
    CHECK(state().failed);
    CHECK(strncmp(world_ask(&w, "BF.ADD other y"), "-MISCONF", 8) == 0);
    CHECK_EQ(strcmp(world_ask(&w, "BF.EXISTS quiet k1"), ":1"), 0);
    ok("SAVE");
    CHECK(world_ack(&w));
    CHECK(!state().failed);
    CHECK_STR(world_ask(&w, "BF.ADD other y"), ":1");
    again(folder);
    move_back(path);
    for (int i = 0; i < 2; i++) {
        again(folder);
        world_has(&w, "bf", 0, 200);
        CHECK(!knows("bf") && knows("quiet"));
        world_has(&w, "quiet", 0, 50);
        CHECK_STR(world_ask(&w, "BF.EXISTS other y"), ":1");
        ok("SAVE");
    }
    /* The file is kept, because it contains part of the filter. */
    CHECK_EQ(access(path, F_OK), 0);
    CHECK_STR(world_ask(&w, "DEL bf"), ":1");
    ok("SAVE");
    CHECK_EQ(access(path, F_OK), -1); /* no longer needed */
    world_close(&w);
}

/* The journal fails while another thread writes to it. The journal on disk needs the old base until
 * a fresh journal exists, so a checkpoint must neither succeed nor delete that base. */
TEST(recover__a_checkpoint_on_a_failed_journal_deletes_nothing)
{
    const char *folder = scratch_path("crossing");
    char path[PERSIST_PATH];
    must_open(folder);
    ok("BF.RESERVE bf 0.001 100");
    world_add(&w, "bf", 0, 50);
    ok("SAVE");
    world_add(&w, "bf", 50, 100);
    (void)snprintf(path, sizeof path, "%s", base_of("bf"));
    CHECK_EQ(crossing_fail(journal()), BG_EIO);
    struct entry *entry = entry_of("bf");
    CHECK(persist_checkpoint(w.server.persist, entry, NULL) != BG_OK);
    catalog_release(entry);
    CHECK_EQ(access(path, F_OK), 0);
    CHECK(!world_ack(&w));
    CHECK(strncmp(world_ask(&w, "BF.ADD bf late"), "-MISCONF", 8) == 0);
    again_after_crash(folder);
    CHECK(knows("bf"));
    world_has(&w, "bf", 0, 100);
    world_close(&w);
}

/* The journal fails while another thread writes to it, but then the service saves all filters.
 * Changes that the service accepts afterwards must not be lost. */
TEST(recover__a_snapshot_after_a_failed_sync_begins_a_fresh_journal)
{
    const char *folder = scratch_path("fresh");
    must_open_with_bf(folder);
    ok("SAVE");
    world_add(&w, "bf", 50, 100);
    CHECK_EQ(crossing_fail(journal()), BG_EIO);
    CHECK(!world_ack(&w));
    ok("SAVE");
    CHECK(world_ack(&w));
    world_add(&w, "bf", 100, 150);
    again(folder);
    CHECK(knows("bf"));
    world_has(&w, "bf", 0, 150);
    CHECK_EQ(count_files(folder), 1);
    world_close(&w);
}

/* Deletes the file or the pack that contains a filter. */
static void remove_base_of(const char *name)
{
    char path[PERSIST_PATH];
    (void)snprintf(path, sizeof path, "%s", base_of(name));
    char *part = strrchr(path, '@');
    if (part) {
        *part = 0;
    }
    CHECK_EQ(unlink(path), 0);
}

/* The files or packs of loaded filters are deleted, once while the journal is working and once
 * after it has failed. The next snapshot writes them again, even if their filters did not
 * change. */
TEST(recover__files_that_were_removed_are_written_again)
{
    static const char *const names[] = { "removed", "removed-pack", "failed-file",
                                         "failed-pack" };
    for (int round = 0; round < 4; round++) {
        const char *folder = scratch_path(names[round]);
        must_open_with_bf(folder);
        w.server.persist->pack_from = round & 1 ? 1 : 64;
        ok("SAVE");
        remove_base_of("bf");
        if (round & 2) {
            CHECK_EQ(crossing_fail(journal()), BG_EIO);
        }
        ok("SAVE");
        again(folder);
        CHECK(knows("bf"));
        world_has(&w, "bf", 0, 50);
        world_close(&w);
    }
}

/* A filter is replaced many times between two snapshots. The replaced files are deleted. */
TEST(recover__replacing_a_filter_deletes_its_files)
{
    const char *folder = scratch_path("replaced");
    must_open_with_bf(folder);
    for (int i = 0; i < 10; i++) {
        CHECK(strcmp(world_ask(&w, "COPY bf copy REPLACE"), ":1") == 0);
        CHECK(count_files(folder) <= 2); /* the previous file may still be needed */
    }
    again(folder);
    world_has(&w, "copy", 0, 50);
    world_close(&w);
}

/* For a while, no fresh journal can be created. Each attempt reuses the filter files that the
 * previous attempt wrote. */
TEST(recover__attempts_to_begin_a_fresh_journal_write_files_once)
{
    const char *folder = scratch_path("attempts");
    char path[PERSIST_PATH];
    struct journal_state state;
    must_open(folder);
    ok("BF.RESERVE bf 0.001 200");
    ok("BF.RESERVE idle 0.001 200");
    world_add(&w, "bf", 0, 50);
    world_add(&w, "idle", 0, 50);
    ok("SAVE");
    world_add(&w, "bf", 50, 100);
    CHECK_EQ(crossing_fail(journal()), BG_EIO);
    journal_about(journal(), &state);
    (void)snprintf(path, sizeof path, "%s/journal-%020llu.log.tmp", folder,
                   (unsigned long long)state.segment + 1);
    CHECK_EQ(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(strncmp(world_ask(&w, "SAVE"), "-MISCONF", 8) == 0);
        /* two files from the first snapshot, and a new file for bf */
        CHECK_EQ(count_files(folder), 3);
    }
    CHECK_EQ(rmdir(path), 0);
    ok("SAVE");
    world_add(&w, "bf", 100, 150);
    again(folder);
    world_has(&w, "bf", 0, 150);
    world_has(&w, "idle", 0, 50);
    CHECK_EQ(count_files(folder), 2);
    world_close(&w);
}

/* ---- Checkpoints that fail -------------------------------------------------------------------------------- */

/* Whether the journal becomes full when the next file is created. */
static bool fill_up;

static void journal_becomes_full(void)
{
    bg_errinfo full = { .code = BG_EIO, .os_errno = ENOSPC, .message = "no room" };
    if (fill_up) {
        journal_enter(journal());
        journal_fail(journal(), &full, false);
        journal_leave(journal());
    }
}

static void journal_has_room(void)
{
    journal_enter(journal());
    journal_error_clear(&journal()->failure);
    journal_leave(journal());
    fill_up = false;
}

/* The filter's file is saved, but this cannot be recorded in the journal, so earlier records must
 * not be dropped. */
TEST(recover__a_base_that_was_not_recorded)
{
    const char *folder = scratch_path("unrecorded");
    for (int commutes = 0; commutes < 2; commutes++) {
        const char *name = commutes ? "bf" : "cf";
        must_open(folder);
        if (world_ask(&w, "EXISTS %s", name)[1] == '0') {
            ok(commutes ? "BF.RESERVE bf 0.001 100" : "CF.RESERVE cf 100");
        }
        world_add(&w, name, 0, 50);
        CHECK(world_ack(&w));
        fill_up = true;
        disk.on_create = journal_becomes_full; /* called when the segment is created */
        CHECK(world_ask(&w, "SAVE")[0] == '-');
        journal_has_room();
        /* This time, the journal becomes full when the filter's own file is created. */
        world_add(&w, name, 50, 60);
        CHECK(world_ack(&w));
        struct entry *entry = entry_of(name);
        fill_up = true;
        disk.on_create = journal_becomes_full;
        CHECK(persist_checkpoint(w.server.persist, entry, NULL) != BG_OK);
        catalog_release(entry);
        journal_has_room();
        ok("SAVE");
        again(folder);
        world_has(&w, name, 0, 60);
        CHECK(knows(name));
        CHECK(count_files(folder) <= 2);
        world_close(&w);
    }
}

/* The result of a merge that could not be saved exists only in memory, so adding a key that it
 * already contains must still be recorded. */
TEST(recover__adds_rely_on_what_is_kept)
{
    const char *folder = scratch_path("relies");
    must_open(folder);
    ok("BG.CREATE a KIND blocked CAPACITY 1000 ERROR 0.001");
    ok("BG.CREATE b KIND blocked CAPACITY 1000 ERROR 0.001");
    world_add(&w, "b", 0, 100);
    CHECK(world_ack(&w));
    disk.calls = 0;
    disk.at = 1;
    disk.fault = DISK_EIO;
    CHECK(world_ask(&w, "BG.MERGE a b")[0] == '-');
    disk.at = 0;
    world_has(&w, "a", 0, 100);
    world_add(&w, "a", 0, 20); /* all keys are already present */
    again(folder);
    world_has(&w, "a", 0, 20);
    /* The next snapshot saves the merged filter, so adding a key that it contains is no longer
     * recorded. */
    disk.calls = 0;
    disk.at = 1;
    CHECK(world_ask(&w, "BG.MERGE a b")[0] == '-');
    disk.at = 0;
    ok("SAVE");
    const uint64_t appends = state().appends;
    world_add(&w, "a", 0, 100);
    CHECK_EQ(state().appends, appends);
    again(folder);
    world_has(&w, "a", 0, 100);
    world_close(&w);
}

/* Removals are refused while the result of a merge is not saved. */
TEST(recover__removes_wait_for_what_is_kept)
{
    const char *folder = scratch_path("removes");
    must_open(folder);
    ok("CF.RESERVE a 1000");
    ok("CF.RESERVE b 1000");
    world_add(&w, "b", 0, 10);
    CHECK(world_ack(&w));
    disk.calls = 0;
    disk.at = 1;
    disk.fault = DISK_EIO;
    CHECK(world_ask(&w, "BG.MERGE a b")[0] == '-');
    disk.at = 0;
    CHECK(world_ask(&w, "CF.DEL a k1")[0] == '-');
    ok("SAVE");
    CHECK_STR(world_ask(&w, "CF.DEL a k1"), ":1");
    again(folder);
    CHECK_STR(world_ask(&w, "CF.COUNT a k1"), ":0");
    CHECK_STR(world_ask(&w, "CF.COUNT a k2"), ":1");
    world_close(&w);
}

/* ---- Records, and when they may be removed -------------------------------------------------------------------- */

/* When two threads append records concurrently, the thread with the lower record number may store
 * its number last. The filter's entry must keep the higher number. */
TEST(recover__the_highest_record_counts)
{
    const char *folder = scratch_path("highest");
    must_open(folder);
    ok("BF.RESERVE bf 0.001 100");
    struct entry *entry = entry_of("bf");
    const uint64_t hash = 1;
    const struct change change = { .op = CHANGE_ADD, .n = 1, .hashes = &hash };
    CHECK_OK(persist_record(w.server.persist, entry, &change, NULL));
    const uint64_t first = atomic_load(&entry->recorded);
    CHECK(first > 0);
    atomic_store(&entry->recorded, first + 1000); /* simulates another thread */
    CHECK_OK(persist_record(w.server.persist, entry, &change, NULL));
    CHECK_EQ(atomic_load(&entry->recorded), first + 1000);
    catalog_release(entry);
    world_close(&w);
}

TEST(recover__an_unfinished_load_keeps_no_segments)
{
    const char *folder = scratch_path("unfinished");
    struct object_shape shape = { .family = OBJECT_BG, .imported = 1 };
    struct object *object = NULL;
    must_open(folder);
    ok("BF.RESERVE bf 0.001 100");
    CHECK_OK(object_create(&shape, &w.session.settings, &object, NULL));
    session_begin(&w.session);
    CHECK_OK(w.session.host.ops->create(&w.session.host, (bg_bytes){ "load", 4 },
                                        object, NULL));
    session_end(&w.session);
    for (unsigned i = 0; i < 5; i++) {
        world_add(&w, "bf", 10 * i, 10 * i + 10);
        ok("SAVE");
        CHECK_EQ(state().segments, 1);
    }
    again(folder);
    world_has(&w, "load", 0, 10); /* unknown */
    world_has(&w, "bf", 0, 50);
    world_close(&w);
}

static uint64_t moved_to(const char *name)
{
    struct entry *entry = entry_of(name);
    const uint64_t to = atomic_load(&entry->object->rotated);
    catalog_release(entry);
    return to;
}

TEST(recover__windows_record_when_they_move)
{
    const char *folder = scratch_path("windows");
    must_open(folder);
    ok("BG.CREATE hours KIND window CAPACITY 1000 WINDOW 36000000 GENERATIONS 3");
    ok("BG.CREATE manual KIND window CAPACITY 1000 MANUAL GENERATIONS 3");
    struct entry *entry = entry_of("hours");
    world_add(&w, "hours", 0, 10);
    const uint64_t appends = state().appends;
    for (int i = 0; i < 100; i++) {
        session_begin(&w.session);
        CHECK_OK(object_tick(entry->object, &w.session.host, NULL));
        session_end(&w.session);
    }
    CHECK(state().appends <= appends + 1); /* a new period may have started */
    catalog_release(entry);
    const uint64_t before = state().appends;
    CHECK(world_ask(&w, "BG.ROTATE manual")[0] == ':');
    CHECK(world_ask(&w, "BG.ROTATE manual")[0] == ':');
    CHECK_EQ(state().appends, before + 2);
    again(folder);
    world_has(&w, "hours", 0, 10);
    ok("SAVE"); /* the base now contains the time of the last rotation */
    const uint64_t to = moved_to("hours");
    CHECK(to > 0);
    again(folder);
    CHECK_EQ(moved_to("hours"), to);
    world_close(&w);
}

/* ---- Windows with a clock ---------------------------------------------------------------------------------------- */

static uint64_t pretended;

static uint64_t pretend_now(struct host *host)
{
    (void)host;
    return pretended;
}

static bg_err pretend_record(struct host *host, struct object *object,
                             const struct change *change, bg_errinfo *info)
{
    (void)host, (void)object, (void)change, (void)info;
    return BG_OK;
}

/* A key is kept for the length of the window, no matter when in a period it was added. */
TEST(recover__windows_keep_keys_for_their_length)
{
    static const struct host_ops ops = { .now = pretend_now,
                                         .ticks = pretend_now,
                                         .record = pretend_record };
    const struct command_settings settings = { .max_filter_bytes = 0 };
    struct host host = { .ops = &ops, .settings = &settings };
    for (uint32_t generations = 2; generations < 6; generations++) {
        enum { LENGTH = 1000 };
        const struct object_shape shape = { .family = OBJECT_BG,
                                            .kind = BG_KIND_WINDOW,
                                            .items = 10000,
                                            .rate = 0.001,
                                            .hash = BG_HASH_FAST,
                                            .window_length = LENGTH,
                                            .window_generations = generations };
        struct object *object = NULL;
        CHECK_OK(object_create(&shape, &settings, &object, NULL));
        uint64_t added[2000];
        pretended = 1000000;
        for (unsigned i = 0; i < 2000; i++) {
            uint64_t is_new = 0;
            size_t done = 0;
            char key[16];
            const int n = snprintf(key, sizeof key, "k%u", i);
            const bg_bytes bytes = { key, (size_t)n };
            CHECK_OK(object_add_many(object, &host, &bytes, 1, &is_new, &done, NULL));
            added[i] = pretended;
            pretended += 1 + check_random_below(check_random_below(10) ? 20 : 400);
            for (unsigned k = i < 100 ? 0 : i - 100; k <= i; k++) {
                const int m = snprintf(key, sizeof key, "k%u", k);
                const bg_bytes older = { key, (size_t)m };
                CHECK(pretended - added[k] > LENGTH || object_probe(object, older) > 0);
            }
        }
        object_free(object);
    }
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

TEST(recover__files_that_nobody_needs_go)
{
    const char *folder = scratch_path("files");
    must_open(folder);
    for (unsigned i = 0; i < 20; i++) {
        CHECK_STR(world_ask(&w, "BF.ADD f%u x", i), ":1");
    }
    ok("SAVE");
    CHECK_EQ(count_files(folder), 20);
    for (unsigned i = 0; i < 10; i++) {
        CHECK_STR(world_ask(&w, "DEL f%u", i), ":1");
    }
    CHECK_STR(world_ask(&w, "RENAME f10 f11"), "+OK");
    CHECK_STR(world_ask(&w, "COPY f12 f13 REPLACE"), ":1");
    CHECK_STR(world_ask(&w, "COPY f12 f14 REPLACE"), ":1");
    for (unsigned i = 0; i < 5; i++) {
        CHECK_STR(world_ask(&w, "BG.CLEAR f15"), "+OK");
    }
    CHECK_STR(world_ask(&w, "BF.ADD f15 x"), ":1");
    ok("SAVE");
    CHECK_EQ(count_files(folder), 9);
    again(folder);
    CHECK_EQ(count_files(folder), 9);
    /* Simulates a file that a dead process left behind. */
    char path[700];
    (void)snprintf(path, sizeof path,
                   "%s/filters/0123456789abcdef0123456789abcdef.bg.tmp.1.0000002a",
                   folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK_EQ(fclose(file), 0);
    CHECK_EQ(count_files(folder), 10);
    again(folder);
    CHECK_EQ(count_files(folder), 9);
    for (unsigned i = 11; i < 20; i++) {
        CHECK_STR(world_ask(&w, "BF.EXISTS f%u x", i), ":1");
    }
    world_close(&w);
}

/* An object whose name is refused leaves no file behind, and the caller still owns the object. */
TEST(recover__a_refused_object_leaves_no_file)
{
    const char *folder = scratch_path("refused");
    struct object *copy = NULL;
    must_open(folder);
    CHECK_STR(world_ask(&w, "BF.ADD a x"), ":1");
    struct entry *entry = entry_of("a");
    CHECK_OK(object_copy(entry->object, &copy, NULL));
    catalog_release(entry);
    session_begin(&w.session);
    struct host *host = &w.session.host;
    CHECK_EQ(host->ops->create(host, (bg_bytes){ "a", 1 }, copy, NULL), BG_EBUSY);
    session_end(&w.session);
    CHECK_EQ(count_files(folder), 0);
    /* The object also leaves no file behind if its name cannot be recorded. */
    CHECK(world_ack(&w));
    fill_up = true;
    disk.on_create = journal_becomes_full;
    session_begin(&w.session);
    CHECK_EQ(host->ops->create(host, (bg_bytes){ "b", 1 }, copy, NULL), BG_EIO);
    session_end(&w.session);
    CHECK_EQ(count_files(folder), 0);
    journal_has_room();
    object_free(copy);
    again(folder);
    CHECK_STR(world_ask(&w, "DBSIZE"), ":1");
    world_close(&w);
}

/* The thread that adds an object to the catalog can keep using the object, even if another thread
 * drops it. */
TEST(recover__an_object_stays_for_who_made_it)
{
    const char *folder = scratch_path("stays");
    struct object *object = NULL;
    must_open(folder);
    session_begin(&w.session);
    const struct object_shape shape = { .family = OBJECT_BG,
                                        .kind = BG_KIND_BLOCKED,
                                        .items = 1000,
                                        .hash = BG_HASH_FAST,
                                        .rate = 0.01 };
    CHECK_OK(object_create(&shape, &w.session.settings, &object, NULL));
    struct host *host = &w.session.host;
    CHECK_OK(host->ops->create(host, (bg_bytes){ "a", 1 }, object, NULL));
    CHECK_OK(catalog_drop_on(w.server.catalog, (bg_bytes){ "a", 1 },
                             &(struct catalog_terms){ .flags = 0 }, w.session.now,
                             NULL));
    catalog_reap(w.server.catalog);
    CHECK_OK(host->ops->checkpoint(host, object, NULL));
    CHECK(object_bytes(object) > 0);
    session_end(&w.session);
    catalog_reap(w.server.catalog);
    CHECK_EQ(count_files(folder), 0);
    world_close(&w);
}

/* ---- Other cases ------------------------------------------------------------------------------------------------- */

TEST(recover__names_of_any_bytes)
{
    static char longest[65536];
    const char *folder = scratch_path("names");
    const bg_bytes names[] = {
        { "", 0 }, { "\0", 1 }, { "a\0b\r\n", 5 }, { longest, 65536 }
    };
    memset(longest, 'x', sizeof longest);
    must_open(folder);
    for (unsigned i = 0; i < 4; i++) {
        const bg_bytes argv[3] = { { "BF.ADD", 6 }, names[i], { "k", 1 } };
        CHECK_STR(world_run(&w, argv, 3), ":1");
    }
    for (int round = 0; round < 3; round++) {
        again(folder);
        CHECK_STR(world_ask(&w, "DBSIZE"), ":4");
        for (unsigned i = 0; i < 4; i++) {
            const bg_bytes argv[3] = { { "BF.EXISTS", 9 }, names[i], { "k", 1 } };
            CHECK_STR(world_run(&w, argv, 3), ":1");
        }
        ok("SAVE");
    }
    const bg_bytes rename[3] = { { "RENAME", 6 }, names[3], { "short", 5 } };
    CHECK_STR(world_run(&w, rename, 3), "+OK");
    again(folder);
    CHECK_STR(world_ask(&w, "BF.EXISTS short k"), ":1");
    world_close(&w);
}

TEST(recover__expired_names_do_not_come_back)
{
    const char *folder = scratch_path("expired");
    must_open(folder);
    CHECK_STR(world_ask(&w, "BF.ADD a x"), ":1");
    CHECK_STR(world_ask(&w, "BF.ADD b x"), ":1");
    const uint64_t end = clock_now() + 30;
    CHECK_STR(world_ask(&w, "PEXPIREAT a %llu", (unsigned long long)end), ":1");
    CHECK_STR(world_ask(&w, "PEXPIREAT b 4000000000000"), ":1");
    ok("SAVE");
    CHECK(world_ack(&w));
    world_crash(&w);
    while (clock_now() <= end) {
    }
    must_open(folder);
    CHECK_STR(world_ask(&w, "EXISTS a"), ":0");
    CHECK_STR(world_ask(&w, "PEXPIRETIME b"), ":4000000000000");
    CHECK_STR(world_ask(&w, "BF.ADD a y"), ":1"); /* this creates a new filter */
    again(folder);
    CHECK_STR(world_ask(&w, "BF.EXISTS a y"), ":1");
    CHECK_STR(world_ask(&w, "BF.EXISTS a x"), ":0");
    CHECK_STR(world_ask(&w, "PEXPIRETIME a"), ":-1");
    CHECK_STR(world_ask(&w, "DBSIZE"), ":2");
    world_close(&w);
}

/* If the last records never became durable, the end of the journal may be torn. All records before
 * the torn end are recovered. */
TEST(recover__a_torn_tail)
{
    const char *folder = scratch_path("torn");
    char path[JOURNAL_DISK_PATH];
    must_open(folder);
    ok("BF.RESERVE bf 0.001 1000");
    world_add(&w, "bf", 0, 100);
    CHECK(world_ack(&w));
    const uint64_t end = state().segment_bytes;
    world_add(&w, "bf", 100, 200);
    CHECK(world_ack(&w));
    (void)snprintf(path, sizeof path, "%s", journal()->path);
    const uint64_t last = state().segment_bytes;
    world_crash(&w);
    CHECK_EQ(truncate(path, (off_t)(end + (last - end) / 2 + 7)), 0);
    must_open(folder);
    world_has(&w, "bf", 0, 140);
    CHECK_STR(world_ask(&w, "BF.EXISTS bf k199"), ":0");
    CHECK(w.server.persist->stats.torn_bytes > 0);
    world_add(&w, "bf", 200, 250);
    again(folder);
    world_has(&w, "bf", 0, 140);
    world_has(&w, "bf", 200, 250);
    world_close(&w);
}

/* Filters that have grown are recovered with the same content and growth settings. */
TEST(recover__bounds_come_back)
{
    const char *folder = scratch_path("bounds");
    must_open(folder);
    ok("BF.RESERVE bf 0.001 20");
    ok("CF.RESERVE cf 16");
    for (unsigned i = 0; i < 3000; i++) {
        CHECK(world_ask(&w, "BF.ADD bf k%u", i)[0] == ':');
        CHECK_STR(world_ask(&w, "CF.ADD cf k%u", i), ":1");
    }
    static char before[2][4096];
    (void)snprintf(before[0], sizeof before[0], "%s", world_ask(&w, "BG.DIGEST bf"));
    (void)snprintf(before[1], sizeof before[1], "%s", world_ask(&w, "CF.INFO cf"));
    for (int i = 0; i < 3; i++) {
        again(folder);
        CHECK_STR(world_ask(&w, "BG.DIGEST bf"), before[0]);
        CHECK_STR(world_ask(&w, "CF.INFO cf"), before[1]);
        world_has(&w, "bf", 0, 3000);
        world_has(&w, "cf", 0, 3000);
        if (i == 1) {
            ok("SAVE");
        }
    }
    world_close(&w);
}

/* Recovery is fast even if many filters were created and dropped. */
TEST(recover__many_that_are_gone)
{
    enum { MANY = 20000 };
    const char *folder = scratch_path("gone");
    must_open(folder);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_STR(world_ask(&w, "BF.RESERVE f%u 0.1 1", i), "+OK");
    }
    for (unsigned i = 0; i < MANY - 10; i++) {
        CHECK_STR(world_ask(&w, "DEL f%u", i), ":1");
    }
    again(folder);
    CHECK_STR(world_ask(&w, "DBSIZE"), ":10");
    CHECK_STR(world_ask(&w, "BF.ADD f19999 x"), ":1");
    ok("SAVE");
    again(folder);
    CHECK_STR(world_ask(&w, "BF.EXISTS f19999 x"), ":1");
    CHECK_STR(world_ask(&w, "DBSIZE"), ":10");
    world_close(&w);
}

/* RedisBloom filters have their own file format, and their journal records contain keys instead of
 * hashes. */
TEST(recover__filters_of_redisbloom)
{
    const char *folder = scratch_path("redisbloom");
    const struct object_shape shape = { .family = OBJECT_BF,
                                        .imported = 1,
                                        .expansion = 2,
                                        .foreign = BG_FOREIGN_REDISBLOOM };
    bg_foreign *foreign = NULL;
    struct object *object = NULL;
    must_open(folder);
    CHECK_OK(
        bg_foreign_create(BG_FOREIGN_REDISBLOOM, 1000, 0.001, NULL, &foreign, NULL));
    CHECK_OK(bg_foreign_add(foreign, "k0", 2, NULL));
    CHECK_OK(object_adopt(&shape, NULL, foreign, &object, NULL));
    session_begin(&w.session);
    struct host *host = &w.session.host;
    CHECK_OK(host->ops->create(host, (bg_bytes){ "f", 1 }, object, NULL));
    session_end(&w.session);
    CHECK(strstr(base_of("f"), ".redisbloom") != NULL);
    world_add(&w, "f", 1, 50);
    for (unsigned i = 1; i < 4; i++) {
        again(folder);
        world_has(&w, "f", 0, 50 * i);
        CHECK(knows("f"));
        world_add(&w, "f", 50 * i, 50 * i + 50);
        if (i > 1) {
            ok("SAVE");
        }
    }
    CHECK_EQ(count_files(folder), 1);
    char path[PERSIST_PATH];
    (void)snprintf(path, sizeof path, "%s", base_of("f"));
    CHECK(world_ack(&w));
    world_crash(&w);
    flip(path);
    must_open(folder);
    world_has(&w, "f", 0, 1000); /* damaged: unknown */
    CHECK(!knows("f"));
    again(folder);
    CHECK(world_ack(&w));
    world_crash(&w);
    flip(path);
    must_open(folder);
    world_has(&w, "f", 0, 200);
    CHECK(knows("f"));
    world_close(&w);
}

/* valkey-bloom filters and RedisBloom's cuckoo filters also have their own file formats. The test
 * removes keys from the cuckoo filters as well. */
TEST(recover__filters_of_other_modules)
{
    static const struct {
        bg_foreign_format format;
        uint32_t family, kind;
        const char *ending, *add, *remove;
    } others[] = {
        { BG_FOREIGN_VALKEYBLOOM, OBJECT_BF, BG_KIND_SCALABLE, ".valkeybloom", "BF.ADD",
          NULL },
        { BG_FOREIGN_REDISCUCKOO, OBJECT_CF, BG_KIND_CUCKOO, ".redisbloom", "CF.ADD",
          "CF.DEL" },
    };
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
        const char *folder = scratch_path(o ? "cuckoo" : "valkey");
        const struct object_shape shape = { .family = others[o].family,
                                            .kind = others[o].kind,
                                            .imported = 1,
                                            .expansion = 2,
                                            .foreign = others[o].format };
        bg_foreign *foreign = NULL;
        struct object *object = NULL;
        must_open(folder);
        CHECK_OK(bg_foreign_create(others[o].format, 100, 0.02, NULL, &foreign, NULL));
        CHECK_OK(bg_foreign_add(foreign, "k0", 2, NULL));
        CHECK_OK(object_adopt(&shape, NULL, foreign, &object, NULL));
        session_begin(&w.session);
        struct host *host = &w.session.host;
        CHECK_OK(host->ops->create(host, (bg_bytes){ "f", 1 }, object, NULL));
        session_end(&w.session);
        CHECK(strstr(base_of("f"), others[o].ending) != NULL);
        for (unsigned i = 1; i < 4; i++) {
            for (unsigned k = 50 * i; k < 50 * i + 50; k++) {
                (void)world_ask(&w, "%s f k%u", others[o].add, k);
            }
            if (others[o].remove) {
                CHECK_STR(world_ask(&w, "%s f k%u", others[o].remove, 50 * i), ":1");
            }
            CHECK_EQ(strncmp(world_ask(&w, "BG.DIGEST f"), "$", 1), 0);
            char before[64];
            (void)snprintf(before, sizeof before, "%s", world_ask(&w, "BG.DIGEST f"));
            again(folder);
            CHECK_STR(world_ask(&w, "BG.DIGEST f"), before);
            CHECK(knows("f"));
            if (i > 1) {
                ok("SAVE");
            }
        }
        CHECK_EQ(count_files(folder), 1);
        world_close(&w);
    }
}

/* ---- Files that are loaded ------------------------------------------------------------------------------- */

/* Saves a filter with some keys to a file with the given generation. */
static void save_generation(const char *folder, const char *name, unsigned keys,
                            uint64_t generation)
{
    char path[600], key[16];
    bg_spec spec = BG_SPEC_INIT;
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_filter *filter = NULL;
    spec.items = 1000;
    spec.rate = 0.001;
    how.generation = generation;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    for (unsigned i = 0; i < keys; i++) {
        const int n = snprintf(key, sizeof key, "k%u", i);
        (void)added(filter, key, (size_t)n);
    }
    (void)snprintf(path, sizeof path, "%s/files/%s", folder, name);
    CHECK_OK(bg_save(filter, path, &how, NULL));
    bg_filter_free(filter);
}

static void refuses(const char *line)
{
    if (strncmp(world_ask(&w, "%s", line), "-INCOMPATIBLE the file has generation", 37)
        != 0) {
        check_fail(__FILE__, __LINE__, "%s: %s", line, w.said);
    }
}

/* An older file never replaces a newer file, whether in the process that loaded the newer file,
 * after a restart from records or from a manifest, or when the base is lost. */
TEST(recover__the_generation_of_files)
{
    const char *folder = scratch_path("generations");
    char path[600], digest[64];
    must_open(folder);
    (void)snprintf(path, sizeof path, "%s/files", folder);
    (void)mkdir(path, 0700);
    save_generation(folder, "five", 50, 5);
    save_generation(folder, "six", 60, 6);
    save_generation(folder, "seven", 70, 7);
    (void)snprintf(digest, sizeof digest, "%s", world_ask(&w, "BG.RELOAD once seven"));
    CHECK(digest[0] != '-');
    CHECK(world_ask(&w, "BG.RELOAD twice six")[0] != '-');
    CHECK(world_ask(&w, "BG.RELOAD twice seven")[0] != '-');
    for (int round = 0; round < 4; round++) {
        refuses("BG.RELOAD once five");
        refuses("BG.RELOAD twice six");
        world_has(&w, "once", 0, 70);
        world_has(&w, "twice", 0, 70);
        if (round == 1) {
            ok("SAVE");
        }
        again(folder);
    }
    (void)snprintf(path, sizeof path, "%s", base_of("once"));
    CHECK(world_ack(&w));
    world_crash(&w);
    CHECK_EQ(__real_unlink(path), 0);
    must_open(folder);
    CHECK(!knows("once") && knows("twice"));
    refuses("BG.RELOAD once five");
    world_has(&w, "once", 0, 100);
    CHECK_STR(world_ask(&w, "BG.RELOAD once seven"), digest);
    CHECK(world_ask(&w, "BG.RELOAD twice five DISCARD")[0] != '-');
    again(folder);
    world_has(&w, "once", 0, 70);
    CHECK(knows("once"));
    CHECK(world_ask(&w, "BG.RELOAD twice six")[0] != '-');
    world_close(&w);
}

/* Only one service can use a directory. */
TEST(recover__a_folder_is_for_one)
{
    static struct world other;
    const char *folder = scratch_path("one");
    must_open(folder);
    CHECK(!world_open(&other, folder, ""));
    CHECK_EQ(other.why.code, BG_EBUSY);
    CHECK_STR(world_ask(&w, "BF.ADD a x"), ":1");
    again(folder);
    CHECK_STR(world_ask(&w, "BF.EXISTS a x"), ":1");
    world_close(&w);
}

/* After a startup that failed or was stopped, only some filters are loaded, so the service must not
 * report any key as absent. */
TEST(recover__an_abandoned_start_denies_nothing)
{
    const char *folder = scratch_path("abandoned");
    must_open(folder);
    atomic_store(&w.server.phase, SERVER_ABANDONING);
    CHECK_STR(world_ask(&w, "BF.EXISTS a x"), ":1");
    CHECK_STR(world_ask(&w, "BF.MEXISTS a x y"), "[:1 :1]");
    CHECK_STR(world_ask(&w, "BF.RESERVE a 0.01 100"),
              "-LOADING bloomgated is loading its filters");
    world_close(&w);
}

/* A change to appendfsync takes effect immediately. */
TEST(recover__appendfsync_changes)
{
    const char *folder = scratch_path("policy");
    must_open(folder);
    CHECK_EQ(state().policy, JOURNAL_EVERYSEC);
    CHECK_STR(world_ask(&w, "BF.ADD a x"), ":1");
    CHECK(world_ack(&w));
    /* also applies to records that were written, but not synced */
    ok("CONFIG SET appendfsync always");
    CHECK_EQ(state().policy, JOURNAL_ALWAYS);
    CHECK(persist_safe(w.server.persist) < persist_tail(w.server.persist));
    CHECK_STR(world_ask(&w, "BF.ADD a y"), ":1");
    CHECK_OK(persist_flush(w.server.persist, NULL));
    CHECK_EQ(state().policy, JOURNAL_ALWAYS);
    CHECK(persist_safe(w.server.persist) < persist_tail(w.server.persist));
    CHECK(world_ack(&w));
    CHECK_EQ(persist_safe(w.server.persist), persist_tail(w.server.persist));
    ok("CONFIG SET appendfsync no");
    CHECK_STR(world_ask(&w, "BF.ADD a z"), ":1");
    CHECK(world_ack(&w));
    CHECK_EQ(state().policy, JOURNAL_NO);
    again(folder);
    CHECK_STR(world_ask(&w, "BF.MEXISTS a x y z"), "[:1 :1 :1]");
    world_close(&w);
}

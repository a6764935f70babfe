/*
 * Checks that watches detect every way of replacing the file at a path.
 */
#define _GNU_SOURCE /* symlink */

#include "support/files.h"
#include "support/slots.h"

#include <poll.h>
#include <sys/stat.h>

#if !CHECK_EMULATED /* the emulator does not fully support inotify */

/* Timeout in milliseconds; detection takes at most a second. */
enum { PATIENCE = 20000 };

/* Returns a path in the test's directory. */
static const char *below(const char *name)
{
    return files_path(name);
}

static void save_keys(const char *name, uint64_t first, uint64_t n, uint64_t generation)
{
    bg_filter *filter = make_with(first, n);
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = generation;
    CHECK_OK(bg_save(filter, below(name), &how, NULL));
    bg_filter_free(filter);
}

static void folder(const char *name)
{
    CHECK_EQ(mkdir(below(name), 0700), 0);
}

static void link_to(const char *target, const char *name)
{
    CHECK_EQ(symlink(target, below(name)), 0);
}

static void move(const char *from, const char *to)
{
    CHECK_EQ(rename(below(from), below(to)), 0);
}

static void put_away(const char *name)
{
    CHECK_EQ(remove(below(name)), 0);
}

/* Creates two directories with one file each. */
static void make_two(const char *first, const char *second)
{
    char name[64];
    folder(first);
    folder(second);
    (void)snprintf(name, sizeof name, "%s/filter", first);
    save_keys(name, 0, 500, 1);
    (void)snprintf(name, sizeof name, "%s/filter", second);
    save_keys(name, 500, 500, 2);
}

static void put_away_two(const char *first, const char *second)
{
    char name[64];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof name, "%s/filter", i ? second : first);
        put_away(name);
        put_away(i ? second : first);
    }
}

/* A slot that has loaded the file at a path, and the slot's watch. */
struct watched {
    bg_slot *slot;
    bg_watch *watch;
};

static struct watched watched_begin(const char *name, uint32_t flags)
{
    struct watched w = { make_slot(NULL, BG_SLOT_SEALED), NULL };
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    how.flags = flags;
    char *path = files_path(name);
    CHECK_OK(bg_slot_reload(w.slot, path, &how, NULL));
    CHECK_OK(bg_watch_create(w.slot, path, &how, &w.watch, NULL));
    return w;
}

/* Checks that the watch detects the file of generation 2, which contains the keys 500 .. 999. */
static void watched_end(struct watched w)
{
    for (int i = 0; i < 100 && stats_of(w.slot).generation != 2; i++) {
        CHECK_OK(bg_watch_poll(w.watch, PATIENCE / 100, NULL, NULL));
    }
    CHECK_EQ(stats_of(w.slot).generation, 2);
    CHECK_EQ(count_keys(w.slot, 500, 500), 500);
    bg_watch_free(w.watch);
    bg_slot_free(w.slot);
}

TEST(watch__a_link_of_a_folder_is_switched)
{
    make_two("r1", "r2");
    link_to("r1", "current");
    struct watched w = watched_begin("current/filter", 0);
    link_to("r2", "next");
    move("next", "current");
    watched_end(w);
    put_away_two("r1", "r2");
    files_clean();
}

/* As in Kubernetes, the watched path is a symbolic link whose target contains a second symbolic
 * link. The second link is switched to a different directory. */
TEST(watch__a_link_within_a_link_is_switched)
{
    make_two("v1", "v2");
    link_to("v1", "..data");
    link_to("..data/filter", "filter");
    struct watched w = watched_begin("filter", 0);
    link_to("v2", "..next");
    move("..next", "..data");
    watched_end(w);
    put_away_two("v1", "v2");
    files_clean();
}

TEST(watch__the_name_is_removed_and_linked_again)
{
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        save_keys("filter", 0, 500, 1);
        save_keys("other", 500, 500, 2);
        struct watched w = watched_begin("filter", 0);
        put_away("filter");
        if (symbolic) {
            link_to("other", "filter");
        } else {
            CHECK_EQ(link(below("other"), below("filter")), 0);
        }
        watched_end(w);
        files_clean();
    }
}

TEST(watch__a_folder_above_is_swapped)
{
    folder("above");
    folder("ready");
    make_two("above/folder", "ready/folder");
    struct watched w = watched_begin("above/folder/filter", 0);
    move("above", "old");
    move("ready", "above");
    watched_end(w);
    put_away_two("above/folder", "old/folder");
    put_away("above");
    put_away("old");
    files_clean();
}

/* The file is replaced after the slot has loaded it and before the watch is created. */
TEST(watch__a_file_that_came_before_it)
{
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    save_keys("filter", 0, 500, 1);
    CHECK_OK(bg_slot_reload(slot, below("filter"), NULL, NULL));
    save_keys("filter", 500, 500, 2);
    CHECK_OK(bg_watch_create(slot, below("filter"), NULL, &watch, NULL));
    watched_end((struct watched){ slot, watch });
    files_clean();
}

/* A filter that did not come from a file is not replaced by a file that existed before the watch
 * was created. */
TEST(watch__a_slot_without_a_file_waits_for_a_change)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    bool reloaded = true;
    save_keys("filter", 500, 500, 1);
    CHECK_OK(bg_watch_create(slot, below("filter"), NULL, &watch, NULL));
    CHECK_OK(bg_watch_poll(watch, 300, &reloaded, NULL));
    CHECK(!reloaded);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    save_keys("filter", 500, 500, 2);
    watched_end((struct watched){ slot, watch });
    files_clean();
}

/* A published filter's pointer file appears before the file that it points to. */
TEST(watch__a_pointer_that_comes_first)
{
    bg_filter *filter = make_with(500, 500);
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char digest[BG_DIGEST_TEXT_BYTES], name[64];
    how.generation = 2;
    CHECK_OK(bg_publish(filter, files_folder(), "filter", &how, digest, NULL));
    bg_filter_free(filter);
    (void)snprintf(name, sizeof name, "filter-%s.bg", digest);
    move(name, "kept");
    move("filter", "pointer");
    save_keys("filter", 0, 500, 1);
    struct watched w = watched_begin("filter", 0);
    move("pointer", "filter");
    CHECK_EQ(bg_watch_poll(w.watch, PATIENCE, NULL, NULL), BG_EIO);
    CHECK_EQ(count_keys(w.slot, 0, 500), 500);
    move("kept", name);
    watched_end(w);
    files_clean();
}

/* A file that cannot be loaded because memory runs out is loaded once memory is available again,
 * even if the file does not change again. */
TEST(watch__memory_that_is_missing_for_a_while)
{
    struct counting counting;
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    struct watched w = { NULL, NULL };
    counting_start(&counting);
    options.allocator = &counting.hooks;
    options.flags = BG_SLOT_SEALED;
    save_keys("filter", 0, 500, 1);
    CHECK_OK(bg_slot_create(NULL, &options, &w.slot, NULL));
    CHECK_OK(bg_slot_reload(w.slot, below("filter"), NULL, NULL));
    CHECK_OK(bg_watch_create(w.slot, below("filter"), NULL, &w.watch, NULL));
    CHECK_OK(bg_watch_poll(w.watch, 500, NULL, NULL)); /* the file has not changed */
    save_keys("filter", 500, 500, 2);
    counting.fail_at = counting.calls + 1;
    counting.fail_onwards = true;
    CHECK_EQ(bg_watch_poll(w.watch, PATIENCE, NULL, NULL), BG_ENOMEM);
    CHECK_EQ(stats_of(w.slot).generation, 1);
    counting.fail_at = 0;
    watched_end(w);
    CHECK_EQ(counting.live, 0);
    put_away("filter");
}

/* The watch's descriptor also becomes readable for changes that raise no inotify event. */
TEST(watch__its_descriptor_becomes_readable)
{
    make_two("r1", "r2");
    link_to("r1", "current");
    struct watched w = watched_begin("current/filter", 0);
    link_to("r2", "next");
    move("next", "current");
    for (int i = 0; i < 1000 && stats_of(w.slot).generation != 2; i++) {
        struct pollfd readable = { .fd = bg_watch_fd(w.watch), .events = POLLIN };
        CHECK_EQ(poll(&readable, 1, PATIENCE), 1);
        CHECK_OK(bg_watch_poll(w.watch, 0, NULL, NULL));
    }
    watched_end(w);
    put_away_two("r1", "r2");
    files_clean();
}
#endif

TEST(watch__arguments)
{
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    bg_watch *watch = NULL;
    CHECK_EQ(bg_watch_create(NULL, "filter", NULL, &watch, NULL), BG_EINVAL);
    CHECK_EQ(bg_watch_create(slot, "", NULL, &watch, NULL), BG_EINVAL);
    CHECK_EQ(bg_watch_poll(NULL, 0, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_watch_fd(NULL), -1);
    bg_watch_free(NULL);
    bg_slot_free(slot);
}

/*
 * Tests slots whose filters are mapped files. As soon as a write to such a file is detected, the
 * filter answers "maybe" for every key, so that it never answers "no" for a key that it contained.
 */
#define _GNU_SOURCE /* truncate */

#include "base/bits.h"
#include "base/compiler.h"
#include "support/adds.h"
#include "support/files.h"
#include "support/slots.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS = 500, ABSENT = 1000000 };

static const bg_kind kinds[] = { BG_KIND_CLASSIC, BG_KIND_PARTITIONED, BG_KIND_BLOCKED,
                                 BG_KIND_SPLIT,   BG_KIND_REGISTER,    BG_KIND_SCALABLE,
                                 BG_KIND_FUSE,    BG_KIND_RIBBON };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Creates a filter of the given kind, sharded if `shards` is not 0. */
static bg_filter *make_of(bg_kind kind, uint32_t shards, uint64_t first, uint64_t n)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = kind;
    spec.items = 2000;
    spec.rate = 1e-4;
    spec.shards = shards;
    spec.folds = bg_kind_traits(kind) & BG_TRAIT_FOLD && !shards;
    if (bg_kind_traits(kind) & BG_TRAIT_STATIC) {
        bg_builder *builder = NULL;
        CHECK_OK(bg_builder_create(&spec, &builder, NULL));
        for (uint64_t i = first; i < first + n; i++) {
            CHECK_OK(bg_builder_add(builder, &i, sizeof i));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
        return filter;
    }
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    for (uint64_t i = first; i < first + n; i++) {
        (void)added(filter, &i, sizeof i);
    }
    return filter;
}

/* Saves a filter. Sets the modification time to the past, so that any write makes the file
 * newer. */
static void save_of(const char *path, bg_kind kind, uint32_t shards, uint64_t first,
                    uint64_t generation)
{
    const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    bg_filter *filter = make_of(kind, shards, first, KEYS);
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = generation;
    CHECK_OK(bg_save(filter, path, &how, NULL));
    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
    bg_filter_free(filter);
}

/* Files are little-endian, so big-endian machines read them instead of mapping them. */
static const bool files_are_mapped = !BGI_BIG_ENDIAN;

static uint64_t count_of(const bg_slot *slot, uint64_t first)
{
    uint64_t found = 0;
    for (uint64_t i = first; i < first + KEYS; i++) {
        found += bg_slot_may_contain(slot, &i, sizeof i);
    }
    return found;
}

/* Overwrites the file `to` in place with the bytes of the file `from`, as `cat from > to` does. */
static void overwrite(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;) {
        CHECK_EQ(fwrite(bytes, 1, n, out), n);
    }
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

static uint32_t is_degraded(bg_slot *slot)
{
    bg_slot_health health = { .struct_size = sizeof health };
    CHECK_OK(bg_slot_get_health(slot, &health));
    return health.degraded;
}

/* Creates a sealed slot with a mapped filter of generation 7 that contains keys 0 .. KEYS - 1. */
static bg_slot *map_slot(const char *path, bg_kind kind, uint32_t shards)
{
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    how.flags = BG_SLOT_MAP;
    save_of(path, kind, shards, 0, 7);
    CHECK_OK(bg_slot_reload(slot, path, &how, NULL));
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK(count_of(slot, ABSENT) < KEYS / 10);
    return slot;
}

TEST(slot_mapped__a_file_that_is_overwritten)
{
    if (!files_are_mapped) {
        return;
    }
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    const char *path = files_path("filter"), *older = files_path("older");
    how.flags = BG_SLOT_MAP;
    for (size_t i = 0; i < 2 * KINDS; i++) {
        const bg_kind kind = kinds[i / 2];
        const uint32_t shards = i % 2 ? 4 : 0;
        if (shards && bg_kind_traits(kind) & BG_TRAIT_STATIC) {
            continue;
        }
        bg_slot *slot = map_slot(path, kind, shards);
        save_of(older, kind, shards, 5000, 5);
        overwrite(older, path);
        CHECK_EQ(bg_slot_reload(slot, path, &how, NULL), BG_EINCOMPAT); /* too old */
        CHECK_EQ(count_of(slot, 0), KEYS);
        CHECK_EQ(count_of(slot, ABSENT), KEYS);
        CHECK_EQ(is_degraded(slot), 1);
        /* Replacing the file with a rename ends the doubt, even if the content is the same. */
        save_of(path, kind, shards, 0, 7);
        CHECK_OK(bg_slot_reload(slot, path, &how, NULL));
        CHECK_EQ(count_of(slot, 0), KEYS);
        CHECK(count_of(slot, ABSENT) < KEYS / 10);
        CHECK_EQ(is_degraded(slot), 0);
        bg_slot_free(slot);
    }
    files_clean();
}

/* Reading beyond the end of a mapped file raises SIGBUS. Once the truncation has been detected,
 * lookups no longer read there. */
TEST(slot_mapped__a_file_that_is_cut_off)
{
    if (!files_are_mapped) {
        return;
    }
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    const char *path = files_path("filter");
    how.flags = BG_SLOT_MAP;
    for (size_t i = 0; i < KINDS; i++) {
        bg_slot *slot = map_slot(path, kinds[i], 0);
        CHECK_EQ(truncate(path, 0), 0);
        CHECK_EQ(bg_slot_reload(slot, path, &how, NULL), BG_EFORMAT);
        CHECK_EQ(count_of(slot, 0), KEYS);
        CHECK_EQ(count_of(slot, ABSENT), KEYS);
        bg_slot_free(slot);
    }
    files_clean();
}

/* Replacing, renaming, linking and removing a file do not write to it, so the filter is not in
 * doubt. */
TEST(slot_mapped__a_file_that_is_replaced)
{
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    const char *path = files_path("filter"), *other = files_path("other");
    how.flags = BG_SLOT_MAP;
    bg_slot *slot = map_slot(path, BG_KIND_BLOCKED, 0);
    CHECK_EQ(link(path, other), 0);
    save_of(path, BG_KIND_BLOCKED, 0, 5000, 5);
    CHECK_EQ(bg_slot_reload(slot, path, &how, NULL), BG_EINCOMPAT); /* too old */
    CHECK_EQ(unlink(other), 0);
    CHECK_EQ(bg_slot_reload(slot, path, &how, NULL), BG_EINCOMPAT);
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK(count_of(slot, ABSENT) < KEYS / 10);
    CHECK_EQ(is_degraded(slot), 0);
    bg_slot_free(slot);
    files_clean();
}

/* A write to the file does not affect a filter that was read into memory. */
TEST(slot_mapped__a_file_that_is_not_mapped)
{
    const char *path = files_path("filter"), *older = files_path("older");
    bg_slot *slot = make_slot(NULL, BG_SLOT_SEALED);
    save_of(path, BG_KIND_BLOCKED, 0, 0, 7);
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));
    save_of(older, BG_KIND_BLOCKED, 0, 5000, 5);
    overwrite(older, path);
    CHECK_EQ(bg_slot_reload(slot, path, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK(count_of(slot, ABSENT) < KEYS / 10);
    bg_slot_free(slot);
    files_clean();
}

/* A thread that repeatedly queries keys that are in the filter. */
#if !BGI_TSAN /* ThreadSanitizer treats mmap as a write to the entire mapping */
struct asker {
    bg_slot *slot;
    atomic_bool ends;
    atomic_uint_fast64_t denied;
};

static void *ask_on(void *argument)
{
    struct asker *asker = argument;
    while (!atomic_load(&asker->ends)) {
        atomic_fetch_add(&asker->denied, KEYS - count_of(asker->slot, 0));
    }
    return NULL;
}

/* The test writes the same bytes again, so all keys stay present. Readers get the same answers
 * while the mapped memory is being replaced. */
TEST(slot_mapped__readers_go_on)
{
    if (!files_are_mapped) {
        return;
    }
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    const char *path = files_path("filter");
    struct asker asker = { .slot = map_slot(path, BG_KIND_BLOCKED, 0) };
    pthread_t thread;
    how.flags = BG_SLOT_MAP;
    CHECK_EQ(pthread_create(&thread, NULL, ask_on, &asker), 0);
    for (uint64_t round = 0; round < 50; round++) {
        const uint64_t failures = stats_of(asker.slot).reload_failures;
        FILE *file = fopen(path, "r+b");
        CHECK(file);
        const int first = fgetc(file);
        CHECK(fseek(file, 0, SEEK_SET) == 0 && fputc(first, file) == first);
        CHECK_EQ(fclose(file), 0);
        CHECK_OK(bg_slot_reload(asker.slot, path, &how, NULL));
        CHECK_EQ(stats_of(asker.slot).reload_failures, failures + 1); /* noticed */
        save_of(path, BG_KIND_BLOCKED, 0, 0, 8 + round);
        CHECK_OK(bg_slot_reload(asker.slot, path, &how, NULL));
    }
    atomic_store(&asker.ends, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_load(&asker.denied), 0);
    bg_slot_free(asker.slot);
    files_clean();
}
#endif

/* Even before a write to the file is detected, saving, compacting, merging and folding refuse to
 * use the mapped words. */
TEST(slot_mapped__what_is_made_of_an_overwritten_file)
{
    if (!files_are_mapped) {
        return;
    }
    const char *path = files_path("filter"), *other = files_path("other");
    const char *saved = files_path("saved");
    for (size_t i = 0; i < KINDS; i++) {
        bg_slot *slot = map_slot(path, kinds[i], 0);
        save_of(other, kinds[i], 0, 5000, 8);
        overwrite(other, path);
        CHECK_EQ(bg_slot_save(slot, saved, NULL, NULL), BG_EFORMAT);
        CHECK(access(saved, F_OK) != 0);
        bg_slot_free(slot);
    }
    bg_slot *slot = map_slot(path, BG_KIND_BLOCKED, 0);
    bg_filter *target = make_of(BG_KIND_BLOCKED, 0, 0, 0);
    bg_pin pin;
    CHECK_OK(bg_slot_set_delta(slot, make_of(BG_KIND_BLOCKED, 0, 0, 0), NULL));
    save_of(other, BG_KIND_BLOCKED, 0, 5000, 8);
    overwrite(other, path);
    CHECK_EQ(bg_slot_compact(slot, make_of(BG_KIND_BLOCKED, 0, 0, 0), NULL),
             BG_EFORMAT);
    bg_slot_pin(slot, &pin);
    bg_role role = BG_ROLE_DELTA;
    const bg_filter *base = NULL;
    for (size_t i = 0; role != BG_ROLE_BASE; i++) {
        base = bg_pin_filter(&pin, i, &role);
    }
    bg_filter *folded = NULL;
    CHECK_EQ(bg_filter_merge(target, base, NULL), BG_EFORMAT);
    CHECK_EQ(bg_filter_fold(base, 1, &folded, NULL), BG_EFORMAT);
    CHECK(!folded);
    bg_slot_unpin(slot, &pin);
    bg_filter_free(target);
    /* After the write is detected, compaction is still refused until a valid file is loaded. */
    save_of(other, BG_KIND_BLOCKED, 0, 0, 6);
    CHECK_EQ(bg_slot_reload(slot, other, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK_EQ(bg_slot_compact(slot, make_of(BG_KIND_BLOCKED, 0, 0, 0), NULL),
             BG_EFORMAT);
    save_of(other, BG_KIND_BLOCKED, 0, 0, 8);
    CHECK_OK(bg_slot_reload(slot, other, NULL, NULL));
    CHECK_OK(bg_slot_compact(slot, make_of(BG_KIND_BLOCKED, 0, 0, 0), NULL));
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK_EQ(is_degraded(slot), 0);
    bg_slot_free(slot);
    files_clean();
}

#if !CHECK_EMULATED /* the emulator does not fully support inotify */
TEST(slot_mapped__a_watch_notices)
{
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    const char *path = files_path("filter"), *older = files_path("older");
    bg_watch *watch = NULL;
    how.flags = BG_SLOT_MAP;
    bg_slot *slot = map_slot(path, BG_KIND_BLOCKED, 0);
    CHECK_OK(bg_watch_create(slot, path, &how, &watch, NULL));
    save_of(older, BG_KIND_BLOCKED, 0, 5000, 5);
    overwrite(older, path);
    CHECK_EQ(bg_watch_poll(watch, 0, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK_EQ(count_of(slot, ABSENT), KEYS);
    /* A new file is mapped, and then its original name is removed, so that it exists only under a
     * different name. */
    save_of(path, BG_KIND_BLOCKED, 0, 0, 8);
    CHECK_OK(bg_watch_poll(watch, 10000, NULL, NULL));
    CHECK_EQ(is_degraded(slot), 0);
    CHECK_EQ(link(path, files_path("name")), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(truncate(files_path("name"), 10), 0);
    CHECK_OK(bg_watch_poll(watch, 0, NULL, NULL));
    CHECK_EQ(count_of(slot, 0), KEYS);
    CHECK_EQ(count_of(slot, ABSENT), KEYS);
    bg_watch_free(watch);
    bg_slot_free(slot);
    files_clean();
}
#endif

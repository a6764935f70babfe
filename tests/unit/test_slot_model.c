/*
 * test_slot_model.c - runs random sequences of all changes to a slot, including failures, and
 * compares the slot with an exact model of the acknowledged keys.
 *
 * The simulated world has a log: every written key gets the next number in the log and is then
 * added to the slot. A filter or file that is complete up to N contains every key in the log up to
 * N. The slot is advanced after every add, after some adds, or never. Failures are injected
 * occasionally: the source of a rebuild fails, the caller aborts a rebuild, files are damaged, and
 * the slot runs out of memory.
 *
 *   (M1) No lookup answers "no" for an acknowledged key, unless the key was abandoned. Keys are
 *        abandoned by BG_SLOT_DISCARD, by bg_slot_clear, and by settling a migration that started
 *        after they were acknowledged.
 *   (M2) No file with a lower generation than the last accepted file is accepted, except with
 *        BG_SLOT_ANY_GENERATION or after bg_slot_clear.
 *   (M3) Ending a migration or a rebuild needs no memory.
 *
 * A failed check prints the world's number and the changes made to its slot.
 */
#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/files.h"
#include "support/filters.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    KEYS = 48,
    FILES = 4,
    STEPS = 80,
    WORLDS = CHECK_EMULATED ? 20 : 150,
    TRACE = 4096
};

struct file {
    char path[512];
    uint64_t complete; /* contains the keys in the log up to this number */
    uint64_t generation;
    bool there;
};

struct world {
    bg_slot *slot;
    struct counting memory; /* the slot's */
    uint64_t state;         /* state of the random number generator */
    uint64_t log;           /* the last number */
    /* The log number of each key, or 0 if the key is not in the log. */
    uint64_t number[KEYS];
    bool acked[KEYS];
    bool before[KEYS]; /* acknowledged before the migration started */
    /* Number of adds, out of every 4, that are followed by an advance. */
    uint32_t advances;
    struct file files[FILES];
    /* The lowest accepted generation, and the last generation written. */
    uint64_t generation, published;
    bg_rebuild *rebuild;
    /* State of a rebuild's source. */
    uint64_t at, dies, adds, source_key[KEYS];
    char trace[TRACE];
    size_t traced;
};

static uint64_t below(struct world *world, uint64_t n)
{
    return check_random_next(&world->state) % n;
}

static bool once_in(struct world *world, uint64_t n)
{
    return below(world, n) == 0;
}

__attribute__((format(printf, 2, 3))) static void trace(struct world *world,
                                                        const char *format, ...)
{
    va_list arguments;
    if (world->traced < sizeof world->trace - 128) {
        va_start(arguments, format);
        world->traced +=
            (size_t)vsnprintf(world->trace + world->traced, 128, format, arguments);
        va_end(arguments);
    }
}

/* ---- Filters ----------------------------------------------------------------------------- */

static bg_filter *make_seeded(uint64_t seed)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 400;
    spec.rate = 1e-5;
    spec.hash.seed = seed;
    return must_create(&spec);
}

/* Creates an empty filter, sometimes with a different hash function. */
static bg_filter *make(struct world *world)
{
    return make_seeded(once_in(world, 8) ? 1 : 0);
}

/* Creates a filter that is complete up to log number `complete`. */
static bg_filter *make_complete(struct world *world, uint64_t complete)
{
    bg_filter *filter = make_seeded(0);
    for (uint64_t key = 0; key < KEYS; key++) {
        if (world->number[key] && world->number[key] <= complete) {
            (void)added_u64(filter, key);
        }
    }
    return filter;
}

static uint64_t some_number(struct world *world)
{
    return once_in(world, 2) ? world->log : below(world, world->log + 1);
}

/* ---- Keys -------------------------------------------------------------------------------- */

static void add(struct world *world)
{
    const uint64_t key = below(world, KEYS);
    if (!world->number[key]) {
        world->number[key] = ++world->log;
    }
    if (bg_slot_add_u64(world->slot, key, NULL) == BG_OK) {
        world->acked[key] = true;
        world->before[key] = false;
        trace(world, "+%d ", (int)key);
    }
    if (below(world, 4) < world->advances) {
        bg_slot_advance(world->slot, world->log);
        trace(world, "^%d ", (int)world->log);
    }
}

static void merge(struct world *world)
{
    const uint64_t key = below(world, KEYS);
    bg_filter *other = make_seeded(0);
    if (!world->number[key]) {
        world->number[key] = ++world->log;
    }
    (void)added_u64(other, key);
    if (bg_slot_merge(world->slot, other, NULL) == BG_OK) {
        world->acked[key] = true;
        world->before[key] = false;
        trace(world, "merge+%d ", (int)key);
    }
    bg_filter_free(other);
}

static bool delta_has(const struct world *world, uint64_t key)
{
    bool has = false;
    bg_pin pin;
    bg_role role = BG_ROLE_BASE;
    const bg_filter *filter = NULL;
    bg_slot_pin(world->slot, &pin);
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        has = has || (role == BG_ROLE_DELTA && bg_filter_may_contain_u64(filter, key));
    }
    bg_slot_unpin(world->slot, &pin);
    return has;
}

/* BG_SLOT_DISCARD permanently abandons keys that are in no delta: the new filter may contain them,
 * but the next filter that replaces it need not. */
static void give_up(struct world *world)
{
    for (size_t key = 0; key < KEYS; key++) {
        world->acked[key] = world->acked[key] && delta_has(world, key);
    }
}

static void check_keys(struct world *world, uint64_t which)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        if (world->acked[key] && !bg_slot_may_contain_u64(world->slot, key)) {
            check_fail(__FILE__, __LINE__,
                       "world %d: key %d is reported as absent after: %s", (int)which,
                       (int)key, world->trace);
        }
    }
}

/* ---- Changes ----------------------------------------------------------------------------- */

static void swap(struct world *world)
{
    const uint64_t complete = some_number(world);
    const uint32_t flags = once_in(world, 10) ? BG_SLOT_DISCARD : 0;
    bg_filter *filter = make_complete(world, complete);
    if (bg_slot_swap(world->slot, filter, complete, flags, NULL)) {
        bg_filter_free(filter);
        return;
    }
    trace(world, "swap%s@%d ", flags ? "!" : "", (int)complete);
    if (flags) {
        give_up(world);
    }
}

static void clear(struct world *world)
{
    if (bg_slot_clear(world->slot, NULL) == BG_OK) {
        trace(world, "clear ");
        memset(world->acked, 0, sizeof world->acked);
        world->generation = 0;
    }
}

static void layer(struct world *world)
{
    bg_filter *delta = make(world);
    if (bg_slot_set_delta(world->slot, delta, NULL)) {
        bg_filter_free(delta);
    } else {
        trace(world, "layer ");
    }
}

static void compact(struct world *world)
{
    const bg_err err = bg_slot_compact(world->slot, make(world), NULL);
    trace(world, "%s ", err ? "(compact)" : "compact");
}

static void migrate(struct world *world)
{
    bg_filter *filter = make(world);
    if (bg_slot_begin_migration(world->slot, filter, NULL)) {
        bg_filter_free(filter);
        return;
    }
    trace(world, "migrate ");
    memcpy(world->before, world->acked, sizeof world->before);
}

static bool is_migrating(const struct world *world)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_get_info(world->slot, &stats));
    return stats.migrating;
}

/* By settling a migration forward (keeping the new filter), the caller states that the new filter
 * contains the keys of the old one, or that those keys are no longer needed. The new filter
 * contains the keys that were added after the migration started. */
static void settle(struct world *world)
{
    const bool back = once_in(world, 2), migrating = is_migrating(world);
    const bg_err err = bg_slot_end_migration(world->slot, back, NULL);
    CHECK(err != BG_ENOMEM); /* (M3) */
    CHECK(migrating || err);
    CHECK(!migrating || back || world->rebuild || !err);
    if (err) {
        return;
    }
    trace(world, "%s ", back ? "back" : "settle");
    for (uint64_t key = 0; !back && key < KEYS; key++) {
        if (world->before[key] && !bg_slot_may_contain_u64(world->slot, key)) {
            world->acked[key] = false;
        }
    }
}

/* ---- Files ------------------------------------------------------------------------------- */

static void publish(struct world *world)
{
    struct file *file = &world->files[below(world, FILES)];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char metadata[64];
    file->complete = some_number(world);
    file->generation = ++world->published;
    file->there = true;
    (void)snprintf(metadata, sizeof metadata, "complete: %llu\n",
                   (unsigned long long)file->complete);
    how.metadata = metadata;
    how.generation = file->generation;
    how.flags = BG_FILE_NO_SYNC;
    bg_filter *filter = make_complete(world, file->complete);
    CHECK_OK(bg_save(filter, file->path, &how, NULL));
    bg_filter_free(filter);
    if (once_in(world, 8)) { /* and damage it */
        FILE *stream = fopen(file->path, "r+");
        CHECK(stream && fseek(stream, -100, SEEK_END) == 0 && fputc(0x55, stream) >= 0);
        CHECK(fseek(stream, -99, SEEK_END) == 0 && fputc(0xaa, stream) >= 0);
        CHECK(fclose(stream) == 0);
        file->there = false;
    }
}

static void reload(struct world *world)
{
    const struct file *file = &world->files[below(world, FILES)];
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_slot_info before = { .struct_size = sizeof before }, after = before;
    how.flags = once_in(world, 10) ? BG_SLOT_DISCARD : 0;
    how.flags |= once_in(world, 10) ? BG_SLOT_ANY_GENERATION : 0;
    how.flags |= once_in(world, 2) ? BG_SLOT_ANY_HASH : 0;
    CHECK_OK(bg_slot_get_info(world->slot, &before));
    const bg_err err = bg_slot_reload(world->slot, file->path, &how, NULL);
    CHECK_OK(bg_slot_get_info(world->slot, &after));
    if (err || after.reloads == before.reloads) {
        return; /* refused, or already loaded */
    }
    trace(world, "reload%s%s@%d#%d ", how.flags & BG_SLOT_DISCARD ? "!" : "",
          how.flags & BG_SLOT_ANY_GENERATION ? "?" : "", (int)file->complete,
          (int)file->generation);
    CHECK(file->there);
    if (!(how.flags & BG_SLOT_ANY_GENERATION)
        && file->generation < world->generation) { /* (M2) */
        check_fail(__FILE__, __LINE__, "generation %d after %d: %s",
                   (int)file->generation, (int)world->generation, world->trace);
    }
    world->generation = file->generation;
    if (how.flags & BG_SLOT_DISCARD) {
        give_up(world);
    }
}

/* ---- Rebuilding -------------------------------------------------------------------------- */

/* Returns the keys in the log, and fails when it reaches the key `dies`. Adds other keys to the
 * slot in the meantime. */
static bg_err source_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct world *world = context;
    (void)info;
    *n = 0;
    while (*n < room && *n < 8 && world->at < KEYS) {
        if (world->at == world->dies) {
            return BG_EIO;
        }
        const uint64_t key = world->at++;
        if (world->number[key]) {
            world->source_key[*n] = bgi_le64(key);
            keys[*n] = (bg_bytes){ &world->source_key[*n], sizeof key };
            ++*n;
        }
    }
    for (uint64_t i = 0; i < world->adds; i++) {
        add(world);
    }
    return BG_OK;
}

static bg_rebuild_options some_rebuild(struct world *world)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.items = 400;
    how.spec.rate = 1e-5;
    how.spec.kind = BG_KIND_BLOCKED;
    if (once_in(world, 2)) {
        how.delta = make(world);
        how.spec.kind = once_in(world, 2) ? BG_KIND_FUSE : BG_KIND_BLOCKED;
    }
    how.complete = once_in(world, 2) ? world->log : 0;
    return how;
}

static void rebuild(struct world *world)
{
    bg_rebuild_options how = some_rebuild(world);
    const bg_source source = { source_next, NULL, world, KEYS };
    world->at = 0;
    world->dies = once_in(world, 2) ? below(world, KEYS) : KEYS;
    world->adds = below(world, 3);
    trace(world, "rebuild%s( ", how.delta ? "+delta" : "");
    const bg_err err = bg_slot_rebuild(world->slot, &source, &how, NULL, NULL);
    trace(world, ")%s ", err ? " failed" : "");
}

static void rebuild_begin(struct world *world)
{
    const bg_rebuild_options how = some_rebuild(world);
    bg_rebuild *rebuild = NULL;
    if (bg_slot_begin_rebuild(world->slot, &how, &rebuild, NULL) == BG_OK) {
        trace(world, "begin%s ", how.delta ? "+delta" : "");
        CHECK(!world->rebuild);
        world->rebuild = rebuild;
    }
}

static void rebuild_end(struct world *world)
{
    if (once_in(world, 2)) {
        trace(world, "abort ");
        bg_rebuild_abort(world->rebuild);
    } else {
        for (uint64_t key = 0; key < KEYS; key++) {
            const uint64_t number = bgi_le64(key);
            const bg_bytes bytes = { &number, sizeof number };
            if (world->number[key]) {
                (void)!bg_rebuild_add_many(world->rebuild, bg_keys_bytes(&bytes, 1),
                                           NULL);
            }
        }
        const bg_err err = bg_rebuild_commit(world->rebuild, NULL, NULL);
        trace(world, "%s ", err ? "(commit)" : "commit");
    }
    world->rebuild = NULL;
    bg_slot_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_get_info(world->slot, &stats));
    CHECK(!stats.rebuilding);
    bg_pin pin;
    bg_role role = BG_ROLE_BASE;
    bg_slot_pin(world->slot, &pin);
    for (size_t i = 0; bg_pin_filter(&pin, i, &role); i++) {
        CHECK(role != BG_ROLE_NEXT); /* (M3) */
    }
    bg_slot_unpin(world->slot, &pin);
}

/* ---- Worlds ------------------------------------------------------------------------------ */

static void step(struct world *world)
{
    world->memory.fail_at =
        once_in(world, 6) ? world->memory.calls + 1 + (size_t)below(world, 3) : 0;
    world->memory.fail_onwards = true;
    switch (below(world, 24)) {
    case 0:
    case 1:
    case 2: swap(world); break;
    case 3:
    case 4: layer(world); break;
    case 5:
    case 6: compact(world); break;
    case 7:
    case 8: migrate(world); break;
    case 9:
    case 10: settle(world); break;
    case 11: publish(world); break;
    case 12:
    case 13: reload(world); break;
    case 14: rebuild(world); break;
    case 15:
    case 16: world->rebuild ? rebuild_end(world) : rebuild_begin(world); break;
    case 17: merge(world); break;
    case 18:
        if (once_in(world, 4)) {
            clear(world);
        }
        break;
    default: add(world); break;
    }
    world->memory.fail_at = 0;
}

static void create(struct world *world, uint64_t which)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    memset(world, 0, sizeof *world);
    world->state = which;
    world->advances = (uint32_t)(2 * below(world, 3));
    counting_start(&world->memory);
    options.allocator = &world->memory.hooks;
    options.flags = once_in(world, 3) ? BG_SLOT_SEALED : 0;
    bg_filter *filter = once_in(world, 6) ? NULL : make_seeded(0);
    CHECK_OK(bg_slot_create(filter, &options, &world->slot, NULL));
    for (size_t i = 0; i < FILES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "file%zu", i);
        (void)snprintf(world->files[i].path, sizeof world->files[i].path, "%s",
                       files_path(name));
    }
    for (size_t i = 0; i < FILES; i++) {
        publish(world);
    }
}

static void play(uint64_t which)
{
    static struct world world;
    create(&world, which);
    for (int i = 0; i < STEPS; i++) {
        step(&world);
        check_keys(&world, which);
    }
    bg_rebuild_abort(world.rebuild);
    check_keys(&world, which);
    bg_slot_free(world.slot);
    CHECK_EQ(world.memory.live, 0);
    CHECK_EQ(world.memory.mistakes, 0);
    files_clean();
}

TEST(slot_model__no_change_loses_an_acknowledged_key)
{
    const uint64_t first = check_random() >> 1;
    for (uint64_t i = 0; i < WORLDS * check_scale(); i++) {
        play(first + i);
    }
}

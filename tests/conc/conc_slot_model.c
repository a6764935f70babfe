/*
 * conc_slot_model.c - tests random changes to a slot, including failures, while threads add and
 * query keys.
 *
 * test_slot_model.c uses one thread; here adders and readers run during every change.
 * Allocations fail at random: for the slot, for its filters and for growth during adds. Files are
 * damaged, sources fail, and rebuilds are aborted.
 *
 * A world is one random slot and its backing store. The store is a log: key n is entry n of the
 * log. In half of the worlds, the slot tracks numbers: it stores the number of the log entry up to
 * which it is complete. Writers then take turns, and advance this number.
 *
 *   (M1) No lookup answers "no" for an acknowledged key.
 *   (M2) If the slot tracks numbers, bg_slot_may_contain_up_to with a key's own number never
 *        answers "no" for a key in the log, whether or not the key has been acknowledged.
 *   (M3) A saved file contains every key up to the number stored in the file.
 *
 * No change discards keys: the test does not use BG_SLOT_DISCARD or bg_slot_clear, and it completes
 * a migration only after all keys have been re-added.
 */
#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/files.h"
#include "support/filters.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 4000, ADDERS = 2, ASKERS = 2, CHANGES = 30, BATCH = 40 };
enum { WORLDS = CHECK_EMULATED ? 2 : CHECK_SANITIZED ? 14 : 42 };

struct world {
    bg_slot *slot;
    bg_allocator memory;
    _Atomic uint64_t refuses; /* one allocation in this many fails; if 0, none fails */
    _Atomic uint64_t allocations;
    bg_spec spec;
    bool numbered;
    pthread_mutex_t write;
    _Atomic uint64_t log; /* number of the last key */
    /* The log does not grow beyond this limit. Each change raises it, so that adds happen during
     * every change. */
    _Atomic uint64_t limit;
    atomic_bool acked[KEYS + 1];
    atomic_bool over;
    _Atomic uint64_t asked, tried, denied;
    uint64_t random; /* for the changes */
    uint64_t generation;
    /* All keys up to this number have been re-added since the migration started. */
    uint64_t added_again;
    char path[512];
    bool is_saved; /* the file exists */
};

static uint64_t below(struct world *world, uint64_t n)
{
    return check_random_next(&world->random) % n;
}

/* ---- Memory ---------------------------------------------------------------------------- */

static void *allocate(void *context, size_t bytes, size_t alignment, bool zeroed)
{
    struct world *world = context;
    const uint64_t refuses = atomic_load(&world->refuses);
    uint64_t state = atomic_fetch_add(&world->allocations, 1);
    if (refuses && check_random_next(&state) % refuses == 0) {
        return NULL;
    }
    void *memory =
        aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory && zeroed) {
        memset(memory, 0, bytes);
    }
    return memory;
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

/* ---- Filters --------------------------------------------------------------------------- */

static bg_spec some_spec(struct world *world, uint64_t which)
{
    static const bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    static const bg_kind kinds[] = { BG_KIND_BLOCKED,  BG_KIND_COUNTING, BG_KIND_CUCKOO,
                                     BG_KIND_SCALABLE, BG_KIND_QUOTIENT, BG_KIND_WINDOW,
                                     BG_KIND_SPLIT };
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kinds[which % (sizeof kinds / sizeof *kinds)];
    spec.items = spec.kind == BG_KIND_SCALABLE ? 100 : KEYS;
    spec.rate = 1e-4;
    spec.window = spec.kind == BG_KIND_WINDOW ? &window : NULL;
    spec.shards = spec.kind == BG_KIND_SPLIT ? 3 : 0;
    spec.allocator = &world->memory;
    return spec;
}

/* Creates an empty filter. Returns NULL on failure. */
static bg_filter *make(struct world *world)
{
    bg_filter *filter = NULL;
    (void)!bg_filter_create(&world->spec, &filter, NULL);
    return filter;
}

/* Creates a filter with all keys up to the given number. Returns NULL on failure. */
static bg_filter *make_complete(struct world *world, uint64_t to)
{
    bg_filter *filter = make(world);
    for (uint64_t key = 1; filter && key <= to; key++) {
        if (bg_filter_add_u64(filter, key, NULL)) {
            bg_filter_free(filter);
            return NULL;
        }
    }
    return filter;
}

/* ---- Writers --------------------------------------------------------------------------- */

static bool lock_writes(struct world *world)
{
    if (world->numbered) {
        (void)pthread_mutex_lock(&world->write);
    }
    return world->numbered;
}

static void unlock_writes(struct world *world)
{
    if (world->numbered) {
        (void)pthread_mutex_unlock(&world->write);
    }
}

/* Adds a new key. A refused key is not written to the log either, so it has no number. */
static void add_numbered(struct world *world, uint64_t random)
{
    (void)pthread_mutex_lock(&world->write);
    const uint64_t key = atomic_load(&world->log) + 1;
    if (key <= KEYS && bg_slot_add_u64(world->slot, key, NULL) == BG_OK) {
        atomic_store(&world->log, key);
        atomic_store(&world->acked[key], true);
        if (random % 4 && bg_slot_complete_to(world->slot) + BATCH > key) {
            bg_slot_advance(world->slot, key);
        }
    }
    (void)pthread_mutex_unlock(&world->write);
}

static void add_some(struct world *world, uint64_t random)
{
    uint64_t keys[BATCH], n = random % 8 ? 1 : BATCH;
    size_t done = 0;
    const uint64_t from = atomic_fetch_add(&world->log, n) + 1;
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = from + i;
    }
    if (from + n > KEYS) {
        atomic_fetch_sub(&world->log, n);
        return;
    }
    (void)!bg_slot_add_many(world->slot, bg_keys_u64(keys, n), NULL, &done, NULL);
    for (uint64_t i = 0; i < done; i++) {
        atomic_store(&world->acked[from + i], true);
    }
}

struct worker {
    struct world *world;
    uint64_t random;
    pthread_t thread;
};

static void *add_keys(void *argument)
{
    struct worker *me = argument;
    while (!atomic_load(&me->world->over)) {
        const uint64_t random = check_random_next(&me->random);
        if (atomic_load(&me->world->log) >= atomic_load(&me->world->limit)) {
            sched_yield();
        } else if (me->world->numbered) {
            add_numbered(me->world, random);
        } else {
            add_some(me->world, random);
        }
        atomic_fetch_add(&me->world->tried, 1);
        if (random >> 32 & 1) {
            sched_yield();
        }
    }
    return NULL;
}

/* ---- Readers --------------------------------------------------------------------------- */

static bool is_denied(const struct world *world, uint64_t key)
{
    const bool acked = atomic_load(&world->acked[key]);
    if (acked && !bg_slot_may_contain_u64(world->slot, key)) {
        return true; /* (M1) */
    }
    const uint64_t bytes = bgi_le64(key);
    return world->numbered && key <= atomic_load(&world->log)
           && !bg_slot_may_contain_up_to(world->slot, &bytes, sizeof bytes,
                                         key); /* (M2) */
}

static void *ask_keys(void *argument)
{
    struct worker *me = argument;
    while (!atomic_load(&me->world->over)) {
        const uint64_t log = atomic_load(&me->world->log);
        const uint64_t random = check_random_next(&me->random);
        if (log && log <= KEYS) {
            const uint64_t key = random & 1 ? log : 1 + (random >> 1) % log;
            if (is_denied(me->world, key)) {
                atomic_store(&me->world->denied, key);
            }
        }
        atomic_fetch_add(&me->world->asked, 1);
    }
    return NULL;
}

/* ---- Changes --------------------------------------------------------------------------- */

/* If the slot tracks numbers, re-adds the keys in the log that the base does not include, and
 * advances the slot. */
static void catch_up(struct world *world)
{
    const uint64_t log = atomic_load(&world->log);
    if (!world->numbered) {
        return;
    }
    for (uint64_t key = bg_slot_complete_to(world->slot) + 1; key <= log; key++) {
        if (bg_slot_add_u64(world->slot, key, NULL)) {
            return;
        }
        bg_slot_advance(world->slot, key);
    }
}

static uint64_t some_number(struct world *world)
{
    const uint64_t log = atomic_load(&world->log), to = log < KEYS ? log : KEYS;
    return below(world, 2) ? to : below(world, to + 1);
}

static void swap(struct world *world)
{
    lock_writes(world);
    const uint64_t complete = some_number(world);
    bg_filter *filter = make_complete(world, complete);
    if (filter && bg_slot_swap(world->slot, filter, complete, 0, NULL)) {
        bg_filter_free(filter);
    }
    catch_up(world);
    unlock_writes(world);
}

static void layer(struct world *world)
{
    bg_filter *delta = make(world);
    lock_writes(world);
    catch_up(world);
    const bool ready = !world->numbered
                       || bg_slot_complete_to(world->slot) == atomic_load(&world->log);
    if (!ready || !delta || bg_slot_set_delta(world->slot, delta, NULL)) {
        bg_filter_free(delta);
    }
    unlock_writes(world);
}

static void compact(struct world *world)
{
    bg_filter *delta = make(world);
    if (delta) {
        (void)!bg_slot_compact(world->slot, delta, NULL);
    }
}

static void migrate(struct world *world)
{
    bg_filter *filter = make(world);
    if (!filter || bg_slot_begin_migration(world->slot, filter, NULL)) {
        bg_filter_free(filter);
        return;
    }
    world->added_again = 0;
}

static void add_again(struct world *world)
{
    for (uint64_t key = 1; key <= KEYS; key++) {
        if (atomic_load(&world->acked[key])
            && bg_slot_add_u64(world->slot, key, NULL) != BG_OK) {
            return;
        }
    }
    world->added_again = KEYS;
}

static void settle(struct world *world)
{
    bg_slot_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_slot_get_info(world->slot, &about));
    if (!about.migrating) {
        return;
    }
    lock_writes(world);
    const bool back = below(world, 2);
    if (!back) {
        add_again(world);
    }
    if (back || world->added_again == KEYS) {
        (void)!bg_slot_end_migration(world->slot, back, NULL);
    }
    world->added_again = 0;
    unlock_writes(world);
}

/* (M3) */
static void check_file(struct world *world)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_filter *filter = NULL;
    static const char line[] = "complete: ";
    if (bg_open_with_info(world->path, NULL, &about, &filter, NULL) != BG_OK) {
        return;
    }
    const char *found = strstr(about.metadata, line);
    CHECK(found != NULL);
    const uint64_t complete = found ? strtoull(found + sizeof line - 1, NULL, 10) : 0;
    for (uint64_t key = 1; world->numbered && key <= complete; key++) {
        CHECK(bg_filter_may_contain_u64(filter, key));
    }
    bg_filter_free(filter);
}

static void save(struct world *world)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = ++world->generation;
    how.flags = BG_FILE_NO_SYNC;
    if (bg_slot_save(world->slot, world->path, &how, NULL) == BG_OK) {
        world->is_saved = true;
        check_file(world);
    }
}

static void publish(struct world *world)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char metadata[64];
    lock_writes(world);
    const uint64_t complete = some_number(world);
    bg_filter *filter = make_complete(world, complete);
    unlock_writes(world);
    (void)snprintf(metadata, sizeof metadata, "complete: %llu\n",
                   (unsigned long long)complete);
    how.metadata = metadata;
    how.generation = ++world->generation;
    how.flags = BG_FILE_NO_SYNC;
    if (filter && bg_save(filter, world->path, &how, NULL) == BG_OK) {
        world->is_saved = true;
    }
    bg_filter_free(filter);
}

static void damage(struct world *world)
{
    char bytes[1];
    FILE *stream = fopen(world->path, "rb");
    char other[600];
    (void)snprintf(other, sizeof other, "%s.damaged", world->path);
    FILE *to = fopen(other, "wb");
    CHECK(stream && to);
    for (uint64_t at = 0; fread(bytes, 1, 1, stream) == 1; at++) {
        bytes[0] = (char)(at % 777 == 776 ? bytes[0] ^ 1 : bytes[0]);
        CHECK(fwrite(bytes, 1, 1, to) == 1);
    }
    CHECK(fclose(stream) == 0 && fclose(to) == 0);
    CHECK(bg_slot_reload(world->slot, other, NULL, NULL) != BG_OK);
}

static void reload(struct world *world)
{
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    if (!world->is_saved) {
        return;
    }
    if (below(world, 8) == 0) {
        damage(world);
    }
    how.flags = below(world, 3) ? 0 : BG_SLOT_MAP;
    how.flags |= below(world, 3) ? 0 : BG_SLOT_ANY_KIND;
    lock_writes(world);
    (void)!bg_slot_reload(world->slot, world->path, &how, NULL);
    catch_up(world);
    unlock_writes(world);
}

struct source {
    struct world *world;
    uint64_t at, dies;
    uint64_t keys[BATCH];
};

static bg_err source_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct source *source = context;
    const uint64_t log = atomic_load(&source->world->log);
    (void)info;
    for (*n = 0; *n < room && *n < BATCH && source->at < log && source->at < KEYS;
         ++*n) {
        if (source->at == source->dies) {
            return BG_EIO;
        }
        source->keys[*n] = bgi_le64(++source->at);
        keys[*n] = (bg_bytes){ &source->keys[*n], sizeof *source->keys };
    }
    return BG_OK;
}

static bg_err push(struct world *world, struct source *source,
                   const bg_rebuild_options *how)
{
    bg_rebuild *rebuild = NULL;
    bg_bytes keys[BATCH];
    size_t n = 0;
    bg_err err = bg_slot_begin_rebuild(world->slot, how, &rebuild, NULL);
    while (!err) {
        err = source_next(source, keys, BATCH, &n, NULL);
        if (err || n == 0) {
            break;
        }
        (void)!bg_rebuild_add_many(rebuild, bg_keys_bytes(keys, n),
                                   NULL); /* if an add fails, the commit fails */
    }
    if (err) {
        bg_rebuild_abort(rebuild);
        return err;
    }
    return bg_rebuild_commit(rebuild, NULL, NULL);
}

static void rebuild(struct world *world)
{
    struct source source = { .world = world };
    const bg_source pulls = { source_next, NULL, &source, KEYS };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    source.dies = below(world, 3) ? KEYS + 1 : below(world, 1000);
    how.spec = world->spec;
    how.spec.items = KEYS;
    if (below(world, 2)) {
        how.delta = make(world);
        how.spec.kind = how.delta && below(world, 2) ? BG_KIND_FUSE : how.spec.kind;
        how.spec.window = how.spec.kind == BG_KIND_FUSE ? NULL : how.spec.window;
    }
    lock_writes(world);
    how.complete = below(world, 2) ? atomic_load(&world->log) : 0;
    unlock_writes(world);
    (void)!(below(world, 2) ? push(world, &source, &how)
                            : bg_slot_rebuild(world->slot, &pulls, &how, NULL, NULL));
    lock_writes(world);
    catch_up(world);
    unlock_writes(world);
}

static void merge(struct world *world)
{
    lock_writes(world);
    const uint64_t key = world->numbered ? atomic_load(&world->log) + 1
                                         : atomic_fetch_add(&world->log, 1) + 1;
    bg_filter *other = make(world);
    if (other && key <= KEYS && bg_filter_add_u64(other, key, NULL) == BG_OK
        && bg_slot_merge(world->slot, other, NULL) == BG_OK) {
        atomic_store(&world->acked[key], true);
        if (world->numbered) {
            atomic_store(&world->log, key);
        }
    }
    bg_filter_free(other);
    unlock_writes(world);
}

static void change(struct world *world)
{
    static void (*const all[])(struct world *) = { swap,   layer,   compact, migrate,
                                                   settle, publish, reload,  rebuild,
                                                   merge,  save,    layer,   compact };
    atomic_store(&world->refuses, below(world, 3) ? 0 : 2 + below(world, 12));
    all[below(world, sizeof all / sizeof *all)](world);
    atomic_store(&world->refuses, 0);
}

/* ---- Worlds ---------------------------------------------------------------------------- */

static void create(struct world *world, uint64_t which)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    memset(world, 0, sizeof *world);
    world->random = check_random();
    world->memory = (bg_allocator){ allocate, release, world };
    world->spec = some_spec(world, which / 2);
    world->numbered = which % 2;
    (void)pthread_mutex_init(&world->write, NULL);
    options.allocator = &world->memory;
    CHECK_OK(bg_slot_create(below(world, 8) ? make(world) : NULL, &options,
                            &world->slot, NULL));
    (void)snprintf(world->path, sizeof world->path, "%s", files_path("slot"));
}

static void check_denied(struct world *world, uint64_t which)
{
    uint64_t key = atomic_load(&world->denied);
    for (uint64_t i = 1; i <= KEYS; i++) {
        key = is_denied(world, i) ? i : key;
    }
    if (key) {
        check_fail(__FILE__, __LINE__, "world %d, %s: false negative for key %d",
                   (int)which, bg_kind_name((bg_kind)world->spec.kind), (int)key);
    }
}

static void play(uint64_t which)
{
    static struct world world;
    struct worker workers[ADDERS + ASKERS];
    create(&world, which);
    for (int i = 0; i < ADDERS + ASKERS; i++) {
        workers[i] = (struct worker){ .world = &world, .random = check_random() };
        CHECK(pthread_create(&workers[i].thread, NULL, i < ADDERS ? add_keys : ask_keys,
                             &workers[i])
              == 0);
    }
    for (int i = 0; i < CHANGES && !atomic_load(&world.denied); i++) {
        const uint64_t asked = atomic_load(&world.asked) + 10;
        const uint64_t tried = atomic_load(&world.tried) + 10;
        atomic_store(&world.limit, (uint64_t)(i + 1) * KEYS / CHANGES);
        change(&world);
        while (atomic_load(&world.asked) < asked || atomic_load(&world.tried) < tried) {
            sched_yield();
        }
    }
    atomic_store(&world.over, true);
    for (int i = 0; i < ADDERS + ASKERS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    check_denied(&world, which);
    bg_slot_free(world.slot);
    (void)pthread_mutex_destroy(&world.write);
    files_clean();
}

TEST(slot_model__no_key_is_lost_while_threads_add)
{
    for (uint64_t i = 0; i < WORLDS * check_scale(); i++) {
        play(i);
    }
}

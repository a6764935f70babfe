/* test_catalog.c - names that come, go, move and expire, alone and under the eyes of others. */
#define _GNU_SOURCE

#include "catalog.h"
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bg_bytes bytes(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

/* A catalogue, and what its hooks were told. */
struct world {
    struct quiet quiet;
    struct catalog *catalog;
    char told[1024];
    bg_err refuse;
};

static void world_tell(struct world *world, const char *what, const struct entry *entry,
                       const struct entry *before)
{
    const size_t n = strlen(world->told);
    (void)snprintf(world->told + n, sizeof world->told - n, "%s %.*s%s%.*s; ", what,
                   (int)catalog_name(entry).len, (const char *)catalog_name(entry).data,
                   before ? " for " : "", before ? (int)catalog_name(before).len : 0,
                   before ? (const char *)catalog_name(before).data : "");
}

static bg_err world_created(void *context, const struct entry *entry,
                            const struct entry *before, bg_errinfo *info)
{
    struct world *world = context;
    (void)info;
    world_tell(world, "create", entry, before);
    return world->refuse;
}

static bg_err world_dropped(void *context, const struct entry *entry, bg_errinfo *info)
{
    struct world *world = context;
    (void)info;
    world_tell(world, "drop", entry, NULL);
    return world->refuse;
}

static bg_err world_renamed(void *context, const struct entry *entry, bg_bytes name,
                            const struct entry *before, bg_errinfo *info)
{
    struct world *world = context;
    (void)name;
    (void)info;
    world_tell(world, "rename", entry, before);
    return world->refuse;
}

static void world_make(struct world *world)
{
    memset(world, 0, sizeof *world);
    quiet_init(&world->quiet);
    CHECK_OK(catalog_create(&world->quiet, &world->catalog, NULL));
    const struct catalog_hooks hooks = { .created = world_created,
                                         .dropped = world_dropped,
                                         .renamed = world_renamed,
                                         .context = world };
    catalog_set_hooks(world->catalog, &hooks);
}

static bg_err put(struct world *world, const char *name, uint32_t flags, uint64_t now)
{
    const struct object_shape shape = { .family = OBJECT_BF };
    struct object *object = NULL;
    CHECK_OK(object_adopt(&shape, NULL, NULL, &object, NULL));
    const bg_err err =
        catalog_put(world->catalog, bytes(name), object, NULL, flags, now, NULL);
    if (err) {
        object_free(object);
    }
    return err;
}

static bool has(const struct world *world, const char *name, uint64_t now)
{
    return catalog_find(world->catalog, bytes(name), now) != NULL;
}

TEST(catalog__names_come_and_go)
{
    struct world w;
    world_make(&w);
    CHECK(!has(&w, "a", 1));
    CHECK_OK(put(&w, "a", 0, 1));
    CHECK_EQ(put(&w, "a", 0, 1), BG_EBUSY);
    CHECK_OK(put(&w, "a", CATALOG_REPLACE, 1));
    CHECK_OK(put(&w, "", 0, 1)); /* no bytes are a name as well */
    CHECK(has(&w, "a", 1) && has(&w, "", 1) && !has(&w, "b", 1));
    CHECK_EQ(catalog_count(w.catalog), 2);
    CHECK_OK(catalog_drop(w.catalog, bytes("a"), 1, NULL));
    CHECK_EQ(catalog_drop(w.catalog, bytes("a"), 1, NULL), BG_ENOTFOUND);
    CHECK_EQ(catalog_count(w.catalog), 1);
    CHECK_STR(w.told, "create a; create a for a; create ; drop a; ");
    catalog_reap(w.catalog);
    catalog_free(w.catalog);
}

TEST(catalog__a_refused_change_did_not_happen)
{
    struct world w;
    world_make(&w);
    CHECK_OK(put(&w, "a", 0, 1));
    w.refuse = BG_EIO;
    CHECK_EQ(put(&w, "b", 0, 1), BG_EIO);
    CHECK_EQ(catalog_drop(w.catalog, bytes("a"), 1, NULL), BG_EIO);
    CHECK_EQ(catalog_rename(w.catalog, bytes("a"), bytes("c"), false, 1, NULL), BG_EIO);
    CHECK(has(&w, "a", 1) && !has(&w, "b", 1) && !has(&w, "c", 1));
    CHECK_EQ(catalog_count(w.catalog), 1);
    catalog_free(w.catalog);
}

TEST(catalog__renames)
{
    struct world w;
    world_make(&w);
    CHECK_OK(put(&w, "a", 0, 1));
    CHECK_OK(put(&w, "b", 0, 1));
    CHECK_EQ(catalog_rename(w.catalog, bytes("x"), bytes("y"), false, 1, NULL),
             BG_ENOTFOUND);
    CHECK_EQ(catalog_rename(w.catalog, bytes("a"), bytes("b"), true, 1, NULL),
             BG_EBUSY);
    CHECK_EQ(catalog_rename(w.catalog, bytes("a"), bytes("a"), true, 1, NULL),
             BG_EBUSY);
    CHECK_OK(catalog_rename(w.catalog, bytes("a"), bytes("a"), false, 1, NULL));
    CHECK_OK(catalog_rename(w.catalog, bytes("a"), bytes("b"), false, 1, NULL));
    CHECK(!has(&w, "a", 1) && has(&w, "b", 1));
    CHECK_EQ(catalog_count(w.catalog), 1);
    CHECK_OK(catalog_rename(w.catalog, bytes("b"), bytes("c"), true, 1, NULL));
    CHECK_STR(w.told, "create a; create b; rename a for b; rename b; ");
    catalog_reap(w.catalog);
    catalog_free(w.catalog);
}

TEST(catalog__expiry)
{
    struct world w;
    world_make(&w);
    CHECK_OK(put(&w, "a", 0, 1));
    CHECK_OK(put(&w, "b", 0, 1));
    CHECK_OK(catalog_expire(w.catalog, bytes("a"), 100, 1, NULL));
    CHECK_OK(catalog_expire(w.catalog, bytes("a"), 50, 1, NULL));
    CHECK_EQ(catalog_expiring(w.catalog), 1);
    CHECK(has(&w, "a", 49) && !has(&w, "a", 50));
    CHECK_EQ(catalog_expire(w.catalog, bytes("a"), 0, 50, NULL), BG_ENOTFOUND);
    CHECK_OK(catalog_expire(w.catalog, bytes("b"), 70, 1, NULL));
    CHECK_OK(catalog_expire(w.catalog, bytes("b"), 0, 1, NULL));
    CHECK_EQ(catalog_sweep(w.catalog, 49), 0);
    CHECK_EQ(catalog_sweep(w.catalog, 50), 1);
    CHECK_EQ(catalog_expiring(w.catalog), 0);
    CHECK_EQ(catalog_count(w.catalog), 1);
    catalog_free(w.catalog);
}

/* What takes the place of another inherits its expiry; the count of those that expire is right
 * whichever way they go. */
TEST(catalog__counts_what_expires)
{
    struct world w;
    world_make(&w);
    CHECK_OK(put(&w, "a", 0, 1));
    CHECK_OK(catalog_expire(w.catalog, bytes("a"), 100, 1, NULL));
    CHECK_OK(put(&w, "a", CATALOG_REPLACE, 1));
    CHECK_EQ(catalog_expiring(w.catalog), 1);
    CHECK(!has(&w, "a", 100));
    CHECK_OK(put(&w, "a", 0, 100)); /* the old one has expired, so this is new */
    CHECK_EQ(catalog_expiring(w.catalog), 0);
    CHECK_OK(catalog_expire(w.catalog, bytes("a"), 500, 100, NULL));
    CHECK_OK(put(&w, "b", 0, 100));
    CHECK_OK(catalog_rename(w.catalog, bytes("b"), bytes("a"), false, 100, NULL));
    CHECK_EQ(catalog_expiring(w.catalog), 0);
    CHECK_OK(catalog_expire(w.catalog, bytes("a"), 500, 100, NULL));
    CHECK_OK(catalog_rename(w.catalog, bytes("a"), bytes("c"), false, 100, NULL));
    CHECK_EQ(catalog_expiring(w.catalog), 1);
    w.refuse = BG_EIO;
    CHECK_EQ(put(&w, "c", CATALOG_REPLACE, 100), BG_EIO);
    CHECK_EQ(catalog_expiring(w.catalog), 1);
    w.refuse = BG_OK;
    CHECK_OK(catalog_drop(w.catalog, bytes("c"), 100, NULL));
    CHECK_EQ(catalog_expiring(w.catalog), 0);
    catalog_free(w.catalog);
}

/* A name that has expired and is still there goes when another takes it, and the journal has to
 * know: otherwise there would be two of that name after a start. */
TEST(catalog__rename_over_what_has_expired)
{
    struct world w;
    world_make(&w);
    CHECK_OK(put(&w, "old", 0, 1));
    CHECK_OK(catalog_expire(w.catalog, bytes("old"), 50, 1, NULL));
    CHECK_OK(put(&w, "new", 0, 1));
    CHECK_OK(catalog_rename(w.catalog, bytes("new"), bytes("old"), true, 60, NULL));
    CHECK_STR(w.told, "create old; create new; rename new for old; ");
    CHECK(has(&w, "old", 60) && !has(&w, "new", 60));
    CHECK_EQ(catalog_count(w.catalog), 1);
    CHECK_EQ(catalog_expiring(w.catalog), 0);
    CHECK_EQ(catalog_sweep(w.catalog, 60), 0);
    catalog_free(w.catalog);
}

TEST(catalog__scan_in_order)
{
    struct world w;
    struct entry *some[7];
    uint64_t after = 0, random = 0;
    size_t n = 0, seen = 0;
    world_make(&w);
    CHECK_EQ(catalog_before_any(w.catalog, 5), 0);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        CHECK_OK(put(&w, name, 0, 1));
        if (i % 3 == 0) {
            CHECK_OK(catalog_drop(w.catalog, bytes(name), 1, NULL));
        }
    }
    while ((n = catalog_scan(w.catalog, after, some, 7)) > 0) {
        for (size_t i = 0; i < n; i++) {
            CHECK(some[i]->number > after);
            after = some[i]->number;
            catalog_release(some[i]);
            seen++;
        }
    }
    CHECK_EQ(seen, catalog_count(w.catalog));
    CHECK_EQ(seen, 666);
    for (int i = 0; i < 100; i++) { /* there is one behind each of these */
        random = catalog_before_any(w.catalog, check_random());
        CHECK_EQ(catalog_scan(w.catalog, random, some, 1), 1);
        catalog_release(some[0]);
    }
    catalog_free(w.catalog);
}

/* ---- Others look on -------------------------------------------------------------------------- */

struct reader {
    struct world *world;
    _Atomic bool *stop;
    uint64_t wrong, looks;
    pthread_t thread;
};

/* Names that stay are found all the time, and entries do not vanish within a batch. */
static void *reader_run(void *context)
{
    struct reader *reader = context;
    struct world *w = reader->world;
    const int seat = quiet_sit(&w->quiet);
    while (!atomic_load(reader->stop)) {
        quiet_enter(&w->quiet, seat);
        for (int i = 0; i < 50; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "stay%d", i);
            const struct entry *entry = catalog_find(w->catalog, bytes(name), 1);
            reader->wrong += !entry || catalog_name(entry).len != strlen(name);
            (void)snprintf(name, sizeof name, "go%d", i);
            entry = catalog_find(w->catalog, bytes(name), 1);
            reader->wrong += entry && entry->object->shape.family != OBJECT_BF;
            reader->looks++;
        }
        quiet_leave(&w->quiet, seat);
    }
    quiet_rise(&w->quiet, seat);
    return NULL;
}

static void churn(struct world *w, size_t round)
{
    char name[16], other[16];
    (void)snprintf(name, sizeof name, "go%zu", round % 50);
    (void)snprintf(other, sizeof other, "gone%zu", round % 20);
    CHECK_OK(put(w, name, CATALOG_REPLACE, 1));
    if (round % 3 == 0) {
        CHECK_OK(catalog_rename(w->catalog, bytes(name), bytes(other), false, 1, NULL));
    } else if (round % 3 == 1) {
        CHECK_OK(catalog_drop(w->catalog, bytes(name), 1, NULL));
    }
    w->told[0] = 0;
    if (round % 64 == 0) {
        catalog_reap(w->catalog);
    }
}

TEST(catalog__readers_while_names_change)
{
    static struct world w;
    static _Atomic bool stop;
    struct reader readers[3];
    atomic_store(&stop, false);
    world_make(&w);
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "stay%d", i);
        CHECK_OK(put(&w, name, 0, 1));
    }
    for (size_t i = 0; i < 3; i++) {
        readers[i] = (struct reader){ .world = &w, .stop = &stop };
        CHECK_EQ(pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]), 0);
    }
    for (size_t i = 0; i < 4000 * check_scale(); i++) {
        churn(&w, i);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(readers[i].thread, NULL), 0);
        CHECK_EQ(readers[i].wrong, 0);
    }
    catalog_reap(w.catalog);
    catalog_free(w.catalog);
}

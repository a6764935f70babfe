/*
 * Tests the catalog of names and their entries. Random sequences of operations are compared with a
 * plain list. The journal must receive changes in the right order, and the catalog must stay
 * unchanged if the journal refuses a change. In other tests, threads concurrently find, create,
 * rename, drop and expire names.
 */
#define _GNU_SOURCE

#include "catalog/catalog.h"

#include "support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Helpers ------------------------------------------------------------------------------- */

static struct quiet quiet;
static struct catalog *catalog;
static int seat;

static void begin(void)
{
    quiet_init(&quiet);
    catalog = NULL;
    CHECK_OK(catalog_create(&quiet, &catalog, NULL));
    seat = quiet_sit(&quiet);
}

static void end(void)
{
    catalog_free(catalog);
    catalog = NULL;
}

static bg_bytes text(const char *name)
{
    return (bg_bytes){ name, strlen(name) };
}

/* Creates an object that can be identified by `mark`. */
static struct object *made(uint64_t mark)
{
    const struct object_shape shape = { .family = OBJECT_BG,
                                        .imported = 1,
                                        .items = mark };
    struct object *object = NULL;
    if (object_adopt(&shape, NULL, NULL, &object, NULL)) {
        abort();
    }
    return object;
}

static bg_err put_on(bg_bytes name, uint64_t mark, const struct catalog_terms *terms,
                     uint64_t now)
{
    struct object *object = made(mark);
    const bg_err err = catalog_put_on(catalog, name, object, NULL, terms, now, NULL);
    if (err) {
        object_free(object);
    }
    return err;
}

static bg_err put(bg_bytes name, uint64_t mark, uint32_t flags, uint64_t now)
{
    const struct catalog_terms terms = { .flags = flags };
    return put_on(name, mark, &terms, now);
}

/* Returns the mark of a name's object, or 0 if the name does not exist. */
static bg_err drop(bg_bytes name, uint64_t now)
{
    const struct catalog_terms terms = { .flags = 0 };
    return catalog_drop_on(catalog, name, &terms, now, NULL);
}

static uint64_t mark_of(bg_bytes name, uint64_t now)
{
    quiet_enter(&quiet, seat);
    const struct entry *entry = catalog_find(catalog, name, now);
    const uint64_t mark = entry ? entry->object->shape.items : 0;
    quiet_leave(&quiet, seat);
    return mark;
}

static uint64_t expiry_of(bg_bytes name)
{
    quiet_enter(&quiet, seat);
    const struct entry *entry = catalog_find(catalog, name, 0);
    const uint64_t expires = entry ? atomic_load(&entry->expires) : 0;
    quiet_leave(&quiet, seat);
    return expires;
}

/* ---- Names ----------------------------------------------------------------------------------- */

TEST(catalog__names_are_any_bytes)
{
    static char longest[65537];
    memset(longest, 'x', sizeof longest);
    const bg_bytes names[] = { { NULL, 0 },        { "a", 1 },
                               { "\0", 1 },        { "a\0", 2 },
                               { "a\0b", 3 },      { "\xff\xfe\r\n", 4 },
                               { longest, 65535 }, { longest, 65536 } };
    const size_t n = sizeof names / sizeof *names;
    begin();
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(mark_of(names[i], 1), 0);
        CHECK_OK(put(names[i], i + 1, 0, 1));
        CHECK_EQ(put(names[i], 99, 0, 1), BG_EBUSY);
    }
    CHECK_EQ(put((bg_bytes){ longest, 65537 }, 99, 0, 1), BG_EINVAL);
    CHECK_EQ(
        catalog_rename(catalog, names[0], (bg_bytes){ longest, 65537 }, false, 1, NULL),
        BG_EINVAL);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(mark_of(names[i], 1), i + 1);
    }
    CHECK_EQ(catalog_count(catalog), n);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(drop(names[i], 1));
        CHECK_EQ(drop(names[i], 1), BG_ENOTFOUND);
        CHECK_EQ(mark_of(names[i], 1), 0);
    }
    CHECK_EQ(catalog_count(catalog), 0);
    end();
}

TEST(catalog__replacing_and_when_it_expires)
{
    begin();
    CHECK_OK(put(text("a"), 1, 0, 100));
    CHECK_OK(catalog_expire(catalog, text("a"), 500, 100, NULL));
    /* removes the expiry time, as SET does in Redis */
    CHECK_OK(put(text("a"), 1, CATALOG_REPLACE, 200));
    CHECK_EQ(expiry_of(text("a")), 0);
    CHECK_EQ(catalog_expiring(catalog), 0);
    CHECK_OK(put_on(text("a"), 1,
                    &(struct catalog_terms){ .flags = CATALOG_REPLACE, .expires = 400 },
                    200));
    CHECK_EQ(expiry_of(text("a")), 400);
    CHECK_OK(catalog_expire(catalog, text("a"), 500, 100, NULL));
    CHECK_OK(put(text("a"), 2, CATALOG_REPLACE | CATALOG_KEEP_EXPIRY, 200));
    CHECK_EQ(mark_of(text("a"), 200), 2);
    CHECK_EQ(expiry_of(text("a")), 500);
    CHECK_EQ(catalog_expiring(catalog), 1);
    CHECK_EQ(mark_of(text("a"), 500), 0);
    /* An expired entry no longer exists, so its expiry time is not kept. */
    CHECK_OK(put(text("a"), 3, 0, 500));
    CHECK_EQ(mark_of(text("a"), 500), 3);
    CHECK_EQ(expiry_of(text("a")), 0);
    CHECK_EQ(catalog_expiring(catalog), 0);
    CHECK_EQ(catalog_count(catalog), 1);
    CHECK_OK(put(text("b"), 4, CATALOG_REPLACE, 500));
    CHECK_EQ(mark_of(text("b"), 500), 4);
    catalog_reap(catalog);
    end();
}

static struct entry *entry_of(bg_bytes name)
{
    quiet_enter(&quiet, seat);
    struct entry *entry = catalog_find(catalog, name, 1);
    quiet_leave(&quiet, seat);
    return entry;
}

/* Returns the terms (conditions for a change) that are met as long as the name keeps its current
 * entry and that entry is unchanged. */
static struct catalog_terms seen(bg_bytes name)
{
    const struct entry *entry = entry_of(name);
    return (struct catalog_terms){
        .flags = CATALOG_REPLACE | CATALOG_INSTEAD_OF | CATALOG_UNCHANGED,
        .instead_of = entry,
        .changes = entry ? atomic_load(&entry->changes) : 0,
    };
}

TEST(catalog__replaces_and_drops_on_terms_only)
{
    begin();
    /* The name had no entry when the terms were read, but has one now. */
    struct catalog_terms none = seen(text("a"));
    CHECK_OK(put_on(text("a"), 1, &none, 1));
    CHECK_EQ(put_on(text("a"), 2, &none, 1), BG_ECANCELED);
    CHECK_EQ(catalog_drop_on(catalog, text("a"), &none, 1, NULL), BG_ECANCELED);
    CHECK_EQ(mark_of(text("a"), 1), 1);
    /* Each change is counted, so terms that were read before the change are no longer met. */
    struct catalog_terms before = seen(text("a"));
    CHECK_OK(catalog_changing(entry_of(text("a")), NULL));
    CHECK_EQ(put_on(text("a"), 2, &before, 1), BG_ECANCELED);
    CHECK_EQ(catalog_drop_on(catalog, text("a"), &before, 1, NULL), BG_ECANCELED);
    CHECK_OK(catalog_changing(entry_of(text("a")), NULL));
    /* A replaced entry accepts no changes. */
    struct catalog_terms now = seen(text("a"));
    struct entry *old = entry_of(text("a"));
    catalog_hold(old);
    CHECK_OK(put_on(text("a"), 2, &now, 1));
    CHECK_EQ(catalog_changing(old, NULL), BG_ECANCELED);
    CHECK_EQ(put_on(text("a"), 3, &now, 1), BG_ECANCELED);
    catalog_release(old);
    /* A dropped entry accepts no changes either. An entry that was replaced without terms still
     * accepts changes. */
    now = seen(text("a"));
    old = entry_of(text("a"));
    catalog_hold(old);
    CHECK_OK(catalog_drop_on(catalog, text("a"), &now, 1, NULL));
    CHECK_EQ(catalog_changing(old, NULL), BG_ECANCELED);
    CHECK_EQ(catalog_drop_on(catalog, text("a"), &now, 1, NULL), BG_ECANCELED);
    catalog_release(old);
    CHECK_OK(put(text("a"), 4, 0, 1));
    old = entry_of(text("a"));
    catalog_hold(old);
    CHECK_OK(put(text("a"), 5, CATALOG_REPLACE, 1));
    CHECK_OK(catalog_changing(old, NULL));
    catalog_release(old);
    end();
}

TEST(catalog__expires_on_conditions)
{
    static const struct {
        uint64_t present, then;
        unsigned conditions;
        bg_err err;
    } cases[] = {
        { 0, 50, CATALOG_EXPIRE_NX, BG_OK },
        { 40, 50, CATALOG_EXPIRE_NX, BG_ECANCELED },
        { 0, 50, CATALOG_EXPIRE_XX, BG_ECANCELED },
        { 40, 50, CATALOG_EXPIRE_XX, BG_OK },
        { 0, 50, CATALOG_EXPIRE_GT, BG_ECANCELED },
        { 40, 50, CATALOG_EXPIRE_GT, BG_OK },
        { 50, 50, CATALOG_EXPIRE_GT, BG_ECANCELED },
        { 0, 50, CATALOG_EXPIRE_LT, BG_OK },
        { 60, 50, CATALOG_EXPIRE_LT, BG_OK },
        { 50, 50, CATALOG_EXPIRE_LT, BG_ECANCELED },
    };
    begin();
    CHECK_EQ(catalog_expire_if(catalog, text("a"), 50, 0, 1, NULL), BG_ENOTFOUND);
    CHECK_OK(put(text("a"), 1, 0, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(catalog_expire(catalog, text("a"), cases[i].present, 1, NULL));
        CHECK_EQ(catalog_expire_if(catalog, text("a"), cases[i].then,
                                   cases[i].conditions | CATALOG_EXPIRE_DROPS, 1, NULL),
                 cases[i].err);
        CHECK_EQ(expiry_of(text("a")), cases[i].err ? cases[i].present : 50);
    }
    CHECK_OK(catalog_expire_if(catalog, text("a"), 1, CATALOG_EXPIRE_DROPS, 1, NULL));
    CHECK_EQ(mark_of(text("a"), 1), 0);
    CHECK_EQ(catalog_count(catalog), 0);
    end();
}

TEST(catalog__renaming)
{
    begin();
    CHECK_EQ(catalog_rename(catalog, text("a"), text("b"), false, 1, NULL),
             BG_ENOTFOUND);
    CHECK_OK(put(text("a"), 1, 0, 1));
    CHECK_OK(catalog_expire(catalog, text("a"), 1000, 1, NULL));
    CHECK_OK(catalog_rename(catalog, text("a"), text("a"), false, 1, NULL));
    CHECK_EQ(catalog_rename(catalog, text("a"), text("a"), true, 1, NULL), BG_EBUSY);
    CHECK_EQ(mark_of(text("a"), 1), 1);
    CHECK_OK(catalog_rename(catalog, text("a"), text("b"), true, 1, NULL));
    CHECK_EQ(mark_of(text("a"), 1), 0);
    CHECK_EQ(mark_of(text("b"), 1), 1);
    CHECK_EQ(expiry_of(text("b")), 1000);
    CHECK_OK(put(text("a"), 2, 0, 1));
    CHECK_EQ(catalog_rename(catalog, text("a"), text("b"), true, 1, NULL), BG_EBUSY);
    CHECK_EQ(catalog_count(catalog), 2);
    CHECK_OK(catalog_rename(catalog, text("a"), text("b"), false, 1, NULL));
    CHECK_EQ(catalog_count(catalog), 1);
    /* the old entry's expiry time is also dropped */
    CHECK_EQ(catalog_expiring(catalog), 0);
    CHECK_EQ(mark_of(text("b"), 1), 2);
    /* An expired name cannot be renamed, but another entry can be renamed to the expired name. */
    CHECK_OK(put(text("c"), 3, 0, 1));
    CHECK_OK(catalog_expire(catalog, text("c"), 10, 1, NULL));
    CHECK_EQ(catalog_rename(catalog, text("c"), text("d"), false, 10, NULL),
             BG_ENOTFOUND);
    CHECK_OK(catalog_rename(catalog, text("b"), text("c"), true, 10, NULL));
    CHECK_EQ(mark_of(text("c"), 10), 2);
    CHECK_EQ(expiry_of(text("c")), 0);
    CHECK_EQ(catalog_count(catalog), 1);
    CHECK_EQ(catalog_expiring(catalog), 0);
    catalog_reap(catalog);
    end();
}

TEST(catalog__sweeping_goes_round)
{
    enum { MANY = 20000 };
    char name[16];
    size_t dropped = 0;
    begin();
    CHECK_EQ(catalog_sweep(catalog, 1000), 0);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        CHECK_OK(put(text(name), i + 1, 0, 1));
        if (i % 2) {
            CHECK_OK(catalog_expire(catalog, text(name), 100 + i, 1, NULL));
        }
    }
    CHECK_EQ(catalog_sweep(catalog, 100), 0);
    dropped += catalog_sweep(catalog, 100 + MANY);
    CHECK(dropped < MANY / 2); /* one sweep does not drop all expired names */
    for (unsigned i = 0; i < 3; i++) {
        dropped += catalog_sweep(catalog, 100 + MANY);
    }
    CHECK_EQ(dropped, MANY / 2); /* several sweeps drop all expired names */
    CHECK_EQ(catalog_count(catalog), MANY / 2);
    CHECK_EQ(catalog_expiring(catalog), 0);
    catalog_reap(catalog);
    end();
}

/* ---- Random sequences of changes, compared with a plain list --------------------------------- */

enum { POOL = 40 };

struct known {
    uint64_t mark, expires;
};

static struct known model[POOL];

static bg_bytes pool_name(unsigned i, char name[8])
{
    (void)snprintf(name, 8, "n%u", i);
    return text(name);
}

static bool known_at(unsigned i, uint64_t now)
{
    return model[i].mark && !(model[i].expires && model[i].expires <= now);
}

static void model_step(uint64_t now, uint64_t mark)
{
    char a[8], b[8];
    const unsigned i = (unsigned)check_random_below(POOL),
                   j = (unsigned)check_random_below(POOL);
    const bg_bytes name = pool_name(i, a), other = pool_name(j, b);
    const bool there = known_at(i, now), taken = known_at(j, now);
    const uint64_t then = check_random_below(3) ? now + check_random_below(50) : 0;
    switch (check_random_below(6)) {
    case 0:
        CHECK_EQ(put(name, mark, 0, now), there ? BG_EBUSY : BG_OK);
        model[i] = there ? model[i] : (struct known){ mark, 0 };
        break;
    case 1:
        CHECK_OK(put(name, mark, CATALOG_REPLACE | CATALOG_KEEP_EXPIRY, now));
        model[i] = (struct known){ mark, there ? model[i].expires : 0 };
        break;
    case 2:
        CHECK_EQ(drop(name, now), there ? BG_OK : BG_ENOTFOUND);
        model[i] = there ? (struct known){ 0, 0 } : model[i];
        break;
    case 3:
        CHECK_EQ(catalog_rename(catalog, name, other, false, now, NULL),
                 there ? BG_OK : BG_ENOTFOUND);
        if (there && i != j) {
            model[j] = model[i];
            model[i] = (struct known){ 0, 0 };
        }
        break;
    case 4:
        CHECK_EQ(catalog_rename(catalog, name, other, true, now, NULL),
                 !there  ? BG_ENOTFOUND
                 : taken ? BG_EBUSY
                         : BG_OK);
        if (there && !taken) {
            model[j] = model[i];
            model[i] = (struct known){ 0, 0 };
        }
        break;
    default:
        CHECK_EQ(catalog_expire(catalog, name, then, now, NULL),
                 there ? BG_OK : BG_ENOTFOUND);
        model[i].expires = there ? then : model[i].expires;
    }
}

/* Compares all names with the model, by lookup and by scan. */
static void model_check(uint64_t now)
{
    struct entry *some[7];
    size_t n = 0, all = 0, expiring = 0;
    uint64_t after = 0;
    char name[8];
    for (unsigned i = 0; i < POOL; i++) {
        CHECK_EQ(mark_of(pool_name(i, name), now),
                 known_at(i, now) ? model[i].mark : 0);
        if (known_at(i, now)) {
            CHECK_EQ(expiry_of(pool_name(i, name)), model[i].expires);
        }
    }
    while ((n = catalog_scan(catalog, after, some, 7)) > 0) {
        for (size_t i = 0; i < n; i++) {
            CHECK(some[i]->number > after);
            after = some[i]->number;
            const bg_bytes told = catalog_name(some[i]);
            const unsigned known =
                (unsigned)strtoul((const char *)told.data + 1, NULL, 10);
            CHECK_EQ(model[known].mark, some[i]->object->shape.items);
            expiring += atomic_load(&some[i]->expires) != 0;
            all++;
            catalog_release(some[i]);
        }
    }
    CHECK_EQ(catalog_count(catalog), all);
    CHECK_EQ(catalog_expiring(catalog), expiring);
}

static void model_sweep(uint64_t now)
{
    (void)catalog_sweep(catalog, now);
    for (unsigned i = 0; i < POOL; i++) {
        model[i] = known_at(i, now) ? model[i] : (struct known){ 0, 0 };
    }
}

TEST(catalog__any_sequence)
{
    for (size_t round = 0; round < 5 * check_scale(); round++) {
        begin();
        memset(model, 0, sizeof model);
        for (uint64_t step = 1; step < 3000; step++) {
            const uint64_t now = step / 3;
            model_step(now, step);
            if (step % 50 == 0) {
                model_sweep(now);
                model_check(now);
                catalog_reap(catalog);
            }
        }
        end();
    }
}

/* A scan returns every name that exists during the whole scan exactly once, no matter which other
 * names are created and dropped. */
TEST(catalog__scanning_while_names_come_and_go)
{
    enum { STAY = 500 };
    static unsigned seen[STAY];
    char name[24];
    begin();
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < STAY; i++) {
        (void)snprintf(name, sizeof name, "stay%u", i);
        CHECK_OK(put(text(name), i + 1, 0, 1));
        for (unsigned k = 0; k < 3; k++) {
            (void)snprintf(name, sizeof name, "go%u", 3 * i + k);
            CHECK_OK(put(text(name), 9999, 0, 1));
        }
    }
    struct entry *some[10];
    uint64_t after = 0;
    size_t n = 0;
    unsigned gone = 0;
    while ((n = catalog_scan(catalog, after, some, 10)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            const uint64_t mark = some[i]->object->shape.items;
            seen[mark <= STAY ? mark - 1 : 0] += mark <= STAY;
            catalog_release(some[i]);
        }
        for (unsigned k = 0; k < 20 && gone < 3 * STAY; k++) {
            (void)snprintf(name, sizeof name, "go%u", gone++);
            CHECK_OK(drop(text(name), 1));
        }
        catalog_reap(catalog);
    }
    for (unsigned i = 0; i < STAY; i++) {
        CHECK_EQ(seen[i], 1);
    }
    CHECK(catalog_before_any(catalog, check_random()) < 4 * STAY);
    end();
}

/* Returns the number of renames that moved a name to an older entry. */
static uint64_t reversals(void)
{
    struct entry *entry = NULL;
    uint64_t count = 0;
    if (catalog_list(catalog, 0, &entry, 1, &count)) {
        catalog_release(entry);
    }
    return count;
}

/* Only a rename moves a name that exists to an entry with a lower number. */
TEST(catalog__names_that_move_to_older_entries_are_counted)
{
    begin();
    CHECK_OK(put(text("old"), 1, 0, 1));
    CHECK_OK(put(text("live"), 2, 0, 1));
    CHECK_OK(put(text("new"), 3, 0, 1));
    CHECK_OK(put(text("live"), 4, CATALOG_REPLACE, 1));
    CHECK_OK(put(text("newer"), 5, 0, 1));
    CHECK_OK(catalog_rename(catalog, text("newer"), text("live"), false, 1, NULL));
    CHECK_OK(catalog_rename(catalog, text("old"), text("free"), true, 1, NULL));
    CHECK_OK(catalog_rename(catalog, text("new"), text("new"), false, 1, NULL));
    CHECK_EQ(reversals(), 0);
    CHECK_OK(catalog_rename(catalog, text("free"), text("live"), false, 1, NULL));
    CHECK_EQ(reversals(), 1);
    CHECK_EQ(mark_of(text("live"), 1), 1);
    end();
}

/* ---- Changes that the journal receives ------------------------------------------------------- */

static struct {
    char lines[4096];
    bool refuses;
} told;

static bg_err tell(const char *what, uint64_t number, const struct entry *before)
{
    const size_t used = strlen(told.lines);
    if (told.refuses) {
        return BG_EIO;
    }
    (void)snprintf(told.lines + used, sizeof told.lines - used,
                   before ? "%s %llu for %llu\n" : "%s %llu\n", what,
                   (unsigned long long)number,
                   (unsigned long long)(before ? before->number : 0));
    return BG_OK;
}

static bg_err tell_created(void *context, const struct entry *entry,
                           const struct entry *before, bg_errinfo *info)
{
    (void)context, (void)info;
    return tell("create", entry->number, before);
}

static bg_err tell_dropped(void *context, const struct entry *entry, bg_errinfo *info)
{
    (void)context, (void)info;
    return tell("drop", entry->number, NULL);
}

static bg_err tell_renamed(void *context, const struct entry *entry, bg_bytes name,
                           const struct entry *before, bg_errinfo *info)
{
    (void)context, (void)info, (void)name;
    return tell("rename", entry->number, before);
}

static bg_err tell_expiring(void *context, const struct entry *entry, uint64_t expires,
                            bg_errinfo *info)
{
    (void)context, (void)info, (void)expires;
    return tell("expire", entry->number, NULL);
}

static bg_err tell_based(void *context, const struct entry *entry,
                         const struct entry_base *base, bg_errinfo *info)
{
    (void)context, (void)info, (void)base;
    return tell("base", entry->number, NULL);
}

static void listen_to_all(void)
{
    const struct catalog_hooks hooks = { .created = tell_created,
                                         .dropped = tell_dropped,
                                         .renamed = tell_renamed,
                                         .expiring = tell_expiring,
                                         .based = tell_based };
    catalog_set_hooks(catalog, &hooks);
    told.lines[0] = 0;
    told.refuses = false;
}

TEST(catalog__tells_what_goes_with_what_comes)
{
    begin();
    listen_to_all();
    CHECK_OK(put(text("a"), 1, 0, 1));
    CHECK_OK(put(text("b"), 1, 0, 1));
    CHECK_OK(put(text("a"), 1, CATALOG_REPLACE, 1));
    CHECK_OK(catalog_expire(catalog, text("a"), 10, 1, NULL));
    /* replaces an entry that has expired but has not been swept */
    CHECK_OK(put(text("a"), 1, 0, 10));
    CHECK_OK(catalog_expire(catalog, text("a"), 20, 10, NULL));
    CHECK_OK(catalog_rename(catalog, text("b"), text("a"), true, 20, NULL));
    CHECK_OK(catalog_rename(catalog, text("a"), text("a"), false, 20, NULL));
    CHECK_OK(drop(text("a"), 20));
    CHECK_EQ(drop(text("a"), 20), BG_ENOTFOUND);
    CHECK_OK(put(text("c"), 1, 0, 20));
    CHECK_OK(catalog_expire(catalog, text("c"), 30, 20, NULL));
    CHECK_EQ(catalog_sweep(catalog, 30), 1);
    CHECK_STR(told.lines, "create 1\ncreate 2\ncreate 3 for 1\nexpire 3\n"
                          "create 4 for 3\nexpire 4\nrename 2 for 4\ndrop 2\n"
                          "create 5\nexpire 5\ndrop 5\n");
    end();
}

static void check_a_and_b(void)
{
    CHECK_EQ(mark_of(text("a"), 1), 1);
    CHECK_EQ(mark_of(text("b"), 1), 2);
    /* expired names are not found, whether swept or not */
    CHECK_EQ(mark_of(text("b"), 100), 0);
    CHECK_EQ(mark_of(text("c"), 1), 0);
    CHECK_EQ(expiry_of(text("a")), 0);
    CHECK_EQ(catalog_count(catalog), 2);
}

TEST(catalog__nothing_happens_if_the_journal_refuses)
{
    struct entry *entry = NULL;
    const struct entry_base base = { .file = "x", .from = 7 };
    begin();
    listen_to_all();
    CHECK_OK(put(text("a"), 1, 0, 1));
    CHECK_OK(put(text("b"), 2, 0, 1));
    CHECK_OK(catalog_expire(catalog, text("b"), 100, 1, NULL));
    CHECK_EQ(catalog_scan(catalog, 0, &entry, 1), 1);
    told.refuses = true;
    CHECK_EQ(put(text("c"), 3, 0, 1), BG_EIO);
    CHECK_EQ(put(text("a"), 3, CATALOG_REPLACE, 1), BG_EIO);
    CHECK_EQ(drop(text("a"), 1), BG_EIO);
    CHECK_EQ(catalog_rename(catalog, text("a"), text("b"), false, 1, NULL), BG_EIO);
    CHECK_EQ(catalog_rename(catalog, text("a"), text("c"), false, 1, NULL), BG_EIO);
    CHECK_EQ(catalog_expire(catalog, text("a"), 50, 1, NULL), BG_EIO);
    CHECK_EQ(catalog_set_base(catalog, entry, &base, false, NULL, NULL), BG_EIO);
    CHECK_EQ(catalog_sweep(catalog, 100), 0);
    CHECK_STR(entry->base.file, "");
    check_a_and_b();
    told.refuses = false;
    CHECK_EQ(catalog_sweep(catalog, 100) + catalog_sweep(catalog, 100), 1);
    CHECK_OK(catalog_set_base(catalog, entry, &base, false, NULL, NULL));
    CHECK_EQ(entry->base.from, 7);
    CHECK_OK(drop(text("a"), 1));
    CHECK_EQ(catalog_set_base(catalog, entry, &base, false, NULL, NULL), BG_ENOTFOUND);
    catalog_release(entry);
    end();
}

TEST(catalog__numbers_are_forced_and_skipped)
{
    struct object *object = made(1);
    struct entry *entry = NULL;
    begin();
    object->id = 41;
    CHECK_OK(
        catalog_put(catalog, text("old"), object, NULL, CATALOG_FORCE_NUMBER, 1, NULL));
    CHECK_OK(put(text("new"), 2, 0, 1));
    CHECK_EQ(catalog_scan(catalog, 41, &entry, 1), 1);
    CHECK_EQ(entry->number, 42);
    catalog_release(entry);
    catalog_skip_numbers(catalog, 100);
    catalog_skip_numbers(catalog, 50);
    CHECK_OK(put(text("newer"), 3, 0, 1));
    CHECK_EQ(catalog_scan(catalog, 42, &entry, 1), 1);
    CHECK_EQ(entry->number, 100);
    catalog_release(entry);
    end();
}

/* ---- Held entries --------------------------------------------------------------------------------- */

TEST(catalog__what_is_held_stays)
{
    struct entry *entry = NULL;
    begin();
    CHECK_OK(put(text("a"), 77, 0, 1));
    CHECK_EQ(catalog_scan(catalog, 0, &entry, 1), 1);
    CHECK_OK(drop(text("a"), 1));
    catalog_reap(catalog);
    catalog_reap(catalog);
    CHECK_EQ(entry->object->shape.items, 77);
    CHECK(atomic_load(&entry->gone));
    catalog_release(entry);
    catalog_reap(catalog);
    end();
}

/* Returns the number of read calls of this process so far, or 0 if it is unknown. */
static uint64_t reads(void)
{
    static const char name[] = "syscr: ";
    uint64_t n = 0;
    char line[80];
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            n = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return n;
}

/* All filters are measured every second, and there can be millions of them. */
TEST(catalog__measuring_reads_no_files)
{
    char name[16];
    begin();
    for (uint64_t i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "f%d", (int)i);
        CHECK_OK(put(text(name), i + 1, 0, 0));
    }
    (void)catalog_measure(catalog);
    const uint64_t before = reads();
    (void)catalog_measure(catalog);
    CHECK(reads() - before < 100);
    end();
}

TEST(catalog__bytes_are_measured)
{
    begin();
    const struct object_shape shape = { .family = OBJECT_BG,
                                        .kind = BG_KIND_BLOCKED,
                                        .items = 100000,
                                        .rate = 0.01,
                                        .hash = BG_HASH_FAST };
    const struct command_settings settings = { .max_filter_bytes = 0 };
    struct object *object = NULL;
    CHECK_OK(object_create(&shape, &settings, &object, NULL));
    const uint64_t bytes = object_bytes(object);
    CHECK(bytes > 100000);
    CHECK_OK(catalog_put(catalog, text("a"), object, NULL, 0, 1, NULL));
    CHECK_EQ(catalog_bytes(catalog), 0);
    catalog_grew(catalog, bytes);
    CHECK_EQ(catalog_bytes(catalog), bytes);
    CHECK_EQ(catalog_measure(catalog), bytes);
    CHECK_EQ(catalog_bytes(catalog), bytes);
    CHECK_OK(drop(text("a"), 1));
    CHECK_EQ(catalog_measure(catalog), 0);
    end();
}

/* ---- Concurrency ------------------------------------------------------------------------------------ */

enum { NAMES = 24, FINDERS = 2, CHANGERS = 2, STEPS = 4000 };

static _Atomic bool over;
static _Atomic uint64_t found_so_often;

/* Returns the name "p<i>" or "p<i>'". For a given i, both names refer only to objects with marks
 * from 1000 * i to 1000 * i + 999, because renames do not change i. A successful lookup must
 * therefore find one of these objects. */
static bg_bytes pair_name(unsigned i, bool second, char name[16])
{
    (void)snprintf(name, 16, "p%u%s", i, second ? "'" : "");
    return text(name);
}

static void finder_check(const struct entry *entry, unsigned i)
{
    const bg_bytes now = catalog_name(entry);
    CHECK_EQ(entry->object->shape.items / 1000, i);
    CHECK(now.len >= 2 && ((const char *)now.data)[0] == 'p');
    atomic_fetch_add(&found_so_often, 1);
}

static void *finder(void *unused)
{
    const int mine = quiet_sit(&quiet);
    uint64_t state = 1 + (uint64_t)mine;
    char name[16];
    struct entry *held = NULL;
    uint64_t held_mark = 0;
    (void)unused;
    while (!atomic_load(&over)) {
        quiet_enter(&quiet, mine);
        for (int k = 0; k < 8; k++) {
            const uint64_t random = check_random_next(&state);
            const unsigned i = (unsigned)(random % NAMES);
            struct entry *entry =
                catalog_find(catalog, pair_name(i, random >> 32 & 1, name), 5);
            if (entry) {
                finder_check(entry, i);
            }
            if (entry && !held && random >> 33 & 1) {
                catalog_hold(entry);
                held = entry;
                held_mark = entry->object->shape.items;
            }
        }
        quiet_leave(&quiet, mine);
        if (held) { /* a held entry is still valid after the batch */
            CHECK_EQ(held->object->shape.items, held_mark);
            catalog_release(held);
            held = NULL;
        }
    }
    quiet_rise(&quiet, mine);
    return NULL;
}

static void change(uint64_t random)
{
    const unsigned i = (unsigned)(random % NAMES);
    const bool second = random >> 32 & 1;
    char a[16], b[16];
    const bg_bytes name = pair_name(i, second, a), other = pair_name(i, !second, b);
    struct object *object = NULL;
    switch (random >> 33 & 7) {
    case 0:
    case 1:
    case 2:
        object = made(1000 * (uint64_t)i + random % 1000);
        if (catalog_put(catalog, name, object, NULL,
                        random >> 36 & 1 ? CATALOG_REPLACE : 0, 5, NULL)) {
            object_free(object);
        }
        break;
    case 3: (void)drop(name, 5); break;
    case 4:
        (void)catalog_expire(catalog, name, random >> 36 & 1 ? 5 : 0, 1, NULL);
        break;
    case 5: (void)catalog_sweep(catalog, 5); break;
    default:
        (void)catalog_rename(catalog, name, other, random >> 36 & 1, 5, NULL);
        break;
    }
}

static void *changer(void *argument)
{
    uint64_t state = 1000 + *(const uint64_t *)argument;
    for (size_t i = 0; i < STEPS * check_scale(); i++) {
        change(check_random_next(&state));
    }
    return NULL;
}

static void *reaper(void *unused)
{
    struct entry *some[16];
    (void)unused;
    while (!atomic_load(&over)) {
        catalog_reap(catalog);
        (void)catalog_measure(catalog);
        const size_t n = catalog_scan(catalog, 0, some, 16);
        const struct entry_base base = { .file = "f", .from = 3 };
        for (size_t i = 0; i < n; i++) {
            (void)catalog_set_base(catalog, some[i], &base, false, NULL, NULL);
            catalog_release(some[i]);
        }
    }
    return NULL;
}

TEST(catalog__all_at_once)
{
    pthread_t finders[FINDERS], changers[CHANGERS], reaping;
    uint64_t seeds[CHANGERS];
    begin();
    atomic_store(&over, false);
    atomic_store(&found_so_often, 0);
    for (int i = 0; i < FINDERS; i++) {
        CHECK_EQ(pthread_create(&finders[i], NULL, finder, NULL), 0);
    }
    CHECK_EQ(pthread_create(&reaping, NULL, reaper, NULL), 0);
    for (int i = 0; i < CHANGERS; i++) {
        seeds[i] = check_random();
        CHECK_EQ(pthread_create(&changers[i], NULL, changer, &seeds[i]), 0);
    }
    for (int i = 0; i < CHANGERS; i++) {
        CHECK_EQ(pthread_join(changers[i], NULL), 0);
    }
    while (atomic_load(&found_so_often) < 100) {
        change(check_random());
    }
    atomic_store(&over, true);
    for (int i = 0; i < FINDERS; i++) {
        CHECK_EQ(pthread_join(finders[i], NULL), 0);
    }
    CHECK_EQ(pthread_join(reaping, NULL), 0);
    catalog_reap(catalog);
    end();
}

/* ---- Comparing and replacing entries during adds ------------------------------------- */

static _Atomic uint64_t acknowledged;

/* Repeatedly increments the object's number of items, which stands for its content. */
static void *adder(void *unused)
{
    const int mine = quiet_sit(&quiet);
    (void)unused;
    while (!atomic_load(&over)) {
        quiet_enter(&quiet, mine);
        struct entry *entry = catalog_find(catalog, text("a"), 1);
        if (catalog_changing(entry, NULL) == BG_OK) {
            atomic_fetch_add(&entry->object->items, 1);
            atomic_fetch_add(&acknowledged, 1);
        }
        quiet_leave(&quiet, mine);
        /* without this pause, the replacing thread would rarely get the lock */
        (void)usleep(10);
    }
    quiet_rise(&quiet, mine);
    return NULL;
}

/* Repeatedly replaces an entry's base. Each digest repeats a single hex digit, so that a mixture of
 * two digests is detected. */
static void *rebaser(void *argument)
{
    struct entry *entry = argument;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        struct entry_base base = { .from = 1 };
        memset(base.digest, "0123456789abcdef"[i % 16], sizeof base.digest - 1);
        CHECK_OK(catalog_set_base(catalog, entry, &base, true, NULL, NULL));
    }
    return NULL;
}

TEST(catalog__digests_are_read_whole)
{
    char digest[BG_DIGEST_TEXT_BYTES];
    pthread_t thread;
    begin();
    CHECK_OK(put(text("a"), 1, 0, 0));
    quiet_enter(&quiet, seat);
    struct entry *entry = catalog_find(catalog, text("a"), 0);
    catalog_digest(catalog, entry, digest);
    CHECK_STR(digest, "");
    atomic_store(&over, false);
    CHECK_EQ(pthread_create(&thread, NULL, rebaser, entry), 0);
    for (int changes = 0; changes < 100;) {
        const char before = digest[0];
        catalog_digest(catalog, entry, digest);
        CHECK(digest[0] == 0 || strspn(digest, (char[]){ digest[0], 0 }) == 32);
        changes += digest[0] != before;
        (void)usleep(
            10); /* without this pause, the reader would almost always hold the lock */
    }
    atomic_store(&over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    quiet_leave(&quiet, seat);
    end();
}

TEST(catalog__replacing_what_was_compared_loses_no_change)
{
    enum { ADDERS = 3 };
    pthread_t threads[ADDERS];
    size_t replaced = 0, refused = 0;
    begin();
    atomic_store(&over, false);
    atomic_store(&acknowledged, 0);
    CHECK_OK(put(text("a"), 1, 0, 1));
    for (size_t i = 0; i < ADDERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, adder, NULL), 0);
    }
    while (replaced < 200 * check_scale() || refused < 200) {
        struct catalog_terms terms = seen(text("a"));
        quiet_wait(&quiet);
        struct object *next = made(1);
        atomic_store(&next->items, atomic_load(&terms.instead_of->object->items));
        if (catalog_put_on(catalog, text("a"), next, NULL, &terms, 1, NULL)) {
            object_free(next);
            refused++;
        } else {
            replaced++;
            catalog_reap(catalog);
        }
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < ADDERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(atomic_load(&entry_of(text("a"))->object->items),
             atomic_load(&acknowledged));
    end();
}

/* catalog.c - see catalog.h. */
#include "catalog/catalog.h"

#include "ledger.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    CATALOG_PLACES = 64,
    CATALOG_NAME_MAX = 65536,
    CATALOG_MAX = 1 << 24,
    CATALOG_SWEEP = 8192 /* number of names that one sweep examines */
};

struct places {
    size_t mask;
    size_t used; /* number of occupied slots, including the slots of deleted entries */
    struct places *next_garbage;
    _Atomic(struct entry *) at[];
};

/* Memory to be freed once no thread uses it. */
struct garbage {
    struct entry *entries;
    struct entry_name *names;
    struct places *places;
};

/* A dropped entry keeps its position until the list is compacted. */
struct ordered {
    uint64_t number;
    struct entry *entry; /* NULL: dropped */
};

struct catalog {
    _Atomic(struct places *) places;
    struct quiet *quiet;
    bg_hasher hasher;
    _Atomic size_t count, expiring;
    _Atomic uint64_t bytes;

    pthread_mutex_t lock; /* protects all fields below; held during every change */
    struct catalog_hooks hooks;
    struct catalog_watch watch;
    uint64_t next_number;
    struct ordered *ordered; /* sorted by number */
    size_t ordered_count, ordered_room, ordered_empty;
    uint64_t swept; /* number of the last entry that the current sweep has examined */
    uint64_t reversals; /* see catalog_list */
    struct garbage garbage;

    pthread_mutex_t base_lock; /* protects entry->base.digest; held only to copy it */
};

/* Marks a deleted slot: a search skips it and continues. */
static struct entry *const catalog_gone = (struct entry *)(uintptr_t)1;

static bg_err catalog_fail(bg_errinfo *info, bg_err code, const char *message)
{
    if (info) {
        *info = (bg_errinfo){ .code = code };
        (void)snprintf(info->message, sizeof info->message, "%s", message);
    }
    return code;
}

/* ---- Creating and freeing ---------------------------------------------------------------- */

uint64_t catalog_hash(const struct catalog *catalog, bg_bytes name)
{
    return bg_hash_bytes(&catalog->hasher, name.data, name.len);
}

static struct places *places_create(size_t n)
{
    struct places *places = calloc(1, sizeof *places + n * sizeof *places->at);
    if (places) {
        places->mask = n - 1;
    }
    return places;
}

bg_err catalog_create(struct quiet *quiet, struct catalog **catalog, bg_errinfo *info)
{
    uint8_t secret[BG_SECRET_BYTES];
    *catalog = NULL;
    struct catalog *made = calloc(1, sizeof *made);
    struct places *places = places_create(CATALOG_PLACES);
    const bg_hash_spec hash = { .profile = BG_HASH_KEYED, .secret = secret };
    const bg_err err =
        made && places && getrandom(secret, sizeof secret, 0) == sizeof secret
            ? bg_hasher_init(&made->hasher, &hash, info)
            : catalog_fail(info, BG_ENOMEM, "out of memory: cannot create the catalog");
    if (err) {
        free(made);
        free(places);
        return err;
    }
    made->quiet = quiet;
    made->next_number = 1;
    atomic_init(&made->places, places);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->base_lock, NULL);
    *catalog = made;
    return BG_OK;
}

/* The memory used by an entry, excluding its name and its filter: its object, its slots in the
 * table and in the list, its statistics, and the allocator's overhead. */
enum {
    CATALOG_ENTRY = sizeof(struct entry) + sizeof(struct object)
                    + 4 * sizeof(struct entry *) + 2 * sizeof(struct ordered)
                    + CATALOG_WATCHED + 3 * 16
};

static size_t name_cost(const struct entry_name *name)
{
    return sizeof *name + name->len + 1;
}

uint64_t catalog_cost(bg_bytes name)
{
    return CATALOG_ENTRY + sizeof(struct entry_name) + name.len + 1;
}

uint64_t catalog_usage(const struct object *object, bg_bytes name)
{
    return object_bytes(object) + object_overhead(object) + catalog_cost(name);
}

static void name_free(struct entry_name *name)
{
    if (name) {
        ledger_release(LEDGER_OBJECTS, name_cost(name));
        free(name);
    }
}

static void entry_discard(struct entry *entry) /* frees the entry, but not its object */
{
    name_free(atomic_load(&entry->name));
    ledger_release(LEDGER_OBJECTS, CATALOG_ENTRY);
    free(entry);
}

static void entry_free(struct entry *entry)
{
    object_free(entry->object);
    entry_discard(entry);
}

/* Frees garbage, except for entries that are still held. Returns a list of these entries, which are
 * freed later. */
static struct entry *garbage_free(struct garbage *garbage)
{
    struct entry *held = NULL, *next = NULL;
    for (struct entry *entry = garbage->entries; entry; entry = next) {
        next = entry->next_garbage;
        if (atomic_load(&entry->holds)) {
            entry->next_garbage = held;
            held = entry;
        } else {
            entry_free(entry);
        }
    }
    while (garbage->names) {
        struct entry_name *name = garbage->names;
        garbage->names = name->next_garbage;
        name_free(name);
    }
    while (garbage->places) {
        struct places *old = garbage->places;
        garbage->places = old->next_garbage;
        free(old);
    }
    garbage->entries = NULL;
    return held;
}

void catalog_free(struct catalog *catalog)
{
    if (!catalog) {
        return;
    }
    for (size_t i = 0; i < catalog->ordered_count; i++) {
        if (catalog->ordered[i].entry) {
            entry_free(catalog->ordered[i].entry);
        }
    }
    (void)garbage_free(&catalog->garbage);
    free(catalog->ordered);
    free(atomic_load(&catalog->places));
    bg_hasher_wipe(&catalog->hasher);
    pthread_mutex_destroy(&catalog->lock);
    pthread_mutex_destroy(&catalog->base_lock);
    free(catalog);
}

void catalog_set_hooks(struct catalog *catalog, const struct catalog_hooks *hooks)
{
    pthread_mutex_lock(&catalog->lock);
    catalog->hooks = *hooks;
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_set_watch(struct catalog *catalog, const struct catalog_watch *watch)
{
    pthread_mutex_lock(&catalog->lock);
    catalog->watch = *watch;
    pthread_mutex_unlock(&catalog->lock);
}

static void catalog_report(const struct catalog *catalog, const struct entry *entry,
                           int64_t names, int64_t bytes)
{
    if (catalog->watch.changed) {
        catalog->watch.changed(catalog->watch.context, catalog_name(entry), names,
                               bytes);
    }
}

/* ---- Lookup ------------------------------------------------------------------------------ */

static bool entry_is(const struct entry *entry, uint64_t hash, bg_bytes name)
{
    const struct entry_name *mine = atomic_load(&entry->name);
    return mine->hash == hash && mine->len == name.len
           && (name.len == 0 || memcmp(mine->bytes, name.data, name.len) == 0);
}

static bool entry_expired(const struct entry *entry, uint64_t now)
{
    const uint64_t expires =
        atomic_load_explicit(&entry->expires, memory_order_relaxed);
    return expires != 0 && expires <= now;
}

/* Returns the slot of a name, or the empty slot where the search for the name ends. All loads are
 * sequentially consistent, as quiet.h requires. */
static size_t places_find(const struct places *places, uint64_t hash, bg_bytes name,
                          struct entry **found)
{
    size_t at = hash & places->mask;
    for (;; at = (at + 1) & places->mask) {
        struct entry *entry = atomic_load(&places->at[at]);
        if (!entry || (entry != catalog_gone && entry_is(entry, hash, name))) {
            *found = entry;
            return at;
        }
    }
}

/* Returns the entry with a name, and sets *at to its slot. Returns NULL if there is none. */
static struct entry *catalog_find_at(const struct catalog *catalog, bg_bytes name,
                                     uint64_t now, size_t *at)
{
    const uint64_t hash = catalog_hash(catalog, name);
    struct entry *entry = NULL;
    *at = places_find(atomic_load(&catalog->places), hash, name, &entry);
    return entry && !entry_expired(entry, now) ? entry : NULL;
}

struct entry *catalog_find(const struct catalog *catalog, bg_bytes name, uint64_t now)
{
    size_t at;
    return catalog_find_at(catalog, name, now, &at);
}

/* ---- Changes (the caller holds the lock) ------------------------------------------------- */

/* Creates a table for twice as many entries; the old table is freed later. */
static bool catalog_grow(struct catalog *catalog)
{
    struct places *old = atomic_load(&catalog->places);
    size_t n = CATALOG_PLACES;
    while (n < 4 * (atomic_load(&catalog->count) + 1)) {
        n *= 2;
    }
    struct places *places = places_create(n);
    if (!places) {
        return false;
    }
    for (size_t i = 0; i <= old->mask; i++) {
        struct entry *entry = atomic_load(&old->at[i]), *none = NULL;
        if (entry && entry != catalog_gone) {
            const struct entry_name *name = atomic_load(&entry->name);
            const size_t at =
                places_find(places, name->hash, catalog_name(entry), &none);
            atomic_store(&places->at[at], entry);
            places->used++;
        }
    }
    atomic_store(&catalog->places, places);
    old->next_garbage = catalog->garbage.places;
    catalog->garbage.places = old;
    return true;
}

/* Reserves space for one more entry. */
static bool catalog_order_reserve(struct catalog *catalog)
{
    if (catalog->ordered_count == catalog->ordered_room) {
        const size_t room = catalog->ordered_room ? 2 * catalog->ordered_room : 64;
        struct ordered *ordered =
            realloc(catalog->ordered, room * sizeof *catalog->ordered);
        if (!ordered) {
            return false;
        }
        catalog->ordered = ordered;
        catalog->ordered_room = room;
    }
    return true;
}

/* Returns the index of the first entry whose number is above `after`. */
static size_t catalog_order_find(const struct catalog *catalog, uint64_t after)
{
    size_t low = 0, high = catalog->ordered_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (catalog->ordered[middle].number > after) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Appends an entry to the list. The list stays sorted, because numbers only increase. Recovery,
 * which assigns numbers itself, also adds entries in increasing order. */
static void catalog_order(struct catalog *catalog, struct entry *entry)
{
    catalog->ordered[catalog->ordered_count++] =
        (struct ordered){ entry->number, entry };
}

static void catalog_disorder(struct catalog *catalog, const struct entry *entry)
{
    const size_t at = catalog_order_find(catalog, entry->number - 1);
    if (at < catalog->ordered_count && catalog->ordered[at].entry == entry) {
        catalog->ordered[at].entry = NULL;
        catalog->ordered_empty++;
    }
}

/* Compacts the list if more than half of it consists of dropped entries. */
static void catalog_squeeze(struct catalog *catalog)
{
    size_t left = 0;
    if (catalog->ordered_empty < 64
        || catalog->ordered_empty < catalog->ordered_count / 2) {
        return;
    }
    for (size_t i = 0; i < catalog->ordered_count; i++) {
        if (catalog->ordered[i].entry) {
            catalog->ordered[left++] = catalog->ordered[i];
        }
    }
    catalog->ordered_count = left;
    catalog->ordered_empty = 0;
}

/* Sets the expiry of an entry, and updates the number of entries that have one. */
static void catalog_set_expiry(struct catalog *catalog, struct entry *entry,
                               uint64_t expires)
{
    const uint64_t before = atomic_exchange(&entry->expires, expires);
    if (!before && expires) {
        atomic_fetch_add(&catalog->expiring, 1);
    } else if (before && !expires) {
        atomic_fetch_sub(&catalog->expiring, 1);
    }
}

/* Removes an entry's name; `at` is the name's slot. */
static void catalog_bury(struct catalog *catalog, size_t at, struct entry *entry,
                         struct entry *instead)
{
    struct places *places = atomic_load(&catalog->places);
    atomic_store(&places->at[at], instead);
    atomic_store(&entry->gone, true);
    /* entry->expires keeps its value, because holders of the entry may still read it. */
    if (atomic_load(&entry->expires)) {
        atomic_fetch_sub(&catalog->expiring, 1);
    }
    catalog_disorder(catalog, entry);
    catalog_report(catalog, entry, -1, -(int64_t)entry->charged);
    entry->next_garbage = catalog->garbage.entries;
    catalog->garbage.entries = entry;
}

static struct entry_name *name_create(const struct catalog *catalog, bg_bytes bytes)
{
    struct entry_name *name = calloc(1, sizeof *name + bytes.len + 1);
    if (name) {
        name->hash = catalog_hash(catalog, bytes);
        name->len = bytes.len;
        if (bytes.len) {
            memcpy(name->bytes, bytes.data, bytes.len);
        }
        ledger_add(LEDGER_OBJECTS, name_cost(name));
    }
    return name;
}

static struct entry *entry_create(const struct catalog *catalog, bg_bytes bytes,
                                  struct object *object, uint64_t number, uint64_t now)
{
    struct entry *entry = calloc(1, sizeof *entry);
    struct entry_name *name = name_create(catalog, bytes);
    if (!entry || !name) {
        free(entry);
        name_free(name);
        return NULL;
    }
    ledger_add(LEDGER_OBJECTS, CATALOG_ENTRY);
    atomic_init(&entry->name, name);
    entry->number = number;
    entry->object = object;
    entry->created = now;
    return entry;
}

/* Reserves space for one more entry, so that nothing can fail after the change has been
 * recorded. */
static bg_err catalog_make_room(struct catalog *catalog, bg_errinfo *info)
{
    const struct places *places = atomic_load(&catalog->places);
    const bool crowded = 2 * (places->used + 1) > places->mask + 1;
    return (!crowded || catalog_grow(catalog)) && catalog_order_reserve(catalog)
               ? BG_OK
               : catalog_fail(info, BG_ENOMEM, "out of memory: cannot add a filter");
}

/* Stores an entry under its name: replaces the current entry, or uses the empty slot. */
static void catalog_place(struct catalog *catalog, struct entry *entry)
{
    struct places *places = atomic_load(&catalog->places);
    struct entry *before = NULL;
    const size_t at = places_find(places, atomic_load(&entry->name)->hash,
                                  catalog_name(entry), &before);
    if (before) {
        catalog_bury(catalog, at, before, entry);
    } else {
        places->used++;
        atomic_store(&places->at[at], entry);
        atomic_fetch_add(&catalog->count, 1);
    }
}

static bg_err catalog_moved(bg_errinfo *info)
{
    return catalog_fail(info, BG_ECANCELED,
                        "another client replaced, changed or dropped the filter while "
                        "the command was running; repeat the command");
}

/* Returns whether the entry that currently has the name (NULL if there is none) satisfies the
 * terms. If it does, and the terms depend on its content, changes to the entry are blocked until
 * catalog_decide is called. */
static bool catalog_agrees(struct entry *present, const struct catalog_terms *terms)
{
    if (!(terms->flags & CATALOG_INSTEAD_OF)) {
        return true;
    }
    if (present != terms->instead_of) {
        return false;
    }
    if (!present || !(terms->flags & CATALOG_UNCHANGED)) {
        return true;
    }
    atomic_store(&present->decision, ENTRY_UNDECIDED);
    if (atomic_load(&present->changes) == terms->changes) {
        return true;
    }
    atomic_store(&present->decision, ENTRY_STAYS);
    return false;
}

static void catalog_decide(struct entry *present, bool replaced)
{
    if (present && atomic_load(&present->decision) == ENTRY_UNDECIDED) {
        atomic_store(&present->decision, replaced ? ENTRY_REPLACED : ENTRY_STAYS);
    }
}

bg_err catalog_changing(struct entry *entry, bg_errinfo *info)
{
    uint32_t decision;
    atomic_fetch_add(&entry->changes, 1);
    while ((decision = atomic_load(&entry->decision)) == ENTRY_UNDECIDED) {
        /* Spins instead of locking, because the caller may hold locks. */
        (void)sched_yield();
    }
    return decision == ENTRY_STAYS ? BG_OK : catalog_moved(info);
}

/* Records a new entry in the journal and stores it under its name. */
static bg_err catalog_introduce(struct catalog *catalog, struct entry *entry,
                                const struct entry *before, bg_errinfo *info)
{
    const uint64_t number = entry->number;
    entry->object->id = number;
    entry->object->entry = entry;
    if (catalog->hooks.created) {
        const bg_err err =
            catalog->hooks.created(catalog->hooks.context, entry, before, info);
        if (err) {
            return err;
        }
    }
    if (number >= catalog->next_number) {
        catalog->next_number = number + 1;
    }
    catalog_place(catalog, entry);
    if (atomic_load(&entry->expires)) {
        atomic_fetch_add(&catalog->expiring, 1);
    }
    catalog_order(catalog, entry); /* space is reserved */
    catalog_report(catalog, entry, 1, (int64_t)entry->charged);
    return BG_OK;
}

/* Checks whether a new object of this size may replace `before`, the entry that has the name, or
 * NULL. `present` is NULL if `before` is NULL or has expired; otherwise it is equal to `before`. */
static bg_err catalog_admit(const struct catalog *catalog, struct entry *present,
                            const struct entry *before, uint64_t bytes,
                            const struct catalog_terms *terms, bg_errinfo *info)
{
    bg_err err = BG_OK;
    if (present && !(terms->flags & (CATALOG_REPLACE | CATALOG_INSTEAD_OF))) {
        return BG_EBUSY;
    }
    if (!before && terms->most && atomic_load(&catalog->count) >= terms->most) {
        return BG_EQUOTA;
    }
    if (!before && atomic_load(&catalog->count) >= CATALOG_MAX) {
        return catalog_fail(info, BG_EQUOTA, "too many filters (maximum: 16777216)");
    }
    if (terms->admit) {
        err = terms->admit(terms->context, before ? 0 : 1,
                           (int64_t)bytes - (int64_t)(before ? before->charged : 0),
                           info);
    }
    return err || catalog_agrees(present, terms) ? err : catalog_moved(info);
}

static bg_err catalog_put_locked(struct catalog *catalog, bg_bytes name,
                                 struct object *object, const struct entry_base *base,
                                 const struct catalog_terms *terms, uint64_t now,
                                 bg_errinfo *info)
{
    bg_err err = catalog_make_room(catalog, info);
    if (err) {
        return err;
    }
    const uint64_t number =
        terms->flags & CATALOG_FORCE_NUMBER ? object->id : catalog->next_number;
    struct entry *entry = entry_create(catalog, name, object, number, now),
                 *before = NULL;
    if (!entry) {
        return catalog_fail(info, BG_ENOMEM,
                            "out of memory: cannot store a filter name");
    }
    (void)places_find(atomic_load(&catalog->places), atomic_load(&entry->name)->hash,
                      name, &before);
    struct entry *present = before && !entry_expired(before, now) ? before : NULL;
    const bool keeps = present && terms->flags & CATALOG_KEEP_EXPIRY;
    atomic_store(&entry->expires,
                 keeps ? atomic_load(&present->expires) : terms->expires);
    if (base) {
        entry->base = *base;
    }
    entry->charged =
        catalog_usage(object, name); /* no other thread uses the object yet */
    err = catalog_admit(catalog, present, before, entry->charged, terms, info);
    if (!err) {
        err = catalog_introduce(catalog, entry, before, info);
        catalog_decide(present, err == BG_OK);
    }
    if (err) {
        entry_discard(entry);
    }
    return err;
}

static bg_err catalog_check_name(bg_bytes name, bg_errinfo *info)
{
    return name.len <= CATALOG_NAME_MAX
               ? BG_OK
               : catalog_fail(info, BG_EINVAL,
                              "name is too long (maximum: 65536 bytes)");
}

bg_err catalog_put_on(struct catalog *catalog, bg_bytes name, struct object *object,
                      const struct entry_base *base, const struct catalog_terms *terms,
                      uint64_t now, bg_errinfo *info)
{
    bg_err err = catalog_check_name(name, info);
    if (err) {
        return err;
    }
    pthread_mutex_lock(&catalog->lock);
    err = catalog_put_locked(catalog, name, object, base, terms, now, info);
    catalog_squeeze(catalog);
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

bg_err catalog_put(struct catalog *catalog, bg_bytes name, struct object *object,
                   const struct entry_base *base, uint32_t flags, uint64_t now,
                   bg_errinfo *info)
{
    const struct catalog_terms terms = { .flags = flags };
    return catalog_put_on(catalog, name, object, base, &terms, now, info);
}

static bg_err catalog_drop_entry(struct catalog *catalog, struct entry *entry,
                                 size_t at, bg_errinfo *info)
{
    if (catalog->hooks.dropped) {
        const bg_err err = catalog->hooks.dropped(catalog->hooks.context, entry, info);
        if (err) {
            return err;
        }
    }
    catalog_bury(catalog, at, entry, catalog_gone);
    atomic_fetch_sub(&catalog->count, 1);
    return BG_OK;
}

bg_err catalog_drop_on(struct catalog *catalog, bg_bytes name,
                       const struct catalog_terms *terms, uint64_t now,
                       bg_errinfo *info)
{
    size_t at = 0;
    bg_err err = BG_OK;
    pthread_mutex_lock(&catalog->lock);
    struct entry *entry = catalog_find_at(catalog, name, now, &at);
    if (!catalog_agrees(entry, terms)) {
        err = catalog_moved(info);
    } else if (!entry) {
        err = BG_ENOTFOUND;
    } else {
        err = catalog_drop_entry(catalog, entry, at, info);
        catalog_decide(entry, err == BG_OK);
    }
    catalog_squeeze(catalog);
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

static bg_err catalog_rename_entry(struct catalog *catalog, struct entry *entry,
                                   bg_bytes to, struct entry *other, bg_errinfo *info)
{
    struct entry_name *name = name_create(catalog, to), *before = NULL;
    bg_err err = name ? catalog_make_room(catalog, info)
                      : catalog_fail(info, BG_ENOMEM,
                                     "out of memory: cannot store a filter name");
    if (!err && catalog->hooks.renamed) {
        err = catalog->hooks.renamed(catalog->hooks.context, entry, to, other, info);
    }
    if (err) {
        name_free(name);
        return err;
    }
    catalog->reversals += other && other->number > entry->number;
    size_t at = 0; /* search again: growing the table may have moved the entry */
    (void)catalog_find_at(catalog, catalog_name(entry), 0, &at);
    atomic_store(&atomic_load(&catalog->places)->at[at], catalog_gone);
    atomic_fetch_sub(&catalog->count, 1);
    catalog_report(catalog, entry, -1, -(int64_t)entry->charged);
    entry->charged += catalog_cost(to);
    entry->charged -= catalog_cost(catalog_name(entry));
    before = atomic_exchange(&entry->name, name);
    before->next_garbage = catalog->garbage.names;
    catalog->garbage.names = before;
    catalog_place(catalog, entry);
    catalog_report(catalog, entry, 1, (int64_t)entry->charged);
    return BG_OK;
}

bg_err catalog_rename(struct catalog *catalog, bg_bytes from, bg_bytes to,
                      bool only_new, uint64_t now, bg_errinfo *info)
{
    size_t at = 0;
    bg_err err = catalog_check_name(to, info);
    if (err) {
        return err;
    }
    pthread_mutex_lock(&catalog->lock);
    struct entry *entry = catalog_find_at(catalog, from, now, &at);
    /* An entry that has expired but has not been swept yet is dropped as well, and the drop is
     * recorded. */
    struct entry *other = catalog_find_at(catalog, to, 0, &at);
    if (!entry) {
        err = BG_ENOTFOUND;
    } else if (other && only_new && !entry_expired(other, now)) {
        err = BG_EBUSY;
    } else if (entry != other) {
        err = catalog_rename_entry(catalog, entry, to, other, info);
    }
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

/* Returns whether the conditions allow changing an expiry from `present` (0 means never) to
 * `then`. */
static bool catalog_expiry_agrees(unsigned conditions, uint64_t present, uint64_t then)
{
    return !(conditions & CATALOG_EXPIRE_NX && present)
           && !(conditions & CATALOG_EXPIRE_XX && !present)
           && !(conditions & CATALOG_EXPIRE_GT && (!present || then <= present))
           && !(conditions & CATALOG_EXPIRE_LT && present && then >= present);
}

bg_err catalog_expire_if(struct catalog *catalog, bg_bytes name, uint64_t expires,
                         unsigned conditions, uint64_t now, bg_errinfo *info)
{
    size_t at = 0;
    bg_err err = BG_OK;
    pthread_mutex_lock(&catalog->lock);
    struct entry *entry = catalog_find_at(catalog, name, now, &at);
    if (!entry) {
        err = BG_ENOTFOUND;
    } else if (!catalog_expiry_agrees(conditions, atomic_load(&entry->expires),
                                      expires)) {
        err = BG_ECANCELED;
    } else if (conditions & CATALOG_EXPIRE_DROPS && expires <= now) {
        err = catalog_drop_entry(catalog, entry, at, info);
        catalog_squeeze(catalog);
    } else {
        err = catalog->hooks.expiring ? catalog->hooks.expiring(catalog->hooks.context,
                                                                entry, expires, info)
                                      : BG_OK;
        if (!err) {
            catalog_set_expiry(catalog, entry, expires);
        }
    }
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

bg_err catalog_expire(struct catalog *catalog, bg_bytes name, uint64_t expires,
                      uint64_t now, bg_errinfo *info)
{
    return catalog_expire_if(catalog, name, expires, 0, now, info);
}

/* ---- Periodic work ----------------------------------------------------------------------- */

bg_err catalog_set_base(struct catalog *catalog, struct entry *entry,
                        const struct entry_base *base, bool silent,
                        struct entry_base *before, bg_errinfo *info)
{
    bg_err err = BG_OK;
    pthread_mutex_lock(&catalog->lock);
    if (atomic_load(&entry->gone)) {
        err = BG_ENOTFOUND;
    } else if (catalog->hooks.based && !silent) {
        err = catalog->hooks.based(catalog->hooks.context, entry, base, info);
    }
    if (!err) {
        if (before) {
            *before = entry->base;
        }
        pthread_mutex_lock(&catalog->base_lock);
        entry->base = *base;
        pthread_mutex_unlock(&catalog->base_lock);
    }
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

void catalog_digest(struct catalog *catalog, const struct entry *entry,
                    char digest[BG_DIGEST_TEXT_BYTES])
{
    pthread_mutex_lock(&catalog->base_lock);
    memcpy(digest, entry->base.digest, BG_DIGEST_TEXT_BYTES);
    pthread_mutex_unlock(&catalog->base_lock);
}

size_t catalog_sweep(struct catalog *catalog, uint64_t now)
{
    size_t dropped = 0, looked = 0;
    if (atomic_load(&catalog->expiring) == 0) {
        return 0;
    }
    pthread_mutex_lock(&catalog->lock);
    size_t i = catalog_order_find(catalog, catalog->swept);
    bg_err err = BG_OK;
    for (; !err && i < catalog->ordered_count && looked < CATALOG_SWEEP; i++) {
        struct entry *entry = catalog->ordered[i].entry;
        looked++;
        if (entry && entry_expired(entry, now)) {
            size_t at = 0;
            (void)catalog_find_at(catalog, catalog_name(entry), 0, &at);
            err = catalog_drop_entry(catalog, entry, at, NULL); /* retried later */
            dropped += !err;
        }
        catalog->swept = catalog->ordered[i].number;
    }
    if (i == catalog->ordered_count) {
        catalog->swept = 0; /* start over */
    }
    catalog_squeeze(catalog);
    pthread_mutex_unlock(&catalog->lock);
    return dropped;
}

void catalog_reap(struct catalog *catalog)
{
    pthread_mutex_lock(&catalog->lock);
    struct garbage garbage = catalog->garbage;
    catalog->garbage = (struct garbage){ NULL, NULL, NULL };
    pthread_mutex_unlock(&catalog->lock);
    if (!garbage.entries && !garbage.names && !garbage.places) {
        return;
    }
    quiet_wait(catalog->quiet);
    struct entry *held = garbage_free(&garbage);
    pthread_mutex_lock(&catalog->lock);
    while (held) {
        struct entry *entry = held;
        held = entry->next_garbage;
        entry->next_garbage = catalog->garbage.entries;
        catalog->garbage.entries = entry;
    }
    pthread_mutex_unlock(&catalog->lock);
}

/* ---- All entries ------------------------------------------------------------------------- */

size_t catalog_count(const struct catalog *catalog)
{
    return atomic_load(&catalog->count);
}

size_t catalog_expiring(const struct catalog *catalog)
{
    return atomic_load(&catalog->expiring);
}

uint64_t catalog_before_any(struct catalog *catalog, uint64_t random)
{
    uint64_t number = 0;
    pthread_mutex_lock(&catalog->lock);
    const size_t n = catalog->ordered_count;
    for (size_t i = n ? random % n : 0; i < n && !number; i++) {
        number = catalog->ordered[i].entry ? catalog->ordered[i].number - 1 : 0;
    }
    pthread_mutex_unlock(&catalog->lock);
    return number;
}

size_t catalog_list(struct catalog *catalog, uint64_t after, struct entry **entries,
                    size_t room, uint64_t *reversals)
{
    size_t n = 0;
    pthread_mutex_lock(&catalog->lock);
    *reversals = catalog->reversals;
    for (size_t i = catalog_order_find(catalog, after);
         i < catalog->ordered_count && n < room; i++) {
        if (catalog->ordered[i].entry) {
            catalog_hold(catalog->ordered[i].entry);
            entries[n++] = catalog->ordered[i].entry;
        }
    }
    pthread_mutex_unlock(&catalog->lock);
    return n;
}

size_t catalog_scan(struct catalog *catalog, uint64_t after, struct entry **entries,
                    size_t room)
{
    uint64_t reversals = 0;
    return catalog_list(catalog, after, entries, room, &reversals);
}

bg_err catalog_each(struct catalog *catalog,
                    bg_err (*visit)(void *context, struct entry *entry,
                                    bg_errinfo *info),
                    void *context, bg_errinfo *info)
{
    bg_err err = BG_OK;
    pthread_mutex_lock(&catalog->lock);
    for (size_t i = 0; !err && i < catalog->ordered_count; i++) {
        if (catalog->ordered[i].entry) {
            err = visit(context, catalog->ordered[i].entry, info);
        }
    }
    err = err ? err : visit(context, NULL, info);
    pthread_mutex_unlock(&catalog->lock);
    return err;
}

void catalog_skip_numbers(struct catalog *catalog, uint64_t next)
{
    pthread_mutex_lock(&catalog->lock);
    if (next > catalog->next_number) {
        catalog->next_number = next;
    }
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_hold(struct entry *entry)
{
    atomic_fetch_add(&entry->holds, 1);
}

void catalog_release(struct entry *entry)
{
    atomic_fetch_sub(&entry->holds, 1);
}

uint64_t catalog_bytes(const struct catalog *catalog)
{
    return atomic_load_explicit(&catalog->bytes, memory_order_relaxed);
}

/* Records the memory of an object, whose size is `bytes`. The caller computes the size before this
 * function takes the lock, because computing it may block on the object's own lock. */
static void catalog_charge(struct catalog *catalog, struct entry *entry, uint64_t bytes)
{
    bytes += object_overhead(entry->object);
    pthread_mutex_lock(&catalog->lock);
    bytes += catalog_cost(catalog_name(entry)); /* another thread may have renamed it */
    if (!atomic_load(&entry->gone) && bytes != entry->charged) {
        catalog_report(catalog, entry, 0, (int64_t)(bytes - entry->charged));
        entry->charged = bytes;
    }
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_measure_entry(struct catalog *catalog, struct entry *entry)
{
    catalog_charge(catalog, entry, object_bytes(entry->object));
}

uint64_t catalog_measure(struct catalog *catalog)
{
    struct entry *some[64];
    uint64_t sum = 0, after = 0;
    size_t n = 0;
    while ((n = catalog_scan(catalog, after, some, 64)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            const uint64_t bytes = object_bytes(some[i]->object);
            catalog_charge(catalog, some[i], bytes);
            sum += bytes;
            catalog_release(some[i]);
        }
    }
    atomic_store(&catalog->bytes, sum);
    return sum;
}

void catalog_grew(struct catalog *catalog, uint64_t bytes)
{
    atomic_fetch_add_explicit(&catalog->bytes, bytes, memory_order_relaxed);
}

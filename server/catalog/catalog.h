/*
 * catalog.h - the names of objects, and the objects they refer to.
 *
 * Worker threads look up names without locks, many millions of times per second. Names are added
 * and removed rarely, one change at a time.
 *
 *     table  -> [ e1 | - | e7 | gone | e3 | - | ... ]     open addressing, a power of two of places
 *                 |        |           |
 *               entry    entry       entry -> object (command/object.h)
 *
 * A lookup loads the table and examines slots until it finds the name or an empty slot. A renamed
 * entry gets a new name object and a new slot. A lookup of the old name sees at least one of these
 * two changes, so it does not find the entry. A change is made under the lock: it is recorded in
 * the journal, and then one pointer is stored. Removed memory (an entry, an outgrown table) is put
 * on a list, and catalog_reap frees it once no thread uses it (quiet.h). Only catalog_reap waits,
 * so the thread that runs DEL does not have to free gigabytes of memory.
 *
 * Names are hashed with a secret generated at startup, because clients choose the names and could
 * otherwise force collisions.
 *
 * Entries are numbered in increasing order. An object that replaces another gets a new number, so
 * the old object's records never apply to the new object. The list of all entries is ordered by
 * number. SCAN continues after the last number that it returned, so an entry that exists throughout
 * the scan is returned exactly once. The same holds for names, except that a rename can move a name
 * to an entry with a lower number, which the scan may have passed already. Such a rename is counted
 * (catalog_list).
 *
 * Threads. Only threads inside a batch (quiet_enter) may look up names and use the entries they
 * find. To use an entry for longer, hold it.
 */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "object.h"
#include "util/quiet.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file that contains an object's content up to a certain journal frame. */
struct entry_base {
    /* file name in the directory `filters`; "" if there is no file yet */
    char file[96];
    char digest[BG_DIGEST_TEXT_BYTES];
    uint64_t
        from; /* changes recorded in this frame or later may be missing from the file */
    uint64_t items, deleted, expansions; /* the object's counters as of that frame */
};

/* A name. Renaming an entry replaces the whole struct. */
struct entry_name {
    uint64_t hash;
    struct entry_name *next_garbage;
    size_t len;
    char bytes[]; /* any bytes, followed by a NUL */
};

/* The state of a conditional replacement, which replaces an entry only if the content of its object
 * has not changed. */
enum entry_decision {
    ENTRY_STAYS,
    ENTRY_UNDECIDED, /* the replacement is in progress */
    ENTRY_REPLACED
};

/* Memory for the statistics of a filter (observe/observer.h), which is counted with its entry. */
enum { CATALOG_WATCHED = 576 };

struct entry {
    uint64_t number;
    _Atomic(struct entry_name *) name; /* valid only during a batch */
    struct object *object;
    uint64_t created; /* milliseconds since 1970 */
    /* catalog_usage at the last measurement, protected by the catalog's lock. */
    uint64_t charged;
    _Atomic uint64_t expires; /* milliseconds since 1970; 0 means never */
    /* Number of the last frame that changed the object, or 0 if there is none since its base. */
    _Atomic uint64_t recorded;
    /* Number of changes to the object's content; see catalog_changing. */
    _Atomic uint64_t changes;
    _Atomic uint32_t decision; /* enum entry_decision */
    /* Number of callers that keep using the entry after their batch ends. */
    _Atomic uint32_t holds;
    _Atomic bool gone; /* no name refers to the entry */
    /* `from` is protected by the snapshot lock, and only snapshots access it. Writing any other
     * field of `base` requires both the snapshot lock and the catalog's lock. */
    struct entry_base base;
    struct entry *next_garbage;
};

struct catalog;

/* Hooks that record a change in the journal before it becomes visible. All hooks are called under
 * one lock. If a hook returns an error, the change is not made. Any hook may be NULL. */
struct catalog_hooks {
    /* `before`, which may be NULL, is the entry that had the name until now; it is dropped in the
     * same step. */
    bg_err (*created)(void *context, const struct entry *entry,
                      const struct entry *before, bg_errinfo *info);
    bg_err (*dropped)(void *context, const struct entry *entry, bg_errinfo *info);
    bg_err (*renamed)(void *context, const struct entry *entry, bg_bytes name,
                      const struct entry *before, bg_errinfo *info);
    bg_err (*expiring)(void *context, const struct entry *entry, uint64_t expires,
                       bg_errinfo *info);
    bg_err (*based)(void *context, const struct entry *entry,
                    const struct entry_base *base, bg_errinfo *info);
    void *context;
};

bg_err catalog_create(struct quiet *quiet, struct catalog **catalog, bg_errinfo *info);
void catalog_free(struct catalog *catalog);
void catalog_set_hooks(struct catalog *catalog, const struct catalog_hooks *hooks);

/* A callback that receives every change of the number or the memory (catalog_usage) of filters,
 * with the name of the changed filter. Called under the catalog's lock. */
struct catalog_watch {
    void (*changed)(void *context, bg_bytes name, int64_t names, int64_t bytes);
    void *context;
};

/* Sets the watch. Call it before the first name is added. */
void catalog_set_watch(struct catalog *catalog, const struct catalog_watch *watch);

/* Returns the entry with a name, or NULL if there is none or it has expired by `now`. */
struct entry *catalog_find(const struct catalog *catalog, bg_bytes name, uint64_t now);

/* Returns the hash of a name. The hash is keyed with a per-process secret, so that clients cannot
 * choose colliding names. */
uint64_t catalog_hash(const struct catalog *catalog, bg_bytes name);

enum {
    CATALOG_REPLACE = 1u << 0, /* replaces the entry that has the name, if any */
    /* Used by recovery: the entry gets the number already in object->id. */
    CATALOG_FORCE_NUMBER = 1u << 1,
    CATALOG_KEEP_EXPIRY = 1u << 2, /* keeps the expiry of the replaced entry */
    /* Succeeds only if terms->instead_of currently has the name. */
    CATALOG_INSTEAD_OF = 1u << 3,
    /* Succeeds only if that entry's change count also equals terms->changes. */
    CATALOG_UNCHANGED = 1u << 4
};

/* The terms of a change to the catalog. They are checked under the same lock as the change itself,
 * so no other change happens in between. */
struct catalog_terms {
    uint32_t flags;
    /* the entry to replace; NULL if the name must not be in use */
    const struct entry *instead_of;
    uint64_t changes;
    uint64_t expires; /* milliseconds since 1970; 0: never */
    uint64_t most;    /* maximum number of names after the change; 0 means no limit */
    /* Called before the change with the numbers of added names and bytes, unless NULL. The change
     * is made only if this function returns BG_OK. */
    bg_err (*admit)(void *context, int64_t names, int64_t bytes, bg_errinfo *info);
    void *context;
};

/* Adds an object under a name. The catalog then owns the object and sets object->id to its number
 * and object->entry to its entry. `base`, unless NULL, describes a file with the object's content.
 * Errors: BG_EBUSY if the name is taken; BG_ECANCELED if the terms are not met; BG_EQUOTA if there
 * are too many names; BG_EINVAL if the name is longer than 64 KiB. */
bg_err catalog_put_on(struct catalog *catalog, bg_bytes name, struct object *object,
                      const struct entry_base *base, const struct catalog_terms *terms,
                      uint64_t now, bg_errinfo *info);

/* Like catalog_put_on, but the terms consist only of flags. */
bg_err catalog_put(struct catalog *catalog, bg_bytes name, struct object *object,
                   const struct entry_base *base, uint32_t flags, uint64_t now,
                   bg_errinfo *info);

/*
 * Counts a change to an entry's content. There are two ways to call it: before the change, in a
 * batch that does not end until the change has been made; or after the change, but before the
 * change is acknowledged. Returns BG_ECANCELED if a conditional operation (CATALOG_UNCHANGED) has
 * already replaced the entry. In that case, the caller must not acknowledge the change.
 *
 * To compare content and replace it in one step: read entry->changes, wait for running batches to
 * end (quiet_wait), compare, and call catalog_put_on with CATALOG_INSTEAD_OF | CATALOG_UNCHANGED. A
 * change that was counted before entry->changes was read is part of the compared content. For a
 * change that was counted later, either catalog_put_on sees the new count, or catalog_changing sees
 * the decision of catalog_put_on, because each side stores its own value before it loads the other
 * one.
 */
bg_err catalog_changing(struct entry *entry, bg_errinfo *info);

/* Drops a name if the terms CATALOG_INSTEAD_OF and CATALOG_UNCHANGED are met. Errors: BG_ENOTFOUND;
 * BG_ECANCELED if the terms are not met. */
bg_err catalog_drop_on(struct catalog *catalog, bg_bytes name,
                       const struct catalog_terms *terms, uint64_t now,
                       bg_errinfo *info);

/* Renames `from` to `to`, replacing any entry that has the new name. If `only_new` is set, returns
 * BG_EBUSY instead of replacing an entry. */
bg_err catalog_rename(struct catalog *catalog, bg_bytes from, bg_bytes to,
                      bool only_new, uint64_t now, bg_errinfo *info);

/* Sets the time at which a name expires; 0 means never. */
bg_err catalog_expire(struct catalog *catalog, bg_bytes name, uint64_t expires,
                      uint64_t now, bg_errinfo *info);

/* Conditions for EXPIRE. The first four test the current expiry of the name. */
enum {
    CATALOG_EXPIRE_NX = 1u << 0, /* the name has no expiry */
    CATALOG_EXPIRE_XX = 1u << 1, /* the name has an expiry */
    CATALOG_EXPIRE_GT = 1u << 2, /* the expiry is earlier than the new one */
    CATALOG_EXPIRE_LT =
        1u << 3, /* there is no expiry, or it is later than the new one */
    /* Not a condition: if the new time has already passed, drop the name. */
    CATALOG_EXPIRE_DROPS = 1u << 4
};

/* Like catalog_expire, with conditions. Returns BG_ECANCELED if the conditions are not met. */
bg_err catalog_expire_if(struct catalog *catalog, bg_bytes name, uint64_t expires,
                         unsigned conditions, uint64_t now, bg_errinfo *info);

/* Sets an entry's base, and records it in the journal unless `silent` is set. Unless `before` is
 * NULL, sets *before to the previous base. Returns BG_ENOTFOUND if the object has been dropped. */
bg_err catalog_set_base(struct catalog *catalog, struct entry *entry,
                        const struct entry_base *base, bool silent,
                        struct entry_base *before, bg_errinfo *info);

/* Copies the digest of the object's base, or "" if it has no base. Does not block while the catalog
 * is being changed. Thread-safe. */
void catalog_digest(struct catalog *catalog, const struct entry *entry,
                    char digest[BG_DIGEST_TEXT_BYTES]);

/* Examines the next few thousand entries and drops those that have expired. The next call continues
 * where this call stopped. Returns the number of dropped entries. */
size_t catalog_sweep(struct catalog *catalog, uint64_t now);

/* Frees removed memory that no thread uses anymore. Waits for batches to end, so it must not be
 * called inside a batch. */
void catalog_reap(struct catalog *catalog);

/* Marks the numbers below `next` as used. Called during recovery. */
void catalog_skip_numbers(struct catalog *catalog, uint64_t next);

/* ---- All entries ------------------------------------------------------------------------- */

size_t catalog_count(const struct catalog *catalog);

/* Returns the memory that an entry with this name uses, in bytes, excluding its filter. */
uint64_t catalog_cost(bg_bytes name);

/* Returns the memory that a filter uses under this name, in bytes. MEMORY USAGE reports it, and
 * quotas count it. */
uint64_t catalog_usage(const struct object *object, bg_bytes name);

/* Returns the number of entries that have an expiry. */
size_t catalog_expiring(const struct catalog *catalog);

/* Returns a value of `after` with which catalog_scan starts at an entry selected by `random`. */
uint64_t catalog_before_any(struct catalog *catalog, uint64_t random);

/* Returns up to `room` entries with numbers above `after`, in order. Each entry is held until
 * catalog_release is called for it. */
size_t catalog_scan(struct catalog *catalog, uint64_t after, struct entry **entries,
                    size_t room);

/* Does the same, and sets *reversals to the number of renames so far that moved a name from an
 * entry to an entry with a lower number. All other changes give a name an entry with a higher
 * number. So if *reversals is the same in the first and the last call of a scan, the scan has
 * returned every name that existed throughout. */
size_t catalog_list(struct catalog *catalog, uint64_t after, struct entry **entries,
                    size_t room, uint64_t *reversals);

/* Calls `visit` for all entries, in order, and then once with NULL. No entry can be added or
 * removed during the calls. `visit` must not change the catalog. */
bg_err catalog_each(struct catalog *catalog,
                    bg_err (*visit)(void *context, struct entry *entry,
                                    bg_errinfo *info),
                    void *context, bg_errinfo *info);
void catalog_hold(struct entry *entry);
void catalog_release(struct entry *entry);

/* Both functions return the total size of all objects, in bytes. catalog_measure measures it now,
 * and catalog_bytes returns the result of the last measurement. */
uint64_t catalog_bytes(const struct catalog *catalog);
uint64_t catalog_measure(struct catalog *catalog);
/* Measures one object. The caller holds its entry, or is in a batch. */
void catalog_measure_entry(struct catalog *catalog, struct entry *entry);
/* Adds `bytes` to the total that catalog_bytes returns. */
void catalog_grew(struct catalog *catalog, uint64_t bytes);

/* Returns the current name, which is valid until the end of the current batch. */
static inline bg_bytes catalog_name(const struct entry *entry)
{
    const struct entry_name *name = atomic_load(&entry->name);
    return (bg_bytes){ name->bytes, name->len };
}

#endif

/*
 * catalog.h - the names of the service and what they stand for.
 *
 * Worker threads find names without locks, many million times a second; names come and go
 * seldom, one change at a time.
 *
 *     table  -> [ e1 | - | e7 | gone | e3 | - | ... ]     open addressing, a power of two of places
 *                 |        |           |
 *               entry    entry       entry -> object (command/object.h)
 *
 * A find loads the table and looks at places until the name or an empty one. A renamed entry
 * gets another name and another place; who looks for the old name sees one or the other change,
 * and so does not find it. A change holds the
 * lock, tells the journal, and then stores one pointer. What is taken away (an entry, a table that
 * was outgrown) goes to a list, and catalog_reap frees it after everybody has let go (quiet.h);
 * it is the only one who waits. Memory of gigabytes is given back there, not by who said DEL.
 *
 * Names are hashed with a secret made at start, since strangers choose them.
 *
 * Entries have numbers that only grow. An object that takes the place of another one gets a new
 * number, so what was recorded for the old one is not taken for the new one's. The list of all
 * entries is ordered by number: SCAN goes on behind the last number that it told, so it tells
 * every name that was there from its beginning to its end, once.
 *
 * Threads. Finding, and using what was found, is for threads inside of a batch (quiet_enter). Who
 * needs an entry for longer holds it.
 */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "object.h"
#include "quiet.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file that has an object's content up to a frame of the journal. */
struct entry_base {
    char file[96]; /* name in the data folder; "": none yet */
    char digest[BG_DIGEST_TEXT];
    uint64_t from; /* what is recorded from this frame on is not in it */
    uint64_t items, deleted, expansions; /* what the object had counted by then */
};

/* A name; replaced as a whole when it changes. */
struct entry_name {
    uint64_t hash;
    struct entry_name *next_garbage;
    size_t len;
    char bytes[]; /* any, and a NUL behind them */
};

/* Whether another object replaces this one on the condition that its content has not changed. */
enum entry_decision {
    ENTRY_STAYS,
    ENTRY_UNDECIDED, /* during one change of the catalog */
    ENTRY_REPLACED
};

struct entry {
    uint64_t number;
    _Atomic(struct entry_name *) name; /* good for a batch */
    struct object *object;
    uint64_t created;         /* milliseconds since 1970 */
    _Atomic uint64_t expires; /* likewise; 0: never */
    _Atomic uint64_t
        recorded; /* number of the last frame that changes it; 0: none since its base */
    _Atomic uint64_t
        changes; /* number of changes to its content: see catalog_changing */
    _Atomic uint32_t decision; /* enum entry_decision */
    _Atomic uint32_t holds;    /* held by callers that need it beyond their batch */
    _Atomic bool gone;         /* no name refers to it any more */
    struct entry_base base; /* `from` is the snapshots', under their lock; the rest is
                               written under the catalogue's as well */
    struct entry *next_garbage;
};

struct catalog;

/* What the catalogue tells before a change is visible: the journal. All under one lock. An error
 * stops the change. Any may be NULL. */
struct catalog_hooks {
    /* `before` goes at the same moment: it had the name; or NULL. */
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

/* The entry of a name that has not expired by `now`, or NULL. */
struct entry *catalog_find(const struct catalog *catalog, bg_bytes name, uint64_t now);

/* Returns the hash of a name with a secret of this process, so that clients cannot choose names that
 * collide. */
uint64_t catalog_hash(const struct catalog *catalog, bg_bytes name);

enum {
    CATALOG_REPLACE = 1u << 0,      /* replaces the entry that has the name */
    CATALOG_FORCE_NUMBER = 1u << 1, /* recovery: object->id is the number */
    CATALOG_KEEP_EXPIRY = 1u << 2,  /* expires when the replaced one would have */
    CATALOG_INSTEAD_OF = 1u << 3,   /* only if terms->instead_of has the name */
    CATALOG_UNCHANGED = 1u << 4     /* and only if it has had terms->changes changes */
};

/* The terms of a change. The catalog checks them under the same lock under which it makes the change, so
 * nothing happens in between. */
struct catalog_terms {
    uint32_t flags;
    const struct entry *instead_of; /* NULL: nothing may have the name */
    uint64_t changes;
    uint64_t expires; /* milliseconds since 1970; 0: never */
    uint64_t most;    /* maximum number of names afterwards; 0: no limit */
};

/* Gives a name to an object, which is the catalogue's then; object->id becomes its number and
 * object->entry its entry. `base`, unless NULL, is a file that has its content. BG_EBUSY: the name
 * is taken; BG_ECANCELED: the terms are not met; BG_ELIMIT: too many names; BG_EINVAL: the name is
 * longer than 64 KiB. */
bg_err catalog_put_on(struct catalog *catalog, bg_bytes name, struct object *object,
                      const struct entry_base *base, const struct catalog_terms *terms,
                      uint64_t now, bg_errinfo *info);

/* The same, with terms that consist of flags only. */
bg_err catalog_put(struct catalog *catalog, bg_bytes name, struct object *object,
                   const struct entry_base *base, uint32_t flags, uint64_t now,
                   bg_errinfo *info);

/*
 * Counts a change of an entry's content. Call it before the change, within a batch that ends
 * after the change, or after the change and before it is acknowledged. BG_ECANCELED: the entry
 * was replaced by another object, on the condition that it had not changed. The change must not
 * be acknowledged.
 *
 * To compare content and replace it in one step: read entry->changes, wait for batches
 * (quiet_wait), compare, and call catalog_put_on with CATALOG_INSTEAD_OF | CATALOG_UNCHANGED. A
 * change that was counted before the comparison is part of what was compared. A later one either
 * is seen by catalog_put_on or sees its decision, since each side stores before it loads.
 */
bg_err catalog_changing(struct entry *entry, bg_errinfo *info);

/* BG_ENOTFOUND. */
bg_err catalog_drop(struct catalog *catalog, bg_bytes name, uint64_t now,
                    bg_errinfo *info);

/* The same with terms: CATALOG_INSTEAD_OF, CATALOG_UNCHANGED. BG_ECANCELED: the terms are not met. */
bg_err catalog_drop_on(struct catalog *catalog, bg_bytes name,
                       const struct catalog_terms *terms, uint64_t now,
                       bg_errinfo *info);

/* `from` becomes `to`, in the place of what had that name (unless `only_new`: then BG_EBUSY). */
bg_err catalog_rename(struct catalog *catalog, bg_bytes from, bg_bytes to,
                      bool only_new, uint64_t now, bg_errinfo *info);

/* When a name is forgotten; 0: never. */
bg_err catalog_expire(struct catalog *catalog, bg_bytes name, uint64_t expires,
                      uint64_t now, bg_errinfo *info);

/* Conditions of EXPIRE on the current expiry of the name. */
enum {
    CATALOG_EXPIRE_NX = 1u << 0, /* never */
    CATALOG_EXPIRE_XX = 1u << 1, /* at some time */
    CATALOG_EXPIRE_GT = 1u << 2, /* earlier */
    CATALOG_EXPIRE_LT = 1u << 3, /* later, or never */
    CATALOG_EXPIRE_DROPS =
        1u << 4 /* no condition: a time that has passed drops the name */
};

/* The same with conditions. BG_ECANCELED: they are not met. */
bg_err catalog_expire_if(struct catalog *catalog, bg_bytes name, uint64_t expires,
                         unsigned conditions, uint64_t now, bg_errinfo *info);

/* The object has a new base, which is told, unless `silent`. *before, unless NULL, becomes the one
 * that it had. BG_ENOTFOUND: it has been dropped. */
bg_err catalog_set_base(struct catalog *catalog, struct entry *entry,
                        const struct entry_base *base, bool silent,
                        struct entry_base *before, bg_errinfo *info);

/* Copies the digest of the object's base; "": none. Does not wait for changes of the catalog. MT-Safe. */
void catalog_digest(struct catalog *catalog, const struct entry *entry,
                    char digest[BG_DIGEST_TEXT]);

/* Drops what has expired, of some thousand names: the next call goes on behind them. Tells how
 * many. */
size_t catalog_sweep(struct catalog *catalog, uint64_t now);

/* Frees what was taken away and nobody uses any more. Waits for batches: not from inside. */
void catalog_reap(struct catalog *catalog);

/* Numbers below this one have been used: recovery. */
void catalog_skip_numbers(struct catalog *catalog, uint64_t next);

/* ---- All of them ------------------------------------------------------------------------- */

size_t catalog_count(const struct catalog *catalog);
size_t
catalog_expiring(const struct catalog *catalog); /* of them with a time to expire */

/* The number before that of one of them, for catalog_scan to begin at; `random` says which. */
uint64_t catalog_before_any(struct catalog *catalog, uint64_t random);

/* Up to `room` entries with numbers above `after`, in order, each held: catalog_release them. */
size_t catalog_scan(struct catalog *catalog, uint64_t after, struct entry **entries,
                    size_t room);

/* Calls `visit` for all, in order, while nothing can come or go, and then once with NULL. It must
 * not change the catalogue. */
bg_err catalog_each(struct catalog *catalog,
                    bg_err (*visit)(void *context, struct entry *entry,
                                    bg_errinfo *info),
                    void *context, bg_errinfo *info);
void catalog_hold(struct entry *entry);
void catalog_release(struct entry *entry);

/* Sum of the objects' bytes, as of the last catalog_measure. */
uint64_t catalog_bytes(const struct catalog *catalog);
uint64_t catalog_measure(struct catalog *catalog);
void catalog_grew(struct catalog *catalog, uint64_t bytes); /* since then */

/* The name as of now; for threads inside of a batch, until its end. */
static inline bg_bytes catalog_name(const struct entry *entry)
{
    const struct entry_name *name = atomic_load(&entry->name);
    return (bg_bytes){ name->bytes, name->len };
}

#endif

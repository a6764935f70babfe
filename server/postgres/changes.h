/*
 * postgres/changes.h - the `changes` mode for PostgreSQL: triggers write new keys to a change table in the writer's
 * transaction.
 *
 * All objects are in the schema "bloomgate" and belong to one gate of one service (source_object):
 *
 *   ..._change     (xid xid8, key)   a key written by the transaction `xid`. If `key` is NULL, the trigger could not
 *                                    read the key column, and the epoch ends
 *   ..._bookmark   (number, nonce, snapshot)   the snapshots up to which the follower has read
 *   ..._keyN()     trigger function of the Nth key column, SECURITY DEFINER; the triggers have the same name
 *   ..._guard()    trigger function that allows only the service to change both tables
 *
 * Positions. A bookmark is a snapshot taken by the follower: all changes visible in the bookmark have been
 * reported. The next changes to report are the rows whose transaction is invisible in that snapshot. This rule is
 * exact for any commit order, and also for savepoints (`xid` is the top-level transaction) and prepared
 * transactions.
 */
#ifndef SERVER_POSTGRES_CHANGES_H
#define SERVER_POSTGRES_CHANGES_H

#include "postgres/reader.h"
#include "postgres/schema.h"

/* The setting that lets a transaction pass the guard. */
#define CHANGES_WRITER "bloomgate.writer"

/* What the follower last proved about the database. */
struct changes_epoch {
    char identity[PG_IDENTITY];
    char fingerprint[PG_FINGERPRINT];
    /* Nonce of the bookmarks that this follower writes; "" if there is no epoch. */
    char nonce[17];
    /* Nonce of bookmark `number`; differs from `nonce` after resuming. */
    char origin[17];
    uint64_t number; /* the last bookmark known to be committed */
    /* Bookmark that covers the reported keys but may not be committed yet, or 0 if there is
     * none. */
    uint64_t pending;
};

/* source->mode_own */
struct changes {
    char *change_table, *bookmark, *guard, *function; /* consist of [a-z0-9_] */
    char *change_path, *bookmark_path;                /* schema-qualified table names */
    /* The names of the objects, in the form used for the fingerprint. */
    struct postgres_objects objects;
    pthread_mutex_t lock; /* protects the epoch */
    struct changes_epoch epoch;
};

/* ---- postgres/install.c ------------------------------------------------------------------ */

/* Verifies in the current transaction that the objects have the definitions that this version of the service expects.
 * Errors: BG_EINVAL. */
bg_err postgres_install_verify(struct postgres_link *link, uint64_t deadline,
                               bg_errinfo *info);

/* Replaces all of the gate's objects in one transaction. Locks the tables briefly. Errors: BG_EINVAL if an
 * existing object does not belong to the gate; BG_EIO. */
bg_err postgres_install(struct postgres_link *link, uint64_t deadline,
                        bg_errinfo *info);

/* Writes the statements that postgres_install would run to the file specified by `how.script`. */
bg_err postgres_install_script(struct postgres_link *link, uint64_t deadline,
                               bg_errinfo *info);

/* ---- postgres/changes.c ------------------------------------------------------------------ */

/* Starts a transaction, verifies that the tables can be followed, and sets the identity and fingerprint in `found`.
 * Until the transaction ends, the server prints values in the form that the filter stores. */
bg_err postgres_changes_begin(struct postgres_link *link, bool writes,
                              uint64_t deadline, struct changes_epoch *found,
                              bg_errinfo *info);

/* Like postgres_changes_begin, but also verifies the definitions of all objects and installs the objects if the
 * settings allow it. */
bg_err postgres_changes_ensure(struct postgres_link *link, uint64_t deadline,
                               struct changes_epoch *found, bg_errinfo *info);

void postgres_changes_set_epoch(struct source *source,
                                const struct changes_epoch *epoch);

/* Returns the deadline for a statement that a follower or reader runs. */
uint64_t postgres_changes_deadline(const struct source *source);

/* ---- postgres/changes_follow.c ----------------------------------------------------------- */

void postgres_changes_follow(struct source *source);

#endif

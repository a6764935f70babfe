/*
 * postgres/changes_follow.c - the follower for the `changes` mode; see postgres/changes.h.
 *
 * Each poll is one REPEATABLE READ transaction, so all of its steps see the same snapshot:
 *
 *   1. Verify that the identity, the schema and the objects match the epoch.
 *   2. Verify that the epoch's bookmark exists.
 *   3. Report the change rows whose transaction is invisible in that bookmark.
 *   4. If there were any such rows, write a new bookmark with this transaction's snapshot.
 *
 * Finding the transactions that are invisible in a bookmark needs no table scan. Such a transaction
 * has an ID that is at least the bookmark's xmax, or it was in progress when the bookmark was
 * taken. Its changes are found through the index. So a transaction that stays open for hours does
 * not make polls slower.
 *
 * Lost bookmarks. If the connection breaks during COMMIT, the new bookmark may or may not exist. Both cases are safe:
 * the changes since the older bookmark include all changes since the new one, and reporting a key twice is harmless.
 * If the server loses the bookmark (failover, restored backup), the epoch ends. The bookmark is committed with
 * synchronous_commit=local. This commit makes every transaction that is visible in the bookmark durable, including
 * transactions by writers that use synchronous_commit=off. So after a crash, the IDs of transactions that are visible
 * in a bookmark are never reassigned.
 *
 * Two followers. A copy of the service's directory contains the same object names and marks. If two services run
 * with such copies, each has a follower for the same objects. Therefore, the first poll after resuming writes a
 * bookmark with a new nonce, and a follower never continues from a bookmark that another follower wrote. Bookmark
 * numbers are unique, and each number is assigned in a snapshot that includes all smaller numbers, so bookmarks
 * are numbered in snapshot order. Pruning therefore also deletes the bookmarks of all followers that have not yet
 * read the deleted changes.
 *
 * Pruning. Changes that are visible in the bookmark of the last saved mark are deleted in steps. All earlier
 * bookmarks are deleted first, because a follower can resume at a mark only while the mark's bookmark exists.
 */
#include "postgres/changes.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* if a poll reads at least this many rows, the next poll starts immediately */
    FOLLOW_BUSY = 1024,
    FOLLOW_STEP = 100000,  /* number of rows pruned in one step */
    FOLLOW_KEEP = 1000000, /* maximum number of rows kept while no mark is saved */
    FOLLOW_WHY = BG_ERR_MESSAGE_MAX
};

static const uint64_t follow_prune_rest = 60 * SOURCE_SECOND; /* delay after an error */

struct follower {
    struct source *source;
    const struct changes *own;
    struct postgres_link link;
    struct key_batch batch;
    struct changes_epoch epoch;
    /* The epoch comes from the saved mark, and the listener has not been called yet. */
    bool resumes;
    bool claims;          /* the next poll writes a bookmark even without changes */
    char why[FOLLOW_WHY]; /* why a new epoch is needed, or "" */
    uint64_t read;        /* number of rows read by the last poll */
    /* The number of rows read since the epoch started or changes were last pruned. */
    uint64_t unsaved;
    uint64_t first;      /* first bookmark of the epoch; 0 after resuming */
    uint64_t pruned;     /* all changes before this bookmark have been pruned */
    bool is_pruning;     /* more changes remain to be pruned */
    uint64_t prune_next; /* earliest time of the next pruning attempt */
};

/* Ends the epoch; the next call to follower_turn tries to start a new one. Until then, nothing is proved, readers fail,
 * and lookups may use any primary server. */
static void follower_doubt(struct follower *f, const char *why)
{
    (void)snprintf(f->why, sizeof f->why, "%s", why);
    const bool was_told = *f->epoch.nonce && !f->resumes;
    f->claims = false;
    f->epoch = (struct changes_epoch){ .number = 0 };
    f->resumes = false;
    if (was_told) {
        postgres_changes_set_epoch(f->source, &f->epoch);
        postgres_schema_set_identity(f->source, "");
        source_tell_doubt(f->source, f->why);
    }
}

/* Runs a statement and frees its text. A NULL text means out of memory. */
static bg_err follower_run(struct follower *f, char *sql,
                           const struct postgres_arguments *given, PGresult **rows,
                           bg_errinfo *info)
{
    const bg_err err =
        sql ? postgres_link_run(&f->link, "changes", sql, given,
                                postgres_changes_deadline(f->source), rows, info)
            : source_no_memory(info);
    free(sql);
    return err;
}

static bg_err follower_do(struct follower *f, const char *sql, bg_errinfo *info)
{
    return postgres_link_do(&f->link, "changes", sql,
                            postgres_changes_deadline(f->source), info);
}

/* ---- Marks ------------------------------------------------------------------------------- */

static void follower_print_mark(const struct changes_epoch *epoch,
                                char mark[SOURCE_MARK])
{
    (void)snprintf(mark, SOURCE_MARK, "changes 1 %s %s %s %llu", epoch->identity,
                   epoch->fingerprint, epoch->origin,
                   (unsigned long long)epoch->number);
}

static bool follower_parse_mark(const char *mark, struct changes_epoch *epoch)
{
    char digits[21];
    int64_t number = 0;
    int end = 0;
    *epoch = (struct changes_epoch){ .number = 0 };
    if (sscanf(mark, "changes 1 %63s %32s %16s %20s%n", epoch->identity,
               epoch->fingerprint, epoch->origin, digits, &end)
            != 4
        || mark[end] || !source_integer((bg_bytes){ digits, strlen(digits) }, &number)
        || number < 1) {
        *epoch = (struct changes_epoch){ .number = 0 };
        return false;
    }
    epoch->number = (uint64_t)number;
    return true;
}

/* ---- Polls ------------------------------------------------------------------------------- */

/* Compares the identity and fingerprint read in this transaction with those of the epoch. */
static void follower_compare(struct follower *f, const struct changes_epoch *found)
{
    if (strcmp(found->identity, f->epoch.identity) != 0) {
        follower_doubt(f, "the connection reached a different server or database");
    } else if (strcmp(found->fingerprint, f->epoch.fingerprint) != 0) {
        follower_doubt(f, "the schema, the triggers or the tables have changed");
    }
}

/* Verifies that the change table was not truncated or rewritten after the transaction's snapshot was taken, because
 * that would make the table's earlier rows invisible. pg_relation_filenode reads the newest catalogs, and the lock
 * prevents a truncation or rewrite until the transaction ends. */
static bg_err follower_hold(struct follower *f, bg_errinfo *info)
{
    PGresult *rows = NULL;
    bg_err err = follower_run(
        f, source_format("LOCK TABLE %s IN ACCESS SHARE MODE", f->own->change_path),
        NULL, NULL, info);
    err = err ? err
              : follower_run(f,
                             source_format("SELECT relfilenode IS NOT DISTINCT FROM"
                                           " pg_catalog.pg_relation_filenode(oid)"
                                           " FROM pg_catalog.pg_class"
                                           " WHERE oid = '%s'::regclass::oid",
                                           f->own->change_path),
                             NULL, &rows, info);
    if (!err && (PQntuples(rows) != 1 || *PQgetvalue(rows, 0, 0) != 't')) {
        follower_doubt(f, "the change table was truncated or rewritten");
    }
    PQclear(rows);
    return err;
}

/* Finds the bookmark from which to continue, and the number of the next bookmark. */
static bg_err follower_find(struct follower *f, uint64_t *next, bg_errinfo *info)
{
    const struct postgres_arguments given = {
        2, { { .data = f->epoch.origin }, { .data = f->epoch.nonce } }
    };
    PGresult *rows = NULL;
    const bg_err err = follower_run(
        f,
        source_format("SELECT (SELECT max(number) FROM %s WHERE"
                      " (nonce = $1 AND number = %llu) OR"
                      " (nonce = $2 AND number = %llu)),"
                      " (SELECT max(number) + 1 FROM %s),"
                      " set_config('enable_seqscan', 'off', true),"
                      " set_config('synchronous_commit', 'local', true)",
                      f->own->bookmark_path, (unsigned long long)f->epoch.number,
                      (unsigned long long)f->epoch.pending, f->own->bookmark_path),
        &given, &rows, info);
    if (!err && PQgetisnull(rows, 0, 0)) {
        follower_doubt(f, "the bookmark is missing: a backup was restored, or another"
                          " service uses the same objects");
    } else if (!err) {
        f->epoch.number = strtoull(PQgetvalue(rows, 0, 0), NULL, 10);
        if (f->epoch.number == f->epoch.pending) {
            memcpy(f->epoch.origin, f->epoch.nonce, sizeof f->epoch.origin);
        }
        *next = strtoull(PQgetvalue(rows, 0, 1), NULL, 10);
    }
    PQclear(rows);
    return err;
}

/* Reports the keys in the batch. Before that, records that only the next bookmark will cover these
 * keys. */
static void follower_tell(struct follower *f, uint64_t next)
{
    if (f->epoch.pending != next) {
        f->epoch.pending = next;
        postgres_changes_set_epoch(f->source, &f->epoch);
    }
    source_tell_keys(f->source, &f->batch);
}

/* Reports the changes since the bookmark. */
static bg_err follower_read(struct follower *f, uint64_t next, bg_errinfo *info)
{
    const bool hex = atomic_load(&f->source->prints_hex);
    char *sql = source_format(
        "COPY (WITH last AS (SELECT snapshot FROM %s WHERE number = %llu)"
        " SELECT key FROM %s"
        " WHERE xid >= (SELECT pg_snapshot_xmax(snapshot) FROM last) UNION ALL"
        " SELECT key FROM %s WHERE xid = ANY (ARRAY("
        "SELECT pg_snapshot_xip(snapshot) FROM last))) TO STDOUT",
        f->own->bookmark_path, (unsigned long long)f->epoch.number, f->own->change_path,
        f->own->change_path);
    bg_err err = sql ? postgres_link_copy(&f->link, "changes", sql, info)
                     : source_no_memory(info);
    free(sql);
    for (bool more = true; !err && more;) {
        char *line = NULL;
        size_t len = 0;
        err = postgres_link_copied(&f->link, "changes", &line, &len, info);
        more = !err && line;
        if (more && len == 2 && memcmp(line, "\\N", 2) == 0) {
            follower_doubt(f, "a trigger could not read the key column");
        } else if (more) {
            len = postgres_reader_plain(line, len);
            err = postgres_link_put(f->source, line, len, hex, &f->batch)
                      ? BG_OK
                      : source_no_memory(info);
        }
        f->read += more;
        PQfreemem(line);
        if (!err && (key_batch_is_full(&f->batch) || (!more && f->batch.n))) {
            follower_tell(f, next);
        }
    }
    return err;
}

/* Commits the transaction and, if there were changes, a new bookmark. */
static bg_err follower_commit(struct follower *f, uint64_t next, bg_errinfo *info)
{
    const struct postgres_arguments given = { 1, { { .data = f->epoch.nonce } } };
    const bool writes = f->read || f->claims;
    bg_err err = !writes ? BG_OK
                         : follower_run(f,
                                        source_format("INSERT INTO %s (number, nonce,"
                                                      " snapshot) VALUES (%llu, $1,"
                                                      " pg_current_snapshot())",
                                                      f->own->bookmark_path,
                                                      (unsigned long long)next),
                                        &given, NULL, info);
    err = err ? err : follower_do(f, "COMMIT", info);
    if (!err) {
        if (writes) {
            f->epoch.number = next;
            memcpy(f->epoch.origin, f->epoch.nonce, sizeof f->epoch.origin);
        }
        f->epoch.pending = 0;
        f->claims = false;
        postgres_changes_set_epoch(f->source, &f->epoch);
    }
    return err;
}

/* Resumes at the listener's mark in the first poll after startup. */
static bg_err follower_resume(struct follower *f, uint64_t next, bg_errinfo *info)
{
    bg_err err =
        postgres_install_verify(&f->link, postgres_changes_deadline(f->source), info);
    if (err == BG_EINVAL) {
        follower_doubt(f, info->message);
        return BG_OK;
    }
    err = err ? err : source_nonce(f->epoch.nonce, info);
    if (err) {
        return err;
    }
    f->resumes = false;
    f->claims = true;
    f->epoch.pending = next;
    postgres_schema_set_identity(f->source, f->epoch.identity);
    postgres_changes_set_epoch(f->source, &f->epoch);
    source_tell_resumed(f->source);
    return BG_OK;
}

/* Verifies the epoch in a new transaction. Sets f->why if the epoch must end. */
static bg_err follower_begin(struct follower *f, uint64_t *next, bg_errinfo *info)
{
    struct changes_epoch found;
    bg_err err = postgres_changes_begin(
        &f->link, true, postgres_changes_deadline(f->source), &found, info);
    if (err == BG_EINVAL) {
        follower_doubt(f, info->message);
        err = BG_OK;
    } else if (!err) {
        follower_compare(f, &found);
    }
    if (!err && !*f->why) {
        err = follower_hold(f, info);
    }
    if (!err && !*f->why) {
        err = follower_find(f, next, info);
    }
    if (!err && !*f->why && f->resumes) {
        err = follower_resume(f, *next, info);
    }
    return err;
}

static bg_err follower_poll(struct follower *f, bg_errinfo *info)
{
    const uint64_t since = source_now();
    uint64_t next = 0;
    f->read = 0;
    key_batch_clear(&f->batch);
    bg_err err = follower_begin(f, &next, info);
    if (!err && !*f->why) {
        err = follower_read(f, next, info);
    }
    if (err || *f->why) {
        return err;
    }
    err = follower_commit(f, next, info);
    if (!err) {
        char mark[SOURCE_MARK];
        follower_print_mark(&f->epoch, mark);
        f->unsaved += f->read;
        source_tell_caught_up(
            f->source, &(struct source_proof){
                           .since = since, .position = f->epoch.number, .mark = mark });
        source_tell_state(f->source, true, "");
    }
    return err;
}

/* ---- Epochs ------------------------------------------------------------------------------ */

/* Deletes the bookmarks before the given one. */
static bg_err follower_forget_before(struct follower *f, uint64_t number,
                                     bg_errinfo *info)
{
    return follower_run(f,
                        source_format("DELETE FROM %s WHERE number < %llu",
                                      f->own->bookmark_path,
                                      (unsigned long long)number),
                        NULL, NULL, info);
}

static bg_err follower_write_first(struct follower *f, struct changes_epoch *epoch,
                                   bg_errinfo *info)
{
    const struct postgres_arguments writer = { 1, { { .data = f->own->guard } } };
    const struct postgres_arguments given = { 1, { { .data = epoch->nonce } } };
    PGresult *rows = NULL;
    bg_err err =
        follower_run(f,
                     source_format("SELECT set_config('" CHANGES_WRITER "', $1, true),"
                                   " set_config('synchronous_commit', 'local', true)"),
                     &writer, NULL, info);
    /* Visible rows with later transaction IDs come from a different history (a restored dump).
     * Every poll would report these rows, and they would never be pruned. */
    err = err ? err
              : follower_run(f,
                             source_format("DELETE FROM %s WHERE xid >="
                                           " pg_snapshot_xmax(pg_current_snapshot())",
                                           f->own->change_path),
                             NULL, NULL, info);
    err =
        err ? err
            : follower_run(f,
                           source_format("INSERT INTO %s (number, nonce, snapshot)"
                                         " SELECT coalesce(max(number), 0) + 1, $1,"
                                         " pg_current_snapshot() FROM %s"
                                         " RETURNING number",
                                         f->own->bookmark_path, f->own->bookmark_path),
                           &given, &rows, info);
    epoch->number = err ? 0 : strtoull(PQgetvalue(rows, 0, 0), NULL, 10);
    memcpy(epoch->origin, epoch->nonce, sizeof epoch->origin);
    err = err ? err : follower_forget_before(f, epoch->number, info);
    PQclear(rows);
    return err ? err : follower_do(f, "COMMIT", info);
}

/* Starts an epoch. All changes that are invisible in its first bookmark will be reported. */
static bg_err follower_restart(struct follower *f, bg_errinfo *info)
{
    struct changes_epoch epoch;
    const uint64_t deadline = postgres_changes_deadline(f->source);
    bg_err err = postgres_changes_ensure(&f->link, deadline, &epoch, info);
    err = err ? err : source_nonce(epoch.nonce, info);
    err = err ? err : follower_write_first(f, &epoch, info);
    if (err) {
        postgres_keys_forget(f->source);
        return err;
    }
    f->epoch = epoch;
    f->first = epoch.number;
    f->pruned = f->unsaved = 0;
    postgres_schema_set_identity(f->source, epoch.identity);
    postgres_changes_set_epoch(f->source, &epoch);
    source_tell_restart(f->source, f->why);
    f->why[0] = 0;
    return BG_OK;
}

/* ---- Pruning ----------------------------------------------------------------------------- */

/* Returns the number of the oldest bookmark that is still needed: the bookmark of the last saved mark, or the first
 * bookmark of the epoch. If too many changes accumulate while no mark is saved, they are pruned anyway, and the
 * service reads all keys the next time it starts. */
static uint64_t follower_unneeded(struct follower *f)
{
    char mark[SOURCE_MARK];
    struct changes_epoch saved;
    source_last_saved(f->source, mark);
    if (follower_parse_mark(mark, &saved) /* only marks from this epoch are saved */
        && saved.number > f->pruned) {
        return saved.number;
    }
    const uint64_t kept = f->pruned ? f->pruned : f->first;
    return f->unsaved > FOLLOW_KEEP ? f->epoch.number : kept;
}

static bg_err follower_prune_to(struct follower *f, uint64_t number, bg_errinfo *info)
{
    const struct postgres_arguments writer = { 1, { { .data = f->own->guard } } };
    PGresult *done = NULL;
    bg_err err =
        follower_do(f, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", info);
    err = err ? err
              : follower_run(
                  f,
                  source_format("SELECT set_config('" CHANGES_WRITER "', $1, true),"
                                " set_config('synchronous_commit', 'off', true)"),
                  &writer, NULL, info);
    err = err ? err : follower_forget_before(f, number, info);
    err = err ? err
              : follower_run(
                  f,
                  source_format("DELETE FROM %s WHERE ctid = ANY (ARRAY("
                                "SELECT c.ctid FROM %s c, %s b"
                                " WHERE b.number = %llu"
                                " AND c.xid < pg_snapshot_xmax(b.snapshot)"
                                " AND pg_visible_in_snapshot(c.xid, b.snapshot)"
                                " LIMIT %d))",
                                f->own->change_path, f->own->change_path,
                                f->own->bookmark_path, (unsigned long long)number,
                                FOLLOW_STEP),
                  NULL, &done, info);
    err = err ? err : follower_do(f, "COMMIT", info);
    f->is_pruning = !err && strtoull(PQcmdTuples(done), NULL, 10) >= FOLLOW_STEP;
    PQclear(done);
    return err;
}

static bg_err follower_prune(struct follower *f, bg_errinfo *info)
{
    const uint64_t unneeded = follower_unneeded(f);
    if ((unneeded <= f->pruned && !f->is_pruning) || source_now() < f->prune_next) {
        return BG_OK;
    }
    const bg_err err = follower_prune_to(f, unneeded, info);
    if (err) { /* following works without pruning, so pruning can be postponed */
        f->prune_next = source_now() + follow_prune_rest;
    } else {
        f->pruned = unneeded;
        f->unsaved = 0;
    }
    return err;
}

/* ---- The thread -------------------------------------------------------------------------- */

/* Runs one poll, or starts an epoch. Sets *again if the next call should follow immediately. */
static bg_err follower_turn(struct follower *f, bool *again, bg_errinfo *info)
{
    bg_err err = BG_OK;
    char why[FOLLOW_WHY];
    if (source_is_distrusted(f->source, why, sizeof why)) {
        follower_doubt(f, why);
        postgres_link_close(&f->link);
    }
    if (!postgres_link_is_open(&f->link)) {
        postgres_link_close(&f->link);
        err = postgres_link_open(&f->link, f->source, PG_WRITES,
                                 postgres_changes_deadline(f->source), info);
    }
    if (!err && *f->why) {
        *again = true;
        return follower_restart(f, info);
    }
    err = err ? err : follower_poll(f, info);
    /* An epoch starts on a new connection, with fresh settings. */
    if (!err && *f->why) {
        postgres_link_close(&f->link);
        *again = true;
        return BG_OK;
    }
    err = err ? err : follower_prune(f, info);
    *again = !err && (f->read >= FOLLOW_BUSY || f->is_pruning);
    return err;
}

void postgres_changes_follow(struct source *source)
{
    struct follower f = { .source = source, .own = source->mode_own };
    uint32_t failures = 0;
    f.resumes = follower_parse_mark(source->resume, &f.epoch);
    if (!f.resumes) {
        follower_doubt(&f, *source->resume ? "the filter was saved in a different mode"
                                           : "no filter has been saved");
    }
    while (!source_is_stopping(source)) {
        bg_errinfo info = { 0 };
        bool again = false;
        const bg_err err = follower_turn(&f, &again, &info);
        failures = err ? failures + 1 : 0;
        if (err) {
            postgres_link_close(&f.link);
            source_tell_state(source, false, info.message);
            (void)source_pause(source, source_rest(failures - 1), -1);
        } else if (!again) {
            (void)source_pause(source, source->how.poll_ms * SOURCE_MILLISECOND, -1);
        }
    }
    postgres_link_close(&f.link);
    key_batch_free(&f.batch);
}

/*
 * sqlite/history.c - see sqlite/history.h.
 *
 * The value in sqlite_sequence may be lower than the number of the last row: a statement that fails with ON CONFLICT
 * FAIL keeps its rows, but does not update sqlite_sequence. The next insert continues after the last row. This state
 * is valid as long as that value does not decrease from one poll to the next.
 */
#include "sqlite/history.h"

#include "source/script.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRUNE_ROWS = 8192 }; /* number of rows pruned per transaction */
/* Maximum time to wait for the write lock. */
#define PRUNE_PATIENCE (50 * SOURCE_MILLISECOND)
/* Time limit for one call. It is short because the follower waits for the call to return. */
#define PRUNE_BUDGET   (100 * SOURCE_MILLISECOND)

/* ---- Reading --------------------------------------------------------------------------- */

/* Reads the change table's value in sqlite_sequence, or sets *sequence to -1 if there is none. */
static bg_err history_sequence(struct sqlite_link *link, int64_t *sequence,
                               bg_errinfo *info)
{
    const bg_err err = sqlite_link_number(
        link, "changes", sequence, info,
        "SELECT max(seq) FROM main.sqlite_sequence WHERE name = '%s'",
        sqlite_objects(link->source)->changes);
    if (err == BG_ENOTFOUND) {
        *sequence = -1;
    }
    return err == BG_ENOTFOUND ? BG_OK : err;
}

bg_err sqlite_history_last(struct sqlite_link *link, int64_t *number, bg_errinfo *info)
{
    int64_t sequence = -1;
    bg_err err = sqlite_link_number(link, "changes", number, info,
                                    "SELECT max(n) FROM main.\"%s\"",
                                    sqlite_objects(link->source)->changes);
    err = err ? err : history_sequence(link, &sequence, info);
    *number = !err && sequence > *number ? sequence : *number;
    return err;
}

bg_err sqlite_history_end(struct sqlite_link *link, struct sqlite_place *place,
                          bg_errinfo *info)
{
    sqlite3_stmt *rows = NULL;
    *place = (struct sqlite_place){ .file = link->file };
    bg_err err = sqlite_schema_verify(link, info);
    err = err ? err : sqlite_schema_version(link, &place->schema, info);
    err = err ? err : history_sequence(link, &place->sequence, info);
    err = err ? err
              : sqlite_link_prepare(link, "changes", &rows, info,
                                    "SELECT n, token FROM main.\"%s\" ORDER BY n DESC"
                                    " LIMIT 1",
                                    sqlite_objects(link->source)->changes);
    const int code = err ? SQLITE_DONE : sqlite3_step(rows);
    if (code == SQLITE_ROW) {
        place->number = sqlite3_column_int64(rows, 0);
        place->token = sqlite3_column_int64(rows, 1);
    } else if (!err && code != SQLITE_DONE) {
        err = sqlite_link_error(link, "changes", info);
    }
    (void)sqlite3_finalize(rows);
    if (!err && (code != SQLITE_ROW || place->sequence != place->number)) {
        err = source_error(
            info, BG_ENOTFOUND, "changes", NULL,
            "the last row of the change table is missing, or its number differs from the one in sqlite_sequence");
    }
    return err;
}

static bg_err history_verify_row(struct sqlite_link *link,
                                 const struct sqlite_place *place, bg_errinfo *info)
{
    sqlite3_stmt *rows;
    bg_err err =
        sqlite_link_prepare(link, "changes", &rows, info,
                            "SELECT 1 FROM main.\"%s\" WHERE n = ?1 AND token IS ?2",
                            sqlite_objects(link->source)->changes);
    if (err) {
        return err;
    }
    (void)sqlite3_bind_int64(rows, 1, place->number);
    (void)sqlite3_bind_int64(rows, 2, place->token);
    const int code = sqlite3_step(rows);
    if (code == SQLITE_DONE) {
        err = source_error(
            info, BG_EINCOMPAT, "changes", NULL,
            "row %lld with the expected token is missing from the change table: this is a "
            "different copy of the database",
            (long long)place->number);
    } else if (code != SQLITE_ROW) {
        err = sqlite_link_error(link, "changes", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

static bg_err history_verify_schema(struct sqlite_link *link,
                                    const struct sqlite_place *place, bg_errinfo *info)
{
    int64_t version = 0;
    bg_err err = sqlite_schema_version(link, &version, info);
    if (!err && version != place->schema) {
        err =
            source_error(info, BG_EINCOMPAT, "schema", NULL,
                         "the schema version changed from %lld to %lld (DDL or VACUUM)",
                         (long long)place->schema, (long long)version);
    }
    err = err ? err : sqlite_schema_verify(link, info);
    return err == BG_ENOTFOUND || err == BG_EINVAL ? BG_EINCOMPAT : err;
}

bg_err sqlite_history_verify(struct sqlite_link *link, const struct sqlite_place *place,
                             bg_errinfo *info)
{
    const struct sqlite_file *was = &place->file, *is = &link->file;
    if (was->inode != is->inode || was->birth != is->birth
        || (was->device && was->device != is->device)) {
        return source_error(info, BG_EINCOMPAT, "source", NULL,
                            "the database file was replaced");
    }
    const bg_err err = history_verify_schema(link, place, info);
    return err ? err : history_verify_row(link, place, info);
}

/* After the last row has been read, verifies that no row is missing. */
static bg_err history_verify_end(struct sqlite_link *link, struct sqlite_place *place,
                                 bg_errinfo *info)
{
    int64_t sequence = 0;
    bg_err err = history_sequence(link, &sequence, info);
    if (!err && (sequence < place->sequence || sequence > place->number)) {
        err = source_error(info, BG_EINCOMPAT, "changes", NULL,
                           "the last row is %lld, but sqlite_sequence has %lld",
                           (long long)place->number, (long long)sequence);
    }
    place->sequence = err ? place->sequence : sequence;
    return err;
}

bg_err sqlite_history_read(struct sqlite_link *link, struct sqlite_place *place,
                           struct key_batch *batch, bool *ended, bg_errinfo *info)
{
    sqlite3_stmt *rows;
    int code = SQLITE_ROW;
    bg_err err = sqlite_link_prepare(
        link, "changes", &rows, info,
        "SELECT key, n, token FROM main.\"%s\" WHERE n > ?1 ORDER BY n",
        sqlite_objects(link->source)->changes);
    *ended = false;
    if (err) {
        return err;
    }
    (void)sqlite3_bind_int64(rows, 1, place->number);
    while (!err && !key_batch_is_full(batch)
           && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        const int64_t number = sqlite3_column_int64(rows, 1);
        if (number != place->number + 1) {
            err = source_error(
                info, BG_EINCOMPAT, "changes", NULL,
                "rows are missing from the change table: row %lld follows row %lld",
                (long long)number, (long long)place->number);
        } else if (!sqlite_link_key(rows, batch)) {
            err = source_no_memory(info);
        }
        place->number = number;
        place->token = sqlite3_column_int64(rows, 2);
    }
    if (!err && code == SQLITE_DONE) {
        *ended = true;
        err = history_verify_end(link, place, info);
    } else if (!err && code != SQLITE_ROW) {
        err = sqlite_link_error(link, "changes", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

/* ---- Creating objects ------------------------------------------------------------------ */

/* Returns SQL that adds a row without a key if the table is empty, or if the number of its last row differs from
 * the value in sqlite_sequence. */
static char *install_row_sql(const struct source *source)
{
    const char *name = sqlite_objects(source)->changes;
    return source_format(
        "INSERT INTO \"%s\" (token, key) SELECT random(), NULL"
        " WHERE ifnull((SELECT max(n) FROM \"%s\"), -1) <> ifnull((SELECT max(seq)"
        " FROM sqlite_sequence WHERE name = '%s'), -2)",
        name, name, name);
}

/* Returns the statements that drop all objects of the gate. Fails if any of these objects was not created by
 * the service. */
static bg_err install_drop_sql(struct sqlite_link *link, char **drop, bg_errinfo *info)
{
    const struct sqlite_objects *objects = sqlite_objects(link->source);
    sqlite3_stmt *rows = NULL;
    int code = SQLITE_DONE;
    *drop = strdup("");
    /* Triggers are dropped first, so that no trigger remains without its table. */
    bg_err err =
        *drop ? sqlite_link_prepare(link, "install", &rows, info,
                                    "SELECT type, name, sql FROM main.sqlite_master"
                                    " WHERE substr(name, 1, %zu) = '%s'"
                                    " ORDER BY type DESC",
                                    strlen(objects->prefix), objects->prefix)
              : source_no_memory(info);
    while (!err && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        const char *type = (const char *)sqlite3_column_text(rows, 0);
        const char *name = (const char *)sqlite3_column_text(rows, 1);
        const char *text = (const char *)sqlite3_column_text(rows, 2);
        if (!type || !name || !text || !strstr(text, sqlite_objects_sign)) {
            err = source_error(
                info, BG_EINVAL, "install", NULL,
                "%s %s exists, but the service did not create it; drop it or rename the"
                " gate",
                type ? type : "", name ? name : "");
            break;
        }
        char *more = source_format("%sDROP %s \"%s\";\n", *drop, type, name);
        free(*drop);
        *drop = more;
        err = more ? BG_OK : source_no_memory(info);
    }
    if (!err && code != SQLITE_DONE) {
        err = sqlite_link_error(link, "install", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

/* Returns the statements that replace all objects of the gate. */
static bg_err install_sql(struct sqlite_link *link, char **sql, bg_errinfo *info)
{
    const struct sqlite_objects *objects = sqlite_objects(link->source);
    bg_err err = install_drop_sql(link, sql, info);
    for (size_t i = 0; !err && i < objects->n; i++) {
        char *more = source_format("%s%s;\n", *sql, objects->list[i].sql);
        free(*sql);
        *sql = more;
        err = more ? BG_OK : source_no_memory(info);
    }
    return err;
}

/* Writes the script, and returns the error for install=no. */
static bg_err install_refuse(const struct source *source, const char *sql,
                             const bg_errinfo *missing, bg_errinfo *info)
{
    const char *path = source->how.script;
    char *row = install_row_sql(source);
    struct script script;
    bool written = row && *path && script_begin(&script);
    if (written) {
        (void)fprintf(script.to, "BEGIN IMMEDIATE;\n%s%s;\nCOMMIT;\n", sql, row);
        written = script_end(&script, path);
    }
    free(row);
    if (*path && !written) {
        return source_error(info, BG_EIO, "install=no", NULL, "cannot write %.300s: %s",
                            path, text_errno(errno));
    }
    return source_error(info, BG_EINVAL, "install=no", NULL, "%.300s; %s%s",
                        source_reason(missing), *path ? "run " : "use install=yes",
                        path);
}

static bg_err install_objects(struct sqlite_link *link, bg_errinfo *info)
{
    bg_errinfo missing = { .code = BG_OK };
    bg_err err = sqlite_schema_verify(link, &missing);
    if (err != BG_ENOTFOUND) {
        if (err && info) {
            *info = missing;
        }
        return err;
    }
    char *sql = NULL;
    err = install_sql(link, &sql, info);
    if (!err && !link->source->how.install) {
        err = install_refuse(link->source, sql, &missing, info);
    } else if (!err) {
        err = sqlite_link_execute(link, "install", info, "%s", sql);
    }
    free(sql);
    return err ? err : sqlite_schema_verify(link, info);
}

/* Adds a row that can serve as a place in the history, if necessary. */
static bg_err install_row(struct sqlite_link *link, const char *what, bg_errinfo *info)
{
    char *sql = install_row_sql(link->source);
    const bg_err err =
        sql ? sqlite_link_execute(link, what, info, "%s", sql) : source_no_memory(info);
    free(sql);
    return err;
}

bg_err sqlite_history_install(struct source *source, bg_errinfo *info)
{
    struct sqlite_link link;
    enum key_form form;
    bg_err err = sqlite_link_open(&link, source, true, info);
    if (err) {
        return err;
    }
    err = sqlite_link_execute(&link, "install", info, "BEGIN IMMEDIATE");
    err = err ? err : sqlite_schema_columns(&link, &form, info);
    err = err ? err : install_objects(&link, info);
    err = err ? err : install_row(&link, "install", info);
    err = sqlite_link_end(&link, err, info);
    sqlite_link_close(&link);
    return err;
}

/* ---- Deleting rows --------------------------------------------------------------------- */

bg_err sqlite_history_forget(struct source *source, bg_errinfo *info)
{
    struct sqlite_link link;
    bg_err err = sqlite_link_open(&link, source, true, info);
    if (err) {
        return err;
    }
    err = sqlite_link_execute(&link, "changes", info, "BEGIN IMMEDIATE");
    err = err ? err
              : sqlite_link_execute(&link, "changes", info, "DELETE FROM \"%s\"",
                                    sqlite_objects(source)->changes);
    err = err ? err : install_row(&link, "changes", info);
    err = sqlite_link_end(&link, err, info);
    sqlite_link_close(&link);
    return err;
}

/* Deletes some rows. Sets *more if there may be more rows to delete. */
static bg_err history_prune_some(struct sqlite_link *link, int64_t number,
                                 int64_t token, bool *more, bg_errinfo *info)
{
    const char *name = sqlite_objects(link->source)->changes;
    link->deadline = source_now() + PRUNE_PATIENCE;
    bg_err err = sqlite_link_execute(link, "changes", info, "BEGIN IMMEDIATE");
    link->deadline = 0;
    err =
        err ? err
            : sqlite_link_execute(
                link, "changes", info,
                "DELETE FROM \"%s\" WHERE n < %lld AND n < %d + (SELECT min(n) FROM"
                " \"%s\") AND EXISTS (SELECT 1 FROM \"%s\" WHERE n = %lld AND token IS"
                " %lld)",
                name, (long long)number, PRUNE_ROWS, name, name, (long long)number,
                (long long)token);
    *more = !err && sqlite3_changes(link->db) > 0;
    return sqlite_link_end(link, err, info);
}

bg_err sqlite_history_prune(struct source *source, int64_t number, int64_t token,
                            bool *more, bg_errinfo *info)
{
    struct sqlite_link link;
    int64_t logged = 0;
    const uint64_t until = source_now() + PRUNE_BUDGET;
    bg_err err = sqlite_link_open(&link, source, true, info);
    *more = true;
    if (err) {
        return err;
    }
    /* Deleted rows may reappear after a power failure, which is harmless. With a write-ahead log, NORMAL means that a
     * commit does not wait for the disk. */
    err = sqlite_link_number(&link, "changes", &logged, info,
                             "SELECT journal_mode = 'wal' FROM pragma_journal_mode");
    if (!err && logged) {
        err =
            sqlite_link_execute(&link, "changes", info, "PRAGMA synchronous = NORMAL");
    }
    while (!err && *more && source_now() < until) {
        err = history_prune_some(&link, number, token, more, info);
    }
    sqlite_link_close(&link);
    return err;
}

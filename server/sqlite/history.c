/*
 * sqlite/history.c - see sqlite/history.h.
 *
 * The value in sqlite_sequence may be lower than the number of the last row: a statement that fails with ON CONFLICT
 * FAIL keeps its rows, but does not update sqlite_sequence. The next insert continues after the last row. This state
 * is valid as long as that value does not decrease from one poll to the next.
 */
#include "sqlite/history.h"

#include <stdlib.h>
#include <string.h>

/* Reads the change table's value in sqlite_sequence, or sets *sequence to -1 if there is none. */
static bg_err history_sequence(struct sqlite_link *link,
                               const struct sqlite_objects *objects, int64_t *sequence,
                               bg_errinfo *info)
{
    char *sql = source_format("SELECT max(seq) FROM main.sqlite_sequence"
                              " WHERE name = '%s'",
                              objects->changes);
    const bg_err err = sql ? sqlite_link_number(link, "changes", sql, sequence, info)
                           : source_no_memory(info);
    free(sql);
    if (err == BG_ENOTFOUND) {
        *sequence = -1;
    }
    return err == BG_ENOTFOUND ? BG_OK : err;
}

/* Prepares a query on the change table. */
static bg_err history_prepare(struct sqlite_link *link,
                              const struct sqlite_objects *objects, const char *columns,
                              const char *rest, sqlite3_stmt **rows, bg_errinfo *info)
{
    *rows = NULL;
    char *sql =
        source_format("SELECT %s FROM main.\"%s\" %s", columns, objects->changes, rest);
    const bg_err err = sql ? sqlite_link_prepare(link, "changes", sql, rows, info)
                           : source_no_memory(info);
    free(sql);
    return err;
}

bg_err sqlite_history_last(struct sqlite_link *link,
                           const struct sqlite_objects *objects, int64_t *number,
                           bg_errinfo *info)
{
    int64_t sequence = -1;
    char *sql = source_format("SELECT max(n) FROM main.\"%s\"", objects->changes);
    bg_err err = sql ? sqlite_link_number(link, "changes", sql, number, info)
                     : source_no_memory(info);
    free(sql);
    err = err ? err : history_sequence(link, objects, &sequence, info);
    *number = !err && sequence > *number ? sequence : *number;
    return err;
}

bg_err sqlite_history_end(struct sqlite_link *link,
                          const struct sqlite_objects *objects,
                          struct sqlite_place *place, bg_errinfo *info)
{
    sqlite3_stmt *rows = NULL;
    *place = (struct sqlite_place){ .file = link->file };
    bg_err err = sqlite_schema_verify(link, objects, info);
    err = err ? err : sqlite_schema_version(link, &place->schema, info);
    err = err ? err : history_sequence(link, objects, &place->sequence, info);
    err = err ? err
              : history_prepare(link, objects, "n, token", "ORDER BY n DESC LIMIT 1",
                                &rows, info);
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
                                 const struct sqlite_objects *objects,
                                 const struct sqlite_place *place, bg_errinfo *info)
{
    sqlite3_stmt *rows;
    bg_err err = history_prepare(link, objects, "1", "WHERE n = ?1 AND token IS ?2",
                                 &rows, info);
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
                                    const struct sqlite_objects *objects,
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
    err = err ? err : sqlite_schema_verify(link, objects, info);
    return err == BG_ENOTFOUND || err == BG_EINVAL ? BG_EINCOMPAT : err;
}

bg_err sqlite_history_verify(struct sqlite_link *link,
                             const struct sqlite_objects *objects,
                             const struct sqlite_place *place, bg_errinfo *info)
{
    const struct sqlite_file *was = &place->file, *is = &link->file;
    if (was->inode != is->inode || was->birth != is->birth
        || (was->device && was->device != is->device)) {
        return source_error(info, BG_EINCOMPAT, "source", NULL,
                            "the database file was replaced");
    }
    const bg_err err = history_verify_schema(link, objects, place, info);
    return err ? err : history_verify_row(link, objects, place, info);
}

/* After the last row has been read, verifies that no row is missing. */
static bg_err history_verify_end(struct sqlite_link *link,
                                 const struct sqlite_objects *objects,
                                 struct sqlite_place *place, bg_errinfo *info)
{
    int64_t sequence = 0;
    bg_err err = history_sequence(link, objects, &sequence, info);
    if (!err && (sequence < place->sequence || sequence > place->number)) {
        err = source_error(info, BG_EINCOMPAT, "changes", NULL,
                           "the last row is %lld, but sqlite_sequence has %lld",
                           (long long)place->number, (long long)sequence);
    }
    place->sequence = err ? place->sequence : sequence;
    return err;
}

bg_err sqlite_history_read(struct sqlite_link *link,
                           const struct sqlite_objects *objects,
                           struct sqlite_place *place, struct key_batch *batch,
                           bool *ended, bg_errinfo *info)
{
    sqlite3_stmt *rows;
    int code = SQLITE_ROW;
    bg_err err = history_prepare(link, objects, "key, n, token",
                                 "WHERE n > ?1 ORDER BY n", &rows, info);
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
        err = history_verify_end(link, objects, place, info);
    } else if (!err && code != SQLITE_ROW) {
        err = sqlite_link_error(link, "changes", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

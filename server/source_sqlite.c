/*
 * source_sqlite.c - SQLite as a source: questions and keys. Following is in sqlite_follow.c.
 *
 * What a key is in SQL. SQLite compares 42, '42' and x'3432' as three different values, and a key
 * is bytes. Unless `key` says otherwise a key that looks like a whole number is asked for as such
 * if the column is declared so; else as text, and if there is no such row once more as a blob.
 *
 * Keys are read by one statement, which sees the database at one moment. In a database with a
 * write-ahead log that disturbs nobody; without, writers cannot commit until it has ended.
 */
#include "sqlite_link.h"

#include <stdlib.h>
#include <string.h>

/* A connection for questions. */
struct sqlite_asker {
    struct sqlite_link link;
    sqlite3_stmt *lookup;
    bool integers; /* the keys' column is declared so */
};

struct sqlite_reader {
    struct sqlite_link link;
    sqlite3_stmt *query; /* NULL: not begun */
    bool ended;
};

/* ---- Life ------------------------------------------------------------------------------ */

static bg_err source_sqlite_create(struct source *source, bg_errinfo *info)
{
    if (!*source->place || strcmp(source->place, ":memory:") == 0) {
        return source_error(info, BG_EINVAL, "source", "sqlite: and a path", "%s",
                            source->how.url);
    }
    if (source->by == FOLLOW_LOGICAL) {
        return source_error(info, BG_EINVAL, "follow", "changes or none for SQLite",
                            "%s", source->how.follow);
    }
    source->mode =
        source->by == FOLLOW_CHANGES ? &sqlite_changes_mode : &sqlite_plain_mode;
    return BG_OK;
}

static void source_sqlite_destroy(struct source *source)
{
    (void)source;
}

/* Returns SQL that selects all keys; NULL if memory is short. */
static char *source_sqlite_keys(const struct source *source)
{
    char *all = strdup("");
    for (size_t i = 0; all && i < source->columns.n; i++) {
        char *table = key_column_table(&source->columns.list[i]);
        char *column = source_quote(source->columns.list[i].column);
        char *more =
            table && column
                ? source_format("%s%sSELECT %s FROM %s WHERE %s IS NOT NULL", all,
                                i ? " UNION ALL " : "", column, table, column)
                : NULL;
        free(table);
        free(column);
        free(all);
        all = more;
    }
    return all;
}

/* ---- Questions ------------------------------------------------------------------------- */

static void source_sqlite_disconnect(void *connection)
{
    struct sqlite_asker *asker = connection;
    if (!asker) {
        return;
    }
    (void)sqlite3_finalize(asker->lookup);
    sqlite_link_close(&asker->link);
    free(asker);
}

/* Whether the keys' column is declared as whole numbers (SQLite's rule: the type has "INT"). */
static bg_err source_sqlite_look_at_query(struct sqlite_asker *asker, bg_errinfo *info)
{
    sqlite3_stmt *query;
    char *sql = source_sqlite_keys(asker->link.source);
    const bg_err err =
        sql ? sqlite_link_prepare(&asker->link, "keys", sql, &query, info)
            : source_no_memory(info);
    free(sql);
    if (err) {
        return err;
    }
    const char *declared = sqlite3_column_decltype(query, 0);
    asker->integers = declared && strcasestr(declared, "int");
    (void)sqlite3_finalize(query);
    return BG_OK;
}

static bg_err source_sqlite_prepare(struct sqlite_asker *asker, bg_errinfo *info)
{
    bg_err err = source_sqlite_look_at_query(asker, info);
    err =
        err ? err
            : sqlite_link_prepare(&asker->link, "lookup",
                                  asker->link.source->how.lookup, &asker->lookup, info);
    if (!err && sqlite3_bind_parameter_count(asker->lookup) != 1) {
        err = source_error(info, BG_EINVAL, "lookup", "one parameter: WHERE key = ?",
                           "%d of them", sqlite3_bind_parameter_count(asker->lookup));
    }
    return err;
}

static bg_err source_sqlite_connect(void *owner, uint64_t deadline, void **connection,
                                    bg_errinfo *info)
{
    struct sqlite_asker *asker = calloc(1, sizeof *asker);
    *connection = NULL;
    if (!asker) {
        return source_no_memory(info);
    }
    bg_err err = sqlite_link_open(&asker->link, owner, false, info);
    if (!err) {
        asker->link.deadline = deadline;
        err = source_sqlite_prepare(asker, info);
    }
    if (err) {
        source_sqlite_disconnect(asker);
        return err;
    }
    *connection = asker;
    return BG_OK;
}

static bool source_sqlite_is_fresh(void *owner, void *connection)
{
    (void)owner;
    return sqlite_link_is_fresh(&((struct sqlite_asker *)connection)->link);
}

/* One question with the key bound already. */
static bg_truth source_sqlite_step(struct sqlite_asker *asker,
                                   struct source_value *value, bg_errinfo *info)
{
    sqlite3_stmt *lookup = asker->lookup;
    const int code = sqlite3_step(lookup);
    bg_truth answer = code == SQLITE_DONE ? BG_TRUTH_ABSENT : BG_TRUTH_ERROR;
    if (code == SQLITE_ROW) {
        answer = BG_TRUTH_PRESENT;
        const int type = sqlite3_column_type(lookup, 0);
        const void *data = type == SQLITE_BLOB   ? sqlite3_column_blob(lookup, 0)
                           : type == SQLITE_NULL ? NULL
                                                 : sqlite3_column_text(lookup, 0);
        source_value_set(value, type != SQLITE_NULL && !data ? "" : data,
                         (size_t)sqlite3_column_bytes(lookup, 0));
    } else if (code != SQLITE_DONE) {
        (void)sqlite_link_error(&asker->link, "lookup", info);
    }
    (void)sqlite3_reset(lookup);
    return answer;
}

static bool source_sqlite_bind(const struct sqlite_asker *asker, bg_bytes key,
                               bool blob)
{
    return (blob ? sqlite3_bind_blob64(asker->lookup, 1, key.data, key.len,
                                       SQLITE_STATIC)
                 : sqlite3_bind_text64(asker->lookup, 1, key.data, key.len,
                                       SQLITE_STATIC, SQLITE_UTF8))
           == SQLITE_OK;
}

static bg_truth source_sqlite_try(struct sqlite_asker *asker, bg_bytes key,
                                  struct source_value *value, bg_errinfo *info)
{
    const uint32_t as = asker->link.source->how.key;
    int64_t number = 0;
    const bool whole = (as == SOURCE_KEY_INTEGER || asker->integers)
                       && (as == SOURCE_KEY_INTEGER || as == SOURCE_KEY_AUTO)
                       && source_integer(key, &number);
    if (as == SOURCE_KEY_INTEGER && !whole) {
        return BG_TRUTH_ABSENT;
    }
    if (whole) {
        (void)sqlite3_bind_int64(asker->lookup, 1, number);
        return source_sqlite_step(asker, value, info);
    }
    bg_truth answer = BG_TRUTH_ABSENT;
    for (int blob = as == SOURCE_KEY_BLOB;
         answer == BG_TRUTH_ABSENT && blob <= (as != SOURCE_KEY_TEXT); blob++) {
        if (!source_sqlite_bind(asker, key, blob)) {
            (void)sqlite_link_error(&asker->link, "lookup", info);
            return BG_TRUTH_ERROR;
        }
        answer = source_sqlite_step(asker, value, info);
    }
    return answer;
}

static bg_truth source_sqlite_ask(struct source *source, void *connection, bg_bytes key,
                                  struct source_value *value, uint64_t deadline,
                                  bool *broken, bg_errinfo *info)
{
    struct sqlite_asker *asker = connection;
    (void)source;
    asker->link.deadline = deadline;
    const bg_truth answer = source_sqlite_try(asker, key, value, info);
    (void)sqlite3_clear_bindings(asker->lookup);
    if (answer == BG_TRUTH_ERROR) {
        const int code = sqlite3_errcode(asker->link.db) & 0xff;
        *broken = code != SQLITE_BUSY && code != SQLITE_INTERRUPT;
    }
    return answer;
}

/* ---- All keys -------------------------------------------------------------------------- */

static bg_err source_sqlite_count(struct source *source, uint64_t *count,
                                  bg_errinfo *info)
{
    struct sqlite_link link;
    int64_t number = 0;
    char *keys = source_sqlite_keys(source);
    char *own = keys ? source_format("SELECT count(*) FROM (%s\n)", keys) : NULL;
    bg_err err =
        own ? sqlite_link_open(&link, source, false, info) : source_no_memory(info);
    free(keys);
    if (!err) {
        err = sqlite_link_number(&link, "keys", own, &number, info);
        sqlite_link_close(&link);
    }
    free(own);
    *count = err || number < 0 ? 0 : (uint64_t)number;
    return err;
}

static bg_err source_sqlite_keys_open(struct source *source, void **made,
                                      bg_errinfo *info)
{
    struct sqlite_reader *reader = calloc(1, sizeof *reader);
    *made = NULL;
    if (!reader) {
        return source_no_memory(info);
    }
    const bg_err err = sqlite_link_open(&reader->link, source, false, info);
    if (err) {
        free(reader);
        return err;
    }
    *made = reader;
    return BG_OK;
}

static bg_err source_sqlite_keys_next(void *context, struct key_batch *batch,
                                      size_t room, bg_errinfo *info)
{
    struct sqlite_reader *reader = context;
    bg_err err = BG_OK;
    if (!reader->query) {
        char *sql = source_sqlite_keys(reader->link.source);
        err =
            sql ? sqlite_link_prepare(&reader->link, "keys", sql, &reader->query, info)
                : source_no_memory(info);
        free(sql);
    }
    while (!err && !reader->ended && batch->n < room && !key_batch_is_full(batch)) {
        const int code = sqlite3_step(reader->query);
        if (code == SQLITE_ROW) {
            err =
                sqlite_link_key(reader->query, batch) ? BG_OK : source_no_memory(info);
        } else if (code == SQLITE_DONE) {
            reader->ended = true;
            (void)sqlite3_reset(reader->query); /* lets go of the read lock */
        } else {
            err = sqlite_link_error(&reader->link, "query", info);
        }
    }
    return err;
}

static bg_err source_sqlite_keys_rewind(void *context, bg_errinfo *info)
{
    struct sqlite_reader *reader = context;
    (void)info;
    (void)sqlite3_reset(reader->query);
    reader->ended = false;
    return BG_OK;
}

static void source_sqlite_keys_close(void *context)
{
    struct sqlite_reader *reader = context;
    (void)sqlite3_finalize(reader->query);
    sqlite_link_close(&reader->link);
    free(reader);
}

/* ---- Is all well? ---------------------------------------------------------------------- */

static bg_err source_sqlite_check(struct source *source, bg_errinfo *info)
{
    void *asker;
    bg_err err = source_sqlite_connect(source, 0, &asker, info);
    if (err) {
        return err;
    }
    source_sqlite_disconnect(asker);
    return err;
}

const struct source_ops source_sqlite_ops = {
    .create = source_sqlite_create,
    .destroy = source_sqlite_destroy,
    .pool = { source_sqlite_connect, source_sqlite_disconnect, source_sqlite_is_fresh },
    .ask = source_sqlite_ask,
    .check = source_sqlite_check,
    .count = source_sqlite_count,
};

const struct source_mode sqlite_plain_mode = {
    .keys_open = source_sqlite_keys_open,
    .keys_next = source_sqlite_keys_next,
    .keys_rewind = source_sqlite_keys_rewind,
    .keys_close = source_sqlite_keys_close,
};

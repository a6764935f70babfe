/*
 * sqlite_stream.c - see sqlite_stream.h.
 *
 * Rows are read from the number of the last one on. If numbers are not unique (a column may be a
 * time), or that row has to be looked at (appended), that one is included. They come out of the owner's query, as a subquery, which SQLite
 * flattens: an index on the column, or the rowid, is used.
 *
 * What can go wrong with rowids. SQLite gives a new row the highest number plus one. Without
 * AUTOINCREMENT the number of a deleted last row is given out again, and a reader that has seen it
 * does not look there any more. Worse, a table that was emptied and filled again may have any
 * keys at the numbers of before. That cannot be seen from outside, so `rowid` insists on
 * AUTOINCREMENT, and `appended` is the owner's word that nothing is deleted; that the last row is
 * gone is noticed and means that something may have been missed.
 */
#include "sqlite_stream.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Which column ---------------------------------------------------------------------- */

static bool sqlite_stream_is_rowid(struct sqlite_stream *s, sqlite3_stmt *query, int i,
                                   bool *steady)
{
    static const char *const names[] = { "rowid", "_rowid_", "oid" };
    const char *origin = sqlite3_column_origin_name(query, i);
    const char *table = sqlite3_column_table_name(query, i);
    const char *type = NULL;
    int key = 0, counted = 0;
    if (!origin || !table) {
        return false;
    }
    *steady = false;
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        if (strcasecmp(origin, names[name]) == 0) {
            return true;
        }
    }
    if (sqlite3_table_column_metadata(s->link.db, NULL, table, origin, &type, NULL,
                                      NULL, &key, &counted)
            != SQLITE_OK
        || !key || !type || strcasecmp(type, "INTEGER") != 0) {
        return false;
    }
    *steady = counted;
    return true;
}

static bg_err sqlite_stream_find_rowid(struct sqlite_stream *s, sqlite3_stmt *query,
                                       bg_errinfo *info)
{
    const bool promised = s->link.source->by == FOLLOW_APPENDED;
    const int n = sqlite3_column_count(query);
    for (int i = 0; i < n; i++) {
        bool steady = false;
        if (sqlite_stream_is_rowid(s, query, i, &steady)) {
            s->number = i;
            return steady || promised
                       ? BG_OK
                       : source_error(
                           info, BG_EINVAL, "follow=rowid",
                           "AUTOINCREMENT, or follow=appended if nobody deletes",
                           "a table that gives out numbers again");
        }
    }
    return source_error(info, BG_EINVAL, "follow",
                        "a query that has the rowid: SELECT key, rowid FROM ...",
                        "%d columns without it", n);
}

static bg_err sqlite_stream_find(struct sqlite_stream *s, sqlite3_stmt *query,
                                 bg_errinfo *info)
{
    const struct source *source = s->link.source;
    if (source->by != FOLLOW_COLUMN) {
        return sqlite_stream_find_rowid(s, query, info);
    }
    const int n = sqlite3_column_count(query);
    for (s->number = 0; s->number < n; s->number++) {
        if (strcasecmp(sqlite3_column_name(query, s->number), source->column) == 0) {
            return BG_OK;
        }
    }
    return source_error(info, BG_EINVAL, "follow",
                        "a column of the query: SELECT key, column FROM ...",
                        "column:%s, which it has not", source->column);
}

/* ---- Life ------------------------------------------------------------------------------ */

/* The rows to be read, as SQL: what the owner's query gives, or the table of changes. */
static char *sqlite_stream_rows(struct sqlite_stream *s, bg_errinfo *info)
{
    const struct source *source = s->link.source;
    sqlite3_stmt *query;
    char *rows = NULL;
    if (s->changes) {
        char *table = sqlite_install_table(source);
        char *quoted = table ? source_quote(table) : NULL;
        s->table = table;
        s->number = 1;
        s->column = strdup("\"n\"");
        rows = quoted ? source_format("SELECT key, n FROM %s", quoted) : NULL;
        free(quoted);
    } else if (!sqlite_link_prepare(&s->link, "query", source->how.query, &query,
                                    info)) {
        if (!sqlite_stream_find(s, query, info)) {
            s->column = source_quote(sqlite3_column_name(query, s->number));
            rows = strdup(source->how.query);
        }
        (void)sqlite3_finalize(query);
    } else {
        return NULL;
    }
    if (rows && s->column) {
        return rows;
    }
    if (s->column || s->changes) {
        (void)source_no_memory(info);
    }
    free(rows);
    return NULL;
}

static bg_err sqlite_stream_prepare(struct sqlite_stream *s, bg_errinfo *info)
{
    bg_errinfo why = { .code = BG_EIO };
    char *rows = sqlite_stream_rows(s, &why);
    if (!rows) {
        if (info) {
            *info = why;
        }
        return why.code;
    }
    const enum source_follow_by by = s->link.source->by;
    const bool unique = by == FOLLOW_ROWID || by == FOLLOW_TRIGGER;
    char *from = source_format("SELECT * FROM (%s\n) WHERE %s %s ?1 ORDER BY %s", rows,
                               s->column, unique ? ">" : ">=", s->column);
    char *all = source_format("SELECT * FROM (%s\n) ORDER BY %s", rows, s->column);
    bg_err err = from && all ? BG_OK : source_no_memory(info);
    err = err ? err : sqlite_link_prepare(&s->link, "follow", from, &s->from, info);
    err = err ? err : sqlite_link_prepare(&s->link, "follow", all, &s->all, info);
    err = err ? err
              : sqlite_link_prepare(&s->link, "follow", "PRAGMA data_version",
                                    &s->version, info);
    free(from);
    free(all);
    free(rows);
    return err;
}

bg_err sqlite_stream_open(struct source *source, struct sqlite_stream **stream,
                          bg_errinfo *info)
{
    struct sqlite_stream *s = calloc(1, sizeof *s);
    *stream = NULL;
    if (!s) {
        return source_no_memory(info);
    }
    s->changes = source->by == FOLLOW_TRIGGER;
    bg_err err = s->changes && source->how.install != SOURCE_INSTALL_NO
                     ? sqlite_install(source, info)
                     : BG_OK;
    err = err ? err : sqlite_link_open(&s->link, source, false, info);
    err = err ? err : sqlite_stream_prepare(s, info);
    if (err) {
        sqlite_stream_close(s);
        return err;
    }
    *stream = s;
    return BG_OK;
}

void sqlite_stream_close(struct sqlite_stream *s)
{
    if (s) {
        (void)sqlite3_finalize(s->from);
        (void)sqlite3_finalize(s->all);
        (void)sqlite3_finalize(s->version);
        sqlite3_value_free(s->low);
        sqlite_link_close(&s->link);
        free(s->column);
        free(s->table);
        free(s);
    }
}

/* ---- Reading --------------------------------------------------------------------------- */

bg_err sqlite_stream_versions(struct sqlite_stream *s, int64_t *data, int64_t *schema,
                              bg_errinfo *info)
{
    const int code = sqlite3_step(s->version);
    *data = code == SQLITE_ROW ? sqlite3_column_int64(s->version, 0) : 0;
    (void)sqlite3_reset(s->version);
    return code == SQLITE_ROW ? sqlite_link_number(
               &s->link, "follow", "PRAGMA schema_version", schema, info)
                              : sqlite_link_error(&s->link, "follow", info);
}

static bg_err sqlite_stream_set_low(struct sqlite_stream *s, sqlite3_value *value,
                                    bg_errinfo *info)
{
    sqlite3_value *copy = sqlite3_value_dup(value);
    if (!copy) {
        return source_no_memory(info);
    }
    sqlite3_value_free(s->low);
    s->low = copy;
    return BG_OK;
}

/* The number of the last change, also if that was pruned since. */
static char *sqlite_stream_last_change(const struct sqlite_stream *s)
{
    char *sql = sqlite3_mprintf("SELECT seq FROM sqlite_sequence WHERE name = %Q"
                                " AND seq > 0",
                                s->table);
    char *copy = sql ? strdup(sql) : NULL;
    sqlite3_free(sql);
    return copy;
}

bg_err sqlite_stream_start(struct sqlite_stream *s, bg_errinfo *info)
{
    sqlite3_stmt *top = NULL;
    char *sql = s->changes ? sqlite_stream_last_change(s)
                           : source_format("SELECT %s FROM (%s\n) WHERE %s IS NOT NULL"
                                           " ORDER BY %s DESC LIMIT 1",
                                           s->column, s->link.source->how.query,
                                           s->column, s->column);
    bg_err err = sql ? sqlite_link_prepare(&s->link, "follow", sql, &top, info)
                     : source_no_memory(info);
    free(sql);
    if (err) {
        return err;
    }
    sqlite3_value_free(s->low);
    s->low = NULL;
    const int code = sqlite3_step(top);
    if (code == SQLITE_ROW) {
        err = sqlite_stream_set_low(s, sqlite3_column_value(top, 0), info);
    } else if (code != SQLITE_DONE) {
        err = sqlite_link_error(&s->link, "follow", info);
    }
    (void)sqlite3_finalize(top);
    return err;
}

/* Binds where to begin: the position, or some way before it. */
static bg_err sqlite_stream_bind(struct sqlite_stream *s, bg_errinfo *info)
{
    const struct source *source = s->link.source;
    const double back = source->by == FOLLOW_COLUMN ? source->how.overlap : 0;
    const int type = sqlite3_value_type(s->low);
    if (!(back > 0)) {
        (void)sqlite3_bind_value(s->from, 1, s->low);
    } else if (type == SQLITE_INTEGER && back < 9e18) {
        const int64_t low = sqlite3_value_int64(s->low), by = (int64_t)back;
        (void)sqlite3_bind_int64(s->from, 1,
                                 low < INT64_MIN + by ? INT64_MIN : low - by);
    } else if (type == SQLITE_FLOAT) {
        (void)sqlite3_bind_double(s->from, 1, sqlite3_value_double(s->low) - back);
    } else {
        return source_error(info, BG_EINVAL, "overlap", "0, for a column of text", "%g",
                            back);
    }
    return BG_OK;
}

/* Tells all rows of a statement; *rows is how many there were. */
static bg_err sqlite_stream_tell(struct sqlite_stream *s, sqlite3_stmt *statement,
                                 uint64_t *rows, bg_errinfo *info)
{
    struct source *source = s->link.source;
    struct key_batch batch = { .n = 0 };
    bg_err err = BG_OK;
    int code = SQLITE_DONE;
    while (!err && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        ++*rows;
        err = sqlite_link_key(statement, &batch) ? BG_OK : source_no_memory(info);
        if (!err && sqlite3_column_type(statement, s->number) != SQLITE_NULL) {
            err = sqlite_stream_set_low(s, sqlite3_column_value(statement, s->number),
                                        info);
        }
        if (key_batch_is_full(&batch)) {
            source_tell_keys(source, &batch);
        }
    }
    if (!err && code != SQLITE_DONE) {
        err = sqlite_link_error(&s->link, "follow", info);
    }
    (void)sqlite3_reset(statement);
    source_tell_keys(source, &batch);
    key_batch_free(&batch);
    return err;
}

/* Whether changes were pruned before they were read. */
static bg_err sqlite_stream_is_pruned(struct sqlite_stream *s, bool *pruned,
                                      bg_errinfo *info)
{
    char *quoted = source_quote(s->table);
    char *sql = quoted ? source_format("SELECT min(n) FROM %s", quoted) : NULL;
    int64_t first = 0;
    bg_err err = sql ? sqlite_link_number(&s->link, "follow", sql, &first, info)
                     : source_no_memory(info);
    free(sql);
    free(quoted);
    *pruned = !err && first > (int64_t)sqlite_stream_position(s) + 1;
    return err == BG_ENOTFOUND ? BG_OK : err;
}

bg_err sqlite_stream_read(struct sqlite_stream *s, bool *missed, bg_errinfo *info)
{
    uint64_t rows = 0;
    bg_err err = BG_OK;
    *missed = false;
    if (s->changes) {
        err = sqlite_stream_is_pruned(s, missed, info);
    }
    if (err || *missed) {
        return err;
    }
    if (!s->low) {
        return sqlite_stream_tell(s, s->all, &rows, info);
    }
    err = sqlite_stream_bind(s, info);
    err = err ? err : sqlite_stream_tell(s, s->from, &rows, info);
    *missed = !err && rows == 0 && s->link.source->by == FOLLOW_APPENDED;
    return err;
}

uint64_t sqlite_stream_position(const struct sqlite_stream *s)
{
    const bool number = s->low && sqlite3_value_type(s->low) == SQLITE_INTEGER;
    const int64_t value = number ? sqlite3_value_int64(s->low) : 0;
    return value > 0 ? (uint64_t)value : 0;
}

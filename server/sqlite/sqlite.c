/*
 * sqlite/sqlite.c - SQLite as a source: lookups. Reading and following are in sqlite/reader.c and
 * sqlite/changes.c.
 *
 * The type of a key. A key is a sequence of bytes, but in SQLite, 42, '42' and x'3432' are three different values, and
 * a column can contain all of them. So, unless the `key` setting selects a type, a lookup tries each type that the key
 * may have in the column. If the column is not declared as text and the key looks like a number, the lookup tries
 * a number first. It then tries text, and finally a blob. The key is absent only if none of these attempts finds
 * a row.
 */
#include "sqlite/reader.h"
#include "sqlite/schema.h"

#include <stdlib.h>
#include <string.h>

/* A connection for lookups. */
struct sqlite_asker {
    struct sqlite_link link;
    sqlite3_stmt *lookup;
    bool numbers;   /* the key columns can hold numbers */
    uint64_t epoch; /* epoch in which the connection was opened */
};

/* ---- Life ------------------------------------------------------------------------------ */

static bg_err source_sqlite_create(struct source *source, bg_errinfo *info)
{
    if (!*source->place || strcmp(source->place, ":memory:") == 0) {
        return source_error(info, BG_EINVAL, "source", "sqlite: followed by a path",
                            "%s", source->how.url);
    }
    if (source->by == FOLLOW_LOGICAL) {
        return source_error(info, BG_EINVAL, "follow", "changes or none for SQLite",
                            "%s", source->how.follow);
    }
    source->mode =
        source->by == FOLLOW_CHANGES ? &sqlite_changes_mode : &sqlite_plain_mode;
    return BG_OK;
}

/* ---- Connections ----------------------------------------------------------------------- */

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

static bg_err source_sqlite_prepare(struct sqlite_asker *asker, bg_errinfo *info)
{
    struct sqlite_link *link = &asker->link;
    enum key_form form;
    bg_err err = sqlite_schema_columns(link, &form, info);
    if (err && err != BG_EINVAL) {
        return err;
    }
    /* source_check_lookup rejects columns that cannot be keys, but lookups can still query such columns, which may contain
     * numbers. */
    asker->numbers = err || (form != KEY_FORM_BYTES && form != KEY_FORM_ASCII);
    err = sqlite_link_prepare(link, "lookup", &asker->lookup, info, "%s",
                              link->source->how.lookup);
    if (!err && sqlite3_bind_parameter_count(asker->lookup) != 1) {
        err = source_error(
            info, BG_EINVAL, "lookup", NULL,
            "the statement has %d parameters instead of one; use SELECT ... WHERE key = ?",
            sqlite3_bind_parameter_count(asker->lookup));
    }
    return err;
}

static bg_err source_sqlite_connect(void *owner, uint64_t deadline, void **connection,
                                    bg_errinfo *info)
{
    struct source *source = owner;
    struct sqlite_asker *asker = calloc(1, sizeof *asker);
    *connection = NULL;
    if (!asker) {
        return source_no_memory(info);
    }
    asker->epoch = atomic_load(&source->epoch);
    bg_err err = sqlite_link_open(&asker->link, source, false, info);
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
    const struct source *source = owner;
    const struct sqlite_asker *asker = connection;
    return asker->epoch == atomic_load(&source->epoch)
           && sqlite_link_is_fresh(&asker->link)
           && sqlite_link_is_unchanged(&asker->link);
}

/* ---- Lookups --------------------------------------------------------------------------- */

enum bind_as { BIND_INTEGER, BIND_REAL, BIND_TEXT, BIND_BLOB, BIND_TYPES };

/* Returns whether a lookup tries this type. */
static bool source_sqlite_tries(const struct sqlite_asker *asker, enum bind_as type)
{
    switch (asker->link.source->how.key) {
    case SOURCE_KEY_TEXT: return type == BIND_TEXT;
    case SOURCE_KEY_BLOB: return type == BIND_BLOB;
    case SOURCE_KEY_INTEGER: return type == BIND_INTEGER;
    default: return asker->numbers || type == BIND_TEXT || type == BIND_BLOB;
    }
}

/* Parses decimal text with a point or an exponent. */
static bool source_sqlite_real(bg_bytes key, double *number)
{
    char text[64], *end;
    const char *bytes = key.data;
    if (key.len == 0 || key.len >= sizeof text) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (!bytes[i] || !strchr("0123456789+-.eE", bytes[i])) {
            return false;
        }
    }
    memcpy(text, bytes, key.len);
    text[key.len] = 0;
    *number = strtod(text, &end);
    return !*end;
}

/* Binds the key. Sets *fits if the key can be bound as this type. Returns a SQLite result code. */
static int source_sqlite_bind(sqlite3_stmt *lookup, bg_bytes key, enum bind_as type,
                              bool *fits)
{
    int64_t integer = 0;
    double real = 0;
    *fits = true;
    switch (type) {
    case BIND_INTEGER:
        *fits = source_integer(key, &integer);
        return *fits ? sqlite3_bind_int64(lookup, 1, integer) : SQLITE_OK;
    case BIND_REAL:
        *fits = !source_integer(key, &integer) && source_sqlite_real(key, &real);
        return *fits ? sqlite3_bind_double(lookup, 1, real) : SQLITE_OK;
    case BIND_TEXT:
        return sqlite3_bind_text64(lookup, 1, key.data, key.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    default: return sqlite3_bind_blob64(lookup, 1, key.data, key.len, SQLITE_STATIC);
    }
}

/* Adds a column of the current row. Numbers are converted to text. */
static void source_sqlite_column(sqlite3_stmt *lookup, int i, struct store_row *row)
{
    const char *name = sqlite3_column_name(lookup, i);
    const int type = sqlite3_column_type(lookup, i);
    const void *data = type == SQLITE_NULL   ? NULL
                       : type == SQLITE_BLOB ? sqlite3_column_blob(lookup, i)
                                             : sqlite3_column_text(lookup, i);
    const size_t len = (size_t)sqlite3_column_bytes(lookup, i);
    const bool empty = type == SQLITE_BLOB && len == 0;
    if (!name || (type != SQLITE_NULL && !data && !empty)) {
        store_row_set_no_memory(row);
    } else {
        store_row_add(row, name, empty ? "" : data, len);
    }
}

/* Runs the lookup with the bound key. */
static bg_store_answer source_sqlite_step(struct sqlite_asker *asker,
                                          struct store_row *row, bg_errinfo *info)
{
    sqlite3_stmt *lookup = asker->lookup;
    const int code = sqlite3_step(lookup);
    bg_store_answer answer = code == SQLITE_DONE ? BG_STORE_ABSENT : BG_STORE_ERROR;
    if (code == SQLITE_ROW) {
        answer = BG_STORE_PRESENT;
        store_row_begin(row);
        for (int i = 0; row && i < sqlite3_column_count(lookup); i++) {
            source_sqlite_column(lookup, i, row);
        }
    } else if (code != SQLITE_DONE) {
        (void)sqlite_link_error(&asker->link, "lookup", info);
    }
    (void)sqlite3_reset(lookup);
    return answer;
}

static bg_store_answer source_sqlite_try(struct sqlite_asker *asker, bg_bytes key,
                                         struct store_row *row, bg_errinfo *info)
{
    bg_store_answer answer = BG_STORE_ABSENT;
    for (int type = 0; answer == BG_STORE_ABSENT && type < BIND_TYPES; type++) {
        bool fits;
        if (!source_sqlite_tries(asker, (enum bind_as)type)) {
            continue;
        }
        if (source_sqlite_bind(asker->lookup, key, (enum bind_as)type, &fits)
            != SQLITE_OK) {
            (void)sqlite_link_error(&asker->link, "lookup", info);
            return BG_STORE_ERROR;
        }
        answer = fits ? source_sqlite_step(asker, row, info) : BG_STORE_ABSENT;
    }
    return answer;
}

static bg_store_answer source_sqlite_ask(struct source *source, void *connection,
                                         bg_bytes key, struct store_row *row,
                                         uint64_t deadline, bool *broken,
                                         bg_errinfo *info)
{
    struct sqlite_asker *asker = connection;
    (void)source;
    asker->link.deadline = deadline;
    const bg_store_answer answer = source_sqlite_try(asker, key, row, info);
    (void)sqlite3_clear_bindings(asker->lookup);
    /* SQLite recompiled the lookup because the schema changed. The type of the column may have changed as well. */
    if (answer == BG_STORE_ABSENT
        && sqlite3_stmt_status(asker->lookup, SQLITE_STMTSTATUS_REPREPARE, 0) > 0) {
        *broken = true;
        (void)source_error(info, BG_EIO, "lookup", NULL,
                           "the schema changed during the lookup; retry the lookup");
        return BG_STORE_ERROR;
    }
    if (answer == BG_STORE_ERROR) {
        const int code = sqlite3_errcode(asker->link.db) & 0xff;
        *broken = code != SQLITE_BUSY && code != SQLITE_INTERRUPT;
    }
    return answer;
}

/* ---- Checks ---------------------------------------------------------------------------- */

static bg_err source_sqlite_check(struct source *source, bg_errinfo *info)
{
    void *connection;
    enum key_form form;
    bg_err err = source_sqlite_connect(source, 0, &connection, info);
    if (err) {
        return err;
    }
    struct sqlite_asker *asker = connection;
    err = sqlite_schema_columns(&asker->link, &form, info);
    if (!err) {
        atomic_store(&source->form, (int)form);
    }
    source_sqlite_disconnect(connection);
    return err;
}

const struct source_ops source_sqlite_ops = {
    .create = source_sqlite_create,
    .pool = { source_sqlite_connect, source_sqlite_disconnect, source_sqlite_is_fresh },
    .ask = source_sqlite_ask,
    .check = source_sqlite_check,
    .count = sqlite_reader_count,
};

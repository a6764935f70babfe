/*
 * sqlite/schema.c - see sqlite/schema.h.
 *
 * Update triggers. `AFTER UPDATE` has no column list, because `UPDATE OF id` does not fire for `SET rowid = ...` or
 * for a generated column. Instead, the trigger compares the old and the new key by type and bytes. A comparison by
 * value would miss changes that the column's collation or affinity ignores, such as a change from 5 to 5.0. NEW
 * contains the values after conversion to the column's type.
 *
 * Other triggers. An AFTER trigger that executes RAISE(IGNORE) skips the triggers that have not run yet, without
 * undoing the change. Such AFTER triggers are therefore refused. A BEFORE trigger that executes RAISE(IGNORE)
 * prevents the change, so it is allowed.
 *
 * A trigger that executes RAISE(FAIL), or INSERT OR FAIL with a violated constraint, also skips the triggers that
 * have not run yet and keeps the row. Any AFTER trigger can fail in this way. SQLite runs the newest trigger first
 * (the one with the largest rowid in sqlite_master), so the gate's triggers must be newer than all of the
 * application's AFTER triggers. Otherwise, the gate's triggers are created again.
 *
 * The change table. An index or a trigger on the change table could suppress rows: if an application runs
 * INSERT OR IGNORE, the OR IGNORE also applies to the statements inside the triggers that the INSERT fires.
 * The change table must therefore have no additional indexes or triggers.
 */
#include "sqlite/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char sqlite_objects_sign[] = "/* created by bloomgate */";

/* ---- Objects --------------------------------------------------------------------------- */

static bool objects_add(struct sqlite_objects *objects, const char *type, char *name,
                        const char *table, char *sql)
{
    objects->list[objects->n++] = (struct sqlite_object){ type, name, table, sql };
    return name && sql;
}

/* Adds the triggers for a key column. */
static bool objects_add_triggers(const struct source *source, size_t i,
                                 struct sqlite_objects *objects)
{
    const struct key_column *column = &source->columns.list[i];
    char what[16];
    const char *key = column->sql_column;
    char *table = source_quote(column->table); /* without the schema, "main" or none */
    (void)snprintf(what, sizeof what, "insert_%zu", i);
    char *insert = source_object(source, what);
    (void)snprintf(what, sizeof what, "update_%zu", i);
    char *update = source_object(source, what);
    bool made = table && insert && update;
    char *body = made ? source_format("BEGIN %s INSERT INTO \"%s\" (token, key)"
                                      " VALUES (random(), NEW.%s); END",
                                      sqlite_objects_sign, objects->changes, key)
                      : NULL;
    char *on_insert = body ? source_format("CREATE TRIGGER \"%s\" AFTER INSERT ON %s"
                                           " WHEN NEW.%s IS NOT NULL %s",
                                           insert, table, key, body)
                           : NULL;
    char *on_update =
        body ? source_format(
            "CREATE TRIGGER \"%s\" AFTER UPDATE ON %s"
            " WHEN NEW.%s IS NOT NULL AND (typeof(NEW.%s) <> typeof(OLD.%s)"
            " OR CAST(NEW.%s AS BLOB) <> CAST(OLD.%s AS BLOB)) %s",
            update, table, key, key, key, key, key, body)
             : NULL;
    made = objects_add(objects, "trigger", insert, column->table, on_insert) && made;
    made = objects_add(objects, "trigger", update, column->table, on_update) && made;
    free(body);
    free(table);
    return made;
}

bg_err sqlite_objects_make(const struct source *source, struct sqlite_objects *objects,
                           bg_errinfo *info)
{
    *objects = (struct sqlite_objects){ .n = 0 };
    char *name = source_object(source, "changes");
    char *base = source_object(source, "");
    objects->changes = name;
    objects->prefix = base ? source_format("%s_", base) : NULL;
    free(base);
    char *sql = name ? source_format("CREATE TABLE \"%s\" (%s n INTEGER PRIMARY KEY"
                                     " AUTOINCREMENT, token, key)",
                                     name, sqlite_objects_sign)
                     : NULL;
    bool made = objects_add(objects, "table", name, name, sql) && objects->prefix;
    for (size_t i = 0; made && i < source->columns.n; i++) {
        made = objects_add_triggers(source, i, objects);
    }
    return made ? BG_OK : source_no_memory(info);
}

void sqlite_objects_free(struct sqlite_objects *objects)
{
    for (size_t i = 0; i < objects->n; i++) {
        free(objects->list[i].name);
        free(objects->list[i].sql);
    }
    free(objects->prefix);
    *objects = (struct sqlite_objects){ .n = 0 };
}

/* ---- Statements ------------------------------------------------------------------------ */

/* Prepares a query with up to two text parameters. */
static bg_err schema_query(struct sqlite_link *link, const char *sql, const char *first,
                           const char *second, sqlite3_stmt **rows, bg_errinfo *info)
{
    const bg_err err = sqlite_link_prepare(link, "keys", rows, info, "%s", sql);
    if (err) {
        return err;
    }
    const bool bound =
        sqlite3_bind_text(*rows, 1, first, -1, SQLITE_STATIC) == SQLITE_OK
        && (!second
            || sqlite3_bind_text(*rows, 2, second, -1, SQLITE_STATIC) == SQLITE_OK);
    if (!bound) {
        (void)sqlite3_finalize(*rows);
        *rows = NULL;
        return source_no_memory(info);
    }
    return BG_OK;
}

static bg_err schema_refuse(const struct key_column *column, const char *advice,
                            const char *problem, bg_errinfo *info)
{
    return source_error(info, BG_EINVAL, "keys", NULL, "%.40s(%.40s): %s; %s",
                        column->table, column->column, problem, advice);
}

/* Prepares a query about a key column, and reads its first row. Errors: BG_EINVAL with the problem `none` if there is no
 * row. The caller finalizes *rows, even after an error. */
static bg_err schema_first(struct sqlite_link *link, const struct key_column *column,
                           const char *sql, const char *second, const char *none,
                           sqlite3_stmt **rows, bg_errinfo *info)
{
    const bg_err err = schema_query(link, sql, column->table, second, rows, info);
    const int code = err ? SQLITE_ROW : sqlite3_step(*rows);
    return code == SQLITE_ROW ? err
           : code == SQLITE_DONE
               ? schema_refuse(column, "create it, or correct `keys`", none, info)
               : sqlite_link_error(link, "keys", info);
}

static const char *schema_text(sqlite3_stmt *rows, int i)
{
    const unsigned char *text = sqlite3_column_text(rows, i);
    return text ? (const char *)text : "";
}

bg_err sqlite_schema_version(struct sqlite_link *link, int64_t *version,
                             bg_errinfo *info)
{
    return sqlite_link_number(link, "source", version, info, "PRAGMA schema_version");
}

/* ---- Key columns ----------------------------------------------------------------------- */

static bg_err schema_table(struct sqlite_link *link, const struct key_column *column,
                           bg_errinfo *info)
{
    sqlite3_stmt *rows;
    if (*column->schema && strcasecmp(column->schema, "main") != 0) {
        return schema_refuse(
            column, "use a table in the database file itself, without a schema name",
            "it is in a different schema", info);
    }
    bg_err err =
        schema_first(link, column,
                     "SELECT type, rootpage FROM main.sqlite_master WHERE name = ?1"
                     " COLLATE NOCASE AND type IN ('table', 'view')",
                     NULL, "no such table", &rows, info);
    if (!err && strcmp(schema_text(rows, 0), "view") == 0) {
        err = schema_refuse(column, "list columns of its base tables instead",
                            "it is a view", info);
    } else if (!err && sqlite3_column_int64(rows, 1) == 0) {
        err = schema_refuse(column, "use an ordinary table, which can have triggers",
                            "it is a virtual table", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

/* Verifies that the table declares the column. Refuses an alias of rowid, because VACUUM may change the rowid. Also
 * refuses a virtual column, because its values may depend on the connection. */
static bg_err schema_declared(struct sqlite_link *link, const struct key_column *column,
                              bg_errinfo *info)
{
    sqlite3_stmt *rows;
    bg_err err = schema_first(link, column,
                              "SELECT hidden FROM pragma_table_xinfo(?1, 'main')"
                              " WHERE name = ?2 COLLATE NOCASE",
                              column->column, "no such column", &rows, info);
    if (!err && sqlite3_column_int(rows, 0) == 2) {
        err = schema_refuse(column, "use GENERATED ... STORED",
                            "it is a virtual generated column", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

static bg_err schema_form(struct sqlite_link *link, const struct key_column *column,
                          bool utf8, enum key_form *form, bg_errinfo *info)
{
    const char *type = NULL, *collation = NULL;
    if (sqlite3_table_column_metadata(link->db, "main", column->table, column->column,
                                      &type, &collation, NULL, NULL, NULL)
        != SQLITE_OK) {
        return sqlite_link_error(link, "keys", info);
    }
    *form = key_form_of_sqlite(type, collation, utf8);
    if (*form != KEY_FORM_UNKNOWN) {
        return BG_OK;
    }
    if (strcasecmp(collation, "BINARY") != 0) {
        char found[96];
        (void)snprintf(found, sizeof found, "it has collation %.60s", collation);
        return schema_refuse(column,
                             "store normalized keys in a column with collation BINARY",
                             found, info);
    }
    if (utf8) {
        return schema_refuse(column,
                             "store the keys in a column of type INTEGER or TEXT",
                             "its values are floating-point numbers", info);
    }
    char found[96];
    (void)snprintf(found, sizeof found, "%s%.60s is supported only in UTF-8 databases",
                   type && *type ? "type " : "a column without a type",
                   type ? type : "");
    return schema_refuse(column, "use type INTEGER or TEXT", found, info);
}

static bg_err schema_encoding(struct sqlite_link *link, bool *utf8, bg_errinfo *info)
{
    int64_t number = 0;
    const bg_err err =
        sqlite_link_number(link, "source", &number, info,
                           "SELECT encoding = 'UTF-8' FROM pragma_encoding");
    *utf8 = number != 0;
    return err;
}

bg_err sqlite_schema_columns(struct sqlite_link *link, enum key_form *form,
                             bg_errinfo *info)
{
    const struct key_columns *columns = &link->source->columns;
    bool utf8 = false;
    bg_err err = schema_encoding(link, &utf8, info);
    *form = KEY_FORM_UNKNOWN;
    for (size_t i = 0; !err && i < columns->n; i++) {
        const struct key_column *column = &columns->list[i];
        enum key_form own = KEY_FORM_UNKNOWN;
        err = schema_table(link, column, info);
        err = err ? err : schema_declared(link, column, info);
        err = err ? err : schema_form(link, column, utf8, &own, info);
        if (!err && i > 0 && own != *form) {
            err = schema_refuse(column, "use one gate per type",
                                "its type differs from that of the first key column",
                                info);
        }
        *form = own;
    }
    return err;
}

/* ---- Verification ---------------------------------------------------------------------- */

/* Compares a row of sqlite_master with the expected object. */
static bg_err schema_compare(sqlite3_stmt *row, const struct sqlite_objects *objects,
                             size_t *found, bg_errinfo *info)
{
    const char *type = schema_text(row, 0), *name = schema_text(row, 1);
    for (size_t i = 0; i < objects->n; i++) {
        const struct sqlite_object *object = &objects->list[i];
        if (strcmp(type, object->type) == 0 && strcmp(name, object->name) == 0
            && strcasecmp(schema_text(row, 2), object->table) == 0
            && strcmp(schema_text(row, 3), object->sql) == 0) {
            ++*found;
            return BG_OK;
        }
    }
    if (strncmp(name, objects->prefix, strlen(objects->prefix)) != 0) {
        return source_error(
            info, BG_EINVAL, "change table", NULL,
            "%s %s is defined on this table; drop it, because it could suppress or "
            "change rows",
            type, name);
    }
    return source_error(info, BG_ENOTFOUND, "objects", NULL, "%s %s has different SQL",
                        type, name);
}

static bg_err schema_verify_objects(struct sqlite_link *link, bg_errinfo *info)
{
    const struct sqlite_objects *objects = sqlite_objects(link->source);
    sqlite3_stmt *rows;
    size_t found = 0;
    int code = SQLITE_DONE;
    bg_err err = schema_query(link,
                              "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
                              " WHERE substr(name, 1, length(?1)) = ?1"
                              " OR tbl_name = ?2 COLLATE NOCASE",
                              objects->prefix, objects->changes, &rows, info);
    while (!err && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        err = schema_compare(rows, objects, &found, info);
    }
    if (!err && code != SQLITE_DONE) {
        err = sqlite_link_error(link, "keys", info);
    }
    (void)sqlite3_finalize(rows);
    if (!err && found != objects->n) {
        err = source_error(info, BG_ENOTFOUND, "objects", NULL,
                           "only %zu of %zu objects exist (the change table and its"
                           " triggers)",
                           found, objects->n);
    }
    return err;
}

/* Returns the text after any leading blanks and comments. */
static const char *schema_after_blanks(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\f\r\n");
        if (strncmp(at, "--", 2) == 0) {
            at += strcspn(at, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* Returns the text after a leading identifier, which may be quoted. */
static const char *schema_after_name(const char *at)
{
    if (!*at || !strchr("\"'`[", *at)) {
        return at + strcspn(at, " \t\f\r\n-/");
    }
    const char close = (char)(*at == '[' ? ']' : *at);
    for (at++; *at && (*at != close || at[1] == close); at++) {
        at += *at == close; /* a doubled quote */
    }
    return *at ? at + 1 : at;
}

/* Returns whether the SQL is "CREATE TRIGGER name BEFORE ...". */
static bool schema_is_before(const char *sql)
{
    static const char create[] = "CREATE TRIGGER ", before[] = "BEFORE";
    if (strlen(sql) < sizeof create
        || strncasecmp(sql, create, sizeof create - 1) != 0) {
        return false;
    }
    const char *name = schema_after_blanks(sql + sizeof create - 1);
    const char *time = schema_after_blanks(schema_after_name(name));
    return strncasecmp(time, before, sizeof before - 1) == 0;
}

/* Returns whether a trigger may prevent other triggers from running. */
static bool schema_skips(const char *sql)
{
    static const char raise[] = "raise", ignore[] = "ignore";
    if (schema_is_before(sql)) {
        return false;
    }
    for (const char *at = sql; (at = strcasestr(at, raise)); at++) {
        const char *open = schema_after_blanks(at + sizeof raise - 1);
        if (*open == '('
            && strncasecmp(schema_after_blanks(open + 1), ignore, sizeof ignore - 1)
                   == 0) {
            return true;
        }
    }
    return false;
}

/* Verifies one trigger of a key table. */
static bg_err schema_verify_trigger(sqlite3_stmt *row, bg_errinfo *info)
{
    const char *name = schema_text(row, 0), *sql = schema_text(row, 1);
    const bool newer = sqlite3_column_int(row, 2) != 0;
    if (schema_skips(sql)) {
        return source_error(info, BG_EINVAL, "keys", NULL,
                            "trigger %.60s can skip other triggers with RAISE(IGNORE);"
                            " make it a BEFORE trigger",
                            name);
    }
    /* Other gates' triggers cannot fail, so they may run first. */
    if (newer && !schema_is_before(sql) && !strstr(sql, sqlite_objects_sign)) {
        return source_error(info, BG_ENOTFOUND, "objects", NULL,
                            "trigger %.60s runs before the triggers of the gate", name);
    }
    return BG_OK;
}

static bg_err schema_verify_triggers(struct sqlite_link *link, const char *table,
                                     bg_errinfo *info)
{
    sqlite3_stmt *rows;
    int code = SQLITE_DONE;
    bg_err err =
        schema_query(link,
                     "WITH own AS (SELECT min(rowid) AS oldest FROM main.sqlite_master"
                     " WHERE type = 'trigger' AND substr(name, 1, length(?2)) = ?2)"
                     " SELECT name, sql, rowid > oldest FROM main.sqlite_master, own"
                     " WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
                     table, sqlite_objects(link->source)->prefix, &rows, info);
    while (!err && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        err = schema_verify_trigger(rows, info);
    }
    if (!err && code != SQLITE_DONE) {
        err = sqlite_link_error(link, "keys", info);
    }
    (void)sqlite3_finalize(rows);
    return err;
}

bg_err sqlite_schema_verify(struct sqlite_link *link, bg_errinfo *info)
{
    const struct key_columns *columns = &link->source->columns;
    bg_err err = schema_verify_objects(link, info);
    for (size_t i = 0; !err && i < columns->n; i++) {
        err = schema_verify_triggers(link, columns->list[i].table, info);
    }
    return err;
}

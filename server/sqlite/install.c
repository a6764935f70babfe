/* sqlite/install.c - see sqlite/install.h. */
#include "sqlite/install.h"

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

/* ---- Creating objects ------------------------------------------------------------------ */

/* Returns SQL that adds a row without a key if the table is empty, or if the number of its last row differs from
 * the value in sqlite_sequence. */
static char *install_row_sql(const struct sqlite_objects *objects)
{
    const char *name = objects->changes;
    return source_format(
        "INSERT INTO \"%s\" (token, key) SELECT random(), NULL"
        " WHERE ifnull((SELECT max(n) FROM \"%s\"), -1) <> ifnull((SELECT max(seq)"
        " FROM sqlite_sequence WHERE name = '%s'), -2)",
        name, name, name);
}

/* Returns the statements that drop all objects of the gate. Fails if any of these objects was not created by
 * the service. */
static bg_err install_drop_sql(struct sqlite_link *link,
                               const struct sqlite_objects *objects, char **drop,
                               bg_errinfo *info)
{
    sqlite3_stmt *rows = NULL;
    int code = SQLITE_DONE;
    /* Triggers are dropped first, so that no trigger remains without its table. */
    char *sql = source_format("SELECT type, name, sql FROM main.sqlite_master"
                              " WHERE substr(name, 1, %zu) = '%s' ORDER BY type DESC",
                              strlen(objects->prefix), objects->prefix);
    *drop = strdup("");
    bg_err err = sql && *drop ? sqlite_link_prepare(link, "install", sql, &rows, info)
                              : source_no_memory(info);
    free(sql);
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
static bg_err install_sql(struct sqlite_link *link,
                          const struct sqlite_objects *objects, char **sql,
                          bg_errinfo *info)
{
    bg_err err = install_drop_sql(link, objects, sql, info);
    for (size_t i = 0; !err && i < objects->n; i++) {
        char *more = source_format("%s%s;\n", *sql, objects->list[i].sql);
        free(*sql);
        *sql = more;
        err = more ? BG_OK : source_no_memory(info);
    }
    return err;
}

/* Writes the script, and returns the error for install=no. */
static bg_err install_refuse(const struct source *source,
                             const struct sqlite_objects *objects, const char *sql,
                             const bg_errinfo *missing, bg_errinfo *info)
{
    const char *path = source->how.script;
    char *row = install_row_sql(objects);
    FILE *file = *path ? fopen(path, "w") : NULL;
    const bool written =
        file && row
        && fprintf(file, "BEGIN IMMEDIATE;\n%s%s;\nCOMMIT;\n", sql, row) > 0;
    const bool closed = file && fclose(file) == 0;
    free(row);
    if (*path && !(written && closed)) {
        return source_error(info, BG_EIO, "install=no", NULL, "cannot write %.300s: %s",
                            path, text_errno(errno));
    }
    return source_error(info, BG_EINVAL, "install=no", NULL, "%.300s; %s%s",
                        source_reason(missing), *path ? "run " : "use install=yes",
                        path);
}

static bg_err install_objects(struct sqlite_link *link,
                              const struct sqlite_objects *objects, bg_errinfo *info)
{
    bg_errinfo missing = { .code = BG_OK };
    bg_err err = sqlite_schema_verify(link, objects, &missing);
    if (err != BG_ENOTFOUND) {
        if (err && info) {
            *info = missing;
        }
        return err;
    }
    char *sql = NULL;
    err = install_sql(link, objects, &sql, info);
    if (!err && !link->source->how.install) {
        err = install_refuse(link->source, objects, sql, &missing, info);
    } else if (!err) {
        err = sqlite_link_execute(link, "install", sql, info);
    }
    free(sql);
    return err ? err : sqlite_schema_verify(link, objects, info);
}

bg_err sqlite_install(struct source *source, const struct sqlite_objects *objects,
                      bg_errinfo *info)
{
    struct sqlite_link link;
    enum key_form form;
    bg_err err = sqlite_link_open(&link, source, true, info);
    if (err) {
        return err;
    }
    err = sqlite_link_execute(&link, "install", "BEGIN IMMEDIATE", info);
    err = err ? err : sqlite_schema_columns(&link, &form, info);
    err = err ? err : install_objects(&link, objects, info);
    err = err ? err
              : sqlite_link_execute_free(&link, "install", install_row_sql(objects),
                                         info);
    err = sqlite_link_end(&link, err, info);
    sqlite_link_close(&link);
    return err;
}

/* ---- Deleting rows --------------------------------------------------------------------- */

bg_err sqlite_install_forget(struct source *source,
                             const struct sqlite_objects *objects, bg_errinfo *info)
{
    struct sqlite_link link;
    bg_err err = sqlite_link_open(&link, source, true, info);
    if (err) {
        return err;
    }
    err = sqlite_link_execute(&link, "changes", "BEGIN IMMEDIATE", info);
    err = err ? err
              : sqlite_link_execute_free(
                  &link, "changes",
                  source_format("DELETE FROM \"%s\"", objects->changes), info);
    err = err ? err
              : sqlite_link_execute_free(&link, "changes", install_row_sql(objects),
                                         info);
    err = sqlite_link_end(&link, err, info);
    sqlite_link_close(&link);
    return err;
}

/* Deletes some rows. Sets *more if there may be more rows to delete. */
static bg_err install_prune_some(struct sqlite_link *link,
                                 const struct sqlite_objects *objects, int64_t number,
                                 int64_t token, bool *more, bg_errinfo *info)
{
    const char *name = objects->changes;
    link->deadline = source_now() + PRUNE_PATIENCE;
    bg_err err = sqlite_link_execute(link, "changes", "BEGIN IMMEDIATE", info);
    link->deadline = 0;
    err = err ? err
              : sqlite_link_execute_free(
                  link, "changes",
                  source_format("DELETE FROM \"%s\" WHERE n < %lld AND n < %d"
                                " + (SELECT min(n) FROM \"%s\") AND EXISTS (SELECT 1"
                                " FROM \"%s\" WHERE n = %lld AND token IS %lld)",
                                name, (long long)number, PRUNE_ROWS, name, name,
                                (long long)number, (long long)token),
                  info);
    *more = !err && sqlite3_changes(link->db) > 0;
    return sqlite_link_end(link, err, info);
}

bg_err sqlite_install_prune(struct source *source, const struct sqlite_objects *objects,
                            int64_t number, int64_t token, bool *more, bg_errinfo *info)
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
    err = sqlite_link_number(&link, "changes",
                             "SELECT journal_mode = 'wal' FROM pragma_journal_mode",
                             &logged, info);
    if (!err && logged) {
        err =
            sqlite_link_execute(&link, "changes", "PRAGMA synchronous = NORMAL", info);
    }
    while (!err && *more && source_now() < until) {
        err = install_prune_some(&link, objects, number, token, more, info);
    }
    sqlite_link_close(&link);
    return err;
}

/*
 * sqlite_install.c - triggers that write the keys of new and changed rows to a table of their own:
 *
 *     bloomgate_changes_GATE (n INTEGER PRIMARY KEY AUTOINCREMENT, key)
 *
 * A trigger is part of the database, so it works for every program that writes. The follower of
 * one service prunes what it has read long ago; another one that was away for longer sees the gap
 * in the numbers, and begins anew.
 */
#include "sqlite_stream.h"

#include <stdlib.h>
#include <string.h>

enum { INSTALL_KEEP = 100000 }; /* changes that are kept after they were read */

char *sqlite_install_table(const struct source *source)
{
    return source_format("bloomgate_changes_%s", source->how.name);
}

/* The SQL of everything, by sqlite3_mprintf; NULL: no memory. */
static char *sqlite_install_sql(const struct source *source, const char *table,
                                const char *column)
{
    const char *name = source->how.name;
    const bool keys = source->how.install == SOURCE_INSTALL_KEYS;
    char *of = keys ? sqlite3_mprintf("OF \"%w\"", column) : sqlite3_mprintf("");
    char *sql = sqlite3_mprintf(
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS \"bloomgate_changes_%w\""
        " (n INTEGER PRIMARY KEY AUTOINCREMENT, key);"
        "DROP TRIGGER IF EXISTS \"bloomgate_insert_%w\";"
        "DROP TRIGGER IF EXISTS \"bloomgate_update_%w\";"
        "CREATE TRIGGER \"bloomgate_insert_%w\" AFTER INSERT ON \"%w\" BEGIN"
        " INSERT INTO \"bloomgate_changes_%w\" (key) VALUES (NEW.\"%w\"); END;"
        "CREATE TRIGGER \"bloomgate_update_%w\" AFTER UPDATE %s ON \"%w\" BEGIN"
        " INSERT INTO \"bloomgate_changes_%w\" (key) VALUES (NEW.\"%w\"); END;"
        "COMMIT",
        name, name, name, name, table, name, column, name, of ? of : "", table, name,
        column);
    sqlite3_free(of);
    return sql;
}

/* Whether both triggers are there, for that column and of that sort. */
static bool sqlite_install_is_done(struct sqlite_link *link, const char *table,
                                   const char *column)
{
    const struct source *source = link->source;
    int64_t n = 0;
    char *told = sqlite3_mprintf("NEW.\"%w\"", column);
    char *sql = sqlite3_mprintf(
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %Q AND"
        " instr(sql, %Q) > 0 AND (name = 'bloomgate_insert_' || %Q"
        " OR name = 'bloomgate_update_' || %Q AND (instr(sql, 'UPDATE OF') > 0) = %d)",
        table, told ? told : "", source->how.name, source->how.name,
        source->how.install == SOURCE_INSTALL_KEYS);
    sqlite3_free(told);
    const bool done =
        sql && !sqlite_link_number(link, "install", sql, &n, NULL) && n == 2;
    sqlite3_free(sql);
    return done;
}

static bg_err sqlite_install_into(struct sqlite_link *link, const char *table,
                                  const char *column, bg_errinfo *info)
{
    if (!table || !column) {
        return source_error(info, BG_EINVAL, "install",
                            "a query whose first column is one of a table", "another");
    }
    if (sqlite_install_is_done(link, table, column)) {
        return BG_OK;
    }
    char *sql = sqlite_install_sql(link->source, table, column);
    const bg_err err =
        sql ? sqlite_link_execute(link, "install", sql, info) : source_no_memory(info);
    if (err) {
        (void)sqlite3_exec(link->db, "ROLLBACK", NULL, NULL, NULL);
    }
    sqlite3_free(sql);
    return err;
}

bg_err sqlite_install(struct source *source, bg_errinfo *info)
{
    struct sqlite_link link;
    sqlite3_stmt *query;
    bg_err err = sqlite_link_open(&link, source, true, info);
    if (err) {
        return err;
    }
    err = sqlite_link_prepare(&link, "query", source->how.query, &query, info);
    if (!err) {
        const char *table = sqlite3_column_table_name(query, 0);
        const char *column = sqlite3_column_origin_name(query, 0);
        char *copies[] = { table ? strdup(table) : NULL,
                           column ? strdup(column) : NULL };
        (void)sqlite3_finalize(query);
        err = sqlite_install_into(&link, copies[0], copies[1], info);
        free(copies[0]);
        free(copies[1]);
    }
    sqlite_link_close(&link);
    return err;
}

void sqlite_install_prune(struct source *source, uint64_t position)
{
    struct sqlite_link link;
    if (source->how.install == SOURCE_INSTALL_NO || position <= INSTALL_KEEP
        || sqlite_link_open(&link, source, true, NULL)) {
        return;
    }
    char *sql = sqlite3_mprintf("DELETE FROM \"bloomgate_changes_%w\" WHERE n <= %lld",
                                source->how.name, (long long)(position - INSTALL_KEEP));
    if (sql) { /* if somebody has locked it, another time */
        (void)sqlite_link_execute(&link, "install", sql, NULL);
    }
    sqlite3_free(sql);
    sqlite_link_close(&link);
}

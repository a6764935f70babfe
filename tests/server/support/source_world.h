/*
 * source_world.h - a SQLite database in its own directory, for tests of sources and gates.
 */
#ifndef TESTS_SOURCE_WORLD_H
#define TESTS_SOURCE_WORLD_H

#include "support/check.h"
#include "support/scratch.h"

#include "source/source.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct world {
    char folder[256];
    char path[288];
    char url[320];
    sqlite3 *db; /* the application's connection, which writes to the database */
};

/* Copies the value in the first column of a row, or "" if there is none. */
static inline void world_first(const struct store_row *row, char text[64])
{
    struct store_column column = { .value = { "", 0 } };
    size_t at = 0;
    (void)store_row_next(row, &at, &column);
    (void)snprintf(text, 64, "%.*s", (int)column.value.len,
                   (const char *)column.value.data);
}

/* Executes SQL; an error fails the test. */
static inline void world_do_on(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, why ? why : "?");
    }
    sqlite3_free(why);
}

__attribute__((format(printf, 2, 3))) static inline void
world_do(struct world *w, const char *format, ...)
{
    char sql[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    world_do_on(w->db, sql);
}

static inline void world_open(struct world *w)
{
    CHECK(sqlite3_open(w->path, &w->db) == SQLITE_OK);
    (void)sqlite3_busy_timeout(w->db, 30000);
}

/* Creates a database with a write-ahead log, or with a rollback journal if `plain` is true. */
static inline void world_begin(struct world *w, bool plain)
{
    (void)snprintf(w->folder, sizeof w->folder, "%s", scratch_fresh());
    (void)snprintf(w->path, sizeof w->path, "%s/truth.db", w->folder);
    (void)snprintf(w->url, sizeof w->url, "sqlite://%s", w->path);
    world_open(w);
    world_do_on(w->db,
                plain ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
    world_do_on(w->db, "PRAGMA synchronous = OFF");
}

static inline void world_end(struct world *w)
{
    (void)sqlite3_close(w->db);
}

/* Creates the table products (id, sku, name) with n rows: sku-0, sku-1, ... */
static inline void world_products(struct world *w, int n)
{
    world_do(w, "CREATE TABLE products (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                " sku TEXT UNIQUE, name TEXT)");
    world_do(
        w,
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < %d)"
        " INSERT INTO products (sku, name) SELECT 'sku-' || i, 'name ' || i FROM c"
        " WHERE i < %d",
        n, n);
}

static inline struct source_settings world_settings(const struct world *w)
{
    return (struct source_settings){ .name = "products",
                                     .instance = "0123abcd",
                                     .url = w->url,
                                     .keys = "products(sku)",
                                     .lookup =
                                         "SELECT name FROM products WHERE sku = ?",
                                     .follow = "changes",
                                     .install = true,
                                     .poll_ms = 2,
                                     .timeout_ms = 20000 };
}

/* Returns the number that the SQL selects, or -1 if it selects nothing. */
__attribute__((format(printf, 2, 3))) static inline int64_t
world_number(struct world *w, const char *format, ...)
{
    char sql[1024];
    sqlite3_stmt *rows = NULL;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    if (sqlite3_prepare_v2(w->db, sql, -1, &rows, NULL) != SQLITE_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(w->db));
    }
    const int64_t number =
        sqlite3_step(rows) == SQLITE_ROW && sqlite3_column_type(rows, 0) != SQLITE_NULL
            ? sqlite3_column_int64(rows, 0)
            : -1;
    (void)sqlite3_finalize(rows);
    return number;
}

#endif

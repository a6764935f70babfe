/*
 * key_columns.h - the columns whose values are a gate's keys (the `keys` setting).
 *
 *     users(email)        shop.users(email), aliases(alias)        "Users"("E-Mail")
 *
 * Identifiers follow SQL rules: unquoted identifiers consist of letters, digits, '_' and '$'.
 * Quoted identifiers may contain any character; "" stands for a double quote. PostgreSQL folds
 * unquoted identifiers to lowercase; SQLite ignores case.
 */
#ifndef SERVER_SOURCE_KEY_COLUMNS_H
#define SERVER_SOURCE_KEY_COLUMNS_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>

struct key_column {
    char *schema; /* "" if not specified */
    char *table;
    char *column;
    /* The same as quoted SQL identifiers: "schema"."table", or "table", and "column". */
    char *sql_table, *sql_column;
};

enum { KEY_COLUMNS = 16 }; /* maximum number of columns */

struct key_columns {
    struct key_column list[KEY_COLUMNS];
    size_t n;
};

/* Parses the text. If `fold` is set, converts unquoted identifiers to lowercase, as PostgreSQL
 * does.
 * Errors: BG_EINVAL, BG_ENOMEM. The caller frees the result, even after an error. */
bg_err key_columns_parse(const char *text, bool fold, struct key_columns *columns,
                         bg_errinfo *info);
void key_columns_free(struct key_columns *columns);

/* Returns the default lookup query: SELECT SELECTED FROM table WHERE column COMPARISON LIMIT 1, where SELECTED is "1" or
 * "*", and COMPARISON is, for example, "= $1". If there are several columns, their queries are
 * combined with UNION ALL. The caller frees the result. Returns NULL if out of memory. */
char *key_columns_lookup(const struct key_columns *columns, const char *selected,
                         const char *comparison);

#endif

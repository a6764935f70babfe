/*
 * key_columns.h - the columns whose values are the keys of a gate: the setting `keys`.
 *
 *     users(email)        shop.users(email), aliases(alias)        "Users"("E-Mail")
 *
 * Identifiers follow SQL: unquoted ones consist of letters, digits, '_' and '$'; in double quotes everything
 * is allowed, and "" stands for a quote. PostgreSQL folds unquoted identifiers to lower case; SQLite ignores
 * the case. The parser keeps the text as it was written, and whether it was quoted.
 */
#ifndef SERVER_KEY_COLUMNS_H
#define SERVER_KEY_COLUMNS_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>

struct key_column {
    char *schema; /* "" if it is not specified */
    char *table;
    char *column;
};

enum { KEY_COLUMNS = 16 }; /* at most */

struct key_columns {
    struct key_column list[KEY_COLUMNS];
    size_t n;
};

/* Parses the text. `fold`: convert unquoted identifiers to lower case, as PostgreSQL does.
 * Errors: BG_EINVAL, BG_ENOMEM. The caller frees the result also after an error. */
bg_err key_columns_parse(const char *text, bool fold, struct key_columns *columns,
                         bg_errinfo *info);
void key_columns_free(struct key_columns *columns);

/* Returns the default lookup: SELECT 1 FROM table WHERE column = PARAMETER LIMIT 1, for several columns
 * joined by UNION ALL. The caller frees it. NULL if memory is short. */
char *key_columns_lookup(const struct key_columns *columns, const char *parameter);

/* Returns schema.table in quotes. The caller frees it. NULL if memory is short. */
char *key_column_table(const struct key_column *column);

#endif

/*
 * store_row.h - a row that a gate's backing store returned for a key.
 *
 *     struct store_row row = STORE_ROW_INIT;
 *     ... the source calls store_row_clear, store_row_begin, and store_row_add for each column
 *     for (size_t at = 0; store_row_next(&row, &at, &column);) { ... }
 *     store_row_free(&row);
 *
 * A row is a list of columns, in the order of the query. A column has a name, which need not be
 * unique, and a value: text as the database prints it, the bytes of a binary type, or NULL.
 *
 * The columns are stored one after another in a single allocation, which grows by doubling:
 *
 *     | length of the name | name | 1 + length of the value, or 0 for NULL | value |
 *
 * A row may have at most STORE_ROW_MAX bytes. A larger row is not stored; store_row_check reports it, so
 * a partial row is never mistaken for a whole one. Thread safety: one thread at a time.
 */
#ifndef COMMAND_STORE_ROW_H
#define COMMAND_STORE_ROW_H

#include "bloomgate/bloomgate.h"

enum { STORE_ROW_MAX = 1 << 20 };

struct store_row {
    char *bytes;
    size_t used, room;
    size_t columns;
    size_t size;    /* bytes of all columns, including columns that were not stored */
    bool found;     /* the backing store returned a row, which may have no columns */
    bool no_memory; /* a column was not stored because memory was unavailable */
};

#define STORE_ROW_INIT                                                                 \
    {                                                                                  \
        .bytes = NULL                                                                  \
    }

struct store_column {
    bg_bytes name;
    bg_bytes value; /* empty for NULL */
    bool is_null;
};

/* Removes all columns. Accepts NULL, as all functions that fill in a row do. */
void store_row_clear(struct store_row *row);

/* Records that there is a row. */
void store_row_begin(struct store_row *row);

/* Adds a column. `value` is NULL if the column is NULL. */
void store_row_add(struct store_row *row, const char *name, const void *value,
                   size_t len);

/* Records that a value could not be read because memory was unavailable. */
void store_row_set_no_memory(struct store_row *row);

void store_row_copy(struct store_row *to, const struct store_row *from);

/* Returns whether there is another column, and sets *column. *at must be 0 before the first call. The
 * column is valid until the row changes. */
bool store_row_next(const struct store_row *row, size_t *at,
                    struct store_column *column);

/* Checks that the row is complete. Errors: BG_EQUOTA if the row is too large; BG_ENOMEM. */
bg_err store_row_check(const struct store_row *row, bg_errinfo *info);

void store_row_free(struct store_row *row);

#endif

/*
 * columns.h - a table for people: columns as wide as what is in them, numbers to the right,
 * headings of two lines. Cells are short texts; a cell that was not set is empty.
 */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

enum { COLUMNS_MOST = 16, COLUMNS_ROWS = 32, COLUMNS_CELL = 32, COLUMNS_WIDTH = 100 };

struct columns {
    size_t count, rows;
    struct {
        const char *above, *name; /* the two lines of its heading */
        bool left;
    } heads[COLUMNS_MOST];
    char cells[COLUMNS_ROWS][COLUMNS_MOST][COLUMNS_CELL];
};

/* Adds a column, or a row, which is the one that columns_set writes to. */
void columns_add(struct columns *columns, const char *above, const char *name,
                 bool left);
void columns_row(struct columns *columns);

/* The next cell of the last row that is not set yet. */
void columns_set(struct columns *columns, const char *text);
void columns_real(struct columns *columns, int digits,
                  double value);                           /* behind the point */
void columns_short(struct columns *columns, double value); /* 123, 12.3k, 1.23M */

/* To stdout: two blanks between columns, or one where 100 columns do not suffice. */
void columns_print(const struct columns *columns);

/* A paragraph in as many lines of at most 100 columns as it takes, from column `indent` on;
 * the first line begins with `first`, which may be longer than that. */
void columns_paragraph(const char *first, size_t indent, const char *text);

#endif

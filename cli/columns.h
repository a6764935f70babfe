/*
 * columns.h - prints tables in which columns are as wide as their content, numbers are
 * right-aligned, and headings have two lines. Each cell contains a short text, and is empty until
 * it is set.
 */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

enum { COLUMNS_MAX = 16, COLUMNS_ROWS = 32, COLUMNS_CELL = 32, COLUMNS_WIDTH = 100 };

struct columns {
    size_t count, rows;
    struct {
        const char *above, *name; /* the two lines of the heading */
        bool left;
    } heads[COLUMNS_MAX];
    char cells[COLUMNS_ROWS][COLUMNS_MAX][COLUMNS_CELL];
    struct {
        const char *name, *why;
    } refused[COLUMNS_ROWS];
    size_t refused_count;
};

/* Add a column or a row. */
void columns_add(struct columns *columns, const char *above, const char *name,
                 bool left);
void columns_row(struct columns *columns);

/* Sets the next unset cell of the last row. */
void columns_set(struct columns *columns, const char *text);
void columns_real(struct columns *columns, int digits,
                  double value);                           /* decimal places */
void columns_short(struct columns *columns, double value); /* 123, 12.3k, 1.23M */

/* Adds an item that cannot be in the table; it is listed below the table with the reason. */
void columns_refuse(struct columns *columns, const char *name, const char *why);

/* Prints the table to stdout, with two spaces between columns, or one space if the table would
 * otherwise be wider than 100 characters. */
void columns_print(const struct columns *columns);

/* Prints a paragraph in lines of at most `width` characters, indented by `indent`. The first line
 * starts with `first`, which may be longer than the indent. */
void columns_paragraph(const char *first, size_t indent, size_t width,
                       const char *text);

#endif

/*
 * output.h - prints each row in one of two forms: a line of a table, or a JSON object.
 *
 * A row is a list of cells. Each cell has a key for JSON, and a title and a width for
 * the table; a width of 0 keeps the cell out of the table. The titles of a table's
 * first row become its heading, so there is no separate list of columns that could
 * disagree with the rows.
 */
#ifndef BGB_OUTPUT_H
#define BGB_OUTPUT_H

#include "harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The value of a cell that does not apply to its row. */
#define BGB_NONE ((double)NAN)

/* Selects the output format: JSON or tables. */
void bgb_out_begin(bool json);
bool bgb_out_is_json(void);

/* Starts a table. `bench` is the value of "bench" in JSON; `title` is printed above the
 * table. */
void bgb_table(const char *bench, const char *title, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a line of text below a table; prints nothing in JSON mode. */
void bgb_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* To print a row, call bgb_row_begin, then one bgb_cell_ function for each cell from left to right,
 * then bgb_row_end. NaN is printed as "-" in a table and as null in JSON. A negative width aligns
 * to the left. */
void bgb_row_begin(void);
void bgb_cell_text(const char *key, const char *title, int width, const char *value);
void bgb_cell_count(const char *key, const char *title, int width, uint64_t value);
void bgb_cell_real(const char *key, const char *title, int width, int decimals,
                   double value);
void bgb_row_end(void);

/* Prints the cells that most rows have in common. `fpr` and `bits_per_key` may be NaN; the
 * title of the table defines `ratio`. */
void bgb_cells_subject(const char *name, uint64_t n, double bits_per_key, double fpr);
void bgb_cells_times(const struct bgb_subject *subject, double ratio);

#endif

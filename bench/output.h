/*
 * output.h - one row, two forms: a line of a table for people, an object for programs.
 *
 * A row is a list of cells. Each has a key for JSON and a title and a width for the
 * table; width 0 keeps a cell out of the table. The titles of a table's first row
 * become its heading, so a table has no separate list of columns that could disagree
 * with it.
 */
#ifndef BGB_OUTPUT_H
#define BGB_OUTPUT_H

#include "harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The value of a cell that does not apply. */
#define BGB_NONE ((double)NAN)

/* All output goes through this one place; `json` chooses the form. */
void bgb_out_begin(bool json);
bool bgb_out_is_json(void);

/* Starts a table: `bench` is the value of "bench" in JSON, `title` stands above it. */
void bgb_table(const char *bench, const char *title, ...)
    __attribute__((format(printf, 2, 3)));

/* A line of text below a table; left out in JSON. */
void bgb_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A row: begin, cells from left to right, end. A NaN is "-" and null. A negative width
 * aligns to the left. */
void bgb_row_begin(void);
void bgb_cell_text(const char *key, const char *title, int width, const char *value);
void bgb_cell_count(const char *key, const char *title, int width, uint64_t value);
void bgb_cell_real(const char *key, const char *title, int width, int decimals,
                   double value);
void bgb_row_end(void);

/* The cells that nearly every row has. `fpr` and `bits_per_key` may be NaN; `ratio` is
 * whatever the table says it is. */
void bgb_cells_subject(const char *name, uint64_t n, double bits_per_key, double fpr);
void bgb_cells_times(const struct bgb_subject *subject, double ratio);

#endif

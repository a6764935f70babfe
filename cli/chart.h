/*
 * chart.h - SVG charts: lines on linear or logarithmic axes, and bars.
 *
 * A page has a title, a subtitle, and charts arranged vertically, each with a legend on the right.
 * The page is built in memory and written atomically. The background is always white.
 * Color-blind readers can distinguish the colors; lines also differ in dash pattern and marker, so
 * that they can be distinguished in black-and-white print.
 */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct chart_page {
    FILE *to; /* memory stream that writes to `text`, or NULL if out of memory */
    char *text;
    size_t size;
    double height; /* current height */
    int charts;
    const char *title, *below; /* title and subtitle; `below` may be "" or NULL */
};

enum chart_unit { CHART_PLAIN, CHART_PERCENT };

struct chart_axis {
    const char *title;
    bool log;
    double low, high; /* `low` is greater than `high` on a descending axis */
    enum chart_unit unit;
};

/* A line. It has gaps where y is not finite, and is clipped where y is out of range. A line
 * with one point is drawn as a marker. */
struct chart_series {
    const char *name;
    const double *x, *y;
    size_t count;
    unsigned style; /* selects the color, dash pattern and marker */
};

struct chart_lines {
    const char *title;
    struct chart_axis x, y;
    const struct chart_series *series;
    size_t count;
    double mark; /* position of a vertical line, if `mark_name` is not NULL */
    const char *mark_name;
};

/* Groups of horizontal bars: one group per row, with one bar per series. */
struct chart_bars {
    const char *title, *axis;
    const char *const *rows;
    size_t row_count;
    const char *const *series;
    size_t series_count;
    const double *values; /* row by row; values that are not finite have no bar */
};

void chart_begin(struct chart_page *page, const char *title, const char *below);
void chart_add_lines(struct chart_page *page, const struct chart_lines *lines);
void chart_add_bars(struct chart_page *page, const struct chart_bars *bars);

/* Writes the page to a file, which is replaced atomically, and frees the page. Reports errors.
 * Returns an exit code. */
int chart_save(struct chart_page *page, const char *path);

#endif

/*
 * chart.h - charts as SVG: lines over linear or logarithmic axes, and bars.
 *
 * A page has a title, a line below it, and charts one below the other, each with its legend
 * to the right. It is collected in memory and written in one step. The background is white
 * whatever the viewer's is; colours can be told apart by the colour-blind, and lines by dash
 * and marker as well, so that they can be told apart in print.
 */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct chart_page {
    FILE *to; /* into `text`; NULL: no memory */
    char *text;
    size_t size;
    double height; /* so far */
    int charts;
    const char *title, *below; /* of the page; "" or NULL: no line below */
};

enum chart_unit { CHART_PLAIN, CHART_PERCENT };

struct chart_axis {
    const char *title;
    bool log;
    double low, high; /* low may be the larger one: the axis then falls */
    enum chart_unit unit;
};

/* A line; where y is not finite it has a gap, where it is out of range it is cut off. A
 * line of one point is a marker. */
struct chart_series {
    const char *name;
    const double *x, *y;
    size_t count;
    unsigned
        style; /* colour, dash and marker: the same for the same thing everywhere */
};

struct chart_lines {
    const char *title;
    struct chart_axis x, y;
    const struct chart_series *series;
    size_t count;
    double mark; /* a vertical line there, if `mark_name` is not NULL */
    const char *mark_name;
};

/* Groups of bars that lie: one group per row, in it one bar per series. */
struct chart_bars {
    const char *title, *axis;
    const char *const *rows;
    size_t row_count;
    const char *const *series;
    size_t series_count;
    const double *values; /* row by row; not finite: no bar */
};

void chart_begin(struct chart_page *page, const char *title, const char *below);
void chart_add_lines(struct chart_page *page, const struct chart_lines *lines);
void chart_add_bars(struct chart_page *page, const struct chart_bars *bars);

/* Writes the page to a file, which is replaced in one step or not at all, and frees it.
 * Exit code; what is wrong was said. */
int chart_save(struct chart_page *page, const char *path);

/* Frees a page that is not wanted any more. */
void chart_drop(struct chart_page *page);

#endif

/*
 * chart.c - see chart.h. Lengths are in pixels. The width of the viewer's font is unknown, so each
 * text is anchored on the side that must stay fixed, with free space on the other side.
 */
#include "chart.h"

#include "replace_file.h"
#include "say.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>

enum {
    CHART_WIDTH = 900,
    CHART_LEFT = 110,   /* left edge of the plot; leaves space for labels */
    CHART_PLOT = 590,   /* width of the plot */
    CHART_LEGEND = 724, /* x of the legend */
    CHART_TALL = 340,   /* height of a plot with lines */
    CHART_BAR = 11,     /* thickness of a bar */
    CHART_TICKS = 64,
    CHART_LABEL = 32
};

static const char chart_ink[] = "#222222", chart_gray[] = "#666666",
                  chart_grid[] = "#d9d9d9", chart_faint[] = "#f0f0f0";

/* The Okabe-Ito palette without yellow, which is too light on white. */
static const char *const chart_colors[] = { "#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                            "#56b4e9", "#d55e00", "#000000" };
enum { CHART_COLORS = sizeof chart_colors / sizeof *chart_colors };

/* ---- Text ------------------------------------------------------------------------------------ */

struct chart_font {
    int size;
    const char *color, *anchor; /* start, middle, end */
    bool bold, upwards;
};

static void chart_text(FILE *to, double x, double y, struct chart_font font,
                       const char *text)
{
    (void)fprintf(to,
                  "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"%s\" "
                  "text-anchor=\"%s\"",
                  x, y, font.size, font.color, font.anchor);
    if (font.bold) {
        (void)fputs(" font-weight=\"bold\"", to);
    }
    if (font.upwards) {
        (void)fprintf(to, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
    }
    (void)fputc('>', to);
    text_xml(to, text);
    (void)fputs("</text>\n", to);
}

static void chart_rule(FILE *to, double x1, double y1, double x2, double y2,
                       const char *color)
{
    (void)fprintf(to,
                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                  "stroke=\"%s\"/>\n",
                  x1, y1, x2, y2, color);
}

/* ---- Axes ------------------------------------------------------------------------------------ */

struct chart_ticks {
    double at[CHART_TICKS];
    bool named[CHART_TICKS]; /* the tick has a label */
    size_t count;
};

/* Returns the position of a value on an axis: from 0 to 1 if the value is within the axis range. */
static double chart_place(const struct chart_axis *axis, double value)
{
    if (axis->log) {
        return log(value / axis->low) / log(axis->high / axis->low);
    }
    return (value - axis->low) / (axis->high - axis->low);
}

static void chart_tick(struct chart_ticks *ticks, double at, bool named)
{
    if (ticks->count < CHART_TICKS) {
        ticks->at[ticks->count] = at;
        ticks->named[ticks->count++] = named;
    }
}

/* Places ticks at powers of ten and their multiples. If the axis spans few decades, ticks at 2 and
 * 5 times a power of ten are also labeled. */
static void chart_log_ticks(const struct chart_axis *axis, struct chart_ticks *ticks)
{
    const double low = fmin(axis->low, axis->high), high = fmax(axis->low, axis->high);
    const int first = (int)floor(log10(low) + 1e-9),
              last = (int)floor(log10(high) + 1e-9);
    const bool few = log10(high / low) < 3.5;
    const int each = 1 + (last - first) / 14; /* limits the number of labels */
    for (int decade = first; decade <= last; decade++) {
        for (int digit = 1; digit < 10; digit++) {
            const double at = digit * pow(10, decade);
            const bool named = (digit == 1 && decade % each == 0)
                               || (few && (digit == 2 || digit == 5));
            if (at >= low * (1 - 1e-9) && at <= high * (1 + 1e-9)
                && (named || last - first < 6)) {
                chart_tick(ticks, at, named);
            }
        }
    }
}

/* Returns a step that results in four to nine ticks: 1, 2 or 5 times a power of ten. */
static double chart_step(double range)
{
    const double power = pow(10, floor(log10(range / 5)));
    const double steps = range / power;
    return power * (steps > 40 ? 10 : steps > 16 ? 5 : steps > 8 ? 2 : 1);
}

static struct chart_ticks chart_find_ticks(const struct chart_axis *axis)
{
    struct chart_ticks ticks = { .count = 0 };
    if (axis->log) {
        chart_log_ticks(axis, &ticks);
        return ticks;
    }
    const double step = chart_step(fabs(axis->high - axis->low));
    const double low = fmin(axis->low, axis->high), high = fmax(axis->low, axis->high);
    const double first = ceil(low / step - 1e-9);
    for (int i = 0; (first + i) * step <= high * (1 + 1e-9) && i < CHART_TICKS; i++) {
        chart_tick(&ticks, (first + i) * step, true);
    }
    return ticks;
}

/* Formats a tick label, without an exponent where possible. */
static const char *chart_label(const struct chart_axis *axis, double value,
                               char text[CHART_LABEL])
{
    const bool percent = axis->unit == CHART_PERCENT;
    const double shown = percent ? 100 * value : value;
    const int digits = axis->log ? (int)-floor(log10(shown) + 1e-9) : 0;
    const char *unit = percent ? "%" : "";
    if (digits > 4 && digits < 6) {
        (void)snprintf(text, CHART_LABEL, "%.*f%s", digits, shown, unit);
    } else {
        (void)snprintf(text, CHART_LABEL, "%.6g%s", shown, unit);
    }
    return text;
}

static const struct chart_font chart_small = { 12, chart_gray, "middle", false, false };

/* Draws the grid, labels and title of the bottom axis, or of the left axis if `is_y` is set. */
static void chart_draw_axis(FILE *to, const struct chart_axis *axis, bool is_y,
                            double top, double tall)
{
    const struct chart_ticks ticks = chart_find_ticks(axis);
    const struct chart_font title = { 12, chart_ink, "middle", false, is_y };
    struct chart_font font = chart_small;
    char text[CHART_LABEL];
    font.anchor = is_y ? "end" : "middle";
    for (size_t i = 0; i < ticks.count; i++) {
        const double place = chart_place(axis, ticks.at[i]);
        const double x = CHART_LEFT + CHART_PLOT * place, y = top + tall * (1 - place);
        const char *color = ticks.named[i] ? chart_grid : chart_faint;
        if (is_y) {
            chart_rule(to, CHART_LEFT, y, CHART_LEFT + CHART_PLOT, y, color);
        } else {
            chart_rule(to, x, top, x, top + tall, color);
        }
        if (ticks.named[i]) {
            chart_text(to, is_y ? CHART_LEFT - 8 : x, is_y ? y + 4 : top + tall + 17,
                       font, chart_label(axis, ticks.at[i], text));
        }
    }
    chart_text(to, is_y ? 26 : CHART_LEFT + CHART_PLOT / 2.0,
               top + (is_y ? tall / 2 : tall + 38), title, axis->title);
}

static void chart_frame(FILE *to, double top, double tall)
{
    (void)fprintf(to,
                  "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" "
                  "fill=\"none\" stroke=\"%s\"/>\n",
                  CHART_LEFT, top, CHART_PLOT, tall, chart_gray);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Draws one of six shapes around a point. */
static void chart_marker(FILE *to, double x, double y, unsigned style)
{
    static const char *const shapes[] = {
        "m-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",               /* circle */
        "m-3.5,-3.5h7v7h-7z",                                /* square */
        "m0,-5l4.5,8h-9z",                                   /* triangle */
        "m0,-5l5,5l-5,5l-5,-5z",                             /* diamond */
        "m0,5l4.5,-8h-9z",                                   /* inverted triangle */
        "m-1.5,-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z" /* cross */
    };
    (void)fprintf(to,
                  "<path d=\"M%.1f,%.1f%s\" fill=\"%s\" stroke=\"#ffffff\" "
                  "stroke-width=\"0.8\"/>\n",
                  x, y, shapes[style % (sizeof shapes / sizeof *shapes)],
                  chart_colors[style % CHART_COLORS]);
}

static void chart_stroke(FILE *to, unsigned style)
{
    (void)fprintf(to, "fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s",
                  chart_colors[style % CHART_COLORS],
                  style / CHART_COLORS % 2 ? " stroke-dasharray=\"7 4\"" : "");
}

/* Computes the position of a point. Clips y to at most one plot height above or below the plot.
 * Returns false if the point cannot be drawn. */
static bool chart_point(const struct chart_lines *lines, const struct chart_series *s,
                        size_t i, double *x, double *y)
{
    const double px = chart_place(&lines->x, s->x[i]),
                 py = chart_place(&lines->y, s->y[i]);
    const bool below_all = lines->y.log && s->y[i] <= 0;
    *x = px;
    *y = below_all ? -1 : fmin(fmax(py, -1), 2);
    return isfinite(px) && (below_all || isfinite(py));
}

static void chart_line(FILE *to, const struct chart_lines *lines,
                       const struct chart_series *s, double top)
{
    bool drawing = false;
    (void)fputs("<path d=\"", to);
    for (size_t i = 0; i < s->count; i++) {
        double x, y;
        const bool there = chart_point(lines, s, i, &x, &y);
        if (there) {
            (void)fprintf(to, "%c%.1f,%.1f", drawing ? 'L' : 'M',
                          CHART_LEFT + CHART_PLOT * x, top + CHART_TALL * (1 - y));
        }
        drawing = there;
    }
    (void)fputs("\" ", to);
    chart_stroke(to, s->style);
    (void)fputs("/>\n", to);
}

/* Draws markers on some points. Consecutive styles mark different points, so that the markers of
 * all lines are visible where lines coincide. */
static void chart_markers(FILE *to, const struct chart_lines *lines,
                          const struct chart_series *s, double top)
{
    const size_t each = s->count > 14 ? s->count / 7 : s->count > 1 ? 2 : 1;
    for (size_t i = 0; i < s->count; i++) {
        double x, y;
        if ((i + s->style * each / 3) % each == 0 && chart_point(lines, s, i, &x, &y)
            && y >= 0 && y <= 1 && x >= 0 && x <= 1) {
            chart_marker(to, CHART_LEFT + CHART_PLOT * x, top + CHART_TALL * (1 - y),
                         s->style);
        }
    }
}

static void chart_mark(FILE *to, const struct chart_lines *lines, double top)
{
    const double place = chart_place(&lines->x, lines->mark);
    if (!lines->mark_name || !(place >= 0 && place <= 1)) {
        return;
    }
    const double x = CHART_LEFT + CHART_PLOT * place;
    struct chart_font font = chart_small;
    chart_rule(to, x, top - 4, x, top + CHART_TALL, chart_gray);
    font.anchor = place < 0.1 ? "start" : place > 0.9 ? "end" : "middle";
    chart_text(to, x, top - 8, font, lines->mark_name);
}

/* Draws a name in the legend; the caller draws the line or bar sample. */
static void chart_name(FILE *to, double y, const char *name)
{
    const struct chart_font font = { 12, chart_ink, "start", false, false };
    chart_text(to, CHART_LEGEND + 40, y + 4, font, name);
}

static void chart_legend(FILE *to, const struct chart_lines *lines, double top)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct chart_series *s = &lines->series[i];
        const double y = top + 10 + 21 * (double)i;
        if (s->count > 1) {
            (void)fprintf(to, "<path d=\"M%d,%.1fh32\" ", CHART_LEGEND, y);
            chart_stroke(to, s->style);
            (void)fputs("/>\n", to);
        }
        chart_marker(to, CHART_LEGEND + 16, y, s->style);
        chart_name(to, y, s->name);
    }
}

static double chart_heading(struct chart_page *page, const char *title)
{
    const struct chart_font font = { 15, chart_ink, "start", true, false };
    page->charts++;
    chart_text(page->to, CHART_LEFT, page->height + 22, font, title);
    return page->height + 52;
}

void chart_add_lines(struct chart_page *page, const struct chart_lines *lines)
{
    if (!page->to) {
        return;
    }
    FILE *to = page->to;
    const double top = chart_heading(page, lines->title);
    chart_draw_axis(to, &lines->x, false, top, CHART_TALL);
    chart_draw_axis(to, &lines->y, true, top, CHART_TALL);
    (void)fprintf(to,
                  "<clipPath id=\"plot%d\"><rect x=\"%d\" y=\"%.1f\" width=\"%d\" "
                  "height=\"%d\"/></clipPath>\n",
                  page->charts, CHART_LEFT, top, CHART_PLOT, CHART_TALL);
    chart_mark(to, lines, top);
    for (size_t i = 0; i < lines->count; i++) {
        const struct chart_series *s = &lines->series[i];
        (void)fputs("<g class=\"series\"><title>", to);
        text_xml(to, s->name);
        (void)fprintf(to, "</title>\n<g clip-path=\"url(#plot%d)\">", page->charts);
        chart_line(to, lines, s, top);
        (void)fputs("</g>\n", to);
        chart_markers(to, lines, s, top);
        (void)fputs("</g>\n", to);
    }
    chart_frame(to, top, CHART_TALL);
    chart_legend(to, lines, top);
    page->height = top + CHART_TALL + 66;
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static double chart_most(const struct chart_bars *bars)
{
    double most = 0;
    for (size_t i = 0; i < bars->row_count * bars->series_count; i++) {
        most = isfinite(bars->values[i]) ? fmax(most, bars->values[i]) : most;
    }
    return most > 0 ? most : 1;
}

static void chart_bar(FILE *to, double y, double length, double value, size_t series)
{
    char text[CHART_LABEL];
    struct chart_font font = { 10, chart_ink, "start", false, false };
    (void)fprintf(to,
                  "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
                  "fill=\"%s\"/>\n",
                  CHART_LEFT, y, length, CHART_BAR - 1,
                  chart_colors[series % CHART_COLORS]);
    (void)snprintf(text, sizeof text, value < 100 ? "%.1f" : "%.0f", value);
    chart_text(to, CHART_LEFT + length + 4, y + CHART_BAR - 2, font, text);
}

static void chart_row(FILE *to, const struct chart_bars *bars,
                      const struct chart_axis *axis, size_t row, double y)
{
    const struct chart_font font = { 12, chart_ink, "end", false, false };
    const double thick = CHART_BAR * (double)bars->series_count;
    chart_text(to, CHART_LEFT - 8, y + thick / 2 + 4, font, bars->rows[row]);
    for (size_t i = 0; i < bars->series_count; i++) {
        const double value = bars->values[row * bars->series_count + i];
        if (isfinite(value)) {
            chart_bar(to, y + CHART_BAR * (double)i,
                      CHART_PLOT * chart_place(axis, value), value, i);
        }
    }
}

void chart_add_bars(struct chart_page *page, const struct chart_bars *bars)
{
    if (!page->to) {
        return;
    }
    FILE *to = page->to;
    const double top = chart_heading(page, bars->title) - 18;
    const double row = CHART_BAR * (double)bars->series_count + 10;
    const double tall = row * (double)bars->row_count + 10;
    /* Leave space within the frame for the value label of the longest bar. */
    const struct chart_axis axis = { bars->axis, false, 0, 1.12 * chart_most(bars),
                                     CHART_PLAIN };
    chart_draw_axis(to, &axis, false, top, tall);
    for (size_t i = 0; i < bars->row_count; i++) {
        (void)fputs("<g class=\"row\">\n", to);
        chart_row(to, bars, &axis, i, top + 10 + row * (double)i);
        (void)fputs("</g>\n", to);
    }
    chart_frame(to, top, tall);
    for (size_t i = 0; i < bars->series_count && bars->series_count > 1; i++) {
        const double y = top + 10 + 21 * (double)i;
        (void)fprintf(to,
                      "<rect x=\"%d\" y=\"%.1f\" width=\"32\" height=\"10\" "
                      "fill=\"%s\"/>\n",
                      CHART_LEGEND, y - 5, chart_colors[i % CHART_COLORS]);
        chart_name(to, y, bars->series[i]);
    }
    page->height = top + tall + 66;
}

/* ---- The page -------------------------------------------------------------------------------- */

void chart_begin(struct chart_page *page, const char *title, const char *below)
{
    *page = (struct chart_page){ .title = title, .below = below };
    page->to = open_memstream(&page->text, &page->size);
    page->height = below && *below ? 70 : 48;
}

static void chart_write(const void *what, FILE *to)
{
    const struct chart_page *page = what;
    const struct chart_font title = { 19, chart_ink, "start", true, false },
                            below = { 13, chart_gray, "start", false, false };
    (void)fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
        "viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, 'DejaVu Sans', "
        "sans-serif\">\n<title>",
        CHART_WIDTH, page->height, CHART_WIDTH, page->height);
    text_xml(to, page->title);
    (void)fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                to);
    chart_text(to, 26, 36, title, page->title);
    if (page->below) {
        chart_text(to, 26, 58, below, page->below);
    }
    (void)fwrite(page->text, 1, page->size, to);
    (void)fputs("</svg>\n", to);
}

int chart_save(struct chart_page *page, const char *path)
{
    const bool drawn = page->to && fflush(page->to) == 0 && !ferror(page->to);
    const int code = drawn ? replace_file_with(path, chart_write, page)
                           : say_full("%s: out of memory", path);
    if (page->to) {
        (void)fclose(page->to);
    }
    free(page->text);
    return code;
}

/*
 * output.c - tables and JSON lines.
 */
#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 2048 };

/* The row being built; bgbench prints from one thread only. */
static struct {
    bool json;
    bool heading; /* the next row is the first of its table */
    const char *bench;
    char titles[LINE_BYTES];
    char line[LINE_BYTES];
} output;

__attribute__((format(printf, 2, 3))) static void output_add(char *to,
                                                             const char *format, ...)
{
    size_t used = strlen(to);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(to + used, LINE_BYTES - used, format, args);
    va_end(args);
}

void bgb_out_begin(bool json)
{
    output.json = json;
}

bool bgb_out_is_json(void)
{
    return output.json;
}

void bgb_table(const char *bench, const char *title, ...)
{
    output.bench = bench;
    output.heading = true;
    if (output.json) {
        return;
    }
    va_list args;
    va_start(args, title);
    (void)printf("\n%s: ", bench);
    (void)vprintf(title, args);
    (void)printf("\n");
    va_end(args);
}

void bgb_note(const char *format, ...)
{
    if (output.json) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    (void)printf("\n");
    va_end(args);
}

void bgb_row_begin(void)
{
    output.titles[0] = '\0';
    output.line[0] = '\0';
    if (output.json) {
        output_add(output.line, "{\"bench\":\"%s\"", output.bench);
    }
}

/* Adds a table cell: the title above and the text below, each `width` characters wide. */
static void output_cell(const char *title, int width, const char *text)
{
    if (width != 0) {
        output_add(output.titles, "%*s  ", width, title);
        output_add(output.line, "%*s  ", width, text);
    }
}

static void output_json_text(const char *key, const char *value)
{
    output_add(output.line, ",\"%s\":\"", key);
    for (const char *p = value; *p; p++) {
        if (*p == '"' || *p == '\\') {
            output_add(output.line, "\\%c", *p);
        } else if ((unsigned char)*p >= 0x20) {
            output_add(output.line, "%c", *p);
        }
    }
    output_add(output.line, "\"");
}

void bgb_cell_text(const char *key, const char *title, int width, const char *value)
{
    if (output.json) {
        output_json_text(key, value);
    } else {
        output_cell(title, width, value);
    }
}

void bgb_cell_count(const char *key, const char *title, int width, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if (output.json) {
        output_add(output.line, ",\"%s\":%s", key, text);
    } else {
        output_cell(title, width, text);
    }
}

void bgb_cell_real(const char *key, const char *title, int width, int decimals,
                   double value)
{
    char text[64];
    if (output.json) {
        if (isfinite(value)) {
            output_add(output.line, ",\"%s\":%.6g", key, value);
        } else {
            output_add(output.line, ",\"%s\":null", key);
        }
        return;
    }
    if (isfinite(value)) {
        (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    } else {
        (void)snprintf(text, sizeof text, "-");
    }
    output_cell(title, width, text);
}

static void output_trim(char *line)
{
    size_t len = strlen(line);
    while (len && line[len - 1] == ' ') {
        line[--len] = '\0';
    }
}

void bgb_row_end(void)
{
    if (output.json) {
        output_add(output.line, "}");
    } else if (output.heading) {
        output_trim(output.titles);
        (void)printf("%s\n", output.titles);
    }
    output.heading = false;
    output_trim(output.line);
    (void)printf("%s\n", output.line);
    (void)fflush(stdout);
}

void bgb_cells_subject(const char *name, uint64_t n, double bits_per_key, double fpr)
{
    bgb_cell_text("subject", "subject", -40, name);
    bgb_cell_count("n", "n", 10, n);
    bgb_cell_real("bits_per_key", "bits/key", 8, 2, bits_per_key);
    if (output.json) {
        bgb_cell_real("fpr", "", 0, 0, fpr);
    } else {
        bgb_cell_real("fpr", "fpr %", 8, 4, fpr * 100);
    }
}

void bgb_cells_times(const struct bgb_subject *s, double ratio)
{
    if (s->broken) {
        bgb_cell_text("status", "ns", 8, "BROKEN");
        return;
    }
    bgb_cell_real("ns_per_key", "ns", 8, 2, s->p5);
    bgb_cell_real("ns_best", "best", 8, 2, s->best);
    bgb_cell_real("ns_median", "median", 8, 2, s->median);
    bgb_cell_real("ratio", "ratio", 6, 2, ratio);
    bgb_cell_count("passes", "passes", 6, s->passes);
}

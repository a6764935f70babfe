/* columns.c - see columns.h. All text in tables is ASCII, so each byte is one character wide. */
#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void columns_add(struct columns *columns, const char *above, const char *name,
                 bool left)
{
    if (columns->count < COLUMNS_MAX) {
        columns->heads[columns->count].above = above;
        columns->heads[columns->count].name = name;
        columns->heads[columns->count++].left = left;
    }
}

void columns_row(struct columns *columns)
{
    columns->rows += columns->rows < COLUMNS_ROWS;
    memset(columns->cells[columns->rows - 1], 0, sizeof columns->cells[0]);
}

void columns_set(struct columns *columns, const char *text)
{
    char(*row)[COLUMNS_CELL] = columns->cells[columns->rows - 1];
    for (size_t i = 0; i < columns->count; i++) {
        if (!row[i][0]) {
            (void)snprintf(row[i], COLUMNS_CELL, "%s", text);
            return;
        }
    }
}

void columns_real(struct columns *columns, int digits, double value)
{
    char text[COLUMNS_CELL];
    (void)snprintf(text, sizeof text, "%.*f", digits, value);
    columns_set(columns, text);
}

/* Shows three significant digits and a suffix. Whole numbers below 1000 have no fraction. */
void columns_short(struct columns *columns, double value)
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
    char text[COLUMNS_CELL];
    size_t unit = 0;
    for (; value >= 999.5 && unit < 6; unit++) {
        value /= 1000;
    }
    const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    const bool whole = unit == 0 && fabs(value - rint(value)) < 0.005;
    (void)snprintf(text, sizeof text, "%.*f%s", whole ? 0 : digits, value, units[unit]);
    columns_set(columns, value > 0 && value < 0.005 ? "<0.01" : text);
}

void columns_refuse(struct columns *columns, const char *name, const char *why)
{
    if (columns->refused_count < COLUMNS_ROWS) {
        columns->refused[columns->refused_count].name = name;
        columns->refused[columns->refused_count++].why = why;
    }
}

static size_t columns_width(const struct columns *columns, size_t i)
{
    size_t width = strlen(columns->heads[i].above);
    width =
        strlen(columns->heads[i].name) > width ? strlen(columns->heads[i].name) : width;
    for (size_t row = 0; row < columns->rows; row++) {
        const size_t here = strlen(columns->cells[row][i]);
        width = here > width ? here : width;
    }
    return width;
}

/* Omits trailing spaces. */
static void columns_cell(const struct columns *columns, size_t i, size_t width,
                         const char *text)
{
    if (!columns->heads[i].left) {
        printf("%*s", (int)width, text);
    } else if (i + 1 < columns->count) {
        printf("%-*s", (int)width, text);
    } else {
        printf("%s", text);
    }
}

void columns_print(const struct columns *columns)
{
    size_t widths[COLUMNS_MAX], all = 0;
    for (size_t i = 0; i < columns->count; i++) {
        widths[i] = columns_width(columns, i);
        all += widths[i] + (i ? 2 : 0);
    }
    const char *gap = all > COLUMNS_WIDTH ? " " : "  ";
    for (size_t line = 0; line < columns->rows + 2; line++) {
        for (size_t i = 0; i < columns->count; i++) {
            printf("%s", i ? gap : "");
            columns_cell(columns, i, widths[i],
                         line == 0   ? columns->heads[i].above
                         : line == 1 ? columns->heads[i].name
                                     : columns->cells[line - 2][i]);
        }
        printf("\n");
    }
    printf("%s", columns->refused_count ? "\nNot possible:\n" : "");
    for (size_t i = 0; i < columns->refused_count; i++) {
        char name[COLUMNS_CELL];
        (void)snprintf(name, sizeof name, "  %s", columns->refused[i].name);
        columns_paragraph(name, 15, COLUMNS_WIDTH, columns->refused[i].why);
    }
}

void columns_paragraph(const char *first, size_t indent, size_t width, const char *text)
{
    size_t column = strlen(first);
    bool begun = column >= indent && column > 0;
    printf("%s", first);
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (begun && column + 1 + word > width) {
            printf("\n");
            column = 0;
            begun = false;
        }
        if (begun) {
            printf(" ");
            column++;
        } else if (column < indent) {
            printf("%*s", (int)(indent - column), "");
            column = indent;
        }
        printf("%.*s", (int)word, text);
        column += word;
        begun = true;
        text += word + (text[word] == ' ');
    }
    printf("\n");
}

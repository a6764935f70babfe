/* roff.c - see roff.h. Write errors are reported when the stream is closed. */
#include "roff.h"

#include "letters.h"

#include <string.h>

/* Prints a character literally. Some characters must be escaped, because they have a special
 * meaning in troff or would be replaced by typographic characters. */
static void roff_character(FILE *to, char c)
{
    switch (c) {
    case '\\': (void)fputs("\\e", to); break;
    case '-': (void)fputs("\\-", to); break;
    case '\'': (void)fputs("\\(aq", to); break;
    case '`': (void)fputs("\\(ga", to); break;
    case '^': (void)fputs("\\(ha", to); break;
    case '~': (void)fputs("\\(ti", to); break;
    default: (void)fputc(c, to);
    }
}

void roff_inside(FILE *to, const char *text)
{
    for (; *text; text++) {
        roff_character(to, *text);
    }
}

void roff_text(FILE *to, const char *text)
{
    if (*text == '.') { /* otherwise, the dot would start a troff request */
        (void)fputs("\\&", to);
    }
    roff_inside(to, text);
}

void roff_paragraphs(FILE *to, const char *text)
{
    while (*text) {
        if (strncmp(text, "\n\n", 2) == 0) {
            (void)fputs("\n.PP\n", to);
            text += 2;
        } else if (text[0] == '.' && text[1] == ' ') {
            (void)fputs(".\n", to);
            text += 2;
        } else {
            roff_character(to, *text++);
        }
    }
    (void)fputc('\n', to);
}

void roff_title(FILE *to, const char *name, const char *section, const char *source,
                const char *manual, const char *summary)
{
    (void)fputs(".TH ", to);
    for (const char *c = name; *c; c++) {
        roff_character(to, letter_upper(*c));
    }
    (void)fprintf(to, " %s \"\" \"%s\" \"%s\"\n.SH NAME\n", section, source, manual);
    roff_inside(to, name);
    (void)fputs(" \\- ", to);
    roff_inside(to, summary);
    (void)fputc('\n', to);
}

void roff_item(FILE *to, const char *tag, const char *text)
{
    (void)fputs(".TP\n\\fB", to);
    roff_inside(to, tag);
    (void)fputs("\\fR\n", to);
    roff_text(to, text);
    (void)fputc('\n', to);
}

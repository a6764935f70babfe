/*
 * roff.h - generates man pages with man(7) macros: escapes text, and prints the parts of a page.
 */
#ifndef COMMON_ROFF_H
#define COMMON_ROFF_H

#include <stdio.h>

/* Print text: roff_inside within a line, roff_text at the start of a line. */
void roff_inside(FILE *to, const char *text);
void roff_text(FILE *to, const char *text);

/* Prints paragraphs, which are separated by empty lines in `text`. Starts each sentence on a new
 * line. */
void roff_paragraphs(FILE *to, const char *text);

/* Prints the title and the NAME section of a page. Example arguments: "bloomgate-build", "1",
 * "bloomgate 0.1.0", "User Commands", and a summary. */
void roff_title(FILE *to, const char *name, const char *section, const char *source,
                const char *manual, const char *summary);

/* Prints a tag in bold, followed by text. */
void roff_item(FILE *to, const char *tag, const char *text);

#endif

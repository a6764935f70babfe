/*
 * roff.h - man pages, in the macros of man(7): text that comes out as it is written, and the few
 * pieces that the pages of the programs are made of.
 */
#ifndef COMMON_ROFF_H
#define COMMON_ROFF_H

#include <stdio.h>

/* Text within a line, and text that begins one. */
void roff_inside(FILE *to, const char *text);
void roff_text(FILE *to, const char *text);

/* Paragraphs, divided by empty lines; a sentence begins a line of its own. */
void roff_paragraphs(FILE *to, const char *text);

/* The head of a page: "bloomgate-build", "1", "bloomgate 0.1.0", "User Commands", and what it is. */
void roff_title(FILE *to, const char *name, const char *section, const char *source,
                const char *manual, const char *summary);

/* A tag in bold and a text, which is some sentences. */
void roff_item(FILE *to, const char *tag, const char *text);

#endif

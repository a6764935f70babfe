/*
 * text.h - text of strangers: characters of UTF-8, what XML takes for markup, and errno.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How many of n bytes the character of UTF-8 has that begins at s, which is *code; 0: it is
 * none. No sequence longer than needed, no surrogates, nothing above U+10FFFF. n is not 0. */
size_t text_character(const char *s, size_t n, uint32_t *code);

/* What an errno means; the same text for every thread. */
const char *text_errno(int code);

/* Text between tags; what XML cannot have becomes "?". */
void text_xml(FILE *to, const char *text);

#endif

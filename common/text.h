/*
 * text.h - decodes UTF-8, writes text as XML, and describes errno values.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decodes the UTF-8 character at s into *code. Returns the character's length in bytes, at most n,
 * or 0 if it is invalid: overlong, a surrogate, or above U+10FFFF. n must not be 0. */
size_t text_character(const char *s, size_t n, uint32_t *code);

/* Returns the description of an errno value. Thread safety: MT-Safe. */
const char *text_errno(int code);

/* Writes text as XML content: escapes it, and replaces characters that XML forbids with "?". */
void text_xml(FILE *to, const char *text);

#endif

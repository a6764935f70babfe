/*
 * pattern.h - patterns of names as Redis has them: * ? [abc] [a-z] [^abc] and \ before a character
 * that stands for itself. Names are bytes, not characters.
 *
 * A pattern of p bytes and a name of n bytes take at most about p * n steps, whatever they are:
 * only the last * is ever tried again.
 */
#ifndef COMMON_PATTERN_H
#define COMMON_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

bool pattern_matches(const char *pattern, size_t pattern_len, const char *name,
                     size_t name_len);

/* The same in any case of the letters A to Z. */
bool pattern_matches_nocase(const char *pattern, size_t pattern_len, const char *name,
                            size_t name_len);

#endif

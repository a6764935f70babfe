/*
 * pattern.h - matches names against patterns in Redis syntax: * ? [abc] [a-z] [^abc], and \ before
 * a literal character. Names are matched byte by byte, not by UTF-8 characters.
 *
 * Matching a pattern of p bytes against a name of n bytes takes at most about p * n steps,
 * because only the last * is ever retried.
 */
#ifndef COMMON_PATTERN_H
#define COMMON_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

bool pattern_matches(const char *pattern, size_t pattern_len, const char *name,
                     size_t name_len);

/* Like pattern_matches, but ignores the case of the letters A to Z. */
bool pattern_matches_nocase(const char *pattern, size_t pattern_len, const char *name,
                            size_t name_len);

#endif

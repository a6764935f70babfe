/*
 * pattern.c - see pattern.h.
 *
 * The pattern is matched against the name from left to right. A * initially matches nothing. If the
 * rest of the pattern does not match, the most recent * is extended by one byte, and the rest is
 * retried. When a second * is reached, the match of the first * is final, because the second * can
 * match any additional bytes that the first * could have matched. There is therefore only one
 * position to backtrack to, and no recursion.
 */
#include "pattern.h"

#include "letters.h"

struct pattern {
    const char *at, *end; /* the rest of the pattern */
    bool nocase;
};

static unsigned char pattern_fold(const struct pattern *pattern, char c)
{
    return (unsigned char)(pattern->nocase ? letter_lower(c) : c);
}

/* Returns the next character of the pattern, which may be escaped with \, and moves past it. */
static unsigned char pattern_literal(struct pattern *pattern)
{
    if (*pattern->at == '\\' && pattern->end - pattern->at > 1) {
        pattern->at++;
    }
    return pattern_fold(pattern, *pattern->at++);
}

/* Returns whether c is in the set that starts at the [. Moves past the ], or to the end of the
 * pattern if there is no ]. */
static bool pattern_set(struct pattern *pattern, unsigned char c)
{
    pattern->at++;
    const bool inverted = pattern->at < pattern->end && *pattern->at == '^';
    bool in = false;
    pattern->at += inverted;
    while (pattern->at < pattern->end && *pattern->at != ']') {
        const unsigned char from = pattern_literal(pattern);
        unsigned char to = from;
        if (pattern->end - pattern->at > 1 && pattern->at[0] == '-'
            && pattern->at[1] != ']') {
            pattern->at++;
            to = pattern_literal(pattern);
        }
        in = in || (from <= to ? from <= c && c <= to : to <= c && c <= from);
    }
    pattern->at += pattern->at < pattern->end;
    return in != inverted;
}

/* Returns whether the next element of the pattern, which is not a *, matches c. Moves past that
 * element. */
static bool pattern_one(struct pattern *pattern, char c)
{
    if (*pattern->at == '?') {
        pattern->at++;
        return true;
    }
    if (*pattern->at == '[') {
        return pattern_set(pattern, pattern_fold(pattern, c));
    }
    return pattern_literal(pattern) == pattern_fold(pattern, c);
}

static bool pattern_walk(struct pattern *pattern, const char *name, size_t name_len)
{
    const char *const end = name_len ? name + name_len : name;
    const char *star = NULL, *star_name = NULL; /* positions for retrying the last * */
    while (name < end) {
        if (pattern->at < pattern->end && *pattern->at == '*') {
            star = ++pattern->at;
            star_name = name;
        } else if (pattern->at < pattern->end && pattern_one(pattern, *name)) {
            name++;
        } else if (star) {
            pattern->at = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    while (pattern->at < pattern->end && *pattern->at == '*') {
        pattern->at++;
    }
    return pattern->at == pattern->end;
}

bool pattern_matches(const char *pattern, size_t pattern_len, const char *name,
                     size_t name_len)
{
    struct pattern all = { pattern, pattern_len ? pattern + pattern_len : pattern,
                           false };
    return pattern_walk(&all, name, name_len);
}

bool pattern_matches_nocase(const char *pattern, size_t pattern_len, const char *name,
                            size_t name_len)
{
    struct pattern all = { pattern, pattern_len ? pattern + pattern_len : pattern,
                           true };
    return pattern_walk(&all, name, name_len);
}

/*
 * test_pattern.c - tests name patterns. The tests cover patterns with known results and patterns
 * that take exponential time in naive matchers. For all short patterns and names, the results are
 * compared with those of a matcher that tries all possibilities.
 */
#include "support/check.h"

#include "pattern.h"

#include <string.h>

static bool matches(const char *pattern, const char *name)
{
    return pattern_matches(pattern, strlen(pattern), name, strlen(name));
}

TEST(pattern__known_answers)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        { "", "", true },
        { "", "a", false },
        { "*", "", true },
        { "*", "anything", true },
        { "**", "", true },
        { "?", "", false },
        { "?", "a", true },
        { "?", "ab", false },
        { "acme:*", "acme:", true },
        { "acme:*", "acme:users", true },
        { "acme:*", "acme", false },
        { "acme:*", "xacme:users", false },
        { "*:users", "acme:users", true },
        { "*:users", "acme:users2", false },
        { "a*b*c", "abc", true },
        { "a*b*c", "aXbYbZc", true },
        { "a*b*c", "acb", false },
        { "[abc]x", "bx", true },
        { "[abc]x", "dx", false },
        { "[^abc]x", "dx", true },
        { "[^abc]x", "ax", false },
        { "[a-c]", "b", true },
        { "[c-a]", "b", true },
        { "[a-c]", "-", false },
        { "[a-]", "-", true },
        { "[-a]", "-", true },
        { "[]a]", "a]", false }, /* an empty set matches no character */
        /* the complement of the empty set matches any character */
        { "[^]", "x", true },
        { "[\\]]", "]", true },
        { "[\\^a]", "^", true },
        /* without ], the set extends to the end of the pattern */
        { "[abc", "b", true },
        { "[", "[", false },
        { "\\*", "*", true },
        { "\\*", "x", false },
        { "a\\?c", "a?c", true },
        { "a\\?c", "abc", false },
        { "\\", "\\", true }, /* a backslash at the end matches itself */
        { "h\xC3\xA9llo*", "h\xC3\xA9llo w\xC3\xB6rld", true },
        { "h?llo", "h\xC3\xA9llo", false }, /* bytes, not characters */
        { "h??llo", "h\xC3\xA9llo", true },
        { "ABC*", "abcd", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (matches(cases[i].pattern, cases[i].name) != cases[i].matches) {
            check_fail(__FILE__, __LINE__, "'%s' and '%s'", cases[i].pattern,
                       cases[i].name);
        }
    }
}

TEST(pattern__bytes_of_any_value)
{
    const char name[] = { 0, 'a', (char)0xFF, 0 };
    CHECK(pattern_matches("\0a?\0", 4, name, 4));
    CHECK(pattern_matches("*\xFF*", 3, name, 4));
    CHECK(pattern_matches("[\x80-\xFF]", 5, "\xFF", 1));
    CHECK(!pattern_matches("[\x80-\xFE]", 5, "\xFF", 1));
    CHECK(!pattern_matches("a", 1, "a\0", 2));
    CHECK(pattern_matches(NULL, 0, NULL, 0));
    CHECK(pattern_matches("*", 1, NULL, 0));
    CHECK(!pattern_matches("?", 1, NULL, 0));
    CHECK(!pattern_matches(NULL, 0, "a", 1));
}

TEST(pattern__any_case)
{
    CHECK(pattern_matches_nocase("CF-*", 4, "cf-bucket-size", 14));
    CHECK(pattern_matches_nocase("[A-C]x", 6, "bX", 2));
    CHECK(!pattern_matches_nocase("k\xC3\x89", 3, "k\xC3\xA9", 3));
    CHECK(!pattern_matches_nocase("a", 1, "b", 1));
}

/* Matches a pattern of letters, ? and * by trying all possibilities recursively. */
static bool reference(const char *p, const char *n)
{
    if (*p == 0) {
        return *n == 0;
    }
    if (*p == '*') {
        return reference(p + 1, n) || (*n && reference(p, n + 1));
    }
    return *n && (*p == '?' || *p == *n) && reference(p + 1, n + 1);
}

/* Writes the i-th of all strings that consist of the given letters, in order of length. */
static void nth(uint64_t i, const char *letters, char *text)
{
    const size_t n = strlen(letters);
    for (; i > 0; i = (i - 1) / n) {
        *text++ = letters[(i - 1) % n];
    }
    *text = 0;
}

TEST(pattern__all_short_ones)
{
    char pattern[8], name[8];
    for (uint64_t i = 0; i < 1365; i++) { /* patterns of up to 5 characters */
        nth(i, "ab?*", pattern);
        for (uint64_t j = 0; j < 127; j++) { /* names of up to 6 letters */
            nth(j, "ab", name);
            if (matches(pattern, name) != reference(pattern, name)) {
                check_fail(__FILE__, __LINE__, "'%s' and '%s'", pattern, name);
            }
        }
    }
}

TEST(pattern__random_longer_ones)
{
    char pattern[9], name[24];
    size_t hits = 0;
    for (size_t i = 0; i < 20000 * check_scale(); i++) {
        const size_t p = check_random_below(sizeof pattern);
        const size_t n = check_random_below(sizeof name);
        for (size_t j = 0; j < p; j++) {
            pattern[j] = "aab?**"[check_random_below(6)];
        }
        for (size_t j = 0; j < n; j++) {
            name[j] = "ab"[check_random_below(2)];
        }
        pattern[p] = name[n] = 0;
        const bool expected = reference(pattern, name);
        hits += expected;
        CHECK_EQ(matches(pattern, name), expected);
    }
    CHECK(hits > 1000);
}

/* For these patterns, a recursive matcher would take longer than the age of the universe. */
TEST(pattern__no_blow_up)
{
    enum { N = 20000 };
    static char name[N], pattern[N];
    memset(name, 'a', sizeof name);
    for (size_t i = 0; i < 60; i++) {
        pattern[2 * i] = '*';
        pattern[2 * i + 1] = 'a';
    }
    pattern[120] = 'b';
    CHECK(!pattern_matches(pattern, 121, name, sizeof name));
    memset(pattern, '*', sizeof pattern);
    pattern[sizeof pattern - 1] = 'b';
    CHECK(!pattern_matches(pattern, sizeof pattern, name, sizeof name));
    pattern[sizeof pattern - 1] = 'a';
    CHECK(pattern_matches(pattern, sizeof pattern, name, sizeof name));
    CHECK(!pattern_matches("***a***a***b", 12, name, sizeof name));
    CHECK(pattern_matches("***a***a***", 11, name, sizeof name));
}

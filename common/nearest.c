/*
 * nearest.c - see nearest.h.
 *
 * Each name has a cost, and the name with the lowest cost wins; among equal costs, the first one.
 *   1  the typed text with two neighboring letters swapped, the most frequent mistake
 *   2  per letter to change, delete or insert
 *   2  the same letters in another order
 *   2  a name that starts with the typed text (at least 3 letters)
 *   3  a name that contains the typed text (at least 5 letters)
 *   3  a name (at least 4 letters) that the typed text starts with
 * Case is ignored.
 *
 * A wrong suggestion is worse than none, so the maximum cost is 2 (one mistake) for up to 4 letters,
 * and 4 (two mistakes) for longer texts.
 */
#include "nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    NEAREST_LONGEST = 40,
    NEAREST_SWAP = 1,
    NEAREST_EDIT = 2,
    NEAREST_START = 2,
    NEAREST_PART = 3,
    NEAREST_WORD = 5 /* minimum length of a synonym that may be mistyped */
};

static size_t nearest_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the total cost of the cheapest edits that turn `a` into `b`. */
static size_t nearest_edits(const char *a, const char *b)
{
    size_t rows[3][NEAREST_LONGEST + 1];
    const size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = NEAREST_EDIT * j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3];
        const size_t *swapped = rows[(i + 1) % 3];
        now[0] = NEAREST_EDIT * i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1] ? NEAREST_EDIT : 0);
            best = nearest_least(best, before[j] + NEAREST_EDIT);
            best = nearest_least(best, now[j - 1] + NEAREST_EDIT);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = nearest_least(best, swapped[j - 2] + NEAREST_SWAP);
            }
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

/* Returns whether a name has the same letters in another order. */
static bool nearest_shuffled(const char *a, const char *b)
{
    int counts[256] = { 0 };
    for (; *a; a++) {
        counts[(unsigned char)*a]++;
    }
    for (; *b; b++) {
        counts[(unsigned char)*b]--;
    }
    for (size_t i = 0; i < 256; i++) {
        if (counts[i]) {
            return false;
        }
    }
    return true;
}

/* Copies a word in lower case. Returns false if it is too long to be compared. */
static bool nearest_lower(const char *word, char lower[NEAREST_LONGEST + 1])
{
    size_t n = 0;
    for (; word[n] && n < NEAREST_LONGEST; n++) {
        const bool upper = word[n] >= 'A' && word[n] <= 'Z';
        lower[n] = (char)(upper ? word[n] - 'A' + 'a' : word[n]);
    }
    lower[n] = 0;
    return !word[n];
}

static size_t nearest_cost(const char *word, const char *other)
{
    char typed[NEAREST_LONGEST + 1] = "", name[NEAREST_LONGEST + 1] = "";
    if (!nearest_lower(word, typed) || !nearest_lower(other, name)) {
        return SIZE_MAX;
    }
    const size_t n = strlen(typed), m = strlen(name), cost = nearest_edits(typed, name);
    if (n >= 3 && (strncmp(typed, name, n) == 0 || nearest_shuffled(typed, name))) {
        return nearest_least(cost, NEAREST_START);
    }
    if ((n >= 5 && strstr(name, typed)) || (m >= 4 && strncmp(typed, name, m) == 0)) {
        return nearest_least(cost, NEAREST_PART);
    }
    return cost;
}

/* A search for the word with the lowest cost. */
struct nearest_best {
    const char *typed, *name; /* name is NULL until a word is near */
    size_t least;             /* the lowest cost so far, or the maximum plus 1 */
};

static struct nearest_best nearest_begin(const char *typed)
{
    return (struct nearest_best){ typed, NULL,
                                  (strlen(typed) <= 4 ? 1 : 2) * NEAREST_EDIT + 1 };
}

/* Selects `name` if `word` is nearer than all earlier words. */
static void nearest_try(struct nearest_best *best, const char *word, const char *name)
{
    const size_t cost = *best->typed ? nearest_cost(best->typed, word) : SIZE_MAX;
    if (cost < best->least) {
        best->name = name;
        best->least = cost;
    }
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    struct nearest_best best = nearest_begin(typed);
    for (size_t i = 0; i < n; i++) {
        nearest_try(&best, names[i], names[i]);
    }
    return best.name;
}

static bool nearest_is(const char *typed, const char *word)
{
    while (*typed && (*typed == *word || (*typed == '_' && *word == '-'))) {
        typed++;
        word++;
    }
    return *typed == *word;
}

static const char *nearest_find(const char *name, const char *const *names, size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < n ? names[i] : NULL;
}

const char *nearest_meaning(const char *typed, const struct nearest_synonym *synonyms,
                            const char *const *names, size_t n)
{
    struct nearest_best best = nearest_begin(typed);
    for (size_t i = 0; i < n; i++) {
        nearest_try(&best, names[i], names[i]);
    }
    for (const struct nearest_synonym *s = synonyms; s->word; s++) {
        const char *name = nearest_find(s->name, names, n);
        if (name && nearest_is(typed, s->word)) {
            return name;
        }
        if (name && strlen(s->word) >= NEAREST_WORD) {
            nearest_try(&best, s->word, name);
        }
    }
    return best.name;
}

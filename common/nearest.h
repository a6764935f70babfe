/*
 * nearest.h - "did you mean ...?": finds the name that was probably intended.
 */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/* A word that other programs use, and the corresponding name in Bloomgate. */
struct nearest_synonym {
    const char *word, *name;
};

/* Finds the nearest match for a mistyped name among n names. Returns NULL if no name is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

/* Like nearest_name, but a synonym whose name is among the n names takes precedence, and a synonym
 * may be mistyped, too. The last synonym has the word NULL. '_' and '-' are equal in synonyms. */
const char *nearest_meaning(const char *typed, const struct nearest_synonym *synonyms,
                            const char *const *names, size_t n);

#endif

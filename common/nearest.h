/*
 * nearest.h - "did you mean ...?": finds the name that was probably intended.
 */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/* Returns the one of n names that is nearest to a mistyped name, or NULL if none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif

/*
 * nearest.h - "did you mean ...?": finds the name that was probably intended.
 */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/* Finds the nearest match for a mistyped name among n names. Returns NULL if no name is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif

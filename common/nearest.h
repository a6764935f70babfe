/*
 * nearest.h - "did you mean ...?": the name that somebody may have wanted to type.
 */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/* The one of `names` (n of them) that is nearest to a mistyped one; NULL: none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif

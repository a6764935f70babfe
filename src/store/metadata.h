/*
 * metadata.h - reads and writes numbers in the metadata text of a file header, as lines of the form
 * "name: 123". The user's lines are preserved. Each line that the library writes occurs at most
 * once, after the user's lines.
 */
#ifndef BGI_METADATA_H
#define BGI_METADATA_H

#include "bloomgate/file.h"

#include <stdbool.h>

/* Returns the line of a metadata text that starts with `name`, or NULL if there is none. `name`
 * includes the colon, as in "oplog:". */
const char *metadata_find(const char *text, const char *name);

/* Parses the number in the line that starts with `name`. Returns false if there is no such line or
 * if its value is not a valid number. */
bool metadata_number(const char *text, const char *name, uint64_t *value);

/* Writes `text` (may be NULL), followed by a line with `name` and `value`, to `to`. Errors:
 * BG_EINVAL if the text already contains a line with this name, or if there is not enough space. */
bg_err metadata_put(const char *text, const char *name, uint64_t value,
                    char to[BG_METADATA_MAX], bg_errinfo *info);

#endif

/*
 * metadata.h - numbers in the free text of a file's header: lines "name: 123". Users' own
 * lines stay as they are; a name of ours may stand there once, and is written last.
 */
#ifndef BGI_METADATA_H
#define BGI_METADATA_H

#include "bloomgate/file.h"

#include <stdbool.h>

/* The line of a text that begins with `name`, or NULL. `name` has its colon: "oplog:". */
const char *metadata_find(const char *text, const char *name);

/* The number of such a line: "name: " and digits, and nothing else. */
bool metadata_number(const char *text, const char *name, uint64_t *value);

/* `text` (may be NULL) and such a line, to `to`. BG_EINVAL when it has one already, or when
 * there is no room. */
bg_err metadata_put(const char *text, const char *name, uint64_t value,
                    char to[BG_METADATA_MAX], bg_errinfo *info);

#endif

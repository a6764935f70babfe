/*
 * doubt.h - names that may have belonged to filters that were lost with part of the journal.
 *
 * If journal frames are missing, they may have recorded that filters were created, renamed or
 * dropped. In that case, any name that is not in the catalog may have belonged to a lost filter.
 * Answering "no" for its keys could be a false negative, and so could a "no" from a new, empty
 * filter with the same name. Therefore, lookups under such a name return "maybe", and a filter with
 * that name can be created only together with its content (from a file or a dump).
 *
 * After a client drops or renames a filter, the filter's old name is known to be free. This fact is
 * not recorded, so after a restart the name is in doubt again, unless a filter was created under it
 * in the meantime. All doubt ends when the operator starts the service with `damaged-journal
 * forget`.
 */
#ifndef SERVER_PERSIST_DOUBT_H
#define SERVER_PERSIST_DOUBT_H

#include "bloomgate/all.h"

#include <stdbool.h>

struct doubt;

/* Creates a state in which all names are in doubt. Returns NULL if out of memory. */
struct doubt *doubt_create(void);
void doubt_free(struct doubt *doubt);

/* Returns whether a name that is not in the catalog is in doubt. If `doubt` is NULL, no name is in
 * doubt. Thread-safe. */
bool doubt_covers(struct doubt *doubt, bg_bytes name);

/* Marks a name as free. If the maximum number of free names has been reached, the name stays in
 * doubt. Thread-safe. */
void doubt_clear_name(struct doubt *doubt, bg_bytes name);

#endif

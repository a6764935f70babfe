/*
 * doubt.h - names of which nobody can say that no filter has them.
 *
 * When frames of the journal are missing, filters may have been created, renamed or dropped in them. A
 * name that is not in the catalogue may then have been the name of a filter: to deny its keys would be a
 * false negative, and so would be to create it empty. So lookups in it answer "maybe", and it is created
 * with its content only (a file, a dump).
 *
 * A name that a client drops, or renames, is known to be free from then on. That is not recorded: after
 * a restart it is doubted again, unless it has been created meanwhile. All doubt ends when the operator
 * starts the service with `damaged-journal forget`.
 */
#ifndef SERVER_DOUBT_H
#define SERVER_DOUBT_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>

struct doubt;

/* NULL: no memory. */
struct doubt *doubt_create(void);
void doubt_free(struct doubt *doubt);

/* Whether a name that is not in the catalogue is in doubt. `doubt` NULL: none is. MT-Safe. */
bool doubt_covers(struct doubt *doubt, bg_bytes name);

/* A name is free from now on. If there is no room for more of them, it stays in doubt. MT-Safe. */
void doubt_clear_name(struct doubt *doubt, bg_bytes name);

#endif

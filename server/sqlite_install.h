/*
 * sqlite_install.h - writes to a gate's database: creates the gate's objects, and deletes old change rows.
 *
 * Each function opens its own connection, and holds the write lock only briefly.
 */
#ifndef SERVER_SQLITE_INSTALL_H
#define SERVER_SQLITE_INSTALL_H

#include "sqlite_history.h"

/*
 * Creates missing objects, and the row that a place in the history requires, in one transaction. Objects of this gate
 * with unexpected SQL are replaced. Objects that the service did not create are never changed. With install=no, the
 * function creates no objects, but writes the statements to the script. Errors: BG_EINVAL, BG_EIO, BG_EBUSY.
 */
bg_err sqlite_install(struct source *source, const struct sqlite_objects *objects,
                      bg_errinfo *info);

/* Replaces all rows with a single row that has a new token, so no earlier mark remains valid. */
bg_err sqlite_install_forget(struct source *source,
                             const struct sqlite_objects *objects, bg_errinfo *info);

/* Deletes the rows before the given row, if that row has the given token. Stops after a limited time, and sets *more if
 * rows remain.
 * Errors: BG_EBUSY if another connection is writing. */
bg_err sqlite_install_prune(struct source *source, const struct sqlite_objects *objects,
                            int64_t number, int64_t token, bool *more,
                            bg_errinfo *info);

#endif

/*
 * sqlite/install.h - writes to a gate's database: creates the gate's objects, and deletes old change rows.
 *
 * Each function opens its own connection, and holds the write lock only briefly.
 */
#ifndef SERVER_SQLITE_INSTALL_H
#define SERVER_SQLITE_INSTALL_H

#include "sqlite/history.h"

/*
 * In one transaction, creates missing objects and, if necessary, a row that can serve as a place in the history.
 * Objects of this gate with unexpected SQL are replaced. Objects that the service did not create are never changed.
 * With install=no, the function creates nothing and writes the SQL statements to the script instead. Errors:
 * BG_EINVAL, BG_EIO, BG_EBUSY.
 */
bg_err sqlite_install(struct source *source, const struct sqlite_objects *objects,
                      bg_errinfo *info);

/* Replaces all rows with a single row that has a new token, so that no earlier mark remains
 * valid. */
bg_err sqlite_install_forget(struct source *source,
                             const struct sqlite_objects *objects, bg_errinfo *info);

/* Deletes the rows before the given row, if that row has the given token. Stops after a limited time, and sets *more if
 * rows remain.
 * Errors: BG_EBUSY if another connection is writing. */
bg_err sqlite_install_prune(struct source *source, const struct sqlite_objects *objects,
                            int64_t number, int64_t token, bool *more,
                            bg_errinfo *info);

#endif

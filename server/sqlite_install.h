/*
 * sqlite_install.h - writes to the database of a gate: creates its objects, and deletes old change rows.
 *
 * Each function opens a connection of its own, and holds the write lock for a short time.
 */
#ifndef SERVER_SQLITE_INSTALL_H
#define SERVER_SQLITE_INSTALL_H

#include "sqlite_history.h"

/*
 * Creates what is missing, and the row that a place in the history needs, in one transaction. Objects of this
 * gate that differ from what is expected are replaced; objects that the service did not create are
 * never touched. With install=no it creates no objects, but writes the statements to the script.
 * Errors: BG_EINVAL, BG_EIO, BG_EBUSY.
 */
bg_err sqlite_install(struct source *source, const struct sqlite_objects *objects,
                      bg_errinfo *info);

/* Deletes rows before this one, if it has this token, for a short time. *more: rows are left. Errors: BG_EBUSY if
 * another connection is writing. */
bg_err sqlite_install_prune(struct source *source, const struct sqlite_objects *objects,
                            int64_t number, int64_t token, bool *more,
                            bg_errinfo *info);

#endif

/*
 * sqlite_history.h - the change table of a gate over SQLite, as a history that proves itself.
 *
 * Rows are numbered without gaps: SQLite takes the numbers from sqlite_sequence in the transaction of the
 * change, so a rollback returns them. Each row has a random token. The table always has a last row; an
 * empty one gets a row without a key. So a row marks a place in the history: a database that has
 * the row with this token includes all changes up to it. The rows after it are complete if their
 * numbers are contiguous and reach sqlite_sequence.
 *
 * A copy of the file shares the history up to the time of the copy, and a restored backup ends earlier. In both, rows
 * that were written later have other tokens. A dump that was edited and loaded into a new file has the same
 * tokens; there, the file differs.
 *
 * All functions read in the caller's transaction. Errors: BG_EINCOMPAT if the history is not the one of the place.
 */
#ifndef SERVER_SQLITE_HISTORY_H
#define SERVER_SQLITE_HISTORY_H

#include "sqlite_schema.h"

struct sqlite_place {
    struct sqlite_file file; /* device 0: on any device */
    int64_t schema;          /* the schema version */
    int64_t number;          /* of the last row that was read */
    int64_t token;           /* of that row */
    int64_t
        sequence; /* in sqlite_sequence: at most the number, and it never decreases */
};

/* Returns the place at the end of the table. Errors: BG_ENOTFOUND if the objects are missing or differ, or if
 * the table has to get a row before it has a place (sqlite_install.h). */
bg_err sqlite_history_end(struct sqlite_link *link,
                          const struct sqlite_objects *objects,
                          struct sqlite_place *place, bg_errinfo *info);

/* Verifies that the file, the schema and the objects are those of the place, and that its row is there. */
bg_err sqlite_history_verify(struct sqlite_link *link,
                             const struct sqlite_objects *objects,
                             const struct sqlite_place *place, bg_errinfo *info);

/* Reads the keys after the place until the batch is full, and advances the place. *ended: there are
 * no more rows, and none is missing. */
bg_err sqlite_history_read(struct sqlite_link *link,
                           const struct sqlite_objects *objects,
                           struct sqlite_place *place, struct key_batch *batch,
                           bool *ended, bg_errinfo *info);

#endif

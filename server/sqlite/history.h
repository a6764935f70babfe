/*
 * sqlite/history.h - the change table of a gate over SQLite, as a verifiable history.
 *
 * Rows are numbered without gaps: SQLite assigns the numbers from sqlite_sequence in the transaction that makes the
 * change, so a rollback releases them. Each row has a random token. The table is never left empty: if it contains no
 * rows, a row without a key is inserted. So each row marks a place in the history: a database that contains the row
 * with this token includes all changes up to that row. The rows after the place are complete if their numbers are
 * contiguous and reach the value in sqlite_sequence.
 *
 * A copy of the file shares the history up to the time of the copy, and the history of a restored backup ends
 * earlier. In both cases, rows written later have different tokens. A dump that was edited and loaded into a new file
 * has the same tokens, but a different file identity.
 *
 * The functions that take a link read in the caller's transaction. Errors: BG_EINCOMPAT if the place belongs to a
 * different history. The functions that take a source write to the database: each of them opens its own connection, and
 * holds the write lock only briefly.
 */
#ifndef SERVER_SQLITE_HISTORY_H
#define SERVER_SQLITE_HISTORY_H

#include "sqlite/schema.h"

struct sqlite_place {
    struct sqlite_file file; /* device 0 matches any device */
    int64_t schema;          /* the schema version */
    int64_t number;          /* number of the last row read */
    int64_t token;           /* token of that row */
    /* The value in sqlite_sequence. It is at most `number` and never decreases. */
    int64_t sequence;
};

/* Returns the place at the end of the table. Errors: BG_ENOTFOUND if objects are missing or have different SQL, or
 * if a row must be added first (sqlite_history_install). */
bg_err sqlite_history_end(struct sqlite_link *link, struct sqlite_place *place,
                          bg_errinfo *info);

/* Sets *number to the number of the last row, including rows that should exist according to sqlite_sequence. Rows up
 * to this number contain all changes that were committed before the transaction. */
bg_err sqlite_history_last(struct sqlite_link *link, int64_t *number, bg_errinfo *info);

/* Verifies that the file, the schema and the objects match the place, and that the place's row exists. */
bg_err sqlite_history_verify(struct sqlite_link *link, const struct sqlite_place *place,
                             bg_errinfo *info);

/* Reads the keys after the place until the batch is full, and advances the place. Sets *ended if all rows have been
 * read and none is missing. */
bg_err sqlite_history_read(struct sqlite_link *link, struct sqlite_place *place,
                           struct key_batch *batch, bool *ended, bg_errinfo *info);

/*
 * In one transaction, creates missing objects and, if necessary, a row that can serve as a place in the history.
 * Objects of this gate with unexpected SQL are replaced. Objects that the service did not create are never changed.
 * With install=no, the function creates nothing and writes the SQL statements to the script instead. Errors:
 * BG_EINVAL, BG_EIO, BG_EBUSY.
 */
bg_err sqlite_history_install(struct source *source, bg_errinfo *info);

/* Replaces all rows with a single row that has a new token, so that no earlier mark remains
 * valid. */
bg_err sqlite_history_forget(struct source *source, bg_errinfo *info);

/* Deletes the rows before the given row, if that row has the given token. Stops after a limited time, and sets *more if
 * rows remain.
 * Errors: BG_EBUSY if another connection is writing. */
bg_err sqlite_history_prune(struct source *source, int64_t number, int64_t token,
                            bool *more, bg_errinfo *info);

#endif

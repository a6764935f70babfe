/*
 * sqlite/link.h - one connection to a SQLite database, for one thread at a time.
 *
 * A connection enforces deadlines with a progress handler. If a writer holds a lock, the connection waits until
 * the deadline or the timeout. Calls return soon after the source is stopped.
 *
 * SQLite continues to read a file that was replaced by another file with the same name, and a write-ahead log whose
 * files were deleted. sqlite_link_is_fresh detects both cases. SQLite also continues to use its cache after a program
 * has overwritten the file (for example, with a backup) if the change counter in the header is the same.
 * sqlite_link_is_unchanged detects this case.
 */
#ifndef SERVER_SQLITE_LINK_H
#define SERVER_SQLITE_LINK_H

#include "source/driver.h"

#include <sqlite3.h>

/* The identity of a file. An inode number can be reused after its file is deleted, but then the birth time differs. */
struct sqlite_file {
    uint64_t device;
    uint64_t inode;
    int64_t birth;  /* in nanoseconds; 0 if the file system does not record it */
    uint32_t names; /* number of hard links; not part of the identity */
};

struct sqlite_link {
    struct source *source;
    sqlite3 *db;
    uint64_t deadline;          /* deadline of the current operation, or 0 if none */
    uint64_t busy_until;        /* when to stop waiting for a lock */
    struct sqlite_file file;    /* the file that was opened */
    struct sqlite_file logs[2]; /* the -wal and -shm files; zeros if missing */
    int64_t changed;            /* change time (ctime) of the file when it was opened */
};

/* Opens the source's database, which must exist. If a writer holds the lock, waits until the timeout. Errors:
 * BG_EIO; BG_EBUSY if the database is locked. */
bg_err sqlite_link_open(struct sqlite_link *link, struct source *source, bool writes,
                        bg_errinfo *info);
void sqlite_link_close(struct sqlite_link *link);

/* Returns whether the path still refers to the file that was opened and to the connection's write-ahead log. */
bool sqlite_link_is_fresh(const struct sqlite_link *link);

/* Returns whether the file has the same change time as when it was opened. Commits and checkpoints also change this
 * time. */
bool sqlite_link_is_unchanged(const struct sqlite_link *link);

/* Reports the error from the last call on this connection. BG_EBUSY means that the database is locked. */
bg_err sqlite_link_error(const struct sqlite_link *link, const char *what,
                         bg_errinfo *info);

/* The following functions format their SQL. `what` is the setting that errors refer to. */

/* Prepares a read-only statement. */
bg_err sqlite_link_prepare(struct sqlite_link *link, const char *what,
                           sqlite3_stmt **statement, bg_errinfo *info,
                           const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reads the first column of the first row. Errors: BG_ENOTFOUND if there is no row or the value is NULL. */
bg_err sqlite_link_number(struct sqlite_link *link, const char *what, int64_t *value,
                          bg_errinfo *info, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Executes one or more statements. */
bg_err sqlite_link_execute(struct sqlite_link *link, const char *what, bg_errinfo *info,
                           const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Starts a transaction. The transaction reads one snapshot, taken by its first SELECT or PRAGMA. */
bg_err sqlite_link_begin(struct sqlite_link *link, bg_errinfo *info);

/* Ends the transaction, if there is one. Commits if `err` is BG_OK. Returns `err`, or the error from the commit. */
bg_err sqlite_link_end(struct sqlite_link *link, bg_err err, bg_errinfo *info);

/* Adds the value in the first column of the current row to the batch, unless it is NULL. Returns false if out of
 * memory. */
bool sqlite_link_key(sqlite3_stmt *statement, struct key_batch *batch);

#endif

/*
 * sqlite_link.h - one connection to a SQLite database, for one thread at a time.
 *
 * It looks after deadlines (a handler that SQLite calls every so many instructions), locks (it
 * waits for writers, within the deadline or the timeout), the end of the source, and a file that
 * was replaced by another one of the same name: SQLite would read the old one for ever.
 */
#ifndef SERVER_SQLITE_LINK_H
#define SERVER_SQLITE_LINK_H

#include "source_inside.h"

#include <sqlite3.h>
#include <sys/types.h>

struct sqlite_link {
    struct source *source;
    sqlite3 *db;
    uint64_t deadline;   /* of what is done now; 0: none */
    uint64_t busy_until; /* while it waits for a lock */
    dev_t device;
    ino_t inode;
};

/* Opens the database of the source, which must exist. Errors: BG_EIO. */
bg_err sqlite_link_open(struct sqlite_link *link, struct source *source, bool writes,
                        bg_errinfo *info);
void sqlite_link_close(struct sqlite_link *link);

/* Whether the file is still the one of that name. */
bool sqlite_link_is_fresh(const struct sqlite_link *link);

/* Prepares a statement that reads; `what` is the setting that it comes from. */
bg_err sqlite_link_prepare(struct sqlite_link *link, const char *what, const char *sql,
                           sqlite3_stmt **statement, bg_errinfo *info);

/* What the last call on this connection said. BG_EBUSY: somebody has a lock. */
bg_err sqlite_link_error(const struct sqlite_link *link, const char *what,
                         bg_errinfo *info);

/* The first column of the first row of a statement; BG_ENOTFOUND: there is none, or NULL. */
bg_err sqlite_link_number(struct sqlite_link *link, const char *what, const char *sql,
                          int64_t *value, bg_errinfo *info);

/* Does as the SQL says; several statements. */
bg_err sqlite_link_execute(struct sqlite_link *link, const char *what, const char *sql,
                           bg_errinfo *info);

/* The key of a row, its first column, to the batch; NULL is none. False: no memory. */
bool sqlite_link_key(sqlite3_stmt *statement, struct key_batch *batch);

#endif

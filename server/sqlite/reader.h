/*
 * sqlite/reader.h - reads all keys of a gate from one SQLite snapshot.
 *
 * The reader opens a connection and a transaction. Before the first key is read, the caller can run further
 * statements in that transaction, for example to verify the history (sqlite/history.h). All statements see the same
 * snapshot. With a write-ahead log, the transaction does not block writers, but the log grows until the transaction
 * ends. With a rollback journal, writers cannot commit until the transaction ends.
 */
#ifndef SERVER_SQLITE_READER_H
#define SERVER_SQLITE_READER_H

#include "sqlite/link.h"

struct sqlite_reader {
    struct source_reader base;
    struct sqlite_link link;
    sqlite3_stmt *rows; /* NULL before the first key and after the last one */
    bool ended;
};

/* Connects and starts the transaction. */
bg_err sqlite_reader_begin(struct sqlite_reader *reader, bg_errinfo *info);

/* Adds up to `room` keys of the reader `context` to the batch. After the last key, adds none and ends the transaction. */
bg_err sqlite_reader_next(void *context, struct key_batch *batch, size_t room,
                          bg_errinfo *info);

/* Closes the connection, if there is one. sqlite_reader_begin can be called again. */
void sqlite_reader_end(void *context);

/* Counts the keys. */
bg_err sqlite_reader_count(struct source *source, uint64_t *count, bg_errinfo *info);

#endif

/*
 * postgres_reader.h - reads all keys of a gate from one PostgreSQL snapshot, with COPY.
 *
 * The reader opens a connection and a REPEATABLE READ transaction, which uses an exported snapshot if one is passed.
 * Before the first key is read, the caller can run further statements in that transaction, for example to verify the
 * schema (postgres_schema.h). All statements see the same snapshot.
 */
#ifndef SERVER_POSTGRES_READER_H
#define SERVER_POSTGRES_READER_H

#include "postgres_link.h"

struct postgres_reader {
    struct source *source;
    struct postgres_link link; /* in a transaction while is_open is true */
    bool is_open;
    size_t column;   /* index of the column being read */
    bool is_copying; /* COPY of that column is in progress */
    void *own;       /* private data of the mode */
};

/* Returns a reader without a connection; NULL if out of memory. */
struct postgres_reader *postgres_reader_make(struct source *source);
void postgres_reader_free(struct postgres_reader *reader); /* NULL is allowed */

/* Connects and starts the transaction. `snapshot` is an exported snapshot, or NULL. */
bg_err postgres_reader_begin(struct postgres_reader *reader, const char *snapshot,
                             bg_errinfo *info);

/* Adds up to `room` normalized keys to the batch, or none after the last key. The transaction stays
 * open. */
bg_err postgres_reader_next(struct postgres_reader *reader, struct key_batch *batch,
                            size_t room, bg_errinfo *info);

/* Removes the escapes of COPY's text format, in place, and returns the length. */
size_t postgres_reader_plain(char *text, size_t len);

/* Closes the connection. postgres_reader_begin can be called again. */
void postgres_reader_end(struct postgres_reader *reader);

#endif

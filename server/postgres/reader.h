/*
 * postgres/reader.h - uses COPY to read all of a gate's keys from one PostgreSQL snapshot.
 *
 * The reader opens a connection and a REPEATABLE READ transaction, which uses an exported snapshot if one is passed.
 * Before the first key is read, the caller can run further statements in that transaction, for example to verify the
 * schema (postgres/schema.h). All statements see the same snapshot.
 */
#ifndef SERVER_POSTGRES_READER_H
#define SERVER_POSTGRES_READER_H

#include "postgres/link.h"

struct postgres_reader {
    struct source_reader base;
    struct postgres_link link;
    size_t column;   /* index of the column being read */
    bool is_copying; /* a COPY of that column is in progress */
};

/* Connects and starts the transaction. `snapshot` is an exported snapshot, or NULL. */
bg_err postgres_reader_begin(struct postgres_reader *reader, const char *snapshot,
                             bg_errinfo *info);

/* Adds up to `room` normalized keys to the batch. Adds none once all keys have been read. The
 * transaction stays open. */
bg_err postgres_reader_next(void *context, struct key_batch *batch, size_t room,
                            bg_errinfo *info);

/* Decodes the escape sequences of COPY's text format in place and returns the resulting length. */
size_t postgres_reader_plain(char *text, size_t len);

/* Closes the connection, if there is one. postgres_reader_begin can be called again. */
void postgres_reader_end(void *context);

#endif

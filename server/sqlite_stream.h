/*
 * sqlite_stream.h - what changes in a SQLite database, as rows with a number that grows.
 *
 * One writer at a time commits in SQLite, so numbers that are given out inside of the writing
 * transaction (rowids, AUTOINCREMENT, defaults such as unixepoch()) grow in the order of commits,
 * and whoever has read up to one has everything up to it.
 */
#ifndef SERVER_SQLITE_STREAM_H
#define SERVER_SQLITE_STREAM_H

#include "sqlite_link.h"

struct sqlite_stream {
    struct sqlite_link link;
    bool changes;          /* of a table that triggers write to */
    char *table;           /* that one, or that of the keys, or NULL */
    char *column;          /* that grows, in quotes */
    int number;            /* which column of a row that is */
    sqlite3_stmt *from;    /* rows from a number on */
    sqlite3_stmt *all;     /* all rows */
    sqlite3_value *low;    /* up to where it was read; NULL: there was nothing */
    sqlite3_stmt *version; /* changes when others commit */
};

/* Opens it; looks whether `follow` can work for this query; installs triggers if it is to. On
 * error *stream is NULL. */
bg_err sqlite_stream_open(struct source *source, struct sqlite_stream **stream,
                          bg_errinfo *info);
void sqlite_stream_close(struct sqlite_stream *stream); /* NULL is allowed */

/* Two numbers: one changes whenever somebody else has committed, the other with the schema. */
bg_err sqlite_stream_versions(struct sqlite_stream *stream, int64_t *data,
                              int64_t *schema, bg_errinfo *info);

/* Takes the present position: what is committed later will be read. */
bg_err sqlite_stream_start(struct sqlite_stream *stream, bg_errinfo *info);

/* Tells the listener the keys of all rows from the position on, and moves it.
 * *missed: rows may have come that it does not see. */
bg_err sqlite_stream_read(struct sqlite_stream *stream, bool *missed, bg_errinfo *info);

/* The position as a number; 0: it is none. */
uint64_t sqlite_stream_position(const struct sqlite_stream *stream);

/* sqlite_install.c: a table of changes, and triggers that fill it. */
char *sqlite_install_table(const struct source *source);
bg_err sqlite_install(struct source *source, bg_errinfo *info);
void sqlite_install_prune(struct source *source, uint64_t position);

/* sqlite_follow.c: the thread. */
void sqlite_follow_run(struct source *source);

#endif

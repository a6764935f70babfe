/*
 * postgres_stream.h - what the parts of the PostgreSQL source share.
 */
#ifndef SERVER_POSTGRES_STREAM_H
#define SERVER_POSTGRES_STREAM_H

#include "postgres_link.h"

/* source->own */
struct postgres_own {
    _Atomic int reader; /* process of the server that reads all keys for us; 0: none */
};

/* What there is to know of the query before it is run; see postgres_query_look. */
struct postgres_query {
    Oid key;       /* type of the keys */
    Oid table;     /* that they are a column of; 0: of none */
    int attribute; /* which one */
    char *column;  /* the one that is followed, in quotes; or NULL */
    int number;    /* which column of a row */
    Oid type;      /* its type */
};

bg_err postgres_query_look(struct postgres_link *link, uint64_t deadline,
                           struct postgres_query *query, bg_errinfo *info);
void postgres_query_free(struct postgres_query *query);

/* postgres_install.c: a trigger that tells keys to the channel, if it is not there yet. Over a
 * connection of its own. */
bg_err postgres_install(struct source *source, const struct postgres_query *query,
                        uint64_t deadline, bg_errinfo *info);

/* postgres_follow.c: the thread; and whether it could work. */
void postgres_follow_run(struct source *source);
bg_err postgres_follow_check(struct source *source, bg_errinfo *info);

#endif

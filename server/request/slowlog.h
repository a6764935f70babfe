/*
 * slowlog.h - SLOWLOG: the latest slow requests.
 *
 * The settings define how long a request must take to be recorded. An entry contains the command
 * and the names of filters, but no items, because items are user data. Logins are not
 * recorded at all.
 *
 * Pipelined requests that are answered together (a run, see dispatch.c) are timed together and
 * share an entry, which contains their number.
 *
 * Thread-safe. Cost of timing a request: two clock reads.
 */
#ifndef SERVER_REQUEST_SLOWLOG_H
#define SERVER_REQUEST_SLOWLOG_H

#include "request/session.h"

enum {
    SLOWLOG_MAX = 128, /* maximum number of requests stored */
    SLOWLOG_WORDS = 8, /* maximum number of arguments stored per request */
    SLOWLOG_WORD = 128 /* maximum number of bytes stored per argument */
};

struct slowlog;

struct slowlog *slowlog_create(void); /* NULL: out of memory */
void slowlog_free(struct slowlog *slowlog);

/* Adds n requests that were answered together in this time. `request` is the first of them. */
void slowlog_note(struct slowlog *slowlog, const struct session *session,
                  const struct request *request, size_t n, uint64_t microseconds);

extern const struct command slowlog_commands[];

#endif

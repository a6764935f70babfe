/*
 * multi.h - MULTI and EXEC: requests that are kept and then run one after the other.
 *
 * Many clients send a pipeline within MULTI and EXEC unless told otherwise. They get what they
 * wait for: QUEUED for each, then all replies in one array; none is run if one was wrong in form.
 * Nothing of the same connection comes between them. Other than in Redis, requests of other
 * connections may, since those are served by other threads; so there is no WATCH either.
 *
 * Memory: a transaction may have as many bytes as a request (client-query-buffer-limit).
 * Threads: a client's, which is used by one thread at a time.
 */
#ifndef SERVER_MULTI_H
#define SERVER_MULTI_H

#include "session.h"

extern const struct command multi_commands[];

/* Keeps a request, and replies. */
void multi_queue(struct client *client, const struct request *request, size_t limit);

/* A request was wrong in form: EXEC will not run anything. Without MULTI, nothing. */
void multi_fail(struct client *client);

/* How many are kept; -1: no MULTI. */
int64_t multi_count(const struct client *client);

/* Forgets what was kept, if anything was. */
void multi_discard(struct client *client);

#endif

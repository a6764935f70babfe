/*
 * multi.h - MULTI and EXEC, which queue requests and then run them one after another.
 *
 * Many client libraries wrap a pipeline in MULTI and EXEC by default. They get the replies that
 * they expect: QUEUED for each request, then all replies in one array. If any request was
 * malformed, none of the requests runs. No other request from the same connection runs in between.
 * Unlike in Redis, requests from other connections may run in between, because other threads serve
 * those connections. For the same reason, WATCH is not supported.
 *
 * Memory: a transaction has the same size limit as a request (client-query-buffer-limit). Thread
 * safety: one thread at a time per client.
 */
#ifndef SERVER_REQUEST_MULTI_H
#define SERVER_REQUEST_MULTI_H

#include "request/session.h"

extern const struct command multi_commands[];

/* Queues a request and replies. */
void multi_queue(struct client *client, const struct request *request, size_t limit);

/* Records that a request was malformed, so EXEC runs nothing. Does nothing without MULTI. */
void multi_fail(struct client *client);

/* Returns the number of queued requests, or -1 outside MULTI. */
int64_t multi_count(const struct client *client);

/* Discards the queued requests, if any. */
void multi_discard(struct client *client);

#endif

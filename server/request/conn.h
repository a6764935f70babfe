/*
 * conn.h - a connection: a socket, with or without TLS, its input and output, and its protocol
 * (RESP in dispatch.c, HTTP in web.c).
 *
 * Reading. Bytes are read into a buffer shared by all of the worker's connections, and are passed
 * to the protocol from there. Only an incomplete request is kept in the connection's own buffer, so
 * an idle connection has no buffers at all.
 *
 * Writing. Replies are collected in `out` and sent at the end of the worker's iteration; replies
 * that promise durability are sent once their changes are durable (see `hold`). Bytes that the
 * socket does not accept wait in `out`.
 *
 * Limits. While the unsent output exceeds half of the output limit, nothing more is read, and
 * requests that have already been read are not run. A connection is closed if a single reply
 * exceeds the limit. A connection is also closed if, for the duration of slow-client-timeout, a
 * request stays incomplete, the client reads no replies, or fewer than CONN_STEADY bytes of an HTTP
 * body arrive.
 *
 * Durability. Replies that wait for the journal are divided into at most two groups: replies that
 * wait for `hold`, and replies to requests that arrived in the meantime, which wait for `later`.
 * Therefore, a client that keeps sending requests without waiting still gets each reply after at
 * most two syncs.
 *
 *     out:  | sendable | hold_bytes: until `hold` is safe | the rest: until `later` is |
 *
 * Turns. A connection runs up to pipeline-limit requests per turn, and then yields to the next
 * connection, so one long pipeline does not delay other clients.
 *
 * Lifetime. A connection belongs to one worker, and only that worker accesses it. A closed
 * connection is freed at the end of an iteration, once neither a worker list nor a job (`busy`)
 * refers to it. A connection obtained during an iteration therefore stays valid until that
 * iteration ends.
 */
#ifndef SERVER_REQUEST_CONN_H
#define SERVER_REQUEST_CONN_H

#include "request/session.h"
#include "resp/resp.h"
#include "util/buffer.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>

struct worker;
struct conn;
struct http_state;

struct protocol {
    const char *name;
    /* Starts a connection. Returns false if out of memory. */
    bool (*begin)(struct conn *conn);
    /* Handles input. Returns the number of bytes consumed. Stops at an incomplete request, when the
     * turn is over (conn_turn_over), or when the connection is busy or must be closed. */
    size_t (*input)(struct conn *conn, char *bytes, size_t n);
    /* Called when the received part of a request cannot be stored. Writes an error, after which
     * the connection is closed. Returns false if a reply is in progress; the caller then retries
     * later. */
    bool (*refuse)(struct conn *conn, const char *why);
    /* Called when all output has been sent; may write more. May be NULL. */
    void (*more)(struct conn *conn);
    /* Called when the connection is freed. */
    void (*end)(struct conn *conn);
    /* Complete error replies for a connection that cannot be opened, because maxclients is reached
     * (too_many) or memory is exhausted (no_memory). */
    const char *too_many, *no_memory;
};

struct conn {
    struct client client; /* must be first */
    struct worker *worker;
    const struct protocol *protocol;
    int fd;
    SSL *ssl; /* NULL if the connection does not use TLS */
    /* number of bytes counted in the ledger for the connection and its TLS state */
    size_t cost;
    struct event event;
    short waits_for; /* registered events: EV_READ, EV_WRITE or both */

    struct buffer in;  /* an incomplete request */
    struct buffer out; /* output not yet sent */
    struct resp_parser parser;
    struct resp_limits limits;
    struct http_state *http;

    /* Durability: see above. */
    /* `out` is sent once persist_safe reaches this number; 0 means immediately. */
    uint64_t hold;
    /* like `hold`, for the second group of replies; 0 if there is no such group */
    uint64_t later;
    /* `hold` applies only to part of `out`, as described by `sendable` and `hold_bytes` */
    bool divided;
    size_t sendable;   /* number of bytes at the start of `out` that need not wait */
    size_t hold_bytes; /* number of bytes after `sendable` that wait for `hold` */

    /* Tick at which a request became incomplete, or 0 if none is incomplete. */
    uint64_t stuck;
    /* Tick at which the client stopped reading replies, or 0 if it is reading them. */
    uint64_t clogged;
    /* ticks at which the connection was opened and last received bytes */
    uint64_t opened, used;
    size_t turn;      /* number of requests left in this turn */
    bool shaking;     /* the TLS handshake is in progress */
    bool wants_write; /* TLS needs to write before it can read */
    bool eof;         /* the client has closed its half of the connection */
    /* The protocol has consumed part of a request and is waiting for the rest. */
    bool amid;
    bool lingers;  /* will be closed before all input is read; see conn_linger */
    bool draining; /* is currently discarding the remaining input */
    /* number of bytes received since tick `stuck` (if `amid` is set), or while draining */
    size_t arrived;
    bool busy;    /* a job is running for the connection */
    bool closed;  /* closed, but not yet freed */
    bool pending; /* in the worker's list of connections to settle */
    /* in the worker's list of connections that are waiting for the journal */
    bool held;
    /* in the worker's list of connections whose turn ended before all input was handled */
    bool again;
    /* the next request could not be stored, and the error has not been sent yet */
    bool refused;
    bool full;    /* replies must be sent before more input is handled */
    bool leaving; /* the service is stopping, so nothing more is read */
    struct conn *next_pending, *next_held, *next_again;
    /* links in the list of all of the worker's connections */
    struct conn *next, **link;
};

/* Takes ownership of a socket that has been accepted and counted. Closes the socket on failure. */
void conn_open(struct worker *worker, int fd, const struct protocol *protocol, bool tls,
               const char *address, const char *host);

/* Closes a socket that has been accepted, after sending it the reply `why` (`too_many` or
 * `no_memory` of its protocol). Nothing is sent over TLS, which would require a handshake. */
void conn_reject(struct worker *worker, int fd, bool tls, const char *why);

/* Closes the connection now; it is freed later. */
void conn_close(struct conn *conn);

/* Called when the service stops. Reads the available input once more, answers it, and closes the
 * connection. */
void conn_leave(struct conn *conn);

/* Holds back the last reply until everything recorded so far is durable. Called when the reply
 * depends on a change made by this or another client. */
void conn_wrote(struct conn *conn);

/* Called at the end of an iteration: sends all output that need not wait, and determines which
 * events to wait for. */
void conn_settle(struct conn *conn);

/* Continues with input that has already been read, after a job or at the connection's next turn. */
void conn_continue(struct conn *conn);

/* Schedules another turn soon, whether or not bytes arrive. */
void conn_again(struct conn *conn);

/* Called when one of the connection's jobs has ended. Returns false if the connection has been
 * closed and must no longer be used. */
bool conn_job_done(struct conn *conn);

/* Schedules conn_settle for the end of the iteration. */
void conn_touch(struct conn *conn);

/* Returns whether to stop running requests for now; called once per request. */
bool conn_turn_over(const struct conn *conn);

/* Called every second: closes the connection if it has been idle or stuck for too long. */
void conn_tick(struct conn *conn, uint64_t ticks);

extern const struct protocol resp_protocol, http_protocol;

#endif

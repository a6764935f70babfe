/*
 * conn.h - a connection: a socket, with TLS or without, its bytes in and out, and the protocol
 * that makes sense of them (RESP: dispatch.c; HTTP: web.c).
 *
 * Reading. What arrives is read into memory of the worker that all its connections share, and
 * given to the protocol from there; only what is not a whole request yet is kept in the
 * connection's own buffer. So an idle connection has no buffers at all.
 *
 * Writing. Replies are gathered in `out`; when the worker's iteration ends they are sent, those
 * that promise durability when it is there (`hold`). What the socket does not take waits for it.
 *
 * Bounds. While more than half of the output limit waits to be sent nothing more is read; a
 * connection whose single reply exceeds the limit is closed. A request that does not become whole
 * within slow-client-timeout, or replies that are not taken for so long, end a connection; so does a
 * body of HTTP of which less than CONN_STEADY bytes come in so long.
 *
 * Turns. A connection gets so many requests at a time (pipeline-limit), then the next one's turn
 * comes, so one long pipeline does not keep others waiting.
 *
 * Life. A connection belongs to one worker, which alone touches it. While a job works for it
 * (`busy`) it is not freed; it may be `closed` meanwhile.
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "buffer.h"
#include "resp.h"
#include "session.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>

struct worker;
struct conn;
struct http_state;

struct protocol {
    const char *name;
    /* A connection has begun; false: no memory. */
    bool (*begin)(struct conn *conn);
    /* Bytes: returns how many of them are done with. Stops at a request that is not whole, when
     * the turn is over (conn_turn_over), or when the connection is busy or shall be closed. */
    size_t (*input)(struct conn *conn, char *bytes, size_t n);
    /* All that was written has been sent: may write more. NULL: never does. */
    void (*more)(struct conn *conn);
    /* It is being freed. */
    void (*end)(struct conn *conn);
};

struct conn {
    struct client client; /* first */
    struct worker *worker;
    const struct protocol *protocol;
    int fd;
    SSL *ssl; /* NULL: plain */
    struct event event;
    short waits_for; /* EV_READ, EV_WRITE: what the event is registered for */

    struct buffer in;  /* what is not a whole request yet */
    struct buffer out; /* what is not sent yet */
    struct resp_parser parser;
    struct resp_limits limits;
    struct http_state *http;

    uint64_t hold; /* `out` may go when persist_safe has reached this; 0: at once */
    uint64_t
        stuck; /* ticks since when a request is not whole or a reply not taken; 0: not */
    size_t turn;      /* requests that are left in this turn */
    bool shaking;     /* the TLS handshake is not done */
    bool wants_write; /* TLS needs to write before it can read */
    bool eof;         /* the other side has sent all it will */
    bool amid;        /* the protocol has taken a part of a request, and waits for the rest */
    bool lingers;     /* it closes before all was read that comes: see conn_linger */
    bool draining;    /* and does that now */
    size_t arrived;   /* bytes since `stuck`, if `amid`; or while draining */
    bool busy;        /* a job works for it */
    bool closed;      /* and only waits for that job */
    bool pending;     /* in the worker's list of this iteration */
    bool held;        /* in the worker's list of those that wait for the journal */
    bool again;       /* its turn ended before its bytes did: in the worker's list */
    struct conn *next_pending, *next_held, *next_again;
    struct conn *next, **link; /* all connections of the worker */
};

/* Takes over a socket that was accepted and counted; on failure it is closed. */
void conn_open(struct worker *worker, int fd, const struct protocol *protocol, bool tls,
               const char *address, const char *host);

/* Closes it now; frees it, unless a job works for it. */
void conn_close(struct conn *conn);

/* The end of an iteration: sends what may be sent, sees what to wait for. */
void conn_settle(struct conn *conn);

/* Goes on with what was read, after a job or when its turn comes again. */
void conn_continue(struct conn *conn);

/* Its turn shall come again soon, whether bytes arrive or not. */
void conn_again(struct conn *conn);

/* A job for it has ended; it may have been closed meanwhile: then it is gone, and false. */
bool conn_job_done(struct conn *conn);

/* Something was written to `out`, or has to be looked at when the iteration ends. */
void conn_touch(struct conn *conn);

/* Once per request: whether it should stop for now. */
static inline bool conn_turn_over(struct conn *conn)
{
    return conn->turn == 0 || conn->busy || conn->client.close || conn->out.overflow;
}

/* A second has passed: closes it if it idles or is stuck for too long. */
void conn_tick(struct conn *conn, uint64_t ticks);

extern const struct protocol resp_protocol, http_protocol;

#endif

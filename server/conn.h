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
 * Bounds. While more than half of the output limit waits to be sent nothing more is read, nor done
 * of what was read; a connection whose single reply exceeds the limit is closed. A request that does
 * not become whole within slow-client-timeout, or replies that are not taken for so long, end a
 * connection; so does a body of HTTP of which less than CONN_STEADY bytes come in so long.
 *
 * Durability. Replies that wait for the journal are divided at most in two: those that wait for
 * `hold`, and those of what was asked meanwhile, which wait for `later`. So a client that goes on
 * asking without reading gets its replies all the same, two syncs later at most.
 *
 *     out:  | sendable | hold_bytes: until `hold` is safe | the rest: until `later` is |
 *
 * Turns. A connection gets so many requests at a time (pipeline-limit), then the next one's turn
 * comes, so one long pipeline does not keep others waiting.
 *
 * Life. A connection belongs to one worker, which alone touches it. One that is closed is freed at
 * the end of an iteration, when no list of the worker and no job (`busy`) has it any more; so
 * whoever has it in an iteration may use it until then.
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
    /* Called when the received part of a request cannot be stored. Writes an error, after which the connection is
     * closed. Returns false if a reply is in progress: call it again later. */
    bool (*refuse)(struct conn *conn, const char *why);
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
    SSL *ssl;    /* NULL: plain */
    size_t cost; /* bytes in the ledger for this and for TLS */
    struct event event;
    short waits_for; /* EV_READ, EV_WRITE: what the event is registered for */

    struct buffer in;  /* what is not a whole request yet */
    struct buffer out; /* what is not sent yet */
    struct resp_parser parser;
    struct resp_limits limits;
    struct http_state *http;

    uint64_t hold;     /* `out` may go when persist_safe has reached this; 0: at once */
    uint64_t later;    /* what was asked since it is held; 0: nothing */
    bool divided;      /* `hold` is for some of `out`; these two are set: */
    size_t sendable;   /* bytes of `out` that do not wait for it, */
    size_t hold_bytes; /* and behind them those that do */
    uint64_t stuck;    /* ticks since when a request is not whole; 0: not */
    uint64_t clogged;  /* ticks since when replies are not taken; 0: not */
    uint64_t opened, used; /* ticks when it was, and when bytes last came */
    size_t turn;           /* requests that are left in this turn */
    bool shaking;          /* the TLS handshake is not done */
    bool wants_write;      /* TLS needs to write before it can read */
    bool eof;              /* the other side has sent all it will */
    bool amid; /* the protocol has taken a part of a request, and waits for the rest */
    bool lingers;   /* it closes before all was read that comes: see conn_linger */
    bool draining;  /* and does that now */
    size_t arrived; /* bytes since `stuck`, if `amid`; or while draining */
    bool busy;      /* a job works for it */
    bool closed;    /* and only waits for that job */
    bool pending;   /* in the worker's list of this iteration */
    bool held;      /* in the worker's list of those that wait for the journal */
    bool again;     /* its turn ended before its bytes did: in the worker's list */
    bool refused;   /* its next request was not stored; the error is still due */
    bool full;      /* replies have to be taken before it goes on with its bytes */
    bool leaving;   /* the service stops: nothing more is read, the rest is answered */
    struct conn *next_pending, *next_held, *next_again;
    struct conn *next, **link; /* all connections of the worker */
};

/* Takes over a socket that was accepted and counted; on failure it is closed. */
void conn_open(struct worker *worker, int fd, const struct protocol *protocol, bool tls,
               const char *address, const char *host);

/* Closes it now; it is freed later. */
void conn_close(struct conn *conn);

/* The service stops: reads what is there once more, answers what was asked, and closes it. */
void conn_leave(struct conn *conn);

/* What was just answered has changed something, or found something changed: its reply waits until
 * all that is recorded by now is safe. */
void conn_wrote(struct conn *conn);

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

/* Too much waits to be sent. */
static inline bool conn_is_full(const struct conn *conn)
{
    return buffer_waiting(&conn->out) > conn->out.limit / 2 || conn->out.overflow;
}

/* Once per request: whether it should stop for now. */
static inline bool conn_turn_over(struct conn *conn)
{
    return conn->turn == 0 || conn->busy || conn->client.close || conn_is_full(conn);
}

/* A second has passed: closes it if it idles or is stuck for too long. */
void conn_tick(struct conn *conn, uint64_t ticks);

extern const struct protocol resp_protocol, http_protocol;

#endif

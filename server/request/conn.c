/* conn.c - see conn.h. */
#include "request/conn.h"

#include "clock.h"
#include "core/server.h"
#include "ledger.h"
#include "persist/persist.h"
#include "request/multi.h"
#include "request/worker.h"
#include "resp/resp.h"
#include "util/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONN_KEEP = 4096,
    CONN_TLS = 48 << 10, /* approximate size of OpenSSL's state per connection */
    CONN_FIRST = 16384,
    /* minimum number of body bytes that must arrive per timeout period */
    CONN_STEADY = 16384,
    CONN_PIECES = 8, /* maximum number of chunks of a long reply sent per turn */
    CONN_REST = 16,
    CONN_DRAIN = 256 << 20,   /* maximum number of input bytes to discard */
    CONN_DRAIN_TICKS = 10000, /* maximum time spent discarding input, in ms */
    /* stop discarding if no input arrives for this long, in ms */
    CONN_DRAIN_PAUSE = 2000
};

static void conn_on_event(evutil_socket_t fd, short what, void *context);

static const struct settings *conn_settings(const struct conn *conn)
{
    return settings_now(conn->worker->server->store);
}

/* ---- Opening and closing ----------------------------------------------------------------- */

static void conn_link(struct conn *conn)
{
    struct worker *worker = conn->worker;
    conn->next = worker->conns;
    conn->link = &worker->conns;
    if (conn->next) {
        conn->next->link = &conn->next;
    }
    worker->conns = conn;
}

static void conn_unlink(struct conn *conn)
{
    *conn->link = conn->next;
    if (conn->next) {
        conn->next->link = conn->link;
    }
    worker_uncount(conn->worker);
}

static void conn_wait_for(struct conn *conn, short what)
{
    if (conn->waits_for == what) {
        return;
    }
    if (conn->waits_for) {
        event_del(&conn->event);
    }
    conn->waits_for = what;
    if (what) {
        event_assign(&conn->event, conn->worker->base, conn->fd,
                     (short)(what | EV_PERSIST), conn_on_event, conn);
        event_add(&conn->event, NULL);
    }
}

/* Returns whether a job or one of the worker's lists still refers to the connection. */
static bool conn_is_listed(const struct conn *conn)
{
    return conn->busy || conn->pending || conn->held || conn->again;
}

static void conn_free(struct conn *conn)
{
    if (conn->protocol->end) {
        conn->protocol->end(conn);
    }
    multi_discard(&conn->client);
    client_set_user(&conn->client, NULL);
    resp_parser_free(&conn->parser);
    buffer_free(&conn->in);
    buffer_free(&conn->out);
    ledger_release(LEDGER_BUFFERS, conn->cost);
    free(conn);
}

/* Allocates a connection. Returns NULL if out of memory. */
static struct conn *conn_create(bool tls)
{
    const size_t cost = sizeof(struct conn) + (tls ? CONN_TLS : 0);
    struct conn *conn = NULL;
    if (ledger_reserve_small(cost)) {
        conn = calloc(1, sizeof *conn);
        ledger_release(LEDGER_BUFFERS, conn ? 0 : cost);
    }
    if (conn) {
        conn->cost = cost;
    }
    return conn;
}

/* Closing a socket with unread input would reset the connection, and the client could lose
 * replies that are still in transit. To avoid this, the input is read first. */
static void conn_read_rest(struct worker *worker, int fd)
{
    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < CONN_REST; i++) {
        if (recv(fd, worker->scratch, sizeof worker->scratch, MSG_DONTWAIT) <= 0) {
            break;
        }
    }
}

/* Sends the reason why a connection is refused, and counts the refusal. */
static void conn_send_refusal(struct worker *worker, int fd, bool tls, const char *why)
{
    if (!tls) {
        (void)!send(fd, why, strlen(why), MSG_NOSIGNAL | MSG_DONTWAIT);
        conn_read_rest(worker, fd);
    }
    atomic_fetch_add_explicit(&worker->counts.rejected, 1, memory_order_relaxed);
}

void conn_reject(struct worker *worker, int fd, bool tls, const char *why)
{
    conn_send_refusal(worker, fd, tls, why);
    close(fd);
}

/* Logs and sends the reason why there is not enough memory for a connection. */
static void conn_lacks_memory(struct worker *worker, int fd,
                              const struct protocol *protocol, bool tls,
                              const char *address)
{
    char why[LEDGER_WHY];
    log_event(LOG_EVENT_LIMIT, (bg_bytes){ NULL, 0 },
              "client %s: connection refused: %s", address,
              ledger_refusal(why) ? why : "out of memory");
    conn_send_refusal(worker, fd, tls, protocol->no_memory);
}

void conn_open(struct worker *worker, int fd, const struct protocol *protocol, bool tls,
               const char *address, const char *host)
{
    const struct settings *settings = settings_now(worker->server->store);
    struct conn *conn = conn_create(tls);
    SSL *ssl = conn && tls ? tls_connection(worker->server->tls) : NULL;
    if (!conn || (tls && (!ssl || !SSL_set_fd(ssl, fd)))) {
        SSL_free(ssl);
        ledger_release(LEDGER_BUFFERS, conn ? conn->cost : 0);
        free(conn);
        conn_lacks_memory(worker, fd, protocol, tls, address);
        close(fd);
        worker_uncount(worker);
        return;
    }
    conn->client.id = atomic_fetch_add(&worker->server->next_client, 1) + 1;
    conn->client.protocol = 2;
    client_set_user(&conn->client, users_default(worker->server->users));
    conn->client.since = conn->client.active = clock_now();
    conn->opened = conn->used = clock_ticks();
    (void)snprintf(conn->client.address, sizeof conn->client.address, "%s", address);
    (void)snprintf(conn->client.host, sizeof conn->client.host, "%s", host);
    conn->worker = worker;
    conn->protocol = protocol;
    conn->fd = fd;
    conn->ssl = ssl;
    conn->shaking = tls;
    conn->limits = (struct resp_limits)RESP_LIMITS_DEFAULT;
    resp_parser_init(&conn->parser, &conn->limits);
    buffer_init(&conn->in, settings->client_query_buffer_limit);
    buffer_init(&conn->out, settings->client_output_buffer_limit);
    conn_link(conn);
    if (!protocol->begin(conn)) {
        conn_lacks_memory(worker, fd, protocol, tls, address);
        conn_close(conn);
        return;
    }
    if (tls) { /* counts as stuck until the handshake is done */
        conn->stuck = clock_ticks();
        SSL_set_accept_state(ssl);
    }
    conn_wait_for(conn, EV_READ);
}

void conn_close(struct conn *conn)
{
    if (conn->closed) {
        return;
    }
    conn->closed = true;
    conn_wait_for(conn, 0);
    conn_unlink(conn);
    if (conn->ssl) {
        ERR_clear_error();
        if (!conn->shaking && !conn->draining) {
            (void)SSL_shutdown(conn->ssl);
        }
        SSL_free(conn->ssl);
        conn->ssl = NULL;
    }
    if (conn->client.close || conn->leaving) {
        conn_read_rest(conn->worker, conn->fd);
    }
    close(conn->fd);
    conn->fd = -1;
    atomic_fetch_add_explicit(&conn->worker->counts.closed, 1, memory_order_relaxed);
    conn_touch(conn); /* freed at the end of this iteration or later */
}

bool conn_job_done(struct conn *conn)
{
    conn->busy = false;
    if (conn->closed) {
        conn_touch(conn); /* freed at the end of this iteration */
        return false;
    }
    return true;
}

void conn_touch(struct conn *conn)
{
    if (!conn->pending) {
        conn->pending = true;
        conn->next_pending = conn->worker->pending;
        conn->worker->pending = conn;
    }
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

enum { CONN_AGAIN = -1, CONN_GONE = -2 };

/* Like read(2), but returns CONN_AGAIN or CONN_GONE for errors. */
static ssize_t conn_read(struct conn *conn, char *to, size_t room)
{
    if (!conn->ssl) {
        const ssize_t n = read(conn->fd, to, room);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? CONN_AGAIN : CONN_GONE;
        }
        return n;
    }
    ERR_clear_error();
    const int n = SSL_read(conn->ssl, to, (int)(room < INT32_MAX ? room : INT32_MAX));
    if (n > 0) {
        return n;
    }
    switch (SSL_get_error(conn->ssl, n)) {
    case SSL_ERROR_WANT_READ: return CONN_AGAIN;
    case SSL_ERROR_WANT_WRITE: conn->wants_write = true; return CONN_AGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: return CONN_GONE;
    }
}

static ssize_t conn_write(struct conn *conn, const char *bytes, size_t n)
{
    if (!conn->ssl) {
        const ssize_t sent = send(conn->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR ? CONN_AGAIN : CONN_GONE;
        }
        return sent;
    }
    ERR_clear_error();
    const int sent = SSL_write(conn->ssl, bytes, (int)(n < INT32_MAX ? n : INT32_MAX));
    if (sent > 0) {
        return sent;
    }
    const int error = SSL_get_error(conn->ssl, sent);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? CONN_AGAIN
                                                                         : CONN_GONE;
}

/* ---- Reading -------------------------------------------------------------------------------- */

void conn_wrote(struct conn *conn)
{
    struct worker *worker = conn->worker;
    worker->wrote = true;
    if (worker->server->persist) {
        *(conn->divided ? &conn->later : &conn->hold) =
            persist_tail(worker->server->persist);
    }
}

/* Passes bytes to the protocol within a batch. Returns the number of bytes consumed. */
static size_t conn_feed(struct conn *conn, char *bytes, size_t n)
{
    struct worker *worker = conn->worker;
    session_begin(&worker->session);
    conn->client.active = worker->session.now;
    conn->used = worker->session.ticks;
    conn->in.limit = worker->session.from->client_query_buffer_limit;
    conn->out.limit = worker->session.from->client_output_buffer_limit;
    const size_t used = conn->protocol->input(conn, bytes, n);
    if (worker->session.wrote) {
        conn_wrote(conn);
    }
    session_end(&worker->session);
    conn_touch(conn);
    return used;
}

bool conn_turn_over(const struct conn *conn)
{
    return conn->turn == 0 || conn->busy || conn->client.close
           || buffer_is_full(&conn->out);
}

void conn_again(struct conn *conn)
{
    if (!conn->again) {
        conn->again = true;
        conn->next_again = conn->worker->again;
        conn->worker->again = conn;
    }
}

/* Updates the connection after input has been handled. For example, records when a request became
 * incomplete. */
static void conn_note_rest(struct conn *conn)
{
    if (buffer_waiting(&conn->in) == 0 && conn->amid) {
        buffer_clear(&conn->in, 0);
        if (conn->stuck == 0 || conn->arrived >= CONN_STEADY) {
            conn->stuck = conn->worker->session.ticks;
            conn->arrived = 0;
        }
    } else if (buffer_waiting(&conn->in) == 0) {
        conn->stuck = 0;
        conn->arrived = 0;
        buffer_clear(&conn->in, 0);
    } else if (buffer_is_full(&conn->out)) {
        /* conn_settle clears this flag after sending replies. */
        conn->full = true;
    } else if (conn->turn == 0) {
        conn_again(conn);
    } else if (conn->stuck == 0 && !conn->busy) {
        conn->stuck = conn->worker->session.ticks;
    }
}

static void conn_take_turn(struct conn *conn)
{
    conn->turn = conn_settings(conn)->pipeline_limit;
}

/* Sends the error for a request that could not be stored, either now or after the reply in
 * progress. The error is short and the connection is then closed, so the error is exempt from the
 * memory limit. */
static void conn_refuse(struct conn *conn, const char *why)
{
    const bool exempt = ledger_exempt(true);
    conn->refused = !conn->protocol->refuse(conn, why);
    (void)ledger_exempt(exempt);
    conn_touch(conn);
}

void conn_continue(struct conn *conn)
{
    if (conn->closed || conn->busy || conn->client.close) {
        conn_touch(conn);
        return;
    }
    if (conn->refused) {
        conn_refuse(conn, "maxmemory: not enough memory for the request");
        return;
    }
    conn_take_turn(conn);
    if (buffer_waiting(&conn->in) > 0) {
        const size_t used =
            conn_feed(conn, conn->in.data + conn->in.begin, buffer_waiting(&conn->in));
        buffer_drop(&conn->in, used);
    }
    conn_note_rest(conn);
    conn_touch(conn);
}

/* Handles a request whose received part cannot be stored. If the reason is the memory limit, the
 * client gets an error. In either case, the connection is closed. */
static ssize_t conn_no_memory(struct conn *conn)
{
    char why[LEDGER_WHY];
    if (!ledger_refusal(why)) {
        return CONN_GONE;
    }
    log_event(LOG_EVENT_LIMIT, (bg_bytes){ NULL, 0 }, "client %s: request refused: %s",
              conn->client.address, why);
    buffer_clear(&conn->in, 0);
    conn->stuck = 0;
    conn_refuse(conn, why);
    return CONN_AGAIN;
}

/* Reads once: into `in` if it already contains bytes, and otherwise into the worker's buffer.
 * Returns the number of bytes read, 0 at the end of input, CONN_AGAIN or CONN_GONE. */
static ssize_t conn_read_some(struct conn *conn)
{
    struct worker *worker = conn->worker;
    const size_t waiting = buffer_waiting(&conn->in);
    char *to = worker->scratch;
    size_t room = sizeof worker->scratch;
    /* The buffer grows with the number of bytes received, not to the length that the client
     * announces. */
    if (waiting > 0) {
        room = waiting > CONN_FIRST ? waiting : CONN_FIRST;
        const size_t most = conn->in.limit > waiting ? conn->in.limit - waiting : 0;
        room = room < most ? room : most;
        to = room ? buffer_space(&conn->in, room) : NULL;
        if (!to) {
            return conn_no_memory(conn);
        }
    }
    const ssize_t n = conn_read(conn, to, room);
    if (n <= 0) {
        return n;
    }
    atomic_fetch_add_explicit(&worker->counts.bytes_in, (uint64_t)n,
                              memory_order_relaxed);
    conn->arrived += (size_t)n;
    if (waiting > 0) {
        buffer_wrote(&conn->in, (size_t)n);
        const size_t used =
            conn_feed(conn, conn->in.data + conn->in.begin, buffer_waiting(&conn->in));
        if (used > 0 && !conn->amid) {
            conn->stuck = 0; /* restart the timeout because a request is complete */
        }
        buffer_drop(&conn->in, used);
    } else {
        const size_t used = conn_feed(conn, to, (size_t)n);
        buffer_put(&conn->in, to + used, (size_t)n - used);
        if (conn->in.overflow) {
            return conn_no_memory(conn);
        }
    }
    return n;
}

static bool conn_may_read(const struct conn *conn)
{
    return !conn->busy && !conn->client.close && !conn->eof && !conn->closed
           && !conn->again && !conn->full && !conn->leaving && !conn->refused
           && !buffer_is_full(&conn->out);
}

/* Reads and discards input after the last reply. */
static void conn_drain(struct conn *conn)
{
    const ssize_t n =
        read(conn->fd, conn->worker->scratch, sizeof conn->worker->scratch);
    if (n > 0) {
        conn->arrived += (size_t)n;
        conn->client.active = clock_now();
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)
        || conn->arrived > CONN_DRAIN) {
        conn_close(conn);
    }
}

static void conn_readable(struct conn *conn)
{
    ssize_t n = 0;
    if (conn->draining) {
        conn_drain(conn);
        return;
    }
    conn_take_turn(conn);
    do {
        conn->wants_write = false;
        n = conn_may_read(conn) ? conn_read_some(conn) : CONN_AGAIN;
        if (n > 0) {
            conn_note_rest(conn);
        }
        /* TLS may have decrypted more bytes than were read, and no event reports them. */
    } while (n > 0 && conn->turn > 0 && conn->ssl && SSL_pending(conn->ssl) > 0);
    if (n == 0) {
        /* Replies are still sent, because the client may have closed only its half of the
         * connection. */
        conn->eof = true;
        conn_touch(conn);
    } else if (n == CONN_GONE) {
        conn_close(conn);
    }
}

void conn_leave(struct conn *conn)
{
    if (conn->draining) { /* everything has been sent */
        conn_close(conn);
    } else if (!conn->leaving) {
        if (!conn->shaking && conn_may_read(conn)) {
            conn_readable(conn);
        }
        conn->leaving = true;
        conn_touch(conn);
    }
}

static bool conn_shake(struct conn *conn)
{
    ERR_clear_error();
    const int done = SSL_do_handshake(conn->ssl);
    if (done == 1) {
        conn->shaking = false;
        conn->stuck = 0;
        conn_wait_for(conn, EV_READ);
        return true;
    }
    switch (SSL_get_error(conn->ssl, done)) {
    case SSL_ERROR_WANT_READ: conn_wait_for(conn, EV_READ); return false;
    case SSL_ERROR_WANT_WRITE: conn_wait_for(conn, EV_WRITE); return false;
    default: conn_close(conn); return false;
    }
}

static void conn_on_event(evutil_socket_t fd, short what, void *context)
{
    struct conn *conn = context;
    (void)fd;
    if (conn->shaking && !conn_shake(conn)) {
        return;
    }
    if (what & EV_READ || conn->wants_write) {
        conn_readable(conn);
    }
    if (what & EV_WRITE) {
        conn_touch(conn);
    }
}

/* ---- Writing -------------------------------------------------------------------------------- */

/* Returns the number of bytes that may be sent now. */
static size_t conn_sendable(const struct conn *conn)
{
    return conn->hold ? conn->sendable : buffer_waiting(&conn->out);
}

/* Sends as much as possible. Returns false if the connection is broken. */
static bool conn_send(struct conn *conn)
{
    unsigned pieces = CONN_PIECES;
    size_t most = 0;
    while ((most = conn_sendable(conn)) > 0) {
        const ssize_t n = conn_write(conn, conn->out.data + conn->out.begin, most);
        if (n == CONN_AGAIN) {
            if (conn->clogged == 0) {
                conn->clogged = clock_ticks();
            }
            return true;
        }
        if (n < 0) {
            return false;
        }
        atomic_fetch_add_explicit(&conn->worker->counts.bytes_out, (uint64_t)n,
                                  memory_order_relaxed);
        buffer_drop(&conn->out, (size_t)n);
        conn->sendable -= conn->hold ? (size_t)n : 0;
        conn->clogged = 0;
        if (buffer_waiting(&conn->out) == 0 && conn->protocol->more) {
            conn->protocol->more(conn);
            if (--pieces == 0) {
                return true;
            }
        }
    }
    if (buffer_waiting(&conn->out) == 0) {
        buffer_clear(&conn->out, CONN_KEEP);
    }
    return true;
}

/* Returns whether all work is done and no more input can arrive. */
static bool conn_is_over(const struct conn *conn)
{
    return buffer_waiting(&conn->out) == 0 && !conn->busy && !conn->again && !conn->full
           && (conn->client.close || conn->eof || conn->leaving);
}

/* Releases the replies whose records are now durable. Returns false if the journal has failed. In
 * that case, the changes are not durable, and the client must not receive a reply that confirms
 * them. */
static bool conn_unhold(struct conn *conn)
{
    const struct persist *persist = conn->worker->server->persist;
    char why[BG_ERR_MESSAGE_MAX];
    if (conn->hold && !conn->divided) {
        conn->sendable = 0;
        conn->hold_bytes = buffer_waiting(&conn->out);
    }
    while (conn->hold && persist_safe(persist) >= conn->hold) {
        conn->sendable += conn->hold_bytes;
        conn->hold_bytes = buffer_waiting(&conn->out) - conn->sendable;
        conn->hold = conn->later;
        conn->later = 0;
    }
    conn->divided = conn->hold != 0;
    return !conn->hold || persist_works(persist, why);
}

/*
 * Closes a connection gracefully. Everything has been sent, but the client may still be sending. If
 * the socket were closed with unread input, the kernel would reset the connection, and the client
 * might never see the reply. Therefore, only the service's half is closed, and input is discarded
 * until the client closes its half or pauses, or until the limit CONN_DRAIN or CONN_DRAIN_TICKS is
 * reached.
 */
static void conn_linger(struct conn *conn)
{
    if (conn->ssl) {
        ERR_clear_error();
        (void)SSL_shutdown(conn->ssl);
    }
    (void)shutdown(conn->fd, SHUT_WR);
    multi_discard(&conn->client); /* frees memory that is no longer needed */
    resp_parser_free(&conn->parser);
    conn->draining = true;
    conn->arrived = 0;
    conn->stuck = clock_ticks();
    conn->client.active = clock_now();
    conn_wait_for(conn, EV_READ);
}

static void conn_wait(struct conn *conn)
{
    short what = 0;
    if (conn_may_read(conn)) {
        what |= EV_READ;
    }
    if (conn_sendable(conn) > 0 || conn->wants_write) {
        what |= EV_WRITE;
    }
    conn_wait_for(conn, what);
    /* TLS may have decrypted bytes that have not been read yet, and the socket does not report
     * them. */
    if (what & EV_READ && conn->ssl && SSL_pending(conn->ssl) > 0) {
        event_active(&conn->event, EV_READ, 0);
    }
}

void conn_settle(struct conn *conn)
{
    struct worker *worker = conn->worker;
    conn->pending = false;
    if (conn->closed) {
        if (!conn_is_listed(conn)) {
            conn_free(conn);
        }
        return;
    }
    if (conn->out.overflow) {
        atomic_fetch_add_explicit(&worker->counts.overflowed, 1, memory_order_relaxed);
        log_event(LOG_EVENT_LIMIT, (bg_bytes){ NULL, 0 },
                  "client %s: connection closed because unread replies exceed "
                  "client-output-buffer-limit or maxmemory",
                  conn->client.address);
        conn_close(conn);
        return;
    }
    if (!conn_unhold(conn)) {
        conn_close(conn);
        return;
    }
    if (conn->draining) {
        return;
    }
    if (!conn_send(conn)) {
        conn_close(conn);
        return;
    }
    if (conn_is_over(conn)) {
        if (conn->lingers && !conn->eof) {
            conn_linger(conn);
        } else {
            conn_close(conn);
        }
        return;
    }
    if (conn->hold) {
        worker_hold(worker, conn);
    }
    if (conn->full && !buffer_is_full(&conn->out)) {
        conn->full = false;
        conn_again(conn);
    }
    conn_wait(conn);
}

void conn_tick(struct conn *conn, uint64_t ticks)
{
    const struct settings *settings = conn_settings(conn);
    const uint64_t slow = (uint64_t)(settings->slow_client_timeout * 1000);
    const uint64_t idle = (uint64_t)(settings->timeout * 1000);
    if (conn->busy || conn->hold) {
        return;
    }
    if (conn->draining) {
        if (ticks - conn->stuck > CONN_DRAIN_TICKS
            || clock_now() > conn->client.active + CONN_DRAIN_PAUSE) {
            conn_close(conn);
        }
        return;
    }
    const bool waits = conn->stuck || conn->clogged;
    if ((slow && conn->stuck && ticks - conn->stuck > slow)
        || (slow && conn->clogged && ticks - conn->clogged > slow)
        || (idle && !waits && ticks - conn->used > idle)
        || (slow && !conn->client.user && ticks - conn->opened > slow)) {
        atomic_fetch_add_explicit(&conn->worker->counts.timed_out, 1,
                                  memory_order_relaxed);
        conn_close(conn);
    }
}

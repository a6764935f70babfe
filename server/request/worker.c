/* worker.c - see worker.h. */
#include "request/worker.h"

#include "clock.h"
#include "core/server.h"
#include "persist/persist.h"
#include "text.h"
#include "util/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A worker's listening socket. */
struct listener {
    struct worker *worker;
    const struct protocol *protocol;
    bool tls;
};

/* A connection being passed to another worker. */
struct handed {
    struct handed *next;
    int fd;
    const struct protocol *protocol;
    bool tls;
    char address[64], host[48];
};

/* ---- Accepting ------------------------------------------------------------------------------ */

static void worker_name_peer(const struct sockaddr_storage *peer, struct handed *handed)
{
    unsigned port = 0;
    if (peer->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)peer;
        (void)inet_ntop(AF_INET, &in->sin_addr, handed->host, sizeof handed->host);
        port = ntohs(in->sin_port);
        (void)snprintf(handed->address, sizeof handed->address, "%s:%u", handed->host,
                       port);
    } else if (peer->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)peer;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, handed->host, sizeof handed->host);
        port = ntohs(in->sin6_port);
        (void)snprintf(handed->address, sizeof handed->address, "[%s]:%u", handed->host,
                       port);
    } else {
        (void)snprintf(handed->address, sizeof handed->address, "unix");
    }
}

static void worker_wake(struct worker *worker)
{
    const uint64_t one = 1;
    (void)!write(worker->mailbox_fd, &one, sizeof one);
}

/* Returns the worker with the fewest connections if it has clearly fewer than this worker;
 * otherwise returns this worker. */
static struct worker *worker_choose(struct worker *worker)
{
    const struct server *server = worker->server;
    struct worker *best = worker;
    size_t fewest = atomic_load(&worker->conns_count);
    fewest = fewest > 0 ? fewest - 1 : 0; /* a difference of one is not worth a move */
    for (size_t i = 0; i < server->workers_count; i++) {
        const size_t count = atomic_load(&server->workers[i]->conns_count);
        if (count < fewest) {
            fewest = count;
            best = server->workers[i];
        }
    }
    return best;
}

/* Passes a connection to another worker. Returns false if out of memory, or if `to` has no thread
 * to read its mailbox, because that worker has not started yet or is stopping. */
static bool worker_hand(struct worker *to, const struct handed *handed)
{
    struct handed *copy = malloc(sizeof *copy);
    if (!copy) {
        return false;
    }
    *copy = *handed;
    pthread_mutex_lock(&to->mailbox_lock);
    const bool taken = !to->mailbox_closed;
    if (taken) {
        copy->next = to->mailbox_conns;
        to->mailbox_conns = copy;
        atomic_fetch_add(&to->conns_count, 1);
    }
    pthread_mutex_unlock(&to->mailbox_lock);
    if (taken) {
        worker_wake(to);
    } else {
        free(copy);
    }
    return taken;
}

/* Counts a new client. Returns false, without counting it, if there are too many clients. Clients
 * are counted when they are accepted, not when they reach their worker, so even a burst of
 * connections is counted and distributed correctly. */
static bool worker_has_room(struct worker *worker)
{
    const struct settings *settings = settings_now(worker->server->store);
    if (atomic_fetch_add(&worker->server->clients, 1) < settings->maxclients) {
        return true;
    }
    atomic_fetch_sub(&worker->server->clients, 1);
    return false;
}

void worker_uncount(struct worker *worker)
{
    atomic_fetch_sub(&worker->conns_count, 1);
    atomic_fetch_sub(&worker->server->clients, 1);
}

static void worker_place(struct worker *worker, const struct handed *handed)
{
    struct worker *to = worker_choose(worker);
    if (to == worker || !worker_hand(to, handed)) {
        atomic_fetch_add(&worker->conns_count, 1);
        conn_open(worker, handed->fd, handed->protocol, handed->tls, handed->address,
                  handed->host);
    }
}

/* Stops accepting connections until the next tick. If no file descriptors are free, no connection
 * can be accepted, and the event loop would spin if it kept trying. */
static void worker_turn_deaf(struct worker *worker)
{
    log_warning("cannot accept connections; retrying within 1 s",
                LOG_FIELDS(log_text("error", text_errno(errno))));
    for (size_t i = 0; i < worker->listeners_count; i++) {
        event_del(worker->listeners[i]);
    }
    worker->deaf = true;
}

static void worker_listen_again(struct worker *worker)
{
    for (size_t i = 0; worker->deaf && i < worker->listeners_count; i++) {
        event_add(worker->listeners[i], NULL);
    }
    worker->deaf = false;
}

/* Sets the socket options that send small replies immediately and detect dead peers
 * (tcp-keepalive). */
static void worker_set_options(const struct worker *worker, int fd)
{
    const struct settings *settings = settings_now(worker->server->store);
    const int one = 1, idle = (int)ceil(settings->tcp_keepalive);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (idle > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    }
}

static void worker_accept(evutil_socket_t fd, short what, void *context)
{
    const struct listener *listener = context;
    struct worker *worker = listener->worker;
    (void)what;
    for (int i = 0; i < 64; i++) {
        struct sockaddr_storage peer = { 0 };
        socklen_t len = sizeof peer;
        const int taken =
            accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (taken < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM
                || errno == ENOBUFS) {
                worker_turn_deaf(worker);
            }
            return;
        }
        if (!worker_has_room(worker)) {
            conn_reject(worker, taken, listener->tls, listener->protocol->too_many);
            continue;
        }
        worker_set_options(worker, taken);
        struct handed handed = { .fd = taken,
                                 .protocol = listener->protocol,
                                 .tls = listener->tls };
        worker_name_peer(&peer, &handed);
        atomic_fetch_add_explicit(&worker->counts.accepted, 1, memory_order_relaxed);
        worker_place(worker, &handed);
    }
}

bool worker_listen(struct worker *worker, int fd, const struct protocol *protocol,
                   bool tls)
{
    struct listener *listener = malloc(sizeof *listener);
    struct event *event =
        listener && worker->listeners_count < WORKER_LISTENERS
            ? event_new(worker->base, fd, EV_READ | EV_PERSIST, worker_accept, listener)
            : NULL;
    if (!event) {
        free(listener);
        close(fd);
        return false;
    }
    *listener = (struct listener){ worker, protocol, tls };
    worker->listeners[worker->listeners_count++] = event;
    return event_add(event, NULL) == 0;
}

static void worker_stop_listening(struct worker *worker)
{
    while (worker->listeners_count > 0) {
        struct event *event = worker->listeners[--worker->listeners_count];
        close(event_get_fd(event));
        free(event_get_callback_arg(event));
        event_free(event);
    }
}

/* ---- The mailbox --------------------------------------------------------------------------- */

void worker_post_job(struct worker *worker, struct job *job)
{
    pthread_mutex_lock(&worker->mailbox_lock);
    job->next = NULL;
    *worker->mailbox_jobs_end = job;
    worker->mailbox_jobs_end = &job->next;
    pthread_mutex_unlock(&worker->mailbox_lock);
    worker_wake(worker);
}

void worker_post_safe(struct worker *worker)
{
    pthread_mutex_lock(&worker->mailbox_lock);
    /* A worker that is not listening needs no wakeup: it checks for progress before it waits
     * (worker_listen_to_safe). */
    const bool wake = worker->listens_to_safe && !worker->mailbox_safe;
    worker->mailbox_safe = worker->mailbox_safe || wake;
    pthread_mutex_unlock(&worker->mailbox_lock);
    if (wake) {
        worker_wake(worker);
    }
}

void worker_post_stop(struct worker *worker, bool at_once)
{
    pthread_mutex_lock(&worker->mailbox_lock);
    worker->mailbox_stop = true;
    worker->mailbox_now = worker->mailbox_now || at_once;
    pthread_mutex_unlock(&worker->mailbox_lock);
    worker_wake(worker);
}

/* Rechecks all connections whose replies are waiting for the journal. */
static void worker_release(struct worker *worker)
{
    struct conn *held = worker->held;
    worker->held = NULL;
    while (held) {
        struct conn *conn = held;
        held = conn->next_held;
        conn->held = false;
        conn_touch(conn);
    }
}

void worker_hold(struct worker *worker, struct conn *conn)
{
    if (!conn->held) {
        conn->held = true;
        conn->next_held = worker->held;
        worker->held = conn;
    }
}

/*
 * Decides, at the end of an iteration, whether the journal's thread reports its progress to this
 * worker. When a worker starts requesting reports, it checks all waiting connections again. This
 * check finds any earlier progress that was not reported, because the journal's thread acquires the
 * mailbox lock after making progress and before reporting it.
 */
static void worker_listen_to_safe(struct worker *worker)
{
    const bool listens = worker->held != NULL;
    if (listens == worker->listens_to_safe) { /* only this thread changes the flag */
        return;
    }
    pthread_mutex_lock(&worker->mailbox_lock);
    worker->listens_to_safe = listens;
    pthread_mutex_unlock(&worker->mailbox_lock);
    if (listens) {
        worker_release(worker);
    }
}

static void worker_stop(struct worker *worker, bool at_once)
{
    struct conn *next = NULL;
    worker->stopping = true;
    worker_stop_listening(worker);
    for (struct conn *conn = worker->conns; conn; conn = next) {
        next = conn->next;
        if (at_once) {
            conn_close(conn);
        } else {
            conn_leave(conn);
        }
    }
}

static void worker_mail(evutil_socket_t fd, short what, void *context)
{
    struct worker *worker = context;
    uint64_t count = 0;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    pthread_mutex_lock(&worker->mailbox_lock);
    struct job *jobs = worker->mailbox_jobs;
    struct handed *conns = worker->mailbox_conns;
    const bool safe = worker->mailbox_safe, stop = worker->mailbox_stop;
    const bool now = worker->mailbox_now;
    worker->mailbox_jobs = NULL;
    worker->mailbox_jobs_end = &worker->mailbox_jobs;
    worker->mailbox_conns = NULL;
    worker->mailbox_safe = worker->mailbox_stop = false;
    worker->mailbox_closed = worker->mailbox_closed || stop;
    pthread_mutex_unlock(&worker->mailbox_lock);
    while (conns) {
        struct handed *handed = conns;
        conns = handed->next;
        if (worker->stopping) { /* the worker's thread was never started */
            close(handed->fd);
            worker_uncount(worker);
        } else {
            conn_open(worker, handed->fd, handed->protocol, handed->tls,
                      handed->address, handed->host);
        }
        free(handed);
    }
    while (jobs) {
        struct job *job = jobs;
        jobs = job->next;
        job->done(job);
    }
    if (safe) {
        worker_release(worker);
    }
    if (stop) {
        worker_stop(worker, now);
    }
}

/* ---- The loop ------------------------------------------------------------------------------ */

static void worker_settle(struct worker *worker)
{
    while (worker->pending) {
        struct conn *conn = worker->pending;
        worker->pending = conn->next_pending;
        conn_settle(conn);
    }
}

/* Flushes the records and sends the replies of this iteration. */
static void worker_commit(struct worker *worker)
{
    if (worker->wrote) {
        bg_errinfo info;
        worker->wrote = false;
        if (worker->server->persist && persist_flush(worker->server->persist, &info)) {
            log_error("cannot write to the journal",
                      LOG_FIELDS(log_text("error", info.message)));
        }
    }
    worker_settle(worker);
    worker_listen_to_safe(worker);
    /* Settles connections that no longer need to wait or that must be freed. */
    worker_settle(worker);
}

/* Starts the next turn of each connection whose last turn ended with unread input. */
static void worker_go_on(struct worker *worker)
{
    struct conn *again = worker->again;
    worker->again = NULL;
    while (again) {
        struct conn *conn = again;
        again = conn->next_again;
        conn->again = false;
        conn_continue(conn);
    }
}

static void worker_tick(evutil_socket_t fd, short what, void *context)
{
    struct worker *worker = context;
    const uint64_t ticks = clock_ticks();
    struct conn *next = NULL;
    (void)fd;
    (void)what;
    atomic_store_explicit(&worker->beat, ticks, memory_order_relaxed);
    worker_listen_again(worker);
    for (struct conn *conn = worker->conns; conn; conn = next) {
        next = conn->next;
        conn_tick(conn, ticks);
    }
}

/* The thread of a worker. It exits once a stop has been requested and all connections have been
 * closed. */
static void *worker_work(void *context)
{
    struct worker *worker = context;
    struct quiet *readers = &worker->server->readers;
    quiet_enter(readers, worker->session.seat);
    while (!worker->stopping || worker->conns || worker->held) {
        quiet_pass(readers, worker->session.seat);
        session_take_settings(&worker->session);
        /* Do not wait if a connection has unprocessed input. */
        (void)event_base_loop(
            worker->base, worker->again ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        worker_go_on(worker);
        worker_commit(worker);
    }
    quiet_leave(readers, worker->session.seat);
    return NULL;
}

/* ---- Creating and freeing ---------------------------------------------------------------- */

struct worker *worker_create(struct server *server, size_t number)
{
    static const struct timeval second = { 1, 0 };
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        return NULL;
    }
    worker->server = server;
    worker->number = number;
    worker->mailbox_jobs_end = &worker->mailbox_jobs;
    worker->mailbox_closed = true; /* cleared when worker_start starts a thread */
    pthread_mutex_init(&worker->mailbox_lock, NULL);
    worker->base = event_base_new();
    worker->mailbox_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!worker->base || worker->mailbox_fd < 0
        || !session_init(&worker->session, server, false)) {
        log_error("cannot create a worker",
                  LOG_FIELDS(log_text("error", text_errno(errno))));
        if (worker->base) {
            event_base_free(worker->base);
        }
        if (worker->mailbox_fd >= 0) {
            close(worker->mailbox_fd);
        }
        free(worker);
        return NULL;
    }
    worker->mailbox_event = event_new(worker->base, worker->mailbox_fd,
                                      EV_READ | EV_PERSIST, worker_mail, worker);
    worker->tick_event = event_new(worker->base, -1, EV_PERSIST, worker_tick, worker);
    event_add(worker->mailbox_event, NULL);
    event_add(worker->tick_event, &second);
    return worker;
}

bool worker_start(struct worker *worker)
{
    pthread_mutex_lock(&worker->mailbox_lock);
    worker->started = pthread_create(&worker->thread, NULL, worker_work, worker) == 0;
    worker->mailbox_closed = !worker->started;
    pthread_mutex_unlock(&worker->mailbox_lock);
    return worker->started;
}

void worker_join(struct worker *worker)
{
    if (worker->started) {
        pthread_join(worker->thread, NULL);
    }
}

void worker_drain(struct worker *worker)
{
    worker->stopping = true;
    worker_mail(worker->mailbox_fd, 0, worker);
    worker_release(worker);
    worker_go_on(worker);
    worker_commit(worker);
}

void worker_free(struct worker *worker)
{
    if (!worker) {
        return;
    }
    worker_stop_listening(worker);
    /* Handle jobs that finished after the worker's thread had exited. */
    worker_drain(worker);
    event_free(worker->mailbox_event);
    event_free(worker->tick_event);
    event_base_free(worker->base);
    close(worker->mailbox_fd);
    session_fini(&worker->session);
    pthread_mutex_destroy(&worker->mailbox_lock);
    free(worker);
}

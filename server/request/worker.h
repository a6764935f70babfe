/*
 * worker.h - a thread with an event loop, its listeners and its connections.
 *
 * In each iteration, the worker waits for events. Each connection that has input reads it, runs its
 * requests and collects its replies. Then the journal records of all connections are flushed
 * together, and the replies are sent. Replies that must wait for the disk are sent when the
 * journal's thread reports that their records are durable.
 *
 * Every worker has its own listening sockets (SO_REUSEPORT), so the kernel distributes
 * connections. This distribution is random, so a worker with more connections than its share passes
 * new connections to the worker with the fewest.
 *
 * Other threads communicate with a worker through its mailbox: a list protected by a lock, and an
 * eventfd that wakes the worker.
 */
#ifndef SERVER_REQUEST_WORKER_H
#define SERVER_REQUEST_WORKER_H

#include "request/conn.h"
#include "request/jobs.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WORKER_SCRATCH = 256 * 1024, /* maximum number of bytes read at once */
    WORKER_LISTENERS = 64,
    /* Maximum number of pipelined requests answered together. */
    WORKER_RUN = OBJECT_BATCH
};

struct front;

/* Requests in one pipeline that can be answered together. */
struct run {
    const struct command *command; /* NULL: none */
    bg_bytes command_name;         /* name as sent */
    bg_bytes name;
    /* The front to which the run is forwarded, or NULL if the run is answered locally. */
    struct front *front;
    size_t n;
    bg_bytes items[WORKER_RUN];
};

struct worker_counts {
    _Atomic uint64_t accepted, rejected, closed, timed_out, overflowed;
    _Atomic uint64_t requests, http_requests, runs, errors;
    _Atomic uint64_t bytes_in, bytes_out;
};

struct worker {
    struct server *server;
    size_t number;
    pthread_t thread;
    /* Whether the worker has a thread. Only the thread that starts and joins the worker uses this
     * field. */
    bool started;
    struct event_base *base;
    struct session session;
    struct run run;
    struct worker_counts counts;
    _Atomic size_t conns_count;
    _Atomic uint64_t beat; /* clock_ticks at the loop's last tick */
    struct conn *conns;
    struct conn *pending; /* connections to settle at the end of this iteration */
    struct conn *held;    /* connections whose replies are waiting for the journal */
    struct conn *again;   /* connections whose turn ended with unread input */
    bool wrote;           /* journal records were written in this iteration */
    bool stopping;
    /* No file descriptors are left, so no connections are accepted until the next tick. */
    bool deaf;
    struct event *listeners[WORKER_LISTENERS];
    size_t listeners_count;
    int mailbox_fd;
    struct event *mailbox_event, *tick_event;
    pthread_mutex_t mailbox_lock; /* protects the fields below */
    bool listens_to_safe;         /* `held` is not empty; changed only by the worker */
    struct job *mailbox_jobs, **mailbox_jobs_end;
    struct handed *mailbox_conns;
    bool mailbox_safe, mailbox_stop, mailbox_now;
    /* The worker has no thread or is stopping, so it accepts no connections. */
    bool mailbox_closed;
    char scratch[WORKER_SCRATCH];
};

struct worker *worker_create(struct server *server, size_t number);
bool worker_start(struct worker *worker);
void worker_join(struct worker *worker);

/* Handles the messages that remain in the mailbox after the worker's thread has exited and all jobs
 * have finished. */
void worker_drain(struct worker *worker);
void worker_free(struct worker *worker);

/* Starts listening on a socket, which the worker then owns. */
bool worker_listen(struct worker *worker, int fd, const struct protocol *protocol,
                   bool tls);

/* Updates the counters after a connection was closed or could not be opened. */
void worker_uncount(struct worker *worker);

/* Adds a connection whose replies are waiting for the journal. */
void worker_hold(struct worker *worker, struct conn *conn);

/* These functions are called by other threads. */
void worker_post_job(struct worker *worker, struct job *job);
void worker_post_safe(struct worker *worker); /* more records have become durable */
void worker_post_stop(struct worker *worker, bool at_once);

#endif

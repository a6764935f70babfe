/*
 * jobs.h - threads for long operations, which must not block event loops.
 *
 * A job is submitted to a queue. A thread runs the job with its own session, and then returns the
 * job to the worker that submitted it, which calls `done`. A connection's jobs never overlap,
 * because the connection waits for its job before it continues.
 *
 * Lanes. Jobs that change the same filter would block each other, and would all wait for any long
 * operation that holds the filter's lock. So they share a lane. The jobs of a lane run one at a
 * time, in order, so they occupy one thread, and the other threads serve other filters. Password
 * checks share a lane as well, because each check takes a lot of memory and time, and clients can
 * trigger checks without logging in.
 *
 * Owners. The next job to run belongs to the user that occupies the fewest threads. Once a second
 * user has submitted a job, no user may occupy all threads. At least one thread stays free for
 * other users, so one user's jobs never block another user's jobs.
 */
#ifndef SERVER_JOBS_H
#define SERVER_JOBS_H

#include "session.h"

struct jobs;
struct worker;

enum { JOBS_LANE_PASSWORDS = 1 }; /* the lane of jobs that check passwords */

struct job {
    void (*run)(struct job *job, struct session *session); /* called on a job thread */
    void (*done)(struct job *job); /* called on the worker's thread; frees the job */
    struct worker *worker;         /* NULL: `done` is called on the job thread */
    uint64_t lane;                 /* 0: none */
    /* NULL: not logged in. Compared, never dereferenced. */
    const struct user *owner;
    /* The job runs even if the service stops before its turn. */
    bool must;
    struct job *next;
};

/* Creates the threads. Returns NULL if memory, threads or seats (quiet.h) cannot be allocated. */
struct jobs *jobs_create(struct server *server, unsigned threads);

/* Must be called after all connections are closed. Waits for running jobs. Queued jobs are not run
 * unless `must` is set, because no client waits for them; only their `done` is called. */
void jobs_free(struct jobs *jobs);

/* Submits a job. Never blocks. The queue needs no limit, because each connection waits for its
 * job. */
void jobs_submit(struct jobs *jobs, struct job *job);

size_t jobs_waiting(struct jobs *jobs);

#endif

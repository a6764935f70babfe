/*
 * jobs.h - threads for long operations, which must not block event loops.
 *
 * A job is submitted to a queue. A job thread runs the job with the thread's own session, and then
 * returns the job to the worker that submitted it. The worker calls `done`. A connection's jobs
 * never overlap, because the connection waits for its job before it continues.
 *
 * Lanes. Jobs that change the same filter would block each other, and would all wait for any long
 * operation that holds the filter's lock. Therefore, they share a lane. The jobs in a lane run one
 * at a time, in order. They occupy only one thread, and the other threads serve other filters.
 * Password checks share a lane as well, because each check takes a lot of memory and time, and
 * clients can trigger checks without logging in.
 *
 * Owners. The next job to run is one whose user occupies the fewest threads. Once a second
 * user has submitted a job, no user may occupy all threads. At least one thread stays free for
 * other users, so one user's jobs never block another user's jobs.
 */
#ifndef SERVER_REQUEST_JOBS_H
#define SERVER_REQUEST_JOBS_H

#include "request/session.h"

struct jobs;
struct worker;

enum { JOBS_LANE_PASSWORDS = 1 }; /* the lane of jobs that check passwords */

struct job {
    void (*run)(struct job *job, struct session *session); /* called on a job thread */
    void (*done)(struct job *job); /* called on the worker's thread; frees the job */
    struct worker *worker;         /* if NULL, `done` is called on the job thread */
    uint64_t lane;                 /* 0 if the job has no lane */
    /* The user that submitted the job; NULL if not logged in. The pointer is only compared, never
     * dereferenced. */
    const struct user *owner;
    /* The job runs even if the service stops before the job's turn. */
    bool must;
    struct job *next;
};

/* Creates the threads. Returns NULL if memory, threads or seats (quiet.h) cannot be allocated. */
struct jobs *jobs_create(struct server *server, unsigned threads);

/* Must be called after all connections are closed. Waits for running jobs. Queued jobs are run only
 * if `must` is set, because no client is waiting for the results. For other queued jobs, only
 * `done` is called. */
void jobs_free(struct jobs *jobs);

/* Submits a job. Never blocks. The queue needs no limit, because each connection submits only one
 * job at a time. */
void jobs_submit(struct jobs *jobs, struct job *job);

size_t jobs_waiting(struct jobs *jobs);

#endif

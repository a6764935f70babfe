/*
 * jobs.h - threads for long operations, so that they do not block event loops.
 *
 * A job is submitted to a queue. A thread runs it with its own session, and then returns it to
 * the worker that submitted it, on whose thread `done` is called. Jobs of one connection never
 * overlap: a connection waits for its job before it continues.
 *
 * Lanes. Jobs that change one filter wait for each other, and for any long operation that holds
 * its lock. They share a lane. The jobs of a lane run one at a time, in order, so they occupy one
 * thread, and the other threads serve other filters. Password checks share a lane as well: each
 * one takes much memory and time, and clients can request them without logging in.
 *
 * Owners. The next job belongs to the user that occupies the fewest threads. Once a second user
 * has submitted a job, no user may occupy all threads: at least one stays free for the others, so
 * jobs of one user never block those of another.
 */
#ifndef SERVER_JOBS_H
#define SERVER_JOBS_H

#include "session.h"

struct jobs;
struct worker;

enum { JOBS_LANE_PASSWORDS = 1 }; /* the lane of jobs that check passwords */

struct job {
    void (*run)(struct job *job, struct session *session); /* on a job thread */
    void (*done)(struct job *job); /* on the worker's thread; frees it */
    struct worker *worker;         /* NULL: `done` is called on the job thread */
    uint64_t lane;                 /* 0: none */
    const struct user *owner;      /* NULL: not logged in. Only compared */
    /* It runs even if the service stops before its turn. */
    bool must;
    struct job *next;
};

/* Returns NULL if there are no memory, threads or seats (quiet.h). */
struct jobs *jobs_create(struct server *server, unsigned threads);

/* Call it after connections are closed. Waits for running jobs; jobs still in the queue are only
 * completed, not run (unless `must`), because no client waits for them. */
void jobs_free(struct jobs *jobs);

/* Never blocks. The queue has no limit of its own, because each connection waits for its job. */
void jobs_submit(struct jobs *jobs, struct job *job);

size_t jobs_waiting(struct jobs *jobs);

#endif

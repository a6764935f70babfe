/*
 * jobs.h - threads for what takes long, so that event loops do not have to.
 *
 * A job is handed to a queue; a thread runs it with its own session; when it is done it goes back
 * to the worker that it came from, on whose thread `done` is called. Jobs of one connection never
 * overlap: a connection waits for its job before it goes on.
 *
 * Lanes. Jobs that change one filter wait for each other, and for any long operation that holds its lock.
 * They share a lane. The jobs of a lane run one at a time, in order, so they occupy one thread, and the
 * other threads serve other filters. Password checks share a lane as well: each one takes much memory and
 * time, and clients can request them without logging in.
 *
 * Owners. The next job is one of the user that occupies the fewest threads. As soon as a second user has
 * submitted a job, one thread is kept free of each user: jobs of one user never delay those of another.
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
    const struct user *owner;      /* NULL: nobody has logged in. Only compared */
    bool must; /* is run even if the service ends before its turn comes */
    struct job *next;
};

/* NULL: no memory, no threads, no seats. */
struct jobs *jobs_create(struct server *server, unsigned threads);

/* After connections are closed: ends when what is running has been run; what waits is done without,
 * as there is nobody who would hear of it. */
void jobs_free(struct jobs *jobs);

/* Never waits; the queue has no bound of its own, since connections wait for their jobs. */
void jobs_submit(struct jobs *jobs, struct job *job);

size_t jobs_waiting(struct jobs *jobs);

#endif

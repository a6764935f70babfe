/* rollcall.c - see rollcall.h. */
#include "request/rollcall.h"

#include "core/server.h"
#include "request/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* A note in a worker's mailbox. It looks like a job that has already run, so the worker only calls
 * its `done` function. */
struct note {
    struct job job; /* must be first */
    void (*visit)(void *context, struct conn *conn);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;      /* the worker has visited all connections */
    bool withdrawn; /* the worker only frees the note */
};

static void note_free(struct note *note)
{
    pthread_mutex_destroy(&note->lock);
    pthread_cond_destroy(&note->changed);
    free(note);
}

/* Visits the worker's connections. Called on the worker's thread. */
static void note_read(struct job *job)
{
    struct note *note = (struct note *)job;
    struct conn *next = NULL;
    pthread_mutex_lock(&note->lock);
    const bool withdrawn = note->withdrawn;
    for (struct conn *conn = withdrawn ? NULL : job->worker->conns; conn; conn = next) {
        next = conn->next;
        note->visit(note->context, conn);
    }
    note->done = true;
    pthread_cond_signal(&note->changed);
    pthread_mutex_unlock(&note->lock);
    if (withdrawn) {
        note_free(note);
    }
}

static struct note *note_create(struct worker *worker,
                                void (*visit)(void *context, struct conn *conn),
                                void *context)
{
    struct note *note = calloc(1, sizeof *note);
    if (note) {
        note->job.done = note_read;
        note->job.worker = worker;
        note->visit = visit;
        note->context = context;
        pthread_mutex_init(&note->lock, NULL);
        pthread_cond_init(&note->changed, NULL);
    }
    return note;
}

/* Waits up to 50 ms. Returns false if the worker has not handled the note by then. The caller holds
 * the note's lock. */
static bool note_wait(struct note *note)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&note->changed, &note->lock, &until);
    return note->done;
}

static bool rollcall_worker(struct server *server, struct worker *worker,
                            void (*visit)(void *context, struct conn *conn),
                            void *context)
{
    struct note *note = note_create(worker, visit, context);
    if (!note) {
        return false;
    }
    worker_post_job(worker, &note->job);
    pthread_mutex_lock(&note->lock);
    while (!note->done && !note_wait(note)
           && atomic_load(&server->phase) != SERVER_STOPPING
           && atomic_load(&server->phase) != SERVER_ABANDONING) {
    }
    const bool done = note->done;
    note->withdrawn = !done;
    pthread_mutex_unlock(&note->lock);
    if (done) {
        note_free(note);
    }
    return done;
}

bool rollcall(struct server *server, void (*visit)(void *context, struct conn *conn),
              void *context)
{
    bool all = true;
    for (size_t i = 0; all && i < server->workers_count; i++) {
        all = rollcall_worker(server, server->workers[i], visit, context);
    }
    return all;
}

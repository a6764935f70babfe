/*
 * interrupt.h - limits how long an immediate stop takes.
 *
 * An orderly shutdown joins all threads. A thread may be in the middle of a long operation, such as
 * a job, a snapshot or a gate's build, which cannot be canceled at every point. If an immediate stop
 * (a second signal, or SHUTDOWN NOW) has not finished after INTERRUPT_GRACE milliseconds, a thread
 * calls a function that ends the process. Clients of interrupted jobs see a closed connection.
 *
 * Ending the process is safe for the data, because the data directory then is as after a crash: all
 * acknowledged changes are in the journal, an unfinished file has no record, and the next start
 * deletes it (persist/persist.c, P1 to P6).
 */
#ifndef SERVER_MAIN_INTERRUPT_H
#define SERVER_MAIN_INTERRUPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { INTERRUPT_GRACE = 1000 };

struct interrupt {
    int wake_fd;
    /* Called on the interrupt's thread while all other threads may be running. Must not return. */
    void (*end)(void *context);
    void *context;
    bool started;
    _Atomic bool finished;
    pthread_t thread;
};

/* Starts the thread. `wake_fd` is the result of server_open_wake. The caller sets `end` and
 * `context`. Returns false if the thread cannot be started. */
bool interrupt_start(struct interrupt *interrupt, int wake_fd);

/* Stops the thread. If `end` has been called, does not return. Does nothing if the thread was not
 * started. */
void interrupt_finish(struct interrupt *interrupt);

#endif

/* redis_worker.c - see redis_worker.h. The jobs are in a list protected by a lock; the thread waits
 * for jobs to be added. */
#include "redis_worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct task {
    struct task *next;
    void (*run)(void *job);
    void *job;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct task *first, **last;
    struct task *spare; /* an unused entry, so that adding a job needs no allocation */
    _Atomic uint64_t done;
    pid_t process; /* ID of the process that runs the thread, or 0 if none does */
} worker = { .lock = PTHREAD_MUTEX_INITIALIZER,
             .come = PTHREAD_COND_INITIALIZER,
             .last = &worker.first };

static void *worker_main(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&worker.lock);
        while (!worker.first) {
            pthread_cond_wait(&worker.come, &worker.lock);
        }
        struct task *task = worker.first;
        worker.first = task->next;
        if (!worker.first) {
            worker.last = &worker.first;
        }
        pthread_mutex_unlock(&worker.lock);
        task->run(task->job);
        free(task);
    }
    return NULL;
}

static bool worker_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker_main, NULL)) {
        return false;
    }
    (void)pthread_detach(thread);
    worker.process = getpid();
    return true;
}

bool redis_worker_there(void)
{
    if (!worker.spare) {
        worker.spare = malloc(sizeof *worker.spare);
    }
    return worker.spare
           && (worker.process ? worker.process == getpid() : worker_start());
}

void redis_worker_run(void (*run)(void *job), void *job)
{
    struct task *task = worker.spare;
    worker.spare = NULL;
    *task = (struct task){ .run = run, .job = job };
    pthread_mutex_lock(&worker.lock);
    *worker.last = task;
    worker.last = &task->next;
    pthread_cond_signal(&worker.come);
    pthread_mutex_unlock(&worker.lock);
}

void redis_worker_count(void)
{
    atomic_fetch_add(&worker.done, 1);
}

uint64_t redis_worker_done(void)
{
    return atomic_load(&worker.done);
}

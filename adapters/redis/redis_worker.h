/* redis_worker.h - a thread for work that would block the server's main thread for too long. It
 * runs one job at a time. */
#ifndef REDIS_WORKER_H
#define REDIS_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/* Starts the thread on the first call. Returns whether the thread can run a job. Main thread
 * only. */
bool redis_worker_there(void);

/* Queues a function to run on the thread, which must be running. */
void redis_worker_run(void (*run)(void *job), void *job);

/* Counts a finished job. Call this function before unblocking the job's client, so that the client
 * sees the new count. */
void redis_worker_count(void);

/* Returns the number of finished jobs. */
uint64_t redis_worker_done(void);

#endif

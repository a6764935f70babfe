/* redis_worker.h - a thread for what would keep the server's main thread too long. One thing after the
 * other. */
#ifndef REDIS_WORKER_H
#define REDIS_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether there is the thread, which is started when it is first asked for. The main thread's. */
bool redis_worker_there(void);

/* Has the thread call a function; it is there. */
void redis_worker_run(void (*run)(void *job), void *job);

/* Counts a finished job. Call it before unblocking the client of the job, so that the client sees the new count. */
void redis_worker_count(void);

/* Returns the number of finished jobs. */
uint64_t redis_worker_done(void);

#endif

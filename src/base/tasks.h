/*
 * tasks.h - a number of tasks, done by a number of threads.
 *
 * Threads take the next task from a common counter until there is none, so it does not
 * matter how many threads the system really gives: the calling thread alone would do.
 */
#ifndef BGI_TASKS_H
#define BGI_TASKS_H

#include <stdbool.h>
#include <stddef.h>

enum { BGI_THREADS_MAX = 256 };

/*
 * Calls task(context, i, thread) once for every i below `tasks`, from up to `threads`
 * threads (1 .. BGI_THREADS_MAX), of which the calling one is number 0. When a task returns
 * false no more are begun. Returns when all have ended: true if all were done.
 */
bool bgi_tasks_run(unsigned threads, size_t tasks,
                   bool (*task)(void *context, size_t i, unsigned thread),
                   void *context);

#endif

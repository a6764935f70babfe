/*
 * tasks.h - runs tasks on several threads.
 *
 * Each thread repeatedly claims the next task from a shared counter until none are left. So all
 * tasks are completed even if the OS cannot start all threads, because the calling thread alone
 * suffices.
 */
#ifndef BGI_TASKS_H
#define BGI_TASKS_H

#include <stdbool.h>
#include <stddef.h>

enum { BGI_THREADS_MAX = 256 };

/*
 * Calls task(context, i, thread) once for every i below `tasks`, from up to `threads` threads
 * (1 .. BGI_THREADS_MAX); the calling thread has index 0. If a task returns false, no more
 * tasks are started. Waits until all threads have finished, and returns true if all tasks
 * succeeded.
 */
bool bgi_tasks_run(unsigned threads, size_t tasks,
                   bool (*task)(void *context, size_t i, unsigned thread),
                   void *context);

#endif

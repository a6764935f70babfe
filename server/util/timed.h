/* util/timed.h - condition variables that wait until a time on the monotonic clock. */
#ifndef SERVER_UTIL_TIMED_H
#define SERVER_UTIL_TIMED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline void timed_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

/* Waits for a signal, but no later than `until` (clock_nanoseconds). Returns false if that time has been reached. */
static inline bool timed_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                              uint64_t until)
{
    const struct timespec time = { .tv_sec = (time_t)(until / UINT64_C(1000000000)),
                                   .tv_nsec = (long)(until % UINT64_C(1000000000)) };
    return pthread_cond_timedwait(condition, lock, &time) == 0;
}

#endif

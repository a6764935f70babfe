/*
 * clock.h - the clocks of the programs. Files that include it define _GNU_SOURCE, which declares
 * CLOCK_MONOTONIC_COARSE.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Returns milliseconds since 1970. */
static inline uint64_t clock_now(void)
{
    return clock_read(CLOCK_REALTIME) / 1000000;
}

/* Returns milliseconds on the monotonic clock, accurate to a few milliseconds. Cost: about 5 ns. */
static inline uint64_t clock_ticks(void)
{
    return clock_read(CLOCK_MONOTONIC_COARSE) / 1000000;
}

/* Returns nanoseconds on the monotonic clock. */
static inline uint64_t clock_nanoseconds(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

#endif

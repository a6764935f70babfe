/* clock.c - see clock.h. */
#define _GNU_SOURCE /* clock_gettime, CLOCK_MONOTONIC_COARSE */

#include "clock.h"

#include <time.h>

static uint64_t clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_now(void)
{
    return clock_read(CLOCK_REALTIME) / 1000000;
}

uint64_t clock_ticks(void)
{
    return clock_read(CLOCK_MONOTONIC_COARSE) / 1000000;
}

uint64_t clock_nanoseconds(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* monotonic.c - see monotonic.h. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "base/monotonic.h"

#include <time.h>

uint64_t bgi_monotonic(void *context)
{
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

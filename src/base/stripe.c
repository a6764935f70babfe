/* stripe.c - see stripe.h. sched_getcpu() reads what the kernel keeps up to date in memory
 * of the thread, 1 to 2 ns; where it cannot, everybody shares the first line. */
#define _GNU_SOURCE /* sched_getcpu */

#include "base/stripe.h"

#include <sched.h>
#include <unistd.h>

enum { STRIPES_MOST = 64 };

uint32_t bgi_stripes(void)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t n = 1;
    while (n < STRIPES_MOST && (long)n < processors) {
        n *= 2;
    }
    return n;
}

uint32_t bgi_stripe(uint32_t n)
{
    int processor = n > 1 ? sched_getcpu() : 0;
    return processor < 0 ? 0 : (uint32_t)processor & (n - 1);
}

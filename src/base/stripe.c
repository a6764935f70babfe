/* stripe.c - see stripe.h. sched_getcpu() reads the CPU number, which the kernel maintains in the
 * thread's memory, which takes 1 to 2 ns. If sched_getcpu() is not available, all threads share
 * the first cache line. */
#define _GNU_SOURCE /* sched_getcpu */

#include "base/stripe.h"

#include "base/machine_facts.h"

#include <sched.h>

enum { STRIPES_MAX = 64 };

static uint32_t stripes_count(void)
{
    const uint32_t processors = bgi_machine_cpu_numbers();
    uint32_t n = 1;
    while (n < STRIPES_MAX && n < processors) {
        n *= 2;
    }
    return n;
}

/* Caches the result, because sysconf can read a file. */
uint32_t bgi_stripes(void)
{
    static uint32_t known;
    uint32_t n = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (n == 0) {
        n = stripes_count();
        __atomic_store_n(&known, n, __ATOMIC_RELAXED);
    }
    return n;
}

uint32_t bgi_stripe(uint32_t n)
{
    int processor = n > 1 ? sched_getcpu() : 0;
    return processor < 0 ? 0 : (uint32_t)processor & (n - 1);
}

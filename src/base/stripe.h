/*
 * stripe.h - selects one of n cache lines for a thread's counters, based on the core that the
 * thread runs on, so that threads on different cores use different lines. If a thread migrates
 * between the selection and the increment, the increment is slower but still correct: all counters
 * are atomic, and only their sums are meaningful.
 */
#ifndef BGI_STRIPE_H
#define BGI_STRIPE_H

#include <stdint.h>

/* Returns a suitable number of cache lines for this machine: a power of two, 1 .. 64. */
uint32_t bgi_stripes(void);

/* Returns the index of the calling thread's line, 0 .. n-1. n must be a power of two. */
uint32_t bgi_stripe(uint32_t n);

#endif

/*
 * stripe.h - which of n cache lines a thread should count in, so that threads on different
 * processors use different ones: that of the processor it runs on. A wrong guess (it is
 * moved in between) costs time, never correctness, as all lines are atomic and only their
 * sums mean anything.
 */
#ifndef BGI_STRIPE_H
#define BGI_STRIPE_H

#include <stdint.h>

/* How many lines make sense on this machine: a power of two, 1 .. 64. */
uint32_t bgi_stripes(void);

/* One of n lines, n a power of two. */
uint32_t bgi_stripe(uint32_t n);

#endif

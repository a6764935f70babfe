/* clock.h - the clocks of the programs. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

/* Returns milliseconds since 1970. */
uint64_t clock_now(void);

/* Returns milliseconds on the monotonic clock, accurate to a few milliseconds. Cost: about 5 ns. */
uint64_t clock_ticks(void);

/* Returns nanoseconds on the monotonic clock. */
uint64_t clock_nanoseconds(void);

#endif

/* monotonic.h - the default clock of slots, gates and logs. */
#ifndef BGI_MONOTONIC_H
#define BGI_MONOTONIC_H

#include <stdint.h>

/* Returns nanoseconds on the monotonic clock. `context` is ignored, as a clock of the caller may need one. */
uint64_t bgi_monotonic(void *context);

#endif

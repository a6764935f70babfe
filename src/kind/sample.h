/*
 * sample.h - estimates the number of objects, such as set bits, in a large array by counting them
 * in a sample.
 *
 * Hashes distribute keys evenly, so SAMPLE_STRETCHES equally spaced parts of the array, called
 * stretches, represent the whole array. The variation between the stretches indicates the error of
 * the estimate.
 */
#ifndef BGI_SAMPLE_H
#define BGI_SAMPLE_H

#include <stdint.h>

/* Returns the number of objects in n units, starting at unit `first`. */
typedef uint64_t bgi_sample_count(const void *context, uint64_t first, uint64_t n);

/*
 * Returns the exact or estimated number of objects in `units` units, which take `bytes` bytes in
 * total. If `bytes` exceeds `most`, only about `most` bytes are read; if `most` is 0, there is no
 * limit. *error is the standard deviation of the result, or 0 if everything was read. The error
 * includes an allowance for `least` missed objects in the whole sample, because rare objects may
 * not occur in any stretch.
 */
double bgi_sample_sum(uint64_t units, uint64_t bytes, uint64_t most, double least,
                      bgi_sample_count *count, const void *context, double *error);

#endif

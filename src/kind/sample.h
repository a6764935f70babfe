/*
 * sample.h - estimates a count over a large array from a sample.
 *
 * Hashes distribute keys evenly, so SAMPLE_STRETCHES equally spaced stretches represent the
 * whole array. The differences among the stretches indicate the error of the sum.
 */
#ifndef BGI_SAMPLE_H
#define BGI_SAMPLE_H

#include <stdint.h>

/* Returns the count in n units, starting at `first`. */
typedef uint64_t bgi_sample_count(const void *context, uint64_t first, uint64_t n);

/*
 * Returns the count in `units` units, which have `bytes` bytes in total. If `bytes` is more than
 * `most`, only about `most` bytes are read; a `most` of 0 means no limit. *error is the standard
 * deviation of the result, or 0 if everything was read. The error allows for `least` missed
 * counts per stretch, because rare objects may be in no stretch at all.
 */
double bgi_sample_sum(uint64_t units, uint64_t bytes, uint64_t most, double least,
                      bgi_sample_count *count, const void *context, double *error);

#endif

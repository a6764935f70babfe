/*
 * sample.h - counting in a part of something large what there is about as much of everywhere.
 *
 * Hashes spread keys evenly, so some stretches tell of the whole: SAMPLE_STRETCHES of them, at equal
 * distances. How much they differ among themselves says how far off the sum may be.
 */
#ifndef BGI_SAMPLE_H
#define BGI_SAMPLE_H

#include <stdint.h>

/* Counts in n units from `first` on. */
typedef uint64_t bgi_sample_count(const void *context, uint64_t first, uint64_t n);

/*
 * How much there is in `units` units, of `bytes` in all. If that is more than `most` bytes (0: no
 * bound) about so many are read. *error is the standard deviation of what is returned, 0 if all was
 * read; that of finding `least` too few in a stretch is in it, since what is rare may be in none.
 */
double bgi_sample_sum(uint64_t units, uint64_t bytes, uint64_t most, double least,
                      bgi_sample_count *count, const void *context, double *error);

#endif

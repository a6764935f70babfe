/*
 * api/evenness.h - decides whether set bits are distributed over the parts of a filter as evenly as
 * random keys distribute them.
 */
#ifndef BLOOMGATE_SERVER_EVENNESS_H
#define BLOOMGATE_SERVER_EVENNESS_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>

struct evenness {
    double least, mean, most; /* shares of set bits */
    double low, high; /* shares that chance explains, for parts of `part_bits` bits */
    size_t uneven;    /* number of parts with a share outside this range */
};

/* Returns how many bits in one part a single key can set, or 0 if the shares of this filter do not
 * show how its keys are distributed. This is the case for static kinds, whose bits depend on the
 * solver, for quotient filters, which have spare slots at the end, and for filters with layers or
 * generations, which are filled one after another. */
double evenness_bits_per_key(const bg_filter *filter);

/* Examines `n` parts, at least one, of at least `part_bits` bits each. */
struct evenness evenness_of(const double *shares, size_t n, double part_bits,
                            double bits_per_key);

#endif

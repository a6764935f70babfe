/*
 * drops.h - how many new lines dedup drops wrongly, and how many more keys its filter may take.
 *
 * A line whose key is new is dropped if the filter takes the key for a seen one, which happens
 * at the rate r of the filter at that moment. So for each line that is reported new, r / (1 - r)
 * others were not, and the expected number of dropped lines is the sum of that over all lines
 * that are reported new. The rate is measured from time to time (a look, which reads up to 4 MiB
 * of each part of the filter), and a straight line is assumed in between. Rates curve upward, so
 * the sum is rather too high.
 *
 * The promise: the expected share of dropped lines stays at or below the stated rate. Each look
 * grants a number of new keys that keeps the promise, and nothing is added without a grant:
 *
 *   - A filter of fixed size takes the keys it was made for. Beyond that, the rate is above the
 *     stated one, but the share so far is below it, because the filter was emptier before. The
 *     difference is a budget, and grants use it up. Each grant assumes twice the rate of the
 *     look, as the rate rises while keys are added.
 *   - A scalable filter takes any number of keys, until it cannot get memory for a layer.
 *   - A window takes keys while its rate is at or below the stated one; above that it has the
 *     same budget. The fill of a small window varies by chance, so its budget is at least half
 *     a line.
 *
 * When there is no grant, the filter is full. Lines whose keys are in it are still dropped
 * correctly; the first line with a new key ends the run.
 */
#ifndef CLI_DROPS_H
#define CLI_DROPS_H

#include "bloomgate/bloomgate.h"
#include "records.h"

#include <pthread.h>
#include <stdatomic.h>

struct drops {
    bg_filter *filter;
    uint64_t before;             /* keys that were in it */
    double rate;                 /* the stated one */
    atomic_uint_fast64_t unique; /* keys that were new in this run */
    atomic_bool full;            /* a new key was refused */

    /* Inside. */
    pthread_rwlock_t looking; /* adds hold it for reading, looks for writing */
    atomic_uint_fast64_t granted;
    bool closed;     /* the filter takes no more keys */
    uint64_t looked; /* `unique` at the last look */
    bg_info info;    /* of the filter, at the last look */
    double wrong;    /* lines that are expected to be dropped until then */
};

/* `before`: how many keys are in the filter. */
void drops_begin(struct drops *drops, bg_filter *filter, uint64_t before, double rate);
void drops_end(struct drops *drops);

/* Measures the rate, from all of the filter. Not while drops_add runs. */
void drops_look(struct drops *drops);

/*
 * Adds the keys of a chunk by their hashes and sets the answers: 1 for each key that is new.
 * Returns the number of new keys. If the filter is full, the chunk is cut before the first key
 * that was refused, and `full` is set. Thread safety: MT-Safe if the filter is.
 */
size_t drops_add(struct drops *drops, struct chunk *chunk);

#endif

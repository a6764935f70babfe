/*
 * drops.h - limits how many new lines dedup drops by mistake, and therefore how many more keys its
 * filter accepts.
 *
 * A line with a new key is dropped if the filter reports the key as seen, which happens with
 * probability r, the current false-positive rate of the filter. For each line that is reported new,
 * r / (1 - r) new lines are therefore dropped on average. The sum of this value over all lines that
 * are reported new is the expected number of new lines dropped. The rate is measured from time to
 * time (each measurement reads up to 4 MiB of each part of the filter) and interpolated linearly
 * between measurements. Since the rate grows faster than linearly, the sum is slightly too high.
 *
 * Guarantee: the expected share of new lines that are dropped stays at or below the stated rate
 * (--rate or its default). Each measurement grants a number of new keys that preserves the
 * guarantee, and no key is added without a grant:
 *
 *   - A fixed-size filter accepts as many keys as it was created for. Beyond that number, its
 *     current rate exceeds the stated rate, but the share of lines dropped so far is still lower,
 *     because the rate was lower while the filter was emptier. The difference is a budget, which
 *     further grants consume. Each grant assumes twice the measured rate, because the rate rises
 *     while keys are added.
 *   - A scalable filter accepts any number of keys, until it cannot allocate another layer.
 *   - A window accepts keys while its rate is at or below the stated rate; above that rate, it has
 *     a budget like that of a fixed-size filter. The fill of a small window fluctuates randomly, so
 *     its budget is at least half a line. Several runs with the same state share one budget; `past`
 *     contains the totals of the earlier runs.
 *
 * If no more keys are granted, the filter is full. Lines whose keys are in the filter are still
 * dropped correctly, but the first line with a new key ends the run. A filter that received far
 * more keys than it was created for (from `build`, `add` or version 0.1) reports nearly all new
 * keys as seen. Such a filter cannot be used, so the run ends at the first line.
 */
#ifndef CLI_DROPS_H
#define CLI_DROPS_H

#include "records.h"

#include <pthread.h>
#include <stdatomic.h>

/* Totals over all runs with the same state. */
struct drops_sum {
    uint64_t unique; /* number of lines reported new */
    double wrong;    /* expected number of wrongly dropped lines */
};

struct drops {
    bg_filter *filter;
    uint64_t before;             /* number of keys in the filter at the start */
    double rate;                 /* the stated rate */
    struct drops_sum past;       /* totals over the earlier runs */
    atomic_uint_fast64_t unique; /* number of new keys in this run */
    atomic_bool full;            /* a new key was refused */

    /* Private. */
    pthread_rwlock_t looking; /* read-locked by adds, write-locked by measurements */
    atomic_uint_fast64_t granted;
    bool closed;         /* the filter accepts no more keys */
    uint64_t looked;     /* value of `unique` at the last measurement */
    bg_filter_info info; /* filter info at the last measurement */
    double
        wrong; /* expected number of wrongly dropped lines up to the last measurement */
};

/* `before` is the number of keys already in the filter. */
void drops_begin(struct drops *drops, bg_filter *filter, uint64_t before, double rate,
                 struct drops_sum past);
void drops_end(struct drops *drops);

/* Measures the rate of the whole filter. Must not run concurrently with drops_add. */
void drops_look(struct drops *drops);

/* Returns the totals over the earlier runs and this run, up to the last measurement. */
struct drops_sum drops_total(const struct drops *drops);

/*
 * Adds the keys of a chunk by their hashes, and sets the answer bit of each key that is new.
 * Returns the number of new keys. If the filter is full, the chunk is truncated before the first
 * key that was refused, and `full` is set. Thread safety: thread-safe if adding to the filter is
 * thread-safe.
 */
size_t drops_add(struct drops *drops, struct chunk *chunk);

#endif

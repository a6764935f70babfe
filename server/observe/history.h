/*
 * history.h - time series for charts: two rings of fixed size, one fine and one coarse.
 *
 *     fine    a point every HISTORY_STEP seconds, for the last 15 minutes
 *     coarse  a point per minute, the mean of its fine points, for the last day
 *
 * A missing point is NaN. Thread safety: the caller must hold a lock.
 */
#ifndef SERVER_OBSERVE_HISTORY_H
#define SERVER_OBSERVE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_STEP = 2,
    HISTORY_FINE = 450,
    HISTORY_MINUTE = 60,
    HISTORY_COARSE = 1440
};

struct history;

struct history *history_create(size_t metrics); /* NULL if out of memory */
void history_free(struct history *history);

/* Adds the values of all metrics at `now`, which is in seconds since 1970. Call it every
 * HISTORY_STEP seconds. Skipped steps become NaN. If the clock has been set back, points later than
 * `now` are discarded. */
void history_add(struct history *history, uint64_t now, const double *values);

/* Returns which part of the last `seconds` is available: the number of points, the time of the
 * first point, and the number of seconds between points. */
struct history_range {
    uint64_t from;
    uint64_t step;
    size_t points;
};
struct history_range history_range(const struct history *history, uint64_t seconds);

/* Reads the points of one metric within a range. */
void history_read(const struct history *history, const struct history_range *range,
                  size_t metric, double *values);

#endif

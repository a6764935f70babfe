/*
 * history.h - figures over time, for charts: two rings of fixed size, a fine and a coarse one.
 *
 *     fine    a point every HISTORY_STEP seconds, for the last quarter of an hour
 *     coarse  a point per minute, the mean of its fine ones, for the last day
 *
 * A point that is not known is NaN. Thread safety: the caller's lock.
 */
#ifndef SERVER_HISTORY_H
#define SERVER_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_STEP = 2,
    HISTORY_FINE = 450,
    HISTORY_MINUTE = 60,
    HISTORY_COARSE = 1440
};

struct history;

struct history *history_create(size_t metrics); /* NULL: no memory */
void history_free(struct history *history);

/* The values of all metrics at a time, in seconds since 1970; every HISTORY_STEP seconds. What was
 * left out in between becomes NaN. If the clock goes back, what was noted of later times is
 * forgotten. */
void history_add(struct history *history, uint64_t now, const double *values);

/* What there is of the last `seconds`, oldest first: how many points, the time of the first and
 * the seconds between them. */
struct history_range {
    uint64_t from;
    uint64_t step;
    size_t points;
};
struct history_range history_range(const struct history *history, uint64_t seconds);

/* The points of one metric in that range. */
void history_read(const struct history *history, const struct history_range *range,
                  size_t metric, double *values);

#endif

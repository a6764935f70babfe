/* history.c - see history.h. */
#include "observe/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A ring of data points. `count` is the number of points received, and `last` is the time of the
 * latest point, in steps since 1970. */
struct ring {
    size_t size;
    uint64_t step;
    uint64_t last;
    uint64_t count;
    float *values; /* size x metrics values, stored point by point */
};

struct history {
    size_t metrics;
    struct ring fine, coarse;
    double *sums; /* sums of the values in the current minute */
    uint32_t *numbers;
    uint64_t minute;
    float memory[];
};

struct history *history_create(size_t metrics)
{
    const size_t points = (size_t)HISTORY_FINE + HISTORY_COARSE;
    struct history *h = calloc(1, sizeof *h + points * metrics * sizeof(float));
    if (!h) {
        return NULL;
    }
    h->metrics = metrics;
    h->sums = calloc(metrics, sizeof *h->sums);
    h->numbers = calloc(metrics, sizeof *h->numbers);
    if (!h->sums || !h->numbers) {
        history_free(h);
        return NULL;
    }
    h->fine = (struct ring){ .size = HISTORY_FINE,
                             .step = HISTORY_STEP,
                             .values = h->memory };
    h->coarse = (struct ring){ .size = HISTORY_COARSE,
                               .step = HISTORY_MINUTE,
                               .values = h->memory + (size_t)HISTORY_FINE * metrics };
    return h;
}

void history_free(struct history *history)
{
    if (history) {
        free(history->sums);
        free(history->numbers);
        free(history);
    }
}

static float *ring_point(const struct ring *ring, uint64_t at, size_t metrics)
{
    const size_t size = ring->size ? ring->size : 1; /* never 0 */
    return ring->values + at % size * metrics;
}

/* Discards the points at `at` and later. Needed if the clock has been set back. */
static void ring_rewind(struct ring *ring, uint64_t at)
{
    if (ring->count == 0 || at > ring->last) {
        return;
    }
    const uint64_t ahead = ring->last - at + 1;
    ring->count = ring->count > ahead ? ring->count - ahead : 0;
    ring->last = at - 1;
}

/* Stores a data point under its timestamp. Points that were skipped since the previous data point
 * become NaN. */
static void ring_add(struct ring *ring, uint64_t at, const double *values,
                     size_t metrics)
{
    if (ring->count && at == ring->last) {
        return; /* the clock has not advanced */
    }
    ring_rewind(ring, at);
    uint64_t gap = ring->count ? at - ring->last - 1 : 0;
    gap = gap < ring->size ? gap : ring->size;
    for (uint64_t i = 1; i <= gap; i++) {
        for (size_t m = 0; m < metrics; m++) {
            ring_point(ring, at - i, metrics)[m] = NAN;
        }
    }
    for (size_t m = 0; m < metrics; m++) {
        ring_point(ring, at, metrics)[m] = (float)values[m];
    }
    ring->count += gap + 1;
    ring->last = at;
}

static void history_begin_minute(struct history *h)
{
    memset(h->sums, 0, h->metrics * sizeof *h->sums);
    memset(h->numbers, 0, h->metrics * sizeof *h->numbers);
}

static void history_end_minute(struct history *h)
{
    for (size_t m = 0; m < h->metrics; m++) {
        h->sums[m] = h->numbers[m] ? h->sums[m] / h->numbers[m] : (double)NAN;
    }
    ring_add(&h->coarse, h->minute, h->sums, h->metrics);
    history_begin_minute(h);
}

void history_add(struct history *h, uint64_t now, const double *values)
{
    const uint64_t minute = now / HISTORY_MINUTE;
    if (h->fine.count && minute > h->minute) {
        history_end_minute(h);
    } else if (minute < h->minute) {
        history_begin_minute(h);
        ring_rewind(&h->coarse, minute);
    }
    h->minute = minute;
    ring_add(&h->fine, now / HISTORY_STEP, values, h->metrics);
    for (size_t m = 0; m < h->metrics; m++) {
        if (isfinite(values[m])) {
            h->sums[m] += values[m];
            h->numbers[m]++;
        }
    }
}

struct history_range history_range(const struct history *h, uint64_t seconds)
{
    const struct ring *ring =
        seconds <= (uint64_t)HISTORY_FINE * HISTORY_STEP ? &h->fine : &h->coarse;
    uint64_t points = (seconds + ring->step - 1) / ring->step;
    points = points < ring->count ? points : ring->count;
    points = points < ring->size ? points : ring->size;
    return (struct history_range){ .from = points
                                               ? (ring->last - points + 1) * ring->step
                                               : 0,
                                   .step = ring->step,
                                   .points = (size_t)points };
}

void history_read(const struct history *h, const struct history_range *range,
                  size_t metric, double *values)
{
    const struct ring *ring = range->step == HISTORY_STEP ? &h->fine : &h->coarse;
    for (size_t i = 0; i < range->points; i++) {
        values[i] =
            (double)ring_point(ring, range->from / range->step + i, h->metrics)[metric];
    }
}

/*
 * measure.h - compares a measured false-positive rate with the predicted rate.
 *
 * A cell is one geometry, measured with one or more filters. The uncertainty (sigma) of a measured
 * rate is given relative to the predicted rate, and has two sources. First, the number of hits is
 * binomially distributed. Second, filters with few keys can by chance be fuller or emptier than
 * predicted. With 8 or more filters, the variance between the filters reflects both sources. With
 * fewer filters, only the first source is known, and the caller must ensure that the second is
 * small.
 *
 * A cell is good if the measured rate is within 5% of the predicted rate. If 5% is less than 5
 * sigma, the cell is weak: the limit is then 5% + 4 sigma, and the cell is counted separately.
 *
 * If BG_TEST_TABLE is set or BG_TEST_SCALE is at least 10, every cell is printed.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "bloomgate/kind.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_feature)
#define MEASURE_HAS(feature) __has_feature(feature)
#else
#define MEASURE_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)                      \
    || MEASURE_HAS(address_sanitizer) || MEASURE_HAS(thread_sanitizer)
#define MEASURE_SANITIZED 1
#else
#define MEASURE_SANITIZED 0
#endif

enum { MEASURE_SOAK = 10 };

/* The counts of one cell. Every filter gets the same number of probes. */
struct measure {
    double filters;
    double probes; /* total number of probes across all filters */
    double hits;
    double squares; /* sum over all filters of the squared number of hits */
};

struct measure_verdict {
    double rate;
    double deviation; /* (measured - predicted) / predicted */
    double sigma;     /* of the deviation */
    bool weak;
    bool good;
};

/* Totals for all cells in a test. */
struct measure_summary {
    unsigned cells;
    unsigned weak;
    unsigned bad;
    double probes;
    double worst;       /* largest deviation among the cells that are not weak */
    double worst_sigma; /* sigma of the same cell */
    double chi;         /* sum of (deviation / sigma)^2 */
};

static inline bool measure_soaks(void)
{
    return check_scale() >= MEASURE_SOAK;
}

static inline bool measure_prints(void)
{
    return measure_soaks()
           || getenv("BG_TEST_TABLE"); /* NOLINT(concurrency-mt-unsafe) */
}

static inline void measure_add(struct measure *m, size_t hits, size_t probes)
{
    m->filters += 1;
    m->probes += (double)probes;
    m->hits += (double)hits;
    m->squares += (double)hits * (double)hits;
}

static inline double measure_sigma(const struct measure *m, double predicted)
{
    double binomial = sqrt((1 - predicted) / (predicted * m->probes));
    if (m->filters < 8) {
        return binomial;
    }
    double mean = m->hits / m->filters;
    double variance = (m->squares / m->filters - mean * mean) / (m->filters - 1);
    double scatter = sqrt(fmax(variance, 0)) / (predicted * m->probes / m->filters);
    return fmax(binomial, scatter);
}

static inline struct measure_verdict measure_judge(const struct measure *m,
                                                   double predicted)
{
    struct measure_verdict v;
    v.rate = m->hits / m->probes;
    v.deviation = v.rate / predicted - 1;
    v.sigma = measure_sigma(m, predicted);
    v.weak = !(v.sigma <= 0.01);
    v.good = fabs(v.deviation) <= 0.05 + (v.weak ? 4 * v.sigma : 0);
    return v;
}

/* Adds a cell to the summary. Prints the cell if it is bad or if printing all cells is enabled. */
static inline void measure_enter(struct measure_summary *s, const char *cell,
                                 const struct measure *m, double predicted)
{
    struct measure_verdict v = measure_judge(m, predicted);
    s->cells++;
    s->weak += v.weak;
    s->bad += !v.good;
    s->probes += m->probes;
    s->chi += v.deviation * v.deviation / (v.sigma * v.sigma);
    if (!v.weak && fabs(v.deviation) > fabs(s->worst)) {
        s->worst = v.deviation;
        s->worst_sigma = v.sigma;
    }
    if (!v.good || measure_prints()) {
        printf("  %-44s predicted %.4e measured %.4e %+6.2f%% (sigma %4.2f%%, %6.0f "
               "filters, %.1e probes)%s%s\n",
               cell, predicted, v.rate, 100 * v.deviation, 100 * v.sigma, m->filters,
               m->probes, v.weak ? " weak" : "", v.good ? "" : " BAD");
    }
}

static inline void measure_close(const struct measure_summary *s, const char *what)
{
    printf("= %s: %u cells, %u of them weak, %u bad; %.2e probes; worst %+.2f%% (sigma "
           "%.2f%%); chi^2 / cells %.2f\n",
           what, s->cells, s->weak, s->bad, s->probes, 100 * s->worst,
           100 * s->worst_sigma, s->cells ? s->chi / s->cells : 0);
}

#endif

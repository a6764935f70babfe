/*
 * api/evenness.c - decides whether the parts of a filter are filled evenly. See evenness.h.
 *
 * The bits of a part are not independent: in most kinds, all bits of a key are next to each other,
 * so the shares vary more than those of independent bits. If the number of keys in a part is a
 * Poisson variable, and each key sets at most c bits, then a part of m bits deviates to a share v
 * with a probability of at most
 *
 *     exp(-m/c D(v, p)),  where D(v, p) = v ln(v/p) + (1-v) ln((1-v)/(1-p))
 *
 * and p is the mean share (Chernoff's bound for m/c independent bits). Chance explains a share if
 * the probability that any of the n parts deviates that far, in either direction, is above
 * EVENNESS_ALARM. The dashboard repeats the examination every 15 seconds, or 2 million times a year,
 * so an open page raises a false alarm at most once in 500 years.
 */
#include "api/evenness.h"

#include "bloomgate/inspect.h"

#include <math.h>

#define EVENNESS_ALARM 1e-9

/* A key that is added repeatedly to a cuckoo filter fills a bucket of 4 slots. */
enum { EVENNESS_STEPS = 60, EVENNESS_BUCKET = 4 };

double evenness_bits_per_key(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (bg_filter_sample_info(filter, 64, &info)) {
        return 0;
    }
    switch (info.kind) {
    case BG_KIND_CLASSIC:
    case BG_KIND_PARTITIONED:
    case BG_KIND_BLOCKED:
    case BG_KIND_SPLIT:
    case BG_KIND_REGISTER: return info.k;
    case BG_KIND_COUNTING: return info.k * (info.width ? info.width : 4.0);
    case BG_KIND_CUCKOO: return EVENNESS_BUCKET * info.k;
    default: return 0;
    }
}

static double evenness_term(double v, double p)
{
    return v > 0 ? v * log(v / p) : 0;
}

static double evenness_distance(double v, double p)
{
    return evenness_term(v, p) + evenness_term(1 - v, 1 - p);
}

/* Returns the share between `mean` and `end`, which is 0 or 1, with this distance from `mean`. */
static double evenness_bound(double mean, double end, double distance)
{
    double inside = mean, outside = end;
    if (evenness_distance(end, mean) <= distance) {
        return end;
    }
    for (int i = 0; i < EVENNESS_STEPS; i++) {
        const double middle = (inside + outside) / 2;
        if (evenness_distance(middle, mean) <= distance) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    return outside;
}

struct evenness evenness_of(const double *shares, size_t n, double part_bits,
                            double bits_per_key)
{
    struct evenness e = { .least = 1, .high = 1 };
    for (size_t i = 0; i < n; i++) {
        e.least = shares[i] < e.least ? shares[i] : e.least;
        e.most = shares[i] > e.most ? shares[i] : e.most;
        e.mean += shares[i] / (double)n;
    }
    if (bits_per_key > 0 && e.mean > 0 && e.mean < 1) {
        const double distance =
            log(2 * (double)n / EVENNESS_ALARM) * bits_per_key / part_bits;
        e.low = evenness_bound(e.mean, 0, distance);
        e.high = evenness_bound(e.mean, 1, distance);
    }
    for (size_t i = 0; i < n; i++) {
        e.uneven += shares[i] < e.low || shares[i] > e.high;
    }
    return e;
}

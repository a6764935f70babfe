/*
 * model.c - one rate model for all Bloom kinds.
 *
 * The family of models (struct bgi_model). Each of n keys selects one of U units. In that unit, the
 * key uses a of g lanes of b bits, and in each of these lanes draws r positions with replacement.
 *
 *                  units U   lanes g   active a   bits b   draws r
 *   classic           1         1         1        m          k
 *   partitioned       1         k         k        m/k        1
 *   blocked, k <= 8   lines     8         k        64         1
 *   blocked, k > 8    lines     16        k        32         1
 *   split             blocks    8         8        32         1
 *   register          words     64        k        1          1
 *
 * Why not the textbook formula (1 - e^(-kn/m))^k? Keys are not spread evenly over the units. The
 * number of keys in a unit has a binomial distribution, which is close to a Poisson distribution.
 * The rate is convex in this number, so the mean rate over all units is above the rate of an
 * average unit: by 15% in a blocked filter at 1%, and by 64% at 0.1% (Putze, Sanders, Singler,
 * "Cache-, hash- and space-efficient Bloom filters", 2007).
 *
 * The exact rate for many units. A false positive is an absent key whose bits, one in each of its
 * lanes, are all set. By inclusion-exclusion over the set S of the key's bits that are NOT set,
 *
 *     rate = sum over s = 0..a of  (-1)^s C(a, s) Q(s)^n
 *
 * where Q(s) is the probability that one key misses s given bits in s lanes of the unit. The key
 * either selects another unit, or uses u of these s lanes (u has a hypergeometric distribution) and
 * misses the given bit in each of them:
 *
 *     Q(s) = 1 - (1 - q(s)) / U,
 *     q(s) = sum over u of  C(a,u) C(g-a,s-u) / C(g,s)  (1 - 1/b)^u.
 *
 * This formula does not require a sum over the unit loads. (The lanes of a masked filter are
 * rotations of one pattern, not random subsets. With the patterns in blocked.c, the difference is
 * below 0.6%.)
 *
 * Precision. The terms alternate in sign, so the sum loses precision. The smaller the result
 * relative to the largest term, C(16,8) = 12870, the more digits are lost. Long doubles have at
 * least 18 digits on most machines, and 15 on some. If the result is too small for that precision
 * (below 1e-10), a sum over the unit loads is used instead. All terms of that sum are positive, but
 * it treats lanes as independent. Its result is accurate to an order of magnitude, and never above
 * 1e-10.
 *
 * The floor. The pattern inside a line is derived from 32 bits of the hash. An absent key that
 * shares both the line and these bits with an added key is a false positive, so items / units /
 * 2^32 is added to the rate.
 *
 * Clusters. In a register filter, if a position is already taken, its neighbor is used instead. So
 * a key's bits are not quite a random subset, and keys overlap slightly more. The excess was
 * measured for 39 combinations of parameters (k = 3 .. 9, a quarter to four times the design load,
 * 1e10 probes): 0.4, 1.0, 1.9 and 3.3% at rates of 1e-2, 1e-3, 1e-4 and 1e-5, independent of k. The
 * model multiplies the rate by 1 + 0.00081 (-log10 rate)^2.3.
 *
 * A single unit of many bits (classic, partitioned). The fill is almost always close to its mean.
 * The rate is the mean fill to the power k, times 1 + C(k,2) Var/fill^2, a correction that matters
 * below a few thousand bits (Bose et al., "On the false-positive rate of Bloom filters", 2008).
 */
#include "kind/model.h"

#include <math.h>

enum { MODEL_TAIL = 1000 };
static const double model_smallest_exact = 1e-10;
static const double model_cluster = 0.00081, model_cluster_power = 2.3;

static long double model_choose(unsigned n, unsigned k)
{
    long double c = 1;
    if (k > n) {
        return 0;
    }
    for (unsigned i = 0; i < k; i++) {
        c = c * (n - i) / (i + 1);
    }
    return c;
}

/* Returns the probability that none of n keys hits a given set of bits in a unit, if a key that
 * selects the unit misses these bits with probability q. */
static long double model_none(const struct bgi_model *m, long double q, double n)
{
    long double hit = (1 - q) / (long double)m->units;
    if (hit >= 1) {
        return n > 0 ? 0 : 1;
    }
    return expl((long double)n * log1pl(-hit));
}

/* Returns the probability that a key in the unit misses one given bit in each of s lanes. */
static long double model_miss_lanes(const struct bgi_model *m, unsigned s)
{
    unsigned idle = m->lanes - m->active;
    long double q = 0, miss = 1;
    for (unsigned u = 0; u <= m->active && u <= s; u++) {
        if (s - u <= idle) {
            q += model_choose(m->active, u) * model_choose(idle, s - u) * miss;
        }
        miss *= 1 - 1 / (long double)m->lane_bits;
    }
    return q / model_choose(m->lanes, s);
}

static double model_rate_lanes(const struct bgi_model *m, double n)
{
    long double rate = 0, sign = 1;
    for (unsigned s = 0; s <= m->active; s++) {
        rate += sign * model_choose(m->active, s)
                * model_none(m, model_miss_lanes(m, s), n);
        sign = -sign;
    }
    return (double)rate;
}

/* Returns the probability that a Poisson variable with mean `load` is i. (lgamma is not used
 * because it writes a global variable.) */
static double model_poisson(double load, unsigned i)
{
    double log_p = -load;
    for (unsigned j = 1; j <= i; j++) {
        log_p += log(load / j);
    }
    return exp(log_p);
}

/* Sums over the number of keys in a unit. All terms are positive. The sum starts at the most likely
 * number of keys and proceeds in both directions until the terms become negligible. Used only at
 * loads so low that the rates are tiny, and therefore only for few keys per unit. */
static double model_rate_loads(const struct bgi_model *m, double n)
{
    double load = n / m->units, k = m->active;
    double miss = log1p(-k / (m->lanes * m->lane_bits));
    unsigned start = load > 1 ? (unsigned)fmin(load, MODEL_TAIL) : 1;
    double likely = model_poisson(load, start), sum = 0, p = likely;
    for (unsigned i = start; i >= 1; p *= i / load, i--) {
        sum += p * pow(-expm1(i * miss), k);
    }
    p = likely;
    for (unsigned i = start + 1; i <= start + MODEL_TAIL; i++) {
        p *= load / i;
        double term = p * pow(-expm1(i * miss), k);
        sum += term;
        if (i > load + k && term < sum * 1e-12) {
            break;
        }
    }
    return sum;
}

/* For one unit of many bits, the rate is the mean fill to the power k, corrected for the variance
 * of the fill. */
static double model_rate_scattered(const struct bgi_model *m, double n)
{
    double k = m->active * (double)m->draws;
    double balls = n * m->draws / m->lane_bits;
    double fill = bgi_model_fill(m, n);
    double empty = 1 - fill;
    /* For small x, computing 1 - (1 + x) e^-x would suffer from cancellation, so a series expansion
     * is used. */
    double shared = balls < 1e-3 ? balls * balls * (0.5 - balls / 3)
                                 : 1 - (1 + balls) * exp(-balls);
    double variance = empty * shared / m->lane_bits;
    double pairs = m->draws * (m->draws - 1.0) / 2 * m->active;
    return pow(fill, k) * (1 + (fill > 0 ? pairs * variance / (fill * fill) : 0));
}

double bgi_model_rate(const struct bgi_model *m, double items)
{
    double rate;
    if (!(items > 0)) {
        return 0;
    }
    if (!(items / m->units < HUGE_VAL)) {
        return 1; /* no real filter, but a bg_filter_info may contain any numbers */
    }
    if (m->scattered) {
        rate = model_rate_scattered(m, items);
    } else {
        rate = model_rate_lanes(m, items);
        if (!(rate > model_smallest_exact)) {
            rate = fmin(model_rate_loads(m, items), model_smallest_exact);
        }
    }
    if (m->clustered && rate > 0 && rate < 1) {
        rate *= 1 + model_cluster * pow(-log10(rate), model_cluster_power);
    }
    if (m->patterns > 0) {
        rate += items / m->units / m->patterns;
    }
    return rate < 1 ? rate : 1;
}

/* Returns the probability that a key sets a given bit. Computing it as 1 minus the probability of a
 * miss would lose all digits in filters of 2^53 bits or more. */
static double model_hit_bit(const struct bgi_model *m)
{
    double used = m->active / (double)m->lanes;
    return used * -expm1(m->draws * log1p(-1 / m->lane_bits)) / m->units;
}

double bgi_model_fill(const struct bgi_model *m, double items)
{
    double hit = model_hit_bit(m);
    return hit < 1 ? -expm1(items * log1p(-hit)) : 1;
}

double bgi_model_items(const struct bgi_model *m, double fill)
{
    double hit = model_hit_bit(m);
    return hit < 1 ? log1p(-fill) / log1p(-hit) : 1;
}

/*
 * The error of the estimate. Let Z be the number of bits that are not set, and p the probability
 * that a given bit is not set. For n keys
 *
 *   Var Z = sum over pairs of bits (P(neither set) - p^2)
 *
 * and an error of dZ in Z corresponds to dZ / |dE[Z]/dn| in items. One key sets a given bit
 * with probability a, and both of two given bits with probability h, so that
 *
 *   P(neither set) - p^2 = (1 - 2a + h)^n - (1 - a)^2n
 *                        = p^2 ((1 + (h - a^2) / (1 - a)^2)^n - 1).
 *
 * h has different values for two bits in one lane and for two bits in two lanes of one unit; for
 * two bits in two units, it is 0.
 *
 * The terms cancel up to the second order in n a, which is the fill. Long doubles and expm1
 * handle this down to a fill of 1e-4. Below that fill, only the second-order term matters: n^2/2
 * times the sum of h^2 over pairs of bits, including each bit with itself (h = a).
 */
static long double model_covariance(long double a, long double h, double n)
{
    long double x = (h - a * a) / ((1 - a) * (1 - a));
    return expm1l((long double)n * log1pl(x));
}

double bgi_model_items_error(const struct bgi_model *m, double items)
{
    long double g = m->lanes, b = (long double)m->lane_bits, u = (long double)m->units;
    long double used = m->active / g;
    long double both_used = g > 1 ? used * (m->active - 1) / (g - 1) : 0;
    /* The probabilities that a key hits one given bit of an active lane, and both of two given
     * bits. */
    long double one = b > 1 ? -expm1l(m->draws * log1pl(-1 / b)) : 1;
    long double two = b > 2 ? 2 * one + expm1l(m->draws * log1pl(-2 / b)) : 0;
    long double a = used * one / u;
    if (a >= 1) {
        return 0; /* a single key sets every bit */
    }
    long double in_lane = used * two / u, in_unit = both_used * one * one / u;
    long double n = (long double)items, log_empty = n * log1pl(-a);
    long double empty = expl(log_empty), variance;
    if (n * a < 1e-4L) {
        long double squares = a * a + (b - 1) * in_lane * in_lane;
        variance = n * n / 2 * (squares + (g - 1) * b * in_unit * in_unit);
    } else {
        long double pairs = (b - 1) * model_covariance(a, in_lane, items);
        pairs += (g - 1) * b * model_covariance(a, in_unit, items);
        pairs += (u - 1) * g * b * model_covariance(a, 0, items);
        variance = -empty * expm1l(log_empty) + empty * empty * pairs;
    }
    long double bits = u * g * b, slope = bits * empty * a;
    long double error =
        slope > 0 ? sqrtl(fmaxl(variance, 0) * bits) / slope : HUGE_VALL;
    return (double)error;
}

void bgi_model_measure(const struct bgi_model *m, struct bgi_measure *measure)
{
    double of = (double)measure->of;
    bool full = measure->ones >= measure->of;
    double fill = full ? 1 - 0.5 / of : (double)measure->ones / of;
    measure->items = bgi_model_items(m, fill);
    measure->error = measure->ones ? bgi_model_items_error(m, measure->items) : 0;
    if (measure->missed > 0) {
        const double more = fmin(fill + measure->missed / of, 1 - 0.5 / of);
        measure->error =
            hypot(measure->error, bgi_model_items(m, more) - measure->items);
    }
    measure->rate = full ? 1 : bgi_model_rate(m, measure->items);
}

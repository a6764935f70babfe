/* bucket.c - see bucket.h. */
#include "gate/bucket.h"

#include "base/checked.h"

#include <math.h>

#define BUCKET_SECOND 1e9
#define BUCKET_MAX    (UINT64_C(1) << 62) /* nanoseconds: 146 years */
#define BUCKET_LATEST (UINT64_C(1) << 63) /* later times are clamped to this value */

/* Converts x to a whole number in 1 .. BUCKET_MAX. */
static uint64_t bucket_whole(double x)
{
    return x < 1 ? 1 : x > (double)BUCKET_MAX ? BUCKET_MAX : (uint64_t)x;
}

bool bucket_rate_make(struct bucket_rate *rate, double per_second, double burst)
{
    *rate = (struct bucket_rate){ .interval = 0 };
    if (!(per_second >= 0 && isfinite(per_second) && burst >= 0 && isfinite(burst))) {
        return false;
    }
    if (per_second > 0 && per_second <= BUCKET_SECOND) {
        uint64_t tokens = bucket_whole(burst > 0 ? burst : per_second);
        rate->interval = bucket_whole(BUCKET_SECOND / per_second + 0.5);
        if (!bgi_mul_u64(tokens, rate->interval, &rate->depth)
            || rate->depth > BUCKET_MAX) {
            rate->depth = BUCKET_MAX;
        }
    }
    return true;
}

/* Returns the time at which the bucket will be full, adjusted to `now`. The result is not in the
 * past. It is at most `depth` ahead of `now`, unless the excess is within the slack. */
static uint64_t bucket_base(const struct bucket_rate *rate, uint64_t now, uint64_t full)
{
    if (full <= now) {
        return now;
    }
    uint64_t ahead = full - now;
    return ahead > rate->depth && ahead - rate->depth > BUCKET_SLACK ? now + rate->depth
                                                                     : full;
}

uint64_t bucket_take(struct bucket *bucket, const struct bucket_rate *rate,
                     uint64_t now, uint64_t n)
{
    if (rate->interval == 0) {
        return n;
    }
    now = now < BUCKET_LATEST ? now : BUCKET_LATEST;
    uint64_t full = atomic_load_explicit(&bucket->full, memory_order_relaxed);
    for (;;) {
        uint64_t base = bucket_base(rate, now, full), ahead = base - now;
        uint64_t left =
            ahead < rate->depth ? (rate->depth - ahead) / rate->interval : 0;
        uint64_t taken = left < n ? left : n, next = base + taken * rate->interval;
        if (next == full
            || atomic_compare_exchange_weak_explicit(&bucket->full, &full, next,
                                                     memory_order_relaxed,
                                                     memory_order_relaxed)) {
            return taken;
        }
    }
}

/*
 * bucket.h - a rate limiter: a token bucket in one atomic word.
 *
 * Idea (the generic cell rate algorithm from ATM networks, ITU-T I.371). Instead of counting tokens
 * and adding new tokens as time passes, the bucket stores only `full`, the time at which it will be
 * full again. Taking n tokens moves `full` forward by n intervals. The bucket is empty when `full`
 * is `depth` = burst x interval ahead of now:
 *
 *     now              full       now + depth
 *     |================|..........|              = taken    . left
 *
 * One compare-and-swap takes any number of tokens, and no background work is needed.
 *
 * Invariants, where t is the latest time that any caller has passed:
 *   (B1) full <= t + depth, so the bucket's debt never exceeds its capacity.
 *   (B2) If the clock does not go backward between two times a < b, at most burst + (b - a) /
 *        interval tokens are taken between them. Each token moves `full` forward by one interval,
 *        starting from a or later, and `full` stays below b + depth.
 *
 * Clocks. A thread may pass a time that is slightly older than the time passed by another thread.
 * Then `full` may be more than `depth` ahead of the older time, and no tokens are available until
 * the clock catches up. If the clock goes backward by more than BUCKET_SLACK, the new time is
 * trusted: `full` is set to now + depth, so the bucket is empty and starts to refill. So a backward
 * jump yields no tokens and does not block the bucket for longer than the slack. A forward jump
 * yields at most a full bucket.
 */
#ifndef BGI_BUCKET_H
#define BGI_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Tolerance in nanoseconds for time differences between threads and for clock adjustments. */
#define BUCKET_SLACK UINT64_C(1000000000)

/* A rate and a depth, which any number of buckets can share. */
struct bucket_rate {
    uint64_t interval; /* nanoseconds per token, at least 1; 0 means no limit */
    uint64_t depth;    /* nanoseconds to refill an empty bucket: burst x interval */
};

struct bucket {
    _Atomic uint64_t full; /* when the bucket will be full; 0 means that it is full */
};

/* Sets a rate. A `per_second` of 0 means no limit. A `burst` of 0 selects one second's worth of
 * tokens, but at least 1. Intervals are whole nanoseconds, so rates up to a million per second are
 * accurate to about 0.1%, higher rates are less accurate, and rates above 1e9 per second mean no
 * limit. Returns false if a number is negative or not finite. */
bool bucket_rate_make(struct bucket_rate *rate, double per_second, double burst);

/* Takes up to n tokens and returns the number of tokens taken. Lock-free. */
uint64_t bucket_take(struct bucket *bucket, const struct bucket_rate *rate,
                     uint64_t now, uint64_t n);

#endif

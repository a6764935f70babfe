/*
 * bucket.h - a rate limit: a token bucket in one atomic word.
 *
 * Idea (the generic cell rate algorithm of ATM networks, ITU-T I.371). Instead of counting
 * tokens and adding some as time passes, the bucket stores one time: when it will be full
 * again, `full`. Taking n tokens moves it n intervals into the future. The bucket is empty when
 * `full` is `depth` = burst x interval ahead of now:
 *
 *     now              full       now + depth
 *     |================|..........|              = taken    . left
 *
 * One compare-and-swap takes any number of tokens, and no work is needed in between.
 *
 * Invariants, where t is the latest time passed by any caller
 *   (B1) full <= t + depth, so the bucket never owes more than it holds.
 *   (B2) Between two times a < b of a clock that does not go back, at most burst + (b - a) /
 *        interval tokens are taken. Each token moves `full` forward by one interval, starting
 *        from a or later, and `full` stays below b + depth.
 *
 * Clocks. Threads may pass times that are slightly older than those of other threads. Then
 * `full` may be more than `depth` ahead, and no tokens are available until the clock catches
 * up. A clock that went back by more than BUCKET_SLACK is trusted: `full` is set to now +
 * depth, and the bucket is empty and fills from there. So going back yields no tokens, and does
 * not stop the bucket for longer than the slack. Going forward yields at most a full bucket.
 */
#ifndef BGI_BUCKET_H
#define BGI_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds by which the times of different threads, or of a clock that is being adjusted,
 * may differ. */
#define BUCKET_SLACK UINT64_C(1000000000)

/* Rate and depth, for any number of buckets. */
struct bucket_rate {
    uint64_t interval; /* nanoseconds per token, 1 or more; 0: no limit */
    uint64_t depth;    /* nanoseconds that a full bucket lasts: burst x interval */
};

struct bucket {
    _Atomic uint64_t full; /* when it will be full; 0: it is full */
};

/* Sets a rate. `per_second` 0: no limit. `burst` 0: the tokens of one second, but at least 1.
 * Intervals are whole nanoseconds, so rates above a million are accurate to about 0.1%, and
 * rates above 1e9 are no limit. Returns false if a number is negative or not finite. */
bool bucket_rate_make(struct bucket_rate *rate, double per_second, double burst);

/* Takes up to n tokens; returns how many were available. Lock-free. */
uint64_t bucket_take(struct bucket *bucket, const struct bucket_rate *rate,
                     uint64_t now, uint64_t n);

#endif

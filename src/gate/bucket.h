/*
 * bucket.h - so many per second, and no more: a token bucket in one atomic word.
 *
 * The idea (the generic cell rate algorithm of ATM networks, ITU-T I.371). Instead of
 * counting tokens, and adding some whenever time has passed, one time is kept: when the
 * bucket will be full again, `full`. Taking n tokens moves it n intervals into the future.
 * The bucket is empty when it is `depth` = burst x interval ahead of now:
 *
 *     now              full       now + depth
 *     |================|..........|              = taken    . left
 *
 * One compare-and-swap takes any number of tokens, and nothing has to be done in between.
 *
 * Invariants, t being the latest time that anybody brought
 *   (B1) full <= t + depth, so the bucket never owes more than it holds.
 *   (B2) Between two times a < b of a clock that does not go back, at most
 *        burst + (b - a) / interval tokens are taken. Each moves `full` by one interval
 *        from at least a on, and it stays below b + depth.
 *
 * Clocks. Threads may bring times that are a little older than what another one brought: then
 * `full` may be further ahead than `depth`, and nothing is given until the clock has passed
 * again what it showed. A clock that went back by more than BUCKET_SLACK is believed: `full`
 * is put to now + depth, the bucket is empty, and fills from there. So going back gives no
 * tokens, and does not stop the bucket for longer than the slack. Going forward gives at
 * most a full bucket.
 */
#ifndef BGI_BUCKET_H
#define BGI_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds that times of different threads, or of a clock that is being adjusted, may
 * differ. */
#define BUCKET_SLACK UINT64_C(1000000000)

/* How fast and how deep; for any number of buckets. */
struct bucket_rate {
    uint64_t interval; /* nanoseconds of one token, 1 or more; 0: no limit at all */
    uint64_t depth;    /* nanoseconds that a full bucket lasts: burst x interval */
};

struct bucket {
    _Atomic uint64_t full; /* when it will be; 0: it is */
};

/* `per_second` 0: no limit. `burst` 0: those of one second, but at least 1. Intervals are
 * whole nanoseconds, so rates above a million are kept within 0.1 % or so, and those above
 * 1e9 are no limit. False when a number is negative or no number. */
bool bucket_rate_make(struct bucket_rate *rate, double per_second, double burst);

/* Takes as many of n tokens as there are; returns how many. Lock-free. */
uint64_t bucket_take(struct bucket *bucket, const struct bucket_rate *rate,
                     uint64_t now, uint64_t n);

#endif

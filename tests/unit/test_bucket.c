/*
 * A token bucket never grants more than the rate and the burst allow, no matter how the clock
 * moves, and several threads can share a bucket.
 */
#include "support/check.h"

#include "gate/bucket.h"

#include <math.h>
#include <pthread.h>

#define SECOND UINT64_C(1000000000)

static struct bucket_rate rate_of(double per_second, double burst)
{
    struct bucket_rate rate;
    CHECK(bucket_rate_make(&rate, per_second, burst));
    return rate;
}

TEST(bucket__rates)
{
    struct bucket_rate rate = rate_of(5000, 0);
    CHECK_EQ(rate.interval, 200000);
    CHECK_EQ(rate.depth, SECOND);
    rate = rate_of(0.5, 0); /* the depth is at least one token */
    CHECK_EQ(rate.interval, 2 * SECOND);
    CHECK_EQ(rate.depth, 2 * SECOND);
    rate = rate_of(10, 3.9);
    CHECK_EQ(rate.depth, 3 * SECOND / 10);
    rate = rate_of(1e-300, 1e300); /* extreme, but valid */
    CHECK(rate.interval > 0 && rate.depth >= rate.interval);
    CHECK_EQ(rate_of(0, 5).interval, 0);
    CHECK_EQ(rate_of(2e9, 0).interval, 0);
    CHECK(!bucket_rate_make(&rate, -1, 0));
    CHECK(!bucket_rate_make(&rate, (double)NAN, 0));
    CHECK(!bucket_rate_make(&rate, (double)INFINITY, 0));
    CHECK(!bucket_rate_make(&rate, 1, -1));
    CHECK(!bucket_rate_make(&rate, 1, (double)NAN));
}

TEST(bucket__no_limit)
{
    struct bucket_rate rate = rate_of(0, 0);
    struct bucket bucket = { 0 };
    CHECK_EQ(bucket_take(&bucket, &rate, 7, UINT64_MAX), UINT64_MAX);
    CHECK_EQ(bucket_take(&bucket, &rate, 7, 3), 3);
}

TEST(bucket__burst_then_rate)
{
    struct bucket_rate rate = rate_of(10, 5);
    struct bucket bucket = { 0 };
    uint64_t now = 100 * SECOND;
    CHECK_EQ(bucket_take(&bucket, &rate, now, 2), 2);
    /* Grants only as many tokens as are available. */
    CHECK_EQ(bucket_take(&bucket, &rate, now, 9), 3);
    CHECK_EQ(bucket_take(&bucket, &rate, now, 1), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND / 10 - 1, 1), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND / 10, 1), 1);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND / 10, 1), 0);
    now += 1000 * SECOND; /* the bucket does not accumulate more than the burst */
    CHECK_EQ(bucket_take(&bucket, &rate, now, 100), 5);
    CHECK_EQ(bucket_take(&bucket, &rate, now, 0), 0);
}

/* The clock advances by arbitrary steps, but the number of tokens taken between any two points in
 * time is bounded (invariant B2 in bucket.h). */
TEST(bucket__never_more_than_promised)
{
    for (int round = 0; round < 200; round++) {
        double per_second = 1 + (double)check_random_below(100000);
        double burst = 1 + (double)check_random_below(1000);
        struct bucket_rate rate = rate_of(per_second, burst);
        struct bucket bucket = { 0 };
        uint64_t start = check_random_below(1000 * SECOND), now = start, all = 0;
        for (int step = 0; step < 300; step++) {
            now += check_random_below(check_random_below(2) ? 1000 : SECOND / 50);
            all += bucket_take(&bucket, &rate, now, check_random_below(20));
            uint64_t most = (uint64_t)burst + (now - start) / rate.interval;
            CHECK(all <= most);
        }
    }
}

/* A caller that requests one token at a time gets the full rate. */
TEST(bucket__no_less_than_promised)
{
    struct bucket_rate rate = rate_of(1000, 10);
    struct bucket bucket = { 0 };
    uint64_t all = 0;
    for (uint64_t now = 0; now <= 10 * SECOND; now += SECOND / 5000) {
        all += bucket_take(&bucket, &rate, now, 1);
    }
    CHECK_EQ(all, 10 + 10 * 1000);
}

TEST(bucket__clock_goes_back)
{
    struct bucket_rate rate = rate_of(10, 10);
    struct bucket bucket = { 0 };
    uint64_t now = 1000 * SECOND;
    CHECK_EQ(bucket_take(&bucket, &rate, now, 100), 10);
    /* After the clock has moved back a little, the bucket grants no tokens until the clock has
     * caught up and a token has accrued. */
    CHECK_EQ(bucket_take(&bucket, &rate, now - SECOND / 2, 1), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, now, 1), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND / 10, 5), 1);
    /* If the clock moves back far, the bucket grants no tokens for this, and continues from the new
     * time. */
    now = 5 * SECOND;
    CHECK_EQ(bucket_take(&bucket, &rate, now, 5), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND / 10, 5), 1);
    CHECK_EQ(bucket_take(&bucket, &rate, now + SECOND, 100), 9);
    /* If the clock moves back and forth in small steps, the bucket grants no more tokens than it
     * would for the forward steps alone. */
    uint64_t all = 0, top = now + SECOND;
    for (int i = 0; i < 10000; i++) {
        uint64_t at = top + (uint64_t)i * SECOND / 10000;
        all += bucket_take(&bucket, &rate, at - check_random_below(SECOND), 1);
    }
    CHECK(all <= 10);
}

TEST(bucket__clock_jumps_ahead)
{
    struct bucket_rate rate = rate_of(10, 10);
    struct bucket bucket = { 0 };
    CHECK_EQ(bucket_take(&bucket, &rate, SECOND, 100), 10);
    CHECK_EQ(bucket_take(&bucket, &rate, UINT64_MAX, 100), 10); /* one full bucket */
    CHECK_EQ(bucket_take(&bucket, &rate, UINT64_MAX, 100), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, 2 * SECOND, 100), 0);
    CHECK_EQ(bucket_take(&bucket, &rate, 3 * SECOND, 100), 10);
}

/* ---- Threads ------------------------------------------------------------------------ */

enum { TAKERS = 4 };

struct shared {
    struct bucket bucket;
    struct bucket_rate rate;
    uint64_t taken, tries;
};

static void *take_all(void *arg)
{
    struct shared *s = arg;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < s->tries; i++) {
        taken += bucket_take(&s->bucket, &s->rate, SECOND + i, 1 + i % 3);
    }
    __atomic_fetch_add(&s->taken, taken, __ATOMIC_RELAXED);
    return NULL;
}

TEST(bucket__threads_share_what_there_is)
{
    struct shared s = { .rate = rate_of(1e6, 5000),
                        .tries = CHECK_EMULATED || CHECK_SANITIZED ? 5000 : 50000 };
    pthread_t threads[TAKERS];
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, take_all, &s), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK(s.taken >= 5000);
    CHECK(s.taken <= 5000 + s.tries / s.rate.interval);
}

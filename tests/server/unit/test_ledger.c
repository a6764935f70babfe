/*
 * Tests the ledger, which counts the service's memory: which reservations are counted or refused,
 * which thread a refusal is reported to, and whether all threads together stay within the limit.
 */
#include "ledger.h"

#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MI = 1 << 20 };

TEST(ledger__counts_without_a_limit)
{
    ledger_limit(0);
    CHECK(ledger_reserve(LEDGER_FILTERS, UINT64_C(1) << 50));
    ledger_add(LEDGER_OBJECTS, 7);
    CHECK_EQ(ledger_used_by(LEDGER_FILTERS), UINT64_C(1) << 50);
    CHECK_EQ(ledger_used(), (UINT64_C(1) << 50) + 7);
    CHECK(!ledger_is_full());
    ledger_release(LEDGER_FILTERS, UINT64_C(1) << 50);
    ledger_release(LEDGER_OBJECTS, 7);
    CHECK_EQ(ledger_used(), 0);
}

TEST(ledger__keeps_the_peak)
{
    for (uint64_t limit = 0; limit < 2; limit++) {
        const uint64_t more = (UINT64_C(2) + limit) << 50;
        ledger_limit(limit << 60);
        CHECK(ledger_reserve(LEDGER_FILTERS, more));
        ledger_release(LEDGER_FILTERS, more);
        CHECK_EQ(ledger_used(), 0);
        CHECK_EQ(ledger_peak(), more);
        CHECK(ledger_reserve_small(100)); /* far below the peak */
        CHECK_EQ(ledger_peak(), more);
        ledger_release(LEDGER_BUFFERS, 100);
    }
}

TEST(ledger__refuses_beyond_the_limit)
{
    char why[LEDGER_WHY];
    ledger_limit(16 * MI);
    CHECK(!ledger_refusal(why));
    /* 1/16 of the limit is reserved for buffers */
    CHECK(ledger_reserve(LEDGER_FILTERS, 15 * MI));
    CHECK(!ledger_is_full());
    CHECK(!ledger_reserve(LEDGER_TRANSFERS, 1));
    CHECK(ledger_refusal(why));
    CHECK_STR(why, "cannot allocate 1 bytes (maxmemory: 16777216, in use: 15728640)");
    CHECK(!ledger_refusal(why)); /* reported once */
    CHECK(!ledger_reserve(LEDGER_FILTERS, UINT64_MAX));
    ledger_forget();
    CHECK(!ledger_refusal(why));
    CHECK(ledger_reserve(LEDGER_BUFFERS, MI));
    CHECK(!ledger_reserve(LEDGER_BUFFERS, 1));
    CHECK_EQ(ledger_used(), 16 * MI);
    CHECK(!ledger_is_full()); /* buffers use the memory reserved for them */
    /* While a thread is exempt, its reservations are counted but not refused. */
    CHECK(!ledger_exempt(true));
    CHECK(ledger_reserve(LEDGER_FILTERS, 100 * MI));
    CHECK(ledger_exempt(false));
    ledger_release(LEDGER_FILTERS, 115 * MI);
    /* Buffers can use at most half of the limit. */
    CHECK(!ledger_reserve(LEDGER_BUFFERS, 8 * MI));
    CHECK(ledger_reserve(LEDGER_BUFFERS, 7 * MI));
    CHECK(!ledger_reserve(LEDGER_BUFFERS, 1));
    ledger_release(LEDGER_BUFFERS, 8 * MI);
    CHECK_EQ(ledger_used(), 0);
    ledger_limit(0);
}

TEST(ledger__small_buffers_have_a_limit_of_their_own)
{
    char why[LEDGER_WHY];
    ledger_limit(16 * MI);
    CHECK(ledger_reserve(LEDGER_FILTERS, 15 * MI));
    CHECK(ledger_reserve_small(2 * MI));
    CHECK(!ledger_reserve(LEDGER_BUFFERS, 1));
    ledger_forget();
    CHECK(!ledger_reserve_small(1));
    CHECK(ledger_refusal(why));
    CHECK_EQ(ledger_used(), 17 * MI);
    CHECK(ledger_is_full());
    ledger_release(LEDGER_BUFFERS, MI);
    CHECK(!ledger_is_full());
    ledger_release(LEDGER_BUFFERS, MI);
    ledger_limit(8 * MI); /* less than the filters already use */
    CHECK(ledger_reserve_small(MI));
    CHECK(!ledger_reserve_small(1));
    ledger_release(LEDGER_BUFFERS, MI);
    ledger_release(LEDGER_FILTERS, 15 * MI);
    ledger_limit(0);
    CHECK(ledger_reserve_small(UINT64_C(1) << 50));
    ledger_release(LEDGER_BUFFERS, UINT64_C(1) << 50);
    CHECK_EQ(ledger_used(), 0);
}

static bool budget_refuses(struct ledger_budget *budget, uint64_t bytes,
                           char why[LEDGER_WHY])
{
    (void)budget;
    (void)snprintf(why, LEDGER_WHY, "the budget has no %llu bytes",
                   (unsigned long long)bytes);
    return false;
}

TEST(ledger__describes_the_last_refusal)
{
    char why[LEDGER_WHY];
    struct ledger_budget budget = { .take = budget_refuses };
    ledger_limit(16 * MI);
    CHECK(ledger_reserve(LEDGER_FILTERS, 15 * MI));
    CHECK(ledger_set_budget(&budget) == NULL);
    CHECK(!ledger_reserve(LEDGER_TRANSFERS, 7));
    CHECK(ledger_set_budget(NULL) == &budget);
    /* the refusal concerns another client, whose budget must not be described */
    CHECK(!ledger_reserve(LEDGER_BUFFERS, 2 * MI));
    CHECK(ledger_refusal(why));
    CHECK_STR(why,
              "cannot allocate 2097152 bytes (maxmemory: 16777216, in use: 15728640)");
    CHECK(!ledger_refusal(why));
    (void)ledger_set_budget(&budget);
    CHECK(!ledger_reserve(LEDGER_TRANSFERS, 7));
    (void)ledger_set_budget(NULL);
    CHECK(ledger_refusal(why));
    CHECK_STR(why, "the budget has no 7 bytes");
    ledger_release(LEDGER_FILTERS, 15 * MI);
    ledger_limit(0);
}

static _Atomic uint64_t most;

static void *reserver(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        if (ledger_reserve(LEDGER_FILTERS, MI)) {
            const uint64_t now = atomic_fetch_add(&most, 1) + 1;
            CHECK(now <= 4);
            atomic_fetch_sub(&most, 1);
            ledger_release(LEDGER_FILTERS, MI);
        }
    }
    return NULL;
}

TEST(ledger__threads_share_one_limit)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    ledger_limit(5 * MI);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, reserver, NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(ledger_used(), 0);
    ledger_limit(0);
}

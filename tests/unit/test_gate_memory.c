/*
 * The state that a gate keeps between lookups: the breaker, the negative cache, and queries
 * in flight. The test uses its own clock.
 */
#include "support/gate_world.h"

#include "gate/breaker.h"
#include "gate/flight.h"
#include "gate/recent.h"

#include <math.h>
#include <stdio.h>

/* ---- The breaker ------------------------------------------------------------------- */

TEST(gate__breaker_opens_rests_tries_and_closes)
{
    struct world *w = world_make(0.05);
    w->how.breaker_failures = 3;
    w->how.breaker_rest = 1000;
    world_open(w);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    /* One success resets the count of consecutive failures. */
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    w->fails = BG_STORE_ERROR;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(stats_of(w->gate, false).breaker, 0);
        CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 0);
        CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    }
    CHECK_EQ(stats_of(w->gate, false).breaker, 1);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 1);
    CHECK_EQ(w->alarm.count, 1);
    CHECK_EQ(w->asks, 6);
    /* The breaker still blocks queries to the store, but the filter's "no" answers are not
     * affected. */
    w->now += 999;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 6);
    CHECK_EQ(stats_of(w->gate, false).spared_by_breaker, 1);
    w->now += 1; /* one lookup is now allowed to query the store, but the query fails */
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->asks, 7);
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->asks, 7);
    w->now += 1000;
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_CLOSED], 1);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 1);
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.breaker, 0);
    CHECK_EQ(s.breaker_opened, 1);
    CHECK_EQ(s.spared_by_breaker, 2);
    CHECK_EQ(s.store_calls, 9);
    world_end(w);
}

TEST(gate__gates_can_share_a_breaker)
{
    struct world *w = world_make(0.05);
    bg_gate *other;
    const uint64_t key = 1;
    w->how.breaker_failures = 3;
    w->how.breaker_rest = 1000;
    world_open(w);
    bg_gate_options how = w->how;
    how.context = w;
    how.breaker_failures = 0; /* ignored */
    how.breaker_of = w->gate;
    CHECK_OK(bg_gate_create(bg_gate_slot(w->gate), &how, &other, NULL));
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, key), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(look(w, key), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_lookup(other, &key, sizeof key, NULL), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 1);
    CHECK_EQ(stats_of(w->gate, false).breaker, 1);
    CHECK_EQ(stats_of(other, false).breaker, 1);
    const uint64_t asks = w->asks;
    CHECK_EQ(look(w, key), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->asks, asks);
    w->fails = BG_STORE_ABSENT;
    w->now += 1000;
    CHECK_EQ(bg_gate_lookup(other, &key, sizeof key, NULL), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    bg_gate_free(other);
    world_end(w);
}

static void look_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    CHECK_EQ(stats_of(w->gate, false).breaker, 2);
    const uint64_t asks = w->asks;
    CHECK_EQ(look(w, key), BG_OUTCOME_UNKNOWN); /* one at a time */
    CHECK_EQ(w->asks, asks);
}

TEST(gate__breaker_lets_one_try_at_a_time)
{
    struct world *w = world_make(0.05);
    w->how.breaker_failures = 1;
    w->how.breaker_rest = 1000;
    world_open(w);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    w->now += 1000;
    w->fails = BG_STORE_ABSENT;
    w->inside = look_inside;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK(w->inside == NULL);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    world_end(w);
}

TEST(gate__breaker_survives_a_clock_that_jumps)
{
    struct world *w = world_make(0.05);
    w->how.breaker_failures = 1;
    w->how.breaker_rest = 1000;
    w->now = 1000000;
    world_open(w);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    w->now = 5; /* the clock moves backward: an early attempt is better than none */
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    w->now = UINT64_MAX;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->asks, 4);
    w->now = 999; /* wrapped around: 1000 later */
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    world_end(w);
}

TEST(breaker__what_is_late_changes_nothing)
{
    struct bgi_breaker b;
    uint64_t first, second, none;
    bgi_breaker_init(&b, 2, 100);
    CHECK_EQ(bgi_breaker_failed(&b, 0, 10), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_failed(&b, 0, 20), BGI_BREAKER_OPENS);
    CHECK_EQ(bgi_breaker_failed(&b, 0, 30), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_worked(&b, 0), BGI_BREAKER_STAYS); /* an older query */
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_OPEN);
    CHECK(!bgi_breaker_allows(&b, 119, &none));
    CHECK(bgi_breaker_allows(&b, 120, &first));
    CHECK(first != 0);
    /* The earlier attempt is still in flight. */
    CHECK(!bgi_breaker_allows(&b, 219, &none));
    CHECK(bgi_breaker_allows(&b, 220, &second)); /* and now abandoned */
    CHECK(second != first);
    CHECK_EQ(bgi_breaker_worked(&b, first), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_failed(&b, first, 230), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_TRYING);
    CHECK_EQ(bgi_breaker_failed(&b, second, 240), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_OPEN);
    CHECK(!bgi_breaker_allows(&b, 339, &none)); /* it pauses again */
    CHECK(bgi_breaker_allows(&b, 340, &second));
    CHECK_EQ(bgi_breaker_worked(&b, second), BGI_BREAKER_CLOSES);
    CHECK_EQ(bgi_breaker_failed(&b, 0, 350), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_failed(&b, 0, 350), BGI_BREAKER_OPENS);
    CHECK_EQ(atomic_load(&b.opened), 2);
}

TEST(breaker__without_a_number_never_opens)
{
    struct bgi_breaker b;
    bgi_breaker_init(&b, 0, 100);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(bgi_breaker_failed(&b, 0, 10), BGI_BREAKER_STAYS);
    }
    CHECK(bgi_breaker_is_closed(&b));
}

/* ---- The negative cache ------------------------------------------------------------- */

TEST(gate__remembers_for_a_while_what_is_absent)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    w->how.negative_ttl = 1000;
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_CACHE);
    CHECK(!bg_gate_may_contain(w->gate, &unlucky, sizeof unlucky));
    w->now += 999;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_CACHE);
    CHECK_EQ(stats_of(w->gate, false).negative_entries, 1);
    w->now += 1;
    CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
    CHECK(bg_gate_may_contain(w->gate, &unlucky, sizeof unlucky));
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT); /* present keys are not cached */
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->asks, 4);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.negative_hits, 2);
    CHECK_EQ(s.negative_entries, 1);
    CHECK_EQ(s.wasted, 2);
    world_end(w);
}

TEST(gate__remembers_from_the_question_on)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    w->how.negative_ttl = 1000;
    w->step = 600; /* age of the answer when it arrives */
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    w->now += 399;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_CACHE);
    w->now += 1;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    w->step = 1000;
    w->now += 1000;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE); /* too old to be cached */
    world_end(w);
}

TEST(gate__a_failing_truth_is_not_remembered)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
    world_end(w);
}

TEST(gate__a_clock_that_jumps_prolongs_no_absence)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    w->how.negative_ttl = 1000;
    w->now = 1000000;
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    /* The cached answer is now from the future, so its age is unknown. */
    w->now = 999999;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_CACHE);
    w->now = UINT64_MAX;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    w->now = 0;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_CACHE);
    CHECK_EQ(w->asks, 4);
    world_end(w);
}

TEST(gate__a_write_forgets_the_absence)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    const uint64_t a = absent_key(w, PRESENT, true), b = absent_key(w, a + 1, true);
    CHECK_EQ(look(w, a), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, b), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, b), BG_OUTCOME_ABSENT_BY_CACHE);
    CHECK_OK(put(w, a));
    w->has[b] = true;
    CHECK_OK(bg_gate_add(w->gate, &b, sizeof b));
    CHECK_EQ(look(w, a), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, b), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).writes, 2);
    CHECK_EQ(stats_of(w->gate, false).write_errors, 0);
    world_end(w);
}

TEST(gate__a_failed_write_forgets_as_well)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    const uint64_t a = absent_key(w, PRESENT, true), b = absent_key(w, PRESENT, false);
    CHECK_EQ(look(w, a), BG_OUTCOME_ABSENT_BY_STORE);
    w->write_fails = BG_EIO;
    CHECK_EQ(put(w, a), BG_EIO);
    w->has[a] = true; /* the failed write did reach the store */
    CHECK_EQ(look(w, a), BG_OUTCOME_PRESENT);
    CHECK_EQ(put(w, b), BG_EIO);
    CHECK(!maybe(w, b)); /* the filter is unchanged */
    CHECK_EQ(stats_of(w->gate, false).write_errors, 2);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    world_end(w);
}

static void write_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    CHECK_OK(put(w, key));
}

/* The store answers "absent", and the key is written before the answer is delivered (in
 * practice, by another thread). The outdated answer must not be cached. */
TEST(gate__an_answer_that_a_write_has_overtaken_is_not_remembered)
{
    for (uint32_t flight = 0; flight < 2; flight++) {
        struct world *w = world_make(0.05);
        w->how.negative_entries = 100;
        w->how.flags = flight ? BG_GATE_SINGLE_FLIGHT : 0;
        world_open(w);
        const uint64_t key = absent_key(w, PRESENT, true);
        w->inside = write_inside;
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK(w->has[key]);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        CHECK_EQ(w->asks, 2);
        world_end(w);
    }
}

TEST(gate__a_ticket_that_a_write_has_overtaken_is_not_remembered)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, true);
    bg_ticket ticket = { 0 };
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, NULL),
             BG_OUTCOME_PENDING);
    CHECK_OK(put(w, key));
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ABSENT),
             BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    world_end(w);
}

static bg_store_answer ask_nothing(void *context, const void *key, size_t len,
                                   void *request)
{
    (void)key;
    (void)len;
    (void)request;
    ++*(uint64_t *)context;
    return BG_STORE_ABSENT;
}

TEST(gate__keys_of_every_length_up_to_the_limit_are_remembered)
{
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    bg_slot *slot = NULL;
    bg_gate *gate = NULL;
    uint64_t asks = 0;
    char key[64];
    memset(key, 'k', sizeof key);
    how.query = ask_nothing;
    how.context = &asks;
    how.negative_entries = 1000;
    how.negative_key = 20;
    how.negative_ttl = UINT64_MAX;
    CHECK_OK(bg_slot_create(NULL, NULL, &slot, NULL)); /* always "maybe" */
    CHECK_OK(bg_gate_create(slot, &how, &gate, NULL));
    for (size_t len = 0; len <= sizeof key; len++) {
        const uint64_t before = asks;
        CHECK_EQ(bg_gate_lookup(gate, len ? key : NULL, len, NULL),
                 BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(bg_gate_lookup(gate, key, len, NULL),
                 len <= 20 ? BG_OUTCOME_ABSENT_BY_CACHE : BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(asks - before, len <= 20 ? 1 : 2);
    }
    CHECK_EQ(stats_of(gate, false).negative_entries, 21);
    bg_gate_free(gate);
    bg_slot_free(slot);
}

TEST(recent__keys_are_compared_in_full)
{
    struct bgi_recent *r = bgi_recent_create(64, 16, 100, NULL);
    const bg_bytes a = { "apple", 5 }, b = { "apples", 6 }, c = { "maple", 5 };
    uint64_t token;
    CHECK(!bgi_recent_find(r, 7, a, 0, 0, &token));
    bgi_recent_put(r, 7, a, token, 0, 0);
    CHECK(bgi_recent_find(r, 7, a, 0, 0, &token));
    /* Different keys with the same hash are not found. */
    CHECK(!bgi_recent_find(r, 7, b, 0, 0, &token));
    CHECK(!bgi_recent_find(r, 7, c, 0, 0, &token));
    bgi_recent_put(r, 7, c, token, 0, 0);
    bgi_recent_forget(r, 7, a);
    CHECK(!bgi_recent_find(r, 7, a, 0, 0, &token));
    CHECK(bgi_recent_find(r, 7, c, 0, 0, &token));
    bgi_recent_free(r);
}

TEST(recent__the_expired_go_first_and_then_the_oldest)
{
    struct bgi_recent *r = bgi_recent_create(4, 8, 100, NULL); /* one set */
    const char *names = "abcdefgh";
    uint64_t token, at[4] = { 50, 20, 30, 40 };
    for (size_t i = 0; i < 4; i++) {
        CHECK(!bgi_recent_find(r, i, (bg_bytes){ names + i, 1 }, 0, 50, &token));
        bgi_recent_put(r, i, (bg_bytes){ names + i, 1 }, token, at[i], 50);
    }
    CHECK_EQ(bgi_recent_count(r, 0, 50), 4);
    bgi_recent_put(r, 4, (bg_bytes){ "e", 1 }, token, 60, 60);
    CHECK(!bgi_recent_find(r, 1, (bg_bytes){ "b", 1 }, 0, 60, &token)); /* the oldest */
    CHECK_EQ(bgi_recent_count(r, 0, 60), 4);
    bgi_recent_put(r, 5, (bg_bytes){ "f", 1 }, token, 140, 140);
    CHECK(bgi_recent_find(r, 0, (bg_bytes){ "a", 1 }, 0, 140, &token));
    CHECK(bgi_recent_find(r, 5, (bg_bytes){ "f", 1 }, 0, 140, &token));
    /* Key c expired at 130 and was dropped, and key d expired at 140. */
    CHECK_EQ(bgi_recent_count(r, 0, 140), 3);
    bgi_recent_free(r);
}

TEST(recent__holds_what_it_was_made_for_and_tells_no_lies)
{
    enum { N = 3000 };
    struct bgi_recent *r = bgi_recent_create(1000, 8, 1000000, NULL);
    uint64_t token, kept = 0, state = 5, key;
    for (uint64_t i = 0; i < N; i++) {
        key = i;
        const bg_bytes bytes = { &key, sizeof key };
        const uint64_t hash = check_random_next(&state);
        CHECK(!bgi_recent_find(r, hash, bytes, 0, i, &token));
        bgi_recent_put(r, hash, bytes, token, i, i);
        CHECK(bgi_recent_find(r, hash, bytes, 0, i, &token));
    }
    state = 5;
    for (uint64_t i = 0; i < N; i++) {
        key = i;
        kept += bgi_recent_find(r, check_random_next(&state),
                                (bg_bytes){ &key, sizeof key }, 0, N, &token);
    }
    CHECK_EQ(kept, bgi_recent_count(r, 0, N));
    CHECK(kept > 900);
    CHECK(kept <= 1000);
    bgi_recent_free(r);
}

/* ---- Single flight, in one thread --------------------------------- */

static void look_again_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT); /* a lookup must not wait for itself */
    CHECK_EQ(look(w, key + 1), BG_OUTCOME_PRESENT);
}

TEST(gate__a_question_may_look_up_its_own_key)
{
    struct world *w = world_make(0.05);
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    w->inside = look_again_inside;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->asks, 3);
    CHECK_EQ(stats_of(w->gate, false).shared, 0);
    world_end(w);
}

TEST(flight__a_closed_one_is_not_joined)
{
    struct bgi_flights *flights = bgi_flights_create(NULL);
    struct bgi_flight a = { .hash = 5, .key = { "a", 1 } }, b = a, c = a, other = a;
    other.key = (bg_bytes){ "b", 1 };
    CHECK_EQ(bgi_flight_board(flights, &a), BGI_FLIGHT_LEADS);
    CHECK_EQ(bgi_flight_board(flights, &b), BGI_FLIGHT_ALONE); /* the same thread */
    CHECK_EQ(bgi_flight_board(flights, &other), BGI_FLIGHT_LEADS);
    bgi_flights_detach(flights, 5, c.key);
    CHECK_EQ(bgi_flight_board(flights, &c), BGI_FLIGHT_LEADS);
    bgi_flight_land(flights, &other, 0);
    bgi_flight_land(flights, &a, 1);
    bgi_flight_land(flights, &c, 2);
    bgi_flights_free(flights);
}

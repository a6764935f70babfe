/*
 * Gates: every outcome, a failing backing store, audits, bg_gate_begin and bg_gate_finish, batches,
 * and writes whose keys cannot be added. The multithreaded tests are in conc_gate.c.
 */
#include "support/adds.h"
#include "support/gate_world.h"

#include <math.h>
#include <stdio.h>

/* ---- Outcomes ---------------------------------------------------------------------- */

TEST(gate__every_outcome_has_a_name)
{
    static const char *const names[] = { "absent_by_filter", "absent_by_cache",
                                         "absent_by_truth",  "present",
                                         "unknown",          "failed",
                                         "pending" };
    for (int i = 0; i < 7; i++) {
        CHECK_STR(bg_outcome_name((bg_outcome)i), names[i]);
    }
    CHECK(bg_outcome_name((bg_outcome)99) != NULL);
}

TEST(gate__answers_by_filter_and_truth)
{
    struct world *w = world_make(0.05);
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    uint64_t row = 0, three = 3;
    CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 0);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(w->last_asked, unlucky);
    CHECK_EQ(bg_gate_lookup(w->gate, &three, sizeof three, &row), BG_OUTCOME_PRESENT);
    CHECK_EQ(row, 3);
    CHECK_EQ(w->asks, 2);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 4), BG_OUTCOME_UNKNOWN);
    /* The filter answers this lookup, so the store is not needed. */
    CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
    w->fails = (bg_store_answer)17; /* an invalid answer counts as an error */
    CHECK_EQ(look(w, 4), BG_OUTCOME_UNKNOWN);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 6);
    CHECK_EQ(s.outcomes[BG_OUTCOME_ABSENT_BY_FILTER], 2);
    CHECK_EQ(s.outcomes[BG_OUTCOME_ABSENT_BY_STORE], 1);
    CHECK_EQ(s.outcomes[BG_OUTCOME_PRESENT], 1);
    CHECK_EQ(s.outcomes[BG_OUTCOME_UNKNOWN], 2);
    CHECK_EQ(s.avoided, 2);
    CHECK_EQ(s.wasted, 1);
    CHECK_EQ(s.store_calls, 4);
    CHECK_EQ(s.store_errors, 2);
    CHECK_EQ(s.breaker, 0);
    world_end(w);
}

TEST(gate__fails_closed_if_told_so)
{
    struct world *w = world_make(0.05);
    w->how.flags = BG_GATE_FAIL_CLOSED;
    world_open(w);
    w->fails = BG_STORE_ERROR;
    CHECK_EQ(look(w, 1), BG_OUTCOME_FAILED);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    w->fails = BG_STORE_ABSENT;
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    world_end(w);
}

TEST(gate__without_a_truth_says_unknown)
{
    struct world *w = world_make(0.05);
    w->how.query = NULL;
    w->how.audit = 1;
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(stats_of(w->gate, false).store_calls, 0);
    CHECK_EQ(stats_of(w->gate, false).audits, 0);
    world_end(w);
}

TEST(gate__times_the_truth_and_traces_every_look_up)
{
    struct world *w = world_make(0.05);
    w->how.trace = world_trace;
    w->step = 700;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    bg_pin pin;
    bg_slot_pin(w->slot, &pin);
    const bg_hasher *hasher = bg_filter_hasher(bg_pin_filter(&pin, 0, NULL));
    CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->traces, 1);
    CHECK_EQ(w->trace.struct_size, sizeof w->trace);
    CHECK_EQ(w->trace.outcome, BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->trace.store_nanoseconds, 0);
    CHECK_EQ(w->trace.key_hash, bg_hash_bytes(hasher, &lucky, sizeof lucky));
    CHECK_EQ(look(w, 5), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->traces, 2);
    CHECK_EQ(w->trace.outcome, BG_OUTCOME_PRESENT);
    CHECK_EQ(w->trace.store_nanoseconds, 700);
    CHECK_EQ(w->trace.audited + w->trace.shared, 0);
    w->step = (uint64_t)0 - 500; /* the clock moves backward during the query */
    CHECK_EQ(look(w, 5), BG_OUTCOME_PRESENT);
    CHECK(w->trace.store_nanoseconds < 10);
    CHECK(stats_of(w->gate, false).store_nanoseconds < 720);
    bg_slot_unpin(w->slot, &pin);
    uint64_t before = stats_of(w->gate, false).store_nanoseconds;
    /* Even if the clock jumps to its maximum, the total of store_nanoseconds still increases. */
    for (int jump = 0; jump < 3; jump++) {
        w->now = 1000;
        w->step = UINT64_MAX - 1000;
        CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
        CHECK(stats_of(w->gate, false).store_nanoseconds > before);
        before = stats_of(w->gate, false).store_nanoseconds;
    }
    world_end(w);
}

TEST(gate__refuses_what_makes_no_sense)
{
    struct world *w = world_make(0.05);
    const bg_gate_options good = w->how;
    bg_errinfo why;
    CHECK_EQ(bg_gate_create(NULL, &good, &w->gate, &why), BG_EINVAL);
    CHECK_EQ(bg_gate_create(w->slot, &good, NULL, &why), BG_EINVAL);
    for (int i = 0; i < 7; i++) {
        static const char *const what[] = { "struct_size", "flags", "audit",
                                            "audit",       "audit", "negative_key",
                                            "reserved" };
        bg_gate_options bad = good;
        bad.struct_size += i == 0;
        bad.flags = i == 1 ? 0x80 : 0;
        bad.audit = i == 2 ? 1.5 : i == 3 ? -0.1 : i == 4 ? (double)NAN : 0;
        bad.negative_key = i == 5 ? 65537 : 0;
        bad.reserved = i == 6;
        CHECK_EQ(bg_gate_create(w->slot, &bad, &w->gate, &why), BG_EINVAL);
        CHECK_STR(why.what, what[i]);
        CHECK(w->gate == NULL);
    }
    CHECK_OK(bg_gate_create(w->slot, NULL, &w->gate, &why));
    CHECK_EQ(look(w, 1), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(put(w, 1), BG_ENOTSUP);
    bg_gate_info stats = { .struct_size = 8 };
    CHECK_EQ(bg_gate_get_info(w->gate, NULL, &stats), BG_EINVAL);
    CHECK_EQ(bg_gate_get_info(w->gate, NULL, NULL), BG_EINVAL);
    world_end(w);
}

TEST(gate__nobody_is_unknown_never_absent)
{
    bg_gate_info stats = { .struct_size = sizeof stats };
    bg_outcome outcomes[3];
    bg_bytes keys[3] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    bg_ticket ticket = { 0 };
    bool audit = true;
    CHECK_EQ(bg_gate_lookup(NULL, "a", 1, NULL), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_lookup_many(NULL, keys, 3, NULL, outcomes), 3);
    CHECK(outcomes[0] == BG_OUTCOME_UNKNOWN && outcomes[2] == BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_begin(NULL, "a", 1, &ticket, &audit), BG_OUTCOME_UNKNOWN);
    CHECK(!audit);
    CHECK_EQ(bg_gate_finish(NULL, &ticket, BG_STORE_ABSENT), BG_OUTCOME_UNKNOWN);
    CHECK(bg_gate_may_contain(NULL, "a", 1));
    CHECK_EQ(bg_gate_write(NULL, "a", 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_gate_add(NULL, "a", 1), BG_EINVAL);
    CHECK_EQ(bg_gate_get_info(NULL, NULL, &stats), BG_EINVAL);
    CHECK_EQ(bg_gate_maintain(NULL, NULL, NULL, NULL, NULL, NULL), BG_EINVAL);
    CHECK(bg_gate_slot(NULL) == NULL);
    bg_gate_report(NULL, true);
    bg_gate_free(NULL);
}

TEST(gate__creating_survives_every_failing_allocation)
{
    struct world *w = world_make(0.05);
    struct counting c;
    counting_start(&c);
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    w->how.negative_entries = 10;
    w->how.audit = 0.5;
    w->how.allocator = &c.hooks;
    size_t n = 1;
    for (;; n++) {
        c.calls = 0;
        c.fail_at = n;
        bg_err err = bg_gate_create(w->slot, &w->how, &w->gate, NULL);
        if (!err) {
            break;
        }
        CHECK_EQ(err, BG_ENOMEM);
        CHECK(w->gate == NULL);
        CHECK_EQ(c.live, 0);
    }
    CHECK_EQ(n, 4);
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    world_end(w);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

/* ---- Audits ------------------------------------------------------------------------ */

TEST(gate__an_audit_finds_what_the_filter_denies)
{
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    w->how.trace = world_trace;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    const uint64_t planted = absent_key(w, lucky + 1, false);
    bg_pin pin;
    bg_slot_pin(w->slot, &pin);
    const uint64_t hash = bg_hash_bytes(bg_filter_hasher(bg_pin_filter(&pin, 0, NULL)),
                                        &planted, sizeof planted);
    bg_slot_unpin(w->slot, &pin);
    CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 1);
    CHECK_EQ(w->trace.audited, 1);
    w->has[planted] = true; /* bypassing the gate */
    CHECK_EQ(look(w, planted), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    CHECK_EQ(w->alarm.key_hash, hash);
    CHECK_EQ(w->alarm.count, 1);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.audits, 2);
    CHECK_EQ(s.false_negatives, 1);
    CHECK_EQ(s.outcomes[BG_OUTCOME_PRESENT], 1);
    CHECK_EQ(s.outcomes[BG_OUTCOME_ABSENT_BY_FILTER], 1);
    CHECK_EQ(s.avoided, 0); /* the store was queried */
    CHECK_EQ(s.wasted, 0);
    CHECK_EQ(s.doubtful, 0);
    CHECK(s.observed.value < 0.5);
    world_end(w);
}

TEST(gate__audits_of_a_batch_find_it_too)
{
    static uint64_t keys[2000];
    static bg_bytes bytes[2000];
    static bg_outcome outcomes[2000];
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    world_open(w);
    const uint64_t planted = absent_key(w, 2500, false);
    w->has[planted] = true;
    uint64_t present = 0;
    for (size_t i = 0; i < 2000; i++) {
        keys[i] = i + 900;
        bytes[i] = (bg_bytes){ &keys[i], sizeof keys[i] };
        present += w->has[keys[i]];
    }
    CHECK_EQ(bg_gate_lookup_many(w->gate, bytes, 2000, NULL, outcomes), present);
    CHECK_EQ(outcomes[planted - 900], BG_OUTCOME_PRESENT);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 2000);
    CHECK_EQ(s.outcomes[BG_OUTCOME_PRESENT], present);
    CHECK_EQ(s.false_negatives, 1);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    CHECK_EQ(s.store_calls, 2000);
    CHECK_EQ(s.avoided, 0);
    world_end(w);
}

TEST(gate__an_audit_that_fails_changes_no_answer)
{
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    w->how.breaker_failures = 2;
    w->how.flags = BG_GATE_FAIL_CLOSED;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    w->fails = BG_STORE_ERROR;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(w->asks, 2); /* the breaker blocked the other queries */
    CHECK_EQ(s.breaker, 1);
    CHECK_EQ(s.audits, 2);
    CHECK_EQ(s.store_errors, 2);
    CHECK_EQ(s.avoided, 3);
    CHECK_EQ(s.spared_by_breaker, 0); /* every lookup got an answer */
    world_end(w);
}

TEST(gate__audits_are_the_share_that_was_asked_for)
{
    static const double shares[] = { 0, 1e-15, 0.01, 0.3, 0.99 };
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const double share = shares[i];
        struct world *w = world_make(0.05);
        const size_t n = 20000 * check_scale();
        w->how.audit = share;
        world_open(w);
        const uint64_t lucky = absent_key(w, PRESENT, false);
        for (size_t k = 0; k < n; k++) {
            CHECK_EQ(look(w, lucky), BG_OUTCOME_ABSENT_BY_FILTER);
        }
        const double expected = share * (double)n;
        const double deviation = sqrt(expected * (1 - share) + 1);
        CHECK(fabs((double)w->asks - expected) < 6 * deviation);
        CHECK_EQ(stats_of(w->gate, false).audits, w->asks);
        CHECK_EQ(stats_of(w->gate, false).avoided, n - w->asks);
        world_end(w);
    }
}

static void look_while_writing(struct world *w, uint64_t key)
{
    w->writing = NULL;
    CHECK(!maybe(w, key));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
}

/* The store already contains the key, but the filter does not contain it yet. This is normal during
 * a write. */
TEST(gate__an_audit_during_a_write_is_no_alarm)
{
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, false);
    w->writing = look_while_writing;
    CHECK_OK(put(w, key));
    CHECK(w->writing == NULL);
    CHECK_EQ(w->asks, 1);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 0);
    CHECK_EQ(stats_of(w->gate, false).false_negatives, 0);
    world_end(w);
}

static void add_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    w->has[key] = true;
    CHECK_OK(bg_gate_add(w->gate, &key, sizeof key));
    w->fails = BG_STORE_PRESENT;
}

TEST(gate__a_write_during_an_audit_is_no_alarm)
{
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, false);
    w->inside = add_inside;
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 0);
    world_end(w);
}

/* ---- Tickets ----------------------------------------------------------------------- */

TEST(gate__begins_and_finishes)
{
    struct world *w = world_make(0.05);
    w->how.query = NULL;
    w->how.negative_entries = 10;
    w->how.trace = world_trace;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false), one = 1;
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    bg_ticket ticket = { 0 };
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, NULL),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->traces, 1);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, NULL),
             BG_OUTCOME_PENDING);
    CHECK_EQ(stats_of(w->gate, false).lookups, 1);
    w->now += 50;
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->trace.store_nanoseconds, 50);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, NULL),
             BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ERROR), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &unlucky, sizeof unlucky, &ticket, NULL),
             BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ABSENT),
             BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(bg_gate_begin(w->gate, &unlucky, sizeof unlucky, &ticket, NULL),
             BG_OUTCOME_ABSENT_BY_CACHE);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 5);
    CHECK_EQ(s.store_calls, 3);
    CHECK_EQ(s.store_errors, 1);
    CHECK_EQ(w->traces, 5);
    world_end(w);
}

TEST(gate__audits_by_ticket)
{
    struct world *w = world_make(0.05);
    w->how.query = NULL;
    w->how.audit = 1;
    w->how.trace = world_trace;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    bg_ticket ticket = { 0 };
    bool audit = false;
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, NULL),
             BG_OUTCOME_ABSENT_BY_FILTER); /* no audits requested */
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK(audit);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ABSENT),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(w->trace.audited, 1);
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ERROR),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    const uint64_t one = 1;
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, &audit),
             BG_OUTCOME_PENDING);
    CHECK(!audit);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 5);
    CHECK_EQ(s.audits, 3);
    CHECK_EQ(s.avoided, 1);
    CHECK_EQ(s.false_negatives, 1);
    CHECK_EQ(w->traces, 5);
    world_end(w);
}

TEST(gate__the_breaker_is_for_tickets_too)
{
    struct world *w = world_make(0.05);
    const uint64_t one = 1;
    bg_ticket a = { 0 }, b = { 0 };
    w->how.flags = BG_GATE_FAIL_CLOSED;
    w->how.breaker_failures = 1;
    w->how.breaker_rest = 100;
    world_open(w);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &a, BG_STORE_ERROR), BG_OUTCOME_FAILED);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_OUTCOME_FAILED);
    w->now += 100;
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &b, NULL), BG_OUTCOME_FAILED);
    w->now += 100; /* ticket a is now assumed to be lost */
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &b, NULL), BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &b, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    CHECK_EQ(bg_gate_finish(w->gate, &a, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_CLOSED], 1);
    world_end(w);
}

/* ---- Batches ----------------------------------------------------------------------- */

enum { BATCH = 3000 };

static void batch_equals_single(struct world *w, size_t n)
{
    static uint64_t keys[BATCH], rows[BATCH];
    static bg_bytes bytes[BATCH];
    static void *requests[BATCH];
    static bg_outcome outcomes[BATCH + 1];
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        keys[i] = check_random_below(KEYS);
        bytes[i] = (bg_bytes){ &keys[i], sizeof keys[i] };
        requests[i] = &rows[i];
        rows[i] = KEYS;
    }
    outcomes[n] = BG_OUTCOME_PENDING;
    const uint64_t before = w->asks;
    const size_t told = bg_gate_lookup_many(w->gate, bytes, n, requests, outcomes);
    CHECK_EQ(outcomes[n], BG_OUTCOME_PENDING);
    const uint64_t asked = w->asks - before;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(look(w, keys[i]), outcomes[i]);
        CHECK(outcomes[i] != BG_OUTCOME_PRESENT || rows[i] == keys[i]);
        found += outcomes[i] == BG_OUTCOME_PRESENT || outcomes[i] == BG_OUTCOME_UNKNOWN;
    }
    CHECK_EQ(told, found);
    CHECK_EQ(w->asks - before, 2 * asked);
    CHECK_EQ(bg_gate_lookup_many(w->gate, bytes, n, NULL, outcomes), found);
}

TEST(gate__a_batch_answers_as_single_look_ups_do)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 1023, 1024, 1025, BATCH };
    for (int way = 0; way < 4; way++) {
        struct world *w = world_make(0.05);
        w->how.audit = way == 1;
        w->how.trace = way == 2 ? world_trace : NULL;
        world_open(w);
        w->fails = way == 3 ? BG_STORE_ERROR : BG_STORE_ABSENT;
        uint64_t all = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            batch_equals_single(w, sizes[i]);
            all += 3 * sizes[i];
        }
        bg_gate_info s = stats_of(w->gate, false);
        CHECK_EQ(s.lookups, all);
        CHECK_EQ(s.store_calls, w->asks);
        CHECK_EQ(w->traces, way == 2 ? all : 0);
        CHECK_EQ(s.avoided + s.store_calls, all);
        world_end(w);
    }
}

/* ---- Writes whose keys cannot be added ----------------------------------------------- */

TEST(gate__a_key_that_cannot_be_added_makes_every_answer_maybe)
{
    struct world *w = world_make(0.05);
    world_fill(w);
    world_open(w);
    const uint64_t key = refused_key(w), other = absent_key(w, PRESENT, false);
    bg_outcome outcomes[2];
    bg_bytes both[2] = { { &key, sizeof key }, { &other, sizeof other } };
    bg_ticket ticket = { 0 };
    CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(put(w, key), BG_EFULL);
    CHECK(w->has[key]);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, other), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(bg_gate_lookup_many(w->gate, both, 2, NULL, outcomes), 1);
    CHECK_EQ(outcomes[0], BG_OUTCOME_PRESENT);
    CHECK_EQ(outcomes[1], BG_OUTCOME_ABSENT_BY_STORE);
    CHECK(bg_gate_may_contain(w->gate, &key, sizeof key));
    CHECK(bg_gate_may_contain(w->gate, &other, sizeof other));
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, NULL),
             BG_OUTCOME_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.write_errors, 1);
    CHECK_EQ(s.wasted, 0); /* no false positives */
    CHECK_EQ(s.observed.value > 0, false);
    /* The new base contains the key. */
    bg_filter *whole = world_filter(0.001);
    (void)added(whole, &key, sizeof key);
    CHECK_OK(bg_slot_swap(w->slot, whole, 0, BG_SLOT_DISCARD, NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    world_end(w);
}

TEST(gate__a_sealed_slot_takes_no_writes_and_is_not_believed_after_one)
{
    struct world *w = world_make(0.05);
    bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
    sealed.flags = BG_SLOT_SEALED;
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(world_filter(0.05), &sealed, &w->slot, NULL));
    w->how.negative_entries = 100;
    w->how.audit = 1;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, false);
    const uint64_t other = absent_key(w, key + 1, false);
    CHECK_EQ(put(w, key), BG_ENOTSUP);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, other), BG_OUTCOME_ABSENT_BY_STORE);
    /* Answers are not cached while the gate is in doubt. */
    CHECK_EQ(look(w, other), BG_OUTCOME_ABSENT_BY_STORE);
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.audits + s.false_negatives, 0);
    CHECK_EQ(s.doubtful, 1);
    CHECK_EQ(s.observed.value > 0, false);
    world_end(w);
}

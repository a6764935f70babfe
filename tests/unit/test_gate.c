/*
 * The gate: every outcome; a truth that fails; the breaker, the negative cache and audits
 * with a clock of the test's own; begin and finish; batches; writes that cannot be added;
 * and figures that agree with what was done. What takes threads is in conc_gate.c.
 */
#include "support/files.h"

#include "gate/breaker.h"
#include "gate/flight.h"
#include "gate/recent.h"

#include <math.h>
#include <stdio.h>

/* ---- A world around a gate --------------------------------------------------------- */

enum { KEYS = 4096, PRESENT = 1000 }; /* keys are numbers; the first 1000 are there */

struct world {
    bool has[KEYS]; /* the truth */
    bg_truth fails; /* what it answers instead, if not 0 */
    uint64_t asks, writes;
    uint64_t last_asked;
    uint64_t now, step; /* the clock, and how far a question moves it */
    void (*inside)(struct world *w,
                   uint64_t key); /* called in the middle of a question */
    void (*writing)(struct world *w,
                    uint64_t key); /* ... of a write, after it was done */
    bg_err write_fails;
    uint64_t alarms[3];
    bg_alarm alarm; /* the last one */
    uint64_t traces;
    bg_trace trace;
    bg_slot *slot;
    bg_gate *gate;
    bg_gate_options how;
};

static uint64_t world_key(const void *key, size_t len)
{
    uint64_t number = KEYS;
    CHECK_EQ(len, sizeof number);
    memcpy(&number, key, sizeof number);
    CHECK(number < KEYS);
    return number % KEYS;
}

static bg_truth world_ask(void *context, const void *key, size_t len, void *request)
{
    struct world *w = context;
    const uint64_t number = world_key(key, len);
    const bool has = w->has[number]; /* before anything happens inside */
    w->asks++;
    w->last_asked = number;
    w->now += w->step;
    if (w->inside) {
        w->inside(w, number);
    }
    if (request) {
        *(uint64_t *)request = number;
    }
    return w->fails != BG_TRUTH_ABSENT ? w->fails
           : has                       ? BG_TRUTH_PRESENT
                                       : BG_TRUTH_ABSENT;
}

static bg_err world_write(void *context, const void *key, size_t len, void *request)
{
    struct world *w = context;
    (void)request;
    w->writes++;
    if (w->write_fails) {
        return w->write_fails;
    }
    w->has[world_key(key, len)] = true;
    if (w->writing) {
        w->writing(w, world_key(key, len));
    }
    return BG_OK;
}

static void world_alarm(void *context, const bg_alarm *alarm)
{
    struct world *w = context;
    CHECK_EQ(alarm->struct_size, sizeof *alarm);
    CHECK(alarm->kind < 3);
    w->alarms[alarm->kind]++;
    w->alarm = *alarm;
}

static void world_trace(void *context, const bg_trace *trace)
{
    struct world *w = context;
    w->traces++;
    w->trace = *trace;
}

static uint64_t world_clock(void *context)
{
    return ((struct world *)context)->now;
}

static bg_filter *world_filter(double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = PRESENT;
    spec.rate = rate;
    bg_filter *filter = must_create(&spec);
    for (uint64_t i = 0; i < PRESENT; i++) {
        (void)bg_filter_add(filter, &i, sizeof i);
    }
    return filter;
}

/* A world with a slot, and options to be changed before world_open. */
static struct world *world_make(double rate)
{
    static struct world world;
    struct world *w = &world;
    memset(w, 0, sizeof *w);
    for (uint64_t i = 0; i < PRESENT; i++) {
        w->has[i] = true;
    }
    w->now = 1000;
    w->how = (bg_gate_options)BG_GATE_OPTIONS_INIT;
    w->how.context = w;
    w->how.ask = world_ask;
    w->how.write = world_write;
    w->how.alarm = world_alarm;
    w->how.clock = world_clock;
    CHECK_OK(bg_slot_create(world_filter(rate), NULL, &w->slot, NULL));
    return w;
}

static void world_open(struct world *w)
{
    bg_errinfo why;
    if (bg_gate_create(w->slot, &w->how, &w->gate, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK(bg_gate_slot(w->gate) == w->slot);
}

static void world_end(struct world *w)
{
    bg_gate_free(w->gate);
    bg_slot_free(w->slot);
}

static bg_outcome look(struct world *w, uint64_t key)
{
    return bg_gate_lookup(w->gate, &key, sizeof key, NULL);
}

static bg_err put(struct world *w, uint64_t key)
{
    return bg_gate_write(w->gate, &key, sizeof key, NULL);
}

static bool maybe(const struct world *w, uint64_t key)
{
    return bg_slot_may_contain(w->slot, &key, sizeof key);
}

/* The next absent key, from `key` on, that the filter takes for a member, or does not. */
static uint64_t absent_key(const struct world *w, uint64_t key, bool member)
{
    while (key < KEYS && (w->has[key] || maybe(w, key) != member)) {
        key++;
    }
    CHECK(key < KEYS);
    return key;
}

static bg_gate_stats stats_of(const bg_gate *gate, bool examine)
{
    bg_gate_stats stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_gate_about(gate, examine, &stats));
    return stats;
}

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
    CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 0);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(w->last_asked, unlucky);
    CHECK_EQ(bg_gate_lookup(w->gate, &three, sizeof three, &row), BG_PRESENT);
    CHECK_EQ(row, 3);
    CHECK_EQ(w->asks, 2);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 4), BG_UNKNOWN);
    CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER); /* needs no truth */
    w->fails = (bg_truth)17;                       /* what is no answer is an error */
    CHECK_EQ(look(w, 4), BG_UNKNOWN);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 6);
    CHECK_EQ(s.outcomes[BG_ABSENT_BY_FILTER], 2);
    CHECK_EQ(s.outcomes[BG_ABSENT_BY_TRUTH], 1);
    CHECK_EQ(s.outcomes[BG_PRESENT], 1);
    CHECK_EQ(s.outcomes[BG_UNKNOWN], 2);
    CHECK_EQ(s.avoided, 2);
    CHECK_EQ(s.wasted, 1);
    CHECK_EQ(s.truth_calls, 4);
    CHECK_EQ(s.truth_errors, 2);
    CHECK_EQ(s.breaker, 0);
    world_end(w);
}

TEST(gate__fails_closed_if_told_so)
{
    struct world *w = world_make(0.05);
    w->how.flags = BG_GATE_FAIL_CLOSED;
    world_open(w);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_FAILED);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_ABSENT_BY_FILTER);
    w->fails = BG_TRUTH_ABSENT;
    CHECK_EQ(look(w, 1), BG_PRESENT);
    world_end(w);
}

TEST(gate__without_a_truth_says_unknown)
{
    struct world *w = world_make(0.05);
    w->how.ask = NULL;
    w->how.audit = 1;
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_ABSENT_BY_FILTER);
    CHECK_EQ(stats_of(w->gate, false).truth_calls, 0);
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
    CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->traces, 1);
    CHECK_EQ(w->trace.struct_size, sizeof w->trace);
    CHECK_EQ(w->trace.outcome, BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->trace.truth_nanoseconds, 0);
    CHECK_EQ(w->trace.key_hash, bg_hash_bytes(hasher, &lucky, sizeof lucky));
    CHECK_EQ(look(w, 5), BG_PRESENT);
    CHECK_EQ(w->traces, 2);
    CHECK_EQ(w->trace.outcome, BG_PRESENT);
    CHECK_EQ(w->trace.truth_nanoseconds, 700);
    CHECK_EQ(w->trace.audited + w->trace.shared, 0);
    w->step = (uint64_t)0 - 500; /* the clock goes back while the truth is asked */
    CHECK_EQ(look(w, 5), BG_PRESENT);
    CHECK(w->trace.truth_nanoseconds < 10);
    CHECK(stats_of(w->gate, false).truth_nanoseconds < 720);
    bg_slot_unpin(w->slot, &pin);
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
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(put(w, 1), BG_ENOTSUP);
    bg_gate_stats stats = { .struct_size = 8 };
    CHECK_EQ(bg_gate_about(w->gate, false, &stats), BG_EINVAL);
    CHECK_EQ(bg_gate_about(w->gate, false, NULL), BG_EINVAL);
    world_end(w);
}

TEST(gate__nobody_is_unknown_never_absent)
{
    bg_gate_stats stats = { .struct_size = sizeof stats };
    bg_outcome outcomes[3];
    bg_bytes keys[3] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    bg_ticket ticket = { 0 };
    bool audit = true;
    CHECK_EQ(bg_gate_lookup(NULL, "a", 1, NULL), BG_UNKNOWN);
    CHECK_EQ(bg_gate_lookup_many(NULL, keys, 3, NULL, outcomes), 3);
    CHECK(outcomes[0] == BG_UNKNOWN && outcomes[2] == BG_UNKNOWN);
    CHECK_EQ(bg_gate_begin(NULL, "a", 1, &ticket, &audit), BG_UNKNOWN);
    CHECK(!audit);
    CHECK_EQ(bg_gate_finish(NULL, &ticket, BG_TRUTH_ABSENT), BG_UNKNOWN);
    CHECK(bg_gate_may_contain(NULL, "a", 1));
    CHECK_EQ(bg_gate_write(NULL, "a", 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_gate_wrote(NULL, "a", 1), BG_EINVAL);
    CHECK_EQ(bg_gate_about(NULL, false, &stats), BG_EINVAL);
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
    CHECK_EQ(look(w, 1), BG_PRESENT);
    world_end(w);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

/* ---- The breaker ------------------------------------------------------------------- */

TEST(gate__breaker_opens_rests_tries_and_closes)
{
    struct world *w = world_make(0.05);
    w->how.breaker_failures = 3;
    w->how.breaker_rest = 1000;
    world_open(w);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    w->fails = BG_TRUTH_ABSENT; /* not three in a row */
    CHECK_EQ(look(w, 1), BG_PRESENT);
    w->fails = BG_TRUTH_ERROR;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(stats_of(w->gate, false).breaker, 0);
        CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 0);
        CHECK_EQ(look(w, 1), BG_UNKNOWN);
    }
    CHECK_EQ(stats_of(w->gate, false).breaker, 1);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 1);
    CHECK_EQ(w->alarm.count, 1);
    CHECK_EQ(w->asks, 6);
    w->now += 999; /* it is left alone, and the filter's "no" is not affected */
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 6);
    CHECK_EQ(stats_of(w->gate, false).spared_by_breaker, 1);
    w->now += 1; /* one may try, in vain */
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(w->asks, 7);
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(w->asks, 7);
    w->now += 1000;
    w->fails = BG_TRUTH_ABSENT;
    CHECK_EQ(look(w, 1), BG_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_CLOSED], 1);
    CHECK_EQ(w->alarms[BG_ALARM_BREAKER_OPEN], 1);
    CHECK_EQ(look(w, 1), BG_PRESENT);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.breaker, 0);
    CHECK_EQ(s.breaker_opened, 1);
    CHECK_EQ(s.spared_by_breaker, 2);
    CHECK_EQ(s.truth_calls, 9);
    world_end(w);
}

static void look_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    CHECK_EQ(stats_of(w->gate, false).breaker, 2);
    const uint64_t asks = w->asks;
    CHECK_EQ(look(w, key), BG_UNKNOWN); /* one at a time */
    CHECK_EQ(w->asks, asks);
}

TEST(gate__breaker_lets_one_try_at_a_time)
{
    struct world *w = world_make(0.05);
    w->how.breaker_failures = 1;
    w->how.breaker_rest = 1000;
    world_open(w);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    w->now += 1000;
    w->fails = BG_TRUTH_ABSENT;
    w->inside = look_inside;
    CHECK_EQ(look(w, 1), BG_PRESENT);
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
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    w->now = 5; /* back: tried too early rather than never */
    w->fails = BG_TRUTH_ABSENT;
    CHECK_EQ(look(w, 1), BG_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    w->now = UINT64_MAX;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    CHECK_EQ(w->asks, 4);
    w->now = 999; /* wrapped around: that is 1000 later */
    w->fails = BG_TRUTH_ABSENT;
    CHECK_EQ(look(w, 1), BG_PRESENT);
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
    CHECK_EQ(bgi_breaker_worked(&b, 0), BGI_BREAKER_STAYS); /* asked before it opened */
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_OPEN);
    CHECK(!bgi_breaker_may_ask(&b, 119, &none));
    CHECK(bgi_breaker_may_ask(&b, 120, &first));
    CHECK(first != 0);
    CHECK(!bgi_breaker_may_ask(&b, 219, &none));  /* that one is still at it */
    CHECK(bgi_breaker_may_ask(&b, 220, &second)); /* and now given up */
    CHECK(second != first);
    CHECK_EQ(bgi_breaker_worked(&b, first), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_failed(&b, first, 230), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_TRYING);
    CHECK_EQ(bgi_breaker_failed(&b, second, 240), BGI_BREAKER_STAYS);
    CHECK_EQ(bgi_breaker_state(&b), BGI_BREAKER_OPEN);
    CHECK(!bgi_breaker_may_ask(&b, 339, &none)); /* it rests anew */
    CHECK(bgi_breaker_may_ask(&b, 340, &second));
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
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_CACHE);
    CHECK(!bg_gate_may_contain(w->gate, &unlucky, sizeof unlucky));
    w->now += 999;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_CACHE);
    CHECK_EQ(stats_of(w->gate, false).negative_entries, 1);
    w->now += 1;
    CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
    CHECK(bg_gate_may_contain(w->gate, &unlucky, sizeof unlucky));
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, 1), BG_PRESENT); /* present ones are not remembered */
    CHECK_EQ(look(w, 1), BG_PRESENT);
    CHECK_EQ(w->asks, 4);
    bg_gate_stats s = stats_of(w->gate, false);
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
    w->step = 600; /* the answer is that old when it comes */
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    w->now += 399;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_CACHE);
    w->now += 1;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    w->step = 1000;
    w->now += 1000;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH); /* never worth remembering */
    world_end(w);
}

TEST(gate__a_failing_truth_is_not_remembered)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    w->fails = BG_TRUTH_ERROR;
    CHECK_EQ(look(w, 1), BG_UNKNOWN);
    w->fails = BG_TRUTH_ABSENT;
    CHECK_EQ(look(w, 1), BG_PRESENT);
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
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    w->now = 999999; /* from the future: nobody knows how old */
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_CACHE);
    w->now = UINT64_MAX;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    w->now = 0;
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, unlucky), BG_ABSENT_BY_CACHE);
    CHECK_EQ(w->asks, 4);
    world_end(w);
}

TEST(gate__a_write_forgets_the_absence)
{
    struct world *w = world_make(0.05);
    w->how.negative_entries = 100;
    world_open(w);
    const uint64_t a = absent_key(w, PRESENT, true), b = absent_key(w, a + 1, true);
    CHECK_EQ(look(w, a), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, b), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, b), BG_ABSENT_BY_CACHE);
    CHECK_OK(put(w, a));
    w->has[b] = true;
    CHECK_OK(bg_gate_wrote(w->gate, &b, sizeof b));
    CHECK_EQ(look(w, a), BG_PRESENT);
    CHECK_EQ(look(w, b), BG_PRESENT);
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
    CHECK_EQ(look(w, a), BG_ABSENT_BY_TRUTH);
    w->write_fails = BG_EIO;
    CHECK_EQ(put(w, a), BG_EIO);
    w->has[a] = true; /* it had happened nevertheless */
    CHECK_EQ(look(w, a), BG_PRESENT);
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

/* The truth answers "absent", and before that is told the key is written: by another
 * thread, in life. What was overtaken must not be remembered. */
TEST(gate__an_answer_that_a_write_has_overtaken_is_not_remembered)
{
    for (uint32_t flight = 0; flight < 2; flight++) {
        struct world *w = world_make(0.05);
        w->how.negative_entries = 100;
        w->how.flags = flight ? BG_GATE_SINGLE_FLIGHT : 0;
        world_open(w);
        const uint64_t key = absent_key(w, PRESENT, true);
        w->inside = write_inside;
        CHECK_EQ(look(w, key), BG_ABSENT_BY_TRUTH);
        CHECK(w->has[key]);
        CHECK_EQ(look(w, key), BG_PRESENT);
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
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, NULL), BG_PENDING);
    CHECK_OK(put(w, key));
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_ABSENT), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, key), BG_PRESENT);
    world_end(w);
}

static bg_truth ask_nothing(void *context, const void *key, size_t len, void *request)
{
    (void)key;
    (void)len;
    (void)request;
    ++*(uint64_t *)context;
    return BG_TRUTH_ABSENT;
}

TEST(gate__keys_of_every_length_up_to_the_limit_are_remembered)
{
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    bg_slot *slot = NULL;
    bg_gate *gate = NULL;
    uint64_t asks = 0;
    char key[64];
    memset(key, 'k', sizeof key);
    how.ask = ask_nothing;
    how.context = &asks;
    how.negative_entries = 1000;
    how.negative_key = 20;
    how.negative_ttl = UINT64_MAX;
    CHECK_OK(bg_slot_create(NULL, NULL, &slot, NULL)); /* always "maybe" */
    CHECK_OK(bg_gate_create(slot, &how, &gate, NULL));
    for (size_t len = 0; len <= sizeof key; len++) {
        const uint64_t before = asks;
        CHECK_EQ(bg_gate_lookup(gate, len ? key : NULL, len, NULL), BG_ABSENT_BY_TRUTH);
        CHECK_EQ(bg_gate_lookup(gate, key, len, NULL),
                 len <= 20 ? BG_ABSENT_BY_CACHE : BG_ABSENT_BY_TRUTH);
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
    CHECK(!bgi_recent_find(r, 7, a, 0, &token));
    bgi_recent_put(r, 7, a, token, 0, 0);
    CHECK(bgi_recent_find(r, 7, a, 0, &token));
    CHECK(!bgi_recent_find(r, 7, b, 0, &token)); /* of the same hash */
    CHECK(!bgi_recent_find(r, 7, c, 0, &token));
    bgi_recent_put(r, 7, c, token, 0, 0);
    bgi_recent_forget(r, 7, a);
    CHECK(!bgi_recent_find(r, 7, a, 0, &token));
    CHECK(bgi_recent_find(r, 7, c, 0, &token));
    bgi_recent_free(r);
}

TEST(recent__the_expired_go_first_and_then_the_oldest)
{
    struct bgi_recent *r = bgi_recent_create(4, 8, 100, NULL); /* one set */
    const char *names = "abcdefgh";
    uint64_t token, at[4] = { 50, 20, 30, 40 };
    for (size_t i = 0; i < 4; i++) {
        CHECK(!bgi_recent_find(r, i, (bg_bytes){ names + i, 1 }, 50, &token));
        bgi_recent_put(r, i, (bg_bytes){ names + i, 1 }, token, at[i], 50);
    }
    CHECK_EQ(bgi_recent_count(r, 50), 4);
    bgi_recent_put(r, 4, (bg_bytes){ "e", 1 }, token, 60, 60);
    CHECK(!bgi_recent_find(r, 1, (bg_bytes){ "b", 1 }, 60, &token)); /* the oldest */
    CHECK_EQ(bgi_recent_count(r, 60), 4);
    bgi_recent_put(r, 5, (bg_bytes){ "f", 1 }, token, 140, 140);
    CHECK(bgi_recent_find(r, 0, (bg_bytes){ "a", 1 }, 140, &token));
    CHECK(bgi_recent_find(r, 5, (bg_bytes){ "f", 1 }, 140, &token));
    CHECK_EQ(bgi_recent_count(r, 140), 3); /* c expired at 130 and went, d at 140 */
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
        CHECK(!bgi_recent_find(r, hash, bytes, i, &token));
        bgi_recent_put(r, hash, bytes, token, i, i);
        CHECK(bgi_recent_find(r, hash, bytes, i, &token));
    }
    state = 5;
    for (uint64_t i = 0; i < N; i++) {
        key = i;
        kept += bgi_recent_find(r, check_random_next(&state),
                                (bg_bytes){ &key, sizeof key }, N, &token);
    }
    CHECK_EQ(kept, bgi_recent_count(r, N));
    CHECK(kept > 900);
    CHECK(kept <= 1000);
    bgi_recent_free(r);
}

/* ---- Single flight, as far as one thread goes ---------------------------------------- */

static void look_again_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    CHECK_EQ(look(w, key), BG_PRESENT); /* must not wait for itself */
    CHECK_EQ(look(w, key + 1), BG_PRESENT);
}

TEST(gate__a_question_may_look_up_its_own_key)
{
    struct world *w = world_make(0.05);
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    w->inside = look_again_inside;
    CHECK_EQ(look(w, 1), BG_PRESENT);
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
    CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->asks, 1);
    CHECK_EQ(w->trace.audited, 1);
    w->has[planted] = true; /* past the gate */
    CHECK_EQ(look(w, planted), BG_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    CHECK_EQ(w->alarm.key_hash, hash);
    CHECK_EQ(w->alarm.count, 1);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.audits, 2);
    CHECK_EQ(s.false_negatives, 1);
    CHECK_EQ(s.outcomes[BG_PRESENT], 1);
    CHECK_EQ(s.outcomes[BG_ABSENT_BY_FILTER], 1);
    CHECK_EQ(s.avoided, 0); /* the truth was asked */
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
    CHECK_EQ(outcomes[planted - 900], BG_PRESENT);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 2000);
    CHECK_EQ(s.outcomes[BG_PRESENT], present);
    CHECK_EQ(s.false_negatives, 1);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    CHECK_EQ(s.truth_calls, 2000);
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
    w->fails = BG_TRUTH_ERROR;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER);
    }
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(w->asks, 2); /* then the breaker kept them away */
    CHECK_EQ(s.breaker, 1);
    CHECK_EQ(s.audits, 2);
    CHECK_EQ(s.truth_errors, 2);
    CHECK_EQ(s.avoided, 3);
    CHECK_EQ(s.spared_by_breaker, 0); /* nobody had to do without */
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
            CHECK_EQ(look(w, lucky), BG_ABSENT_BY_FILTER);
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
    CHECK_EQ(look(w, key), BG_PRESENT);
}

/* The truth has the key already and the filter not yet: that is how writes are. */
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
    CHECK_OK(bg_gate_wrote(w->gate, &key, sizeof key));
    w->fails = BG_TRUTH_PRESENT;
}

TEST(gate__a_write_during_an_audit_is_no_alarm)
{
    struct world *w = world_make(0.05);
    w->how.audit = 1;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, false);
    w->inside = add_inside;
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 0);
    world_end(w);
}

/* ---- Tickets ----------------------------------------------------------------------- */

TEST(gate__begins_and_finishes)
{
    struct world *w = world_make(0.05);
    w->how.ask = NULL;
    w->how.negative_entries = 10;
    w->how.trace = world_trace;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false), one = 1;
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    bg_ticket ticket = { 0 };
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, NULL),
             BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->traces, 1);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, NULL), BG_PENDING);
    CHECK_EQ(stats_of(w->gate, false).lookups, 1);
    w->now += 50;
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_PRESENT);
    CHECK_EQ(w->trace.truth_nanoseconds, 50);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, NULL), BG_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_ERROR), BG_UNKNOWN);
    CHECK_EQ(bg_gate_begin(w->gate, &unlucky, sizeof unlucky, &ticket, NULL),
             BG_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_ABSENT), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(bg_gate_begin(w->gate, &unlucky, sizeof unlucky, &ticket, NULL),
             BG_ABSENT_BY_CACHE);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 5);
    CHECK_EQ(s.truth_calls, 3);
    CHECK_EQ(s.truth_errors, 1);
    CHECK_EQ(w->traces, 5);
    world_end(w);
}

TEST(gate__audits_by_ticket)
{
    struct world *w = world_make(0.05);
    w->how.ask = NULL;
    w->how.audit = 1;
    w->how.trace = world_trace;
    world_open(w);
    const uint64_t lucky = absent_key(w, PRESENT, false);
    bg_ticket ticket = { 0 };
    bool audit = false;
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, NULL),
             BG_ABSENT_BY_FILTER); /* no audits wanted */
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_ABSENT_BY_FILTER);
    CHECK(audit);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_ABSENT), BG_ABSENT_BY_FILTER);
    CHECK_EQ(w->trace.audited, 1);
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_ERROR), BG_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_begin(w->gate, &lucky, sizeof lucky, &ticket, &audit),
             BG_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    const uint64_t one = 1;
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &ticket, &audit), BG_PENDING);
    CHECK(!audit);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_PRESENT);
    bg_gate_stats s = stats_of(w->gate, false);
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
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &a, BG_TRUTH_ERROR), BG_FAILED);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_FAILED);
    w->now += 100;
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &a, NULL), BG_PENDING);
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &b, NULL), BG_FAILED);
    w->now += 100; /* that ticket is lost, it seems */
    CHECK_EQ(bg_gate_begin(w->gate, &one, sizeof one, &b, NULL), BG_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &b, BG_TRUTH_PRESENT), BG_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).breaker, 0);
    CHECK_EQ(bg_gate_finish(w->gate, &a, BG_TRUTH_PRESENT), BG_PRESENT);
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
    outcomes[n] = BG_PENDING;
    const uint64_t before = w->asks;
    const size_t told = bg_gate_lookup_many(w->gate, bytes, n, requests, outcomes);
    CHECK_EQ(outcomes[n], BG_PENDING);
    const uint64_t asked = w->asks - before;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(look(w, keys[i]), outcomes[i]);
        CHECK(outcomes[i] != BG_PRESENT || rows[i] == keys[i]);
        found += outcomes[i] == BG_PRESENT || outcomes[i] == BG_UNKNOWN;
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
        w->fails = way == 3 ? BG_TRUTH_ERROR : BG_TRUTH_ABSENT;
        uint64_t all = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            batch_equals_single(w, sizes[i]);
            all += 3 * sizes[i];
        }
        bg_gate_stats s = stats_of(w->gate, false);
        CHECK_EQ(s.lookups, all);
        CHECK_EQ(s.truth_calls, w->asks);
        CHECK_EQ(w->traces, way == 2 ? all : 0);
        CHECK_EQ(s.avoided + s.truth_calls, all);
        world_end(w);
    }
}

/* ---- Writes that cannot be added ----------------------------------------------------- */

static bg_filter *full_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_CUCKOO;
    spec.items = 50;
    spec.rate = 0.001;
    bg_filter *filter = must_create(&spec);
    uint64_t key = 0;
    while (bg_filter_insert(filter, &key, sizeof key, NULL) == BG_OK) {
        key++;
    }
    return filter;
}

/* Replaces the filter of the world by a full one. */
static void world_fill(struct world *w)
{
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(full_filter(), NULL, &w->slot, NULL));
}

/* A key that cannot be added and is not there by chance. */
static uint64_t refused_key(struct world *w)
{
    uint64_t key = KEYS - 1;
    while (maybe(w, key) || bg_slot_add(w->slot, &key, sizeof key, NULL) == BG_OK) {
        key--;
    }
    return key;
}

TEST(gate__a_key_that_cannot_be_added_makes_every_answer_maybe)
{
    struct world *w = world_make(0.05);
    world_fill(w);
    world_open(w);
    const uint64_t key = refused_key(w), other = absent_key(w, PRESENT, false);
    bg_outcome outcomes[2];
    bg_bytes both[2] = { { &key, sizeof key }, { &other, sizeof other } };
    bg_ticket ticket = { 0 };
    CHECK_EQ(look(w, key), BG_ABSENT_BY_FILTER);
    CHECK_EQ(put(w, key), BG_EFULL);
    CHECK(w->has[key]);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(look(w, other), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(bg_gate_lookup_many(w->gate, both, 2, NULL, outcomes), 1);
    CHECK_EQ(outcomes[0], BG_PRESENT);
    CHECK_EQ(outcomes[1], BG_ABSENT_BY_TRUTH);
    CHECK(bg_gate_may_contain(w->gate, &key, sizeof key));
    CHECK(bg_gate_may_contain(w->gate, &other, sizeof other));
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, NULL), BG_PENDING);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_TRUTH_PRESENT), BG_PRESENT);
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.write_errors, 1);
    CHECK_EQ(s.wasted, 0); /* no false positives */
    CHECK_EQ(s.observed.value > 0, false);
    /* Another base, which has it. */
    bg_filter *whole = world_filter(0.001);
    (void)bg_filter_add(whole, &key, sizeof key);
    CHECK_OK(bg_slot_swap(w->slot, whole, 0, BG_SLOT_DISCARD, NULL));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_ABSENT_BY_FILTER);
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
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(look(w, other), BG_ABSENT_BY_TRUTH);
    CHECK_EQ(look(w, other), BG_ABSENT_BY_CACHE); /* that is the truth's word */
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.audits + s.false_negatives, 0);
    CHECK_EQ(s.doubtful, 1);
    CHECK_EQ(s.observed.value > 0, false);
    world_end(w);
}

/* ---- Figures ----------------------------------------------------------------------- */

/* The true rate of a filter, over the absent keys that are asked for. */
static double true_rate(const struct world *w)
{
    uint64_t hits = 0;
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        hits += maybe(w, key);
    }
    return (double)hits / (KEYS - PRESENT);
}

/* Every key is looked up as often as every other. */
TEST(gate__observes_the_true_rate_and_avoids_as_planned)
{
    static const double rates[] = { 0.2, 0.05, 0.01 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct world *w = world_make(rates[i]);
        world_open(w);
        const double rate = true_rate(w);
        const uint64_t absent = 5 * (KEYS - PRESENT);
        for (uint64_t k = 0; k < 5 * KEYS; k++) {
            (void)look(w, k * 7 % KEYS);
        }
        bg_gate_stats s = stats_of(w->gate, true);
        CHECK_EQ(s.avoided + s.wasted, absent);
        CHECK_NEAR(s.observed.value, rate, 1e-9);
        CHECK(s.observed.low < rate && rate < s.observed.high);
        CHECK(s.observed.high - s.observed.low < 0.02);
        CHECK_NEAR(s.avoided, (double)absent * (1 - rate), 1e-9);
        CHECK_NEAR(s.avoided, (double)absent * (1 - rates[i]), 0.03);
        CHECK(s.predicted > 0.5 * rates[i] && s.predicted < 1.5 * rates[i]);
        CHECK_EQ(s.drifting, 0);
        world_end(w);
    }
}

/* Of many samples 95 % should have the true rate in their interval. */
TEST(gate__the_observed_interval_is_one_of_95_percent)
{
    enum { SAMPLES = 300, LOOKS = 1000 };
    struct world *w = world_make(0.05);
    const double rate = true_rate(w);
    int inside = 0, above = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        world_open(w);
        for (int k = 0; k < LOOKS; k++) {
            (void)look(w, PRESENT + check_random_below(KEYS - PRESENT));
        }
        const bg_estimate seen = stats_of(w->gate, false).observed;
        inside += seen.low <= rate && rate <= seen.high;
        above += seen.value > rate;
        bg_gate_free(w->gate);
    }
    w->gate = NULL;
    CHECK(inside > SAMPLES * 88 / 100); /* five deviations */
    CHECK(inside < SAMPLES);
    CHECK(above > SAMPLES / 3 && above < 2 * SAMPLES / 3);
    world_end(w);
}

TEST(gate__the_observed_rate_is_that_of_the_filter_whatever_else_is_on)
{
    struct world *w = world_make(0.1);
    w->how.audit = 0.5;
    w->how.negative_entries = 10000;
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    for (uint64_t k = 0; k < 5 * KEYS; k++) {
        (void)look(w, k % KEYS);
    }
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK(s.negative_hits > 100);
    CHECK(s.audits > 100);
    CHECK_NEAR(s.observed.value, true_rate(w), 1e-9);
    world_end(w);
}

TEST(gate__sees_that_the_rate_is_not_the_predicted_one)
{
    struct world *w = world_make(0.01);
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK_EQ(stats_of(w->gate, true).drifting, 0);
    for (int i = 0; i < 500; i++) { /* somebody knows a key that hurts */
        (void)look(w, unlucky);
    }
    CHECK_EQ(stats_of(w->gate, true).drifting, 1);
    CHECK_EQ(stats_of(w->gate, false).drifting, 0); /* not asked */
    world_end(w);
}

TEST(gate__a_new_base_has_a_rate_of_its_own)
{
    struct world *w = world_make(0.2);
    world_open(w);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK(stats_of(w->gate, false).observed.low > 0.1);
    CHECK_OK(bg_slot_swap(w->slot, world_filter(0.001), 0, BG_SLOT_DISCARD, NULL));
    CHECK(stats_of(w->gate, false).observed.low < 0.001);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK(s.observed.high < 0.02);
    CHECK_EQ(s.lookups, 2 * (KEYS - PRESENT)); /* other figures go on */
    world_end(w);
}

TEST(gate__notices_a_new_base_without_being_asked_for_figures)
{
    struct world *w = world_make(0.2);
    world_open(w);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK_OK(bg_slot_swap(w->slot, world_filter(0.001), 0, BG_SLOT_DISCARD, NULL));
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK(s.observed.high < 0.02);
    CHECK(s.wasted > 100);
    world_end(w);
}

TEST(gate__learns_from_reports)
{
    struct world *w = world_make(0.1);
    world_open(w);
    const double rate = true_rate(w);
    uint64_t reports = 0, wrong = 0, passed = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (bg_gate_may_contain(w->gate, &key, sizeof key) && passed++ % 2 == 0) {
            bg_gate_report(w->gate, w->has[key]); /* every other one is told */
            reports++;
            wrong += !w->has[key];
        }
    }
    bg_gate_stats s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 0);
    CHECK_EQ(s.truth_calls, 0);
    CHECK_EQ(s.reported, reports);
    CHECK_EQ(s.wasted, wrong);
    CHECK(s.observed.low <= rate && rate <= s.observed.high);
    CHECK(s.observed.high < 0.2);
    world_end(w);
}

/* ---- Maintenance -------------------------------------------------------------------- */

/* A source of all keys that the truth has. */
struct reader {
    struct world *w;
    uint64_t at;
    uint64_t keys[64];
    void (*inside)(struct world *w);
};

static bg_err reader_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct reader *r = context;
    (void)info;
    *n = 0;
    for (; r->at < KEYS && *n < room && *n < 64; r->at++) {
        if (r->w->has[r->at]) {
            r->keys[*n] = r->at;
            keys[*n] = (bg_bytes){ &r->keys[*n], sizeof r->at };
            ++*n;
        }
    }
    if (r->at == KEYS && r->inside) {
        void (*inside)(struct world *) = r->inside;
        r->inside = NULL;
        inside(r->w);
    }
    return BG_OK;
}

static bg_rebuild_options rebuilding(bg_kind kind)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = (uint32_t)kind;
    how.spec.items = 2000;
    how.spec.rate = 0.001;
    return how;
}

TEST(gate__is_rebuilt_when_the_observed_rate_is_too_high)
{
    struct world *w = world_make(0.01);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    bg_policy policy = BG_POLICY_INIT;
    uint32_t reasons = 99;
    policy.fill = policy.predicted = 0;
    world_open(w);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, 0);
    CHECK_EQ(reader.at, 0);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    for (int i = 0; i < 1000; i++) {
        (void)look(w, unlucky);
    }
    CHECK_OK(bg_gate_maintain(w->gate, &policy, NULL, NULL, &reasons, NULL));
    CHECK_EQ(reasons, BG_REASON_OBSERVED);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, BG_REASON_OBSERVED);
    CHECK_EQ(reader.at, KEYS);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, 0); /* not again and again for what is past */
    for (uint64_t key = 0; key < PRESENT; key++) {
        CHECK_EQ(look(w, key), BG_PRESENT);
    }
    world_end(w);
}

TEST(gate__doubt_is_a_reason_to_rebuild)
{
    struct world *w = world_make(0.05);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, 2000 };
    uint32_t reasons = 0;
    world_fill(w);
    world_open(w);
    const uint64_t key = refused_key(w);
    CHECK_EQ(put(w, key), BG_EFULL);
    CHECK_OK(bg_gate_maintain(w->gate, NULL, &source, &how, &reasons, NULL));
    CHECK(reasons & BG_REASON_DEGRADED);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_ABSENT_BY_FILTER);
    world_end(w);
}

/* Opens a gate on a slot that takes no adds; returns a key that it denies. */
static uint64_t world_seal(struct world *w)
{
    bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
    sealed.flags = BG_SLOT_SEALED;
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(world_filter(0.05), &sealed, &w->slot, NULL));
    world_open(w);
    return absent_key(w, PRESENT, false);
}

static void write_late(struct world *w)
{
    const uint64_t key = absent_key(w, PRESENT, false);
    CHECK_EQ(put(w, key), BG_ENOTSUP); /* the source is past it */
}

TEST(gate__a_rebuild_under_way_ends_no_doubt)
{
    struct world *w = world_make(0.05);
    const uint64_t key = world_seal(w);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w, .inside = write_late };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
    CHECK(reader.inside == NULL);
    CHECK(!maybe(w, key));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    reader = (struct reader){ .w = w };
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_PRESENT);
    world_end(w);
}

TEST(gate__a_base_that_may_be_older_ends_no_doubt)
{
    struct world *w = world_make(0.05);
    const char *path = files_path("older.bg");
    bg_filter *older = world_filter(0.05);
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 100;
    spec.rate = 0.05;
    CHECK_OK(bg_save(older, path, NULL, NULL));
    const uint64_t key = world_seal(w);
    CHECK_EQ(put(w, key), BG_ENOTSUP);
    CHECK_OK(bg_slot_swap(w->slot, older, 0, 0, NULL));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_OK(bg_slot_reload(w->slot, path, NULL, NULL));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_OK(bg_slot_layer(w->slot, must_create(&spec), NULL));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_OK(bg_slot_migrate(w->slot, world_filter(0.01), NULL));
    CHECK_OK(bg_slot_settle(w->slot, true, NULL));
    CHECK_EQ(look(w, key), BG_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK(!maybe(w, key));
    how.flags = BG_SLOT_DISCARD; /* the caller says that he knows better */
    bg_filter *newer = world_filter(0.01);
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    saving.generation = 2;
    (void)bg_filter_add(newer, &key, sizeof key);
    CHECK_OK(bg_save(newer, path, &saving, NULL));
    CHECK_OK(bg_slot_reload(w->slot, path, &how, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_PRESENT);
    bg_filter_free(newer);
    world_end(w);
}

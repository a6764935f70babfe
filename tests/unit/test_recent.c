/*
 * Checks that backing-store answers are not used once they have become invalid. The tests run the
 * cache operations find, put and forget, and an event that ends an era (see recent.c), in every
 * order. They cover the negative cache, shared queries and tickets.
 */
#include "support/adds.h"
#include "support/gate_world.h"

#include "gate/flight.h"
#include "gate/recent.h"

/* ---- The cache alone ----------------------------------------------------------------- */

static const bg_bytes apple = { "apple", 5 }, pear = { "pear", 4 };

/* Creates a cache with one set, so that all keys share a version. */
static struct bgi_recent *one_set(void)
{
    return bgi_recent_create(4, 16, UINT64_MAX, NULL);
}

static bool find(struct bgi_recent *r, bg_bytes key, uint64_t era, uint64_t *token)
{
    return bgi_recent_find(r, key.len, key, era, 0, token);
}

static void remember(struct bgi_recent *r, bg_bytes key, uint64_t token)
{
    bgi_recent_put(r, key.len, key, token, 0, 0);
}

TEST(recent__a_later_era_finds_nothing_of_before)
{
    struct bgi_recent *r = one_set();
    uint64_t token;
    CHECK(!find(r, apple, 1, &token));
    remember(r, apple, token);
    CHECK(find(r, apple, 1, &token));
    CHECK_EQ(bgi_recent_count(r, 1, 0), 1);
    CHECK_EQ(bgi_recent_count(r, 2, 0), 0);
    CHECK(!find(r, apple, 2, &token));
    /* A lookup that started in the earlier era does not find the key, either. */
    CHECK(!find(r, apple, 1, &token));
    CHECK_EQ(bgi_recent_count(r, 1, 0), 0);
    bgi_recent_free(r);
}

TEST(recent__an_answer_that_an_event_overtook_is_not_found)
{
    struct bgi_recent *r = one_set();
    uint64_t token, later;
    CHECK(!find(r, apple, 1, &token));
    remember(r, apple, token); /* an event ended era 1 between find and put */
    CHECK(!find(r, apple, 2, &later));
    bgi_recent_free(r);
}

TEST(recent__an_answer_that_a_later_lookup_overtook_is_not_put)
{
    struct bgi_recent *r = one_set();
    uint64_t token, later;
    CHECK(!find(r, apple, 1, &token));
    CHECK(!find(r, pear, 2, &later)); /* this key is in the same set */
    remember(r, apple, token);
    CHECK(!find(r, apple, 2, &later));
    CHECK_EQ(bgi_recent_count(r, 2, 0), 0);
    CHECK(!find(r, apple, 2, &token));
    remember(r, apple, token);
    CHECK(find(r, apple, 2, &later));
    bgi_recent_free(r);
}

TEST(recent__a_lookup_of_an_earlier_era_gets_no_token)
{
    struct bgi_recent *r = one_set();
    uint64_t token, later;
    CHECK(!find(r, pear, 2, &later));
    remember(r, pear, later);
    CHECK(!find(r, apple, 1, &token));
    CHECK_EQ(token, 0);
    remember(r, apple, token);
    CHECK_EQ(bgi_recent_count(r, 2, 0), 1); /* the put has no effect */
    CHECK(find(r, pear, 2, &later));
    bgi_recent_free(r);
}

TEST(recent__a_write_and_an_event_in_any_order_leave_nothing)
{
    for (int write_first = 0; write_first < 2; write_first++) {
        struct bgi_recent *r = one_set();
        uint64_t token, later;
        CHECK(!find(r, apple, 1, &token));
        if (write_first) {
            bgi_recent_forget(r, apple.len, apple);
            CHECK(!find(r, pear, 2, &later));
        } else {
            CHECK(!find(r, pear, 2, &later));
            bgi_recent_forget(r, apple.len, apple);
        }
        remember(r, apple, token);
        CHECK(!find(r, apple, 2, &later));
        remember(r, pear, 0); /* a token of 0 is never valid */
        CHECK(!find(r, pear, 2, &later));
        bgi_recent_free(r);
    }
}

/*
 * Each of two lookups has three steps: start (read the era), find and put. In addition, the key is
 * written once and an event occurs once. A third lookup starts after any of these steps. It must
 * not find an answer if the write or the event occurred after the query that returned this answer.
 */
enum step {
    BEGIN,
    FIND,
    PUT,
    WRITE = 6,
    EVENT,
    STEPS
}; /* 0..2 and 3..5: the lookups */

struct story {
    struct bgi_recent *r;
    uint64_t era, eras[2], tokens[2];
    /* The total number of writes and events, and that total just before each lookup's query. */
    unsigned happened, asked[2];
    bool told[2];
};

static void story_step(struct story *s, unsigned step)
{
    const unsigned who = step / 3;
    if (step == WRITE) {
        bgi_recent_forget(s->r, apple.len, apple);
        s->happened++;
    } else if (step == EVENT) {
        s->era++;
        s->happened++;
    } else if (step % 3 == BEGIN) {
        s->eras[who] = s->era;
    } else if (step % 3 == FIND) {
        (void)find(s->r, apple, s->eras[who], &s->tokens[who]);
        s->asked[who] =
            s->happened; /* the lookup queries the store right after the find */
    } else {
        remember(s->r, apple, s->tokens[who]);
        s->told[who] = true;
    }
}

/* Runs the first n steps of `order`. Returns whether a lookup that starts afterwards finds the
 * key. */
static bool story_ends(const unsigned order[STEPS], unsigned n)
{
    struct story s = { .r = one_set(), .era = 1 };
    uint64_t token;
    bool valid = false;
    for (unsigned i = 0; i < n; i++) {
        story_step(&s, order[i]);
    }
    for (unsigned who = 0; who < 2; who++) {
        valid = valid || (s.told[who] && s.asked[who] == s.happened);
    }
    const bool finds = find(s.r, apple, s.era, &token);
    CHECK(!finds || valid);
    bgi_recent_free(s.r);
    return finds;
}

/* Runs all orders that start with the first n steps of `order`, and returns their number. */
static unsigned story_run(unsigned order[STEPS], unsigned n, unsigned used,
                          unsigned *found)
{
    unsigned orders = n == STEPS;
    *found += story_ends(order, n);
    for (unsigned step = 0; step < STEPS; step++) {
        const bool starts = step >= WRITE || step % 3 == BEGIN;
        if (!(used >> step & 1) && (starts || used >> (step - 1) & 1)) {
            order[n] = step;
            orders += story_run(order, n + 1, used | 1u << step, found);
        }
    }
    return orders;
}

TEST(recent__no_order_of_lookups_write_and_event_leaves_a_void_answer)
{
    unsigned order[STEPS], found = 0;
    CHECK_EQ(story_run(order, 0, 0, &found), 1120); /* 8! / (3! * 3!) */
    CHECK(found > 0);
}

TEST(flight__a_lookup_of_a_later_era_does_not_join)
{
    struct bgi_flights *flights = bgi_flights_create(NULL);
    struct bgi_flight early = { .hash = 5, .era = 1, .key = apple }, late = early,
                      stale = early;
    late.era = 2;
    CHECK_EQ(bgi_flight_board(flights, &early), BGI_FLIGHT_LEADS);
    CHECK_EQ(bgi_flight_board(flights, &late), BGI_FLIGHT_LEADS);
    CHECK_EQ(bgi_flight_board(flights, &stale), BGI_FLIGHT_ALONE);
    bgi_flight_land(flights, &early, 0);
    bgi_flight_land(flights, &late, 1);
    bgi_flights_free(flights);
}

/* ---- Events that end an era ------------------------------------------------------ */

/* A source that returns all keys in the backing store. */
struct reader {
    struct world *w;
    uint64_t at, key;
};

static bg_err reader_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct reader *r = context;
    (void)info;
    (void)room;
    *n = 0;
    while (r->at < KEYS && !r->w->has[r->at]) {
        r->at++;
    }
    if (r->at < KEYS) {
        r->key = r->at++;
        keys[(*n)++] = (bg_bytes){ &r->key, sizeof r->key };
    }
    return BG_OK;
}

static bg_filter *filter_with(uint64_t key)
{
    bg_filter *filter = world_filter(0.05);
    (void)added(filter, &key, sizeof key);
    return filter;
}

static void owner_forgets(struct world *w, uint64_t key)
{
    (void)key;
    bg_gate_forget_absent(w->gate);
}

static void slot_swaps(struct world *w, uint64_t key)
{
    CHECK_OK(bg_slot_swap(w->slot, filter_with(key), 0, BG_SLOT_DISCARD, NULL));
}

static void slot_rebuilds(struct world *w, uint64_t key)
{
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    (void)key;
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
}

static void slot_reloads(struct world *w, uint64_t key)
{
    const char *path = files_path("filter");
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_filter *filter = filter_with(key);
    how.flags = BG_SLOT_DISCARD;
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    CHECK_OK(bg_slot_reload(w->slot, path, &how, NULL));
    bg_filter_free(filter);
    files_clean();
}

static void slot_migrates(struct world *w, uint64_t key)
{
    CHECK_OK(bg_slot_begin_migration(w->slot, filter_with(key), NULL));
}

static void slot_settles(struct world *w, uint64_t key)
{
    (void)key;
    CHECK_OK(bg_slot_end_migration(w->slot, false, NULL));
}

static void slot_clears(struct world *w, uint64_t key)
{
    CHECK_OK(bg_slot_clear(w->slot, NULL));
    CHECK_OK(bg_slot_add(w->slot, &key, sizeof key, NULL));
}

static void slot_merges(struct world *w, uint64_t key)
{
    bg_filter *filter = filter_with(key);
    CHECK_OK(bg_slot_merge(w->slot, filter, NULL));
    bg_filter_free(filter);
}

static void slot_compacts(struct world *w, uint64_t key)
{
    CHECK_OK(bg_slot_set_delta(w->slot, filter_with(key), NULL));
    CHECK_OK(bg_slot_compact(w->slot, world_filter(0.05), NULL));
}

static void begin_migration(struct world *w, uint64_t key)
{
    CHECK_OK(bg_slot_begin_migration(w->slot, filter_with(key), NULL));
}

/* Events that invalidate earlier answers, each with the step, if any, that must precede it. */
static const struct event {
    void (*happens)(struct world *w, uint64_t key);
    void (*before)(struct world *w, uint64_t key);
} events[] = {
    { owner_forgets, NULL }, { slot_swaps, NULL },    { slot_rebuilds, NULL },
    { slot_reloads, NULL },  { slot_migrates, NULL }, { slot_settles, begin_migration },
    { slot_clears, NULL },   { slot_merges, NULL },   { slot_compacts, NULL },
};

enum { EVENTS = sizeof events / sizeof *events };

static const struct event *event; /* the event under test */

/* Creates a gate with a cache whose entries never expire. Sets *key to an absent key for which the
 * filter answers "maybe". */
static struct world *world_of(const struct event *tested, uint32_t flags, uint64_t *key)
{
    struct world *w = world_make(0.05);
    event = tested;
    w->how.negative_entries = 100;
    w->how.negative_ttl = UINT64_MAX;
    w->how.flags = flags;
    world_open(w);
    *key = absent_key(w, PRESENT, true);
    if (event->before) {
        event->before(w, *key);
    }
    return w;
}

TEST(gate__an_event_makes_the_remembered_void)
{
    for (size_t i = 0; i < EVENTS; i++) {
        uint64_t key;
        struct world *w = world_of(&events[i], 0, &key);
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
        CHECK_EQ(stats_of(w->gate, false).negative_entries, 1);
        w->has[key] = true; /* bypassing the gate */
        event->happens(w, key);
        CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
        CHECK(bg_gate_may_contain(w->gate, &key, sizeof key));
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        w->has[key] = false; /* from now on, answers are cached as before */
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
        world_end(w);
    }
}

/* Called after the backing store has answered "absent" and before the lookup receives the answer.
 * Writes the key, and triggers the event. */
static void event_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    w->has[key] = true;
    event->happens(w, key);
}

TEST(gate__an_answer_that_an_event_overtook_is_not_remembered)
{
    for (size_t i = 0; i < 2 * EVENTS; i++) {
        uint64_t key;
        struct world *w =
            world_of(&events[i / 2], i % 2 ? BG_GATE_SINGLE_FLIGHT : 0, &key);
        w->inside = event_inside;
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        world_end(w);
    }
}

static void event_and_look_inside(struct world *w, uint64_t key)
{
    event_inside(w, key);
    /* This lookup must not share the answer to the outer lookup. */
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
}

TEST(gate__a_lookup_inside_of_an_overtaken_one_asks)
{
    for (size_t i = 0; i < 2 * EVENTS; i++) {
        uint64_t key;
        struct world *w =
            world_of(&events[i / 2], i % 2 ? BG_GATE_SINGLE_FLIGHT : 0, &key);
        w->inside = event_and_look_inside;
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        CHECK_EQ(stats_of(w->gate, false).shared, 0);
        world_end(w);
    }
}

TEST(gate__a_ticket_that_an_event_overtook_is_not_remembered)
{
    for (size_t i = 0; i < EVENTS; i++) {
        uint64_t key;
        struct world *w = world_of(&events[i], 0, &key);
        bg_ticket ticket = { 0 };
        CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, NULL),
                 BG_OUTCOME_PENDING);
        w->has[key] = true;
        event->happens(w, key);
        CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_ABSENT),
                 BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        world_end(w);
    }
}

TEST(gate__a_batch_uses_nothing_that_is_void)
{
    for (size_t i = 0; i < EVENTS; i++) {
        uint64_t key;
        struct world *w = world_of(&events[i], 0, &key);
        const bg_bytes bytes = { &key, sizeof key };
        bg_outcome outcome;
        CHECK_EQ(bg_gate_lookup_many(w->gate, &bytes, 1, NULL, &outcome), 0);
        CHECK_EQ(outcome, BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(bg_gate_lookup_many(w->gate, &bytes, 1, NULL, &outcome), 0);
        CHECK_EQ(outcome, BG_OUTCOME_ABSENT_BY_CACHE);
        w->has[key] = true;
        event->happens(w, key);
        CHECK_EQ(bg_gate_lookup_many(w->gate, &bytes, 1, NULL, &outcome), 1);
        CHECK_EQ(outcome, BG_OUTCOME_PRESENT);
        world_end(w);
    }
}

/* Neither adding a delta nor a failed rebuild changes the base, so cached answers stay valid. */
TEST(gate__a_delta_and_a_failed_rebuild_keep_the_cache)
{
    struct world *w = world_make(0.05);
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    w->how.negative_entries = 100;
    world_open(w);
    const uint64_t key = absent_key(w, PRESENT, true);
    CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_OK(bg_slot_set_delta(w->slot, world_filter(0.001), NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
    how.spec.items = PRESENT;
    how.delta = world_filter(0.001);
    CHECK_OK(bg_slot_begin_rebuild(w->slot, &how, &rebuild, NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
    bg_rebuild_abort(rebuild);
    CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
    world_end(w);
}

TEST(gate__forgetting_without_a_cache_or_a_gate_does_nothing)
{
    struct world *w = world_make(0.05);
    world_open(w);
    bg_gate_forget_absent(NULL);
    bg_gate_forget_absent(w->gate);
    CHECK_EQ(look(w, 1), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    world_end(w);
}

/* ---- Doubt ---------------------------------------------------------------------------- */

static void owner_doubts(struct world *w, uint64_t key)
{
    (void)key;
    bg_gate_doubt(w->gate);
}

static const struct event doubt = { owner_doubts, NULL };

TEST(gate__in_doubt_every_lookup_asks)
{
    uint64_t unlucky;
    struct world *w = world_of(&doubt, 0, &unlucky);
    const uint64_t denied = absent_key(w, PRESENT, false);
    bg_gate *second = NULL; /* another gate on the same slot */
    CHECK_OK(bg_gate_create(w->slot, &w->how, &second, NULL));
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(bg_gate_lookup(second, &unlucky, sizeof unlucky, NULL),
             BG_OUTCOME_ABSENT_BY_STORE);
    w->has[denied] = true;
    CHECK_EQ(look(w, denied), BG_OUTCOME_ABSENT_BY_FILTER);
    bg_gate_doubt(w->gate);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_EQ(look(w, denied), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE); /* not cached either */
    CHECK(bg_gate_may_contain(w->gate, &unlucky, sizeof unlucky));
    w->has[unlucky] = true;
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_PRESENT);
    CHECK_EQ(bg_gate_lookup(second, &denied, sizeof denied, NULL), BG_OUTCOME_PRESENT);
    CHECK_EQ(bg_gate_lookup(second, &unlucky, sizeof unlucky, NULL),
             BG_OUTCOME_PRESENT);
    bg_gate_doubt(NULL);
    bg_gate_free(second);
    world_end(w);
}

TEST(gate__doubt_ends_with_a_rebuild_that_begins_later)
{
    uint64_t unlucky;
    struct world *w = world_of(&doubt, 0, &unlucky);
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    how.spec.items = PRESENT;
    CHECK_OK(bg_slot_begin_rebuild(w->slot, &how, &rebuild, NULL));
    const uint64_t denied = absent_key(w, PRESENT, false);
    w->has[denied] = true;
    bg_gate_doubt(w->gate);
    /* The rebuild has not read the key, so the gate stays in doubt. */
    CHECK_OK(bg_rebuild_commit(rebuild, NULL, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_EQ(look(w, denied), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_ABSENT_BY_STORE);
    w->has[unlucky] = true;
    slot_rebuilds(w, 0);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, denied), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, unlucky), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    world_end(w);
}

TEST(gate__an_answer_that_a_doubt_overtook_is_not_used)
{
    for (uint32_t flight = 0; flight < 2; flight++) {
        uint64_t key;
        struct world *w = world_of(&doubt, flight ? BG_GATE_SINGLE_FLIGHT : 0, &key);
        w->inside = event_and_look_inside;
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        slot_rebuilds(w, key);
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        world_end(w);
    }
}

/* ---- Audits --------------------------------------------------------------------------- */

/* Creates a gate that audits every "no" answer from a filter that supports removing keys. */
static struct world *world_of_audits(void)
{
    struct world *w = world_make(0.05);
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_COUNTING;
    spec.items = PRESENT;
    spec.rate = 0.001;
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(must_create(&spec), NULL, &w->slot, NULL));
    w->how.negative_entries = 100;
    w->how.negative_ttl = UINT64_MAX;
    w->how.audit = 1;
    world_open(w);
    return w;
}

static bg_outcome look_in_batch(struct world *w, uint64_t key)
{
    const bg_bytes bytes = { &key, sizeof key };
    bg_outcome outcome;
    CHECK_EQ(bg_gate_lookup_many(w->gate, &bytes, 1, NULL, &outcome), 1);
    return outcome;
}

static bg_outcome look_by_ticket(struct world *w, uint64_t key)
{
    bg_ticket ticket = { 0 };
    bool audit = false;
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK(audit);
    return bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT);
}

/* A key is cached as absent. It is then removed from the filter, and written to the backing store
 * without using the gate. Once an audit has found the key, the key must no longer be cached as
 * absent. */
TEST(gate__what_an_audit_finds_is_not_remembered_as_absent)
{
    static bg_outcome (*const ways[])(struct world *, uint64_t) = { look, look_in_batch,
                                                                    look_by_ticket };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct world *w = world_of_audits();
        const uint64_t key = PRESENT;
        bg_ticket slow = { 0 };
        CHECK_OK(bg_slot_add(w->slot, &key, sizeof key, NULL));
        CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &slow, NULL),
                 BG_OUTCOME_PENDING);
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_CACHE);
        CHECK_OK(bg_slot_remove(w->slot, &key, sizeof key));
        w->has[key] = true;
        CHECK_EQ(ways[i](w, key), BG_OUTCOME_PRESENT);
        CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
        CHECK_EQ(stats_of(w->gate, false).false_negatives, 1);
        CHECK_EQ(stats_of(w->gate, false).negative_entries, 0);
        CHECK_EQ(bg_gate_finish(w->gate, &slow, BG_STORE_ABSENT),
                 BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_OK(bg_slot_add(w->slot, &key, sizeof key, NULL));
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        world_end(w);
    }
}

TEST(gate__each_audit_that_finds_a_key_raises_one_alarm)
{
    struct world *w = world_of_audits();
    const uint64_t key = PRESENT;
    bg_ticket ticket = { 0 };
    bool audit;
    w->has[key] = true;
    for (uint64_t n = 1; n <= 3; n++) {
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], n);
        CHECK_EQ(w->alarm.count, n);
    }
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_UNKNOWN);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 4);
    world_end(w);
}

/* Deletes the key, and rebuilds the slot's base from the remaining keys. */
static void deleted_inside(struct world *w, uint64_t key)
{
    w->inside = NULL;
    w->has[key] = false;
    slot_rebuilds(w, key);
    CHECK(!maybe(w, key));
}

/* An answer that the backing store gave before the base was created does not apply to the base, so
 * it must not raise an alarm. */
TEST(gate__an_audit_from_before_the_base_is_no_alarm)
{
    struct world *w = world_of_audits();
    const uint64_t key = PRESENT;
    bg_ticket ticket = { 0 };
    bool audit;
    w->has[key] = true;
    CHECK_EQ(bg_gate_begin(w->gate, &key, sizeof key, &ticket, &audit),
             BG_OUTCOME_ABSENT_BY_FILTER);
    deleted_inside(w, key);
    CHECK_EQ(bg_gate_finish(w->gate, &ticket, BG_STORE_PRESENT), BG_OUTCOME_PRESENT);
    w->has[key] = true;
    w->inside = deleted_inside;
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    w->has[key] = true;
    w->inside = deleted_inside;
    CHECK_EQ(look_in_batch(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 0);
    CHECK_EQ(stats_of(w->gate, false).false_negatives, 0);
    w->has[key] = true; /* the new base is audited as well */
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(w->alarms[BG_ALARM_FALSE_NEGATIVE], 1);
    world_end(w);
}

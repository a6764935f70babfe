/*
 * conc_gate.c - tests a gate that many threads use at once. Lookups of the same key share a query,
 * keys are written during lookups, the backing store fails for all threads, and the circuit breaker
 * allows a single trial. Finally, readers and writers run with all features enabled; a lookup must
 * not return "absent" for a key whose write has returned.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "support/adds.h"
#include "support/filters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { FOLLOWERS = 4 };

static void pause_ms(unsigned milliseconds)
{
    struct timespec t = { (time_t)(milliseconds / 1000),
                          (long)(milliseconds % 1000) * 1000000 };
    (void)nanosleep(&t, NULL);
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    CHECK_EQ(pthread_create(thread, NULL, run, arg), 0);
}

static void join(pthread_t thread)
{
    (void)pthread_join(thread, NULL);
}

/* ---- One key ------------------------------------------------------------------------ */

/* A slow store that contains at most one key. */
struct store {
    atomic_bool has;
    _Atomic bg_store_answer fails;
    atomic_uint asks, asking, most_asking;
    atomic_uint sleep_ms;
    atomic_bool gone;      /* the first query has started */
    atomic_bool may_go_on; /* if `holds` is set, the first query waits for this flag */
    atomic_bool holds;
    atomic_int value;
    _Atomic uint64_t now; /* only with a clock */
    bg_slot *slot;
    bg_gate *gate;
};

/* The row that a lookup returns, and whether it comes from a shared query. */
struct row {
    int value;
    bool shared;
};

static bg_store_answer store_ask(void *context, const void *key, size_t len,
                                 void *request)
{
    struct store *s = context;
    (void)key;
    (void)len;
    const bool has = atomic_load(&s->has);
    const unsigned n = atomic_fetch_add(&s->asking, 1) + 1;
    unsigned most = atomic_load(&s->most_asking);
    while (most < n && !atomic_compare_exchange_weak(&s->most_asking, &most, n)) {
    }
    atomic_fetch_add(&s->asks, 1);
    if (atomic_exchange(&s->holds, false)) {
        atomic_store(&s->gone, true);
        while (!atomic_load(&s->may_go_on)) {
            pause_ms(1);
        }
    }
    pause_ms(atomic_load(&s->sleep_ms));
    if (request) {
        ((struct row *)request)->value = atomic_load(&s->value);
    }
    atomic_fetch_sub(&s->asking, 1);
    const bg_store_answer fails = atomic_load(&s->fails);
    return fails != BG_STORE_ABSENT ? fails : has ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

static uint64_t store_clock(void *context)
{
    return atomic_load(&((struct store *)context)->now);
}

static void store_share(void *context, const void *from, void *to)
{
    (void)context;
    ((struct row *)to)->value = ((const struct row *)from)->value;
    ((struct row *)to)->shared = true;
}

static void store_open(struct store *s, const bg_gate_options *options)
{
    bg_gate_options how = *options;
    memset(s, 0, sizeof *s);
    how.context = s;
    how.query = store_ask;
    CHECK_OK(bg_slot_create(NULL, NULL, &s->slot, NULL)); /* always "maybe" */
    CHECK_OK(bg_gate_create(s->slot, &how, &s->gate, NULL));
}

static void store_close(struct store *s)
{
    bg_gate_free(s->gate);
    bg_slot_free(s->slot);
}

struct looker {
    struct store *store;
    struct row row;
    bool blind; /* needs no row */
    bg_outcome outcome;
    pthread_t thread;
};

static void *look(void *arg)
{
    struct looker *l = arg;
    l->outcome = bg_gate_lookup(l->store->gate, "key", 3, l->blind ? NULL : &l->row);
    return NULL;
}

static void look_in_thread(struct looker *l, struct store *s)
{
    *l = (struct looker){ .store = s };
    start(&l->thread, look, l);
}

static uint64_t shared_so_far(const struct store *s)
{
    bg_gate_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_gate_get_info(s->gate, NULL, &stats));
    return stats.shared;
}

/* Runs rounds of simultaneous lookups until all threads in a round share one query. This happens
 * eventually, because the store is slower in each round. In every round, every outcome must be
 * `expected`. */
static void look_together(struct store *s, bg_outcome expected, bool blind)
{
    struct looker lookers[FOLLOWERS + 1];
    bool met = false;
    for (unsigned ms = 1; !met && ms < 20000; ms *= 2) {
        const unsigned asks = atomic_load(&s->asks);
        const uint64_t shared = shared_so_far(s);
        atomic_store(&s->sleep_ms, ms);
        atomic_fetch_add(&s->value, 1);
        for (int i = 0; i <= FOLLOWERS; i++) {
            lookers[i] = (struct looker){ .store = s, .blind = blind };
            start(&lookers[i].thread, look, &lookers[i]);
        }
        unsigned told = 0;
        for (int i = 0; i <= FOLLOWERS; i++) {
            join(lookers[i].thread);
            CHECK_EQ(lookers[i].outcome, expected);
            CHECK(expected != BG_OUTCOME_PRESENT || blind
                  || lookers[i].row.value == atomic_load(&s->value));
            told += lookers[i].row.shared;
        }
        const unsigned asked = atomic_load(&s->asks) - asks;
        CHECK_EQ(asked + (shared_so_far(s) - shared), FOLLOWERS + 1);
        CHECK(expected != BG_OUTCOME_PRESENT || blind || told + asked == FOLLOWERS + 1);
        met = asked == 1;
    }
    CHECK(met);
}

TEST(gate__look_ups_at_once_ask_once)
{
    struct store s;
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    how.flags = BG_GATE_SINGLE_FLIGHT;
    how.share = store_share;
    store_open(&s, &how);
    look_together(&s, BG_OUTCOME_ABSENT_BY_STORE, false);
    atomic_store(&s.has, true);
    look_together(&s, BG_OUTCOME_PRESENT, false);
    look_together(&s, BG_OUTCOME_PRESENT,
                  true); /* lookups that need no row can also share a query */
    atomic_store(&s.fails, BG_STORE_ERROR);
    look_together(&s, BG_OUTCOME_UNKNOWN, false); /* failures are shared too */
    store_close(&s);
}

TEST(gate__what_cannot_be_shared_is_asked_for)
{
    struct store s;
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    struct looker lookers[FOLLOWERS];
    how.flags = BG_GATE_SINGLE_FLIGHT;
    store_open(&s, &how);
    atomic_store(&s.has, true);
    atomic_store(&s.value, 7);
    atomic_store(&s.sleep_ms, 20);
    for (int i = 0; i < FOLLOWERS; i++) {
        look_in_thread(&lookers[i], &s);
    }
    for (int i = 0; i < FOLLOWERS; i++) {
        join(lookers[i].thread);
        CHECK_EQ(lookers[i].outcome, BG_OUTCOME_PRESENT);
        CHECK_EQ(lookers[i].row.value, 7);
    }
    CHECK_EQ(atomic_load(&s.asks), FOLLOWERS);
    CHECK_EQ(shared_so_far(&s), 0);
    store_close(&s);
}

static bg_filter *filter_of_key(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 100;
    spec.rate = 0.5;
    bg_filter *filter = must_create(&spec);
    (void)added(filter, "key", 3);
    return filter;
}

/* Reports a written key: adds it through the gate, invalidates absent answers, or installs a new
 * base. */
static void tell_of_key(struct store *s, int way)
{
    if (way == 0) {
        CHECK_OK(bg_gate_add(s->gate, "key", 3));
    } else if (way == 1) {
        bg_gate_forget_absent(s->gate);
    } else {
        CHECK_OK(bg_slot_swap(s->slot, filter_of_key(), 0, BG_SLOT_DISCARD, NULL));
    }
}

/* One thread's query is delayed while the key is written. A lookup that starts after the write
 * must neither get the old answer nor wait for it, and the old answer must not be cached. */
TEST(gate__who_comes_after_a_write_does_not_join_who_came_before)
{
    for (int way = 0; way < 3; way++) {
        struct store s;
        bg_gate_options how = BG_GATE_OPTIONS_INIT;
        struct looker before, after;
        how.flags = BG_GATE_SINGLE_FLIGHT;
        how.share = store_share;
        how.negative_entries = 100;
        how.negative_ttl = UINT64_MAX;
        store_open(&s, &how);
        CHECK_OK(bg_slot_swap(s.slot, filter_of_key(), 0, BG_SLOT_DISCARD, NULL));
        atomic_store(&s.holds, true);
        look_in_thread(&before, &s);
        while (!atomic_load(&s.gone)) {
            pause_ms(1);
        }
        atomic_store(&s.has, true);
        tell_of_key(&s, way);
        look_in_thread(&after, &s);
        join(after.thread);
        CHECK_EQ(after.outcome, BG_OUTCOME_PRESENT);
        atomic_store(&s.may_go_on, true);
        join(before.thread);
        CHECK_EQ(before.outcome, BG_OUTCOME_ABSENT_BY_STORE);
        CHECK_EQ(bg_gate_lookup(s.gate, "key", 3, NULL), BG_OUTCOME_PRESENT);
        CHECK_EQ(atomic_load(&s.asks), 3);
        store_close(&s);
    }
}

/* While a gate is in doubt, writes may bypass the gate at any time. A lookup that starts after such
 * a write must not get the answer to an earlier query. */
TEST(gate__in_doubt_no_lookup_joins_another_one)
{
    struct store s;
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    struct looker before, after;
    how.flags = BG_GATE_SINGLE_FLIGHT;
    how.share = store_share;
    store_open(&s, &how);
    CHECK_OK(bg_slot_swap(s.slot, filter_of_key(), 0, BG_SLOT_DISCARD, NULL));
    bg_gate_doubt(s.gate);
    atomic_store(&s.holds, true);
    look_in_thread(&before, &s);
    while (!atomic_load(&s.gone)) {
        pause_ms(1);
    }
    atomic_store(&s.has, true); /* without the gate */
    look_in_thread(&after, &s);
    for (int i = 0; i < 2000 && atomic_load(&s.asks) < 2; i++) {
        pause_ms(1); /* a lookup that joined the first query would wait for it */
    }
    atomic_store(&s.may_go_on, true);
    join(after.thread);
    join(before.thread);
    CHECK_EQ(after.outcome, BG_OUTCOME_PRESENT);
    CHECK_EQ(before.outcome, BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(shared_so_far(&s), 0);
    store_close(&s);
}

/* ---- Two gates whose stores query each other --------------------------------------------- */

struct twin {
    bg_slot *slot;
    bg_gate *gate;
    struct twin *other;
    atomic_uint *met; /* number of store queries that have started */
};

/* Each thread's first query waits until the other thread's first query has started, and then looks
 * up a key in the other gate. */
static bg_store_answer twin_ask(void *context, const void *key, size_t len,
                                void *request)
{
    struct twin *twin = context;
    if (request && atomic_fetch_add(twin->met, 1) < 2) {
        while (atomic_load(twin->met) < 2) {
            pause_ms(1);
        }
        CHECK_EQ(bg_gate_lookup(twin->other->gate, key, len, NULL), BG_OUTCOME_PRESENT);
    }
    return BG_STORE_PRESENT;
}

static void *twin_look(void *arg)
{
    struct twin *twin = arg;
    CHECK_EQ(bg_gate_lookup(twin->gate, "key", 3, twin), BG_OUTCOME_PRESENT);
    return NULL;
}

TEST(gate__two_gates_that_ask_each_other_do_not_wait_for_each_other)
{
    struct twin twins[2];
    pthread_t threads[2];
    atomic_uint met = 0;
    for (int i = 0; i < 2; i++) {
        bg_gate_options how = BG_GATE_OPTIONS_INIT;
        how.flags = BG_GATE_SINGLE_FLIGHT;
        how.query = twin_ask;
        how.context = &twins[i];
        twins[i] = (struct twin){ .other = &twins[1 - i], .met = &met };
        CHECK_OK(bg_slot_create(NULL, NULL, &twins[i].slot, NULL));
        CHECK_OK(bg_gate_create(twins[i].slot, &how, &twins[i].gate, NULL));
    }
    for (int i = 0; i < 2; i++) {
        start(&threads[i], twin_look, &twins[i]);
    }
    for (int i = 0; i < 2; i++) {
        join(threads[i]);
    }
    for (int i = 0; i < 2; i++) {
        bg_gate_free(twins[i].gate);
        bg_slot_free(twins[i].slot);
    }
}

TEST(gate__one_thread_at_a_time_tries_a_broken_truth)
{
    enum { ROUNDS = 20, LOOKERS = 4 };
    struct store s;
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    struct looker lookers[LOOKERS];
    how.breaker_failures = 1;
    how.breaker_rest = 1000;
    how.clock = store_clock;
    store_open(&s, &how);
    atomic_store(&s.fails, BG_STORE_ERROR);
    CHECK_EQ(bg_gate_lookup(s.gate, "key", 3, NULL), BG_OUTCOME_UNKNOWN);
    for (unsigned round = 0; round < ROUNDS; round++) {
        atomic_fetch_add(&s.now, 1000); /* the breaker's pause is over */
        atomic_store(&s.sleep_ms, 1);
        for (int i = 0; i < LOOKERS; i++) {
            look_in_thread(&lookers[i], &s);
        }
        for (int i = 0; i < LOOKERS; i++) {
            join(lookers[i].thread);
            CHECK_EQ(lookers[i].outcome, BG_OUTCOME_UNKNOWN);
        }
        CHECK_EQ(atomic_load(&s.asks), round + 2);
    }
    CHECK_EQ(atomic_load(&s.most_asking), 1);
    atomic_fetch_add(&s.now, 1000);
    atomic_store(&s.fails, BG_STORE_ABSENT);
    CHECK_EQ(bg_gate_lookup(s.gate, "key", 3, NULL), BG_OUTCOME_ABSENT_BY_STORE);
    CHECK_EQ(bg_gate_lookup(s.gate, "key", 3, NULL), BG_OUTCOME_ABSENT_BY_STORE);
    store_close(&s);
}

/* ---- Readers and writers -------------------------------------------------------------- */

enum { WRITERS = 2, READERS = 3, SPAN = 1 << 15 };

/* Keys are integers; each writer writes its own keys in order. */
struct town {
    atomic_bool has[WRITERS][SPAN];
    _Atomic uint64_t written[WRITERS]; /* number of keys whose writes have returned */
    atomic_bool done;
    atomic_uint false_negatives;
    atomic_uint errors; /* number of errors to inject */
    size_t keys;
    bg_slot *slot;
    bg_gate *gate;
};

struct citizen {
    struct town *town;
    unsigned number;
    uint64_t seen;
    pthread_t thread;
};

static uint64_t town_key(unsigned writer, uint64_t i)
{
    return (uint64_t)writer << 32 | i;
}

static atomic_bool *town_cell(struct town *t, const void *key)
{
    uint64_t number;
    memcpy(&number, key, sizeof number);
    return &t->has[number >> 32][number & (SPAN - 1)];
}

static bg_store_answer town_ask(void *context, const void *key, size_t len,
                                void *request)
{
    struct town *t = context;
    (void)len;
    (void)request;
    if (check_random_below(64) == 0) {
        pause_ms(0); /* lets other threads run in the middle of a query */
    }
    const bool has = atomic_load(town_cell(t, key));
    if (check_random_below(64) == 0) {
        pause_ms(0);
    }
    return has ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

static bg_err town_write(void *context, const void *key, size_t len, void *request)
{
    (void)len;
    (void)request;
    atomic_store(town_cell(context, key), true);
    if (check_random_below(64) == 0) {
        pause_ms(0);
    }
    return BG_OK;
}

static void town_alarm(void *context, const bg_alarm *alarm)
{
    struct town *t = context;
    atomic_fetch_add(&t->false_negatives, alarm->kind == BG_ALARM_FALSE_NEGATIVE);
}

static void *town_writes(void *arg)
{
    struct citizen *c = arg;
    struct town *t = c->town;
    for (uint64_t i = 0; i < t->keys; i++) {
        const uint64_t key = town_key(c->number, i);
        CHECK_OK(bg_gate_write(t->gate, &key, sizeof key, NULL));
        atomic_store(&t->written[c->number], i + 1);
        CHECK_EQ(bg_gate_lookup(t->gate, &key, sizeof key, NULL), BG_OUTCOME_PRESENT);
    }
    return NULL;
}

/* Looks up recently written keys and the keys to be written next, singly and in batches. */
static void *town_reads(void *arg)
{
    struct citizen *c = arg;
    struct town *t = c->town;
    while (!atomic_load(&t->done)) {
        uint64_t keys[8];
        bg_bytes bytes[8];
        bg_outcome outcomes[8];
        const unsigned writer = (unsigned)check_random_below(WRITERS);
        const uint64_t written = atomic_load(&t->written[writer]);
        const uint64_t from = written < 4 ? 0 : written - 4;
        for (unsigned i = 0; i < 8; i++) {
            keys[i] = town_key(writer, from + i);
            bytes[i] = (bg_bytes){ &keys[i], sizeof keys[i] };
            outcomes[i] = BG_OUTCOME_PENDING;
        }
        if (check_random_below(2)) {
            (void)bg_gate_lookup_many(t->gate, bytes, 8, NULL, outcomes);
        } else {
            for (unsigned i = 0; i < 8; i++) {
                outcomes[i] = bg_gate_lookup(t->gate, &keys[i], sizeof *keys, NULL);
            }
        }
        for (uint64_t i = 0; i < 8; i++) {
            CHECK(from + i >= written || outcomes[i] == BG_OUTCOME_PRESENT);
            c->seen += outcomes[i] == BG_OUTCOME_PRESENT;
        }
    }
    return NULL;
}

static void town_run(struct town *t)
{
    struct citizen writers[WRITERS], readers[READERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct citizen){ .town = t, .number = i };
        start(&writers[i].thread, town_writes, &writers[i]);
    }
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct citizen){ .town = t, .number = i };
        start(&readers[i].thread, town_reads, &readers[i]);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        join(writers[i].thread);
    }
    atomic_store(&t->done, true);
    for (unsigned i = 0; i < READERS; i++) {
        join(readers[i].thread);
    }
}

TEST(gate__what_was_written_is_found_by_all)
{
    static struct town town;
    struct town *t = &town;
    const uint32_t flags[] = { 0, BG_GATE_SINGLE_FLIGHT };
    for (int way = 0; way < 4; way++) {
        bg_gate_options how = BG_GATE_OPTIONS_INIT;
        bg_spec spec = BG_SPEC_INIT;
        memset(t, 0, sizeof *t);
        t->keys = CHECK_EMULATED ? 500 : CHECK_SANITIZED ? 4000 : 8000;
        spec.items = 8000;
        /* The false-positive rate is high, so that many absent keys are looked up in the store. */
        spec.rate = 0.2;
        how.context = t;
        how.query = town_ask;
        how.write = town_write;
        how.alarm = town_alarm;
        how.flags = flags[way % 2];
        how.negative_entries = way < 2 ? 0 : 1 << 12;
        how.negative_ttl = UINT64_C(1000000000) * 3600;
        how.audit = way == 1 ? 0.5 : way == 3 ? 1 : 0;
        CHECK_OK(bg_slot_create(must_create(&spec), NULL, &t->slot, NULL));
        CHECK_OK(bg_gate_create(t->slot, &how, &t->gate, NULL));
        town_run(t);
        bg_gate_info s = { .struct_size = sizeof s };
        CHECK_OK(bg_gate_get_info(t->gate, NULL, &s));
        CHECK_EQ(s.writes, WRITERS * t->keys);
        CHECK_EQ(s.false_negatives, 0);
        CHECK_EQ(atomic_load(&t->false_negatives), 0);
        CHECK(s.outcomes[BG_OUTCOME_PRESENT] >= WRITERS * t->keys);
        CHECK_EQ(s.outcomes[BG_OUTCOME_UNKNOWN] + s.outcomes[BG_OUTCOME_FAILED], 0);
        bg_gate_free(t->gate);
        bg_slot_free(t->slot);
    }
}

/* ---- Writes that bypass the gate and are reported later ------------------------------- */

/* Each key is first written without the gate. Then all earlier answers are invalidated, and the key
 * is announced to the readers. */
struct past {
    struct town *town;
    bg_filter *all; /* contains every key */
    /* If true, a new base invalidates the answers; otherwise, bg_gate_forget_absent does. */
    bool swaps;
};

static void *past_writes(void *arg)
{
    const struct past *past = arg;
    struct town *t = past->town;
    for (uint64_t i = 0; i < t->keys; i++) {
        bg_filter *base = NULL;
        atomic_store(&t->has[0][i], true);
        if (past->swaps) {
            CHECK_OK(bg_filter_copy(past->all, &base, NULL));
            CHECK_OK(bg_slot_swap(t->slot, base, 0, BG_SLOT_DISCARD, NULL));
        } else {
            bg_gate_forget_absent(t->gate);
        }
        atomic_store(&t->written[0], i + 1);
        const uint64_t key = town_key(0, i);
        CHECK_EQ(bg_gate_lookup(t->gate, &key, sizeof key, NULL), BG_OUTCOME_PRESENT);
    }
    return NULL;
}

/* Looks up keys near the last written key, directly and with tickets. */
static void *past_reads(void *arg)
{
    struct citizen *c = arg;
    struct town *t = c->town;
    while (!atomic_load(&t->done)) {
        const uint64_t written = atomic_load(&t->written[0]);
        const uint64_t i = (written < 2 ? 0 : written - 2) + check_random_below(4);
        const uint64_t key = town_key(0, i);
        bg_ticket ticket = { 0 };
        bg_outcome outcome;
        if (c->number == 0) {
            outcome = bg_gate_begin(t->gate, &key, sizeof key, &ticket, NULL);
            if (outcome == BG_OUTCOME_PENDING) {
                outcome = bg_gate_finish(t->gate, &ticket,
                                         town_ask(t, &key, sizeof key, NULL));
            }
        } else {
            outcome = bg_gate_lookup(t->gate, &key, sizeof key, NULL);
        }
        CHECK(i >= written || outcome == BG_OUTCOME_PRESENT);
        c->seen += outcome == BG_OUTCOME_ABSENT_BY_CACHE;
    }
    return NULL;
}

static void past_run(struct past *past)
{
    struct citizen readers[READERS];
    pthread_t writer;
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct citizen){ .town = past->town, .number = i };
        start(&readers[i].thread, past_reads, &readers[i]);
    }
    start(&writer, past_writes, past);
    join(writer);
    atomic_store(&past->town->done, true);
    for (unsigned i = 0; i < READERS; i++) {
        join(readers[i].thread);
    }
}

TEST(gate__no_answer_from_before_an_event_is_used_after_it)
{
    static struct town town;
    struct town *t = &town;
    for (int way = 0; way < 4; way++) {
        bg_gate_options how = BG_GATE_OPTIONS_INIT;
        bg_spec spec = BG_SPEC_INIT;
        memset(t, 0, sizeof *t);
        t->keys = CHECK_EMULATED ? 100 : CHECK_SANITIZED ? 500 : 2000;
        spec.items = 2000;
        spec.rate = 0.2;
        struct past past = { .town = t, .all = must_create(&spec), .swaps = way / 2 };
        for (uint64_t i = 0; i < t->keys + 4; i++) {
            const uint64_t key = town_key(0, i);
            (void)added(past.all, &key, sizeof key);
        }
        how.context = t;
        how.query = town_ask;
        how.flags = way % 2 ? BG_GATE_SINGLE_FLIGHT : 0;
        how.negative_entries = 1 << 12;
        how.negative_ttl = UINT64_MAX;
        CHECK_OK(bg_slot_create(NULL, NULL, &t->slot, NULL)); /* always "maybe" */
        CHECK_OK(bg_gate_create(t->slot, &how, &t->gate, NULL));
        past_run(&past);
        bg_gate_free(t->gate);
        bg_slot_free(t->slot);
        bg_filter_free(past.all);
    }
}

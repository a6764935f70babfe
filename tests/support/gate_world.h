/*
 * gate_world.h - an environment for gate tests: a backing store that fails on demand, a clock that
 * the test sets, and counters for alarms and traces.
 */
#ifndef GATE_WORLD_H
#define GATE_WORLD_H

#include "support/adds.h"
#include "support/files.h"

/* Integer keys, of which the first 1000 are present. */
enum { KEYS = 4096, PRESENT = 1000 };

struct world {
    bool has[KEYS];        /* the backing store */
    bg_store_answer fails; /* if not 0, the store's answer to every query */
    uint64_t asks, writes;
    uint64_t last_asked;
    uint64_t now, step; /* the time, and how far each query advances it */
    void (*inside)(struct world *w, uint64_t key); /* called during a query */
    /* Called during a write, after the store has changed. */
    void (*writing)(struct world *w, uint64_t key);
    bg_err write_fails;
    uint64_t alarms[3];
    bg_alarm alarm; /* the last one */
    uint64_t traces;
    bg_trace trace;
    bg_slot *slot;
    bg_gate *gate;
    bg_gate_options how;
};

static inline uint64_t world_key(const void *key, size_t len)
{
    uint64_t number = KEYS;
    CHECK_EQ(len, sizeof number);
    memcpy(&number, key, sizeof number);
    CHECK(number < KEYS);
    return number % KEYS;
}

static inline bg_store_answer world_ask(void *context, const void *key, size_t len,
                                        void *request)
{
    struct world *w = context;
    const uint64_t number = world_key(key, len);
    const bool has = w->has[number]; /* read before the callback can change it */
    w->asks++;
    w->last_asked = number;
    w->now += w->step;
    if (w->inside) {
        w->inside(w, number);
    }
    if (request) {
        *(uint64_t *)request = number;
    }
    return w->fails != BG_STORE_ABSENT ? w->fails
           : has                       ? BG_STORE_PRESENT
                                       : BG_STORE_ABSENT;
}

static inline bg_err world_write(void *context, const void *key, size_t len,
                                 void *request)
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

static inline void world_alarm(void *context, const bg_alarm *alarm)
{
    struct world *w = context;
    CHECK_EQ(alarm->struct_size, sizeof *alarm);
    CHECK(alarm->kind < 3);
    w->alarms[alarm->kind]++;
    w->alarm = *alarm;
}

static inline void world_trace(void *context, const bg_trace *trace)
{
    struct world *w = context;
    w->traces++;
    w->trace = *trace;
}

static inline uint64_t world_clock(void *context)
{
    return ((struct world *)context)->now;
}

static inline bg_filter *world_filter(double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = PRESENT;
    spec.rate = rate;
    bg_filter *filter = must_create(&spec);
    for (uint64_t i = 0; i < PRESENT; i++) {
        (void)added(filter, &i, sizeof i);
    }
    return filter;
}

/* Creates a world with a slot and default options, which the test can change before it calls
 * world_open. */
static inline struct world *world_make(double rate)
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
    w->how.query = world_ask;
    w->how.write = world_write;
    w->how.alarm = world_alarm;
    w->how.clock = world_clock;
    CHECK_OK(bg_slot_create(world_filter(rate), NULL, &w->slot, NULL));
    return w;
}

static inline void world_open(struct world *w)
{
    bg_errinfo why;
    if (bg_gate_create(w->slot, &w->how, &w->gate, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK(bg_gate_slot(w->gate) == w->slot);
}

static inline void world_end(struct world *w)
{
    bg_gate_free(w->gate);
    bg_slot_free(w->slot);
}

static inline bg_outcome look(struct world *w, uint64_t key)
{
    return bg_gate_lookup(w->gate, &key, sizeof key, NULL);
}

static inline bg_err put(struct world *w, uint64_t key)
{
    return bg_gate_write(w->gate, &key, sizeof key, NULL);
}

static inline bool maybe(const struct world *w, uint64_t key)
{
    return bg_slot_may_contain(w->slot, &key, sizeof key);
}

/* Returns the first absent key at or after `key` for which the filter answers "maybe" if `member`
 * is true, or "no" if `member` is false. */
static inline uint64_t absent_key(const struct world *w, uint64_t key, bool member)
{
    while (key < KEYS && (w->has[key] || maybe(w, key) != member)) {
        key++;
    }
    CHECK(key < KEYS);
    return key;
}

static inline bg_gate_info stats_of(const bg_gate *gate, bool examine)
{
    bg_gate_info stats = { .struct_size = sizeof stats };
    bg_slot_health health = { .struct_size = sizeof health };
    if (examine) {
        CHECK_OK(bg_slot_get_health(bg_gate_slot(gate), &health));
    }
    CHECK_OK(bg_gate_get_info(gate, examine ? &health : NULL, &stats));
    return stats;
}

static inline bg_filter *full_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_CUCKOO;
    spec.items = 50;
    spec.rate = 0.001;
    bg_filter *filter = must_create(&spec);
    uint64_t key = 0;
    while (bg_filter_add(filter, &key, sizeof key, NULL) == BG_OK) {
        key++;
    }
    return filter;
}

/* Replaces the world's filter with a full filter. */
static inline void world_fill(struct world *w)
{
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(full_filter(), NULL, &w->slot, NULL));
}

/* Returns a key that cannot be added and is not a false positive. */
static inline uint64_t refused_key(struct world *w)
{
    uint64_t key = KEYS - 1;
    while (maybe(w, key) || bg_slot_add(w->slot, &key, sizeof key, NULL) == BG_OK) {
        key--;
    }
    return key;
}

#endif

/*
 * bench_gate.c - what does a gate cost compared with its filter, and how much does it
 * save?
 *
 * The first table measures lookups of absent keys (16-byte records) at a false-positive rate of
 * 1%: in the bare filter, in the slot that holds it, and through the gate on that slot, both in
 * batches of 1024 and one by one. "over" is the additional time compared with the bare filter
 * queried in the same way, in nanoseconds. The ratio is the row's time divided by the bare filter's
 * time, so 1 means equally fast. The backing store behind the gate answers "absent" immediately, so
 * the gate's rows include a call and two clock readings for every false positive, but not the time
 * that a real store would take.
 *
 * The tables with a real store are in bench_gate_sqlite.c.
 */
#include "bench.h"
#include "bench_gate_sqlite.h"
#include "keys.h"
#include "ours.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>

enum { GATE_BATCH = 1024 };

enum gate_row {
    GATE_FILTER_MANY,
    GATE_SLOT_MANY,
    GATE_GATE_MANY,
    GATE_AUDIT_MANY,
    GATE_FILTER_ONE,
    GATE_SLOT_ONE,
    GATE_GATE_ONE,
    GATE_AUDIT_ONE,
    GATE_CACHE_ONE,
    GATE_ROWS
};

static const char *const gate_names[GATE_ROWS] = {
    "filter, batches of 1024",
    "slot, batches of 1024",
    "gate, batches of 1024",
    "gate, batches, 1% audited",
    "filter, one by one",
    "slot, one by one",
    "gate, one by one",
    "gate, one by one, 1% audited",
    "gate, one by one, all options",
};

struct gate_table {
    struct bgb_subject subjects[GATE_ROWS];
    struct gate_state {
        struct gate_table *table;
        bg_gate *gate; /* plain, with audits, or with all options */
    } states[GATE_ROWS];
    const bg_bytes *keys;
    bg_filter *filter; /* owned by the slot */
    bg_slot *slot;
    bg_gate *gates[3];
};

static bg_store_answer gate_ask(void *context, const void *key, size_t len,
                                void *request)
{
    (void)context;
    (void)key;
    (void)len;
    (void)request;
    return BG_STORE_ABSENT;
}

static uint64_t gate_filter_many(void *state, size_t first, size_t n)
{
    const struct gate_table *t = ((struct gate_state *)state)->table;
    uint64_t bitmap[BG_BITMAP_WORDS(GATE_BATCH)], found = 0;
    for (size_t i = first; i + GATE_BATCH <= first + n; i += GATE_BATCH) {
        found += bg_filter_may_contain_many(
            t->filter, bg_keys_bytes(t->keys + i, GATE_BATCH), bitmap);
    }
    return found;
}

static uint64_t gate_slot_many(void *state, size_t first, size_t n)
{
    const struct gate_table *t = ((struct gate_state *)state)->table;
    uint64_t bitmap[BG_BITMAP_WORDS(GATE_BATCH)], found = 0;
    for (size_t i = first; i + GATE_BATCH <= first + n; i += GATE_BATCH) {
        found += bg_slot_may_contain_many(
            t->slot, bg_keys_bytes(t->keys + i, GATE_BATCH), bitmap);
    }
    return found;
}

static uint64_t gate_gate_many(void *state, size_t first, size_t n)
{
    const struct gate_state *s = state;
    bg_outcome outcomes[GATE_BATCH];
    uint64_t found = 0;
    for (size_t i = first; i + GATE_BATCH <= first + n; i += GATE_BATCH) {
        found += bg_gate_lookup_many(s->gate, s->table->keys + i, GATE_BATCH, NULL,
                                     outcomes);
        bgb_sink(outcomes[0]);
    }
    return found;
}

static uint64_t gate_filter_one(void *state, size_t first, size_t n)
{
    const struct gate_table *t = ((struct gate_state *)state)->table;
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        found += bg_filter_may_contain(t->filter, t->keys[i].data, t->keys[i].len);
    }
    return found;
}

static uint64_t gate_slot_one(void *state, size_t first, size_t n)
{
    const struct gate_table *t = ((struct gate_state *)state)->table;
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        found += bg_slot_may_contain(t->slot, t->keys[i].data, t->keys[i].len);
    }
    return found;
}

static uint64_t gate_gate_one(void *state, size_t first, size_t n)
{
    const struct gate_state *s = state;
    const bg_bytes *keys = s->table->keys;
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        found += bg_gate_lookup(s->gate, keys[i].data, keys[i].len, NULL)
                 == BG_OUTCOME_PRESENT;
    }
    return found;
}

static bg_gate *gate_make(bg_slot *slot, int which)
{
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    bg_gate *gate = NULL;
    how.query = gate_ask;
    how.audit = which ? 0.01 : 0;
    how.negative_entries = which == 2 ? 10000 : 0;
    how.breaker_failures = which == 2 ? 10 : 0;
    how.flags = which == 2 ? BG_GATE_SINGLE_FLIGHT : 0;
    if (bg_gate_create(slot, &how, &gate, NULL)) {
        bgb_die("cannot create a gate");
    }
    return gate;
}

static void gate_prepare(struct gate_table *t, const struct bgb_keys *keys, double rate)
{
    static uint64_t (*const passes[GATE_ROWS])(
        void *, size_t, size_t) = { gate_filter_many, gate_slot_many,  gate_gate_many,
                                    gate_gate_many,   gate_filter_one, gate_slot_one,
                                    gate_gate_one,    gate_gate_one,   gate_gate_one };
    static const int gates[GATE_ROWS] = {
        [GATE_AUDIT_MANY] = 1, [GATE_AUDIT_ONE] = 1, [GATE_CACHE_ONE] = 2
    };
    bg_spec spec = bgb_spec(BG_KIND_BLOCKED, keys->n, rate, 0);
    t->keys = keys->absent_bytes;
    t->filter = bgb_filter_make(&spec, keys->n);
    if (bg_slot_create(t->filter, NULL, &t->slot, NULL)) {
        bgb_die("cannot create a slot");
    }
    for (int i = 0; i < 3; i++) {
        t->gates[i] = gate_make(t->slot, i);
    }
    for (int i = 0; i < GATE_ROWS; i++) {
        const bool gated = passes[i] == gate_gate_many || passes[i] == gate_gate_one;
        t->states[i] = (struct gate_state){ t, t->gates[gates[i]] };
        t->subjects[i] = (struct bgb_subject){
            .pass = passes[i],
            .state = &t->states[i],
            .pool = keys->pool,
            .chunk = bgb_keys_chunk(keys, bg_filter_size_bytes(t->filter)),
            .most = gated ? 0 : 2 * rate /* the gate returns no false positives */
        };
        (void)snprintf(t->subjects[i].name, BGB_NAME_BYTES, "%s", gate_names[i]);
    }
}

static void gate_print(const struct gate_table *t, uint64_t n)
{
    for (int i = 0; i < GATE_ROWS; i++) {
        const struct bgb_subject *s = &t->subjects[i];
        const struct bgb_subject *bare =
            &t->subjects[i < GATE_FILTER_ONE ? GATE_FILTER_MANY : GATE_FILTER_ONE];
        bgb_row_begin();
        bgb_cells_subject(s->name, n, BGB_NONE, BGB_NONE);
        bgb_cells_times(s, s->p5 / bare->p5);
        bgb_cell_real("over_ns", "over", 8, 2, s->p5 - bare->p5);
        bgb_row_end();
    }
}

static void gate_run(const struct bgb_options *options, uint64_t n, double rate)
{
    struct gate_table *t = bgb_alloc(1, sizeof *t);
    struct bgb_keys keys;
    bgb_keys_make(&keys, n);
    gate_prepare(t, &keys, rate);
    bgb_table("gate", "a gate compared with its filter, %llu keys, %g%%, absent keys",
              (unsigned long long)n, rate * 100);
    bgb_run(t->subjects, GATE_ROWS, options->seconds);
    gate_print(t, n);
    for (int i = 0; i < 3; i++) {
        bg_gate_free(t->gates[i]);
    }
    bg_slot_free(t->slot);
    bgb_keys_free(&keys);
    free(t);
}

void bgb_bench_gate(const struct bgb_options *options)
{
    static const uint64_t sizes[] = { 100000, 10000000 }, rows = 1000000;
    uint64_t n[BGB_SIZES_MAX];
    double rate = options->rate > 0 ? options->rate : 0.01;
    size_t count = bgb_options_sizes(options, sizes, 2, n);
    for (size_t i = 0; i < count; i++) {
        gate_run(options, n[i], rate);
    }
    bgb_note(
        "over: additional ns compared with the bare filter; ratio: ns / ns of the bare filter");
#ifdef BGB_HAVE_SQLITE
    count = bgb_options_sizes(options, &rows, 1, n);
    for (size_t i = 0; i < count; i++) {
        bgb_bench_gate_sqlite(options, n[i], rate);
    }
#else
    (void)rows;
    bgb_note("built without SQLite, so gates were not measured with a backing store");
#endif
}

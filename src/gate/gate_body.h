/*
 * gate_body.h - what a gate is made of, for gate.c (look-ups and writes), gate_life.c,
 * gate_about.c (figures) and gate_doubt.c.
 */
#ifndef BGI_GATE_BODY_H
#define BGI_GATE_BODY_H

#include "bloomgate/gate.h"

#include "base/memory.h"
#include "base/stripe.h"
#include "gate/breaker.h"
#include "gate/flight.h"
#include "gate/recent.h"
#include "gate/slot_inside.h"
#include "hash/siphash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GATE_OUTCOMES = 6, GATE_WRITING = 1024 };

/* What is counted often, per processor. */
enum gate_counter {
    GATE_OUTCOME, /* and the next five: by bg_outcome */
    GATE_TRUTH_CALLS = GATE_OUTCOMES,
    GATE_TRUTH_NS,
    GATE_TRUTH_ERRORS,
    GATE_AUDITS,
    /* Outcomes too, counted here in place of the above, so that no figure is a difference
     * of two that are read at different moments: those could go back. */
    GATE_CHECKED,       /* ABSENT_BY_FILTER, and the truth was asked as well */
    GATE_DOUBTED_TRUTH, /* ABSENT_BY_TRUTH, as the filter had said and was not believed */
    GATE_SPARED,        /* by the breaker */
    GATE_WRITES,
    GATE_MAY_NO, /* answers of bg_gate_may_contain */
    GATE_MAY_MAYBE,
    GATE_DRAWN, /* numbers drawn for audits */
    GATE_COUNTERS
};

struct gate_line {
    _Alignas(64) _Atomic uint64_t count[GATE_COUNTERS];
};

/* What is counted seldom. */
struct gate_rare {
    _Atomic uint64_t shared;
    _Atomic uint64_t false_negatives;
    _Atomic uint64_t closings;
    _Atomic uint64_t reported, reported_absent;
    _Atomic uint64_t write_errors;
};

/* What the observed rate is made of. */
struct gate_seen {
    uint64_t maybe, no;         /* absent keys, by what the filter said of them */
    uint64_t may_maybe, may_no; /* answers of bg_gate_may_contain */
    uint64_t reported;          /* of such "maybe" answers, and ... */
    uint64_t reported_absent;   /* ... those that were wrong */
};

struct bg_gate {
    /* Read by every look-up, written by nobody or hardly ever. */
    bg_slot *slot;
    struct gate_line *lines;
    uint32_t lines_count;
    bool plain;                  /* a "no" is just counted: no audits, no traces */
    bool audits;                 /* some "no" answers are checked */
    _Atomic uint64_t bases;      /* the number of the base that `before` belongs to */
    struct bgi_recent *recent;   /* or NULL */
    struct bgi_flights *flights; /* or NULL */
    _Atomic uint32_t *writing;   /* GATE_WRITING: writes under way, by place; or NULL */
    bg_gate_options how;
    bgi_siphash_key secret; /* of places */
    uint64_t audit_most;    /* numbers drawn up to that are audits */
    struct bgi_memory memory;
    struct bgi_breaker breaker;
    pthread_mutex_t lock;    /* of the next */
    struct gate_seen before; /* what was seen before the present base came */
    _Alignas(64) struct gate_rare rare;
};

static inline uint64_t gate_now(const bg_gate *gate)
{
    return gate->how.clock(gate->how.context);
}

static inline struct gate_line *gate_line(const bg_gate *gate)
{
    return &gate->lines[bgi_stripe(gate->lines_count)];
}

static inline void gate_count(struct gate_line *line, unsigned counter, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&line->count[counter], n, memory_order_relaxed);
}

static inline uint64_t gate_count_rare(_Atomic uint64_t *counter)
{
    return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) + 1;
}

/* ---- New bases: gate_about.c ----------------------------------------------------------- */

/* The slot has another base, of that number, which has a rate of its own. */
void gate_base_came(bg_gate *gate, uint64_t bases);

static inline void gate_watch_base(bg_gate *gate, uint64_t bases)
{
    if (bases > atomic_load_explicit(&gate->bases, memory_order_relaxed)) {
        gate_base_came(gate, bases);
    }
}

/* bg_gate_about, with what bg_slot_get_health said, or NULL. */
void gate_about(bg_gate *gate, const bg_slot_health *health, bg_gate_info *stats);

/* The era of a lookup that this base answered: see recent.c. Call it before asking the truth. */
static inline uint64_t gate_era(const bg_gate *gate, uint64_t bases)
{
    return bases + atomic_load(&gate->slot->voided);
}

/* ---- Writes: gate.c --------------------------------------------------------------------- */

/* The slot has got a key past the gate, or the truth has one that the filter denied: what is
 * remembered of its absence is forgotten. */
void gate_added(bg_gate *gate, bg_bytes key);

/* ---- Doubt: gate_doubt.c ---------------------------------------------------------------- */

/* A key could not be added: from now on the filter's "no" is not believed. */
void gate_doubt_begin(bg_gate *gate);

/* Returns whether the filter's "no" is not trusted. Call it before querying the filter: see slot_in_doubt. */
static inline bool gate_in_doubt(const bg_gate *gate)
{
    return slot_in_doubt(gate->slot);
}

#endif

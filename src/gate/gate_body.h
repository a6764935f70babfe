/*
 * gate_body.h - the members of a gate, for gate.c (lookups and writes), gate_life.c,
 * gate_about.c (statistics) and gate_doubt.c.
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

/* Frequent counters, per CPU. */
enum gate_counter {
    GATE_OUTCOME, /* the first of six counters, indexed by bg_outcome */
    GATE_STORE_CALLS = GATE_OUTCOMES,
    GATE_STORE_NS,
    GATE_STORE_ERRORS,
    GATE_AUDITS,
    /* The next two counters also count outcomes. These outcomes are not counted above, because
     * otherwise some statistics would be the difference between two counters that are read at
     * different times, and could decrease. */
    GATE_CHECKED,       /* ABSENT_BY_FILTER after a query to the store */
    GATE_DOUBTED_STORE, /* ABSENT_BY_STORE after an untrusted "no" */
    GATE_SPARED,        /* queries that the open breaker prevented */
    GATE_WRITES,
    GATE_MAY_NO, /* answers from bg_gate_may_contain */
    GATE_MAY_MAYBE,
    GATE_DRAWN, /* sequence numbers reserved for selecting audits */
    GATE_COUNTERS
};

struct gate_line {
    _Alignas(64) _Atomic uint64_t count[GATE_COUNTERS];
};

/* Infrequent counters. */
struct gate_rare {
    _Atomic uint64_t shared;
    _Atomic uint64_t false_negatives;
    _Atomic uint64_t closings;
    _Atomic uint64_t reported, reported_absent;
    _Atomic uint64_t write_errors;
};

/* The counts from which the observed rate is computed. */
struct gate_seen {
    uint64_t maybe, no;         /* number of absent keys, by the filter's answer */
    uint64_t may_maybe, may_no; /* answers from bg_gate_may_contain */
    uint64_t reported;          /* reported "maybe" answers */
    uint64_t reported_absent;   /* reported answers for keys that were absent */
};

enum { GATE_WASTED = 64 }; /* words of `wasted` */

struct bg_gate {
    /* These members are read by every lookup, and rarely or never written. */
    bg_slot *slot;
    struct gate_line *lines;
    uint32_t lines_count;
    /* There are no audits and no traces, so a "no" only has to be counted. */
    bool plain;
    bool audits; /* some "no" answers are audited */
    /* The sequence number of the base that was published after the observations in `before`. */
    _Atomic uint64_t bases;
    struct bgi_recent *recent;   /* or NULL */
    struct bgi_flights *flights; /* or NULL */
    /* NULL, or GATE_WRITING counters of writes in progress, indexed by the key's hash. */
    _Atomic uint32_t *writing;
    bg_gate_options how;
    bgi_siphash_key secret; /* for hashing keys and selecting audits */
    uint64_t audit_most;    /* a "no" is audited if its mixed number is at most this */
    struct bgi_memory memory;
    struct bgi_breaker own_breaker; /* not used if the breaker is shared */
    struct bgi_breaker *breaker;    /* own_breaker, or the breaker of another gate */
    pthread_mutex_t lock;           /* protects `before` */
    /* The observations from before the current base was published. */
    struct gate_seen before;
    /* A bit for each false positive of the current base, at the position of the key's hash. The
     * number of one bits shows how many different keys there were. */
    _Atomic uint64_t wasted[GATE_WASTED];
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

/* Records that the slot has a new base with this sequence number. The observed rate starts over
 * with each base. */
void gate_base_came(bg_gate *gate, uint64_t bases);

static inline void gate_watch_base(bg_gate *gate, uint64_t bases)
{
    if (bases > atomic_load_explicit(&gate->bases, memory_order_relaxed)) {
        gate_base_came(gate, bases);
    }
}

/* Implements bg_gate_get_info. `health` is the result of bg_slot_get_health, or
 * NULL. */
void gate_about(bg_gate *gate, const bg_slot_health *health, bg_gate_info *stats);

/* Returns the era of a lookup that was answered by the base with this sequence number (see
 * recent.c). Call this function before querying the backing store. */
static inline uint64_t gate_era(const bg_gate *gate, uint64_t bases)
{
    return bases + atomic_load(&gate->slot->voided);
}

/* ---- Writes: gate.c --------------------------------------------------------------------- */

/* Makes the gate forget that a key was absent. Used if the key was added to the slot without going
 * through the gate, or if the backing store contains the key although the filter answered "no". */
void gate_added(bg_gate *gate, bg_bytes key);

/* ---- Doubt: gate_doubt.c ---------------------------------------------------------------- */

/* Starts a doubt because a key could not be added. During a doubt, the filter's "no" is not
 * trusted. */
void gate_doubt_begin(bg_gate *gate);

/* Returns true if the filter's "no" is not trusted. Call this function before querying the filter
 * (see slot_in_doubt). */
static inline bool gate_in_doubt(const bg_gate *gate)
{
    return slot_in_doubt(gate->slot);
}

#endif

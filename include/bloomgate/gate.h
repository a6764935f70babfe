/*
 * gate.h - a filter in front of a slow backing store, such as a database.
 *
 *     static bg_store_answer query(void *db, const void *key, size_t len, void *row)
 *     {
 *         int found = db_get(db, key, len, row);          // the expensive query
 *         return found < 0 ? BG_STORE_ERROR : found ? BG_STORE_PRESENT : BG_STORE_ABSENT;
 *     }
 *
 *     bg_gate_options options = BG_GATE_OPTIONS_INIT;
 *     options.query = query;
 *     options.context = db;
 *     if (bg_gate_create(slot, &options, &gate, &why))
 *         return 1;
 *
 *     switch (bg_gate_lookup(gate, key, len, &row)) {
 *     case BG_OUTCOME_PRESENT: use(&row); break;
 *     case BG_OUTCOME_UNKNOWN: try_elsewhere(); break;    // the backing store failed
 *     default: not_found();                               // absent, usually without a query
 *     }
 *
 * The backing store is the database, file or service that holds the keys. A lookup queries
 * the filter first. If the filter answers "no", the key is absent and the backing store is
 * not queried. Otherwise the gate queries the backing store. From the answers, the gate
 * counts avoided and wasted queries, and estimates the false-positive rate with its
 * confidence interval.
 *
 * Writes. A key is written to the backing store first, and then added to the filter
 * (bg_gate_write). In the opposite order, a crash between the two steps would be harmless,
 * but a concurrent lookup could cache the answer "absent" for a key that is about to be
 * written. If the backing store is written first, every "no" is correct once the write has
 * returned.
 *
 * Failures. If the backing store fails, a lookup returns BG_OUTCOME_UNKNOWN: the key may
 * be present. With BG_GATE_FAIL_CLOSED it returns BG_OUTCOME_FAILED instead. After
 * `breaker_failures` consecutive failures, a circuit breaker stops all queries for
 * `breaker_rest` nanoseconds; then one lookup at a time tries the backing store again.
 * "No" answers from the filter need no query, so the breaker does not affect them.
 *
 * Optional features, off by default:
 *   negative cache   remembers keys that the backing store reported absent, so that
 *                    repeated lookups of a false positive do not query the store each
 *                    time. Keys are compared in full. Writing a key through this gate
 *                    removes it from the cache; replacing the slot's base or calling
 *                    bg_gate_forget_absent removes all keys. Writes that bypass the gate
 *                    go unnoticed until `negative_ttl` has passed, so use the cache only
 *                    where such a delay is acceptable.
 *   single flight    lets concurrent lookups of the same key share one query.
 *   audit            checks a share of the filter's "no" answers against the backing
 *                    store. If a key turns out to be present, a write bypassed the gate
 *                    or the filter is damaged. The lookup then returns
 *                    BG_OUTCOME_PRESENT, and `alarm` is called.
 *   trace            is called after every lookup, for spans and logs.
 *
 * Event loops can use a gate without a `query` callback: bg_gate_begin either answers
 * immediately, or returns BG_OUTCOME_PENDING and fills in a ticket. Query the backing
 * store yourself, then pass its answer to bg_gate_finish.
 */
#ifndef BLOOMGATE_GATE_H
#define BLOOMGATE_GATE_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/slot.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A gate. Opaque. */
typedef struct bg_gate bg_gate;

/* An answer from the backing store. */
typedef enum bg_store_answer {
    BG_STORE_ABSENT = 0,
    BG_STORE_PRESENT = 1,
    BG_STORE_ERROR = 2, /* the query failed or timed out */
} bg_store_answer;

/* X(NAME, number, "name"): the list of all lookup outcomes. The numbers are permanent. */
#define BG_OUTCOMES(X)                                                                 \
    X(ABSENT_BY_FILTER, 0, "absent_by_filter")                                         \
    X(ABSENT_BY_CACHE, 1, "absent_by_cache") /* by the negative cache */               \
    X(ABSENT_BY_STORE, 2, "absent_by_truth") /* a false positive in the filter */      \
    X(PRESENT, 3, "present")                                                           \
    X(UNKNOWN, 4, "unknown") /* the backing store failed: the key may be present */    \
    X(FAILED, 5, "failed")   /* the backing store failed, with BG_GATE_FAIL_CLOSED */  \
    X(PENDING, 6, "pending") /* bg_gate_begin only: query the backing store */

/* The outcome of a lookup. */
typedef enum bg_outcome {
#define BG_OUTCOME_ENUM(NAME, number, name) BG_OUTCOME_##NAME = (number),
    BG_OUTCOMES(BG_OUTCOME_ENUM)
#undef BG_OUTCOME_ENUM
} bg_outcome;

/*
 * Returns the name of an outcome, such as "absent_by_filter". Never returns NULL: for an
 * unknown number, returns "unknown outcome". Thread safety: MT-Safe.
 */
BG_API const char *bg_outcome_name(bg_outcome outcome);

/* Flags of a gate. */
enum {
    BG_GATE_FAIL_CLOSED = 1u << 0,   /* a failed query is an error, not a "maybe" */
    BG_GATE_SINGLE_FLIGHT = 1u << 1, /* concurrent lookups of a key share one query */
};

/* The events that raise an alarm. */
typedef enum bg_alarm_kind {
    BG_ALARM_FALSE_NEGATIVE = 0, /* an audit found a key that the filter rejected */
    BG_ALARM_BREAKER_OPEN = 1,   /* the breaker opened, so queries are suspended */
    BG_ALARM_BREAKER_CLOSED = 2, /* the backing store is answering again */
} bg_alarm_kind;

/* An alarm. */
typedef struct bg_alarm {
    uint32_t struct_size; /* sizeof(bg_alarm) */
    uint32_t kind;        /* a bg_alarm_kind */
    uint64_t key_hash;    /* the key's hash, computed by the filter's hasher; or 0 */
    uint64_t count;       /* number of alarms of this kind so far */
} bg_alarm;

/* A trace of one lookup. */
typedef struct bg_trace {
    uint32_t struct_size; /* sizeof(bg_trace) */
    uint32_t outcome;     /* a bg_outcome */
    uint64_t key_hash;    /* the key's hash, computed by the filter's hasher; or 0 */
    uint64_t store_nanoseconds; /* duration of the query; 0 if there was none */
    bool audited;               /* true if the filter's "no" was audited */
    bool shared;                /* true if the lookup used another lookup's query */
} bg_trace;

/*
 * Options for a gate. NULL selects the defaults. Callbacks run in the threads that call
 * the gate. Several callbacks may run at the same time, and no lock is held while they
 * run. They may use the gate, but must not free it.
 */
typedef struct bg_gate_options {
    uint32_t struct_size; /* sizeof(bg_gate_options) */
    uint32_t flags;       /* BG_GATE_FAIL_CLOSED, BG_GATE_SINGLE_FLIGHT */
    void *context;        /* first argument of all callbacks */
    /* Queries the backing store. `request` is the argument that was passed to
     * bg_gate_lookup, such as a buffer for the row or a deadline. May be NULL if only
     * bg_gate_begin is used. */
    bg_store_answer (*query)(void *context, const void *key, size_t len, void *request);
    /* Single flight: copies the result of one request to another request for the same
     * key. Called only if the key is present and neither request is NULL. If `share` is
     * NULL and the key is present, each lookup with a request queries the backing store
     * itself. */
    void (*share)(void *context, const void *from_request, void *to_request);
    /* Writes a key to the backing store; see bg_gate_write. */
    bg_err (*write)(void *context, const void *key, size_t len, void *request);
    /* Called for each alarm; may be NULL. */
    void (*alarm)(void *context, const bg_alarm *alarm);
    /* Called for each finished lookup; may be NULL. */
    void (*trace)(void *context, const bg_trace *trace);
    uint64_t (*clock)(void *context); /* monotonic time in ns; NULL uses the OS clock */
    double audit;                     /* share of "no" answers to check, 0 to 1 */
    uint32_t negative_entries; /* maximum number of cached keys; 0 disables the cache */
    uint32_t negative_key;     /* maximum bytes in a cached key; 0 selects 128 */
    uint64_t negative_ttl;     /* lifetime of a cached key in ns; 0 selects 1 s */
    uint32_t breaker_failures; /* consecutive failures that open the breaker; 0 disables
                                  the breaker */
    uint32_t reserved;         /* 0 */
    uint64_t breaker_rest;     /* time in ns until the next attempt; 0 selects 1 s */
    const bg_allocator *allocator; /* or NULL */
    /* A gate with the same backing store and the same clock. This gate uses its breaker,
     * so that failures of both gates count together, and ignores breaker_failures and
     * breaker_rest. It must outlive this gate. NULL: this gate has its own breaker. */
    bg_gate *breaker_of;
} bg_gate_options;

#define BG_GATE_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_gate_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0     \
    }

/*
 * Creates a gate for a slot. The slot must outlive the gate.
 * Errors: BG_EINVAL; BG_ENOMEM; BG_EIO if the OS provides no random bytes. On error *gate
 * is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_create(bg_slot *slot,
                                           const bg_gate_options *options,
                                           bg_gate **gate, bg_errinfo *info);

/* Frees a gate, but not its slot; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_gate_free(bg_gate *gate);

/* Returns the slot of a gate; NULL for NULL. Thread safety: MT-Safe. */
BG_API bg_slot *bg_gate_slot(const bg_gate *gate);

/* ---- Lookups -------------------------------------------------------------------- */

/*
 * Looks up a key. `request` is passed to the callbacks. Never returns BG_OUTCOME_PENDING.
 * If a query is needed and the gate has no `query` callback, the lookup ends as if the
 * query had failed.
 * Thread safety: MT-Safe; waits only for `query` and, with single flight, for another
 * lookup of the same key. Cost: if the filter answers "no", the cost of
 * bg_slot_may_contain plus one counter update.
 */
BG_API bg_outcome bg_gate_lookup(bg_gate *gate, const void *key, size_t len,
                                 void *request);

/*
 * Looks up n keys. outcomes[i] is set to the outcome for key i, and requests[i] is passed
 * to the callbacks for key i; `requests` may be NULL. Returns the number of keys whose
 * outcome is present or unknown. The filter is queried for up to 1024 keys at once, and
 * the backing store is queried for one key at a time.
 * Thread safety: same as bg_gate_lookup.
 */
BG_API size_t bg_gate_lookup_many(bg_gate *gate, const bg_bytes *keys, size_t n,
                                  void *const *requests, bg_outcome *outcomes);

/*
 * A lookup that is waiting for an answer from the backing store. Zero the ticket before
 * its first use, and keep the key valid until the ticket is finished.
 */
typedef struct bg_ticket {
    const void *key;
    size_t len;
    uint64_t opaque[6];
} bg_ticket;

/*
 * Starts a lookup without calling `query`. If the outcome is BG_OUTCOME_PENDING, query the
 * backing store yourself and pass its answer to bg_gate_finish exactly once. Every other
 * outcome is final.
 *
 * *audit is set to true if the outcome is BG_OUTCOME_ABSENT_BY_FILTER and was selected for
 * an audit. In that case, query the backing store when convenient, and finish the ticket
 * as well. If `audit` is NULL, the lookup is not audited.
 *
 * A ticket owns no memory. If you cannot query the backing store, drop the ticket. The
 * lookup is then not counted, and the breaker does not count a failure. Single flight does
 * not apply: two tickets for the same key may be pending at the same time.
 * Thread safety: MT-Safe; never waits for the backing store.
 */
BG_API bg_outcome bg_gate_begin(bg_gate *gate, const void *key, size_t len,
                                bg_ticket *ticket, bool *audit);

/*
 * Finishes a lookup with the answer from the backing store, and returns the outcome of the
 * lookup. Any thread may call this function. An audit ticket raises no alarm if the
 * slot has received a new base since bg_gate_begin, because the answer may be older than
 * that base. If the ticket is not pending, returns BG_OUTCOME_UNKNOWN and changes nothing.
 * Thread safety: MT-Safe.
 */
BG_API bg_outcome bg_gate_finish(bg_gate *gate, bg_ticket *ticket,
                                 bg_store_answer answer);

/*
 * Returns whether a key may be present according to the filter and the negative cache,
 * without querying the backing store. The call does not count as a lookup. If you query
 * the backing store afterwards, pass the result to bg_gate_report, which makes the
 * observed false-positive rate more accurate.
 * Thread safety: MT-Safe.
 */
BG_API bool bg_gate_may_contain(bg_gate *gate, const void *key, size_t len);

/* ---- Writes --------------------------------------------------------------------- */

/*
 * Writes a key to the backing store with the callback `write`. If the write succeeds, adds
 * the key to the filter. Finally removes the key from the negative cache, even after an
 * error. Once the call has returned BG_OK, every new lookup finds the key.
 *
 * If the key was written but could not be added to the filter, all gates of the slot are
 * in doubt: every lookup queries the backing store, even for keys in the negative cache.
 * The doubt ends when a base that includes the key replaces the current base, either
 * through a bg_slot_rebuild that starts later or through any other replacement with
 * BG_SLOT_DISCARD. Lookups therefore never return a false "no".
 *
 * A write that fails may still have taken effect. If your callback cannot determine
 * whether the write took effect, it should return BG_OK: an unnecessary key in the filter
 * costs a query, but a missing key would cause a false "no".
 * Errors: those of `write`, in which case the filter is unchanged; BG_ENOTSUP if the gate has no
 * `write` callback; those of bg_slot_add.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_write(bg_gate *gate, const void *key, size_t len,
                                          void *request);

/*
 * Performs the remaining steps of bg_gate_write for a key that the caller has already written to
 * the backing store.
 * Errors: those of bg_slot_add, with the same consequences as in bg_gate_write.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_add(bg_gate *gate, const void *key, size_t len);

/*
 * Invalidates all earlier "absent" answers from the backing store: the answers in the
 * negative caches of all gates of the slot, and the answers to queries in progress. A
 * lookup that starts after this call uses none of these answers; lookups in progress may
 * still return them. Call it when keys may have been written without going through the
 * gate. Replacing the slot's base (rebuild, swap, reload, clear) and bg_slot_merge have
 * the same effect. NULL is allowed.
 * Thread safety: MT-Safe; never waits. Cost: one atomic addition.
 */
BG_API void bg_gate_forget_absent(bg_gate *gate);

/*
 * Declares that the backing store may contain keys for which the filter answers "no", for
 * example because a change feed was interrupted. From then on all gates of the slot query
 * the backing store for every lookup, and do not use the negative cache or single flight.
 * The doubt ends as described for bg_gate_write: when a bg_slot_rebuild that starts later
 * finishes, or when the base is replaced with BG_SLOT_DISCARD. Until then the slot cannot
 * be saved. The base that ended the doubt can be replaced only by another rebuild or with
 * BG_SLOT_DISCARD. The call also has the effect of bg_gate_forget_absent. NULL is allowed.
 * Thread safety: MT-Safe. Cost: a lock that is held only briefly.
 */
BG_API void bg_gate_doubt(bg_gate *gate);

/* ---- Feedback and information ----------------------------------------------------- */

/*
 * Reports whether a key was actually present after the filter or bg_gate_may_contain
 * answered "maybe". Use it if you query the backing store yourself.
 * Thread safety: MT-Safe.
 */
BG_API void bg_gate_report(bg_gate *gate, bool was_present);

/* See bg_gate_get_info. Counters start at 0 when the gate is created. */
typedef struct bg_gate_info {
    uint32_t struct_size;       /* sizeof(bg_gate_info), set by the caller */
    uint32_t breaker;           /* 0 (closed), 1 (open) or 2 (trying) */
    uint64_t lookups;           /* finished lookups */
    uint64_t outcomes[6];       /* number of lookups for each bg_outcome */
    uint64_t store_calls;       /* queries to the backing store, including audits */
    uint64_t store_errors;      /* failed queries */
    uint64_t store_nanoseconds; /* total duration of all queries */
    uint64_t avoided; /* lookups answered "no" by the filter without a query */
    uint64_t wasted;  /* false positives found by lookups or reports */
    uint64_t shared;  /* lookups answered by another lookup's query */
    uint64_t spared_by_breaker; /* queries suppressed by the open breaker */
    uint64_t breaker_opened;    /* number of times the breaker opened */
    uint64_t audits;            /* "no" answers that were checked */
    uint64_t false_negatives;   /* false negatives found by audits; should be 0 */
    uint64_t reported;          /* calls to bg_gate_report */
    uint64_t writes;            /* calls to bg_gate_write and bg_gate_add */
    uint64_t write_errors;      /* failed writes */
    uint64_t negative_entries;  /* valid keys in the negative cache */
    uint64_t negative_hits;     /* lookups answered by the negative cache */
    bool doubtful; /* true if a key could not be added or bg_gate_doubt was called;
                      every lookup then queries the backing store */
    bool drifting; /* true if `health` was passed and the observed rate exceeds the
                      predicted rate by more than chance can explain */
    bg_estimate observed; /* false-positive rate of the current base: share of absent
                             keys for which the filter answered "maybe" */
    double predicted;     /* predicted rate from `health`; 0 if `health` is NULL */
} bg_gate_info;

/*
 * Describes a gate. `health`, unless NULL, is a recent result of bg_slot_get_health or
 * bg_slot_sample_health for the gate's slot. It is required for the fields `predicted` and
 * `drifting`.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe. Cost: reads a few cache lines per CPU, and the negative cache.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_get_info(const bg_gate *gate,
                                             const bg_slot_health *health,
                                             bg_gate_info *out);

/*
 * Evaluates a policy with the observed false-positive rate (see bg_slot_advise), and
 * rebuilds the slot if the policy gives a reason to do so and `source` is not NULL. A NULL
 * policy selects BG_POLICY_INIT. *reasons, unless NULL, is set to the reasons for a
 * rebuild. The observed rate counts only if it is based on at least 1,000 lookups of absent
 * keys. For a gate in doubt, the reasons include BG_REASON_DEGRADED. Call it regularly,
 * from a thread that can block for the duration of a rebuild. A client that repeats lookups
 * of a deleted key raises the observed rate, so limit how often BG_REASON_OBSERVED alone
 * causes a rebuild.
 * Errors: BG_EINVAL; those of bg_slot_rebuild.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_maintain(bg_gate *gate, const bg_policy *policy,
                                             const bg_source *source,
                                             const bg_rebuild_options *rebuilding,
                                             uint32_t *reasons, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

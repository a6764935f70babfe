/*
 * gate.h - a filter in front of something slow, and the life around it.
 *
 *     static bg_store_answer ask(void *db, const void *key, size_t len, void *row)
 *     {
 *         int found = db_get(db, key, len, row);          // the expensive question
 *         return found < 0 ? BG_STORE_ERROR : found ? BG_STORE_PRESENT : BG_STORE_ABSENT;
 *     }
 *
 *     bg_gate_options options = BG_GATE_OPTIONS_INIT;
 *     options.ask = ask;
 *     options.context = db;
 *     bg_gate_create(slot, &options, &gate, NULL);
 *
 *     switch (bg_gate_lookup(gate, key, len, &row)) {
 *     case BG_OUTCOME_PRESENT:  use(row);        break;
 *     case BG_OUTCOME_UNKNOWN:  try_elsewhere(); break;   // the truth did not answer
 *     default:          not_found();              // absent, mostly without asking
 *     }
 *
 * What it does for every look-up: ask the filter; if that says "no", the key is absent and
 * the store is spared; else ask the truth, and learn from the answer: what was avoided, what
 * was wasted, and the rate of false positives with its interval.
 *
 * Writes go to the truth first and to the filter second (bg_gate_write). The other way round
 * a crash in between would be harmless, too, but a reader in between would not: with the
 * filter first, an absent answer from the truth could be remembered for a key that is
 * about to be there. With the truth first no "no" is ever wrong once the write returned.
 *
 * When the truth fails, `BG_OUTCOME_UNKNOWN` says so: the key may be there. With
 * BG_GATE_FAIL_CLOSED it is `BG_OUTCOME_FAILED` instead. After `breaker_failures` failures in a row
 * the truth is left alone for `breaker_rest`; then one look-up at a time tries it again. The
 * filter's "no" needs no truth and is never affected.
 *
 * Optional, and off:
 *   negative cache   remembers for a while what the truth called absent, so that one
 *                    unlucky key that the filter takes for a member does not hit the store
 *                    for ever. Keys are compared in full. A write through this gate forgets
 *                    the key; a new base of the slot and bg_gate_forget_absent forget all keys.
 *                    Any other write that goes elsewhere is not noticed until `negative_ttl` has
 *                    passed: turn it on only where that is good enough.
 *   single flight    look-ups of one key at the same time ask the truth once.
 *   audit            a share of the filter's "no" answers is checked with the truth. If it
 *                    ever disagrees, somebody wrote past the gate or the filter is broken:
 *                    the look-up answers BG_OUTCOME_PRESENT, and `alarm` is called.
 *   trace            is called after every look-up, for spans and logs.
 *
 * Without a callback, for event loops: bg_gate_begin answers at once, or says BG_OUTCOME_PENDING
 * and fills in a ticket; ask the truth as you like, then tell bg_gate_finish.
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

/* What the truth says. */
typedef enum bg_store_answer {
    BG_STORE_ABSENT = 0,
    BG_STORE_PRESENT = 1,
    BG_STORE_ERROR = 2, /* it does not answer, or not in time */
} bg_store_answer;

/* X(NAME, number, "name"): the one list of what a look-up can come to. Numbers are frozen. */
#define BG_OUTCOMES(X)                                                                 \
    X(ABSENT_BY_FILTER, 0, "absent_by_filter")                                         \
    X(ABSENT_BY_CACHE, 1, "absent_by_cache") /* the truth said so a while ago */       \
    X(ABSENT_BY_TRUTH, 2, "absent_by_truth") /* a false positive of the filter */      \
    X(PRESENT, 3, "present")                                                           \
    X(UNKNOWN, 4, "unknown") /* the truth failed: it may be there */                   \
    X(FAILED, 5, "failed")   /* the same under BG_GATE_FAIL_CLOSED: an error */        \
    X(PENDING, 6, "pending") /* bg_gate_begin only: ask the truth */

typedef enum bg_outcome {
#define BG_OUTCOME_ENUM(NAME, number, name) BG_##NAME = (number),
    BG_OUTCOMES(BG_OUTCOME_ENUM)
#undef BG_OUTCOME_ENUM
} bg_outcome;

/* "absent_by_filter" and so on; never NULL. */
BG_API const char *bg_outcome_name(bg_outcome outcome);

enum {
    BG_GATE_FAIL_CLOSED = 1u << 0,   /* a failing truth is an error, not a "maybe" */
    BG_GATE_SINGLE_FLIGHT = 1u << 1, /* equal look-ups at once ask once */
};

/* Something is badly wrong; told by `alarm`, and counted. */
typedef enum bg_alarm_kind {
    BG_ALARM_FALSE_NEGATIVE = 0, /* an audit found a key that the filter denied */
    BG_ALARM_BREAKER_OPEN = 1,   /* the truth failed too often and is left alone */
    BG_ALARM_BREAKER_CLOSED = 2, /* it answers again */
} bg_alarm_kind;

typedef struct bg_alarm {
    uint32_t struct_size; /* sizeof(bg_alarm) */
    uint32_t kind;        /* a bg_alarm_kind */
    uint64_t key_hash;    /* by the filter's hasher, which is not the key; or 0 */
    uint64_t count;       /* how often this kind has been raised */
} bg_alarm;

/* What happened to a look-up. The hash is that of the alarm. */
typedef struct bg_trace {
    uint32_t struct_size; /* sizeof(bg_trace) */
    uint32_t outcome;     /* a bg_outcome */
    uint64_t key_hash;
    uint64_t store_nanoseconds; /* 0: not asked */
    uint32_t audited;           /* 1: a "no" that was checked */
    uint32_t shared;            /* 1: the answer of another look-up's question */
} bg_trace;

/*
 * How a gate works. Callbacks are called from the threads that look up, several at a time,
 * and with nothing locked; they may use the gate, but not free it.
 */
typedef struct bg_gate_options {
    uint32_t struct_size; /* sizeof(bg_gate_options) */
    uint32_t flags;       /* BG_GATE_FAIL_CLOSED ... */
    void *context;        /* first argument of all callbacks */
    /* The expensive question. `request` is what bg_gate_lookup was given: where to put the
     * row, a deadline, ... May be NULL for gates that use bg_gate_begin only. */
    bg_store_answer (*ask)(void *context, const void *key, size_t len, void *request);
    /* Single flight: hands the answer of one request on to another that asked for the same
     * key; only for BG_OUTCOME_PRESENT, and for requests that are not NULL. NULL: those who have a
     * request then ask the truth themselves. */
    void (*share)(void *context, const void *from_request, void *to_request);
    /* Puts something to the truth; see bg_gate_write. */
    bg_err (*write)(void *context, const void *key, size_t len, void *request);
    void (*alarm)(void *context, const bg_alarm *alarm);
    void (*trace)(void *context, const bg_trace *trace);
    uint64_t (*clock)(void *context); /* nanoseconds, monotonic; NULL: the system's */
    double audit;              /* share of "no" answers that are checked, 0 .. 1 */
    uint32_t negative_entries; /* of the negative cache; 0: none */
    uint32_t negative_key;     /* longest key in it, in bytes; 0: 128 */
    uint64_t negative_ttl;     /* nanoseconds; 0: 1 s */
    uint32_t breaker_failures; /* in a row; 0: no breaker */
    uint32_t reserved;         /* 0 */
    uint64_t breaker_rest;     /* nanoseconds; 0: 1 s */
    const bg_allocator *allocator;
} bg_gate_options;

#define BG_GATE_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_gate_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0        \
    }

/* Creates a gate on a slot, which must outlive it; options NULL: all usual. Errors:
 * BG_EINVAL, BG_ENOMEM; BG_EIO when the system has no random bytes. */
BG_API BG_MUST_CHECK bg_err bg_gate_create(bg_slot *slot,
                                           const bg_gate_options *options,
                                           bg_gate **gate, bg_errinfo *info);

/* Frees it; the slot stays. NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_gate_free(bg_gate *gate);

/* The slot of a gate. */
BG_API bg_slot *bg_gate_slot(const bg_gate *gate);

/* ---- Look-ups ------------------------------------------------------------------- */

/*
 * Looks a key up. `request` goes to the callbacks. Never BG_OUTCOME_PENDING. A gate without `ask`
 * answers as one whose truth fails where it would be asked.
 * Thread safety: MT-Safe. Waits for the truth if that is asked, and under single flight for
 * an equal look-up; else for nobody.
 */
BG_API bg_outcome bg_gate_lookup(bg_gate *gate, const void *key, size_t len,
                                 void *request);

/*
 * Looks up n keys; outcomes[i] is that of key i, for which `requests[i]` goes to the
 * callbacks (requests may be NULL). Returns how many are present or unknown. The filter is
 * asked for all at once, the truth for one after another.
 */
BG_API size_t bg_gate_lookup_many(bg_gate *gate, const bg_bytes *keys, size_t n,
                                  void *const *requests, bg_outcome *outcomes);

/* A look-up that waits for the truth. Zero it before the first use; keep the key until it is
 * finished. */
typedef struct bg_ticket {
    const void *key;
    size_t len;
    uint64_t opaque[6];
} bg_ticket;

/*
 * The first half of a look-up. BG_OUTCOME_PENDING: ask the truth yourself, and call
 * bg_gate_finish once (of a ticket that is not out it says BG_OUTCOME_UNKNOWN and learns
 * nothing). Else it is done; but if *audit (may be NULL: no audits) is
 * true, an answer BG_OUTCOME_ABSENT_BY_FILTER was chosen to be checked: ask the truth in your own
 * time, and finish that ticket as well.
 * A ticket holds no memory. If the truth cannot be asked, drop the ticket: it is not counted, and the
 * breaker learns nothing.
 * Single flight is not for these: two tickets may be out for one key.
 * Thread safety: MT-Safe, waits for nobody.
 */
BG_API bg_outcome bg_gate_begin(bg_gate *gate, const void *key, size_t len,
                                bg_ticket *ticket, bool *audit);

/* The second half, from any thread. The ticket of an audit raises no alarm if the slot has got
 * another base since bg_gate_begin: the answer may be older than that base. */
BG_API bg_outcome bg_gate_finish(bg_gate *gate, bg_ticket *ticket,
                                 bg_store_answer answer);

/* Whether a key may be present, by filter and negative cache alone: the truth is not asked.
 * It is no look-up in the figures; but who asks the truth himself and tells what it said by
 * bg_gate_report makes the observed rate a better one. */
BG_API bool bg_gate_may_contain(bg_gate *gate, const void *key, size_t len);

/* ---- Writes --------------------------------------------------------------------- */

/*
 * Writes a key to the truth, by the callback `write`, and if that succeeded to the filter;
 * then forgets what is remembered of its absence. When it has returned BG_OK, every look-up
 * that begins finds the key.
 * Errors: that of `write`, with the filter unchanged; BG_ENOTSUP when there is none; those
 * of bg_slot_add: the truth then has the key and the filter has not, so the gate asks the
 * truth for everything from then on, also for what its negative cache remembers, until its
 * slot gets a base that has the key: by a bg_slot_rebuild that begins later, or by any other
 * base if BG_SLOT_DISCARD says that it has everything. Never a false no.
 * A write that fails may have happened nevertheless. If yours cannot tell, let it return
 * BG_OK: a key too many in the filter costs a question, a key too few is lost.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_write(bg_gate *gate, const void *key, size_t len,
                                          void *request);

/* The same for a key that the caller has just written to the truth. */
BG_API BG_MUST_CHECK bg_err bg_gate_add(bg_gate *gate, const void *key, size_t len);

/*
 * Makes all earlier "absent" answers of the backing store void: what the negative caches of all
 * gates of the slot remember, and the answers to questions that are under way. A lookup that begins
 * after this call gets no such answer; running lookups still return theirs. Call it when keys may
 * have been written past the gate. A new base of the slot (rebuild, swap, reload, clear) and
 * bg_slot_merge do the same. NULL is allowed.
 * Thread safety: MT-Safe, waits for nothing. Cost: one atomic addition.
 */
BG_API void bg_gate_forget_absent(bg_gate *gate);

/*
 * Declares that the backing store may have keys that the filter denies, for example because a
 * change feed was interrupted. From then on all gates of the slot query the backing store for every
 * lookup, without negative cache and single flight, until the slot gets a base that has these
 * keys, as after a bg_gate_write that could not be added: by a bg_slot_rebuild that begins later, or by any other
 * base with BG_SLOT_DISCARD. Until then the slot is not saved; afterwards only a rebuild or
 * BG_SLOT_DISCARD replaces its base. It includes bg_gate_forget_absent. NULL is allowed.
 * Thread safety: MT-Safe. Cost: a lock that is never held for long.
 */
BG_API void bg_gate_doubt(bg_gate *gate);

/* ---- Feedback and figures --------------------------------------------------------- */

/* Tells the gate that a "maybe", of bg_gate_may_contain or got from the filter itself, was
 * wrong, or right: for those who ask the truth elsewhere. Thread safety: MT-Safe. */
BG_API void bg_gate_report(bg_gate *gate, bool was_present);

typedef struct bg_gate_info {
    uint32_t struct_size; /* sizeof(bg_gate_info) */
    uint32_t breaker;     /* 0: closed, 1: open, 2: trying */
    uint64_t lookups;
    uint64_t outcomes[6]; /* by bg_outcome */
    uint64_t store_calls; /* including audits */
    uint64_t store_errors;
    uint64_t store_nanoseconds; /* of all calls of `ask` together */
    uint64_t avoided;           /* look-ups that the truth was spared by the filter */
    uint64_t wasted;            /* false positives: outcomes, and reported */
    uint64_t shared;            /* answered by another look-up's question */
    uint64_t spared_by_breaker;
    uint64_t breaker_opened;
    uint64_t audits;
    uint64_t false_negatives; /* that audits found: must be 0 */
    uint64_t reported;        /* by bg_gate_report */
    uint64_t writes;
    uint64_t write_errors;
    uint64_t negative_entries; /* in the negative cache now */
    uint64_t negative_hits;
    uint32_t
        doubtful; /* 1: a write could not be added, or bg_gate_doubt was called: every
                     lookup queries the backing store */
    uint32_t drifting; /* 1: examined, and the observed rate is above the predicted one
                          by more than chance */
    bg_estimate observed; /* rate of false positives since the base came, with its 95 %
                             interval: of absent keys, those that the filter did not deny */
    double predicted;     /* at the present fill, if `examine` was asked for; else 0 */
} bg_gate_info;

/*
 * Fills in `stats`. `examine`: also compare the observed with the predicted rate, which
 * reads every byte of the filter.
 * Errors: BG_EINVAL. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_about(const bg_gate *gate, bool examine,
                                          bg_gate_info *stats);

/*
 * The same, compared with what bg_slot_get_health found in the gate's slot a while ago, so that it
 * need not be found again. NULL: as bg_gate_about without `examine`.
 * Errors: BG_EINVAL. Thread safety: MT-Safe. Cost: some cache lines per processor.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_about_known(const bg_gate *gate,
                                                const bg_slot_health *health,
                                                bg_gate_info *stats);

/*
 * Evaluates the policy (NULL: BG_POLICY_INIT) with the observed rate, and rebuilds the
 * slot if there is a reason and `source` is given; *reasons, unless NULL, says which.
 * A gate that is doubtful has the reason BG_REASON_DEGRADED. Call it from time to time,
 * from a thread that may take long. Errors: BG_EINVAL, those of bg_slot_rebuild.
 */
BG_API BG_MUST_CHECK bg_err bg_gate_maintain(bg_gate *gate, const bg_policy *policy,
                                             const bg_source *source,
                                             const bg_rebuild_options *rebuilding,
                                             uint32_t *reasons, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

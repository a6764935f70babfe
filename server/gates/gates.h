/*
 * gates.h - the service's gates. A gate is a filter in front of a backing store (source.h), with two threads
 * that keep the filter up to date.
 *
 *     struct gates *gates;
 *     gates_create(&options, &gates, &why);
 *     gates_add(gates, &settings, &why);                       // starts its threads
 *     gates_lookup(gates, name, key, &row, &outcome, &why);
 *
 * Phases of a gate:
 *
 *     waiting      the source cannot be reached, or its follower has not started yet
 *     building     all keys are being read into the first filter
 *     serving      the filter answers, and the follower adds changes
 *     rebuilding   like serving, while a new filter is built because the old one is too full or too old, has too many
 *                  false positives, or because the follower has started a new epoch
 *
 * Lookups work immediately: while there is no filter, or the filter is not trusted, every lookup queries the source. If
 * that query fails, the outcome is BG_OUTCOME_UNKNOWN, or BG_OUTCOME_FAILED for a gate with fail=closed. An
 * unavailable source therefore does not block lookups.
 *
 * Trust. The filter's "no" is trusted only if
 *   (T1) the filter was filled by a read of all keys in the source's current epoch, or was saved with
 *        the mark at which the source resumed;
 *   (T2) the source has proven within the last `max-lag` that it has reported all changes (source.h, S4);
 *   (T3) the source has not ended its epoch, and no audit has found a false negative in the filter; and
 *   (T4) the key is spelled as the database prints it (key_form.h).
 * A key that is written directly to the source is found as soon as the follower has reported it. A "no" may be wrong
 * only for keys that were committed after the last proof, which is at most max-lag old. A client that needs a stronger
 * guarantee calls gates_wrote after its own write.
 *
 * Thread safety: all functions are MT-Safe except gates_free, which may be called only after all other calls have
 * returned. Lookups wait for the source, so event-loop threads must not call gates_lookup. Instead, they call
 * gates_begin, which never waits, and let another thread call gates_finish.
 */
#ifndef SERVER_GATES_H
#define SERVER_GATES_H

#include "bloomgate/all.h"
#include "config/gate_settings.h"
#include "source/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gates;

/* X(NAME, "name"): all events. */
#define GATE_EVENTS(X)                                                                 \
    X(BUILD_BEGAN, "build_began")   /* text: why it started */                         \
    X(BUILD_ENDED, "build_ended")   /* keys, seconds */                                \
    X(BUILD_FAILED, "build_failed") /* text: why the build failed; it is retried */    \
    X(SOURCE_LOST, "source_lost")                                                      \
    X(SOURCE_BACK, "source_back")       /* after source_lost */                        \
    X(DOUBTED, "doubted")               /* text: why the proofs are no longer valid */ \
    X(RESTARTED, "restarted")           /* text: why all keys are read again */        \
    X(RESUMED, "resumed")               /* the saved filter is in use */               \
    X(SAVE_FAILED, "save_failed")       /* text: why the save failed; it is retried */ \
    X(STALE, "stale")                   /* there was no proof within max-lag */        \
    X(FRESH, "fresh")                   /* the filter is no longer stale */            \
    X(FALSE_NEGATIVE, "false_negative") /* found by an audit */                        \
    X(BREAKER_OPEN, "breaker_open")                                                    \
    X(BREAKER_CLOSED, "breaker_closed")

enum gate_event_kind {
#define GATE_EVENT_ENUM(NAME, name) GATE_EVENT_##NAME,
    GATE_EVENTS(GATE_EVENT_ENUM)
#undef GATE_EVENT_ENUM
};

struct gate_event {
    enum gate_event_kind kind;
    const char *gate; /* the name of the gate */
    const char *text; /* details, or "" */
    uint64_t keys;    /* number of keys in a build */
    double seconds;
};

const char *gate_event_name(enum gate_event_kind kind);

struct gates_options {
    /* The hash for all filters. Its secret must outlive the gates. */
    bg_hash_spec hash;
    uint64_t max_filter_bytes; /* maximum size of one filter; 0 means no limit */
    const char *dir; /* filters are saved in DIR/gates, or not at all if NULL */
    /* Receives events. Any thread may call this function, and several threads may call it
     * concurrently. It must not call gates_free. */
    void (*event)(void *context, const struct gate_event *event);
    void *context;
};

bg_err gates_create(const struct gates_options *options, struct gates **gates,
                    bg_errinfo *info);

/* Stops all gates and frees them. NULL is allowed. */
void gates_free(struct gates *gates);

/* Adds a gate without waiting for its source. The settings are copied. Errors: any error from gate_settings_check;
 * BG_EBUSY if the name is already in use; BG_ENOMEM. */
bg_err gates_add(struct gates *gates, const struct gate_settings *settings,
                 bg_errinfo *info);

size_t gates_count(struct gates *gates);
bool gates_has(struct gates *gates, bg_bytes name);

/*
 * Looks up a key. `row`, unless NULL, is filled in if the outcome is BG_OUTCOME_PRESENT. The caller checks that the gate
 * may return rows (gates_check_rows).
 * Errors: BG_ENOTFOUND if there is no such gate. A source failure is reported as an outcome, not an
 * error.
 */
bg_err gates_lookup(struct gates *gates, bg_bytes name, bg_bytes key,
                    struct store_row *row, bg_outcome *outcome, bg_errinfo *info);

/* A lookup in two steps. */
struct gates_ticket {
    struct gate *gate; /* NULL if there is nothing to finish */
    bg_gate *asked;
    enum key_form form; /* the form used to normalize the key */
    bg_ticket ticket;
};

/*
 * Starts a lookup; never waits. *outcome is BG_OUTCOME_PENDING or the final outcome. If ticket->gate is not NULL when
 * gates_begin returns, call gates_finish or gates_abandon exactly once. gates_finish must be called on a thread that
 * may wait. After BG_OUTCOME_PENDING, gates_finish returns the final outcome. Otherwise, it runs an audit, and its
 * return value can be ignored. The key must stay valid until gates_finish or gates_abandon is called.
 */
bg_err gates_begin(struct gates *gates, bg_bytes name, bg_bytes key,
                   struct gates_ticket *ticket, bg_outcome *outcome, bg_errinfo *info);
bg_outcome gates_finish(struct gates_ticket *ticket, struct store_row *row);

/* Ends a lookup without querying the source; call it instead of gates_finish. The lookup does not count as a source
 * failure. Never waits. */
void gates_abandon(struct gates_ticket *ticket);

/* Checks that a gate may return rows (rows=yes). Errors: BG_ENOTFOUND; BG_ENOTSUP without
 * rows=yes. */
bg_err gates_check_rows(struct gates *gates, bg_bytes name, bg_errinfo *info);

/* Records that the caller has written a key to the source. Lookups that start after this call find the key. */
bg_err gates_wrote(struct gates *gates, bg_bytes name, bg_bytes key, bg_errinfo *info);

/* Requests a rebuild of the filter. The gate keeps serving lookups during the rebuild. */
bg_err gates_rebuild(struct gates *gates, bg_bytes name, bg_errinfo *info);

enum gate_phase { GATE_WAITING, GATE_BUILDING, GATE_SERVING, GATE_REBUILDING };

/* The state of a gate. The pointers are valid until the callback returns. */
struct gate_about {
    const char *name;
    const struct gate_settings *settings;
    const bg_slot *slot; /* for bg_slot_get_info, bg_slot_get_health and metrics */
    const bg_gate *gate; /* for lookup statistics (bg_gate_get_info) */
    /* statistics for lookups that queried the source directly */
    const bg_gate *blind;
    enum gate_phase phase;
    bool trusted; /* T1 to T3 */
    /* False if the follower failed, or if the last lookup failed and the follower has not
     * recovered since. If there is no follower, the last build counts instead. */
    bool source_up;
    char source_text[BG_ERR_MESSAGE_MAX]; /* the last error, or "" */
    /* seconds since the follower last caught up; negative if it never has */
    double lag;
    uint64_t position; /* see source.h */
    uint64_t changes;  /* number of keys that the follower has reported */
    uint64_t restarts; /* number of source epochs, including the first one */
    uint64_t saves;    /* number of times the filter was saved successfully */
    uint64_t builds;   /* number of successful builds */
    uint64_t build_failures;
    char build_text[BG_ERR_MESSAGE_MAX]; /* why the last build failed, or "" */
    uint64_t build_keys;                 /* number of keys in the last build */
    double build_seconds;                /* duration of the last build */
    uint64_t
        build_time; /* end of the last successful build, in milliseconds since 1970, or 0 */
    /* number of keys read so far by the current build */
    uint64_t progress_keys;
    uint64_t progress_expected; /* 0 if unknown */
};

/* Calls `tell` for every gate, in the order in which the gates were added. */
void gates_each(struct gates *gates,
                void (*tell)(void *context, const struct gate_about *about),
                void *context);

/* Calls `tell` for one gate. Errors: BG_ENOTFOUND. */
bg_err gates_about(struct gates *gates, bg_bytes name,
                   void (*tell)(void *context, const struct gate_about *about),
                   void *context, bg_errinfo *info);

/* Adds up the statistics of lookups that used the filter and of lookups that did not. `health` contains the results
 * of the filter's last examination, or is NULL. */
void gates_total(const struct gate_about *about, const bg_slot_health *health,
                 bg_gate_info *sum);

#endif

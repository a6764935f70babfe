/*
 * gates.h - the gates of the service: each a filter over a source of truth (source.h), and two
 * threads that keep it right.
 *
 *     struct gates *gates;
 *     gates_create(&options, &gates, &why);
 *     gates_add(gates, &settings, &why);                       // its life begins
 *     gates_lookup(gates, "products", 8, key, len, &value, &outcome, &why);
 *
 * Life of a gate:
 *
 *     waiting      the source cannot be reached, or its follower has not started yet
 *     building     all keys are being read into the first filter
 *     serving      the filter answers, and the follower adds changes
 *     rebuilding   the same, while a new filter is created: the old one is too full, too old or too
 *                  often wrong, or the follower has started a new epoch
 *
 * Lookups work from the start: without a filter, and whenever the filter is not trusted, every lookup
 * queries the source. If that fails too, the outcome is BG_UNKNOWN, or BG_FAILED for a gate that fails
 * closed. So a source that is unavailable stops nothing.
 *
 * Trust. The filter's "no" counts only if
 *   (T1) the filter was filled by a read of all keys in the source's present epoch, or was saved with
 *        the mark at which the source resumed;
 *   (T2) the source has proven within the last `max-lag` that it has reported all changes (source.h, S4);
 *   (T3) the source has not ended its epoch, and no audit has found a false negative in it; and
 *   (T4) the key is spelled as the database prints it (key_form.h).
 * A key that is written past the gate is found as soon as the follower has reported it: "no" may be wrong
 * for keys that were committed after the last proof, at most max-lag ago, and for no others. A client that
 * needs more calls gates_wrote after its own write.
 *
 * Thread safety: everything is MT-Safe, but for gates_free, before which all others must have
 * returned. Look-ups wait for the source, so they are not for the threads of event loops; those
 * use gates_begin, which waits for nobody, and let another thread do gates_finish.
 */
#ifndef SERVER_GATES_H
#define SERVER_GATES_H

#include "bloomgate/bloomgate.h"
#include "gate_settings.h"
#include "source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gates;

/* X(NAME, "name"): the one list of what is told. */
#define GATE_EVENTS(X)                                                                 \
    X(BUILD_BEGAN, "build_began")   /* text: why */                                    \
    X(BUILD_ENDED, "build_ended")   /* keys, seconds */                                \
    X(BUILD_FAILED, "build_failed") /* text: why; it is tried again */                 \
    X(SOURCE_LOST, "source_lost")                                                      \
    X(SOURCE_BACK, "source_back")                                                      \
    X(DOUBTED, "doubted")               /* text: why nothing is proven any more */     \
    X(RESTARTED, "restarted")           /* text: why all keys are read again */        \
    X(RESUMED, "resumed")               /* the saved filter is in use */               \
    X(SAVE_FAILED, "save_failed")       /* text: why; it is tried again */             \
    X(STALE, "stale")                   /* no proof for max-lag */                     \
    X(FRESH, "fresh")                   /* there is one again */                       \
    X(FALSE_NEGATIVE, "false_negative") /* an audit found one */                       \
    X(BREAKER_OPEN, "breaker_open")                                                    \
    X(BREAKER_CLOSED, "breaker_closed")

enum gate_event_kind {
#define GATE_EVENT_ENUM(NAME, name) GATE_EVENT_##NAME,
    GATE_EVENTS(GATE_EVENT_ENUM)
#undef GATE_EVENT_ENUM
};

struct gate_event {
    enum gate_event_kind kind;
    const char *gate; /* its name */
    const char *text; /* more about it, or "" */
    uint64_t keys;    /* of a build */
    double seconds;
};

const char *gate_event_name(enum gate_event_kind kind);

struct gates_options {
    bg_hash_spec hash;         /* of all filters; a secret must outlive the gates */
    uint64_t max_filter_bytes; /* of one filter; 0: no limit */
    const char *dir; /* filters are saved in DIR/gates; NULL: they are not saved */
    /* Told from any thread, several at a time; must not call gates_drop or gates_free. */
    void (*event)(void *context, const struct gate_event *event);
    void *context;
};

bg_err gates_create(const struct gates_options *options, struct gates **gates,
                    bg_errinfo *info);

/* Stops all gates and frees them. NULL is allowed. */
void gates_free(struct gates *gates);

/* Adds a gate; the settings are copied. Its source is not waited for. Errors: those of
 * gate_settings_check; BG_EBUSY when the name is taken; BG_ENOMEM. */
bg_err gates_add(struct gates *gates, const struct gate_settings *settings,
                 bg_errinfo *info);

/* Stops a gate and forgets it; waits for look-ups in it. BG_ENOTFOUND: there is none. */
bg_err gates_drop(struct gates *gates, bg_bytes name, bg_errinfo *info);

size_t gates_count(struct gates *gates);
bool gates_has(struct gates *gates, bg_bytes name);

/*
 * Looks a key up. `value` (may be NULL) is filled if the outcome is BG_PRESENT.
 * Errors: BG_ENOTFOUND, no such gate. A source that fails is no error but an outcome.
 */
bg_err gates_lookup(struct gates *gates, bg_bytes name, bg_bytes key,
                    struct source_value *value, bg_outcome *outcome, bg_errinfo *info);

/* A look-up in two halves. Zero it before the first use. */
struct gates_ticket {
    struct gate *gate; /* NULL: there is nothing to be finished */
    bg_gate *asked;
    bg_ticket ticket;
};

/*
 * The first half: waits for nobody. *outcome is BG_PENDING, or the answer. If ticket->gate is not
 * NULL then, gates_finish must be called once, from a thread that may wait: for BG_PENDING it
 * gives the answer; else it is an audit in arrears, and its result need not be told. The key must
 * stay where it is until then.
 */
bg_err gates_begin(struct gates *gates, bg_bytes name, bg_bytes key,
                   struct gates_ticket *ticket, bg_outcome *outcome, bg_errinfo *info);
bg_outcome gates_finish(struct gates_ticket *ticket, struct source_value *value);

/* Call it instead of gates_finish if the source is not queried. The lookup does not count as a failure of the
 * source. It never waits. */
void gates_abandon(struct gates_ticket *ticket);

/* The caller has written a key to the source: look-ups that begin from now on find it. */
bg_err gates_wrote(struct gates *gates, bg_bytes name, bg_bytes key, bg_errinfo *info);

/* Lets the filter be made anew, soon; serves on meanwhile. */
bg_err gates_rebuild(struct gates *gates, bg_bytes name, bg_errinfo *info);

enum gate_phase { GATE_WAITING, GATE_BUILDING, GATE_SERVING, GATE_REBUILDING };
const char *gate_phase_name(enum gate_phase phase);

/* What there is to know of a gate. The pointers are valid until the callback returns. */
struct gate_about {
    const char *name;
    const struct gate_settings *settings;
    const bg_slot *slot;  /* for bg_slot_about, bg_slot_examine, metrics */
    const bg_gate *gate;  /* for bg_gate_about; look-ups while the filter was trusted */
    const bg_gate *blind; /* the same while it was not: all of them asked the source */
    enum gate_phase phase;
    bool trusted;   /* T1 to T3 */
    bool source_up; /* as the follower knows, or the last build, or the last question */
    char source_text[192]; /* the last error, or "" */
    double lag; /* seconds since the follower last caught up; below 0: never, or none */
    uint64_t position; /* see source.h */
    uint64_t changes;  /* keys that it has told */
    uint64_t restarts; /* epochs of the source, including the first one */
    uint64_t saves;    /* of the filter */
    uint64_t builds;   /* that succeeded */
    uint64_t build_failures;
    char build_text[192];       /* why the last build failed, or "" */
    uint64_t build_keys;        /* of the last one */
    double build_seconds;       /* of the last one */
    uint64_t progress_keys;     /* of the one under way */
    uint64_t progress_expected; /* 0: unknown */
};

/* Calls `tell` for every gate, in the order in which they were added. Gates that are dropped
 * meanwhile wait for it. */
void gates_each(struct gates *gates,
                void (*tell)(void *context, const struct gate_about *about),
                void *context);

/* The same for one. BG_ENOTFOUND: there is none. */
bg_err gates_about(struct gates *gates, bg_bytes name,
                   void (*tell)(void *context, const struct gate_about *about),
                   void *context, bg_errinfo *info);

#endif

/*
 * watched_gates.h - the observer's data about gates: the statistics of their filters, and a history
 * for charts.
 *
 * There are few gates, and they are never removed, so a list is enough. The first WATCHED_GATES
 * gates have a history, which starts with the service, so the charts are complete even when a page
 * is opened for the first time.
 *
 * Thread safety: the caller holds the observer's lock.
 */
#ifndef SERVER_OBSERVE_WATCHED_GATES_H
#define SERVER_OBSERVE_WATCHED_GATES_H

#include "gates/gates.h"
#include "observe/observer.h"

enum { WATCHED_GATES = 64 };

/* Counters of a gate at the last step. */
struct watched_gate_counts {
    uint64_t lookups, avoided, wasted, calls, errors, nanoseconds;
};

struct watched_gate {
    char *name;
    struct figures figures; /* from the last examination */
    uint64_t examined_adds;
    struct watched_gate_counts last;
    bool has_last;
    struct history *history; /* or NULL */
};

struct watched_gates {
    struct watched_gate *list;
    size_t count;
};

/* Returns the gate with this name, or NULL. */
struct watched_gate *watched_gate_find(const struct watched_gates *gates,
                                       const char *name);

/* Returns the gate with this name, adding it if it is missing. Returns NULL if out of memory. */
struct watched_gate *watched_gate_get(struct watched_gates *gates, const char *name);

/* Adds a point to the history of a gate. */
void watched_gate_step(struct watched_gates *gates, const struct gate_about *about,
                       uint64_t seconds);

void watched_gates_free(struct watched_gates *gates);

#endif

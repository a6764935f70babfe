/*
 * gates_inside.h - what a gate of the service is made of, for gates.c (look-ups) and gates_life.c
 * (its threads).
 */
#ifndef SERVER_GATES_INSIDE_H
#define SERVER_GATES_INSIDE_H

#include "gates.h"

#include <pthread.h>
#include <stdatomic.h>

struct gate {
    struct gates_options how; /* of all gates */
    struct gate_settings settings;
    struct source *source;
    bool followed;
    bg_slot *slot;          /* its filter */
    bg_slot *nothing;       /* never has one */
    bg_gate *gate;          /* over slot */
    bg_gate *blind;         /* over nothing: asks the source for everything */
    _Atomic uint32_t users; /* look-ups and others that have it in hand */

    /* Trust: see gates.h. */
    _Atomic uint64_t needed;    /* how often the follower has begun anew */
    _Atomic uint64_t built;     /* which of these the filter was made after */
    _Atomic uint64_t caught_up; /* the last `since`; 0: never */
    uint64_t max_lag;           /* nanoseconds; 0: for ever */

    /* Figures. */
    _Atomic int phase;
    _Atomic uint64_t position, changes, anew;
    _Atomic uint64_t builds, build_failures, progress_keys, progress_expected;
    atomic_bool ask_failed;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;  /* of what follows */
    pthread_cond_t wake;   /* the thread has something to do */
    pthread_cond_t caught; /* the follower has caught up */
    bool stopping;
    bool rebuild_asked;  /* at once */
    bool rebuild_wanted; /* when it is time */
    char why[128];       /* the next build is made */
    bool source_up;
    char source_text[192];
    char build_text[192]; /* why the last build failed, or "" */
    uint64_t build_keys;
    double build_seconds;
};

/* ---- gates.c ------------------------------------------------------------------------------ */

/* Whether the filter's "no" is believed. */
bool gate_is_trusted(const struct gate *gate);

void gate_tell(const struct gate *gate, enum gate_event_kind kind, const char *text,
               uint64_t keys, double seconds);

/* ---- gates_life.c ------------------------------------------------------------------------- */

/* Starts the threads; and ends them and all that is under way. */
bg_err gate_life_begin(struct gate *gate, bg_errinfo *info);
void gate_life_end(struct gate *gate);

/* Lets the filter be made anew: at once, or not before ten times as long as the last build took,
 * and a second, have passed since. */
void gate_life_rebuild(struct gate *gate, bool at_once, const char *why);

/* Waits until the follower has seen everything that was committed before now, or for a second. */
void gate_life_await(struct gate *gate);

#endif

/*
 * gates_inside.h - what a gate of the service consists of, for gates.c (lookups) and gates_life.c
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
    _Atomic uint64_t needed;    /* the epoch of the source; 0: none yet */
    _Atomic uint64_t built;     /* the epoch for which the filter is complete */
    _Atomic uint64_t caught_up; /* the last `since`; 0: none in this epoch */
    atomic_bool doubted; /* the epoch has ended, or an audit found a false negative */
    uint64_t max_lag;    /* nanoseconds */

    /* Figures. */
    _Atomic int phase;
    _Atomic uint64_t position, changes, restarts, saves;
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
    char *file;              /* where the filter is saved, or NULL */
    char mark[SOURCE_MARK];  /* of the last proof in this epoch, or "" */
    uint64_t mark_epoch;     /* the source's epoch of the mark */
    char saved[SOURCE_MARK]; /* the mark in the file, or "" */
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

/* Rebuilds the filter: at once, or when at least one second and ten times the duration of the last
 * build have passed since that build. */
void gate_life_rebuild(struct gate *gate, bool at_once, const char *why);

/* Stops trusting the filter until all keys have been read in a new epoch. */
void gate_life_doubt(struct gate *gate, const char *why);

/* Waits until the follower has reported everything that was committed before now, up to max-lag. */
void gate_life_await(struct gate *gate);

#endif

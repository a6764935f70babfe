/*
 * gates/gate.h - the internals of a gate, for gates.c (lookups) and gates/life.c (threads).
 */
#ifndef SERVER_GATES_GATE_H
#define SERVER_GATES_GATE_H

#include "gates/gates.h"

#include <pthread.h>
#include <stdatomic.h>

struct gate {
    struct gates_options how; /* options shared by all gates */
    struct gate_settings settings;
    struct source *source;
    bool followed;
    bg_slot *slot;          /* holds the filter */
    bg_slot *nothing;       /* never holds a filter */
    bg_gate *gate;          /* over slot */
    bg_gate *blind;         /* has no filter, so it always queries the source */
    _Atomic uint32_t users; /* number of lookups and other calls in progress */

    /* Trust: see gates.h. */
    _Atomic uint64_t needed; /* the source's current epoch; 0 if it has none yet */
    _Atomic uint64_t built;  /* epoch for which the filter is complete */
    /* `since` value of the last proof; 0 if this epoch has no proof yet */
    _Atomic uint64_t caught_up;
    atomic_bool doubted; /* the epoch has ended, or an audit found a false negative */
    uint64_t max_lag;    /* nanoseconds */

    /* Statistics. */
    _Atomic int phase;
    _Atomic uint64_t position, changes, restarts, saves;
    _Atomic uint64_t builds, build_failures, progress_keys, progress_expected;
    atomic_bool ask_failed;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;  /* protects the fields below */
    pthread_cond_t wake;   /* wakes the maker thread */
    pthread_cond_t caught; /* signaled when the follower has caught up */
    bool stopping;
    bool rebuild_asked;  /* rebuild immediately */
    bool rebuild_wanted; /* rebuild after the pause that follows the last build */
    char why[BG_ERR_MESSAGE_MAX]; /* reason for the next build */
    /* the saved filter cannot be used, for the reason in `why` */
    bool is_unusable;
    bool source_up;
    /* time at which the source's state was last reported as an event */
    uint64_t source_told;
    uint32_t source_reports;              /* reasons reported since then */
    char source_text[BG_ERR_MESSAGE_MAX]; /* why the follower failed, or "" */
    char ask_text[BG_ERR_MESSAGE_MAX];    /* why the last lookup failed, or "" */
    char build_text[BG_ERR_MESSAGE_MAX];  /* why the last build failed, or "" */
    uint64_t build_keys;
    double build_seconds;
    uint64_t build_time;     /* see gates.h */
    char *file;              /* where the filter is saved, or NULL */
    char mark[SOURCE_MARK];  /* mark of the last proof in this epoch, or "" */
    uint64_t mark_epoch;     /* the source's epoch at that mark */
    char saved[SOURCE_MARK]; /* the mark in the file, or "" */
};

/* ---- gates.c ------------------------------------------------------------------------------ */

/* Returns whether the filter's "no" is trusted (T1 to T3). */
bool gate_is_trusted(const struct gate *gate);

/* Records whether a lookup, or the check of `lookup`, failed. `why` contains the reason. */
void gate_note_answer(struct gate *gate, const bg_errinfo *why, bool failed);

void gate_tell(const struct gate *gate, enum gate_event_kind kind, const char *text,
               uint64_t keys, double seconds);

/* ---- gates/life.c ------------------------------------------------------------------------- */

/* gate_life_begin starts the threads. gate_life_end cancels their work and stops them. */
bg_err gate_life_begin(struct gate *gate, bg_errinfo *info);
void gate_life_end(struct gate *gate);

/* Requests a rebuild, either immediately or after a pause. The pause after the last build is at least one second, and
 * at least ten times the duration of that build. */
void gate_life_rebuild(struct gate *gate, bool at_once, const char *why);

/* Stops trusting the filter until all keys have been read in a new epoch. */
void gate_life_doubt(struct gate *gate, const char *why);

/* Waits until the follower has reported everything committed before the call, but no longer than
 * max-lag. */
void gate_life_await(struct gate *gate);

#endif

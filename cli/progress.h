/*
 * progress.h - shows progress on one line of stderr. By default, progress is shown only on a
 * terminal, and only for work that takes longer than a second.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "say.h"

struct progress {
    const char *what;    /* "reading", or NULL if nothing is shown */
    double began, shown; /* time of the start, and of the last redraw, in seconds */
    bool drawn;
};

/* Selects when progress is shown (--progress). */
void progress_show(enum say_when when);

/* Starts an operation. If `what` is NULL, nothing is shown; only progress_seconds is useful then. */
void progress_begin(struct progress *progress, const char *what);

/* Reports that `done` of `all` bytes have been processed; `all` is 0 if unknown. The call is cheap,
 * because the line is redrawn at most ten times per second. Call this function from one thread at a
 * time. */
void progress_tick(struct progress *progress, uint64_t done, uint64_t all);

/* Removes the line. */
void progress_end(struct progress *progress);

/* Returns the number of seconds since progress_begin. */
double progress_seconds(const struct progress *progress);

#endif

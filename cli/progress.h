/*
 * progress.h - a line on stderr that says how far it is: only on a terminal, and only for what
 * takes longer than a second (unless told otherwise).
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "say.h"

#include <stdint.h>

struct progress {
    const char *what; /* "reading" */
    enum say_when when;
    double began, shown; /* seconds of the clock */
    bool drawn;
};

void progress_begin(struct progress *progress, const char *what, enum say_when when);

/* `done` of `all` bytes (0: unknown). Cheap: draws ten times a second at most. By one thread
 * at a time. */
void progress_tick(struct progress *progress, uint64_t done, uint64_t all);

/* Removes the line. */
void progress_end(struct progress *progress);

/* Seconds since it began. */
double progress_seconds(const struct progress *progress);

#endif

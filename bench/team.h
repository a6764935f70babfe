/*
 * team.h - threads that are pinned to cores and start a task together.
 */
#ifndef BGB_TEAM_H
#define BGB_TEAM_H

#include <stdint.h>

struct bgb_team;

/* Starts `threads` threads and pins the i-th thread to the i-th core, wrapping around if there
 * are more threads than cores. The threads sleep until bgb_team_run is called. */
struct bgb_team *bgb_team_start(unsigned threads);
void bgb_team_stop(struct bgb_team *team);
unsigned bgb_team_size(const struct bgb_team *team);

/* Runs work(arg, i) on every thread i; all threads are awake before the first one
 * starts. Returns the nanoseconds from the first thread's start to the last thread's end. */
uint64_t bgb_team_run(struct bgb_team *team, void (*work)(void *arg, unsigned i),
                      void *arg);

#endif

/*
 * stop.h - SIGINT, SIGTERM, SIGHUP and SIGXCPU (a limit of CPU time) ask the command to stop. It
 * then removes temporary files, dedup saves its state, and the exit code is 130. A second signal
 * ends it at once, but not a second SIGHUP. SIGHUP stays ignored if it was (nohup). SIGQUIT ends
 * it at once and dumps core, which is what SIGQUIT is for.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* Installs the handlers; SIGPIPE is ignored, writes tell (out.h). */
void stop_prepare(void);

/* Whether somebody asked. Thread safety: MT-Safe. */
bool stop_wanted(void);

/* Becomes readable when somebody asks, for whoever waits by poll: a signal interrupts one
 * thread only, and that may be another one. -1: there is none. */
int stop_fd(void);

#endif

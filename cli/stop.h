/*
 * stop.h - SIGINT, SIGTERM, SIGHUP and SIGXCPU (CPU time limit) request a stop. The command then
 * removes temporary files, dedup saves its state, and the exit code is 130. A second signal ends the
 * command at once, except for a second SIGHUP. If SIGHUP was ignored at the start (nohup), it stays
 * ignored. SIGQUIT ends the command at once with a core dump.
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

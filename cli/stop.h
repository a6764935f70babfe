/*
 * stop.h - SIGINT and SIGTERM ask the command to stop. It then undoes what is half done
 * (temporary files) and exits with 130. The second signal ends it at once.
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

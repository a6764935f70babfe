/*
 * stop.h - SIGINT, SIGTERM, SIGHUP and SIGXCPU (CPU time limit) request a stop. The command then
 * removes temporary files, dedup saves its state, and the exit code is 130. If the same signal
 * arrives a second time, it terminates the command immediately, except for SIGHUP. If SIGHUP was
 * ignored at startup (nohup), it stays ignored. SIGQUIT terminates the command immediately, with a
 * core dump.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* Installs the handlers. SIGPIPE is ignored, because writes report the error (out.h). */
void stop_prepare(void);

/* Returns whether a stop was requested. Thread safety: MT-Safe. */
bool stop_wanted(void);

/* Returns a descriptor that becomes readable when a stop is requested, for threads that wait in
 * poll. It is needed because a signal interrupts only one thread, which may not be the waiting
 * thread. Returns -1 if no such descriptor could be created. */
int stop_fd(void);

#endif

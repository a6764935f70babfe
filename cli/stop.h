/*
 * stop.h - SIGINT, SIGTERM, SIGHUP and SIGXCPU (CPU time limit) request a stop. The command then
 * removes its temporary files (dedup also saves its state) and exits with code 130. If SIGINT,
 * SIGTERM or SIGXCPU arrives a second time, it terminates the command immediately. If SIGHUP was
 * ignored at startup (nohup), it stays ignored. SIGQUIT terminates the command immediately, with a
 * core dump.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* Installs the handlers. Also ignores SIGPIPE, so that writing to a closed pipe fails and the error
 * is reported (out_finish). */
void stop_prepare(void);

/* Returns whether a stop was requested. Thread safety: MT-Safe. */
bool stop_wanted(void);

/* Returns a descriptor that becomes readable when a stop is requested, for threads that wait in
 * poll. The descriptor is needed because a signal interrupts only one thread, which may not be the
 * one that is waiting. Returns -1 if no such descriptor could be created. */
int stop_fd(void);

#endif

/*
 * startup.h - what a daemon does before and around its work: folders, secrets, limits, the pid
 * file, and talking with the service manager.
 *
 * Functions that can fail return false and say in `why` what is wrong.
 * Thread safety: for main, before other threads start; startup_notify is MT-Safe.
 */
#ifndef SERVER_STARTUP_H
#define SERVER_STARTUP_H

#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The process: SIGPIPE ignored, files made for the owner only, no core files of memory with
 * secrets (unless settings allow them). */
void startup_process(const struct settings *settings);

/* The data folder, made with mode 0700 if it is missing, and locked, so that two services
 * cannot write to one. *lock is a descriptor to be kept open. */
bool startup_folder(const char *dir, int *lock, char why[SETTINGS_WHY]);

/* The keyring, made with a first secret if the file is missing (*made). The folder is made, too. */
bool startup_keyring(const char *path, bg_keyring **ring, bool *made,
                     char why[SETTINGS_WHY]);

/* Room for so many clients, and what else is open: raises the limit of open files. Returns how
 * many clients there is room for, which may be fewer. */
uint64_t startup_descriptors(uint64_t maxclients);

/* The pid file; "" is none. It is removed only if it still has our number. */
bool startup_pid_file(const char *path, char why[SETTINGS_WHY]);
void startup_remove_pid_file(const char *path);

/* ---- The service manager --------------------------------------------------------------------- */

/* What the option supervised asks for: no forgets the manager, systemd refuses to do without. */
bool startup_supervised(const struct settings *settings, char why[SETTINGS_WHY]);

/* Sends to $NOTIFY_SOCKET, as sd_notify does: "READY=1". False: there is none, or it failed. */
bool startup_notify(const char *state);

/* The usual ones. RELOADING needs the time, and is ended by startup_ready. */
bool startup_ready(const char *status);
bool startup_reloading(void);
bool startup_stopping(const char *status);
bool startup_watchdog(void);

/* How often startup_watchdog should be called, in milliseconds; 0: nobody asks for it. */
uint64_t startup_watchdog_interval(void);

#endif

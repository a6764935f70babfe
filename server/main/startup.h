/*
 * startup.h - the setup of a daemon: directories, secrets, limits, the PID file, and notifications
 * to the service manager.
 *
 * Functions that can fail return false and set `why`. Thread safety: startup_notify is thread-safe;
 * all other functions must be called from main, before other threads start.
 */
#ifndef SERVER_STARTUP_H
#define SERVER_STARTUP_H

#include "config/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets up the process: ignores SIGPIPE, makes new files accessible only to their owner, and
 * disables core dumps (unless the settings allow them), because they would contain secrets. */
void startup_process(const struct settings *settings);

/* Creates the data directory with mode 0700 if it is missing, and locks it so that no other service
 * can write to it. *lock is a file descriptor that must stay open. */
bool startup_folder(const char *dir, int *lock, char why[SETTINGS_WHY]);

/* Opens the keyring. If the file is missing, creates it with an initial secret, creates its
 * directory if necessary, and sets *made. */
bool startup_keyring(const char *path, bg_keyring **ring, bool *made,
                     char why[SETTINGS_WHY]);

/* Raises the open-file limit to allow `maxclients` clients in addition to all other open files.
 * Returns the number of clients that the limit allows, which may be lower than `maxclients`. */
uint64_t startup_descriptors(uint64_t maxclients);

/* Writes the PID file, unless the path is "". The file is removed only if it still contains this
 * process's ID. */
bool startup_pid_file(const char *path, char why[SETTINGS_WHY]);
void startup_remove_pid_file(const char *path);

/* ---- The service manager --------------------------------------------------------------------- */

/* Applies the `supervised` setting: `no` ignores the service manager, and `systemd` requires it. */
bool startup_supervised(const struct settings *settings, char why[SETTINGS_WHY]);

/* Sends a state such as "READY=1" to $NOTIFY_SOCKET, as sd_notify does. Returns false if there is
 * no such socket or sending fails. */
bool startup_notify(const char *state);

/* Send the common states. startup_reloading includes the time; call startup_ready to end the
 * reloading state. */
bool startup_ready(const char *status);
bool startup_reloading(void);
bool startup_stopping(const char *status);
bool startup_watchdog(void);

/* Returns the interval at which to call startup_watchdog, in milliseconds, or 0 if the service
 * manager does not require it. */
uint64_t startup_watchdog_interval(void);

#endif

/*
 * claim.h - ensures that at most one command at a time changes a file.
 *
 * A command that writes a file claims the file before reading or checking it, and holds the claim
 * until the command exits. Files are replaced by rename, so a lock on the file itself would be a
 * lock on the old version. A claim is therefore a lock (flock) on an empty file in the same
 * directory, FILE.bloomgate-lock:
 *
 *   (L1) the holder removes the lock file before it exits; if a command locks a lock file that was
 *        removed in the meantime, the command starts over;
 *   (L2) the kernel releases the lock if the holder is killed, so a leftover lock file blocks no
 *        other command;
 *   (L3) the holder removes only its own lock file: if that file was already removed, another
 *        command may have created and locked a new one;
 *   (L4) a command that claims several files needs only one descriptor: the lock files are hard
 *        links to the first lock file, if the file system supports hard links. A holder that is
 *        killed leaves behind several names for one file. The next command that locks the file
 *        through one of these names removes that name and retries, so the names do not block each
 *        other.
 *
 * Commands that only read need no claim: they open either the old file or the new one.
 */
#ifndef CLI_CLAIM_H
#define CLI_CLAIM_H

#include <stdbool.h>

enum { CLAIM_PATH = 4096 };

/* Claims `path`, whether or not a file exists there. If another command holds the claim, waits up
 * to BLOOMGATE_LOCK_WAIT (default: 60s). Reports errors, and returns an exit code. */
int claim_file(const char *path);

/* Resolves the links in a path, even if they refer to a file that does not exist, and writes the
 * result to `to`. Reports errors, and returns an exit code. */
int claim_follow(const char *path, char to[CLAIM_PATH]);

/* Claims the file that `path` refers to, and writes the file's path to `to`. Links are followed
 * even if the target does not exist. From then on, use `to` for reading and writing, because the
 * links may be changed at any time. */
int claim_target(const char *path, char to[CLAIM_PATH]);

/* Returns whether this command has claimed the file that `path` refers to, through this path or a
 * different path. The file does not have to exist. */
bool claim_holds(const char *path);

/* Releases all claims. main calls this function when a command ends. */
void claim_end(void);

#endif

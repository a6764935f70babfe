/*
 * spool.h - reads filters from stdin and from pipes that the shell has opened: <(command).
 *
 * The library reads filter files by their path, several times and in any order. A pipe can be read
 * only once, so its content is copied to a file in memory, which is then used in place of the pipe.
 * Regular files, even as stdin, are used as they are.
 */
#ifndef CLI_SPOOL_H
#define CLI_SPOOL_H

#include <stdbool.h>

/* Copies the content of a pipe to memory. Also copies stdin ("-"), unless it is a regular file that
 * has not been read yet. Does nothing for other paths, or if the path was copied before. Reports
 * errors, and returns an exit code. */
int spool_read(const char *path);

/* Returns the path from which to read a filter: that of the copy after spool_read, or `path`. */
const char *spool_path(const char *path);

/* Return the name of a file for messages: "stdin" or "stdout" for "-". */
const char *spool_name(const char *path);
const char *spool_target_name(const char *path);

/* Returns whether a path stands for stdin or stdout. */
bool spool_is_standard(const char *path);

#endif

/*
 * replace_file.h - a small file written in one step: whoever opens the path finds the old
 * one or the new one, never half of it.
 */
#ifndef CLI_REPLACE_FILE_H
#define CLI_REPLACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Syncs a file. A signal is not an error, unless it requests a stop. */
bool replace_sync(int fd);

/*
 * Writes n bytes beside `path`, syncs them, and renames that file to `path`; what was there
 * keeps its mode, and is untouched when anything fails. Exit code; what is wrong was said.
 */
int replace_file(const char *path, const void *bytes, size_t n);

#endif

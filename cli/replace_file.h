/*
 * replace_file.h - writes a small file atomically: opening the path yields either the complete old
 * file or the complete new file.
 */
#ifndef CLI_REPLACE_FILE_H
#define CLI_REPLACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Syncs a file. A signal is not an error, unless it requests a stop. */
bool replace_sync(int fd);

/*
 * Writes n bytes to a temporary file next to `path`, syncs it, and renames it to `path`. The new
 * file has the mode of the old file. If anything fails, the old file is unchanged. Reports errors.
 * Returns an exit code.
 */
int replace_file(const char *path, const void *bytes, size_t n);

#endif

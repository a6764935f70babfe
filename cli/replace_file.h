/*
 * replace_file.h - writes a small file atomically: a program that opens the path sees either the
 * complete old file or the complete new file.
 */
#ifndef CLI_REPLACE_FILE_H
#define CLI_REPLACE_FILE_H

#include <stddef.h>
#include <stdio.h>

/* Refuses to replace a device, a directory or another file that is not regular. Links are followed.
 * Reports errors. Returns an exit code. */
int replace_expect_regular(const char *path);

/*
 * Writes n bytes to a temporary file in the same directory as `path`, syncs it, and renames it to
 * `path`. If `path` is a symbolic link, replaces the file that the link refers to, in that file's
 * directory. The new file keeps the mode of the old file. If anything fails, the old file remains
 * unchanged. Reports errors. Returns an exit code.
 */
int replace_file(const char *path, const void *bytes, size_t n);

/* Does the same as replace_file, with the text that `print` writes to a stream. */
int replace_file_with(const char *path, void (*print)(const void *what, FILE *to),
                      const void *what);

#endif

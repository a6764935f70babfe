/*
 * out.h - writes data to stdout, which is used only for data. Streams are written in large
 * chunks without buffering, so that the next program in a pipeline receives each chunk at once.
 * Small documents are written with stdio and checked at the end.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes n bytes. Returns false if an error occurred, the reader closed the pipe, or a stop was
 * requested; only errors are reported. out_code then returns the exit code. */
bool out_write(const char *bytes, size_t n);

/* Does the same as out_write, but writes all bytes even if a stop is requested in the meantime.
 * Used for data that is already recorded as written. */
bool out_write_through(const char *bytes, size_t n);

/* Flushes stdout. Returns `code`, or a different exit code if flushing or an earlier write
 * failed. */
int out_finish(int code);

/* Returns the exit code of the last error, or 0 if there was no error. */
int out_code(void);

#endif

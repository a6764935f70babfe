/*
 * out.h - stdout: data, and nothing else. Streams are written in large pieces without a
 * buffer in between, so that what follows in a pipe gets each piece at once; small documents
 * go through stdio and are checked at the end.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes n bytes. False: it could not be, which was said already; or nobody reads it any
 * more, which is not worth a word. out_code then has the exit code. */
bool out_write(const char *bytes, size_t n);

/* The same, all of it, even if somebody asks to stop meanwhile: for what is noted elsewhere as
 * written. */
bool out_write_through(const char *bytes, size_t n);

/* Ends what was printed to stdout by stdio; returns `code`, or another one if that failed. */
int out_finish(int code);

/* The exit code of what went wrong, 0: nothing. */
int out_code(void);

#endif

/*
 * say.h - messages to the user, on stderr, and exit codes. Stdout is reserved for data (out.h).
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "bloomgate/all.h"

/* Exit codes, as documented in bloomgate(1). */
enum cli_exit {
    CLI_OK = 0,            /* success (for check: at least one selected line) */
    CLI_NO = 1,            /* negative result (check, verify, diff, canary, remove) */
    CLI_USAGE = 2,         /* invalid command line */
    CLI_DATA = 3,          /* a filter or input is damaged or invalid */
    CLI_IO = 4,            /* OS error: no such file, disk full, file in use */
    CLI_FULL = 5,          /* out of memory, or the filter is full */
    CLI_INTERRUPTED = 130, /* SIGINT, SIGTERM, SIGHUP or SIGXCPU */
    CLI_PIPE = 141         /* the reader of stdout closed the pipe */
};

enum say_when { SAY_AUTO, SAY_ALWAYS, SAY_NEVER };

/* Sets the subcommand name at the start of messages ("build", or NULL if it is not known yet),
 * whether notes are suppressed, and when colors are used. SAY_AUTO enables colors on terminals that
 * support them, unless NO_COLOR is set. */
void say_begin(const char *command, bool quiet, enum say_when color);
bool say_is_quiet(void);

/* Returns whether text written to a file descriptor may contain color codes. */
bool say_colors(int fd);

/* Replaces control characters in untrusted text, such as file names and file contents, with '?'. */
void say_tame(char *text, size_t n);

/* Print an error message ("bloomgate build: ...") and return the exit code, so that callers can
 * return it in turn. */
int say_failed(enum cli_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a library error. `about` is the file or option that the error concerns, or NULL. */
int say_error(const char *about, const bg_errinfo *why);
enum cli_exit say_code(bg_err err);

/* Prints the error in errno, which concerns the file `about`. */
int say_errno(const char *about);

/* Print a note, which -q suppresses, or a warning, which -q does not suppress. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/*
 * say.h - what a command prints: messages and progress on stderr, data on stdout, and exit codes.
 *
 * Data streams are written to stdout in large chunks without buffering (out_write), so that the
 * next program in a pipeline receives each chunk at once. Small documents are written with stdio
 * and checked at the end (out_finish).
 *
 * Progress is shown on one line of stderr. By default, it is shown only on a terminal, and only for
 * work that takes longer than a second.
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
 * return it in turn. say_usage also refers to --help. say_refused returns the same exit code without
 * the hint; use it when the options are valid but not for these files. */
int say_failed(enum cli_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define say_refused(...) say_failed(CLI_USAGE, __VA_ARGS__)
#define say_data(...)    say_failed(CLI_DATA, __VA_ARGS__)
#define say_full(...)    say_failed(CLI_FULL, __VA_ARGS__)

/* Appends a name to a list such as "counting, cuckoo", which is initially "". */
void say_list(char *text, size_t room, const char *name);

/* Returns "; did you mean NAME?", or "" if `near` is NULL. The string is valid until the end of the
 * enclosing block. */
#define SAY_HINT(near) say_hint("", near, (char[SAY_HINT_TEXT]){ "" })
enum { SAY_HINT_TEXT = 64 };
const char *say_hint(const char *prefix, const char *near, char text[SAY_HINT_TEXT]);

/* Prints a library error. `about` is the file or option that the error concerns, or NULL. */
int say_error(const char *about, const bg_errinfo *why);
enum cli_exit say_code(bg_err err);

/* Prints the error in errno, which concerns the file `about`. */
int say_errno(const char *about);

/* Print a note, which -q suppresses, or a warning, which -q does not suppress. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Data on stdout -------------------------------------------------------------------------- */

/* Writes n bytes. Returns false if an error occurred, the reader closed the pipe, or a stop was
 * requested; only errors are reported. out_code then returns the exit code. */
bool out_write(const char *bytes, size_t n);

/* Does the same as out_write, but writes all bytes even if a stop is requested in the meantime.
 * Used for data that is already recorded as written. */
bool out_write_through(const char *bytes, size_t n);

/* Flushes stdout. Returns `code`, or another exit code if this or an earlier write failed. */
int out_finish(int code);

/* Returns the exit code of the last error, or 0 if there was no error. */
int out_code(void);

/* ---- Progress -------------------------------------------------------------------------------- */

struct progress {
    const char *what;    /* "reading", or NULL if nothing is shown */
    double began, shown; /* time of the start, and of the last redraw, in seconds */
    bool drawn;
};

/* Selects when progress is shown (--progress). */
void progress_show(enum say_when when);

/* Starts an operation. If `what` is NULL, nothing is shown, but progress_seconds works. */
void progress_begin(struct progress *progress, const char *what);

/* Reports that `done` of `all` bytes have been processed; `all` is 0 if unknown. The call is cheap,
 * because the line is redrawn at most ten times per second. Call this function from one thread at a
 * time. */
void progress_tick(struct progress *progress, uint64_t done, uint64_t all);

/* Removes the line. */
void progress_end(struct progress *progress);

/* Returns the number of seconds since progress_begin. */
double progress_seconds(const struct progress *progress);

#endif

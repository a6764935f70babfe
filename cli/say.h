/*
 * say.h - what the command says to people: on stderr, and how it ends. Stdout is for data
 * alone (out.h).
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>

/* How the command ends; written down in bloomgate(1). */
enum cli_exit {
    CLI_OK = 0, /* done; check: some line was selected */
    CLI_NO = 1, /* check: no line was; verify, diff, canary, remove --strict: not so */
    CLI_USAGE = 2, /* a mistake on the command line */
    CLI_DATA = 3,  /* a filter or input that is damaged, or not what it should be */
    CLI_IO = 4,    /* OS error: no such file, disk full, file in use */
    CLI_FULL = 5,  /* out of memory, or the filter is full */
    CLI_INTERRUPTED = 130, /* by SIGINT, SIGTERM, SIGHUP */
    CLI_PIPE = 141         /* nobody reads stdout any more */
};

enum say_when { SAY_AUTO, SAY_ALWAYS, SAY_NEVER };

/* Which subcommand speaks ("build"; NULL: none yet), whether notes are left out, and when
 * to use colours: SAY_AUTO is for terminals that have them, unless NO_COLOR is set. */
void say_begin(const char *command, bool quiet, enum say_when color);
bool say_is_quiet(void);

/* Whether a file descriptor is a terminal that may get colours. */
bool say_colors(int fd);

/* Takes out of somebody's text (names of files, what files say) what could steer a terminal. */
void say_tame(char *text, size_t n);

/* "bloomgate build: ..."; these return the exit code, so that one can return them. */
int say_failed(enum cli_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The library's error, with the file or option that it is about (or NULL). */
int say_error(const char *about, const bg_errinfo *why);
enum cli_exit say_code(bg_err err);

/* errno, about a file. */
int say_errno(const char *about);

/* A line for people, that -q leaves out; and one that it does not. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

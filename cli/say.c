/*
 * say.c - see say.h. A message is one line, "bloomgate SUBCOMMAND: text", written in a single call,
 * so that lines from several threads or processes are not interleaved.
 */
#include "say.h"

#include "clock.h"
#include "error_text.h"
#include "number.h"
#include "stop.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    const char *command;
    bool quiet;
    enum say_when color;
} say;

void say_begin(const char *command, bool quiet, enum say_when color)
{
    say.command = command;
    say.quiet = quiet;
    say.color = color;
}

bool say_is_quiet(void)
{
    return say.quiet;
}

bool say_colors(int fd)
{
    if (say.color != SAY_AUTO) {
        return say.color == SAY_ALWAYS;
    }
    const char *no = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): only read */
    const char *term = getenv("TERM");   /* NOLINT(concurrency-mt-unsafe) */
    return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

enum { SAY_LINE = 2048 };

void say_tame(char *text, size_t n)
{
    unsigned char before = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool c1 = before == 0xC2 && c >= 0x80 && c < 0xA0; /* U+0080 to U+009F */
        if (c1) {
            text[i - 1] = '?';
        }
        if (c < 0x20 || c == 0x7F || c1) {
            text[i] = '?';
        }
        before = c;
    }
}

/* Prints one line, with a colored prefix. */
__attribute__((format(printf, 3, 0))) static void
say_line(const char *word, const char *color, const char *format, va_list arguments)
{
    char line[SAY_LINE];
    const bool colors = *word && say_colors(STDERR_FILENO);
    int n = snprintf(line, sizeof line, "bloomgate%s%s: %s%s%s", say.command ? " " : "",
                     say.command ? say.command : "", colors ? color : "", word,
                     colors ? "\033[0m" : "");
    const size_t front = n > 0 ? (size_t)n : 0;
    n = vsnprintf(line + front, sizeof line - front, format, arguments);
    size_t used = front + (n > 0 ? (size_t)n : 0);
    used = used < sizeof line - 1 ? used : sizeof line - 2;
    say_tame(line + front, used - front);
    line[used++] = '\n';
    (void)fwrite(line, 1, used, stderr);
    (void)fflush(stderr);
}

int say_failed(enum cli_exit code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("", "", format, arguments);
    va_end(arguments);
    return (int)code;
}

int say_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("", "", format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "Try 'bloomgate%s%s --help'.\n", say.command ? " " : "",
                  say.command ? say.command : "");
    return CLI_USAGE;
}

void say_list(char *text, size_t room, const char *name)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, room - used, "%s%s", used ? ", " : "", name);
}

const char *say_hint(const char *prefix, const char *near, char text[SAY_HINT_TEXT])
{
    text[0] = 0;
    if (near) {
        (void)snprintf(text, SAY_HINT_TEXT, "; did you mean %s%s?", prefix, near);
    }
    return text;
}

enum cli_exit say_code(bg_err err)
{
    switch (err) {
    case BG_OK: return CLI_OK;
    case BG_EINVAL:
    case BG_ENOTSUP: return CLI_USAGE;
    case BG_ENOMEM:
    case BG_EFULL:
    case BG_EQUOTA: return CLI_FULL;
    case BG_EIO:
    case BG_EBUSY: return CLI_IO;
    case BG_ECANCELED: return CLI_INTERRUPTED;
    case BG_EINCOMPAT:
    case BG_EFORMAT:
    case BG_EVERSION:
    case BG_ECHECKSUM:
    case BG_EBUILD:
    case BG_ENOTFOUND: return CLI_DATA;
    }
    return CLI_DATA;
}

int say_error(const char *about, const bg_errinfo *why)
{
    if (why->code == BG_ECANCELED) {
        return CLI_INTERRUPTED;
    }
    if (why->os_errno && about) {
        errno = why->os_errno;
        return say_errno(about);
    }
    return say_failed(say_code(why->code), "%s%s%s", about ? about : "",
                      about ? ": " : "", error_text(why, why->code));
}

int say_errno(const char *about)
{
    const int why = errno;
    return say_failed(why == ENOMEM ? CLI_FULL : CLI_IO, "%s: %s", about,
                      text_errno(why));
}

void say_note(const char *format, ...)
{
    va_list arguments;
    if (say.quiet) {
        return;
    }
    va_start(arguments, format);
    say_line("", "", format, arguments);
    va_end(arguments);
}

void say_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("warning: ", "\033[33m", format, arguments);
    va_end(arguments);
}

/* ---- Data on stdout -------------------------------------------------------------------------- */

static int out_failure;

static void out_failed(void)
{
    if (!out_failure) {
        out_failure = errno == EPIPE  ? (int)CLI_PIPE
                      : stop_wanted() ? (int)CLI_INTERRUPTED
                                      : say_errno("stdout");
    }
}

static bool out_write_unless(bool stops, const char *bytes, size_t n)
{
    while (n > 0 && !out_failure) {
        const ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done >= 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (errno != EINTR || (stops && stop_wanted())) {
            out_failed();
        }
    }
    return !out_failure;
}

bool out_write(const char *bytes, size_t n)
{
    return out_write_unless(true, bytes, n);
}

bool out_write_through(const char *bytes, size_t n)
{
    return out_write_unless(false, bytes, n);
}

int out_finish(int code)
{
    if (!out_failure && (fflush(stdout) != 0 || ferror(stdout))) {
        out_failed();
    }
    return out_failure ? out_failure : code;
}

int out_code(void)
{
    return out_failure;
}

/* ---- Progress -------------------------------------------------------------------------------- */

static enum say_when progress_when = SAY_AUTO;

void progress_show(enum say_when when)
{
    progress_when = when;
}

void progress_begin(struct progress *progress, const char *what)
{
    const bool never =
        progress_when == SAY_NEVER
        || (progress_when == SAY_AUTO && (say_is_quiet() || !isatty(STDERR_FILENO)));
    const double now = 1e-9 * (double)clock_nanoseconds();
    *progress = (struct progress){ never ? NULL : what, now, now, false };
}

double progress_seconds(const struct progress *progress)
{
    return 1e-9 * (double)clock_nanoseconds() - progress->began;
}

static int progress_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : 80;
}

/* "reading [####......] 40%  12.1 GiB of 30.0 GiB, 1.2 GiB/s, 15 s left" */
static void progress_draw(const struct progress *progress, double seconds,
                          uint64_t done, uint64_t all)
{
    char tail[160], bar[96] = "", line[320];
    const double rate = (double)done / seconds;
    const char *at = BYTES_TEXT(done), *speed = BYTES_TEXT((uint64_t)rate);
    if (all && done <= all) {
        const double share = (double)done / (double)all;
        (void)snprintf(tail, sizeof tail, "%3.0f%%  %s of %s, %s/s, %s left",
                       100 * share, at, BYTES_TEXT(all), speed,
                       SECONDS_TEXT((double)(all - done) / rate));
        int width =
            progress_columns() - (int)strlen(tail) - (int)strlen(progress->what) - 5;
        width = width > 40 ? 40 : width;
        if (width >= 10) {
            const int full = (int)(share * width);
            (void)snprintf(bar, sizeof bar, "[%.*s%.*s] ", full,
                           "########################################", width - full,
                           "........................................");
        }
    } else {
        (void)snprintf(tail, sizeof tail, "%s, %s/s, %s", at, speed,
                       SECONDS_TEXT(seconds));
    }
    (void)snprintf(line, sizeof line, "%s %s%s", progress->what, bar, tail);
    (void)fprintf(stderr, "\r%.*s\033[K", progress_columns() - 1, line);
    (void)fflush(stderr);
}

void progress_tick(struct progress *progress, uint64_t done, uint64_t all)
{
    if (!progress->what) {
        return;
    }
    const double now = 1e-9 * (double)clock_nanoseconds();
    const double wait = progress->drawn || progress_when == SAY_ALWAYS ? 0.1 : 1;
    if (now - progress->shown >= wait) {
        progress_draw(progress, now - progress->began, done, all);
        progress->shown = now;
        progress->drawn = true;
    }
}

void progress_end(struct progress *progress)
{
    if (progress->drawn) {
        (void)fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
    progress->drawn = false;
}

/* progress.c - see progress.h. */
#include "progress.h"

#include "clock.h"
#include "number.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
    char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT], d[NUMBER_TEXT];
    char tail[160], bar[96] = "", line[320];
    const double rate = (double)done / seconds;
    const char *at = number_show_bytes(done, a),
               *speed = number_show_bytes((uint64_t)rate, b);
    if (all && done <= all) {
        const double share = (double)done / (double)all;
        (void)snprintf(tail, sizeof tail, "%3.0f%%  %s of %s, %s/s, %s left",
                       100 * share, at, number_show_bytes(all, c), speed,
                       number_show_seconds((double)(all - done) / rate, d));
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
                       number_show_seconds(seconds, d));
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

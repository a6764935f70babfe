/* out.c - see out.h. */
#include "out.h"

#include "say.h"
#include "stop.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

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

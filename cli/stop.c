/* stop.c - see stop.h. */
#define _GNU_SOURCE /* pipe2 */

#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static volatile atomic_bool stop_asked; /* lock-free, so a handler may write it */
static int stop_pipe[2] = { -1, -1 };

static void stop_heard(int number)
{
    const int before = errno;
    (void)number;
    atomic_store(&stop_asked, true);
    if (write(stop_pipe[1], "", 1) < 0) { /* full: then it can be read already */
        errno = before;
    }
}

void stop_prepare(void)
{
    struct sigaction action;
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        stop_pipe[0] = stop_pipe[1] = -1; /* signals still interrupt the main thread */
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_heard;
    /* Calls that wait end with EINTR; the next signal finds the default again. */
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL); /* a file that may not grow: EFBIG */
}

bool stop_wanted(void)
{
    return atomic_load(&stop_asked);
}

int stop_fd(void)
{
    return stop_pipe[0];
}

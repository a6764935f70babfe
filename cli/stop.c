/* stop.c - see stop.h. */
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static volatile atomic_bool stop_asked; /* lock-free, so signal handlers can set it */
static int stop_pipe[2] = { -1, -1 };

static void stop_heard(int number)
{
    const int before = errno;
    (void)number;
    atomic_store(&stop_asked, true);
    if (write(stop_pipe[1], "", 1)
        < 0) { /* if the pipe is full, it is already readable */
        errno = before;
    }
}

static void stop_set(int number, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags; /* no SA_RESTART, so that blocking calls fail with EINTR */
    (void)sigaction(number, &action, NULL);
}

static bool stop_is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void stop_prepare(void)
{
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        /* Continue without the pipe: signals still interrupt the main thread. */
        stop_pipe[0] = stop_pipe[1] = -1;
    }
    stop_set(SIGINT, stop_heard, (int)SA_RESETHAND);
    stop_set(SIGTERM, stop_heard, (int)SA_RESETHAND);
    stop_set(SIGXCPU, stop_heard, (int)SA_RESETHAND);
    if (!stop_is_ignored(SIGHUP)) { /* nohup */
        /* When a terminal closes, the kernel and the shell both send SIGHUP. The second signal must
         * not interrupt the shutdown that the first signal started. */
        stop_set(SIGHUP, stop_heard, 0);
    }
    stop_set(SIGPIPE, SIG_IGN, 0);
    stop_set(SIGXFSZ, SIG_IGN,
             0); /* so that writes beyond the size limit fail with EFBIG */
}

bool stop_wanted(void)
{
    return atomic_load(&stop_asked);
}

int stop_fd(void)
{
    return stop_pipe[0];
}

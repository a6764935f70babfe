/* stop.c - see stop.h. */
#define _POSIX_C_SOURCE 200809L

#include "stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static volatile atomic_bool stop_asked; /* lock-free, so a handler may write it */

static void stop_heard(int number)
{
    (void)number;
    atomic_store(&stop_asked, true);
}

void stop_prepare(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_heard;
    /* Calls that wait end with EINTR; the next signal finds the default again. */
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    (void)sigaction(SIGPIPE, &action, NULL);
}

bool stop_wanted(void)
{
    return atomic_load(&stop_asked);
}

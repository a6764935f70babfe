/*
 * server.c - see server.h. Signal handlers call server_stop and server_ask_reload, so these functions
 * only store flags and write to a file descriptor.
 */
#include "core/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

static _Atomic int server_stop_asked; /* 1: graceful, 2: immediate */
static _Atomic bool server_reload_asked;
static int server_wake = -1;

void server_stop(bool at_once)
{
    const uint64_t one = 1;
    int not_yet = 0;
    if (at_once) {
        atomic_store(&server_stop_asked, 2);
    } else { /* an immediate stop that was already requested stays immediate */
        (void)atomic_compare_exchange_strong(&server_stop_asked, &not_yet, 1);
    }
    if (server_wake >= 0) {
        (void)!write(server_wake, &one, sizeof one);
    }
}

bool server_is_stopping(void)
{
    return atomic_load_explicit(&server_stop_asked, memory_order_relaxed) != 0;
}

bool server_stops_at_once(void)
{
    return atomic_load(&server_stop_asked) == 2;
}

void server_ask_reload(void)
{
    atomic_store(&server_reload_asked, true);
}

bool server_take_reload(void)
{
    return atomic_exchange(&server_reload_asked, false);
}

int server_open_wake(void)
{
    server_wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return server_wake;
}

/* interrupt.c - see interrupt.h. */
#include "main/interrupt.h"

#include "clock.h"
#include "core/server.h"

#include <poll.h>

enum { INTERRUPT_TICK = 10 }; /* milliseconds */

static void *interrupt_run(void *context)
{
    struct interrupt *interrupt = context;
    struct pollfd wake = { .fd = interrupt->wake_fd, .events = POLLIN };
    uint64_t end = UINT64_MAX;
    while (!server_is_stopping()) {
        (void)poll(&wake, 1, -1);
    }
    while (!atomic_load(&interrupt->finished)) {
        if (end == UINT64_MAX && server_stops_at_once()) {
            end = clock_ticks() + INTERRUPT_GRACE;
        }
        if (clock_ticks() >= end) {
            interrupt->end(interrupt->context);
        }
        (void)poll(NULL, 0, INTERRUPT_TICK);
    }
    return NULL;
}

bool interrupt_start(struct interrupt *interrupt, int wake_fd)
{
    interrupt->wake_fd = wake_fd;
    interrupt->started =
        pthread_create(&interrupt->thread, NULL, interrupt_run, interrupt) == 0;
    return interrupt->started;
}

void interrupt_finish(struct interrupt *interrupt)
{
    if (interrupt->started) {
        atomic_store(&interrupt->finished, true);
        server_stop(false); /* wakes the thread if startup has failed */
        (void)pthread_join(interrupt->thread, NULL);
        interrupt->started = false;
    }
}

/* quiet.c - assigns seats and waits for the threads that occupy them. */
#include "util/quiet.h"

#include <time.h>

void quiet_init(struct quiet *quiet)
{
    for (size_t i = 0; i < QUIET_SEATS; i++) {
        atomic_init(&quiet->seats[i].count, 0);
        atomic_init(&quiet->seats[i].taken, 0);
    }
}

int quiet_sit(struct quiet *quiet)
{
    for (int i = 0; i < QUIET_SEATS; i++) {
        uint32_t free_seat = 0;
        if (atomic_compare_exchange_strong(&quiet->seats[i].taken, &free_seat, 1)) {
            return i;
        }
    }
    return -1;
}

void quiet_rise(struct quiet *quiet, int seat)
{
    atomic_store(&quiet->seats[seat].taken, 0);
}

void quiet_note(struct quiet *quiet, struct quiet_mark *mark)
{
    for (size_t i = 0; i < QUIET_SEATS; i++) {
        mark->seen[i] = atomic_load(&quiet->seats[i].count);
    }
}

static bool quiet_is_inside(struct quiet *quiet, const struct quiet_mark *mark,
                            size_t i)
{
    return mark->seen[i] % 2 != 0
           && atomic_load(&quiet->seats[i].count) == mark->seen[i];
}

bool quiet_passed(struct quiet *quiet, const struct quiet_mark *mark)
{
    size_t i = 0;
    while (i < QUIET_SEATS && !quiet_is_inside(quiet, mark, i)) {
        i++;
    }
    return i == QUIET_SEATS;
}

void quiet_wait(struct quiet *quiet)
{
    static const struct timespec moment = { 0, 20000 };
    struct quiet_mark mark;
    quiet_note(quiet, &mark);
    for (size_t i = 0; i < QUIET_SEATS; i++) {
        while (quiet_is_inside(quiet, &mark, i)) {
            nanosleep(&moment, NULL);
        }
    }
}

/* quiet.c - seats, and waiting for those who sit in them. */
#include "quiet.h"

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

void quiet_wait(struct quiet *quiet)
{
    static const struct timespec moment = { 0, 20000 };
    uint64_t seen[QUIET_SEATS];
    for (size_t i = 0; i < QUIET_SEATS; i++) {
        seen[i] = atomic_load(&quiet->seats[i].count);
    }
    for (size_t i = 0; i < QUIET_SEATS; i++) {
        while (seen[i] % 2 != 0 && atomic_load(&quiet->seats[i].count) == seen[i]) {
            nanosleep(&moment, NULL);
        }
    }
}

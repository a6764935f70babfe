/*
 * server/support/journal_inside.h - calls the parts of a journal that the service calls on its own
 * thread, or only after it has locked the directory.
 */
#ifndef TESTS_SERVER_SUPPORT_JOURNAL_INSIDE_H
#define TESTS_SERVER_SUPPORT_JOURNAL_INSIDE_H

#include "journal/error.h"
#include "journal/read.h"
#include "journal/state.h"

/* Like journal_replay, for a directory that no process has open. */
static inline bg_err journal_read(const char *folder, bool beyond_damage,
                                  journal_visit *visit, void *context,
                                  struct journal_report *report, bg_errinfo *info)
{
    struct journal_disk disk = JOURNAL_DISK_INIT;
    journal_error_clear(info);
    bg_err err = journal_disk_list(&disk, folder, info);
    if (!err) {
        struct journal_shelf shelf = journal_disk_shelf(&disk);
        err = journal_walk(&shelf, beyond_damage, visit, context, report, info);
    }
    journal_disk_free(&disk);
    return err;
}

/* Does what the thread does once a second: flushes and, under `everysec`, syncs if a second has
 * passed since the last sync. */
static inline bg_err journal_tick(struct journal *j, bg_errinfo *info)
{
    journal_error_clear(info);
    journal_enter(j);
    const bg_err err = journal_tick_inside(j, info);
    journal_leave(j);
    return err;
}

#endif

/*
 * crossing.h - a journal sync that fails while another thread writes to the journal.
 *
 * The sync waits until the write has started, and the write waits until the sync has failed. Thus,
 * the order is always the same: the sync fails first, and the write succeeds afterwards.
 */
#ifndef TESTS_CROSSING_H
#define TESTS_CROSSING_H

#include "support/faulty_disk.h"

#include "journal/journal.h"

#include <pthread.h>
#include <stdatomic.h>

static struct {
    struct journal *journal;
    pthread_t writer;
    bg_err flushed; /* the writer's result */
    _Atomic bool armed, writing;
} crossing;

static _Thread_local bool crossing_writes; /* whether this thread is the writer */

static inline void crossing_append(void)
{
    const struct journal_record mark = { .type = JOURNAL_MARK };
    CHECK_OK(journal_append(crossing.journal, &mark, 1, NULL, NULL));
}

static inline void *crossing_write(void *argument)
{
    (void)argument;
    crossing_writes = true;
    crossing_append();
    crossing.flushed = journal_flush(crossing.journal, NULL);
    return NULL;
}

static inline void crossing_on_sync(void)
{
    if (!atomic_exchange(&crossing.armed, false)) {
        return;
    }
    CHECK_EQ(pthread_create(&crossing.writer, NULL, crossing_write, NULL), 0);
    while (!atomic_load(&crossing.writing)) {
        (void)usleep(100);
    }
    disk.fault = DISK_EIO; /* fails this sync, which is the next counted call */
    disk.calls = 0;
    disk.at = 1;
}

static inline void crossing_on_write(int file, off_t at, size_t n)
{
    struct journal_state state = { .failed = false };
    (void)file, (void)at, (void)n;
    if (!crossing_writes || atomic_exchange(&crossing.writing, true)) {
        return;
    }
    while (!state.failed) {
        (void)usleep(100);
        journal_about(crossing.journal, &state);
    }
}

/* Appends a frame whose sync fails. Meanwhile, another thread appends a frame, whose write finishes
 * after the failure. Returns that thread's result. The journal's own thread must not be running. */
static inline bg_err crossing_fail(struct journal *journal)
{
    crossing.journal = journal;
    crossing_append();
    CHECK_OK(journal_flush(journal, NULL));
    atomic_store(&crossing.writing, false);
    atomic_store(&crossing.armed, true);
    disk.on_sync = crossing_on_sync;
    disk.on_write = crossing_on_write;
    CHECK_EQ(journal_sync(journal, NULL), BG_EIO);
    CHECK_EQ(pthread_join(crossing.writer, NULL), 0);
    disk.on_sync = NULL;
    disk.on_write = NULL;
    disk.at = 0;
    return crossing.flushed;
}

#endif

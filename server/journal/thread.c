/*
 * journal/thread.c - the thread that syncs the journal and reports progress and failures.
 *
 * Under `always`, the thread sleeps until a frame is appended and then syncs; frames appended
 * during a sync are synced in the next round. Under the other policies, and while the disk is full,
 * the thread wakes once a second. Only this thread calls `tell`, so reports arrive one at a time
 * and in order.
 */
#include "journal/state.h"
#include "util/timed.h"

#include <errno.h>

static struct journal_news journal_look(const struct journal *j)
{
    return (struct journal_news){ journal_durable(j), j->failed, j->failure.code };
}

/* Reports changes. Called with the lock held; releases the lock while `tell` runs. */
static void journal_tell_news(struct journal *j)
{
    struct journal_news *told = &j->told;
    struct journal_news now = journal_look(j);
    while (now.durable > told->durable || now.failed != told->failed
           || now.code != told->code) {
        bg_errinfo failure = j->failure;
        *told = now;
        if (j->tell) {
            journal_leave(j);
            j->tell(j->tell_context, now.durable, &failure);
            journal_enter(j);
        }
        now = journal_look(j);
    }
    /* A policy change may have decreased the durable frame number. */
    told->durable = now.durable;
}

static void journal_work(struct journal *j, uint64_t *tick)
{
    if (j->failed) {
        (void)pthread_cond_wait(&j->work, &j->lock);
    } else if (journal_is_always(j) && !j->failure.code) {
        uint64_t last = journal_get(&j->next) - 1;
        if (journal_get(&j->synced) < last) {
            (void)journal_sync_to(j, last, NULL);
        } else {
            j->sleeping = true;
            (void)pthread_cond_wait(&j->work, &j->lock);
            j->sleeping = false;
        }
        *tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    } else if (!timed_wait(&j->work, &j->lock, *tick)) {
        (void)journal_tick_inside(j, NULL);
        *tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    }
}

static void *journal_run(void *argument)
{
    struct journal *j = argument;
    uint64_t tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    journal_enter(j);
    /* other threads may have synced frames before this thread ran */
    journal_tell_news(j);
    while (!j->stopping) {
        journal_work(j, &tick);
        journal_tell_news(j);
    }
    journal_leave(j);
    return NULL;
}

bg_err journal_start(struct journal *j, journal_tell *tell, void *context,
                     bg_errinfo *info)
{
    journal_error_clear(info);
    if (!j->begun || j->running) {
        return journal_error_why(info, BG_EINVAL, "journal_start", "%s",
                                 j->running ? "the thread is already running"
                                            : "journal_begin was not called");
    }
    j->tell = tell;
    j->tell_context = context;
    j->stopping = false;
    j->told = journal_look(j);
    int code = pthread_create(&j->thread, NULL, journal_run, j);
    if (code) {
        errno = code;
        return journal_error_system(info, "start of a thread", j->disk.folder);
    }
    j->running = true;
    return BG_OK;
}

void journal_stop(struct journal *j)
{
    if (!j->running) {
        return;
    }
    journal_enter(j);
    j->stopping = true;
    (void)pthread_cond_signal(&j->work);
    journal_leave(j);
    (void)pthread_join(j->thread, NULL);
    j->running = false;
}

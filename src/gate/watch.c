/*
 * watch.c - reloads a slot when its file was replaced.
 *
 * The folder is watched (inotify), not the file: a file that is replaced by a rename is
 * another one from then on, and one that is not there yet cannot be watched. Of what happens
 * in the folder only two things matter: something was moved to our name, or what has it was
 * written and closed. However many of these have piled up, the file is loaded once. When
 * events were lost (the queue was full) it is loaded as well; reloading a file that has not
 * changed costs reading its header.
 *
 * If a file cannot be loaded, the slot serves on with what it has, and the next event
 * tries again. Only during a rebuild nothing is wrong with it: it is loaded when that is over.
 *
 * If the folder itself is moved away or deleted, what is at its path from then on is another
 * one, of which nobody tells us. So it is looked for at every poll, and every second by the
 * thread, and when it is there the file is loaded.
 */
#define _GNU_SOURCE /* pipe2 */

#include "gate/slot_inside.h"

#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct bg_watch {
    struct bgi_memory memory;
    bg_slot *slot;
    bg_reload_options options;
    char path[DISK_PATH];
    const char *name; /* the last part of it */
    int events;       /* inotify */
    int folder;       /* what it calls the folder; -1: that is gone */
    bool waits;       /* a file came during a rebuild */
    int stop[2];      /* a pipe that is closed when the thread shall end */
    pthread_t thread;
    bool has_thread;
};

enum { WATCH_EVENTS = 4096, WATCH_AGAIN = 1000 }; /* bytes read at once; milliseconds */

/* ---- Life ------------------------------------------------------------------------------ */

/* Asks for events of the folder that is at its path now. */
static bg_err watch_folder(bg_watch *watch, bg_errinfo *info)
{
    char folder[DISK_PATH] = ".";
    const char *slash = strrchr(watch->path, '/');
    watch->name = slash ? slash + 1 : watch->path;
    if (slash) {
        const size_t n = (size_t)(slash - watch->path) + 1;
        memcpy(folder, watch->path, n);
        folder[n] = 0;
    }
    watch->folder = inotify_add_watch(watch->events, folder,
                                      IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR
                                          | IN_DELETE_SELF | IN_MOVE_SELF);
    return watch->folder < 0 ? disk_error(info, "watch", folder) : BG_OK;
}

static bg_err watch_begin(bg_watch *watch, bg_errinfo *info)
{
    watch->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->events < 0 || pipe2(watch->stop, O_CLOEXEC) != 0) {
        return disk_error(info, watch->events < 0 ? "watch" : "pipe", watch->path);
    }
    return watch_folder(watch, info);
}

bg_err bg_watch_create(bg_slot *slot, const char *path,
                       const bg_reload_options *options, bg_watch **watch,
                       bg_errinfo *info)
{
    static const bg_reload_options usual = BG_RELOAD_OPTIONS_INIT;
    struct bgi_memory memory;
    if (!slot || !path || !watch || strlen(path) >= DISK_PATH - 1 || !*path
        || (options && options->struct_size != sizeof *options)) {
        return bgi_err(info, BG_EINVAL, "slot, path, options, watch",
                       "a slot, a path below 4095 bytes, BG_RELOAD_OPTIONS_INIT",
                       "another");
    }
    *watch = NULL;
    bgi_err_clear(info);
    if (!bgi_memory_take(&memory, sizeof **watch, slot_allocator(slot), true)) {
        return bgi_err(info, BG_ENOMEM, "memory", "enough for a watch", "none");
    }
    bg_watch *made = memory.base;
    made->memory = memory;
    made->slot = slot;
    made->options = options ? *options : usual;
    made->events = made->stop[0] = made->stop[1] = -1;
    memcpy(made->path, path, strlen(path) + 1);
    bg_err err = watch_begin(made, info);
    if (err) {
        bg_watch_free(made);
        return err;
    }
    *watch = made;
    return BG_OK;
}

static void watch_close(int *descriptor)
{
    if (*descriptor >= 0) {
        (void)close(*descriptor);
        *descriptor = -1;
    }
}

void bg_watch_free(bg_watch *watch)
{
    if (!watch) {
        return;
    }
    watch_close(&watch->stop[1]);
    if (watch->has_thread) {
        (void)pthread_join(watch->thread, NULL);
    }
    watch_close(&watch->stop[0]);
    watch_close(&watch->events);
    struct bgi_memory memory = watch->memory;
    bgi_memory_give(&memory);
}

int bg_watch_descriptor(const bg_watch *watch)
{
    return watch ? watch->events : -1;
}

/* ---- Events ---------------------------------------------------------------------------- */

static bool watch_concerns(const bg_watch *watch, const struct inotify_event *event)
{
    return event->mask & IN_Q_OVERFLOW
           || (event->len > 0 && strcmp(event->name, watch->name) == 0);
}

/* The folder at the path is another one, or none, from now on. */
static void watch_heed_folder(bg_watch *watch, const struct inotify_event *event)
{
    const uint32_t gone = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED;
    if (event->mask & gone && event->wd == watch->folder) {
        (void)inotify_rm_watch(watch->events, watch->folder);
        watch->folder = -1;
    }
}

/* Takes all events that are there; whether any is about the file. */
static bool watch_drain(bg_watch *watch)
{
    _Alignas(struct inotify_event) char bytes[WATCH_EVENTS];
    bool concerns = false;
    ssize_t n;
    while ((n = read(watch->events, bytes, sizeof bytes)) > 0
           || (n < 0 && errno == EINTR)) {
        for (ssize_t at = 0; at < n;) {
            struct inotify_event event;
            memcpy(&event, bytes + at, sizeof event);
            watch_heed_folder(watch, &event);
            concerns =
                concerns
                || watch_concerns(
                    watch, (const struct inotify_event *)(const void *)(bytes + at));
            at += (ssize_t)(sizeof event + event.len);
        }
    }
    return concerns;
}

/* Looks for a folder that was gone; whether there is one again. */
static bool watch_find_folder(bg_watch *watch)
{
    return watch->folder < 0 && watch_folder(watch, NULL) == BG_OK;
}

/* Whether there is something that no event will tell of. */
static bool watch_looks_again(const bg_watch *watch)
{
    return watch->folder < 0 || watch->waits;
}

bg_err bg_watch_poll(bg_watch *watch, int timeout_ms, bool *reloaded, bg_errinfo *info)
{
    bg_slot_stats before = { .struct_size = sizeof before }, after = before;
    if (!watch) {
        return bgi_err(info, BG_EINVAL, "watch", "a watch", "NULL");
    }
    bgi_err_clear(info);
    if (reloaded) {
        *reloaded = false;
    }
    struct pollfd waiting = { .fd = watch->events, .events = POLLIN };
    if (watch_looks_again(watch) && (timeout_ms < 0 || timeout_ms > WATCH_AGAIN)) {
        timeout_ms = WATCH_AGAIN;
    }
    if (poll(&waiting, 1, timeout_ms) < 0 && errno != EINTR) {
        return disk_error(info, "poll", watch->path);
    }
    const bool changed = watch_drain(watch);
    (void)!bg_slot_about(watch->slot, &before);
    if (!watch_find_folder(watch) && !changed && (!watch->waits || before.rebuilding)) {
        return BG_OK;
    }
    bg_err err = bg_slot_reload(watch->slot, watch->path, &watch->options, info);
    watch->waits = err == BG_EBUSY;
    (void)!bg_slot_about(watch->slot, &after);
    if (reloaded) {
        *reloaded = after.reloads != before.reloads;
    }
    return err;
}

static void *watch_run(void *argument)
{
    bg_watch *watch = argument;
    struct pollfd waiting[2] = { { .fd = watch->events, .events = POLLIN },
                                 { .fd = watch->stop[0], .events = POLLIN } };
    while (!waiting[1].revents) {
        if (poll(waiting, 2, watch_looks_again(watch) ? WATCH_AGAIN : -1) >= 0
            && !waiting[1].revents) {
            (void)!bg_watch_poll(watch, 0, NULL, NULL); /* failures are in the stats */
        }
    }
    return NULL;
}

bg_err bg_watch_thread_start(bg_watch *watch, bg_errinfo *info)
{
    if (!watch || watch->has_thread) {
        return bgi_err(info, BG_EINVAL, "watch", "one without a thread", "%s",
                       watch ? "one with" : "NULL");
    }
    bgi_err_clear(info);
    int code = pthread_create(&watch->thread, NULL, watch_run, watch);
    if (code != 0) {
        errno = code;
        return disk_error(info, "thread", watch->path);
    }
    watch->has_thread = true;
    return BG_OK;
}

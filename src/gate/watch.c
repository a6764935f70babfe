/*
 * watch.c - reloads a slot when the file at a path is replaced.
 *
 * The file at a path can change in many ways: a rename to the path, a retargeted symbolic link
 * anywhere in the path, a replaced directory, or a write in place. Two mechanisms detect such
 * changes:
 *
 *   (W1) The directory is watched for events (inotify). When a file is moved to the watched
 *        name, or when the file with that name is closed after being written, the file is loaded at
 *        once. The file is also loaded when events were lost because the queue was full. Any other
 *        event for the name only causes a check.
 *   (W2) The path is checked regularly: it is resolved to a file (disk_identify), which is
 *        compared with the last file that was loaded. The path is checked at every poll, and once a
 *        second while a caller waits or polls the descriptor (a timer makes the descriptor
 *        readable). If there was no event, a difference is ignored until it has lasted for a tenth
 *        of a second, because a file that is still being written keeps changing and could not be
 *        loaded.
 *
 * Each check also subscribes to events for the directory to which the path currently leads, and
 * checks whether mapped files were written to (reload.c).
 *
 * The file is loaded only once, even if many events are pending. Reloading an unchanged file only
 * requires reading its header. If a file cannot be loaded, the slot keeps its current filter, and
 * the next change causes another attempt. If the cause may disappear without a change to the file
 * (out of memory, out of descriptors, a read error), the load is also retried at each check that
 * runs at least a second after the last attempt. A file that arrives during a rebuild is loaded
 * when the rebuild has ended.
 *
 * If the slot was loaded from a file before its watch was created, a replacement between these two
 * events is not missed, because the first check always finds a difference.
 */
#define _GNU_SOURCE /* pipe2 */

#include "base/monotonic.h"
#include "gate/slot_inside.h"

#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct bg_watch {
    struct bgi_memory memory;
    bg_slot *slot;
    bg_reload_options options;
    char path[DISK_PATH];
    const char *name;           /* the last component of the path */
    int events;                 /* inotify descriptor */
    int timer;                  /* timer for the next check */
    int either;                 /* epoll descriptor for `events` and `timer` */
    int directory;              /* inotify watch on the directory, or -1 */
    struct disk_identity tried; /* the last file that was loaded or failed to load */
    struct disk_identity seen;  /* the file found at the last check */
    int64_t seen_since;         /* time when `seen` last changed, in milliseconds */
    int64_t looked;             /* time of the last check, in milliseconds */
    bool waits;                 /* a file arrived during a rebuild */
    bool retries;               /* the last attempt failed for a temporary reason */
    int64_t attempted;          /* time of the last attempt, in milliseconds */
    int stop[2];                /* a pipe; closing the write end stops the thread */
    pthread_t thread;
    bool has_thread;
};

enum {
    WATCH_EVENTS = 4096, /* size of the read buffer in bytes */
    WATCH_AGAIN = 1000,  /* milliseconds between checks */
    WATCH_LASTS = 100    /* ms that a difference must persist if there is no event */
};

/* The events since the last read. */
struct watch_news {
    bool replaced; /* (W1) */
    bool ours;     /* there was an event for the watched name or the directory */
};

/* ---- Lifecycle ------------------------------------------------------------------------- */

static int64_t watch_now(void)
{
    return (int64_t)(bgi_monotonic(NULL) / 1000000);
}

/* Subscribes to events for the directory to which the path currently leads, and for no other
 * directory. */
static bg_err watch_directory(bg_watch *watch, bg_errinfo *info)
{
    char directory[DISK_PATH] = ".";
    const size_t n = (size_t)(watch->name - watch->path);
    if (n > 0) {
        memcpy(directory, watch->path, n);
        directory[n] = 0;
    }
    /* Bytes written to a mapped file appear in the filter immediately, so each write must cause an
     * event. */
    const uint32_t writes = watch->options.flags & BG_SLOT_MAP ? IN_MODIFY : 0;
    const int found =
        inotify_add_watch(watch->events, directory,
                          writes | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR
                              | IN_DELETE_SELF | IN_MOVE_SELF);
    bg_err err = found < 0 ? disk_error(info, "watch", directory) : BG_OK;
    if (watch->directory >= 0 && watch->directory != found) {
        (void)inotify_rm_watch(watch->events, watch->directory);
    }
    watch->directory = found;
    return err;
}

static bg_err watch_open(bg_watch *watch, bg_errinfo *info)
{
    struct epoll_event readable = { .events = EPOLLIN };
    watch->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    watch->either = epoll_create1(EPOLL_CLOEXEC);
    if (watch->events < 0 || watch->timer < 0 || watch->either < 0
        || epoll_ctl(watch->either, EPOLL_CTL_ADD, watch->events, &readable) != 0
        || epoll_ctl(watch->either, EPOLL_CTL_ADD, watch->timer, &readable) != 0
        || pipe2(watch->stop, O_CLOEXEC) != 0) {
        return disk_error(info, "watch", watch->path);
    }
    return BG_OK;
}

/* Sets the timer for the next check, which is scheduled earlier if there is a difference that has
 * not lasted long enough yet. */
static void watch_arm(const bg_watch *watch)
{
    const bool soon = !disk_is_same(&watch->seen, &watch->tried);
    const struct itimerspec when = {
        .it_value = { .tv_sec = soon ? 0 : WATCH_AGAIN / 1000,
                      .tv_nsec = soon ? WATCH_LASTS * 1000000L : 0 }
    };
    (void)timerfd_settime(watch->timer, 0, &when, NULL);
}

static bg_err watch_begin(bg_watch *watch, bg_errinfo *info)
{
    bg_slot_info about = { .struct_size = sizeof about };
    const char *slash = strrchr(watch->path, '/');
    watch->name = slash ? slash + 1 : watch->path;
    bg_err err = watch_open(watch, info);
    err = err ? err : watch_directory(watch, info);
    err = err ? err : bg_slot_get_info(watch->slot, &about);
    if (!err) {
        watch->seen = disk_identify(watch->path);
        watch->seen_since = watch->looked = watch_now();
        if (!about.digest[0]) {
            watch->tried = watch->seen; /* do not load the file until it changes */
        }
        watch_arm(watch);
    }
    return err;
}

bg_err bg_watch_create(bg_slot *slot, const char *path,
                       const bg_reload_options *options, bg_watch **watch,
                       bg_errinfo *info)
{
    static const bg_reload_options usual = BG_RELOAD_OPTIONS_INIT;
    struct bgi_memory memory;
    if (watch) {
        *watch = NULL;
    }
    if (!slot || !path || !watch) {
        return bgi_err(info, BG_EINVAL, "slot, path, watch",
                       "a slot, a path, and a pointer to receive the watch", "NULL");
    }
    if (strlen(path) >= DISK_PATH - 1 || !*path) {
        return bgi_err(info, BG_EINVAL, "path", "a path of 1 to 4094 bytes",
                       "%zu bytes", strlen(path));
    }
    if (options && options->struct_size != sizeof *options) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_reload_options): use BG_RELOAD_OPTIONS_INIT", "%u",
                       options->struct_size);
    }
    bgi_err_clear(info);
    if (!bgi_memory_take(&memory, sizeof **watch, slot_allocator(slot), true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the watch");
    }
    bg_watch *made = memory.base;
    made->memory = memory;
    made->slot = slot;
    made->options = options ? *options : usual;
    made->events = made->timer = made->either = made->directory = -1;
    made->stop[0] = made->stop[1] = -1;
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
    watch_close(&watch->either);
    watch_close(&watch->timer);
    watch_close(&watch->events);
    struct bgi_memory memory = watch->memory;
    bgi_memory_give(&memory);
}

int bg_watch_fd(const bg_watch *watch)
{
    return watch ? watch->either : -1;
}

/* ---- Noticing -------------------------------------------------------------------------- */

static void watch_hear(const bg_watch *watch, const struct inotify_event *event,
                       struct watch_news *news)
{
    const bool named = event->len > 0 && strcmp(event->name, watch->name) == 0;
    const bool lost = (event->mask & IN_Q_OVERFLOW) != 0;
    news->ours |= named || lost || event->len == 0;
    news->replaced |= lost || (named && event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO));
}

/* Reads all pending events. */
static struct watch_news watch_drain(const bg_watch *watch)
{
    _Alignas(struct inotify_event) char bytes[WATCH_EVENTS];
    struct watch_news news = { false, false };
    ssize_t n;
    while ((n = read(watch->events, bytes, sizeof bytes)) > 0
           || (n < 0 && errno == EINTR)) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)(bytes + at);
            watch_hear(watch, event, &news);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return news;
}

/* Performs the check (W2). Returns whether there is a file to load. */
static bool watch_look(bg_watch *watch, bool replaced)
{
    const int64_t moment = watch_now();
    (void)!watch_directory(watch, NULL);
    (void)slot_doubt_maps(watch->slot);
    const struct disk_identity now = disk_identify(watch->path);
    watch->looked = moment;
    if (!disk_is_same(&now, &watch->seen)) {
        watch->seen = now;
        watch->seen_since = moment;
    }
    if (!disk_is_there(&now)) {
        /* The next file at the path counts as new, even if it was loaded before. */
        watch->tried = now;
        return false;
    }
    return replaced || (watch->retries && moment - watch->attempted >= WATCH_AGAIN)
           || (!disk_is_same(&now, &watch->tried)
               && moment - watch->seen_since >= WATCH_LASTS);
}

/* Returns whether a file that arrived during a rebuild can be loaded now. */
static bool watch_may_load(const bg_watch *watch)
{
    bg_slot_info about = { .struct_size = sizeof about };
    return watch->waits && bg_slot_get_info(watch->slot, &about) == BG_OK
           && !about.rebuilding;
}

/* ---- Waiting --------------------------------------------------------------------------- */

static bg_err watch_load(bg_watch *watch, bool *reloaded, bg_errinfo *info)
{
    bg_slot_info before = { .struct_size = sizeof before }, after = before;
    watch->tried = watch->seen;
    (void)!bg_slot_get_info(watch->slot, &before);
    bg_err err = bg_slot_reload(watch->slot, watch->path, &watch->options, info);
    watch->waits = err == BG_EBUSY;
    watch->retries = err == BG_ENOMEM || err == BG_EIO;
    watch->attempted = watch_now();
    (void)!bg_slot_get_info(watch->slot, &after);
    if (reloaded) {
        *reloaded = after.reloads != before.reloads;
    }
    return err;
}

bg_err bg_watch_poll(bg_watch *watch, int timeout_ms, bool *reloaded, bg_errinfo *info)
{
    if (!watch) {
        return bgi_err(info, BG_EINVAL, "watch", "a watch", "NULL");
    }
    bgi_err_clear(info);
    if (reloaded) {
        *reloaded = false;
    }
    const int64_t until = timeout_ms < 0 ? INT64_MAX : watch_now() + timeout_ms;
    for (bool first = true;; first = false) {
        const struct watch_news news = watch_drain(watch);
        const int64_t since = watch_now() - watch->looked;
        const bool looks = first || news.ours || since >= WATCH_LASTS;
        if ((looks && watch_look(watch, news.replaced)) || watch_may_load(watch)) {
            bg_err err = watch_load(watch, reloaded, info);
            watch_arm(watch);
            return err;
        }
        watch_arm(watch);
        const int64_t left = until - watch_now();
        struct pollfd waiting = { .fd = watch->either, .events = POLLIN };
        if (left <= 0) {
            return BG_OK;
        }
        if (poll(&waiting, 1, left > WATCH_AGAIN ? WATCH_AGAIN : (int)left) < 0) {
            return errno == EINTR ? BG_OK : disk_error(info, "poll", watch->path);
        }
    }
}

static void *watch_run(void *argument)
{
    bg_watch *watch = argument;
    struct pollfd waiting[2] = { { .fd = watch->either, .events = POLLIN },
                                 { .fd = watch->stop[0], .events = POLLIN } };
    while (!waiting[1].revents) {
        if (poll(waiting, 2, -1) >= 0 && !waiting[1].revents) {
            /* Failures are reported in bg_slot_info. */
            (void)!bg_watch_poll(watch, 0, NULL, NULL);
        }
    }
    return NULL;
}

bg_err bg_watch_thread_start(bg_watch *watch, bg_errinfo *info)
{
    if (!watch || watch->has_thread) {
        return watch ? bgi_err_state(info, BG_EINVAL, "watch",
                                     "the watch already has a thread")
                     : bgi_err(info, BG_EINVAL, "watch", "a watch", "NULL");
    }
    bgi_err_clear(info);
    int code = pthread_create(&watch->thread, NULL, watch_run, watch);
    if (code != 0) {
        errno = code;
        return disk_error(info, "start a thread to watch", watch->path);
    }
    watch->has_thread = true;
    return BG_OK;
}

/*
 * oplog.c - the operation log: appending, syncing and truncating.
 *
 * Idea. A filter in memory equals its last snapshot plus the operations since that snapshot, and
 * the log stores these operations. oplog_frame.c defines the log's format, and oplog_replay.c reads
 * it. This file implements the handle and decides when a record is durable.
 *
 * Invariants, while the log's lock is held:
 *
 *   (L1) The bytes of the file before offset `end` are a header and complete frames, which contain
 *        the records with the sequence numbers header.first .. next - 1. Below, a record's number
 *        is its sequence number. If a write fails, the file is truncated to `end` immediately.
 *   (L2) All records with numbers below `synced` are on the disk, according to fdatasync.
 *   (L3) Records are written, and applied to the filter by bg_oplog_change, in ascending order of
 *        their numbers.
 *   (L4) Once `failure` is set, nothing more is written.
 *
 * Group commit. An append writes a frame with its records under the lock. Under the policy
 * `always`, it then waits until `synced` is above the numbers of these records. If no sync is
 * running, the append starts a sync, which covers everything written so far, and releases the lock
 * during the sync. In the meantime, other threads write their frames and wait, and one of them then
 * starts the next sync for all of them. So syncs never queue up, and each sync covers all appends
 * that arrived during the previous sync. Threads wait for record numbers, not for offsets, because
 * the file may be replaced in the meantime.
 *
 * Failures. If a write fails because the disk is full, the file is truncated to remove the partial
 * frame (L1), and the log stays usable. Any other failed write, and every failed sync, permanently
 * marks the log as failed. After a failed fsync, the kernel may have marked pages clean that it
 * could not write, and a second fsync would succeed as if these pages were durable. Under `always`,
 * the records after the last successful sync have not been acknowledged. These records are removed
 * from the file, so that no later process reads them from the page cache and relies on them. Under
 * the other policies, these records have been acknowledged and must survive a process crash, so
 * they stay in the file, and opening the log rewrites them.
 *
 * Opening a log makes the file and its name durable, because the process that wrote the log may
 * have died before it synced the file or the directory.
 *
 * Truncation. (T1) Sync the log, and let N be the number of the next record. (T2) Save the filter
 * as a snapshot whose metadata contains the line "oplog: N". (T3) Write a new log that starts at N,
 * with the frames that were appended since the sync, and replace the old log with it. The snapshot
 * and the log are each replaced atomically (steps (D1) to (D6) in disk.c), and the directory is
 * synced in between. The state after a crash:
 *
 *     before (T2) is done    old snapshot M; old log from M or earlier to N or later
 *     before (T3) is done    snapshot N; old log, of which numbers below N are skipped
 *     after                  snapshot N; new log from N
 *
 * (T1) is needed even under the policy `no`. Without it, a power failure could leave snapshot N
 * with a log that ends before record N. Records appended to this log would then have numbers below
 * N, so they would be skipped during replay and lost. (bg_oplog_open also handles this case.)
 *
 * The snapshot must contain exactly the records with numbers below N. If the filter's kind only
 * sets bits, the snapshot may also contain later records, because adding a key again is harmless.
 * So a filter of such a kind is saved in place while other threads add keys, but operations that
 * clear bits wait. All other kinds, and exclusive filters, are copied under the lock.
 *
 * Only one process can use a log at a time, because that process holds an flock() on the file. A
 * new file is locked before it gets its final name.
 */
#define _GNU_SOURCE /* O_CLOEXEC, flock, ftruncate */

#include "store/disk.h"
#include "store/oplog_frame.h"

#include "base/errinfo.h"
#include "base/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPLOG_SECOND UINT64_C(1000000000)

enum { OPLOG_ATTEMPTS = 100 };

struct bg_oplog {
    pthread_mutex_t lock;
    pthread_cond_t turn; /* signaled when a sync or a truncation ends */
    struct disk_file file;
    struct oplog_header header;
    bg_oplog_options options;
    struct bgi_memory memory;
    unsigned char *frame; /* buffer of OPLOG_FRAME_MAX bytes for a frame */
    uint64_t next, end;
    uint64_t synced, synced_end;
    uint64_t sync_time; /* start time of the last sync */
    uint64_t syncs;
    bool syncing;       /* a thread is syncing without the lock */
    bool truncating;    /* a thread is saving the filter without the lock */
    bool saving_live;   /* the filter is being saved in place and must not be cleared */
    bg_errinfo failure; /* `code` is BG_OK if the log has not failed */
};

static uint64_t oplog_now(const bg_oplog *log)
{
    return log->options.clock(log->options.context);
}

static void oplog_enter(bg_oplog *log)
{
    (void)pthread_mutex_lock(&log->lock);
}

static void oplog_leave(bg_oplog *log)
{
    (void)pthread_mutex_unlock(&log->lock);
}

static void oplog_wait(bg_oplog *log)
{
    (void)pthread_cond_wait(&log->turn, &log->lock);
}

static void oplog_wake(bg_oplog *log)
{
    (void)pthread_cond_broadcast(&log->turn);
}

/* ---- Failures -------------------------------------------------------------------------- */

/* Returns the error that caused the log to be marked as failed, or BG_OK. */
static bg_err oplog_failed(const bg_oplog *log, bg_errinfo *info)
{
    if (info && log->failure.code) {
        *info = log->failure;
    }
    return log->failure.code;
}

/* Marks the log as failed (L4), and truncates the file to `end` if possible. */
static void oplog_fail(bg_oplog *log, const bg_errinfo *why, uint64_t end)
{
    log->failure = *why;
    (void)disk_resize(&log->file, end, NULL);
    oplog_wake(log);
}

/* Returns the offset at which the acknowledged records end, for a log whose sync has failed. */
static uint64_t oplog_acknowledged(const bg_oplog *log)
{
    return log->options.policy == BG_OPLOG_SYNC_ALWAYS ? log->synced_end : log->end;
}

static bool oplog_is_full(int code)
{
    return code == ENOSPC || code == EDQUOT || code == EFBIG;
}

/* Removes the partial frame left by a write that failed because the disk is full. If this is not
 * possible, or if the write failed for another reason, marks the log as failed. */
static void oplog_take_back(bg_oplog *log, const bg_errinfo *why)
{
    if (!oplog_is_full(why->os_errno) || disk_resize(&log->file, log->end, NULL)) {
        oplog_fail(log, why, log->end);
    }
}

/* ---- Syncing --------------------------------------------------------------------------- */

/* Syncs everything written so far. Releases the lock during the sync, unless `holding` is true. */
static void oplog_sync_once(bg_oplog *log, bool holding)
{
    uint64_t next = log->next, end = log->end;
    bg_errinfo why;
    log->syncing = true;
    log->sync_time = oplog_now(log);
    if (!holding) {
        oplog_leave(log);
    }
    bg_err err = disk_flush_data(&log->file, &why); /* `syncing` keeps the file open */
    if (!holding) {
        oplog_enter(log);
    }
    log->syncing = false;
    log->syncs++;
    if (err && !log->failure.code) {
        oplog_fail(log, &why, oplog_acknowledged(log));
    } else if (!err) {
        log->synced = next;
        log->synced_end = end;
    }
    oplog_wake(log);
}

/* Waits until all records with numbers below `next` are on the disk, or the log has failed. */
static bg_err oplog_sync_to(bg_oplog *log, uint64_t next, bg_errinfo *info)
{
    while (log->synced < next && !log->failure.code) {
        if (log->syncing) {
            oplog_wait(log);
        } else {
            oplog_sync_once(log, false);
        }
    }
    return log->synced >= next ? BG_OK : oplog_failed(log, info);
}

/* Syncs all records, including records that are written during the sync. Most of the work happens
 * without the lock. */
static bg_err oplog_sync_all(bg_oplog *log, bg_errinfo *info)
{
    (void)oplog_sync_to(log, log->next, info);
    while (log->syncing) {
        oplog_wait(log);
    }
    if (log->synced < log->next && !log->failure.code) {
        oplog_sync_once(log, true);
    }
    return oplog_failed(log, info);
}

/* Returns whether there are unsynced records, a second has passed since the last sync, and no sync
 * is running. If the clock has moved backward, the function behaves as if a second had passed. */
static bool oplog_is_due(const bg_oplog *log)
{
    return !log->syncing && log->synced < log->next
           && oplog_now(log) - log->sync_time >= OPLOG_SECOND;
}

/* Called after all records with numbers below `next` have been written. Syncs if the policy
 * requires it. */
static bg_err oplog_settle(bg_oplog *log, uint64_t next, bg_errinfo *info)
{
    bool waits =
        log->options.policy == BG_OPLOG_SYNC_ALWAYS
        || (log->options.policy == BG_OPLOG_SYNC_EVERYSEC && oplog_is_due(log));
    return waits ? oplog_sync_to(log, next, info) : BG_OK;
}

bg_err bg_oplog_sync(bg_oplog *log, bg_errinfo *info)
{
    if (!log) {
        return bgi_err(info, BG_EINVAL, "log", "a log", "NULL");
    }
    bgi_err_clear(info);
    oplog_enter(log);
    bg_err err = oplog_failed(log, info);
    err = err ? err : oplog_sync_to(log, log->next, info);
    oplog_leave(log);
    return err;
}

bg_err bg_oplog_tick(bg_oplog *log, bg_errinfo *info)
{
    if (!log) {
        return bgi_err(info, BG_EINVAL, "log", "a log", "NULL");
    }
    bgi_err_clear(info);
    oplog_enter(log);
    bg_err err = oplog_failed(log, info);
    if (!err && log->options.policy == BG_OPLOG_SYNC_EVERYSEC && oplog_is_due(log)) {
        err = oplog_sync_to(log, log->next, info);
    }
    oplog_leave(log);
    return err;
}

/* ---- Appending ------------------------------------------------------------------------- */

static bg_err oplog_check_records(const bg_oplog *log, const uint8_t *ops,
                                  const uint64_t *hashes, size_t n, bg_errinfo *info)
{
    if (!log || !hashes) {
        return bgi_err(info, BG_EINVAL, "log, hashes", "a log and hashes", "NULL");
    }
    if (n == 0 || n > BG_OPLOG_BATCH_MAX) {
        return bgi_err(info, BG_EINVAL, "n", "1 to 65536 records", "%zu", n);
    }
    for (size_t i = 0; ops && i < n; i++) {
        if (!oplog_is_operation(ops[i])) {
            return bgi_err(info, BG_EINVAL, "ops", "BG_OPLOG_ADD to BG_OPLOG_MARK",
                           "%u", ops[i]);
        }
    }
    return BG_OK;
}

/* Writes a frame. (L1) holds afterwards. */
static bg_err oplog_write(bg_oplog *log, const uint8_t *ops, const uint64_t *hashes,
                          size_t n, bg_errinfo *info)
{
    bg_errinfo why;
    bg_err err = oplog_failed(log, info);
    if (err) {
        return err;
    }
    if (n > UINT64_MAX - log->next) {
        return bgi_err(info, BG_EINVAL, "n", "record numbers below 2^64", "%zu", n);
    }
    size_t bytes = oplog_write_frame(log->frame, log->next, ops, hashes, n);
    err = disk_write(&log->file, log->end, log->frame, bytes, &why);
    if (err) {
        oplog_take_back(log, &why);
        if (info) {
            *info = why;
        }
        return err;
    }
    log->end += bytes;
    log->next += n;
    return BG_OK;
}

/* Returns whether any record is a clear or a rotation, both of which clear bits. */
static bool oplog_is_sweeping(const uint8_t *ops, size_t n)
{
    for (size_t i = 0; ops && i < n; i++) {
        if (ops[i] == BG_OPLOG_CLEAR || ops[i] == BG_OPLOG_ROTATE) {
            return true;
        }
    }
    return false;
}

/* Appends records and applies them to `filter`, unless it is NULL. */
static bg_err oplog_append(bg_oplog *log, bg_filter *filter, const uint8_t *ops,
                           const uint64_t *hashes, size_t n, uint64_t *first,
                           bg_errinfo *info)
{
    oplog_enter(log);
    while (filter && log->saving_live && oplog_is_sweeping(ops, n)) {
        oplog_wait(log);
    }
    uint64_t number = log->next;
    bg_err err = oplog_write(log, ops, hashes, n, info);
    if (!err && filter) {
        err = oplog_apply_records(filter, ops, hashes, n, info);
    }
    err = err ? err : oplog_settle(log, number + n, info);
    oplog_leave(log);
    if (!err && first) {
        *first = number;
    }
    return err;
}

bg_err bg_oplog_append(bg_oplog *log, const uint8_t *ops, const uint64_t *hashes,
                       size_t n, uint64_t *first, bg_errinfo *info)
{
    bgi_err_clear(info);
    bg_err err = oplog_check_records(log, ops, hashes, n, info);
    return err ? err : oplog_append(log, NULL, ops, hashes, n, first, info);
}

bg_err bg_oplog_change(bg_oplog *log, bg_filter *filter, const uint8_t *ops,
                       const uint64_t *hashes, size_t n, uint64_t *first,
                       bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a filter", "NULL");
    }
    bg_err err = oplog_check_records(log, ops, hashes, n, info);
    err = err ? err : oplog_check_identity(&log->header, filter, info);
    err = err ? err : oplog_can_apply(filter, ops, n, info);
    return err ? err : oplog_append(log, filter, ops, hashes, n, first, info);
}

bg_err bg_oplog_get_info(bg_oplog *log, bg_oplog_info *out)
{
    if (!log || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    oplog_enter(log);
    *out = (bg_oplog_info){ .struct_size = sizeof *out,
                            .policy = log->options.policy,
                            .first = log->header.first,
                            .next = log->next,
                            .synced = log->synced,
                            .bytes = log->end,
                            .syncs = log->syncs,
                            .failed = log->failure.code };
    oplog_leave(log);
    return BG_OK;
}

/* ---- Files of a log -------------------------------------------------------------------- */

static bg_err oplog_lock_file(const struct disk_file *file, bg_errinfo *info)
{
    if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        const bg_err err =
            bgi_err_state(info, BG_EIO, "lock",
                          "the log %s is already in use; close it first", file->path);
        if (info) {
            info->os_errno = EWOULDBLOCK;
        }
        return err;
    }
    return BG_OK; /* on a file system without locks, the caller must ensure exclusive use */
}

static bg_err oplog_copy_tail(const struct disk_file *from, uint64_t at, uint64_t end,
                              struct disk_file *to, unsigned char *buffer,
                              bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (uint64_t put = OPLOG_HEADER; at < end && !err;) {
        size_t n =
            end - at < OPLOG_FRAME_MAX ? (size_t)(end - at) : (size_t)OPLOG_FRAME_MAX;
        err = disk_read((void *)(uintptr_t)from, at, buffer, n, info);
        err = err ? err : disk_write(to, put, buffer, n, info);
        at += n;
        put += n;
    }
    return err;
}

/* Creates a log file with the given header. If `over` is true, the new file replaces the current
 * file and receives the frames that start at `tail` in the current file. If `over` is false, the
 * file must not exist yet. */
static bg_err oplog_make_file(bg_oplog *log, const struct oplog_header *header,
                              uint64_t tail, bool over, bool *placed, bg_errinfo *info)
{
    struct disk_draft draft;
    struct container_sink sink;
    unsigned char bytes[OPLOG_HEADER];
    *placed = false;
    oplog_write_header(header, bytes);
    bg_err err = disk_begin(&draft, log->file.path, 0, &sink, info);
    if (err) {
        return err;
    }
    err = disk_write(&draft.file, 0, bytes, sizeof bytes, info);
    if (!err && over) {
        err =
            oplog_copy_tail(&log->file, tail, log->end, &draft.file, log->frame, info);
    }
    err = err ? err : oplog_lock_file(&draft.file, info);
    if (err) {
        disk_discard(&draft);
        return err;
    }
    err = disk_keep(&draft, over, info);
    *placed = draft.placed;
    if (!err) {
        disk_close(&log->file);
        log->file.descriptor = draft.file.descriptor;
        /* The other header fields must not be written, because they are read without the lock. */
        log->header.first = header->first;
        log->header.generation = header->generation;
    }
    return err;
}

/* ---- Opening --------------------------------------------------------------------------- */

static bg_err oplog_take_options(const bg_oplog_options *options, bg_oplog_options *to,
                                 bg_errinfo *info)
{
    static const bg_oplog_options usual = BG_OPLOG_OPTIONS_INIT;
    *to = options ? *options : usual;
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_oplog_options): use BG_OPLOG_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->policy > BG_OPLOG_SYNC_NO) {
        return bgi_err(info, BG_EINVAL, "policy", "a bg_oplog_policy", "%u",
                       to->policy);
    }
    to->clock = to->clock ? to->clock : bgi_monotonic;
    return BG_OK;
}

/* Creates a handle without a file. Returns NULL and sets *err on failure. */
static bg_oplog *oplog_new(const char *path, const bg_oplog_options *options,
                           bg_err *err, bg_errinfo *info)
{
    struct bgi_memory memory;
    const size_t handle = (sizeof(bg_oplog) + 63) / 64 * 64;
    if (!path || !*path || strlen(path) >= DISK_PATH) {
        *err = bgi_err(info, BG_EINVAL, "path", "a path of 1 to 4095 bytes", "%s",
                       path ? "a path that is empty or too long" : "NULL");
        return NULL;
    }
    if (!bgi_memory_take(&memory, handle + OPLOG_FRAME_MAX, options->allocator, true)) {
        *err = bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the log",
                             handle + OPLOG_FRAME_MAX);
        return NULL;
    }
    bg_oplog *log = memory.base;
    log->memory = memory;
    log->options = *options;
    log->frame = (unsigned char *)memory.base + handle;
    log->file.descriptor = -1;
    /* A link is followed only once, because it may lead to another log when this one is trimmed. */
    *err = disk_resolve(path, log->file.path, info);
    if (*err) {
        bgi_memory_give(&memory);
        return NULL;
    }
    (void)pthread_mutex_init(&log->lock, NULL);
    (void)pthread_cond_init(&log->turn, NULL);
    return log;
}

static void oplog_free(bg_oplog *log)
{
    struct bgi_memory memory = log->memory;
    disk_close(&log->file);
    (void)pthread_cond_destroy(&log->turn);
    (void)pthread_mutex_destroy(&log->lock);
    bgi_memory_give(&memory);
}

/* Opens and locks the file at the log's path. Returns BG_ECANCELED if another file replaced it in
 * the meantime. */
static bg_err oplog_open_file(bg_oplog *log, uint64_t *bytes, bg_errinfo *info)
{
    struct stat mine, there;
    struct disk_file *file = &log->file;
    file->descriptor = open(file->path, O_RDWR | O_CLOEXEC);
    if (file->descriptor < 0) {
        return disk_error(info, "open", file->path);
    }
    bg_err err = oplog_lock_file(file, info);
    if (!err && fstat(file->descriptor, &mine) != 0) {
        err = disk_error(info, "stat", file->path);
    }
    if (!err && !S_ISREG(mine.st_mode)) {
        err = bgi_err(info, BG_EFORMAT, "path", "a regular file",
                      "a different type of file");
    }
    if (!err
        && (stat(file->path, &there) != 0 || there.st_dev != mine.st_dev
            || there.st_ino != mine.st_ino)) {
        err = BG_ECANCELED;
    }
    if (err) {
        disk_close(file);
    } else {
        *bytes = (uint64_t)mine.st_size;
    }
    return err;
}

/* Opens the file, or creates it if it does not exist. Other processes may open or create it at
 * the same time. */
static bg_err oplog_find_file(bg_oplog *log, const struct oplog_header *header,
                              uint64_t *bytes, bg_errinfo *info)
{
    bg_errinfo why;
    bg_err err = BG_OK;
    bool placed;
    for (int attempt = 0; attempt < OPLOG_ATTEMPTS; attempt++) {
        err = oplog_open_file(log, bytes, &why);
        if (err == BG_EIO && why.os_errno == ENOENT) {
            err = oplog_make_file(log, header, 0, false, &placed, &why);
            *bytes = OPLOG_HEADER;
            if (err == BG_EIO && why.os_errno == EEXIST) {
                continue;
            }
        }
        if (err != BG_ECANCELED) {
            break;
        }
    }
    if (err && info) {
        *info = why;
    }
    return err;
}

/* Rewrites the file in place. If a sync failed while another process was using the log, pages that
 * never reached the disk may be marked clean. Rewriting marks them dirty again. */
static bg_err oplog_rewrite(bg_oplog *log, uint64_t end, bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (uint64_t at = 0; at < end && !err;) {
        size_t n =
            end - at < OPLOG_FRAME_MAX ? (size_t)(end - at) : (size_t)OPLOG_FRAME_MAX;
        err = disk_read(&log->file, at, log->frame, n, info);
        err = err ? err : disk_write(&log->file, at, log->frame, n, info);
        at += n;
    }
    return err;
}

/* Truncates the file after the last intact frame, and makes the frames and the file name
 * durable. */
static bg_err oplog_cut_tail(bg_oplog *log, const bg_oplog_report *report,
                             bg_errinfo *info)
{
    bg_err err = BG_OK;
    if (report->dropped) {
        err = disk_resize(&log->file, report->end, info);
    }
    err = err ? err : oplog_rewrite(log, report->end, info);
    err = err ? err : disk_flush_data(&log->file, info);
    err = err ? err : disk_sync_directory(log->file.path, info);
    log->end = report->end;
    log->next = report->next;
    return err;
}

/* Checks that the filter contains all records in the log. Missing records would be lost with the
 * next snapshot, because a snapshot is assumed to contain all earlier records. */
static bg_err oplog_check_position(const bg_oplog_report *report, uint64_t position,
                                   bg_errinfo *info)
{
    if (report->first > position) {
        return bgi_err_state(
            info, BG_EINCOMPAT, "position",
            "the filter has the records before %llu, but the log "
            "starts at record %llu; use a newer snapshot or an older log",
            (unsigned long long)position, (unsigned long long)report->first);
    }
    if (report->next > position) {
        return bgi_err_state(
            info, BG_EINCOMPAT, "position",
            "the filter has the records before %llu, but the log continues up to "
            "record %llu; replay the remaining records first",
            (unsigned long long)position, (unsigned long long)report->next - 1);
    }
    return BG_OK;
}

/* Makes appends continue at the filter's position, which is the number of its next record. A log
 * that ends before this position is replaced with an empty log. */
static bg_err oplog_join(bg_oplog *log, const struct oplog_header *wanted,
                         bg_errinfo *info)
{
    bool placed;
    if (log->next < wanted->first) {
        bg_err err = oplog_make_file(log, wanted, log->end, true, &placed, info);
        if (err) {
            return err;
        }
        log->next = wanted->first;
        log->end = OPLOG_HEADER;
    }
    log->synced = log->next;
    log->synced_end = log->end;
    log->sync_time = oplog_now(log);
    return BG_OK;
}

static bg_err oplog_start(bg_oplog *log, const bg_filter *filter,
                          bg_oplog_report *report, bg_errinfo *info)
{
    struct oplog_header wanted = oplog_header_of(filter);
    struct container_source source = { .read = disk_read, .context = &log->file };
    wanted.first = log->options.position;
    wanted.generation = log->options.generation;
    bg_err err = oplog_find_file(log, &wanted, &source.bytes, info);
    err = err ? err : oplog_walk(&source, NULL, NULL, report, info);
    if (err) {
        return err;
    }
    log->header = (struct oplog_header){ .kind = report->kind,
                                         .check = report->check,
                                         .generation = report->generation,
                                         .first = report->first };
    err = oplog_check_identity(&log->header, filter, info);
    err = err ? err : oplog_check_position(report, wanted.first, info);
    err = err ? err : oplog_cut_tail(log, report, info);
    return err ? err : oplog_join(log, &wanted, info);
}

bg_err bg_oplog_open(const char *path, const bg_filter *filter,
                     const bg_oplog_options *options, bg_oplog **log,
                     bg_oplog_report *report, bg_errinfo *info)
{
    bg_oplog_options how;
    bg_oplog_report own = { .struct_size = sizeof own }, *use = &own;
    bgi_err_clear(info);
    if (log) {
        *log = NULL;
    }
    if (!filter || !log) {
        return bgi_err(info, BG_EINVAL, "filter, log",
                       "a filter, and a pointer to receive the log", "NULL");
    }
    bg_err err = oplog_take_options(options, &how, info);
    err = err ? err : oplog_report_begin(report, &own, &use, info);
    *log = err ? NULL : oplog_new(path, &how, &err, info);
    if (!*log) {
        return err;
    }
    err = oplog_start(*log, filter, use, info);
    if (err) {
        oplog_free(*log);
        *log = NULL;
    }
    return err;
}

bg_err bg_oplog_close(bg_oplog *log, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!log) {
        return BG_OK;
    }
    oplog_enter(log);
    bg_err err = oplog_failed(log, info);
    if (!err && log->options.policy != BG_OPLOG_SYNC_NO) {
        err = oplog_sync_to(log, log->next, info);
    }
    oplog_leave(log);
    oplog_free(log);
    return err;
}

/* ---- Truncating ------------------------------------------------------------------------ */

/* The state of a truncation. */
struct oplog_cut {
    bg_save_options saving;
    char metadata[BG_METADATA_MAX];
    bg_filter *copy;   /* if NULL, the filter is saved in place */
    uint64_t position; /* N */
    uint64_t tail; /* offset of the frame that contains, or will contain, record N */
};

/* (T1) */
static bg_err oplog_cut_begin(bg_oplog *log, const bg_filter *filter,
                              struct oplog_cut *cut, bg_errinfo *info)
{
    bg_err err = oplog_sync_all(log, info);
    if (err) {
        return err;
    }
    cut->position = log->next;
    cut->tail = log->end;
    const char *metadata = cut->saving.metadata;
    err = oplog_write_position(metadata, cut->position, cut->metadata, info);
    cut->saving.metadata = cut->metadata;
    if (!err && (!bgi_content_is_steady(filter) || filter->flags & BG_SPEC_EXCLUSIVE)) {
        err = bg_filter_copy(filter, &cut->copy, info);
    }
    return err;
}

/* (T2), without the lock. */
static bg_err oplog_cut_save(bg_oplog *log, const bg_filter *filter,
                             const char *snapshot, struct oplog_cut *cut,
                             bg_errinfo *info)
{
    log->saving_live = !cut->copy;
    oplog_leave(log);
    bg_err err = bg_save(cut->copy ? cut->copy : filter, snapshot, &cut->saving, info);
    oplog_enter(log);
    log->saving_live = false;
    return err;
}

/* (T3) */
static bg_err oplog_cut_finish(bg_oplog *log, const struct oplog_cut *cut,
                               bg_errinfo *info)
{
    struct oplog_header header = log->header;
    bg_errinfo why;
    bool placed;
    while (log->syncing) {
        oplog_wait(log);
    }
    bg_err err = oplog_failed(log, info);
    if (err) {
        return err;
    }
    header.first = cut->position;
    header.generation = cut->saving.generation;
    err = oplog_make_file(log, &header, cut->tail, true, &placed, &why);
    if (!err) {
        log->end -= cut->tail - OPLOG_HEADER;
        log->synced = log->next;
        log->synced_end = log->end;
        return BG_OK;
    }
    if (placed) { /* after a power failure, either file may be in place */
        oplog_fail(log, &why, log->end);
    }
    if (info) {
        *info = why;
    }
    return err;
}

static bg_err oplog_truncate(bg_oplog *log, const bg_filter *filter,
                             const char *snapshot, struct oplog_cut *cut,
                             bg_errinfo *info)
{
    oplog_enter(log);
    while (log->truncating) {
        oplog_wait(log);
    }
    log->truncating = true;
    bg_err err = oplog_failed(log, info);
    err = err ? err : oplog_cut_begin(log, filter, cut, info);
    err = err ? err : oplog_cut_save(log, filter, snapshot, cut, info);
    err = err ? err : oplog_cut_finish(log, cut, info);
    log->truncating = false;
    oplog_wake(log);
    oplog_leave(log);
    bg_filter_free(cut->copy);
    return err;
}

bg_err bg_oplog_snapshot(bg_oplog *log, const bg_filter *filter, const char *snapshot,
                         const bg_save_options *options, bg_errinfo *info)
{
    struct oplog_cut cut = { .copy = NULL };
    bgi_err_clear(info);
    if (!log || !filter) {
        return bgi_err(info, BG_EINVAL, "log, filter", "a log and a filter", "NULL");
    }
    bg_err err = container_save_options(options, &cut.saving, info);
    if (!err && cut.saving.flags & BG_FILE_NO_SYNC) {
        err = bgi_err(info, BG_EINVAL, "flags", "no BG_FILE_NO_SYNC", "0x%x",
                      cut.saving.flags);
    }
    err = err ? err : oplog_check_identity(&log->header, filter, info);
    return err ? err : oplog_truncate(log, filter, snapshot, &cut, info);
}

/*
 * oplog.h - the operation log, which records changes to a filter since its last snapshot.
 *
 * Saving a large filter takes a long time. Appending to a log is fast and takes only 9 bytes per
 * operation. After a crash, a filter is restored from its last snapshot and the operations that
 * were logged after it:
 *
 *     bg_oplog_open("seen.log", filter, &how, &log, &report, &why);
 *     bg_oplog_change(log, filter, NULL, hashes, n, NULL, &why);     // log and apply adds
 *     ...
 *     bg_oplog_snapshot(log, filter, "seen.bg", NULL, &why);
 *
 *     // after a restart:
 *     bg_oplog_recover("seen.bg", "seen.log", NULL, &filter, &report, &why);
 *
 * An operation consists of one byte and a 64-bit value, usually the hash of a key.
 * Operations are numbered from 0, and the numbers are never reused. A snapshot records the
 * number up to which it is complete, so operations that it already includes are not
 * replayed. This keeps removes and counts correct.
 *
 * The sync policy determines durability:
 *   always    an append returns when its records are on disk (fdatasync). Threads that append
 *             while the disk is busy share the next sync.
 *   everysec  an append or bg_oplog_tick syncs if a second has passed since the last sync. A
 *             system crash loses the records after the last sync; a process crash loses
 *             nothing.
 *   no        the OS decides when to write. A process crash loses nothing.
 *
 * The records of one append form a frame, which is replayed completely or not at all. A
 * frame that was truncated by a crash is detected by its checksum, and is ignored along
 * with everything after it.
 *
 * Caveats
 *   - Only one process at a time can have a log open.
 *   - A log contains hashes, which reveal whether a given key is in the log. Protect the
 *     log like the keys themselves.
 *   - Records are replayed in the order of the log. If order matters (removes, clears,
 *     windows), threads that use bg_oplog_append must hold a lock while they change the
 *     filter and append. bg_oplog_change acquires such a lock itself.
 *   - The library starts no thread for syncs. With `everysec`, call bg_oplog_tick
 *     regularly if appends may stop.
 */
#ifndef BLOOMGATE_OPLOG_H
#define BLOOMGATE_OPLOG_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A log that is open for appending. Opaque. */
typedef struct bg_oplog bg_oplog;

/*
 * Operations. The comments describe the 64-bit value in the record. The operation codes
 * are permanent.
 */
enum {
    BG_OPLOG_ADD = 1,    /* a hash */
    BG_OPLOG_REMOVE = 2, /* a hash */
    BG_OPLOG_ROTATE = 3, /* the time, as for bg_filter_rotate */
    BG_OPLOG_CLEAR = 4,  /* 0 */
    BG_OPLOG_MARK = 5    /* any value; no effect on filters */
};

/* When records are synced to disk. */
typedef enum bg_oplog_policy {
    BG_OPLOG_SYNC_ALWAYS = 0,
    BG_OPLOG_SYNC_EVERYSEC = 1,
    BG_OPLOG_SYNC_NO = 2
} bg_oplog_policy;

/* Maximum number of records in one append. */
#define BG_OPLOG_BATCH_MAX 65536

/* Options for opening a log. NULL selects the defaults. */
typedef struct bg_oplog_options {
    uint32_t struct_size; /* sizeof(bg_oplog_options) */
    uint32_t policy;      /* a bg_oplog_policy */
    uint64_t position;    /* number up to which the filter is complete: `next` in the
                             report from bg_oplog_apply or bg_oplog_recover; 0 for a new
                             filter */
    uint64_t generation;  /* generation of the snapshot on which a new log is based */
    uint64_t (*clock)(void *context); /* monotonic time in ns; NULL uses the OS clock */
    void *context;                    /* argument of `clock` */
    const bg_allocator *allocator;    /* or NULL */
} bg_oplog_options;

#define BG_OPLOG_OPTIONS_INIT                                                          \
    {                                                                                  \
        sizeof(bg_oplog_options), 0, 0, 0, 0, 0, 0                                     \
    }

/* The result of reading a log. */
typedef struct bg_oplog_report {
    uint32_t struct_size; /* sizeof(bg_oplog_report), set by the caller */
    uint32_t kind;        /* kind of the log's filter: a bg_kind */
    uint64_t check;       /* bg_hasher_check of the filter's hasher */
    uint64_t generation;  /* generation of the snapshot on which the log is based */
    uint64_t first;       /* number of the first record in the log */
    uint64_t next;        /* number after the last complete record */
    uint64_t records;     /* records passed to the callback or applied to the filter */
    uint64_t frames;      /* complete frames in the file */
    uint64_t end;         /* offset after the last complete frame */
    uint64_t dropped;     /* number of bytes after that offset (a torn tail) */
    bg_err code;          /* BG_OK if `dropped` is 0; BG_EFORMAT if a frame is
                             incomplete; BG_ECHECKSUM if a frame is damaged */
    char what[BG_ERR_WHAT_MAX]; /* the invalid part: "frame", "checksum" ... */
    char found[BG_ERR_FOUND_MAX];
    char expected[BG_ERR_EXPECTED_MAX];
} bg_oplog_report;

/* See bg_oplog_get_info. */
typedef struct bg_oplog_info {
    uint32_t struct_size; /* sizeof(bg_oplog_info), set by the caller */
    uint32_t policy;      /* a bg_oplog_policy */
    uint64_t first;       /* number of the first record in the file */
    uint64_t next;        /* number of the next record to be appended */
    uint64_t synced;      /* all records below this number are on disk */
    uint64_t bytes;       /* size of the file */
    uint64_t syncs;       /* number of syncs since the log was opened */
    bg_err failed;        /* BG_OK, or the error that every append returns */
} bg_oplog_info;

/* ---- Appending ------------------------------------------------------------------------- */

/*
 * Opens a log for appending, and creates it if it does not exist. A log is tied to one kind and one
 * hasher; opening it for a filter with a different kind or hasher fails. The whole log is read to
 * find its end. Bytes after the last complete frame are discarded; `report`, unless NULL, describes
 * how many bytes were discarded, and why. To inspect a log without changing it, use
 * bg_oplog_replay. The remaining records are rewritten and synced, and the directory is synced as
 * well.
 *
 * options->position is compared with the log. A log that starts after the position is missing
 * operations and is refused. A log that ends before the position contains only operations that the
 * filter already includes, and is replaced with an empty log that starts at the position. A log
 * with records at or after the position is refused, because these records are missing from the
 * filter and would be lost at the next snapshot. Apply them with bg_oplog_apply (`from` =
 * position), and open the log with report->next as the position. A process that has waited for
 * another process to close the log must apply the new records before it opens the log.
 * Errors: BG_EIO, with EWOULDBLOCK if another process has the log open; BG_EFORMAT,
 * BG_EVERSION or BG_ECHECKSUM for a damaged header or a record from a newer version;
 * BG_EINCOMPAT for the log of a different filter, or if operations are missing from the
 * log or the filter; BG_EINVAL; BG_ENOMEM. On error *log is NULL. A refused log is
 * unchanged; after BG_EIO its torn tail may have been discarded.
 * Thread safety: MT-Safe. Cost: reads and writes the file.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_open(const char *path, const bg_filter *filter,
                                          const bg_oplog_options *options,
                                          bg_oplog **log, bg_oplog_report *report,
                                          bg_errinfo *info);

/*
 * Closes a log, after syncing it unless the policy is `no`; NULL is allowed. Returns the error from
 * the sync, or the error that made the log unusable earlier. The log is closed even on error.
 * Thread safety: MT-Excl.
 */
BG_API bg_err bg_oplog_close(bg_oplog *log, bg_errinfo *info);

/*
 * Appends n records (1 to BG_OPLOG_BATCH_MAX) as one frame. Record i consists of the
 * operation ops[i] and the value hashes[i]. If `ops` is NULL, all operations are adds.
 * *first, unless NULL, is set to the number of the first record. The filter is not
 * changed; change it before the call. If order matters, hold a lock during both steps.
 *
 * If the write fails, nothing is appended. If the disk was full, the log can be used again
 * once space is available. After any other failed write, and after any failed sync, the
 * log is unusable: this call and every later call return the same error. With `always`,
 * the records after the last successful sync are then discarded if the OS allows it. A
 * failed sync is never retried, because the result of a retry would be meaningless. Either
 * close the log, recover, and open the log again, or save the filter.
 * Errors: BG_EIO; BG_EINVAL.
 * Thread safety: MT-Safe. Cost: a write() and, depending on the policy, a sync.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_append(bg_oplog *log, const uint8_t *ops,
                                            const uint64_t *hashes, size_t n,
                                            uint64_t *first, bg_errinfo *info);

/*
 * Appends records as bg_oplog_append does, and applies their adds, removes, rotations and
 * clears to `filter`. Even with concurrent calls, records are applied in the order of the
 * log. Adds keys as bg_filter_add_forced does. If the write fails, the filter is
 * unchanged. If the sync fails, the filter has changed, but the change may not survive a
 * crash. Do not change the filter in any other way. Queries may run at the same time,
 * except during a clear.
 * Errors: those of bg_oplog_append; BG_ENOTSUP if the kind does not support an operation,
 * and BG_EINCOMPAT if the log belongs to a different filter. In both cases nothing has
 * changed.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_change(bg_oplog *log, bg_filter *filter,
                                            const uint8_t *ops, const uint64_t *hashes,
                                            size_t n, uint64_t *first,
                                            bg_errinfo *info);

/*
 * Waits until all records appended so far are on disk.
 * Errors: those of bg_oplog_append. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_sync(bg_oplog *log, bg_errinfo *info);

/*
 * Syncs the log if the policy is `everysec`, a second has passed since the last sync, and
 * records have been appended since then. Otherwise does nothing.
 * Errors: those of bg_oplog_append. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_tick(bg_oplog *log, bg_errinfo *info);

/*
 * Describes a log.
 * Errors: BG_EINVAL for NULL or an unknown struct_size. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_get_info(bg_oplog *log, bg_oplog_info *out);

/* ---- Snapshots ------------------------------------------------------------------------- */

/*
 * Saves the filter to `snapshot` with bg_save, adding the line "oplog: N" to
 * options->metadata. The line means that the snapshot includes all operations numbered
 * below N. Then replaces the log with a new log that starts at N. No matter when a crash occurs,
 * the snapshot and the log together contain every synced operation, and no operation is
 * replayed twice.
 *
 * Other threads may use bg_oplog_change during the call; only clears and rotations wait.
 * Threads that use bg_oplog_append must ensure that, when this function is called, every
 * operation has been both applied and appended, or neither. For a kind that only sets
 * bits, it is sufficient that all appended operations have been applied.
 * Errors: those of bg_save and bg_oplog_append; BG_EINVAL for BG_FILE_NO_SYNC, and for
 * metadata that already contains an "oplog:" line or has no space for one. If the snapshot
 * cannot be saved, nothing has changed. If the snapshot was saved but the log cannot be
 * replaced, the old log stays in use. If the log was replaced but its directory could not
 * be synced, the log is unusable.
 * Thread safety: MT-Safe, see above. Cost: same as bg_save, plus a copy of the filter
 * unless its kind only sets bits.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_snapshot(bg_oplog *log, const bg_filter *filter,
                                              const char *snapshot,
                                              const bg_save_options *options,
                                              bg_errinfo *info);

/*
 * Reads N from the "oplog: N" line in the metadata of a snapshot.
 * Errors: BG_EFORMAT if the snapshot has no such line; those of bg_file_get_info.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_position(const char *snapshot, uint64_t *position,
                                              bg_errinfo *info);

/* ---- Replaying ------------------------------------------------------------------------- */

/*
 * A callback that receives the n records of a frame, numbered from `first`. Return false
 * to cancel (BG_ECANCELED).
 */
typedef bool (*bg_oplog_visit_fn)(void *context, uint64_t first, const uint8_t *ops,
                                  const uint64_t *hashes, size_t n);

/*
 * Passes all records of a log to `visit`, frame by frame, up to the end or up to the first
 * frame that is incomplete or damaged. Such a frame does not cause an error; `report`,
 * unless NULL, describes where and why reading stopped. If `visit` is NULL, only the report
 * is produced. The file is not changed.
 * Errors: BG_EFORMAT, BG_EVERSION or BG_ECHECKSUM for an invalid header, or for a complete
 * frame with an operation that this version does not support; BG_EIO; BG_ENOMEM;
 * BG_ECANCELED.
 * Thread safety: MT-Safe. Memory: 1.1 MB.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_replay(const char *path, bg_oplog_visit_fn visit,
                                            void *context, bg_oplog_report *report,
                                            bg_errinfo *info);

/*
 * Applies the records numbered `from` and above to a filter. `from` is the number up to
 * which the filter is complete: the position of its snapshot, or 0 for an empty filter.
 * report->next is set to the number up to which the filter is complete afterwards, which
 * is never below `from`. Adds keys as bg_filter_add_forced does.
 * Errors: those of bg_oplog_replay; BG_EINCOMPAT for the log of a different filter, or for
 * a log that starts after `from`; BG_ENOTSUP if the kind does not support an operation.
 * Thread safety: MT-Excl on the filter.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_apply(const char *path, uint64_t from,
                                           bg_filter *filter, bg_oplog_report *report,
                                           bg_errinfo *info);

/*
 * Opens a snapshot and applies its log. Pass report->next to bg_oplog_open as the
 * position.
 * Errors: those of bg_open, bg_oplog_position and bg_oplog_apply. On error *filter is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_recover(const char *snapshot, const char *path,
                                             const bg_open_options *options,
                                             bg_filter **filter,
                                             bg_oplog_report *report, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

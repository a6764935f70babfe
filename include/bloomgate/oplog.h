/*
 * oplog.h - the operation log: what happened to a filter since its last snapshot.
 *
 * A filter lives in memory, and saving it takes as long as it is large. A log takes 9
 * bytes per operation and is written at once, so a filter comes back after a crash as its
 * last snapshot and the operations that came after it:
 *
 *     bg_oplog_open("seen.log", filter, &how, &log, &report, &why);
 *     bg_oplog_change(log, filter, NULL, hashes, n, NULL, &why);  // adds: logged and done
 *     ...
 *     bg_oplog_snapshot(log, filter, "seen.bg", NULL, &why);
 *
 *     bg_oplog_recover("seen.bg", "seen.log", NULL, &filter, &report, &why);  // next time
 *
 * An operation is one byte and a number of 64 bits, mostly a key's hash. Operations are
 * numbered from 0, for ever: a snapshot says up to which number it is complete, and what
 * it has already is not replayed. So removes and counts come out right, too.
 *
 * Durability, by policy:
 *   always    an append returns when its records are on the disk (fdatasync). Threads that
 *             append while the disk is busy share the next sync.
 *   everysec  an append, or bg_oplog_tick, syncs when a second has passed since the last
 *             sync. A crash of the machine costs what came after it; a crash of the
 *             process costs nothing.
 *   no        the system writes when it likes. A crash of the process costs nothing.
 *
 * A frame, the records of one append, is replayed whole or not at all. One that was cut
 * short by a crash is noticed by its checksum, and nothing behind it is believed.
 *
 * Caveats
 *   - One process at a time has a log open.
 *   - A log keeps hashes, which tell whether somebody's key is in it: protect it as you
 *     would the keys.
 *   - The order of the log is the order of replaying. Where it matters (removes, clear,
 *     windows), threads that append by themselves must hold one lock over changing the
 *     filter and appending; bg_oplog_change does that.
 *   - The library starts no thread: under `everysec` call bg_oplog_tick when appends may
 *     cease.
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

/* Operations; what the number beside each is. The values are frozen. */
enum {
    BG_OPLOG_ADD = 1,    /* a hash */
    BG_OPLOG_REMOVE = 2, /* a hash */
    BG_OPLOG_ROTATE = 3, /* the time, as for bg_filter_rotate */
    BG_OPLOG_CLEAR = 4,  /* 0 */
    BG_OPLOG_MARK = 5    /* anything; filters pass over it */
};

/* When records go to the disk. */
typedef enum bg_oplog_policy {
    BG_OPLOG_SYNC_ALWAYS = 0,
    BG_OPLOG_SYNC_EVERYSEC = 1,
    BG_OPLOG_SYNC_NO = 2
} bg_oplog_policy;

#define BG_OPLOG_BATCH_MAX 65536 /* records of one append, at most */

typedef struct bg_oplog_options {
    uint32_t struct_size; /* sizeof(bg_oplog_options) */
    uint32_t policy;      /* a bg_oplog_policy */
    uint64_t position;   /* the number up to which the filter is complete: `next` of the
                            report that bg_oplog_apply or bg_oplog_recover gave; 0: new */
    uint64_t generation; /* of a log that is created: that of its snapshot, or 0 */
    uint64_t (*clock)(
        void *context); /* nanoseconds; NULL: the system's monotonic clock */
    void *context;
    const bg_allocator *allocator; /* NULL: the system's */
} bg_oplog_options;

#define BG_OPLOG_OPTIONS_INIT                                                          \
    {                                                                                  \
        sizeof(bg_oplog_options), 0, 0, 0, 0, 0, 0                                     \
    }

/* What was found in a log. */
typedef struct bg_oplog_report {
    uint32_t struct_size; /* sizeof(bg_oplog_report) */
    uint32_t kind;        /* of its filter: a bg_kind */
    uint64_t check;       /* bg_hasher_check of its filter's hasher */
    uint64_t generation;  /* of the snapshot that it follows */
    uint64_t first;       /* number of its first record */
    uint64_t next;        /* number after its last whole record */
    uint64_t records;     /* that were handed on: to the callback, to the filter */
    uint64_t frames;      /* whole ones in the file */
    uint64_t end;         /* offset behind the last of them */
    uint64_t dropped;     /* bytes from there to the end of the file: a torn tail */
    bg_err code;   /* why they were dropped: BG_OK if there are none, BG_EFORMAT if
                      a frame is incomplete, BG_ECHECKSUM if it is damaged */
    char what[32]; /* what is wrong with them: "frame", "checksum" ... */
    char found[64];
    char expected[96];
} bg_oplog_report;

/* What a log knows of itself. */
typedef struct bg_oplog_info {
    uint32_t struct_size; /* sizeof(bg_oplog_info) */
    uint32_t policy;
    uint64_t first;  /* number of the first record in the file */
    uint64_t next;   /* number of the next one to be appended */
    uint64_t synced; /* all below are on the disk */
    uint64_t bytes;  /* of the file */
    uint64_t syncs;  /* how often the disk was waited for since it was opened */
    bg_err failed;   /* BG_OK, or what every append returns */
} bg_oplog_info;

/* ---- Appending ------------------------------------------------------------------------- */

/*
 * Opens a log for appending, or creates it. It belongs to the filter's kind and hash
 * function; another filter's is refused. The end is found by reading all of it; what is
 * behind the last whole frame is cut off, and `report` (may be NULL) says how much and
 * why: to look before anything is cut, use bg_oplog_replay. The remaining records are
 * rewritten and synced, and the directory is synced.
 *
 * options->position is compared with the log: one that begins later lacks operations, and
 * is refused; one that ends before it has only what the filter has already, and is
 * replaced by an empty one that begins there. A log that has records at or after the
 * position is refused: the filter lacks these records, and its next snapshot would drop
 * them. Apply them (bg_oplog_apply with `from` = position), and open the log with
 * report->next. A process that waits for another process to close the log must do this
 * before it opens the log.
 * Errors: BG_EIO, with EWOULDBLOCK when somebody has it open; BG_EFORMAT, BG_EVERSION,
 * BG_ECHECKSUM for a damaged header or a record of a newer version; BG_EINCOMPAT for
 * another filter's log, or if operations are missing in the log or in the filter; BG_EINVAL;
 * BG_ENOMEM. On error the file is unchanged.
 * Thread safety: MT-Safe. Cost: reading and writing the file.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_open(const char *path, const bg_filter *filter,
                                          const bg_oplog_options *options,
                                          bg_oplog **log, bg_oplog_report *report,
                                          bg_errinfo *info);

/*
 * Closes a log; NULL is allowed. What is not synced is, unless the policy is `no`; an error
 * of that, or the one that the log failed with, is returned. It is closed all the same.
 * Thread safety: MT-Excl.
 */
BG_API bg_err bg_oplog_close(bg_oplog *log, bg_errinfo *info);

/*
 * Appends n records, 1 to BG_OPLOG_BATCH_MAX, as one frame: operation ops[i] (`ops` NULL: all
 * are adds) with hashes[i]. *first, unless NULL, becomes the number of the first. The
 * filter is not touched: change it before, and where order matters hold a lock over both.
 *
 * When writing fails nothing was appended; if the disk was full, the log can be used again
 * once there is room. When syncing fails, or anything else does, the log has failed: what
 * came after the last sync is cut off as far as the system lets us, and this and every
 * later call returns the same error. A sync is never tried again, since what it says then
 * is worth nothing. Close the log, recover, and open it again; or save the filter.
 * Errors: BG_EIO; BG_EINVAL.
 * Thread safety: MT-Safe. Cost: a write(); and by the policy a sync.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_append(bg_oplog *log, const uint8_t *ops,
                                            const uint64_t *hashes, size_t n,
                                            uint64_t *first, bg_errinfo *info);

/*
 * The same, and does to `filter` what the records say, in the order of the log whatever
 * other threads do: adds, removes, rotates, clears. When writing fails the filter is
 * unchanged. When syncing fails it has changed, but the change may not survive a crash.
 * Other changes of the filter must not happen, queries may (but not during a clear).
 * Errors: as bg_oplog_append; BG_ENOTSUP, with nothing done, for what the kind cannot do.
 * BG_EINCOMPAT when it is not the log of such a filter.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_change(bg_oplog *log, bg_filter *filter,
                                            const uint8_t *ops, const uint64_t *hashes,
                                            size_t n, uint64_t *first,
                                            bg_errinfo *info);

/* Returns when everything appended so far is on the disk. Errors, thread safety: as
 * bg_oplog_append. */
BG_API BG_MUST_CHECK bg_err bg_oplog_sync(bg_oplog *log, bg_errinfo *info);

/* Under `everysec`: syncs if a second has passed since the last sync and anything was
 * appended. Else nothing. Errors, thread safety: as bg_oplog_append. */
BG_API BG_MUST_CHECK bg_err bg_oplog_tick(bg_oplog *log, bg_errinfo *info);

/* Fills in `state`. Errors: BG_EINVAL. Thread safety: MT-Safe. */
BG_API BG_MUST_CHECK bg_err bg_oplog_get_info(bg_oplog *log, bg_oplog_info *state);

/* ---- Snapshots ------------------------------------------------------------------------- */

/*
 * Saves the filter to `snapshot`, as bg_save does, with the line "oplog: N" behind the
 * metadata of `options`: it has everything numbered below N. Then replaces the log by one
 * that begins with N. Whenever the machine stops, snapshot and log together have all that
 * was synced, and nothing twice.
 *
 * With bg_oplog_change other threads may go on meanwhile: only clears and rotations wait.
 * Who appends by himself must see to it that no operation is done and not appended, or
 * appended and not done, when this is called; if the kind only ever sets bits, it is
 * enough that everything appended is done.
 * Errors: those of bg_save and bg_oplog_append; BG_EINVAL for BG_FILE_NO_SYNC, and for
 * metadata with a line "oplog:" or no room for one. When the snapshot cannot be saved
 * nothing has changed. When the log cannot be replaced then it goes on as it was, unless
 * it was replaced already and only the folder could not be synced: then it has failed.
 * Thread safety: MT-Safe, as said. Cost: bg_save; a copy of the filter first, unless its
 * kind only ever sets bits.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_snapshot(bg_oplog *log, const bg_filter *filter,
                                              const char *snapshot,
                                              const bg_save_options *options,
                                              bg_errinfo *info);

/* The N of a snapshot. BG_EFORMAT when it has none. */
BG_API BG_MUST_CHECK bg_err bg_oplog_position(const char *snapshot, uint64_t *position,
                                              bg_errinfo *info);

/* ---- Replaying ------------------------------------------------------------------------- */

/* Is told the records of a frame, numbered from `first`; false ends it: BG_ECANCELED. */
typedef bool (*bg_oplog_visit_fn)(void *context, uint64_t first, const uint8_t *ops,
                                  const uint64_t *hashes, size_t n);

/*
 * Tells all records of a log, frame by frame, up to its end or to the first frame that is
 * incomplete or damaged; that is no error, `report` (may be NULL) says where and why. The
 * file is not changed. `visit` NULL: only the report.
 * Errors: BG_EFORMAT, BG_EVERSION, BG_ECHECKSUM for the header, or for a whole frame with
 * an operation that this version does not know; BG_EIO; BG_ENOMEM; BG_ECANCELED.
 * Thread safety: MT-Safe. Memory: 1.1 MB.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_replay(const char *path, bg_oplog_visit_fn visit,
                                            void *context, bg_oplog_report *report,
                                            bg_errinfo *info);

/*
 * Does to a filter what the records numbered `from` and above say. `from` is what the
 * filter has already: the position of its snapshot, 0 for an empty one. Afterwards
 * report->next is what it has; it is never below `from`.
 * Errors: as bg_oplog_replay; BG_EINCOMPAT for another filter's log, or one that begins
 * after `from`; BG_ENOTSUP for what the kind cannot do.
 * Thread safety: that of the changes.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_apply(const char *path, uint64_t from,
                                           bg_filter *filter, bg_oplog_report *report,
                                           bg_errinfo *info);

/*
 * Opens a snapshot and applies its log. Give report->next to bg_oplog_open as position.
 * Errors: those of bg_open, bg_oplog_position and bg_oplog_apply; *filter is NULL then.
 */
BG_API BG_MUST_CHECK bg_err bg_oplog_recover(const char *snapshot, const char *path,
                                             const bg_open_options *options,
                                             bg_filter **filter,
                                             bg_oplog_report *report, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

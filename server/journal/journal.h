/*
 * journal.h - the service's write-ahead journal, shared by all filters.
 *
 * Every change to an object is written as a record (journal/record.h). After a crash, each object
 * is restored from its last saved file (its base) and the records written after that file. The
 * caller decides whether to append a change before or after applying it. persist.c (P1) describes
 * the order and explains why it is safe.
 *
 *     journal_open(folder, &how, &journal, &why);             // locks the directory exclusively
 *     journal_replay(journal, visit, context, &report, &why); // may be repeated
 *     journal_begin(journal, NULL, &why);                     // allows appends
 *     journal_start(journal, tell, context, &why);            // starts the syncing thread
 *
 *     journal_append(journal, &record, 1, &sequence, &why);   // copies the frame into memory
 *     ... change the object, hold the reply until journal_durable(journal) >= sequence ...
 *
 * Frames. Each append creates one frame from its records. A frame is replayed completely or not
 * at all. Frames are numbered 1, 2, 3, ...; a number is never reused. Frames are replayed in
 * numerical order. Where the order matters, the caller must append and apply each change under the
 * same lock.
 *
 * Durability depends on the policy, which may change at any time:
 *   always    A frame is durable once it is on disk. The journal's thread syncs whenever frames
 *             have been appended. Frames appended during a sync share the next sync.
 *   everysec  A frame is durable once it has been written to the OS, so a process crash loses
 *             nothing. Frames are synced within a second. A machine crash loses the frames appended
 *             after the last sync.
 *   no        Like everysec, but the OS decides when to write to disk.
 * Under `everysec` and `no`, threads that have appended frames call journal_flush before they
 * reply. One write covers everything that all threads have appended.
 *
 * Segments. The journal is a series of files (segments). journal_rotate starts the next segment.
 * Once every object has a newer base, and a manifest (the list of all objects) is durable,
 * journal_remove_before deletes the old segments. A checkpoint of all objects consists of these
 * steps:
 *
 *     journal_rotate(journal, &first, &why);
 *     for each object: from = journal_next(journal), wait until recorded changes are applied,
 *         save it to a new file, append its BASE
 *     append MANIFEST_BEGIN, one entry per object, MANIFEST_END, while no object is created or
 *         dropped
 *     journal_sync, and then journal_remove_before(journal, the lowest `from`)
 *
 * Failures.
 *   - If space runs out (ENOSPC, EDQUOT, EFBIG), the frames stay in memory, appends fail with that
 *     error, and journal_flush (or the thread, once a second) retries. Once space is available,
 *     the journal continues normally.
 *   - If the directory, its lock file or the segment is no longer at its path, the journal has
 *     failed.
 *   - After any other write error, and after every sync error, the journal has failed. A sync is
 *     never retried on the same file, because the kernel may have marked pages as clean even though
 *     it could not write them. Every call returns the error until journal_reopen has started a
 *     fresh segment with a manifest of objects that were all saved after the failure.
 *
 * Torn tails and damage. A crash may leave an incomplete tail in the last segment. This tail was
 * never reported as synced, so it is truncated, and the truncation is reported. Each frame stores
 * the number of the last frame that was known to be on disk when the frame was written. A bad frame
 * that had been synced, a gap in the numbers, or a missing segment (even the newest one) is
 * therefore damage that no crash can cause. Lost adds would cause false "no" answers, so damage is
 * an error, and its message includes the location and the cause. If `beyond_damage` is set, the
 * damage is reported, the visitor receives a GAP record, and reading continues.
 *
 * Memory: up to 64 MiB for frames that have not been written yet; pages are touched only as needed.
 * Reading uses as much memory as the largest frame (at most 16 MiB) plus 1 MiB.
 */
#ifndef SERVER_JOURNAL_H
#define SERVER_JOURNAL_H

#include "journal/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;

enum journal_policy { JOURNAL_ALWAYS = 0, JOURNAL_EVERYSEC = 1, JOURNAL_NO = 2 };

/* Fields that are zero select the defaults. */
struct journal_options {
    enum journal_policy policy;
    bool beyond_damage;
    /* the directory has contained a journal, so missing segments are damage */
    bool existed;
    /* Size of the buffer for frames that have not been written yet, in bytes (default: 64 MiB).
     * The largest frame must fit in half of the buffer. */
    size_t buffer;
    uint64_t (*clock)(
        void *context); /* in nanoseconds; NULL selects the monotonic clock */
    void *clock_context;
};

/* The result of reading a journal. */
struct journal_report {
    uint64_t first; /* number of the first frame, even if it has not been written yet */
    uint64_t next;  /* number of the next frame to be appended */
    uint64_t frames;   /* number of complete frames passed to the visitor */
    uint64_t records;  /* number of records in these frames */
    uint64_t bytes;    /* size of these frames in bytes */
    uint64_t segments; /* number of segments read */
    uint64_t synced;   /* all frames up to this number are known to be synced */
    /* Frames below this number are not needed, according to a KEEP record. */
    uint64_t keep;
    bool clean;     /* the journal was closed in an orderly way */
    bool ends;      /* the newest segment, as recorded in journal.lock, exists */
    uint8_t id[16]; /* the directory's ID */
    /* The end of the last segment. */
    uint64_t tail_segment; /* segment number; 0 if there is no segment */
    uint64_t tail_settled; /* offset up to which the segment is known to be synced */
    uint64_t tail_end;     /* offset after the last complete frame */
    /* number of torn bytes from tail_end to the end of the file */
    uint64_t dropped;
    /* number of complete frames in the torn bytes; none of them was ever reported as synced */
    uint64_t behind;
    bg_errinfo torn; /* why the tail is torn; BG_OK if it is not */
    /* Damage that was found and skipped, if `beyond_damage` is set. */
    uint64_t damages;
    uint64_t lost;     /* number of missing frames */
    bg_errinfo damage; /* the first damage found */
};

/* Receives the records of complete frames, in order. Reading stops if the callback returns an
 * error. */
typedef bg_err journal_visit(void *context, uint64_t sequence,
                             const struct journal_record *record, bg_errinfo *info);

/* ---- Opening and reading ------------------------------------------------------------------- */

/*
 * Locks an existing directory for this process and lists its segments. Does not read or write any
 * data. `options` may be NULL. Errors: BG_EBUSY if another process holds the lock; BG_EIO;
 * BG_EINVAL; BG_ENOMEM. On error, *journal is NULL.
 */
bg_err journal_open(const char *folder, const struct journal_options *options,
                    struct journal **journal, bg_errinfo *info);

/*
 * Reads all frames, starting with the first one that may be needed. May be called only before
 * journal_begin. Changes nothing. `visit` and `report` may be NULL. Errors: BG_ECHECKSUM and
 * BG_EFORMAT for damage; BG_EVERSION for data written by a newer version; BG_EIO; BG_ENOMEM; any
 * error returned by `visit`. The error message includes the file name and the offset.
 */
bg_err journal_replay(struct journal *journal, journal_visit *visit, void *context,
                      struct journal_report *report, bg_errinfo *info);

/*
 * Prepares the journal for appends: truncates a torn tail, ensures that the existing frames are on
 * disk, and starts a new segment. Reads the whole journal unless it has already been read. Errors:
 * the same as for journal_replay. On error, nothing is changed.
 */
bg_err journal_begin(struct journal *journal, struct journal_report *report,
                     bg_errinfo *info);

/* Stops the thread, writes and syncs all pending frames under any policy, and releases the
 * directory. NULL is allowed. If the journal has failed, returns the error that caused the failure.
 * The journal is closed even on error. Thread safety: no other thread may be using the journal. */
bg_err journal_close(struct journal *journal, bg_errinfo *info);

/* ---- Appending. These functions are thread-safe. ----------------------------------------- */

/*
 * Appends a frame of n records; n must be at least 1. *sequence, unless NULL, is set to the frame's
 * number. The frame is copied to a buffer, not written. If the buffer is full, pending frames are
 * written first. On error, nothing is appended. Errors: BG_EINVAL and BG_EQUOTA if the records
 * cannot be encoded; BG_EIO if the journal is full or has failed; BG_ENOMEM.
 */
bg_err journal_append(struct journal *journal, const struct journal_record *records,
                      size_t n, uint64_t *sequence, bg_errinfo *info);

/* Returns once everything that was appended before the call has been written to the OS. Errors:
 * BG_EIO. */
bg_err journal_flush(struct journal *journal, bg_errinfo *info);

/* Returns once everything that was appended before the call is on disk. Errors: BG_EIO. */
bg_err journal_sync(struct journal *journal, bg_errinfo *info);

/* Checks that the journal is still at the path where it was opened. If its directory has been
 * removed or replaced, the journal fails, and journal_reopen succeeds only after the directory has
 * been restored. If the segment has been removed, the journal also fails, and journal_reopen starts
 * a new segment. The same check is made each time before the durable frame number advances; this
 * function covers periods without appends. Errors: BG_EIO. Cost: two calls each to stat and
 * fstat. */
bg_err journal_check(struct journal *journal, bg_errinfo *info);

/* Returns the number that the next frame will get. All frames with lower numbers have been
 * appended. */
uint64_t journal_next(const struct journal *journal);

/* Returns the highest number N such that all frames up to N are as durable as the policy requires.
 * This number decreases only when the policy is changed to `always`. Cost: one load. */
uint64_t journal_durable(const struct journal *journal);

void journal_set_policy(struct journal *journal, enum journal_policy policy);

/* Returns whether the policy is `always`, under which the thread syncs every frame. */
bool journal_syncs(const struct journal *journal);

/* ---- The thread -------------------------------------------------------------------------- */

/* Called by the journal's thread when the journal becomes full, fails or recovers (code BG_OK), and
 * when `durable` has advanced. Under policies other than `always`, an advance caused by another
 * thread may be reported up to a second later. The callback must not wait for the journal. */
typedef void journal_tell(void *context, uint64_t durable, const bg_errinfo *failure);

/* Starts the thread. Each journal can have only one such thread. `tell` may be NULL. Errors:
 * BG_EINVAL, BG_EIO. */
bg_err journal_start(struct journal *journal, journal_tell *tell, void *context,
                     bg_errinfo *info);

/* Stops the thread and waits for it to exit. No frames are lost, because journal_close writes
 * pending frames. */
void journal_stop(struct journal *journal);

/* ---- Segments ---------------------------------------------------------------------------- */

/*
 * Syncs all appended frames and starts the next segment. *first, unless NULL, is set to the number
 * of the next segment's first frame. Other threads may append during the call. Errors: BG_EIO,
 * after which the journal continues with the old segment unless it has failed.
 */
bg_err journal_rotate(struct journal *journal, uint64_t *first, bg_errinfo *info);

/*
 * Deletes segments whose frames are all numbered below `sequence`. Before that, records `sequence`
 * in the journal and syncs, which ensures that a manifest appended earlier is on disk as well.
 * *removed, unless NULL, is set to the number of deleted segments. Errors: BG_EIO, in which case
 * some of the segments may remain.
 */
bg_err journal_remove_before(struct journal *journal, uint64_t sequence,
                             uint64_t *removed, bg_errinfo *info);

/* A fresh segment being written. */
struct journal_draft;

/* Callback that writes the initial content of a fresh segment, a manifest, by calling
 * journal_draft_append. */
typedef bg_err journal_fill(void *context, struct journal_draft *draft,
                            bg_errinfo *info);

/*
 * Restarts a journal that has failed: creates a fresh segment from the records that `fill`
 * appends, and continues with that segment. All objects must have been saved after the failure,
 * with all changes that were recorded before it. The `from` of their bases must be
 * journal_next(journal). Older segments are deleted. If the service restarts before the call has
 * returned BG_OK, it finds the old segments. If it restarts later, it finds the fresh segment.
 * After the call, frames that were appended but never written count as durable, because the bases
 * contain them. Errors: BG_EINVAL if the journal has not failed; BG_EIO; any error returned by
 * `fill`. On error, the journal remains failed.
 */
bg_err journal_reopen(struct journal *journal, journal_fill *fill, void *context,
                      bg_errinfo *info);

/* Like journal_append. May be called only by the thread that runs `fill`. */
bg_err journal_draft_append(struct journal_draft *draft,
                            const struct journal_record *records, size_t n,
                            bg_errinfo *info);

/* ---- Statistics -------------------------------------------------------------------------- */

struct journal_state {
    enum journal_policy policy;
    /* Numbers of the next frame, the last frame written and the last frame synced. */
    uint64_t next, written, synced;
    /* The counters from `appends` to `slowest_sync` start at 0 when the journal is opened. */
    uint64_t appends;
    uint64_t writes, written_bytes;
    uint64_t syncs, sync_nanoseconds, slowest_sync;
    uint64_t waiting;              /* number of bytes not yet written */
    uint64_t segments;             /* number of files */
    uint64_t segment;              /* number of the last segment */
    uint64_t segment_bytes, bytes; /* sizes of the last segment and of all segments */
    /* Failed permanently. If `failed` is false, an error code in `failure` means that the disk is
     * full. */
    bool failed;
    bg_errinfo failure;
};

void journal_about(struct journal *journal, struct journal_state *state);

#endif

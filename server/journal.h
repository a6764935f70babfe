/*
 * journal.h - the write-ahead journal of the service: one for all filters.
 *
 * What happens to any object is a record (journal_record.h), appended before it is done. After a
 * crash the objects come back as their last files (bases) and the records that followed.
 *
 *     journal_open(folder, &how, &journal, &why);             // alone: the folder is locked
 *     journal_replay(journal, visit, context, &report, &why); // as often as you like
 *     journal_begin(journal, NULL, &why);                     // from here on it is appended to
 *     journal_start(journal, tell, context, &why);            // a thread that syncs
 *
 *     journal_append(journal, &record, 1, &sequence, &why);   // copies; nothing is written
 *     ... change the object, hold the reply until journal_durable(journal) >= sequence ...
 *
 * Frames. An append makes one frame of its records, which is replayed whole or not at all.
 * Frames are numbered 1, 2, 3 ... for ever; a number is never used twice. The order of numbers
 * is the order of replaying: where it matters, hold a lock over appending and doing.
 *
 * Durability, by policy, which may be changed at any time:
 *   always    a frame is durable when it is on the disk. The journal's thread syncs whenever
 *             something was appended; what comes meanwhile shares the next sync.
 *   everysec  a frame is durable when it is with the system: a crash of the process costs
 *             nothing. It is synced within a second; a crash of the machine costs what came
 *             after the last sync.
 *   no        the same, and the system writes when it likes.
 * Under the last two the threads that append call journal_flush before they reply: one write
 * for all that was appended by anybody.
 *
 * Segments. The journal is a series of files. journal_rotate begins the next one; when all
 * objects have bases that are newer, and a manifest (all objects that there are) is durable,
 * journal_remove_before deletes the old ones. A checkpoint of all objects is:
 *
 *     journal_rotate(journal, &first, &why);
 *     for each object: from = journal_next(journal), wait until what was recorded is done,
 *         save it to a new file, append its BASE
 *     append MANIFEST_BEGIN, an entry each, MANIFEST_END, while no object comes or goes
 *     journal_sync, and then journal_remove_before(journal, the lowest `from`)
 *
 * Failures.
 *   - No room (ENOSPC, EDQUOT, EFBIG): the frames stay in memory, appends are refused with that
 *     error, and journal_flush, or the thread once a second, tries again. When there is room it
 *     goes on as if nothing had been.
 *   - The directory, its lock file or the segment is no longer at its path: the journal has failed.
 *   - Any other error of a write, and every error of a sync: the journal has failed. A sync is
 *     never tried again on the same file, since the system may have marked pages clean that it
 *     could not write. Every call returns that error, until journal_reopen has begun a fresh
 *     segment with a manifest of objects that were all saved since.
 *
 * Torn tails and damage. What is not whole at the end of the last segment, and was never said to
 * be synced, is what a crash leaves: it is cut off and reported. Each frame says up to which
 * frame the disk had everything when it was written; so a bad frame that was synced, a gap in the numbers and a
 * missing segment, even the newest one, are damage that no crash causes. Lost adds would become
 * false "no"s, so damage is an error that says where and what, unless `beyond_damage` is set:
 * then it is reported, the visitor is told of the GAP, and reading goes on.
 *
 * Memory: 64 MiB for frames that are not written yet, touched as needed; reading takes the
 * largest frame (16 MiB at most) and a megabyte.
 */
#ifndef SERVER_JOURNAL_H
#define SERVER_JOURNAL_H

#include "journal_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;

enum journal_policy { JOURNAL_ALWAYS = 0, JOURNAL_EVERYSEC = 1, JOURNAL_NO = 2 };

/* Zero means: the usual. */
struct journal_options {
    enum journal_policy policy;
    bool beyond_damage;
    bool existed; /* the directory had a journal before: having no segment is damage */
    size_t
        buffer; /* bytes of frames that are not written yet; 64 MiB. Half of it must hold
                   the largest frame. */
    uint64_t (*clock)(void *context); /* nanoseconds; NULL: the monotonic clock */
    void *clock_context;
};

/* What was found. */
struct journal_report {
    uint64_t first;    /* number of the first frame that there is, or will be */
    uint64_t next;     /* number behind the last one */
    uint64_t frames;   /* whole ones, handed on */
    uint64_t records;  /* in them */
    uint64_t bytes;    /* of them */
    uint64_t segments; /* that were read */
    uint64_t synced;   /* all frames up to this one were synced, for all we know */
    uint64_t keep;     /* frames below are not needed, as the journal itself says */
    bool clean;        /* it was closed in order */
    bool ends;         /* the newest segment, as recorded in journal.lock, exists */
    uint8_t id[16];    /* the folder's */
    /* The end of the last segment. */
    uint64_t tail_segment; /* its number, 0: there is none */
    uint64_t tail_settled; /* up to this offset it was synced, for all we know */
    uint64_t tail_end;     /* offset behind the last whole frame */
    uint64_t dropped;      /* bytes from there to the end: torn */
    uint64_t behind; /* whole frames among them, which nobody can have relied on */
    bg_errinfo torn; /* why; code BG_OK: nothing is torn */
    /* Damage, if one goes beyond it. */
    uint64_t damages;
    uint64_t lost;     /* numbers of frames that are missing */
    bg_errinfo damage; /* the first */
};

/* Is told the records of whole frames, in order. An error ends the reading. */
typedef bg_err journal_visit(void *context, uint64_t sequence,
                             const struct journal_record *record, bg_errinfo *info);

/* ---- Opening, reading -------------------------------------------------------------------- */

/*
 * Takes a folder, which must exist, for this process alone, and finds its segments. Nothing is
 * read or written yet. `options` may be NULL.
 * Errors: BG_EBUSY: another process has it; BG_EIO; BG_EINVAL; BG_ENOMEM. *journal is NULL then.
 */
bg_err journal_open(const char *folder, const struct journal_options *options,
                    struct journal **journal, bg_errinfo *info);

/*
 * Reads all frames, from the first that may be needed to the end; before journal_begin only.
 * Changes nothing. `visit` and `report` may be NULL.
 * Errors: BG_ECHECKSUM and BG_EFORMAT for damage, BG_EVERSION for what a newer version wrote;
 * BG_EIO; BG_ENOMEM; what `visit` returned. The message has the file and the offset.
 */
bg_err journal_replay(struct journal *journal, journal_visit *visit, void *context,
                      struct journal_report *report, bg_errinfo *info);

/* The same for a folder that is not opened, and by nobody else, either. */
bg_err journal_read(const char *folder, bool beyond_damage, journal_visit *visit,
                    void *context, struct journal_report *report, bg_errinfo *info);

/*
 * Makes the journal ready to be appended to: cuts a torn tail off, makes sure that what was found
 * is on the disk, and begins a new segment. Reads all of it unless it was read already.
 * Errors: as journal_replay, with nothing changed.
 */
bg_err journal_begin(struct journal *journal, struct journal_report *report,
                     bg_errinfo *info);

/* Stops the thread, writes and syncs what there is, whatever the policy, and lets go of the
 * folder; NULL is allowed. Returns the error that the journal failed with; it is closed all the
 * same. Thread safety: nobody else may use it any more. */
bg_err journal_close(struct journal *journal, bg_errinfo *info);

/* ---- Appending. All of these may be called by any thread at any time. ---------------------- */

/*
 * Appends a frame of n records, 1 or more; *sequence, unless NULL, becomes its number. It is
 * copied, not written; if there is no room in memory, what is there is written first.
 * Errors, with nothing appended: BG_EINVAL, BG_ELIMIT for what cannot be written; BG_EIO, the
 * journal is full or has failed; BG_ENOMEM.
 */
bg_err journal_append(struct journal *journal, const struct journal_record *records,
                      size_t n, uint64_t *sequence, bg_errinfo *info);

/* Returns when all that was appended before is with the system. Errors: BG_EIO. */
bg_err journal_flush(struct journal *journal, bg_errinfo *info);

/* ... is on the disk. Errors: BG_EIO. */
bg_err journal_sync(struct journal *journal, bg_errinfo *info);

/* What the thread does once a second: flushes; and under `everysec` syncs if a second has passed
 * since the last sync. */
bg_err journal_tick(struct journal *journal, bg_errinfo *info);

/* Checks that the journal is still where it was opened. If its directory was removed or replaced, the journal
 * has failed until the directory is put back; then journal_reopen succeeds. A removed segment fails the journal
 * as well; journal_reopen begins another one. The same check is done before
 * each frame counts as durable; this function is for times without appends. Errors: BG_EIO.
 * Cost: two calls of stat. */
bg_err journal_check(struct journal *journal, bg_errinfo *info);

/* The number that the next frame will get; all frames below it are appended. */
uint64_t journal_next(const struct journal *journal);

/* All frames up to this number are as safe as the policy asks for. Goes back only when the
 * policy becomes `always`. Cost: a load. */
uint64_t journal_durable(const struct journal *journal);

void journal_set_policy(struct journal *journal, enum journal_policy policy);

/* Returns whether the policy is `always`: the thread syncs every frame. */
bool journal_syncs(const struct journal *journal);

/* ---- The thread -------------------------------------------------------------------------- */

/* Is told, by the journal's thread, that `durable` has advanced (under `always`; else only when
 * the thread itself brought it about), or that the journal is full, has failed or works again:
 * code BG_OK. It must not wait for the journal. */
typedef void journal_tell(void *context, uint64_t durable, const bg_errinfo *failure);

/* Starts the thread; one at a time. `tell` may be NULL. Errors: BG_EINVAL, BG_EIO. */
bg_err journal_start(struct journal *journal, journal_tell *tell, void *context,
                     bg_errinfo *info);

/* Ends it, and waits for that. Nothing is lost, journal_close writes what is left. */
void journal_stop(struct journal *journal);

/* ---- Segments ---------------------------------------------------------------------------- */

/*
 * Syncs what there is and begins the next segment; *first, unless NULL, is the number of its
 * first frame. Others may append meanwhile.
 * Errors: BG_EIO; the journal then goes on with the old segment, unless it has failed.
 */
bg_err journal_rotate(struct journal *journal, uint64_t *first, bg_errinfo *info);

/*
 * Deletes segments of which no frame is numbered `sequence` or above. First records that, and
 * syncs; so a manifest that was appended before is on the disk as well. *removed, unless NULL,
 * is how many. Errors: BG_EIO, some may be left.
 */
bg_err journal_remove_before(struct journal *journal, uint64_t sequence,
                             uint64_t *removed, bg_errinfo *info);

/* A fresh segment on its way. */
struct journal_draft;

/* Writes, by journal_draft_append, all that is needed to begin with: a manifest. */
typedef bg_err journal_fill(void *context, struct journal_draft *draft,
                            bg_errinfo *info);

/*
 * For a journal that has failed: makes a fresh segment of what `fill` appends, and goes on with
 * it. All objects must have been saved since the failure, with what was recorded before it done;
 * their bases are from journal_next(journal). Older segments are deleted. Until it returns BG_OK
 * the old segments are what will be found, then the fresh one is, and frames that were appended
 * and never written count as durable: they are in the bases.
 * Errors: BG_EINVAL: it has not failed; BG_EIO; those of `fill`. It stays failed then.
 */
bg_err journal_reopen(struct journal *journal, journal_fill *fill, void *context,
                      bg_errinfo *info);

/* As journal_append; for the thread that was called. */
bg_err journal_draft_append(struct journal_draft *draft,
                            const struct journal_record *records, size_t n,
                            bg_errinfo *info);

/* ---- Figures ----------------------------------------------------------------------------- */

struct journal_state {
    enum journal_policy policy;
    uint64_t next, written, synced; /* as above; the last two: frames up to it are */
    uint64_t appends;               /* since it was opened, as are these: */
    uint64_t writes, written_bytes;
    uint64_t syncs, sync_nanoseconds, slowest_sync;
    uint64_t waiting;              /* bytes that are not written */
    uint64_t segments;             /* files there are */
    uint64_t segment;              /* number of the last one */
    uint64_t segment_bytes, bytes; /* of it, of all */
    bool failed;                   /* for good; else, with a code below: full */
    bg_errinfo failure;
};

void journal_about(struct journal *journal, struct journal_state *state);

#endif

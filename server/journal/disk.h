/*
 * journal/disk.h - the journal's files: names, the directory lock, complete writes and new
 * segments.
 *
 *     journal.lock                          locked (flock) while a process has the journal open.
 *                                           Holds a copy of the newest segment's header and,
 *                                           after an orderly stop, the end of the journal
 *     journal-00000000000000000017.log      segment 17
 *     journal-00000000000000000018.log.tmp  being created; ignored until it is renamed
 */
#ifndef SERVER_JOURNAL_DISK_H
#define SERVER_JOURNAL_DISK_H

#include "journal/read.h"
#include "journal/record.h"

enum { JOURNAL_DISK_PATH = 4096, JOURNAL_DISK_NAME = 48 };

struct journal_segment {
    uint64_t number;
    uint64_t first; /* number of the first frame; 0 if not known yet */
    uint64_t bytes;
};

/* The segments in a directory, sorted by number. */
struct journal_disk {
    char folder[JOURNAL_DISK_PATH - JOURNAL_DISK_NAME];
    struct journal_segment *segments;
    size_t count, room;
    int lock; /* descriptor of the locked file journal.lock; -1 if it is not locked */
    /* Header of the newest segment, as recorded in journal.lock. Its number is 0 if unknown. */
    struct journal_header newest;
    uint64_t end; /* number of the MARK written by an orderly stop; 0 if unknown */
};

#define JOURNAL_DISK_INIT                                                              \
    {                                                                                  \
        .lock = -1                                                                     \
    }

/* Sets the directory, lists its segments, and reads from journal.lock which segment was the newest.
 * Errors: BG_EIO, BG_EINVAL, BG_ENOMEM. */
bg_err journal_disk_list(struct journal_disk *disk, const char *folder,
                         bg_errinfo *info);

/* Reserve space for one more segment, append a segment, and remove the first segment. */
bg_err journal_disk_reserve(struct journal_disk *disk, bg_errinfo *info);
void journal_disk_push(struct journal_disk *disk, struct journal_segment segment);
void journal_disk_pop(struct journal_disk *disk);

/* Reads the headers of all segments, and fills in `first` and `bytes`. A segment with an invalid
 * header is treated as if it started with the same frame as the next segment. */
bg_err journal_disk_learn(struct journal_disk *disk, bg_errinfo *info);

void journal_disk_free(struct journal_disk *disk);

/* Locks the directory until journal_disk_free is called. Errors: BG_EBUSY if another process has
 * locked the directory. */
bg_err journal_disk_lock(struct journal_disk *disk, bg_errinfo *info);

/* Checks that the directory at the path is still the locked directory. If the locked directory was
 * removed or replaced, the directory at the path may belong to another process, and nothing must be
 * written there. Errors: BG_EIO. */
bg_err journal_disk_check(const struct journal_disk *disk, bg_errinfo *info);

/* Like journal_disk_check, but also checks that an open segment is at its path. */
bg_err journal_disk_check_file(const struct journal_disk *disk, int file,
                               const char *path, bg_errinfo *info);

/* Returns the segments in the form that journal_walk needs. */
struct journal_shelf journal_disk_shelf(struct journal_disk *disk);

/* Writes all n bytes, or returns an error. Takes an offset so that a failed write can be retried. */
bg_err journal_disk_write(int file, uint64_t offset, const void *from, size_t n,
                          const char *path, bg_errinfo *info);
bg_err journal_disk_sync(int file, const char *path, bg_errinfo *info);

/* A segment created under a temporary name. Call journal_disk_begin, write the frames, and then
 * call journal_disk_place or journal_disk_discard. */
struct journal_draft_file {
    int file;
    char path[JOURNAL_DISK_PATH]; /* final path */
    char made[JOURNAL_DISK_PATH];
    /* The segment has its final name. If journal_disk_place fails after setting this flag, the only
     * step that failed is syncing the directory. */
    bool placed;
};

bg_err journal_disk_begin(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info);

/* Syncs a segment, renames it to its final name, syncs the directory, and records the segment as
 * the newest. On error, the segment is closed, and it is deleted unless it already had its final
 * name. */
bg_err journal_disk_place(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info);
void journal_disk_discard(struct journal_draft_file *draft);

/* Records in journal.lock that all frames before `end` are durable. `header` is the header of the
 * newest segment. */
void journal_disk_record_end(const struct journal_disk *disk,
                             const struct journal_header *header, uint64_t end);

/* Deletes a segment's file and syncs the directory. The caller deletes segments oldest first, so
 * there is no gap between the remaining segments even if the machine crashes. */
bg_err journal_disk_remove(const struct journal_disk *disk, uint64_t number,
                           bg_errinfo *info);

/* Deletes temporary segments left by a crashed process. */
void journal_disk_sweep(const struct journal_disk *disk);

/* Ensures that the last segment ends at `end` and is entirely on disk: truncates it at `end` if
 * `cut` is set, then rewrites and syncs the bytes from `settled` to `end`. */
bg_err journal_disk_settle(const struct journal_disk *disk, uint64_t settled,
                           uint64_t end, bool cut, bg_errinfo *info);

#endif

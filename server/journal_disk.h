/*
 * journal_disk.h - the journal's files: names, the folder's lock, whole writes, new segments.
 *
 *     journal.lock                          locked (flock) while a process has the journal open. It
 *                                           has a copy of the newest segment's header and,
 *                                           after an orderly stop, where the journal ends
 *     journal-00000000000000000017.log      segment 17
 *     journal-00000000000000000018.log.tmp  on its way; nothing yet
 */
#ifndef SERVER_JOURNAL_DISK_H
#define SERVER_JOURNAL_DISK_H

#include "journal_frame.h"
#include "journal_read.h"

enum { JOURNAL_DISK_PATH = 4096, JOURNAL_DISK_NAME = 48 };

struct journal_segment {
    uint64_t number;
    uint64_t first; /* frame; 0: not known yet */
    uint64_t bytes;
};

/* The segments of a folder, by number. */
struct journal_disk {
    char folder[JOURNAL_DISK_PATH - JOURNAL_DISK_NAME];
    struct journal_segment *segments;
    size_t count, room;
    int lock; /* journal.lock, locked; -1: not */
    struct journal_header
        newest;   /* newest segment recorded in journal.lock; number 0: unknown */
    uint64_t end; /* number of the MARK of an orderly stop; 0: unknown */
};

#define JOURNAL_DISK_INIT                                                              \
    {                                                                                  \
        .lock = -1                                                                     \
    }

/* Sets the directory, lists its segments, and reads which one was the newest. Errors: BG_EIO, BG_EINVAL,
 * BG_ENOMEM. */
bg_err journal_disk_list(struct journal_disk *disk, const char *folder,
                         bg_errinfo *info);

/* Room for one more; one more; and the first one goes. */
bg_err journal_disk_reserve(struct journal_disk *disk, bg_errinfo *info);
void journal_disk_push(struct journal_disk *disk, struct journal_segment segment);
void journal_disk_pop(struct journal_disk *disk);

/* Fills in `first` and `bytes` of all, from their headers. A header that cannot be believed is
 * passed over: the segment then counts as beginning where the next one does. */
bg_err journal_disk_learn(struct journal_disk *disk, bg_errinfo *info);

void journal_disk_free(struct journal_disk *disk);

/* Locks the directory until journal_disk_free. Errors: BG_EBUSY if another process has locked it. */
bg_err journal_disk_lock(struct journal_disk *disk, bg_errinfo *info);

/* Checks that the locked directory is still the one at its path. If it was removed or replaced, the directory
 * at the path may belong to another process, and nothing must be written there. Errors: BG_EIO. */
bg_err journal_disk_check(const struct journal_disk *disk, bg_errinfo *info);

/* The same, and also checks that an open segment is at its path. */
bg_err journal_disk_check_file(const struct journal_disk *disk, int file,
                               const char *path, bg_errinfo *info);

void journal_disk_path(const struct journal_disk *disk, uint64_t number,
                       char path[JOURNAL_DISK_PATH]);

/* For journal_walk. */
struct journal_shelf journal_disk_shelf(struct journal_disk *disk);

/* All of it, or an error; offsets, so that what failed can be written again. */
bg_err journal_disk_write(int file, uint64_t offset, const void *from, size_t n,
                          const char *path, bg_errinfo *info);
bg_err journal_disk_read(int file, uint64_t offset, void *to, size_t n,
                         const char *path, bg_errinfo *info);
bg_err journal_disk_sync(int file, const char *path, bg_errinfo *info);

/* A segment that is made beside its name: _begin, writes, and _place or _discard. */
struct journal_draft_file {
    int file;
    char path[JOURNAL_DISK_PATH]; /* its final one */
    char made[JOURNAL_DISK_PATH];
    bool
        placed; /* it has its name; if _place failed then, only the folder was not synced */
};

bg_err journal_disk_begin(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info);

/* Syncs a segment, gives it its name, syncs the directory, and records it as the newest. On error the segment
 * is closed and, unless it already had its name, deleted. */
bg_err journal_disk_place(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info);
void journal_disk_discard(struct journal_draft_file *draft);

/* Records in journal.lock that all frames before `end` are durable. The newest segment is that of `header`. */
void journal_disk_record_end(const struct journal_disk *disk,
                             const struct journal_header *header, uint64_t end);

/* Removes a segment's file, and syncs the folder. Oldest first: then those that are left have
 * no gap, whenever the machine stops. */
bg_err journal_disk_remove(const struct journal_disk *disk, uint64_t number,
                           bg_errinfo *info);

/* Removes what was on its way when somebody died. */
void journal_disk_sweep(const struct journal_disk *disk);

/* The last segment ends at `end`, and all of it is on the disk: what is behind is cut off if `cut`, what
 * is between `settled` and `end` is written again, and synced. */
bg_err journal_disk_settle(const struct journal_disk *disk, uint64_t settled,
                           uint64_t end, bool cut, bg_errinfo *info);

#endif

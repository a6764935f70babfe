/*
 * journal/disk.c - the journal's files.
 *
 * A segment is renamed to its final name after its header is on disk, and then the directory is
 * synced. An existing segment therefore has a header, unless it is damaged. Segments are deleted
 * oldest first, and the directory is synced after each deletion, so no crash leaves a gap.
 *
 * Settling. Frames after the last frame known to be synced may exist only in the page cache. If a
 * sync failed before the process died, the kernel may have marked pages as clean even though it
 * could not write them. Such frames would be readable now but missing after the next boot.
 * Therefore, these frames are rewritten with the same bytes before anything relies on them.
 *
 * The newest segment. If the newest segment were missing, the rest of the journal would look
 * complete. Therefore, journal.lock contains a copy of that segment's header, which is written and
 * synced after the segment gets its final name and before any of its frames becomes durable. After
 * a crash between these steps, or if the copy cannot be written, journal.lock contains an older
 * header. An older header is not an error, but it means that some damage cannot be detected. An
 * unreadable copy is ignored. So is a missing copy, because version 0.1 did not write one.
 *
 * The end. An orderly stop writes a second header to journal.lock after that copy. Instead of the
 * number of the segment's first frame, the second header contains the number of the MARK, the frame
 * that records the orderly stop. Frames below the MARK are durable, so if one is missing, a crash
 * did not cause the loss. The second header counts only if it describes the same segment as the
 * first.
 */
#include "journal/disk.h"

#include "journal/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char disk_prefix[] = "journal-", disk_suffix[] = ".log";

enum { DISK_DIGITS = 20, DISK_COPY = 1 << 16 };

/* ---- Names ------------------------------------------------------------------------------- */

static void disk_path(const struct journal_disk *disk, uint64_t number,
                      char path[JOURNAL_DISK_PATH])
{
    (void)snprintf(path, JOURNAL_DISK_PATH, "%s/%s%020" PRIu64 "%s", disk->folder,
                   disk_prefix, number, disk_suffix);
}

/* Returns the number in a segment's name, or 0 for any other name. *rest points to the text after
 * ".log". */
static uint64_t disk_number(const char *name, const char **rest)
{
    uint64_t number = 0;
    if (strncmp(name, disk_prefix, sizeof disk_prefix - 1) != 0) {
        return 0;
    }
    name += sizeof disk_prefix - 1;
    for (int i = 0; i < DISK_DIGITS; i++) {
        unsigned digit = (unsigned)name[i] - '0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) {
            return 0;
        }
        number = 10 * number + digit;
    }
    name += DISK_DIGITS;
    if (strncmp(name, disk_suffix, sizeof disk_suffix - 1) != 0) {
        return 0;
    }
    *rest = name + sizeof disk_suffix - 1;
    return number;
}

/* Returns the next name in a directory, or NULL after the last name. errno is 0 unless reading
 * failed. */
static const char *disk_next_name(DIR *entries)
{
    errno = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread reads this stream */
    const struct dirent *entry = readdir(entries);
    return entry ? entry->d_name : NULL;
}

static int disk_compare(const void *a, const void *b)
{
    const struct journal_segment *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

bg_err journal_disk_reserve(struct journal_disk *disk, bg_errinfo *info)
{
    if (disk->count == disk->room) {
        size_t room = disk->room ? 2 * disk->room : 16;
        void *segments = realloc(disk->segments, room * sizeof *disk->segments);
        if (!segments) {
            return journal_error_why(info, BG_ENOMEM, "memory",
                                     "cannot allocate a list of %zu segments", room);
        }
        disk->segments = segments;
        disk->room = room;
    }
    return BG_OK;
}

void journal_disk_push(struct journal_disk *disk, struct journal_segment segment)
{
    disk->segments[disk->count++] = segment;
}

void journal_disk_pop(struct journal_disk *disk)
{
    disk->count--;
    memmove(disk->segments, disk->segments + 1, disk->count * sizeof *disk->segments);
}

static void disk_lock_path(const struct journal_disk *disk,
                           char path[JOURNAL_DISK_PATH])
{
    (void)snprintf(path, JOURNAL_DISK_PATH, "%s/journal.lock", disk->folder);
}

/* Reads one of the two headers in journal.lock. */
static bool disk_read_header(int file, off_t at, struct journal_header *header)
{
    unsigned char bytes[JOURNAL_HEADER];
    return pread(file, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes
           && !journal_header_read(bytes, header, NULL);
}

static void disk_read_newest(struct journal_disk *disk)
{
    char path[JOURNAL_DISK_PATH];
    struct journal_header end;
    disk->newest = (struct journal_header){ .number = 0 };
    disk->end = 0;
    disk_lock_path(disk, path);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    if (!disk_read_header(file, 0, &disk->newest)) {
        disk->newest.number = 0;
    } else if (disk_read_header(file, JOURNAL_HEADER, &end)
               && end.number == disk->newest.number
               && memcmp(end.id, disk->newest.id, JOURNAL_ID) == 0) {
        disk->end = end.first;
    }
    (void)close(file);
}

static void disk_write_header(const struct journal_disk *disk, uint64_t at,
                              const struct journal_header *header)
{
    unsigned char bytes[JOURNAL_HEADER];
    char path[JOURNAL_DISK_PATH];
    disk_lock_path(disk, path);
    journal_header_write(header, bytes);
    if (!journal_disk_write(disk->lock, at, bytes, sizeof bytes, path, NULL)) {
        (void)journal_disk_sync(disk->lock, path, NULL);
    }
}

void journal_disk_record_end(const struct journal_disk *disk,
                             const struct journal_header *header, uint64_t end)
{
    struct journal_header last = *header;
    last.first = end;
    disk_write_header(disk, JOURNAL_HEADER, &last);
}

bg_err journal_disk_list(struct journal_disk *disk, const char *folder,
                         bg_errinfo *info)
{
    const char *rest;
    if (!folder || !*folder || strlen(folder) >= sizeof disk->folder) {
        return journal_error(info, BG_EINVAL, "data directory",
                             "a path of 1 to 4047 bytes", "%s",
                             folder ? "a path that is empty or too long" : "no path");
    }
    memcpy(disk->folder, folder, strlen(folder) + 1);
    disk->count = 0;
    DIR *entries = opendir(folder);
    if (!entries) {
        return journal_error_system(info, "opendir", folder);
    }
    bg_err err = BG_OK;
    for (const char *name; !err && (name = disk_next_name(entries)) != NULL;) {
        uint64_t number = disk_number(name, &rest);
        if (number && !*rest) {
            err = journal_disk_reserve(disk, info);
            if (!err) {
                journal_disk_push(disk, (struct journal_segment){ .number = number });
            }
        }
    }
    if (!err && errno) {
        err = journal_error_system(info, "readdir", folder);
    }
    (void)closedir(entries);
    if (disk->count) {
        qsort(disk->segments, disk->count, sizeof *disk->segments, disk_compare);
    }
    disk_read_newest(disk);
    return err;
}

void journal_disk_free(struct journal_disk *disk)
{
    free(disk->segments);
    if (disk->lock >= 0) {
        (void)close(disk->lock); /* also releases the lock */
    }
    *disk = (struct journal_disk)JOURNAL_DISK_INIT;
}

void journal_disk_sweep(const struct journal_disk *disk)
{
    char path[JOURNAL_DISK_PATH];
    const char *rest;
    DIR *entries = opendir(disk->folder);
    if (!entries) {
        return; /* leftover temporary files are harmless */
    }
    for (const char *name; (name = disk_next_name(entries)) != NULL;) {
        if (disk_number(name, &rest) && strcmp(rest, ".tmp") == 0) {
            (void)snprintf(path, sizeof path, "%s/%.47s", disk->folder, name);
            (void)unlink(path);
        }
    }
    (void)closedir(entries);
}

bg_err journal_disk_lock(struct journal_disk *disk, bg_errinfo *info)
{
    char path[JOURNAL_DISK_PATH];
    disk_lock_path(disk, path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        return journal_error_system(info, "open", path);
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        bg_err err = journal_error_system(info, "lock", path);
        if (errno == EWOULDBLOCK) {
            err = journal_error_why(
                info, BG_EBUSY, "data directory",
                "%.300s is in use by another process. Stop that process, or set a "
                "different directory with dir",
                disk->folder);
        }
        (void)close(file);
        return err;
    }
    disk->lock = file;
    /* The previous owner may have removed the file together with its directory. In that case,
     * locking the file protects nothing. */
    return journal_disk_check(disk, info);
}

/* Returns whether `path` refers to the open file `file`. */
static bool disk_is_at(int file, const char *path)
{
    struct stat mine, there;
    return fstat(file, &mine) == 0 && stat(path, &there) == 0
           && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

static bg_err disk_moved(const char *what, const char *path, bg_errinfo *info)
{
    (void)journal_error(info, BG_EIO, what, "the file or directory opened at startup",
                        "a different file or directory, or none");
    if (info) {
        (void)snprintf(
            info->message, sizeof info->message,
            "%s %.300s was removed or replaced while the service was running: put "
            "it back, or export the filters and restart",
            what, path);
    }
    return BG_EIO;
}

bg_err journal_disk_check(const struct journal_disk *disk, bg_errinfo *info)
{
    char path[JOURNAL_DISK_PATH];
    disk_lock_path(disk, path);
    return disk_is_at(disk->lock, path)
               ? BG_OK
               : disk_moved("data directory", disk->folder, info);
}

bg_err journal_disk_check_file(const struct journal_disk *disk, int file,
                               const char *path, bg_errinfo *info)
{
    const bg_err err = journal_disk_check(disk, info);
    return err || disk_is_at(file, path) ? err : disk_moved("segment", path, info);
}

/* ---- Bytes ------------------------------------------------------------------------------- */

bg_err journal_disk_write(int file, uint64_t offset, const void *from, size_t n,
                          const char *path, bg_errinfo *info)
{
    const char *p = from;
    while (n > 0) {
        ssize_t put = pwrite(file, p, n, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put == 0) {
            errno = ENOSPC;
        }
        if (put <= 0) {
            return journal_error_system(info, "write", path);
        }
        p += put;
        n -= (size_t)put;
        offset += (uint64_t)put;
    }
    return BG_OK;
}

/* Reads all n bytes, or returns an error. */
static bg_err disk_read(int file, uint64_t offset, void *to, size_t n, const char *path,
                        bg_errinfo *info)
{
    char *p = to;
    while (n > 0) {
        ssize_t got = pread(file, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return journal_error_system(info, "read", path);
        }
        if (got == 0) {
            (void)journal_error_why(info, BG_EFORMAT, "segment",
                                    "the file was truncated while it was being read");
            journal_error_place(info, path, offset);
            return BG_EFORMAT;
        }
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return BG_OK;
}

bg_err journal_disk_sync(int file, const char *path, bg_errinfo *info)
{
    /* An interrupted sync has not failed, because it marked no page as written. */
    while (fdatasync(file) != 0) {
        if (errno != EINTR) {
            return journal_error_system(info, "fdatasync", path);
        }
    }
    return BG_OK;
}

static bg_err disk_sync_folder(const struct journal_disk *disk, bg_errinfo *info)
{
    int file = open(disk->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) {
        return journal_error_system(info, "open", disk->folder);
    }
    int failed;
    do {
        failed = fsync(file);
    } while (failed && errno == EINTR);
    bg_err err = failed ? journal_error_system(info, "fsync", disk->folder) : BG_OK;
    (void)close(file);
    return err;
}

/* ---- Segments ---------------------------------------------------------------------------- */

void journal_disk_discard(struct journal_draft_file *draft)
{
    (void)close(draft->file);
    draft->file = -1;
    if (!draft->placed) {
        (void)unlink(draft->made);
    }
}

bg_err journal_disk_begin(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info)
{
    unsigned char bytes[JOURNAL_HEADER];
    draft->placed = false;
    bg_err err = journal_disk_check(disk, info);
    if (err) {
        return err;
    }
    disk_path(disk, header->number, draft->path);
    (void)snprintf(draft->made, sizeof draft->made, "%.*s.tmp", JOURNAL_DISK_PATH - 5,
                   draft->path);
    draft->file = open(draft->made, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (draft->file < 0) {
        return journal_error_system(info, "open", draft->made);
    }
    journal_header_write(header, bytes);
    err = journal_disk_write(draft->file, 0, bytes, sizeof bytes, draft->made, info);
    if (err) {
        journal_disk_discard(draft);
    }
    return err;
}

bg_err journal_disk_place(struct journal_draft_file *draft,
                          const struct journal_disk *disk,
                          const struct journal_header *header, bg_errinfo *info)
{
    bg_err err = journal_disk_sync(draft->file, draft->made, info);
    if (!err && rename(draft->made, draft->path) != 0) {
        err = journal_error_system(info, "rename", draft->made);
    }
    if (!err) {
        draft->placed = true;
        err = disk_sync_folder(disk, info);
    }
    if (err) {
        journal_disk_discard(draft);
    } else {
        disk_write_header(disk, 0, header);
    }
    return err;
}

bg_err journal_disk_remove(const struct journal_disk *disk, uint64_t number,
                           bg_errinfo *info)
{
    char path[JOURNAL_DISK_PATH];
    const bg_err err = journal_disk_check(disk, info);
    if (err) {
        return err;
    }
    disk_path(disk, number, path);
    if (unlink(path) != 0 && errno != ENOENT) {
        return journal_error_system(info, "unlink", path);
    }
    return disk_sync_folder(disk, info);
}

/* Rewrites a range of a file with the same bytes. */
static bg_err disk_rewrite(int file, uint64_t from, uint64_t end, const char *path,
                           bg_errinfo *info)
{
    unsigned char bytes[DISK_COPY];
    bg_err err = BG_OK;
    while (from < end && !err) {
        size_t n = end - from < sizeof bytes ? (size_t)(end - from) : sizeof bytes;
        err = disk_read(file, from, bytes, n, path, info);
        err = err ? err : journal_disk_write(file, from, bytes, n, path, info);
        from += n;
    }
    return err;
}

bg_err journal_disk_settle(const struct journal_disk *disk, uint64_t settled,
                           uint64_t end, bool cut, bg_errinfo *info)
{
    char path[JOURNAL_DISK_PATH];
    struct stat about;
    disk_path(disk, disk->segments[disk->count - 1].number, path);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return journal_error_system(info, "open", path);
    }
    bg_err err = BG_OK;
    if (fstat(file, &about) != 0) {
        err = journal_error_system(info, "stat", path);
    } else if (cut && (uint64_t)about.st_size > end
               && ftruncate(file, (off_t)end) != 0) {
        err = journal_error_system(info, "truncate", path);
    }
    err = err ? err : disk_rewrite(file, settled, end, path, info);
    err = err ? err : journal_disk_sync(file, path, info);
    (void)close(file);
    return err;
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* A segment being read. */
struct disk_book {
    int file;
    char path[JOURNAL_DISK_PATH];
};

static bg_err disk_book_read(void *context, uint64_t offset, void *to, size_t n,
                             bg_errinfo *info)
{
    const struct disk_book *book = context;
    return disk_read(book->file, offset, to, n, book->path, info);
}

static bg_err disk_take(void *context, size_t i, struct journal_source *source,
                        bg_errinfo *info)
{
    struct journal_disk *disk = context;
    struct stat about = { .st_size = 0 };
    struct disk_book *book = malloc(sizeof *book);
    if (!book) {
        (void)journal_error_why(info, BG_ENOMEM, "memory",
                                "cannot allocate a buffer to read a segment");
        return BG_ENOMEM;
    }
    disk_path(disk, disk->segments[i].number, book->path);
    book->file = open(book->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* FIFO */
    bg_err err = BG_OK;
    if (book->file < 0) {
        err = journal_error_system(info, "open", book->path);
    } else if (fstat(book->file, &about) != 0) {
        err = journal_error_system(info, "stat", book->path);
    } else if (!S_ISREG(about.st_mode)) {
        /* A file of another type is an error, not damage, because the journal never creates such a
         * file, and a future segment may need its name. */
        err =
            journal_error_why(info, BG_EIO, "segment",
                              "not a regular file. Move it out of the data directory");
        journal_error_place(info, book->path, 0);
    }
    if (err) {
        if (book->file >= 0) {
            (void)close(book->file);
        }
        free(book);
        return err;
    }
    disk->segments[i].bytes = (uint64_t)about.st_size;
    *source = (struct journal_source){ .name = strrchr(book->path, '/') + 1,
                                       .number = disk->segments[i].number,
                                       .bytes = (uint64_t)about.st_size,
                                       .context = book,
                                       .read = disk_book_read };
    return BG_OK;
}

static void disk_give_back(void *context, struct journal_source *source)
{
    struct disk_book *book = source->context;
    (void)context;
    (void)close(book->file);
    free(book);
}

struct journal_shelf journal_disk_shelf(struct journal_disk *disk)
{
    return (struct journal_shelf){ .context = disk,
                                   .count = disk->count,
                                   .take = disk_take,
                                   .give_back = disk_give_back,
                                   .end = disk->end,
                                   .newest =
                                       disk->newest.number ? &disk->newest : NULL };
}

bg_err journal_disk_learn(struct journal_disk *disk, bg_errinfo *info)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = disk->count; i-- > 0;) {
        unsigned char bytes[JOURNAL_HEADER];
        struct journal_header header;
        struct journal_source source = { .bytes = 0 };
        bg_err err = disk_take(disk, i, &source, info);
        if (err) {
            return err;
        }
        if (source.bytes >= sizeof bytes) {
            err = source.read(source.context, 0, bytes, sizeof bytes, info);
            if (!err && !journal_header_read(bytes, &header, NULL)) {
                next = header.first;
            }
        }
        disk->segments[i].first = next;
        disk_give_back(disk, &source);
        if (err) {
            return err;
        }
    }
    return BG_OK;
}

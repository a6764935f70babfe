/*
 * disk.c - the system calls for reading, writing and replacing files.
 *
 * A file is replaced in steps (D1) to (D6):
 *
 *   (D1) Create a new file in the same directory, with O_EXCL and a unique name.
 *   (D2) Write all bytes.
 *   (D3) fsync. If this fails, discard the file, because a second fsync could succeed even though
 *        the data was lost: the kernel may already have dropped the pages.
 *   (D4) Read the file back and verify it.
 *   (D5) Rename it over the old file. This is atomic, so readers see either the old or the new
 *        file.
 *   (D6) fsync the directory. The new file then survives a power failure.
 *
 * A file is never written under its final name, so existing mappings of the old file stay intact.
 * If (D6) fails, the new file is in place, but a power failure may undo the rename, so the call
 * reports an error.
 *
 * Before (D1), symbolic links are followed: the steps apply to the file that they lead to, in its
 * own directory, so the links stay. Only regular files are replaced: a rename would also replace a
 * device, a FIFO or a socket.
 */
#define _GNU_SOURCE /* for O_CLOEXEC, getrandom and GNU strerror_r */

#include "store/disk.h"

#include "base/errinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DISK_LINKS = 40 }; /* maximum number of links to follow, as in Linux */

static const char disk_pointer[] = "bloomgate-pointer 1\n";

bg_err disk_error(bg_errinfo *info, const char *what, const char *path)
{
    int code = errno;
    char reason[48] = "";
    /* The GNU version of strerror_r returns the text, which is not necessarily in `reason`. */
    const char *text = strerror_r(code, reason, sizeof reason);
    bg_err err =
        bgi_err_state(info, BG_EIO, what, "cannot %s %s: %s", what, path, text);
    if (info) {
        info->os_errno = code;
    }
    return err;
}

/* ---- Reading and writing --------------------------------------------------------------- */

bg_err disk_read(void *context, uint64_t offset, void *to, size_t n, bg_errinfo *info)
{
    const struct disk_file *file = context;
    char *p = to;
    while (n > 0) {
        ssize_t got = pread(file->descriptor, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return disk_error(info, "read", file->path);
        }
        if (got == 0) {
            return container_refuse(info, BG_EFORMAT, offset, "file size",
                                    "the size that the file had when it was opened",
                                    "%llu bytes", (unsigned long long)offset);
        }
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return BG_OK;
}

bg_err disk_write(void *context, uint64_t offset, const void *from, size_t n,
                  bg_errinfo *info)
{
    const struct disk_file *file = context;
    const char *p = from;
    while (n > 0) {
        ssize_t put = pwrite(file->descriptor, p, n, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put == 0) {
            errno = ENOSPC;
        }
        if (put <= 0) {
            return disk_error(info, "write", file->path);
        }
        p += put;
        n -= (size_t)put;
        offset += (uint64_t)put;
    }
    return BG_OK;
}

/* ---- Syncing --------------------------------------------------------------------------- */

/* Calls `sync`, and retries it if it is interrupted by a signal. This is safe, because an
 * interrupted sync has not reported a write error. */
static bool disk_sync_by(int (*sync)(int descriptor), int descriptor)
{
    int failed;
    do {
        failed = sync(descriptor);
    } while (failed && errno == EINTR);
    return !failed;
}

bg_err disk_flush(const struct disk_file *file, bg_errinfo *info)
{
    return disk_sync_by(fsync, file->descriptor)
               ? BG_OK
               : disk_error(info, "fsync", file->path);
}

bg_err disk_flush_data(const struct disk_file *file, bg_errinfo *info)
{
    return disk_sync_by(fdatasync, file->descriptor)
               ? BG_OK
               : disk_error(info, "fdatasync", file->path);
}

bg_err disk_resize(const struct disk_file *file, uint64_t bytes, bg_errinfo *info)
{
    int failed;
    do {
        failed = ftruncate(file->descriptor, (off_t)bytes);
    } while (failed && errno == EINTR);
    return failed ? disk_error(info, "truncate", file->path) : BG_OK;
}

/* ---- Opening --------------------------------------------------------------------------- */

bg_err disk_open_only(const char *path, struct disk_file *file,
                      struct container_source *source, bg_errinfo *info)
{
    struct stat about;
    if (!path) {
        return bgi_err(info, BG_EINVAL, "path", "a path", "NULL");
    }
    if (strlen(path) >= sizeof file->path) {
        return bgi_err(info, BG_EINVAL, "path", "at most 4095 bytes", "%zu bytes",
                       strlen(path));
    }
    memcpy(file->path, path, strlen(path) + 1);
    file->descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not block on a FIFO */
    if (file->descriptor < 0) {
        return disk_error(info, "open", path);
    }
    if (fstat(file->descriptor, &about) != 0) {
        bg_err err = disk_error(info, "stat", path);
        disk_close(file);
        return err;
    }
    if (!S_ISREG(about.st_mode)) {
        disk_close(file);
        return bgi_err(info, BG_EFORMAT, "path", "a regular file", "%s",
                       "a different type of file");
    }
    *source = (struct container_source){ .read = disk_read,
                                         .context = file,
                                         .bytes = (uint64_t)about.st_size };
    return BG_OK;
}

/* Returns the length of a path's directory part, including the slash, or 0 for the current
 * directory. */
static size_t disk_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Returns whether a file is a pointer to another file in the same directory. If so, sets `path` to
 * the path of that other file. */
static bool disk_follow(const struct container_source *source, const char *from,
                        char path[DISK_PATH])
{
    const size_t mark = sizeof disk_pointer - 1, directory = disk_directory(from);
    char text[512];
    if (source->bytes <= mark || source->bytes >= sizeof text) {
        return false;
    }
    size_t n = (size_t)source->bytes;
    if (source->read(source->context, 0, text, n, NULL) != BG_OK
        || memcmp(text, disk_pointer, mark) != 0 || text[n - 1] != '\n') {
        return false;
    }
    text[n - 1] = 0;
    const char *name = text + mark;
    if (strlen(name) != n - 1 - mark || strchr(name, '/') || !*name
        || directory + strlen(name) >= DISK_PATH) {
        return false;
    }
    memcpy(path, from, directory);
    memcpy(path + directory, name, strlen(name) + 1);
    return true;
}

bg_err disk_open(const char *path, struct disk_file *file,
                 struct container_source *source, bg_errinfo *info)
{
    char other[DISK_PATH];
    bg_err err = disk_open_only(path, file, source, info);
    if (!err && disk_follow(source, path, other)) {
        disk_close(file);
        err = disk_open_only(other, file, source, info);
    }
    return err;
}

static struct disk_stamp disk_stamp(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return (struct disk_stamp){ .inode = 0 };
    }
    return (struct disk_stamp){
        .device = (uint64_t)about.st_dev,
        .inode = (uint64_t)about.st_ino,
        .size = (uint64_t)about.st_size,
        .modified = { about.st_mtim.tv_sec, about.st_mtim.tv_nsec },
        .changed = { about.st_ctim.tv_sec, about.st_ctim.tv_nsec },
    };
}

struct disk_identity disk_identify(const char *path)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source = { .bytes = 0 };
    char other[DISK_PATH];
    struct disk_identity identity = { .file = disk_stamp(path) };
    if (disk_is_there(&identity)
        && disk_open_only(path, &file, &source, NULL) == BG_OK) {
        if (disk_follow(&source, path, other)) {
            identity.target = disk_stamp(other);
        }
        disk_close(&file);
    }
    return identity;
}

bool disk_is_same(const struct disk_identity *a, const struct disk_identity *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* the struct has no padding */
}

bool disk_is_there(const struct disk_identity *identity)
{
    return identity->file.inode != 0;
}

void disk_close(struct disk_file *file)
{
    if (file->descriptor >= 0) {
        (void)close(file->descriptor);
        file->descriptor = -1;
    }
}

/* ---- Replacing files -------------------------------------------------------------------- */

bg_err disk_sync_directory(const char *path, bg_errinfo *info)
{
    char directory[DISK_PATH] = ".";
    size_t n = disk_directory(path);
    if (n > 0) {
        memcpy(directory, path, n);
        directory[n] = 0;
    }
    int descriptor = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (descriptor < 0) {
        return disk_error(info, "open directory", directory);
    }
    bg_err err = disk_sync_by(fsync, descriptor)
                     ? BG_OK
                     : disk_error(info, "fsync directory", directory);
    (void)close(descriptor);
    return err;
}

/* Refuses a file of another type, described by its mode. */
static bg_err disk_expect_regular(const char *path, mode_t mode, bg_errinfo *info)
{
    const char *type = S_ISDIR(mode)    ? "a directory"
                       : S_ISFIFO(mode) ? "a FIFO"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "a device";
    return S_ISREG(mode) ? BG_OK
                         : bgi_err_state(info, BG_EINVAL, "path",
                                         "cannot replace %s: it is %s, not a regular "
                                         "file",
                                         path, type);
}

/* Replaces the path of a symbolic link with the path of its target. Returns false if the target's
 * path is too long. */
static bool disk_read_link(char path[DISK_PATH])
{
    char text[DISK_PATH];
    const ssize_t n = readlink(path, text, sizeof text);
    const size_t directory = n > 0 && *text != '/' ? disk_directory(path) : 0;
    if (n <= 0 || directory + (size_t)n >= DISK_PATH) {
        return false;
    }
    memcpy(path + directory, text, (size_t)n);
    path[directory + (size_t)n] = 0;
    return true;
}

bg_err disk_resolve(const char *path, char to[DISK_PATH], bg_errinfo *info)
{
    struct stat target, about;
    /* The kernel follows the links, too, and refuses loops and links that another user has left in
     * a shared directory such as /tmp (fs.protected_symlinks). */
    const bool exists = stat(path, &target) == 0;
    if (!exists && errno != ENOENT) {
        return disk_error(info, "stat", path);
    }
    memcpy(to, path, strlen(path) + 1);
    for (int links = 0; lstat(to, &about) == 0 && S_ISLNK(about.st_mode); links++) {
        if (links == DISK_LINKS || !disk_read_link(to)) {
            errno = links == DISK_LINKS ? ELOOP : ENAMETOOLONG;
            return disk_error(info, "follow", path);
        }
    }
    /* A link in /proc/PID/fd can lead to a file without a name, whatever its text. */
    if (exists
        && (lstat(to, &about) != 0 || about.st_dev != target.st_dev
            || about.st_ino != target.st_ino)) {
        return bgi_err_state(info, BG_EINVAL, "path",
                             "cannot follow %s: the file has no name, or the link "
                             "changed in the meantime",
                             path);
    }
    return BG_OK;
}

/* Sets draft->path to the path of the file to replace. */
static bg_err disk_aim(struct disk_draft *draft, const char *path, bg_errinfo *info)
{
    struct stat about;
    if (draft->flags & (DISK_PRIVATE | DISK_NO_FOLLOW)) {
        memcpy(draft->path, path, strlen(path) + 1);
        return lstat(path, &about) == 0 && !S_ISLNK(about.st_mode)
                   ? disk_expect_regular(path, about.st_mode, info)
                   : BG_OK;
    }
    /* First, because a FIFO or a socket does not have a name in /proc/PID/fd. */
    const bg_err err = stat(path, &about) == 0
                           ? disk_expect_regular(path, about.st_mode, info)
                           : BG_OK;
    return err ? err : disk_resolve(path, draft->path, info);
}

/* (D1) */
static bg_err disk_create(struct disk_draft *draft, bg_errinfo *info)
{
    char *name = draft->file.path;
    const mode_t mode = draft->flags & DISK_PRIVATE ? 0600 : 0666;
    for (int attempt = 0; attempt < 100; attempt++) {
        uint32_t number = 0;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
            number = (uint32_t)attempt;
        }
        int n = snprintf(name, sizeof draft->file.path, "%s.tmp.%ld.%08x", draft->path,
                         (long)getpid(), number);
        if (n < 0 || (size_t)n >= sizeof draft->file.path) {
            return bgi_err(
                info, BG_EINVAL, "path",
                "at most 4095 bytes, including the suffix of the temporary file",
                "%d bytes", n);
        }
        draft->file.descriptor =
            open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (draft->file.descriptor >= 0) {
            return BG_OK;
        }
        if (errno != EEXIST && errno != EINTR) {
            break;
        }
    }
    return disk_error(info, "create", name);
}

bg_err disk_begin(struct disk_draft *draft, const char *path, uint32_t flags,
                  struct container_sink *sink, bg_errinfo *info)
{
    struct stat old;
    draft->file.descriptor = -1;
    draft->flags = flags;
    draft->placed = false;
    if (!path || !*path || strlen(path) >= sizeof draft->path) {
        return bgi_err(info, BG_EINVAL, "path", "a path of 1 to 4095 bytes", "%s",
                       path ? "a path that is empty or too long" : "NULL");
    }
    bg_err err = disk_aim(draft, path, info);
    err = err ? err : disk_create(draft, info);
    if (err) {
        return err;
    }
    if (stat(draft->path, &old) == 0) {
        const mode_t kept = flags & DISK_PRIVATE ? 0700 : 07777;
        (void)fchmod(draft->file.descriptor, old.st_mode & kept); /* keep permissions */
    }
    *sink = (struct container_sink){ .write = disk_write, .context = &draft->file };
    return BG_OK;
}

/* (D4) */
static bg_err disk_read_back(struct disk_draft *draft, enum disk_check check,
                             bg_errinfo *info)
{
    const bg_open_options usual = BG_OPEN_OPTIONS_INIT;
    struct stat about;
    if (fstat(draft->file.descriptor, &about) != 0) {
        return disk_error(info, "stat", draft->file.path);
    }
    struct container_source source = { .read = disk_read,
                                       .context = &draft->file,
                                       .bytes = (uint64_t)about.st_size };
    return check == DISK_ALL ? container_verify(&source, &usual, NULL, info)
                             : container_verify_blocks(&source, info);
}

/* (D5), (D6) */
static bg_err disk_place(struct disk_draft *draft, bool over, bg_errinfo *info)
{
    const char *from = draft->file.path, *to = draft->path;
    struct stat about;
    if (over && lstat(to, &about) == 0 && !S_ISLNK(about.st_mode)) {
        const bg_err err = disk_expect_regular(to, about.st_mode, info);
        if (err) {
            return err;
        }
    }
    /* Unlike a rename, creating a link does not replace an existing file. */
    if ((over ? rename(from, to) : link(from, to)) != 0) {
        return disk_error(info, over ? "rename" : "link", to);
    }
    if (!over) {
        (void)unlink(from);
    }
    draft->placed = true;
    memcpy(draft->file.path, to, strlen(to) + 1);
    return draft->flags & BG_FILE_NO_SYNC ? BG_OK : disk_sync_directory(to, info);
}

bg_err disk_finish(struct disk_draft *draft, enum disk_check check, bg_errinfo *info)
{
    bool syncs = !(draft->flags & BG_FILE_NO_SYNC);
    bg_err err = BG_OK;
    if (syncs) {
        err = disk_flush(&draft->file, info);
    }
    if (!err && check != DISK_NOTHING && !(draft->flags & BG_FILE_NO_READ_BACK)) {
        err = disk_read_back(draft, check, info);
    }
    if (!err && close(draft->file.descriptor) != 0) {
        err = disk_error(info, "close", draft->file.path);
        draft->file.descriptor = -1; /* close() releases the descriptor even on error */
    } else if (!err) {
        draft->file.descriptor = -1;
    }
    err = err ? err : disk_place(draft, true, info);
    if (err) {
        disk_discard(draft);
    }
    return err;
}

bg_err disk_keep(struct disk_draft *draft, bool over, bg_errinfo *info)
{
    bg_err err = disk_flush(&draft->file, info);
    err = err ? err : disk_place(draft, over, info);
    if (err) {
        disk_discard(draft);
    }
    return err;
}

void disk_discard(struct disk_draft *draft)
{
    disk_close(&draft->file);
    if (!draft->placed) {
        (void)unlink(draft->file.path);
    }
}

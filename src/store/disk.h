/*
 * disk.h - reading, writing and atomically replacing files. A read or write that is interrupted or
 * incomplete is continued. A file appears under its final name only when it is complete.
 */
#ifndef BGI_DISK_H
#define BGI_DISK_H

#include "store/container.h"

enum { DISK_PATH = 4096 };

/* Internal draft flags. DISK_NO_FOLLOW: a symbolic link at the path is itself replaced.
 * DISK_PRIVATE: likewise, and from the moment the file is created, only its owner can read it. */
#define DISK_NO_FOLLOW (1u << 30)
#define DISK_PRIVATE   (1u << 31)

/* An open file; also used as the context of a source or sink. */
struct disk_file {
    int descriptor; /* -1 if the file is not open */
    char path[DISK_PATH];
};

/* Reports BG_EIO with errno: "cannot WHAT PATH: reason". `what` is a verb such as "open". */
bg_err disk_error(bg_errinfo *info, const char *what, const char *path);

/* Open a file for reading and get its size. disk_open follows a pointer file (bg_publish).
 * disk_open_only, which is for files that are not filters, does not. */
bg_err disk_open(const char *path, struct disk_file *file,
                 struct container_source *source, bg_errinfo *info);
bg_err disk_open_only(const char *path, struct disk_file *file,
                      struct container_source *source, bg_errinfo *info);
void disk_close(struct disk_file *file);

/* The identity of the file at a path and the times of its last changes. The struct is all zeros if
 * there is no accessible file. For a pointer file (bg_publish), `target` identifies the file that
 * the pointer file points to. */
struct disk_identity {
    struct disk_stamp {
        uint64_t device, inode, size;
        /* mtime and ctime, each in seconds and nanoseconds */
        int64_t modified[2], changed[2];
    } file, target;
};

struct disk_identity disk_identify(const char *path);
bool disk_is_same(const struct disk_identity *a, const struct disk_identity *b);
bool disk_is_there(const struct disk_identity *identity);

/* Writes to `to` the path of the file that `path` leads to through symbolic links, whether or not
 * that file exists. `path` is shorter than DISK_PATH. */
bg_err disk_resolve(const char *path, char to[DISK_PATH], bg_errinfo *info);

/* A file that is being written: created in the directory of `path`, filled through the sink, and
 * then either renamed to `path` or discarded. disk_begin follows symbolic links, and refuses to
 * replace anything but a regular file (BG_EINVAL). */
struct disk_draft {
    struct disk_file file; /* the temporary file */
    char path[DISK_PATH];
    uint32_t flags; /* BG_FILE_NO_SYNC, BG_FILE_NO_READ_BACK, DISK_... */
    bool placed;    /* the file has its final name */
};

bg_err disk_begin(struct disk_draft *draft, const char *path, uint32_t flags,
                  struct container_sink *sink, bg_errinfo *info);

/* The checks that are performed before a file gets its final name. */
enum disk_check {
    DISK_NOTHING, /* no checks, because the file is not a filter file */
    DISK_BLOCKS,  /* only checksums, because the file has just been encoded */
    DISK_ALL      /* everything, because the file was assembled from other files */
};

/* Syncs the draft, reads it back, renames it to draft->path, and syncs the directory. */
bg_err disk_finish(struct disk_draft *draft, enum disk_check check, bg_errinfo *info);

/* Does the same as disk_finish for a file that is not a filter, without reading it back. The file
 * stays open as draft->file. If draft->path already exists and `over` is false, fails with BG_EIO
 * and EEXIST. On error, the draft is discarded. If draft->placed is true after an error, the file
 * already has its final name, and only syncing the directory failed. */
bg_err disk_keep(struct disk_draft *draft, bool over, bg_errinfo *info);

void disk_discard(struct disk_draft *draft);

bg_err disk_write(void *context, uint64_t offset, const void *from, size_t n,
                  bg_errinfo *info);
bg_err disk_read(void *context, uint64_t offset, void *to, size_t n, bg_errinfo *info);

/* Opens or maps a filter file as bg_open and bg_map do. Mapped files are also verified and watched
 * for changes (bgi_filter_is_changed). `about` is filled in from the same header as the filter. If
 * the file's digest equals `digest`, the rest of the file is not read, and the call returns BG_OK
 * but no filter. (file.c) */
bg_err bgi_file_open_other(const char *path, const bg_open_options *options, bool maps,
                           const char *digest, bg_file_info *about, bg_filter **filter,
                           bg_errinfo *info);

/* Does the same as bg_save, and also writes the digest of the saved file to `digest`, unless
 * `digest` is NULL. This digest is reliable even if another process replaces the file right
 * afterwards. (file.c) */
bg_err bgi_file_save(const bg_filter *filter, const char *path,
                     const bg_save_options *options, uint8_t digest[BG_DIGEST_BYTES],
                     bg_errinfo *info);

/* Sync a file, sync only its data and size, or set its size. Calls interrupted by a signal are
 * retried. */
bg_err disk_flush(const struct disk_file *file, bg_errinfo *info);
bg_err disk_flush_data(const struct disk_file *file, bg_errinfo *info);
bg_err disk_resize(const struct disk_file *file, uint64_t bytes, bg_errinfo *info);

/* Syncs the directory that contains a path. */
bg_err disk_sync_directory(const char *path, bg_errinfo *info);

#endif

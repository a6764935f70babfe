/*
 * disk.h - files: read and written whole, whatever the system interrupts or shortens, and
 * put in their place so that nobody ever sees half of one.
 */
#ifndef BGI_DISK_H
#define BGI_DISK_H

#include "store/container.h"

enum { DISK_PATH = 4096 };

/* A flag of drafts within the library: nobody but the owner may read it, at no time. */
#define DISK_PRIVATE (1u << 31)

/* A file that is open; as the context of a source or sink. */
struct disk_file {
    int descriptor; /* -1: none */
    char path[DISK_PATH];
};

/* BG_EIO with errno, about a path. */
bg_err disk_error(bg_errinfo *info, const char *what, const char *path);

/* Opens a file for reading, and says how large it is. A file that points to another one
 * (bg_publish) is followed; or not, by `_only`, where only filters are published so. */
bg_err disk_open(const char *path, struct disk_file *file,
                 struct container_source *source, bg_errinfo *info);
bg_err disk_open_only(const char *path, struct disk_file *file,
                      struct container_source *source, bg_errinfo *info);
void disk_close(struct disk_file *file);

/* Identifies the file at a path and its last change. All zero: no file can be opened. For a file that points to
 * another one (bg_publish), also identifies that file. */
struct disk_identity {
    struct disk_stamp {
        uint64_t device, inode, size;
        int64_t modified[2], changed[2]; /* mtime, ctime: seconds, nanoseconds */
    } file, target;
};

struct disk_identity disk_identify(const char *path);
bool disk_is_same(const struct disk_identity *a, const struct disk_identity *b);
bool disk_is_there(const struct disk_identity *identity);

/* A file on its way: made beside `path`, filled by the sink, and then either put in its
 * place or thrown away. */
struct disk_draft {
    struct disk_file file; /* the temporary one */
    char path[DISK_PATH];
    uint32_t flags; /* BG_FILE_NO_SYNC, BG_FILE_NO_READ_BACK, DISK_PRIVATE */
    bool placed;    /* it has its final name */
};

bg_err disk_begin(struct disk_draft *draft, const char *path, uint32_t flags,
                  struct container_sink *sink, bg_errinfo *info);

/* What is read back before a file gets its name. */
enum disk_check {
    DISK_NOTHING, /* it is no filter file */
    DISK_BLOCKS,  /* all checksums: we have just made it */
    DISK_ALL      /* everything that can be verified: it is put together from others */
};

/* Syncs it, reads it back, renames it to draft->path, and syncs the folder. */
bg_err disk_finish(struct disk_draft *draft, enum disk_check check, bg_errinfo *info);

/* The same for what is no filter file and shall stay open, as draft->file. When it may not
 * replace another one (`over` false) and there is one: BG_EIO with EEXIST. On error the
 * draft is discarded; draft->placed then says that only the folder could not be synced. */
bg_err disk_keep(struct disk_draft *draft, bool over, bg_errinfo *info);

void disk_discard(struct disk_draft *draft);

bg_err disk_write(void *context, uint64_t offset, const void *from, size_t n,
                  bg_errinfo *info);
bg_err disk_read(void *context, uint64_t offset, void *to, size_t n, bg_errinfo *info);

/* Opens or maps a filter file as bg_open and bg_map do. Mapped files are also verified, and can be watched
 * (bgi_filter_is_changed). `about` is filled in from the header of the same file. A file with the digest `digest` is
 * not read: BG_OK, and no filter. (file.c) */
bg_err bgi_file_open_other(const char *path, const bg_open_options *options, bool maps,
                           const char *digest, bg_file_info *about, bg_filter **filter,
                           bg_errinfo *info);

/* As bg_save; also writes the digest of the saved file to `digest`, unless NULL. The file at the path may be
 * replaced right afterwards. (file.c) */
bg_err bgi_file_save(const bg_filter *filter, const char *path,
                     const bg_save_options *options, uint8_t digest[BG_DIGEST_BYTES],
                     bg_errinfo *info);

/* Sync a file, sync only its data and size, or set its size. Signals do not cause failures. */
bg_err disk_flush(const struct disk_file *file, bg_errinfo *info);
bg_err disk_flush_data(const struct disk_file *file, bg_errinfo *info);
bg_err disk_resize(const struct disk_file *file, uint64_t bytes, bg_errinfo *info);

/* Syncs the folder of a path. */
bg_err disk_sync_folder(const char *path, bg_errinfo *info);

#endif

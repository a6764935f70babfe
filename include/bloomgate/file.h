/*
 * file.h - filters in files: saved, opened, mapped, verified, merged, compared.
 *
 *     bg_save(filter, "/var/lib/app/seen.bg", NULL, &why);
 *     ...
 *     bg_filter *f;
 *     if (bg_open("/var/lib/app/seen.bg", NULL, &f, &why)) { puts(why.message); }
 *
 * One format for every kind (docs/format.md), the same bytes on every machine. Every byte
 * is covered by a checksum: a flipped bit or a missing end is noticed, always, and never
 * becomes a false "no". A file is written beside its place, synced, read back, verified
 * and only then renamed, so whoever opens the path finds the old file or the new one.
 *
 * Checksums find accidents. They do not stop somebody who may write your files.
 */
#ifndef BLOOMGATE_FILE_H
#define BLOOMGATE_FILE_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/hash.h"
#include "bloomgate/window.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BG_KEY_ID_BYTES      16
#define BG_METADATA_MAX      3072 /* at most, with its NUL */
#define BG_DIGEST_BYTES      16
#define BG_DIGEST_TEXT_BYTES 33 /* as hexadecimal digits, with a NUL */

/* Told how many bytes of how many are done; false stops it: BG_ECANCELED. */
typedef bool (*bg_file_progress_fn)(void *context, uint64_t done, uint64_t all);

enum {
    BG_FILE_TOLERATE_DAMAGE =
        1u << 0,               /* open: go on without damaged blocks: see bg_open */
    BG_FILE_NO_SYNC = 1u << 1, /* save: trust the system to write it some time */
    BG_FILE_NO_READ_BACK =
        1u << 2, /* save: do not read it again before it is renamed */
    BG_FILE_FROZEN =
        1u << 3, /* save: the filter does not change while it is saved, so kinds
                    in which keys move are not copied first */
    BG_FILE_NO_CANARIES =
        1u << 4 /* save: do not record the answers to canaries. For files of small
                   filters that stay on one machine: querying 4096 canaries takes
                   longer than the rest of the save. The file still has its
                   checksums, its digest and the check of the hash */
};

/* How to open a file; NULL or all zero but struct_size: as it is. */
typedef struct bg_open_options {
    uint32_t struct_size;  /* sizeof(bg_open_options) */
    uint32_t flags;        /* BG_FILE_TOLERATE_DAMAGE or 0 */
    uint32_t filter_flags; /* BG_SPEC_EXCLUSIVE, BG_SPEC_SMALL_PAGES */
    uint32_t reserved;     /* 0 */
    const bg_hash_spec
        *hash; /* of keyed and custom profiles: the secret, the function */
    const bg_window_options
        *window; /* of windows: the clock; the rest is in the file */
    const bg_allocator *allocator;
    uint64_t max_bytes;           /* of the filter; 0: no bound */
    bg_file_progress_fn progress; /* or NULL */
    void *context;
} bg_open_options;

#define BG_OPEN_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_open_options), 0, 0, 0, 0, 0, 0, 0, 0, 0                             \
    }

/* How to save one; NULL or all zero but struct_size: as it is. */
typedef struct bg_save_options {
    uint32_t struct_size; /* sizeof(bg_save_options) */
    uint32_t flags;       /* BG_FILE_NO_SYNC, _NO_READ_BACK, _STILL, _NO_CANARIES */
    uint64_t generation;  /* user-defined; determines the canaries */
    uint64_t created;     /* seconds since 1970; 0: now */
    uint8_t key_id[BG_KEY_ID_BYTES]; /* which secret it was, in your words */
    const char
        *metadata; /* text of yours, such as how keys are normalised; UTF-8, lines;
                             or NULL */
    bg_file_progress_fn progress; /* or NULL */
    void *context;
} bg_save_options;

#define BG_SAVE_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_save_options), 0, 0, 0, { 0 }, 0, 0, 0                               \
    }

/* What the beginning of a file tells. */
typedef struct bg_file_info {
    uint32_t struct_size; /* sizeof(bg_file_info) */
    uint32_t major, minor;
    uint32_t kind; /* a bg_kind */
    uint32_t flags;
    uint32_t width;
    uint32_t k;
    uint32_t shards;
    uint32_t profile; /* a bg_hash_profile */
    uint32_t present_canaries;
    uint64_t seed;
    uint64_t check; /* bg_hasher_check of its hasher */
    char custom_name[32];
    uint8_t key_id[BG_KEY_ID_BYTES];
    uint64_t units;
    uint64_t items; /* it was designed for */
    double rate;
    uint64_t generation;
    uint64_t created;
    uint64_t file_bytes;
    uint64_t word_bytes;
    uint64_t blocks; /* of 64 KiB, each with a checksum */
    uint8_t digest[BG_DIGEST_BYTES];
    char digest_text[BG_DIGEST_TEXT_BYTES];
    char metadata[BG_METADATA_MAX];
} bg_file_info;

/* What is wrong with a file, as far as it can be told. */
typedef struct bg_verify_report {
    uint32_t struct_size; /* sizeof(bg_verify_report) */
    uint32_t checks;      /* that were made: header, digest, numbers, blocks, ... */
    uint64_t bad;         /* how many things are wrong; 0: the file is whole */
    uint64_t bad_blocks;
    uint64_t blocks;
    uint64_t first_offset; /* of the first that is wrong */
    bg_err code;           /* of the first */
    char what[32]; /* the first: "header", "digest", "block 17", "canaries" ... */
    char found[64];
    char expected[96];
} bg_verify_report;

/* ---- One file ------------------------------------------------------------------------ */

/*
 * Saves a filter: to a temporary file in the same folder, synced, read back and verified,
 * then renamed to `path`, then the folder synced. When anything fails, what was at `path`
 * is untouched and the temporary file is gone. Others may go on using the filter; what is
 * added meanwhile may be missing in the file.
 * Errors: BG_EIO with os_errno; BG_EINVAL (options, metadata too long); BG_ENOMEM;
 * BG_ECANCELED.
 * Thread safety: MT-Safe (a BG_SPEC_EXCLUSIVE filter: MT-Excl). Cost: writing and reading its
 * bytes; for kinds in which keys move a copy of the filter is made first.
 */
BG_API BG_MUST_CHECK bg_err bg_save(const bg_filter *filter, const char *path,
                                    const bg_save_options *options, bg_errinfo *info);

/*
 * The same under a name that says what is in it, and a pointer: the file becomes
 * `folder`/`name`-DIGEST.bg, and `folder`/`name` a small text file with that name, replaced
 * at once. bg_open follows it. So bits and metadata change together, and a reader that has
 * the old file open or mapped keeps it; removing old ones is left to you.
 */
BG_API BG_MUST_CHECK bg_err bg_publish(const bg_filter *filter, const char *folder,
                                       const char *name, const bg_save_options *options,
                                       char digest[BG_DIGEST_TEXT_BYTES],
                                       bg_errinfo *info);

/*
 * Reads a filter into memory, on large pages. Every checksum is compared; then the
 * canaries. With BG_FILE_TOLERATE_DAMAGE a block whose checksum is wrong does not end it: the
 * filter then answers "maybe" for all that the block could have denied, and bg_filter_info says
 * `degraded`; damage anywhere else is refused all the same.
 * Errors: BG_EFORMAT, BG_EVERSION, BG_ECHECKSUM, each with the offset; BG_EINVAL when the
 * secret or function is missing, BG_EINCOMPAT when it is another one; BG_EIO; BG_ENOMEM.
 * Thread safety: MT-Safe. Memory: that of the filter and 64 KiB, never more than twice the
 * file's size and the handles of its parts.
 */
BG_API BG_MUST_CHECK bg_err bg_open(const char *path, const bg_open_options *options,
                                    bg_filter **filter, bg_errinfo *info);

/*
 * Opens a file as bg_open does, and fills in `about`, whose struct_size must be set, from the
 * header of the same file, even if another file replaces it at the path in the meantime. `about`
 * is also filled in if only the header could be read.
 */
BG_API BG_MUST_CHECK bg_err bg_open_with_info(const char *path,
                                              const bg_open_options *options,
                                              bg_file_info *about, bg_filter **filter,
                                              bg_errinfo *info);

/*
 * Maps a file instead: it takes no time, and pages come in when they are asked for. Only
 * the header and what belongs to it are checked, blocks are not: verify the file once
 * where it arrives. Adds change pages of this process only. If the file is truncated while
 * it is mapped, or its disk fails, the process gets SIGBUS: map only files that nobody
 * writes to; bg_save never does. Kinds in which keys can move (cuckoo, quotient, counting)
 * and windows are read instead, as by bg_open; so is everything on big-endian machines.
 */
BG_API BG_MUST_CHECK bg_err bg_map(const char *path, const bg_open_options *options,
                                   bg_filter **filter, bg_errinfo *info);

/*
 * Checks everything that can be: sizes, header, digest, all blocks, the structure within,
 * canaries. BG_OK only if nothing is wrong; else the error of the first thing that is, and
 * `report` (may be NULL) tells all.
 */
BG_API BG_MUST_CHECK bg_err bg_verify(const char *path, const bg_open_options *options,
                                      bg_verify_report *report, bg_errinfo *info);

/* What the header of a file tells; only the header is checked. */
BG_API BG_MUST_CHECK bg_err bg_file_get_info(const char *path, bg_file_info *about,
                                             bg_errinfo *info);

/* ---- The same in memory ---------------------------------------------------------------- */

/* Writes a filter to memory; `bytes` NULL: only says how many it takes. */
BG_API BG_MUST_CHECK bg_err bg_encode(const bg_filter *filter,
                                      const bg_save_options *options, void *bytes,
                                      size_t room, size_t *written, bg_errinfo *info);

/* Takes the next n bytes of a file; what is not BG_OK ends it. */
typedef bg_err (*bg_file_write_fn)(void *context, const void *bytes, size_t n);

/*
 * Writes a filter piece by piece, each of 1 MiB at most (but for the table of checksums of very
 * large ones), from the first byte of the file to the last: the same bytes as bg_encode, and it
 * says how many. There is no copy of the file in memory; the filter is read twice instead, since
 * the beginning of a file has a digest of all that follows.
 * Errors: BG_EINVAL; BG_ENOMEM, before anything was written; BG_EBUSY: somebody has changed the
 * filter between the first reading and the second, and what was written is no file; BG_ECANCELED;
 * that of `write`.
 * Thread safety: MT-Safe (a BG_SPEC_EXCLUSIVE filter: MT-Excl). Cost: reading its bytes twice; for
 * kinds in which keys move a copy of the filter is made first, unless BG_FILE_FROZEN says that
 * nobody changes it.
 */
BG_API BG_MUST_CHECK bg_err bg_encode_stream(const bg_filter *filter,
                                             const bg_save_options *options,
                                             bg_file_write_fn write, void *context,
                                             bg_errinfo *info);

/* Reads one from n bytes, as bg_open does; they are not kept. Once `progress` has been told that d
 * bytes are done it does not read the first d bytes again. */
BG_API BG_MUST_CHECK bg_err bg_decode(const void *bytes, size_t n,
                                      const bg_open_options *options,
                                      bg_filter **filter, bg_errinfo *info);

/* Reports the header of a file in memory, its first 4096 bytes, as bg_file_get_info does for a file on
 * disk. The rest is not read. */
BG_API BG_MUST_CHECK bg_err bg_encoded_get_info(const void *bytes, size_t n,
                                                bg_file_info *about, bg_errinfo *info);

/* Verifies n bytes of a file in memory as bg_verify does for a file on disk. */
BG_API BG_MUST_CHECK bg_err bg_encoded_verify(const void *bytes, size_t n,
                                              const bg_open_options *options,
                                              bg_verify_report *report,
                                              bg_errinfo *info);

/* ---- Several files --------------------------------------------------------------------- */

/* The union of n files of the same kind, geometry and hash, saved to `to`. BG_EINCOMPAT says
 * which of them differ in the first file that does. */
BG_API BG_MUST_CHECK bg_err bg_file_merge(const char *const *paths, size_t n,
                                          const char *to,
                                          const bg_open_options *opening,
                                          const bg_save_options *saving,
                                          bg_errinfo *info);

/* Halves a file `folds` times: bg_filter_fold. */
BG_API BG_MUST_CHECK bg_err bg_file_fold(const char *path, uint32_t folds,
                                         const char *to, const bg_open_options *opening,
                                         const bg_save_options *saving,
                                         bg_errinfo *info);

/* Writes the shards of a filter to files of their own, `to`.0, `to`.1 ... */
BG_API BG_MUST_CHECK bg_err bg_file_split(const char *path, const char *to,
                                          const bg_open_options *opening,
                                          const bg_save_options *saving,
                                          bg_errinfo *info);

/* Joins the shards `from`.0 to `from`.(shards - 1) that bg_file_split wrote. Errors: BG_EINCOMPAT
 * if a shard is in the wrong place, or if the shards are from different splits, which a killed
 * split can leave. */
BG_API BG_MUST_CHECK bg_err bg_file_join(const char *from, uint32_t shards,
                                         const char *to, const bg_open_options *opening,
                                         const bg_save_options *saving,
                                         bg_errinfo *info);

/* How two files of the same layout differ. */
typedef struct bg_file_difference {
    uint32_t struct_size; /* sizeof(bg_file_difference) */
    uint32_t same_layout; /* 1: blocks can be compared; 0: nothing below is known */
    uint64_t blocks;      /* of each */
    uint64_t different;   /* of them */
    uint64_t patch_bytes; /* what bg_file_patch would write */
} bg_file_difference;

/* By the digests of blocks: no block is read. */
BG_API BG_MUST_CHECK bg_err bg_file_diff(const char *from, const char *to,
                                         bg_file_difference *difference,
                                         bg_errinfo *info);

/* Writes what makes `to` of `from` to `patch`: header, numbers and the blocks that differ.
 * Files of another layout give a patch with all blocks. */
BG_API BG_MUST_CHECK bg_err bg_file_patch(const char *from, const char *to,
                                          const char *patch, bg_errinfo *info);

/* Applies it: what `to` then has is verified before it is renamed, as by bg_save. BG_EINCOMPAT
 * when `from` is not the file that the patch was made for. */
BG_API BG_MUST_CHECK bg_err bg_file_apply(const char *from, const char *patch,
                                          const char *to, bg_errinfo *info);

/* ---- Canaries -------------------------------------------------------------------------- */

#define BG_CANARY_COUNT 16
#define BG_CANARY_BYTES 24

/*
 * Canary i (0 .. BG_CANARY_COUNT - 1) of a generation, a key that no user has. Add all of them
 * when you fill a filter that will be saved under that generation, and every one who opens
 * the file will find them or refuse it: a wrong hash, a wrong instruction or an empty
 * filter show themselves, which checksums cannot. Files say whether they have them.
 */
BG_API void bg_canary(uint64_t generation, uint32_t i, uint8_t key[BG_CANARY_BYTES]);

#ifdef __cplusplus
}
#endif

#endif

/*
 * file.h - filters in files: save, open, map, verify.
 *
 *     bg_save(filter, "/var/lib/app/seen.bg", NULL, &why);
 *     ...
 *     bg_filter *f;
 *     if (bg_open("/var/lib/app/seen.bg", NULL, &f, &why)) { puts(why.message); }
 *
 * All kinds share one format (docs/format.md), which is identical on every machine.
 * Checksums cover every byte: a flipped bit or a truncated file is always detected, and
 * never causes a false "no". Saving writes a temporary file in the same directory, syncs
 * it, reads it back, verifies it and only then renames it. The path therefore always refers to a
 * complete file, either the old one or the new one.
 *
 * Checksums detect accidental damage. They do not stop an attacker who can write to the
 * files.
 *
 * file_tools.h has functions to publish, encode, merge, split, compare and patch files.
 */
#ifndef BLOOMGATE_FILE_H
#define BLOOMGATE_FILE_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BG_KEY_ID_BYTES      16
#define BG_METADATA_MAX      3072 /* including the terminating NUL */
#define BG_DIGEST_BYTES      16
#define BG_DIGEST_TEXT_BYTES 33 /* 32 hexadecimal digits and a NUL */

/* A creation time that means "not recorded". Filters with the same content then have the
 * same bytes, as in dumps and downloads of the service. */
#define BG_CREATED_UNKNOWN 1

/*
 * A callback that reports progress: `done` of `all` bytes have been processed. Return
 * false to cancel (BG_ECANCELED).
 */
typedef bool (*bg_file_progress_fn)(void *context, uint64_t done, uint64_t all);

/* Flags of bg_open_options and bg_save_options. */
enum {
    BG_FILE_TOLERATE_DAMAGE = 1u << 0, /* open: accept damaged blocks, see bg_open */
    BG_FILE_NO_SYNC = 1u << 1,      /* save: let the OS decide when to write to disk */
    BG_FILE_NO_READ_BACK = 1u << 2, /* save: do not verify the file before the rename */
    BG_FILE_FROZEN = 1u << 3, /* save: the filter does not change during the call, so a
                                 filter of a kind in which keys move need not be copied
                                 first */
    BG_FILE_NO_CANARIES =
        1u << 4 /* save: do not record the answers to canaries. Use it for small filters
                   that stay on one machine, because querying 4096 canaries takes longer
                   than the rest of the save. The file still includes the checksums, the
                   digest and the check value of the hash */
};

/* Options for opening a file. NULL selects the defaults. */
typedef struct bg_open_options {
    uint32_t struct_size;  /* sizeof(bg_open_options) */
    uint32_t flags;        /* BG_FILE_TOLERATE_DAMAGE or 0 */
    uint32_t filter_flags; /* BG_SPEC_EXCLUSIVE, BG_SPEC_SMALL_PAGES */
    uint32_t reserved;     /* 0 */
    const bg_hash_spec
        *hash; /* secret of a keyed profile, or function of a custom profile */
    const struct bg_window_options
        *window; /* the clock of a window; all other options come from the file */
    const bg_allocator *allocator;
    uint64_t max_bytes;           /* refuse larger filters; 0 means no limit */
    bg_file_progress_fn progress; /* or NULL */
    void *context;
} bg_open_options;

#define BG_OPEN_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_open_options), 0, 0, 0, 0, 0, 0, 0, 0, 0                             \
    }

/* Options for saving a file. NULL selects the defaults. */
typedef struct bg_save_options {
    uint32_t struct_size; /* sizeof(bg_save_options) */
    uint32_t flags;       /* BG_FILE_NO_SYNC, _NO_READ_BACK, _FROZEN, _NO_CANARIES */
    uint64_t generation;  /* user-defined generation number; determines the canaries
                             (file_tools.h) */
    /* Seconds since 1970, or BG_CREATED_UNKNOWN; 0 selects the current time. */
    uint64_t created;
    uint8_t key_id[BG_KEY_ID_BYTES]; /* user-defined name of the secret */
    const char *metadata; /* user-defined lines of UTF-8 text, for example to record how
                             keys are normalized; or NULL */
    bg_file_progress_fn progress; /* or NULL */
    void *context;
} bg_save_options;

#define BG_SAVE_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_save_options), 0, 0, 0, { 0 }, 0, 0, 0                               \
    }

/* The header of a file. */
typedef struct bg_file_info {
    uint32_t struct_size;  /* sizeof(bg_file_info) */
    uint32_t major, minor; /* version of the format */
    uint32_t kind;         /* a bg_kind */
    uint32_t flags;        /* flags from the spec */
    uint32_t width;        /* width from the spec */
    uint32_t k;
    uint32_t shards;
    uint32_t profile; /* a bg_hash_profile */
    uint32_t present_canaries;
    uint64_t seed;
    uint64_t check; /* bg_hasher_check of the filter's hasher */
    char custom_name[32];
    uint8_t key_id[BG_KEY_ID_BYTES];
    uint64_t units;
    uint64_t items; /* number of keys the filter was sized for */
    double rate;    /* false-positive rate the filter was sized for */
    uint64_t generation;
    uint64_t created; /* seconds since 1970, or BG_CREATED_UNKNOWN */
    uint64_t file_bytes;
    uint64_t word_bytes;
    uint64_t blocks; /* number of 64 KiB blocks, each with a checksum */
    uint8_t digest[BG_DIGEST_BYTES];
    char digest_text[BG_DIGEST_TEXT_BYTES];
    char metadata[BG_METADATA_MAX];
    uint64_t canary_generation; /* generation of the present canaries */
} bg_file_info;

/* The result of verifying a file. */
typedef struct bg_verify_report {
    uint32_t struct_size;  /* sizeof(bg_verify_report) */
    uint32_t checks;       /* number of checks performed (header, digest, blocks ...) */
    uint64_t bad;          /* number of failed checks; 0 if the file is intact */
    uint64_t bad_blocks;   /* number of damaged blocks */
    uint64_t blocks;       /* number of blocks */
    uint64_t first_offset; /* offset of the first error */
    bg_err code;           /* code of the first error */
    char what
        [BG_ERR_WHAT_MAX]; /* location: "header", "digest", "block 17", "canaries" ... */
    char found[BG_ERR_FOUND_MAX];
    char expected[BG_ERR_EXPECTED_MAX];
} bg_verify_report;

/*
 * Saves a filter to `path`: writes a temporary file in the same directory, syncs it, reads
 * it back, verifies it, renames it to `path` and syncs the directory. If any step up to
 * and including the rename fails, the file at `path` is untouched and the temporary file
 * is deleted. If only the last sync fails, the new file is in place but may not survive a
 * power failure. Symbolic links are followed, even to a file that does not exist yet: the
 * file that they lead to is replaced in its own directory, and the links stay. A directory,
 * device, FIFO or socket is not replaced. Other threads may use the filter during the call;
 * keys that they add may be missing from the file.
 * Errors: BG_EIO with os_errno; BG_EINVAL for invalid options, metadata that is too long,
 * or a path that leads to something other than a regular file; BG_ENOMEM; BG_ECANCELED.
 * Thread safety: MT-Safe (MT-Excl on a BG_SPEC_EXCLUSIVE filter). Cost: writes and reads
 * the file; filters of kinds in which keys move are copied first.
 */
BG_API BG_MUST_CHECK bg_err bg_save(const bg_filter *filter, const char *path,
                                    const bg_save_options *options, bg_errinfo *info);

/*
 * Reads a filter into memory, using huge pages. Verifies every checksum and the canaries.
 * With BG_FILE_TOLERATE_DAMAGE, damaged blocks are accepted: the filter answers "maybe"
 * for every key whose answer depends on a damaged block, and bg_filter_info.degraded is
 * true. A file with damage outside the blocks is always refused.
 * Errors: BG_EFORMAT, BG_EVERSION, BG_ECHECKSUM, each with the offset; BG_EINVAL if the
 * secret or hash function is missing; BG_EINCOMPAT if the secret or hash function is
 * wrong; BG_EIO; BG_ENOMEM.
 * Thread safety: MT-Safe. Memory: the filter plus 64 KiB; at most twice the size of the
 * file, plus a handle for each part of the filter.
 */
BG_API BG_MUST_CHECK bg_err bg_open(const char *path, const bg_open_options *options,
                                    bg_filter **filter, bg_errinfo *info);

/*
 * Maps a file instead of reading it: returns immediately, and the OS loads pages when they
 * are first used. Only the header and its tables are checked, not the blocks, so verify
 * the file once when you receive it. Adds change private copies of pages, not the file. If
 * the file is truncated while it is mapped, or its disk fails, the process receives
 * SIGBUS. Therefore, map only files that are never written in place and are always replaced by a
 * rename, as bg_save does. Filters of kinds in which keys move (cuckoo, quotient, counting),
 * windows, and all filters on big-endian machines are read into memory instead, as with bg_open.
 * Errors: those of bg_open. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_map(const char *path, const bg_open_options *options,
                                   bg_filter **filter, bg_errinfo *info);

/*
 * Performs all checks on a file: its sizes, the header, the digest, the content and structure of
 * all blocks, and the canaries. Returns BG_OK if the file is intact, and the first error otherwise.
 * `report`, unless NULL, describes all errors.
 * Thread safety: MT-Safe. Cost: reads the file.
 */
BG_API BG_MUST_CHECK bg_err bg_verify(const char *path, const bg_open_options *options,
                                      bg_verify_report *report, bg_errinfo *info);

/*
 * Reads and checks the header of a file, but not the rest of the file.
 * Errors: BG_EFORMAT, BG_EVERSION, BG_ECHECKSUM; BG_EIO; BG_EINVAL. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_file_get_info(const char *path, bg_file_info *out,
                                             bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

/*
 * file_tools.h - publish, encode, merge, fold, split, join, compare and patch filter files.
 *
 *     bg_publish(filter, "/srv/filters", "users", NULL, digest, &why);
 *     bg_file_diff("monday.bg", "tuesday.bg", &difference, &why);
 *     bg_file_patch("monday.bg", "tuesday.bg", "tuesday.patch", &why);
 *
 * All functions that write a file replace it atomically, as bg_save does.
 */
#ifndef BLOOMGATE_FILE_TOOLS_H
#define BLOOMGATE_FILE_TOOLS_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Saves a filter as `directory`/`name`-DIGEST.bg, and then atomically replaces the pointer
 * `directory`/`name`, a small text file that contains the name of the new file. bg_open
 * follows the pointer. Bits and metadata therefore change together, and processes that
 * have the old file open keep using it. Old files are not deleted. Unlike bg_save, this
 * function replaces a symbolic link at `directory`/`name` itself, because the pointer and
 * the file belong in the same directory.
 * Errors: those of bg_save.
 */
BG_API BG_MUST_CHECK bg_err bg_publish(const bg_filter *filter, const char *directory,
                                       const char *name, const bg_save_options *options,
                                       char digest[BG_DIGEST_TEXT_BYTES],
                                       bg_errinfo *info);

/*
 * Opens a file as bg_open does, and fills in `out` from the header of the file that was
 * opened, even if the file at that path is replaced during the call. The caller must set
 * out->struct_size. `out` is filled in even if only the header could be read.
 */
BG_API BG_MUST_CHECK bg_err bg_open_with_info(const char *path,
                                              const bg_open_options *options,
                                              bg_file_info *out, bg_filter **filter,
                                              bg_errinfo *info);

/* ---- Files in memory ------------------------------------------------------------- */

/*
 * Writes a filter to memory, in the file format. *written is set to the size of the
 * result. `room` is the number of bytes available at `bytes`. If `bytes` is NULL, only the
 * size is computed.
 * Errors: those of bg_save; BG_EINVAL if `room` is too small.
 */
BG_API BG_MUST_CHECK bg_err bg_encode(const bg_filter *filter,
                                      const bg_save_options *options, void *bytes,
                                      size_t room, size_t *written, bg_errinfo *info);

/*
 * A callback that receives the next n bytes of a file. Any result other than BG_OK stops
 * the encoding.
 */
typedef bg_err (*bg_file_write_fn)(void *context, const void *bytes, size_t n);

/*
 * Passes the bytes that bg_encode would produce to the callback `write`, chunk by chunk
 * and in order. A chunk is at most 1 MiB long, except for the checksum table of a very
 * large filter. The file is not held in memory. Instead, the filter is read twice, because
 * the header includes a digest of everything after it.
 * Errors: BG_EINVAL; BG_ENOMEM, before anything is written; BG_EBUSY if the filter changed
 * between the two passes, so the written bytes are not a valid file; BG_ECANCELED; any
 * error that `write` returns.
 * Thread safety: MT-Safe (MT-Excl on a BG_SPEC_EXCLUSIVE filter). Cost: reads the filter
 * twice; filters of kinds in which keys move are copied first, unless BG_FILE_FROZEN is
 * set.
 */
BG_API BG_MUST_CHECK bg_err bg_encode_stream(const bg_filter *filter,
                                             const bg_save_options *options,
                                             bg_file_write_fn write, void *context,
                                             bg_errinfo *info);

/*
 * Creates a filter from the n bytes of a file, with the same checks as bg_open. The bytes
 * are not needed after the call. After `progress` has reported d bytes, the first d bytes
 * are no longer needed.
 */
BG_API BG_MUST_CHECK bg_err bg_decode(const void *bytes, size_t n,
                                      const bg_open_options *options,
                                      bg_filter **filter, bg_errinfo *info);

/*
 * Reads the header (the first 4096 bytes) of a file in memory, as bg_file_get_info does
 * for a file on disk.
 */
BG_API BG_MUST_CHECK bg_err bg_encoded_get_info(const void *bytes, size_t n,
                                                bg_file_info *out, bg_errinfo *info);

/* Verifies a file in memory, as bg_verify does for a file on disk. */
BG_API BG_MUST_CHECK bg_err bg_encoded_verify(const void *bytes, size_t n,
                                              const bg_open_options *options,
                                              bg_verify_report *report,
                                              bg_errinfo *info);

/* ---- Several files --------------------------------------------------------------- */

/*
 * Merges n files of the same kind, geometry and hash, and saves the result to `to`.
 * Errors: those of bg_open and bg_save; BG_EINCOMPAT if the files differ in kind, geometry or hash;
 * the message describes the difference.
 */
BG_API BG_MUST_CHECK bg_err bg_file_merge(const char *const *paths, size_t n,
                                          const char *to,
                                          const bg_open_options *opening,
                                          const bg_save_options *saving,
                                          bg_errinfo *info);

/* Folds a file `folds` times, as bg_filter_fold does, and saves the result to `to`. */
BG_API BG_MUST_CHECK bg_err bg_file_fold(const char *path, uint32_t folds,
                                         const char *to, const bg_open_options *opening,
                                         const bg_save_options *saving,
                                         bg_errinfo *info);

/* Saves each shard of a filter to its own file: `to`.0, `to`.1 and so on. */
BG_API BG_MUST_CHECK bg_err bg_file_split(const char *path, const char *to,
                                          const bg_open_options *opening,
                                          const bg_save_options *saving,
                                          bg_errinfo *info);

/*
 * Joins the shards `from`.0 to `from`.(shards - 1) that bg_file_split wrote.
 * Errors: BG_EINCOMPAT if a shard is in the wrong position, or if the shards are from
 * different splits, which an interrupted split can leave behind.
 */
BG_API BG_MUST_CHECK bg_err bg_file_join(const char *from, uint32_t shards,
                                         const char *to, const bg_open_options *opening,
                                         const bg_save_options *saving,
                                         bg_errinfo *info);

/* The difference between two files. */
typedef struct bg_file_difference {
    uint32_t struct_size; /* sizeof(bg_file_difference) */
    bool same_layout;     /* false if the blocks cannot be compared; the other fields
                             are then 0 */
    uint64_t blocks;      /* number of blocks in each file */
    uint64_t different;   /* number of blocks that differ */
    uint64_t patch_bytes; /* size of the patch that bg_file_patch would write */
} bg_file_difference;

/* Compares two files by the checksums of their blocks, without reading the blocks. */
BG_API BG_MUST_CHECK bg_err bg_file_diff(const char *from, const char *to,
                                         bg_file_difference *difference,
                                         bg_errinfo *info);

/*
 * Writes a patch that turns `from` into `to`. The patch consists of the header, the numbers and the
 * checksum table of `to`, and the blocks that differ. If the files have different layouts, the
 * patch includes all blocks.
 */
BG_API BG_MUST_CHECK bg_err bg_file_patch(const char *from, const char *to,
                                          const char *patch, bg_errinfo *info);

/*
 * Applies a patch to `from`, verifies the result and saves it to `to`.
 * Errors: BG_EINCOMPAT if the patch was created for a file other than `from`; those of
 * bg_save.
 */
BG_API BG_MUST_CHECK bg_err bg_file_apply(const char *from, const char *patch,
                                          const char *to, bg_errinfo *info);

/* ---- Canaries -------------------------------------------------------------------- */

#define BG_CANARY_COUNT 16
#define BG_CANARY_BYTES 24

/*
 * Computes canary i (0 to BG_CANARY_COUNT - 1) of a generation: a key that does not occur
 * in real data. Add all canaries of a generation to a filter before you save the filter
 * with that generation. bg_open then refuses the file if a canary is missing. Canaries
 * detect a wrong hash, a faulty instruction or an empty filter, none of which checksums
 * can detect. A file records whether it contains canaries. A filter that was loaded from a
 * file with canaries keeps them when it is saved with another generation.
 */
BG_API void bg_canary(uint64_t generation, uint32_t i, uint8_t key[BG_CANARY_BYTES]);

#ifdef __cplusplus
}
#endif

#endif

/*
 * packed.h - a filter inside of somebody else's block, asked where it lies.
 *
 * Storage engines keep a filter as some bytes of their own file, under their own checksum,
 * in their own cache, and hand these bytes over when they want to know something. A packed
 * filter is made for that: the bits as they are, a few numbers, and 8 bytes that tell what
 * it is. Opening one copies nothing.
 *
 *     size_t n;
 *     bg_packed_encode(filter, NULL, 0, &n, NULL);       // how many bytes
 *     bg_packed_encode(filter, block, n, &n, NULL);      // ... into the engine's block
 *
 *     bg_packed *asked;
 *     if (bg_packed_open(block, n, &asked, NULL) != BG_OK)
 *         return MAYBE;                                 // not one of ours: no answer
 *     bg_packed_may_contain_hash(asked, bg_hash_bytes(&hasher, key, len));
 *
 * Keys are hashed by the caller, who has to keep the hasher's spec himself: there is
 * nothing about hashing in the bytes.
 *
 * Caveats
 *   - There is no checksum in it: the engine has one. Bytes that are not what was written
 *     cannot hurt, but may deny a key. Files of our own (file.h) detect any damage.
 *   - A packed filter is for machines of the byte order that it was written on; others
 *     refuse to open it (BG_EFORMAT).
 *   - It cannot be changed.
 */
#ifndef BLOOMGATE_PACKED_H
#define BLOOMGATE_PACKED_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A packed filter that is being asked. Opaque; 320 bytes, and of static kinds 8 more for
 * every million of keys. */
typedef struct bg_packed bg_packed;

/* Where the bytes must begin: at a multiple of this. */
#define BG_PACKED_ALIGNMENT 8

/*
 * Packs a filter into `room` bytes at `to`; *bytes says how many it takes. `to` NULL: only
 * says how many. The bits come first, so that they have the alignment of `to`.
 * Errors: BG_ENOTSUP for kinds that can remove or count, for composed ones and filters in
 * shards; BG_EINVAL for NULL and when there is no room.
 * Thread safety: MT-Safe; adds that run at the same time may or may not be in it. Cost:
 * reads every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_packed_encode(const bg_filter *filter, void *to,
                                             size_t room, size_t *bytes,
                                             bg_errinfo *info);

/*
 * Opens n packed bytes, which must stay as they are until bg_packed_free. They may come from
 * anywhere: whatever is accepted can be asked without reading outside of them.
 * Errors: BG_EFORMAT for bytes that are no packed filter of this machine's byte order;
 * BG_EVERSION for a later form of them; BG_EINVAL for NULL and for an address that is not a
 * multiple of BG_PACKED_ALIGNMENT; BG_ENOMEM. On error *packed is NULL.
 * Thread safety: MT-Safe. Cost: below a microsecond.
 */
BG_API BG_MUST_CHECK bg_err bg_packed_open(const void *bytes, size_t n,
                                           bg_packed **packed, bg_errinfo *info);

/* NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_packed_free(bg_packed *packed);

/*
 * Whether it may contain the key of that hash; false: certainly not. NULL: "maybe".
 * Thread safety: MT-Safe. Cost: as bg_filter_may_contain_hash.
 */
BG_API inline bool bg_packed_may_contain_hash(const bg_packed *packed, uint64_t hash)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(const void *)packed;
    return !packed
           || calls->may_contain((const struct bgi_core *)(const void *)packed, hash);
}

/* The same for n hashes: see bg_filter_may_contain_many_hash. */
BG_API size_t bg_packed_may_contain_hashes(const bg_packed *packed,
                                           const uint64_t *hashes, size_t n,
                                           uint64_t *maybe);

#ifdef __cplusplus
}
#endif

#endif

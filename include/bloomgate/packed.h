/*
 * packed.h - a filter inside a storage-engine block, queried in place.
 *
 * A storage engine keeps a filter as bytes in its own files, with its own checksums and
 * its own cache, and passes these bytes to a query. A packed filter consists of the bits,
 * a few numbers and an 8-byte trailer that describes it. Opening a packed filter copies
 * nothing.
 *
 *     size_t n;
 *     if (bg_packed_encode(filter, NULL, 0, &n, &why)              // computes the size
 *         || bg_packed_encode(filter, block, n, &n, &why))         // writes to the block
 *         return 1;
 *
 *     bg_packed *packed;
 *     if (bg_packed_open(block, n, &packed, NULL))
 *         return true;                                // not a packed filter: "maybe"
 *     bool maybe = bg_packed_may_contain_hash(packed, bg_hash_bytes(&hasher, key, len));
 *     bg_packed_free(packed);
 *
 * The caller hashes the keys. It must also keep the hash spec, because the packed bytes do
 * not include it.
 *
 * Caveats
 *   - A packed filter has no checksum; the engine must provide one. Querying damaged bytes
 *     is memory-safe, but the query may answer "no" for a key that was added. Filter files
 *     (file.h) detect all damage.
 *   - Packed bytes use the byte order of the machine that wrote them. On a machine with a
 *     different byte order, opening them fails with BG_EFORMAT.
 *   - A packed filter cannot be changed.
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

/*
 * An open packed filter. Opaque. It needs 320 bytes of memory, plus 8 bytes per million
 * keys for static kinds.
 */
typedef struct bg_packed bg_packed;

/* Required alignment of the packed bytes. */
#define BG_PACKED_ALIGNMENT 8

/*
 * Packs a filter into the `room` bytes at `to`. *bytes is set to the size of the packed
 * filter. If `to` is NULL, only the size is computed. The bits come first, so they have
 * the alignment of `to`.
 * Errors: BG_ENOTSUP unless the filter is an unsharded filter of a Bloom or static kind;
 * BG_EINVAL for NULL, for an address that is not a multiple of BG_PACKED_ALIGNMENT, and if
 * `room` is too small.
 * Thread safety: MT-Safe; keys added during the call may or may not be included. Cost:
 * reads every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_packed_encode(const bg_filter *filter, void *to,
                                             size_t room, size_t *bytes,
                                             bg_errinfo *info);

/*
 * Opens n packed bytes, which must stay valid and unchanged until bg_packed_free. The
 * bytes may come from an untrusted source, because queries never read outside of them.
 * Errors: BG_EFORMAT if the bytes are not a packed filter in this machine's byte order;
 * BG_EVERSION for a newer version of the format; BG_EINVAL for NULL, and for an address
 * that is not a multiple of BG_PACKED_ALIGNMENT; BG_ENOMEM. On error *packed is NULL.
 * Thread safety: MT-Safe. Cost: less than a microsecond.
 */
BG_API BG_MUST_CHECK bg_err bg_packed_open(const void *bytes, size_t n,
                                           bg_packed **packed, bg_errinfo *info);

/* Frees the handle, but not the packed bytes; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_packed_free(bg_packed *packed);

/*
 * Returns false if the key with this hash was certainly never added, and true if it may
 * have been; true for NULL.
 * Thread safety: MT-Safe. Cost: same as bg_filter_may_contain_hash.
 */
BG_API inline bool bg_packed_may_contain_hash(const bg_packed *packed, uint64_t hash)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(const void *)packed;
    return !packed
           || calls->may_contain((const struct bgi_core *)(const void *)packed, hash);
}

/*
 * Queries n hashes. Returns the number of hashes that may be in the filter, and sets their
 * bits in the bitmap `maybe` unless it is NULL (see bg_filter_may_contain_many).
 * Thread safety: MT-Safe.
 */
BG_API size_t bg_packed_may_contain_hashes(const bg_packed *packed,
                                           const uint64_t *hashes, size_t n,
                                           uint64_t *maybe);

#ifdef __cplusplus
}
#endif

#endif

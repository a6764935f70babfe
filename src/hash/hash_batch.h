/*
 * hash_batch.h - hashing for the batch pipelines of other layers.
 *
 * A pipeline hashes a group of 16 to 64 keys, prefetches the memory that these keys map to, and
 * probes one group while the memory for the next group arrives. Only this layer distinguishes
 * between the forms of keys (bloomgate/keys.h).
 */
#ifndef BGI_HASH_BATCH_H
#define BGI_HASH_BATCH_H

#include "bloomgate/hasher.h"

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the stride of the key array in bytes, for prefetching. */
BGI_INLINE size_t bgi_keys_stride(const bg_keys *keys)
{
    return keys->form == BG_KEYS_FIXED   ? keys->width
           : keys->form == BG_KEYS_BYTES ? sizeof(bg_bytes)
                                         : sizeof(uint64_t);
}

/*
 * Prefetches the memory that hashing keys first .. first + n - 1 will read. Pipelines read in
 * bursts, which defeats the CPU's hardware prefetcher, and keys passed as (pointer, length) pairs
 * may be anywhere in memory. If the keys are pairs and `far` is 0, the pairs themselves are read,
 * so they should already be in the cache. To prefetch the pairs, call this function with `far` set
 * to 1 a few groups earlier.
 */
BGI_INLINE void bgi_keys_prefetch(const bg_keys *keys, size_t first, size_t n, int far)
{
    const char *data = (const char *)keys->data;
    if (keys->form != BG_KEYS_BYTES) {
        const size_t stride = bgi_keys_stride(keys);
        for (size_t at = first * stride; far && at < (first + n) * stride; at += 64) {
            /* A group spans only a few cache lines, so they are prefetched into L1. */
            __builtin_prefetch(data + at);
        }
        return;
    }
    const bg_bytes *pairs = (const bg_bytes *)keys->data + first;
    for (size_t i = 0; i < n; i += far ? 64 / sizeof *pairs : 1) {
        BGI_PREFETCH(far ? (const void *)&pairs[i] : pairs[i].data);
    }
}

/*
 * Writes the hashes of keys first .. first + n - 1 to out[0..n). Each hash is the same as when the
 * key is hashed on its own. Keys that are already hashes are copied. Any n is allowed; with 8 or
 * more keys, hashes are computed in parallel.
 */
void bgi_hash_range(const bg_hasher *hasher, const bg_keys *keys, size_t first,
                    size_t n, uint64_t *out);

/* Returns whether `keys` describes a valid array. */
BGI_INLINE bool bgi_keys_are_valid(const bg_keys *keys)
{
    const size_t stride = keys->form <= BG_KEYS_HASHES ? bgi_keys_stride(keys) : 0;
    return stride > 0 && keys->count <= SIZE_MAX / stride
           && (keys->data || keys->count == 0);
}

/* Returns whether these keys can be used with a hasher. Only keys that were passed as hashes can
 * fail this check. */
BGI_INLINE bool bgi_keys_fit(const bg_keys *keys, const bg_hasher *hasher)
{
    return keys->form != BG_KEYS_HASHES || !keys->check
           || keys->check == bg_hasher_check(hasher);
}

#endif

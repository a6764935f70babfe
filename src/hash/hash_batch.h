/*
 * hash_batch.h - hashing for the batch pipelines of other rooms.
 *
 * A pipeline hashes a group of 16 to 64 keys, prefetches, and probes while the next
 * group is on its way. It does not want to know in which of the three forms the caller
 * brought the keys: that is told once in a `struct bgi_keys`.
 */
#ifndef BGI_HASH_BATCH_H
#define BGI_HASH_BATCH_H

#include "bloomgate/hash.h"

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

enum bgi_keys_form {
    BGI_KEYS_PAIRS, /* data: an array of bg_bytes */
    BGI_KEYS_FIXED, /* data: keys of `width` bytes, one after another */
    BGI_KEYS_U64    /* data: an array of uint64_t */
};

struct bgi_keys {
    enum bgi_keys_form form;
    size_t width; /* BGI_KEYS_FIXED only: 1 or more */
    const void *data;
};

BGI_INLINE struct bgi_keys bgi_keys_pairs(const bg_bytes *keys)
{
    return (struct bgi_keys){ BGI_KEYS_PAIRS, 0, keys };
}

BGI_INLINE struct bgi_keys bgi_keys_fixed(const void *keys, size_t width)
{
    return (struct bgi_keys){ BGI_KEYS_FIXED, width, keys };
}

BGI_INLINE struct bgi_keys bgi_keys_u64(const uint64_t *keys)
{
    return (struct bgi_keys){ BGI_KEYS_U64, sizeof *keys, keys };
}

/*
 * Asks for the memory that hashing keys first .. first + n - 1 will read. Pipelines read
 * in bursts, which outruns the processor's own detection of streams, and keys given as
 * pairs may lie anywhere. Reads the pairs themselves, so those must be near: `far` asks
 * for what is needed for that, some groups earlier.
 */
BGI_INLINE void bgi_keys_ask(const struct bgi_keys *keys, size_t first, size_t n,
                             int far)
{
    const char *data = (const char *)keys->data;
    if (keys->form != BGI_KEYS_PAIRS) {
        for (size_t at = first * keys->width; far && at < (first + n) * keys->width;
             at += 64) {
            __builtin_prefetch(data + at); /* few lines: they may go all the way */
        }
        return;
    }
    const bg_bytes *pairs = (const bg_bytes *)keys->data + first;
    for (size_t i = 0; i < n; i += far ? 64 / sizeof *pairs : 1) {
        BGI_PREFETCH(far ? (const void *)&pairs[i] : pairs[i].data);
    }
}

/*
 * The hashes of keys first .. first + n - 1 of `keys`, into out[0..n). Each equals that
 * of the single call. Any n is allowed; from 8 on the keys run side by side.
 */
void bgi_hash_range(const bg_hasher *hasher, const struct bgi_keys *keys, size_t first,
                    size_t n, uint64_t *out);

#endif

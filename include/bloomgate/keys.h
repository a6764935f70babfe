/*
 * keys.h - single keys and arrays of keys.
 *
 * A key is a string of bytes of any length. An integer key (`_u64`) is equivalent to its 8
 * bytes in little-endian order. A caller that has already hashed a key passes the hash
 * (`_hash`); hash.h lists the requirements for such hashes.
 *
 * Most batch functions (`_many`) accept an array of keys in any form; gates and tenants need
 * the bytes of the keys and accept an array of `bg_bytes`. A `bg_keys` describes an array
 * without copying it:
 *
 *     bg_filter_may_contain_many(filter, bg_keys_u64(ids, n), maybe);
 *     bg_filter_may_contain_many(filter, bg_keys_fixed(uuids, 16, n), maybe);
 *
 *   constructor         the array                            a key is
 *   bg_keys_bytes       (pointer, length) pairs              that many bytes
 *   bg_keys_fixed       records of one width, back to back   `width` bytes
 *   bg_keys_u64         64-bit integers                      an integer key
 *   bg_keys_hashes      64-bit hashes                        hashed already
 *   bg_keys_hashes_of   64-bit hashes of a known hasher      hashed already
 *
 * The keys must stay unchanged until the call returns. No pointer to them is kept.
 */
#ifndef BLOOMGATE_KEYS_H
#define BLOOMGATE_KEYS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One key as bytes. */
typedef struct bg_bytes {
    const void *data; /* may be NULL if len is 0 */
    size_t len;       /* any length; NUL bytes are ordinary bytes */
} bg_bytes;

/* The form of the keys in an array. The values are permanent. */
typedef enum bg_keys_form {
    BG_KEYS_BYTES = 0,
    BG_KEYS_FIXED = 1,
    BG_KEYS_U64 = 2,
    BG_KEYS_HASHES = 3
} bg_keys_form;

/* A view of an array of keys. Use the functions below to create one. */
typedef struct bg_keys {
    const void *data; /* the array; may be NULL if count is 0 */
    size_t count;     /* number of keys */
    size_t width;     /* BG_KEYS_FIXED: bytes per key, at least 1; otherwise 0 */
    uint64_t check;   /* BG_KEYS_HASHES: bg_hasher_check of the hasher, or 0 */
    uint32_t form;    /* a bg_keys_form */
    uint32_t reserved;
} bg_keys;

/* Describes n keys given as (pointer, length) pairs. */
static inline bg_keys bg_keys_bytes(const bg_bytes *keys, size_t n)
{
    bg_keys view = { keys, n, 0, 0, BG_KEYS_BYTES, 0 };
    return view;
}

/* Describes n keys of `width` bytes each, stored back to back. */
static inline bg_keys bg_keys_fixed(const void *keys, size_t width, size_t n)
{
    bg_keys view = { keys, n, width, 0, BG_KEYS_FIXED, 0 };
    return view;
}

/* Describes n integer keys. */
static inline bg_keys bg_keys_u64(const uint64_t *keys, size_t n)
{
    bg_keys view = { keys, n, 0, 0, BG_KEYS_U64, 0 };
    return view;
}

/* Describes n hashes, which must come from the hasher of the filter they are used with. */
static inline bg_keys bg_keys_hashes(const uint64_t *hashes, size_t n)
{
    bg_keys view = { hashes, n, 0, 0, BG_KEYS_HASHES, 0 };
    return view;
}

/*
 * Describes n hashes computed by the hasher whose bg_hasher_check value is `check`. A
 * filter with a different hasher answers "maybe" to every query for them and refuses to
 * add them (BG_EINCOMPAT). Slots accept hashes only in this form (bg_slot_hash_many).
 */
static inline bg_keys bg_keys_hashes_of(const uint64_t *hashes, size_t n,
                                        uint64_t check)
{
    bg_keys view = { hashes, n, 0, check, BG_KEYS_HASHES, 0 };
    return view;
}

#ifdef __cplusplus
}
#endif

#endif

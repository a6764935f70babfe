/*
 * keys.h - the keys to add and look up, prepared before any clock starts.
 *
 * Key i of a set is a one-to-one mix of i and the set's number. Therefore, keys never repeat, sets
 * never overlap, the number of present keys is exact, and any part of a set can be recomputed
 * instead of being stored.
 */
#ifndef BGB_KEYS_H
#define BGB_KEYS_H

#include "bloomgate/all.h"

#include <stddef.h>
#include <stdint.h>

/* BGB_KEYS_SLACK is the number of readable keys after the end of each array of keys or hashes; they
 * are needed because prefetching reads ahead. */
enum { BGB_KEYS_SLACK = 256, BGB_RECORD_BYTES = 16 };

enum bgb_set { BGB_SET_PRESENT = 1, BGB_SET_ABSENT, BGB_SET_FRESH, BGB_SET_RECORDS };

/* Returns key i of a set. */
uint64_t bgb_key(enum bgb_set set, uint64_t i);

/* Returns the high 64 bits of x * range, which maps a uniform 64-bit integer to 0 .. range - 1. */
static inline uint64_t bgb_mulhi(uint64_t x, uint64_t range)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)x * range) >> 64);
#else
    uint64_t xl = x & 0xffffffffu, xh = x >> 32;
    uint64_t rl = range & 0xffffffffu, rh = range >> 32;
    uint64_t middle = xh * rl + ((xl * rl) >> 32);
    uint64_t cross = xl * rh + (middle & 0xffffffffu);
    return xh * rh + (middle >> 32) + (cross >> 32);
#endif
}

struct bgb_keys {
    uint64_t n;        /* number of present keys */
    size_t pool;       /* number of keys in each array, except arrays of fresh keys */
    size_t fresh_pool; /* number of fresh keys: at most n / 2 */
    uint64_t *present; /* drawn at random from the n present keys */
    uint64_t *absent;
    uint64_t *mixed; /* a random mix of present and absent keys, about half each */
    uint64_t *fresh; /* keys to add: neither present nor looked up elsewhere */
    uint64_t *present_hash; /* hashes of the keys above (profile `fast`, seed 0) */
    uint64_t *absent_hash;
    uint64_t *mixed_hash;
    uint64_t *fresh_hash;
    bg_bytes *absent_bytes; /* a separate set of keys, in contiguous 16-byte records */
    bg_bytes *fresh_bytes;
    unsigned char *records;
};

/* Prepares keys for filters with n keys. The pool size is n, rounded up to a power of two, but at
 * least 2^17 and at most 2^21. The pool of a small filter is small, so that reading keys from
 * memory does not dominate the measured time. */
void bgb_keys_make(struct bgb_keys *keys, uint64_t n);
void bgb_keys_free(struct bgb_keys *keys);

/* Adds the first n present keys to a filter. */
void bgb_keys_fill(bg_filter *filter, uint64_t n);

/* Returns the number of keys per pass for a filter of `bytes` bytes: enough to touch most of its
 * lines, but at most 2^19. */
size_t bgb_keys_chunk(const struct bgb_keys *keys, uint64_t bytes);

#endif

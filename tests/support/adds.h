/*
 * adds.h - functions that add keys and ignore errors. After an add that does not fit, the filter
 * answers "maybe" to every query (bg_filter_add_forced).
 */
#ifndef SUPPORT_ADDS_H
#define SUPPORT_ADDS_H

#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Adds keys and returns how many were certainly new. Marks the new keys in `is_new` unless `is_new`
 * is NULL. */
static inline size_t added_many(bg_filter *filter, bg_keys keys, uint64_t *is_new)
{
    size_t added = 0;
    (void)!bg_filter_add_forced(filter, keys, is_new, &added);
    return added;
}

/* Adds a key and returns whether the key was certainly new. */
static inline bool added(bg_filter *filter, const void *key, size_t len)
{
    const bg_bytes one = { key, len };
    return added_many(filter, bg_keys_bytes(&one, 1), NULL) == 1;
}

static inline bool added_u64(bg_filter *filter, uint64_t key)
{
    return added_many(filter, bg_keys_u64(&key, 1), NULL) == 1;
}

static inline bool added_hash(bg_filter *filter, uint64_t hash)
{
    return added_many(filter, bg_keys_hashes(&hash, 1), NULL) == 1;
}

#endif

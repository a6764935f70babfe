/*
 * bench_adds.h - add functions for benchmarks. They ignore errors, so the filter must have space
 * for all keys.
 */
#ifndef BENCH_BENCH_ADDS_H
#define BENCH_BENCH_ADDS_H

#include "bloomgate/filter.h"

/* Adds keys and returns the number of keys that were definitely not in the filter before. */
static inline size_t added_many(bg_filter *filter, bg_keys keys, uint64_t *is_new)
{
    size_t added = 0;
    (void)!bg_filter_add_many(filter, keys, is_new, NULL, &added);
    return added;
}

/* Adds a key and returns whether it was definitely not in the filter before. */
static inline bool added(bg_filter *filter, const void *key, size_t len)
{
    bool is_new = false;
    (void)!bg_filter_add(filter, key, len, &is_new);
    return is_new;
}

static inline bool added_u64(bg_filter *filter, uint64_t key)
{
    bool is_new = false;
    (void)!bg_filter_add_u64(filter, key, &is_new);
    return is_new;
}

static inline bool added_hash(bg_filter *filter, uint64_t hash)
{
    bool is_new = false;
    (void)!bg_filter_add_hash(filter, hash, &is_new);
    return is_new;
}

#endif

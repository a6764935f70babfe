/*
 * key_pool.h - a set of distinct keys in memory, and derived keys that are definitely not in the
 * set.
 */
#ifndef CLI_KEY_POOL_H
#define CLI_KEY_POOL_H

#include "bloomgate/all.h"

struct key_pool_block;

struct key_pool {
    bg_bytes *keys;
    size_t count, room;
    uint64_t bytes;  /* total length of all keys */
    uint32_t *slots; /* hash table of 1-based key indexes */
    size_t slot_count;
    struct key_pool_block *blocks;
    bg_hasher hasher;
};

enum { KEY_POOL_MAX = INT32_MAX }; /* keys */

/* Returns false if out of memory. */
bool key_pool_begin(struct key_pool *pool);
void key_pool_end(struct key_pool *pool);

/* Copies a key into the pool, unless it is already there. Returns false if out of memory. */
bool key_pool_add(struct key_pool *pool, bg_bytes key);
bool key_pool_has(const struct key_pool *pool, bg_bytes key);

/*
 * Creates keys that are not in the pool: each key of the pool with two bytes appended, unless the
 * resulting key is also in the pool. The absent keys therefore resemble the present keys in length
 * and content. Sets *absent to an array of keys and *memory to the block that contains their bytes;
 * the caller frees both. Returns false if out of memory.
 */
bool key_pool_absent(const struct key_pool *pool, bg_bytes **absent, size_t *count,
                     char **memory);

#endif

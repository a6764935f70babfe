/*
 * key_pool.h - different keys in memory, each once, and others that are certainly not among
 * them.
 */
#ifndef CLI_KEY_POOL_H
#define CLI_KEY_POOL_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_pool_block;

struct key_pool {
    bg_bytes *keys;
    size_t count, room;
    uint64_t bytes;  /* of all keys */
    uint32_t *slots; /* a hash table: number of a key, from 1 */
    size_t slot_count;
    struct key_pool_block *blocks;
    bg_hasher hasher;
};

enum { KEY_POOL_MOST = INT32_MAX }; /* keys */

/* False: no memory. */
bool key_pool_begin(struct key_pool *pool);
void key_pool_end(struct key_pool *pool);

/* Copies a key into it, unless it is there already. False: no memory. */
bool key_pool_add(struct key_pool *pool, bg_bytes key);
bool key_pool_has(const struct key_pool *pool, bg_bytes key);

/*
 * Keys that are not in the pool: each of its keys with two bytes more, but for those that
 * happen to be in it. So they are as long and look like what is there. An array and one
 * piece of memory that it points into, both to be freed. False: no memory.
 */
bool key_pool_absent(const struct key_pool *pool, bg_bytes **absent, size_t *count,
                     char **memory);

#endif

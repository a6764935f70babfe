/*
 * key_pool.c - see key_pool.h. Keys are stored in blocks and never move. The table contains key
 * indexes and is at most half full.
 */
#include "key_pool.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_BLOCK = 1 << 20, POOL_FIRST = 1024 };

struct key_pool_block {
    struct key_pool_block *next;
    size_t used, room;
    char bytes[];
};

bool key_pool_begin(struct key_pool *pool)
{
    const bg_hash_spec how = { .profile = BG_HASH_FAST };
    *pool = (struct key_pool){ .slot_count = 2 * POOL_FIRST };
    pool->slots = calloc(pool->slot_count, sizeof *pool->slots);
    return pool->slots && bg_hasher_init(&pool->hasher, &how, NULL) == BG_OK;
}

void key_pool_end(struct key_pool *pool)
{
    while (pool->blocks) {
        struct key_pool_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
    free(pool->keys);
    free(pool->slots);
    *pool = (struct key_pool){ .keys = NULL };
}

static bool pool_same(bg_bytes a, bg_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Returns the slot of a key, or the empty slot in which to store it. */
static uint32_t *pool_slot(const struct key_pool *pool, bg_bytes key)
{
    size_t i = (size_t)bg_hash_bytes(&pool->hasher, key.data, key.len);
    for (;; i++) {
        uint32_t *slot = &pool->slots[i & (pool->slot_count - 1)];
        if (!*slot || pool_same(pool->keys[*slot - 1], key)) {
            return slot;
        }
    }
}

static bool pool_grow(struct key_pool *pool)
{
    const size_t room = pool->room ? 2 * pool->room : POOL_FIRST;
    bg_bytes *keys = realloc(pool->keys, room * sizeof *keys);
    if (!keys) {
        return false;
    }
    pool->keys = keys;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!slots) {
        return false;
    }
    free(pool->slots);
    pool->slots = slots;
    pool->slot_count = 2 * room;
    pool->room = room;
    for (size_t i = 0; i < pool->count; i++) {
        *pool_slot(pool, keys[i]) = (uint32_t)i + 1;
    }
    return true;
}

static char *pool_take(struct key_pool *pool, size_t bytes)
{
    struct key_pool_block *block = pool->blocks;
    if (!block || block->room - block->used < bytes) {
        const size_t room = bytes > POOL_BLOCK ? bytes : POOL_BLOCK;
        block = malloc(sizeof *block + room);
        if (!block) {
            return NULL;
        }
        *block = (struct key_pool_block){ pool->blocks, 0, room };
        pool->blocks = block;
    }
    block->used += bytes;
    return block->bytes + block->used - bytes;
}

bool key_pool_has(const struct key_pool *pool, bg_bytes key)
{
    return *pool_slot(pool, key) != 0;
}

bool key_pool_add(struct key_pool *pool, bg_bytes key)
{
    if (pool->count == pool->room && !pool_grow(pool)) {
        return false;
    }
    uint32_t *slot = pool_slot(pool, key);
    if (*slot) {
        return true;
    }
    char *copy = pool_take(pool, key.len);
    if (!copy) {
        return false;
    }
    if (key.len) {
        memcpy(copy, key.data, key.len);
    }
    pool->keys[pool->count++] = (bg_bytes){ copy, key.len };
    pool->bytes += key.len;
    *slot = (uint32_t)pool->count;
    return true;
}

bool key_pool_absent(const struct key_pool *pool, bg_bytes **absent, size_t *count,
                     char **memory)
{
    static const char more[2] = { '\x01', '\x7f' }; /* few keys end with these bytes */
    char *to = malloc((size_t)pool->bytes + sizeof more * pool->count + 1);
    bg_bytes *keys = malloc((pool->count + 1) * sizeof *keys);
    *memory = to;
    *absent = keys;
    *count = 0;
    if (!to || !keys) {
        return false;
    }
    for (size_t i = 0; i < pool->count; i++) {
        const bg_bytes key = pool->keys[i];
        if (key.len) {
            memcpy(to, key.data, key.len);
        }
        memcpy(to + key.len, more, sizeof more);
        const bg_bytes made = { to, key.len + sizeof more };
        if (!key_pool_has(pool, made)) {
            keys[(*count)++] = made;
            to += made.len;
        }
    }
    return true;
}

/*
 * hash_list.h - a growing list of hashes, and its way to become a sorted set.
 *
 * The list is a row of chunks, each half as large as all before it, so that nothing is
 * copied while it grows and a third at most is in reserve. Sorting moves the hashes into
 * one array, by their high bits into buckets that fit the cache, and sorts each of
 * these: so the list is read once, and the array written once and read once.
 */
#ifndef BGI_HASH_LIST_H
#define BGI_HASH_LIST_H

#include "base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGI_CHUNKS_MAX = 128 };

struct bgi_hash_chunk {
    struct bgi_memory memory;
    size_t used, room; /* hashes */
};

struct bgi_hash_list {
    struct bgi_hash_chunk chunk[BGI_CHUNKS_MAX];
    unsigned chunks;
    size_t n;
    const bg_allocator *allocator;
    bool small_pages;
};

/* A part of the work is done: `share` of the sorting, 0 to 1. False: stop. Called by the
 * thread that called bgi_hash_list_sort, only. */
struct bgi_watch {
    bool (*part_done)(void *context, double share);
    void *context;
};

/* Makes room for n more hashes, if there is memory. */
bool bgi_hash_list_reserve(struct bgi_hash_list *list, size_t n);

/*
 * The next place for hashes: up to n, at least one as long as reserved places are left.
 * Fills in *got, and counts them as used.
 */
uint64_t *bgi_hash_list_next(struct bgi_hash_list *list, size_t n, size_t *got);

/*
 * Sorts and leaves each hash once: afterwards the list has one chunk. False for want of
 * memory, with nothing changed, or when `watch` says stop (*stopped): then all hashes are
 * still there, in whatever order.
 */
bool bgi_hash_list_sort(struct bgi_hash_list *list, unsigned threads,
                        const struct bgi_watch *watch, bool *stopped);

/* The hashes of a list of one chunk, or of none. */
const uint64_t *bgi_hash_list_all(const struct bgi_hash_list *list);

/* Gives all memory back; the list is empty. */
void bgi_hash_list_clear(struct bgi_hash_list *list);

#endif

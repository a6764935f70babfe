/*
 * hash_list.h - a growing list of hashes that can be turned into a sorted set.
 *
 * The list is a sequence of chunks, each half as large as all previous chunks together. So nothing
 * is copied while the list grows, and at most a third of the memory is unused. Sorting moves the
 * hashes into one array, partitioned by their high bits into buckets that fit in the cache, and
 * sorts each bucket. So the list is read once, and the array is written once and read once.
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

/* `part_done` is called with the share of the sorting that is done, 0 to 1. It returns false to
 * stop the sort. It is called only by the thread that called bgi_hash_list_sort. */
struct bgi_watch {
    bool (*part_done)(void *context, double share);
    void *context;
};

/* Reserves space for n more hashes. Returns false if out of memory. */
bool bgi_hash_list_reserve(struct bgi_hash_list *list, size_t n);

/*
 * Returns space for up to n hashes, and for at least one hash as long as reserved space is left.
 * Sets *got to the number of hashes that fit in this space. The list counts these hashes
 * immediately, so the caller must write all of them.
 */
uint64_t *bgi_hash_list_next(struct bgi_hash_list *list, size_t n, size_t *got);

/*
 * Sorts the list and removes duplicates. Afterwards, the list has one chunk. Returns false if out
 * of memory, in which case nothing has changed, or if `watch` stops the sort. If the sort was
 * stopped, *stopped is set, and all hashes are still in the list, in any order.
 */
bool bgi_hash_list_sort(struct bgi_hash_list *list, unsigned threads,
                        const struct bgi_watch *watch, bool *stopped);

/* Returns the hashes of a list with one chunk, or NULL if the list is empty. */
const uint64_t *bgi_hash_list_all(const struct bgi_hash_list *list);

/* Frees all memory, which leaves the list empty. */
void bgi_hash_list_clear(struct bgi_hash_list *list);

#endif

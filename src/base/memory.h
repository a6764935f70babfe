/*
 * memory.h - allocates memory for filters: zeroed, aligned, and on large pages where they pay
 * off.
 *
 * Filters are read at random addresses. With 4 KiB pages, nearly every lookup in a large filter
 * misses the TLB in addition to the cache, and walks the page tables. 2 MiB pages avoid this. Linux
 * provides large pages on request (madvise), so they are requested for blocks of 1 MiB or more. The
 * kernel zeroes pages when they are first accessed, so creating a filter of many GiB costs nothing
 * until the filter is used.
 *
 * Memory that contains a secret is hidden, that is, excluded from core files. The handle of a
 * filter with a keyed profile contains its secret, so the whole filter is hidden. Small blocks of
 * hidden memory are allocated from a pool (pool.h). Memory that holds only secrets (a keyring, or
 * a file being read) is also locked and withheld from child processes.
 */
#ifndef BGI_MEMORY_H
#define BGI_MEMORY_H

#include "bloomgate/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block of memory and its origin. */
struct bgi_memory {
    void *base; /* NULL: none */
    size_t bytes;
    bg_allocator allocator; /* if `allocate` is NULL, the memory came from the OS */
    bool hidden;            /* excluded from core files; always mapped unless pooled */
    bool pooled;            /* allocated from the pool */
};

/*
 * Allocates `bytes` zeroed bytes from `allocator`, or from the OS if `allocator` is NULL. The
 * block is aligned to 64 bytes, or to a larger boundary if it is large. If `small_pages` is set,
 * 2 MiB pages are not requested. Returns false if out of memory; `memory` is then empty.
 */
bool bgi_memory_take(struct bgi_memory *memory, size_t bytes,
                     const bg_allocator *allocator, bool small_pages);

/*
 * Like bgi_memory_take, but excludes the memory from core files. Memory from a custom allocator
 * is not hidden, because hiding it is the responsibility of the allocator's owner. If the pages
 * cannot be mapped, unhidden memory is used instead.
 */
bool bgi_memory_take_hidden(struct bgi_memory *memory, size_t bytes,
                            const bg_allocator *allocator, bool small_pages);

/*
 * A mapped file. Writes to the memory stay in this process and do not change the file. The
 * reverse is not true: bytes that other processes write to the file appear in memory, and
 * reading a page beyond the end of a truncated file raises SIGBUS.
 */
struct bgi_mapping {
    void *base; /* NULL: none */
    size_t bytes;
    bool watched; /* `file` is kept open to detect changes */
    bool doubted; /* the file changed, so all bits in memory have been set */
    int file;
    uint64_t size;
    int64_t modified[2]; /* seconds, nanoseconds */
};

/* Maps the first `bytes` bytes of a file. If `watched` is true, also records the file's size and
 * modification time. Returns false on error, with the reason in errno. */
bool bgi_mapping_make(struct bgi_mapping *mapping, int file, size_t bytes,
                      bool watched);

/* Returns whether the file is unchanged according to its size and modification time. Always
 * true for a file that is not watched. */
bool bgi_mapping_is_intact(const struct bgi_mapping *mapping);

/* Sets all bits of the memory, one chunk at a time, while other threads read it. Needs 2 MiB of
 * memory, or 1/4096 to 1/2048 of the size of the mapping if the mapping is large. Returns false if
 * out of memory; the bits of some chunks may already have been set. */
bool bgi_mapping_fill(const struct bgi_mapping *mapping);

void bgi_mapping_give(struct bgi_mapping *mapping);

/* Frees a block. `memory` may be empty. */
void bgi_memory_give(struct bgi_memory *memory);

/* The result of moving a block. */
struct bgi_move {
    uintptr_t from;
    size_t bytes;
    unsigned char *to; /* NULL if the block was not moved */
};

/* Lets `mover` move a block, unless the block came from the OS. The struct is passed by
 * value because the original may be inside the block. */
struct bgi_move bgi_memory_move(struct bgi_memory memory, const bg_mover *mover);

/* Returns the new address of an object that was in the block. Any other address is returned
 * unchanged. */
static inline void *bgi_moved(const struct bgi_move *move, const void *p)
{
    const uintptr_t at = (uintptr_t)p - move->from;
    return move->to && at < move->bytes ? move->to + at : (void *)(uintptr_t)p;
}

/* Resets a range of an allocated block to zero. If the range contains many pages from the OS, these
 * pages are returned to the kernel instead of being overwritten. */
void bgi_memory_zero(const struct bgi_memory *memory, void *start, size_t bytes);

/*
 * Allocates and frees memory for secrets. The memory is zeroed, on separate pages, and excluded
 * from core files. It reads as zero in child processes (before Linux 4.14, it is not mapped there),
 * and is locked if the OS permits it. bgi_secret_give wipes the memory before freeing it; `memory`
 * may be empty.
 */
bool bgi_secret_take(struct bgi_memory *memory, size_t bytes);
void bgi_secret_give(struct bgi_memory *memory);

/* Overwrites secrets. The compiler cannot optimize this call away. */
void bgi_wipe(void *p, size_t bytes);

#endif

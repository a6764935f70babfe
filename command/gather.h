/*
 * gather.h - a buffer for bytes that arrive in chunks. Its memory is released while the bytes are
 * read.
 *
 * A sender announces the size of a filter in advance. Only address space, which is plentiful, is
 * reserved for the whole filter, if it has at least 1 MiB. Memory is used only for bytes that have
 * arrived, since the kernel allocates pages on first write. The buffer never has to move to grow.
 * Bytes that have been read are released to the kernel step by step. Therefore, while a filter is
 * created from its file, each part of the filter is in memory only once.
 *
 *     |  released, reads as zeros  |  received  |  zeros, no memory yet  |
 *     0                          given                                 size
 *
 * Counting. An allocator does not count pages that are mapped directly. As bytes arrive, a buffer
 * that has an allocator therefore allocates the same amount of memory from that allocator. Apart
 * from a small header in each block, this memory is never touched, so it occupies almost no pages,
 * but the allocator counts it and can refuse it. It is freed when decoding starts (gather_uncount),
 * since the filter is counted from then on.
 *
 * Thread safety: one thread at a time.
 */
#ifndef COMMAND_GATHER_H
#define COMMAND_GATHER_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gather {
    uint8_t *bytes; /* a buffer of `size` bytes, initially zero; or NULL */
    size_t size;
    size_t given;
    bg_allocator allocator;     /* if its `allocate` is NULL, nothing is counted */
    struct gather_count *first; /* list of blocks allocated from the allocator */
    size_t counted;
};

/* Returns how much memory a buffer of `size` bytes occupies when its first n bytes have arrived. A
 * small buffer occupies all of its memory from the start. A large buffer occupies whole pages, and
 * one more page for its page table. */
size_t gather_footprint(size_t size, size_t n);

/* Reserves address space for `size` bytes (at least 1). If `allocator` is NULL, received bytes are
 * not counted. Returns false on failure. */
bool gather_begin(struct gather *gather, size_t size, const bg_allocator *allocator);

/* Counts the first n bytes by allocating the same amount of memory from the allocator. Call it
 * before the bytes arrive. Returns false if the allocator refuses the memory. */
bool gather_count(struct gather *gather, size_t n);

/* Frees the memory that gather_count allocated. Call it when all bytes have arrived and are about
 * to be decoded. */
void gather_uncount(struct gather *gather);

/* Releases the memory of the first n bytes, which must not be read again. */
void gather_give(struct gather *gather, size_t n);

/* Frees the buffer. Has no effect on a zero-initialized struct. */
void gather_end(struct gather *gather);

#endif

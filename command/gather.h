/*
 * gather.h - bytes that come in pieces, and are given back as they are read.
 *
 * Whoever sends a filter says first how large it is. That is believed for addresses, of which there
 * are enough, and for nothing else: memory is taken as far as bytes have come, since the system gives
 * pages when they are first written to. Nothing is ever moved to grow. What has been read goes back
 * to the system at once, so that while a filter is made of its file there is one of the two in memory,
 * not both.
 *
 *     |  given back, reads as zeros  |  has come  |  zeros, no memory yet  |
 *     0                             given                                 size
 *
 * Counting. No allocator counts pages that are mapped directly. A gather with an allocator therefore also
 * allocates as many bytes from it as have arrived. This memory is never touched, so it takes no pages, but
 * the allocator counts it and can refuse it. It is freed when decoding starts (gather_uncount), since the
 * filter is counted from then on.
 *
 * Threads: one at a time.
 */
#ifndef COMMAND_GATHER_H
#define COMMAND_GATHER_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gather {
    uint8_t *bytes; /* `size` of them, zeros at first; NULL: nothing was begun */
    size_t size;
    size_t given;
    bg_allocator allocator;     /* allocate NULL: nothing is counted */
    struct gather_count *first; /* memory held from the allocator */
    size_t counted;
};

/* Reserves addresses for `size` bytes, 1 or more. Returns false on failure. If `allocator` is NULL, nothing
 * is counted. */
bool gather_begin(struct gather *gather, size_t size, const bg_allocator *allocator);

/* Call before the first n bytes arrive. Returns false if the allocator refuses the memory. */
bool gather_count(struct gather *gather, size_t n);

/* Call when all bytes have arrived and are about to be decoded. */
void gather_uncount(struct gather *gather);

/* The first n bytes were read, and will not be again. */
void gather_give(struct gather *gather, size_t n);

/* Ends it, also one that was not begun. */
void gather_end(struct gather *gather);

#endif

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
 * Counting. Pages of the system's are in no allocator's books. A gather with an allocator holds memory
 * of it besides, as much as has come, which is not touched and so takes no pages: the allocator
 * counts, and refuses, what waits here between two requests. It is given back when decoding begins
 * (gather_uncount): from then on the filter counts.
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
    struct gather_count *first; /* what is held of it */
    size_t counted;
};

/* Begins with addresses for `size` bytes, 1 or more; false: there are not as many. `allocator` may be
 * NULL: nothing is counted. */
bool gather_begin(struct gather *gather, size_t size, const bg_allocator *allocator);

/* The first n bytes are about to come; false: the allocator has no memory for them. */
bool gather_count(struct gather *gather, size_t n);

/* All of it has come, and will be decoded at once. */
void gather_uncount(struct gather *gather);

/* The first n bytes were read, and will not be again. */
void gather_give(struct gather *gather, size_t n);

/* Ends it, also one that was not begun. */
void gather_end(struct gather *gather);

#endif

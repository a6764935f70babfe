/*
 * pool.h - allocates small pieces of hidden memory.
 *
 * Hidden memory is excluded from core files. The kernel can exclude only whole pages. A
 * separate mapping for each small filter with a secret would cost two system calls, a page fault
 * and half a page whenever a filter is created, copied or loaded. Instead, the pool maps slabs
 * and divides them into pieces.
 *
 *     slab, 256 KiB, aligned to its size: | header | piece | piece | ...
 *
 * All pieces of a slab have the same size: a multiple of 64 bytes, at most 25% above the
 * requested size.
 *
 *   (1) A free piece is zero, except for its first word, which links it to the next free piece.
 *   (2) A slab is in the list of its size class if and only if it has a free piece.
 *   (3) An empty slab is unmapped, unless it is the only slab in its list.
 */
#ifndef BGI_POOL_H
#define BGI_POOL_H

#include <stdbool.h>
#include <stddef.h>

/* The largest piece. */
enum { BGI_POOL_MAX = 16 << 10 };

/* Returns the piece size for a request of at most BGI_POOL_MAX bytes. */
size_t bgi_pool_size(size_t bytes);

/*
 * Allocates a piece of zeroed memory, aligned to 64 bytes. Returns NULL if out of memory.
 * bgi_pool_give wipes and frees the piece; pass the same size. Thread safety: MT-Safe.
 */
void *bgi_pool_take(size_t bytes);
void bgi_pool_give(void *piece, size_t bytes);

#endif

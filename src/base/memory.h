/*
 * memory.h - memory for filters: zeroed, aligned, on large pages where it pays.
 *
 * A filter is read at random places. On 4 KiB pages nearly every look-up in a large
 * filter also misses the TLB and walks the page tables; on 2 MiB pages it does not.
 * Linux gives large pages to those who ask (madvise), so we ask, from 1 MiB upwards.
 * Fresh pages are zeroed by the kernel when they are first touched, so creating a
 * filter of many GiB costs nothing until it is used.
 *
 * Memory with a secret in it is hidden: a filter of a keyed profile has its secret in its
 * handle, so all of it is left out of core files. Small pieces come from a pool (pool.h). Secrets
 * alone (a keyring, a file that is read) are also locked and kept from children.
 */
#ifndef BGI_MEMORY_H
#define BGI_MEMORY_H

#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One piece of memory and where it came from. */
struct bgi_memory {
    void *base; /* NULL: none */
    size_t bytes;
    bg_allocator allocator; /* allocate == NULL: the system's */
    bool hidden; /* left out of core files; mapped, whatever its size, unless */
    bool pooled; /* it is a piece of the pool */
};

/*
 * Takes `bytes` zeroed bytes aligned to 64 (more, if large) from `allocator`, or from
 * the system when it is NULL. `small_pages`: do not ask for 2 MiB pages.
 * False when there is no memory; `memory` is then empty.
 */
bool bgi_memory_take(struct bgi_memory *memory, size_t bytes,
                     const bg_allocator *allocator, bool small_pages);

/*
 * The same, left out of core files. What an allocator gives is its owner's business and
 * stays as it is; and where there are no pages left to be mapped, memory that is not
 * hidden has to do.
 */
bool bgi_memory_take_hidden(struct bgi_memory *memory, size_t bytes,
                            const bg_allocator *allocator, bool small_pages);

/*
 * A mapped file. Writes to the memory stay in this process and do not change the file. The reverse is not
 * true: bytes that other processes write to the file appear in memory, and reading a page beyond the end
 * of a truncated file raises SIGBUS.
 */
struct bgi_mapping {
    void *base; /* NULL: none */
    size_t bytes;
    bool watched; /* `file` is open, to detect changes */
    bool doubted; /* it has changed, and the memory is all ones instead */
    int file;
    uint64_t size;
    int64_t modified[2]; /* seconds, nanoseconds */
};

/* Maps the first `bytes` bytes of a file; `watched`: and records its modification time. Returns false on error;
 * errno has the reason. */
bool bgi_mapping_make(struct bgi_mapping *mapping, int file, size_t bytes,
                      bool watched);

/* Returns whether the file is unchanged according to its size and modification time. Always true for a file
 * that is not watched. */
bool bgi_mapping_is_intact(const struct bgi_mapping *mapping);

/* Replaces all of the memory by ones, in one step per piece, while other threads read it. Needs 2 MiB of memory,
 * or a 4096th of the mapping. Returns false if memory is short; a part may be ones already. */
bool bgi_mapping_fill(const struct bgi_mapping *mapping);

void bgi_mapping_give(struct bgi_mapping *mapping);

/* Gives it back; empty memory is allowed. */
void bgi_memory_give(struct bgi_memory *memory);

/* What became of a piece that somebody was asked to move. */
struct bgi_move {
    uintptr_t from;
    size_t bytes;
    unsigned char *to; /* NULL: it stayed */
};

/* Asks for a piece to be moved, unless it is the system's. It is handed over as a copy, since the
 * original may lie in the piece. */
struct bgi_move bgi_memory_move(struct bgi_memory memory, const bg_mover *mover);

/* Where an address is now that was in the piece; any other one stays as it is. */
static inline void *bgi_moved(const struct bgi_move *move, const void *p)
{
    const uintptr_t at = (uintptr_t)p - move->from;
    return move->to && at < move->bytes ? move->to + at : (void *)(uintptr_t)p;
}

/* Makes a range of memory that was taken zero again; system memory of many pages is
 * handed back to the kernel for that. */
void bgi_memory_zero(const struct bgi_memory *memory, void *start, size_t bytes);

/*
 * Memory for secrets and little else: zeroed, in pages of its own, left out of core files,
 * all zero in children of fork (before Linux 4.14: absent there), and locked as far as the
 * system lets us. Giving it back wipes it; empty memory is allowed.
 */
bool bgi_secret_take(struct bgi_memory *memory, size_t bytes);
void bgi_secret_give(struct bgi_memory *memory);

/* Overwrites secrets in a way that the compiler does not remove. */
void bgi_wipe(void *p, size_t bytes);

#endif

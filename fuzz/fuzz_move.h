/* fuzz_move.h - an allocator, and a mover that moves each memory block to a new address. */
#ifndef FUZZ_MOVE_H
#define FUZZ_MOVE_H

#include "bloomgate/spec.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static inline void *fuzz_allocate(void *context, size_t bytes, size_t alignment,
                                  bool zeroed)
{
    (void)context;
    void *memory =
        aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) {
        memset(memory, zeroed ? 0 : 0xa5, bytes);
    }
    return memory;
}

static inline void fuzz_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

static inline void *fuzz_move(void *context, void *memory, size_t bytes,
                              size_t alignment)
{
    void *to = fuzz_allocate(context, bytes, alignment, 0);
    if (to) {
        memcpy(to, memory, bytes);
        memset(memory, 0xdd, bytes);
        free(memory);
    }
    return to;
}

static const bg_allocator fuzz_memory = { fuzz_allocate, fuzz_release, NULL };
static const bg_mover fuzz_mover = { fuzz_move, NULL };

#endif

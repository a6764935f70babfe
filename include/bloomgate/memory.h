/*
 * memory.h - filters in the caller's memory, relocation, and a limit on total memory.
 *
 * bg_spec.allocator (spec.h) decides where the memory of one filter comes from. This
 * header is for programs that manage memory themselves: engines with their own arenas,
 * servers that defragment memory, and services that limit their total memory.
 */
#ifndef BLOOMGATE_MEMORY_H
#define BLOOMGATE_MEMORY_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Computes the number of bytes that bg_filter_create_at needs for a spec, for both the
 * bits and the handle.
 * Errors: those of bg_plan_compute. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_memory_needed(const bg_spec *spec, size_t *bytes,
                                                    bg_errinfo *info);

/*
 * Creates an empty filter in the caller's memory: the `bytes` bytes at `memory`, which
 * must be aligned to 64 bytes and at least as large as bg_filter_memory_needed reports.
 * Nothing is allocated; spec->allocator is used only by copies of this filter. The memory
 * must stay valid until bg_filter_free, which wipes the handle and does not free the
 * memory.
 * Errors: those of bg_filter_create; BG_EINVAL if the memory is misaligned or too small.
 * Thread safety: MT-Safe. Cost: zeroes the memory.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create_at(void *memory, size_t bytes,
                                                const bg_spec *spec, bg_filter **filter,
                                                bg_errinfo *info);

/*
 * Returns the allocator that a filter was created with, or NULL if it has none. It stays
 * valid as long as the filter.
 */
BG_API const bg_allocator *bg_filter_allocator(const bg_filter *filter);

/*
 * A callback that moves memory; see bg_filter_relocate. `move` receives a block of memory
 * that an allocator returned. It either leaves the block in place and returns NULL, or
 * copies the bytes to a new address, frees the old memory and returns the new address. The
 * new address must be a multiple of `alignment`, and the allocator's `release` must accept
 * it.
 */
typedef struct bg_mover {
    void *(*move)(void *context, void *memory, size_t bytes, size_t alignment);
    void *context;
} bg_mover;

/*
 * Offers `mover` every block of memory that the filter received from spec.allocator, and
 * updates *filter. The filter's content and answers do not change. Memory from the OS, the caller
 * or a mapped file stays in place. If an argument is NULL, nothing is moved. All other pointers to
 * the filter become invalid, so the caller must be the filter's only user. For a filter in a slot,
 * use bg_slot_relocate. Secrets are removed from a block while the block is moved, so no copy of a
 * secret is left in the old memory.
 * Thread safety: MT-Excl. Cost: one call per block.
 */
BG_API void bg_filter_relocate(bg_filter **filter, const bg_mover *mover);

/*
 * A guard counts the memory that the library allocates from the OS for all filters in the process,
 * and can refuse allocations. The library calls `take` before an allocation; if `take`
 * returns false, the operation fails with BG_ENOMEM. The library calls `give` after
 * freeing memory, with the same number of bytes. Both functions may be called from any
 * thread. Memory from a bg_allocator and mapped files are not counted.
 */
typedef struct bg_memory_guard {
    bool (*take)(void *context, size_t bytes);
    void (*give)(void *context, size_t bytes);
    void *context;
} bg_memory_guard;

/*
 * Sets the memory guard of the process; `guard` is not copied. Call it once, before any
 * other function of the library. Otherwise, memory that was allocated earlier would be
 * passed to `give` without having been passed to `take`.
 * Thread safety: MT-Unsafe.
 */
BG_API void bg_memory_set_guard(const bg_memory_guard *guard);

#ifdef __cplusplus
}
#endif

#endif

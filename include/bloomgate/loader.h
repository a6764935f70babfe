/*
 * loader.h - filling one filter with several threads, each at the speed of one alone.
 *
 * Threads that add to a filter at once use atomic instructions, which cost more than all the
 * rest of an add. Nobody needs them while a filter is being filled and nobody asks it yet: a
 * loader deals out the filter's memory to one thread at a time, a region each.
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.flags = BG_SPEC_EXCLUSIVE;             // the loader sees to it
 *     ...
 *     bg_loader *loader;
 *     bg_loader_create(filter, &loader, &why);
 *     // in each thread:
 *     bg_loader_add_many(loader, keys, n);
 *     // when all have ended:
 *     bg_loader_free(loader);
 *
 * That is for BG_SPEC_EXCLUSIVE filters of the kinds blocked and split, which keep a key in one
 * line. All others are filled as they are, other exclusive ones by one thread at a time.
 */
#ifndef BLOOMGATE_LOADER_H
#define BLOOMGATE_LOADER_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_loader bg_loader;

/*
 * A loader for a filter, which nobody else may use until it is freed.
 * Errors: BG_ENOTSUP for static kinds; BG_EINVAL for NULL; BG_ENOMEM.
 */
BG_API BG_MUST_CHECK bg_err bg_loader_create(bg_filter *filter, bg_loader **loader,
                                             bg_errinfo *info);

/* The filter stays the caller's; NULL is allowed. */
BG_API void bg_loader_free(bg_loader *loader);

/*
 * Adds n keys, or hashes as for bg_filter_add_hash; returns how many were certainly new.
 * NULL for the loader: adds nothing. Thread safety: MT-Safe. Memory: 64 KiB of stack. Cost:
 * best with some thousand keys per call.
 */
BG_API size_t bg_loader_add_many(bg_loader *loader, const bg_bytes *keys, size_t n);
BG_API size_t bg_loader_add_many_hash(bg_loader *loader, const uint64_t *hashes,
                                      size_t n);

#ifdef __cplusplus
}
#endif

#endif

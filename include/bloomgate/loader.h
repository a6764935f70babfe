/*
 * loader.h - fill one filter from several threads, each at single-thread speed.
 *
 * Threads that add to a shared filter use atomic instructions, which cost more than the
 * rest of the add. A filter that is being filled and is not queried yet does not need
 * them. A loader divides the filter's memory into regions, and only one thread at a time
 * writes to a region.
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.flags = BG_SPEC_EXCLUSIVE;
 *     ...
 *     bg_loader *loader;
 *     bg_loader_create(filter, &loader, &why);
 *     // in each thread:
 *     bg_loader_add_many(loader, bg_keys_bytes(keys, n), NULL);
 *     // when all threads have exited:
 *     bg_loader_free(loader);
 *
 * Regions are used for blocked and split filters created with BG_SPEC_EXCLUSIVE, because
 * these kinds keep each key in one line. Other exclusive filters are filled by one thread
 * at a time, and shared filters by ordinary adds. For Bloom kinds, the result is
 * bit-for-bit identical to the filter that a single thread would have built from the same
 * keys.
 */
#ifndef BLOOMGATE_LOADER_H
#define BLOOMGATE_LOADER_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/keys.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loader. Opaque. */
typedef struct bg_loader bg_loader;

/*
 * Creates a loader for a filter. Until the loader is freed, use the filter only through
 * the loader.
 * Errors: BG_ENOTSUP for static kinds; BG_EINVAL for NULL; BG_ENOMEM.
 */
BG_API BG_MUST_CHECK bg_err bg_loader_create(bg_filter *filter, bg_loader **loader,
                                             bg_errinfo *info);

/* Frees a loader, but not its filter; NULL is allowed. */
BG_API void bg_loader_free(bg_loader *loader);

/*
 * Adds an array of keys. *added, unless NULL, is set to the number of keys that were
 * certainly new.
 * Errors: those of bg_filter_add_many. After BG_EFULL, the filter contains an unknown
 * subset of the keys, so discard it and create a larger filter.
 * Thread safety: MT-Safe. Memory: 80 KiB of stack. Cost: lowest with a few thousand keys
 * per call.
 */
BG_API BG_MUST_CHECK bg_err bg_loader_add_many(bg_loader *loader, bg_keys keys,
                                               size_t *added);

#ifdef __cplusplus
}
#endif

#endif

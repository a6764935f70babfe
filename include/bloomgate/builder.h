/*
 * builder.h - build a filter from all its keys at once.
 *
 * Static kinds (BG_TRAIT_STATIC: fuse and ribbon) need less memory at the same
 * false-positive rate than any kind that accepts keys later, but all keys must be known in
 * advance. A builder collects the keys, in any order and from any stream, and then builds
 * the filter:
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.kind = BG_KIND_FUSE;
 *     spec.rate = 0.004;
 *
 *     bg_builder *builder;
 *     bg_filter *filter;
 *     if (bg_builder_create(&spec, &builder, NULL) != BG_OK)
 *         return 1;
 *     while (next_key(&key, &len))
 *         if (bg_builder_add(builder, key, len) != BG_OK)
 *             return 1;
 *     if (bg_builder_finish(builder, &filter, NULL) != BG_OK)
 *         return 1;
 *     bg_builder_free(builder);
 *     bg_filter_may_contain(filter, "apple", 5);
 *
 * The result is an ordinary bg_filter, except that bg_filter_add returns BG_ENOTSUP.
 * (After bg_filter_clear, the filter answers "no" for every key.)
 *
 * Sizing. The number of keys need not be known in advance: spec.items is ignored, and the
 * filter is sized for the number of distinct keys added. Builders support all kinds except
 * scalable and window (BG_ENOTSUP). With BG_KIND_BLOCKED or BG_KIND_AUTO, for example, the
 * builder creates a filter of exactly the right size and adds the keys. A key that was added more
 * than once is counted only once. The same set of keys produces the same filter, regardless of
 * order and repetition.
 *
 * Memory. The builder stores 8 bytes per add, including repeated keys, and reserves up to
 * half as much again. The reserved part occupies only address space until it is used.
 * bg_builder_finish needs 8 more bytes per add while it sorts the hashes. After sorting,
 * it frees these 8 bytes per add, and needs memory for the filter plus 60 MB per thread
 * (for small filters, 25 bytes per key). All of this memory comes from spec.allocator.
 *
 * Time. For 1e7 to 1e8 keys, fuse needs about 80 ns of CPU time per key and ribbon about
 * 110 ns; sorting accounts for a quarter to a third of this time. With several threads,
 * all of this work except the adds is done in parallel.
 *
 * Threads. A builder belongs to one thread at a time: all functions are MT-Excl.
 * bg_builder_finish_threaded starts threads, which exit before it returns.
 */
#ifndef BLOOMGATE_BUILDER_H
#define BLOOMGATE_BUILDER_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/keys.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A builder. Opaque. */
typedef struct bg_builder bg_builder;

/*
 * Creates a builder. Accepts the same spec as bg_filter_create, but ignores `items`. Set
 * the rate or the bits per key, or set `bytes` for a filter of exactly that size.
 * Errors: those of bg_filter_create. On error *builder is NULL.
 * Thread safety: MT-Safe. Cost: less than a millisecond.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_create(const bg_spec *spec, bg_builder **builder,
                                              bg_errinfo *info);

/* Frees a builder and its keys, but not the filters it built; NULL is allowed. */
BG_API void bg_builder_free(bg_builder *builder);

/*
 * Adds a key as bytes, as an integer or as a hash (see keys.h). Keys may be repeated.
 * Errors: BG_ENOMEM; BG_EINVAL for NULL. On error the key is not added, and the builder
 * keeps the earlier keys.
 * Cost: hashes the key and stores the hash.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_add(bg_builder *builder, const void *key,
                                           size_t len);
BG_API BG_MUST_CHECK bg_err bg_builder_add_u64(bg_builder *builder, uint64_t key);
BG_API BG_MUST_CHECK bg_err bg_builder_add_hash(bg_builder *builder, uint64_t hash);

/*
 * Adds an array of keys. On error, none of the keys are added. Errors: those of
 * bg_builder_add; BG_EINCOMPAT for hashes from a different hasher.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_add_many(bg_builder *builder, bg_keys keys);

/* Returns the number of adds, including repeated keys; 0 for NULL. */
BG_API uint64_t bg_builder_count(const bg_builder *builder);

/*
 * A callback that reports progress while a filter is built; `share` rises from 0 to 1.
 * Return false to cancel. The callback is called several times per second, in the thread
 * that called bg_builder_finish, and must not use the builder.
 */
typedef bool (*bg_progress_fn)(void *context, double share);

/*
 * Sets the function that reports the progress of later bg_builder_finish calls; NULL
 * disables reporting.
 */
BG_API void bg_builder_on_progress(bg_builder *builder, bg_progress_fn progress,
                                   void *context);

/*
 * Builds a filter from the keys added so far, if any. The builder is then empty and can be
 * used for the next filter. On error *filter is NULL and the builder keeps its keys, but
 * from then on bg_builder_count may count repeated keys only once.
 * Errors: BG_ENOMEM if memory runs out or the filter exceeds spec.max_bytes; BG_EFULL if a
 * size was set and the keys do not fit (BG_EINVAL for cuckoo and quotient); BG_EBUILD if no seed worked, which does not happen
 * with well-mixed hashes; BG_ECANCELED if the progress function returned false; BG_EINVAL
 * for NULL.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_finish(bg_builder *builder, bg_filter **filter,
                                              bg_errinfo *info);

/*
 * Builds the same filter, bit for bit, with up to `threads` threads (1 to 256), including
 * the calling thread. If the OS cannot start that many threads, fewer threads do the work.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_finish_threaded(bg_builder *builder,
                                                       unsigned threads,
                                                       bg_filter **filter,
                                                       bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

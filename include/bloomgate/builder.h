/*
 * builder.h - filters that are made of all keys at once.
 *
 * Static kinds (bg_kind_traits: BG_TRAIT_STATIC) are smaller and tell more apart than any
 * kind that keys are added to, but all keys must be known. A builder collects them, in any
 * order, from any stream, and then makes the filter:
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
 * The filter is a bg_filter like any other: queries, batches, copies, info. What it cannot
 * do is take more keys: bg_filter_insert says BG_ENOTSUP, and bg_filter_add, which cannot
 * fail, makes every query answer "maybe" from then on. (bg_filter_clear leaves the empty
 * set, which answers "no" to all.)
 *
 * Sizes. The number of keys need not be known: spec.items is ignored, and the filter is
 * made for as many different keys as there were. That is handy for other kinds too, all
 * but scalable and window (BG_ENOTSUP): with spec.kind BG_KIND_BLOCKED, or BG_KIND_AUTO,
 * the builder makes a filter of exactly the right size and adds the keys. A key that was given more than once counts once.
 * The same set of keys makes the same filter, in whatever order and how often they came.
 *
 * Memory. Keys are kept as hashes: 8 bytes for every add, those of one key included, and up
 * to half as much again in reserve, which takes address space, but memory only as far as
 * it is used. Finishing takes 8 bytes more for every add while the hashes are sorted; once
 * these are free again, the filter itself, and for each thread 60 MB (less for small
 * filters: 25 bytes per key). All of it comes from spec.allocator.
 *
 * Time. For 1e7 to 1e8 keys some 80 ns of processor time per key for fuse and 110 for
 * ribbon, of which a quarter to a third is sorting; threads share all of it but the adding.
 *
 * Threads. A builder is for one thread at a time (MT-Excl throughout).
 * bg_builder_finish_threaded is the only function of this library that starts threads, and
 * they have ended when it returns.
 */
#ifndef BLOOMGATE_BUILDER_H
#define BLOOMGATE_BUILDER_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/hash.h"
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
 * Creates a builder. The spec is one for bg_filter_create, but that `items` means nothing
 * here, and that the size may be said by the rate, by bits per key, or, for exactly that
 * size whatever the keys, by bytes.
 * Errors: those of bg_filter_create. On error *builder is NULL.
 * Thread safety: MT-Safe. Cost: below a millisecond.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_create(const bg_spec *spec, bg_builder **builder,
                                              bg_errinfo *info);

/* Frees a builder and its keys, not what it built; NULL is allowed. */
BG_API void bg_builder_free(bg_builder *builder);

/*
 * Adds a key: as bytes, as an integer whose 8 little-endian bytes are the key, or as a
 * hash of your own, as for bg_filter_add. Keys may come more than once.
 * Errors: BG_ENOMEM, BG_EINVAL for NULL; the key is not added then, all others stay.
 * Cost: the hash, and writing it.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_add(bg_builder *builder, const void *key,
                                           size_t len);
BG_API BG_MUST_CHECK bg_err bg_builder_add_u64(bg_builder *builder, uint64_t key);
BG_API BG_MUST_CHECK bg_err bg_builder_add_hash(bg_builder *builder, uint64_t hash);

/*
 * Adds n keys, in the forms that bg_filter_add_many has: all of them, or none on error.
 * Errors: as bg_builder_add.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_add_many(bg_builder *builder,
                                                const bg_bytes *keys, size_t n);
BG_API BG_MUST_CHECK bg_err bg_builder_add_many_fixed(bg_builder *builder,
                                                      const void *keys, size_t width,
                                                      size_t n);
BG_API BG_MUST_CHECK bg_err bg_builder_add_many_u64(bg_builder *builder,
                                                    const uint64_t *keys, size_t n);
BG_API BG_MUST_CHECK bg_err bg_builder_add_many_hash(bg_builder *builder,
                                                     const uint64_t *hashes, size_t n);

/* How many keys have been added, each as often as it came; 0 for NULL. */
BG_API uint64_t bg_builder_count(const bg_builder *builder);

/*
 * Called while a filter is being made, with the share of the work that is done, 0 to 1,
 * rising. Returns whether to go on. It is called by the thread that called
 * bg_builder_finish, several times a second, and must not use the builder.
 */
typedef bool (*bg_progress_fn)(void *context, double share);

/* Sets the function for the finishes to come; NULL for none. */
BG_API void bg_builder_on_progress(bg_builder *builder, bg_progress_fn progress,
                                   void *context);

/*
 * Makes the filter of the keys added so far, none being a possible number of them. The
 * builder is then empty, and may be used for the next filter. On error *filter is NULL
 * and the keys are still there, but those that came more than once may from now on be
 * counted once.
 * Errors: BG_ENOMEM for want of memory or over spec.max_bytes; BG_EFULL when the size was
 * given and the keys do not fit; BG_EBUILD when no seed worked, which for well-mixed hashes
 * does not happen; BG_ECANCELED when the progress function said so; BG_EINVAL for NULL.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_finish(bg_builder *builder, bg_filter **filter,
                                              bg_errinfo *info);

/*
 * The same with up to `threads` threads, 1 to 256, the calling one included. The filter is
 * the same, bit for bit. Where the system gives fewer threads, fewer do the work.
 */
BG_API BG_MUST_CHECK bg_err bg_builder_finish_threaded(bg_builder *builder,
                                                       unsigned threads,
                                                       bg_filter **filter,
                                                       bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif

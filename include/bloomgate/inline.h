/*
 * inline.h - single lookups and adds that are compiled into the caller.
 *
 * A program that tests one key at a time can avoid the function call and let the compiler use all
 * instruction-set extensions of the target CPU (-march=native):
 *
 *     const bg_view view = bg_view_of(filter);
 *     if (bg_view_may_contain_u64(&view, id))
 *         fetch(id);
 *
 * In a loop, BG_WITH_VIEW also moves the selection of the code for the filter's kind and hash out
 * of the loop:
 *
 *     BG_WITH_VIEW(filter, view, {
 *         for (size_t i = 0; i < n; i++)
 *             if (bg_view_may_contain_u64(&view, ids[i]))
 *                 fetch(ids[i]);
 *     });
 *
 * A view is a copy of the few fields of a filter that a lookup needs. Its functions return the
 * same results as the functions of filter.h. They are compiled inline for `blocked`, `split`,
 * `register` and `fuse` filters, if the target has AVX2 or NEON (not required for `register` and
 * `fuse`). For all other filters and targets, they call the functions of filter.h. Adds are
 * inlined only for filters created with BG_SPEC_EXCLUSIVE.
 *
 * The profiles `fast` and `fast-int` hash 8-byte keys inline. Other keys are hashed by a function
 * call, and only the lookup is inlined. `fast-int` takes half the instructions of `fast`, so more
 * lookups of integers overlap.
 *
 * Why is this faster? A CPU overlaps the cache misses of all lookups that fit into its window of
 * several hundred instructions, so shorter lookups overlap more misses. All work that does not
 * need the filter's memory comes before the load, because instructions after the load occupy
 * scheduler entries until the line arrives. A batch (bg_filter_may_contain_many) overlaps even
 * more, and is faster wherever several keys are known in advance.
 *
 * Caveats
 *   - A view is valid until its filter is freed or relocated. It remains valid when keys are added
 *     or the filter is cleared.
 *   - Thread safety is the same as for the functions of filter.h. With ThreadSanitizer,
 *     all functions call the library.
 *   - The members of bg_view are private.
 */
#ifndef BLOOMGATE_INLINE_H
#define BLOOMGATE_INLINE_H

#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/hasher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a view looks up keys (its shape), and how it hashes 8-byte keys. The numbers are permanent. A
 * program calls the library for numbers that its header does not define. */
enum bg_view_code {
    BG_VIEW_CALL = 0,
    BG_VIEW_SPLIT = 1,
    BG_VIEW_COLUMNS = 2,
    BG_VIEW_COLUMNS_MASKED = 3,
    BG_VIEW_WIDE = 4,
    BG_VIEW_WIDE_MASKED = 5,
    BG_VIEW_REGISTER = 6,
    BG_VIEW_FUSE = 7,
    BG_VIEW_FAST = 0x100,
    BG_VIEW_FAST_INT = 0x200
};

/* A view of a filter. All members are private. */
typedef struct bg_view {
    bg_filter *filter; /* changed only by adds */
    const bg_hasher *hasher;
    unsigned char *words;
    uint64_t units;
    uint64_t hash_mask;
    uint32_t shape;
    uint32_t hash;
    uint32_t k;
    uint32_t exclusive;     /* whether adds may be compiled inline */
    const uint32_t *window; /* masked shapes: the lanes in use, for each rotation */
    const uint64_t *pass;   /* fuse: see sealed.h and fuse_shape.h */
    const uint64_t *seeds;
    uint64_t pieces, slots, starts, length;
    uint32_t arity, reserved;
} bg_view;

/*
 * Writes a view of a filter to `view`, which has `size` bytes. Use bg_view_of instead, which lets
 * the compiler keep the view in registers. If `filter` is NULL, lookups answer "maybe" and adds
 * return BG_EINVAL. Thread safety: MT-Safe.
 */
BG_API void bg_filter_get_view(const bg_filter *filter, bg_view *view, size_t size);

/* Returns a view of a filter. Thread safety: MT-Safe. */
static inline bg_view bg_view_of(const bg_filter *filter)
{
    bg_view view;
    bg_filter_get_view(filter, &view, sizeof view);
    return view;
}

#ifdef __cplusplus
}
#endif

#include "bloomgate/inline_code.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Hashing --------------------------------------------------------------------------- */

/* Returns the hash of an integer key, which equals bg_hash_u64. */
static inline BG_VIEW_INLINE uint64_t bg_view_hash_u64(const bg_view *view,
                                                       uint64_t key)
{
#if BG_VIEW_WORDS
    switch (view->hash) {
    case BG_VIEW_FAST: return bg_view_fast(view, key);
    case BG_VIEW_FAST_INT: return bg_view_fast_int(view, key);
    default: break;
    }
#endif
    return bg_hash_u64(view->hasher, key);
}

/* Returns the hash of a key, which equals bg_hash_bytes. */
static inline BG_VIEW_INLINE uint64_t bg_view_hash_bytes(const bg_view *view,
                                                         const void *key, size_t len)
{
    if (len == 8 && view->hash != BG_VIEW_CALL) {
        uint64_t word;
        memcpy(&word, key, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        return bg_view_hash_u64(view, word);
    }
    return bg_hash_bytes(view->hasher, key, len);
}

/* ---- Lookups --------------------------------------------------------------------------- */

/*
 * Return the same results as bg_filter_may_contain_hash, _u64 and bg_filter_may_contain.
 * Thread safety: MT-Safe. Cost: see the top of this file.
 */
static inline BG_VIEW_INLINE bool bg_view_may_contain_hash(const bg_view *view,
                                                           uint64_t hash)
{
    BG_VIEW_HAS_ALL(view->shape, 0u, hash)
    return bg_filter_may_contain_hash(view->filter, hash);
}

static inline BG_VIEW_INLINE bool bg_view_may_contain_u64(const bg_view *view,
                                                          uint64_t key)
{
#if BG_VIEW_WORDS
    const uint32_t found = view->shape | view->hash;
    BG_VIEW_HAS_ALL(found, BG_VIEW_FAST_INT, bg_view_fast_int(view, key))
    BG_VIEW_HAS_ALL(found, BG_VIEW_FAST, bg_view_fast(view, key))
#endif
    return bg_filter_may_contain_u64(view->filter, key);
}

static inline BG_VIEW_INLINE bool bg_view_may_contain(const bg_view *view,
                                                      const void *key, size_t len)
{
    if (view->shape == BG_VIEW_CALL) {
        return bg_filter_may_contain(view->filter, key, len);
    }
    return bg_view_may_contain_hash(view, bg_view_hash_bytes(view, key, len));
}

/* ---- Adds ------------------------------------------------------------------------------ */

/*
 * Add a key like bg_filter_add_hash, _u64 and bg_filter_add.
 * Errors: the same. Thread safety: the same; MT-Excl for filters with BG_SPEC_EXCLUSIVE.
 */
static inline BG_VIEW_INLINE BG_MUST_CHECK bg_err bg_view_add_hash(const bg_view *view,
                                                                   uint64_t hash,
                                                                   bool *is_new)
{
    if (view->exclusive) {
        BG_VIEW_PUT_ALL(view->shape, 0u, hash)
    }
    return bg_filter_add_hash(view->filter, hash, is_new);
}

static inline BG_VIEW_INLINE BG_MUST_CHECK bg_err bg_view_add_u64(const bg_view *view,
                                                                  uint64_t key,
                                                                  bool *is_new)
{
#if BG_VIEW_WORDS
    const uint32_t found = view->shape | view->hash;
    if (view->exclusive) {
        BG_VIEW_PUT_ALL(found, BG_VIEW_FAST_INT, bg_view_fast_int(view, key))
        BG_VIEW_PUT_ALL(found, BG_VIEW_FAST, bg_view_fast(view, key))
    }
#endif
    return bg_filter_add_u64(view->filter, key, is_new);
}

static inline BG_VIEW_INLINE BG_MUST_CHECK bg_err bg_view_add(const bg_view *view,
                                                              const void *key,
                                                              size_t len, bool *is_new)
{
    if (!view->exclusive) {
        return bg_filter_add(view->filter, key, len, is_new);
    }
    return bg_view_add_hash(view, bg_view_hash_bytes(view, key, len), is_new);
}

/* ---- Loops ----------------------------------------------------------------------------- */

/*
 * Runs a statement with a view of a filter, named `view`. The statement is compiled once for each
 * common shape and hash, so a loop in the statement does not check them for every key. `break` and
 * `continue` must be inside such a loop. See the example at the top of this file.
 */
#define BG_WITH_VIEW(filter, view, ...)                                                \
    do {                                                                               \
        const bg_view bg_view_any = bg_view_of(filter);                                \
        switch (bg_view_any.shape | bg_view_any.hash) {                                \
            BG_VIEW_CASES(bg_view_any, view, FAST_INT, __VA_ARGS__)                    \
            BG_VIEW_CASES(bg_view_any, view, FAST, __VA_ARGS__)                        \
        default: {                                                                     \
            const bg_view view = bg_view_any;                                          \
            __VA_ARGS__                                                                \
            break;                                                                     \
        }                                                                              \
        }                                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif

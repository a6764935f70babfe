/*
 * inline_calls.h - the inline functions of bloomgate/inline.h, compiled for one target.
 *
 * A file defines INLINE_CALLS as the name of a table, and includes this header. test_inline.c
 * compares all tables with the functions of filter.h.
 */
#ifndef INLINE_CALLS_H
#define INLINE_CALLS_H

#include "bloomgate/inline.h"

struct inline_calls {
    bg_view (*view)(const bg_filter *filter);
    bool (*has)(const bg_view *view, const void *key, size_t len);
    bool (*has_u64)(const bg_view *view, uint64_t key);
    bool (*has_hash)(const bg_view *view, uint64_t hash);
    bg_err (*add)(const bg_view *view, const void *key, size_t len, bool *is_new);
    bg_err (*add_u64)(const bg_view *view, uint64_t key, bool *is_new);
    bg_err (*add_hash)(const bg_view *view, uint64_t hash, bool *is_new);
};

/* Compiled for the baseline of the architecture, for AVX2, and for AVX-512. */
extern const struct inline_calls inline_calls_baseline;
extern const struct inline_calls inline_calls_avx2;
extern const struct inline_calls inline_calls_avx512;

#ifdef INLINE_CALLS
const struct inline_calls INLINE_CALLS = {
    .view = bg_view_of,
    .has = bg_view_may_contain,
    .has_u64 = bg_view_may_contain_u64,
    .has_hash = bg_view_may_contain_hash,
    .add = bg_view_add,
    .add_u64 = bg_view_add_u64,
    .add_hash = bg_view_add_hash,
};
#endif

#endif

/*
 * insert_keys.h - inserts keys into a filter of a kind that can become full (BG_TRAIT_FILLS_UP).
 */
#ifndef CLI_INSERT_KEYS_H
#define CLI_INSERT_KEYS_H

#include "bloomgate/all.h"

/*
 * Inserts n keys, up to the first key that does not fit, and sets *done and *news as
 * bg_filter_add_many does. A copy of a key that is already in a cuckoo filter always fits: if there
 * is no space, the copy is dropped, and the key can no longer be removed
 * (bg_filter_info.saturated).
 */
BG_MUST_CHECK bg_err insert_keys(bg_filter *filter, const bg_bytes *keys, size_t n,
                                 size_t *done, size_t *news);

/* Does the same as insert_keys, but with hashes instead of keys, and for every kind that accepts
 * keys one by one. */
BG_MUST_CHECK bg_err insert_hashes(bg_filter *filter, const uint64_t *hashes, size_t n,
                                   size_t *done);

#endif

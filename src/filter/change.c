/*
 * change.c - adds, removes and counts single keys.
 */
#include "bloomgate/filter.h"

#include "filter/handle.h"

/* External definitions of the header's inline functions. */
extern inline bg_err bg_filter_add_hash(bg_filter *filter, uint64_t hash, bool *is_new);
extern inline bg_err bg_filter_add_u64(bg_filter *filter, uint64_t key, bool *is_new);

bg_err bg_filter_add_checked(bg_filter *filter, uint64_t value, bool hashed,
                             bool *is_new)
{
    bool unused;
    is_new = is_new ? is_new : &unused;
    *is_new = false;
    if (!filter) {
        return BG_EINVAL;
    }
    if (filter->kind->traits & BG_TRAIT_STATIC) {
        return BG_ENOTSUP;
    }
    const uint64_t hash = hashed ? value : bg_hash_u64(&filter->hasher, value);
    if (filter->core.ops->insert) {
        bg_err err = filter->core.ops->insert(&filter->core, hash, is_new);
        *is_new = *is_new && !err;
        return err;
    }
    *is_new = filter->core.add(&filter->core, hash);
    return BG_OK;
}

bg_err bg_filter_remove_hash(bg_filter *filter, uint64_t hash)
{
    if (!filter) {
        return BG_EINVAL;
    }
    return filter->core.ops->remove ? filter->core.ops->remove(&filter->core, hash)
                                    : BG_ENOTSUP;
}

uint64_t bg_filter_count_hash(const bg_filter *filter, uint64_t hash)
{
    if (!filter) {
        return 1; /* maybe */
    }
    return filter->core.ops->count ? filter->core.ops->count(&filter->core, hash)
                                   : filter->core.has(&filter->core, hash);
}

/* The functions below convert byte and integer keys to hashes. If the filter is NULL, there is no
 * hasher, so the hash is 0. */

bg_err bg_filter_add(bg_filter *filter, const void *key, size_t len, bool *is_new)
{
    uint64_t hash = filter ? bg_hash_bytes(&filter->hasher, key, len) : 0;
    return bg_filter_add_hash(filter, hash, is_new);
}

bg_err bg_filter_remove(bg_filter *filter, const void *key, size_t len)
{
    uint64_t hash = filter ? bg_hash_bytes(&filter->hasher, key, len) : 0;
    return bg_filter_remove_hash(filter, hash);
}

bg_err bg_filter_remove_u64(bg_filter *filter, uint64_t key)
{
    uint64_t hash = filter ? bg_hash_u64(&filter->hasher, key) : 0;
    return bg_filter_remove_hash(filter, hash);
}

uint64_t bg_filter_count(const bg_filter *filter, const void *key, size_t len)
{
    uint64_t hash = filter ? bg_hash_bytes(&filter->hasher, key, len) : 0;
    return bg_filter_count_hash(filter, hash);
}

uint64_t bg_filter_count_u64(const bg_filter *filter, uint64_t key)
{
    uint64_t hash = filter ? bg_hash_u64(&filter->hasher, key) : 0;
    return bg_filter_count_hash(filter, hash);
}

/* insert_keys.c - see insert_keys.h. */
#include "insert_keys.h"

/* Adds a copy of a key to a full cuckoo filter that already contains the key. Such a copy never
 * makes the filter overflow. Returns false if the filter is of another kind or does not contain the
 * key. */
static bool insert_copy(bg_filter *filter, uint64_t hash)
{
    return bg_filter_kind(filter) == BG_KIND_CUCKOO
           && bg_filter_may_contain_hash(filter, hash)
           && bg_filter_add_forced(filter, bg_keys_hashes(&hash, 1), NULL, NULL)
                  == BG_OK;
}

bg_err insert_keys(bg_filter *filter, const bg_bytes *keys, size_t n, size_t *done,
                   size_t *news)
{
    const bg_hasher *hasher = bg_filter_hasher(filter);
    *done = *news = 0;
    while (*done < n) {
        size_t here = 0, added = 0;
        const bg_err err = bg_filter_add_many(
            filter, bg_keys_bytes(keys + *done, n - *done), NULL, &here, &added);
        *done += here;
        *news += added;
        if (err
            && (err != BG_EFULL
                || !insert_copy(filter, bg_hash_bytes(hasher, keys[*done].data,
                                                      keys[*done].len)))) {
            return err;
        }
        *done += err ? 1 : 0;
    }
    return BG_OK;
}

bg_err insert_hashes(bg_filter *filter, const uint64_t *hashes, size_t n, size_t *done)
{
    *done = 0;
    while (*done < n) {
        size_t here = 0;
        const bg_err err = bg_filter_add_many(
            filter, bg_keys_hashes(hashes + *done, n - *done), NULL, &here, NULL);
        *done += here;
        if (err && (err != BG_EFULL || !insert_copy(filter, hashes[*done]))) {
            return err;
        }
        *done += err ? 1 : 0;
    }
    return BG_OK;
}

/* insert_keys.c - see insert_keys.h. */
#include "insert_keys.h"

/* Adding a key that the filter may already contain never makes bg_filter_add give up the filter. */
static bool insert_copy(bg_filter *filter, const bg_bytes *key)
{
    const bool can = bg_filter_kind(filter) == BG_KIND_CUCKOO
                     && bg_filter_may_contain(filter, key->data, key->len);
    if (can) {
        (void)bg_filter_add(filter, key->data, key->len);
    }
    return can;
}

bg_err insert_keys(bg_filter *filter, const bg_bytes *keys, size_t n, size_t *done,
                   size_t *news)
{
    *done = *news = 0;
    while (*done < n) {
        size_t here = 0, added = 0;
        const bg_err err =
            bg_filter_insert_many(filter, keys + *done, n - *done, &here, &added);
        *done += here;
        *news += added;
        if (err && (err != BG_EFULL || !insert_copy(filter, &keys[*done]))) {
            return err;
        }
        *done += err ? 1 : 0;
    }
    return BG_OK;
}

/*
 * resize.c - enumerates the entries of filters whose kind stores entries, and resizes these
 * filters.
 *
 * Resizing creates a new filter and merges the old filter into it. The old filter stays valid, so
 * that other threads can query it until the new filter replaces it.
 */
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"

bg_err bg_filter_for_each(const bg_filter *filter,
                          bool (*visit)(void *context, uint64_t hash_prefix,
                                        uint64_t count),
                          void *context)
{
    if (!filter || !visit) {
        return BG_EINVAL;
    }
    if (!(filter->kind->traits & BG_TRAIT_ENUMERATE)) {
        return BG_ENOTSUP;
    }
    filter->kind->each(&filter->core, visit, context);
    return BG_OK;
}

bg_err bg_filter_resize(const bg_filter *filter, int doublings, bg_filter **resized,
                        bg_errinfo *info)
{
    if (!filter || !resized) {
        if (resized) {
            *resized = NULL;
        }
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the result", "NULL");
    }
    bgi_err_clear(info);
    *resized = NULL;
    bg_err err = bgi_filter_can(filter, BG_TRAIT_RESIZE, "resized", info);
    if (err) {
        return err;
    }
    uint64_t units = filter->core.units;
    uint32_t k = filter->core.k;
    if (!filter->kind->resized(&units, &k, doublings)) {
        return bgi_err_state(
            info, BG_EINVAL, "doublings",
            "cannot resize a filter of %zu bytes with k = %u by %d doublings",
            filter->bytes, filter->core.k, doublings);
    }
    bg_filter *made = NULL;
    err = bgi_filter_similar_k(filter, units, k, &made, info);
    if (err) {
        return err;
    }
    err = filter->kind->merge(&made->core, &filter->core, true);
    if (err) {
        bg_filter_free(made);
        return bgi_err_state(
            info, err, "doublings",
            "the content does not fit into the filter after %d doublings", doublings);
    }
    *resized = made;
    return BG_OK;
}

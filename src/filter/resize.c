/*
 * resize.c - kinds that keep what they store: telling it, and moving it to another size.
 *
 * A new size is a new filter into which the old one is merged. The old one stays valid, so
 * that others can go on asking it until the new one takes its place.
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
                       "a filter, and where to put the result", "NULL");
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
        return bgi_err(info, BG_EINVAL, "doublings",
                       "a number that leads to a size that there is",
                       "%d from %zu bytes and k = %u", doublings, filter->bytes, k);
    }
    bg_filter *made = NULL;
    err = bgi_filter_similar_k(filter, units, k, &made, info);
    if (err) {
        return err;
    }
    err = filter->kind->merge(&made->core, &filter->core, true);
    if (err) {
        bg_filter_free(made);
        return bgi_err(info, err, "doublings", "a size with room for the content", "%d",
                       doublings);
    }
    *resized = made;
    return BG_OK;
}

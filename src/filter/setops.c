/*
 * setops.c - operations on two filters: merging, folding and comparing.
 *
 * Filters that are sets of bits can be combined if they have the same kind, geometry and hash:
 * the OR of two such filters is the filter for the union of their keys. All of these operations
 * may read words while other threads add keys, because each word is read once and atomically, and
 * bits are only ever set.
 */
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"

/* Returns whether two filters are of the same kind and can be merged even if their geometries
 * differ. */
static bool setops_joins(const bg_filter *a, const bg_filter *b)
{
    return a && b && a->kind == b->kind && a->kind->joins
           && a->kind->joins(&a->core, &b->core);
}

/* Checks that two filters match. If `any_size` is true, k and the size may differ. */
static bg_err setops_match(const bg_filter *a, const bg_filter *b, bool any_size,
                           bg_errinfo *info)
{
    if (!a || !b) {
        return bgi_err(info, BG_EINVAL, "filter", "two filters", "NULL");
    }
    if (a->kind->id != b->kind->id) {
        return bgi_err(info, BG_EINCOMPAT, "kind", bg_kind_name(a->kind->id), "%s",
                       bg_kind_name(b->kind->id));
    }
    if (a->kind->width != b->kind->width || a->kind->flags != b->kind->flags) {
        return bgi_err(info, BG_EINCOMPAT, "width, flags", "the same in both filters",
                       "%u%s and %u%s", a->kind->width,
                       a->kind->flags ? " scattered" : "", b->kind->width,
                       b->kind->flags ? " scattered" : "");
    }
    if (!any_size && a->core.k != b->core.k) {
        return bgi_err(info, BG_EINCOMPAT, "k", "the same in both filters", "%u and %u",
                       a->core.k, b->core.k);
    }
    if (!any_size && a->core.units != b->core.units) {
        return bgi_err(info, BG_EINCOMPAT, "size in bytes", "the same in both filters",
                       "%zu and %zu", a->bytes, b->bytes);
    }
    if (!bg_hasher_equal(&a->hasher, &b->hasher)) {
        bg_hash_profile first = bg_hasher_profile(&a->hasher);
        bg_hash_profile second = bg_hasher_profile(&b->hasher);
        const char *inside =
            first == second ? ", with different seeds, secrets or functions" : "";
        return bgi_err(info, BG_EINCOMPAT, "hash", "the same in both filters",
                       "%s and %s%s", bg_hash_name(first), bg_hash_name(second),
                       inside);
    }
    if (a->shards != b->shards) {
        return bgi_err(info, BG_EINCOMPAT, "shards", "the same in both filters",
                       "%u and %u", a->shards, b->shards);
    }
    return a->kind->composed ? a->kind->composed->match(a, b, info) : BG_OK;
}

bg_err bgi_filter_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info)
{
    return setops_match(a, b, false, info);
}

bg_err bgi_filter_can(const bg_filter *filter, uint32_t trait, const char *what,
                      bg_errinfo *info)
{
    if (filter->kind->traits & trait) {
        return BG_OK;
    }
    return bgi_err_state(info, BG_ENOTSUP, "kind", "a %s filter cannot be %s",
                         bg_kind_name(filter->kind->id), what);
}

bool bg_filter_compatible(const bg_filter *a, const bg_filter *b)
{
    return bgi_filter_match(a, b, NULL) == BG_OK;
}

bool bg_filter_equal(const bg_filter *a, const bg_filter *b)
{
    if (!bg_filter_compatible(a, b)) {
        return false;
    }
    if (a->kind->composed) {
        return a->kind->composed->equal(a, b);
    }
    const uint64_t *in_a = bgi_filter_words(a), *in_b = bgi_filter_words(b);
    for (size_t i = 0; i < a->bytes / 8; i++) {
        if (__atomic_load_n(&in_a[i], __ATOMIC_RELAXED)
            != __atomic_load_n(&in_b[i], __ATOMIC_RELAXED)) {
            return false;
        }
    }
    return !a->kind->same_state || a->kind->same_state(&a->core, &b->core);
}

bg_err bgi_filter_merges(const bg_filter *filter, const bg_filter *other,
                         bg_errinfo *info)
{
    bg_err err = setops_match(filter, other, setops_joins(filter, other), info);
    return err ? err : bgi_filter_can(filter, BG_TRAIT_MERGE, "merged", info);
}

static bg_err setops_merge(bg_filter *filter, const bg_filter *other, bg_errinfo *info)
{
    const bool exclusive = filter->flags & BG_SPEC_EXCLUSIVE;
    if (filter->kind->merge) {
        const bg_err err = filter->kind->merge(&filter->core, &other->core, exclusive);
        if (err) {
            return bgi_err_state(
                info, err, "filter",
                "the filter has no space for the keys of both filters");
        }
        return BG_OK;
    }
    const uint64_t *from = bgi_filter_words(other);
    uint64_t *to = bgi_filter_words(filter);
    for (size_t i = 0; i < filter->bytes / 8; i++) {
        uint64_t bits = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        if (exclusive) {
            to[i] |= bits;
        } else if (bits & ~__atomic_load_n(&to[i], __ATOMIC_RELAXED)) {
            (void)__atomic_fetch_or(&to[i], bits, __ATOMIC_RELAXED);
        }
    }
    return BG_OK;
}

/* Updates the properties of a filter after a merge. Usually, both filters contain the same
 * canaries. */
static void setops_take_marks(bg_filter *filter, const bg_filter *other)
{
    const uint32_t more = bgi_filter_canaries(other);
    if (__atomic_load_n(&other->degraded, __ATOMIC_RELAXED)) {
        __atomic_store_n(&filter->degraded, true, __ATOMIC_RELAXED);
    }
    if (more > bgi_filter_canaries(filter)) {
        __atomic_store_n(&filter->canaries, more, __ATOMIC_RELAXED);
    }
}

bg_err bg_filter_merge(bg_filter *filter, const bg_filter *other, bg_errinfo *info)
{
    bgi_err_clear(info);
    bg_err err = bgi_filter_merges(filter, other, info);
    if (err) {
        return err;
    }
    if (filter == other) { /* merging a filter into itself changes only counts */
        if (filter->kind->traits & BG_TRAIT_COUNT) {
            return bgi_err_state(
                info, BG_EINVAL, "other",
                "a filter that counts keys cannot be merged with itself");
        }
        return BG_OK;
    }
    err = setops_merge(filter, other, info);
    if (err) {
        return err;
    }
    setops_take_marks(filter, other);
    return bgi_filter_check_mapping(other, info);
}

/* If the mapped file of the source filter `from` has changed, frees `*made` and returns an
 * error. */
static bg_err setops_keep(const bg_filter *from, bg_filter **made, bg_errinfo *info)
{
    const bg_err err = bgi_filter_check_mapping(from, info);
    if (err) {
        bg_filter_free(*made);
        *made = NULL;
    }
    return err;
}

bg_err bg_filter_fold(const bg_filter *filter, uint32_t times, bg_filter **folded,
                      bg_errinfo *info)
{
    if (!filter || !folded) {
        if (folded) {
            *folded = NULL;
        }
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the result", "NULL");
    }
    bgi_err_clear(info);
    *folded = NULL;
    bg_err cannot = bgi_filter_can(filter, BG_TRAIT_FOLD, "folded", info);
    if (cannot) {
        return cannot;
    }
    uint32_t possible = bgi_filter_foldable(filter);
    if (times < 1) {
        return bgi_err(info, BG_EINVAL, "times", "at least 1", "0");
    }
    if (times > possible) {
        return bgi_err_state(info, BG_EINVAL, "times",
                             "the filter can be folded at most %u times, not %u",
                             possible, times);
    }
    const bg_filter *from = filter;
    bg_filter *half = NULL;
    for (uint32_t t = 0; t < times; t++) {
        bg_err err = bgi_filter_similar(filter, from->core.units / 2, &half, info);
        if (!err) {
            filter->kind->fold(&half->core, &from->core);
        }
        if (from != filter) {
            bg_filter_free(
                (bg_filter *)(uintptr_t)from); /* created in the previous iteration */
        }
        if (err) {
            return err;
        }
        from = half;
    }
    *folded = half;
    return setops_keep(filter, folded, info);
}

bg_err bg_filter_compact(const bg_filter *filter, bg_filter **compacted,
                         bg_errinfo *info)
{
    if (!filter || !compacted) {
        if (compacted) {
            *compacted = NULL;
        }
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the result", "NULL");
    }
    bgi_err_clear(info);
    *compacted = NULL;
    if (!filter->kind->composed || !filter->kind->composed->compact) {
        return bgi_err_state(
            info, BG_ENOTSUP, "kind",
            "a %s filter cannot be compacted; only kinds that grow in layers can",
            bg_kind_name(filter->kind->id));
    }
    const bg_err err = filter->kind->composed->compact(filter, compacted, info);
    if (!err) {
        (*compacted)->canaries = bgi_filter_canaries(filter);
        (*compacted)->canary_generation = filter->canary_generation;
    }
    return err ? err : setops_keep(filter, compacted, info);
}

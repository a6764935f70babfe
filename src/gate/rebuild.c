/*
 * rebuild.c - the phases of a rebuild, which creates a new base from the backing store while the
 * slot is in use.
 *
 *     1  rebuild_claim   no other thread changes the slot. The new filter is sized by the number
 *                        of keys, which is known or counted
 *     2  rebuild_open    the new filter (or the new delta) accepts all adds from now on, in
 *                        addition to the filters that accepted them before; waits until every
 *                        add that did not see it has returned
 *     3  rebuild_put     the keys of the backing store are added to the new filter, by any number
 *                        of threads
 *     4  rebuild_close   the new filter becomes the base; the others are removed
 *
 * One of two files supplies the keys: rebuild_pull.c reads them from a source, and rebuild_push.c
 * receives them from its caller.
 *
 * No key is lost. If an add returned before phase 2 ended, its key was already in the backing
 * store (gate.h requires this order), so phase 3 reads the key from the store. The keys of all
 * later adds are in the new filter, or in the new delta, which stays in the slot. This is rule (S2)
 * in slot.c.
 *
 * Whatever happens before phase 4, the slot keeps its filters. Only one rebuild runs at a time.
 * Queries, adds, merges and saves continue during a rebuild. Other operations fail with BG_EBUSY.
 *
 * Ownership. Until phase 2, the rebuild owns the new filter. After that, if there is no delta,
 * `next` and the slot's list own the filter. If there is a delta, `next` is the delta, and the
 * rebuild owns the filter until phase 4.
 */
#include "gate/rebuild.h"
#include "filter/content.h"
#include "hash/hasher.h"

#include <math.h>
#include <string.h>

/* ---- Options ---------------------------------------------------------------------------- */

static bool rebuild_is_unset(const bg_hash_spec *hash)
{
    return hash->profile == 0 && hash->seed == 0 && !hash->secret && !hash->custom;
}

/* Returns the hash spec of a filter. The spec points to the filter's secret, which is not
 * copied. */
static bg_hash_spec rebuild_hash_of(const bg_filter *filter)
{
    const struct bgi_hasher *h = bgi_hasher_in(bg_filter_hasher(filter));
    bg_hash_spec hash = { .profile = h->profile, .seed = h->seed, .secret = h->secret };
    if (h->profile == BG_HASH_CUSTOM) {
        hash.custom = h->u.custom.function;
        hash.custom_context = h->u.custom.context;
        hash.custom_name = h->u.custom.name;
    }
    return hash;
}

/* Sets each field that is unset in the spec to the base's value. */
static void rebuild_fill_in(bg_spec *spec, const bg_filter *base)
{
    if (!base) {
        return;
    }
    if (spec->kind == BG_KIND_AUTO && spec->rate == 0 && spec->bits_per_key == 0) {
        struct bgi_recipe recipe;
        bgi_recipe_of(base, &recipe);
        spec->kind = recipe.kind;
        spec->width = recipe.width;
        spec->shards = recipe.shards;
        spec->flags |= base->flags & (BG_SPEC_SMALL_PAGES | BG_SPEC_SCATTERED);
    }
    if (spec->rate == 0 && spec->bits_per_key == 0 && spec->bytes == 0) {
        spec->rate =
            base->design_rate > 0 && base->design_rate < 1 ? base->design_rate : 0.01;
    }
    if (rebuild_is_unset(&spec->hash)) {
        spec->hash = rebuild_hash_of(base);
    }
}

bg_err rebuild_check(const bg_slot *slot, const bg_rebuild_options *options,
                     bg_errinfo *info)
{
    if (!slot || !options || options->struct_size != sizeof *options
        || options->flags) {
        return bgi_err(info, BG_EINVAL, "slot, options",
                       "a slot, and options from BG_REBUILD_OPTIONS_INIT", "%s",
                       slot && options ? "other options" : "NULL");
    }
    if (!(options->headroom >= 0) || options->headroom > 1e6) {
        return bgi_err(info, BG_EINVAL, "headroom", "0 .. 1e6", "%g",
                       options->headroom);
    }
    if (options->delta && !slot_can_take(options->delta)) {
        return bgi_err(info, BG_EINVAL, "delta",
                       "a filter that several threads can add to", "%s",
                       bg_kind_name(bg_filter_kind(options->delta)));
    }
    return BG_OK;
}

/* ---- The new filter --------------------------------------------------------------------- */

static bg_err rebuild_make(struct bg_rebuild *r, const bg_filter *base,
                           uint64_t expected, bg_errinfo *info)
{
    bg_spec spec = r->how.spec;
    const double headroom = r->how.headroom > 0 ? r->how.headroom : 2;
    rebuild_fill_in(&spec, base);
    if (spec.kind == BG_KIND_WINDOW && !spec.window) {
        return bgi_err(info, BG_EINVAL, "spec.window", "options for the new window",
                       "NULL");
    }
    if (spec.items == 0) {
        const double items = ceil((double)expected * headroom);
        spec.items = items < 1 ? 1 : items < 0x1p56 ? (uint64_t)items : 1ull << 56;
    }
    r->how.spec.items = spec.items;
    if (bg_kind_traits((bg_kind)spec.kind) & BG_TRAIT_STATIC) {
        if (!r->how.delta) {
            return bgi_err(info, BG_EINVAL, "delta",
                           "a delta for new keys, because the new base is static",
                           "NULL");
        }
        return bg_builder_create(&spec, &r->builder, info);
    }
    spec.flags &= (uint32_t)~BG_SPEC_EXCLUSIVE;
    return bg_filter_create(&spec, &r->filter, info);
}

/* Adds r->next to the slot's draft. A delta is queried immediately; a new base is not. */
static bg_err rebuild_join_draft(struct bg_rebuild *r, struct slot_draft *draft,
                                 bg_role role, bool takes, bg_errinfo *info)
{
    if (!r->next) {
        return bgi_err_state(info, BG_ENOMEM, "slot",
                             "cannot allocate memory for another filter in the slot");
    }
    if (!slot_draft_put(draft, r->next, role, role == BG_ROLE_DELTA, takes)) {
        return bgi_err_state(info, BG_EBUSY, "slot",
                             "the slot has %zu filters, the maximum; compact it first",
                             draft->count);
    }
    return BG_OK;
}

/* Seals all current filters and makes the new delta accept adds. Failed rebuilds leave their deltas
 * in the slot, so when the slot has nearly the maximum number of filters, the last delta is
 * reused. */
static bg_err rebuild_put_delta(struct bg_rebuild *r, struct slot_draft *draft,
                                bg_errinfo *info)
{
    const struct view_member *present =
        view_find_delta(atomic_load(&r->slot->view), true);
    if (draft->count >= VIEW_MAX - 1 && present) {
        bg_filter_free(r->how.delta);
        r->how.delta = present->filter;
        r->next = present->shared;
        atomic_fetch_add(&present->shared->owners, 1);
        return BG_OK;
    }
    guard_layered(&draft->guard, r->joined, slot_draft_seal(draft),
                  slot_draft_find(draft, BG_ROLE_DELTA) != NULL);
    r->next = view_filter_make(r->how.delta, slot_allocator(r->slot));
    return rebuild_join_draft(r, draft, BG_ROLE_DELTA, true, info);
}

static bg_err rebuild_put_next(struct bg_rebuild *r, struct slot_draft *draft,
                               bg_errinfo *info)
{
    r->next = view_filter_make(r->filter, slot_allocator(r->slot));
    return rebuild_join_draft(r, draft, BG_ROLE_NEXT, !r->sealed, info);
}

/* Publishes r->next, which then accepts adds. */
static bg_err rebuild_join(struct bg_rebuild *r, bg_errinfo *info)
{
    struct slot_draft draft;
    (void)pthread_mutex_lock(&r->slot->change);
    slot_draft_begin(r->slot, &draft);
    r->sealed =
        !atomic_load(&r->slot->view)->takes && (draft.count > 0 || r->slot->sealed);
    r->joined = slot_mark(r->slot);
    bg_err err = r->how.delta ? rebuild_put_delta(r, &draft, info)
                              : rebuild_put_next(r, &draft, info);
    err = err ? err : slot_publish(r->slot, &draft, info);
    if (err && r->next && atomic_load(&r->next->owners) == 1) {
        r->next->filter = NULL; /* rebuild_free frees the delta or filter */
        view_filter_drop(r->next);
        r->next = NULL;
    }
    (void)pthread_mutex_unlock(&r->slot->change);
    if (!err) {
        bgi_grace_wait(r->slot->grace);
    }
    return err;
}

/* ---- The switch ------------------------------------------------------------------------- */

/* Drafts the rebuild's last view, which consists of the members that stay and the new base. */
static void rebuild_last_draft(struct bg_rebuild *r, struct view_filter *base,
                               struct slot_draft *draft)
{
    slot_draft_begin(r->slot, draft);
    draft->count = 0;
    (void)slot_draft_put(draft, base, BG_ROLE_BASE, true, !r->how.delta && !r->sealed);
    if (r->how.delta) {
        (void)slot_draft_put(draft, r->next, BG_ROLE_DELTA, true, true);
    }
}

static uint64_t rebuild_complete(const struct bg_rebuild *r)
{
    const uint64_t now = atomic_load(&r->slot->complete), source = r->how.complete;
    const bool gap = source && source < r->joined.complete;
    return gap ? source : source > now ? source : now;
}

/* Makes the new filter the base. The caller holds slot->change. */
static bg_err rebuild_switch(struct bg_rebuild *r, bg_errinfo *info)
{
    struct slot_draft draft;
    struct view_filter *base = r->next;
    if (atomic_load(&r->next->failed)) {
        return bgi_err_state(
            info, BG_EFULL, "new filter",
            "the new filter, for %llu items, has no space for keys added during the "
            "rebuild; raise the headroom",
            (unsigned long long)r->how.spec.items);
    }
    if (r->how.delta) {
        base = view_filter_make(r->filter, slot_allocator(r->slot));
        if (!base) {
            return bgi_err_state(info, BG_ENOMEM, "memory",
                                 "cannot allocate memory for the new base");
        }
        r->filter = NULL;
    }
    rebuild_last_draft(r, base, &draft);
    const uint64_t before = atomic_load(&r->slot->complete);
    const uint64_t complete = rebuild_complete(r);
    const struct guard_rebuilt how = { .began = r->joined,
                                       .took = !r->sealed,
                                       .layered = r->how.delta != NULL };
    guard_rebuilt(&draft.guard, &how);
    if (complete < before) {
        slot_lower_complete(r->slot, complete);
    }
    bg_err err = slot_publish(r->slot, &draft, info);
    slot_raise_complete(r->slot, err ? before : complete);
    if (!err) {
        slot_counted(r->slot, &r->slot->swaps);
        slot_base_came(r->slot);
        atomic_store(&r->slot->whole, r->making);
    }
    if (base != r->next) {
        view_filter_drop(base);
    }
    return err;
}

/* Removes the new filter, which has never been queried, from the slot's list. */
static void rebuild_undo(struct bg_rebuild *r)
{
    struct slot_draft draft;
    slot_draft_begin(r->slot, &draft);
    if (slot_draft_find(&draft, BG_ROLE_NEXT)) {
        slot_draft_remove(&draft, BG_ROLE_NEXT);
        (void)slot_publish(r->slot, &draft, NULL); /* cannot fail (S3) */
    }
}

/* ---- Phases ----------------------------------------------------------------------------- */

bg_err rebuild_claim(struct bg_rebuild *r, bg_slot *slot,
                     const bg_rebuild_options *options, bg_errinfo *info)
{
    bg_err err = BG_OK;
    (void)pthread_mutex_lock(&slot->change);
    if (slot->rebuilding) {
        err = bgi_err_state(info, BG_EBUSY, "slot", "a rebuild is already in progress");
    } else {
        slot_set_rebuilding(slot, true);
    }
    (void)pthread_mutex_unlock(&slot->change);
    if (!err) {
        *r = (struct bg_rebuild){ .slot = slot,
                                  .how = *options,
                                  .began = slot_now(slot) };
        (void)pthread_mutex_init(&r->building, NULL);
    }
    return err;
}

bg_err rebuild_open(struct bg_rebuild *r, uint64_t expected, bg_errinfo *info)
{
    const struct view_member *base;
    (void)pthread_mutex_lock(&r->slot->change);
    base = view_find(atomic_load(&r->slot->view), BG_ROLE_BASE);
    bg_err err = rebuild_make(r, base ? base->filter : NULL, expected, info);
    (void)pthread_mutex_unlock(&r->slot->change);
    err = err ? err : rebuild_join(r, info);
    r->making = err ? 0 : slot_making(r->slot);
    return err;
}

bg_err rebuild_refuse(struct bg_rebuild *r, bg_err err)
{
    int before = BG_OK;
    atomic_compare_exchange_strong(&r->refused, &before, (int)err);
    return err;
}

bg_err rebuild_put(struct bg_rebuild *r, bg_keys keys, bg_errinfo *info)
{
    bg_err err;
    if (r->builder) {
        (void)pthread_mutex_lock(&r->building);
        err = bg_builder_add_many(r->builder, keys);
        (void)pthread_mutex_unlock(&r->building);
    } else {
        err = bg_filter_add_many(r->filter, keys, NULL, NULL, NULL);
    }
    if (err) {
        (void)rebuild_refuse(r, err);
        return bgi_err_state(info, err, "new filter",
                             "cannot add more than %llu keys to the new filter: %s",
                             (unsigned long long)atomic_load(&r->keys),
                             bg_strerror(err));
    }
    atomic_fetch_add(&r->keys, keys.count);
    return BG_OK;
}

/* Checks that no key was refused, and finishes the new filter if it is of a static kind. */
static bg_err rebuild_finish(struct bg_rebuild *r, bg_errinfo *info)
{
    const bg_err refused = (bg_err)atomic_load(&r->refused);
    if (refused) {
        return bgi_err_state(info, refused, "new filter",
                             "some keys could not be added to the new filter: %s",
                             bg_strerror(refused));
    }
    return r->builder ? bg_builder_finish(r->builder, &r->filter, info) : BG_OK;
}

double rebuild_seconds(const struct bg_rebuild *r)
{
    const uint64_t now = slot_now(r->slot);
    return now > r->began ? (double)(now - r->began) / 1e9
                          : 0; /* if the clock went backward */
}

static void rebuild_report(const struct bg_rebuild *r, bg_rebuild_report *report)
{
    const uint64_t keys = atomic_load(&r->keys);
    if (report) {
        *report = (bg_rebuild_report){ .struct_size = sizeof *report,
                                       .undersized = keys > r->how.spec.items,
                                       .keys = keys,
                                       .items = r->how.spec.items,
                                       .seconds = rebuild_seconds(r) };
    }
}

static void rebuild_free(struct bg_rebuild *r)
{
    if (!r->next) { /* the delta was never added to the list */
        bg_filter_free(r->how.delta);
    }
    if (!r->next || r->how.delta) { /* otherwise `next` owns it */
        bg_filter_free(r->filter);
    }
    view_filter_drop(r->next);
    bg_builder_free(r->builder);
    (void)pthread_mutex_destroy(&r->building);
}

bg_err rebuild_close(struct bg_rebuild *r, bg_err err, bg_rebuild_report *report,
                     bg_errinfo *why)
{
    bg_slot *slot = r->slot;
    err = err ? err : rebuild_finish(r, why);
    (void)pthread_mutex_lock(&slot->change);
    err = err ? err : rebuild_switch(r, why);
    if (err) {
        rebuild_undo(r);
        slot_failed(slot, &slot->rebuild_failures, why);
    } else {
        slot_counted(slot, &slot->rebuilds);
    }
    slot_set_rebuilding(slot, false);
    (void)pthread_mutex_unlock(&slot->change);
    bgi_grace_wait_retired(slot->grace, SLOT_WAIT_MILLISECONDS);
    rebuild_report(r, report);
    rebuild_free(r);
    return err;
}

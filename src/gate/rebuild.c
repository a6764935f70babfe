/*
 * rebuild.c - a new base from the source of truth, while the slot is in use.
 *
 *     1  count the keys, if nobody knows their number; size the new filter by it
 *     2  the new filter (or the new delta) takes all adds from now on, besides those who
 *        took them before; wait until every add that did not see it has returned
 *     3  read the source into the new filter
 *     4  the new one becomes the base; the others go
 *
 * No key is lost: an add that returned before the end of 2 wrote its key to the truth
 * before that (gate.h: truth first), so the source, read in 3, tells it; all later adds are
 * in the new filter, or in the new delta, which stays. This is (S2) of slot.c.
 *
 * Whatever happens before 4, the slot has what it had. One rebuild at a time; other changes
 * are refused meanwhile (BG_EBUSY), but for queries, adds and saves.
 */
#include "bloomgate/builder.h"
#include "filter/content.h"
#include "gate/slot_inside.h"
#include "hash/hasher.h"

#include <math.h>
#include <string.h>

enum {
    REBUILD_BATCH = 1024,
    REBUILD_TELL = 64
}; /* keys, and batches between reports */

struct rebuild {
    bg_slot *slot;
    const bg_source *source;
    bg_rebuild_options how;
    bg_rebuild_progress progress;
    uint64_t began;
    bg_builder *builder;      /* of a static kind */
    bg_filter *filter;        /* or the filter itself */
    struct view_filter *next; /* once it is in the slot's list */
    bool sealed;              /* nobody takes adds */
    uint64_t complete_before;
    uint64_t making; /* see slot_making */
};

/* ---- What is wanted --------------------------------------------------------------------- */

static bool rebuild_is_unset(const bg_hash_spec *hash)
{
    return hash->profile == 0 && hash->seed == 0 && !hash->secret && !hash->custom;
}

/* How a filter hashes, as a spec; the secret stays where it is. */
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

/* What the spec leaves out is as in the base. */
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
        spec->flags |= base->flags & (BG_SMALL_PAGES | BG_SCATTERED);
    }
    if (spec->rate == 0 && spec->bits_per_key == 0 && spec->bytes == 0) {
        spec->rate =
            base->design_rate > 0 && base->design_rate < 1 ? base->design_rate : 0.01;
    }
    if (rebuild_is_unset(&spec->hash)) {
        spec->hash = rebuild_hash_of(base);
    }
}

static bg_err rebuild_check(const bg_slot *slot, const bg_source *source,
                            const bg_rebuild_options *options, bg_errinfo *info)
{
    if (!slot || !source || !source->next || !options
        || options->struct_size != sizeof *options || options->flags) {
        return bgi_err(info, BG_EINVAL, "slot, source, options",
                       "a slot, a source with `next`, BG_REBUILD_OPTIONS_INIT", "%s",
                       slot && source && options ? "another" : "NULL");
    }
    if (!(options->headroom >= 0) || options->headroom > 1e6) {
        return bgi_err(info, BG_EINVAL, "headroom", "0 .. 1e6", "%g",
                       options->headroom);
    }
    if (options->delta && !slot_can_take(options->delta)) {
        return bgi_err(info, BG_EINVAL, "delta", "a filter that several threads add to",
                       "%s", bg_kind_name(bg_filter_kind(options->delta)));
    }
    return BG_OK;
}

/* ---- Progress --------------------------------------------------------------------------- */

static double rebuild_seconds(const struct rebuild *r)
{
    const uint64_t now = slot_now(r->slot);
    return now > r->began ? (double)(now - r->began) / 1e9
                          : 0; /* or the clock jumped */
}

static bg_err rebuild_tell(struct rebuild *r, bg_errinfo *info)
{
    bg_rebuild_progress *p = &r->progress;
    p->seconds = rebuild_seconds(r);
    p->keys_per_second = p->seconds > 0 ? (double)p->keys / p->seconds : 0;
    p->seconds_left = -1;
    if (p->expected > p->keys && p->keys_per_second > 0) {
        p->seconds_left = (double)(p->expected - p->keys) / p->keys_per_second;
    }
    if (r->how.progress && !r->how.progress(r->how.context, p)) {
        return bgi_err(info, BG_ECANCELED, "progress", "true", "false");
    }
    return BG_OK;
}

/* ---- Keys ------------------------------------------------------------------------------- */

static bg_err rebuild_add(struct rebuild *r, const bg_bytes *keys, size_t n,
                          bg_errinfo *info)
{
    size_t done = 0;
    bg_err err = BG_OK;
    if (r->progress.counting) {
        return BG_OK;
    }
    if (r->builder) {
        err = bg_builder_add_many(r->builder, keys, n);
    } else {
        err = bg_filter_insert_many(r->filter, keys, n, &done, NULL);
    }
    return err ? bgi_err(info, err, "new filter", "room for all keys",
                         "%llu keys so far", (unsigned long long)r->progress.keys)
               : BG_OK;
}

/* Reads all of the source: to count, or to add. */
static bg_err rebuild_read(struct rebuild *r, bg_errinfo *info)
{
    bg_bytes keys[REBUILD_BATCH];
    bg_err err = rebuild_tell(r, info);
    for (uint64_t batch = 1; !err; batch++) {
        size_t n = 0;
        err = r->source->next(r->source->context, keys, REBUILD_BATCH, &n, info);
        if (err && info && info->code != err) {
            (void)bgi_err(info, err, "source", "keys", "an error after %llu",
                          (unsigned long long)r->progress.keys);
        }
        if (!err && n > REBUILD_BATCH) {
            err = bgi_err(info, BG_EINVAL, "source",
                          "at most as many keys as asked for", "%zu", n);
        }
        if (err || n == 0) {
            break;
        }
        err = rebuild_add(r, keys, n, info);
        r->progress.keys += err ? 0 : n;
        if (!err && batch % REBUILD_TELL == 0) {
            err = rebuild_tell(r, info);
        }
    }
    return err ? err : rebuild_tell(r, info);
}

/* (1) */
static bg_err rebuild_count(struct rebuild *r, bg_errinfo *info)
{
    r->progress.expected = r->source->count;
    if (r->source->count || r->how.spec.items) {
        return BG_OK;
    }
    if (!r->source->rewind) {
        return bgi_err(info, BG_ENOTSUP, "source",
                       "its count, or rewind, or spec.items", "neither");
    }
    r->progress.counting = 1;
    bg_err err = rebuild_read(r, info);
    r->progress.counting = 0;
    r->progress.expected = r->progress.keys;
    r->progress.keys = 0;
    return err ? err : r->source->rewind(r->source->context, info);
}

/* ---- The new filter --------------------------------------------------------------------- */

static bg_err rebuild_make(struct rebuild *r, const bg_filter *base, bg_errinfo *info)
{
    bg_spec spec = r->how.spec;
    const double headroom = r->how.headroom > 0 ? r->how.headroom : 2;
    rebuild_fill_in(&spec, base);
    if (spec.kind == BG_KIND_WINDOW && !spec.window) {
        return bgi_err(info, BG_EINVAL, "spec.window", "how the new window moves",
                       "NULL");
    }
    if (spec.items == 0) {
        const double items = ceil((double)r->progress.expected * headroom);
        spec.items = items < 1 ? 1 : items < 0x1p56 ? (uint64_t)items : 1ull << 56;
    }
    r->how.spec.items = spec.items;
    if (bg_kind_traits((bg_kind)spec.kind) & BG_IS_STATIC) {
        if (!r->how.delta) {
            return bgi_err(info, BG_EINVAL, "delta", "one, beside a static kind",
                           "NULL");
        }
        return bg_builder_create(&spec, &r->builder, info);
    }
    spec.flags &= (uint32_t)~BG_EXCLUSIVE;
    return bg_filter_create(&spec, &r->filter, info);
}

/* Everything that is there is sealed, and the new delta takes the adds. Rebuilds that failed
 * have left theirs; before there are too many the last one does it once more. */
static bg_err rebuild_put_delta(struct rebuild *r, struct slot_draft *draft,
                                bg_errinfo *info)
{
    const struct view_member *present =
        view_find_delta(atomic_load(&r->slot->view), true);
    if (draft->count >= VIEW_MOST - 1 && present) {
        bg_filter_free(r->how.delta);
        r->how.delta = present->filter;
        r->next = present->shared;
        atomic_fetch_add(&present->shared->owners, 1);
        return BG_OK;
    }
    for (size_t i = 0; i < draft->count; i++) {
        draft->members[i].takes = false;
    }
    r->next = view_filter_make(r->how.delta, slot_allocator(r->slot));
    if (!r->next || !slot_draft_put(draft, r->next, BG_ROLE_DELTA, true, true)) {
        return bgi_err(info, BG_EBUSY, "slot", "room for another delta", "%zu filters",
                       draft->count);
    }
    return BG_OK;
}

static bg_err rebuild_put_next(struct rebuild *r, struct slot_draft *draft,
                               bg_errinfo *info)
{
    r->next = view_filter_make(r->filter, slot_allocator(r->slot));
    if (!r->next || !slot_draft_put(draft, r->next, BG_ROLE_NEXT, false, !r->sealed)) {
        return bgi_err(info, r->next ? BG_EBUSY : BG_ENOMEM, "slot",
                       "room for another filter", "%zu filters", draft->count);
    }
    return BG_OK;
}

/* (2); r->next is what takes the adds from then on. */
static bg_err rebuild_begin(struct rebuild *r, bg_errinfo *info)
{
    struct slot_draft draft;
    (void)pthread_mutex_lock(&r->slot->change);
    slot_draft_begin(r->slot, &draft);
    r->sealed =
        !atomic_load(&r->slot->view)->takes && (draft.count > 0 || r->slot->sealed);
    r->complete_before = atomic_load(&r->slot->complete);
    bg_err err = r->how.delta ? rebuild_put_delta(r, &draft, info)
                              : rebuild_put_next(r, &draft, info);
    err = err ? err : slot_publish(r->slot, &draft, info);
    if (err && r->next && atomic_load(&r->next->owners) == 1) {
        r->next->filter = NULL; /* it is freed at the end */
        view_filter_drop(r->next);
        r->next = NULL;
    }
    (void)pthread_mutex_unlock(&r->slot->change);
    if (!err) {
        bgi_grace_wait(r->slot->grace);
    }
    return err;
}

/* The members that stay, and the new base. */
static void rebuild_last_draft(struct rebuild *r, struct view_filter *base,
                               struct slot_draft *draft)
{
    draft->count = 0;
    (void)slot_draft_put(draft, base, BG_ROLE_BASE, true, !r->how.delta && !r->sealed);
    if (r->how.delta) {
        (void)slot_draft_put(draft, r->next, BG_ROLE_DELTA, true, true);
    }
}

static uint64_t rebuild_complete(const struct rebuild *r)
{
    const uint64_t now = atomic_load(&r->slot->complete), source = r->how.complete;
    const bool gap = source && source < r->complete_before;
    return gap ? source : source > now ? source : now;
}

/* (4), with slot->change held. */
static bg_err rebuild_switch(struct rebuild *r, bg_errinfo *info)
{
    struct slot_draft draft;
    struct view_filter *base = r->next;
    if (atomic_load(&r->next->failed)) {
        return bgi_err(info, BG_EFULL, "new filter", "room for all that was added",
                       "%llu items", (unsigned long long)r->how.spec.items);
    }
    if (r->how.delta) {
        base = view_filter_make(r->filter, slot_allocator(r->slot));
        if (!base) {
            return bgi_err(info, BG_ENOMEM, "memory", "enough for a description",
                           "none");
        }
        r->filter = NULL;
    }
    rebuild_last_draft(r, base, &draft);
    const uint64_t complete = rebuild_complete(r);
    if (complete < atomic_load(&r->slot->complete)) {
        atomic_store(&r->slot->complete, complete);
    }
    bg_err err = slot_publish(r->slot, &draft, info);
    if (!err) {
        r->slot->has_adds = r->slot->has_adds || !r->sealed;
        slot_counted(r->slot, &r->slot->swaps);
        slot_base_came(r->slot, NULL);
        atomic_store(&r->slot->whole, r->making);
        bg_slot_advance(r->slot, complete);
        r->slot->delta_from = r->complete_before;
    }
    if (base != r->next) {
        view_filter_drop(base);
    }
    return err;
}

/* The new filter leaves the list; nobody has asked it. */
static void rebuild_undo(struct rebuild *r)
{
    struct slot_draft draft;
    slot_draft_begin(r->slot, &draft);
    if (slot_draft_find(&draft, BG_ROLE_NEXT)) {
        slot_draft_remove(&draft, BG_ROLE_NEXT);
        (void)slot_publish(r->slot, &draft,
                           NULL); /* or it stays until the next change */
    }
}

/* (3) and what a static kind needs after it. */
static bg_err rebuild_fill(struct rebuild *r, bg_errinfo *info)
{
    r->making = slot_making(r->slot);
    bg_err err = rebuild_read(r, info);
    if (!err && r->builder) {
        err = bg_builder_finish(r->builder, &r->filter, info);
    }
    return err;
}

static bg_err rebuild_run(struct rebuild *r, bg_errinfo *info)
{
    const struct view_member *base;
    bg_err err = rebuild_count(r, info);
    (void)pthread_mutex_lock(&r->slot->change);
    base = view_find(atomic_load(&r->slot->view), BG_ROLE_BASE);
    err = err ? err : rebuild_make(r, base ? base->filter : NULL, info);
    (void)pthread_mutex_unlock(&r->slot->change);
    if (!err) {
        err = rebuild_begin(r, info);
    }
    if (!err && !r->how.delta) { /* the list has it */
        err = rebuild_fill(r, info);
        r->filter = NULL;
        return err;
    }
    return err ? err : rebuild_fill(r, info);
}

static bg_err rebuild_enter(bg_slot *slot, bg_errinfo *info)
{
    (void)pthread_mutex_lock(&slot->change);
    bg_err err = BG_OK;
    if (slot->rebuilding) {
        err = bgi_err(info, BG_EBUSY, "slot", "no rebuild under way", "one");
    }
    slot_set_rebuilding(slot, true);
    (void)pthread_mutex_unlock(&slot->change);
    return err;
}

static void rebuild_report(const struct rebuild *r, bg_rebuild_report *report)
{
    if (report) {
        *report =
            (bg_rebuild_report){ .struct_size = sizeof *report,
                                 .undersized = r->progress.keys > r->how.spec.items,
                                 .keys = r->progress.keys,
                                 .items = r->how.spec.items,
                                 .seconds = rebuild_seconds(r) };
    }
}

bg_err bg_slot_rebuild(bg_slot *slot, const bg_source *source,
                       const bg_rebuild_options *options, bg_rebuild_report *report,
                       bg_errinfo *info)
{
    bg_errinfo own;
    bg_errinfo *why = info ? info : &own;
    bgi_err_clear(why);
    bg_err err = rebuild_check(slot, source, options, why);
    err = err ? err : rebuild_enter(slot, why);
    if (err || !source) { /* the latter is checked already; for the analyser */
        bg_filter_free(options ? options->delta : NULL);
        return err;
    }
    struct rebuild r = { .slot = slot,
                         .source = source,
                         .how = *options,
                         .progress = { .struct_size = sizeof r.progress },
                         .began = slot_now(slot) };
    err = rebuild_run(&r, why);
    (void)pthread_mutex_lock(&slot->change);
    err = err ? err : rebuild_switch(&r, why);
    if (err) {
        rebuild_undo(&r);
        slot_failed(slot, &slot->rebuild_failures, why);
    } else {
        slot_counted(slot, &slot->rebuilds);
    }
    slot_set_rebuilding(slot, false);
    (void)pthread_mutex_unlock(&slot->change);
    bgi_grace_wait_retired(slot->grace, SLOT_WAIT_MILLISECONDS);
    rebuild_report(&r, report);
    if (!r.next) { /* it has not come so far */
        bg_filter_free(r.how.delta);
    }
    view_filter_drop(r.next);
    bg_builder_free(r.builder);
    bg_filter_free(r.filter);
    return err;
}

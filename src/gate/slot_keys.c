/*
 * slot_keys.c - queries, adds, removes and counts keys in a slot. Keys are bytes, integers or
 * hashes. Each call enters the slot, works on the view that it finds there (view.h), leaves, and
 * updates the counters in its CPU's cache line.
 *
 * Hashes. A hash is valid only for filters that use the hasher that computed it, and a slot may get
 * a filter with a different hasher at any time. So callers pass hashes together with the check
 * value of the hasher that computed them. The passed value is compared with the check value of
 * every filter that is queried or changed. The filters are checked and used within the same view,
 * so no filter can be replaced between the check and its use.
 */
#include "gate/slot_inside.h"

#include "hash/hash_batch.h"

/* Returns the cache line of counters for a call that has entered the slot. Each stripe of the grace
 * period has its own cache line of counters. */
static struct slot_line *slot_line(const bg_slot *slot, bgi_grace_token token)
{
    return &slot->lines[bgi_grace_stripe(token)];
}

static void slot_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void slot_count_answers(const bg_slot *slot, bgi_grace_token token, size_t n,
                               size_t maybes)
{
    struct slot_line *line = slot_line(slot, token);
    if (n > maybes) {
        slot_count(&line->answers[0], n - maybes);
    }
    if (maybes) {
        slot_count(&line->answers[1], maybes);
    }
}

bool slot_has(const bg_slot *slot, const void *key, size_t len, uint64_t *bases)
{
    bgi_grace_token token;
    const struct view *view = slot_enter(slot, &token);
    bool maybe = view_has(view, key, len);
    *bases = view->bases;
    slot_leave(slot, token);
    slot_count_answers(slot, token, 1, maybe);
    return maybe;
}

bool bg_slot_may_contain(const bg_slot *slot, const void *key, size_t len)
{
    uint64_t bases;
    return !slot || slot_has(slot, key, len, &bases);
}

bool bg_slot_may_contain_u64(const bg_slot *slot, uint64_t key)
{
    bgi_grace_token token;
    if (!slot) {
        return true;
    }
    bool maybe = view_has_u64(slot_enter(slot, &token), key);
    slot_leave(slot, token);
    slot_count_answers(slot, token, 1, maybe);
    return maybe;
}

bool bg_slot_may_contain_up_to(const bg_slot *slot, const void *key, size_t len,
                               uint64_t sequence)
{
    if (!slot || sequence > atomic_load(&slot->complete)) {
        return true;
    }
    bool maybe = bg_slot_may_contain(slot, key, len);
    return maybe || sequence > atomic_load(&slot->complete);
}

size_t slot_has_many(const bg_slot *slot, bg_keys keys, uint64_t *maybe,
                     uint64_t *bases)
{
    bgi_grace_token token;
    const struct view *view = slot_enter(slot, &token);
    size_t found = view_has_many(view, keys, maybe);
    *bases = view->bases;
    slot_leave(slot, token);
    slot_count_answers(slot, token, keys.count, found);
    return found;
}

/* Answers "maybe" for all keys. Used if there is no slot or no array of keys. */
static size_t slot_all_maybe(size_t n, uint64_t *maybe)
{
    static const struct view nothing = { .count = 0 };
    return view_has_many(&nothing, bg_keys_u64(NULL, n), maybe);
}

size_t bg_slot_may_contain_many(const bg_slot *slot, bg_keys keys, uint64_t *maybe)
{
    uint64_t bases;
    return slot && bgi_keys_are_valid(&keys) ? slot_has_many(slot, keys, maybe, &bases)
                                             : slot_all_maybe(keys.count, maybe);
}

static void slot_count_adds(const bg_slot *slot, bgi_grace_token token, size_t adds,
                            struct view_news news, bool refused)
{
    struct slot_line *line = slot_line(slot, token);
    if (news.all) {
        slot_count(&line->news, news.all);
    }
    if (adds > news.all) {
        slot_count(&line->olds, adds - news.all);
    }
    if (news.takers > news.all) {
        slot_count(&line->again, news.takers - news.all);
    }
    if (refused) {
        slot_count(&line->refused, 1);
    }
}

bg_err bg_slot_add(bg_slot *slot, const void *key, size_t len, bool *is_new)
{
    bgi_grace_token token;
    struct view_news news = { 0, 0 };
    if (is_new) {
        *is_new = false;
    }
    if (!slot) {
        return BG_EINVAL;
    }
    const struct view *view = slot_enter(slot, &token);
    bg_err err = view_add(view, key, len, &news);
    slot_note_add(slot, view);
    slot_leave(slot, token);
    slot_count_adds(slot, token, !err, news, err);
    if (is_new) {
        *is_new = news.all;
    }
    return err;
}

bg_err bg_slot_add_u64(bg_slot *slot, uint64_t key, bool *is_new)
{
    bgi_grace_token token;
    struct view_news news = { 0, 0 };
    if (is_new) {
        *is_new = false;
    }
    if (!slot) {
        return BG_EINVAL;
    }
    const struct view *view = slot_enter(slot, &token);
    bg_err err = view_add_u64(view, key, &news);
    slot_note_add(slot, view);
    slot_leave(slot, token);
    slot_count_adds(slot, token, !err, news, err);
    if (is_new) {
        *is_new = news.all;
    }
    return err;
}

/* Hashes from a different hasher do not count as refused adds, because the caller can retry with
 * the keys. */
bg_err bg_slot_add_many(bg_slot *slot, bg_keys keys, uint64_t *is_new, size_t *done,
                        size_t *added)
{
    bgi_grace_token token;
    struct view_news news;
    size_t in = 0;
    if (done) {
        *done = 0;
    }
    if (added) {
        *added = 0;
    }
    if (!slot || !bgi_keys_are_valid(&keys)) {
        return BG_EINVAL;
    }
    const struct view *view = slot_enter(slot, &token);
    bg_err err = view_add_many(view, keys, is_new, &in, &news);
    slot_note_add(slot, view);
    slot_leave(slot, token);
    slot_count_adds(slot, token, in, news, err && err != BG_EINCOMPAT);
    if (done) {
        *done = in;
    }
    if (added) {
        *added = news.all;
    }
    return err;
}

/* Returns the filter from which keys are removed, or NULL unless the view has exactly one filter
 * and this filter accepts adds. */
static const struct view_member *slot_remover(const struct view *view)
{
    return view->count == 1 && view->takes ? &view->members[0] : NULL;
}

bg_err bg_slot_remove(bg_slot *slot, const void *key, size_t len)
{
    bgi_grace_token token;
    if (!slot) {
        return BG_EINVAL;
    }
    const struct view_member *one = slot_remover(slot_enter(slot, &token));
    bg_err err = one ? bg_filter_remove(one->filter, key, len) : BG_ENOTSUP;
    slot_leave(slot, token);
    return err;
}

uint64_t bg_slot_count(const bg_slot *slot, const void *key, size_t len)
{
    bgi_grace_token token;
    if (!slot) {
        return 1; /* maybe */
    }
    uint64_t count = view_count(slot_enter(slot, &token), key, len);
    slot_leave(slot, token);
    slot_count_answers(slot, token, 1, count > 0);
    return count;
}

/* ---- Hashes -------------------------------------------------------------------------- */

bg_err bg_slot_hash_many(const bg_slot *slot, bg_keys keys, uint64_t *hashes,
                         uint64_t *check)
{
    bgi_grace_token token;
    if (!slot || !check || !bgi_keys_are_valid(&keys) || (keys.count && !hashes)
        || keys.form == BG_KEYS_HASHES) {
        return BG_EINVAL;
    }
    const struct view *view = slot_enter(slot, &token);
    bg_err err = view->count == 0   ? BG_ENOTFOUND
                 : !view->same_hash ? BG_EINCOMPAT
                                    : BG_OK;
    *check = err ? 0 : view->members[0].check;
    if (!err) {
        bg_hash_many(bg_filter_hasher(view->members[0].filter), keys, hashes);
    }
    slot_leave(slot, token);
    return err;
}

bg_err bg_slot_remove_hash(bg_slot *slot, uint64_t hash, uint64_t check)
{
    bgi_grace_token token;
    if (!slot) {
        return BG_EINVAL;
    }
    const struct view_member *one = slot_remover(slot_enter(slot, &token));
    bg_err err = !one                  ? BG_ENOTSUP
                 : one->check != check ? BG_EINCOMPAT
                                       : bg_filter_remove_hash(one->filter, hash);
    slot_leave(slot, token);
    return err;
}

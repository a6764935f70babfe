/*
 * reload.c - loads and saves a slot's base.
 *
 * A file is accepted only if it passes the bg_open checks (all checksums, the structure and the
 * canaries) and is a successor of the current filter: it must have the same kind, hash and secret,
 * the expected key id, and a generation that is not older. If a check fails, the current filter
 * stays in use, and the failure is counted and recorded.
 *
 * The file is opened once, so the same file is compared, verified and mapped even if its path is
 * replaced in the meantime.
 *
 * A slot's reloads run one at a time, and all other operations continue while a file is being read.
 * If a rebuild or a replacement with BG_SLOT_DISCARD starts later but finishes first, the file is
 * refused, because keys that the new base contains may be missing from the file.
 *
 * A mapped file must not be written to, because its bytes are the filter. Nothing prevents such
 * writes, but they change the size or the modification time of the file. The size and the time are
 * compared after a file has been verified, at every reload, and whenever a watch checks the file.
 * If either has changed, the filter answers "maybe" until it is replaced (bgi_filter_doubt).
 */
#include "gate/slot_inside.h"

#include "store/disk.h"
#include "store/metadata.h"

#include <stdio.h>
#include <string.h>

static const char reload_line[] = "complete:";

static bg_err reload_take_options(const bg_reload_options *options,
                                  bg_reload_options *to, bg_errinfo *info)
{
    static const bg_reload_options usual = BG_RELOAD_OPTIONS_INIT;
    const uint32_t known = BG_SLOT_DISCARD | BG_SLOT_ANY_KIND | BG_SLOT_ANY_HASH
                           | BG_SLOT_MAP | BG_SLOT_ANY_GENERATION;
    *to = options ? *options : usual;
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_reload_options): use BG_RELOAD_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->flags & ~known) {
        return bgi_err(info, BG_EINVAL, "flags", "flags of bg_reload_options", "0x%x",
                       to->flags);
    }
    return BG_OK;
}

static bool reload_is_zero(const uint8_t key_id[BG_KEY_ID_BYTES])
{
    static const uint8_t zero[BG_KEY_ID_BYTES];
    return memcmp(key_id, zero, sizeof zero) == 0;
}

/* Checks that the new filter is a successor of the current filter. */
static bg_err reload_compare(const bg_filter *now, const bg_filter *next,
                             uint32_t flags, bg_errinfo *info)
{
    if (!(flags & BG_SLOT_ANY_KIND) && bg_filter_kind(now) != bg_filter_kind(next)) {
        return bgi_err(info, BG_EINCOMPAT, "filter kind in the file",
                       bg_kind_name(bg_filter_kind(now)), "%s",
                       bg_kind_name(bg_filter_kind(next)));
    }
    const bg_hasher *a = bg_filter_hasher(now), *b = bg_filter_hasher(next);
    if (!(flags & BG_SLOT_ANY_HASH) && !bg_hasher_equal(a, b)) {
        const char *name = bg_hash_name(bg_hasher_profile(a));
        bool same = bg_hasher_profile(a) == bg_hasher_profile(b);
        return bgi_err(info, BG_EINCOMPAT, "hash function in the file", name, "%s%s",
                       bg_hash_name(bg_hasher_profile(b)),
                       same ? " with a different seed, secret or function" : "");
    }
    return BG_OK;
}

/* Checks the key id and the generation, which only files have. The key id of an earlier file is
 * required as long as the base has the same hash as that file. */
static bg_err reload_compare_files(const struct view *view, const bg_file_info *next,
                                   const bg_reload_options *how, bg_errinfo *info)
{
    const struct guard *now = &view->guard;
    const struct view_member *base = view_find(view, BG_ROLE_BASE);
    const bool filed = now->key_check && base && base->check == now->key_check;
    const uint8_t *expected = reload_is_zero(how->key_id) ? now->key_id : how->key_id;
    const bool decided = filed || !reload_is_zero(how->key_id);
    if (decided && !(how->flags & BG_SLOT_ANY_HASH)
        && memcmp(expected, next->key_id, BG_KEY_ID_BYTES) != 0) {
        return bgi_err(info, BG_EINCOMPAT, "key id in the file",
                       "the key id in the previous file or in the options", "%.16s",
                       (const char *)next->key_id);
    }
    if (!(how->flags & BG_SLOT_ANY_GENERATION) && next->generation < now->generation) {
        char least[40];
        (void)snprintf(least, sizeof least, "%llu or higher",
                       (unsigned long long)now->generation);
        return bgi_err(info, BG_EINCOMPAT, "generation in the file", least, "%llu",
                       (unsigned long long)next->generation);
    }
    return BG_OK;
}

/* Installs a filter loaded from a file. The slot takes ownership only on success. */
static bg_err reload_place(bg_slot *slot, struct slot_incoming *incoming,
                           const bg_reload_options *how, bg_errinfo *info)
{
    const bg_filter *filter = incoming->filter;
    const bg_file_info *about = incoming->about;
    (void)metadata_number(about->metadata, reload_line, &incoming->complete);
    const struct view *view = atomic_load(&slot->view);
    const struct view_member *base = view_find(view, BG_ROLE_BASE);
    bg_err err = base ? reload_compare(base->filter, filter, how->flags, info) : BG_OK;
    err = err ? err : reload_compare_files(view, about, how, info);
    if (!err && slot->rebuilding) {
        err = bgi_err_state(info, BG_EBUSY, "slot",
                            "a rebuild is in progress; wait for it or abort it");
    }
    return err ? err : slot_swap_base(slot, incoming, info);
}

/* Returns the digest of the file from which the base was loaded, or "" if the base was not loaded
 * from a file. */
static void reload_known(const bg_slot *slot, char digest[BG_DIGEST_TEXT_BYTES])
{
    bgi_grace_token token;
    const struct view_member *base = view_find(slot_enter(slot, &token), BG_ROLE_BASE);
    digest[0] = 0;
    if (base) {
        memcpy(digest, base->shared->digest, BG_DIGEST_TEXT_BYTES);
    }
    slot_leave(slot, token);
}

bool slot_doubt_maps(bg_slot *slot)
{
    bgi_grace_token token;
    bg_errinfo why;
    bool doubted = false, changed = false;
    const struct view *view = slot_enter(slot, &token);
    for (size_t i = 0; i < view->count; i++) {
        bg_filter *filter = view->members[i].filter;
        changed |= bgi_filter_is_changed(filter) && bgi_filter_doubt(filter);
        doubted |= __atomic_load_n(&filter->mapping.doubted, __ATOMIC_ACQUIRE);
    }
    slot_leave(slot, token);
    if (changed) {
        (void)bgi_err_state(
            &why, BG_EFORMAT, "mapped file",
            "the mapped file was overwritten in place; all answers are \"maybe\" until "
            "it is replaced by renaming");
        slot_failed(slot, &slot->reload_failures, &why);
    }
    return doubted;
}

static bg_err reload_file(bg_slot *slot, const char *path, const bg_reload_options *how,
                          uint64_t making, bg_errinfo *info)
{
    bg_file_info about = { .struct_size = sizeof about };
    struct slot_incoming incoming = { .flags = how->flags,
                                      .making = making,
                                      .about = &about };
    char known[BG_DIGEST_TEXT_BYTES];
    reload_known(slot, known);
    if (slot_doubt_maps(slot)) {
        known[0] = 0; /* forces a reload of the same file */
    }
    bg_err err = bgi_file_open_other(path, how->opening, how->flags & BG_SLOT_MAP,
                                     known, &about, &incoming.filter, info);
    (void)pthread_mutex_lock(&slot->change);
    if (!err && incoming.filter) {
        err = reload_place(slot, &incoming, how, info);
    }
    if (err) {
        slot_failed(slot, &slot->reload_failures, info);
        bg_filter_free(incoming.filter);
    } else {
        slot_counted(slot, incoming.filter ? &slot->reloads : &slot->reload_unchanged);
    }
    (void)pthread_mutex_unlock(&slot->change);
    return err;
}

bg_err bg_slot_reload(bg_slot *slot, const char *path, const bg_reload_options *options,
                      bg_errinfo *info)
{
    bg_reload_options how;
    bg_errinfo own;
    bg_errinfo *why = info ? info : &own;
    bgi_err_clear(why);
    if (!slot || !path) {
        return bgi_err(why, BG_EINVAL, "slot, path", "a slot and a path", "NULL");
    }
    bg_err err = reload_take_options(options, &how, why);
    if (err) {
        return err;
    }
    const uint64_t making = slot_making(slot);
    (void)pthread_mutex_lock(&slot->reload);
    err = reload_file(slot, path, &how, making, why);
    (void)pthread_mutex_unlock(&slot->reload);
    bgi_grace_wait_retired(slot->grace, SLOT_WAIT_MILLISECONDS);
    return err;
}

/* ---- Saving --------------------------------------------------------------------------- */

/* Takes a reference to the base if the base contains all keys of the slot and its gates. Otherwise
 * returns NULL, with BG_EINCOMPAT in `info`. */
static struct view_filter *reload_hold_base(bg_slot *slot, uint64_t *complete,
                                            bg_errinfo *info)
{
    struct view_filter *base = NULL;
    (void)pthread_mutex_lock(&slot->change);
    const struct view *view = atomic_load(&slot->view);
    const struct view_member *member = view_find(view, BG_ROLE_BASE);
    if (!member || view->queried != 1) {
        (void)bgi_err_state(
            info, BG_EINCOMPAT, "slot",
            "only a base without other filters can be saved; compact the slot, end the "
            "migration, or rebuild the slot first");
    } else if (slot_in_doubt(slot)) {
        (void)bgi_err_state(
            info, BG_EINCOMPAT, "slot",
            "the base is missing keys that a gate could not add; rebuild it");
    } else {
        base = member->shared;
        atomic_fetch_add(&base->owners, 1);
        *complete = atomic_load(&slot->complete);
    }
    (void)pthread_mutex_unlock(&slot->change);
    return base;
}

bg_err slot_save(bg_slot *slot, const char *path, const bg_save_options *options,
                 uint8_t digest[BG_DIGEST_BYTES], bg_errinfo *info)
{
    bg_save_options how;
    char metadata[BG_METADATA_MAX];
    uint64_t complete = 0;
    bgi_err_clear(info);
    if (!slot || !path) {
        return bgi_err(info, BG_EINVAL, "slot, path", "a slot and a path", "NULL");
    }
    bg_err err = container_save_options(options, &how, info);
    if (err) {
        return err;
    }
    struct view_filter *base = reload_hold_base(slot, &complete, info);
    if (!base) {
        return BG_EINCOMPAT;
    }
    err = metadata_put(how.metadata, reload_line, complete, metadata, info);
    how.metadata = metadata;
    err = err ? err : bgi_file_save(base->filter, path, &how, digest, info);
    view_filter_drop(base);
    return err;
}

bg_err bg_slot_save(bg_slot *slot, const char *path, const bg_save_options *options,
                    bg_errinfo *info)
{
    return slot_save(slot, path, options, NULL, info);
}

/*
 * rebuild_push.c - a rebuild (rebuild.c) to which the caller passes the keys, from any number
 * of threads, as they become available. The caller must know the number of keys in advance.
 */
#include "gate/rebuild.h"

#include "hash/hash_batch.h"

#include <assert.h>

static bg_err push_check(const bg_slot *slot, const bg_rebuild_options *options,
                         bg_errinfo *info)
{
    bg_err err = rebuild_check(slot, options, info);
    if (!err && options->spec.items == 0) {
        err = bgi_err(info, BG_EINVAL, "spec.items", "the number of keys, 1 or more",
                      "0");
    }
    return err;
}

/* Allocates a rebuild, and claims the slot for it. */
static bg_err push_claim(bg_slot *slot, const bg_rebuild_options *options,
                         bg_rebuild **rebuild, bg_errinfo *info)
{
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, sizeof(bg_rebuild), slot_allocator(slot), true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the rebuild");
    }
    bg_rebuild *made = memory.base;
    bg_err err = rebuild_claim(made, slot, options, info);
    if (err) {
        bgi_memory_give(&memory);
        return err;
    }
    made->memory = memory;
    *rebuild = made;
    return BG_OK;
}

/* Ends the rebuild, and frees the handle. */
static bg_err push_end(bg_rebuild *rebuild, bg_err err, bg_rebuild_report *report,
                       bg_errinfo *why)
{
    struct bgi_memory memory = rebuild->memory;
    err = rebuild_close(rebuild, err, report, why);
    bgi_memory_give(&memory);
    return err;
}

bg_err bg_slot_begin_rebuild(bg_slot *slot, const bg_rebuild_options *options,
                             bg_rebuild **rebuild, bg_errinfo *info)
{
    bg_errinfo own;
    bg_errinfo *why = info ? info : &own;
    bg_rebuild *made = NULL;
    bgi_err_clear(why);
    if (!rebuild) {
        bg_filter_free(options ? options->delta : NULL);
        return bgi_err(why, BG_EINVAL, "rebuild", "a pointer to receive the rebuild",
                       "NULL");
    }
    *rebuild = NULL;
    bg_err err = push_check(slot, options, why);
    err = err ? err : push_claim(slot, options, &made, why);
    if (err) {
        bg_filter_free(options ? options->delta : NULL);
        return err;
    }
    assert(made);
    err = rebuild_open(made, 0, why);
    if (err) {
        return push_end(made, err, NULL, why);
    }
    *rebuild = made;
    return BG_OK;
}

bg_err bg_rebuild_add_many(bg_rebuild *rebuild, bg_keys keys, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!rebuild) {
        return bgi_err(info, BG_EINVAL, "rebuild", "a rebuild that was started",
                       "NULL");
    }
    if (!bgi_keys_are_valid(&keys)) {
        return rebuild_refuse(
            rebuild,
            bgi_err_state(
                info, BG_EINVAL, "keys",
                "the array of keys has an invalid pointer, form, size or count"));
    }
    if (keys.form == BG_KEYS_HASHES && !keys.check) {
        return rebuild_refuse(
            rebuild, bgi_err_state(info, BG_EINCOMPAT, "keys",
                                   "the hasher of these hashes is unknown; use "
                                   "bg_keys_hashes_of"));
    }
    return keys.count ? rebuild_put(rebuild, keys, info) : BG_OK;
}

bg_err bg_rebuild_commit(bg_rebuild *rebuild, bg_rebuild_report *report,
                         bg_errinfo *info)
{
    bg_errinfo own;
    bg_errinfo *why = info ? info : &own;
    bgi_err_clear(why);
    if (!rebuild) {
        return bgi_err(info, BG_EINVAL, "rebuild", "a rebuild", "NULL");
    }
    return push_end(rebuild, BG_OK, report, why);
}

void bg_rebuild_abort(bg_rebuild *rebuild)
{
    bg_errinfo why;
    if (rebuild) {
        bg_err err =
            bgi_err_state(&why, BG_ECANCELED, "rebuild", "the rebuild was aborted");
        (void)push_end(rebuild, err, NULL, &why);
    }
}

/*
 * bg_admin.c - operations on whole filters: clear, drop, merge, fold, rotate, compare.
 *
 * After a merge or fold, the whole object is saved (object_keep). BG.CLEAR replaces the object with
 * an empty one under the same name. A concurrent add takes effect either before or after the
 * replacement.
 */
#include "bg_handlers.h"
#include "error_text.h"

#include <string.h>

void bgc_reply_estimate(struct request *request, bg_estimate estimate)
{
    reply_array(&request->reply, 3);
    reply_real(&request->reply, estimate.value);
    reply_real(&request->reply, estimate.low);
    reply_real(&request->reply, estimate.high);
}

bool bgc_kept(struct request *request, struct object *object)
{
    bg_errinfo info = { 0 };
    const bg_err err = object_keep(object, request->host, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
    }
    return !err;
}

void bgc_clear(struct request *request)
{
    struct host *host = request->host;
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    do { /* retried if the name now refers to a different object */
        const struct object *object = args_find_any(request, request->argv[1]);
        struct object *empty = NULL;
        if (!object) {
            return;
        }
        err = object_emptied(object, host->settings, &empty, &info);
        err = err ? err
                  : host->ops->replace(host, request->argv[1], object, empty, &info);
        if (err) {
            object_free(empty);
        }
    } while (err == BG_ECANCELED);
    args_done(request, err, &info, BGC_FULL);
}

void bgc_drop(struct request *request)
{
    reply_boolean(&request->reply,
                  request->host->ops->drop(request->host, request->argv[1]));
}

/* ---- Merge ----------------------------------------------------------------------------------- */

/* Reports which filter cannot be merged, and why. */
static void bgc_merge_failed(struct request *request, size_t source, bg_err err,
                             const bg_errinfo *info)
{
    char from[64], to[64];
    const char *why = error_text(info, err);
    if (err == BG_ENOMEM) {
        args_no_memory(request, why);
        return;
    }
    reply_errorf(&request->reply, "%s cannot merge filter '%s' into '%s': %s",
                 err == BG_EINCOMPAT ? "INCOMPATIBLE" : "ERR",
                 args_show(request->argv[source], from),
                 args_show(request->argv[1], to), why);
}

/* Merges the filters named by argv[from] and the following arguments into an object. Returns false
 * after sending an error. Sets *changed if the object was modified. */
static bool bgc_merge_from(struct request *request, struct object *object, size_t from,
                           bool *changed)
{
    for (size_t i = from; i < request->argc; i++) {
        const struct object *source = args_find_any(request, request->argv[i]);
        bg_errinfo info = { 0 };
        const bg_err err =
            source ? object_merge(object, request->host, source, &info) : BG_OK;
        *changed =
            *changed || (source && (!err || err == BG_EFULL || err == BG_ENOMEM));
        if (err) {
            bgc_merge_failed(request, i, err, &info);
        }
        if (err || !source) {
            return false;
        }
    }
    return true;
}

/* Merges into an existing filter. Sources that were merged before an error stay merged, and are
 * saved. */
static void bgc_merge_into(struct request *request, struct object *object)
{
    bool changed = false;
    object_changing(object);
    const bool merged = bgc_merge_from(request, object, 2, &changed);
    if (!changed) {
        object_unchanged(object);
    } else if (!merged) {
        (void)object_keep(object, request->host, NULL);
    } else if (!bgc_kept(request, object)) {
        return;
    }
    if (merged) {
        reply_ok(&request->reply);
    }
}

/* Creates the destination as a copy of the first source, and merges the other sources into it. */
static void bgc_merge_new(struct request *request)
{
    const struct object *first = args_find_any(request, request->argv[2]);
    struct object *made = NULL;
    bg_errinfo info = { 0 };
    if (!first) {
        return;
    }
    bg_err err = object_copy(first, &made, &info);
    if (err) {
        bgc_merge_failed(request, 2, err, &info);
        return;
    }
    bool changed = false;
    if (!bgc_merge_from(request, made, 3, &changed)) {
        object_free(made);
        return;
    }
    err = args_create(request, made, &info);
    args_done(request, err, &info, BGC_FULL);
}

/* Checks that all sources exist. Returns false after sending an error. */
static bool bgc_merge_sources(struct request *request)
{
    for (size_t i = 2; i < request->argc; i++) {
        if (!args_find_any(request, request->argv[i])) {
            return false;
        }
    }
    return true;
}

void bgc_merge(struct request *request)
{
    if (!bgc_merge_sources(request)) {
        return;
    }
    struct object *object = request->host->ops->find(request->host, request->argv[1]);
    if (!object) {
        bgc_merge_new(request);
    } else {
        bgc_merge_into(request, object);
    }
}

/* ---- Fold and rotate ------------------------------------------------------------------------- */

void bgc_fold(struct request *request)
{
    uint64_t times = 1;
    if (request->argc > 3
        || (request->argc == 3
            && (!args_count(request->argv[2], &times) || times < 1 || times > 20))) {
        reply_error(&request->reply, "ERR times must be in the range [1, 20]");
        return;
    }
    struct object *object = args_find_any(request, request->argv[1]);
    if (!object) {
        return;
    }
    bg_errinfo info = { 0 };
    object_changing(object);
    const bg_err err = object_fold(object, (uint32_t)times, &info);
    if (err) {
        object_unchanged(object);
        args_failed(request, err, &info, BGC_FULL);
    } else if (bgc_kept(request, object)) {
        reply_integer(&request->reply, (int64_t)object_bytes(object));
    }
}

void bgc_rotate(struct request *request)
{
    struct host *host = request->host;
    struct object *object = args_find_any(request, request->argv[1]);
    if (!object) {
        return;
    }
    bg_errinfo info = { 0 };
    const bg_err err = object_rotate(object, host, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
        return;
    }
    bg_pin pin;
    const bg_filter *filter = object_pin(object, &pin);
    reply_integer(&request->reply, (int64_t)bg_filter_window_period(filter));
    bg_slot_unpin(object->slot, &pin);
}

/* ---- Comparison ------------------------------------------------------------------------------ */

/* Computes the overlap between two filters. Returns false after sending an error. */
static bool bgc_overlap_of(struct request *request, bg_overlap *overlap)
{
    const struct object *a = args_find_any(request, request->argv[1]);
    const struct object *b = a ? args_find_any(request, request->argv[2]) : NULL;
    if (!b) {
        return false;
    }
    if (a->foreign || b->foreign || !object_is_whole(a) || !object_is_whole(b)) {
        reply_error(&request->reply,
                    "ERR cannot compare filters imported from RedisBloom, or filters "
                    "that are being loaded");
        return false;
    }
    bg_pin pin_a, pin_b;
    bg_errinfo info = { 0 };
    const bg_filter *in_a = object_pin(a, &pin_a), *in_b = NULL;
    while (!object_pin_try(b, &pin_b, &in_b)) {
        bg_slot_unpin(a->slot, &pin_a);
        object_settled(b);
        in_a = object_pin(a, &pin_a);
    }
    const bg_err err = bg_filter_overlap(in_a, in_b, overlap, &info);
    bg_slot_unpin(b->slot, &pin_b);
    bg_slot_unpin(a->slot, &pin_a);
    if (err) {
        reply_errorf(&request->reply, "%s %s",
                     err == BG_EINCOMPAT ? "INCOMPATIBLE" : "ERR",
                     error_text(&info, err));
    }
    return !err;
}

void bgc_intersectcard(struct request *request)
{
    bg_overlap overlap;
    if (bgc_overlap_of(request, &overlap)) {
        bgc_reply_estimate(request, overlap.both);
    }
}

void bgc_jaccard(struct request *request)
{
    bg_overlap overlap;
    if (bgc_overlap_of(request, &overlap)) {
        bgc_reply_estimate(request, overlap.jaccard);
    }
}

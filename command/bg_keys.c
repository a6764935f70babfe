/*
 * bg_keys.c - BG.ADD, EXISTS, DEL, COUNT and similar commands, for filters of any kind and
 * family.
 *
 * If the filter is missing, both adds and lookups fail with NOFILTER. A "no" therefore always means
 * that a filter was queried.
 *
 * Deletes. A filter cannot distinguish an item that was added from a false positive, so a delete
 * that is sent twice (a retry after a lost reply) may delete a different item. `IF count` deletes
 * the item only if the filter has counted it exactly that many times. This makes a retry harmless,
 * unless other clients add or delete the item in between.
 *
 * Observations. Callers that have queried the backing store after a positive answer can report the
 * result. From these reports and the number of "no" answers, BG.INFO computes the observed rate.
 * Reported false positives are not turned into "no" answers, because a report can arrive after the
 * item was added, and the "no" would then be wrong.
 */
#include "bg_handlers.h"

/* Returns the object named by argv[1]. Returns NULL after sending an error for each of n
 * requests. */
static struct object *bgc_find_for(struct request *request, size_t n)
{
    struct object *object = NULL;
    for (size_t i = 0; i < n && !object; i++) {
        object = args_find_any(request, request->argv[1]);
    }
    return object;
}

/* ---- Adds ------------------------------------------------------------------------------------ */

void bgc_add_many(struct request *request, const bg_bytes *items, size_t n)
{
    struct object *object = bgc_find_for(request, n);
    size_t step = OBJECT_BATCH;
    for (size_t at = 0; object && at < n;) {
        at +=
            items_add_some(request, object, items + at, n - at, &step, false, BGC_FULL);
    }
}

void bgc_add(struct request *request)
{
    bgc_add_many(request, request->argv + 2, 1);
}

void bgc_madd(struct request *request)
{
    struct object *object = args_find_any(request, request->argv[1]);
    if (object) {
        items_add_list(request, object, request->argv + 2, request->argc - 2, BGC_FULL,
                       false);
    }
}

/* ---- Lookups --------------------------------------------------------------------------------- */

void bgc_exists_many(struct request *request, const bg_bytes *items, size_t n)
{
    const struct object *object = bgc_find_for(request, n);
    if (object) {
        items_exist(request, object, items, n);
    }
}

void bgc_exists(struct request *request)
{
    bgc_exists_many(request, request->argv + 2, 1);
}

void bgc_mexists(struct request *request)
{
    const struct object *object = args_find_any(request, request->argv[1]);
    if (object) {
        reply_array(&request->reply, request->argc - 2);
        items_exist(request, object, request->argv + 2, request->argc - 2);
    }
}

void bgc_count(struct request *request)
{
    const struct object *object = args_find_any(request, request->argv[1]);
    if (object) {
        const uint64_t count = object_count(object, request->argv[2]);
        reply_count(&request->reply, count);
    }
}

/* ---- Deletes and observations ---------------------------------------------------------------- */

void bgc_del(struct request *request)
{
    uint64_t count = 0;
    if (request->argc != 3
        && (request->argc != 5 || !args_is(request->argv[3], "IF")
            || !args_count(request->argv[4], &count) || count == 0)) {
        reply_error(&request->reply,
                    "ERR expected: item [IF count], with a count above 0");
        return;
    }
    struct object *object = args_find_any(request, request->argv[1]);
    if (!object) {
        return;
    }
    bg_errinfo info = { 0 };
    const bg_err err =
        object_remove(object, request->host, request->argv[2], count, &info);
    if (err && err != BG_ENOTFOUND) {
        args_failed(request, err, &info, BGC_FULL);
    } else {
        reply_boolean(&request->reply, !err);
    }
}

void bgc_observe(struct request *request)
{
    const bool present = args_is(request->argv[3], "PRESENT");
    if (!present && !args_is(request->argv[3], "FALSEPOSITIVE")) {
        reply_error(&request->reply, "ERR expected PRESENT or FALSEPOSITIVE");
        return;
    }
    struct object *object = args_find_any(request, request->argv[1]);
    if (!object) {
        return;
    }
    const bool maybe = object_probe(object, request->argv[2]) > 0;
    if (maybe) {
        atomic_fetch_add(present ? &object->said_present : &object->said_absent, 1);
    } else if (present) {
        atomic_fetch_add(&object->said_missing, 1);
    }
    reply_boolean(&request->reply, maybe);
}

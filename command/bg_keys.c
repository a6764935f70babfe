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

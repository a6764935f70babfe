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

#include <stdlib.h>

static void bgc_tell(struct request *request, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        reply_boolean(&request->reply, bits[i / 64] >> i % 64 & 1);
    }
}

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
    size_t step = OBJECT_BATCH; /* batch size; reduced to 1 after an error */
    for (size_t at = 0; object && at < n;) {
        const size_t now = n - at < step ? n - at : step;
        uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
        size_t done = 0;
        bg_errinfo info = { 0 };
        const bg_err err = object_add_many(object, request->host, items + at, now,
                                           is_new, &done, &info);
        bgc_tell(request, is_new, done);
        at += done;
        step = err ? 1 : step < OBJECT_BATCH ? 2 * step : step;
        if (err) {
            args_failed(request, err, &info, BGC_FULL);
            at++;
        }
    }
}

void bgc_add(struct request *request)
{
    bgc_add_many(request, request->argv + 2, 1);
}

/* Replies with an array. If an error occurs, it is the last element. */
void bgc_madd(struct request *request)
{
    struct object *object = args_find_any(request, request->argv[1]);
    const bg_bytes *items = request->argv + 2;
    const size_t n = request->argc - 2;
    if (!object) {
        return;
    }
    uint64_t *is_new = calloc(BG_BITMAP_WORDS(n) + 1, sizeof *is_new);
    bg_errinfo info = { 0 };
    bg_err err = is_new ? BG_OK : BG_ENOMEM;
    size_t done = 0;
    while (!err && done < n) { /* OBJECT_BATCH is a multiple of 64 */
        const size_t now = n - done < OBJECT_BATCH ? n - done : OBJECT_BATCH;
        size_t in = 0;
        err = object_add_many(object, request->host, items + done, now,
                              is_new + done / 64, &in, &info);
        done += in;
    }
    if (!err || done) {
        reply_array(&request->reply, done + (err ? 1 : 0));
        bgc_tell(request, is_new, done);
    }
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
    }
    free(is_new);
}

/* ---- Lookups --------------------------------------------------------------------------------- */

/* Sends n replies without an array header. */
static void bgc_answer(struct request *request, const struct object *object,
                       const bg_bytes *items, size_t n)
{
    for (size_t at = 0; at < n; at += OBJECT_BATCH) {
        const size_t now = n - at < OBJECT_BATCH ? n - at : OBJECT_BATCH;
        uint64_t maybe[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
        (void)object_may_contain_many(object, items + at, now, maybe);
        bgc_tell(request, maybe, now);
    }
}

void bgc_exists_many(struct request *request, const bg_bytes *items, size_t n)
{
    const struct object *object = bgc_find_for(request, n);
    if (object) {
        bgc_answer(request, object, items, n);
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
        bgc_answer(request, object, request->argv + 2, request->argc - 2);
    }
}

void bgc_count(struct request *request)
{
    const struct object *object = args_find_any(request, request->argv[1]);
    if (object) {
        const uint64_t count = object_count(object, request->argv[2]);
        reply_integer(&request->reply,
                      (int64_t)(count < INT64_MAX ? count : INT64_MAX));
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

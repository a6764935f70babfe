/* items.c - see items.h. Items are processed in batches of OBJECT_BATCH, a multiple of 64. */
#include "items.h"

#include <stdlib.h>
#include <string.h>

void items_reply(struct request *request, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        reply_boolean(&request->reply, bits[i / 64] >> i % 64 & 1);
    }
}

size_t items_add_some(struct request *request, struct object *object,
                      const bg_bytes *items, size_t n, size_t *step, bool always,
                      const char *full)
{
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
    size_t done = 0;
    bg_errinfo info = { 0 };
    const bg_err err = object_add_many(object, request->host, items,
                                       n < *step ? n : *step, is_new, &done, &info);
    if (always) {
        memset(is_new, 0xFF, sizeof is_new);
    }
    items_reply(request, is_new, done);
    *step = err ? 1 : *step < OBJECT_BATCH ? 2 * *step : *step;
    if (err) {
        args_failed(request, err, &info, full);
    }
    return done + (err ? 1 : 0);
}

void items_add_list(struct request *request, struct object *object,
                    const bg_bytes *items, size_t n, const char *full,
                    bool full_in_array)
{
    uint64_t *is_new = calloc(BG_BITMAP_WORDS(n) + 1, sizeof *is_new);
    bg_errinfo info = { 0 };
    bg_err err = is_new ? BG_OK : BG_ENOMEM;
    size_t done = 0;
    while (!err && done < n) {
        const size_t now = n - done < OBJECT_BATCH ? n - done : OBJECT_BATCH;
        size_t in = 0;
        err = object_add_many(object, request->host, items + done, now,
                              is_new + done / 64, &in, &info);
        done += in;
    }
    if (!err || done || (full_in_array && err == BG_EFULL)) {
        reply_array(&request->reply, done + (err ? 1 : 0));
        items_reply(request, is_new, done);
    }
    if (err) {
        args_failed(request, err, &info, full);
    }
    free(is_new);
}

void items_exist(struct request *request, const struct object *object,
                 const bg_bytes *items, size_t n)
{
    for (size_t at = 0; at < n; at += OBJECT_BATCH) {
        const size_t now = n - at < OBJECT_BATCH ? n - at : OBJECT_BATCH;
        uint64_t maybe[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
        if (object) {
            (void)object_may_contain_many(object, items + at, now, maybe);
        }
        items_reply(request, maybe, now);
    }
}

void items_exist_or(struct request *request, const struct object *object, bool sent,
                    const bg_bytes *items, size_t n)
{
    if (!sent) {
        items_exist(request, object, items, n);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        reply_error(&request->reply, ARGS_WRONGTYPE);
    }
}

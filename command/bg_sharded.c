/*
 * bg_sharded.c - BG.SHARDED: returns the shard names of a filter that is sharded across a cluster,
 * the shard of an item, or the required size of each shard. It accesses no filter, so any node in a
 * cluster can run it. Clients that route items themselves (shard_names.h) can check their results
 * against this command.
 */
#include "bg_handlers.h"

#include "shard_names.h"

#include <stdlib.h>
#include <string.h>

/* Parses the number of shards in argv[at]. Returns false after sending an error. */
static bool sharded_read(struct request *request, size_t at, struct shard_tags *tags)
{
    uint64_t shards = 0;
    char text[64];
    if (args_amount(request->argv[at], &shards) && shard_tags_make(shards, tags)) {
        return true;
    }
    reply_errorf(&request->reply, "ERR shards: found '%s', expected 1 to %d",
                 args_show(request->argv[at], text), SHARDS_MAX);
    return false;
}

/* BG.SHARDED KEYS name shards */
static void sharded_keys(struct request *request)
{
    struct shard_tags tags;
    const bg_bytes name = request->argv[2];
    if (!sharded_read(request, 3, &tags)) {
        return;
    }
    char *text = malloc(name.len + SHARD_NAME_MORE);
    if (!text) {
        reply_error(&request->reply, "ERR out of memory");
        return;
    }
    reply_array(&request->reply, tags.shards);
    for (uint32_t i = 0; i < tags.shards; i++) {
        reply_bulk(&request->reply, text, shard_name(&tags, i, name, text));
    }
    free(text);
}

/* BG.SHARDED SHARD name shards item [item ...] */
static void sharded_shard(struct request *request)
{
    struct shard_tags tags;
    const bg_bytes name = request->argv[2], *items = request->argv + 4;
    const size_t n = request->argc - 4;
    if (!sharded_read(request, 3, &tags)) {
        return;
    }
    char *text = malloc(name.len + SHARD_NAME_MORE);
    uint16_t *shards = malloc(n * sizeof *shards);
    if (text && shards) {
        shard_route(items, n, tags.shards, shards);
        reply_array(&request->reply, n);
        for (size_t i = 0; i < n; i++) {
            reply_bulk(&request->reply, text, shard_name(&tags, shards[i], name, text));
        }
    } else {
        reply_error(&request->reply, "ERR out of memory");
    }
    free(shards);
    free(text);
}

/* BG.SHARDED PLAN items rate shards */
static void sharded_plan(struct request *request)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    struct shard_tags tags;
    bg_plan plan;
    bg_errinfo info = { 0 };
    uint64_t items = 0;
    if (!args_amount(request->argv[2], &items) || items == 0) {
        reply_error(&request->reply, "ERR bad capacity");
        return;
    }
    if (!args_share(request->argv[3], &ask.spec.rate) || !(ask.spec.rate > 0)
        || ask.spec.rate >= 1) {
        reply_error(&request->reply, "ERR bad error rate");
        return;
    }
    if (!sharded_read(request, 4, &tags)) {
        return;
    }
    ask.spec.items = shard_capacity(items, tags.shards);
    const bg_err err = bg_plan_compute(&ask, &plan, &info);
    if (err) {
        bgc_reply_spec_error(request, err, &info);
        return;
    }
    reply_map(&request->reply, 6);
    reply_entry_count(&request->reply, "shards", tags.shards);
    reply_entry_count(&request->reply, "capacity", ask.spec.items);
    reply_entry_text(&request->reply, "kind", bg_kind_name(plan.kind));
    reply_entry_real(&request->reply, "rate", plan.rate);
    reply_entry_count(&request->reply, "bytes_per_shard", plan.bytes);
    reply_entry_count(&request->reply, "bytes", plan.bytes * tags.shards);
}

void bgc_sharded(struct request *request)
{
    static const struct {
        const char *word;
        size_t least, most;
        void (*run)(struct request *request);
    } words[] = { { "KEYS", 4, 4, sharded_keys },
                  { "SHARD", 5, SIZE_MAX, sharded_shard },
                  { "PLAN", 5, 5, sharded_plan } };
    char text[64];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (args_is(request->argv[1], words[i].word)) {
            if (request->argc < words[i].least || request->argc > words[i].most) {
                args_arity(request);
            } else {
                words[i].run(request);
            }
            return;
        }
    }
    reply_errorf(&request->reply, "ERR found '%s', expected KEYS, SHARD or PLAN",
                 args_show(request->argv[1], text));
}

/*
 * cluster_keys.c - bloomgate cluster add and bloomgate cluster check: send keys from files or
 * standard input to the shards of a filter.
 *
 * Each chunk of records is sent in one call, which sends the keys to all shards in parallel, in
 * batches, and returns the answers in input order. Only one chunk is in flight at a time; the nodes
 * work in parallel.
 */
#include "cluster_actions.h"
#include "flow.h"
#include "number.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cluster_keys {
    struct cluster_work *work;
    struct key_format format;
    uint64_t keys, fresh, selected, unanswered;
    int64_t vouched; /* time of the last witness update, from cluster_now */
};

enum { KEYS_VOUCH = 1000 }; /* milliseconds between witness updates */

static size_t keys_ones(const uint64_t *bits, size_t n)
{
    size_t ones = 0;
    for (size_t i = 0; i < BG_BITMAP_WORDS(n); i++) {
        ones += (size_t)__builtin_popcountll(bits[i]);
    }
    return ones;
}

/* Reads the keys from all files and passes them to `work`, one chunk at a time. */
static int keys_run(struct cluster_keys *k, const char *what,
                    bool (*work)(struct flow *flow, struct chunk *chunk))
{
    const struct cluster_settings *o = k->work->settings;
    const struct arguments *arguments = k->work->arguments;
    int code = keys_format(&o->keys, &k->format);
    struct flow flow = {
        .format = &k->format, .threads = 1, .work = work, .context = k
    };
    return code ? code
                : flow_files(&flow, arguments->items + 2, arguments->count - 2,
                             o->keys.raw, what);
}

/* Prints the records that were added successfully, which have their bits set in the chunk's
 * answers. */
static bool add_print(struct flow *flow, struct chunk *chunk)
{
    const struct cluster_keys *k = flow->context;
    if (!chunk_reserve_out(chunk, chunk->used + 1)) {
        return flow_fail(flow, CLI_FULL);
    }
    const size_t n = chunk_select(&k->format, chunk, false, chunk->out);
    return out_write(chunk->out, n) || flow_fail(flow, out_code());
}

/* Updates the witnesses, so that replicas started recently are trusted if they are promoted.
 * Errors are ignored here, because the next add reports them. */
static void add_renew(struct cluster_keys *k)
{
    struct cluster_view view;
    char why[WITNESS_WHY];
    if (cluster_now() - k->vouched >= KEYS_VOUCH) {
        if (!cluster_survey(k->work->cluster, KEYS_VOUCH, &view, NULL)) {
            (void)sharded_vouch(&k->work->filter, &view, false, why, NULL);
        }
        k->vouched = cluster_now();
    }
}

static bool add_work(struct flow *flow, struct chunk *chunk)
{
    struct cluster_keys *k = flow->context;
    const size_t words = BG_BITMAP_WORDS(chunk->count);
    bg_errinfo why;
    if (!chunk_reserve_answers(chunk, 2 * 64 * words)) {
        return flow_fail(flow, CLI_FULL);
    }
    uint64_t *added = chunk->answers, *fresh = chunk->answers + words;
    add_renew(k);
    const bg_err err =
        sharded_add(&k->work->filter, chunk->keys, chunk->count, added, fresh, &why);
    k->keys += keys_ones(added, chunk->count);
    k->fresh += keys_ones(fresh, chunk->count);
    if (k->work->settings->acknowledged && !add_print(flow, chunk)) {
        return false;
    }
    return !err || flow_fail(flow, cluster_say(k->work, &why));
}

int cluster_add(struct cluster_work *work)
{
    struct cluster_keys k = { .work = work };
    int code = cluster_renew(work);
    if (code) {
        return code;
    }
    k.vouched = cluster_now();
    code = keys_run(&k, "adding", add_work);
    say_note("%s: keys added: %s, definitely new: %s", work->name, COUNT_TEXT(k.keys),
             COUNT_TEXT(k.fresh));
    return code;
}

/* Writes every record, preceded by its answer, "maybe" or "no". Returns the number of bytes
 * written. */
static size_t check_annotate(const struct cluster_keys *k, const struct chunk *chunk,
                             char *to)
{
    char *at = to;
    for (size_t i = 0; i < chunk->count; i++) {
        const bool maybe = chunk->answers[i / 64] >> i % 64 & 1;
        const bg_bytes record = chunk_record(&k->format, chunk, i);
        const size_t n = maybe ? sizeof "maybe\t" - 1 : sizeof "no\t" - 1;
        memcpy(at, maybe ? "maybe\t" : "no\t", n);
        at += n;
        if (record.len) {
            memcpy(at, record.data, record.len);
        }
        at += record.len;
        *at++ = k->format.separator;
    }
    return (size_t)(at - to);
}

static bool check_print(struct flow *flow, struct chunk *chunk)
{
    const struct cluster_keys *k = flow->context;
    const struct cluster_settings *o = k->work->settings;
    if (!chunk_reserve_out(chunk,
                           chunk->used + 1 + (o->annotate ? 8 * chunk->count : 0))) {
        return flow_fail(flow, CLI_FULL);
    }
    const size_t n = o->annotate
                         ? check_annotate(k, chunk, chunk->out)
                         : chunk_select(&k->format, chunk, o->invert, chunk->out);
    return out_write(chunk->out, n) || flow_fail(flow, out_code());
}

static bool check_work(struct flow *flow, struct chunk *chunk)
{
    struct cluster_keys *k = flow->context;
    const struct cluster_settings *o = k->work->settings;
    bg_errinfo why;
    if (!chunk_reserve_answers(chunk, chunk->count)) {
        return flow_fail(flow, CLI_FULL);
    }
    if (sharded_ask(&k->work->filter, chunk->keys, chunk->count, NULL, chunk->answers,
                    &why)) {
        if (!o->open_on_error || why.code == BG_ECANCELED) {
            return flow_fail(flow, cluster_say(k->work, &why));
        }
        k->unanswered += chunk->count;
    }
    const size_t maybe = keys_ones(chunk->answers, chunk->count);
    k->selected += o->invert ? chunk->count - maybe : maybe;
    return o->count || check_print(flow, chunk);
}

int cluster_check(struct cluster_work *work)
{
    struct cluster_keys k = { .work = work };
    const int code = keys_run(&k, "checking", check_work);
    if (!code && work->settings->count) {
        printf("%" PRIu64 "\n", k.selected);
    }
    if (k.unanswered) {
        say_warning(
            "%s: some shards did not reply or may have lost keys, so up to %s "
            "lines are reported as \"maybe\" without an answer from their shard",
            work->name, COUNT_TEXT(k.unanswered));
    }
    return code ? code : out_finish(k.selected ? CLI_OK : CLI_NO);
}

/* sharded_filter.c - see sharded_filter.h. */
#include "sharded_filter.h"

#include <stdlib.h>
#include <string.h>

/* ---- Life --------------------------------------------------------------------------------------- */

bg_err sharded_open(struct cluster *cluster, const char *name, uint64_t shards,
                    struct sharded *filter, bg_errinfo *info)
{
    const bg_bytes whole = { name, strlen(name) };
    *filter = (struct sharded){ .cluster = cluster, .batch = SHARDED_BATCH };
    if (!shard_tags_make(shards, &filter->tags)) {
        return cluster_fail(info, BG_EINVAL, "shards: found %llu, expected 1 to %d",
                            (unsigned long long)shards, SHARDS_MOST);
    }
    const size_t room = whole.len + SHARD_NAME_MORE;
    filter->texts = malloc(shards * room);
    filter->names = malloc(shards * sizeof *filter->names);
    if (!filter->texts || !filter->names) {
        sharded_close(filter);
        return cluster_fail(info, BG_ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        char *text = filter->texts + i * room;
        filter->names[i] =
            (bg_bytes){ text, shard_name(&filter->tags, i, whole, text) };
    }
    return BG_OK;
}

void sharded_close(struct sharded *filter)
{
    free(filter->texts);
    free(filter->names);
    filter->texts = NULL;
    filter->names = NULL;
}

/* ---- Items -------------------------------------------------------------------------------------- */

/* Items on their way: sorted by shard, so that each command has a run of them. */
struct sharded_job {
    struct sharded *filter;
    const bg_bytes *items;
    size_t n;
    uint16_t *shards; /* of each item */
    size_t *order;    /* numbers of items, by shard */
    bg_bytes *argv;   /* of all commands, one behind the other */
    struct cluster_ask *asks;
    struct sharded_part *parts;
    size_t count;             /* commands */
    uint64_t *done, *answers; /* bits */
    bg_err err;               /* the first error that a command was answered with, */
    bg_errinfo *info;         /* and its text */
};

/* A command's share. */
struct sharded_part {
    struct sharded_job *job;
    size_t begin, n; /* in `order` */
};

static void job_free(struct sharded_job *job)
{
    free(job->shards);
    free(job->order);
    free(job->argv);
    free(job->asks);
    free(job->parts);
}

/* Counting sort; `most` is how many commands there may be. */
static bool job_sort(struct sharded_job *job)
{
    const uint32_t shards = job->filter->tags.shards;
    const size_t n = job->n, most = n / job->filter->batch + shards;
    size_t begins[SHARDS_MOST + 1] = { 0 };
    job->shards = malloc(n * sizeof *job->shards);
    job->order = calloc(n, sizeof *job->order);
    job->argv = malloc((n + 2 * most) * sizeof *job->argv);
    job->asks = calloc(most, sizeof *job->asks);
    job->parts = calloc(most, sizeof *job->parts);
    if (!job->shards || !job->order || !job->argv || !job->asks || !job->parts) {
        return false;
    }
    shard_route(job->items, n, shards, job->shards);
    for (size_t i = 0; i < n; i++) {
        begins[job->shards[i] + 1]++;
    }
    for (uint32_t s = 0; s < shards; s++) {
        begins[s + 1] += begins[s];
    }
    for (size_t i = 0; i < n; i++) {
        job->order[begins[job->shards[i]]++] = i;
    }
    return true;
}

/* Makes the commands of what is sorted. */
static void job_divide(struct sharded_job *job, bg_bytes word, bool write)
{
    bg_bytes *argv = job->argv;
    for (size_t at = 0; at < job->n;) {
        const uint16_t shard = job->shards[job->order[at]];
        struct sharded_part *part = &job->parts[job->count];
        *part = (struct sharded_part){ .job = job, .begin = at };
        argv[0] = word;
        argv[1] = job->filter->names[shard];
        while (at < job->n && part->n < job->filter->batch
               && job->shards[job->order[at]] == shard) {
            argv[2 + part->n++] = job->items[job->order[at++]];
        }
        job->asks[job->count++] = (struct cluster_ask){
            .argv = argv, .argc = 2 + part->n, .write = write, .context = part
        };
        argv += 2 + part->n;
    }
}

/* An error of a command, in words that say which shard it was. */
static void job_failed(struct sharded_job *job, const struct cluster_ask *ask,
                       bg_bytes text)
{
    const bg_err code = reply_begins(text, "NOFILTER") ? BG_ENOTFOUND
                        : reply_begins(text, "FULL")   ? BG_EFULL
                                                       : BG_EIO;
    if (!job->err) {
        job->err = cluster_fail(job->info, code, "%.*s: %.*s",
                                (int)(ask->argv[1].len < 80 ? ask->argv[1].len : 80),
                                (const char *)ask->argv[1].data,
                                (int)(text.len < 150 ? text.len : 150),
                                (const char *)text.data);
    }
}

/* A list of 0 and 1 for the items of a command; an error may be its last element. */
static void job_answered(struct cluster_ask *ask, bg_bytes reply)
{
    const struct sharded_part *part = ask->context;
    struct sharded_job *job = part->job;
    size_t at = 0;
    struct reply_item item = reply_next(reply, &at);
    if (item.type != '*') {
        job_failed(job, ask,
                   item.type == '-' ? item.text : (bg_bytes){ "not a list", 10 });
        return;
    }
    const size_t n = (size_t)item.number;
    for (size_t i = 0; i < n && i < part->n; i++) {
        const size_t which = job->order[part->begin + i];
        item = reply_next(reply, &at);
        if (item.type == '-') {
            job_failed(job, ask, item.text);
            return;
        }
        if (item.type == ':') {
            job->done[which / 64] |= UINT64_C(1) << which % 64;
            job->answers[which / 64] |= (uint64_t)(item.number != 0) << which % 64;
        }
    }
    if (n != part->n) {
        job_failed(job, ask, (bg_bytes){ "a list of another length", 24 });
    }
}

/* Sends a job's items, which are some, with a command. */
static bg_err job_run(struct sharded_job *job, const char *word, bool write)
{
    struct sharded *filter = job->filter;
    bg_err err = BG_OK;
    memset(filter->lost, 0, sizeof filter->lost);
    if (job_sort(job)) {
        job_divide(job, (bg_bytes){ word, strlen(word) }, write);
        err = cluster_call(filter->cluster, job->asks, job->count, job_answered,
                           job->info);
        for (size_t i = 0; i < job->count; i++) {
            filter->lost[job->shards[job->order[job->parts[i].begin]]] |=
                !job->asks[i].done;
        }
    } else {
        err = cluster_fail(job->info, BG_ENOMEM, "out of memory");
    }
    job_free(job);
    return err ? err : job->err;
}

bg_err sharded_add(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *added, uint64_t *is_new, bg_errinfo *info)
{
    struct sharded_job job = { .filter = filter,
                               .items = items,
                               .n = n,
                               .done = added,
                               .answers = is_new,
                               .info = info };
    memset(added, 0, BG_BITMAP_WORDS(n) * sizeof *added);
    memset(is_new, 0, BG_BITMAP_WORDS(n) * sizeof *is_new);
    return n ? job_run(&job, "BG.MADD", true) : BG_OK;
}

bg_err sharded_ask(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *answered, uint64_t *maybe, bg_errinfo *info)
{
    uint64_t *done = calloc(BG_BITMAP_WORDS(n) + 1, sizeof *done);
    struct sharded_job job = { .filter = filter,
                               .items = items,
                               .n = n,
                               .done = done,
                               .answers = maybe,
                               .info = info };
    if (!done) {
        memset(maybe, 0xff, BG_BITMAP_WORDS(n) * sizeof *maybe);
        return cluster_fail(info, BG_ENOMEM, "out of memory");
    }
    memset(maybe, 0, BG_BITMAP_WORDS(n) * sizeof *maybe);
    const bg_err err = n ? job_run(&job, "BG.MEXISTS", false) : BG_OK;
    for (size_t i = 0; i < n; i++) { /* what was not answered is "maybe" */
        maybe[i / 64] |= (~done[i / 64] >> i % 64 & 1) << i % 64;
    }
    if (answered) {
        memcpy(answered, done, BG_BITMAP_WORDS(n) * sizeof *done);
    }
    free(done);
    return err;
}

/* ---- Shards ------------------------------------------------------------------------------------- */

/* A command for one shard. */
struct sharded_errand {
    const struct sharded_order *order;
    uint32_t shard;
};

static void errand_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct sharded_errand *errand = ask->context;
    errand->order->told(errand->order->context, errand->shard, reply);
}

static bg_err sharded_range(struct sharded *filter, uint32_t first, uint32_t n,
                            const struct sharded_order *order, bg_errinfo *info)
{
    const size_t argc = order->count + 1 + order->others_count;
    bg_bytes *argv = malloc(n * argc * sizeof *argv);
    struct cluster_ask *asks = calloc(n, sizeof *asks);
    struct sharded_errand *errands = calloc(n, sizeof *errands);
    bg_err err = BG_ENOMEM;
    memset(filter->lost, 0, sizeof filter->lost);
    if (argv && asks && errands) {
        for (uint32_t i = 0; i < n; i++) {
            bg_bytes *words = argv + i * argc;
            size_t at = 0;
            words[at++] = order->words[0];
            words[at++] = filter->names[first + i];
            for (size_t o = 0; o < order->others_count; o++) {
                words[at++] = order->others[o].names[first + i];
            }
            for (size_t w = 1; w < order->count; w++) {
                words[at++] = order->words[w];
            }
            errands[i] = (struct sharded_errand){ order, first + i };
            asks[i] = (struct cluster_ask){
                .argv = words, .argc = at, .write = order->write, .context = &errands[i]
            };
        }
        err = cluster_call(filter->cluster, asks, n, errand_told, info);
        for (uint32_t i = 0; i < n; i++) {
            filter->lost[first + i] = !asks[i].done;
        }
    } else {
        err = cluster_fail(info, BG_ENOMEM, "out of memory");
    }
    free(errands);
    free(asks);
    free(argv);
    return err;
}

bg_err sharded_each(struct sharded *filter, const struct sharded_order *order,
                    bg_errinfo *info)
{
    return sharded_range(filter, 0, filter->tags.shards, order, info);
}

bg_err sharded_one(struct sharded *filter, uint32_t shard,
                   const struct sharded_order *order, bg_errinfo *info)
{
    return sharded_range(filter, shard, 1, order, info);
}

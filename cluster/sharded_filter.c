/* sharded_filter.c - see sharded_filter.h. */
#include "sharded_filter.h"

#include <stdio.h>
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
    const size_t room = whole.len + SHARD_NAME_MORE + WITNESS_NAME_MORE;
    filter->texts = malloc(shards * room);
    filter->names = calloc(2 * shards, sizeof *filter->names);
    filter->witnesses = calloc(shards, sizeof *filter->witnesses);
    filter->own = calloc(shards, sizeof *filter->own);
    if (!filter->texts || !filter->names || !filter->witnesses || !filter->own) {
        sharded_close(filter);
        return cluster_fail(info, BG_ENOMEM, "out of memory");
    }
    filter->witness_names = filter->names + shards;
    filter->witnessed = filter->own;
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        char *text = filter->texts + i * room;
        const size_t n = shard_name(&filter->tags, i, whole, text);
        const int more = snprintf(text + n, WITNESS_NAME_MORE, "/witness");
        filter->names[i] = (bg_bytes){ text, n };
        filter->witness_names[i] = (bg_bytes){ text, n + (size_t)more };
    }
    return BG_OK;
}

void sharded_close(struct sharded *filter)
{
    for (uint32_t i = 0; filter->witnesses && i < filter->tags.shards; i++) {
        witness_free(&filter->witnesses[i]);
    }
    free(filter->witnesses);
    free(filter->own);
    free(filter->texts);
    free(filter->names);
    filter->witnesses = NULL;
    filter->own = filter->witnessed = NULL;
    filter->texts = NULL;
    filter->names = filter->witness_names = NULL;
}

/* ---- Witnesses ---------------------------------------------------------------------------------- */

/* A request about the witness of a shard. */
struct witness_errand {
    struct sharded *filter;
    uint32_t shard;
    bg_bytes words[3];
    char *text; /* to be written */
    char *why;
    bg_err *err;
};

static void witness_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct witness_errand *e = ask->context;
    struct witness read = { 0 };
    char why[WITNESS_WHY] = "";
    const enum witness_verdict verdict = witness_read(
        ask, reply, atomic_load(&e->filter->witnessed[e->shard]), &read, why);
    witness_free(&e->filter->witnesses[e->shard]);
    if (verdict == WITNESS_NO_MEMORY) {
        *e->err = BG_ENOMEM;
        witness_free(&read);
        return;
    }
    e->filter->holders[e->shard] = ask->by->run;
    e->filter->restarted[e->shard] = verdict == WITNESS_RESTART;
    e->filter->doubted[e->shard] =
        verdict == WITNESS_DOUBT || verdict == WITNESS_RESTART;
    if (e->filter->doubted[e->shard]) {
        witness_free(&read);
        if (!*e->why) {
            (void)snprintf(e->why, WITNESS_WHY, "shard %u: %.150s", e->shard, why);
        }
        return;
    }
    if (verdict == WITNESS_GOOD && !read.any) {
        atomic_store(&e->filter->witnessed[e->shard], true);
    }
    e->filter->witnesses[e->shard] = read;
}

/* A witness that cannot be written protects nothing. */
static void witness_set_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct witness_errand *e = ask->context;
    const bg_bytes text = { e->text, strlen(e->text) };
    size_t at = 0;
    const struct reply_item item = reply_next(reply, &at);
    const bool notes_doubt = strcmp(e->text, witness_of_doubt) == 0;
    e->filter->doubted[e->shard] = notes_doubt || item.type != '+';
    if (item.type != '+') {
        witness_free(&e->filter->witnesses[e->shard]);
        (void)snprintf(e->why, WITNESS_WHY, "shard %u: SET of its witness: %.*s",
                       e->shard, (int)(item.text.len < 100 ? item.text.len : 100),
                       item.text.len ? (const char *)item.text.data : "");
        return;
    }
    atomic_store(&e->filter->witnessed[e->shard], true);
    if (!witness_parse(text, &e->filter->witnesses[e->shard])) {
        *e->err = BG_ENOMEM;
    }
}

/* Sends GET for the witnesses of some shards, or SET for those with a text. */
static bg_err witness_run(struct sharded *filter, const bool *which, char **texts,
                          char why[WITNESS_WHY], bg_errinfo *info)
{
    const uint32_t shards = filter->tags.shards;
    struct witness_errand *errands = calloc(shards, sizeof *errands);
    struct cluster_ask *asks = calloc(shards, sizeof *asks);
    bg_err err = BG_OK, told = BG_OK;
    size_t n = 0;
    for (uint32_t i = 0; errands && asks && i < shards; i++) {
        if (!which[i]) {
            continue;
        }
        struct witness_errand *e = &errands[n];
        *e = (struct witness_errand){ .filter = filter,
                                      .shard = i,
                                      .why = why,
                                      .err = &told,
                                      .text = texts ? texts[i] : NULL };
        e->words[0] = texts ? (bg_bytes){ "SET", 3 } : (bg_bytes){ "GET", 3 };
        e->words[1] = filter->witness_names[i];
        e->words[2] =
            texts ? (bg_bytes){ texts[i], strlen(texts[i]) } : (bg_bytes){ NULL, 0 };
        asks[n++] = (struct cluster_ask){ .argv = e->words,
                                          .argc = texts ? 3 : 2,
                                          .context = e };
    }
    if (!errands || !asks) {
        err = cluster_fail(info, BG_ENOMEM, "out of memory");
    } else if (n) {
        err = cluster_call(filter->cluster, asks, n,
                           texts ? witness_set_told : witness_told, info);
        for (size_t i = 0; i < n; i++) {
            filter->lost[errands[i].shard] = !asks[i].done;
        }
    }
    if (!err && told) {
        err = cluster_fail(info, told, "out of memory");
    }
    free(asks);
    free(errands);
    return err;
}

/* Returns the text to write to a shard's witness; NULL if it is up to date. *err: out of memory. */
static char *witness_text(const struct sharded *filter, uint32_t shard,
                          const struct cluster_view *view, bool complete, bg_err *err)
{
    const struct witness *w = &filter->witnesses[shard];
    const uint64_t holder = filter->holders[shard];
    bool should = complete || filter->restarted[shard]
                  || !atomic_load(&filter->witnessed[shard]) || w->holder != holder;
    for (size_t i = 0; i < view->count && !should; i++) {
        should = !witness_has(w, &view->processes[i]);
    }
    const bool doubt = filter->doubted[shard] && !complete;
    if (!view->count || filter->lost[shard] || w->any || !should
        || (doubt && !filter->restarted[shard])) {
        return NULL;
    }
    char *text = doubt ? strdup(witness_of_doubt) : witness_write(w, holder, view);
    *err = text ? *err : BG_ENOMEM;
    return text;
}

/* Writes the witnesses that are out of date, except for shards that did not answer. */
static bg_err witness_renew(struct sharded *filter, const struct cluster_view *view,
                            bool complete, char why[WITNESS_WHY], bg_errinfo *info)
{
    char *texts[SHARDS_MOST] = { NULL };
    bool which[SHARDS_MOST] = { false }, lost[SHARDS_MOST], some = false;
    bg_err err = BG_OK;
    memcpy(lost, filter->lost, sizeof lost);
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        texts[i] = witness_text(filter, i, view, complete, &err);
        which[i] = texts[i] != NULL;
        some = some || which[i];
    }
    if (err) {
        (void)cluster_fail(info, err, "out of memory");
    }
    err = err || !some ? err : witness_run(filter, which, texts, why, info);
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        filter->lost[i] = filter->lost[i] || lost[i];
        free(texts[i]);
    }
    return err;
}

bg_err sharded_vouch(struct sharded *filter, const struct cluster_view *view,
                     bool complete, char why[WITNESS_WHY], bg_errinfo *info)
{
    bool all[SHARDS_MOST];
    *why = 0;
    memset(all, true, sizeof all);
    memset(filter->lost, 0, sizeof filter->lost);
    const bg_err err = witness_run(filter, all, NULL, why, info);
    if (err == BG_ECANCELED || err == BG_ENOMEM) {
        return err;
    }
    const bg_err renewed =
        witness_renew(filter, view, complete, why, err ? NULL : info);
    return err ? err : renewed;
}

static void witness_forgotten(struct cluster_ask *ask, bg_bytes reply)
{
    (void)ask, (void)reply; /* a server without DEL has no witnesses */
}

bg_err sharded_forget(struct sharded *filter, bg_errinfo *info)
{
    struct cluster_ask asks[SHARDS_MOST];
    bg_bytes words[SHARDS_MOST][2];
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        words[i][0] = (bg_bytes){ "DEL", 3 };
        words[i][1] = filter->witness_names[i];
        asks[i] = (struct cluster_ask){ .argv = words[i], .argc = 2 };
    }
    return cluster_call(filter->cluster, asks, filter->tags.shards, witness_forgotten,
                        info);
}

/* Reads the witnesses of the shards of a job that have none yet. */
static bg_err witness_prepare(struct sharded *filter, const bg_bytes *items, size_t n,
                              char why[WITNESS_WHY], bg_errinfo *info)
{
    bool which[SHARDS_MOST] = { false }, some = false;
    uint16_t *shards = malloc((n ? n : 1) * sizeof *shards);
    if (!shards) {
        return cluster_fail(info, BG_ENOMEM, "out of memory");
    }
    shard_route(items, n, filter->tags.shards, shards);
    for (size_t i = 0; i < n; i++) {
        const struct witness *w = &filter->witnesses[shards[i]];
        which[shards[i]] = !w->count && !w->holder && !w->any;
        some = some || which[shards[i]];
    }
    free(shards);
    return some ? witness_run(filter, which, NULL, why, info) : BG_OK;
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
    bool writes;              /* else the answer "no" must be trusted */
    char why[WITNESS_WHY];    /* why a shard is not trusted */
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

/* Returns whether a "no" from a command's shard counts. If not, its witness must be read again. */
static bool job_believes(struct sharded_job *job, const struct cluster_ask *ask,
                         uint16_t shard)
{
    struct witness *witness = &job->filter->witnesses[shard];
    if (!job->writes && !witness_believes(witness, ask->by)) {
        witness_free(witness);
        job->filter->doubted[shard] = true;
        static const char changed[] =
            "the process that answered is not listed in the witness";
        job_failed(job, ask,
                   *job->why ? (bg_bytes){ job->why, strlen(job->why) }
                             : (bg_bytes){ changed, sizeof changed - 1 });
        return false;
    }
    return true;
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
    const bool believed = job_believes(job, ask, job->shards[job->order[part->begin]]);
    for (size_t i = 0; i < n && i < part->n; i++) {
        const size_t which = job->order[part->begin + i];
        item = reply_next(reply, &at);
        if (item.type == '-') {
            job_failed(job, ask, item.text);
            return;
        }
        if (item.type == ':' && (believed || item.number != 0)) {
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
    job->writes = write;
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
    memset(filter->lost, 0, sizeof filter->lost);
    memset(filter->doubted, 0, sizeof filter->doubted);
    bg_err err = witness_prepare(filter, items, n, job.why, info);
    err = err || n == 0 ? err : job_run(&job, "BG.MEXISTS", false);
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

/* sharded_filter.c - see sharded_filter.h. */
#include "sharded_filter.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Creation -------------------------------------------------------------------------------- */

bg_err sharded_open(struct cluster *cluster, const char *name, uint64_t shards,
                    struct sharded *filter, bg_errinfo *info)
{
    const bg_bytes whole = { name, strlen(name) };
    *filter = (struct sharded){ .cluster = cluster, .batch = SHARDED_BATCH };
    if (!shard_tags_make(shards, &filter->tags)) {
        return error_fail(info, BG_EINVAL, "shards: found %llu, expected 1 to %d",
                          (unsigned long long)shards, SHARDS_MAX);
    }
    const size_t room = whole.len + SHARD_NAME_MORE + WITNESS_NAME_MORE;
    filter->texts = malloc(shards * room);
    filter->names = calloc(2 * shards, sizeof *filter->names);
    filter->witnesses = calloc(shards, sizeof *filter->witnesses);
    filter->own = calloc(shards, sizeof *filter->own);
    if (!filter->texts || !filter->names || !filter->witnesses || !filter->own) {
        sharded_close(filter);
        return error_fail(info, BG_ENOMEM, "out of memory");
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

/* ---- Witnesses ------------------------------------------------------------------------------- */

/* A request that reads or changes the witness of a shard. */
struct witness_errand {
    struct sharded *filter;
    uint32_t shard;
    bg_bytes words[2 + WITNESS_DOUBTS];
    char fields[WITNESS_DOUBTS][WITNESS_FIELD];
    const char *text; /* the new list; NULL if a doubt is written instead */
    bool known;       /* the shard had a witness before the request was sent */
    char *why;
    bg_err *err;
};

static bool witness_is_seen(const struct sharded *filter, uint32_t shard)
{
    return atomic_load(&filter->witnessed[shard]) == WITNESS_SEEN;
}

/* Handles the reply to HGETALL. Another thread may have written the shard's first witness after the
 * node sent this reply. A missing witness therefore counts as lost only if it was known before the
 * request was sent. If it became known after that, the witness is read again. */
static void witness_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct witness_errand *e = ask->context;
    struct witness read = { 0 }, *witness = &e->filter->witnesses[e->shard];
    char why[WITNESS_WHY] = "";
    const enum witness_verdict verdict = witness_read(ask, reply, e->known, &read, why);
    witness_free(witness);
    bool *early = &e->filter->early[e->shard];
    *early = verdict == WITNESS_NONE && witness_is_seen(e->filter, e->shard);
    if (verdict == WITNESS_NO_MEMORY || *early) {
        *e->err = *early ? *e->err : BG_ENOMEM;
        witness_free(&read);
        return;
    }
    *witness = read;
    e->filter->holders[e->shard] = ask->by->run;
    e->filter->bare[e->shard] = verdict == WITNESS_NONE;
    e->filter->restarted[e->shard] = verdict == WITNESS_RESTART;
    e->filter->doubted[e->shard] =
        verdict == WITNESS_DOUBT || verdict == WITNESS_RESTART;
    if (e->filter->doubted[e->shard]) {
        witness_distrust(witness);
        if (!*e->why) {
            (void)snprintf(e->why, WITNESS_WHY, "shard %u: %.150s", e->shard, why);
        }
    } else if (verdict == WITNESS_GOOD && !read.any) {
        atomic_store(&e->filter->witnessed[e->shard], WITNESS_SEEN);
    }
}

/* Returns whether the command of an errand succeeded in changing the witness. If it failed, marks
 * the shard as in doubt, because a witness that cannot be written does not protect the shard. */
static bool witness_changed(const struct witness_errand *e, bg_bytes reply)
{
    const struct reply_item item = reply_first(reply);
    if (item.type != ':') {
        witness_free(&e->filter->witnesses[e->shard]);
        e->filter->doubted[e->shard] = true;
        (void)snprintf(e->why, WITNESS_WHY,
                       "shard %u: cannot update its witness: %.*s: %.*s", e->shard,
                       (int)e->words[0].len, (const char *)e->words[0].data,
                       (int)(item.text.len < 100 ? item.text.len : 100),
                       item.text.len ? (const char *)item.text.data : "");
    }
    return item.type == ':';
}

static void witness_set_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct witness_errand *e = ask->context;
    if (!witness_changed(e, reply)) {
        return;
    }
    e->filter->doubted[e->shard] = e->text == NULL;
    atomic_store(&e->filter->witnessed[e->shard], WITNESS_SEEN);
    e->filter->bare[e->shard] = false;
    if (!e->text) {
        witness_distrust(&e->filter->witnesses[e->shard]);
    } else if (!witness_parse(link_word(e->text), &e->filter->witnesses[e->shard])) {
        *e->err = BG_ENOMEM;
    }
}

static void witness_cleared(struct cluster_ask *ask, bg_bytes reply)
{
    const struct witness_errand *e = ask->context;
    if (witness_changed(e, reply)) {
        e->filter->witnesses[e->shard].doubt_count = 0;
    }
}

/* Builds an HGETALL command. */
static size_t witness_get(struct witness_errand *e)
{
    e->words[0] = link_word("HGETALL");
    return 2;
}

/* Builds an HSET command that writes the list of processes, or records a doubt about the shard's
 * process. */
static size_t witness_set(struct witness_errand *e)
{
    witness_doubt_name(e->filter->holders[e->shard], e->fields[0]);
    e->words[0] = link_word("HSET");
    e->words[2] = link_word(e->text ? witness_list : e->fields[0]);
    e->words[3] = link_word(e->text ? e->text : "1");
    return 4;
}

/* Builds an HDEL command that deletes the doubts that were read. */
static size_t witness_clear(struct witness_errand *e)
{
    const struct witness *witness = &e->filter->witnesses[e->shard];
    e->words[0] = link_word("HDEL");
    for (size_t i = 0; i < witness->doubt_count; i++) {
        witness_doubt_name(witness->doubts[i], e->fields[i]);
        e->words[2 + i] = link_word(e->fields[i]);
    }
    return 2 + witness->doubt_count;
}

/* An operation on witnesses: the function that builds its command, and the reply handler. */
struct witness_task {
    size_t (*words)(struct witness_errand *errand);
    cluster_answered *told;
};

static const struct witness_task witness_reading = { witness_get, witness_told };
static const struct witness_task witness_writing = { witness_set, witness_set_told };
static const struct witness_task witness_clearing = { witness_clear, witness_cleared };

/* Returns the request that performs a task for an errand. Requires the errand's filter and shard to
 * be set. */
static struct cluster_ask witness_ask(struct witness_errand *e,
                                      const struct witness_task *task)
{
    e->words[1] = e->filter->witness_names[e->shard];
    e->known = witness_is_seen(e->filter, e->shard);
    return (struct cluster_ask){ .argv = e->words,
                                 .argc = task->words(e),
                                 .steady = task == &witness_reading,
                                 .answered = task->told,
                                 .context = e };
}

/* Sends a command for the witness of each selected shard. When witnesses are written, `texts`
 * contains the new list for each shard, or NULL to write a doubt. */
static bg_err witness_run(struct sharded *filter, const bool *which,
                          const struct witness_task *task, char **texts,
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
        asks[n++] = witness_ask(e, task);
    }
    if (!errands || !asks) {
        err = error_fail(info, BG_ENOMEM, "out of memory");
    } else if (n) {
        err = cluster_call(filter->cluster, asks, n, info);
        for (size_t i = 0; i < n; i++) {
            filter->lost[errands[i].shard] = !asks[i].done;
        }
    }
    if (!err && told) {
        err = error_fail(info, told, "out of memory");
    }
    free(asks);
    free(errands);
    return err;
}

/* Reads the witnesses of the selected shards. If the first witness of a shard may have been written
 * after the node replied, reads it once more; a witness that is still missing is then lost. */
static bg_err witness_load(struct sharded *filter, const bool *which,
                           char why[WITNESS_WHY], bg_errinfo *info)
{
    bool again[SHARDS_MAX], lost[SHARDS_MAX];
    memset(filter->early, 0, sizeof filter->early);
    bg_err err = witness_run(filter, which, &witness_reading, NULL, why, info);
    memcpy(again, filter->early, sizeof again);
    memcpy(lost, filter->lost, sizeof lost);
    if (!err && memchr(again, true, sizeof again)) {
        err = witness_run(filter, again, &witness_reading, NULL, why, info);
    }
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        filter->lost[i] = filter->lost[i] || lost[i] || filter->early[i];
    }
    return err;
}

/* Returns whether the witness of a shard is out of date and can be written now. */
static bool witness_is_due(const struct sharded *filter, uint32_t shard,
                           const struct cluster_view *view, bool complete)
{
    const struct witness *w = &filter->witnesses[shard];
    bool should = complete || filter->restarted[shard]
                  || !witness_is_seen(filter, shard)
                  || w->holder != filter->holders[shard];
    for (size_t i = 0; i < view->count && !should; i++) {
        should = !witness_has(w, &view->processes[i]);
    }
    const bool noted = filter->doubted[shard] && !complete && !filter->restarted[shard];
    const bool unsure = filter->bare[shard] && !filter->doubted[shard]
                        && memchr(filter->lost, true, sizeof filter->lost);
    const bool late = complete && !witness_runs(view, filter->holders[shard]);
    return view->count && !filter->lost[shard] && !w->any && should && !noted && !late
           && !unsure; /* `unsure`: it is unknown whether the filter is in use */
}

/* Sets whether this client is writing the first witnesses of the selected shards. Other clients of
 * the same process wait for them. */
static void witness_announce(struct sharded *filter, const bool *which, bool writing)
{
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        unsigned char before = writing ? WITNESS_UNSEEN : WITNESS_COMING;
        if (which[i]) {
            (void)atomic_compare_exchange_strong(&filter->witnessed[i], &before,
                                                 writing ? WITNESS_COMING
                                                         : WITNESS_UNSEEN);
        }
    }
}

/* Writes the witnesses that are out of date, except for shards that did not answer. */
static bg_err witness_renew(struct sharded *filter, const struct cluster_view *view,
                            bool complete, char why[WITNESS_WHY], bg_errinfo *info)
{
    char *texts[SHARDS_MAX] = { NULL };
    bool which[SHARDS_MAX] = { false }, first[SHARDS_MAX] = { false };
    bool lost[SHARDS_MAX], some = false;
    bg_err err = BG_OK;
    memcpy(lost, filter->lost, sizeof lost);
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        which[i] = witness_is_due(filter, i, view, complete);
        first[i] = which[i] && filter->bare[i] && !filter->doubted[i];
        some = some || which[i];
        if (which[i] && (complete || !filter->doubted[i])) {
            texts[i] = witness_write(&filter->witnesses[i], filter->holders[i], view);
            err = texts[i] ? err : BG_ENOMEM;
        }
    }
    if (err) {
        (void)error_fail(info, err, "out of memory");
    }
    witness_announce(filter, first, true);
    err = err || !some ? err
                       : witness_run(filter, which, &witness_writing, texts, why, info);
    witness_announce(filter, first, false);
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        filter->lost[i] = filter->lost[i] || lost[i];
        free(texts[i]);
    }
    return err;
}

/* Deletes the doubts that were read. The new lists must have been written first. Otherwise, if the
 * slot moved to a process on the old list, that process would be trusted as soon as the doubt was
 * deleted. */
static bg_err witness_absolve(struct sharded *filter, char why[WITNESS_WHY],
                              bg_errinfo *info)
{
    bool which[SHARDS_MAX] = { false }, some = false;
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        which[i] =
            filter->witnesses[i].doubt_count && !filter->doubted[i] && !filter->lost[i];
        some = some || which[i];
    }
    return some ? witness_run(filter, which, &witness_clearing, NULL, why, info)
                : BG_OK;
}

/* Returns whether any shard has or had a witness. If not, the filter is new. */
static bool witness_is_used(const struct sharded *filter)
{
    bool used = false;
    for (uint32_t i = 0; i < filter->tags.shards && !used; i++) {
        used = filter->doubted[i] || witness_is_seen(filter, i);
    }
    return used;
}

/* If the filter is in use, marks re-created shards and shards without a witness as in doubt; see
 * (W8). */
static void witness_doubt_recreated(struct sharded *filter, char why[WITNESS_WHY])
{
    const bool used = witness_is_used(filter);
    for (uint32_t i = 0; used && i < filter->tags.shards; i++) {
        if ((filter->recreated[i] || filter->bare[i]) && !filter->witnesses[i].any) {
            filter->doubted[i] = filter->restarted[i] = true;
            witness_distrust(&filter->witnesses[i]);
            (void)snprintf(why, WITNESS_WHY, "shard %u: %s", i,
                           filter->recreated[i] ? "it was missing"
                                                : "it has no witness");
        }
        filter->recreated[i] = false;
    }
}

enum {
    WITNESS_READINGS =
        5,             /* a shard without a witness after this many reads is in doubt */
    WITNESS_PAUSE = 40 /* milliseconds between these reads */
};

/* Returns whether another client of the process is writing a witness that was missing at the last
 * read. */
static bool witness_is_coming(const struct sharded *filter)
{
    bool coming = false;
    for (uint32_t i = 0; i < filter->tags.shards && !coming; i++) {
        coming =
            filter->bare[i] && atomic_load(&filter->witnessed[i]) == WITNESS_COMING;
    }
    return coming;
}

/* Reads all witnesses. If some witnesses are missing, reads all of them again after a pause,
 * because another client may be writing the filter's first witnesses. A client of the same process
 * may take any time to do so; other clients are not known, so the number of reads is limited. */
static bg_err witness_read_all(struct sharded *filter, char why[WITNESS_WHY],
                               bg_errinfo *info)
{
    bool all[SHARDS_MAX];
    bg_err err = BG_OK;
    memset(all, true, sizeof all);
    bool again = false;
    for (int i = 0; i < WITNESS_READINGS; i += !witness_is_coming(filter)) {
        if (again) {
            (void)poll(NULL, 0, WITNESS_PAUSE);
        }
        again = true;
        memset(filter->bare, 0, sizeof filter->bare);
        *why = 0;
        err = witness_load(filter, all, why, info);
        if (err || !memchr(filter->bare, true, sizeof filter->bare)
            || !witness_is_used(filter)) {
            break;
        }
    }
    witness_doubt_recreated(filter, why);
    return err;
}

/* Marks a shard as in doubt if its process started after `view` was obtained. The operator's
 * command does not apply to the data of such a process: see (W5). */
static void witness_doubt_late(struct sharded *filter, const struct cluster_view *view,
                               char why[WITNESS_WHY])
{
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        if (!filter->lost[i] && !filter->witnesses[i].any
            && !witness_runs(view, filter->holders[i])) {
            filter->doubted[i] = true;
            (void)snprintf(why, WITNESS_WHY,
                           "shard %u: its server restarted during the command", i);
        }
    }
}

bg_err sharded_vouch(struct sharded *filter, const struct cluster_view *view,
                     bool complete, char why[WITNESS_WHY], bg_errinfo *info)
{
    memset(filter->lost, 0, sizeof filter->lost);
    const bg_err err = witness_read_all(filter, why, info);
    if (err == BG_ECANCELED || err == BG_ENOMEM) {
        return err;
    }
    if (complete) {
        witness_doubt_late(filter, view, why);
    }
    bg_err renewed = witness_renew(filter, view, complete, why, err ? NULL : info);
    if (complete && !renewed) {
        renewed = witness_absolve(filter, why, err ? NULL : info);
    }
    return err ? err : renewed;
}

static void witness_forgotten(struct cluster_ask *ask, bg_bytes reply)
{
    (void)ask, (void)reply; /* a server without DEL has no witnesses */
}

bg_err sharded_forget(struct sharded *filter, bg_errinfo *info)
{
    struct cluster_ask asks[SHARDS_MAX];
    bg_bytes words[SHARDS_MAX][2];
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        words[i][0] = link_word("DEL");
        words[i][1] = filter->witness_names[i];
        asks[i] = (struct cluster_ask){ .argv = words[i],
                                        .argc = 2,
                                        .answered = witness_forgotten };
    }
    return cluster_call(filter->cluster, asks, filter->tags.shards, info);
}

/* Reads the witnesses of a job's shards, except for witnesses that were already read. If one of
 * these shards has no witness, reads the witnesses of all shards of the filter. */
static bg_err witness_prepare(struct sharded *filter, const bg_bytes *items, size_t n,
                              char why[WITNESS_WHY], bg_errinfo *info)
{
    bool which[SHARDS_MAX] = { false }, some = false, bare = false;
    uint16_t *shards = malloc((n ? n : 1) * sizeof *shards);
    if (!shards) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    shard_route(items, n, filter->tags.shards, shards);
    for (size_t i = 0; i < n; i++) {
        const struct witness *w = &filter->witnesses[shards[i]];
        which[shards[i]] = !w->count && !w->holder && !w->any;
        some = some || which[shards[i]];
    }
    free(shards);
    const bg_err err = some ? witness_load(filter, which, why, info) : BG_OK;
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        bare = bare || (which[i] && filter->bare[i]);
    }
    return err || !bare ? err : witness_read_all(filter, why, info);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* The items of a call, sorted by shard, so that the items of each command are consecutive. */
struct sharded_job {
    struct sharded *filter;
    const bg_bytes *items;
    size_t n;
    uint16_t *shards;         /* shard of each item */
    size_t *order;            /* item indexes, sorted by shard */
    bg_bytes *argv;           /* the arguments of all commands, stored consecutively */
    struct cluster_ask *asks; /* commands, followed by witness reads */
    struct sharded_part *parts;
    size_t count;                    /* commands */
    struct witness_errand *errands;  /* witness reads */
    size_t readings;                 /* number of witness reads */
    const struct cluster_ask **read; /* reads each shard's witness, or NULL */
    uint64_t *done, *answers;        /* bits */
    bg_err err;                      /* the first error reply to a command */
    bg_errinfo *info;                /* text of that error */
    bg_err told;           /* BG_ENOMEM if there was no memory for a witness */
    bool writes;           /* the job adds items; only queries need a trusted "no" */
    char why[WITNESS_WHY]; /* why a shard is not trusted */
};

/* The items of one command. */
struct sharded_part {
    struct sharded_job *job;
    size_t begin, n;        /* range in `order` */
    bool denies;            /* the reply reported some items as absent */
    bool refused;           /* the process that answered is not trusted */
    struct link_process by; /* the process that answered */
};

static void job_free(struct sharded_job *job)
{
    free(job->shards);
    free(job->order);
    free(job->argv);
    free(job->asks);
    free(job->parts);
    free(job->errands);
    free(job->read);
}

/* Sorts the items by shard with a counting sort. `most` is the maximum number of commands. */
static bool job_sort(struct sharded_job *job)
{
    const uint32_t shards = job->filter->tags.shards;
    const size_t n = job->n, most = n / job->filter->batch + shards;
    size_t begins[SHARDS_MAX + 1] = { 0 };
    job->shards = malloc(n * sizeof *job->shards);
    job->order = calloc(n, sizeof *job->order);
    job->argv = malloc((n + 2 * most) * sizeof *job->argv);
    job->asks = calloc(most + shards, sizeof *job->asks);
    job->parts = calloc(most, sizeof *job->parts);
    job->errands = calloc(shards, sizeof *job->errands);
    job->read = calloc(shards, sizeof(const struct cluster_ask *));
    if (!job->shards || !job->order || !job->argv || !job->asks || !job->parts
        || !job->errands || !job->read) {
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

/* Returns the shard of a command. */
static uint16_t job_shard(const struct sharded_job *job,
                          const struct sharded_part *part)
{
    return job->shards[job->order[part->begin]];
}

/* Stores the error of a command, with the name of its shard. */
static void job_failed(struct sharded_job *job, const struct cluster_ask *ask,
                       bg_bytes text)
{
    const bg_err code = reply_begins(text, "NOFILTER") ? BG_ENOTFOUND
                        : reply_begins(text, "FULL")   ? BG_EFULL
                                                       : BG_EIO;
    if (!job->err) {
        job->err =
            error_fail(job->info, code, "%.*s: %.*s",
                       (int)(ask->argv[1].len < 80 ? ask->argv[1].len : 80),
                       (const char *)ask->argv[1].data,
                       (int)(text.len < 150 ? text.len : 150), (const char *)text.data);
    }
}

/* Returns whether a "no" from a command's shard is trusted. If it is not, discards the witness,
 * which must be read again. */
static bool job_believes(struct sharded_job *job, const struct cluster_ask *ask,
                         const struct link_process *by, uint16_t shard)
{
    struct witness *witness = &job->filter->witnesses[shard];
    if (!job->writes && !witness_believes(witness, by)) {
        witness_free(witness);
        job->filter->doubted[shard] = true;
        job_failed(job, ask,
                   link_word(*job->why ? job->why
                                       : "the shard may have lost keys: its witness "
                                         "does not list the server process that "
                                         "replied"));
        return false;
    }
    return true;
}

/* Handles the reply to a command: an array with 0 or 1 for each item. The last element may be an
 * error. */
static void job_answered(struct cluster_ask *ask, bg_bytes reply)
{
    struct sharded_part *part = ask->context;
    struct sharded_job *job = part->job;
    size_t at = 0;
    struct reply_item item = reply_next(reply, &at);
    part->by = *ask->by;
    if (item.type != '*') {
        job_failed(job, ask,
                   item.type == '-' ? item.text : link_word("the reply is not a list"));
        return;
    }
    const size_t n = (size_t)item.number;
    const bool believed = job_believes(job, ask, ask->by, job_shard(job, part));
    for (size_t i = 0; i < n && i < part->n; i++) {
        const size_t which = job->order[part->begin + i];
        item = reply_next(reply, &at);
        if (item.type == '-') {
            job_failed(job, ask, item.text);
            return;
        }
        part->refused = part->refused || !believed;
        if (item.type == ':' && (believed || item.number != 0)) {
            job->done[which / 64] |= UINT64_C(1) << which % 64;
            job->answers[which / 64] |= (uint64_t)(item.number != 0) << which % 64;
            part->denies = part->denies || item.number == 0;
        }
    }
    if (n != part->n) {
        job_failed(job, ask,
                   link_word("the reply has an unexpected number of elements"));
    }
}

/* Creates the commands from the sorted items. */
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
        job->asks[job->count++] = (struct cluster_ask){ .argv = argv,
                                                        .argc = 2 + part->n,
                                                        .write = write,
                                                        .steady = !write,
                                                        .answered = job_answered,
                                                        .context = part };
        argv += 2 + part->n;
    }
}

/* After the commands, appends requests that read the witnesses of the job's shards. Servers that do
 * not support witnesses receive no such requests. */
static void job_read_witnesses(struct sharded_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        const uint16_t shard = job_shard(job, &job->parts[i]);
        if (!job->read[shard] && !job->filter->witnesses[shard].any) {
            struct witness_errand *e = &job->errands[job->readings];
            *e = (struct witness_errand){ .filter = job->filter,
                                          .shard = shard,
                                          .why = job->why,
                                          .err = &job->told };
            struct cluster_ask *ask = &job->asks[job->count + job->readings++];
            *ask = witness_ask(e, &witness_reading);
            job->read[shard] = ask;
        }
    }
}

/* Discards the "absent" answers of a command. */
static void job_retract(struct sharded_job *job, const struct sharded_part *part)
{
    for (size_t i = part->begin; i < part->begin + part->n; i++) {
        const size_t which = job->order[i];
        job->done[which / 64] &=
            job->answers[which / 64] | ~(UINT64_C(1) << which % 64);
    }
}

/* Returns whether the shard's witness was read after a command was executed. Within a round, a node
 * executes its requests in order. */
static bool job_is_read(const struct sharded_job *job, size_t command)
{
    const struct sharded_part *part = &job->parts[command];
    const struct cluster_ask *ask = &job->asks[command];
    const uint16_t shard = job_shard(job, part);
    const struct cluster_ask *read = job->read[shard];
    if (!read) {
        return part->by.run == job->filter->holders[shard];
    }
    return read->done && !job->filter->early[shard]
           && (read->round > ask->round
               || (read->round == ask->round && read->node == ask->node));
}

/* Confirms every "no"; see (W7) in shard_witness.h. */
static bg_err job_confirm(struct sharded_job *job, bg_errinfo *info)
{
    struct sharded *filter = job->filter;
    bool which[SHARDS_MAX] = { false }, some = false;
    for (size_t i = 0; i < job->count; i++) {
        if (job->parts[i].denies && !job_is_read(job, i)) {
            which[job_shard(job, &job->parts[i])] = some = true;
        }
    }
    const bg_err err = some ? witness_load(filter, which, job->why, info) : BG_OK;
    for (size_t i = 0; i < job->count; i++) {
        const struct sharded_part *part = &job->parts[i];
        const uint16_t shard = job_shard(job, part);
        if (part->denies
            && ((which[shard] && filter->lost[shard])
                || !job_believes(job, &job->asks[i], &part->by, shard))) {
            job_retract(job, part);
        }
        filter->doubted[shard] = filter->doubted[shard] || part->refused;
    }
    return err;
}

/* Sends the items of a job as arguments of a command. There must be at least one item. */
static bg_err job_run(struct sharded_job *job, const char *word, bool write)
{
    struct sharded *filter = job->filter;
    bg_err err = BG_OK;
    job->writes = write;
    memset(filter->lost, 0, sizeof filter->lost);
    memset(filter->early, 0, sizeof filter->early);
    if (job_sort(job)) {
        job_divide(job, link_word(word), write);
        if (!write) {
            job_read_witnesses(job);
        }
        err = cluster_call(filter->cluster, job->asks, job->count + job->readings,
                           job->info);
        err =
            err || !job->told ? err : error_fail(job->info, job->told, "out of memory");
        const bg_err confirmed =
            write ? BG_OK : job_confirm(job, err ? NULL : job->info);
        err = err ? err : confirmed;
        for (size_t i = 0; i < job->count; i++) {
            filter->lost[job_shard(job, &job->parts[i])] |= !job->asks[i].done;
        }
    } else {
        err = error_fail(job->info, BG_ENOMEM, "out of memory");
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
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    memset(maybe, 0, BG_BITMAP_WORDS(n) * sizeof *maybe);
    memset(filter->lost, 0, sizeof filter->lost);
    memset(filter->doubted, 0, sizeof filter->doubted);
    bg_err err = witness_prepare(filter, items, n, job.why, info);
    err = err || n == 0 ? err : job_run(&job, "BG.MEXISTS", false);
    for (size_t i = 0; i < n; i++) { /* items without an answer count as "maybe" */
        maybe[i / 64] |= (~done[i / 64] >> i % 64 & 1) << i % 64;
    }
    if (answered) {
        memcpy(answered, done, BG_BITMAP_WORDS(n) * sizeof *done);
    }
    free(done);
    return err;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* A command for one shard. */
struct sharded_errand {
    struct sharded *filter;
    const struct sharded_order *order;
    uint32_t shard;
};

static void errand_told(struct cluster_ask *ask, bg_bytes reply)
{
    const struct sharded_errand *errand = ask->context;
    errand->filter->served[errand->shard] = *ask->by;
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
            errands[i] = (struct sharded_errand){ filter, order, first + i };
            asks[i] = (struct cluster_ask){ .argv = words,
                                            .argc = at,
                                            .write = order->write,
                                            .steady = order->steady,
                                            .answered = errand_told,
                                            .context = &errands[i] };
        }
        err = cluster_call(filter->cluster, asks, n, info);
        for (uint32_t i = 0; i < n; i++) {
            filter->lost[first + i] = !asks[i].done;
        }
    } else {
        err = error_fail(info, BG_ENOMEM, "out of memory");
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

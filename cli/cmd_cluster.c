/*
 * cmd_cluster.c - bloomgate cluster: operates on one filter in a Redis Cluster. bloomgate
 * --cluster HOST:PORT ACTION NAME is the same command.
 *
 * The first argument selects an action from a table. Before each action, the command connects to
 * the cluster and computes the names of NAME's shards.
 *
 * add and check send keys from files or stdin to the shards. Each chunk of records is sent in one
 * call, which sends the keys to all shards in parallel, in batches, and returns the answers in
 * input order. Only one chunk is in flight at a time; the nodes work in parallel.
 */
#include "cluster_actions.h"
#include "flow.h"
#include "nearest.h"
#include "number.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_STRUCT struct cluster_settings
static const struct option cluster_table[] = {
    OPT_TEXT("cluster", 'C', nodes, "NODES",
             "HOST:PORT[,HOST:PORT...] of nodes or a single server"),
    OPT_COUNT("shards", 's', shards, "S", "number of shards (default: 16)"),
    OPT_COUNT("replicas", 'w', replicas, "N",
              "replicas that must acknowledge an add (default: 0)"),
    OPT_SECONDS("wait", 0, wait, "T",
                "time to wait for replicas per attempt (default: 1s)"),
    OPT_SECONDS("timeout", 0, timeout, "T", "reply timeout (default: 5s)"),
    OPT_SECONDS("patience", 0, patience, "T",
                "how long to retry after the last reply (default: 30s)"),
    OPT_COUNT("batch", 0, batch, "N", "keys per command (default: 500)"),
    OPT_END,
};

static const struct option cluster_create_table[] = {
    OPT_COUNT("items", 'n', items, "N", "create: total number of keys in all shards"),
    OPT_RATE("rate", 'p', rate, "P", "create: false-positive rate (default: 1%)"),
    OPT_TEXT("kind", 'k', kind, "KIND", "create: kind of filter (default: blocked)"),
    OPT_TEXT("hash", 0, hash, "PROFILE",
             "create: hash, fast or keyed (default: the server's)"),
    OPT_COUNT("seed", 0, seed, "N", "create: seed for --hash fast"),
    OPT_FLAG("missing", 0, missing, "create: accept shards that already exist"),
    OPT_FLAG("acknowledged", 0, acknowledged,
             "add: print each line whose add was acknowledged"),
    OPT_FLAG("invert", 'v', invert, "check: print lines definitely not in the filter"),
    OPT_FLAG("count", 'c', count, "check: print only the number of selected lines"),
    OPT_FLAG("annotate", 'a', annotate,
             "check: prefix every line with \"maybe\" or \"no\""),
    OPT_FLAG("open", 0, open_on_error,
             "check: answer \"maybe\" if a node does not reply"),
    OPT_FLAG("force", 'f', force, "dump: overwrite existing files"),
    OPT_END,
};

/* Records without the field, at the start of the input. They are sent after a record with the field
 * has been found, because otherwise the option is wrong and nothing must be added. Their keys are
 * empty. The text is kept only if it will be printed. */
struct cluster_held {
    uint64_t count;
    char *text;
    size_t used;
    bool released;
};

struct cluster_keys {
    struct cluster_work *work;
    struct key_format format;
    uint64_t keys, fresh, selected, unanswered;
    struct cluster_held held;
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

/* Reads the keys from all files and passes them to flow.work, one chunk at a time. If `prints`,
 * flow.work prints records, so the header is printed as well. */
static int keys_run(struct cluster_keys *k, const char *what, struct flow flow,
                    bool prints)
{
    const struct cluster_settings *o = k->work->settings;
    const struct arguments *arguments = k->work->arguments;
    int code = keys_format(&o->keys, &k->format);
    flow.format = &k->format;
    flow.threads = 1;
    flow.context = k;
    if (prints) {
        flow.header = o->annotate ? flow_print_annotated : flow_print_header;
    }
    return code ? code
                : flow_files(&flow, arguments->items + 2, arguments->count - 2,
                             o->keys.raw, what);
}

/* Prints the records that were added, which have their bits set in the chunk's answers. */
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

static bool add_hold(struct flow *flow, const struct chunk *chunk)
{
    struct cluster_keys *k = flow->context;
    struct cluster_held *held = &k->held;
    held->count += chunk->count;
    if (!k->work->settings->acknowledged) {
        return true;
    }
    char *grown = realloc(held->text, held->used + chunk->used);
    if (!grown) {
        return flow_fail(flow, say_full("out of memory"));
    }
    memcpy(grown + held->used, chunk->bytes, chunk->used);
    held->text = grown;
    held->used += chunk->used;
    return true;
}

/* Adds the empty keys that were held back. */
static bool add_release(struct flow *flow)
{
    enum { BATCH = 512 };
    static const bg_bytes empty[BATCH];
    struct cluster_keys *k = flow->context;
    struct cluster_held *held = &k->held;
    uint64_t added[BG_BITMAP_WORDS(BATCH)], fresh[BG_BITMAP_WORDS(BATCH)];
    bg_errinfo why;
    held->released = true;
    for (uint64_t left = held->count; left > 0;) {
        const size_t n = left < BATCH ? (size_t)left : BATCH;
        const bg_err err = sharded_add(&k->work->filter, empty, n, added, fresh, &why);
        k->keys += keys_ones(added, n);
        k->fresh += keys_ones(fresh, n);
        if (err) {
            return flow_fail(flow, cluster_say(k->work, &why));
        }
        left -= n;
    }
    return !held->used || out_write(held->text, held->used)
           || flow_fail(flow, out_code());
}

static bool add_work(struct flow *flow, struct chunk *chunk)
{
    struct cluster_keys *k = flow->context;
    if (!k->held.released && chunk->odd.missing == chunk->count) {
        return add_hold(flow, chunk);
    }
    if (!k->held.released && !add_release(flow)) {
        return false;
    }
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
    code =
        keys_run(&k, "adding", (struct flow){ .work = add_work, .tells_empty = true },
                 work->settings->acknowledged);
    free(k.held.text);
    say_note("%s: keys added: %s, definitely new: %s", work->name, COUNT_TEXT(k.keys),
             COUNT_TEXT(k.fresh));
    return code;
}

/* Writes every record after its answer, "maybe" or "no". Returns the number of bytes. */
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
    const int code = keys_run(&k, "checking", (struct flow){ .work = check_work },
                              !work->settings->count);
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

/* ---- Command --------------------------------------------------------------------------------- */

typedef int cluster_action(struct cluster_work *work);

#define ACTION_RUN(name, usage, does, groups) cluster_##name,
static cluster_action *const cluster_runs[] = { CLUSTER_ACTIONS(ACTION_RUN) };
#undef ACTION_RUN
#define ACTION_NAME(name, usage, does, groups) #name,
static const char *const cluster_actions[] = { CLUSTER_ACTIONS(ACTION_NAME) NULL };
#undef ACTION_NAME
#define ACTION_HELP(name, usage, does, groups) { #name, usage, does, groups },
static const struct command_action cluster_help[] = {
    CLUSTER_ACTIONS(ACTION_HELP){ NULL, NULL, NULL, 0 },
};
#undef ACTION_HELP

static cluster_action *cluster_find_action(const char *name)
{
    const size_t n = sizeof cluster_runs / sizeof *cluster_runs;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(cluster_actions[i], name) == 0) {
            return cluster_runs[i];
        }
    }
    (void)say_usage(
        "action: found '%s', expected create, add, check, info, merge, dump, "
        "secrets, drop or complete%s",
        name, SAY_HINT(nearest_name(name, cluster_actions, n)));
    return NULL;
}

int cluster_say(const struct cluster_work *work, const bg_errinfo *why)
{
    if (why->code == BG_ENOTFOUND) {
        return say_data("%s; check that %s has %u shards (--shards)", why->message,
                        work->name, work->filter.tags.shards);
    }
    return say_error(why->code == BG_EINVAL ? NULL : work->name, why);
}

static int cluster_connect(struct cluster_work *w)
{
    const struct cluster_settings *o = w->settings;
    const char *nodes =
        o->nodes ? o->nodes
                 : getenv("BLOOMGATE_CLUSTER"); /* NOLINT(concurrency-mt-unsafe) */
    bg_errinfo why;
    if (!nodes) {
        return say_usage("missing option --cluster HOST:PORT");
    }
    if (o->batch > 100000 || o->replicas > 1000) {
        return say_usage("--batch must be at most 100000, --replicas at most 1000");
    }
    struct cluster_options how = { .nodes = nodes,
                                   .timeout = login_milliseconds(o->timeout),
                                   .patience = login_milliseconds(o->patience),
                                   .replicas = (uint32_t)o->replicas,
                                   .wait = login_milliseconds(o->wait) };
    const int code = login_read(&o->login, &how);
    if (code) {
        return code;
    }
    if (cluster_open(&how, &w->cluster, &why)) {
        return say_error(NULL, &why);
    }
    if (sharded_open(w->cluster, w->name, o->shards ? o->shards : 16, &w->filter,
                     &why)) {
        return say_error(NULL, &why);
    }
    w->filter.batch = o->batch ? (size_t)o->batch : SHARDED_BATCH;
    return CLI_OK;
}

static int cluster_command(void *options, const struct arguments *arguments)
{
    static struct cluster_work work;
    cluster_action *action = cluster_find_action(arguments->items[0]);
    if (!action) {
        return CLI_USAGE;
    }
    work.settings = options;
    work.arguments = arguments;
    work.name = arguments->items[1];
    int code = cluster_connect(&work);
    code = code ? code : action(&work);
    sharded_close(&work.filter);
    cluster_close(work.cluster);
    return code;
}

const struct command command_cluster = {
    .name = "cluster",
    .summary = "operate on a sharded filter in a Redis Cluster",
    .usage = "[options] ACTION NAME [...]",
    .about =
        "A filter NAME with S shards consists of S filters named {tag}NAME/0ofS, "
        "{tag}NAME/1ofS and so on, distributed over the nodes of a cluster that runs "
        "the bloomgate module. Each key belongs to one shard. A single Redis or "
        "bloomgated server also works. Use the same --shards every time. bloomgate "
        "--cluster NODES ACTION ... is the same command; BLOOMGATE_CLUSTER can also "
        "provide the nodes.\n\nFilters can be merged only if they have the same number "
        "of shards and parameters.\n\nThe files written by dump contain no secrets. The "
        "secrets action adds the shards' secrets to a keyring, creating it if "
        "necessary, so that check --keyring can query these files. It requires "
        "+bg.secret (category admin), and the servers log each use.\n\nA server that "
        "restarts may have lost acknowledged "
        "keys, even with --replicas. Its shards then never answer \"no\": check "
        "fails, or with --open reports their keys as \"maybe\". Add all keys again, "
        "then run complete NAME to mark all shards as complete.\n\nIf a slot moves "
        "or a primary fails while the command is running, unanswered requests are "
        "retried. With --replicas 1, an add is acknowledged only after a replica has "
        "received it, so the key survives a failure of the primary. --acknowledged "
        "prints the lines whose add was acknowledged. If nodes do not reply within "
        "--patience, add and check fail; check --open reports their keys as "
        "\"maybe\" instead. A missing shard is always an error.\n\nWith --tls, each "
        "node must present a certificate that was issued by an authority in --tls-ca "
        "for the host name that the cluster lists for the node. Passwords cannot be "
        "passed as arguments: use BLOOMGATE_PASSWORD or --password-file.",
    .size = sizeof(struct cluster_settings),
    .arguments = { 2, COMMAND_ANY, "expected an action and the NAME of a filter" },
    .uses = { OPT_GROUP("Cluster", cluster_table),
              { &login_options_group, offsetof(struct cluster_settings, login) },
              OPT_GROUP("Action", cluster_create_table),
              { &key_options_group, offsetof(struct cluster_settings, keys) } },
    .examples = { { "bloomgate cluster -C node1:6379 create -n 1e9 -p 0.1% seen",
                    "create a filter of 16 shards for a billion keys" },
                  { "bloomgate cluster -C node1:6379 add -w 1 seen urls.txt",
                    "add each line to a primary and a replica" } },
    .words = cluster_actions,
    .actions = cluster_help,
    .run = cluster_command,
};

/*
 * cmd_migrate.c - bloomgate migrate: copies the filters of a running server (RedisBloom,
 * valkey-bloom or Bloomgate) to a server that runs Bloomgate.
 *
 * SCAN lists the keys of every node of the source, a batch at a time, and TYPE selects the filters.
 * Each filter is copied and verified (migrate.h) before the next one, so only one filter at a time is
 * in memory. A filter that cannot be copied is reported, and the migration continues. If a server
 * does not answer, the migration stops. A request about one filter may fail because of that filter,
 * so a server that answers PING is still in use.
 */
#include "cluster_actions.h"
#include "migrate.h"
#include "number.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct migrate_side {
    const char *user, *password_file;
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    bool tls;
};

struct migrate_options {
    struct common common;
    struct migrate_side source, target;
    const char *match;
    bool dry_run, replace;
    double timeout, patience;
};

#define OPT_STRUCT struct migrate_options
static const struct option migrate_table[] = {
    OPT_TEXT("match", 0, match, "PATTERN",
             "copy only keys that match this glob pattern"),
    OPT_FLAG("dry-run", 'n', dry_run, "compare only; change nothing on the target"),
    OPT_FLAG("replace", 0, replace, "replace keys on the target that differ"),
    OPT_SECONDS("timeout", 0, timeout, "T", "reply timeout (default: 1m)"),
    OPT_SECONDS("patience", 0, patience, "T",
                "how long to retry after the last reply (default: 30s)"),
    OPT_END,
};

#define MIGRATE_SIDE(side, variable)                                                   \
    OPT_TEXT(#side "-user", 0, side.user, "NAME",                                      \
             "user name; set the password in " variable),                              \
        OPT_TEXT(#side "-password-file", 0, side.password_file, "FILE",                \
                 "file whose first line is the password"),                             \
        OPT_FLAG(#side "-tls", 0, side.tls, "connect with TLS"),                       \
        OPT_TEXT(#side "-tls-ca", 0, side.tls_ca, "FILE",                              \
                 "trusted CA certificates (default: OS trust store)"),                 \
        OPT_TEXT(#side "-tls-cert", 0, side.tls_cert, "FILE", "client certificate"),   \
        OPT_TEXT(#side "-tls-key", 0, side.tls_key, "FILE",                            \
                 "private key of the client certificate"),                             \
        OPT_TEXT(#side "-tls-name", 0, side.tls_name, "NAME",                          \
                 "expected certificate name (default: host; *: any)"),                 \
        OPT_END

static const struct option migrate_source_table[] = {
    MIGRATE_SIDE(source, "BLOOMGATE_SOURCE_PASSWORD"),
};
static const struct option migrate_target_table[] = {
    MIGRATE_SIDE(target, "BLOOMGATE_TARGET_PASSWORD"),
};

/* ---- State ----------------------------------------------------------------------------------- */

/* The maximum size of a reply in bytes: a filter in the output of DUMP. */
#define MIGRATE_REPLY ((size_t)2 << 30)

enum {
    MIGRATE_BATCH = 500,
    MIGRATE_TYPES = 32,
    MIGRATE_TYPE = 32,
    MIGRATE_CURSOR = 24,
    /* Maximum number of batches per node. A server holds at most 2^32 keys, and SCAN returns about
     * MIGRATE_BATCH of them per call. */
    MIGRATE_SCANS = 1 << 24
};

/* The number of keys of one type that are not copied. */
struct migrate_skipped {
    char type[MIGRATE_TYPE];
    uint64_t keys;
};

struct migrate_work {
    struct migrate_pair pair;
    const struct migrate_options *options;
    uint64_t counts[MIGRATE_RESULTS], bytes;
    uint64_t hidden; /* filters of the source that the user may not read */
    struct migrate_skipped skipped[MIGRATE_TYPES];
    size_t types;
    struct progress progress;
};

/* A reply of SCAN: the next cursor, and keys with their types. */
struct migrate_batch {
    char *reply; /* a copy, which contains the keys */
    char cursor[MIGRATE_CURSOR];
    bg_bytes *keys;
    char (*types)[MIGRATE_TYPE];
    size_t count;
    bg_errinfo why;
};

static void migrate_batch_free(struct migrate_batch *batch)
{
    free(batch->reply);
    free(batch->keys);
    free(batch->types);
    *batch = (struct migrate_batch){ .count = 0 };
}

/* ---- Listing --------------------------------------------------------------------------------- */

static void migrate_error_reply(bg_errinfo *why, const char *command, bg_bytes text)
{
    (void)error_fail(why, BG_EIO, "%s: %.*s", command,
                     (int)(text.len < 200 ? text.len : 200), (const char *)text.data);
}

static bool migrate_batch_reserve(struct migrate_batch *b, bg_bytes reply, size_t count)
{
    b->reply = malloc(reply.len);
    b->keys = calloc(count + 1, sizeof *b->keys);
    b->types = calloc(count + 1, sizeof *b->types);
    if (!b->reply || !b->keys || !b->types) {
        (void)error_fail(&b->why, BG_ENOMEM, "out of memory");
        return false;
    }
    memcpy(b->reply, reply.data, reply.len);
    return true;
}

/* Returns whether an item is a cursor: a number that fits into a batch. */
static bool migrate_is_cursor(const struct reply_item *item)
{
    const char *digits = item->text.data;
    size_t n = 0;
    while (item->type == '$' && n < item->text.len && digits[n] >= '0'
           && digits[n] <= '9') {
        n++;
    }
    return n > 0 && n == item->text.len && n < MIGRATE_CURSOR;
}

static void migrate_scanned(void *context, bg_bytes reply)
{
    static const char expected[] =
        "SCAN: invalid reply, expected a cursor and a list of keys";
    struct migrate_batch *b = context;
    size_t at = 0;
    const struct reply_item list = reply_next(reply, &at);
    if (list.type == '-') {
        migrate_error_reply(&b->why, "SCAN", list.text);
        return;
    }
    const struct reply_item cursor = reply_next(reply, &at),
                            keys = reply_next(reply, &at);
    if (list.type != '*' || list.number != 2 || !migrate_is_cursor(&cursor)
        || keys.type != '*' || keys.null) {
        (void)error_fail(&b->why, BG_EFORMAT, "%s", expected);
        return;
    }
    if (!migrate_batch_reserve(b, reply, (size_t)keys.number)) {
        return;
    }
    (void)snprintf(b->cursor, sizeof b->cursor, "%.*s", (int)cursor.text.len,
                   (const char *)cursor.text.data);
    const bg_bytes copy = { b->reply, reply.len };
    for (int64_t i = 0; i < keys.number; i++) {
        const struct reply_item key = reply_next(copy, &at);
        if (key.type != '$' || key.null) {
            (void)error_fail(&b->why, BG_EFORMAT, "%s", expected);
            return;
        }
        b->keys[b->count++] = key.text;
    }
}

static bg_err migrate_scan(struct migrate_work *w, uint16_t node,
                           const char cursor[MIGRATE_CURSOR],
                           struct migrate_batch *batch, bg_errinfo *info)
{
    char count[16];
    (void)snprintf(count, sizeof count, "%d", MIGRATE_BATCH);
    const char *match = w->options->match;
    const bg_bytes words[] = { link_word("SCAN"),  link_word(cursor),
                               link_word("COUNT"), link_word(count),
                               link_word("MATCH"), link_word(match ? match : "*") };
    *batch = (struct migrate_batch){ .count = 0 };
    const bg_err err = cluster_call_node(w->pair.source, node, words, match ? 6 : 4,
                                         migrate_scanned, batch, info);
    if (!err && batch->why.code) {
        *info = batch->why;
    }
    return err ? err : batch->why.code;
}

static void migrate_typed(struct cluster_ask *ask, bg_bytes reply)
{
    char *type = ask->context;
    const struct reply_item item = reply_first(reply);
    const size_t n =
        item.text.len < MIGRATE_TYPE - 1 ? item.text.len : MIGRATE_TYPE - 1;
    if (item.type == '+') {
        memcpy(type, item.text.data, n);
        type[n] = 0;
        say_tame(type, n);
    }
}

/* Reads the types of a batch of keys. */
static bg_err migrate_types(struct migrate_work *w, struct migrate_batch *b,
                            bg_errinfo *info)
{
    struct cluster_ask *asks = calloc(b->count + 1, sizeof *asks);
    bg_bytes(*words)[2] = calloc(b->count + 1, sizeof *words);
    if (!asks || !words) {
        free(words);
        free(asks);
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < b->count; i++) {
        words[i][0] = link_word("TYPE");
        words[i][1] = b->keys[i];
        asks[i] = (struct cluster_ask){ .argv = words[i],
                                        .argc = 2,
                                        .answered = migrate_typed,
                                        .context = b->types[i] };
    }
    const bg_err err =
        b->count ? cluster_call(w->pair.source, asks, b->count, info) : BG_OK;
    free(words);
    free(asks);
    return err;
}

/* ---- Copying --------------------------------------------------------------------------------- */

static bool migrate_is_filter(const char *type)
{
    return strcmp(type, "MBbloom--") == 0 || strcmp(type, "MBbloomCF") == 0
           || strcmp(type, "bloomfltr") == 0 || strcmp(type, "bloomgate") == 0;
}

static void migrate_skip(struct migrate_work *w, const char *type)
{
    size_t i = 0;
    while (i < w->types && strcmp(w->skipped[i].type, type) != 0) {
        i++;
    }
    if (i == w->types && i < MIGRATE_TYPES) {
        (void)snprintf(w->skipped[w->types++].type, MIGRATE_TYPE, "%s", type);
    }
    w->skipped[i < MIGRATE_TYPES ? i : MIGRATE_TYPES - 1].keys++;
}

enum { MIGRATE_NAME = 200 };

/* Writes the start of a filter's name, without control characters. */
static const char *migrate_show_name(const struct migrate_filter *f,
                                     char name[MIGRATE_NAME])
{
    const size_t n = f->name.len < 150 ? f->name.len : 150;
    memcpy(name, f->name.data, n);
    say_tame(name, n);
    name[n] = 0;
    return name;
}

static void migrate_report(const struct migrate_work *w, enum migrate_result result,
                           const struct migrate_filter *f, const char *type)
{
    static const char *const names[MIGRATE_RESULTS] = { "copied", "same", "differs",
                                                        "deleted", "failed" };
    char name[MIGRATE_NAME];
    printf("%s\t%s\t%s\t%" PRIu64 "\n",
           result != MIGRATE_COPIED ? names[result]
           : w->pair.dry_run        ? (f->replaces ? "would replace" : "would copy")
           : f->replaces            ? "replaced"
                                    : names[result],
           migrate_show_name(f, name), type, f->bytes);
    (void)fflush(stdout);
    if (result == MIGRATE_FAILED || result == MIGRATE_DIFFERS) {
        say_warning("%s: %s", name, f->why.message);
    }
}

static void migrate_ignore_reply(struct cluster_ask *ask, bg_bytes reply)
{
    (void)ask;
    (void)reply; /* even an error is an answer */
}

/* Returns whether the node that owns a filter answers PING. */
static bool migrate_answers(struct cluster *cluster, bg_bytes name)
{
    const bg_bytes words[] = { link_word("PING"), name };
    struct cluster_ask ask = { .argv = words,
                               .argc = 2,
                               .answered = migrate_ignore_reply };
    return cluster_call(cluster, &ask, 1, NULL) == BG_OK;
}

/* Returns whether a filter could not be copied because of a server, or of a signal. */
static bool migrate_is_lost(const struct migrate_work *w,
                            const struct migrate_filter *f)
{
    return f->why.code == BG_ECANCELED
           || (f->why.code == BG_EIO
               && !(migrate_answers(w->pair.source, f->name)
                    && migrate_answers(w->pair.target, f->name)));
}

static bg_err migrate_batch_copy(struct migrate_work *w, struct migrate_batch *b,
                                 bg_errinfo *info)
{
    for (size_t i = 0; i < b->count; i++) {
        struct migrate_filter f = { .name = b->keys[i] };
        if (!b->types[i][0]) {
            (void)error_fail(&f.why, BG_EIO,
                             "the source did not report the type of this key; check "
                             "the permissions of the user");
            w->counts[MIGRATE_FAILED]++;
            progress_end(&w->progress);
            migrate_report(w, MIGRATE_FAILED, &f, "unknown");
            continue;
        }
        if (!migrate_is_filter(b->types[i])) {
            migrate_skip(w, b->types[i]);
            continue;
        }
        f.dumps = strcmp(b->types[i], "bloomgate") == 0;
        const enum migrate_result result = migrate_copy(&w->pair, &f);
        if (result == MIGRATE_FAILED && migrate_is_lost(w, &f)) {
            char name[MIGRATE_NAME];
            return error_fail(info, f.why.code, "%s: %s", migrate_show_name(&f, name),
                              f.why.message);
        }
        w->counts[result]++;
        w->bytes += f.bytes;
        progress_end(&w->progress);
        migrate_report(w, result, &f, b->types[i]);
        progress_tick(&w->progress, w->bytes, 0);
    }
    return BG_OK;
}

/* Returns whether a scan of a node never ends: SCAN returned the same cursor again. The cursor is
 * compared with that of an earlier batch, which is replaced after 1, 2, 4, 8... batches (R. Brent's
 * method), so a cycle of any length is found. */
static bool migrate_is_cycle(const char cursor[MIGRATE_CURSOR], uint32_t batches,
                             char earlier[MIGRATE_CURSOR])
{
    const bool same = strcmp(cursor, earlier) == 0;
    if ((batches & (batches - 1)) == 0) {
        memcpy(earlier, cursor, MIGRATE_CURSOR);
    }
    return same || batches == MIGRATE_SCANS;
}

/* Copies the filters of a node. A restarted server may have another order of keys, in which the old
 * cursor would skip keys. */
static bg_err migrate_node(struct migrate_work *w, uint16_t node, bg_errinfo *info)
{
    char cursor[MIGRATE_CURSOR] = "0", earlier[MIGRATE_CURSOR] = "";
    uint32_t batches = 0;
    uint64_t run = 0;
    bg_err err = BG_OK;
    do {
        struct migrate_batch batch;
        err = migrate_scan(w, node, cursor, &batch, info);
        run = batches ? run : cluster_run_of(w->pair.source, node);
        if (!err && run != cluster_run_of(w->pair.source, node)) {
            err = error_fail(info, BG_EIO,
                             "the source was restarted during the migration");
        }
        err = err ? err : migrate_types(w, &batch, info);
        err = err ? err : migrate_batch_copy(w, &batch, info);
        memcpy(cursor, batch.cursor, sizeof cursor);
        migrate_batch_free(&batch);
        if (!err && migrate_is_cycle(cursor, ++batches, earlier)) {
            return error_fail(info, BG_EFORMAT,
                              "SCAN: the source never returns the cursor 0");
        }
    } while (!err && strcmp(cursor, "0") != 0);
    return err;
}

/* ---- Before and after ------------------------------------------------------------------------ */

static const char *migrate_reason(const char *type)
{
    static const char *const sketches[] = { "TopK-TYPE", "CMSk-TYPE", "TDIS-TYPE" };
    for (size_t i = 0; i < sizeof sketches / sizeof *sketches; i++) {
        if (strcmp(type, sketches[i]) == 0) {
            return "Bloomgate does not support this type";
        }
    }
    return "not a filter";
}

static void migrate_summarize(const struct migrate_work *w)
{
    const bool dry = w->pair.dry_run;
    say_note(
        "%s %s, already the same: %s, different: %s, deleted meanwhile: %s, failed: %s",
        dry ? "to copy:" : "copied and verified:",
        COUNT_TEXT(w->counts[MIGRATE_COPIED]), COUNT_TEXT(w->counts[MIGRATE_SAME]),
        COUNT_TEXT(w->counts[MIGRATE_DIFFERS]), COUNT_TEXT(w->counts[MIGRATE_GONE]),
        COUNT_TEXT(w->counts[MIGRATE_FAILED]));
    for (size_t i = 0; i < w->types; i++) {
        say_note("skipped: %s %s of type %s (%s)", COUNT_TEXT(w->skipped[i].keys),
                 w->skipped[i].keys == 1 ? "key" : "keys", w->skipped[i].type,
                 migrate_reason(w->skipped[i].type));
    }
    if (w->counts[MIGRATE_DIFFERS]) {
        say_note("to copy the different filters again, use --replace; keys added only "
                 "on the target would be lost");
    }
}

/* Sets *context, a bool, if the reply to INFO lists databases other than 0. */
static void migrate_parse_databases(void *context, bg_bytes reply)
{
    const bg_bytes text = reply_first(reply).text;
    const char *p = text.data;
    bool *other = context;
    for (size_t i = 0; text.len > 3 && i < text.len - 3; i++) {
        *other = *other
                 || ((i == 0 || p[i - 1] == '\n') && memcmp(p + i, "db", 2) == 0
                     && p[i + 2] != '0');
    }
}

/* Warns about keys in databases other than 0. */
static bg_err migrate_check_databases(struct migrate_work *w, uint16_t node,
                                      bg_errinfo *info)
{
    const bg_bytes words[] = { link_word("INFO"), link_word("keyspace") };
    bool other = false;
    const bg_err err = cluster_call_node(w->pair.source, node, words, 2,
                                         migrate_parse_databases, &other, info);
    if (other) {
        say_warning("the source has keys in databases other than 0, which are not "
                    "copied; move them with SWAPDB or MOVE first");
    }
    return err;
}

/* A page of BG.LIST, whose last number is the number of filters that the user may not read. */
struct migrate_list {
    char cursor[MIGRATE_CURSOR]; /* of the next page; "0" at the end */
    uint64_t hidden;
    bool refused;
};

static void migrate_parse_list(void *context, bg_bytes reply)
{
    struct migrate_list *list = context;
    size_t at = 0;
    const struct reply_item top = reply_next(reply, &at);
    const bool is_list = top.type == '*' && top.number == 4;
    const struct reply_item next = is_list ? reply_next(reply, &at) : top;
    memcpy(list->cursor, "0", sizeof "0");
    list->refused = top.type == '-' && reply_begins(top.text, "NOPERM");
    if (!is_list || next.type != '$' || next.null
        || next.text.len >= sizeof list->cursor) {
        return; /* only the service has this command */
    }
    memcpy(list->cursor, next.text.data, next.text.len);
    list->cursor[next.text.len] = 0;
    struct reply_item last = next;
    while (at < reply.len) {
        last = reply_next(reply, &at);
    }
    list->hidden += last.type == ':' && last.number > 0 ? (uint64_t)last.number : 0;
}

/* Counts the filters of a node that SCAN hides from the user. */
static bg_err migrate_count_hidden(struct migrate_work *w, uint16_t node,
                                   bg_errinfo *info)
{
    struct migrate_list list = { .cursor = "0" };
    bg_err err = BG_OK;
    uint32_t pages = 0;
    do {
        const bg_bytes words[] = { link_word("BG.LIST"), link_word(list.cursor),
                                   link_word("COUNT"), link_word("10000") };
        err = cluster_call_node(w->pair.source, node, words, 4, migrate_parse_list,
                                &list, info);
    } while (!err && strcmp(list.cursor, "0") != 0 && ++pages < MIGRATE_SCANS);
    if (!err && list.refused) {
        say_warning("cannot check whether the user may read all filters of the source; "
                    "allow the user to run BG.LIST");
    }
    w->hidden += list.hidden;
    return err;
}

static void migrate_probed(struct cluster_ask *ask, bg_bytes reply)
{
    const struct reply_item item = reply_first(reply);
    bool *unknown = ask->context;
    *unknown = item.type == '-' && item.text.len > 11
               && memcmp(item.text.data, "ERR unknown", 11) == 0;
}

/* Fails early if the target does not run Bloomgate. */
static int migrate_check_target(struct migrate_work *w)
{
    const bg_bytes words[] = { link_word("BG.LOAD"), link_word("bloomgate-migrate") };
    bool unknown = false;
    bg_errinfo why;
    struct cluster_ask ask = {
        .argv = words, .argc = 2, .answered = migrate_probed, .context = &unknown
    };
    if (cluster_call(w->pair.target, &ask, 1, &why)) {
        return say_error("target", &why);
    }
    return unknown ? say_data("the target does not support BG.LOAD: it must be "
                              "bloomgated, or a server with bloomgate.so loaded")
                   : CLI_OK;
}

/* ---- Command --------------------------------------------------------------------------------- */

static int migrate_connect(const struct migrate_options *o, bool target,
                           const char *nodes, struct cluster **cluster)
{
    const struct migrate_side *side = target ? &o->target : &o->source;
    const char *name = target ? "target" : "source";
    bg_errinfo why;
    if (!side->tls
        && (side->tls_ca || side->tls_cert || side->tls_key || side->tls_name)) {
        return say_usage("--%s-tls-ca, -cert, -key and -name require --%s-tls", name,
                         name);
    }
    const char *variable =
        target ? "BLOOMGATE_TARGET_PASSWORD" : "BLOOMGATE_SOURCE_PASSWORD";
    const struct cluster_options how = {
        .nodes = nodes,
        .user = side->user,
        .password = getenv(variable), /* NOLINT(concurrency-mt-unsafe) */
        .password_file = side->password_file,
        .password_option = target ? "--target-password-file" : "--source-password-file",
        .tls = { .on = side->tls,
                 .ca = side->tls_ca,
                 .cert = side->tls_cert,
                 .key = side->tls_key,
                 .name = side->tls_name },
        .timeout = login_milliseconds(o->timeout > 0 ? o->timeout : 60),
        .patience = login_milliseconds(o->patience),
        .reply_max = MIGRATE_REPLY,
        .stop_fd = stop_fd()
    };
    return cluster_open(&how, cluster, &why) ? say_error(name, &why) : CLI_OK;
}

/* Copies the filters of all nodes. Keys of a slot that has moved from one node to another may not
 * have been on either node when it was scanned. */
static bg_err migrate_nodes(struct migrate_work *w, bg_errinfo *info)
{
    uint16_t nodes[MAP_NODES], before[SHARD_SLOTS], after[SHARD_SLOTS];
    bg_err err = cluster_read_owners(w->pair.source, before, info);
    const size_t n = cluster_list_nodes(w->pair.source, nodes);
    for (size_t i = 0; i < n && !err; i++) {
        err = migrate_check_databases(w, nodes[i], info);
        err = err ? err : migrate_node(w, nodes[i], info);
        err = err || w->options->match ? err : migrate_count_hidden(w, nodes[i], info);
    }
    err = err ? err : cluster_read_owners(w->pair.source, after, info);
    return err || memcmp(before, after, sizeof before) == 0
               ? err
               : error_fail(info, BG_EIO,
                            "slots of the source have moved during the migration");
}

static int migrate_run(struct migrate_work *w)
{
    bg_errinfo why;
    progress_begin(&w->progress, "migrating");
    const bg_err err = migrate_nodes(w, &why);
    progress_end(&w->progress);
    migrate_summarize(w);
    if (err == BG_ECANCELED || (!err && stop_wanted())) {
        return say_failed(CLI_INTERRUPTED,
                          "interrupted: run the same command again to resume");
    }
    if (err) {
        return say_failed(say_code(err), "%s; run the same command again to resume",
                          why.message);
    }
    if (w->hidden) {
        return say_data(
            "filters that were not copied because the user may not read them: %s",
            COUNT_TEXT(w->hidden));
    }
    return w->counts[MIGRATE_FAILED]    ? CLI_DATA
           : w->counts[MIGRATE_DIFFERS] ? CLI_NO
                                        : CLI_OK;
}

static int migrate_command(void *options, const struct arguments *arguments)
{
    static struct migrate_work work;
    const struct migrate_options *o = options;
    if (strcmp(arguments->items[0], arguments->items[1]) == 0) {
        return say_usage("SOURCE and TARGET are the same server");
    }
    work.options = o;
    work.pair = (struct migrate_pair){ .dry_run = o->dry_run, .replace = o->replace };
    int code = migrate_connect(o, false, arguments->items[0], &work.pair.source);
    code =
        code ? code : migrate_connect(o, true, arguments->items[1], &work.pair.target);
    code = code ? code : migrate_check_target(&work);
    code = code ? code : migrate_run(&work);
    cluster_close(work.pair.source);
    cluster_close(work.pair.target);
    return out_finish(code);
}

const struct command command_migrate = {
    .name = "migrate",
    .summary = "copy filters from another server to Bloomgate",
    .usage = "[options] SOURCE TARGET",
    .about =
        "Copies all filters of a running server (RedisBloom, valkey-bloom, the "
        "bloomgate module or bloomgated) to bloomgated, or to a Redis or Valkey "
        "server with the bloomgate module. Filters keep their bits, hash and "
        "expiration time. Bloomgate filters with a keyed hash are copied only if the "
        "target has their secrets. SOURCE and TARGET are HOST:PORT, or "
        "HOST:PORT,HOST:PORT for some nodes of a cluster. The source is only read. "
        "Only database 0 is copied.\n\nEach filter is loaded under a temporary name, "
        "{N}NAME/bloomgate-migrate, read back, compared bit by bit, and then renamed. "
        "Keys that exist on the target are compared and, unless --replace is set, "
        "never changed. To resume an interrupted migration, run the same command "
        "again: filters that are already the same are not copied.\n\nThe copy "
        "contains all keys that were added before its filter was dumped. To switch "
        "without losing keys, run the command, stop the clients that add keys, run it "
        "again with --replace, which copies only filters that changed, and start the "
        "clients with the address of the target.\n\nThe command prints one line per "
        "filter: the result (copied, replaced, same, differs, deleted, failed; with "
        "--dry-run, would copy or would replace), the name, the type and the size in "
        "bytes. The exit code is 0 if the target has all filters, 1 if some differ, "
        "and 3 if some could not be copied.",
    .size = sizeof(struct migrate_options),
    .arguments = { 2, 2, "expected SOURCE and TARGET" },
    .uses = { OPT_GROUP("Migrating", migrate_table),
              OPT_GROUP("Source", migrate_source_table),
              OPT_GROUP("Target", migrate_target_table) },
    .examples = { { "bloomgate migrate --dry-run old:6379 new:6380",
                    "list what would be copied" },
                  { "bloomgate migrate --replace old:6379 new:6380",
                    "copy filters that are missing or differ" } },
    .run = migrate_command,
};

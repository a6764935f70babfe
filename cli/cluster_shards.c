/*
 * cluster_shards.c - bloomgate cluster create, info, merge, dump, drop and complete: each performs
 * the same operation on every shard.
 *
 * create sizes each shard for its share of the keys (shard_capacity). merge combines shard i with
 * shard i of the other filters. These shards are in the same slot and cover the same subset of the
 * key space, so the result equals a single filter with all keys.
 *
 * dump reads each shard with BG.DUMP in chunks (dump.h) and keeps it in memory until its last chunk
 * has arrived; then the shard's file is written atomically. If a shard moves to another node during
 * its dump, the dump is restarted on that node.
 */
#include "claim.h"
#include "cluster_actions.h"
#include "dump_stream.h"
#include "error_text.h"
#include "filter_file.h"
#include "number.h"
#include "replace_file.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Replies of shards ----------------------------------------------------------------------- */

/* The number of replies of each kind, and the first error. */
struct shards_told {
    uint32_t fine, there, ones;
    uint32_t shard; /* the shard that replied with the error */
    char wrong[200];
    bool made[SHARDS_MAX]; /* shards that succeeded */
};

static void shards_told(void *context, uint32_t shard, bg_bytes reply)
{
    struct shards_told *told = context;
    size_t at = 0;
    const struct reply_item item = reply_next(reply, &at);
    if (item.type != '-') {
        told->fine++;
        told->made[shard] = true;
        told->ones += item.type == ':' && item.number == 1;
    } else if (reply_begins(item.text, "BUSYKEY")
               || (item.text.len >= 15
                   && memcmp(item.text.data, "ERR item exists", 15) == 0)) {
        told->there++;
    } else if (!told->wrong[0]) {
        told->shard = shard;
        (void)snprintf(told->wrong, sizeof told->wrong, "%.*s",
                       (int)(item.text.len < 190 ? item.text.len : 190),
                       (const char *)item.text.data);
    }
}

/* Sends a command to all shards. `order` counts the replies in `told`. Reports the first error. */
static int shards_send(struct cluster_work *w, const struct sharded_order *order,
                       const struct shards_told *told)
{
    bg_errinfo why;
    if (sharded_each(&w->filter, order, &why)) {
        return cluster_say(w, &why);
    }
    if (told->wrong[0]) {
        const bg_bytes name = w->filter.names[told->shard];
        return say_data("%.*s: %s", (int)name.len, (const char *)name.data,
                        told->wrong);
    }
    return CLI_OK;
}

/* Sends a command to all shards and counts the replies. */
static int shards_order(struct cluster_work *w, struct sharded_order *order,
                        struct shards_told *told)
{
    *told = (struct shards_told){ 0 };
    order->told = shards_told;
    order->context = told;
    return shards_send(w, order, told);
}

/* ---- Witnesses ------------------------------------------------------------------------------- */

int cluster_vouch(struct cluster_work *w, struct sharded *filter,
                  enum cluster_vouching how, uint32_t *doubted, char why[WITNESS_WHY])
{
    /* For VOUCH_READ, the view stays empty, so that sharded_vouch writes no witnesses. */
    struct cluster_view view = { 0 };
    bg_errinfo info;
    *doubted = 0;
    if ((how != VOUCH_READ && cluster_survey(w->cluster, 0, &view, &info))
        || sharded_vouch(filter, &view, how == VOUCH_COMPLETE, why, &info)) {
        return cluster_say(w, &info);
    }
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        *doubted += filter->doubted[i];
    }
    return CLI_OK;
}

int cluster_renew(struct cluster_work *w)
{
    char why[WITNESS_WHY];
    uint32_t doubted;
    const int code = cluster_vouch(w, &w->filter, VOUCH_RENEW, &doubted, why);
    if (!code && doubted) {
        say_warning("%s: %u of %u shards may have lost keys and will not answer \"no\" "
                    "until you run bloomgate --cluster NODES complete %s (reason: %s)",
                    w->name, doubted, w->filter.tags.shards, w->name, why);
    }
    return code;
}

int cluster_expect_complete(struct cluster_work *w, struct sharded *filter,
                            const char *name)
{
    char why[WITNESS_WHY];
    uint32_t doubted;
    const int code = cluster_vouch(w, filter, VOUCH_READ, &doubted, why);
    return code || !doubted
               ? code
               : say_data("%s: %u of %u shards may have lost keys: %s; add all keys "
                          "again, then run bloomgate --cluster NODES complete %s",
                          name, doubted, filter->tags.shards, why, name);
}

int cluster_complete(struct cluster_work *w)
{
    const bg_bytes words[] = { cluster_word("BG.MEXISTS"), cluster_word("any") };
    struct sharded_order probe = { .words = words, .count = 2 };
    struct shards_told told;
    char why[WITNESS_WHY];
    uint32_t doubted = 0;
    int code = shards_order(w, &probe, &told); /* fails if a shard is missing */
    if (!code) {
        code = cluster_vouch(w, &w->filter, VOUCH_COMPLETE, &doubted, why);
    }
    if (code) {
        return code;
    }
    if (doubted) {
        return say_data("%s: %u of %u shards cannot be marked as complete: %s", w->name,
                        doubted, w->filter.tags.shards, why);
    }
    say_note("%s: all %u shards are marked as complete", w->name,
             w->filter.tags.shards);
    return CLI_OK;
}

/* ---- create and drop ------------------------------------------------------------------------- */

static void create_missing(void *context, uint32_t shard, bg_bytes reply)
{
    struct cluster_work *w = context;
    size_t at = 0;
    const struct reply_item item = reply_next(reply, &at);
    w->filter.recreated[shard] =
        item.type == '-' && reply_begins(item.text, "NOFILTER");
}

/* If the filter is in use, marks missing shards as in doubt before re-creating them, because
 * other clients may look up keys in the meantime and this command may be interrupted. */
static int create_doubt(struct cluster_work *w)
{
    const bg_bytes words[] = { cluster_word("BG.MEXISTS"), cluster_word("any") };
    const struct sharded_order probe = {
        .words = words, .count = 2, .told = create_missing, .context = w
    };
    struct sharded *filter = &w->filter;
    char why[WITNESS_WHY];
    uint32_t doubted;
    bg_errinfo info;
    int code = cluster_vouch(w, filter, VOUCH_READ, &doubted, why);
    bool used = doubted > 0;
    for (uint32_t i = 0; i < filter->tags.shards; i++) {
        used = used || atomic_load(&filter->witnessed[i]) == WITNESS_SEEN;
    }
    if (code || !used) {
        return code;
    }
    if (sharded_each(filter, &probe, &info)) {
        return cluster_say(w, &info);
    }
    const bool all = !memchr(filter->recreated, false, filter->tags.shards);
    if (all) { /* no shard exists, so the whole filter is new */
        memset(filter->recreated, 0, sizeof filter->recreated);
        return CLI_OK;
    }
    return cluster_vouch(w, filter, VOUCH_RENEW, &doubted, why);
}

static int create_tell(struct cluster_work *w, const struct shards_told *told,
                       uint64_t capacity)
{
    if (told->there && !w->settings->missing) {
        return say_data("%s: %u of %u shards already exist and were left unchanged; "
                        "use --missing to accept them",
                        w->name, told->there, w->filter.tags.shards);
    }
    say_note("%s: created %u shard%s for %s keys each", w->name, told->fine,
             told->fine == 1 ? "" : "s", COUNT_TEXT(capacity));
    return CLI_OK;
}

int cluster_create(struct cluster_work *w)
{
    const struct cluster_settings *o = w->settings;
    char capacity[24], rate[32], seed[24];
    struct shards_told told;
    if (o->items == 0) {
        return say_usage("missing option --items N");
    }
    const uint64_t each = shard_capacity(o->items, w->filter.tags.shards);
    (void)snprintf(capacity, sizeof capacity, "%" PRIu64, each);
    (void)snprintf(rate, sizeof rate, "%.17g", o->rate > 0 ? o->rate : 0.01);
    (void)snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    const char *const parameters[][2] = { { "CAPACITY", capacity },
                                          { "ERROR", rate },
                                          { "KIND", o->kind },
                                          { "HASH", o->hash },
                                          { "SEED", o->seed ? seed : NULL } };
    bg_bytes words[11] = { cluster_word("BG.CREATE") };
    size_t n = 1;
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        if (parameters[i][1]) {
            words[n++] = cluster_word(parameters[i][0]);
            words[n++] = cluster_word(parameters[i][1]);
        }
    }
    struct sharded_order order = { .words = words, .count = n, .write = true };
    int code = create_doubt(w);
    if (code) {
        return code;
    }
    code = shards_order(w, &order, &told);
    if (told.there) {
        memcpy(w->filter.recreated, told.made, sizeof told.made);
    }
    code = code ? code : cluster_renew(w);
    return code ? code : create_tell(w, &told, each);
}

int cluster_drop(struct cluster_work *w)
{
    const bg_bytes word = cluster_word("BG.DROP");
    struct sharded_order order = { .words = &word, .count = 1, .write = true };
    struct shards_told told;
    bg_errinfo why;
    int code = shards_order(w, &order, &told);
    if (!code && sharded_forget(&w->filter, &why)) {
        code = cluster_say(w, &why);
    }
    if (!code) {
        say_note("%s: dropped %u of %u shards", w->name, told.ones,
                 w->filter.tags.shards);
    }
    return code ? code : told.ones ? CLI_OK : CLI_NO;
}

/* ---- merge ----------------------------------------------------------------------------------- */

int cluster_merge(struct cluster_work *w)
{
    const bg_bytes word = cluster_word("BG.MERGE");
    const size_t count = w->arguments->count - 2;
    struct shards_told told;
    bg_errinfo why;
    int code = CLI_OK;
    size_t opened = 0;
    if (count == 0) {
        return say_usage("expected NAME and at least one filter to merge into NAME");
    }
    struct sharded *others = calloc(count, sizeof *others);
    if (!others) {
        return say_full("out of memory");
    }
    while (!code && opened < count) {
        const char *name = w->arguments->items[2 + opened];
        if (sharded_open(w->cluster, name, w->filter.tags.shards, &others[opened],
                         &why)) {
            code = cluster_say(w, &why);
        } else {
            code = cluster_expect_complete(w, &others[opened++], name);
        }
    }
    struct sharded_order order = { .words = &word,
                                   .count = 1,
                                   .others = others,
                                   .others_count = count,
                                   .write = true };
    code = code ? code : cluster_renew(w);
    code = code ? code : shards_order(w, &order, &told);
    for (size_t i = 0; i < count && !code;
         i++) { /* a shard may have lost keys during the merge */
        code = cluster_expect_complete(w, &others[i], w->arguments->items[2 + i]);
    }
    while (opened > 0) {
        sharded_close(&others[--opened]);
    }
    free(others);
    if (!code) {
        say_note("%s: number of filters merged: %zu", w->name, count);
    }
    return code;
}

/* ---- info ------------------------------------------------------------------------------------ */

struct shards_facts {
    struct shards_told told;
    uint64_t capacity, bytes;
    /* `estimate`, `rate` and `target` are sums over all shards; `fullest` is the highest fill. */
    double estimate, rate, target, fullest;
    bg_health health; /* of the worst shard */
    uint32_t unfit;   /* shards whose rate is too high */
    char kind[32];
};

/* Returns the number in a reply item. The item is a string if the number is a double. */
static double facts_number(const struct reply_item *item)
{
    char text[40] = "";
    if (item->type == ':') {
        return (double)item->number;
    }
    if (item->type == '$' && item->text.len < sizeof text) {
        memcpy(text, item->text.data, item->text.len);
    }
    return strtod(text, NULL);
}

static bool facts_is(const struct reply_item *name, const char *word)
{
    return name->type == '$' && name->text.len == strlen(word)
           && memcmp(name->text.data, word, name->text.len) == 0;
}

static void facts_field(struct shards_facts *f, const struct reply_item *name,
                        const struct reply_item *value, const struct reply_item *first)
{
    if (facts_is(name, "kind") && value->type == '$') {
        (void)snprintf(f->kind, sizeof f->kind, "%.*s",
                       (int)(value->text.len < 31 ? value->text.len : 31),
                       (const char *)value->text.data);
    } else if (facts_is(name, "capacity") && value->type == ':') {
        f->capacity += (uint64_t)value->number;
    } else if (facts_is(name, "bytes") && value->type == ':') {
        f->bytes += (uint64_t)value->number;
    } else if (facts_is(name, "predicted_rate")) {
        f->rate += facts_number(value);
    } else if (facts_is(name, "target_rate")) {
        f->target += facts_number(value);
    } else if (facts_is(name, "estimated_items")) {
        f->estimate += facts_number(first);
    } else if (facts_is(name, "fill")) {
        const double fill = facts_number(value);
        f->fullest = fill > f->fullest ? fill : f->fullest;
    }
}

static void facts_told(void *context, uint32_t shard, bg_bytes reply)
{
    struct shards_facts *f = context;
    size_t at = 0;
    const struct reply_item list = reply_next(reply, &at);
    const double rate = f->rate, target = f->target;
    shards_told(&f->told, shard, reply);
    for (int64_t i = 0; list.type == '*' && i + 1 < list.number; i += 2) {
        const struct reply_item name = reply_next(reply, &at);
        const size_t begin = at;
        const struct reply_item value = reply_next(reply, &at);
        const struct reply_item first =
            reply_next(reply, &at); /* first item if the value is a list */
        at = begin;
        reply_skip(reply, &at);
        facts_field(f, &name, &value, &first);
    }
    const bg_health health = bg_health_of_rate(f->rate - rate, f->target - target);
    f->unfit += health != BG_HEALTH_FINE;
    f->health = health > f->health ? health : f->health;
}

static void info_print_health(const struct shards_facts *f, uint32_t shards)
{
    printf("  current rate %s\n  health       %s",
           RATE_OF_TEXT(f->rate / shards, f->target / shards),
           filter_health_name(f->health));
    if (f->unfit) {
        printf(": the rate is too high in %u of %u shards; create a larger filter",
               f->unfit, shards);
    }
    printf("\n");
}

/* Prints the statistics, and marks shards that may have lost keys. */
static int info_print(struct cluster_work *w, const struct shards_facts *f)
{
    char why[WITNESS_WHY];
    uint32_t doubted;
    const int code = cluster_vouch(w, &w->filter, VOUCH_READ, &doubted, why);
    if (code) {
        return code;
    }
    const uint32_t shards = w->filter.tags.shards;
    const size_t nodes = cluster_nodes(w->cluster);
    printf("%s\n"
           "  shards       %u, in a cluster of %zu node%s\n"
           "  kind         %s\n",
           w->name, shards, nodes, nodes == 1 ? "" : "s", f->kind);
    printf("  designed for %s keys, %s per shard\n", COUNT_TEXT(f->capacity),
           COUNT_TEXT(f->capacity / shards));
    printf("  size         %s\n", BYTES_TEXT(f->bytes));
    printf("  keys stored  about %s of %s\n", COUNT_TEXT((uint64_t)(f->estimate + 0.5)),
           COUNT_TEXT(f->capacity));
    printf("  fullest      %.1f%% of the bits are set in the fullest shard\n",
           100 * f->fullest);
    info_print_health(f, shards);
    for (uint32_t i = 0; i < shards; i++) {
        char node[300];
        const bg_bytes name = w->filter.names[i];
        cluster_where(w->cluster, shard_slot(name), node, sizeof node);
        printf("  %.*s\t%s%s\n", (int)name.len, (const char *)name.data, node,
               w->filter.doubted[i] ? "\tmay have lost keys" : "");
    }
    if (doubted) {
        say_warning("%s: %u of %u shards may have lost keys: %s; add all keys again, "
                    "then run bloomgate --cluster NODES complete %s",
                    w->name, doubted, shards, why, w->name);
    }
    return CLI_OK;
}

int cluster_info(struct cluster_work *w)
{
    const bg_bytes word = cluster_word("BG.INFO");
    struct shards_facts facts = { .capacity = 0 };
    const struct sharded_order order = {
        .words = &word, .count = 1, .told = facts_told, .context = &facts
    };
    const int code = shards_send(w, &order, &facts.told);
    return code ? code : info_print(w, &facts);
}

/* ---- dump ------------------------------------------------------------------------------------ */

static int64_t dump_cursor(const struct reply_item *item)
{
    char text[24] = "";
    if (item->type == '$' && item->text.len < sizeof text) {
        memcpy(text, item->text.data, item->text.len);
    }
    return item->type == ':' ? item->number : (int64_t)strtoull(text, NULL, 10);
}

/* A shard that is being dumped, and the data received so far. */
struct shard_dump {
    uint8_t *bytes;
    size_t used, total;
    uint64_t stream;
    int64_t cursor;
    bool restart; /* the shard has moved, and the dump must be restarted */
    bg_errinfo why;
};

/* Stores a chunk. Returns false if it does not follow the previous chunk, or if out of memory. */
static bool dump_keep(struct shard_dump *d, const struct dump_chunk *chunk)
{
    if (chunk->offset == 0) {
        free(d->bytes);
        d->bytes = NULL;
        d->used = 0;
        d->stream = chunk->stream;
        d->total = (size_t)chunk->total;
    }
    if (chunk->stream != d->stream || chunk->offset != d->used) {
        d->restart = true;
        return false;
    }
    uint8_t *bytes = realloc(d->bytes, d->used + chunk->n + 1);
    if (!bytes) {
        (void)error_fail(&d->why, BG_ENOMEM, "out of memory");
        return false;
    }
    memcpy(bytes + d->used, chunk->bytes, chunk->n);
    d->bytes = bytes;
    d->used += chunk->n;
    return true;
}

/* Handles a reply (cursor, chunk). The last reply has cursor 0, and its chunk may be empty. */
static void dump_told(void *context, uint32_t shard, bg_bytes reply)
{
    struct shard_dump *d = context;
    size_t at = 0;
    struct dump_chunk chunk;
    const struct reply_item list = reply_next(reply, &at),
                            cursor = reply_next(reply, &at),
                            data = reply_next(reply, &at);
    (void)shard;
    if (list.type == '-') {
        d->restart = d->cursor > 0;
        (void)error_fail(&d->why, BG_EIO, "%.*s",
                         (int)(list.text.len < 200 ? list.text.len : 200),
                         (const char *)list.text.data);
        return;
    }
    if (list.type != '*' || list.number != 2 || data.type != '$') {
        (void)error_fail(&d->why, BG_EFORMAT,
                         "BG.DUMP: invalid reply, expected a cursor and a chunk");
        return;
    }
    d->cursor = dump_cursor(&cursor);
    if (data.text.len && !dump_chunk_read(data.text, &chunk, &d->why)) {
        (void)dump_keep(d, &chunk);
    }
}

static int dump_read(struct cluster_work *w, uint32_t shard, struct shard_dump *d)
{
    char cursor[24];
    bg_errinfo why;
    const int64_t chunks_most = 1 << 20; /* chunks of 1 MiB each */
    for (int64_t i = 0, tries = 0; i < chunks_most && !stop_wanted(); i++) {
        (void)snprintf(cursor, sizeof cursor, "%" PRId64, d->cursor);
        const bg_bytes words[] = { cluster_word("BG.DUMP"), cluster_word(cursor) };
        const struct sharded_order order = {
            .words = words, .count = 2, .steady = true, .told = dump_told, .context = d
        };
        d->why = (bg_errinfo){ .code = BG_OK };
        if (sharded_one(&w->filter, shard, &order, &why)) {
            return cluster_say(w, &why);
        }
        if (d->restart && ++tries < 5) {
            *d = (struct shard_dump){ .bytes = d->bytes };
            continue;
        }
        if (d->why.code || d->restart) {
            return cluster_say(w, &d->why);
        }
        if (d->cursor == 0) {
            return d->used && d->used == d->total
                       ? CLI_OK
                       : say_data("%s: shard %u: the dump is incomplete; run the "
                                  "command again",
                                  w->name, shard);
        }
    }
    return CLI_INTERRUPTED;
}

/* Fails if the process that sent a shard is not listed in the witness that was read before the
 * dump. Keys may be missing from that process's data. By the time the witnesses are read again,
 * another process may have taken over the shard, so the loss would not be noticed then. */
static int dump_expect_listed(const struct cluster_work *w, uint32_t shard)
{
    return witness_believes(&w->filter.witnesses[shard], &w->filter.served[shard])
               ? CLI_OK
               : say_data("%s: shard %u: keys may be missing from the dump, because "
                          "the shard's server process changed during the dump; run the "
                          "command again",
                          w->name, shard);
}

/* Writes the filter file of a shard: the dump without its first line. */
static int dump_shard(struct cluster_work *w, uint32_t shard, const char *prefix)
{
    char path[CLAIM_PATH];
    struct shard_dump d = { .cursor = 0 };
    int code = filter_shard_path(prefix, shard, path);
    code = code ? code : filter_claim(path, w->settings->force);
    code = code ? code : dump_read(w, shard, &d);
    code = code ? code : dump_expect_listed(w, shard);
    const uint8_t *line = d.used ? memchr(d.bytes, '\n', d.used) : NULL;
    if (!code && !line) {
        code = say_data("%s: shard %u: the dump is damaged: its first line is missing; "
                        "run the command again",
                        w->name, shard);
    }
    if (!code) {
        const size_t skip = (size_t)(line + 1 - d.bytes);
        code = replace_file(path, line + 1, d.used - skip);
    }
    free(d.bytes);
    return code;
}

int cluster_dump(struct cluster_work *w)
{
    if (w->arguments->count != 3) {
        return say_usage("expected NAME and PREFIX");
    }
    const char *prefix = w->arguments->items[2];
    int code = cluster_expect_complete(w, &w->filter, w->name);
    /* As in bloomgate split, the prefix is claimed before the shard files to avoid deadlocks. */
    code = code ? code : claim_file(prefix);
    for (uint32_t i = 0; i < w->filter.tags.shards && !code; i++) {
        code = dump_shard(w, i, prefix);
    }
    code = code ? code : cluster_expect_complete(w, &w->filter, w->name);
    if (!code) {
        say_note("%s.0 to %s.%u: %u shards", prefix, prefix, w->filter.tags.shards - 1,
                 w->filter.tags.shards);
    }
    return code;
}

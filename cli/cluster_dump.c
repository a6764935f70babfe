/*
 * cluster_dump.c - bloomgate cluster dump: writes the shards of a filter to filter files.
 *
 * Each shard is read with BG.DUMP in chunks (dump.h) and kept in memory until its last chunk has
 * arrived; then its file is written atomically. If a shard moves to another node during its dump,
 * the dump is restarted on that node.
 */
#include "claim.h"
#include "cluster_actions.h"
#include "dump_stream.h"
#include "filter_file.h"
#include "replace_file.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Stores a chunk. Returns false if the chunk does not follow the previous chunk, or if out of
 * memory. */
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
                       : say_failed(CLI_DATA,
                                    "%s: shard %u: the dump is incomplete; run the "
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
               : say_failed(
                   CLI_DATA,
                   "%s: shard %u: keys may be missing from the dump, because the "
                   "shard's server process changed during the dump; run the command "
                   "again",
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
        code =
            say_failed(CLI_DATA,
                       "%s: shard %u: the dump is damaged: its first line is missing; "
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

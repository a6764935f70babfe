/* migrate_filter.c - see migrate.h. */
#include "dump_stream.h"
#include "migrate.h"
#include "rdb_value.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MIGRATE_CHUNK = 4 << 20, /* bytes of a dump per command */
    MIGRATE_NAME_MORE = 32,  /* bytes that a temporary name adds to a name */
    MIGRATE_READS = 1 << 20, /* maximum number of chunks of a dump */
    MIGRATE_TRIES = 10       /* maximum number of dumps of a filter */
};

/* A Bloomgate dump: a description line, followed by the filter in its file format. */
struct migrate_dump {
    uint8_t *bytes;
    size_t n;
    size_t line;       /* length of the description line */
    uint64_t checksum; /* of the whole dump, as the source reports it */
};

/* ---- Commands -------------------------------------------------------------------------------- */

/* A reply, of which the caller owns a copy. */
struct migrate_reply {
    char *bytes;
    size_t n;
    bool out_of_memory;
};

static void migrate_keep(struct cluster_ask *ask, bg_bytes reply)
{
    struct migrate_reply *kept = ask->context;
    free(kept->bytes);
    kept->bytes = malloc(reply.len + 1);
    kept->out_of_memory = !kept->bytes;
    kept->n = kept->bytes ? reply.len : 0;
    if (kept->bytes) {
        memcpy(kept->bytes, reply.data, reply.len);
    }
}

/* Sends a command whose second word is a key. Returns an error if the reply is an error. On
 * success, the caller frees kept->bytes. */
static bg_err migrate_call(struct cluster *cluster, const bg_bytes *words, size_t count,
                           struct migrate_reply *kept, bg_errinfo *info)
{
    *kept = (struct migrate_reply){ NULL, 0, false };
    struct cluster_ask ask = {
        .argv = words, .argc = count, .answered = migrate_keep, .context = kept
    };
    bg_err err = cluster_call(cluster, &ask, 1, info);
    if (ask.oversized) {
        err = error_fail(info, BG_ENOTSUP, "%.*s: the reply is larger than 2 GiB",
                         (int)words[0].len, (const char *)words[0].data);
    }
    if (!err && kept->out_of_memory) {
        err = error_fail(info, BG_ENOMEM, "out of memory");
    }
    const struct reply_item item = reply_first((bg_bytes){ kept->bytes, kept->n });
    if (!err && item.type == '-') {
        err = error_fail(info, BG_EBUSY, "%.*s: %.*s", (int)words[0].len,
                         (const char *)words[0].data,
                         (int)(item.text.len < 200 ? item.text.len : 200),
                         (const char *)item.text.data);
    }
    if (err) {
        free(kept->bytes);
        kept->bytes = NULL;
    }
    return err;
}

/* Sends a command and returns the integer in its reply, or 0 if the reply is a status. */
static bg_err migrate_number(struct cluster *cluster, const bg_bytes *words,
                             size_t count, int64_t *number, bg_errinfo *info)
{
    struct migrate_reply reply;
    bg_err err = migrate_call(cluster, words, count, &reply, info);
    if (err) {
        return err;
    }
    const struct reply_item item = reply_first((bg_bytes){ reply.bytes, reply.n });
    *number = item.number;
    if (item.type != ':' && item.type != '+') {
        err = error_fail(info, BG_EFORMAT, "%.*s: invalid reply, expected a number",
                         (int)words[0].len, (const char *)words[0].data);
    }
    free(reply.bytes);
    return err;
}

/* ---- BG.DUMP --------------------------------------------------------------------------------- */

typedef bg_err migrate_chunk_fn(void *context, const struct dump_chunk *chunk,
                                bg_errinfo *info);

/* A dump that is being read. */
struct migrate_stream {
    int64_t cursor;    /* offset of the next chunk */
    uint64_t checksum; /* of the copy that the first chunk belongs to */
};

/* Handles a reply to BG.DUMP: a cursor and a chunk. The cursor is 0 at the end. */
static bg_err migrate_read_chunk(bg_bytes reply, struct migrate_stream *stream,
                                 migrate_chunk_fn *take, void *context,
                                 bg_errinfo *info)
{
    size_t at = 0;
    const uint64_t wanted = (uint64_t)stream->cursor;
    const struct reply_item list = reply_next(reply, &at),
                            next = reply_next(reply, &at),
                            data = reply_next(reply, &at);
    struct dump_chunk chunk;
    const bool number = next.type == ':' || next.type == '$' || next.type == '+';
    if (list.type != '*' || list.number != 2 || data.type != '$' || !number) {
        return error_fail(info, BG_EFORMAT,
                          "BG.DUMP: invalid reply, expected a cursor and a chunk");
    }
    stream->cursor = next.type == ':'
                         ? next.number
                         : (int64_t)strtoll((const char *)next.text.data, NULL, 10);
    if (!data.text.len && stream->cursor == 0) {
        return BG_OK;
    }
    const bg_err err = dump_chunk_read(data.text, &chunk, info);
    if (err) {
        return err;
    }
    if (chunk.offset != wanted) {
        return error_fail(info, BG_EFORMAT,
                          "BG.DUMP: found a chunk at byte %llu, for cursor %llu",
                          (unsigned long long)chunk.offset, (unsigned long long)wanted);
    }
    stream->checksum = wanted ? stream->checksum : chunk.stream;
    return chunk.stream == stream->checksum
               ? take(context, &chunk, info)
               : error_fail(info, BG_EBUSY,
                            "BG.DUMP: another client keeps starting dumps of the "
                            "filter; run the command again");
}

/* Reads a filter once. Sets *again if its copy on the server was lost: a server keeps only one copy
 * of a filter, which is replaced when another client starts a dump. */
static bg_err migrate_read_once(struct cluster *cluster, bg_bytes name,
                                migrate_chunk_fn *take, void *context, bool *again,
                                bg_errinfo *info)
{
    struct migrate_stream stream = { .cursor = 0 };
    bg_err err = BG_OK;
    *again = false;
    for (int i = 0; i < MIGRATE_READS && !err && (i == 0 || stream.cursor != 0); i++) {
        char number[24];
        struct migrate_reply reply;
        (void)snprintf(number, sizeof number, "%" PRId64, stream.cursor);
        const bg_bytes words[] = { link_word("BG.DUMP"), name, link_word(number) };
        err = migrate_call(cluster, words, 3, &reply, info);
        if (!err) {
            err = migrate_read_chunk((bg_bytes){ reply.bytes, reply.n }, &stream, take,
                                     context, info);
            free(reply.bytes);
        }
        *again = i > 0 && err == BG_EBUSY;
    }
    return err || stream.cursor == 0
               ? err
               : error_fail(info, BG_EFORMAT, "BG.DUMP: found more than %d chunks",
                            MIGRATE_READS);
}

/* Reads a filter and passes its chunks to `take`. All chunks after the last chunk with offset 0
 * belong to the same copy of the filter. */
static bg_err migrate_each_chunk(struct cluster *cluster, bg_bytes name,
                                 migrate_chunk_fn *take, void *context,
                                 bg_errinfo *info)
{
    bool again = true;
    bg_err err = BG_OK;
    for (int i = 0; i < MIGRATE_TRIES && again; i++) {
        err = migrate_read_once(cluster, name, take, context, &again, info);
    }
    return err;
}

/* ---- Source ---------------------------------------------------------------------------------- */

/* Encodes an object as a Bloomgate dump. */
static bg_err migrate_encode(const struct object *object, struct migrate_dump *dump,
                             bg_errinfo *info)
{
    struct dump_line line = { .items = atomic_load(&object->items),
                              .deleted = atomic_load(&object->deleted),
                              .expansions = atomic_load(&object->expansions) };
    char text[DUMP_LINE_MAX];
    void *file = NULL;
    size_t n = 0;
    bg_err err = dump_encode(object, true, &file, &n, info);
    if (err) {
        return err;
    }
    object_describe(object, &line.shape);
    dump->line = dump_line_write(&line, text);
    dump->n = dump->line + n;
    dump->bytes = malloc(dump->n);
    if (dump->bytes) {
        memcpy(dump->bytes, text, dump->line);
        memcpy(dump->bytes + dump->line, file, n);
    } else {
        err = error_fail(info, BG_ENOMEM, "out of memory");
    }
    dump_give(object, file, n);
    return err;
}

/* Reads a filter of RedisBloom or valkey-bloom from the source, and converts it. Sets *missing if
 * it does not exist. */
static bg_err migrate_convert(struct cluster *source, bg_bytes name,
                              struct migrate_dump *dump, bool *missing,
                              bg_errinfo *info)
{
    const struct command_settings settings = { .max_filter_bytes = 0 };
    const bg_bytes words[] = { link_word("DUMP"), name };
    struct migrate_reply reply;
    struct object *object = NULL;
    bg_err err = migrate_call(source, words, 2, &reply, info);
    if (err) {
        return err;
    }
    const struct reply_item item = reply_first((bg_bytes){ reply.bytes, reply.n });
    *missing = item.type == '$' && item.null;
    if (!*missing) {
        err = item.type == '$'
                  ? rdb_value_object(item.text.data, item.text.len, &settings, &object,
                                     info)
                  : error_fail(info, BG_EFORMAT, "DUMP: the reply is not a string");
    }
    free(reply.bytes);
    if (object) {
        err = migrate_encode(object, dump, info);
        object_free(object);
    }
    return err;
}

static bg_err migrate_keep_chunk(void *context, const struct dump_chunk *chunk,
                                 bg_errinfo *info)
{
    struct migrate_dump *dump = context;
    if (chunk->offset == 0) { /* the dump may start again */
        dump->n = 0;
        dump->checksum = chunk->stream;
    }
    if (chunk->offset != dump->n) {
        return error_fail(info, BG_EFORMAT,
                          "BG.DUMP: found a chunk at byte %llu, "
                          "expected byte %zu",
                          (unsigned long long)chunk->offset, dump->n);
    }
    uint8_t *bytes = realloc(dump->bytes, dump->n + chunk->n + 1);
    if (!bytes) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    memcpy(bytes + dump->n, chunk->bytes, chunk->n);
    dump->bytes = bytes;
    dump->n += chunk->n;
    return BG_OK;
}

static bg_err migrate_is_missing(struct cluster *cluster, bg_bytes name, bool *missing,
                                 bg_errinfo *info)
{
    const bg_bytes words[] = { link_word("TYPE"), name };
    struct migrate_reply reply;
    const bg_err err = migrate_call(cluster, words, 2, &reply, info);
    if (!err) {
        *missing =
            reply_begins(reply_first((bg_bytes){ reply.bytes, reply.n }).text, "none");
        free(reply.bytes);
    }
    return err;
}

/* Reads a Bloomgate filter from the source, unchanged. Sets *missing if it does not exist. */
static bg_err migrate_read(struct cluster *source, bg_bytes name,
                           struct migrate_dump *dump, bool *missing, bg_errinfo *info)
{
    bg_err err = migrate_each_chunk(source, name, migrate_keep_chunk, dump, info);
    const uint8_t *end = dump->n ? memchr(dump->bytes, '\n', dump->n) : NULL;
    if (err == BG_EBUSY && !migrate_is_missing(source, name, missing, NULL)
        && *missing) {
        return BG_OK;
    }
    if (!err && dump_checksum(dump->bytes, dump->n) != dump->checksum) {
        err = error_fail(info, BG_ECHECKSUM,
                         "BG.DUMP: the dump is incomplete or damaged");
    } else if (!err && !end) {
        err = error_fail(info, BG_EFORMAT, "BG.DUMP: the dump has no description");
    }
    dump->line = end ? (size_t)(end - dump->bytes) + 1 : 0;
    return err;
}

static bool migrate_is_unknown(bg_err err, const bg_errinfo *why)
{
    return err == BG_EBUSY && strstr(why->message, "ERR unknown command") != NULL;
}

/* Reads the filter from the source. bloomgated has no DUMP, but supports BG.DUMP for all its
 * filters. */
static bg_err migrate_fetch(struct cluster *source, struct migrate_filter *f,
                            struct migrate_dump *dump, bool *missing)
{
    bg_err err = BG_OK;
    if (!f->dumps) {
        err = migrate_convert(source, f->name, dump, missing, &f->why);
    }
    if (!f->dumps && !migrate_is_unknown(err, &f->why)) {
        return err;
    }
    const bg_errinfo why = f->why;
    err = migrate_read(source, f->name, dump, missing, &f->why);
    if (!f->dumps && migrate_is_unknown(err, &f->why)) {
        f->why = why; /* DUMP is missing, not BG.DUMP */
    }
    return err;
}

/* The remaining time of a key in milliseconds (-1 if it does not expire, -2 if it does not exist),
 * and the times between which the source determined it. */
struct migrate_expiry {
    int64_t ttl, from, to;
};

static bg_err migrate_read_expiry(struct cluster *source, bg_bytes name,
                                  struct migrate_expiry *expiry, bg_errinfo *info)
{
    const bg_bytes words[] = { link_word("PTTL"), name };
    expiry->from = cluster_now();
    const bg_err err = migrate_number(source, words, 2, &expiry->ttl, info);
    expiry->to = cluster_now();
    return err;
}

/* Returns whether both replies may describe the same expiration time. The clocks of two machines
 * may differ in speed. */
static bool migrate_is_same_expiry(const struct migrate_expiry *a,
                                   const struct migrate_expiry *b)
{
    enum { SLACK = 1000 };
    return a->ttl < 0 || b->ttl < 0 ? a->ttl == b->ttl
                                    : a->from + a->ttl <= b->to + b->ttl + SLACK
                                          && b->from + b->ttl <= a->to + a->ttl + SLACK;
}

/* Reads a filter and its remaining time. Sets *missing if it does not exist, and *since to the time
 * at which its remaining time was read. A key that was deleted and created again between two
 * commands must not get the old expiration time. If the expiration time changed during the dump,
 * the key is therefore read again, but only a few times, because clients may keep changing it. */
static bg_err migrate_snapshot(struct cluster *source, struct migrate_filter *f,
                               struct migrate_dump *dump, bool *missing, int64_t *since)
{
    enum { TRIES = 3 };
    struct migrate_expiry before, after = { 0, 0, 0 };
    bg_err err = migrate_read_expiry(source, f->name, &before, &f->why);
    for (int i = 0; i < TRIES && !err; i++, before = after) {
        free(dump->bytes);
        *dump = (struct migrate_dump){ .bytes = NULL };
        err = migrate_fetch(source, f, dump, missing);
        if (err || *missing) {
            return err;
        }
        err = migrate_read_expiry(source, f->name, &after, &f->why);
        if (!err && migrate_is_same_expiry(&before, &after)) {
            break;
        }
    }
    *missing = after.ttl == -2;
    f->ttl = after.ttl;
    *since = after.from;
    return err;
}

/* ---- Target ---------------------------------------------------------------------------------- */

/* Writes a temporary name that belongs to the same cluster slot as `name`, such as
 * "{3021}users/bloomgate-migrate". The number in braces selects the slot. Returns the length. */
static size_t migrate_temporary(bg_bytes name, char *text)
{
    enum { TRIED = 1 << 20 }; /* every slot has a number far below this limit */
    static const char end[] = "/bloomgate-migrate";
    const unsigned slot = shard_slot(name);
    int n = 0;
    for (unsigned i = 0; i < TRIED; i++) {
        n = snprintf(text, MIGRATE_NAME_MORE, "{%u}", i);
        if (shard_slot((bg_bytes){ text, (size_t)n }) == slot) {
            break;
        }
    }
    memcpy(text + n, name.data, name.len);
    memcpy(text + (size_t)n + name.len, end, sizeof end - 1);
    return (size_t)n + name.len + sizeof end - 1;
}

static bg_err migrate_send(struct cluster *target, bg_bytes name,
                           const struct migrate_dump *dump, bg_errinfo *info)
{
    uint8_t *bytes = malloc(DUMP_HEADER + MIGRATE_CHUNK);
    bg_err err = bytes ? BG_OK : error_fail(info, BG_ENOMEM, "out of memory");
    struct dump_chunk chunk = { .total = dump->n };
    chunk.stream = dump_checksum(dump->bytes, dump->n);
    while (!err && chunk.offset < dump->n) {
        const size_t left = dump->n - (size_t)chunk.offset;
        struct migrate_reply reply;
        chunk.bytes = dump->bytes + chunk.offset;
        chunk.n = left < MIGRATE_CHUNK ? left : MIGRATE_CHUNK;
        dump_chunk_write(&chunk, bytes);
        const bg_bytes words[] = { link_word("BG.LOAD"),
                                   name,
                                   { bytes, DUMP_HEADER + chunk.n } };
        err = migrate_call(target, words, 3, &reply, info);
        if (!err) {
            free(reply.bytes);
        }
        chunk.offset += chunk.n;
    }
    free(bytes);
    return err;
}

/* The comparison of a filter on the target with a dump. */
struct migrate_compare {
    const struct migrate_dump *dump;
    uint64_t at;   /* bytes read */
    uint64_t line; /* length of the other description line; 0 if not read yet */
    bool equal;
};

/*
 * The parts of a filter file's header (docs/format.md) that may differ between servers:
 *   - the key ID, because the module names secrets differently than the service;
 *   - the time of a window that had not started when it was read, and the minor version, which is
 *     higher for windows with a time;
 *   - the digest and the checksum, which cover these parts. All other bytes are compared.
 */
static const struct {
    uint64_t at, end;
    bool time;
} migrate_varying[] = {
    { 10, 12, true },    { 200, 216, true },    { 216, 232, false },
    { 264, 280, false }, { 4092, 4096, false },
};

enum { MIGRATE_MOVED_AT = 208, MIGRATE_FILE_LEAST = 4096 };

/* Returns whether a dump contains a filter file, and not an imported filter. */
static bool migrate_is_file(const struct migrate_dump *dump)
{
    static const char magic[8] = { '\x89', 'B', 'G', 'F', '\r', '\n', '\x1a', '\n' };
    return dump->n - dump->line >= MIGRATE_FILE_LEAST
           && memcmp(dump->bytes + dump->line, magic, sizeof magic) == 0;
}

/* Returns whether a byte of the filter in the dump may differ on the target. */
static bool migrate_may_differ(const struct migrate_dump *dump, uint64_t at)
{
    static const uint8_t never[8] = { 0 };
    const bool started =
        memcmp(dump->bytes + dump->line + MIGRATE_MOVED_AT, never, sizeof never) != 0;
    for (size_t i = 0; i < sizeof migrate_varying / sizeof *migrate_varying; i++) {
        if (at >= migrate_varying[i].at && at < migrate_varying[i].end) {
            return !migrate_varying[i].time || !started;
        }
    }
    return false;
}

/* Compares n bytes with the filter in a dump, at offset `at` after the description line. */
static bool migrate_is_same(const struct migrate_dump *dump, uint64_t at,
                            const uint8_t *bytes, size_t n)
{
    const uint8_t *expected = dump->bytes + dump->line + at;
    if (memcmp(expected, bytes, n) == 0 || !migrate_is_file(dump)) {
        return memcmp(expected, bytes, n) == 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (expected[i] != bytes[i] && !migrate_may_differ(dump, at + i)) {
            return false;
        }
    }
    return true;
}

/* Compares a chunk, without the description line, in which limits and times can differ. */
static bg_err migrate_compare_chunk(void *context, const struct dump_chunk *chunk,
                                    bg_errinfo *info)
{
    struct migrate_compare *c = context;
    size_t from = 0;
    if (chunk->offset == 0) {
        const uint8_t *end = memchr(chunk->bytes, '\n', chunk->n);
        from = end ? (size_t)(end - chunk->bytes) + 1 : chunk->n;
        *c = (struct migrate_compare){ .dump = c->dump, .line = from, .equal = true };
    }
    const uint64_t at = chunk->offset + from - c->line;
    const size_t n = chunk->n - from;
    c->equal = c->equal && chunk->offset == c->at
               && chunk->total - c->line == c->dump->n - c->dump->line
               && migrate_is_same(c->dump, at, chunk->bytes + from, n);
    c->at += chunk->n;
    return c->at <= chunk->total
               ? BG_OK
               : error_fail(info, BG_EFORMAT,
                            "BG.DUMP: the chunks are larger than the whole dump");
}

/* Reads a filter from the target and compares it with a dump. Reads all chunks even if the first one
 * differs, so that the server frees its copy. */
static bg_err migrate_is_equal(struct cluster *target, bg_bytes name,
                               const struct migrate_dump *dump, bool *equal,
                               bg_errinfo *info)
{
    struct migrate_compare c = { .dump = dump, .equal = true };
    const bg_err err =
        migrate_each_chunk(target, name, migrate_compare_chunk, &c, info);
    *equal = !err && c.equal && c.line && c.at - c.line == dump->n - dump->line;
    return err;
}

/* Gives a key the remaining time of the filter on the source, which was read at `since`. */
static bg_err migrate_set_ttl(struct cluster *target, bg_bytes name, int64_t ttl,
                              int64_t since, bg_errinfo *info)
{
    char text[24];
    int64_t left = ttl - (cluster_now() - since), done = 0;
    left = left > 1 ? left : 1;
    (void)snprintf(text, sizeof text, "%" PRId64, left);
    const bg_bytes expire[] = { link_word("PEXPIRE"), name, link_word(text) };
    const bg_bytes persist[] = { link_word("PERSIST"), name };
    return ttl >= 0 ? migrate_number(target, expire, 3, &done, info)
                    : migrate_number(target, persist, 2, &done, info);
}

/* Gives a verified filter its name. Sets *renamed to false if the name is in use. If the reply to a
 * rename is lost, the repeated rename fails, because the temporary name no longer exists. The
 * filter is then read back under its new name, because a client may have deleted the temporary
 * filter instead. */
static bg_err migrate_rename(const struct migrate_pair *pair,
                             const struct migrate_filter *f, bg_bytes temporary,
                             const struct migrate_dump *dump, bool *renamed,
                             bg_errinfo *info)
{
    const bg_bytes words[] = { link_word(f->replaces ? "RENAME" : "RENAMENX"),
                               temporary, f->name };
    int64_t number = 0;
    bool equal = false;
    bg_err err = migrate_number(pair->target, words, 3, &number, info);
    *renamed = f->replaces || number == 1;
    if (err != BG_EBUSY || !strstr(info->message, "ERR no such key")) {
        return err;
    }
    *renamed = true;
    err = migrate_is_equal(pair->target, f->name, dump, &equal, info);
    return err || equal
               ? err
               : error_fail(info, BG_EBUSY,
                            "the filter was deleted or changed on the target while it "
                            "was being renamed; run the command again");
}

/* Loads a dump under a temporary name, verifies it, and renames it. Sets *renamed to false if the
 * name is in use. */
static bg_err migrate_place(const struct migrate_pair *pair,
                            const struct migrate_filter *f,
                            const struct migrate_dump *dump, int64_t since,
                            bool *renamed, bg_errinfo *info)
{
    char *text = malloc(f->name.len + MIGRATE_NAME_MORE);
    if (!text) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    const bg_bytes name = { text, migrate_temporary(f->name, text) };
    const bg_bytes drop[] = { link_word("DEL"), name };
    int64_t number = 0;
    bool equal = false;
    *renamed = true;
    bg_err err = migrate_number(pair->target, drop, 2, &number, info);
    err = err ? err : migrate_send(pair->target, name, dump, info);
    err = err ? err : migrate_is_equal(pair->target, name, dump, &equal, info);
    if (!err && !equal) {
        err = error_fail(
            info, BG_ECHECKSUM,
            "the filter read back from the target differs from the source; "
            "run the command again, and if it fails again, test the memory of "
            "the target machine");
    }
    err = err ? err : migrate_set_ttl(pair->target, name, f->ttl, since, info);
    err = err ? err : migrate_rename(pair, f, name, dump, renamed, info);
    if (err != BG_ECANCELED && err != BG_EIO && (err || !*renamed)) {
        (void)migrate_number(pair->target, drop, 2, &number, NULL);
    }
    free(text);
    return err;
}

/* ---- One filter ------------------------------------------------------------------------------ */

static enum migrate_result migrate_end(bg_err err, enum migrate_result result)
{
    return err ? MIGRATE_FAILED : result;
}

/* Determines whether the target has a key with this name, and whether it is the same filter. */
static bg_err migrate_check_existing(const struct migrate_pair *pair,
                                     struct migrate_filter *f,
                                     const struct migrate_dump *dump, bool *there,
                                     bool *same)
{
    bool missing = false;
    bg_err err = migrate_is_missing(pair->target, f->name, &missing, &f->why);
    *there = !missing;
    if (err) {
        return err;
    }
    if (!*there) {
        return BG_OK;
    }
    err = migrate_is_equal(pair->target, f->name, dump, same, &f->why);
    if (err == BG_EBUSY) { /* not a filter, or a filter that cannot be read */
        return BG_OK;
    }
    if (!err && !*same) {
        (void)error_fail(&f->why, BG_EBUSY, "the target has a different filter");
    }
    return err;
}

/* Compares the dump with the target and, depending on the options, changes the target. */
static enum migrate_result migrate_update_target(const struct migrate_pair *pair,
                                                 struct migrate_filter *f,
                                                 const struct migrate_dump *dump,
                                                 int64_t since)
{
    bool there = false, same = false, renamed = false;
    bg_err err = migrate_check_existing(pair, f, dump, &there, &same);
    if (err) {
        return MIGRATE_FAILED;
    }
    if (same) {
        err = pair->dry_run || !pair->replace
                  ? BG_OK
                  : migrate_set_ttl(pair->target, f->name, f->ttl, since, &f->why);
        return migrate_end(err, MIGRATE_SAME);
    }
    if (there && !pair->replace) {
        return MIGRATE_DIFFERS;
    }
    f->replaces = there;
    if (pair->dry_run) {
        return MIGRATE_COPIED;
    }
    err = migrate_place(pair, f, dump, since, &renamed, &f->why);
    if (!err && !renamed) {
        (void)error_fail(&f->why, BG_EBUSY,
                         "another client created this key on the target "
                         "during the migration");
    }
    return migrate_end(err, renamed ? MIGRATE_COPIED : MIGRATE_DIFFERS);
}

enum migrate_result migrate_copy(const struct migrate_pair *pair,
                                 struct migrate_filter *f)
{
    struct migrate_dump dump = { .bytes = NULL };
    bool missing = false;
    int64_t since = 0;
    f->why = (bg_errinfo){ .code = BG_OK };
    const bg_err err = migrate_snapshot(pair->source, f, &dump, &missing, &since);
    if (err || missing) {
        free(dump.bytes);
        return migrate_end(err, MIGRATE_GONE);
    }
    f->bytes = dump.n - dump.line;
    const enum migrate_result result = migrate_update_target(pair, f, &dump, since);
    free(dump.bytes);
    return result;
}

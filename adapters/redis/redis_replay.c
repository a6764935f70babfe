/*
 * redis_replay.c - see redis_replay.h.
 *
 * The chunks of a filter's content arrive consecutively, in one transaction or one file, so one
 * buffer is enough. The buffer grows as bytes are received (gather.h). If a chunk is for another
 * key or out of order, the buffer is discarded.
 *
 * Chunks are encoded while they are sent, so this module makes no copy of the content; the server
 * keeps the chunks that replicas have not read yet. A thread that does not hold the server's lock
 * encodes the chunks in advance, as server strings, which are sent without copying.
 */
#include "redis_replay.h"

#include "args.h"
#include "bytes.h"
#include "error_text.h"
#include "redis_client.h"
#include "redis_commands.h"
#include "redis_config.h"
#include "redis_host.h"
#include "redis_memory.h"
#include "redis_state.h"
#include "redis_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY "BG.REPLAY"

enum {
    REPLAY_HASH = 8,
    REPLAY_SECRET = 4 /* index of the secret argument in CREATE and DONE */
};

/* ---- Sending --------------------------------------------------------------------------------- */

static void replay_send_hashes(RedisModuleCtx *ctx, RedisModuleString *key,
                               const struct change *change)
{
    uint8_t bytes[OBJECT_BATCH * REPLAY_HASH];
    const char *word = change->op == CHANGE_ADD ? "ADD" : "REMOVE";
    for (size_t at = 0; at < change->n;) {
        const size_t n = change->n - at < OBJECT_BATCH ? change->n - at : OBJECT_BATCH;
        for (size_t i = 0; i < n; i++) {
            bytes_store64(bytes + REPLAY_HASH * i, change->hashes[at + i]);
        }
        (void)redis.Replicate(ctx, REPLAY, "scb", key, word, (const char *)bytes,
                              n * REPLAY_HASH);
        at += n;
    }
}

void redis_replay_change(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct change *change)
{
    if (change->op == CHANGE_ROTATE) {
        (void)redis.Replicate(ctx, REPLAY, "scl", key, "ROTATE",
                              (long long)change->value);
    } else if (change->hashes) {
        replay_send_hashes(ctx, key, change);
    } else {
        for (size_t i = 0; i < change->n; i++) {
            (void)redis.Replicate(ctx, REPLAY, "scb", key, "KEYS",
                                  (const char *)change->keys[i].data,
                                  change->keys[i].len);
        }
    }
}

/* ---- Content --------------------------------------------------------------------------------- */

/* Filter content that is being sent to replicas and the AOF, or written to a new AOF during a
 * rewrite. */
struct sending {
    RedisModuleCtx *ctx;
    RedisModuleIO *io; /* or NULL */
    RedisModuleString *key;
    size_t at, n;
};

static bg_err replay_send_piece(void *context, const void *bytes, size_t n)
{
    struct sending *s = context;
    if (s->io) {
        redis.EmitAOF(s->io, REPLAY, "scllb", s->key, "PUT", (long long)s->at,
                      (long long)s->n, (const char *)bytes, n);
    } else {
        (void)redis.Replicate(s->ctx, REPLAY, "scllb", s->key, "PUT", (long long)s->at,
                              (long long)s->n, (const char *)bytes, n);
    }
    s->at += n;
    return BG_OK;
}

/* Sends the state and the secret of an object, for CREATE or DONE. */
static void replay_send_state(const struct sending *s, const struct object *object,
                              bool whole, const char *word)
{
    char state[REDIS_STATE_TEXT];
    const bg_bytes secret = redis_state_secret(object);
    const size_t n = redis_state_write(object, whole, state);
    if (s->io) {
        redis.EmitAOF(s->io, REPLAY, "scbb", s->key, word, state, n, secret.data,
                      secret.len);
    } else {
        (void)redis.Replicate(s->ctx, REPLAY, "scbb", s->key, word, state, n,
                              secret.data, secret.len);
    }
}

/* Sends the command that marks the end of the content. The receiver creates the object with the
 * received content if `whole` is set, and with unknown content otherwise. */
static void replay_send_end(const struct sending *s, const struct object *object,
                            bool whole)
{
    replay_send_state(s, object, whole, whole ? "DONE" : "CREATE");
}

void redis_replay_create(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct object *object)
{
    const struct sending s = { .ctx = ctx, .key = key };
    replay_send_state(&s, object, object_is_whole(object), "CREATE");
}

bool redis_replay_is_heard(RedisModuleCtx *ctx)
{
    int unknown[2] = { 1, 1 };
    if (redis.GetContextFlags(ctx) & (REDIS_CTX_AOF | REDIS_CTX_CLUSTER)) {
        return true;
    }
    RedisModuleServerInfoData *info = redis.GetServerInfo(ctx, "replication");
    const bool heard =
        redis.ServerInfoGetFieldUnsigned(info, "connected_slaves", &unknown[0])
        || redis.ServerInfoGetFieldUnsigned(info, "repl_backlog_active", &unknown[1]);
    redis.FreeServerInfo(ctx, info);
    return heard || unknown[0] || unknown[1];
}

bg_err redis_replay_content(RedisModuleCtx *ctx, RedisModuleString *key,
                            const struct object *object, bg_errinfo *info)
{
    struct sending s = { .ctx = ctx, .key = key };
    const bg_err err =
        redis_replay_is_heard(ctx)
            ? redis_state_content(object, replay_send_piece, &s, &s.n, info)
            : BG_OK;
    if (!err) {
        replay_send_end(&s, object, object_is_whole(object));
    }
    return err;
}

static bg_err replay_keep_piece(void *context, const void *bytes, size_t n)
{
    struct redis_pieces *pieces = context;
    if (pieces->count == pieces->room) {
        const size_t room = pieces->room ? 2 * pieces->room : 64;
        RedisModuleString **of =
            realloc(pieces->of, room * sizeof(RedisModuleString *));
        if (!of) {
            return BG_ENOMEM;
        }
        pieces->of = of;
        pieces->room = room;
    }
    pieces->of[pieces->count++] = redis.CreateString(NULL, bytes, n);
    return BG_OK;
}

bg_err redis_replay_prepare(const struct object *object, struct redis_pieces *pieces,
                            bg_errinfo *info)
{
    return redis_state_content(object, replay_keep_piece, pieces, &pieces->n, info);
}

void redis_replay_prepared(RedisModuleCtx *ctx, RedisModuleString *key,
                           const struct object *object,
                           const struct redis_pieces *pieces)
{
    struct sending s = { .ctx = ctx, .key = key };
    for (size_t i = 0; i < pieces->count; i++) {
        size_t n = 0;
        (void)redis.StringPtrLen(pieces->of[i], &n);
        (void)redis.Replicate(ctx, REPLAY, "sclls", key, "PUT", (long long)s.at,
                              (long long)pieces->n, pieces->of[i]);
        s.at += n;
    }
    replay_send_end(&s, object, object_is_whole(object));
}

void redis_replay_forget(struct redis_pieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++) {
        redis.FreeString(NULL, pieces->of[i]);
    }
    free(pieces->of);
    *pieces = (struct redis_pieces){ .of = NULL };
}

void redis_replay_rewrite(RedisModuleIO *io, RedisModuleString *key,
                          const struct object *object)
{
    struct sending s = { .io = io, .key = key };
    bg_errinfo info = { 0 };
    const bg_err err = redis_state_content(object, replay_send_piece, &s, &s.n, &info);
    if (err) { /* the content is saved as unknown, and every answer will be "maybe" */
        redis.LogIOError(io, "warning", "cannot save a filter's content: %s",
                         error_text(&info, err));
    }
    replay_send_end(&s, object, !err && s.n > 0);
}

/* ---- Received content ------------------------------------------------------------------------ */

static struct {
    char *name; /* the key (in `db`) whose content is being received, or NULL */
    size_t name_n;
    int db;
    struct gather gather;
    size_t n; /* bytes received */
} put;

static void put_forget(void)
{
    free(put.name);
    gather_end(&put.gather);
    memset(&put, 0, sizeof put);
}

static bool put_is_for(int db, bg_bytes name)
{
    return put.name && put.db == db && put.name_n == name.len
           && memcmp(put.name, name.data, name.len) == 0;
}

static bool put_begin(int db, bg_bytes name, size_t total)
{
    put_forget();
    put.name = malloc(name.len + 1);
    if (!put.name || !gather_begin(&put.gather, total, &redis_allocator)) {
        put_forget();
        return false;
    }
    memcpy(put.name, name.data, name.len);
    put.name_n = name.len;
    put.db = db;
    return true;
}

static const char *put_piece(int db, bg_bytes name, uint64_t offset, uint64_t total,
                             bg_bytes piece)
{
    const uint64_t most = redis_settings.max_filter_bytes;
    if (piece.len == 0) {
        return "ERR the chunk is empty";
    }
    if (total > SIZE_MAX || offset > total || piece.len > total - offset) {
        return "ERR the chunk extends past the end of the content";
    }
    if (most && total / 2 > most && !redis_config_obeys()) {
        return "ERR the content exceeds bloomgate.max-filter-memory";
    }
    if (offset == 0 && !put_begin(db, name, (size_t)total)) {
        return "ERR Insufficient memory";
    }
    if (!put_is_for(db, name) || offset != put.n || total != put.gather.size) {
        put_forget();
        return "ERR the chunk does not follow the previous one";
    }
    if (!gather_count(&put.gather, put.n + piece.len)) {
        put_forget();
        return "ERR Insufficient memory";
    }
    memcpy(put.gather.bytes + put.n, piece.data, piece.len);
    put.n += piece.len;
    return NULL;
}

/* ---- Execution ------------------------------------------------------------------------------- */

struct replay {
    RedisModuleCtx *ctx;
    RedisModuleString *key;
    bg_bytes *argv;
    size_t argc;
    struct object *object; /* the object stored in the key, or NULL */
    const char *verb;      /* name of the keyspace event, or NULL */
    char why[BG_ERR_MESSAGE_MAX + 8];
};

static const char *replay_failed(struct replay *r, bg_err err, const bg_errinfo *info)
{
    (void)snprintf(r->why, sizeof r->why, "ERR %s", error_text(info, err));
    return r->why;
}

/* Stores an object under the key. */
static const char *replay_place(struct replay *r, struct gather *content)
{
    struct object *made = NULL;
    bg_errinfo info = { 0 };
    if (r->argc != 5) {
        return "ERR expected a state and a secret";
    }
    const bg_err err =
        redis_state_read(r->argv[3], r->argv[4], content, content->size == 0,
                         !redis_config_obeys(), &made, &info);
    if (err || !made) {
        return replay_failed(r, err, &info);
    }
    struct object *old = redis_host_place(r->ctx, r->key, made);
    redis_memory_free_object(old);
    r->verb = content->size ? "load" : "reserve";
    r->object = made;
    return NULL;
}

static const char *replay_create(struct replay *r)
{
    struct gather none = { .bytes = NULL };
    return replay_place(r, &none);
}

static const char *replay_done(struct replay *r)
{
    if (!put_is_for(redis.GetSelectedDb(r->ctx), r->argv[1]) || put.n == 0
        || put.n != put.gather.size) {
        return "ERR the content is missing or incomplete";
    }
    gather_uncount(&put.gather);
    const char *wrong = replay_place(r, &put.gather);
    put_forget();
    return wrong;
}

static const char *replay_put(struct replay *r)
{
    uint64_t offset = 0, total = 0;
    if (r->argc != 6 || !args_count(r->argv[3], &offset)
        || !args_count(r->argv[4], &total)) {
        return "ERR expected an offset, a total size and a chunk";
    }
    return put_piece(redis.GetSelectedDb(r->ctx), r->argv[1], offset, total,
                     r->argv[5]);
}

static const char *replay_apply(struct replay *r, const struct change *change,
                                const char *verb)
{
    bg_errinfo info = { 0 };
    if (!r->object) {
        return "ERR not found";
    }
    const bg_err err = object_apply(r->object, change, &info);
    r->verb = verb;
    return err ? replay_failed(r, err, &info) : NULL;
}

static const char *replay_hashes(struct replay *r, enum change_op op, const char *verb)
{
    uint64_t hashes[OBJECT_BATCH];
    if (r->argc != 4 || r->argv[3].len == 0 || r->argv[3].len % REPLAY_HASH != 0) {
        return "ERR expected hashes of 8 bytes each";
    }
    const uint8_t *bytes = r->argv[3].data;
    const size_t all = r->argv[3].len / REPLAY_HASH;
    const char *wrong = NULL;
    for (size_t at = 0; !wrong && at < all;) {
        const size_t n = all - at < OBJECT_BATCH ? all - at : OBJECT_BATCH;
        for (size_t i = 0; i < n; i++) {
            hashes[i] = bytes_load64(bytes + REPLAY_HASH * (at + i));
        }
        const struct change change = { .op = op, .n = n, .hashes = hashes };
        wrong = replay_apply(r, &change, verb);
        at += n;
    }
    return wrong;
}

static const char *replay_add(struct replay *r)
{
    return replay_hashes(r, CHANGE_ADD, "add");
}

static const char *replay_remove(struct replay *r)
{
    return replay_hashes(r, CHANGE_REMOVE, "del");
}

static const char *replay_keys(struct replay *r)
{
    const struct change change = { .op = CHANGE_ADD,
                                   .n = r->argc - 3,
                                   .keys = r->argv + 3 };
    return r->argc < 4 ? "ERR expected keys" : replay_apply(r, &change, "add");
}

static const char *replay_rotate(struct replay *r)
{
    struct change change = { .op = CHANGE_ROTATE };
    if (r->argc != 4 || !args_count(r->argv[3], &change.value)) {
        return "ERR expected milliseconds since 1970";
    }
    return replay_apply(r, &change, "rotate");
}

static const char *replay_run(struct replay *r)
{
    static const struct {
        const char *word;
        const char *(*run)(struct replay *r);
    } words[] = { { "CREATE", replay_create }, { "ADD", replay_add },
                  { "KEYS", replay_keys },     { "REMOVE", replay_remove },
                  { "ROTATE", replay_rotate }, { "PUT", replay_put },
                  { "DONE", replay_done } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (args_is(r->argv[2], words[i].word)) {
            return words[i].run(r);
        }
    }
    return "ERR expected CREATE, ADD, KEYS, REMOVE, ROTATE, PUT or DONE";
}

/* ---- Permissions ----------------------------------------------------------------------------- */

static int replay_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    struct redis_argv words;
    if (argc < 4) {
        return redis.WrongArity(ctx);
    }
    if (!redis_client_may_admin(ctx)) {
        return redis.ReplyWithError(
            ctx, "NOPERM BG.REPLAY is for replication: it requires a user with replica "
                 "permissions (REPLCONF)");
    }
    if (argc == REPLAY_SECRET + 1) { /* hide the secret from SLOWLOG */
        (void)redis.RedactClientCommandArgument(ctx, REPLAY_SECRET);
    }
    struct replay r = { .ctx = ctx, .key = argv[1], .argc = (size_t)argc };
    const char *wrong = "ERR Insufficient memory";
    if (redis_argv_take(&words, argv, (size_t)argc)) {
        r.argv = words.of;
        redis_memory_guard(!redis_config_obeys());
        wrong = redis_host_find(ctx, argv[1], REDIS_WRITE, &r.object) ? replay_run(&r)
                                                                      : ARGS_WRONGTYPE;
        redis_memory_guard(false);
        redis_argv_give(&words);
    }
    if (r.verb) {
        redis_host_tell(ctx, argv[1], r.object, r.verb);
    }
    if (!wrong || r.verb) {
        (void)redis.ReplicateVerbatim(ctx);
    }
    if (wrong && redis_config_obeys()) {
        redis.Log(ctx, "warning", "cannot apply a replicated change: %s", wrong);
    }
    return wrong ? redis.ReplyWithError(ctx, wrong)
                 : redis.ReplyWithSimpleString(ctx, "OK");
}

bool redis_replay_register(RedisModuleCtx *ctx)
{
    static const struct command row = {
        "BG.REPLAY",
        -4,
        COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_ADMIN,
        CATEGORY_GATE,
        1,
        1,
        1,
        NULL,
        NULL,
        "key <CREATE state secret | ADD hashes | KEYS item [item ...] | REMOVE hashes "
        "| ROTATE milliseconds | PUT offset total chunk | DONE state secret>",
        "Internal: applies a replicated change to a filter",
        "O(N) where N is the size in bytes",
        "0.1.0",
        { NEEDS_NOTHING, FRONT_REFUSES, EFFECT_TRANSFORMS, REPLICATES_COMMAND }
    };
    return redis_commands_add(ctx, &row, replay_command);
}

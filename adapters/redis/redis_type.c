/*
 * redis_type.c - values as the server asks for them: saved, loaded, rewritten, copied, freed.
 *
 *     RDB    1 | state | secret | bytes of the content | its pieces, 64 MiB at most
 *
 * where numbers and strings are the server's own. What they mean is in redis_state.h. A content's
 * size is believed as far as its pieces have come. Whatever is wrong is logged, and is an error of
 * RESTORE, or of loading the file: never a filter that would say no.
 *
 * Saving happens in a child of fork as well, so it takes no lock that another thread might have held:
 * pins of slots are none. A copy of the content is made there, in the child.
 */
#include "redis_type.h"

#include "bg_handlers.h"
#include "redis_config.h"
#include "redis_import.h"
#include "redis_memory.h"
#include "redis_replay.h"
#include "redis_state.h"

#include <stdlib.h>
#include <string.h>

enum { TYPE_VERSION = 1, TYPE_FORMAT = 1, TYPE_METHODS = 4, TYPE_PIECE = 64 << 20 };

RedisModuleType *redis_type;

static _Atomic uint64_t type_count;

uint64_t redis_type_count(void)
{
    return atomic_load(&type_count);
}

void redis_type_born(void)
{
    atomic_fetch_add(&type_count, 1);
}

/* ---- Saving -------------------------------------------------------------------------------------- */

static void type_save(RedisModuleIO *io, void *value)
{
    const struct object *object = value;
    char state[REDIS_STATE_TEXT];
    const bg_bytes secret = redis_state_secret(object);
    bg_errinfo info = { 0 };
    void *bytes = NULL;
    size_t n = 0;
    const bg_err err = redis_state_encode(object, &bytes, &n, &info);
    if (err) { /* which then is of unknown content: "maybe" to everything */
        redis.LogIOError(io, "warning", "the content of a filter cannot be saved: %s",
                         info.message[0] ? info.message : bg_strerror(err));
    }
    redis.SaveUnsigned(io, TYPE_FORMAT);
    redis.SaveStringBuffer(io, state, redis_state_write(object, n > 0, state));
    redis.SaveStringBuffer(io, secret.data, secret.len);
    redis.SaveUnsigned(io, n);
    for (size_t at = 0; at < n;) {
        const size_t piece = n - at < TYPE_PIECE ? n - at : TYPE_PIECE;
        redis.SaveStringBuffer(io, (const char *)bytes + at, piece);
        at += piece;
    }
    free(bytes);
}

/* ---- Loading ------------------------------------------------------------------------------------- */

struct loaded {
    char *state, *secret;
    size_t state_n, secret_n;
    char *content;
    size_t n;
};

/* All pieces of the content; one piece is taken as it is. */
static bool type_load_content(RedisModuleIO *io, struct loaded *loaded)
{
    const uint64_t total = redis.LoadUnsigned(io);
    while (!redis.IsIOError(io) && loaded->n < total) {
        size_t n = 0;
        char *piece = redis.LoadStringBuffer(io, &n);
        if (!piece || redis.IsIOError(io) || n == 0 || n > total - loaded->n) {
            redis.Free(piece);
            return false;
        }
        char *more =
            n < SIZE_MAX - loaded->n ? realloc(loaded->content, loaded->n + n) : NULL;
        if (!more) {
            redis.Free(piece);
            return false;
        }
        memcpy(more + loaded->n, piece, n);
        redis.Free(piece);
        loaded->content = more;
        loaded->n += n;
    }
    return !redis.IsIOError(io);
}

static bool type_load_parts(RedisModuleIO *io, struct loaded *loaded)
{
    if (redis.LoadUnsigned(io) != TYPE_FORMAT || redis.IsIOError(io)) {
        return false;
    }
    loaded->state = redis.LoadStringBuffer(io, &loaded->state_n);
    if (!loaded->state || redis.IsIOError(io)) {
        return false;
    }
    loaded->secret = redis.LoadStringBuffer(io, &loaded->secret_n);
    return loaded->secret && !redis.IsIOError(io) && type_load_content(io, loaded);
}

static void *type_load(RedisModuleIO *io, int version)
{
    struct loaded loaded = { .state = NULL };
    struct object *object = NULL;
    bg_errinfo info = { 0 };
    if (version != TYPE_VERSION) {
        redis.LogIOError(io, "warning", "a filter of version %d, expected %d", version,
                         TYPE_VERSION);
        return NULL;
    }
    if (!type_load_parts(io, &loaded)) {
        redis.LogIOError(io, "warning", "a filter that is cut short or damaged");
    } else if (redis_state_read((bg_bytes){ loaded.state, loaded.state_n },
                                (bg_bytes){ loaded.secret, loaded.secret_n },
                                (bg_bytes){ loaded.content, loaded.n }, false,
                                !redis_config_obeys(), &object, &info)) {
        redis.LogIOError(io, "warning", "a filter that cannot be trusted: %s",
                         info.message);
    }
    redis.Free(loaded.state);
    redis.Free(loaded.secret);
    free(loaded.content);
    if (object) {
        redis_type_born();
    }
    return object;
}

static void type_rewrite(RedisModuleIO *io, RedisModuleString *key, void *value)
{
    redis_replay_rewrite(io, key, value);
}

/* ---- The rest -------------------------------------------------------------------------------------- */

/* What an object needs besides its bits, about. */
enum { TYPE_OVERHEAD = 3 << 10 };

/* As the server counts it, and what is held for a dump; about, while somebody works on it. */
static size_t type_memory(RedisModuleKeyOptCtx *ctx, const void *value, size_t samples)
{
    (void)ctx;
    (void)samples;
    struct object *object = (struct object *)(uintptr_t)value;
    const size_t given = redis_memory_of(object);
    return given ? given + (size_t)atomic_load(&object->held)
                 : (size_t)object_bytes(object) + TYPE_OVERHEAD;
}

/* In the server's units, of which it does 64 at once: pages; and pieces, if there are many. */
static size_t type_free_effort(RedisModuleKeyOptCtx *ctx, const void *value)
{
    (void)ctx;
    const struct object *object = value;
    return object ? 1 + (size_t)(object_bytes(object) / 4096) + object->shape.shards
                  : 1; /* what redis_host_place took out */
}

static void type_free(void *value)
{
    atomic_fetch_sub(&type_count, 1);
    redis_memory_free_object(value);
}

static void *type_copy(RedisModuleKeyOptCtx *ctx, const void *value)
{
    const struct object *object = value;
    struct object *copy = NULL;
    bg_errinfo info = { 0 };
    (void)ctx;
    const bg_err err =
        object_is_whole(object)
            ? object_copy(object, &copy, &info)
            : object_create(&object->shape, &redis_settings, &copy, &info);
    if (err || !copy) {
        return NULL;
    }
    if (redis_state_attach(copy, &info)) {
        object_free(copy);
        return NULL;
    }
    atomic_store(&copy->refused, atomic_load(&object->refused));
    atomic_store(&copy->rotated, atomic_load(&object->rotated));
    atomic_store(&copy->reshaped, atomic_load(&object->reshaped));
    redis_type_born();
    return copy;
}

static void type_digest(RedisModuleDigest *digest, void *value)
{
    char text[BG_DIGEST_TEXT] = "unknown";
    if (object_is_whole(value)) {
        (void)bgc_digest_of(value, text, NULL);
    }
    redis.DigestAddStringBuffer(digest, text, strlen(text));
    redis.DigestEndSequence(digest);
}

static int type_defrag(RedisModuleDefragCtx *ctx, RedisModuleString *key, void **value)
{
    (void)key;
    struct object *object = *value;
    const int more =
        object && redis_config_moves() ? redis_memory_defrag(ctx, &object) : 0;
    *value = object;
    return more;
}

bool redis_type_register(RedisModuleCtx *ctx)
{
    struct redis_type_methods methods = {
        .version = TYPE_METHODS,
        .rdb_load = type_load,
        .rdb_save = type_save,
        .aof_rewrite = type_rewrite,
        .digest = type_digest,
        .free = type_free,
        .defrag = type_defrag,
        .mem_usage2 = type_memory,
        .free_effort2 = type_free_effort,
        .copy2 = type_copy,
    };
    redis_type = redis.CreateDataType(ctx, "bloomgate", TYPE_VERSION, &methods);
    return redis_type != NULL && redis_import_register(ctx, &methods);
}

/*
 * redis_type.c - the methods of the data type: save, load, rewrite, copy, free.
 *
 *     RDB    1 | state | secret | bytes of the content | its chunks, of any size
 *
 * Numbers and strings use the server's encoding. redis_state.h describes the fields. Memory for the
 * content is allocated as chunks are received, regardless of the announced size (gather.h). Errors
 * are logged, and cause RESTORE or the loading of the RDB file to fail. Errors never produce a
 * filter with false negatives.
 *
 * Values are also saved in a forked child process, so saving acquires no lock that another thread
 * might have held at the time of the fork (pinning a slot needs no lock). Chunks of 1 MiB are
 * written as they are encoded; neither the child nor the server process makes a copy of the
 * content.
 */
#include "redis_type.h"

#include "bg_handlers.h"
#include "error_text.h"
#include "redis_config.h"
#include "redis_import.h"
#include "redis_memory.h"
#include "redis_replay.h"
#include "redis_state.h"

#include <string.h>

enum { TYPE_VERSION = 1, TYPE_FORMAT = 1, TYPE_METHODS = 4 };

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

/* ---- Saving ---------------------------------------------------------------------------------- */

struct saving {
    RedisModuleIO *io;
    const struct object *object;
    size_t n;   /* size of the content in bytes */
    bool begun; /* the fields before the content have been written */
};

static void type_save_front(struct saving *saving)
{
    char state[REDIS_STATE_TEXT];
    const bg_bytes secret = redis_state_secret(saving->object);
    const size_t length = redis_state_write(saving->object, saving->n > 0, state);
    redis.SaveUnsigned(saving->io, TYPE_FORMAT);
    redis.SaveStringBuffer(saving->io, state, length);
    redis.SaveStringBuffer(saving->io, secret.data, secret.len);
    redis.SaveUnsigned(saving->io, saving->n);
    saving->begun = true;
}

static bg_err type_save_piece(void *context, const void *bytes, size_t n)
{
    struct saving *saving = context;
    if (!saving->begun) {
        type_save_front(saving);
    }
    redis.SaveStringBuffer(saving->io, bytes, n);
    return BG_OK;
}

/* Saves a value. The only possible error is running out of memory before the first chunk. In that
 * case, the content is saved as unknown, and the filter answers "maybe" for every key. Truncated
 * content would be rejected when it is loaded. */
static void type_save(RedisModuleIO *io, void *value)
{
    struct saving saving = { .io = io, .object = value };
    bg_errinfo info = { 0 };
    const bg_err err =
        redis_state_content(value, type_save_piece, &saving, &saving.n, &info);
    if (err) {
        redis.LogIOError(io, "warning", "cannot save a filter's content: %s",
                         error_text(&info, err));
    }
    if (!saving.begun) {
        saving.n = 0;
        type_save_front(&saving);
    }
}

/* ---- Loading --------------------------------------------------------------------------------- */

struct loaded {
    char *state, *secret;
    size_t state_n, secret_n;
    struct gather content;
};

/* Reads all chunks of the content. */
static bool type_load_content(RedisModuleIO *io, struct gather *content)
{
    const uint64_t total = redis.LoadUnsigned(io);
    if (redis.IsIOError(io) || total > SIZE_MAX
        || (total && !gather_begin(content, (size_t)total, NULL))) {
        return false;
    }
    for (size_t at = 0, n = 0; at < total; at += n) {
        char *piece = redis.LoadStringBuffer(io, &n);
        const bool good =
            piece && !redis.IsIOError(io) && n > 0 && n <= content->size - at;
        if (good) {
            memcpy(content->bytes + at, piece, n);
        }
        redis.Free(piece);
        if (!good) {
            return false;
        }
    }
    return true;
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
    return loaded->secret && !redis.IsIOError(io)
           && type_load_content(io, &loaded->content);
}

static void *type_load(RedisModuleIO *io, int version)
{
    struct loaded loaded = { .state = NULL };
    struct object *object = NULL;
    bg_errinfo info = { 0 };
    if (version != TYPE_VERSION) {
        redis.LogIOError(io, "warning",
                         "cannot load a filter: its format version is %d, but this "
                         "module supports only version %d",
                         version, TYPE_VERSION);
        return NULL;
    }
    redis_memory_guard(!redis_config_obeys());
    if (!type_load_parts(io, &loaded)) {
        redis.LogIOError(io, "warning",
                         "cannot load a filter: it is truncated or damaged");
    } else if (redis_state_read((bg_bytes){ loaded.state, loaded.state_n },
                                (bg_bytes){ loaded.secret, loaded.secret_n },
                                &loaded.content, false, !redis_config_obeys(), &object,
                                &info)) {
        redis.LogIOError(io, "warning", "cannot load a filter: %s", info.message);
    }
    redis_memory_guard(false);
    redis.Free(loaded.state);
    redis.Free(loaded.secret);
    gather_end(&loaded.content);
    if (object) {
        redis_type_born();
    }
    return object;
}

static void type_rewrite(RedisModuleIO *io, RedisModuleString *key, void *value)
{
    redis_replay_rewrite(io, key, value);
}

/* ---- Other methods --------------------------------------------------------------------------- */

/* The approximate size of an object, excluding its bits. */
enum { TYPE_OVERHEAD = 3 << 10 };

/* Returns the size of an object as counted by the server, plus the memory held for a dump. The
 * result is approximate while a thread is working on the object. */
static size_t type_memory(RedisModuleKeyOptCtx *ctx, const void *value, size_t samples)
{
    (void)ctx;
    (void)samples;
    struct object *object = (struct object *)(uintptr_t)value;
    const size_t given = redis_memory_of(object);
    const size_t dumped = (size_t)atomic_load(&object->dumped);
    return given ? given + (size_t)atomic_load(&object->loaded) + dumped
                 : (size_t)object_bytes(object) + dumped + TYPE_OVERHEAD;
}

/* Returns the effort of freeing an object, in the server's units: approximately the number of
 * pages and shards. The server frees objects of up to 64 units on its main thread. A server that is
 * evicting keys must free the object immediately, because it does not account for memory that
 * another thread is still freeing, and would evict more keys than necessary. */
static size_t type_free_effort(RedisModuleKeyOptCtx *ctx, const void *value)
{
    (void)ctx;
    const struct object *object = value;
    return object && !redis_memory_is_short()
               ? 1 + (size_t)(object_bytes(object) / 4096) + object->shape.shards
               : 1; /* `object` is NULL if redis_host_place removed the object */
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
    struct object_shape shape;
    bg_errinfo info = { 0 };
    (void)ctx;
    object_describe(object, &shape);
    redis_memory_guard(!redis_config_obeys());
    const bg_err err = object_is_whole(object)
                           ? object_copy(object, &copy, &info)
                           : object_create(&shape, &redis_settings, &copy, &info);
    redis_memory_guard(false);
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
    char text[BG_DIGEST_TEXT_BYTES] = "unknown";
    if (object_is_whole(value)) {
        (void)bgc_digest_of(value, true, text, NULL);
    }
    redis.DigestAddStringBuffer(digest, text, strlen(text));
    redis.DigestEndSequence(digest);
}

static int type_defrag(RedisModuleDefragCtx *ctx, RedisModuleString *key, void **value)
{
    (void)key;
    struct object *object = *value;
    const int more = object ? redis_memory_defrag(ctx, &object) : 0;
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

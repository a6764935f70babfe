/*
 * redis_import.c - see redis_import.h.
 *
 * The server finds the type of a saved value by the type's nine-character name, and passes the
 * value's format version to the module. The module then reads the fields one by one. Fields are
 * typed: reading a field as a different type is an error, after which no more fields can be read.
 * Fields in an unexpected order are therefore rejected, never misinterpreted.
 */
#include "redis_import.h"

#include "error_text.h"
#include "import_value.h"
#include "redis_config.h"
#include "redis_memory.h"
#include "redis_type.h"

#include <string.h>

enum { IMPORT_BLOOM, IMPORT_VALKEY, IMPORT_CUCKOO, IMPORT_TYPES };

/* `version` is the format version in which values are saved. */
static const struct {
    const char *name;
    bg_foreign_format format;
    int version;
} import_types[IMPORT_TYPES] = {
    [IMPORT_BLOOM] = { "MBbloom--", BG_FOREIGN_REDISBLOOM, 4 },
    [IMPORT_VALKEY] = { "bloomfltr", BG_FOREIGN_VALKEYBLOOM, 1 },
    [IMPORT_CUCKOO] = { "MBbloomCF", BG_FOREIGN_REDISCUCKOO, 4 },
};

/* NULL if another module registered the type */
static RedisModuleType *import_registered[IMPORT_TYPES];

/* Returns the index of a type that was registered here, or IMPORT_TYPES. */
static size_t import_index(const RedisModuleType *type)
{
    size_t i = 0;
    while (i < IMPORT_TYPES && (!type || import_registered[i] != type)) {
        i++;
    }
    return i;
}

bool redis_import_is(const RedisModuleType *type)
{
    return import_index(type) < IMPORT_TYPES;
}

bool redis_import_fits(const RedisModuleType *type, const struct object *object)
{
    const size_t i = import_index(type);
    return i < IMPORT_TYPES && object->foreign
           && object->shape.foreign == import_types[i].format;
}

/* ---- Loading --------------------------------------------------------------------------------- */

struct import_from {
    struct import_source source;
    RedisModuleIO *io;
};

static RedisModuleIO *import_of_source(struct import_source *source)
{
    return ((struct import_from *)source)->io; /* `source` is the first field */
}

static uint64_t import_load_number(struct import_source *source)
{
    return redis.LoadUnsigned(import_of_source(source));
}

static double import_load_real(struct import_source *source)
{
    return redis.LoadDouble(import_of_source(source));
}

static void *import_load_bytes(struct import_source *source, size_t *n)
{
    return redis.LoadStringBuffer(import_of_source(source), n);
}

static void import_load_drop(struct import_source *source, void *bytes)
{
    (void)source;
    redis.Free(bytes);
}

static bool import_load_failed(struct import_source *source)
{
    return redis.IsIOError(import_of_source(source));
}

/* Loads a value. Values from the server's files are loaded regardless of their size; values from
 * clients must not exceed the limit. */
static void *import_load(RedisModuleIO *io, int version, size_t which)
{
    struct import_from from = { .source = { import_load_number, import_load_real,
                                            import_load_bytes, import_load_drop,
                                            import_load_failed },
                                .io = io };
    struct object *object = NULL;
    bg_errinfo info = { 0 };
    redis_memory_guard(!redis_config_obeys());
    const bg_err err =
        import_value(import_types[which].format, version, &from.source, &redis_settings,
                     redis_config_obeys(), &object, &info);
    redis_memory_guard(false);
    if (err || !object) {
        redis.LogIOError(io, "warning", "cannot load a value of type %s: %s",
                         import_types[which].name, error_text(&info, err));
        return NULL;
    }
    object->shape.limit = redis_settings.max_filter_bytes;
    redis_type_born();
    return object;
}

static void *import_load_bloom(RedisModuleIO *io, int version)
{
    return import_load(io, version, IMPORT_BLOOM);
}

static void *import_load_valkey(RedisModuleIO *io, int version)
{
    return import_load(io, version, IMPORT_VALKEY);
}

static void *import_load_cuckoo(RedisModuleIO *io, int version)
{
    return import_load(io, version, IMPORT_CUCKOO);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

struct import_to {
    struct import_sink sink;
    RedisModuleIO *io;
};

static RedisModuleIO *import_of_sink(struct import_sink *sink)
{
    return ((struct import_to *)sink)->io; /* `sink` is the first field */
}

static void import_save_number(struct import_sink *sink, uint64_t value)
{
    redis.SaveUnsigned(import_of_sink(sink), value);
}

static void import_save_real(struct import_sink *sink, double value)
{
    redis.SaveDouble(import_of_sink(sink), value);
}

static void import_save_bytes(struct import_sink *sink, const void *bytes, size_t n)
{
    redis.SaveStringBuffer(import_of_sink(sink), bytes, n);
}

static void import_save(RedisModuleIO *io, void *value)
{
    struct import_to to = {
        .sink = { import_save_number, import_save_real, import_save_bytes }, .io = io
    };
    bg_errinfo info = { 0 };
    const bg_err err = export_value(value, &to.sink, &info);
    if (err) { /* the saved value is incomplete, and loading it will fail */
        redis.LogIOError(io, "warning", "cannot save a filter: %s",
                         error_text(&info, err));
    }
}

bool redis_import_register(RedisModuleCtx *ctx, const struct redis_type_methods *ours)
{
    void *(*const loads[IMPORT_TYPES])(RedisModuleIO * io, int version) = {
        import_load_bloom, import_load_valkey, import_load_cuckoo
    };
    for (size_t i = 0; i < IMPORT_TYPES; i++) {
        struct redis_type_methods methods = *ours;
        methods.rdb_load = loads[i];
        methods.rdb_save = import_save;
        import_registered[i] = redis.CreateDataType(ctx, import_types[i].name,
                                                    import_types[i].version, &methods);
        if (!import_registered[i]) {
            redis.Log(ctx, "notice",
                      "the type %s is registered by another module, so its values are "
                      "not imported",
                      import_types[i].name);
        }
    }
    return true;
}

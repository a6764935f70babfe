/* redis_module.c - the entry points for loading and unloading bloomgate.so, and its INFO section. */
#include "redis_api.h"
#include "redis_commands.h"
#include "redis_config.h"
#include "redis_memory.h"
#include "redis_replay.h"
#include "redis_type.h"
#include "redis_worker.h"

#include <stdio.h>

#define MODULE_FACE __attribute__((visibility("default")))

MODULE_FACE int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv,
                                   int argc);
MODULE_FACE int RedisModule_OnUnload(RedisModuleCtx *ctx);

enum {
    MODULE_VERSION =
        BG_VERSION_MAJOR * 10000 + BG_VERSION_MINOR * 100 + BG_VERSION_PATCH
};

/* Adds the module's section to INFO. The server prefixes fields with the module's name. */
static void module_info(RedisModuleInfoCtx *ctx, int for_crash_report)
{
    if (redis.InfoAddSection(ctx, "filters") != REDIS_OK) {
        return; /* the section was not requested */
    }
    (void)redis.InfoAddFieldCString(ctx, "version", BG_VERSION);
    (void)redis.InfoAddFieldULongLong(ctx, "filters", redis_type_count());
    (void)redis.InfoAddFieldULongLong(ctx, "filter_bytes", redis_memory_used());
    (void)redis.InfoAddFieldULongLong(ctx, "background_loads", redis_worker_done());
    (void)redis.InfoAddFieldULongLong(ctx, "pieces_moved", redis_memory_moves());
    /* A crash report may be written while redis_memory.c's lock is held, so writing the
     * report must not acquire that lock. */
    if (!for_crash_report) {
        (void)redis.InfoAddFieldULongLong(ctx, "filters_being_freed",
                                          redis_memory_waiting());
    }
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    const char *missing = redis_api_load(ctx);
    if (missing) { /* the server's log function may be missing too */
        (void)fprintf(stderr,
                      "bloomgate: this server does not provide %s: use Redis 7.0 or "
                      "later, or Valkey 8.0 or later\n",
                      missing);
        return REDIS_ERR;
    }
    redis_memory_start();
    const char *name = redis_config_name(argv, argc);
    if (redis.IsModuleNameBusy(name)) {
        redis.Log(ctx, "warning",
                  "bloomgate: another module named %s is already loaded", name);
        return REDIS_ERR;
    }
    redis.SetModuleAttribs(ctx, name, MODULE_VERSION, REDIS_API_VERSION);
    redis.SetModuleOptions(ctx, REDIS_OPTION_HANDLE_IO_ERRORS
                                    | REDIS_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
                                    | REDIS_OPTION_HANDLE_REPL_ASYNC_LOAD);
    return redis_type_register(ctx) && redis_commands_register(ctx)
                   && redis_replay_register(ctx)
                   && redis.RegisterInfoFunc(ctx, module_info) == REDIS_OK
                   && redis_config_register(ctx, argv, argc)
               ? REDIS_OK
               : REDIS_ERR;
}

/* Current servers do not unload modules that have data types; this function is for future
 * servers. */
int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
    (void)ctx;
    redis_memory_stop();
    return REDIS_OK;
}

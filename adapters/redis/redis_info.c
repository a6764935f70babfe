/* redis_info.c - see redis_info.h. The server prefixes fields with the module's name. */
#include "redis_info.h"

#include "redis_memory.h"
#include "redis_type.h"
#include "redis_worker.h"

static void info_tell(RedisModuleInfoCtx *ctx, int for_crash_report)
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

bool redis_info_register(RedisModuleCtx *ctx)
{
    return redis.RegisterInfoFunc(ctx, info_tell) == REDIS_OK;
}

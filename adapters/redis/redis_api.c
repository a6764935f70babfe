/* redis_api.c - looks up the server's functions by name. See redis_api.h. */
#include "redis_api.h"

#include <string.h>

struct redis_api redis;

/* The server's lookup function, to which the first word of a context points. It stores the address
 * of the API function with this name in *place. */
typedef int (*redis_api_find)(const char *name, void *place);

enum api_need { API_OPTIONAL, API_REQUIRED };

static const struct api_row {
    const char *name;
    size_t at;
    enum api_need need;
} api_rows[] = {
#define API_ROW(need, function)                                                        \
    { "RedisModule_" #function, offsetof(struct redis_api, function), need },
#define API_ROW_REQUIRED(type, name, parameters) API_ROW(API_REQUIRED, name)
#define API_ROW_OPTIONAL(type, name, parameters) API_ROW(API_OPTIONAL, name)
    REDIS_API(API_ROW_REQUIRED, API_ROW_OPTIONAL)
};

static redis_api_find api_find_of(const RedisModuleCtx *ctx)
{
    redis_api_find find = NULL;
    memcpy(&find, (const void *)ctx, sizeof find);
    return find;
}

const char *redis_api_load(RedisModuleCtx *ctx)
{
    const redis_api_find find = api_find_of(ctx);
    for (size_t i = 0; i < sizeof api_rows / sizeof *api_rows; i++) {
        void *place = (char *)&redis + api_rows[i].at;
        if (find(api_rows[i].name, place) != REDIS_OK
            && api_rows[i].need == API_REQUIRED) {
            return api_rows[i].name;
        }
    }
    return NULL;
}

bool redis_api_is_redis8(RedisModuleCtx *ctx)
{
    void *valkey = NULL;
    const int redis_8 = 0x00080000;
    return api_find_of(ctx)("ValkeyModule_Alloc", &valkey) != REDIS_OK
           && redis.GetServerVersion() >= redis_8;
}

/*
 * redis_client.c - see redis_client.h.
 *
 * Servers that support ACL categories for modules (Redis 7.2, Valkey 8.0) check permissions
 * themselves: admin commands are in the categories admin and dangerous. Redis 7.0 does not support
 * categories, and lets every user with +@all run every module command. There, a user must also be
 * allowed to run REPLCONF, which is in both categories.
 *
 * A script, or another module that calls a command, has no known user, so it may not run admin
 * commands on Redis 7.0.
 */
#include "redis_client.h"

#include "args.h"

#include <stdio.h>

static bool client_may_replconf(RedisModuleCtx *ctx)
{
    static const char word[] = "REPLCONF";
    RedisModuleString *name = redis.GetClientUserNameById(ctx, redis.GetClientId(ctx));
    RedisModuleUser *user = name ? redis.GetModuleUserFromUserName(name) : NULL;
    bool may = false;
    if (user) {
        RedisModuleString *command = redis.CreateString(ctx, word, sizeof word - 1);
        may = redis.ACLCheckCommandPermissions(user, &command, 1) == REDIS_OK;
        redis.FreeString(ctx, command);
        redis.FreeModuleUser(user);
    }
    if (name) {
        redis.FreeString(ctx, name);
    }
    return may;
}

bool redis_client_may_admin(RedisModuleCtx *ctx)
{
    /* Commands from the primary or a file are always allowed. */
    return redis.SetCommandACLCategories
           || redis.GetContextFlags(ctx) & (REDIS_CTX_REPLICATED | REDIS_CTX_LOADING)
           || client_may_replconf(ctx);
}

enum { CLIENT_ADDRESS = 64 };

static void client_address(uint64_t id, char address[CLIENT_ADDRESS])
{
    struct redis_client_info info = { .version = 1 };
    if (redis.GetClientInfoById(&info, id) != REDIS_OK) {
        (void)snprintf(address, CLIENT_ADDRESS, "an unknown address");
    } else if (info.flags & REDIS_CLIENT_UNIX) {
        (void)snprintf(address, CLIENT_ADDRESS, "a Unix socket");
    } else {
        (void)snprintf(address, CLIENT_ADDRESS, "%.45s port %u", info.address,
                       (unsigned)info.port);
    }
}

void redis_client_log_secret(RedisModuleCtx *ctx, bg_bytes filter)
{
    const uint64_t id = redis.GetClientId(ctx);
    RedisModuleString *name = redis.GetClientUserNameById(ctx, id);
    bg_bytes user = { "unknown", 7 };
    char address[CLIENT_ADDRESS], by[64], of[ARGS_SHOW_MAX];
    if (name) {
        user.data = redis.StringPtrLen(name, &user.len);
    }
    client_address(id, address);
    redis.Log(ctx, "warning", "BG.SECRET: user %s at %s read the secret of filter '%s'",
              args_show(user, by), address, args_show_long(filter, of));
    if (name) {
        redis.FreeString(ctx, name);
    }
}

/*
 * redis_host.h - the server as a host (host.h): names are keys, and recorded changes are
 * replicated.
 *
 * Thread safety: handlers run on the server's main thread, one after another, and their changes
 * are replicated and written to the AOF in that order (`ordered`).
 */
#ifndef REDIS_HOST_H
#define REDIS_HOST_H

#include "command_table.h"
#include "object.h"
#include "redis_api.h"

/* Runs a command from the table. */
int redis_host_run(RedisModuleCtx *ctx, RedisModuleString **argv, int argc,
                   const struct command *command);

/* Arguments as bytes. Up to REDIS_ARGV_FEW arguments need no allocation. */
enum { REDIS_ARGV_FEW = 128 };

struct redis_argv {
    bg_bytes *of;
    bg_bytes few[REDIS_ARGV_FEW];
};

bool redis_argv_take(struct redis_argv *argv, RedisModuleString **of, size_t n);
void redis_argv_give(struct redis_argv *argv);

/* Sets *object to the object stored in a key, or to NULL if the key does not exist. Returns false
 * if the key has a different type. `mode` is REDIS_READ or REDIS_WRITE. */
bool redis_host_find(RedisModuleCtx *ctx, RedisModuleString *name, int mode,
                     struct object **object);

/* Stores an object in a key that is empty or holds a filter object. Returns the previous object, or
 * NULL. */
struct object *redis_host_place(RedisModuleCtx *ctx, RedisModuleString *name,
                                struct object *object);

/* Notifies clients that watch or cache a key, and subscribers to keyspace events, that the key has
 * changed. */
void redis_host_tell(RedisModuleCtx *ctx, RedisModuleString *key,
                     const struct object *object, const char *verb);

#endif

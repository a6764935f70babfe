/*
 * redis_host.h - the server as a host (host.h): names are its keys, records are what it replicates.
 *
 * Threads. Handlers run on the server's main thread, one after the other, and what they change is
 * replicated and written to the AOF in that order (`ordered`).
 */
#ifndef REDIS_HOST_H
#define REDIS_HOST_H

#include "command_table.h"
#include "object.h"
#include "redis_api.h"

/* Runs a command of the table. */
int redis_host_run(RedisModuleCtx *ctx, RedisModuleString **argv, int argc,
                   const struct command *command);

/* Arguments as bytes: few of them in place. */
enum { REDIS_ARGV_FEW = 128 };

struct redis_argv {
    bg_bytes *of;
    bg_bytes few[REDIS_ARGV_FEW];
};

bool redis_argv_take(struct redis_argv *argv, RedisModuleString **of, size_t n);
void redis_argv_give(struct redis_argv *argv);

/* The object of a key, or NULL; false: it is of another type. `mode`: REDIS_READ or REDIS_WRITE. */
bool redis_host_find(RedisModuleCtx *ctx, RedisModuleString *name, int mode,
                     struct object **object);

/* An object becomes the value of a key that is empty or has another object, which is returned. */
struct object *redis_host_place(RedisModuleCtx *ctx, RedisModuleString *name,
                                struct object *object);

/* Tells clients that watch or cache a key, and those who listen to events, that it has changed. */
void redis_host_tell(RedisModuleCtx *ctx, RedisModuleString *key,
                     const struct object *object, const char *verb);

#endif

/*
 * redis_replay.h - sends changes to replicas and AOF files as commands whose result does not
 * depend on the receiver's configuration.
 *
 *     BG.REPLAY key CREATE state secret     creates an object that is empty or has unknown content
 *     BG.REPLAY key ADD hashes              8 bytes each, little-endian
 *     BG.REPLAY key KEYS key [key ...]      where hashes do not work (host.h)
 *     BG.REPLAY key REMOVE hashes
 *     BG.REPLAY key ROTATE milliseconds
 *     BG.REPLAY key PUT offset total bytes  a chunk of the content, in order
 *     BG.REPLAY key DONE state secret       creates an object from the chunks
 *
 * redis_state.h describes the state, the secret and the content. CREATE and DONE replace the value
 * of the key, which keeps its expiry. All arguments are validated, since they may come from any
 * client.
 *
 * Commands that have the same result everywhere are replicated unchanged (redis_host.c).
 */
#ifndef REDIS_REPLAY_H
#define REDIS_REPLAY_H

#include "object.h"
#include "redis_api.h"

/* Send a change to replicas and the AOF. */
void redis_replay_create(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct object *object);
void redis_replay_change(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct change *change);
/* Sends a whole object. If there are no receivers, the content is not read; DONE is still sent, so
 * that the server registers a change. */
bg_err redis_replay_content(RedisModuleCtx *ctx, RedisModuleString *key,
                            const struct object *object, bg_errinfo *info);

/* Returns whether replicated commands may have receivers, such as replicas or an AOF. */
bool redis_replay_is_heard(RedisModuleCtx *ctx);

/* Do the same as redis_replay_content in two steps, for a thread with exclusive use of the object.
 * The first step encodes the content as strings, which can take a long time and needs no lock; the
 * second step sends and frees the strings under the server's lock. If there are no receivers, the
 * first step can be skipped. */
struct redis_pieces {
    RedisModuleString **of;
    size_t count, room;
    size_t n; /* total bytes */
};

bg_err redis_replay_prepare(const struct object *object, struct redis_pieces *pieces,
                            bg_errinfo *info);
void redis_replay_prepared(RedisModuleCtx *ctx, RedisModuleString *key,
                           const struct object *object,
                           const struct redis_pieces *pieces);
void redis_replay_forget(struct redis_pieces *pieces);

/* Writes an object to an AOF that is being rewritten. */
void redis_replay_rewrite(RedisModuleIO *io, RedisModuleString *key,
                          const struct object *object);

/* Registers BG.REPLAY. */
bool redis_replay_register(RedisModuleCtx *ctx);

#endif

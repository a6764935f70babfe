/*
 * redis_replay.h - changes as replicas and AOF files get them: exact, whatever their configuration.
 *
 *     BG.REPLAY key CREATE state secret     an empty object, or one of unknown content
 *     BG.REPLAY key ADD hashes              8 bytes each, low byte first
 *     BG.REPLAY key KEYS key [key ...]      where hashes would not do (host.h)
 *     BG.REPLAY key REMOVE hashes
 *     BG.REPLAY key ROTATE milliseconds
 *     BG.REPLAY key PUT offset total bytes  a piece of a content, in order
 *     BG.REPLAY key DONE state secret       an object of what was put
 *
 * State, secret and content are those of redis_state.h. CREATE and DONE take the place of what has
 * the name; when that expires stays. Everything is checked as if it came from anybody, since it may.
 *
 * Commands that come to the same everywhere are sent as they are instead (redis_host.c).
 */
#ifndef REDIS_REPLAY_H
#define REDIS_REPLAY_H

#include "object.h"
#include "redis_api.h"

/* Sends to replicas and AOF. */
void redis_replay_create(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct object *object);
void redis_replay_change(RedisModuleCtx *ctx, RedisModuleString *key,
                         const struct change *change);
/* ... all of an object. If nobody listens nothing is read: the end is sent all the same, which counts
 * as a change for the server. */
bg_err redis_replay_content(RedisModuleCtx *ctx, RedisModuleString *key,
                            const struct object *object, bg_errinfo *info);

/* Whether there may be an AOF, replicas, or anybody else who is sent what is replicated. */
bool redis_replay_is_heard(RedisModuleCtx *ctx);

/* The same in two steps, for a thread that has the object alone: its content as strings, which takes
 * long and needs no lock; and with the server's lock, sending these, and forgetting them. If nobody
 * listens there need not be any. */
struct redis_pieces {
    RedisModuleString **of;
    size_t count, room;
    size_t n; /* bytes of all of them */
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

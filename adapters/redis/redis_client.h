/*
 * redis_client.h - the client that runs a command: its permissions, and its identity for the log.
 *
 * Thread safety: call these functions only in command handlers on the server's main thread.
 */
#ifndef REDIS_CLIENT_H
#define REDIS_CLIENT_H

#include "bloomgate/all.h"
#include "redis_api.h"

/* Returns whether the client may run an admin command of the module, after the server has checked
 * the client's permissions for the command itself. */
bool redis_client_may_admin(RedisModuleCtx *ctx);

/* Logs that the client receives the secret of a filter, with the client's user and address. The
 * server always writes the line, because it has the highest log level. */
void redis_client_log_secret(RedisModuleCtx *ctx, bg_bytes filter);

#endif

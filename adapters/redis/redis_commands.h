/* redis_commands.h - the commands of the table, registered with the server. */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "redis_api.h"

bool redis_commands_register(RedisModuleCtx *ctx);

#endif

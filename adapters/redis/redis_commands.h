/* redis_commands.h - registers the commands in the table with the server. */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "command_table.h"
#include "redis_api.h"

bool redis_commands_register(RedisModuleCtx *ctx);

/* Registers a command and its description; also used for commands that are not in the table.
 * Returns false after logging the reason. */
bool redis_commands_add(RedisModuleCtx *ctx, const struct command *c,
                        redis_command_function run);

#endif

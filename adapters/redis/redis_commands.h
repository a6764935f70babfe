/* redis_commands.h - the commands of the table, registered with the server. */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "command_table.h"
#include "redis_api.h"

bool redis_commands_register(RedisModuleCtx *ctx);

/* Registers one, with its description; after those of the table. False: it was logged why not. */
bool redis_commands_add(RedisModuleCtx *ctx, const struct command *c,
                        redis_command_function run);

#endif

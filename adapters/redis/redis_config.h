/*
 * redis_config.h - the module settings, which are set by CONFIG commands, in the server's
 * configuration file, or at the end of the loadmodule line. Also tracks whether the server is a
 * replica.
 */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "host.h"
#include "redis_api.h"

/* The settings for commands from clients, and the same settings without limits, for commands from a
 * primary or a file. */
extern struct command_settings redis_settings, redis_settings_obeyed;

/* Returns the module name: the name in the loadmodule line (`name bf`), or bloomgate by default.
 * Does not validate the arguments; redis_config_register does that later. */
const char *redis_config_name(RedisModuleString **argv, int argc);

/* Registers all settings, then applies the values in the server's configuration file, followed by
 * the values in the loadmodule line. Returns false after logging an error. */
bool redis_config_register(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Returns whether the server is applying changes from a primary or from a file that is being
 * loaded. */
bool redis_config_obeys(void);

/* Returns how many times the server has changed between primary and replica. A job must not write
 * if this number has changed since the job started. The caller holds the server's lock. */
uint64_t redis_config_term(void);

#endif

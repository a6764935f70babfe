/*
 * redis_config.h - what the module can be told: by CONFIG, in the server's file, at the end of the
 * loadmodule line. And whether the server is told what to do by another one.
 */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "host.h"
#include "redis_api.h"

/* What commands are run with; and the same without limits, for what a primary or a file says. */
extern struct command_settings redis_settings, redis_settings_obeyed;

/* What the module calls itself: `name bf` in the loadmodule line, or bloomgate. Words that are wrong are
 * refused later, by redis_config_register. */
const char *redis_config_name(RedisModuleString **argv, int argc);

/* Registers everything, takes the values of the server's file, then those of the loadmodule line.
 * False: something was wrong, and was logged. */
bool redis_config_register(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Whether changes come from a primary, or from a file that is being loaded. */
bool redis_config_obeys(void);

/* Returns how often the server has changed between primary and replica. A job that was started in one term
 * must not write in another. The server's lock must be held. */
uint64_t redis_config_term(void);

#endif

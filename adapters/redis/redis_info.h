/* redis_info.h - what INFO says of the module. */
#ifndef REDIS_INFO_H
#define REDIS_INFO_H

#include "redis_api.h"

bool redis_info_register(RedisModuleCtx *ctx);

#endif

/* redis_info.h - the module's section of INFO. */
#ifndef REDIS_INFO_H
#define REDIS_INFO_H

#include "redis_api.h"

bool redis_info_register(RedisModuleCtx *ctx);

#endif

/* redis_type.h - the server's data type, "bloomgate", whose values are objects (object.h). */
#ifndef REDIS_TYPE_H
#define REDIS_TYPE_H

#include "object.h"
#include "redis_api.h"

extern RedisModuleType *redis_type;

bool redis_type_register(RedisModuleCtx *ctx);

/* Filters in the server, with those that are being freed. */
uint64_t redis_type_count(void);

/* Told of an object that became a value, so that it is counted; `free` of the type tells the end. */
void redis_type_born(void);

#endif

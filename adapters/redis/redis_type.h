/* redis_type.h - the server's data type, "bloomgate", whose values are objects (object.h). */
#ifndef REDIS_TYPE_H
#define REDIS_TYPE_H

#include "object.h"
#include "redis_api.h"

extern RedisModuleType *redis_type;

bool redis_type_register(RedisModuleCtx *ctx);

/* Returns the number of filters in the server, including those being freed. */
uint64_t redis_type_count(void);

/* Increments the number of filters after an object has become a value. The type's `free` method
 * decrements the number. */
void redis_type_born(void);

#endif

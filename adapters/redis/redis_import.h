/*
 * redis_import.h - values that other modules have saved: RDB files, replication and RESTORE payloads of
 * RedisBloom and valkey-bloom are loaded by this module, when theirs is not there.
 *
 *     MBbloom--   RedisBloom's Bloom filters, versions 0 to 4
 *     bloomfltr   valkey-bloom's, version 1
 *     MBbloomCF   RedisBloom's cuckoo filters: refused, with what to do instead in the log
 *
 * What is loaded is an object as any other (object.h), with the bits and the hash of whoever made it,
 * and its key keeps its type: it is saved again as it was, so that the other module can load it. The
 * fields are those of import_value.h.
 */
#ifndef REDIS_IMPORT_H
#define REDIS_IMPORT_H

#include "object.h"
#include "redis_api.h"

/* Registers the types that nobody has registered; all but loading and saving is done as by `ours`.
 * False: the server refuses. */
bool redis_import_register(RedisModuleCtx *ctx, const struct redis_type_methods *ours);

/* Whether it is one of these types. */
bool redis_import_is(const RedisModuleType *type);

/* Whether an object can be a value of that type, of these types. */
bool redis_import_fits(const RedisModuleType *type, const struct object *object);

#endif

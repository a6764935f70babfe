/*
 * redis_import.h - values saved by other modules: this module loads RDB files, replication streams
 * and RESTORE payloads from RedisBloom and valkey-bloom, unless those modules are themselves
 * loaded.
 *
 *     MBbloom--   RedisBloom's Bloom filters, version 4
 *     bloomfltr   valkey-bloom's Bloom filters, version 1
 *     MBbloomCF   RedisBloom's cuckoo filters, version 4
 *
 * A loaded value is an object like any other (object.h), with the other module's bits and hash. Its
 * key keeps the other module's type, and the value is saved in the same format, so that the other
 * module can load it. import_value.h lists the fields.
 */
#ifndef REDIS_IMPORT_H
#define REDIS_IMPORT_H

#include "object.h"
#include "redis_api.h"

/* Registers the types that no other module has registered. All operations other than loading and
 * saving use the methods in `ours`. Returns false if the server rejects a type. */
bool redis_import_register(RedisModuleCtx *ctx, const struct redis_type_methods *ours);

/* Returns whether a type was registered by redis_import_register. */
bool redis_import_is(const RedisModuleType *type);

/* Returns whether an object can be stored as a value of this type. */
bool redis_import_fits(const RedisModuleType *type, const struct object *object);

#endif

/*
 * redis_api.h - declarations of the server API that the module uses.
 *
 * A server passes a module one pointer: the first word of the context that RedisModule_OnLoad
 * receives points to a function that looks up API functions by name. REDIS_API lists all functions
 * that the module uses. REQUIRED functions exist in Redis 7.0, Valkey 8.0 and all later versions.
 * OPTIONAL functions may be missing, so test them for NULL. Valkey provides every function under
 * its Redis name, so one binary works with both servers.
 *
 *     redis.ReplyWithLongLong(ctx, 1);
 *     if (redis.TryCalloc) { ... }
 *
 * Struct layouts and constants are part of the servers' binary interface. They never change, since
 * servers must be able to load modules that were built years ago.
 *
 * Thread safety: the table is filled once, when the module is loaded.
 */
#ifndef REDIS_API_H
#define REDIS_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleKey RedisModuleKey;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleIO RedisModuleIO;
typedef struct RedisModuleType RedisModuleType;
typedef struct RedisModuleDigest RedisModuleDigest;
typedef struct RedisModuleInfoCtx RedisModuleInfoCtx;
typedef struct RedisModuleCommand RedisModuleCommand;
typedef struct RedisModuleKeyOptCtx RedisModuleKeyOptCtx;
typedef struct RedisModuleBlockedClient RedisModuleBlockedClient;
typedef struct RedisModuleDefragCtx RedisModuleDefragCtx;
typedef struct RedisModuleServerInfoData RedisModuleServerInfoData;
typedef struct RedisModuleUser RedisModuleUser;

/* ---- Constants ------------------------------------------------------------------------------- */

enum { REDIS_OK = 0, REDIS_ERR = 1, REDIS_API_VERSION = 1 };

enum { /* OpenKey */
       REDIS_READ = 1 << 0,
       REDIS_WRITE = 1 << 1
};

enum { REDIS_KEY_EMPTY = 0 }; /* KeyType */

enum { /* GetContextFlags */
       REDIS_CTX_LUA = 1 << 0,
       REDIS_CTX_MULTI = 1 << 1,
       REDIS_CTX_REPLICA = 1 << 3,
       REDIS_CTX_CLUSTER = 1 << 5,
       REDIS_CTX_AOF = 1 << 6,
       REDIS_CTX_REPLICATED = 1 << 12,
       REDIS_CTX_LOADING = 1 << 13,
       REDIS_CTX_DENY_BLOCKING = 1 << 21,
       REDIS_CTX_RESP3 = 1 << 22
};

enum { /* NotifyKeyspaceEvent */
       REDIS_NOTIFY_GENERIC = 1 << 2,
       REDIS_NOTIFY_MODULE = 1 << 13
};

enum { /* SetModuleOptions */
       REDIS_OPTION_HANDLE_IO_ERRORS = 1 << 0,
       REDIS_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1,
       REDIS_OPTION_HANDLE_REPL_ASYNC_LOAD = 1 << 2
};

enum { /* Register...Config */
       REDIS_CONFIG_SENSITIVE = 1 << 1,
       REDIS_CONFIG_MEMORY = 1 << 7,
       REDIS_CONFIG_UNPREFIXED = 1 << 9 /* Redis 8 only; others reject or ignore it */
};

#define REDIS_NO_EXPIRE (-1) /* GetExpire */

/* ---- Data types ------------------------------------------------------------------------------ */

/* Version 4 of the type methods, which later servers also accept. */
struct redis_type_methods {
    uint64_t version;
    void *(*rdb_load)(RedisModuleIO *io, int version);
    void (*rdb_save)(RedisModuleIO *io, void *value);
    void (*aof_rewrite)(RedisModuleIO *io, RedisModuleString *key, void *value);
    size_t (*mem_usage)(const void *value);
    void (*digest)(RedisModuleDigest *digest, void *value);
    void (*free)(void *value);
    int (*aux_load)(RedisModuleIO *io, int version, int when);
    void (*aux_save)(RedisModuleIO *io, int when);
    int aux_save_triggers;
    size_t (*free_effort)(RedisModuleString *key, const void *value);
    void (*unlink)(RedisModuleString *key, const void *value);
    void *(*copy)(RedisModuleString *from, RedisModuleString *to, const void *value);
    int (*defrag)(RedisModuleDefragCtx *ctx, RedisModuleString *key, void **value);
    size_t (*mem_usage2)(RedisModuleKeyOptCtx *ctx, const void *value,
                         size_t sample_size);
    size_t (*free_effort2)(RedisModuleKeyOptCtx *ctx, const void *value);
    void (*unlink2)(RedisModuleKeyOptCtx *ctx, const void *value);
    void *(*copy2)(RedisModuleKeyOptCtx *ctx, const void *value);
};

/* ---- Command descriptions -------------------------------------------------------------------- */

enum { /* key flags */
       REDIS_KEY_RO = 1 << 0,
       REDIS_KEY_RW = 1 << 1,
       REDIS_KEY_RM = 1 << 3,
       REDIS_KEY_ACCESS = 1 << 4,
       REDIS_KEY_UPDATE = 1 << 5,
       REDIS_KEY_DELETE = 1 << 7
};

enum { /* how the server finds the first key and the remaining keys */
       REDIS_KEYS_BY_INDEX = 2,
       REDIS_KEYS_IN_RANGE = 2
};

enum redis_argument_type {
    REDIS_ARGUMENT_STRING,
    REDIS_ARGUMENT_INTEGER,
    REDIS_ARGUMENT_DOUBLE,
    REDIS_ARGUMENT_KEY,
    REDIS_ARGUMENT_PATTERN,
    REDIS_ARGUMENT_TIME,
    REDIS_ARGUMENT_TOKEN,
    REDIS_ARGUMENT_ONE_OF,
    REDIS_ARGUMENT_BLOCK
};

enum { /* argument flags */
       REDIS_ARGUMENT_OPTIONAL = 1 << 0,
       REDIS_ARGUMENT_MULTIPLE = 1 << 1
};

struct redis_command_argument {
    const char *name;
    enum redis_argument_type type;
    int key_spec_index; /* index of the key spec for a key argument; -1 for other arguments */
    const char *token;
    const char *summary;
    const char *since;
    int flags;
    const char *deprecated_since;
    struct redis_command_argument *subargs; /* the last entry's `name` is NULL */
    const char *display_text;
};

struct redis_command_history {
    const char *since;
    const char *changes;
};

struct redis_command_keys {
    const char *notes;
    uint64_t flags;
    int begin_search_type; /* an enum in the server; 0 marks the end of the list */
    union {
        struct {
            int pos;
        } index;
        struct {
            const char *keyword;
            int startfrom;
        } keyword;
    } bs;
    int find_keys_type;
    union {
        struct {
            int lastkey, keystep, limit;
        } range;
        struct {
            int keynumidx, firstkey, keystep;
        } keynum;
    } fk;
};

struct redis_command_version {
    int version;
    size_t sizeof_history, sizeof_keys, sizeof_argument;
};

struct redis_command_info {
    const struct redis_command_version *version;
    const char *summary;
    const char *complexity;
    const char *since;
    struct redis_command_history *history;
    const char *tips;
    int arity;
    struct redis_command_keys *key_specs;
    struct redis_command_argument *args;
};

/* ---- Clients --------------------------------------------------------------------------------- */

enum { REDIS_CLIENT_UNIX = 1 << 4 }; /* flag of a client that uses a Unix socket */

struct redis_client_info {
    uint64_t version; /* set to 1 before the call */
    uint64_t flags, id;
    char address[46];
    uint16_t port, db;
};

/* ---- Server events --------------------------------------------------------------------------- */

struct redis_event {
    uint64_t id, version;
};

enum { /* event IDs and subevents */
       REDIS_EVENT_ROLE = 0,
       REDIS_EVENT_LOADING = 3,
       REDIS_ROLE_NOW_REPLICA = 1,
       REDIS_LOADING_ENDED = 3,
       REDIS_LOADING_FAILED = 4
};

typedef void (*redis_event_function)(RedisModuleCtx *ctx, struct redis_event event,
                                     uint64_t what, void *data);

/* ---- Functions ------------------------------------------------------------------------------- */

typedef int (*redis_command_function)(RedisModuleCtx *ctx, RedisModuleString **argv,
                                      int argc);
typedef void (*redis_info_function)(RedisModuleInfoCtx *ctx, int for_crash_report);
typedef RedisModuleString *(*redis_get_string)(const char *name, void *context);
typedef int (*redis_set_string)(const char *name, RedisModuleString *value,
                                void *context, RedisModuleString **error);
typedef long long (*redis_get_number)(const char *name, void *context);
typedef int (*redis_set_number)(const char *name, long long value, void *context,
                                RedisModuleString **error);
typedef int (*redis_apply)(RedisModuleCtx *ctx, void *context,
                           RedisModuleString **error);
typedef void (*redis_free_private)(RedisModuleCtx *ctx, void *data);

#define REDIS_API(REQUIRED, OPTIONAL)                                                  \
    /* memory */                                                                       \
    REQUIRED(void *, TryAlloc, (size_t bytes))                                         \
    OPTIONAL(void *, TryCalloc, (size_t n, size_t bytes)) /* 7.4, Valkey 8.0 */        \
    REQUIRED(void, Free, (void *memory))                                               \
    REQUIRED(size_t, MallocSize, (void *memory))                                       \
    REQUIRED(void *, DefragAlloc, (RedisModuleDefragCtx *, void *memory))              \
    REQUIRED(int, DefragShouldStop, (RedisModuleDefragCtx *))                          \
    REQUIRED(int, DefragCursorSet, (RedisModuleDefragCtx *, unsigned long cursor))     \
    REQUIRED(int, DefragCursorGet, (RedisModuleDefragCtx *, unsigned long *cursor))    \
    /* the module */                                                                   \
    REQUIRED(void, SetModuleAttribs,                                                   \
             (RedisModuleCtx *, const char *name, int version, int api))               \
    REQUIRED(int, IsModuleNameBusy, (const char *name))                                \
    REQUIRED(void, SetModuleOptions, (RedisModuleCtx *, int options))                  \
    REQUIRED(void, Log,                                                                \
             (RedisModuleCtx *, const char *level, const char *format, ...))           \
    REQUIRED(int, GetContextFlags, (RedisModuleCtx *))                                 \
    REQUIRED(int, AvoidReplicaTraffic, (void))                                         \
    REQUIRED(RedisModuleServerInfoData *, GetServerInfo,                               \
             (RedisModuleCtx *, const char *section))                                  \
    REQUIRED(void, FreeServerInfo, (RedisModuleCtx *, RedisModuleServerInfoData *))    \
    REQUIRED(unsigned long long, ServerInfoGetFieldUnsigned,                           \
             (RedisModuleServerInfoData *, const char *field, int *unknown))           \
    REQUIRED(const char *, ServerInfoGetFieldC,                                        \
             (RedisModuleServerInfoData *, const char *field))                         \
    REQUIRED(float, GetUsedMemoryRatio, (void)) /* used / maxmemory; 0 if unlimited */ \
    REQUIRED(int, RedactClientCommandArgument, (RedisModuleCtx *, int position))       \
    REQUIRED(unsigned long long, GetClientId, (RedisModuleCtx *))                      \
    REQUIRED(RedisModuleString *, GetClientUserNameById,                               \
             (RedisModuleCtx *, uint64_t id))                                          \
    REQUIRED(int, GetClientInfoById, (void *info, uint64_t id))                        \
    REQUIRED(RedisModuleUser *, GetModuleUserFromUserName, (RedisModuleString *))      \
    REQUIRED(void, FreeModuleUser, (RedisModuleUser *))                                \
    REQUIRED(int, ACLCheckCommandPermissions,                                          \
             (RedisModuleUser *, RedisModuleString * *argv, int argc))                 \
    REQUIRED(long long, Milliseconds, (void))                                          \
    REQUIRED(int, GetServerVersion, (void)) /* 0x00MMmmpp */                           \
    REQUIRED(int, SubscribeToServerEvent,                                              \
             (RedisModuleCtx *, struct redis_event, redis_event_function))             \
    /* commands */                                                                     \
    REQUIRED(int, CreateCommand,                                                       \
             (RedisModuleCtx *, const char *name, redis_command_function,              \
              const char *flags, int first_key, int last_key, int key_step))           \
    REQUIRED(RedisModuleCommand *, GetCommand, (RedisModuleCtx *, const char *name))   \
    REQUIRED(int, SetCommandInfo,                                                      \
             (RedisModuleCommand *, const struct redis_command_info *))                \
    OPTIONAL(int, SetCommandACLCategories, /* 7.2 */                                   \
             (RedisModuleCommand *, const char *categories))                           \
    OPTIONAL(int, AddACLCategory, /* 7.4, Valkey 8.0 */                                \
             (RedisModuleCtx *, const char *name))                                     \
    REQUIRED(int, WrongArity, (RedisModuleCtx *))                                      \
    REQUIRED(int, GetSelectedDb, (RedisModuleCtx *))                                   \
    /* strings */                                                                      \
    REQUIRED(const char *, StringPtrLen, (const RedisModuleString *, size_t *n))       \
    REQUIRED(RedisModuleString *, CreateString,                                        \
             (RedisModuleCtx *, const char *bytes, size_t n))                          \
    REQUIRED(void, FreeString, (RedisModuleCtx *, RedisModuleString *))                \
    REQUIRED(void, RetainString, (RedisModuleCtx *, RedisModuleString *))              \
    /* keys */                                                                         \
    REQUIRED(RedisModuleKey *, OpenKey,                                                \
             (RedisModuleCtx *, RedisModuleString * name, int mode))                   \
    REQUIRED(void, CloseKey, (RedisModuleKey *))                                       \
    REQUIRED(int, KeyType, (RedisModuleKey *))                                         \
    REQUIRED(int, DeleteKey, (RedisModuleKey *))                                       \
    REQUIRED(long long, GetAbsExpire, (RedisModuleKey *))                              \
    REQUIRED(int, SetAbsExpire, (RedisModuleKey *, long long milliseconds))            \
    REQUIRED(int, SignalModifiedKey, (RedisModuleCtx *, RedisModuleString * name))     \
    REQUIRED(int, NotifyKeyspaceEvent,                                                 \
             (RedisModuleCtx *, int type, const char *event, RedisModuleString *name)) \
    /* values */                                                                       \
    REQUIRED(RedisModuleType *, CreateDataType,                                        \
             (RedisModuleCtx *, const char *name, int version,                         \
              struct redis_type_methods *))                                            \
    REQUIRED(RedisModuleType *, ModuleTypeGetType, (RedisModuleKey *))                 \
    REQUIRED(void *, ModuleTypeGetValue, (RedisModuleKey *))                           \
    REQUIRED(int, ModuleTypeSetValue,                                                  \
             (RedisModuleKey *, RedisModuleType *, void *value))                       \
    REQUIRED(int, ModuleTypeReplaceValue,                                              \
             (RedisModuleKey *, RedisModuleType *, void *value, void **old))           \
    /* RDB and AOF serialization */                                                    \
    REQUIRED(void, SaveUnsigned, (RedisModuleIO *, uint64_t value))                    \
    REQUIRED(void, SaveDouble, (RedisModuleIO *, double value))                        \
    REQUIRED(uint64_t, LoadUnsigned, (RedisModuleIO *))                                \
    REQUIRED(double, LoadDouble, (RedisModuleIO *))                                    \
    REQUIRED(void, SaveStringBuffer, (RedisModuleIO *, const char *bytes, size_t n))   \
    REQUIRED(char *, LoadStringBuffer, (RedisModuleIO *, size_t * n))                  \
    REQUIRED(int, IsIOError, (RedisModuleIO *))                                        \
    REQUIRED(void, LogIOError,                                                         \
             (RedisModuleIO *, const char *level, const char *format, ...))            \
    REQUIRED(void, EmitAOF,                                                            \
             (RedisModuleIO *, const char *command, const char *format, ...))          \
    REQUIRED(void, DigestAddStringBuffer,                                              \
             (RedisModuleDigest *, const char *bytes, size_t n))                       \
    REQUIRED(void, DigestEndSequence, (RedisModuleDigest *))                           \
    /* replication */                                                                  \
    REQUIRED(int, Replicate,                                                           \
             (RedisModuleCtx *, const char *command, const char *format, ...))         \
    REQUIRED(int, ReplicateVerbatim, (RedisModuleCtx *))                               \
    /* replies */                                                                      \
    REQUIRED(int, ReplyWithSimpleString, (RedisModuleCtx *, const char *text))         \
    REQUIRED(int, ReplyWithError, (RedisModuleCtx *, const char *text))                \
    REQUIRED(int, ReplyWithLongLong, (RedisModuleCtx *, long long value))              \
    REQUIRED(int, ReplyWithBool, (RedisModuleCtx *, int value))                        \
    REQUIRED(int, ReplyWithDouble, (RedisModuleCtx *, double value))                   \
    REQUIRED(int, ReplyWithStringBuffer,                                               \
             (RedisModuleCtx *, const char *bytes, size_t n))                          \
    REQUIRED(int, ReplyWithNull, (RedisModuleCtx *))                                   \
    REQUIRED(int, ReplyWithArray, (RedisModuleCtx *, long n))                          \
    REQUIRED(int, ReplyWithMap, (RedisModuleCtx *, long n))                            \
    REQUIRED(int, ReplyWithSet, (RedisModuleCtx *, long n))                            \
    /* configuration */                                                                \
    REQUIRED(int, RegisterStringConfig,                                                \
             (RedisModuleCtx *, const char *name, const char *usual, unsigned flags,   \
              redis_get_string, redis_set_string, redis_apply, void *context))         \
    REQUIRED(int, RegisterNumericConfig,                                               \
             (RedisModuleCtx *, const char *name, long long usual, unsigned flags,     \
              long long least, long long most, redis_get_number, redis_set_number,     \
              redis_apply, void *context))                                             \
    REQUIRED(int, LoadConfigs, (RedisModuleCtx *))                                     \
    /* INFO */                                                                         \
    REQUIRED(int, RegisterInfoFunc, (RedisModuleCtx *, redis_info_function))           \
    REQUIRED(int, InfoAddSection, (RedisModuleInfoCtx *, const char *name))            \
    REQUIRED(int, InfoAddFieldCString,                                                 \
             (RedisModuleInfoCtx *, const char *field, const char *value))             \
    REQUIRED(int, InfoAddFieldULongLong,                                               \
             (RedisModuleInfoCtx *, const char *field, unsigned long long value))      \
    /* threads */                                                                      \
    REQUIRED(RedisModuleBlockedClient *, BlockClient,                                  \
             (RedisModuleCtx *, redis_command_function reply,                          \
              redis_command_function timeout, redis_free_private,                      \
              long long timeout_ms))                                                   \
    REQUIRED(int, UnblockClient, (RedisModuleBlockedClient *, void *data))             \
    REQUIRED(RedisModuleCtx *, GetThreadSafeContext, (RedisModuleBlockedClient *))     \
    REQUIRED(void, FreeThreadSafeContext, (RedisModuleCtx *))                          \
    REQUIRED(void, ThreadSafeContextLock, (RedisModuleCtx *))                          \
    REQUIRED(void, ThreadSafeContextUnlock, (RedisModuleCtx *))

struct redis_api {
#define REDIS_MEMBER(type, name, parameters) type(*name) parameters;
    REDIS_API(REDIS_MEMBER, REDIS_MEMBER)
#undef REDIS_MEMBER
};

extern struct redis_api redis;

/* Fills in the table. Returns NULL, or the name of the first required function that is missing from
 * the server. */
const char *redis_api_load(RedisModuleCtx *ctx);

/* Returns whether this is Redis 8 or later. Valkey has its own version numbers and is recognized
 * by its function names. */
bool redis_api_is_redis8(RedisModuleCtx *ctx);

#endif

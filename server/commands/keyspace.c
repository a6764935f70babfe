/*
 * commands/keyspace.c - commands for names, whatever the type of the filter: EXISTS, DEL, TYPE, RENAME,
 * EXPIRE, TTL, COPY and others. Commands that list names are in commands/scan.c.
 *
 * Dropping a name does not wait until its memory has been freed (catalog.h), so DEL is as fast as
 * UNLINK.
 */
#include "config/users.h"
#include "core/server.h"
#include "persist/persist.h"
#include "request/cmd.h"
#include "request/quota.h"

static const char keyspace_missing[] = "ERR no such key";

static struct entry *keyspace_find(struct request *request, size_t i)
{
    return session_find(session_of(request), request->argv[i]);
}

const char *cmd_type_name(const struct object *object)
{
    switch ((enum object_family)object->shape.family) {
    case OBJECT_BF: return "MBbloom--";
    case OBJECT_CF: return "MBbloomCF";
    case OBJECT_BG: break;
    }
    return "bloomgate";
}

/* ---- Existence, type, size --------------------------------------------------------------- */

static void keyspace_exists(struct request *request)
{
    int64_t n = 0;
    for (size_t i = 1; i < request->argc; i++) {
        n += keyspace_find(request, i) != NULL;
    }
    reply_integer(&request->reply, n);
}

static void keyspace_type(struct request *request)
{
    const struct entry *entry = keyspace_find(request, 1);
    reply_status(&request->reply, entry ? cmd_type_name(entry->object) : "none");
}

static void keyspace_memory_usage(struct request *request)
{
    int64_t samples = 0;
    if (request->argc > 3
        && (request->argc != 5 || !args_is(request->argv[3], "SAMPLES"))) {
        cmd_syntax(request);
        return;
    }
    if (request->argc == 5 && !cmd_integer(request->argv[4], &samples)) {
        cmd_not_integer(request);
        return;
    }
    if (samples < 0) {
        cmd_syntax(request);
        return;
    }
    const struct entry *entry = keyspace_find(request, 2);
    if (entry) {
        reply_integer(&request->reply,
                      (int64_t)catalog_usage(entry->object, request->argv[2]));
    } else {
        reply_null(&request->reply);
    }
}

static void keyspace_encoding(struct request *request)
{
    const struct entry *entry = keyspace_find(request, 2);
    if (!entry) {
        reply_null(&request->reply);
    } else if (entry->object->foreign) {
        reply_text(&request->reply,
                   bg_foreign_name((bg_foreign_format)entry->object->shape.foreign));
    } else {
        reply_text(&request->reply, bg_kind_name((bg_kind)entry->object->shape.kind));
    }
}

static void keyspace_refcount(struct request *request)
{
    if (keyspace_find(request, 2)) {
        reply_integer(&request->reply, 1);
    } else {
        reply_null(&request->reply);
    }
}

static void keyspace_idletime(struct request *request)
{
    if (keyspace_find(request, 2)) {
        reply_integer(&request->reply, 0); /* accesses are not recorded */
    } else {
        reply_null(&request->reply);
    }
}

static void keyspace_freq(struct request *request)
{
    if (keyspace_find(request, 2)) {
        reply_error(
            &request->reply,
            "ERR An LFU maxmemory policy is not selected, access frequency not "
            "tracked. Please note that when switching between policies at runtime "
            "LRU and LFU data will take some time to adjust.");
    } else {
        reply_null(&request->reply);
    }
}

/* ---- Dropping ------------------------------------------------------------------------------ */

static void keyspace_drop(struct request *request)
{
    struct session *session = session_of(request);
    const struct catalog_terms terms = { .flags = 0 };
    bg_errinfo info = { 0 };
    int64_t n = 0;
    for (size_t i = 1; i < request->argc; i++) {
        const bg_err err = session_drop(session, request->argv[i], &terms, &info);
        if (err && err != BG_ENOTFOUND) {
            args_failed(request, err, &info, "");
            return;
        }
        n += !err;
    }
    reply_integer(&request->reply, n);
}

/* Drops an entry if the user may write to it, even if another client is renaming it. */
static bg_err flush_one(struct session *session, struct entry *entry, bg_errinfo *info)
{
    const struct catalog_terms terms = { .flags = CATALOG_INSTEAD_OF,
                                         .instead_of = entry };
    bg_err err = BG_OK;
    do { /* retry if the entry has been renamed */
        const bg_bytes name = catalog_name(entry);
        if (atomic_load(&entry->gone)
            || !user_may_touch(session->client->user, name, USER_WRITE)) {
            return BG_OK;
        }
        err = catalog_drop_on(session->server->catalog, name, &terms, 0, info);
        if (!err) {
            persist_name_is_free(session->server->persist, name);
        }
    } while (err == BG_ECANCELED);
    return err;
}

static bg_err flush_some(struct session *session, struct entry *const *entries,
                         size_t n, bg_errinfo *info)
{
    bg_err err = BG_OK;
    session_enter(session); /* names are valid only during a batch */
    for (size_t i = 0; i < n && !err; i++) {
        err = flush_one(session, entries[i], info);
    }
    session_let_go(session);
    return err;
}

static void keyspace_flush(struct request *request)
{
    struct session *session = session_of(request);
    struct entry *entries[64];
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    uint64_t after = 0;
    size_t n = 0;
    if (request->argc > 2
        || (request->argc == 2 && !args_is(request->argv[1], "ASYNC")
            && !args_is(request->argv[1], "SYNC"))) {
        cmd_syntax(request);
        return;
    }
    session->wrote = true;
    while (!err
           && (n = catalog_scan(session->server->catalog, after, entries, 64)) > 0) {
        after = entries[n - 1]->number;
        err = flush_some(session, entries, n, &info);
        for (size_t i = 0; i < n; i++) {
            catalog_release(entries[i]);
        }
    }
    if (err) {
        args_failed(request, err, &info, "");
    } else {
        reply_ok(&request->reply);
    }
}

/* ---- Renaming and copying ---------------------------------------------------------------- */

/* Returns 1 on success, 0 if the new name is taken, or -1 after sending an error. */
static int keyspace_move(struct request *request, bool only_new)
{
    struct session *session = session_of(request);
    bg_errinfo info = { 0 };
    session->wrote = true;
    bg_err err = session_refuse_gate(session, request->argv[2], &info);
    err = err || !only_new ? err : session_is_free(session, request->argv[2], &info);
    err = err ? err : quota_rename(session, request->argv[1], request->argv[2], &info);
    err = err ? err
              : catalog_rename(session->server->catalog, request->argv[1],
                               request->argv[2], only_new, session->now, &info);
    if (err == BG_ENOTFOUND) {
        reply_error(&request->reply, keyspace_missing);
        return -1;
    }
    if (!err) {
        persist_name_is_free(session->server->persist, request->argv[1]);
    }
    if (err && err != BG_EBUSY) {
        args_failed(request, err, &info, "");
        return -1;
    }
    return !err;
}

static void keyspace_rename(struct request *request)
{
    if (keyspace_move(request, false) >= 0) {
        reply_ok(&request->reply);
    }
}

static void keyspace_renamenx(struct request *request)
{
    const int moved = keyspace_move(request, true);
    if (moved >= 0) {
        reply_integer(&request->reply, moved);
    }
}

/* COPY source destination [DB index] [REPLACE] */
static bool copy_read(struct request *request, bool *replace)
{
    for (size_t i = 3; i < request->argc; i++) {
        int64_t db = 0;
        if (args_is(request->argv[i], "REPLACE")) {
            *replace = true;
        } else if (args_is(request->argv[i], "DB") && i + 1 < request->argc) {
            if (!cmd_integer(request->argv[++i], &db)) {
                return cmd_not_integer(request);
            }
            if (db != 0) {
                return reply_error(&request->reply, "ERR DB index is out of range");
            }
        } else {
            return cmd_syntax(request);
        }
    }
    return true;
}

static bool copy_is_same(bg_bytes a, bg_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static void keyspace_copy(struct request *request)
{
    struct session *session = session_of(request);
    const bg_bytes from = request->argv[1], to = request->argv[2];
    struct object *copy = NULL;
    bg_errinfo info = { 0 };
    bool replace = false;
    if (!copy_read(request, &replace)) {
        return;
    }
    if (copy_is_same(from, to)) {
        reply_error(&request->reply, "ERR source and destination objects are the same");
        return;
    }
    const struct entry *entry = session_find(session, from);
    if (!entry || (!replace && session_find(session, to))) {
        reply_integer(&request->reply, 0);
        return;
    }
    /* The expiry is copied as well, as in Redis. */
    const struct catalog_terms terms = { .flags = replace ? CATALOG_REPLACE : 0,
                                         .expires = atomic_load(&entry->expires) };
    bg_err err = object_copy(entry->object, &copy, &info);
    if (err) {
        args_failed(request, err, &info, "");
        return;
    }
    err = session_put(session, to, copy, &terms, &info);
    if (err) {
        object_free(copy);
    }
    if (err && err != BG_EBUSY) {
        args_failed(request, err, &info, "");
    } else {
        reply_integer(&request->reply, !err);
    }
}

/* ---- Expiry ------------------------------------------------------------------------------ */

static bool expire_read_options(struct request *request, unsigned *options)
{
    static const struct {
        const char *word;
        unsigned option;
    } words[] = { { "NX", CATALOG_EXPIRE_NX },
                  { "XX", CATALOG_EXPIRE_XX },
                  { "GT", CATALOG_EXPIRE_GT },
                  { "LT", CATALOG_EXPIRE_LT } };
    for (size_t i = 3; i < request->argc; i++) {
        unsigned found = 0;
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            found |= args_is(request->argv[i], words[w].word) ? words[w].option : 0;
        }
        if (!found) {
            char text[64];
            return reply_errorf(&request->reply, "ERR Unsupported option %s",
                                args_show(request->argv[i], text));
        }
        *options |= found;
    }
    if (*options & CATALOG_EXPIRE_NX && *options & ~(unsigned)CATALOG_EXPIRE_NX) {
        return reply_error(
            &request->reply,
            "ERR NX and XX, GT or LT options at the same time are not compatible");
    }
    if (*options & CATALOG_EXPIRE_GT && *options & CATALOG_EXPIRE_LT) {
        return reply_error(&request->reply,
                           "ERR GT and LT options at the same time are not compatible");
    }
    return true;
}

static void expire_run_if(struct request *request, uint64_t when, unsigned conditions)
{
    struct session *session = session_of(request);
    bg_errinfo info = { 0 };
    session->wrote = true;
    const bg_err err = catalog_expire_if(session->server->catalog, request->argv[1],
                                         when, conditions, session->now, &info);
    if (!err && conditions & CATALOG_EXPIRE_DROPS && when <= session->now) {
        persist_name_is_free(session->server->persist, request->argv[1]);
    }
    if (err && err != BG_ENOTFOUND && err != BG_ECANCELED) {
        args_failed(request, err, &info, "");
    } else {
        reply_integer(&request->reply, !err);
    }
}

/* Runs EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT. The time is in units of `unit` milliseconds,
 * relative to now, or to 1970 if `absolute` is set. */
static void expire_run(struct request *request, int64_t unit, bool absolute)
{
    const int64_t now = (int64_t)session_of(request)->now;
    int64_t number = 0;
    unsigned options = 0;
    char name[CMD_NAME];
    if (!expire_read_options(request, &options)) {
        return;
    }
    if (!cmd_integer(request->argv[2], &number)) {
        cmd_not_integer(request);
        return;
    }
    if (number > INT64_MAX / unit || number < INT64_MIN / unit
        || (!absolute && number * unit > INT64_MAX - now)) {
        reply_errorf(&request->reply, "ERR invalid expire time in '%s' command",
                     cmd_lower(request->command->name, name));
        return;
    }
    const int64_t then = number * unit + (absolute ? 0 : now);
    expire_run_if(request, then > 0 ? (uint64_t)then : 0,
                  options | CATALOG_EXPIRE_DROPS);
}

/* Defines the handler of a command that runs a function shared by several commands. */
#define KEYSPACE_HANDLER(name, run)                                                    \
    static void keyspace_##name(struct request *request)                               \
    {                                                                                  \
        run;                                                                           \
    }

KEYSPACE_HANDLER(expire, expire_run(request, 1000, false))
KEYSPACE_HANDLER(pexpire, expire_run(request, 1, false))
KEYSPACE_HANDLER(expireat, expire_run(request, 1000, true))
KEYSPACE_HANDLER(pexpireat, expire_run(request, 1, true))
KEYSPACE_HANDLER(persist, expire_run_if(request, 0, CATALOG_EXPIRE_XX))

/* Replies with -2 if the name does not exist, -1 if it never expires, and otherwise with its expiry
 * time or the remaining time. */
static void ttl_run(struct request *request, bool seconds, bool absolute)
{
    const struct entry *entry = keyspace_find(request, 1);
    const uint64_t expires = entry ? atomic_load(&entry->expires) : 0;
    const uint64_t now = session_of(request)->now;
    if (!entry || !expires) {
        reply_integer(&request->reply, entry ? -1 : -2);
        return;
    }
    uint64_t value = absolute ? expires : expires > now ? expires - now : 0;
    if (seconds) {
        value = (value + 500) / 1000;
    }
    reply_integer(&request->reply, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

KEYSPACE_HANDLER(ttl, ttl_run(request, true, false))
KEYSPACE_HANDLER(pttl, ttl_run(request, false, false))
KEYSPACE_HANDLER(expiretime, ttl_run(request, true, true))
KEYSPACE_HANDLER(pexpiretime, ttl_run(request, false, true))

/* ---- The table ----------------------------------------------------------------------------- */

#define KEYSPACE_READ  (COMMAND_READONLY | COMMAND_FAST)
#define KEYSPACE_WRITE (COMMAND_WRITE | COMMAND_FAST)
#define KEYSPACE_SUB   (COMMAND_READONLY | COMMAND_SUB)

const struct command keyspace_commands[] = {
    { "EXISTS", -2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, -1, 1, keyspace_exists, NULL,
      "key [key ...]", "Returns how many of the names exist",
      "O(N) where N is the number of names", "0.1.0", BEHAVIOR_SERVICE },
    { "TOUCH", -2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, -1, 1, keyspace_exists, NULL,
      "key [key ...]", "Returns how many of the names exist; accesses are not recorded",
      "O(N) where N is the number of names", "0.1.0", BEHAVIOR_SERVICE },
    { "TYPE", 2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_type, NULL, "key",
      "Returns the type of a filter", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "DEL", -2, COMMAND_WRITE, CATEGORY_KEYSPACE, 1, -1, 1, keyspace_drop, NULL,
      "key [key ...]", "Drops filters",
      "O(N) where N is the number of names; memory is freed in the background", "0.1.0",
      BEHAVIOR_SERVICE },
    { "UNLINK", -2, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, -1, 1, keyspace_drop, NULL,
      "key [key ...]", "Drops filters",
      "O(N) where N is the number of names; memory is freed in the background", "0.1.0",
      BEHAVIOR_SERVICE },
    { "RENAME", 3, COMMAND_WRITE, CATEGORY_KEYSPACE, 1, 2, 1, keyspace_rename, NULL,
      "key newkey", "Renames a filter, replacing any filter that has the new name",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "RENAMENX", 3, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 2, 1, keyspace_renamenx,
      NULL, "key newkey", "Renames a filter, unless the new name is in use", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "COPY", -3, COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW, CATEGORY_KEYSPACE, 1,
      2, 1, keyspace_copy, NULL, "source destination [DB destination-db] [REPLACE]",
      "Copies a filter", "O(N) where N is the size in bytes", "0.1.0",
      BEHAVIOR_SERVICE },
    { "EXPIRE", -3, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_expire, NULL,
      "key seconds [NX | XX | GT | LT]",
      "Sets the expiry of a filter in seconds from now", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "PEXPIRE", -3, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_pexpire, NULL,
      "key milliseconds [NX | XX | GT | LT]",
      "Sets the expiry of a filter in milliseconds from now", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "EXPIREAT", -3, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_expireat,
      NULL, "key unix-time-seconds [NX | XX | GT | LT]",
      "Sets the expiry of a filter to a Unix time in seconds", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "PEXPIREAT", -3, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_pexpireat,
      NULL, "key unix-time-milliseconds [NX | XX | GT | LT]",
      "Sets the expiry of a filter to a Unix time in milliseconds", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "PERSIST", 2, KEYSPACE_WRITE, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_persist, NULL,
      "key", "Removes the expiry of a filter", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "TTL", 2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_ttl, NULL, "key",
      "Returns the seconds until a filter expires", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "PTTL", 2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_pttl, NULL, "key",
      "Returns the milliseconds until a filter expires", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "EXPIRETIME", 2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_expiretime,
      NULL, "key", "Returns when a filter expires, in seconds since 1970", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "PEXPIRETIME", 2, KEYSPACE_READ, CATEGORY_KEYSPACE, 1, 1, 1, keyspace_pexpiretime,
      NULL, "key", "Returns when a filter expires, in milliseconds since 1970", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "FLUSHALL", -1, COMMAND_WRITE | COMMAND_SLOW,
      CATEGORY_KEYSPACE | CATEGORY_DANGEROUS, 0, 0, 0, keyspace_flush, NULL,
      "[ASYNC | SYNC]", "Drops all filters that the user may write to",
      "O(N) where N is the number of filters", "0.1.0", BEHAVIOR_SERVICE },
    { "FLUSHDB", -1, COMMAND_WRITE | COMMAND_SLOW,
      CATEGORY_KEYSPACE | CATEGORY_DANGEROUS, 0, 0, 0, keyspace_flush, NULL,
      "[ASYNC | SYNC]", "Drops all filters that the user may write to",
      "O(N) where N is the number of filters", "0.1.0", BEHAVIOR_SERVICE },
    { "OBJECT", -2, COMMAND_CONTAINER, CATEGORY_KEYSPACE, 0, 0, 0, cmd_container, NULL,
      "", "Container for object commands", "Depends on subcommand", "0.1.0",
      BEHAVIOR_SERVICE },
    { "OBJECT|ENCODING", 3, KEYSPACE_SUB, CATEGORY_KEYSPACE, 2, 2, 1, keyspace_encoding,
      NULL, "key", "Returns the kind of a filter", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "OBJECT|FREQ", 3, KEYSPACE_SUB, CATEGORY_KEYSPACE, 2, 2, 1, keyspace_freq, NULL,
      "key", "Returns an error: access frequency is not tracked", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "OBJECT|IDLETIME", 3, KEYSPACE_SUB, CATEGORY_KEYSPACE, 2, 2, 1, keyspace_idletime,
      NULL, "key", "Returns the seconds since a filter was last used: always 0", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "OBJECT|REFCOUNT", 3, KEYSPACE_SUB, CATEGORY_KEYSPACE, 2, 2, 1, keyspace_refcount,
      NULL, "key", "Returns the reference count of a filter: always 1", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    CMD_HELP("OBJECT"),
    { "MEMORY", -2, COMMAND_CONTAINER, CATEGORY_KEYSPACE, 0, 0, 0, cmd_container, NULL,
      "", "Container for memory commands", "Depends on subcommand", "0.1.0",
      BEHAVIOR_SERVICE },
    { "MEMORY|USAGE", -3, KEYSPACE_SUB, CATEGORY_KEYSPACE, 2, 2, 1,
      keyspace_memory_usage, NULL, "key [SAMPLES count]",
      "Returns the memory usage of a filter in bytes", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    CMD_HELP("MEMORY"),
    CMD_END,
};

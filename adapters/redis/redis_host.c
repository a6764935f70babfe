/*
 * redis_host.c - see redis_host.h.
 *
 * The replicated commands determine the result, regardless of the replica's configuration:
 *
 *     one item added or removed             the command itself: the replica's filter has the same
 *                                           hash and content, so the result is the same
 *     several items                         the hashes of the changed items (redis_replay.h)
 *     a new filter                          its shape and its secret; its content, if it has a
 *                                           valkey-bloom seed
 *     MERGE, FOLD, COMPACT, CLEAR, DROP     the command itself; the content, if it failed halfway
 *     REBUILD, LOAD, LOADCHUNK              the content, when it changes
 *     windows                               the time to which they were moved
 *
 * Nothing is replicated if nothing has changed. A primary advances a window to the current time
 * when the window is queried or added to; replicas never advance windows on their own.
 *
 * The key of a command, argv[1], is looked up once, before its handler runs. Other keys (BG.MERGE)
 * are looked up when they are needed. Keyspace notifications are sent after the handler has
 * returned and all changes are complete.
 */
#include "redis_host.h"

#include "args.h"
#include "clock.h"
#include "dump.h"
#include "letters.h"
#include "redis_client.h"
#include "redis_config.h"
#include "redis_import.h"
#include "redis_memory.h"
#include "redis_replay.h"
#include "redis_reply.h"
#include "redis_state.h"
#include "redis_type.h"
#include "redis_worker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

bool redis_argv_take(struct redis_argv *argv, RedisModuleString **of, size_t n)
{
    argv->of = n <= REDIS_ARGV_FEW ? argv->few : malloc(n * sizeof *argv->of);
    for (size_t i = 0; argv->of && i < n; i++) {
        argv->of[i].data = redis.StringPtrLen(of[i], &argv->of[i].len);
    }
    return argv->of != NULL;
}

void redis_argv_give(struct redis_argv *argv)
{
    if (argv->of != argv->few) {
        free(argv->of);
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

bool redis_host_find(RedisModuleCtx *ctx, RedisModuleString *name, int mode,
                     struct object **object)
{
    RedisModuleKey *key = redis.OpenKey(ctx, name, mode);
    bool fits = true;
    *object = NULL;
    if (!key) {
        return true;
    }
    const RedisModuleType *type = redis.ModuleTypeGetType(key);
    if (type && (type == redis_type || redis_import_is(type))) {
        *object = redis.ModuleTypeGetValue(key);
    } else {
        fits = redis.KeyType(key) == REDIS_KEY_EMPTY;
    }
    redis.CloseKey(key);
    return fits;
}

/* Replaces a value of another module's type (redis_import.h) with a value of this module's own
 * type. The key keeps its expiry. */
static void *host_place_over(RedisModuleKey *key, RedisModuleType *type,
                             struct object *object)
{
    const long long expires = redis.GetAbsExpire(key);
    void *old = NULL;
    (void)redis.ModuleTypeReplaceValue(key, type, NULL, &old);
    /* ModuleTypeSetValue also calls the old type's free method with NULL, which decrements the
     * number of filters; redis_type_born increments it again. */
    (void)redis.ModuleTypeSetValue(key, redis_type, object);
    if (expires != REDIS_NO_EXPIRE) {
        (void)redis.SetAbsExpire(key, expires);
    }
    redis_type_born();
    return old;
}

struct object *redis_host_place(RedisModuleCtx *ctx, RedisModuleString *name,
                                struct object *object)
{
    RedisModuleKey *key = redis.OpenKey(ctx, name, REDIS_WRITE);
    RedisModuleType *type = redis.ModuleTypeGetType(key);
    void *old = NULL;
    if (type && (type == redis_type || redis_import_fits(type, object))) {
        (void)redis.ModuleTypeReplaceValue(key, type, object, &old);
    } else if (redis_import_is(type)) {
        old = host_place_over(key, type, object);
    } else {
        (void)redis.ModuleTypeSetValue(key, redis_type, object);
        redis_type_born();
    }
    redis.CloseKey(key);
    return old;
}

void redis_host_tell(RedisModuleCtx *ctx, RedisModuleString *key,
                     const struct object *object, const char *verb)
{
    static const char *const families[] = { "bloom.", "bloom.", "cuckoo.", "gate." };
    const char *family = families[object ? object->shape.family & 3 : 0];
    const size_t before = strlen(family), n = strlen(verb);
    char event[64];
    (void)redis.SignalModifiedKey(ctx, key);
    if (before + n < sizeof event) {
        memcpy(event, family, before);
        memcpy(event + before, verb, n);
        event[before + n] = 0;
        (void)redis.NotifyKeyspaceEvent(ctx, REDIS_NOTIFY_MODULE, event, key);
    }
}

/* ---- The host -------------------------------------------------------------------------------- */

/* Events of argv[1]. */
enum {
    HAPPENED_CREATE = 1 << 0,
    HAPPENED_ADD = 1 << 1,
    HAPPENED_REMOVE = 1 << 2,
    HAPPENED_ROTATE = 1 << 3,
    HAPPENED_WHOLE = 1 << 4, /* the keyspace event is named after the command */
    HAPPENED_DROP = 1 << 5
};

struct redis_host {
    struct host host;
    struct redis_client client;
    RedisModuleString **names;
    const bg_bytes *argv;
    size_t argc;
    const struct command *command;
    int mode;
    struct object *first; /* the object named by argv[1] */
    struct object *old;   /* the replaced object; freed after the handler returns */
    uint32_t happened;
    int protocol;  /* the client's protocol, 2 or 3 */
    bool verbatim; /* the command itself was replicated */
    bool still; /* changes come from a primary or a file, so do not advance windows */
};

static struct redis_host *host_of(struct host *host)
{
    return (struct redis_host *)host;
}

static void host_send_verbatim(struct redis_host *h)
{
    if (!h->verbatim) {
        (void)redis.ReplicateVerbatim(h->client.ctx);
        h->verbatim = true;
    }
}

/* Returns the argument index of a name. Every name points into argv, so comparing pointers is
 * enough to find the index. */
static size_t host_index(const struct redis_host *h, bg_bytes name)
{
    size_t i = 1;
    while (i + 1 < h->argc && h->argv[i].data != name.data) {
        i++;
    }
    return i;
}

static struct object *host_find(struct host *host, bg_bytes name)
{
    struct redis_host *h = host_of(host);
    struct object *object = NULL;
    const size_t i = host_index(h, name);
    if (i == 1) {
        return h->first;
    }
    (void)redis_host_find(h->client.ctx, h->names[i], h->mode, &object);
    return object;
}

static bool host_loads(const struct redis_host *h)
{
    return h->command->behavior.effect == EFFECT_LOADS;
}

/* Returns whether the command creates filters for new items. Such a filter counts as new even if
 * `born_full` is set (BF.INSERT with a valkey-bloom seed sets it). */
static bool host_adds(const struct redis_host *h)
{
    return h->command->behavior.effect == EFFECT_ADDS;
}

/* Returns whether the command has the same result on every server. */
static bool host_repeats(const struct redis_host *h)
{
    return h->command->behavior.replication == REPLICATES_COMMAND;
}

/* Sets an object's secret and its filter's growth limit, before the object is stored under its
 * name. Objects created with content (`born_full`) keep their own limit, except when the command
 * loads or adds. */
static bg_err host_adopt(struct redis_host *h, struct object *object, bg_errinfo *info)
{
    if (!object->born_full || host_loads(h) || host_adds(h)) {
        const uint64_t most = h->host.settings->max_filter_bytes;
        const bool said = !object->born_full && object->shape.limit;
        object->shape.limit = said ? object->shape.limit : most;
    }
    return redis_state_attach(object, info);
}

enum {
    HOST_JOB_NAMES = 4,
    HOST_JOB_LARGE = 4 << 20,
    HOST_JOB_PAUSE = 10000000 /* nanoseconds between checks while writes are paused */
};

/* Undoes host_adopt for an object that could not be stored under its name. */
static bg_err host_abandon(struct object *object, bg_err err)
{
    redis_secret_leave(object->entry);
    object->entry = NULL;
    return err;
}

/* Replicates an object that is stored under a name. An object that was created empty is replicated
 * with BG.REPLAY CREATE. For any other object, the command itself is replicated if `anywhere` is
 * set, which means that the command has the same result on every server. Otherwise, the object's
 * content is replicated. */
static bg_err host_send_object(struct redis_host *h, const struct object *object,
                               bool anywhere, bg_errinfo *info)
{
    if (!object->born_full) {
        redis_replay_create(h->client.ctx, h->names[1], object);
    } else if (anywhere) {
        host_send_verbatim(h);
    } else {
        return redis_replay_content(h->client.ctx, h->names[1], object, info);
    }
    return BG_OK;
}

static bg_err host_create(struct host *host, bg_bytes name, struct object *object,
                          bg_errinfo *info)
{
    struct redis_host *h = host_of(host);
    (void)name; /* argv[1] */
    if (h->first) {
        return BG_EBUSY;
    }
    bg_err err = host_adopt(h, object, info);
    err = err ? err : host_send_object(h, object, host_repeats(h), info);
    if (err) {
        return host_abandon(object, err);
    }
    h->happened |=
        object->born_full && !host_adds(h) ? HAPPENED_WHOLE : HAPPENED_CREATE;
    (void)redis_host_place(h->client.ctx, h->names[1], object);
    h->first = object;
    return BG_OK;
}

/* Replaces the object that is stored under the name. */
static void host_put(struct redis_host *h, struct object *object)
{
    h->old = redis_host_place(h->client.ctx, h->names[1], object);
    h->first = object;
    h->happened |= HAPPENED_WHOLE;
}

static bg_err host_replace(struct host *host, bg_bytes name,
                           const struct object *instead_of, struct object *object,
                           bg_errinfo *info)
{
    struct redis_host *h = host_of(host);
    (void)instead_of; /* always h->first, because commands run one at a time */
    const bool anywhere = host_repeats(h) && !(h->first && h->first->foreign);
    bg_err err = host_adopt(h, object, info);
    (void)name; /* argv[1] */
    err = err ? err : host_send_object(h, object, anywhere, info);
    if (err) {
        return host_abandon(object, err);
    }
    host_put(h, object);
    return BG_OK;
}

static bool host_drop(struct host *host, bg_bytes name)
{
    struct redis_host *h = host_of(host);
    (void)name; /* argv[1] */
    if (!h->first) {
        return false;
    }
    RedisModuleKey *key = redis.OpenKey(h->client.ctx, h->names[1], REDIS_WRITE);
    (void)redis.DeleteKey(key);
    redis.CloseKey(key);
    h->first = NULL;
    h->happened |= HAPPENED_DROP;
    host_send_verbatim(h);
    return true;
}

static bg_err host_record(struct host *host, struct object *object,
                          const struct change *change, bg_errinfo *info)
{
    struct redis_host *h = host_of(host);
    (void)object; /* always the object named by argv[1] */
    (void)info;
    if (change->op != CHANGE_ROTATE && change->n == 1
        && (h->argc == 3 || change->op == CHANGE_REMOVE)) {
        host_send_verbatim(h);
    } else {
        redis_replay_change(h->client.ctx, h->names[1], change);
    }
    h->happened |= change->op == CHANGE_ADD      ? HAPPENED_ADD
                   : change->op == CHANGE_REMOVE ? HAPPENED_REMOVE
                                                 : HAPPENED_ROTATE;
    return BG_OK;
}

static bg_err host_checkpoint(struct host *host, struct object *object,
                              bg_errinfo *info)
{
    struct redis_host *h = host_of(host);
    h->happened |= HAPPENED_WHOLE;
    if (!h->client.failed && host_repeats(h)) {
        host_send_verbatim(h);
        return BG_OK;
    }
    const bg_err err = redis_replay_content(h->client.ctx, h->names[1], object, info);
    if (err) {
        redis.Log(h->client.ctx, "warning",
                  "a filter was changed, but the change could not be replicated: %s",
                  bg_strerror(err));
    }
    return err;
}

static bool host_room(struct host *host, uint64_t bytes)
{
    (void)host;
    return redis_memory_grant(bytes);
}

static uint64_t host_now(struct host *host)
{
    return host_of(host)->still ? 0 : (uint64_t)redis.Milliseconds();
}

static uint64_t host_ticks(struct host *host)
{
    return host_of(host)->still ? 0 : clock_nanoseconds() / 1000000;
}

static void host_disclose(struct host *host, bg_bytes name)
{
    redis_client_log_secret(host_of(host)->client.ctx, name);
}

static const struct host_ops host_ops = {
    .find = host_find,
    .create = host_create,
    .replace = host_replace,
    .drop = host_drop,
    .record = host_record,
    .checkpoint = host_checkpoint,
    .room = host_room,
    .now = host_now,
    .ticks = host_ticks,
    .disclose = host_disclose,
};

/* ---- Execution ------------------------------------------------------------------------------- */

/* Returns whether every key of a command either is a filter or does not exist. */
static bool host_keys_fit(struct redis_host *h)
{
    const struct command *c = h->command;
    if (c->first_key == 0) {
        return true;
    }
    if (!redis_host_find(h->client.ctx, h->names[1], h->mode, &h->first)) {
        return false;
    }
    const size_t last = c->last_key < 0 ? h->argc - 1 : (size_t)c->last_key;
    for (size_t i = 2; i <= last; i++) {
        struct object *other = NULL;
        if (!redis_host_find(h->client.ctx, h->names[i], h->mode, &other)) {
            return false;
        }
    }
    return true;
}

/* Moves a window to the current time before it is queried. */
static void host_tick(struct redis_host *h)
{
    if (h->first && h->first->shape.kind == BG_KIND_WINDOW && !redis_config_obeys()
        && !redis.AvoidReplicaTraffic()) {
        (void)object_tick(h->first, &h->host, NULL);
    }
}

static void host_tell_all(struct redis_host *h)
{
    static const struct {
        uint32_t what;
        const char *verb;
    } verbs[] = { { HAPPENED_CREATE, "reserve" },
                  { HAPPENED_ROTATE, "rotate" },
                  { HAPPENED_ADD, "add" },
                  { HAPPENED_REMOVE, "del" } };
    RedisModuleCtx *ctx = h->client.ctx;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (h->happened & verbs[i].what) {
            redis_host_tell(ctx, h->names[1], h->first, verbs[i].verb);
        }
    }
    if (h->happened & HAPPENED_WHOLE) {
        char verb[32];
        const char *name = h->command->name + 3; /* after "BF." */
        letters_lower(verb, sizeof verb, name, strlen(name));
        redis_host_tell(ctx, h->names[1], h->first, host_loads(h) ? "load" : verb);
    }
    if (h->happened & HAPPENED_DROP) {
        (void)redis.SignalModifiedKey(ctx, h->names[1]);
        (void)redis.NotifyKeyspaceEvent(ctx, REDIS_NOTIFY_GENERIC, "del", h->names[1]);
    }
}

/* ---- Loading on another thread --------------------------------------------------------------- */

/*
 * When the last chunk of a large dump has arrived, the whole dump is verified and decoded. This
 * takes about one second for every 1 to 2 GB, so the handler runs on the worker thread
 * (redis_worker.h): the client is blocked, but the server is not. No other client can use the
 * object in the meantime, since its content is unknown. The object is held, so that it survives the
 * deletion of its key. The worker thread accesses the keyspace only under the server's lock, and
 * only while the server allows writes (see host_job_lock).
 */
struct host_job {
    struct redis_host h;
    struct command_settings settings;
    RedisModuleBlockedClient *client;
    struct redis_argv words;
    RedisModuleString *names[HOST_JOB_NAMES];
    struct object *object;
    uint64_t term; /* redis_config_term when the job started */
};

static void host_run_request(struct redis_host *h)
{
    struct request request = { .host = &h->host,
                               .command = h->command,
                               .argv = h->argv,
                               .argc = h->argc,
                               .reply = { &redis_reply_ops, &h->client, h->protocol } };
    h->command->run(&request);
}

static struct host_job *host_job_of(struct host *host)
{
    return (struct host_job *)host; /* job->h.host is the first field of the job */
}

/* Returns BG_OK if the result can still be written, that is, if the server has been a primary since
 * the job started and the key still holds the object that is being loaded. The caller holds the
 * server's lock. */
static bg_err host_job_stands(const struct host_job *job, bg_errinfo *info)
{
    const struct redis_host *h = &job->h;
    struct object *now = NULL;
    if (redis_config_term() != job->term) {
        return error_fail(info, BG_ECANCELED,
                          "this server became a replica while the filter was "
                          "being loaded: load it again");
    }
    if (!redis_host_find(h->client.ctx, h->names[1], REDIS_WRITE, &now)
        || now != h->first) {
        return error_fail(info, BG_ECANCELED,
                          "the key was deleted or replaced while the filter was "
                          "being loaded: load it again");
    }
    return BG_OK;
}

static void host_job_sleep(void)
{
    const struct timespec moment = { .tv_nsec = HOST_JOB_PAUSE };
    (void)nanosleep(&moment, NULL);
}

/*
 * Waits until the object can be written, and acquires the server's lock. If the change has to be
 * replicated, encodes the content to send beforehand. The lock is held on return, even if the
 * function fails.
 *
 * CLIENT PAUSE, FAILOVER and a SHUTDOWN that waits for replicas freeze the data set: the server
 * postpones commands, and aborts if a module replicates anything during that time. This function
 * therefore waits until the pause ends. The server's role, the key, the pause and the presence of
 * receivers are all checked under the same lock as the write, so none of them can change in
 * between.
 */
static bg_err host_job_lock(struct host_job *job, const struct object *object,
                            struct redis_pieces *pieces, bg_errinfo *info)
{
    RedisModuleCtx *ctx = job->h.client.ctx;
    bool prepared = false;
    redis.ThreadSafeContextLock(ctx);
    for (;;) {
        bg_err err = host_job_stands(job, info);
        const bool paused = redis.AvoidReplicaTraffic();
        if (err || (!paused && (prepared || !redis_replay_is_heard(ctx)))) {
            return err;
        }
        redis.ThreadSafeContextUnlock(ctx);
        if (paused) {
            host_job_sleep();
        } else {
            err = redis_replay_prepare(object, pieces, info);
            prepared = true;
        }
        redis.ThreadSafeContextLock(ctx);
        if (err) {
            return err;
        }
    }
}

static struct object *host_job_find(struct host *host, bg_bytes name)
{
    (void)name;
    return host_of(host)->first;
}

static bg_err host_job_replace(struct host *host, bg_bytes name,
                               const struct object *instead_of, struct object *object,
                               bg_errinfo *info)
{
    struct redis_host *h = host_of(host);
    (void)instead_of; /* always h->first, which host_job_stands checks */
    struct redis_pieces pieces = { .of = NULL };
    (void)name;
    bg_err err = host_adopt(h, object, info);
    if (err) {
        return host_abandon(object, err);
    }
    err = host_job_lock(host_job_of(host), object, &pieces, info);
    if (!err) {
        redis_replay_prepared(h->client.ctx, h->names[1], object, &pieces);
        host_put(h, object);
        host_tell_all(h);
    }
    redis_replay_forget(&pieces);
    redis.ThreadSafeContextUnlock(h->client.ctx);
    return err ? host_abandon(object, err) : BG_OK;
}

static const struct host_ops host_job_ops = {
    .find = host_job_find,
    .replace = host_job_replace,
    .now = host_now,
    .ticks = host_ticks,
};

/* Locates the arguments. After the command's function has returned, the server may move the bytes
 * of arguments that the module retained. It holds the lock while it does so. */
static void host_job_locate(struct host_job *job)
{
    redis.ThreadSafeContextLock(job->h.client.ctx);
    for (size_t i = 0; i < job->h.argc; i++) {
        bg_bytes *word = &job->words.of[i];
        word->data = redis.StringPtrLen(job->names[i], &word->len);
    }
    redis.ThreadSafeContextUnlock(job->h.client.ctx);
}

static void host_job_run(void *context)
{
    struct host_job *job = context;
    job->h.client.ctx = redis.GetThreadSafeContext(job->client);
    host_job_locate(job);
    host_run_request(&job->h);
    redis_secret_return();
    redis.ThreadSafeContextLock(job->h.client.ctx);
    for (size_t i = 0; i < job->h.argc; i++) {
        redis.FreeString(NULL, job->names[i]);
    }
    redis.ThreadSafeContextUnlock(job->h.client.ctx);
    redis.FreeThreadSafeContext(job->h.client.ctx);
    redis_memory_free_object(job->h.old);
    /* Release the object before UnblockClient, which lets the client use the object again. */
    redis_memory_release(job->object);
    redis_worker_count();
    (void)redis.UnblockClient(job->client, NULL);
    free(job);
}

/* Passes a request to the worker thread. Returns false if the request has to run on the main
 * thread. */
static bool host_job_begin(struct redis_host *h)
{
    struct host_job *job = h->argc <= HOST_JOB_NAMES && redis_worker_there()
                               ? calloc(1, sizeof *job)
                               : NULL;
    if (!job) {
        return false;
    }
    job->h = *h;
    job->settings = *h->host.settings;
    job->object = h->first;
    job->term = redis_config_term();
    for (size_t i = 0; i < h->argc; i++) {
        job->names[i] = h->names[i];
        redis.RetainString(NULL, h->names[i]);
    }
    job->h.names = job->names;
    (void)redis_argv_take(&job->words, job->names, h->argc); /* in place */
    job->h.argv = job->words.of;
    job->h.host.ops = &host_job_ops;
    job->h.host.settings = &job->settings;
    job->client = redis.BlockClient(h->client.ctx, NULL, NULL, NULL, 0);
    redis_memory_hold(job->object);
    redis_worker_run(host_job_run, job);
    return true;
}

/* Returns whether this command loads the last chunk of a large dump for a client that can be
 * blocked. */
static bool host_job_fits(struct redis_host *h, int flags)
{
    uint64_t done = 0, total = 0;
    const int alone = REDIS_CTX_LUA | REDIS_CTX_MULTI | REDIS_CTX_DENY_BLOCKING
                      | REDIS_CTX_REPLICATED | REDIS_CTX_LOADING;
    return h->command->flags & COMMAND_SLOW && h->first && host_loads(h) && h->argc > 2
           && !(flags & alone) && !redis_config_obeys()
           && atomic_load(&h->first->loaded) > 0
           && load_progress(h->first, &done, &total) && total >= HOST_JOB_LARGE
           && total - done <= h->argv[h->argc - 1].len;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Returns whether a command must be refused because the worker thread is using its object. Commands
 * from a primary are never refused, because refusing a command would make the replica differ from
 * its primary. */
static bool host_must_wait(const struct redis_host *h)
{
    return h->first && h->command->flags & COMMAND_SLOW && !redis_config_obeys()
           && redis_memory_is_held(h->first);
}

/* Called when a filter is used. Frees the filter's dump copy if nothing has read it within the
 * timeout. */
static void host_tidy(struct redis_host *h)
{
    if (h->first && atomic_load(&h->first->dumped) > 0) {
        dump_expire(h->first, host_ticks(&h->host));
    }
}

static void host_handle(struct redis_host *h)
{
    struct request request = { .host = &h->host,
                               .command = h->command,
                               .argv = h->argv,
                               .argc = h->argc,
                               .reply = { &redis_reply_ops, &h->client, 2 } };
    /* Replies to item commands are the same in both protocol versions, so the client's version is
     * not queried for them. */
    int flags = 0;
    if (!h->command->run_many && !(h->command->flags & COMMAND_ASKS)) {
        flags = redis.GetContextFlags(h->client.ctx);
        h->protocol = flags & REDIS_CTX_RESP3 ? 3 : 2;
    }
    if (!command_arity_fits(h->command, h->argc)) {
        args_arity(&request);
    } else if (h->command->flags & COMMAND_ADMIN
               && !redis_client_may_admin(h->client.ctx)) {
        reply_errorf(&request.reply, "NOPERM %s requires a user that may run REPLCONF",
                     h->command->name);
    } else if (!host_keys_fit(h)) {
        reply_error(&request.reply, ARGS_WRONGTYPE);
    } else if (host_must_wait(h)) {
        reply_error(&request.reply,
                    "TRYAGAIN the last chunk of this filter is being verified");
    } else if (!host_job_fits(h, flags) || !host_job_begin(h)) {
        host_tidy(h);
        host_tick(h);
        host_run_request(h);
    }
}

int redis_host_run(RedisModuleCtx *ctx, RedisModuleString **argv, int argc,
                   const struct command *command)
{
    const bool obeys = redis_config_obeys(), writes = command->flags & COMMAND_WRITE;
    struct redis_argv words;
    if (!redis_argv_take(&words, argv, (size_t)argc)) {
        return redis.ReplyWithError(ctx, "ERR Insufficient memory");
    }
    struct redis_host h = { .host = { .ops = &host_ops,
                                      .settings = obeys ? &redis_settings_obeyed
                                                        : &redis_settings,
                                      .ordered = true },
                            .client = { .ctx = ctx },
                            .names = argv,
                            .argv = words.of,
                            .argc = (size_t)argc,
                            .command = command,
                            .mode = writes ? REDIS_WRITE : REDIS_READ,
                            .protocol = 2,
                            .still = obeys && writes };
    redis_memory_guard(!obeys && (!writes || command->flags & COMMAND_DENYOOM));
    host_handle(&h);
    redis_memory_guard(false);
    redis_secret_return();
    if (h.happened) {
        host_tell_all(&h);
    }
    redis_memory_free_object(h.old);
    redis_argv_give(&words);
    return REDIS_OK;
}

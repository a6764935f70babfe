/* fronts.c - see fronts.h. */
#include "fronts.h"

#include "args.h"
#include "front_settings.h"
#include "log.h"
#include "server.h"
#include "sharded_filter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FRONT_REST = 1000 }; /* milliseconds after a failure */

/* A client of the cluster, idle in the pool or in the hands of one job. */
struct front_client {
    struct cluster *cluster;
    struct sharded filter;
    struct front_client *next;
};

struct front {
    char *name, *nodes, *user, *password;
    size_t name_len;
    struct cluster_options options;
    uint32_t shards;
    pthread_mutex_t lock; /* of the pool */
    struct front_client *idle;
    _Atomic uint64_t rests_until; /* server_ticks; 0: it is fine */
    _Atomic uint64_t adds, questions, failed, unanswered;
};

struct fronts {
    int stop; /* an eventfd that is readable from fronts_stop on */
    size_t count;
    struct front items[];
};

/* ---- Life --------------------------------------------------------------------------------------- */

static char *front_copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static bool front_init(struct front *front, const struct front_settings *from, int stop)
{
    *front = (struct front){ .name = front_copy(from->name),
                             .nodes = front_copy(from->nodes),
                             .user = front_copy(from->user),
                             .password = front_copy(from->password),
                             .name_len = strlen(from->name),
                             .shards = (uint32_t)from->shards };
    pthread_mutex_init(&front->lock, NULL);
    front->options =
        (struct cluster_options){ .nodes = front->nodes,
                                  .user = front->user,
                                  .password = front->password,
                                  .timeout = (uint32_t)(1000 * from->timeout),
                                  .patience = (uint32_t)(1000 * from->patience),
                                  .replicas = (uint32_t)from->replicas,
                                  .stop_fd = stop };
    return front->name && front->nodes && (front->user || !from->user)
           && (front->password || !from->password);
}

static void front_client_free(struct front_client *client)
{
    sharded_close(&client->filter);
    cluster_close(client->cluster);
    free(client);
}

static void front_fini(struct front *front)
{
    while (front->idle) {
        struct front_client *client = front->idle;
        front->idle = client->next;
        front_client_free(client);
    }
    pthread_mutex_destroy(&front->lock);
    free(front->name);
    free(front->nodes);
    free(front->user);
    free(front->password);
}

bool fronts_create(const struct settings *settings, struct fronts **fronts,
                   char why[SETTINGS_WHY])
{
    const size_t n = settings->sharded.count;
    *fronts = NULL;
    if (n == 0) {
        return true;
    }
    struct fronts *made = calloc(1, sizeof *made + n * sizeof *made->items);
    bool good = made != NULL;
    if (good) {
        made->stop = eventfd(0, EFD_CLOEXEC);
        good = made->stop >= 0;
    }
    (void)snprintf(why, SETTINGS_WHY, "out of memory");
    for (size_t i = 0; i < n && good; i++) {
        struct front_settings from;
        good = front_settings_read(&settings->sharded.items[i], &from, why);
        if (good) {
            good = front_init(&made->items[made->count++], &from, made->stop);
        }
    }
    if (!good) {
        fronts_free(made);
        return false;
    }
    *fronts = made;
    return true;
}

void fronts_stop(struct fronts *fronts)
{
    const uint64_t one = 1;
    if (fronts && write(fronts->stop, &one, sizeof one) < 0) {
        log_warning("calls to clusters cannot be ended early", LOG_NONE);
    }
}

void fronts_free(struct fronts *fronts)
{
    if (fronts) {
        for (size_t i = 0; i < fronts->count; i++) {
            front_fini(&fronts->items[i]);
        }
        if (fronts->stop >= 0) {
            (void)close(fronts->stop);
        }
        free(fronts);
    }
}

/* ---- Finding ------------------------------------------------------------------------------------ */

static struct front *fronts_named(const struct fronts *fronts, bg_bytes name)
{
    for (size_t i = 0; i < fronts->count; i++) {
        const struct front *front = &fronts->items[i];
        if (front->name_len == name.len
            && memcmp(front->name, name.data, name.len) == 0) {
            return (struct front *)(uintptr_t)front;
        }
    }
    return NULL;
}

struct front *fronts_find(const struct fronts *fronts, const struct command *command,
                          const bg_bytes *argv, size_t argc)
{
    if (!fronts || command->first_key <= 0) {
        return NULL;
    }
    const size_t last = command->last_key < 0 ? argc - (size_t)-command->last_key
                                              : (size_t)command->last_key;
    struct front *found = NULL;
    for (size_t i = (size_t)command->first_key; i <= last && i < argc && !found;
         i += (size_t)command->key_step) {
        found = fronts_named(fronts, argv[i]);
    }
    return found;
}

bool front_forwards(const struct command *command)
{
    static const char *const names[] = {
        "BF.ADD", "BF.MADD", "BF.EXISTS", "BF.MEXISTS",
        "BG.ADD", "BG.MADD", "BG.EXISTS", "BG.MEXISTS"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(command->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void front_refuse(const struct front *front, struct request *request)
{
    char name[64];
    reply_errorf(
        &request->reply,
        "ERR '%s' is in shards over a cluster: ADD, MADD, EXISTS and MEXISTS of "
        "BF.* and BG.* are forwarded, outside of MULTI; not %s",
        args_show((bg_bytes){ front->name, front->name_len }, name),
        request->command->name);
}

/* ---- The pool ----------------------------------------------------------------------------------- */

static struct front_client *front_open(struct front *front, bg_errinfo *info)
{
    struct front_client *client = calloc(1, sizeof *client);
    if (!client) {
        (void)cluster_fail(info, BG_ENOMEM, "out of memory");
        return NULL;
    }
    if (cluster_open(&front->options, &client->cluster, info)
        || sharded_open(client->cluster, front->name, front->shards, &client->filter,
                        info)) {
        front_client_free(client);
        return NULL;
    }
    return client;
}

static struct front_client *front_take(struct front *front, bg_errinfo *info)
{
    pthread_mutex_lock(&front->lock);
    struct front_client *client = front->idle;
    if (client) {
        front->idle = client->next;
    }
    pthread_mutex_unlock(&front->lock);
    return client ? client : front_open(front, info);
}

static void front_give_back(struct front *front, struct front_client *client)
{
    pthread_mutex_lock(&front->lock);
    client->next = front->idle;
    front->idle = client;
    pthread_mutex_unlock(&front->lock);
}

/* It is left alone for a while from now on, or no longer. */
static void front_judge(struct front *front, bg_err err, const bg_errinfo *info)
{
    const bg_bytes name = { front->name, front->name_len };
    const bool fails = err && err != BG_ENOTFOUND && err != BG_EFULL;
    const uint64_t until = fails ? server_ticks() + FRONT_REST : 0;
    const uint64_t before = atomic_exchange(&front->rests_until, until);
    if (fails && !before) {
        log_event(LOG_EVENT_SOURCE, name, "the cluster does not answer: %s",
                  info->message);
    } else if (!fails && before) {
        log_event(LOG_EVENT_SOURCE, name, "the cluster answers again");
    }
}

/* ---- Requests ----------------------------------------------------------------------------------- */

/* Bits of a request's items: which were answered, and how. */
struct front_bits {
    uint64_t *done, *answers;
};

/* Asks the cluster; what is not answered is not done. */
static bg_err front_call(struct front *front, const bg_bytes *items, size_t n,
                         bool adds, struct front_bits *bits, bg_errinfo *info)
{
    const uint64_t rests_until = atomic_load(&front->rests_until);
    if (server_ticks() < rests_until) {
        return cluster_fail(info, BG_EIO, "it did not a moment ago");
    }
    struct front_client *client = front_take(front, info);
    bg_err err = client ? BG_OK : BG_EIO;
    if (client) {
        err = adds ? sharded_add(&client->filter, items, n, bits->done, bits->answers,
                                 info)
                   : sharded_ask(&client->filter, items, n, bits->answers, info);
        front_give_back(front, client);
    }
    front_judge(front, err, info);
    return err;
}

/* How answers are sent: as one, as a list, or as one for each of many requests. */
enum front_form { FRONT_ONE, FRONT_LIST, FRONT_MANY };

static void front_tell(struct request *request, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        reply_boolean(&request->reply, bits[i / 64] >> i % 64 & 1);
    }
}

static void front_fail(struct request *request, bg_err err, const bg_errinfo *info)
{
    const int shard = (int)strcspn(info->message, ":"); /* its name comes first */
    if (err == BG_ENOTFOUND) {
        reply_errorf(&request->reply, "NOFILTER there is no shard '%.*s'", shard,
                     info->message);
    } else if (err == BG_EFULL) {
        reply_errorf(&request->reply,
                     "FULL the shard '%.*s' has as many items as it was made for",
                     shard, info->message);
    } else {
        reply_errorf(&request->reply, "FAILED the cluster did not answer: %s",
                     info->message);
    }
}

/* The adds of many requests, of which some failed. */
static void front_tell_many(struct request *request, const struct front_bits *bits,
                            size_t n, bg_err err, const bg_errinfo *info)
{
    for (size_t i = 0; i < n; i++) {
        if (bits->done[i / 64] >> i % 64 & 1) {
            reply_boolean(&request->reply, bits->answers[i / 64] >> i % 64 & 1);
        } else {
            front_fail(request, err, info);
        }
    }
}

/* Whether each was new, up to the first that is not in; then why. */
static void front_add(struct front *front, struct request *request, size_t n,
                      enum front_form form, struct front_bits *bits)
{
    bg_errinfo info = { 0 };
    const bg_err err = front_call(front, request->argv + 2, n, true, bits, &info);
    size_t in = 0;
    while (in < n && bits->done[in / 64] >> in % 64 & 1) {
        in++;
    }
    atomic_fetch_add(&front->adds, n);
    atomic_fetch_add(&front->failed, err ? n - in : 0);
    if (err && form == FRONT_MANY) {
        front_tell_many(request, bits, n, err, &info);
        return;
    }
    if (form == FRONT_LIST && (!err || in > 0)) {
        reply_array(&request->reply, err ? in + 1 : n);
    }
    front_tell(request, bits->answers, err ? in : n);
    if (err) {
        front_fail(request, err, &info);
    }
}

/* Doubt is "maybe". */
static void front_ask(struct front *front, struct request *request, size_t n,
                      enum front_form form, struct front_bits *bits)
{
    bg_errinfo info = { 0 };
    memset(bits->answers, 0xff, BG_BITMAP_WORDS(n) * sizeof *bits->answers);
    const bg_err err = front_call(front, request->argv + 2, n, false, bits, &info);
    atomic_fetch_add(&front->questions, n);
    if (err == BG_ENOTFOUND) {
        for (size_t i = 0; i < (form == FRONT_MANY ? n : 1); i++) {
            front_fail(request, err, &info);
        }
        return;
    }
    atomic_fetch_add(&front->unanswered, err ? n : 0);
    if (form == FRONT_LIST) {
        reply_array(&request->reply, n);
    }
    front_tell(request, bits->answers, n);
}

void front_run(struct front *front, struct request *request, bool many)
{
    const struct command *command = request->command;
    const size_t n = request->argc - 2, words = BG_BITMAP_WORDS(n);
    const enum front_form form = many                 ? FRONT_MANY
                                 : command->arity < 0 ? FRONT_LIST
                                                      : FRONT_ONE;
    uint64_t *memory = calloc(2 * words, sizeof *memory);
    struct front_bits bits = { memory, memory + words };
    if (!memory) {
        for (size_t i = 0; i < (many ? n : 1); i++) {
            reply_error(&request->reply, "ERR out of memory");
        }
    } else if (command->flags & COMMAND_WRITE) {
        front_add(front, request, n, form, &bits);
    } else {
        front_ask(front, request, n, form, &bits);
    }
    free(memory);
}

bool fronts_facts(struct fronts *fronts, size_t i, struct front_facts *facts)
{
    if (!fronts || i >= fronts->count) {
        return false;
    }
    struct front *front = &fronts->items[i];
    *facts = (struct front_facts){ .name = front->name,
                                   .shards = front->shards,
                                   .adds = atomic_load(&front->adds),
                                   .questions = atomic_load(&front->questions),
                                   .failed = atomic_load(&front->failed),
                                   .unanswered = atomic_load(&front->unanswered),
                                   .down = atomic_load(&front->rests_until) != 0 };
    return true;
}

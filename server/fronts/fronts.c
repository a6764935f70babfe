/* fronts.c - see fronts.h. Creates fronts, and handles RESP requests. */
#include "fronts/fronts.h"

#include "args.h"
#include "fronts/front.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- Life --------------------------------------------------------------------------------------- */

static bool front_init(struct front *front, const struct front_settings *from, int stop,
                       char why[SETTINGS_WHY])
{
    bg_errinfo info = { 0 };
    pthread_mutex_init(&front->lock, NULL);
    const bool copied = front_settings_copy(from, &front->settings);
    front->shards = (uint32_t)from->shards;
    front->shard = calloc(front->shards, sizeof *front->shard);
    front->witnessed = calloc(front->shards, sizeof *front->witnessed);
    front->name_len = strlen(from->name);
    front->options = front_settings_options(&front->settings);
    front->options.stop_fd = stop;
    front->options.tally = &front->tally;
    if (!copied || !front->shard || !front->witnessed) {
        (void)snprintf(why, SETTINGS_WHY, "out of memory");
        return false;
    }
    if (cluster_options_check(&front->options, &info)) {
        (void)snprintf(why, SETTINGS_WHY, "%s: %s", from->name, info.message);
        return false;
    }
    return true;
}

static void front_fini(struct front *front)
{
    front_watch_join(front);
    front_clients_free(front->idle);
    pthread_mutex_destroy(&front->lock);
    free(front->shard);
    free(front->witnessed);
    front_settings_free(&front->settings);
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
            good = front_init(&made->items[made->count++], &from, made->stop, why);
        }
    }
    if (!good) {
        fronts_free(made);
        return false;
    }
    *fronts = made;
    return true;
}

bool fronts_start(struct fronts *fronts)
{
    bool good = true;
    for (size_t i = 0; fronts && i < fronts->count && good; i++) {
        good = front_watch_start(&fronts->items[i]);
    }
    return good;
}

void fronts_stop(struct fronts *fronts)
{
    const uint64_t one = 1;
    if (fronts && write(fronts->stop, &one, sizeof one) < 0) {
        log_warning("cannot cancel cluster calls; shutdown waits until they time out",
                    LOG_NONE);
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

/* ---- Searching ---------------------------------------------------------------------------------- */

struct front *fronts_named(const struct fronts *fronts, bg_bytes name)
{
    for (size_t i = 0; fronts && i < fronts->count; i++) {
        const struct front *front = &fronts->items[i];
        if (front->name_len == name.len
            && memcmp(front->settings.name, name.data, name.len) == 0) {
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

void front_refuse(const struct front *front, struct request *request)
{
    char name[64];
    reply_errorf(
        &request->reply,
        "ERR '%s' is sharded over a cluster; it supports only ADD, MADD, EXISTS and "
        "MEXISTS (BF.* and BG.*) outside MULTI, not %s",
        args_show((bg_bytes){ front->settings.name, front->name_len }, name),
        request->command->name);
}

/* ---- Requests ----------------------------------------------------------------------------------- */

/* The form of the reply: one value, an array, or one reply for each request in a run. */
enum front_form { FRONT_ONE, FRONT_LIST, FRONT_MANY };

static bool front_bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void front_fail(struct request *request, bg_err err,
                       const struct front_work *work)
{
    const char *message = work->info.message;
    /* The message starts with the shard's name. */
    const int shard = (int)strcspn(message, ":");
    if (err == BG_ENOTFOUND) {
        reply_errorf(
            &request->reply,
            "NOFILTER the cluster has no shard '%.*s'; create the filter first", shard,
            message);
    } else if (err == BG_EFULL) {
        reply_errorf(&request->reply, "FULL the shard '%.*s' has reached its capacity",
                     shard, message);
    } else {
        reply_errorf(&request->reply, "FAILED the cluster %s: %s",
                     work->unreached ? "did not answer" : "refused", message);
    }
}

/* Replies to a run of requests, some of which failed. */
static void front_tell_many(struct request *request, const struct front_work *work,
                            bg_err err)
{
    for (size_t i = 0; i < work->n; i++) {
        if (front_bit(work->done, i)) {
            reply_boolean(&request->reply, front_bit(work->answers, i));
        } else {
            front_fail(request, err, work);
        }
    }
}

/* Replies to one failed request: sends the results of all items before the first item that was not added,
 * followed by the error. */
static void front_tell_failed(struct request *request, const struct front_work *work,
                              enum front_form form, bg_err err)
{
    size_t in = 0;
    while (work->adds && in < work->n && front_bit(work->done, in)) {
        in++;
    }
    if (form == FRONT_LIST && in > 0) {
        reply_array(&request->reply, in + 1);
    }
    for (size_t i = 0; i < in; i++) {
        reply_boolean(&request->reply, front_bit(work->answers, i));
    }
    front_fail(request, err, work);
}

void front_run(struct front *front, struct request *request, bool many)
{
    const struct command *command = request->command;
    const size_t n = request->argc - 2, words = BG_BITMAP_WORDS(n);
    const enum front_form form = many                 ? FRONT_MANY
                                 : command->arity < 0 ? FRONT_LIST
                                                      : FRONT_ONE;
    uint64_t *memory = calloc(2 * words, sizeof *memory);
    struct front_work work = { .items = request->argv + 2,
                               .n = n,
                               .adds = command->flags & COMMAND_WRITE,
                               .done = memory,
                               .answers = memory + words };
    if (!memory) {
        for (size_t i = 0; i < (many ? n : 1); i++) {
            reply_error(&request->reply, "ERR out of memory");
        }
        return;
    }
    const bg_err err = front_call(front, &work);
    if (err && many) {
        front_tell_many(request, &work, err);
    } else if (err) {
        front_tell_failed(request, &work, form, err);
    } else {
        if (form == FRONT_LIST) {
            reply_array(&request->reply, n);
        }
        for (size_t i = 0; i < n; i++) {
            reply_boolean(&request->reply, front_bit(work.answers, i));
        }
    }
    free(memory);
}

/* ---- Statistics --------------------------------------------------------------------------------- */

bool fronts_facts(struct fronts *fronts, size_t i, struct front_facts *facts)
{
    if (!fronts || i >= fronts->count) {
        return false;
    }
    front_about(&fronts->items[i], facts);
    return true;
}

size_t fronts_count(const struct fronts *fronts)
{
    return fronts ? fronts->count : 0;
}

size_t fronts_reached(struct fronts *fronts)
{
    struct front_facts f;
    size_t n = 0;
    for (size_t i = 0; fronts_facts(fronts, i, &f); i++) {
        n += f.states[FRONT_DOWN] < f.shards && strcmp(f.state, "starting") != 0;
    }
    return n;
}

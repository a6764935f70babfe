/*
 * source.c - what all sources share: settings, the pool of connections, the thread that follows.
 * The databases themselves are behind a table of operations.
 *
 * A question is asked over a connection of the pool. One that was there already may have died
 * since (the server was restarted): then the question is asked once more over a new one, within
 * the same deadline, and all idle ones go. Questions change nothing, so asking twice does no harm.
 */
#include "source_inside.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct source_keys {
    struct source *source;
    void *reader;
    struct key_batch batch;
};

/* ---- Helpers --------------------------------------------------------------------------- */

uint64_t source_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SOURCE_SECOND + (uint64_t)now.tv_nsec;
}

bg_err source_error(bg_errinfo *info, bg_err code, const char *what,
                    const char *expected, const char *format, ...)
{
    if (!info) {
        return code;
    }
    memset(info, 0, sizeof *info);
    info->code = code;
    char found[141];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    for (char *c = found; *c; c++) { /* databases like to write several lines */
        if (*c == '\n') {
            *c = ' ';
        }
    }
    for (size_t n = strlen(found); n > 0 && found[n - 1] == ' '; n--) {
        found[n - 1] = 0;
    }
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    (void)snprintf(info->found, sizeof info->found, "%.63s", found);
    (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
    (void)snprintf(info->message, sizeof info->message,
                   "%.30s: found %s, expected %.60s", what, found, expected);
    return code;
}

bg_err source_no_memory(bg_errinfo *info)
{
    return source_error(info, BG_ENOMEM, "memory", "enough", "none");
}

bg_err source_stopped(bg_errinfo *info)
{
    return source_error(info, BG_ECANCELED, "source", "one that goes on",
                        "it is stopped");
}

char *source_format(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    va_end(arguments);
    return text;
}

char *source_quote(const char *name)
{
    char *quoted = malloc(2 * strlen(name) + 3), *to = quoted;
    if (!quoted) {
        return NULL;
    }
    *to++ = '"';
    for (; *name; name++) {
        if (*name == '"') {
            *to++ = '"';
        }
        *to++ = *name;
    }
    *to++ = '"';
    *to = 0;
    return quoted;
}

void source_value_set(struct source_value *value, const void *data, size_t len)
{
    if (!value) {
        return;
    }
    value->null = !data;
    value->len = data ? len : 0;
    const size_t n = value->len < value->room ? value->len : value->room;
    if (n) {
        memcpy(value->data, data, n);
    }
}

bool source_integer(bg_bytes text, int64_t *value)
{
    char copy[24], again[24];
    if (text.len == 0 || text.len >= sizeof copy) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    errno = 0;
    const long long number = strtoll(copy, NULL, 10);
    (void)snprintf(again, sizeof again, "%lld", number);
    *value = number;
    return errno == 0 && strlen(again) == text.len && strcmp(copy, again) == 0;
}

void source_show_url(const char *url, char *text, size_t room)
{
    const char *host = strstr(url, "://");
    const char *at = host ? strchr(host + 3, '@') : NULL;
    const char *colon = host ? strchr(host + 3, ':') : NULL;
    const char *slash = host ? strchr(host + 3, '/') : NULL;
    if (at && colon && colon < at && (!slash || at < slash)) {
        (void)snprintf(text, room, "%.*s:***%s", (int)(colon - url), url, at);
    } else {
        (void)snprintf(text, room, "%s", url);
    }
    char *password = strstr(text, "password=");
    for (char *c = password ? password + 9 : NULL; c && *c && *c != '&' && *c != ' ';
         c++) {
        *c = '*';
    }
}

/* ---- Settings -------------------------------------------------------------------------- */

static bg_err source_follow_parse(struct source *source, bg_errinfo *info)
{
    static const struct {
        const char *word;
        enum source_follow_by by;
    } words[] = { { "none", FOLLOW_NONE },
                  { "rowid", FOLLOW_ROWID },
                  { "appended", FOLLOW_APPENDED },
                  { "trigger", FOLLOW_TRIGGER },
                  { "notify", FOLLOW_NOTIFY } };
    const char *follow = source->how.follow;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(follow, words[i].word) == 0) {
            source->by = words[i].by;
            const bool numbered =
                source->by == FOLLOW_ROWID || source->by == FOLLOW_APPENDED;
            source->column = numbered ? strdup("rowid") : NULL;
            return numbered && !source->column ? source_no_memory(info) : BG_OK;
        }
    }
    const bool notified = strncmp(follow, "notify:", 7) == 0;
    if ((notified || strncmp(follow, "column:", 7) == 0) && follow[7]) {
        source->by = FOLLOW_COLUMN;
        source->listens = source->listens || notified;
        source->column = strdup(follow + 7);
        return source->column ? BG_OK : source_no_memory(info);
    }
    return source_error(
        info, BG_EINVAL, "follow",
        "none, rowid, appended, column:NAME, trigger, notify or notify:NAME", "%s",
        *follow ? follow : "nothing");
}

static bg_err source_url_parse(struct source *source, bg_errinfo *info)
{
    const char *url = source->how.url;
    if (strncmp(url, "sqlite:", 7) == 0) {
        source->ops = &source_sqlite_ops;
        source->place = url + 7;
        if (strncmp(source->place, "//", 2) == 0) {
            source->place += 2;
            if (*source->place != '/') {
                return source_error(info, BG_EINVAL, "source",
                                    "sqlite:///absolute/path or sqlite:relative", "%s",
                                    url);
            }
        }
        return BG_OK;
    }
    if (strncmp(url, "postgres://", 11) == 0
        || strncmp(url, "postgresql://", 13) == 0) {
        source->ops = &source_postgres_ops;
        source->place = url;
        return BG_OK;
    }
    char shown[64];
    source_show_url(url, shown, sizeof shown);
    return source_error(info, BG_EINVAL, "source",
                        "sqlite:PATH, postgres://... or postgresql://...", "%s",
                        *url ? shown : "nothing");
}

/* SQL without the semicolon and spaces at its end, so that it can stand in brackets. */
static char *source_sql(const char *text)
{
    char *sql = strdup(text ? text : "");
    for (size_t n = sql ? strlen(sql) : 0; n > 0 && strchr("; \t\r\n", sql[n - 1]);
         n--) {
        sql[n - 1] = 0;
    }
    return sql;
}

static bg_err source_copy(struct source *source, const struct source_settings *from,
                          bg_errinfo *info)
{
    struct source_settings *how = &source->how;
    *how = *from;
    how->name = strdup(from->name ? from->name : "");
    how->url = strdup(from->url ? from->url : "");
    how->query = source_sql(from->query);
    how->lookup = source_sql(from->lookup);
    how->count = source_sql(from->count);
    how->follow = strdup(from->follow ? from->follow : "");
    how->channel = from->channel && *from->channel
                       ? strdup(from->channel)
                       : source_format("bloomgate_%s", how->name ? how->name : "");
    source->listens = from->channel && *from->channel;
    how->poll_ms = from->poll_ms ? from->poll_ms : 500;
    how->timeout_ms = from->timeout_ms ? from->timeout_ms : 1000;
    how->connections = from->connections ? from->connections : 8;
    if (!how->name || !how->url || !how->query || !how->lookup || !how->count
        || !how->follow || !how->channel) {
        return source_no_memory(info);
    }
    if (!*how->query || !*how->lookup) {
        return source_error(info, BG_EINVAL, *how->query ? "lookup" : "query",
                            "an SQL statement", "nothing");
    }
    return BG_OK;
}

/* ---- Life ------------------------------------------------------------------------------ */

static struct source *source_make(void)
{
    struct source *source = calloc(1, sizeof *source);
    if (source) {
        atomic_init(&source->stopping, false);
        atomic_init(&source->looked_for, false);
        source->told = -1;
        source->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    return source;
}

static bg_err source_prepare(struct source *source,
                             const struct source_settings *settings, bg_errinfo *info)
{
    bg_err err = source->wake < 0
                     ? source_error(info, BG_EIO, "eventfd", "one", "errno %d", errno)
                     : BG_OK;
    err = err ? err : source_copy(source, settings, info);
    err = err ? err : source_url_parse(source, info);
    err = err ? err : source_follow_parse(source, info);
    err = err ? err : source->ops->create(source, info);
    if (!err) {
        source->pool =
            source_pool_make(&source->ops->pool, source, source->how.connections);
        err = source->pool ? BG_OK : source_no_memory(info);
    }
    return err;
}

bg_err source_create(const struct source_settings *settings, struct source **source,
                     bg_errinfo *info)
{
    *source = source_make();
    const bg_err err =
        *source ? source_prepare(*source, settings, info) : source_no_memory(info);
    if (err) {
        source_free(*source);
        *source = NULL;
    }
    return err;
}

void source_stop(struct source *source)
{
    atomic_store(&source->stopping, true);
    source_look(source);
    if (source->pool) {
        source_pool_close(source->pool);
    }
    if (source->has_thread) {
        (void)pthread_join(source->thread, NULL);
        source->has_thread = false;
    }
}

void source_free(struct source *source)
{
    if (!source) {
        return;
    }
    source_stop(source);
    source_pool_free(source->pool);
    if (source->ops) {
        source->ops->destroy(source);
    }
    const struct source_settings *how = &source->how;
    const char *texts[] = { how->name,  how->url,    how->query,  how->lookup,
                            how->count, how->follow, how->channel };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        free((void *)(uintptr_t)texts[i]);
    }
    free(source->column);
    if (source->wake >= 0) {
        (void)close(source->wake);
    }
    free(source);
}

/* ---- Questions ------------------------------------------------------------------------- */

bg_truth source_ask(struct source *source, const void *key, size_t len,
                    struct source_value *value, bg_errinfo *info)
{
    const uint64_t deadline =
        source_now() + source->how.timeout_ms * SOURCE_MILLISECOND;
    const bg_bytes bytes = { key ? key : "", key ? len : 0 };
    bg_truth answer = BG_TRUTH_ERROR;
    for (int again = 1;; again--) {
        void *connection;
        bool reused, broken = false;
        if (value) {
            source_value_set(value, NULL, 0);
        }
        if (source_pool_take(source->pool, deadline, !again, &connection, &reused,
                             info)) {
            return BG_TRUTH_ERROR;
        }
        answer =
            source->ops->ask(source, connection, bytes, value, deadline, &broken, info);
        source_pool_give(source->pool, connection, broken);
        if (answer != BG_TRUTH_ERROR || !broken || !reused || !again
            || source_now() >= deadline) {
            return answer;
        }
    }
}

bg_err source_check(struct source *source, bg_errinfo *info)
{
    return source->ops->check(source, info);
}

bg_err source_count(struct source *source, uint64_t *count, bg_errinfo *info)
{
    return source->ops->count(source, count, info);
}

/* ---- All keys -------------------------------------------------------------------------- */

bg_err source_keys_open(struct source *source, struct source_keys **keys,
                        bg_errinfo *info)
{
    *keys = calloc(1, sizeof **keys);
    if (!*keys) {
        return source_no_memory(info);
    }
    (*keys)->source = source;
    const bg_err err = source->ops->keys_open(source, &(*keys)->reader, info);
    if (err) {
        free(*keys);
        *keys = NULL;
    }
    return err;
}

bg_err source_keys_next(void *context, bg_bytes *to, size_t room, size_t *n,
                        bg_errinfo *info)
{
    struct source_keys *keys = context;
    key_batch_clear(&keys->batch);
    const bg_err err =
        source_is_stopping(keys->source)
            ? source_stopped(info)
            : keys->source->ops->keys_next(keys->reader, &keys->batch, room, info);
    *n = err ? 0 : keys->batch.n;
    if (*n) {
        memcpy(to, key_batch_keys(&keys->batch), *n * sizeof *to);
    }
    return err;
}

bg_err source_keys_rewind(void *context, bg_errinfo *info)
{
    struct source_keys *keys = context;
    return keys->source->ops->keys_rewind(keys->reader, info);
}

void source_keys_close(struct source_keys *keys)
{
    if (keys) {
        keys->source->ops->keys_close(keys->reader);
        key_batch_free(&keys->batch);
        free(keys);
    }
}

/* ---- The follower ---------------------------------------------------------------------- */

bool source_is_followed(const struct source *source)
{
    return source->by != FOLLOW_NONE;
}

static void *source_run(void *source)
{
    ((struct source *)source)->ops->follow(source);
    return NULL;
}

bg_err source_follow(struct source *source, const struct source_listener *listener,
                     bg_errinfo *info)
{
    if (!source_is_followed(source) || source->has_thread) {
        return source_error(info, BG_EINVAL, "follow",
                            "something to follow, and no follower yet", "%s",
                            source->how.follow);
    }
    source->listener = *listener;
    const int error = pthread_create(&source->thread, NULL, source_run, source);
    source->has_thread = error == 0;
    return error
               ? source_error(info, BG_EIO, "thread", "another one", "errno %d", error)
               : BG_OK;
}

void source_look(struct source *source)
{
    atomic_store(&source->looked_for, true);
    const uint64_t one = 1;
    const ssize_t written = write(source->wake, &one, sizeof one);
    (void)written; /* it fails when there is so much to do already */
}

bool source_pause(struct source *source, uint64_t nanoseconds, int fd)
{
    struct pollfd waits[2] = { { .fd = source->wake, .events = POLLIN },
                               { .fd = fd, .events = POLLIN } };
    const uint64_t ms = (nanoseconds + SOURCE_MILLISECOND - 1) / SOURCE_MILLISECOND;
    uint64_t count;
    if (poll(waits, 2, (int)(ms < 60000 ? ms : 60000)) > 0 && waits[0].revents) {
        const ssize_t got = read(source->wake, &count, sizeof count);
        (void)got;
    }
    return fd >= 0 && waits[1].revents != 0;
}

uint64_t source_rest(uint32_t failures)
{
    const uint64_t rest = 100 * SOURCE_MILLISECOND << (failures < 6 ? failures : 6);
    return rest < 5 * SOURCE_SECOND ? rest : 5 * SOURCE_SECOND;
}

void source_tell_anew(struct source *source, const char *why)
{
    source_pool_retry(source->pool);
    source->listener.anew(source->listener.context, why);
}

void source_tell_caught_up(struct source *source, uint64_t position, uint64_t since)
{
    if (source->told == 0) {
        source_pool_retry(source->pool);
    }
    source->listener.caught_up(source->listener.context, position, since);
}

void source_tell_state(struct source *source, bool up, const char *why)
{
    if (source->told != (int)up && !source_is_stopping(source)) {
        source->told = (int)up;
        source->listener.state(source->listener.context, up, why);
    }
}

void source_tell_keys(struct source *source, struct key_batch *batch)
{
    if (batch->n) {
        source->listener.changed(source->listener.context, key_batch_keys(batch),
                                 batch->n);
    }
    key_batch_clear(batch);
}

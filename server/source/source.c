/*
 * source.c - the code shared by all sources: settings, the connection pool and the follower's thread. Each database and
 * mode implements a table of operations (source/driver.h).
 *
 * A lookup uses a connection from the pool. A pooled connection may have died since it was last used, for example
 * because the server was restarted. In that case, all idle connections are closed, and the lookup is repeated once over
 * a new connection, within the same deadline. Lookups change nothing, so repeating one is harmless. A lookup that
 * reports an absent key is also repeated if the follower started a new epoch in the meantime.
 */
#include "clock.h"
#include "letters.h"
#include "source/driver.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct source_keys {
    struct source_reader *reader;
    struct key_batch batch;
};

/* ---- Helpers --------------------------------------------------------------------------- */

uint64_t source_now(void)
{
    return clock_nanoseconds();
}

bg_err source_error(bg_errinfo *info, bg_err code, const char *what,
                    const char *expected, const char *format, ...)
{
    if (!info) {
        return code;
    }
    char found[440];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    /* `info` is cleared only after formatting, because an argument may point into it. */
    memset(info, 0, sizeof *info);
    info->code = code;
    /* database messages may consist of several lines */
    for (char *c = found; *c; c++) {
        if (*c == '\n' || *c == '\t') {
            *c = ' ';
        }
    }
    for (size_t n = strlen(found); n > 0 && found[n - 1] == ' '; n--) {
        found[n - 1] = 0;
    }
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    (void)snprintf(info->found, sizeof info->found, "%.127s", found);
    if (!expected) {
        (void)snprintf(info->message, sizeof info->message, "%.30s: %s", what, found);
        return code;
    }
    (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
    (void)snprintf(info->message, sizeof info->message,
                   "%s: found %.200s, expected %.180s", what, found, expected);
    return code;
}

const char *source_reason(const bg_errinfo *info)
{
    const char *colon = strstr(info->message, ": ");
    return colon ? colon + 2 : info->message;
}

bg_err source_no_memory(bg_errinfo *info)
{
    return source_error(info, BG_ENOMEM, "memory", NULL, "out of memory");
}

bg_err source_stopped(bg_errinfo *info)
{
    return source_error(info, BG_ECANCELED, "source", NULL,
                        "canceled because the gate is being stopped");
}

char *source_vformat(const char *format, va_list arguments)
{
    char *text = NULL;
    return vasprintf(&text, format, arguments) < 0 ? NULL : text;
}

char *source_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = source_vformat(format, arguments);
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

char *source_object(const struct source *source, const char *what)
{
    char name[64];
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    size_t n = 0;
    for (const char *c = source->how.name; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
        if (n < 20) {
            const char low = letter_lower(*c);
            name[n++] = (char)(low == '-' || low == '.' ? '_' : low);
        }
    }
    name[n] = 0;
    /* The hash distinguishes names that differ only in case or punctuation, or only after byte 20. The two halves of
     * the hash are combined, because the last character hardly affects the upper bits. */
    return source_format("bloomgate_%s_%08x_%.8s%s%.12s", name,
                         (uint32_t)(hash ^ hash >> 32), source->how.instance,
                         *what ? "_" : "", what);
}

bg_err source_nonce(char text[17], bg_errinfo *info)
{
    uint64_t number;
    if (getentropy(&number, sizeof number) != 0) {
        return source_error(info, BG_EIO, "random number", NULL,
                            "getentropy failed (errno %d)", errno);
    }
    (void)snprintf(text, 17, "%016llx", (unsigned long long)number);
    return BG_OK;
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
    for (char *c = text; (c = strstr(c, "password=")) != NULL;) { /* also sslpassword */
        for (c += 9; *c && *c != '&' && *c != ' '; c++) {
            *c = '*';
        }
    }
}

/* ---- Settings -------------------------------------------------------------------------- */

static bg_err source_follow_parse(struct source *source, bg_errinfo *info)
{
    static const char *const words[] = { "none", "logical", "changes" };
    const char *follow = source->how.follow, *promise = source->how.promise;
    size_t by = 0;
    while (by < sizeof words / sizeof *words && strcmp(follow, words[by]) != 0) {
        by++;
    }
    if (by == sizeof words / sizeof *words) {
        return source_error(info, BG_EINVAL, "follow", "logical, changes or none", "%s",
                            *follow ? follow : "nothing");
    }
    source->by = (enum source_follow_by)by;
    const bool promised =
        strcmp(promise, "read-only") == 0 || strcmp(promise, "writers-report") == 0;
    if (source->by == FOLLOW_NONE && !promised) {
        return source_error(info, BG_EINVAL, "promise",
                            "read-only or writers-report, because follow=none cannot "
                            "detect changes",
                            "%s", *promise ? promise : "nothing");
    }
    return source->by == FOLLOW_NONE || !*promise
               ? BG_OK
               : source_error(info, BG_EINVAL, "promise", NULL,
                              "%s is allowed only with follow=none; remove the setting",
                              promise);
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

/* Returns a copy of the SQL without trailing semicolons and blanks. */
static char *source_sql(const char *text)
{
    char *sql = strdup(text ? text : "");
    for (size_t n = sql ? strlen(sql) : 0; n > 0 && strchr("; \t\r\n", sql[n - 1]);
         n--) {
        sql[n - 1] = 0;
    }
    return sql;
}

static char *source_text(const char *text)
{
    return strdup(text ? text : "");
}

static bg_err source_copy(struct source *source, const struct source_settings *from,
                          bg_errinfo *info)
{
    struct source_settings *how = &source->how;
    *how = *from;
    how->name = source_text(from->name);
    how->instance = source_text(from->instance);
    how->url = source_text(from->url);
    how->keys = source_text(from->keys);
    how->lookup = source_sql(from->lookup);
    how->follow = source_text(from->follow);
    how->promise = source_text(from->promise);
    how->script = source_text(from->script);
    how->poll_ms = from->poll_ms ? from->poll_ms : 500;
    how->timeout_ms = from->timeout_ms ? from->timeout_ms : 1000;
    how->connections = from->connections ? from->connections : 8;
    return how->name && how->instance && how->url && how->keys && how->lookup
                   && how->follow && how->promise && how->script
               ? BG_OK
               : source_no_memory(info);
}

/* Parses the key columns, and derives `lookup` if it is not specified. */
static bg_err source_columns_parse(struct source *source, bg_errinfo *info)
{
    /* If the URL is invalid, accepts what either database would. */
    const bool postgres = source->ops != &source_sqlite_ops;
    const bg_err err =
        key_columns_parse(source->how.keys, postgres, &source->columns, info);
    if (err || *source->how.lookup) {
        return err;
    }
    if (source->how.rows && source->columns.n > 1) {
        return source_error(info, BG_EINVAL, "rows", NULL,
                            "rows=yes with several key columns requires `lookup`, the "
                            "SELECT that returns the row");
    }
    free((void *)(uintptr_t)source->how.lookup);
    source->how.lookup =
        key_columns_lookup(&source->columns, source->how.rows ? "*" : "1",
                           postgres ? "OPERATOR(pg_catalog.=) $1" : "= ?1");
    return source->how.lookup ? BG_OK : source_no_memory(info);
}

/* ---- Life ------------------------------------------------------------------------------ */

static struct source *source_make(void)
{
    struct source *source = calloc(1, sizeof *source);
    if (source) {
        atomic_init(&source->stopping, false);
        atomic_init(&source->looked_for, false);
        atomic_init(&source->form, KEY_FORM_UNKNOWN);
        atomic_init(&source->prints_hex, false);
        atomic_init(&source->epoch, 0);
        (void)pthread_mutex_init(&source->lock, NULL);
        source->told = -1;
        source->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    return source;
}

static bg_err source_prepare(struct source *source,
                             const struct source_settings *settings, bg_errinfo *info)
{
    bg_err err =
        source->wake < 0
            ? source_error(info, BG_EIO, "eventfd", NULL,
                           "cannot create an event descriptor (errno %d)", errno)
            : BG_OK;
    err = err ? err : source_copy(source, settings, info);
    err = err ? err : source_url_parse(source, info);
    err = err ? err : source_follow_parse(source, info);
    err = err ? err : source_columns_parse(source, info);
    err = err ? err : source->ops->create(source, info);
    if (!err && source->mode->create) {
        err = source->mode->create(source, info);
    }
    if (!err) {
        source->pool =
            source_pool_make(&source->ops->pool, source, source->how.connections);
        err = source->pool ? BG_OK : source_no_memory(info);
    }
    return err;
}

/* Runs one check. Returns whether it passed. */
static bool source_passes(bg_err (*check)(struct source *source, bg_errinfo *info),
                          struct source *source, source_tell *tell, void *context)
{
    bg_errinfo info = { .code = BG_OK };
    const bg_err err = check(source, &info);
    if (err) {
        tell(context, &info);
    }
    return !err;
}

void source_check(const struct source_settings *settings, source_tell *tell,
                  void *context)
{
    struct source *source = source_make();
    bg_errinfo info = { .code = BG_OK };
    if (!source || source_copy(source, settings, &info)) {
        (void)source_no_memory(&info);
        tell(context, &info);
        source_free(source);
        return;
    }
    const struct source_settings *how = &source->how;
    bool good = *how->url && source_passes(source_url_parse, source, tell, context);
    good = *how->follow && source_passes(source_follow_parse, source, tell, context)
           && good;
    const bool columns =
        *how->keys && source_passes(source_columns_parse, source, tell, context);
    good = good && source_passes(source->ops->create, source, tell, context);
    if (good && columns && source->mode->create) {
        (void)source_passes(source->mode->create, source, tell, context);
    }
    source_free(source);
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
    if (source->mode && source->mode->destroy) {
        source->mode->destroy(source);
    }
    const struct source_settings *how = &source->how;
    const char *texts[] = { how->name,   how->instance, how->url,     how->keys,
                            how->lookup, how->follow,   how->promise, how->script };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        free((void *)(uintptr_t)texts[i]);
    }
    key_columns_free(&source->columns);
    (void)pthread_mutex_destroy(&source->lock);
    if (source->wake >= 0) {
        (void)close(source->wake);
    }
    free(source);
}

/* ---- Lookups --------------------------------------------------------------------------- */

/* Looks up a key once. Sets *again if the lookup may succeed over a different connection. */
static bg_store_answer source_ask_once(struct source *source, bg_bytes key, bool fresh,
                                       struct store_row *row, uint64_t deadline,
                                       bool *again, bg_errinfo *info)
{
    void *connection;
    bool reused, broken = false;
    const uint64_t epoch = atomic_load(&source->epoch);
    store_row_clear(row);
    *again = false;
    if (source_pool_take(source->pool, deadline, fresh, &connection, &reused, info)) {
        return BG_STORE_ERROR;
    }
    const bg_store_answer answer =
        source->ops->ask(source, connection, key, row, deadline, &broken, info);
    source_pool_give(source->pool, connection, broken);
    /* If the epoch changed, the address may now point to a different server. */
    *again = (answer == BG_STORE_ERROR && broken && reused)
             || (answer == BG_STORE_ABSENT && epoch != atomic_load(&source->epoch));
    return answer;
}

bg_store_answer source_ask(struct source *source, const void *key, size_t len,
                           struct store_row *row, bg_errinfo *info)
{
    const uint64_t deadline =
        source_now() + source->how.timeout_ms * SOURCE_MILLISECOND;
    const bg_bytes bytes = { key ? key : "", key ? len : 0 };
    bool again = false;
    bg_store_answer answer =
        source_ask_once(source, bytes, false, row, deadline, &again, info);
    if (again && source_now() < deadline) {
        answer = source_ask_once(source, bytes, true, row, deadline, &again, info);
    }
    if (again && answer == BG_STORE_ABSENT) {
        (void)source_error(info, BG_EIO, "lookup", NULL,
                           "the source restarted during the lookup; retry the lookup");
        answer = BG_STORE_ERROR;
    }
    return answer;
}

bg_err source_check_lookup(struct source *source, bg_errinfo *info)
{
    return source->ops->check(source, info);
}

bg_err source_count(struct source *source, uint64_t *count, bg_errinfo *info)
{
    return source->ops->count(source, count, info);
}

enum key_form source_form(const struct source *source)
{
    return (enum key_form)atomic_load_explicit(&source->form, memory_order_relaxed);
}

/* ---- All keys -------------------------------------------------------------------------- */

bg_err source_keys_open(struct source *source, struct source_keys **keys,
                        bg_errinfo *info)
{
    struct source_reader *reader = calloc(1, source->mode->reader_size);
    *keys = calloc(1, sizeof **keys);
    if (!*keys || !reader) {
        free(reader);
        free(*keys);
        *keys = NULL;
        return source_no_memory(info);
    }
    reader->source = source;
    (*keys)->reader = reader;
    return BG_OK;
}

static bg_err source_keys_begin(struct source_reader *reader, bg_errinfo *info)
{
    const struct source_mode *mode = reader->source->mode;
    const bg_err err = mode->keys_begin(reader, info);
    reader->is_open = !err;
    if (err) {
        mode->keys_end(reader);
    }
    return err;
}

bg_err source_keys_next(void *context, bg_bytes *to, size_t room, size_t *n,
                        bg_errinfo *info)
{
    struct source_keys *keys = context;
    struct source_reader *reader = keys->reader;
    const struct source_mode *mode = reader->source->mode;
    key_batch_clear(&keys->batch);
    bg_err err = source_is_stopping(reader->source) ? source_stopped(info) : BG_OK;
    if (!err && !reader->is_open) {
        err = source_keys_begin(reader, info);
    }
    err = err ? err : mode->keys_next(reader, &keys->batch, room, info);
    if (!err && keys->batch.n == 0 && mode->keys_prove) {
        err = mode->keys_prove(reader, info);
    }
    *n = err ? 0 : keys->batch.n;
    if (*n) {
        memcpy(to, key_batch_keys(&keys->batch), *n * sizeof *to);
    }
    return err;
}

bg_err source_keys_rewind(void *context, bg_errinfo *info)
{
    struct source_reader *reader = ((struct source_keys *)context)->reader;
    (void)info;
    reader->source->mode->keys_end(reader);
    reader->is_open = false;
    return BG_OK;
}

void source_keys_close(struct source_keys *keys)
{
    if (keys) {
        (void)source_keys_rewind(keys, NULL);
        key_batch_free(&keys->batch);
        free(keys->reader);
        free(keys);
    }
}

/* ---- The follower ---------------------------------------------------------------------- */

bool source_is_followed(const struct source *source)
{
    return source->mode->follow != NULL;
}

static void *source_run(void *source)
{
    ((struct source *)source)->mode->follow(source);
    return NULL;
}

bg_err source_follow(struct source *source, const struct source_listener *listener,
                     const char *mark, bg_errinfo *info)
{
    if (!source_is_followed(source)) {
        return source_error(info, BG_EINVAL, "follow", NULL, "mode %s has no follower",
                            source->how.follow);
    }
    if (source->has_thread) {
        return source_error(info, BG_EINVAL, "follow", NULL,
                            "the follower is already running");
    }
    source->listener = *listener;
    (void)snprintf(source->resume, sizeof source->resume, "%s", mark ? mark : "");
    (void)snprintf(source->saved, sizeof source->saved, "%s", source->resume);
    const int error = pthread_create(&source->thread, NULL, source_run, source);
    source->has_thread = error == 0;
    return error ? source_error(info, BG_EIO, "thread", NULL,
                                "cannot start a thread (errno %d)", error)
                 : BG_OK;
}

void source_look(struct source *source)
{
    atomic_store(&source->looked_for, true);
    const uint64_t one = 1;
    const ssize_t written = write(source->wake, &one, sizeof one);
    /* The write fails only if the counter is full, in which case the follower is already awake. */
    (void)written;
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

void source_distrust(struct source *source, const char *why)
{
    (void)pthread_mutex_lock(&source->lock);
    (void)snprintf(source->distrust, sizeof source->distrust, "%s", why);
    (void)pthread_mutex_unlock(&source->lock);
    source_look(source);
}

bool source_is_distrusted(struct source *source, char *why, size_t room)
{
    (void)pthread_mutex_lock(&source->lock);
    const bool distrusted = source->distrust[0] != 0;
    (void)snprintf(why, room, "%s", source->distrust);
    source->distrust[0] = 0;
    (void)pthread_mutex_unlock(&source->lock);
    return distrusted;
}

void source_saved(struct source *source, const char *mark, uint64_t epoch)
{
    (void)pthread_mutex_lock(&source->lock);
    if (epoch == atomic_load(&source->epoch)) {
        (void)snprintf(source->saved, sizeof source->saved, "%s", mark);
    }
    (void)pthread_mutex_unlock(&source->lock);
}

void source_last_saved(struct source *source, char mark[SOURCE_MARK])
{
    (void)pthread_mutex_lock(&source->lock);
    memcpy(mark, source->saved, SOURCE_MARK);
    (void)pthread_mutex_unlock(&source->lock);
}

void source_tell_restart(struct source *source, const char *why)
{
    (void)pthread_mutex_lock(&source->lock);
    source->saved[0] = 0; /* marks from earlier epochs are now invalid */
    (void)atomic_fetch_add(&source->epoch, 1);
    (void)pthread_mutex_unlock(&source->lock);
    source_pool_retry(source->pool);
    source->listener.restart(source->listener.context, why);
}

void source_tell_doubt(struct source *source, const char *why)
{
    /* The type of the key column may have changed. */
    atomic_store(&source->form, KEY_FORM_UNKNOWN);
    source->listener.doubt(source->listener.context, why);
}

void source_tell_resumed(struct source *source)
{
    source_pool_retry(source->pool);
    source->listener.resumed(source->listener.context);
}

void source_tell_caught_up(struct source *source, const struct source_proof *proof)
{
    if (source->told == 0) {
        source_pool_retry(source->pool);
    }
    struct source_proof complete = *proof;
    complete.epoch = atomic_load(&source->epoch);
    source->listener.caught_up(source->listener.context, &complete);
}

void source_tell_state(struct source *source, bool up, const char *why)
{
    char text[sizeof source->told_why];
    (void)snprintf(text, sizeof text, "%s", why);
    if ((source->told != (int)up || strcmp(source->told_why, text) != 0)
        && !source_is_stopping(source)) {
        source->told = (int)up;
        memcpy(source->told_why, text, sizeof text);
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

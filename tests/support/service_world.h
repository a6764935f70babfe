/*
 * service_world.h - a service in a directory, without sockets or threads: settings, keyring,
 * catalog, journal and files, and a client that sends commands as text.
 *
 *     struct world w;
 *     CHECK(world_open(&w, folder, "appendfsync always\n"));
 *     CHECK_STR(world_ask(&w, "BF.ADD k a"), ":1");
 *     CHECK(world_ack(&w));                  // replies are as durable as the policy requires
 *     world_crash(&w);                       // or world_close
 *
 * The journal's own thread is stopped. world_ack does the thread's work, so that disk calls are
 * always made in the same order.
 */
#ifndef TESTS_SERVICE_WORLD_H
#define TESTS_SERVICE_WORLD_H

#include "support/check.h"

#include "clock.h"
#include "core/server.h"
#include "journal/state.h"
#include "main/run.h"
#include "main/startup.h"
#include "persist/state.h"
#include "request/session.h"
#include "resp/resp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct world {
    struct server server;
    struct session
        session; /* a session like that of a background job: no work is deferred */
    struct client client;
    struct buffer out;
    char config[600];
    char *argv[3];
    char said[1 << 16]; /* the last reply */
    bg_errinfo why;
};

static inline void world_write_config(struct world *w, const char *folder,
                                      const char *lines)
{
    (void)snprintf(w->config, sizeof w->config, "%s.conf", folder);
    FILE *file = fopen(w->config, "we");
    if (!file) {
        abort();
    }
    (void)fprintf(file,
                  "port 0\nhttp-port 0\nunixsocket %s.sock\ndir %s\n"
                  "keyring %s.keyring\n%s",
                  folder, folder, folder, lines);
    (void)fclose(file);
}

static inline void world_free(struct world *w)
{
    struct server *server = &w->server;
    buffer_free(&w->out);
    if (w->session.server) {
        session_fini(&w->session);
    }
    persist_free(server->persist);
    catalog_free(server->catalog);
    command_table_free(server->commands);
    users_free(server->users);
    keyrings_free(server->keyrings);
    settings_store_free(server->store);
}

/* Applies the settings that this world needs, as the service's settings listener does. */
static inline bool world_apply(void *context, const struct settings *settings,
                               char why[])
{
    const struct server *server = context;
    (void)why;
    if (server->persist) {
        persist_apply(server->persist, settings);
    }
    return true;
}

static inline bool world_make(struct world *w)
{
    struct server *server = &w->server;
    char why[SETTINGS_WHY];
    bg_keyring *ring = NULL;
    bool made = false;
    w->argv[0] = (char *)(uintptr_t) "bloomgated";
    w->argv[1] = (char *)(uintptr_t) "--config";
    w->argv[2] = w->config;
    if (settings_from_command_line(3, w->argv, server_families, server_families_count,
                                   &server->store)
        != SETTINGS_RUN) {
        check_fail(__FILE__, __LINE__, "settings");
    }
    quiet_init(&server->quiet);
    server->started = clock_now();
    server->commands = command_table_create(server_families, server_families_count);
    server->users = users_create(server_families, server_families_count);
    CHECK(users_load(server->users, settings_now(server->store), why));
    CHECK_OK(catalog_create(&server->quiet, &server->catalog, &w->why));
    CHECK(startup_keyring(settings_now(server->store)->keyring, &ring, &made, why));
    CHECK((server->keyrings = keyrings_create(ring)) != NULL);
    CHECK(session_init(&w->session, server, true));
    w->client.protocol = 2;
    w->client.user = users_default(server->users);
    atomic_store(&server->phase, SERVER_SERVING);
    settings_listen(server->store, world_apply, server);
    return !persist_create(server, &server->persist, &w->why)
           && !persist_load(server->persist, NULL, NULL, &w->why);
}

/* Returns false if the service cannot be opened. In that case, w->why contains the reason, and the
 * world is closed. */
static inline bool world_open(struct world *w, const char *folder, const char *lines)
{
    memset(w, 0, sizeof *w);
    (void)mkdir(folder, 0700);
    world_write_config(w, folder, lines);
    buffer_init(&w->out, 1 << 28);
    if (!world_make(w)) {
        world_free(w);
        return false;
    }
    journal_stop(w->server.persist->journal);
    return true;
}

/* Closes the world in an orderly way, after writing all records. */
static inline void world_close(struct world *w)
{
    world_free(w);
}

/* Crashes the world as kill -9 does, so all unwritten data is lost. */
static inline void world_crash(struct world *w)
{
    w->server.persist->journal->begun = false;
    world_free(w);
}

/* Does what the journal's thread and a worker do before replies are sent. Returns false on
 * failure. */
static inline bool world_ack(struct world *w)
{
    struct persist *persist = w->server.persist;
    struct journal_state state;
    bg_errinfo why;
    const bg_err err = settings_now(w->server.store)->appendfsync == FSYNC_ALWAYS
                           ? journal_sync(persist->journal, &why)
                           : persist_flush(persist, &why);
    journal_about(persist->journal, &state);
    persist_told(persist, journal_durable(persist->journal), &state.failure);
    return !err;
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Formats a RESP2 reply as text: ":1", "+OK", "-ERR x", "$bytes", "[:1 :0]", "nil". */
static inline const char *world_read(const char *at, char **to)
{
    const char *end = strstr(at, "\r\n");
    const long n = at[0] == '$' || at[0] == '*' ? strtol(at + 1, NULL, 10) : 0;
    const char *next = end + 2;
    if (n < 0) {
        *to += sprintf(*to, "nil");
    } else if (at[0] == '$') {
        *to += sprintf(*to, "$%.*s", (int)n, next);
        next += n + 2;
    } else if (at[0] == '*') {
        *to += sprintf(*to, "[");
        for (long i = 0; i < n; i++) {
            *to += sprintf(*to, "%s", i ? " " : "");
            next = world_read(next, to);
        }
        *to += sprintf(*to, "]");
    } else {
        *to += sprintf(*to, "%.*s", (int)(end - at), at);
    }
    return next;
}

static inline const char *world_run(struct world *w, const bg_bytes *argv, size_t argc)
{
    char *to = w->said;
    const struct reply reply = resp_reply_to(&w->out, 2);
    buffer_clear(&w->out, SIZE_MAX);
    session_begin(&w->session);
    session_run(&w->session, &w->client, argv, argc, &reply);
    session_end(&w->session);
    catalog_reap(w->server.catalog);
    CHECK(!w->session.deferred);
    CHECK(buffer_waiting(&w->out) < sizeof w->said / 2);
    buffer_put(&w->out, "", 1);
    (void)world_read(w->out.data + w->out.begin, &to);
    return w->said;
}

/* Runs a command whose words are separated by spaces. */
static inline const char *world_ask(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline const char *world_ask(struct world *w, const char *format, ...)
{
    static char text[1 << 16];
    bg_bytes argv[600];
    size_t argc = 0;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word && argc < 600;
         word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = (bg_bytes){ word, strlen(word) };
    }
    return world_run(w, argv, argc);
}

/* Adds the keys k<from> to k<to - 1>. */
static inline void world_add(struct world *w, const char *name, unsigned from,
                             unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        CHECK(world_ask(w, "BG.ADD %s k%u", name, i)[0] == ':');
    }
}

/* Checks that no lookup of these keys answers "no". */
static inline void world_has(struct world *w, const char *name, unsigned from,
                             unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        if (strcmp(world_ask(w, "BG.EXISTS %s k%u", name, i), ":1") != 0) {
            check_fail(__FILE__, __LINE__, "%s k%u: %s", name, i, w->said);
        }
    }
}

#endif

/*
 * source_world.h - a SQLite database in a folder of its own, and a listener that remembers what a
 * follower tells; for the tests of sources and gates.
 */
#ifndef TESTS_SOURCE_WORLD_H
#define TESTS_SOURCE_WORLD_H

#include "support/check.h"
#include "support/scratch.h"

#include "source.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct world {
    char folder[256];
    char path[288];
    char url[320];
    sqlite3 *db; /* the writer's */
};

/* Does as the SQL says, over a connection; a failure is one of the test. */
static inline void world_do_on(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", sql, why ? why : "?");
    }
    sqlite3_free(why);
}

__attribute__((format(printf, 2, 3))) static inline void
world_do(struct world *w, const char *format, ...)
{
    char sql[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    world_do_on(w->db, sql);
}

static inline void world_open(struct world *w)
{
    CHECK(sqlite3_open(w->path, &w->db) == SQLITE_OK);
    (void)sqlite3_busy_timeout(w->db, 30000);
}

/* A folder with a database that has a log, unless `plain`. */
static inline void world_begin(struct world *w, bool plain)
{
    (void)snprintf(w->folder, sizeof w->folder, "%s", scratch_fresh());
    (void)snprintf(w->path, sizeof w->path, "%s/truth.db", w->folder);
    (void)snprintf(w->url, sizeof w->url, "sqlite://%s", w->path);
    world_open(w);
    world_do_on(w->db,
                plain ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
    world_do_on(w->db, "PRAGMA synchronous = OFF");
}

static inline void world_end(struct world *w)
{
    (void)sqlite3_close(w->db);
}

/* products (id, sku, name), with n of them: sku-0 ... */
static inline void world_products(struct world *w, int n)
{
    world_do(w, "CREATE TABLE products (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                " sku TEXT UNIQUE, name TEXT)");
    world_do(
        w,
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < %d)"
        " INSERT INTO products (sku, name) SELECT 'sku-' || i, 'name ' || i FROM c"
        " WHERE i < %d",
        n, n);
}

static inline struct source_settings world_settings(const struct world *w)
{
    return (struct source_settings){ .name = "products",
                                     .url = w->url,
                                     .query = "SELECT sku, id FROM products",
                                     .lookup =
                                         "SELECT name FROM products WHERE sku = ?",
                                     .follow = "rowid",
                                     .overlap = -1,
                                     .poll_ms = 5,
                                     .timeout_ms = 20000 };
}

/* ---- Listening --------------------------------------------------------------------------- */

enum { EAR_KEYS = 1 << 16 };

struct ear {
    pthread_mutex_t lock;
    pthread_cond_t told;
    char *keys[EAR_KEYS];
    size_t n;
    uint64_t anew, caught_up, position, since;
    int up; /* -1: not told */
    char why[256];
};

static inline void ear_anew(void *context, const char *why)
{
    struct ear *ear = context;
    (void)pthread_mutex_lock(&ear->lock);
    ear->anew++;
    (void)snprintf(ear->why, sizeof ear->why, "%s", why);
    (void)pthread_cond_broadcast(&ear->told);
    (void)pthread_mutex_unlock(&ear->lock);
}

static inline void ear_changed(void *context, const bg_bytes *keys, size_t n)
{
    struct ear *ear = context;
    (void)pthread_mutex_lock(&ear->lock);
    for (size_t i = 0; i < n && ear->n < EAR_KEYS; i++) {
        char *copy = malloc(keys[i].len + 1);
        if (copy) {
            memcpy(copy, keys[i].data, keys[i].len);
            copy[keys[i].len] = 0;
            ear->keys[ear->n++] = copy;
        }
    }
    (void)pthread_cond_broadcast(&ear->told);
    (void)pthread_mutex_unlock(&ear->lock);
}

static inline void ear_caught_up(void *context, uint64_t position, uint64_t since)
{
    struct ear *ear = context;
    (void)pthread_mutex_lock(&ear->lock);
    ear->caught_up++;
    ear->position = position;
    ear->since = since;
    (void)pthread_cond_broadcast(&ear->told);
    (void)pthread_mutex_unlock(&ear->lock);
}

static inline void ear_state(void *context, bool up, const char *why)
{
    struct ear *ear = context;
    (void)pthread_mutex_lock(&ear->lock);
    ear->up = up;
    if (!up) {
        (void)snprintf(ear->why, sizeof ear->why, "%s", why);
    }
    (void)pthread_cond_broadcast(&ear->told);
    (void)pthread_mutex_unlock(&ear->lock);
}

static inline struct ear *ear_create(void)
{
    struct ear *ear = calloc(1, sizeof *ear);
    CHECK(ear);
    (void)pthread_mutex_init(&ear->lock, NULL);
    (void)pthread_cond_init(&ear->told, NULL);
    ear->up = -1;
    return ear;
}

static inline void ear_free(struct ear *ear)
{
    for (size_t i = 0; i < ear->n; i++) {
        free(ear->keys[i]);
    }
    (void)pthread_cond_destroy(&ear->told);
    (void)pthread_mutex_destroy(&ear->lock);
    free(ear);
}

static inline void ear_follow(struct ear *ear, struct source *source)
{
    const struct source_listener listener = { ear, ear_anew, ear_changed, ear_caught_up,
                                              ear_state };
    bg_errinfo why;
    CHECK_OK(source_follow(source, &listener, &why));
}

/* With the lock: waits for the next thing that is told; false: for a minute in vain. */
static inline bool ear_wait(struct ear *ear)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    return pthread_cond_timedwait(&ear->told, &ear->lock, &until) == 0;
}

/* Waits until the condition holds. */
#define EAR_AWAIT(ear, condition)                                                      \
    do {                                                                               \
        (void)pthread_mutex_lock(&(ear)->lock);                                        \
        bool in_time_ = true;                                                          \
        while (!(condition) && in_time_) {                                             \
            in_time_ = ear_wait(ear);                                                  \
        }                                                                              \
        const bool holds_ = (condition);                                               \
        (void)pthread_mutex_unlock(&(ear)->lock);                                      \
        if (!holds_) {                                                                 \
            check_fail(__FILE__, __LINE__, "in vain: %s", #condition);                 \
        }                                                                              \
    } while (0)

/* Waits until everything that is committed by now is told. */
static inline void ear_await_now(struct ear *ear, struct source *source)
{
    const uint64_t now = source_now();
    source_look(source);
    EAR_AWAIT(ear, ear->since >= now);
}

static inline size_t ear_heard(struct ear *ear, const char *key)
{
    size_t times = 0;
    (void)pthread_mutex_lock(&ear->lock);
    for (size_t i = 0; i < ear->n; i++) {
        times += strcmp(ear->keys[i], key) == 0;
    }
    (void)pthread_mutex_unlock(&ear->lock);
    return times;
}

#endif

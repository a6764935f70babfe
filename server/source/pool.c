/*
 * source/pool.c - a stack of idle connections, protected by a lock.
 *
 * The most recently used connection is reused first, so few connections are used under low load. Connecting can take a
 * long time, so the lock is not held while connecting. `total` includes the connections that are being opened.
 */
#include "source/pool.h"

#include "source/driver.h"
#include "util/timed.h"

#include <stdlib.h>
#include <time.h>

enum { POOL_MAX = 64 };

struct source_pool {
    const struct pool_ops *ops;
    void *owner;
    pthread_mutex_t lock;
    pthread_cond_t returned;
    void *idle[POOL_MAX];
    uint32_t idle_count, total, most;
    uint32_t failures;   /* number of consecutive failures to connect */
    uint64_t rest_until; /* end of the backoff, if `failures` is not 0 */
    bool trying;         /* a caller is retrying after failures */
    bool closed;
    bg_errinfo last; /* the last failure */
};

struct source_pool *source_pool_make(const struct pool_ops *ops, void *owner,
                                     uint32_t most)
{
    struct source_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    pool->ops = ops;
    pool->owner = owner;
    pool->most = most < POOL_MAX ? most : POOL_MAX;
    (void)pthread_mutex_init(&pool->lock, NULL);
    timed_init(&pool->returned);
    return pool;
}

void source_pool_free(struct source_pool *pool)
{
    if (!pool) {
        return;
    }
    for (uint32_t i = 0; i < pool->idle_count; i++) {
        pool->ops->disconnect(pool->idle[i]);
    }
    (void)pthread_cond_destroy(&pool->returned);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Returns whether the pool is backing off. If so, copies the last error to `info`. The caller holds
 * the lock. */
static bool source_pool_rests(const struct source_pool *pool, bg_errinfo *info)
{
    if (!pool->failures || (!pool->trying && source_now() >= pool->rest_until)) {
        return false;
    }
    if (info) {
        *info = pool->last;
    }
    return true;
}

/* Opens a connection. The caller holds the lock, which is released while connecting. */
static bg_err source_pool_connect(struct source_pool *pool, uint64_t deadline,
                                  void **connection, bg_errinfo *info)
{
    bg_errinfo why = { .code = BG_OK };
    pool->total++;
    pool->trying = pool->failures > 0;
    (void)pthread_mutex_unlock(&pool->lock);
    const bg_err err = pool->ops->connect(pool->owner, deadline, connection, &why);
    (void)pthread_mutex_lock(&pool->lock);
    pool->trying = false;
    if (err) {
        pool->total--;
        (void)pthread_cond_signal(&pool->returned);
    }
    if (err && err != BG_EBUSY) {
        pool->rest_until = source_now() + source_rest(pool->failures++);
        pool->last = why;
    } else {
        pool->failures = 0;
    }
    if (err && info) {
        *info = why;
    }
    return err;
}

/* Removes and returns the topmost usable idle connection, or NULL if there is none. The caller holds the
 * lock. */
static void *source_pool_pop(struct source_pool *pool)
{
    while (pool->idle_count > 0) {
        void *connection = pool->idle[--pool->idle_count];
        if (!pool->ops->is_fresh || pool->ops->is_fresh(pool->owner, connection)) {
            return connection;
        }
        pool->total--;
        pool->ops->disconnect(connection);
    }
    return NULL;
}

/* Waits until a connection is returned to the pool. Returns false if the deadline passes first. The caller holds
 * the lock. */
static bool source_pool_wait(struct source_pool *pool, uint64_t deadline)
{
    return timed_wait(&pool->returned, &pool->lock, deadline)
           || source_now() < deadline;
}

bg_err source_pool_take(struct source_pool *pool, uint64_t deadline, bool fresh,
                        void **connection, bool *reused, bg_errinfo *info)
{
    bg_err err = BG_OK;
    bool in_time = true;
    *connection = NULL;
    *reused = false;
    (void)pthread_mutex_lock(&pool->lock);
    while (!err && !*connection) {
        if (pool->closed) {
            err = source_stopped(info);
        } else if (!fresh && (*connection = source_pool_pop(pool))) {
            *reused = true;
        } else if (source_pool_rests(pool, info)) {
            err = pool->last.code;
        } else if (pool->total < pool->most) {
            err = source_pool_connect(pool, deadline, connection, info);
        } else if (fresh && pool->idle_count > 0) {
            /* Close the idle connection so that a new connection can be opened. */
            pool->total--;
            pool->ops->disconnect(pool->idle[--pool->idle_count]);
        } else if (!in_time) {
            err = source_error(info, BG_EBUSY, "connections", NULL,
                               "all %u connections are in use; raise `connections`",
                               pool->most);
        } else {
            in_time = source_pool_wait(pool, deadline);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return err;
}

void source_pool_give(struct source_pool *pool, void *connection, bool broken)
{
    void *away[POOL_MAX + 1];
    uint32_t n = 0;
    (void)pthread_mutex_lock(&pool->lock);
    if (broken) {
        away[n++] = connection;
        while (pool->idle_count > 0) {
            away[n++] = pool->idle[--pool->idle_count];
        }
        pool->total -= n;
    } else {
        pool->idle[pool->idle_count++] = connection;
    }
    (void)pthread_cond_signal(&pool->returned);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < n; i++) {
        pool->ops->disconnect(away[i]);
    }
}

void source_pool_retry(struct source_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->failures = 0;
    (void)pthread_mutex_unlock(&pool->lock);
}

void source_pool_close(struct source_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    (void)pthread_cond_broadcast(&pool->returned);
    (void)pthread_mutex_unlock(&pool->lock);
}

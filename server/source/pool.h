/*
 * source/pool.h - a pool of connections for lookups.
 *
 * A thread takes a connection from the pool, runs its lookup, and returns the connection. If no connection is idle, the
 * pool opens a new one, up to a maximum. If all connections are busy, the caller waits until its deadline.
 *
 * If connecting fails, the pool backs off for 0.1 seconds. The backoff doubles after every further failure, up to 5
 * seconds. During the backoff, calls that need a new connection fail immediately with the last error. After the
 * backoff, one caller retries. BG_EBUSY (a locked database) does not start a backoff, because the lock may be
 * released at any time.
 *
 * Thread safety: all functions except source_pool_make and source_pool_free are MT-Safe.
 */
#ifndef SERVER_SOURCE_POOL_H
#define SERVER_SOURCE_POOL_H

#include "bloomgate/err.h"

#include <stdbool.h>
#include <stdint.h>

struct source_pool;

struct pool_ops {
    bg_err (*connect)(void *owner, uint64_t deadline, void **connection,
                      bg_errinfo *info);
    void (*disconnect)(void *connection);
    /* Checks, without a round trip, whether an idle connection is still usable. NULL means that all idle connections
     * are usable. */
    bool (*is_fresh)(void *owner, void *connection);
};

struct source_pool *source_pool_make(const struct pool_ops *ops, void *owner,
                                     uint32_t most);
void source_pool_free(
    struct source_pool *pool); /* all connections must have been returned */

/* Takes a connection. Sets *reused if the connection was idle in the pool, in which case it may be broken. `fresh`
 * requires a new connection.
 * Errors: any error from connect; BG_EBUSY if all connections are busy; BG_ECANCELED if the pool is
 * closed. */
bg_err source_pool_take(struct source_pool *pool, uint64_t deadline, bool fresh,
                        void **connection, bool *reused, bg_errinfo *info);

/* Returns a connection to the pool. A broken connection is closed, together with all idle connections. */
void source_pool_give(struct source_pool *pool, void *connection, bool broken);

/* Ends the backoff. Call it when the database is known to be reachable. */
void source_pool_retry(struct source_pool *pool);

/* Closes the pool, so that current and future calls to source_pool_take fail. */
void source_pool_close(struct source_pool *pool);

#endif

/*
 * source_pool.h - connections that threads take to ask a question, and give back.
 *
 * They are made when none is free, up to a number; who finds all of them busy waits until his
 * deadline. When one cannot be made the pool rests, 0.1 second and twice as long after every
 * further failure, up to 5: until then everybody is told the last error at once, and then one
 * caller tries.
 *
 * Thread safety: everything but make and free is MT-Safe.
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
    /* Whether an idle one is still good, at a glance; NULL: they all are. */
    bool (*is_fresh)(void *owner, void *connection);
};

struct source_pool *source_pool_make(const struct pool_ops *ops, void *owner,
                                     uint32_t most);
void source_pool_free(struct source_pool *pool); /* all must have been given back */

/* *reused: it was there already, and may be broken without anybody knowing; `fresh` wants one that
 * was not. Errors: those of connect; BG_EBUSY, all are busy; BG_ECANCELED, closed. */
bg_err source_pool_take(struct source_pool *pool, uint64_t deadline, bool fresh,
                        void **connection, bool *reused, bg_errinfo *info);

/* A broken one is thrown away, and all that are idle with it. */
void source_pool_give(struct source_pool *pool, void *connection, bool broken);

/* Somebody has seen that connections can be made: no more rest. */
void source_pool_retry(struct source_pool *pool);

/* From now on nobody gets any. */
void source_pool_close(struct source_pool *pool);

#endif

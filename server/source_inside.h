/*
 * source_inside.h - what a source is made of, for source.c and the databases behind it
 * (source_sqlite.c, source_postgres.c).
 */
#ifndef SERVER_SOURCE_INSIDE_H
#define SERVER_SOURCE_INSIDE_H

#include "key_batch.h"
#include "source.h"
#include "source_pool.h"

#include <pthread.h>
#include <stdatomic.h>

enum source_follow_by {
    FOLLOW_NONE,
    FOLLOW_ROWID,
    FOLLOW_APPENDED,
    FOLLOW_COLUMN,
    FOLLOW_TRIGGER,
    FOLLOW_NOTIFY
};

#define SOURCE_MILLISECOND UINT64_C(1000000)
#define SOURCE_SECOND      UINT64_C(1000000000)

struct source_ops {
    /* Checks what is particular to the database, and makes source->own. */
    bg_err (*create)(struct source *source, bg_errinfo *info);
    void (*destroy)(struct source *source);
    struct pool_ops pool; /* connections for questions; the owner is the source */
    /* *broken: the connection is of no more use. */
    bg_truth (*ask)(struct source *source, void *connection, bg_bytes key,
                    struct source_value *value, uint64_t deadline, bool *broken,
                    bg_errinfo *info);
    bg_err (*check)(struct source *source, bg_errinfo *info);
    bg_err (*count)(struct source *source, uint64_t *count, bg_errinfo *info);
    bg_err (*keys_open)(struct source *source, void **reader, bg_errinfo *info);
    /* Puts keys to the batch, up to `room`; none: the end. */
    bg_err (*keys_next)(void *reader, struct key_batch *batch, size_t room,
                        bg_errinfo *info);
    bg_err (*keys_rewind)(void *reader, bg_errinfo *info);
    void (*keys_close)(void *reader);
    /* The follower: returns when the source is stopped. */
    void (*follow)(struct source *source);
};

struct source {
    const struct source_ops *ops;
    struct source_settings how; /* with copies of all text, none of it NULL */
    const char *place;          /* the URL without "sqlite:", or all of it */
    enum source_follow_by by;
    char *column; /* that is followed; or NULL */
    bool listens; /* PostgreSQL: to a channel */
    void *own;    /* of the database's */
    struct source_pool *pool;
    atomic_bool stopping;
    atomic_bool looked_for; /* by source_look, and not looked yet */
    int wake;               /* an eventfd: the follower has something to do */
    pthread_t thread;
    bool has_thread;
    struct source_listener listener;
    int told; /* the last state: 1 up, 0 lost, -1 none yet; the follower's */
};

extern const struct source_ops source_sqlite_ops, source_postgres_ops;

static inline bool source_is_stopping(const struct source *source)
{
    return atomic_load(&source->stopping);
}

/* Waits so long, or until source_look or source_stop; or until `fd` (-1: none) is readable:
 * true. */
bool source_pause(struct source *source, uint64_t nanoseconds, int fd);

/* How long to rest after so many failures in a row: 0.1 to 5 seconds. */
uint64_t source_rest(uint32_t failures);

/* For followers: tell the listener. States are told when they change. Who has reached the source
 * lets questions be asked again at once. */
void source_tell_anew(struct source *source, const char *why);
void source_tell_caught_up(struct source *source, uint64_t position, uint64_t since);
void source_tell_state(struct source *source, bool up, const char *why);
void source_tell_keys(struct source *source, struct key_batch *batch);

/* "NAME" with its quotes, for SQL; NULL: no memory. */
char *source_quote(const char *name);

/* printf to memory of its own; NULL: no memory. */
char *source_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

bg_err source_no_memory(bg_errinfo *info);
bg_err source_stopped(bg_errinfo *info);

/* Copies a value out; data NULL: it is NULL. */
void source_value_set(struct source_value *value, const void *data, size_t len);

/* A whole number as databases write it: no sign but '-', no zeros in front. */
bool source_integer(bg_bytes text, int64_t *value);

#endif

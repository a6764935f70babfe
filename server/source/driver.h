/*
 * source/driver.h - the internals of a source, for source.c, the databases (sqlite/sqlite.c, postgres/postgres.c) and
 * the modes (postgres/logical.c, postgres/changes.c, sqlite/changes.c).
 *
 * Each database backend implements lookups (struct source_ops). A mode implements reading and
 * following (struct source_mode). The `none` mode has a reader but no follower.
 */
#ifndef SERVER_SOURCE_DRIVER_H
#define SERVER_SOURCE_DRIVER_H

#include "source/key_batch.h"
#include "source/key_columns.h"
#include "source/pool.h"
#include "source/source.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

enum source_follow_by { FOLLOW_NONE, FOLLOW_LOGICAL, FOLLOW_CHANGES };

#define SOURCE_MILLISECOND UINT64_C(1000000)
#define SOURCE_SECOND      UINT64_C(1000000000)

/* The operations of a mode: reading keys and following changes. */
struct source_mode {
    /* Creates source->mode_own without connecting. NULL if there is nothing to create. */
    bg_err (*create)(struct source *source, bg_errinfo *info);
    void (*destroy)(struct source *source);
    /* Size of the mode's reader, which starts with a struct source_reader. */
    size_t reader_size;
    /* Connects and takes the snapshot. After an error, the caller calls keys_end. */
    bg_err (*keys_begin)(void *reader, bg_errinfo *info);
    /* Adds up to `room` normalized keys to the batch, or none after the last key. */
    bg_err (*keys_next)(void *reader, struct key_batch *batch, size_t room,
                        bg_errinfo *info);
    /* Proves (S5) after the last key, or returns BG_EINCOMPAT. NULL if there is nothing to
     * prove. */
    bg_err (*keys_prove)(void *reader, bg_errinfo *info);
    /* Closes the connection, if there is one. keys_begin can be called again. */
    void (*keys_end)(void *reader);
    /* Runs the follower until the source is stopped. NULL if the mode has no follower. */
    void (*follow)(struct source *source);
};

/* A reader of all keys. source.c allocates it, filled with zeros. */
struct source_reader {
    struct source *source;
    bool is_open; /* keys_begin has succeeded */
};

struct source_ops {
    /* Validates the database-specific settings and selects source->mode. */
    bg_err (*create)(struct source *source, bg_errinfo *info);
    /* Operations for the pool of lookup connections, whose owner is the source. */
    struct pool_ops pool;
    /* Looks up a key. Sets *broken if the connection is unusable. */
    bg_store_answer (*ask)(struct source *source, void *connection, bg_bytes key,
                           struct store_row *row, uint64_t deadline, bool *broken,
                           bg_errinfo *info);
    bg_err (*check)(struct source *source, bg_errinfo *info);
    bg_err (*count)(struct source *source, uint64_t *count, bg_errinfo *info);
};

struct source {
    const struct source_ops *ops;
    const struct source_mode *mode;
    struct source_settings how; /* with copies of all strings, none of which is NULL */
    const char *place;          /* the URL, or only the path for SQLite */
    enum source_follow_by by;
    struct key_columns columns;
    _Atomic int form; /* an enum key_form */
    /* The keys are binary, and the database prints them as \x followed by hex digits. */
    atomic_bool prints_hex;
    void *mode_own; /* private data of the mode */
    struct source_pool *pool;
    atomic_bool stopping;
    atomic_bool looked_for; /* source_look was called, and no poll has run since */
    int wake;               /* an eventfd that wakes the follower */
    pthread_t thread;
    bool has_thread;
    struct source_listener listener;
    char resume[SOURCE_MARK]; /* the mark passed to source_follow, or "" */
    /* The last reported state (1 if up, 0 if unavailable, -1 if none) and the reason. Used only by the
     * follower. */
    int told;
    char told_why[BG_ERR_MESSAGE_MAX];
    _Atomic uint64_t epoch;            /* number of restarts */
    pthread_mutex_t lock;              /* protects the fields below */
    char saved[SOURCE_MARK];           /* the mark of the last source_saved, or "" */
    char distrust[BG_ERR_MESSAGE_MAX]; /* why source_distrust was called, or "" */
    char identity[64];                 /* identity of the followed server, or "" */
};

extern const struct source_ops source_sqlite_ops, source_postgres_ops;
extern const struct source_mode postgres_logical_mode, postgres_changes_mode,
    postgres_plain_mode, sqlite_changes_mode, sqlite_plain_mode;

static inline bool source_is_stopping(const struct source *source)
{
    return atomic_load(&source->stopping);
}

/* Waits until the given time (at most 60 seconds) has passed, source_look or source_stop is called, or `fd` becomes
 * readable. `fd` may be -1. Returns whether `fd` is readable. */
bool source_pause(struct source *source, uint64_t nanoseconds, int fd);

/* Returns the backoff time after this number of consecutive failures: 0.1 to 5 seconds. */
uint64_t source_rest(uint32_t failures);

/* Call the listener. Used by followers. A restart also invalidates idle lookup connections, because the address may now
 * point to a different server. */
void source_tell_restart(struct source *source, const char *why);
void source_tell_doubt(struct source *source, const char *why);
void source_tell_resumed(struct source *source);
void source_tell_caught_up(struct source *source, const struct source_proof *proof);
void source_tell_state(struct source *source, bool up, const char *why);
void source_tell_keys(struct source *source, struct key_batch *batch);

/* Copies the mark of the last source_saved, or "" if nothing has been saved in this epoch. */
void source_last_saved(struct source *source, char mark[SOURCE_MARK]);

/* Returns whether source_distrust has been called since the last call to this function. Copies the reason to `why`. */
bool source_is_distrusted(struct source *source, char *why, size_t room);

/* Returns the name as a quoted SQL identifier. The caller frees the result. Returns NULL if out of
 * memory. */
char *source_quote(const char *name);

/* Returns the name of one of this gate's database objects: bloomgate_GATE_HASH_INSTANCE_WHAT, at most 63 characters
 * from [a-z0-9_]. `what` may be "". The caller frees the result. Returns NULL if out of memory. */
char *source_object(const struct source *source, const char *what);

/* Fills `text` with 16 random hex digits. */
bg_err source_nonce(char text[17], bg_errinfo *info);

/* Format a string in allocated memory, which the caller frees. Return NULL if out of memory. */
char *source_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *source_vformat(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

bg_err source_stopped(bg_errinfo *info);

/* Parses an integer as databases print it, without '+' or leading zeros. */
bool source_integer(bg_bytes text, int64_t *value);

#endif

/*
 * source.h - the source of truth behind a gate: SQLite (embedded) or PostgreSQL (libpq).
 *
 *     sqlite:///var/lib/shop/catalog.db       sqlite:relative.db
 *     postgres://user@host/db?sslmode=require  postgresql://... (any URL that libpq accepts)
 *
 * A source has three jobs: it looks up one key (source_ask), it reads all keys (source_keys_*), and it
 * reports changed keys from a thread of its own (source_follow).
 *
 * Keys. `keys` lists columns (key_columns.h). The keys are all values of these columns except NULL, as the
 * text that the database prints, or as bytes for binary types (key_form.h). That is a superset of the keys
 * that `lookup` finds, so conditions and joins in `lookup` do not matter.
 *
 * Following. `follow` selects the mode:
 *
 *     logical   PostgreSQL: the server's logical replication stream (postgres_logical.c)
 *     changes   triggers write keys to a change table (postgres_changes.c, sqlite_changes.c)
 *     none      no follower. `promise` states why a filter stays complete: read-only, or writers-report
 *
 * The contract. A source proves that it has reported everything up to a point, or it reports nothing:
 *
 * (S1) restart       A new epoch starts. Everything that is committed after this call starts will be reported;
 *                    all keys must be read again after it. The first call of the listener is restart or
 *                    resumed.
 *      doubt         The epoch has ended: nothing is proven any more. A restart follows as soon as the source can
 *                    start a new epoch, which may take long.
 * (S2) resumed       Following continues from the mark passed to source_follow: the filter that was saved
 *                    with the mark, plus the changes reported from now on, is complete.
 * (S3) changed       These keys may be new.
 * (S4) caught_up     Every transaction that was acknowledged before `since` has been reported. The identity of
 *                    the database, its schema and the objects that following depends on were verified in
 *                    a snapshot of the database that was taken after `since`.
 * (S5) Reading       All keys come from one snapshot. The reader verifies, in that snapshot, the same things as
 *                    the follower, and that the snapshot includes everything the follower had reported
 *                    when reading started. Otherwise reading fails.
 * (S6) Forgetting    The source keeps, in the database, everything after the mark of the last source_saved,
 *                    and whatever the present epoch needs if nothing has been saved.
 * (S7) source_ask    An error is never reported as an absent key. A key that is not a value of the key's
 *                    type is absent if the database rejects the key alone, outside of `lookup`.
 *
 * So a filter that was filled by a read after `restart`, and by all changes since, is complete up to `since`
 * of the last caught_up.
 *
 * Threads. All functions are MT-Safe except create and free. source_ask can run in several threads at once:
 * each call uses a connection of a small pool. Broken connections are replaced with backoff (0.1 to 5 s), during
 * which calls fail at once.
 */
#ifndef SERVER_SOURCE_H
#define SERVER_SOURCE_H

#include "bloomgate/bloomgate.h"
#include "key_form.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

enum source_key { /* the type of a key that is bound in `lookup` (SQLite) */
                  SOURCE_KEY_AUTO = 0,
                  SOURCE_KEY_TEXT = 1,
                  SOURCE_KEY_BLOB = 2,
                  SOURCE_KEY_INTEGER = 3
};

/* Copied by source_create. Zero selects the default. */
struct source_settings {
    const char *name; /* of the gate */
    const char *
        instance; /* identifies this service in names of database objects: 8 hex digits */
    const char *url;
    const char *keys;    /* users(email), aliases(alias) */
    const char *lookup;  /* NULL or "": derived from `keys` */
    const char *follow;  /* logical, changes or none */
    const char *promise; /* none: read-only or writers-report; otherwise NULL or "" */
    const char *
        script; /* path for the statements that install=no expects to have been run; or NULL */
    bool install;         /* create missing objects in the database */
    uint32_t key;         /* an enum source_key */
    uint32_t poll_ms;     /* 500 */
    uint32_t timeout_ms;  /* of a lookup: 1000 */
    uint32_t connections; /* for lookups, at most: 8 */
};

/* The first column of a row. The caller provides `data` and `room`; `len` is the full length, which
 * may exceed `room`. */
struct source_value {
    char *data;
    size_t room;
    size_t len;
    bool null; /* the value is NULL, or there is no row */
};

enum { SOURCE_MARK = 512 }; /* bytes of a mark, including the terminating NUL */

struct source_proof {
    uint64_t since;    /* source_now before the proof was started */
    uint64_t position; /* for people: an LSN, or the number of a change */
    const char
        *mark; /* where to resume; less than SOURCE_MARK bytes of printable ASCII */
    uint64_t epoch; /* filled in by source.c, for source_saved */
};

struct source_listener {
    void *context;
    void (*restart)(void *context, const char *why);
    void (*doubt)(void *context, const char *why);
    void (*resumed)(void *context);
    void (*changed)(void *context, const bg_bytes *keys, size_t n);
    void (*caught_up)(void *context, const struct source_proof *proof);
    /* The source was lost, or is back. Called when that changes. */
    void (*state)(void *context, bool up, const char *why);
};

/* Returns monotonic nanoseconds. */
uint64_t source_now(void);

/* Validates the settings, without connecting. Errors: BG_EINVAL, BG_ENOMEM. */
bg_err source_create(const struct source_settings *settings, struct source **source,
                     bg_errinfo *info);

/* Stops the source (source_stop) and frees it. No other call may be in progress. NULL is allowed. */
void source_free(struct source *source);

/* Connects and verifies that the settings work. Errors: BG_EIO, BG_EINVAL. */
bg_err source_check(struct source *source, bg_errinfo *info);

/* Connects and verifies that `lookup` works. Errors: BG_EIO, BG_EINVAL. */
bg_err source_check_lookup(struct source *source, bg_errinfo *info);

/* Returns the approximate number of keys. */
bg_err source_count(struct source *source, uint64_t *count, bg_errinfo *info);

/*
 * Reads all keys in one snapshot, taken at the first call of `next`, or at the first one after
 * `rewind`. The last two functions fit a bg_source. bg_slot_rebuild lets the new filter accept adds
 * before it reads, which (S5) relies on. Errors: BG_EINCOMPAT when (S5) cannot be proven; try again later.
 */
struct source_keys;
bg_err source_keys_open(struct source *source, struct source_keys **keys,
                        bg_errinfo *info);
void source_keys_close(struct source_keys *keys);
bg_err source_keys_next(void *context, bg_bytes *to, size_t room, size_t *n,
                        bg_errinfo *info);
bg_err source_keys_rewind(void *context, bg_errinfo *info);

/* Returns how values of the key columns are spelled; KEY_FORM_UNKNOWN until the source has connected. */
enum key_form source_form(const struct source *source);

/* Looks up a key within the timeout. `value` may be NULL. BG_TRUTH_ERROR: the reason is in `info`. */
bg_truth source_ask(struct source *source, const void *key, size_t len,
                    struct source_value *value, bg_errinfo *info);

/* Returns whether the mode has a follower. */
bool source_is_followed(const struct source *source);

/* Starts the follower, once. The listener and the mark are copied. `mark`: resume there if possible;
 * NULL or "" to start with `restart`. */
bg_err source_follow(struct source *source, const struct source_listener *listener,
                     const char *mark, bg_errinfo *info);

/* Lets the follower poll now. */
void source_look(struct source *source);

/* Lets the follower start a new epoch, because its reports have proven incomplete. */
void source_distrust(struct source *source, const char *why);

/* The filter has been saved with everything that was reported up to this proof. A mark of an
 * earlier epoch is ignored. */
void source_saved(struct source *source, const char *mark, uint64_t epoch);

/* Ends the follower and all calls in progress soon: BG_ECANCELED. */
void source_stop(struct source *source);

/* Writes the URL without its password. */
void source_show_url(const char *url, char *text, size_t room);

/*
 * Fills in `info` (may be NULL) and returns `code`. With `expected`, the format describes a value that was validated:
 * "WHAT: found FORMAT, expected EXPECTED". Without it (NULL), the format is a statement: the reason, and then what to do.
 * The text is cut after 200 bytes, or with `expected` after 110, and `expected` after 95.
 */
bg_err source_error(bg_errinfo *info, bg_err code, const char *what,
                    const char *expected, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns the message of an error without the part that names what failed, for use in another message. */
const char *source_reason(const bg_errinfo *info);

#endif

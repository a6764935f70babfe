/*
 * source.h - the backing store (source of truth) of a gate: SQLite (embedded) or PostgreSQL (libpq).
 *
 *     sqlite:///var/lib/shop/catalog.db       sqlite:relative.db
 *     postgres://user@host/db?sslmode=require  postgresql://... (any URL that libpq accepts)
 *
 * A source performs three tasks: it looks up single keys (source_ask), reads all keys (source_keys_*), and reports
 * changed keys from its own thread (source_follow).
 *
 * Keys. `keys` lists columns (key_columns.h). The keys are all non-NULL values of these columns, as the text that
 * the database prints, or as bytes for binary types (key_form.h). These keys are a superset of the keys that `lookup`
 * finds, so conditions and joins in `lookup` do not matter.
 *
 * Following. `follow` selects the mode:
 *
 *     logical   PostgreSQL: the server's logical replication stream (postgres/logical.c)
 *     changes   triggers write keys to a change table (postgres/changes.c, sqlite/changes.c)
 *     none      no follower. `promise` states why a filter stays complete: read-only, or writers-report
 *
 * The contract. A source reports a proof (caught_up) only after it has reported every change up to
 * the `since` time of the proof:
 *
 * (S1) restart       A new epoch starts. Everything committed after the start of this call will be reported. All keys
 *                    must be read again after the call. restart or resumed precedes doubt, changed and caught_up.
 *      doubt         The epoch has ended: earlier proofs no longer hold. A restart follows as soon as the source
 *                    can start a new epoch, which may take a long time.
 * (S2) resumed       Following continues from the mark passed to source_follow. The filter saved with the mark,
 *                    plus the changes reported from now on, is complete.
 * (S3) changed       These keys may be new.
 * (S4) caught_up     Every transaction acknowledged before `since` has been reported. The identity of the
 *                    database, its schema and the objects that following depends on were verified in a
 *                    database snapshot taken after `since`.
 * (S5) Reading       All keys come from one snapshot. In that snapshot, the reader verifies the same conditions as
 *                    the follower. It also verifies that the snapshot includes everything the follower had
 *                    reported when reading started. Otherwise reading fails.
 * (S6) Forgetting    The database retains all changes after the mark of the last source_saved. If nothing has
 *                    been saved, it retains all changes that the current epoch needs. Both `changes` modes
 *                    retain at most a million unsaved changes; after that, the last mark becomes invalid.
 * (S7) source_ask    An error is never reported as an absent key. A key that is not a valid value of the
 *                    key's type is absent if the database also rejects it in a separate statement,
 *                    without running `lookup`.
 *
 * So a filter that contains the keys read after `restart`, and all changes since then, is complete up to the `since`
 * value of the last caught_up.
 *
 * Thread safety: all functions are MT-Safe except source_create and source_free. Several threads can call source_ask
 * concurrently; each call uses a connection from a small pool. Broken connections are reopened, with a backoff of 0.1
 * to 5 s. During the backoff, calls fail immediately.
 */
#ifndef SERVER_SOURCE_H
#define SERVER_SOURCE_H

#include "bloomgate/all.h"
#include "source/key_form.h"
#include "store_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

/* The type with which a key is bound in `lookup` (SQLite only). */
enum source_key {
    SOURCE_KEY_AUTO = 0,
    SOURCE_KEY_TEXT = 1,
    SOURCE_KEY_BLOB = 2,
    SOURCE_KEY_INTEGER = 3
};

/* Settings of a source, which source_create copies. A zero value selects the default. */
struct source_settings {
    const char *name; /* name of the gate */
    /* Identifies this service in names of database objects: 8 hex digits. */
    const char *instance;
    const char *url;
    const char *keys;   /* for example: users(email), aliases(alias) */
    const char *lookup; /* NULL or "": derived from `keys` */
    bool rows;          /* a derived `lookup` selects all columns */
    const char *follow; /* logical, changes or none */
    /* With follow=none, "read-only" or "writers-report"; otherwise NULL or "". */
    const char *promise;
    /* With install=no, the file that receives the SQL statements for the operator to run; otherwise
     * NULL. */
    const char *script;
    bool install;         /* create missing objects in the database */
    uint32_t key;         /* an enum source_key */
    uint32_t poll_ms;     /* default: 500 */
    uint32_t timeout_ms;  /* lookup timeout in milliseconds; default: 1000 */
    uint32_t connections; /* maximum number of connections for lookups; default: 8 */
};

/* Maximum size of a mark in bytes, including the terminating NUL. */
enum { SOURCE_MARK = 512 };

struct source_proof {
    uint64_t since;    /* value of source_now before the proof was started */
    uint64_t position; /* for display only: an LSN or a change number */
    /* The position at which to resume: printable ASCII, shorter than SOURCE_MARK bytes. */
    const char *mark;
    uint64_t epoch; /* set by source.c; to be passed to source_saved */
};

struct source_listener {
    void *context;
    void (*restart)(void *context, const char *why);
    void (*doubt)(void *context, const char *why);
    void (*resumed)(void *context);
    void (*changed)(void *context, const bg_bytes *keys, size_t n);
    void (*caught_up)(void *context, const struct source_proof *proof);
    /* Reports that the source became unavailable or available again, or that the reason for its
     * state changed. */
    void (*state)(void *context, bool up, const char *why);
};

/* Returns the monotonic time in nanoseconds. */
uint64_t source_now(void);

/* Reports a mistake in the settings. */
typedef void source_tell(void *context, const bg_errinfo *mistake);

/* Calls `tell` for each mistake in the settings, without connecting. Skips `url`, `keys` and
 * `follow` if they are empty, and skips checks that depend on an invalid setting. */
void source_check(const struct source_settings *settings, source_tell *tell,
                  void *context);

/* Validates the settings and creates a source, without connecting. Errors: BG_EINVAL, BG_ENOMEM. */
bg_err source_create(const struct source_settings *settings, struct source **source,
                     bg_errinfo *info);

/* Stops the source (source_stop) and frees it. No other call may be in progress. NULL is allowed. */
void source_free(struct source *source);

/* Connects and verifies that `lookup` works. Errors: BG_EIO, BG_EINVAL. */
bg_err source_check_lookup(struct source *source, bg_errinfo *info);

/* Returns the approximate number of keys. */
bg_err source_count(struct source *source, uint64_t *count, bg_errinfo *info);

/*
 * Read all keys in one snapshot. The first call to `next` takes the snapshot. The first call to `next` after `rewind`
 * takes a new snapshot. `next` and `rewind` can be used as the callbacks of a bg_source. (S5) relies on
 * bg_slot_rebuild: the new filter accepts adds before the first key is read. Errors: BG_EINCOMPAT if (S5) cannot be
 * proven; retry later.
 */
struct source_keys;
bg_err source_keys_open(struct source *source, struct source_keys **keys,
                        bg_errinfo *info);
void source_keys_close(struct source_keys *keys);
bg_err source_keys_next(void *context, bg_bytes *to, size_t room, size_t *n,
                        bg_errinfo *info);
bg_err source_keys_rewind(void *context, bg_errinfo *info);

/* Returns how values of the key columns are spelled, or KEY_FORM_UNKNOWN until the source has
 * connected. */
enum key_form source_form(const struct source *source);

/* Looks up a key within the timeout. If the key is present, stores the first row that `lookup`
 * returns in `row`, unless `row` is NULL. If the result is BG_STORE_ERROR, `info` contains the
 * reason. */
bg_store_answer source_ask(struct source *source, const void *key, size_t len,
                           struct store_row *row, bg_errinfo *info);

/* Returns whether the mode has a follower. */
bool source_is_followed(const struct source *source);

/* Starts the follower. Can be called only once. The listener and the mark are copied. The follower resumes at `mark` if
 * possible; NULL or "" makes it start with `restart`. */
bg_err source_follow(struct source *source, const struct source_listener *listener,
                     const char *mark, bg_errinfo *info);

/* Makes the follower poll now. */
void source_look(struct source *source);

/* Makes the follower start a new epoch because its reports were incomplete. */
void source_distrust(struct source *source, const char *why);

/* Records that a filter containing everything reported up to this mark has been saved. Marks from earlier epochs
 * are ignored. */
void source_saved(struct source *source, const char *mark, uint64_t epoch);

/* Stops the follower and waits for its thread to exit. Calls in progress soon fail with
 * BG_ECANCELED. */
void source_stop(struct source *source);

/* Writes the URL to `text` with its passwords masked. */
void source_show_url(const char *url, char *text, size_t room);

/*
 * Fills in `info`, which may be NULL, and returns `code`. If `expected` is not NULL, the format describes a value
 * that was validated: "WHAT: found FORMAT, expected EXPECTED". If `expected` is NULL, the format is a statement that
 * contains the reason, followed by what to do. Without `expected`, the formatted text is truncated to 223
 * bytes. With `expected`, the text is truncated to 110 bytes, and `expected` to 95.
 */
bg_err source_error(bg_errinfo *info, bg_err code, const char *what,
                    const char *expected, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

bg_err source_no_memory(bg_errinfo *info);

/* Returns the message of an error without its "WHAT: " prefix, for use in another message. */
const char *source_reason(const bg_errinfo *info);

#endif

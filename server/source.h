/*
 * source.h - where the truth of a gate is: SQLite (embedded) or PostgreSQL (libpq).
 *
 *     sqlite:///var/lib/shop/catalogue.db     sqlite:relative.db
 *     postgres://user@host/db?sslmode=require  postgresql://... (whatever libpq takes)
 *
 * A source answers three questions, with SQL in its owner's words:
 *
 *     query    SELECT sku, id FROM products             all keys: the first column
 *     lookup   SELECT name FROM products WHERE sku = ?  one key, ?1 or $1; a row: it is there
 *     count    SELECT count(*) FROM products            how many, roughly; may be left out
 *
 * and tells what has changed, from a thread of its own (source_follow).
 *
 * Keys are bytes: text and blobs as they are, other values as the text that the database makes
 * of them, so 42 is "42". NULL is no key. Two keys are the same if their bytes are; a database
 * that takes "A" and "a", or "7" and "007", for equal knows more keys than a filter can.
 *
 * Following. `follow` says how:
 *
 *     none          nobody writes, or all who write tell the gate
 *     rowid         SQLite, a table with INTEGER PRIMARY KEY AUTOINCREMENT, whose keys do not
 *                   change: numbers are never used twice
 *     appended      the same without AUTOINCREMENT, if nobody ever deletes rows
 *     column:NAME   a column that grows with every insert and update; must be in the query
 *     trigger       SQLite: triggers write what changes to a table, of which it is read
 *     notify        PostgreSQL: a trigger sends what changes to a channel
 *     notify:NAME   both: told at once, and caught up by the column
 *
 * How nothing is missed where a row with a lower number commits later is told in postgres_follow.c.
 *
 * What the follower promises to its listener, in this order:
 *     anew        everything that is committed after this call begins will be told; what was
 *                 before must be read (again). At the beginning, and whenever something may
 *                 have been missed: the file was replaced, a connection with nothing to catch up
 *                 by was lost.
 *     changed     these keys may be new.
 *     caught_up   everything that was committed before the time `since` (source_now) has been
 *                 told. `position`: the same as a number of the database's, 0 if there is none:
 *                 rowid, an integer column, a transaction id of PostgreSQL (all up to it).
 * So who reads all keys *after* `anew` and adds what `changed` tells from then on has a filter
 * that is complete up to `since` of the last caught_up.
 *
 * Threads. Everything is MT-Safe but create and free. Several threads may ask at once: each uses
 * a connection of a small pool, made when needed and kept; broken ones are made anew, after a
 * rest that grows from 0.1 to 5 seconds while attempts fail, during which questions fail at once.
 */
#ifndef SERVER_SOURCE_H
#define SERVER_SOURCE_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

enum source_install {
    SOURCE_INSTALL_NO = 0,
    SOURCE_INSTALL_YES = 1, /* triggers tell every insert and update */
    SOURCE_INSTALL_KEYS =
        2 /* ... but no updates that leave the key as it is: enough if the
             query has no condition */
};

enum source_key { /* what a key is when it is put into `lookup` */
                  SOURCE_KEY_AUTO = 0,
                  SOURCE_KEY_TEXT = 1,
                  SOURCE_KEY_BLOB = 2,
                  SOURCE_KEY_INTEGER = 3
};

/* Copied by source_create. Zero means: the usual. */
struct source_settings {
    const char *name; /* of the gate; for names of triggers and channels */
    const char *url;
    const char *query, *lookup, *count;
    const char *follow;
    const char *channel; /* PostgreSQL: NULL or "": bloomgate_NAME if one is needed */
    uint32_t install;    /* an enum source_install */
    uint32_t key;        /* an enum source_key */
    double overlap;   /* column: how far behind to read again, in its units, seconds for
                         times; below 0: the usual */
    uint32_t poll_ms; /* 500 */
    uint32_t timeout_ms;  /* of a question: 1000 */
    uint32_t connections; /* at most, for questions: 8 */
};

/* A row's first column. The caller gives `data` and `room`; `len` is how long it is, which may
 * be more than fits. */
struct source_value {
    char *data;
    size_t room;
    size_t len;
    bool null; /* it is NULL, or there is no row */
};

struct source_listener {
    void *context;
    void (*anew)(void *context, const char *why);
    void (*changed)(void *context, const bg_bytes *keys, size_t n);
    void (*caught_up)(void *context, uint64_t position, uint64_t since);
    /* The source was lost, or is back; why. Called when that changes. */
    void (*state)(void *context, bool up, const char *why);
};

/* Monotonic nanoseconds. */
uint64_t source_now(void);

/* Understands the settings; connects to nobody. Errors: BG_EINVAL, BG_ENOMEM. */
bg_err source_create(const struct source_settings *settings, struct source **source,
                     bg_errinfo *info);

/* Stops it (source_stop) and frees it; nobody else may use it by then. NULL is allowed. */
void source_free(struct source *source);

/* Connects, and prepares every statement: what is wrong with the settings? Errors: BG_EIO,
 * BG_EINVAL. */
bg_err source_check(struct source *source, bg_errinfo *info);

/* How many keys there are, about. */
bg_err source_count(struct source *source, uint64_t *count, bg_errinfo *info);

/*
 * All keys, of one moment: that of the first call of `next`, or of the first after `rewind`,
 * which looks at the source anew. The last two are for a bg_source. (bg_slot_rebuild counts on that: keys that are added before
 * it reads for good need not be in the filter that it makes.)
 */
struct source_keys;
bg_err source_keys_open(struct source *source, struct source_keys **keys,
                        bg_errinfo *info);
void source_keys_close(struct source_keys *keys);
bg_err source_keys_next(void *context, bg_bytes *to, size_t room, size_t *n,
                        bg_errinfo *info);
bg_err source_keys_rewind(void *context, bg_errinfo *info);

/*
 * What the source says of a key, within the timeout. `value` may be NULL. BG_TRUTH_ERROR: why is
 * in `info`. A key that the type of the column cannot have (letters for a number) is absent.
 */
bg_truth source_ask(struct source *source, const void *key, size_t len,
                    struct source_value *value, bg_errinfo *info);

/* Whether it has anything to follow. */
bool source_is_followed(const struct source *source);

/* Starts the thread that follows; once. The listener is copied. */
bg_err source_follow(struct source *source, const struct source_listener *listener,
                     bg_errinfo *info);

/* Lets the follower look at once, not at its next turn. */
void source_look(struct source *source);

/* Ends the follower, and whatever else is under way, soon: BG_ECANCELED. */
void source_stop(struct source *source);

/* The URL without its password, for people. */
void source_show_url(const char *url, char *text, size_t room);

/* Fills in `info` (may be NULL) and returns `code`; the format is of what was found. */
bg_err source_error(bg_errinfo *info, bg_err code, const char *what,
                    const char *expected, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif

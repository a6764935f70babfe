/*
 * postgres/changes.c - the `changes` mode for PostgreSQL: setup and reading all keys; see postgres/changes.h.
 *
 * Proof of (S5). Before it starts, the reader records the number of the bookmark that covers all keys reported so
 * far. It waits until that bookmark is committed and then starts its transaction. In that transaction's snapshot, the
 * reader verifies the identity, the fingerprint and the nonce, and that a bookmark with that number or a higher one
 * exists. So the snapshot belongs to the same history and includes all changes that were reported earlier. COPY
 * resolves names against the newest catalogs, not the snapshot, so the reader repeats the verification in a new
 * snapshot after the last key. This proves that the catalogs have not changed.
 *
 * Connection poolers. Each poll and each read is one transaction that sets and verifies everything it depends on. So
 * a pooler that supports prepared statements may send consecutive transactions over different connections. With
 * other poolers, statements fail with an error but never return wrong results.
 */
#include "postgres/changes.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Minimum server version, which introduced xid8 and pg_current_xact_id. */
    CHANGES_VERSION = 130000,
    CHANGES_SECONDS = 30 /* timeout for statements other than COPY */
};

static const uint64_t changes_patience = 60 * SOURCE_SECOND;

/* ---- Life -------------------------------------------------------------------------------- */

static void changes_destroy(struct source *source)
{
    struct changes *own = source->mode_own;
    if (own) {
        free(own->change_table);
        free(own->bookmark);
        free(own->guard);
        free(own->function);
        free(own->change_path);
        free(own->bookmark_path);
        (void)pthread_mutex_destroy(&own->lock);
        free(own);
    }
    source->mode_own = NULL;
}

static bg_err changes_create(struct source *source, bg_errinfo *info)
{
    struct changes *own = calloc(1, sizeof *own);
    source->mode_own = own;
    if (!own) {
        return source_no_memory(info);
    }
    (void)pthread_mutex_init(&own->lock, NULL);
    own->change_table = source_object(source, "change");
    own->bookmark = source_object(source, "bookmark");
    own->guard = source_object(source, "guard");
    own->function = source_object(source, "key");
    own->objects = (struct postgres_objects){
        .schema = "bloomgate",
        .change_table = own->change_table,
        .bookmark = own->bookmark,
        .guard = own->guard,
        .function = own->function,
    };
    if (!own->change_table || !own->bookmark || !own->guard || !own->function) {
        return source_no_memory(info);
    }
    own->change_path = source_format("%s.%s", own->objects.schema, own->change_table);
    own->bookmark_path = source_format("%s.%s", own->objects.schema, own->bookmark);
    return own->change_path && own->bookmark_path ? BG_OK : source_no_memory(info);
}

uint64_t postgres_changes_deadline(const struct source *source)
{
    const uint64_t timeout = source->how.timeout_ms * SOURCE_MILLISECOND;
    const uint64_t usual = CHANGES_SECONDS * SOURCE_SECOND;
    return source_now() + (timeout > usual ? timeout : usual);
}

static struct changes_epoch changes_epoch_of(const struct source *source)
{
    struct changes *own = source->mode_own;
    (void)pthread_mutex_lock(&own->lock);
    const struct changes_epoch epoch = own->epoch;
    (void)pthread_mutex_unlock(&own->lock);
    return epoch;
}

void postgres_changes_set_epoch(struct source *source,
                                const struct changes_epoch *epoch)
{
    struct changes *own = source->mode_own;
    (void)pthread_mutex_lock(&own->lock);
    own->epoch = *epoch;
    (void)pthread_mutex_unlock(&own->lock);
}

/* ---- Transactions ------------------------------------------------------------------------ */

/* Verifies in the current transaction that the tables can be followed. */
static bg_err changes_look(struct postgres_link *link, uint64_t deadline,
                           struct changes_epoch *found, bg_errinfo *info)
{
    const struct changes *own = link->source->mode_own;
    *found = (struct changes_epoch){ .number = 0 };
    bg_err err =
        postgres_link_do(link, "source", "SELECT " PG_SPELLING("true"), deadline, info);
    err = err ? err : postgres_schema_identity(link, deadline, found->identity, info);
    return err ? err
               : postgres_schema_fingerprint(link, &own->objects, deadline,
                                             found->fingerprint, info);
}

/* Excludes other followers of the same objects (services that run with a copy of this service's directory) before
 * the transaction takes its snapshot. This ensures that no bookmark is written with a snapshot older than changes
 * that another follower has already pruned. */
static bg_err changes_lock(struct postgres_link *link, uint64_t deadline,
                           bg_errinfo *info)
{
    const struct changes *own = link->source->mode_own;
    char *sql =
        source_format("LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE", own->bookmark_path);
    const bg_err err = sql ? postgres_link_do(link, "bookmark", sql, deadline, info)
                           : source_no_memory(info);
    free(sql);
    const char *code = err ? postgres_link_code(link) : "";
    /* If a table, schema or permission is missing, installing the objects or running the script written for
     * install=no may help. */
    const bool missing = strcmp(code, "42P01") == 0 || strcmp(code, "3F000") == 0
                         || strcmp(code, "42501") == 0;
    return err && missing ? BG_EINVAL : err;
}

bg_err postgres_changes_begin(struct postgres_link *link, bool writes,
                              uint64_t deadline, struct changes_epoch *found,
                              bg_errinfo *info)
{
    const char *begin = writes ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"
                               : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    bg_err err = postgres_link_do(link, "source", begin, deadline, info);
    if (!err && writes) {
        err = changes_lock(link, deadline, info);
    }
    return err ? err : changes_look(link, deadline, found, info);
}

/* Starts a transaction and verifies the installed objects. */
static bg_err changes_verified(struct postgres_link *link, uint64_t deadline,
                               struct changes_epoch *found, bg_errinfo *info)
{
    const bg_err err = postgres_changes_begin(link, true, deadline, found, info);
    return err ? err : postgres_install_verify(link, deadline, info);
}

bg_err postgres_changes_ensure(struct postgres_link *link, uint64_t deadline,
                               struct changes_epoch *found, bg_errinfo *info)
{
    const struct source_settings *how = &link->source->how;
    bg_errinfo missing;
    struct postgres_keys keys;
    if (PQserverVersion(link->db) < CHANGES_VERSION) {
        return source_error(
            info, BG_EINVAL, "server", NULL,
            "PostgreSQL %d is too old; follow=changes needs version 13 or later",
            PQserverVersion(link->db) / 10000);
    }
    bg_err err = changes_verified(link, deadline, found, &missing);
    if (err != BG_EINVAL) {
        if (err && info) {
            *info = missing;
        }
        return err;
    }
    err = postgres_link_do(link, "source", "ROLLBACK", deadline, info);
    err = err ? err : postgres_keys_look(link, deadline, &keys, info);
    if (err) {
        return err; /* the columns cannot be keys, so installing does not help */
    }
    if (!how->install) {
        err = postgres_install_script(link, deadline, info);
        return err ? err
                   : source_error(info, BG_EINVAL, "install=no", NULL, "%.300s; %s%s",
                                  source_reason(&missing),
                                  *how->script ? "as the owner of the table, run "
                                               : "use install=yes",
                                  how->script);
    }
    err = postgres_install(link, deadline, info);
    return err ? err : changes_verified(link, deadline, found, info);
}

/* ---- Reading all keys -------------------------------------------------------------------- */

static bg_err changes_unproven(bg_errinfo *info, const char *why)
{
    return source_error(info, BG_EINCOMPAT, "keys", NULL, "%s", why);
}

/* Waits until a committed bookmark covers all changes reported so far. */
static bg_err changes_await(struct source *source, struct changes_epoch *epoch,
                            bg_errinfo *info)
{
    const struct changes_epoch first = changes_epoch_of(source);
    const uint64_t needed = first.pending ? first.pending : first.number;
    const uint64_t end = source_now() + changes_patience;
    *epoch = first;
    while (*first.nonce && epoch->number < needed) {
        if (source_is_stopping(source)) {
            return source_stopped(info);
        }
        if (strcmp(epoch->nonce, first.nonce) != 0 || source_now() > end) {
            break;
        }
        (void)poll(NULL, 0, 10);
        *epoch = changes_epoch_of(source);
        if (!epoch->pending && epoch->number < needed) {
            break; /* the server crashed and lost the changes */
        }
    }
    if (!*first.nonce) {
        return changes_unproven(info, "the follower has not started yet");
    }
    if (strcmp(epoch->nonce, first.nonce) != 0) {
        return changes_unproven(info, "the follower restarted");
    }
    return epoch->number >= needed
               ? BG_OK
               : changes_unproven(
                   info,
                   "the follower has not committed a bookmark for the latest changes yet");
}

/* Verifies that the transaction's snapshot belongs to the epoch. */
static bg_err changes_sees(struct postgres_link *link,
                           const struct changes_epoch *epoch,
                           const struct changes_epoch *found, uint64_t deadline,
                           bg_errinfo *info)
{
    const struct changes *own = link->source->mode_own;
    if (strcmp(found->identity, epoch->identity) != 0) {
        return changes_unproven(
            info, "the connection reached a different server or database");
    }
    if (strcmp(found->fingerprint, epoch->fingerprint) != 0) {
        return changes_unproven(info, "the schema has changed");
    }
    const struct postgres_arguments given = { 1, { { .data = epoch->nonce } } };
    PGresult *rows = NULL;
    char *sql = source_format("SELECT FROM %s WHERE nonce = $1 AND number >= %llu"
                              " LIMIT 1",
                              own->bookmark_path, (unsigned long long)epoch->number);
    bg_err err =
        sql ? postgres_link_run(link, "bookmark", sql, &given, deadline, &rows, info)
            : source_no_memory(info);
    if (!err && PQntuples(rows) == 0) {
        err = changes_unproven(info, "the follower's bookmark is missing");
    }
    PQclear(rows);
    free(sql);
    return err;
}

struct changes_reader {
    struct postgres_reader reader;
    struct changes_epoch epoch; /* the epoch when the read started */
};

static bg_err changes_keys_begin(void *context, bg_errinfo *info)
{
    struct changes_reader *r = context;
    struct source *source = r->reader.base.source;
    struct postgres_link *link = &r->reader.link;
    struct changes_epoch found;
    bg_err err = changes_await(source, &r->epoch, info);
    err = err ? err : postgres_reader_begin(&r->reader, NULL, info);
    const uint64_t deadline = postgres_changes_deadline(source);
    err = err ? err : changes_look(link, deadline, &found, info);
    return err ? err : changes_sees(link, &r->epoch, &found, deadline, info);
}

static bg_err changes_keys_prove(void *context, bg_errinfo *info)
{
    struct changes_reader *r = context;
    struct source *source = r->reader.base.source;
    struct postgres_link *link = &r->reader.link;
    struct changes_epoch found;
    const uint64_t deadline = postgres_changes_deadline(source);
    bg_err err = postgres_link_do(link, "keys", "COMMIT", deadline, info);
    err = err ? err : postgres_changes_begin(link, false, deadline, &found, info);
    err = err ? err : changes_sees(link, &r->epoch, &found, deadline, info);
    if (!err && strcmp(changes_epoch_of(source).nonce, r->epoch.nonce) != 0) {
        err = changes_unproven(info, "the follower restarted during the read");
    }
    return err;
}

const struct source_mode postgres_changes_mode = {
    .create = changes_create,
    .destroy = changes_destroy,
    .reader_size = sizeof(struct changes_reader),
    .keys_begin = changes_keys_begin,
    .keys_next = postgres_reader_next,
    .keys_prove = changes_keys_prove,
    .keys_end = postgres_reader_end,
    .follow = postgres_changes_follow,
};

/*
 * postgres/logical_reader.c - reads all keys in the `logical` mode; see (L6) in postgres/logical.c.
 *
 * Once the read has started, the new filter accepts the keys that the follower reports. So the snapshot must contain
 * all transactions that the follower reported before the read started. The snapshot of a temporary slot contains these
 * transactions, because the snapshot is defined by a WAL position and the slot is created after the read has
 * started.
 *
 * That position is at or after the end of the WAL streamed before the read started, provided that the slot is on the
 * follower's server. To prove that the slot is on that server, the reader emits a marker after the last key, in the
 * session that read the keys. The marker must arrive in the follower's stream.
 *
 * (R1) The snapshot can include a committed transaction whose backend has not yet recorded the commit outside the WAL.
 *      The rows of that transaction would look aborted. So the reader waits until a new snapshot, which is taken from
 *      the list of running transactions, contains all transactions that the exported snapshot contains.
 * (R2) COPY resolves names against the newest catalogs, not the snapshot. So the identity and fingerprint are
 *      compared with the epoch's twice: in the snapshot, and in a new snapshot after the last key.
 */
#include "postgres/logical.h"
#include "postgres/replication.h"
#include "util/log.h"
#include "util/timed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Starting ---------------------------------------------------------------------------- */

static bg_err reader_epoch(struct logical_reader *mine, bg_errinfo *info)
{
    struct logical *logical = mine->reader.base.source->mode_own;
    (void)pthread_mutex_lock(&logical->lock);
    const bool is_following = logical->is_following;
    mine->round = logical->round;
    mine->epoch = logical->epoch;
    (void)pthread_mutex_unlock(&logical->lock);
    return is_following ? BG_OK
                        : source_error(info, BG_EINCOMPAT, "keys", NULL,
                                       "the follower has not connected yet");
}

static bg_err reader_verify(struct logical_reader *mine, bg_errinfo *info)
{
    struct postgres_mark found;
    const bg_err err = logical_inspect(
        &mine->reader.link, mine->reader.base.source->mode_own, &found, info);
    const char *difference = err ? NULL : logical_difference(&found, &mine->epoch);
    return difference ? source_error(info, BG_EINCOMPAT, "keys", NULL, "%s", difference)
                      : err;
}

/* Builds the query that counts the transactions that are committed in the reader's snapshot but still running in a new
 * snapshot. */
static bg_err reader_unsettled(struct logical_reader *mine, char **sql,
                               bg_errinfo *info)
{
    static const char format[] =
        "SELECT count(*) FROM (SELECT '%s'::pg_snapshot AS old,"
        " pg_catalog.pg_current_snapshot() AS new OFFSET 0) AS s,"
        " pg_catalog.generate_series(pg_catalog.pg_snapshot_xmin(new)::text::bigint,"
        " pg_catalog.pg_snapshot_xmax(old)::text::bigint - 1) AS x"
        " WHERE pg_catalog.pg_visible_in_snapshot(x::text::xid8, old)"
        " AND NOT pg_catalog.pg_visible_in_snapshot(x::text::xid8, new)";
    PGresult *rows = NULL;
    const bg_err err = postgres_link_run(&mine->reader.link, "keys",
                                         "SELECT pg_catalog.pg_current_snapshot()",
                                         NULL, logical_deadline(), &rows, info);
    *sql = err ? NULL : source_format(format, PQgetvalue(rows, 0, 0));
    PQclear(rows);
    return err || *sql ? err : source_no_memory(info);
}

/* Waits until the condition in (R1) is met, using the slot's connection. That connection is on the same server,
 * because otherwise the snapshot could not have been imported. */
static bg_err reader_settle(struct logical_reader *mine, struct postgres_link *slot,
                            bg_errinfo *info)
{
    char *sql;
    bg_err err = reader_unsettled(mine, &sql, info);
    bool is_settled = false;
    while (!err && !is_settled) {
        PGresult *rows = NULL;
        err =
            postgres_link_run(slot, "keys", sql, NULL, logical_deadline(), &rows, info);
        is_settled = !err && strcmp(PQgetvalue(rows, 0, 0), "0") == 0;
        PQclear(rows);
        if (!err && !is_settled) {
            const struct timespec moment = { .tv_nsec = 10000000 };
            (void)nanosleep(&moment, NULL);
        }
    }
    free(sql);
    return err;
}

static void reader_waits(void *context, const char *why)
{
    const struct logical_reader *mine = context;
    log_warning("waiting to read keys",
                LOG_FIELDS(log_text("gate", mine->reader.base.source->how.name),
                           log_text("reason", why)));
}

static bg_err reader_begin_with(struct logical_reader *mine, struct postgres_link *slot,
                                struct postgres_link *other, bg_errinfo *info)
{
    const struct postgres_slot_wait wait = { other, reader_waits, mine };
    struct source *source = mine->reader.base.source;
    char nonce[PG_NONCE], what[12], snapshot[PG_SNAPSHOT];
    bg_err err = source_nonce(nonce, info);
    (void)snprintf(what, sizeof what, "r%.10s", err ? "" : nonce);
    char *name = source_object(source, what);
    err = err || name ? err : source_no_memory(info);
    err = err ? err : postgres_slot_create(slot, name, &wait, snapshot, info);
    err = err ? err : postgres_reader_begin(&mine->reader, snapshot, info);
    err = err ? err : reader_settle(mine, slot, info);
    err = err ? err : reader_verify(mine, info);
    free(name);
    return err;
}

bg_err logical_keys_begin(void *reader, bg_errinfo *info)
{
    struct logical_reader *mine = reader;
    struct source *source = mine->reader.base.source;
    struct postgres_link slot = { 0 }, other = { 0 };
    bg_err err = reader_epoch(mine, info);
    err = err ? err
              : postgres_link_open(&slot, source, PG_STREAMS, logical_deadline(), info);
    err = err ? err
              : postgres_link_open(&other, source, PG_READS, logical_deadline(), info);
    err = err ? err : reader_begin_with(mine, &slot, &other, info);
    postgres_link_close(&other);
    /* Closing this connection drops the slot, but the imported snapshot stays valid. */
    postgres_link_close(&slot);
    return err;
}

/* ---- Proving ----------------------------------------------------------------------------- */

enum reader_wait { READER_SEEN, READER_WAITS, READER_EPOCH_ENDED, READER_SILENCE };

static enum reader_wait reader_look(const struct logical_reader *mine,
                                    const struct logical *logical, const char *nonce)
{
    if (!logical->is_following || logical->round != mine->round) {
        return READER_EPOCH_ENDED;
    }
    for (size_t i = 0; i < LOGICAL_SEEN; i++) {
        if (strcmp(logical->seen[i], nonce) == 0) {
            return READER_SEEN;
        }
    }
    return source_now() > logical->heard + STREAM_SILENCE ? READER_SILENCE
                                                          : READER_WAITS;
}

/* Waits until the follower has received the marker. Fails if the follower's stream stops making
 * progress. */
static bg_err reader_await(const struct logical_reader *mine, const char *nonce,
                           bg_errinfo *info)
{
    struct logical *logical = mine->reader.base.source->mode_own;
    enum reader_wait state = READER_WAITS;
    (void)pthread_mutex_lock(&logical->lock);
    while (!source_is_stopping(mine->reader.base.source)
           && (state = reader_look(mine, logical, nonce)) == READER_WAITS) {
        (void)timed_wait(&logical->changed, &logical->lock,
                         source_now() + 100 * SOURCE_MILLISECOND);
    }
    (void)pthread_mutex_unlock(&logical->lock);
    switch (state) {
    case READER_SEEN: return BG_OK;
    case READER_WAITS: return source_stopped(info);
    case READER_EPOCH_ENDED:
        return source_error(info, BG_EINCOMPAT, "keys", NULL,
                            "the follower restarted during the read");
    default:
        return source_error(
            info, BG_EINCOMPAT, "keys", NULL,
            "the reader's marker did not arrive in the stream; make sure that all"
            " connections reach the same server");
    }
}

bg_err logical_keys_prove(void *reader, bg_errinfo *info)
{
    struct logical_reader *mine = reader;
    struct postgres_link *link = &mine->reader.link;
    struct postgres_marker marker = { .kind = MARKER_OF_READER };
    bg_err err = postgres_link_do(link, "keys", "COMMIT", logical_deadline(), info);
    err = err ? err : reader_verify(mine, info);
    err = err ? err : source_nonce(marker.nonce, info);
    err = err ? err
              : logical_emit(link, mine->reader.base.source->mode_own, &marker, info);
    return err ? err : reader_await(mine, marker.nonce, info);
}

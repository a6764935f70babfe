/*
 * postgres/logical.c - the `logical` mode: follows PostgreSQL through logical replication.
 *
 * Why no change is missed. Every committed change is in the server's WAL. A replication slot makes the server retain
 * the WAL and decode it. The server sends whole transactions in commit order (pgoutput protocol 1 never sends a
 * transaction before it is committed). The follower must repeatedly prove three things: that the stream covers the
 * tables, that the stream has no gaps, and how far it has advanced.
 *
 * (L1) Position. At every poll, the follower records the time `since` and then emits a marker over a normal connection
 *      (postgres/marker.h). If the commit of a transaction was acknowledged before `since`, the commit precedes the
 *      marker in the WAL. So when the marker arrives in the stream, all such transactions have been reported. The
 *      arrival of the marker also proves that both connections reached the same server.
 * (L2) Coverage. After emitting the marker, and before waiting for it, the follower reads the identity and fingerprint
 *      (postgres/schema.h) in a new snapshot. The follower reports caught_up only if they match the epoch's
 *      identity and fingerprint. DDL acknowledged before `since` is visible in that snapshot.
 * (L3) Continuity. The slot is confirmed only up to the marker of the last saved mark. Every stream, including
 *      the first one of an epoch, starts at a known marker (the `place`), and the first marker of this gate that
 *      arrives must be that marker. Rows that arrive before that marker were committed before it, so they were
 *      reported earlier or precede the epoch. If a different marker arrives first, the server has a different
 *      history (a restored backup, a clone), or the slot was moved. The follower then restarts.
 * (L4) Each stream has its own nonce, so markers from earlier streams are never mistaken for the
 *      markers of the current stream.
 * (L5) Restart. First, the publication is created or repaired. Then the old slot is dropped, and a new one is
 *      created. The server waits for all running transactions before it creates a slot, so every transaction that
 *      the slot delivers saw the publication from its start. Then the service writes the first marker, and reads the
 *      identity and fingerprint in a new snapshot. `restart` is reported when this marker has arrived.
 * (L6) Readers import the snapshot of a temporary slot (postgres/logical_reader.c). This snapshot contains the
 *      transactions whose commit records precede a certain WAL position. These include transactions that the stream
 *      has delivered but that other sessions cannot see yet because they are waiting for a synchronous standby.
 *
 * Roles. The role needs LOGIN and REPLICATION, SELECT on the tables, and, with install=yes, ownership of the
 * tables and CREATE on the database.
 */
#include "postgres/logical.h"

#include "postgres/publication.h"
#include "util/timed.h"

#include <stdlib.h>
#include <string.h>

uint64_t logical_deadline(void)
{
    return source_now() + 10 * SOURCE_SECOND;
}

static bg_err logical_verify_server(struct postgres_link *link, bg_errinfo *info)
{
    static const char sql[] =
        "SELECT pg_catalog.current_setting('wal_level'),"
        " (SELECT rolsuper OR rolreplication FROM pg_catalog.pg_roles"
        " WHERE rolname = current_user)";
    PGresult *rows = NULL;
    if (PQserverVersion(link->db) < 140000) {
        return source_error(
            info, BG_EINVAL, "server", NULL,
            "PostgreSQL %d is too old; upgrade to 14 or later, or use follow=changes",
            PQserverVersion(link->db) / 10000);
    }
    bg_err err =
        postgres_link_run(link, "server", sql, NULL, logical_deadline(), &rows, info);
    if (!err && strcmp(PQgetvalue(rows, 0, 0), "logical") != 0) {
        err = source_error(
            info, BG_EINVAL, "wal_level", NULL,
            "found %s; set it to logical and restart the server, or use follow=changes",
            PQgetvalue(rows, 0, 0));
    }
    if (!err && *PQgetvalue(rows, 0, 1) != 't') {
        err = source_error(
            info, BG_EINVAL, "role", NULL,
            "the role lacks the REPLICATION attribute; run ALTER ROLE ... REPLICATION, or use"
            " follow=changes");
    }
    PQclear(rows);
    return err;
}

bg_err logical_inspect(struct postgres_link *link, const struct logical *logical,
                       struct postgres_mark *found, bg_errinfo *info)
{
    const struct postgres_objects objects = { .publication = logical->object };
    const uint64_t deadline = logical_deadline();
    const bg_err err = postgres_schema_identity(link, deadline, found->identity, info);
    return err ? err
               : postgres_schema_fingerprint(link, &objects, deadline,
                                             found->fingerprint, info);
}

bg_err logical_prepare(struct postgres_link *link, const struct logical *logical,
                       bg_errinfo *info)
{
    struct postgres_keys keys;
    struct postgres_mark found;
    bg_errinfo own;
    info = info ? info : &own;
    bg_err err = logical_verify_server(link, info);
    err = err ? err : postgres_keys_look(link, logical_deadline(), &keys, info);
    err = err ? err : logical_inspect(link, logical, &found, info);
    /* Only publication problems can be repaired; their error messages contain the word
     * "publication". */
    if (err == BG_EINVAL && strstr(info->message, "publication")) {
        err = postgres_publication_install(link, logical->object, logical_deadline(),
                                           info);
        err = err ? err : logical_inspect(link, logical, &found, info);
    }
    if (err == BG_EINVAL && link->source->how.install) {
        postgres_publication_drop(link, logical->object, logical_deadline());
    }
    return err;
}

const char *logical_difference(const struct postgres_mark *a,
                               const struct postgres_mark *b)
{
    return strcmp(a->identity, b->identity) != 0 ? "the server has changed"
           : strcmp(a->fingerprint, b->fingerprint) != 0
               ? "the tables or the publication have changed"
               : NULL;
}

bg_err logical_emit(struct postgres_link *link, const struct logical *logical,
                    struct postgres_marker *marker, bg_errinfo *info)
{
    PGresult *rows = NULL;
    char *sql = postgres_marker_emit(logical->object, marker);
    bg_err err = sql ? postgres_link_run(link, "marker", sql, NULL, logical_deadline(),
                                         &rows, info)
                     : source_no_memory(info);
    if (!err
        && (PQntuples(rows) != 1
            || !postgres_lsn_parse(PQgetvalue(rows, 0, 0), &marker->lsn))) {
        err = source_error(info, BG_EIO, "marker", NULL,
                           "the server did not return a WAL position");
    }
    PQclear(rows);
    free(sql);
    return err;
}

/* ---- Life -------------------------------------------------------------------------------- */

static bg_err logical_create(struct source *source, bg_errinfo *info)
{
    struct logical *logical = calloc(1, sizeof *logical);
    if (!logical) {
        return source_no_memory(info);
    }
    source->mode_own = logical;
    (void)pthread_mutex_init(&logical->lock, NULL);
    timed_init(&logical->changed);
    logical->object = source_object(source, "");
    return logical->object ? BG_OK : source_no_memory(info);
}

static void logical_destroy(struct source *source)
{
    struct logical *logical = source->mode_own;
    if (logical) {
        (void)pthread_cond_destroy(&logical->changed);
        (void)pthread_mutex_destroy(&logical->lock);
        free(logical->object);
        free(logical);
        source->mode_own = NULL;
    }
}

const struct source_mode postgres_logical_mode = {
    .create = logical_create,
    .destroy = logical_destroy,
    .reader_size = sizeof(struct logical_reader),
    .keys_begin = logical_keys_begin,
    .keys_next = postgres_reader_next,
    .keys_prove = logical_keys_prove,
    .keys_end = postgres_reader_end,
    .follow = logical_follow,
};

/*
 * postgres/replication.c - see postgres/replication.h.
 *
 * Creating a slot can take as long as the longest running transaction. If the source is stopped in the meantime, the
 * service closes the connection. Setting client_connection_check_interval makes the server detect the closed
 * connection while it waits, so no partially created slot remains.
 */
#include "postgres/replication.h"

#include "postgres/marker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Slots ------------------------------------------------------------------------------- */

bg_err postgres_slot_look(struct postgres_link *link, const char *name,
                          uint64_t deadline, struct postgres_slot *slot,
                          bg_errinfo *info)
{
    static const char sql[] =
        "SELECT slot_type = 'logical' AND plugin = 'pgoutput' AND NOT temporary,"
        " database IS NOT DISTINCT FROM pg_catalog.current_database(),"
        " wal_status IS NOT DISTINCT FROM 'lost', active_pid, confirmed_flush_lsn"
        " FROM pg_catalog.pg_replication_slots WHERE slot_name = $1";
    const struct postgres_arguments given = { 1, { { .data = name } } };
    PGresult *rows = NULL;
    const bg_err err =
        postgres_link_run(link, "replication slot", sql, &given, deadline, &rows, info);
    *slot = (struct postgres_slot){ .exists = !err && PQntuples(rows) > 0 };
    if (slot->exists) {
        slot->fits = *PQgetvalue(rows, 0, 0) == 't';
        slot->is_here = *PQgetvalue(rows, 0, 1) == 't';
        slot->is_lost = *PQgetvalue(rows, 0, 2) == 't';
        slot->user = (int)strtol(PQgetvalue(rows, 0, 3), NULL, 10);
        if (!postgres_lsn_parse(PQgetvalue(rows, 0, 4), &slot->confirmed)) {
            slot->is_lost = true;
        }
    }
    PQclear(rows);
    return err;
}

bg_err postgres_slot_drop(struct postgres_link *link, const char *name,
                          uint64_t deadline, bg_errinfo *info)
{
    const struct postgres_arguments given = { 1, { { .data = name } } };
    struct postgres_slot slot;
    const bg_err err = postgres_slot_look(link, name, deadline, &slot, info);
    if (err || !slot.exists) {
        return err;
    }
    if (!slot.fits) {
        return source_error(
            info, BG_EINVAL, "replication slot", NULL,
            "%s exists, but it is not a pgoutput slot; drop it or rename the gate",
            name);
    }
    if (slot.user) {
        return source_error(
            info, BG_EBUSY, "replication slot", NULL,
            "process %d is using %s; if this service is a copy of another one, delete "
            "DIR/gates/instance",
            slot.user, name);
    }
    return postgres_link_run(link, "replication slot",
                             "SELECT pg_catalog.pg_drop_replication_slot($1)", &given,
                             deadline, NULL, info);
}

/* Explains errors caused by server settings. */
static bg_err slot_refused(struct postgres_link *link, bg_err err, bg_errinfo *info)
{
    const char *code = postgres_link_code(link);
    if (strcmp(code, "53400") == 0) {
        return source_error(info, err, "replication slot", NULL,
                            "all of the server's replication slots are in use; raise "
                            "max_replication_slots");
    }
    if (strcmp(code, "42501") == 0) {
        return source_error(
            info, err, "replication slot", NULL,
            "the role may not use replication slots; run ALTER ROLE ... REPLICATION");
    }
    return err;
}

static void slot_explain(const struct postgres_slot_wait *wait)
{
    static const char sql[] =
        "SELECT who FROM (SELECT backend_xid AS xid, 'process ' || pid::text AS who"
        " FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL"
        " UNION ALL SELECT transaction, 'prepared transaction ' || gid"
        " FROM pg_catalog.pg_prepared_xacts) AS running"
        " ORDER BY pg_catalog.age(xid) DESC LIMIT 1";
    const uint64_t deadline = source_now() + 10 * SOURCE_SECOND;
    PGresult *rows = NULL;
    char why[BG_ERR_MESSAGE_MAX];
    const bg_err err = postgres_link_run(wait->link, "replication slot", sql, NULL,
                                         deadline, &rows, NULL);
    (void)snprintf(
        why, sizeof why,
        "waiting for running transactions to end before the replication slot can be created; oldest transaction: %s",
        !err && PQntuples(rows) ? PQgetvalue(rows, 0, 0) : "unknown");
    PQclear(rows);
    wait->waits(wait->context, why);
}

/* Waits without a timeout for the result of CREATE_REPLICATION_SLOT. */
static bg_err slot_await(struct postgres_link *link,
                         const struct postgres_slot_wait *wait, PGresult **row,
                         bg_errinfo *info)
{
    for (unsigned seconds = 1;; seconds++) {
        const uint64_t deadline = source_now() + SOURCE_SECOND;
        const bg_err err =
            postgres_link_next(link, "replication slot", deadline, row, info);
        const bool waits = err == BG_EIO && PQstatus(link->db) == CONNECTION_OK
                           && PQisBusy(link->db) && source_now() >= deadline;
        if (!waits) {
            return err ? slot_refused(link, err, info) : BG_OK;
        }
        if (seconds % 60 == 1) {
            slot_explain(wait);
        }
    }
}

bg_err postgres_slot_create(struct postgres_link *link, const char *name,
                            const struct postgres_slot_wait *wait,
                            char snapshot[PG_SNAPSHOT], bg_errinfo *info)
{
    PGresult *row = NULL, *more = NULL;
    const uint64_t deadline = source_now() + 10 * SOURCE_SECOND;
    char *sql = source_format("CREATE_REPLICATION_SLOT \"%s\"%s LOGICAL pgoutput %s",
                              name, snapshot ? " TEMPORARY" : "",
                              snapshot ? "EXPORT_SNAPSHOT" : "NOEXPORT_SNAPSHOT");
    bg_err err = sql ? postgres_link_do(link, "replication slot",
                                        "SET client_connection_check_interval = '1s'",
                                        deadline, info)
                     : source_no_memory(info);
    /* The setting takes effect when the next statement starts. */
    err = err ? err
              : postgres_link_do(link, "replication slot", "SELECT 1", deadline, info);
    err = err ? err : postgres_link_begin(link, "replication slot", sql, NULL, info);
    err = err ? err : slot_await(link, wait, &row, info);
    if (!err && (!row || PQnfields(row) < 4)) {
        err = source_error(info, BG_EIO, "replication slot", NULL,
                           "the server did not return the slot's name and position");
    }
    if (!err && snapshot) {
        (void)snprintf(snapshot, PG_SNAPSHOT, "%s", PQgetvalue(row, 0, 2));
    }
    if (!err) {
        err = postgres_link_next(link, "replication slot", deadline, &more, info);
    }
    PQclear(row);
    PQclear(more);
    free(sql);
    return err;
}

/* ---- Streams ----------------------------------------------------------------------------- */

/* The server's timeout is longer than the default, because a listener may be slow. TCP keepalives detect
 * dead connections. */
static const char stream_setup[] =
    "SELECT set_config('wal_sender_timeout', '120s', false),"
    " set_config('tcp_keepalives_idle', '30', false),"
    " set_config('tcp_keepalives_interval', '10', false),"
    " set_config('tcp_keepalives_count', '3', false)";

bg_err postgres_stream_start(struct postgres_link *link, const char *slot, uint64_t lsn,
                             bg_errinfo *info)
{
    char from[PG_LSN];
    postgres_lsn_print(lsn, from);
    char *sql = source_format("START_REPLICATION SLOT \"%s\" LOGICAL %s"
                              " (proto_version '1', publication_names '\"%s\"',"
                              " messages 'true')",
                              slot, from, slot);
    bg_err err = sql ? postgres_link_do(link, "replication stream", stream_setup,
                                        source_now() + 10 * SOURCE_SECOND, info)
                     : source_no_memory(info);
    err = err ? err : postgres_link_copy(link, "replication stream", sql, info);
    if (err && info && strcmp(postgres_link_code(link), "55006") == 0) {
        err = source_error(info, err, "replication stream", NULL,
                           "%.300s; if this service is a copy of another one, delete"
                           " DIR/gates/instance",
                           source_reason(info));
    }
    free(sql);
    return err;
}

/* Reports that the stream has ended because of a server error or a shutdown. */
static bg_err stream_ended(struct postgres_link *link, bg_errinfo *info)
{
    PGresult *result = PQgetResult(link->db);
    const char *why = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const bg_err err = source_error(info, BG_EIO, "replication stream", NULL, "%s",
                                    why ? why : "the server ended the stream");
    PQclear(link->last);
    link->last = result;
    return err;
}

static bg_err stream_broken(struct postgres_link *link, bg_errinfo *info)
{
    return source_error(info, BG_EIO, "replication stream", NULL, "%s",
                        PQerrorMessage(link->db));
}

bg_err postgres_stream_next(struct postgres_link *link, char **message, size_t *len,
                            bg_errinfo *info)
{
    int got = PQgetCopyData(link->db, message, 1);
    if (got == 0) {
        if (!PQconsumeInput(link->db) || PQflush(link->db) < 0) {
            return stream_broken(link, info);
        }
        got = PQgetCopyData(link->db, message, 1);
    }
    *len = got > 0 ? (size_t)got : 0;
    if (got <= 0) {
        *message = NULL;
    }
    return got >= 0    ? BG_OK
           : got == -1 ? stream_ended(link, info)
                       : stream_broken(link, info);
}

static void stream_number(char *to, uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (char)(number >> (56 - 8 * i));
    }
}

/* Sends a status message: 'r', written, flushed, applied, time, and whether a reply is requested. The time is optional,
 * and this client does not set it. */
static bool stream_send(struct postgres_link *link, uint64_t written,
                        uint64_t confirmed, bool wants_answer)
{
    char reply[34] = { 'r' };
    stream_number(reply + 1, written);
    stream_number(reply + 9, confirmed);
    stream_number(reply + 17, confirmed);
    reply[33] = wants_answer ? 1 : 0;
    return PQputCopyData(link->db, reply, sizeof reply) >= 0;
}

bg_err postgres_stream_reply(struct postgres_link *link, uint64_t received,
                             uint64_t confirmed, bg_errinfo *info)
{
    /* If a reply contains a flushed position, the server treats this client as a standby, and even the written
     * position can release transactions that are waiting for a standby. So the confirmed and received positions
     * are sent in separate replies. */
    const bool sent = (!confirmed || stream_send(link, confirmed, confirmed, false))
                      && stream_send(link, received, 0, true) && PQflush(link->db) >= 0;
    return sent ? BG_OK : stream_broken(link, info);
}

bool postgres_stream_is_refused(const struct postgres_link *link)
{
    /* SQLSTATE prefixes of temporary errors: lost connections, exhausted resources, shutdown, and a
     * slot that is in use. */
    static const char *const passing[] = { "08", "53", "57", "55006" };
    const char *code = postgres_link_code(link);
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        if (strncmp(code, passing[i], strlen(passing[i])) == 0) {
            return false;
        }
    }
    return *code != 0;
}

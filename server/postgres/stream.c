/* postgres/stream.c - see postgres/stream.h. */
#include "postgres/stream.h"

#include "postgres/marker.h"

#include <stdlib.h>
#include <string.h>

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

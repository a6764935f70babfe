/*
 * postgres/link.c - see postgres/link.h.
 *
 * Waits call poll() with a timeout of 0.1 seconds and check between calls whether the source is being stopped. A
 * caller that abandons a statement closes the connection, so no partially read result remains. The statement then
 * ends when the server detects the closed connection or when statement_timeout expires.
 */
#include "postgres/link.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINK_SLICE = 100 }; /* milliseconds */

static bg_err link_fail(struct postgres_link *link, const char *what, bg_errinfo *info)
{
    return source_error(info, BG_EIO, what, NULL, "%s", PQerrorMessage(link->db));
}

/* Waits until the socket is ready for reading or writing, depending on `events`. */
static bg_err link_wait(struct postgres_link *link, const char *what, short events,
                        uint64_t deadline, bg_errinfo *info)
{
    for (;;) {
        struct pollfd waits = { .fd = PQsocket(link->db), .events = events };
        const uint64_t now = source_now();
        if (source_is_stopping(link->source)) {
            return source_stopped(info);
        }
        if (deadline && now >= deadline) {
            return source_error(info, BG_EIO, what, NULL,
                                "the server did not answer in time");
        }
        uint64_t ms = deadline ? (deadline - now) / SOURCE_MILLISECOND + 1 : LINK_SLICE;
        ms = ms < LINK_SLICE ? ms : LINK_SLICE;
        const int ready = poll(&waits, 1, (int)ms);
        if (ready > 0) {
            return BG_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return source_error(info, BG_EIO, what, NULL, "poll failed (errno %d)",
                                errno);
        }
    }
}

/* ---- Life ------------------------------------------------------------------------------ */

/* Discards notices; errors are reported separately. */
static void link_ignore(void *context, const char *message)
{
    (void)context;
    (void)message;
}

static bg_err link_connect(struct postgres_link *link, enum postgres_link_use use,
                           uint64_t deadline, bg_errinfo *info)
{
    /* Parameters in the URL override the parameters that precede it in this list. The values below detect a dead
     * connection within a minute. */
    const char *const names[] = { "keepalives_idle",
                                  "keepalives_interval",
                                  "tcp_user_timeout",
                                  "dbname",
                                  "fallback_application_name",
                                  "client_encoding",
                                  "replication",
                                  NULL };
    const char *const values[] = { "30",
                                   "10",
                                   "60000",
                                   link->source->place,
                                   "bloomgated",
                                   "UTF8",
                                   use == PG_STREAMS ? "database" : NULL,
                                   NULL };
    link->db = PQconnectStartParams(names, values, 1);
    if (!link->db || PQstatus(link->db) == CONNECTION_BAD) {
        return link->db ? link_fail(link, "source", info) : source_no_memory(info);
    }
    (void)PQsetNoticeProcessor(link->db, link_ignore, NULL);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    bg_err err = BG_OK;
    while (!err && state != PGRES_POLLING_OK) {
        const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        err = link_wait(link, "source", events, deadline, info);
        state = err ? state : PQconnectPoll(link->db);
        if (!err && state == PGRES_POLLING_FAILED) {
            err = link_fail(link, "source", info);
        }
    }
    return err;
}

/* Returns the client encoding for keys. A SQL_ASCII database can store any bytes, but with a different client
 * encoding it rejects bytes that are invalid in that encoding, so a key with such bytes would appear
 * to be absent. */
static const char *link_encoding(const struct postgres_link *link)
{
    const char *server = PQparameterStatus(link->db, "server_encoding");
    return server && strcmp(server, "SQL_ASCII") == 0 ? server : "UTF8";
}

/* Returns the lock timeout in milliseconds, or 0 if there is none. A server process that is waiting
 * for a lock does not notice that the service has disconnected. The timeout for write statements is
 * shorter than the server's deadlock_timeout (1 s), so a deadlock never makes an operator's
 * statement fail. Creating a slot has no lock timeout, because the server must wait for running
 * transactions, and this counts as a lock wait. */
static unsigned link_lock_timeout(enum postgres_link_use use)
{
    return use == PG_WRITES ? 300 : use == PG_READS ? 10000 : 0;
}

bg_err postgres_link_open(struct postgres_link *link, struct source *source,
                          enum postgres_link_use use, uint64_t deadline,
                          bg_errinfo *info)
{
    char setup[1024];
    *link = (struct postgres_link){ .source = source, .streams = use == PG_STREAMS };
    bg_err err = source_nonce(link->nonce, info);
    err = err ? err : link_connect(link, use, deadline, info);
    if (!err) {
        (void)PQsetnonblocking(link->db, 1);
        /* Serializable reads could cause application transactions to abort. */
        (void)snprintf(
            setup, sizeof setup,
            "SELECT " PG_SPELLING(
                "false") ","
                         " set_config('client_encoding', '%s', false),"
                         " set_config('statement_timeout', '%u', false),"
                         " set_config('lock_timeout', '%u', false),"
                         " set_config('default_transaction_read_only', '%s', false),"
                         " set_config('default_transaction_isolation', 'read"
                         " committed', false)",
            link_encoding(link), use == PG_ASKS ? source->how.timeout_ms : 0,
            link_lock_timeout(use),
            use == PG_WRITES || use == PG_STREAMS ? "off" : "on");
        err = postgres_link_do(link, "source", setup, deadline, info);
    }
    if (err) {
        postgres_link_close(link);
    }
    return err;
}

void postgres_link_close(struct postgres_link *link)
{
    PQclear(link->last);
    link->last = NULL;
    PQfinish(link->db);
    link->db = NULL;
}

bool postgres_link_is_open(const struct postgres_link *link)
{
    return link->db && PQstatus(link->db) == CONNECTION_OK;
}

/* ---- Statements ------------------------------------------------------------------------ */

/* Sends all buffered output. */
static bg_err link_flush(struct postgres_link *link, const char *what,
                         uint64_t deadline, bg_errinfo *info)
{
    int left = PQflush(link->db);
    while (left > 0) {
        const bg_err err = link_wait(link, what, POLLIN | POLLOUT, deadline, info);
        if (err) {
            return err;
        }
        if (!PQconsumeInput(link->db)) {
            return link_fail(link, what, info);
        }
        left = PQflush(link->db);
    }
    return left < 0 ? link_fail(link, what, info) : BG_OK;
}

/* Returns the next result, or NULL after the last one. */
static bg_err link_result(struct postgres_link *link, const char *what,
                          uint64_t deadline, PGresult **result, bg_errinfo *info)
{
    *result = NULL;
    while (PQisBusy(link->db)) {
        const bg_err err = link_wait(link, what, POLLIN, deadline, info);
        if (err) {
            return err;
        }
        if (!PQconsumeInput(link->db)) {
            return link_fail(link, what, info);
        }
    }
    *result = PQgetResult(link->db);
    return BG_OK;
}

static bool link_is_good(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK
           || status == PGRES_SINGLE_TUPLE;
}

/* Reports a server error and keeps the result, which contains the error code. */
static bg_err link_refused(struct postgres_link *link, const char *what,
                           PGresult *result, bg_errinfo *info)
{
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const bg_err err = source_error(info, BG_EIO, what, NULL, "%s",
                                    text ? text : PQerrorMessage(link->db));
    PQclear(link->last);
    link->last = result;
    return err;
}

/* Returns the first result of the statement that was sent, and discards any other results. */
static bg_err link_finish(struct postgres_link *link, const char *what, bool sent,
                          uint64_t deadline, PGresult **wanted, bg_errinfo *info)
{
    PGresult *first = NULL, *more = NULL;
    PQclear(link->last); /* so that postgres_link_code refers to this statement */
    link->last = NULL;
    bg_err err =
        sent ? link_flush(link, what, deadline, info) : link_fail(link, what, info);
    err = err ? err : link_result(link, what, deadline, &first, info);
    do {
        PQclear(more);
        more = NULL;
        err = err ? err : link_result(link, what, deadline, &more, info);
    } while (more);
    if (!err && !first) {
        err = link_fail(link, what, info);
    }
    if (!err && !link_is_good(first)) {
        return link_refused(link, what, first, info);
    }
    if (!err && wanted) {
        *wanted = first;
    } else {
        PQclear(first);
    }
    return err;
}

/* Maximum size of a server-side name, including the NUL. */
enum { LINK_STATEMENT = 64 };

/* Returns the server-side name of a prepared statement. The name is unique to the connection. Otherwise, a
 * pooler might send a transaction over a connection on which another gate has prepared a statement with the
 * same name, and the wrong statement would be executed. */
static const char *link_statement(const struct postgres_link *link, const char *name,
                                  char text[LINK_STATEMENT])
{
    (void)snprintf(text, LINK_STATEMENT, "%.40s_%s", name, link->nonce);
    return text;
}

static bool link_send(struct postgres_link *link, const char *sql, const char *name,
                      const struct postgres_arguments *given)
{
    const int n = given ? given->n : 0;
    if (link->streams) {
        return PQsendQuery(link->db, sql);
    }
    const char *values[PG_ARGUMENTS] = { NULL };
    int lengths[PG_ARGUMENTS] = { 0 }, formats[PG_ARGUMENTS] = { 0 };
    Oid types[PG_ARGUMENTS] = { 0 };
    for (int i = 0; i < n; i++) {
        values[i] = given->list[i].data;
        lengths[i] = given->list[i].len;
        formats[i] = given->list[i].binary;
        types[i] = given->list[i].type;
    }
    char statement[LINK_STATEMENT];
    return name ? PQsendQueryPrepared(link->db, link_statement(link, name, statement),
                                      n, values, lengths, formats, 0)
                : PQsendQueryParams(link->db, sql, n, types, values, lengths, formats,
                                    0);
}

bg_err postgres_link_run(struct postgres_link *link, const char *what, const char *sql,
                         const struct postgres_arguments *given, uint64_t deadline,
                         PGresult **result, bg_errinfo *info)
{
    const bool sent = link_send(link, sql, NULL, given);
    return link_finish(link, what, sent, deadline, result, info);
}

bg_err postgres_link_do(struct postgres_link *link, const char *what, const char *sql,
                        uint64_t deadline, bg_errinfo *info)
{
    return postgres_link_run(link, what, sql, NULL, deadline, NULL, info);
}

bg_err postgres_link_prepare(struct postgres_link *link, const char *what,
                             const char *name, const char *sql, uint64_t deadline,
                             bg_errinfo *info)
{
    char statement[LINK_STATEMENT];
    const bool sent =
        PQsendPrepare(link->db, link_statement(link, name, statement), sql, 0, NULL);
    return link_finish(link, what, sent, deadline, NULL, info);
}

bg_err postgres_link_describe(struct postgres_link *link, const char *what,
                              const char *name, uint64_t deadline, PGresult **result,
                              bg_errinfo *info)
{
    char statement[LINK_STATEMENT];
    const bool sent =
        PQsendDescribePrepared(link->db, link_statement(link, name, statement));
    return link_finish(link, what, sent, deadline, result, info);
}

bg_err postgres_link_execute(struct postgres_link *link, const char *what,
                             const char *name, const struct postgres_arguments *given,
                             uint64_t deadline, PGresult **result, bg_errinfo *info)
{
    const bool sent = link_send(link, NULL, name, given);
    return link_finish(link, what, sent, deadline, result, info);
}

/* ---- Row by row ------------------------------------------------------------------------ */

bg_err postgres_link_begin(struct postgres_link *link, const char *what,
                           const char *sql, const struct postgres_arguments *given,
                           bg_errinfo *info)
{
    if (!link_send(link, sql, NULL, given) || !PQsetSingleRowMode(link->db)) {
        return link_fail(link, what, info);
    }
    return link_flush(link, what, 0, info);
}

bg_err postgres_link_next(struct postgres_link *link, const char *what,
                          uint64_t deadline, PGresult **row, bg_errinfo *info)
{
    for (;;) {
        const bg_err err = link_result(link, what, deadline, row, info);
        if (err || !*row) {
            return err;
        }
        if (!link_is_good(*row)) {
            PGresult *refused = *row;
            *row = NULL;
            return link_refused(link, what, refused, info);
        }
        if (PQntuples(*row) > 0) {
            return BG_OK;
        }
        PQclear(*row); /* the empty result that follows the last row */
    }
}

const char *postgres_link_code(const struct postgres_link *link)
{
    const char *code =
        link->last ? PQresultErrorField(link->last, PG_DIAG_SQLSTATE) : "";
    return code ? code : "";
}

/* ---- Keys ------------------------------------------------------------------------------ */

bg_err postgres_link_copy(struct postgres_link *link, const char *what, const char *sql,
                          bg_errinfo *info)
{
    PGresult *result = NULL;
    PQclear(link->last);
    link->last = NULL;
    bg_err err = link_send(link, sql, NULL, NULL) ? link_flush(link, what, 0, info)
                                                  : link_fail(link, what, info);
    err = err ? err : link_result(link, what, 0, &result, info);
    if (!err && PQresultStatus(result) != PGRES_COPY_OUT
        && PQresultStatus(result) != PGRES_COPY_BOTH) {
        return link_refused(link, what, result, info);
    }
    PQclear(result);
    return err;
}

bg_err postgres_link_copied(struct postgres_link *link, const char *what, char **line,
                            size_t *len, bg_errinfo *info)
{
    int got = PQgetCopyData(link->db, line, 1);
    while (got == 0) {
        const bg_err err = link_wait(link, what, POLLIN, 0, info);
        if (err) {
            return err;
        }
        if (!PQconsumeInput(link->db)) {
            return link_fail(link, what, info);
        }
        got = PQgetCopyData(link->db, line, 1);
    }
    *len = got > 0 ? (size_t)got : 0;
    if (got > 0) {
        *len -= (*line)[got - 1] == '\n';
        return BG_OK;
    }
    *line = NULL;
    return got == -1 ? link_finish(link, what, true, 0, NULL, info)
                     : link_fail(link, what, info);
}

bool postgres_link_put(const struct source *source, const char *text, size_t len,
                       bool hex, struct key_batch *batch)
{
    if (hex) { /* \x6869 */
        return len >= 2 && key_batch_put_hex(batch, text + 2, len - 2);
    }
    return key_batch_put(batch, text,
                         key_form_normalize(source_form(source), text, len));
}

uint64_t postgres_link_deadline(const struct source *source)
{
    return source_now() + source->how.timeout_ms * SOURCE_MILLISECOND;
}

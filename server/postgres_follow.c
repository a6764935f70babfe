/*
 * postgres_follow.c - the thread that follows a PostgreSQL database: by notifications, by a column
 * that grows, or by both.
 *
 * The trouble with columns that grow. Rows get their number when they are written, and are seen
 * when their transaction commits, in another order:
 *
 *     A: INSERT, gets 5 ............................... COMMIT
 *     B:          INSERT, gets 6, COMMIT
 *     follower:                           reads up to 6           reads from 6 on: where is 5?
 *
 * So a follower must not leave a number behind as long as a transaction runs that may have drawn
 * a lower one. Three ways, from the best to the worst column:
 *
 *   (1) A column of type xid8 that has pg_current_xact_id(). Let m be the lowest transaction that
 *       runs (pg_snapshot_xmin). All below m have ended, so rows of theirs are seen by whoever
 *       reads later. Read from the old m on, then move on to the m that was taken before reading.
 *       Exact, at any time, also on a standby.
 *
 *   (2) Any other column: `low` moves to a number `high` only after every transaction that ran
 *       when `high` was seen has ended. A row that commits later with a number up to `high` was
 *       numbered before `high` was seen; its transaction ran then, or began later and got a higher
 *       one. In steps:
 *
 *           look k:    read all rows from low on; high = the last number
 *           look k+1:  running = all transactions that run (pg_locks; those that ended between
 *                      the two looks are seen by the reading of this one)
 *           look j:    running = those of them that still run; if none:
 *                      read all rows from low on, once more; then low = high
 *
 *       As long as an old transaction is open, rows since then are read again with every look.
 *       Transactions that are prepared (two-phase commit) have no session, so while there are any
 *       low stays. A transaction is known by its virtual id, which it has before it draws a number;
 *       but a time (now()) is taken a moment earlier still, and a number may be drawn from a
 *       sequence long before it is used: by sequences with CACHE, by programs that reserve blocks.
 *       Hence the overlap: it reads 1000 numbers, or 10 seconds, further back than low.
 *
 *   (3) No column, only notifications. Those of a transaction come when it commits, all of them,
 *       in the order of commits, as long as the connection lives. When it was lost everything
 *       is read again.
 *
 * A table that is emptied (TRUNCATE) or made anew may give out its numbers again; it then has
 * another file, by which that is noticed, except by (1), for which it does not matter. A trigger
 * that is gone or switched off is noticed as well, at every look.
 *
 * The same at the beginning, for (2): the highest number is taken as `high`, and `anew` is told
 * only when all transactions that ran then have ended: what they wrote is found by who reads all
 * keys after that. Until then the source has not begun.
 *
 * Being up to date, without a column: before a beat the lowest running transaction is taken; the
 * beat is a notification to oneself, which comes after those of all transactions that committed
 * before it was sent.
 *
 * `position` is always a transaction id: all transactions up to it have ended and are told.
 */
#include "postgres_stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct postgres_follow {
    struct source *source;
    struct postgres_link link;   /* open: connected, and listening if it should */
    struct postgres_query query; /* of this connection */
    char *read_from, *read_all, *read_top;
    bool exact;    /* (1) */
    bool placed;   /* anew was told, nothing was lost since */
    char *low;     /* all rows from here on have to be read; NULL: all rows */
    char *high;    /* where low goes next, or NULL */
    char *running; /* transactions that must end before, as an array; NULL: not known */
    uint64_t lowest; /* transaction that ran at the last look */
    char system[32]; /* the server's name for itself */
    char file[32];   /* the name of the table's file; "": not known yet */
    const char *why; /* it begins anew */
    uint64_t beat, beat_seen;
    bool must_look;       /* a notification said so */
    uint64_t waits_since; /* for transactions, at the beginning */
    struct key_batch batch;
};

static uint64_t postgres_follow_deadline(const struct postgres_follow *f)
{
    /* looks are no questions: some more time does no harm */
    return source_now() + f->source->how.timeout_ms * SOURCE_MILLISECOND
           + 5 * SOURCE_SECOND;
}

static void postgres_follow_forget(struct postgres_follow *f, const char *why)
{
    free(f->low);
    free(f->high);
    free(f->running);
    f->low = f->high = f->running = NULL;
    f->placed = false;
    f->file[0] = 0;
    f->waits_since = 0;
    f->why = why;
}

static void postgres_follow_close(struct postgres_follow *f)
{
    free(f->read_from);
    free(f->read_all);
    free(f->read_top);
    f->read_from = f->read_all = f->read_top = NULL;
    postgres_query_free(&f->query);
    postgres_link_close(&f->link);
}

static bg_err postgres_follow_keep(char **to, const char *text, bg_errinfo *info)
{
    char *copy = strdup(text);
    if (copy) {
        free(*to);
        *to = copy;
    }
    return copy ? BG_OK : source_no_memory(info);
}

/* ---- SQL ------------------------------------------------------------------------------- */

/* The expression of where to begin, for a column of that type; NULL: no memory. */
static char *postgres_follow_bound(Oid type, double overlap)
{
    const double back = overlap;
    switch (type) {
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
        return source_format("$1::bigint - %.0f::bigint", back < 0 ? 1000 : ceil(back));
    case PG_NUMERIC:
        return source_format("$1::numeric - %.17g::numeric", back < 0 ? 1000 : back);
    case PG_FLOAT4:
    case PG_FLOAT8: return source_format("$1::float8 - %.17g", back < 0 ? 0 : back);
    case PG_DATE:
        return source_format("$1::date - %.0f::int",
                             ceil((back < 0 ? 10 : back) / 86400));
    case PG_TIMESTAMP:
        return source_format("$1::timestamp - %.17g * interval '1 second'",
                             back < 0 ? 10 : back);
    case PG_TIMESTAMPTZ:
        return source_format("$1::timestamptz - %.17g * interval '1 second'",
                             back < 0 ? 10 : back);
    case PG_XID8: return strdup("$1::xid8");
    default: return strdup("$1");
    }
}

static bg_err postgres_follow_write_sql(struct postgres_follow *f, bg_errinfo *info)
{
    const struct source *source = f->source;
    const char *rows = source->how.query, *column = f->query.column;
    char *bound = postgres_follow_bound(f->query.type, source->how.overlap);
    if (bound && strcmp(bound, "$1") == 0 && source->how.overlap > 0) {
        free(bound);
        return source_error(info, BG_EINVAL, "overlap",
                            "0, for a column that is no number and no time", "%g",
                            source->how.overlap);
    }
    f->exact = f->query.type == PG_XID8;
    f->read_from = bound ? source_format("SELECT * FROM (%s\n) AS bloomgate"
                                         " WHERE %s >= %s ORDER BY %s",
                                         rows, column, bound, column)
                         : NULL;
    f->read_all =
        source_format("SELECT * FROM (%s\n) AS bloomgate ORDER BY %s", rows, column);
    f->read_top =
        source_format("SELECT %s FROM (%s\n) AS bloomgate WHERE %s IS NOT NULL"
                      " ORDER BY %s DESC LIMIT 1",
                      column, rows, column, column);
    free(bound);
    return f->read_from && f->read_all && f->read_top ? BG_OK : source_no_memory(info);
}

/* ---- Connecting ------------------------------------------------------------------------ */

/* A value of one row and one column, as text; "" if there is none. */
static bg_err postgres_follow_ask(struct postgres_follow *f, const char *sql,
                                  char *text, size_t room, bg_errinfo *info)
{
    PGresult *rows = NULL;
    const bg_err err = postgres_link_run(&f->link, "follow", sql, NULL,
                                         postgres_follow_deadline(f), &rows, info);
    if (!err) {
        (void)snprintf(text, room, "%s",
                       PQntuples(rows) > 0 ? PQgetvalue(rows, 0, 0) : "");
    }
    PQclear(rows);
    return err;
}

/* Is it the server of before? Else what was read of the other one is worth nothing. */
static bg_err postgres_follow_recognise(struct postgres_follow *f, bg_errinfo *info)
{
    char may[8] = "", system[32] = "", standby[8] = "";
    bg_err err = postgres_follow_ask(
        f, "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')", may,
        sizeof may, info);
    if (!err && *may == 't') {
        err =
            postgres_follow_ask(f, "SELECT system_identifier FROM pg_control_system()",
                                system, sizeof system, info);
    }
    err = err ? err
              : postgres_follow_ask(f, "SELECT pg_is_in_recovery()", standby,
                                    sizeof standby, info);
    if (!err && *standby == 't' && !f->exact) {
        err = source_error(info, BG_EINVAL, "follow",
                           "a column of type xid8, on a standby", "%s",
                           f->source->how.follow);
    }
    if (!err && f->placed && strcmp(system, f->system) != 0) {
        postgres_follow_forget(f, "it is another server");
    }
    if (!err) {
        (void)snprintf(f->system, sizeof f->system, "%s", system);
    }
    return err;
}

static bg_err postgres_follow_listen(struct postgres_follow *f, bg_errinfo *info)
{
    char *channel = source_quote(f->source->how.channel);
    char *sql = channel ? source_format("LISTEN %s", channel) : NULL;
    const bg_err err = sql ? postgres_link_do(&f->link, "channel", sql,
                                              postgres_follow_deadline(f), info)
                           : source_no_memory(info);
    free(sql);
    free(channel);
    return err;
}

static bg_err postgres_follow_open(struct postgres_follow *f, bool checks,
                                   bg_errinfo *info)
{
    const struct source *source = f->source;
    const uint64_t deadline = postgres_follow_deadline(f);
    bg_err err = postgres_link_open(&f->link, f->source, PG_READS, deadline, info);
    err = err ? err : postgres_query_look(&f->link, deadline, &f->query, info);
    if (!err && source->by == FOLLOW_COLUMN) {
        err = postgres_follow_write_sql(f, info);
    }
    err = err ? err : postgres_follow_recognise(f, info);
    if (!err && !checks && source->how.install != SOURCE_INSTALL_NO) {
        err = postgres_install(f->source, &f->query, deadline, info);
    }
    if (!err && f->source->listens) {
        err = postgres_follow_listen(f, info);
    }
    if (!err && source->by == FOLLOW_NOTIFY && f->placed) {
        postgres_follow_forget(f, "the connection was lost");
    }
    return err;
}

bg_err postgres_follow_check(struct source *source, bg_errinfo *info)
{
    struct postgres_follow f = { .source = source };
    const bg_err err = postgres_follow_open(&f, true, info);
    postgres_follow_close(&f);
    return err;
}

/* ---- Transactions ---------------------------------------------------------------------- */

/* Is the table still the one that is followed, and its trigger in place? */
static bg_err postgres_follow_inspect(struct postgres_follow *f, const char *file,
                                      const char *triggers, bg_errinfo *info)
{
    if (f->source->how.install != SOURCE_INSTALL_NO && *triggers != '1') {
        postgres_follow_forget(f, "the trigger was gone");
        return source_error(info, BG_EIO, "install", "the trigger that was made",
                            "none, or one that is off");
    }
    if (f->source->by == FOLLOW_COLUMN && !f->exact) {
        if (*f->file && strcmp(f->file, file) != 0) {
            postgres_follow_forget(f, "the table was emptied or made anew");
            return source_error(info, BG_EIO, "follow", "the table of before",
                                "one that was emptied or made anew");
        }
        (void)snprintf(f->file, sizeof f->file, "%s", file);
    }
    return BG_OK;
}

/*
 * The lowest running transaction, and which run: of those in f->running, or of all if that is not
 * known. *none: there are none of them, and none is prepared.
 */
static bg_err postgres_follow_transactions(struct postgres_follow *f, bool *none,
                                           bg_errinfo *info)
{
    static const char sql[] =
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text,"
        " ARRAY(SELECT l.virtualtransaction FROM pg_locks l"
        " LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
        " WHERE l.locktype = 'virtualxid' AND l.granted AND l.mode = 'ExclusiveLock'"
        " AND l.pid <> pg_backend_pid() AND l.pid <> $2::int"
        " AND (a.datid IS NULL OR a.datname = current_database())"
        " AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
        " AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1::text[])))::text,"
        " (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),"
        " (SELECT relfilenode FROM pg_class WHERE oid = $3::oid),"
        " (SELECT count(*) FROM pg_trigger WHERE tgrelid = $3::oid AND tgenabled = 'A'"
        " AND tgname = 'bg_tell_' || $4::text)";
    struct postgres_own *own = f->source->own;
    char reader[16], table[16];
    PGresult *rows = NULL;
    (void)snprintf(reader, sizeof reader, "%d", atomic_load(&own->reader));
    (void)snprintf(table, sizeof table, "%u", f->query.table);
    const struct postgres_arguments given = { 4,
                                              { { .data = f->running },
                                                { .data = reader },
                                                { .data = table },
                                                { .data = f->source->how.channel } } };
    bg_err err = postgres_link_run(&f->link, "follow", sql, &given,
                                   postgres_follow_deadline(f), &rows, info);
    if (err) {
        return err;
    }
    const uint64_t lowest = strtoull(PQgetvalue(rows, 0, 0), NULL, 10);
    if (f->placed && lowest < f->lowest) {
        postgres_follow_forget(f, "transactions are counted from an earlier one");
    }
    f->lowest = lowest;
    err = postgres_follow_inspect(f, PQgetvalue(rows, 0, 3), PQgetvalue(rows, 0, 4),
                                  info);
    err = err ? err : postgres_follow_keep(&f->running, PQgetvalue(rows, 0, 1), info);
    *none = !err && strcmp(PQgetvalue(rows, 0, 1), "{}") == 0
            && strcmp(PQgetvalue(rows, 0, 2), "0") == 0;
    PQclear(rows);
    return err;
}

/* ---- Reading by the column ------------------------------------------------------------- */

/* Tells all rows from low on; *last is the number of the last one, or NULL. */
static bg_err postgres_follow_read(struct postgres_follow *f, char **last,
                                   bg_errinfo *info)
{
    const struct postgres_arguments low = { 1, { { .data = f->low } } };
    PGresult *row = NULL;
    bg_err err =
        postgres_link_begin(&f->link, "follow", f->low ? f->read_from : f->read_all,
                            f->low ? &low : NULL, info);
    for (;;) {
        err = err ? err : postgres_link_next(&f->link, "follow", 0, &row, info);
        if (err || !row) {
            break;
        }
        if (!postgres_link_key(row, 0, &f->batch)) {
            err = source_no_memory(info);
        } else if (!PQgetisnull(row, 0, f->query.number)) {
            err = postgres_follow_keep(last, PQgetvalue(row, 0, f->query.number), info);
        }
        if (key_batch_is_full(&f->batch)) {
            source_tell_keys(f->source, &f->batch);
        }
        PQclear(row);
        row = NULL;
    }
    PQclear(row);
    source_tell_keys(f->source, &f->batch);
    return err;
}

/* A look, by (1) or (2). `none`: of the transactions before `high` none runs any more. */
static bg_err postgres_follow_catch_up(struct postgres_follow *f, bool none,
                                       bg_errinfo *info)
{
    char *last = NULL, lowest[24];
    (void)snprintf(lowest, sizeof lowest, "%llu", (unsigned long long)f->lowest);
    bg_err err = postgres_follow_read(f, &last, info);
    if (!err && f->exact) {
        err = postgres_follow_keep(&f->low, lowest, info);
    } else if (!err) {
        if (f->high && none) {
            free(f->low);
            f->low = f->high;
            f->high = NULL;
        }
        if (!f->high) {
            f->high = last;
            last = NULL;
            free(f->running); /* those that run now; seen at the next look */
            f->running = NULL;
        }
    }
    free(last);
    return err;
}

/* Takes the position, and tells `anew` as soon as that is safe. */
static bg_err postgres_follow_place(struct postgres_follow *f, bg_errinfo *info)
{
    bool none = true;
    bg_err err = BG_OK;
    if (f->read_top && !f->exact && !f->high) {
        char top[256] = "";
        err =
            postgres_follow_transactions(f, &none, info); /* to know the table's file */
        free(f->running);
        f->running = NULL;
        err = err ? err : postgres_follow_ask(f, f->read_top, top, sizeof top, info);
        if (!err && *top) {
            err = postgres_follow_keep(&f->high, top, info);
        }
        f->waits_since = source_now();
    }
    err = err ? err : postgres_follow_transactions(f, &none, info);
    if (err || (f->high && !none)) {
        const uint64_t waits = f->waits_since ? source_now() - f->waits_since : 0;
        if (!err && waits > SOURCE_SECOND) {
            char why[192];
            (void)snprintf(why, sizeof why,
                           "waits for transactions that began earlier: %s", f->running);
            source_tell_state(f->source, false, why);
        }
        return err;
    }
    f->low = f->high;
    f->high = NULL;
    free(f->running);
    f->running = NULL;
    if (f->exact) {
        char lowest[24];
        (void)snprintf(lowest, sizeof lowest, "%llu", (unsigned long long)f->lowest);
        err = postgres_follow_keep(&f->low, lowest, info);
    }
    if (!err) {
        f->placed = true;
        source_tell_anew(f->source, f->why);
    }
    return err;
}

/* ---- Notifications --------------------------------------------------------------------- */

static void postgres_follow_take(struct postgres_follow *f, const PGnotify *told)
{
    const char *text = told->extra;
    bool known = false;
    if (*text == '=') {
        known = key_batch_put(&f->batch, text + 1, strlen(text + 1));
    } else if (*text == 'x') {
        known = key_batch_put_hex(&f->batch, text + 1, strlen(text + 1));
    } else if (*text == '!') {
        known = true;
        if (told->be_pid == PQbackendPID(f->link.db)) {
            f->beat_seen = strtoull(text + 1, NULL, 10);
        }
    }
    f->must_look = f->must_look || !known; /* "*", and whatever is not understood */
}

/* All that has come. */
static bg_err postgres_follow_hear(struct postgres_follow *f, bg_errinfo *info)
{
    PGnotify *told;
    if (!PQconsumeInput(f->link.db)) {
        return source_error(info, BG_EIO, "channel", "a connection", "%s",
                            PQerrorMessage(f->link.db));
    }
    while ((told = PQnotifies(f->link.db))) {
        postgres_follow_take(f, told);
        PQfreemem(told);
        if (key_batch_is_full(&f->batch)) {
            source_tell_keys(f->source, &f->batch);
        }
    }
    source_tell_keys(f->source, &f->batch);
    if (f->must_look && f->source->by == FOLLOW_NOTIFY) {
        f->must_look = false;
        postgres_follow_forget(f, "a change was too large to be told");
    }
    return BG_OK;
}

/* Sends a beat and waits until it comes back, and so everything that was told before it. */
static bg_err postgres_follow_send_beat(struct postgres_follow *f, bg_errinfo *info)
{
    const uint64_t deadline = postgres_follow_deadline(f);
    char beat[32];
    (void)snprintf(beat, sizeof beat, "!%llu", (unsigned long long)++f->beat);
    const struct postgres_arguments given = {
        2, { { .data = f->source->how.channel }, { .data = beat } }
    };
    bg_err err = postgres_link_run(&f->link, "channel", "SELECT pg_notify($1, $2)",
                                   &given, deadline, NULL, info);
    err = err ? err : postgres_follow_hear(f, info);
    while (!err && f->beat_seen != f->beat) {
        if (source_is_stopping(f->source)) {
            return source_stopped(info);
        }
        if (source_now() >= deadline) {
            return source_error(info, BG_EIO, "channel", "our own notification in time",
                                "none");
        }
        (void)source_pause(f->source, 100 * SOURCE_MILLISECOND, PQsocket(f->link.db));
        err = postgres_follow_hear(f, info);
    }
    return err;
}

/* ---- Looks ----------------------------------------------------------------------------- */

static bg_err postgres_follow_look(struct postgres_follow *f, bg_errinfo *info)
{
    const uint64_t since = source_now();
    bool none = true;
    f->must_look = false;
    bg_err err = f->placed ? BG_OK : postgres_follow_place(f, info);
    if (err || !f->placed) {
        return err;
    }
    err = postgres_follow_transactions(f, &none, info);
    if (err || !f->placed) {
        f->must_look = true; /* it has to begin anew */
        return err;
    }
    const uint64_t position = f->lowest - 1;
    if (f->source->by == FOLLOW_COLUMN) {
        err = postgres_follow_catch_up(f, none, info);
    } else {
        err = postgres_follow_send_beat(f, info);
    }
    if (!err && f->placed) {
        source_tell_caught_up(f->source, position, since);
    }
    return err;
}

/* Connects if need be, hears, and looks if it is time to. */
static bg_err postgres_follow_turn(struct postgres_follow *f, bool due,
                                   bg_errinfo *info)
{
    bg_err err = BG_OK;
    if (!f->link.db) {
        err = postgres_follow_open(f, false, info);
        due = true;
    }
    if (!err && f->source->listens) {
        err = postgres_follow_hear(f, info);
    }
    if (!err && (due || f->must_look || !f->placed)) {
        err = postgres_follow_look(f, info);
    }
    return err;
}

void postgres_follow_run(struct source *source)
{
    const uint64_t poll = source->how.poll_ms * SOURCE_MILLISECOND;
    struct postgres_follow f = { .source = source, .why = "it is the first time" };
    uint32_t failures = 0;
    uint64_t next = 0;
    while (!source_is_stopping(source)) {
        bg_errinfo why = { .code = BG_OK };
        const bool due =
            atomic_exchange(&source->looked_for, false) || source_now() >= next;
        if (postgres_follow_turn(&f, due, &why)) {
            postgres_follow_close(&f);
            source_tell_state(source, false, why.message);
            (void)source_pause(source, source_rest(failures++), -1);
            continue;
        }
        failures = 0;
        if (f.placed) {
            source_tell_state(source, true, "");
        }
        const uint64_t now = source_now();
        next = due ? now + poll : next;
        const uint64_t wait = f.must_look ? 0 : next > now ? next - now : 0;
        (void)source_pause(source, wait, PQsocket(f.link.db));
    }
    postgres_follow_close(&f);
    postgres_follow_forget(&f, "");
    key_batch_free(&f.batch);
}

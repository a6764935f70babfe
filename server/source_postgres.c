/*
 * source_postgres.c - PostgreSQL as a source: questions and keys. Following is in
 * postgres_follow.c.
 *
 * What a key is in SQL. The server infers the type of $1; text and bytea are sent as they are,
 * everything else as text that the server parses. A key that cannot be parsed, such as letters
 * for a number, is absent: no row of that type can have it. That holds if the parameter has the
 * type of the query's column, which is looked at; if it has another one, the error stays an error.
 * Else strangers could open the breaker with nonsense.
 *
 * Keys are read by one statement, which sees the database at one moment, row by row: the server
 * is not asked for more than there is room for.
 */
#include "postgres_stream.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct postgres_asker {
    struct postgres_link link;
    Oid type;   /* of the parameter */
    bool alike; /* the keys have it as well */
};

struct postgres_reader {
    struct postgres_link link; /* open while it reads */
    struct source *source;
    bool begun, ended;
};

/* ---- Life ------------------------------------------------------------------------------ */

static bg_err source_postgres_create(struct source *source, bg_errinfo *info)
{
    char *why = NULL;
    PQconninfoOption *parsed = PQconninfoParse(source->place, &why);
    if (!parsed) {
        const bg_err err = source_error(info, BG_EINVAL, "source",
                                        "what libpq can read: postgres://user@host/db",
                                        "%s", why ? why : "no memory");
        PQfreemem(why);
        return err;
    }
    PQconninfoFree(parsed);
    if (source->by != FOLLOW_NONE && source->by != FOLLOW_COLUMN
        && source->by != FOLLOW_NOTIFY) {
        return source_error(info, BG_EINVAL, "follow",
                            "none, column:NAME, notify or notify:NAME for PostgreSQL",
                            "%s", source->how.follow);
    }
    if (strlen(source->how.channel) > 50) {
        return source_error(info, BG_EINVAL, "channel", "at most 50 bytes", "%s",
                            source->how.channel);
    }
    const bool install = source->how.install != SOURCE_INSTALL_NO;
    if (install && source->by == FOLLOW_NONE) {
        return source_error(info, BG_EINVAL, "install",
                            "no, or something to follow: notify or column:NAME",
                            "follow=none");
    }
    struct postgres_own *own = calloc(1, sizeof *own);
    if (!own) {
        return source_no_memory(info);
    }
    source->listens = source->listens || source->by == FOLLOW_NOTIFY || install;
    atomic_init(&own->reader, 0);
    source->own = own;
    return BG_OK;
}

static void source_postgres_destroy(struct source *source)
{
    free(source->own);
}

/* ---- The query ------------------------------------------------------------------------- */

static bg_err postgres_query_find(const struct source *source, const PGresult *about,
                                  struct postgres_query *query, bg_errinfo *info)
{
    const int n = PQnfields(about);
    for (int i = 0; source->column && i < n; i++) {
        if (strcmp(PQfname(about, i), source->column) == 0) {
            query->number = i;
            query->type = PQftype(about, i);
            query->column = source_quote(source->column);
            return query->column ? BG_OK : source_no_memory(info);
        }
    }
    return source->column
               ? source_error(info, BG_EINVAL, "follow",
                              "a column of the query: SELECT key, column FROM ...",
                              "column:%s, which it has not", source->column)
               : BG_OK;
}

bg_err postgres_query_look(struct postgres_link *link, uint64_t deadline,
                           struct postgres_query *query, bg_errinfo *info)
{
    const struct source *source = link->source;
    PGresult *about = NULL;
    *query = (struct postgres_query){ .number = -1 };
    bg_err err =
        postgres_link_prepare(link, "query", "", source->how.query, deadline, info);
    err = err ? err : postgres_link_describe(link, "query", "", deadline, &about, info);
    if (!err && (PQnfields(about) < 1 || PQnparams(about) != 0)) {
        err = source_error(info, BG_EINVAL, "query",
                           "columns, the first of them the key, and no parameters",
                           "%d columns, %d parameters", PQnfields(about),
                           PQnparams(about));
    }
    if (!err) {
        query->key = PQftype(about, 0);
        query->table = PQftable(about, 0);
        query->attribute = PQftablecol(about, 0);
        err = postgres_query_find(source, about, query, info);
    }
    PQclear(about);
    return err;
}

void postgres_query_free(struct postgres_query *query)
{
    free(query->column);
    query->column = NULL;
}

/* ---- Questions ------------------------------------------------------------------------- */

static void source_postgres_disconnect(void *connection)
{
    struct postgres_asker *asker = connection;
    postgres_link_close(&asker->link);
    free(asker);
}

static bool source_postgres_is_text(Oid type)
{
    return type == PG_TEXT || type == PG_VARCHAR || type == PG_BPCHAR
           || type == PG_NAME;
}

static bg_err source_postgres_prepare(struct postgres_asker *asker, uint64_t deadline,
                                      bg_errinfo *info)
{
    struct postgres_link *link = &asker->link;
    struct postgres_query query;
    PGresult *about = NULL;
    bg_err err = postgres_query_look(link, deadline, &query, info);
    postgres_query_free(&query);
    err = err ? err
              : postgres_link_prepare(link, "lookup", "lookup",
                                      link->source->how.lookup, deadline, info);
    err =
        err ? err
            : postgres_link_describe(link, "lookup", "lookup", deadline, &about, info);
    if (!err && (PQnparams(about) != 1 || PQnfields(about) < 1)) {
        err = source_error(info, BG_EINVAL, "lookup",
                           "one parameter, and a column: SELECT 1 ... WHERE key = $1",
                           "%d parameters, %d columns", PQnparams(about),
                           PQnfields(about));
    }
    if (!err) {
        asker->type = PQparamtype(about, 0);
        asker->alike = asker->type == query.key
                       || (source_postgres_is_text(asker->type)
                           && source_postgres_is_text(query.key));
    }
    PQclear(about);
    return err;
}

static bg_err source_postgres_connect(void *owner, uint64_t deadline, void **connection,
                                      bg_errinfo *info)
{
    struct postgres_asker *asker = calloc(1, sizeof *asker);
    *connection = NULL;
    if (!asker) {
        return source_no_memory(info);
    }
    bg_err err = postgres_link_open(&asker->link, owner, PG_ASKS, deadline, info);
    err = err ? err : source_postgres_prepare(asker, deadline, info);
    if (err) {
        source_postgres_disconnect(asker);
        return err;
    }
    *connection = asker;
    return BG_OK;
}

static bool source_postgres_is_fresh(void *owner, void *connection)
{
    (void)owner;
    return postgres_link_is_open(&((struct postgres_asker *)connection)->link);
}

/* Whether the server refused the key itself: a value that its type cannot have. */
static bool source_postgres_is_misfit(const struct postgres_asker *asker)
{
    static const char *const codes[] = { "22P02", "22P03", "22021",
                                         "22003", "22007", "22008" };
    const char *code = postgres_link_code(&asker->link);
    for (size_t i = 0; asker->alike && i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The question failed: what does that mean? */
static bg_truth source_postgres_failed(const struct postgres_asker *asker, bg_err err,
                                       bool *broken)
{
    const bool open = postgres_link_is_open(&asker->link);
    const bool refused = err == BG_EIO && open && *postgres_link_code(&asker->link);
    if (refused && source_postgres_is_misfit(asker)) {
        return BG_TRUTH_ABSENT;
    }
    *broken = !refused || strcmp(postgres_link_code(&asker->link), "57014") != 0;
    return BG_TRUTH_ERROR;
}

static bg_truth source_postgres_ask_with(struct postgres_asker *asker,
                                         const struct postgres_arguments *key,
                                         struct source_value *value, uint64_t deadline,
                                         bool *broken, bg_errinfo *info)
{
    PGresult *rows = NULL;
    PQclear(asker->link.last);
    asker->link.last = NULL;
    const bg_err err = postgres_link_execute(&asker->link, "lookup", "lookup", key,
                                             deadline, &rows, info);
    if (err) {
        return source_postgres_failed(asker, err, broken);
    }
    const bool present = PQntuples(rows) > 0;
    if (present && !PQgetisnull(rows, 0, 0)) {
        source_value_set(value, PQgetvalue(rows, 0, 0),
                         (size_t)PQgetlength(rows, 0, 0));
    }
    PQclear(rows);
    return present ? BG_TRUTH_PRESENT : BG_TRUTH_ABSENT;
}

static bg_truth source_postgres_ask(struct source *source, void *connection,
                                    bg_bytes key, struct source_value *value,
                                    uint64_t deadline, bool *broken, bg_errinfo *info)
{
    struct postgres_asker *asker = connection;
    char small[256], *copy = small;
    struct postgres_arguments given = { 1,
                                        { { .data = key.data, .len = (int)key.len } } };
    struct postgres_argument *argument = &given.list[0];
    (void)source;
    if (key.len > INT_MAX / 4) {
        (void)source_error(info, BG_EINVAL, "key", "at most 512 MiB", "%zu bytes",
                           key.len);
        return BG_TRUTH_ERROR;
    }
    argument->binary = asker->type == PG_BYTEA || source_postgres_is_text(asker->type);
    if (argument->binary) {
        return source_postgres_ask_with(asker, &given, value, deadline, broken, info);
    }
    if (asker->alike && memchr(key.data, 0, key.len)) {
        return BG_TRUTH_ABSENT; /* no text has it, so no value is written so */
    }
    if (key.len >= sizeof small && !(copy = malloc(key.len + 1))) {
        (void)source_no_memory(info);
        return BG_TRUTH_ERROR;
    }
    memcpy(copy, key.data, key.len);
    copy[key.len] = 0;
    argument->data = copy;
    const bg_truth answer =
        source_postgres_ask_with(asker, &given, value, deadline, broken, info);
    if (copy != small) {
        free(copy);
    }
    return answer;
}

/* ---- All keys -------------------------------------------------------------------------- */

static uint64_t source_postgres_deadline(const struct source *source)
{
    return source_now() + source->how.timeout_ms * SOURCE_MILLISECOND;
}

static bg_err source_postgres_count(struct source *source, uint64_t *count,
                                    bg_errinfo *info)
{
    struct postgres_link link;
    PGresult *rows = NULL;
    char *own =
        *source->how.count
            ? NULL
            : source_format("SELECT count(*) FROM (%s\n) AS keys", source->how.query);
    *count = 0;
    if (!own && !*source->how.count) {
        return source_no_memory(info);
    }
    bg_err err = postgres_link_open(&link, source, PG_READS,
                                    source_postgres_deadline(source), info);
    if (!err) {
        err = postgres_link_run(&link, "count", own ? own : source->how.count, NULL, 0,
                                &rows, info);
    }
    if (!err && PQntuples(rows) > 0 && PQnfields(rows) > 0) {
        const double number = strtod(PQgetvalue(rows, 0, 0), NULL);
        *count = number > 0 && number < 0x1p56 ? (uint64_t)number : 0;
    }
    PQclear(rows);
    postgres_link_close(&link);
    free(own);
    return err;
}

static bg_err source_postgres_keys_open(struct source *source, void **made,
                                        bg_errinfo *info)
{
    struct postgres_reader *reader = calloc(1, sizeof *reader);
    *made = reader;
    if (!reader) {
        return source_no_memory(info);
    }
    reader->source = source;
    return BG_OK;
}

static bg_err source_postgres_keys_begin(struct postgres_reader *reader,
                                         bg_errinfo *info)
{
    struct source *source = reader->source;
    bg_err err = postgres_link_open(&reader->link, source, PG_READS,
                                    source_postgres_deadline(source), info);
    if (!err) {
        struct postgres_own *own = source->own;
        atomic_store(&own->reader, PQbackendPID(reader->link.db));
        reader->begun = true;
        err =
            postgres_link_begin(&reader->link, "query", source->how.query, NULL, info);
    }
    return err;
}

static bg_err source_postgres_keys_next(void *context, struct key_batch *batch,
                                        size_t room, bg_errinfo *info)
{
    struct postgres_reader *reader = context;
    bg_err err = reader->begun ? BG_OK : source_postgres_keys_begin(reader, info);
    while (!err && !reader->ended && batch->n < room && !key_batch_is_full(batch)) {
        PGresult *row;
        err = postgres_link_next(&reader->link, "query", 0, &row, info);
        if (!err && !row) {
            reader->ended = true;
        } else if (!err && !postgres_link_key(row, 0, batch)) {
            err = source_no_memory(info);
        }
        PQclear(row);
    }
    return err;
}

static bg_err source_postgres_keys_rewind(void *context, bg_errinfo *info)
{
    struct postgres_reader *reader = context;
    struct postgres_own *own = reader->source->own;
    (void)info;
    postgres_link_close(&reader->link);
    atomic_store(&own->reader, 0);
    reader->begun = reader->ended = false;
    return BG_OK;
}

static void source_postgres_keys_close(void *context)
{
    (void)source_postgres_keys_rewind(context, NULL);
    free(context);
}

/* ---- Is all well? ---------------------------------------------------------------------- */

static bg_err source_postgres_check(struct source *source, bg_errinfo *info)
{
    void *asker;
    const uint64_t deadline = source_postgres_deadline(source);
    bg_err err = source_postgres_connect(source, deadline, &asker, info);
    if (err) {
        return err;
    }
    if (*source->how.count) {
        err = postgres_link_prepare(&((struct postgres_asker *)asker)->link, "count",
                                    "count", source->how.count, deadline, info);
    }
    source_postgres_disconnect(asker);
    return err || source->by == FOLLOW_NONE ? err : postgres_follow_check(source, info);
}

const struct source_ops source_postgres_ops = {
    .create = source_postgres_create,
    .destroy = source_postgres_destroy,
    .pool = { source_postgres_connect, source_postgres_disconnect,
              source_postgres_is_fresh },
    .ask = source_postgres_ask,
    .check = source_postgres_check,
    .count = source_postgres_count,
    .keys_open = source_postgres_keys_open,
    .keys_next = source_postgres_keys_next,
    .keys_rewind = source_postgres_keys_rewind,
    .keys_close = source_postgres_keys_close,
    .follow = postgres_follow_run,
};

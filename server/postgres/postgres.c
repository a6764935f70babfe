/*
 * postgres/postgres.c - PostgreSQL as a source: lookups, and reading without a follower.
 *
 * Keys as parameters. The server infers the type of $1. Text and bytea are sent in binary format. All other types are
 * sent as text that the server parses. A key that cannot be parsed, such as letters for a number, is absent, because no
 * value of that type has this spelling. If such a key caused an error, untrusted keys could open the circuit breaker.
 * Two conditions together prove that the key is absent: the parameter has the type of the key column, and the server
 * also rejects the key in a separate statement, without running `lookup`. Any other error remains an error, because
 * an expression in `lookup` can fail with the same error code for a row that exists.
 *
 * Connections. Every connection verifies that it reached the same server as the follower: the same system identifier,
 * timeline and database (postgres/schema.h).
 */
#include "postgres/reader.h"
#include "postgres/schema.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct postgres_asker {
    struct postgres_link link;
    Oid type;       /* type of the parameter */
    bool alike;     /* the key column has the same type, or both are text */
    uint64_t epoch; /* epoch in which the connection was opened */
};

/* ---- Life ------------------------------------------------------------------------------ */

static bg_err source_postgres_create(struct source *source, bg_errinfo *info)
{
    char *why = NULL;
    PQconninfoOption *parsed = PQconninfoParse(source->place, &why);
    if (!parsed) {
        const bg_err err =
            source_error(info, BG_EINVAL, "source", NULL,
                         "%.300s; use a URI such as postgres://user@host/db",
                         why ? why : "out of memory");
        PQfreemem(why);
        return err;
    }
    PQconninfoFree(parsed);
    source->mode = source->by == FOLLOW_LOGICAL   ? &postgres_logical_mode
                   : source->by == FOLLOW_CHANGES ? &postgres_changes_mode
                                                  : &postgres_plain_mode;
    return BG_OK;
}

/* ---- Lookups --------------------------------------------------------------------------- */

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

static bool source_postgres_is_integer(Oid type)
{
    return type == PG_INT2 || type == PG_INT4 || type == PG_INT8;
}

/* Returns whether the parameter of `lookup` accepts exactly the spellings that the server prints for the key column.
 * Otherwise the database could find a key for which the filter answers "no", for example with WHERE lower(email) =
 * $1 and a citext parameter. */
static bool source_postgres_fits(Oid parameter, Oid key)
{
    return parameter == key || (parameter == PG_VARCHAR && key == PG_TEXT)
           || (source_postgres_is_integer(parameter)
               && source_postgres_is_integer(key));
}

/* Verifies that the column's values are spelled as in the filter, because lookup keys have already been normalized
 * to that spelling. After the type of the column has changed, lookups fail until the follower has detected the
 * change. */
static bg_err source_postgres_spells(struct source *source,
                                     const struct postgres_keys *keys, bg_errinfo *info)
{
    const enum key_form form = source_form(source);
    if (!source_is_followed(source)) {
        postgres_keys_use(source, keys);
    } else if (form != KEY_FORM_UNKNOWN && form != keys->form) {
        source_look(source);
        return source_error(info, BG_EIO, "lookup", NULL,
                            "the key column now has type %s; retry the lookup",
                            keys->name);
    }
    return BG_OK;
}

static bg_err source_postgres_prepare(struct postgres_asker *asker, uint64_t deadline,
                                      bg_errinfo *info)
{
    struct postgres_link *link = &asker->link;
    struct postgres_keys keys;
    PGresult *about = NULL;
    bg_err err = postgres_keys_look(link, deadline, &keys, info);
    err = err ? err : source_postgres_spells(link->source, &keys, info);
    err = err ? err : postgres_schema_verify_server(link, deadline, info);
    err = err ? err
              : postgres_link_prepare(link, "lookup", "lookup",
                                      link->source->how.lookup, deadline, info);
    err =
        err ? err
            : postgres_link_describe(link, "lookup", "lookup", deadline, &about, info);
    if (!err && (PQnparams(about) != 1 || PQnfields(about) < 1)) {
        err = source_error(
            info, BG_EINVAL, "lookup", NULL,
            "the statement has %d parameters and %d columns; use one parameter and"
            " at least one column: SELECT id ... WHERE key = $1",
            PQnparams(about), PQnfields(about));
    }
    if (!err && !source_postgres_fits(PQparamtype(about, 0), keys.type)) {
        err = source_error(
            info, BG_EINVAL, "lookup", NULL,
            "$1 does not have the type of the key column (%s); use WHERE column = $1"
            " without casts",
            keys.name);
    }
    if (!err) {
        asker->type = PQparamtype(about, 0);
        asker->alike = asker->type == keys.type
                       || (source_postgres_is_text(asker->type)
                           && source_postgres_is_text(keys.type));
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
    asker->epoch = atomic_load(&((struct source *)owner)->epoch);
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
    const struct source *source = owner;
    const struct postgres_asker *asker = connection;
    return asker->epoch == atomic_load(&source->epoch)
           && postgres_link_is_open(&asker->link);
}

/* Returns whether the database uses a single-byte encoding. In that case, a character that the server cannot convert
 * from UTF-8 does not exist in the encoding. This does not hold for multi-byte encodings: for some of them, the server
 * cannot convert all of its own output back. */
static bool source_postgres_is_simple(const struct postgres_asker *asker)
{
    static const char *const simple[] = { "LATIN", "WIN", "ISO_8859", "KOI8" };
    const char *encoding = PQparameterStatus(asker->link.db, "server_encoding");
    for (size_t i = 0; encoding && i < sizeof simple / sizeof *simple; i++) {
        if (strncmp(encoding, simple[i], strlen(simple[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether the last statement failed because a value is invalid for its type or its encoding. */
static bool source_postgres_is_misfit(const struct postgres_asker *asker)
{
    static const char *const codes[] = { "22P02", "22P03", "22021", "22003",
                                         "22007", "22008", "22009" };
    const char *code = postgres_link_code(&asker->link);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return strcmp(code, "22P05") == 0 && source_postgres_is_simple(asker);
}

static void source_postgres_forget_error(struct postgres_asker *asker)
{
    PQclear(asker->link.last);
    asker->link.last = NULL;
}

/* Returns whether the key is not a valid value of its type. Tests the key in a separate statement,
 * without running the `lookup` query. */
static bool source_postgres_is_impossible(struct postgres_asker *asker,
                                          const struct postgres_arguments *key,
                                          uint64_t deadline)
{
    struct postgres_arguments alone = *key;
    alone.list[0].type = asker->type;
    source_postgres_forget_error(asker);
    return postgres_link_run(&asker->link, "lookup", "SELECT $1 IS NULL", &alone,
                             deadline, NULL, NULL)
               != BG_OK
           && source_postgres_is_misfit(asker);
}

/* Determines whether a failed lookup means that the key is absent or that an error occurred. */
static bg_store_answer source_postgres_failed(struct postgres_asker *asker, bg_err err,
                                              const struct postgres_arguments *key,
                                              uint64_t deadline, bool *broken)
{
    const bool open = postgres_link_is_open(&asker->link);
    const bool refused = err == BG_EIO && open && *postgres_link_code(&asker->link);
    *broken = !refused || strcmp(postgres_link_code(&asker->link), "57014") != 0;
    if (refused && asker->alike && source_postgres_is_misfit(asker)
        && source_postgres_is_impossible(asker, key, deadline)) {
        *broken = false;
        return BG_STORE_ABSENT;
    }
    return BG_STORE_ERROR;
}

/* Adds column i of the first row. Values of type bytea are decoded. */
static void source_postgres_column(const PGresult *rows, int i, struct store_row *row)
{
    const char *value = PQgetvalue(rows, 0, i);
    size_t len = (size_t)PQgetlength(rows, 0, i);
    unsigned char *decoded = NULL;
    if (PQgetisnull(rows, 0, i)) {
        value = NULL;
    } else if (PQftype(rows, i) == PG_BYTEA) {
        decoded = PQunescapeBytea((const unsigned char *)value, &len);
        value = (const char *)decoded;
        if (!decoded) {
            store_row_set_no_memory(row);
        }
    }
    store_row_add(row, PQfname(rows, i), value, len);
    PQfreemem(decoded);
}

static bg_store_answer source_postgres_ask_with(struct postgres_asker *asker,
                                                const struct postgres_arguments *key,
                                                struct store_row *row,
                                                uint64_t deadline, bool *broken,
                                                bg_errinfo *info)
{
    PGresult *rows = NULL;
    source_postgres_forget_error(asker);
    const bg_err err = postgres_link_execute(&asker->link, "lookup", "lookup", key,
                                             deadline, &rows, info);
    if (err) {
        return source_postgres_failed(asker, err, key, deadline, broken);
    }
    const bool present = PQntuples(rows) > 0;
    if (present) {
        store_row_begin(row);
    }
    for (int i = 0; present && row && i < PQnfields(rows); i++) {
        source_postgres_column(rows, i, row);
    }
    PQclear(rows);
    return present ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

static bg_store_answer source_postgres_ask(struct source *source, void *connection,
                                           bg_bytes key, struct store_row *row,
                                           uint64_t deadline, bool *broken,
                                           bg_errinfo *info)
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
        return BG_STORE_ERROR;
    }
    argument->binary = asker->type == PG_BYTEA || source_postgres_is_text(asker->type);
    if (argument->binary) {
        return source_postgres_ask_with(asker, &given, row, deadline, broken, info);
    }
    if (memchr(key.data, 0, key.len)) {
        if (asker->alike) {
            return BG_STORE_ABSENT; /* no printed value contains a NUL byte */
        }
        (void)source_error(
            info, BG_EINVAL, "key", NULL,
            "the key contains a zero byte, which PostgreSQL does not allow");
        return BG_STORE_ERROR;
    }
    if (key.len >= sizeof small && !(copy = malloc(key.len + 1))) {
        (void)source_no_memory(info);
        return BG_STORE_ERROR;
    }
    memcpy(copy, key.data, key.len);
    copy[key.len] = 0;
    argument->data = copy;
    const bg_store_answer answer =
        source_postgres_ask_with(asker, &given, row, deadline, broken, info);
    if (copy != small) {
        free(copy);
    }
    return answer;
}

/* ---- All keys -------------------------------------------------------------------------- */

static bg_err source_postgres_count(struct source *source, uint64_t *count,
                                    bg_errinfo *info)
{
    struct postgres_link link;
    const uint64_t deadline = postgres_link_deadline(source);
    bg_err err = postgres_link_open(&link, source, PG_READS, deadline, info);
    *count = 0;
    for (size_t i = 0; !err && i < source->columns.n; i++) {
        PGresult *rows = NULL;
        const struct key_column *column = &source->columns.list[i];
        char *sql = source_format("SELECT pg_catalog.count(%s) FROM %s",
                                  column->sql_column, column->sql_table);
        err = sql ? postgres_link_run(&link, "keys", sql, NULL, 0, &rows, info)
                  : source_no_memory(info);
        *count += err ? 0 : strtoull(PQgetvalue(rows, 0, 0), NULL, 10);
        PQclear(rows);
        free(sql);
    }
    postgres_link_close(&link);
    return err;
}

static bg_err source_postgres_check(struct source *source, bg_errinfo *info)
{
    void *asker;
    const bg_err err =
        source_postgres_connect(source, postgres_link_deadline(source), &asker, info);
    if (!err) {
        source_postgres_disconnect(asker);
    }
    return err;
}

const struct source_ops source_postgres_ops = {
    .create = source_postgres_create,
    .pool = { source_postgres_connect, source_postgres_disconnect,
              source_postgres_is_fresh },
    .ask = source_postgres_ask,
    .check = source_postgres_check,
    .count = source_postgres_count,
};

/* ---- Without a follower ------------------------------------------------------------------ */

static bg_err postgres_plain_begin(void *reader, bg_errinfo *info)
{
    return postgres_reader_begin(reader, NULL, info);
}

const struct source_mode postgres_plain_mode = {
    .reader_size = sizeof(struct postgres_reader),
    .keys_begin = postgres_plain_begin,
    .keys_next = postgres_reader_next,
    .keys_end = postgres_reader_end,
};

/*
 * postgres_install.c - a trigger that sends the keys of new and changed rows to a channel.
 *
 *     =KEY   the key, as text       xHEX   the key, of type bytea       *   look yourself
 *
 * "*" is sent in place of keys that are too long for a notification (8000 bytes), and, where a
 * column is followed as well, after BULK keys of one transaction: PostgreSQL sends equal
 * notifications of a transaction once, so a bulk load is BULK + 1 of them. How many there were is
 * kept in a setting of the transaction, bloomgate.told.
 *
 * The trigger is fired for every row, since those of statements are not fired for rows that are
 * put into a partition itself; and also for rows that come by logical replication (ENABLE ALWAYS).
 * It is made only if it is not there as it should be: making it locks the table for a moment, for
 * which it waits 5 seconds at most, since writers queue up behind it.
 */
#include "postgres_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTALL_BULK = 1000 };

/* Names in quotes, as SQL wants them. */
struct postgres_install {
    struct postgres_link link;
    uint64_t deadline;
    char *table; /* schema.table */
    char *schema;
    char *column;
    char *channel;  /* a literal */
    char *function; /* schema.name */
    char *trigger;
    char *body; /* of the function */
};

static void postgres_install_free(struct postgres_install *in)
{
    char *texts[] = { in->table,    in->schema,  in->column, in->channel,
                      in->function, in->trigger, in->body };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        free(texts[i]);
    }
    postgres_link_close(&in->link);
}

static char *postgres_install_literal(struct postgres_link *link, const char *text)
{
    char *quoted = PQescapeLiteral(link->db, text, strlen(text));
    char *copy = quoted ? strdup(quoted) : NULL;
    PQfreemem(quoted);
    return copy;
}

/* What the function does; see above. */
static char *postgres_install_body(const struct postgres_install *in,
                                   const struct source *source,
                                   const struct postgres_query *query)
{
    char *told = query->key == PG_BYTEA
                     ? source_format("'x' || encode(NEW.%s, 'hex')", in->column)
                 : query->key == PG_BPCHAR
                     ? source_format("'=' || NEW.%s::text", in->column)
                     : source_format("'=' || format('%%s', NEW.%s)", in->column);
    char *same = NULL, *bulk = NULL, *body = NULL;
    same = source->how.install == SOURCE_INSTALL_KEYS
               ? source_format("  IF TG_OP = 'UPDATE' AND NEW.%s IS NOT DISTINCT FROM"
                               " OLD.%s THEN RETURN NULL; END IF;\n",
                               in->column, in->column)
               : strdup("");
    bulk = source->by == FOLLOW_COLUMN ? source_format(
               "  told := coalesce(nullif(current_setting('bloomgate.told', true),"
               " ''), '0')::bigint + 1;\n"
               "  PERFORM set_config('bloomgate.told', told::text, true);\n"
               "  IF told > %d THEN key := '*'; END IF;\n",
               INSTALL_BULK)
                                       : strdup("");
    if (told && same && bulk) {
        body = source_format("\nDECLARE\n  key text;\n  told bigint;\nBEGIN\n"
                             "  IF NEW.%s IS NULL THEN RETURN NULL; END IF;\n%s"
                             "  key := %s;\n%s"
                             "  IF octet_length(key) > 7000 THEN key := '*'; END IF;\n"
                             "  PERFORM pg_notify(%s, key);\n  RETURN NULL;\nEND\n",
                             in->column, same, told, bulk, in->channel);
    }
    free(told);
    free(same);
    free(bulk);
    return body;
}

/* Table, schema and column of the keys, and the names that follow from them. */
static bg_err postgres_install_names(struct postgres_install *in,
                                     const struct postgres_query *query,
                                     bg_errinfo *info)
{
    char sql[512];
    PGresult *rows = NULL;
    const struct source *source = in->link.source;
    (void)snprintf(
        sql, sizeof sql,
        "SELECT format('%%I.%%I', n.nspname, c.relname), quote_ident(n.nspname),"
        " quote_ident(a.attname)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = %d"
        " WHERE c.oid = %u",
        query->attribute, query->table);
    bg_err err =
        postgres_link_run(&in->link, "install", sql, NULL, in->deadline, &rows, info);
    if (!err && PQntuples(rows) != 1) {
        err = source_error(info, BG_EINVAL, "install",
                           "a query whose first column is one of a table", "another");
    }
    if (!err) {
        char *name = source_format("bg_tell_%s", source->how.channel);
        in->trigger = name ? source_quote(name) : NULL;
        in->table = strdup(PQgetvalue(rows, 0, 0));
        in->schema = strdup(PQgetvalue(rows, 0, 1));
        in->column = strdup(PQgetvalue(rows, 0, 2));
        in->channel = postgres_install_literal(&in->link, source->how.channel);
        in->function = in->schema && in->trigger
                           ? source_format("%s.%s", in->schema, in->trigger)
                           : NULL;
        free(name);
        const bool all = in->table && in->column && in->channel && in->function;
        in->body = all ? postgres_install_body(in, source, query) : NULL;
        err = in->body ? BG_OK : source_no_memory(info);
    }
    PQclear(rows);
    return err;
}

/* Whether the trigger is there, enabled, with a function of just this body. */
static bg_err postgres_install_is_done(struct postgres_install *in, Oid table,
                                       bool *done, bg_errinfo *info)
{
    char relation[16];
    (void)snprintf(relation, sizeof relation, "%u", table);
    const struct postgres_arguments given = {
        3, { { .data = relation }, { .data = in->trigger }, { .data = in->body } }
    };
    PGresult *rows = NULL;
    const bg_err err = postgres_link_run(
        &in->link, "install",
        "SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
        " WHERE t.tgrelid = $1::oid AND format('\"%s\"', replace(t.tgname, '\"', '\"\"'))"
        " = $2::text AND t.tgenabled = 'A' AND p.prosrc = $3::text",
        &given, in->deadline, &rows, info);
    *done = !err && PQntuples(rows) == 1;
    PQclear(rows);
    return err;
}

static bg_err postgres_install_make(struct postgres_install *in, bg_errinfo *info)
{
    char *body = postgres_install_literal(&in->link, in->body);
    char *steps[] = {
        strdup("BEGIN"),
        strdup("SET LOCAL lock_timeout = '5s'"),
        strdup("SELECT pg_advisory_xact_lock(hashtext('bloomgate'))"),
        source_format("CREATE OR REPLACE FUNCTION %s() RETURNS trigger"
                      " LANGUAGE plpgsql AS %s",
                      in->function, body ? body : ""),
        source_format("DROP TRIGGER IF EXISTS %s ON %s", in->trigger, in->table),
        source_format("CREATE TRIGGER %s AFTER INSERT OR UPDATE ON %s FOR EACH ROW"
                      " EXECUTE FUNCTION %s()",
                      in->trigger, in->table, in->function),
        source_format("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", in->table,
                      in->trigger),
        strdup("COMMIT"),
    };
    bg_err err = body ? BG_OK : source_no_memory(info);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (!err) {
            err = steps[i] ? postgres_link_do(&in->link, "install", steps[i],
                                              in->deadline, info)
                           : source_no_memory(info);
        }
        free(steps[i]);
    }
    free(body);
    return err; /* the connection is closed next, which ends the transaction */
}

bg_err postgres_install(struct source *source, const struct postgres_query *query,
                        uint64_t deadline, bg_errinfo *info)
{
    struct postgres_install in = { .deadline = deadline + 6 * SOURCE_SECOND };
    bool done = false;
    if (!query->table) {
        return source_error(info, BG_EINVAL, "install",
                            "a query whose first column is one of a table", "another");
    }
    bg_err err = postgres_link_open(&in.link, source, PG_WRITES, in.deadline, info);
    err = err ? err : postgres_install_names(&in, query, info);
    err = err ? err : postgres_install_is_done(&in, query->table, &done, info);
    if (!err && !done) {
        err = postgres_install_make(&in, info);
    }
    postgres_install_free(&in);
    return err;
}

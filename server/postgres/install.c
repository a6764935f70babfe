/*
 * postgres/install.c - creates and verifies the database objects for the `changes` mode; see postgres/changes.h.
 *
 * The triggers must not make application statements fail or prevent DDL:
 *
 *   - The triggers have no WHEN clause and no column list. Either would create a dependency
 *     on the column, and PostgreSQL would then refuse to drop the column or to change its type.
 *   - The function refers to the column by name, so the reference fails after the column has been renamed or
 *     dropped. The conversion can also fail after the column's type has changed. The EXCEPTION block handles
 *     these failures by setting the key to NULL. The block writes nothing, so its subtransaction needs no
 *     transaction ID.
 *   - The key column of the change table has a built-in type without a length, or text for enums.
 *     So the change table does not depend on the application's types.
 *   - For an enum, the function's body contains a digest of the labels. ALTER TYPE ... RENAME VALUE does not wait for
 *     transactions that have recorded the old label. After the rename, the installed body differs from the expected
 *     body, so the function is installed again, and the installation waits for these transactions.
 *   - The function does not use NOTIFY, which would rule out PREPARE TRANSACTION.
 *
 * Installing replaces everything: DROP FUNCTION ... CASCADE removes all triggers, including those on tables that are
 * no longer part of the gate. DDL is transactional, so writers see either only the old objects or only the new ones.
 * CREATE TRIGGER waits until all transactions that wrote to the table have ended, and all later transactions execute
 * the trigger.
 *
 * Locks. Writers lock the application's tables first and the change table second. Installation uses the same order:
 * it drops the trigger functions first, which locks the tables, and then the change table. The service's lock waits
 * time out before PostgreSQL checks for deadlocks (after 1 s by default). So in a deadlock, it is always the
 * service's statement that fails (and is retried), never the application's.
 */
#include "postgres/changes.h"

#include "source/script.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define INSTALL_PATH "search_path=pg_catalog, pg_temp"

struct statements {
    char **list;
    size_t n, room;
    bool failed; /* out of memory */
};

__attribute__((format(printf, 2, 3))) static void
statements_add(struct statements *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = source_vformat(format, arguments);
    va_end(arguments);
    if (to->n == to->room) {
        const size_t room = to->room ? 2 * to->room : 64;
        char **list = realloc(to->list, room * sizeof *list);
        to->list = list ? list : to->list;
        to->room = list ? room : to->room;
    }
    if (!text || to->n == to->room) {
        to->failed = true;
        free(text);
        return;
    }
    to->list[to->n++] = text;
}

static void statements_free(struct statements *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->list[i]);
    }
    free(all->list);
}

/* ---- Definitions ------------------------------------------------------------------------- */

static const struct changes *install_own(const struct postgres_link *link)
{
    return link->source->mode_own;
}

/* Returns the COMMENT that is set on all of this gate's database objects. The caller frees the
 * result. */
static char *install_comment(const struct source *source)
{
    return source_format("Bloomgate: gate %s of service %s", source->how.name,
                         source->how.instance);
}

static const char *install_type(const struct postgres_keys *keys)
{
    return keys->is_enum ? "text" : keys->name;
}

/* Returns the body of a key column's trigger function. The caller frees the result. */
static char *install_body(const struct source *source, size_t column,
                          const struct postgres_keys *keys)
{
    const struct changes *own = source->mode_own;
    const char *name = source->columns.list[column].sql_column;
    return source_format(
        "\n%s%s%sDECLARE\n  new_key pg_catalog.%s;\nBEGIN\n  BEGIN\n"
        "    IF NEW.%s IS NULL OR NEW.%s IS NOT DISTINCT FROM OLD.%s THEN\n"
        "      RETURN NULL;\n    END IF;\n"
        "    new_key := NEW.%s;\n"
        "  EXCEPTION WHEN OTHERS THEN -- e.g. the column was renamed\n"
        "    new_key := NULL;\n  END;\n"
        "  IF to_regclass('%s.%s') IS NOT NULL THEN\n"
        "    INSERT INTO %s.%s (xid, key)"
        " VALUES (pg_current_xact_id(), new_key);\n  END IF;\n"
        "  RETURN NULL;\nEND\n",
        keys->is_enum ? "-- labels: " : "", keys->labels, keys->is_enum ? "\n" : "",
        install_type(keys), name, name, name, name, own->objects.schema,
        own->change_table, own->objects.schema, own->change_table);
}

static char *install_guard_body(const struct source *source)
{
    const struct changes *own = source->mode_own;
    return source_format(
        "\nBEGIN\n  IF current_setting('" CHANGES_WRITER
        "', true) IS DISTINCT FROM '%s' THEN\n"
        "    RAISE EXCEPTION 'only the service may change table %%', TG_TABLE_NAME\n"
        "      USING HINT = 'Bloomgate uses this table to follow a gate.';\n"
        "  END IF;\n  RETURN NULL;\nEND\n",
        own->guard);
}

/* ---- Verifying --------------------------------------------------------------------------- */

static bool install_print_function(struct postgres_link *link, FILE *sql,
                                   const char *name, char *body, bool definer)
{
    (void)fputs("(", sql);
    bool fine = postgres_schema_literal(link, sql, name);
    (void)fputs("::text, ", sql);
    fine = fine && body && postgres_schema_literal(link, sql, body);
    (void)fprintf(sql, "::text, %s)", definer ? "true" : "false");
    free(body);
    return fine;
}

/* tgtype 58: BEFORE UPDATE OR DELETE OR TRUNCATE, FOR EACH STATEMENT. */
static const char install_problems[] =
    ", nsp AS (SELECT oid, nspowner FROM pg_catalog.pg_namespace WHERE nspname = '%s')"
    ", own AS (SELECT c.* FROM pg_catalog.pg_class c JOIN nsp ON nsp.oid ="
    " c.relnamespace"
    " WHERE c.relname IN ('%s', '%s'))"
    ", shape(name, columns) AS (VALUES ('%s', 'xid 5069,key %u'),"
    " ('%s', 'number 20,nonce 25,snapshot 5038'))"
    " SELECT 'function ' || f.name || ' has a different definition' FROM function f"
    " WHERE NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_proc p JOIN nsp ON nsp.oid = p.pronamespace"
    " JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.proname = f.name"
    " AND p.pronargs = 0 AND p.prosrc = f.body AND p.prosecdef = f.definer"
    " AND l.lanname = 'plpgsql' AND p.proconfig OPERATOR(pg_catalog.=) ARRAY['" INSTALL_PATH
    "'])"
    " UNION ALL SELECT 'the schema belongs to another role than its functions; let a"
    " superuser own it (docs/sources.md)'"
    " FROM function f JOIN pg_catalog.pg_proc p ON p.proname = f.name"
    " JOIN nsp ON nsp.oid = p.pronamespace"
    " WHERE NOT pg_catalog.pg_has_role(nsp.nspowner, p.proowner, 'MEMBER')"
    " UNION ALL SELECT 'table ' || s.name || ' has unexpected columns' FROM shape s"
    " WHERE s.columns IS DISTINCT FROM (SELECT pg_catalog.string_agg("
    "a.attname::text || ' ' || a.atttypid::text, ',' ORDER BY a.attnum) FROM own"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = own.oid"
    " WHERE own.relname = s.name AND a.attnum > 0)"
    " UNION ALL SELECT 'table ' || relname::text || ' has rules or row security' FROM own"
    " WHERE relhasrules OR relrowsecurity"
    " UNION ALL SELECT 'table ' || own.relname::text || ' does not have the guard as its only"
    " trigger' FROM own"
    " LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid = own.oid"
    " LEFT JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid GROUP BY own.relname"
    " HAVING pg_catalog.count(*) <> 1 OR NOT pg_catalog.bool_and("
    "p.proname = '%s' AND t.tgenabled = 'A' AND t.tgtype = 58 AND t.tgqual IS NULL)"
    " LIMIT 1";

bg_err postgres_install_verify(struct postgres_link *link, uint64_t deadline,
                               bg_errinfo *info)
{
    const struct source *source = link->source;
    const struct changes *own = install_own(link);
    struct postgres_keys keys;
    char *text = NULL;
    size_t size = 0;
    bg_err err = postgres_keys_look(link, deadline, &keys, info);
    FILE *sql = err ? NULL : open_memstream(&text, &size);
    bool fine =
        sql && fputs("WITH function(name, body, definer) AS (VALUES ", sql) >= 0;
    fine = fine
           && install_print_function(link, sql, own->guard, install_guard_body(source),
                                     false);
    for (size_t i = 0; fine && i < source->columns.n; i++) {
        char *name = source_format("%s%zu", own->function, i + 1);
        (void)fputs(", ", sql);
        fine = name
               && install_print_function(link, sql, name,
                                         install_body(source, i, &keys), true);
        free(name);
    }
    if (fine) {
        (void)fputs(")", sql);
        (void)fprintf(sql, install_problems, own->objects.schema, own->change_table,
                      own->bookmark, own->change_table,
                      keys.is_enum ? PG_TEXT : keys.type, own->bookmark, own->guard);
    }
    fine = (!sql || fclose(sql) == 0) && fine;
    PGresult *rows = NULL;
    err = err    ? err
          : fine ? postgres_link_run(link, "schema", text, NULL, deadline, &rows, info)
                 : source_no_memory(info);
    if (!err && PQntuples(rows) > 0) {
        err = source_error(info, BG_EINVAL, "objects", NULL, "%s",
                           PQgetvalue(rows, 0, 0));
    }
    if (!err) {
        postgres_keys_use(link->source, &keys);
    }
    PQclear(rows);
    free(text);
    return err;
}

/* ---- Statements -------------------------------------------------------------------------- */

/* Adds a statement for each row, and clears the rows. */
static void install_add_rows(struct statements *to, PGresult *rows)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        statements_add(to, "%s", PQgetvalue(rows, i, 0));
    }
    PQclear(rows);
}

/* Adds a statement for each row that a query returns, and frees the query. */
static bg_err install_add_query(struct postgres_link *link, struct statements *to,
                                char *sql, uint64_t deadline, bg_errinfo *info)
{
    PGresult *rows = NULL;
    const bg_err err =
        sql ? postgres_link_run(link, "install", sql, NULL, deadline, &rows, info)
            : source_no_memory(info);
    install_add_rows(to, rows);
    free(sql);
    return err;
}

/* Selects all objects that have names reserved for this gate, with their comments. */
static const char install_present[] =
    "WITH present AS (SELECT c.relname::text AS name, d.description,"
    " 'TABLE ' || '%s.' || c.relname::text AS what"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s"
    " ON s.oid = c.relnamespace AND s.nspname = '%s' AND c.relkind = 'r'"
    " LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0"
    " AND d.classoid = 'pg_catalog.pg_class'::regclass::oid"
    " UNION ALL SELECT p.proname::text, d.description, 'FUNCTION ' || '%s.' || p.proname::text ||"
    " '()'"
    " FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace s"
    " ON s.oid = p.pronamespace AND s.nspname = '%s' AND p.pronargs = 0"
    " LEFT JOIN pg_catalog.pg_description d ON d.objoid = p.oid AND d.objsubid = 0"
    " AND d.classoid = 'pg_catalog.pg_proc'::regclass::oid)"
    ", named AS (SELECT * FROM present WHERE name IN ('%s', '%s', '%s')"
    " OR name ~ '^%s[0-9]+$')";

static bg_err install_add_drops(struct postgres_link *link, struct statements *to,
                                uint64_t deadline, bg_errinfo *info)
{
    const struct changes *own = install_own(link);
    const char *in = own->objects.schema;
    char *comment = install_comment(link->source);
    char *ours = comment ? PQescapeLiteral(link->db, comment, strlen(comment)) : NULL;
    char *present = source_format(install_present, in, in, in, in, own->change_table,
                                  own->bookmark, own->guard, own->function);
    char *foreign =
        ours && present
            ? source_format("%s SELECT name FROM named"
                            " WHERE description IS DISTINCT FROM %s LIMIT 1",
                            present, ours)
            : NULL;
    PGresult *rows = NULL;
    bg_err err = foreign ? postgres_link_run(link, "install", foreign, NULL, deadline,
                                             &rows, info)
                         : source_no_memory(info);
    if (!err && PQntuples(rows) > 0) {
        err = source_error(
            info, BG_EINVAL, "install", NULL,
            "%s.%s exists, but this gate did not create it; drop it or rename the gate",
            in, PQgetvalue(rows, 0, 0));
    }
    if (!err) {
        char *drops = source_format("%s SELECT 'DROP ' || what || ' CASCADE' FROM named"
                                    " ORDER BY name !~ '^%s[0-9]+$', what",
                                    present, own->function);
        err = install_add_query(link, to, drops, deadline, info);
    }
    PQclear(rows);
    PQfreemem(ours);
    free(comment);
    free(present);
    free(foreign);
    return err;
}

static void install_add_tables(struct postgres_link *link, struct statements *to,
                               const struct postgres_keys *keys)
{
    const struct changes *own = install_own(link);
    const char *in = own->objects.schema;
    const char *const tables[] = { own->change_table, own->bookmark };
    statements_add(to, "CREATE TABLE %s.%s (xid xid8 NOT NULL, key pg_catalog.%s)", in,
                   own->change_table, install_type(keys));
    statements_add(to, "CREATE INDEX ON %s.%s (xid)", in, own->change_table);
    /* Without a replica identity, rows cannot be deleted while a publication includes all tables. */
    statements_add(to, "ALTER TABLE %s.%s REPLICA IDENTITY FULL", in,
                   own->change_table);
    statements_add(to,
                   "CREATE TABLE %s.%s (number bigint PRIMARY KEY, nonce text NOT NULL,"
                   " snapshot pg_snapshot NOT NULL)",
                   in, own->bookmark);
    for (size_t i = 0; i < 2; i++) {
        statements_add(to,
                       "CREATE TRIGGER %s BEFORE UPDATE OR DELETE OR TRUNCATE ON %s.%s"
                       " FOR EACH STATEMENT EXECUTE FUNCTION %s.%s()",
                       own->guard, in, tables[i], in, own->guard);
        statements_add(to, "ALTER TABLE %s.%s ENABLE ALWAYS TRIGGER %s", in, tables[i],
                       own->guard);
    }
}

static void install_add_function(struct postgres_link *link, struct statements *to,
                                 const char *name, char *body, bool definer)
{
    char *literal = body ? PQescapeLiteral(link->db, body, strlen(body)) : NULL;
    const char *in = install_own(link)->objects.schema;
    to->failed = to->failed || !literal;
    statements_add(to,
                   "CREATE FUNCTION %s.%s() RETURNS trigger LANGUAGE plpgsql%s"
                   " SET search_path = pg_catalog, pg_temp AS %s",
                   in, name, definer ? " SECURITY DEFINER" : "",
                   literal ? literal : "");
    PQfreemem(literal);
    free(body);
}

static void install_add_functions(struct postgres_link *link, struct statements *to,
                                  const struct postgres_keys *keys)
{
    const struct source *source = link->source;
    const struct changes *own = install_own(link);
    install_add_function(link, to, own->guard, install_guard_body(source), false);
    for (size_t i = 0; i < source->columns.n; i++) {
        char *name = source_format("%s%zu", own->function, i + 1);
        to->failed = to->failed || !name;
        install_add_function(link, to, name ? name : "", install_body(source, i, keys),
                             true);
        free(name);
    }
}

/* Adds the triggers. Partitions get clones of their partitioned table's trigger; child tables (INHERITS) do not.
 * ENABLE ALWAYS is repeated for each table, because older PostgreSQL versions do not propagate it. Partitions that
 * are being detached are skipped, because they get no trigger and ALTER TABLE would fail for them. */
static bg_err install_add_triggers(struct postgres_link *link, struct statements *to,
                                   uint64_t deadline, bg_errinfo *info)
{
    static const char tree[] =
        ", tree(n, oid, top) AS (SELECT n, oid, true FROM root UNION SELECT t.n, c.oid,"
        " NOT c.relispartition FROM tree t"
        " JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid%s"
        " JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relpersistence <>"
        " 't')"
        ", place AS (SELECT DISTINCT t.n, t.oid, t.top,"
        " pg_catalog.format('%%I.%%I', s.nspname, c.relname) AS name FROM tree t"
        " JOIN pg_catalog.pg_class c ON c.oid = t.oid"
        " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace)"
        " SELECT statement FROM (SELECT 1 AS step, n, oid, 'CREATE TRIGGER %s' || n::text"
        " || ' AFTER INSERT OR UPDATE ON ' || name"
        " || ' FOR EACH ROW EXECUTE FUNCTION %s.%s' || n::text || '()' AS statement"
        " FROM place WHERE top UNION ALL SELECT 2, n, oid,"
        " 'ALTER TABLE ' || name || ' ENABLE ALWAYS TRIGGER %s' || n::text FROM place) AS"
        " all_of"
        " ORDER BY step, n, oid";
    const struct changes *own = install_own(link);
    PGresult *rows = NULL;
    char *tail = source_format(tree, postgres_schema_attached(link), own->function,
                               own->objects.schema, own->function, own->function);
    const bg_err err =
        tail ? postgres_schema_query(link, "install", tail, deadline, &rows, info)
             : source_no_memory(info);
    install_add_rows(to, rows);
    free(tail);
    return err;
}

static bg_err install_add_comments(struct postgres_link *link, struct statements *to,
                                   uint64_t deadline, bg_errinfo *info)
{
    const struct source *source = link->source;
    const struct changes *own = install_own(link);
    const char *in = own->objects.schema;
    char *text = install_comment(source);
    char *comment = text ? PQescapeLiteral(link->db, text, strlen(text)) : NULL;
    to->failed = to->failed || !comment;
    free(text);
    if (comment) {
        statements_add(to, "COMMENT ON TABLE %s.%s IS %s", in, own->change_table,
                       comment);
        statements_add(to, "COMMENT ON TABLE %s.%s IS %s", in, own->bookmark, comment);
        statements_add(to, "COMMENT ON FUNCTION %s.%s() IS %s", in, own->guard,
                       comment);
        for (size_t i = 0; i < source->columns.n; i++) {
            statements_add(to, "COMMENT ON FUNCTION %s.%s%zu() IS %s", in,
                           own->function, i + 1, comment);
        }
    }
    PQfreemem(comment);
    char *grants = source_format(
        "SELECT pg_catalog.format(what, current_user) FROM (VALUES"
        " ('GRANT USAGE ON SCHEMA %s TO %%I'),"
        " ('GRANT SELECT, INSERT, DELETE ON %s.%s, %s.%s TO %%I')) AS list(what)",
        in, in, own->change_table, in, own->bookmark);
    return install_add_query(link, to, grants, deadline, info);
}

/* Adds all installation statements except BEGIN and COMMIT. */
static bg_err install_plan(struct postgres_link *link, struct statements *to,
                           uint64_t deadline, bg_errinfo *info)
{
    struct postgres_keys keys;
    const char *in = install_own(link)->objects.schema;
    bg_err err = postgres_keys_look(link, deadline, &keys, info);
    err = err ? err : install_add_drops(link, to, deadline, info);
    if (!err) {
        char *schema = source_format(
            "SELECT statement FROM (VALUES (1, 'CREATE SCHEMA IF NOT EXISTS %s'), (2,"
            " 'COMMENT ON SCHEMA %s IS ''Bloomgate: objects that services created"
            " to follow tables''')) AS list(step, statement) WHERE NOT EXISTS (SELECT"
            " FROM"
            " pg_catalog.pg_namespace WHERE nspname = '%s') ORDER BY step",
            in, in, in);
        err = install_add_query(link, to, schema, deadline, info);
    }
    if (!err) {
        install_add_functions(link, to, &keys);
        install_add_tables(link, to, &keys);
        err = install_add_triggers(link, to, deadline, info);
    }
    err = err ? err : install_add_comments(link, to, deadline, info);
    return !err && to->failed ? source_no_memory(info) : err;
}

/* ---- Installing -------------------------------------------------------------------------- */

/* Verifies that the schema's owner is already allowed to act as the service's role. This is required because the
 * owner can replace the change table with a table that has its own triggers. These triggers would run with the
 * privileges of the trigger function, which are those of the service's role. */
static bg_err install_verify_schema(struct postgres_link *link, uint64_t deadline,
                                    bg_errinfo *info)
{
    const char *in = install_own(link)->objects.schema;
    PGresult *rows = NULL;
    char *sql = source_format(
        "SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace"
        " WHERE nspname = '%s'"
        " AND NOT pg_catalog.pg_has_role(nspowner, current_user, 'MEMBER')",
        in);
    bg_err err =
        sql ? postgres_link_run(link, "install", sql, NULL, deadline, &rows, info)
            : source_no_memory(info);
    if (!err && PQntuples(rows) > 0) {
        err = source_error(
            info, BG_EINVAL, "install", NULL,
            "schema %s belongs to role %s, which could gain the privileges of the "
            "service's role; change its owner as docs/sources.md describes",
            in, PQgetvalue(rows, 0, 0));
    }
    PQclear(rows);
    free(sql);
    return err;
}

bg_err postgres_install(struct postgres_link *link, uint64_t deadline, bg_errinfo *info)
{
    struct statements all = { 0 };
    bg_err err = postgres_link_do(link, "install", "BEGIN READ WRITE", deadline, info);
    err = err ? err
              : postgres_link_do(link, "install", "SET LOCAL lock_timeout = '300ms'",
                                 deadline, info);
    err = err ? err : install_verify_schema(link, deadline, info);
    err = err ? err : install_plan(link, &all, deadline, info);
    for (size_t i = 0; !err && i < all.n; i++) {
        err = postgres_link_do(link, "install", all.list[i], deadline, info);
    }
    statements_free(&all);
    err = err ? err : postgres_link_do(link, "install", "COMMIT", deadline, info);
    return err ? postgres_schema_undo(link, "install", err, deadline, info) : BG_OK;
}

static void install_write(FILE *to, const struct source *source,
                          const struct statements *all)
{
    const struct changes *own = source->mode_own;
    (void)fprintf(
        to,
        "-- Objects for gate \"%s\". Run this as the owner of the tables.\n-- To "
        "remove the objects, drop the functions %s.%s and %s* (CASCADE), and\n-- the "
        "tables %s and %s.\n\nBEGIN;\nSET LOCAL lock_timeout = '300ms';\n",
        source->how.name, own->objects.schema, own->guard, own->function,
        own->change_table, own->bookmark);
    for (size_t i = 0; i < all->n; i++) {
        (void)fprintf(to, "%s;\n", all->list[i]);
    }
    (void)fputs("COMMIT;\n", to);
}

bg_err postgres_install_script(struct postgres_link *link, uint64_t deadline,
                               bg_errinfo *info)
{
    const struct source *source = link->source;
    struct statements all = { 0 };
    if (!*source->how.script) {
        return BG_OK;
    }
    bg_err err = install_plan(link, &all, deadline, info);
    struct script script;
    bool written = !err && script_begin(&script);
    if (written) {
        install_write(script.to, source, &all);
        written = script_end(&script, source->how.script);
    }
    if (!err && !written) {
        err = source_error(info, BG_EIO, "install", NULL, "cannot write %.300s: %s",
                           source->how.script, text_errno(errno));
    }
    statements_free(&all);
    return err;
}

/*
 * postgres/schema.c - see postgres/schema.h.
 *
 * The catalogs are read only with plain SELECT statements. Functions such as to_regclass, pg_table_is_visible or
 * pg_get_*def use the newest catalogs instead of the snapshot, so they are not used here. For the same reason, the
 * query resolves the search path with a join.
 *
 * The fingerprint covers:
 *
 *   tables        pg_class of the tables of the key columns, of all their partitions and of all children
 *                 (INHERITS); pg_namespace; pg_inherits; pg_attribute of the key columns
 *   path          pg_db_role_setting: a new connection may resolve names differently
 *   type          pg_type of the key type and of the domains over it; pg_enum; pg_collation
 *   publication   pg_publication, pg_publication_rel, pg_publication_namespace (logical)
 *   objects       pg_class, pg_attribute, pg_trigger and pg_rewrite of the change table and the bookmark; pg_proc of
 *                 the trigger functions; pg_trigger of the tables (changes)
 *
 * Temporary child tables are excluded, because their rows are visible only to the session that
 * created them.
 *
 * Validation. In the same snapshot, the query also returns the reasons why the tables cannot be followed, as rows of
 * `problem`:
 *
 *   both          a relation in the tree that is a foreign table or is not a table
 *   logical       unlogged tables (they are not in the WAL), generated columns (pgoutput does not send them), a
 *                 publication that is missing, does not publish inserts and updates, has a row filter or a
 *                 column list, or omits a table in the tree; with install=yes, a table without a replica
 *                 identity (the publication would make UPDATE fail)
 *   changes       virtual generated columns (triggers do not see them), missing or unlogged objects, and
 *                 a trigger that is missing, not enabled ALWAYS, or conditional, on any table in the tree
 *
 * Row security requires no check, because row_security=off turns a filtered read into an error.
 */
#include "postgres/schema.h"

#include <stdlib.h>
#include <string.h>

/* ---- Text of queries --------------------------------------------------------------------- */

bool postgres_schema_literal(struct postgres_link *link, FILE *sql, const char *text)
{
    char *literal = PQescapeLiteral(link->db, text, strlen(text));
    if (literal) {
        (void)fputs(literal, sql);
        PQfreemem(literal);
    }
    return literal != NULL;
}

bool postgres_schema_roots(struct postgres_link *link, FILE *sql)
{
    const struct key_columns *columns = &link->source->columns;
    bool fine = true;
    (void)fputs("wanted(n, nsp, rel, col) AS (VALUES ", sql);
    for (size_t i = 0; fine && i < columns->n; i++) {
        const struct key_column *column = &columns->list[i];
        (void)fprintf(sql, "%s(%zu, ", i ? ", " : "", i + 1);
        fine = postgres_schema_literal(link, sql, column->schema);
        (void)fputs("::text, ", sql);
        fine = fine && postgres_schema_literal(link, sql, column->table);
        (void)fputs("::text, ", sql);
        fine = fine && postgres_schema_literal(link, sql, column->column);
        (void)fputs("::text)", sql);
    }
    (void)fputs(
        "), root AS (SELECT w.n, w.col, c.oid, c.relkind FROM wanted w"
        " CROSS JOIN LATERAL (SELECT c.oid, c.relkind FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace"
        " LEFT JOIN pg_catalog.unnest(pg_catalog.current_schemas(true)) WITH ORDINALITY AS path(nsp, i)"
        " ON path.nsp = s.nspname WHERE c.relname = w.rel"
        " AND CASE w.nsp WHEN '' THEN path.i IS NOT NULL"
        " ELSE s.nspname = w.nsp END ORDER BY path.i LIMIT 1) AS c)",
        sql);
    return fine;
}

const char *postgres_schema_attached(const struct postgres_link *link)
{
    return PQserverVersion(link->db) >= 140000 ? " AND NOT i.inhdetachpending" : "";
}

bg_err postgres_schema_query(struct postgres_link *link, const char *what,
                             const char *tail, uint64_t deadline, PGresult **rows,
                             bg_errinfo *info)
{
    char *text = NULL;
    size_t size = 0;
    FILE *sql = open_memstream(&text, &size);
    bool fine = sql && fputs("WITH RECURSIVE ", sql) >= 0
                && postgres_schema_roots(link, sql) && fputs(tail, sql) >= 0;
    fine = sql && fclose(sql) == 0 && fine;
    const bg_err err =
        fine ? postgres_link_run(link, what, text, NULL, deadline, rows, info)
             : source_no_memory(info);
    free(text);
    return err;
}

bg_err postgres_schema_undo(struct postgres_link *link, const char *what, bg_err err,
                            uint64_t deadline, bg_errinfo *info)
{
    const bool forbidden = strcmp(postgres_link_code(link), "42501") == 0;
    if (postgres_link_is_open(link)) {
        (void)postgres_link_do(link, what, "ROLLBACK", deadline, NULL);
    }
    return forbidden && info ? source_error(
               info, BG_EINVAL, what, NULL,
               "%.300s; grant the missing privilege to the role, or use install=no",
               source_reason(info))
                             : err;
}

/* ---- Key columns ------------------------------------------------------------------------- */

/* Describes a kind of relation that cannot be followed. Returns NULL for a table. */
static const char *schema_kind(char relkind)
{
    switch (relkind) {
    case 'r':
    case 'p': return NULL;
    case 'v': return "a view";
    case 'm': return "a materialized view";
    case 'f': return "a foreign table";
    default: return "not a table";
    }
}

enum {
    LOOK_KIND,
    LOOK_OID,
    LOOK_COLUMN,
    LOOK_TYPE,
    LOOK_TYPTYPE,
    LOOK_NAME,
    LOOK_SAME,
    LOOK_UTF8,
    LOOK_LABELS
};

static const char schema_look[] =
    ", base(n, attnum, type, basetype, typtype, typname, coll) AS ("
    "SELECT r.n, a.attnum, t.oid, t.typbasetype, t.typtype, t.typname, a.attcollation"
    " FROM root r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid"
    " AND a.attname = r.col AND a.attnum > 0 AND NOT a.attisdropped"
    " JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
    " UNION ALL SELECT b.n, b.attnum, t.oid, t.typbasetype, t.typtype, t.typname,"
    " b.coll"
    " FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.basetype"
    " WHERE b.typtype = 'd')"
    " SELECT r.relkind, r.oid, b.attnum, b.type, b.typtype, b.typname,"
    " coalesce(c.collisdeterministic, true),"
    " pg_catalog.getdatabaseencoding() IN ('UTF8', 'SQL_ASCII'),"
    " (SELECT pg_catalog.left(pg_catalog.encode(pg_catalog.sha256("
    "pg_catalog.string_agg(e.oid::text || ' ' || e.xmin::text, ',' ORDER BY"
    " e.oid)::bytea), 'hex'), 32) FROM pg_catalog.pg_enum e WHERE e.enumtypid = b.type)"
    " FROM wanted w LEFT JOIN root r ON r.n = w.n"
    " LEFT JOIN base b ON b.n = w.n AND b.typtype <> 'd'"
    " LEFT JOIN pg_catalog.pg_collation c ON c.oid = b.coll ORDER BY w.n";

/* Smaller OIDs belong to system objects (transam.h). */
enum { SCHEMA_USER_OID = 16384 };

/* Validates one result row, which describes one key column. */
static bg_err schema_look_at(const struct source *source, const PGresult *rows, int row,
                             struct postgres_keys *keys, bg_errinfo *info)
{
    const struct key_column *column = &source->columns.list[row];
    if (PQgetisnull(rows, row, LOOK_KIND)) {
        return source_error(info, BG_EINVAL, "keys", NULL,
                            "there is no table %s%s%s, or the role cannot see it",
                            column->schema, *column->schema ? "." : "", column->table);
    }
    const char *kind = schema_kind(*PQgetvalue(rows, row, LOOK_KIND));
    if (kind) {
        return source_error(info, BG_EINVAL, "keys", NULL,
                            "%s is %s; list columns of ordinary tables instead",
                            column->table, kind);
    }
    if (strtoul(PQgetvalue(rows, row, LOOK_OID), NULL, 10) < SCHEMA_USER_OID) {
        return source_error(info, BG_EINVAL, "keys", NULL,
                            "%s is a system table, which cannot be followed",
                            column->table);
    }
    if (PQgetisnull(rows, row, LOOK_COLUMN)) {
        return source_error(info, BG_EINVAL, "keys", NULL,
                            "there is no column %s in table %s", column->column,
                            column->table);
    }
    const bool same = *PQgetvalue(rows, row, LOOK_SAME) == 't';
    if (!same) {
        return source_error(
            info, BG_EINVAL, "keys", NULL,
            "column %s has a nondeterministic collation; store normalized keys in"
            " another column",
            column->column);
    }
    const char typtype = *PQgetvalue(rows, row, LOOK_TYPTYPE);
    const Oid type = (Oid)strtoul(PQgetvalue(rows, row, LOOK_TYPE), NULL, 10);
    keys->type = type == PG_VARCHAR ? PG_TEXT : type;
    keys->is_enum = typtype == 'e';
    (void)snprintf(keys->name, sizeof keys->name, "%s",
                   type == PG_VARCHAR ? "text" : PQgetvalue(rows, row, LOOK_NAME));
    (void)snprintf(keys->labels, sizeof keys->labels, "%s",
                   PQgetvalue(rows, row, LOOK_LABELS));
    keys->form = key_form_of_postgres(type, typtype, same,
                                      *PQgetvalue(rows, row, LOOK_UTF8) == 't');
    return keys->form != KEY_FORM_UNKNOWN
               ? BG_OK
               : source_error(
                   info, BG_EINVAL, "keys", NULL,
                   "column %s has type %s; use text, integers, numeric, uuid, bytea,"
                   " dates, timestamps or an enum",
                   column->column, PQgetvalue(rows, row, LOOK_NAME));
}

bg_err postgres_keys_look(struct postgres_link *link, uint64_t deadline,
                          struct postgres_keys *keys, bg_errinfo *info)
{
    const struct source *source = link->source;
    PGresult *rows = NULL;
    bg_err err =
        postgres_schema_query(link, "keys", schema_look, deadline, &rows, info);
    *keys = (struct postgres_keys){ .form = KEY_FORM_UNKNOWN };
    for (int i = 0; !err && i < PQntuples(rows); i++) {
        struct postgres_keys next = { .form = KEY_FORM_UNKNOWN };
        err = schema_look_at(source, rows, i, &next, info);
        if (!err && i && next.type != keys->type) {
            err = source_error(
                info, BG_EINVAL, "keys", NULL,
                "columns %s and %s have different types; use one gate per type",
                source->columns.list[i].column, source->columns.list[0].column);
        }
        *keys = err ? *keys : next;
    }
    PQclear(rows);
    return err;
}

void postgres_keys_use(struct source *source, const struct postgres_keys *keys)
{
    atomic_store(&source->prints_hex, keys->type == PG_BYTEA);
    atomic_store(&source->form, (int)keys->form);
}

void postgres_keys_forget(struct source *source)
{
    atomic_store(&source->form, KEY_FORM_UNKNOWN);
}

/* ---- Identity ---------------------------------------------------------------------------- */

/*
 * By default, every role may call the functions that return the identity. If an operator has revoked this permission,
 * that part of the identity is "-" on every server, and only the marker or bookmark in the database distinguishes two
 * servers.
 */
static const char schema_may[] =
    "SELECT pg_catalog.pg_is_in_recovery(),"
    " pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'),"
    " pg_catalog.has_function_privilege('pg_catalog.pg_walfile_name(pg_lsn)',"
    " 'EXECUTE')"
    " AND pg_catalog.has_function_privilege("
    "'pg_catalog.pg_current_wal_insert_lsn()', 'EXECUTE')";

bg_err postgres_schema_identity(struct postgres_link *link, uint64_t deadline,
                                char identity[PG_IDENTITY], bg_errinfo *info)
{
    PGresult *rows = NULL;
    bg_err err =
        postgres_link_run(link, "identity", schema_may, NULL, deadline, &rows, info);
    if (!err && *PQgetvalue(rows, 0, 0) == 't') {
        err = source_error(
            info, BG_EINCOMPAT, "server", NULL,
            "the server is a standby, which can lag; connect to the primary");
    }
    const bool system = !err && *PQgetvalue(rows, 0, 1) == 't';
    const bool timeline = !err && *PQgetvalue(rows, 0, 2) == 't';
    PQclear(rows);
    rows = NULL;
    char *sql = source_format(
        "SELECT pg_catalog.concat_ws('/', %s, %s, oid) FROM pg_catalog.pg_database"
        " WHERE datname = pg_catalog.current_database()",
        system ? "(SELECT system_identifier FROM pg_catalog.pg_control_system())"
               : "'-'",
        timeline ? "pg_catalog.substr(pg_catalog.pg_walfile_name("
                   "pg_catalog.pg_current_wal_insert_lsn()), 1, 8)"
                 : "'-'");
    err = err   ? err
          : sql ? postgres_link_run(link, "identity", sql, NULL, deadline, &rows, info)
                : source_no_memory(info);
    if (!err && PQntuples(rows) != 1) {
        err = source_error(info, BG_EIO, "identity", NULL,
                           "the database was renamed or dropped; check the URL");
    }
    (void)snprintf(identity, PG_IDENTITY, "%s", err ? "" : PQgetvalue(rows, 0, 0));
    PQclear(rows);
    free(sql);
    return err;
}

void postgres_schema_set_identity(struct source *source, const char *identity)
{
    (void)pthread_mutex_lock(&source->lock);
    (void)snprintf(source->identity, sizeof source->identity, "%s", identity);
    (void)pthread_mutex_unlock(&source->lock);
}

bg_err postgres_schema_verify_server(struct postgres_link *link, uint64_t deadline,
                                     bg_errinfo *info)
{
    struct source *source = link->source;
    char found[PG_IDENTITY], wanted[sizeof source->identity];
    const bg_err err = postgres_schema_identity(link, deadline, found, info);
    if (err) {
        if (info && err == BG_EINCOMPAT) {
            info->code = BG_EIO;
        }
        return err == BG_EINCOMPAT ? BG_EIO : err;
    }
    (void)pthread_mutex_lock(&source->lock);
    memcpy(wanted, source->identity, sizeof wanted);
    (void)pthread_mutex_unlock(&source->lock);
    return !*wanted || strcmp(found, wanted) == 0
               ? BG_OK
               : source_error(info, BG_EIO, "server", wanted, "%s", found);
}

/* ---- Fingerprint ------------------------------------------------------------------------- */

/*
 * Selects the tables that contain the key columns, all tables below them, and the catalog rows that describe these
 * tables. A partition that is being detached (DETACH CONCURRENTLY) does not count as being below its parent, because
 * queries and the publication exclude it.
 *
 * A transaction that is waiting for a synchronous standby is invisible in the snapshot, but its catalog changes
 * already affect how the replication stream is decoded. The transaction appears as the xmax of the rows that it
 * deletes or updates. The xmax matters for DDL that does not block writers: renaming an enum label, detaching a
 * partition concurrently, or altering a publication. Other DDL holds a lock on the table, so no keys are written until
 * the DDL is visible.
 */
static const char schema_tables[] =
    ", tree(n, col, oid) AS (SELECT n, col, oid FROM root"
    " UNION SELECT t.n, t.col, i.inhrelid FROM tree t"
    " JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid"
    " JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relpersistence <> 't'%s)"
    ", member AS (SELECT t.n, t.col, c.oid, c.xmin AS cx, c.relname::text, c.relkind,"
    " c.relpersistence, c.relnamespace, c.relrowsecurity, c.relhasrules,"
    " a.attnum, a.xmin AS ax, a.atttypid, a.atttypmod, a.attcollation, a.attgenerated"
    " FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid"
    " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = t.col"
    " AND a.attnum > 0 AND NOT a.attisdropped)"
    ", type(oid) AS (SELECT atttypid FROM member"
    " UNION SELECT t.typbasetype FROM type b JOIN pg_catalog.pg_type t"
    " ON t.oid = b.oid WHERE t.typtype = 'd')"
    ", common_problem(problem_text, advice) AS ("
    "SELECT 'table ' || w.rel || ' does not exist', 'create it, or correct keys'"
    " FROM wanted w"
    " WHERE NOT EXISTS (SELECT FROM root r WHERE r.n = w.n)"
    " UNION ALL SELECT relname || ' is not a table',"
    " 'views and foreign tables cannot be followed'"
    " FROM member WHERE relkind NOT IN ('r', 'p')"
    " UNION ALL SELECT 'table ' || relname || ' has no column ' || col,"
    " 'create it, or correct keys' FROM member WHERE attnum IS NULL)"
    ", common_row(line) AS ("
    "SELECT pg_catalog.concat_ws(' ', 'table', n, oid, cx, relname, relkind,"
    " relpersistence, relnamespace, relrowsecurity, relhasrules, 'column', attnum, ax,"
    " col, atttypid, atttypmod, attcollation, attgenerated) FROM member"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'schema', oid, xmin, nspname)"
    " FROM pg_catalog.pg_namespace WHERE oid IN (SELECT relnamespace FROM member)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'inherits', inhrelid, xmin, xmax,"
    " inhparent, inhseqno) FROM pg_catalog.pg_inherits"
    " WHERE inhrelid IN (SELECT oid FROM member)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'type', oid, xmin, typname, typtype,"
    " typbasetype, typtypmod, typcollation) FROM pg_catalog.pg_type"
    " WHERE oid IN (SELECT oid FROM type)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'enum', oid, xmin, xmax, enumtypid,"
    " enumlabel)"
    " FROM pg_catalog.pg_enum WHERE enumtypid IN (SELECT oid FROM type)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'collation', oid, xmin, collname,"
    " collisdeterministic) FROM pg_catalog.pg_collation"
    " WHERE oid IN (SELECT attcollation FROM member)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'path', setdatabase, setrole, xmin)"
    " FROM pg_catalog.pg_db_role_setting WHERE setdatabase IN (0, (SELECT oid"
    " FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))"
    " AND setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles"
    " WHERE rolname = session_user))"
    " AND setconfig::text ~ '(search_path|role)=')"; /* the role determines "$user" */

/*
 * A pg_publication_rel row for a partitioned table also covers its partitions; the children of an ordinary table
 * have their own rows. Before version 15, publications had no row filters, column lists or schemas.
 */
static const char schema_publication[] =
    ", climb(oid, up) AS (SELECT oid, oid FROM member WHERE relkind = 'r'"
    " UNION SELECT c.oid, i.inhparent FROM climb c"
    " JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.up"
    " AND NOT i.inhdetachpending"
    " JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'p')"
    ", listed(oid) AS (SELECT l.prrelid FROM pg_catalog.pg_publication_rel l"
    " JOIN publication p ON l.prpubid = p.oid%s)"
    ", own_problem(problem_text, advice) AS ("
    "SELECT 'publication ' || name || ' does not exist', 'create it' FROM chosen"
    " WHERE NOT EXISTS (SELECT FROM publication)"
    " UNION ALL SELECT 'publication ' || pubname::text || ' omits inserts or updates',"
    " 'set publish = ''insert, update''' FROM publication WHERE NOT (pubinsert AND"
    " pubupdate)"
    " UNION ALL SELECT 'table ' || relname || ' is not in the publication',"
    " 'add all tables, partitions and children' FROM member m"
    " WHERE relkind = 'r' AND EXISTS (SELECT FROM publication WHERE NOT puballtables)"
    " AND NOT EXISTS (SELECT FROM climb JOIN listed ON listed.oid = climb.up"
    " WHERE climb.oid = m.oid)"
    " UNION ALL SELECT 'table ' || relname || ' is unlogged or temporary',"
    " 'use a logged table, or follow=changes' FROM member"
    " WHERE relpersistence <> 'p'"
    " UNION ALL SELECT 'column ' || col || ' of ' || relname || ' is generated',"
    " 'use an ordinary column, or follow=changes' FROM member"
    " WHERE attgenerated <> ''%s%s)"
    ", own_row(line) AS (SELECT pg_catalog.concat_ws(' ', 'publication', oid, x,"
    " ended, pubname,"
    " puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot)"
    " FROM publication UNION ALL"
    " SELECT pg_catalog.concat_ws(' ', 'published', l.oid, l.xmin, l.xmax, l.prrelid)"
    " FROM pg_catalog.pg_publication_rel l JOIN publication p ON l.prpubid = p.oid"
    " WHERE l.prrelid IN (SELECT up FROM climb)%s)";

static const char schema_identity[] =
    " UNION ALL SELECT 'table ' || c.relname::text || ' has no replica identity, so the"
    " publication makes UPDATE fail',"
    " 'add a primary key, set REPLICA IDENTITY, or use follow=changes'"
    " FROM pg_catalog.pg_class c WHERE c.oid IN (SELECT oid FROM member)"
    " AND c.relkind = 'r' AND c.relpersistence = 'p'"
    " AND " POSTGRES_NO_REPLICA_IDENTITY /* checks only tables that contain keys */
    " UNION ALL SELECT 'publication ' || p.pubname::text || ' contains other tables',"
    " 'publish only the tables that contain the keys' FROM pg_catalog.pg_publication_rel l"
    " JOIN publication p ON l.prpubid = p.oid"
    " WHERE l.prrelid NOT IN (SELECT oid FROM member)";

static bool schema_print_publication(struct postgres_link *link, FILE *sql,
                                     const struct postgres_objects *objects)
{
    const bool has_filters = PQserverVersion(link->db) >= 150000;
    (void)fputs(", chosen(name) AS (SELECT ", sql);
    const bool fine = postgres_schema_literal(link, sql, objects->publication);
    (void)fputs("::text), publication AS (SELECT p.xmin AS x, p.xmax AS ended, p.*"
                " FROM pg_catalog.pg_publication p JOIN chosen ON p.pubname = name)",
                sql);
    (void)fprintf(
        sql, schema_publication,
        has_filters ? " UNION ALL SELECT c.oid FROM pg_catalog.pg_class c"
                      " JOIN pg_catalog.pg_publication_namespace l"
                      " ON l.pnnspid = c.relnamespace JOIN publication p"
                      " ON l.pnpubid = p.oid WHERE c.oid IN (SELECT up FROM climb)"
                    : "",
        has_filters
            ? " UNION ALL SELECT 'publication ' || p.pubname::text || ' has a row filter"
              " or a column list', 'publish all rows and columns of the tables'"
              " FROM pg_catalog.pg_publication_rel l JOIN publication p"
              " ON l.prpubid = p.oid WHERE l.prrelid IN (SELECT up FROM climb)"
              " AND (l.prqual IS NOT NULL OR l.prattrs IS NOT NULL)"
            : "",
        link->source->how.install ? schema_identity : "",
        has_filters
            ? " UNION ALL SELECT pg_catalog.concat_ws(' ', 'published', l.oid,"
              " l.xmin, l.xmax, l.pnnspid) FROM pg_catalog.pg_publication_namespace l"
              " JOIN publication p ON l.pnpubid = p.oid"
            : "");
    return fine;
}

/* tgtype 21: FOR EACH ROW, AFTER, INSERT OR UPDATE. */
static const char schema_changes[] =
    ", own(what, oid) AS (SELECT w.what, (SELECT c.oid FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace"
    " WHERE s.nspname = chosen.nsp AND c.relname = w.name AND c.relkind = 'r'"
    " AND c.relpersistence = 'p')"
    " FROM chosen CROSS JOIN LATERAL (VALUES ('change table', chosen.change),"
    " ('bookmark', chosen.bookmark)) AS w(what, name))"
    ", function(n, name, oid) AS (SELECT f.n, f.name, (SELECT p.oid"
    " FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace s ON s.oid ="
    " p.pronamespace"
    " WHERE s.nspname = chosen.nsp AND p.proname = f.name AND p.pronargs = 0)"
    " FROM chosen CROSS JOIN LATERAL (SELECT 0 AS n, chosen.guard AS name UNION ALL"
    " SELECT w.n, chosen.function || w.n::text FROM wanted w) AS f)"
    ", own_problem(problem_text, advice) AS ("
    "SELECT 'the ' || what || ' does not exist', NULL::text FROM own WHERE oid IS"
    " NULL"
    " UNION ALL SELECT 'function ' || name || ' does not exist', NULL"
    " FROM function WHERE oid IS NULL"
    " UNION ALL SELECT 'table ' || m.relname || ' has no trigger for ' || m.col"
    " || ' that is enabled ALWAYS', NULL"
    " FROM member m JOIN function f ON f.n = m.n WHERE NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = m.oid AND t.tgfoid = f.oid"
    " AND t.tgname = f.name AND t.tgenabled = 'A' AND t.tgtype = 21"
    " AND t.tgqual IS NULL AND t.tgattr::text = '' AND NOT t.tgdeferrable)"
    " UNION ALL SELECT 'column ' || col || ' is a virtual generated column',"
    " 'use a stored column' FROM member WHERE attgenerated = 'v')"
    ", own_row(line) AS (SELECT pg_catalog.concat_ws(' ', 'own', c.oid, c.xmin,"
    " c.relname,"
    " c.relkind, c.relpersistence, c.relnamespace, c.relrowsecurity, c.relhasrules)"
    " FROM pg_catalog.pg_class c WHERE c.oid IN (SELECT oid FROM own)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'schema', oid, nspname)"
    " FROM pg_catalog.pg_namespace, chosen WHERE nspname = nsp"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'column', a.attrelid, a.xmin,"
    " a.attnum,"
    " a.attname, a.atttypid, a.atttypmod, a.attisdropped) FROM pg_catalog.pg_attribute"
    " a"
    " WHERE a.attrelid IN (SELECT oid FROM own)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'rule', r.oid, r.xmin)"
    " FROM pg_catalog.pg_rewrite r WHERE r.ev_class IN (SELECT oid FROM own)"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'trigger', t.oid, t.xmin, t.tgrelid,"
    " t.tgname, t.tgfoid, t.tgenabled, t.tgtype) FROM pg_catalog.pg_trigger t"
    " WHERE t.tgrelid IN (SELECT oid FROM own) OR (t.tgrelid IN (SELECT oid FROM"
    " member)"
    " AND t.tgfoid IN (SELECT oid FROM function))"
    " UNION ALL SELECT pg_catalog.concat_ws(' ', 'function', p.oid, p.xmin, p.proname,"
    " p.prosrc, p.prosecdef, p.proowner, p.prolang, p.proconfig::text)"
    " FROM pg_catalog.pg_proc p WHERE p.oid IN (SELECT oid FROM function))";

static bool schema_print_changes(struct postgres_link *link, FILE *sql,
                                 const struct postgres_objects *objects)
{
    const char *const names[] = { objects->schema, objects->change_table,
                                  objects->bookmark, objects->guard,
                                  objects->function };
    bool fine = true;
    (void)fputs(", chosen(nsp, change, bookmark, guard, function) AS (VALUES (", sql);
    for (size_t i = 0; fine && i < sizeof names / sizeof *names; i++) {
        (void)fputs(i ? "::text, " : "", sql);
        fine = postgres_schema_literal(link, sql, names[i]);
    }
    (void)fprintf(sql, "::text))%s", schema_changes);
    return fine;
}

static bool schema_print(struct postgres_link *link, FILE *sql,
                         const struct postgres_objects *objects)
{
    (void)fputs("WITH RECURSIVE ", sql);
    bool fine = postgres_schema_roots(link, sql);
    (void)fprintf(sql, schema_tables, postgres_schema_attached(link));
    const bool logical = objects && objects->publication;
    const bool changes = objects && objects->schema;
    if (logical) {
        fine = fine && schema_print_publication(link, sql, objects);
    } else if (changes) {
        fine = fine && schema_print_changes(link, sql, objects);
    }
    const bool own = logical || changes;
    (void)fprintf(
        sql,
        ", problem AS (SELECT * FROM common_problem%s)"
        ", line AS (SELECT * FROM common_row%s)"
        " SELECT (SELECT pg_catalog.left(pg_catalog.encode(pg_catalog.sha256("
        "pg_catalog.convert_to(pg_catalog.string_agg(line, E'\\n' ORDER BY line"
        " COLLATE \"C\"), pg_catalog.getdatabaseencoding())), 'hex'), 32) FROM line),"
        " problem_text, advice FROM (SELECT 1) AS one LEFT JOIN problem ON true LIMIT 1",
        own ? " UNION ALL SELECT * FROM own_problem" : "",
        own ? " UNION ALL SELECT * FROM own_row" : "");
    return fine;
}

/* Prepares the query once per connection, because planning the query takes several times as long as
 * executing it. */
static bg_err schema_prepare(struct postgres_link *link,
                             const struct postgres_objects *objects, uint64_t deadline,
                             bg_errinfo *info)
{
    char *text = NULL;
    size_t size = 0;
    FILE *sql = open_memstream(&text, &size);
    bool fine = sql && schema_print(link, sql, objects) && !ferror(sql);
    fine = (!sql || fclose(sql) == 0) && fine;
    const bg_err err =
        fine ? postgres_link_prepare(link, "schema", "schema", text, deadline, info)
             : source_no_memory(info);
    link->has_schema = !err;
    free(text);
    return err;
}

bg_err postgres_schema_fingerprint(struct postgres_link *link,
                                   const struct postgres_objects *objects,
                                   uint64_t deadline, char fingerprint[PG_FINGERPRINT],
                                   bg_errinfo *info)
{
    PGresult *rows = NULL;
    bg_err err =
        link->has_schema ? BG_OK : schema_prepare(link, objects, deadline, info);
    err = err ? err
              : postgres_link_execute(link, "schema", "schema", NULL, deadline, &rows,
                                      info);
    fingerprint[0] = 0;
    if (!err && !PQgetisnull(rows, 0, 1)) {
        const char *advice = PQgetvalue(rows, 0, 2); /* "" if NULL */
        err = source_error(info, BG_EINVAL, "keys", NULL, "%s%s%s",
                           PQgetvalue(rows, 0, 1), *advice ? "; " : "", advice);
    }
    if (!err) {
        (void)snprintf(fingerprint, PG_FINGERPRINT, "%s", PQgetvalue(rows, 0, 0));
    }
    PQclear(rows);
    return err;
}

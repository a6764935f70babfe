/*
 * postgres/publication.c - creates the publication, and finds the keys in published rows; see postgres/publication.h.
 *
 * A table whose updates are published needs a replica identity; otherwise, PostgreSQL rejects UPDATE as soon as the
 * table is published. A gate must not break an application, so the gate refuses a table without a replica identity. A
 * table can also lose its replica identity, or get a partition without one. The fingerprint query detects such a change
 * at the next poll. If the gate cannot follow a publication, for this or any other reason, the gate drops it.
 * Otherwise, the publication could later make UPDATE fail without the gate noticing.
 *
 * The stream identifies each table by its OID. It describes a table's columns before the table's first row and again
 * after every change to its definition. A row in a partition arrives as a row of the topmost published table, so the
 * tables above a key column's table are included as well.
 */
#include "postgres/publication.h"

#include "postgres/schema.h"
#include "source/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Statements -------------------------------------------------------------------------- */

enum { PUBLICATION_DROP, PUBLICATION_CREATE, PUBLICATION_COMMENT, PUBLICATION_STEPS };

/* Lists the tables that contain keys, with schema-qualified names, so that the script works with any
 * search_path. */
static bg_err publication_tables(struct postgres_link *link, uint64_t deadline,
                                 char **tables, bg_errinfo *info)
{
    static const char tail[] =
        " SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('%I.%I',"
        " s.nspname, c.relname), ', ') FROM root"
        " JOIN pg_catalog.pg_class c ON c.oid = root.oid"
        " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace";
    PGresult *rows = NULL;
    bg_err err =
        postgres_schema_query(link, "publication", tail, deadline, &rows, info);
    *tables = err ? NULL : strdup(PQgetvalue(rows, 0, 0));
    PQclear(rows);
    return err || *tables ? err : source_no_memory(info);
}

/* Prepares the statements. The caller frees the statements, even after an error. */
static bg_err publication_statements(struct postgres_link *link, const char *name,
                                     uint64_t deadline, char *sql[PUBLICATION_STEPS],
                                     bg_errinfo *info)
{
    char *tables = NULL;
    const bg_err err = publication_tables(link, deadline, &tables, info);
    sql[PUBLICATION_DROP] = source_format("DROP PUBLICATION IF EXISTS \"%s\"", name);
    sql[PUBLICATION_CREATE] =
        tables ? source_format("CREATE PUBLICATION \"%s\" FOR TABLE %s"
                               " WITH (publish = 'insert, update, truncate',"
                               " publish_via_partition_root = true)",
                               name, tables)
               : NULL;
    sql[PUBLICATION_COMMENT] =
        source_format("COMMENT ON PUBLICATION \"%s\" IS 'bloomgate %s'", name, name);
    free(tables);
    const bool made =
        sql[PUBLICATION_DROP] && sql[PUBLICATION_CREATE] && sql[PUBLICATION_COMMENT];
    return err || made ? err : source_no_memory(info);
}

static void publication_statements_free(char *sql[PUBLICATION_STEPS])
{
    for (int i = 0; i < PUBLICATION_STEPS; i++) {
        free(sql[i]);
    }
}

/* ---- Installing -------------------------------------------------------------------------- */

/* Verifies that the publication with this name, if there is one, belongs to this gate. Errors: BG_EINVAL if the
 * publication does not belong to this gate. */
static bg_err publication_own(struct postgres_link *link, const char *name,
                              uint64_t deadline, bg_errinfo *info)
{
    static const char sql[] = "SELECT pg_catalog.obj_description(oid, 'pg_publication')"
                              " IS NOT DISTINCT FROM 'bloomgate ' || pubname::text"
                              " FROM pg_catalog.pg_publication WHERE pubname = $1";
    const struct postgres_arguments given = { 1, { { .data = name } } };
    PGresult *rows = NULL;
    bg_err err =
        postgres_link_run(link, "publication", sql, &given, deadline, &rows, info);
    if (!err && PQntuples(rows) && *PQgetvalue(rows, 0, 0) != 't') {
        err = source_error(
            info, BG_EINVAL, "publication", NULL,
            "%s does not publish all changes and was not created by this gate; drop it or "
            "rename the gate",
            name);
    }
    PQclear(rows);
    return err;
}

/* Verifies that the tables can be published. Errors: BG_EINVAL if a table cannot be published, or if publishing it
 * would make UPDATE fail. */
static bg_err publication_is_possible(struct postgres_link *link, uint64_t deadline,
                                      bg_errinfo *info)
{
    static const char format[] =
        ", tree(oid) AS (SELECT oid FROM root UNION SELECT i.inhrelid"
        " FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid%s)"
        " SELECT c.relname, c.relpersistence FROM tree"
        " JOIN pg_catalog.pg_class c ON c.oid = tree.oid"
        " WHERE c.relpersistence = 'u' OR c.relpersistence = 'p' AND c.relkind = 'r'"
        " AND " POSTGRES_NO_REPLICA_IDENTITY " LIMIT 1";
    PGresult *rows = NULL;
    char *tail = source_format(format, postgres_schema_attached(link));
    bg_err err =
        tail ? postgres_schema_query(link, "publication", tail, deadline, &rows, info)
             : source_no_memory(info);
    free(tail);
    if (!err && PQntuples(rows) && *PQgetvalue(rows, 0, 1) == 'u') {
        err = source_error(
            info, BG_EINVAL, "publication", NULL,
            "table %s is unlogged, so its changes are not in the WAL; run ALTER TABLE"
            " ... SET LOGGED, or use follow=changes",
            PQgetvalue(rows, 0, 0));
    } else if (!err && PQntuples(rows)) {
        err = source_error(
            info, BG_EINVAL, "publication", NULL,
            "table %s has no replica identity, so UPDATE would fail once it is"
            " published; add a primary key or set REPLICA IDENTITY, or use"
            " follow=changes",
            PQgetvalue(rows, 0, 0));
    }
    PQclear(rows);
    return err;
}

/* Runs the statements in one transaction. The lock timeout is shorter than the deadline, because a server process that
 * is waiting for a lock does not notice that its client has closed the connection. */
static bg_err publication_run(struct postgres_link *link, char *const *sql, int n,
                              uint64_t deadline, bg_errinfo *info)
{
    bg_err err = postgres_link_do(link, "publication", "BEGIN", deadline, info);
    err = err ? err
              : postgres_link_do(link, "publication",
                                 "SET LOCAL lock_timeout = '300ms'", deadline, info);
    for (int i = 0; !err && i < n; i++) {
        err = postgres_link_do(link, "publication", sql[i], deadline, info);
    }
    err = err ? err : postgres_link_do(link, "publication", "COMMIT", deadline, info);
    return err ? postgres_schema_undo(link, "publication", err, deadline, info) : BG_OK;
}

/* Writes the statements to a file for the operator to run, and returns an error that contains the
 * file's path. */
static bg_err publication_script(const struct source *source, const char *name,
                                 char *const sql[PUBLICATION_STEPS], bg_errinfo *info)
{
    const char *path = source->how.script;
    struct script script;
    bool written = *path && script_begin(&script);
    if (written) {
        (void)fprintf(script.to,
                      "-- Publication for gate \"%s\". Run this as the owner of the "
                      "tables.\n\nBEGIN;\n",
                      source->how.name);
        for (int i = 0; i < PUBLICATION_STEPS; i++) {
            (void)fprintf(script.to, "%s;\n", sql[i]);
        }
        (void)fputs("COMMIT;\n", script.to);
        written = script_end(&script, path);
    }
    return source_error(info, BG_EINVAL, "publication", NULL,
                        "%s is missing or incomplete; as the owner of the tables, %s%s",
                        name, written ? "run " : "create it", written ? path : "");
}

bg_err postgres_publication_install(struct postgres_link *link, const char *name,
                                    uint64_t deadline, bg_errinfo *info)
{
    const struct source *source = link->source;
    char *sql[PUBLICATION_STEPS];
    bg_err err = publication_statements(link, name, deadline, sql, info);
    err = err ? err : publication_own(link, name, deadline, info);
    err = err ? err : publication_is_possible(link, deadline, info);
    if (!err && !source->how.install) {
        err = publication_script(source, name, sql, info);
    }
    err = err ? err : publication_run(link, sql, PUBLICATION_STEPS, deadline, info);
    publication_statements_free(sql);
    return err;
}

void postgres_publication_drop(struct postgres_link *link, const char *name,
                               uint64_t deadline)
{
    char *sql = source_format("DROP PUBLICATION IF EXISTS \"%s\"", name);
    if (sql && !publication_own(link, name, deadline, NULL)) {
        (void)publication_run(link, &sql, 1, deadline, NULL);
    }
    free(sql);
}

/* ---- Published tables -------------------------------------------------------------------- */

void postgres_relations_free(struct postgres_relations *relations)
{
    free(relations->list);
    *relations = (struct postgres_relations){ 0 };
}

/* Fills the list from rows that consist of an OID and a key column number (starting at 1). */
static bg_err relations_fill(struct postgres_relations *relations, const PGresult *rows,
                             bg_errinfo *info)
{
    const int n = PQntuples(rows);
    postgres_relations_free(relations);
    relations->list = calloc((size_t)n + 1, sizeof *relations->list);
    if (!relations->list) {
        return source_no_memory(info);
    }
    for (int i = 0; i < n; i++) {
        const uint32_t oid = (uint32_t)strtoul(PQgetvalue(rows, i, 0), NULL, 10);
        const unsigned column = (unsigned)strtoul(PQgetvalue(rows, i, 1), NULL, 10) - 1;
        if (!relations->n || relations->list[relations->n - 1].oid != oid) {
            relations->list[relations->n++].oid = oid;
        }
        if (column < KEY_COLUMNS) {
            relations->list[relations->n - 1].columns |= 1u << column;
        }
    }
    return BG_OK;
}

bg_err postgres_relations_load(struct postgres_link *link, uint64_t deadline,
                               struct postgres_relations *relations, bg_errinfo *info)
{
    static const char tail[] =
        ", below(n, oid) AS (SELECT n, oid FROM root UNION SELECT t.n, i.inhrelid"
        " FROM below t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid)"
        ", above(n, oid) AS (SELECT n, oid FROM root UNION SELECT t.n, i.inhparent"
        " FROM above t JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.oid"
        " JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'p')"
        " SELECT oid, n FROM below UNION SELECT oid, n FROM above ORDER BY 1, 2";
    PGresult *rows = NULL;
    bg_err err = postgres_schema_query(link, "keys", tail, deadline, &rows, info);
    err = err ? err : relations_fill(relations, rows, info);
    PQclear(rows);
    return err;
}

static int relations_compare(const void *a, const void *b)
{
    const struct postgres_relation *x = a, *y = b;
    return (x->oid > y->oid) - (x->oid < y->oid);
}

struct postgres_relation *postgres_relations_find(struct postgres_relations *relations,
                                                  uint32_t oid)
{
    if (!relations->last || relations->last->oid != oid) {
        const struct postgres_relation wanted = { .oid = oid };
        relations->last = relations->n ? bsearch(&wanted, relations->list, relations->n,
                                                 sizeof wanted, relations_compare)
                                       : NULL;
    }
    return relations->last;
}

void postgres_relations_forget(struct postgres_relations *relations)
{
    for (size_t i = 0; i < relations->n; i++) {
        relations->list[i].is_described = false;
    }
}

/* Inserts a number into the ascending list, unless the list already contains it. */
static void relation_put(struct postgres_relation *relation, uint16_t number)
{
    uint16_t i = relation->n;
    while (i > 0 && relation->at[i - 1] > number) {
        i--;
    }
    if (i > 0 && relation->at[i - 1] == number) {
        return;
    }
    memmove(&relation->at[i + 1], &relation->at[i],
            (size_t)(relation->n - i) * sizeof relation->at[0]);
    relation->at[i] = number;
    relation->n++;
}

const char *postgres_relation_describe(struct postgres_relation *relation,
                                       const struct key_columns *columns,
                                       const struct pgoutput_message *description)
{
    relation->n = 0;
    relation->is_described = false;
    for (size_t i = 0; i < columns->n; i++) {
        uint16_t number;
        if (!(relation->columns & 1u << i)) {
            continue;
        }
        if (!pgoutput_column(description, columns->list[i].column, &number)) {
            return columns->list[i].column;
        }
        relation_put(relation, number);
    }
    relation->is_described = true;
    return NULL;
}

/*
 * postgres/relations.c - the published tables that contain keys; see postgres/publication.h.
 *
 * The stream identifies each table by its OID. It describes a table's columns before the table's first row and again
 * after every change to its definition. A row in a partition arrives as a row of the topmost published table, so the
 * tables above a key column's table are included as well.
 */
#include "postgres/publication.h"
#include "postgres/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

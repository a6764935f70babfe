/* postgres_schema.c - placeholder. */
#include "postgres_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bg_err postgres_keys_look(struct postgres_link *link, uint64_t deadline,
                          struct postgres_keys *keys, bg_errinfo *info)
{
    struct source *source = link->source;
    bg_err err = BG_OK;
    *keys = (struct postgres_keys){ .form = KEY_FORM_BYTES };
    for (size_t i = 0; !err && i < source->columns.n; i++) {
        char *table = key_column_table(&source->columns.list[i]);
        char *column = source_quote(source->columns.list[i].column);
        char *sql = table && column ? source_format("SELECT %s FROM %s LIMIT 0", column, table) : NULL;
        PGresult *about = NULL;
        err = sql ? postgres_link_run(link, "keys", sql, NULL, deadline, &about, info) : source_no_memory(info);
        if (!err) {
            keys->type = PQftype(about, 0);
            atomic_store(&source->prints_hex, keys->type == PG_BYTEA);
            atomic_store(&source->form, keys->form);
        }
        PQclear(about);
        free(table);
        free(column);
        free(sql);
    }
    return err;
}

bg_err postgres_schema_verify_server(struct postgres_link *link, uint64_t deadline,
                                     bg_errinfo *info)
{
    (void)link;
    (void)deadline;
    (void)info;
    return BG_OK;
}

/* sqlite/reader.c - see sqlite/reader.h. Also implements the `none` mode, which only reads keys. */
#include "sqlite/reader.h"

#include "sqlite/schema.h"

#include <stdlib.h>
#include <string.h>

/* Returns SQL that selects all keys, or NULL if out of memory. */
static char *reader_sql(const struct source *source)
{
    char *all = strdup("");
    for (size_t i = 0; all && i < source->columns.n; i++) {
        const struct key_column *column = &source->columns.list[i];
        char *more = source_format("%s%sSELECT %s FROM %s WHERE %s IS NOT NULL", all,
                                   i ? " UNION ALL " : "", column->sql_column,
                                   column->sql_table, column->sql_column);
        free(all);
        all = more;
    }
    return all;
}

bg_err sqlite_reader_begin(struct sqlite_reader *reader, bg_errinfo *info)
{
    const bg_err err =
        sqlite_link_open(&reader->link, reader->base.source, false, info);
    reader->ended = false;
    return err ? err : sqlite_link_begin(&reader->link, info);
}

void sqlite_reader_end(void *context)
{
    struct sqlite_reader *reader = context;
    (void)sqlite3_finalize(reader->rows);
    reader->rows = NULL;
    sqlite_link_close(&reader->link);
}

static bg_err reader_prepare(struct sqlite_reader *reader, bg_errinfo *info)
{
    char *sql = reader_sql(reader->base.source);
    const bg_err err =
        sql ? sqlite_link_prepare(&reader->link, "keys", &reader->rows, info, "%s", sql)
            : source_no_memory(info);
    free(sql);
    return err;
}

bg_err sqlite_reader_next(void *context, struct key_batch *batch, size_t room,
                          bg_errinfo *info)
{
    struct sqlite_reader *reader = context;
    bg_err err = reader->rows || reader->ended ? BG_OK : reader_prepare(reader, info);
    while (!err && !reader->ended && batch->n < room && !key_batch_is_full(batch)) {
        const int code = sqlite3_step(reader->rows);
        if (code == SQLITE_ROW) {
            err = sqlite_link_key(reader->rows, batch) ? BG_OK : source_no_memory(info);
        } else if (code == SQLITE_DONE) {
            reader->ended = true;
            (void)sqlite3_finalize(reader->rows);
            reader->rows = NULL;
            err = sqlite_link_end(&reader->link, BG_OK, info);
        } else {
            err = sqlite_link_error(&reader->link, "keys", info);
        }
    }
    return err;
}

bg_err sqlite_reader_count(struct source *source, uint64_t *count, bg_errinfo *info)
{
    struct sqlite_link link;
    int64_t number = 0;
    char *keys = reader_sql(source);
    bg_err err =
        keys ? sqlite_link_open(&link, source, false, info) : source_no_memory(info);
    if (!err) {
        err = sqlite_link_number(&link, "keys", &number, info,
                                 "SELECT count(*) FROM (%s)", keys);
        sqlite_link_close(&link);
    }
    free(keys);
    *count = err || number < 0 ? 0 : (uint64_t)number;
    return err;
}

/* ---- Without a follower ---------------------------------------------------------------- */

/* Starts the snapshot, and validates the key columns in it. */
static bg_err plain_begin(void *context, bg_errinfo *info)
{
    struct sqlite_reader *reader = context;
    enum key_form form = KEY_FORM_UNKNOWN;
    bg_err err = sqlite_reader_begin(reader, info);
    err = err ? err : sqlite_schema_columns(&reader->link, &form, info);
    if (!err) {
        atomic_store(&reader->base.source->form, (int)form);
    }
    return err;
}

const struct source_mode sqlite_plain_mode = {
    .reader_size = sizeof(struct sqlite_reader),
    .keys_begin = plain_begin,
    .keys_next = sqlite_reader_next,
    .keys_end = sqlite_reader_end,
};

/* store_row.c - see store_row.h. */
#include "store_row.h"

#include "error_text.h"

#include <stdlib.h>
#include <string.h>

void store_row_clear(struct store_row *row)
{
    if (row) {
        *row = (struct store_row){ .bytes = row->bytes, .room = row->room };
    }
}

void store_row_begin(struct store_row *row)
{
    if (row) {
        row->found = true;
    }
}

void store_row_set_no_memory(struct store_row *row)
{
    if (row) {
        row->no_memory = true;
    }
}

/* Makes room for n more bytes. */
static bool row_reserve(struct store_row *row, size_t n)
{
    size_t room = row->room ? row->room : 256;
    while (room < row->used + n) {
        room *= 2;
    }
    if (room == row->room) {
        return true;
    }
    char *bytes = realloc(row->bytes, room);
    if (bytes) {
        row->bytes = bytes;
        row->room = room;
    }
    return bytes != NULL;
}

static void row_put(struct store_row *row, const void *bytes, size_t n)
{
    if (n > 0) {
        memcpy(row->bytes + row->used, bytes, n);
        row->used += n;
    }
}

void store_row_add(struct store_row *row, const char *name, const void *value,
                   size_t len)
{
    if (!row) {
        return;
    }
    const size_t name_len = strlen(name), value_len = value ? len : 0;
    const size_t size = name_len + value_len;
    row->size = size < SIZE_MAX - row->size ? row->size + size : SIZE_MAX;
    if (row->size > STORE_ROW_MAX || row->no_memory) {
        return;
    }
    const size_t marked = value ? value_len + 1 : 0;
    if (!row_reserve(row, size + 2 * sizeof marked)) {
        row->no_memory = true;
        return;
    }
    row_put(row, &name_len, sizeof name_len);
    row_put(row, name, name_len);
    row_put(row, &marked, sizeof marked);
    row_put(row, value, value_len);
    row->columns++;
}

void store_row_copy(struct store_row *to, const struct store_row *from)
{
    store_row_clear(to);
    if (!row_reserve(to, from->used)) {
        to->no_memory = true;
        return;
    }
    row_put(to, from->bytes, from->used);
    to->columns = from->columns;
    to->size = from->size;
    to->found = from->found;
    to->no_memory = from->no_memory;
}

static bg_bytes row_take(const struct store_row *row, size_t *at, size_t n)
{
    const bg_bytes part = { row->bytes + *at, n };
    *at += n;
    return part;
}

bool store_row_next(const struct store_row *row, size_t *at,
                    struct store_column *column)
{
    size_t n;
    if (*at >= row->used) {
        return false;
    }
    memcpy(&n, row_take(row, at, sizeof n).data, sizeof n);
    column->name = row_take(row, at, n);
    memcpy(&n, row_take(row, at, sizeof n).data, sizeof n);
    column->is_null = n == 0;
    column->value = row_take(row, at, n ? n - 1 : 0);
    return true;
}

bg_err store_row_check(const struct store_row *row, bg_errinfo *info)
{
    if (row->size > STORE_ROW_MAX) {
        return error_fail(info, BG_EQUOTA,
                          "the row is larger than 1 MiB: select fewer columns in the "
                          "gate's `lookup`");
    }
    return row->no_memory ? error_fail(info, BG_ENOMEM, "cannot store the row") : BG_OK;
}

void store_row_free(struct store_row *row)
{
    free(row->bytes);
    *row = (struct store_row)STORE_ROW_INIT;
}

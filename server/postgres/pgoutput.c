/*
 * pgoutput.c - see pgoutput.h.
 *
 * The PostgreSQL manual describes the format in "Streaming Replication Protocol" and "Logical Replication Message
 * Formats". Numbers are big-endian. A message must contain nothing after its last field. Only protocol 1 is requested,
 * so the server sends whole transactions in commit order, and values as text ('t').
 *
 * pgoutput_parse validates the whole list of columns or values once, so the functions that read the list cannot read
 * past its end.
 */
#include "postgres/pgoutput.h"

#include <string.h>

/* ---- Numbers and text -------------------------------------------------------------------- */

struct cursor {
    const unsigned char *at;
    size_t left;
};

static bool cursor_skip(struct cursor *cursor, size_t n)
{
    if (cursor->left < n) {
        return false;
    }
    cursor->at += n;
    cursor->left -= n;
    return true;
}

static bool cursor_number(struct cursor *cursor, size_t bytes, uint64_t *number)
{
    const unsigned char *at = cursor->at;
    if (!cursor_skip(cursor, bytes)) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < bytes; i++) {
        *number = *number << 8 | at[i];
    }
    return true;
}

/* Reads a NUL-terminated string; *text excludes the NUL. */
static bool cursor_text(struct cursor *cursor, bg_bytes *text)
{
    const unsigned char *end =
        cursor->left ? memchr(cursor->at, 0, cursor->left) : NULL;
    if (!end) {
        return false;
    }
    *text = (bg_bytes){ cursor->at, (size_t)(end - cursor->at) };
    return cursor_skip(cursor, text->len + 1);
}

static struct cursor cursor_over(bg_bytes bytes)
{
    return (struct cursor){ bytes.len ? bytes.data : (const void *)"", bytes.len };
}

static bg_bytes cursor_rest(const struct cursor *cursor)
{
    return (bg_bytes){ cursor->at, cursor->left };
}

/* ---- Frames ------------------------------------------------------------------------------ */

bool pgoutput_frame_parse(bg_bytes bytes, struct pgoutput_frame *frame)
{
    struct cursor cursor = cursor_over(bytes);
    uint64_t type, start, time, reply;
    *frame = (struct pgoutput_frame){ 0 };
    if (!cursor_number(&cursor, 1, &type)) {
        return false;
    }
    if (type == 'k') {
        frame->is_keepalive = true;
        const bool fine = cursor_number(&cursor, 8, &frame->sent)
                          && cursor_number(&cursor, 8, &time)
                          && cursor_number(&cursor, 1, &reply) && !cursor.left;
        frame->wants_reply = fine && reply;
        return fine;
    }
    const bool fine = type == 'w' && cursor_number(&cursor, 8, &start)
                      && cursor_number(&cursor, 8, &frame->sent)
                      && cursor_number(&cursor, 8, &time);
    frame->payload = cursor_rest(&cursor);
    return fine;
}

/* ---- Rows -------------------------------------------------------------------------------- */

static bool pgoutput_value_read(struct cursor *cursor, struct pgoutput_value *value)
{
    uint64_t kind, len;
    *value = (struct pgoutput_value){ .state = PGOUTPUT_NULL };
    if (!cursor_number(cursor, 1, &kind)) {
        return false;
    }
    if (kind == 'n') {
        return true;
    }
    if (kind == 'u') {
        value->state = PGOUTPUT_UNCHANGED;
        return true;
    }
    value->state = PGOUTPUT_TEXT;
    if (kind != 't' || !cursor_number(cursor, 4, &len) || len > cursor->left) {
        return false;
    }
    value->text = (bg_bytes){ cursor->at, (size_t)len };
    return cursor_skip(cursor, (size_t)len);
}

bool pgoutput_value_next(struct pgoutput_message *row, struct pgoutput_value *value)
{
    struct cursor cursor = cursor_over(row->list);
    if (!row->columns || !pgoutput_value_read(&cursor, value)) {
        return false;
    }
    row->columns--;
    row->list = cursor_rest(&cursor);
    return true;
}

/* Reads the values of a row and sets *list to their bytes. */
static bool pgoutput_tuple(struct cursor *cursor, uint16_t *columns, bg_bytes *list)
{
    struct pgoutput_value value;
    uint64_t n;
    if (!cursor_number(cursor, 2, &n)) {
        return false;
    }
    const struct cursor begin = *cursor;
    for (uint64_t i = 0; i < n; i++) {
        if (!pgoutput_value_read(cursor, &value)) {
            return false;
        }
    }
    *columns = (uint16_t)n;
    *list = (bg_bytes){ begin.at, begin.left - cursor->left };
    return true;
}

/* Reads a row. An Insert contains 'N' and the new row. An Update also contains 'N' and the new row,
 * optionally preceded by 'K' and the old key or by 'O' and the old row. */
static bool pgoutput_row(struct cursor *cursor, bool is_update,
                         struct pgoutput_message *message)
{
    uint64_t relation, part;
    message->kind = PGOUTPUT_ROW;
    if (!cursor_number(cursor, 4, &relation) || !cursor_number(cursor, 1, &part)) {
        return false;
    }
    message->relation = (uint32_t)relation;
    if (is_update && (part == 'K' || part == 'O')
        && (!pgoutput_tuple(cursor, &message->columns, &message->list)
            || !cursor_number(cursor, 1, &part))) {
        return false;
    }
    return part == 'N' && pgoutput_tuple(cursor, &message->columns, &message->list);
}

/* ---- Relations --------------------------------------------------------------------------- */

static bool pgoutput_column_read(struct cursor *cursor, bg_bytes *name)
{
    return cursor_skip(cursor, 1) /* flags */ && cursor_text(cursor, name)
           && cursor_skip(cursor, 8); /* type OID and type modifier */
}

static bool pgoutput_relation(struct cursor *cursor, struct pgoutput_message *message)
{
    uint64_t relation, columns;
    bg_bytes text;
    message->kind = PGOUTPUT_RELATION;
    if (!cursor_number(cursor, 4, &relation) || !cursor_text(cursor, &text)
        || !cursor_text(cursor, &text) || !cursor_skip(cursor, 1) /* identity */
        || !cursor_number(cursor, 2, &columns)) {
        return false;
    }
    message->relation = (uint32_t)relation;
    message->columns = (uint16_t)columns;
    message->list = cursor_rest(cursor);
    for (uint64_t i = 0; i < columns; i++) {
        if (!pgoutput_column_read(cursor, &text)) {
            return false;
        }
    }
    return true;
}

bool pgoutput_column(const struct pgoutput_message *relation, const char *name,
                     uint16_t *number)
{
    struct cursor cursor = cursor_over(relation->list);
    const size_t len = strlen(name);
    bg_bytes found;
    for (uint16_t i = 0; i < relation->columns; i++) {
        if (!pgoutput_column_read(&cursor, &found)) {
            return false;
        }
        if (found.len == len && memcmp(found.data, name, len) == 0) {
            *number = i;
            return true;
        }
    }
    return false;
}

/* ---- Messages ---------------------------------------------------------------------------- */

static bool pgoutput_emitted(struct cursor *cursor, struct pgoutput_message *message)
{
    uint64_t flags, len;
    message->kind = PGOUTPUT_MESSAGE;
    if (!cursor_number(cursor, 1, &flags) || !cursor_number(cursor, 8, &message->lsn)
        || !cursor_text(cursor, &message->prefix) || !cursor_number(cursor, 4, &len)
        || len != cursor->left) {
        return false;
    }
    message->is_transactional = flags & 1;
    message->content = cursor_rest(cursor);
    return cursor_skip(cursor, cursor->left);
}

static bool pgoutput_body(char type, struct cursor *cursor,
                          struct pgoutput_message *message)
{
    switch (type) {
    case 'B':
        message->kind = PGOUTPUT_BEGIN;
        return cursor_skip(cursor, 20); /* LSN, time, transaction */
    case 'C':
        message->kind = PGOUTPUT_COMMIT;
        return cursor_skip(cursor, 25); /* flags, LSN, LSN, time */
    case 'R': return pgoutput_relation(cursor, message);
    case 'I': return pgoutput_row(cursor, false, message);
    case 'U': return pgoutput_row(cursor, true, message);
    case 'M': return pgoutput_emitted(cursor, message);
    case 'D':
    case 'T':
    case 'O':
    case 'Y': return cursor_skip(cursor, cursor->left);
    default: return false;
    }
}

bool pgoutput_parse(bg_bytes bytes, struct pgoutput_message *message)
{
    struct cursor cursor = cursor_over(bytes);
    uint64_t type;
    *message = (struct pgoutput_message){ .kind = PGOUTPUT_IGNORED };
    return cursor_number(&cursor, 1, &type)
           && pgoutput_body((char)type, &cursor, message) && !cursor.left;
}

/*
 * fields.c - see fields.h. Most records contain no quotes, and most fields are short, so the search
 * jumps from one quote, newline or delimiter to the next with memchr instead of stepping through a
 * state machine. For the second of five fields in rows of 60 bytes, this is 2,700 MB/s instead of
 * 440 MB/s without quotes, and 690 MB/s instead of 610 MB/s with quotes around all fields.
 */
#include "fields.h"

#include <string.h>

/* Returns the position after the quotes that are opened at `at`, or `end` if they are not closed. */
static const char *csv_skip_quotes(const char *at, const char *end, bool *open)
{
    do { /* two consecutive quotes close and reopen the quotes */
        at = memchr(at + 1, '"', (size_t)(end - at) - 1);
        if (!at) {
            *open = true;
            return end;
        }
        at++;
    } while (at < end && *at == '"');
    return at;
}

static bool csv_begins_field(const struct key_format *format, const char *first,
                             const char *at)
{
    return at == first || at[-1] == format->delimiter || at[-1] == '\n';
}

/* Returns whether a quoted field starts directly after the byte at `at`, which is outside of
 * quotes. If all fields of a file are quoted, this test avoids most searches. */
static bool csv_is_before_quotes(const struct key_format *format, const char *at,
                                 const char *end)
{
    return end - at > 1 && at[1] == '"' && (*at == format->delimiter || *at == '\n');
}

/* Returns the next quote that opens a quoted field, or NULL. `at` is outside of quotes. */
static const char *csv_find_quotes(const struct key_format *format, const char *first,
                                   const char *at, const char *end)
{
    if (csv_is_before_quotes(format, at, end)) {
        return at + 1;
    }
    while (at < end && (at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        if (csv_begins_field(format, first, at)) {
            return at;
        }
        at++;
    }
    return NULL;
}

size_t csv_record(const struct key_format *format, const char *bytes, size_t n,
                  bool *whole, bool *open)
{
    const char *const end = bytes + n, *at = bytes;
    const char *line = n ? memchr(bytes, '\n', n) : NULL;
    *open = false;
    for (;;) { /* `at` is outside of quotes, and `line` is the next newline after it */
        const char *stop = line ? line : end;
        const char *quote = csv_find_quotes(format, bytes, at, stop);
        if (!quote) {
            *whole = line != NULL;
            return line ? (size_t)(line - bytes) + 1 : n;
        }
        at = csv_skip_quotes(quote, end, open);
        if (line && line < at) {
            line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        }
    }
}

size_t csv_whole(const struct key_format *format, const char *bytes, size_t n)
{
    const char *const end = bytes + n, *at = bytes, *last = NULL;
    bool open = false;
    while (at < end) {
        const char *quote = csv_find_quotes(format, bytes, at, end);
        const char *stop = quote ? quote : end;
        const char *line = stop - at == 1 ? (*at == '\n' ? at : NULL)
                                          : memrchr(at, '\n', (size_t)(stop - at));
        last = line ? line : last;
        at = quote ? csv_skip_quotes(quote, end, &open) : end;
    }
    return last ? (size_t)(last - bytes) + 1 : 0;
}

static bool field_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Sets *field to the next run of bytes that are not blank. */
static bool field_next_word(struct field_cursor *cursor, bg_bytes *field)
{
    const char *at = cursor->at, *const end = cursor->end;
    while (at < end && field_is_blank(*at)) {
        at++;
    }
    const char *begin = at;
    while (at < end && !field_is_blank(*at)) {
        at++;
    }
    *field = (bg_bytes){ begin, (size_t)(at - begin) };
    cursor->at = at;
    return begin < end;
}

/* Returns whether a quoted field, which ends at `at`, is followed only by the CR of CR LF. */
static bool field_is_before_cr(const char *at, const char *end)
{
    return end - at == 1 && *at == '\r';
}

static inline bool field_step(const struct key_format *format,
                              struct field_cursor *cursor, bg_bytes *field)
{
    const char *const at = cursor->at, *const end = cursor->end;
    bool open = false;
    if (format->blanks) {
        return field_next_word(cursor, field);
    }
    if (!at) {
        return false;
    }
    const char *from = format->records == KEY_RECORDS_CSV && at < end && *at == '"'
                           ? csv_skip_quotes(at, end, &open)
                           : at;
    if (from > at && field_is_before_cr(from, end)) {
        *field = (bg_bytes){ at, (size_t)(from - at) };
        cursor->at = NULL;
        return true;
    }
    const char *stop =
        from < end ? memchr(from, format->delimiter, (size_t)(end - from)) : NULL;
    *field = (bg_bytes){ at, (size_t)((stop ? stop : end) - at) };
    cursor->at = stop ? stop + 1 : NULL;
    return true;
}

bool field_next(const struct key_format *format, struct field_cursor *cursor,
                bg_bytes *field)
{
    return field_step(format, cursor, field);
}

bg_bytes field_get(const struct key_format *format, bg_bytes record, uint64_t number)
{
    struct field_cursor cursor = field_begin(record);
    bg_bytes field = { NULL, 0 };
    while (number > 0 && field_step(format, &cursor, &field)) {
        number--;
    }
    return number ? (bg_bytes){ NULL, 0 } : field;
}

bg_bytes field_unquote(bg_bytes field, char *to)
{
    const char *from = field.data;
    size_t n = 0;
    if (field.len < 2 || from[0] != '"' || from[field.len - 1] != '"') {
        return field;
    }
    for (size_t i = 1; i + 1 < field.len; i++) {
        to[n++] = from[i];
        i += from[i] == '"' && i + 2 < field.len && from[i + 1] == '"';
    }
    return (bg_bytes){ to, n };
}

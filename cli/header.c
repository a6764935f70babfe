/* header.c - see header.h. */
#include "header.h"

#include "fields.h"
#include "input.h"
#include "say.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 1 << 20, HEADER_LIST = 400 };

bool header_has_mark(const char *bytes, size_t n)
{
    return n >= HEADER_MARK && memcmp(bytes, "\xEF\xBB\xBF", HEADER_MARK) == 0;
}

size_t header_mark(const struct key_format *format, const char *bytes, size_t n)
{
    return format->records == KEY_RECORDS_CSV && header_has_mark(bytes, n) ? HEADER_MARK
                                                                           : 0;
}

size_t header_length(const struct key_format *format, const char *bytes, size_t n)
{
    bool whole, open;
    if (format->records == KEY_RECORDS_CSV) {
        const size_t mark = header_mark(format, bytes, n);
        return mark + csv_record(format, bytes + mark, n - mark, &whole, &open);
    }
    const char *end = memchr(bytes, format->separator, n);
    return end ? (size_t)(end - bytes) + 1 : n;
}

/* Returns a record without its byte-order mark, separator and CR, which are not part of names. */
static bg_bytes header_text(const struct key_format *format, const char *bytes,
                            size_t n)
{
    const size_t mark = header_has_mark(bytes, n) ? HEADER_MARK : 0;
    bytes += mark;
    n -= mark;
    n -= n && bytes[n - 1] == format->separator;
    n -= n && bytes[n - 1] == '\r';
    return (bg_bytes){ bytes, n };
}

/* Sets *column to the next column, without quotes. `room` has space for the whole record. */
static bool header_next(const struct key_format *format, struct field_cursor *cursor,
                        char *room, bg_bytes *column)
{
    if (!field_next(format, cursor, column)) {
        return false;
    }
    *column =
        format->records == KEY_RECORDS_CSV ? field_unquote(*column, room) : *column;
    return true;
}

static int header_report_missing(const struct key_format *format, const char *path,
                                 bg_bytes record, char *room)
{
    char list[HEADER_LIST] = "", name[64];
    struct field_cursor cursor = field_begin(record);
    bg_bytes column;
    while (header_next(format, &cursor, room, &column)) {
        if (strlen(list) + sizeof name + 8 > sizeof list) {
            say_list(list, sizeof list, "...");
            break;
        }
        (void)snprintf(name, sizeof name, "%.*s",
                       (int)(column.len < 60 ? column.len : 60),
                       (const char *)column.data);
        say_tame(name, strlen(name));
        say_list(list, sizeof list, name);
    }
    return say_data("%s: has no column '%s'; its header contains: %s", path,
                    format->name, list);
}

int header_find(const struct key_format *format, const char *path, const char *bytes,
                size_t n, uint64_t *field)
{
    const bg_bytes record = header_text(format, bytes, n);
    const size_t length = strlen(format->name);
    char *room = malloc(n + 1);
    struct field_cursor cursor = field_begin(record);
    bg_bytes column;
    int code = room ? (int)CLI_OK : say_full("out of memory");
    *field = 0;
    for (uint64_t i = 1; !code && header_next(format, &cursor, room, &column); i++) {
        if (column.len != length || memcmp(column.data, format->name, length) != 0) {
            continue;
        }
        if (*field) {
            code = say_data("%s: two columns are named '%s'; select one with --header "
                            "--field %" PRIu64 " or %" PRIu64,
                            path, format->name, *field, i);
        }
        *field = i;
    }
    if (!code && !*field) {
        code = header_report_missing(format, path, record, room);
    }
    free(room);
    return code;
}

int header_read(const struct key_format *format, const char *path, uint64_t *field)
{
    char *bytes = malloc(HEADER_MAX);
    if (!bytes) {
        return say_full("out of memory");
    }
    const size_t n = input_peek(path, bytes, HEADER_MAX);
    const int code =
        header_find(format, path, bytes, header_length(format, bytes, n), field);
    free(bytes);
    return code;
}

/* Returns whether a field looks like the name of a column. */
static bool header_is_name(bg_bytes field)
{
    const unsigned char *s = field.data;
    if (field.len < 1 || field.len > 64 || !(isalpha(s[0]) || s[0] == '_')) {
        return false;
    }
    for (size_t i = 1; i < field.len; i++) {
        if (!isalnum(s[i]) && !strchr("_- ", s[i])) {
            return false;
        }
    }
    return true;
}

static bool header_are_names(const struct key_format *format, bg_bytes record,
                             char *room)
{
    struct field_cursor cursor = field_begin(record);
    bg_bytes column;
    bool any = false;
    while (header_next(format, &cursor, room, &column)) {
        if (!header_is_name(column)) {
            return false;
        }
        any = true;
    }
    return any;
}

bool header_is_likely(const struct key_format *format, const char *bytes, size_t n)
{
    if (format->blanks || format->delimiter == ' ') {
        return false; /* the first line of a log may consist of words */
    }
    const size_t first = header_length(format, bytes, n);
    const size_t second =
        first < n ? header_length(format, bytes + first, n - first) : 0;
    char *room = second && first < HEADER_MAX && second < HEADER_MAX
                     ? malloc(first + second)
                     : NULL;
    const bool likely =
        room && header_are_names(format, header_text(format, bytes, first), room)
        && !header_are_names(format, header_text(format, bytes + first, second), room);
    free(room);
    return likely;
}

/* http/target.c - decodes paths and queries. */
#include "http/target.h"
#include "letters.h"

#include <string.h>

/* Decodes %HH and, if `plus` is set, + as a space. Writes the result to `to`. Returns the end of
 * the output, or NULL if the text is malformed. */
static char *http_target_decode(const char *text, size_t n, bool plus, char *to)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            if (n - i < 3 || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) {
                return NULL;
            }
            c = (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *to++ = c;
    }
    return to;
}

bool http_path(const struct http_request *r, char room[HTTP_LINE_BYTES],
               struct http_path *path)
{
    const char *text = r->head + r->path.at;
    const size_t n = r->path.len;
    size_t at = 1; /* skips the first slash, or "*" */
    path->count = 0;
    if (n == 1 && *text == '/') {
        return true;
    }
    if (*text != '/') {
        return false;
    }
    while (at <= n) {
        const char *slash = at < n ? memchr(text + at, '/', n - at) : NULL;
        const size_t end = slash ? (size_t)(slash - text) : n;
        char *to = http_target_decode(text + at, end - at, false, room);
        if (!to || path->count == HTTP_SEGMENTS) {
            return false;
        }
        path->segments[path->count++] = (bg_bytes){ room, (size_t)(to - room) };
        room = to;
        at = end + 1;
    }
    return true;
}

enum http_found http_query_next(const struct http_request *r, size_t *at,
                                char room[HTTP_LINE_BYTES], bg_bytes *name,
                                bg_bytes *value)
{
    const char *text = r->head + r->query.at;
    const size_t n = r->query.len;
    while (*at < n && text[*at] == '&') {
        ++*at;
    }
    if (*at >= n) {
        return HTTP_ABSENT;
    }
    const char *begin = text + *at;
    const char *mark = memchr(begin, '&', n - *at);
    const size_t length = mark ? (size_t)(mark - begin) : n - *at;
    const char *equals = memchr(begin, '=', length);
    const size_t name_length = equals ? (size_t)(equals - begin) : length;
    const size_t value_at = equals ? name_length + 1 : length;
    *at += length;
    char *name_end = http_target_decode(begin, name_length, true, room);
    char *value_end = name_end ? http_target_decode(begin + value_at, length - value_at,
                                                    true, name_end)
                               : NULL;
    if (!value_end) {
        return HTTP_MALFORMED;
    }
    *name = (bg_bytes){ room, (size_t)(name_end - room) };
    *value = (bg_bytes){ name_end, (size_t)(value_end - name_end) };
    return HTTP_FOUND;
}

enum http_found http_parameter(const struct http_request *r, const char *name,
                               char room[HTTP_LINE_BYTES], bg_bytes *value)
{
    const size_t length = strlen(name);
    size_t at = 0;
    for (;;) {
        bg_bytes this_name;
        const enum http_found found = http_query_next(r, &at, room, &this_name, value);
        if (found != HTTP_FOUND
            || (this_name.len == length && memcmp(this_name.data, name, length) == 0)) {
            return found;
        }
    }
}

/* http/fields.c - decodes paths and queries, and parses lists, Accept, Authorization and entity
 * tags. */
#include "http/fields.h"

#include "letters.h"
#include "util/base64.h"

#include <string.h>

/* ---- Target ------------------------------------------------------------------------------ */

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

bool http_query_malformed(const struct http_request *r, char room[HTTP_LINE_BYTES],
                          bg_bytes *name)
{
    const char *text = r->head + r->query.at;
    bg_bytes this_name, value;
    size_t at = 0, before = 0;
    enum http_found found;
    while ((found = http_query_next(r, &at, room, &this_name, &value)) == HTTP_FOUND) {
        before = at;
    }
    while (before < at && text[before] == '&') {
        before++;
    }
    size_t n = 0;
    while (before + n < at && text[before + n] != '=') {
        n++;
    }
    *name = (bg_bytes){ text + before, n };
    return found == HTTP_MALFORMED;
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

/* ---- Fields ------------------------------------------------------------------------------ */

static bool http_fields_equal(const char *a, size_t an, const char *b, size_t bn)
{
    if (an != bn) {
        return false;
    }
    for (size_t i = 0; i < an; i++) {
        if (letter_lower(a[i]) != letter_lower(b[i])) {
            return false;
        }
    }
    return true;
}

bool http_same(bg_bytes bytes, const char *text)
{
    return http_fields_equal(bytes.data, bytes.len, text, strlen(text));
}

bool http_field(const struct http_request *r, const char *name, bg_bytes *value)
{
    for (size_t i = 0; i < r->field_count; i++) {
        if (http_same(http_part(r, r->fields[i].name), name)) {
            *value = http_part(r, r->fields[i].value);
            return true;
        }
    }
    return false;
}

/* ---- Lists ------------------------------------------------------------------------------- */

static bool http_fields_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bg_bytes http_fields_trim(const char *text, size_t n)
{
    while (n && http_fields_blank(*text)) {
        text++;
        n--;
    }
    while (n && http_fields_blank(text[n - 1])) {
        n--;
    }
    return (bg_bytes){ text, n };
}

/* Returns the position of the next unquoted `separator`, or n. */
static size_t http_fields_find(const char *text, size_t n, char separator)
{
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text[i] == '\\') {
            i++;
        } else if (!quoted && text[i] == separator) {
            return i;
        }
    }
    return n;
}

bool http_list_next(const struct http_request *r, const char *name,
                    struct http_list *list, bg_bytes *item)
{
    for (; list->field < r->field_count; list->field++, list->at = 0) {
        const struct http_field *field = &r->fields[list->field];
        if (!http_same(http_part(r, field->name), name)) {
            continue;
        }
        while (list->at < field->value.len) {
            const char *text = r->head + field->value.at + list->at;
            const size_t n = field->value.len - list->at;
            const size_t end = http_fields_find(text, n, ',');
            list->at += end < n ? end + 1 : end;
            *item = http_fields_trim(text, end);
            if (item->len) {
                return true;
            }
        }
    }
    return false;
}

/* ---- Accept ------------------------------------------------------------------------------ */

/* Parses a quality value: 0 or 1, optionally with up to three decimals. */
static bool http_fields_quality(bg_bytes text, unsigned *quality)
{
    const char *c = text.data;
    if (text.len == 0 || text.len > 5 || (c[0] != '0' && c[0] != '1')
        || (text.len > 1 && c[1] != '.')) {
        return false;
    }
    unsigned q = c[0] == '1' ? 1000 : 0, unit = 100;
    for (size_t i = 2; i < text.len; i++, unit /= 10) {
        if (c[i] < '0' || c[i] > '9') {
            return false;
        }
        q += unit * (unsigned)(c[i] - '0');
    }
    *quality = q;
    return q <= 1000;
}

/* Parses the q parameter of a media range, in thousandths (default: 1000). Returns false if the
 * parameter is malformed. */
static bool http_fields_q(const char *text, size_t n, unsigned *quality)
{
    *quality = 1000;
    while (n) {
        const size_t end = http_fields_find(text, n, ';');
        const bg_bytes parameter = http_fields_trim(text, end);
        const char *c = parameter.data;
        if (parameter.len >= 2 && (c[0] == 'q' || c[0] == 'Q') && c[1] == '=') {
            return http_fields_quality((bg_bytes){ c + 2, parameter.len - 2 }, quality);
        }
        text += end < n ? end + 1 : end;
        n -= end < n ? end + 1 : end;
    }
    return true;
}

/* Returns how specifically a media range matches a type: 3 for the type itself, 2 for its family, 1
 * for all types, and 0 for no match. */
static int http_fields_fit(bg_bytes range, const char *type)
{
    const char *slash = strchr(type, '/');
    const char *text = range.data;
    const size_t family = slash ? (size_t)(slash - type) + 1 : 0;
    if (http_same(range, type)) {
        return 3;
    }
    if (family && range.len == family + 1 && text[family] == '*'
        && http_fields_equal(text, family, type, family)) {
        return 2;
    }
    return http_same(range, "*/*");
}

/*
 * Returns the quality that the client assigns to "type/subtype", in thousandths, or 0 if the type
 * is not acceptable. The most specific matching range applies; among equally specific ranges, the
 * one with the highest quality applies. Parameters other than q are ignored. Without an Accept
 * field, every type has the quality 1000. Malformed ranges are ignored.
 */
static unsigned http_fields_accepts(const struct http_request *r, const char *type)
{
    struct http_list list = { 0 };
    bg_bytes item;
    unsigned best = 0;
    int best_fit = 0;
    if (!http_field(r, "accept", &item)) {
        return 1000;
    }
    while (http_list_next(r, "accept", &list, &item)) {
        const char *text = item.data;
        const size_t end = http_fields_find(text, item.len, ';');
        const int fit = http_fields_fit(http_fields_trim(text, end), type);
        unsigned quality;
        if (fit < best_fit || fit == 0
            || !http_fields_q(text + end, item.len - end, &quality)) {
            continue;
        }
        best = fit > best_fit || quality > best ? quality : best;
        best_fit = fit;
    }
    return best;
}

int http_choose(const struct http_request *r, const char *const *types, size_t n)
{
    unsigned best = 0;
    int chosen = -1;
    for (size_t i = 0; i < n; i++) {
        const unsigned quality = http_fields_accepts(r, types[i]);
        if (quality > best) {
            best = quality;
            chosen = (int)i;
        }
    }
    return chosen;
}

/* ---- Authorization ----------------------------------------------------------------------- */

/* Decodes base64, which must be padded. */
static bool http_fields_base64(bg_bytes text, char *to, size_t *made)
{
    const char *c = text.data;
    bg_bytes digits = text;
    while (digits.len && text.len - digits.len < 2 && c[digits.len - 1] == '=') {
        digits.len--;
    }
    return text.len % 4 == 0 && base64_decode(digits, false, to, made);
}

static bool http_fields_basic(bg_bytes text, char *room, struct http_credentials *who)
{
    size_t n;
    if (!http_fields_base64(text, room, &n)) {
        return false;
    }
    const char *colon = memchr(room, ':', n);
    if (!colon) {
        return false;
    }
    const size_t user = (size_t)(colon - room);
    who->user = (bg_bytes){ room, user };
    who->password = (bg_bytes){ colon + 1, n - user - 1 };
    return true;
}

/* Returns whether the text consists of printable ASCII characters without spaces. The standard
 * limits tokens to letters, digits and -._~+/, optionally followed by =. Here, however, a token may
 * also be "NAME:PASSWORD", and passwords may contain other characters. */
static bool http_fields_is_word(bg_bytes text)
{
    const char *c = text.data;
    for (size_t i = 0; i < text.len; i++) {
        if (c[i] <= ' ' || c[i] > '~') {
            return false;
        }
    }
    return text.len > 0;
}

enum http_auth http_authorization(const struct http_request *r,
                                  char room[HTTP_HEAD_BYTES],
                                  struct http_credentials *credentials)
{
    bg_bytes value = { NULL, 0 };
    size_t there = 0;
    for (size_t i = 0; i < r->field_count; i++) {
        if (http_same(http_part(r, r->fields[i].name), "authorization")) {
            value = http_part(r, r->fields[i].value);
            there++;
        }
    }
    if (there != 1) {
        return there ? HTTP_AUTH_BAD : HTTP_AUTH_NONE;
    }
    const char *text = value.data;
    const char *blank = memchr(text, ' ', value.len);
    if (!blank) {
        return HTTP_AUTH_BAD;
    }
    const bg_bytes scheme = { text, (size_t)(blank - text) };
    const bg_bytes rest = http_fields_trim(blank, value.len - scheme.len);
    if (http_same(scheme, "basic") && http_fields_basic(rest, room, credentials)) {
        return HTTP_AUTH_BASIC;
    }
    if (http_same(scheme, "bearer") && http_fields_is_word(rest)) {
        credentials->token = rest;
        return HTTP_AUTH_BEARER;
    }
    return HTTP_AUTH_BAD;
}

/* ---- Entity tags ------------------------------------------------------------------------- */

/* Parses the next tag of a list, including its quotes. Tags may contain commas and have no
 * escapes. */
static bool http_fields_tag(const char *text, size_t n, size_t *at, bg_bytes *tag,
                            bool *weak)
{
    size_t i = *at;
    *weak = n - i >= 2 && text[i] == 'W' && text[i + 1] == '/';
    i += *weak ? 2 : 0;
    if (i == n || text[i] != '"') {
        return false;
    }
    const char *end = memchr(text + i + 1, '"', n - i - 1);
    if (!end) {
        return false;
    }
    *tag = (bg_bytes){ text + i, (size_t)(end - text) - i + 1 };
    *at = i + tag->len;
    return true;
}

static size_t http_fields_skip(const char *text, size_t n, size_t at)
{
    while (at < n && (http_fields_blank(text[at]) || text[at] == ',')) {
        at++;
    }
    return at;
}

static enum http_match http_fields_tags(bg_bytes list, const char *tag, bool weak_too)
{
    const char *text = list.data;
    size_t at = http_fields_skip(text, list.len, 0);
    enum http_match match = HTTP_MATCH_NO;
    if (at == list.len) {
        return HTTP_MATCH_BAD;
    }
    while (at < list.len) {
        bg_bytes one;
        bool weak;
        if (!http_fields_tag(text, list.len, &at, &one, &weak)) {
            return HTTP_MATCH_BAD;
        }
        if (tag && (weak_too || !weak) && one.len == strlen(tag)
            && memcmp(one.data, tag, one.len) == 0) {
            match = HTTP_MATCH_YES;
        }
        const size_t next = http_fields_skip(text, list.len, at);
        if (next < list.len && !memchr(text + at, ',', next - at)) {
            return HTTP_MATCH_BAD;
        }
        at = next;
    }
    return match;
}

static enum http_match http_fields_match(const struct http_request *r, const char *name,
                                         const char *tag, bool weak_too)
{
    enum http_match match = HTTP_MATCH_ABSENT;
    for (size_t i = 0; i < r->field_count; i++) {
        if (!http_same(http_part(r, r->fields[i].name), name)) {
            continue;
        }
        const bg_bytes value = http_part(r, r->fields[i].value);
        const enum http_match one = http_same(value, "*")
                                        ? (tag ? HTTP_MATCH_YES : HTTP_MATCH_NO)
                                        : http_fields_tags(value, tag, weak_too);
        if (one == HTTP_MATCH_BAD) {
            return one;
        }
        match = match == HTTP_MATCH_YES ? match : one;
    }
    return match;
}

enum http_match http_if_match(const struct http_request *r, const char *tag)
{
    return http_fields_match(r, "if-match", tag, false);
}

enum http_match http_if_none_match(const struct http_request *r, const char *tag)
{
    return http_fields_match(r, "if-none-match", tag, true);
}

/*
 * json_path.c - see json_path.h.
 *
 * The text is read once, without recursion or copying. The parser stores one bit per open container
 * (object or list), and in `on` the number of leading path steps that the current value matches:
 *
 *   (P1) A value at depth d matches the path so far if `on` == d. It is the value at the path if d is
 *        also the number of steps.
 *   (P2) Before each member or element of a container at depth d that matches, `on` becomes d + 1 if
 *        the name or position matches step d. After the member, `on` is d again.
 *   (P3) When a step matches, the value found so far is discarded, so the last of several members
 *        with the same name counts.
 *
 * Most bytes of JSON are in strings, which are skipped 16 bytes at a time.
 */
#include "json_path.h"

#include "json_read.h"
#include "letters.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Copies a name in quotes to `path`. In quotes, \" and \\ stand for a quote and a backslash. Returns
 * the position after the closing quote, or NULL if it is missing. */
static const char *path_quoted(const char *at, struct json_path *path, size_t *used)
{
    for (at++; *at && *at != '"'; at++) {
        at += *at == '\\' && (at[1] == '"' || at[1] == '\\');
        path->text[(*used)++] = *at;
    }
    return *at ? at + 1 : NULL;
}

static const char *path_bare(const char *at, struct json_path *path, size_t *used)
{
    const size_t n = strcspn(at, ".[\"]");
    memcpy(path->text + *used, at, n);
    *used += n;
    return n ? at + n : NULL;
}

static const char *path_index(const char *at, uint64_t *index)
{
    const char *from = at;
    for (*index = 0; *at >= '0' && *at <= '9' && *index < UINT32_MAX; at++) {
        *index = 10 * *index + (uint64_t)(*at - '0');
    }
    return at > from ? at : NULL;
}

/* Parses one step: .name, ."name", [0] or ["name"], each optionally after a dot. */
static const char *path_step(const char *at, struct json_path *path, size_t *used)
{
    const size_t i = path->count++, begin = *used;
    const bool dot = *at == '.';
    at += dot;
    const bool bracket = *at == '[';
    at += bracket;
    if (bracket && *at != '"') {
        path->steps[i].is_index = true;
        at = path_index(at, &path->steps[i].index);
    } else {
        at = !dot && !bracket ? NULL
             : *at == '"'     ? path_quoted(at, path, used)
                              : path_bare(at, path, used);
        path->steps[i].at = begin;
        path->steps[i].len = *used - begin;
    }
    return at && bracket ? (*at == ']' ? at + 1 : NULL) : at;
}

bool json_path_parse(const char *text, struct json_path *path)
{
    size_t used = 0;
    *path = (struct json_path){ .set = true };
    if (*text != '.' || strlen(text) >= JSON_PATH_TEXT) {
        return false;
    }
    const char *at = text[1] ? text : text + 1;
    while (at && *at) {
        at = path->count < JSON_PATH_STEPS ? path_step(at, path, &used) : NULL;
    }
    return at != NULL;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

struct json_scan {
    const struct json_path *path;
    const char *at, *end;
    size_t depth, on;
    uint64_t index[JSON_PATH_STEPS]; /* position in each list on the path */
    uint64_t
        objects[JSON_PATH_DEEP / 64]; /* bit d: the container at depth d is an object */
    struct json_value found;
};

static bool scan_fail(struct json_scan *s, const char *expected)
{
    s->found =
        (struct json_value){ .kind = JSON_INVALID, .at = s->at, .why = expected };
    return false;
}

static void scan_blanks(struct json_scan *s)
{
    while (s->at < s->end
           && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r' || *s->at == '\n')) {
        s->at++;
    }
}

static bool scan_is(const struct json_scan *s, char c)
{
    return s->at < s->end && *s->at == c;
}

/* Skips characters that need no attention in a string. Sets *high if any of them is not ASCII. */
static void scan_ordinary(struct json_scan *s, bool *high)
{
#ifdef __SSE2__
    while (s->end - s->at >= 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)s->at);
        const __m128i special =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                      _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
                         _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1F)), v));
        const unsigned stop = (unsigned)_mm_movemask_epi8(special);
        const unsigned before = stop ? (stop & -stop) - 1 : 0xFFFF;
        *high = *high || ((unsigned)_mm_movemask_epi8(v) & before);
        if (stop) {
            s->at += __builtin_ctz(stop);
            return;
        }
        s->at += 16;
    }
#endif
    while (s->at < s->end && *s->at != '"' && *s->at != '\\'
           && (unsigned char)*s->at >= 0x20) {
        *high = *high || (unsigned char)*s->at >= 0x80;
        s->at++;
    }
}

static bool scan_escape(struct json_scan *s)
{
    const size_t left = (size_t)(s->end - s->at);
    if (left >= 2 && s->at[1] && strchr("\"\\/bfnrt", s->at[1])) {
        s->at += 2;
        return true;
    }
    bool good = left >= 6 && s->at[1] == 'u';
    for (size_t i = 2; good && i < 6; i++) {
        good = hex_digit(s->at[i]) >= 0;
    }
    s->at += good ? 6 : 0;
    return good || scan_fail(s, "a valid escape sequence");
}

/* Skips a string. Sets *simple to true if it is ASCII and has no escape sequences. */
static bool scan_string(struct json_scan *s, bool *simple)
{
    bool high = false, escaped = false;
    s->at++;
    for (;;) {
        scan_ordinary(s, &high);
        if (s->at == s->end) {
            return scan_fail(s, "the closing quote of a string");
        }
        if (*s->at == '"') {
            break;
        }
        if (*s->at != '\\') {
            return scan_fail(s, "an escape sequence, not a control character");
        }
        escaped = true;
        if (!scan_escape(s)) {
            return false;
        }
    }
    s->at++;
    *simple = !high && !escaped;
    return true;
}

static size_t scan_digits(struct json_scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        s->at++;
    }
    return (size_t)(s->at - from);
}

static bool scan_number(struct json_scan *s)
{
    s->at += scan_is(s, '-');
    const bool zero = scan_is(s, '0');
    const size_t digits = scan_digits(s);
    bool good = digits > 0 && (!zero || digits == 1);
    if (good && scan_is(s, '.')) {
        s->at++;
        good = scan_digits(s) > 0;
    }
    if (good && (scan_is(s, 'e') || scan_is(s, 'E'))) {
        s->at++;
        s->at += scan_is(s, '+') || scan_is(s, '-');
        good = scan_digits(s) > 0;
    }
    return good || scan_fail(s, "a JSON value");
}

static bool scan_word(struct json_scan *s, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) {
        return scan_fail(s, "a JSON value");
    }
    s->at += n;
    return true;
}

/* ---- Structure ------------------------------------------------------------------------------- */

/* Returns whether a member name that contains escape sequences matches. An escaped name is at most
 * six times as long as the decoded name. */
static bool scan_same_escaped(const char *name, size_t n, const char *raw, size_t len)
{
    char copy[6 * JSON_PATH_TEXT + 2];
    struct json_reader reader;
    struct json_span decoded;
    if (len > sizeof copy) {
        return false;
    }
    memcpy(copy, raw, len);
    json_read_begin(&reader, copy, len);
    return json_read_string(&reader, &decoded) && decoded.len == n
           && memcmp(decoded.bytes, name, n) == 0;
}

/* Applies (P2) and (P3) to a member or element of the innermost container. */
static void scan_match(struct json_scan *s, bool matches)
{
    if (matches) {
        s->on = s->depth;
        s->found.kind = JSON_ABSENT;
    }
}

/* Returns whether the innermost container is on the path. */
static bool scan_is_on_path(const struct json_scan *s)
{
    return s->on == s->depth - 1 && s->on < s->path->count;
}

/* Reads the name of a member and the colon. */
static bool scan_name(struct json_scan *s)
{
    bool simple;
    scan_blanks(s);
    const char *from = s->at;
    if (!scan_is(s, '"')) {
        return scan_fail(s, "a member name");
    }
    if (!scan_string(s, &simple)) {
        return false;
    }
    const size_t len = (size_t)(s->at - from);
    if (scan_is_on_path(s) && !s->path->steps[s->on].is_index) {
        const char *name = s->path->text + s->path->steps[s->on].at;
        const size_t n = s->path->steps[s->on].len;
        const bool escaped = !simple && memchr(from, '\\', len);
        scan_match(s, escaped ? scan_same_escaped(name, n, from, len)
                              : len == n + 2 && memcmp(from + 1, name, n) == 0);
    }
    scan_blanks(s);
    if (!scan_is(s, ':')) {
        return scan_fail(s, "':'");
    }
    s->at++;
    return true;
}

static bool scan_is_object(const struct json_scan *s)
{
    return s->objects[(s->depth - 1) / 64] >> (s->depth - 1) % 64 & 1;
}

/* Prepares for the next member or element of the innermost container. */
static bool scan_next(struct json_scan *s, bool first)
{
    if (scan_is_object(s)) {
        return scan_name(s);
    }
    if (scan_is_on_path(s)) {
        uint64_t *index = &s->index[s->on];
        *index = first ? 0 : *index + 1;
        scan_match(s, s->path->steps[s->on].is_index
                          && s->path->steps[s->on].index == *index);
    }
    return true;
}

static bool scan_open(struct json_scan *s)
{
    const uint64_t bit = UINT64_C(1) << s->depth % 64;
    if (s->depth == JSON_PATH_DEEP) {
        return scan_fail(s, "at most 1,024 levels of nesting");
    }
    uint64_t *objects = &s->objects[s->depth / 64];
    *objects = *s->at == '{' ? *objects | bit : *objects & ~bit;
    s->depth++;
    s->at++;
    return true;
}

/* Reads a value that is not a container. */
static bool scan_scalar(struct json_scan *s, struct json_value *value)
{
    value->at = s->at;
    value->kind = JSON_PLAIN;
    bool good;
    switch (s->at < s->end ? *s->at : 0) {
    case '"':
        value->kind = JSON_STRING;
        good = scan_string(s, &value->simple);
        break;
    case 't': good = scan_word(s, "true"); break;
    case 'f': good = scan_word(s, "false"); break;
    case 'n':
        value->kind = JSON_ABSENT;
        good = scan_word(s, "null");
        break;
    default: good = scan_number(s); break;
    }
    value->len = (size_t)(s->at - value->at);
    return good;
}

/* Reads the start of a value: all of it, or the opening bracket of a container. Sets *opened to true
 * if a member or element follows, and to false if the value is complete. */
static bool scan_value(struct json_scan *s, bool *opened)
{
    scan_blanks(s);
    const bool wanted = s->on == s->depth && s->depth == s->path->count;
    struct json_value value = { .kind = JSON_CONTAINER, .at = s->at };
    *opened = scan_is(s, '{') || scan_is(s, '[');
    if (!(*opened ? scan_open(s) : scan_scalar(s, &value))) {
        return false;
    }
    if (wanted) {
        s->found = value;
    }
    if (!*opened) {
        return true;
    }
    scan_blanks(s);
    if (scan_is(s, scan_is_object(s) ? '}' : ']')) { /* the container is empty */
        s->at++;
        s->depth--;
        *opened = false;
        return true;
    }
    return scan_next(s, true);
}

/* Leaves the containers that end after the current value. Sets *more to true if another value
 * follows. Returns false after an error. */
static bool scan_after(struct json_scan *s, bool *more)
{
    for (;;) {
        s->on = s->on == s->depth && s->depth > 0 ? s->depth - 1 : s->on;
        scan_blanks(s);
        *more = s->depth > 0;
        if (s->depth == 0) {
            return s->at == s->end || scan_fail(s, "one JSON value per line");
        }
        if (scan_is(s, ',')) {
            s->at++;
            return scan_next(s, false);
        }
        if (!scan_is(s, scan_is_object(s) ? '}' : ']')) {
            return scan_fail(s, scan_is_object(s) ? "',' or '}'" : "',' or ']'");
        }
        s->at++;
        s->depth--;
    }
}

struct json_value json_path_find(const struct json_path *path, const char *text,
                                 size_t n)
{
    struct json_scan s = {
        .path = path, .at = text, .end = text + n, .found = { .at = text }
    };
    scan_blanks(&s);
    if (s.at == s.end) {
        s.found.kind = JSON_BLANK;
        return s.found;
    }
    for (bool more = true, opened; more;) {
        if (!scan_value(&s, &opened) || (!opened && !scan_after(&s, &more))) {
            break;
        }
    }
    return s.found;
}

/* json_read.c - see json_read.h. */
#include "json_read.h"

#include "letters.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void json_read_begin(struct json_reader *r, char *text, size_t n)
{
    *r = (struct json_reader){
        .text = text, .at = text, .end = text + n, .fresh = true
    };
}

static bool json_read_fail(struct json_reader *r, const char *expected)
{
    if (!r->error) {
        r->error = expected;
    }
    return false;
}

static void json_read_blanks(struct json_reader *r)
{
    while (r->at < r->end
           && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
}

char json_read_peek(struct json_reader *r)
{
    json_read_blanks(r);
    if (r->error || r->at == r->end) {
        return 0;
    }
    const char c = *r->at;
    if ((c >= '0' && c <= '9') || c == '-') {
        return '0';
    }
    return c;
}

/* ---- Structure ------------------------------------------------------------------------------- */

bool json_read_open(struct json_reader *r, char bracket)
{
    if (json_read_peek(r) != bracket) {
        return json_read_fail(r, bracket == '{' ? "an object" : "a list");
    }
    if (++r->depth > JSON_READ_DEEP) {
        return json_read_fail(r, "at most 64 levels");
    }
    r->at++;
    r->fresh = true;
    return true;
}

/* Returns whether the open object or list has another element. Consumes the comma before that
 * element, or the closing bracket. */
static bool json_read_more(struct json_reader *r, char closing)
{
    const char c = json_read_peek(r);
    if (r->error) {
        return false;
    }
    if (c == closing) {
        r->at++;
        r->depth--;
        r->fresh = false;
        return false;
    }
    if (!r->fresh) {
        if (c != ',') {
            return json_read_fail(r, closing == '}' ? "',' or '}'" : "',' or ']'");
        }
        r->at++;
        if (json_read_peek(r) == closing) {
            return json_read_fail(r, "a value after ','");
        }
    }
    r->fresh = false;
    return true;
}

bool json_read_element(struct json_reader *r)
{
    return json_read_more(r, ']');
}

bool json_read_member(struct json_reader *r, struct json_span *name)
{
    if (!json_read_more(r, '}')) {
        return false;
    }
    if (json_read_peek(r) != '"') {
        return json_read_fail(r, "a name in quotes");
    }
    if (!json_read_string(r, name)) {
        return false;
    }
    if (json_read_peek(r) != ':') {
        return json_read_fail(r, "':'");
    }
    r->at++;
    return true;
}

/* ---- Strings ---------------------------------------------------------------------------------- */

static int json_read_hex(const struct json_reader *r, const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = at + i < r->end ? hex_digit(at[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static char *json_read_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* Decodes \uXXXX, or two such sequences that form a surrogate pair. r->at points to the u. Returns
 * NULL if the sequence is invalid. */
static char *json_read_escape_u(struct json_reader *r, char *to)
{
    const int first = json_read_hex(r, r->at + 1);
    uint32_t c = (uint32_t)first;
    if (first < 0 || (c >= 0xDC00 && c < 0xE000)) {
        return NULL;
    }
    r->at += 5;
    if (c >= 0xD800 && c < 0xDC00) {
        const int second = r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u'
                               ? json_read_hex(r, r->at + 2)
                               : -1;
        if (second < 0xDC00 || second > 0xDFFF) {
            return NULL;
        }
        c = 0x10000 + ((c & 0x3FF) << 10) + ((uint32_t)second & 0x3FF);
        r->at += 6;
    }
    return json_read_utf8(to, c);
}

/* Decodes one escape sequence. The result is never longer than the sequence. Returns NULL if the
 * sequence is invalid. */
static char *json_read_escape(struct json_reader *r, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    r->at++;
    if (r->at == r->end) {
        return NULL;
    }
    if (*r->at == 'u') {
        return json_read_escape_u(r, to);
    }
    const char *found = *r->at ? strchr(from, *r->at) : NULL;
    if (!found) {
        return NULL;
    }
    r->at++;
    *to = into[found - from];
    return to + 1;
}

bool json_read_string(struct json_reader *r, struct json_span *string)
{
    if (json_read_peek(r) != '"') {
        return json_read_fail(r, "a string");
    }
    char *begin = ++r->at, *to = begin;
    while (r->at < r->end && *r->at != '"') {
        const unsigned char c = (unsigned char)*r->at;
        if (c == '\\') {
            to = json_read_escape(r, to);
            if (!to) {
                return json_read_fail(r, "a valid escape");
            }
        } else if (c < 0x20) {
            return json_read_fail(r, "an escape sequence, not a control character");
        } else if (c < 0x80) {
            *to++ = *r->at++;
        } else {
            uint32_t code = 0;
            const size_t n = text_character(r->at, (size_t)(r->end - r->at), &code);
            if (n == 0) {
                return json_read_fail(r, "UTF-8");
            }
            memmove(to, r->at, n);
            to += n;
            r->at += n;
        }
    }
    if (r->at == r->end) {
        return json_read_fail(r, "the closing quote of a string");
    }
    r->at++;
    *string = (struct json_span){ begin, (size_t)(to - begin) };
    return true;
}

/* ---- Other values ------------------------------------------------------------------------------- */

/* Returns the length of a number in JSON syntax; 0 if there is no number. */
static size_t json_read_number(const struct json_reader *r)
{
    const char *at = r->at;
    at += at < r->end && *at == '-';
    const char *digits = at;
    while (at < r->end && *at >= '0' && *at <= '9') {
        at++;
    }
    if (at == digits || (*digits == '0' && at - digits > 1)) {
        return 0;
    }
    if (at < r->end && *at == '.') {
        const char *fraction = ++at;
        while (at < r->end && *at >= '0' && *at <= '9') {
            at++;
        }
        if (at == fraction) {
            return 0;
        }
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < r->end && (*at == '+' || *at == '-');
        const char *exponent = at;
        while (at < r->end && *at >= '0' && *at <= '9') {
            at++;
        }
        if (at == exponent) {
            return 0;
        }
    }
    return (size_t)(at - r->at);
}

bool json_read_real(struct json_reader *r, double *value)
{
    char text[64];
    const size_t n = json_read_peek(r) == '0' ? json_read_number(r) : 0;
    if (n == 0 || n >= sizeof text) {
        return json_read_fail(r, "a number");
    }
    memcpy(text, r->at, n);
    text[n] = 0;
    const double number = strtod(text, NULL);
    if (!isfinite(number)) {
        return json_read_fail(r, "a smaller number");
    }
    r->at += n;
    *value = number;
    return true;
}

bool json_read_count(struct json_reader *r, uint64_t *value)
{
    double real = 0;
    char *before = r->at;
    if (!json_read_real(r, &real)) {
        return json_read_fail(r, "a non-negative integer");
    }
    if (real < 0 || real > 18446744073709549568.0 || real != floor(real)) {
        r->at = before;
        return json_read_fail(r, "a non-negative integer");
    }
    *value = (uint64_t)real;
    return true;
}

static bool json_read_word(struct json_reader *r, const char *word)
{
    const size_t n = strlen(word);
    json_read_blanks(r);
    if (r->error || (size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

bool json_read_bool(struct json_reader *r, bool *value)
{
    if (json_read_word(r, "true")) {
        *value = true;
        return true;
    }
    *value = false;
    return json_read_word(r, "false") || json_read_fail(r, "true or false");
}

bool json_read_null(struct json_reader *r)
{
    return json_read_word(r, "null");
}

bool json_read_skip(struct json_reader *r)
{
    struct json_span ignored;
    double real = 0;
    bool boolean = false;
    switch (json_read_peek(r)) {
    case '{':
        if (json_read_open(r, '{')) {
            while (json_read_member(r, &ignored) && json_read_skip(r)) {
            }
        }
        return !r->error;
    case '[':
        if (json_read_open(r, '[')) {
            while (json_read_element(r) && json_read_skip(r)) {
            }
        }
        return !r->error;
    case '"': return json_read_string(r, &ignored);
    case '0': return json_read_real(r, &real);
    case 'n': return json_read_null(r) || json_read_fail(r, "a value");
    case 't':
    case 'f': return json_read_bool(r, &boolean);
    default: return json_read_fail(r, "a value");
    }
}

bool json_read_end(struct json_reader *r)
{
    json_read_blanks(r);
    if (!r->error && (r->at < r->end || r->depth != 0)) {
        return json_read_fail(r, r->at < r->end ? "nothing after the value"
                                                : "a closing } or ]");
    }
    return !r->error;
}

bool json_read_is(const struct json_span *span, const char *text)
{
    return span->len == strlen(text) && memcmp(span->bytes, text, span->len) == 0;
}

/*
 * resp/resp_reply.c - the reply encoder.
 *
 * Each function calls buffer_space once, so a reply is written completely or not at all. The most
 * frequent replies, 0 and 1, are four-byte constants.
 */
#include "resp/resp_reply.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPLY_HEAD = 24 }; /* space for a type, a sign, up to 20 digits and CRLF */

/* Writes CRLF and returns a pointer to the byte after it. */
static char *resp_reply_end(char *to)
{
    to[0] = '\r';
    to[1] = '\n';
    return to + 2;
}

/* Writes a line such as "*12\r\n" and returns a pointer to the byte after the line. */
static char *resp_reply_head(char *to, char type, uint64_t n)
{
    *to++ = type;
    return resp_reply_end(to + buffer_digits(to, n));
}

static void resp_reply_count(struct buffer *out, char type, uint64_t n)
{
    char *to = buffer_space(out, REPLY_HEAD);
    if (to) {
        buffer_wrote(out, (size_t)(resp_reply_head(to, type, n) - to));
    }
}

static void resp_reply_line(struct buffer *out, char type, const char *text)
{
    const size_t n = strlen(text);
    char *to = buffer_space(out, n + 3);
    if (!to) {
        return;
    }
    to[0] = type;
    for (size_t i = 0; i < n; i++) {
        to[i + 1] = buffer_line_byte(text[i]);
    }
    (void)resp_reply_end(to + 1 + n);
    buffer_wrote(out, n + 3);
}

static void resp_reply_status(void *to, const char *text)
{
    if (text[0] == 'O' && text[1] == 'K' && !text[2]) {
        buffer_put(to, "+OK\r\n", 5);
        return;
    }
    resp_reply_line(to, '+', text);
}

static void resp_reply_error(void *to, const char *text)
{
    resp_reply_line(to, '-', text);
}

static void resp_reply_integer(void *to, int64_t value)
{
    if (value == 0) {
        buffer_put(to, ":0\r\n", 4);
    } else if (value == 1) {
        buffer_put(to, ":1\r\n", 4);
    } else if (value > 0) {
        resp_reply_count(to, ':', (uint64_t)value);
    } else {
        struct buffer *out = to;
        char *at = buffer_space(out, REPLY_HEAD);
        if (at) {
            /* The type ':' is written here, so the minus sign is passed as the type. */
            *at = ':';
            char *end = resp_reply_head(at + 1, '-', 0 - (uint64_t)value);
            buffer_wrote(out, (size_t)(end - at));
        }
    }
}

static void resp_reply_boolean2(void *to, bool value)
{
    buffer_put(to, value ? ":1\r\n" : ":0\r\n", 4);
}

static void resp_reply_boolean3(void *to, bool value)
{
    buffer_put(to, value ? "#t\r\n" : "#f\r\n", 4);
}

/* Writes a string of the given type: the length, then `kind`, then the bytes. */
static inline void resp_reply_string(struct buffer *out, char type, const char *kind,
                                     size_t kind_len, const void *bytes, size_t n)
{
    if (n > SIZE_MAX - REPLY_HEAD - kind_len - 2) {
        out->overflow = true;
        return;
    }
    char *begin = buffer_space(out, REPLY_HEAD + kind_len + n + 2);
    if (!begin) {
        return;
    }
    char *at = resp_reply_head(begin, type, kind_len + n);
    memcpy(at, kind, kind_len);
    at += kind_len;
    if (n) {
        memcpy(at, bytes, n);
    }
    buffer_wrote(out, (size_t)(resp_reply_end(at + n) - begin));
}

static void resp_reply_bulk(void *to, const void *bytes, size_t n)
{
    resp_reply_string(to, '$', "", 0, bytes, n);
}

/*
 * Prints the shortest decimal number that parses to the same double. If the double was parsed from
 * a decimal with up to 15 digits, printing 15 digits yields that decimal, because a double
 * preserves 15 digits and %g omits trailing zeros. Other values need 16 or 17 digits. Denormals
 * have lower precision, so every number of digits is tried for them.
 */
size_t resp_reply_real_text(double value, char text[RESP_REAL_TEXT])
{
    if (isnan(value) || isinf(value)) {
        const char *word = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        const size_t n = strlen(word);
        memcpy(text, word, n + 1);
        return n;
    }
    int digits = fabs(value) < DBL_MIN && value != 0 ? 1 : 15;
    int n;
    do {
        n = snprintf(text, RESP_REAL_TEXT, "%.*g", digits, value);
    } while (strtod(text, NULL) != value && ++digits <= 17);
    return (size_t)n;
}

static void resp_reply_real2(void *to, double value)
{
    char text[RESP_REAL_TEXT];
    const size_t n = resp_reply_real_text(value, text);
    resp_reply_bulk(to, text, n);
}

static void resp_reply_real3(void *to, double value)
{
    char text[RESP_REAL_TEXT];
    (void)resp_reply_real_text(value, text);
    resp_reply_line(to, ',', text);
}

static void resp_reply_null2(void *to)
{
    buffer_put(to, "$-1\r\n", 5);
}

static void resp_reply_null3(void *to)
{
    buffer_put(to, "_\r\n", 3);
}

static void resp_reply_array(void *to, size_t n)
{
    resp_reply_count(to, '*', n);
}

static void resp_reply_map2(void *to, size_t n)
{
    resp_reply_count(to, '*', (uint64_t)n * 2);
}

static void resp_reply_map3(void *to, size_t n)
{
    resp_reply_count(to, '%', n);
}

static void resp_reply_set3(void *to, size_t n)
{
    resp_reply_count(to, '~', n);
}

const struct reply_ops resp2_reply_ops = {
    .status = resp_reply_status,
    .error = resp_reply_error,
    .integer = resp_reply_integer,
    .boolean = resp_reply_boolean2,
    .real = resp_reply_real2,
    .bulk = resp_reply_bulk,
    .null = resp_reply_null2,
    .array = resp_reply_array,
    .map = resp_reply_map2,
    .set = resp_reply_array,
};

const struct reply_ops resp3_reply_ops = {
    .status = resp_reply_status,
    .error = resp_reply_error,
    .integer = resp_reply_integer,
    .boolean = resp_reply_boolean3,
    .real = resp_reply_real3,
    .bulk = resp_reply_bulk,
    .null = resp_reply_null3,
    .array = resp_reply_array,
    .map = resp_reply_map3,
    .set = resp_reply_set3,
};

void resp_reply_verbatim(const struct reply *r, const void *bytes, size_t n)
{
    if (r->ops == &resp3_reply_ops) {
        resp_reply_string(r->to, '=', "txt:", 4, bytes, n);
    } else {
        reply_bulk(r, bytes, n);
    }
}

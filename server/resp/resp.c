/*
 * resp.c - the protocol RESP: the request parser and the reply encoder.
 *
 * Between calls, the parser is in one of three states. FRESH: the parser is at the start of a
 * request, and its first line may be partially scanned. ARGUMENTS: `left` strings have not been
 * read yet, and the "$n" line of the next string starts at `at`. BULK: the "$n" line has been read,
 * and `bulk` bytes followed by CRLF start at `at`. Each call continues where the last call stopped.
 * Only an incomplete line is visited again; `scanned` is the number of bytes in that line that have
 * already been searched.
 *
 * A complete length of up to nine digits, the common case, is read in one step (resp_digits).
 * All other lines are parsed by resp_line_number, which handles partial, negative, malformed and
 * overlong lengths.
 *
 * Each function of the encoder calls buffer_space once, so a reply is written completely or not at
 * all. The most frequent replies, 0 and 1, are four-byte constants.
 */
#include "resp/resp.h"

#include "ledger.h"
#include "letters.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESP_MIN = 6 }; /* size of the shortest argument, "$0\r\n\r\n" */

void resp_parser_init(struct resp_parser *p, const struct resp_limits *limits)
{
    memset(p, 0, sizeof *p);
    p->limits = limits;
    p->argv = p->few;
    p->room = RESP_FEW;
}

void resp_parser_free(struct resp_parser *p)
{
    if (p->argv != p->few) {
        ledger_release(LEDGER_BUFFERS, p->room * sizeof *p->argv);
        free(p->argv);
    }
    p->argv = p->few;
    p->room = RESP_FEW;
    p->argc = 0;
}

static enum resp_result resp_fail(struct resp_parser *p, const char *text)
{
    (void)snprintf(p->error, sizeof p->error, "%s", text);
    p->state = RESP_FAILED;
    p->argc = 0;
    return RESP_ERROR;
}

static enum resp_result resp_fail_memory(struct resp_parser *p)
{
    p->refused = true;
    return resp_fail(p, "out of memory");
}

static enum resp_result resp_fail_length(struct resp_parser *p, bool count)
{
    return resp_fail(p, count ? "Protocol error: invalid multibulk length"
                              : "Protocol error: invalid bulk length");
}

static enum resp_result resp_fail_dollar(struct resp_parser *p, unsigned char found)
{
    if (found >= ' ' && found < 0x7f) {
        (void)snprintf(p->error, sizeof p->error,
                       "Protocol error: expected '$', got '%c'", found);
    } else {
        (void)snprintf(p->error, sizeof p->error,
                       "Protocol error: expected '$', got '\\x%02x'", found);
    }
    p->state = RESP_FAILED;
    p->argc = 0;
    return RESP_ERROR;
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* Enlarges the argument array. For the memory limit, an array of up to RESP_KEEP arguments counts
 * as a small buffer. */
static bool resp_widen(struct resp_parser *p)
{
    const size_t room = p->room > RESP_FEW ? p->room * 2 : (size_t)RESP_FEW * 8;
    const size_t more = (room - (p->argv == p->few ? 0 : p->room)) * sizeof(bg_bytes);
    if (!(room <= RESP_KEEP ? ledger_reserve_small(more)
                            : ledger_reserve(LEDGER_BUFFERS, more))) {
        return false;
    }
    bg_bytes *argv = realloc(p->argv == p->few ? NULL : p->argv, room * sizeof *argv);
    if (!argv) {
        ledger_release(LEDGER_BUFFERS, more);
        return false;
    }
    if (p->argv == p->few) {
        memcpy(argv, p->few, sizeof p->few);
    }
    p->argv = argv;
    p->room = room;
    return true;
}

/* Appends an argument, which is stored as an offset until the request is complete. */
static inline bool resp_append(struct resp_parser *p, size_t at, size_t len)
{
    if (p->argc == p->room && !resp_widen(p)) {
        return false;
    }
    p->argv[p->argc++] = (bg_bytes){ (const void *)(uintptr_t)at, len };
    return true;
}

/* Completes the request, which ends at offset `at`. */
static inline enum resp_result resp_finish(struct resp_parser *p, const char *bytes,
                                           size_t at)
{
    for (size_t i = 0; i < p->argc; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all are set */
        p->argv[i].data = bytes + (uintptr_t)p->argv[i].data;
    }
    p->consumed += at;
    p->state = RESP_FRESH;
    p->at = p->scanned = 0;
    return RESP_OK;
}

static enum resp_result resp_partial(struct resp_parser *p, size_t n, size_t least_end)
{
    p->need = least_end > n ? least_end - n : 1;
    return RESP_PARTIAL;
}

/* ---- Lengths ----------------------------------------------------------------------------- */

/* Handles the common case of "*3\r\n" or "$9\r\n" at bytes[at]. Returns the offset of the next
 * line, or 0 if the line has a different form or is incomplete. */
static inline size_t resp_digits(const char *bytes, size_t at, size_t n, size_t *value)
{
    size_t i = at + 1;
    size_t v = 0;
    const size_t end = n - at > 10 ? at + 10 : n;
    while (i < end && (unsigned char)(bytes[i] - '0') <= 9) {
        v = v * 10 + (unsigned char)(bytes[i] - '0');
        i++;
    }
    if (n - i < 2 || bytes[i] != '\r' || bytes[i + 1] != '\n' || i == at + 1
        || (bytes[at + 1] == '0' && i > at + 2)) {
        return 0;
    }
    *value = v;
    return i + 2;
}

/* Parses a number as Redis does: plus signs, leading zeros and blanks are rejected. */
static bool resp_integer(const char *text, size_t n, int64_t *value)
{
    const bool negative = n && *text == '-';
    int64_t v = 0;
    text += negative;
    n -= negative;
    if (n == 0 || n > 18 || (*text == '0' && (n > 1 || negative))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        v = v * 10 + (text[i] - '0');
    }
    *value = negative ? -v : v;
    return true;
}

/* Parses any line with a number at p->at. Sets *value and *next if it returns RESP_OK. */
static enum resp_result resp_line_number(struct resp_parser *p, const char *bytes,
                                         size_t n, int64_t *value, size_t *next)
{
    const char *line = bytes + p->at;
    const bool count = p->state == RESP_FRESH;
    const size_t there = n - p->at, most = p->limits->line;
    const size_t search = there > most ? most + 1 : there;
    const char *cr = search > p->scanned
                         ? memchr(line + p->scanned, '\r', search - p->scanned)
                         : NULL;
    if (!cr) {
        p->scanned = search;
        if (there > most) {
            return resp_fail(p, count ? "Protocol error: too big mbulk count string"
                                      : "Protocol error: too big bulk count string");
        }
        return RESP_PARTIAL;
    }
    const size_t length = (size_t)(cr - line);
    p->scanned = length;
    if (there - length < 2) {
        return RESP_PARTIAL;
    }
    if (cr[1] != '\n' || !resp_integer(line + 1, length - 1, value)) {
        return resp_fail_length(p, count);
    }
    *next = p->at + length + 2;
    p->scanned = 0;
    return RESP_OK;
}

/* ---- Inline commands --------------------------------------------------------------------- */

static bool resp_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char resp_escape(char c)
{
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
    }
}

/* Unquotes the quoted text that starts at line[*at], writing it to line[*to]. Sets *at to the
 * offset after the closing quote. Returns false if there is no closing quote, or if the closing
 * quote is followed by anything but a blank or the end of the line. */
static bool resp_unquote(char *line, size_t n, char quote, size_t *at, size_t *to)
{
    size_t i = *at, j = *to;
    while (i < n && line[i] != quote) {
        char c = line[i++];
        if (c == '\\' && quote == '\'' && i < n && line[i] == '\'') {
            c = line[i++];
        } else if (c == '\\' && quote == '"' && i < n) {
            if (n - i > 2 && line[i] == 'x' && hex_digit(line[i + 1]) >= 0
                && hex_digit(line[i + 2]) >= 0) {
                c = (char)(hex_digit(line[i + 1]) * 16 + hex_digit(line[i + 2]));
                i += 3;
            } else {
                c = resp_escape(line[i++]);
            }
        }
        line[j++] = c;
    }
    *at = i + 1;
    *to = j;
    return i < n && (i + 1 == n || resp_is_blank(line[i + 1]));
}

/* Unquotes one word of a line in place. Sets *at to the offset after the word. */
static bool resp_word(char *line, size_t n, size_t *at, size_t *length)
{
    size_t i = *at, j = *at;
    while (i < n && line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
        const char c = line[i++];
        if (c == '"' || c == '\'') {
            const bool good = resp_unquote(line, n, c, &i, &j);
            *length = j - *at;
            *at = i;
            return good;
        }
        line[j++] = c;
    }
    *length = j - *at;
    *at = i;
    return true;
}

static enum resp_result resp_words(struct resp_parser *p, char *line, size_t n)
{
    size_t i = 0, length = 0;
    for (;;) {
        while (i < n && resp_is_blank(line[i])) {
            i++;
        }
        if (i == n) {
            return RESP_OK;
        }
        const size_t begin = i;
        if (!resp_word(line, n, &i, &length)) {
            return resp_fail(p, "Protocol error: unbalanced quotes in request");
        }
        if (p->argc == p->limits->arguments) {
            return resp_fail(p, p->limits->strangers
                                    ? "Protocol error: unauthenticated multibulk length"
                                    : "Protocol error: invalid multibulk length");
        }
        if (!resp_append(p, begin, length)) {
            return resp_fail_memory(p);
        }
    }
}

/* Parses the inline command at the start of `bytes` and sets *next to the offset after the line.
 * RESP_OK with argc 0 means an empty line. */
static enum resp_result resp_inline(struct resp_parser *p, char *bytes, size_t n,
                                    size_t *next)
{
    const size_t most = p->limits->line, search = n > most ? most + 1 : n;
    const char *lf = search > p->scanned
                         ? memchr(bytes + p->scanned, '\n', search - p->scanned)
                         : NULL;
    if (!lf) {
        p->scanned = search;
        return n > most ? resp_fail(p, "Protocol error: too big inline request")
                        : resp_partial(p, n, 0);
    }
    const size_t length = (size_t)(lf - bytes);
    p->scanned = 0;
    *next = length + 1;
    return resp_words(p, bytes,
                      length && bytes[length - 1] == '\r' ? length - 1 : length);
}

/* ---- Arrays ------------------------------------------------------------------------------ */

/* Parses the line "*n" at the start of `bytes`. Sets *next to the offset after the line and p->left
 * to n. */
static enum resp_result resp_count(struct resp_parser *p, const char *bytes, size_t n,
                                   size_t *next)
{
    size_t count = 0;
    *next = resp_digits(bytes, 0, n, &count);
    if (!*next) {
        int64_t value = 0;
        const enum resp_result result = resp_line_number(p, bytes, n, &value, next);
        if (result != RESP_OK) {
            return result == RESP_PARTIAL ? resp_partial(p, n, 0) : result;
        }
        count = value < 0 ? 0 : (uint64_t)value > SIZE_MAX ? SIZE_MAX : (size_t)value;
    }
    p->scanned = 0;
    if (count > p->limits->arguments) {
        return p->limits->strangers
                   ? resp_fail(p, "Protocol error: unauthenticated multibulk length")
                   : resp_fail_length(p, true);
    }
    p->left = count;
    return RESP_OK;
}

/* Parses the line "$n" at p->at. Moves p->at past the line and sets p->bulk to n. */
static inline enum resp_result resp_length(struct resp_parser *p, const char *bytes,
                                           size_t n)
{
    if (p->at == n) {
        return resp_partial(p, n, p->at + RESP_MIN * p->left);
    }
    if (bytes[p->at] != '$') {
        return resp_fail_dollar(p, (unsigned char)bytes[p->at]);
    }
    size_t length = 0;
    size_t next = resp_digits(bytes, p->at, n, &length);
    if (!next) {
        int64_t value = 0;
        const enum resp_result result = resp_line_number(p, bytes, n, &value, &next);
        if (result != RESP_OK) {
            return result == RESP_PARTIAL
                       ? resp_partial(p, n, p->at + RESP_MIN * p->left)
                       : result;
        }
        if (value < 0) {
            return resp_fail_length(p, false);
        }
        length = (uint64_t)value > SIZE_MAX ? SIZE_MAX : (size_t)value;
    }
    p->scanned = 0;
    if (length > p->limits->bulk) {
        return p->limits->strangers
                   ? resp_fail(p, "Protocol error: unauthenticated bulk length")
                   : resp_fail_length(p, false);
    }
    if (next > p->limits->request || length > p->limits->request - next) {
        return resp_fail(p, "Protocol error: too big request");
    }
    p->at = next;
    p->bulk = length;
    p->state = RESP_BULK;
    return RESP_OK;
}

static enum resp_result resp_arguments(struct resp_parser *p, const char *bytes,
                                       size_t n)
{
    while (p->left) {
        if (p->state == RESP_ARGUMENTS) {
            const enum resp_result result = resp_length(p, bytes, n);
            if (result != RESP_OK) {
                return result;
            }
        }
        const size_t at = p->at, there = n - at, bulk = p->bulk;
        if (there < bulk + 2) {
            return resp_partial(p, n, at + bulk + 2 + RESP_MIN * (p->left - 1));
        }
        if (bytes[at + bulk] != '\r' || bytes[at + bulk + 1] != '\n') {
            return resp_fail(p, "Protocol error: expected CRLF after a bulk");
        }
        if (!resp_append(p, at, bulk)) {
            return resp_fail_memory(p);
        }
        p->at = at + bulk + 2;
        p->left--;
        p->state = RESP_ARGUMENTS;
    }
    return resp_finish(p, bytes, p->at);
}

enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n)
{
    p->consumed = 0;
    if (p->state == RESP_ARGUMENTS || p->state == RESP_BULK) {
        return resp_arguments(p, bytes, n);
    }
    if (p->state == RESP_FAILED) {
        return RESP_ERROR;
    }
    p->argc = 0;
    if (p->room > RESP_KEEP) {
        resp_parser_free(p);
    }
    while (n) {
        size_t next = 0;
        const bool array = *bytes == '*';
        const enum resp_result result =
            array ? resp_count(p, bytes, n, &next) : resp_inline(p, bytes, n, &next);
        if (result != RESP_OK) {
            return result;
        }
        if (array && p->left) {
            p->at = next;
            p->state = RESP_ARGUMENTS;
            return resp_arguments(p, bytes, n);
        }
        if (!array && p->argc) {
            return resp_finish(p, bytes, next);
        }
        p->consumed += next; /* empty: skip it */
        bytes += next;
        n -= next;
    }
    return resp_partial(p, 0, 0);
}

/* ---- Replies -------------------------------------------------------------------------------- */

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

/* Writes n booleans; each of the texts has four bytes. */
static inline void resp_reply_bits(struct buffer *out, const uint64_t *bits, size_t n,
                                   const char *no, const char *yes)
{
    enum { BYTES = 4 };
    char *to = n ? buffer_space(out, n * BYTES) : NULL;
    if (to) {
        for (size_t i = 0; i < n; i++) {
            memcpy(to + i * BYTES, bits[i / 64] >> i % 64 & 1 ? yes : no, BYTES);
        }
        buffer_wrote(out, n * BYTES);
    }
}

static void resp_reply_booleans2(void *to, const uint64_t *bits, size_t n)
{
    resp_reply_bits(to, bits, n, ":0\r\n", ":1\r\n");
}

static void resp_reply_booleans3(void *to, const uint64_t *bits, size_t n)
{
    resp_reply_bits(to, bits, n, "#f\r\n", "#t\r\n");
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
    .booleans = resp_reply_booleans2,
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
    .booleans = resp_reply_booleans3,
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

struct reply resp_reply_to(struct buffer *out, int protocol)
{
    return (struct reply){ protocol == 3 ? &resp3_reply_ops : &resp2_reply_ops, out,
                           protocol };
}

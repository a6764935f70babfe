/*
 * http.c - parses the head of a request, line by line.
 *
 * Each line is first scanned for its end and for bytes that are not text (http_line). In an
 * incomplete line, `scanned` is the number of bytes scanned so far. A complete line is then parsed
 * once. After the last field, http_settle determines what the fields mean for the body and the
 * connection.
 */
#include "http/http.h"
#include "http/fields.h"

#include <string.h>

void http_request_reset(struct http_request *r)
{
    const size_t fields_at = offsetof(struct http_request, fields);
    const size_t after = offsetof(struct http_request, field_count);
    memset(r, 0, fields_at);
    memset((char *)r + after, 0, sizeof *r - after);
}

static enum http_result http_fail(struct http_request *r, int status,
                                  const char *reason)
{
    r->status = status;
    r->reason = reason;
    r->state = HTTP_FAILED;
    return HTTP_ERROR;
}

/* Returns whether a byte may be part of a method or field name. */
static bool http_is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
           || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static struct http_span http_span_of(size_t at, size_t len)
{
    return (struct http_span){ (uint16_t)at, (uint16_t)len };
}

bool http_method_is(const struct http_request *r, const char *method)
{
    return r->method.len == strlen(method)
           && memcmp(r->head + r->method.at, method, r->method.len) == 0;
}

/* ---- Lines ------------------------------------------------------------------------------- */

static enum http_result http_too_long(struct http_request *r)
{
    return r->state == HTTP_FIRST_LINE
               ? http_fail(r, 414, "the request line exceeds 8192 bytes")
               : http_fail(r, 431, "the request head exceeds 16384 bytes");
}

/* Finds the end of the line at r->at; *length excludes the CRLF. */
static enum http_result http_line(struct http_request *r, const char *bytes, size_t n,
                                  size_t *length)
{
    const char *line = bytes + r->at;
    const size_t there = n - r->at;
    const size_t most =
        r->state == HTTP_FIRST_LINE ? HTTP_LINE_BYTES : HTTP_HEAD_BYTES - r->at;
    size_t i = r->scanned;
    while (i < there && i < most && http_is_text(line[i])) {
        i++;
    }
    r->scanned = i;
    if (i >= most) {
        return http_too_long(r);
    }
    if (i == there) {
        return HTTP_PARTIAL;
    }
    if (line[i] != '\r') {
        return http_fail(r, 400,
                         line[i] == '\n'
                             ? "a line ends with LF alone; expected CRLF"
                             : "the request head contains a control character");
    }
    if (i + 1 == there) {
        return HTTP_PARTIAL;
    }
    if (line[i + 1] != '\n') {
        return http_fail(r, 400, "the request head contains a CR without LF");
    }
    if (i + 2 > most) {
        return http_too_long(r);
    }
    *length = i;
    r->scanned = 0;
    return HTTP_OK;
}

/* ---- The first line ---------------------------------------------------------------------- */

/* Returns the offset of the path in "http://host:port/path". If there is no path, the second slash
 * of "//" serves as the path "/". Returns 0 if the target does not have this form. */
static size_t http_skip_authority(const char *target, size_t n, bool *bare)
{
    const bg_bytes plain = { target, n < 7 ? n : 7 },
                   secure = { target, n < 8 ? n : 8 };
    const size_t scheme = http_same(plain, "http://")     ? 7
                          : http_same(secure, "https://") ? 8
                                                          : 0;
    size_t i = scheme;
    while (i < n && target[i] != '/' && target[i] != '?') {
        i++;
    }
    *bare = i == n || target[i] == '?';
    return scheme == 0 || i == scheme ? 0 : i;
}

static bool http_target_parts(struct http_request *r, const char *bytes)
{
    const size_t at = r->target.at, n = r->target.len;
    const char *target = bytes + at;
    size_t begin = 0;
    bool bare = false;
    if (n == 1 && *target == '*') {
        r->path = r->target;
        return http_method_is(r, "OPTIONS");
    }
    if (*target != '/') {
        begin = http_skip_authority(target, n, &bare);
        if (!begin) {
            return false;
        }
    }
    const char *mark = memchr(target + begin, '?', n - begin);
    const size_t end = mark ? (size_t)(mark - target) : n;
    r->path = http_span_of(at + begin, end - begin);
    if (bare) {
        const char *slash = memchr(target, '/', n);
        r->path = http_span_of(at + (size_t)(slash - target), 1);
    }
    r->has_query = mark != NULL;
    if (mark) {
        r->query = http_span_of(at + end + 1, n - end - 1);
    }
    return true;
}

static enum http_result http_version(struct http_request *r, const char *text, size_t n)
{
    if (n != 8 || memcmp(text, "HTTP/", 5) != 0 || text[5] < '0' || text[5] > '9'
        || text[6] != '.' || text[7] < '0' || text[7] > '9') {
        return http_fail(
            r, 400, "the request line does not end with a version such as HTTP/1.1");
    }
    if (text[5] != '1') {
        return http_fail(r, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
    }
    r->minor = text[7] != '0';
    return HTTP_OK;
}

static enum http_result http_first_line(struct http_request *r, const char *bytes,
                                        size_t n)
{
    const char *line = bytes + r->at;
    size_t method = 0, end = 0;
    while (method < n && http_is_token((unsigned char)line[method])) {
        method++;
    }
    if (method == 0 || method == n || line[method] != ' ') {
        return http_fail(r, 400, "the request line does not start with a method");
    }
    end = method + 1;
    while (end < n && line[end] > ' ' && line[end] < 0x7f && line[end] != '#') {
        end++;
    }
    if (end == method + 1 || (end < n && line[end] != ' ')) {
        return http_fail(r, 400, "the request target is malformed");
    }
    if (end == n) {
        return http_version(r, line + n, 0);
    }
    r->method = http_span_of(r->at, method);
    r->target = http_span_of(r->at + method + 1, end - method - 1);
    if (http_version(r, line + end + 1, n - end - 1) != HTTP_OK) {
        return HTTP_ERROR;
    }
    if (!http_target_parts(r, bytes)) {
        return http_fail(r, 400, "the request target is not a path");
    }
    r->state = HTTP_OTHER_LINES;
    return HTTP_OK;
}

/* ---- Fields ------------------------------------------------------------------------------ */

static enum http_result http_field_line(struct http_request *r, const char *bytes,
                                        size_t n)
{
    const char *line = bytes + r->at;
    size_t name = 0, begin, end = n;
    if (*line == ' ' || *line == '\t') {
        return http_fail(r, 400,
                         "header fields must not be folded across several lines");
    }
    while (name < n && http_is_token((unsigned char)line[name])) {
        name++;
    }
    if (name == 0 || name == n || line[name] != ':') {
        return http_fail(r, 400,
                         "a header field has no name, or no colon right after "
                         "the name");
    }
    if (r->field_count == HTTP_FIELDS) {
        return http_fail(r, 431, "the request has more than 64 header fields");
    }
    begin = name + 1;
    while (begin < end && (line[begin] == ' ' || line[begin] == '\t')) {
        begin++;
    }
    while (end > begin && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
        end--;
    }
    r->fields[r->field_count++] =
        (struct http_field){ http_span_of(r->at, name),
                             http_span_of(r->at + begin, end - begin) };
    return HTTP_OK;
}

static bool http_decimal(bg_bytes text, uint64_t *value)
{
    const char *digits = text.data;
    uint64_t v = 0;
    if (text.len == 0 || text.len > 18) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(digits[i] - '0');
    }
    *value = v;
    return true;
}

struct http_seen {
    unsigned hosts, lengths, encodings;
};

static enum http_result http_mind(struct http_request *r,
                                  const struct http_field *field,
                                  struct http_seen *seen)
{
    const bg_bytes name = http_part(r, field->name), value = http_part(r, field->value);
    if (http_same(name, "host")) {
        seen->hosts++;
    } else if (http_same(name, "content-length")) {
        if (seen->lengths++ || !http_decimal(value, &r->length)) {
            return http_fail(r, 400, "Content-Length is not a number, or is repeated");
        }
        r->body = HTTP_BODY_LENGTH;
    } else if (http_same(name, "transfer-encoding")) {
        if (seen->encodings++) {
            return http_fail(r, 400, "Transfer-Encoding is repeated");
        }
        if (!http_same(value, "chunked")) {
            return http_fail(r, 501, "chunked is the only supported transfer encoding");
        }
        r->body = HTTP_BODY_CHUNKED;
    } else if (http_same(name, "expect")) {
        if (!http_same(value, "100-continue")) {
            return http_fail(r, 417, "100-continue is the only supported expectation");
        }
        r->expects_continue = r->minor > 0;
    }
    return HTTP_OK;
}

static enum http_result http_settle(struct http_request *r)
{
    struct http_seen seen = { 0 };
    struct http_list list = { 0 };
    bg_bytes word;
    for (size_t i = 0; i < r->field_count; i++) {
        if (http_mind(r, &r->fields[i], &seen) != HTTP_OK) {
            return HTTP_ERROR;
        }
    }
    if (seen.lengths && seen.encodings) {
        return http_fail(r, 400,
                         "Content-Length and Transfer-Encoding cannot be "
                         "combined");
    }
    if (seen.encodings && r->minor == 0) {
        return http_fail(r, 400, "HTTP/1.0 does not support Transfer-Encoding");
    }
    if (seen.hosts > 1 || (seen.hosts == 0 && r->minor > 0)) {
        return http_fail(r, 400, "HTTP/1.1 requires exactly one Host field");
    }
    if (r->body == HTTP_BODY_LENGTH && r->length == 0) {
        r->body = HTTP_BODY_NONE;
    }
    bool keep = false, close = false;
    while (http_list_next(r, "connection", &list, &word)) {
        keep = keep || http_same(word, "keep-alive");
        close = close || http_same(word, "close");
    }
    r->keep_alive = !close && (r->minor > 0 || keep);
    r->state = HTTP_DONE;
    return HTTP_OK;
}

enum http_result http_parse(struct http_request *r, const char *bytes, size_t n)
{
    r->head = bytes;
    if (r->state == HTTP_FAILED || r->state == HTTP_DONE) {
        return r->state == HTTP_DONE ? HTTP_OK : HTTP_ERROR;
    }
    for (;;) {
        size_t length = 0;
        enum http_result result = http_line(r, bytes, n, &length);
        if (result != HTTP_OK) {
            return result;
        }
        if (length == 0 && r->state == HTTP_OTHER_LINES) {
            r->consumed = r->at + 2;
            return http_settle(r);
        }
        if (r->state == HTTP_OTHER_LINES) {
            result = http_field_line(r, bytes, length);
        } else if (length) {
            result = http_first_line(r, bytes, length);
        } else if (r->at >= 8) { /* old clients send a few line breaks after a body */
            result = http_fail(r, 400,
                               "the request is preceded by too many empty "
                               "lines");
        }
        if (result != HTTP_OK) {
            return result;
        }
        r->at += length + 2;
    }
}

/*
 * http.h - parses HTTP/1.1 and 1.0 requests: the head, and a body that may arrive in parts of any
 * size.
 *
 * Use one http_request per connection. The caller keeps the bytes of the head contiguous in memory
 * until it is done with the request:
 *
 *     switch (http_parse(&request, bytes, n)) {
 *     case HTTP_PARTIAL: read more bytes after these, and try again
 *     case HTTP_ERROR:   respond with request.status and request.reason, close
 *     case HTTP_OK:      the head is bytes[0..request.consumed), the body follows
 *     }
 *     http_body_begin(&body, &request, most);
 *     loop: switch (http_body_read(&body, bytes, n, &data, &consumed)) ...
 *     http_request_reset(&request), for the next one
 *
 * Each line is scanned only once, even if it arrives in small parts. All positions are offsets
 * from the start of the head, so the memory may move; http_request_moved sets the new address. The
 * parser allocates no memory.
 *
 * The result does not depend on how the bytes were split. The parser is strict where proxies
 * and servers are known to disagree on where a request ends (status 400 unless noted otherwise).
 * Lines must end with CRLF, and a head must not contain any other CR, LF, NUL or control character.
 * No space may precede a field name or its colon. HTTP/1.1 requires exactly one Host field.
 * Content-Length may appear only once and must consist of digits. It cannot be combined with
 * Transfer-Encoding. Transfer-Encoding must be "chunked" (otherwise 501) and is not allowed in
 * HTTP/1.0. A head is at most 16 KiB long and has at most 64 fields (431); its first line is at
 * most 8 KiB long (414).
 *
 * http/fields.h declares functions that read the fields that the parser does not use itself.
 */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_FIELDS = 64, HTTP_HEAD_BYTES = 16384, HTTP_LINE_BYTES = 8192 };

enum http_result { HTTP_OK, HTTP_PARTIAL, HTTP_ERROR };

struct http_span {
    uint16_t at, len;
};

struct http_field {
    struct http_span name, value; /* `value` excludes surrounding spaces */
};

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_request {
    const char *head; /* address of the head's bytes */
    size_t consumed;  /* length of the head (after HTTP_OK) */
    int status;       /* status code (after HTTP_ERROR) */
    /* the reason, as a sentence without a period (after HTTP_ERROR) */
    const char *reason;

    struct http_span method, target;
    /* parts of the target; the path begins with '/', or is "*" */
    struct http_span path, query;
    bool has_query;
    int minor; /* minor version: 0 for HTTP/1.0, 1 for HTTP/1.1 and above */
    struct http_field fields[HTTP_FIELDS];
    size_t field_count;
    enum http_body_kind body;
    uint64_t length; /* HTTP_BODY_LENGTH */
    bool keep_alive; /* the client may send more requests */
    bool expects_continue;

    /* Private. */
    enum { HTTP_FIRST_LINE, HTTP_OTHER_LINES, HTTP_DONE, HTTP_FAILED } state;
    size_t at;      /* start of the line to be parsed next */
    size_t scanned; /* number of bytes of that line already checked for a line end */
};

/* Prepares for the next request. Must be called before each request. */
void http_request_reset(struct http_request *r);

/* Parses a head. bytes[0..n) contains all bytes received since the start of the head. */
enum http_result http_parse(struct http_request *r, const char *bytes, size_t n);

/* Sets the new address of the head's bytes. */
static inline void http_request_moved(struct http_request *r, const char *bytes)
{
    r->head = bytes;
}

static inline bg_bytes http_part(const struct http_request *r, struct http_span span)
{
    return (bg_bytes){ r->head + span.at, span.len };
}

/* Returns whether a character may be part of a head or a trailer, apart from line ends. */
static inline bool http_is_text(char c)
{
    return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

bool http_method_is(const struct http_request *r, const char *method);

/* ---- Bodies ------------------------------------------------------------------------------ */

enum http_body_result {
    HTTP_BODY_DATA, /* `data` is the next part of the body */
    HTTP_BODY_MORE, /* all bytes were consumed, and more are needed */
    HTTP_BODY_END,  /* the body is complete; the next request follows it */
    HTTP_BODY_ERROR /* `status` and `reason` */
};

struct http_body {
    int status;
    const char *reason;
    uint64_t total; /* number of data bytes read so far */

    /* Private. */
    enum {
        BODY_DATA,
        BODY_END,
        BODY_SIZE_FIRST,
        BODY_SIZE,
        BODY_EXTENSION,
        BODY_SIZE_LF,
        BODY_CHUNK,
        BODY_CHUNK_CR,
        BODY_CHUNK_LF,
        BODY_TRAILER_FIRST,
        BODY_TRAILER,
        BODY_TRAILER_LF,
        BODY_LAST_LF,
        BODY_FAILED
    } state;
    uint64_t left;  /* number of bytes remaining in the body or in this chunk */
    uint64_t limit; /* maximum value of `total` */
    size_t line;    /* number of bytes read so far in this line or in all trailers */
};

/* Starts reading a request body of at most `limit` bytes. Returns false if the head announces a
 * longer body (413). */
bool http_body_begin(struct http_body *b, const struct http_request *r, uint64_t limit);

/* Reads the next part of the body. `data` points into `bytes`; chunks are decoded, and trailers are
 * discarded. */
enum http_body_result http_body_read(struct http_body *b, const char *bytes, size_t n,
                                     bg_bytes *data, size_t *consumed);

#endif

/*
 * http.h - requests in HTTP/1.1 and 1.0: the head, and a body that arrives in pieces.
 *
 * How to use it. One http_request per connection. The caller keeps the bytes of the head in one
 * piece of memory until it is done with the request:
 *
 *     switch (http_parse(&request, bytes, n)) {
 *     case HTTP_PARTIAL: read more behind them, and try again
 *     case HTTP_ERROR:   answer request.status with request.reason, close
 *     case HTTP_OK:      the head is bytes[0..request.consumed), the body follows
 *     }
 *     http_body_begin(&body, &request, most);
 *     loop: switch (http_body_read(&body, bytes, n, &data, &consumed)) ...
 *     http_request_reset(&request), for the next one
 *
 * Each line is read once, however small the pieces are. Everything is kept as offsets from the
 * begin of the head, so the memory may move: http_request_moved says where to. A request takes no
 * memory of its own.
 *
 * What is taken and refused does not depend on how the bytes were cut. Strict where proxies and
 * servers are known to disagree on where a request ends (status 400 if nothing else is said):
 * lines end with CRLF, and no other CR, LF, NUL or control byte stands in a head; no blank before
 * a colon or before a field; one Host in HTTP/1.1; at most one Content-Length, of digits only, and
 * never together with Transfer-Encoding; that is "chunked" and nothing else (501), and not in
 * HTTP/1.0. A head has at most 16 KiB and 64 fields (431), its first line 8 KiB (414).
 *
 * Fields that mean something to more than the parser are read by http_fields.h.
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
    struct http_span name, value; /* the value without blanks around it */
};

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_request {
    const char *head;   /* where its bytes are */
    size_t consumed;    /* HTTP_OK: how many */
    int status;         /* HTTP_ERROR: a code and ... */
    const char *reason; /* ... what is wrong, as a sentence without its period */

    struct http_span method, target;
    struct http_span path,
        query; /* parts of the target; path begins with '/', or is "*" */
    bool has_query;
    int minor; /* of HTTP/1.x: 0, or 1 for all above */
    struct http_field fields[HTTP_FIELDS];
    size_t field_count;
    enum http_body_kind body;
    uint64_t length; /* HTTP_BODY_LENGTH */
    bool keep_alive; /* the client wants to send more requests */
    bool expects_continue;

    /* Private. */
    enum { HTTP_FIRST_LINE, HTTP_OTHER_LINES, HTTP_DONE, HTTP_FAILED } state;
    size_t at;      /* begin of the line that is not read yet */
    size_t scanned; /* so many of its bytes are good and do not end it */
};

/* Before the first request, and before each other. */
void http_request_reset(struct http_request *r);

/* Reads a head. bytes[0..n) is all from its begin on. */
enum http_result http_parse(struct http_request *r, const char *bytes, size_t n);

/* The bytes of the head are now there. */
static inline void http_request_moved(struct http_request *r, const char *bytes)
{
    r->head = bytes;
}

static inline bg_bytes http_part(const struct http_request *r, struct http_span span)
{
    return (bg_bytes){ r->head + span.at, span.len };
}

/* What may stand in a head or a trailer, but for line ends. */
static inline bool http_is_text(char c)
{
    return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

bool http_method_is(const struct http_request *r, const char *method);

/* ---- Bodies ------------------------------------------------------------------------------ */

enum http_body_result {
    HTTP_BODY_DATA, /* a piece of the body: `data` */
    HTTP_BODY_MORE, /* needs more bytes; all there were are consumed */
    HTTP_BODY_END,  /* complete; what is behind `consumed` is the next request */
    HTTP_BODY_ERROR /* `status` and `reason` */
};

struct http_body {
    int status;
    const char *reason;
    uint64_t total; /* bytes of data so far */

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
    uint64_t left;  /* of the data, or of this chunk */
    uint64_t limit; /* of total */
    size_t line;    /* bytes of this line, or of all trailers, so far */
};

/* Reads the body of a request, of at most `limit` bytes. False: more are announced: 413. */
bool http_body_begin(struct http_body *b, const struct http_request *r, uint64_t limit);

/* One step. `data` points into bytes; chunks are unpacked, trailers are read and forgotten. */
enum http_body_result http_body_read(struct http_body *b, const char *bytes, size_t n,
                                     bg_bytes *data, size_t *consumed);

#endif

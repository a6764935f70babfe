/*
 * http_response.h - answers in HTTP, written to a buffer.
 *
 *     http_response_head(out, &(struct http_response){ .status = 200, .minor = request.minor,
 *                              .type = "application/json", .length = n });
 *     buffer_put(out, text, n);
 *
 * Every answer says X-Content-Type-Options: nosniff. All else (Cache-Control, ETag, a policy for
 * content) is the caller's, as extra fields. CR, LF and NUL in values become blanks, so that
 * nobody's text can begin a new line.
 */
#ifndef SERVER_HTTP_RESPONSE_H
#define SERVER_HTTP_RESPONSE_H

#include "buffer.h"

struct http_extra {
    const char *name, *value;
};

struct http_response {
    int status;
    int minor;        /* of the request: 0 or 1 */
    const char *type; /* NULL: no Content-Type */
    uint64_t length;  /* of the body, also where it is not sent (HEAD) */
    bool
        chunked; /* its length is not known. For HTTP/1.0 it then ends with the connection */
    bool close; /* the connection ends after it */
    const struct http_extra *extra;
    size_t extras;
};

/* Writes a head. Returns whether the connection is to be closed after the body: as asked for, or
 * because HTTP/1.0 has no other end for a body of unknown length. */
bool http_response_head(struct buffer *out, const struct http_response *response);

/* Pieces of a chunked body; for HTTP/1.0 (minor 0) as they are. */
void http_response_chunk(struct buffer *out, int minor, const void *bytes, size_t n);
void http_response_chunk_end(struct buffer *out, int minor);

/* "HTTP/1.1 100 Continue", before the body is read. */
void http_response_continue(struct buffer *out);

/* The words of a status: "Not Found". Unknown ones: "Status". */
const char *http_reason(int status);

#endif

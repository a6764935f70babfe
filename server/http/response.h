/*
 * http/response.h - writes HTTP responses to a buffer.
 *
 *     http_response_head(out, &(struct http_response){ .status = 200, .minor = request.minor,
 *                              .type = "application/json", .length = n });
 *     buffer_put(out, text, n);
 *
 * Every response has X-Content-Type-Options: nosniff. The caller adds all other fields
 * (Cache-Control, ETag, a content security policy). CR, LF and NUL in values become spaces so that
 * untrusted text cannot start a new line.
 */
#ifndef SERVER_HTTP_RESPONSE_H
#define SERVER_HTTP_RESPONSE_H

#include "util/buffer.h"

struct http_extra {
    const char *name, *value;
};

struct http_response {
    int status;
    int minor;        /* minor version of the request: 0 or 1 */
    const char *type; /* NULL if there is no Content-Type */
    uint64_t length;  /* length of the body, even if the body is not sent (HEAD) */
    bool close;       /* close the connection after the response */
    const struct http_extra *extra;
    size_t extras;
};

/* Writes a head. */
void http_response_head(struct buffer *out, const struct http_response *response);

/* Writes "HTTP/1.1 100 Continue", before the body is read. */
void http_response_continue(struct buffer *out);

/* Returns the text of a status, such as "Not Found", or "Status" if the status is unknown. */
const char *http_reason(int status);

#endif

/*
 * http/target.h - the target of a request: the segments of its path, and its query parameters.
 *
 *     /v1/filters/a%2Fb%00c/items?limit=10&format=json+lines
 *
 * Filter names may contain any bytes, so the path is first split at its slashes, and then each
 * segment is decoded.
 */
#ifndef SERVER_HTTP_TARGET_H
#define SERVER_HTTP_TARGET_H

#include "http/http.h"

enum http_found { HTTP_ABSENT, HTTP_FOUND, HTTP_MALFORMED };

enum { HTTP_SEGMENTS = 16 };

struct http_path {
    bg_bytes segments[HTTP_SEGMENTS];
    size_t count;
};

/*
 * Splits the path at its slashes and decodes %HH in each segment, so a segment may contain any
 * bytes, including slashes and NUL. "/" has no segments, and "/a/" has two: "a" and "". "." and
 * ".." have no special meaning. Returns false if there are more than 16 segments, or if a % is not
 * followed by two hexadecimal digits.
 */
bool http_path(const struct http_request *r, char room[HTTP_LINE_BYTES],
               struct http_path *path);

/* Decodes the next parameter of the query: %HH, and + as a space. *at must be 0 before the first
 * call. A parameter without '=' has an empty value; empty parameters (&&) are skipped. Returns
 * HTTP_ABSENT after the last parameter. */
enum http_found http_query_next(const struct http_request *r, size_t *at,
                                char room[HTTP_LINE_BYTES], bg_bytes *name,
                                bg_bytes *value);

/* Finds the first parameter with this name. */
enum http_found http_parameter(const struct http_request *r, const char *name,
                               char room[HTTP_LINE_BYTES], bg_bytes *value);

#endif

/*
 * http_target.h - what a request is about: the parts of its path, and its parameters.
 *
 *     /v1/filters/a%2Fb%00c/items?limit=10&format=json+lines
 *
 * Names of filters are any bytes, so parts of a path are decoded one by one, after the path was
 * cut at its slashes.
 */
#ifndef SERVER_HTTP_TARGET_H
#define SERVER_HTTP_TARGET_H

#include "http.h"

enum http_found { HTTP_ABSENT, HTTP_FOUND, HTTP_MALFORMED };

enum { HTTP_SEGMENTS = 16 };

struct http_path {
    bg_bytes segments[HTTP_SEGMENTS];
    size_t count;
};

/*
 * The parts of the path between its slashes, each with %HH decoded, so that a part may have any
 * bytes, slashes and NUL among them. "/" has no parts, "/a/" has two: "a" and "". There is
 * nothing special about "." and "..". False: more than 16 parts, or a % without two digits.
 */
bool http_path(const struct http_request *r, char room[HTTP_LINE_BYTES],
               struct http_path *path);

/* The next parameter of the query, decoded: %HH, and + is a blank. *at is 0 at first. One
 * without '=' has an empty value; empty ones (&&) are skipped. HTTP_ABSENT: no more. */
enum http_found http_query_next(const struct http_request *r, size_t *at,
                                char room[HTTP_LINE_BYTES], bg_bytes *name,
                                bg_bytes *value);

/* The first parameter of that name. */
enum http_found http_parameter(const struct http_request *r, const char *name,
                               char room[HTTP_LINE_BYTES], bg_bytes *value);

#endif

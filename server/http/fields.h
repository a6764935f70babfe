/*
 * http/fields.h - reads the target of a request (the segments of its path, and its query parameters)
 * and its fields: accepted types, credentials and entity tags.
 *
 *     /v1/filters/a%2Fb%00c/items?limit=10&format=json+lines
 *
 * Filter names may contain any bytes, so the path is first split at its slashes, and then each
 * segment is decoded. Results point into the head of the request, or into `room`, which the caller
 * provides.
 */
#ifndef SERVER_HTTP_FIELDS_H
#define SERVER_HTTP_FIELDS_H

#include "http/http.h"

/* ---- Target ------------------------------------------------------------------------------ */

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

/* Finds the first parameter in which a % is not followed by two hexadecimal digits, and sets *name
 * to the undecoded name. Returns false if there is none. */
bool http_query_malformed(const struct http_request *r, char room[HTTP_LINE_BYTES],
                          bg_bytes *name);

/* Finds the first parameter with this name. */
enum http_found http_parameter(const struct http_request *r, const char *name,
                               char room[HTTP_LINE_BYTES], bg_bytes *value);

/* ---- Fields ------------------------------------------------------------------------------ */

/* Compares bytes with a string, ignoring case. */
bool http_same(bg_bytes bytes, const char *text);

/* Finds the first field with this name, ignoring case. */
bool http_field(const struct http_request *r, const char *name, bg_bytes *value);

/* Iterates over a list: the items of all fields with a certain name, separated by unquoted commas,
 * without surrounding spaces. Must be zero-initialized. Empty items are skipped. */
struct http_list {
    size_t field, at;
};
bool http_list_next(const struct http_request *r, const char *name,
                    struct http_list *list, bg_bytes *item);

/* ---- Accept ------------------------------------------------------------------------------ */

/* Returns the index of the type with the highest quality (the first if several are equal), or -1 if
 * none is acceptable. */
int http_choose(const struct http_request *r, const char *const *types, size_t n);

/* ---- Authorization ----------------------------------------------------------------------- */

enum http_auth {
    HTTP_AUTH_NONE,
    HTTP_AUTH_BASIC,  /* user, password */
    HTTP_AUTH_BEARER, /* token */
    /* The credentials are malformed, use a different scheme, or appear in more than one field. */
    HTTP_AUTH_BAD
};

struct http_credentials {
    bg_bytes user, password, token;
};

/* Reads the credentials of a request. */
enum http_auth http_authorization(const struct http_request *r,
                                  char room[HTTP_HEAD_BYTES],
                                  struct http_credentials *credentials);

/* ---- Entity tags ------------------------------------------------------------------------- */

enum http_match {
    HTTP_MATCH_ABSENT, /* no such field */
    HTTP_MATCH_YES,
    HTTP_MATCH_NO,
    HTTP_MATCH_BAD /* malformed */
};

/* Return whether If-Match or If-None-Match contains a tag, which is passed with its quotes:
 * "\"1f\"". A NULL tag means that the object does not exist, so "*" does not match either. A weak
 * tag (W/"1f") never matches in If-Match, but matches in If-None-Match. */
enum http_match http_if_match(const struct http_request *r, const char *tag);
enum http_match http_if_none_match(const struct http_request *r, const char *tag);

#endif

/*
 * http_fields.h - what the fields of a request say: what the client takes, has, and who it is.
 *
 * Results point into the head of the request, or into `room`, memory of the caller's.
 */
#ifndef SERVER_HTTP_FIELDS_H
#define SERVER_HTTP_FIELDS_H

#include "http.h"

/* Whether bytes are this text, in any case of letters. */
bool http_same(bg_bytes bytes, const char *text);

/* The first field of that name, in any case of letters. */
bool http_field(const struct http_request *r, const char *name, bg_bytes *value);

/* The next item of a list: of all fields of that name, what stands between commas that are not
 * quoted, without blanks around it. Begin with zeros; empty items are skipped. */
struct http_list {
    size_t field, at;
};
bool http_list_next(const struct http_request *r, const char *name,
                    struct http_list *list, bg_bytes *item);

/* ---- Accept ------------------------------------------------------------------------------ */

/*
 * How much the client likes "type/subtype", in thousandths; 0: not at all. The most specific
 * range that fits counts, and of several the best; parameters other than q are not looked at.
 * Without Accept it likes everything: 1000. A range that is malformed is left out.
 */
unsigned http_accepts(const struct http_request *r, const char *type);

/* The index of the type that it likes best, the first of equals; -1: none. */
int http_choose(const struct http_request *r, const char *const *types, size_t n);

/* ---- Authorization ----------------------------------------------------------------------- */

enum http_auth {
    HTTP_AUTH_NONE,
    HTTP_AUTH_BASIC,  /* user, password */
    HTTP_AUTH_BEARER, /* token */
    HTTP_AUTH_BAD     /* malformed, of another scheme, or more than one */
};

struct http_credentials {
    bg_bytes user, password, token;
};

/* Who it says it is. */
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

/* Whether If-Match or If-None-Match name a tag, which is given with its quotes, "\"1f\""; NULL:
 * there is nothing that could have one, so that "*" does not match either. If-Match takes no
 * weak tags (W/"1f") for equal, If-None-Match does. */
enum http_match http_if_match(const struct http_request *r, const char *tag);
enum http_match http_if_none_match(const struct http_request *r, const char *tag);

#endif

/*
 * assets.h - the files of the dashboard (server/web/), which are part of the program: it needs
 * no folder of its own to serve them.
 *
 * They are the same for everybody and hold no secrets. Send them with their tag, with
 * `Cache-Control: no-cache` and `X-Content-Type-Options: nosniff`, pages also with the policy;
 * to a request whose If-None-Match has the tag, answer 304.
 *
 * Threads: constants, any number of them.
 */
#ifndef SERVER_ASSETS_H
#define SERVER_ASSETS_H

#include "bloomgate/bloomgate.h"

#include <stddef.h>

struct asset {
    const char
        *path; /* as in a request: "/", "/assets/dashboard.js", "/openapi.yaml" */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes */
    const unsigned char *bytes;
    size_t size;
};

/* What the browser may do for the pages: nothing but ask this service. No inline code, no
 * other origin, no frame around it. */
#define ASSET_POLICY                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "  \
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

/* The file at that path, without what is behind a question mark; or NULL. */
const struct asset *asset_find(bg_bytes path);

/* All of them, one after the other: NULL when there are no more. */
const struct asset *asset_at(size_t i);

/* Written by embed.cmake. */
extern const struct asset asset_files[];
extern const size_t asset_files_count;

#endif

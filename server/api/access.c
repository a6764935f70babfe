/*
 * api/access.c - checks whether an HTTP request is allowed. See web.h; openapi.yaml contains the
 * rules. The checks run in this order:
 *
 *     Host       without users, only known names, against DNS rebinding (421)
 *     page       changes must not come from a page on another site (403)
 *     user       by Authorization, or the user default where that is allowed (401, 429)
 *     state      only some requests are served while loading (503)
 */
#include "api/web.h"
#include "core/server.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

uint64_t web_upload_limit(const struct settings *settings)
{
    const uint64_t most = settings->max_filter_memory;
    return most ? most + most / 64 + (1u << 20) : UINT64_MAX;
}

/* ---- Host --------------------------------------------------------------------------------------- */

/* Extracts the host name from a Host field, without the port. Returns false if the field is
 * malformed. */
static bool access_host(bg_bytes field, char *name, size_t room)
{
    const char *text = field.data;
    const bool bracket = field.len > 0 && text[0] == '[';
    const char *end = memchr(text, bracket ? ']' : ':', field.len);
    const size_t n = bracket ? (end ? (size_t)(end - text) - 1 : 0)
                             : (end ? (size_t)(end - text) : field.len);
    if (n == 0 || n >= room) {
        return false;
    }
    memcpy(name, text + bracket, n);
    name[n] = 0;
    if (!bracket && name[n - 1] == '.') {
        name[n - 1] = 0;
    }
    return name[0] != 0;
}

static bool access_is_local_name(const char *name)
{
    static const char ending[] = ".localhost";
    const size_t n = strlen(name), m = sizeof ending - 1;
    return strcasecmp(name, "localhost") == 0
           || (n > m && strcasecmp(name + n - m, ending) == 0);
}

/* Returns whether the host name is known. If an attacker's host name resolves to this machine, a
 * page on that host can send any request that its visitor may send (DNS rebinding). The name must
 * therefore be known unless a password is required. */
static bool access_knows_host(const struct web_request *request)
{
    const struct settings *settings = request->session->from;
    unsigned char address[sizeof(struct in6_addr)];
    char name[256];
    bg_bytes field;
    if (!http_field(request->head, "Host", &field)) {
        return true; /* HTTP/1.0: not a browser */
    }
    if (!access_host(field, name, sizeof name)) {
        return false;
    }
    if (inet_pton(AF_INET, name, address) == 1
        || inet_pton(AF_INET6, name, address) == 1 || access_is_local_name(name)) {
        return true;
    }
    for (size_t i = 0; i < settings->http_allowed_hosts.count; i++) {
        if (strcasecmp(name, settings->http_allowed_hosts.items[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Page --------------------------------------------------------------------------------------- */

static bool access_is_other_origin(const struct http_request *head)
{
    bg_bytes value, host;
    if (http_field(head, "Sec-Fetch-Site", &value)
        && (http_same(value, "cross-site") || http_same(value, "same-site"))) {
        return true;
    }
    if (!http_field(head, "Origin", &value) || !http_field(head, "Host", &host)) {
        return false;
    }
    const char *at = memmem(value.data, value.len, "://", 3);
    const size_t skip = at ? (size_t)(at - (const char *)value.data) + 3 : 0;
    return !at || value.len - skip != host.len
           || strncasecmp(at + 3, host.data, host.len) != 0;
}

/* Returns whether a page on another site may have sent the request without a preflight. */
static bool access_is_cross_site(const struct web_request *request, bool plain_is_fine)
{
    static const char *const simple[] = { "text/plain", "multipart/form-data",
                                          "application/x-www-form-urlencoded" };
    bg_bytes value;
    bool there = false;
    if (access_is_other_origin(request->head)) {
        return true;
    }
    if (plain_is_fine || http_field(request->head, "X-Bloomgate", &value)
        || !http_method_is(request->head, "POST")) {
        return false; /* other methods require a preflight */
    }
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (web_type_is(request, simple[i], &there)) {
            return true;
        }
    }
    return !there;
}

/* ---- User --------------------------------------------------------------------------------------- */

/* Sends a 401 response. Returns WEB_MAY_NOT. */
static enum web_access access_ask(struct web_request *request)
{
    bg_bytes ignored;
    web_error(
        request, 401, "unauthorized",
        "authentication failed: send a valid user and password with Basic or Bearer "
        "authorization");
    web_header(request, "WWW-Authenticate",
               http_field(request->head, "X-Bloomgate", &ignored)
                   ? "Bearer realm=\"bloomgate\""
                   : "Basic realm=\"bloomgate\", charset=\"UTF-8\"");
    return WEB_MAY_NOT;
}

static enum web_access access_wait(struct web_request *request, uint64_t milliseconds)
{
    char text[24];
    const uint64_t seconds = (milliseconds + 999) / 1000;
    web_error(request, 429, "limit", "too many failed logins; try again in %llu s",
              (unsigned long long)seconds);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seconds);
    web_header(request, "Retry-After", text);
    return WEB_MAY_NOT;
}

static enum web_access access_log_in(struct web_request *request,
                                     const struct http_credentials *is, bool waits)
{
    const struct session *session = request->session;
    struct users *users = session->server->users;
    struct client *client = request->client;
    client_set_user(client, users_recall(users, is->user, is->password));
    if (client->user) {
        return WEB_MAY;
    }
    const uint64_t wait =
        users_guess_wait(users, client->host, is->user, session->ticks);
    if (wait) {
        return access_wait(request, wait);
    }
    if (!waits) {
        return WEB_LATER;
    }
    client_set_user(client, users_check(users, is->user, is->password));
    if (client->user) {
        return WEB_MAY;
    }
    users_guess_failed(users, client->host, is->user, session->ticks);
    return access_ask(request);
}

/* Parses a token: "user:password", or only the password of the user `default`. */
static void access_read_token(struct http_credentials *is)
{
    const char *colon = memchr(is->token.data, ':', is->token.len);
    const size_t at = colon ? (size_t)(colon - (const char *)is->token.data) : 0;
    is->user = colon ? (bg_bytes){ is->token.data, at } : (bg_bytes){ "default", 7 };
    is->password = colon ? (bg_bytes){ colon + 1, is->token.len - at - 1 } : is->token;
}

static enum web_access access_user(struct web_request *request, bool waits)
{
    char room[HTTP_HEAD_BYTES];
    struct http_credentials is;
    enum web_access access = WEB_MAY;
    const enum http_auth auth = http_authorization(request->head, room, &is);
    if (auth == HTTP_AUTH_BEARER) {
        access_read_token(&is);
    }
    if (auth == HTTP_AUTH_BASIC || auth == HTTP_AUTH_BEARER) {
        access = access_log_in(request, &is, waits);
    } else {
        client_set_user(request->client, auth == HTTP_AUTH_NONE ? users_default(
                                             request->session->server->users)
                                                                : NULL);
        access = request->client->user ? WEB_MAY : access_ask(request);
    }
    explicit_bzero(room, sizeof room);
    return access;
}

/* ---- All ---------------------------------------------------------------------------------------- */

/* Returns whether no password is required, in which case the user is `default`. */
static bool access_is_free(const struct web_request *request,
                           const struct web_route *route)
{
    const struct settings *settings = request->session->from;
    return !settings->http_auth || route->flags & WEB_OPEN
           || (route->flags & WEB_METRICS && !settings->metrics_auth);
}

enum web_access web_access(struct web_request *request, const struct web_route *route,
                           bool waits)
{
    struct server *server = request->session->server;
    const bool free = access_is_free(request, route);
    enum web_access access = WEB_MAY;
    if ((free || users_default(server->users)) && !access_knows_host(request)) {
        web_error(request, 421, "misdirected",
                  "Host: unknown name; use localhost, an IP address, or a name listed "
                  "in http-allowed-hosts");
        return WEB_MAY_NOT;
    }
    if (route->flags & WEB_CHANGES
        && access_is_cross_site(request, route->flags & WEB_PLAIN)) {
        web_error(
            request, 403, "cross_site",
            "the request may come from another website: send an X-Bloomgate header, or "
            "set the content type of the body");
        return WEB_MAY_NOT;
    }
    if (free) {
        client_set_user(request->client, users_default_unasked(server->users));
        /* The handlers of open routes need no user, so these routes work even if the user
         * `default` is disabled. */
        access = request->client->user || route->flags & WEB_OPEN ? WEB_MAY
                                                                  : access_ask(request);
    } else {
        access = access_user(request, waits);
    }
    if (access == WEB_MAY && atomic_load(&server->phase) <= SERVER_LOADING
        && !(route->flags & WEB_LOADING)) {
        web_error(request, 503, "loading",
                  "the service is still loading its filters; "
                  "try again later");
        web_header(request, "Retry-After", "1");
        return WEB_MAY_NOT;
    }
    return access;
}

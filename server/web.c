/*
 * web.c - HTTP over a connection: reading requests, routing, sending answers. See web.h.
 *
 *     head -> body -> job -> answer -> head ...
 *
 * The head is copied once it is whole, since the request outlives the bytes that it came in. A
 * body in memory is bounded (WEB_BODY), one in a file by max-filter-memory. An answer that is a
 * file is sent piece by piece, as the socket takes it.
 */
#include "web.h"

#include "assets.h"
#include "conn.h"
#include "http_response.h"
#include "log.h"
#include "persist.h"
#include "server.h"
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WEB_BODY = 64 << 20, WEB_PIECE = 256 * 1024, WEB_WAIT = 1 };

/* What an HTTP connection is doing. */
struct http_state {
    enum { WEB_HEAD, WEB_READS_BODY, WEB_RUNS, WEB_SENDS } phase;
    struct http_request request;
    char *head; /* its bytes, once they are whole */
    struct http_body reading;
    const struct web_route *route;
    struct buffer body;
    int upload;            /* a descriptor, -1: none */
    char upload_path[600]; /* "": none */
    int file;              /* being sent; -1: none */
    uint64_t file_left;
    bool keep_alive;
};

static const struct web_route *const web_tables[] = { web_filter_routes, web_key_routes,
                                                      web_file_routes,
                                                      web_service_routes,
                                                      web_gate_routes };

/* ---- Answers -------------------------------------------------------------------------------- */

void web_header(struct web_request *request, const char *name, const char *value)
{
    struct web_answer *answer = &request->answer;
    if (answer->extras < WEB_EXTRAS) {
        (void)snprintf(answer->names[answer->extras], sizeof answer->names[0], "%s",
                       name);
        (void)snprintf(answer->values[answer->extras++], sizeof answer->values[0], "%s",
                       value);
    }
}

bool web_json_begin(struct web_json *json)
{
    memset(json, 0, sizeof *json);
    FILE *to = open_memstream(&json->text, &json->n);
    if (!to) {
        return false;
    }
    json_begin_bare(&json->json, to);
    return true;
}

void web_json_end(struct web_request *request, struct web_json *json)
{
    json_end(&json->json);
    (void)fclose(json->json.to);
    buffer_put(&request->answer.body, json->text, json->n);
    request->answer.type = "application/json";
    free(json->text);
}

void web_error(struct web_request *request, int status, const char *code,
               const char *format, ...)
{
    char message[1024];
    struct web_json json;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    request->answer.status = status;
    buffer_clear(&request->answer.body, 0);
    if (web_json_begin(&json)) {
        json_object(&json.json, "error");
        json_text(&json.json, "code", code);
        json_text(&json.json, "message", message);
        json_close(&json.json, '}');
        web_json_end(request, &json);
    }
}

void web_failed(struct web_request *request, bg_err err, const bg_errinfo *info)
{
    static const struct {
        bg_err err;
        int status;
        const char *code;
    } known[] = {
        { BG_EINVAL, 400, "bad_request" },
        { BG_ENOMEM, 507, "out_of_memory" },
        { BG_EFULL, 409, "full" },
        { BG_ENOTSUP, 422, "not_supported" },
        { BG_EINCOMPAT, 409, "incompatible" },
        { BG_EFORMAT, 422, "bad_file" },
        { BG_EVERSION, 422, "bad_file" },
        { BG_ECHECKSUM, 422, "bad_file" },
        { BG_EIO, 500, "io" },
        { BG_ENOTFOUND, 404, "not_found" },
        { BG_EBUSY, 409, "exists" },
        { BG_ELIMIT, 429, "limit" },
        { BG_EBUILD, 500, "internal" },
    };
    const char *message = info && info->message[0] ? info->message : bg_strerror(err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].err == err) {
            web_error(request, known[i].status, known[i].code, "%s", message);
            return;
        }
    }
    web_error(request, 500, "internal", "%s", message);
}

/* Writes an answer's head and body to a connection. */
static void web_send(struct conn *conn, struct web_request *request, bool head_only)
{
    struct http_state *http = conn->http;
    struct web_answer *answer = &request->answer;
    struct http_extra extras[WEB_EXTRAS];
    const bool from_file = answer->file >= 0;
    for (size_t i = 0; i < answer->extras; i++) {
        extras[i] = (struct http_extra){ answer->names[i], answer->values[i] };
    }
    const struct http_response response = {
        .status = answer->status ? answer->status : 200,
        .minor = http->request.minor,
        .type = answer->type,
        .length = from_file ? answer->file_bytes : buffer_waiting(&answer->body),
        .close = !http->keep_alive,
        .extra = extras,
        .extras = answer->extras,
    };
    if (http_response_head(&conn->out, &response)) {
        http->keep_alive = false;
    }
    if (from_file && !head_only) {
        http->file = answer->file;
        http->file_left = answer->file_bytes;
    } else if (from_file) {
        close(answer->file);
    } else if (!head_only) {
        buffer_put(&conn->out, answer->body.data + answer->body.begin,
                   buffer_waiting(&answer->body));
    }
    buffer_free(&answer->body);
}

/* ---- Between requests ------------------------------------------------------------------------ */

static void web_forget_body(struct http_state *http)
{
    buffer_free(&http->body);
    if (http->upload >= 0) {
        close(http->upload);
        http->upload = -1;
    }
    if (http->upload_path[0]) {
        (void)unlink(http->upload_path);
        http->upload_path[0] = 0;
    }
}

/* An answer has been written: what comes next. */
static void web_next(struct conn *conn)
{
    struct http_state *http = conn->http;
    web_forget_body(http);
    free(http->head);
    http->head = NULL;
    http_request_reset(&http->request);
    http->phase = http->file >= 0 ? WEB_SENDS : WEB_HEAD;
    if (http->file < 0 && !http->keep_alive) {
        conn->client.close = true;
    }
}

/* An error before there is a request to speak of: answered, and the connection closed. */
static void web_refuse(struct conn *conn, int status, const char *code,
                       const char *reason)
{
    struct web_request request = { .head = &conn->http->request, .answer.file = -1 };
    buffer_init(&request.answer.body, conn->out.limit);
    conn->http->keep_alive = false;
    web_error(&request, status, code, "%s", reason);
    web_send(conn, &request, false);
    web_next(conn);
}

/* ---- Who, and whether ------------------------------------------------------------------------- */

/* Whether nobody is asked who he is, by http-auth and metrics-auth. */
static bool web_is_unasked(const struct web_request *request)
{
    const struct settings *settings = settings_now(request->session->server->store);
    return http_same(http_part(request->head, request->head->path), "/metrics")
               ? !settings->metrics_auth
               : !settings->http_auth;
}

/* Who asks: by his credentials, or the default user. NULL: 401 was sent. */
static bool web_identify(struct web_request *request)
{
    char room[HTTP_HEAD_BYTES];
    struct http_credentials is;
    struct session *session = request->session;
    struct users *users = session->server->users;
    struct client *client = request->client;
    const enum http_auth auth = http_authorization(request->head, room, &is);
    client->user = NULL;
    if (auth == HTTP_AUTH_NONE) {
        client->user = web_is_unasked(request) ? users_default_unasked(users)
                                               : users_default(users);
    } else if (auth != HTTP_AUTH_BAD) {
        if (auth
            == HTTP_AUTH_BEARER) { /* "user:password", or the default user's password */
            const char *colon = memchr(is.token.data, ':', is.token.len);
            const size_t at = colon ? (size_t)(colon - (const char *)is.token.data) : 0;
            is.user =
                colon ? (bg_bytes){ is.token.data, at } : (bg_bytes){ "default", 7 };
            is.password =
                colon ? (bg_bytes){ colon + 1, is.token.len - at - 1 } : is.token;
        }
        client->user = users_recall(users, is.user, is.password);
        if (!client->user
            && users_guess_wait(users, client->host, is.user, session->ticks) == 0) {
            client->user = users_check(users, is.user, is.password);
            if (!client->user) {
                users_guess_failed(users, client->host, is.user, session->ticks);
            }
        }
    }
    explicit_bzero(room, sizeof room);
    if (!client->user) {
        bg_bytes ignored;
        web_error(request, 401, "unauthorized", "a user and his password are needed");
        web_header(request, "WWW-Authenticate",
                   http_field(request->head, "X-Bloomgate", &ignored)
                       ? "Bearer realm=\"bloomgate\""
                       : "Basic realm=\"bloomgate\", charset=\"UTF-8\"");
    }
    return client->user != NULL;
}

/* Whether a page of another site may have sent it: see openapi.yaml. */
static bool web_is_cross_site(const struct http_request *head, bool plain_is_fine)
{
    bg_bytes value, host;
    if (http_field(head, "Sec-Fetch-Site", &value)
        && (http_same(value, "cross-site") || http_same(value, "same-site"))) {
        return true;
    }
    if (http_field(head, "Origin", &value) && http_field(head, "Host", &host)) {
        const char *at = memmem(value.data, value.len, "://", 3);
        const size_t skip = at ? (size_t)(at - (const char *)value.data) + 3 : 0;
        if (!at || value.len - skip != host.len
            || memcmp(at + 3, host.data, host.len) != 0) {
            return true;
        }
    }
    if (plain_is_fine || http_field(head, "X-Bloomgate", &value)) {
        return false;
    }
    if (!http_field(head, "Content-Type", &value)) {
        return http_method_is(head, "POST"); /* other methods need a preflight */
    }
    const char *end = memchr(value.data, ';', value.len);
    bg_bytes type = { value.data,
                      end ? (size_t)(end - (const char *)value.data) : value.len };
    while (type.len > 0 && ((const char *)type.data)[type.len - 1] == ' ') {
        type.len--;
    }
    return http_same(type, "text/plain") || http_same(type, "multipart/form-data")
           || http_same(type, "application/x-www-form-urlencoded");
}

/* ---- Routes ------------------------------------------------------------------------------------ */

static bool web_path_fits(const char *pattern, const struct http_path *path)
{
    size_t i = 0;
    while (*pattern == '/') {
        const char *begin = ++pattern;
        const size_t len = strcspn(begin, "/");
        pattern += len;
        if (len == 0 && *pattern == 0) {
            break;
        }
        if (i >= path->count) {
            return false;
        }
        const bg_bytes segment = path->segments[i++];
        if (!(len == 1 && *begin == '*')
            && (segment.len != len || memcmp(segment.data, begin, len) != 0)) {
            return false;
        }
    }
    return i == path->count;
}

/* The route of a request; NULL: *known says whether the path has others. */
static const struct web_route *web_find_route(const struct http_request *head,
                                              const struct http_path *path, bool *known)
{
    *known = false;
    for (size_t t = 0; t < sizeof web_tables / sizeof *web_tables; t++) {
        for (const struct web_route *route = web_tables[t]; route->path; route++) {
            if (web_path_fits(route->path, path)) {
                *known = true;
                if (http_method_is(head, route->method)
                    || (strcmp(route->method, "GET") == 0
                        && http_method_is(head, "HEAD"))) {
                    return route;
                }
            }
        }
    }
    return NULL;
}

/* ---- Jobs ----------------------------------------------------------------------------------------- */

struct web_job {
    struct job job; /* first */
    struct conn *conn;
    bool head_only;
    struct web_request request;
};

static bool web_may_run(struct web_request *request, const struct web_route *route)
{
    const struct server *server = request->session->server;
    if (route->flags & WEB_CHANGES
        && web_is_cross_site(request->head, route->flags & WEB_PLAIN)) {
        web_error(
            request, 403, "cross_site",
            "it may come from another web page: send a header X-Bloomgate, or the content "
            "type of what you send");
        return false;
    }
    if (!web_identify(request)) {
        return false;
    }
    if (atomic_load(&server->phase) <= SERVER_LOADING
        && !(route->flags & WEB_LOADING)) {
        web_error(request, 503, "loading", "the service is loading its filters");
        web_header(request, "Retry-After", "1");
        return false;
    }
    return true;
}

static void web_job_run(struct job *job, struct session *session)
{
    struct web_job *mine = (struct web_job *)job;
    struct web_request *request = &mine->request;
    const struct web_route *route = mine->conn->http->route;
    request->session = session;
    session->client = request->client;
    web_header(request, "Cache-Control", "no-store");
    if (web_may_run(request, route)) {
        route->run(request);
    }
    request->answer.wrote =
        request->answer.wrote || session->wrote || route->flags & WEB_CHANGES;
    session->client = NULL;
}

static void web_job_done(struct job *job)
{
    struct web_job *mine = (struct web_job *)job;
    struct conn *conn = mine->conn;
    if (conn_job_done(conn)) {
        if (mine->request.answer.wrote) {
            conn_wrote(conn);
        }
        web_send(conn, &mine->request, mine->head_only);
        web_next(conn);
        conn_continue(conn);
    } else {
        buffer_free(&mine->request.answer.body);
        if (mine->request.answer.file >= 0) {
            close(mine->request.answer.file);
        }
    }
    free(mine);
}

/* A request is whole. */
static void web_submit(struct conn *conn)
{
    struct http_state *http = conn->http;
    struct web_job *job = calloc(1, sizeof *job);
    if (!job) {
        web_refuse(conn, 507, "out_of_memory", "out of memory");
        return;
    }
    job->job = (struct job){ .run = web_job_run,
                             .done = web_job_done,
                             .worker = conn->worker };
    job->conn = conn;
    job->head_only = http_method_is(&http->request, "HEAD");
    job->request.head = &http->request;
    job->request.client = &conn->client;
    job->request.answer.file = -1;
    buffer_init(&job->request.answer.body, conn->out.limit);
    (void)http_path(&http->request, job->request.path_room, &job->request.path);
    job->request.body =
        (bg_bytes){ http->body.data + http->body.begin, buffer_waiting(&http->body) };
    job->request.body_bytes = http->reading.total;
    job->request.body_file = http->upload_path[0] ? http->upload_path : NULL;
    conn->busy = true;
    http->phase = WEB_RUNS;
    jobs_submit(conn->worker->server->jobs, &job->job);
}

/* ---- What is answered at once ---------------------------------------------------------------------- */

static void web_answer_text(struct conn *conn, int status, const char *text)
{
    struct web_request request = { .head = &conn->http->request, .answer.file = -1 };
    buffer_init(&request.answer.body, conn->out.limit);
    buffer_text(&request.answer.body, text);
    request.answer.status = status;
    request.answer.type = "text/plain; charset=utf-8";
    web_header(&request, "Cache-Control", "no-store");
    if (status == 503) {
        web_header(&request, "Retry-After", "1");
    }
    web_send(conn, &request, http_method_is(&conn->http->request, "HEAD"));
    web_next(conn);
}

static const char *web_readiness(const struct server *server)
{
    switch (atomic_load(&server->phase)) {
    case SERVER_SERVING: return "ready\n";
    case SERVER_STOPPING: return "stopping\n";
    default: return "loading\n";
    }
}

static void web_answer_asset(struct conn *conn, const struct asset *asset)
{
    struct web_request request = { .head = &conn->http->request, .answer.file = -1 };
    struct web_answer *answer = &request.answer;
    buffer_init(&answer->body, conn->out.limit);
    answer->type = asset->type;
    web_header(&request, "ETag", asset->etag);
    web_header(&request, "Cache-Control", "no-cache");
    web_header(
        &request, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'");
    web_header(&request, "Referrer-Policy", "no-referrer");
    if (http_if_none_match(request.head, asset->etag) == HTTP_MATCH_YES) {
        answer->status = 304;
    } else {
        buffer_put(&answer->body, asset->bytes, asset->size);
    }
    web_send(conn, &request, http_method_is(&conn->http->request, "HEAD"));
    web_next(conn);
}

/* Health and assets: no job, no user. False: it is something else. */
static bool web_answer_at_once(struct conn *conn)
{
    const struct http_request *head = &conn->http->request;
    const bg_bytes path = http_part(head, head->path);
    if (!http_method_is(head, "GET") && !http_method_is(head, "HEAD")) {
        return false;
    }
    if (http_same(path, "/healthz")) {
        web_answer_text(conn, 200, "ok\n");
        return true;
    }
    if (http_same(path, "/readyz") && !head->has_query) {
        const char *text = web_readiness(conn->worker->server);
        web_answer_text(conn, strcmp(text, "ready\n") == 0 ? 200 : 503, text);
        return true;
    }
    const struct asset *asset = asset_find(path);
    if (asset) {
        web_answer_asset(conn, asset);
        return true;
    }
    return false;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static bool web_open_upload(struct conn *conn)
{
    struct http_state *http = conn->http;
    const int n = snprintf(http->upload_path, sizeof http->upload_path,
                           "%s/upload-XXXXXX", conn->worker->session.from->dir);
    if (n < 0 || (size_t)n >= sizeof http->upload_path) {
        http->upload_path[0] = 0;
        return false;
    }
    http->upload = mkostemp(http->upload_path, O_CLOEXEC);
    if (http->upload < 0) {
        http->upload_path[0] = 0;
    }
    return http->upload >= 0;
}

/* The head is whole: is there somebody to answer, and a body to wait for? */
static void web_head_done(struct conn *conn)
{
    struct http_state *http = conn->http;
    struct http_path path;
    char room[HTTP_LINE_BYTES];
    bool known = false;
    const struct settings *settings = conn->worker->session.from;
    http->keep_alive = http->request.keep_alive && !conn->worker->stopping;
    const uint64_t most_memory = WEB_BODY,
                   most_file = settings->max_filter_memory
                                   ? 2 * settings->max_filter_memory
                                   : UINT64_MAX;
    if (http->request.body == HTTP_BODY_NONE && web_answer_at_once(conn)) {
        return;
    }
    if (!http_path(&http->request, room, &path)) {
        web_refuse(conn, 400, "bad_request", "the path is malformed");
        return;
    }
    http->route = web_find_route(&http->request, &path, &known);
    if (!http->route) {
        web_refuse(conn, known ? 405 : 404, known ? "method_not_allowed" : "not_found",
                   known ? "the path has other methods" : "there is no such path");
        return;
    }
    const bool upload = http->route->flags & WEB_UPLOAD;
    if (!http_body_begin(&http->reading, &http->request,
                         upload ? most_file : most_memory)) {
        web_refuse(conn, 413, "too_large", "the body is too large");
        return;
    }
    if (upload && !web_open_upload(conn)) {
        web_refuse(conn, 500, "io", "the upload cannot be stored");
        return;
    }
    buffer_init(&http->body, WEB_BODY);
    if (http->request.expects_continue) {
        http_response_continue(&conn->out);
    }
    http->phase = WEB_READS_BODY;
}

static size_t web_read_head(struct conn *conn, const char *bytes, size_t n)
{
    struct http_state *http = conn->http;
    switch (http_parse(&http->request, bytes, n)) {
    case HTTP_PARTIAL: return 0;
    case HTTP_ERROR:
        web_refuse(conn, http->request.status, "bad_request", http->request.reason);
        return n;
    case HTTP_OK: break;
    }
    http->head = malloc(http->request.consumed);
    if (!http->head) {
        conn->client.close = true;
        return n;
    }
    memcpy(http->head, bytes, http->request.consumed);
    http_request_moved(&http->request, http->head);
    const size_t consumed = http->request.consumed;
    web_head_done(conn);
    return consumed;
}

static bool web_keep(struct http_state *http, bg_bytes data)
{
    const char *from = data.data;
    size_t left = data.len;
    if (http->upload < 0) {
        buffer_put(&http->body, data.data, data.len);
        return !http->body.overflow;
    }
    while (left > 0) {
        const ssize_t n = write(http->upload, from, left);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        from += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static size_t web_read_body(struct conn *conn, const char *bytes, size_t n)
{
    struct http_state *http = conn->http;
    size_t at = 0;
    for (;;) {
        bg_bytes data = { NULL, 0 };
        size_t used = 0;
        const enum http_body_result result =
            http_body_read(&http->reading, bytes + at, n - at, &data, &used);
        at += used;
        switch (result) {
        case HTTP_BODY_DATA:
            if (!web_keep(http, data)) {
                web_refuse(conn, 507, "out_of_memory", "the body cannot be stored");
                return n;
            }
            break;
        case HTTP_BODY_MORE: return at;
        case HTTP_BODY_ERROR:
            web_refuse(conn, http->reading.status, "bad_request", http->reading.reason);
            return n;
        case HTTP_BODY_END: web_submit(conn); return at;
        }
    }
}

static size_t web_input(struct conn *conn, char *bytes, size_t n)
{
    struct http_state *http = conn->http;
    size_t at = 0;
    while (!conn_turn_over(conn)) {
        size_t used = 0;
        const int phase = (int)http->phase;
        if (phase == WEB_HEAD && at < n) {
            used = web_read_head(conn, bytes + at, n - at);
        } else if (phase == WEB_READS_BODY) {
            used = web_read_body(conn, bytes + at, n - at);
        }
        at += used;
        if (used == 0 && (int)http->phase == phase) {
            break;
        }
        if (phase != WEB_READS_BODY) {
            conn->turn--;
        }
    }
    return conn->client.close ? n : at;
}

/* Everything that was written has been sent: the next piece of a file. */
static void web_more(struct conn *conn)
{
    struct http_state *http = conn->http;
    if (http->file < 0) {
        return;
    }
    const size_t want =
        http->file_left < WEB_PIECE ? (size_t)http->file_left : WEB_PIECE;
    char *to = want ? buffer_space(&conn->out, want) : NULL;
    const ssize_t n = to ? read(http->file, to, want) : 0;
    if (n > 0) {
        buffer_wrote(&conn->out, (size_t)n);
        http->file_left -= (uint64_t)n;
    }
    if (n <= 0 || http->file_left == 0) {
        if (http->file_left > 0) { /* shorter than announced: only closing tells */
            http->keep_alive = false;
        }
        close(http->file);
        http->file = -1;
        http->phase = WEB_HEAD;
        conn->client.close = conn->client.close || !http->keep_alive;
        conn_again(conn); /* the next request may be there already */
    }
}

static bool web_begin(struct conn *conn)
{
    conn->http = calloc(1, sizeof *conn->http);
    if (!conn->http) {
        return false;
    }
    conn->http->upload = conn->http->file = -1;
    http_request_reset(&conn->http->request);
    return true;
}

static void web_end(struct conn *conn)
{
    struct http_state *http = conn->http;
    if (http) {
        web_forget_body(http);
        if (http->file >= 0) {
            close(http->file);
        }
        free(http->head);
        free(http);
    }
}

const struct protocol http_protocol = { "http", web_begin, web_input, web_more,
                                        web_end };

/*
 * web.c - HTTP over a connection: reads requests, routes them and sends responses. See web.h.
 *
 *     head -> (password) -> body -> job -> response -> head ...
 *
 * The head is copied once it is complete, because the request outlives the buffer in which it was received. A body in
 * memory is limited to proto-max-bulk-len, and a body in a file to max-filter-memory. The total size of these files is
 * limited by maxmemory, because they become filters in memory. No body is read before its sender has been authorized.
 * Files are sent in chunks, as quickly as the socket accepts them.
 *
 * If a request with a short body is refused before the body has been read, the body is read and discarded, so that
 * the connection can be reused. Otherwise the connection is closed, after a delay that lets the client read the
 * response (conn.h, `lingers`).
 *
 * Threads. A connection and its http_state belong to the worker. While a job runs for the
 * connection, the worker does not access them, and the job reads the head and the body. The job
 * keeps its results in its own web_job.
 */

#include "api/assets.h"
#include "api/handlers.h"
#include "core/server.h"
#include "error_text.h"
#include "http/response.h"
#include "ledger.h"
#include "request/conn.h"
#include "request/quota.h"
#include "request/worker.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WEB_PIECE = 256 * 1024, WEB_SKIP = 1 << 20, WEB_MORE = 32768 };

/* The state of an HTTP connection. */
struct http_state {
    enum { WEB_HEAD, WEB_READS_BODY, WEB_SKIPS_BODY, WEB_RUNS, WEB_SENDS } phase;
    struct http_request request;
    char *head; /* a copy of the head, made once the head is complete */
    size_t head_bytes;
    struct http_body reading;
    const struct web_route *route;
    struct buffer body;
    int upload; /* file descriptor, or -1 */
    /* bytes uploaded so far, which count toward server->uploads */
    uint64_t uploaded;
    char upload_path[40]; /* path of the upload while it is open, otherwise "" */
    int file;             /* file being sent, or -1 */
    uint64_t file_left;
    bool keep_alive;
};

static const struct web_route *const web_tables[] = { web_filter_routes,
                                                      web_key_routes,
                                                      web_file_routes,
                                                      web_service_routes,
                                                      web_gate_routes,
                                                      web_front_routes,
                                                      NULL };

/* ---- Answers -------------------------------------------------------------------------------- */

void web_header(struct web_request *request, const char *name, const char *value)
{
    struct web_answer *answer = &request->answer;
    if (answer->extras < WEB_EXTRAS) {
        buffer_put(&answer->more, name, strlen(name) + 1);
        buffer_put(&answer->more, value, strlen(value) + 1);
        answer->extras += !answer->more.overflow;
    }
}

/* Frees the memory used by a response that has been sent or abandoned. */
static void web_answer_free(struct web_answer *answer)
{
    buffer_free(&answer->body);
    buffer_free(&answer->more);
    answer->extras = 0;
}

/* Writes JSON to the body of a response. The body's memory counts toward the memory limit. */
static ssize_t web_json_write(void *request, const char *bytes, size_t n)
{
    struct buffer *body = &((struct web_request *)request)->answer.body;
    buffer_put(body, bytes, n);
    return body->overflow ? 0 : (ssize_t)n;
}

static bool web_json_open(struct web_request *request, struct json *json)
{
    const cookie_io_functions_t writes = { .write = web_json_write };
    FILE *to = fopencookie(request, "w", writes);
    if (to) {
        json_begin_bare(json, to);
    }
    return to != NULL;
}

bool web_json_begin(struct web_request *request, struct json *json)
{
    return web_json_open(request, json)
           || web_error(request, 507, "out_of_memory", "out of memory");
}

void web_json_end(struct web_request *request, struct json *json)
{
    json_end(json);
    const bool failed = ferror(json->to) != 0;
    const bool whole = fclose(json->to) == 0 && !failed;
    request->answer.type = "application/json";
    request->answer.body.overflow = request->answer.body.overflow || !whole;
}

bool web_error(struct web_request *request, int status, const char *code,
               const char *format, ...)
{
    char message[1024];
    struct json json;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    request->answer.status = status;
    buffer_clear(&request->answer.body, 0);
    if (web_json_open(request, &json)) {
        json_object(&json, "error");
        json_text(&json, "code", code);
        json_text(&json, "message", message);
        json_close(&json, '}');
        web_json_end(request, &json);
    }
    return false;
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
        { BG_EBUSY, 409, "busy" },
        { BG_ECANCELED, 409, "busy" },
        { BG_EQUOTA, 429, "limit" },
        { BG_EBUILD, 500, "internal" },
    };
    const char *message = error_text(info, err);
    char why[LEDGER_WHY];
    if (err == BG_ENOMEM && ledger_refusal(why)) {
        message = why;
    }
    if (err == BG_EQUOTA && strncmp(message, "maxmemory", 9) == 0) {
        err = BG_ENOMEM; /* the memory limit has its own status */
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].err == err) {
            web_error(request, known[i].status, known[i].code, "%s", message);
            return;
        }
    }
    web_error(request, 500, "internal", "%s", message);
}

/* If a response is too large for the buffer, replaces it with an error instead of truncating it. */
static void web_check_size(struct web_request *request)
{
    if (request->answer.body.overflow) {
        web_error(
            request, 507, "out_of_memory",
            "the response is larger than half of client-output-buffer-limit; request "
            "less data, or raise the limit");
    }
}

static void web_send(struct conn *conn, struct web_request *request)
{
    struct http_state *http = conn->http;
    struct web_answer *answer = &request->answer;
    struct http_extra extras[WEB_EXTRAS];
    const bool head_only = http_method_is(&http->request, "HEAD");
    const bool from_file = answer->file >= 0;
    web_check_size(request);
    const char *at = buffer_bytes(&answer->more);
    for (size_t i = 0; i < answer->extras; i++) {
        extras[i].name = at;
        at += strlen(at) + 1;
        extras[i].value = at;
        at += strlen(at) + 1;
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
    http_response_head(&conn->out, &response);
    if (from_file && !head_only) {
        http->file = answer->file;
        http->file_left = answer->file_bytes;
    } else if (from_file) {
        close(answer->file);
    } else if (!head_only) {
        buffer_put(&conn->out, buffer_bytes(&answer->body),
                   buffer_waiting(&answer->body));
    }
    web_answer_free(answer);
}

/* Prepares a request that the worker answers without a job. */
static void web_prepare(struct conn *conn, struct web_request *request)
{
    *request = (struct web_request){ .head = &conn->http->request,
                                     .client = &conn->client,
                                     .session = &conn->worker->session,
                                     .secure = conn->ssl != NULL,
                                     .answer.file = -1 };
    buffer_init(&request->answer.body, conn->out.limit / 2);
    buffer_init(&request->answer.more, WEB_MORE);
}

/* ---- Between requests ------------------------------------------------------------------------ */

static void web_forget_body(struct conn *conn)
{
    struct http_state *http = conn->http;
    buffer_free(&http->body);
    if (http->upload >= 0) {
        close(http->upload); /* already unlinked, so this deletes the file */
        http->upload = -1;
        atomic_fetch_sub(&conn->worker->server->uploads, http->uploaded);
        http->uploaded = 0;
    }
    http->upload_path[0] = 0;
}

static void web_forget_head(struct http_state *http)
{
    free(http->head);
    ledger_release(LEDGER_BUFFERS, http->head_bytes);
    http->head = NULL;
    http->head_bytes = 0;
}

/* Finishes a request and starts the next one. */
static void web_next(struct conn *conn)
{
    struct http_state *http = conn->http;
    web_forget_body(conn);
    web_forget_head(http);
    http_request_reset(&http->request);
    conn->amid = false;
    http->phase = http->file >= 0 ? WEB_SENDS : WEB_HEAD;
    if (http->file < 0 && !http->keep_alive) {
        conn->client.close = true;
    }
}

/* Continues after a response that was written before the request's body was read. */
static void web_skip(struct conn *conn)
{
    struct http_state *http = conn->http;
    web_forget_body(conn);
    if (http->keep_alive && http->request.body != HTTP_BODY_NONE) {
        (void)http_body_begin(&http->reading, &http->request, WEB_SKIP);
        http->phase = WEB_SKIPS_BODY;
        conn->amid = true;
        return;
    }
    conn->lingers = !http->keep_alive;
    web_next(conn);
}

/* Returns whether the connection can be reused after the body of this request has been skipped. */
static bool web_can_skip(const struct http_request *head)
{
    return head->body == HTTP_BODY_NONE
           || (head->body == HTTP_BODY_LENGTH && head->length <= WEB_SKIP
               && !head->expects_continue);
}

/* Sends the response to a request that the worker answers without a job and without reading its body. */
static void web_refuse(struct conn *conn, struct web_request *request)
{
    conn->http->keep_alive =
        conn->http->keep_alive && web_can_skip(&conn->http->request);
    web_send(conn, request);
    web_skip(conn);
}

/* Rejects a malformed request and closes the connection, because the end of the request is
 * unknown. */
static void web_reject(struct conn *conn, int status, const char *reason)
{
    static const struct {
        int status;
        const char *code;
    } known[] = { { 413, "too_large" },         { 414, "uri_too_long" },
                  { 431, "headers_too_large" }, { 501, "not_implemented" },
                  { 505, "not_implemented" },   { 507, "out_of_memory" } };
    struct web_request request;
    const char *code = "bad_request";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        code = known[i].status == status ? known[i].code : code;
    }
    web_prepare(conn, &request);
    web_error(&request, status, code, "%s", reason);
    conn->http->keep_alive = false;
    web_send(conn, &request);
    web_skip(conn);
}

static void web_no_memory(struct conn *conn)
{
    char why[LEDGER_WHY];
    web_reject(conn, 507, ledger_refusal(why) ? why : "out of memory");
}

/* ---- Routes ------------------------------------------------------------------------------------ */

/* Compares the path without decoding it, so that each path has exactly one spelling. */
static bool web_path_fits(const char *pattern, bg_bytes path)
{
    const char *at = path.data, *end = at + path.len;
    while (*pattern == '/' && at < end && *at == '/') {
        pattern++;
        at++;
        const size_t len = strcspn(pattern, "/");
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const size_t has = slash ? (size_t)(slash - at) : (size_t)(end - at);
        const bool any = len == 1 && *pattern == '*';
        if (any ? has == 0 : has != len || memcmp(at, pattern, len) != 0) {
            return false;
        }
        pattern += len;
        at += has;
    }
    return *pattern == 0 && at == end;
}

/* Returns the route of a request. If it returns NULL, `allowed` contains the methods that the path supports, or "". */
static const struct web_route *web_find_route(const struct http_request *head,
                                              char allowed[100])
{
    const bg_bytes path = http_part(head, head->path);
    size_t used = 0;
    allowed[0] = 0;
    for (size_t t = 0; web_tables[t]; t++) {
        for (const struct web_route *route = web_tables[t]; route->path; route++) {
            if (!web_path_fits(route->path, path)) {
                continue;
            }
            const bool get = strcmp(route->method, "GET") == 0;
            if (http_method_is(head, route->method)
                || (get && http_method_is(head, "HEAD"))) {
                return route;
            }
            used +=
                (size_t)snprintf(allowed + used, 100 - used, "%s%s%s", used ? ", " : "",
                                 route->method, get ? ", HEAD" : "");
        }
    }
    if (!used && (http_same(path, "/healthz") || asset_find(path))) {
        (void)snprintf(allowed, 100, "GET, HEAD");
    }
    return NULL;
}

/* Sends 404 for an unknown path, or 405 with the allowed methods. */
static void web_refuse_path(struct web_request *request, const char *allowed)
{
    const bg_bytes method = http_part(request->head, request->head->method);
    if (*allowed) {
        web_error(request, 405, "method_not_allowed",
                  "method %.*s is not allowed; use %s",
                  (int)(method.len < 32 ? method.len : 32), (const char *)method.data,
                  allowed);
        web_header(request, "Allow", allowed);
    } else {
        web_error(request, 404, "not_found", "unknown path");
    }
    web_header(request, "Cache-Control", "no-store");
}

/* ---- Jobs ----------------------------------------------------------------------------------------- */

struct web_job {
    struct job job; /* must be first */
    struct conn *conn;
    /* The job only authenticates the user, before the body is read. */
    bool asks;
    struct client client; /* a copy, because other threads read the original */
    struct web_request request;
};

static void web_go_on(struct conn *conn);

static void web_job_run(struct job *job, struct session *session)
{
    struct web_job *mine = (struct web_job *)job;
    struct web_request *request = &mine->request;
    const struct web_route *route = mine->conn->http->route;
    request->session = session;
    session->client = request->client;
    web_header(request, "Cache-Control", "no-store");
    ledger_forget();
    if (web_access(request, route, true) == WEB_MAY && !mine->asks) {
        struct quota quota;
        const bool limited = route->flags & WEB_WRITES;
        if (limited) {
            quota_begin(&quota, session, true);
        }
        route->run(request);
        if (limited) {
            quota_end(&quota, session, request->name);
        }
    }
    request->answer.wrote =
        request->answer.wrote || session->wrote || route->flags & WEB_WRITES;
    session->client = NULL;
}

static void web_job_answer(struct web_job *mine)
{
    struct conn *conn = mine->conn;
    client_set_user(&conn->client, mine->client.user);
    if (mine->asks && mine->request.answer.status == 0) {
        web_go_on(conn);
        return;
    }
    if (mine->request.answer.wrote) {
        conn_wrote(conn);
    }
    if (mine->asks) {
        web_refuse(conn, &mine->request);
    } else {
        web_send(conn, &mine->request);
        web_next(conn);
    }
}

static void web_job_done(struct job *job)
{
    struct web_job *mine = (struct web_job *)job;
    if (conn_job_done(mine->conn)) {
        web_job_answer(mine);
        conn_continue(mine->conn);
    } else if (mine->request.answer.file >= 0) {
        close(mine->request.answer.file);
    }
    web_answer_free(&mine->request.answer);
    client_set_user(&mine->client, NULL);
    ledger_release(LEDGER_BUFFERS, sizeof *mine);
    free(mine);
}

static struct web_job *web_job_create(void)
{
    struct web_job *job = NULL;
    if (ledger_reserve_small(sizeof *job)) {
        job = calloc(1, sizeof *job);
        ledger_release(LEDGER_BUFFERS, job ? 0 : sizeof *job);
    }
    return job;
}

enum { WEB_NAME_AT = 3 }; /* /api/v1/filters/NAME */

/* Submits a job that runs the request, or only authenticates its user. */
static void web_submit(struct conn *conn, bool asks)
{
    struct http_state *http = conn->http;
    struct web_job *job = web_job_create();
    if (!job) {
        web_no_memory(conn);
        return;
    }
    job->job = (struct job){ .run = web_job_run,
                             .done = web_job_done,
                             .worker = conn->worker,
                             .owner = conn->client.user };
    job->conn = conn;
    job->asks = asks;
    web_prepare(conn, &job->request);
    client_copy(&job->client, &conn->client);
    job->request.client = &job->client;
    (void)http_path(&http->request, job->request.path_room, &job->request.path);
    if (asks) {
        job->job.lane = JOBS_LANE_PASSWORDS;
    } else if (http->route->flags & WEB_WRITES
               && job->request.path.count > WEB_NAME_AT) {
        job->job.lane = catalog_hash(conn->worker->server->catalog,
                                     job->request.path.segments[WEB_NAME_AT]);
    }
    job->request.body = (bg_bytes){ http->body.data ? buffer_bytes(&http->body) : "",
                                    buffer_waiting(&http->body) };
    job->request.body_file = http->upload_path[0] ? http->upload_path : NULL;
    conn->busy = true;
    conn->amid = false;
    http->phase = WEB_RUNS;
    jobs_submit(conn->worker->server->jobs, &job->job);
}

/* ---- Immediate responses ----------------------------------------------------------------- */

static void web_answer_text(struct conn *conn, int status, const char *text)
{
    struct web_request request;
    web_prepare(conn, &request);
    buffer_text(&request.answer.body, text);
    buffer_text(&request.answer.body, "\n");
    request.answer.status = status;
    request.answer.type = "text/plain; charset=utf-8";
    web_header(&request, "Cache-Control", "no-store");
    if (status == 503) {
        web_header(&request, "Retry-After", "1");
    }
    web_send(conn, &request);
    web_next(conn);
}

static void web_answer_asset(struct conn *conn, const struct asset *asset)
{
    struct web_request request;
    web_prepare(conn, &request);
    request.answer.type = asset->type;
    web_header(&request, "ETag", asset->etag);
    web_header(&request, "Cache-Control", "no-cache");
    web_header(&request, "Content-Security-Policy", ASSET_POLICY);
    web_header(&request, "Referrer-Policy", "no-referrer");
    if (http_if_none_match(request.head, asset->etag) == HTTP_MATCH_YES) {
        request.answer.status = 304;
    } else {
        buffer_put(&request.answer.body, asset->bytes, asset->size);
    }
    web_send(conn, &request);
    web_next(conn);
}

/* Answers health checks and requests for assets without a job or a user. Returns false for other
 * requests. */
static bool web_answer_at_once(struct conn *conn)
{
    const struct http_request *head = &conn->http->request;
    const bg_bytes path = http_part(head, head->path);
    if (head->body != HTTP_BODY_NONE
        || (!http_method_is(head, "GET") && !http_method_is(head, "HEAD"))) {
        return false;
    }
    if (http_same(path, "/healthz")) {
        web_answer_text(conn, 200, "ok");
        return true;
    }
    if (http_same(path, "/readyz") && !head->has_query) {
        const char *state = service_state(conn->worker->server);
        web_answer_text(conn, strcmp(state, "ready") == 0 ? 200 : 503, state);
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

int web_scratch(const char *folder, const char *name, char *path, size_t room)
{
    const char *const folders[] = { folder, P_tmpdir };
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < 2; i++) {
        const int n = snprintf(path, room, "%s/%s-XXXXXX", folders[i], name);
        if (n > 0 && (size_t)n < room) {
            fd = mkostemp(path, O_CLOEXEC);
        }
    }
    return fd;
}

static bool web_open_upload(struct conn *conn)
{
    struct http_state *http = conn->http;
    char path[4096];
    http->upload = web_scratch(settings_now(conn->worker->server->store)->dir, "upload",
                               path, sizeof path);
    if (http->upload >= 0) {
        (void)unlink(path);
        (void)snprintf(http->upload_path, sizeof http->upload_path, "/proc/self/fd/%d",
                       http->upload);
    }
    return http->upload >= 0;
}

static void web_read_rest(struct conn *conn)
{
    struct http_state *http = conn->http;
    const struct settings *settings = settings_now(conn->worker->server->store);
    const bool upload = http->route->flags & WEB_UPLOAD;
    const uint64_t most =
        upload ? web_upload_limit(settings) : settings->proto_max_bulk_len;
    struct web_request request;
    web_prepare(conn, &request);
    if (!http_body_begin(&http->reading, &http->request, most)) {
        web_error(&request, 413, "too_large",
                  "body: found %llu bytes, expected at most %llu",
                  (unsigned long long)http->request.length, (unsigned long long)most);
    } else if (upload && !web_open_upload(conn)) {
        web_error(&request, 500, "io", "cannot store the upload: %s",
                  text_errno(errno));
    }
    if (request.answer.status) {
        web_refuse(conn, &request);
        return;
    }
    buffer_init(&http->body, most);
    if (http->request.expects_continue) {
        http_response_continue(&conn->out);
    }
    http->phase = WEB_READS_BODY;
    conn->amid = true;
}

/* Continues with an authorized request: reads its body, or runs the request if it has none. */
static void web_go_on(struct conn *conn)
{
    if (conn->http->request.body == HTTP_BODY_NONE) {
        web_submit(conn, false);
    } else {
        web_read_rest(conn);
    }
}

/* Handles a complete head: finds the route and checks access. The user is determined before a job is
 * submitted, so that the job belongs to that user (jobs.h). */
static void web_head_done(struct conn *conn)
{
    struct http_state *http = conn->http;
    struct http_path path;
    struct web_request request;
    char room[HTTP_LINE_BYTES], allowed[100];
    atomic_fetch_add_explicit(&conn->worker->counts.http_requests, 1,
                              memory_order_relaxed);
    http->keep_alive = http->request.keep_alive && !conn->worker->stopping;
    if (http->request.body == HTTP_BODY_LENGTH && http->request.length == 0) {
        http->request.body = HTTP_BODY_NONE;
    }
    if (web_answer_at_once(conn)) {
        return;
    }
    web_prepare(conn, &request);
    if (!http_path(&http->request, room, &path)) {
        web_error(
            &request, 400, "bad_request",
            "path: expected at most %d segments, and two hex digits after every %%",
            HTTP_SEGMENTS);
    } else if (!(http->route = web_find_route(&http->request, allowed))) {
        web_refuse_path(&request, allowed);
    }
    if (request.answer.status) {
        web_refuse(conn, &request);
        return;
    }
    switch (web_access(&request, http->route, false)) {
    case WEB_MAY: web_go_on(conn); break;
    case WEB_MAY_NOT:
        web_header(&request, "Cache-Control", "no-store");
        web_refuse(conn, &request);
        break;
    case WEB_LATER: web_submit(conn, true); break;
    }
    web_answer_free(&request.answer); /* needed if the response was not sent */
}

static bool web_keep_head(struct http_state *http, const char *bytes, size_t n)
{
    if (!ledger_reserve_small(n)) {
        return false;
    }
    http->head_bytes = n;
    http->head = malloc(n);
    if (!http->head) {
        return false; /* web_next releases the reserved bytes */
    }
    memcpy(http->head, bytes, n);
    http_request_moved(&http->request, http->head);
    return true;
}

static size_t web_read_head(struct conn *conn, const char *bytes, size_t n)
{
    struct http_state *http = conn->http;
    switch (http_parse(&http->request, bytes, n)) {
    case HTTP_PARTIAL: return 0;
    case HTTP_ERROR:
        http->request.head = bytes;
        web_reject(conn, http->request.status, http->request.reason);
        return n;
    case HTTP_OK: break;
    }
    const size_t consumed = http->request.consumed;
    if (!web_keep_head(http, bytes, consumed)) {
        http->request.head = bytes;
        web_no_memory(conn);
        return n;
    }
    web_head_done(conn);
    return consumed;
}

/* Adds n bytes to the total size of all uploads. If the total would exceed maxmemory, returns false without adding the
 * bytes. */
static bool web_count_upload(struct conn *conn, uint64_t n)
{
    struct server *server = conn->worker->server;
    const uint64_t most = conn->worker->session.from->maxmemory;
    if (atomic_fetch_add(&server->uploads, n) + n > most && most) {
        atomic_fetch_sub(&server->uploads, n);
        return false;
    }
    conn->http->uploaded += n;
    return true;
}

/* Stores the next part of the body. Returns NULL on success, or the reason for the failure. */
static const char *web_keep(struct conn *conn, bg_bytes data)
{
    struct http_state *http = conn->http;
    const char *from = data.data;
    size_t left = data.len;
    if (http->phase == WEB_SKIPS_BODY) {
        return NULL;
    }
    if (http->upload < 0) {
        buffer_put(&http->body, data.data, data.len);
        return http->body.overflow ? "cannot store the request body" : NULL;
    }
    if (!web_count_upload(conn, data.len)) {
        return "uploads in progress would use more disk space than maxmemory allows";
    }
    while (left > 0) {
        const ssize_t n = write(http->upload, from, left);
        if (n < 0 && errno != EINTR) {
            return "cannot store the request body";
        }
        from += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return NULL;
}

static void web_body_done(struct conn *conn)
{
    if (conn->http->phase == WEB_SKIPS_BODY) {
        web_next(conn);
    } else {
        web_submit(conn, false);
    }
}

static size_t web_read_body(struct conn *conn, const char *bytes, size_t n)
{
    struct http_state *http = conn->http;
    const char *wrong = NULL;
    char why[LEDGER_WHY];
    size_t at = 0;
    for (;;) {
        bg_bytes data = { NULL, 0 };
        size_t used = 0;
        const enum http_body_result result =
            http_body_read(&http->reading, bytes + at, n - at, &data, &used);
        at += used;
        switch (result) {
        case HTTP_BODY_DATA:
            wrong = web_keep(conn, data);
            if (wrong) {
                web_reject(conn, 507, ledger_refusal(why) ? why : wrong);
                return n;
            }
            break;
        case HTTP_BODY_MORE: return at;
        case HTTP_BODY_ERROR:
            web_reject(conn, http->reading.status, http->reading.reason);
            return n;
        case HTTP_BODY_END: web_body_done(conn); return at;
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
        } else if (phase == WEB_READS_BODY || phase == WEB_SKIPS_BODY) {
            used = web_read_body(conn, bytes + at, n - at);
        }
        at += used;
        if (used == 0 && (int)http->phase == phase) {
            break;
        }
        if (phase == WEB_HEAD) {
            conn->turn--;
        }
    }
    return conn->client.close ? n : at;
}

/* Refuses a partially received request. If the response has already been sent and the rest of the
 * body is being skipped, closes the connection without another response. */
static bool web_refuse_rest(struct conn *conn, const char *why)
{
    struct http_state *http = conn->http;
    if (conn->busy || http->phase == WEB_SENDS) {
        return false;
    }
    if (http->phase == WEB_SKIPS_BODY) {
        http->keep_alive = false;
        conn->lingers = true;
        web_next(conn);
    } else {
        if (!http->head) { /* the head has not been copied yet */
            const int minor = http->request.minor;
            http_request_reset(&http->request);
            http->request.minor = minor;
        }
        web_reject(conn, 507, why);
    }
    return true;
}

/* Sends the next chunk of a file, after everything written so far has been sent. */
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
        if (http->file_left > 0) {
            /* The file is shorter than announced, which can be signaled only by closing the
             * connection. */
            http->keep_alive = false;
        }
        close(http->file);
        http->file = -1;
        http->phase = WEB_HEAD;
        conn->client.close = conn->client.close || !http->keep_alive;
        conn_again(conn); /* the next request may already have been received */
    }
}

static bool web_begin(struct conn *conn)
{
    const size_t bytes = sizeof *conn->http;
    if (!ledger_reserve_small(bytes)) {
        return false;
    }
    conn->http = calloc(1, bytes);
    if (!conn->http) {
        ledger_release(LEDGER_BUFFERS, bytes);
        return false;
    }
    atomic_fetch_add(&conn->worker->server->http_clients, 1);
    conn->http->upload = conn->http->file = -1;
    http_request_reset(&conn->http->request);
    return true;
}

static void web_end(struct conn *conn)
{
    struct http_state *http = conn->http;
    if (http) {
        atomic_fetch_sub(&conn->worker->server->http_clients, 1);
        web_forget_body(conn);
        if (http->file >= 0) {
            close(http->file);
        }
        web_forget_head(http);
        ledger_release(LEDGER_BUFFERS, sizeof *http);
        free(http);
    }
}

#define WEB_NOT_OPENED(status, code, message)                                          \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"      \
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"                     \
    "{\"error\":{\"code\":\"" code "\",\"message\":\"" message "\"}}\n"

const struct protocol http_protocol = {
    .name = "http",
    .begin = web_begin,
    .input = web_input,
    .refuse = web_refuse_rest,
    .more = web_more,
    .end = web_end,
    .too_many = WEB_NOT_OPENED("503 Service Unavailable", "too_many_clients",
                               "the maximum number of clients is reached (maxclients)"),
    .no_memory = WEB_NOT_OPENED("507 Insufficient Storage", "out_of_memory",
                                "not enough memory for another connection (maxmemory)")
};

/*
 * web.h - HTTP: passes requests to handlers, and sends their responses.
 *
 * A connection reads the head of a request, checks whether the request is allowed
 * (api/access.c), and then reads its body into memory or, for uploads, into a file in the data
 * directory. A job then runs the handler that the table of routes lists for the method and path.
 * The response is sent, and the next request is read. Health checks and requests for dashboard
 * files are answered without a job. web/openapi.yaml is the contract.
 *
 * Handlers run on job threads with a session, so they may run for a long time. They may call the
 * host's functions (session->host), and the functions of catalog.h on entries found by
 * session_find. They fill in `answer` and return. The user is authenticated before the handler
 * runs. The handler checks permissions with web_may or web_find, or relies on the checks of the
 * command that it runs.
 */
#ifndef SERVER_API_WEB_H
#define SERVER_API_WEB_H

#include "http/fields.h"
#include "http/http.h"
#include "json.h"
#include "json_read.h"
#include "request/session.h"
#include "util/buffer.h"

#include <stdio.h>

enum { WEB_EXTRAS = 8 };

/* A handler's response. */
struct web_answer {
    int status;       /* default: 200 */
    const char *type; /* content type of `body` */
    struct buffer body;
    int file; /* file to send instead of `body`, closed afterwards; -1 if none */
    uint64_t file_bytes;
    /* send the response only after the journal records are durable */
    bool wrote;
    size_t extras;      /* number of additional header fields */
    struct buffer more; /* alternating names and values, each followed by a NUL */
};

struct web_request {
    const struct http_request *head;
    struct http_path path;
    char path_room[HTTP_LINE_BYTES], name_room[HTTP_LINE_BYTES];
    bg_bytes name;         /* the name that web_name has decoded, if any */
    struct client *client; /* a copy of the client; its user is not NULL */
    struct session *session;
    bool secure;           /* received over TLS */
    bg_bytes body;         /* the whole body, except for uploads */
    const char *body_file; /* for uploads, the path of a file that contains the body */
    struct web_answer answer;
};

enum {
    WEB_UPLOAD = 1u << 0, /* the body is stored in a file */
    /* The request changes state, so it is refused if a web page on another site sent it. */
    WEB_CHANGES = 1u << 1,
    WEB_LOADING = 1u << 2, /* also served while loading */
    /* A POST that changes nothing, so its body may be text/plain. */
    WEB_PLAIN = 1u << 3,
    WEB_OPEN = 1u << 4,    /* requires no authentication; the user may be NULL */
    WEB_METRICS = 1u << 5, /* requires no authentication if metrics-auth is no */
    /* The request changes filters, so the response is sent once the changes are durable. */
    WEB_WRITES = 1u << 6
};

/* A route. A "*" segment in `path` matches any segment. */
struct web_route {
    const char *method; /* "GET" also serves HEAD */
    const char *path;   /* for example, "/api/v1/filters/" followed by "*" */
    uint32_t flags;
    void (*run)(struct web_request *request);
};

/* The route tables of the files with handlers. Each table ends with a route without a path. */
extern const struct web_route web_filter_routes[], web_key_routes[], web_file_routes[],
    web_service_routes[], web_gate_routes[], web_front_routes[];

/* ---- Access control: api/access.c ---------------------------------------------------------- */

enum web_access {
    WEB_MAY,
    WEB_MAY_NOT, /* an error response was sent */
    WEB_LATER    /* the request requires a password check, which is slow */
};

/* Checks whether a request is allowed, given its host name, its origin, its user and the state of
 * the service. If `waits` is set (in jobs), the function never returns WEB_LATER. */
enum web_access web_access(struct web_request *request, const struct web_route *route,
                           bool waits);

/* Returns the maximum size of an upload, or UINT64_MAX if there is no limit. */
uint64_t web_upload_limit(const struct settings *settings);

/* Creates a file NAME-XXXXXX in the data directory, or in the temporary directory if there is no
 * data directory. Returns the file descriptor and stores the path in `path`. On failure, returns -1
 * and sets errno. At startup, web_sweep removes files left over from a crash. */
int web_scratch(const char *folder, const char *name, char *path, size_t room);
void web_sweep(const char *folder);

/* ---- For handlers ------------------------------------------------------------------------- */

/* Sends an error response: {"error": {"code": ..., "message": ...}}. Returns false. */
bool web_error(struct web_request *request, int status, const char *code,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Sends a library error with the matching status. */
void web_failed(struct web_request *request, bg_err err, const bg_errinfo *info);

/* Adds a header field. A response may have at most WEB_EXTRAS additional fields. */
void web_header(struct web_request *request, const char *name, const char *value);

/* A JSON response. Call web_json_begin, write the content with json.h, and call web_json_end.
 * web_json_begin returns false after sending a 507 response. */
bool web_json_begin(struct web_request *request, struct json *json);
void web_json_end(struct web_request *request, struct json *json);

/* Writes a name in the API's form: "name", and also "name_base64" if the name is not valid
 * UTF-8. */
void web_json_name(struct json *json, const char *field, bg_bytes name);

/* Decodes the name in path segment i, which is either percent-encoded text or '=' followed by
 * base64url. Returns false after sending an error. */
bool web_name(struct web_request *request, size_t i, bg_bytes *name);

/* Returns whether a lost filter may have had this unknown name (doubt.h). */
bool web_doubts(const struct web_request *request, bg_bytes name);

/* Returns the filter with this name if it exists and the user has the permission `need` (USER_READ
 * or USER_WRITE). Otherwise sends a 404 or 403 response and returns NULL. */
struct entry *web_find(struct web_request *request, bg_bytes name, unsigned need);

/* Returns whether the user has the permission `need` for a name; if not, sends a 404 or 403
 * response. */
bool web_may_touch(struct web_request *request, bg_bytes name, unsigned need);

/* Returns whether the user may run a command; if not, sends a 403 response. */
bool web_may(struct web_request *request, const char *command);

/* Returns whether the user is an administrator, that is, may change the configuration. */
bool web_is_admin(const struct web_request *request);
bool web_user_is_admin(const struct server *server, const struct user *user);

/* Runs a command as if it had been received over RESP. Returns false after sending the command's
 * error. For an error without a code, the status is 422 (the filter does not support the command)
 * if `of_filter` is set, and 400 (invalid arguments) otherwise. */
bool web_command(struct web_request *request, const bg_bytes *argv, size_t argc,
                 bool of_filter);

/* Like web_command, but also sets *count to the integer reply. */
bool web_command_count(struct web_request *request, const bg_bytes *argv, size_t argc,
                       bool of_filter, int64_t *count);

/* ---- If-Match and If-None-Match (api/files.c) ---------------------------------------------- */

/* Size of a tag with its quotes, in bytes. */
enum { WEB_TAG = BG_DIGEST_TEXT_BYTES + 2 };

bool web_is_conditional(const struct web_request *request);

/* Returns whether the request's preconditions hold for the named filter, which may not exist. If
 * not, sends a 412 response. The terms refer to the state that was compared (see session_see). */
bool web_precondition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms);

/* Applies a change under these terms. If the terms are no longer met (BG_ECANCELED), checks the
 * preconditions again. If the preconditions are not met, sends a 412 response and returns false.
 * Otherwise, sets *err to the result of the change. */
typedef bg_err web_change(struct web_request *request, bg_bytes name,
                          const struct catalog_terms *terms, void *context,
                          bg_errinfo *info);
bool web_on_condition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms, web_change *change, void *context,
                      bg_err *err, bg_errinfo *info);

/* Returns whether the content type is `type`, ignoring parameters. Sets *there to whether the
 * request has a content type. */
bool web_type_is(const struct web_request *request, const char *type, bool *there);

/* Sends 415 with the Content-Type of the request and the accepted types. */
void web_wrong_type(struct web_request *request, const char *accepted);

/* Begin and end reading a JSON object from the body. After sending an error, they return false:
 * web_body sends 415, and web_body_end sends 400. */
bool web_body(struct web_request *request, struct json_reader *reader);
bool web_body_end(struct web_request *request, struct json_reader *reader);

/* Reads "utf-8" or "base64". On error, returns false and stores the error in the reader. */
bool web_read_encoding(struct json_reader *reader, bool *base64);

/* Appends the strings of a list to `items`, updating *n. Fails, with the error stored in the reader, if
 * there are more than `most`, or if `base64` is set and a string is not valid base64. */
void web_read_list(struct json_reader *reader, bool base64, bg_bytes *items,
                   size_t most, const char *too_many, size_t *n);

/* Decodes base64 in either alphabet, with or without padding, into a buffer that is at least 3/4 as
 * large as the text. */
bool web_base64_read(bg_bytes text, char *to, size_t *n);

/* Encodes a name as a path segment: '=' followed by base64url. The caller frees the result. Returns
 * NULL if out of memory. */
char *web_segment(bg_bytes name);

/* Decodes a name from a parameter or from JSON. The text is either the name itself or '=' followed
 * by base64url. */
bool web_name_read(bg_bytes text, char *room, bg_bytes *name);

/* Write an estimate or a number, or null if it is unknown or 0. */
void web_json_estimate(struct json *json, const char *name, bool known,
                       const bg_estimate *estimate);
void web_json_known(struct json *json, const char *name, bool known, double value);
void web_json_count(struct json *json, const char *name, bool known, uint64_t value);
static inline void web_json_nonzero(struct json *json, const char *name, uint64_t value)
{
    web_json_count(json, name, value != 0, value);
}

/* Writes the member "can": the operations that a kind supports in addition to lookups. */
void web_json_can(struct json *json, bg_kind kind);

/* Writes the member "counters": queries, maybes, adds, news, refused. */
void web_json_answers(struct json *json, const bg_slot_info *stats);

/* Writes a filter as the `Filter` schema in web/openapi.yaml. If `whole` is false, writes only the
 * members shown in lists. The caller must be inside a batch or hold the entry. */
void web_json_filter(struct json *json, struct web_request *request,
                     struct entry *entry, bool whole);

/* Responds with a filter that the user may read. Returns false after sending an error. */
bool web_answer_filter(struct web_request *request, bg_bytes name, int status);

/* Reports the first parameter with an invalid percent-encoding. Returns false. */
bool web_query_error(struct web_request *request);

/* Read query parameters: a number within bounds (default: `usual`), a flag or text. Numbers may have
 * units: web_count parses them with args_amount, and web_real with `parse`, a function of args.h.
 * These functions return false after sending a 400 response. */
bool web_count(struct web_request *request, const char *name, uint64_t least,
               uint64_t most, uint64_t usual, uint64_t *value);
bool web_real(struct web_request *request, const char *name,
              bool (*parse)(bg_bytes text, double *value), double usual, double *value);
bool web_flag(struct web_request *request, const char *name, bool *value);
bool web_text(struct web_request *request, const char *name, char *text, size_t room,
              bool *there);

/* Read query parameters: the index of one of n words (unchanged if there is no such parameter), or
 * the name of a filter (as web_name_read does). */
bool web_choice(struct web_request *request, const char *name,
                const char *const *choices, size_t n, int *index);
bool web_kind(struct web_request *request, bg_kind *kind); /* the parameter "kind" */
bool web_parameter_name(struct web_request *request, const char *name,
                        char text[HTTP_LINE_BYTES], char room[HTTP_LINE_BYTES],
                        bg_bytes *value, bool *there);

#endif

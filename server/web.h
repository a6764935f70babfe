/*
 * web.h - HTTP: from bytes of a connection to handlers, and their answers back.
 *
 * A connection reads the head of a request, finds out whether it may be (web_access.c), then reads
 * its body: into memory, or for uploads into a file in the data folder. Then a job runs the handler
 * that the table of routes has for method and path; its answer is sent, and the next request read.
 * Health and the files of the dashboard are answered at once. Contract of all of it:
 * web/openapi.yaml.
 *
 * Handlers run on job threads with a session, so they may take long, use the host's functions
 * (session->host) and everything of catalog.h for entries that session_find has found. They fill
 * in `answer`, and return; who it is was checked before, what he may do is checked by the handler:
 * web_may, web_find, or the command that it runs.
 */
#ifndef SERVER_WEB_H
#define SERVER_WEB_H

#include "buffer.h"
#include "http.h"
#include "http_fields.h"
#include "http_target.h"
#include "json.h"
#include "json_read.h"
#include "session.h"

#include <stdio.h>

enum { WEB_EXTRAS = 8 };

/* What is sent back. */
struct web_answer {
    int status;       /* 200 if nothing else is said */
    const char *type; /* of `body` */
    struct buffer body;
    int file; /* instead of `body`: a descriptor, closed when it was sent; -1: none */
    uint64_t file_bytes;
    bool wrote;         /* wait until what was recorded is safe */
    size_t extras;      /* further header fields */
    struct buffer more; /* their names and values, in turn, each with a NUL behind it */
};

struct web_request {
    const struct http_request *head;
    struct http_path path;
    char path_room[HTTP_LINE_BYTES], name_room[HTTP_LINE_BYTES];
    struct client *client; /* who asks: the request's own copy; user is not NULL */
    struct session *session;
    bool secure;           /* it came by TLS */
    bg_bytes body;         /* all of it; */
    const char *body_file; /* or, of uploads, the path of a file that has it */
    struct web_answer answer;
};

enum {
    WEB_UPLOAD = 1u << 0,  /* the body goes to a file */
    WEB_CHANGES = 1u << 1, /* does something: must not come from another web page */
    WEB_LOADING = 1u << 2, /* also while the service is loading */
    WEB_PLAIN = 1u << 3,   /* POST that may have the type text/plain: changes nothing */
    WEB_OPEN = 1u << 4,    /* nobody is asked who he is */
    WEB_METRICS = 1u << 5, /* ... if metrics-auth says so */
    WEB_WRITES = 1u << 6   /* changes filters: the answer waits until that is safe */
};

/* One route. In `path` a segment "*" stands for any one. */
struct web_route {
    const char *method; /* "GET" also answers HEAD */
    const char *path;   /* "/api/v1/filters/" and then, for any name, a star */
    uint32_t flags;
    void (*run)(struct web_request *request);
};

/* The table, ended by one without a path: of all web_*.c. */
extern const struct web_route web_filter_routes[], web_key_routes[], web_file_routes[],
    web_service_routes[], web_gate_routes[], web_front_routes[];

/* ---- Whether it may be: web_access.c ------------------------------------------------------- */

enum web_access {
    WEB_MAY,
    WEB_MAY_NOT, /* an error was sent */
    WEB_LATER    /* a password has to be checked, which takes long */
};

/* Whether a request may be made at all: by this host name, from this page, by this user, now.
 * `waits`: never WEB_LATER; for jobs. */
enum web_access web_access(struct web_request *request, const struct web_route *route,
                           bool waits);

/* How large an upload may be. UINT64_MAX: no limit. */
uint64_t web_upload_limit(const struct settings *settings);

/* Makes a file NAME-XXXXXX, whose name begins so, in the data folder; or where temporary files are
 * if that is not there. Gives its path, and a descriptor; -1: errno. What a crash leaves of them is
 * removed by web_sweep at the next start. */
int web_scratch(const char *folder, const char *name, char *path, size_t room);
void web_sweep(const char *folder);

/* ---- For handlers ------------------------------------------------------------------------- */

/* {"error": {"code": ..., "message": ...}} */
void web_error(struct web_request *request, int status, const char *code,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether a limit that was hit is maxmemory, by its message. */
bool web_is_of_memory(const char *message, size_t n);

/* The library's error, with the status that belongs to it. */
void web_failed(struct web_request *request, bg_err err, const bg_errinfo *info);

/* One more header field, WEB_EXTRAS at most. */
void web_header(struct web_request *request, const char *name, const char *value);

/* JSON: begin, write with json.h, end. */
struct web_json {
    struct json json;
};
bool web_json_begin(struct web_request *request,
                    struct web_json *json); /* or 507 was sent */
void web_json_end(struct web_request *request, struct web_json *json);

/* A name as the API writes it: "name", and "name_base64" if it is not UTF-8. */
void web_json_name(struct json *json, const char *field, bg_bytes name);

/* The name in path segment i, decoded: percent-encoded, or '=' and base64url. False: an error
 * was sent. */
bool web_name(struct web_request *request, size_t i, bg_bytes *name);

/* Returns whether an unknown name may have been the name of a lost filter (doubt.h). */
bool web_doubts(const struct web_request *request, bg_bytes name);

/* The filter of that name, if there is one and the user may use it so: USER_READ, USER_WRITE.
 * NULL: 404 or 403 was sent. */
struct entry *web_find(struct web_request *request, bg_bytes name, unsigned need);

/* Whether the user may use that name so; else 404 or 403 was sent. */
bool web_may_touch(struct web_request *request, bg_bytes name, unsigned need);

/* Whether the user may run a command; else 403 was sent. */
bool web_may(struct web_request *request, const char *command);

/* Whether he is an administrator: who may change the configuration. */
bool web_is_admin(const struct web_request *request);
bool web_user_is_admin(const struct server *server, const struct user *user);

/* Runs a command as if it had come over RESP; false: its error was sent. One without a code is the
 * fault of the arguments (400); or, `of_filter`, of a filter that cannot do it (422). */
bool web_command(struct web_request *request, const bg_bytes *argv, size_t argc,
                 bool of_filter);

/* The same; sets *count to the integer reply. */
bool web_command_count(struct web_request *request, const bg_bytes *argv, size_t argc,
                       bool of_filter, int64_t *count);

/* ---- If-Match and If-None-Match: web_files.c ---------------------------------------------- */

enum { WEB_TAG = BG_DIGEST_TEXT + 2 }; /* bytes of an entity tag with its quotes */

bool web_is_conditional(const struct web_request *request);

/* Returns whether the preconditions hold for the named filter, or for its absence; otherwise 412 was sent. The
 * terms refer to the state that was compared: see session_see. */
bool web_precondition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms);

/* Makes a change with these terms. If they are no longer met (BG_ECANCELED), checks the preconditions again.
 * Returns false if they do not hold, and 412 was sent. Otherwise *err is the result. */
typedef bg_err web_change(struct web_request *request, bg_bytes name,
                          const struct catalog_terms *terms, void *context,
                          bg_errinfo *info);
bool web_on_condition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms, web_change *change, void *context,
                      bg_err *err, bg_errinfo *info);

/* Whether the content type is this one, whatever its parameters; *there: whether there is one. */
bool web_type_is(const struct web_request *request, const char *type, bool *there);

/* The body as JSON: false, 415 was sent. At the end: false, 400 was. */
bool web_body(struct web_request *request, struct json_reader *reader);
bool web_body_end(struct web_request *request, struct json_reader *reader);

/* "utf-8" or "base64"; false: a mistake, which the reader has. */
bool web_read_encoding(struct json_reader *reader, bool *base64);

/* Base64 of either alphabet, with padding or without, to memory of at least 3/4 of its size. */
bool web_base64_read(bg_bytes text, char *to, size_t *n);

/* A name as a segment of a path: '=' and base64url; the caller frees it. NULL: no memory. */
char *web_segment(bg_bytes name);

/* A name that is a parameter or in JSON: as it is, or '=' and base64url. */
bool web_name_read(bg_bytes text, char *room, bg_bytes *name);

/* An estimate, or null; a number, or null. */
void web_json_estimate(struct json *json, const char *name, bool known,
                       const bg_estimate *estimate);
void web_json_known(struct json *json, const char *name, bool known, double value);

/* "can": what a kind can do beside answering. */
void web_json_can(struct json *json, bg_kind kind);

/* "counters": queries, maybes, adds, news, refused. */
void web_json_answers(struct json *json, const bg_slot_stats *stats);

/* All that is known of a filter, as `Filter` of the contract; or what lists have. The caller is
 * inside of a batch, or its holder. */
void web_json_filter(struct json *json, struct web_request *request,
                     struct entry *entry, bool whole);
void web_answer_filter(struct web_request *request, struct entry *entry, int status);

/* Parameters of the query: a number within bounds (or `usual` if it is not there), a flag. False:
 * 400 was sent. */
bool web_count(struct web_request *request, const char *name, uint64_t least,
               uint64_t most, uint64_t usual, uint64_t *value);
bool web_real(struct web_request *request, const char *name, double usual,
              double *value);
bool web_flag(struct web_request *request, const char *name, bool *value);
bool web_text(struct web_request *request, const char *name, char *text, size_t room,
              bool *there);

/* One of n words; a name of a filter, as web_name_read reads it. */
bool web_choice(struct web_request *request, const char *name,
                const char *const *choices, size_t n, char *text, size_t room,
                bool *there);
bool web_parameter_name(struct web_request *request, const char *name,
                        char text[HTTP_LINE_BYTES], char room[HTTP_LINE_BYTES],
                        bg_bytes *value, bool *there);

#endif

/* api/parts.c - functions shared by handlers, for a request's names, parameters and filters. See
 * web.h. */
#include "api/web.h"

#include "args.h"
#include "core/server.h"
#include "fronts/fronts.h"
#include "gates/gates.h"
#include "persist/persist.h"
#include "resp/resp.h"
#include "text.h"
#include "util/base64.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Base64 --------------------------------------------------------------------------------- */

bool web_base64_read(bg_bytes text, char *to, size_t *n)
{
    const char *from = text.data;
    while (text.len > 0 && from[text.len - 1] == '=') {
        text.len--;
    }
    return base64_decode(text, true, to, n);
}

char *web_segment(bg_bytes name)
{
    char *text = malloc(name.len / 3 * 4 + 8);
    if (text) {
        text[0] = '=';
        text[1 + base64_encode(name, true, text + 1)] = 0;
    }
    return text;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool web_is_text(bg_bytes bytes)
{
    const char *at = bytes.data, *end = at + bytes.len;
    while (at < end) {
        uint32_t code = 0;
        const size_t used = text_character(at, (size_t)(end - at), &code);
        if (used == 0) {
            return false;
        }
        at += used;
    }
    return true;
}

void web_json_name(struct json *json, const char *field, bg_bytes name)
{
    json_bytes(json, field, name.data, name.len);
    if (!web_is_text(name)) {
        char second[80];
        char *base64 = malloc(name.len / 3 * 4 + 8);
        size_t n = base64 ? base64_encode(name, false, base64) : 0;
        while (n % 4 != 0) {
            base64[n++] = '=';
        }
        (void)snprintf(second, sizeof second, "%s_base64", field);
        json_bytes(json, second, base64 ? base64 : "", n);
        free(base64);
    }
}

bool web_name_read(bg_bytes text, char *room, bg_bytes *name)
{
    const char *bytes = text.data;
    if (text.len == 0 || bytes[0] != '=') {
        *name = text;
        return true;
    }
    size_t n = 0;
    const bool good = web_base64_read((bg_bytes){ bytes + 1, text.len - 1 }, room, &n);
    *name = (bg_bytes){ room, n };
    return good;
}

bool web_name(struct web_request *request, size_t i, bg_bytes *name)
{
    /* Only a bare '=' is special; a percent-encoded one is part of the name. */
    const bg_bytes raw = http_part(request->head, request->head->path);
    const char *at = raw.data, *end = at + raw.len;
    for (size_t slash = 0; at < end && slash <= i; at++) {
        slash += *at == '/';
    }
    *name = request->path.segments[i];
    if (at < end && *at == '='
        && !web_name_read(request->path.segments[i], request->name_room, name)) {
        return web_error(request, 400, "bad_request",
                         "name: text after '=' is not valid base64url");
    }
    request->name = *name;
    return true;
}

static void web_no_filter(struct web_request *request, bg_bytes name)
{
    char shown[64];
    struct gates *gates = request->session->server->gates;
    const bool reads = user_may_touch(request->client->user, name, USER_READ);
    const bool over = fronts_named(request->session->server->fronts, name) != NULL;
    (void)args_show(name, shown);
    if (reads && gates && gates_has(gates, name)) {
        web_error(request, 422, "not_supported",
                  "%s is a gate, not a filter; use /api/v1/gates/%s", shown, shown);
    } else if (over && reads) {
        web_error(request, 422, "not_supported",
                  "%s is a cluster filter: only check, add and GET /api/v1/fronts are "
                  "supported",
                  shown);
    } else if (web_doubts(request, name)) {
        web_error(
            request, 503, "in_doubt",
            "the journal was damaged, and filter %s may have been lost: delete it to "
            "accept the loss, or upload it",
            shown);
    } else {
        web_error(request, 404, "not_found", "there is no filter %s", shown);
    }
}

bool web_doubts(const struct web_request *request, bg_bytes name)
{
    struct session *session = request->session;
    return persist_doubts(session->server->persist, name)
           && !session_find(session, name);
}

bool web_may_touch(struct web_request *request, bg_bytes name, unsigned need)
{
    char shown[64];
    if (!user_may_touch(request->client->user, name, USER_READ)) {
        return web_error(request, 404, "not_found", "there is no filter %s",
                         args_show(name, shown));
    }
    if (!user_may_touch(request->client->user, name, need)) {
        return web_error(request, 403, "forbidden",
                         "user %s may not write to filter %s",
                         user_name(request->client->user), args_show(name, shown));
    }
    return true;
}

struct entry *web_find(struct web_request *request, bg_bytes name, unsigned need)
{
    struct entry *entry = session_find(request->session, name);
    if (!entry) {
        web_no_filter(request, name);
        return NULL;
    }
    return web_may_touch(request, name, need) ? entry : NULL;
}

bool web_may(struct web_request *request, const char *command)
{
    const struct command *found = command_find(request->session->server->commands,
                                               (bg_bytes){ command, strlen(command) });
    if (found && user_may_run(request->client->user, found)) {
        return true;
    }
    return web_error(request, 403, "forbidden",
                     "user %s may not perform this operation (%s)",
                     user_name(request->client->user), command);
}

bool web_user_is_admin(const struct server *server, const struct user *user)
{
    const struct command *config =
        command_find(server->commands, (bg_bytes){ "CONFIG", 6 });
    const struct command *set =
        config ? command_find_sub(server->commands, config, (bg_bytes){ "SET", 3 })
               : NULL;
    return set && user_may_run(user, set);
}

bool web_is_admin(const struct web_request *request)
{
    return web_user_is_admin(request->session->server, request->client->user);
}

/* ---- Files ------------------------------------------------------------------------------------- */

void web_sweep(const char *folder)
{
    DIR *all = opendir(folder);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread reads this stream */
    for (const struct dirent *one = all ? readdir(all) : NULL; one;
         one = readdir(all)) { /* NOLINT(concurrency-mt-unsafe): as above */
        if (strncmp(one->d_name, "upload-", 7) == 0
            || strncmp(one->d_name, "download-", 9) == 0) {
            (void)unlinkat(dirfd(all), one->d_name, 0);
        }
    }
    if (all) {
        (void)closedir(all);
    }
}

/* ---- Parameters -------------------------------------------------------------------------------- */

bool web_query_error(struct web_request *request)
{
    char room[HTTP_LINE_BYTES];
    bg_bytes name;
    (void)http_query_malformed(request->head, room, &name);
    return web_error(request, 400, "bad_request",
                     "%.*s: invalid percent-encoding: a %% must be followed by two "
                     "hexadecimal digits; write %%25 for a percent sign",
                     (int)(name.len < 64 ? name.len : 64), (const char *)name.data);
}

bool web_text(struct web_request *request, const char *name, char *text, size_t room,
              bool *there)
{
    char decoded[HTTP_LINE_BYTES];
    bg_bytes value;
    const enum http_found found = http_parameter(request->head, name, decoded, &value);
    *there = found == HTTP_FOUND;
    if (found == HTTP_MALFORMED) {
        return web_query_error(request);
    }
    if (*there && (value.len >= room || memchr(value.data, 0, value.len))) {
        return web_error(request, 400, "bad_request",
                         "%s: the value contains a NUL or more than %zu bytes", name,
                         room - 1);
    }
    if (*there) {
        memcpy(text, value.data, value.len);
        text[value.len] = 0;
    }
    return true;
}

bool web_count(struct web_request *request, const char *name, uint64_t least,
               uint64_t most, uint64_t usual, uint64_t *value)
{
    char text[64];
    bool there = false;
    if (!web_text(request, name, text, sizeof text, &there)) {
        return false;
    }
    *value = usual;
    if (there
        && (!args_amount((bg_bytes){ text, strlen(text) }, value) || *value < least
            || *value > most)) {
        return web_error(request, 400, "bad_request",
                         "%s: found \"%s\", expected an integer from %llu to %llu",
                         name, text, (unsigned long long)least,
                         (unsigned long long)most);
    }
    return true;
}

bool web_real(struct web_request *request, const char *name,
              bool (*parse)(bg_bytes text, double *value), double usual, double *value)
{
    char text[64];
    bool there = false;
    if (!web_text(request, name, text, sizeof text, &there)) {
        return false;
    }
    *value = usual;
    if (there && !parse((bg_bytes){ text, strlen(text) }, value)) {
        return web_error(request, 400, "bad_request",
                         "%s: found \"%s\", expected a number", name, text);
    }
    return true;
}

bool web_choice(struct web_request *request, const char *name,
                const char *const *choices, size_t n, int *index)
{
    char text[32], all[512] = "";
    size_t used = 0;
    bool there = false;
    if (!web_text(request, name, text, sizeof text, &there)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!there || strcmp(text, choices[i]) == 0) {
            *index = there ? (int)i : *index;
            return true;
        }
        used += (size_t)snprintf(all + used, used < sizeof all ? sizeof all - used : 0,
                                 "%s%s", i ? ", " : "", choices[i]);
    }
    return web_error(request, 400, "bad_request",
                     "%s: found \"%s\", expected one of %s", name, text, all);
}

bool web_kind(struct web_request *request, bg_kind *kind)
{
    static const char *const kinds[] = {
#define WEB_KIND(NAME, number, name) #name,
        BG_KINDS(WEB_KIND)
#undef WEB_KIND
    };
    int index = -1;
    if (!web_choice(request, "kind", kinds, sizeof kinds / sizeof *kinds, &index)) {
        return false;
    }
    if (index >= 0) {
        (void)bg_kind_parse(kinds[index], kind);
    }
    return true;
}

bool web_parameter_name(struct web_request *request, const char *name,
                        char text[HTTP_LINE_BYTES], char room[HTTP_LINE_BYTES],
                        bg_bytes *value, bool *there)
{
    const enum http_found found = http_parameter(request->head, name, text, value);
    *there = found == HTTP_FOUND;
    if (found == HTTP_MALFORMED) {
        return web_query_error(request);
    }
    if (*there && !web_name_read(*value, room, value)) {
        return web_error(
            request, 400, "bad_request",
            "%s: malformed value; expected a name, or '=' followed by base64url", name);
    }
    return true;
}

bool web_flag(struct web_request *request, const char *name, bool *value)
{
    char text[16];
    bool there = false;
    if (!web_text(request, name, text, sizeof text, &there)) {
        return false;
    }
    *value = there && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
    if (there && !*value && strcmp(text, "0") != 0 && strcmp(text, "false") != 0) {
        return web_error(request, 400, "bad_request",
                         "%s: found \"%s\", expected 0 or 1", name, text);
    }
    return true;
}

/* ---- Bodies of JSON ----------------------------------------------------------------------------- */

bool web_type_is(const struct web_request *request, const char *type, bool *there)
{
    bg_bytes value;
    *there = http_field(request->head, "Content-Type", &value);
    if (!*there) {
        return false;
    }
    const char *end = memchr(value.data, ';', value.len);
    value.len = end ? (size_t)(end - (const char *)value.data) : value.len;
    while (value.len > 0 && strchr(" \t", ((const char *)value.data)[value.len - 1])) {
        value.len--;
    }
    return http_same(value, type);
}

void web_wrong_type(struct web_request *request, const char *accepted)
{
    bg_bytes type = { "", 0 };
    (void)http_field(request->head, "Content-Type", &type);
    web_error(request, 415, "unsupported_media_type",
              "unsupported content type %.*s; send %s",
              (int)(type.len < 100 ? type.len : 100), (const char *)type.data,
              accepted);
}

bool web_body(struct web_request *request, struct json_reader *reader)
{
    bool there = false;
    if (!web_type_is(request, "application/json", &there) && there) {
        web_wrong_type(request, "application/json");
        return false;
    }
    json_read_begin(reader, (char *)request->body.data, request->body.len);
    (void)json_read_open(reader, '{');
    return true;
}

bool web_body_end(struct web_request *request, struct json_reader *reader)
{
    if (json_read_end(reader)) {
        return true;
    }
    return web_error(request, 400, "bad_request",
                     "body: invalid at byte %zu, expected %s",
                     (size_t)(reader->at - reader->text), reader->error);
}

void web_read_list(struct json_reader *r, bool base64, bg_bytes *items, size_t most,
                   const char *too_many, size_t *n)
{
    struct json_span text;
    if (!json_read_open(r, '[')) {
        return;
    }
    while (json_read_element(r) && json_read_string(r, &text)) {
        if (*n == most) {
            r->error = too_many;
            return;
        }
        bg_bytes *item = &items[(*n)++];
        *item = (bg_bytes){ text.bytes, text.len };
        if (base64 && !web_base64_read(*item, (char *)text.bytes, &item->len)) {
            r->error = "base64";
        }
    }
}

/* ---- Commands -------------------------------------------------------------------------------------- */

/* Converts the error text of a command to an HTTP status and an error code. */
static void web_command_failed(struct web_request *request, const char *text,
                               size_t len, bool of_filter)
{
    static const struct {
        const char *prefix;
        int status;
        const char *code;
    } known[] = {
        { "NOFILTER ", 404, "not_found" },
        { "ERR not found", 404, "not_found" },
        { "WRONGTYPE ", 422, "not_supported" },
        { "NOPERM ", 403, "forbidden" },
        { "NOAUTH ", 401, "unauthorized" },
        { "OOM ", 507, "out_of_memory" },
        { "ERR Insufficient memory", 507, "out_of_memory" },
        { "LIMIT ", 429, "limit" },
        { "MISCONF the journal was damaged", 503, "in_doubt" },
        { "MISCONF ", 500, "io" },
        { "LOADING ", 503, "loading" },
        { "BUSYKEY ", 409, "exists" },
        { "ERR item exists", 409, "exists" },
        { "BUSY ", 409, "busy" },
        { "INCOMPATIBLE ", 409, "incompatible" },
        { "NOTSUPPORTED ", 422, "not_supported" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].prefix);
        if (len >= n && memcmp(text, known[i].prefix, n) == 0) {
            const char *blank = memchr(text, ' ', len);
            const size_t code = blank ? (size_t)(blank - text) + 1 : 0;
            web_error(request, known[i].status, known[i].code, "%.*s",
                      (int)(len - code), text + code);
            if (known[i].status == 429) {
                web_header(request, "Retry-After", "1");
            }
            return;
        }
    }
    const size_t skip = len > 4 && memcmp(text, "ERR ", 4) == 0 ? 4 : 0;
    const bool busy = memmem(text, len, " being ", 7) != NULL
                      || memmem(text, len, " in progress", 12) != NULL
                      || memmem(text, len, " under way", 10) != NULL
                      || memmem(text, len, "repeat the command", 18) != NULL;
    web_error(request,
              busy        ? 409
              : of_filter ? 422
                          : 400,
              busy        ? "busy"
              : of_filter ? "not_supported"
                          : "bad_request",
              "%.*s", (int)(len - skip), text + skip);
}

bool web_command_count(struct web_request *request, const bg_bytes *argv, size_t argc,
                       bool of_filter, int64_t *count)
{
    struct buffer out;
    buffer_init(&out, (size_t)64 << 20);
    const struct reply reply = resp_reply_to(&out, 2);
    session_run(request->session, request->client, argv, argc, &reply);
    const char *text = out.data ? out.data + out.begin : "";
    const size_t n = buffer_waiting(&out);
    const bool good = n > 0 && text[0] != '-';
    if (!good) {
        web_command_failed(request, text + (n > 0), n > 3 ? n - 3 : 0, of_filter);
    }
    *count = good && text[0] == ':' ? strtoll(text + 1, NULL, 10) : 0;
    buffer_free(&out);
    return good;
}

bool web_command(struct web_request *request, const bg_bytes *argv, size_t argc,
                 bool of_filter)
{
    int64_t count;
    return web_command_count(request, argv, argc, of_filter, &count);
}

/* ---- Figures ------------------------------------------------------------------------------------- */

void web_json_estimate(struct json *json, const char *name, bool known,
                       const bg_estimate *estimate)
{
    if (!known) {
        json_null(json, name);
        return;
    }
    json_object(json, name);
    json_exact(json, "value", estimate->value);
    json_exact(json, "low", estimate->low);
    json_exact(json, "high", estimate->high);
    json_close(json, '}');
}

void web_json_known(struct json *json, const char *name, bool known, double value)
{
    if (known) {
        json_exact(json, name, value);
    } else {
        json_null(json, name);
    }
}

void web_json_count(struct json *json, const char *name, bool known, uint64_t value)
{
    if (known) {
        json_count(json, name, value);
    } else {
        json_null(json, name);
    }
}

void web_json_answers(struct json *json, const bg_slot_info *stats)
{
    json_object(json, "counters");
    json_count(json, "queries", stats->queries);
    json_count(json, "maybes", stats->maybes);
    json_count(json, "adds", stats->adds);
    json_count(json, "news", stats->news);
    json_count(json, "refused", stats->refused);
    json_close(json, '}');
}

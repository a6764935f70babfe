/*
 * api/files.c - downloads, uploads and verifies filter files over HTTP.
 *
 * The entity tag is the root digest of the content, computed with generation 0 and creation time 1,
 * so equal filters have equal tags on every machine.
 */
#include "api/web.h"
#include "clock.h"
#include "error_text.h"
#include "text.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Saves a filter's base to a file in the data directory and unlinks the file. Returns its
 * descriptor, size and tag. */
static bg_err files_save(struct web_request *request, const struct object *object,
                         int *fd, uint64_t *bytes, char tag[WEB_TAG], bg_errinfo *info)
{
    char path[4096], shape[OBJECT_SHAPE_TEXT], metadata[OBJECT_SHAPE_TEXT + 16];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_file_info about = { .struct_size = sizeof about };
    struct object_reading reading;
    if (!object->slot) {
        return error_fail(info, BG_ENOTSUP,
                          "a RedisBloom filter cannot be saved as a Bloomgate file");
    }
    *fd = web_scratch(request->session->from->dir, "download", path, sizeof path);
    if (*fd < 0) {
        return error_fail(info, BG_EIO, "%s: %s", path, text_errno(errno));
    }
    close(*fd);
    *fd = -1;
    struct object_shape plain = object->shape;
    /* equal content must produce equal bytes, regardless of its origin */
    plain.imported = 0;
    (void)object_shape_write(&plain, shape);
    (void)snprintf(metadata, sizeof metadata, "object: %s", shape);
    how.metadata = metadata;
    how.created = BG_CREATED_UNKNOWN; /* equal content must produce equal bytes */
    how.flags = BG_FILE_NO_SYNC | BG_FILE_NO_READ_BACK;
    memcpy(how.key_id, object->shape.key_id, sizeof how.key_id);
    bg_err err = object_read_begin(object, false, &reading, info);
    if (!err) {
        err = bg_save(reading.filter, path, &how, info);
        object_read_end(object, &reading);
    }
    if (!err) {
        err = bg_file_get_info(path, &about, info);
    }
    if (!err) {
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        *bytes = about.file_bytes;
        (void)snprintf(tag, WEB_TAG, "\"%s\"", about.digest_text);
        err = *fd < 0 ? error_fail(info, BG_EIO, "%s: %s", path, text_errno(errno))
                      : BG_OK;
    }
    (void)unlink(path);
    return err;
}

/* Writes a file name that is valid on every OS. */
static void files_disposition(struct web_request *request, bg_bytes name)
{
    char value[160] = "attachment; filename=\"", plain[65];
    const char *bytes = name.data;
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < 64; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                          || (c >= '0' && c <= '9') || c == '-' || c == '_'
                          || (c == '.' && n > 0);
        plain[n] = '_';
        if (safe) {
            plain[n] = bytes[i];
        }
        n++;
    }
    plain[n] = 0;
    (void)snprintf(value, sizeof value, "attachment; filename=\"%s.bg\"",
                   n ? plain : "filter");
    web_header(request, "Content-Disposition", value);
}

static void files_get(struct web_request *request)
{
    char tag[WEB_TAG];
    bg_errinfo info = { 0 };
    bg_bytes name;
    struct entry *entry = NULL;
    if (!web_name(request, 3, &name) || !web_may(request, "BG.DUMP")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    const bg_err err = files_save(request, entry->object, &request->answer.file,
                                  &request->answer.file_bytes, tag, &info);
    if (err) {
        request->answer.file = -1;
        web_failed(request, err, &info);
        return;
    }
    web_header(request, "ETag", tag);
    if (http_if_none_match(request->head, tag) == HTTP_MATCH_YES) {
        close(request->answer.file);
        request->answer.file = -1;
        request->answer.status = 304;
        return;
    }
    request->answer.type = "application/vnd.bloomgate";
    files_disposition(request, name);
}

/* ---- Preconditions ---------------------------------------------------------------------------- */

/* Computes the ETag that a download of the filter would have. Sets `tag` to "" on error. */
static void files_tag(struct web_request *request, const struct object *object,
                      char tag[WEB_TAG])
{
    uint64_t bytes = 0;
    int fd = -1;
    tag[0] = 0;
    if (files_save(request, object, &fd, &bytes, tag, NULL) == BG_OK) {
        close(fd);
    }
}

bool web_is_conditional(const struct web_request *request)
{
    bg_bytes ignored;
    return http_field(request->head, "If-Match", &ignored)
           || http_field(request->head, "If-None-Match", &ignored);
}

bool web_precondition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms)
{
    char tag[WEB_TAG] = "";
    struct entry *present = session_see(request->session, name, terms);
    if (present) {
        files_tag(request, present->object, tag);
    }
    const char *known = present ? tag : NULL;
    const enum http_match match = http_if_match(request->head, known);
    const enum http_match none = http_if_none_match(request->head, known);
    if (match == HTTP_MATCH_NO || none == HTTP_MATCH_YES) {
        const char *why = !present ? "If-Match: the filter does not exist"
                          : match == HTTP_MATCH_NO
                              ? "If-Match: the filter has changed; its ETag is now "
                              : "If-None-Match: the filter exists; its ETag is ";
        web_error(request, 412, "precondition_failed", "%s%s", why, tag);
        if (present) {
            web_header(request, "ETag", tag);
        }
        return false;
    }
    return true;
}

bool web_on_condition(struct web_request *request, bg_bytes name,
                      struct catalog_terms *terms, web_change *change, void *context,
                      bg_err *err, bg_errinfo *info)
{
    enum { TRIES = 16 };
    *err = change(request, name, terms, context, info);
    for (int i = 0; *err == BG_ECANCELED && i < TRIES; i++) {
        if (!web_precondition(request, name, terms)) {
            return false;
        }
        *err = change(request, name, terms, context, info);
    }
    return true;
}

/* ---- Uploads ---------------------------------------------------------------------------------- */

/* Determines the shape of an uploaded filter: the shape recorded in the file if it matches the
 * filter, otherwise a shape derived from the filter. As with BG.RELOAD, no other metadata in the
 * file is trusted. */
static void files_shape(const bg_file_info *about, const bg_filter *filter,
                        struct object_shape *shape)
{
    static const char mark[] = "object: ";
    const char *line = strstr(about->metadata, mark);
    struct object_shape said;
    object_shape_of(filter, shape);
    if (line && (line == about->metadata || line[-1] == '\n')) {
        line += sizeof mark - 1;
        if (object_shape_read(line, strcspn(line, "\n"), &said, NULL) == BG_OK
            && said.kind == shape->kind && said.hash == shape->hash
            && object_shape_fits(&said, filter)) {
            *shape = said;
        }
    }
    shape->imported = 1;
    shape->foreign = 0;
    shape->limit = 0;
    shape->seed = about->seed;
    memcpy(shape->key_id, about->key_id, sizeof shape->key_id);
}

static bg_err files_open(struct web_request *request, bg_filter **filter,
                         bg_file_info *about, bg_errinfo *info)
{
    const struct command_settings *settings = request->session->host.settings;
    struct object_shape secret = { .family = OBJECT_BG };
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec hash;
    if (!request->body_file) {
        return error_fail(info, BG_EFORMAT, "the body is empty; send a filter file");
    }
    bg_err err = bg_file_get_info(request->body_file, about, info);
    if (!err) {
        secret.hash = about->profile;
        secret.seed = about->seed;
        memcpy(secret.key_id, about->key_id, sizeof secret.key_id);
        err = object_hash_spec(&secret, settings, &hash, info);
        /* An unknown secret is reported as an error in the file. */
        err = err ? BG_EFORMAT : BG_OK;
    }
    how.hash = &hash;
    how.max_bytes = settings->max_filter_bytes;
    if (!err) {
        err = bg_open(request->body_file, &how, filter, info);
    }
    return err;
}

static bool files_type_fits(struct web_request *request)
{
    bool there = false;
    if (web_type_is(request, "application/vnd.bloomgate", &there)
        || web_type_is(request, "application/octet-stream", &there) || !there) {
        return true;
    }
    web_wrong_type(request, "application/vnd.bloomgate or application/octet-stream");
    return false;
}

/* Creates an object from an uploaded file. Returns NULL after sending an error. */
static struct object *files_receive(struct web_request *request, bg_bytes name,
                                    bg_file_info *about)
{
    bg_errinfo info = { 0 };
    bg_filter *filter = NULL;
    struct object_shape shape;
    struct object *object = NULL;
    bg_err err = files_open(request, &filter, about, &info);
    if (err) {
        log_event(LOG_EVENT_REFUSED, name, "upload refused: %s", info.message);
        web_failed(request, err == BG_EINVAL || err == BG_EINCOMPAT ? BG_EFORMAT : err,
                   &info);
        return NULL;
    }
    files_shape(about, filter, &shape);
    err = object_adopt(&shape, filter, NULL, &object, &info);
    if (err) {
        bg_filter_free(filter);
        web_failed(request, err, &info);
        return NULL;
    }
    return object;
}

static bg_err files_install(struct web_request *request, bg_bytes name,
                            const struct catalog_terms *terms, void *object,
                            bg_errinfo *info)
{
    return session_put(request->session, name, object, terms, info);
}

/* Adds the object under its name. Returns false after sending an error. */
static bool files_replace(struct web_request *request, bg_bytes name,
                          struct catalog_terms *terms, struct object *object)
{
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    if (!web_on_condition(request, name, terms, files_install, object, &err, &info)) {
        object_free(object);
        return false;
    }
    if (err) {
        object_free(object);
        web_failed(request, err, &info);
        if (request->answer.status == 429) {
            web_header(request, "Retry-After", "1");
        }
    }
    return !err;
}

static void files_put(struct web_request *request)
{
    bg_file_info about = { .struct_size = sizeof about };
    struct catalog_terms terms = { .flags = CATALOG_REPLACE };
    char tag[WEB_TAG];
    bg_bytes name;
    if (!web_name(request, 3, &name) || !web_may(request, "BG.LOAD")) {
        return;
    }
    if (!user_may_touch(request->client->user, name, USER_READ | USER_WRITE)) {
        web_error(request, 403, "forbidden",
                  "user %s may not write to this filter "
                  "name",
                  user_name(request->client->user));
        return;
    }
    if (!files_type_fits(request)) {
        return;
    }
    bool there = session_find(request->session, name) != NULL;
    const bool conditional = web_is_conditional(request);
    if (conditional && !web_precondition(request, name, &terms)) {
        return;
    }
    struct object *object = files_receive(request, name, &about);
    if (!object) {
        return;
    }
    /* Compute the tag before other threads can change the object. */
    files_tag(request, object, tag);
    if (!files_replace(request, name, &terms, object)) {
        return;
    }
    there = conditional ? terms.instead_of != NULL : there;
    log_event(LOG_EVENT_RELOAD, name, "file uploaded, digest %s", about.digest_text);
    if (web_answer_filter(request, name, there ? 200 : 201)) {
        web_header(request, "ETag", tag);
    }
}

/* ---- Verification --------------------------------------------------------------------------------- */

static void files_verify(struct web_request *request)
{
    bg_errinfo info = { 0 };
    bg_bytes name;
    struct entry *entry = NULL;
    struct json json;
    bg_slot_health health = { .struct_size = sizeof health };
    char tag[WEB_TAG] = "";
    uint64_t bytes = 0;
    int fd = -1;
    if (!web_name(request, 3, &name) || !web_may(request, "BG.VERIFY")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    const uint64_t began = clock_nanoseconds();
    bg_err err = files_save(request, entry->object, &fd, &bytes, tag, &info);
    if (!err) {
        char path[64];
        bg_open_options how = BG_OPEN_OPTIONS_INIT;
        bg_hash_spec hash;
        bg_verify_report report = { .struct_size = sizeof report };
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        err = object_hash_spec(&entry->object->shape, request->session->host.settings,
                               &hash, &info);
        how.hash = &hash;
        if (!err) {
            err = bg_verify(path, &how, &report, &info);
        }
        close(fd);
    }
    const bool examined = entry->object->slot
                          && bg_slot_get_health(entry->object->slot, &health) == BG_OK;
    /* Does not apply to windows, whose generations have different ages and fill levels. */
    const bool strange = examined && health.rate > 0
                         && health.measured.low > 1.5 * health.rate
                         && entry->object->shape.kind != BG_KIND_WINDOW;
    if (!web_json_begin(request, &json)) {
        return;
    }
    json_bool(&json, "ok", !err && !health.degraded && !strange);
    tag[tag[0] ? strlen(tag) - 1 : 0] = 0; /* removes the closing quote */
    json_text(&json, "digest", tag[0] ? tag + 1 : NULL);
    json_bool(&json, "degraded", !examined || health.degraded);
    web_json_known(&json, "predicted", examined, health.rate);
    web_json_estimate(&json, "measured", examined, &health.measured);
    json_list(&json, "problems");
    if (err) {
        json_text(&json, NULL, error_text(&info, err));
    }
    if (strange) {
        json_text(
            &json, NULL,
            "the filter answers \"maybe\" for more random keys than its fill level explains");
    }
    json_close(&json, ']');
    json_exact(&json, "seconds", (double)(clock_nanoseconds() - began) / 1e9);
    web_json_end(request, &json);
}

const struct web_route web_file_routes[] = {
    { "GET", "/api/v1/filters/*/file", 0, files_get },
    { "PUT", "/api/v1/filters/*/file", WEB_CHANGES | WEB_WRITES | WEB_UPLOAD,
      files_put },
    { "POST", "/api/v1/filters/*/verify", WEB_CHANGES, files_verify },
    { NULL, NULL, 0, NULL },
};

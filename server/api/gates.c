/*
 * api/gates.c - gates over HTTP: lists, lookups and rebuilds. Any user that may read a gate sees its statistics and
 * the table behind it; only administrators see the address of the database.
 */
#include "gates/gates.h"
#include "api/handlers.h"
#include "args.h"
#include "clock.h"
#include "core/server.h"

#include <string.h>

/* ---- A gate as JSON ------------------------------------------------------------------------------ */

static void gates_json_source(struct json *json, const struct gate_about *about,
                              bool admin)
{
    const char *url = about->settings->source ? about->settings->source : "";
    char shown[512];
    source_show_url(url, shown, sizeof shown);
    json_object(json, "source");
    json_text(json, "type", strncmp(url, "sqlite", 6) == 0 ? "sqlite" : "postgresql");
    json_text(json, "description", about->settings->keys ? about->settings->keys : "");
    json_text(json, "url", admin ? shown : NULL);
    json_text(json, "state",
              about->source_up                                         ? "up"
              : about->phase == GATE_WAITING && !about->source_text[0] ? "connecting"
                                                                       : "down");
    json_text(json, "error",
              about->source_text[0] && !about->source_up ? about->source_text : NULL);
    json_text(json, "follows", about->settings->follow);
    json_close(json, '}');
}

/* Writes a gate's filter. The filter has no name, and only the gate adds keys to it. */
static void gates_json_filter(struct json *json, const struct gate_about *about,
                              const struct figures *figures)
{
    const bg_slot_health *h = &figures->health;
    bg_slot_info stats = { .struct_size = sizeof stats };
    bg_pin pin;
    bg_slot_pin(about->slot, &pin);
    const bg_filter *base = object_base(&pin);
    const bool there = base && bg_slot_get_info(about->slot, &stats) == BG_OK;
    if (there) {
        json_object(json, "filter");
        json_text(json, "kind", bg_kind_name(bg_filter_kind(base)));
        json_count(json, "bytes", bg_filter_size_bytes(base));
        json_count(json, "layers", stats.filters);
        const bool grows = bg_filter_kind(base) == BG_KIND_SCALABLE;
        web_json_count(json, "capacity", !grows, bg_filter_capacity(base));
    }
    bg_slot_unpin(about->slot, &pin);
    if (!there) {
        json_null(json, "filter");
        return;
    }
    const bool known = figures->examined != 0;
    web_json_estimate(json, "items", known, &h->items);
    web_json_known(json, "fill", known, h->fill);
    web_json_estimate(json, "measured", known, &h->measured);
    web_json_known(json, "examined", known, (double)figures->examined / 1000);
    json_bool(json, "overflowed", known && h->overflowed);
    json_close(json, '}');
}

static void gates_json_complete(struct json *json, const struct gate_about *about)
{
    json_object(json, "complete");
    json_text(json, "state",
              about->phase == GATE_BUILDING  ? "building"
              : about->trusted               ? "complete"
              : about->phase == GATE_WAITING ? "unknown"
                                             : "catching_up");
    json_count(json, "sequence", about->position);
    web_json_known(json, "lag_seconds", about->lag >= 0, about->lag);
    web_json_count(json, "keys", about->builds != 0, about->build_keys);
    json_close(json, '}');
}

static void gates_json_outcomes(struct json *json, const bg_gate_info *stats)
{
    json_count(json, "lookups", stats->lookups);
    json_object(json, "outcomes");
    for (unsigned i = 0; i < 6; i++) {
        json_count(json, bg_outcome_name((bg_outcome)i), stats->outcomes[i]);
    }
    json_close(json, '}');
    json_object(json, "truth");
    json_count(json, "calls", stats->store_calls);
    json_count(json, "errors", stats->store_errors);
    json_exact(json, "seconds", (double)stats->store_nanoseconds / 1e9);
    json_close(json, '}');
    json_count(json, "avoided", stats->avoided);
    json_count(json, "wasted", stats->wasted);
}

static void gates_json_figures(struct json *json, const struct gate_about *about,
                               const bg_gate_info *stats)
{
    static const char *const breakers[] = { "closed", "open", "trying" };
    const uint64_t absent =
        stats->outcomes[BG_OUTCOME_ABSENT_BY_FILTER] + stats->wasted;
    web_json_estimate(json, "observed", absent > 0, &stats->observed);
    web_json_known(json, "predicted", stats->predicted > 0, stats->predicted);
    web_json_known(json, "target", about->settings->rate > 0, about->settings->rate);
    json_bool(json, "drifting", stats->drifting);
    json_bool(json, "doubtful", stats->doubtful);
    json_object(json, "breaker");
    json_text(json, "state",
              about->settings->breaker_failures ? breakers[stats->breaker % 3]
                                                : "none");
    json_count(json, "opened", stats->breaker_opened);
    json_count(json, "spared", stats->spared_by_breaker);
    json_close(json, '}');
    json_count(json, "audits", stats->audits);
    json_count(json, "false_negatives", stats->false_negatives);
    json_count(json, "shared", stats->shared);
    json_count(json, "reported", stats->reported);
    json_object(json, "negative_cache");
    json_count(json, "entries", stats->negative_entries);
    json_count(json, "hits", stats->negative_hits);
    json_close(json, '}');
    json_count(json, "writes", stats->writes);
    json_count(json, "write_errors", stats->write_errors);
}

static void gates_json_rebuild(struct json *json, const struct gate_about *about)
{
    if (about->phase == GATE_BUILDING || about->phase == GATE_REBUILDING) {
        json_object(json, "rebuild");
        json_text(json, "phase", "adding");
        json_count(json, "keys", about->progress_keys);
        web_json_nonzero(json, "expected", about->progress_expected);
        json_null(json, "seconds");
        json_null(json, "seconds_left");
        json_close(json, '}');
    } else {
        json_null(json, "rebuild");
    }
    if (about->build_time) {
        json_object(json, "last_build");
        json_exact(json, "time", (double)about->build_time / 1000);
        json_exact(json, "seconds", about->build_seconds);
        json_count(json, "keys", about->build_keys);
        json_close(json, '}');
    } else {
        json_null(json, "last_build");
    }
    json_count(json, "rebuilds", about->builds);
    json_count(json, "rebuilds_failed", about->build_failures);
    /* without its source, the gate cannot start its first build */
    const bool waits = !about->source_up && !about->build_time;
    const char *failure =
        waits && !about->build_text[0] ? about->source_text : about->build_text;
    json_text(json, "last_failure", failure[0] ? failure : NULL);
}

/* Returns the reason why the source cannot be used, without the prefix "source: ". */
static const char *gates_reason(const struct gate_about *about)
{
    const char *text = about->source_text;
    return !text[0]                            ? "no error reported"
           : strncmp(text, "source: ", 8) == 0 ? text + 8
                                               : text;
}

static void gates_json_health(struct json *json, const struct gate_about *about,
                              const bg_gate_info *stats)
{
    struct health_report r = { .n = 0 };
    if (stats->false_negatives > 0) {
        health_reason(&r, HEALTH_ACT, "false_negatives",
                      "audits found false negatives: all keys are being reread");
    }
    if (stats->doubtful) {
        health_reason(&r, HEALTH_ACT, "doubtful",
                      "a key could not be added: every lookup queries the source");
    }
    if (!about->source_up) {
        health_reason(&r, HEALTH_ACT, "incomplete",
                      "the gate cannot use its source: %.150s", gates_reason(about));
    } else if (!about->trusted) {
        health_reason(&r, HEALTH_WATCH, "incomplete",
                      "the filter has not been proven complete: every lookup queries "
                      "the source");
    }
    if (stats->drifting) {
        health_reason(&r, HEALTH_WATCH, "drifting",
                      "there are more false positives than the fill level explains: "
                      "some absent keys are queried repeatedly, or the filter still "
                      "contains keys of deleted rows, which a rebuild removes");
    }
    health_write(json, &r);
}

struct gates_telling {
    struct web_request *request;
    struct json *json;
};

static void gates_json(void *context, const struct gate_about *about)
{
    const struct gates_telling *telling = context;
    struct json *json = telling->json;
    const struct figures figures =
        observer_gate_figures(telling->request->session->server->observer, about->name);
    bg_gate_info stats;
    gates_total(about, figures.examined ? &figures.health : NULL, &stats);
    json_text(json, "name", about->name);
    gates_json_filter(json, about, &figures);
    gates_json_source(json, about, web_is_admin(telling->request));
    gates_json_complete(json, about);
    gates_json_outcomes(json, &stats);
    gates_json_figures(json, about, &stats);
    gates_json_rebuild(json, about);
    gates_json_health(json, about, &stats);
}

/* ---- Routes ------------------------------------------------------------------------------------------ */

static bool gates_may_see(const struct web_request *request, const char *name,
                          size_t len)
{
    return user_may_touch(request->client->user, (bg_bytes){ name, len }, USER_READ);
}

static void gates_tell_row(void *context, const struct gate_about *about)
{
    const struct gates_telling *telling = context;
    if (gates_may_see(telling->request, about->name, strlen(about->name))) {
        json_object(telling->json, NULL);
        gates_json(context, about);
        json_close(telling->json, '}');
    }
}

static void gates_list(struct web_request *request)
{
    struct json json;
    struct gates *gates = request->session->server->gates;
    if (!web_may(request, "BG.LOOKUP")) {
        return;
    }
    if (!web_json_begin(request, &json)) {
        return;
    }
    struct gates_telling telling = { request, &json };
    json_list(&json, "gates");
    if (gates) {
        gates_each(gates, gates_tell_row, &telling);
    }
    json_close(&json, ']');
    web_json_end(request, &json);
}

static void gates_none(struct web_request *request, bg_bytes name)
{
    char shown[64];
    web_error(request, 404, "not_found", "there is no gate %s", args_show(name, shown));
}

bool gates_find(struct web_request *request, bg_bytes name, const char *command)
{
    if (!web_may(request, command)) {
        return false;
    }
    if (!request->session->server->gates || !gates_may_see(request, name.data, name.len)
        || !gates_has(request->session->server->gates, name)) {
        gates_none(request, name);
        return false;
    }
    return true;
}

/* Reads the name of a gate. Returns false after sending a response. */
static bool gates_name(struct web_request *request, bg_bytes *name, const char *command)
{
    return web_name(request, 3, name) && gates_find(request, *name, command);
}

static void gates_answer(struct web_request *request, bg_bytes name, int status)
{
    struct json json;
    bg_errinfo info = { 0 };
    if (!web_json_begin(request, &json)) {
        return;
    }
    struct gates_telling telling = { request, &json };
    const bg_err err =
        gates_about(request->session->server->gates, name, gates_json, &telling, &info);
    request->answer.status = status;
    web_json_end(request, &json);
    if (err) {
        gates_none(request, name);
    }
}

static void gates_get(struct web_request *request)
{
    bg_bytes name;
    if (gates_name(request, &name, "BG.LOOKUP")) {
        gates_answer(request, name, 200);
    }
}

static void gates_post_rebuild(struct web_request *request)
{
    bg_bytes name;
    bg_errinfo info = { 0 };
    if (!gates_name(request, &name, "BG.LOOKUP") || !web_may(request, "BG.REBUILD")
        || !web_may_touch(request, name, USER_WRITE)) {
        return;
    }
    const bg_err err = gates_rebuild(request->session->server->gates, name, &info);
    if (err == BG_EBUSY) {
        web_error(request, 409, "busy", "the filter is already being rebuilt");
    } else if (err) {
        web_failed(request, err, &info);
    } else {
        gates_answer(request, name, 202);
    }
}

enum { GATES_KEYS = 1000 };

/* Reads the keys to look up. Returns their number, or 0 after sending an error. */
static size_t gates_read_keys(struct web_request *request, bg_bytes keys[GATES_KEYS])
{
    struct json_reader r;
    struct json_span member;
    bool base64 = false;
    size_t n = 0;
    if (!web_body(request, &r)) {
        return 0;
    }
    while (json_read_member(&r, &member)) {
        if (json_read_is(&member, "keys")) {
            n = 0;
            web_read_list(&r, false, keys, GATES_KEYS, "at most 1000 keys", &n);
        } else if (json_read_is(&member, "encoding")) {
            (void)web_read_encoding(&r, &base64);
        } else if (!r.error) {
            (void)json_read_skip(&r);
        }
    }
    if (!web_body_end(request, &r)) {
        return 0;
    }
    for (size_t i = 0; base64 && i < n; i++) {
        if (!web_base64_read(keys[i], (char *)keys[i].data, &keys[i].len)) {
            web_error(request, 400, "bad_request", "keys: a key is not valid base64");
            return 0;
        }
    }
    if (n == 0) {
        web_error(request, 400, "bad_request", "keys: found none, expected 1 to 1000");
    }
    return n;
}

static void gates_post_lookup(struct web_request *request)
{
    bg_bytes name, keys[GATES_KEYS];
    bg_outcome outcomes[GATES_KEYS];
    bg_errinfo info = { 0 };
    struct json json;
    if (!gates_name(request, &name, "BG.LOOKUP")) {
        return;
    }
    const size_t n = gates_read_keys(request, keys);
    const uint64_t began = clock_nanoseconds();
    for (size_t i = 0; i < n; i++) {
        const bg_err err = gates_lookup(request->session->server->gates, name, keys[i],
                                        NULL, &outcomes[i], &info);
        if (err) {
            gates_none(request, name);
            return;
        }
    }
    session_count(request->session, n, 0);
    if (n == 0 || !web_json_begin(request, &json)) {
        return;
    }
    json_list(&json, "results");
    for (size_t i = 0; i < n; i++) {
        const bool unknown =
            outcomes[i] == BG_OUTCOME_UNKNOWN || outcomes[i] == BG_OUTCOME_FAILED;
        json_object(&json, NULL);
        json_text(&json, "outcome", bg_outcome_name(outcomes[i]));
        if (unknown) {
            json_null(&json, "present");
        } else {
            json_bool(&json, "present", outcomes[i] == BG_OUTCOME_PRESENT);
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_exact(&json, "seconds", (double)(clock_nanoseconds() - began) / 1e9);
    web_json_end(request, &json);
}

/* Looks up the row of a key. Returns false after sending an error. */
static bool gates_find_row(struct web_request *request, bg_bytes name, bg_bytes key,
                           struct store_row *row, bg_outcome *outcome)
{
    struct gates *gates = request->session->server->gates;
    bg_errinfo info = { 0 };
    bg_err err = gates_check_rows(gates, name, &info);
    err = err ? err : gates_lookup(gates, name, key, row, outcome, &info);
    session_count(request->session, !err, 0);
    if (err == BG_ENOTFOUND) {
        gates_none(request, name);
        return false;
    }
    if (err == BG_ENOTSUP) {
        return web_error(request, 422, "not_supported", "%s", source_reason(&info));
    }
    if (*outcome == BG_OUTCOME_UNKNOWN || *outcome == BG_OUTCOME_FAILED) {
        web_header(request, "Retry-After", "1");
        return web_error(request, 503, "unavailable",
                         "the database of the gate did not answer");
    }
    err = store_row_check(row, &info);
    if (err == BG_EQUOTA) {
        return web_error(request, 422, "too_large", "%s", info.message);
    }
    if (err) {
        web_failed(request, err, &info);
    }
    return !err;
}

static void gates_write_row(struct json *json, const struct store_row *row)
{
    struct store_column column;
    json_list(json, "row");
    for (size_t at = 0; store_row_next(row, &at, &column);) {
        json_object(json, NULL);
        web_json_name(json, "name", column.name);
        if (column.is_null) {
            json_null(json, "value");
        } else {
            web_json_name(json, "value", column.value);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Reads the parameter `key`, which must occur once. */
static bool gates_read_key(struct web_request *request, char room[HTTP_LINE_BYTES],
                           bg_bytes *key)
{
    char other[HTTP_LINE_BYTES];
    bg_bytes name, value;
    size_t at = 0, n = 0;
    enum http_found found;
    while ((found = http_query_next(request->head, &at, other, &name, &value))
           == HTTP_FOUND) {
        n += name.len == 3 && memcmp(name.data, "key", 3) == 0;
    }
    if (found == HTTP_MALFORMED) {
        return web_query_error(request);
    }
    if (n != 1) {
        return web_error(request, 400, "bad_request",
                         "key: found %zu keys, expected one percent-encoded key", n);
    }
    return http_parameter(request->head, "key", room, key) == HTTP_FOUND;
}

static void gates_get_row(struct web_request *request)
{
    char room[HTTP_LINE_BYTES];
    bg_bytes name, key;
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    struct store_row row = STORE_ROW_INIT;
    struct json json;
    if (!gates_name(request, &name, "BG.ROW")) {
        return;
    }
    if (gates_read_key(request, room, &key)
        && gates_find_row(request, name, key, &row, &outcome)
        && web_json_begin(request, &json)) {
        json_text(&json, "outcome", bg_outcome_name(outcome));
        json_bool(&json, "present", outcome == BG_OUTCOME_PRESENT);
        if (outcome == BG_OUTCOME_PRESENT) {
            gates_write_row(&json, &row);
        } else {
            json_null(&json, "row");
        }
        web_json_end(request, &json);
    }
    store_row_free(&row);
}

const struct web_route web_gate_routes[] = {
    { "GET", "/api/v1/gates", 0, gates_list },
    { "GET", "/api/v1/gates/*", 0, gates_get },
    { "GET", "/api/v1/gates/*/row", 0, gates_get_row },
    { "POST", "/api/v1/gates/*/lookup", WEB_CHANGES, gates_post_lookup },
    { "POST", "/api/v1/gates/*/rebuild", WEB_CHANGES, gates_post_rebuild },
    { NULL, NULL, 0, NULL },
};

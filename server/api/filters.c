/*
 * api/filters.c - describes one filter over HTTP, and runs operations on it. Changes are made by
 * the command of the same name (BG.CLEAR, BG.FOLD, ...), so permissions, limits and durability are
 * the same everywhere.
 */
#include "api/evenness.h"
#include "api/handlers.h"

#include "core/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void filters_get(struct web_request *request)
{
    bg_bytes name;
    bool examine = false;
    struct entry *entry = NULL;
    if (!web_name(request, 3, &name) || !web_flag(request, "examine", &examine)
        || !web_may(request, "BG.INFO")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    if (examine) {
        (void)observer_examine(request->session->server->observer, entry);
    }
    (void)web_answer_filter(request, name, 200);
}

/* Runs a command on a filter and responds with the changed filter. */
static void filters_do(struct web_request *request, const char *command,
                       const bg_bytes *more, size_t n)
{
    bg_bytes argv[1024], name;
    if (!web_name(request, 3, &name) || !web_find(request, name, USER_READ)) {
        return;
    }
    argv[0] = (bg_bytes){ command, strlen(command) };
    argv[1] = name;
    for (size_t i = 0; i < n; i++) {
        argv[2 + i] = more[i];
    }
    if (web_command(request, argv, 2 + n, true)) {
        (void)web_answer_filter(request, name, 200);
    }
}

static bg_err filters_drop_on(struct web_request *request, bg_bytes name,
                              const struct catalog_terms *terms, void *context,
                              bg_errinfo *info)
{
    (void)context;
    return session_drop(request->session, name, terms, info);
}

/* Drops a filter if If-Match contains the tag of its file. */
static void filters_drop_on_condition(struct web_request *request, bg_bytes name)
{
    struct catalog_terms terms = { .flags = 0 };
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    if (!web_may(request, "BG.DROP") || !web_precondition(request, name, &terms)
        || !web_on_condition(request, name, &terms, filters_drop_on, NULL, &err,
                             &info)) {
        return;
    }
    if (err) {
        web_failed(request, err, &info);
    } else {
        request->answer.status = 204;
    }
}

static void filters_drop(struct web_request *request)
{
    bg_bytes name;
    if (!web_name(request, 3, &name)
        || !(web_doubts(request, name)
                 ? web_may_touch(request, name, USER_READ | USER_WRITE)
                 : web_find(request, name, USER_READ | USER_WRITE) != NULL)) {
        return;
    }
    if (web_is_conditional(request)) {
        filters_drop_on_condition(request, name);
        return;
    }
    const bg_bytes argv[] = { { "BG.DROP", 7 }, name };
    if (web_command(request, argv, 2, true)) {
        request->answer.status = 204;
    }
}

static void filters_clear(struct web_request *request)
{
    filters_do(request, "BG.CLEAR", NULL, 0);
}

static void filters_rotate(struct web_request *request)
{
    filters_do(request, "BG.ROTATE", NULL, 0);
}

static void filters_fold(struct web_request *request)
{
    struct json_reader r;
    struct json_span name;
    uint64_t times = 1;
    char text[24];
    if (!web_body(request, &r)) {
        return;
    }
    if (!request->body.len) {
        r.error = NULL; /* an empty body is accepted as well */
    }
    while (json_read_member(&r, &name)) {
        if (json_read_is(&name, "times")) {
            (void)json_read_count(&r, &times);
        } else {
            (void)json_read_skip(&r);
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (times < 1 || times > 20) {
        web_error(request, 400, "bad_request", "times: found %llu, expected 1 to 20",
                  (unsigned long long)times);
        return;
    }
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)times);
    const bg_bytes more = { text, strlen(text) };
    filters_do(request, "BG.FOLD", &more, 1);
}

enum { FILTERS_MERGE = 1000 };

static void filters_merge(struct web_request *request)
{
    struct json_reader r;
    struct json_span member;
    bg_bytes from[FILTERS_MERGE];
    size_t n = 0;
    if (!web_body(request, &r)) {
        return;
    }
    while (json_read_member(&r, &member)) {
        const bool base64 = json_read_is(&member, "from_base64");
        if (base64 || json_read_is(&member, "from")) {
            web_read_list(&r, base64, from, FILTERS_MERGE, "at most 1000 names", &n);
        } else {
            (void)json_read_skip(&r);
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (n == 0) {
        web_error(request, 400, "bad_request",
                  "from is missing; expected 1 to 1000 names");
        return;
    }
    filters_do(request, "BG.MERGE", from, n);
}

static void filters_occupancy(struct web_request *request)
{
    bg_bytes name;
    uint64_t cells = 0;
    struct entry *entry = NULL;
    struct json json;
    if (!web_name(request, 3, &name)
        || !web_count(request, "cells", 1, 16384, 1024, &cells)
        || !web_may(request, "BG.INFO")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    bg_pin pin;
    bg_err err = BG_ENOTSUP;
    double bits = 0, bits_per_key = 0;
    const uint64_t words = object_bytes(entry->object) / 8;
    cells = cells < words ? cells : words ? words : 1;
    double *shares = calloc(cells, sizeof *shares);
    if (entry->object->slot && shares) {
        bg_slot_pin(entry->object->slot, &pin);
        const bg_filter *base = object_base(&pin);
        if (base) {
            bits = 8 * (double)bg_filter_size_bytes(base);
            bits_per_key = evenness_bits_per_key(base);
            err = bg_filter_occupancy(base, shares, cells);
        }
        bg_slot_unpin(entry->object->slot, &pin);
    }
    if (err || !web_json_begin(request, &json)) {
        web_failed(request, err ? err : BG_ENOMEM, NULL);
        free(shares);
        return;
    }
    const double part = floor(bits / 64 / (double)cells) * 64; /* the smallest part */
    const struct evenness e =
        evenness_of(shares, cells, part > 64 ? part : 64, bits_per_key);
    json_count(&json, "cells", cells);
    json_exact(&json, "cell_bits", bits / (double)cells);
    json_exact(&json, "least", e.least);
    json_exact(&json, "mean", e.mean);
    json_exact(&json, "most", e.most);
    web_json_known(&json, "low", bits_per_key > 0, e.low);
    web_json_known(&json, "high", bits_per_key > 0, e.high);
    web_json_count(&json, "uneven", bits_per_key > 0, e.uneven);
    json_list(&json, "shares");
    for (size_t i = 0; i < cells; i++) {
        json_real(&json, NULL, shares[i]);
    }
    json_close(&json, ']');
    web_json_end(request, &json);
    free(shares);
}

const struct web_route web_filter_routes[] = {
    { "GET", "/api/v1/filters", 0, filters_list },
    { "POST", "/api/v1/filters", WEB_CHANGES | WEB_WRITES, filters_create },
    { "GET", "/api/v1/filters/*", 0, filters_get },
    { "PATCH", "/api/v1/filters/*", WEB_CHANGES | WEB_WRITES, filters_change },
    { "DELETE", "/api/v1/filters/*", WEB_CHANGES | WEB_WRITES, filters_drop },
    { "GET", "/api/v1/filters/*/occupancy", 0, filters_occupancy },
    { "POST", "/api/v1/filters/*/clear", WEB_CHANGES | WEB_WRITES, filters_clear },
    { "POST", "/api/v1/filters/*/rotate", WEB_CHANGES | WEB_WRITES, filters_rotate },
    { "POST", "/api/v1/filters/*/fold", WEB_CHANGES | WEB_WRITES, filters_fold },
    { "POST", "/api/v1/filters/*/merge", WEB_CHANGES | WEB_WRITES, filters_merge },
    { NULL, NULL, 0, NULL },
};

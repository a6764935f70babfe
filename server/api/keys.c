/*
 * api/keys.c - POST /api/v1/filters/NAME/check and /add: accepts keys as JSON, lines of text or
 * lines of JSON, and returns a result for each key in the same format. GET .../check?key=KEY&key=...
 * accepts keys in the query string; the maximum length of the request line limits their number. The
 * filter may be a cluster filter (fronts.h).
 */
#include "api/handlers.h"

#include "core/server.h"
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

enum keys_form { KEYS_JSON, KEYS_LINES, KEYS_NDJSON, KEYS_QUERY };

struct keys {
    enum keys_form form;
    bool adds;
    struct object *object;
    /* set instead of the object if the filter is a cluster filter */
    struct front *front;
    bg_bytes *items;
    size_t n, room;
    uint64_t *bits; /* the results */
    size_t done;
    uint64_t ones;
    /* For a cluster filter, the number of keys without an answer. */
    uint64_t unanswered;
};

/* Allocates space for more keys. Returns false after sending an error. */
static bool keys_grow(struct web_request *request, struct keys *keys)
{
    const size_t room = keys->room ? 2 * keys->room : 256;
    const size_t more = (room - keys->room) * sizeof *keys->items;
    if (keys->n >= KEYS_MOST) {
        return web_error(request, 413, "too_large",
                         "keys: found more than %d, expected at most %d", KEYS_MOST,
                         KEYS_MOST);
    }
    const bool reserved = ledger_reserve(LEDGER_BUFFERS, more);
    bg_bytes *items = reserved ? realloc(keys->items, room * sizeof *items) : NULL;
    if (!items) {
        web_failed(request, BG_ENOMEM, NULL);
        ledger_release(LEDGER_BUFFERS, reserved ? more : 0);
        return false;
    }
    keys->items = items;
    keys->room = room;
    return true;
}

static void keys_free(struct keys *keys)
{
    ledger_release(LEDGER_BUFFERS, keys->room * sizeof *keys->items);
    free(keys->items);
    free(keys->bits);
}

static bool keys_push(struct web_request *request, struct keys *keys, bg_bytes key)
{
    if (keys->n == keys->room && !keys_grow(request, keys)) {
        return false;
    }
    keys->items[keys->n++] = key;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Decodes a base64 key in place, which is possible because the result is shorter. */
static bool keys_decode(struct web_request *request, bg_bytes *key)
{
    size_t n = 0;
    if (!web_base64_read(*key, (char *)key->data, &n)) {
        return web_error(request, 400, "bad_request",
                         "keys: a key is not valid base64");
    }
    key->len = n;
    return true;
}

bool web_read_encoding(struct json_reader *r, bool *base64)
{
    struct json_span encoding = { NULL, 0 };
    if (!json_read_string(r, &encoding)) {
        return false;
    }
    *base64 = json_read_is(&encoding, "base64");
    if (!*base64 && !json_read_is(&encoding, "utf-8")) {
        r->error = "encoding \"utf-8\" or \"base64\"";
        return false;
    }
    return true;
}

/* Reads the elements of a list. Returns false after sending an error if there are too many
 * elements. */
static bool keys_read_list(struct web_request *request, struct json_reader *r,
                           struct keys *keys)
{
    struct json_span key;
    while (json_read_element(r) && json_read_string(r, &key)) {
        if (!keys_push(request, keys, (bg_bytes){ key.bytes, key.len })) {
            return false;
        }
    }
    return true;
}

/* Reads {"keys": [...], "encoding": ...}. Returns false after sending an error. */
static bool keys_read_object(struct web_request *request, struct json_reader *r,
                             struct keys *keys, bool *base64, bool *found)
{
    struct json_span name;
    while (json_read_member(r, &name)) {
        if (json_read_is(&name, "keys") && json_read_open(r, '[')) {
            *found = true;
            if (!keys_read_list(request, r, keys)) {
                return false;
            }
        } else if (json_read_is(&name, "encoding")) {
            (void)web_read_encoding(r, base64);
        } else {
            (void)json_read_skip(r);
        }
    }
    return true;
}

static bool keys_read_json(struct web_request *request, struct keys *keys)
{
    struct json_reader r;
    bool base64 = false, found = false;
    if (!web_body(request, &r)) {
        return false;
    }
    if (!keys_read_object(request, &r, keys, &base64, &found)
        || !web_body_end(request, &r)) {
        return false;
    }
    if (!found) {
        return web_error(request, 400, "bad_request",
                         "keys: found none, expected a list of strings");
    }
    for (size_t i = 0; base64 && i < keys->n; i++) {
        if (!keys_decode(request, &keys->items[i])) {
            return false;
        }
    }
    return true;
}

/* Reads a line of JSON: a string, or an object with key and encoding. */
static bool keys_read_ndjson_line(struct web_request *request, char *line, size_t len,
                                  bg_bytes *key)
{
    struct json_reader r;
    struct json_span name, value = { NULL, 0 };
    bool base64 = false;
    json_read_begin(&r, line, len);
    if (json_read_peek(&r) == '{' && json_read_open(&r, '{')) {
        while (json_read_member(&r, &name)) {
            if (json_read_is(&name, "key")) {
                (void)json_read_string(&r, &value);
            } else if (json_read_is(&name, "encoding")) {
                (void)web_read_encoding(&r, &base64);
            } else {
                (void)json_read_skip(&r);
            }
        }
    } else {
        (void)json_read_string(&r, &value);
    }
    if (!web_body_end(request, &r)) {
        return false;
    }
    if (!value.bytes) {
        return web_error(request, 400, "bad_request",
                         "a line has no key; expected a string");
    }
    *key = (bg_bytes){ value.bytes, value.len };
    return !base64 || keys_decode(request, key);
}

static bool keys_read_lines(struct web_request *request, struct keys *keys)
{
    char *at = (char *)request->body.data, *end = at + request->body.len;
    while (at && at < end) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        const size_t len = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
        bg_bytes key = { at, len };
        if (keys->form == KEYS_NDJSON
            && !keys_read_ndjson_line(request, at, len, &key)) {
            return false;
        }
        if (!keys_push(request, keys, key)) {
            return false;
        }
        at = line_end ? line_end + 1 : end;
    }
    return true;
}

/* Reads the parameters called `key`. Their decoded values are stored in `values`, one after another. */
static bool keys_read_query(struct web_request *request, struct keys *keys,
                            char values[HTTP_LINE_BYTES])
{
    char room[HTTP_LINE_BYTES];
    size_t at = 0;
    bg_bytes name, value;
    enum http_found found;
    while ((found = http_query_next(request->head, &at, room, &name, &value))
           == HTTP_FOUND) {
        if (name.len != 3 || memcmp(name.data, "key", 3) != 0) {
            continue;
        }
        if (value.len > 0) {
            memcpy(values, value.data, value.len);
        }
        if (!keys_push(request, keys, (bg_bytes){ values, value.len })) {
            return false;
        }
        values += value.len;
    }
    if (found == HTTP_MALFORMED) {
        return web_query_error(request);
    }
    if (keys->n == 0) {
        return web_error(request, 400, "bad_request",
                         "key: missing; expected ?key=KEY, percent-encoded and "
                         "repeated for more keys");
    }
    return true;
}

static bool keys_form_of(struct web_request *request, enum keys_form *form)
{
    static const char *const types[] = { "application/json", "text/plain",
                                         "application/x-ndjson" };
    bool there = false;
    *form = KEYS_JSON;
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        if (web_type_is(request, types[i], &there)) {
            *form = (enum keys_form)i;
            return true;
        }
    }
    if (there) {
        web_wrong_type(request, "application/json, text/plain or application/x-ndjson");
    }
    return !there;
}

/* ---- Doing -------------------------------------------------------------------------------------- */

/* Forwards all keys at once, so that they can be grouped by shard. */
static bg_err keys_forward(struct web_request *request, struct keys *keys,
                           bg_errinfo *info)
{
    uint64_t *done = calloc(BG_BITMAP_WORDS(keys->n) + 1, sizeof *done);
    struct front_work work = { .items = keys->items,
                               .n = keys->n,
                               .adds = keys->adds,
                               .done = done,
                               .answers = keys->bits };
    bg_err err = done ? BG_OK : BG_ENOMEM;
    if (!err && keys->adds && !session_may_add(request->session, keys->n, info)) {
        err = BG_EQUOTA;
    } else if (!err && keys->n > 0) {
        err = front_call(keys->front, &work);
        *info = work.info;
    }
    while (!err && keys->done < keys->n) {
        keys->unanswered += !(done[keys->done / 64] >> keys->done % 64 & 1);
        keys->done++;
    }
    while (err && done && keys->done < keys->n
           && done[keys->done / 64] >> keys->done % 64 & 1) {
        keys->done++;
    }
    free(done);
    return err;
}

static bg_err keys_run(struct web_request *request, struct keys *keys, bg_errinfo *info)
{
    bg_err err = BG_OK;
    keys->bits = calloc(keys->n / 64 + OBJECT_BATCH / 64 + 1, sizeof *keys->bits);
    if (!keys->bits) {
        return BG_ENOMEM;
    }
    if (keys->front) {
        err = keys_forward(request, keys, info);
    }
    while (!err && keys->done < keys->n) {
        const size_t left = keys->n - keys->done;
        const size_t n = left < OBJECT_BATCH ? left : OBJECT_BATCH;
        size_t done = n;
        uint64_t *bits = keys->bits + keys->done / 64; /* `done` is a multiple of 64 */
        if (keys->adds) {
            err = object_add_many(keys->object, &request->session->host,
                                  keys->items + keys->done, n, bits, &done, info);
        } else if (keys->object) {
            (void)object_may_contain_many(keys->object, keys->items + keys->done, n,
                                          bits);
        } else {
            memset(bits, 0xff, BG_BITMAP_WORDS(n) * sizeof *bits);
        }
        keys->done += done;
    }
    for (size_t i = 0; i < keys->done; i++) {
        keys->ones += keys->bits[i / 64] >> i % 64 & 1;
    }
    return err;
}

/* ---- Answering ------------------------------------------------------------------------------------ */

static void keys_answer_json(struct web_request *request, const struct keys *keys)
{
    struct buffer *out = &request->answer.body;
    request->answer.type = "application/json";
    buffer_text(out, "{\"results\": [");
    for (size_t i = 0; i < keys->done; i++) {
        buffer_text(out, i ? ", " : "");
        buffer_text(out, keys->bits[i / 64] >> i % 64 & 1 ? "true" : "false");
    }
    buffer_text(out, "], \"keys\": ");
    buffer_number(out, keys->done);
    buffer_text(out, keys->adds ? ", \"new\": " : ", \"maybe\": ");
    buffer_number(out, keys->ones);
    if (keys->front && !keys->adds) {
        buffer_text(out, ", \"unreachable\": ");
        buffer_number(out, keys->unanswered);
    }
    buffer_text(out, "}\n");
}

static void keys_answer_lines(struct web_request *request, const struct keys *keys)
{
    struct buffer *out = &request->answer.body;
    const char *word = keys->adds ? "new" : "maybe";
    request->answer.type =
        keys->form == KEYS_LINES ? "text/plain; charset=utf-8" : "application/x-ndjson";
    for (size_t i = 0; i < keys->done; i++) {
        const bool bit = keys->bits[i / 64] >> i % 64 & 1;
        if (keys->form == KEYS_LINES) {
            buffer_put(out, bit ? "1\n" : "0\n", 2);
        } else {
            buffer_text(out, "{\"");
            buffer_text(out, word);
            buffer_text(out, bit ? "\":true}\n" : "\":false}\n");
        }
    }
}

/* Writes the error, and the number of keys that were processed before the error. */
static void keys_failed(struct web_request *request, const struct keys *keys,
                        bg_err err, const bg_errinfo *info)
{
    struct buffer *out = &request->answer.body;
    if (keys->front && err == BG_EIO) {
        web_error(request, 503, "unreachable", "the cluster cannot be reached: %s",
                  info->message);
    } else {
        web_failed(request, err, info);
    }
    if (request->answer.status == 429 || request->answer.status == 503) {
        web_header(request, "Retry-After", "1");
    }
    if (buffer_waiting(out) > 2) { /* {"error": {...}} and a newline */
        out->used -= 2;
        buffer_text(out, ", \"done\": ");
        buffer_number(out, keys->done);
        buffer_text(out, "}\n");
    }
}

static bool keys_find(struct web_request *request, bg_bytes name, struct keys *keys)
{
    const unsigned need = keys->adds ? USER_READ | USER_WRITE : USER_READ;
    keys->front = fronts_named(request->session->server->fronts, name);
    if (keys->front) {
        return web_may_touch(request, name, need);
    }
    /* If there is no object, the answer is "maybe". */
    if (!keys->adds && web_doubts(request, name)) {
        return web_may_touch(request, name, need);
    }
    struct entry *entry = web_find(request, name, need);
    keys->object = entry ? entry->object : NULL;
    return entry != NULL;
}

static bool keys_read(struct web_request *request, struct keys *keys,
                      char values[HTTP_LINE_BYTES])
{
    switch (keys->form) {
    case KEYS_JSON: return keys_read_json(request, keys);
    case KEYS_QUERY: return keys_read_query(request, keys, values);
    default: return keys_read_lines(request, keys);
    }
}

static void keys_handle(struct web_request *request, bool adds, bool in_query)
{
    struct keys keys = { .adds = adds, .form = KEYS_QUERY };
    char values[HTTP_LINE_BYTES];
    bg_errinfo info = { 0 };
    bg_bytes name;
    if (!web_name(request, 3, &name)
        || !web_may(request, adds ? "BG.MADD" : "BG.MEXISTS")) {
        return;
    }
    if (!keys_find(request, name, &keys)
        || (!in_query && !keys_form_of(request, &keys.form))) {
        return;
    }
    if (keys_read(request, &keys, values)) {
        const bg_err err = keys_run(request, &keys, &info);
        session_count(request->session, adds ? 0 : keys.done,
                      adds && keys.front ? keys.done : 0);
        if (err) {
            keys_failed(request, &keys, err, &info);
        } else if (keys.form == KEYS_JSON || keys.form == KEYS_QUERY) {
            keys_answer_json(request, &keys);
        } else {
            keys_answer_lines(request, &keys);
        }
    }
    keys_free(&keys);
}

static void keys_check(struct web_request *request)
{
    keys_handle(request, false, false);
}

static void keys_check_query(struct web_request *request)
{
    keys_handle(request, false, true);
}

static void keys_add(struct web_request *request)
{
    keys_handle(request, true, false);
}

const struct web_route web_key_routes[] = {
    { "GET", "/api/v1/filters/*/check", 0, keys_check_query },
    { "POST", "/api/v1/filters/*/check", WEB_CHANGES | WEB_PLAIN, keys_check },
    { "POST", "/api/v1/filters/*/add", WEB_CHANGES | WEB_WRITES, keys_add },
    { NULL, NULL, 0, NULL },
};

/*
 * api/create.c - creates and changes filters over HTTP: converts JSON to the arguments of a
 * command.
 */
#include "api/handlers.h"

#include "args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A command's arguments, with memory for numeric arguments. */
struct words {
    bg_bytes argv[64];
    size_t n;
    char numbers[32][40];
    size_t numbers_used;
    bg_bytes name;
    bool has_name, expires;
    double expires_in;
};

static void words_add(struct words *words, const char *word)
{
    words->argv[words->n++] = (bg_bytes){ word, strlen(word) };
}

static void words_text(struct words *words, const char *option, struct json_reader *r)
{
    struct json_span text;
    if (json_read_string(r, &text) && words->n < 60) {
        words_add(words, option);
        words->argv[words->n++] = (bg_bytes){ text.bytes, text.len };
    }
}

/* Reads a number, or a string such as "1M", which the command parses. */
static void words_real(struct words *words, const char *option, struct json_reader *r)
{
    double value = 0;
    if (json_read_peek(r) == '"') {
        words_text(words, option, r);
    } else if (json_read_real(r, &value) && words->numbers_used < 32 && words->n < 60
               && (value != 0 || strcmp(option, "FOLDS") != 0)) {
        char *text = words->numbers[words->numbers_used++];
        (void)snprintf(text, 40,
                       value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.17g",
                       value);
        words_add(words, option);
        words_add(words, text);
    }
}

/* Reads a number of seconds, or a string such as "24h". */
static bool words_seconds(struct json_reader *r, double *seconds)
{
    struct json_span text;
    if (json_read_peek(r) != '"') {
        return json_read_real(r, seconds);
    }
    if (json_read_string(r, &text)
        && !args_seconds((bg_bytes){ text.bytes, text.len }, seconds)) {
        r->error = "a number of seconds or a duration such as \"24h\"";
    }
    return !r->error;
}

static void words_name(struct words *words, struct json_reader *r, bool base64)
{
    struct json_span text = { NULL, 0 };
    if (!json_read_string(r, &text)) {
        return;
    }
    words->name = (bg_bytes){ text.bytes, text.len };
    words->has_name = true;
    if (base64 && !web_base64_read(words->name, (char *)text.bytes, &words->name.len)) {
        r->error = "base64 in name_base64";
    }
}

static void words_window(struct words *words, struct json_reader *r)
{
    struct json_span member, mode;
    double seconds = 0;
    if (!json_read_open(r, '{')) {
        return;
    }
    while (json_read_member(r, &member)) {
        if (json_read_is(&member, "seconds")) {
            if (words_seconds(r, &seconds) && words->numbers_used < 32
                && words->n < 60) {
                char *text = words->numbers[words->numbers_used++];
                (void)snprintf(text, 40, "%.0f", ceil(seconds * 1000));
                words_add(words, "WINDOW");
                words_add(words, text);
            }
        } else if (json_read_is(&member, "count")) {
            words_real(words, "COUNT", r);
        } else if (json_read_is(&member, "generations")) {
            words_real(words, "GENERATIONS", r);
        } else if (json_read_is(&member, "mode")) {
            if (!json_read_string(r, &mode) || words->n >= 60) {
                continue;
            }
            if (json_read_is(&mode, "aged")) {
                words_add(words, "AGED");
            } else if (!json_read_is(&mode, "generations")) {
                r->error = "mode \"generations\" or \"aged\"";
            }
        } else {
            r->error = "a field name: mode, generations, seconds or count";
        }
    }
}

/* Converts a member of FilterSpec to arguments. */
static void words_member(struct words *words, struct json_reader *r,
                         const struct json_span *name)
{
    static const struct {
        const char *member, *option;
        bool number;
    } known[] = { { "kind", "KIND", false },    { "capacity", "CAPACITY", true },
                  { "error", "ERROR", true },   { "bits_per_key", "BITS", true },
                  { "memory", "BYTES", true },  { "bits", "K", true },
                  { "folds", "FOLDS", true },   { "width", "WIDTH", true },
                  { "shards", "SHARDS", true }, { "hash", "HASH", false } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (json_read_is(name, known[i].member)) {
            if (known[i].number) {
                words_real(words, known[i].option, r);
            } else {
                words_text(words, known[i].option, r);
            }
            return;
        }
    }
    if (json_read_is(name, "name") || json_read_is(name, "name_base64")) {
        words_name(words, r, json_read_is(name, "name_base64"));
    } else if (json_read_is(name, "window")) {
        words_window(words, r);
    } else if (json_read_is(name, "overfill")) {
        bool overfill = false;
        if (json_read_bool(r, &overfill) && overfill && words->n < 60) {
            words_add(words, "OVERFILL");
        }
    } else if (json_read_is(name, "expires_in_seconds")) {
        words->expires = true;
        words->expires_in = 0;
        if (!json_read_null(r) && words_seconds(r, &words->expires_in)
            && !(words->expires_in > 0 && words->expires_in < 1e12)) {
            r->error = "expires_in_seconds above 0";
        }
    } else {
        r->error = "a documented field name";
    }
}

static bool words_expire(struct web_request *request, const struct words *words,
                         bg_bytes name)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.0f", ceil(words->expires_in * 1000));
    const bg_bytes forever[] = { { "PERSIST", 7 }, name };
    const bg_bytes some_time[] = { { "PEXPIRE", 7 }, name, { text, strlen(text) } };
    return words->expires_in > 0 ? web_command(request, some_time, 3, false)
                                 : web_command(request, forever, 2, false);
}

static void create_exists(struct web_request *request, bg_bytes name)
{
    char shown[64];
    web_error(request, 409, "exists", "filter %s already exists",
              args_show(name, shown));
}

static bool create_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || strchr("-_.~:", c) != NULL;
}

/* Sets the Location header to the new filter's path, or omits the header if no path can express the
 * name. */
static void create_location(struct web_request *request, bg_bytes name)
{
    char path[HTTP_LINE_BYTES - 100] = "/api/v1/filters/";
    const char *bytes = name.data;
    size_t used = strlen(path);
    const bool dots = name.len <= 2 && strncmp("..", bytes, name.len) == 0;
    /* "." and ".." cannot be path segments, because clients would normalize them */
    if (dots) {
        char *segment = web_segment(name);
        (void)snprintf(path + used, sizeof path - used, "%s", segment ? segment : "");
        free(segment);
        web_header(request, "Location", path);
        return;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (used + 4 > sizeof path) {
            return;
        }
        if (bytes[i] && create_is_plain(bytes[i])) {
            path[used++] = bytes[i];
        } else {
            used += (size_t)snprintf(path + used, sizeof path - used, "%%%02X",
                                     (unsigned char)bytes[i]);
        }
    }
    path[used] = 0;
    web_header(request, "Location", path);
}

void filters_create(struct web_request *request)
{
    struct json_reader r;
    struct json_span member;
    struct words words = { .n = 2 };
    if (!web_body(request, &r)) {
        return;
    }
    while (json_read_member(&r, &member)) {
        words_member(&words, &r, &member);
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (!words.has_name) {
        web_error(request, 400, "bad_request", "name is missing");
        return;
    }
    if (session_find(request->session, words.name)
        && user_may_touch(request->client->user, words.name, USER_READ)) {
        create_exists(request, words.name);
        return;
    }
    words.argv[0] = (bg_bytes){ "BG.CREATE", 9 };
    words.argv[1] = words.name;
    if (!web_command(request, words.argv, words.n, false)
        || (words.expires && words.expires_in > 0
            && !words_expire(request, &words, words.name))) {
        return;
    }
    if (web_answer_filter(request, words.name, 201)) {
        create_location(request, words.name);
    }
}

void filters_change(struct web_request *request)
{
    struct json_reader r;
    struct json_span member;
    struct words words = { .n = 2 };
    bg_bytes name;
    if (!web_name(request, 3, &name) || !web_find(request, name, USER_READ | USER_WRITE)
        || !web_body(request, &r)) {
        return;
    }
    while (json_read_member(&r, &member)) {
        if (json_read_is(&member, "name") || json_read_is(&member, "name_base64")
            || json_read_is(&member, "expires_in_seconds")) {
            words_member(&words, &r, &member);
        } else {
            r.error = "name, name_base64 or expires_in_seconds";
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (!words.has_name && !words.expires) {
        web_error(request, 400, "bad_request",
                  "nothing to change: set name, name_base64 or expires_in_seconds");
        return;
    }
    if (words.has_name) {
        const bg_bytes argv[] = { { "RENAMENX", 8 }, name, words.name };
        const bool same = words.name.len == name.len
                          && memcmp(words.name.data, name.data, name.len) == 0;
        int64_t renamed = 0;
        if (!web_command_count(request, argv, 3, false, &renamed)) {
            return;
        }
        if (!renamed && !same) {
            create_exists(request, words.name);
            return;
        }
        name = words.name;
    }
    if (!words.expires || words_expire(request, &words, name)) {
        (void)web_answer_filter(request, name, 200);
    }
}

/* json.c - see json.h. Errors of stdout show at the end: out_finish. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How long the character of UTF-8 is that begins here; 0: it is none. */
static size_t json_character(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                    ? 1
                     : s[0] >= 0xC2 && s[0] < 0xE0  ? 2
                     : (s[0] & 0xF0) == 0xE0        ? 3
                     : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                                    : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    const bool bad =
        n > 2
        && ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)
            || (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F));
    return bad ? 0 : n;
}

static void json_string(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    (void)putchar('"');
    while (*s) {
        const size_t n = json_character(s);
        if (*s == '"' || *s == '\\') {
            printf("\\%c", *s);
        } else if (*s < 0x20 || *s == 0x7F) {
            printf("\\u%04x", *s);
        } else if (n == 0) {
            (void)fputs("\xEF\xBF\xBD", stdout);
        } else {
            (void)fwrite(s, 1, n, stdout);
        }
        s += n ? n : 1;
    }
    (void)putchar('"');
}

static void json_name(struct json *json, const char *name)
{
    if (json->filled[json->depth]) {
        (void)fputs(", ", stdout);
    }
    json->filled[json->depth] = true;
    if (name) {
        json_string(name);
        (void)fputs(": ", stdout);
    }
}

static void json_open(struct json *json, const char *name, char bracket)
{
    json_name(json, name);
    (void)putchar(bracket);
    json->depth += json->depth + 1 < JSON_DEEP;
    json->filled[json->depth] = false;
}

void json_begin(struct json *json, const char *schema)
{
    *json = (struct json){ { false }, 0 };
    (void)putchar('{');
    json_text(json, "schema", schema);
}

void json_end(struct json *json)
{
    (void)json;
    (void)fputs("}\n", stdout);
}

void json_object(struct json *json, const char *name)
{
    json_open(json, name, '{');
}

void json_list(struct json *json, const char *name)
{
    json_open(json, name, '[');
}

void json_close(struct json *json, char bracket)
{
    json->depth -= json->depth > 0;
    (void)putchar(bracket);
}

void json_text(struct json *json, const char *name, const char *text)
{
    json_name(json, name);
    json_string(text);
}

void json_count(struct json *json, const char *name, uint64_t value)
{
    json_name(json, name);
    printf("%" PRIu64, value);
}

void json_real(struct json *json, const char *name, double value)
{
    json_name(json, name);
    if (isfinite(value)) {
        printf("%.6g", value);
    } else {
        (void)fputs("null", stdout);
    }
}

void json_bool(struct json *json, const char *name, bool value)
{
    json_name(json, name);
    (void)fputs(value ? "true" : "false", stdout);
}

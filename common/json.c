/* json.c - see json.h. Write errors are not checked here; out_finish (cli/say.h) reports them at
 * the end. */
#include "json.h"

#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void json_string(struct json *json, const char *text, size_t left)
{
    (void)fputc('"', json->to);
    for (size_t n = 0; left > 0; text += n, left -= n) {
        uint32_t code = 0;
        n = text_character(text, left, &code);
        if (n == 0) {
            n = 1;
            (void)fputs("\xEF\xBF\xBD", json->to);
        } else if (code == '"' || code == '\\') {
            (void)fprintf(json->to, "\\%c", *text);
        } else if (code < 0x20 || code == 0x7F) {
            (void)fprintf(json->to, "\\u%04x", (unsigned)code);
        } else {
            (void)fwrite(text, 1, n, json->to);
        }
    }
    (void)fputc('"', json->to);
}

static void json_name(struct json *json, const char *name)
{
    if (json->filled[json->depth]) {
        (void)fputs(", ", json->to);
    }
    json->filled[json->depth] = true;
    if (name) {
        json_string(json, name, strlen(name));
        (void)fputs(": ", json->to);
    }
}

static void json_open(struct json *json, const char *name, char bracket)
{
    json_name(json, name);
    (void)fputc(bracket, json->to);
    json->depth += json->depth + 1 < JSON_DEEP;
    json->filled[json->depth] = false;
}

void json_begin(struct json *json, const char *schema)
{
    json_begin_to(json, stdout, schema);
}

void json_begin_bare(struct json *json, FILE *to)
{
    *json = (struct json){ .to = to };
    (void)fputc('{', json->to);
}

void json_begin_to(struct json *json, FILE *to, const char *schema)
{
    json_begin_bare(json, to);
    json_text(json, "schema", schema);
}

void json_end(struct json *json)
{
    (void)fputs("}\n", json->to);
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
    (void)fputc(bracket, json->to);
}

void json_text(struct json *json, const char *name, const char *text)
{
    if (text) {
        json_bytes(json, name, text, strlen(text));
    } else {
        json_null(json, name);
    }
}

void json_bytes(struct json *json, const char *name, const char *bytes, size_t n)
{
    json_name(json, name);
    json_string(json, bytes, n);
}

void json_count(struct json *json, const char *name, uint64_t value)
{
    json_name(json, name);
    (void)fprintf(json->to, "%" PRIu64, value);
}

void json_real(struct json *json, const char *name, double value)
{
    json_name(json, name);
    if (isfinite(value)) {
        (void)fprintf(json->to, "%.6g", value);
    } else {
        (void)fputs("null", json->to);
    }
}

void json_bool(struct json *json, const char *name, bool value)
{
    json_name(json, name);
    (void)fputs(value ? "true" : "false", json->to);
}

void json_null(struct json *json, const char *name)
{
    json_name(json, name);
    (void)fputs("null", json->to);
}

void json_exact(struct json *json, const char *name, double value)
{
    char text[32];
    if (!isfinite(value)) {
        json_null(json, name);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    json_name(json, name);
    (void)fputs(text, json->to);
}

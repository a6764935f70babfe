/*
 * json.h - JSON, mostly to stdout: one object per document, with a field "schema" that says what it is,
 * "bloomgate.info.1"; fields may be added under the same number, never changed or removed.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEEP = 16 };

struct json {
    FILE *to;
    bool filled[JSON_DEEP]; /* something stands there already, so a comma is needed */
    int depth;
};

/* `name` is NULL inside of lists. Text that is not UTF-8 has its other bytes as U+FFFD. */
void json_begin(struct json *json, const char *schema);
void json_begin_to(struct json *json, FILE *to, const char *schema);
void json_begin_bare(struct json *json, FILE *to); /* an object without a schema */
void json_end(struct json *json);                  /* with a newline */
void json_object(struct json *json, const char *name);
void json_list(struct json *json, const char *name);
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_text(struct json *json, const char *name, const char *text);
void json_count(struct json *json, const char *name, uint64_t value);
void json_real(struct json *json, const char *name,
               double value); /* not finite: null */
void json_bool(struct json *json, const char *name, bool value);
/* With as many digits as it takes to read the same number again. */
void json_exact(struct json *json, const char *name, double value);
void json_null(struct json *json, const char *name);
void json_bytes(struct json *json, const char *name, const char *bytes, size_t n);

#endif

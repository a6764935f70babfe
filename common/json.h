/*
 * json.h - writes JSON, usually to stdout: one object per document. The field "schema" identifies
 * the document's type, such as "bloomgate.info.1". Fields may be added without changing the schema
 * number, but are never changed or removed.
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
    bool filled
        [JSON_DEEP]; /* whether there is already an element, so that a comma is needed */
    int depth;
};

/* `name` is NULL inside lists. Bytes that are not valid UTF-8 are replaced with U+FFFD. */
void json_begin(struct json *json, const char *schema);
void json_begin_to(struct json *json, FILE *to, const char *schema);
void json_begin_bare(struct json *json, FILE *to); /* an object without a schema */
void json_end(struct json *json); /* ends the document with a newline */
void json_object(struct json *json, const char *name);
void json_list(struct json *json, const char *name);
void json_close(struct json *json, char bracket);                      /* '}' or ']' */
void json_text(struct json *json, const char *name, const char *text); /* NULL: null */
void json_count(struct json *json, const char *name, uint64_t value);
void json_real(struct json *json, const char *name,
               double value); /* writes null if the value is not finite */
void json_bool(struct json *json, const char *name, bool value);
/* Writes enough digits for the number to be read back exactly. */
void json_exact(struct json *json, const char *name, double value);
void json_null(struct json *json, const char *name);
void json_bytes(struct json *json, const char *name, const char *bytes, size_t n);

#endif

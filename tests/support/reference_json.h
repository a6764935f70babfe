/*
 * reference_json.h - a reference implementation of cli/json_path.h, based on the recursive reader
 * common/json_read.h, which decodes all strings. That reader is stricter: it also checks UTF-8 and
 * surrogates, and allows only 64 levels.
 */
#ifndef TESTS_REFERENCE_JSON_H
#define TESTS_REFERENCE_JSON_H

#include "json_path.h"
#include "json_read.h"

#include <stdlib.h>
#include <string.h>

struct reference_found {
    enum json_kind kind;
    char *bytes; /* a decoded string, or the text of a number, true or false */
    size_t n;
};

static inline void reference_value(struct json_reader *r, const struct json_path *path,
                                   size_t step, bool on, struct reference_found *found);

static inline void reference_keep(struct reference_found *found, enum json_kind kind,
                                  const char *bytes, size_t n)
{
    free(found->bytes);
    *found = (struct reference_found){ kind, malloc(n + 1), n };
    if (n) {
        memcpy(found->bytes, bytes, n);
    }
}

/* Reads the members or elements of a container, which is at step `step` of the path if `on`. */
static inline void reference_children(struct json_reader *r,
                                      const struct json_path *path, size_t step,
                                      bool on, struct reference_found *found)
{
    const bool object = json_read_peek(r) == '{';
    struct json_span name;
    on = on && step < path->count && path->steps[step].is_index == !object;
    if (!json_read_open(r, object ? '{' : '[')) {
        return;
    }
    for (uint64_t i = 0; object ? json_read_member(r, &name) : json_read_element(r);
         i++) {
        const bool same =
            on
            && (object ? name.len == path->steps[step].len
                             && memcmp(name.bytes, path->text + path->steps[step].at,
                                       name.len)
                                    == 0
                       : path->steps[step].index == i);
        if (same) {
            reference_keep(found, JSON_ABSENT, "", 0);
        }
        reference_value(r, path, step + 1, same, found);
    }
}

static inline void reference_value(struct json_reader *r, const struct json_path *path,
                                   size_t step, bool on, struct reference_found *found)
{
    const bool wanted = on && step == path->count;
    const char type = json_read_peek(r);
    struct json_span string;
    if (type == '{' || type == '[') {
        if (wanted) {
            reference_keep(found, JSON_CONTAINER, "", 0);
        }
        reference_children(r, path, step, on, found);
    } else if (type == '"') {
        if (json_read_string(r, &string) && wanted) {
            reference_keep(found, JSON_STRING, string.bytes, string.len);
        }
    } else {
        const char *from = r->at;
        if (json_read_skip(r) && wanted) {
            reference_keep(found, type == 'n' ? JSON_ABSENT : JSON_PLAIN, from,
                           type == 'n' ? 0 : (size_t)(r->at - from));
        }
    }
}

/* Returns whether json_path_find agrees with the reference, whose strictness may only reject more
 * texts. */
static inline bool reference_json_agrees(const struct json_path *path, const char *text,
                                         size_t n)
{
    const struct json_value value = json_path_find(path, text, n);
    struct reference_found found = { JSON_ABSENT, NULL, 0 };
    struct json_reader reader, decoder;
    struct json_span string = { NULL, 0 };
    char *copy = malloc(n + 1), *other = malloc(n + 1);
    if (n) {
        memcpy(copy, text, n);
    }
    json_read_begin(&reader, copy, n);
    reference_value(&reader, path, 0, true, &found);
    bool good = !json_read_end(&reader);
    if (!good && (value.kind == JSON_STRING || value.kind == JSON_PLAIN)) {
        memcpy(other, value.at, value.len);
        string = (struct json_span){ other, value.len };
        json_read_begin(&decoder, other, value.len);
        good = value.kind == found.kind
               && (value.kind == JSON_PLAIN || json_read_string(&decoder, &string))
               && string.len == found.n
               && memcmp(string.bytes, found.bytes, found.n) == 0;
    } else if (!good) {
        good = value.kind == found.kind;
    }
    free(copy);
    free(other);
    free(found.bytes);
    return good;
}

#endif

/*
 * json_path.h - finds one value in a JSON text, as --json .user.id selects it.
 *
 * A path consists of member names and list positions: .user.id, .tags[0], ."a.b" or .["a.b"]. The
 * path "." selects the whole text. If an object has several members of the same name, the last one
 * counts, as in most JSON parsers.
 *
 * The whole text is validated, including the part after the value, so truncated lines are always
 * detected. In strings other than the value, UTF-8 and escaped surrogates are not validated.
 */
#ifndef CLI_JSON_PATH_H
#define CLI_JSON_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_PATH_STEPS = 32, JSON_PATH_TEXT = 256, JSON_PATH_DEEP = 1024 };

/* A parsed path. It contains no pointers, so it can be copied. */
struct json_path {
    bool set; /* false if there is no path */
    size_t count;
    struct {
        bool is_index;
        uint64_t index;
        size_t at, len; /* the name in `text` */
    } steps[JSON_PATH_STEPS];
    char text[JSON_PATH_TEXT];
};

/* Parses a path. Returns false if it is invalid. */
bool json_path_parse(const char *text, struct json_path *path);

enum json_kind {
    JSON_ABSENT,    /* there is no value at the path, or it is null */
    JSON_STRING,    /* `at` is the opening quote */
    JSON_PLAIN,     /* a number, true or false */
    JSON_CONTAINER, /* an object or a list */
    JSON_BLANK,     /* the text contains only white space */
    JSON_INVALID    /* not JSON: `why` was expected at `at` */
};

struct json_value {
    enum json_kind kind;
    const char *at;
    size_t len;
    bool simple; /* a string of ASCII characters without escape sequences */
    const char *why;
};

struct json_value json_path_find(const struct json_path *path, const char *text,
                                 size_t n);

#endif

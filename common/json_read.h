/*
 * json_read.h - JSON of strangers, read as it comes, without a tree: a million keys take no more
 * memory than their bytes.
 *
 *     struct json_reader r;
 *     json_read_begin(&r, text, n);
 *     if (json_read_open(&r, '{')) {
 *         while (json_read_member(&r, &name)) {          // {"keys": ["a", "b"], ...}
 *             if (json_read_is(&name, "keys") && json_read_open(&r, '[')) {
 *                 while (json_read_element(&r)) {
 *                     json_read_string(&r, &key);
 *                 }
 *             } else {
 *                 json_read_skip(&r);
 *             }
 *         }
 *     }
 *     if (!json_read_end(&r)) { ... r.error, at r.at - r.text }
 *
 * Strings are decoded in place, so the text changes; they may have NULs. The first mistake is
 * kept in `error`, and after it every function says false, so that one question at the end is
 * enough. Strict: RFC 8259, UTF-8, no lone surrogates, 64 levels at most.
 */
#ifndef COMMON_JSON_READ_H
#define COMMON_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_READ_DEEP = 64 };

struct json_span {
    const char *bytes;
    size_t len;
};

struct json_reader {
    char *text, *at, *end;
    const char *error; /* what was expected; NULL: all is well */
    int depth;
    bool fresh; /* nothing was read yet in what was opened last */
};

void json_read_begin(struct json_reader *r, char *text, size_t n);

/* Enters an object or a list; false: here is none, which is a mistake. */
bool json_read_open(struct json_reader *r, char bracket);

/* Whether there is another member, and its name; or element. False: that was the last, and what
 * was opened is left; or a mistake. */
bool json_read_member(struct json_reader *r, struct json_span *name);
bool json_read_element(struct json_reader *r);

/* A value; false: it is another one. */
bool json_read_string(struct json_reader *r, struct json_span *string);
bool json_read_real(struct json_reader *r, double *value);
bool json_read_count(struct json_reader *r, uint64_t *value);
bool json_read_bool(struct json_reader *r, bool *value);
bool json_read_null(struct json_reader *r); /* no mistake if it is something else */

/* What begins here: one of { [ " 0 (a number) t f n, or 0 at the end. */
char json_read_peek(struct json_reader *r);

/* Passes over a value. */
bool json_read_skip(struct json_reader *r);

/* Whether the text ends here and there was no mistake. */
bool json_read_end(struct json_reader *r);

bool json_read_is(const struct json_span *span, const char *text);

#endif

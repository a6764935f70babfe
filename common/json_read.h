/*
 * json_read.h - parses untrusted JSON as a stream, without building a tree, so a million keys need
 * no memory beyond the text itself.
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
 * Strings are decoded in place, so the text is modified. Decoded strings may contain NULs. The
 * first error is stored in `error`. After an error, every function returns false, so one check at
 * the end suffices. Parsing is strict: RFC 8259, UTF-8, no lone surrogates, at most 64 levels.
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
    const char *error; /* what was expected; NULL if there is no error */
    int depth;
    bool fresh; /* nothing has been read since the last opening bracket */
};

void json_read_begin(struct json_reader *r, char *text, size_t n);

/* Enters an object or a list. If the next value has a different type, sets an error and returns
 * false. */
bool json_read_open(struct json_reader *r, char bracket);

/* json_read_member returns whether the object has another member, and sets *name to its name.
 * json_read_element returns whether the list has another element. After the last member or element,
 * these functions leave the object or list and return false. They also return false on an error. */
bool json_read_member(struct json_reader *r, struct json_span *name);
bool json_read_element(struct json_reader *r);

/* Read a value of one type. If the next value has a different type, these functions set an error
 * and return false. */
bool json_read_string(struct json_reader *r, struct json_span *string);
bool json_read_real(struct json_reader *r, double *value);
bool json_read_count(struct json_reader *r, uint64_t *value);
bool json_read_bool(struct json_reader *r, bool *value);
bool json_read_null(struct json_reader *r); /* sets no error if the value is not null */

/* Returns a character that identifies the type of the next value: one of { [ " t f n, the digit 0
 * for a number, or NUL at the end of the text. */
char json_read_peek(struct json_reader *r);

/* Skips a value. */
bool json_read_skip(struct json_reader *r);

/* Returns whether the whole text was read without an error. */
bool json_read_end(struct json_reader *r);

bool json_read_is(const struct json_span *span, const char *text);

#endif

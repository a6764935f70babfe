/*
 * reference_keys.h - a reference implementation of the records and keys that cli/records.h
 * describes, written as simply as possible: one byte and one record at a time, with copies.
 */
#ifndef TESTS_REFERENCE_KEYS_H
#define TESTS_REFERENCE_KEYS_H

#include "records.h"

#include <stdlib.h>
#include <string.h>

struct reference_text {
    char *bytes;
    size_t n;
};

static inline void reference_put(struct reference_text *text, char c)
{
    text->bytes[text->n++] = c;
}

/* Returns the offset after the quotes at the start of the CSV field at `at`; `at` if it has none.
 * Sets *open to true if the closing quote is missing. */
static inline size_t reference_csv_quotes(const char *bytes, size_t n, size_t at,
                                          bool *open)
{
    *open = false;
    if (at < n && bytes[at] == '"') {
        do { /* skips quoted text, in which two quotes in a row stand for one quote */
            const char *close = memchr(bytes + at + 1, '"', n - at - 1);
            if (!close) {
                *open = true;
                return n;
            }
            at = (size_t)(close - bytes) + 1;
        } while (at < n && bytes[at] == '"');
    }
    return at;
}

/* Returns the offset at which the CSV field at `at` ends: that of a delimiter or newline, or n.
 * Sets *open to true if the closing quote is missing. */
static inline size_t reference_csv_field(const struct key_format *f, const char *bytes,
                                         size_t n, size_t at, bool *open)
{
    at = reference_csv_quotes(bytes, n, at, open);
    while (at < n && bytes[at] != f->delimiter && bytes[at] != '\n') {
        at++;
    }
    return at;
}

static inline size_t reference_csv_end(const struct key_format *f, const char *bytes,
                                       size_t n, size_t at, bool *whole, bool *open)
{
    for (;; at++) {
        at = reference_csv_field(f, bytes, n, at, open);
        *whole = at < n && bytes[at] == '\n';
        if (*whole || at == n) {
            return *whole ? at + 1 : n;
        }
    }
}

/* Returns the offset at which the record at `at` ends. Sets *whole to true if no later byte can
 * change the result. */
static inline size_t reference_end(const struct key_format *f, const char *bytes,
                                   size_t n, size_t at, bool *whole)
{
    bool open;
    *whole = true;
    if (f->records == KEY_RECORDS_CSV) {
        return reference_csv_end(f, bytes, n, at, whole, &open);
    }
    if (f->records == KEY_RECORDS_PREFIXED) {
        size_t length = 0;
        for (size_t i = 0; i < 4 && at + i < n; i++) {
            length += (size_t)(unsigned char)bytes[at + i] << (8 * i);
        }
        *whole = n - at >= 4 && n - at - 4 >= length;
        return *whole ? at + 4 + length : n;
    }
    for (; at < n; at++) {
        if (bytes[at] == f->separator) {
            return at + 1;
        }
    }
    *whole = false;
    return n;
}

static inline size_t reference_whole(const struct key_format *f, const char *bytes,
                                     size_t n)
{
    size_t at = 0;
    bool whole = true;
    while (at < n) {
        const size_t end = reference_end(f, bytes, n, at, &whole);
        if (!whole) {
            return at;
        }
        at = end;
    }
    return at;
}

/* Removes the length prefix or the line ending of a record. */
static inline void reference_strip(const struct key_format *f, const char **from,
                                   size_t *n)
{
    if (f->records == KEY_RECORDS_PREFIXED) {
        *from += *n < 4 ? *n : 4;
        *n -= *n < 4 ? *n : 4;
    } else {
        *n -= *n && (*from)[*n - 1] == f->separator;
        *n -= f->crlf && *n && (*from)[*n - 1] == '\r';
    }
}

/* Returns the selected field, if fields are separated by runs of blanks. */
static inline struct reference_text reference_word(const struct key_format *f,
                                                   const char *from, size_t n)
{
    struct reference_text field = { malloc(n + 1), 0 };
    uint64_t number = 0;
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        const bool blank = from[i] == ' ' || from[i] == '\t';
        number += !blank && !inside;
        inside = !blank;
        if (inside && number == f->field) {
            reference_put(&field, from[i]);
        }
    }
    return field;
}

/* Returns the selected field, with its quotes. */
static inline struct reference_text reference_field(const struct key_format *f,
                                                    const char *from, size_t n)
{
    struct reference_text field = { malloc(n + 1), 0 };
    uint64_t number = 1;
    size_t end = 0; /* end of the CSV field */
    bool open;
    for (size_t i = 0; i < n; i++) {
        if (f->records == KEY_RECORDS_CSV && (i == 0 || i == end + 1)) {
            /* The CR of CR LF does not belong to a quoted field. */
            const size_t after = reference_csv_quotes(from, n, i, &open);
            n -= after > i && after == n - 1 && from[after] == '\r';
            end = reference_csv_field(f, from, n, i, &open);
        }
        if (f->field && from[i] == f->delimiter
            && (f->records != KEY_RECORDS_CSV || i == end)) {
            number++;
            continue;
        }
        if (!f->field || number == f->field) {
            reference_put(&field, from[i]);
        }
    }
    return field;
}

static inline void reference_unquote(struct reference_text *text)
{
    if (text->n < 2 || text->bytes[0] != '"' || text->bytes[text->n - 1] != '"') {
        return;
    }
    const size_t end = text->n - 1;
    text->n = 0;
    for (size_t i = 1; i < end; i++) {
        const char c = text->bytes[i];
        if (c == '"' && i + 1 < end && text->bytes[i + 1] == '"') {
            i++;
        }
        reference_put(text, c);
    }
}

static inline void reference_trim(struct reference_text *text)
{
    static const char blanks[] = " \t\n\v\f\r";
    size_t front = 0;
    while (text->n && memchr(blanks, text->bytes[text->n - 1], sizeof blanks - 1)) {
        text->n--;
    }
    while (front < text->n && memchr(blanks, text->bytes[front], sizeof blanks - 1)) {
        front++;
    }
    memmove(text->bytes, text->bytes + front, text->n - front);
    text->n -= front;
}

static inline bool reference_integer(const struct reference_text *text, size_t width,
                                     struct reference_text *key)
{
    const bool negative = text->n && text->bytes[0] == '-';
    __extension__ typedef __int128 wide;
    const wide one = 1;
    wide value = 0;
    for (size_t i = negative; i < text->n; i++) {
        if (text->bytes[i] < '0' || text->bytes[i] > '9' || value > one << 70) {
            return false;
        }
        value = 10 * value + (text->bytes[i] - '0');
    }
    value = negative ? -value : value;
    for (size_t i = 0; i < width; i++) {
        reference_put(key, (char)(unsigned char)((uint64_t)value >> (8 * i)));
    }
    return text->n > (size_t)negative && value < one << (8 * width)
           && value >= -(one << (8 * width - 1));
}

static inline bool reference_hex(const struct reference_text *text,
                                 struct reference_text *key)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int high = 0;
    for (size_t i = 0; i < text->n; i++) {
        const char *digit = memchr(digits, text->bytes[i], sizeof digits - 1);
        if (!digit) {
            return false;
        }
        const int value = (int)(digit - digits) < 16 ? (int)(digit - digits)
                                                     : (int)(digit - digits) - 6;
        if (i % 2) {
            reference_put(key, (char)(16 * high + value));
        }
        high = value;
    }
    return text->n % 2 == 0;
}

/* Returns the length of the UTF-8 sequence at s, or 0 if the sequence is invalid. The table is
 * Table 3-7 (well-formed UTF-8 byte sequences) of the Unicode standard. */
static inline size_t reference_utf8(const unsigned char *s, size_t n)
{
    static const unsigned char table[][5] = {
        /* range of the first byte, range of the second byte, length */
        { 0x00, 0x7F, 0x00, 0xFF, 1 }, { 0xC2, 0xDF, 0x80, 0xBF, 2 },
        { 0xE0, 0xE0, 0xA0, 0xBF, 3 }, { 0xE1, 0xEC, 0x80, 0xBF, 3 },
        { 0xED, 0xED, 0x80, 0x9F, 3 }, { 0xEE, 0xEF, 0x80, 0xBF, 3 },
        { 0xF0, 0xF0, 0x90, 0xBF, 4 }, { 0xF1, 0xF3, 0x80, 0xBF, 4 },
        { 0xF4, 0xF4, 0x80, 0x8F, 4 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const unsigned char *row = table[i];
        if (s[0] < row[0] || s[0] > row[1]) {
            continue;
        }
        bool good = row[4] <= n && (row[4] == 1 || (s[1] >= row[2] && s[1] <= row[3]));
        for (size_t j = 2; good && j < row[4]; j++) {
            good = s[j] >= 0x80 && s[j] <= 0xBF;
        }
        return good ? row[4] : 0;
    }
    return 0;
}

static inline void reference_put_unit(struct reference_text *key, uint32_t unit)
{
    reference_put(key, (char)(unsigned char)unit);
    reference_put(key, (char)(unsigned char)(unit >> 8));
}

static inline bool reference_utf16(const struct reference_text *text,
                                   struct reference_text *key)
{
    const unsigned char *s = (const unsigned char *)text->bytes;
    for (size_t i = 0, step; i < text->n; i += step) {
        static const unsigned masks[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
        step = reference_utf8(s + i, text->n - i);
        uint32_t code = s[i] & masks[step];
        for (size_t j = 1; j < step; j++) {
            code = 64 * code + s[i + j] % 64;
        }
        if (step == 0) {
            return false;
        }
        if (step < 4) {
            reference_put_unit(key, code);
        } else {
            reference_put_unit(key, 0xD7C0 + code / 1024);
            reference_put_unit(key, 0xDC00 + code % 1024);
        }
    }
    return true;
}

static inline bool reference_form(enum key_form form, const struct reference_text *text,
                                  struct reference_text *key)
{
    switch (form) {
    case KEY_TEXT:
        memcpy(key->bytes, text->bytes, text->n);
        key->n = text->n;
        return true;
    case KEY_INT64: return reference_integer(text, 8, key);
    case KEY_INT32: return reference_integer(text, 4, key);
    case KEY_HEX: return reference_hex(text, key);
    case KEY_UTF16: return reference_utf16(text, key);
    }
    return false;
}

/* Extracts the key from a record of n bytes. Returns false if the record has no key. Free
 * key->bytes. */
static inline bool reference_key(const struct key_format *f, const char *from, size_t n,
                                 struct reference_text *key)
{
    *key = (struct reference_text){ malloc(2 * n + 8), 0 };
    reference_strip(f, &from, &n);
    struct reference_text text = f->blanks && f->field ? reference_word(f, from, n)
                                                       : reference_field(f, from, n);
    if (f->records == KEY_RECORDS_CSV) {
        reference_unquote(&text);
    }
    if (f->trim) {
        reference_trim(&text);
    }
    for (size_t i = 0; f->lower && i < text.n; i++) {
        static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const char *letter = memchr(upper, text.bytes[i], sizeof upper - 1);
        if (letter) {
            text.bytes[i] = (char)('a' + (letter - upper));
        }
    }
    const bool good = reference_form(f->form, &text, key);
    free(text.bytes);
    return good;
}

/*
 * Checks that the records and keys of a chunk match those that the reference finds in the chunk's
 * bytes. `code` is the exit code from splitting the chunk.
 */
static inline bool reference_agrees(const struct key_format *f,
                                    const struct chunk *chunk, int code)
{
    size_t at = 0, i = 0;
    bool good = true, fine = true, whole;
    for (; good && fine && at < chunk->used; i++) {
        struct reference_text key;
        const size_t end = reference_end(f, chunk->bytes, chunk->used, at, &whole);
        bool open = false;
        if (f->records == KEY_RECORDS_CSV) {
            (void)reference_csv_end(f, chunk->bytes, chunk->used, at, &whole, &open);
        }
        fine = reference_key(f, chunk->bytes + at, end - at, &key) && !open
               && (whole || f->records != KEY_RECORDS_PREFIXED);
        if (fine && code == 0) {
            good =
                i < chunk->count && chunk->ends[i] == end && chunk->keys[i].len == key.n
                && (key.n == 0 || memcmp(chunk->keys[i].data, key.bytes, key.n) == 0);
        }
        free(key.bytes);
        at = end;
    }
    return good && fine == (code == 0) && (code || i == chunk->count);
}

#endif

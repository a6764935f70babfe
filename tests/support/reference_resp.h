/*
 * reference_resp.h - a reference parser for the requests that resp.h describes, written as
 * simply as possible. The parser gets all bytes at once. Numbers are parsed by the C library, and
 * must be written exactly as the library would print them. Words are built one byte at a time in
 * separate memory.
 */
#ifndef TESTS_REFERENCE_RESP_H
#define TESTS_REFERENCE_RESP_H

#include "resp_story.h"

#include <stdio.h>

struct reference_resp {
    const char *bytes;
    size_t n, at;
    const struct resp_limits *limits;
    struct resp_story *story;
};

static inline bool reference_resp_stop(struct reference_resp *r, enum resp_result end,
                                       const char *error)
{
    r->story->end = end;
    (void)snprintf(
        r->story->error, sizeof r->story->error, "%s%s",
        *error && strcmp(error, "out of memory") != 0 ? "Protocol error: " : "", error);
    return false;
}

/* Sets *length to the number of bytes before `mark`, which ends the line. If `mark` is missing or
 * the line is longer than limits->line, stops the parser and returns false. */
static inline bool reference_resp_line(struct reference_resp *r, char mark,
                                       size_t *length, const char *too_long)
{
    size_t i = 0;
    while (r->at + i < r->n && r->bytes[r->at + i] != mark && i <= r->limits->line) {
        i++;
    }
    *length = i;
    if (i > r->limits->line) {
        return reference_resp_stop(r, RESP_ERROR, too_long);
    }
    return r->at + i < r->n || reference_resp_stop(r, RESP_PARTIAL, "");
}

/* Consumes a line that consists of a type byte and an integer. */
static inline bool reference_resp_number(struct reference_resp *r, long long *value,
                                         const char *bad, const char *too_long)
{
    char text[24] = "", again[24];
    size_t length;
    if (!reference_resp_line(r, '\r', &length, too_long)) {
        return false;
    }
    if (r->at + length + 1 == r->n) {
        return reference_resp_stop(r, RESP_PARTIAL, "");
    }
    if (length > 1 && length <= 20) {
        memcpy(text, r->bytes + r->at + 1, length - 1);
    }
    *value = strtoll(text, NULL, 10);
    (void)snprintf(again, sizeof again, "%lld", *value);
    const size_t digits = length - 1 - (text[0] == '-');
    if (r->bytes[r->at + length + 1] != '\n' || strlen(text) != length - 1
        || digits > 18 || strcmp(text, again) != 0) {
        return reference_resp_stop(r, RESP_ERROR, bad);
    }
    r->at += length + 2;
    return true;
}

static inline bool reference_resp_string(struct reference_resp *r, size_t begin,
                                         bg_bytes *argument)
{
    const bool strangers = r->limits->strangers;
    long long length = 0;
    char got[48];
    if (r->at == r->n) {
        return reference_resp_stop(r, RESP_PARTIAL, "");
    }
    const unsigned char type = (unsigned char)r->bytes[r->at];
    if (type != '$') {
        (void)snprintf(got, sizeof got,
                       type < 32 || type > 126 ? "expected '$', got '\\x%02x'"
                                               : "expected '$', got '%c'",
                       type);
        return reference_resp_stop(r, RESP_ERROR, got);
    }
    if (!reference_resp_number(r, &length, "invalid bulk length",
                               "too big bulk count string")) {
        return false;
    }
    if (length < 0 || (unsigned long long)length > r->limits->bulk) {
        return reference_resp_stop(r, RESP_ERROR,
                                   length > 0 && strangers
                                       ? "unauthenticated bulk length"
                                       : "invalid bulk length");
    }
    if (r->at - begin + (size_t)length > r->limits->request) {
        return reference_resp_stop(r, RESP_ERROR, "too big request");
    }
    if (r->n - r->at < (size_t)length + 2) {
        return reference_resp_stop(r, RESP_PARTIAL, "");
    }
    *argument = (bg_bytes){ r->bytes + r->at, (size_t)length };
    r->at += (size_t)length + 2;
    return memcmp(r->bytes + r->at - 2, "\r\n", 2) == 0
           || reference_resp_stop(r, RESP_ERROR, "expected CRLF after a bulk");
}

/* Memory that is reused by later calls. */
struct reference_resp_memory {
    void *bytes;
    size_t room;
};

static inline void *reference_resp_room(struct reference_resp_memory *memory, size_t n)
{
    if (n > memory->room) {
        free(memory->bytes);
        memory->room = 2 * n + 100;
        memory->bytes = malloc(memory->room);
    }
    if (!memory->bytes) {
        abort();
    }
    return memory->bytes;
}

static inline bool reference_resp_array(struct reference_resp *r)
{
    static struct reference_resp_memory memory;
    const size_t begin = r->at;
    long long count = 0;
    bool good = true;
    if (!reference_resp_number(r, &count, "invalid multibulk length",
                               "too big mbulk count string")) {
        return false;
    }
    if (count > 0 && (unsigned long long)count > r->limits->arguments) {
        return reference_resp_stop(r, RESP_ERROR,
                                   r->limits->strangers
                                       ? "unauthenticated multibulk length"
                                       : "invalid multibulk length");
    }
    if (count <= 0) {
        return true;
    }
    /* each bulk string needs at least six bytes */
    bg_bytes *argv =
        reference_resp_room(&memory, ((r->n - r->at) / 6 + 1) * sizeof *argv);
    for (long long i = 0; good && i < count; i++) {
        bg_bytes argument = { NULL, 0 };
        good = reference_resp_string(r, begin, &argument);
        if (good) {
            argv[i] = argument;
        }
    }
    if (good) {
        resp_story_add(r->story, argv, (size_t)count);
    }
    return good;
}

/* ---- Lines ------------------------------------------------------------------------------- */

/* A state machine with five modes. It reads a line and appends the line's words to `words`. */
struct reference_resp_words {
    enum { BETWEEN, INSIDE, DOUBLE, SINGLE, CLOSED } mode;
    char *words;
    size_t used;
    bg_bytes *argv;
    size_t argc;
};

static inline bool reference_resp_space(char c)
{
    return c && strchr(" \t\n\v\f\r", c);
}

/* Decodes the next character inside the double quotes of text[0..n), and returns the number of
 * bytes consumed. */
static inline size_t reference_resp_escaped(const char *text, size_t n, char *c)
{
    static const char names[] = "nrtba", values[] = "\n\r\t\b\a";
    unsigned code;
    char hex[3] = "";
    *c = text[0];
    if (text[0] != '\\' || n < 2) {
        return 1;
    }
    if (text[1] == 'x' && n >= 4) {
        memcpy(hex, text + 2, 2);
        if (strlen(hex) == 2 && strspn(hex, "0123456789abcdefABCDEF") == 2
            && sscanf(hex, "%x", &code) == 1) { /* NOLINT(cert-err34-c): two digits */
            *c = (char)code;
            return 4;
        }
    }
    const char *name = text[1] ? strchr(names, text[1]) : NULL;
    *c = (char)(name ? values[name - names] : text[1]);
    return 2;
}

static inline void reference_resp_put(struct reference_resp_words *w, char c)
{
    w->words[w->used++] = c;
    w->argv[w->argc - 1].len++;
}

/* Processes the next character of a line. Returns the number of bytes consumed, or 0 on error. */
static inline size_t reference_resp_step(struct reference_resp_words *w,
                                         const char *text, size_t n)
{
    char c = text[0];
    size_t took = 1;
    if (w->mode == CLOSED && !reference_resp_space(c)) {
        return 0;
    }
    if (w->mode == BETWEEN || w->mode == CLOSED) {
        w->mode = BETWEEN;
        if (reference_resp_space(c)) {
            return 1;
        }
        w->argv[w->argc++] = (bg_bytes){ w->words + w->used, 0 };
        w->mode = INSIDE;
    }
    if (w->mode == DOUBLE || w->mode == SINGLE) {
        if (c == (w->mode == DOUBLE ? '"' : '\'')) {
            w->mode = CLOSED;
            return 1;
        }
        if (w->mode == DOUBLE) {
            took = reference_resp_escaped(text, n, &c);
        } else if (n > 1 && c == '\\' && text[1] == '\'') {
            c = text[1];
            took = 2;
        }
        reference_resp_put(w, c);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        w->mode = BETWEEN;
    } else if (c == '"' || c == '\'') {
        w->mode = c == '"' ? DOUBLE : SINGLE;
    } else {
        reference_resp_put(w, c);
    }
    return took;
}

static inline bool reference_resp_inline(struct reference_resp *r)
{
    static struct reference_resp_memory words, argv;
    size_t length;
    if (!reference_resp_line(r, '\n', &length, "too big inline request")) {
        return false;
    }
    const char *line = r->bytes + r->at;
    const size_t n = length && line[length - 1] == '\r' ? length - 1 : length;
    struct reference_resp_words w = { .words = reference_resp_room(&words, n + 1),
                                      .argv = reference_resp_room(
                                          &argv, (n + 1) * sizeof *w.argv) };
    size_t at = 0, took = 1;
    bool many = false;
    while (at < n && took && !many) {
        took = reference_resp_step(&w, line + at, n - at);
        at += took;
        /* the error for too many words is reported only after a complete, valid word */
        many = w.argc > r->limits->arguments
               && (w.mode == BETWEEN || w.mode == CLOSED || at == n)
               && !(w.mode == CLOSED && at < n && !reference_resp_space(line[at]));
    }
    r->at += length + 1;
    bool good = took && w.mode != DOUBLE && w.mode != SINGLE;
    if (!good) {
        (void)reference_resp_stop(r, RESP_ERROR, "unbalanced quotes in request");
    } else if (many) {
        good = reference_resp_stop(r, RESP_ERROR,
                                   r->limits->strangers
                                       ? "unauthenticated multibulk length"
                                       : "invalid multibulk length");
    } else if (w.argc) {
        resp_story_add(r->story, w.argv, w.argc);
    }
    return good;
}

/* Writes the story of a stream, as resp_story_tell does. */
static inline void reference_resp_tell(struct resp_story *story, const char *bytes,
                                       size_t n, const struct resp_limits *limits)
{
    struct reference_resp r = { bytes, n, 0, limits, story };
    bool good = true;
    while (good && r.at < n) {
        story->consumed = r.at;
        good =
            bytes[r.at] == '*' ? reference_resp_array(&r) : reference_resp_inline(&r);
    }
    if (good) {
        story->consumed = r.at;
    }
}

#endif

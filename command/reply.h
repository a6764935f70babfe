/*
 * reply.h - the interface through which handlers reply, independent of the transport: RESP2,
 * RESP3 or the Redis module API.
 *
 * A handler sends exactly one reply. The header of an array of n elements is followed by n replies,
 * and the header of a map of n entries by 2n replies. Types that RESP2 does not support are
 * converted: a boolean to 0 or 1, a double to a string, a map to an array. Handlers therefore
 * rarely need to check the protocol.
 */
#ifndef COMMAND_REPLY_H
#define COMMAND_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reply_ops {
    void (*status)(void *to, const char *text);
    void (*error)(void *to, const char *text); /* with its code: "ERR not found" */
    void (*integer)(void *to, int64_t value);
    void (*boolean)(void *to, bool value);
    void (*booleans)(void *to, const uint64_t *bits,
                     size_t n); /* n replies: bits 0 to n - 1 */
    void (*real)(void *to, double value);
    void (*bulk)(void *to, const void *bytes, size_t n);
    void (*null)(void *to);
    void (*array)(void *to, size_t n);
    void (*map)(void *to, size_t n);
    void (*set)(void *to, size_t n);
};

struct reply {
    const struct reply_ops *ops;
    void *to;
    int protocol; /* RESP version (2 or 3), for the few replies whose content depends on it */
};

static inline void reply_status(const struct reply *r, const char *text)
{
    r->ops->status(r->to, text);
}

static inline void reply_ok(const struct reply *r)
{
    r->ops->status(r->to, "OK");
}

/* Sends an error. Returns false, so that a failed check can send it in one statement. */
static inline bool reply_error(const struct reply *r, const char *text)
{
    r->ops->error(r->to, text);
    return false;
}

static inline void reply_integer(const struct reply *r, int64_t value)
{
    r->ops->integer(r->to, value);
}

static inline void reply_boolean(const struct reply *r, bool value)
{
    r->ops->boolean(r->to, value);
}

static inline void reply_real(const struct reply *r, double value)
{
    r->ops->real(r->to, value);
}

static inline void reply_bulk(const struct reply *r, const void *bytes, size_t n)
{
    r->ops->bulk(r->to, bytes, n);
}

static inline void reply_text(const struct reply *r, const char *text)
{
    r->ops->bulk(r->to, text, strlen(text));
}

static inline void reply_null(const struct reply *r)
{
    r->ops->null(r->to);
}

static inline void reply_array(const struct reply *r, size_t n)
{
    r->ops->array(r->to, n);
}

static inline void reply_map(const struct reply *r, size_t n)
{
    r->ops->map(r->to, n);
}

static inline void reply_set(const struct reply *r, size_t n)
{
    r->ops->set(r->to, n);
}

/* Sends an unsigned number. Numbers above the range of integers become the maximum. */
static inline void reply_count(const struct reply *r, uint64_t value)
{
    reply_integer(r, (int64_t)(value < INT64_MAX ? value : INT64_MAX));
}

/* Send an entry of a map: a title and a value. */
static inline void reply_entry_count(const struct reply *r, const char *title,
                                     uint64_t value)
{
    reply_text(r, title);
    reply_count(r, value);
}

static inline void reply_entry_text(const struct reply *r, const char *title,
                                    const char *value)
{
    reply_text(r, title);
    reply_text(r, value);
}

static inline void reply_entry_real(const struct reply *r, const char *title,
                                    double value)
{
    reply_text(r, title);
    reply_real(r, value);
}

static inline void reply_entry_boolean(const struct reply *r, const char *title,
                                       bool value)
{
    reply_text(r, title);
    reply_boolean(r, value);
}

/* Sends a formatted error, truncated to 499 bytes. Line breaks are replaced with spaces. Returns
 * false. */
bool reply_errorf(const struct reply *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

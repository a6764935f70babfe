/*
 * buffer.h - a buffer of bytes received from a socket, or to be sent to one.
 *
 *     data           begin              used               room
 *      | sent already | waiting bytes    | free             |
 *
 * A buffer grows by doubling and never holds more than `limit` waiting bytes. The waiting bytes are
 * moved to the front of the memory only when at least as many bytes have been removed as are still
 * waiting, so each byte is moved a bounded number of times. A buffer allocates less than four times
 * its limit.
 *
 * Buffer memory counts toward the ledger's limit (ledger.h).
 *
 * If bytes do not fit, because of the limit or because memory is unavailable, `overflow` is set.
 * After that, nothing more is written to the buffer, so a reply is never followed by a fragment of
 * a later reply. Writers need not check `overflow`: the code that sends the bytes checks it once
 * and closes the connection.
 *
 * A zero-initialized buffer with a limit is empty and owns no memory, so idle connections use no
 * buffer memory. Thread safety: one thread at a time.
 */
#ifndef SERVER_UTIL_BUFFER_H
#define SERVER_UTIL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
    char *data;
    size_t begin; /* start of the waiting bytes */
    size_t used;  /* end of the waiting bytes */
    size_t room;
    size_t limit; /* maximum value of used - begin */
    bool overflow;
};

static inline void buffer_init(struct buffer *b, size_t limit)
{
    *b = (struct buffer){ .limit = limit };
}

void buffer_free(struct buffer *b);

/* Empties the buffer, clears `overflow`, and frees its memory if it exceeds `keep` bytes. */
static inline void buffer_clear(struct buffer *b, size_t keep)
{
    if (b->room > keep) {
        buffer_free(b);
    }
    b->begin = b->used = 0;
    b->overflow = false;
}

static inline size_t buffer_waiting(const struct buffer *b)
{
    return b->used - b->begin;
}

/* Returns whether writers should pause: more than half of the limit is pending, or a write
 * overflowed. */
static inline bool buffer_is_full(const struct buffer *b)
{
    return buffer_waiting(b) > b->limit / 2 || b->overflow;
}

/* Returns the waiting bytes, or NULL if the buffer has no memory. */
static inline char *buffer_bytes(const struct buffer *b)
{
    return b->data ? b->data + b->begin : NULL;
}

/* Reserves space for n more bytes. This is the slow path; callers use buffer_space instead. */
bool buffer_grow(struct buffer *b, size_t n);

/* Returns a pointer to space for n bytes, or sets `overflow` and returns NULL if n bytes do not
 * fit. After writing, call buffer_wrote with the number of bytes written. n must not be 0. */
static inline char *buffer_space(struct buffer *b, size_t n)
{
    if (n > b->room - b->used || buffer_waiting(b) + n > b->limit || b->overflow) {
        if (!buffer_grow(b, n)) {
            return NULL;
        }
    }
    return b->data + b->used;
}

static inline void buffer_wrote(struct buffer *b, size_t n)
{
    b->used += n;
}

static inline void buffer_put(struct buffer *b, const void *bytes, size_t n)
{
    char *to = n ? buffer_space(b, n) : NULL;
    if (to) {
        memcpy(to, bytes, n);
        b->used += n;
    }
}

static inline void buffer_text(struct buffer *b, const char *text)
{
    buffer_put(b, text, strlen(text));
}

/* Writes a decimal number. */
void buffer_number(struct buffer *b, uint64_t value);

/* Writes a decimal number to `to`, without a terminator. Returns the number of bytes written, up to
 * 20. */
size_t buffer_digits(char to[20], uint64_t value);

/* Returns the byte to write for a byte of untrusted text: CR, LF and NUL become spaces, so that the
 * text cannot end the line. */
static inline char buffer_line_byte(char c)
{
    if (c == '\r' || c == '\n' || c == '\0') {
        return ' ';
    }
    return c;
}

/* Writes untrusted text as part of a line; see buffer_line_byte. */
void buffer_line(struct buffer *b, const char *text, size_t n);

/* Removes the first n waiting bytes. */
static inline void buffer_drop(struct buffer *b, size_t n)
{
    b->begin += n;
    if (b->begin == b->used) {
        b->begin = b->used = 0;
    }
}

#endif

/*
 * buffer.h - bytes on their way: what came from a socket, or what is to go to one.
 *
 *     data           begin              used               room
 *      | sent already | bytes that wait  | free             |
 *
 * A buffer grows by doubling, never holds more than `limit` waiting bytes, and is moved to the
 * front of its memory only when at least as much has been taken as is left, so each byte is
 * moved a bounded number of times. Its memory stays below four times the limit.
 *
 * The ledger (ledger.h) counts the memory, and refuses it beyond its limit.
 *
 * What does not fit, because of the limit or for lack of memory, sets `overflow`; from then on
 * nothing is written any more, so that a reply is never followed by half of another. Writers
 * need not look at it: who sends the bytes does, once, and ends the connection.
 *
 * Zeros, with a limit, are an empty buffer without memory: idle connections cost none.
 * Thread safety: as any data, one thread at a time.
 */
#ifndef SERVER_BUFFER_H
#define SERVER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
    char *data;
    size_t begin; /* of the bytes that wait */
    size_t used;  /* their end */
    size_t room;
    size_t limit; /* of used - begin */
    bool overflow;
};

static inline void buffer_init(struct buffer *b, size_t limit)
{
    *b = (struct buffer){ .limit = limit };
}

void buffer_free(struct buffer *b);

/* Empties it; overflow is forgotten, memory above `keep` bytes is given back. */
void buffer_clear(struct buffer *b, size_t keep);

static inline size_t buffer_waiting(const struct buffer *b)
{
    return b->used - b->begin;
}

/* The waiting bytes; NULL if it has no memory. */
static inline char *buffer_bytes(const struct buffer *b)
{
    return b->data ? b->data + b->begin : NULL;
}

/* Makes room for n more bytes, the slow way: use buffer_space. */
bool buffer_grow(struct buffer *b, size_t n);

/* Where n bytes may be written, or NULL: it would overflow, and does. buffer_wrote says how
 * many of them have been. n is not 0. */
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

/* A number in decimal. */
void buffer_number(struct buffer *b, uint64_t value);

/* The same into memory, without an end mark; returns how many of the 20 bytes it takes. */
size_t buffer_digits(char to[20], uint64_t value);

/* A byte of others within a line: CR, LF and NUL become blanks. */
static inline char buffer_line_byte(char c)
{
    if (c == '\r' || c == '\n' || c == '\0') {
        return ' ';
    }
    return c;
}

/* Text of others within a line. */
void buffer_line(struct buffer *b, const char *text, size_t n);

/* Takes the first n of the waiting bytes away. */
static inline void buffer_drop(struct buffer *b, size_t n)
{
    b->begin += n;
    if (b->begin == b->used) {
        b->begin = b->used = 0;
    }
}

#endif

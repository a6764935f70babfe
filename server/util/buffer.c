/* buffer.c - growable buffers, and functions that write common data types to them. */
#include "util/buffer.h"

#include "ledger.h"

#include <stdlib.h>

enum {
    BUFFER_FIRST = 1024,
    /* Allocations up to this size are refused only when memory is critically low. */
    BUFFER_SMALL = 16 << 10
};

void buffer_free(struct buffer *b)
{
    free(b->data);
    ledger_release(LEDGER_BUFFERS, b->room);
    buffer_init(b, b->limit);
}

/* Doubles the current size until `need` bytes fit, and returns the result. The result exceeds the
 * limit only if `need` does. */
static size_t buffer_next_room(const struct buffer *b, size_t need)
{
    size_t room = b->room ? b->room : BUFFER_FIRST;
    while (room < need) {
        room = room > SIZE_MAX / 2 ? need : room * 2;
    }
    return room > b->limit && need <= b->limit ? b->limit : room;
}

/* Moves the waiting bytes to the front if this frees enough space to be worth the copy. */
static void buffer_settle(struct buffer *b)
{
    const size_t waiting = buffer_waiting(b);
    if (b->begin && b->begin >= waiting) {
        memmove(b->data, b->data + b->begin, waiting);
        b->begin = 0;
        b->used = waiting;
    }
}

/* Reserves memory for a buffer in the ledger. The first BUFFER_FIRST bytes are never refused, so
 * that errors can be sent. */
static bool buffer_reserve(size_t room, size_t more)
{
    if (room <= BUFFER_FIRST) {
        ledger_add(LEDGER_BUFFERS, more);
        return true;
    }
    return room <= BUFFER_SMALL ? ledger_reserve_small(more)
                                : ledger_reserve(LEDGER_BUFFERS, more);
}

/* Moves the bytes to a block of a different size if the memory limit allows it. */
static bool buffer_resize(struct buffer *b, size_t room)
{
    const size_t more = room - b->room;
    if (!buffer_reserve(room, more)) {
        return false;
    }
    char *data = realloc(b->data, room);
    if (!data) {
        ledger_release(LEDGER_BUFFERS, more);
        return false;
    }
    b->data = data;
    b->room = room;
    return true;
}

bool buffer_grow(struct buffer *b, size_t n)
{
    const size_t waiting = buffer_waiting(b);
    if (b->overflow || waiting > b->limit || n > b->limit - waiting) {
        b->overflow = true;
        return false;
    }
    buffer_settle(b);
    if (n <= b->room - b->used) {
        return true;
    }
    if (n > SIZE_MAX - b->used) {
        b->overflow = true;
        return false;
    }
    b->overflow = !buffer_resize(b, buffer_next_room(b, b->used + n));
    return !b->overflow;
}

size_t buffer_digits(char to[20], uint64_t value)
{
    char reverse[20];
    size_t n = 0;
    do {
        reverse[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    for (size_t i = 0; i < n; i++) {
        to[i] = reverse[n - 1 - i];
    }
    return n;
}

void buffer_number(struct buffer *b, uint64_t value)
{
    char digits[20];
    buffer_put(b, digits, buffer_digits(digits, value));
}

void buffer_line(struct buffer *b, const char *text, size_t n)
{
    char *to = n ? buffer_space(b, n) : NULL;
    for (size_t i = 0; to && i < n; i++) {
        to[i] = buffer_line_byte(text[i]);
    }
    buffer_wrote(b, to ? n : 0);
}

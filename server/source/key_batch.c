/* key_batch.c - stores keys one after another in a growing buffer; see key_batch.h. */
#include "source/key_batch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool key_batch_is_full(const struct key_batch *batch)
{
    return batch->n == KEY_BATCH || batch->used >= KEY_BATCH_BYTES;
}

static bool key_batch_grow(struct key_batch *batch, size_t len)
{
    if (batch->bytes && batch->room - batch->used >= len) {
        return true;
    }
    if (len > SIZE_MAX / 4) {
        return false;
    }
    const size_t wanted = batch->used + len;
    const size_t room = wanted < 4096 ? 4096 : wanted + wanted / 2;
    char *bytes = realloc(batch->bytes, room);
    if (bytes) {
        batch->bytes = bytes;
        batch->room = room;
    }
    return bytes != NULL;
}

/* Adds a key of the given length and returns a pointer to its bytes, which the caller fills in. Returns NULL if
 * out of memory or if the batch already contains KEY_BATCH keys. */
static char *key_batch_place(struct key_batch *batch, size_t len)
{
    if (batch->n == KEY_BATCH || !key_batch_grow(batch, len)) {
        return NULL;
    }
    char *place = batch->bytes + batch->used;
    batch->used += len;
    batch->ends[batch->n++] = batch->used;
    return place;
}

bool key_batch_put(struct key_batch *batch, const void *data, size_t len)
{
    char *place = key_batch_place(batch, len);
    if (place && len) {
        memcpy(place, data, len);
    }
    return place != NULL;
}

/* Returns the value of a hex digit, or 16 for any other character. */
static unsigned key_batch_digit(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                  : 16;
}

bool key_batch_put_hex(struct key_batch *batch, const char *hex, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (key_batch_digit(hex[i]) > 15) {
            return false;
        }
    }
    char *place = len % 2 == 0 ? key_batch_place(batch, len / 2) : NULL;
    for (size_t i = 0; place && i < len; i += 2) {
        place[i / 2] =
            (char)(key_batch_digit(hex[i]) << 4 | key_batch_digit(hex[i + 1]));
    }
    return place != NULL;
}

const bg_bytes *key_batch_keys(struct key_batch *batch)
{
    size_t begin = 0;
    for (size_t i = 0; i < batch->n; i++) {
        batch->keys[i] = (bg_bytes){ batch->bytes + begin, batch->ends[i] - begin };
        begin = batch->ends[i];
    }
    return batch->keys;
}

void key_batch_clear(struct key_batch *batch)
{
    batch->n = batch->used = 0;
}

void key_batch_free(struct key_batch *batch)
{
    free(batch->bytes);
    batch->bytes = NULL;
    batch->room = 0;
    key_batch_clear(batch);
}

/*
 * key_batch.h - some keys, copied to one place: what a source reads before it hands them on.
 *
 * A batch is full at KEY_BATCH keys, or at KEY_BATCH_BYTES; one key may be larger than that. The
 * memory is kept for the next batch.
 */
#ifndef SERVER_KEY_BATCH_H
#define SERVER_KEY_BATCH_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>

enum { KEY_BATCH = 1024, KEY_BATCH_BYTES = 1 << 20 };

/* All zero: empty. */
struct key_batch {
    char *bytes;
    size_t used, room;
    size_t n;
    size_t ends[KEY_BATCH];
    bg_bytes keys[KEY_BATCH]; /* by key_batch_keys */
};

bool key_batch_is_full(const struct key_batch *batch);

/* Room for another key of that length, which the caller fills; NULL: no memory. */
char *key_batch_place(struct key_batch *batch, size_t len);

/* Copies a key to it; false: no memory. Not if it is full. */
bool key_batch_put(struct key_batch *batch, const void *data, size_t len);

/* The same for a key of hex digits, small ones; false also if it is none. */
bool key_batch_put_hex(struct key_batch *batch, const char *hex, size_t len);

/* Its n keys, until the next call of any of these. */
const bg_bytes *key_batch_keys(struct key_batch *batch);

void key_batch_clear(struct key_batch *batch);
void key_batch_free(struct key_batch *batch);

#endif

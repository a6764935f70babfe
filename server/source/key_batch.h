/*
 * key_batch.h - a batch of keys, copied into one buffer.
 *
 * A batch is full when it contains KEY_BATCH keys or KEY_BATCH_BYTES bytes. A single key may be
 * larger than KEY_BATCH_BYTES. The buffer is kept for the next batch.
 */
#ifndef SERVER_SOURCE_KEY_BATCH_H
#define SERVER_SOURCE_KEY_BATCH_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>

enum { KEY_BATCH = 1024, KEY_BATCH_BYTES = 1 << 20 };

/* A zero-initialized batch is empty. */
struct key_batch {
    char *bytes;
    size_t used, room;
    size_t n;
    size_t ends[KEY_BATCH];
    bg_bytes keys[KEY_BATCH]; /* filled in by key_batch_keys */
};

bool key_batch_is_full(const struct key_batch *batch);

/* Copies a key into the batch, which must not be full. Returns false if out of memory. */
bool key_batch_put(struct key_batch *batch, const void *data, size_t len);

/* Decodes a key from lowercase hex digits and adds it. Returns false if the text is invalid or memory cannot be
 * allocated. */
bool key_batch_put_hex(struct key_batch *batch, const char *hex, size_t len);

/* Returns the n keys in the batch. The keys are valid until the next call that changes the
 * batch. */
const bg_bytes *key_batch_keys(struct key_batch *batch);

void key_batch_clear(struct key_batch *batch);
void key_batch_free(struct key_batch *batch);

#endif

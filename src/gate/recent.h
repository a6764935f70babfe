/*
 * recent.h - the negative cache: keys that the backing store recently reported as absent.
 *
 * A lookup calls bgi_recent_find. If the cache does not contain the key, the lookup queries the
 * backing store and then calls bgi_recent_put with the token that bgi_recent_find returned. A write
 * changes the backing store and then calls bgi_recent_forget. The token ensures that an answer is
 * not cached if the key was written in the meantime; see recent.c.
 *
 * An era is a number that never decreases. Raising the era invalidates all earlier answers,
 * including the answers to lookups in progress. A lookup reads the era when it starts, before it
 * queries the backing store.
 *
 * The hash of a key determines its set. The hash should be keyed with a secret, so that an
 * attacker cannot fill a chosen set.
 */
#ifndef BGI_RECENT_H
#define BGI_RECENT_H

#include "bloomgate/err.h"
#include "bloomgate/hash.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bgi_recent;

enum { BGI_RECENT_KEY_MAX = 65536 };

/* Creates a cache for at least `entries` keys of up to `key_most` bytes (at most
 * BGI_RECENT_KEY_MAX). Entries expire after `ttl` nanoseconds. Returns NULL if out of memory. */
struct bgi_recent *bgi_recent_create(uint32_t entries, uint32_t key_most, uint64_t ttl,
                                     const bg_allocator *allocator);
void bgi_recent_free(struct bgi_recent *recent);

/* Returns whether the key was reported as absent by an answer that belongs to this era and is
 * younger than the TTL at `now`. */
bool bgi_recent_find(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                     uint64_t era, uint64_t now, uint64_t *token);

/* Records that the backing store reported the key as absent at `now` or earlier. The query must
 * have been sent after `token` was returned, and not before `queried`. If the token is 0, nothing
 * is recorded. */
void bgi_recent_put(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                    uint64_t token, uint64_t queried, uint64_t now);

/* Removes a key from the cache, because it may now be in the backing store. */
void bgi_recent_forget(struct bgi_recent *recent, uint64_t hash, bg_bytes key);

/* Returns the number of keys that a lookup in era `era` at time `now` could find. Cost: reads
 * the whole table. */
uint64_t bgi_recent_count(struct bgi_recent *recent, uint64_t era, uint64_t now);

#endif

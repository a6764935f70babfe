/*
 * recent.h - the negative cache: keys that the truth called absent a short while ago.
 *
 * A look-up is: bgi_recent_find, then, if it did not find the key, the truth, then
 * bgi_recent_put with the token that find gave out. A write is: the truth, then
 * bgi_recent_forget. The token makes sure that an answer which a write has overtaken is not
 * remembered, see recent.c.
 *
 * An era is a number that never decreases. The owner raises it to make all earlier answers void,
 * those of running lookups included. A lookup reads the era when it begins, before it queries the
 * backing store.
 *
 * Keys come with a hash by which they are placed. It should be keyed with a secret, so
 * that nobody can fill a chosen set.
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

/* A cache of at least `entries` keys of up to `key_most` bytes (at most
 * BGI_RECENT_KEY_MAX), each for `ttl` nanoseconds. NULL when there is no memory. */
struct bgi_recent *bgi_recent_create(uint32_t entries, uint32_t key_most, uint64_t ttl,
                                     const bg_allocator *allocator);
void bgi_recent_free(struct bgi_recent *recent);

/* Returns whether the key was absent less than the TTL before `now`, by an answer of this era. */
bool bgi_recent_find(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                     uint64_t era, uint64_t now, uint64_t *token);

/* The truth, asked since `token` was given out and not before `asked`, has called it
 * absent by `now`. A token of 0 remembers nothing. */
void bgi_recent_put(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                    uint64_t token, uint64_t asked, uint64_t now);

/* The key may be there now. */
void bgi_recent_forget(struct bgi_recent *recent, uint64_t hash, bg_bytes key);

/* Returns how many keys would be found in that era at that time. Cost: reads the table. */
uint64_t bgi_recent_count(struct bgi_recent *recent, uint64_t era, uint64_t now);

#endif

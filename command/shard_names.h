/*
 * shard_names.h - maps one logical filter to several keys in a Redis Cluster. Determines the names
 * of the keys, and the key that an item belongs to.
 *
 * A filter stored under a single key is in one slot, on one node. A sharded filter consists of S
 * ordinary filters, its shards, each with its own name:
 *
 *     {17}seen/3of16        {tag}NAME/iofS, i from 0
 *
 * Names. The tag of shard i of S is the smallest integer, in decimal digits, whose slot is in the
 * i-th of S equal ranges of slots: slot * S / 16384 == i, rounded down. Shards are therefore
 * distributed across nodes as evenly as slots are. A tag depends only on i and S, so the i-th
 * shards of all filters with S shards are in the same slot, where BG.MERGE can merge them. S is
 * part of the name, so a client that uses the wrong S gets an error, because no such filter exists,
 * and never queries the wrong shard.
 *
 * Routing. An item belongs to shard XXH64(item, seed SHARD_SEED) * S / 2^64, rounded down. This
 * mapping is independent of the filters' own hash, which may be keyed and may differ between
 * filters.
 *
 * None of this is stored anywhere: everything is derived from NAME and S. The scheme is frozen,
 * like a file format. docs/cluster.md describes it with examples for clients in other languages.
 *
 * Thread safety: pure functions, callable from any thread.
 */
#ifndef COMMAND_SHARD_NAMES_H
#define COMMAND_SHARD_NAMES_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_SEED UINT64_C(0x5348415244)

enum {
    SHARD_SLOTS = 16384, /* number of slots in a cluster */
    SHARDS_MAX = 1024,
    SHARD_NAME_MORE = 32 /* maximum number of bytes that a shard name adds to NAME */
};

/* Returns the slot of a key: the CRC16, modulo SHARD_SLOTS, of the text in its first pair of
 * braces, or of the whole key if there is no such text. */
unsigned shard_slot(bg_bytes key);

struct shard_tags {
    uint32_t shards;
    uint16_t tags[SHARDS_MAX];
};

/* Computes the tags. Returns false unless `shards` is between 1 and SHARDS_MAX. Cost:
 * microseconds. */
bool shard_tags_make(uint64_t shards, struct shard_tags *tags);

/* Writes the name of shard i, followed by a NUL, to `to`, which must have space for name.len +
 * SHARD_NAME_MORE bytes. Returns the length of the name. */
size_t shard_name(const struct shard_tags *tags, uint32_t i, bg_bytes name, char *to);

/* Computes the shard of each of n items. */
void shard_route(const bg_bytes *items, size_t n, uint32_t shards, uint16_t *to);

/*
 * Returns the capacity that a shard should have if `items` are spread over this many shards: with a
 * probability of 999,999 in a million, no shard receives more items. By Bernstein's inequality, a
 * shard exceeds the average of m items by more than t with a probability of at most exp(-t^2 / (2 m
 * + 2 t / 3)).
 */
uint64_t shard_capacity(uint64_t items, uint32_t shards);

#endif

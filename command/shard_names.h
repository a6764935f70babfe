/*
 * shard_names.h - one logical filter in several keys of a Redis Cluster: what the keys are called,
 * and which of them an item belongs to.
 *
 * A filter of one key lives in one slot, on one node. A sharded one is S ordinary filters, its
 * shards, each under a name of its own:
 *
 *     {17}seen/3of16        {tag}NAME/iofS, i from 0
 *
 * Names. The tag of shard i of S is the smallest whole number, written in decimal digits, whose slot
 * is in the i-th of S equal parts of the slots: slot * S / 16384 == i, rounded down. So shards are
 * spread as evenly as slots are. A tag depends on i and S alone: the i-th shards of all filters
 * of S shards are in one slot, where BG.MERGE can unite them. S is in the name: whoever is wrong
 * about it finds no filter, which is an error, and never asks the wrong shard.
 *
 * Routing. An item belongs to shard XXH64(item, seed SHARD_SEED) * S / 2^64, rounded down. That has
 * nothing to do with the hash of the filters, which may be keyed and which may differ.
 *
 * Nothing of this is stored anywhere: all follows from NAME and S. It is frozen, as a file format is;
 * docs/cluster.md has it with examples, for clients in other languages.
 *
 * Threads: pure functions, any thread.
 */
#ifndef COMMAND_SHARD_NAMES_H
#define COMMAND_SHARD_NAMES_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_SEED UINT64_C(0x5348415244)

enum {
    SHARD_SLOTS = 16384, /* of a cluster */
    SHARDS_MOST = 1024,
    SHARD_NAME_MORE = 32 /* bytes that the name of a shard has beyond NAME, at most */
};

/* The slot of a key: CRC16 of what is in its first braces, or of all of it. */
unsigned shard_slot(bg_bytes key);

struct shard_tags {
    uint32_t shards;
    uint16_t tags[SHARDS_MOST];
};

/* False: not 1 to SHARDS_MOST. Cost: microseconds. */
bool shard_tags_make(uint64_t shards, struct shard_tags *tags);

/* Writes the name of shard i to `to`, which has room for name.len + SHARD_NAME_MORE bytes; returns
 * its length. A 0 is put behind it. */
size_t shard_name(const struct shard_tags *tags, uint32_t i, bg_bytes name, char *to);

/* Which shards n items belong to. */
void shard_route(const bg_bytes *items, size_t n, uint32_t shards, uint16_t *to);

/*
 * How many items a shard should be made for, when `items` are to be spread over so many: with a
 * probability of 999,999 in a million no shard gets more. Bernstein's inequality: an average of m
 * per shard is exceeded by more than t with a probability of at most exp(-t^2 / (2 m + 2 t / 3)).
 */
uint64_t shard_capacity(uint64_t items, uint32_t shards);

#endif

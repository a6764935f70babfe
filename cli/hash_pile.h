/*
 * hash_pile.h - hashes of keys in the order in which they came, copies included.
 *
 * A bg_builder makes a filter of a set: a key that comes twice is in it once. Filters of kinds that
 * can forget (BG_CAN_REMOVE) count how often a key was added, and lose it when it is removed as
 * often, so their keys are collected here.
 */
#ifndef CLI_HASH_PILE_H
#define CLI_HASH_PILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_pile {
    uint64_t *hashes;
    size_t count, room;
};

/* False: out of memory, and nothing has changed. */
bool hash_pile_add(struct hash_pile *pile, const uint64_t *hashes, size_t n);
void hash_pile_end(struct hash_pile *pile);

#endif

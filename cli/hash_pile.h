/*
 * hash_pile.h - collects key hashes in order of arrival, including duplicates.
 *
 * A bg_builder creates a filter from a set of keys, so a key that occurs twice is added only once.
 * Kinds that can remove keys (BG_TRAIT_REMOVE) count how many times a key was added, and a key is
 * deleted only after it has been removed that many times. Keys for these kinds are therefore
 * collected here, with duplicates.
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

/* Returns false and changes nothing if memory runs out. */
bool hash_pile_add(struct hash_pile *pile, const uint64_t *hashes, size_t n);
void hash_pile_end(struct hash_pile *pile);

#endif

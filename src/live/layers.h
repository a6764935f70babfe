/*
 * layers.h - words of a batch, asked in several filters that share their hashes.
 *
 * What a member needs is one filter that knows it; what an absent key needs is a "no"
 * from all. So the first filter, which should be the likeliest, is asked for the whole
 * word, and the others for what it does not know. When that is most of the word, as
 * with absent keys, the lines of all filters are asked for one word ahead; when it is
 * little, as with members, only those of the first, and those of the others within the
 * word.
 *
 * The filters are of one Bloom kind and k, and the units of each are those of the first
 * divided by a power of two. Units being found by the high bits of a hash, the number
 * of a unit is divided likewise: hashes are located once for all filters.
 */
#ifndef BGI_LAYERS_H
#define BGI_LAYERS_H

#include "filter/handle.h"

enum { LAYERS_MOST = 66 };

struct layers {
    const struct bgi_core *core[LAYERS_MOST]; /* the likeliest first, none is larger */
    uint32_t count;
    uint32_t step; /* each has 2^step times fewer units than the one before */
    uint32_t unit_bytes;
};

/* Which hashes one of them may contain; asks for the memory of `next`, unless NULL. */
uint64_t layers_has_word(const struct layers *layers, const struct bgi_word *word,
                         const struct bgi_word *next);

/* Adds those of a word's hashes that `which` tells; returns which of them were new. */
uint64_t layers_add_word(struct bgi_core *core, const struct bgi_word *word,
                         uint64_t which, const struct bgi_word *next);

/* A bit for every hash of the word. */
BGI_INLINE uint64_t layers_all(const struct bgi_word *word)
{
    return word->n < 64 ? ((uint64_t)1 << word->n) - 1 : UINT64_MAX;
}

#endif

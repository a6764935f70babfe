/*
 * layers.h - words of a batch, asked in several filters that share their hashes.
 *
 * What a member needs is one filter that knows it; what an absent key needs is a "no" from
 * all. So the first filter, which should be the likeliest, is asked for the whole word,
 * and the others for what it does not know. When that is most of the word, as with absent
 * keys, the lines of all filters are asked for one word ahead; when it is little, as with
 * members, only those of the first, and those of the others within the word.
 */
#ifndef BGI_LAYERS_H
#define BGI_LAYERS_H

#include "filter/handle.h"

enum { LAYERS_MOST = 66 };

struct layers {
    const struct bgi_core *core[LAYERS_MOST]; /* the likeliest first */
    uint32_t count;
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

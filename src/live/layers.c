#include "live/layers.h"

#include "base/bits.h"

/* Some of a word's hashes, side by side, and which they were. */
struct layers_rest {
    struct bgi_word word;
    uint64_t hashes[64];
    uint64_t which;
};

static void layers_gather(const struct bgi_word *word, uint64_t which,
                          struct layers_rest *rest)
{
    rest->which = which;
    rest->word.hashes = rest->hashes;
    rest->word.n = 0;
    for (; which; which &= which - 1) {
        rest->hashes[rest->word.n++] = word->hashes[__builtin_ctzll(which)];
    }
}

/* Puts the bits of a gathered word back where their hashes were. */
static uint64_t layers_scatter(uint64_t which, uint64_t bits)
{
    uint64_t answer = 0;
    for (; which && bits; which &= which - 1, bits >>= 1) {
        answer |= bits & 1 ? which & -which : 0;
    }
    return answer;
}

/* A word with room for its places. */
static struct bgi_word *layers_start(const struct bgi_word *word, struct bgi_word *to)
{
    to->hashes = word ? word->hashes : NULL;
    to->n = word ? word->n : 0;
    return to;
}

/* The places in layer i, from those in the first one. */
static const struct bgi_word *layers_place(const struct layers *layers, uint32_t i,
                                           const struct bgi_word *first,
                                           struct bgi_word *room)
{
    unsigned shift = i * layers->step;
    uint64_t whole = ~(uint64_t)(layers->unit_bytes - 1);
    if (shift == 0) {
        return first;
    }
    (void)layers_start(first, room);
    for (unsigned j = 0; j < first->n; j++) {
        room->at[j] = first->at[j] >> shift & whole;
    }
    return room;
}

/* Asks the layers but the first for a word, and for the memory of the next one, both
 * located in the first. */
static uint64_t layers_ask_others(const struct layers *layers,
                                  const struct bgi_word *word,
                                  const struct bgi_word *next)
{
    struct bgi_word here, there;
    uint64_t found = 0;
    for (uint32_t i = 1; i < layers->count; i++) {
        const struct bgi_core *core = layers->core[i];
        const struct bgi_word *ahead =
            next && core->looks_ask ? layers_place(layers, i, next, &there) : NULL;
        if (word->n || ahead) {
            found |=
                core->ops->has_word(core, layers_place(layers, i, word, &here), ahead);
        }
    }
    return found;
}

/* The same for those of a word's hashes that the first layer does not know. */
static uint64_t layers_ask_rest(const struct layers *layers,
                                const struct bgi_word *word, uint64_t which)
{
    struct layers_rest rest;
    struct bgi_word none = { .n = 0 };
    const struct bgi_core *first = layers->core[0];
    layers_gather(word, which, &rest);
    first->ops->locate(first, &rest.word);
    (void)layers_ask_others(layers, &none, &rest.word);
    return layers_scatter(which, layers_ask_others(layers, &rest.word, NULL));
}

uint64_t layers_has_word(const struct layers *layers, const struct bgi_word *word,
                         const struct bgi_word *next)
{
    struct bgi_word here, there;
    const struct bgi_core *first = layers->core[0];
    first->ops->locate(first, layers_start(word, &here));
    bool asks = next && first->looks_ask;
    if (asks) {
        first->ops->locate(first, layers_start(next, &there));
    }
    const struct bgi_word *ahead = asks ? &there : NULL;
    uint64_t maybe = first->ops->has_word(first, &here, ahead);
    uint64_t unknown = layers_all(word) & ~maybe;
    if (2 * bgi_popcount64(unknown) >= word->n) {
        return maybe | layers_ask_others(layers, &here, ahead);
    }
    return unknown ? maybe | layers_ask_rest(layers, word, unknown) : maybe;
}

uint64_t layers_add_word(struct bgi_core *core, const struct bgi_word *word,
                         uint64_t which, const struct bgi_word *next)
{
    struct layers_rest rest;
    struct bgi_word there;
    layers_gather(word, which, &rest);
    core->ops->locate(core, &rest.word);
    if (next && core->adds_ask) {
        core->ops->locate(core, layers_start(next, &there));
    }
    uint64_t is_new =
        core->ops->add_word(core, &rest.word, next && core->adds_ask ? &there : NULL);
    return layers_scatter(which, is_new);
}

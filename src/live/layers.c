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

/* The next word located in one filter; NULL when that need not be asked for. */
static const struct bgi_word *layers_next(const struct bgi_core *core, bool asks,
                                          const struct bgi_word *next,
                                          struct bgi_word *located)
{
    if (!next || !asks) {
        return NULL;
    }
    located->hashes = next->hashes;
    located->n = next->n;
    core->ops->locate(core, located);
    return located;
}

static uint64_t layers_ask(const struct bgi_core *core, struct bgi_word *word,
                           const struct bgi_word *next)
{
    struct bgi_word located;
    core->ops->locate(core, word);
    return core->ops->has_word(core, word,
                               layers_next(core, core->looks_ask, next, &located));
}

uint64_t layers_has_word(const struct layers *layers, const struct bgi_word *word,
                         const struct bgi_word *next)
{
    struct layers_rest rest;
    struct bgi_word first = { .hashes = word->hashes, .n = word->n };
    struct bgi_word none = { .n = 0 };
    uint64_t all = layers_all(word);
    uint64_t maybe = layers_ask(layers->core[0], &first, next);
    bool mostly_absent = 2 * bgi_popcount64(all & ~maybe) >= word->n;
    const struct bgi_word *ahead = mostly_absent ? next : NULL;
    layers_gather(word, all & ~maybe, &rest);
    if (!mostly_absent && rest.word.n) {
        for (uint32_t i = 1; i < layers->count; i++) {
            (void)layers_ask(layers->core[i], &none, &rest.word);
        }
    }
    uint64_t found = 0;
    for (uint32_t i = 1; i < layers->count && (rest.word.n || ahead); i++) {
        found |= layers_ask(layers->core[i], &rest.word, ahead);
    }
    return maybe | layers_scatter(rest.which, found);
}

uint64_t layers_add_word(struct bgi_core *core, const struct bgi_word *word,
                         uint64_t which, const struct bgi_word *next)
{
    struct layers_rest rest;
    struct bgi_word located;
    layers_gather(word, which, &rest);
    core->ops->locate(core, &rest.word);
    uint64_t is_new = core->ops->add_word(
        core, &rest.word, layers_next(core, core->adds_ask, next, &located));
    return layers_scatter(which, is_new);
}

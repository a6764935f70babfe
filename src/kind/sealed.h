/*
 * sealed.h - what static kinds share: the end of their construction, what happens to adds
 * after it, seeds.
 *
 * The state of a static kind begins with a struct sealed. The answer to a query is
 *
 *      (difference & mask) == want
 *
 * with the difference, by XOR, between what the filter says of a key and the key's
 * fingerprint. In use, mask is all ones and want 0. With no keys in the set mask is 0 and
 * want 1: "no", for all. An add cannot be done any more: it sets both to 0, "maybe" for
 * ever.
 *
 * Concurrency. Mask and want are read and written atomically; after construction only adds
 * change them, and from any state to "maybe". Which of the two a query sees first does
 * not matter: with mask 0 a difference is 0, so it says "maybe" unless want is 1, and
 * want is 1 only in a set without keys.
 */
#ifndef BGI_SEALED_H
#define BGI_SEALED_H

#include "base/bits.h"
#include "kind/kind.h"

struct sealed {
    uint32_t mask, want;
    uint64_t keys;
};

BGI_INLINE uint32_t sealed_mask(const struct sealed *s)
{
    return __atomic_load_n(&s->mask, __ATOMIC_RELAXED);
}

BGI_INLINE uint32_t sealed_want(const struct sealed *s)
{
    return __atomic_load_n(&s->want, __ATOMIC_RELAXED);
}

BGI_INLINE bool sealed_verdict(const struct sealed *s, uint32_t difference)
{
    return (difference & sealed_mask(s)) == sealed_want(s);
}

BGI_INLINE bool sealed_overflowed(const struct sealed *s)
{
    return (sealed_mask(s) | sealed_want(s)) == 0;
}

/* Ends the construction: so many keys are in. */
BGI_INLINE void sealed_close(struct sealed *s, uint64_t keys)
{
    s->keys = keys;
    s->mask = keys ? UINT32_MAX : 0;
    s->want = keys ? 0 : 1;
}

BGI_INLINE void sealed_copy(struct sealed *to, const struct sealed *from)
{
    to->keys = from->keys;
    to->mask = sealed_mask(from);
    to->want = sealed_want(from);
}

BGI_INLINE bool sealed_same(const struct sealed *a, const struct sealed *b)
{
    return a->keys == b->keys && sealed_mask(a) == sealed_mask(b)
           && sealed_want(a) == sealed_want(b);
}

/* ---- Operations of every static kind ------------------------------------------------ */

/* An add that cannot be done. */
BGI_INLINE bool sealed_add(struct bgi_core *core, uint64_t hash)
{
    struct sealed *s = core->state;
    bool first = !sealed_overflowed(s);
    (void)hash;
    __atomic_store_n(&s->mask, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->want, 0, __ATOMIC_RELAXED);
    return first;
}

BGI_INLINE uint64_t sealed_add_word(struct bgi_core *core, const struct bgi_word *word,
                                    const struct bgi_word *next)
{
    (void)next;
    return word->n && sealed_add(core, 0) ? 1 : 0;
}

BGI_INLINE void sealed_measure(const struct bgi_core *core, uint64_t slots, double rate,
                               struct bgi_measure *measure)
{
    const struct sealed *s = core->state;
    measure->ones = s->keys;
    measure->of = slots;
    measure->items = (double)s->keys;
    measure->rate = s->keys ? rate : 0;
    measure->overflowed = sealed_overflowed(s);
}

/* ---- Seeds ---------------------------------------------------------------------------- */

/* A hash, mixed with a seed into another one. */
BGI_INLINE uint64_t sealed_mix(uint64_t hash, uint64_t seed)
{
    const uint64_t multiplier = 0x9e6c63d0876a9a47u;
    uint64_t x = hash ^ seed;
    return bgi_mulhi(x, multiplier) ^ x * multiplier;
}

/* Seed number `attempt` for a set of hashes that have that sum: the same set gets the same
 * seeds, in whatever order it came. */
BGI_INLINE uint64_t sealed_seed(uint64_t sum, unsigned attempt)
{
    uint64_t x = sealed_mix(sum, 0xa0761d6478bd642fu * (attempt + 1));
    return sealed_mix(x, 0xe7037ed1a0b428dbu);
}

BGI_INLINE uint64_t sealed_sum(const uint64_t *hashes, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += hashes[i];
    }
    return sum;
}

#endif

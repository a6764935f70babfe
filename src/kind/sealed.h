/*
 * sealed.h - code shared by all static kinds: completing construction, handling forced adds after
 * construction, and choosing seeds.
 *
 * The state of a filter of a static kind starts with a struct sealed. The answer to a query is
 *
 *      difference < pass
 *
 * where the difference, of up to 32 bits, is the XOR of the value that the filter stores for a
 * key and the key's fingerprint. Normally `pass` is 1, so the answer is "maybe" if the value
 * equals the fingerprint. If the set has no keys, `pass` is 0, so the answer is always "no".
 * After construction, keys can no longer be added. A forced add (bg_filter_add_forced) sets `pass`
 * to 2^32, so every answer is "maybe" from then on.
 *
 * Concurrency. `pass` is read and written atomically. Once the filter is built, only forced adds
 * and sealed_doubt change `pass`, and only to 2^32.
 */
#ifndef BGI_SEALED_H
#define BGI_SEALED_H

#include "base/bits.h"
#include "kind/kind.h"

struct sealed {
    uint64_t pass;
    uint64_t keys;
};

/* The value of `pass` that makes every answer "maybe". */
#define SEALED_ALL ((uint64_t)1 << 32)

BGI_INLINE uint64_t sealed_pass(const struct sealed *s)
{
    return __atomic_load_n(&s->pass, __ATOMIC_RELAXED);
}

BGI_INLINE bool sealed_verdict(const struct sealed *s, uint32_t difference)
{
    return difference < sealed_pass(s);
}

/* Completes the construction of a filter with this number of keys. */
BGI_INLINE void sealed_close(struct sealed *s, uint64_t keys)
{
    s->keys = keys;
    s->pass = keys ? 1 : 0;
}

BGI_INLINE void sealed_copy(struct sealed *to, const struct sealed *from)
{
    to->keys = from->keys;
    to->pass = sealed_pass(from);
}

BGI_INLINE bool sealed_same(const struct sealed *a, const struct sealed *b)
{
    return a->keys == b->keys && sealed_pass(a) == sealed_pass(b);
}

/* ---- In files ------------------------------------------------------------------------- */

/* The numbers that a file stores for a filter of a static kind: the number of keys, whether every
 * answer is "maybe", and the seeds. */
enum { SEALED_NUMBERS = 2 };

BGI_INLINE uint64_t sealed_numbers(const struct sealed *s, const uint64_t *seeds,
                                   uint64_t pieces, uint64_t *to)
{
    if (to) {
        to[0] = s->keys;
        to[1] = sealed_pass(s) == SEALED_ALL;
        for (uint64_t i = 0; i < pieces; i++) {
            to[SEALED_NUMBERS + i] = seeds[i];
        }
    }
    return SEALED_NUMBERS + pieces;
}

BGI_INLINE bool sealed_restore(struct sealed *s, uint64_t *seeds, uint64_t pieces,
                               const uint64_t *numbers)
{
    sealed_close(s, numbers[0]);
    s->pass = numbers[1] ? SEALED_ALL : s->pass;
    for (uint64_t i = 0; i < pieces; i++) {
        seeds[i] = numbers[SEALED_NUMBERS + i];
    }
    return numbers[1] <= 1;
}

BGI_INLINE void sealed_doubt(struct bgi_core *core)
{
    struct sealed *s = core->state;
    __atomic_store_n(&s->pass, SEALED_ALL, __ATOMIC_RELAXED);
}

/* ---- Operations of every static kind ------------------------------------------------ */

/* Handles a forced add: every answer becomes "maybe". */
BGI_INLINE bool sealed_add(struct bgi_core *core, uint64_t hash)
{
    struct sealed *s = core->state;
    (void)hash;
    return __atomic_exchange_n(&s->pass, SEALED_ALL, __ATOMIC_RELAXED) != SEALED_ALL;
}

BGI_INLINE uint64_t sealed_add_group(struct bgi_core *core,
                                     const struct bgi_group *group,
                                     const struct bgi_group *next)
{
    (void)next;
    return group->n && sealed_add(core, 0) ? 1 : 0;
}

BGI_INLINE void sealed_measure(const struct bgi_core *core, uint64_t slots, double rate,
                               struct bgi_measure *measure)
{
    const struct sealed *s = core->state;
    measure->ones = s->keys;
    measure->of = slots;
    measure->items = (double)s->keys;
    measure->rate = s->keys ? rate : 0;
    measure->overflowed = sealed_pass(s) == SEALED_ALL;
}

/* ---- Seeds ---------------------------------------------------------------------------- */

/* Mixes a hash with a seed into another hash. */
BGI_INLINE uint64_t sealed_mix(uint64_t hash, uint64_t seed)
{
    const uint64_t multiplier = 0x9e6c63d0876a9a47u;
    uint64_t x = hash ^ seed;
    return bgi_mulhi(x, multiplier) ^ x * multiplier;
}

/* Returns the seed for attempt number `attempt` to build a filter from a set of hashes whose sum is
 * `sum`. The same set always gets the same seeds, regardless of the order of its hashes. */
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

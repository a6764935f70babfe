/*
 * scatter_core.h - operations of the kinds that scatter a key's k bits over the whole filter:
 * classic and partitioned.
 *
 * This file is compiled once for each combination of instruction set and kind. ISA and ISA_TARGET
 * (see line_core.h) and SCATTER, either classic or partitioned, must be defined before each
 * inclusion.
 *
 * Positions. The i-th bit of a hash h is at mulhi(x_i, range), where x_0 = h and x_(i+1) = x_i
 * * a modulo 2^64 for a fixed odd multiplier a: a multiplicative generator seeded with the
 * hash. The usual choice, double hashing (g_i = h1 + i h2), gives two keys the same bits whenever
 * both h1 and h2 agree modulo the range. For n keys in m bits, this adds about n / m^2 to the
 * false-positive rate. For 1000 keys and a design rate of 1e-5, this is a sixth of the design rate.
 * Here, each position except the first depends on all 64 bits of the hash. In a classic filter, the
 * range is the total number of bits. In a partitioned filter, the range is the number of bits in a
 * slice, and bit i is in slice i.
 *
 * Order of memory accesses. Nearly all absent keys are ruled out by their first bits, but members
 * require testing all k bits. So a batch of lookups first tests the first SCATTER_FIRST bits of all
 * keys, and then the remaining bits of the keys that have not been ruled out. The memory for each
 * step is prefetched before the step starts.
 *
 * Concurrency. Shared adds change words only by atomic OR, and only where a bit is not yet set. See
 * line_core.h for the proof.
 */

#define SCATTER_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define SCATTER_PASTE4(a, b, c, d)  SCATTER_PASTE4_(a, b, c, d)
#define SCATTER_NAME(name)          SCATTER_PASTE4(scatter, SCATTER, name, ISA)
#define SCATTER_IS_classic          0
#define SCATTER_IS_partitioned      1
#define SCATTER_IS_PASTE_(kind)     SCATTER_IS_##kind
#define SCATTER_IS_PASTE(kind)      SCATTER_IS_PASTE_(kind)
#define SCATTER_PARTITIONED         SCATTER_IS_PASTE(SCATTER)

#ifndef BGI_SCATTER_CONSTANTS
#define BGI_SCATTER_CONSTANTS
enum scatter_operation { SCATTER_ADD_EXCLUSIVE, SCATTER_ADD_SHARED };
enum { SCATTER_FIRST = 2, SCATTER_ADD_AHEAD = 8 };
/* Steele and Vigna, "Computationally easy, spectrally good multipliers", 2022. */
static const uint64_t scatter_multiplier = 0xd1342543de82ef95u;
#endif

/* The state of an iteration over a hash's bit positions. */
#ifndef BGI_SCATTER_WALK
#define BGI_SCATTER_WALK
struct scatter_walk {
    uint64_t x;
    uint64_t slice; /* index of the first bit of the slice; 0 in a classic filter */
};
struct scatter_bit {
    uint64_t *word;
    uint64_t bit;
};
#endif

BGI_INLINE ISA_TARGET struct scatter_bit SCATTER_NAME(next)(const struct bgi_core *core,
                                                            struct scatter_walk *walk)
{
    uint64_t range = core->units * 64;
    uint64_t at = bgi_mulhi(walk->x, range);
#if SCATTER_PARTITIONED
    at += walk->slice;
    walk->slice += range;
#endif
    walk->x *= scatter_multiplier;
    return (struct scatter_bit){ (uint64_t *)(void *)core->words + (at >> 6),
                                 (uint64_t)1 << (at & 63) };
}

/* Returns whether the next `count` bits of a walk are all set. Stops at the first bit that is not
 * set. */
BGI_INLINE ISA_TARGET bool SCATTER_NAME(test)(const struct bgi_core *core,
                                              struct scatter_walk *walk, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct scatter_bit at = SCATTER_NAME(next)(core, walk);
        if (!(__atomic_load_n(at.word, __ATOMIC_RELAXED) & at.bit)) {
            return false;
        }
    }
    return true;
}

/* Prefetches the memory for the next `count` bits of a walk, without advancing the walk. */
BGI_INLINE ISA_TARGET void SCATTER_NAME(prefetch)(const struct bgi_core *core,
                                                  struct scatter_walk walk,
                                                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        BGI_PREFETCH(SCATTER_NAME(next)(core, &walk).word);
    }
}

/* Sets all k bits of a hash. Returns true if any of the bits was not set before. */
BGI_INLINE ISA_TARGET bool SCATTER_NAME(put)(const struct bgi_core *core, uint64_t hash,
                                             const enum scatter_operation what)
{
    struct scatter_walk walk = { hash, 0 };
    bool is_new = false;
    for (uint32_t i = 0; i < core->k; i++) {
        struct scatter_bit at = SCATTER_NAME(next)(core, &walk);
        uint64_t old = __atomic_load_n(at.word, __ATOMIC_RELAXED);
        bool missing = !(old & at.bit);
        is_new |= missing;
        if (what == SCATTER_ADD_EXCLUSIVE) {
            *at.word = old | at.bit;
        } else if (missing) {
            (void)__atomic_fetch_or(at.word, at.bit, __ATOMIC_RELAXED);
        }
    }
    return is_new;
}

ISA_TARGET static bool SCATTER_NAME(has)(const struct bgi_core *core, uint64_t hash)
{
    struct scatter_walk walk = { hash, 0 };
    return SCATTER_NAME(test)(core, &walk, core->k);
}

ISA_TARGET static void SCATTER_NAME(locate)(const struct bgi_core *core,
                                            struct bgi_group *group)
{
    group->core = core;
}

BGI_INLINE struct scatter_walk SCATTER_NAME(start)(uint64_t hash)
{
    return (struct scatter_walk){ hash, 0 };
}

/* Does the same as `test`, but does not stop early. Stopping early would require a branch on the
 * first unset bit, which is unpredictable, and a misprediction costs more than testing one more
 * bit. */
BGI_INLINE ISA_TARGET bool SCATTER_NAME(test_all)(const struct bgi_core *core,
                                                  struct scatter_walk *walk,
                                                  uint32_t count)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        struct scatter_bit at = SCATTER_NAME(next)(core, walk);
        all &= (__atomic_load_n(at.word, __ATOMIC_RELAXED) & at.bit) != 0;
    }
    return all;
}

/* Tests the first bits of the keys in this group, and prefetches the first bits of the keys in the
 * next group. Then prefetches and tests the remaining bits of the keys that have not been ruled
 * out. */
ISA_TARGET static uint64_t SCATTER_NAME(has_group)(const struct bgi_core *core,
                                                   const struct bgi_group *group,
                                                   const struct bgi_group *next)
{
    struct scatter_walk walk[64];
    uint64_t maybe = 0, answer = 0;
    uint32_t first = core->k < SCATTER_FIRST ? core->k : SCATTER_FIRST;
    uint32_t rest = core->k - first;
    for (unsigned i = 0; i < group->n; i++) {
        walk[i] = SCATTER_NAME(start)(group->hashes[i]);
        maybe |= (uint64_t)SCATTER_NAME(test_all)(core, &walk[i], first) << i;
    }
    for (unsigned i = 0; next && i < next->n; i++) {
        SCATTER_NAME(prefetch)(next->core, SCATTER_NAME(start)(next->hashes[i]), first);
    }
    for (uint64_t todo = core->lookups_prefetch ? maybe : 0; todo; todo &= todo - 1) {
        SCATTER_NAME(prefetch)(core, walk[__builtin_ctzll(todo)], rest);
    }
    for (; maybe; maybe &= maybe - 1) {
        unsigned i = (unsigned)__builtin_ctzll(maybe);
        answer |= (uint64_t)SCATTER_NAME(test)(core, &walk[i], rest) << i;
    }
    return answer;
}

/* Adds touch all bits of every key, so the bits are prefetched a few keys ahead, even across the
 * end of the group. */
BGI_INLINE ISA_TARGET uint64_t SCATTER_NAME(put_word)(const struct bgi_core *core,
                                                      const struct bgi_group *group,
                                                      const struct bgi_group *next,
                                                      const enum scatter_operation what)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < group->n; i++) {
        unsigned ahead = i + SCATTER_ADD_AHEAD;
        if (core->adds_prefetch && ahead < group->n) {
            SCATTER_NAME(prefetch)
            (core, SCATTER_NAME(start)(group->hashes[ahead]), core->k);
        } else if (next && ahead - group->n < next->n) {
            SCATTER_NAME(prefetch)
            (next->core, SCATTER_NAME(start)(next->hashes[ahead - group->n]), core->k);
        }
        answer |= (uint64_t)SCATTER_NAME(put)(core, group->hashes[i], what) << i;
    }
    return answer;
}

#define SCATTER_DEFINE_MODE(mode, what)                                                \
    ISA_TARGET static bool SCATTER_NAME(add_##mode)(struct bgi_core * core,            \
                                                    uint64_t hash)                     \
    {                                                                                  \
        return SCATTER_NAME(put)(core, hash, what);                                    \
    }                                                                                  \
    ISA_TARGET static uint64_t SCATTER_NAME(add_group_##mode)(                         \
        struct bgi_core * core, const struct bgi_group *group,                         \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        return SCATTER_NAME(put_word)(core, group, next, what);                        \
    }                                                                                  \
    static const struct bgi_ops SCATTER_NAME(ops_##mode) = {                           \
        .has = SCATTER_NAME(has),                                                      \
        .add = SCATTER_NAME(add_##mode),                                               \
        .locate = SCATTER_NAME(locate),                                                \
        .has_group = SCATTER_NAME(has_group),                                          \
        .add_group = SCATTER_NAME(add_group_##mode),                                   \
    };

SCATTER_DEFINE_MODE(exclusive, SCATTER_ADD_EXCLUSIVE)
SCATTER_DEFINE_MODE(shared, SCATTER_ADD_SHARED)

#undef SCATTER_DEFINE_MODE
#undef SCATTER_PARTITIONED
#undef SCATTER_IS_PASTE
#undef SCATTER_IS_PASTE_
#undef SCATTER_IS_partitioned
#undef SCATTER_IS_classic
#undef SCATTER_NAME
#undef SCATTER_PASTE4
#undef SCATTER_PASTE4_
#undef SCATTER

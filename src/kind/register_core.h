/*
 * register_core.h - operations of the kind that keeps all bits of a key in one 64-bit word.
 *
 * This file is compiled once per instruction set (see ISA and ISA_TARGET in line_core.h). The k
 * positions are taken from the product of the hash and an odd constant, six bits each, from the
 * top down, so k is at most 10. If a position is already taken, the next free bit above it is used,
 * or the lowest free bit if there is none above. Adding the bit to the mask does exactly this,
 * provided that the carry out of the top bit is added back at the bottom. k is a compile-time
 * constant in each instance.
 *
 * Batches compute the masks of eight keys in parallel if the instruction set can shift 64-bit lanes
 * and compare them as unsigned numbers (ISA_WIDE_COMPARE). Without unsigned comparison, computing
 * masks in parallel does not pay off. The words themselves are tested one by one.
 *
 * Concurrency. An add is one atomic OR that returns the old word. The ORs on a word are totally
 * ordered, so if two threads add the same key, the later add finds all of the key's bits set, and
 * exactly one of the adds returns "new".
 */

#define REGISTER_PASTE3_(a, b, c) a##_##b##_##c
#define REGISTER_PASTE3(a, b, c)  REGISTER_PASTE3_(a, b, c)
#define REGISTER_NAME(name)       REGISTER_PASTE3(register, name, ISA)

#ifndef BGI_REGISTER_CONSTANTS
#define BGI_REGISTER_CONSTANTS
enum register_operation { REGISTER_HAS, REGISTER_ADD_EXCLUSIVE, REGISTER_ADD_SHARED };
enum { REGISTER_GROUP = 8 };
static const uint64_t register_multiplier = 0xa0761d6478bd642fu;
#endif

/* Returns the byte offset of a hash's word. */
BGI_INLINE ISA_TARGET uint64_t REGISTER_NAME(at)(const struct bgi_core *core,
                                                 uint64_t hash)
{
    return bgi_range52(hash, core->units) * 8;
}

BGI_INLINE ISA_TARGET uint64_t *REGISTER_NAME(word_at)(const struct bgi_core *core,
                                                       uint64_t at)
{
    return (uint64_t *)(void *)(core->words + at);
}

BGI_INLINE ISA_TARGET uint64_t REGISTER_NAME(mask)(uint64_t hash, const uint32_t k)
{
    uint64_t product = hash * register_multiplier, mask = 0;
    for (uint32_t i = 0; i < k; i++) {
        uint64_t bit = (uint64_t)1 << ((product >> (58 - 6 * i)) & 63);
        uint64_t sum = mask + bit;
        mask |= sum + (sum < bit);
    }
    return mask;
}

#ifdef ISA_WIDE_COMPARE
#define REGISTER_MADE 1
/* A vector of REGISTER_GROUP masks, which are computed in parallel. */
typedef uint64_t REGISTER_NAME(lanes) __attribute__((vector_size(64)));

BGI_INLINE ISA_TARGET void REGISTER_NAME(masks)(const uint64_t *hashes, uint64_t *masks,
                                                const uint32_t k)
{
    REGISTER_NAME(lanes) product, mask = { 0 };
    for (unsigned i = 0; i < REGISTER_GROUP; i++) {
        product[i] = hashes[i] * register_multiplier;
    }
    const REGISTER_NAME(lanes) one = { 1, 1, 1, 1, 1, 1, 1, 1 };
    for (uint32_t i = 0; i < k; i++) {
        REGISTER_NAME(lanes) bit = one << ((product >> (58 - 6 * i)) & 63);
        REGISTER_NAME(lanes) sum = mask + bit;
        mask |= sum - (REGISTER_NAME(lanes))(sum < bit); /* true is -1 */
    }
    memcpy(masks, &mask, sizeof mask);
}
#else
#define REGISTER_MADE 0
#endif

BGI_INLINE ISA_TARGET bool REGISTER_NAME(touch)(uint64_t *word, uint64_t mask,
                                                const enum register_operation what)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    if (what == REGISTER_HAS) {
        return (old & mask) == mask;
    }
    if (what == REGISTER_ADD_EXCLUSIVE) {
        *word = old | mask;
    } else if ((old & mask) != mask) {
        old = __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
    }
    return (old & mask) != mask;
}

ISA_TARGET static void REGISTER_NAME(locate)(const struct bgi_core *core,
                                             struct bgi_group *group)
{
    unsigned i = 0;
    group->core = core;
#ifdef ISA_EIGHTS
    for (; core->units <= ISA_EIGHTS_UNITS && i + 8 <= group->n; i += 8) {
        isa_range52_8(group->hashes + i, core->units, 3, group->at + i);
    }
#endif
    for (; i < group->n; i++) {
        group->at[i] = REGISTER_NAME(at)(core, group->hashes[i]);
    }
}

/* Returns the mask of hash i in a group. Uses `masks` if the mask was computed in advance. */
BGI_INLINE ISA_TARGET uint64_t REGISTER_NAME(mask_of)(const struct bgi_group *group,
                                                      const uint64_t *masks, unsigned i,
                                                      const uint32_t k)
{
    unsigned made = REGISTER_MADE * (group->n & ~(REGISTER_GROUP - 1u));
    return i < made ? masks[i] : REGISTER_NAME(mask)(group->hashes[i], k);
}

BGI_INLINE ISA_TARGET uint64_t REGISTER_NAME(whole_group)(
    const struct bgi_core *core, const struct bgi_group *group,
    const struct bgi_group *next, const uint32_t k, const enum register_operation what)
{
    uint64_t answer = 0, masks[64];
    unsigned i = 0;
#if REGISTER_MADE
    for (; i + REGISTER_GROUP <= group->n; i += REGISTER_GROUP) {
        REGISTER_NAME(masks)(group->hashes + i, masks + i, k);
    }
#endif
    for (i = 0; i < group->n; i++) {
        if (next && i < next->n) {
            BGI_PREFETCH(next->core->words + next->at[i]);
        }
        uint64_t *unit = REGISTER_NAME(word_at)(core, group->at[i]);
        uint64_t mask = REGISTER_NAME(mask_of)(group, masks, i, k);
        answer |= (uint64_t)REGISTER_NAME(touch)(unit, mask, what) << i;
    }
    for (; next && i < next->n; i++) {
        BGI_PREFETCH(next->core->words + next->at[i]);
    }
    return answer;
}

BGI_INLINE ISA_TARGET bool REGISTER_NAME(one)(const struct bgi_core *core,
                                              uint64_t hash, const uint32_t k,
                                              const enum register_operation what)
{
    uint64_t *unit = REGISTER_NAME(word_at)(core, REGISTER_NAME(at)(core, hash));
    return REGISTER_NAME(touch)(unit, REGISTER_NAME(mask)(hash, k), what);
}

#define REGISTER_DEFINE_MODE(k, mode, what)                                            \
    ISA_TARGET static bool REGISTER_NAME(add_##mode##_##k)(struct bgi_core * core,     \
                                                           uint64_t hash)              \
    {                                                                                  \
        return REGISTER_NAME(one)(core, hash, k, what);                                \
    }                                                                                  \
    ISA_TARGET static uint64_t REGISTER_NAME(add_group_##mode##_##k)(                  \
        struct bgi_core * core, const struct bgi_group *group,                         \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        return REGISTER_NAME(whole_group)(core, group, next, k, what);                 \
    }

#define REGISTER_DEFINE(k)                                                             \
    ISA_TARGET static bool REGISTER_NAME(has_##k)(const struct bgi_core *core,         \
                                                  uint64_t hash)                       \
    {                                                                                  \
        return REGISTER_NAME(one)(core, hash, k, REGISTER_HAS);                        \
    }                                                                                  \
    ISA_TARGET static uint64_t REGISTER_NAME(has_group_##k)(                           \
        const struct bgi_core *core, const struct bgi_group *group,                    \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        return REGISTER_NAME(whole_group)(core, group, next, k, REGISTER_HAS);         \
    }                                                                                  \
    REGISTER_DEFINE_MODE(k, exclusive, REGISTER_ADD_EXCLUSIVE)                         \
    REGISTER_DEFINE_MODE(k, shared, REGISTER_ADD_SHARED)

REGISTER_DEFINE(1)
REGISTER_DEFINE(2)
REGISTER_DEFINE(3)
REGISTER_DEFINE(4)
REGISTER_DEFINE(5)
REGISTER_DEFINE(6)
REGISTER_DEFINE(7)
REGISTER_DEFINE(8)
REGISTER_DEFINE(9)
REGISTER_DEFINE(10)

#define REGISTER_OPS(k, mode)                                                          \
    {                                                                                  \
        .has = REGISTER_NAME(has_##k), .add = REGISTER_NAME(add_##mode##_##k),         \
        .has_group = REGISTER_NAME(has_group_##k),                                     \
        .add_group = REGISTER_NAME(add_group_##mode##_##k),                            \
        .locate = REGISTER_NAME(locate),                                               \
    }
#define REGISTER_TABLE(mode)                                                           \
    static const struct bgi_ops REGISTER_NAME(ops_##mode)[10] = {                      \
        REGISTER_OPS(1, mode),  REGISTER_OPS(2, mode), REGISTER_OPS(3, mode),          \
        REGISTER_OPS(4, mode),  REGISTER_OPS(5, mode), REGISTER_OPS(6, mode),          \
        REGISTER_OPS(7, mode),  REGISTER_OPS(8, mode), REGISTER_OPS(9, mode),          \
        REGISTER_OPS(10, mode),                                                        \
    };
REGISTER_TABLE(exclusive)
REGISTER_TABLE(shared)

#undef REGISTER_TABLE
#undef REGISTER_OPS
#undef REGISTER_DEFINE
#undef REGISTER_DEFINE_MODE
#undef REGISTER_MADE
#undef REGISTER_NAME
#undef REGISTER_PASTE3
#undef REGISTER_PASTE3_

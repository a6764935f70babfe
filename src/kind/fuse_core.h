/*
 * fuse_core.h - lookups in fuse filters, for one width and arity.
 *
 * This file is included once for each combination of width and arity. Before each inclusion, these
 * macros must be defined:
 *
 *   FUSE_BITS    bits per slot: 8, 16 or 32
 *   FUSE_ARITY   slots per key: 3 or 4
 *
 * There are no branches and no early exit: all loads of a key are issued together, which
 * matters most for filters larger than the cache. For each hash, a batch stores the index of the
 * first slot (in `at`) and the hash mixed with the seed (in `also`). A few cheap instructions
 * compute the indexes of all slots from these two values, once for prefetching and once for the
 * answer.
 */

#define FUSE_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define FUSE_PASTE4(a, b, c, d)  FUSE_PASTE4_(a, b, c, d)
#define FUSE(name)               FUSE_PASTE4(fuse, name, FUSE_BITS, FUSE_ARITY)

#ifndef FUSE_KEY
#define FUSE_KEY /* the code that all combinations share */

/* The values from which the slots of a hash are computed. */
struct fuse_key {
    uint64_t at; /* index of the hash's first slot in the whole array */
    uint64_t mix;
};

BGI_INLINE struct fuse_key fuse_locate(const struct fuse_state *state, uint64_t hash)
{
    const struct fuse_shape *shape = &state->shape;
    uint64_t piece = bgi_mulhi(hash, shape->pieces);
    uint64_t rest = hash * shape->pieces;
    return (struct fuse_key){ piece * shape->slots + bgi_mulhi(rest, shape->starts),
                              sealed_mix(hash, state->seeds[piece]) };
}

/* Returns the index of a key's slot i (0 to 3). */
BGI_INLINE uint64_t fuse_slot(uint64_t length, struct fuse_key key, unsigned i)
{
    uint64_t place = key.mix >> (i ? i - 1 : 0) * FUSE_LOG2_MAX & (length - 1);
    return i == 0 ? key.at : (key.at + i * length) ^ place;
}

#endif

#if FUSE_BITS == 8
#define FUSE_TYPE uint8_t
#elif FUSE_BITS == 16
#define FUSE_TYPE uint16_t
#else
#define FUSE_TYPE uint32_t
#endif

/* Slots are numbered from the lowest bits of each 64-bit word (I2). */
BGI_INLINE FUSE_TYPE *FUSE(at)(const struct bgi_core *core, uint64_t slot)
{
    const uint64_t swap = BGI_BIG_ENDIAN ? 64 / FUSE_BITS - 1 : 0;
    return (FUSE_TYPE *)(void *)core->words + (slot ^ swap);
}

BGI_INLINE FUSE_TYPE FUSE(fingerprint)(uint64_t mix)
{
    return (FUSE_TYPE)(mix >> (64 - FUSE_BITS));
}

/* Returns the XOR of a key's slots. */
BGI_INLINE FUSE_TYPE FUSE(read)(const struct bgi_core *core, uint64_t length,
                                struct fuse_key key)
{
    FUSE_TYPE value = 0;
    for (unsigned i = 0; i < FUSE_ARITY; i++) {
        value ^= *FUSE(at)(core, fuse_slot(length, key, i));
    }
    return value;
}

BGI_INLINE bool FUSE(matches)(const struct bgi_core *core, struct fuse_key key)
{
    const struct fuse_state *state = core->state;
    FUSE_TYPE value = FUSE(read)(core, state->shape.length, key);
    return sealed_verdict(&state->sealed, value ^ FUSE(fingerprint)(key.mix));
}

static bool FUSE(has)(const struct bgi_core *core, uint64_t hash)
{
    return FUSE(matches)(core, fuse_locate(core->state, hash));
}

static bool FUSE(has_u64)(const struct bgi_core *core, uint64_t key)
{
    uint64_t hash = bgi_fast8_masked(core->fast8_mask, key);
    return FUSE(matches)(core, fuse_locate(core->state, hash));
}

static void FUSE(locate)(const struct bgi_core *core, struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        struct fuse_key key = fuse_locate(core->state, group->hashes[i]);
        group->at[i] = key.at;
        group->also[i] = key.mix;
    }
}

BGI_INLINE void FUSE(prefetch_one)(const struct bgi_core *core, uint64_t length,
                                   const struct bgi_group *group, unsigned i)
{
    struct fuse_key key = { group->at[i], group->also[i] };
    for (unsigned s = 0; s < FUSE_ARITY; s++) {
        BGI_PREFETCH(FUSE(at)(core, fuse_slot(length, key, s)));
    }
}

static void FUSE(prefetch)(const struct bgi_core *core, const struct bgi_group *group)
{
    const struct fuse_state *state = core->state;
    for (unsigned i = 0; i < group->n; i++) {
        FUSE(prefetch_one)(core, state->shape.length, group, i);
    }
}

static uint64_t FUSE(has_group)(const struct bgi_core *core,
                                const struct bgi_group *group,
                                const struct bgi_group *next)
{
    const struct fuse_state *state = core->state;
    const uint64_t length = state->shape.length;
    uint64_t answer = 0;
    unsigned asked = next ? next->n : 0;
    for (unsigned i = 0; i < group->n || i < asked; i++) {
        if (i < asked) {
            FUSE(prefetch_one)(core, length, next, i);
        }
        if (i < group->n) {
            struct fuse_key key = { group->at[i], group->also[i] };
            answer |= (uint64_t)FUSE(matches)(core, key) << i;
        }
    }
    return answer;
}

static const struct bgi_ops FUSE(ops) = {
    .has = FUSE(has),
    .add = sealed_add,
    .has_u64 = FUSE(has_u64),
    .add_u64 = sealed_add,
    .locate = FUSE(locate),
    .has_group = FUSE(has_group),
    .add_group = sealed_add_group,
    .prefetch = FUSE(prefetch),
};

/*
 * ribbon_core.h - lookups in ribbon filters, for one instruction set.
 *
 * This file is included once for each instruction set. Before each inclusion, these macros must
 * be defined:
 *
 *   RIBBON_ISA      the name of the instruction set, used in function names
 *   RIBBON_TARGET   the attribute of functions that use the instruction set
 *   ribbon_read_<isa>(words, k, low, high)   the k parities of the slots of two blocks
 *                   that `low` and `high` select: bit j is the parity of column j
 *
 * For each hash, a batch stores the key's first slot (`at`) and its band (`also`). A key's layer is
 * determined from the limits when the key is located. The limits are small enough to stay in the
 * cache.
 */

#define RIBBON_PASTE3_(a, b, c) a##_##b##_##c
#define RIBBON_PASTE3(a, b, c)  RIBBON_PASTE3_(a, b, c)
#define RIBBON(name)            RIBBON_PASTE3(ribbon, name, RIBBON_ISA)

RIBBON_TARGET BGI_INLINE bool RIBBON(matches)(const struct bgi_core *core,
                                              struct ribbon_key key)
{
    const struct ribbon_state *state = core->state;
    unsigned off = (unsigned)(key.at % RIBBON_BLOCK);
    uint32_t value = RIBBON(read)(ribbon_block(core, key.at), core->k, key.band << off,
                                  key.band >> 1 >> (RIBBON_BLOCK - 1 - off));
    return sealed_verdict(&state->sealed,
                          value ^ ribbon_fingerprint(key.band, core->k));
}

RIBBON_TARGET static bool RIBBON(has)(const struct bgi_core *core, uint64_t hash)
{
    return RIBBON(matches)(core, ribbon_locate(core, hash));
}

RIBBON_TARGET static bool RIBBON(has_u64)(const struct bgi_core *core, uint64_t key)
{
    uint64_t hash = bgi_fast8_masked(core->fast8_mask, key);
    return RIBBON(matches)(core, ribbon_locate(core, hash));
}

RIBBON_TARGET static uint64_t RIBBON(has_group)(const struct bgi_core *core,
                                                const struct bgi_group *group,
                                                const struct bgi_group *next)
{
    uint64_t answer = 0;
    unsigned asked = next ? next->n : 0;
    for (unsigned i = 0; i < group->n || i < asked; i++) {
        if (i < asked) {
            ribbon_prefetch_one(core, next->at[i]);
        }
        if (i < group->n) {
            struct ribbon_key key = { group->at[i], group->also[i] };
            answer |= (uint64_t)RIBBON(matches)(core, key) << i;
        }
    }
    return answer;
}

static const struct bgi_ops RIBBON(ops) = {
    .has = RIBBON(has),
    .add = sealed_add,
    .has_u64 = RIBBON(has_u64),
    .add_u64 = sealed_add,
    .locate = ribbon_locate_word,
    .has_group = RIBBON(has_group),
    .add_group = sealed_add_group,
    .prefetch = ribbon_prefetch,
};

#undef RIBBON
#undef RIBBON_PASTE3
#undef RIBBON_PASTE3_
#undef RIBBON_ISA
#undef RIBBON_TARGET

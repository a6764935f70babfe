/*
 * fuse_solve.h - construction of a piece of a fuse filter, for one width and arity. Include this
 * file after fuse_core.h, with the same definitions; it undefines the macros of both files.
 *
 * There are three passes. Each pass processes keys or slots in ascending order, so only a few
 * adjacent segments are in use at any time. These segments take 200 KB, so they stay in the L2
 * cache.
 *
 *   count    counts the keys of every slot and XORs their hashes, so that the only key of
 *            a slot is known;
 *   peel     removes keys that are alone in one of their slots, and from there continues
 *            depth-first to the slots that now have a single key;
 *   assign   in reverse order, sets for each key the slot in which it was alone.
 *
 * Each slot has a byte, whose upper six bits count the slot's keys. A slot has an index (0 to 3)
 * among the slots of each of its keys, and the lower two bits of the byte are the XOR of these
 * indexes. If the slot has a single key, the XOR is the slot's index for that key. A slot with more
 * than 63 keys, which does not occur with good hashes, causes the seed to be rejected.
 */

/* The scratch memory of a solver, which fuse_carve divides into these arrays. */
#ifndef FUSE_BENCH
#define FUSE_BENCH

struct fuse_bench {
    uint64_t *hashes; /* for each slot, the XOR of its keys' hashes */
    uint64_t *order;  /* hashes of the removed keys, in the order of their removal */
    uint32_t *stack;  /* stack of the slots that have a single key left */
    unsigned char *count; /* for each slot, the byte described above */
    unsigned char
        *alone; /* for each removed key, the index of the slot in which it was alone */
};

static size_t fuse_line_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t fuse_bench_bytes(const struct fuse_shape *shape, size_t n)
{
    size_t slots = (size_t)shape->slots;
    return fuse_line_up(slots * 8) + fuse_line_up(n * 8) + fuse_line_up(slots * 4)
           + fuse_line_up(slots) + fuse_line_up(n);
}

static struct fuse_bench fuse_carve(const struct fuse_shape *shape, size_t n,
                                    void *scratch)
{
    size_t slots = (size_t)shape->slots;
    struct fuse_bench bench;
    unsigned char *p = scratch;
    bench.hashes = (uint64_t *)(void *)p;
    p += fuse_line_up(slots * 8);
    bench.order = (uint64_t *)(void *)p;
    p += fuse_line_up(n * 8);
    bench.stack = (uint32_t *)(void *)p;
    p += fuse_line_up(slots * 4);
    bench.count = p;
    p += fuse_line_up(slots);
    bench.alone = p;
    return bench;
}

/* Like fuse_locate, but the slot index is relative to the piece. */
BGI_INLINE struct fuse_key fuse_within(const struct fuse_shape *shape, uint64_t hash,
                                       uint64_t seed)
{
    return (struct fuse_key){ bgi_mulhi(hash * shape->pieces, shape->starts),
                              sealed_mix(hash, seed) };
}

#endif

/* Counts the keys per slot. Returns false if some slot has too many keys. */
static bool FUSE(count)(const struct fuse_shape *shape, const uint64_t *hashes,
                        size_t n, uint64_t seed, const struct fuse_bench *bench)
{
    const struct fuse_shape in = *shape;
    bool too_many = false;
    memset(bench->hashes, 0, (size_t)in.slots * sizeof *bench->hashes);
    memset(bench->count, 0, (size_t)in.slots);
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hashes[i];
        struct fuse_key key = fuse_within(&in, hash, seed);
        for (unsigned s = 0; s < FUSE_ARITY; s++) {
            uint64_t slot = fuse_slot(in.length, key, s);
            unsigned char count = (unsigned char)((bench->count[slot] + 4) ^ s);
            bench->hashes[slot] ^= hash;
            bench->count[slot] = count;
            too_many |= count < 4;
        }
    }
    return !too_many;
}

/* Removes a key from all of its slots. Pushes the slots that now have a single key onto
 * the stack, and returns the new top of the stack. */
BGI_INLINE size_t FUSE(take)(const struct fuse_shape *in, uint64_t hash, uint64_t seed,
                             const struct fuse_bench *bench, size_t top)
{
    struct fuse_key key = fuse_within(in, hash, seed);
    for (unsigned s = 0; s < FUSE_ARITY; s++) {
        uint64_t slot = fuse_slot(in->length, key, s);
        unsigned char count = (unsigned char)((bench->count[slot] - 4) ^ s);
        bench->hashes[slot] ^= hash;
        bench->count[slot] = count;
        bench->stack[top] = (uint32_t)slot;
        top += count >> 2 == 1;
    }
    return top;
}

/* Removes keys, and stores their hashes in bench->order in the order of removal. Returns the number
 * of removed keys. */
static size_t FUSE(peel)(const struct fuse_shape *shape, uint64_t seed,
                         const struct fuse_bench *bench)
{
    const struct fuse_shape in = *shape;
    size_t done = 0, top = 0;
    for (uint32_t first = 0; first < in.slots; first++) {
        if (bench->count[first] >> 2 != 1) {
            continue;
        }
        bench->stack[top++] = first;
        while (top > 0) {
            uint32_t slot = bench->stack[--top];
            if (bench->count[slot] >> 2 == 1) {
                uint64_t hash = bench->hashes[slot];
                bench->order[done] = hash;
                bench->alone[done++] = bench->count[slot] & 3;
                top = FUSE(take)(&in, hash, seed, bench, top);
            }
        }
    }
    return done;
}

static void FUSE(assign)(const struct bgi_core *core, uint64_t piece, size_t n,
                         uint64_t seed, const struct fuse_bench *bench)
{
    const struct fuse_state *state = core->state;
    const struct fuse_shape in = state->shape;
    for (size_t i = n; i-- > 0;) {
        struct fuse_key key = fuse_within(&in, bench->order[i], seed);
        key.at += piece * in.slots;
        /* The slot to be set is still 0, so it does not affect the XOR. */
        FUSE_TYPE value = FUSE(read)(core, in.length, key) ^ FUSE(fingerprint)(key.mix);
        *FUSE(at)(core, fuse_slot(in.length, key, bench->alone[i])) = value;
    }
}

static bool FUSE(solve)(struct bgi_core *core, uint64_t piece, const uint64_t *hashes,
                        size_t n, void *scratch)
{
    struct fuse_state *state = core->state;
    struct fuse_bench bench = fuse_carve(&state->shape, n, scratch);
    uint64_t sum = sealed_sum(hashes, n);
    if (n > state->shape.slots || (n > 0 && state->shape.starts == 0)) {
        return false;
    }
    for (unsigned attempt = 0; attempt < FUSE_ATTEMPTS; attempt++) {
        uint64_t seed = sealed_seed(sum, attempt);
        if (FUSE(count)(&state->shape, hashes, n, seed, &bench)
            && FUSE(peel)(&state->shape, seed, &bench) == n) {
            state->seeds[piece] = seed;
            FUSE(assign)(core, piece, n, seed, &bench);
            return true;
        }
    }
    return false;
}

static uint64_t FUSE(pieces)(uint64_t units, uint32_t k)
{
    (void)k;
    return fuse_shape_of(FUSE_ARITY, units).pieces;
}

static size_t FUSE(scratch_bytes)(uint64_t units, uint32_t k, size_t n)
{
    struct fuse_shape shape = fuse_shape_of(FUSE_ARITY, units);
    (void)k;
    return fuse_bench_bytes(&shape, n);
}

static const struct bgi_static FUSE(static) = {
    .pieces = FUSE(pieces),
    .scratch_bytes = FUSE(scratch_bytes),
    .solve = FUSE(solve),
    .seal = fuse_seal,
    .attempts = FUSE_ATTEMPTS,
};

#undef FUSE
#undef FUSE_TYPE
#undef FUSE_PASTE4
#undef FUSE_PASTE4_

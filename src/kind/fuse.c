/*
 * fuse.c - a filter built from all keys at once, in which the XOR of a key's slots is its
 * fingerprint.
 *
 * Idea. The filter is an array of slots with k bits each. A key has three or four slots and a
 * fingerprint, all derived from its hash. The filter is constructed such that for every key in
 * the set, the XOR of its slots is its fingerprint. For any other key, the XOR equals the
 * fingerprint by chance, with a probability of 2^-k. The cost is k bits per slot and, in large
 * sets, 1.125 slots per key, whereas a Bloom filter needs 1.44 k bits per key. The disadvantage is
 * that the values of the slots depend on all keys together, so no key can be added later
 * (Dietzfelbinger, Pagh, "Succinct data structures for retrieval", 2008; Graf, Lemire, "Binary fuse
 * filters: fast and smaller than xor filters", 2022).
 *
 * Construction. Each key is an equation over its slots. A slot that only one of the remaining
 * keys uses can be assigned to that key, regardless of the other keys. After this key is removed,
 * some of its other slots may be used by only one remaining key. If all keys can be removed this
 * way, values are assigned in reverse order. If a key's slots could be anywhere, this would work up
 * to 0.82 keys per slot. Here the slots of a key are in adjacent segments, at a random position in
 * each segment:
 *
 *      segment   0        1        2        3        4        5
 *             [ . x . ][ . . y ][ z . . ][ . . . ][ . . . ][ . . . ]
 *                         [ . a . ][ b . . ][ . . c ]
 *
 * The first and last segments have fewer keys, so the removal starts there and continues inward
 * like a zipper. This works up to 0.92 keys per slot with three slots per key, and up to 0.98
 * with four ("spatial coupling"). A segment must be long enough that the zipper does not get
 * stuck by chance: its length, a power of two, grows with the number of slots.
 *
 * Pieces. An array of 2.4 million slots or more is divided into pieces, each of which is a
 * separate filter with its own seed. The high bits of a key's hash select its piece. A piece of
 * one million keys already needs only 1.125 slots per key, and its segments have 8192 slots, so
 * dividing the array costs no space. The advantages are that different threads can solve different
 * pieces, that each piece needs bounded memory, and that if a seed fails, only the piece that uses
 * it is solved again.
 *
 *      hash x pieces = [ piece | rest ]          two halves of one product
 *      first slot    = rest x starts >> 64       so sorted hashes have sorted first slots,
 *                                                whatever the seed, and all work on one
 *                                                part of the array is done together
 *      mix           = folded product of hash ^ seed: the low 13 bits are the position in
 *                      the second segment, the next 13 in the third, the next 13 in the
 *                      fourth, and the top k bits are the fingerprint
 *
 * Invariants
 *   (I1) The shape depends only on the number of units and the arity, and is computed in integer
 *        arithmetic, so it is the same on every machine. In addition to the slots, only the seeds
 *        and the number of keys are stored.
 *   (I2) Slot i starts at bit i k % 64 of 64-bit word i k / 64, regardless of the byte order.
 *   (I3) The seeds, and therefore all slots, depend only on the set of hashes: the same keys in any
 *        order produce the same filter. An attacker who does not know all keys cannot prepare a
 *        set for which no seed works. An attacker who knows all keys can do so; use a keyed hash
 *        for untrusted keys.
 *
 * Concurrency. The slots never change once the filter is built. See sealed.h for the effect of
 * a forced add.
 */
#include "kind/fuse_shape.h"

#include "bloomgate/inline.h"
#include "hash/fast.h"

#include <math.h>
#include <string.h>

static size_t fuse_state_bytes(uint32_t arity, uint64_t units)
{
    struct fuse_shape shape = fuse_shape_of(arity, units);
    return sizeof(struct fuse_state) + (size_t)shape.pieces * sizeof(uint64_t);
}

static void fuse_setup(uint32_t arity, struct bgi_core *core)
{
    struct fuse_state *state = core->state;
    state->shape = fuse_shape_of(arity, core->units);
    sealed_close(&state->sealed, 0);
}

static void fuse_copied(struct bgi_core *to, const struct bgi_core *from)
{
    struct fuse_state *copy = to->state;
    const struct fuse_state *state = from->state;
    sealed_copy(&copy->sealed, &state->sealed);
    memcpy(copy->seeds, state->seeds,
           (size_t)state->shape.pieces * sizeof *state->seeds);
}

static bool fuse_same_state(const struct bgi_core *a, const struct bgi_core *b)
{
    const struct fuse_state *in_a = a->state, *in_b = b->state;
    size_t bytes = (size_t)in_a->shape.pieces * sizeof *in_a->seeds;
    return sealed_same(&in_a->sealed, &in_b->sealed)
           && memcmp(in_a->seeds, in_b->seeds, bytes) == 0;
}

static void fuse_measure(const struct bgi_core *core, struct bgi_measure *measure)
{
    sealed_measure(core, core->units * FUSE_UNIT, ldexp(1, -(int)core->k), measure);
}

static uint64_t fuse_numbers(const struct bgi_core *core, uint64_t *to)
{
    const struct fuse_state *state = core->state;
    return sealed_numbers(&state->sealed, state->seeds, state->shape.pieces, to);
}

static bool fuse_restore(struct bgi_core *core, const uint64_t *numbers)
{
    struct fuse_state *state = core->state;
    /* A filter of this size has no slots for any key, so it must not be queried. */
    return state->shape.starts > 0
           && sealed_restore(&state->sealed, state->seeds, state->shape.pieces,
                             numbers);
}

static void fuse_seal(struct bgi_core *core, uint64_t keys)
{
    struct fuse_state *state = core->state;
    sealed_close(&state->sealed, keys);
}

static double fuse_rate_at(uint32_t arity, uint64_t units, uint32_t k, double n)
{
    if (!(n > 0)) {
        return 0;
    }
    return n <= fuse_capacity(arity, units) ? ldexp(1, -(int)k) : 1;
}

static double fuse_fill(uint64_t units, uint32_t k, double n)
{
    (void)k;
    return fmin(1, n / ((double)units * FUSE_UNIT));
}

static uint32_t fuse_unit_bytes(uint32_t k)
{
    return k == 8 || k == 16 || k == 32 ? FUSE_UNIT * k / 8 : 0;
}

static void fuse_view(uint32_t arity, const struct bgi_core *core, struct bg_view *view)
{
    const struct fuse_state *state = core->state;
    view->shape = BG_VIEW_FUSE;
    view->pass = &state->sealed.pass;
    view->seeds = state->seeds;
    view->pieces = state->shape.pieces;
    view->slots = state->shape.slots;
    view->starts = state->shape.starts;
    view->length = state->shape.length;
    view->arity = arity;
}

static const struct bgi_kind *fuse_pick(uint32_t width, uint32_t flags);

#define FUSE_BITS  8
#define FUSE_ARITY 3
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#define FUSE_ARITY 4
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#undef FUSE_BITS

#define FUSE_BITS  16
#define FUSE_ARITY 3
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#define FUSE_ARITY 4
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#undef FUSE_BITS

#define FUSE_BITS  32
#define FUSE_ARITY 3
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#define FUSE_ARITY 4
#include "kind/fuse_core.h"
#include "kind/fuse_solve.h"
#undef FUSE_ARITY
#undef FUSE_BITS

/* Defines the kind's description for one arity. All widths share this description. */
#define FUSE_DESCRIBE(arity, storage, name)                                            \
    static size_t fuse_state_bytes_##arity(uint64_t units, uint32_t k)                 \
    {                                                                                  \
        (void)k;                                                                       \
        return fuse_state_bytes(arity, units);                                         \
    }                                                                                  \
    static void fuse_setup_##arity(struct bgi_core *core)                              \
    {                                                                                  \
        fuse_setup(arity, core);                                                       \
    }                                                                                  \
    static void fuse_view_##arity(const struct bgi_core *core, struct bg_view *view)   \
    {                                                                                  \
        fuse_view(arity, core, view);                                                  \
    }                                                                                  \
    static double fuse_rate_##arity(uint64_t units, uint32_t k, double n)              \
    {                                                                                  \
        return fuse_rate_at(arity, units, k, n);                                       \
    }                                                                                  \
    static uint32_t fuse_lines_##arity(uint32_t k)                                     \
    {                                                                                  \
        (void)k;                                                                       \
        return arity;                                                                  \
    }                                                                                  \
    static const struct bgi_ops *fuse_ops_##arity(uint32_t k, bool exclusive,          \
                                                  bg_cpu cpu)                          \
    {                                                                                  \
        (void)exclusive, (void)cpu;                                                    \
        return k == 8    ? &fuse_ops_8_##arity                                         \
               : k == 16 ? &fuse_ops_16_##arity                                        \
                         : &fuse_ops_32_##arity;                                       \
    }                                                                                  \
    static const struct bgi_static *fuse_built_##arity(uint32_t k)                     \
    {                                                                                  \
        return k == 8    ? &fuse_static_8_##arity                                      \
               : k == 16 ? &fuse_static_16_##arity                                     \
                         : &fuse_static_32_##arity;                                    \
    }                                                                                  \
    storage const struct bgi_kind name = {                                             \
        .id = BG_KIND_FUSE,                                                            \
        .traits = BG_TRAIT_STATIC,                                                     \
        .width = arity,                                                                \
        .k_min = 8,                                                                    \
        .k_max = 32,                                                                   \
        .units_max = (uint64_t)1 << 46,                                                \
        .pick = fuse_pick,                                                             \
        .unit_bytes = fuse_unit_bytes,                                                 \
        .rate = fuse_rate_##arity,                                                     \
        .fill = fuse_fill,                                                             \
        .lines = fuse_lines_##arity,                                                   \
        .ops = fuse_ops_##arity,                                                       \
        .state_bytes = fuse_state_bytes_##arity,                                       \
        .setup = fuse_setup_##arity,                                                   \
        .copied = fuse_copied,                                                         \
        .measure = fuse_measure,                                                       \
        .same_state = fuse_same_state,                                                 \
        .numbers = fuse_numbers,                                                       \
        .restore = fuse_restore,                                                       \
        .doubt = sealed_doubt,                                                         \
        .built = fuse_built_##arity,                                                   \
        .view = fuse_view_##arity,                                                     \
    };

FUSE_DESCRIBE(3, , bgi_kind_fuse)
FUSE_DESCRIBE(4, static, fuse_kind_4)

static const struct bgi_kind *fuse_pick(uint32_t width, uint32_t flags)
{
    if (flags) {
        return NULL;
    }
    return width == 0 || width == 3 ? &bgi_kind_fuse : width == 4 ? &fuse_kind_4 : NULL;
}

/*
 * ribbon.c - the smallest filter, with close to log2(1 / rate) bits per key.
 *
 * Idea. As in a fuse filter, the slots of a key XOR to its fingerprint. But here a key uses
 * about half of 64 consecutive slots, selected by 64 bits of its hash. When the keys are sorted by
 * their first slot, their equations form a matrix that is zero except for a narrow band, the
 * ribbon. Gaussian elimination solves the equations in one sweep from end to end. Because each
 * equation involves many slots, a filter holds nearly as many keys as it has slots, for any slot
 * width k from 1 to 32 (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and xor",
 * 2021).
 *
 * Which ribbon. A plain ribbon of width 64 needs 9% more slots than keys at 100,000 keys, and this
 * overhead grows with the number of keys. A homogeneous ribbon has a higher false-positive rate
 * instead of more slots. In both cases, the overhead exceeds the target of 3%. So this is a bumped
 * ribbon (Dillinger, Huebschle-Schneider, Sanders, Walzer, "Fast succinct retrieval and approximate
 * membership using ribbon", 2022). The first layer gets 3% more keys than slots. Where it
 * overflows, some keys are sent to a second layer, which is a plain ribbon. The second layer holds
 * only about 3.5% of the keys, so its 9% overhead costs little. There is no third layer. Instead,
 * the second layer has spare slots, and if they do not suffice, another seed is tried. In total,
 * there are 0.7% more slots than keys.
 *
 *      piece   [ first layer: blocks 0 .. f-1 | second: f .. b-1 | limits ]
 *
 *      block   64 slots, as k words of 64 bits: word j contains bit j of each slot, so that one
 *              AND and the parity of a word give one bit of the XOR of 64 slots
 *
 *      limits  4 bits for every bucket of 256 slots of the first layer. A key that
 *              starts in the bucket's slot s, 0 to 255, is in the second layer if
 *              s / 16 is below the limit; 15 means all keys.
 *
 * A lookup reads the limit of the key's bucket, and then 2 k adjacent words. The limits take 1/64
 * bit per key, so they fit in the cache even for more than 1e8 keys. As in fuse filters, the array
 * is divided into pieces of 2 million slots, each with its own seed, and keys with larger hashes
 * have later first slots:
 *
 *      hash x pieces = [ piece | rest ]
 *      first slot    = rest x starts >> 64
 *      band          = mix of hash and seed, lowest bit set
 *      fingerprint   = high k bits of band x constant
 *
 * In the second layer, all of these values are derived from a second mix, which is computed from
 * the first.
 *
 * Invariants
 *   (I1) The shape is computed from the number of units and k, in integer arithmetic. In addition
 *        to the words, only the seeds and the number of keys are stored.
 *   (I2) All data is in 64-bit words, whose values do not depend on the byte order.
 *   (I3) The seeds, and therefore all words, depend only on the set of hashes, as in fuse.c.
 *   (I4) Each layer ends with a block in which no key starts, so that the block after a key's
 *        first block can always be read.
 *
 * Concurrency. The words never change once the filter is built. See sealed.h for the effect of
 * a forced add.
 */
#include "base/features.h"
#include "hash/fast.h"
#include "kind/ribbon_shape.h"
#include "kind/ribbon_solve.h"

#include <string.h>

#if defined(BGI_X86_64)
#include <immintrin.h>
#endif

/* ---- Locating ------------------------------------------------------------------------ */

/* Returns the words of the block that contains a slot. The words of the next block follow them in
 * memory. */
BGI_INLINE const uint64_t *ribbon_block(const struct bgi_core *core, uint64_t slot)
{
    return (const uint64_t *)(const void *)core->words
           + (size_t)(slot / RIBBON_BLOCK) * core->k;
}

/* Returns the equation of a hash. Its slots are numbered across the whole filter. */
BGI_INLINE struct ribbon_key ribbon_locate(const struct bgi_core *core, uint64_t hash)
{
    const struct ribbon_state *state = core->state;
    const struct ribbon_shape *shape = &state->shape;
    uint64_t piece = bgi_mulhi(hash, shape->pieces), rest = hash * shape->pieces;
    uint64_t begin = piece * shape->units * RIBBON_BLOCK;
    uint64_t mix = sealed_mix(hash, state->seeds[piece]);
    if (BGI_LIKELY(shape->starts[0])) {
        struct ribbon_key key = ribbon_first(shape, rest, mix);
        const uint64_t *limits =
            ribbon_block(core, begin + shape->limits * RIBBON_BLOCK);
        if (BGI_LIKELY(ribbon_cell(key.at) >= ribbon_limit(limits, key.at))) {
            key.at += begin;
            return key;
        }
    }
    struct ribbon_key key = ribbon_second(shape, ribbon_rehash(mix));
    key.at += begin + shape->second;
    return key;
}

static void ribbon_locate_word(const struct bgi_core *core, struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        struct ribbon_key key = ribbon_locate(core, group->hashes[i]);
        group->at[i] = key.at;
        group->also[i] = key.band;
    }
}

/* Prefetches two blocks. */
BGI_INLINE void ribbon_prefetch_one(const struct bgi_core *core, uint64_t slot)
{
    const char *p = (const char *)ribbon_block(core, slot);
    const char *end = p + 2 * (size_t)core->k * sizeof(uint64_t);
    for (; p < end; p += 64) {
        BGI_PREFETCH(p);
    }
    BGI_PREFETCH(end - 1);
}

static void ribbon_prefetch(const struct bgi_core *core, const struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        ribbon_prefetch_one(core, group->at[i]);
    }
}

/* ---- Parities ------------------------------------------------------------------------ */

BGI_INLINE uint32_t ribbon_read_scalar(const uint64_t *words, uint32_t k, uint64_t low,
                                       uint64_t high)
{
    uint32_t value = 0;
    for (uint32_t j = 0; j < k; j++) {
        uint64_t picked = (words[j] & low) ^ (words[k + j] & high);
        value |= (uint32_t)__builtin_parityll(picked) << j;
    }
    return value;
}

#define RIBBON_ISA scalar
#define RIBBON_TARGET
#include "kind/ribbon_core.h"

#if defined(BGI_X86_64)

#define RIBBON_POPCNT __attribute__((target("avx2,bmi,bmi2,popcnt")))

RIBBON_POPCNT BGI_INLINE uint32_t ribbon_read_popcnt(const uint64_t *words, uint32_t k,
                                                     uint64_t low, uint64_t high)
{
    uint32_t value = 0;
    for (uint32_t j = 0; j < k; j++) {
        uint64_t picked = (words[j] & low) ^ (words[k + j] & high);
        value |= ((uint32_t)__builtin_popcountll(picked) & 1) << j;
    }
    return value;
}

#define RIBBON_ISA    popcnt
#define RIBBON_TARGET RIBBON_POPCNT
#include "kind/ribbon_core.h"

#define RIBBON_VPOPCNT                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,"   \
                          "bmi,bmi2,popcnt")))

/* Computes the parities of eight columns at a time. */
RIBBON_VPOPCNT BGI_INLINE uint32_t ribbon_read_vpopcnt(const uint64_t *words,
                                                       uint32_t k, uint64_t low,
                                                       uint64_t high)
{
    const __m512i lows = _mm512_set1_epi64((long long)low);
    const __m512i highs = _mm512_set1_epi64((long long)high);
    uint32_t value = 0;
    for (uint32_t j = 0; j < k; j += 8) {
        __mmask8 there = k - j < 8 ? (__mmask8)((1u << (k - j)) - 1) : 0xff;
        __m512i one = _mm512_maskz_loadu_epi64(there, words + j);
        __m512i two = _mm512_maskz_loadu_epi64(there, words + k + j);
        __m512i picked =
            _mm512_xor_si512(_mm512_and_si512(one, lows), _mm512_and_si512(two, highs));
        __mmask8 odd =
            _mm512_test_epi64_mask(_mm512_popcnt_epi64(picked), _mm512_set1_epi64(1));
        value |= (uint32_t)odd << j;
    }
    return value;
}

#define RIBBON_ISA    vpopcnt
#define RIBBON_TARGET RIBBON_VPOPCNT
#include "kind/ribbon_core.h"

#endif

static const struct bgi_ops *ribbon_ops(uint32_t k, bool exclusive, bg_cpu cpu)
{
    (void)k, (void)exclusive, (void)cpu;
#if defined(BGI_X86_64)
    if (cpu == BG_CPU_AVX512 && bgi_features() & BGI_HAS_VPOPCNT) {
        return &ribbon_ops_vpopcnt;
    }
    if (cpu == BG_CPU_AVX512 || cpu == BG_CPU_AVX2) {
        return &ribbon_ops_popcnt;
    }
#endif
    return &ribbon_ops_scalar;
}

/* ---- The description ------------------------------------------------------------------ */

static size_t ribbon_state_bytes(uint64_t units, uint32_t k)
{
    struct ribbon_shape shape = ribbon_shape_of(units, k);
    return sizeof(struct ribbon_state) + (size_t)shape.pieces * sizeof(uint64_t);
}

static void ribbon_setup(struct bgi_core *core)
{
    struct ribbon_state *state = core->state;
    state->shape = ribbon_shape_of(core->units, core->k);
    sealed_close(&state->sealed, 0);
}

static void ribbon_copied(struct bgi_core *to, const struct bgi_core *from)
{
    struct ribbon_state *copy = to->state;
    const struct ribbon_state *state = from->state;
    sealed_copy(&copy->sealed, &state->sealed);
    memcpy(copy->seeds, state->seeds,
           (size_t)state->shape.pieces * sizeof *state->seeds);
}

static bool ribbon_same_state(const struct bgi_core *a, const struct bgi_core *b)
{
    const struct ribbon_state *in_a = a->state, *in_b = b->state;
    size_t bytes = (size_t)in_a->shape.pieces * sizeof *in_a->seeds;
    return sealed_same(&in_a->sealed, &in_b->sealed)
           && memcmp(in_a->seeds, in_b->seeds, bytes) == 0;
}

static void ribbon_measure(const struct bgi_core *core, struct bgi_measure *measure)
{
    sealed_measure(core, core->units * RIBBON_BLOCK, ldexp(1, -(int)core->k), measure);
}

static double ribbon_rate(uint64_t units, uint32_t k, double n)
{
    if (!(n > 0)) {
        return 0;
    }
    return n <= ribbon_capacity(units, k) ? ldexp(1, -(int)k) : 1;
}

static double ribbon_fill(uint64_t units, uint32_t k, double n)
{
    (void)k;
    return fmin(1, n / ((double)units * RIBBON_BLOCK));
}

static uint32_t ribbon_unit_bytes(uint32_t k)
{
    return k * (RIBBON_BLOCK / 8);
}

static uint32_t ribbon_lines(uint32_t k)
{
    return (2 * ribbon_unit_bytes(k) + 63) / 64;
}

static const struct bgi_static *ribbon_built(uint32_t k)
{
    (void)k;
    return &bgi_ribbon_static;
}

static uint64_t ribbon_numbers(const struct bgi_core *core, uint64_t *to)
{
    const struct ribbon_state *state = core->state;
    return sealed_numbers(&state->sealed, state->seeds, state->shape.pieces, to);
}

static bool ribbon_restore(struct bgi_core *core, const uint64_t *numbers)
{
    struct ribbon_state *state = core->state;
    /* A filter with no possible first slots cannot hold any key and must not be queried. */
    return state->shape.starts[1] > 0
           && sealed_restore(&state->sealed, state->seeds, state->shape.pieces,
                             numbers);
}

const struct bgi_kind bgi_kind_ribbon = {
    .id = BG_KIND_RIBBON,
    .traits = BG_TRAIT_STATIC,
    .k_min = 1,
    .k_max = 32,
    .units_max = (uint64_t)1 << 46,
    .unit_bytes = ribbon_unit_bytes,
    .rate = ribbon_rate,
    .fill = ribbon_fill,
    .lines = ribbon_lines,
    .ops = ribbon_ops,
    .state_bytes = ribbon_state_bytes,
    .setup = ribbon_setup,
    .copied = ribbon_copied,
    .measure = ribbon_measure,
    .same_state = ribbon_same_state,
    .built = ribbon_built,
    .numbers = ribbon_numbers,
    .restore = ribbon_restore,
    .doubt = sealed_doubt,
};

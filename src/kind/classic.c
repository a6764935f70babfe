/*
 * classic.c - the original Bloom filter, which sets k bits anywhere in the array.
 *
 * Idea. The filter is an array of m bits. A key sets k bits, chosen by its hash. If any of a
 * key's k bits is not set, the key was never added. With k = m/n ln 2, half of the bits end up
 * set, and the false-positive rate is 0.6185^(m/n). A rate of 1% takes 9.6 bits per key and 0.1%
 * takes 14.4, which is the minimum among kinds that only set bits (B. Bloom, "Space/time trade-offs
 * in hash coding with allowable errors", 1970).
 *
 * Cost. An operation reads up to k cache lines. A lookup of an absent key stops after two bits on
 * average; a lookup of a member, and every add, needs all k bits. Choose this kind if memory
 * matters most.
 *
 * Layout. A unit is a 64-bit word; bit i is bit i % 64 of word i / 64. For positions and
 * operations, see scatter_core.h.
 *
 * Invariants
 *   (I1) The position of bit i of a hash is floor(x_i m / 2^64), where x_i does not depend on
 *        m. This makes folding possible: halving m halves every position, and bits 2j and 2j+1
 *        of the large filter become bit j of the small one.
 */
#include "kind/kind.h"

static uint32_t classic_unit_bytes(uint32_t k)
{
    (void)k;
    return 8;
}

static struct bgi_model classic_model(uint64_t units, uint32_t k)
{
    return (struct bgi_model){ .scattered = true,
                               .units = 1,
                               .lanes = 1,
                               .active = 1,
                               .draws = k,
                               .lane_bits = 64 * (double)units };
}

static uint32_t classic_lines(uint32_t k)
{
    return k;
}

static void classic_fold(struct bgi_core *to, const struct bgi_core *from)
{
    bgi_fold_bits((uint64_t *)(void *)to->words,
                  (const uint64_t *)(const void *)from->words, (size_t)from->units);
}

const struct bgi_kind bgi_kind_classic = {
    .id = BG_KIND_CLASSIC,
    .traits = BGI_BLOOM_TRAITS,
    .k_min = 1,
    .k_max = 64,
    .units_max = (uint64_t)1 << 55,
    .unit_bytes = classic_unit_bytes,
    .model = classic_model,
    .lines = classic_lines,
    .fold = classic_fold,
};

/*
 * partitioned.c - a filter that is divided into k slices and stores one bit of every key in each
 * slice.
 *
 * Idea. The m bits are divided into k slices of m/k bits, and bit i of a key is in slice i. All
 * slices have the same fill, and the bits of one key never coincide (Kirsch and Mitzenmacher,
 * "Less hashing, same performance", 2006; Almeida, "A case for partitioned Bloom filters", 2020).
 * The rate is within a fraction of a percent of a classic filter's rate. The advantage is that
 * slices can be cleared or replaced one at a time, so that a filter can forget old keys
 * (live/aged.c).
 *
 * Cost. An operation reads up to k cache lines, as in a classic filter.
 *
 * Layout. A unit is a row of k 64-bit words, one per slice. Slice i consists of the words i *
 * units .. (i + 1) * units - 1.
 *
 *     slice 0          slice 1          ...    slice k-1
 *     [w][w]...[w]     [w][w]...[w]            [w][w]...[w]
 *      0  1   units-1
 *
 * For positions and operations, see scatter_core.h.
 *
 * Invariants
 *   (I1) The position within a slice of s bits is floor(x_i s / 2^64). Folding halves the position.
 *   (I2) Slices start at a word boundary, so folding keeps the slices separate if the number of
 *        units is even.
 */
#include "kind/kind.h"

static uint32_t partitioned_unit_bytes(uint32_t k)
{
    return 8 * k;
}

static struct bgi_model partitioned_model(uint64_t units, uint32_t k)
{
    return (struct bgi_model){ .scattered = true,
                               .units = 1,
                               .lanes = k,
                               .active = k,
                               .draws = 1,
                               .lane_bits = 64 * (double)units };
}

static uint32_t partitioned_lines(uint32_t k)
{
    return k;
}

static void partitioned_fold(struct bgi_core *to, const struct bgi_core *from)
{
    uint64_t *out = (uint64_t *)(void *)to->words;
    const uint64_t *in = (const uint64_t *)(const void *)from->words;
    for (uint32_t slice = 0; slice < from->k; slice++) {
        bgi_fold_bits(out + slice * to->units, in + slice * from->units,
                      (size_t)from->units);
    }
}

const struct bgi_kind bgi_kind_partitioned = {
    .id = BG_KIND_PARTITIONED,
    .traits = BGI_BLOOM_TRAITS,
    .k_min = 1,
    .k_max = 64,
    .units_max = (uint64_t)1 << 49,
    .unit_bytes = partitioned_unit_bytes,
    .model = partitioned_model,
    .lines = partitioned_lines,
    .fold = partitioned_fold,
};

/*
 * split.c - Parquet's split-block filter: eight bits per key in a 32-byte block.
 *
 * Idea. This is a blocked filter whose blocks consist of eight 32-bit words, with one bit per key
 * in each word, so that a block fits into a 256-bit register (J. Apple, "Split block Bloom
 * filters", 2021; Lang et al., "Performance-optimal filtering", 2019). k is always 8.
 *
 * The bits of a filter are identical to the bits of a Parquet filter with the same keys. If keys
 * are hashed with XXH64 (seed 0) over the plain-encoded value, the words of this filter, in
 * little-endian order, are Parquet's bitset.
 *
 * Cost. A smaller block fills more unevenly than a whole line, so this kind needs 10.5 bits per key
 * at a rate of 1%, and 16.9 at 0.1%. The kind `blocked` needs 9.93 and 15.6 bits, and is equally
 * fast. Choose this kind to exchange filters with Parquet, Arrow, Impala or Iceberg.
 *
 * Layout. A unit is a block with the shape "split" (line_shapes.h).
 *
 * Invariants
 *   (I1) The block of a hash is floor((h >> 32) * units / 2^32), as in Parquet. So folding a filter
 *        ORs neighboring blocks. Only 32 bits select the block, which limits the number of blocks
 *        to 2^31; at that size, some blocks get 50% more keys than others. Up to 2^28 blocks (8
 *        GiB), this unevenness raises the rate by less than 1%.
 */
#include "kind/kind.h"
#include "kind/line_shapes.h"

#include "bloomgate/inline.h"

static uint32_t split_unit_bytes(uint32_t k)
{
    (void)k;
    return line_split_bytes;
}

static struct bgi_model split_model(uint64_t units, uint32_t k)
{
    return (struct bgi_model){ .units = (double)units,
                               .lanes = line_split_lanes,
                               .active = k,
                               .draws = 1,
                               .lane_bits = 32,
                               .patterns = line_patterns };
}

static uint32_t split_lines(uint32_t k)
{
    (void)k;
    return 1;
}

static void split_fold(struct bgi_core *to, const struct bgi_core *from)
{
    bgi_fold_units(to, from, line_split_bytes / 8);
}

static void split_view(const struct bgi_core *core, struct bg_view *view)
{
    (void)core;
    view->shape = BG_VIEW_SPLIT;
}

const struct bgi_kind bgi_kind_split = {
    .id = BG_KIND_SPLIT,
    .traits = BGI_BLOOM_TRAITS,
    .k_min = line_split_lanes,
    .k_max = line_split_lanes,
    .units_max = (uint64_t)1 << 31,
    .unit_bytes = split_unit_bytes,
    .model = split_model,
    .lines = split_lines,
    .fold = split_fold,
    .view = split_view,
};

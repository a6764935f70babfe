/*
 * blocked.c - a filter with all bits of a key in one 64-byte line.
 *
 * Idea. For filters larger than the cache, the cost of a lookup depends mainly on the number of
 * cache lines that it reads. So the filter is an array of lines, each a small Bloom filter of 512
 * bits. Each key maps to one line and sets k bits in it (Putze, Sanders, Singler, "Cache-, hash-
 * and space-efficient Bloom filters", 2007). This layout needs more bits, because lines fill
 * unevenly: 9.93 bits per key at 1%, compared with 9.6 for scattered bits, and 15.6 at 0.1%,
 * compared with 14.4.
 *
 * Layout. To let vector instructions find the bits, the line is divided into lanes, each of
 * which holds at most one bit of a key (line_shapes.h describes the shapes):
 *
 *   k = 8         columns, all 8 lanes of 64 bits
 *   k = 3 .. 7    columns, k of the 8 lanes
 *   k = 9 .. 15   words, k of 16 lanes of 32 bits
 *   k = 16        words, all 16
 *
 * Why does a key use k of a fixed number of lanes, instead of k lanes of 512/k bits each? With a
 * fixed number of lanes, k need not divide 512, and one implementation serves every k. The lanes of
 * a key form a pattern of k lanes, which is rotated by an amount that is derived from the hash. Two
 * keys in the same line overlap in some of their lanes by chance. The patterns below give the
 * lowest false-positive rate; they were found by computing the exact rate of every pattern at the
 * load for which its k is chosen. The rates of these patterns are within 0.6% of the rate with
 * randomly drawn lanes (model.c). The obvious pattern, adjacent lanes, has a rate that is up to 9%
 * higher for the shape "words".
 *
 *   rate        10%    5%    2%     1%    0.5%    0.1%    0.01%    0.001%
 *   k             3     4     5      6      7       9       12       14
 *   bits/key    4.8   6.3   8.4   9.93   11.6    15.6     22.1     29.9
 *   scattered   4.8   6.2   8.1    9.6   11.0    14.4     19.2     24.0
 *
 * These designs were tried and rejected: bits anywhere in the line (0.5% fewer bits at the same
 * rate, but adds cannot use vectors); two candidate lines (twice the cache misses); lines that
 * overlap in steps of 16 bytes (3% fewer bits, but many keys span two lines).
 *
 * Invariants
 *   (I1) The line of a hash is floor(h' * units / 2^64), where h' is the hash with its low 12 bits
 *        cleared. So folding a filter ORs neighboring lines.
 *   (I2) The pattern depends only on the low 32 bits of the hash and on k.
 */
#include "kind/kind.h"
#include "kind/line_shapes.h"

#include "bloomgate/inline.h"

static uint32_t blocked_unit_bytes(uint32_t k)
{
    (void)k;
    return line_columns_bytes;
}

static bool blocked_is_columns(uint32_t k)
{
    return k <= line_columns_lanes;
}

static struct bgi_model blocked_model(uint64_t units, uint32_t k)
{
    bool columns = blocked_is_columns(k);
    return (struct bgi_model){ .units = (double)units,
                               .lanes = columns ? line_columns_lanes : line_words_lanes,
                               .active = k,
                               .draws = 1,
                               .lane_bits = columns ? 64 : 32,
                               .patterns = line_patterns };
}

static uint32_t blocked_lines(uint32_t k)
{
    (void)k;
    return 1;
}

/* The pattern of lanes for each k from 3 to 16, as a bit mask with lane 0 in the lowest bit. */
static const uint16_t blocked_patterns[] = {
    [3] = 0x000b,  [4] = 0x0017,  [5] = 0x002f,  [6] = 0x003f,  [7] = 0x007f,
    [8] = 0x00ff,  [9] = 0x0b77,  [10] = 0x77b1, [11] = 0x2e7f, [12] = 0x5cff,
    [13] = 0xfd77, [14] = 0xfff9, [15] = 0xefff, [16] = 0xffff,
};

static void blocked_setup(struct bgi_core *core)
{
    uint32_t lanes =
        blocked_is_columns(core->k) ? line_columns_lanes : line_words_lanes;
    for (uint32_t i = 0; i < BGI_WINDOW_WORDS; i++) {
        core->window[i] =
            (blocked_patterns[core->k] >> (i % lanes) & 1) ? UINT32_MAX : 0;
    }
    for (uint32_t r = 0; r < lanes; r++) {
        uint32_t used = 0;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            used |= (core->window[lane + r] & 1) << lane;
        }
        core->rotations[r] = (uint16_t)(lanes == 8 ? used << 8 | used : used);
    }
}

static void blocked_fold(struct bgi_core *to, const struct bgi_core *from)
{
    bgi_fold_units(to, from, line_columns_bytes / 8);
}

static void blocked_view(const struct bgi_core *core, struct bg_view *view)
{
    view->shape = core->k < line_columns_lanes    ? BG_VIEW_COLUMNS_MASKED
                  : core->k == line_columns_lanes ? BG_VIEW_COLUMNS
                  : core->k < line_words_lanes    ? BG_VIEW_WIDE_MASKED
                                                  : BG_VIEW_WIDE;
    view->window = core->window;
}

const struct bgi_kind bgi_kind_blocked = {
    .id = BG_KIND_BLOCKED,
    .traits = BGI_BLOOM_TRAITS,
    .k_min = 3,
    .k_max = 16,
    .units_max = (uint64_t)1 << 52,
    .unit_bytes = blocked_unit_bytes,
    .model = blocked_model,
    .lines = blocked_lines,
    .setup = blocked_setup,
    .fold = blocked_fold,
    .view = blocked_view,
};

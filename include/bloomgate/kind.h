/*
 * kind.h - the kinds of filter.
 *
 *   kind         idea                                  bits per key    lines  delete
 *                                                      1 %    0.1 %    read
 *   classic      k bits anywhere                        9.6    14.4     1..k    no
 *   partitioned  k slices, one bit in each              9.6    14.4     1..k    no
 *   blocked      all bits in one 64-byte line           9.9    15.6     1       no
 *   split        8 bits in one 32-byte block           10.5    16.9     1       no
 *   register     all bits in one 64-bit word           11.9    23.2     1       no
 *   counting     4-bit counters instead of bits          44      78     1       yes
 *   cuckoo       fingerprints in one of two buckets    12.6    16.8     2       yes
 *   quotient     a sorted table of hash prefixes       9.6..17 13..24   1       yes
 *   fuse         three fingerprints that XOR to the      9.0    18.0    3       no
 *                key's; made by a bg_builder
 *   ribbon       64 neighbouring bits that XOR to the     7.1    10.1    2       no
 *                key's; made by a bg_builder
 *   scalable     layers of blocked filters, for any n      17..41       layers   no
 *   window       the last T seconds or N items            20..30       1..g  by age
 *
 * `blocked` is the default: one cache line per key is what speed comes down to once a
 * filter outgrows the cache, and it costs 4 % more memory than the best that k scattered
 * bits can do at 1 %. `classic` is for when memory counts more than time, `partitioned`
 * is the base of filters that age, `split` has the very bits of Parquet's filters, and
 * `register` is for deduplication by many threads: of two that add one key at the same
 * instant exactly one is told that it is new. `quotient` deletes, counts, lists the
 * hashes, merges and changes its size; its number of slots is a power of two, so how many
 * bits a key takes depends on how well the number of keys fits: ask the planner.
 */
#ifndef BLOOMGATE_KIND_H
#define BLOOMGATE_KIND_H

#include "bloomgate/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * X(NAME, number, name): the one list of kinds. It feeds this enum, the tables of
 * operations, the names, the tests and the benches. Numbers are frozen, they are also
 * written in files; 0 is no kind: it asks for the best one to be picked.
 *
 * Bloom kinds are sets of bits that only ever fill up.
 */
#define BG_BLOOM_KINDS(X)                                                              \
    X(CLASSIC, 1, classic)                                                             \
    X(PARTITIONED, 2, partitioned)                                                     \
    X(BLOCKED, 3, blocked)                                                             \
    X(SPLIT, 4, split)                                                                 \
    X(REGISTER, 5, register)

#define BG_OTHER_KINDS(X)                                                              \
    X(COUNTING, 6, counting)                                                           \
    X(CUCKOO, 7, cuckoo)                                                               \
    X(QUOTIENT, 8, quotient)                                                           \
    X(FUSE, 9, fuse)                                                                   \
    X(RIBBON, 10, ribbon)                                                              \
    X(SCALABLE, 11, scalable)                                                          \
    X(WINDOW, 12, window)

#define BG_KINDS(X)                                                                    \
    BG_BLOOM_KINDS(X)                                                                  \
    BG_OTHER_KINDS(X)

typedef enum bg_kind {
    BG_KIND_AUTO = 0,
#define BG_KIND_ENUM(NAME, number, name) BG_KIND_##NAME = (number),
    BG_KINDS(BG_KIND_ENUM)
#undef BG_KIND_ENUM
} bg_kind;

/* What a kind can do beside adding and asking: see bg_kind_traits. */
enum {
    BG_TRAIT_REMOVE = 1u << 0,  /* bg_filter_remove */
    BG_TRAIT_COUNT = 1u << 1,   /* bg_filter_count says how often, not only whether */
    BG_TRAIT_MERGE = 1u << 2,   /* bg_filter_merge */
    BG_TRAIT_FOLD = 1u << 3,    /* bg_filter_fold */
    BG_TRAIT_OVERLAP = 1u << 4, /* bg_filter_overlap */
    BG_TRAIT_FILLS_UP =
        1u << 5, /* takes a limited number of keys: see bg_filter_insert */
    BG_TRAIT_STATIC = 1u << 6,    /* made of all keys at once by a bg_builder */
    BG_TRAIT_ENUMERATE = 1u << 7, /* bg_filter_for_each */
    BG_TRAIT_RESIZE = 1u << 8     /* bg_filter_resize */
};

/*
 * The traits of a kind, BG_TRAIT_REMOVE and so on; 0 for BG_KIND_AUTO and for an unknown
 * number. Thread safety: MT-Safe.
 */
BG_API uint32_t bg_kind_traits(bg_kind kind);

/*
 * The name of a kind: "blocked". Never NULL; "auto" for 0, "unknown" for an unknown
 * number. Thread safety: MT-Safe.
 */
BG_API const char *bg_kind_name(bg_kind kind);

/*
 * The kind of that name, BG_KIND_AUTO for "auto"; -1 when there is none, or for NULL.
 * Thread safety: MT-Safe.
 */
BG_API int bg_kind_parse(const char *name);

#ifdef __cplusplus
}
#endif

#endif

/*
 * kind.h - the kinds of filter.
 *
 *   kind         idea                                  bits per key    lines  remove
 *                                                      1%     0.1%     read
 *   classic      k bits anywhere                        9.6    14.4     1..k    no
 *   partitioned  k slices, one bit in each              9.6    14.4     1..k    no
 *   blocked      all bits in one 64-byte line           9.9    15.6     1       no
 *   split        8 bits in one 32-byte block           10.5    16.9     1       no
 *   register     all bits in one 64-bit word           11.9    23.2     1       no
 *   counting     4-bit counters instead of bits          44      78     1       yes
 *   cuckoo       fingerprints in one of two buckets    12.6    16.8     2       yes
 *   quotient     a sorted table of hash prefixes     9.6..17  13..24    1       yes
 *   fuse         three fingerprints whose XOR is         9.0    18.0    3       no
 *                the key's; built by a bg_builder
 *   ribbon       64 neighboring bits whose XOR is        7.1    10.1    2..3    no
 *                the key's; built by a bg_builder
 *   scalable     layers of blocked filters, any n     14..41            layers  no
 *   window       the last T seconds or N items        20..25            1..g    by age
 *
 * `blocked` is the default. Once a filter outgrows the cache, the number of cache lines
 * per key determines the speed. At a false-positive rate of 1%, using only one line costs
 * 4% more memory than the best filter with k scattered bits. Use `classic` if memory
 * matters more than time. `partitioned` is the basis of aged windows (window.h). `split`
 * filters are bit-for-bit identical to Parquet's filters. `register` is for deduplication
 * by many threads: if two threads add the same key at the same time, exactly one add
 * reports that the key is new. `quotient` filters can remove and count keys, list their
 * hashes, and be merged and resized. The number of slots is a power of two, so the bits
 * per key depend on the number of keys; use the planner (plan.h) to compute them.
 */
#ifndef BLOOMGATE_KIND_H
#define BLOOMGATE_KIND_H

#include "bloomgate/export.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * X(NAME, number, name): the list of kinds. The numbers are permanent, because files store
 * them. BG_KIND_AUTO lets the library choose a kind.
 *
 * In Bloom kinds, bits are set and never cleared.
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

/*
 * Traits of a kind, such as the operations that it supports in addition to adds and
 * queries. See bg_kind_traits.
 */
enum {
    BG_TRAIT_REMOVE = 1u << 0,    /* bg_filter_remove */
    BG_TRAIT_COUNT = 1u << 1,     /* bg_filter_count can return more than 1 */
    BG_TRAIT_MERGE = 1u << 2,     /* bg_filter_merge */
    BG_TRAIT_FOLD = 1u << 3,      /* bg_filter_fold */
    BG_TRAIT_OVERLAP = 1u << 4,   /* bg_filter_overlap */
    BG_TRAIT_FILLS_UP = 1u << 5,  /* limited capacity: adds can return BG_EFULL */
    BG_TRAIT_STATIC = 1u << 6,    /* built from all keys at once by a bg_builder */
    BG_TRAIT_ENUMERATE = 1u << 7, /* bg_filter_for_each */
    BG_TRAIT_RESIZE = 1u << 8     /* bg_filter_resize */
};

/*
 * Returns the traits of a kind (BG_TRAIT_REMOVE and so on), ORed together; 0 for
 * BG_KIND_AUTO and for an unknown number. Thread safety: MT-Safe.
 */
BG_API uint32_t bg_kind_traits(bg_kind kind);

/*
 * Returns the name of a kind, such as "blocked"; "auto" for BG_KIND_AUTO, and "unknown" for
 * an unknown number. Thread safety: MT-Safe.
 */
BG_API const char *bg_kind_name(bg_kind kind);

/*
 * Finds a kind by name and stores it in *kind; "auto" selects BG_KIND_AUTO. If there is no
 * such kind or the name is NULL, returns false and leaves *kind unchanged. Thread safety:
 * MT-Safe.
 */
BG_API bool bg_kind_parse(const char *name, bg_kind *kind);

#ifdef __cplusplus
}
#endif

#endif

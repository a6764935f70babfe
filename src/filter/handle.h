/*
 * handle.h - the members of a bg_filter, and functions that the files in this directory share.
 *
 * A filter is one block of memory, owned by the library or by the caller:
 *
 *     base                                      base + round_up(bytes of bits, 64)
 *     [ the bits, 64-byte aligned ............. ][ struct bg_filter ]
 *
 * The bits come first, so that in large filters they start at a 2 MiB page boundary. If the hasher
 * has a secret, the entire block (if the library allocated it) is excluded from core files, because
 * the bits in a core file would be useless without the secret. Each handle is wiped when its filter
 * is freed.
 */
#ifndef BGI_HANDLE_H
#define BGI_HANDLE_H

#include "base/memory.h"
#include "bloomgate/all.h"
#include "kind/kind.h"

struct bg_filter {
    struct bgi_core core; /* must be first: lookups read its first 64 bytes */
    const struct bgi_kind *kind;
    bg_hasher hasher;
    /* If memory.base is NULL, the filter is in the caller's memory. */
    struct bgi_memory memory;
    /* The allocator for copies. If `allocate` is NULL, copies use the default allocator. */
    bg_allocator allocator;
    size_t bytes; /* of the bits */
    uint64_t design_items;
    double design_rate;
    bg_cpu cpu;
    uint32_t flags;
    uint32_t shards;            /* 0 if not sharded */
    uint32_t canaries;          /* keys in the filter that are canaries */
    uint64_t canary_generation; /* their generation when the filter was loaded */
    bool degraded;              /* all bits of damaged words have been set */
    struct bgi_mapping mapping; /* the mapped file that contains the words, if any */
};

/* Returns whether the words are in a mapped file that has been written to since it was mapped. */
bool bgi_filter_is_changed(const bg_filter *filter);

/*
 * Makes a mapped filter permanently answer "maybe" for every key, because its words have changed.
 * Other threads may query the filter at the same time. Returns false if out of memory, or if the
 * filter already answers "maybe". Thread safety: MT-Safe.
 */
bool bgi_filter_doubt(bg_filter *filter);

/*
 * Call this after reading all words. Returns BG_EFORMAT if the words differ, or may have differed
 * at some point, from the content of the file when it was mapped. In that case, discard everything
 * that was created from the words, because later checks could not detect the error.
 */
BG_MUST_CHECK bg_err bgi_filter_check_mapping(const bg_filter *filter,
                                              bg_errinfo *info);

/* An internal spec flag that creates the handle without words. The words are attached later. */
enum { BGI_BARE = 1 << 30 };

enum { BGI_CANARIES_MAX = 65536 };

/* The independent parameters of a filter, from which all others are computed. */
struct bgi_geometry {
    const struct bgi_kind *kind;
    uint32_t k;
    uint64_t units;
    uint64_t items;    /* the design capacity, or 0 if not specified */
    uint64_t reserved; /* while solving: additional keys in `items`, for canaries */
    double rate;       /* predicted rate for `items` keys, or 0 if `items` is 0 */
    double target;     /* requested rate, or `rate` if a size was requested */
    char reason[160];  /* explains why this kind and k were chosen */
};

/* Computes the size of the bits in bytes. Returns false if memory of that size cannot be
 * addressed. */
bool bgi_geometry_bytes(const struct bgi_geometry *geometry, uint64_t *bytes);

/* Finds the geometry for a spec (solve.c). `growth` multiplies the items. Allocates nothing. */
bg_err bgi_solve(const bg_spec *spec, double growth, struct bgi_geometry *geometry,
                 bg_errinfo *info);

/* Checks the size, kind, flags and allocator of a spec. */
bg_err bgi_spec_check(const bg_spec *spec, bg_errinfo *info);

/* Creates an empty filter with a given geometry. Only the spec's flags, allocator and canaries are
 * used. */
bg_err bgi_filter_make(const struct bgi_geometry *geometry, const bg_spec *spec,
                       const bg_hasher *hasher, bg_filter **filter, bg_errinfo *info);

/* Allocates the memory for a handle and for any data in the same block. If the hasher has a
 * secret, the memory is excluded from core files. */
bg_err bgi_filter_take(struct bgi_memory *memory, size_t bytes, const bg_hasher *hasher,
                       const bg_allocator *allocator, bool small_pages,
                       bg_errinfo *info);

/* Fills in a zeroed handle, except for the words and the geometry. Constructors of composed kinds
 * call this function first. */
void bgi_filter_begin(bg_filter *filter, const struct bgi_kind *kind,
                      const struct bgi_ops *ops, const bg_spec *spec,
                      const bg_hasher *hasher);

/* Creates an empty filter like `like`, but with a different number of units. */
bg_err bgi_filter_similar(const bg_filter *like, uint64_t units, bg_filter **filter,
                          bg_errinfo *info);

/* Like bgi_filter_similar, but also with a different k. */
bg_err bgi_filter_similar_k(const bg_filter *like, uint64_t units, uint32_t k,
                            bg_filter **filter, bg_errinfo *info);

/* Creates an empty filter like `like`, but with these flags. `like` may be of any kind. If `like`
 * is static, the new filter is built for the empty set. */
bg_err bgi_filter_empty(const bg_filter *like, uint32_t flags, bg_filter **filter,
                        bg_errinfo *info);

/* Measures a filter (estimate.c). */
void bgi_filter_measure(const bg_filter *filter, struct bgi_measure *measure);
/* Like bgi_filter_measure, but reads only about `most` bytes of each part, or all bytes if `most`
 * is 0. bgi_filter_info fills in `info` from such a measurement, and sets *missed to the standard
 * deviation of info->ones. */
void bgi_filter_measure_part(const bg_filter *filter, uint64_t most,
                             struct bgi_measure *measure);
void bgi_filter_info(const bg_filter *filter, uint64_t most, bg_filter_info *info,
                     double *missed);

/* Returns the rate that the health rule compares with the target (judge.c): the filter's rate, or
 * a lower rate if the filter's rate may be too high only by chance. */
double bgi_judge_rate(const bg_filter_info *info);

/* Returns the standard deviation from which an interval was computed. The interval's lower bound is
 * at least 0, and its upper bound may be infinite. */
double bgi_estimate_error(const bg_estimate *estimate);

/* Measures the result of merging two matching filters, without merging them. */
void bgi_filter_measure_or(const bg_filter *a, const bg_filter *b,
                           struct bgi_measure *measure);

/*
 * For files (content.c): bgi_recipe_of returns the recipe of a filter, and bgi_recipe_make creates
 * an empty filter from an untrusted recipe. Only the spec's flags, allocator and window are used.
 * Sizes are checked against `room`, the size of the available words in bytes, before memory is
 * allocated.
 */
void bgi_recipe_of(const bg_filter *filter, struct bgi_recipe *recipe);
bg_err bgi_recipe_make(const struct bgi_recipe *recipe, const bg_spec *spec,
                       const bg_hasher *hasher, uint64_t room, bg_filter **filter,
                       bg_errinfo *info);

/* Computes the geometry of a filter that is not composed. Returns BG_EFORMAT if no such geometry
 * exists. */
bg_err bgi_recipe_plain(const struct bgi_kind *kind, uint64_t units, uint32_t k,
                        struct bgi_geometry *geometry);

/* Returns a description of how filters with this spec are composed of other filters, or NULL if
 * such filters are not composed. */
const struct bgi_composed *bgi_spec_composed(const bg_spec *spec);

/* Returns BG_OK, or an error that reports which property (kind, size, k or hash) differs between
 * two filters. */
bg_err bgi_filter_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info);

/* Returns BG_OK, or the error with which bg_filter_merge would fail before changing anything. */
bg_err bgi_filter_merges(const bg_filter *filter, const bg_filter *other,
                         bg_errinfo *info);

/* Returns BG_OK, or BG_ENOTSUP if the filter's kind does not have the trait. `what` completes the
 * message, such as "merged" in "cannot be merged". */
bg_err bgi_filter_can(const bg_filter *filter, uint32_t trait, const char *what,
                      bg_errinfo *info);

/* Returns the number of times that the filter can be halved. */
BGI_INLINE uint32_t bgi_filter_foldable(const bg_filter *filter)
{
    return filter->kind->traits & BG_TRAIT_FOLD
               ? (uint32_t)__builtin_ctzll(filter->core.units)
               : 0;
}

/* Returns the number of canaries, which a merge in another thread may change. */
BGI_INLINE uint32_t bgi_filter_canaries(const bg_filter *filter)
{
    return __atomic_load_n(&filter->canaries, __ATOMIC_RELAXED);
}

/* Returns the bits as 64-bit words. */
BGI_INLINE uint64_t *bgi_filter_words(const bg_filter *filter)
{
    return (uint64_t *)(void *)filter->core.words;
}

#endif

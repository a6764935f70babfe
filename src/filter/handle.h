/*
 * handle.h - what a bg_filter is inside, and the few functions on it that the files of
 * this room share.
 *
 * A filter is one piece of memory, whether the library's or the caller's:
 *
 *     base                                      base + round_up(bytes of bits, 64)
 *     [ the bits, 64-byte aligned ............. ][ struct bg_filter ]
 *
 * The bits come first so that in large memory they begin at a 2 MiB page. When the hasher
 * has a secret, the library's own memory is left out of core files: bits without the secret
 * are of no use there anyway. It is wiped, handle by handle, when filters are freed.
 */
#ifndef BGI_HANDLE_H
#define BGI_HANDLE_H

#include "base/memory.h"
#include "bloomgate/all.h"
#include "kind/kind.h"

struct bg_filter {
    struct bgi_core core; /* must be first: its first 64 bytes are what look-ups read */
    const struct bgi_kind *kind;
    bg_hasher hasher;
    struct bgi_memory memory; /* empty base: the caller's memory */
    bg_allocator allocator;   /* of copies; allocate NULL: the system's */
    size_t bytes;             /* of the bits */
    uint64_t design_items;
    double design_rate;
    bg_cpu cpu;
    uint32_t flags;
    uint32_t shards;            /* 0: in one piece */
    bool degraded;              /* damaged words were replaced by ones */
    struct bgi_mapping mapping; /* of a file with the words; base NULL: none */
};

/* Returns whether the words are in a mapped file that was written to since it was mapped. */
bool bgi_filter_is_changed(const bg_filter *filter);

/*
 * Makes a mapped filter permanently answer "maybe" to every query, because its words have changed. Other threads
 * may query it at the same time. Returns false if memory is short, or if it was done before. Thread safety:
 * MT-Safe.
 */
bool bgi_filter_doubt(bg_filter *filter);

/*
 * Call it after reading all words. Returns BG_EFORMAT if the words differ, or may have differed,
 * from the file that was mapped. Discard whatever was created from them: it has no mapping that
 * would reveal the change.
 */
BG_MUST_CHECK bg_err bgi_filter_check_mapping(const bg_filter *filter,
                                              bg_errinfo *info);

/* A flag of specs within the library: make the handle without words, which are set later. */
enum { BGI_BARE = 1 << 30 };

/* The independent parameters of a filter, from which all others follow. */
struct bgi_geometry {
    const struct bgi_kind *kind;
    uint32_t k;
    uint64_t units;
    uint64_t items;   /* what it is designed for, or 0 */
    double rate;      /* predicted for them, or 0 */
    char reason[160]; /* why this kind and k */
};

/* Bytes of the bits; false when they cannot be addressed. */
bool bgi_geometry_bytes(const struct bgi_geometry *geometry, uint64_t *bytes);

/*
 * Finds the geometry that a spec asks for (solve.c). `growth` multiplies the items.
 * Allocates nothing.
 */
bg_err bgi_solve(const bg_spec *spec, double growth, struct bgi_geometry *geometry,
                 bg_errinfo *info);

/* BG_OK, or what is wrong with the words of a spec: its size, kind, flags, allocator. */
bg_err bgi_spec_check(const bg_spec *spec, bg_errinfo *info);

/* An empty filter of that geometry; of the spec only flags and allocator are used. */
bg_err bgi_filter_make(const struct bgi_geometry *geometry, const bg_spec *spec,
                       const bg_hasher *hasher, bg_filter **filter, bg_errinfo *info);

/* Takes the memory of a handle, and of whatever it shares that with: hidden where the hasher
 * has a secret. */
bg_err bgi_filter_take(struct bgi_memory *memory, size_t bytes, const bg_hasher *hasher,
                       const bg_allocator *allocator, bool small_pages,
                       bg_errinfo *info);

/* Fills in a handle that is all zero, but for words and geometry: what composed kinds
 * begin theirs with. */
void bgi_filter_begin(bg_filter *filter, const struct bgi_kind *kind,
                      const struct bgi_ops *ops, const bg_spec *spec,
                      const bg_hasher *hasher);

/* An empty filter like `like` in everything but the number of units. */
bg_err bgi_filter_similar(const bg_filter *like, uint64_t units, bg_filter **filter,
                          bg_errinfo *info);

/* ... and k. */
bg_err bgi_filter_similar_k(const bg_filter *like, uint64_t units, uint32_t k,
                            bg_filter **filter, bg_errinfo *info);

/* An empty filter like `like`, of any kind, with these flags. A static one is that of the empty
 * set. */
bg_err bgi_filter_empty(const bg_filter *like, uint32_t flags, bg_filter **filter,
                        bg_errinfo *info);

/* What is in a filter, and what would be in a merge of two that match (estimate.c). */
void bgi_filter_measure(const bg_filter *filter, struct bgi_measure *measure);
/* ... from about `most` bytes of each part (0: all); and bg_filter_get_info so, with the standard
 * deviation of info->ones. */
void bgi_filter_measure_part(const bg_filter *filter, uint64_t most,
                             struct bgi_measure *measure);
void bgi_filter_info(const bg_filter *filter, uint64_t most, bg_filter_info *info,
                     double *missed);

/* The standard deviation that an interval was made with; it ends at 0, and may have no end above. */
double bgi_estimate_error(const bg_estimate *estimate);
void bgi_filter_measure_or(const bg_filter *a, const bg_filter *b,
                           struct bgi_measure *measure);

/*
 * For files (content.c): the recipe of a filter, and an empty filter by a recipe that may
 * be anything; of the spec only flags, allocator and window are used. Whatever it takes is
 * compared with `room`, the bytes of words that there are, before it is taken.
 */
void bgi_recipe_of(const bg_filter *filter, struct bgi_recipe *recipe);
bg_err bgi_recipe_make(const struct bgi_recipe *recipe, const bg_spec *spec,
                       const bg_hasher *hasher, uint64_t room, bg_filter **filter,
                       bg_errinfo *info);

/* The geometry of a plain kind, if there is such a one; else BG_EFORMAT. */
bg_err bgi_recipe_plain(const struct bgi_kind *kind, uint64_t units, uint32_t k,
                        struct bgi_geometry *geometry);

/* How filters of that spec are composed of others; NULL: they are not. */
const struct bgi_composed *bgi_spec_composed(const bg_spec *spec);

/* BG_OK, or which of kind, size, k and hash two filters differ in. */
bg_err bgi_filter_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info);

/* BG_OK, or why bg_filter_merge would refuse before it has begun. */
bg_err bgi_filter_merges(const bg_filter *filter, const bg_filter *other,
                         bg_errinfo *info);

/* BG_OK, or BG_ENOTSUP when the filter's kind lacks a trait: it cannot be `what`. */
bg_err bgi_filter_can(const bg_filter *filter, uint32_t trait, const char *what,
                      bg_errinfo *info);

/* How often it can be halved. */
BGI_INLINE uint32_t bgi_filter_foldable(const bg_filter *filter)
{
    return filter->kind->traits & BG_TRAIT_FOLD
               ? (uint32_t)__builtin_ctzll(filter->core.units)
               : 0;
}

/* The bits as 64-bit words. */
BGI_INLINE uint64_t *bgi_filter_words(const bg_filter *filter)
{
    return (uint64_t *)(void *)filter->core.words;
}

#endif

/*
 * kind.h - the interface between a kind of filter and the rest of the library.
 *
 * A kind is a layout of bits and a way to find a hash's bits in that layout. A kind handles only
 * hashes, never keys, and is independent of handles, memory and time. It consists of
 *
 *   - a description (struct bgi_kind): unit size, allowed k, rate model, folding;
 *   - cores (X_core.h): the few operations on the words, as source code that isa_scalar.c,
 *     isa_avx2.c, isa_avx512.c and isa_neon.c compile once per instruction set;
 *   - a table of operations (struct bgi_ops) for each instruction set, mode and k, selected
 *     once, when a filter is created.
 *
 * To add a kind, add a line to BG_KINDS (bloomgate/kind.h), a file with its essay and its
 * description, a core, and a case in the function at the end of ops_pick.h. Tests, fuzzers and
 * benchmarks iterate over BG_KINDS.
 */
#ifndef BGI_KIND_H
#define BGI_KIND_H

#include "base/compiler.h"
#include "bloomgate/cpu.h"
#include "bloomgate/err.h"
#include "bloomgate/kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bgi_core;
struct bgi_static;

/* The maximum number of filters that are queried together. */
enum { BGI_LAYERS_MAX = 66 };

/*
 * A group: up to 64 hashes of a batch and the locations of their units, as byte offsets into
 * the words, computed by `locate`. Kinds that store a key in several locations store numbers in
 * `at` and `also` from which all locations can be computed, or leave both arrays unused. Bloom
 * kinds also record the core and prefetch through it, because the next group may belong to a
 * different filter than the current one (live/layers.h).
 */
struct bgi_group {
    const uint64_t *hashes;
    unsigned n;
    const struct bgi_core *core; /* set by Bloom kinds */
    _Alignas(64) uint64_t at[64];
    uint64_t also[64];
};

/*
 * Operations on hashes. Batches are processed in groups (filter/batch.c). `has_group` and
 * `add_group` return one bit per hash: "maybe" for has, "new" for add. At the same time they
 * prefetch the memory for the `next` group, which is already located. `next` is NULL if there is
 * no next group, or if the filter fits in the cache. If the group is empty (n = 0), the functions
 * only prefetch. An add never fails here: for kinds that can refuse keys, it is a forced add
 * (bg_filter_add_forced), and bg_filter_add uses `insert` instead.
 *
 * A kind may provide `has_u64` and `add_u64`, which hash an 8-byte key with the profile `fast`
 * and then look it up or add it in a single call; `has_int` and `add_int` do the same with the
 * profile `fast-int`. If these functions are NULL, hashing and looking up a key take two calls.
 */
struct bgi_ops {
    bool (*has)(const struct bgi_core *core, uint64_t hash);
    bool (*add)(struct bgi_core *core, uint64_t hash);
    bool (*has_u64)(const struct bgi_core *core, uint64_t key);
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
    bool (*has_int)(const struct bgi_core *core, uint64_t key);
    bool (*add_int)(struct bgi_core *core, uint64_t key);
    void (*locate)(const struct bgi_core *core, struct bgi_group *group);
    uint64_t (*has_group)(const struct bgi_core *core, const struct bgi_group *group,
                          const struct bgi_group *next);
    uint64_t (*add_group)(struct bgi_core *core, const struct bgi_group *group,
                          const struct bgi_group *next);
    /*
     * NULL except for kinds that keep all bits of a key in one line. Returns one bit per hash,
     * which is set if at least one of `count` filters (up to BGI_LAYERS_MAX) may contain the hash.
     * All filters have the same k, and each filter has 1/2^step times as many units as the previous
     * filter. The locations in both groups refer to the first filter. The function prefetches the
     * lines of all filters a few keys ahead, continuing past the end of the group into the next
     * group. If `next` is NULL, nothing is prefetched; if `next` is empty, prefetching stops at the
     * end of the group.
     */
    uint64_t (*has_any)(const struct bgi_core *const *cores, unsigned count,
                        unsigned step, const struct bgi_group *group,
                        const struct bgi_group *next);
    /*
     * These functions are NULL except for kinds with the corresponding trait. Batches of these
     * operations call `prefetch` to prefetch the memory for a located group.
     *
     *   insert   Returns BG_OK, or BG_EFULL without changing anything (BG_TRAIT_FILLS_UP).
     *   remove   Returns BG_OK, or BG_ENOTFOUND without changing anything (BG_TRAIT_REMOVE).
     *   count    Returns at least the number of adds of the key minus the number of its removes
     *            (BG_TRAIT_COUNT).
     */
    void (*prefetch)(const struct bgi_core *core,
                     const struct bgi_group *group); /* or NULL */
    bg_err (*insert)(struct bgi_core *core, uint64_t hash, bool *is_new);
    bg_err (*remove)(struct bgi_core *core, uint64_t hash);
    uint64_t (*count)(const struct bgi_core *core, uint64_t hash);
};

/* Operations on whole arrays of words, which are the same for all kinds. */
struct bgi_word_ops {
    uint64_t (*count)(const uint64_t *a, size_t n);                       /* |a| */
    uint64_t (*count_or)(const uint64_t *a, const uint64_t *b, size_t n); /* |a or b| */
};

/* The number of words for the rotations of a lane pattern: twice the maximum of 16 lanes. */
enum { BGI_WINDOW_WORDS = 32 };

/*
 * The state that the operations work on. The first 64 bytes contain everything that a
 * lookup needs.
 */
struct bgi_core {
    bool (*has)(const struct bgi_core *core, uint64_t hash);    /* = ops->has */
    bool (*add)(struct bgi_core *core, uint64_t hash);          /* = ops->add */
    bool (*has_u64)(const struct bgi_core *core, uint64_t key); /* never NULL */
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
    unsigned char *words; /* the filter's bits, 64-byte aligned */
    uint64_t units;       /* number of units; hashes are mapped to this range */
    uint64_t fast8_mask;  /* derived from the seed, for `fast` and `fast-int` */
    uint32_t k;           /* bits per key */
    /* Whether batches of adds or lookups prefetch, which pays off if the filter is larger than the
     * cache. */
    uint8_t adds_prefetch;
    uint8_t lookups_prefetch;
    uint8_t may_refuse; /* adds can fail (the kind is static or fills up) */
    /* The lanes that a kind with masked lines uses for each rotation, as words and as bits; see
     * line_shapes.h. The words start at a cache-line boundary, so eight of them are read from one
     * line. */
    _Alignas(64) uint32_t window[BGI_WINDOW_WORDS];
    uint16_t rotations[BGI_WINDOW_WORDS / 2];
    const struct bgi_ops *ops;
    const struct bgi_word_ops *word_ops;
    void *state; /* the kind's state (bgi_kind.state_bytes), initially zero, or NULL */
};

/*
 * The family of rate models that covers every Bloom kind. Each of n keys selects one of `units`
 * units and, within that unit, `active` of `lanes` lanes of `lane_bits` bits each. In each active
 * lane the key draws `draws` positions, with replacement. `patterns` is the number of different bit
 * patterns in a unit; 0 means that there are so many that the number does not matter.
 */
struct bgi_model {
    double units;
    double lane_bits;
    double patterns;
    uint32_t lanes;
    uint32_t active;
    uint32_t draws;
    bool scattered; /* one unit of many bits (classic, partitioned) */
    bool clustered; /* if a position is taken, its neighbor is used (register) */
};

/* Measurements of a filter's content: see bg_filter_info. */
struct bgi_measure {
    uint64_t
        most; /* input: approximate number of bytes to read per part, or 0 to read all (sample.h) */
    double missed; /* standard deviation of `ones`, if only a sample was read */
    uint64_t ones; /* number of bits or slots in use */
    uint64_t of;   /* total number of bits or slots */
    double items;  /* number of distinct keys */
    double error;  /* standard deviation of `items` */
    double rate;   /* false-positive rate with this content */
    uint64_t saturated;
    bool overflowed;
};

struct bg_filter;
struct bg_view;
struct bgi_memory;
struct bg_hasher;
struct bg_spec;
struct bg_plan;

/*
 * Everything needed to re-create an empty filter with the same geometry, even if the planners
 * have changed since. It contains the independent parameters, and nothing that can be computed
 * from them. Fields that a kind does not use are 0.
 */
struct bgi_recipe {
    uint32_t kind;
    uint32_t flags; /* flags that determine the shape, such as BG_SPEC_SCATTERED */
    uint32_t width;
    uint32_t k;
    uint64_t units; /* number of units per shard or generation, or in the first layer */
    uint32_t shards;
    uint64_t items; /* number of keys that the filter was designed for */
    double rate; /* design rate (for a scalable filter, the upper bound on its rate) */
    uint64_t max_bytes;
    uint32_t window_mode;
    uint32_t window_kind; /* kind of each generation */
    uint32_t generations;
    uint64_t period_items;
    uint64_t length, count; /* options of a window, as in bg_window_options */
    uint64_t moved;         /* latest clock time reached (time-based windows only) */
    uint64_t elapsed; /* ticks of the current period that had elapsed at time `moved` */
};

/*
 * A kind that is composed of other filters (src/live/). Like the handle of every filter, its handle
 * starts with a struct bg_filter; the filters of which it is composed follow. Operations that would
 * access words call the functions of this struct instead. `core` points to the start of the handle,
 * so the functions of struct bgi_kind that accept a core (merge, measure) also work for a composed
 * filter. A composed filter cannot be created in the caller's memory.
 */
struct bgi_composed {
    /* Creates the filter. The values in the spec have already been checked, but no geometry has
     * been computed. */
    bg_err (*create)(const struct bg_spec *spec, struct bg_filter **filter,
                     bg_errinfo *info);
    /* Frees everything except the handle's own memory block. */
    void (*destroy)(struct bg_filter *filter);
    bg_err (*copy)(const struct bg_filter *filter, struct bg_filter **copy,
                   bg_errinfo *info);
    void (*clear)(struct bg_filter *filter);
    /* Creates an empty filter with the same parameters and the given flags; if the filter has
     * periods, the new filter is in the same period. */
    bg_err (*similar)(const struct bg_filter *filter, uint32_t flags,
                      struct bg_filter **empty, bg_errinfo *info);
    uint64_t (*bytes)(const struct bg_filter *filter);
    /* See bg_filter_capacity and bg_filter_layers. If these functions are NULL, the results are
     * the design capacity and 1. */
    uint64_t (*capacity)(const struct bg_filter *filter);
    uint32_t (*layers)(const struct bg_filter *filter);
    /* Compares the contents of two compatible filters. */
    bool (*equal)(const struct bg_filter *a, const struct bg_filter *b);
    /* Compares the parameters that bgi_filter_match does not compare itself. Returns BG_OK, or
     * BG_EINCOMPAT with a description of the difference. */
    bg_err (*match)(const struct bg_filter *a, const struct bg_filter *b,
                    bg_errinfo *info);
    /* Predicts geometry, rates and fill for `growth` times the spec's number of items. */
    bg_err (*plan)(const struct bg_spec *spec, double growth, struct bg_plan *plan,
                   bg_errinfo *info);
    /* Creates one filter of a plain kind that contains the same keys. NULL means that compaction is
     * not supported. */
    bg_err (*compact)(const struct bg_filter *filter, struct bg_filter **compacted,
                      bg_errinfo *info);
    /* For files (filter/content.c): fills in the recipe, except the number of items and the rate
     * that the filter was designed for. */
    void (*recipe)(const struct bg_filter *filter, struct bgi_recipe *recipe);
    /* Creates an empty filter from a recipe. Only the flags, allocator and window of the spec
     * are used. The total size of the filter's words is checked against a limit of `room` bytes
     * before the words are allocated. */
    bg_err (*remake)(const struct bgi_recipe *recipe, const struct bg_spec *spec,
                     const struct bg_hasher *hasher, uint64_t room,
                     struct bg_filter **filter, bg_errinfo *info);
    /* Returns the address of the pointer to part i, which is a filter, or NULL after the last part.
     * If this function is NULL, the filter has its own words. */
    struct bg_filter **(*part)(const struct bg_filter *filter, uint32_t i);
    /* Returns the filter's second memory block, which exists in addition to the handle's own block
     * and may be empty. NULL means that there is none. */
    struct bgi_memory *(*more)(struct bg_filter *filter);
    /* The numbers that a file stores in addition to the words: see struct bgi_kind. Here `restore`
     * is called before the words are loaded. `restore` creates the parts that the n numbers
     * describe, and returns BG_EFORMAT if no valid filter can have these numbers, or BG_ENOMEM if
     * out of memory. NULL means that there are no numbers. */
    uint64_t (*numbers)(const struct bg_filter *filter, uint64_t *to);
    bg_err (*restore)(struct bg_filter *filter, const uint64_t *numbers, uint64_t n,
                      uint64_t room);
};

/*
 * The description of a kind, or of one of its variants. `pick` finds the variant that a spec
 * requests. Each variant has its own description, so all other functions need only `units` and
 * `k`. Functions that may be NULL have a default, which is correct for sets of bits.
 */
struct bgi_kind {
    bg_kind id;
    uint32_t traits; /* BG_TRAIT_REMOVE and so on */
    uint32_t width;  /* the variant's width: see bg_spec.width */
    uint32_t flags;  /* the variant's flags: BG_SPEC_SCATTERED or 0 */
    uint32_t k_min;
    uint32_t k_max;
    uint64_t units_max;
    /* Returns the variant for a width and flags, or NULL if there is none. If this function is
     * NULL, there is only one variant. */
    const struct bgi_kind *(*pick)(uint32_t width, uint32_t flags);
    /* Returns the size of one unit in bytes for k bits per key, or 0 if this k is not
     * supported. */
    uint32_t (*unit_bytes)(uint32_t k);
    /* Returns the largest valid number of units up to `units`, or 0 if there is none. NULL means
     * that every number of units is valid. */
    uint64_t (*round_units)(uint64_t units, uint32_t k);
    /* Returns the rate model of a filter with `units` units and k bits per key. NULL means that
     * `rate` and `fill` are used instead. */
    struct bgi_model (*model)(uint64_t units, uint32_t k);
    /* Return the rate or the fill with n keys. The rate is 1 if the keys do not fit. */
    double (*rate)(uint64_t units, uint32_t k, double n);
    double (*fill)(uint64_t units, uint32_t k, double n);
    /* Returns the maximum number of keys that a plan allows. NULL for kinds without
     * BG_TRAIT_FILLS_UP. */
    double (*room)(uint64_t units, uint32_t k);
    /* Returns the number of cache lines that a lookup of a member reads. */
    uint32_t (*lines)(uint32_t k);
    /* Returns the operations. NULL selects the operations in ops_pick.h. */
    const struct bgi_ops *(*ops)(uint32_t k, bool exclusive, bg_cpu cpu);
    /* Returns the size in bytes of core->state. NULL means that there is no state. */
    size_t (*state_bytes)(uint64_t units, uint32_t k);
    /* Prepares a core whose words and state are all zero, after creation and after a clear. May
     * be NULL. */
    void (*setup)(struct bgi_core *core);
    /* Blocks writers while the words are read as a whole (if `on` is true), or lets writers
     * continue (if `on` is false). NULL means that each word is meaningful by itself. */
    void (*hold)(const struct bgi_core *core, bool on);
    /* Updates the state of `to` after its words were copied from `from`. May be NULL. */
    void (*copied)(struct bgi_core *to, const struct bgi_core *from);
    /* Adds the content of a filter with the same geometry. NULL means that the words are ORed, if
     * the traits include merging. */
    bg_err (*merge)(struct bgi_core *to, const struct bgi_core *from, bool exclusive);
    /* Returns whether a filter with a different geometry can also be merged. NULL means that no
     * such filter can be merged. */
    bool (*joins)(const struct bgi_core *to, const struct bgi_core *from);
    /* Measures the content. NULL means that bits are counted. */
    void (*measure)(const struct bgi_core *core, struct bgi_measure *measure);
    /* Returns `ones` as it would be after a merge (BG_TRAIT_OVERLAP). NULL means that
     * bits are counted. */
    uint64_t (*ones_or)(const struct bgi_core *a, const struct bgi_core *b);
    /* Updates a measurement of `a` to describe the content after a merge, for kinds in which
     * `ones` is not sufficient. NULL means that ones_or and the model are used. */
    void (*measure_or)(const struct bgi_core *a, const struct bgi_core *b,
                       struct bgi_measure *measure);
    /* Enumerates the content in ascending order until `visit` returns false
     * (BG_TRAIT_ENUMERATE). */
    void (*each)(const struct bgi_core *core,
                 bool (*visit)(void *context, uint64_t prefix, uint64_t count),
                 void *context);
    /* Computes a geometry with 2^doublings times the capacity that can hold the same content.
     * `merge` then copies the content. Returns false if there is no such geometry
     * (BG_TRAIT_RESIZE). */
    bool (*resized)(uint64_t *units, uint32_t *k, int doublings);
    /* Writes the content of `from`, which has twice as many units, to `to`, which is all zero
     * (BG_TRAIT_FOLD). */
    void (*fold)(struct bgi_core *to, const struct bgi_core *from);
    /* Returns whether the states of two filters with the same geometry are equivalent. NULL means
     * that the state is not part of the content. */
    bool (*same_state)(const struct bgi_core *a, const struct bgi_core *b);
    /* Returns how many numbers a file stores in addition to the words, because they cannot be
     * computed from the geometry and the words. Writes these numbers to `to` unless `to` is NULL.
     * If this function is NULL, there are no numbers. */
    uint64_t (*numbers)(const struct bgi_core *core, uint64_t *to);
    /* Restores the state from the numbers and the words, which are already loaded. Returns false
     * if the kind cannot have written such words; the filter must then not be used. NULL means
     * that all words are valid. */
    bool (*restore)(struct bgi_core *core, const uint64_t *numbers);
    /* Makes every later answer "maybe", because some of the words have been lost and are now 0.
     * NULL means that setting all bits has this effect. */
    void (*doubt)(struct bgi_core *core);
    /* Returns the description of how a filter of a static kind is built. NULL for kinds without
     * BG_TRAIT_STATIC. */
    const struct bgi_static *(*built)(uint32_t k);
    /* Fills in the shape of a view, and the members that only this shape uses (bloomgate/inline.h).
     * NULL means that lookups are not compiled inline. */
    void (*view)(const struct bgi_core *core, struct bg_view *view);
    /* For kinds that are composed of other filters; otherwise NULL. Of the functions above, these
     * kinds use only `pick`, `merge` and `measure`. */
    const struct bgi_composed *composed;
};

/*
 * Describes how a filter of a static kind is built. The filter is built in independent pieces, so
 * any thread can solve any piece, in scratch memory that the caller provides. Piece i contains the
 * hashes for which bgi_mulhi(hash, pieces) is i; in sorted order, these hashes are a contiguous
 * range.
 */
struct bgi_static {
    uint64_t (*pieces)(uint64_t units, uint32_t k);
    /* Returns the number of bytes of scratch memory that solving a piece of n hashes requires. The
     * memory must be aligned to 64 bytes. */
    size_t (*scratch_bytes)(uint64_t units, uint32_t k, size_t n);
    /* Solves a piece for n distinct hashes in ascending order. The words of the piece are zero.
     * Returns false if none of `attempts` seeds worked. */
    bool (*solve)(struct bgi_core *core, uint64_t piece, const uint64_t *hashes,
                  size_t n, void *scratch);
    /* Called by one thread after all pieces have been solved. After this call, the filter can be
     * queried. */
    void (*seal)(struct bgi_core *core, uint64_t keys);
    unsigned attempts; /* number of seeds to try per piece */
};

/* Describes how a sharded filter is composed (live/sharded.c). */
const struct bgi_composed *bgi_sharded(void);

/* Traits of all Bloom kinds. */
enum { BGI_BLOOM_TRAITS = BG_TRAIT_MERGE | BG_TRAIT_FOLD | BG_TRAIT_OVERLAP };

/* Returns the predicted rate of a filter with `units` units and n keys. */
double bgi_kind_rate(const struct bgi_kind *kind, uint64_t units, uint32_t k, double n);

/* Returns the variant of a kind that a spec's width and flags request, or NULL if there is
 * none. */
const struct bgi_kind *bgi_kind_variant(bg_kind id, uint32_t width, uint32_t flags);

/* There is one description per kind: bgi_kind_classic and so on. bgi_kind_of returns NULL for an
 * unknown kind. */
#define BGI_KIND_DECLARE(NAME, number, name)                                           \
    extern const struct bgi_kind bgi_kind_##name;
BG_KINDS(BGI_KIND_DECLARE)
#undef BGI_KIND_DECLARE
const struct bgi_kind *bgi_kind_of(bg_kind id);

/* Returns a kind's operations for k bits per key and an instruction set that this
 * machine supports. */
const struct bgi_ops *bgi_kind_ops(const struct bgi_kind *kind, uint32_t k,
                                   bool exclusive, bg_cpu cpu);
const struct bgi_word_ops *bgi_kind_word_ops(bg_cpu cpu);

/* Folds by ORing neighboring units of `unit_words` 64-bit words. Every kind that maps a hash to a
 * unit by the hash's high bits folds in this way. */
void bgi_fold_units(struct bgi_core *to, const struct bgi_core *from,
                    size_t unit_words);

/* Folds `words` words into half as many words by ORing neighboring bits. */
void bgi_fold_bits(uint64_t *to, const uint64_t *from, size_t words);

#endif

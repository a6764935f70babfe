/*
 * kind.h - what a kind of filter is to the rest of the library.
 *
 * A kind is a layout of bits and a way to find the bits of a hash in it. It sees hashes
 * only, never keys, and knows nothing of handles, memory or time. It consists of
 *
 *   - a description (struct bgi_kind): unit size, allowed k, its rate model, folding;
 *   - cores (X_core.h): the few operations on the words, as text that is compiled once
 *     per instruction set by isa_scalar.c, isa_avx2.c, isa_avx512.c and isa_neon.c;
 *   - a table of operations (struct bgi_ops) for each instruction set, mode and k,
 *     picked once, when a filter is created.
 *
 * Adding a kind: a line in BG_KINDS (bloomgate/kind.h), a file with its essay and its
 * description, a core, and its case in the function at the end of ops_pick.h. Tests, fuzzers and
 * benches follow the list.
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

/* As many filters are asked together at most. */
enum { BGI_LAYERS_MAX = 66 };

/* Up to 64 hashes of a batch, and where their units are: byte offsets into the words,
 * found by `locate`. A kind that keeps a key in several places has there, and in `also`,
 * whatever numbers lead to all of them, or leaves them alone. Bloom kinds note whose
 * words these are, and ask for them there: the filter that is asked for the next word
 * need not be the one that answers the present one (live/layers.h). */
struct bgi_group {
    const uint64_t *hashes;
    unsigned n;
    const struct bgi_core *core; /* of Bloom kinds */
    _Alignas(64) uint64_t at[64];
    uint64_t also[64];
};

/*
 * Operations on hashes. A batch works in words (filter/batch.c). `has_group` and `add_group`
 * answer one with a bit per hash, "maybe" for has and "new" for add, and meanwhile ask
 * for the memory of the `next` one, which is located already; NULL when there is none, or
 * when the filter stays in the cache. An empty word (n = 0) only asks.
 *
 * A kind may have `has_u64` and `add_u64`: the same for 8-byte keys under the profile
 * `fast`, hash included, so that a look-up is one call. NULL: it is made of two.
 */
struct bgi_ops {
    bool (*has)(const struct bgi_core *core, uint64_t hash);
    bool (*add)(struct bgi_core *core, uint64_t hash);
    bool (*has_u64)(const struct bgi_core *core, uint64_t key);
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
    void (*locate)(const struct bgi_core *core, struct bgi_group *group);
    uint64_t (*has_group)(const struct bgi_core *core, const struct bgi_group *group,
                          const struct bgi_group *next);
    uint64_t (*add_group)(struct bgi_core *core, const struct bgi_group *group,
                          const struct bgi_group *next);
    /*
     * Of kinds that keep a key in one line, else NULL: which hashes one of `count`
     * filters of the same k may contain, up to BGI_LAYERS_MAX, each with 2^step times
     * fewer units than the one before. Both words are located in the first of them. Asks
     * for the lines of all filters some keys ahead, across the end of the word; next
     * NULL: for none, next empty: up to the end of the word.
     */
    uint64_t (*has_any)(const struct bgi_core *const *cores, unsigned count,
                        unsigned step, const struct bgi_group *group,
                        const struct bgi_group *next);
    /*
     * Of kinds with the trait in question, else NULL. Batches of these ask for the
     * memory of a located word by `ask`.
     * insert: BG_OK, or BG_EFULL with nothing changed (BG_TRAIT_FILLS_UP).
     * remove: BG_OK, or BG_ENOTFOUND with nothing changed (BG_TRAIT_REMOVE).
     * count: how often, at least (BG_TRAIT_COUNT).
     */
    void (*prefetch)(const struct bgi_core *core,
                     const struct bgi_group *group); /* or NULL */
    bg_err (*insert)(struct bgi_core *core, uint64_t hash, bool *is_new);
    bg_err (*remove)(struct bgi_core *core, uint64_t hash);
    uint64_t (*count)(const struct bgi_core *core, uint64_t hash);
};

/* Operations on whole arrays of words, the same for every kind. */
struct bgi_word_ops {
    uint64_t (*count)(const uint64_t *a, size_t n);                       /* |a| */
    uint64_t (*count_or)(const uint64_t *a, const uint64_t *b, size_t n); /* |a or b| */
};

/* Words that hold the rotations of a lane pattern: twice 16 lanes. */
enum { BGI_WINDOW_WORDS = 32 };

/*
 * The state that the operations work on. What a look-up needs stands in the first
 * 64 bytes.
 */
struct bgi_core {
    bool (*has)(const struct bgi_core *core, uint64_t hash);    /* = ops->has */
    bool (*add)(struct bgi_core *core, uint64_t hash);          /* = ops->add */
    bool (*has_u64)(const struct bgi_core *core, uint64_t key); /* never NULL */
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
    unsigned char *words;      /* the bits, 64-byte aligned */
    uint64_t units;            /* how many units; hashes are mapped to this range */
    uint64_t fast8_mask;       /* of the seed, under `fast`: see hash/fast.h */
    uint32_t k;                /* bits per key */
    uint16_t adds_prefetch;    /* 1: beyond the cache, so that batches of adds ... */
    uint16_t lookups_prefetch; /* ... and those of look-ups ask for memory */
    /* Lanes in use of a masked line kind, for each rotation, as words and as bits: see
     * line_shapes.h. The words begin at a cache line, so that eight of them are read
     * from one. */
    _Alignas(64) uint32_t window[BGI_WINDOW_WORDS];
    uint16_t rotations[BGI_WINDOW_WORDS / 2];
    const struct bgi_ops *ops;
    const struct bgi_word_ops *word_ops;
    void *state; /* bgi_kind.state_bytes of the kind's own, zero at first; or NULL */
};

/*
 * The family that every Bloom kind's rate follows. n keys; each picks one of `units`
 * units; in it, `active` of `lanes` lanes of `lane_bits` bits each; in each active lane
 * it draws `draws` positions, with replacement. `patterns` is how many different sets of
 * bits there are in a unit, 0 for no limit worth counting.
 */
struct bgi_model {
    double units;
    double lane_bits;
    double patterns;
    uint32_t lanes;
    uint32_t active;
    uint32_t draws;
    bool scattered; /* one unit of many bits: classic, partitioned */
    bool clustered; /* taken positions move to their neighbour: register */
};

/* What a filter can say of its own content: see bg_filter_info. */
struct bgi_measure {
    uint64_t most; /* told: bytes to be read of each part, about; 0: all (sample.h) */
    double missed; /* standard deviation of `ones`, if not all were read */
    uint64_t ones; /* in use ... */
    uint64_t of;   /* ... of so many */
    double items;  /* different keys */
    double error;  /* standard deviation of that */
    double rate;   /* at this content */
    uint64_t saturated;
    bool overflowed;
};

struct bg_filter;
struct bgi_memory;
struct bg_hasher;
struct bg_spec;
struct bg_plan;

/*
 * What makes an empty filter of the same geometry again, whatever planners have learnt in
 * the meantime: the independent parameters and nothing that follows from them. Fields that
 * a kind has no use for are 0.
 */
struct bgi_recipe {
    uint32_t kind;
    uint32_t flags; /* those that belong to the kind's shape: BG_SPEC_SCATTERED ... */
    uint32_t width;
    uint32_t k;
    uint64_t units; /* of the first layer, of one generation, of one shard */
    uint32_t shards;
    uint64_t items; /* what it was designed for, and ... */
    double rate;    /* ... with which rate; of a scalable filter, the bound */
    uint64_t max_bytes;
    uint32_t window_mode;
    uint32_t window_kind; /* of a generation */
    uint32_t generations;
    uint64_t period_items;
    uint64_t length, count; /* of a window: see bg_window_options */
    uint64_t moved;   /* with a length: the time to which it was moved, by any clock */
    uint64_t elapsed; /* ticks of the current period that had elapsed at that time */
};

/*
 * A kind that is composed of other filters (src/live/): its handle is a struct whose
 * first member is a struct bg_filter, with the calls that every filter begins with, and
 * behind it the filters that it consists of. What would touch words goes through these;
 * `core` is the beginning of the handle, so the functions of struct bgi_kind that take
 * one (merge, measure) serve it too. It cannot live in the caller's memory.
 */
struct bgi_composed {
    /* Instead of solving for a geometry; the spec's words are checked already. */
    bg_err (*create)(const struct bg_spec *spec, struct bg_filter **filter,
                     bg_errinfo *info);
    /* Gives back all but the handle's own piece of memory. */
    void (*destroy)(struct bg_filter *filter);
    bg_err (*copy)(const struct bg_filter *filter, struct bg_filter **copy,
                   bg_errinfo *info);
    void (*clear)(struct bg_filter *filter);
    /* An empty one like it, with these flags; in the same period, if it has any. */
    bg_err (*similar)(const struct bg_filter *filter, uint32_t flags,
                      struct bg_filter **empty, bg_errinfo *info);
    uint64_t (*bytes)(const struct bg_filter *filter);
    /* See bg_filter_capacity and bg_filter_layers. Or NULL: what it was designed for; 1. */
    uint64_t (*capacity)(const struct bg_filter *filter);
    uint32_t (*layers)(const struct bg_filter *filter);
    /* Of two that match in kind, size of the first part, k and hash. */
    bool (*equal)(const struct bg_filter *a, const struct bg_filter *b);
    /* Returns BG_OK, or BG_EINCOMPAT with what differs besides. */
    bg_err (*match)(const struct bg_filter *a, const struct bg_filter *b,
                    bg_errinfo *info);
    /* What to expect of items x growth: geometry, rates and fill. */
    bg_err (*plan)(const struct bg_spec *spec, double growth, struct bg_plan *plan,
                   bg_errinfo *info);
    /* One filter of a plain kind with the same keys; NULL: there is none. */
    bg_err (*compact)(const struct bg_filter *filter, struct bg_filter **compacted,
                      bg_errinfo *info);
    /* For files (filter/content.c). The recipe, but for items and rate of the design ... */
    void (*recipe)(const struct bg_filter *filter, struct bgi_recipe *recipe);
    /* ... and an empty filter by it; of the spec only flags, allocator and window count.
     * Whatever it takes is checked against `room` bytes of words before it is taken. */
    bg_err (*remake)(const struct bgi_recipe *recipe, const struct bg_spec *spec,
                     const struct bg_hasher *hasher, uint64_t room,
                     struct bg_filter **filter, bg_errinfo *info);
    /* Where part i stands, a filter; NULL behind the last. Or NULL: its words are its own. */
    struct bg_filter **(*part)(const struct bg_filter *filter, uint32_t i);
    /* The piece of memory besides the handle's own, which may be empty. Or NULL: none. */
    struct bgi_memory *(*more)(struct bg_filter *filter);
    /* What a file keeps besides: see struct bgi_kind; here `restore` comes first, creates the
     * parts that the n numbers describe, and returns BG_EFORMAT if no such filter exists, or
     * BG_ENOMEM. Or NULL: none. */
    uint64_t (*numbers)(const struct bg_filter *filter, uint64_t *to);
    bg_err (*restore)(struct bg_filter *filter, const uint64_t *numbers, uint64_t n,
                      uint64_t room);
};

/*
 * The description of a kind, or of one variant of it: `pick` finds the variant that a spec
 * asks for, so that each has a description of its own and all other functions need only
 * `units` and `k`. Functions marked "or NULL" have a default, which is right for sets of
 * bits.
 */
struct bgi_kind {
    bg_kind id;
    uint32_t traits; /* BG_TRAIT_REMOVE and so on */
    uint32_t width;  /* of the variant: see bg_spec.width */
    uint32_t flags;  /* of the variant: BG_SPEC_SCATTERED or 0 */
    uint32_t k_min;
    uint32_t k_max;
    uint64_t units_max;
    /* The variant for a width and flags; NULL when there is none. Or NULL: only one. */
    const struct bgi_kind *(*pick)(uint32_t width, uint32_t flags);
    /* Bytes of one unit, for k bits per key; 0 when there is no such k. */
    uint32_t (*unit_bytes)(uint32_t k);
    /* The largest size of up to `units` units that there is; 0 when there is none. Or
     * NULL: every number of units is a size. */
    uint64_t (*round_units)(uint64_t units, uint32_t k);
    /* The rate model of `units` units with k bits per key ... */
    struct bgi_model (*model)(uint64_t units, uint32_t k);
    /* ... or NULL, and the rate itself with n keys, 1 for more than fit; and the fill. */
    double (*rate)(uint64_t units, uint32_t k, double n);
    double (*fill)(uint64_t units, uint32_t k, double n);
    /* The most keys that are planned for (BG_TRAIT_FILLS_UP), else NULL. */
    double (*room)(uint64_t units, uint32_t k);
    /* Cache lines that a look-up of a member reads. */
    uint32_t (*lines)(uint32_t k);
    /* The operations; or NULL: those of ops_pick.h. */
    const struct bgi_ops *(*ops)(uint32_t k, bool exclusive, bg_cpu cpu);
    /* Bytes of core->state; or NULL: none. */
    size_t (*state_bytes)(uint64_t units, uint32_t k);
    /* Prepares a core whose words and state are all zero: after creation and after a
     * clear. Or NULL. */
    void (*setup)(struct bgi_core *core);
    /* Keeps writers out while the words are read as a whole, or lets them in again. Or
     * NULL: every word stands for itself. */
    void (*hold)(const struct bgi_core *core, bool on);
    /* Called after the words of `from` were copied to `to`, for the state. Or NULL. */
    void (*copied)(struct bgi_core *to, const struct bgi_core *from);
    /* Adds the content of a filter of the same geometry. Or NULL: ORs the words, if the
     * traits say that it can. */
    bg_err (*merge)(struct bgi_core *to, const struct bgi_core *from, bool exclusive);
    /* Whether a filter of another geometry can be merged as well. Or NULL: none. */
    bool (*joins)(const struct bgi_core *to, const struct bgi_core *from);
    /* What is in it. Or NULL: by counting bits. */
    void (*measure)(const struct bgi_core *core, struct bgi_measure *measure);
    /* What `ones` would be after a merge (BG_TRAIT_OVERLAP). Or NULL: by counting bits. */
    uint64_t (*ones_or)(const struct bgi_core *a, const struct bgi_core *b);
    /* What would be in it after a merge, where ones do not tell it: changes what measure
     * said of `a`. Or NULL: by ones_or and the model. */
    void (*measure_or)(const struct bgi_core *a, const struct bgi_core *b,
                       struct bgi_measure *measure);
    /* Tells what is in it, in ascending order, until `visit` says false
     * (BG_TRAIT_ENUMERATE). */
    void (*each)(const struct bgi_core *core,
                 bool (*visit)(void *context, uint64_t prefix, uint64_t count),
                 void *context);
    /* The geometry with 2^doublings times the room for the same content, which `merge`
     * then takes over; false when there is none (BG_TRAIT_RESIZE). */
    bool (*resized)(uint64_t *units, uint32_t *k, int doublings);
    /* Writes the content of `from`, with twice the units, into `to`, all zero
     * (BG_TRAIT_FOLD). */
    void (*fold)(struct bgi_core *to, const struct bgi_core *from);
    /* Whether the states of two filters of one geometry say the same. Or NULL: they say
     * nothing of the content. */
    bool (*same_state)(const struct bgi_core *a, const struct bgi_core *b);
    /* What a file keeps besides the words: numbers that do not follow from geometry and
     * words. How many; written to `to` unless that is NULL. Or NULL: none. */
    uint64_t (*numbers)(const struct bgi_core *core, uint64_t *to);
    /* Puts the state in order once the words are in: from numbers, and from what the words
     * say. False when these are not words that the kind can have written: then nobody may
     * use the filter. Or NULL: any words will do. */
    bool (*restore)(struct bgi_core *core, const uint64_t *numbers);
    /* From now on every answer is "maybe": some of the words were lost, and are 0 now. Or
     * NULL: words that are all ones say it. */
    void (*doubt)(struct bgi_core *core);
    /* How it is built, of a static kind (BG_TRAIT_STATIC), else NULL. */
    const struct bgi_static *(*built)(uint32_t k);
    /* Of kinds that are made of other filters; then only the functions above that say so
     * are used. Or NULL. */
    const struct bgi_composed *composed;
};

/*
 * How a filter of a static kind is built: in pieces, which do not depend on each other, so
 * that any thread may solve any of them, in memory that is lent for it. Piece i takes the
 * hashes whose bgi_mulhi(hash, pieces) is i: of sorted hashes, a range.
 */
struct bgi_static {
    uint64_t (*pieces)(uint64_t units, uint32_t k);
    /* Bytes, aligned to 64, that solving a piece of n hashes needs. */
    size_t (*scratch_bytes)(uint64_t units, uint32_t k, size_t n);
    /* Solves a piece for n different hashes in rising order; its words are zero. False
     * when none of `attempts` seeds did it. */
    bool (*solve)(struct bgi_core *core, uint64_t piece, const uint64_t *hashes,
                  size_t n, void *scratch);
    /* After all pieces, by one thread: from now on it may be asked. */
    void (*seal)(struct bgi_core *core, uint64_t keys);
    unsigned attempts; /* seeds that are tried for a piece */
};

/* How a filter in shards is composed (live/sharded.c). */
const struct bgi_composed *bgi_sharded(void);

/* Traits of all Bloom kinds. */
enum { BGI_BLOOM_TRAITS = BG_TRAIT_MERGE | BG_TRAIT_FOLD | BG_TRAIT_OVERLAP };

/* The predicted rate of `units` units with n keys. */
double bgi_kind_rate(const struct bgi_kind *kind, uint64_t units, uint32_t k, double n);

/* The variant of a kind that a spec's width and flags ask for; NULL when there is none. */
const struct bgi_kind *bgi_kind_variant(bg_kind id, uint32_t width, uint32_t flags);

/* One description per kind, bgi_kind_classic and so on; NULL for an unknown number. */
#define BGI_KIND_DECLARE(NAME, number, name)                                           \
    extern const struct bgi_kind bgi_kind_##name;
BG_KINDS(BGI_KIND_DECLARE)
#undef BGI_KIND_DECLARE
const struct bgi_kind *bgi_kind_of(bg_kind id);

/* The operations of a kind with k bits per key under an instruction set that this
 * machine has. */
const struct bgi_ops *bgi_kind_ops(const struct bgi_kind *kind, uint32_t k,
                                   bool exclusive, bg_cpu cpu);
const struct bgi_word_ops *bgi_kind_word_ops(bg_cpu cpu);

/* ORs neighbouring units of `unit_words` 64-bit words: the fold of every kind that maps
 * a hash to a unit by its high bits. */
void bgi_fold_units(struct bgi_core *to, const struct bgi_core *from,
                    size_t unit_words);

/* ORs neighbouring bits of `words` words into half as many. */
void bgi_fold_bits(uint64_t *to, const uint64_t *from, size_t words);

#endif

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
#include "bloomgate/kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bgi_core;

/* Up to 64 hashes of a batch, and where their units are: byte offsets into the words,
 * found by `locate`. A kind that keeps a key in more than one place leaves them alone. */
struct bgi_word {
    const uint64_t *hashes;
    unsigned n;
    _Alignas(64) uint64_t at[64];
};

/*
 * Operations on hashes. A batch works in words (filter/batch.c). `has_word` and `add_word`
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
    void (*locate)(const struct bgi_core *core, struct bgi_word *word);
    uint64_t (*has_word)(const struct bgi_core *core, const struct bgi_word *word,
                         const struct bgi_word *next);
    uint64_t (*add_word)(struct bgi_core *core, const struct bgi_word *word,
                         const struct bgi_word *next);
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
    unsigned char *words; /* the bits, 64-byte aligned */
    uint64_t units;       /* how many units; hashes are mapped to this range */
    uint64_t fast8_mask;  /* of the seed, under `fast`: see hash/fast.h */
    uint32_t k;           /* bits per key */
    uint16_t adds_ask;    /* 1: beyond the cache, so that batches of adds ... */
    uint16_t looks_ask;   /* ... and those of look-ups ask for memory */
    /* Lanes in use of a masked line kind, for each rotation, as words and as bits: see
     * line_shapes.h. The words begin at a cache line, so that eight of them are read
     * from one. */
    _Alignas(64) uint32_t window[BGI_WINDOW_WORDS];
    uint16_t rotations[BGI_WINDOW_WORDS / 2];
    const struct bgi_ops *ops;
    const struct bgi_word_ops *word_ops;
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

/* The description of a kind. */
struct bgi_kind {
    bg_kind id;
    uint32_t k_min;
    uint32_t k_max;
    uint64_t units_max;
    /* Bytes of one unit, for k bits per key. */
    uint32_t (*unit_bytes)(uint32_t k);
    /* The rate model of `units` units with k bits per key. */
    struct bgi_model (*model)(uint64_t units, uint32_t k);
    /* Cache lines that a look-up of a member reads. */
    uint32_t (*lines)(uint32_t k);
    /* Fills in core->window; NULL when there is nothing to do. */
    void (*setup)(struct bgi_core *core);
    /* Writes the content of `from`, with twice the units, into `to`, all zero. */
    void (*fold)(struct bgi_core *to, const struct bgi_core *from);
};

/* One description per kind, bgi_kind_classic and so on; NULL for an unknown number. */
#define BGI_KIND_DECLARE(NAME, number, name)                                           \
    extern const struct bgi_kind bgi_kind_##name;
BG_KINDS(BGI_KIND_DECLARE)
#undef BGI_KIND_DECLARE
const struct bgi_kind *bgi_kind_of(bg_kind id);

/* The operations of a kind with k bits per key under an instruction set that this
 * machine has. */
const struct bgi_ops *bgi_kind_ops(bg_kind id, uint32_t k, bool exclusive, bg_cpu cpu);
const struct bgi_word_ops *bgi_kind_word_ops(bg_cpu cpu);

/* ORs neighbouring units of `unit_words` 64-bit words: the fold of every kind that maps
 * a hash to a unit by its high bits. */
void bgi_fold_units(struct bgi_core *to, const struct bgi_core *from,
                    size_t unit_words);

/* ORs neighbouring bits of `words` words into half as many. */
void bgi_fold_bits(uint64_t *to, const uint64_t *from, size_t words);

#endif

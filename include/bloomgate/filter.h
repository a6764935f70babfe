/*
 * filter.h - the filter: a cheap, certain "no" in front of an expensive "yes".
 *
 * A filter answers one question about a key: may it be in the set? "No" is certain.
 * "Maybe" is wrong for a small, known share of keys that were never added.
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.items = 1000000;
 *     spec.rate = 0.01;
 *
 *     bg_filter *seen;
 *     if (bg_filter_create(&spec, &seen, NULL) != BG_OK)
 *         return 1;
 *     bg_filter_add(seen, "apple", 5);
 *     bg_filter_may_contain(seen, "apple", 5);   // true, for ever
 *     bg_filter_may_contain(seen, "pear", 4);    // false, but for 1 key in 100
 *     bg_filter_free(seen);
 *
 * Three ways to name a key, for every operation: bytes (`key, len`); a 64-bit integer
 * (`_u64`), which is the same key as its 8 bytes in little-endian order; or a hash of
 * your own (`_hash`), see the caveats in hash.h.
 *
 * Batches. The `_many` functions are the fast way, on large filters by a factor of 2
 * to 5: while one key is being tested the memory of the next ones is already on its way.
 * Answers come back as a bitmap, bit i % 64 of word i / 64 for key i, together with the
 * number of ones. A bitmap has BG_BITMAP_WORDS(n) words; the bits beyond n are zero; NULL
 * leaves it out.
 *
 * Threads. Any number of threads may add and query at once, without locks and without
 * waiting for each other:
 *   (C1) When an add has returned and a query begins after it, the query says "maybe".
 *        "After" means: ordered by anything that orders memory between threads (a lock,
 *        a join, a release store and an acquire load, a message), or in one thread.
 *   (C2) A "maybe" stays a "maybe" until the filter is cleared.
 *   (C3) An add says whether the key was new (some bit was not set before). Two threads
 *        that add one key at the same instant may both be told "new", never both "seen";
 *        in a `register` filter exactly one is told "new".
 * In a `quotient` filter adds and removes that fall on neighbouring slots wait for each
 * other, and a remove ends a "maybe"; queries take no locks there either.
 * The functions marked MT-Safe below keep to that. MT-Excl functions need the filter for
 * themselves. A filter made with BG_SPEC_EXCLUSIVE is for one thread at a time: its adds are
 * MT-Excl, its queries are safe beside other queries.
 *
 * Caveats
 *   - Bloom kinds never forget. A filter that takes more keys than it was made for goes
 *     on answering correctly, with a rising share of "maybe": watch bg_filter_get_info.
 *   - Kinds that can remove (bg_kind_traits) must only be asked to remove what was added:
 *     see bg_filter_remove.
 *   - A filter does not keep keys; it cannot list them. Bloom kinds cannot be enlarged but
 *     can be halved (bg_filter_fold), so size generously where the number is not known;
 *     `quotient` lists its hashes (bg_filter_for_each) and can be enlarged (bg_filter_resize).
 *   - NULL for a filter is a programming error. Queries then answer "maybe", adds do
 *     nothing: never a false "no".
 *   - After fork() the child has a copy of its own, as with all private memory.
 */
#ifndef BLOOMGATE_FILTER_H
#define BLOOMGATE_FILTER_H

#include "bloomgate/cpu.h"
#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/hash.h"
#include "bloomgate/kind.h"
#include "bloomgate/plan.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A filter. Opaque. */
typedef struct bg_filter bg_filter;

/* Words of a bitmap for n answers. */
#define BG_BITMAP_WORDS(n) (((size_t)(n) + 63) / 64)

/* ---- Life ---------------------------------------------------------------------- */

/*
 * Creates an empty filter.
 * Errors: those of bg_plan_compute and bg_hasher_init, and BG_ENOMEM. On error *filter is
 * NULL and nothing stays allocated.
 * Thread safety: MT-Safe. Cost: sizing, below a millisecond; memory is zeroed by the system when it is
 * first touched.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create(const bg_spec *spec, bg_filter **filter,
                                             bg_errinfo *info);

/* Creates the filter of a plan; `request` is what the plan was made from. */
BG_API BG_MUST_CHECK bg_err bg_filter_create_planned(const bg_plan *plan,
                                                     const bg_plan_request *request,
                                                     bg_filter **filter,
                                                     bg_errinfo *info);

/*
 * How much memory bg_filter_create_at needs for that spec, bits and handle together.
 * Errors: those of bg_plan_compute. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_memory_needed(const bg_spec *spec, size_t *bytes,
                                                    bg_errinfo *info);

/*
 * Creates an empty filter inside the caller's memory: `bytes` bytes, at least as many as
 * bg_filter_memory_needed says, aligned to 64. Nothing is allocated; spec->allocator is used only
 * by copies of this filter. The memory must stay until bg_filter_free, which wipes the
 * handle but leaves the memory to the caller.
 * Errors: as bg_filter_create; BG_EINVAL when the memory is misaligned or too small.
 * Thread safety: MT-Safe. Cost: zeroes the memory.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create_at(void *memory, size_t bytes,
                                                const bg_spec *spec, bg_filter **filter,
                                                bg_errinfo *info);

/* Frees a filter; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_filter_free(bg_filter *filter);

/*
 * A copy with the same content, geometry, hash, mode and allocator. Adds that run at the
 * same time may or may not be in it.
 * Errors: BG_ENOMEM; BG_EFORMAT for a filter of a slot whose mapped file was written to.
 * Thread safety: MT-Safe. Cost: reads and writes every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_copy(const bg_filter *filter, bg_filter **copy,
                                           bg_errinfo *info);

/*
 * Creates an empty filter with the geometry, hash, mode and allocator of `filter`. A window starts
 * in the same period. The content of `filter` is not read. Use it instead of copying a filter and
 * clearing the copy.
 * Errors: BG_EINVAL if an argument is NULL; BG_ENOMEM. On error *empty is NULL.
 * Thread safety: MT-Safe. Cost: that of bg_filter_create.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create_like(const bg_filter *filter,
                                                  bg_filter **empty, bg_errinfo *info);

/*
 * Forgets everything. Thread safety: MT-Excl. Cost: gives large memory back to the system
 * to be zeroed, else writes every byte.
 */
BG_API void bg_filter_clear(bg_filter *filter);

/* The allocator that it was made with, valid as long as the filter; NULL: none. */
BG_API const bg_allocator *bg_filter_allocator(const bg_filter *filter);

/*
 * Has every piece of memory that the filter got from spec.allocator moved by `mover`, as far as
 * that wants to; *filter is where the filter is then. Content and answers stay the same. Pieces of
 * the system, of the caller and of files stay where they are, and so does everything if an argument
 * is NULL. What others know of the filter (addresses, pins) is void: it must be yours alone, so
 * not one that a slot has, which bg_slot_relocate is for. While a piece is moved there is no secret
 * in it, so none stays behind.
 * Thread safety: MT-Excl. Cost: a call per piece.
 */
BG_API void bg_filter_relocate(bg_filter **filter, const bg_mover *mover);

/* ---- One key ------------------------------------------------------------------- */

/*
 * Adds a key. Returns true when it is certainly new: some bit was not set before. False
 * means that it may have been added before. Adding cannot fail.
 * Thread safety: MT-Safe (see Threads above). Cost: the hash, and one cache line for
 * blocked, split and register, k lines for classic and partitioned.
 */
BG_API bool bg_filter_add(bg_filter *filter, const void *key, size_t len);

/*
 * False: the key was certainly never added. True: it may have been.
 * Thread safety: MT-Safe. Cost: as for an add; classic and partitioned stop at the first
 * bit that is not set.
 */
BG_API bool bg_filter_may_contain(const bg_filter *filter, const void *key, size_t len);

/*
 * The same for an integer, whose 8 little-endian bytes are the key, and for a hash of
 * your own. These are inline, so that they take one call and not two (the library has
 * them as symbols too, for foreign-function interfaces): every filter begins with the
 * addresses of its own functions. That much of a handle is fixed; use it through these
 * functions only.
 */
struct bgi_core; /* what is inside of a filter: private */

struct bg_filter_calls {
    bool (*may_contain)(const struct bgi_core *core, uint64_t hash);
    bool (*add)(struct bgi_core *core, uint64_t hash);
    bool (*may_contain_u64)(const struct bgi_core *core, uint64_t key);
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
};

BG_API inline bool bg_filter_add_hash(bg_filter *filter, uint64_t hash)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(void *)filter;
    return filter && calls->add((struct bgi_core *)(void *)filter, hash);
}

BG_API inline bool bg_filter_add_u64(bg_filter *filter, uint64_t key)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(void *)filter;
    return filter && calls->add_u64((struct bgi_core *)(void *)filter, key);
}

BG_API inline bool bg_filter_may_contain_hash(const bg_filter *filter, uint64_t hash)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(const void *)filter;
    return !filter
           || calls->may_contain((const struct bgi_core *)(const void *)filter, hash);
}

BG_API inline bool bg_filter_may_contain_u64(const bg_filter *filter, uint64_t key)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(const void *)filter;
    return !filter
           || calls->may_contain_u64((const struct bgi_core *)(const void *)filter,
                                     key);
}

/*
 * Adds a key, or says that it cannot: BG_EFULL, when the filter is of a kind that takes a
 * limited number of keys (BG_TRAIT_FILLS_UP) and has no room. It is unchanged then, and goes
 * on serving. *is_new, unless NULL, says what an add would have returned; false on error.
 *
 * bg_filter_add cannot fail; where an insert would be refused it gives up telling keys
 * apart: from then on every query answers "maybe" (bg_filter_info.overflowed). So use inserts
 * with these kinds.
 * A cuckoo filter stores a key once for every insert, at most 8 times: a further insert
 * is refused with BG_EFULL, a further add is dropped, and the key can no longer be removed
 * (bg_filter_info.saturated). An add of a copy that finds no room for other reasons is dropped
 * too, and then no key is removed any more.
 * Errors: BG_EFULL; BG_ENOTSUP for a static kind; BG_EINVAL for NULL.
 * Thread safety and cost: as bg_filter_add.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_insert(bg_filter *filter, const void *key,
                                             size_t len, bool *is_new);
BG_API BG_MUST_CHECK bg_err bg_filter_insert_u64(bg_filter *filter, uint64_t key,
                                                 bool *is_new);
BG_API BG_MUST_CHECK bg_err bg_filter_insert_hash(bg_filter *filter, uint64_t hash,
                                                  bool *is_new);

/*
 * Takes back one add of a key. Only of a key that was added, and not more often than it
 * was: a filter cannot tell a key that was never added from one that it takes for a
 * member by chance, and what it would remove then belongs to others, who would go missing.
 * Returns BG_ENOTFOUND, with nothing changed, when the key is certainly not there.
 * Errors: BG_ENOTFOUND; BG_ENOTSUP unless the kind has BG_TRAIT_REMOVE; BG_EINVAL for NULL.
 * Thread safety: MT-Safe; removes of neighbouring keys wait for each other, in a cuckoo
 * filter all adds and removes do; queries never wait (a BG_SPEC_EXCLUSIVE filter: MT-Excl).
 * Cost: as an add.
 */
BG_API bg_err bg_filter_remove(bg_filter *filter, const void *key, size_t len);
BG_API bg_err bg_filter_remove_u64(bg_filter *filter, uint64_t key);
BG_API bg_err bg_filter_remove_hash(bg_filter *filter, uint64_t hash);

/*
 * How often a key may have been added: at least as often as it was, less what was
 * removed; 0 means certainly not. Kinds without BG_TRAIT_COUNT answer 0 or 1.
 * Thread safety: MT-Safe. Cost: as a query.
 */
BG_API uint64_t bg_filter_count(const bg_filter *filter, const void *key, size_t len);
BG_API uint64_t bg_filter_count_u64(const bg_filter *filter, uint64_t key);
BG_API uint64_t bg_filter_count_hash(const bg_filter *filter, uint64_t hash);

/*
 * Tells what is stored, in ascending order: of each hash as many of its leading bits as
 * are kept, the others 0, and how often it was added. Ends early when `visit` returns
 * false. Keys that share these bits are one. What bg_filter_add found no room for
 * (bg_filter_info.overflowed) is not there.
 * Errors: BG_ENOTSUP unless the kind has BG_TRAIT_ENUMERATE; BG_EINVAL for NULL.
 * Thread safety: MT-Safe; what is added or removed meanwhile may be told or not, and
 * `visit` may do so itself. Cost: reads every byte.
 */
BG_API bg_err bg_filter_for_each(const bg_filter *filter,
                                 bool (*visit)(void *context, uint64_t hash_prefix,
                                               uint64_t count),
                                 void *context);

/* ---- Many keys ----------------------------------------------------------------- */

/*
 * Adds n keys; returns how many were certainly new, and which in `is_new` unless NULL.
 * A key that occurs twice in one batch is new at most once, the first time.
 * Keys are given as (pointer, length) pairs; as records of one width that lie one after
 * another; as integers; as hashes.
 * Thread safety: as bg_filter_add. Cost: near the machine's bound of random cache lines
 * per second (`bgbench limit`).
 */
BG_API size_t bg_filter_add_many(bg_filter *filter, const bg_bytes *keys, size_t n,
                                 uint64_t *is_new);
BG_API size_t bg_filter_add_many_fixed(bg_filter *filter, const void *keys,
                                       size_t width, size_t n, uint64_t *is_new);
BG_API size_t bg_filter_add_many_u64(bg_filter *filter, const uint64_t *keys, size_t n,
                                     uint64_t *is_new);
BG_API size_t bg_filter_add_many_hash(bg_filter *filter, const uint64_t *hashes,
                                      size_t n, uint64_t *is_new);

/*
 * Asks for n keys; returns how many may be contained, and which in `maybe` unless NULL.
 * Thread safety: MT-Safe. Cost: as above.
 */
BG_API size_t bg_filter_may_contain_many(const bg_filter *filter, const bg_bytes *keys,
                                         size_t n, uint64_t *maybe);
BG_API size_t bg_filter_may_contain_many_fixed(const bg_filter *filter,
                                               const void *keys, size_t width, size_t n,
                                               uint64_t *maybe);
BG_API size_t bg_filter_may_contain_many_u64(const bg_filter *filter,
                                             const uint64_t *keys, size_t n,
                                             uint64_t *maybe);
BG_API size_t bg_filter_may_contain_many_hash(const bg_filter *filter,
                                              const uint64_t *hashes, size_t n,
                                              uint64_t *maybe);

/*
 * Inserts n keys in order, up to the first that does not fit; *done says how many are in,
 * *added, unless NULL, how many of them were certainly new.
 * Errors, thread safety: as bg_filter_insert. Cost: as bg_filter_add_many.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_insert_many(bg_filter *filter,
                                                  const bg_bytes *keys, size_t n,
                                                  size_t *done, size_t *added);
BG_API BG_MUST_CHECK bg_err bg_filter_insert_many_fixed(bg_filter *filter,
                                                        const void *keys, size_t width,
                                                        size_t n, size_t *done,
                                                        size_t *added);
BG_API BG_MUST_CHECK bg_err bg_filter_insert_many_u64(bg_filter *filter,
                                                      const uint64_t *keys, size_t n,
                                                      size_t *done, size_t *added);
BG_API BG_MUST_CHECK bg_err bg_filter_insert_many_hash(bg_filter *filter,
                                                       const uint64_t *hashes, size_t n,
                                                       size_t *done, size_t *added);

/*
 * Removes n keys; returns how many were there, and which in `removed` unless NULL. A kind
 * that cannot remove removes none. Thread safety: as bg_filter_remove.
 */
BG_API size_t bg_filter_remove_many(bg_filter *filter, const bg_bytes *keys, size_t n,
                                    uint64_t *removed);
BG_API size_t bg_filter_remove_many_fixed(bg_filter *filter, const void *keys,
                                          size_t width, size_t n, uint64_t *removed);
BG_API size_t bg_filter_remove_many_u64(bg_filter *filter, const uint64_t *keys,
                                        size_t n, uint64_t *removed);
BG_API size_t bg_filter_remove_many_hash(bg_filter *filter, const uint64_t *hashes,
                                         size_t n, uint64_t *removed);

/* ---- Two filters --------------------------------------------------------------- */

/*
 * Adds everything that is in `other` to `filter`: afterwards it answers as if the keys
 * of both had been added to it. Merging a filter into itself changes nothing.
 * Counters add up, so that each key can be removed as often as it was added to either;
 * such a filter is not merged into itself. `quotient` filters may differ in size if one
 * could be made from the other by bg_filter_resize.
 * Errors: BG_EINCOMPAT when kind, size, k or hash differ, or the periods of two windows;
 * the details say which. BG_ENOTSUP unless the kind has BG_TRAIT_MERGE. BG_EFULL, with nothing changed, when
 * `filter` has no room for both (of a filter in shards that others add to meanwhile, part
 * of `other` may be in). BG_ENOMEM for a filter in shards or one that has to grow.
 * Thread safety: MT-Safe (a BG_SPEC_EXCLUSIVE `filter`: MT-Excl). Cost: reads both, writes
 * one.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_merge(bg_filter *filter, const bg_filter *other,
                                            bg_errinfo *info);

/*
 * A new filter of half the size that may contain the same keys, at a higher rate; `times`
 * halvings at once. It equals the one that would have come of adding the keys to a
 * filter of that size. Size generously, fold when the number of keys is known.
 * Errors: BG_EINVAL when the size cannot be halved that often (see bg_spec.folds),
 * BG_ENOTSUP unless the kind has BG_TRAIT_FOLD, BG_ENOMEM, BG_EFORMAT for a filter of a
 * slot whose mapped file was written to.
 * Thread safety: MT-Safe. Cost: reads every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_fold(const bg_filter *filter, uint32_t times,
                                           bg_filter **folded, bg_errinfo *info);

/*
 * A new filter with 2^doublings times the room (less room, if negative) and the same
 * content and rate; the old one stays as it is. One bit of the stored hashes per doubling
 * moves from the remainder to the quotient, so `k` becomes k - doublings.
 * Errors: BG_EINVAL when there is no such size, BG_EFULL when the content does not fit it,
 * BG_ENOTSUP unless the kind has BG_TRAIT_RESIZE, BG_ENOMEM. On error *resized is NULL.
 * Thread safety: MT-Safe; adds wait until it is done. Cost: reads one, writes the other.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_resize(const bg_filter *filter, int doublings,
                                             bg_filter **resized, bg_errinfo *info);

/*
 * A new filter of one layer, blocked or classic, with the keys of a scalable one and at
 * most the rate that its spec asked for, as small as that allows. Without the keys that
 * can be done as long as the layers are sparse: a large one is folded, a small one
 * unfolded (each line repeated), and lines are ORed, so fills add up. Typically it works
 * while there is one layer, or when the last one has taken few keys. Else BG_EFULL: then
 * replay the keys into a new filter whose spec.items is bg_filter_info.items.
 * Errors: BG_EFULL; BG_ENOTSUP unless the kind is scalable; BG_ENOMEM.
 * Thread safety: MT-Safe. Cost: reads every byte, some of them several times.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_compact(const bg_filter *filter,
                                              bg_filter **compacted, bg_errinfo *info);

/*
 * Whether two filters have the same kind, geometry and hash (compatible: they can be
 * merged), and whether they also have the same content (equal), bit by bit: two cuckoo
 * filters with the same keys may differ in the order of their slots.
 * Thread safety: MT-Safe; with adds running the answer is of some moment. Cost:
 * `equal` reads both up to the first difference.
 */
BG_API bool bg_filter_compatible(const bg_filter *a, const bg_filter *b);
BG_API bool bg_filter_equal(const bg_filter *a, const bg_filter *b);

/* ---- What a filter knows of itself ---------------------------------------------- */

/* An estimate and the interval that holds the true value with 95 % confidence. */
typedef struct bg_estimate {
    double value;
    double low;
    double high;
} bg_estimate;

/* See bg_filter_get_info. */
typedef struct bg_filter_info {
    uint32_t struct_size; /* sizeof(bg_filter_info), set by the caller */
    bg_kind kind;
    uint64_t units;        /* lines, blocks, words or bits, by kind */
    uint64_t bits;         /* bits of the filter */
    uint64_t bytes;        /* the same in bytes */
    uint32_t k;            /* bits per key */
    uint32_t foldable;     /* how often it can be halved */
    uint64_t design_items; /* what the spec said, or 0 */
    double design_rate;    /* predicted rate at design_items, or 0 */
    uint64_t ones;         /* bits set; counters above 0; slots in use */
    double fill;           /* the same as a share */
    bg_estimate items;     /* how many different keys are in, from the fill */
    double rate;           /* predicted rate at this fill */
    bg_hash_profile hash;
    uint64_t hash_check; /* see bg_hasher_check */
    bg_cpu cpu;          /* the instruction set in use */
    uint32_t flags;      /* of the spec */
    uint32_t width;      /* of the spec: bits of a counter; 0 where it means nothing */
    bool overflowed;     /* an add found no room: every query answers "maybe" */
    bool degraded;       /* parts of its file were damaged: these answer "maybe" */
    uint32_t shards;     /* of the spec; 1 for a filter in one piece */
    uint64_t saturated;  /* counters at their highest value, which no longer count;
                            cuckoo: copies of keys that adds found no room for;
                            scalable: keys added beyond the capacity of their layer, for
                            want of memory or by merging: `rate` may exceed the target;
                            window of generations: the same for the current period */
} bg_filter_info;

/*
 * Fills in `info` as far as its struct_size reaches.
 * Errors: BG_EINVAL for NULL or a struct_size of no known version.
 * Thread safety: MT-Safe; with adds running the figures are of some moment. Cost: reads
 * every byte to count the bits.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_get_info(const bg_filter *filter,
                                               bg_filter_info *info);

/*
 * The same from about `most` bytes of each part that has more (0: all): stretches of it, taken to be
 * as full as the rest. `ones`, `fill` and `rate` are then close to what they are, and the interval of
 * `items` is as much wider. 1 MiB tells the fill to a thousandth of it.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_sample_info(const bg_filter *filter,
                                                  uint64_t most, bg_filter_info *info);

/* Kind, size and fill alone; the last one reads every byte. Thread safety: MT-Safe. */
BG_API bg_kind bg_filter_kind(const bg_filter *filter);
BG_API uint64_t bg_filter_size_bytes(const bg_filter *filter);
BG_API double bg_filter_fill(const bg_filter *filter);

/*
 * How many keys it has room for as it is now: of a scalable filter, the sum over its layers;
 * of kinds that can be full (BG_TRAIT_FILLS_UP), its slots times the highest load that plans
 * allow, so that up to there inserts are hardly ever refused; of others, what its spec said,
 * or 0. And in how many layers keys are looked for: those of a scalable filter (of the shard
 * with most), the generations of a window, else 1. 0 for NULL.
 * Thread safety: MT-Safe; with adds running the figures are of some moment. Cost: some loads
 * per layer and shard.
 */
BG_API uint64_t bg_filter_capacity(const bg_filter *filter);
BG_API uint32_t bg_filter_layers(const bg_filter *filter);

/*
 * How evenly a filter fills: its words, in the order of its file, are cut into `cells`
 * (1 .. 65536) pieces of one size, and shares[i] becomes the share of bits that are set in
 * piece i. If there are more cells than words, neighbours show the same word. In kinds
 * with counters, fingerprints or slots that is not the share of those in use, which
 * bg_filter_info.fill is, but shows as well where they are.
 * Errors: BG_EINVAL for NULL and for other numbers of cells.
 * Thread safety: MT-Safe; with adds running the figures are of some moment. Cost: reads
 * every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_occupancy(const bg_filter *filter, double *shares,
                                                size_t cells);

/* The filter's own hasher, valid as long as the filter. Thread safety: MT-Safe. */
BG_API const bg_hasher *bg_filter_hasher(const bg_filter *filter);

/* Estimates of two filters' key sets. */
typedef struct bg_overlap {
    bg_estimate a;       /* different keys in a */
    bg_estimate b;       /* ... in b */
    bg_estimate both;    /* ... in both */
    bg_estimate either;  /* ... in one or the other */
    bg_estimate jaccard; /* both / either, 0 .. 1 */
} bg_overlap;

/*
 * Estimates how much two compatible filters' sets overlap.
 * Errors: BG_EINCOMPAT; BG_ENOTSUP unless the kind has BG_TRAIT_OVERLAP.
 * Thread safety: MT-Safe. Cost: reads both.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_overlap(const bg_filter *a, const bg_filter *b,
                                              bg_overlap *overlap, bg_errinfo *info);

/*
 * The 95 % Wilson interval of a rate, from `hits` among `trials`: for observed
 * false-positive rates. Thread safety: MT-Safe.
 */
BG_API bg_estimate bg_observed_rate(uint64_t hits, uint64_t trials);

#ifdef __cplusplus
}
#endif

#endif

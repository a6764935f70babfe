/*
 * filter.h - the filter: a cheap, certain "no" in front of an expensive "yes".
 *
 * A filter answers one question about a key: may it be in the set? "No" is certain.
 * "Maybe" is wrong for a small, predictable share of the keys that were never added.
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.items = 1000000;
 *     spec.rate = 0.01;
 *
 *     bg_filter *seen;
 *     if (bg_filter_create(&spec, &seen, NULL) != BG_OK)
 *         return 1;
 *     if (bg_filter_add(seen, "apple", 5, NULL) != BG_OK)
 *         return 1;
 *     bg_filter_may_contain(seen, "apple", 5);   // always true
 *     bg_filter_may_contain(seen, "pear", 4);    // false for 99 of 100 such keys
 *     bg_filter_free(seen);
 *
 * Each operation accepts a key as bytes (`key, len`), as a 64-bit integer (`_u64`) or as a
 * hash (`_hash`); see keys.h.
 *
 * Batches. On large filters, the `_many` functions are 2 to 5 times as fast as single
 * calls, because they prefetch memory for the following keys while they test the current
 * key. Results are returned as a bitmap: bit i % 64 of bitmap[i / 64] belongs to key i. A
 * bitmap has BG_BITMAP_WORDS(n) elements, and all bits after the first n are zero. Pass
 * NULL if you need only the count.
 *
 * Adds. An add returns an error if the filter cannot store the key; the filter is then
 * unchanged and can still be used. Bloom kinds (classic, partitioned, blocked, split,
 * register), counting, scalable and window filters accept every key. Filters of kinds with
 * BG_TRAIT_FILLS_UP return BG_EFULL when they are full, and static filters return
 * BG_ENOTSUP. A key whose add was refused is not in the filter, so check the result. After
 * BG_EFULL, create a larger filter and add all keys to it; bg_slot_rebuild (slot.h) does this
 * while the old filter is in use.
 *
 * Threads. Any number of threads may add and query at the same time.
 *   (C1) A query that starts after an add of the same key has returned answers "maybe".
 *        "After" means happens-after in the C11 sense: later in the same thread, or synchronized
 *        through a lock, a join, a release store read by an acquire load, or a message.
 *   (C2) A "maybe" stays a "maybe" until the key is removed, the key leaves the window of a window
 *        filter, or the filter is cleared.
 *   (C3) An add reports whether the key was certainly new. If two threads add the same key
 *        at the same time, and a query before both adds would have answered "no", at least
 *        one add reports "new", and both adds may do so. In a `register` filter, exactly
 *        one add reports "new".
 * Queries never take locks. Adds to Bloom kinds are lock-free. In a `cuckoo` filter, all
 * adds and removes share one lock; in a `quotient` filter, adds and removes in neighboring
 * slots share a lock. MT-Safe functions may run at the same time as any other MT-Safe
 * function. MT-Excl functions need exclusive access to the filter. A filter created with
 * BG_SPEC_EXCLUSIVE belongs to one thread at a time: its adds are MT-Excl, and its queries
 * may run concurrently only with other queries.
 *
 * Caveats
 *   - Filters of Bloom kinds accept more keys than they were sized for, but their
 *     false-positive rate rises. Monitor it with bg_filter_get_info.
 *   - Remove only keys that were added: see bg_filter_remove.
 *   - A filter does not store keys and cannot list them. Bloom kinds cannot grow, but can
 *     be folded to half their size (combine.h), so size generously if the number of keys is
 *     unknown. `quotient` filters can list their hashes and can be resized.
 *   - Passing NULL as the filter is a programming error. Queries then answer "maybe", and
 *     adds return BG_EINVAL.
 *   - After fork() the child process has its own copy of every filter, as with all private
 *     memory.
 */
#ifndef BLOOMGATE_FILTER_H
#define BLOOMGATE_FILTER_H

#include "bloomgate/cpu.h"
#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/hash.h"
#include "bloomgate/keys.h"
#include "bloomgate/kind.h"
#include "bloomgate/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A filter. Opaque. */
typedef struct bg_filter bg_filter;

/* Number of 64-bit elements in a bitmap of n results. */
#define BG_BITMAP_WORDS(n) (((size_t)(n) + 63) / 64)

/* ---- Creating and freeing ------------------------------------------------------- */

/*
 * Creates an empty filter.
 * Errors: those of bg_plan_compute and bg_hasher_init; BG_ENOTSUP for a static kind (use a
 * bg_builder); BG_ENOMEM. On error *filter is NULL and nothing stays allocated.
 * Thread safety: MT-Safe.
 * Cost: less than a millisecond; the OS zeroes memory when it is first touched.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_create(const bg_spec *spec, bg_filter **filter,
                                             bg_errinfo *info);

/*
 * Copies a filter, including its content, geometry, hash, flags and allocator. The copy
 * may or may not include keys that are added during the call.
 * Errors: BG_ENOMEM; BG_EFORMAT if the filter is a mapped file that was modified in place.
 * Thread safety: MT-Safe. Cost: reads and writes every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_copy(const bg_filter *filter, bg_filter **copy,
                                           bg_errinfo *info);

/*
 * Removes all keys, including canaries. Canaries that are added again are counted as keys.
 * Thread safety: MT-Excl. Cost: the memory of a large filter is returned to the OS, which
 * zeroes it when it is next touched; for all other filters, every byte is written.
 */
BG_API void bg_filter_clear(bg_filter *filter);

/* Frees a filter; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_filter_free(bg_filter *filter);

/* ---- One key ------------------------------------------------------------------- */

/*
 * Returns false if the key was certainly never added, and true if it may have been.
 * Thread safety: MT-Safe. Cost: hashes the key, and reads one cache line in blocked, split
 * and register filters; queries of classic and partitioned filters read up to k lines, and
 * stop at the first bit that is not set.
 */
BG_API bool bg_filter_may_contain(const bg_filter *filter, const void *key, size_t len);

/*
 * Adds a key. *is_new, unless NULL, is set to true if the key was certainly not in the
 * filter, and to false if it may have been in the filter or the add failed.
 *
 * A cuckoo filter stores a key once per add, at most 8 times; further adds of the same key
 * return BG_EFULL.
 * Errors: BG_EFULL if a kind with BG_TRAIT_FILLS_UP has no space left; BG_ENOTSUP for a
 * static kind; BG_EINVAL if `filter` is NULL. On error, the filter is unchanged.
 * Thread safety: MT-Safe (see Threads above). Cost: hashes the key, and accesses one cache
 * line in blocked, split and register filters, or k lines in classic and partitioned
 * filters.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_add(bg_filter *filter, const void *key,
                                          size_t len, bool *is_new);

/*
 * The part of bg_filter_add_hash and bg_filter_add_u64 that is not inline. Do not call it
 * directly; use those two functions. `value` is a hash if `hashed` is true, otherwise an
 * integer key.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_add_checked(bg_filter *filter, uint64_t value,
                                                  bool hashed, bool *is_new);

struct bgi_core; /* private */

/* The first bytes of every filter. Private: only the inline functions below use them. */
struct bg_filter_calls {
    bool (*may_contain)(const struct bgi_core *core, uint64_t hash);
    bool (*add)(struct bgi_core *core, uint64_t hash);
    bool (*may_contain_u64)(const struct bgi_core *core, uint64_t key);
    bool (*add_u64)(struct bgi_core *core, uint64_t key);
    const void *reserved;
    uint64_t more_reserved[2];
    uint32_t last_reserved;
    uint8_t flags_reserved[2];
    uint8_t may_refuse; /* 1 if adds go through bg_filter_add_checked */
};

/*
 * Add or query an integer key or a hash. These functions are inline, so each costs one
 * indirect call. The library also exports them as symbols, for foreign-function
 * interfaces.
 */
BG_API inline BG_MUST_CHECK bg_err bg_filter_add_hash(bg_filter *filter, uint64_t hash,
                                                      bool *is_new)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(void *)filter;
    if (!filter || calls->may_refuse) {
        return bg_filter_add_checked(filter, hash, true, is_new);
    }
    bool added = calls->add((struct bgi_core *)(void *)filter, hash);
    if (is_new) {
        *is_new = added;
    }
    return BG_OK;
}

BG_API inline BG_MUST_CHECK bg_err bg_filter_add_u64(bg_filter *filter, uint64_t key,
                                                     bool *is_new)
{
    const struct bg_filter_calls *calls =
        (const struct bg_filter_calls *)(void *)filter;
    if (!filter || calls->may_refuse) {
        return bg_filter_add_checked(filter, key, false, is_new);
    }
    bool added = calls->add_u64((struct bgi_core *)(void *)filter, key);
    if (is_new) {
        *is_new = added;
    }
    return BG_OK;
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
 * Reverts one add of a key. Remove only keys that were added, and at most as many times as
 * they were added. A filter cannot distinguish a key that was never added from a member
 * with the same bits or fingerprint. Removing such a key would remove the member instead,
 * and later lookups of the member would return false negatives.
 * Errors: BG_ENOTFOUND if the key is certainly not in the filter; BG_ENOTSUP unless the
 * kind has BG_TRAIT_REMOVE; BG_EINVAL if `filter` is NULL. On error, the filter is
 * unchanged.
 * Thread safety: MT-Safe; removes of keys in neighboring slots are serialized, as are all
 * adds and removes in a cuckoo filter. Queries never wait. Cost: same as an add.
 */
BG_API bg_err bg_filter_remove(bg_filter *filter, const void *key, size_t len);
BG_API bg_err bg_filter_remove_u64(bg_filter *filter, uint64_t key);
BG_API bg_err bg_filter_remove_hash(bg_filter *filter, uint64_t hash);

/*
 * Returns the number of times a key may have been added: at least the number of its adds
 * minus the number of its removes, except for adds that bg_filter_add_forced dropped. 0 means
 * that the key was certainly never added. Kinds without BG_TRAIT_COUNT return 0 or 1.
 * Thread safety: MT-Safe. Cost: same as a query.
 */
BG_API uint64_t bg_filter_count(const bg_filter *filter, const void *key, size_t len);
BG_API uint64_t bg_filter_count_u64(const bg_filter *filter, uint64_t key);
BG_API uint64_t bg_filter_count_hash(const bg_filter *filter, uint64_t hash);

/* ---- Many keys ----------------------------------------------------------------- */

/*
 * Queries an array of keys. Returns the number of keys that may be in the filter, and sets
 * their bits in the bitmap `maybe` unless it is NULL.
 * Thread safety: MT-Safe. Cost: close to the machine's limit for reading random cache
 * lines (`bgbench limit`).
 */
BG_API size_t bg_filter_may_contain_many(const bg_filter *filter, bg_keys keys,
                                         uint64_t *maybe);

/*
 * Adds an array of keys in order, up to the first key that is refused. Sets *done to the
 * number of keys added, and *added to the number of added keys that were certainly new.
 * Sets the bits of the new keys in the bitmap `is_new`. Each of these three arguments may
 * be NULL. A key that occurs twice in the array is new at most once.
 * Errors: those of bg_filter_add; BG_EINCOMPAT for hashes from a different hasher. The
 * keys at index *done and above were not added.
 * Thread safety: same as bg_filter_add. Cost: same as bg_filter_may_contain_many; for
 * kinds with BG_TRAIT_FILLS_UP, keys are added one at a time.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_add_many(bg_filter *filter, bg_keys keys,
                                               uint64_t *is_new, size_t *done,
                                               size_t *added);

/*
 * Adds an array of keys even if they do not fit. If a key does not fit, or the kind is
 * static, the filter answers "maybe" to every query from then on
 * (bg_filter_info.overflowed): no key is lost, but the filter no longer rules out any key.
 * Use it where a full filter cannot be replaced immediately, such as in a log replay. A
 * cuckoo filter drops additional copies of a key if it has no space for them; that key, or
 * all keys, can then no longer be removed (bg_filter_info.saturated).
 * Errors: BG_EINVAL; BG_EINCOMPAT for hashes from a different hasher.
 * Thread safety: same as bg_filter_add.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_add_forced(bg_filter *filter, bg_keys keys,
                                                 uint64_t *is_new, size_t *added);

/*
 * Removes an array of keys. Returns the number of keys that were found and removed, and
 * sets their bits in the bitmap `removed` unless it is NULL. If the kind does not support
 * removal, no key is removed.
 * Thread safety: same as bg_filter_remove.
 */
BG_API size_t bg_filter_remove_many(bg_filter *filter, bg_keys keys, uint64_t *removed);

/* ---- Information ---------------------------------------------------------------- */

/* An estimate with its 95% confidence interval. */
typedef struct bg_estimate {
    double value;
    double low;
    double high;
} bg_estimate;

/* See bg_filter_get_info. */
typedef struct bg_filter_info {
    uint32_t struct_size; /* sizeof(bg_filter_info), set by the caller */
    bg_kind kind;
    uint64_t units;        /* lines, blocks, words or bits, depending on the kind */
    uint64_t bits;         /* size of the filter in bits */
    uint64_t bytes;        /* size of the filter in bytes */
    uint32_t k;            /* bits per key */
    uint32_t foldable;     /* number of times the filter can be folded */
    uint64_t design_items; /* number of keys in the spec, or 0 */
    double design_rate;    /* requested rate; if the spec requested a size instead, the
                              rate predicted at design_items before any fold; 0 if
                              unknown */
    uint64_t ones;         /* number of set bits, counters above 0, or slots in use */
    double fill;           /* `ones` as a share of all bits, counters or slots */
    bg_estimate items;     /* number of distinct keys without the canaries, estimated
                              from the fill */
    double rate;           /* predicted false-positive rate at this fill */
    bg_hash_profile hash;
    uint64_t hash_check; /* see bg_hasher_check */
    bg_cpu cpu;          /* the instruction set in use */
    uint32_t flags;      /* flags from the spec */
    uint32_t width;      /* width from the spec; 0 if the kind does not use it */
    bool
        overflowed; /* true if bg_filter_add_forced added a key that did not fit, so every
                       query answers "maybe" */
    bool degraded;      /* true if damaged parts of the file answer "maybe" */
    uint32_t shards;    /* number of shards; 1 for an undivided filter */
    uint64_t saturated; /* counting: counters at their maximum, which no longer count;
                           cuckoo: copies of keys that did not fit; scalable, and
                           windows of generations (current period): keys beyond the
                           capacity of their layer, added by a merge or because memory
                           ran out; `rate` may then exceed the target */
    uint32_t canaries;  /* number of canaries in the filter (file_tools.h) */
    uint32_t reserved;  /* 0 */
} bg_filter_info;

/*
 * Describes a filter in `out`, which is filled in up to its struct_size.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe; with concurrent adds the result is a snapshot. Cost: reads every
 * byte to count the bits; bg_filter_sample_info (inspect.h) reads a sample.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_get_info(const bg_filter *filter,
                                               bg_filter_info *out);

/* Returns the kind of a filter. Thread safety: MT-Safe. */
BG_API bg_kind bg_filter_kind(const bg_filter *filter);

/* Returns the size of a filter's bits in bytes. Thread safety: MT-Safe. */
BG_API uint64_t bg_filter_size_bytes(const bg_filter *filter);

#ifdef __cplusplus
}
#endif

#endif

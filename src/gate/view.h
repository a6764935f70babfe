/*
 * view.h - a snapshot of a slot: a list of its filters that also records which of them are queried
 * and which accept adds. A view never changes; a change to a slot replaces its view.
 *
 * Filters are shared between a view and its successor, so they are reference-counted. A view is
 * created by the thread that changes the slot, under the slot's lock, and freed by the last thread
 * to leave it (grace.h). These may be different threads, so the reference counts are atomic.
 *
 * Hashing. The filters of a view may use different hashers (because the secret or the hash function
 * was changed). If all of them use the same hasher, a key is hashed only once. Filters with the
 * same hasher are adjacent. The check value of a filter's hasher (bg_hasher_check) is computed
 * once, when the filter gets its first owner.
 *
 * Invariants
 *   (V1) The answer is "no" only if all queried filters answer "no" and at least one of them is a
 *        base. If there is no base (while the first base is being built, there may be only a
 *        delta), earlier keys are unknown, so the answer is "maybe".
 *   (V2) After an add returns BG_OK, its key is in every queried filter that accepts adds. The next
 *        base, which is not queried yet, may have no space for the key; the base is then marked as
 *        failed and never used.
 *   (V3) A hash computed by the caller is looked up in, or added to, only those filters whose check
 *        value matches the hash's check value. If the values do not match, a query answers "maybe",
 *        and an add is refused.
 */
#ifndef BGI_VIEW_H
#define BGI_VIEW_H

#include "base/grace.h"
#include "base/memory.h"
#include "bloomgate/slot.h"
#include "gate/guard.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reference-counted filter. */
struct view_filter {
    bg_filter *filter;
    uint64_t check; /* check value of the filter's hasher */
    /* The number of views that own the filter, plus any threads creating such a view. */
    atomic_uint owners;
    atomic_bool failed; /* an add found no space, so the filter must not be queried */
    /* 1 plus the number of bg_slot_advance calls up to the end of the last add to this filter, or 0
     * if there were no adds. */
    _Atomic uint64_t added;
    char digest[BG_DIGEST_TEXT_BYTES]; /* digest of the filter's file, or "" */
};

/* Returns NULL if out of memory; the caller then still owns the filter. */
struct view_filter *view_filter_make(bg_filter *filter, const bg_allocator *allocator);

/* Drops an owner; dropping the last owner frees the filter. NULL is allowed. */
void view_filter_drop(struct view_filter *filter);

/* Raises filter->added to at least `added`. */
static inline void view_filter_added(struct view_filter *filter, uint64_t added)
{
    uint64_t now = atomic_load_explicit(&filter->added, memory_order_relaxed);
    while (now < added && !atomic_compare_exchange_weak(&filter->added, &now, added)) {
    }
}

enum { VIEW_MAX = 6 };

struct view_member {
    struct view_filter *shared;
    bg_filter *filter; /* copy of shared->filter */
    uint64_t check;    /* copy of shared->check */
    bg_role role;
    bool queried, takes;
};

struct view {
    struct bgi_retired retired; /* must be first */
    struct bgi_memory memory;
    struct guard guard;
    /* The number of bases that the slot has had so far, which serves as the sequence number of this
     * view's base. */
    uint64_t bases;
    size_t count;
    size_t queried; /* number of members that are queried */
    bool based;     /* a queried member is a base */
    bool takes;     /* a queried member accepts adds */
    bool same_hash; /* all members use the same hasher */
    struct view_member members[];
};

/* Allocates memory for a view of `count` members. Returns false on failure. */
bool view_memory(struct bgi_memory *memory, size_t count,
                 const bg_allocator *allocator);

/* Creates a view of these members in `memory`, which must have enough space for them. The view
 * becomes an owner of each member, and owns the memory. */
struct view *view_make(struct bgi_memory memory, const struct view_member *members,
                       size_t count, const struct guard *guard);
void view_release(struct bgi_retired *retired);

/* Returns whether the view is the only owner of its filters. */
bool view_is_sole(const struct view *view);

/* Moves the view and its filters, which must have no other owner (see bg_filter_relocate). */
struct view *view_relocate(struct view *view, const bg_mover *mover);

/* Returns the first member with the given role, or NULL if there is none. */
const struct view_member *view_find(const struct view *view, bg_role role);

/* Returns whether a filter is a member of a view. */
bool view_has_filter(const struct view *view, const struct view_filter *filter);

/* Returns the first delta that accepts adds (if `takes` is true) or that accepts no adds (if it is
 * false). Returns NULL if there is no such delta. */
const struct view_member *view_find_delta(const struct view *view, bool takes);

/* ---- Keys ------------------------------------------------------------------------- */

bool view_has(const struct view *view, const void *key, size_t len);
bool view_has_u64(const struct view *view, uint64_t key);

/* Returns the number of times that a key may have been added, summed over all queried filters.
 * If there is no base, the result is at least 1. */
uint64_t view_count(const struct view *view, const void *key, size_t len);

/* Queries an array of keys. If the keys are hashes, `keys` must include the check value of the
 * hasher that computed them. */
size_t view_has_many(const struct view *view, bg_keys keys, uint64_t *maybe);

/* `all` is the number of keys that were definitely new to all queried filters, which must include
 * a base. `takers` is the number of keys that were definitely new to the queried filters that
 * accept adds; these filters set bits for a key even if it is in other filters. */
struct view_news {
    size_t all, takers;
};

bg_err view_add(const struct view *view, const void *key, size_t len,
                struct view_news *news);
bg_err view_add_u64(const struct view *view, uint64_t key, struct view_news *news);

/* Unless `is_new` is NULL, sets its bits for the keys that were definitely new to all queried
 * filters. Returns BG_EINCOMPAT, and does nothing, if a filter that accepts adds cannot use the
 * hashes. */
bg_err view_add_many(const struct view *view, bg_keys keys, uint64_t *is_new,
                     size_t *done, struct view_news *news);

#endif

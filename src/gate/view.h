/*
 * view.h - what a slot is at one moment: a list of filters, which of them are asked and
 * which take adds. A view never changes; a slot changes by getting another one.
 *
 * Filters are shared between a view and its successor, so they are counted. Who counts:
 * views are made by whoever changes the slot, under its lock, and freed by whoever leaves it
 * last (grace.h), so the counts are atomic.
 *
 * Hashing. Filters of a view may hash differently (a new secret, another function). Those
 * that hash alike are neighbours, and a key is hashed once for all of them. What tells their
 * hashers apart (bg_hasher_check) is computed once, when a filter gets its owner.
 *
 * Invariants
 *   (V1) A "no" is said only if all filters that are asked say so, and one of them is a base.
 *        Without that (a delta may be there, while a first base is being made) nobody knows
 *        what came before: "maybe".
 *   (V2) An add that returns BG_OK is in every filter that takes adds and is asked. The
 *        next base (not asked yet) may have had no room: it is marked, and not used.
 *   (V3) A hash that the caller computed is asked for and added only where its check value is
 *        the filter's. Else the answer is "maybe", and the add is refused.
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

/* A filter with an owner. */
struct view_filter {
    bg_filter *filter;
    uint64_t check;     /* of its hasher */
    atomic_uint owners; /* views, and the thread that is about to create one */
    atomic_bool failed; /* an add found no room: not to be queried */
    _Atomic uint64_t
        added; /* 1 + advances of the slot at the end of its last add; 0: none */
    char digest[BG_DIGEST_TEXT_BYTES]; /* of the file from which it was loaded, or "" */
};

/* NULL when there is no memory; the filter is then the caller's. */
struct view_filter *view_filter_make(bg_filter *filter, const bg_allocator *allocator);

/* One owner less; the filter is freed with the last. NULL is allowed. */
void view_filter_drop(struct view_filter *filter);

/* Records that the last add was not earlier than `added`. */
static inline void view_filter_added(struct view_filter *filter, uint64_t added)
{
    uint64_t now = atomic_load_explicit(&filter->added, memory_order_relaxed);
    while (now < added && !atomic_compare_exchange_weak(&filter->added, &now, added)) {
    }
}

enum { VIEW_MAX = 6 };

struct view_member {
    struct view_filter *shared;
    bg_filter *filter; /* of shared */
    uint64_t check;    /* likewise */
    bg_role role;
    bool queried, takes;
};

struct view {
    struct bgi_retired retired; /* must be first */
    struct bgi_memory memory;
    struct guard guard;
    uint64_t bases; /* how many the slot has had with that of this view: its number */
    size_t count;
    size_t queried; /* how many are */
    bool based;     /* one of them is a base */
    bool takes;     /* one that is asked takes adds */
    bool same_hash; /* all members hash alike */
    struct view_member members[];
};

/* Allocates memory for a view of `count` members; false on failure. */
bool view_memory(struct bgi_memory *memory, size_t count,
                 const bg_allocator *allocator);

/* Creates a view of these members in `memory`, which must have room for as many members. The view becomes an
 * owner of each member, and owns the memory. */
struct view *view_make(struct bgi_memory memory, const struct view_member *members,
                       size_t count, const struct guard *guard);
void view_release(struct bgi_retired *retired);

/* Whether nobody but the view has its filters. */
bool view_is_sole(const struct view *view);

/* Moves it with its filters, which nobody else may have: see bg_filter_relocate. */
struct view *view_relocate(struct view *view, const bg_mover *mover);

/* The first member with a role, or NULL. */
const struct view_member *view_find(const struct view *view, bg_role role);

/* Returns whether a filter is a member of a view. */
bool view_has_filter(const struct view *view, const struct view_filter *filter);

/* The first delta that takes adds, or that takes none, or NULL. */
const struct view_member *view_find_delta(const struct view *view, bool takes);

/* ---- Keys ------------------------------------------------------------------------- */

bool view_has(const struct view *view, const void *key, size_t len);
bool view_has_u64(const struct view *view, uint64_t key);

/* How often a key may have been added, to all that are asked together; at least 1 without a base. */
uint64_t view_count(const struct view *view, const void *key, size_t len);

/* Queries an array of keys. Hashes must come with the check value of their hasher. */
size_t view_has_many(const struct view *view, bg_keys keys, uint64_t *maybe);

/* How many keys were certainly new: to all that are asked, with a base among them; and to
 * those of them that take adds, which set bits for a key that the others have as well. */
struct view_news {
    size_t all, takers;
};

bg_err view_add(const struct view *view, const void *key, size_t len,
                struct view_news *news);
bg_err view_add_u64(const struct view *view, uint64_t key, struct view_news *news);

/* Which of them were new to all that are asked is put to `is_new`, unless NULL.
 * BG_EINCOMPAT: the hashes are of no use to one that takes adds, and nothing was done. */
bg_err view_add_many(const struct view *view, bg_keys keys, uint64_t *is_new,
                     size_t *done, struct view_news *news);

#endif

/*
 * slot_inside.h - the internals of a slot, shared by the files that use and modify them:
 * slot_keys.c, slot.c (fast changes), reload.c (changes that read files), rebuild.c, watch.c and
 * health.c.
 */
#ifndef BGI_SLOT_INSIDE_H
#define BGI_SLOT_INSIDE_H

#include "base/compiler.h"
#include "base/errinfo.h"
#include "filter/handle.h"
#include "gate/view.h"

#include <pthread.h>

enum {
    SLOT_WAIT_MILLISECONDS = 100, /* time to wait for readers of replaced views */
    SLOT_SPARES = 2 /* spare views: one for an old filter and one for a next filter */
};

/* Counters, per CPU. */
struct slot_line {
    _Alignas(64) _Atomic uint64_t answers[2]; /* no, maybe */
    _Atomic uint64_t news,
        olds; /* adds of definitely new keys, and of keys that may already have been present */
    _Atomic uint64_t refused;
    /* The adds among `olds` whose keys were definitely new to the filters that accept adds, and
     * that therefore set bits in these filters. */
    _Atomic uint64_t again;
};

/* The state when the base, or the filter that accepts adds, was installed. */
struct slot_marks {
    uint64_t base_since;
    uint64_t wrote; /* number of adds that had set bits by that time */
    /* The number of bits that were set in the filter whose pollution can be measured, if any. */
    uint64_t ones;
    double missed; /* standard deviation of `ones` */
};

struct bg_slot {
    /* Members that readers use. */
    _Atomic(struct view *) view;
    struct bgi_grace *grace;
    struct slot_line *lines;
    uint32_t lines_count;
    bool sealed; /* whether the slot was created sealed */
    _Atomic uint64_t complete;
    _Atomic uint64_t advances; /* number of bg_slot_advance calls; see guard.h */
    /* The highest value that `complete` had before a change lowered it. */
    _Atomic uint64_t highest;
    /* The number of builds of a base that have started, and the number of the last build whose
     * base was published. That base contains every key written before its build started,
     * including keys that could not be added (gate_doubt.c). */
    _Atomic uint64_t makings, whole;
    /* The number of the first build whose base contains all keys that could not be added, or 0 if
     * there are no such keys. */
    _Atomic uint64_t missed;
    /* The number of the first build that ends the first doubt, or 0 if there was no doubt. */
    _Atomic uint64_t first_missed;
    /* The number of times that all earlier answers from the backing store were invalidated. */
    _Atomic uint64_t voided;
    /* The number of absent canaries used so far. Later probes use new canaries. */
    _Atomic uint64_t probed;

    struct bgi_memory memory;
    struct bgi_grace own_grace;
    bg_allocator allocator; /* if `allocate` is NULL, the default allocator is used */
    uint64_t (*clock)(void *context);
    void *context;

    pthread_mutex_t reload; /* serializes reloads; taken first */
    pthread_mutex_t change; /* serializes view changes; may be held for a long time */
    bool rebuilding;        /* written under `change` and `info_lock` */
    struct bgi_memory spare[SLOT_SPARES]; /* (S3); under `change` */
    size_t spares;

    /* Protects the members below, for bg_slot_get_info. Taken last, and never held for a long
     * time. */
    pthread_mutex_t info_lock;
    struct slot_marks marks;
    uint64_t swaps, reloads, reload_failures, reload_unchanged;
    uint64_t rebuilds, rebuild_failures, compactions;
    struct bgi_memory
        failure; /* a bg_errinfo with the last failure; empty if there was none */
};

/* ---- Reading ---------------------------------------------------------------------- */

BGI_INLINE const struct view *slot_enter(const bg_slot *slot, bgi_grace_token *token)
{
    *token = bgi_grace_enter(slot->grace);
    return atomic_load(&slot->view);
}

BGI_INLINE void slot_leave(const bg_slot *slot, bgi_grace_token token)
{
    bgi_grace_leave(slot->grace, token);
}

/* Queries the filters as bg_slot_may_contain does. Sets *bases to the sequence number of the base
 * that was queried (view.h). */
bool slot_has(const bg_slot *slot, const void *key, size_t len, uint64_t *bases);

/* Queries the filters as bg_slot_may_contain_many does, with all keys in the same view. */
size_t slot_has_many(const bg_slot *slot, bg_keys keys, uint64_t *maybe,
                     uint64_t *bases);

/* Returns the sequence number of the current base. */
BGI_INLINE uint64_t slot_bases(const bg_slot *slot)
{
    bgi_grace_token token;
    const uint64_t bases = slot_enter(slot, &token)->bases;
    slot_leave(slot, token);
    return bases;
}

/* Records an add in the filters that accepted it. Call this function after all bits have been set
 * and before leaving the view. Earlier advances do not cover the add. */
BGI_INLINE void slot_note_add(const bg_slot *slot, const struct view *view)
{
    const uint64_t added =
        1 + atomic_load_explicit(&slot->advances, memory_order_relaxed);
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i].takes) {
            view_filter_added(view->members[i].shared, added);
        }
    }
}

/* Records that the base may contain keys that were added after the last bg_slot_advance through a
 * slot that no longer exists. */
void slot_adds_unnumbered(bg_slot *slot);

/* ---- Changes (slot->change must be held) ------------------------------------------------ */

/* A modifiable copy of the current view's members and guard. */
struct slot_draft {
    struct view_member members[VIEW_MAX];
    size_t count;
    struct guard guard;
};

void slot_draft_begin(const bg_slot *slot, struct slot_draft *draft);

/* Returns the member with this role, or NULL if there is none. */
struct view_member *slot_draft_find(struct slot_draft *draft, bg_role role);

/* Removes all members with this role. */
void slot_draft_remove(struct slot_draft *draft, bg_role role);

/* Makes all members stop accepting adds. Returns whether any member other than a delta accepted
 * adds. */
bool slot_draft_seal(struct slot_draft *draft);

/* Inserts a member at the front. Returns false if there are too many members. */
bool slot_draft_put(struct slot_draft *draft, struct view_filter *shared, bg_role role,
                    bool queried, bool takes);

/* Returns a guard mark for the current point in time. */
struct guard_mark slot_mark(const bg_slot *slot);

/* Makes the draft the current view, in one atomic step. If the call fails with BG_ENOMEM, nothing
 * has changed. The call cannot fail if the current view has an old or a next filter that the draft
 * does not have (S3). */
bg_err slot_publish(bg_slot *slot, const struct slot_draft *draft, bg_errinfo *info);

/* Raises a number to at least `to`. */
BGI_INLINE void slot_raise(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t now = atomic_load(number);
    while (now < to && !atomic_compare_exchange_weak(number, &now, to)) {
    }
}

/* Starts the build of a base that will contain all keys. Returns the number of the build. When the
 * base is published, `whole` is set to this number. */
BGI_INLINE uint64_t slot_making(bg_slot *slot)
{
    return atomic_fetch_add(&slot->makings, 1) + 1;
}

/*
 * Returns true if the slot's gates do not trust a "no" from its filters (gate_doubt.c). Call this
 * function *before* querying the filter. If it returns false, the query that follows sees the base
 * that ended the doubt, or a later base. In the opposite order, a "no" from the old base could be
 * trusted because the new base had arrived in the meantime.
 */
BGI_INLINE bool slot_in_doubt(const bg_slot *slot)
{
    const uint64_t missed = atomic_load(&slot->missed);
    return missed != 0 && missed > atomic_load(&slot->whole);
}

/* Returns whether the base ended doubts; see (D3) in gate_doubt.c. */
BGI_INLINE bool slot_has_missed(const bg_slot *slot)
{
    const uint64_t first = atomic_load(&slot->first_missed);
    return first != 0 && first <= atomic_load(&slot->whole);
}

/* Records that the base of a new slot ended doubts in an earlier slot, which was freed. */
BGI_INLINE void slot_keep_missed(bg_slot *slot)
{
    const uint64_t making = slot_making(slot);
    atomic_store(&slot->first_missed, making);
    /* `whole` must be stored before `missed`, so that no thread sees a doubt. */
    atomic_store(&slot->whole, making);
    atomic_store(&slot->missed, making);
}

/* Records when the new base was published. */
void slot_base_came(bg_slot *slot);

/* Raises the completeness to `complete`, unless it is already higher. */
void slot_raise_complete(bg_slot *slot, uint64_t complete);

/* Lowers the completeness and remembers its highest value, even if an advance raises it at
 * the same time. */
void slot_lower_complete(bg_slot *slot, uint64_t complete);

const bg_allocator *slot_allocator(const bg_slot *slot);

/* Returns whether a filter can accept adds from several threads. */
bool slot_can_take(const bg_filter *filter);

/* A new base that was not created by the slot. */
struct slot_incoming {
    bg_filter *filter;
    uint64_t complete;
    uint32_t flags;
    uint64_t making; /* the result of slot_making when the filter was passed in */
    const bg_file_info *about; /* information about its file, or NULL */
};

/* Replaces the base. The caller holds slot->change. */
bg_err slot_swap_base(bg_slot *slot, const struct slot_incoming *incoming,
                      bg_errinfo *info);

/* Like bg_slot_save, but also returns the digest of the written file. (reload.c) */
bg_err slot_save(bg_slot *slot, const char *path, const bg_save_options *options,
                 uint8_t digest[BG_DIGEST_BYTES], bg_errinfo *info);

/* Finds filters whose mapped files have changed, and makes them answer "maybe". Returns whether
 * there are any such filters. (reload.c) */
bool slot_doubt_maps(bg_slot *slot);

uint64_t slot_now(const bg_slot *slot);

/* slot_counted increments a counter. slot_failed also records the reason for a failure. */
void slot_counted(bg_slot *slot, uint64_t *counter);
void slot_failed(bg_slot *slot, uint64_t *counter, const bg_errinfo *why);
void slot_set_rebuilding(bg_slot *slot, bool rebuilding);

uint64_t slot_sum_wrote(const bg_slot *slot);

/* Returns the filter whose pollution can be measured (health.c): the only filter that accepts
 * adds, if it is an unsharded Bloom filter. Otherwise returns NULL. */
const bg_filter *slot_watched(const struct view *view);

#endif

/*
 * slot.c - a slot, which holds a filter that can be replaced while it is being read. This file
 * creates and frees slots, and implements pins and fast changes. slot_keys.c contains the
 * operations on keys, reload.c loads and saves files, and rebuild.c builds new bases.
 *
 * A slot is one atomic pointer to an immutable view (view.h). A change creates a new view
 * and replaces the pointer. The old view is retired (grace.h) and freed when its last reader has
 * left.
 *
 * Why no key is lost. Suppose that an add in view A returned before a query in view B started.
 * Every change from one view to the next obeys these rules:
 *
 *   (S1) A filter that is queried in the old view and accepts or has accepted adds is queried in
 *        the new view, too, or is part of a filter that is queried there. This does not apply if
 *        the caller passed BG_SLOT_DISCARD, or asserted that the new filter is equally complete.
 *   (S2) A change stops querying a filter only if another filter joined the view at least one
 *        grace period earlier, has accepted every add since, and is queried after the change.
 *   (S3) A migration or a rebuild can always be ended. For this purpose, the slot reserves
 *        memory for one more view for each old or next filter in the list.
 *
 * If B is A, its filters contain the key (V2). If B is A's successor, (S1) applies. If there are
 * more changes in between, each change that drops a filter that contains the key happens at least
 * one grace period after the view in which another filter started to accept adds. All adds that did
 * not reach that other filter had returned by then. A change that relies on (S2) must provide the
 * keys of these older adds, either from a rebuild's source, which is read after the grace period,
 * or by a merge.
 *
 *     change          before                 after
 *     layer           base rw                base r, delta rw, and a grace period
 *     layer again     base r, d1 rw          base r, d1 r, d2 rw, and a grace period
 *     compact         base r, d1 r, d2 rw    base+d1 r, d2 rw
 *     migrate         base rw                new rw, old rw, and a grace period
 *     settle          new rw, old rw         new rw
 *     rebuild starts  base rw                base rw, next w, and a grace period
 *     rebuild ends    base rw, next w        next rw
 *     swap            base r                 new r       (sealed: there are no adds)
 *     clear           any                    an empty base, as DISCARD
 *
 * (r: queried, w: accepts adds.) guard.h describes the state that is kept across changes.
 *
 * Completeness. `complete` belongs to the view, but is read separately. So `complete` is read
 * twice, before and after the view is read. `complete` is lowered before a view is replaced and
 * raised afterwards, so the lower of the two values is valid for the view read in between.
 */
#include "base/monotonic.h"
#include "gate/slot_inside.h"

#include <string.h>

enum { SLOT_SAMPLE_BYTES = 1 << 20 }; /* sample size for counting a new base's bits */

uint64_t slot_now(const bg_slot *slot)
{
    return slot->clock(slot->context);
}

const bg_allocator *slot_allocator(const bg_slot *slot)
{
    return slot->allocator.allocate ? &slot->allocator : NULL;
}

bool slot_can_take(const bg_filter *filter)
{
    return !(bg_kind_traits(bg_filter_kind(filter)) & BG_TRAIT_STATIC)
           && !(filter->flags & BG_SPEC_EXCLUSIVE);
}

/* ---- Drafts of views ----------------------------------------------------------------- */

void slot_draft_begin(const bg_slot *slot, struct slot_draft *draft)
{
    const struct view *view = atomic_load(&slot->view);
    draft->count = view->count;
    draft->guard = view->guard;
    memcpy(draft->members, view->members, view->count * sizeof *view->members);
}

struct view_member *slot_draft_find(struct slot_draft *draft, bg_role role)
{
    for (size_t i = 0; i < draft->count; i++) {
        if (draft->members[i].role == role) {
            return &draft->members[i];
        }
    }
    return NULL;
}

void slot_draft_remove(struct slot_draft *draft, bg_role role)
{
    size_t kept = 0;
    for (size_t i = 0; i < draft->count; i++) {
        if (draft->members[i].role != role) {
            draft->members[kept++] = draft->members[i];
        }
    }
    draft->count = kept;
}

bool slot_draft_seal(struct slot_draft *draft)
{
    bool took = false;
    for (size_t i = 0; i < draft->count; i++) {
        struct view_member *member = &draft->members[i];
        took = took || (member->takes && member->role != BG_ROLE_DELTA);
        member->takes = false;
    }
    return took;
}

bool slot_draft_put(struct slot_draft *draft, struct view_filter *shared, bg_role role,
                    bool queried, bool takes)
{
    if (draft->count == VIEW_MAX) {
        return false;
    }
    memmove(draft->members + 1, draft->members, draft->count * sizeof *draft->members);
    draft->members[0] = (struct view_member){ .shared = shared,
                                              .filter = shared->filter,
                                              .role = role,
                                              .queried = queried,
                                              .takes = takes };
    draft->count++;
    return true;
}

/* ---- The next view ------------------------------------------------------------------- */

struct guard_mark slot_mark(const bg_slot *slot)
{
    /* The order of these loads matters; see bg_slot_advance. */
    const uint64_t advances = atomic_load(&slot->advances);
    const uint64_t complete = atomic_load(&slot->complete);
    const uint64_t highest = atomic_load(&slot->highest);
    return (struct guard_mark){ .complete = complete,
                                .number = complete > highest ? complete : highest,
                                .advances = advances };
}

static void slot_trim_spares(bg_slot *slot, size_t n)
{
    while (slot->spares > n) {
        bgi_memory_give(&slot->spare[--slot->spares]);
    }
}

/* Allocates memory for the draft's view, and for the later views that (S3) requires. */
static bool slot_take_memory(bg_slot *slot, const struct slot_draft *draft,
                             struct bgi_memory *memory)
{
    const size_t before = slot->spares;
    size_t need = 0;
    for (size_t i = 0; i < draft->count; i++) {
        const bg_role role = draft->members[i].role;
        need += role == BG_ROLE_OLD || role == BG_ROLE_NEXT;
    }
    if (before > need) {
        *memory = slot->spare[--slot->spares];
        slot_trim_spares(slot, need);
        return true;
    }
    bool taken = view_memory(memory, draft->count, slot_allocator(slot));
    while (taken && slot->spares < need) {
        taken = view_memory(&slot->spare[slot->spares], VIEW_MAX, slot_allocator(slot));
        slot->spares += taken;
    }
    if (!taken) {
        bgi_memory_give(memory);
        slot_trim_spares(slot, before);
    }
    return taken;
}

/* The base contains the keys of the removed filters, unless the caller discarded them. So the last
 * add to a removed filter counts as an add to the base. */
static void slot_inherit_adds(const struct view *before, const struct view *after)
{
    const struct view_member *base = view_find(after, BG_ROLE_BASE);
    for (size_t i = 0; base && i < before->count; i++) {
        struct view_filter *shared = before->members[i].shared;
        if (!view_has_filter(after, shared)) {
            view_filter_added(base->shared, atomic_load(&shared->added));
        }
    }
}

static bool slot_same_role(const struct view *a, const struct view *b, bg_role role)
{
    const struct view_member *in_a = view_find(a, role), *in_b = view_find(b, role);
    return (in_a ? in_a->shared : NULL) == (in_b ? in_b->shared : NULL);
}

/* Returns the sequence number of the next view's base. The old filter of a migration counts as part
 * of the base, because it is also queried. The bases of both views are compared, so that every kind
 * of change that replaces the base raises the number. */
static uint64_t slot_number_base(const struct view *before, const struct view *after)
{
    const bool same = slot_same_role(before, after, BG_ROLE_BASE)
                      && slot_same_role(before, after, BG_ROLE_OLD);
    return before->bases + !same;
}

bg_err slot_publish(bg_slot *slot, const struct slot_draft *draft, bg_errinfo *info)
{
    struct bgi_memory memory = { .base = NULL };
    if (!slot_take_memory(slot, draft, &memory)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the slot's list of filters");
    }
    struct view *view = view_make(memory, draft->members, draft->count, &draft->guard);
    struct view *before = atomic_load(&slot->view);
    slot_inherit_adds(before, view);
    view->bases = slot_number_base(before, view);
    atomic_store(&slot->view, view);
    bgi_grace_retire(slot->grace, &before->retired, view_release);
    return BG_OK;
}

/* ---- Lifecycle ----------------------------------------------------------------------- */

static bg_err slot_take_options(const bg_slot_options *options, bg_slot_options *to,
                                bg_errinfo *info)
{
    static const bg_slot_options usual = BG_SLOT_OPTIONS_INIT;
    *to = options ? *options : usual;
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_slot_options): use BG_SLOT_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->flags & ~(uint32_t)(BG_SLOT_SEALED | BG_SLOT_SMALL)) {
        return bgi_err(info, BG_EINVAL, "flags", "BG_SLOT_SEALED, BG_SLOT_SMALL or 0",
                       "0x%x", to->flags);
    }
    to->clock = to->clock ? to->clock : bgi_monotonic;
    return BG_OK;
}

static bg_err slot_check_filter(const bg_filter *filter, bool sealed, bg_errinfo *info)
{
    if (filter && !sealed && filter->flags & BG_SPEC_EXCLUSIVE) {
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter that several threads can use, or a sealed slot",
                       "BG_SPEC_EXCLUSIVE");
    }
    return BG_OK;
}

static void slot_init_locks(bg_slot *slot)
{
    (void)pthread_mutex_init(&slot->change, NULL);
    (void)pthread_mutex_init(&slot->reload, NULL);
    (void)pthread_mutex_init(&slot->info_lock, NULL);
}

static void slot_destroy_locks(bg_slot *slot)
{
    (void)pthread_mutex_destroy(&slot->change);
    (void)pthread_mutex_destroy(&slot->reload);
    (void)pthread_mutex_destroy(&slot->info_lock);
}

/* Allocates the slot, its counters and its grace period as one block. Returns NULL if out of
 * memory. */
static bg_slot *slot_allocate(const bg_slot_options *options)
{
    const uint32_t lines = options->flags & BG_SLOT_SMALL ? 1 : bgi_stripes();
    const size_t handle = (sizeof(bg_slot) + 63) / 64 * 64;
    const size_t counted = lines * sizeof(struct slot_line);
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory,
                         handle + counted + lines * sizeof(struct bgi_grace_line),
                         options->allocator, true)) {
        return NULL;
    }
    bg_slot *slot = memory.base;
    unsigned char *behind = (unsigned char *)memory.base + handle;
    slot->memory = memory;
    slot->lines = (struct slot_line *)(void *)behind;
    slot->lines_count = lines;
    if (options->allocator) {
        slot->allocator = *options->allocator;
    }
    slot->sealed = options->flags & BG_SLOT_SEALED;
    slot->clock = options->clock;
    slot->context = options->context;
    bgi_grace_init_at(&slot->own_grace,
                      (struct bgi_grace_line *)(void *)(behind + counted), lines);
    slot->grace = &slot->own_grace;
    atomic_init(&slot->complete, options->complete);
    slot_init_locks(slot);
    return slot;
}

/* Creates the first view, which contains the filter or is empty. */
static bool slot_begin(bg_slot *slot, bg_filter *filter)
{
    struct slot_draft draft = { .count = 0 };
    struct view_filter *shared = NULL;
    if (filter) {
        shared = view_filter_make(filter, slot_allocator(slot));
        if (!shared) {
            return false;
        }
        bool takes = !slot->sealed && slot_can_take(filter);
        (void)slot_draft_put(&draft, shared, BG_ROLE_BASE, true, takes);
    }
    struct bgi_memory memory;
    const bool taken = view_memory(&memory, draft.count, slot_allocator(slot));
    if (taken) {
        atomic_init(&slot->view,
                    view_make(memory, draft.members, draft.count, &draft.guard));
    } else if (shared) {
        shared->filter = NULL; /* still the caller's */
    }
    view_filter_drop(shared);
    return taken;
}

bg_err bg_slot_create(bg_filter *filter, const bg_slot_options *options, bg_slot **slot,
                      bg_errinfo *info)
{
    bg_slot_options how;
    if (!slot) {
        return bgi_err(info, BG_EINVAL, "slot", "a pointer to receive the slot",
                       "NULL");
    }
    *slot = NULL;
    bgi_err_clear(info);
    bg_err err = slot_take_options(options, &how, info);
    err = err ? err : slot_check_filter(filter, how.flags & BG_SLOT_SEALED, info);
    if (err) {
        return err;
    }
    bg_slot *made = slot_allocate(&how);
    if (made && slot_begin(made, filter)) {
        slot_base_came(made);
        *slot = made;
        return BG_OK;
    }
    bg_slot_free(made);
    return bgi_err_state(info, BG_ENOMEM, "memory",
                         "cannot allocate memory for the slot");
}

void bg_slot_free(bg_slot *slot)
{
    if (!slot) {
        return;
    }
    struct bgi_memory memory = slot->memory;
    struct view *view = atomic_load(&slot->view);
    bgi_grace_end(&slot->own_grace);
    if (view) {
        view_release(&view->retired);
    }
    slot_destroy_locks(slot);
    slot_trim_spares(slot, 0);
    bgi_memory_give(&slot->failure);
    bgi_memory_give(&memory);
}

/* Returns whether another thread is known to be using the slot or an address inside it. */
static bool slot_is_busy(bg_slot *slot)
{
    return slot->rebuilding || slot->grace != &slot->own_grace
           || !bgi_grace_is_idle(slot->grace)
           || !view_is_sole(atomic_load(&slot->view));
}

/* Locks are not moved but re-created at the new address. */
bg_err bg_slot_relocate(bg_slot **slot, const bg_mover *mover, bg_errinfo *info)
{
    if (!slot || !*slot || !mover || !mover->move) {
        return bgi_err(info, BG_EINVAL, "slot, mover", "a slot and a mover", "NULL");
    }
    bgi_err_clear(info);
    bg_slot *s = *slot;
    if (slot_is_busy(s)) {
        return bgi_err_state(info, BG_EBUSY, "slot", "cannot move the slot: %s",
                             s->rebuilding ? "a rebuild is in progress"
                                           : "it is pinned or in use");
    }
    atomic_init(&s->view, view_relocate(atomic_load(&s->view), mover));
    slot_destroy_locks(s);
    (void)pthread_mutex_destroy(&s->own_grace.lock);
    struct bgi_move move = bgi_memory_move(s->failure, mover);
    s->failure.base = bgi_moved(&move, s->failure.base);
    for (size_t i = 0; i < s->spares; i++) {
        move = bgi_memory_move(s->spare[i], mover);
        s->spare[i].base = bgi_moved(&move, s->spare[i].base);
    }
    move = bgi_memory_move(s->memory, mover);
    s = bgi_moved(&move, s);
    s->memory.base = bgi_moved(&move, s->memory.base);
    s->lines = bgi_moved(&move, s->lines);
    s->own_grace.lines = bgi_moved(&move, s->own_grace.lines);
    s->grace = &s->own_grace;
    (void)pthread_mutex_init(&s->own_grace.lock, NULL);
    slot_init_locks(s);
    *slot = s;
    return BG_OK;
}

/* ---- Pins ---------------------------------------------------------------------------- */

void bg_slot_pin(const bg_slot *slot, bg_pin *pin)
{
    bgi_grace_token token = 0;
    *pin = (bg_pin){ { NULL, NULL, NULL } };
    if (slot) {
        pin->opaque[0] = slot_enter(slot, &token);
        pin->opaque[1] = (const void *)(uintptr_t)token;
    }
}

void bg_slot_unpin(const bg_slot *slot, bg_pin *pin)
{
    if (slot && pin && pin->opaque[0]) {
        slot_leave(slot, (bgi_grace_token)(uintptr_t)pin->opaque[1]);
        pin->opaque[0] = NULL;
    }
}

const bg_filter *bg_pin_filter(const bg_pin *pin, size_t i, bg_role *role)
{
    const struct view *view = pin ? pin->opaque[0] : NULL;
    if (!view || i >= view->count) {
        return NULL;
    }
    if (role) {
        *role = view->members[i].role;
    }
    return view->members[i].filter;
}

/* ---- Changes ------------------------------------------------------------------------- */

/* The arguments of a change. */
struct slot_request {
    bg_filter *filter;
    uint64_t complete;
    uint64_t generation;
    uint32_t flags;
    uint64_t making; /* the build number of the filter that is swapped in */
    bool back;
    bool taken; /* the slot now owns the filter, even if the change fails later */
};

/* Performs one change under the lock, unless a rebuild is in progress. Then waits briefly for
 * readers of the replaced view. */
static bg_err slot_change(bg_slot *slot, struct slot_request *request,
                          bg_err (*change)(bg_slot *, struct slot_request *,
                                           bg_errinfo *),
                          bg_errinfo *info)
{
    bg_err err;
    bgi_err_clear(info);
    if (!slot) {
        return bgi_err(info, BG_EINVAL, "slot", "a slot", "NULL");
    }
    (void)pthread_mutex_lock(&slot->change);
    if (slot->rebuilding) {
        err = bgi_err_state(info, BG_EBUSY, "slot",
                            "a rebuild is in progress; wait for it or abort it");
    } else {
        err = change(slot, request, info);
    }
    (void)pthread_mutex_unlock(&slot->change);
    bgi_grace_wait_retired(slot->grace, SLOT_WAIT_MILLISECONDS);
    return err;
}

static bg_err slot_no_filter(bg_errinfo *info)
{
    return bgi_err(info, BG_EINVAL, "filter", "a filter", "NULL");
}

uint64_t slot_sum_wrote(const bg_slot *slot)
{
    uint64_t wrote = 0;
    for (uint32_t i = 0; i < slot->lines_count; i++) {
        wrote += atomic_load_explicit(&slot->lines[i].news, memory_order_relaxed)
                 + atomic_load_explicit(&slot->lines[i].again, memory_order_relaxed);
    }
    return wrote;
}

/*
 * Records the starting point for counting the bits that adds set. Most filters are new and empty,
 * or are large files that have not been read yet. Counting all bits would touch every page, so only
 * a sample is read. A sample has a known error, and finds no set bits in an empty filter.
 */
static void slot_adds_began(bg_slot *slot)
{
    const bg_filter *watched = slot_watched(atomic_load(&slot->view));
    bg_filter_info info = { .struct_size = sizeof info };
    double missed = 0;
    if (watched) {
        bgi_filter_info(watched, SLOT_SAMPLE_BYTES, &info, &missed);
    }
    (void)pthread_mutex_lock(&slot->info_lock);
    slot->marks.wrote = slot_sum_wrote(slot);
    slot->marks.ones = info.ones;
    slot->marks.missed = missed;
    (void)pthread_mutex_unlock(&slot->info_lock);
}

void slot_base_came(bg_slot *slot)
{
    const uint64_t now = slot_now(slot);
    slot_adds_began(slot);
    (void)pthread_mutex_lock(&slot->info_lock);
    slot->marks.base_since = now;
    (void)pthread_mutex_unlock(&slot->info_lock);
}

void slot_counted(bg_slot *slot, uint64_t *counter)
{
    (void)pthread_mutex_lock(&slot->info_lock);
    ++*counter;
    (void)pthread_mutex_unlock(&slot->info_lock);
}

void slot_failed(bg_slot *slot, uint64_t *counter, const bg_errinfo *why)
{
    (void)pthread_mutex_lock(&slot->info_lock);
    ++*counter;
    if (slot->failure.base
        || bgi_memory_take(&slot->failure, sizeof *why, slot_allocator(slot), true)) {
        *(bg_errinfo *)slot->failure.base = *why;
    }
    (void)pthread_mutex_unlock(&slot->info_lock);
}

void slot_set_rebuilding(bg_slot *slot, bool rebuilding)
{
    (void)pthread_mutex_lock(&slot->info_lock);
    slot->rebuilding = rebuilding;
    (void)pthread_mutex_unlock(&slot->info_lock);
}

/* Publishes the draft and drops the reference to its new filter. On failure, the caller owns the
 * filter again. */
static bg_err slot_publish_new(bg_slot *slot, const struct slot_draft *draft,
                               struct view_filter *shared, bg_errinfo *info)
{
    bg_err err = slot_publish(slot, draft, info);
    if (err) {
        shared->filter = NULL;
    }
    view_filter_drop(shared);
    return err;
}

static bg_err slot_no_memory(bg_errinfo *info)
{
    return bgi_err_state(info, BG_ENOMEM, "memory",
                         "cannot allocate memory for another filter in the slot");
}

static bg_err slot_too_many(struct view_filter *shared, bg_errinfo *info)
{
    shared->filter = NULL;
    view_filter_drop(shared);
    return bgi_err_state(info, BG_EBUSY, "slot",
                         "the slot has %d filters, the maximum; compact it first",
                         VIEW_MAX);
}

/* Describes the filters that a new base removes: the base and the old filter. */
static struct guard_drop slot_drop_base(const struct slot_draft *draft,
                                        uint64_t complete)
{
    struct guard_drop drop = { .complete = complete };
    for (size_t i = 0; i < draft->count; i++) {
        const struct view_member *member = &draft->members[i];
        if (member->role == BG_ROLE_BASE || member->role == BG_ROLE_OLD) {
            const uint64_t added = atomic_load(&member->shared->added);
            drop.takes = drop.takes || member->takes;
            drop.added = added > drop.added ? added : drop.added;
        }
    }
    return drop;
}

static bg_err slot_check_swap(const bg_slot *slot, const struct slot_draft *draft,
                              uint64_t complete, bg_errinfo *info)
{
    const struct guard_drop drop = slot_drop_base(draft, complete);
    if (!guard_loses(&draft->guard, &drop) && !slot_has_missed(slot)) {
        return BG_OK;
    }
    return bgi_err_state(
        info, BG_EINCOMPAT, "slot",
        "the base %s, which would be lost; pass BG_SLOT_DISCARD to discard those keys",
        drop.takes ? "may contain added keys" : "contains added keys");
}

/* Fails if the current base is newer than `incoming`. Such a base may have ended doubts about
 * keys that were written after `incoming` was passed in. If the current base were replaced, the
 * gate would report these keys as absent. */
static bg_err slot_check_order(const bg_slot *slot,
                               const struct slot_incoming *incoming, bg_errinfo *info)
{
    if (incoming->making < atomic_load(&slot->whole)) {
        return bgi_err_state(
            info, BG_EBUSY, "slot",
            "a newer base was published in the meantime; the older base was not installed");
    }
    return BG_OK;
}

/* Publishes the draft with its new base. */
static bg_err slot_publish_base(bg_slot *slot, struct slot_draft *draft,
                                struct view_filter *base, uint64_t complete,
                                bool discards, bg_errinfo *info)
{
    const bool layered = slot_draft_find(draft, BG_ROLE_DELTA) != NULL;
    const uint64_t before = atomic_load(&slot->complete);
    const uint64_t after = guard_complete(&draft->guard, layered, before, complete);
    guard_swapped(&draft->guard, discards);
    if (after < before) {
        slot_lower_complete(slot, after);
    }
    bg_err err = slot_publish_new(slot, draft, base, info);
    if (!err && after < before) {
        slot_lower_complete(slot, after);
    }
    slot_raise_complete(slot, err ? before : after);
    return err;
}

bg_err slot_swap_base(bg_slot *slot, const struct slot_incoming *incoming,
                      bg_errinfo *info)
{
    bg_filter *filter = incoming->filter;
    const bg_file_info *about = incoming->about;
    const bool discards = incoming->flags & BG_SLOT_DISCARD;
    struct slot_draft draft;
    slot_draft_begin(slot, &draft);
    const struct view_member *base = slot_draft_find(&draft, BG_ROLE_BASE);
    const bool layered = slot_draft_find(&draft, BG_ROLE_DELTA) != NULL;
    const bool sealed = base ? !base->takes : slot->sealed || layered;
    bg_err err = slot_check_order(slot, incoming, info);
    if (!err && !discards) {
        err = slot_check_swap(slot, &draft, incoming->complete, info);
    }
    err = err ? err : slot_check_filter(filter, sealed, info);
    if (err) {
        return err;
    }
    struct view_filter *shared = view_filter_make(filter, slot_allocator(slot));
    if (!shared) {
        return slot_no_memory(info);
    }
    slot_draft_remove(&draft, BG_ROLE_BASE);
    slot_draft_remove(&draft, BG_ROLE_OLD);
    (void)slot_draft_put(&draft, shared, BG_ROLE_BASE, true,
                         !sealed && slot_can_take(filter));
    if (about) {
        memcpy(shared->digest, about->digest_text, sizeof shared->digest);
        guard_filed(&draft.guard, about, shared->check);
    }
    err = slot_publish_base(slot, &draft, shared, incoming->complete, discards, info);
    if (!err) {
        slot_counted(slot, &slot->swaps);
        slot_base_came(slot);
        if (discards) { /* all earlier keys are in the base or were discarded */
            atomic_store(&slot->whole, incoming->making);
        }
    }
    return err;
}

static bg_err slot_swap(bg_slot *slot, struct slot_request *request, bg_errinfo *info)
{
    const struct slot_incoming incoming = { .filter = request->filter,
                                            .complete = request->complete,
                                            .flags = request->flags,
                                            .making = request->making };
    return incoming.filter ? slot_swap_base(slot, &incoming, info)
                           : slot_no_filter(info);
}

bg_err bg_slot_swap(bg_slot *slot, bg_filter *filter, uint64_t complete, uint32_t flags,
                    bg_errinfo *info)
{
    struct slot_request request = { .filter = filter,
                                    .complete = complete,
                                    .flags = flags,
                                    .making = slot ? slot_making(slot) : 0 };
    return slot_change(slot, &request, slot_swap, info);
}

static bg_err slot_migrate(bg_slot *slot, struct slot_request *request,
                           bg_errinfo *info)
{
    bg_filter *filter = request->filter;
    struct slot_draft draft;
    if (!filter) {
        return slot_no_filter(info);
    }
    slot_draft_begin(slot, &draft);
    struct view_member *base = slot_draft_find(&draft, BG_ROLE_BASE);
    if (!base || slot_draft_find(&draft, BG_ROLE_OLD)) {
        return base ? bgi_err_state(info, BG_EBUSY, "slot",
                                    "a migration is already in progress; end it first")
                    : bgi_err_state(info, BG_EINVAL, "slot",
                                    "the slot has no base to migrate from");
    }
    const bool takes = base->takes;
    bg_err err = slot_check_filter(filter, !takes, info);
    if (!err && takes && !slot_can_take(filter)) {
        err = bgi_err_state(info, BG_EINCOMPAT, "filter",
                            "the base accepts adds, but this %s filter does not; set a "
                            "delta first",
                            bg_kind_name(bg_filter_kind(filter)));
    }
    if (err) {
        return err;
    }
    struct view_filter *shared = view_filter_make(filter, slot_allocator(slot));
    if (!shared) {
        return slot_no_memory(info);
    }
    base->role = BG_ROLE_OLD;
    if (!slot_draft_put(&draft, shared, BG_ROLE_BASE, true, takes)) {
        return slot_too_many(shared, info);
    }
    err = slot_publish_new(slot, &draft, shared, info);
    if (!err) {
        slot_base_came(slot);
        bgi_grace_wait(slot->grace); /* (S2) */
    }
    return err;
}

bg_err bg_slot_begin_migration(bg_slot *slot, bg_filter *filter, bg_errinfo *info)
{
    struct slot_request request = { .filter = filter };
    return slot_change(slot, &request, slot_migrate, info);
}

static bg_err slot_settle(bg_slot *slot, struct slot_request *request, bg_errinfo *info)
{
    struct slot_draft draft;
    slot_draft_begin(slot, &draft);
    if (!slot_draft_find(&draft, BG_ROLE_OLD)) {
        return bgi_err_state(info, BG_EINVAL, "slot", "no migration is in progress");
    }
    const struct guard_drop drop = { .back = true };
    if (request->back && guard_loses(&draft.guard, &drop)) {
        return bgi_err_state(
            info, BG_EINCOMPAT, "slot",
            "a delta was merged into the new filter only; end the migration with back "
            "= false, or rebuild the slot");
    }
    guard_settled(&draft.guard);
    if (request->back) {
        slot_draft_remove(&draft, BG_ROLE_BASE);
        slot_draft_find(&draft, BG_ROLE_OLD)->role = BG_ROLE_BASE;
    } else {
        slot_draft_remove(&draft, BG_ROLE_OLD);
    }
    bg_err err = slot_publish(slot, &draft, info);
    if (!err) {
        slot_counted(slot, &slot->swaps);
        slot_base_came(slot);
    }
    return err;
}

bg_err bg_slot_end_migration(bg_slot *slot, bool back, bg_errinfo *info)
{
    struct slot_request request = { .back = back };
    return slot_change(slot, &request, slot_settle, info);
}

/* Checks that `delta` can accept a slot's adds. */
static bg_err slot_check_delta(const bg_filter *delta, bg_errinfo *info)
{
    if (!slot_can_take(delta)) {
        return bgi_err(info, BG_EINVAL, "delta",
                       "a filter that several threads can add to", "%s",
                       bg_kind_name(bg_filter_kind(delta)));
    }
    return BG_OK;
}

/* Seals all current filters and makes the delta accept adds. */
static bg_err slot_layer(bg_slot *slot, struct slot_request *request, bg_errinfo *info)
{
    bg_filter *delta = request->filter;
    struct slot_draft draft;
    size_t deltas = 0;
    bg_err err = delta ? slot_check_delta(delta, info) : slot_no_filter(info);
    if (err) {
        return err;
    }
    slot_draft_begin(slot, &draft);
    for (size_t i = 0; i < draft.count; i++) {
        deltas += draft.members[i].role == BG_ROLE_DELTA;
    }
    if (deltas > 1 || !slot_draft_find(&draft, BG_ROLE_BASE)) {
        return deltas > 1
                   ? bgi_err_state(info, BG_EBUSY, "slot",
                                   "the slot has %zu deltas; compact it first", deltas)
                   : bgi_err_state(info, BG_EINVAL, "slot", "the slot has no base");
    }
    const bool took = slot_draft_seal(&draft);
    struct view_filter *shared = view_filter_make(delta, slot_allocator(slot));
    if (!shared) {
        return slot_no_memory(info);
    }
    if (!slot_draft_put(&draft, shared, BG_ROLE_DELTA, true, true)) {
        return slot_too_many(shared, info);
    }
    guard_layered(&draft.guard, slot_mark(slot), took, deltas > 0);
    err = slot_publish_new(slot, &draft, shared, info);
    if (!err) {
        request->taken = true;
        slot_adds_began(slot);
        bgi_grace_wait(slot->grace); /* (S2): after this, sealed filters get no adds */
    }
    return err;
}

bg_err bg_slot_set_delta(bg_slot *slot, bg_filter *delta, bg_errinfo *info)
{
    struct slot_request request = { .filter = delta };
    return slot_change(slot, &request, slot_layer, info);
}

/* ---- Compaction ---------------------------------------------------------------------- */

/* Merges the deltas that no longer accept adds into a copy of the base, which replaces the base and
 * these deltas. */
static bg_err slot_merge_sealed(bg_slot *slot, bg_errinfo *info)
{
    struct slot_draft draft, next;
    bg_filter *merged = NULL;
    slot_draft_begin(slot, &draft);
    next = draft;
    next.count = 0;
    guard_compacted(&next.guard, slot_draft_find(&draft, BG_ROLE_OLD) != NULL);
    bg_err err =
        bg_filter_copy(slot_draft_find(&draft, BG_ROLE_BASE)->filter, &merged, info);
    for (size_t i = 0; i < draft.count && !err; i++) {
        struct view_member *member = &draft.members[i];
        if (member->role == BG_ROLE_DELTA && !member->takes) {
            err = bg_filter_merge(merged, member->filter, info);
        } else if (member->role != BG_ROLE_BASE) {
            next.members[next.count++] = *member;
        }
    }
    struct view_filter *shared =
        err ? NULL : view_filter_make(merged, slot_allocator(slot));
    if (!shared) {
        bg_filter_free(merged);
        return err ? err : slot_no_memory(info);
    }
    (void)slot_draft_put(&next, shared, BG_ROLE_BASE, true, false);
    err = slot_publish(slot, &next, info);
    view_filter_drop(shared);
    if (!err) {
        slot_counted(slot, &slot->compactions);
        slot_base_came(slot);
    }
    return err;
}

static bg_err slot_compact(bg_slot *slot, struct slot_request *request,
                           bg_errinfo *info)
{
    const struct view *view = atomic_load(&slot->view);
    const bool based = view_find(view, BG_ROLE_BASE) != NULL;
    /* A slot without a base can have deltas, because failed rebuilds leave their deltas in the
     * slot. */
    if (!based || !view_find(view, BG_ROLE_DELTA)) {
        return bgi_err_state(info, BG_EINVAL, "slot",
                             "cannot compact the slot: it has %s",
                             based ? "a base but no delta" : "no base");
    }
    bg_err err = request->filter ? slot_check_delta(request->filter, info)
                                 : slot_no_filter(info);
    /* If bg_slot_set_delta was called twice, or a compaction has failed, there is already a delta
     * that no longer accepts adds. It is merged first, because a slot with two deltas does not
     * accept another one. */
    if (!err && view_find_delta(view, false)) {
        err = slot_merge_sealed(slot, info);
    }
    err = err ? err : slot_layer(slot, request, info);
    return err ? err : slot_merge_sealed(slot, info);
}

bg_err bg_slot_compact(bg_slot *slot, bg_filter *delta, bg_errinfo *info)
{
    struct slot_request request = { .filter = delta };
    bg_err err = slot_change(slot, &request, slot_compact, info);
    if (!request.taken) {
        bg_filter_free(delta);
    }
    return err;
}

/* ---- Clearing ------------------------------------------------------------------------ */

/* Puts an empty filter with a member's spec into the draft, which becomes the filter's only
 * owner. */
static bg_err slot_put_empty(bg_slot *slot, const struct view_member *like, bool takes,
                             struct slot_draft *draft, bg_errinfo *info)
{
    bg_filter *empty = NULL;
    const uint32_t shared_flags = like->filter->flags & ~(uint32_t)BG_SPEC_EXCLUSIVE;
    bg_err err = bgi_filter_empty(like->filter, shared_flags, &empty, info);
    if (err) {
        return err;
    }
    struct view_filter *shared = view_filter_make(empty, slot_allocator(slot));
    if (!shared) {
        bg_filter_free(empty);
        return slot_no_memory(info);
    }
    (void)slot_draft_put(draft, shared, like->role, true, takes);
    return BG_OK;
}

/* Drafts the view of the cleared slot. The base accepts adds if any filter accepted adds before. A
 * static base cannot accept adds. So if the slot has a delta that accepts adds, the draft also
 * contains an empty delta. */
static bg_err slot_clear_draft(bg_slot *slot, struct slot_draft *draft,
                               bg_errinfo *info)
{
    const struct view *view = atomic_load(&slot->view);
    const struct view_member *base = view_find(view, BG_ROLE_BASE);
    if (!base) {
        return bgi_err_state(info, BG_ENOTFOUND, "slot",
                             "the slot has no base to clear");
    }
    const bool is_static =
        bg_kind_traits(bg_filter_kind(base->filter)) & BG_TRAIT_STATIC;
    const struct view_member *delta = is_static ? view_find_delta(view, true) : NULL;
    bg_err err = slot_put_empty(slot, base, view->takes && !is_static, draft, info);
    if (!err && delta) {
        err = slot_put_empty(slot, delta, true, draft, info);
    }
    return err;
}

/* Forgets the doubts that the base ended, because that base was cleared. Keys that were missing
 * from the base stay in doubt. */
static void slot_forget_missed(bg_slot *slot)
{
    const uint64_t whole = atomic_load(&slot->whole);
    (void)pthread_mutex_lock(&slot->info_lock);
    if (atomic_load(&slot->missed) <= whole) {
        atomic_store(&slot->missed, 0);
        atomic_store(&slot->first_missed, 0);
    } else if (atomic_load(&slot->first_missed) <= whole) {
        atomic_store(&slot->first_missed, whole + 1);
    }
    (void)pthread_mutex_unlock(&slot->info_lock);
}

static bg_err slot_clear(bg_slot *slot, struct slot_request *request, bg_errinfo *info)
{
    struct slot_draft draft = { .count = 0 };
    const struct guard_mark before = slot_mark(slot);
    (void)request;
    bg_err err = slot_clear_draft(slot, &draft, info);
    if (!err) {
        slot_lower_complete(slot, 0); /* precedes the view change; see Completeness */
        atomic_store(&slot->highest, 0);
        err = slot_publish(slot, &draft, info);
        slot_lower_complete(slot, 0);
    }
    if (err) {
        slot_raise(&slot->highest, before.number);
        slot_raise_complete(slot, before.complete);
    }
    for (size_t i = 0; i < draft.count; i++) {
        view_filter_drop(draft.members[i].shared);
    }
    if (!err) {
        slot_forget_missed(slot);
        slot_counted(slot, &slot->swaps);
        slot_base_came(slot);
    }
    return err;
}

bg_err bg_slot_clear(bg_slot *slot, bg_errinfo *info)
{
    struct slot_request request = { .filter = NULL };
    return slot_change(slot, &request, slot_clear, info);
}

/* ---- Generations --------------------------------------------------------------------- */

static bg_err slot_require_generation(bg_slot *slot, struct slot_request *request,
                                      bg_errinfo *info)
{
    struct slot_draft draft;
    slot_draft_begin(slot, &draft);
    if (request->generation <= draft.guard.generation) {
        return BG_OK;
    }
    draft.guard.generation = request->generation;
    return slot_publish(slot, &draft, info);
}

uint64_t bg_slot_generation(const bg_slot *slot)
{
    bgi_grace_token token;
    if (!slot) {
        return 0;
    }
    const uint64_t generation = slot_enter(slot, &token)->guard.generation;
    slot_leave(slot, token);
    return generation;
}

bg_err bg_slot_require_generation(bg_slot *slot, uint64_t generation, bg_errinfo *info)
{
    struct slot_request request = { .generation = generation };
    return slot_change(slot, &request, slot_require_generation, info);
}

/* ---- Changing the current filters ------------------------------------------------------ */

/* Checks, before anything is changed, that `other` can be merged into every filter that accepts
 * adds. Otherwise, some of these filters would be missing the keys of `other`. */
static bg_err slot_merge_check(const struct view *view, const bg_filter *other,
                               bg_errinfo *info)
{
    bg_err err = BG_OK;
    if (!view->takes) {
        return bgi_err_state(info, BG_ENOTSUP, "slot",
                             "no filter in the slot accepts adds");
    }
    for (size_t i = 0; i < view->count && !err; i++) {
        if (view->members[i].takes) {
            err = bgi_filter_merges(view->members[i].filter, other, info);
        }
    }
    return err;
}

/* Merges `other` into every member that accepts adds. If the next base of a rebuild does not have
 * enough space, it is marked as failed, but the merge succeeds. */
static bg_err slot_merge_each(const struct view *view, const bg_filter *other,
                              bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (size_t i = 0; i < view->count && !err; i++) {
        const struct view_member *member = &view->members[i];
        if (!member->takes) {
            continue;
        }
        err = bg_filter_merge(member->filter, other, member->queried ? info : NULL);
        if (err && !member->queried) {
            atomic_store(&member->shared->failed, true);
            err = BG_OK;
        }
    }
    return err;
}

/* Runs under the lock. Merging is allowed during a rebuild, because the view stays the same and
 * every filter that accepts adds gets the keys. The bits that are set by a merge are not attributed
 * to adds. */
bg_err bg_slot_merge(bg_slot *slot, const bg_filter *other, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!slot || !other) {
        return bgi_err(info, BG_EINVAL, "slot, other", "a slot and a filter", "NULL");
    }
    (void)pthread_mutex_lock(&slot->change);
    const struct view *view = atomic_load(&slot->view);
    bg_err err = slot_merge_check(view, other, info);
    if (!err) {
        err = slot_merge_each(view, other, info);
        /* The merged keys are unknown, so all "absent" answers are invalid. */
        (void)atomic_fetch_add(&slot->voided, 1);
        slot_note_add(slot, view);
        slot_adds_began(slot);
    }
    (void)pthread_mutex_unlock(&slot->change);
    return err;
}

bg_err bg_slot_rotate(bg_slot *slot, uint64_t now, bg_errinfo *info)
{
    bgi_grace_token token;
    bg_err err = BG_ENOTSUP;
    bgi_err_clear(info);
    if (!slot) {
        return bgi_err(info, BG_EINVAL, "slot", "a slot", "NULL");
    }
    const struct view *view = slot_enter(slot, &token);
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        if (member->takes && bg_filter_kind(member->filter) == BG_KIND_WINDOW) {
            err = bg_filter_rotate(member->filter, now, NULL);
        }
    }
    slot_leave(slot, token);
    return err ? bgi_err_state(info, err, "slot",
                               "the slot has no window filter that can be rotated")
               : BG_OK;
}

/* ---- Completeness -------------------------------------------------------------------- */

uint64_t bg_slot_complete_to(const bg_slot *slot)
{
    return slot ? atomic_load(&slot->complete) : 0;
}

void slot_raise_complete(bg_slot *slot, uint64_t complete)
{
    slot_raise(&slot->complete, complete);
}

void slot_lower_complete(bg_slot *slot, uint64_t complete)
{
    slot_raise(&slot->highest, atomic_exchange(&slot->complete, complete));
}

void slot_adds_unnumbered(bg_slot *slot)
{
    bgi_grace_token token;
    slot_note_add(slot, slot_enter(slot, &token));
    slot_leave(slot, token);
}

void bg_slot_advance(bg_slot *slot, uint64_t sequence)
{
    if (slot) {
        slot_raise_complete(slot, sequence);
        atomic_fetch_add(&slot->advances, 1); /* must come after the number is stored */
    }
}

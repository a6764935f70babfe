/*
 * window.c - a filter that forgets old keys. This file keeps track of the current period and
 * decides when it ends.
 *
 * Idea. Time, or the stream of adds, is divided into periods, and the window contains the keys of
 * the last g periods. A window of length W has periods of P = W / (g - 1). A key that was added at
 * any time in period p is found until period p + g starts:
 *
 *         period p      p+1         p+2        p+3 = p+g-1    p+g
 *     |......x........|..........|..........|..............|........     g = 4, W = 3 P
 *            added     <------------- W -------------------> dropped here
 *
 * So a key is dropped at least W and at most W + P = W g / (g - 1) after it was added. The maximum
 * holds only if periods end on time. Periods end only during adds and rotations, so a key stays in
 * the window as long as neither happens. (An aged window needs a few more periods to forget a key;
 * see aged.c.)
 *
 * Files. Only the time that a window spends in memory counts. A file contains the latest time that
 * the window had reached, and how much of the period had elapsed by then. The process that opens
 * the file may use a clock with the same speed but a different starting point. So the first time
 * value that the new clock reports is equated with the last time value of the old clock, and the
 * period continues from there. As the guarantee above requires, no period becomes shorter. No
 * period starts over either, so even a window that is often reopened forgets old keys. To continue
 * with the old clock (for replicas and logs), a caller first passes the time that is stored in the
 * file.
 *
 * Before a period can end, the area for the next period's keys, called its place, must be empty.
 * Every add clears WINDOW_STEP words of the place in advance, and the thread that ends the period
 * clears the rest. If more than one period has passed, this thread clears all places in between.
 *
 * Concurrency. A single word, `period`, holds the state. It is changed under a lock that threads
 * acquire to clear places or end periods. An add waits for the lock only if the period is over.
 *   (I1) A place is cleared for period q + 1 only while `period` is q or later, and this clearing
 *        is complete when `period` becomes q + 1 (release). So a thread that reads period q + 1
 *        (acquire) finds the place empty, except for keys that were added later.
 *   (I2) A reader loads `period` once. Let q be its value. The reader queries the places of the
 *        periods q - g + 1 .. q. If periods end in the meantime, these places may be cleared during
 *        the query, but their keys are older than W by the time the query returns. A reader never
 *        waits.
 *   (I3) An add loads `period`, adds the key to that period, and loads `period` again after a full
 *        fence. If `period` has changed, the add also adds the key to the new period, and so on.
 *        Let q be the value that the add loads last. When the add returns, all of the key's bits
 *        have been set, or found set, while `period` was still q. The thread that changes `period`
 *        executes a full fence between the change and any clearing. Because of the order of the two
 *        fences, the add's bits precede the clearing, and the place of period q is not cleared
 *        again until period q + g has started.
 *   (I4) If periods end during an add, bits that the add set in a place that was being cleared may
 *        remain. These bits belong to no live key and at worst cause a false positive. So a key is
 *        found if its add started less than W before the query returns.
 */
#include "bloomgate/window.h"
#include "base/checked.h"
#include "base/errinfo.h"
#include "filter/handle.h"
#include "hash/hasher.h"
#include "live/overflow.h"
#include "live/window_body.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW_STEP = 64, WINDOW_USUAL = 8 };

/* In files, period numbers and the number of elapsed ticks must be below WINDOW_END. */
#define WINDOW_END (UINT64_C(1) << 62)
#define WINDOW_FAR (UINT64_C(1) << 61)

static struct window *window_of(struct bgi_core *core)
{
    return (struct window *)(void *)core;
}

static const struct window *window_in(const struct bgi_core *core)
{
    return (const struct window *)(const void *)core;
}

static uint64_t window_period(const struct window *w)
{
    return __atomic_load_n(&w->period, __ATOMIC_ACQUIRE);
}

/* ---- Periods --------------------------------------------------------------------- */

/* Clears up to `words` more words of the next period's place. Called under the lock. */
static void window_clear_some(struct window *w, uint64_t words)
{
    uint64_t all = w->shape.body->wipe_words(w);
    uint64_t done = w->cleared;
    words = words < all - done ? words : all - done;
    w->shape.body->wipe(w, w->period, w->period + 1, done, words);
    __atomic_store_n(&w->cleared, done + words, __ATOMIC_RELAXED);
}

/* Makes `to` the current period, unless it is in the past. Called under the lock. */
static void window_turn(struct window *w, uint64_t to)
{
    uint64_t from = w->period, places = w->shape.places;
    if (to <= from) {
        return;
    }
    window_clear_some(w, UINT64_MAX);
    if (to > from + 1) {
        uint64_t after = to - from > places ? to - places : from + 1;
        w->shape.body->wipe(w, after, to, 0, UINT64_MAX);
    }
    __atomic_store_n(&w->cleared, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->added, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->filled, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&w->period, to, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- Time ------------------------------------------------------------------------ */

/* Returns the number of ticks from the start of the period to a time, or 0 for a time before the
 * start. Times are compared modulo 2^64, because a period may have started before the clock's
 * time 0. */
static uint64_t window_elapsed(const struct window *w, uint64_t now)
{
    uint64_t ticks = now - __atomic_load_n(&w->start, __ATOMIC_RELAXED);
    return ticks >> 63 ? 0 : ticks;
}

/* Returns the current time of the window's clock, or the latest time passed to the window if it has
 * no clock. */
static uint64_t window_time(const struct window *w)
{
    return w->based && w->options.clock ? w->options.clock(w->options.context)
                                        : w->moved;
}

/* Handles the first time value that a new clock reports. The period continues from the point that
 * it had reached with the previous clock. The first period of a new window starts at a multiple of
 * the period length. */
static void window_base(struct window *w, uint64_t now)
{
    const bool is_new = w->period == WINDOW_FIRST && !w->start && !w->moved;
    w->start = now - (is_new ? now % w->ticks : window_elapsed(w, w->moved));
    w->moved = now;
    w->based = true;
}

/* Returns the number of the period that is `periods` periods after the current one. Files require
 * period numbers below WINDOW_END. A jump of more than `places` periods forgets all keys. If such a
 * jump would end beyond WINDOW_FAR, it is replaced with a smaller jump that has the same effect. */
static uint64_t window_later(const struct window *w, uint64_t periods)
{
    const uint64_t places = w->shape.places;
    const bool far = periods > places && w->period + periods >= WINDOW_FAR;
    return w->period + (far ? places : periods);
}

/* Advances the window to the time `now`. Called under the lock. */
static void window_advance(struct window *w, uint64_t now)
{
    uint64_t periods = window_elapsed(w, now) / w->ticks;
    window_turn(w, window_later(w, periods));
    __atomic_store_n(&w->start, w->start + periods * w->ticks, __ATOMIC_RELAXED);
    w->moved = (now - w->moved) >> 63 ? w->moved : now;
}

/* Called before an add of n keys. Ends the period if it is over, and clears some words for the next
 * period. */
static void window_tick(struct window *w, unsigned n)
{
    if (w->ticks && w->options.clock) {
        uint64_t now = w->options.clock(w->options.context);
        if (window_elapsed(w, now) >= w->ticks) {
            window_lock(w);
            window_advance(w, now);
            window_unlock(w);
        }
    } else if (w->adds) {
        if (__atomic_fetch_add(&w->added, n, __ATOMIC_RELAXED) >= w->adds) {
            window_lock(w);
            if (__atomic_load_n(&w->added, __ATOMIC_RELAXED) >= w->adds) {
                window_turn(w, w->period + 1);
                __atomic_store_n(&w->added, n, __ATOMIC_RELAXED);
            }
            window_unlock(w);
        }
    }
    if (__atomic_load_n(&w->cleared, __ATOMIC_RELAXED) < w->shape.body->wipe_words(w)
        && window_try(w)) {
        window_clear_some(w, (uint64_t)WINDOW_STEP * n);
        window_unlock(w);
    }
}

/* Called after a put. Returns whether `period` is still the current period (I3). */
static bool window_still(const struct window *w, uint64_t period)
{
    if (window_exclusive(w)) {
        return true;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&w->period, __ATOMIC_ACQUIRE) == period;
}

/* ---- Keys ------------------------------------------------------------------------ */

static bool window_has(const struct bgi_core *core, uint64_t hash)
{
    const struct window *w = window_in(core);
    return w->shape.body->has(w, window_period(w), hash);
}

static bool window_add(struct bgi_core *core, uint64_t hash)
{
    struct window *w = window_of(core);
    window_tick(w, 1);
    uint64_t period = window_period(w);
    bool is_new = w->shape.body->put(w, period, hash);
    while (!window_still(w, period)) {
        period = window_period(w);
        (void)w->shape.body->put(w, period, hash);
    }
    return is_new;
}

static void window_locate(const struct bgi_core *core, struct bgi_group *group)
{
    const struct window *w = window_in(core);
    w->shape.body->locate(w, group);
}

static uint64_t window_has_group(const struct bgi_core *core,
                                 const struct bgi_group *group,
                                 const struct bgi_group *next)
{
    const struct window *w = window_in(core);
    return w->shape.body->has_group(w, window_period(w), group, next);
}

static uint64_t window_add_one_by_one(struct bgi_core *core,
                                      const struct bgi_group *group)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < group->n; i++) {
        answer |= (uint64_t)window_add(core, group->hashes[i]) << i;
    }
    return answer;
}

static uint64_t window_add_group(struct bgi_core *core, const struct bgi_group *group,
                                 const struct bgi_group *next)
{
    struct window *w = window_of(core);
    if (w->adds && __atomic_load_n(&w->added, __ATOMIC_RELAXED) + group->n > w->adds) {
        return window_add_one_by_one(core, group);
    }
    window_tick(w, group->n);
    uint64_t period = window_period(w);
    uint64_t is_new = w->shape.body->put_word(w, period, group, next);
    while (!window_still(w, period)) {
        period = window_period(w);
        (void)w->shape.body->put_word(w, period, group, NULL);
    }
    return is_new;
}

static const struct bgi_ops window_ops = {
    .has = window_has,
    .add = window_add,
    .locate = window_locate,
    .has_group = window_has_group,
    .add_group = window_add_group,
};

/* ---- Sizes ----------------------------------------------------------------------- */

static bg_err window_check_options(const bg_window_options *o, bg_errinfo *info)
{
    if (o->struct_size != sizeof *o) {
        return bgi_err(info, BG_EINVAL, "window.struct_size",
                       "sizeof(bg_window_options): use BG_WINDOW_OPTIONS_INIT", "%u",
                       o->struct_size);
    }
    if (o->mode != BG_WINDOW_GENERATIONS && o->mode != BG_WINDOW_AGED) {
        return bgi_err(info, BG_EINVAL, "window.mode", "a bg_window_mode", "%u",
                       o->mode);
    }
    if (o->generations == 1 || o->generations > WINDOW_GENERATIONS_MAX) {
        return bgi_err(info, BG_EINVAL, "window.generations", "2 to 64, or 0", "%u",
                       o->generations);
    }
    if (o->length && o->count) {
        return bgi_err(info, BG_EINVAL, "window.length, window.count",
                       "at most one of the two", "%llu and %llu",
                       (unsigned long long)o->length, (unsigned long long)o->count);
    }
    if (o->clock && !o->length) {
        return bgi_err(info, BG_EINVAL, "window.length",
                       "a length above 0 for a window with a clock", "0");
    }
    if (o->kind && o->mode == BG_WINDOW_AGED) {
        return bgi_err(info, BG_EINVAL, "window.kind", "0 for an aged window", "%u",
                       o->kind);
    }
    return BG_OK;
}

static bg_err window_check_spec(const bg_spec *spec, bg_errinfo *info)
{
    if (spec->bits_per_key != 0 || spec->bytes != 0) {
        return bgi_err(info, BG_EINVAL, "bits_per_key, bytes",
                       "0, because a window requires a rate", "%g, %llu",
                       spec->bits_per_key, (unsigned long long)spec->bytes);
    }
    if (!(spec->rate > 0 && spec->rate < 1)) {
        return bgi_err(info, BG_EINVAL, "rate", "a number above 0 and below 1", "%g",
                       spec->rate);
    }
    if (spec->folds || spec->width) {
        return bgi_err(info, BG_ENOTSUP, "folds, width", "0 for a window", "%u, %u",
                       spec->folds, spec->width);
    }
    if (spec->flags & (BG_SPEC_ONE_WINNER | BG_SPEC_SCATTERED)) {
        return bgi_err(info, BG_ENOTSUP, "flags",
                       "neither BG_SPEC_ONE_WINNER nor BG_SPEC_SCATTERED for a window",
                       "0x%x", spec->flags);
    }
    return BG_OK;
}

/* Gets the window options from a spec, checks them, and fills in the defaults. */
static bg_err window_options(const bg_spec *spec, bg_window_options *o,
                             bg_errinfo *info)
{
    static const bg_window_options usual = BG_WINDOW_OPTIONS_INIT;
    *o = spec->window ? *spec->window : usual;
    bg_err err = window_check_options(o, info);
    o->generations = o->generations ? o->generations : WINDOW_USUAL;
    return err;
}

static uint64_t window_share(uint64_t whole, uint32_t generations)
{
    assert(generations > 1);
    uint64_t parts = generations - 1;
    return whole / parts + (whole % parts != 0);
}

/* Returns the maximum number of layers that a generation may need, which is 0 if a period always
 * ends before its filter is full. */
static uint32_t window_layers_of(const struct window_shape *shape, uint64_t count)
{
    const bool may_grow =
        shape->body == &window_generations && shape->period_items > 0
        && !(count && window_share(count, shape->generations) <= shape->period_items);
    return may_grow ? overflow_layers(shape->generations) : 0;
}

static bg_err window_solve(const bg_spec *spec, double growth,
                           struct window_shape *shape, bg_errinfo *info)
{
    bg_window_options o = BG_WINDOW_OPTIONS_INIT;
    bg_err err = window_check_spec(spec, info);
    err = err ? err : window_options(spec, &o, info);
    if (err) {
        return err;
    }
    bg_spec sized = *spec;
    double items = (double)(spec->items ? spec->items : o.count) * growth;
    if (!(growth >= 1 && growth <= 1e6) || !bgi_u64_from_double(items, &sized.items)
        || sized.items > (uint64_t)1 << 56) {
        return bgi_err(info, BG_EINVAL, "items, growth",
                       "1 to 2^56, times a growth of 1 to 1000000", "%llu, %g",
                       (unsigned long long)spec->items, growth);
    }
    if (sized.items == 0) {
        return bgi_err(
            info, BG_EINVAL, "items",
            "the number of distinct keys in the window (or set window.count)", "0");
    }
    memset(shape, 0, sizeof *shape);
    shape->body = o.mode == BG_WINDOW_AGED ? &window_aged : &window_generations;
    shape->generations = o.generations;
    shape->period_items = window_share(sized.items, o.generations);
    shape->layers = window_layers_of(shape, o.count);
    err = shape->body->solve(&sized, shape, info);
    size_t unused;
    if (!err && !bgi_fits_size(shape->bytes, &unused)) {
        err =
            bgi_err_state(info, BG_ENOMEM, "size",
                          "the window is too large for the address space (%llu bytes)",
                          (unsigned long long)shape->bytes);
    }
    if (!err && spec->max_bytes && shape->bytes > spec->max_bytes) {
        err = bgi_err(info, BG_ENOMEM, "size in bytes", "at most max_bytes", "%llu",
                      (unsigned long long)shape->bytes);
    }
    shape->rate = err ? 0 : shape->body->rate(shape, (double)shape->period_items);
    return err;
}

/* ---- Life ------------------------------------------------------------------------ */

static bg_err window_handle(const struct window_shape *shape, const bg_spec *spec,
                            const bg_hasher *hasher, struct window **made,
                            bg_errinfo *info)
{
    struct bgi_memory memory;
    bg_err err =
        bgi_filter_take(&memory, sizeof **made, hasher, spec->allocator, true, info);
    if (err) {
        return err;
    }
    struct window *w = memory.base;
    bg_filter *f = &w->filter;
    bgi_filter_begin(f, &bgi_kind_window, &window_ops, spec, hasher);
    f->memory = memory;
    f->bytes = (size_t)shape->bytes;
    f->design_items = spec->items;
    f->design_rate = shape->rate;
    f->core.units = shape->part.units;
    f->core.k = shape->part.k;
    f->core.adds_prefetch = 1;
    f->core.lookups_prefetch = 1;
    w->shape = *shape;
    w->max_bytes = spec->max_bytes;
    *made = w;
    return BG_OK;
}

static void window_start(struct window *w, const bg_window_options *o)
{
    w->options = *o;
    w->ticks = o->length ? window_share(o->length, o->generations) : 0;
    w->adds = o->count ? window_share(o->count, o->generations) : 0;
    w->period = WINDOW_FIRST;
}

/* If a new window has a clock, starts the window in the period that contains the clock's current
 * time, so that windows with the same clock can be merged. */
static void window_begin(struct window *w)
{
    if (w->options.clock) {
        window_base(w, w->options.clock(w->options.context));
        uint64_t period = w->start / w->ticks;
        w->period += period < WINDOW_FAR ? period : 0;
    }
}

static bg_err window_create(const bg_spec *spec, bg_filter **filter, bg_errinfo *info)
{
    struct window_shape shape = { .body = NULL };
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_hasher hasher;
    struct window *w = NULL;
    bg_err err = window_solve(spec, 1, &shape, info);
    err = err ? err : window_options(spec, &options, info);
    err = err ? err : bg_hasher_init(&hasher, &spec->hash, info);
    if (err) {
        return err;
    }
    shape.rate = spec->rate;
    err = window_handle(&shape, spec, &hasher, &w, info);
    bg_hasher_wipe(&hasher);
    if (err) {
        return err;
    }
    assert(w && shape.body);
    window_start(w, &options);
    window_begin(w);
    err = shape.body->make(w, info);
    if (err) {
        bg_filter_free(&w->filter);
        return err;
    }
    w->cleared = shape.body->wipe_words(w); /* new memory is zeroed */
    *filter = &w->filter;
    return BG_OK;
}

static void window_destroy(bg_filter *filter)
{
    struct window *w = (struct window *)(void *)filter;
    w->shape.body->give(w);
}

/* Creates a handle with the same properties as the handle of `w`, but without a body. */
static bg_err window_handle_like(const struct window *w, uint32_t flags,
                                 struct window **made, bg_errinfo *info)
{
    const bg_filter *filter = &w->filter;
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = flags;
    spec.items = filter->design_items;
    spec.max_bytes = w->max_bytes;
    spec.allocator = filter->allocator.allocate ? &filter->allocator : NULL;
    return window_handle(&w->shape, &spec, &filter->hasher, made, info);
}

/* Starts `c` in the same period as `w`, whose lock is held. */
static void window_start_like(struct window *c, const struct window *w)
{
    window_start(c, &w->options);
    c->based = w->based;
    c->start = w->start;
    c->moved = w->moved;
    c->period = w->period;
}

static bg_err window_similar(const bg_filter *filter, uint32_t flags, bg_filter **empty,
                             bg_errinfo *info)
{
    struct window *w = (struct window *)(uintptr_t)filter; /* for the lock */
    struct window *e = NULL;
    bg_err err = window_handle_like(w, flags, &e, info);
    if (err) {
        return err;
    }
    assert(e);
    window_lock(w);
    window_start_like(e, w);
    window_unlock(w);
    err = e->shape.body->make(e, info);
    if (err) {
        bg_filter_free(&e->filter);
        return err;
    }
    e->cleared = e->shape.body->wipe_words(e); /* new memory is zeroed */
    *empty = &e->filter;
    return BG_OK;
}

/* Copies the window under its lock. Readers and most adds do not wait for this lock, but a rotation
 * does. */
static bg_err window_copy(const bg_filter *filter, bg_filter **copy, bg_errinfo *info)
{
    struct window *w = (struct window *)(uintptr_t)filter; /* for the lock */
    struct window *c = NULL;
    bg_err err = window_handle_like(w, filter->flags, &c, info);
    if (err) {
        return err;
    }
    assert(c);
    window_lock(w);
    window_start_like(c, w);
    c->cleared = w->cleared;
    c->added = __atomic_load_n(&w->added, __ATOMIC_RELAXED);
    err = w->shape.body->copy(c, w, info);
    window_unlock(w);
    if (err) {
        bg_filter_free(&c->filter);
        return err;
    }
    *copy = &c->filter;
    return BG_OK;
}

static void window_clear(bg_filter *filter)
{
    struct window *w = (struct window *)(void *)filter;
    w->shape.body->wipe(w, w->period - w->shape.places, w->period, 0, UINT64_MAX);
    w->cleared = 0;
    w->added = 0;
    w->filled = 0;
}

static uint64_t window_bytes(const bg_filter *filter)
{
    const struct window *w = (const struct window *)(const void *)filter;
    return filter->bytes + __atomic_load_n(&w->grown_bytes, __ATOMIC_RELAXED);
}

static uint32_t window_layers(const bg_filter *filter)
{
    return ((const struct window *)(const void *)filter)->shape.generations;
}

static void window_measure(const struct bgi_core *core, struct bgi_measure *m)
{
    const struct window *w = window_in(core);
    w->shape.body->measure(w, m);
}

/* ---- Two windows ----------------------------------------------------------------- */

static bg_err window_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info)
{
    const struct window *wa = (const struct window *)(const void *)a;
    const struct window *wb = (const struct window *)(const void *)b;
    if (wa->shape.body != wb->shape.body
        || wa->shape.generations != wb->shape.generations
        || wa->shape.part.kind != wb->shape.part.kind || wa->ticks != wb->ticks
        || wa->adds != wb->adds) {
        return bgi_err_state(info, BG_EINCOMPAT, "window",
                             "the windows differ in mode, kind, length, count or "
                             "generations");
    }
    const uint64_t first = window_period(wa), second = window_period(wb);
    return first == second
               ? BG_OK
               : bgi_err_state(
                   info, BG_EINCOMPAT, "period of the window",
                   "the windows are in different periods (%llu and %llu); create one "
                   "filter as a cleared copy of the other",
                   (unsigned long long)first, (unsigned long long)second);
}

/* Locks two windows, starting with the window that has the lower address, so that two merges cannot
 * deadlock. */
static void window_lock_two(struct window *a, struct window *b)
{
    bool swap = (uintptr_t)a > (uintptr_t)b;
    window_lock(swap ? b : a);
    window_lock(swap ? a : b);
}

/* Extends the current period of `w` so that it does not end before the current period of `other`
 * would have ended; otherwise the keys of `other` would be forgotten too early. Both windows are
 * locked. */
static void window_wait_for(struct window *w, const struct window *other)
{
    uint64_t mine = window_elapsed(w, window_time(w));
    uint64_t theirs = window_elapsed(other, window_time(other));
    if (w->ticks && theirs < mine) {
        __atomic_store_n(&w->start, w->start + (mine - theirs), __ATOMIC_RELAXED);
    }
}

static bg_err window_merge(struct bgi_core *to, const struct bgi_core *from,
                           bool exclusive)
{
    struct window *w = window_of(to);
    struct window *other = (struct window *)(uintptr_t)from; /* for the lock */
    (void)exclusive;
    window_lock_two(w, other);
    bg_err err =
        w->period == other->period ? w->shape.body->merge(w, other) : BG_EINCOMPAT;
    if (!err && w != other) {
        window_wait_for(w, other);
    }
    window_unlock(w);
    window_unlock(other);
    return err;
}

/* Compares the windows under both locks, because the current period determines which parts are
 * compared. */
static bool window_equal(const bg_filter *a, const bg_filter *b)
{
    struct window *w = (struct window *)(uintptr_t)a;
    struct window *other = (struct window *)(uintptr_t)b;
    if (w == other) {
        return true;
    }
    window_lock_two(w, other);
    const bool equal = w->period == other->period && w->shape.body->equal(w, other);
    window_unlock(w);
    window_unlock(other);
    return equal;
}

/* ---- In files -------------------------------------------------------------------- */

static void window_recipe(const bg_filter *filter, struct bgi_recipe *recipe)
{
    const struct window *w = (const struct window *)(const void *)filter;
    const struct bgi_kind *kind = w->shape.part.kind;
    recipe->window_mode = w->options.mode;
    recipe->window_kind = w->options.mode == BG_WINDOW_GENERATIONS ? kind->id : 0;
    recipe->generations = w->shape.generations;
    recipe->period_items = w->shape.period_items;
    recipe->length = w->options.length;
    recipe->count = w->options.count;
    if (w->ticks) {
        recipe->moved = window_time(w);
        uint64_t elapsed = window_elapsed(w, recipe->moved);
        recipe->elapsed = elapsed < WINDOW_END ? elapsed : WINDOW_END - 1;
    }
}

/* Gets the window options from a recipe, and the clock from the opening process. */
static bg_err window_recipe_options(const struct bgi_recipe *recipe,
                                    const bg_spec *spec, bg_window_options *o,
                                    bg_errinfo *info)
{
    *o = (bg_window_options)BG_WINDOW_OPTIONS_INIT;
    o->mode = recipe->window_mode;
    o->generations = recipe->generations;
    o->length = recipe->length;
    o->count = recipe->count;
    if (spec->window) {
        o->clock = spec->window->clock;
        o->context = spec->window->context;
    }
    return window_check_options(o, info);
}

static bg_err window_remake(const struct bgi_recipe *recipe, const bg_spec *how,
                            const bg_hasher *hasher, uint64_t room, bg_filter **filter,
                            bg_errinfo *info)
{
    struct window_shape shape = { .generations = recipe->generations,
                                  .period_items = recipe->period_items };
    bg_window_options options;
    struct window *w = NULL;
    bg_err err = window_recipe_options(recipe, how, &options, info);
    shape.body = options.mode == BG_WINDOW_AGED ? &window_aged : &window_generations;
    if (!err
        && (recipe->generations == 0 || !shape.body->reshape(recipe, &shape)
            || shape.bytes > room || recipe->elapsed >= WINDOW_END)) {
        err = bgi_err_state(
            info, BG_EFORMAT, "recipe",
            "the parameters of the window are invalid or do not match the size of the data "
            "(%u generations, k %u, size %llu)",
            recipe->generations, recipe->k, (unsigned long long)recipe->units);
    }
    if (err) {
        return err;
    }
    bg_spec spec = *how;
    spec.items = recipe->items;
    shape.rate = recipe->rate;
    shape.layers = window_layers_of(&shape, recipe->count);
    err = window_handle(&shape, &spec, hasher, &w, info);
    if (err) {
        return err;
    }
    assert(w);
    window_start(w, &options);
    w->moved = recipe->moved;
    w->start = recipe->moved - recipe->elapsed;
    err = shape.body->make(w, info);
    if (err) {
        bg_filter_free(&w->filter);
        return err;
    }
    *filter = &w->filter;
    return BG_OK;
}

static bg_filter **window_part(const bg_filter *filter, uint32_t i)
{
    struct window *w = (struct window *)(uintptr_t)filter;
    if (w->options.mode != BG_WINDOW_GENERATIONS) {
        return NULL;
    }
    return i < w->shape.places ? &w->parts[i] : overflow_part(w, i - w->shape.places);
}

static struct bgi_memory *window_more(bg_filter *filter)
{
    return &((struct window *)(void *)filter)->memory;
}

enum { WINDOW_NUMBERS = 3 };

static uint64_t window_numbers(const bg_filter *filter, uint64_t *to)
{
    const struct window *w = (const struct window *)(const void *)filter;
    if (to) {
        to[0] = window_period(w);
        to[1] = __atomic_load_n(&w->cleared, __ATOMIC_RELAXED);
        to[2] = __atomic_load_n(w->adds ? &w->added : &w->filled, __ATOMIC_RELAXED);
    }
    return WINDOW_NUMBERS + overflow_numbers(w, to ? to + WINDOW_NUMBERS : NULL);
}

/* Restores a window. The current period continues where it stopped, regardless of the clock's
 * current time. The time that the window has spent in a file does not count, so no key is forgotten
 * too early. */
static bg_err window_restore(bg_filter *filter, const uint64_t *numbers, uint64_t n,
                             uint64_t room)
{
    struct window *w = (struct window *)(void *)filter;
    if (n < WINDOW_NUMBERS || numbers[0] < WINDOW_FIRST || numbers[0] >= WINDOW_END) {
        return BG_EFORMAT;
    }
    w->period = numbers[0];
    w->cleared = numbers[1];
    w->added = w->adds ? numbers[2] : 0;
    w->filled = w->adds ? 0 : numbers[2];
    bg_err err =
        overflow_restore(w, numbers + WINDOW_NUMBERS, n - WINDOW_NUMBERS, room);
    if (!err && w->cleared > w->shape.body->wipe_words(w)) {
        err = BG_EFORMAT;
    }
    if (!err && w->options.clock) {
        window_base(w, w->options.clock(w->options.context));
    }
    return err;
}

/* ---- Planning -------------------------------------------------------------------- */

static bg_err window_plan(const bg_spec *spec, double growth, bg_plan *plan,
                          bg_errinfo *info)
{
    struct window_shape shape = { .body = NULL };
    bg_err err = window_solve(spec, growth, &shape, info);
    if (err) {
        return err;
    }
    assert(shape.body);
    bool aged = shape.body == &window_aged;
    double n = (double)shape.period_items;
    plan->kind = BG_KIND_WINDOW;
    plan->k = shape.part.k;
    plan->items =
        (uint64_t)((double)(spec->items ? spec->items : spec->window->count) * growth);
    plan->units = shape.part.units;
    plan->bytes = shape.bytes;
    plan->bits_per_key = 8 * (double)shape.bytes / (double)plan->items;
    plan->rate = shape.rate;
    plan->rate_2x = shape.body->rate(&shape, 2 * n);
    plan->rate_10x = shape.body->rate(&shape, 10 * n);
    plan->layers = aged ? shape.slices : shape.generations;
    plan->lines_per_lookup =
        aged ? 1 + (shape.row_bits == 64)
             : shape.generations * shape.part.kind->lines(shape.part.k);
    (void)snprintf(plan->reason, sizeof plan->reason,
                   "window: as requested; %u generations of %llu keys, %s",
                   shape.generations, (unsigned long long)shape.period_items,
                   aged ? "age slices" : bg_kind_name(shape.part.kind->id));
    return BG_OK;
}

/* ---- Rotation -------------------------------------------------------------------- */

/* Clears a fraction of the next period's place equal to the fraction of the current period that has
 * elapsed. */
static void window_clear_share(struct window *w)
{
    double share = (double)window_elapsed(w, w->moved) / (double)w->ticks;
    uint64_t due = (uint64_t)(share * (double)w->shape.body->wipe_words(w));
    if (due > w->cleared) {
        window_clear_some(w, due - w->cleared);
    }
}

/* Returns the earlier of `now` and the time of the window's own clock. If `now` is later than the
 * window's own time, it comes from a different clock, such as the clock of the process that wrote a
 * log. Advancing the window to such a time would forget keys too early. */
static uint64_t window_reached(const struct window *w, uint64_t now)
{
    const uint64_t most = w->options.clock ? w->options.clock(w->options.context) : now;
    return (most - now) >> 63 ? most : now;
}

static void window_rotate(struct window *w, uint64_t now)
{
    window_lock(w);
    if (!w->ticks) {
        window_turn(w, w->period + 1);
    } else {
        now = window_reached(w, now);
        if (!w->based) {
            window_base(w, now);
        }
        window_advance(w, now);
        window_clear_share(w);
    }
    window_unlock(w);
}

static const struct bgi_composed window_composed = {
    .create = window_create,
    .destroy = window_destroy,
    .copy = window_copy,
    .clear = window_clear,
    .similar = window_similar,
    .bytes = window_bytes,
    .layers = window_layers,
    .equal = window_equal,
    .match = window_match,
    .plan = window_plan,
    .recipe = window_recipe,
    .remake = window_remake,
    .part = window_part,
    .more = window_more,
    .numbers = window_numbers,
    .restore = window_restore,
};

const struct bgi_kind bgi_kind_window = {
    .id = BG_KIND_WINDOW,
    .traits = BG_TRAIT_MERGE,
    .merge = window_merge,
    .measure = window_measure,
    .composed = &window_composed,
};

bg_err bg_filter_rotate(bg_filter *filter, uint64_t now, bg_errinfo *info)
{
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a filter", "NULL");
    }
    bgi_err_clear(info);
    if (filter->kind != &bgi_kind_window) {
        return bgi_err(info, BG_ENOTSUP, "kind", "window", "%s",
                       bg_kind_name(filter->kind->id));
    }
    window_rotate((struct window *)(void *)filter, now);
    return BG_OK;
}

uint64_t bg_filter_window_time(const bg_filter *filter)
{
    if (!filter || filter->kind != &bgi_kind_window) {
        return 0;
    }
    struct window *w = (struct window *)(uintptr_t)filter; /* for the lock */
    window_lock(w);
    uint64_t moved = w->moved;
    window_unlock(w);
    return moved;
}

uint64_t bg_filter_window_period(const bg_filter *filter)
{
    return filter && filter->kind == &bgi_kind_window
               ? window_period((const struct window *)(const void *)filter)
               : 0;
}

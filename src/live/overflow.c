/* overflow.c - see overflow.h. */
#include "live/overflow.h"

#include <assert.h>
#include <math.h>

/* The maximum ratio of a layer's bits per key to the bits per key of the generation's filter. A
 * layer needs more bits per key because its rate is lower. Ratios of about 20 occur if the
 * generation's filter is a single cache line. */
enum { OVERFLOW_LARGER = 256 };

uint32_t overflow_layers(uint32_t generations)
{
    uint32_t layers = 0;
    /* A share is n / (g - 1) keys. The filter and its layers hold 2^(layers + 1) - 1 shares, and
     * must hold at least g - 1 shares. */
    while ((uint64_t)2 << layers < generations) {
        layers++;
    }
    return layers;
}

/* ---- Sizes ----------------------------------------------------------------------- */

/* Returns whether the size of a layer is plausible compared with the generation's filter. This
 * check is needed because the number of keys can come from a file, which may contain any value. */
static bool overflow_is_due(const struct window_shape *shape, uint32_t level,
                            const struct bgi_geometry *geometry)
{
    uint64_t own = 0, bytes = 0;
    return bgi_geometry_bytes(&shape->part, &own)
           && bgi_geometry_bytes(geometry, &bytes)
           && (bytes >> level) / OVERFLOW_LARGER <= own;
}

/* Computes the geometry of a layer. Returns false if the kind cannot achieve the layer's rate. */
static bool overflow_geometry(const struct window_shape *shape, uint32_t level,
                              struct bgi_geometry *geometry)
{
    const struct bgi_geometry *own = &shape->part;
    double full =
        bgi_kind_rate(own->kind, own->units, own->k, (double)shape->period_items);
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)own->kind->id;
    spec.items = shape->period_items << level;
    spec.rate = ldexp(full / OVERFLOW_OWN, -(int)level);
    return spec.rate > 0 && spec.rate < 1
           && bgi_solve(&spec, 1, geometry, NULL) == BG_OK
           && overflow_is_due(shape, level, geometry);
}

/* Returns the logarithm of the probability that a filter with n keys excludes an absent key. Very
 * low rates would be lost in the probability itself. */
static double overflow_right(const struct bgi_geometry *g, double n)
{
    return log1p(-fmin(bgi_kind_rate(g->kind, g->units, g->k, n), 1 - 1e-12));
}

double overflow_rate(const struct window_shape *shape, double n)
{
    double share = (double)shape->period_items;
    double own = shape->layers ? fmin(n, share) : n;
    double right = overflow_right(&shape->part, own), rest = n - own;
    for (uint32_t level = 1; rest > 0; level++) {
        struct bgi_geometry g;
        if (!overflow_geometry(shape, level, &g)) {
            return -expm1(overflow_right(&shape->part, n));
        }
        double some =
            level < shape->layers ? fmin(rest, ldexp(share, (int)level)) : rest;
        right += overflow_right(&g, some);
        rest -= some;
    }
    return -expm1(right);
}

/* ---- The table ------------------------------------------------------------------- */

static uint32_t overflow_places(const struct window *w)
{
    return w->shape.layers * w->shape.places;
}

/* Returns the table entry at a position. The table must exist. */
static bg_filter **overflow_at(const struct window *w, uint32_t place)
{
    return (bg_filter **)w->memory.base + place;
}

static uint32_t overflow_place(const struct window *w, uint64_t period, uint32_t level)
{
    return (level - 1) * w->shape.places + (uint32_t)(period % w->shape.places);
}

bg_filter *overflow_layer(const struct window *w, uint64_t period, uint32_t level)
{
    return overflow_any(w) ? __atomic_load_n(
               overflow_at(w, overflow_place(w, period, level)), __ATOMIC_ACQUIRE)
                           : NULL;
}

/* Stores a layer in the table. Called under the lock, or before other threads can access the
 * window. */
static bool overflow_put(struct window *w, uint32_t place, bg_filter *layer)
{
    const bg_allocator *own = &w->filter.allocator;
    if (!w->memory.base
        && !bgi_memory_take(&w->memory, overflow_places(w) * sizeof(void *),
                            own->allocate ? own : NULL, true)) {
        return false;
    }
    __atomic_store_n(overflow_at(w, place), layer, __ATOMIC_RELEASE);
    __atomic_store_n(&w->grown_bytes, w->grown_bytes + layer->bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&w->grown, w->grown + 1, __ATOMIC_RELEASE);
    return true;
}

/* Returns whether the window takes at most `most` bytes with one more layer. If `most` is 0, there
 * is no limit. */
static bool overflow_fits(const struct window *w, const struct bgi_geometry *g,
                          uint64_t most)
{
    uint64_t bytes = 0, all = w->filter.bytes + w->grown_bytes;
    return bgi_geometry_bytes(g, &bytes)
           && (!most || (all <= most && bytes <= most - all));
}

/* Creates an empty layer with this geometry. Returns false if there is not enough memory. */
static bool overflow_make(struct window *w, uint32_t place,
                          const struct bgi_geometry *g)
{
    bg_filter *layer = NULL;
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = w->filter.flags;
    spec.allocator = w->filter.allocator.allocate ? &w->filter.allocator : NULL;
    if (bgi_filter_make(g, &spec, &w->filter.hasher, &layer, NULL) != BG_OK) {
        return false;
    }
    assert(layer);
    bool put = overflow_put(w, place, layer);
    if (!put) {
        bg_filter_free(layer);
    }
    return put;
}

/* Creates a layer for the current period. Called under the lock. */
static bool overflow_grow(struct window *w, uint32_t level)
{
    struct bgi_geometry g;
    return overflow_layer(w, w->period, level)
           || (overflow_geometry(&w->shape, level, &g)
               && overflow_fits(w, &g, w->max_bytes)
               && overflow_make(w, overflow_place(w, w->period, level), &g));
}

bg_filter *overflow_take(struct window *w, uint64_t period, uint32_t level)
{
    bg_filter *layer = overflow_layer(w, period, level);
    if (!layer && __atomic_load_n(&w->stuck, __ATOMIC_RELAXED) != period) {
        window_lock(w);
        if (w->period == period && !overflow_grow(w, level)) {
            __atomic_store_n(&w->stuck, period, __ATOMIC_RELAXED);
        }
        window_unlock(w);
    }
    for (; level > 0 && !layer; level--) {
        layer = overflow_layer(w, period, level);
    }
    return layer;
}

/* ---- Keys ------------------------------------------------------------------------ */

bool overflow_has(const struct window *w, uint64_t oldest, uint64_t youngest,
                  uint64_t hash)
{
    for (uint64_t p = youngest; overflow_any(w) && p >= oldest; p--) {
        for (uint32_t level = 1; level <= w->shape.layers; level++) {
            const bg_filter *layer = overflow_layer(w, p, level);
            if (layer && layer->core.has(&layer->core, hash)) {
                return true;
            }
        }
    }
    return false;
}

uint64_t overflow_has_group(const struct window *w, uint64_t period,
                            const struct bgi_group *group)
{
    uint64_t found = 0;
    for (unsigned i = 0; overflow_any(w) && i < group->n; i++) {
        bool has = overflow_has(w, period - w->shape.generations + 1, period,
                                group->hashes[i]);
        found |= (uint64_t)has << i;
    }
    return found;
}

/* ---- Forgetting ------------------------------------------------------------------ */

uint64_t overflow_words(const struct window *w, uint64_t period)
{
    uint64_t words = 0;
    for (uint32_t level = 1; overflow_any(w) && level <= w->shape.layers; level++) {
        const bg_filter *layer = overflow_layer(w, period, level);
        words += layer ? layer->bytes / 8 : 0;
    }
    return words;
}

void overflow_wipe(struct window *w, uint64_t period, uint64_t first, uint64_t words)
{
    for (uint32_t level = 1; overflow_any(w) && level <= w->shape.layers; level++) {
        const bg_filter *layer = overflow_layer(w, period, level);
        uint64_t all = layer ? layer->bytes / 8 : 0;
        for (; first < all && words > 0; first++, words--) {
            __atomic_store_n(&bgi_filter_words(layer)[first], 0, __ATOMIC_RELAXED);
        }
        first = first < all ? first : first - all;
    }
}

/* ---- All of them ----------------------------------------------------------------- */

void overflow_give(struct window *w)
{
    for (uint32_t i = 0; w->grown && i < overflow_places(w); i++) {
        bg_filter_free(*overflow_at(w, i));
    }
    w->grown = 0;
    bgi_memory_give(&w->memory);
}

bg_err overflow_copy(struct window *to, const struct window *from)
{
    to->filled = __atomic_load_n(&from->filled, __ATOMIC_RELAXED);
    for (uint32_t i = 0; from->grown && i < overflow_places(from); i++) {
        bg_filter *layer = NULL;
        if (!*overflow_at(from, i)) {
            continue;
        }
        if (bg_filter_copy(*overflow_at(from, i), &layer, NULL) != BG_OK
            || !overflow_put(to, i, layer)) {
            bg_filter_free(layer);
            return BG_ENOMEM;
        }
    }
    return BG_OK;
}

/* First creates the layers that exist only in the other window, so that no keys are added if a
 * layer cannot be created. A merged layer contains the keys of both layers and may exceed its rate,
 * as in a scalable filter. */
bg_err overflow_merge(struct window *to, const struct window *from)
{
    bg_err err = BG_OK;
    for (uint32_t i = 0; from->grown && i < overflow_places(from); i++) {
        const bg_filter *layer = *overflow_at(from, i);
        bool there = to->grown && *overflow_at(to, i);
        struct bgi_geometry g;
        if (!layer || there) {
            continue;
        }
        if (bgi_recipe_plain(layer->kind, layer->core.units, layer->core.k, &g) != BG_OK
            || !overflow_fits(to, &g, to->max_bytes) || !overflow_make(to, i, &g)) {
            return BG_ENOMEM;
        }
    }
    for (uint32_t i = 0; from->grown && i < overflow_places(from) && !err; i++) {
        const bg_filter *layer = *overflow_at(from, i);
        err = layer ? bg_filter_merge(*overflow_at(to, i), layer, NULL) : BG_OK;
    }
    uint64_t theirs = __atomic_load_n(&from->filled, __ATOMIC_RELAXED);
    uint64_t ours = __atomic_load_n(&to->filled, __ATOMIC_RELAXED);
    while (!err && ours < theirs /* concurrent adds may still increment `filled` */
           && !__atomic_compare_exchange_n(&to->filled, &ours, theirs, true,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return err;
}

static bool overflow_is_empty(const bg_filter *layer)
{
    bool empty = true;
    for (size_t i = 0; layer && i < layer->bytes / 8 && empty; i++) {
        empty = __atomic_load_n(&bgi_filter_words(layer)[i], __ATOMIC_RELAXED) == 0;
    }
    return empty;
}

bool overflow_equal(const struct window *a, const struct window *b)
{
    bool equal = true;
    for (uint32_t i = 0; i < a->shape.generations && equal; i++) {
        for (uint32_t level = 1; level <= a->shape.layers && equal; level++) {
            const bg_filter *one = overflow_layer(a, a->period - i, level);
            const bg_filter *other = overflow_layer(b, a->period - i, level);
            equal = one && other ? bg_filter_equal(one, other)
                                 : overflow_is_empty(one) && overflow_is_empty(other);
        }
    }
    return equal;
}

uint64_t overflow_saturated(const struct window *w)
{
    uint64_t filled = __atomic_load_n(&w->filled, __ATOMIC_RELAXED);
    uint64_t period = __atomic_load_n(&w->period, __ATOMIC_ACQUIRE);
    uint64_t room = w->shape.period_items;
    for (uint32_t level = 1; level <= w->shape.layers; level++) {
        room += overflow_layer(w, period, level) ? w->shape.period_items << level : 0;
    }
    return w->shape.layers && filled > room ? filled - room : 0;
}

/* ---- In files -------------------------------------------------------------------- */

enum { OVERFLOW_NUMBERS = 3 }; /* numbers per layer: place, units and k */

bg_filter **overflow_part(const struct window *w, uint32_t i)
{
    for (uint32_t place = 0; w->grown && place < overflow_places(w); place++) {
        if (*overflow_at(w, place) && i-- == 0) {
            return overflow_at(w, place);
        }
    }
    return NULL;
}

uint64_t overflow_numbers(const struct window *w, uint64_t *to)
{
    uint64_t n = 0;
    if (!w->grown && !(w->adds && w->shape.layers)) {
        return 0; /* window_numbers already stores `filled` */
    }
    if (to) {
        to[n] = __atomic_load_n(&w->filled, __ATOMIC_RELAXED);
    }
    n++;
    for (uint32_t place = 0; w->grown && place < overflow_places(w); place++) {
        const bg_filter *layer = *overflow_at(w, place);
        if (layer && to) {
            to[n] = place;
            to[n + 1] = layer->core.units;
            to[n + 2] = layer->core.k;
        }
        n += layer ? OVERFLOW_NUMBERS : 0;
    }
    return n;
}

bg_err overflow_restore(struct window *w, const uint64_t *numbers, uint64_t n,
                        uint64_t room)
{
    uint64_t after = 0; /* the places in a file are in ascending order */
    if (n == 0) {
        return BG_OK;
    }
    if (!w->shape.layers || n % OVERFLOW_NUMBERS != 1 || (n == 1 && !w->adds)) {
        return BG_EFORMAT; /* the library never writes such a file */
    }
    w->filled = numbers[0];
    for (uint64_t i = 1; i < n; i += OVERFLOW_NUMBERS) {
        struct bgi_geometry g;
        if (numbers[i] < after || numbers[i] >= overflow_places(w)
            || numbers[i + 2] >> 32
            || bgi_recipe_plain(w->shape.part.kind, numbers[i + 1],
                                (uint32_t)numbers[i + 2], &g)
                   != BG_OK
            || !overflow_fits(w, &g, room)) {
            return BG_EFORMAT;
        }
        if (!overflow_make(w, (uint32_t)numbers[i], &g)) {
            return BG_ENOMEM;
        }
        after = numbers[i] + 1;
    }
    return BG_OK;
}

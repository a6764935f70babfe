/*
 * generations.c - a window with one filter per generation.
 *
 * Idea. The keys of a period are added to the filter of that period. A lookup queries the filters
 * of all live periods. The oldest filter is cleared as a whole. Any kind whose empty filter is all
 * zeros can be used.
 *
 *     period        q-3        q-2        q-1         q        q+1
 *     filter     [ 3.....]  [ 0.....]  [ 1.....]  [ 2.....]  [ clearing ]     generations = 4
 *                                                  adds
 *
 * Layout. The keys of period p are in filter p mod (generations + 1). There is one more filter
 * than there are generations, so that the filter of the next period can be cleared while all other
 * filters are in use.
 *
 * Rate. A generation that holds its share of the items has the rate 1 - (1 - rate)^(1/g), so g full
 * generations together have the window's rate. At a rate of 1% and 24 generations, each generation
 * has a rate of 0.042%, which takes 18 bits per key in blocked filters. The window also needs a
 * spare filter, and g generations cover only g - 1 full periods, so it needs 19.5 bits per key in
 * total. If a period can have more keys than its share, part of the rate is reserved for its
 * additional layers (overflow.h).
 *
 * Cost. A lookup of an absent key reads one cache line in each of g filters.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "base/errinfo.h"
#include "live/layers.h"
#include "live/overflow.h"
#include "live/window_body.h"

#include <math.h>

static bg_filter *generations_part(const struct window *w, uint64_t period)
{
    return w->parts[period % w->shape.places];
}

/* ---- Sizes ----------------------------------------------------------------------- */

/* Returns whether a kind is a Bloom kind. */
static bool generations_allows(const struct bgi_kind *kind)
{
    return (kind->traits & BGI_BLOOM_TRAITS) == BGI_BLOOM_TRAITS && kind->model
           && !kind->state_bytes;
}

static double generations_part_rate(const bg_spec *spec,
                                    const struct window_shape *shape, double share)
{
    return -expm1(log1p(-spec->rate * share) / shape->generations);
}

static bg_err generations_solve_kind(const bg_spec *spec, uint32_t kind,
                                     struct window_shape *shape, bg_errinfo *info)
{
    bg_spec part = *spec;
    part.kind = kind;
    part.items = shape->period_items;
    double share = shape->layers ? (double)OVERFLOW_OWN / OVERFLOW_PARTS : 1;
    part.rate = generations_part_rate(spec, shape, share);
    part.max_bytes = 0;
    part.window = NULL;
    bg_err err = bgi_solve(&part, 1, &shape->part, info);
    if (err) {
        return err;
    }
    if (!generations_allows(shape->part.kind)) {
        return bgi_err(info, BG_ENOTSUP, "window.kind", "a Bloom kind", "%s",
                       bg_kind_name(shape->part.kind->id));
    }
    if (shape->layers
        && overflow_rate(shape, (double)spec->items)
               > generations_part_rate(spec, shape, 1)) {
        return bgi_err(
            info, BG_ENOTSUP, "rate",
            "a rate that the window can reach if all keys arrive in one period",
            "%g for %llu items", spec->rate, (unsigned long long)spec->items);
    }
    return BG_OK;
}

static bg_err generations_solve(const bg_spec *spec, struct window_shape *shape,
                                bg_errinfo *info)
{
    const uint32_t kind = spec->window ? spec->window->kind : 0;
    bg_err err =
        generations_solve_kind(spec, kind ? kind : BG_KIND_BLOCKED, shape, info);
    if (err == BG_ENOTSUP && !kind) { /* blocked filters cannot reach very low rates */
        err = generations_solve_kind(spec, BG_KIND_CLASSIC, shape, info);
    }
    if (err) {
        return err;
    }
    uint64_t bytes = 0;
    shape->places = shape->generations + 1;
    if (!bgi_geometry_bytes(&shape->part, &bytes)
        || !bgi_mul_u64(bytes, shape->places, &shape->bytes)) {
        return bgi_err_state(info, BG_ENOMEM, "size",
                             "the window is too large for the address space");
    }
    return BG_OK;
}

static bool generations_reshape(const struct bgi_recipe *recipe,
                                struct window_shape *shape)
{
    const struct bgi_kind *kind = bgi_kind_of((bg_kind)recipe->window_kind);
    uint64_t bytes = 0;
    if (!kind || !generations_allows(kind)
        || bgi_recipe_plain(kind, recipe->units, recipe->k, &shape->part) != BG_OK) {
        return false;
    }
    shape->part.items = recipe->period_items;
    shape->places = shape->generations + 1;
    return bgi_geometry_bytes(&shape->part, &bytes)
           && bgi_mul_u64(bytes, shape->places, &shape->bytes);
}

static double generations_rate(const struct window_shape *shape, double n)
{
    double one = overflow_rate(shape, n);
    return -expm1(shape->generations * log1p(-fmin(one, 1 - 1e-12)));
}

/* ---- Life ------------------------------------------------------------------------ */

static void generations_give(struct window *w)
{
    for (uint32_t i = 0; i < w->shape.places; i++) {
        bg_filter_free(w->parts[i]);
        w->parts[i] = NULL;
    }
    overflow_give(w);
}

static bg_err generations_make(struct window *w, bg_errinfo *info)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = w->filter.flags;
    spec.allocator = w->filter.allocator.allocate ? &w->filter.allocator : NULL;
    for (uint32_t i = 0; i < w->shape.places; i++) {
        bg_err err = bgi_filter_make(&w->shape.part, &spec, &w->filter.hasher,
                                     &w->parts[i], info);
        if (err) {
            generations_give(w);
            return err;
        }
    }
    return BG_OK;
}

/* ---- Keys ------------------------------------------------------------------------ */

static void generations_locate(const struct window *w, struct bgi_group *group)
{
    (void)w, (void)group; /* each generation's filter computes the locations itself */
}

/* Returns whether the filter of any period, from `youngest` back to the oldest live period, may
 * contain a hash. */
static bool generations_has_from(const struct window *w, uint64_t period,
                                 uint64_t youngest, uint64_t hash)
{
    for (uint64_t p = youngest; p + w->shape.generations > period; p--) {
        const struct bgi_core *core = &generations_part(w, p)->core;
        if (core->has(core, hash)) {
            return true;
        }
    }
    return false;
}

static uint64_t generations_oldest(const struct window *w, uint64_t period)
{
    return period - w->shape.generations + 1;
}

static bool generations_has(const struct window *w, uint64_t period, uint64_t hash)
{
    return generations_has_from(w, period, period, hash)
           || overflow_has(w, generations_oldest(w, period), period, hash);
}

/* Adds a key to a period whose filter already contains its share of keys. */
static bool generations_put_over(struct window *w, uint64_t period, uint64_t hash,
                                 uint32_t level)
{
    const bg_filter *layer = overflow_take(w, period, level);
    struct bgi_core *own = &generations_part(w, period)->core;
    struct bgi_core *core = layer ? (struct bgi_core *)(uintptr_t)&layer->core : own;
    if (own->has(own, hash) || overflow_has(w, period, period, hash)) {
        return false;
    }
    bool seen = generations_has(w, period, hash);
    bool fresh = core->add(core, hash);
    overflow_note(w, fresh);
    return fresh && !seen;
}

static bool generations_put(struct window *w, uint64_t period, uint64_t hash)
{
    uint32_t level = overflow_level(w, 1);
    if (level) {
        return generations_put_over(w, period, hash, level);
    }
    bool seen = generations_has_from(w, period, period - 1, hash)
                || overflow_has(w, generations_oldest(w, period), period, hash);
    struct bgi_core *core = &generations_part(w, period)->core;
    bool fresh = core->add(core, hash);
    overflow_note(w, fresh);
    return fresh && !seen;
}

static void generations_layers(const struct window *w, uint64_t period,
                               uint64_t youngest, struct layers *layers)
{
    layers_begin(layers, 0);
    for (uint64_t p = youngest; p + w->shape.generations > period; p--) {
        layers_push(layers, generations_part(w, p));
    }
}

static uint64_t generations_has_group(const struct window *w, uint64_t period,
                                      const struct bgi_group *group,
                                      const struct bgi_group *next)
{
    struct layers layers;
    generations_layers(w, period, period, &layers);
    return layers_has_group(&layers, group, next)
           | overflow_has_group(w, period, group);
}

static uint64_t generations_put_each(struct window *w, uint64_t period,
                                     const struct bgi_group *group)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < group->n; i++) {
        answer |= (uint64_t)generations_put(w, period, group->hashes[i]) << i;
    }
    return answer;
}

static uint64_t generations_put_word(struct window *w, uint64_t period,
                                     const struct bgi_group *group,
                                     const struct bgi_group *next)
{
    struct layers older;
    if (overflow_level(w, group->n)) {
        return generations_put_each(w, period, group);
    }
    generations_layers(w, period, period - 1, &older);
    uint64_t seen =
        layers_has_group(&older, group, next) | overflow_has_group(w, period, group);
    struct bgi_core *core = &generations_part(w, period)->core;
    uint64_t fresh = layers_add_group(core, group, layers_all(group), next);
    overflow_note(w, (uint64_t)bgi_popcount64(fresh));
    return fresh & ~seen;
}

/* ---- Forgetting ------------------------------------------------------------------ */

static uint64_t generations_wipe_words(const struct window *w)
{
    uint64_t next = __atomic_load_n(&w->period, __ATOMIC_RELAXED) + 1;
    return w->parts[0]->bytes / 8 + overflow_words(w, next);
}

static void generations_wipe(struct window *w, uint64_t from, uint64_t to,
                             uint64_t first, uint64_t words)
{
    const uint64_t own = w->parts[0]->bytes / 8;
    for (uint64_t p = from + 1; p <= to; p++) {
        uint64_t *word = bgi_filter_words(generations_part(w, p));
        uint64_t at = first, left = words;
        for (; at < own && left > 0; at++, left--) {
            __atomic_store_n(&word[at], 0, __ATOMIC_RELAXED);
        }
        if (left > 0) {
            overflow_wipe(w, p, at - own, left);
        }
    }
}

/* ---- Two windows ----------------------------------------------------------------- */

static bg_err generations_copy(struct window *to, const struct window *from,
                               bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (uint32_t i = 0; i < from->shape.places && !err; i++) {
        err = bg_filter_copy(from->parts[i], &to->parts[i], info);
    }
    if (!err && overflow_copy(to, from)) {
        err = bgi_err_state(info, BG_ENOMEM, "memory",
                            "cannot allocate %llu bytes for a copy of the window",
                            (unsigned long long)from->grown_bytes);
    }
    if (err) {
        generations_give(to);
    }
    return err;
}

static bg_err generations_merge(struct window *to, const struct window *from)
{
    bg_err err = to == from ? BG_OK : overflow_merge(to, from);
    for (uint32_t i = 0; i < to->shape.generations && !err; i++) {
        uint64_t p = to->period - i;
        err = bg_filter_merge(generations_part(to, p), generations_part(from, p), NULL);
    }
    return err;
}

static bool generations_equal(const struct window *a, const struct window *b)
{
    for (uint32_t i = 0; i < a->shape.generations; i++) {
        uint64_t p = a->period - i;
        if (!bg_filter_equal(generations_part(a, p), generations_part(b, p))) {
            return false;
        }
    }
    return overflow_equal(a, b);
}

/* Adds the measurement of one filter to the total. */
static void generations_measure_part(const bg_filter *part, struct bgi_measure *m,
                                     double *right, double *variance)
{
    bg_filter_info info = { .struct_size = sizeof info };
    /* Not used, because the confidence interval of `items` already includes this error. */
    double missed;
    bgi_filter_info(part, m->most, &info, &missed);
    double error = bgi_estimate_error(&info.items);
    m->ones += info.ones;
    m->of += info.bits;
    m->items += info.items.value;
    *right *= 1 - info.rate;
    *variance += error * error;
}

/* A key that was added in several periods is counted once per period. */
static void generations_measure(const struct window *w, struct bgi_measure *m)
{
    uint64_t period = __atomic_load_n(&w->period, __ATOMIC_ACQUIRE);
    double right = 1, variance = 0;
    for (uint32_t i = 0; i < w->shape.generations; i++) {
        generations_measure_part(generations_part(w, period - i), m, &right, &variance);
        for (uint32_t level = 1; level <= w->shape.layers; level++) {
            const bg_filter *layer = overflow_layer(w, period - i, level);
            if (layer) {
                generations_measure_part(layer, m, &right, &variance);
            }
        }
    }
    m->error = sqrt(variance);
    m->rate = 1 - right;
    m->saturated = overflow_saturated(w);
}

const struct window_body window_generations = {
    .solve = generations_solve,
    .reshape = generations_reshape,
    .make = generations_make,
    .give = generations_give,
    .rate = generations_rate,
    .locate = generations_locate,
    .has = generations_has,
    .has_group = generations_has_group,
    .put = generations_put,
    .put_word = generations_put_word,
    .wipe_words = generations_wipe_words,
    .wipe = generations_wipe,
    .copy = generations_copy,
    .merge = generations_merge,
    .equal = generations_equal,
    .measure = generations_measure,
};

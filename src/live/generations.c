/*
 * generations.c - a window as one filter per generation.
 *
 * Idea. The keys of a period go into a filter of that period; a query asks the filters
 * of all periods that are in; the oldest is dropped as a whole. Any kind will do whose
 * empty filter is all zeros.
 *
 *     period        q-3        q-2        q-1         q        q+1
 *     filter     [ 3.....]  [ 0.....]  [ 1.....]  [ 2.....]  [ clearing ]     generations = 4
 *                                                  adds
 *
 * Place. The keys of period p are in filter p mod (generations + 1): one filter more
 * than generations, so that the next period's can be cleared while all others serve.
 *
 * Rate. Each generation has the rate 1 - (1 - rate)^(1/g) with its share of the items,
 * so that g full ones have `rate`. At 1 % and 24 generations that is 0.042 % each, 18
 * bits per key in blocked filters; with the one in waiting, and the one that a window
 * of g - 1 periods has in addition, 19.5 per key of the window.
 *
 * Price. A query for an absent key reads a line in each of g filters.
 */
#include "base/checked.h"
#include "base/errinfo.h"
#include "live/layers.h"
#include "live/window_body.h"

#include <math.h>

static bg_filter *generations_part(const struct window *w, uint64_t period)
{
    return w->parts[period % w->shape.places];
}

/* ---- Sizes ----------------------------------------------------------------------- */

/* The Bloom kinds. */
static bool generations_allows(const struct bgi_kind *kind)
{
    return (kind->traits & BGI_BLOOM_TRAITS) == BGI_BLOOM_TRAITS && kind->model
           && !kind->state_bytes;
}

static bg_err generations_solve(const bg_spec *spec, struct window_shape *shape,
                                bg_errinfo *info)
{
    bg_spec part = *spec;
    uint32_t kind = spec->window ? spec->window->kind : 0;
    part.kind = kind ? kind : BG_KIND_BLOCKED;
    part.items = shape->period_items;
    part.rate = -expm1(log1p(-spec->rate) / shape->generations);
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
    uint64_t bytes = 0;
    shape->places = shape->generations + 1;
    if (!bgi_geometry_bytes(&shape->part, &bytes)
        || !bgi_mul_u64(bytes, shape->places, &shape->bytes)) {
        return bgi_err(info, BG_ENOMEM, "size", "one that can be addressed",
                       "%llu units", (unsigned long long)shape->part.units);
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
    const struct bgi_geometry *g = &shape->part;
    double one = bgi_kind_rate(g->kind, g->units, g->k, n);
    return -expm1(shape->generations * log1p(-fmin(one, 1 - 1e-12)));
}

/* ---- Life ------------------------------------------------------------------------ */

static void generations_give(struct window *w)
{
    for (uint32_t i = 0; i < w->shape.places; i++) {
        bg_filter_free(w->parts[i]);
        w->parts[i] = NULL;
    }
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

static void generations_locate(const struct window *w, struct bgi_word *word)
{
    (void)w, (void)word; /* each part has its own places */
}

/* Whether one of the generations from `youngest` down to the oldest may contain it. */
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

static bool generations_has(const struct window *w, uint64_t period, uint64_t hash)
{
    return generations_has_from(w, period, period, hash);
}

static bool generations_put(struct window *w, uint64_t period, uint64_t hash)
{
    bool seen = generations_has_from(w, period, period - 1, hash);
    struct bgi_core *core = &generations_part(w, period)->core;
    return core->add(core, hash) && !seen;
}

static void generations_layers(const struct window *w, uint64_t period,
                               uint64_t youngest, struct layers *layers)
{
    layers_begin(layers, 0);
    for (uint64_t p = youngest; p + w->shape.generations > period; p--) {
        layers_push(layers, generations_part(w, p));
    }
}

static uint64_t generations_has_word(const struct window *w, uint64_t period,
                                     const struct bgi_word *word,
                                     const struct bgi_word *next)
{
    struct layers layers;
    generations_layers(w, period, period, &layers);
    return layers_has_word(&layers, word, next);
}

static uint64_t generations_put_word(struct window *w, uint64_t period,
                                     const struct bgi_word *word,
                                     const struct bgi_word *next)
{
    struct layers older;
    generations_layers(w, period, period - 1, &older);
    uint64_t seen = layers_has_word(&older, word, next);
    struct bgi_core *core = &generations_part(w, period)->core;
    return layers_add_word(core, word, layers_all(word), next) & ~seen;
}

/* ---- Forgetting ------------------------------------------------------------------ */

static uint64_t generations_wipe_words(const struct window *w)
{
    return w->parts[0]->bytes / 8;
}

static void generations_wipe(struct window *w, uint64_t from, uint64_t to,
                             uint64_t first, uint64_t words)
{
    for (uint64_t p = from + 1; p <= to; p++) {
        uint64_t *word = bgi_filter_words(generations_part(w, p));
        for (uint64_t i = first; i < first + words; i++) {
            __atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
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
    if (err) {
        generations_give(to);
    }
    return err;
}

static bg_err generations_merge(struct window *to, const struct window *from)
{
    bg_err err = BG_OK;
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
    return true;
}

/* Keys that were added in several periods count in each. */
static void generations_measure(const struct window *w, struct bgi_measure *m)
{
    uint64_t period = __atomic_load_n(&w->period, __ATOMIC_ACQUIRE);
    double right = 1, variance = 0;
    for (uint32_t i = 0; i < w->shape.generations; i++) {
        bg_info info = { .struct_size = sizeof info };
        double missed; /* it is in the interval of items */
        bgi_filter_info(generations_part(w, period - i), m->most, &info, &missed);
        double error = bgi_estimate_error(&info.items);
        m->ones += info.ones;
        m->of += info.bits;
        m->items += info.items.value;
        right *= 1 - info.rate;
        variance += error * error;
    }
    m->error = sqrt(variance);
    m->rate = 1 - right;
}

const struct window_body window_generations = {
    .solve = generations_solve,
    .reshape = generations_reshape,
    .make = generations_make,
    .give = generations_give,
    .rate = generations_rate,
    .locate = generations_locate,
    .has = generations_has,
    .has_word = generations_has_word,
    .put = generations_put,
    .put_word = generations_put_word,
    .wipe_words = generations_wipe_words,
    .wipe = generations_wipe,
    .copy = generations_copy,
    .merge = generations_merge,
    .equal = generations_equal,
    .measure = generations_measure,
};

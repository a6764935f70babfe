/*
 * scalable.c - a filter for an unknown number of keys, with layers of increasing size.
 *
 * Idea. A Bloom filter cannot be enlarged without its original keys. So when the filter is full, a
 * second, larger layer is added, which receives all further keys, and so on. The answer for a key
 * is "maybe" if any layer answers "maybe" (Almeida, Baquero, Preguica, Hutchison, "Scalable Bloom
 * filters", 2007). The rates of the layers add up, so each layer must have a lower rate than the
 * previous one.
 *
 *     layer 2   [................................................................]  <- adds
 *     layer 1   [................................]  full
 *     layer 0   [................]  full
 *               one hash; line index in layer i = floor(hash * units(i) / 2^64)
 *
 * Rate. Regardless of the total number of keys, layer i has at most capacity(i) keys, so its rate
 * is at most rate(i) = p (1 - r) r^i (ladder.h). A lookup of an absent key gives a false positive
 * if at least one layer answers "maybe". The probability of a false positive is at most
 *
 *     sum over i of p (1 - r) r^i  =  p (1 - r^layers)  <  p,
 *
 * for any n. (The rates come from the kind's model, which is exact for its layout. With r = 0.8,
 * the sum for 7 layers is 0.79 p, and the last layer is rarely full, so the bound is not tight.)
 *
 * Memory in bits per key at p = 1% (computed with the model):
 *
 *     keys / first capacity     1      10     100    1000   mean (logarithmic)  maximum
 *     growth 2 (default)      13.8    20.8    17.6   28.3         24.7           41
 *     growth 4                13.8    29.1    47.2   18.9         34.2           69
 *
 * The high values occur right after a layer is added, when the filter has space for 2 (or 4) times
 * as many keys as it contains. The planner computes these values for any number of keys. A larger
 * growth factor gives fewer layers and therefore faster lookups; see bg_spec.width. The common
 * choice, a growth factor of 2 with the rate halved from layer to layer, needs 23 bits per key at
 * 100 times the first capacity even with scattered bits.
 *
 * Time. An absent key must be looked up in every layer. In batches, this takes 0.9 ns per key and
 * layer as long as the layers fit into the cache, and otherwise little more time than reading the
 * cache lines (layers.h). About half of all members are found in the newest layer.
 *
 * Choices. Layers are `blocked`, or `classic` (BG_SPEC_SCATTERED). Lookups start with the newest
 * layer, which contains at least half of the keys once it is full. A key that any layer may
 * contain is not added again. Unit indexes are nested: line u of layer i corresponds to the
 * `growth` lines of layer i+1 that start at u * growth. All layers have the same k and bit
 * patterns. So to combine two layers, bg_filter_compact can either unfold the earlier layer to the
 * size of the later one, by repeating its lines, or fold the later layer. It then ORs the two
 * layers.
 *
 * Merging works layer by layer, because the sizes depend only on the spec. A merged layer can
 * contain more keys than its capacity, up to the sum of the keys in both layers. In this case, the
 * rate is higher than specified. bg_filter_info.rate reports the actual rate, and `saturated`
 * counts the keys above capacity.
 *
 * Out of memory. An add cannot fail. If a layer is full and the next one cannot be created
 * (because an allocation fails or max_bytes is reached), keys are still added to the last layer, so
 * no key is lost, but the rate rises. bg_filter_info.saturated reports the number of keys that were
 * added above capacity. Growth is retried each time the number of keys has increased by another
 * sixteenth of the capacity.
 *
 * Concurrency.
 *   (I1) Layers 0 .. count-1 and their memory are complete before `count` is incremented (release),
 *        and afterwards only their words and counters change. Only clear, which requires exclusive
 *        access, decreases `count`. A reader loads `count` once (acquire) and never waits.
 *   (I2) Growth happens under a lock. Only threads that find the last layer full acquire this lock.
 *        They check again under the lock, so exactly one layer is created.
 *   (I3) An add puts its key into the layer that was the last one when the add loaded `count`. If
 *        another layer is created in the meantime, the key ends up in an earlier layer, which every
 *        lookup also queries. Keys are never moved, so none can be lost. (C1) and (C2) of filter.h
 *        hold, because the argument in line_core.h applies to each layer.
 *   (I4) Threads that add concurrently can exceed the capacity by one key per thread, or by 64
 *        keys per thread in batches. When the last layer has space for fewer than SCALABLE_ROOM
 *        keys, batches are added key by key.
 */
#include "base/bits.h"
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"
#include "hash/hasher.h"
#include "live/ladder.h"
#include "live/layers.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCALABLE_ROOM = 4096, SCALABLE_RETRY = 16, SCALABLE_FEW = 4 };

struct scalable_layer {
    bg_filter *filter;
    uint64_t capacity;
};

/* The counters that are updated by adds. They are kept apart from the fields that lookups read.
 * Only the counters of the last layer change. */
struct scalable_adds {
    uint64_t added; /* number of new keys added to the layer */
    uint64_t retry; /* add a layer when `added` reaches this number */
};

/* The layers that do not fit into the handle. */
struct scalable_many {
    struct scalable_layer layers[LADDER_LAYERS - SCALABLE_FEW];
    _Alignas(64) struct scalable_adds adds[LADDER_LAYERS - SCALABLE_FEW];
};

struct scalable {
    bg_filter filter; /* must be first */
    struct ladder ladder;
    uint64_t max_bytes;
    uint64_t seen_bytes; /* total size of all layers */
    uint32_t count;      /* number of layers, at least 1 */
    unsigned char growing;
    _Alignas(64) struct scalable_layer few[SCALABLE_FEW];
    _Alignas(64) struct scalable_adds few_adds[SCALABLE_FEW];
    struct bgi_memory many; /* a struct scalable_many, for layers beyond `few` */
};

/* Returns the entry of layer i. The layer need not exist yet, but the memory for its entry must be
 * reserved. */
static struct scalable_layer *scalable_layer(const struct scalable *s, uint32_t i)
{
    struct scalable_many *many = s->many.base;
    return i < SCALABLE_FEW ? (struct scalable_layer *)(uintptr_t)&s->few[i]
                            : &many->layers[i - SCALABLE_FEW];
}

static struct scalable_adds *scalable_adds(const struct scalable *s, uint32_t i)
{
    struct scalable_many *many = s->many.base;
    return i < SCALABLE_FEW ? (struct scalable_adds *)(uintptr_t)&s->few_adds[i]
                            : &many->adds[i - SCALABLE_FEW];
}

static uint64_t scalable_added(const struct scalable *s, uint32_t i)
{
    return __atomic_load_n(&scalable_adds(s, i)->added, __ATOMIC_RELAXED);
}

static const struct bgi_kind *scalable_pick(uint32_t width, uint32_t flags);

static struct scalable *scalable_of(struct bgi_core *core)
{
    return (struct scalable *)(void *)core;
}

static const struct scalable *scalable_in(const struct bgi_core *core)
{
    return (const struct scalable *)(const void *)core;
}

static uint32_t scalable_count(const struct scalable *s)
{
    return __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
}

static bool scalable_exclusive(const struct scalable *s)
{
    return s->filter.flags & BG_SPEC_EXCLUSIVE;
}

/* ---- Growing --------------------------------------------------------------------- */

/* Reserves memory for the entry of layer i. Readers access the entry only after the layer has
 * been added. */
static bool scalable_reserve(struct scalable *s, uint32_t i)
{
    const bg_allocator *own = &s->filter.allocator;
    return i < SCALABLE_FEW || s->many.base
           || bgi_memory_take(&s->many, sizeof(struct scalable_many),
                              own->allocate ? own : NULL, true);
}

/* Computes the geometry of the next layer. Errors: BG_ENOMEM if the layer would exceed a limit. */
static bg_err scalable_next(const struct scalable *s, struct bgi_geometry *g,
                            uint64_t *bytes, bg_errinfo *info)
{
    uint32_t i = s->count;
    if (i >= LADDER_LAYERS || !ladder_layer(&s->ladder, i, g)
        || !bgi_geometry_bytes(g, bytes)) {
        return bgi_err_state(
            info, BG_ENOMEM, "size",
            "layer %u of the scalable filter would be too large for the "
            "address space",
            i);
    }
    if (s->max_bytes
        && (s->seen_bytes > s->max_bytes || *bytes > s->max_bytes - s->seen_bytes)) {
        return bgi_err_state(info, BG_ENOMEM, "size in bytes",
                             "another layer of %llu bytes would exceed max_bytes",
                             (unsigned long long)*bytes);
    }
    return BG_OK;
}

/* Creates the next layer. Called under the lock, or before other threads can access the
 * filter. */
static bg_err scalable_push(struct scalable *s, bg_errinfo *info)
{
    struct bgi_geometry g = { .kind = NULL };
    uint64_t bytes = 0;
    uint32_t i = s->count;
    bg_err err = scalable_next(s, &g, &bytes, info);
    if (err) {
        return err;
    }
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = s->filter.flags & ~(uint32_t)BG_SPEC_SCATTERED;
    spec.allocator = s->filter.allocator.allocate ? &s->filter.allocator : NULL;
    if (!scalable_reserve(s, i)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the list of layers",
                             sizeof(struct scalable_many));
    }
    struct scalable_layer *layer = scalable_layer(s, i);
    err = bgi_filter_make(&g, &spec, &s->filter.hasher, &layer->filter, info);
    if (err) {
        return err;
    }
    layer->capacity = g.items;
    *scalable_adds(s, i) = (struct scalable_adds){ 0, g.items };
    s->seen_bytes += bytes;
    __atomic_store_n(&s->count, i + 1, __ATOMIC_RELEASE);
    return BG_OK;
}

static void scalable_lock(struct scalable *s)
{
    while (__atomic_test_and_set(&s->growing, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&s->growing, __ATOMIC_RELAXED)) {
            bgi_pause();
        }
    }
}

static void scalable_unlock(struct scalable *s)
{
    __atomic_clear(&s->growing, __ATOMIC_RELEASE);
}

/* Adds a layer after layer `last`, unless another thread has already added one. If the layer cannot
 * be created, sets the number of keys at which to retry. */
static void scalable_grow(struct scalable *s, uint32_t last)
{
    scalable_lock(s);
    struct scalable_adds *adds = scalable_adds(s, last);
    if (s->count == last + 1 && scalable_push(s, NULL) != BG_OK) {
        uint64_t pause = scalable_layer(s, last)->capacity / SCALABLE_RETRY + 1;
        uint64_t added = __atomic_load_n(&adds->added, __ATOMIC_RELAXED);
        __atomic_store_n(&adds->retry, added + pause, __ATOMIC_RELAXED);
    }
    scalable_unlock(s);
}

/* Returns the number of keys that can still be added to the last layer. If the last layer is full,
 * adds a new layer first. */
static uint64_t scalable_room(struct scalable *s, uint32_t *last)
{
    *last = scalable_count(s) - 1;
    for (int turn = 0; turn < 2; turn++) {
        const struct scalable_adds *adds = scalable_adds(s, *last);
        uint64_t added = __atomic_load_n(&adds->added, __ATOMIC_RELAXED);
        uint64_t until = __atomic_load_n(&adds->retry, __ATOMIC_RELAXED);
        if (added < until) {
            return until - added;
        }
        scalable_grow(s, *last);
        *last = scalable_count(s) - 1;
    }
    return 1; /* other threads have already filled the new layer; use it anyway */
}

static void scalable_note(struct scalable *s, uint32_t layer, uint64_t keys)
{
    uint64_t *added = &scalable_adds(s, layer)->added;
    if (scalable_exclusive(s)) {
        *added += keys;
    } else if (keys) {
        (void)__atomic_fetch_add(added, keys, __ATOMIC_RELAXED);
    }
}

/* ---- One key --------------------------------------------------------------------- */

/* Returns whether any of the first `count` layers may contain a hash. Queries the newest layer
 * first. */
static bool scalable_has_in(const struct scalable *s, uint32_t count, uint64_t hash)
{
    for (uint32_t i = count; i-- > 0;) {
        const struct bgi_core *layer = &scalable_layer(s, i)->filter->core;
        if (layer->has(layer, hash)) {
            return true;
        }
    }
    return false;
}

static bool scalable_has(const struct bgi_core *core, uint64_t hash)
{
    const struct scalable *s = scalable_in(core);
    return scalable_has_in(s, scalable_count(s), hash);
}

static bool scalable_add(struct bgi_core *core, uint64_t hash)
{
    struct scalable *s = scalable_of(core);
    uint32_t last;
    if (scalable_has(core, hash)) {
        return false;
    }
    (void)scalable_room(s, &last);
    struct bgi_core *layer = &scalable_layer(s, last)->filter->core;
    bool is_new = layer->add(layer, hash);
    scalable_note(s, last, is_new);
    return is_new;
}

/* ---- Groups ---------------------------------------------------------------------- */

/* Lists the first `count` layers, newest first. */
static void scalable_layers(const struct scalable *s, uint32_t count,
                            struct layers *layers)
{
    layers_begin(layers, (uint32_t)__builtin_ctz(s->ladder.growth));
    for (uint32_t i = count; i-- > 0;) {
        layers_push(layers, scalable_layer(s, i)->filter);
    }
}

static void scalable_locate(const struct bgi_core *core, struct bgi_group *group)
{
    (void)core, (void)group; /* each layer computes the locations itself */
}

static uint64_t scalable_has_group(const struct bgi_core *core,
                                   const struct bgi_group *group,
                                   const struct bgi_group *next)
{
    const struct scalable *s = scalable_in(core);
    struct layers layers;
    scalable_layers(s, scalable_count(s), &layers);
    return layers_has_group(&layers, group, next);
}

static uint64_t scalable_add_one_by_one(struct bgi_core *core,
                                        const struct bgi_group *group)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < group->n; i++) {
        answer |= (uint64_t)scalable_add(core, group->hashes[i]) << i;
    }
    return answer;
}

/* If all earlier layers answer "no" for a key, adds the key to the last layer. Returns a mask of
 * the keys that were new. */
static uint64_t scalable_add_group(struct bgi_core *core, const struct bgi_group *group,
                                   const struct bgi_group *next)
{
    struct scalable *s = scalable_of(core);
    uint32_t last;
    if (scalable_room(s, &last) < SCALABLE_ROOM) {
        return scalable_add_one_by_one(core, group);
    }
    struct layers below;
    scalable_layers(s, last, &below);
    uint64_t seen = last ? layers_has_group(&below, group, next) : 0;
    uint64_t is_new = layers_add_group(&scalable_layer(s, last)->filter->core, group,
                                       layers_all(group) & ~seen, next);
    scalable_note(s, last, bgi_popcount64(is_new));
    return is_new;
}

static const struct bgi_ops scalable_ops = {
    .has = scalable_has,
    .add = scalable_add,
    .locate = scalable_locate,
    .has_group = scalable_has_group,
    .add_group = scalable_add_group,
};

/* ---- Life ------------------------------------------------------------------------ */

static void scalable_destroy(bg_filter *filter)
{
    struct scalable *s = (struct scalable *)(void *)filter;
    for (uint32_t i = 0; i < s->count; i++) {
        bg_filter_free(scalable_layer(s, i)->filter);
    }
    s->count = 0;
    bgi_memory_give(&s->many);
}

/* Creates a handle without layers. */
static bg_err scalable_handle(const struct ladder *ladder, const bg_spec *spec,
                              const bg_hasher *hasher, struct scalable **made,
                              bg_errinfo *info)
{
    struct bgi_memory memory;
    bg_err err =
        bgi_filter_take(&memory, sizeof **made, hasher, spec->allocator, true, info);
    if (err) {
        return err;
    }
    struct scalable *s = memory.base;
    bg_filter *f = &s->filter;
    bgi_filter_begin(f, scalable_pick(spec->width, spec->flags & BG_SPEC_SCATTERED),
                     &scalable_ops, spec, hasher);
    f->memory = memory;
    f->bytes = (size_t)(ladder->units * ladder->kind->unit_bytes(ladder->k));
    f->design_items = spec->items;
    f->design_rate = spec->rate;
    f->core.units = ladder->units;
    f->core.k = ladder->k;
    f->core.adds_prefetch = 1; /* each layer decides for itself whether to prefetch */
    f->core.lookups_prefetch = 1;
    s->ladder = *ladder;
    s->max_bytes = spec->max_bytes;
    *made = s;
    return BG_OK;
}

/* Creates an empty filter with its first layer. */
static bg_err scalable_make(const struct ladder *ladder, const bg_spec *spec,
                            const bg_hasher *hasher, bg_filter **filter,
                            bg_errinfo *info)
{
    struct scalable *s = NULL;
    bg_err err = scalable_handle(ladder, spec, hasher, &s, info);
    if (err) {
        return err;
    }
    assert(s);
    err = scalable_push(s, info);
    if (err) {
        bg_filter_free(&s->filter);
        return err;
    }
    *filter = &s->filter;
    return BG_OK;
}

static bg_err scalable_create(const bg_spec *spec, bg_filter **filter, bg_errinfo *info)
{
    struct ladder ladder;
    bg_hasher hasher;
    bg_err err = ladder_solve(spec, &ladder, info);
    err = err ? err : bg_hasher_init(&hasher, &spec->hash, info);
    if (err) {
        return err;
    }
    err = scalable_make(&ladder, spec, &hasher, filter, info);
    bg_hasher_wipe(&hasher);
    return err;
}

/* Returns a spec that creates an equivalent filter with the given flags. */
static bg_spec scalable_spec(const struct scalable *s, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = s->filter.design_items;
    spec.rate = s->filter.design_rate;
    spec.flags = flags;
    spec.width = s->ladder.growth;
    spec.max_bytes = s->max_bytes;
    spec.allocator = s->filter.allocator.allocate ? &s->filter.allocator : NULL;
    return spec;
}

static bg_err scalable_similar(const bg_filter *filter, uint32_t flags,
                               bg_filter **empty, bg_errinfo *info)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    const bg_spec spec = scalable_spec(s, flags);
    return scalable_make(&s->ladder, &spec, &filter->hasher, empty, info);
}

static bg_err scalable_copy(const bg_filter *filter, bg_filter **copy, bg_errinfo *info)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    struct scalable *c = NULL;
    bg_spec spec = scalable_spec(s, filter->flags);
    uint32_t count = scalable_count(s);
    bg_err err = scalable_handle(&s->ladder, &spec, &filter->hasher, &c, info);
    if (err) {
        return err;
    }
    assert(c);
    for (uint32_t i = 0; i < count && !err; i++) {
        if (!scalable_reserve(c, i)) {
            err = bgi_err_state(info, BG_ENOMEM, "memory",
                                "cannot allocate %zu bytes for the list of layers",
                                sizeof(struct scalable_many));
            break;
        }
        const struct scalable_layer *from = scalable_layer(s, i);
        struct scalable_layer *to = scalable_layer(c, i);
        to->capacity = from->capacity;
        scalable_adds(c, i)->added = scalable_added(s, i);
        scalable_adds(c, i)->retry =
            __atomic_load_n(&scalable_adds(s, i)->retry, __ATOMIC_RELAXED);
        err = bg_filter_copy(from->filter, &to->filter, info);
        if (!err) {
            c->seen_bytes += bg_filter_size_bytes(to->filter);
            c->count = i + 1;
        }
    }
    if (err) {
        bg_filter_free(&c->filter);
        return err;
    }
    *copy = &c->filter;
    return BG_OK;
}

static void scalable_clear(bg_filter *filter)
{
    struct scalable *s = (struct scalable *)(void *)filter;
    while (s->count > 1) {
        struct scalable_layer *layer = scalable_layer(s, --s->count);
        s->seen_bytes -= bg_filter_size_bytes(layer->filter);
        bg_filter_free(layer->filter);
        layer->filter = NULL;
    }
    bg_filter_clear(scalable_layer(s, 0)->filter);
    *scalable_adds(s, 0) = (struct scalable_adds){ 0, scalable_layer(s, 0)->capacity };
}

/* ---- Measuring ------------------------------------------------------------------- */

static uint64_t scalable_bytes(const bg_filter *filter)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    uint64_t bytes = 0;
    for (uint32_t i = scalable_count(s); i-- > 0;) {
        bytes += bg_filter_size_bytes(scalable_layer(s, i)->filter);
    }
    return bytes;
}

static uint64_t scalable_capacity(const bg_filter *filter)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    uint64_t keys = 0;
    for (uint32_t i = scalable_count(s); i-- > 0;) {
        keys += scalable_layer(s, i)->capacity;
    }
    return keys;
}

static uint32_t scalable_layer_count(const bg_filter *filter)
{
    return scalable_count((const struct scalable *)(const void *)filter);
}

static bg_filter_info scalable_info(const bg_filter *layer, uint64_t most)
{
    bg_filter_info info = { .struct_size = sizeof info };
    /* Not used, because the confidence interval of `items` already includes this error. */
    double missed;
    bgi_filter_info(layer, most, &info, &missed);
    return info;
}

static void scalable_measure(const struct bgi_core *core, struct bgi_measure *m)
{
    const struct scalable *s = scalable_in(core);
    double right = 1, variance = 0;
    for (uint32_t i = scalable_count(s); i-- > 0;) {
        const struct scalable_layer *layer = scalable_layer(s, i);
        bg_filter_info info = scalable_info(layer->filter, m->most);
        uint64_t added = scalable_added(s, i);
        double error = bgi_estimate_error(&info.items);
        m->ones += info.ones;
        m->of += info.bits;
        m->items += info.items.value;
        m->saturated += added > layer->capacity ? added - layer->capacity : 0;
        right *= 1 - info.rate;
        variance += error * error;
    }
    m->error = sqrt(variance);
    m->rate = 1 - right;
}

/* The generic code has already compared the kind, the growth, the size of the first layer, k and
 * the hash function. */
static bg_err scalable_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info)
{
    const struct scalable *sa = (const struct scalable *)(const void *)a;
    const struct scalable *sb = (const struct scalable *)(const void *)b;
    return sa->ladder.rate < sb->ladder.rate || sb->ladder.rate < sa->ladder.rate
               ? bgi_err(info, BG_EINCOMPAT, "rate", "the same in both filters",
                         "%.3g and %.3g", sa->ladder.rate, sb->ladder.rate)
               : BG_OK;
}

static bool scalable_equal(const bg_filter *a, const bg_filter *b)
{
    const struct scalable *sa = (const struct scalable *)(const void *)a;
    const struct scalable *sb = (const struct scalable *)(const void *)b;
    uint32_t count = scalable_count(sa);
    if (scalable_count(sb) != count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!bg_filter_equal(scalable_layer(sa, i)->filter,
                             scalable_layer(sb, i)->filter)) {
            return false;
        }
    }
    return true;
}

/* ---- Merging --------------------------------------------------------------------- */

/* Estimates the number of keys in a merged layer from its fill, so that keys that are in both
 * filters count once. */
static void scalable_recount(const struct scalable_layer *layer, uint64_t *added,
                             uint64_t a, uint64_t b)
{
    bg_filter_info info = scalable_info(layer->filter, 0);
    uint64_t most = a + b, least = a > b ? a : b;
    uint64_t keys = info.items.value < (double)most ? (uint64_t)info.items.value : most;
    keys = keys > least ? keys : least;
    (void)__atomic_fetch_add(added, keys - a, __ATOMIC_RELAXED);
}

static bg_err scalable_merge(struct bgi_core *to, const struct bgi_core *from,
                             bool exclusive)
{
    struct scalable *s = scalable_of(to);
    const struct scalable *other = scalable_in(from);
    uint32_t count = scalable_count(other);
    bg_err err = BG_OK;
    (void)exclusive; /* bg_filter_merge uses the BG_SPEC_EXCLUSIVE flag of each layer */
    scalable_lock(s);
    while (s->count < count && !err) {
        err = scalable_push(s, NULL);
    }
    scalable_unlock(s);
    for (uint32_t i = 0; i < count && !err; i++) {
        uint64_t a = scalable_added(s, i);
        uint64_t b = scalable_added(other, i);
        err = bg_filter_merge(scalable_layer(s, i)->filter,
                              scalable_layer(other, i)->filter, NULL);
        if (!err) {
            scalable_recount(scalable_layer(s, i), &scalable_adds(s, i)->added, a, b);
        }
    }
    return err;
}

/* ---- In files -------------------------------------------------------------------- */

static void scalable_recipe(const bg_filter *filter, struct bgi_recipe *recipe)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    recipe->width = s->ladder.growth;
    recipe->rate = s->ladder.rate;
    recipe->max_bytes = s->max_bytes;
}

/* Creates a filter with exactly the ladder in the recipe, without recomputing the ladder. */
static bg_err scalable_remake(const struct bgi_recipe *recipe, const bg_spec *how,
                              const bg_hasher *hasher, uint64_t room,
                              bg_filter **filter, bg_errinfo *info)
{
    struct scalable *s = NULL;
    struct bgi_geometry first;
    uint64_t bytes;
    bg_spec spec = *how;
    spec.items = recipe->items;
    spec.rate = recipe->rate;
    spec.width = recipe->width;
    spec.max_bytes = recipe->max_bytes;
    struct ladder ladder = { .kind = bgi_kind_of(recipe->flags & BG_SPEC_SCATTERED
                                                     ? BG_KIND_CLASSIC
                                                     : BG_KIND_BLOCKED),
                             .k = recipe->k,
                             .growth = recipe->width,
                             .units = recipe->units,
                             .rate = recipe->rate };
    if (!(recipe->rate > 0 && recipe->rate < 1)
        || !scalable_pick(recipe->width, recipe->flags) || !recipe->width
        || recipe->units == 0 || recipe->k < ladder.kind->k_min
        || recipe->k > ladder.kind->k_max || !ladder_layer(&ladder, 0, &first)
        || !bgi_geometry_bytes(&first, &bytes) || bytes > room) {
        return bgi_err_state(
            info, BG_EFORMAT, "recipe",
            "the parameters of the scalable filter are invalid or do not match the size of "
            "the data (rate %g, growth %u, k %u, size %llu)",
            recipe->rate, recipe->width, recipe->k, (unsigned long long)recipe->units);
    }
    bg_err err = scalable_handle(&ladder, &spec, hasher, &s, info);
    if (!err) {
        *filter = &s->filter;
    }
    return err;
}

static bg_filter **scalable_part(const bg_filter *filter, uint32_t i)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    return i < scalable_count(s) ? &scalable_layer(s, i)->filter : NULL;
}

static struct bgi_memory *scalable_more(bg_filter *filter)
{
    return &((struct scalable *)(void *)filter)->many;
}

/* Writes the number of keys in each layer to `to`, unless `to` is NULL. Returns the number of
 * layers. */
static uint64_t scalable_numbers(const bg_filter *filter, uint64_t *to)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    uint32_t count = scalable_count(s);
    for (uint32_t i = 0; to && i < count; i++) {
        to[i] = scalable_added(s, i);
    }
    return count;
}

static bg_err scalable_restore(bg_filter *filter, const uint64_t *numbers, uint64_t n,
                               uint64_t room)
{
    struct bgi_geometry g;
    uint64_t bytes;
    struct scalable *s = (struct scalable *)(void *)filter;
    const uint64_t max_bytes = s->max_bytes;
    bg_err err = n >= 1 && n <= LADDER_LAYERS && room > 0 ? BG_OK : BG_EFORMAT;
    /* The layers must fit in the file. `room` is not 0, because a max_bytes of 0 would mean no
     * limit. */
    s->max_bytes = room;
    while (!err && s->count < n) {
        err = scalable_next(s, &g, &bytes, NULL) ? BG_EFORMAT : scalable_push(s, NULL);
    }
    for (uint32_t i = 0; !err && i < n; i++) {
        scalable_adds(s, i)->added = numbers[i];
    }
    s->max_bytes = max_bytes;
    return err;
}

/* ---- Compacting ------------------------------------------------------------------ */

/* ORs a small classic filter into a filter with `ratio` times as many bits. Each bit is repeated
 * `ratio` times. */
static void scalable_unfold_bits(const bg_filter *small, bg_filter *large,
                                 uint64_t ratio)
{
    const uint64_t *from = bgi_filter_words(small);
    uint64_t *to = bgi_filter_words(large);
    for (uint64_t bit = 0; bit < 8 * (uint64_t)large->bytes; bit++) {
        uint64_t in = bit / ratio;
        uint64_t word = __atomic_load_n(&from[in / 64], __ATOMIC_RELAXED);
        to[bit / 64] |= (word >> (in % 64) & 1) << (bit % 64);
    }
}

/* Does the same for blocked filters, by repeating each line `ratio` times. */
static void scalable_unfold_lines(const bg_filter *small, bg_filter *large,
                                  uint64_t ratio)
{
    const uint64_t *from = bgi_filter_words(small);
    uint64_t *to = bgi_filter_words(large);
    const size_t line = small->kind->unit_bytes(small->core.k) / 8;
    for (uint64_t u = 0; u < large->core.units; u++) {
        for (size_t w = 0; w < line; w++) {
            to[u * line + w] |=
                __atomic_load_n(&from[u / ratio * line + w], __ATOMIC_RELAXED);
        }
    }
}

static double scalable_rate_of(const bg_filter *filter)
{
    return scalable_info(filter, 0).rate;
}

/* Combines all layers into one filter that has the size of the last layer. */
static bg_err scalable_unite(const struct scalable *s, bg_filter **united,
                             bg_errinfo *info)
{
    uint32_t last = scalable_count(s) - 1;
    bg_err err = bg_filter_copy(scalable_layer(s, last)->filter, united, info);
    for (uint32_t i = last; !err && i-- > 0;) {
        const bg_filter *small = scalable_layer(s, i)->filter;
        uint64_t ratio = (*united)->core.units / small->core.units;
        if (s->ladder.kind->id == BG_KIND_CLASSIC) {
            scalable_unfold_bits(small, *united, ratio);
        } else {
            scalable_unfold_lines(small, *united, ratio);
        }
    }
    return err;
}

static bg_err scalable_compact(const bg_filter *filter, bg_filter **compacted,
                               bg_errinfo *info)
{
    const struct scalable *s = (const struct scalable *)(const void *)filter;
    bg_filter *now = NULL, *half = NULL;
    bg_err err = scalable_unite(s, &now, info);
    if (err) {
        return err;
    }
    double rate = scalable_rate_of(now);
    if (rate > s->ladder.rate) {
        bg_filter_free(now);
        return bgi_err_state(
            info, BG_EFULL, "layers",
            "a single layer would have a rate of %.3g, above the specified "
            "%.3g; rebuild the filter from its keys instead",
            rate, s->ladder.rate);
    }
    while (bgi_filter_foldable(now) > 0) {
        err = bg_filter_fold(now, 1, &half, info);
        if (err || scalable_rate_of(half) > s->ladder.rate) {
            bg_filter_free(half);
            break;
        }
        bg_filter_free(now);
        now = half;
    }
    if (err) {
        bg_filter_free(now);
        return err;
    }
    *compacted = now;
    return BG_OK;
}

/* ---- Planning -------------------------------------------------------------------- */

/* Fills in the plan's `bytes` and `layers` for n keys. Returns the rate. */
static double scalable_expect(const struct ladder *ladder, double n, bg_plan *plan)
{
    struct bgi_geometry g;
    double right = 1;
    uint64_t bytes;
    plan->layers = 0;
    plan->bytes = 0;
    while ((n > 0 || plan->layers == 0) && ladder_layer(ladder, plan->layers, &g)
           && bgi_geometry_bytes(&g, &bytes)) {
        double keys = fmin(n, (double)g.items);
        right *= 1 - bgi_kind_rate(g.kind, g.units, g.k, keys);
        n -= keys;
        plan->bytes += bytes;
        plan->layers++;
    }
    return n > 0 ? 1 : 1 - right;
}

static bg_err scalable_plan_check(const bg_spec *spec, double growth, bg_errinfo *info)
{
    const double most = 72057594037927936.0; /* 2^56 */
    if (!(growth >= 1 && growth <= 1e6)) {
        return bgi_err(info, BG_EINVAL, "growth", "1 to 1000000", "%g", growth);
    }
    if ((double)spec->items * growth > most) {
        return bgi_err(info, BG_EINVAL, "growth",
                       "a factor for which items x growth is at most 2^56", "%g",
                       growth);
    }
    return BG_OK;
}

static bg_err scalable_plan(const bg_spec *spec, double growth, bg_plan *plan,
                            bg_errinfo *info)
{
    struct ladder ladder;
    bg_plan later;
    bg_err err = ladder_solve(spec, &ladder, info);
    err = err ? err : scalable_plan_check(spec, growth, info);
    if (err) {
        return err;
    }
    double items = (double)spec->items * growth;
    plan->kind = BG_KIND_SCALABLE;
    plan->k = ladder.k;
    plan->items = growth > 1 ? (uint64_t)items : spec->items;
    plan->units = ladder.units;
    plan->rate_2x = scalable_expect(&ladder, 2 * items, &later);
    plan->rate_10x = scalable_expect(&ladder, 10 * items, &later);
    plan->rate = scalable_expect(&ladder, items, plan);
    plan->bits_per_key = 8 * (double)plan->bytes / items;
    plan->lines_per_lookup = plan->layers * ladder.kind->lines(ladder.k);
    if (spec->max_bytes && plan->bytes > spec->max_bytes) {
        return bgi_err(info, BG_ENOMEM, "size in bytes", "at most max_bytes", "%llu",
                       (unsigned long long)plan->bytes);
    }
    (void)snprintf(
        plan->reason, sizeof plan->reason,
        "scalable: as requested; %u layer%s of %s filters, each %u times as large as "
        "the previous one",
        plan->layers, plan->layers == 1 ? "" : "s", bg_kind_name(ladder.kind->id),
        ladder.growth);
    return BG_OK;
}

/* ---- Description ----------------------------------------------------------------- */

static const struct bgi_composed scalable_composed = {
    .create = scalable_create,
    .destroy = scalable_destroy,
    .copy = scalable_copy,
    .clear = scalable_clear,
    .similar = scalable_similar,
    .bytes = scalable_bytes,
    .capacity = scalable_capacity,
    .layers = scalable_layer_count,
    .equal = scalable_equal,
    .match = scalable_match,
    .plan = scalable_plan,
    .compact = scalable_compact,
    .recipe = scalable_recipe,
    .remake = scalable_remake,
    .part = scalable_part,
    .more = scalable_more,
    .numbers = scalable_numbers,
    .restore = scalable_restore,
};

#define SCALABLE_KIND(growth_, flags_)                                                 \
    {                                                                                  \
        .id = BG_KIND_SCALABLE, .traits = BG_TRAIT_MERGE, .width = (growth_),          \
        .flags = (flags_), .pick = scalable_pick, .merge = scalable_merge,             \
        .measure = scalable_measure, .composed = &scalable_composed,                   \
    }

const struct bgi_kind bgi_kind_scalable = SCALABLE_KIND(2, 0);

static const struct bgi_kind scalable_others[] = {
    SCALABLE_KIND(4, 0),
    SCALABLE_KIND(8, 0),
    SCALABLE_KIND(2, BG_SPEC_SCATTERED),
    SCALABLE_KIND(4, BG_SPEC_SCATTERED),
    SCALABLE_KIND(8, BG_SPEC_SCATTERED),
};

static const struct bgi_kind *scalable_pick(uint32_t width, uint32_t flags)
{
    width = width ? width : bgi_kind_scalable.width;
    if (width == bgi_kind_scalable.width && flags == 0) {
        return &bgi_kind_scalable;
    }
    for (size_t i = 0; i < sizeof scalable_others / sizeof *scalable_others; i++) {
        if (scalable_others[i].width == width && scalable_others[i].flags == flags) {
            return &scalable_others[i];
        }
    }
    return NULL;
}

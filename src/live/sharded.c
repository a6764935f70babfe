/*
 * sharded.c - a filter of any kind, split into parts that share no memory.
 *
 * Idea. Kinds that only set bits allow any number of concurrent writers. Kinds that move their
 * entries, such as cuckoo and quotient filters, make writers wait for each other. Kinds that count
 * keys, such as scalable filters, have a counter that all writers share. If the hash distributes
 * keys over S filters, S writers rarely contend for the same filter.
 *
 *     hash --> shard floor(mix(hash) * S / 2^64) --> an ordinary filter
 *
 *     [ shard 0 ......... ] [ shard 1 ......... ]  ...  [ shard S-1 ......... ]
 *       each a separate filter: bits, handle, state, locks, on separate cache lines
 *
 * Which bits. All kinds use the high bits of a hash to select a position and the low bits to
 * determine the content there, so no bits are left over to select a shard. Therefore the shard is
 * selected by the high bits of the product of the hash and an odd number. These bits depend on all
 * 64 bits of the hash, so within a shard, both the high and the low bits of the hash stay evenly
 * distributed.
 *
 * Sizes. The number of keys in a shard has a standard deviation of about sqrt(n / S). Because of
 * this variation, the rate of Bloom filters sized for the mean would be slightly higher than the
 * model's rate at the mean, by a fraction of about k (k - 1) S / 2n. To compensate, each shard has
 * space for SHARDED_SLACK additional keys. If a kind can become full, each shard also gets space
 * for five standard deviations more keys.
 *
 * Set operations work shard by shard. This is exact, because a key's shard depends only on its hash
 * and the number of shards. Filters with different numbers of shards are incompatible.
 *
 * Invariants
 *   (I1) A key's shard never changes, and a lookup queries only that shard. (C1) to (C3) of
 *        filter.h hold in each shard, so they hold for the whole filter.
 *   (I2) The handle never changes after it is created, so a thread may keep a pointer to a shard.
 */
#include "live/sharded.h"
#include "base/bits.h"
#include "base/errinfo.h"
#include "bloomgate/filter.h"
#include "filter/handle.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHARDED_SLACK = 64, SHARDED_MAX = 65536 };

/* Steele and Vigna, "Computationally easy, spectrally good multipliers", 2022. */
static const uint64_t sharded_multiplier = 0xf1357aea2e62a9c5u;

struct sharded {
    bg_filter filter;            /* must be first */
    struct bgi_kind description; /* derived from the kind of the shards */
    uint32_t count;
    bg_filter *shards[];
};

static struct sharded *sharded_of(const struct bgi_core *core)
{
    return (struct sharded *)(uintptr_t)core;
}

static bg_filter *sharded_route(const struct bgi_core *core, uint64_t hash)
{
    const struct sharded *s = sharded_of(core);
    return s->shards[bgi_mulhi(hash * sharded_multiplier, s->count)];
}

/* ---- Operations ------------------------------------------------------------------- */

static bool sharded_has(const struct bgi_core *core, uint64_t hash)
{
    const struct bgi_core *shard = &sharded_route(core, hash)->core;
    return shard->has(shard, hash);
}

static bool sharded_add(struct bgi_core *core, uint64_t hash)
{
    struct bgi_core *shard = &sharded_route(core, hash)->core;
    return shard->add(shard, hash);
}

static bg_err sharded_insert(struct bgi_core *core, uint64_t hash, bool *is_new)
{
    return bg_filter_add_hash(sharded_route(core, hash), hash, is_new);
}

static bg_err sharded_remove(struct bgi_core *core, uint64_t hash)
{
    return bg_filter_remove_hash(sharded_route(core, hash), hash);
}

static uint64_t sharded_count(const struct bgi_core *core, uint64_t hash)
{
    return bg_filter_count_hash(sharded_route(core, hash), hash);
}

static void sharded_locate(const struct bgi_core *core, struct bgi_group *group)
{
    (void)core, (void)group; /* each shard computes the locations of its keys */
}

/* Prefetches the memory for one key by looking up an empty group in its shard, with the key as
 * the next group. */
static void sharded_prefetch_one(const struct bgi_core *core, uint64_t hash,
                                 bool adding)
{
    bg_filter *shard = sharded_route(core, hash);
    const struct bgi_ops *ops = shard->core.ops;
    struct bgi_group one = { .hashes = &hash, .n = 1 }, none = { .n = 0 };
    if (!(adding ? shard->core.adds_prefetch : shard->core.lookups_prefetch)
        || !ops->has_group) {
        return;
    }
    ops->locate(&shard->core, &one);
    if (adding) {
        (void)ops->add_group(&shard->core, &none, &one);
    } else {
        (void)ops->has_group(&shard->core, &none, &one);
    }
}

static uint64_t sharded_word(struct bgi_core *core, const struct bgi_group *group,
                             const struct bgi_group *next, bool adding)
{
    uint64_t answer = 0;
    for (unsigned i = 0; next && i < next->n; i++) {
        sharded_prefetch_one(core, next->hashes[i], adding);
    }
    for (unsigned i = 0; i < group->n; i++) {
        uint64_t hash = group->hashes[i];
        bool yes = adding ? sharded_add(core, hash) : sharded_has(core, hash);
        answer |= (uint64_t)yes << i;
    }
    return answer;
}

static uint64_t sharded_has_group(const struct bgi_core *core,
                                  const struct bgi_group *group,
                                  const struct bgi_group *next)
{
    return sharded_word((struct bgi_core *)(uintptr_t)core, group, next, false);
}

static uint64_t sharded_add_group(struct bgi_core *core, const struct bgi_group *group,
                                  const struct bgi_group *next)
{
    return sharded_word(core, group, next, true);
}

static void sharded_prefetch(const struct bgi_core *core, const struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        sharded_prefetch_one(core, group->hashes[i], true);
    }
}

static const struct bgi_ops sharded_ops = {
    .has = sharded_has,
    .add = sharded_add,
    .locate = sharded_locate,
    .has_group = sharded_has_group,
    .add_group = sharded_add_group,
    .prefetch = sharded_prefetch,
    .insert = sharded_insert,
    .remove = sharded_remove,
    .count = sharded_count,
};

/* ---- Life ------------------------------------------------------------------------- */

/* Returns the spec for one shard. The canaries are spread over the shards like other keys. */
static bg_spec sharded_part(const bg_spec *spec)
{
    bg_spec part = *spec;
    double mean = ((double)spec->items + spec->canaries) / spec->shards;
    bool fills_up = bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_FILLS_UP;
    double items = mean + (fills_up ? 5 * sqrt(mean) : 0) + SHARDED_SLACK;
    part.shards = 0;
    part.canaries = 0;
    part.items = spec->items ? (uint64_t)items : 0;
    part.bytes = spec->bytes / spec->shards;
    part.max_bytes = spec->max_bytes / spec->shards;
    return part;
}

static bg_err sharded_check(const bg_spec *spec, bg_errinfo *info)
{
    if (spec->shards > SHARDED_MAX) {
        return bgi_err(info, BG_EINVAL, "shards", "0 to 65536", "%u", spec->shards);
    }
    if (spec->kind == BG_KIND_WINDOW
        || (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_STATIC)) {
        return bgi_err(info, BG_ENOTSUP, "shards", "0 for a window or a static kind",
                       "%u", spec->shards);
    }
    if (spec->bytes && spec->bytes / spec->shards == 0) {
        return bgi_err(info, BG_EINVAL, "bytes", "at least 1 byte per shard", "%llu",
                       (unsigned long long)spec->bytes);
    }
    /* The size limit of each shard must not be 0, because 0 means no limit. */
    if (spec->max_bytes && spec->max_bytes < spec->shards) {
        return bgi_err(info, BG_ENOMEM, "max_bytes", "at least 1 byte per shard",
                       "%llu", (unsigned long long)spec->max_bytes);
    }
    return BG_OK;
}

static const struct bgi_composed sharded_composed;
static void sharded_measure(const struct bgi_core *core, struct bgi_measure *m);
static void sharded_measure_or(const struct bgi_core *a, const struct bgi_core *b,
                               struct bgi_measure *m);
static bg_err sharded_merge(struct bgi_core *to, const struct bgi_core *from,
                            bool exclusive);

/* Returns the kind of a filter that consists of shards of `kind`. */
static struct bgi_kind sharded_description(const struct bgi_kind *kind)
{
    return (struct bgi_kind){
        .id = kind->id,
        .traits = kind->traits
                  & (BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_MERGE
                     | BG_TRAIT_OVERLAP | BG_TRAIT_FILLS_UP),
        .width = kind->width,
        .flags = kind->flags,
        .measure = sharded_measure,
        .measure_or = sharded_measure_or,
        .merge = sharded_merge,
        .composed = &sharded_composed,
    };
}

/* Creates a handle without shards. `like` is a filter with the geometry of one shard. */
static bg_err sharded_handle(const bg_filter *like, uint32_t count,
                             struct sharded **made, bg_errinfo *info)
{
    struct bgi_memory memory;
    const bg_allocator *allocator = like->allocator.allocate ? &like->allocator : NULL;
    size_t bytes = sizeof(struct sharded) + count * sizeof(bg_filter *);
    bg_err err = bgi_filter_take(&memory, bytes, &like->hasher, allocator, true, info);
    if (err) {
        return err;
    }
    struct sharded *s = memory.base;
    memset(s, 0, bytes);
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = like->flags;
    spec.allocator = allocator;
    s->description = sharded_description(like->kind);
    bgi_filter_begin(&s->filter, &s->description, &sharded_ops, &spec, &like->hasher);
    s->filter.memory = memory;
    s->filter.core.k = like->core.k;
    s->filter.core.units = like->core.units * count;
    s->filter.core.adds_prefetch = s->filter.core.lookups_prefetch =
        1; /* each shard decides for itself whether to prefetch */
    s->filter.shards = count;
    s->count = count;
    *made = s;
    return BG_OK;
}

static bg_err sharded_create(const bg_spec *spec, bg_filter **filter, bg_errinfo *info)
{
    bg_filter *first = NULL;
    struct sharded *s = NULL;
    bg_err err = sharded_check(spec, info);
    if (err) {
        return err;
    }
    bg_spec part = sharded_part(spec);
    err = bg_filter_create(&part, &first, info);
    err = err ? err : sharded_handle(first, spec->shards, &s, info);
    if (err) {
        bg_filter_free(first);
        return err;
    }
    assert(s);
    s->shards[0] = first;
    s->filter.design_items = spec->items;
    s->filter.design_rate = first->design_rate;
    for (uint32_t i = 1; i < s->count && !err; i++) {
        err = bg_filter_create(&part, &s->shards[i], info);
    }
    if (err) {
        bg_filter_free(&s->filter);
        return err;
    }
    *filter = &s->filter;
    return BG_OK;
}

static void sharded_destroy(bg_filter *filter)
{
    struct sharded *s = sharded_of(&filter->core);
    for (uint32_t i = 0; i < s->count; i++) {
        bg_filter_free(s->shards[i]);
    }
}

static bg_err sharded_copy(const bg_filter *filter, bg_filter **copy, bg_errinfo *info)
{
    const struct sharded *s = sharded_of(&filter->core);
    struct sharded *c = NULL;
    bg_err err = sharded_handle(s->shards[0], s->count, &c, info);
    for (uint32_t i = 0; i < s->count && !err; i++) {
        err = bg_filter_copy(s->shards[i], &c->shards[i], info);
    }
    if (err) {
        bg_filter_free(c ? &c->filter : NULL);
        return err;
    }
    assert(c);
    c->filter.design_items = filter->design_items;
    c->filter.design_rate = filter->design_rate;
    *copy = &c->filter;
    return BG_OK;
}

static bg_err sharded_similar(const bg_filter *filter, uint32_t flags,
                              bg_filter **empty, bg_errinfo *info)
{
    const struct sharded *s = sharded_of(&filter->core);
    bg_filter *first = NULL;
    struct sharded *e = NULL;
    bg_err err = bgi_filter_empty(s->shards[0], flags, &first, info);
    err = err ? err : sharded_handle(first, s->count, &e, info);
    if (err) {
        bg_filter_free(first);
        return err;
    }
    assert(e);
    e->shards[0] = first;
    e->filter.design_items = filter->design_items;
    e->filter.design_rate = filter->design_rate;
    for (uint32_t i = 1; i < s->count && !err; i++) {
        err = bgi_filter_empty(s->shards[i], flags, &e->shards[i], info);
    }
    if (err) {
        bg_filter_free(&e->filter);
        return err;
    }
    *empty = &e->filter;
    return BG_OK;
}

static void sharded_clear(bg_filter *filter)
{
    struct sharded *s = sharded_of(&filter->core);
    for (uint32_t i = 0; i < s->count; i++) {
        bg_filter_clear(s->shards[i]);
    }
}

/* ---- Measuring, comparing and merging ---------------------------------------------- */

static uint64_t sharded_bytes(const bg_filter *filter)
{
    const struct sharded *s = sharded_of(&filter->core);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bytes += bg_filter_size_bytes(s->shards[i]);
    }
    return bytes;
}

/* For Bloom kinds, returns the number of items in the spec, because the slack in each shard is not
 * extra capacity. */
static uint64_t sharded_capacity(const bg_filter *filter)
{
    const struct sharded *s = sharded_of(&filter->core);
    const struct bgi_kind *kind = s->shards[0]->kind;
    uint64_t keys = 0;
    if (!kind->composed && !kind->room) {
        return filter->design_items;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        keys += bg_filter_capacity(s->shards[i]);
    }
    return keys;
}

static uint32_t sharded_layers(const bg_filter *filter)
{
    const struct sharded *s = sharded_of(&filter->core);
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t layers = bg_filter_layers(s->shards[i]);
        most = layers > most ? layers : most;
    }
    return most;
}

/* Adds the measurement of one shard to the total. The rates are averaged, because a key is looked
 * up in only one shard. */
static void sharded_sum(struct bgi_measure *sum, const struct bgi_measure *part,
                        uint32_t count)
{
    sum->ones += part->ones;
    sum->of += part->of;
    sum->items += part->items;
    sum->error = sqrt(sum->error * sum->error + part->error * part->error);
    sum->rate += (part->overflowed ? 1 : part->rate) / count;
    sum->saturated += part->saturated;
    sum->overflowed |= part->overflowed;
}

static void sharded_measure(const struct bgi_core *core, struct bgi_measure *m)
{
    const struct sharded *s = sharded_of(core);
    for (uint32_t i = 0; i < s->count; i++) {
        struct bgi_measure part;
        bgi_filter_measure_part(s->shards[i], m->most, &part);
        sharded_sum(m, &part, s->count);
    }
}

static void sharded_measure_or(const struct bgi_core *a, const struct bgi_core *b,
                               struct bgi_measure *m)
{
    const struct sharded *sa = sharded_of(a), *sb = sharded_of(b);
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < sa->count; i++) {
        struct bgi_measure part;
        bgi_filter_measure_or(sa->shards[i], sb->shards[i], &part);
        sharded_sum(m, &part, sa->count);
    }
}

/* Generic code has already compared the number of shards. */
static bg_err sharded_match(const bg_filter *a, const bg_filter *b, bg_errinfo *info)
{
    const struct sharded *sa = sharded_of(&a->core), *sb = sharded_of(&b->core);
    return bgi_filter_match(sa->shards[0], sb->shards[0], info);
}

static bool sharded_equal(const bg_filter *a, const bg_filter *b)
{
    const struct sharded *sa = sharded_of(&a->core), *sb = sharded_of(&b->core);
    for (uint32_t i = 0; i < sa->count; i++) {
        if (!bg_filter_equal(sa->shards[i], sb->shards[i])) {
            return false;
        }
    }
    return true;
}

static bg_err sharded_merge_each(struct sharded *to, const struct sharded *from)
{
    bg_err err = BG_OK;
    for (uint32_t i = 0; i < to->count && !err; i++) {
        err = bg_filter_merge(to->shards[i], from->shards[i], NULL);
    }
    return err;
}

/* Merges shards that can become full. First performs a trial merge into copies, so that the
 * merge is all-or-nothing. The copies do not replace the shards, because other threads may be using
 * the shards. If these threads add keys between the trial and the merge, the merge can still fail
 * halfway with BG_EFULL. */
static bg_err sharded_merge_full(struct sharded *to, const struct sharded *from)
{
    bg_filter *copy = NULL;
    bg_err err = bg_filter_copy(&to->filter, &copy, NULL);
    err = err ? err : sharded_merge_each(sharded_of(&copy->core), from);
    bg_filter_free(copy);
    return err ? err : sharded_merge_each(to, from);
}

static bg_err sharded_merge(struct bgi_core *to, const struct bgi_core *from,
                            bool exclusive)
{
    struct sharded *s = sharded_of(to);
    const struct sharded *other = sharded_of(from);
    (void)exclusive; /* bg_filter_merge uses the BG_SPEC_EXCLUSIVE flag of each shard */
    return s->description.traits & BG_TRAIT_FILLS_UP ? sharded_merge_full(s, other)
                                                     : sharded_merge_each(s, other);
}

/* ---- Planning ---------------------------------------------------------------------- */

static bg_err sharded_plan(const bg_spec *spec, double growth, bg_plan *plan,
                           bg_errinfo *info)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_err err = sharded_check(spec, info);
    if (err) {
        return err;
    }
    ask.spec = sharded_part(spec);
    ask.growth = growth;
    err = bg_plan_compute(&ask, plan, info);
    if (err) {
        return err;
    }
    plan->items = (uint64_t)((double)spec->items * growth);
    plan->units *= spec->shards;
    plan->bytes *= spec->shards;
    plan->bits_per_key =
        plan->items ? 8 * (double)plan->bytes / (double)plan->items : 0;
    (void)snprintf(plan->reason, sizeof plan->reason,
                   "%s: with %u shards, as requested", bg_kind_name(plan->kind),
                   spec->shards);
    return BG_OK;
}

/* ---- In files --------------------------------------------------------------------- */

static void sharded_recipe(const bg_filter *filter, struct bgi_recipe *recipe)
{
    const struct sharded *s = sharded_of(&filter->core);
    bgi_recipe_of(s->shards[0], recipe);
    recipe->shards = s->count;
}

/* Creates all shards from the same recipe. */
static bg_err sharded_remake(const struct bgi_recipe *recipe, const bg_spec *spec,
                             const bg_hasher *hasher, uint64_t room, bg_filter **filter,
                             bg_errinfo *info)
{
    struct bgi_recipe part = *recipe;
    bg_filter *first = NULL;
    struct sharded *s = NULL;
    part.shards = 0;
    part.items = recipe->items / recipe->shards;
    if (recipe->shards > SHARDED_MAX) {
        return bgi_err(info, BG_EFORMAT, "shards", "0 to 65536", "%u", recipe->shards);
    }
    bg_err err =
        bgi_recipe_make(&part, spec, hasher, room / recipe->shards, &first, info);
    err = err ? err : sharded_handle(first, recipe->shards, &s, info);
    if (err) {
        bg_filter_free(first);
        return err;
    }
    assert(s);
    s->shards[0] = first;
    s->filter.design_items = recipe->items;
    s->filter.design_rate = recipe->rate;
    for (uint32_t i = 1; i < s->count && !err; i++) {
        err = bgi_recipe_make(&part, spec, hasher, room / recipe->shards, &s->shards[i],
                              info);
    }
    if (err) {
        bg_filter_free(&s->filter);
        return err;
    }
    *filter = &s->filter;
    return BG_OK;
}

static bg_filter **sharded_at(const bg_filter *filter, uint32_t i)
{
    struct sharded *s = sharded_of(&filter->core);
    return i < s->count ? &s->shards[i] : NULL;
}

bg_err bgi_sharded_join(bg_filter *const *shards, uint32_t count, bg_filter **filter,
                        bg_errinfo *info)
{
    struct sharded *s = NULL;
    if (count < 2 || count > SHARDED_MAX) {
        return bgi_err(info, BG_ENOTSUP, "shards", "2 to 65536", "%u", count);
    }
    if (shards[0]->kind->id == BG_KIND_WINDOW || shards[0]->shards
        || (shards[0]->kind->traits & BG_TRAIT_STATIC)) {
        return bgi_err_state(info, BG_ENOTSUP, "shards",
                             "a %s filter cannot be a shard of another filter",
                             shards[0]->shards ? "sharded"
                                               : bg_kind_name(shards[0]->kind->id));
    }
    bg_err err = sharded_handle(shards[0], count, &s, info);
    if (err) {
        return err;
    }
    assert(s);
    uint64_t canaries = 0;
    for (uint32_t i = 0; i < count; i++) {
        s->shards[i] = shards[i];
        s->filter.design_items += shards[i]->design_items;
        s->filter.degraded |= shards[i]->degraded;
        canaries += shards[i]->canaries;
    }
    /* Files with more canaries are refused. The other canaries are counted as keys. */
    s->filter.canaries =
        (uint32_t)(canaries < BGI_CANARIES_MAX ? canaries : BGI_CANARIES_MAX);
    s->filter.design_rate = shards[0]->design_rate;
    *filter = &s->filter;
    return BG_OK;
}

static const struct bgi_composed sharded_composed = {
    .create = sharded_create,
    .destroy = sharded_destroy,
    .copy = sharded_copy,
    .clear = sharded_clear,
    .similar = sharded_similar,
    .bytes = sharded_bytes,
    .capacity = sharded_capacity,
    .layers = sharded_layers,
    .equal = sharded_equal,
    .match = sharded_match,
    .plan = sharded_plan,
    .recipe = sharded_recipe,
    .remake = sharded_remake,
    .part = sharded_at,
};

const struct bgi_composed *bgi_sharded(void)
{
    return &sharded_composed;
}

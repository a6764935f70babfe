/*
 * filter.c - creates and frees filters, and performs operations on single keys.
 *
 * When a filter is created, solve.c finds the geometry, one block of memory is allocated for the
 * bits and the handle, and the operations are selected by kind, k, mode and instruction set. After
 * that, an operation costs one hash and one indirect call.
 */
#include "bloomgate/filter.h"

#include "bloomgate/memory.h"

#include "base/checked.h"
#include "base/errinfo.h"
#include "base/features.h"
#include "filter/handle.h"
#include "hash/fast.h"
#include "hash/hasher.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    LINE_BYTES = 64,
    /* The size of the handle in bytes. The kind's own state starts at the next cache line. */
    FILTER_HANDLE_BYTES = (sizeof(bg_filter) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES
};

void bg_spec_init(bg_spec *spec)
{
    *spec = bg_spec_default();
}

bg_spec bg_spec_default(void)
{
    bg_spec spec = BG_SPEC_INIT;
    return spec;
}

/* ---- Lifecycle ------------------------------------------------------------------- */

static size_t filter_state_bytes(const struct bgi_kind *kind, uint64_t units,
                                 uint32_t k)
{
    return kind->state_bytes ? kind->state_bytes(units, k) : 0;
}

/* Computes the offset of the handle and the total size of the bits, the handle and the kind's
 * state. */
static bg_err filter_layout(const struct bgi_geometry *g, size_t *bits, size_t *handle,
                            size_t *all, bg_errinfo *info)
{
    uint64_t bytes, start, end;
    size_t state = filter_state_bytes(g->kind, g->units, g->k);
    if (!bgi_geometry_bytes(g, &bytes) || !bgi_round_up_u64(bytes, LINE_BYTES, &start)
        || !bgi_add_u64(start, FILTER_HANDLE_BYTES, &end)
        || !bgi_add_u64(end, state, &end) || !bgi_fits_size(end, all)) {
        return bgi_err_state(info, BG_ENOMEM, "size",
                             "the %s filter is too large for the address space",
                             bg_kind_name(g->kind->id));
    }
    *bits = (size_t)bytes;
    *handle = (size_t)start;
    return BG_OK;
}

/* Looks up an integer under any profile and kind, by hashing the integer and then querying the
 * core. A filter starts with its core. */
static bool filter_has_u64(const struct bgi_core *core, uint64_t key)
{
    const bg_filter *filter = (const bg_filter *)(const void *)core;
    return core->has(core, bg_hash_u64(&filter->hasher, key));
}

static bool filter_add_u64(struct bgi_core *core, uint64_t key)
{
    const bg_filter *filter = (const bg_filter *)(void *)core;
    return core->add(core, bg_hash_u64(&filter->hasher, key));
}

/* Hash an integer inline with `fast-int`, and look it up or add it. */
static bool filter_has_fast_int(const struct bgi_core *core, uint64_t key)
{
    return core->has(core, bgi_fast_int_masked(core->fast8_mask, key));
}

static bool filter_add_fast_int(struct bgi_core *core, uint64_t key)
{
    return core->add(core, bgi_fast_int_masked(core->fast8_mask, key));
}

/* Sets the function pointers at the start of a filter. */
static void filter_set_calls(bg_filter *f)
{
    const struct bgi_hasher *hasher = bgi_hasher_in(&f->hasher);
    const struct bgi_ops *ops = f->core.ops;
    f->core.has = ops->has;
    f->core.add = ops->add;
    f->core.has_u64 = filter_has_u64;
    f->core.add_u64 = filter_add_u64;
    if (hasher->profile == BG_HASH_FAST && ops->has_u64) {
        f->core.has_u64 = ops->has_u64;
        f->core.add_u64 = ops->add_u64;
    } else if (hasher->profile == BG_HASH_FAST_INT) {
        f->core.has_u64 = ops->has_int ? ops->has_int : filter_has_fast_int;
        f->core.add_u64 = ops->add_int ? ops->add_int : filter_add_fast_int;
    }
    f->core.fast8_mask = bgi_fast8_mask(hasher->seed);
    f->core.may_refuse = ops->insert || f->kind->traits & BG_TRAIT_STATIC;
}

void bgi_filter_begin(bg_filter *filter, const struct bgi_kind *kind,
                      const struct bgi_ops *ops, const bg_spec *spec,
                      const bg_hasher *hasher)
{
    filter->kind = kind;
    filter->hasher = *hasher;
    filter->flags = spec->flags;
    filter->cpu = bg_cpu_current();
    if (spec->allocator) {
        filter->allocator = *spec->allocator;
    }
    filter->core.ops = ops;
    filter->core.word_ops = bgi_kind_word_ops(filter->cpu);
    filter_set_calls(filter);
}

/* Creates the handle in zeroed memory without touching the bits. Cannot fail. */
static bg_filter *filter_place(void *base, size_t bits, size_t handle,
                               const struct bgi_geometry *g, const bg_spec *spec,
                               const bg_hasher *hasher)
{
    bg_filter *f = (bg_filter *)(void *)((char *)base + handle);
    size_t state = filter_state_bytes(g->kind, g->units, g->k);
    f->core.state = state ? (char *)f + FILTER_HANDLE_BYTES : NULL;
    bgi_filter_begin(
        f, g->kind,
        bgi_kind_ops(g->kind, g->k, spec->flags & BG_SPEC_EXCLUSIVE, bg_cpu_current()),
        spec, hasher);
    f->bytes = bits;
    f->canaries = spec->canaries;
    f->design_items = g->items;
    f->design_rate = g->target;
    f->core.words = spec->flags & BGI_BARE ? NULL : base;
    f->core.units = g->units;
    f->core.k = g->k;
    /* Lookups in a filter slightly larger than the cache are still faster without prefetching. */
    f->core.adds_prefetch = bits > bgi_second_level_bytes();
    f->core.lookups_prefetch = bits > bgi_second_level_bytes() / 4 * 5;
    if (g->kind->setup) {
        g->kind->setup(&f->core);
    }
    return f;
}

bg_err bgi_filter_take(struct bgi_memory *memory, size_t bytes, const bg_hasher *hasher,
                       const bg_allocator *allocator, bool small_pages,
                       bg_errinfo *info)
{
    bool taken = bgi_hasher_keyed(hasher)
                     ? bgi_memory_take_hidden(memory, bytes, allocator, small_pages)
                     : bgi_memory_take(memory, bytes, allocator, small_pages);
    return taken ? BG_OK
                 : bgi_err_state(info, BG_ENOMEM, "memory", "cannot allocate %zu bytes",
                                 bytes);
}

bg_err bgi_filter_make(const struct bgi_geometry *g, const bg_spec *spec,
                       const bg_hasher *hasher, bg_filter **filter, bg_errinfo *info)
{
    size_t bits = 0, handle = 0, all = 0;
    struct bgi_memory memory;
    bg_err err = filter_layout(g, &bits, &handle, &all, info);
    if (err) {
        return err;
    }
    if (spec->flags & BGI_BARE) {
        all -= handle;
        handle = 0;
    }
    err = bgi_filter_take(&memory, all, hasher, spec->allocator,
                          spec->flags & BG_SPEC_SMALL_PAGES, info);
    if (err) {
        return err;
    }
    *filter = filter_place(memory.base, bits, handle, g, spec, hasher);
    (*filter)->memory = memory;
    return BG_OK;
}

/* Finds the geometry of a filter that is created empty. Fails for static kinds, which cannot be
 * created empty. */
static bg_err filter_solve_empty(const bg_spec *spec, struct bgi_geometry *g,
                                 bg_errinfo *info)
{
    bg_err err = bgi_solve(spec, 1, g, info);
    if (!err && g->kind->traits & BG_TRAIT_STATIC) {
        return bgi_err_state(info, BG_ENOTSUP, "kind",
                             "a %s filter cannot be created empty; use bg_builder",
                             bg_kind_name(g->kind->id));
    }
    return err;
}

bg_err bg_filter_create(const bg_spec *spec, bg_filter **filter, bg_errinfo *info)
{
    struct bgi_geometry g;
    bg_hasher hasher;
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a pointer to receive the filter",
                       "NULL");
    }
    *filter = NULL;
    bg_err err = bgi_spec_check(spec, info);
    if (err) {
        return err;
    }
    const struct bgi_composed *composed = bgi_spec_composed(spec);
    if (composed) {
        err = composed->create(spec, filter, info);
        if (!err && spec->kind != BG_KIND_WINDOW) {
            (*filter)->canaries = spec->canaries;
        }
        return err;
    }
    err = filter_solve_empty(spec, &g, info);
    err = err ? err : bg_hasher_init(&hasher, &spec->hash, info);
    if (err) {
        return err;
    }
    err = bgi_filter_make(&g, spec, &hasher, filter, info);
    bg_hasher_wipe(&hasher);
    return err;
}

bg_err bg_filter_memory_needed(const bg_spec *spec, size_t *bytes, bg_errinfo *info)
{
    struct bgi_geometry g;
    size_t bits = 0, handle = 0;
    if (!bytes) {
        return bgi_err(info, BG_EINVAL, "bytes", "a pointer to receive the size",
                       "NULL");
    }
    bg_err err = bgi_solve(spec, 1, &g, info);
    return err ? err : filter_layout(&g, &bits, &handle, bytes, info);
}

bg_err bg_filter_create_at(void *memory, size_t bytes, const bg_spec *spec,
                           bg_filter **filter, bg_errinfo *info)
{
    struct bgi_geometry g;
    size_t bits = 0, handle = 0, all = 0;
    bg_hasher hasher;
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a pointer to receive the filter",
                       "NULL");
    }
    *filter = NULL;
    bg_err err = filter_solve_empty(spec, &g, info);
    err = err ? err : filter_layout(&g, &bits, &handle, &all, info);
    if (err) {
        return err;
    }
    if (!memory || (uintptr_t)memory % LINE_BYTES != 0) {
        return bgi_err(info, BG_EINVAL, "memory", "an address that is a multiple of 64",
                       "%p", memory);
    }
    if (bytes < all) {
        char expected[80];
        (void)snprintf(expected, sizeof expected,
                       "at least %zu (see bg_filter_memory_needed)", all);
        return bgi_err(info, BG_EINVAL, "bytes", expected, "%zu", bytes);
    }
    err = bg_hasher_init(&hasher, &spec->hash, info);
    if (err) {
        return err;
    }
    memset(memory, 0, all);
    *filter = filter_place(memory, bits, handle, &g, spec, &hasher);
    bg_hasher_wipe(&hasher);
    return BG_OK;
}

void bg_filter_free(bg_filter *filter)
{
    if (filter) {
        if (filter->kind->composed) {
            filter->kind->composed->destroy(filter);
        }
        struct bgi_memory memory = filter->memory;
        struct bgi_mapping mapping = filter->mapping;
        bgi_wipe(filter, sizeof *filter);
        bgi_memory_give(&memory);
        bgi_mapping_give(&mapping);
    }
}

bool bgi_filter_is_changed(const bg_filter *filter)
{
    return !__atomic_load_n(&filter->mapping.doubted, __ATOMIC_ACQUIRE)
           && !bgi_mapping_is_intact(&filter->mapping);
}

bool bgi_filter_doubt(bg_filter *filter)
{
    if (__atomic_exchange_n(&filter->mapping.doubted, true, __ATOMIC_ACQ_REL)) {
        return false;
    }
    if (filter->kind->doubt) { /* for kinds in which set bits do not mean "maybe" */
        filter->kind->doubt(&filter->core);
    }
    if (!bgi_mapping_fill(&filter->mapping)) {
        __atomic_store_n(&filter->mapping.doubted, false, __ATOMIC_RELEASE);
        return false;
    }
    __atomic_store_n(&filter->degraded, true, __ATOMIC_RELAXED);
    return true;
}

static bg_err filter_similar(const bg_filter *like, uint64_t units, uint32_t k,
                             uint32_t flags, bg_filter **filter, bg_errinfo *info)
{
    /* A folded or resized filter keeps its design: the keys and the rate that were requested. */
    struct bgi_geometry g = { .kind = like->kind,
                              .k = k,
                              .units = units,
                              .items = like->design_items,
                              .target = like->design_rate };
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = flags;
    spec.canaries = bgi_filter_canaries(like);
    spec.allocator = like->allocator.allocate ? &like->allocator : NULL;
    *filter = NULL;
    const bg_err err = bgi_filter_make(&g, &spec, &like->hasher, filter, info);
    if (!err) {
        (*filter)->canary_generation = like->canary_generation;
    }
    return err;
}

bg_err bgi_filter_similar(const bg_filter *like, uint64_t units, bg_filter **filter,
                          bg_errinfo *info)
{
    return bgi_filter_similar_k(like, units, like->core.k, filter, info);
}

bg_err bgi_filter_similar_k(const bg_filter *like, uint64_t units, uint32_t k,
                            bg_filter **filter, bg_errinfo *info)
{
    return filter_similar(like, units, k, like->flags, filter, info);
}

bg_err bgi_filter_empty(const bg_filter *like, uint32_t flags, bg_filter **filter,
                        bg_errinfo *info)
{
    *filter = NULL;
    const bg_err err =
        like->kind->composed
            ? like->kind->composed->similar(like, flags, filter, info)
            : filter_similar(like, like->core.units, like->core.k, flags, filter, info);
    if (!err) {
        (*filter)->canaries = 0;
    }
    return err;
}

bg_err bg_filter_create_like(const bg_filter *filter, bg_filter **empty,
                             bg_errinfo *info)
{
    if (!filter || !empty) {
        if (empty) {
            *empty = NULL;
        }
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the empty filter", "NULL");
    }
    bgi_err_clear(info);
    return bgi_filter_empty(filter, filter->flags, empty, info);
}

bg_err bgi_filter_check_mapping(const bg_filter *filter, bg_errinfo *info)
{
    return !__atomic_load_n(&filter->mapping.doubted, __ATOMIC_ACQUIRE)
                   && bgi_mapping_is_intact(&filter->mapping)
               ? BG_OK
               : bgi_err_state(info, BG_EFORMAT, "mapped file",
                               "the mapped file was overwritten in place; load it "
                               "again, and replace files only by renaming");
}

static bg_err filter_copy(const bg_filter *filter, bg_filter **copy, bg_errinfo *info)
{
    if (filter->kind->composed) {
        return filter->kind->composed->copy(filter, copy, info);
    }
    bg_err err = bgi_filter_similar(filter, filter->core.units, copy, info);
    if (err) {
        return err;
    }
    assert(*copy);
    const uint64_t *from = bgi_filter_words(filter);
    uint64_t *to = bgi_filter_words(*copy);
    if (filter->kind->hold) {
        filter->kind->hold(&filter->core, true);
    }
    for (size_t i = 0; i < filter->bytes / 8; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
    if (filter->kind->copied) {
        filter->kind->copied(&(*copy)->core, &filter->core);
    }
    if (filter->kind->hold) {
        filter->kind->hold(&filter->core, false);
    }
    return BG_OK;
}

bg_err bg_filter_copy(const bg_filter *filter, bg_filter **copy, bg_errinfo *info)
{
    if (!filter || !copy) {
        if (copy) {
            *copy = NULL;
        }
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the copy", "NULL");
    }
    *copy = NULL;
    bgi_err_clear(info);
    bg_err err = filter_copy(filter, copy, info);
    if (err) {
        return err;
    }
    assert(*copy);
    (*copy)->degraded = __atomic_load_n(&filter->degraded, __ATOMIC_RELAXED);
    (*copy)->canaries = bgi_filter_canaries(filter);
    (*copy)->canary_generation = filter->canary_generation;
    /* This check must come after all words have been read. */
    err = bgi_filter_check_mapping(filter, info);
    if (err) {
        bg_filter_free(*copy);
        *copy = NULL;
    }
    return err;
}

void bg_filter_clear(bg_filter *filter)
{
    if (!filter) {
        return;
    }
    filter->degraded = false;
    filter->canaries = 0;
    if (filter->kind->composed) {
        filter->kind->composed->clear(filter);
        return;
    }
    bgi_memory_zero(&filter->memory, filter->core.words, filter->bytes);
    if (filter->core.state) {
        memset(filter->core.state, 0,
               filter_state_bytes(filter->kind, filter->core.units, filter->core.k));
    }
    if (filter->kind->setup) {
        filter->kind->setup(&filter->core);
    }
}

/* ---- One key ----------------------------------------------------------------------- */

/* External definitions of the header's inline functions, and checks of the layout that these
 * functions rely on. */
extern inline bool bg_filter_may_contain_hash(const bg_filter *filter, uint64_t hash);
extern inline bool bg_filter_may_contain_u64(const bg_filter *filter, uint64_t key);

#define FILTER_CALL_AT(member, call)                                                   \
    (offsetof(struct bgi_core, member) == offsetof(struct bg_filter_calls, call))
_Static_assert(offsetof(bg_filter, core) == 0 && FILTER_CALL_AT(has, may_contain)
                   && FILTER_CALL_AT(add, add)
                   && FILTER_CALL_AT(has_u64, may_contain_u64)
                   && FILTER_CALL_AT(add_u64, add_u64)
                   && FILTER_CALL_AT(may_refuse, may_refuse),
               "a filter must start with its function table");
#undef FILTER_CALL_AT

bool bg_filter_may_contain(const bg_filter *filter, const void *key, size_t len)
{
    return !filter
           || filter->core.has(&filter->core, bg_hash_bytes(&filter->hasher, key, len));
}

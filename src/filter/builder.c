/*
 * builder.c - collects keys and builds a filter from them.
 *
 * Finishing has three steps. The hashes are sorted and duplicates are removed (hash_list.c),
 * which gives the number of keys. The geometry is computed for that number, and an empty filter is
 * created. Then the filter is filled. A filter of a static kind is solved in pieces. Each piece is
 * a range of the sorted hashes, and any thread can solve any piece (kind/kind.h). For all other
 * kinds, the hashes are added in ascending order, which is the order of their positions in the
 * filter.
 */
#include "bloomgate/builder.h"

#include "base/bits.h"
#include "base/errinfo.h"
#include "base/tasks.h"
#include "filter/handle.h"
#include "filter/hash_list.h"
#include "hash/hash_batch.h"

#include <assert.h>
#include <string.h>

/* Sorting's share of the total work, for progress reports. */
static const double builder_sorting = 0.3;

/* Number of adds between calls to the progress function. */
enum { BUILDER_BATCH = 1 << 20 };

struct bg_builder {
    struct bgi_memory memory; /* of this struct */
    bg_spec spec;             /* the caller's spec, without its hash settings */
    bg_allocator allocator;
    bg_hasher hasher;
    bg_progress_fn progress;
    void *progress_context;
    struct bgi_hash_list hashes;
};

/* ---- Lifecycle ------------------------------------------------------------------- */

bg_err bg_builder_create(const bg_spec *spec, bg_builder **builder, bg_errinfo *info)
{
    struct bgi_geometry unused;
    bg_hasher hasher;
    struct bgi_memory memory;
    if (!builder) {
        return bgi_err(info, BG_EINVAL, "builder", "a pointer to receive the builder",
                       "NULL");
    }
    *builder = NULL;
    if (!spec || spec->struct_size != sizeof *spec) {
        return bgi_solve(spec, 1, &unused, info); /* describes the error */
    }
    bg_spec any = *spec;
    any.items = 1;
    bg_err err = bgi_solve(&any, 1, &unused, info);
    err = err ? err : bg_hasher_init(&hasher, &spec->hash, info);
    if (err) {
        return err;
    }
    err = bgi_filter_take(&memory, sizeof **builder, &hasher, spec->allocator, true,
                          info);
    if (err) {
        bg_hasher_wipe(&hasher);
        return err;
    }
    bg_builder *b = memory.base;
    b->memory = memory;
    b->hasher = hasher;
    bg_hasher_wipe(&hasher);
    b->spec = any;
    memset(&b->spec.hash, 0, sizeof b->spec.hash);
    if (spec->allocator) {
        b->allocator = *spec->allocator;
        b->spec.allocator = &b->allocator;
    }
    b->hashes.allocator = b->spec.allocator;
    b->hashes.small_pages = spec->flags & BG_SPEC_SMALL_PAGES;
    *builder = b;
    return BG_OK;
}

void bg_builder_free(bg_builder *builder)
{
    if (builder) {
        struct bgi_memory memory = builder->memory;
        bgi_hash_list_clear(&builder->hashes);
        bgi_wipe(builder, sizeof *builder);
        bgi_memory_give(&memory);
    }
}

void bg_builder_on_progress(bg_builder *builder, bg_progress_fn progress, void *context)
{
    if (builder) {
        builder->progress = progress;
        builder->progress_context = context;
    }
}

uint64_t bg_builder_count(const bg_builder *builder)
{
    return builder ? builder->hashes.n : 0;
}

/* ---- Adding ---------------------------------------------------------------------- */

bg_err bg_builder_add_hash(bg_builder *builder, uint64_t hash)
{
    size_t one;
    if (!builder) {
        return BG_EINVAL;
    }
    if (!bgi_hash_list_reserve(&builder->hashes, 1)) {
        return BG_ENOMEM;
    }
    *bgi_hash_list_next(&builder->hashes, 1, &one) = hash;
    return BG_OK;
}

bg_err bg_builder_add(bg_builder *builder, const void *key, size_t len)
{
    uint64_t hash = builder ? bg_hash_bytes(&builder->hasher, key, len) : 0;
    return bg_builder_add_hash(builder, hash);
}

bg_err bg_builder_add_u64(bg_builder *builder, uint64_t key)
{
    uint64_t hash = builder ? bg_hash_u64(&builder->hasher, key) : 0;
    return bg_builder_add_hash(builder, hash);
}

bg_err bg_builder_add_many(bg_builder *builder, bg_keys keys)
{
    if (!builder || !bgi_keys_are_valid(&keys)) {
        return BG_EINVAL;
    }
    if (!bgi_keys_fit(&keys, &builder->hasher)) {
        return BG_EINCOMPAT;
    }
    if (!bgi_hash_list_reserve(&builder->hashes, keys.count)) {
        return BG_ENOMEM;
    }
    for (size_t first = 0, got = 0; first < keys.count; first += got) {
        uint64_t *to = bgi_hash_list_next(&builder->hashes, keys.count - first, &got);
        bgi_hash_range(&builder->hasher, &keys, first, got, to);
    }
    return BG_OK;
}

/* ---- Finishing ------------------------------------------------------------------- */

/* The state of a bg_builder_finish call. */
struct builder_work {
    bg_builder *builder;
    bg_filter *filter;
    const struct bgi_static *kind;
    const uint64_t *hashes;
    size_t n;
    unsigned threads;
    uint64_t pieces;
    size_t scratch_bytes; /* per thread */
    struct bgi_memory scratch;
    size_t done; /* number of solved pieces; atomic */
    /* 1 + the index of a piece for which no seed worked, or 0 if there is none; atomic. */
    uint64_t failed;
    bool cancelled;
};

/* Reports progress to the caller. Returns false if the caller cancels. */
static bool builder_tell(const bg_builder *builder, double share)
{
    return !builder->progress || builder->progress(builder->progress_context, share);
}

static bool builder_tell_sorted(void *context, double share)
{
    return builder_tell(context, builder_sorting * share);
}

static bool builder_tell_filled(const bg_builder *builder, double share)
{
    return builder_tell(builder, builder_sorting + (1 - builder_sorting) * share);
}

static bg_err builder_cancelled(bg_errinfo *info)
{
    return bgi_err_state(info, BG_ECANCELED, "progress",
                         "the progress callback canceled the build");
}

static bg_err builder_no_memory(bg_errinfo *info, const char *what, uint64_t n)
{
    return bgi_err_state(info, BG_ENOMEM, "memory",
                         "cannot allocate %s (the builder has %llu hashes)", what,
                         (unsigned long long)n);
}

/* Returns the index of the first sorted hash that belongs to `piece` or a later piece. */
static size_t builder_piece_start(const struct builder_work *w, uint64_t piece)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bgi_mulhi(w->hashes[middle], w->pieces) < piece) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool builder_solve_piece(void *context, size_t piece, unsigned thread)
{
    struct builder_work *w = context;
    size_t from = builder_piece_start(w, piece), to = builder_piece_start(w, piece + 1);
    void *scratch = (char *)w->scratch.base + thread * w->scratch_bytes;
    if (!w->kind->solve(&w->filter->core, piece, w->hashes + from, to - from,
                        scratch)) {
        __atomic_store_n(&w->failed, (uint64_t)piece + 1, __ATOMIC_RELAXED);
        return false;
    }
    size_t done = __atomic_add_fetch(&w->done, 1, __ATOMIC_RELAXED);
    if (thread == 0
        && !builder_tell_filled(w->builder, (double)done / (double)w->pieces)) {
        w->cancelled = true;
        return false;
    }
    return true;
}

/* Allocates enough scratch memory for each thread to solve the largest piece. */
static bool builder_take_scratch(struct builder_work *w)
{
    const bg_filter *f = w->filter;
    const bg_builder *b = w->builder;
    size_t largest = 0;
    for (uint64_t piece = 0, from = 0; piece < w->pieces; piece++) {
        size_t to = builder_piece_start(w, piece + 1);
        largest = to - (size_t)from > largest ? to - (size_t)from : largest;
        from = to;
    }
    assert(w->pieces > 0 && w->threads > 0);
    w->threads = w->threads < w->pieces ? w->threads : (unsigned)w->pieces;
    w->scratch_bytes = w->kind->scratch_bytes(f->core.units, f->core.k, largest);
    w->scratch_bytes = (w->scratch_bytes + 63) / 64 * 64;
    return w->scratch_bytes <= SIZE_MAX / 2 / w->threads
           && bgi_memory_take(&w->scratch, w->scratch_bytes * w->threads,
                              b->spec.allocator, b->spec.flags & BG_SPEC_SMALL_PAGES);
}

static bg_err builder_solve(struct builder_work *w, bg_errinfo *info)
{
    bg_filter *f = w->filter;
    w->kind = f->kind->built(f->core.k);
    w->pieces = w->kind->pieces(f->core.units, f->core.k);
    if (!builder_take_scratch(w)) {
        return builder_no_memory(info, "scratch memory for one part of the filter",
                                 w->n);
    }
    bool solved = bgi_tasks_run(w->threads, (size_t)w->pieces, builder_solve_piece, w);
    bgi_memory_give(&w->scratch);
    if (solved) {
        w->kind->seal(&f->core, w->n);
        return BG_OK;
    }
    if (w->cancelled) {
        return builder_cancelled(info);
    }
    return bgi_err_state(
        info, BG_EBUILD, "hashes",
        "cannot build part %llu of %llu of the filter: none of %u seeds worked, because "
        "the hashes are not uniformly distributed; use a better hash function",
        (unsigned long long)w->failed, (unsigned long long)w->pieces,
        w->kind->attempts);
}

/* Fills a filter of a kind that accepts keys one by one. */
static bg_err builder_insert(struct builder_work *w, bg_errinfo *info)
{
    size_t done = 0;
    for (size_t first = 0; first < w->n; first += done) {
        size_t n = w->n - first < BUILDER_BATCH ? w->n - first : BUILDER_BATCH;
        bg_err err = bg_filter_add_many(w->filter, bg_keys_hashes(w->hashes + first, n),
                                        NULL, &done, NULL);
        if (err) {
            return bgi_err_state(info, err, "keys",
                                 "cannot add %zu keys: only %zu fit into the filter",
                                 w->n, first + done);
        }
        if (!builder_tell_filled(w->builder, (double)(first + n) / (double)w->n)) {
            return builder_cancelled(info);
        }
    }
    return BG_OK;
}

static bg_err builder_make(const bg_builder *b, size_t n, bg_filter **filter,
                           bg_errinfo *info)
{
    struct bgi_geometry g;
    bg_spec spec = b->spec;
    spec.items =
        n > spec.canaries ? n - spec.canaries : 1; /* n includes the canaries */
    bg_err err = bgi_solve(&spec, 1, &g, info);
    if (err) {
        return err;
    }
    if (g.kind->traits & BG_TRAIT_STATIC && g.rate >= 1) {
        uint64_t bytes = g.units * g.kind->unit_bytes(g.k);
        return bgi_err_state(
            info, BG_EFULL, "keys",
            "%zu keys do not fit into a filter of %llu bytes; specify a larger size", n,
            (unsigned long long)bytes);
    }
    return bgi_filter_make(&g, &spec, &b->hasher, filter, info);
}

static bg_err builder_fill(struct builder_work *w, bg_errinfo *info)
{
    assert(w->filter);
    return w->filter->kind->traits & BG_TRAIT_STATIC ? builder_solve(w, info)
                                                     : builder_insert(w, info);
}

static bg_err builder_run(bg_builder *b, unsigned threads, bg_filter **filter,
                          bg_errinfo *info)
{
    struct builder_work w = { .builder = b, .threads = threads };
    struct bgi_watch watch = { builder_tell_sorted, b };
    static const uint64_t none = 0;
    bool stopped;
    if (!bgi_hash_list_sort(&b->hashes, threads, &watch, &stopped)) {
        return stopped ? builder_cancelled(info)
                       : builder_no_memory(info, "8 more bytes per key for sorting",
                                           b->hashes.n);
    }
    w.n = b->hashes.n;
    w.hashes = w.n ? bgi_hash_list_all(&b->hashes) : &none;
    bg_err err = builder_make(b, w.n, &w.filter, info);
    err = err ? err : builder_fill(&w, info);
    if (err) {
        bg_filter_free(w.filter);
        return err;
    }
    bgi_hash_list_clear(&b->hashes);
    *filter = w.filter;
    return BG_OK;
}

bg_err bg_builder_finish_threaded(bg_builder *builder, unsigned threads,
                                  bg_filter **filter, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (filter) {
        *filter = NULL;
    }
    if (!builder || !filter) {
        return bgi_err(info, BG_EINVAL, builder ? "filter" : "builder",
                       "a builder and a pointer to receive the filter", "NULL");
    }
    if (threads < 1 || threads > BGI_THREADS_MAX) {
        return bgi_err(info, BG_EINVAL, "threads", "1 .. 256", "%u", threads);
    }
    return builder_run(builder, threads, filter, info);
}

bg_err bg_builder_finish(bg_builder *builder, bg_filter **filter, bg_errinfo *info)
{
    return bg_builder_finish_threaded(builder, 1, filter, info);
}

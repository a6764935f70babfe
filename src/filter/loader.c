/*
 * loader.c - fills one filter from several threads.
 *
 * Idea. Adding a key to a blocked or split filter touches one unit of memory. So the filter is
 * divided into regions of whole lines, each with a lock. A thread that holds a region's lock can
 * add keys to the region without atomic instructions. Keys are processed in blocks. Each block is
 * sorted by region (one pass counts the keys, and a second pass moves them), and its regions are
 * then visited, starting with the regions whose locks are free.
 *
 *     block of hashes --> sorted: [ region 0 | region 1 | ... ]
 *                                     |          |
 *                              lock, add many   busy: try again later
 *
 * The kind determines the unit of a hash (`locate`), and regions consist of whole units, so no
 * two regions share a unit. Regions start at multiples of 64 bytes, so no two regions share a
 * line. The keys that a thread has added are visible to the next thread that takes the lock, and
 * to any thread that joins the loading threads.
 *
 * With about a hundred keys per visit, a lock costs less than a nanosecond per key. With fewer
 * regions, threads would wait for each other. With more regions, batches would be too short for
 * their memory to arrive in time.
 */
#include "bloomgate/loader.h"

#include "base/errinfo.h"
#include "filter/handle.h"
#include "hash/hash_batch.h"

#include <pthread.h>

enum { LOADER_REGIONS = 16, LOADER_BLOCK = 4096, LOADER_GROUP = 64, LOADER_LINE = 6 };

struct loader_region {
    _Alignas(64) pthread_mutex_t lock;
};

struct bg_loader {
    bg_filter *filter;
    bool shared;    /* the filter itself accepts concurrent adds */
    unsigned shift; /* region = byte offset of a unit >> shift */
    unsigned regions;
    struct bgi_memory memory;
    struct loader_region locks[LOADER_REGIONS];
};

/* Returns whether all bits of a key are in one unit of the words, which `locate` finds. */
static bool loader_divides(const bg_filter *filter)
{
    return !filter->kind->composed && filter->core.ops->has_any
           && (filter->flags & BG_SPEC_EXCLUSIVE);
}

bg_err bg_loader_create(bg_filter *filter, bg_loader **loader, bg_errinfo *info)
{
    struct bgi_memory memory;
    bgi_err_clear(info);
    if (loader) {
        *loader = NULL;
    }
    if (!filter || !loader) {
        return bgi_err(info, BG_EINVAL, filter ? "loader" : "filter", "a pointer",
                       "NULL");
    }
    if (filter->kind->traits & BG_TRAIT_STATIC) {
        return bgi_err_state(info, BG_ENOTSUP, "kind",
                             "a %s filter cannot be loaded key by key; use bg_builder",
                             bg_kind_name(filter->kind->id));
    }
    if (!bgi_memory_take(&memory, sizeof **loader, NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "loader",
                             "cannot allocate memory for the loader");
    }
    bg_loader *made = memory.base;
    made->filter = filter;
    made->memory = memory;
    made->shared = !(filter->flags & BG_SPEC_EXCLUSIVE);
    made->shift = 63;
    if (loader_divides(filter)) {
        made->shift = LOADER_LINE;
        while ((filter->bytes - 1) >> made->shift >= LOADER_REGIONS) {
            made->shift++;
        }
    }
    made->regions = (unsigned)((uint64_t)(filter->bytes - 1) >> made->shift) + 1;
    for (unsigned i = 0; i < LOADER_REGIONS; i++) {
        (void)pthread_mutex_init(&made->locks[i].lock, NULL);
    }
    *loader = made;
    return BG_OK;
}

void bg_loader_free(bg_loader *loader)
{
    if (loader) {
        struct bgi_memory memory = loader->memory;
        for (unsigned i = 0; i < LOADER_REGIONS; i++) {
            (void)pthread_mutex_destroy(&loader->locks[i].lock);
        }
        bgi_memory_give(&memory);
    }
}

/* The hashes of a block, sorted by region: the hashes of region r start at
 * begins[r]. */
struct loader_sorted {
    uint64_t hashes[LOADER_BLOCK];
    unsigned begins[LOADER_REGIONS + 1];
};

static void loader_sort(const bg_loader *loader, const uint64_t *hashes, size_t n,
                        struct loader_sorted *sorted)
{
    const struct bgi_core *core = &loader->filter->core;
    uint8_t region[LOADER_BLOCK];
    unsigned next[LOADER_REGIONS] = { 0 };
    for (size_t first = 0; first < n; first += LOADER_GROUP) {
        struct bgi_group group = { .hashes = hashes + first,
                                   .n = n - first < LOADER_GROUP ? (unsigned)(n - first)
                                                                 : LOADER_GROUP };
        core->ops->locate(core, &group);
        for (unsigned i = 0; i < group.n; i++) {
            region[first + i] = (uint8_t)(group.at[i] >> loader->shift);
            next[region[first + i]]++;
        }
    }
    for (unsigned r = 0, at = 0; r < LOADER_REGIONS; r++) {
        sorted->begins[r] = at;
        at += next[r];
        next[r] = sorted->begins[r];
        sorted->begins[r + 1] = at;
    }
    for (size_t i = 0; i < n; i++) {
        sorted->hashes[next[region[i]]++] = hashes[i];
    }
}

/* The results of one thread. */
struct loader_sum {
    bg_err err;
    size_t added;
};

static void loader_add(bg_loader *loader, const uint64_t *hashes, size_t n,
                       struct loader_sum *sum)
{
    size_t added = 0;
    const bg_err err = bg_filter_add_many(loader->filter, bg_keys_hashes(hashes, n),
                                          NULL, NULL, &added);
    sum->added += added;
    sum->err = sum->err ? sum->err : err;
}

/* Adds the hashes of a region, then unlocks it. */
static void loader_visit(bg_loader *loader, const struct loader_sorted *sorted,
                         unsigned r, struct loader_sum *sum)
{
    const unsigned n = sorted->begins[r + 1] - sorted->begins[r];
    loader_add(loader, sorted->hashes + sorted->begins[r], n, sum);
    (void)pthread_mutex_unlock(&loader->locks[r].lock);
}

/* Visits all regions of a block, starting with the regions whose locks are free. The starting
 * region varies between blocks, so that threads rarely wait for each other. */
static void loader_add_sorted(bg_loader *loader, const struct loader_sorted *sorted,
                              struct loader_sum *sum)
{
    unsigned left[LOADER_REGIONS], n = 0;
    const unsigned from = (unsigned)sorted->hashes[0] % loader->regions;
    for (unsigned i = 0; i < loader->regions; i++) {
        const unsigned r = (from + i) % loader->regions;
        if (sorted->begins[r] == sorted->begins[r + 1]) {
            continue;
        }
        if (pthread_mutex_trylock(&loader->locks[r].lock) == 0) {
            loader_visit(loader, sorted, r, sum);
        } else {
            left[n++] = r;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_mutex_lock(&loader->locks[left[i]].lock);
        loader_visit(loader, sorted, left[i], sum);
    }
}

/* Adds a block of keys to a filter in exclusive mode. */
static void loader_add_block(bg_loader *loader, const uint64_t *hashes, size_t n,
                             struct loader_sum *sum)
{
    struct loader_sorted sorted;
    if (loader->regions > 1) {
        loader_sort(loader, hashes, n, &sorted);
        loader_add_sorted(loader, &sorted, sum);
        return;
    }
    (void)pthread_mutex_lock(&loader->locks[0].lock);
    loader_add(loader, hashes, n, sum);
    (void)pthread_mutex_unlock(&loader->locks[0].lock);
}

bg_err bg_loader_add_many(bg_loader *loader, bg_keys keys, size_t *added)
{
    uint64_t hashes[LOADER_BLOCK];
    struct loader_sum sum = { BG_OK, 0 };
    if (added) {
        *added = 0;
    }
    if (!loader || !bgi_keys_are_valid(&keys)) {
        return BG_EINVAL;
    }
    if (!bgi_keys_fit(&keys, &loader->filter->hasher)) {
        return BG_EINCOMPAT;
    }
    if (loader->shared) {
        return bg_filter_add_many(loader->filter, keys, NULL, NULL, added);
    }
    for (size_t first = 0; first < keys.count && !sum.err; first += LOADER_BLOCK) {
        const size_t here =
            keys.count - first < LOADER_BLOCK ? keys.count - first : LOADER_BLOCK;
        bgi_hash_range(&loader->filter->hasher, &keys, first, here, hashes);
        loader_add_block(loader, hashes, here, &sum);
    }
    if (added) {
        *added = sum.added;
    }
    return sum.err;
}

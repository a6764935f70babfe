/*
 * filters.h - shared by the filter tests: the kinds and their documented limits, exact
 * specs, hashes, and a counting allocator that fails on demand. It includes only public
 * headers, so that API tests can include it.
 */
#ifndef FILTERS_H
#define FILTERS_H

#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- Kinds ----------------------------------------------------------------------- */

#define FILTERS_COUNT(NAME, number, name) +1
#define FILTERS_LIST(NAME, number, name)  BG_KIND_##NAME,
enum { KIND_COUNT = BG_BLOOM_KINDS(FILTERS_COUNT) };

static inline bg_kind kind_at(int i)
{
    static const bg_kind all[] = { BG_BLOOM_KINDS(FILTERS_LIST) };
    return all[i];
}

/* The range of k for each Bloom kind, as documented in spec.h. */
static inline uint32_t kind_k_min(bg_kind kind)
{
    switch (kind) {
    default: break;
    case BG_KIND_CLASSIC:
    case BG_KIND_PARTITIONED:
    case BG_KIND_REGISTER: return 1;
    case BG_KIND_BLOCKED: return 3;
    case BG_KIND_SPLIT: return 8;
    }
    return 0;
}

static inline uint32_t kind_k_max(bg_kind kind)
{
    switch (kind) {
    default: break;
    case BG_KIND_CLASSIC:
    case BG_KIND_PARTITIONED: return 64;
    case BG_KIND_REGISTER: return 10;
    case BG_KIND_BLOCKED: return 16;
    case BG_KIND_SPLIT: return 8;
    }
    return 0;
}

static inline uint32_t kind_unit_bytes(bg_kind kind, uint32_t k)
{
    switch (kind) {
    default: break;
    case BG_KIND_CLASSIC:
    case BG_KIND_REGISTER: return 8;
    case BG_KIND_PARTITIONED: return 8 * k;
    case BG_KIND_BLOCKED: return 64;
    case BG_KIND_SPLIT: return 32;
    }
    return 1; /* not 0, because callers divide by this */
}

/* Returns a suitable k for this kind at about 10 bits per key. */
static inline uint32_t kind_k_usual(bg_kind kind)
{
    return kind == BG_KIND_SPLIT ? 8 : kind == BG_KIND_REGISTER ? 5 : 6;
}

/* ---- Specs and filters ----------------------------------------------------------- */

static inline bg_spec exact_spec(bg_kind kind, uint64_t units, uint32_t k,
                                 uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.k = k;
    spec.bytes = units * kind_unit_bytes(kind, k);
    spec.flags = flags;
    return spec;
}

static inline bg_filter *must_create(const bg_spec *spec)
{
    bg_filter *filter = NULL;
    bg_errinfo why;
    if (bg_filter_create(spec, &filter, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "create: %s", why.message);
    }
    return filter;
}

/* Creates a filter of this kind that uses about `bytes` bytes and can be folded `folds` times. */
static inline bg_filter *make_filter(bg_kind kind, uint64_t bytes, unsigned folds)
{
    uint32_t k = kind_k_usual(kind);
    uint64_t step = (uint64_t)1 << folds, units = bytes / kind_unit_bytes(kind, k);
    units = units < step ? step : units - units % step;
    bg_spec spec = exact_spec(kind, units, k, 0);
    return must_create(&spec);
}

static inline bg_filter_info info_of(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(filter, &info));
    return info;
}

enum { RANGE_BATCH = 500 };

/* Writes up to RANGE_BATCH of the n consecutive keys that start at `first`, and returns how many it
 * wrote. */
static inline size_t range_batch(uint64_t keys[RANGE_BATCH], uint64_t first, size_t n)
{
    const size_t step = n < RANGE_BATCH ? n : RANGE_BATCH;
    for (size_t i = 0; i < step; i++) {
        keys[i] = first + i;
    }
    return step;
}

/* Adds keys first .. first + n - 1 in batches, and returns how many were new. */
static inline size_t add_range(bg_filter *filter, uint64_t first, size_t n)
{
    uint64_t keys[RANGE_BATCH];
    size_t added = 0;
    for (size_t done = 0, step; done < n; done += step) {
        step = range_batch(keys, first + done, n - done);
        added += added_many(filter, bg_keys_u64(keys, step), NULL);
    }
    return added;
}

/* Returns the number of these keys for which the filter answers "maybe". */
static inline size_t ask_range(const bg_filter *filter, uint64_t first, size_t n)
{
    uint64_t keys[RANGE_BATCH];
    size_t maybe = 0;
    for (size_t done = 0, step; done < n; done += step) {
        step = range_batch(keys, first + done, n - done);
        maybe += bg_filter_may_contain_many(filter, bg_keys_u64(keys, step), NULL);
    }
    return maybe;
}

static inline void random_hashes(uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hashes[i] = check_random();
    }
}

/* Returns memory aligned to a cache line, as bg_filter_create_at requires. The caller must free the
 * memory. */
static inline void *line_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(memory != NULL);
    return memory;
}

/* ---- A counting allocator that fails on demand ----------------------------------- */

enum { COUNTING_MAX = 32 };

struct counting {
    bg_allocator hooks;
    size_t calls;      /* calls of allocate */
    size_t fail_at;    /* index of the failing call, starting at 1, or 0 for none */
    bool fail_onwards; /* whether all later calls fail as well */
    size_t live;       /* blocks in use */
    size_t mistakes;   /* releases of unknown memory or with a wrong size */
    struct {
        void *memory;
        size_t bytes;
    } piece[COUNTING_MAX];
};

static inline void *counting_allocate(void *context, size_t bytes, size_t alignment,
                                      bool zeroed)
{
    struct counting *c = context;
    c->calls++;
    bool fails = c->fail_at
                 && (c->fail_onwards ? c->calls >= c->fail_at : c->calls == c->fail_at);
    size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *memory = fails ? NULL : aligned_alloc(alignment, whole);
    if (!memory) {
        return NULL;
    }
    memset(memory, zeroed ? 0 : 0xa5, bytes);
    for (int i = 0; i < COUNTING_MAX; i++) {
        if (!c->piece[i].memory) {
            c->piece[i].memory = memory;
            c->piece[i].bytes = bytes;
            c->live++;
            return memory;
        }
    }
    free(memory);
    return NULL;
}

static inline void counting_release(void *context, void *memory, size_t bytes)
{
    struct counting *c = context;
    for (int i = 0; i < COUNTING_MAX; i++) {
        if (memory && c->piece[i].memory == memory) {
            c->mistakes += c->piece[i].bytes != bytes;
            c->piece[i].memory = NULL;
            c->live--;
            free(memory);
            return;
        }
    }
    c->mistakes++;
}

/* Starts counting. From now on, `c` must not be moved. */
static inline void counting_start(struct counting *c)
{
    memset(c, 0, sizeof *c);
    c->hooks = (bg_allocator){ counting_allocate, counting_release, c };
}

/* ---- Shared by the tests of several kinds ----------------------------------------- */

/* Returns the i-th kind that supports removal, or BG_KIND_AUTO after the last kind. */
static inline bg_kind removing_kind(unsigned i)
{
    static const bg_kind all[] = { BG_KINDS(FILTERS_LIST) };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        if ((bg_kind_traits(all[k]) & BG_TRAIT_REMOVE) && i-- == 0) {
            return all[k];
        }
    }
    return BG_KIND_AUTO;
}

/* Adds n random keys below `adds`, in a batch to `many` and one at a time to `one`. Then queries n
 * random keys below `asks` in the same two ways. Checks that the answers are the same and the
 * filters stay equal. Requires n <= 10000. */
static inline void check_batch_agrees(bg_filter *one, bg_filter *many, size_t n,
                                      uint64_t adds, uint64_t asks)
{
    static uint64_t keys[10000], bits[BG_BITMAP_WORDS(10000)];
    for (int adding = 1; adding >= 0; adding--) {
        for (size_t i = 0; i < n; i++) {
            keys[i] = check_random_below(adding ? adds : asks);
        }
        size_t count =
            adding ? added_many(many, bg_keys_u64(keys, n), bits)
                   : bg_filter_may_contain_many(many, bg_keys_u64(keys, n), bits);
        for (size_t i = 0; i < n; i++) {
            bool yes = adding ? added_u64(one, keys[i])
                              : bg_filter_may_contain_u64(one, keys[i]);
            count -= yes;
            CHECK_EQ(bits[i / 64] >> (i % 64) & 1, yes);
        }
        CHECK_EQ(count, 0);
        CHECK(bg_filter_equal(one, many));
    }
}

/* Uses a builder to build a filter from n hashes that are derived from n, and checks that the
 * filter finds them. */
static inline bg_filter *build_of_hashes(const bg_spec *spec, uint64_t n)
{
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bg_errinfo why;
    uint64_t state = n;
    CHECK_OK(bg_builder_create(spec, &builder, &why));
    for (uint64_t i = 0; i < n; i++) {
        CHECK_OK(bg_builder_add_hash(builder, check_random_next(&state)));
    }
    if (bg_builder_finish(builder, &filter, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%llu keys: %s", (unsigned long long)n,
                   why.message);
    }
    bg_builder_free(builder);
    return filter;
}

static inline void check_built_hashes(const bg_filter *filter, uint64_t n)
{
    uint64_t state = n;
    for (uint64_t i = 0; i < n; i++) {
        CHECK(bg_filter_may_contain_hash(filter, check_random_next(&state)));
    }
}

#endif

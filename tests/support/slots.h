/*
 * slots.h - shared by the slot tests: filters whose keys are a range of integers, slots with
 * such filters, and functions that count the keys for which a slot answers "maybe". Public headers
 * only.
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

static inline bg_filter *make_seeded(bg_kind kind, uint64_t items, uint64_t seed)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = 0.001;
    spec.hash.seed = seed;
    return must_create(&spec);
}

static inline bg_filter *make(bg_kind kind, uint64_t items)
{
    return make_seeded(kind, items, 0);
}

/* Returns a filter with keys first .. first + n - 1. */
static inline bg_filter *make_with(uint64_t first, uint64_t n)
{
    bg_filter *filter = make(BG_KIND_BLOCKED, 2000);
    for (uint64_t key = first; key < first + n; key++) {
        (void)added_u64(filter, key);
    }
    return filter;
}

/* Returns a filter of a static kind with these keys. */
static inline bg_filter *make_static(uint64_t first, uint64_t n)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    spec.kind = BG_KIND_FUSE;
    spec.items = n;
    spec.rate = 0.001;
    CHECK_OK(bg_builder_create(&spec, &builder, NULL));
    for (uint64_t key = first; key < first + n; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    CHECK_OK(bg_builder_finish(builder, &filter, NULL));
    bg_builder_free(builder);
    return filter;
}

static inline bg_slot *make_slot(bg_filter *filter, uint32_t flags)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    options.flags = flags;
    CHECK_OK(bg_slot_create(filter, &options, &slot, NULL));
    return slot;
}

static inline void add_keys(bg_slot *slot, uint64_t first, uint64_t n)
{
    for (uint64_t key = first; key < first + n; key++) {
        CHECK_OK(bg_slot_add_u64(slot, key, NULL));
    }
}

/* Returns the number of keys from first to first + n - 1 for which the slot answers "maybe". Queries
 * the keys both one by one and in a batch. */
static inline uint64_t count_keys(const bg_slot *slot, uint64_t first, uint64_t n)
{
    uint64_t found = 0, keys[4000] = { 0 }, bitmap[BG_BITMAP_WORDS(4000)];
    CHECK(n <= 4000);
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = first + i;
        found += bg_slot_may_contain_u64(slot, first + i);
    }
    CHECK_EQ(bg_slot_may_contain_many(slot, bg_keys_u64(keys, (size_t)n), bitmap),
             found);
    for (uint64_t i = 0; i < n; i++) {
        CHECK_EQ(bitmap[i / 64] >> i % 64 & 1, bg_slot_may_contain_u64(slot, keys[i]));
    }
    return found;
}

static inline bg_slot_info stats_of(const bg_slot *slot)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_get_info(slot, &stats));
    return stats;
}

#endif

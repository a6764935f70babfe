/*
 * ours.c - creates, fills and restores filters, and turns them into subjects.
 */
#include "ours.h"
#include "bench_adds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bg_spec bgb_spec(uint32_t kind, uint64_t n, double rate, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = n;
    spec.rate = rate;
    spec.flags = flags;
    return spec;
}

bg_filter *bgb_filter_make(const bg_spec *spec, uint64_t n)
{
    bg_errinfo why;
    bg_filter *filter;
    if (bg_filter_create(spec, &filter, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    bgb_keys_fill(filter, n);
    return filter;
}

void bgb_arena_make(struct bgb_arena *arena, const bg_spec *spec, uint64_t fill,
                    size_t skew)
{
    bg_errinfo why;
    size_t bytes;
    memset(arena, 0, sizeof *arena);
    if (bg_filter_memory_needed(spec, &bytes, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    bool small_pages = (spec->flags & BG_SPEC_SMALL_PAGES) != 0;
    bgb_region_make(&arena->region, bytes + skew, small_pages);
    void *memory = arena->region.base + skew;
    if (bg_filter_create_at(memory, bytes, spec, &arena->filter, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    if (fill) {
        bgb_keys_fill(arena->filter, fill);
        bgb_arena_save(arena);
    }
}

void bgb_arena_save(struct bgb_arena *arena)
{
    if (!arena->saved.base) {
        bgb_region_make(&arena->saved, arena->region.bytes, false);
    }
    memcpy(arena->saved.base, arena->region.base, arena->region.bytes);
}

/* The region also contains the filter's handle, whose address does not change, so copying the bytes
 * restores the handle as well. */
void bgb_arena_rewind(struct bgb_arena *arena)
{
    memcpy(arena->region.base, arena->saved.base, arena->saved.bytes);
}

void bgb_arena_free(struct bgb_arena *arena)
{
    bg_filter_free(arena->filter);
    bgb_region_free(&arena->region);
    bgb_region_free(&arena->saved);
    memset(arena, 0, sizeof *arena);
}

/* ---- Passes -------------------------------------------------------------------- */

static uint64_t ours_look_hash_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += bg_filter_may_contain_hash(s->filter, s->words[i]);
    }
    return positives;
}

static uint64_t ours_look_u64_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += bg_filter_may_contain_u64(s->filter, s->words[i]);
    }
    return positives;
}

static uint64_t ours_look_bytes_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives +=
            bg_filter_may_contain(s->filter, s->bytes[i].data, s->bytes[i].len);
    }
    return positives;
}

static uint64_t ours_add_hash_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += added_hash(s->filter, s->words[i]);
    }
    return positives;
}

static uint64_t ours_add_u64_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += added_u64(s->filter, s->words[i]);
    }
    return positives;
}

static uint64_t ours_add_bytes_one(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    uint64_t positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += added(s->filter, s->bytes[i].data, s->bytes[i].len);
    }
    return positives;
}

static uint64_t ours_look_hash_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return bg_filter_may_contain_many(s->filter, bg_keys_hashes(s->words + first, n),
                                      s->bitmap);
}

static uint64_t ours_look_u64_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return bg_filter_may_contain_many(s->filter, bg_keys_u64(s->words + first, n),
                                      s->bitmap);
}

static uint64_t ours_look_bytes_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return bg_filter_may_contain_many(s->filter, bg_keys_bytes(s->bytes + first, n),
                                      s->bitmap);
}

static uint64_t ours_add_hash_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return added_many(s->filter, bg_keys_hashes(s->words + first, n), s->bitmap);
}

static uint64_t ours_add_u64_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return added_many(s->filter, bg_keys_u64(s->words + first, n), s->bitmap);
}

static uint64_t ours_add_bytes_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return added_many(s->filter, bg_keys_bytes(s->bytes + first, n), s->bitmap);
}

/* A single record is passed by pointer and length. Several records are passed by the address of the
 * first record. */
#define ours_look_fixed_one ours_look_bytes_one
#define ours_add_fixed_one  ours_add_bytes_one

static uint64_t ours_look_fixed_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return bg_filter_may_contain_many(
        s->filter, bg_keys_fixed(s->bytes[first].data, BGB_RECORD_BYTES, n), s->bitmap);
}

static uint64_t ours_add_fixed_all(void *state, size_t first, size_t n)
{
    const struct bgb_ours *s = state;
    return added_many(
        s->filter, bg_keys_fixed(s->bytes[first].data, BGB_RECORD_BYTES, n), s->bitmap);
}

/* Defines a function that runs a pass in calls of 32 keys each. */
#define OURS_BY_32(name)                                                               \
    static uint64_t ours_##name##_32(void *state, size_t first, size_t n)              \
    {                                                                                  \
        uint64_t positives = 0;                                                        \
        for (size_t i = 0; i < n; i += 32) {                                           \
            positives += ours_##name##_all(state, first + i, n - i < 32 ? n - i : 32); \
        }                                                                              \
        return positives;                                                              \
    }

OURS_BY_32(look_hash)
OURS_BY_32(look_u64)
OURS_BY_32(look_bytes)
OURS_BY_32(look_fixed)
OURS_BY_32(add_hash)
OURS_BY_32(add_u64)
OURS_BY_32(add_bytes)
OURS_BY_32(add_fixed)

typedef uint64_t ours_pass(void *state, size_t first, size_t n);

/* Indexed by operation (lookup or add), form of the keys, and number of keys per call. */
static ours_pass *const ours_passes[2][BGB_FORMS][3] = {
    { { ours_look_hash_one, ours_look_hash_32, ours_look_hash_all },
      { ours_look_u64_one, ours_look_u64_32, ours_look_u64_all },
      { ours_look_bytes_one, ours_look_bytes_32, ours_look_bytes_all },
      { ours_look_fixed_one, ours_look_fixed_32, ours_look_fixed_all } },
    { { ours_add_hash_one, ours_add_hash_32, ours_add_hash_all },
      { ours_add_u64_one, ours_add_u64_32, ours_add_u64_all },
      { ours_add_bytes_one, ours_add_bytes_32, ours_add_bytes_all },
      { ours_add_fixed_one, ours_add_fixed_32, ours_add_fixed_all } },
};

/* Runs before every visit to a subject that adds. */
static void ours_rewind(void *state)
{
    const struct bgb_ours *s = state;
    bgb_arena_rewind(s->arena);
}

/* ---- Subjects ------------------------------------------------------------------ */

static void ours_take_keys(struct bgb_ours *s, const struct bgb_keys *k,
                           struct bgb_ours_what what)
{
    bool hash = what.form == BGB_FORM_HASH;
    switch (what.load) {
    case BGB_LOAD_ABSENT: s->words = hash ? k->absent_hash : k->absent; break;
    case BGB_LOAD_READD:
    case BGB_LOAD_PRESENT: s->words = hash ? k->present_hash : k->present; break;
    case BGB_LOAD_MIXED: s->words = hash ? k->mixed_hash : k->mixed; break;
    case BGB_LOAD_ADD: s->words = hash ? k->fresh_hash : k->fresh; break;
    }
    s->bytes = what.load == BGB_LOAD_ADD ? k->fresh_bytes : k->absent_bytes;
}

/* Sets the plausible range for the fraction of positives. For absent keys, the range is 80% to 120%
 * of the false-positive rate at the current fill, extended by six standard deviations at each
 * end. */
static void ours_bounds(struct bgb_subject *subject, enum bgb_load load, double rate)
{
    double noise = 6 * sqrt(rate / (double)subject->pool);
    switch (load) {
    case BGB_LOAD_ABSENT:
        subject->least = 0.8 * rate - noise;
        subject->most = 1.2 * rate + noise;
        break;
    case BGB_LOAD_PRESENT: subject->least = subject->most = 1; break;
    case BGB_LOAD_MIXED:
        subject->least = 0.48 + 0.4 * rate;
        subject->most = 0.52 + 0.6 * rate;
        break;
    case BGB_LOAD_ADD:
        subject->least = 0.99 - 2 * rate;
        subject->most = 1;
        break;
    case BGB_LOAD_READD: subject->least = subject->most = 0; break;
    }
}

static double ours_rate(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (bg_filter_get_info(filter, &info) != BG_OK) {
        bgb_die("cannot get filter info");
    }
    return info.rate;
}

/* Adds the whole pool once and checks that a lookup finds every key. Returns the false-positive
 * rate at this fill, which is the highest fill that occurs. The bounds are derived from this
 * rate. */
static double ours_check_adds(struct bgb_ours *s, struct bgb_subject *subject,
                              enum bgb_form form)
{
    bgb_arena_rewind(s->arena);
    (void)subject->pass(s, 0, subject->pool);
    if (ours_passes[0][form][BGB_GRAIN_ALL](s, 0, subject->pool) != subject->pool) {
        subject->broken = true;
        bgb_broken_add(subject->name, "a lookup missed a key that was added");
    }
    return ours_rate(s->filter);
}

void bgb_ours_prepare(struct bgb_ours *state, struct bgb_subject *subject,
                      const struct bgb_keys *keys, struct bgb_ours_what what,
                      bg_filter *filter, struct bgb_arena *arena)
{
    bool add = what.load == BGB_LOAD_ADD;
    bool writes = add || what.load == BGB_LOAD_READD;
    *state =
        (struct bgb_ours){ .filter = add ? arena->filter : filter, .arena = arena };
    ours_take_keys(state, keys, what);
    state->bitmap = bgb_alloc(BG_BITMAP_WORDS(keys->pool), sizeof(uint64_t));

    char name[BGB_NAME_BYTES];
    memcpy(name, subject->name, sizeof name);
    *subject = (struct bgb_subject){ .state = state };
    memcpy(subject->name, name, sizeof name);
    subject->pass = ours_passes[writes][what.form][what.grain];
    if (add) {
        subject->pool = keys->fresh_pool;
        subject->chunk = keys->fresh_pool / (BGB_TIMED_PASSES + 1);
        subject->rewind = ours_rewind;
        ours_bounds(subject, what.load, ours_check_adds(state, subject, what.form));
    } else {
        subject->pool = keys->pool;
        subject->chunk = bgb_keys_chunk(keys, bg_filter_size_bytes(filter));
        ours_bounds(subject, what.load, ours_rate(filter));
    }
}

void bgb_ours_free(struct bgb_ours *state)
{
    free(state->bitmap);
    state->bitmap = NULL;
}

uint64_t bgb_ours_false_positives(const bg_filter *filter, uint64_t trials)
{
    enum { BLOCK = 1 << 13 };
    uint64_t block[BLOCK], hits = 0;
    for (uint64_t at = 0; at < trials; at += BLOCK) {
        size_t count = trials - at < BLOCK ? (size_t)(trials - at) : BLOCK;
        for (size_t i = 0; i < count; i++) {
            block[i] = bgb_key(BGB_SET_ABSENT, at + i);
        }
        hits += bg_filter_may_contain_many(filter, bg_keys_u64(block, count), NULL);
    }
    return hits;
}

double bgb_ours_bits_per_key(const bg_filter *filter, uint64_t n)
{
    return 8.0 * (double)bg_filter_size_bytes(filter) / (double)n;
}

/*
 * bench_hash.c - what does hashing cost, by profile and key length, singly and in
 * batches?
 *
 * Keys are contiguous records of one width, few enough to stay in the L2 cache, so that the
 * rows measure hashing and not memory. Single hashes are independent of each other, so the rows
 * measure throughput, not latency. Each profile has four rows: single calls, two kinds of batches,
 * and a batch of lookups in an empty blocked filter planned for 1e5 keys at 1%, which shows the
 * profile in use. The ratio is the row's time divided by the time of the same row for the profile
 * `fast`.
 */
#include "bench.h"
#include "keys.h"
#include "output.h"

#include "bloomgate/all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 4096, WIDTHS = 4, FORMS = 4, PROFILES_MAX = 8, FILTER_KEYS = 100000 };

static const size_t hash_widths[WIDTHS] = { 8, 16, 32, 64 };

struct hash_state {
    const bg_hasher *hasher; /* owned by the filter */
    bg_filter *filter;
    const unsigned char *records;
    const bg_bytes *pairs;
    size_t width;
    uint64_t *out;
};

/* The custom profile's function: an example of a user-defined hash that processes eight bytes at a
 * time. */
static uint64_t hash_custom(void *context, const void *key, size_t len)
{
    const unsigned char *p = key;
    uint64_t h = len;
    (void)context;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t hash_one(void *state, size_t first, size_t n)
{
    const struct hash_state *s = state;
    uint64_t sum = 0;
    for (size_t i = first; i < first + n; i++) {
        sum += bg_hash_bytes(s->hasher, s->records + i * s->width, s->width);
    }
    bgb_sink(sum);
    return 0;
}

static uint64_t hash_fixed(void *state, size_t first, size_t n)
{
    const struct hash_state *s = state;
    bg_hash_many(s->hasher, bg_keys_fixed(s->records + first * s->width, s->width, n),
                 s->out);
    return 0;
}

static uint64_t hash_pairs(void *state, size_t first, size_t n)
{
    const struct hash_state *s = state;
    bg_hash_many(s->hasher, bg_keys_bytes(s->pairs + first, n), s->out);
    return 0;
}

static uint64_t hash_look_up(void *state, size_t first, size_t n)
{
    const struct hash_state *s = state;
    bgb_sink(bg_filter_may_contain_many(
        s->filter, bg_keys_fixed(s->records + first * s->width, s->width, n), NULL));
    return 0;
}

static const struct {
    const char *name;
    uint64_t (*pass)(void *state, size_t first, size_t n);
} hash_forms[FORMS] = {
    { "single", hash_one },
    { "batch, one width", hash_fixed },
    { "batch, (ptr, len)", hash_pairs },
    { "batch of lookups", hash_look_up },
};

/* Creates a filter with this profile. The filter can stay empty, because a negative answer takes as
 * long as a positive one. */
static bg_filter *hash_filter(bg_hash_profile profile)
{
    static const uint8_t secret[BG_SECRET_BYTES] = { 1, 2,  3,  4,  5,  6,  7,  8,
                                                     9, 10, 11, 12, 13, 14, 15, 16 };
    bg_spec spec = BG_SPEC_INIT;
    spec.items = FILTER_KEYS;
    spec.rate = 0.01;
    spec.kind = BG_KIND_BLOCKED;
    spec.hash = (bg_hash_spec){ .profile = (uint32_t)profile, .secret = secret };
    if (profile == BG_HASH_CUSTOM) {
        spec.hash.custom = hash_custom;
        spec.hash.custom_name = "multiply";
    }
    bg_filter *filter;
    bg_errinfo why;
    if (bg_filter_create(&spec, &filter, &why) != BG_OK) {
        bgb_die("%s", why.message);
    }
    return filter;
}

/* Checks that batches and single calls return the same hashes. */
static void hash_check(const struct hash_state *s, struct bgb_subject *subject)
{
    bool batch = subject->pass == hash_fixed || subject->pass == hash_pairs;
    (void)subject->pass(subject->state, 0, KEYS);
    for (size_t i = 0; i < KEYS && batch; i++) {
        uint64_t h = bg_hash_bytes(s->hasher, s->records + i * s->width, s->width);
        if (h != s->out[i]) {
            subject->broken = true;
        }
    }
    if (subject->broken) {
        bgb_broken_add(subject->name,
                       "a batch and single calls return different hashes");
    }
}

static void hash_print(const struct bgb_subject *subjects, size_t profiles,
                       size_t width)
{
    for (size_t i = 0; i < profiles * FORMS; i++) {
        const struct bgb_subject *fast = &subjects[i % FORMS]; /* profile 0 is `fast` */
        bgb_row_begin();
        bgb_cell_text("subject", "subject", -36, subjects[i].name);
        bgb_cell_count("width", "bytes", 6, width);
        bgb_cell_count("n", "n", 0, KEYS);
        bgb_cell_real("bits_per_key", "", 0, 0, BGB_NONE);
        bgb_cell_real("fpr", "", 0, 0, BGB_NONE);
        bgb_cells_times(&subjects[i], subjects[i].p5 / fast->p5);
        bgb_cell_real("gib_per_s", "GiB/s", 7, 2,
                      (double)width / subjects[i].p5 * 1e9 / 1073741824.0);
        bgb_row_end();
    }
}

static void hash_width_run(const struct bgb_options *options, bg_filter *const *filters,
                           size_t profiles, size_t width)
{
    struct bgb_subject subjects[PROFILES_MAX * FORMS];
    struct hash_state states[PROFILES_MAX];
    unsigned char *records = bgb_alloc(KEYS, width);
    bg_bytes *pairs = bgb_alloc(KEYS, sizeof *pairs);
    uint64_t *out = bgb_alloc(KEYS, sizeof *out);
    for (size_t i = 0; i < KEYS * width / 8; i++) {
        uint64_t word = bgb_key(BGB_SET_RECORDS, i);
        memcpy(records + 8 * i, &word, 8);
    }
    for (size_t i = 0; i < KEYS; i++) {
        pairs[i] = (bg_bytes){ records + i * width, width };
    }
    for (size_t i = 0; i < profiles * FORMS; i++) {
        struct hash_state *state = &states[i / FORMS];
        *state = (struct hash_state){ bg_filter_hasher(filters[i / FORMS]),
                                      filters[i / FORMS],
                                      records,
                                      pairs,
                                      width,
                                      out };
        subjects[i] = (struct bgb_subject){ .pass = hash_forms[i % FORMS].pass,
                                            .state = state,
                                            .pool = KEYS,
                                            .chunk = KEYS };
        (void)snprintf(subjects[i].name, sizeof subjects[i].name, "%s, %s",
                       bg_hash_name(bg_hasher_profile(state->hasher)),
                       hash_forms[i % FORMS].name);
        hash_check(state, &subjects[i]);
    }
    bgb_run(subjects, profiles * FORMS, options->seconds / 2);
    hash_print(subjects, profiles, width);
    free(records);
    free(pairs);
    free(out);
}

void bgb_bench_hash(const struct bgb_options *options)
{
    static const bg_hash_profile profiles[] = {
#define HASH_PROFILE(NAME, number, text, secret) BG_HASH_##NAME,
        BG_HASHES(HASH_PROFILE)
#undef HASH_PROFILE
    };
    enum { COUNT = sizeof profiles / sizeof *profiles };
    _Static_assert((int)COUNT <= (int)PROFILES_MAX, "there is space for all profiles");
    bg_filter *filters[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        filters[i] = hash_filter(profiles[i]);
    }
    for (size_t i = 0; i < WIDTHS; i++) {
        bgb_table("hash", "keys of %zu bytes; ratio = ns / ns of fast", hash_widths[i]);
        hash_width_run(options, filters, COUNT, hash_widths[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        bg_filter_free(filters[i]);
    }
}

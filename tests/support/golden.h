/*
 * golden.h - the filters in tests/golden/files: every case in files.h, and variants with different
 * word layouts or hash functions.
 *
 * The files are frozen, so the cases here must not change. New cases are added at the end.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "support/adds.h"
#include "support/files.h"

enum {
    GOLDEN_ITEMS = 400,
    GOLDEN_GENERATION = 77,
    GOLDEN_ABSENT = 2000,
    /* Number of keys in a scalable filter, enough for a second layer. */
    GOLDEN_MORE = 2000
};

static const uint8_t golden_secret[BG_SECRET_BYTES] = { 0, 1, 2,  3,  4,  5,  6,  7,
                                                        8, 9, 10, 11, 12, 13, 14, 15 };

/* X(name, kind, statements that change the spec) */
#define GOLDEN_VARIANTS(X)                                                             \
    X(blocked_words, BG_KIND_BLOCKED, spec.k = 12)                                     \
    X(counting_wide, BG_KIND_COUNTING, spec.width = 8)                                 \
    X(cuckoo_bytes, BG_KIND_CUCKOO, spec.k = 8)                                        \
    X(fuse_four, BG_KIND_FUSE, (spec.k = 16, spec.width = 4))                          \
    X(scalable_scattered, BG_KIND_SCALABLE,                                            \
      (spec.flags = BG_SPEC_SCATTERED, spec.width = 4, spec.items = 20))               \
    X(aged_long, BG_KIND_WINDOW, spec.window = golden_window(24))                      \
    X(hash_seed, BG_KIND_REGISTER, spec.hash.seed = 0x123456789abcdef0)                \
    X(hash_xxh64, BG_KIND_SPLIT, spec.hash.profile = BG_HASH_XXH64)                    \
    X(hash_keyed, BG_KIND_BLOCKED, golden_keyed(&spec, BG_HASH_KEYED))                 \
    X(hash_keyed24, BG_KIND_BLOCKED, golden_keyed(&spec, BG_HASH_KEYED24))             \
    X(hash_keyed_int, BG_KIND_BLOCKED, golden_keyed(&spec, BG_HASH_KEYED_INT))         \
    X(hash_fast_int, BG_KIND_BLOCKED, golden_fast_int(&spec))

static inline const bg_window_options *golden_window(uint32_t generations)
{
    static bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    options.mode = BG_WINDOW_AGED;
    options.generations = generations;
    return &options;
}

static inline void golden_keyed(bg_spec *spec, bg_hash_profile profile)
{
    spec->hash.profile = profile;
    spec->hash.secret = golden_secret;
}

static inline void golden_fast_int(bg_spec *spec)
{
    spec->hash.profile = BG_HASH_FAST_INT;
    spec->hash.seed = 7;
}

#define GOLDEN_COUNT(name, kind, change) +1
enum { GOLDEN_CASES = FILES_CASES_COUNT GOLDEN_VARIANTS(GOLDEN_COUNT) };
#undef GOLDEN_COUNT

static inline const char *golden_name(unsigned i)
{
#define GOLDEN_NAME(name, kind, change) #name,
    static const char *const names[] = { GOLDEN_VARIANTS(GOLDEN_NAME) };
#undef GOLDEN_NAME
    return i < FILES_CASES_COUNT ? files_name(i) : names[i - FILES_CASES_COUNT];
}

static inline bg_spec golden_spec(unsigned i)
{
    bg_spec spec = BG_SPEC_INIT;
    unsigned at = FILES_CASES_COUNT;
    if (i < FILES_CASES_COUNT) {
        spec = files_spec(i);
    }
    spec.items = spec.items && spec.items < FILES_KEYS ? spec.items : GOLDEN_ITEMS;
    spec.rate = 0.01;
#define GOLDEN_SPEC(name, kind_, change)                                               \
    if (i == at++) {                                                                   \
        spec.kind = (kind_);                                                           \
        change;                                                                        \
    }
    GOLDEN_VARIANTS(GOLDEN_SPEC)
#undef GOLDEN_SPEC
    return spec;
}

/* Returns options for opening a file. The secret is ignored for files whose hash profile is not
 * keyed. */
static inline bg_open_options golden_open_options(void)
{
    static const bg_hash_spec hash = { .secret = golden_secret };
    bg_open_options options = BG_OPEN_OPTIONS_INIT;
    options.hash = &hash;
    return options;
}

/* Returns options for writing a golden file. `created` is a fixed time in 2023. */
static inline bg_save_options golden_save_options(void)
{
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = GOLDEN_GENERATION;
    options.created = 1700000000;
    options.metadata = "keys: URL, lower case\n";
    memcpy(options.key_id, "golden key no. 1", BG_KEY_ID_BYTES);
    return options;
}

/* Adds key j. If the kind counts keys, every 50th key is added five times. After half of the keys,
 * a window moves to its next period. */
static inline void golden_add(bg_filter *filter, unsigned j)
{
    char key[32];
    size_t len = files_key(j, key);
    bool counts = bg_kind_traits(bg_filter_kind(filter)) & BG_TRAIT_COUNT;
    for (unsigned times = counts && j % 50 == 0 ? 5 : 1; times > 0; times--) {
        (void)added(filter, key, len);
    }
    if (bg_filter_kind(filter) == BG_KIND_WINDOW && j == FILES_KEYS / 2) {
        CHECK_OK(bg_filter_rotate(filter, 0, NULL));
    }
}

static inline bg_filter *golden_fill(const bg_spec *spec)
{
    uint8_t canary[BG_CANARY_BYTES];
    if (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_STATIC) {
        return files_make_spec(spec, GOLDEN_GENERATION);
    }
    bg_filter *filter = must_create(spec);
    for (unsigned j = 0; j < FILES_KEYS; j++) {
        golden_add(filter, j);
    }
    for (uint64_t j = 0; spec->kind == BG_KIND_SCALABLE && j < GOLDEN_MORE; j++) {
        (void)added_u64(filter, j);
    }
    for (uint64_t j = 0; spec->hash.profile == BG_HASH_FAST_INT && j < FILES_KEYS;
         j++) {
        (void)added_u64(filter, j);
    }
    for (uint32_t j = 0; j < BG_CANARY_COUNT; j++) {
        bg_canary(GOLDEN_GENERATION, j, canary);
        (void)added(filter, canary, sizeof canary);
    }
    return filter;
}

/* Writes the j-th of the keys that are never added, and returns its length. */
static inline size_t golden_absent(unsigned j, char key[32])
{
    return (size_t)snprintf(key, 32, "absent/%u", j);
}

#endif

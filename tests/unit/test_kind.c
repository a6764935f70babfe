/*
 * Every kind with every k, in both modes, on every instruction set that this machine supports.
 * The same hashes produce the same words, the same answers and the same "new" results, whether they
 * are processed one by one or in batches, with or without prefetching.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"

enum {
    HASHES = 1193,      /* 0 + 1 + 63 + 64 + 65 + 1000 */
    STRANGERS = 500,    /* number of hashes that are looked up but never added */
    ABOUT_BYTES = 3000, /* at this size, "new" and "maybe" are both common */
    WORDS_MAX = 4096,
    CPUS = 4
};

static const size_t lengths[] = { 0, 1, 63, 64, 65, 1000 };

/* The hashes, and the expected results: those of the scalar code in exclusive mode, one hash at a
 * time. */
static uint64_t hashes[HASHES + STRANGERS];
static bool expect_new[HASHES], expect_maybe[HASHES + STRANGERS];
static uint64_t expect_words[WORDS_MAX];
static size_t words;

/* A filter in the caller's memory, so that the test can read its bits. */
struct seen {
    uint64_t *memory;
    bg_filter *filter;
};

static struct seen seen_create(bg_kind kind, uint64_t units, uint32_t k, uint32_t flags,
                               bg_cpu cpu)
{
    bg_spec spec = exact_spec(kind, units, k, flags);
    struct seen s = { NULL, NULL };
    size_t bytes = 0;
    CHECK_OK(bg_cpu_select(cpu));
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    s.memory = line_memory(bytes);
    memset(s.memory, 0xee, bytes);
    CHECK_OK(bg_filter_create_at(s.memory, bytes, &spec, &s.filter, NULL));
    CHECK_EQ(bg_filter_size_bytes(s.filter), spec.bytes);
    return s;
}

static void seen_free(struct seen s)
{
    bg_filter_free(s.filter);
    free(s.memory);
}

static uint64_t units_of(bg_kind kind, uint32_t k)
{
    return 1 + ABOUT_BYTES / kind_unit_bytes(kind, k);
}

/* Prepares random hashes, some of which repeat the previous hash or a random earlier one. */
static void prepare_hashes(void)
{
    random_hashes(hashes, HASHES + STRANGERS);
    for (size_t i = 1; i < HASHES; i++) {
        if (check_random_below(8) == 0) {
            hashes[i] = hashes[check_random_below(i)];
        } else if (check_random_below(8) == 0) {
            hashes[i] = hashes[i - 1];
        }
    }
    hashes[0] = 0;
    hashes[100] = UINT64_MAX;
    hashes[HASHES] = UINT64_C(1) << 63;
}

static void prepare_expected(bg_kind kind, uint32_t k)
{
    struct seen s =
        seen_create(kind, units_of(kind, k), k, BG_SPEC_EXCLUSIVE, BG_CPU_SCALAR);
    for (size_t i = 0; i < HASHES; i++) {
        expect_new[i] = added_hash(s.filter, hashes[i]);
        CHECK(!added_hash(s.filter, hashes[i]));
    }
    for (size_t i = 0; i < HASHES + STRANGERS; i++) {
        expect_maybe[i] = bg_filter_may_contain_hash(s.filter, hashes[i]);
        CHECK(expect_maybe[i] || i >= HASHES);
    }
    words = (size_t)bg_filter_size_bytes(s.filter) / 8;
    CHECK(words <= WORDS_MAX);
    memcpy(expect_words, s.memory, 8 * words);
    seen_free(s);
}

/* Checks that the bitmap contains the n expected answers, and that all bits after them are 0. */
static void check_bitmap(const uint64_t *bitmap, const bool *expected, size_t n,
                         size_t count)
{
    size_t ones = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(bitmap[i / 64] >> (i % 64) & 1, expected[i]);
        ones += expected[i];
    }
    CHECK_EQ(count, ones);
    if (n % 64) {
        CHECK_EQ(bitmap[n / 64] >> (n % 64), 0);
    }
    /* The word after the bitmap is unchanged. */
    CHECK_EQ(bitmap[BG_BITMAP_WORDS(n)], UINT64_MAX);
}

static void add_in_batches(bg_filter *filter, bool with_bitmap)
{
    uint64_t bitmap[BG_BITMAP_WORDS(HASHES + STRANGERS) + 1];
    for (size_t b = 0, first = 0; b < sizeof lengths / sizeof *lengths; b++) {
        size_t n = lengths[b];
        memset(bitmap, 0xff, sizeof bitmap);
        size_t count = added_many(filter, bg_keys_hashes(hashes + first, n),
                                  with_bitmap ? bitmap : NULL);
        if (with_bitmap) {
            check_bitmap(bitmap, expect_new + first, n, count);
        } else {
            size_t expected = 0;
            for (size_t i = 0; i < n; i++) {
                expected += expect_new[first + i];
            }
            CHECK_EQ(count, expected);
        }
        first += n;
    }
}

static void ask_in_batches(const bg_filter *filter)
{
    uint64_t bitmap[BG_BITMAP_WORDS(HASHES + STRANGERS) + 1];
    for (size_t b = 0, first = STRANGERS; b < sizeof lengths / sizeof *lengths; b++) {
        size_t n = lengths[b];
        memset(bitmap, 0xff, sizeof bitmap);
        size_t count = bg_filter_may_contain_many(
            filter, bg_keys_hashes(hashes + first, n), bitmap);
        check_bitmap(bitmap, expect_maybe + first, n, count);
        CHECK_EQ(
            bg_filter_may_contain_many(filter, bg_keys_hashes(hashes + first, n), NULL),
            count);
        first += n;
    }
}

static void check_single(bg_kind kind, uint32_t k, uint32_t flags, bg_cpu cpu)
{
    struct seen s = seen_create(kind, units_of(kind, k), k, flags, cpu);
    for (size_t i = 0; i < HASHES; i++) {
        CHECK_EQ(added_hash(s.filter, hashes[i]), expect_new[i]);
    }
    CHECK(memcmp(s.memory, expect_words, 8 * words) == 0);
    for (size_t i = 0; i < HASHES + STRANGERS; i++) {
        CHECK_EQ(bg_filter_may_contain_hash(s.filter, hashes[i]), expect_maybe[i]);
    }
    seen_free(s);
}

static void check_batches(bg_kind kind, uint32_t k, uint32_t flags, bg_cpu cpu,
                          bool large)
{
    struct seen s = seen_create(kind, units_of(kind, k), k, flags, cpu);
    s.filter->core.adds_prefetch =
        large; /* behaves as if the filter were larger than the cache */
    s.filter->core.lookups_prefetch = large;
    add_in_batches(s.filter, true);
    CHECK(memcmp(s.memory, expect_words, 8 * words) == 0);
    ask_in_batches(s.filter);
    bg_filter_clear(s.filter);
    add_in_batches(s.filter, false);
    CHECK(memcmp(s.memory, expect_words, 8 * words) == 0);
    seen_free(s);
}

static void check_kind(bg_kind kind)
{
    bg_cpu before = bg_cpu_current();
    prepare_hashes();
    for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
        prepare_expected(kind, k);
        for (int cpu = 0; cpu < CPUS; cpu++) {
            for (uint32_t flags = 0; flags <= BG_SPEC_EXCLUSIVE; flags++) {
                if (bg_cpu_available((bg_cpu)cpu)) {
                    check_single(kind, k, flags, (bg_cpu)cpu);
                    check_batches(kind, k, flags, (bg_cpu)cpu, false);
                    check_batches(kind, k, flags, (bg_cpu)cpu, true);
                }
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

#define KIND_TEST(NAME, number, name)                                                  \
    TEST(kind__every_set_equals_scalar__##name)                                        \
    {                                                                                  \
        check_kind(BG_KIND_##NAME);                                                    \
    }
BG_BLOOM_KINDS(KIND_TEST)
#undef KIND_TEST

/* ---- Filters larger than the cache ------------------------------------------------------- */

/* The filter is larger than the L2 cache, so the library itself prefetches. If the L2 cache is
 * smaller than 1 MiB or its size is unknown, the test assumes 1 MiB. */
static void check_large(bg_kind kind, bg_cpu cpu)
{
    size_t cache = bg_cpu_cache_bytes(2) > 1 << 20 ? bg_cpu_cache_bytes(2) : 1 << 20;
    uint32_t k = kind_k_usual(kind);
    uint64_t units = 2 * cache / kind_unit_bytes(kind, k) + 1;
    struct seen one = seen_create(kind, units, k, 0, BG_CPU_SCALAR);
    struct seen many = seen_create(kind, units, k, 0, cpu);
    CHECK(many.filter->core.adds_prefetch && many.filter->core.lookups_prefetch);
    for (size_t i = 0; i < HASHES; i++) {
        expect_new[i] = added_hash(one.filter, hashes[i]);
    }
    for (size_t i = 0; i < HASHES + STRANGERS; i++) {
        expect_maybe[i] = bg_filter_may_contain_hash(one.filter, hashes[i]);
    }
    add_in_batches(many.filter, true);
    CHECK(bg_filter_equal(one.filter, many.filter));
    ask_in_batches(many.filter);
    CHECK_EQ(info_of(one.filter).ones, info_of(many.filter).ones);
    seen_free(one);
    seen_free(many);
}

TEST(kind__large_filters_ask_ahead_and_equal_scalar)
{
    bg_cpu before = bg_cpu_current();
    prepare_hashes();
    for (int i = 0; i < KIND_COUNT; i++) {
        for (int cpu = 0; cpu < CPUS; cpu++) {
            if (bg_cpu_available((bg_cpu)cpu)) {
                check_large(kind_at(i), (bg_cpu)cpu);
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

TEST(kind__small_filters_do_not_ask_ahead)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 4096, 0);
    CHECK(!filter->core.lookups_prefetch);
    bg_filter_free(filter);
}

/* ---- Counting -------------------------------------------------------------------- */

static uint64_t slow_count(const uint64_t *a, const uint64_t *b, size_t n)
{
    uint64_t ones = 0;
    for (size_t i = 0; i < n; i++) {
        for (uint64_t x = a[i] | b[i]; x; x &= x - 1) {
            ones++;
        }
    }
    return ones;
}

TEST(kind__counts_ones_on_every_set)
{
    static uint64_t a[300], b[300];
    random_hashes(a, 300);
    random_hashes(b, 300);
    a[5] = UINT64_MAX;
    a[6] = 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!bg_cpu_available((bg_cpu)cpu)) {
            continue;
        }
        const struct bgi_word_ops *ops = bgi_kind_word_ops((bg_cpu)cpu);
        for (size_t n = 0; n < 300; n = n * 5 / 4 + 1) {
            CHECK_EQ(ops->count(a, n), slow_count(a, a, n));
            CHECK_EQ(ops->count(a + 1, n), slow_count(a + 1, a + 1, n));
            CHECK_EQ(ops->count_or(a, b, n), slow_count(a, b, n));
        }
    }
}

/* ---- Names ----------------------------------------------------------------------- */

TEST(kind__names_and_numbers)
{
    bg_kind kind = BG_KIND_WINDOW;
#define SAME(NAME, number, name)                                                       \
    CHECK_EQ(BG_KIND_##NAME, number);                                                  \
    CHECK_STR(bg_kind_name(BG_KIND_##NAME), #name);                                    \
    CHECK(bg_kind_parse(#name, &kind));                                                \
    CHECK_EQ(kind, BG_KIND_##NAME);                                                    \
    CHECK_EQ(bgi_kind_of(BG_KIND_##NAME)->id, BG_KIND_##NAME);
    BG_BLOOM_KINDS(SAME)
#undef SAME
    CHECK_STR(bg_kind_name(BG_KIND_AUTO), "auto");
    CHECK(bg_kind_parse("auto", &kind));
    CHECK_EQ(kind, BG_KIND_AUTO);
    kind = BG_KIND_WINDOW;
    CHECK_STR(bg_kind_name((bg_kind)99), "unknown");
    CHECK(!bg_kind_parse("unknown", &kind));
    CHECK(!bg_kind_parse("Blocked", &kind));
    CHECK(!bg_kind_parse("", &kind));
    CHECK(!bg_kind_parse(NULL, &kind));
    CHECK_EQ(kind, BG_KIND_WINDOW);
    CHECK(bgi_kind_of(BG_KIND_AUTO) == NULL);
    CHECK(bgi_kind_of((bg_kind)99) == NULL);
}

TEST(kind__descriptions_are_as_the_header_says)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        const struct bgi_kind *kind = bgi_kind_of(kind_at(i));
        CHECK_EQ(kind->k_min, kind_k_min(kind->id));
        CHECK_EQ(kind->k_max, kind_k_max(kind->id));
        for (uint32_t k = kind->k_min; k <= kind->k_max; k++) {
            CHECK_EQ(kind->unit_bytes(k), kind_unit_bytes(kind->id, k));
            bool scattered =
                kind->id == BG_KIND_CLASSIC || kind->id == BG_KIND_PARTITIONED;
            CHECK_EQ(kind->lines(k), scattered ? k : 1);
        }
    }
}

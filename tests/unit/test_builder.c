/*
 * For every kind, a builder produces the same filter from byte strings, records, integers and
 * hashes, and handles any number of keys. Builders report progress, can be stopped, and survive
 * failed allocations.
 */
#include "support/check.h"
#include "support/filters.h"

#include "base/sort.h"
#include "filter/handle.h"

#include <math.h>

enum { KEYS = 5000 };

static bg_builder *must_build(const bg_spec *spec)
{
    bg_builder *builder = NULL;
    bg_errinfo why;
    if (bg_builder_create(spec, &builder, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "create: %s", why.message);
    }
    return builder;
}

static bg_filter *must_finish(bg_builder *builder, unsigned threads)
{
    bg_filter *filter = NULL;
    bg_errinfo why;
    if (bg_builder_finish_threaded(builder, threads, &filter, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "finish: %s", why.message);
    }
    CHECK_EQ(bg_builder_count(builder), 0);
    return filter;
}

static bg_spec rate_spec(bg_kind kind, double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.rate = rate;
    return spec;
}

/* All kinds whose filters consist of a single block of memory. */
#define BUILDER_LIST(NAME, number, name) BG_KIND_##NAME,
static const bg_kind every_kind[] = {
    BG_KIND_AUTO,   BG_BLOOM_KINDS(BUILDER_LIST) BG_KIND_COUNTING,
    BG_KIND_CUCKOO, BG_KIND_QUOTIENT,
    BG_KIND_FUSE,   BG_KIND_RIBBON
};
enum { EVERY = sizeof every_kind / sizeof *every_kind };

/* ---- Keys ---------------------------------------------------------------------- */

static bg_filter *filter_of_numbers(const bg_spec *spec, uint64_t n, unsigned threads)
{
    bg_builder *builder = must_build(spec);
    for (uint64_t key = 0; key < n; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    CHECK_EQ(bg_builder_count(builder), n);
    bg_filter *filter = must_finish(builder, threads);
    bg_builder_free(builder);
    return filter;
}

TEST(builder__all_forms_of_a_key_make_the_same_filter)
{
    static unsigned char bytes[KEYS][8];
    static uint64_t numbers[KEYS], hashes[KEYS];
    static bg_bytes pairs[KEYS];
    bg_hasher hasher;
    CHECK_OK(bg_hasher_init(&hasher, NULL, NULL));
    for (uint64_t i = 0; i < KEYS; i++) {
        for (unsigned b = 0; b < 8; b++) {
            bytes[i][b] = (unsigned char)(i >> 8 * b);
        }
        numbers[i] = i;
        hashes[i] = bg_hash_u64(&hasher, i);
        pairs[i] = (bg_bytes){ bytes[i], 8 };
    }
    for (int k = 0; k < EVERY; k++) {
        bg_spec spec = rate_spec(every_kind[k], 0.01);
        bg_filter *model = filter_of_numbers(&spec, KEYS, 1);
        for (int form = 0; form < 6; form++) {
            bg_builder *builder = must_build(&spec);
            for (size_t i = KEYS; form < 2 && i-- > 0;) { /* backwards */
                CHECK_OK(form == 0 ? bg_builder_add(builder, bytes[i], 8)
                                   : bg_builder_add_hash(builder, hashes[i]));
            }
            for (int twice = 0; form >= 2 && twice < 2; twice++) {
                CHECK_OK(
                    form == 2 ? bg_builder_add_many(builder, bg_keys_bytes(pairs, KEYS))
                    : form == 3
                        ? bg_builder_add_many(builder, bg_keys_fixed(bytes, 8, KEYS))
                    : form == 4
                        ? bg_builder_add_many(builder, bg_keys_u64(numbers, KEYS))
                        : bg_builder_add_many(builder, bg_keys_hashes(hashes, KEYS)));
            }
            CHECK_EQ(bg_builder_count(builder), form < 2 ? KEYS : 2 * KEYS);
            bg_filter *filter = must_finish(builder, 1);
            CHECK(bg_filter_equal(filter, model));
            bg_filter_free(filter);
            bg_builder_free(builder);
        }
        bg_filter_free(model);
    }
}

TEST(builder__sizes_any_kind_by_the_number_of_keys)
{
    static const uint64_t sizes[] = { 0, 1, 2, 3, 100, 70000 };
    for (int k = 0; k < EVERY; k++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            bg_spec spec = rate_spec(every_kind[k], 0.01);
            spec.items = 12345678; /* has no effect */
            bg_filter *filter = filter_of_numbers(&spec, sizes[s], 1);
            bg_filter_info info = info_of(filter);
            CHECK_EQ(info.design_items, sizes[s] ? sizes[s] : 1);
            CHECK(info.rate <= 0.02 && info.design_rate < 0.01001);
            CHECK(sizes[s] < 1000
                  || fabs(info.items.value / (double)sizes[s] - 1) < 0.05);
            for (uint64_t key = 0; key < sizes[s]; key++) {
                CHECK(bg_filter_may_contain_u64(filter, key));
            }
            bg_filter_free(filter);
        }
    }
}

TEST(builder__goes_on_after_a_filter)
{
    bg_spec spec = rate_spec(BG_KIND_FUSE, 0.001);
    bg_builder *builder = must_build(&spec);
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t key = 0; key < 1000; key++) {
            CHECK_OK(bg_builder_add_u64(builder, 1000 * round + key));
        }
        bg_filter *filter = must_finish(builder, 1);
        CHECK_NEAR(info_of(filter).items.value, 1000, 0);
        CHECK(bg_filter_may_contain_u64(filter, 1000 * round));
        bg_filter_free(filter);
    }
    bg_builder_free(builder);
}

/* Uses enough keys to fill several sort buckets and several parts of a filter. Some keys are
 * duplicates. */
TEST(builder__threads_make_the_same_filter)
{
    const uint64_t n = CHECK_EMULATED ? 300000 : CHECK_SANITIZED ? 2300000 : 5000000;
    for (int k = 0; k < EVERY; k++) {
        if (!(bg_kind_traits(every_kind[k]) & BG_TRAIT_STATIC)) {
            continue;
        }
        bg_spec spec = rate_spec(every_kind[k], 0.01);
        bg_filter *model = filter_of_numbers(&spec, n, 1);
        for (unsigned threads = 2; threads <= 4; threads += 2) {
            bg_builder *builder = must_build(&spec);
            for (uint64_t key = 0; key < n; key++) {
                CHECK_OK(bg_builder_add_u64(builder, n - 1 - key));
                if (key % 3 == 0) {
                    CHECK_OK(bg_builder_add_u64(builder, key));
                }
            }
            bg_filter *filter = must_finish(builder, threads);
            CHECK_NEAR(info_of(filter).items.value, n, 0);
            CHECK(bg_filter_equal(filter, model));
            bg_filter_free(filter);
            bg_builder_free(builder);
        }
        bg_filter_free(model);
    }
}

/* ---- Progress ------------------------------------------------------------------ */

struct told {
    double last;
    unsigned calls, stop_at;
};

static bool tell(void *context, double share)
{
    struct told *told = context;
    CHECK(share >= told->last && share <= 1);
    told->last = share;
    return ++told->calls != told->stop_at;
}

TEST(builder__tells_and_can_be_stopped)
{
    for (int k = 0; k < EVERY; k++) {
        bg_spec spec = rate_spec(every_kind[k], 0.01);
        bg_filter *model = filter_of_numbers(&spec, 100000, 1), *filter = NULL;
        bg_builder *builder = must_build(&spec);
        struct told told = { 0, 0, 0 };
        bg_errinfo why;
        for (uint64_t key = 0; key < 100000; key++) {
            CHECK_OK(bg_builder_add_u64(builder, key));
        }
        bg_builder_on_progress(builder, tell, &told);
        for (unsigned stop = 1;; stop++) {
            told = (struct told){ 0, 0, stop };
            bg_err err = bg_builder_finish(builder, &filter, &why);
            if (err == BG_OK) {
                CHECK(told.calls < stop);
                break;
            }
            CHECK_EQ(err, BG_ECANCELED);
            CHECK_STR(why.what, "progress");
            CHECK(filter == NULL);
            CHECK_EQ(bg_builder_count(builder), 100000);
        }
        CHECK(told.calls >= 3);
        CHECK_NEAR(told.last, 1, 1e-9);
        CHECK(bg_filter_equal(filter, model));
        bg_filter_free(filter);
        bg_filter_free(model);
        bg_builder_free(builder);
    }
}

/* With several threads, only the calling thread reports progress, on behalf of all threads. How
 * many times it reports depends on which threads are faster, so the build may finish before it is
 * stopped. */
TEST(builder__threads_can_be_stopped)
{
    bg_spec spec = rate_spec(BG_KIND_FUSE, 0.01);
    bg_builder *builder = must_build(&spec);
    bg_filter *filter = NULL;
    for (uint64_t key = 0; key < 100000; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    for (unsigned stop = 1; stop < 10 && !filter; stop++) {
        struct told told = { 0, 0, stop };
        bg_builder_on_progress(builder, tell, &told);
        bg_err err = bg_builder_finish_threaded(builder, 2, &filter, NULL);
        CHECK(err == BG_OK ? filter != NULL : err == BG_ECANCELED && !filter);
        CHECK_EQ(bg_builder_count(builder), filter ? 0 : 100000);
    }
    bg_filter_free(filter);
    bg_builder_free(builder);
}

/* ---- Errors ---------------------------------------------------------------------- */

TEST(builder__refuses_bad_arguments)
{
    bg_spec spec = rate_spec(BG_KIND_FUSE, 0.01);
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bg_errinfo why;
    uint64_t key = 1;
    CHECK_EQ(bg_builder_create(&spec, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_builder_create(NULL, &builder, &why), BG_EINVAL);
    CHECK_STR(why.what, "spec");
    spec.rate = 2;
    CHECK_EQ(bg_builder_create(&spec, &builder, &why), BG_EINVAL);
    CHECK_STR(why.what, "rate");
    spec.rate = 0.01;
    spec.struct_size = 3;
    CHECK_EQ(bg_builder_create(&spec, &builder, &why), BG_EINVAL);
    CHECK_STR(why.what, "struct_size");
    spec.struct_size = sizeof spec;
    spec.hash.profile = 99;
    CHECK_EQ(bg_builder_create(&spec, &builder, &why), BG_EINVAL);
    CHECK(builder == NULL);
    spec.hash.profile = 0;

    CHECK_EQ(bg_builder_add(NULL, "a", 1), BG_EINVAL);
    CHECK_EQ(bg_builder_add_u64(NULL, 1), BG_EINVAL);
    CHECK_EQ(bg_builder_add_hash(NULL, 1), BG_EINVAL);
    CHECK_EQ(bg_builder_add_many(NULL, bg_keys_u64(&key, 1)), BG_EINVAL);
    CHECK_EQ(bg_builder_count(NULL), 0);
    bg_builder_on_progress(NULL, NULL, NULL);
    bg_builder_free(NULL);
    CHECK_EQ(bg_builder_finish(NULL, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "builder");

    builder = must_build(&spec);
    CHECK_EQ(bg_builder_add_many(builder, bg_keys_u64(NULL, 1)), BG_EINVAL);
    CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(NULL, 0)));
    CHECK_EQ(bg_builder_add_many(builder, bg_keys_hashes(&key, SIZE_MAX / 4)),
             BG_EINVAL);
    CHECK_EQ(bg_builder_finish(builder, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_builder_finish_threaded(builder, 0, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "threads");
    CHECK_EQ(bg_builder_finish_threaded(builder, 257, &filter, &why), BG_EINVAL);
    bg_builder_free(builder);
}

TEST(builder__respects_sizes)
{
    bg_spec spec = rate_spec(BG_KIND_FUSE, 0.001);
    bg_filter *filter = NULL;
    bg_errinfo why;
    spec.max_bytes = 1000;
    bg_builder *builder = must_build(&spec);
    for (uint64_t key = 0; key < 1000; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    CHECK_EQ(bg_builder_finish(builder, &filter, &why), BG_ENOMEM);
    CHECK_STR(why.what, "size in bytes");
    CHECK(filter == NULL);
    CHECK_EQ(bg_builder_count(builder), 1000);
    bg_builder_free(builder);

    spec.max_bytes = 0;
    spec.rate = 0; /* the spec states a size instead */
    spec.bytes = 1600;
    spec.k = 8;
    builder = must_build(&spec);
    for (uint64_t key = 0; key < 1000; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    filter = must_finish(builder, 1);
    CHECK_EQ(bg_filter_size_bytes(filter), 1600);
    CHECK(bg_filter_may_contain_u64(filter, 999));
    bg_filter_free(filter);
    for (uint64_t key = 0; key < 2000; key++) {
        CHECK_OK(bg_builder_add_u64(builder, key));
    }
    CHECK_EQ(bg_builder_finish(builder, &filter, &why), BG_EFULL);
    CHECK_STR(why.what, "keys");
    bg_builder_free(builder);
}

/* Given hashes that no real hash function would produce, the builder must either refuse them in
 * reasonable time or build a correct filter. */
TEST(builder__survives_bad_hashes)
{
    enum { N = 20000 };
    static uint64_t bad[5][N];
    for (uint64_t i = 0; i < N; i++) {
        bad[0][i] = i;                                /* low bits only */
        bad[1][i] = i << 50 | i;                      /* few high bits */
        bad[2][i] = i * UINT64_C(0x0001000100010001); /* a pattern */
        bad[3][i] = 7;                                /* one key */
        bad[4][i] = UINT64_MAX - i * i;
    }
    for (int k = 0; k < EVERY; k++) {
        for (int set = 0; set < 5; set++) {
            bg_spec spec = rate_spec(every_kind[k], 0.01);
            bg_builder *builder = must_build(&spec);
            bg_filter *filter = NULL;
            bg_errinfo why;
            CHECK_OK(bg_builder_add_many(builder, bg_keys_hashes(bad[set], N)));
            bg_err err = bg_builder_finish(builder, &filter, &why);
            if (err == BG_OK) {
                CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(bad[set], N),
                                                    NULL),
                         N);
            } else {
                CHECK(err == BG_EBUILD || err == BG_EFULL);
                CHECK(why.message[0] != 0);
                CHECK(filter == NULL);
            }
            bg_filter_free(filter);
            bg_builder_free(builder);
        }
    }
}

/* ---- Failed allocations ---------------------------------------------------------- */

static struct counting c;

/* Builds a filter and returns the number of failed calls. Failed calls are retried a few times,
 * except for the creation of the builder. */
static unsigned scenario(bg_kind kind, const bg_filter *model)
{
    bg_spec spec = rate_spec(kind, 0.01);
    bg_builder *builder = (bg_builder *)(void *)&spec;
    bg_filter *filter = NULL;
    bg_errinfo why;
    unsigned failed = 0;
    spec.allocator = &c.hooks;
    if (bg_builder_create(&spec, &builder, &why) != BG_OK) {
        CHECK_EQ(why.code, BG_ENOMEM);
        CHECK(builder == NULL);
        return 1;
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        bg_err err = bg_builder_add_u64(builder, key);
        for (; err && failed < 9; failed++) {
            CHECK_EQ(err, BG_ENOMEM);
            CHECK_EQ(bg_builder_count(builder), key);
            err = bg_builder_add_u64(builder, key);
        }
    }
    for (; bg_builder_finish(builder, &filter, &why) && failed < 9; failed++) {
        CHECK_EQ(why.code, BG_ENOMEM);
        CHECK(filter == NULL);
    }
    if (filter) {
        CHECK(bg_filter_equal(filter, model));
    }
    bg_filter_free(filter);
    bg_builder_free(builder);
    return failed;
}

TEST(builder__allocator_fails)
{
    for (int k = 0; k < EVERY; k++) {
        bg_spec spec = rate_spec(every_kind[k], 0.01);
        bg_filter *model = filter_of_numbers(&spec, KEYS, 1);
        counting_start(&c);
        CHECK_EQ(scenario(every_kind[k], model), 0);
        CHECK_EQ(c.live, 0);
        size_t calls = c.calls;
        CHECK(calls >= 8);
        for (size_t n = 1; n <= calls + 1; n++) {
            for (int onwards = 0; onwards < 2; onwards++) {
                counting_start(&c);
                c.fail_at = n;
                c.fail_onwards = onwards;
                unsigned failed = scenario(every_kind[k], model);
                CHECK_EQ(failed > 0, n <= calls);
                CHECK_EQ(c.live, 0);
                CHECK_EQ(c.mistakes, 0);
            }
        }
        bg_filter_free(model);
    }
}

/* ---- Sorting ----------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts values with every kind of skew and compares the result with that of qsort. */
TEST(builder__sort_sorts_anything)
{
    enum { MOST = 30000 };
    static uint64_t numbers[MOST], expected[MOST], spare[MOST];
    for (int round = 0; round < 300; round++) {
        size_t n = (size_t)check_random_below(round < 200 ? 200 : MOST);
        unsigned known = (unsigned)check_random_below(64);
        unsigned left = (unsigned)check_random_below(64 - known);
        uint64_t prefix = known ? check_random() << (64 - known) : 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t x = check_random() >> known;
            x = round % 3 ? x >> left : x >> left << left;
            numbers[i] = prefix | (round % 7 ? x : x % 5);
        }
        memcpy(expected, numbers, n * sizeof *numbers);
        qsort(expected, n, sizeof *expected, compare);
        bgi_sort(numbers, spare, n, known);
        CHECK(memcmp(numbers, expected, n * sizeof *numbers) == 0);
        size_t kept = bgi_sort_unique(numbers, n);
        size_t different = 0;
        for (size_t i = 0; i < n; i++) {
            different += i == 0 || expected[i] != expected[i - 1];
        }
        CHECK_EQ(kept, different);
        for (size_t i = 1; i < kept; i++) {
            CHECK(numbers[i] > numbers[i - 1]);
        }
    }
}

/* Kinds that are composed of other filters grow by themselves, so they need no builder. */
TEST(builder__refuses_composed_kinds)
{
    static const bg_kind composed[] = { BG_KIND_SCALABLE, BG_KIND_WINDOW };
    for (int i = 0; i < 2; i++) {
        bg_spec spec = rate_spec(composed[i], 0.01);
        bg_builder *builder = NULL;
        bg_errinfo why;
        CHECK_EQ(bg_builder_create(&spec, &builder, &why), BG_ENOTSUP);
        CHECK(!builder);
        CHECK_STR(why.what, "kind");
    }
}

/*
 * Tests the guarantees of all static kinds: for any number of keys, the filter answers "maybe" for
 * every key in the set, and for absent keys at the predicted rate. The tests also cover copies,
 * equality, and attempts to add keys to a static filter.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

struct variant {
    bg_kind kind;
    uint32_t width, k;
};

static const struct variant variants[] = {
    { BG_KIND_FUSE, 3, 8 },    { BG_KIND_FUSE, 4, 8 },    { BG_KIND_FUSE, 3, 16 },
    { BG_KIND_FUSE, 4, 16 },   { BG_KIND_FUSE, 3, 32 },   { BG_KIND_FUSE, 4, 32 },
    { BG_KIND_RIBBON, 0, 1 },  { BG_KIND_RIBBON, 0, 5 },  { BG_KIND_RIBBON, 0, 8 },
    { BG_KIND_RIBBON, 0, 11 }, { BG_KIND_RIBBON, 0, 32 },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static bg_spec spec_of(struct variant v)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)v.kind;
    spec.width = v.width;
    spec.k = v.k;
    spec.rate = ldexp(1, -(int)v.k) * 1.0001;
    return spec;
}

/* Returns key i of a set, as a hash that is in no other set. */
static uint64_t key_of(uint64_t set, uint64_t i)
{
    uint64_t state = set << 40 ^ i;
    return check_random_next(&state);
}

static bg_filter *build_with(const bg_spec *spec, uint64_t set, uint64_t n)
{
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bg_errinfo why;
    CHECK_OK(bg_builder_create(spec, &builder, &why));
    for (uint64_t i = 0; i < n; i++) {
        CHECK_OK(bg_builder_add_hash(builder, key_of(set, i)));
    }
    if (bg_builder_finish(builder, &filter, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%llu keys: %s", (unsigned long long)n,
                   why.message);
    }
    bg_builder_free(builder);
    return filter;
}

static bg_filter *build(struct variant v, uint64_t set, uint64_t n)
{
    bg_spec spec = spec_of(v);
    return build_with(&spec, set, n);
}

static uint64_t missing(const bg_filter *filter, uint64_t set, uint64_t n)
{
    uint64_t lost = 0;
    for (uint64_t i = 0; i < n; i++) {
        lost += !bg_filter_may_contain_hash(filter, key_of(set, i));
    }
    return lost;
}

static void check_builds(struct variant v, uint64_t n)
{
    bg_filter *filter = build(v, n, n);
    CHECK_EQ(missing(filter, n, n), 0);
    CHECK_NEAR(info_of(filter).items.value, n, 0);
    bg_filter_free(filter);
}

/* ---- Sizes ------------------------------------------------------------------------- */

TEST(static__every_small_size_builds)
{
    for (int v = 0; v < VARIANTS; v++) {
        for (uint64_t n = 0; n < (CHECK_EMULATED ? 40 : 300); n++) {
            check_builds(variants[v], n);
        }
    }
}

/* Tests sizes at which another library is known to fail for many key sets. */
TEST(static__sizes_around_11500_build)
{
    for (int v = 0; v < VARIANTS; v++) {
        for (uint64_t n = 11480; n <= 11521; n += CHECK_EMULATED ? 20 : 1) {
            check_builds(variants[v], n);
        }
    }
}

TEST(static__sizes_all_over_build)
{
    const double most = CHECK_EMULATED || CHECK_SANITIZED ? 20000 : 400000;
    const double step = check_scale() > 1 ? 1.11 : 1.3;
    for (int v = 0; v < VARIANTS; v++) {
        for (double n = 300; n < most * (double)check_scale(); n *= step) {
            check_builds(variants[v], (uint64_t)n);
        }
    }
}

/* Builds filters with more than one part. */
TEST(static__millions_build)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        return;
    }
    for (int v = 0; v < VARIANTS; v++) {
        check_builds(variants[v], 2500000 + 300000 * (uint64_t)v);
    }
}

/* ---- Rates -------------------------------------------------------------------------- */

static void check_rate(struct variant v, uint64_t n)
{
    enum { BATCH = 1 << 14 };
    static uint64_t strangers[BATCH];
    bg_filter *filter = build(v, 1, n);
    bg_filter_info info = info_of(filter);
    double expected = n ? ldexp(1, -(int)v.k) : 0;
    CHECK_NEAR(info.rate, expected, 1e-12);
    CHECK(n == 0 || info.design_rate >= expected);
    /* With 6400 expected hits, one standard deviation is 1.25%, so a bound of 5% is four
     * standard deviations. If the rate is so low that 6400 hits would need more than 30 million
     * probes, the number of probes is limited to 30 million for large filters and soak tests, and
     * to 4 million otherwise. */
    uint64_t probes = n ? (uint64_t)(6400 / expected) : 1000000, hits = 0, asked = 0;
    if (probes > 30000000) {
        probes = n >= 1000000 || check_scale() > 1 ? 30000000 : 4000000;
    }
    for (; asked < probes; asked += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++) {
            strangers[i] = key_of(2, asked + i);
        }
        hits +=
            bg_filter_may_contain_many(filter, bg_keys_hashes(strangers, BATCH), NULL);
    }
    double wanted = expected * (double)asked;
    double off = fmax(0.05 * wanted, 5 * sqrt(wanted));
    if (fabs((double)hits - wanted) > off) {
        check_fail(__FILE__, __LINE__, "%s k %u width %u n %llu: %llu hits, not %g",
                   bg_kind_name(v.kind), v.k, v.width, (unsigned long long)n,
                   (unsigned long long)hits, wanted);
    }
    bg_filter_free(filter);
}

TEST(static__rate_is_as_predicted)
{
    static const uint64_t sizes[] = { 0, 1, 2, 3, 10, 100, 1000, 30000, 1000000 };
    for (int v = 0; v < VARIANTS; v++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            bool small = sizes[s] <= 1000 || (sizes[s] <= 30000 && variants[v].k <= 8);
            if ((CHECK_EMULATED || CHECK_SANITIZED) && !(small && variants[v].k <= 8)) {
                continue;
            }
            check_rate(variants[v], sizes[s]);
        }
    }
}

/* ---- Lookups ------------------------------------------------------------------------- */

/* Single lookups and batches of any length, by hash and by key, give the same answers. */
TEST(static__all_ways_to_ask_agree)
{
    enum { N = 3000, ASK = 5000 };
    static uint64_t keys[ASK], hashes[ASK], bitmap[BG_BITMAP_WORDS(ASK)];
    for (int v = 0; v < VARIANTS; v++) {
        bg_spec spec = spec_of(variants[v]);
        bg_builder *builder = NULL;
        bg_filter *filter = NULL;
        CHECK_OK(bg_builder_create(&spec, &builder, NULL));
        for (uint64_t i = 0; i < N; i++) {
            CHECK_OK(bg_builder_add_u64(builder, 7 * i));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
        for (uint64_t i = 0; i < ASK; i++) {
            keys[i] = 5 * i;
            hashes[i] = bg_hash_u64(bg_filter_hasher(filter), keys[i]);
        }
        static const size_t lengths[] = { 0, 1, 63, 64, 65, 130, ASK };
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            for (int by_hash = 0; by_hash < 2; by_hash++) {
                size_t n = lengths[l], count = 0;
                size_t said = by_hash ? bg_filter_may_contain_many(
                                  filter, bg_keys_hashes(hashes, n), bitmap)
                                      : bg_filter_may_contain_many(
                                          filter, bg_keys_u64(keys, n), bitmap);
                for (size_t i = 0; i < n; i++) {
                    bool maybe = bitmap[i / 64] >> i % 64 & 1;
                    CHECK_EQ(maybe, bg_filter_may_contain_hash(filter, hashes[i]));
                    CHECK_EQ(maybe, bg_filter_may_contain_u64(filter, keys[i]));
                    CHECK_EQ(maybe, bg_filter_count_hash(filter, hashes[i]));
                    CHECK(maybe || keys[i] % 7 || keys[i] >= 7 * N);
                    count += maybe;
                }
                CHECK_EQ(said, count);
            }
        }
        bg_filter_free(filter);
    }
}

/* Builds filters from random sets with some duplicate keys, and compares their answers with the
 * exact ones. */
TEST(static__model)
{
    enum { MOST = 4000 };
    static uint64_t keys[MOST];
    for (size_t round = 0; round < (CHECK_EMULATED ? 20 : 300) * check_scale();
         round++) {
        bg_spec spec = spec_of(variants[check_random_below(VARIANTS)]);
        size_t n = (size_t)check_random_below(MOST);
        bg_builder *builder = NULL;
        bg_filter *filter = NULL;
        bg_errinfo why;
        spec.hash.seed = round;
        CHECK_OK(bg_builder_create(&spec, &builder, &why));
        for (size_t i = 0; i < n; i++) {
            bool again = i > 0 && check_random_below(4) == 0;
            keys[i] = again ? keys[(size_t)check_random_below(i)] : check_random();
            CHECK_OK(bg_builder_add_u64(builder, keys[i]));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, &why));
        CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), NULL), n);
        bg_filter_free(filter);
        bg_builder_free(builder);
    }
}

/* ---- Life cycle --------------------------------------------------------------------- */

TEST(static__copies_and_equality)
{
    for (int v = 0; v < VARIANTS; v++) {
        bg_filter *a = build(variants[v], 1, 1000), *b = build(variants[v], 1, 1000);
        bg_filter *other = build(variants[v], 2, 1000), *copy = NULL;
        CHECK(bg_filter_equal(a, b));
        CHECK(bg_filter_compatible(a, other));
        CHECK(!bg_filter_equal(a, other));
        CHECK_OK(bg_filter_copy(a, &copy, NULL));
        CHECK(bg_filter_equal(a, copy));
        CHECK_EQ(missing(copy, 1, 1000), 0);
        CHECK_NEAR(info_of(copy).items.value, 1000, 0);
        added_hash(copy, 1); /* invalidates the copy, so it is no longer equal */
        CHECK(!bg_filter_equal(a, copy));
        bg_filter_free(copy);
        CHECK_OK(bg_filter_copy(a, &copy, NULL));
        bg_filter_clear(copy);
        CHECK(!bg_filter_equal(a, copy));
        CHECK_EQ(missing(copy, 1, 1000), 1000);
        CHECK_NEAR(info_of(copy).items.value, 0, 0);
        bg_filter_free(copy);
        bg_filter_free(other);
        bg_filter_free(b);
        bg_filter_free(a);
    }
}

/* Without keys, every answer is "no". */
TEST(static__empty_set)
{
    for (int v = 0; v < VARIANTS; v++) {
        bg_filter *filter = build(variants[v], 1, 0), *copy = NULL;
        CHECK_EQ(missing(filter, 1, 2000), 2000);
        CHECK_OK(bg_filter_copy(filter, &copy, NULL));
        CHECK(bg_filter_equal(filter, copy));
        CHECK_EQ(missing(copy, 1, 2000), 2000);
        added_hash(copy, 5);
        CHECK_EQ(missing(copy, 1, 2000), 0);
        bg_filter_free(copy);
        bg_filter_free(filter);
    }
}

TEST(static__adds_make_everything_maybe)
{
    for (int v = 0; v < VARIANTS; v++) {
        for (int many = 0; many < 2; many++) {
            bg_filter *filter = build(variants[v], 1, 500);
            uint64_t strangers[3] = { 1, 2, 3 }, is_new[1];
            bool one_is_new = true;
            size_t done = 9, added = 9;
            CHECK_EQ(bg_filter_add_hash(filter, 1, &one_is_new), BG_ENOTSUP);
            CHECK(!one_is_new);
            CHECK_EQ(bg_filter_add_many(filter, bg_keys_hashes(strangers, 3), NULL,
                                        &done, &added),
                     BG_ENOTSUP);
            CHECK_EQ(done, 0);
            CHECK_EQ(bg_filter_remove_hash(filter, 1), BG_ENOTSUP);
            CHECK_EQ(
                bg_filter_remove_many(filter, bg_keys_hashes(strangers, 3), is_new), 0);
            CHECK(!info_of(filter).overflowed);
            if (many) {
                CHECK_EQ(added_many(filter, bg_keys_hashes(strangers, 3), is_new), 1);
            } else {
                CHECK(added_u64(filter, 1));
                CHECK(!added_hash(filter, 2));
            }
            bg_filter_info info = info_of(filter);
            CHECK(info.overflowed);
            CHECK_NEAR(info.rate, 1, 0);
            CHECK(isinf(info.items.high));
            CHECK_EQ(missing(filter, 1, 500) + missing(filter, 2, 5000), 0);
            CHECK_EQ(
                bg_filter_may_contain_many(filter, bg_keys_hashes(strangers, 3), NULL),
                3);
            bg_filter_free(filter);
        }
    }
}

TEST(static__has_no_set_operations)
{
    for (int v = 0; v < VARIANTS; v++) {
        bg_filter *a = build(variants[v], 1, 100), *b = build(variants[v], 2, 100);
        bg_filter *folded = NULL;
        bg_overlap overlap;
        bg_errinfo why;
        CHECK_EQ(bg_filter_merge(a, b, &why), BG_ENOTSUP);
        CHECK_EQ(bg_filter_fold(a, 1, &folded, &why), BG_ENOTSUP);
        CHECK_EQ(bg_filter_overlap(a, b, &overlap, &why), BG_ENOTSUP);
        CHECK(folded == NULL);
        bg_filter_free(a);
        bg_filter_free(b);
    }
}

/* ---- Arguments ---------------------------------------------------------------------- */

TEST(static__create_points_to_the_builder)
{
    for (int v = 0; v < VARIANTS; v++) {
        bg_spec spec = spec_of(variants[v]);
        bg_filter *filter = (bg_filter *)(void *)&spec;
        bg_errinfo why;
        size_t bytes = 0;
        spec.items = 1000;
        CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOTSUP);
        CHECK(filter == NULL);
        CHECK(strstr(why.message, "bg_builder") != NULL);
        CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
        void *memory = line_memory(bytes);
        CHECK_EQ(bg_filter_create_at(memory, bytes, &spec, &filter, &why), BG_ENOTSUP);
        free(memory);
        CHECK_EQ(bg_kind_traits(variants[v].kind), BG_TRAIT_STATIC);
    }
}

static void check_refused(const bg_spec *spec, bg_err code, const char *what)
{
    bg_builder *builder = (bg_builder *)(uintptr_t)spec;
    bg_errinfo why;
    CHECK_EQ(bg_builder_create(spec, &builder, &why), code);
    CHECK_STR(why.what, what);
    CHECK(builder == NULL);
}

TEST(static__refuses_bad_specs)
{
    for (int v = 0; v < VARIANTS; v++) {
        bg_spec good = spec_of(variants[v]), spec = good;
        spec.k = 33;
        check_refused(&spec, BG_EINVAL, "k");
        spec = good;
        spec.width = 77;
        check_refused(&spec, BG_EINVAL, "width, flags");
        spec = good;
        spec.flags = BG_SPEC_SCATTERED;
        check_refused(&spec, BG_EINVAL, "width, flags");
        spec.flags = BG_SPEC_ONE_WINNER;
        check_refused(&spec, BG_ENOTSUP, "kind");
        spec = good;
        spec.folds = 1;
        check_refused(&spec, BG_ENOTSUP, "folds");
        spec = good;
        spec.rate = 1e-12;
        check_refused(&spec, BG_ENOTSUP, "rate");
    }
}

/* ---- Threads ---------------------------------------------------------------------------- */

struct asker {
    const bg_filter *filter;
    uint64_t lost, refused; /* number of "no" answers for members, and for other keys */
};

static void *ask(void *context)
{
    struct asker *me = context;
    for (int round = 0; round < 20; round++) {
        me->lost += missing(me->filter, 1, 1000);
        me->refused += missing(me->filter, 2, 1000);
    }
    return NULL;
}

/* Runs lookups during an add. Members are always found, and after the add all answers are
 * "maybe". */
TEST(static__threads_ask_while_one_adds)
{
    enum { THREADS = 4 };
    for (int v = 0; v < VARIANTS; v++) {
        bg_filter *filter = build(variants[v], 1, 1000);
        pthread_t threads[THREADS];
        struct asker askers[THREADS];
        for (int t = 0; t < THREADS; t++) {
            askers[t] = (struct asker){ .filter = filter };
            CHECK_EQ(pthread_create(&threads[t], NULL, ask, &askers[t]), 0);
        }
        added_hash(filter, 12345);
        CHECK_EQ(missing(filter, 2, 1000), 0);
        for (int t = 0; t < THREADS; t++) {
            CHECK_EQ(pthread_join(threads[t], NULL), 0);
            CHECK_EQ(askers[t].lost, 0);
        }
        bg_filter_free(filter);
    }
}

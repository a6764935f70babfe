/*
 * test_sharded.c - checks that sharded filters of every kind behave like a single filter.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "live/sharded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 5000, ROUNDS = 3 };

static const uint32_t counts[ROUNDS] = { 2, 7, 64 };

static bg_spec sharded_spec(bg_kind kind, uint32_t shards)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = KEYS;
    spec.rate = 0.01;
    spec.shards = shards;
    return spec;
}

/* Runs a test on every kind that can be sharded, with each shard count in `counts`. */
static void for_each_kind(void (*body)(const bg_spec *spec))
{
    static const bg_kind kinds[] = {
#define SHARDED_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_KINDS(SHARDED_KIND)
#undef SHARDED_KIND
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i] != BG_KIND_WINDOW
            && !(bg_kind_traits(kinds[i]) & BG_TRAIT_STATIC)) {
            for (int c = 0; c < ROUNDS; c++) {
                bg_spec spec = sharded_spec(kinds[i], counts[c]);
                body(&spec);
            }
        }
    }
}

static void fill(bg_filter *filter, uint64_t first, uint64_t n)
{
    for (uint64_t key = first; key < first + n; key++) {
        CHECK_OK(bg_filter_add_u64(filter, key, NULL));
    }
}

static void contract_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec), *copy = NULL;
    uint64_t keys[KEYS], maybe[BG_BITMAP_WORDS(KEYS)];
    CHECK_EQ(bg_filter_kind(filter), (bg_kind)spec->kind);
    CHECK(!bg_filter_may_contain_u64(filter, 1));
    fill(filter, 0, KEYS);
    size_t strangers = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
        CHECK(bg_filter_may_contain_u64(filter, i));
        strangers += bg_filter_may_contain_u64(filter, i + (1 << 20));
    }
    CHECK(strangers < KEYS / 40);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_u64(keys, KEYS), maybe), KEYS);
    bg_filter_info info = info_of(filter);
    CHECK_EQ(info.shards, spec->shards);
    CHECK_NEAR(info.items.value, KEYS, 0.06);
    CHECK(info.rate < 0.02 && info.bytes == bg_filter_size_bytes(filter));
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    CHECK(bg_filter_equal(filter, copy) && bg_filter_compatible(filter, copy));
    bg_filter_clear(filter);
    CHECK(!bg_filter_may_contain_u64(filter, 7));
    CHECK(!bg_filter_equal(filter, copy));
    CHECK_EQ(bg_filter_may_contain_many(copy, bg_keys_u64(keys, KEYS), NULL), KEYS);
    bg_filter_free(copy);
    bg_filter_free(filter);
}

TEST(sharded__does_what_the_kind_does)
{
    for_each_kind(contract_body);
}

static void remove_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec);
    fill(filter, 0, KEYS);
    if (!(bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_REMOVE)) {
        CHECK_EQ(bg_filter_remove_u64(filter, 5), BG_ENOTSUP);
        bg_filter_free(filter);
        return;
    }
    for (uint64_t key = 0; key < KEYS; key += 2) {
        CHECK_OK(bg_filter_remove_u64(filter, key));
    }
    for (uint64_t key = 1; key < KEYS; key += 2) {
        CHECK(bg_filter_may_contain_u64(filter, key));
        CHECK(bg_filter_count_u64(filter, key) >= 1);
    }
    CHECK_NEAR(info_of(filter).items.value, KEYS / 2.0, 0.06);
    bg_filter_free(filter);
}

TEST(sharded__removes_where_the_kind_can)
{
    for_each_kind(remove_body);
}

static void merge_body(const bg_spec *spec)
{
    bg_filter *a = must_create(spec), *b = must_create(spec), *all = must_create(spec);
    fill(a, 0, KEYS / 2);
    fill(b, KEYS / 2, KEYS / 2);
    fill(all, 0, KEYS);
    bg_err err = bg_filter_merge(a, b, NULL);
    if (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_MERGE) {
        CHECK_OK(err);
        for (uint64_t key = 0; key < KEYS; key++) {
            CHECK(bg_filter_may_contain_u64(a, key));
        }
        CHECK_NEAR(info_of(a).items.value, info_of(all).items.value, 0.02);
    } else {
        CHECK_EQ(err, BG_ENOTSUP);
    }
    bg_overlap overlap;
    err = bg_filter_overlap(all, b, &overlap, NULL);
    if (err == BG_OK) {
        CHECK_NEAR(overlap.either.value, KEYS, 0.06);
        CHECK_NEAR(overlap.both.value, KEYS / 2.0, 0.15);
    } else {
        CHECK_EQ(err, BG_ENOTSUP);
    }
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(all);
}

TEST(sharded__merges_shard_by_shard)
{
    for_each_kind(merge_body);
}

TEST(sharded__refuses_what_does_not_fit)
{
    bg_errinfo why;
    bg_spec spec = sharded_spec(BG_KIND_BLOCKED, 4);
    bg_filter *four = must_create(&spec), *filter = NULL;
    spec.shards = 8;
    bg_filter *eight = must_create(&spec);
    spec.shards = 0;
    bg_filter *one = must_create(&spec);
    CHECK_EQ(bg_filter_merge(four, eight, &why), BG_EINCOMPAT);
    CHECK_EQ(bg_filter_merge(four, one, &why), BG_EINCOMPAT);
    CHECK_EQ(bg_filter_merge(one, four, &why), BG_EINCOMPAT);
    CHECK(!bg_filter_equal(four, eight));
    CHECK_EQ(bg_filter_fold(four, 1, &filter, &why), BG_ENOTSUP);
    spec.shards = 65537;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "shards");
    spec.shards = 4;
    size_t bytes;
    CHECK_EQ(bg_filter_memory_needed(&spec, &bytes, &why), BG_ENOTSUP);
    spec.max_bytes = 100;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOMEM);
    CHECK(!filter);
    spec.max_bytes = 0;
    spec.kind = BG_KIND_WINDOW;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOTSUP);
    spec.kind = BG_KIND_FUSE;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOTSUP);
    spec.kind = BG_KIND_BLOCKED;
    spec.canaries = 65537;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "canaries");
    bg_filter_free(four);
    bg_filter_free(eight);
    bg_filter_free(one);
}

/* Each shard has space for its part of the canaries. */
TEST(sharded__has_space_for_canaries)
{
    static const bg_kind kinds[] = { BG_KIND_CUCKOO, BG_KIND_QUOTIENT, BG_KIND_REGISTER,
                                     BG_KIND_COUNTING };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_spec spec = sharded_spec(kinds[i], 2);
        spec.items = 1000;
        spec.canaries = 2000;
        bg_filter *filter = must_create(&spec);
        bg_filter_info info = { .struct_size = sizeof info };
        for (uint64_t key = 0; key < 3000; key++) {
            CHECK_OK(bg_filter_add_u64(filter, key, NULL));
        }
        CHECK_OK(bg_filter_get_info(filter, &info));
        CHECK(info.rate <= 1.2 * info.design_rate);
        bg_filter_free(filter);
    }
}

/* A file records at most 65,536 canaries. Joining more shards than that allows must not create a
 * filter whose file cannot be opened. */
TEST(sharded__joins_any_number_of_canaries)
{
    enum { SHARDS = 4200, EACH = 16 };
    static bg_filter *shards[SHARDS];
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_REGISTER;
    spec.items = 1;
    spec.rate = 0.1;
    spec.canaries = EACH;
    for (uint32_t i = 0; i < SHARDS; i++) {
        shards[i] = must_create(&spec);
        CHECK_OK(bg_filter_add_u64(shards[i], i, NULL));
    }
    bg_filter *joined = NULL, *back = NULL;
    CHECK_OK(bgi_sharded_join(shards, SHARDS, &joined, NULL));
    size_t n = 0;
    CHECK_OK(bg_encode(joined, NULL, NULL, 0, &n, NULL));
    void *bytes = malloc(n);
    CHECK(bytes != NULL);
    CHECK_OK(bg_encode(joined, NULL, bytes, n, &n, NULL));
    CHECK_OK(bg_decode(bytes, n, NULL, &back, NULL));
    CHECK(bg_filter_equal(joined, back));
    free(bytes);
    bg_filter_free(back);
    bg_filter_free(joined);
}

/* If a limit is lower than the number of shards, it is not divided down to 0, which would mean no
 * limit. */
TEST(sharded__a_limit_holds_however_small)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_SCALABLE,
                                     BG_KIND_QUOTIENT, BG_KIND_CUCKOO,
                                     BG_KIND_COUNTING };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (uint64_t most = 1; most < 40; most++) {
            bg_errinfo why;
            bg_filter *filter = NULL;
            bg_spec spec = sharded_spec(kinds[i], 16);
            bg_plan_request ask = BG_PLAN_REQUEST_INIT;
            bg_plan plan;
            spec.max_bytes = most;
            CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOMEM);
            CHECK(!filter);
            ask.spec = spec;
            CHECK_EQ(bg_plan_compute(&ask, &plan, &why), BG_ENOMEM);
        }
    }
}

/* Creates the filter that a plan describes. */
static inline bg_err create_planned(const bg_plan *plan, const bg_plan_request *request,
                                    bg_filter **filter)
{
    bg_spec spec;
    bg_plan_to_spec(plan, request, &spec);
    return bg_filter_create(&spec, filter, NULL);
}

TEST(sharded__a_plan_tells_what_will_be)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = sharded_spec(BG_KIND_BLOCKED, 16);
    ask.spec.items = 1000000;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK_NEAR(plan.bits_per_key, 9.94, 0.01);
    CHECK(strstr(plan.reason, "16 shards"));
    bg_filter *filter = NULL;
    CHECK_OK(create_planned(&plan, &ask, &filter));
    CHECK_EQ(bg_filter_size_bytes(filter), plan.bytes);
    bg_filter_free(filter);
}

/* With few keys in many shards, the filter still has the requested false-positive rate. */
TEST(sharded__rate_is_as_asked)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        return;
    }
    bg_spec spec = sharded_spec(BG_KIND_BLOCKED, 64);
    spec.items = 64000;
    uint64_t hits = 0, trials = 4000000;
    bg_filter *filter = must_create(&spec);
    for (uint64_t i = 0; i < spec.items; i++) {
        (void)added_hash(filter, check_random());
    }
    for (uint64_t i = 0; i < trials; i++) {
        hits += bg_filter_may_contain_hash(filter, check_random());
    }
    CHECK_NEAR((double)hits / (double)trials, info_of(filter).rate, 0.05);
    CHECK((double)hits / (double)trials < 0.0102);
    bg_filter_free(filter);
}

static void *add_a_quarter(void *arg)
{
    void *const *parts = arg;
    uint64_t first = (uint64_t)(uintptr_t)parts[1];
    fill(parts[0], first, KEYS / 4);
    for (uint64_t key = first; key < first + KEYS / 4; key++) {
        CHECK(bg_filter_may_contain_u64(parts[0], key));
    }
    return NULL;
}

static void threads_body(const bg_spec *spec)
{
    bg_filter *filter = must_create(spec);
    pthread_t threads[4];
    void *parts[4][2];
    for (int i = 0; i < 4; i++) {
        parts[i][0] = filter;
        parts[i][1] = (void *)(uintptr_t)(unsigned)(i * (KEYS / 4));
        CHECK_EQ(pthread_create(&threads[i], NULL, add_a_quarter, parts[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        CHECK(bg_filter_may_contain_u64(filter, key));
    }
    bg_filter_free(filter);
}

TEST(sharded__threads_add)
{
    for_each_kind(threads_body);
}

/* Makes each allocation fail once, and checks that no memory is leaked and no partial filter is
 * created. */
static void fault_body(const bg_spec *spec)
{
    static struct counting c;
    if (spec->shards > 7) {
        return; /* the same again */
    }
    for (size_t n = 1; n < 60; n += CHECK_EMULATED ? 7 : 1) {
        bg_spec own = *spec;
        bg_filter *filter = NULL, *copy = NULL;
        counting_start(&c);
        own.allocator = &c.hooks;
        c.fail_at = n;
        bg_err err = bg_filter_create(&own, &filter, NULL);
        CHECK(err == BG_OK ? filter != NULL : err == BG_ENOMEM && !filter);
        if (filter) {
            for (uint64_t key = 0; key < 100; key++) {
                CHECK_OK(bg_filter_add_u64(filter, key, NULL));
            }
            err = bg_filter_copy(filter, &copy, NULL);
            CHECK(err == BG_OK ? copy != NULL : err == BG_ENOMEM && !copy);
            err = copy ? bg_filter_merge(copy, filter, NULL) : BG_OK;
            CHECK(err == BG_OK || err == BG_ENOMEM || err == BG_ENOTSUP);
            for (uint64_t key = 0; key < 100; key++) {
                CHECK(bg_filter_may_contain_u64(filter, key));
                CHECK(!copy || bg_filter_may_contain_u64(copy, key));
            }
        }
        bg_filter_free(copy);
        bg_filter_free(filter);
        CHECK_EQ(c.live, 0);
        CHECK_EQ(c.mistakes, 0);
    }
}

TEST(sharded__allocations_fail)
{
    for_each_kind(fault_body);
}

/*
 * prop_large.c - tests filters with more than 2^32 bits: all parts are used evenly, no member is
 * lost, and the rate matches the prediction.
 *
 * By default, the test creates a nearly empty filter of each kind with 2^32 + 2^29 bits. The filter
 * uses a low k and gets 5e6 keys, so that most kinds have a measurable rate. Soak tests also create
 * a filter of each kind for 450e6 keys at a rate of 1%, add all of these keys, and look them up. If
 * there is enough memory, they also create nearly empty filters with 2^35 + 2^29 bits.
 */
#define _DEFAULT_SOURCE /* _SC_AVPHYS_PAGES */

#include "bloomgate/all.h"
#include "filter/handle.h"
#include "prop/measure.h"
#include "support/adds.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { CHUNK = 4096, PARTS = 16 };

/* Members are the first `n` values of a random sequence; probes are the values that follow. */
struct members {
    uint64_t start;
    uint64_t n;
};

/* Adds or looks up the next n values of a sequence. Returns how many added keys were new, or how
 * many lookups answered "maybe". */
static uint64_t large_run(bg_filter *filter, uint64_t *state, uint64_t n, bool add)
{
    uint64_t hashes[CHUNK], count = 0;
    while (n) {
        size_t here = n < CHUNK ? (size_t)n : CHUNK;
        for (size_t i = 0; i < here; i++) {
            hashes[i] = check_random_next(state);
        }
        count += add ? added_many(filter, bg_keys_hashes(hashes, here), NULL)
                     : bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, here),
                                                  NULL);
        n -= here;
    }
    return count;
}

/* Checks that single calls agree with batches: looks up some members and adds them again, one at a
 * time. */
static void large_check_single(bg_filter *filter, uint64_t state)
{
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t hash = check_random_next(&state);
        CHECK(bg_filter_may_contain_hash(filter, hash));
        CHECK(!added_hash(filter, hash));
    }
}

/* Checks that every sixteenth of the filter contains about a sixteenth of the set bits. */
static void large_check_parts(const bg_filter *filter)
{
    size_t words = (size_t)bg_filter_size_bytes(filter) / 8 / PARTS;
    double parts[PARTS], all = 0;
    for (unsigned p = 0; p < PARTS; p++) {
        parts[p] = (double)filter->core.word_ops->count(
            bgi_filter_words(filter) + p * words, words);
        all += parts[p];
    }
    for (unsigned p = 0; p < PARTS; p++) {
        double share = all / PARTS; /* up to 16 of a key's bits can be adjacent */
        CHECK_NEAR(parts[p], share, 6 * sqrt(16 / share));
    }
}

static void large_check_rate(bg_filter *filter, uint64_t state, double probes,
                             double predicted)
{
    double hits = (double)large_run(filter, &state, (uint64_t)probes, false);
    double expected = predicted * probes;
    printf("= %s of %.2f x 2^32 bits: predicted %.3e, measured %.3e (%.0f hits, %.0f "
           "expected, sigma %.2f%%)\n",
           bg_kind_name(bg_filter_kind(filter)),
           8 * (double)bg_filter_size_bytes(filter) / 4294967296.0, predicted,
           hits / probes, hits, expected, 100 / sqrt(expected));
    if (expected >= 10000) {
        CHECK_NEAR(hits, expected, 0.05);
    } else {
        CHECK(fabs(hits - expected) <= 0.05 * expected + 5 * sqrt(expected) + 5);
    }
}

static void large_check(bg_filter *filter, struct members members, double probes,
                        double predicted)
{
    uint64_t state = members.start;
    CHECK(bg_filter_size_bytes(filter) > (uint64_t)1 << 29);
    uint64_t added = large_run(filter, &state, members.n, true);
    uint64_t first_probe = state;
    CHECK(added <= members.n);
    /* This is an upper bound on the expected number of keys that were not new, because the rate
     * reaches the predicted value only at the last adds. */
    double seen = (double)members.n * predicted;
    CHECK((double)(members.n - added) <= seen + 6 * sqrt(seen) + 6);
    state = members.start;
    CHECK_EQ(large_run(filter, &state, members.n, false), members.n);
    large_check_single(filter, members.start);
    large_check_parts(filter);
    large_check_rate(filter, first_probe, probes, predicted);
}

static uint32_t large_fewest_k(bg_kind kind)
{
    return kind == BG_KIND_PARTITIONED ? 2 : bgi_kind_of(kind)->k_min;
}

/* Tests a nearly empty filter of `bytes` bytes. */
static void large_sparse(bg_kind kind, uint64_t bytes, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.bytes = bytes;
    spec.k = large_fewest_k(kind);
    spec.flags = flags;
    bg_filter *filter;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    struct members members = { check_random(), 5000000 };
    double predicted =
        bg_predict_rate(kind, bg_filter_size_bytes(filter), spec.k, members.n);
    large_check(filter, members, 1e7, predicted);
    bg_filter_free(filter);
}

#define LARGE_SPARSE(NAME, number, name)                                               \
    TEST(large__sparse_##name)                                                         \
    {                                                                                  \
        uint64_t bytes = ((uint64_t)1 << 29) + ((uint64_t)1 << 26);                    \
        large_sparse(BG_KIND_##NAME, bytes, (number) % 2 ? BG_SPEC_EXCLUSIVE : 0);     \
    }
BG_BLOOM_KINDS(LARGE_SPARSE)

static double large_free_memory(void)
{
    return (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

#define LARGE_HUGE(NAME, number, name)                                                 \
    TEST(large__huge_##name)                                                           \
    {                                                                                  \
        uint64_t bytes = ((uint64_t)1 << 32) + ((uint64_t)1 << 26);                    \
        if (measure_soaks() && large_free_memory() > 1.5 * (double)bytes) {            \
            large_sparse(BG_KIND_##NAME, bytes, 0);                                    \
        }                                                                              \
    }
BG_BLOOM_KINDS(LARGE_HUGE)

/* Tests a full filter. */
static void large_full(bg_kind kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = 450000000;
    spec.rate = 0.01;
    bg_filter *filter;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(filter, &info));
    CHECK(info.bits > (uint64_t)1 << 32);
    struct members members = { check_random(), spec.items };
    large_check(filter, members, 1e7, info.design_rate);
    CHECK_OK(bg_filter_get_info(filter, &info));
    CHECK_NEAR(info.items.value, (double)spec.items, 0.001);
    CHECK_NEAR(info.rate, info.design_rate, 0.01);
    bg_filter_free(filter);
}

#define LARGE_FULL(NAME, number, name)                                                 \
    TEST(large__full_##name)                                                           \
    {                                                                                  \
        if (measure_soaks()) {                                                         \
            large_full(BG_KIND_##NAME);                                                \
        }                                                                              \
    }
BG_BLOOM_KINDS(LARGE_FULL)

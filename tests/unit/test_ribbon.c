/*
 * Tests that are specific to ribbon filters: geometry, widths, size, exact bits, and the same
 * answers with every instruction set.
 */
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"
#include "kind/ribbon_shape.h"

static bg_filter *build(uint32_t k, uint64_t n)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_RIBBON;
    spec.k = k;
    spec.rate = 0.9;
    return build_of_hashes(&spec, n);
}

TEST(ribbon__shapes_are_sound)
{
    for (uint32_t k = 1; k <= 32; k++) {
        for (uint64_t units = 1; units < (uint64_t)1 << 45; units += 1 + units / 53) {
            struct ribbon_shape s = ribbon_shape_of(units, k);
            CHECK(s.pieces >= 1 && s.pieces * s.units <= units);
            CHECK(s.limits <= s.units && s.second <= s.limits * RIBBON_BLOCK);
            CHECK_EQ(s.second % RIBBON_BLOCK, 0);
            /* Invariant (I4) of ribbon.c: there is one more block after the last block in which a
             * key can start. */
            CHECK(s.starts[0] == 0 || s.starts[0] + RIBBON_BLOCK == s.second);
            CHECK(s.starts[1] == 0
                  || s.second + s.starts[1] + RIBBON_BLOCK == s.limits * RIBBON_BLOCK);
            /* Every bucket has a limit, which is stored in 4 bits. */
            uint64_t buckets = (s.second + RIBBON_BUCKET - 1) / RIBBON_BUCKET;
            CHECK((s.units - s.limits) * k * 16 >= buckets);
            CHECK(ribbon_capacity(units, k) <= (double)(units * RIBBON_BLOCK));
        }
    }
}

/* Tests sizes just below and just above two thresholds: where the second layer is added, and where
 * a filter is split into two parts. */
TEST(ribbon__builds_around_every_step)
{
    static const uint64_t steps[] = { 2, 3, RIBBON_LAYERED, RIBBON_PIECE_UNITS,
                                      2 * RIBBON_PIECE_UNITS };
    size_t most = CHECK_EMULATED || CHECK_SANITIZED ? 3 : 5;
    for (size_t s = 0; s < most; s++) {
        for (uint64_t units = steps[s] - 1; units <= steps[s] + 1; units++) {
            uint64_t n = (uint64_t)ribbon_capacity(units, 8);
            for (uint64_t more = 0; more < 2; more++) {
                bg_filter *filter = build(8, n + more);
                check_built_hashes(filter, n + more);
                bg_filter_free(filter);
            }
        }
    }
}

TEST(ribbon__every_width)
{
    for (uint32_t k = 1; k <= 32; k++) {
        for (uint64_t n = 3; n < (CHECK_EMULATED ? 2000 : 100000); n *= 9) {
            bg_filter *filter = build(k, n);
            CHECK_EQ(info_of(filter).k, k);
            check_built_hashes(filter, n);
            bg_filter_free(filter);
        }
    }
}

/* The filter needs at most 3% more than k bits per key. */
TEST(ribbon__size_is_as_documented)
{
    const uint64_t n = CHECK_EMULATED || CHECK_SANITIZED ? 100000 : 3000000;
    for (uint32_t k = 1; k <= 32; k = 2 * k + 1) {
        bg_filter *filter = build(k, n);
        double bits = 8 * (double)bg_filter_size_bytes(filter) / (double)n;
        CHECK(bits < (double)k * (k < 3 ? 1.03 : 1.016));
        bg_filter_free(filter);
    }
}

TEST(ribbon__solver_picks_the_width)
{
    for (uint32_t k = 1; k <= 32; k++) {
        bg_plan_request request = BG_PLAN_REQUEST_INIT;
        bg_plan plan;
        request.spec.kind = BG_KIND_RIBBON;
        request.spec.items = 100000;
        request.spec.rate = ldexp(1.01, -(int)k);
        CHECK_OK(bg_plan_compute(&request, &plan, NULL));
        CHECK_EQ(plan.k, k);
        CHECK_NEAR(plan.rate, ldexp(1, -(int)k), 1e-12);
        request.spec.rate = ldexp(0.99, -(int)k);
        bg_err err = bg_plan_compute(&request, &plan, NULL);
        CHECK(k == 32 ? err == BG_ENOTSUP : plan.k == k + 1);
    }
}

/* The same filter is queried with every instruction set that this machine supports. */
TEST(ribbon__instruction_sets_agree)
{
    enum { N = 20000, ASK = 40000 };
    static uint64_t hashes[ASK], expected[BG_BITMAP_WORDS(ASK)],
        found[BG_BITMAP_WORDS(ASK)];
    static const bg_cpu cpus[] = { BG_CPU_AVX2, BG_CPU_AVX512, BG_CPU_NEON };
    const bg_cpu before = bg_cpu_current();
    uint64_t state = N;
    for (size_t i = 0; i < ASK; i++) {
        hashes[i] = check_random_next(&state);
    }
    for (uint32_t k = 1; k <= 32; k++) {
        CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
        bg_filter *model = build(k, N);
        size_t count =
            bg_filter_may_contain_many(model, bg_keys_hashes(hashes, ASK), expected);
        for (size_t c = 0; c < sizeof cpus / sizeof *cpus; c++) {
            bg_filter *filter = NULL;
            if (bg_cpu_select(cpus[c]) != BG_OK) {
                continue;
            }
            CHECK_OK(bg_filter_copy(model, &filter, NULL));
            CHECK_EQ(
                bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, ASK), found),
                count);
            CHECK(memcmp(found, expected, sizeof found) == 0);
            for (size_t i = 0; i < ASK; i += 7) {
                CHECK_EQ(bg_filter_may_contain_hash(filter, hashes[i]),
                         expected[i / 64] >> i % 64 & 1);
            }
            bg_filter_free(filter);
        }
        bg_filter_free(model);
    }
    CHECK_OK(bg_cpu_select(before));
}

/* The layout is part of the file format: the same hashes produce the same bits on every machine. */
TEST(ribbon__bits_are_frozen)
{
    static const struct {
        uint32_t k;
        uint64_t n, bits;
    } cases[] = {
        { 1, 1000, UINT64_C(0x37de1398677b2a35) },
        { 7, 1000, UINT64_C(0xb2756361cc163010) },
        { 8, 30000, UINT64_C(0xd5ac0c42067ad86c) },
        { 32, 30000, UINT64_C(0x5822472ac741b524) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_filter *filter = build(cases[i].k, cases[i].n);
        uint64_t sum = 0;
        for (size_t w = 0; w < filter->bytes / 8; w++) {
            sum = (sum ^ bgi_filter_words(filter)[w]) * UINT64_C(0x9e3779b97f4a7c15);
        }
        CHECK_EQ(sum, cases[i].bits);
        bg_filter_free(filter);
    }
}

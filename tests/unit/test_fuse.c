/*
 * Tests that are specific to fuse filters: the geometry around every size at which it changes, the
 * bits per key, and the exact bits.
 */
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"
#include "kind/fuse_shape.h"

static bg_filter *build(uint32_t width, uint32_t k, uint64_t n)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_FUSE;
    spec.width = width;
    spec.k = k;
    spec.rate = 0.1;
    return build_of_hashes(&spec, n);
}

TEST(fuse__shapes_are_sound)
{
    for (uint32_t arity = 3; arity <= 4; arity++) {
        for (uint64_t units = 1; units < (uint64_t)1 << 45; units += 1 + units / 97) {
            struct fuse_shape s = fuse_shape_of(arity, units);
            CHECK(s.pieces >= 1 && s.length >= 8 && s.length <= 8192);
            CHECK_EQ(s.length & (s.length - 1), 0);
            CHECK_EQ(s.slots % s.length, 0);
            CHECK(s.pieces * s.slots <= units * FUSE_UNIT);
            CHECK(s.starts == 0 || s.starts + (arity - 1) * s.length == s.slots);
            CHECK(fuse_capacity(arity, units) < (double)(s.slots * s.pieces));
            /* Slots at the end of a part that do not fill a segment are unused, but they are only a
             * small fraction of the filter. */
            CHECK(s.length * s.pieces * 4 <= units * FUSE_UNIT || units < 32);
        }
    }
}

/* Tests sizes just below and just above each threshold: where the segment length doubles, and where
 * a filter is first split into two or three parts. */
TEST(fuse__builds_around_every_step)
{
    const uint64_t most = CHECK_EMULATED || CHECK_SANITIZED ? 30000 : 5200000;
    for (uint32_t arity = 3; arity <= 4; arity++) {
        struct fuse_shape last = fuse_shape_of(arity, 1);
        unsigned steps = 0;
        for (uint64_t units = 2; fuse_capacity(arity, units) < (double)most; units++) {
            struct fuse_shape now = fuse_shape_of(arity, units);
            if (now.length == last.length && now.pieces == last.pieces) {
                continue;
            }
            last = now;
            steps++;
            uint64_t before = (uint64_t)fuse_capacity(arity, units - 1);
            for (uint64_t n = before > 2 ? before - 2 : 0; n <= before + 2; n++) {
                if (n > 300000 && n != before && n != before + 1) {
                    continue;
                }
                bg_filter *filter = build(arity, 8, n);
                check_built_hashes(filter, n);
                bg_filter_free(filter);
            }
        }
        CHECK(steps >= (most > 100000 ? 11 : 5));
    }
}

TEST(fuse__size_is_as_documented)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        return;
    }
    bg_filter *three = build(3, 8, 3000000), *four = build(4, 8, 3000000);
    CHECK(8 * (double)bg_filter_size_bytes(three) / 3e6 < 9.05);
    CHECK(8 * (double)bg_filter_size_bytes(four) / 3e6 < 8.65);
    bg_filter_free(three);
    bg_filter_free(four);
}

TEST(fuse__solver_picks_the_width)
{
    static const struct {
        double rate;
        uint32_t k;
    } cases[] = { { 0.9, 8 },      { 0.01, 8 },  { 0.00390625, 8 }, { 0.0039, 16 },
                  { 1.53e-5, 16 }, { 1e-5, 32 }, { 2.33e-10, 32 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_plan_request request = BG_PLAN_REQUEST_INIT;
        bg_plan plan;
        request.spec.kind = BG_KIND_FUSE;
        request.spec.items = 100000;
        request.spec.rate = cases[i].rate;
        CHECK_OK(bg_plan_compute(&request, &plan, NULL));
        CHECK_EQ(plan.k, cases[i].k);
        CHECK_EQ(plan.lines_per_lookup, 3);
        CHECK(plan.rate <= cases[i].rate);
    }
}

/* The layout is part of the file format: the same hashes produce the same bits on every machine. */
TEST(fuse__bits_are_frozen)
{
    static const struct {
        uint32_t arity, k;
        uint64_t n, bits;
    } cases[] = {
        { 3, 8, 1000, UINT64_C(0x1c448fb6e1123231) },
        { 3, 16, 1000, UINT64_C(0xd8570f4312211772) },
        { 3, 32, 1000, UINT64_C(0x95d6508b16f4822a) },
        { 4, 8, 1000, UINT64_C(0x43438f5c1e45342) },
        { 4, 16, 1000, UINT64_C(0xeaa51d8e7927f6e2) },
        { 4, 32, 1000, UINT64_C(0x84426b972ca76632) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_filter *filter = build(cases[i].arity, cases[i].k, cases[i].n);
        uint64_t sum = 0;
        for (size_t w = 0; w < filter->bytes / 8; w++) {
            sum = (sum ^ bgi_filter_words(filter)[w]) * UINT64_C(0x9e3779b97f4a7c15);
        }
        CHECK_EQ(sum, cases[i].bits);
        bg_filter_free(filter);
    }
}

/* test_inline.c - inline lookups and adds give the same results as the functions of filter.h. */
#include "bloomgate/all.h"
#include "support/check.h"
#include "support/samples.h"

#define INLINE_CALLS inline_calls_baseline
#include "support/inline_calls.h"

#include <string.h>

enum { KEYS = 1500 };

static size_t targets(const struct inline_calls **out)
{
    size_t n = 0;
    out[n++] = &inline_calls_baseline;
#if defined(__x86_64__)
    if (bg_cpu_available(BG_CPU_AVX2)) {
        out[n++] = &inline_calls_avx2;
    }
    if (bg_cpu_available(BG_CPU_AVX512)) {
        out[n++] = &inline_calls_avx512;
    }
#endif
    return n;
}

/* Compares all lookups for keys that may and may not be in the filter. */
static void check_lookups(const struct inline_calls *calls, const bg_filter *filter)
{
    const bg_view view = calls->view(filter);
    for (uint64_t i = 0; i < 2 * KEYS; i++) {
        const uint64_t hash = check_random();
        CHECK_EQ(calls->has_u64(&view, i), bg_filter_may_contain_u64(filter, i));
        CHECK_EQ(calls->has_hash(&view, hash),
                 bg_filter_may_contain_hash(filter, hash));
        for (size_t len = 0; len < 8 * sizeof hash; len += (size_t)(1 + i % 4)) {
            unsigned char key[8 * sizeof hash];
            memset(key, (int)(i % 7), sizeof key);
            memcpy(key + i % 5, &i, sizeof i);
            CHECK_EQ(calls->has(&view, key, len),
                     bg_filter_may_contain(filter, key, len));
        }
    }
}

static bg_filter *create(const bg_spec *spec)
{
    bg_filter *filter = NULL;
    CHECK_OK(bg_filter_create(spec, &filter, NULL));
    return filter;
}

/* Adds the same keys to two filters, and compares the results, the filters and their lookups. */
static void check_spec(const struct inline_calls *calls, const bg_spec *spec)
{
    bg_filter *called = create(spec), *inlined = create(spec);
    const bg_view view = calls->view(inlined);
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t key = check_random_below(2 * KEYS), hash = check_random();
        bool is_new = false, also_new = false;
        CHECK_EQ(calls->add_u64(&view, key, &is_new),
                 bg_filter_add_u64(called, key, &also_new));
        CHECK_EQ(is_new, also_new);
        CHECK_EQ(calls->add(&view, &hash, (size_t)(i % 9), &is_new),
                 bg_filter_add(called, &hash, (size_t)(i % 9), &also_new));
        CHECK_EQ(is_new, also_new);
        CHECK_EQ(calls->add_hash(&view, hash, i % 2 ? &is_new : NULL),
                 bg_filter_add_hash(called, hash, &also_new));
        CHECK(i % 2 == 0 || is_new == also_new);
        CHECK(calls->has_u64(&view, key) && calls->has_hash(&view, hash));
    }
    CHECK(bg_filter_equal(called, inlined));
    check_lookups(calls, inlined);
    bg_filter_free(called);
    bg_filter_free(inlined);
}

static void check_geometry(bg_kind kind, uint32_t k, uint32_t profile, uint32_t flags)
{
    static const uint8_t secret[BG_SECRET_BYTES] = "sixteen letters";
    const struct inline_calls *calls[3];
    const size_t n = targets(calls);
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = KEYS;
    spec.bytes = 4096 + 64 * check_random_below(200);
    spec.k = k;
    spec.flags = flags;
    spec.hash.profile = profile;
    spec.hash.secret = secret;
    spec.hash.seed = profile == BG_HASH_KEYED ? 0 : check_random_below(3) * 77;
    for (size_t i = 0; i < n; i++) {
        check_spec(calls[i], &spec);
    }
}

static void check_kind(bg_kind kind, uint32_t k_min, uint32_t k_max)
{
    for (uint32_t k = k_min; k <= k_max; k++) {
        check_geometry(kind, k, BG_HASH_FAST, 0);
        check_geometry(kind, k, BG_HASH_FAST, BG_SPEC_EXCLUSIVE);
        check_geometry(kind, k, BG_HASH_FAST_INT, BG_SPEC_EXCLUSIVE);
        check_geometry(kind, k, BG_HASH_KEYED, BG_SPEC_EXCLUSIVE);
    }
}

TEST(blocked)
{
    check_kind(BG_KIND_BLOCKED, 3, 16);
}

TEST(split)
{
    check_kind(BG_KIND_SPLIT, 8, 8);
}

TEST(register)
{
    check_kind(BG_KIND_REGISTER, 1, 10);
}

/* Lookups in filters of all kinds and variants. Kinds without inline code call the library. */
TEST(every_kind)
{
    static const double rates[] = { 0.02, 1e-4, 1e-7 };
    const struct inline_calls *calls[3];
    const size_t n = targets(calls);
    static uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    for (unsigned s = 0; s < SAMPLES; s++) {
        for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
            bg_spec spec =
                sample_spec(s, KEYS, rates[samples[s].kind == BG_KIND_FUSE ? r : 0]);
            struct filling fill;
            filling_begin(&fill, s, &spec, KEYS);
            filling_add_u64(&fill, keys, KEYS);
            bg_filter *filter = filling_end(&fill);
            for (size_t i = 0; i < n; i++) {
                check_lookups(calls[i], filter);
            }
            bg_filter_free(filter);
        }
    }
}

/* A forced add makes a static filter answer "maybe", also through views that already exist. */
TEST(fuse__forced_add)
{
    const unsigned sample = sample_of(BG_KIND_FUSE);
    const uint64_t keys[] = { 1, 2, 3 };
    bg_spec spec = sample_spec(sample, 3, 0.001);
    struct filling fill;
    filling_begin(&fill, sample, &spec, 3);
    filling_add_u64(&fill, keys, 3);
    bg_filter *filter = filling_end(&fill);
    const bg_view view = bg_view_of(filter);
    bool is_new = true;
    size_t no = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        no += !bg_view_may_contain_u64(&view, 1000 + i);
    }
    CHECK(no > KEYS / 2);
    CHECK_EQ(bg_view_add_u64(&view, 4, &is_new), BG_ENOTSUP);
    CHECK(!is_new);
    CHECK_OK(bg_filter_add_forced(filter, bg_keys_u64(keys, 3), NULL, NULL));
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK(bg_view_may_contain_u64(&view, 1000 + i));
    }
    bg_filter_free(filter);
}

/* Adds after a view was created are visible through it, and so is a clear. */
TEST(view__stays_valid)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = KEYS;
    spec.rate = 0.01;
    bg_filter *filter = create(&spec);
    const bg_view view = bg_view_of(filter);
    CHECK(!bg_view_may_contain_u64(&view, 1));
    CHECK_OK(bg_filter_add_u64(filter, 1, NULL));
    CHECK(bg_view_may_contain_u64(&view, 1));
    bg_filter_clear(filter);
    CHECK(!bg_view_may_contain_u64(&view, 1));
    bg_filter_free(filter);
}

TEST(view__of_null)
{
    const struct inline_calls *calls[3];
    const size_t n = targets(calls);
    for (size_t i = 0; i < n; i++) {
        const bg_view view = calls[i]->view(NULL);
        bool is_new = true;
        CHECK(calls[i]->has(&view, "x", 1) && calls[i]->has_u64(&view, 1)
              && calls[i]->has_hash(&view, 1));
        CHECK_EQ(calls[i]->add_u64(&view, 1, &is_new), BG_EINVAL);
        CHECK_EQ(calls[i]->add(&view, "12345678", 8, &is_new), BG_EINVAL);
    }
}

/* Programs may have been compiled with another version of the struct. */
TEST(view__of_another_size)
{
    struct {
        bg_view view;
        uint64_t more;
    } large;
    unsigned char small[24];
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 0.01;
    bg_filter *filter = create(&spec);
    memset(&large, 0xff, sizeof large);
    memset(small, 0xff, sizeof small);
    bg_filter_get_view(filter, &large.view, sizeof large);
    CHECK_EQ(large.more, 0);
    CHECK(large.view.filter == filter);
    bg_filter_get_view(filter, (bg_view *)(void *)small, sizeof small - 8);
    CHECK_EQ(small[23], 0xff);
    bg_filter_free(filter);
}

/* BG_WITH_VIEW compiles a statement for each common shape and hash. */
TEST(with_view__every_kind)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        for (uint32_t profile = BG_HASH_FAST; profile <= BG_HASH_FAST_INT; profile++) {
            bg_spec spec = sample_spec(s, KEYS, 0.01);
            struct filling fill;
            uint64_t keys[100];
            size_t missed = 0, wrong = 0;
            if (profile != BG_HASH_FAST && profile != BG_HASH_FAST_INT) {
                continue;
            }
            spec.hash.profile = profile;
            filling_begin(&fill, s, &spec, 100);
            for (uint64_t i = 0; i < 100; i++) {
                keys[i] = i * i;
            }
            filling_add_u64(&fill, keys, 100);
            bg_filter *filter = filling_end(&fill);
            BG_WITH_VIEW(filter, view, {
                for (size_t i = 0; i < 100; i++) {
                    missed += !bg_view_may_contain_u64(&view, keys[i]);
                }
                for (uint64_t i = 0; i < KEYS; i++) {
                    wrong += bg_view_may_contain_u64(&view, i)
                             != bg_filter_may_contain_u64(filter, i);
                }
            });
            CHECK_EQ(missed, 0);
            CHECK_EQ(wrong, 0);
            bg_filter_free(filter);
        }
    }
}

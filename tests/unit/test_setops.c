/* Operations on two filters: merging, folding, copying, comparing and clearing. */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

enum { KEYS = 1000, BYTES = 8192 };

static uint64_t hashes[2 * KEYS];

static void add_keys(bg_filter *filter, size_t from, size_t to)
{
    (void)added_many(filter, bg_keys_hashes(hashes + from, to - from), NULL);
}

static void check_members(const bg_filter *filter, size_t from, size_t to)
{
    CHECK_EQ(bg_filter_may_contain_many(filter,
                                        bg_keys_hashes(hashes + from, to - from), NULL),
             to - from);
}

/* ---- Folding --------------------------------------------------------------------- */

/* A filter folded any number of times equals a filter built at the smaller size. */
static void check_fold(bg_kind kind, uint32_t k, uint32_t flags)
{
    enum { FOLDS = 4 };
    uint64_t units = 16 * (1 + 256 / kind_unit_bytes(kind, k));
    bg_spec spec = exact_spec(kind, units, k, flags);
    bg_filter *large = must_create(&spec);
    add_keys(large, 0, KEYS);
    CHECK_EQ(info_of(large).foldable >= FOLDS, true);
    for (uint32_t times = 1; times <= FOLDS; times++) {
        bg_filter *folded = NULL;
        spec = exact_spec(kind, units >> times, k, flags);
        bg_filter *small = must_create(&spec);
        add_keys(small, 0, KEYS);
        CHECK_OK(bg_filter_fold(large, times, &folded, NULL));
        CHECK(bg_filter_equal(folded, small));
        CHECK_EQ(bg_filter_size_bytes(folded), bg_filter_size_bytes(large) >> times);
        CHECK_EQ(info_of(folded).flags, flags);
        check_members(folded, 0, KEYS);
        /* The folded filter still accepts keys. */
        add_keys(folded, KEYS, KEYS + 10);
        add_keys(small, KEYS, KEYS + 10);
        CHECK(bg_filter_equal(folded, small));
        bg_filter_free(folded);
        bg_filter_free(small);
    }
    bg_filter_free(large);
}

TEST(fold__equals_building_at_the_smaller_size)
{
    random_hashes(hashes, 2 * KEYS);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            check_fold(kind, k, k % 2 ? BG_SPEC_EXCLUSIVE : 0);
        }
    }
}

/* The rate of a folded filter is compared with the rate it was created for. */
TEST(fold__keeps_the_design)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = BG_SPEC_INIT;
        bg_filter *folded = NULL;
        spec.kind = kind_at(i);
        spec.items = 1 << 16;
        spec.rate = 0.01;
        spec.folds = 1;
        bg_filter *large = must_create(&spec);
        CHECK_OK(bg_filter_fold(large, 1, &folded, NULL));
        CHECK_EQ(info_of(folded).design_items, info_of(large).design_items);
        CHECK(info_of(folded).design_rate == info_of(large).design_rate);
        CHECK(info_of(folded).design_rate > 0);
        bg_filter_free(folded);
        bg_filter_free(large);
    }
}

TEST(fold__down_to_one_unit)
{
    random_hashes(hashes, KEYS);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        bg_spec spec = exact_spec(kind, 1024, kind_k_usual(kind), 0);
        bg_filter *filter = must_create(&spec), *one = NULL, *none = NULL;
        add_keys(filter, 0, 20);
        CHECK_EQ(info_of(filter).foldable, 10);
        CHECK_OK(bg_filter_fold(filter, 10, &one, NULL));
        CHECK_EQ(info_of(one).units, 1);
        CHECK_EQ(info_of(one).foldable, 0);
        check_members(one, 0, 20);
        CHECK_EQ(bg_filter_fold(one, 1, &none, NULL), BG_EINVAL);
        bg_filter_free(filter);
        bg_filter_free(one);
    }
}

TEST(fold__of_an_odd_size_is_refused)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        bg_spec spec = exact_spec(kind, 12, kind_k_usual(kind), 0);
        bg_filter *filter = must_create(&spec), *out = filter;
        bg_errinfo why;
        CHECK_EQ(bg_filter_fold(filter, 3, &out, &why), BG_EINVAL);
        CHECK(out == NULL);
        CHECK_STR(why.what, "times");
        CHECK(strstr(why.message, "at most 2 times, not 3") != NULL);
        out = filter;
        CHECK_EQ(bg_filter_fold(filter, 0, &out, &why), BG_EINVAL);
        CHECK(out == NULL);
        CHECK_EQ(bg_filter_fold(filter, UINT32_MAX, &out, &why), BG_EINVAL);
        bg_filter_free(filter);
    }
}

TEST(fold__without_filter_or_place_is_refused)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, BYTES, 3), *out = filter;
    bg_errinfo why;
    CHECK_EQ(bg_filter_fold(NULL, 1, &out, &why), BG_EINVAL);
    CHECK(out == NULL);
    CHECK_STR(why.what, "filter");
    CHECK_EQ(bg_filter_fold(filter, 1, NULL, &why), BG_EINVAL);
    bg_filter_free(filter);
}

/* ---- Merging --------------------------------------------------------------------- */

TEST(merge__equals_adding_both)
{
    random_hashes(hashes, 2 * KEYS);
    for (int i = 0; i < KIND_COUNT * 4; i++) {
        bg_kind kind = kind_at(i / 4);
        uint32_t k = kind_k_usual(kind);
        bg_spec left = exact_spec(kind, 200, k, i & 1 ? BG_SPEC_EXCLUSIVE : 0);
        bg_spec right = exact_spec(kind, 200, k, i & 2 ? BG_SPEC_EXCLUSIVE : 0);
        bg_filter *a = must_create(&left), *b = must_create(&right);
        bg_filter *both = must_create(&left), *before = NULL;
        add_keys(a, 0, KEYS);
        add_keys(b, KEYS / 2, 2 * KEYS);
        add_keys(both, 0, 2 * KEYS);
        CHECK_OK(bg_filter_copy(b, &before, NULL));
        CHECK_OK(bg_filter_merge(a, b, NULL));
        CHECK(bg_filter_equal(a, both));
        CHECK(bg_filter_equal(b, before)); /* the source is unchanged */
        bg_filter_free(a);
        bg_filter_free(b);
        bg_filter_free(both);
        bg_filter_free(before);
    }
}

TEST(merge__with_itself_changes_nothing)
{
    random_hashes(hashes, KEYS);
    for (uint32_t flags = 0; flags <= BG_SPEC_EXCLUSIVE; flags++) {
        bg_spec spec = exact_spec(BG_KIND_BLOCKED, 50, 6, flags);
        bg_filter *filter = must_create(&spec), *copy = NULL;
        add_keys(filter, 0, KEYS / 10);
        CHECK_OK(bg_filter_copy(filter, &copy, NULL));
        CHECK_OK(bg_filter_merge(filter, filter, NULL));
        CHECK(bg_filter_equal(filter, copy));
        bg_filter_free(filter);
        bg_filter_free(copy);
    }
}

/* Checks that a refused merge changes neither filter and that the error details name the
 * difference. */
static void check_refusal(const bg_spec *one, const bg_spec *other, const char *what,
                          const char *found)
{
    bg_filter *a = must_create(one), *b = must_create(other), *copy = NULL;
    bg_errinfo why;
    bg_overlap overlap;
    added_u64(a, 1);
    added_u64(b, 2);
    CHECK_OK(bg_filter_copy(a, &copy, NULL));
    CHECK_EQ(bg_filter_merge(a, b, &why), BG_EINCOMPAT);
    CHECK_EQ(why.code, BG_EINCOMPAT);
    CHECK_STR(why.what, what);
    CHECK(strstr(why.message, found) != NULL);
    CHECK(bg_filter_equal(a, copy));
    CHECK(!bg_filter_compatible(a, b));
    CHECK(!bg_filter_equal(a, b));
    CHECK_EQ(bg_filter_overlap(a, b, &overlap, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, what);
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(copy);
}

TEST(merge__refuses_another_geometry)
{
    bg_spec classic = exact_spec(BG_KIND_CLASSIC, 64, 5, 0);
    bg_spec word = exact_spec(BG_KIND_REGISTER, 64, 5, 0);
    bg_spec more = exact_spec(BG_KIND_CLASSIC, 64, 6, 0);
    bg_spec larger = exact_spec(BG_KIND_CLASSIC, 128, 5, 0);
    check_refusal(&classic, &word, "kind", "register");
    check_refusal(&classic, &word, "kind", "classic");
    check_refusal(&classic, &more, "k", "5 and 6");
    check_refusal(&classic, &larger, "size in bytes", "512 and 1024");
}

static uint64_t my_hash(void *context, const void *key, size_t len)
{
    (void)context;
    return len ? *(const unsigned char *)key * UINT64_C(0x9e3779b97f4a7c15) : 0;
}

TEST(merge__refuses_another_hash)
{
    const uint8_t secret[2][BG_SECRET_BYTES] = { { 1 }, { 2 } };
    bg_spec fast = exact_spec(BG_KIND_BLOCKED, 64, 5, 0), seeded = fast, xxh64 = fast;
    bg_spec keyed = fast, other = fast, mine = fast, yours = fast;
    seeded.hash.seed = 1;
    xxh64.hash.profile = BG_HASH_XXH64;
    keyed.hash.profile = other.hash.profile = BG_HASH_KEYED;
    keyed.hash.secret = secret[0];
    other.hash.secret = secret[1];
    mine.hash = yours.hash = (bg_hash_spec){ .profile = BG_HASH_CUSTOM,
                                             .custom = my_hash,
                                             .custom_name = "mine" };
    yours.hash.custom_name = "yours";
    check_refusal(&fast, &xxh64, "hash", "fast and xxh64");
    check_refusal(&fast, &seeded, "hash", "different seeds");
    check_refusal(&fast, &keyed, "hash", "fast and keyed");
    check_refusal(&keyed, &other, "hash", "different seeds, secrets");
    check_refusal(&mine, &yours, "hash", "custom and custom");
}

TEST(merge__without_a_filter_is_refused)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, BYTES, 0);
    bg_errinfo why;
    bg_overlap overlap;
    CHECK_EQ(bg_filter_merge(NULL, filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "filter");
    CHECK_EQ(bg_filter_merge(filter, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_filter_merge(NULL, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_filter_overlap(filter, NULL, &overlap, &why), BG_EINVAL);
    CHECK_EQ(bg_filter_overlap(filter, filter, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "overlap");
    CHECK(!bg_filter_compatible(filter, NULL));
    CHECK(!bg_filter_compatible(NULL, NULL));
    CHECK(!bg_filter_equal(NULL, filter));
    bg_filter_free(filter);
}

/* Flags and instruction sets do not affect the bits, so the filters can be merged and compared. */
TEST(merge__takes_filters_of_another_mode_and_set)
{
    bg_cpu before = bg_cpu_current();
    random_hashes(hashes, KEYS);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        bg_spec spec = exact_spec(kind, 100, kind_k_usual(kind), BG_SPEC_SMALL_PAGES);
        bg_filter *a = must_create(&spec);
        CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
        spec.flags = BG_SPEC_EXCLUSIVE;
        bg_filter *b = must_create(&spec);
        CHECK_OK(bg_cpu_select(before));
        add_keys(b, 0, 100);
        CHECK(bg_filter_compatible(a, b));
        CHECK_OK(bg_filter_merge(a, b, NULL));
        CHECK(bg_filter_equal(a, b));
        check_members(a, 0, 100);
        bg_filter_free(a);
        bg_filter_free(b);
    }
}

/* ---- Copies, equality, clearing -------------------------------------------------- */

TEST(copy__is_equal_and_independent)
{
    random_hashes(hashes, 2 * KEYS);
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), BYTES, 0), *copy = NULL;
        add_keys(filter, 0, KEYS / 2);
        CHECK_OK(bg_filter_copy(filter, &copy, NULL));
        CHECK(bg_filter_equal(filter, copy));
        CHECK_EQ(info_of(copy).units, info_of(filter).units);
        CHECK_EQ(info_of(copy).k, info_of(filter).k);
        add_keys(copy, KEYS / 2, KEYS);
        CHECK(!bg_filter_equal(filter, copy));
        CHECK(bg_filter_compatible(filter, copy));
        bg_filter_clear(filter);
        check_members(copy, 0, KEYS);
        bg_filter_free(filter);
        check_members(copy, 0, KEYS);
        bg_filter_free(copy);
    }
}

TEST(copy__keeps_what_was_asked_for)
{
    const uint8_t secret[BG_SECRET_BYTES] = { 3, 1, 4 };
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 5000;
    spec.rate = 0.02;
    spec.flags = BG_SPEC_EXCLUSIVE | BG_SPEC_SMALL_PAGES;
    spec.hash.profile = BG_HASH_KEYED;
    spec.hash.secret = secret;
    bg_filter *filter = must_create(&spec), *copy = NULL;
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    bg_filter_info a = info_of(filter), b = info_of(copy);
    CHECK_EQ(b.design_items, 5000);
    CHECK(b.design_rate == a.design_rate && b.design_rate < 0.02001);
    CHECK_EQ(b.flags, spec.flags);
    CHECK_EQ(b.hash, BG_HASH_KEYED);
    CHECK_EQ(b.hash_check, a.hash_check);
    CHECK(bg_hasher_equal(bg_filter_hasher(filter), bg_filter_hasher(copy)));
    bg_filter_free(filter);
    bg_filter_free(copy);
}

TEST(copy__without_filter_or_place_is_refused)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, BYTES, 0), *out = filter;
    bg_errinfo why;
    CHECK_EQ(bg_filter_copy(NULL, &out, &why), BG_EINVAL);
    CHECK(out == NULL);
    CHECK_EQ(bg_filter_copy(filter, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "filter");
    bg_filter_free(filter);
}

TEST(equal__sees_every_bit)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        bg_spec spec = exact_spec(kind, 33, kind_k_min(kind), 0);
        bg_filter *a = must_create(&spec), *b = must_create(&spec);
        CHECK(bg_filter_equal(a, a));
        for (int n = 0; n < 100; n++) {
            uint64_t hash = n == 0 ? UINT64_MAX : n == 1 ? 0 : check_random();
            CHECK(bg_filter_equal(a, b));
            bool is_new = added_hash(a, hash);
            CHECK_EQ(bg_filter_equal(a, b), !is_new);
            CHECK_EQ(added_hash(b, hash), is_new);
        }
        bg_filter_free(a);
        bg_filter_free(b);
    }
}

TEST(clear__forgets_everything_and_goes_on)
{
    random_hashes(hashes, KEYS);
    static const uint64_t sizes[] = { 64, 8192, 300000, 20 << 20 };
    for (int i = 0; i < KIND_COUNT * 4; i++) {
        bg_filter *filter = make_filter(kind_at(i / 4), sizes[i % 4], 0);
        bg_filter *fresh = make_filter(kind_at(i / 4), sizes[i % 4], 0);
        add_keys(filter, 0, KEYS);
        bg_filter_clear(filter);
        CHECK(bg_filter_equal(filter, fresh));
        CHECK_EQ(info_of(filter).ones, 0);
        CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, KEYS), NULL),
                 0);
        add_keys(filter, 0, KEYS);
        check_members(filter, 0, KEYS);
        bg_filter_free(filter);
        bg_filter_free(fresh);
    }
    bg_filter_clear(NULL);
}

/* Checks behavior that users of the public headers rely on. */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>

static bg_filter *small_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 10000;
    spec.rate = 0.01;
    return must_create(&spec);
}

TEST(api__version_is_that_of_the_headers)
{
    char text[40];
    CHECK_STR(bg_version(), BG_VERSION);
    (void)snprintf(text, sizeof text, "%d.%d.%d", BG_VERSION_MAJOR, BG_VERSION_MINOR,
                   BG_VERSION_PATCH);
    CHECK_STR(bg_version(), text);
}

TEST(api__example_of_the_header)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 1000000;
    spec.rate = 0.01;
    bg_filter *seen;
    CHECK_OK(bg_filter_create(&spec, &seen, NULL));
    CHECK(added(seen, "apple", 5));
    CHECK(bg_filter_may_contain(seen, "apple", 5));
    CHECK(!bg_filter_may_contain(seen, "pear", 4));
    bg_filter_free(seen);
}

/* ---- Without a filter: every answer is "maybe" ----------------------------------- */

TEST(api__without_a_filter_every_query_says_maybe)
{
    const uint64_t numbers[130] = { 0 };
    const bg_bytes keys[130] = { { "x", 1 } };
    uint64_t maybe[4];
    CHECK(bg_filter_may_contain(NULL, "x", 1));
    CHECK(bg_filter_may_contain_u64(NULL, 1));
    CHECK(bg_filter_may_contain_hash(NULL, 1));
    for (size_t n = 0; n <= 130; n += 26) {
        for (int form = 0; form < 4; form++) {
            memset(maybe, 0x55, sizeof maybe);
            size_t count =
                form == 0
                    ? bg_filter_may_contain_many(NULL, bg_keys_bytes(keys, n), maybe)
                : form == 1 ? bg_filter_may_contain_many(
                      NULL, bg_keys_fixed(numbers, 8, n), maybe)
                : form == 2
                    ? bg_filter_may_contain_many(NULL, bg_keys_u64(numbers, n), maybe)
                    : bg_filter_may_contain_many(NULL, bg_keys_hashes(numbers, n),
                                                 maybe);
            CHECK_EQ(count, n);
            for (size_t i = 0; i < 64 * BG_BITMAP_WORDS(n); i++) {
                CHECK_EQ(maybe[i / 64] >> (i % 64) & 1, i < n);
            }
            CHECK_EQ(maybe[BG_BITMAP_WORDS(n)], UINT64_C(0x5555555555555555));
        }
    }
    CHECK_EQ(bg_filter_may_contain_many(NULL, bg_keys_u64(numbers, 130), NULL), 130);
}

TEST(api__without_a_filter_adds_do_nothing)
{
    const uint64_t numbers[70] = { 0 };
    const bg_bytes keys[70] = { { "x", 1 } };
    uint64_t is_new[2];
    CHECK(!added(NULL, "x", 1));
    CHECK(!added_u64(NULL, 1));
    CHECK(!added_hash(NULL, 1));
    for (int form = 0; form < 4; form++) {
        memset(is_new, 0xff, sizeof is_new);
        size_t count =
            form == 0   ? added_many(NULL, bg_keys_bytes(keys, 70), is_new)
            : form == 1 ? added_many(NULL, bg_keys_fixed(numbers, 8, 70), is_new)
            : form == 2 ? added_many(NULL, bg_keys_u64(numbers, 70), is_new)
                        : added_many(NULL, bg_keys_hashes(numbers, 70), is_new);
        CHECK_EQ(count, 0);
        CHECK_EQ(is_new[0], 0);
        CHECK_EQ(is_new[1], 0);
    }
    CHECK_EQ(added_many(NULL, bg_keys_hashes(numbers, 70), NULL), 0);
    bg_filter_clear(NULL);
    bg_filter_free(NULL);
}

/* ---- Forms of keys --------------------------------------------------------------- */

TEST(api__a_number_is_its_eight_little_endian_bytes)
{
    bg_filter *filter = small_filter();
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t number = i < 2 ? UINT64_C(0) - i : check_random();
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++) {
            bytes[b] = (uint8_t)(number >> (8 * b));
        }
        CHECK(added_u64(filter, number) || i > 0);
        CHECK(bg_filter_may_contain(filter, bytes, 8));
        CHECK(!added(filter, bytes, 8));
        CHECK(!added_hash(filter, bg_hash_u64(bg_filter_hasher(filter), number)));
    }
    bg_filter_free(filter);
}

TEST(api__pairs_records_and_numbers_are_the_same_keys)
{
    enum { N = 300 };
    uint64_t numbers[N], map[3][BG_BITMAP_WORDS(N)];
    uint8_t records[8 * N];
    bg_bytes pairs[N];
    bg_filter *a = small_filter(), *b = small_filter(), *d = small_filter();
    for (size_t i = 0; i < N; i++) {
        numbers[i] = check_random_below(200);
        for (size_t byte = 0; byte < 8; byte++) {
            records[8 * i + byte] = (uint8_t)(numbers[i] >> (8 * byte));
        }
        pairs[i] = (bg_bytes){ records + 8 * i, 8 };
    }
    size_t count = added_many(a, bg_keys_bytes(pairs, N), map[0]);
    CHECK_EQ(added_many(b, bg_keys_fixed(records, 8, N), map[1]), count);
    CHECK_EQ(added_many(d, bg_keys_u64(numbers, N), map[2]), count);
    CHECK(count > 100 && count <= 200);
    CHECK(memcmp(map[0], map[1], sizeof map[0]) == 0);
    CHECK(memcmp(map[0], map[2], sizeof map[0]) == 0);
    CHECK(bg_filter_equal(a, b) && bg_filter_equal(a, d));
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(d);
}

/* Every byte of a key counts, including NUL bytes, and so does the key's length. */
TEST(api__keys_of_any_length_and_content)
{
    enum { LONG = 64 << 10 };
    bg_filter *filter = small_filter();
    uint8_t *key = calloc(1, LONG + 1);
    CHECK(key != NULL);
    CHECK(!bg_filter_may_contain(filter, "", 0));
    CHECK(added(filter, NULL, 0));
    CHECK(bg_filter_may_contain(filter, "", 0));
    CHECK(!bg_filter_may_contain(filter, "\0", 1)); /* not the empty key */
    CHECK(added(filter, "\0", 1));
    CHECK(!bg_filter_may_contain(filter, "\0\0", 2));
    CHECK(added(filter, "a\0b", 3));
    CHECK(!bg_filter_may_contain(filter, "a\0c", 3));
    CHECK(!bg_filter_may_contain(filter, "a", 1));
    CHECK(added(filter, key, LONG));
    CHECK(!bg_filter_may_contain(filter, key, LONG - 1));
    CHECK(!bg_filter_may_contain(filter, key, LONG + 1));
    key[LONG - 1] = 1;
    CHECK(!bg_filter_may_contain(filter, key, LONG));
    key[LONG - 1] = 0;
    key[LONG / 2] = 1;
    CHECK(!bg_filter_may_contain(filter, key, LONG));
    free(key);
    bg_filter_free(filter);
}

/* ---- Hash profiles --------------------------------------------------------------- */

static uint64_t custom_hash(void *context, const void *key, size_t len)
{
    const uint8_t *bytes = key;
    uint64_t h = *(const uint64_t *)context;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

TEST(api__every_hash_profile_in_a_filter)
{
    static uint64_t context = UINT64_C(0xcbf29ce484222325);
    const uint8_t secret[BG_SECRET_BYTES] = { 9, 8, 7 };
    uint64_t checks[8];
    uint32_t count = 0;
#define PROFILE(NAME, number, text, secret) BG_HASH_##NAME,
    static const bg_hash_profile all[] = { BG_HASHES(PROFILE) };
#undef PROFILE
    for (size_t p = 0; p < sizeof all / sizeof *all; p++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.items = 1000;
        spec.rate = 0.01;
        spec.hash = (bg_hash_spec){ .profile = (uint32_t)all[p],
                                    .secret = secret,
                                    .custom = custom_hash,
                                    .custom_context = &context,
                                    .custom_name = "fnv" };
        bg_filter *filter = must_create(&spec);
        char key[32];
        size_t wrong = 0;
        for (int i = 0; i < 11000; i++) {
            int len = snprintf(key, sizeof key, "key %d", i);
            if (i < 1000) {
                added(filter, key, (size_t)len);
            }
            bool maybe = bg_filter_may_contain(filter, key, (size_t)len);
            CHECK(maybe || i >= 1000);
            wrong += maybe && i >= 1000;
        }
        CHECK(wrong > 30 && wrong < 200); /* 1% of 10000 */
        for (unsigned i = 0; i < 100; i++) {
            const uint8_t bytes[8] = { (uint8_t)i, 1 };
            added_u64(filter, i + 256);
            CHECK(bg_filter_may_contain(filter, bytes, sizeof bytes));
            CHECK(bg_filter_may_contain_u64(filter, i + 256));
        }
        CHECK_EQ(info_of(filter).hash, all[p]);
        CHECK_EQ(bg_hasher_profile(bg_filter_hasher(filter)), all[p]);
        checks[count++] = info_of(filter).hash_check;
        bg_filter_free(filter);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            CHECK(checks[i] != checks[j]);
        }
    }
}

TEST(api__the_seed_changes_the_hash)
{
    bg_filter *filter[3];
    for (uint64_t seed = 0; seed < 3; seed++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.items = 1000;
        spec.rate = 0.01;
        spec.hash.seed = seed;
        filter[seed] = must_create(&spec);
        for (uint64_t key = 0; key < 100; key++) {
            added_u64(filter[seed], key);
        }
    }
    CHECK(!bg_filter_compatible(filter[0], filter[1]));
    CHECK(info_of(filter[0]).hash_check != info_of(filter[1]).hash_check);
    CHECK(info_of(filter[1]).hash_check != info_of(filter[2]).hash_check);
    for (int i = 0; i < 3; i++) {
        bg_filter_free(filter[i]);
    }
}

/* ---- Structs --------------------------------------------------------------------- */

TEST(api__defaults_by_function_and_by_macro_are_the_same)
{
    bg_spec macro = BG_SPEC_INIT, filled;
    memset(&filled, 0xff, sizeof filled);
    bg_spec_init(&filled);
    bg_spec returned = bg_spec_default();
    CHECK_EQ(macro.struct_size, sizeof(bg_spec));
    CHECK_EQ(filled.struct_size, sizeof(bg_spec));
    CHECK_EQ(returned.struct_size, sizeof(bg_spec));
    CHECK_EQ(filled.kind, BG_KIND_AUTO);
    CHECK(filled.items == 0 && filled.bytes == 0 && filled.k == 0 && filled.flags == 0);
    CHECK(filled.rate == 0 && filled.bits_per_key == 0 && filled.allocator == NULL);
    CHECK(filled.hash.profile == BG_HASH_FAST && filled.hash.seed == 0);
}

TEST(api__info_wants_its_struct_size)
{
    bg_filter *filter = small_filter();
    bg_filter_info info = { .struct_size = 0 };
    CHECK_EQ(bg_filter_get_info(filter, &info), BG_EINVAL);
    info.struct_size = sizeof info;
    CHECK_OK(bg_filter_get_info(filter, &info));
    CHECK_EQ(info.struct_size, sizeof info);
    CHECK_EQ(info.design_items, 10000);
    bg_filter_free(filter);
}

TEST(api__bitmap_words)
{
    CHECK_EQ(BG_BITMAP_WORDS(0), 0);
    CHECK_EQ(BG_BITMAP_WORDS(1), 1);
    CHECK_EQ(BG_BITMAP_WORDS(64), 1);
    CHECK_EQ(BG_BITMAP_WORDS(65), 2);
}

static inline bg_err create_planned(const bg_plan *plan, const bg_plan_request *request,
                                    bg_filter **filter)
{
    bg_spec spec;
    bg_plan_to_spec(plan, request, &spec);
    return bg_filter_create(&spec, filter, NULL);
}

/* Plans and creates a filter, checks its size, and merges and folds it, using only the public
 * headers. */
TEST(api__from_plan_to_estimate)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_filter *a = NULL, *b = NULL, *half = NULL;
    bg_overlap overlap;
    ask.spec.items = 20000;
    ask.spec.rate = 0.01;
    ask.spec.folds = 1;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    CHECK_OK(create_planned(&plan, &ask, &a));
    CHECK_OK(create_planned(&plan, &ask, &b));
    CHECK_EQ(bg_filter_size_bytes(a), plan.bytes);
    for (uint64_t key = 0; key < 10000; key++) {
        added_u64(a, key);
        added_u64(b, key + 5000);
    }
    CHECK_OK(bg_filter_overlap(a, b, &overlap, NULL));
    CHECK_NEAR(overlap.both.value, 5000, 0.1);
    CHECK_NEAR(overlap.either.value, 15000, 0.05);
    CHECK_OK(bg_filter_merge(a, b, NULL));
    CHECK_NEAR(info_of(a).items.value, 15000, 0.05);
    CHECK_OK(bg_filter_fold(a, 1, &half, NULL));
    CHECK_EQ(bg_filter_size_bytes(half), plan.bytes / 2);
    for (uint64_t key = 0; key < 15000; key++) {
        CHECK(bg_filter_may_contain_u64(half, key));
    }
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(half);
}

/*
 * Batches of keys in all four forms (byte strings, fixed-width records, integers and hashes) give
 * the same results as single calls, in small filters and in filters larger than the cache. (For
 * batches of hashes on every instruction set, see test_kind.c.)
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

enum { MOST = 1000, LARGE_BYTES = 4 << 20, SMALL_BYTES = 4096 };

static const size_t lengths[] = { 0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, MOST };
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static uint64_t keys[MOST];
static bg_bytes pairs[MOST];
static uint8_t fixed[MOST * 8];
static uint64_t key_hashes[MOST];

/* Every seventh key repeats an earlier key, so that not every key is new. */
static void prepare(const bg_filter *filter)
{
    for (size_t i = 0; i < MOST; i++) {
        keys[i] = i % 7 == 6 ? keys[check_random_below(i)] : check_random();
        for (size_t b = 0; b < 8; b++) {
            fixed[8 * i + b] = (uint8_t)(keys[i] >> (8 * b));
        }
        pairs[i] = (bg_bytes){ fixed + 8 * i, 8 };
        key_hashes[i] = bg_hash_u64(bg_filter_hasher(filter), keys[i]);
    }
}

static size_t add_form(int form, bg_filter *filter, size_t n, uint64_t *is_new)
{
    switch (form) {
    case 0: return added_many(filter, bg_keys_bytes(pairs, n), is_new);
    case 1: return added_many(filter, bg_keys_fixed(fixed, 8, n), is_new);
    case 2: return added_many(filter, bg_keys_u64(keys, n), is_new);
    default: return added_many(filter, bg_keys_hashes(key_hashes, n), is_new);
    }
}

static size_t ask_form(int form, const bg_filter *filter, size_t n, uint64_t *maybe)
{
    switch (form) {
    case 0: return bg_filter_may_contain_many(filter, bg_keys_bytes(pairs, n), maybe);
    case 1:
        return bg_filter_may_contain_many(filter, bg_keys_fixed(fixed, 8, n), maybe);
    case 2: return bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), maybe);
    default:
        return bg_filter_may_contain_many(filter, bg_keys_hashes(key_hashes, n), maybe);
    }
}

static bool bit_of(const uint64_t *bitmap, size_t i)
{
    return bitmap[i / 64] >> (i % 64) & 1;
}

/* Checks that the bitmap's bits from n on are zero, and that the word after the bitmap is
 * unchanged. */
static void check_end(const uint64_t *bitmap, size_t n)
{
    if (n % 64) {
        CHECK_EQ(bitmap[n / 64] >> (n % 64), 0);
    }
    CHECK_EQ(bitmap[BG_BITMAP_WORDS(n)], UINT64_C(0xabababababababab));
}

static void check_form(bg_kind kind, uint64_t bytes, int form, size_t n)
{
    uint64_t bitmap[BG_BITMAP_WORDS(MOST) + 1];
    bg_filter *one = make_filter(kind, bytes, 0), *many = make_filter(kind, bytes, 0);
    prepare(one);
    memset(bitmap, 0xab, sizeof bitmap);
    size_t count = add_form(form, many, n, bitmap), expected = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_new = added_u64(one, keys[i]);
        CHECK_EQ(bit_of(bitmap, i), is_new);
        expected += is_new;
    }
    CHECK_EQ(count, expected);
    check_end(bitmap, n);
    CHECK(bg_filter_equal(one, many));
    CHECK_EQ(add_form(form, many, n, NULL), 0); /* all keys are already present */

    memset(bitmap, 0xab, sizeof bitmap);
    count = ask_form(form, many, MOST, bitmap);
    expected = 0;
    for (size_t i = 0; i < MOST; i++) {
        bool maybe = bg_filter_may_contain(one, fixed + 8 * i, 8);
        CHECK_EQ(bit_of(bitmap, i), maybe);
        CHECK(maybe || i >= n);
        expected += maybe;
    }
    CHECK_EQ(count, expected);
    check_end(bitmap, MOST);
    CHECK_EQ(ask_form(form, many, MOST, NULL), count);
    bg_filter_free(one);
    bg_filter_free(many);
}

TEST(batch__equals_single_in_small_filters)
{
    for (int i = 0; i < KIND_COUNT * 4; i++) {
        for (size_t l = 0; l < LENGTHS; l++) {
            check_form(kind_at(i / 4), SMALL_BYTES, i % 4, lengths[l]);
        }
    }
}

TEST(batch__equals_single_beyond_the_cache)
{
    for (int i = 0; i < KIND_COUNT * 4; i++) {
        check_form(kind_at(i / 4), LARGE_BYTES, i % 4, i % 2 ? 129 : MOST);
    }
}

TEST(batch__repeated_keys_are_new_once)
{
    for (int i = 0; i < KIND_COUNT * 2; i++) {
        bg_filter *filter =
            make_filter(kind_at(i / 2), i % 2 ? LARGE_BYTES : SMALL_BYTES, 0);
        uint64_t same[200], bitmap[BG_BITMAP_WORDS(200)];
        for (size_t n = 0; n < 200; n++) {
            same[n] = 4711;
        }
        same[70] = same[71] = 4712;
        CHECK_EQ(added_many(filter, bg_keys_u64(same, 200), bitmap), 2);
        CHECK_EQ(bitmap[0], 1);
        CHECK_EQ(bitmap[1], 1 << 6);
        CHECK_EQ(bitmap[2], 0);
        CHECK_EQ(bitmap[3], 0);
        bg_filter_free(filter);
    }
}

TEST(batch__of_nothing)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, SMALL_BYTES, 0);
    uint64_t bitmap = 42;
    CHECK_EQ(added_many(filter, bg_keys_bytes(NULL, 0), &bitmap), 0);
    CHECK_EQ(added_many(filter, bg_keys_fixed(NULL, 8, 0), &bitmap), 0);
    CHECK_EQ(added_many(filter, bg_keys_u64(NULL, 0), &bitmap), 0);
    CHECK_EQ(added_many(filter, bg_keys_hashes(NULL, 0), &bitmap), 0);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_bytes(NULL, 0), &bitmap), 0);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_fixed(NULL, 8, 0), NULL), 0);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_u64(NULL, 0), NULL), 0);
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(NULL, 0), &bitmap), 0);
    CHECK_EQ(bitmap, 42);
    CHECK_EQ(info_of(filter).ones, 0);
    bg_filter_free(filter);
}

/* Tests keys of mixed lengths, and fixed-width records of many widths. */
TEST(batch__keys_of_any_length)
{
    static uint8_t text[2000];
    static bg_bytes mixed[300];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)check_random();
    }
    for (size_t i = 0; i < 300; i++) {
        mixed[i] = (bg_bytes){ text + i, i % 5 == 0 ? 0 : i };
    }
    mixed[0] = (bg_bytes){ NULL, 0 };
    bg_filter *one = make_filter(BG_KIND_BLOCKED, 1 << 16, 0);
    bg_filter *many = make_filter(BG_KIND_BLOCKED, 1 << 16, 0);
    for (size_t i = 0; i < 300; i++) {
        added(one, mixed[i].data, mixed[i].len);
    }
    CHECK_EQ(added_many(many, bg_keys_bytes(mixed, 300), NULL),
             241); /* the empty key occurs 60 times, but is new only once */
    CHECK(bg_filter_equal(one, many));
    for (size_t width = 1; width < 40; width += 3) {
        size_t n = sizeof text / width;
        bg_filter_clear(one);
        bg_filter_clear(many);
        for (size_t i = 0; i < n; i++) {
            added(one, text + i * width, width);
        }
        (void)added_many(many, bg_keys_fixed(text, width, n), NULL);
        CHECK(bg_filter_equal(one, many));
        CHECK_EQ(bg_filter_may_contain_many(one, bg_keys_fixed(text, width, n), NULL),
                 n);
    }
    bg_filter_free(one);
    bg_filter_free(many);
}

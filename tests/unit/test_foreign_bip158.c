/*
 * BIP158's Golomb-coded sets: sets encoded by other implementations, sets of all sizes, and bytes
 * that no encoder produces. The checksums come from sets written by a second, independent encoder,
 * which also reproduces the ten filters in the BIP's own test vectors.
 */
#include "support/check.h"
#include "support/foreign_bytes.h"

#include "store/foreign/table_hashes.h"

static const uint8_t secret[16] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
};

/* "apple", "pear", "", 00 ff 80, and 300 times "x". */
static const unsigned char five[14] = { 0x05, 0x42, 0x15, 0xcd, 0xa8, 0xf0, 0x26,
                                        0x1a, 0xfa, 0xd2, 0x26, 0xd2, 0xf6, 0x09 };

static bg_foreign_options with_secret(void)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    how.secret = secret;
    return how;
}

static bg_foreign *make_set(uint64_t items)
{
    bg_foreign_options how = with_secret();
    bg_foreign *f = NULL;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_BIP158, items, 0.01, &how, &f, NULL));
    return f;
}

static void refused(const void *bytes, size_t n, const char *what)
{
    bg_foreign_options how = with_secret();
    struct bytes b = bytes_copy(bytes, n);
    foreign_refused(BG_FOREIGN_BIP158, &b, &how, BG_EFORMAT, what);
    bytes_drop(&b);
}

/* ---- Valid sets -------------------------------------------------------------------- */

static void check_five(const bg_foreign *f)
{
    char many[300];
    memset(many, 'x', sizeof many);
    CHECK(bg_foreign_may_contain(f, "apple", 5));
    CHECK(bg_foreign_may_contain(f, "pear", 4));
    CHECK(bg_foreign_may_contain(f, NULL, 0));
    CHECK(bg_foreign_may_contain(f, "\x00\xff\x80", 3));
    CHECK(bg_foreign_may_contain(f, many, sizeof many));
    CHECK_EQ(foreign_count_items(f, 0, 1000), 0);
}

TEST(bip158__five_items)
{
    bg_foreign_options how = with_secret();
    struct bytes b = bytes_copy(five, sizeof five);
    bg_foreign *f = foreign_must(BG_FOREIGN_BIP158, &b, &how);
    bg_foreign_info about = { .struct_size = sizeof about };
    check_five(f);
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK_EQ(about.items, 5);
    CHECK_EQ(about.bits, 8 * 13);
    CHECK_NEAR(about.rate, 1 / 784931.0, 1e-9);
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    bytes_drop(&again);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(bip158__writes_five_items_in_any_order_and_often)
{
    char many[300];
    memset(many, 'x', sizeof many);
    bg_foreign *f = make_set(1);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(bg_foreign_add(f, many, sizeof many, NULL));
        CHECK_OK(bg_foreign_add(f, "\x00\xff\x80", 3, NULL));
        CHECK_OK(bg_foreign_add(f, NULL, 0, NULL));
        CHECK_OK(bg_foreign_add(f, "pear", 4, NULL));
        CHECK_OK(bg_foreign_add(f, "apple", 5, NULL));
    }
    check_five(f);
    struct bytes b = bytes_written(f), expected = bytes_copy(five, sizeof five);
    CHECK(bytes_same(&b, &expected));
    bytes_drop(&b);
    bytes_drop(&expected);
    bg_foreign_free(f);
}

TEST(bip158__sets_of_all_sizes)
{
    static const struct {
        int items;
        size_t bytes;
        uint64_t sum;
    } sets[] = {
        { 0, 1, 0xe934a84adb052768 },         { 1, 4, 0x4462e2343309017d },
        { 252, 664, 0xf42b82c295434746 },     { 253, 669, 0xc39193d15cc41e1c },
        { 300, 792, 0x51cf8f938ae27d46 },     { 1000, 2637, 0x6e93ef2e026f9504 },
        { 70000, 184219, 0xb342823450411f7b }
    };
    const size_t count = sizeof sets / sizeof *sets - CHECK_EMULATED;
    for (size_t i = 0; i < count; i++) {
        bg_foreign_options how = with_secret();
        bg_foreign *f = make_set(1); /* small enough that the table has to grow */
        CHECK_OK(foreign_add_items(f, 0, sets[i].items));
        CHECK_OK(foreign_add_items(f, 0, sets[i].items / 2));
        CHECK_EQ(foreign_count_items(f, 0, sets[i].items), (size_t)sets[i].items);
        struct bytes b = bytes_written(f);
        CHECK_EQ(b.n, sets[i].bytes);
        CHECK_EQ(foreign_xxh64(b.at, b.n), sets[i].sum);
        bg_foreign *g = foreign_must(BG_FOREIGN_BIP158, &b, &how);
        CHECK_EQ(foreign_count_items(g, 0, sets[i].items), (size_t)sets[i].items);
        CHECK(foreign_count_items(g, 1000000, 1010000) <= 2); /* 0.013 expected */
        bytes_drop(&b);
        bg_foreign_free(f);
        bg_foreign_free(g);
    }
}

TEST(bip158__what_was_read_takes_no_more)
{
    bg_foreign_options how = with_secret();
    struct bytes b = bytes_copy(five, sizeof five);
    bg_foreign *f = foreign_must(BG_FOREIGN_BIP158, &b, &how);
    CHECK_EQ(bg_foreign_add(f, "plum", 4, NULL), BG_ENOTSUP);
    bg_foreign_free(f);
    bytes_drop(&b);
}

TEST(bip158__needs_its_secret)
{
    struct bytes b = bytes_copy(five, sizeof five);
    bg_foreign *f = NULL;
    foreign_refused(BG_FOREIGN_BIP158, &b, NULL, BG_EINVAL, "secret");
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_BIP158, 5, 0.01, NULL, &f, NULL), BG_EINVAL);
    static const uint8_t another[16] = { 1 };
    bg_foreign_options how = with_secret();
    how.secret = another;
    f = foreign_must(BG_FOREIGN_BIP158, &b, &how);
    CHECK(!bg_foreign_may_contain(f, "apple", 5));
    bg_foreign_free(f);
    bytes_drop(&b);
}

TEST(bip158__its_rate_is_fixed)
{
    bg_foreign_options how = with_secret();
    bg_foreign *f = NULL;
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_BIP158, 5, 1e-6, &how, &f, NULL), BG_EINVAL);
    CHECK(f == NULL);
}

TEST(bip158__a_failed_growth_changes_nothing)
{
    struct counting c;
    counting_start(&c);
    bg_foreign_options how = with_secret();
    how.allocator = &c.hooks;
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_BIP158, 64, 0.01, &how, &f, NULL));
    CHECK_OK(foreign_add_items(f, 0, 64));
    c.fail_at = c.calls + 1;
    CHECK_EQ(bg_foreign_add(f, "plum", 4, NULL), BG_ENOMEM);
    CHECK(!bg_foreign_may_contain(f, "plum", 4));
    CHECK_EQ(foreign_count_items(f, 0, 64), 64);
    CHECK_OK(foreign_add_items(f, 0, 300));
    struct bytes b = bytes_written(f);
    CHECK_EQ(foreign_xxh64(b.at, b.n), 0x51cf8f938ae27d46);
    bytes_drop(&b);
    bg_foreign_free(f);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

/* ---- Invalid sets ------------------------------------------------------------------ */

TEST(bip158__every_truncation)
{
    bg_foreign_options how = with_secret();
    bg_foreign *f = make_set(300);
    CHECK_OK(foreign_add_items(f, 0, 300));
    struct bytes b = bytes_written(f);
    foreign_truncations(BG_FOREIGN_BIP158, &b, &how);
    foreign_faults(BG_FOREIGN_BIP158, &b, &how);
    bytes_append(&b, "", 1); /* one byte more than needed */
    foreign_refused(BG_FOREIGN_BIP158, &b, &how, BG_EFORMAT, "code");
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(bip158__damage)
{
    bg_foreign_options how = with_secret();
    bg_foreign *f = make_set(100);
    CHECK_OK(foreign_add_items(f, 0, 100));
    struct bytes b = bytes_written(f);
    (void)foreign_damage(BG_FOREIGN_BIP158, &b, &how, 3000);
    bytes_drop(&b);
    bg_foreign_free(f);
}

/* N, the number of items, is checked against the size of the data before anything else is read. */
TEST(bip158__n_beyond_the_bytes)
{
    unsigned char b[14];
    refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 10, "N");
    refused("\xfe\xff\xff\xff\xff\x00\x00", 7, "N");
    memcpy(b, five, sizeof b);
    b[0] = 6;
    refused(b, sizeof b, "N");
    b[0] = 4; /* one complete item remains after the first four */
    refused(b, sizeof b, "code");
}

TEST(bip158__n_in_a_longer_form_than_needed)
{
    refused("\xfd\xfc\x00", 3, "N");
    refused("\xfe\xff\xff\x00\x00", 5, "N");
    refused("\xff\xff\xff\xff\xff\x00\x00\x00\x00", 9, "N");
    refused("\xfd\xfc", 2, "N");
    refused("", 0, "N");
}

TEST(bip158__cve_2013_5700_no_items)
{
    bg_foreign_options how = with_secret();
    struct bytes b = bytes_copy("", 1);
    bg_foreign *f = foreign_must(BG_FOREIGN_BIP158, &b, &how);
    CHECK(!bg_foreign_may_contain(f, "", 0));
    CHECK_EQ(foreign_count_items(f, 0, 100), 0);
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    bytes_drop(&again);
    bytes_drop(&b);
    bg_foreign_free(f);
    refused("\x00\x00", 2, "code");
}

/* Quotients are unary: a run of 1 bits that ends with a 0 bit. The decoder refuses a run that
 * extends to the end of the data, a run of 2^20 bits, and 1 bits in the padding. */
TEST(bip158__quotients_without_end)
{
    static unsigned char b[1 << 17];
    memset(b, 0xff, sizeof b);
    b[0] = 1;
    refused(b, sizeof b, "code");
    memset(b + sizeof b - 3, 0, 3);
    refused(b, sizeof b, "code");                             /* far above N M */
    static const unsigned char padded[4] = { 1, 0, 0, 0x01 }; /* 20 bits, and 4 more */
    refused(padded, sizeof padded, "code");
}

/* Differences of 0 are valid, because two items can have the same hash value. */
TEST(bip158__equal_values)
{
    bg_foreign_options how = with_secret();
    static const unsigned char zeros[6] = { 2, 0, 0, 0, 0, 0 };
    struct bytes b = bytes_copy(zeros, sizeof zeros);
    bg_foreign_free(foreign_must(BG_FOREIGN_BIP158, &b, &how));
    bytes_drop(&b);
}

/*
 * valkey-bloom dumps, in the form that valkey-bloom's BF.LOAD accepts. The golden files were
 * created once with the libraries that the module is built on (bloomfilter 3.0.1, bincode 1.3.3)
 * and the seed bytes 3, 10, 17 ... This file contains the small golden file and the checksum of the
 * large one.
 */
#include "support/check.h"
#include "support/foreign_bytes.h"

#include "base/bits.h"
#include "store/foreign/foreign_hashes.h"
#include "store/foreign/table_hashes.h"

#include <float.h>
#include <math.h>

/* An object with capacity 8, rate 0.01, expansion 2 and the items "item:0" .. "item:29". It has
 * three filters. */
static const unsigned char small[320] = {
    0x01, 0x02, 0x00, 0x00, 0x00, 0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a, 0x84, 0x3f, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f, 0x01, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x37, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x03, 0x0a, 0x11, 0x18, 0x1f,
    0x26, 0x2d, 0x34, 0x3b, 0x42, 0x49, 0x50, 0x57, 0x5e, 0x65, 0x6c, 0x73, 0x7a, 0x81,
    0x88, 0x8f, 0x96, 0x9d, 0xa4, 0xab, 0xb2, 0xb9, 0xc0, 0xc7, 0xce, 0xd5, 0xdc, 0x0a,
    0x0a, 0xeb, 0x5d, 0xea, 0xe8, 0xa0, 0x65, 0x8c, 0x5e, 0x08, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x44, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x03, 0x0a, 0x11, 0x18, 0x1f, 0x26, 0x2d, 0x34, 0x3b, 0x42,
    0x49, 0x50, 0x57, 0x5e, 0x65, 0x6c, 0x73, 0x7a, 0x81, 0x88, 0x8f, 0x96, 0x9d, 0xa4,
    0xab, 0xb2, 0xb9, 0xc0, 0xc7, 0xce, 0xd5, 0xdc, 0xd8, 0xb0, 0xdf, 0x51, 0x7f, 0xd2,
    0xfb, 0x49, 0x7a, 0x65, 0x02, 0xd4, 0xf1, 0x1d, 0x04, 0xd5, 0xa4, 0x40, 0x22, 0x95,
    0xe3, 0xc1, 0xfc, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x5f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x32, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x03, 0x0a,
    0x11, 0x18, 0x1f, 0x26, 0x2d, 0x34, 0x3b, 0x42, 0x49, 0x50, 0x57, 0x5e, 0x65, 0x6c,
    0x73, 0x7a, 0x81, 0x88, 0x8f, 0x96, 0x9d, 0xa4, 0xab, 0xb2, 0xb9, 0xc0, 0xc7, 0xce,
    0xd5, 0xdc, 0x00, 0x30, 0x00, 0x68, 0x00, 0x00, 0x00, 0x00, 0x60, 0x00, 0x00, 0x00,
    0x09, 0x00, 0x01, 0xa0, 0x80, 0x22, 0x00, 0x00, 0x00, 0x11, 0x84, 0x00, 0x00, 0x00,
    0x04, 0x00, 0x00, 0x02, 0x00, 0x84, 0x40, 0xd1, 0x4c, 0x46, 0x41, 0xc2, 0x04, 0x44,
    0x40, 0x10, 0x08, 0x01, 0x08, 0x00, 0x40, 0x00, 0x09, 0x00, 0x06, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00

};

/* Offsets in it. */
enum {
    VERSION = 0,
    EXPANSION = 1,
    RATE = 5,
    TIGHTENING = 13,
    RANDOM = 21,
    FILTERS = 22,
    LENGTH = 30,
    BLOOM = 38,
    BYTES = 39,
    HASHES = 47,
    SEED = 51,
    BITS = 83,
    ITEMS = 93,
    CAPACITY = 101,
    NEXT = 109
};

static struct bytes small_copy(void)
{
    return bytes_copy(small, sizeof small);
}

static void refused(struct bytes *b, bg_err err, const char *what)
{
    foreign_refused(BG_FOREIGN_VALKEYBLOOM, b, NULL, err, what);
    bytes_drop(b);
}

static void refused64(size_t at, uint64_t value, const char *what)
{
    struct bytes b = small_copy();
    bytes_put64(&b, at, value);
    refused(&b, BG_EFORMAT, what);
}

static void refused_byte(size_t at, unsigned char value, bg_err err, const char *what)
{
    struct bytes b = small_copy();
    b.at[at] = value;
    refused(&b, err, what);
}

static void refused_double(size_t at, double value, const char *what)
{
    struct bytes b = small_copy();
    bytes_put_double(&b, at, value);
    refused(&b, BG_EFORMAT, what);
}

/* Returns an object with one empty filter. */
static struct bytes empty_object(uint32_t expansion, double rate, uint64_t bytes,
                                 unsigned char k, uint64_t capacity)
{
    struct bytes b = bytes_copy(small, ITEMS - 10);
    static const unsigned char zeros[1 << 16];
    unsigned char counts[16] = { 0 };
    bgi_store_le32(b.at + EXPANSION, expansion);
    bytes_put_double(&b, RATE, rate);
    bytes_put64(&b, FILTERS, 1);
    bytes_put64(&b, LENGTH, 45 + bytes);
    bytes_put64(&b, BYTES, bytes);
    b.at[HASHES] = k;
    CHECK(bytes <= sizeof zeros);
    bytes_append(&b, zeros, (size_t)bytes);
    bgi_store_le64(counts + 8, capacity);
    bytes_append(&b, counts, sizeof counts);
    return b;
}

/* ---- Valid dumps ------------------------------------------------------------------- */

TEST(valkeybloom__hash_of_rust)
{
    unsigned char seed[16];
    uint64_t secret[2];
    for (size_t i = 0; i < sizeof seed; i++) {
        seed[i] = (unsigned char)(7 * i + 3);
    }
    secret[0] = bgi_load_le64(seed);
    secret[1] = bgi_load_le64(seed + 8);
    CHECK_EQ(foreign_siphash13_rust(NULL, 0, secret), 0xd27d9930a2619852);
    CHECK_EQ(foreign_siphash13_rust("a", 1, secret), 0xf93d39f15e0beda7);
    CHECK_EQ(foreign_siphash13_rust("key000000002", 12, secret), 0xc52f3d2d5b01b900);
}

TEST(valkeybloom__reads_and_writes_the_same)
{
    struct bytes b = small_copy();
    bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, &b, NULL);
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK_EQ(foreign_count_items(f, 0, 30), 30);
    CHECK(foreign_count_items(f, 1000, 2000) < 60);
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK_EQ(about.parts, 3);
    CHECK_EQ(about.items, 30);
    CHECK_EQ(about.design, 8 + 16 + 32);
    CHECK_EQ(about.k, 7);
    CHECK_EQ(about.version, 1);
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    bytes_drop(&again);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(valkeybloom__grows_as_valkey_bloom_does)
{
    struct bytes b = empty_object(2, 0.01, 10, 7, 8);
    bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, &b, NULL);
    CHECK_OK(foreign_add_items(f, 0, 30));
    /* An item that may be present is not added again. */
    CHECK_OK(foreign_add_items(f, 0, 30));
    struct bytes grown = bytes_written(f), expected = small_copy();
    CHECK(bytes_same(&grown, &expected));
    bytes_drop(&grown);
    bytes_drop(&expected);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(valkeybloom__twenty_thousand_keys_in_four_filters)
{
    struct bytes b = empty_object(3, 0.001, 1798, 10, 1000);
    bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, &b, NULL);
    CHECK_OK(foreign_add_items(f, 0, 20000));
    CHECK_EQ(foreign_count_items(f, 0, 20000), 20000);
    struct bytes grown = bytes_written(f);
    CHECK_EQ(grown.n, 90590);
    CHECK_EQ(foreign_xxh64(grown.at, grown.n), 0x1fe96a9971f12a24);
    bytes_drop(&grown);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(valkeybloom__without_expansion_it_is_full)
{
    struct bytes b = empty_object(0, 0.01, 10, 7, 8);
    bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, &b, NULL);
    CHECK_EQ(foreign_add_items(f, 0, 100), BG_EFULL);
    CHECK_EQ(foreign_count_items(f, 0, 8), 8);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(valkeybloom__created_ones_have_the_sizes_of_the_original)
{
    static const struct {
        uint64_t items;
        double rate;
        uint64_t bits;
        uint32_t k;
    } known[] = { { 1, 0.5, 8, 6 },           { 100, 0.01, 960, 7 },
                  { 1000, 0.001, 14384, 10 }, { 200, 0.005, 2208, 8 },
                  { 7, 0.9, 8, 1 },           { 123456, 1e-9, 5325000, 30 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bg_foreign_info about = { .struct_size = sizeof about };
        bg_foreign *f;
        CHECK_OK(bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, known[i].items,
                                   known[i].rate, NULL, &f, NULL));
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.bits, known[i].bits);
        CHECK_EQ(about.k, known[i].k);
        bg_foreign_free(f);
    }
    bg_foreign *f;
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, 1, 1e-300, NULL, &f, NULL),
             BG_EINVAL);
}

TEST(valkeybloom__a_seed_makes_another_filter)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *f, *g;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, 100, 0.01, &how, &f, NULL));
    how.seed = 1;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, 100, 0.01, &how, &g, NULL));
    CHECK_OK(foreign_add_items(f, 0, 100));
    CHECK_OK(foreign_add_items(g, 0, 100));
    CHECK_EQ(foreign_count_items(f, 0, 100), 100);
    CHECK_EQ(foreign_count_items(g, 0, 100), 100);
    struct bytes a = bytes_written(f), b = bytes_written(g);
    CHECK(a.n == b.n && !bytes_same(&a, &b));
    bytes_drop(&a);
    bytes_drop(&b);
    bg_foreign_free(f);
    bg_foreign_free(g);
}

/* ---- Invalid dumps ----------------------------------------------------------------- */

TEST(valkeybloom__every_truncation_is_refused)
{
    for (size_t n = 0; n < sizeof small; n++) {
        struct bytes b = bytes_copy(small, n);
        bg_foreign *f = NULL;
        CHECK_EQ(bg_foreign_decode(BG_FOREIGN_VALKEYBLOOM, b.at, n, NULL, &f, NULL),
                 BG_EFORMAT);
        CHECK(f == NULL);
        bytes_drop(&b);
    }
    struct bytes b = small_copy();
    bytes_append(&b, "", 1);
    refused(&b, BG_EFORMAT, "end");
}

TEST(valkeybloom__forged_numbers_are_refused)
{
    refused_byte(VERSION, 2, BG_EVERSION, "version");
    refused_byte(BLOOM, 2, BG_EVERSION, "version of a layer");
    refused_byte(RANDOM, 2, BG_EFORMAT, "random seed");
    refused_byte(NEXT + 25, 1, BG_EFORMAT, "seed of a layer");
    refused_byte(HASHES, 0, BG_EFORMAT, "k");
    refused_byte(HASHES + 3, 1, BG_EFORMAT, "k");
    refused64(FILTERS, 0, "filters");
    refused64(FILTERS, 1, "end");
    refused64(FILTERS, 4, "length of a layer");
    refused64(FILTERS, 5, "filters");
    refused64(FILTERS, UINT64_MAX, "filters");
    refused64(LENGTH, 0, "length of a layer");
    refused64(LENGTH, UINT64_MAX, "length of a layer");
    refused64(BYTES, 0, "length of a layer");
    refused64(BYTES, UINT64_MAX - 44, "length of a layer");
    refused64(ITEMS, UINT64_MAX, "items of a layer");
    refused64(CAPACITY, 0, "capacity of a layer");
    refused64(CAPACITY, 800, "capacity of a layer");
    refused64(CAPACITY, INT64_MAX, "capacity of a layer");
    refused64(CAPACITY, UINT64_MAX, "capacity of a layer");
}

TEST(valkeybloom__forged_rates_are_refused)
{
    static const double none[] = { 0, -0.5, 1, 2, 1e300 };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        refused_double(RATE, none[i], "rate");
        refused_double(TIGHTENING, none[i], "tightening");
    }
    refused_double(RATE, (double)NAN, "rate");
    refused_double(TIGHTENING, (double)INFINITY, "tightening");
    refused_double(TIGHTENING, DBL_MIN, "rate of a layer");
}

TEST(valkeybloom__growth_keeps_to_the_bound)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    struct bytes b = empty_object(UINT32_MAX, 0.01, 10, 7, 8);
    how.max_bytes = 1 << 16;
    bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, &b, &how);
    CHECK_EQ(foreign_add_items(f, 0, 100), BG_ENOMEM);
    CHECK_EQ(foreign_count_items(f, 0, 8), 8);
    bytes_drop(&b);
    bg_foreign_free(f);
}

/* valkey-bloom allows expansions up to 2^32 and rates up to 1, so Bloomgate limits the size of the
 * next filter based on the number of bytes in the last one. */
TEST(valkeybloom__growth_is_bounded_by_what_is_there)
{
    struct bytes large = empty_object(UINT32_MAX, 0.01, 10, 7, 8);
    struct bytes dense = empty_object(2, 0.9999, 10, 1, 300000);
    struct bytes *const forged[] = { &large, &dense };
    bytes_put64(&dense, dense.n - 16, 300000);
    bytes_put_double(&dense, TIGHTENING, 1e-60);
    for (size_t i = 0; i < 2; i++) {
        bg_foreign *f = foreign_must(BG_FOREIGN_VALKEYBLOOM, forged[i], NULL);
        CHECK_OK(foreign_add_items(f, 0, 100));
        CHECK_EQ(foreign_count_items(f, 0, 100), 100);
        CHECK(bg_foreign_size_bytes(f) <= 10 + UINT64_C(65536) * 10);
        bg_foreign_free(f);
        bytes_drop(forged[i]);
    }
}

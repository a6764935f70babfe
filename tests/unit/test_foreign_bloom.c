/*
 * Foreign formats that consist of one plain Bloom filter. For each format, this file contains the
 * bytes that the real software (or a program that reproduces its files byte for byte) writes for 20
 * keys. The library must write the same bytes, read them, and find every key. The remaining tests
 * use untrusted input: every prefix of such a file, files with one byte changed, and headers with
 * false values.
 */
#include "support/check.h"

#include "bloomgate/all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 20, BYTES_MAX = 256 };

struct golden {
    bg_foreign_format format;
    uint32_t version, keys;
    uint64_t seed;
    const char *hex;
};

static const struct golden goldens[] = {
    { BG_FOREIGN_GUAVA, 64, BG_FOREIGN_KEYS_BYTES, 0u,
      "0107000000030ae9631f7622720ba366d3a7f6752c3a1565df5d6d5393f7" },
    { BG_FOREIGN_GUAVA, 32, BG_FOREIGN_KEYS_BYTES, 0u,
      "0007000000036729346ec1a46643ecf7d973bdda168f765f289c04ad3fe2" },
    { BG_FOREIGN_GUAVA, 64, BG_FOREIGN_KEYS_INT64, 0u,
      "0107000000038114bf2d57b0ab89c55f98c5d10f55d73a633a62755f9146" },
    { BG_FOREIGN_GUAVA, 64, BG_FOREIGN_KEYS_INT32, 0u,
      "010700000003c7495f54e907f667654eb04d96d141165b5a069b65244d63" },
    { BG_FOREIGN_GUAVA, 64, BG_FOREIGN_KEYS_UTF16, 0u,
      "010700000003e660a3826d2965ef0a3e26fed55c9afdca46651f68499457" },
    { BG_FOREIGN_GO, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "00000000000000c0000000000000000700000000000000c07285c0f9b82d341b"
      "b75797f5c6c10c3b533524037667355f" },
    { BG_FOREIGN_DCSO, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "010000000000000014000000000000007b14ae47e17a843f0700000000000000"
      "bf000000000000001400000000000000b014ea6f14dc83f4846b5dcb45d9a7f7"
      "c94e2d305fccb81c" },
    { BG_FOREIGN_BIP37, 1, BG_FOREIGN_KEYS_UNSPECIFIED, 2147483649u,
      "179f9966eb7ffa635251f6fac311052a85d349025a1a41a60600000001000080"
      "01" },
    { BG_FOREIGN_SPARK, 1, BG_FOREIGN_KEYS_BYTES, 0u,
      "000000010000000700000003877bcd8306a7a77449fe36939b8f3d0d46578496"
      "18e3cb24" },
    { BG_FOREIGN_SPARK, 2, BG_FOREIGN_KEYS_BYTES, 3000000000u,
      "0000000200000007b2d05e00000000035ef5d56970659d7d694ad43ecd5983fd"
      "94270197ed81d384" },
    { BG_FOREIGN_SPARK, 1, BG_FOREIGN_KEYS_INT64, 0u,
      "0000000100000007000000033699e9c9ffbcfea44464f36e1c602786f0567650"
      "6835f9ee" },
    { BG_FOREIGN_SPARK, 2, BG_FOREIGN_KEYS_INT32, 0u,
      "00000002000000070000000000000003812f20bc10363ff9e29a96ef3d084b1b"
      "679dabe16acb8996" },
    { BG_FOREIGN_HADOOP, 1, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "ffffffff0000000501000000c5ae68515e88f06c80d09988028b0c1bcf0c41d5"
      "41c301d62703" },
    { BG_FOREIGN_HADOOP, 2, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "ffffffff0000000500000000c540b15d06b5f484082842213274c9152e5b1332"
      "86f289020d1b" },
    { BG_FOREIGN_HADOOP, 3, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "00000005000000c540b15d06b5f484082842213274c9152e5b133286f289020d"
      "1b" },
    { BG_FOREIGN_CASSANDRA, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "00000005000000048f051003c2531991e04207100c406410983d319320e64000"
      "204088ab590841b4" },
    { BG_FOREIGN_CASSANDRA, 1, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "0000000500000004911953c20310058f1064400c100742e00040e62093313d98"
      "b4410859ab884020" },
    { BG_FOREIGN_CASSANDRA, 2, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "000000050000000451b1a0e42f3501b70060280910001920c4044e2141131939"
      "406144e8cb418041" },
    { BG_FOREIGN_SQUID, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0u,
      "000500030000001400000014000000000000001c0b0400000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000"
      "0000000000000000000000000000000000000000000000000000000000000000"
      "069192059280584845160871c60205481cc20528c4048800c90e1e49" },
    { BG_FOREIGN_BFV1, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 77u,
      "42467631c000000007004d00000018000000659af7db39a57ba1e9babc494605"
      "186dc8360fabd46a2b72" },
};

enum { GOLDENS = sizeof goldens / sizeof *goldens };

static size_t from_hex(unsigned char *to, const char *hex)
{
    size_t n = strlen(hex) / 2;
    CHECK(n <= BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        char digits[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        to[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return n;
}

/* Returns the bytes of a golden file, in an allocation of exactly their size, so that a sanitizer
 * detects overruns. */
static unsigned char *bytes_of(const struct golden *g, size_t *n)
{
    unsigned char all[BYTES_MAX];
    *n = from_hex(all, g->hex);
    unsigned char *exact = malloc(*n);
    CHECK(exact);
    memcpy(exact, all, *n);
    return exact;
}

static bg_foreign_options options_of(const struct golden *g)
{
    bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
    options.version = g->version;
    options.keys = g->keys;
    return options;
}

static void put_le(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> 8 * i);
    }
}

/* Writes key i to `key` and returns its length. Requires i < ITEMS. */
static size_t key_of(const struct golden *g, size_t i, unsigned char *key)
{
    if (g->keys == BG_FOREIGN_KEYS_INT64) {
        put_le(key, (uint64_t)i * i * 1000003 - 500, 8);
        return 8;
    }
    if (g->keys == BG_FOREIGN_KEYS_INT32) {
        put_le(key, (uint64_t)i * i * 1003 - 500, 4);
        return 4;
    }
    size_t number = g->keys == BG_FOREIGN_KEYS_UTF16 ? i : i + 1;
    size_t len = g->keys == BG_FOREIGN_KEYS_UTF16 ? 2 * i : i + 1;
    for (size_t j = 0; j < len; j++) {
        key[j] = (unsigned char)(j * 37 + 200 + number);
    }
    return len;
}

static void add_keys(const struct golden *g, bg_foreign *f)
{
    for (size_t i = 0; i < ITEMS; i++) {
        unsigned char key[2 * ITEMS];
        size_t len = key_of(g, i, key);
        CHECK_OK(bg_foreign_add(f, key, len, NULL));
    }
}

static size_t found_keys(const struct golden *g, const bg_foreign *f)
{
    size_t found = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        unsigned char key[2 * ITEMS];
        size_t len = key_of(g, i, key);
        found += bg_foreign_may_contain(f, key, len);
    }
    return found;
}

static void check_written(const struct golden *g, const bg_foreign *f)
{
    unsigned char bytes[BYTES_MAX], expected[BYTES_MAX];
    size_t n = from_hex(expected, g->hex), size = 0;
    CHECK_OK(bg_foreign_encode(f, NULL, 0, &size, NULL));
    CHECK_EQ(size, n);
    CHECK_EQ(bg_foreign_encode(f, bytes, size - 1, &size, NULL), BG_EINVAL);
    CHECK_OK(bg_foreign_encode(f, bytes, size, &size, NULL));
    CHECK(memcmp(bytes, expected, n) == 0);
}

/* ---- Valid files ---------------------------------------------------------------------- */

TEST(foreign_bloom__writes_what_the_software_writes)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        bg_foreign *f;
        options.seed = g->seed;
        CHECK_OK(bg_foreign_create(g->format, ITEMS, 0.01, &options, &f, NULL));
        CHECK_EQ(found_keys(g, f), 0);
        add_keys(g, f);
        CHECK_EQ(found_keys(g, f), ITEMS);
        check_written(g, f);
        bg_foreign_free(f);
    }
}

TEST(foreign_bloom__reads_what_the_software_writes)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        bg_foreign_info about = { .struct_size = sizeof about };
        size_t n;
        unsigned char *bytes = bytes_of(g, &n);
        bg_foreign *f;
        CHECK_OK(bg_foreign_decode(g->format, bytes, n, &options, &f, NULL));
        free(bytes); /* the filter does not keep pointers to the input */
        CHECK_EQ(found_keys(g, f), ITEMS);
        check_written(g, f);
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.format, g->format);
        CHECK_EQ(about.keys, g->keys);
        CHECK_EQ(about.parts, 1);
        CHECK(about.k >= 4 && about.k <= 8);
        CHECK(about.ones <= about.bits && about.ones > about.bits / 4);
        CHECK(about.rate > 0 && about.rate < 0.1);
        CHECK(about.version == g->version || g->version == 0);
        add_keys(g, f); /* changes no bits, although Squid counts the keys again */
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.items, g->format == BG_FOREIGN_SQUID  ? 2 * ITEMS
                              : g->format == BG_FOREIGN_DCSO ? ITEMS
                                                             : 0);
        if (g->format != BG_FOREIGN_SQUID) {
            check_written(g, f);
        }
        bg_foreign_free(f);
    }
}

TEST(foreign_bloom__keeps_its_rate)
{
    enum { MANY = CHECK_EMULATED ? 1000 : 10000 };
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        bg_foreign_info about = { .struct_size = sizeof about };
        const size_t len = g->keys == BG_FOREIGN_KEYS_INT32 ? 4 : 8;
        bg_foreign *f;
        size_t wrong = 0;
        options.seed = g->seed;
        CHECK_OK(bg_foreign_create(g->format, MANY, 0.01, &options, &f, NULL));
        for (uint64_t i = 0; i < 2 * MANY; i++) {
            unsigned char key[8];
            put_le(key, i * 7919, 8);
            if (i < MANY) {
                CHECK_OK(bg_foreign_add(f, key, len, NULL));
                CHECK(bg_foreign_may_contain(f, key, len));
            } else {
                wrong += bg_foreign_may_contain(f, key, len);
            }
        }
        /* The bound is 2.5%, because some of these formats use poor hash functions. */
        CHECK(wrong < MANY / 40);
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_NEAR(about.rate, 0.01, 0.3);
        bg_foreign_free(f);
    }
}

/* ---- Invalid files -------------------------------------------------------------------- */

TEST(foreign_bloom__refuses_every_part_of_a_file)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        size_t n;
        unsigned char *bytes = bytes_of(g, &n);
        for (size_t part = 0; part < n; part++) {
            unsigned char *exact = malloc(part + 1);
            bg_foreign *f = (bg_foreign *)(void *)bytes;
            bg_errinfo why;
            CHECK(exact);
            memcpy(exact, bytes, part);
            CHECK_EQ(bg_foreign_decode(g->format, exact, part, &options, &f, &why),
                     BG_EFORMAT);
            CHECK(f == NULL && why.offset <= n && why.code == BG_EFORMAT);
            free(exact);
        }
        free(bytes);
    }
}

TEST(foreign_bloom__refuses_what_follows)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        unsigned char bytes[BYTES_MAX + 3], again[BYTES_MAX + 3];
        size_t n = from_hex(bytes, g->hex) + 3, size;
        bg_foreign *f;
        memcpy(bytes + n - 3, "abc", 3);
        if (g->format != BG_FOREIGN_DCSO) {
            CHECK_EQ(bg_foreign_decode(g->format, bytes, n, &options, &f, NULL),
                     BG_EFORMAT);
            continue;
        }
        /* User data is preserved. */
        CHECK_OK(bg_foreign_decode(g->format, bytes, n, &options, &f, NULL));
        CHECK_OK(bg_foreign_encode(f, again, sizeof again, &size, NULL));
        CHECK(size == n && memcmp(bytes, again, n) == 0);
        bg_foreign_free(f);
    }
}

/* Sets each byte to every value. Either the file is refused, or its filter can be queried, added to
 * and written safely. */
TEST(foreign_bloom__bears_any_byte)
{
    const unsigned step = CHECK_EMULATED || CHECK_SANITIZED ? 17 : 1;
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        size_t n, size;
        unsigned char *bytes = bytes_of(g, &n), again[BYTES_MAX];
        for (size_t i = 0; i < n; i++) {
            const unsigned char before = bytes[i];
            for (unsigned value = 0; value < 256; value += step) {
                bg_foreign *f;
                bytes[i] = (unsigned char)value;
                if (bg_foreign_decode(g->format, bytes, n, &options, &f, NULL)) {
                    CHECK(f == NULL);
                    continue;
                }
                CHECK_OK(bg_foreign_encode(f, again, sizeof again, &size, NULL));
                CHECK(size == n);
                CHECK(memcmp(again, bytes, n) == 0
                      || (g->format == BG_FOREIGN_SQUID && i >= 22 && i < 128));
                add_keys(g, f);
                CHECK_EQ(found_keys(g, f), ITEMS);
                bg_foreign_free(f);
            }
            bytes[i] = before;
        }
        free(bytes);
    }
}

/* A golden file with some bytes changed, and the expected error. */
struct lie {
    bg_foreign_format format;
    uint32_t version; /* version of the golden file */
    uint32_t at;      /* offset of the changed bytes; `hex` contains their new values */
    const char *hex;
    bg_err err;
    uint32_t offset;
};

static const struct lie lies[] = {
    { BG_FOREIGN_GUAVA, 64, 0, "02", BG_EFORMAT, 0 },
    { BG_FOREIGN_GUAVA, 64, 0, "ff", BG_EFORMAT, 0 },
    { BG_FOREIGN_GUAVA, 64, 0, "00", BG_EVERSION, 0 },
    { BG_FOREIGN_GUAVA, 64, 1, "00", BG_EFORMAT, 1 },
    { BG_FOREIGN_GUAVA, 64, 2, "00000000", BG_EFORMAT, 2 },
    { BG_FOREIGN_GUAVA, 64, 2, "ffffffff", BG_EFORMAT, 2 },
    { BG_FOREIGN_GUAVA, 64, 2, "80000003", BG_EFORMAT, 2 },
    { BG_FOREIGN_GUAVA, 64, 2, "7fffffff", BG_EFORMAT, 6 },
    { BG_FOREIGN_GO, 0, 0, "0000000000000000", BG_EFORMAT, 0 },
    { BG_FOREIGN_GO, 0, 0, "ffffffffffffffff", BG_EFORMAT, 16 },
    { BG_FOREIGN_GO, 0, 0, "ffffffffffffffff0000000000000007ffffffffffffffff",
      BG_EFORMAT, 24 },
    { BG_FOREIGN_GO, 0, 8, "0000000000000000", BG_EFORMAT, 8 },
    { BG_FOREIGN_GO, 0, 8, "0000000000000101", BG_EFORMAT, 8 },
    { BG_FOREIGN_GO, 0, 8, "0000000100000007", BG_EFORMAT, 8 },
    { BG_FOREIGN_GO, 0, 16, "00000000000000bf", BG_EFORMAT, 16 },
    /* m is 191, and the last bit of the last word is set */
    { BG_FOREIGN_GO, 0, 0,
      "00000000000000bf000000000000000700000000000000bf"
      "000000000000000000000000000000008000000000000000",
      BG_EFORMAT, 24 },
    { BG_FOREIGN_DCSO, 0, 0, "02", BG_EVERSION, 0 },
    { BG_FOREIGN_DCSO, 0, 0, "1f8b", BG_EFORMAT, 0 },
    { BG_FOREIGN_DCSO, 0, 16, "000000000000f07f", BG_EFORMAT, 16 }, /* infinite */
    { BG_FOREIGN_DCSO, 0, 16, "000000000000f87f", BG_EFORMAT, 16 }, /* NaN */
    { BG_FOREIGN_DCSO, 0, 16, "0000000000000000", BG_EFORMAT, 16 },
    { BG_FOREIGN_DCSO, 0, 16, "000000000000f0bf", BG_EFORMAT, 16 }, /* -1 */
    { BG_FOREIGN_DCSO, 0, 24, "0000000000000000", BG_EFORMAT, 24 },
    { BG_FOREIGN_DCSO, 0, 24, "ffffffffffffffff", BG_EFORMAT, 24 },
    { BG_FOREIGN_DCSO, 0, 32, "0000000000000000", BG_EFORMAT, 32 },
    { BG_FOREIGN_DCSO, 0, 32, "ffffffffffffffff", BG_EFORMAT, 48 },
    { BG_FOREIGN_DCSO, 0, 71, "80", BG_EFORMAT, 48 }, /* after bit 190 */
    { BG_FOREIGN_SPARK, 1, 0, "00000003", BG_EVERSION, 0 },
    /* Version 2 has a seed, so the fields after it are read at the wrong offsets. */
    { BG_FOREIGN_SPARK, 1, 0, "00000002", BG_EFORMAT, 12 },
    { BG_FOREIGN_SPARK, 1, 4, "00000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_SPARK, 1, 4, "ffffffff", BG_EFORMAT, 4 },
    { BG_FOREIGN_SPARK, 1, 8, "00000000", BG_EFORMAT, 8 },
    { BG_FOREIGN_SPARK, 1, 8, "ffffffff", BG_EFORMAT, 8 },
    { BG_FOREIGN_SPARK, 2, 12, "00000004", BG_EFORMAT, 16 },
    { BG_FOREIGN_HADOOP, 1, 0, "fffffffe", BG_EVERSION, 0 },
    { BG_FOREIGN_HADOOP, 1, 8, "02", BG_EVERSION, 0 },
    /* The file uses the Jenkins hash, but Murmur was specified. */
    { BG_FOREIGN_HADOOP, 1, 8, "00", BG_EVERSION, 0 },
    { BG_FOREIGN_HADOOP, 1, 4, "00000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_HADOOP, 1, 9, "00000000", BG_EFORMAT, 9 },
    { BG_FOREIGN_HADOOP, 1, 9, "80000001", BG_EFORMAT, 9 },
    { BG_FOREIGN_HADOOP, 1, 9, "7fffffff", BG_EFORMAT, 13 },
    { BG_FOREIGN_HADOOP, 3, 0, "00000000", BG_EFORMAT, 0 },
    { BG_FOREIGN_HADOOP, 3, 0, "7fffffff", BG_EFORMAT, 0 },
    { BG_FOREIGN_CASSANDRA, 0, 0, "00000000", BG_EFORMAT, 0 },
    { BG_FOREIGN_CASSANDRA, 0, 0, "ffffffff", BG_EFORMAT, 0 },
    { BG_FOREIGN_CASSANDRA, 0, 4, "00000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_CASSANDRA, 0, 4, "ffffffff", BG_EFORMAT, 4 },
    { BG_FOREIGN_CASSANDRA, 0, 4, "7fffffff", BG_EFORMAT, 8 },
    { BG_FOREIGN_SQUID, 0, 0, "00050006", BG_EVERSION, 0 },
    { BG_FOREIGN_SQUID, 0, 0, "00020002", BG_EVERSION, 0 },
    { BG_FOREIGN_SQUID, 0, 4, "00000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_SQUID, 0, 4, "00000000000000000000000000000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_SQUID, 0, 4, "80000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_SQUID, 0, 8, "80000000", BG_EFORMAT, 8 },
    { BG_FOREIGN_SQUID, 0, 16, "00000000", BG_EFORMAT, 16 },
    { BG_FOREIGN_SQUID, 0, 20, "00", BG_EFORMAT, 4 },
    { BG_FOREIGN_SQUID, 0, 20, "05", BG_EFORMAT, 16 },
    { BG_FOREIGN_SQUID, 0, 21, "05", BG_EFORMAT, 21 },
    { BG_FOREIGN_BFV1, 0, 0, "42467632", BG_EFORMAT, 0 },
    { BG_FOREIGN_BFV1, 0, 4, "00000000", BG_EFORMAT, 4 },
    { BG_FOREIGN_BFV1, 0, 4, "ffffffff", BG_EFORMAT, 14 },
    { BG_FOREIGN_BFV1, 0, 8, "0000", BG_EFORMAT, 8 },
    { BG_FOREIGN_BFV1, 0, 8, "0101", BG_EFORMAT, 8 },
    { BG_FOREIGN_BFV1, 0, 8, "ffff", BG_EFORMAT, 8 },
    { BG_FOREIGN_BFV1, 0, 14, "17000000", BG_EFORMAT, 14 },
    /* This is not the shortest encoding of the size. */
    { BG_FOREIGN_BIP37, 1, 0, "fd1700", BG_EFORMAT, 0 },
    { BG_FOREIGN_BIP37, 1, 0, "fda18c", BG_EFORMAT, 0 }, /* 36,001 bytes */
    { BG_FOREIGN_BIP37, 1, 0, "fe", BG_EFORMAT, 0 },
    { BG_FOREIGN_BIP37, 1, 0, "ff", BG_EFORMAT, 0 },
    { BG_FOREIGN_BIP37, 1, 24, "33000000", BG_EFORMAT, 24 }, /* 51 hashes */
};

static const struct golden *golden_of(bg_foreign_format format, uint32_t version)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        if (g->format == format && g->version == version) {
            return g;
        }
    }
    return NULL;
}

TEST(foreign_bloom__refuses_lies)
{
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct golden *g = golden_of(lies[i].format, lies[i].version);
        CHECK(g);
        bg_foreign_options options = options_of(g);
        size_t n;
        unsigned char *bytes = bytes_of(g, &n), changed[BYTES_MAX];
        bg_foreign *f;
        bg_errinfo why;
        size_t size = from_hex(changed, lies[i].hex);
        CHECK(lies[i].at + size <= n);
        memcpy(bytes + lies[i].at, changed, size);
        bg_err err = bg_foreign_decode(g->format, bytes, n, &options, &f, &why);
        if (err != lies[i].err || why.code != err || why.offset != lies[i].offset) {
            check_fail(__FILE__, __LINE__, "lie %zu: %s, offset %u", i, why.message,
                       (unsigned)why.offset);
        }
        CHECK(f == NULL);
        free(bytes);
    }
}

/* ---- Arguments ------------------------------------------------------------------------ */

TEST(foreign_bloom__checks_options)
{
    static const struct {
        bg_foreign_format format;
        uint32_t version, keys;
        uint64_t seed;
    } bad[] = {
        { BG_FOREIGN_GUAVA, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0 },
        { BG_FOREIGN_GUAVA, 1, BG_FOREIGN_KEYS_BYTES, 0 },
        { BG_FOREIGN_SPARK, 0, BG_FOREIGN_KEYS_UNSPECIFIED, 0 },
        { BG_FOREIGN_SPARK, 0, BG_FOREIGN_KEYS_UTF16, 0 },
        { BG_FOREIGN_SPARK, 3, BG_FOREIGN_KEYS_BYTES, 0 },
        { BG_FOREIGN_SPARK, 1, BG_FOREIGN_KEYS_BYTES, 1 },
        { BG_FOREIGN_SPARK, 2, BG_FOREIGN_KEYS_BYTES, (uint64_t)1 << 32 },
        { BG_FOREIGN_HADOOP, 4, 0, 0 },
        { BG_FOREIGN_CASSANDRA, 3, 0, 0 },
        { BG_FOREIGN_SQUID, 0, 0, 256 },
        { BG_FOREIGN_BFV1, 0, 0, (uint64_t)1 << 32 },
        { BG_FOREIGN_BIP37, 3, 0, 0 },
        { BG_FOREIGN_BIP37, 0, 0, (uint64_t)1 << 32 },
        { BG_FOREIGN_GO, 0, 99, 0 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
        bg_foreign *f;
        options.version = bad[i].version;
        options.keys = bad[i].keys;
        options.seed = bad[i].seed;
        CHECK_EQ(bg_foreign_create(bad[i].format, 100, 0.01, &options, &f, NULL),
                 BG_EINVAL);
        CHECK(f == NULL);
    }
}

/* Sizes that the formats cannot represent, and rates that need too many bits, are refused. */
TEST(foreign_bloom__refuses_sizes)
{
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        bg_foreign_options options = options_of(g);
        bg_foreign *f;
        bg_err err = bg_foreign_create(g->format, 100, 1e-300, &options, &f, NULL);
        CHECK_EQ(err, g->format == BG_FOREIGN_BIP37 ? BG_OK : BG_EINVAL); /* capped */
        bg_foreign_free(f);
        options.max_bytes = 1000;
        err = bg_foreign_create(g->format, (uint64_t)1 << 48, 0.01, &options, &f, NULL);
        CHECK(err == BG_EINVAL || err == BG_ENOMEM);
        err = bg_foreign_create(g->format, 1000, 0.01, &options, &f, NULL);
        CHECK_EQ(err, BG_ENOMEM);
        CHECK(f == NULL);
    }
}

/* The smallest sizes and the highest rates still produce working filters. */
TEST(foreign_bloom__makes_the_smallest)
{
    static const double rates[] = { 0.999999999999, 0.9, 0.5 };
    for (const struct golden *g = goldens; g < goldens + GOLDENS; g++) {
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
            bg_foreign_options options = options_of(g);
            bg_foreign_info about = { .struct_size = sizeof about };
            unsigned char bytes[BYTES_MAX];
            size_t n;
            bg_foreign *f, *again;
            options.seed = g->seed;
            CHECK_OK(bg_foreign_create(g->format, 1, rates[i], &options, &f, NULL));
            add_keys(g, f);
            CHECK_EQ(found_keys(g, f), ITEMS);
            CHECK_OK(bg_foreign_get_info(f, &about));
            CHECK(about.rate >= 0 && about.rate <= 1);
            CHECK_OK(bg_foreign_encode(f, bytes, sizeof bytes, &n, NULL));
            options.seed = 0;
            CHECK_OK(bg_foreign_decode(g->format, bytes, n, &options, &again, NULL));
            CHECK_EQ(found_keys(g, again), ITEMS);
            bg_foreign_free(f);
            bg_foreign_free(again);
        }
    }
}

/* Integer keys must have the specified size. A key of a different size cannot be added, so the
 * filter answers "no" for it. */
TEST(foreign_bloom__keys_have_their_size)
{
    static const uint32_t keys[] = { BG_FOREIGN_KEYS_UTF16, BG_FOREIGN_KEYS_INT32,
                                     BG_FOREIGN_KEYS_INT64 };
    static const bool fits[][9] = {
        { 1, 0, 1, 0, 1, 0, 1, 0, 1 },
        { 0, 0, 0, 0, 1, 0, 0, 0, 0 },
        { 0, 0, 0, 0, 0, 0, 0, 0, 1 },
    };
    for (size_t i = 0; i < 3; i++) {
        bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
        bg_foreign *f;
        options.keys = keys[i];
        CHECK_OK(bg_foreign_create(BG_FOREIGN_GUAVA, 9, 0.01, &options, &f, NULL));
        for (size_t len = 0; len <= 8; len++) {
            bg_err err = bg_foreign_add(f, "ABCDEFGH", len, NULL);
            CHECK_EQ(err, fits[i][len] ? BG_OK : BG_EINVAL);
            CHECK_EQ(bg_foreign_may_contain(f, "ABCDEFGH", len), fits[i][len]);
        }
        bg_foreign_free(f);
    }
}

TEST(foreign_bloom__hadoop_has_no_empty_key)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_HADOOP, 9, 0.01, NULL, &f, NULL));
    CHECK_EQ(bg_foreign_add(f, "", 0, NULL), BG_EINVAL);
    CHECK(!bg_foreign_may_contain(f, NULL, 0));
    bg_foreign_free(f);
}

/* The bits per key and k must be the same as in Cassandra's table. */
TEST(foreign_bloom__cassandra_chooses)
{
    static const struct {
        double rate;
        uint32_t bits_per_key, k;
    } chosen[] = {
        { 0.5, 2, 1 },   { 0.25, 3, 2 },   { 0.1, 5, 3 },      { 0.05, 7, 3 },
        { 0.01, 10, 5 }, { 0.001, 15, 7 }, { 0.0001, 20, 10 }, { 0.0000671, 20, 14 },
    };
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        bg_foreign_info about = { .struct_size = sizeof about };
        bg_foreign *f;
        CHECK_OK(bg_foreign_create(BG_FOREIGN_CASSANDRA, 6400, chosen[i].rate, NULL, &f,
                                   NULL));
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.bits, 6400 * chosen[i].bits_per_key + 64);
        CHECK_EQ(about.k, chosen[i].k);
        bg_foreign_free(f);
    }
}

/* Squid hashes the request method before the URL. */
TEST(foreign_bloom__squid_knows_methods)
{
    unsigned char bytes[1000];
    size_t n;
    bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *f, *again;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_SQUID, 100, 0.001, &options, &f, NULL));
    CHECK_OK(bg_foreign_add(f, "http://example.org/", 19, NULL));
    CHECK_OK(bg_foreign_encode(f, bytes, sizeof bytes, &n, NULL));
    for (uint32_t method = 0; method < 4; method++) {
        options.seed = method;
        CHECK_OK(bg_foreign_decode(BG_FOREIGN_SQUID, bytes, n, &options, &again, NULL));
        CHECK_EQ(bg_foreign_may_contain(again, "http://example.org/", 19), method < 2);
        bg_foreign_free(again);
    }
    bg_foreign_free(f);
}

/* The number of adds is limited, because Squid's format stores it as an int. */
TEST(foreign_bloom__squid_counts_to_the_end)
{
    size_t n;
    unsigned char *bytes = bytes_of(golden_of(BG_FOREIGN_SQUID, 0), &n);
    bg_foreign *f;
    CHECK_EQ(from_hex(bytes + 8, "7ffffffe"), 4);
    CHECK_OK(bg_foreign_decode(BG_FOREIGN_SQUID, bytes, n, NULL, &f, NULL));
    CHECK_OK(bg_foreign_add(f, "a", 1, NULL));
    CHECK_EQ(bg_foreign_add(f, "b", 1, NULL), BG_EFULL);
    bg_foreign_free(f);
    free(bytes);
}

/* A filter without bytes or hash functions answers "maybe" for every key, and nothing is divided by
 * zero. */
TEST(foreign_bloom__bip37_without_bits)
{
    static const char *const hex[] = { "00050000000100000001", "00000000000000000000",
                                       "01ff000000000000000001",
                                       "0100000000000000000001" };
    for (size_t i = 0; i < 4; i++) {
        unsigned char bytes[BYTES_MAX], again[BYTES_MAX];
        size_t n = from_hex(bytes, hex[i]), size;
        bg_foreign_info about = { .struct_size = sizeof about };
        bg_foreign *f;
        CHECK_OK(bg_foreign_decode(BG_FOREIGN_BIP37, bytes, n, NULL, &f, NULL));
        CHECK(bg_foreign_may_contain(f, "x", 1));
        CHECK_OK(bg_foreign_add(f, "x", 1, NULL));
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_NEAR(about.rate, 1, 0);
        CHECK_OK(bg_foreign_encode(f, again, sizeof again, &size, NULL));
        CHECK(size == n && memcmp(bytes, again, n) == 0);
        bg_foreign_free(f);
    }
}

/* A size of 253 bytes or more is encoded in three bytes. Filters larger than 36,000 bytes are not
 * allowed. */
TEST(foreign_bloom__bip37_sizes)
{
    static unsigned char bytes[40000];
    static const uint64_t items[] = { 210, 211, 212, 30000, 1000000 };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        bg_foreign_info about = { .struct_size = sizeof about };
        size_t n;
        bg_foreign *f, *again;
        CHECK_OK(bg_foreign_create(BG_FOREIGN_BIP37, items[i], 0.01, NULL, &f, NULL));
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.bits / 8,
                 i < 3 ? items[i] * 9585 / 8000 : (i == 3 ? 35943 : 36000));
        CHECK_OK(bg_foreign_encode(f, bytes, sizeof bytes, &n, NULL));
        CHECK_EQ(n, about.bits / 8 + 9 + (about.bits / 8 < 253 ? 1 : 3));
        CHECK_OK(bg_foreign_decode(BG_FOREIGN_BIP37, bytes, n, NULL, &again, NULL));
        bg_foreign_free(f);
        bg_foreign_free(again);
    }
}

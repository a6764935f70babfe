/*
 * Bloomgate reads, queries, grows and writes RedisBloom dumps in the same way as RedisBloom. Every
 * known defect in loaders of such dumps has a test that is named after it. The large golden file
 * was compared byte by byte with RedisBloom 2.6.12's dump of the same keys. This file contains only
 * the golden file's checksum.
 */
#include "support/check.h"
#include "support/foreign_bytes.h"

#include "base/bits.h"
#include "store/foreign/table_hashes.h"

#include <limits.h>
#include <math.h>

/* The dump after BF.RESERVE with 8 entries and an error rate of 0.01, and after adding "item:0" ..
 * "item:9". The dump has two links (filters in a chain). */
static const unsigned char small[222] = {
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7e, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a, 0x74, 0x3f, 0xe9, 0x86,
    0x2f, 0xb2, 0x35, 0x0e, 0x26, 0x40, 0x08, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a, 0x64, 0x3f, 0x4a, 0xf7, 0xd4, 0x9e, 0xde,
    0xf0, 0x28, 0x40, 0x09, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x08, 0xb8, 0x35, 0xce, 0x42, 0x92, 0x34, 0x7d, 0x46, 0x02,
    0xe0, 0xd0, 0x7f, 0x09, 0x07, 0x55, 0x31, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x01, 0x00, 0x40,
    0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x40, 0x20, 0x22, 0x10, 0x00, 0x00, 0x00, 0x40,
    0x00, 0x00, 0x11, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x80, 0x08, 0x00
};

/* The offsets of the fields in the header and in the first link, and of the first chunk of bits. */
enum {
    LENGTH = 8,
    SIZE = 16,
    LINKS = 24,
    OPTIONS = 28,
    GROWTH = 32,
    LINK = 36,
    BYTES = LINK,
    BITS = LINK + 8,
    ITEMS = LINK + 16,
    ERROR = LINK + 24,
    PER_ENTRY = LINK + 32,
    HASHES = LINK + 40,
    ENTRIES = LINK + 44,
    N2 = LINK + 52,
    NEXT_LINK = LINK + 53,
    CHUNK = 16 + 126,
    CHUNK_LENGTH = CHUNK + 8
};

static struct bytes small_copy(void)
{
    return bytes_copy(small, sizeof small);
}

static void put32(struct bytes *b, size_t at, uint32_t value)
{
    value = bgi_le32(value);
    memcpy(b->at + at, &value, 4);
}

static void refused(struct bytes *b, const char *what)
{
    foreign_refused(BG_FOREIGN_REDISBLOOM, b, NULL, BG_EFORMAT, what);
    bytes_drop(b);
}

/* These functions change one 8-byte integer, one 4-byte integer or one double in the golden file
 * and check that the file is refused. */
static void refused64(size_t at, uint64_t value, const char *what)
{
    struct bytes b = small_copy();
    bytes_put64(&b, at, value);
    refused(&b, what);
}

static void refused32(size_t at, uint32_t value, const char *what)
{
    struct bytes b = small_copy();
    put32(&b, at, value);
    refused(&b, what);
}

static void refused_double(size_t at, double value, const char *what)
{
    struct bytes b = small_copy();
    bytes_put_double(&b, at, value);
    refused(&b, what);
}

/* ---- Valid dumps ------------------------------------------------------------------- */

TEST(redisbloom__reads_and_writes_the_same)
{
    struct bytes b = small_copy();
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK_EQ(foreign_count_items(f, 0, 10), 10);
    CHECK(foreign_count_items(f, 100, 200) < 20);
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK_EQ(about.parts, 2);
    CHECK_EQ(about.items, 10);
    CHECK_EQ(about.design, 8 + 16);
    CHECK_EQ(about.k, 8);
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    bytes_drop(&again);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(redisbloom__grows_as_redisbloom_does)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 0.01, NULL, &f, NULL));
    CHECK_OK(foreign_add_items(f, 0, 10));
    /* An item that may be present is not added again. */
    CHECK_OK(foreign_add_items(f, 0, 10));
    struct bytes b = bytes_written(f), expected = small_copy();
    CHECK(bytes_same(&b, &expected));
    bytes_drop(&b);
    bytes_drop(&expected);
    bg_foreign_free(f);
}

TEST(redisbloom__five_thousand_keys_in_three_links)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 1000, 0.01, NULL, &f, NULL));
    CHECK_OK(foreign_add_items(f, 0, 5000));
    CHECK_EQ(foreign_count_items(f, 0, 5000), 5000);
    struct bytes b = bytes_written(f);
    CHECK_EQ(b.n, 11707);
    CHECK_EQ(foreign_xxh64(b.at, b.n), 0x3e499e3906372464);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(redisbloom__goes_on_after_reading)
{
    struct bytes b = small_copy();
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL), *g;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 0.01, NULL, &g, NULL));
    CHECK_OK(foreign_add_items(f, 10, 300));
    CHECK_OK(foreign_add_items(g, 0, 300));
    CHECK_EQ(foreign_count_items(f, 0, 300), 300);
    struct bytes x = bytes_written(f), y = bytes_written(g);
    CHECK(bytes_same(&x, &y));
    bytes_drop(&x);
    bytes_drop(&y);
    bytes_drop(&b);
    bg_foreign_free(f);
    bg_foreign_free(g);
}

TEST(redisbloom__an_end_mark_is_allowed_once)
{
    static const unsigned char end[16] = { 0 };
    struct bytes b = small_copy();
    bytes_append(&b, end, sizeof end);
    bg_foreign_free(foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL));
    bytes_append(&b, end, sizeof end);
    refused(&b, "chunk");
}

/* A link slightly larger than 16 MiB is written in two chunks. */
TEST(redisbloom__large_links_are_cut)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 12200000, 0.01, NULL, &f, NULL));
    CHECK_OK(foreign_add_items(f, 0, 1));
    struct bytes b = bytes_written(f);
    const size_t first = 16 + 20 + 53, chunk = 16 << 20;
    CHECK_EQ(bgi_load_le64(b.at + first), 1 + chunk);
    CHECK_EQ(bgi_load_le64(b.at + first + 8), chunk);
    CHECK(b.n > first + 2 * 16 + chunk);
    bg_foreign *g = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_EQ(foreign_count_items(g, 0, 1), 1);
    bg_foreign_free(g);
    bg_foreign_free(f);
    bytes_drop(&b);
}

/* In old dumps, the size of a link is a power of two, and positions are computed modulo 2^n2. The
 * number of bits in such a link is not stored. */
TEST(redisbloom__rounded_links)
{
    struct bytes b = small_copy();
    b.at[OPTIONS] = 4;
    b.at[N2] = 7; /* an exponent of 7 means 128 bits */
    bytes_put64(&b, BITS, 0);
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_EQ(foreign_count_items(f, 0, 10), 10);
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    CHECK_EQ(foreign_add_items(f, 10, 100),
             BG_ENOTSUP); /* the next link's size would also have to be rounded */
    bytes_drop(&again);
    bg_foreign_free(f);
    b.at[N2] = 1; /* an exponent of 1 means that only two of the bits are used */
    f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    (void)foreign_count_items(f, 0, 1000);
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK(about.rate >= 0 && about.rate <= 1 && about.ones <= about.bits);
    bg_foreign_free(f);
    bytes_drop(&b);
}

TEST(redisbloom__one_that_may_not_grow_is_full)
{
    struct bytes b = small_copy();
    b.at[OPTIONS] = 1 | 4 | 8;
    put32(&b, GROWTH, 0);
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_EQ(foreign_add_items(f, 10, 300), BG_EFULL);
    CHECK_EQ(foreign_count_items(f, 0, 10), 10);
    bg_foreign_free(f);
    bytes_drop(&b);
}

/* RedisBloom versions up to 2.4 accepted BF.RESERVE with EXPANSION 0, for which the next link would
 * have no capacity. */
TEST(redisbloom__one_that_grows_by_nothing_is_full)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 10, 0.01, NULL, &f, NULL));
    struct bytes b = bytes_written(f);
    bg_foreign_free(f);
    put32(&b, GROWTH, 0);
    f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_OK(foreign_add_items(f, 0, 10));
    CHECK_EQ(foreign_add_items(f, 10, 11), BG_EFULL);
    CHECK_EQ(foreign_count_items(f, 0, 10), 10);
    bg_foreign_free(f);
    bytes_drop(&b);
}

TEST(redisbloom__numbers_that_end)
{
    struct bytes b = small_copy();
    bytes_put64(&b, NEXT_LINK + 16, UINT64_MAX - 8); /* the sizes add up to 2^64 - 1 */
    bytes_put64(&b, SIZE, UINT64_MAX);
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_EQ(foreign_add_items(f, 1000, 2000), BG_EFULL);
    bg_foreign_free(f);
    bytes_drop(&b);
}

/* The claimed number of entries must fit the existing bits. Otherwise, one more key would require a
 * link for 2^60 entries. */
TEST(redisbloom__entries_beyond_the_bits)
{
    struct bytes b = small_copy();
    bytes_put64(&b, NEXT_LINK + 44, UINT64_C(1) << 59);
    bytes_put64(&b, NEXT_LINK + 16, UINT64_C(1) << 59);
    bytes_put64(&b, SIZE, (UINT64_C(1) << 59) + 8);
    refused(&b, "entries of a layer");
    refused64(ENTRIES, UINT64_MAX, "entries of a layer");
    refused64(ENTRIES, 12, "entries of a layer"); /* 132 bits */
}

/* In a forged file, the bits per entry can be close to 0: here, a link of 32 bytes claims to be
 * full with 250 million entries. The size of the next link is limited by the number of bytes in
 * this link. */
TEST(redisbloom__bits_per_entry_near_zero)
{
    const uint64_t entries = 250000000;
    struct bytes b = small_copy();
    bytes_put_double(&b, NEXT_LINK + 32, 1e-6);
    put32(&b, NEXT_LINK + 40, 1);
    bytes_put64(&b, NEXT_LINK + 44, entries);
    bytes_put64(&b, NEXT_LINK + 16, entries);
    bytes_put64(&b, SIZE, entries + 8);
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISBLOOM, &b, NULL);
    CHECK_OK(foreign_add_items(f, 100, 200));
    CHECK_EQ(foreign_count_items(f, 100, 200), 100);
    CHECK(bg_foreign_size_bytes(f) <= 48 + UINT64_C(65536) * 32);
    bg_foreign_free(f);
    bytes_drop(&b);
}

/* Each new link halves the error rate. The filter stops growing when a link would need too many
 * hash functions. */
TEST(redisbloom__growth_is_bounded)
{
    bg_foreign *f;
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    how.max_bytes = 1000;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 0.01, &how, &f, NULL));
    CHECK_EQ(foreign_add_items(f, 0, 5000), BG_ENOMEM);
    CHECK(foreign_count_items(f, 0, 100) == 100);
    bg_foreign_free(f);
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 1e-90, NULL, &f, NULL),
             BG_EINVAL);
}

TEST(redisbloom__a_failed_link_changes_nothing)
{
    struct counting c;
    counting_start(&c);
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    how.allocator = &c.hooks;
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 0.01, &how, &f, NULL));
    CHECK_OK(foreign_add_items(f, 0, 8));
    struct bytes before = bytes_written(f);
    c.fail_at = c.calls + 1;
    CHECK_EQ(foreign_add_items(f, 8, 9), BG_ENOMEM);
    struct bytes after = bytes_written(f);
    CHECK(bytes_same(&before, &after));
    CHECK_OK(foreign_add_items(f, 0, 10));
    bytes_drop(&after);
    after = bytes_written(f);
    struct bytes expected = small_copy();
    CHECK(bytes_same(&after, &expected));
    bytes_drop(&expected);
    bytes_drop(&before);
    bytes_drop(&after);
    bg_foreign_free(f);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

/* ---- Invalid dumps ----------------------------------------------------------------- */

TEST(redisbloom__every_truncation)
{
    struct bytes b = small_copy();
    foreign_truncations(BG_FOREIGN_REDISBLOOM, &b, NULL);
    bytes_drop(&b);
}

TEST(redisbloom__damage)
{
    struct bytes b = small_copy();
    CHECK(foreign_damage(BG_FOREIGN_REDISBLOOM, &b, NULL, 5000) > 1000);
    foreign_faults(BG_FOREIGN_REDISBLOOM, &b, NULL);
    bytes_drop(&b);
}

/* A chunk that is too long for its link or for the file, or that is at the wrong position, is
 * refused. */
TEST(redisbloom__cve_2024_25115_chunk_length)
{
    refused64(CHUNK_LENGTH, 17, "chunk");
    refused64(CHUNK_LENGTH, UINT64_MAX, "chunk");
    refused64(CHUNK_LENGTH, UINT64_MAX - 15, "chunk");
    refused64(CHUNK_LENGTH, 0, "chunk");
    refused64(LENGTH, UINT64_MAX, "chunk");
}

TEST(redisbloom__cve_2024_25115_chunk_offset)
{
    static const uint64_t iterators[] = {
        0, 1, 16, 18, 33, 1000, INT64_MAX, UINT64_MAX
    };
    for (size_t i = 0; i < sizeof iterators / sizeof *iterators; i++) {
        refused64(CHUNK, iterators[i], "chunk");
    }
}

/* A chunk that crosses the end of a link is refused, even if the total length is right. */
TEST(redisbloom__cve_2024_25115_chunk_over_two_links)
{
    struct bytes b = small_copy();
    b.n = CHUNK + 16 + 16;
    bytes_append(&b, small + b.n + 16, 32);
    bytes_put64(&b, CHUNK, 49);
    bytes_put64(&b, CHUNK_LENGTH, 48);
    refused(&b, "chunk");
}

/* Sizes whose sum wraps around to the actual size are refused. */
TEST(redisbloom__cve_2024_55656_sizes_that_wrap)
{
    struct bytes b = small_copy();
    bytes_put64(&b, BYTES, UINT64_MAX - 15);
    bytes_put64(&b, BITS, (UINT64_MAX - 15) * 8);
    bytes_put64(&b, NEXT_LINK, 64);
    bytes_put64(&b, NEXT_LINK + 8, 512);
    refused(&b, "size");
    b = small_copy();
    bytes_put64(&b, ITEMS, UINT64_MAX);
    bytes_put64(&b, NEXT_LINK + 16, 11);
    refused(&b, "size");
    b = small_copy();
    bytes_put64(&b, BYTES, UINT64_C(1) << 61); /* bits are 0 modulo 2^64 */
    bytes_put64(&b, BITS, 0);
    refused(&b, "bytes of the layers");
}

TEST(redisbloom__red_181297_bits_and_buffer_differ)
{
    refused64(BITS, 127, "bits of a layer");
    refused64(BITS, 129, "bits of a layer");
    refused64(BITS, 1 << 20, "bits of a layer");
    refused64(BITS, UINT64_MAX, "bits of a layer");
    refused64(BYTES, 17, "bits of a layer");
    refused64(BYTES, 1000, "bytes of the layers");
}

TEST(redisbloom__red_184456_n2_above_63)
{
    /* 2^8 bits are more than the link's 128 bits. */
    for (unsigned n2 = 8; n2 < 256; n2++) {
        struct bytes b = small_copy();
        b.at[N2] = (unsigned char)n2;
        bytes_put64(&b, BITS, 0);
        refused(&b, "n2 of a layer");
    }
    struct bytes b = small_copy();
    b.at[N2] = 7; /* a link with an exponent must not also store its number of bits */
    refused(&b, "bits of a layer");
}

TEST(redisbloom__mod_13409_header_and_chunks_differ)
{
    struct bytes b = small_copy();
    /* The sizes of the two links are wrong, although their total is correct. */
    bytes_put64(&b, BYTES, 32);
    bytes_put64(&b, BITS, 256);
    bytes_put64(&b, NEXT_LINK, 16);
    bytes_put64(&b, NEXT_LINK + 8, 128);
    bytes_put64(&b, NEXT_LINK + 44, 8);
    bg_foreign *f = NULL;
    CHECK_EQ(foreign_try(BG_FOREIGN_REDISBLOOM, b.at, b.n, NULL, &f, NULL), BG_EFORMAT);
    refused(&b, "chunk");
}

TEST(redisbloom__mod_15943_links_beyond_the_header)
{
    refused32(LINKS, UINT32_MAX, "layers");
    refused32(LINKS, 3, "layers");
    refused32(LINKS, 1, "layers");
    /* In 32-bit arithmetic, 53 times this number wraps to 53 * 2. */
    refused32(LINKS, 0x80000002, "layers");
    refused64(LENGTH, 125, "layers");
}

TEST(redisbloom__batch_2025_11_empty_chain)
{
    struct bytes b = small_copy();
    bytes_put64(&b, LENGTH, 20);
    bytes_put64(&b, SIZE, 0);
    put32(&b, LINKS, 0);
    b.n = LINK;
    refused(&b, "layers");
}

TEST(redisbloom__mod_17621_nan_and_infinite_error)
{
    static const double values[] = {
        (double)NAN, (double)INFINITY, (double)-INFINITY, 0, -0.0, 1, -0.5, 1e308
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        refused_double(ERROR, values[i], "error of a layer");
    }
}

TEST(redisbloom__mod_17621_nan_and_infinite_bits_per_entry)
{
    static const double values[] = {
        (double)NAN, (double)INFINITY, (double)-INFINITY, 0, -11, 1e308, 370
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        refused_double(PER_ENTRY, values[i], "bits per entry of a layer");
    }
    refused_double(PER_ENTRY, 5e-324, "hashes of a layer");
}

/* Huge numbers of hash functions are refused, even if they match the bits per entry. */
TEST(redisbloom__mod_18487_hashes_near_int_max)
{
    refused32(HASHES, INT_MAX, "hashes of a layer");
    refused32(HASHES, UINT32_MAX, "hashes of a layer");
    refused32(HASHES, 0, "hashes of a layer");
    refused32(HASHES, 9, "hashes of a layer");
    struct bytes b = small_copy();
    put32(&b, HASHES, INT_MAX);
    bytes_put_double(&b, PER_ENTRY, INT_MAX / 0.693147180559945);
    refused(&b, "bits per entry of a layer");
}

TEST(redisbloom__cve_2013_5700_no_bits)
{
    struct bytes b = small_copy();
    bytes_put64(&b, BYTES, 0);
    bytes_put64(&b, BITS, 0);
    refused(&b, "bits of a layer");
    refused64(ENTRIES, 0, "entries of a layer");
}

TEST(redisbloom__growth_of_nothing)
{
    refused32(GROWTH, 0, "growth");
    refused32(GROWTH, 32769, "growth");
    refused32(GROWTH, UINT32_MAX, "growth");
}

/* Options that lack the flag for 64-bit hashes, or that contain unknown flags, are refused. */
TEST(redisbloom__options)
{
    static const uint32_t options[] = { 0, 1, 2, 7, 16 | 5, UINT32_MAX };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        refused32(OPTIONS, options[i], "options");
    }
}

TEST(redisbloom__header_comes_first)
{
    refused64(0, 2, "chunk");
    refused64(0, 0, "chunk");
    refused64(SIZE, 11, "size");
}

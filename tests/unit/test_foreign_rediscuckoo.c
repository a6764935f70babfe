/*
 * RedisBloom's cuckoo filters: the example from its documentation is read, and "item1" is
 * found where the example shows it. Inconsistent input is refused, because a misread filter
 * would answer "no" for items that it contains. Files that RedisBloom itself has written are in
 * foreign/redisbloom/samples.json, and foreign/test_redisbloom_samples.py tests them.
 */
#include "support/check.h"
#include "support/foreign_bytes.h"

#include "base/bits.h"

/* The output of CF.SCANDUMP after CF.RESERVE cf 8 and CF.ADD cf item1, as RedisBloom's
 * documentation prints it. The header has 8 unused bytes, as in versions 2.2.7 to 2.2.10, and there
 * are 4 buckets of 2 slots. */
static const unsigned char example[16 + 46 + 16 + 8] = {
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2e, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x14, 0x00,
    0x01, 0x00, 0x38, 0x9a, 0xe0, 0xd8, 0xc3, 0x7f, 0x00, 0x00, 0x09, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00
};

/* Offsets in it. */
enum {
    LENGTH = 8,
    ITEMS = 16,
    BUCKETS = 24,
    DELETED = 32,
    FILTERS = 40,
    BUCKET_SIZE = 48,
    ITERATIONS = 50,
    EXPANSION = 52,
    CHUNK = 62,
    CHUNK_LENGTH = 70,
    SLOTS = 78,
    ADDRESS = 8 /* size of a header field that other versions do not have */
};

static struct bytes example_copy(void)
{
    return bytes_copy(example, sizeof example);
}

/* Returns the example without this field, as other versions write it. */
static struct bytes example_without_address(void)
{
    struct bytes b = bytes_copy(example, CHUNK - ADDRESS);
    b.at[LENGTH] -= ADDRESS;
    bytes_append(&b, example + CHUNK, sizeof example - CHUNK);
    return b;
}

static void refused(struct bytes *b, const char *what)
{
    foreign_refused(BG_FOREIGN_REDISCUCKOO, b, NULL, BG_EFORMAT, what);
    bytes_drop(b);
}

static void refused64(size_t at, uint64_t value, const char *what)
{
    struct bytes b = example_copy();
    bgi_store_le64(b.at + at, value);
    refused(&b, what);
}

static void refused16(size_t at, unsigned value, const char *what)
{
    struct bytes b = example_copy();
    b.at[at] = (unsigned char)value;
    b.at[at + 1] = (unsigned char)(value >> 8);
    refused(&b, what);
}

static size_t key_of(char key[32], int i)
{
    return (size_t)snprintf(key, 32, "item:%d", i);
}

static bg_err add_items(bg_foreign *f, int from, int to)
{
    bg_err err = BG_OK;
    char key[32];
    for (int i = from; !err && i < to; i++) {
        err = bg_foreign_add(f, key, key_of(key, i), NULL);
    }
    return err;
}

static size_t count_items(const bg_foreign *f, int from, int to)
{
    size_t maybe = 0;
    char key[32];
    for (int i = from; i < to; i++) {
        maybe += bg_foreign_may_contain(f, key, key_of(key, i));
    }
    return maybe;
}

static bg_foreign_info about_of(const bg_foreign *f)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_foreign_get_info(f, &about));
    return about;
}

/* Creates a filter with the given expansion, bucket size and number of keys. */
static bg_foreign *made(unsigned expansion, unsigned size, int keys)
{
    struct bytes b = example_copy();
    b.at[ITEMS] = 0;
    b.at[SLOTS + 4] = 0;
    b.at[BUCKETS] = (unsigned char)(8 / size);
    b.at[BUCKET_SIZE] = (unsigned char)size;
    b.at[EXPANSION] = (unsigned char)expansion;
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISCUCKOO, &b, NULL);
    bytes_drop(&b);
    CHECK_OK(add_items(f, 0, keys));
    return f;
}

/* Checks that a written filter can be read and that writing it again produces the same bytes. */
static void check_written(const bg_foreign *f, int keys)
{
    struct bytes b = bytes_written(f);
    bg_foreign *again = foreign_must(BG_FOREIGN_REDISCUCKOO, &b, NULL);
    CHECK_EQ(count_items(again, 0, keys), (size_t)keys);
    struct bytes twice = bytes_written(again);
    CHECK(bytes_same(&b, &twice));
    bytes_drop(&b);
    bytes_drop(&twice);
    bg_foreign_free(again);
}

/* ---- Valid filters ----------------------------------------------------------------- */

TEST(rediscuckoo__the_example_of_the_documentation)
{
    struct bytes b = example_copy();
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISCUCKOO, &b, NULL);
    CHECK(bg_foreign_may_contain(f, "item1", 5));
    CHECK(!bg_foreign_may_contain(f, "item2", 5));
    CHECK_EQ(bg_foreign_count(f, "item1", 5), 1);
    const bg_foreign_info about = about_of(f);
    CHECK_EQ(about.items, 1);
    CHECK_EQ(about.design, 8);
    CHECK_EQ(about.parts, 1);
    struct bytes written = bytes_written(f), expected = example_without_address();
    CHECK(bytes_same(&expected, &written));
    bytes_drop(&written);
    bytes_drop(&expected);
    bytes_drop(&b);
    bg_foreign_free(f);
}

/* An item added by Bloomgate is stored in the slot that RedisBloom chose. */
TEST(rediscuckoo__makes_the_example)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISCUCKOO, 8, 0.02, NULL, &f, NULL));
    CHECK_OK(bg_foreign_add(f, "item1", 5, NULL));
    struct bytes expected = example_without_address(), b = bytes_written(f);
    CHECK(bytes_same(&b, &expected));
    bytes_drop(&b);
    bytes_drop(&expected);
    bg_foreign_free(f);
}

TEST(rediscuckoo__grows_and_loses_nothing)
{
    static const unsigned sizes[] = { 1, 2, 4, 8 };
    for (size_t s = 0; s < 4; s++) {
        for (unsigned expansion = 1; expansion <= 4; expansion *= 2) {
            const int keys = expansion == 1 ? 200 : 3000;
            bg_foreign *f = made(expansion, sizes[s], keys);
            CHECK_EQ(count_items(f, 0, keys), (size_t)keys);
            CHECK_EQ(about_of(f).items, (uint64_t)keys);
            CHECK(about_of(f).parts > 1);
            check_written(f, keys);
            bg_foreign_free(f);
        }
    }
}

TEST(rediscuckoo__removes_what_was_added)
{
    char key[32];
    bg_foreign *f = made(2, 2, 1000);
    bg_errinfo why = { 0 };
    for (int i = 0; i < 500; i++) {
        CHECK_OK(bg_foreign_remove(f, key, key_of(key, i), &why));
    }
    CHECK_EQ(count_items(f, 500, 1000), 500);
    CHECK_EQ(about_of(f).items, 500);
    check_written(f, 0);
    for (int i = 500; i < 1000; i++) {
        CHECK_OK(bg_foreign_remove(f, key, key_of(key, i), &why));
    }
    CHECK_EQ(count_items(f, 0, 1000), 0);
    CHECK_EQ(bg_foreign_remove(f, "item:1", 6, &why), BG_ENOTFOUND);
    bg_foreign_free(f);
}

/* When more than a tenth of the items are deleted, the remaining items move to earlier filters if
 * possible, and the last filters are freed. */
TEST(rediscuckoo__gives_filters_back)
{
    for (unsigned expansion = 1; expansion <= 4; expansion *= 2) {
        char key[32];
        bg_foreign *f = made(expansion, 2, 100);
        const uint32_t parts = about_of(f).parts;
        CHECK(parts > 1);
        for (int i = 0; i < 99; i++) {
            CHECK_OK(bg_foreign_remove(f, key, key_of(key, i), NULL));
            const bg_foreign_info about = about_of(f);
            CHECK_EQ(about.items, (uint64_t)(99 - i));
            CHECK(about.removed <= about.items / 10 || about.parts == 1);
            CHECK_EQ(count_items(f, i + 1, 100), (size_t)(99 - i));
        }
        CHECK_EQ(about_of(f).parts, 1);
        check_written(f, 0);
        /* Then the chain grows again by adding empty filters. */
        CHECK_OK(add_items(f, 100, 200));
        CHECK_EQ(count_items(f, 100, 200), 100);
        CHECK_EQ(about_of(f).items, 101);
        check_written(f, 0);
        bg_foreign_free(f);
    }
}

/* Compacting visits all filters, even if one cannot be emptied. */
TEST(rediscuckoo__compacts)
{
    for (unsigned expansion = 1; expansion <= 4; expansion *= 2) {
        char key[32];
        bg_foreign *f = made(expansion, 4, 200), *one = made(1, 2, 3);
        for (int i = 0; i < 10; i++) { /* not yet a tenth */
            CHECK_OK(bg_foreign_remove(f, key, key_of(key, i), NULL));
        }
        CHECK_EQ(about_of(f).removed, 10);
        CHECK_OK(bg_foreign_compact(f, NULL));
        CHECK_EQ(about_of(f).removed, 0);
        CHECK_EQ(about_of(f).items, 190);
        CHECK_EQ(count_items(f, 10, 200), 190);
        check_written(f, 0);
        CHECK_OK(bg_foreign_compact(one, NULL));
        CHECK_EQ(count_items(one, 0, 3), 3);
        bg_foreign_free(one);
        bg_foreign_free(f);
    }
}

TEST(rediscuckoo__counts_copies_up_to_a_bound)
{
    bg_foreign *f = made(1, 2, 0);
    uint64_t copies = 0;
    while (copies < 100000 && bg_foreign_add(f, "same", 4, NULL) == BG_OK) {
        CHECK_EQ(bg_foreign_count(f, "same", 4), ++copies);
    }
    CHECK(copies >= 64 && copies <= 64 * 4);
    CHECK_EQ(about_of(f).parts, 64);
    CHECK_EQ(bg_foreign_add(f, "same", 4, NULL), BG_EFULL);
    bg_foreign_free(f);
}

/* An add that finds no free slot leaves the filter unchanged. */
TEST(rediscuckoo__one_that_may_not_grow_is_full)
{
    bg_foreign *f = made(0, 2, 0);
    struct bytes before = { 0 };
    int i = 0;
    do {
        bytes_drop(&before);
        before = bytes_written(f);
    } while (add_items(f, i, i + 1) == BG_OK && ++i < 100);
    CHECK(i >= 4 && i <= 8);
    CHECK_EQ(count_items(f, 0, i), (size_t)i);
    struct bytes after = bytes_written(f);
    CHECK(bytes_same(&before, &after));
    bytes_drop(&before);
    bytes_drop(&after);
    bg_foreign_free(f);
}

TEST(rediscuckoo__other_formats_do_not_remove)
{
    bg_foreign *f;
    bg_errinfo why = { 0 };
    CHECK_OK(bg_foreign_create(BG_FOREIGN_REDISBLOOM, 8, 0.01, NULL, &f, NULL));
    CHECK_OK(bg_foreign_add(f, "a", 1, NULL));
    CHECK_EQ(bg_foreign_remove(f, "a", 1, &why), BG_ENOTSUP);
    CHECK_EQ(bg_foreign_compact(f, &why), BG_ENOTSUP);
    CHECK_EQ(bg_foreign_compact(NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_count(f, "a", 1), 1);
    CHECK_EQ(bg_foreign_remove(NULL, "a", 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_remove(f, NULL, 1, NULL), BG_EINVAL);
    CHECK_EQ(bg_foreign_count(NULL, "a", 1), 1); /* in doubt: maybe */
    bg_foreign_free(f);
}

/* ---- Invalid filters --------------------------------------------------------------- */

/* If the number of items differs from the number of fingerprints, a field does not have the assumed
 * meaning, so the filter is refused. */
TEST(rediscuckoo__items_that_are_not_there)
{
    refused64(ITEMS, 0, "items");
    refused64(ITEMS, 2, "items");
    refused64(ITEMS, UINT64_MAX, "items");
    struct bytes b = example_copy();
    b.at[SLOTS + 7] = 9;
    refused(&b, "items");
    b = example_copy();
    b.at[ITEMS] = 3;
    b.at[DELETED] = 2;
    refused(&b, "items");
    b = example_copy(); /* deleted items are counted separately */
    b.at[DELETED] = 2;
    bg_foreign *f = foreign_must(BG_FOREIGN_REDISCUCKOO, &b, NULL);
    CHECK_EQ(about_of(f).items, 1);
    bytes_drop(&b);
    bg_foreign_free(f);
}

TEST(rediscuckoo__sizes_that_cannot_be)
{
    refused64(BUCKETS, 0, "buckets");
    refused64(BUCKETS, 3, "buckets");
    refused64(BUCKETS, 8, "chunk");
    refused64(BUCKETS, 16, "slots of the layers");
    refused64(BUCKETS, 2, "chunk");
    refused64(BUCKETS, UINT64_C(1) << 31, "buckets");
    refused64(BUCKETS, UINT64_C(1) << 63, "buckets");
    refused64(DELETED, UINT64_C(1) << 63, "deleted");
    refused64(FILTERS, 0, "filters");
    refused64(FILTERS, 2, "chunk");
    refused64(FILTERS, 4, "slots of the layers");
    refused64(FILTERS, UINT64_MAX, "filters");
    refused16(BUCKET_SIZE, 0, "bucket size");
    refused16(BUCKET_SIZE, 256, "bucket size");
    refused16(BUCKET_SIZE, 1, "chunk");
    refused16(EXPANSION, 3, "expansion");
    refused16(EXPANSION, 65535, "expansion");
    refused64(LENGTH, 45, "chunk");
    /* If the header is read in its shorter form, the bytes after it are not a chunk. */
    refused64(LENGTH, 38, "chunk");
    refused64(LENGTH, 32, "chunk"); /* of versions before 2.2 */
    refused64(0, 2, "chunk");
    refused64(CHUNK, 8, "chunk");
    refused64(CHUNK_LENGTH, 9, "chunk");
    refused64(CHUNK_LENGTH, 0, "chunk");
    struct bytes b = example_copy();
    b.at[EXPANSION] = 0;
    b.at[FILTERS] = 2;
    refused(&b, "filters");
}

/* A filter is sent in chunks, none of which includes bytes of the next filter. */
TEST(rediscuckoo__pieces_of_filters)
{
    static const unsigned char end[16] = { 0 };
    const size_t chunk = CHUNK - ADDRESS, slots = SLOTS - ADDRESS;
    for (unsigned expansion = 1; expansion <= 2; expansion++) {
        bg_foreign *f = made(expansion, 2, 9);
        CHECK_EQ(about_of(f).parts, 2);
        struct bytes b = bytes_written(f), cut = bytes_copy(b.at, chunk);
        unsigned char record[16] = { 0 };
        /* Writes the first filter in two chunks. */
        for (size_t half = 0; half < 2; half++) {
            bgi_store_le64(record, 1 + 4 * (half + 1));
            bgi_store_le64(record + 8, 4);
            bytes_append(&cut, record, sizeof record);
            bytes_append(&cut, b.at + slots + 4 * half, 4);
        }
        bytes_append(&cut, b.at + slots + 8, b.n - slots - 8);
        bytes_append(&cut, end, sizeof end);
        bg_foreign *again = foreign_must(BG_FOREIGN_REDISCUCKOO, &cut, NULL);
        CHECK_EQ(count_items(again, 0, 9), 9);
        bg_foreign_free(again);
        bytes_drop(&cut);
        cut = bytes_copy(b.at, chunk); /* both in one */
        bgi_store_le64(record, 1 + b.n - chunk - 32);
        bgi_store_le64(record + 8, b.n - chunk - 32);
        bytes_append(&cut, record, sizeof record);
        bytes_append(&cut, b.at + slots, 8);
        bytes_append(&cut, b.at + slots + 8 + 16, b.n - slots - 8 - 16);
        refused(&cut, "chunk");
        bytes_drop(&b);
        bg_foreign_free(f);
    }
}

TEST(rediscuckoo__every_truncation_is_refused)
{
    bg_foreign *f = made(2, 2, 100);
    struct bytes b = bytes_written(f);
    foreign_truncations(BG_FOREIGN_REDISCUCKOO, &b, NULL);
    bytes_append(&b, "", 1);
    refused(&b, "chunk");
    bg_foreign_free(f);
}

TEST(rediscuckoo__rates_that_eight_bits_do_not_give)
{
    bg_foreign *f;
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_REDISCUCKOO, 8, 0.01, NULL, &f, NULL),
             BG_EINVAL);
    CHECK_EQ(bg_foreign_create(BG_FOREIGN_REDISCUCKOO, UINT64_C(1) << 40, 0.1, NULL, &f,
                               NULL),
             BG_EINVAL);
}

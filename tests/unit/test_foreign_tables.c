/*
 * Filters in LevelDB and RocksDB table files. The tests use files written by both engines
 * (golden/tables), the same files with changed blocks and corrected checksums, and input that must
 * be refused. Format version 6 of RocksDB, which no packaged version writes yet, is derived from
 * version 5 according to the rules in RocksDB's source.
 */
#include "support/check.h"
#include "support/foreign_bytes.h"

#include "base/bits.h"
#include "store/foreign/snappy.h"
#include "store/foreign/table.h"

/* ---- Keys -------------------------------------------------------------------------- */

static size_t key_of(int i, char *key)
{
    return (size_t)snprintf(key, 64, "/a/rather/long/common/path/key%09d", i);
}

/* Checks that the filter finds the first `keys` even numbers, and that it answers "maybe" for less
 * than a tenth of the odd numbers between them. */
static void check_keys(const bg_foreign *f, int keys)
{
    char key[64];
    int wrong = 0;
    for (int i = 0; i < keys; i++) {
        size_t len = key_of(2 * i, key);
        CHECK(bg_foreign_may_contain(f, key, len));
        len = key_of(2 * i + 1, key);
        wrong += bg_foreign_may_contain(f, key, len);
    }
    CHECK(wrong < keys / 10);
}

static void check_golden(bg_foreign_format format, const char *name, int keys,
                         uint32_t parts, uint64_t bits)
{
    struct bytes b = bytes_golden(name);
    bg_foreign *f = foreign_must(format, &b, NULL);
    bg_foreign_info about = { .struct_size = sizeof about };
    check_keys(f, keys);
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK_EQ(about.parts, parts);
    CHECK_EQ(about.k, 6);
    CHECK_EQ(about.bits, bits);
    CHECK(about.rate > 0.002 && about.rate < 0.02);
    CHECK_EQ(bg_foreign_add(f, "key", 3, NULL), BG_ENOTSUP);
    size_t n;
    CHECK_EQ(bg_foreign_encode(f, NULL, 0, &n, NULL), BG_ENOTSUP);
    bg_foreign_free(f);
    bytes_drop(&b);
}

static void refused(bg_foreign_format format, struct bytes *b, bg_err err,
                    const char *what)
{
    foreign_refused(format, b, NULL, err, what);
    bytes_drop(b);
}

/* ---- Files in parts ---------------------------------------------------------------- */

enum { LEVEL_FOOTER = 48, ROCKS_FOOTER = 53 };

/* A file and the locations of its blocks. */
struct file {
    struct bytes b;
    bool rocks;
    struct table table;
    struct table_handle metaindex, index, filter;
};

static void note_filter(void *context, const char *name, struct table_handle handle)
{
    if (strstr(name, "filter.")) {
        *(struct table_handle *)context = handle;
    }
}

static struct file take_apart(const char *name, bool rocks)
{
    struct file f = { .b = bytes_golden(name), .rocks = rocks };
    f.table.bytes = f.b.at;
    f.table.end = f.b.n - (rocks ? ROCKS_FOOTER : LEVEL_FOOTER);
    f.table.checksum = rocks ? (enum table_checksum)f.b.at[f.table.end] : TABLE_CRC32C;
    struct foreign_input handles = { f.b.at + f.table.end + (rocks ? 1 : 0), 40, 0 };
    CHECK(table_handle(&handles, &f.metaindex) && table_handle(&handles, &f.index));
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    struct table_block block;
    CHECK_OK(table_open(&f.table, f.metaindex, "metaindex", &how, &block, NULL));
    CHECK_OK(table_names(&block, 0, note_filter, &f.filter, NULL));
    table_release(&block);
    CHECK(f.filter.size > 0);
    return f;
}

/* Corrects the checksum of a block whose bytes were changed. */
static void correct(struct file *f, struct table_handle handle)
{
    unsigned char *p = f->b.at + handle.offset;
    uint32_t sum =
        bgi_le32(table_sum(&f->table, p, (size_t)handle.size + 1, handle.offset));
    memcpy(p + handle.size + 1, &sum, 4);
}

/* Corrects the checksum of the changed block, and checks that the file is still refused. */
static void refused_file(struct file *f, struct table_handle changed, bg_err err,
                         const char *what)
{
    correct(f, changed);
    refused(f->rocks ? BG_FOREIGN_ROCKSDB : BG_FOREIGN_LEVELDB, &f->b, err, what);
}

/* ---- LevelDB ----------------------------------------------------------------------- */

TEST(leveldb__reads_its_files)
{
    check_golden(BG_FOREIGN_LEVELDB, "tables/leveldb_plain.ldb", 100, 5, 1000);
    check_golden(BG_FOREIGN_LEVELDB, "tables/leveldb_snappy.ldb", 300, 2, 3000);
}

/* Checks that one golden file has a compressed index and the other does not, so that both cases are
 * tested. */
TEST(leveldb__one_index_is_packed)
{
    struct file f = take_apart("tables/leveldb_snappy.ldb", false);
    CHECK_EQ(f.b.at[f.index.offset + f.index.size], 1);
    bytes_drop(&f.b);
    f = take_apart("tables/leveldb_plain.ldb", false);
    CHECK_EQ(f.b.at[f.index.offset + f.index.size], 0);
    bytes_drop(&f.b);
}

TEST(leveldb__keys_outside_of_the_file)
{
    struct bytes b = bytes_golden("tables/leveldb_plain.ldb");
    bg_foreign *f = foreign_must(BG_FOREIGN_LEVELDB, &b, NULL);
    CHECK(!bg_foreign_may_contain(f, "z", 1)); /* sorts after the last key */
    char key[64];
    size_t len = key_of(198, key);
    CHECK(bg_foreign_may_contain(f, key, len));
    (void)bg_foreign_may_contain(f, NULL, 0);
    bg_foreign_free(f);
    bytes_drop(&b);
}

TEST(leveldb__every_truncation)
{
    struct bytes b = bytes_golden("tables/leveldb_snappy.ldb");
    foreign_truncations(BG_FOREIGN_LEVELDB, &b, NULL);
    foreign_faults(BG_FOREIGN_LEVELDB, &b, NULL);
    bytes_drop(&b);
}

/* Checks that every byte of the blocks that Bloomgate reads is covered by a checksum. */
static void check_covered(const char *name, bool rocks)
{
    struct file f = take_apart(name, rocks);
    const struct table_handle blocks[3] = { f.metaindex, f.filter,
                                            rocks ? f.filter : f.index };
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t j = 0; j < blocks[i].size + 5; j++) {
            unsigned char *p = f.b.at + blocks[i].offset + j;
            *p ^= (unsigned char)(1u << j % 8);
            bg_foreign *foreign = NULL;
            CHECK_EQ(bg_foreign_decode(rocks ? BG_FOREIGN_ROCKSDB : BG_FOREIGN_LEVELDB,
                                       f.b.at, f.b.n, NULL, &foreign, NULL),
                     BG_ECHECKSUM);
            *p ^= (unsigned char)(1u << j % 8);
        }
    }
    bytes_drop(&f.b);
}

TEST(leveldb__checksums_cover_all_blocks)
{
    check_covered("tables/leveldb_plain.ldb", false);
    check_covered("tables/leveldb_snappy.ldb", false);
}

TEST(leveldb__damage)
{
    struct bytes b = bytes_golden("tables/leveldb_snappy.ldb");
    (void)foreign_damage(BG_FOREIGN_LEVELDB, &b, NULL, 2000);
    bytes_drop(&b);
}

/* Changes random bytes in one block and corrects the block's checksum. The file must be refused, or
 * reading it must be harmless. */
static void check_corrected(const char *name, bool rocks, int which)
{
    struct file f = take_apart(name, rocks);
    const struct table_handle h = which == 0   ? f.metaindex
                                  : which == 1 ? f.filter
                                               : f.index;
    const bg_foreign_format format = rocks ? BG_FOREIGN_ROCKSDB : BG_FOREIGN_LEVELDB;
    struct bytes before = bytes_copy(f.b.at, f.b.n);
    for (int i = 0; i < 2000 / (1 + 3 * CHECK_EMULATED); i++) {
        for (uint64_t n = 1 + check_random_below(3); n > 0; n--) {
            f.b.at[h.offset + check_random_below(h.size + 1)] =
                (unsigned char)check_random();
        }
        correct(&f, h);
        bg_foreign *foreign = NULL;
        if (foreign_try(format, f.b.at, f.b.n, NULL, &foreign, NULL) == BG_OK) {
            char key[64];
            bg_foreign_info about = { .struct_size = sizeof about };
            for (int j = 0; j < 20; j++) {
                (void)bg_foreign_may_contain(foreign, key, key_of(29 * j, key));
            }
            (void)bg_foreign_may_contain(foreign, "z", 1);
            CHECK_OK(bg_foreign_get_info(foreign, &about));
        }
        bg_foreign_free(foreign);
        memcpy(f.b.at + h.offset, before.at + h.offset, (size_t)h.size + 5);
    }
    bytes_drop(&before);
    bytes_drop(&f.b);
}

TEST(leveldb__damage_with_right_checksums)
{
    for (int which = 0; which < 3; which++) {
        check_corrected("tables/leveldb_plain.ldb", false, which);
        check_corrected("tables/leveldb_snappy.ldb", false, which);
    }
}

TEST(leveldb__not_a_table)
{
    struct bytes b = bytes_golden("tables/rocksdb_xxh3.sst");
    refused(BG_FOREIGN_LEVELDB, &b, BG_EFORMAT, "magic number");
    b = bytes_copy("", 0);
    refused(BG_FOREIGN_LEVELDB, &b, BG_EFORMAT, "magic number");
}

TEST(leveldb__blocks_outside_of_the_file)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    unsigned char *footer = f.b.at + f.table.end;
    memset(footer, 0xff, 9); /* offset 2^64 - 1 */
    footer[9] = 1;
    refused(BG_FOREIGN_LEVELDB, &f.b, BG_EFORMAT, "metaindex");
    f = take_apart("tables/leveldb_plain.ldb", false);
    memset(f.b.at + f.table.end, 0xff, 40); /* these bytes are not valid varints */
    refused(BG_FOREIGN_LEVELDB, &f.b, BG_EFORMAT, "metaindex, index");
}

TEST(leveldb__filters_of_others)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    unsigned char *name = f.b.at + f.metaindex.offset + 3;
    CHECK(memcmp(name, "filter.leveldb.", 15) == 0);
    name[7] = 'L';
    refused_file(&f, f.metaindex, BG_EFORMAT, "filter");
    f = take_apart("tables/leveldb_plain.ldb", false);
    f.b.at[f.metaindex.offset + 3] = 'F';
    refused_file(&f, f.metaindex, BG_EFORMAT, "filter");
}

TEST(leveldb__filter_offsets)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    unsigned char *tail = f.b.at + f.filter.offset + f.filter.size - 5;
    memset(tail, 0xff, 4);
    refused_file(&f, f.filter, BG_EFORMAT, "filter block");
    f = take_apart("tables/leveldb_plain.ldb", false);
    tail = f.b.at + f.filter.offset + f.filter.size - 5;
    tail[-1] = 0x80; /* the last filter starts beyond the end of the block */
    refused_file(&f, f.filter, BG_EFORMAT, "offset of a filter");
    f = take_apart("tables/leveldb_plain.ldb", false);
    /* Shifting by this base would be undefined behavior. */
    f.b.at[f.filter.offset + f.filter.size - 1] = 64;
    refused_file(&f, f.filter, BG_EFORMAT, "base");
}

/* Filters without bits answer "no", and filters whose k is too large answer "maybe". Neither
 * case divides by zero. */
TEST(leveldb__cve_2013_5700_no_bits)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    unsigned char *tail = f.b.at + f.filter.offset + f.filter.size - 5;
    const uint32_t array = bgi_load_le32(tail);
    unsigned char *offsets = f.b.at + f.filter.offset + array;
    for (uint32_t at = 4; at < f.filter.size - 5 - array; at += 4) {
        /* All filters except the last have no bits; the last contains all keys. */
        memset(offsets + at, 0, 4);
        offsets[at] = 1; /* the first filter is one byte long */
    }
    correct(&f, f.filter);
    bg_foreign *foreign = foreign_must(BG_FOREIGN_LEVELDB, &f.b, NULL);
    char key[64];
    CHECK(!bg_foreign_may_contain(foreign, key, key_of(0, key)));
    CHECK(!bg_foreign_may_contain(foreign, key, key_of(100, key)));
    bg_foreign_free(foreign);
    bytes_drop(&f.b);
}

TEST(leveldb__k_above_30_says_maybe)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    unsigned char *tail = f.b.at + f.filter.offset + f.filter.size - 5;
    const uint32_t second =
        bgi_load_le32(f.b.at + f.filter.offset + bgi_load_le32(tail) + 4);
    f.b.at[f.filter.offset + second - 1] = 31;
    correct(&f, f.filter);
    bg_foreign *foreign = foreign_must(BG_FOREIGN_LEVELDB, &f.b, NULL);
    CHECK(bg_foreign_may_contain(foreign, "", 0)); /* the first filter's */
    bg_foreign_free(foreign);
    bytes_drop(&f.b);
}

TEST(leveldb__index_keys)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    f.b.at[f.index.offset + 3] = 'z'; /* the first key is now the greatest */
    refused_file(&f, f.index, BG_EFORMAT, "index");
    f = take_apart("tables/leveldb_plain.ldb", false);
    f.b.at[f.index.offset] = 1; /* there is no previous key to share a byte with */
    refused_file(&f, f.index, BG_EFORMAT, "index");
    f = take_apart("tables/leveldb_plain.ldb", false);
    f.b.at[f.index.offset + 1] = 7; /* the key is shorter than its 8-byte trailer */
    correct(&f, f.index);
    bg_foreign *foreign = NULL;
    CHECK_EQ(foreign_try(BG_FOREIGN_LEVELDB, f.b.at, f.b.n, NULL, &foreign, NULL),
             BG_EFORMAT);
    bytes_drop(&f.b);
}

/* A key cannot share more bytes with the previous key than the previous key has. */
TEST(leveldb__shared_bytes_that_are_not_there)
{
    static const unsigned char entries[] = {
        0, 1, 0, 'a', 1, 0, 0, 2, 0, 0, 0, 0, 0, 0
    };
    struct table_block block = { .bytes = entries, .size = sizeof entries };
    struct table_entry entry = { 0 };
    CHECK_EQ(table_entries_end(&block), 10);
    CHECK(table_next(&block, &entry) && table_next(&block, &entry));
    CHECK(!table_next(&block, &entry));
    CHECK_EQ(entry.at, 7);
}

TEST(leveldb__other_compression)
{
    struct file f = take_apart("tables/leveldb_plain.ldb", false);
    f.b.at[f.index.offset + f.index.size] = 2; /* zstd */
    refused_file(&f, f.index, BG_EFORMAT, "index");
    f = take_apart("tables/leveldb_plain.ldb", false);
    /* The block is marked as Snappy-compressed, although it is not compressed. */
    f.b.at[f.index.offset + f.index.size] = 1;
    refused_file(&f, f.index, BG_EFORMAT, "index");
}

TEST(leveldb__max_bytes)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    struct bytes b = bytes_golden("tables/leveldb_snappy.ldb");
    how.max_bytes = 100; /* less than the size of the decompressed index */
    foreign_refused(BG_FOREIGN_LEVELDB, &b, &how, BG_ENOMEM, "size in bytes");
    bytes_drop(&b);
}

/* ---- Snappy ------------------------------------------------------------------------ */

static bool unpacks(const char *packed, size_t n, const char *to, size_t size)
{
    unsigned char room[64];
    uint64_t told;
    struct bytes exact = bytes_copy(packed, n);
    bool good = snappy_size(exact.at, n, &told) && told == size && size <= sizeof room
                && snappy_unpack(exact.at, n, room, size)
                && memcmp(room, to, size) == 0;
    bytes_drop(&exact);
    return good;
}

/* Returns whether the input is refused because of its size or its content. */
static bool unpacks_not(const char *packed, size_t n, size_t size)
{
    unsigned char room[64];
    uint64_t told;
    struct bytes exact = bytes_copy(packed, n);
    bool good = snappy_size(exact.at, n, &told) && told == size
                && snappy_unpack(exact.at, n, room, size);
    bytes_drop(&exact);
    return !good;
}

TEST(snappy__literals_and_copies)
{
    CHECK(unpacks("\x00", 1, "", 0));
    CHECK(unpacks("\x03\x08"
                  "abc",
                  5, "abc", 3));
    CHECK(unpacks("\x03\xf0\x02"
                  "abc",
                  6, "abc", 3)); /* the length takes one byte */
    CHECK(unpacks("\x03\xfc\x02\0\0\0"
                  "abc",
                  9, "abc", 3)); /* the length takes four bytes */
    CHECK(unpacks("\x0b\x08"
                  "abc\x11\x03",
                  7, "abcabcabcab", 11)); /* 8 from 3 back */
    CHECK(unpacks("\x06\x08"
                  "abc\x0a\x03\0",
                  8, "abcabc", 6));
    CHECK(unpacks("\x06\x08"
                  "abc\x0b\x03\0\0\0",
                  10, "abcabc", 6));
    CHECK(unpacks("\x06\x00"
                  "a\x12\x01\0",
                  6, "aaaaaa", 6)); /* over itself */
}

TEST(snappy__what_cannot_be)
{
    CHECK(unpacks_not("", 0, 0));
    CHECK(unpacks_not("\x80", 1, 0));
    CHECK(unpacks_not("\x80\x80\x80\x80\x80\x01", 6, 0));
    CHECK(unpacks_not("\xff\xff\xff\xff\x7f", 5, 0)); /* above 32 bits */
    /* One byte of input cannot expand to the claimed 64 bytes. */
    CHECK(unpacks_not("\x40", 1, 64));
    CHECK(unpacks_not("\x03\x08"
                      "ab",
                      4, 3));
    CHECK(unpacks_not("\x02\x08"
                      "abc",
                      5, 2));
    CHECK(unpacks_not("\x04\x08"
                      "abc",
                      5, 4));
    CHECK(unpacks_not("\x03\xf0", 2, 3));
    CHECK(unpacks_not("\x06\x08"
                      "abc\x0a\x04\0",
                      8, 6)); /* before the start */
    CHECK(unpacks_not("\x06\x08"
                      "abc\x0a\x00\0",
                      8, 6)); /* offset zero */
    CHECK(unpacks_not("\x05\x08"
                      "abc\x0a\x03\0",
                      8, 5));
    CHECK(unpacks_not("\x06\x08"
                      "abc\x0a\x03",
                      7, 6));
}

/* A few bytes that claim to expand to 4 GiB are refused. */
TEST(snappy__bomb)
{
    uint64_t size;
    CHECK(
        !snappy_size((const unsigned char *)"\xff\xff\xff\xff\x0f\x00\x00", 7, &size));
}

/* ---- RocksDB ----------------------------------------------------------------------- */

TEST(rocksdb__reads_its_files)
{
    check_golden(BG_FOREIGN_ROCKSDB, "tables/rocksdb_crc32c.sst", 300, 1, 3072);
    check_golden(BG_FOREIGN_ROCKSDB, "tables/rocksdb_xxh32.sst", 300, 1, 3072);
    check_golden(BG_FOREIGN_ROCKSDB, "tables/rocksdb_xxh64.sst", 300, 1, 3072);
    check_golden(BG_FOREIGN_ROCKSDB, "tables/rocksdb_xxh3.sst", 300, 1, 3072);
}

TEST(rocksdb__checksums_cover_all_blocks)
{
    check_covered("tables/rocksdb_crc32c.sst", true);
    check_covered("tables/rocksdb_xxh32.sst", true);
    check_covered("tables/rocksdb_xxh64.sst", true);
    check_covered("tables/rocksdb_xxh3.sst", true);
}

static void refused_golden(const char *name, const char *what, const char *found)
{
    struct bytes b = bytes_golden(name);
    bg_foreign *f = NULL;
    bg_errinfo why;
    CHECK_EQ(foreign_try(BG_FOREIGN_ROCKSDB, b.at, b.n, NULL, &f, &why), BG_EFORMAT);
    CHECK_STR(why.what, what);
    CHECK_STR(why.found, found);
    bytes_drop(&b);
}

TEST(rocksdb__other_filters_are_named)
{
    refused_golden("tables/rocksdb_ribbon.sst", "kind of filter", "Ribbon");
    refused_golden("tables/rocksdb_legacy.sst", "kind of filter", "legacy Bloom");
    refused_golden("tables/rocksdb_partitioned.sst", "filter", "a partitioned filter");
}

TEST(rocksdb__every_truncation)
{
    struct bytes b = bytes_golden("tables/rocksdb_xxh3.sst");
    foreign_truncations(BG_FOREIGN_ROCKSDB, &b, NULL);
    foreign_faults(BG_FOREIGN_ROCKSDB, &b, NULL);
    bytes_drop(&b);
}

TEST(rocksdb__damage)
{
    struct bytes b = bytes_golden("tables/rocksdb_crc32c.sst");
    (void)foreign_damage(BG_FOREIGN_ROCKSDB, &b, NULL, 2000);
    bytes_drop(&b);
    check_corrected("tables/rocksdb_xxh64.sst", true, 0);
    check_corrected("tables/rocksdb_xxh3.sst", true, 1);
}

TEST(rocksdb__not_a_table)
{
    struct bytes b = bytes_golden("tables/leveldb_plain.ldb");
    refused(BG_FOREIGN_ROCKSDB, &b, BG_EFORMAT, "magic number");
}

TEST(rocksdb__footers)
{
    struct file f = take_apart("tables/rocksdb_xxh3.sst", true);
    f.b.at[f.b.n - 12] = 8;
    refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EVERSION, "format_version");
    f = take_apart("tables/rocksdb_xxh3.sst", true);
    f.b.at[f.b.n - 12] = 1;
    refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EVERSION, "format_version");
    f = take_apart("tables/rocksdb_xxh3.sst", true);
    f.b.at[f.table.end] = 5;
    refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EFORMAT, "checksum type");
    f = take_apart("tables/rocksdb_xxh3.sst", true);
    memset(f.b.at + f.table.end + 1, 0xff, 40);
    refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EFORMAT, "metaindex");
}

/* Filter shapes that RocksDB does not support are refused; RocksDB itself would answer "maybe" for
 * every key. */
TEST(rocksdb__shapes)
{
    static const struct {
        unsigned at, byte;
        const char *what;
    } changes[] = {
        { 5, 0, "kind of filter" },       { 5, 0x80, "kind of filter" },
        { 4, 1, "shape of the filter" },  { 3, 0, "shape of the filter" },
        { 3, 31, "shape of the filter" }, { 3, 0x26, "shape of the filter" },
        { 2, 1, "shape of the filter" },  { 1, 1, "shape of the filter" }
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct file f = take_apart("tables/rocksdb_xxh3.sst", true);
        f.b.at[f.filter.offset + f.filter.size - changes[i].at] =
            (unsigned char)changes[i].byte;
        refused_file(&f, f.filter, BG_EFORMAT, changes[i].what);
    }
}

/* Returns a file whose metaindex states a different size for the filter block. The checksums are
 * correct. */
static struct file resized(uint64_t size)
{
    struct file f = take_apart("tables/rocksdb_xxh3.sst", true);
    unsigned char *p = f.b.at + f.metaindex.offset;
    unsigned char *value = p + 3 + p[1];
    CHECK(p[0] == 0 && p[2] == 4); /* two varints of two bytes each */
    CHECK_EQ(f.filter.size, 3072 / 8 + 5);
    value[2] = (unsigned char)(size & 127) | 128;
    value[3] = (unsigned char)(size >> 7);
    correct(&f, f.metaindex);
    f.filter.size = size;
    f.b.at[f.filter.offset + size] = 0;
    correct(&f, f.filter);
    return f;
}

TEST(rocksdb__cve_2013_5700_no_bits)
{
    for (uint64_t size = 1; size < 6; size++) {
        struct file f = resized(size);
        if (size == 5) {
            memcpy(f.b.at + f.filter.offset, "\xff\0\6\0\0", 5);
            correct(&f, f.filter);
        }
        refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EFORMAT, "filter");
    }
    struct file f = resized(0); /* the block that RocksDB writes if there are no keys */
    bg_foreign *foreign = foreign_must(BG_FOREIGN_ROCKSDB, &f.b, NULL);
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK(!bg_foreign_may_contain(foreign, "key", 3));
    CHECK_OK(bg_foreign_get_info(foreign, &about));
    CHECK_EQ(about.bits, 0);
    bg_foreign_free(foreign);
    bytes_drop(&f.b);
}

TEST(rocksdb__lines_are_whole)
{
    struct file f = resized(100);
    memcpy(f.b.at + f.filter.offset + 95, "\xff\0\6\0\0", 5);
    refused_file(&f, f.filter, BG_EFORMAT, "filter");
}

/* ---- RocksDB, format version 6 ------------------------------------------------------ */

enum { CONTEXT = 0x12345678 };

static struct file as_version_6(const char *name)
{
    struct file f = take_apart(name, true);
    CHECK_EQ(f.metaindex.offset + f.metaindex.size + 5, f.table.end);
    unsigned char *footer = f.b.at + f.table.end;
    memset(footer + 1, 0, 40);
    footer[1] = 0x3e; /* 3e 00 7a 00 */
    footer[3] = 0x7a;
    uint32_t context = bgi_le32(CONTEXT), size = bgi_le32((uint32_t)f.metaindex.size);
    memcpy(footer + 9, &context, 4);
    memcpy(footer + 13, &size, 4);
    footer[41] = 6;
    f.table.context = CONTEXT;
    uint32_t sum = bgi_le32(table_sum(&f.table, footer, ROCKS_FOOTER, f.table.end));
    memcpy(footer + 5, &sum, 4);
    correct(&f, f.metaindex);
    correct(&f, f.filter);
    return f;
}

TEST(rocksdb__format_version_6)
{
    static const char *const names[] = { "tables/rocksdb_crc32c.sst",
                                         "tables/rocksdb_xxh3.sst" };
    for (size_t i = 0; i < 2; i++) {
        struct file f = as_version_6(names[i]);
        bg_foreign *foreign = foreign_must(BG_FOREIGN_ROCKSDB, &f.b, NULL);
        check_keys(foreign, 300);
        bg_foreign_free(foreign);
        bytes_drop(&f.b);
    }
}

TEST(rocksdb__format_version_6_footer)
{
    /* Every byte of the footer is covered by a checksum. */
    for (size_t at = 0; at < 41; at++) {
        struct file f = as_version_6("tables/rocksdb_crc32c.sst");
        bg_foreign *foreign = NULL;
        f.b.at[f.table.end + at] ^= 2;
        CHECK_EQ(foreign_try(BG_FOREIGN_ROCKSDB, f.b.at, f.b.n, NULL, &foreign, NULL),
                 BG_ECHECKSUM);
        bytes_drop(&f.b);
    }
    struct file f = as_version_6("tables/rocksdb_crc32c.sst");
    /* This file has no checksums, and its metaindex would start before the file does. */
    f.b.at[f.table.end] = 0;
    memset(f.b.at + f.table.end + 13, 0xff, 4);
    refused(BG_FOREIGN_ROCKSDB, &f.b, BG_EFORMAT, "size of the metaindex");
}

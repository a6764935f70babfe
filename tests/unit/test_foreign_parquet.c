/*
 * Parquet filters: standalone filters, filters in complete files (which are created here), the bits
 * of DuckDB's filters, conversion to and from the kind `split`, and invalid input.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/foreign_bytes.h"

/* A filter with the keys "apple", "pear" and "" in two blocks. */
static const unsigned char three[80] = {
    0x15, 0x80, 0x01, 0x1c, 0x1c, 0x00, 0x00, 0x1c, 0x1c, 0x00, 0x00, 0x1c, 0x1c, 0x00,
    0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x04,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x80, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x60, 0x01, 0x10, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x30, 0x08, 0x40, 0x00, 0x00, 0x00, 0x00,
    0x40, 0x04, 0x00, 0x00, 0x00, 0x21, 0x04, 0x00, 0x00, 0x40
};

/* The size of this filter's header, in bytes. */
enum { HEADER = 16 };

/* ---- A minimal file writer ---------------------------------------------------------- */

static void put(struct bytes *b, unsigned byte)
{
    unsigned char c = (unsigned char)byte;
    bytes_append(b, &c, 1);
}

static void put_varint(struct bytes *b, uint64_t value)
{
    for (; value >= 128; value >>= 7) {
        put(b, (unsigned)(value & 127) | 128);
    }
    put(b, (unsigned)value);
}

static void put_integer(struct bytes *b, int64_t value)
{
    put_varint(b, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

/* Writes fields that a reader has to skip, one of every type. */
static void put_strange(struct bytes *b)
{
    put(b, 0x08); /* binary, with field number 20 stored in full, not as a delta */
    put_integer(b, 20);
    put_varint(b, 3);
    bytes_append(b, "abc", 3);
    put(b, 0x11); /* true, field 21 */
    put(b, 0x17); /* double, 22 */
    bytes_append(b, "12345678", 8);
    put(b, 0x1b); /* field 23, a map from binary to i32 */
    put(b, 2);
    put(b, 0x85);
    bytes_append(b, "\1a\2\1b\4", 6);
    put(b, 0x1a); /* set, 24, of 2 booleans */
    bytes_append(b, "\x21\1\2", 3);
    put(b, 0x13); /* byte, 25 */
    put(b, 7);
    put(b, 0x1b); /* an empty map, 26 */
    put(b, 0);
    put(b, 0x19); /* a list of 16 bytes, 27 */
    bytes_append(b,
                 "\xf3\x10"
                 "0123456789abcdef",
                 18);
    put(b, 0x14); /* i16, 28 */
    put_integer(b, -5);
}

/* Writes a column chunk. A negative offset means that the column has no filter. A length of 0 is
 * not written. */
static void put_column(struct bytes *b, int64_t offset, int64_t length)
{
    put(b, 0x26); /* 2: file_offset */
    put_integer(b, 4);
    put(b, 0x1c); /* 3: meta_data */
    put(b, 0x15); /*   1: type */
    put_integer(b, 6);
    put(b, 0x29); /* field 3, path_in_schema, is a list with one element */
    bytes_append(b, "\x18\1s", 3);
    if (offset >= 0) {
        put(b, 0xb6); /*   14 */
        put_integer(b, offset);
        if (length) {
            put(b, 0x15); /* 15 */
            put_integer(b, length);
        }
    }
    put_strange(b);
    put(b, 0);
    put(b, 0);
}

struct column {
    int64_t offset, length;
};

/* Returns a file that consists of "PAR1", `body`, and a footer with two row groups of two columns
 * each. */
static struct bytes make_file(const void *body, size_t n, const struct column c[4])
{
    struct bytes f = bytes_copy("PAR1", 4);
    bytes_append(&f, body, n);
    const size_t start = f.n;
    put(&f, 0x15); /* 1: version */
    put_integer(&f, 1);
    put(&f, 0x39); /* field 4, row_groups, is a list of two structs */
    put(&f, 0x2c);
    for (int group = 0; group < 2; group++) {
        put(&f, 0x19); /* field 1, columns, is a list of two structs */
        put(&f, 0x2c);
        put_column(&f, c[2 * group].offset, c[2 * group].length);
        put_column(&f, c[2 * group + 1].offset, c[2 * group + 1].length);
        put(&f, 0x16); /* 2: total_byte_size */
        put_integer(&f, 99);
        put(&f, 0);
    }
    put_strange(&f);
    put(&f, 0);
    const size_t length = f.n - start;
    for (unsigned i = 0; i < 4; i++) {
        put(&f, length >> 8 * i & 255);
    }
    bytes_append(&f, "PAR1", 4);
    return f;
}

/* Returns a filter for one key, without a surrounding file. */
static struct bytes one_key(const char *key)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_PARQUET, 10, 0.01, NULL, &f, NULL));
    CHECK_OK(bg_foreign_add(f, key, strlen(key), NULL));
    struct bytes b = bytes_written(f);
    bg_foreign_free(f);
    return b;
}

/* Returns a file with filters for "zero", "one" and "two". The second column of the first row group
 * has no filter. */
static struct bytes make_whole(bool with_lengths)
{
    static const char *const keys[3] = { "zero", "one", "two" };
    struct column c[4] = { { 0, 0 }, { -1, 0 }, { 0, 0 }, { 0, 0 } };
    struct bytes body = bytes_copy("data", 4);
    for (size_t i = 0; i < 3; i++) {
        struct column *to = &c[i ? i + 1 : 0];
        struct bytes filter = one_key(keys[i]);
        to->offset = (int64_t)(4 + body.n);
        to->length = with_lengths ? (int64_t)filter.n : 0;
        bytes_append(&body, filter.at, filter.n);
        bytes_drop(&filter);
    }
    struct bytes file = make_file(body.at, body.n, c);
    bytes_drop(&body);
    return file;
}

/* ---- Alone ------------------------------------------------------------------------- */

TEST(parquet__three_keys_alone)
{
    struct bytes b = bytes_copy(three, sizeof three);
    bg_foreign *f = foreign_must(BG_FOREIGN_PARQUET, &b, NULL);
    bg_foreign_info about = { .struct_size = sizeof about };
    CHECK(bg_foreign_may_contain(f, "apple", 5));
    CHECK(bg_foreign_may_contain(f, "pear", 4));
    CHECK(bg_foreign_may_contain(f, "", 0));
    CHECK(!bg_foreign_may_contain(f, "plum", 4));
    CHECK_OK(bg_foreign_get_info(f, &about));
    CHECK_EQ(about.bits, 512);
    CHECK_EQ(about.k, 8);
    CHECK_EQ(about.parts, 1);
    CHECK_EQ(about.ones, 23); /* two of the keys share a bit */
    struct bytes again = bytes_written(f);
    CHECK(bytes_same(&again, &b));
    bytes_drop(&again);
    bytes_drop(&b);
    bg_foreign_free(f);
}

/* The last bits of a filter may have any value, even that of a file's end marker. */
TEST(parquet__bits_that_look_like_the_end_of_a_file)
{
    static const char *const words[] = { "PAR1", "PARE" };
    for (unsigned i = 0; i < 2; i++) {
        struct bytes b = bytes_copy(three, sizeof three);
        memcpy(b.at + b.n - 4, words[i], 4);
        bg_foreign *f = foreign_must(BG_FOREIGN_PARQUET, &b, NULL);
        bg_foreign_free(f);
        bytes_drop(&b);
    }
}

TEST(parquet__creates_what_writers_write)
{
    /* n, p and the expected size in bytes. The size in bits is -8 n / ln(1 - p^(1/8)), rounded up
     * to a power of two. */
    static const struct {
        uint64_t items;
        double rate;
        size_t bytes;
    } sizes[] = { { 1, 0.5, 32 },
                  { 40, 0.01, 64 },
                  { 1000, 0.01, 2048 },
                  { 10000, 0.01, 16384 },
                  { 10000, 0.0001, 32768 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bg_foreign *f;
        bg_foreign_info about = { .struct_size = sizeof about };
        CHECK_OK(bg_foreign_create(BG_FOREIGN_PARQUET, sizes[i].items, sizes[i].rate,
                                   NULL, &f, NULL));
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.bits, 8 * sizes[i].bytes);
        bg_foreign_free(f);
    }
}

TEST(parquet__add_gives_the_same_bytes)
{
    bg_foreign *f;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_PARQUET, 40, 0.01, NULL, &f, NULL));
    CHECK_OK(bg_foreign_add(f, "apple", 5, NULL));
    CHECK_OK(bg_foreign_add(f, "pear", 4, NULL));
    CHECK_OK(bg_foreign_add(f, NULL, 0, NULL));
    struct bytes b = bytes_written(f), expected = bytes_copy(three, sizeof three);
    CHECK(bytes_same(&b, &expected));
    bytes_drop(&b);
    bytes_drop(&expected);
    bg_foreign_free(f);
}

TEST(parquet__no_room_to_write)
{
    bg_foreign *f;
    unsigned char to[79];
    size_t n = 0;
    CHECK_OK(bg_foreign_create(BG_FOREIGN_PARQUET, 40, 0.01, NULL, &f, NULL));
    CHECK_EQ(bg_foreign_encode(f, to, sizeof to, &n, NULL), BG_EINVAL);
    bg_foreign_free(f);
}

TEST(parquet__every_truncation_alone)
{
    struct bytes b = bytes_copy(three, sizeof three);
    foreign_truncations(BG_FOREIGN_PARQUET, &b, NULL);
    bytes_append(&b, "x", 1);
    foreign_refused(BG_FOREIGN_PARQUET, &b, NULL, BG_EFORMAT, "numBytes");
    bytes_drop(&b);
}

TEST(parquet__damage)
{
    struct bytes b = bytes_copy(three, sizeof three);
    (void)foreign_damage(BG_FOREIGN_PARQUET, &b, NULL, 2000);
    bytes_drop(&b);
    b = make_whole(true);
    (void)foreign_damage(BG_FOREIGN_PARQUET, &b, NULL, 5000);
    foreign_faults(BG_FOREIGN_PARQUET, &b, NULL);
    bytes_drop(&b);
}

static void refuse_header(size_t at, unsigned byte, const char *what)
{
    struct bytes b = bytes_copy(three, sizeof three);
    b.at[at] = (unsigned char)byte;
    foreign_refused(BG_FOREIGN_PARQUET, &b, NULL, BG_EFORMAT, what);
    bytes_drop(&b);
}

TEST(parquet__other_algorithms_are_refused)
{
    refuse_header(4, 0x2c, "algorithm");
    refuse_header(8, 0x2c, "hash");
    refuse_header(12, 0x2c, "compression");
    refuse_header(0, 0x35, "hash");           /* field 3, a number */
    refuse_header(3, 0, "BloomFilterHeader"); /* ends there */
}

TEST(parquet__cve_2013_5700_no_bits)
{
    struct bytes b = bytes_copy("\x15\x00", 2);
    bytes_append(&b, three + 3, HEADER - 3);
    foreign_refused(BG_FOREIGN_PARQUET, &b, NULL, BG_EFORMAT, "numBytes");
    bytes_drop(&b);
}

TEST(parquet__numbytes_that_cannot_be)
{
    static const int64_t sizes[] = { -64, 33, 31, INT32_MAX, INT64_MAX, INT64_MIN, 96 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bytes b = bytes_copy("\x15", 1);
        put_integer(&b, sizes[i]);
        bytes_append(&b, three + 3, sizeof three - 3);
        foreign_refused(BG_FOREIGN_PARQUET, &b, NULL, BG_EFORMAT, "numBytes");
        bytes_drop(&b);
    }
}

/* ---- In files ---------------------------------------------------------------------- */

static void check_parts(const struct bytes *file)
{
    static const char *const keys[3] = { "zero", "one", "two" };
    for (uint32_t part = 0; part < 3; part++) {
        bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
        how.part = part;
        bg_foreign *f = foreign_must(BG_FOREIGN_PARQUET, file, &how);
        bg_foreign_info about = { .struct_size = sizeof about };
        CHECK_OK(bg_foreign_get_info(f, &about));
        CHECK_EQ(about.parts, 3);
        CHECK_EQ(about.ones, 8);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_EQ(bg_foreign_may_contain(f, keys[i], strlen(keys[i])), i == part);
        }
        bg_foreign_free(f);
    }
}

TEST(parquet__part_selects_a_filter_of_a_file)
{
    struct bytes file = make_whole(true);
    check_parts(&file);
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    how.part = 3;
    foreign_refused(BG_FOREIGN_PARQUET, &file, &how, BG_EINVAL, "part");
    bytes_drop(&file);
    file = make_whole(false); /* old writers do not write the length */
    check_parts(&file);
    bytes_drop(&file);
}

TEST(parquet__every_truncation_of_a_file)
{
    struct bytes file = make_whole(true);
    foreign_truncations(BG_FOREIGN_PARQUET, &file, NULL);
    bytes_drop(&file);
}

static void refuse_file(const void *body, size_t n, const struct column c[4],
                        const char *what)
{
    struct bytes file = make_file(body, n, c);
    foreign_refused(BG_FOREIGN_PARQUET, &file, NULL, BG_EFORMAT, what);
    bytes_drop(&file);
}

TEST(parquet__places_outside_of_the_file)
{
    static const struct column none[4] = { { -1, 0 }, { -1, 0 }, { -1, 0 }, { -1, 0 } };
    static const struct column behind[4] = {
        { INT64_MAX, 0 }, { 4, 0 }, { 4, 0 }, { 4, 0 }
    };
    static const struct column at_end[4] = { { 84, 0 }, { 4, 0 }, { 4, 0 }, { 4, 0 } };
    static const struct column shorter[4] = { { 4, 79 }, { 4, 0 }, { 4, 0 }, { 4, 0 } };
    static const struct column longer[4] = { { 4, 81 }, { 4, 0 }, { 4, 0 }, { 4, 0 } };
    static const struct column cut[4] = { { 4, 0 }, { 4, 0 }, { 4, 0 }, { 4, 0 } };
    static const struct column negative[4] = {
        { 4, -80 }, { 4, 0 }, { 4, 0 }, { 4, 0 }
    };
    refuse_file(three, sizeof three, none, "filters");
    refuse_file(three, sizeof three, behind, "bloom_filter_offset");
    refuse_file(three, sizeof three, at_end, "bloom_filter_offset");
    refuse_file(three, sizeof three, negative, "bloom_filter_offset");
    refuse_file(three, sizeof three, shorter, "numBytes");
    refuse_file(three, sizeof three, longer, "numBytes");
    /* The filter extends into the footer. */
    refuse_file(three, sizeof three - 1, cut, "numBytes");
}

TEST(parquet__encrypted_footer)
{
    struct bytes file = make_whole(true);
    memcpy(file.at, "PARE", 4);
    memcpy(file.at + file.n - 4, "PARE", 4);
    foreign_refused(BG_FOREIGN_PARQUET, &file, NULL, BG_EFORMAT, "footer");
    bytes_drop(&file);
}

/* Checks that a footer with this content is refused. */
static void refuse_footer(const struct bytes *footer, const char *what)
{
    struct bytes file = bytes_copy("PAR1", 4);
    bytes_append(&file, footer->at, footer->n);
    for (unsigned i = 0; i < 4; i++) {
        put(&file, footer->n >> 8 * i & 255);
    }
    bytes_append(&file, "PAR1", 4);
    foreign_refused(BG_FOREIGN_PARQUET, &file, NULL, BG_EFORMAT, what);
    bytes_drop(&file);
}

TEST(parquet__footer_length_beyond_the_file)
{
    struct bytes file = bytes_copy("PAR1\xff\xff\xff\xffPAR1", 12);
    foreign_refused(BG_FOREIGN_PARQUET, &file, NULL, BG_EFORMAT,
                    "length of the footer");
    memset(file.at + 4, 0, 4);
    foreign_refused(BG_FOREIGN_PARQUET, &file, NULL, BG_EFORMAT, "footer");
    bytes_drop(&file);
}

/* Structs nested four million levels deep are refused instead of overflowing the stack. */
TEST(parquet__footer_that_nests_for_ever)
{
    const size_t deep = 4000000 / (1 + 3 * CHECK_EMULATED);
    struct bytes footer = { malloc(deep), deep };
    CHECK(footer.at != NULL);
    memset(footer.at, 0x1c, deep);
    refuse_footer(&footer, "footer");
    memset(footer.at, 0x99, deep); /* lists of lists */
    footer.at[0] = 0x19;
    refuse_footer(&footer, "footer");
    bytes_drop(&footer);
}

/* Lists that claim to have 2^60 elements but contain none are refused. */
TEST(parquet__footer_with_endless_lists)
{
    static const unsigned heads[] = { 0x49, 0x19, 0x1a, 0x1b, 0x18 };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct bytes footer = { 0 };
        put(&footer, heads[i]);
        if ((heads[i] & 15) == 9 || (heads[i] & 15) == 10) {
            put(&footer, 0xfc);
        }
        put_varint(&footer, UINT64_C(1) << 60);
        put(&footer, 0xcc);
        put(&footer, 0);
        refuse_footer(&footer, "footer");
        bytes_drop(&footer);
    }
}

TEST(parquet__footer_with_impossible_numbers)
{
    struct bytes footer = bytes_copy("\x16", 1);
    for (int i = 0; i < 11; i++) {
        put(&footer, 0xff);
    }
    put(&footer, 0);
    refuse_footer(&footer, "footer"); /* a varint of more than ten bytes */
    footer.n = 0;
    put(&footer, 0x05); /* a field number that is out of range */
    put_integer(&footer, INT64_MIN);
    put(&footer, 0);
    put(&footer, 0);
    refuse_footer(&footer, "footer");
    footer.n = 0;
    bytes_append(&footer, "\x1d\0\0", 3); /* a type that does not exist */
    refuse_footer(&footer, "footer");
    bytes_drop(&footer);
}

TEST(parquet__max_bytes)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    struct bytes b = bytes_copy(three, sizeof three);
    how.max_bytes = 63;
    foreign_refused(BG_FOREIGN_PARQUET, &b, &how, BG_ENOMEM, "size in bytes");
    how.max_bytes = 64;
    bg_foreign_free(foreign_must(BG_FOREIGN_PARQUET, &b, &how));
    bytes_drop(&b);
}

/* ---- The kind split ---------------------------------------------------------------- */

static void check_duckdb(const char *name)
{
    char path[100];
    (void)snprintf(path, sizeof path, "parquet/%s.bits", name);
    struct bytes bits = bytes_golden(path), alone = bytes_copy("\x15", 1);
    put_integer(&alone, (int64_t)bits.n);
    bytes_append(&alone, three + 3, HEADER - 3);
    bytes_append(&alone, bits.at, bits.n);
    bg_foreign *f = foreign_must(BG_FOREIGN_PARQUET, &alone, NULL), *back = NULL;
    bg_filter *filter = NULL;
    CHECK_OK(bg_foreign_to_filter(f, &filter, NULL));
    CHECK_EQ(bg_filter_kind(filter), BG_KIND_SPLIT);
    CHECK_EQ(bg_filter_size_bytes(filter), bits.n);
    for (uint64_t i = 0; i < 5000; i++) { /* the two filters give the same answers */
        CHECK_EQ(bg_filter_may_contain(filter, &i, sizeof i),
                 bg_foreign_may_contain(f, &i, sizeof i));
    }
    CHECK_OK(bg_foreign_from_filter(filter, &back, NULL));
    struct bytes again = bytes_written(back);
    CHECK(bytes_same(&again, &alone));
    bytes_drop(&again);
    bytes_drop(&alone);
    bytes_drop(&bits);
    bg_filter_free(filter);
    bg_foreign_free(f);
    bg_foreign_free(back);
}

TEST(parquet__duckdb_filters_to_split_and_back)
{
    check_duckdb("duckdb_int32");
    check_duckdb("duckdb_int64");
    check_duckdb("duckdb_string");
}

static bg_err from_spec(const bg_spec *spec)
{
    bg_filter *filter = NULL;
    bg_foreign *f = NULL;
    bg_errinfo why;
    CHECK_OK(bg_filter_create(spec, &filter, NULL));
    bg_err err = bg_foreign_from_filter(filter, &f, &why);
    CHECK((err == BG_OK) == (f != NULL));
    CHECK((err == BG_OK) == (why.message[0] == 0));
    bg_foreign_free(f);
    bg_filter_free(filter);
    return err;
}

TEST(parquet__only_split_under_xxh64_with_seed_0)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 1000;
    spec.rate = 0.01;
    spec.kind = BG_KIND_SPLIT;
    spec.hash.profile = BG_HASH_XXH64;
    CHECK_OK(from_spec(&spec));
    spec.hash.seed = 1;
    CHECK_EQ(from_spec(&spec), BG_ENOTSUP);
    spec.hash.seed = 0;
    spec.hash.profile = BG_HASH_FAST;
    CHECK_EQ(from_spec(&spec), BG_ENOTSUP);
    spec.hash.profile = BG_HASH_XXH64;
    spec.kind = BG_KIND_BLOCKED;
    CHECK_EQ(from_spec(&spec), BG_ENOTSUP);
}

TEST(parquet__keys_added_to_split_are_parquet_bits)
{
    bg_spec spec = exact_spec(BG_KIND_SPLIT, 2, 8, 0);
    bg_filter *filter = NULL;
    bg_foreign *f = NULL;
    spec.hash.profile = BG_HASH_XXH64;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    added(filter, "apple", 5);
    added(filter, "pear", 4);
    added(filter, "", 0);
    CHECK_OK(bg_foreign_from_filter(filter, &f, NULL));
    struct bytes b = bytes_written(f), expected = bytes_copy(three, sizeof three);
    CHECK(bytes_same(&b, &expected));
    bytes_drop(&b);
    bytes_drop(&expected);
    bg_foreign_free(f);
    bg_filter_free(filter);
}

/*
 * Tests journal records. Written records can be read again, their bytes match the documented
 * format, and no other bytes are accepted as a record.
 */
#include "journal/record.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 20 };

static unsigned char bytes[BYTES_MAX];

static bg_bytes text_of(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

static void check_text(bg_bytes a, bg_bytes b)
{
    CHECK_EQ(a.len, b.len);
    CHECK(a.len == 0 || (b.data && memcmp(a.data, b.data, a.len) == 0));
}

/* Returns a record of the given type with a value in every field. */
static struct journal_record record_of(enum journal_type type)
{
    static const uint64_t hashes[3] = { 1, UINT64_MAX, UINT64_C(0x0102030405060708) };
    return (struct journal_record){
        .type = type,
        .id = 7,
        .name = { "na\0me", 5 },
        .shape = text_of("family=bf kind=scalable items=100"),
        .expiry = 1700000000000,
        .file = text_of("7-19.bg"),
        .digest = text_of("0123456789abcdef"),
        .from = 99,
        .items = 1000,
        .deleted = 20,
        .expansions = 3,
        .count = 4,
        .change = { .op = CHANGE_ADD, .n = 3, .hashes = hashes },
    };
}

static size_t write_record(const struct journal_record *record)
{
    size_t n = 0;
    CHECK_OK(journal_record_bytes(record, &n, NULL));
    CHECK(n >= JOURNAL_RECORD_HEAD && n <= sizeof bytes);
    CHECK(journal_record_write(record, bytes) == bytes + n);
    return n;
}

static bg_err read_record(size_t n, struct journal_cursor *cursor,
                          struct journal_record *record, bg_errinfo *why)
{
    cursor->at = bytes;
    cursor->left = n;
    return journal_record_read(cursor, record, why);
}

static void check_change(const struct change *a, const struct change *b)
{
    CHECK_EQ(a->op, b->op);
    CHECK_EQ(a->n, b->n);
    CHECK_EQ(a->value, b->value);
    for (size_t i = 0; i < a->n; i++) {
        CHECK(!a->hashes == !b->hashes);
        if (a->hashes) {
            CHECK_EQ(a->hashes[i], b->hashes[i]);
        } else {
            check_text(a->keys[i], b->keys[i]);
        }
    }
}

TEST(journal_record__every_type_comes_back)
{
    struct journal_cursor cursor = { .memory = NULL };
    for (unsigned type = JOURNAL_CREATE; type < JOURNAL_TYPES; type++) {
        struct journal_record in = record_of((enum journal_type)type), out;
        size_t n = write_record(&in);
        CHECK_OK(read_record(n, &cursor, &out, NULL));
        CHECK_EQ(cursor.left, 0);
        CHECK_EQ(out.type, type);
        bool creates = type == JOURNAL_CREATE || type == JOURNAL_MANIFEST_ENTRY;
        bool bases = type == JOURNAL_BASE || type == JOURNAL_MANIFEST_ENTRY;
        bool counts = type == JOURNAL_MANIFEST_BEGIN || type == JOURNAL_MANIFEST_END;
        bool names = creates || type == JOURNAL_RENAME;
        bool expires = creates || type == JOURNAL_EXPIRE;
        const bg_bytes none = { NULL, 0 };
        CHECK_EQ(out.id, counts || type >= JOURNAL_KEEP ? 0 : in.id);
        check_text(out.name, names ? in.name : none);
        check_text(out.shape, creates || bases ? in.shape : none);
        CHECK_EQ(out.expiry, expires ? in.expiry : 0);
        check_text(out.file, bases ? in.file : none);
        check_text(out.digest, bases ? in.digest : none);
        CHECK_EQ(out.from, bases || type == JOURNAL_KEEP ? in.from : 0);
        CHECK_EQ(out.items, bases ? in.items : 0);
        CHECK_EQ(out.deleted, bases ? in.deleted : 0);
        CHECK_EQ(out.expansions, bases ? in.expansions : 0);
        CHECK_EQ(out.count, counts ? in.count : 0);
        if (type == JOURNAL_CHANGE) {
            check_change(&in.change, &out.change);
        } else {
            CHECK_EQ(out.change.n, 0);
        }
    }
    free(cursor.memory);
}

TEST(journal_record__every_change_comes_back)
{
    const bg_bytes keys[4] = { { "a", 1 }, { NULL, 0 }, { "\0\xff", 2 }, { "abc", 3 } };
    const uint64_t hash = 5;
    const struct change changes[] = {
        { .op = CHANGE_ADD, .n = 1, .hashes = &hash },
        { .op = CHANGE_ADD, .n = 4, .keys = keys },
        { .op = CHANGE_REMOVE, .n = 1, .hashes = &hash, .keys = keys },
        { .op = CHANGE_REMOVE, .n = 2, .keys = keys, .value = 1 },
        { .op = CHANGE_ADD, .n = 1, .hashes = &hash, .value = UINT64_MAX },
        { .op = CHANGE_ROTATE, .value = 1700000000000 },
        { .op = CHANGE_ROTATE },
    };
    struct journal_cursor cursor = { .memory = NULL };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct journal_record in = { .type = JOURNAL_CHANGE,
                                     .id = i,
                                     .change = changes[i] };
        struct journal_record out;
        size_t n = write_record(&in);
        CHECK_OK(read_record(n, &cursor, &out, NULL));
        check_change(&changes[i], &out.change);
        CHECK_EQ(out.id, i);
    }
    free(cursor.memory);
}

TEST(journal_record__several_are_read_one_after_the_other)
{
    struct journal_cursor cursor = { .memory = NULL };
    struct journal_record out;
    unsigned char *end = bytes;
    for (unsigned type = JOURNAL_CREATE; type < JOURNAL_TYPES; type++) {
        struct journal_record in = record_of((enum journal_type)type);
        end = journal_record_write(&in, end);
    }
    cursor.at = bytes;
    cursor.left = (size_t)(end - bytes);
    for (unsigned type = JOURNAL_CREATE; type < JOURNAL_TYPES; type++) {
        CHECK(cursor.left > 0);
        CHECK_OK(journal_record_read(&cursor, &out, NULL));
        CHECK_EQ(out.type, type);
    }
    CHECK_EQ(cursor.left, 0);
    free(cursor.memory);
}

/* Tests the byte format in journal/record.h, which must never change. */
TEST(journal_record__the_bytes_of_a_change)
{
    static const unsigned char promised[] = {
        44, 0, 0, 0, 5, 1, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, /* head, ID */
        2,  0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,             /* count, first hash */
        9,  0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, /* second hash, value */
    };
    const uint64_t hashes[] = { UINT64_C(0x0102030405060708), 9 };
    struct journal_record in = {
        .type = JOURNAL_CHANGE,
        .id = 7,
        .change = { .op = CHANGE_ADD, .n = 2, .hashes = hashes, .value = 0x201 }
    };
    CHECK_EQ(write_record(&in), sizeof promised);
    CHECK(memcmp(bytes, promised, sizeof promised) == 0);
}

TEST(journal_record__the_bytes_of_a_create)
{
    static const unsigned char promised[] = {
        35, 0, 0, 0, 1,   0,   0, 0,            /* head */
        7,  0, 0, 0, 0,   0,   0, 0,            /* id */
        2,  0, 0, 0, 'h', 'i', 1, 0, 0, 0, 'x', /* name, shape */
        1,  2, 0, 0, 0,   0,   0, 0,            /* expiry */
    };
    struct journal_record in = { .type = JOURNAL_CREATE,
                                 .id = 7,
                                 .name = text_of("hi"),
                                 .shape = text_of("x"),
                                 .expiry = 0x201 };
    CHECK_EQ(write_record(&in), sizeof promised);
    CHECK(memcmp(bytes, promised, sizeof promised) == 0);
}

TEST(journal_record__what_cannot_be_written_is_refused)
{
    static const uint64_t hashes[1] = { 1 };
    struct journal_record r = record_of(JOURNAL_CHANGE);
    bg_errinfo why;
    size_t n = 1;
    r.change.n = 0;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EINVAL);
    CHECK_EQ(n, 0);
    r.change.n = JOURNAL_ITEMS + 1;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EQUOTA);
    r.change = (struct change){ .op = CHANGE_ADD, .n = 1 };
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EINVAL);
    r.change = (struct change){ .op = CHANGE_ROTATE, .n = 1, .hashes = hashes };
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EINVAL);
    r.change = (struct change){ .op = (enum change_op)5, .n = 1, .hashes = hashes };
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EINVAL);
    CHECK_STR(why.what, "operation");
    bg_bytes keys[2] = { { bytes, JOURNAL_PAYLOAD_MAX - 24 }, { bytes, 10 } };
    r.change = (struct change){ .op = CHANGE_ADD, .n = 1, .keys = keys };
    CHECK_OK(journal_record_bytes(&r, &n, &why));
    r.change.n = 2;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EQUOTA);
    keys[0].len = SIZE_MAX;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EQUOTA);
    r = record_of(JOURNAL_CREATE);
    r.name.len = JOURNAL_NAME_MAX;
    CHECK_OK(journal_record_bytes(&r, &n, &why));
    r.name.len++;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EQUOTA);
    CHECK_STR(why.what, "name");
    r = record_of(JOURNAL_BASE);
    r.file.len = JOURNAL_TEXT_MAX + 1;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EQUOTA);
    CHECK_STR(why.what, "file");
    r.type = JOURNAL_GAP;
    CHECK_EQ(journal_record_bytes(&r, &n, &why), BG_EINVAL);
    r.type = JOURNAL_TYPES;
    CHECK_EQ(journal_record_bytes(&r, &n, NULL), BG_EINVAL);
}

/* Reads bytes as a record. If they are accepted, checks that writing the record produces the same
 * bytes. If they are rejected, checks that a reason is reported. */
static void check_bytes(struct journal_cursor *cursor, size_t n)
{
    static unsigned char again[BYTES_MAX];
    struct journal_record record;
    bg_errinfo why;
    bg_err err = read_record(n, cursor, &record, &why);
    if (err) {
        CHECK(err == BG_EFORMAT || err == BG_EVERSION);
        CHECK(why.message[0]);
        CHECK(cursor->at == bytes && cursor->left == n);
        return;
    }
    size_t used = n - cursor->left, size = 0;
    CHECK_OK(journal_record_bytes(&record, &size, NULL));
    CHECK_EQ(size, used);
    (void)journal_record_write(&record, again);
    CHECK(memcmp(again, bytes, used) == 0);
}

TEST(journal_record__every_cut_and_every_flip_is_refused_or_means_itself)
{
    struct journal_cursor cursor = { .memory = NULL };
    const bg_bytes keys[2] = { { "abc", 3 }, { "d", 1 } };
    for (unsigned type = JOURNAL_CREATE; type <= JOURNAL_TYPES; type++) {
        struct journal_record in = record_of((enum journal_type)type), out;
        if (type == JOURNAL_TYPES) {
            in.type = JOURNAL_CHANGE;
            in.change = (struct change){
                .op = CHANGE_REMOVE, .n = 2, .keys = keys, .value = 3
            };
        }
        size_t n = write_record(&in);
        for (size_t cut = 1; cut < n; cut++) {
            CHECK(read_record(cut, &cursor, &out, NULL) == BG_EFORMAT);
        }
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            check_bytes(&cursor, n);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    free(cursor.memory);
}

/* The writer and the reader accept the same operations. */
TEST(journal_record__what_is_not_written_is_not_read)
{
    struct journal_cursor cursor = { .memory = NULL };
    struct journal_record in = { .type = JOURNAL_CHANGE,
                                 .change = { .op = CHANGE_ROTATE } };
    struct journal_record out;
    size_t n = write_record(&in), bytes_of = 0, both = 0;
    for (unsigned op = 0; op < 256; op++) {
        bytes[5] = (unsigned char)op;
        bg_err err = read_record(n, &cursor, &out, NULL);
        in.change.op = (enum change_op)op;
        CHECK_EQ(err == BG_OK, journal_record_bytes(&in, &bytes_of, NULL) == BG_OK);
        both += err == BG_OK;
    }
    CHECK_EQ(both, 1);
    free(cursor.memory);
}

TEST(journal_record__random_bytes_are_refused_or_mean_themselves)
{
    struct journal_cursor cursor = { .memory = NULL };
    for (size_t turn = 0; turn < 20000 * check_scale(); turn++) {
        size_t n = 1 + (size_t)check_random_below(100);
        for (size_t i = 0; i < n; i++) {
            uint64_t x = check_random();
            bytes[i] = x & 0x300 ? (unsigned char)(x % 12) : (unsigned char)x;
        }
        if (n >= 8 && check_random_below(2)) {
            bytes[0] = (unsigned char)n;
            bytes[1] = bytes[2] = bytes[3] = bytes[7] = 0;
        }
        check_bytes(&cursor, n);
    }
    free(cursor.memory);
}

TEST(journal_record__lengths_are_compared_before_they_are_used)
{
    struct journal_cursor cursor = { .memory = NULL };
    const uint64_t hash = 1;
    struct journal_record in = { .type = JOURNAL_CHANGE,
                                 .id = 1,
                                 .change = {
                                     .op = CHANGE_ADD, .n = 1, .hashes = &hash } };
    struct journal_record out;
    bg_errinfo why;
    size_t n = write_record(&in);
    bytes[16] = bytes[17] = 0xff; /* 65535 hashes */
    CHECK_EQ(read_record(n, &cursor, &out, &why), BG_EFORMAT);
    CHECK_STR(why.what, "hashes");
    bytes[18] = bytes[19] = 0xff;
    CHECK_EQ(read_record(n, &cursor, &out, &why), BG_EFORMAT);
    CHECK_STR(why.what, "change");
    CHECK_EQ(cursor.memory_bytes, 0); /* nothing was allocated for the refused bytes */
    free(cursor.memory);
}

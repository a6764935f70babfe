/* test_rdb_value.c - the output of DUMP: LZF, checksums, and values of other types. Complete values are
 * tested in tests/redis/test_module_migrate.py. */
#define _GNU_SOURCE /* locks */

#include "rdb_value.h"
#include "support/check.h"

#include <string.h>

static bool expands(const char *from, size_t n, const char *to, size_t room)
{
    uint8_t got[300];
    return rdb_lzf_expand((const uint8_t *)from, n, got, room)
           && memcmp(got, to, room) == 0;
}

TEST(rdb_value__lzf)
{
    char many[264];
    memset(many, 'a', sizeof many);
    CHECK(expands("\x02"
                  "abc",
                  4, "abc", 3));
    CHECK(expands("\x02"
                  "abc\x20\x02",
                  6, "abcabc", 6)); /* a match of 3 bytes at distance 3 */
    CHECK(expands("\x00"
                  "a\xe0\xfe\x00",
                  5, many, 264)); /* the longest match, which overlaps itself */
    CHECK(expands("", 0, "", 0));
    CHECK(!expands("\x02"
                   "abc",
                   4, "abcd", 4)); /* too short */
    CHECK(!expands("\x02"
                   "abc",
                   4, "ab", 2)); /* too long */
    CHECK(!expands("\x05"
                   "abc",
                   4, "abc", 3));             /* literals are missing */
    CHECK(!expands("\x20\x00", 2, "aaa", 3)); /* a match before the start */
    CHECK(!expands("\x00"
                   "a\x20",
                   3, "aaaa", 4)); /* the distance is missing */
    CHECK(!expands("\x00"
                   "a\xe0\x05",
                   4, many, 15)); /* the distance after a length is missing */
}

static bg_err read_value(const char *body, size_t n, bool sealed, bg_errinfo *info)
{
    const struct command_settings settings = { .max_filter_bytes = 0 };
    struct object *object = NULL;
    uint8_t value[64];
    memcpy(value, body, n);
    const uint64_t sum = rdb_value_checksum(value, n);
    for (size_t i = 0; i < 8; i++) {
        value[n + i] = (uint8_t)(sum >> 8 * i ^ !sealed);
    }
    const bg_err err = rdb_value_object(value, n + 8, &settings, &object, info);
    CHECK(!object);
    return err;
}

TEST(rdb_value__errors)
{
    bg_errinfo info;
    CHECK_EQ(read_value("\x00\x01x\x09\x00", 5, true, &info),
             BG_ENOTSUP); /* a string */
    CHECK_EQ(read_value("\x07\x05zz\x09\x00", 6, true, &info), BG_ENOTSUP);
    CHECK_EQ(read_value("\x07\x05zz\x09\x00", 6, false, &info), BG_ECHECKSUM);
    CHECK_EQ(read_value("\x07\xc0zz\x09\x00", 6, true, &info), BG_ENOTSUP);
    CHECK_EQ(read_value("", 0, true, &info), BG_ENOTSUP);
    /* MBbloom--, version 4, without fields */
    CHECK_EQ(
        read_value("\x07\x81\x30\x16\xe5\xa2\x89\xbe\xf8\x04\x09\x00", 12, true, &info),
        BG_EFORMAT);
    /* version 3 */
    CHECK_EQ(
        read_value("\x07\x81\x30\x16\xe5\xa2\x89\xbe\xf8\x03\x09\x00", 12, true, &info),
        BG_EVERSION);
}

TEST(rdb_value__checksum_is_that_of_redis)
{
    CHECK_EQ(rdb_value_checksum("123456789", 9), UINT64_C(0xe9c6d914c4b8d9ca));
}

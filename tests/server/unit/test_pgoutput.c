/* test_pgoutput.c - tests the parsing of PostgreSQL replication messages, and the text encoding of
 * WAL markers and resume marks. */
#define _GNU_SOURCE

#include "postgres/marker.h"
#include "postgres/pgoutput.h"
#include "postgres/publication.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#define BYTES(literal) ((bg_bytes){ literal, sizeof(literal) - 1 })

/* Messages as PostgreSQL 15 sends them for CREATE TABLE public.t (id int PRIMARY KEY, e text). */
#define RELATION                                                                       \
    "R\x00\x00\x40\x00public\0t\0d\x00\x02"                                            \
    "\x01id\0\x00\x00\x00\x17\xff\xff\xff\xff"                                         \
    "\x00"                                                                             \
    "e\0\x00\x00\x00\x19\xff\xff\xff\xff"
#define INSERT "I\x00\x00\x40\x00N\x00\x02t\x00\x00\x00\x01\x31t\x00\x00\x00\x03xyz"
#define BEGIN                                                                          \
    "B\x00\x00\x00\x00\x01\x52\x85\x80\x00\x03\x03\x71\x70\xd1\x39\x3d\x00\x00\x02\xd6"
#define COMMIT                                                                         \
    "C\x00\x00\x00\x00\x00\x01\x52\x85\x80\x00\x00\x00\x00\x01\x52\x85\xb0\x00\x03"    \
    "\x03\x71\x70\xd1\x39\x3d"
#define MESSAGE                                                                        \
    "M\x00\x00\x00\x00\x00\x01\x52\x84\xa0"                                            \
    "bloomgate\0\x00\x00\x00\x02m1"

/* Parses a copy of the message, in an allocation of exactly its size, so that a sanitizer detects
 * reads beyond the end. */
static bool parses(bg_bytes bytes, struct pgoutput_message *message)
{
    char *copy = malloc(bytes.len ? bytes.len : 1);
    memcpy(copy, bytes.data, bytes.len);
    const bool fine = pgoutput_parse((bg_bytes){ copy, bytes.len }, message);
    free(copy);
    return fine;
}

static void check_exact(bg_bytes bytes)
{
    struct pgoutput_message message;
    char longer[200] = { 0 };
    CHECK(parses(bytes, &message));
    for (size_t n = 0; n < bytes.len; n++) {
        CHECK(!parses((bg_bytes){ bytes.data, n }, &message));
    }
    memcpy(longer, bytes.data, bytes.len);
    CHECK(!parses((bg_bytes){ longer, bytes.len + 1 }, &message));
}

TEST(pgoutput__whole_messages_only)
{
    check_exact(BYTES(RELATION));
    check_exact(BYTES(INSERT));
    check_exact(BYTES(BEGIN));
    check_exact(BYTES(COMMIT));
    check_exact(BYTES(MESSAGE));
}

TEST(pgoutput__insert)
{
    struct pgoutput_message row;
    struct pgoutput_value value;
    CHECK(pgoutput_parse(BYTES(INSERT), &row));
    CHECK_EQ(row.kind, PGOUTPUT_ROW);
    CHECK_EQ(row.relation, 0x4000);
    CHECK_EQ(row.columns, 2);
    CHECK(pgoutput_value_next(&row, &value));
    CHECK_EQ(value.state, PGOUTPUT_TEXT);
    CHECK_EQ(value.text.len, 1);
    CHECK(pgoutput_value_next(&row, &value));
    CHECK_EQ(value.text.len, 3);
    CHECK(memcmp(value.text.data, "xyz", 3) == 0);
    CHECK(!pgoutput_value_next(&row, &value));
}

/* Only the new row is used, no matter what the message contains about the old row. */
TEST(pgoutput__update)
{
#define NEW "N\x00\x03nut\x00\x00\x00\x02hi"
    static const bg_bytes updates[] = {
        BYTES("U\x00\x00\x40\x01" NEW),
        BYTES("U\x00\x00\x40\x01K\x00\x01t\x00\x00\x00\x01k" NEW),
        BYTES("U\x00\x00\x40\x01O\x00\x02nt\x00\x00\x00\x03old" NEW),
    };
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        struct pgoutput_message row;
        struct pgoutput_value values[3];
        CHECK(pgoutput_parse(updates[i], &row));
        CHECK_EQ(row.relation, 0x4001);
        CHECK_EQ(row.columns, 3);
        for (int j = 0; j < 3; j++) {
            CHECK(pgoutput_value_next(&row, &values[j]));
        }
        CHECK_EQ(values[0].state, PGOUTPUT_NULL);
        CHECK_EQ(values[1].state, PGOUTPUT_UNCHANGED);
        CHECK_EQ(values[2].state, PGOUTPUT_TEXT);
        CHECK(memcmp(values[2].text.data, "hi", 2) == 0);
    }
    struct pgoutput_message row;
    CHECK(!pgoutput_parse(BYTES("I\x00\x00\x40\x01K\x00\x00" NEW), &row));
    CHECK(!pgoutput_parse(BYTES("U\x00\x00\x40\x01K\x00\x00"), &row));
    CHECK(!pgoutput_parse(BYTES("U\x00\x00\x40\x01X\x00\x00" NEW), &row));
#undef NEW
}

TEST(pgoutput__lengths_beyond_the_end)
{
    struct pgoutput_message message;
    CHECK(!parses(BYTES("I\x00\x00\x40\x00N\x00\x01t\x00\x00\x00\x02x"), &message));
    CHECK(!parses(BYTES("I\x00\x00\x40\x00N\x00\x01t\xff\xff\xff\xffx"), &message));
    CHECK(!parses(BYTES("I\x00\x00\x40\x00N\xff\xff"), &message));
    CHECK(!parses(BYTES("I\x00\x00\x40\x00N\x00\x01"
                        "b\x00\x00\x00\x01x"),
                  &message));
    CHECK(!parses(BYTES("R\x00\x00\x40\x00public"), &message));
    CHECK(!parses(BYTES("M\x00\x00\x00\x00\x00\x00\x00\x00\x01p\0\xff\xff\xff\xff"),
                  &message));
}

TEST(pgoutput__other_messages)
{
    struct pgoutput_message message;
    CHECK(parses(BYTES("D anything"), &message));
    CHECK_EQ(message.kind, PGOUTPUT_IGNORED);
    CHECK(parses(BYTES("T"), &message));
    CHECK(parses(BYTES("Y"), &message));
    CHECK(parses(BYTES("O"), &message));
    CHECK(!parses(BYTES("S\0\0\0\0\1"), &message)); /* protocol version 2 */
    CHECK(!parses(BYTES(""), &message));
    CHECK(parses(BYTES(MESSAGE), &message));
    CHECK_EQ(message.kind, PGOUTPUT_MESSAGE);
    CHECK(pgoutput_parse(BYTES(MESSAGE), &message));
    CHECK_EQ(message.lsn, 0x15284a0);
    CHECK(!message.is_transactional);
    CHECK_EQ(message.prefix.len, 9);
    CHECK(memcmp(message.content.data, "m1", 2) == 0);
}

TEST(pgoutput__frames)
{
    struct pgoutput_frame frame;
#define HEAD                                                                           \
    "\0\0\0\0\0\0\0\1"                                                                 \
    "\0\0\0\0\0\0\0\5"                                                                 \
    "\0\0\0\0\0\0\0\7"
    CHECK(pgoutput_frame_parse(BYTES("w" HEAD "Begin"), &frame));
    CHECK(!frame.is_keepalive);
    CHECK_EQ(frame.sent, 5);
    CHECK_EQ(frame.payload.len, 5);
    CHECK(!pgoutput_frame_parse(BYTES("w\0\0\0\0\0\0\0\1"), &frame));
#undef HEAD
#define KEEP                                                                           \
    "k"                                                                                \
    "\0\0\0\0\0\0\1\0"                                                                 \
    "\0\0\0\0\0\0\0\7"
    CHECK(pgoutput_frame_parse(BYTES(KEEP "\1"), &frame));
    CHECK(frame.is_keepalive && frame.wants_reply);
    CHECK_EQ(frame.sent, 256);
    CHECK(pgoutput_frame_parse(BYTES(KEEP "\0"), &frame));
    CHECK(!frame.wants_reply);
    CHECK(!pgoutput_frame_parse(BYTES(KEEP), &frame));
    CHECK(!pgoutput_frame_parse(BYTES(KEEP "\0\0"), &frame));
#undef KEEP
    CHECK(!pgoutput_frame_parse(BYTES("x"), &frame));
    CHECK(!pgoutput_frame_parse(BYTES(""), &frame));
}

/* Keys are the values of the key columns, in the table's column order and without duplicates. */
TEST(pgoutput__key_columns)
{
    struct key_columns columns = { .n = 0 };
    struct postgres_relation relation = { .oid = 0x4000, .columns = 7 };
    struct pgoutput_message message;
    CHECK(pgoutput_parse(BYTES(RELATION), &message));
    CHECK_OK(key_columns_parse("t(e), t(id), t(e), t(other)", true, &columns, NULL));
    CHECK(!postgres_relation_describe(&relation, &columns, &message));
    CHECK(relation.is_described);
    CHECK_EQ(relation.n, 2);
    CHECK_EQ(relation.at[0], 0);
    CHECK_EQ(relation.at[1], 1);
    relation.columns = 8;
    CHECK_STR(postgres_relation_describe(&relation, &columns, &message), "other");
    CHECK(!relation.is_described);
    key_columns_free(&columns);
}

TEST(postgres_marker__positions)
{
    static const char *const bad[] = { "",     "0",     "/",    "0/",   "/0",
                                       "0/0 ", "-1/0",  "0/-1", "00/1", "0/123456789",
                                       "g/0",  "0x1/0", " 0/1" };
    uint64_t lsn = 0;
    char text[PG_LSN];
    CHECK(postgres_lsn_parse("16/B374D848", &lsn));
    CHECK_EQ(lsn, UINT64_C(0x16B374D848));
    postgres_lsn_print(UINT64_MAX, text);
    CHECK_STR(text, "FFFFFFFF/FFFFFFFF");
    CHECK(postgres_lsn_parse(text, &lsn));
    CHECK_EQ(lsn, UINT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!postgres_lsn_parse(bad[i], &lsn));
    }
}

TEST(postgres_marker__texts)
{
    struct postgres_marker marker;
    CHECK(postgres_marker_parse("gate", BYTES("gate follower 0123456789abcdef 7 0/AB"),
                                &marker));
    CHECK_EQ(marker.kind, MARKER_OF_FOLLOWER);
    CHECK_EQ(marker.number, 7);
    CHECK_EQ(marker.lsn, 0xab);
    CHECK_STR(marker.nonce, "0123456789abcdef");
    CHECK(postgres_marker_parse("gate", BYTES("gate reader 0123456789abcdef 0 0/AB"),
                                &marker));
    CHECK_EQ(marker.kind, MARKER_OF_READER);
    static const bg_bytes bad[] = {
        BYTES(""),
        BYTES("gate"),
        BYTES("other follower 0123456789abcdef 7 0/AB"),
        BYTES("gate stranger 0123456789abcdef 7 0/AB"),
        BYTES("gate follower 0123456789abcde 7 0/AB"),
        BYTES("gate follower 0123456789ABCDEF 7 0/AB"),
        BYTES("gate follower 0123456789abcdef -7 0/AB"),
        BYTES("gate follower 0123456789abcdef 07 0/AB"),
        BYTES("gate follower 0123456789abcdef 7 0/AB "),
        BYTES("gate follower 0123456789abcdef 7 0/AB x"),
        BYTES("gate follower 0123456789abcdef 7 0/AB\0"),
        BYTES("gate  follower 0123456789abcdef 7 0/AB"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!postgres_marker_parse("gate", bad[i], &marker));
    }
}

TEST(postgres_marker__marks)
{
    const char *text =
        "logical 1 7709017356513866861/00000001/5"
        " e56efd15994e318ec0d102f845a349dc 6b551b01a33bb8bd 27 0/15C1198";
    struct postgres_mark mark, other;
    char again[SOURCE_MARK];
    CHECK(postgres_mark_parse(text, &mark));
    CHECK_STR(mark.identity, "7709017356513866861/00000001/5");
    CHECK_EQ(mark.marker.number, 27);
    postgres_mark_print(&mark, again);
    CHECK_STR(again, text);
    CHECK(postgres_mark_parse(again, &other));
    CHECK(postgres_marker_equal(&mark.marker, &other.marker));
    CHECK(!postgres_mark_parse("", &mark));
    CHECK(!postgres_mark_parse("changes 1 a b c 27 0/15C1198", &mark));
    again[8] = '2';
    CHECK(!postgres_mark_parse(again, &mark));
}

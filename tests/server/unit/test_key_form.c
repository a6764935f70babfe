/*
 * test_key_form.c - tests key formats. A filter can answer a lookup only if the key is formatted
 * the way the database prints it. The expected results in `spellings` were verified with PostgreSQL
 * 15. Further tests compare the rules for SQLite with SQLite itself.
 */
#include "source/key_form.h"

#include "source/driver.h"
#include "support/check.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* ---- Spellings ------------------------------------------------------------------------- */

static const struct {
    enum key_form form;
    /* `held` is the key as stored in the filter, or NULL if the key is not canonical */
    const char *key, *held;
} spellings[] = {
    { KEY_FORM_UNKNOWN, "a", NULL },
    { KEY_FORM_BYTES, "", "" },
    { KEY_FORM_BYTES, "a ", "a " },
    { KEY_FORM_BYTES, "\xff", "\xff" },
    { KEY_FORM_ASCII, "a ", "a " },
    { KEY_FORM_ASCII, "\xc2\xa6", NULL }, /* EUC_JP prints it as U+FFE4 */
    { KEY_FORM_PADDED, "", "" },
    { KEY_FORM_PADDED, "   ", "" },
    { KEY_FORM_PADDED, " a  ", " a" },
    { KEY_FORM_PADDED, "a\t", "a\t" },
    { KEY_FORM_PADDED, "\xc3\xa4 ", "\xc3\xa4" },
    { KEY_FORM_PADDED_ASCII, "a  ", "a" },
    { KEY_FORM_PADDED_ASCII, "\xc3\xa4 ", NULL },

    { KEY_FORM_INTEGER, "0", "0" },
    { KEY_FORM_INTEGER, "7", "7" },
    { KEY_FORM_INTEGER, "-70", "-70" },
    { KEY_FORM_INTEGER, "9223372036854775807", "9223372036854775807" },
    { KEY_FORM_INTEGER, "-9223372036854775807", "-9223372036854775807" },
    { KEY_FORM_INTEGER, "9223372036854775808", NULL },
    { KEY_FORM_INTEGER, "-9223372036854775808", NULL },
    { KEY_FORM_INTEGER, "10000000000000000000", NULL },
    { KEY_FORM_INTEGER, "", NULL },
    { KEY_FORM_INTEGER, "-", NULL },
    { KEY_FORM_INTEGER, "-0", NULL },
    { KEY_FORM_INTEGER, "--1", NULL },
    { KEY_FORM_INTEGER, "+7", NULL },
    { KEY_FORM_INTEGER, "007", NULL },
    { KEY_FORM_INTEGER, "-07", NULL },
    { KEY_FORM_INTEGER, " 7", NULL },
    { KEY_FORM_INTEGER, "7 ", NULL },
    { KEY_FORM_INTEGER, "1_000", NULL },
    { KEY_FORM_INTEGER, "0x7", NULL },
    { KEY_FORM_INTEGER, "7.0", NULL },
    { KEY_FORM_INTEGER, "1e3", NULL },
    { KEY_FORM_OID, "4294967295", "4294967295" },
    { KEY_FORM_OID, "-1", NULL },
    { KEY_FORM_OID, "18446744073709551615", NULL }, /* 4294967295 */

    { KEY_FORM_NUMERIC, "0", "0" },
    { KEY_FORM_NUMERIC, "0.00", "0" },
    { KEY_FORM_NUMERIC, "100", "100" },
    { KEY_FORM_NUMERIC, "100.0", "100" },
    { KEY_FORM_NUMERIC, "1.50", "1.5" },
    { KEY_FORM_NUMERIC, "-0.50", "-0.5" },
    { KEY_FORM_NUMERIC, "10000000000000000000.05", "10000000000000000000.05" },
    { KEY_FORM_NUMERIC, "", NULL },
    { KEY_FORM_NUMERIC, "-", NULL },
    { KEY_FORM_NUMERIC, ".", NULL },
    { KEY_FORM_NUMERIC, "-.", NULL },
    { KEY_FORM_NUMERIC, "-0", NULL },
    { KEY_FORM_NUMERIC, "-0.0", NULL },
    { KEY_FORM_NUMERIC, "+1", NULL },
    { KEY_FORM_NUMERIC, "01", NULL },
    { KEY_FORM_NUMERIC, ".5", NULL },
    { KEY_FORM_NUMERIC, "-.5", NULL },
    { KEY_FORM_NUMERIC, "1.", "1" },
    { KEY_FORM_NUMERIC, "1..", NULL },
    { KEY_FORM_NUMERIC, "1.00.00", NULL },
    { KEY_FORM_NUMERIC, "1e2", NULL },
    { KEY_FORM_NUMERIC, "1.5e0", NULL },
    { KEY_FORM_NUMERIC, " 1.5", NULL },
    { KEY_FORM_NUMERIC, "1.5 ", NULL },
    { KEY_FORM_NUMERIC, "NaN", NULL },
    { KEY_FORM_NUMERIC, "Infinity", NULL },

    { KEY_FORM_UUID, "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
      "a1b2c3d4-e5f6-7890-abcd-ef1234567890" },
    { KEY_FORM_UUID, "A1b2c3d4-e5f6-7890-abcd-ef1234567890", NULL },
    { KEY_FORM_UUID, "a1b2c3d4e5f67890abcdef1234567890", NULL },
    { KEY_FORM_UUID, "{a1b2c3d4-e5f6-7890-abcd-ef1234567890}", NULL },
    { KEY_FORM_UUID, "g1b2c3d4-e5f6-7890-abcd-ef1234567890", NULL },

    { KEY_FORM_DATE, "2024-01-05", "2024-01-05" },
    { KEY_FORM_DATE, "0001-01-01", "0001-01-01" },
    { KEY_FORM_DATE, "0001-01-01 BC", NULL },
    { KEY_FORM_DATE, "10000-01-01", NULL },
    { KEY_FORM_DATE, "2024-1-5", NULL },
    { KEY_FORM_DATE, "20240105", NULL },
    { KEY_FORM_DATE, "today", NULL },
    { KEY_FORM_DATE, "infinity", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 23:59:59", "2024-01-05 23:59:59" },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00.5", "2024-01-05 10:00:00.5" },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00.000001", "2024-01-05 10:00:00.000001" },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00.", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00.50", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00.0000001", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 24:00:00", NULL }, /* the next day */
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:60", NULL }, /* the next minute */
    { KEY_FORM_TIMESTAMP, "2024-01-05T10:00:00", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05 10:00:00+05", NULL },
    { KEY_FORM_TIMESTAMP, "2024-01-05", NULL },
    { KEY_FORM_TIMESTAMP, "epoch", NULL },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00+00", "2024-01-05 10:00:00+00" },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00.25+00", "2024-01-05 10:00:00.25+00" },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00", NULL },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00Z", NULL },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00+01", NULL },
    { KEY_FORM_TIMESTAMPTZ, "2024-01-05 10:00:00.250+00", NULL },
    { KEY_FORM_TIMESTAMPTZ, "+00", NULL },

    { KEY_FORM_SQLITE_NUMBER, "12", "12" },
    { KEY_FORM_SQLITE_NUMBER, "12abc", "12abc" },
    { KEY_FORM_SQLITE_NUMBER, "2024-01-05 10:00", "2024-01-05 10:00" },
    { KEY_FORM_SQLITE_NUMBER, "1e3", NULL },
    { KEY_FORM_SQLITE_NUMBER, " 12", NULL },
    { KEY_FORM_SQLITE_NUMBER, "12.0", NULL },
    { KEY_FORM_SQLITE_NUMBER, "", NULL },
    { KEY_FORM_SQLITE_ANY, "abc", "abc" },
    { KEY_FORM_SQLITE_ANY, "\xff", "\xff" },
    { KEY_FORM_SQLITE_ANY, "12", NULL },
    { KEY_FORM_SQLITE_ANY, "1e3", NULL },
};

TEST(key_form__canonical_keys_are_what_the_filter_holds)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const char *held = spellings[i].held;
        const size_t len = strlen(spellings[i].key);
        bg_bytes key = { spellings[i].key, len };
        const enum key_spelling spelling = key_form_spelling(spellings[i].form, &key);
        CHECK_EQ(spelling, held ? KEY_CANONICAL : KEY_OTHER);
        CHECK_EQ(key.len, held ? strlen(held) : len);
        CHECK(key.data == spellings[i].key);
        if (held) {
            CHECK_EQ(memcmp(key.data, held, key.len), 0);
            CHECK_EQ(key_form_normalize(spellings[i].form, spellings[i].key, len),
                     key.len);
        }
    }
}

TEST(key_form__no_bytes_and_zero_bytes_are_keys_like_others)
{
    bg_bytes none = { NULL, 0 }, zero = { "7\0", 2 };
    for (enum key_form form = 0; form < KEY_FORMS; form++) {
        const bool text = form >= KEY_FORM_BYTES && form <= KEY_FORM_PADDED_ASCII;
        CHECK_EQ(key_form_spelling(form, &none), text ? KEY_CANONICAL : KEY_OTHER);
        CHECK_EQ(none.len, 0);
        const bool sqlite =
            form == KEY_FORM_SQLITE_NUMBER || form == KEY_FORM_SQLITE_ANY;
        CHECK_EQ(key_form_spelling(form, &zero),
                 text || sqlite ? KEY_CANONICAL : KEY_OTHER);
        CHECK_EQ(zero.len, 2);
    }
}

TEST(key_form__printed_values_lose_what_does_not_count)
{
    CHECK_EQ(key_form_normalize(KEY_FORM_PADDED, "abc     ", 8), 3);
    CHECK_EQ(key_form_normalize(KEY_FORM_BYTES, "abc     ", 8), 8);
    CHECK_EQ(key_form_normalize(KEY_FORM_NUMERIC, "1.500", 5), 3);
    CHECK_EQ(key_form_normalize(KEY_FORM_NUMERIC, "1500", 4), 4);
    CHECK_EQ(key_form_normalize(KEY_FORM_NUMERIC, "0.000", 5), 1);
    CHECK_EQ(key_form_normalize(KEY_FORM_NUMERIC, "Infinity", 8), 8);
    CHECK_EQ(key_form_normalize(KEY_FORM_NUMERIC, "", 0), 0);
    CHECK_EQ(key_form_normalize(KEY_FORM_SQLITE_NUMBER, "1.0", 3), 3);
}

/* ---- Types ----------------------------------------------------------------------------- */

TEST(key_form__postgres_types)
{
    CHECK_EQ(key_form_of_postgres(25, 'b', true, true), KEY_FORM_BYTES);
    CHECK_EQ(key_form_of_postgres(25, 'b', true, false), KEY_FORM_ASCII);
    CHECK_EQ(key_form_of_postgres(25, 'b', false, true), KEY_FORM_UNKNOWN);
    CHECK_EQ(key_form_of_postgres(17, 'b', true, false), KEY_FORM_BYTES);
    CHECK_EQ(key_form_of_postgres(1042, 'b', true, true), KEY_FORM_PADDED);
    CHECK_EQ(key_form_of_postgres(1042, 'b', true, false), KEY_FORM_PADDED_ASCII);
    CHECK_EQ(key_form_of_postgres(20, 'b', true, true), KEY_FORM_INTEGER);
    CHECK_EQ(key_form_of_postgres(26, 'b', true, true), KEY_FORM_OID);
    CHECK_EQ(key_form_of_postgres(1700, 'b', true, true), KEY_FORM_NUMERIC);
    CHECK_EQ(key_form_of_postgres(1184, 'b', true, true), KEY_FORM_TIMESTAMPTZ);
    CHECK_EQ(key_form_of_postgres(2950, 'b', true, true), KEY_FORM_UUID);
    CHECK_EQ(key_form_of_postgres(16389, 'e', true, true), KEY_FORM_BYTES);
    CHECK_EQ(key_form_of_postgres(16389, 'e', true, false), KEY_FORM_ASCII);
    CHECK_EQ(key_form_of_postgres(16389, 'b', true, true),
             KEY_FORM_UNKNOWN); /* citext */
    CHECK_EQ(key_form_of_postgres(25, 'd', true, true), KEY_FORM_UNKNOWN);
    CHECK_EQ(key_form_of_postgres(19, 'b', true, true), KEY_FORM_UNKNOWN);  /* name */
    CHECK_EQ(key_form_of_postgres(16, 'b', true, true), KEY_FORM_UNKNOWN);  /* bool */
    CHECK_EQ(key_form_of_postgres(701, 'b', true, true), KEY_FORM_UNKNOWN); /* float8 */
}

static const struct {
    const char *declared;
    enum key_form form, utf16;
} declarations[] = {
    { NULL, KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
    { "", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
    { "blob", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
    { "ANY", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
    { "INTEGER", KEY_FORM_SQLITE_NUMBER, KEY_FORM_INTEGER },
    { "unsigned big int", KEY_FORM_SQLITE_NUMBER, KEY_FORM_INTEGER },
    { "FLOATING POINT", KEY_FORM_SQLITE_NUMBER, KEY_FORM_INTEGER },
    { "CHARINT", KEY_FORM_SQLITE_NUMBER, KEY_FORM_INTEGER },
    { "varchar(20)", KEY_FORM_BYTES, KEY_FORM_ASCII },
    { "CLOB", KEY_FORM_BYTES, KEY_FORM_ASCII },
    { "TEXT", KEY_FORM_BYTES, KEY_FORM_ASCII },
    { "BLOBTEXT", KEY_FORM_BYTES, KEY_FORM_ASCII },
    { "REALBLOB", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
    { "REAL", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
    { "DOUBLE PRECISION", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
    { "FLOAT", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
    { "NUMERIC", KEY_FORM_SQLITE_NUMBER, KEY_FORM_UNKNOWN },
    { "DECIMAL(10,5)", KEY_FORM_SQLITE_NUMBER, KEY_FORM_UNKNOWN },
    { "uuid", KEY_FORM_SQLITE_NUMBER, KEY_FORM_UNKNOWN },
};

TEST(key_form__sqlite_types)
{
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++) {
        const char *type = declarations[i].declared;
        CHECK_EQ(key_form_of_sqlite(type, "BINARY", true), declarations[i].form);
        CHECK_EQ(key_form_of_sqlite(type, "binary", false), declarations[i].utf16);
        CHECK_EQ(key_form_of_sqlite(type, "NOCASE", true), KEY_FORM_UNKNOWN);
    }
}

/* ---- Lookups in SQLite ----------------------------------------------------------------- */

static const char values[] =
    "(5), (5.0), ('5'), ('5.0'), (' 5 '), ('05'), ('+5'), (x'35'), ('5e0'), ('5\t'),"
    "(-5), ('-5'), (0), (-0.0), ('-0'), (''), (x''), (' '), ('.'), ('e'), ('-'),"
    "(1000), (1e3), ('1e3'), ('1E3'), ('1_000'), (16), ('0x10'), (1.5), ('1.5'),"
    "('1.50'), (0.1), (0.1 + 0.2), ('0.3'), ('0.30000000000000004'), ('12abc'),"
    "(x'313261'), (9223372036854775807), (9223372036854775808),"
    "('9223372036854775807'), ('9223372036854775808'), (-9223372036854775807),"
    "(-9223372036854775808), ('-9223372036854775808'), (-9223372036854775808.0),"
    "(-9223372036854775809), ('-9223372036854775809'), (9007199254740993),"
    "(9007199254740992.0), ('9007199254740993'), (1000000000000000.0),"
    "(1000000000000000), ('1.0e+15'), (1e18), (1000000000000000000), (1e400),"
    "(-1e400), ('1e400'), ('Inf'), ('inf'), ('nan'), ('2024-01-05'),"
    "('2024-01-05 10:00'), ('abc'), ('ABC'), ('abc '), (x'616263'), (x'ff'),"
    "(CAST(x'ff' AS TEXT)), (char(65533)), (char(228)),"
    "(CAST(x'350061' AS TEXT)), (x'3500'), ('5' || char(0)), (char(160) || '5')";

/* Creates a database in which two columns contain `values`. `t.k` has the declared type. `s.k` has
 * no type, so SQLite does not convert its values. */
static sqlite3 *sqlite_with(const char *declared, bool utf8)
{
    sqlite3 *db = NULL;
    char sql[sizeof values * 2 + 256];
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA encoding = '%s'; CREATE TABLE t(k %s)%s; CREATE TABLE s(k);"
                   "INSERT INTO t VALUES %s; INSERT INTO s VALUES %s",
                   utf8 ? "UTF-8" : "UTF-16", declared ? declared : "",
                   declared && strcmp(declared, "ANY") == 0 ? " STRICT" : "", values,
                   values);
    CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

/* Returns the key of a row as the source reads it. */
static bg_bytes printed(sqlite3_stmt *row)
{
    const void *data = sqlite3_column_type(row, 0) == SQLITE_BLOB
                           ? sqlite3_column_blob(row, 0)
                           : sqlite3_column_text(row, 0);
    return (bg_bytes){ data ? data : "", (size_t)sqlite3_column_bytes(row, 0) };
}

/* If the key is canonical, verifies that every row that a lookup of the key finds is stored in the
 * filter under the same bytes as the key. The key is bound as an integer if possible, as text, and
 * as a blob. */
static void check_finds(sqlite3_stmt *lookup, enum key_form form, bg_bytes key)
{
    int64_t number = 0;
    const bool whole = source_integer(key, &number);
    bg_bytes held = key;
    const bool decides = key_form_spelling(form, &held) == KEY_CANONICAL;
    for (int way = whole ? 0 : 1; way < 3; way++) {
        const int code = way == 0   ? sqlite3_bind_int64(lookup, 1, number)
                         : way == 1 ? sqlite3_bind_text64(lookup, 1, key.data, key.len,
                                                          SQLITE_STATIC, SQLITE_UTF8)
                                    : sqlite3_bind_blob64(lookup, 1, key.data, key.len,
                                                          SQLITE_STATIC);
        CHECK_EQ(code, SQLITE_OK);
        while (sqlite3_step(lookup) == SQLITE_ROW) {
            const bg_bytes value = printed(lookup);
            const size_t len = key_form_normalize(form, value.data, value.len);
            CHECK(!decides
                  || (len == held.len && memcmp(value.data, held.data, len) == 0));
        }
        (void)sqlite3_reset(lookup);
    }
}

static void check_sqlite(const char *declared, enum key_form form, bool utf8)
{
    sqlite3 *db = sqlite_with(declared, utf8);
    sqlite3_stmt *lookup = NULL, *all = NULL;
    CHECK_EQ(sqlite3_prepare_v2(db, "SELECT k FROM t WHERE k = ?", -1, &lookup, NULL),
             SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "SELECT k FROM t UNION ALL SELECT k FROM s", -1,
                                &all, NULL),
             SQLITE_OK);
    while (sqlite3_step(all) == SQLITE_ROW) {
        check_finds(lookup, form, printed(all));
    }
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        check_finds(lookup, form,
                    (bg_bytes){ spellings[i].key, strlen(spellings[i].key) });
    }
    (void)sqlite3_finalize(lookup);
    (void)sqlite3_finalize(all);
    (void)sqlite3_close(db);
}

TEST(key_form__sqlite_finds_no_key_that_the_filter_denies)
{
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++) {
        for (int utf8 = 0; utf8 < 2; utf8++) {
            check_sqlite(declarations[i].declared,
                         utf8 ? declarations[i].form : declarations[i].utf16, utf8);
        }
    }
}

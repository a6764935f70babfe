/*
 * test_cli_records.c - tests how bytes are split into records and keys. Random input in every
 * format is split at every position, and the results are compared with those of a simple reference
 * implementation.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "support/check.h"
#include "support/reference_keys.h"
#include "support/streams.h"

#include <stdio.h>

static void fill(struct chunk *chunk, const char *bytes, size_t n)
{
    CHECK(chunk_reserve(chunk, n + 1));
    memcpy(chunk->bytes, bytes, n);
    chunk->used = n;
    chunk->path = "test";
}

static struct key_format random_format(void)
{
    struct key_format f = { .separator = '\n', .delimiter = ',' };
    const uint64_t records = check_random_below(4);
    f.records = records == 0   ? KEY_RECORDS_PREFIXED
                : records == 1 ? KEY_RECORDS_CSV
                               : KEY_RECORDS_SEPARATED;
    if (f.records == KEY_RECORDS_SEPARATED) {
        f.separator = check_random_below(3) ? '\n' : 0;
    }
    if (f.records != KEY_RECORDS_PREFIXED) {
        f.field = check_random_below(2) ? check_random_below(4) : 0;
        f.crlf = check_random_below(3) == 0;
        f.delimiter = check_random_below(2) ? ',' : '\t';
    }
    f.field += f.records == KEY_RECORDS_CSV && f.field == 0;
    f.blanks = f.records == KEY_RECORDS_SEPARATED && check_random_below(4) == 0;
    f.trim = check_random_below(3) == 0;
    f.lower = check_random_below(3) == 0;
    f.form = check_random_below(2) ? KEY_TEXT : (enum key_form)check_random_below(5);
    return f;
}

/* Returns a random byte: a special character, or a character that is typical of the key form. */
static char random_character(const struct key_format *f)
{
    static const char any[] =
        "\n\r\t ,\"\"\"aZ09-\0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED";
    static const char text[] = "aZ09 \xC3\xA9";
    static const char digits[] = "0123456789abcdefAF-\n\n";
    const bool is_text = f->form == KEY_TEXT || f->form == KEY_UTF16;
    /* `any` contains special characters. For text, two in three bytes come from `any`; for numbers,
     * only one in fifty. */
    if (check_random_below(150) < (is_text ? 100 : 3)) {
        return any[check_random_below(sizeof any - 1)];
    }
    if (is_text) {
        return text[check_random_below(sizeof text - 1)];
    }
    return digits[check_random_below(sizeof digits - 1)];
}

/* Generates up to `most` bytes. If records have length prefixes, all prefixes except possibly the
 * last are correct. */
static size_t random_bytes(const struct key_format *f, char *bytes, size_t most)
{
    const size_t n = check_random_below(most + 1);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = random_character(f);
    }
    for (size_t at = 0; f->records == KEY_RECORDS_PREFIXED && at + 4 <= n;) {
        const size_t length = check_random_below(12);
        memset(bytes + at, 0, 4);
        bytes[at] = (char)length;
        at += 4 + length;
    }
    return n;
}

/* Splits the bytes and compares the result with that of the reference implementation. Sets *refused
 * to true if a record has no valid key. */
static void check_split(const struct key_format *f, struct chunk *chunk, bool *refused)
{
    struct stream_capture said;
    stream_begin(&said, &stderr);
    const int code = keys_split(f, chunk);
    (void)stream_end(&said);
    CHECK(code == 0 || code == 3);
    CHECK((code == 0) == (said.n == 0));
    free(said.text);
    CHECK(reference_agrees(f, chunk, code));
    *refused = code != 0;
}

TEST(records__are_those_of_the_reference)
{
    enum { MOST = 300 };
    char bytes[MOST];
    struct chunk chunk = { 0 };
    size_t refusals = 0, records = 0;
    const size_t rounds = 20000 * check_scale();
    for (size_t round = 0; round < rounds; round++) {
        const struct key_format f = random_format();
        bool refused;
        fill(&chunk, bytes, random_bytes(&f, bytes, round % 3 ? 40 : MOST));
        check_split(&f, &chunk, &refused);
        refusals += refused;
        records += refused ? 0 : chunk.count;
    }
    CHECK(refusals > rounds / 20 && records > rounds); /* both cases occurred */
    chunk_free(&chunk);
}

/* Valid keys for the test records__every_combination_of_options, which writes each key with and
 * without quotes, and with various numbers of blanks before and after it. Random input rarely
 * contains such records. */
static const char *const formed_texts[][4] = {
    [KEY_TEXT] = { "", "aB", "Hello, \"\"World\"\"", "user12345678901234567890" },
    [KEY_INT64] = { "0", "-1", "12345678", "18446744073709551615" },
    [KEY_INT32] = { "0", "-2147483648", "12345678", "4294967295" },
    [KEY_HEX] = { "", "0a", "deadBEEF", "00112233445566778899aabbccddeeff" },
    [KEY_UTF16] = { "", "abcdef", "\xC3\xA9\xE6\x85\xA2", "\xF0\x9F\x98\x80 12345678" },
};

/* Writes a record with the text in the second field, surrounded by blanks and quotes if requested. */
static size_t put_record(const struct key_format *f, const char *text, bool quoted,
                         unsigned blanks, char *to)
{
    static const char around[] = "  \t ";
    size_t n = 0;
    if (f->field > 1) {
        to[n++] = 'x';
        to[n++] = f->delimiter;
    }
    const int length =
        snprintf(to + n, 200, "%s%.*s%s%.*s%s", quoted ? "\"" : "", (int)(blanks % 5),
                 around, text, (int)(blanks / 5), around, quoted ? "\"" : "");
    n += (size_t)length;
    if (f->crlf) {
        to[n++] = '\r';
    }
    to[n++] = f->separator;
    return n;
}

/* Checks all texts of the format's key form in a single chunk, each with and without quotes and
 * blanks. */
static size_t check_formed(const struct key_format *f)
{
    char bytes[4 * 2 * 15 * 256];
    size_t n = 0;
    struct chunk chunk = { 0 };
    for (size_t text = 0; text < 4; text++) {
        for (unsigned quoted = 0; quoted < 2; quoted++) {
            /* Except in CSV, quotes are part of the text, so quoted numbers are invalid. */
            const bool plain = quoted && f->records != KEY_RECORDS_CSV;
            if (plain && f->form != KEY_TEXT && f->form != KEY_UTF16) {
                continue;
            }
            for (unsigned blanks = 0; blanks < 15; blanks++) {
                if (f->trim || !blanks) {
                    n += put_record(f, formed_texts[f->form][text], quoted, blanks,
                                    bytes + n);
                }
            }
        }
    }
    fill(&chunk, bytes, n);
    const int code = keys_split(f, &chunk);
    CHECK_EQ(code, 0);
    CHECK(reference_agrees(f, &chunk, code));
    const size_t count = chunk.count;
    chunk_free(&chunk);
    return count;
}

TEST(records__every_combination_of_options)
{
    size_t records = 0;
    for (unsigned i = 0; i < 3 * 3 * 3 * 8 * 5; i++) {
        struct key_format f = { .separator = '\n', .form = (enum key_form)(i % 5) };
        unsigned rest = i / 5;
        f.trim = rest & 1;
        f.lower = rest & 2;
        f.crlf = rest & 4;
        rest /= 8;
        f.field = rest % 3;
        f.delimiter = ";\t|"[rest / 3 % 3];
        const unsigned kind = rest / 9;
        f.records = kind == 2 ? KEY_RECORDS_CSV : KEY_RECORDS_SEPARATED;
        f.separator = kind == 1 ? 0 : '\n';
        /* For CSV, field 0 becomes field 1, as in keys_format. */
        f.field = kind == 2 && f.field == 0 ? 1 : f.field;
        if (f.delimiter != '\t' || !f.trim) { /* trimming would remove tab delimiters */
            records += check_formed(&f);
        }
    }
    CHECK(records > 20000);
}

/* Wherever the input is split, the complete records before that position and the remaining bytes
 * together yield all records. */
TEST(records__may_be_cut_anywhere)
{
    enum { MOST = 90 };
    char bytes[MOST];
    struct chunk front = { 0 }, back = { 0 };
    for (size_t round = 0; round < 1000 * check_scale(); round++) {
        const struct key_format f = random_format();
        const size_t n = random_bytes(&f, bytes, MOST);
        for (size_t cut = 0; cut <= n; cut++) {
            const size_t whole = keys_whole(&f, bytes, cut);
            bool refused;
            CHECK_EQ(whole, reference_whole(&f, bytes, cut));
            fill(&front, bytes, whole);
            fill(&back, bytes + whole, n - whole);
            check_split(&f, &front, &refused);
            check_split(&f, &back, &refused);
        }
    }
    chunk_free(&front);
    chunk_free(&back);
}

/* Tests separators at every position in and around the 64-byte groups that keys_split examines at
 * once. */
TEST(records__separators_at_every_place)
{
    const struct key_format f = { .separator = '\n', .delimiter = '\t' };
    char bytes[200];
    struct chunk chunk = { 0 };
    for (size_t n = 0; n <= sizeof bytes; n++) {
        for (size_t at = 0; at < n; at++) {
            memset(bytes, 'x', n);
            bytes[at] = '\n';
            fill(&chunk, bytes, n);
            memset(chunk.bytes + n, '\n', 1); /* after its end */
            CHECK_EQ(keys_split(&f, &chunk), 0);
            CHECK_EQ(chunk.count, at + 1 < n ? 2 : 1);
            CHECK_EQ(chunk.keys[0].len, at);
            CHECK(reference_agrees(&f, &chunk, 0));
        }
    }
    chunk_free(&chunk);
}

static void check_keys(const struct key_format *f, const char *bytes, size_t n,
                       const char *const *keys, size_t count)
{
    struct chunk chunk = { 0 };
    fill(&chunk, bytes, n);
    CHECK_EQ(keys_split(f, &chunk), 0);
    CHECK_EQ(chunk.count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(chunk.keys[i].len, strlen(keys[i]));
        CHECK(memcmp(chunk.keys[i].data, keys[i], strlen(keys[i])) == 0);
    }
    chunk_free(&chunk);
}

#define CHECK_KEYS(format, text, ...)                                                  \
    do {                                                                               \
        static const char *const expected[] = { __VA_ARGS__ };                         \
        check_keys(&(format), text, sizeof(text) - 1, expected,                        \
                   sizeof expected / sizeof *expected);                                \
    } while (0)

/* The expected results are handwritten, so that the tests do not rely on the reference
 * implementation alone. */
TEST(records__by_hand)
{
    const struct key_format lines = { .separator = '\n', .delimiter = '\t' };
    const struct key_format nul = { .separator = 0 };
    const struct key_format windows = { .separator = '\n', .crlf = true };
    const struct key_format second = { .separator = '\n',
                                       .delimiter = '\t',
                                       .field = 2 };
    const struct key_format tidy = { .separator = '\n', .trim = true, .lower = true };
    const struct key_format hex = { .separator = '\n', .form = KEY_HEX };
    const struct key_format number = { .separator = '\n', .form = KEY_INT32 };
    const struct key_format wide = { .separator = '\n', .form = KEY_UTF16 };
    const struct key_format prefixed = { .records = KEY_RECORDS_PREFIXED };
    const struct key_format csv = {
        .records = KEY_RECORDS_CSV, .separator = '\n', .delimiter = ',', .field = 2
    };
    CHECK_KEYS(lines, "a\n\nb\n", "a", "", "b");
    CHECK_KEYS(lines, "a\nb", "a", "b");
    CHECK_KEYS(lines, "\n", "");
    CHECK_KEYS(lines, "a\r\nb\r", "a\r", "b\r");
    CHECK_KEYS(nul, "a\nb\0c\0", "a\nb", "c");
    CHECK_KEYS(windows, "a\r\nb\n\r\nc\r\r\n", "a", "b", "", "c\r");
    CHECK_KEYS(windows, "a\r\nb\r", "a", "b");
    CHECK_KEYS(second, "a\tb\tc\n\t\nx\na\tb", "b", "", "", "b");
    CHECK_KEYS(tidy, " \tApple PIE \nZ[\n  \n", "apple pie", "z[", "");
    CHECK_KEYS(hex, "616263\n7A7a\n\n", "abc", "zz", "");
    CHECK_KEYS(number, "1684234849\n-1\n4294967295\n", "abcd", "\xff\xff\xff\xff",
               "\xff\xff\xff\xff");
    CHECK_KEYS(wide, "\xE6\x85\xA2\n", "\x62\x61");
    CHECK_KEYS(prefixed, "\3\0\0\0a\nb\0\0\0\0\1\0\0\0x", "a\nb", "", "x");
    CHECK_KEYS(csv, "1,\"x, \"\"y\"\"\nz\",3\n1,b\n\"1,2\",c\nlonely\n", "x, \"y\"\nz",
               "b", "c", "");
    CHECK_KEYS(csv,
               "1,\"b\"\r\n2,\"c,\"\"\"\r\n3,\"\r\"\r\n4,d\r\n5,\"e\"\r,\n6,\"f\"\r",
               "b", "c,\"", "\r", "d\r", "\"e\"\r", "f");
}

static void check_refused(const struct key_format *f, const char *bytes, size_t n,
                          const char *message)
{
    struct chunk chunk = { 0 };
    struct stream_capture said;
    fill(&chunk, bytes, n);
    chunk.offset = 100;
    stream_begin(&said, &stderr);
    const int code = keys_split(f, &chunk);
    (void)stream_end(&said);
    CHECK_EQ(code, 3);
    CHECK_STR(said.text, message);
    free(said.text);
    chunk_free(&chunk);
}

#define SKIP "; to skip such records, use --skip-invalid"

TEST(records__what_has_no_key_is_named)
{
    struct key_format f = { .separator = '\n', .form = KEY_INT64 };
    check_refused(&f, "1\nx\n", 4,
                  "bloomgate: test: at byte 102: not valid int64: 'x'" SKIP "\n");
    check_refused(&f, "\n", 1,
                  "bloomgate: test: at byte 100: not valid int64: ''" SKIP "\n");
    check_refused(
        &f, "18446744073709551616", 20,
        "bloomgate: test: at byte 100: not valid int64: '18446744073709551616'" SKIP
        "\n");
    check_refused(
        &f, "-9223372036854775809", 20,
        "bloomgate: test: at byte 100: not valid int64: '-9223372036854775809'" SKIP
        "\n");
    f.form = KEY_HEX;
    check_refused(&f, "abc", 3,
                  "bloomgate: test: at byte 100: not valid hex: 'abc'" SKIP "\n");
    f.form = KEY_UTF16;
    check_refused(&f, "a\n\xff\n", 4,
                  "bloomgate: test: at byte 102: not valid UTF-8: '?'" SKIP "\n");
    f = (struct key_format){ .records = KEY_RECORDS_PREFIXED };
    check_refused(&f, "\1\0\0\0a\2\0\0\0b", 10,
                  "bloomgate: test: at byte 105: the last record is truncated\n");
    check_refused(&f, "\1\0\0", 3,
                  "bloomgate: test: at byte 100: the last record is truncated\n");
}

/* Tests every first byte, followed by bytes at the limits of the valid ranges: overlong sequences,
 * unpaired surrogates, values above the last code point, and truncated sequences. */
TEST(records__utf8_at_its_limits)
{
    static const char second[] = "\x01\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xFF";
    static const char *const behind[] = { "",         "\x7F",     "\x80",
                                          "\xBF",     "\xC0",     "\x80\x80",
                                          "\x80\xBF", "\xBF\xBF", "\x80\x7F",
                                          "\x80\xC0" };
    const struct key_format f = { .separator = '\n', .form = KEY_UTF16 };
    struct chunk chunk = { 0 };
    size_t refusals = 0, all = 0;
    for (unsigned first = 0; first < 256; first++) {
        for (size_t i = 0; i < sizeof second - 1; i++) {
            for (size_t j = 0; j < sizeof behind / sizeof *behind; j++) {
                char bytes[8];
                bool refused;
                const int n =
                    snprintf(bytes, sizeof bytes, "?%c%s", second[i], behind[j]);
                memcpy(bytes, &(unsigned char){ (unsigned char)first }, 1);
                fill(&chunk, bytes, (size_t)n);
                check_split(&f, &chunk, &refused);
                refusals += refused;
                all++;
            }
        }
    }
    CHECK(refusals > all / 2 && refusals < all);
    chunk_free(&chunk);
}

/* Key options that are written to a recipe, their text form, and parsed again are unchanged. */
TEST(records__recipes)
{
    for (int i = 0; i < 20; i++) {
        const struct key_format f = { .separator = '\n',
                                      .trim = i & 1,
                                      .lower = i & 2,
                                      .form = (enum key_form)(i / 4) };
        struct key_format again = { .separator = '\n' };
        char recipe[KEY_RECIPE];
        keys_recipe(&f, recipe);
        CHECK((i == 0) == (*recipe == 0));
        CHECK(keys_follow(recipe, &again));
        CHECK(again.trim == f.trim && again.lower == f.lower && again.form == f.form);
    }
    struct key_format f = { .form = KEY_INT32 };
    CHECK(keys_follow("lower,int64", &f));
    CHECK(f.lower && f.form == KEY_INT32); /* an explicit form overrides the recipe */
    CHECK(!keys_follow("upper", &f));
    CHECK(!keys_follow("trim,int", &f));
    CHECK(!keys_follow(",", &f));
}

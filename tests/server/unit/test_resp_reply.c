/*
 * test_resp_reply.c - tests replies in RESP2 and RESP3, and the buffer that they are written to.
 */
#include "resp/resp.h"
#include "support/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPLY_TEXT = 256 };

/* Returns the buffer's content as text, and empties the buffer. */
static const char *written(struct buffer *out, char text[REPLY_TEXT])
{
    CHECK(!out->overflow && buffer_waiting(out) < REPLY_TEXT);
    if (buffer_waiting(out)) {
        memcpy(text, out->data + out->begin, buffer_waiting(out));
    }
    text[buffer_waiting(out)] = 0;
    buffer_drop(out, buffer_waiting(out));
    return text;
}

/* Checks one reply in both protocols. */
#define CHECK_REPLY(call, resp2, resp3)                                                \
    do {                                                                               \
        for (int protocol = 2; protocol <= 3; protocol++) {                            \
            const struct reply r = resp_reply_to(&out, protocol);                      \
            call;                                                                      \
            CHECK_STR(written(&out, text), protocol == 2 ? (resp2) : (resp3));         \
        }                                                                              \
    } while (0)

TEST(resp_reply__lines)
{
    struct buffer out;
    char text[REPLY_TEXT];
    buffer_init(&out, 1000);
    CHECK_REPLY(reply_ok(&r), "+OK\r\n", "+OK\r\n");
    CHECK_REPLY(reply_status(&r, "PONG"), "+PONG\r\n", "+PONG\r\n");
    CHECK_REPLY(reply_status(&r, "OK2"), "+OK2\r\n", "+OK2\r\n");
    CHECK_REPLY(reply_status(&r, ""), "+\r\n", "+\r\n");
    CHECK_REPLY(reply_status(&r, "a\r\nb"), "+a  b\r\n", "+a  b\r\n");
    CHECK_REPLY(reply_error(&r, "ERR not found"), "-ERR not found\r\n",
                "-ERR not found\r\n");
    CHECK_REPLY(reply_error(&r, "ERR\n+OK\r"), "-ERR +OK \r\n", "-ERR +OK \r\n");
    CHECK_REPLY(reply_errorf(&r, "ERR %d\n%s", 5, "x"), "-ERR 5 x\r\n", "-ERR 5 x\r\n");
    buffer_free(&out);
}

TEST(resp_reply__integers)
{
    static const int64_t values[] = { 0,  1,   2,   -1,     9,         10,       11,
                                      99, 100, -10, 123456, INT64_MAX, INT64_MIN };
    struct buffer out;
    char text[REPLY_TEXT], expected[40];
    buffer_init(&out, 1000);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        (void)snprintf(expected, sizeof expected, ":%lld\r\n", (long long)values[i]);
        CHECK_REPLY(reply_integer(&r, values[i]), expected, expected);
    }
    for (size_t i = 0; i < 1000 * check_scale(); i++) {
        const int64_t value = (int64_t)check_random() >> check_random_below(64);
        (void)snprintf(expected, sizeof expected, ":%lld\r\n", (long long)value);
        CHECK_REPLY(reply_integer(&r, value), expected, expected);
    }
    buffer_free(&out);
}

/* Checks that many booleans are written like single ones, and that a buffer without enough space
 * gets none of them. */
TEST(resp_reply__booleans)
{
    enum { LIMIT = 4000, MOST = 200 };
    struct buffer many, single;
    buffer_init(&many, LIMIT);
    buffer_init(&single, LIMIT);
    for (size_t n = 0; n <= MOST; n++) {
        for (int protocol = 2; protocol <= 3; protocol++) {
            uint64_t bits[MOST / 64 + 1];
            const struct reply m = resp_reply_to(&many, protocol);
            const struct reply s = resp_reply_to(&single, protocol);
            for (size_t i = 0; i < MOST / 64 + 1; i++) {
                bits[i] = check_random();
            }
            m.ops->booleans(m.to, bits, n);
            for (size_t i = 0; i < n; i++) {
                reply_boolean(&s, bits[i / 64] >> i % 64 & 1);
            }
            CHECK(buffer_waiting(&many) == 4 * n && buffer_waiting(&single) == 4 * n);
            CHECK(n == 0
                  || memcmp(buffer_bytes(&many), buffer_bytes(&single), 4 * n) == 0);
            buffer_drop(&many, 4 * n);
            buffer_drop(&single, 4 * n);
        }
    }
    const uint64_t bits[MOST / 64 + 1] = { 0 };
    const struct reply r = resp_reply_to(&many, 2);
    many.limit = 4 * MOST - 1;
    r.ops->booleans(r.to, bits, MOST);
    CHECK(many.overflow && buffer_waiting(&many) == 0);
    buffer_free(&many);
    buffer_free(&single);
}

TEST(resp_reply__what_the_protocols_have_apart)
{
    struct buffer out;
    char text[REPLY_TEXT];
    buffer_init(&out, 1000);
    CHECK_REPLY(reply_boolean(&r, true), ":1\r\n", "#t\r\n");
    CHECK_REPLY(reply_boolean(&r, false), ":0\r\n", "#f\r\n");
    CHECK_REPLY(reply_null(&r), "$-1\r\n", "_\r\n");
    CHECK_REPLY(reply_array(&r, 0), "*0\r\n", "*0\r\n");
    CHECK_REPLY(reply_array(&r, 12), "*12\r\n", "*12\r\n");
    CHECK_REPLY(reply_map(&r, 0), "*0\r\n", "%0\r\n");
    CHECK_REPLY(reply_map(&r, 7), "*14\r\n", "%7\r\n");
    CHECK_REPLY(reply_set(&r, 3), "*3\r\n", "~3\r\n");
    CHECK_REPLY(reply_real(&r, 0.5), "$3\r\n0.5\r\n", ",0.5\r\n");
    CHECK_REPLY(reply_real(&r, (double)INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    CHECK_REPLY(reply_real(&r, -(double)INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    CHECK_REPLY(reply_real(&r, (double)NAN), "$3\r\nnan\r\n", ",nan\r\n");
    CHECK_REPLY(reply_real(&r, -(double)NAN), "$3\r\nnan\r\n", ",nan\r\n");
    buffer_free(&out);
}

TEST(resp_reply__strings)
{
    struct buffer out;
    char text[REPLY_TEXT];
    buffer_init(&out, 1000);
    CHECK_REPLY(reply_bulk(&r, "abc", 3), "$3\r\nabc\r\n", "$3\r\nabc\r\n");
    CHECK_REPLY(reply_bulk(&r, NULL, 0), "$0\r\n\r\n", "$0\r\n\r\n");
    CHECK_REPLY(reply_text(&r, "a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    const struct reply r = resp_reply_to(&out, 2);
    reply_bulk(&r, "\0\xff\0", 3);
    CHECK_EQ(buffer_waiting(&out), 9);
    CHECK(memcmp(out.data + out.begin, "$3\r\n\0\xff\0\r\n", 9) == 0);
    buffer_free(&out);
}

/* ---- Doubles ----------------------------------------------------------------------------- */

/* Counts the digits of a decimal, without leading and trailing zeros. */
static int digits_of(const char *text)
{
    int digits = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text == '0') {
            zeros += digits > 0;
        } else if (*text >= '1' && *text <= '9') {
            digits += zeros + 1;
            zeros = 0;
        }
    }
    return digits;
}

/* Checks that the text parses to the same value, and that the nearest decimal with one digit fewer
 * does not, so the text is as short as possible. */
static void check_real(double value)
{
    char text[RESP_REAL_TEXT], shorter[RESP_REAL_TEXT];
    const size_t n = resp_reply_real_text(value, text);
    CHECK_EQ(n, strlen(text));
    const double back = strtod(text, NULL);
    CHECK(memcmp(&back, &value, sizeof value) == 0);
    const int digits = digits_of(text);
    CHECK(digits <= 17);
    if (digits > 1) {
        (void)snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
        CHECK(strtod(shorter, NULL) != value);
    }
}

TEST(resp_reply__doubles_are_short_and_exact)
{
    static const struct {
        double value;
        const char *text;
    } known[] = { { 0, "0" },
                  { -0.0, "-0" },
                  { 1, "1" },
                  { -2.5, "-2.5" },
                  { 0.1, "0.1" },
                  { 0.3, "0.3" },
                  { 0.1 + 0.2, "0.30000000000000004" },
                  { 1.0 / 3, "0.3333333333333333" },
                  { 1e15, "1e+15" },
                  { 123456789012345, "123456789012345" },
                  { 9007199254740992, "9007199254740992" },
                  { 5e-324, "5e-324" },
                  { DBL_MAX, "1.7976931348623157e+308" },
                  { 0.001, "0.001" } };
    char text[RESP_REAL_TEXT];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        (void)resp_reply_real_text(known[i].value, text);
        CHECK_STR(text, known[i].text);
        check_real(known[i].value);
    }
    for (size_t i = 0; i < 20000 * check_scale(); i++) {
        const uint64_t bits = check_random();
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            check_real(value);
        }
        check_real((double)(int64_t)check_random_below(100000) / 1000);
        check_real(ldexp((double)check_random_below(1000), -1074)); /* denormal */
    }
}

/* ---- The buffer -------------------------------------------------------------------------- */

TEST(buffer__grows_and_drops)
{
    struct buffer b;
    uint64_t in = 0, out = 0;
    buffer_init(&b, 1u << 20);
    CHECK(!b.data);
    for (size_t i = 0; i < 3000; i++) {
        for (size_t k = (size_t)check_random_below(40); k; k--, in++) {
            buffer_put(&b, &in, sizeof in);
        }
        for (size_t k = (size_t)check_random_below(42); k && out < in; k--, out++) {
            uint64_t value;
            memcpy(&value, b.data + b.begin, sizeof value);
            CHECK_EQ(value, out);
            buffer_drop(&b, sizeof value);
        }
        CHECK_EQ(buffer_waiting(&b), (in - out) * 8);
    }
    CHECK(!b.overflow);
    CHECK(b.room <= 1u << 20);
    buffer_clear(&b, 0);
    CHECK(!b.data && b.limit == 1u << 20);
    buffer_free(&b);
}

TEST(buffer__stays_within_its_limit)
{
    struct buffer b;
    buffer_init(&b, 10);
    buffer_put(&b, "0123456789", 10);
    CHECK(!b.overflow);
    buffer_drop(&b, 4);
    buffer_put(&b, "abcd", 4);
    CHECK(!b.overflow && buffer_waiting(&b) == 10);
    CHECK(memcmp(b.data + b.begin, "456789abcd", 10) == 0);
    buffer_put(&b, "", 0);
    CHECK(!b.overflow);
    buffer_put(&b, "x", 1);
    CHECK(b.overflow && buffer_waiting(&b) == 10);
    buffer_drop(&b, 10);
    /* after an overflow, nothing is added, although there is space */
    buffer_put(&b, "x", 1);
    CHECK_EQ(buffer_waiting(&b), 0);
    buffer_clear(&b, 100);
    buffer_put(&b, "x", 1);
    CHECK(!b.overflow && buffer_waiting(&b) == 1);
    buffer_free(&b);
    buffer_init(&b, SIZE_MAX);
    buffer_put(&b, "01234567890123456789", 20);
    buffer_drop(&b, 5);
    CHECK(!buffer_space(
        &b, SIZE_MAX - 17)); /* within the limit, but too large to be allocated */
    CHECK(b.overflow);
    buffer_clear(&b, 0);
    if (!CHECK_SANITIZED) { /* a sanitizer would abort at such a large allocation */
        CHECK(!buffer_space(&b, SIZE_MAX / 2));
        CHECK(b.overflow);
    }
    buffer_free(&b);
}

TEST(buffer__texts)
{
    struct buffer b;
    char text[REPLY_TEXT];
    buffer_init(&b, 1000);
    buffer_number(&b, 0);
    buffer_text(&b, " ");
    buffer_number(&b, UINT64_MAX);
    buffer_line(&b, "", 0);
    buffer_line(&b, "a\r\nb\0c", 6);
    CHECK_STR(written(&b, text), "0 18446744073709551615a  b c");
    buffer_free(&b);
}

/* If a reply does not fit, no part of it is written, and nothing is written after it. */
TEST(resp_reply__overflow)
{
    for (size_t limit = 1; limit < 100; limit++) {
        struct buffer out;
        buffer_init(&out, limit);
        const struct reply r = resp_reply_to(&out, 2);
        size_t whole = 0;
        for (size_t i = 0; i < 10; i++) {
            reply_text(&r, "0123456789");
            whole += !out.overflow;
            CHECK_EQ(out.used, whole * 17);
            CHECK(out.used <= limit);
        }
        CHECK(out.overflow);
        reply_integer(&r, 1);
        CHECK_EQ(out.used, whole * 17);
        buffer_free(&out);
    }
    struct buffer out;
    buffer_init(&out, SIZE_MAX);
    const struct reply r = resp_reply_to(&out, 3);
    reply_bulk(&r, "", SIZE_MAX);
    CHECK(out.overflow && !out.data);
    buffer_free(&out);
}

/* test_reply_scan.c - tests parsing of partial and invalid replies. */
#include "support/check.h"

#include "reply_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(entries) (sizeof(entries) / sizeof *(entries))

/* Parses text that arrives byte by byte. Returns the state and the length of the reply. */
static enum reply_state drip(const char *text, size_t n, size_t *length)
{
    struct reply_scan scan = { 0 };
    enum reply_state state = REPLY_MORE;
    char *copy =
        malloc(n ? n : 1); /* so that a sanitizer detects reads beyond the end */
    for (size_t i = 0; i <= n && state == REPLY_MORE; i++) {
        memcpy(copy, text, i);
        state = reply_scan(&scan, copy, i);
    }
    *length = scan.at;
    free(copy);
    return state;
}

static enum reply_state at_once(const char *text, size_t n, size_t *length)
{
    struct reply_scan scan = { 0 };
    const enum reply_state state = reply_scan(&scan, text, n);
    *length = scan.at;
    return state;
}

TEST(ends_are_found)
{
    static const char *const whole[] = {
        "+OK\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*-1\r\n",
        "+\r\n",
        "*2\r\n:1\r\n*2\r\n$1\r\nx\r\n+y\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"
    };
    for (size_t i = 0; i < COUNT(whole); i++) {
        char text[200];
        size_t length = 0, n = strlen(whole[i]);
        (void)snprintf(text, sizeof text, "%s+more\r\n", whole[i]);
        CHECK_EQ(at_once(text, strlen(text), &length), REPLY_WHOLE);
        CHECK_EQ(length, n);
        CHECK_EQ(drip(whole[i], n, &length), REPLY_WHOLE);
        CHECK_EQ(length, n);
        for (size_t cut = 0; cut < n; cut++) {
            CHECK_EQ(drip(whole[i], cut, &length), REPLY_MORE);
        }
    }
}

TEST(what_is_no_reply)
{
    static const char *const bad[] = {
        "OK\r\n",
        "%1\r\n",
        ":\r\n",
        ":1x\r\n",
        ":--1\r\n",
        ":1\rx",
        "$-2\r\n",
        "$1\r\nab\r\n",
        "*-2\r\n",
        "*x\r\n",
        "\r\n",
        "$1a\r\n",
        "*3000000000\r\n",
        ":1234567890123456789\r\n",
        "*1\r\n!",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t length = 0;
        if (at_once(bad[i], strlen(bad[i]), &length) != REPLY_BAD
            || drip(bad[i], strlen(bad[i]), &length) != REPLY_BAD) {
            check_fail(__FILE__, __LINE__, "invalid reply %zu was accepted", i);
        }
    }
}

TEST(a_string_has_a_limit)
{
    static const char *const large[] = { "$2147483648\r\n", "$99999999999\r\n",
                                         "*2\r\n+a\r\n$2147483648\r\n" };
    static const char fits[] = "$2147483647\r\n";
    size_t length = 0;
    for (size_t i = 0; i < COUNT(large); i++) {
        CHECK_EQ(at_once(large[i], strlen(large[i]), &length), REPLY_LARGE);
        CHECK_EQ(drip(large[i], strlen(large[i]), &length), REPLY_LARGE);
    }
    CHECK_EQ(at_once(fits, sizeof fits - 1, &length), REPLY_MORE);
}

TEST(a_line_has_a_limit)
{
    static char text[REPLY_LINE + 2];
    size_t length = 0;
    memset(text, 'x', sizeof text);
    text[0] = '+';
    CHECK_EQ(at_once(text, REPLY_LINE - 1, &length), REPLY_MORE);
    CHECK_EQ(at_once(text, REPLY_LINE, &length), REPLY_BAD);
}

TEST(items)
{
    static const char text[] =
        "*4\r\n:7\r\n*2\r\n+a\r\n$-1\r\n$2\r\nbc\r\n-MOVED 1 x:2\r\n";
    const bg_bytes reply = { text, sizeof text - 1 };
    size_t at = 0;
    struct reply_item item = reply_next(reply, &at);
    CHECK(item.type == '*' && item.number == 4);
    item = reply_next(reply, &at);
    CHECK(item.type == ':' && item.number == 7);
    reply_skip(reply, &at); /* the list */
    item = reply_next(reply, &at);
    CHECK(item.type == '$' && item.text.len == 2
          && memcmp(item.text.data, "bc", 2) == 0);
    item = reply_next(reply, &at);
    CHECK(item.type == '-' && reply_begins(item.text, "MOVED"));
    CHECK(!reply_begins(item.text, "MOVE")
          && !reply_begins(item.text, "MOVED 1 x:2 y"));
    item = reply_next(reply, &at);
    CHECK_EQ(item.type, 0);
    reply_skip(reply, &at);
    CHECK_EQ(at, reply.len);
}

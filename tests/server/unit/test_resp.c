/*
 * test_resp.c - tests RESP requests that are split at every byte, reach the limits, or are
 * malformed in each way that has its own error message. The results for random requests are
 * compared with those of a reference parser that is as simple as possible.
 */
#include "support/check.h"
#include "support/reference_resp.h"

static const struct resp_limits defaults = RESP_LIMITS_DEFAULT;

#define TEXT(literal) (literal), sizeof(literal) - 1

/* Parses a stream as a whole, split in two at every possible position, and in random chunks, many
 * of them single bytes. The parsed requests must always equal the requests that the reference
 * parser returns. */
static void tell(struct resp_story *story, const char *bytes, size_t n,
                 const struct resp_limits *limits)
{
    struct resp_story other;
    resp_story_init(story);
    resp_story_tell(story, bytes, n, limits, (struct resp_cuts){ 0, 0 });
    resp_story_init(&other);
    reference_resp_tell(&other, bytes, n, limits);
    CHECK(resp_story_equal(story, &other));
    resp_story_free(&other);
    for (size_t cut = 1; cut < n && n < 2000; cut++) {
        resp_story_init(&other);
        resp_story_tell(&other, bytes, n, limits, (struct resp_cuts){ cut, 0 });
        CHECK(resp_story_equal(story, &other));
        resp_story_free(&other);
    }
    for (uint64_t random = 1; random < 20; random++) {
        resp_story_init(&other);
        resp_story_tell(&other, bytes, n, limits, (struct resp_cuts){ 0, random });
        CHECK(resp_story_equal(story, &other));
        resp_story_free(&other);
    }
}

/* Checks that a stream contains these requests, as resp_story formats them, and ends without an
 * error. */
static void check_requests(const char *bytes, size_t n, const char *expected,
                           size_t expected_n)
{
    struct resp_story story;
    tell(&story, bytes, n, &defaults);
    CHECK_EQ(story.end, RESP_PARTIAL);
    CHECK_EQ(story.consumed, n);
    CHECK_EQ(story.requests.used, expected_n);
    CHECK(expected_n == 0 || memcmp(story.requests.data, expected, expected_n) == 0);
    resp_story_free(&story);
}

/* Checks that a stream ends with this error after the given number of requests. */
static void check_error_within(const char *bytes, size_t n, const char *error,
                               size_t requests, const struct resp_limits *limits)
{
    struct resp_story story;
    tell(&story, bytes, n, limits);
    CHECK_EQ(story.end, RESP_ERROR);
    CHECK_STR(story.error, error);
    CHECK_EQ(story.count, requests);
    resp_story_free(&story);
}

static void check_error(const char *bytes, size_t n, const char *error)
{
    check_error_within(bytes, n, error, 0, &defaults);
}

/* ---- Valid requests ---------------------------------------------------------------------- */

#define EXISTS "*3\r\n$9\r\nBF.EXISTS\r\n$3\r\nkey\r\n$8\r\nabcdefgh\r\n"

TEST(resp__arrays)
{
    check_requests(TEXT(EXISTS), TEXT(EXISTS));
    check_requests(TEXT(EXISTS EXISTS EXISTS), TEXT(EXISTS EXISTS EXISTS));
    check_requests(TEXT("*1\r\n$0\r\n\r\n"), TEXT("*1\r\n$0\r\n\r\n"));
    check_requests(TEXT("*2\r\n$4\r\n\r\n\r\n\r\n$3\r\n\0\xff*\r\n"),
                   TEXT("*2\r\n$4\r\n\r\n\r\n\r\n$3\r\n\0\xff*\r\n"));
}

TEST(resp__nothing_is_skipped_over)
{
    check_requests(TEXT(""), TEXT(""));
    check_requests(TEXT("\r\n\n*0\r\n  \r\n*-1\r\n*-79\r\n*-80\r\n"), TEXT(""));
    check_requests(TEXT("\r\n*0\r\n" EXISTS "\n*-1\r\n" EXISTS "\r\n"),
                   TEXT(EXISTS EXISTS));
}

TEST(resp__more_arguments_than_fit_into_the_parser)
{
    struct buffer stream;
    buffer_init(&stream, SIZE_MAX);
    const struct reply r = resp_reply_to(&stream, 2);
    for (size_t n = 1; n < 40; n++) {
        buffer_clear(&stream, SIZE_MAX);
        reply_array(&r, n);
        for (size_t i = 0; i < n; i++) {
            reply_bulk(&r, "0123456789abcdef", i % 17);
        }
        buffer_text(&stream, "PING\r\n");
        const size_t used = stream.used;
        const struct resp_cuts cuts[] = { { 0, 0 }, { 9, 0 }, { 0, n } };
        for (size_t i = 0; i < 3; i++) {
            struct resp_story story;
            resp_story_init(&story);
            resp_story_tell(&story, stream.data, used, &defaults, cuts[i]);
            CHECK_EQ(story.count, 2);
            CHECK(story.requests.data && stream.data
                  && memcmp(story.requests.data, stream.data, used - 6) == 0);
            resp_story_free(&story);
        }
    }
    buffer_free(&stream);
}

TEST(resp__lines)
{
    check_requests(TEXT("PING\r\n"), TEXT("*1\r\n$4\r\nPING\r\n"));
    check_requests(TEXT("PING\n"), TEXT("*1\r\n$4\r\nPING\r\n"));
    check_requests(TEXT(" \t a  bc\t\r\n"), TEXT("*2\r\n$1\r\na\r\n$2\r\nbc\r\n"));
    check_requests(TEXT("a\rb\v\fc\r\n"), TEXT("*2\r\n$1\r\na\r\n$4\r\nb\v\fc\r\n"));
    check_requests(TEXT("a\0b \0\r\n"), TEXT("*2\r\n$3\r\na\0b\r\n$1\r\n\0\r\n"));
    check_requests(TEXT("$3\r\n"), TEXT("*1\r\n$2\r\n$3\r\n"));
}

TEST(resp__quotes)
{
    check_requests(TEXT("\"a b\" 'c d'\r\n"), TEXT("*2\r\n$3\r\na b\r\n$3\r\nc d\r\n"));
    check_requests(TEXT("\"\" ''\r\n"), TEXT("*2\r\n$0\r\n\r\n$0\r\n\r\n"));
    check_requests(TEXT("\"\\x00\\xfF\\n\\r\\t\\b\\a\\\\\\\"\\q\"\r\n"),
                   TEXT("*1\r\n$10\r\n\0\xff\n\r\t\b\a\\\"q\r\n"));
    check_requests(TEXT("\"\\xg0\\x0\" x\r\n"),
                   TEXT("*2\r\n$5\r\nxg0x0\r\n$1\r\nx\r\n"));
    check_requests(TEXT("\"\\x4a\\xA4\"\n"), TEXT("*1\r\n$2\r\nJ\xa4\r\n"));
    check_requests(TEXT("'\\'\\n\\x41\"'\r\n"), TEXT("*1\r\n$8\r\n'\\n\\x41\"\r\n"));
    check_requests(TEXT("ab\"c d\"\fx ab'c d'\r\n"),
                   TEXT("*3\r\n$5\r\nabc d\r\n$1\r\nx\r\n$5\r\nabc d\r\n"));
}

/* ---- Invalid requests -------------------------------------------------------------------- */

TEST(resp__errors_of_quotes)
{
    static const char *const error = "Protocol error: unbalanced quotes in request";
    check_error(TEXT("\"a\r\n"), error);
    check_error(TEXT("'a\r\n"), error);
    check_error(TEXT("\"a\"b\r\n"), error);
    check_error(TEXT("'a''b'\r\n"), error);
    check_error(TEXT("a\"b\"c\r\n"), error);
    check_error(TEXT("\"a\\\r\n"), error);
    check_error(TEXT("\"a\\\"\r\n"), error);
    check_error(TEXT("'a\\'\r\n"), error);
    check_error_within(TEXT("PING\r\n\"\r\n"), error, 1, &defaults);
}

TEST(resp__errors_of_counts)
{
    static const char *const error = "Protocol error: invalid multibulk length";
    static const char *const bad[] = { "*\r\n",
                                       "*x\r\n",
                                       "*1x\r\n",
                                       "*+1\r\n",
                                       "*01\r\n",
                                       "*-0\r\n",
                                       "*-\r\n",
                                       "* 1\r\n",
                                       "*1 \r\n",
                                       "*00\r\n",
                                       "*1048577\r\n",
                                       "*2147483648\r\n",
                                       "*18446744073709551617\r\n",
                                       "*9223372036854775807\r\n",
                                       "*1\rx",
                                       "*\n\r\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_error(bad[i], strlen(bad[i]), error);
    }
    check_error_within(TEXT(EXISTS "*y\r\n"), error, 1, &defaults);
}

TEST(resp__errors_of_lengths)
{
    static const char *const error = "Protocol error: invalid bulk length";
    static const char *const bad[] = {
        "*1\r\n$\r\n",           "*1\r\n$-1\r\n",  "*1\r\n$x\r\n",
        "*1\r\n$01\r\n",         "*1\r\n$1\rx",    "*1\r\n$67108865\r\n",
        "*1\r\n$4294967296\r\n", "*1\r\n$1\n\r\n", "*1\r\n$99999999999999999999\r\n"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_error(bad[i], strlen(bad[i]), error);
    }
    check_error(TEXT("*1\r\n$1\r\nabc"), "Protocol error: expected CRLF after a bulk");
    check_error(TEXT("*1\r\n$1\r\na\nb"), "Protocol error: expected CRLF after a bulk");
    check_error(TEXT("*1\r\n$1\r\na\rb"), "Protocol error: expected CRLF after a bulk");
}

TEST(resp__errors_of_types)
{
    check_error(TEXT("*1\r\nx"), "Protocol error: expected '$', got 'x'");
    check_error(TEXT("*1\r\n*1\r\n"), "Protocol error: expected '$', got '*'");
    check_error(TEXT("*1\r\n:1\r\n"), "Protocol error: expected '$', got ':'");
    check_error(TEXT("*1\r\n\r\n"), "Protocol error: expected '$', got '\\x0d'");
    check_error(TEXT("*1\r\n\0"), "Protocol error: expected '$', got '\\x00'");
    check_error(TEXT("*1\r\n\xff"), "Protocol error: expected '$', got '\\xff'");
    check_error(TEXT("*2\r\n$1\r\na\r\n "), "Protocol error: expected '$', got ' '");
}

TEST(resp__error_stays)
{
    char text[] = "*x\r\n", good[] = "PING\r\n";
    struct resp_parser p;
    resp_parser_init(&p, &defaults);
    CHECK_EQ(resp_parse(&p, text, 4), RESP_ERROR);
    CHECK_EQ(resp_parse(&p, good, 6), RESP_ERROR);
    CHECK_STR(p.error, "Protocol error: invalid multibulk length");
    CHECK_EQ(p.argc, 0);
    resp_parser_free(&p);
}

/* ---- Limits ------------------------------------------------------------------------------ */

/* Writes `before`, then `n` copies of `c`, then `after`. Returns the length of the text. */
static size_t padded(char *to, const char *before, char c, size_t n, const char *after)
{
    const char *begin = to;
    while (*before) {
        *to++ = *before++;
    }
    memset(to, c, n);
    to += n;
    while (*after) {
        *to++ = *after++;
    }
    return (size_t)(to - begin);
}

TEST(resp__limits_of_lines)
{
    static char text[70000];
    struct resp_limits small = defaults;
    struct resp_story story;
    small.line = 100;
    const struct {
        const char *before, *error;
    } lines[] = { { "", "Protocol error: too big inline request" },
                  { "*", "Protocol error: too big mbulk count string" },
                  { "*1\r\n$", "Protocol error: too big bulk count string" } };
    for (size_t i = 0; i < 3; i++) {
        const size_t type = i > 0;
        size_t n = padded(text, lines[i].before, '1', 101 - type, "\r\n");
        check_error_within(text, n, lines[i].error, 0, &small);
        check_error_within(text, n - 2, lines[i].error, 0, &small);
        n = padded(text, lines[i].before, '1', 100 - type, "");
        tell(&story, text, n, &small); /* incomplete, but not too long yet */
        CHECK_EQ(story.end, RESP_PARTIAL);
        resp_story_free(&story);
        n = padded(text, lines[i].before, '1', 65537 - type, "");
        check_error(text, n, lines[i].error);
    }
    tell(&story, text, padded(text, "", 'x', 99, "\r\n"), &small);
    CHECK_EQ(story.count, 1);
    resp_story_free(&story);
    tell(&story, text, padded(text, "", 'x', 65535, "\r\n"), &defaults);
    CHECK_EQ(story.count, 1);
    CHECK_EQ(story.requests.used, 65535 + 4 + 8 + 2);
    resp_story_free(&story);
}

TEST(resp__limits_of_sizes)
{
    const struct resp_limits few = {
        .arguments = 2, .bulk = 5, .line = 100, .request = 30
    };
    struct resp_story story;
    tell(&story, TEXT("*2\r\n$5\r\nabcde\r\n$5\r\nabcde\r\na b\r\n"), &few);
    CHECK_EQ(story.count, 2);
    resp_story_free(&story);
    check_error_within(TEXT("*3\r\n$1"), "Protocol error: invalid multibulk length", 0,
                       &few);
    check_error_within(TEXT("a b c\r\n"), "Protocol error: invalid multibulk length", 0,
                       &few);
    check_error_within(TEXT("a b\r\n*1\r\n$6\r\n"),
                       "Protocol error: invalid bulk length", 1, &few);
    struct resp_limits tight = few;
    tight.request = 24; /* *2 $5 abcde $5 abcde is 26 bytes with the last CRLF */
    tell(&story, TEXT("*2\r\n$5\r\nabcde\r\n$5\r\nabcde\r\n"), &tight);
    CHECK_EQ(story.count, 1);
    resp_story_free(&story);
    tight.request = 23;
    check_error_within(TEXT("*2\r\n$5\r\nabcde\r\n$5\r\n"),
                       "Protocol error: too big request", 0, &tight);
    check_error_within(TEXT("*1\r\n$5\r\nabcde\r\n*2\r\n$5\r\nabcde\r\n$5\r\n"),
                       "Protocol error: too big request", 1, &tight);
}

TEST(resp__limits_of_strangers)
{
    static const struct resp_limits strangers = RESP_LIMITS_STRANGERS;
    struct resp_story story;
    tell(&story, TEXT("*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n"), &strangers);
    CHECK_EQ(story.count, 1);
    resp_story_free(&story);
    check_error_within(TEXT("*11\r\n"),
                       "Protocol error: unauthenticated multibulk length", 0,
                       &strangers);
    check_error_within(TEXT("a b c d e f g h i j k\r\n"),
                       "Protocol error: unauthenticated multibulk length", 0,
                       &strangers);
    check_error_within(TEXT("*2\r\n$16385\r\n"),
                       "Protocol error: unauthenticated bulk length", 0, &strangers);
    check_error_within(TEXT("*2\r\n$-1\r\n"), "Protocol error: invalid bulk length", 0,
                       &strangers);
}

/* ---- Cost -------------------------------------------------------------------------------- */

TEST(resp__what_is_announced_takes_no_memory)
{
    struct resp_limits wide = defaults;
    char text[] = "*1048576\r\n$536870912\r\nabc";
    struct resp_parser p;
    wide.bulk = RESP_BULK_HIGHEST;
    wide.request = SIZE_MAX / 2;
    resp_parser_init(&p, &wide);
    CHECK_EQ(resp_parse(&p, text, sizeof text - 1), RESP_PARTIAL);
    CHECK(p.argv == p.few);
    CHECK_EQ(p.need, 536870912 - 3 + 2 + 1048575 * 6);
    CHECK_EQ(p.consumed, 0);
    resp_parser_free(&p);
}

TEST(resp__need_is_true)
{
    static const char *const requests[] = { EXISTS, "*1\r\n$0\r\n\r\n",
                                            "PING \"a b\"\r\n",
                                            "*2\r\n$10\r\n0123456789\r\n$0\r\n\r\n" };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const size_t n = strlen(requests[i]);
        for (size_t there = 0; there < n; there++) {
            char text[64];
            struct resp_parser p;
            memcpy(text, requests[i], n);
            resp_parser_init(&p, &defaults);
            CHECK_EQ(resp_parse(&p, text, there), RESP_PARTIAL);
            CHECK(p.need >= 1 && p.need <= n - there);
            resp_parser_free(&p);
        }
    }
}

/* Feeds the parser a stream containing one request, in chunks. Between chunks, all bytes that
 * the parser reported as consumed are overwritten, so the test fails if the parser reads them
 * again. Bytes that are consumed with the last chunk are not overwritten, so that the last string
 * can be checked. */
static void feed_once(struct resp_parser *p, char *bytes, size_t n, size_t piece,
                      size_t *calls)
{
    size_t wiped = 0;
    *calls = 0;
    for (size_t there = 0; there < n;) {
        there = n - there > piece ? there + piece : n;
        const enum resp_result result = resp_parse(p, bytes, there);
        ++*calls;
        CHECK_EQ(result, there < n ? RESP_PARTIAL : RESP_OK);
        if (result == RESP_PARTIAL) {
            memset(bytes + wiped, '!', p->at - wiped);
            wiped = p->at;
        }
    }
}

TEST(resp__a_million_arguments_are_looked_at_once)
{
    /* With 7-byte chunks, a quadratic parser would take too long. */
    static const size_t pieces[] = { 16384, 7 };
    const size_t count = 1000000;
    struct buffer stream;
    buffer_init(&stream, SIZE_MAX);
    for (size_t i = 0; i < 2; i++) {
        const struct reply r = resp_reply_to(&stream, 2);
        struct resp_parser p;
        size_t calls;
        buffer_clear(&stream, SIZE_MAX);
        reply_array(&r, count);
        for (size_t k = 0; k < count; k++) {
            reply_bulk(&r, "abcdefghij", k % 11);
        }
        resp_parser_init(&p, &defaults);
        feed_once(&p, stream.data, stream.used, pieces[i], &calls);
        CHECK_EQ(calls, (stream.used + pieces[i] - 1) / pieces[i]);
        CHECK_EQ(p.argc, count);
        CHECK_EQ(p.consumed, stream.used);
        for (size_t k = 0; k < count; k++) {
            CHECK_EQ(p.argv[k].len, k % 11);
        }
        CHECK((const char *)p.argv[count - 1].data + (count - 1) % 11 + 2
              == stream.data + stream.used);
        CHECK(p.room < 2 * count + 64);
        CHECK_EQ(resp_parse(&p, stream.data, 0), RESP_PARTIAL);
        CHECK(p.argv == p.few); /* freed */
        resp_parser_free(&p);
    }
    buffer_free(&stream);
}

TEST(resp__a_long_string_is_not_looked_at)
{
    const size_t length = 32u << 20;
    struct buffer stream;
    struct resp_parser p;
    size_t calls;
    buffer_init(&stream, SIZE_MAX);
    const struct reply r = resp_reply_to(&stream, 2);
    char *bulk = calloc(1, length);
    CHECK(bulk);
    reply_array(&r, 2);
    reply_bulk(&r, bulk, length);
    reply_bulk(&r, "x", 1);
    resp_parser_init(&p, &defaults);
    feed_once(&p, stream.data, stream.used, 16384, &calls);
    CHECK_EQ(p.argc, 2);
    CHECK_EQ(p.argv[0].len, length);
    CHECK(((const char *)p.argv[1].data)[0] == 'x');
    resp_parser_free(&p);
    buffer_free(&stream);
    free(bulk);
}

TEST(resp__a_long_line_is_looked_at_once)
{
    static char text[60002];
    struct resp_parser p;
    CHECK_EQ(padded(text, "", 'x', 60000, "\r\n"), sizeof text);
    resp_parser_init(&p, &defaults);
    for (size_t there = 1; there < sizeof text; there++) {
        CHECK_EQ(resp_parse(&p, text, there), RESP_PARTIAL);
        CHECK_EQ(p.scanned, there);
    }
    CHECK_EQ(resp_parse(&p, text, sizeof text), RESP_OK);
    CHECK_EQ(p.argv[0].len, 60000);
    resp_parser_free(&p);
}

TEST(resp__requests_of_the_usual_size_take_no_memory)
{
    char text[] = EXISTS "a b c d e f g h\r\n";
    struct resp_parser p;
    resp_parser_init(&p, &defaults);
    CHECK_EQ(resp_parse(&p, text, sizeof text - 1), RESP_OK);
    CHECK_EQ(resp_parse(&p, text + p.consumed, sizeof text - 1 - p.consumed), RESP_OK);
    CHECK_EQ(p.argc, 8);
    CHECK(p.argv == p.few);
    resp_parser_free(&p);
}

/* ---- Randomized -------------------------------------------------------------------------- */

static const char *const pieces_of_streams[] = { EXISTS,       "*1\r\n$4\r\nPING\r\n",
                                                 "PING\r\n",   "\r\n",
                                                 "*0\r\n",     "*-1\r\n",
                                                 "\"a b\" ",   "'c\\'d' ",
                                                 "*2\r\n",     "$3\r\n",
                                                 "abc\r\n",    "$0\r\n\r\n",
                                                 "\\x41",      "\"",
                                                 "'",          "\r",
                                                 "\n",         "*",
                                                 "$",          "$12\r\n",
                                                 "*10\r\n",    "hello w ",
                                                 "$-1\r\n",    "*11\r\n",
                                                 "\r\n\r\n",   "$10\r\n0123456789\r\n",
                                                 "1",          "99999999",
                                                 "$1\r\na\r\n" };

/* Tests streams that consist of these parts, with some bytes changed, using both default and very
 * low limits. */
TEST(resp__random_streams_as_the_reference)
{
    const size_t kinds = sizeof pieces_of_streams / sizeof *pieces_of_streams;
    const struct resp_limits limits[] = {
        RESP_LIMITS_DEFAULT,
        { .arguments = 5, .bulk = 9, .line = 20, .request = 40 },
        { .arguments = 10, .bulk = 12, .line = 60, .request = 60, .strangers = true }
    };
    for (size_t run = 0; run < 2000 * check_scale(); run++) {
        char text[600];
        size_t n = 0;
        for (size_t i = 0, count = (size_t)check_random_below(12); i < count; i++) {
            const char *piece = pieces_of_streams[check_random_below(kinds)];
            n += padded(text + n, piece, 0, 0, "");
        }
        for (size_t i = (size_t)check_random_below(4); n && i; i--) {
            const char mark = "\r\n$*\"'\\ 0123"[check_random_below(12)];
            text[check_random_below(n)] =
                (char)(check_random_below(2) ? check_random() : (uint64_t)mark);
        }
        struct resp_story story;
        tell(&story, text, n, &limits[check_random_below(3)]);
        resp_story_free(&story);
    }
}

/*
 * test_http.c - tests the parsing of HTTP requests, header fields and targets, and the writing of
 * responses. The tests split requests at every byte, trigger every error, and reach every limit.
 * The results for random requests are compared with a reference that uses regular expressions.
 */
#define _POSIX_C_SOURCE 200809L /* regcomp */

#include "http/fields.h"
#include "http/response.h"
#include "support/check.h"
#include "support/http_story.h"

#include <regex.h>
#include <stdio.h>

#define TEXT(literal) (literal), sizeof(literal) - 1

enum { BODY_MAX = 1000 };

/* Parses a stream as a whole, split in two at every possible position, and split at random
 * positions. The parsed requests must always be the same. */
static void tell(struct http_story *story, const char *bytes, size_t n)
{
    struct http_story other;
    http_story_init(story);
    http_story_tell(story, bytes, n, BODY_MAX, (struct http_cuts){ 0, 0 });
    for (size_t cut = 1; cut < n && n < 2000; cut++) {
        http_story_init(&other);
        http_story_tell(&other, bytes, n, BODY_MAX, (struct http_cuts){ cut, 0 });
        CHECK(http_story_equal(story, &other));
        http_story_free(&other);
    }
    for (uint64_t random = 1; random < 10; random++) {
        http_story_init(&other);
        http_story_tell(&other, bytes, n, BODY_MAX, (struct http_cuts){ 0, random });
        CHECK(http_story_equal(story, &other));
        http_story_free(&other);
    }
}

static void check_story(const char *bytes, size_t n, const char *expected)
{
    struct http_story story;
    tell(&story, bytes, n);
    CHECK_EQ(story.status, 0);
    CHECK_EQ(story.consumed, n);
    buffer_put(&story.text, "", 1);
    CHECK_STR(story.text.data, expected);
    http_story_free(&story);
}

static void check_refused(const char *bytes, size_t n, int status, const char *reason)
{
    struct http_story story;
    tell(&story, bytes, n);
    CHECK_EQ(story.status, status);
    CHECK_STR(story.reason, reason);
    CHECK_EQ(story.bodies, 0);
    http_story_free(&story);
}

/* Parses a request head that must span all of `bytes`. */
static void parse(struct http_request *r, const char *bytes)
{
    http_request_reset(r);
    CHECK_EQ(http_parse(r, bytes, strlen(bytes)), HTTP_OK);
    CHECK_EQ(r->consumed, strlen(bytes));
}

static bool is(bg_bytes bytes, const char *text, size_t n)
{
    return bytes.len == n && (n == 0 || memcmp(bytes.data, text, n) == 0);
}

#define HOST "Host: h\r\n"

/* ---- Heads ------------------------------------------------------------------------------- */

TEST(http__a_request)
{
    check_story(TEXT("GET /a/b?c=d&e HTTP/1.1\r\nHost: example.org:80\r\n"
                     "X:\r\nY: \t v w \t\r\n\r\n"),
                "method GET\npath /a/b\nquery c=d&e\nminor 1\n"
                "name Host\nvalue example.org:80\nname X\nvalue \nname Y\nvalue v w\n"
                "body 0\nlength 0\nkeep 1\ncontinue 0\ndata \ntotal 0\n");
    check_story(TEXT("\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
                "method GET\npath /\nno query\nminor 0\n"
                "body 0\nlength 0\nkeep 0\ncontinue 0\ndata \ntotal 0\n");
}

TEST(http__targets)
{
    static const struct {
        const char *target, *path, *query;
    } known[] = { { "/", "/", NULL },
                  { "/?", "/", "" },
                  { "/a??b", "/a", "?b" },
                  { "//a", "//a", NULL },
                  { "http://h", "/", NULL },
                  { "http://h?x", "/", "x" },
                  { "HTTPS://h:1/a/b?x", "/a/b", "x" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[100];
        struct http_request r;
        (void)snprintf(text, sizeof text, "GET %s HTTP/1.0\r\n\r\n", known[i].target);
        parse(&r, text);
        CHECK(is(http_part(&r, r.target), known[i].target, strlen(known[i].target)));
        CHECK(is(http_part(&r, r.path), known[i].path, strlen(known[i].path)));
        CHECK_EQ(r.has_query, known[i].query != NULL);
        if (known[i].query) {
            CHECK(is(http_part(&r, r.query), known[i].query, strlen(known[i].query)));
        }
    }
    struct http_request r;
    parse(&r, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n");
    CHECK(is(http_part(&r, r.path), "*", 1));
    CHECK(http_method_is(&r, "OPTIONS") && !http_method_is(&r, "OPTION"));
    CHECK(!http_method_is(&r, "XPTIONS"));
    parse(&r,
          "AZaz09!#$%&'*+-.^_`|~ / HTTP/1.0\r\nAZaz09!#$%&'*+-.^_`|~: !~\x80\r\n\r\n");
    CHECK_EQ(r.fields[0].name.len, 21);
}

TEST(http__first_lines_that_are_refused)
{
    static const char *const method = "the request line does not start with a method";
    static const char *const target = "the request target is malformed";
    static const char *const path = "the request target is not a path";
    static const char *const version =
        "the request line does not end with a version such as HTTP/1.1";
    check_refused(TEXT(" GET / HTTP/1.1\r\n"), 400, method);
    check_refused(TEXT("G(T / HTTP/1.1\r\n"), 400, method);
    check_refused(TEXT("GET\r\n"), 400, method);
    check_refused(TEXT("GET\t/ HTTP/1.1\r\n"), 400, method);
    check_refused(TEXT("GET  / HTTP/1.1\r\n"), 400, target);
    check_refused(TEXT("GET /\r\n"), 400, version);
    check_refused(TEXT("GET /a#b HTTP/1.1\r\n"), 400, target);
    check_refused(TEXT("GET /\xc3\xa4 HTTP/1.1\r\n"), 400, target);
    check_refused(TEXT("GET a HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("GET a/b HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("GET * HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("GET http:///a HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("GET ftp://h/a HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("CONNECT h:80 HTTP/1.1\r\n"), 400, path);
    check_refused(TEXT("GET /  HTTP/1.1\r\n"), 400, version);
    check_refused(TEXT("GET / HTTP/1.1 \r\n"), 400, version);
    check_refused(TEXT("GET / http/1.1\r\n"), 400, version);
    check_refused(TEXT("GET / HTTP/1.11\r\n"), 400, version);
    check_refused(TEXT("GET / \r\n"), 400, version);
    check_refused(TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505,
                  "only HTTP/1.1 and HTTP/1.0 are supported");
    check_refused(TEXT("\r\n\r\n\r\n\r\n\r\n"), 400,
                  "the request is preceded by too many empty lines");
}

TEST(http__bytes_that_are_refused)
{
    static const char *const control = "the request head contains a control character";
    static const char *const lf = "a line ends with LF alone; expected CRLF";
    static const char *const cr = "the request head contains a CR without LF";
    check_refused(TEXT("GET / HTTP/1.1\n"), 400, lf);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n"), 400, lf);
    check_refused(TEXT("GET / HTTP/1.1\r\n\n"), 400, lf);
    check_refused(TEXT("GET / HTTP/1.1\rx"), 400, cr);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n"), 400, cr);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: b\r\r\n\r\n"), 400, cr);
    check_refused(TEXT("GET /\0 HTTP/1.1\r\n\r\n"), 400, control);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: \0\r\n\r\n"), 400, control);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: \x7f\r\n\r\n"), 400, control);
    check_refused(TEXT("\x16\x03\x01"), 400, control); /* TLS: refused at once */
}

TEST(http__fields_that_are_refused)
{
    static const char *const name =
        "a header field has no name, or no colon right after the name";
    check_refused(TEXT("GET / HTTP/1.1\r\nA : b\r\n\r\n"), 400, name);
    check_refused(TEXT("GET / HTTP/1.1\r\nA\r\n\r\n"), 400, name);
    check_refused(TEXT("GET / HTTP/1.1\r\n: b\r\n\r\n"), 400, name);
    check_refused(TEXT("GET / HTTP/1.1\r\nA\xc3\xa4: b\r\n\r\n"), 400, name);
    check_refused(TEXT("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"), 400,
                  "header fields must not be folded across several lines");
    check_refused(TEXT("GET / HTTP/1.1\r\n\tA: b\r\n\r\n"), 400,
                  "header fields must not be folded across several lines");
    check_refused(TEXT("GET / HTTP/1.1\r\n\r\n"), 400,
                  "HTTP/1.1 requires exactly one Host field");
    check_refused(TEXT("GET / HTTP/1.1\r\n" HOST HOST "\r\n"), 400,
                  "HTTP/1.1 requires exactly one Host field");
    check_refused(TEXT("GET / HTTP/1.1\r\n" HOST "Expect: more\r\n\r\n"), 417,
                  "100-continue is the only supported expectation");
}

/* Requests are refused if parsers could disagree about where the body ends. */
TEST(http__smuggling_is_refused)
{
    static const char *const number = "Content-Length is not a number, or is repeated";
    static const char *const both =
        "Content-Length and Transfer-Encoding cannot be combined";
    static const char *const encoding =
        "chunked is the only supported transfer encoding";
#define POST(fields) TEXT("POST / HTTP/1.1\r\n" HOST fields "\r\n")
    check_refused(POST("Content-Length: 5\r\nContent-Length: 6\r\n"), 400, number);
    check_refused(POST("Content-Length: 5\r\ncontent-length: 5\r\n"), 400, number);
    check_refused(POST("Content-Length: 5, 5\r\n"), 400, number);
    check_refused(POST("Content-Length: +5\r\n"), 400, number);
    check_refused(POST("Content-Length: -5\r\n"), 400, number);
    check_refused(POST("Content-Length: 0x5\r\n"), 400, number);
    check_refused(POST("Content-Length: 5 5\r\n"), 400, number);
    check_refused(POST("Content-Length:\r\n"), 400, number);
    check_refused(POST("Content-Length: 18446744073709551617\r\n"), 400, number);
    check_refused(POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400,
                  both);
    check_refused(POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400,
                  both);
    check_refused(POST("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"), 400,
                  both);
    check_refused(POST("Transfer-Encoding: gzip, chunked\r\n"), 501, encoding);
    check_refused(POST("Transfer-Encoding: identity\r\n"), 501, encoding);
    check_refused(POST("Transfer-Encoding: xchunked\r\n"), 501, encoding);
    check_refused(POST("Transfer-Encoding: \x80\x80\r\n"), 501, encoding);
    check_refused(POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                  400, "Transfer-Encoding is repeated");
    check_refused(TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
                  "HTTP/1.0 does not support Transfer-Encoding");
}

TEST(http__connections)
{
    static const struct {
        const char *head;
        bool keep, expects;
    } known[] = {
        { "GET / HTTP/1.1\r\n" HOST "\r\n", true, false },
        { "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", false, false },
        { "GET / HTTP/1.1\r\n" HOST "Connection: a, CLOSE ,b\r\n\r\n", false, false },
        { "GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n", true, false },
        { "GET / HTTP/1.1\r\n" HOST "connection: x\r\nConnection: close\r\n\r\n", false,
          false },
        { "GET / HTTP/1.2\r\n" HOST "\r\n", true, false },
        { "GET / HTTP/1.0\r\n\r\n", false, false },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, false },
        { "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, false },
        { "GET / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n\r\n", true, true },
        { "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", false, false },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct http_request r;
        parse(&r, known[i].head);
        CHECK_EQ(r.keep_alive, known[i].keep);
        CHECK_EQ(r.expects_continue, known[i].expects);
    }
}

static size_t put_many(char *to, const char *text, size_t times)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < times * length; i++) {
        to[i] = text[i % length];
    }
    return times * length;
}

TEST(http__limits_of_heads)
{
    static char text[40000];
    const size_t first = put_many(text, "GET / HTTP/1.0\r\n", 1);
    size_t n = first + put_many(text + first, "a:b\r\n", 64);
    n += put_many(text + n, "\r\n", 1);
    struct http_story story;
    tell(&story, text, n);
    CHECK_EQ(story.bodies, 1);
    http_story_free(&story);
    n = first + put_many(text + first, "a:b\r\n", 65);
    check_refused(text, n, 431, "the request has more than 64 header fields");
    for (int over = 0; over < 2;
         over++) { /* a head of exactly 16 KiB, and a head with one more byte */
        n = first + put_many(text + first, "a:", 1);
        n += put_many(text + n, "x", HTTP_HEAD_BYTES - n - 4 + (size_t)over);
        n += put_many(text + n, "\r\n\r\n", 1);
        if (over) {
            check_refused(text, n, 431, "the request head exceeds 16384 bytes");
            /* no error yet, because the head is incomplete */
            check_refused(text, n - 1, 0, NULL);
        } else {
            tell(&story, text, n);
            CHECK_EQ(story.bodies, 1);
            http_story_free(&story);
        }
    }
    /* a request line that never ends, and a header field that never ends */
    for (size_t part = 0; part < 2; part++) {
        const size_t begin = part ? first : 0;
        const size_t most = part ? HTTP_HEAD_BYTES : HTTP_LINE_BYTES;
        (void)put_many(text, "GET / HTTP/1.0\r\n", 1);
        (void)put_many(text + begin, "x", most);
        check_refused(text, most - 1, 0, NULL);
        check_refused(text, most, part ? 431 : 414,
                      part ? "the request head exceeds 16384 bytes"
                           : "the request line exceeds 8192 bytes");
    }
    for (int over = 0; over < 2; over++) {
        n = put_many(text, "GET /", 1);
        n += put_many(text + n, "x", HTTP_LINE_BYTES - n - 11 + (size_t)over);
        n += put_many(text + n, " HTTP/1.0\r\n\r\n", 1);
        if (over) {
            check_refused(text, n, 414, "the request line exceeds 8192 bytes");
        } else {
            tell(&story, text, n);
            CHECK_EQ(story.bodies, 1);
            http_story_free(&story);
        }
    }
}

/* The parser does not reread the parts of a head that it has already parsed. To verify this, the
 * test overwrites the parsed bytes, except for the name of an incomplete header field. */
TEST(http__a_head_is_looked_at_once)
{
    static char text[16384];
    size_t n = put_many(text, "GET / HTTP/1.0\r\n", 1);
    n += put_many(text + n, "a: ", 1);
    n += put_many(text + n, "x", 16000);
    n += put_many(text + n, "\r\nb: c\r\n\r\n", 1);
    struct http_request r;
    http_request_reset(&r);
    for (size_t there = 1; there < n; there++) {
        CHECK_EQ(http_parse(&r, text, there), HTTP_PARTIAL);
        CHECK(r.at + r.scanned + 1 >= there);
        memset(text, '\n', r.at);
        if (r.at && r.scanned > 4) {
            /* keeps the field name, which is parsed when the line is complete */
            memset(text + r.at + 3, '\n', r.scanned - 3);
        }
    }
    CHECK_EQ(http_parse(&r, text, n), HTTP_OK);
    CHECK_EQ(r.field_count, 2);
    CHECK_EQ(http_parse(&r, text, n), HTTP_OK);
}

/* ---- Bodies ------------------------------------------------------------------------------ */

#define HEAD    "method POST\npath /\nno query\nminor 1\nname Host\nvalue h\n"
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
#define CHUNKED_STORY                                                                  \
    HEAD "name Transfer-Encoding\nvalue Chunked\nbody 2\nlength 0\nkeep 1\ncontinue 0\n"

TEST(http__bodies)
{
    check_story(TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 05\r\n\r\nabcde"
                     "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"),
                HEAD "name Content-Length\nvalue 05\nbody 1\nlength 5\nkeep 1\n"
                     "continue 0\ndata abcde\ntotal 5\n" HEAD
                     "name Content-Length\nvalue 0\nbody 0\nlength 0\nkeep 1\n"
                     "continue 0\ndata \ntotal 0\n");
    check_story(TEXT(CHUNKED "5\r\nabcde\r\n0a\r\n0123456789\r\n000\r\n\r\n"),
                CHUNKED_STORY "data abcde0123456789\ntotal 15\n");
    check_story(TEXT(CHUNKED "3;a=\"b\";c\r\n\r\n\n\r\n0;x\r\nA: b\r\nC: d\r\n\r\n"),
                CHUNKED_STORY "data \r\n\n\ntotal 3\n");
}

static void check_chunks_refused(const char *chunks, int status, const char *reason)
{
    char text[2000];
    const int n = snprintf(text, sizeof text, CHUNKED "%s", chunks);
    check_refused(text, (size_t)n, status, reason);
}

TEST(http__chunks_that_are_refused)
{
    static const char *const size = "a chunk size is malformed";
    static const char *const crlf = "a line or a chunk does not end with CRLF";
    static const char *const large = "the body exceeds the size limit";
    check_chunks_refused("\r\n", 400, size);
    check_chunks_refused("x\r\n", 400, size);
    check_chunks_refused(" 5\r\n", 400, size);
    check_chunks_refused("5 \r\n", 400, size);
    check_chunks_refused("+5\r\n", 400, size);
    check_chunks_refused("0x5\r\n", 400, size);
    check_chunks_refused("5\n", 400, size);
    check_chunks_refused("5;a\nb\r\n", 400, size);
    check_chunks_refused("5;a\rb", 400, crlf);
    check_chunks_refused("5\rx", 400, crlf);
    check_chunks_refused("5\r\nabcdefg", 400, crlf);
    check_chunks_refused("5\r\nabcde\n", 400, crlf);
    check_chunks_refused("5\r\nabcde\rx", 400, crlf);
    check_chunks_refused("0\r\n\rx", 400, crlf);
    check_chunks_refused("0\r\nA: b\rx", 400, crlf);
    check_chunks_refused("0\r\nA: b\n\r\n", 400,
                         "the trailers contain a control character");
    check_chunks_refused("3e9\r\n", 413, large); /* 1001 */
    check_chunks_refused("1\r\na\r\n3e8\r\n", 413, large);
    check_chunks_refused("10000000000000000\r\n", 413, large);
    check_chunks_refused("00000000000000000000000000000003e9\r\n", 413, large);
    char line[400] = "5;";
    /* exactly 256 bytes, the limit, which includes the CR */
    memset(line + 2, 'x', 254);
    check_chunks_refused(line, 0, NULL);
    line[255] = '\r';
    check_chunks_refused(line, 0, NULL);
    line[255] = 'x';
    line[256] = '\r';
    check_chunks_refused(line, 400, "a chunk-size line exceeds 256 bytes");
    check_refused(TEXT("POST / HTTP/1.0\r\nContent-Length: 1001\r\n\r\n"), 413, large);
    check_refused(TEXT("POST / HTTP/1.0\r\nContent-Length: 1000\r\n\r\n"), 0, NULL);
    struct http_request r;
    struct http_body body;
    parse(&r, "POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n");
    CHECK(http_body_begin(&body, &r, 5) && !http_body_begin(&body, &r, 4));
}

TEST(http__trailers_have_a_limit)
{
    static char text[12000];
    struct http_request r;
    struct http_body body;
    bg_bytes data;
    size_t n = put_many(text, "0\r\n", 1), consumed;
    n += put_many(text + n, "a: b\r\n", 1700);
    parse(&r, CHUNKED);
    CHECK(http_body_begin(&body, &r, 10));
    CHECK_EQ(http_body_read(&body, text, n, &data, &consumed), HTTP_BODY_ERROR);
    CHECK_EQ(body.status, 431);
    CHECK_EQ(http_body_read(&body, text, n, &data, &consumed), HTTP_BODY_ERROR);
    CHECK_EQ(consumed, 0);
}

TEST(http__chunks_of_any_size)
{
    struct http_request r;
    struct http_body body;
    bg_bytes data;
    size_t consumed;
    parse(&r, CHUNKED);
    CHECK(http_body_begin(&body, &r, UINT64_MAX));
    CHECK_EQ(http_body_read(&body, TEXT("fffffffffffffff0\r\nabc"), &data, &consumed),
             HTTP_BODY_DATA);
    CHECK(is(data, "abc", 3) && consumed == 21 && body.total == 3);
    CHECK(http_body_begin(&body, &r, UINT64_MAX));
    CHECK_EQ(http_body_read(&body, TEXT("10000000000000000\r\n"), &data, &consumed),
             HTTP_BODY_ERROR);
    CHECK_EQ(body.status, 413);
}

/* ---- Randomized -------------------------------------------------------------------------- */

/* Parses a request head with regular expressions. Returns whether the head is valid, and stores the
 * parts of its first line in `first`. */
static bool reference_head(const char *text, size_t n, regmatch_t first[5])
{
    static const char *const line_is =
        "^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-\"$-~]+) HTTP/1\\.([0-9])$";
    static const char *const target_is =
        "^([^ ]+ (/|[hH][tT][tT][pP][sS]?://[^/?])|OPTIONS \\* )";
    static const char *const field_is = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+:";
    regex_t line, target, field;
    char copy[1000];
    bool good = memchr(text, 0, n) == NULL;
    CHECK(n < sizeof copy);
    memcpy(copy, text, n);
    copy[n] = 0;
    CHECK_EQ(regcomp(&line, line_is, REG_EXTENDED), 0);
    CHECK_EQ(regcomp(&target, target_is, REG_EXTENDED), 0);
    CHECK_EQ(regcomp(&field, field_is, REG_EXTENDED), 0);
    char *at = copy;
    for (size_t i = 0; good && at < copy + n - 2; i++) {
        char *end = strstr(at, "\r\n");
        *end = 0;
        for (const char *c = at; *c; c++) {
            good = good && ((unsigned char)*c >= 32 || *c == '\t') && *c != 127;
        }
        good = good
               && (i == 0 ? regexec(&line, at, 5, first, 0) == 0
                                && regexec(&target, at, 0, NULL, 0) == 0
                          : regexec(&field, at, 0, NULL, 0) == 0)
               && i <= HTTP_FIELDS;
        at = end + 2;
    }
    regfree(&line);
    regfree(&target);
    regfree(&field);
    return good;
}

static const char *const pieces_of_heads[] = {
    "GET ", "POST ",      "/",       "/a?b=c",      " HTTP/1.1",  " HTTP/1.0",
    "\r\n", "\r\n",       "A: b",    "Host: h\r\n", ": ",         " ",
    "\t",   "OPTIONS * ", "http://", "HTTPS://h/x", "x\r\nY: z",  "\r",
    "\n",   "B:\r\n",     "/%41",    "*",           "Cc : d\r\n", "\xc3\xa4"
};

/* Request heads composed of these parts, with some bytes changed, are accepted if and only if the
 * reference accepts them. The only exception is that the parser may also refuse a head because of
 * its Host fields. */
TEST(http__random_heads_as_the_reference)
{
    const size_t kinds = sizeof pieces_of_heads / sizeof *pieces_of_heads;
    size_t taken = 0;
    for (size_t run = 0; run < 4000 * check_scale(); run++) {
        char text[700];
        size_t n = 0;
        if (check_random_below(2)) {
            n = put_many(text, "GET / HTTP/1.0\r\n", 1);
        }
        for (size_t i = 0, count = (size_t)check_random_below(10); i < count; i++) {
            n += put_many(text + n, pieces_of_heads[check_random_below(kinds)], 1);
        }
        for (size_t i = (size_t)check_random_below(3); n && i; i--) {
            text[check_random_below(n)] = (char)check_random();
        }
        n += put_many(text + n, "\r\n\r\n", 1);
        for (size_t i = 0; i + 4 < n; i++) { /* a single head */
            n = memcmp(text + i, "\r\n\r\n", 4) == 0 ? i + 4 : n;
        }
        regmatch_t first[5] = { { 0 } };
        struct http_request r;
        struct http_story story;
        bg_bytes host;
        tell(&story, text, n);
        const bool good = text[0] != '\r' && reference_head(text, n, first);
        http_request_reset(&r);
        const enum http_result result = http_parse(&r, text, n);
        const bool host_missing =
            result == HTTP_ERROR
            && strcmp(r.reason, "HTTP/1.1 requires exactly one Host field") == 0;
        if (text[0] != '\r') {
            CHECK_EQ(good, result == HTTP_OK || host_missing);
        }
        if (good && result == HTTP_OK) {
            CHECK_EQ(r.method.len, first[1].rm_eo);
            CHECK_EQ(r.target.at, first[2].rm_so);
            CHECK_EQ(r.target.len, first[2].rm_eo - first[2].rm_so);
            CHECK_EQ(r.minor, text[first[3].rm_so] != '0');
            CHECK(r.minor == 0 || http_field(&r, "HOST", &host));
            CHECK_EQ(r.consumed, n);
            taken++;
        }
        http_story_free(&story);
    }
    CHECK(taken > 100); /* enough of the random heads are valid */
}

/* Streams of complete requests with bodies, in which some bytes are changed, are parsed the same
 * way wherever the stream is split. */
TEST(http__random_streams_the_same_in_pieces)
{
    static const char *const requests[] = {
        "GET /a HTTP/1.1\r\n" HOST "\r\n",
        "POST /b HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\nabc\r\nde",
        CHUNKED "5\r\nabcde\r\n0\r\n\r\n",
        CHUNKED "1;x\r\na\r\n12\r\n0123456789abcdefgh\r\n0\r\nT: u\r\n\r\n"
    };
    for (size_t run = 0; run < 300 * check_scale(); run++) {
        char text[800];
        size_t n = 0;
        for (size_t i = 1 + (size_t)check_random_below(3); i; i--) {
            n += put_many(text + n, requests[check_random_below(4)], 1);
        }
        for (size_t i = (size_t)check_random_below(3); i; i--) {
            const char mark = "\r\n0: ;a"[check_random_below(7)];
            text[check_random_below(n)] =
                (char)(check_random_below(2) ? check_random() : (uint64_t)mark);
        }
        struct http_story story;
        tell(&story, text, n);
        http_story_free(&story);
    }
}

/* ---- Targets ----------------------------------------------------------------------------- */

/* Checks that a target's path has the given parts or, if `count` is negative, is malformed. */
static void check_path(const char *target, int count, const bg_bytes *parts)
{
    static char room[HTTP_LINE_BYTES];
    char text[200];
    struct http_request r;
    struct http_path path;
    (void)snprintf(text, sizeof text, "GET %s HTTP/1.0\r\n\r\n", target);
    parse(&r, text);
    CHECK_EQ(http_path(&r, room, &path), count >= 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(path.count, (size_t)count);
        CHECK(is(path.segments[i], parts[i].data, parts[i].len));
    }
}

#define PARTS(...) ((const bg_bytes[]){ __VA_ARGS__ })
#define PART(literal)                                                                  \
    {                                                                                  \
        (literal), sizeof(literal) - 1                                                 \
    }

TEST(http__paths)
{
    check_path("/", 0, NULL);
    check_path("/a", 1, PARTS(PART("a")));
    check_path("/a/b?c/d", 2, PARTS(PART("a"), PART("b")));
    check_path("/a/", 2, PARTS(PART("a"), PART("")));
    check_path("//", 2, PARTS(PART(""), PART("")));
    check_path("/a%2Fb%00c/%c3%A4+", 2, PARTS(PART("a/b\0c"), PART("\xc3\xa4+")));
    check_path("/../.", 2, PARTS(PART(".."), PART(".")));
    check_path("/%", -1, NULL);
    check_path("/%4", -1, NULL);
    check_path("/%4/1", -1, NULL);
    check_path("/%4x", -1, NULL);
    check_path("/%x4", -1, NULL);
    check_path("/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h", -1, NULL);
    check_path("http://h/x", 1, PARTS(PART("x")));
    check_path("http://h", 0, NULL);
    struct http_request r;
    struct http_path path;
    static char room[HTTP_LINE_BYTES];
    parse(&r, "OPTIONS * HTTP/1.0\r\n\r\n");
    CHECK(!http_path(&r, room, &path));
}

TEST(http__parameters)
{
    static char room[HTTP_LINE_BYTES];
    struct http_request r;
    bg_bytes name, value;
    size_t at = 0;
    parse(&r, "GET /?a=1&&b&c%20d+=e+f%3D%26&a=2&=x&y== HTTP/1.0\r\n\r\n");
    static const bg_bytes pairs[][2] = {
        { PART("a"), PART("1") },        { PART("b"), PART("") },
        { PART("c d "), PART("e f=&") }, { PART("a"), PART("2") },
        { PART(""), PART("x") },         { PART("y"), PART("=") }
    };
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(http_query_next(&r, &at, room, &name, &value), HTTP_FOUND);
        CHECK(is(name, pairs[i][0].data, pairs[i][0].len));
        CHECK(is(value, pairs[i][1].data, pairs[i][1].len));
    }
    CHECK_EQ(http_query_next(&r, &at, room, &name, &value), HTTP_ABSENT);
    CHECK_EQ(http_parameter(&r, "a", room, &value), HTTP_FOUND);
    CHECK(is(value, "1", 1));
    CHECK_EQ(http_parameter(&r, "z", room, &value), HTTP_ABSENT);
    parse(&r, "GET /?a=%4&b=1 HTTP/1.0\r\n\r\n");
    CHECK_EQ(http_parameter(&r, "b", room, &value), HTTP_MALFORMED);
    CHECK(http_query_malformed(&r, room, &name) && is(name, "a", 1));
    parse(&r, "GET /?items=1M&&error=0.1%&kind=x HTTP/1.0\r\n\r\n");
    CHECK(http_query_malformed(&r, room, &name) && is(name, "error", 5));
    parse(&r, "GET /?b=1&%z HTTP/1.0\r\n\r\n");
    CHECK(http_query_malformed(&r, room, &name) && is(name, "%z", 2));
    parse(&r, "GET /?b=1 HTTP/1.0\r\n\r\n");
    CHECK(!http_query_malformed(&r, room, &name));
    parse(&r, "GET / HTTP/1.0\r\n\r\n");
    CHECK_EQ(http_parameter(&r, "b", room, &value), HTTP_ABSENT);
}

/* ---- Fields ------------------------------------------------------------------------------ */

static void parse_field(struct http_request *r, const char *fields)
{
    static char text[1000];
    (void)snprintf(text, sizeof text, "GET / HTTP/1.0\r\n%s\r\n", fields);
    parse(r, text);
}

TEST(http__lists)
{
    struct http_request r;
    struct http_list list = { 0 };
    bg_bytes item;
    parse_field(&r, "L: a , ,b\r\nM: x\r\nl: \"c,\\\",d\" e,\r\nL:\r\n");
    CHECK(http_list_next(&r, "L", &list, &item) && is(item, "a", 1));
    CHECK(http_list_next(&r, "L", &list, &item) && is(item, "b", 1));
    CHECK(http_list_next(&r, "L", &list, &item) && is(item, "\"c,\\\",d\" e", 10));
    CHECK(!http_list_next(&r, "L", &list, &item));
    CHECK(!http_list_next(&r, "L", &list, &item));
    CHECK(http_field(&r, "m", &item) && is(item, "x", 1));
    CHECK(!http_field(&r, "n", &item));
}

TEST(http__accept)
{
    static const struct {
        const char *fields;
        unsigned json, text;
    } known[] = {
        { "", 1000, 1000 },
        { "Accept:\r\n", 0, 0 },
        { "Accept: application/json\r\n", 1000, 0 },
        { "Accept: Application/JSON;q=0.5, text/plain\r\n", 500, 1000 },
        { "Accept: */*;q=0.1, text/*;q=0.25\r\n", 100, 250 },
        { "Accept: text/plain;q=0, */*\r\n", 1000, 0 },
        { "Accept: text/*;q=1, text/plain;q=0.001, */*;q=0.002\r\n", 2, 1 },
        { "Accept: text/plain;a=1;q=0.3,text/plain;a=2;q=0.7,*/*;q=0.5\r\n", 500, 700 },
        { "Accept: text/plain ; a=\";q=0,\" ; Q=0.5, */*;q=0.6\r\n", 600, 500 },
        { "Accept: application/json\r\nAccept: text/plain;q=0.2\r\n", 1000, 200 },
        { "Accept: text/plain;q=2\r\n", 0, 0 },
        { "Accept: text/plain;q=1.001\r\n", 0, 0 },
        { "Accept: text/plain;q=.5\r\n", 0, 0 },
        { "Accept: text/plain;q=0.1234\r\n", 0, 0 },
        { "Accept: text/plain;q=\r\n", 0, 0 },
        { "Accept: text/plain;q=1000\r\n", 0, 0 },
        { "Accept: text/plain;q=0:5\r\n", 0, 0 },
        { "Accept: text/plbin\r\n", 0, 0 },
        { "Accept: tfxt/*\r\n", 0, 0 },
        { "Accept: text/plain;q=1., */*;q=0.999\r\n", 999, 1000 },
        { "Accept: text\r\n", 0, 0 },
        { "Accept: text/, /plain, *\r\n", 0, 0 },
    };
    static const char *const types[] = { "application/json", "text/plain" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct http_request r;
        const unsigned json = known[i].json, text = known[i].text;
        parse_field(&r, known[i].fields);
        CHECK_EQ(http_choose(&r, types, 1), json ? 0 : -1);
        CHECK_EQ(http_choose(&r, types + 1, 1), text ? 0 : -1);
        CHECK_EQ(http_choose(&r, types, 2), text > json ? 1 : json ? 0 : -1);
    }
}

TEST(http__authorization)
{
    static char room[HTTP_HEAD_BYTES];
    static const struct {
        const char *fields;
        enum http_auth auth;
        const char *first, *second;
    } known[] = {
        { "", HTTP_AUTH_NONE, "", "" },
        { "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n", HTTP_AUTH_BASIC,
          "Aladdin", "open sesame" },
        { "authorization: BASIC   YTo=\r\n", HTTP_AUTH_BASIC, "a", "" },
        { "Authorization: Basic OmI6Yw==\r\n", HTTP_AUTH_BASIC, "", "b:c" },
        { "Authorization: Basic YWI6\r\n", HTTP_AUTH_BASIC, "ab", "" },
        { "Authorization: Bearer a-Z_0.~+/==\r\n", HTTP_AUTH_BEARER,
          "a-Z_0.~+/==", "" },
        { "Authorization: Basic YTp=\r\n", HTTP_AUTH_BAD, "", "" }, /* excess bits */
        { "Authorization: Basic YTo\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Basic YWI=\r\n", HTTP_AUTH_BAD, "", "" }, /* no colon */
        { "Authorization: Basic Y===\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Basic ====\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Basic YT=o\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Basic\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Bearer a b\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Bearer alice:s3c,ret;\r\n", HTTP_AUTH_BEARER,
          "alice:s3c,ret;", "" },
        { "Authorization: Bearer \xc3\xa4\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization:\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Digest x\r\n", HTTP_AUTH_BAD, "", "" },
        { "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n", HTTP_AUTH_BAD, "",
          "" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct http_request r;
        struct http_credentials who = { 0 };
        parse_field(&r, known[i].fields);
        CHECK_EQ(http_authorization(&r, room, &who), known[i].auth);
        if (known[i].auth == HTTP_AUTH_BASIC) {
            CHECK(is(who.user, known[i].first, strlen(known[i].first)));
            CHECK(is(who.password, known[i].second, strlen(known[i].second)));
        } else if (known[i].auth == HTTP_AUTH_BEARER) {
            CHECK(is(who.token, known[i].first, strlen(known[i].first)));
        }
    }
}

/* Encodes arbitrary bytes as Base64, and checks that they are decoded correctly. */
TEST(http__basic_is_binary_safe)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char room[HTTP_HEAD_BYTES];
    for (size_t run = 0; run < 500; run++) {
        uint8_t bytes[60] = { 0 };
        char fields[160] = "Authorization: Basic ";
        const size_t n = 1 + (size_t)check_random_below(50),
                     colon = (size_t)check_random_below(n);
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)check_random();
            bytes[i] = i < colon && bytes[i] == ':' ? ';' : bytes[i];
        }
        bytes[colon] = ':';
        size_t used = strlen(fields);
        for (size_t i = 0; i < n; i += 3) {
            const unsigned word =
                (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
            fields[used++] = digits[word >> 18];
            fields[used++] = digits[word >> 12 & 63];
            fields[used++] = (char)(i + 1 < n ? digits[word >> 6 & 63] : '=');
            fields[used++] = (char)(i + 2 < n ? digits[word & 63] : '=');
        }
        memcpy(fields + used, "\r\n", 3);
        struct http_request r;
        struct http_credentials who;
        parse_field(&r, fields);
        CHECK_EQ(http_authorization(&r, room, &who), HTTP_AUTH_BASIC);
        CHECK(is(who.user, (const char *)bytes, colon));
        CHECK(is(who.password, (const char *)bytes + colon + 1, n - colon - 1));
    }
}

TEST(http__entity_tags)
{
    static const struct {
        const char *value;
        /* whether the value matches the tag "1f" in If-Match (strong) and If-None-Match (weak) */
        enum http_match strong, weak;
    } known[] = { { "\"1f\"", HTTP_MATCH_YES, HTTP_MATCH_YES },
                  { "W/\"1f\"", HTTP_MATCH_NO, HTTP_MATCH_YES },
                  { "\"a\", \"b,1\" ,\"1f\"", HTTP_MATCH_YES, HTTP_MATCH_YES },
                  { "\"1F\"", HTTP_MATCH_NO, HTTP_MATCH_NO },
                  { ", \"x\",,\"1f\",", HTTP_MATCH_YES, HTTP_MATCH_YES },
                  { "*", HTTP_MATCH_YES, HTTP_MATCH_YES },
                  { "1f", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"1f", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"1f\" \"2\"", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"1f\"x", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "w/\"1f\"", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "*, \"1f\"", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "W/", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "W/x", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"1f\", \"1f", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "\"\",\"1f\"", HTTP_MATCH_YES, HTTP_MATCH_YES },
                  { ",", HTTP_MATCH_BAD, HTTP_MATCH_BAD },
                  { "", HTTP_MATCH_BAD, HTTP_MATCH_BAD } };
    struct http_request r;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char fields[100];
        (void)snprintf(fields, sizeof fields, "If-Match: %s\r\nIf-None-Match: %s\r\n",
                       known[i].value, known[i].value);
        parse_field(&r, fields);
        CHECK_EQ(http_if_match(&r, "\"1f\""), known[i].strong);
        CHECK_EQ(http_if_none_match(&r, "\"1f\""), known[i].weak);
        const enum http_match nothing =
            known[i].strong == HTTP_MATCH_BAD ? HTTP_MATCH_BAD : HTTP_MATCH_NO;
        CHECK_EQ(http_if_match(&r, NULL), nothing);
    }
    parse_field(&r, "If-Match: \"2\"\r\nIf-Match: \"1f\"\r\nif-match: \"3\"\r\n");
    CHECK_EQ(http_if_match(&r, "\"1f\""), HTTP_MATCH_YES);
    CHECK_EQ(http_if_none_match(&r, "\"1f\""), HTTP_MATCH_ABSENT);
}

/* ---- Responses --------------------------------------------------------------------------- */

static void check_answer(const struct http_response *response, const char *expected)
{
    struct buffer out;
    buffer_init(&out, 10000);
    http_response_head(&out, response);
    buffer_put(&out, "", 1);
    CHECK_STR(out.data, expected);
    buffer_free(&out);
}

TEST(http__answers)
{
    static const struct http_extra extra[] = { { "Cache-Control", "no-store" },
                                               { "X", "a\r\nSet-Cookie: b" } };
    check_answer(&(struct http_response){ .status = 200,
                                          .minor = 1,
                                          .type = "text/plain",
                                          .length = 12,
                                          .extra = extra,
                                          .extras = 2 },
                 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n"
                 "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
                 "X: a  Set-Cookie: b\r\n\r\n");
    check_answer(&(struct http_response){ .status = 404, .minor = 1, .close = true },
                 "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n"
                 "X-Content-Type-Options: nosniff\r\n\r\n");
    check_answer(
        &(struct http_response){ .status = 304, .minor = 1, .type = "x" },
        "HTTP/1.1 304 Not Modified\r\nX-Content-Type-Options: nosniff\r\n\r\n");
    check_answer(&(struct http_response){ .status = 204, .minor = 1 },
                 "HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\n\r\n");
    check_answer(
        &(struct http_response){ .status = 299, .minor = 0, .length = 1 },
        "HTTP/1.1 299 Status\r\nContent-Length: 1\r\nConnection: keep-alive\r\n"
        "X-Content-Type-Options: nosniff\r\n\r\n");
}

/* The body reader returns the bytes of chunks of all sizes. */
TEST(http__chunks_of_all_sizes)
{
    static const size_t sizes[] = { 1, 9, 10, 15, 16, 17, 255, 256, 4096, 3 };
    static char bytes[4096];
    struct buffer out, back;
    struct http_request r;
    struct http_body body;
    size_t total = 0, at = 0;
    buffer_init(&out, SIZE_MAX);
    buffer_init(&back, SIZE_MAX);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)check_random();
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char size[20];
        (void)snprintf(size, sizeof size, "%zx\r\n", sizes[i]);
        buffer_text(&out, size);
        buffer_put(&out, bytes, sizes[i]);
        buffer_put(&out, "\r\n", 2);
        total += sizes[i];
    }
    buffer_text(&out, "0\r\n\r\n");
    parse(&r, CHUNKED);
    CHECK(http_body_begin(&body, &r, total));
    for (;;) {
        bg_bytes data;
        size_t consumed;
        const enum http_body_result result =
            http_body_read(&body, out.data + at, out.used - at, &data, &consumed);
        at += consumed;
        if (result != HTTP_BODY_DATA) {
            CHECK_EQ(result, HTTP_BODY_END);
            break;
        }
        buffer_put(&back, data.data, data.len);
    }
    CHECK_EQ(at, out.used);
    CHECK_EQ(back.used, total);
    for (size_t i = 0, from = 0; i < sizeof sizes / sizeof *sizes; from += sizes[i++]) {
        CHECK(memcmp(back.data + from, bytes, sizes[i]) == 0);
    }
    buffer_clear(&out, SIZE_MAX);
    http_response_continue(&out);
    CHECK(is((bg_bytes){ out.data, out.used }, TEXT("HTTP/1.1 100 Continue\r\n\r\n")));
    buffer_free(&out);
    buffer_free(&back);
}

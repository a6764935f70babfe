/*
 * test_cli_json_path.c - tests how --json finds values. Random texts are compared with a reference
 * implementation.
 */
#include "support/check.h"
#include "support/reference_json.h"

static struct json_value find(const char *path, const char *text)
{
    struct json_path parsed;
    CHECK(json_path_parse(path, &parsed));
    CHECK(reference_json_agrees(&parsed, text, strlen(text)));
    return json_path_find(&parsed, text, strlen(text));
}

static bool finds(const char *path, const char *text, enum json_kind kind,
                  const char *value)
{
    const struct json_value found = find(path, text);
    return found.kind == kind
           && (!value
               || (found.len == strlen(value)
                   && memcmp(found.at, value, found.len) == 0));
}

TEST(json_path__finds_values)
{
    CHECK(finds(".", "17", JSON_PLAIN, "17"));
    CHECK(finds(".", " \"a\" ", JSON_STRING, "\"a\""));
    CHECK(finds(".a", "{\"a\":1.50e3}", JSON_PLAIN, "1.50e3"));
    CHECK(finds(".a.b", "{\"x\":{\"a\":{\"b\":1}},\"a\":{\"c\":2,\"b\":true}}",
                JSON_PLAIN, "true"));
    CHECK(finds(".a[1].b", "{\"a\":[{\"b\":1},{\"b\":2},{\"b\":3}]}", JSON_PLAIN, "2"));
    CHECK(finds(".[0][1]", "[[1,2],[3,4]]", JSON_PLAIN, "2"));
    CHECK(finds(".\"a.b\"", "{\"a\":{\"b\":1},\"a.b\":2}", JSON_PLAIN, "2"));
    CHECK(finds(".[\"a\\\"\"]", "{\"a\\\"\":2}", JSON_PLAIN, "2"));
    CHECK(finds(".user", "{\"us\\u0065r\":5}", JSON_PLAIN, "5"));
    CHECK(finds(".\xC3\xA9", "{\"\\u00e9\":5}", JSON_PLAIN, "5"));
    CHECK(finds(".a\\b", "{\"a\\\\b\":5}", JSON_PLAIN, "5"));
    CHECK(finds(".", "{}", JSON_CONTAINER, NULL));
    CHECK(finds(".a", "{\"a\":[]}", JSON_CONTAINER, NULL));
}

TEST(json_path__reports_missing_values)
{
    CHECK(finds(".a", "{}", JSON_ABSENT, NULL));
    CHECK(finds(".a", "{\"a\":null}", JSON_ABSENT, NULL));
    CHECK(finds(".a.b", "{\"a\":5}", JSON_ABSENT, NULL));
    CHECK(finds(".a", "[{\"a\":5}]", JSON_ABSENT, NULL));
    CHECK(finds(".[0]", "{\"0\":5}", JSON_ABSENT, NULL));
    CHECK(finds(".[\"a\\\\b\"]", "{\"a\\b\":5}", JSON_ABSENT, NULL));
    CHECK(finds(".a\\u0041", "{\"a\\u0041\":5}", JSON_ABSENT, NULL));
    CHECK(finds(".[2]", "[1,2]", JSON_ABSENT, NULL));
    CHECK(finds(".a", "\"a\"", JSON_ABSENT, NULL));
    CHECK(find(".a", " \t\r ").kind == JSON_BLANK);
    CHECK(find(".a", "").kind == JSON_BLANK);
}

TEST(json_path__uses_the_last_duplicate)
{
    CHECK(finds(".a", "{\"a\":1,\"a\":2}", JSON_PLAIN, "2"));
    CHECK(finds(".[\"a\\\\b\"]", "{\"a\\\\b\":1,\"a\\b\":2}", JSON_PLAIN, "1"));
    CHECK(finds(".a.b", "{\"a\":{\"b\":1},\"a\":{\"c\":2}}", JSON_ABSENT, NULL));
    CHECK(finds(".a.b", "{\"a\":{\"b\":1},\"a\":7}", JSON_ABSENT, NULL));
}

TEST(json_path__refuses_invalid_text)
{
    static const char *const bad[] = {
        "{",           "}",         "[1,]",      "{\"a\":1,}",   "{\"a\" 1}",
        "{a:1}",       "{\"a\":}",  "[1 2]",     "01",           "1.",
        "-",           "1e",        "+1",        "NaN",          "tru",
        "truee",       "\"a",       "\"\\x\"",   "\"\\u12g4\"",  "\"\t\"",
        "{\"a\":1}{}", "1 2",       "[}",        "{]",           "\"a\\",
        ",",           "[\"a\":1]", "{\"a\",1}", "\xEF\xBB\xBF", "{\"a\":1]",
    };
    struct json_path path;
    CHECK(json_path_parse(".a", &path));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct json_value found = json_path_find(&path, bad[i], strlen(bad[i]));
        CHECK(found.kind == JSON_INVALID && found.why);
        CHECK(reference_json_agrees(&path, bad[i], strlen(bad[i])));
    }
    CHECK(json_path_find(&path, "[\0]", 3).kind == JSON_INVALID);
    CHECK(json_path_find(&path, "\"\0\"", 3).kind == JSON_INVALID);
}

TEST(json_path__limits_nesting)
{
    enum { DEEP = JSON_PATH_DEEP };
    static char text[2 * DEEP + 4];
    struct json_path path;
    CHECK(json_path_parse(".a", &path));
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    CHECK(json_path_find(&path, text, 2 * DEEP + 2).kind == JSON_INVALID);
    CHECK(json_path_find(&path, text + 1, 2 * DEEP).kind == JSON_ABSENT);
    CHECK(json_path_find(&path, text + 1, 2 * DEEP - 1).kind == JSON_INVALID);
}

TEST(json_path__refuses_invalid_paths)
{
    static const char *const bad[] = { "",      "a",       "..",     ".a.",
                                       ".a..b", ".[",      ".[a]",   ".[1",
                                       ".\"a",  ".a\"b\"", ".[]",    ".a]",
                                       "[0]",   ".[-1]",   ".a[1]b", ".[\"a\"" };
    struct json_path path;
    char deep[2 * JSON_PATH_STEPS + 3];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!json_path_parse(bad[i], &path));
    }
    for (size_t i = 0; i < JSON_PATH_STEPS + 1; i++) {
        memcpy(deep + 2 * i, ".a", 3);
    }
    CHECK(!json_path_parse(deep, &path));
    CHECK(json_path_parse(deep + 2, &path));
}

/* Writes a random text that is often valid JSON. Returns its length. */
static size_t random_text(char *to, size_t most)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\":",
        "\"b\":",
        "\"a\"",
        "1",
        "-0.5",
        "null",
        "true",
        " ",
        "{\"a\":",
        "\"\\n\"",
        "[1,2]",
        "{}",
        "\\",
        "\"",
        "\"\\ud83d\\ude00\"",
        "\xC3\xA9",
        "1e5",
        "\"\\u0061\":",
        "\"long text without anything special\"",
    };
    size_t n = 0;
    for (uint64_t left = check_random_below(12); left > 0; left--) {
        const char *piece = pieces[check_random_below(sizeof pieces / sizeof *pieces)];
        for (size_t i = 0; piece[i] && n < most; i++) {
            to[n++] = piece[i];
        }
    }
    return n;
}

TEST(json_path__agrees_with_the_reference)
{
    static const char *const paths[] = { ".", ".a", ".a.b", ".a[1]", ".[0]", ".b" };
    char text[512];
    for (uint64_t i = 0; i < 200000 * check_scale(); i++) {
        struct json_path path;
        CHECK(json_path_parse(paths[check_random_below(6)], &path));
        const size_t n = random_text(text, sizeof text);
        CHECK(reference_json_agrees(&path, text, n));
    }
}

/* test_cli_json.c - tests that the JSON output is correct byte for byte. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "support/check.h"
#include "support/streams.h"

#include "json.h"

#include <math.h>
#include <string.h>

TEST(json__a_document)
{
    struct json json;
    struct stream_capture out;
    stream_begin(&out, &stdout);
    json_begin(&json, "bloomgate.test.1");
    json_text(&json, "name", "x");
    json_count(&json, "most", UINT64_MAX);
    json_real(&json, "rate", 0.001);
    json_real(&json, "none", (double)NAN);
    json_real(&json, "endless", (double)INFINITY);
    json_bool(&json, "yes", true);
    json_bool(&json, "no", false);
    json_list(&json, "list");
    json_count(&json, NULL, 1);
    json_object(&json, NULL);
    json_close(&json, '}');
    json_object(&json, NULL);
    json_count(&json, "a", 2);
    json_list(&json, "b");
    json_close(&json, ']');
    json_close(&json, '}');
    json_close(&json, ']');
    json_text(&json, "last", "");
    json_end(&json);
    CHECK_STR(stream_end(&out),
              "{\"schema\": \"bloomgate.test.1\", \"name\": \"x\", "
              "\"most\": 18446744073709551615, \"rate\": 0.001, \"none\": null, "
              "\"endless\": null, \"yes\": true, \"no\": false, "
              "\"list\": [1, {}, {\"a\": 2, \"b\": []}], \"last\": \"\"}\n");
    free(out.text);
}

/* Checks that `text` is written as `written` in a JSON string. */
static void check_text(const char *text, const char *written)
{
    static const char front[] = "{\"schema\": \"", back[] = "\"}\n";
    struct json json;
    struct stream_capture out;
    stream_begin(&out, &stdout);
    json_begin(&json, text);
    json_end(&json);
    (void)stream_end(&out);
    CHECK_EQ(out.n, sizeof front - 1 + strlen(written) + sizeof back - 1);
    CHECK(memcmp(out.text + sizeof front - 1, written, strlen(written)) == 0);
    free(out.text);
}

#define REPLACED "\xEF\xBF\xBD"

TEST(json__text)
{
    check_text("", "");
    check_text("a/b", "a/b");
    check_text("a\"b\\c", "a\\\"b\\\\c");
    check_text("\b\f\n\r\t\x01\x1F\x7F",
               "\\u0008\\u000c\\u000a\\u000d\\u0009\\u0001\\u001f\\u007f");
    check_text("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
               "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    /* Invalid UTF-8: an invalid byte, truncated and overlong sequences, an unpaired surrogate, and
     * values above the last code point. */
    check_text("a\xFF"
               "b",
               "a" REPLACED "b");
    check_text("\x80", REPLACED);
    check_text("\xC3", REPLACED);
    check_text("\xE2\x82", REPLACED REPLACED);
    check_text("\xC0\xAF", REPLACED REPLACED);
    check_text("\xE0\x80\x80", REPLACED REPLACED REPLACED);
    check_text("\xED\xA0\x80", REPLACED REPLACED REPLACED);
    check_text("\xF4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED);
    check_text("\xF5\x80\x80\x80", REPLACED REPLACED REPLACED REPLACED);
    check_text("\xC3\"", REPLACED "\\\"");
}

/* If lists are nested deeper than the writer can track, it must not write out of bounds. */
TEST(json__too_deep)
{
    struct json json;
    struct stream_capture out;
    stream_begin(&out, &stdout);
    json_begin(&json, "x");
    for (int i = 0; i < 3 * JSON_DEEP; i++) {
        json_list(&json, i ? NULL : "deep");
    }
    const int deepest = json.depth;
    for (int i = 0; i < 3 * JSON_DEEP; i++) {
        json_close(&json, ']');
    }
    json_end(&json);
    (void)stream_end(&out);
    CHECK(deepest < JSON_DEEP && json.depth == 0);
    CHECK_EQ(out.n, strlen("{\"schema\": \"x\", \"deep\": }\n") + 6 * JSON_DEEP);
    free(out.text);
}

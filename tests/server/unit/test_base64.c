/* test_base64.c - base64 in both alphabets: known vectors, every length, and malformed text. */
#include "util/base64.h"

#include "support/check.h"

#include <string.h>

static bg_bytes text(const char *s)
{
    return (bg_bytes){ s, strlen(s) };
}

TEST(base64__known_vectors)
{
    char to[16];
    CHECK_EQ(base64_encode(text("foobar"), false, to), 8);
    CHECK(memcmp(to, "Zm9vYmFy", 8) == 0);
    CHECK_EQ(base64_encode(text("fo"), false, to), 3);
    CHECK(memcmp(to, "Zm8", 3) == 0);
    CHECK_EQ(base64_encode(text("\xFB\xFF"), false, to), 3);
    CHECK(memcmp(to, "+/8", 3) == 0);
    CHECK_EQ(base64_encode(text("\xFB\xFF"), true, to), 3);
    CHECK(memcmp(to, "-_8", 3) == 0);
}

TEST(base64__every_length_comes_back)
{
    unsigned char bytes[64];
    char digits[96], back[64];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 37 + 251);
    }
    for (size_t len = 0; len <= sizeof bytes; len++) {
        for (int url = 0; url < 2; url++) {
            size_t n = 0;
            const size_t used = base64_encode((bg_bytes){ bytes, len }, url, digits);
            CHECK(base64_decode((bg_bytes){ digits, used }, url, back, &n));
            CHECK(n == len && memcmp(back, bytes, len) == 0);
        }
    }
}

TEST(base64__malformed_text_is_refused)
{
    static const char *const bad[] = {
        "A", "AAAAA", "AB", "AAB", "A A=", "Zm8=", "Z\n"
    };
    char to[16];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!base64_decode(text(bad[i]), true, to, &n));
    }
    CHECK(!base64_decode(text("-_8"), false, to, &n));
    CHECK(base64_decode(text("-_8"), true, to, &n) && n == 2);
    CHECK(base64_decode(text("+/8"), true, to, &n) && n == 2);
    CHECK(!base64_decode((bg_bytes){ "AA\0A", 4 }, true, to, &n));
}

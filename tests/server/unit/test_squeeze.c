/* Tests compression: the output is small and can be decompressed to the input, and malformed bytes
 * are rejected. */
#include "util/squeeze.h"

#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { SQUEEZE_TEST = 3000 };

/* Generates bytes with runs of zeros. */
static void squeeze_make(unsigned char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t run = 1 + (size_t)check_random_below(200);
        run = run < n - at ? run : n - at;
        memset(bytes + at, check_random_below(2) ? (int)check_random_below(256) : 0,
               run);
        at += run;
    }
}

TEST(squeeze__comes_back)
{
    unsigned char *bytes = malloc(SQUEEZE_TEST), *back = malloc(SQUEEZE_TEST);
    for (size_t n = 0; n < SQUEEZE_TEST; n += 1 + n / 20) {
        unsigned char *squeezed = malloc(n + SQUEEZE_MORE);
        squeeze_make(bytes, n);
        const size_t length = squeeze(bytes, n, squeezed);
        CHECK(length <= n + SQUEEZE_MORE);
        CHECK_EQ(squeeze_size(squeezed, length), n);
        CHECK(squeeze_undo(squeezed, length, back));
        CHECK(memcmp(bytes, back, n) == 0);
        free(squeezed);
    }
    free(bytes);
    free(back);
}

TEST(squeeze__zeros_take_no_room)
{
    unsigned char bytes[10000] = { 1 }, squeezed[sizeof bytes + SQUEEZE_MORE];
    bytes[5000] = 1;
    CHECK(squeeze(bytes, sizeof bytes, squeezed) < 150);
}

TEST(squeeze__worst_case_fits)
{
    unsigned char bytes[1023], squeezed[sizeof bytes + SQUEEZE_MORE];
    /* Blocks of 32 bytes, the unit of compression, are alternately zero and nonzero. */
    for (size_t n = 0; n <= sizeof bytes; n++) {
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (unsigned char)(n + i / 32) & 1;
        }
        CHECK(squeeze(bytes, n, squeezed) <= n + SQUEEZE_MORE);
    }
}

/* If a bit is flipped, decompression either rejects the input or produces the original number of
 * bytes. Truncated input is always rejected. */
TEST(squeeze__may_be_anything)
{
    unsigned char bytes[300], squeezed[sizeof bytes + SQUEEZE_MORE];
    memset(bytes, 0, sizeof bytes);
    memset(bytes + 100, 7, 90);
    const size_t length = squeeze(bytes, sizeof bytes, squeezed);
    for (size_t i = 0; i < length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            squeezed[i] ^= (unsigned char)(1 << bit);
            const size_t n = squeeze_size(squeezed, length);
            unsigned char *back = n < 1 << 20 ? malloc(n + 1) : NULL;
            CHECK(!back || !squeeze_undo(squeezed, length, back) || n == sizeof bytes);
            free(back);
            squeezed[i] ^= (unsigned char)(1 << bit);
        }
        unsigned char *cut = malloc(i + 1), *back = malloc(sizeof bytes);
        memcpy(cut, squeezed, i);
        CHECK(squeeze_size(cut, i) == (i < 4 ? SIZE_MAX : sizeof bytes));
        CHECK(!squeeze_undo(cut, i, back));
        free(cut);
        free(back);
    }
}

/*
 * bgkeys.c - generates input for benchmarking the command-line tool: page URLs, each derived from
 * its index, so any part of the input can be regenerated. Optionally, a fraction of the lines
 * repeats earlier lines.
 *
 *     bgkeys LINES [SHARE_OF_REPETITIONS [FIRST]]      prints to stdout
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t keys_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static char *keys_text(char *to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to, text, n); /* NOLINT(bugprone-not-null-terminated-result) */
    return to + n;
}

static char *keys_hex(char *to, uint64_t value, int digits)
{
    while (digits--) {
        *to++ = "0123456789abcdef"[value >> (4 * digits) & 15];
    }
    return to;
}

/* Writes the line for an index: 48 to 78 bytes. The line contains the whole index, so all lines
 * differ. */
static char *keys_line(char *to, uint64_t number)
{
    static const char *const words[] = { "catalog",       "articles", "news",
                                         "users/profile", "search",   "api/v2/items",
                                         "img",           "downloads" };
    const uint64_t r = keys_mix(number);
    to = keys_text(to, "https://www.host-");
    to = keys_hex(to, r & 0xfff, 3);
    to = keys_text(to, ".example/");
    to = keys_text(to, words[r >> 12 & 7]);
    *to++ = '/';
    to = keys_hex(to, number, 12);
    if (r >> 16 & 1) {
        to = keys_text(to, "?session=");
        to = keys_hex(to, r >> 32, 8);
    }
    *to++ = '\n';
    return to;
}

int main(int argc, char **argv)
{
    enum { BUFFER = 1 << 18, LINE_MAX = 128 };
    static char buffer[BUFFER + LINE_MAX];
    if (argc < 2 || argc > 4) {
        (void)fprintf(stderr, "usage: bgkeys LINES [SHARE_OF_REPETITIONS [FIRST]]\n");
        return 2;
    }
    const uint64_t lines = (uint64_t)strtod(argv[1], NULL);
    const uint64_t first = argc > 3 ? (uint64_t)strtod(argv[3], NULL) : 0;
    const double share = argc > 2 ? strtod(argv[2], NULL) : 0;
    const uint64_t bar = (uint64_t)(share * 0x1p63);
    uint64_t fresh = 0;
    char *to = buffer;
    for (uint64_t i = 0; i < lines; i++) {
        const uint64_t r = keys_mix(~i);
        const uint64_t number = fresh && r >> 1 < bar ? keys_mix(r) % fresh : fresh++;
        to = keys_line(to, first + number);
        if (to - buffer >= BUFFER) {
            if (fwrite(buffer, 1, (size_t)(to - buffer), stdout)
                != (size_t)(to - buffer)) {
                return 1;
            }
            to = buffer;
        }
    }
    return fwrite(buffer, 1, (size_t)(to - buffer), stdout) != (size_t)(to - buffer)
           || fflush(stdout) != 0;
}

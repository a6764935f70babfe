/* base64.c - see base64.h. */
#include "util/base64.h"

#include <string.h>

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char base64_digit(unsigned six, bool url)
{
    static const char last[] = "-_";
    return url && six >= 62 ? last[six - 62] : base64_digits[six];
}

size_t base64_encode(bg_bytes bytes, bool url, char *to)
{
    const unsigned char *from = bytes.data;
    unsigned held = 0, bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        held = (held << 8 | from[i]) & 0xFFFF;
        for (bits += 8; bits >= 6; bits -= 6) {
            to[n++] = base64_digit(held >> (bits - 6) & 63, url);
        }
    }
    if (bits) {
        to[n++] = base64_digit(held << (6 - bits) & 63, url);
    }
    return n;
}

bool base64_decode(bg_bytes text, bool url, char *to, size_t *n)
{
    const char *from = text.data;
    unsigned held = 0, bits = 0;
    *n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = url && from[i] == '-'   ? '+'
                       : url && from[i] == '_' ? '/'
                                               : from[i];
        const char *digit = c ? strchr(base64_digits, c) : NULL;
        if (!digit) {
            return false;
        }
        held = (held << 6 | (unsigned)(digit - base64_digits)) & 0xFFFF;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            to[(*n)++] = (char)(held >> bits & 0xFF);
        }
    }
    return bits < 6 && (held & ((1U << bits) - 1)) == 0;
}

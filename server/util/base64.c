/* base64.c - see base64.h. */
#include "util/base64.h"

#include <string.h>

static const char base64_digits[2][65] = {
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* Returns the value of a digit, or -1. */
static int base64_value(char c, bool url)
{
    for (int i = 0; c && i <= url; i++) {
        const char *digit = strchr(base64_digits[i], c);
        if (digit) {
            return (int)(digit - base64_digits[i]);
        }
    }
    return -1;
}

size_t base64_encode(bg_bytes bytes, bool url, char *to)
{
    const unsigned char *from = bytes.data;
    unsigned held = 0, bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        held = (held << 8 | from[i]) & 0xFFFF;
        for (bits += 8; bits >= 6; bits -= 6) {
            to[n++] = base64_digits[url][held >> (bits - 6) & 63];
        }
    }
    if (bits) {
        to[n++] = base64_digits[url][held << (6 - bits) & 63];
    }
    return n;
}

bool base64_decode(bg_bytes text, bool url, char *to, size_t *n)
{
    const char *from = text.data;
    unsigned held = 0, bits = 0;
    *n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const int digit = base64_value(from[i], url);
        if (digit < 0) {
            return false;
        }
        held = (held << 6 | (unsigned)digit) & 0xFFFF;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            to[(*n)++] = (char)(held >> bits & 0xFF);
        }
    }
    return bits < 6 && (held & ((1U << bits) - 1)) == 0;
}

/* name_file.c - see name_file.h. */
#include "gate/name_file.h"

#include <string.h>

static const char name_file_hex[] = "0123456789abcdef";
static const char name_file_base32[] = "0123456789abcdefghijklmnopqrstuv";

static bool name_file_is_plain(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'
           || (c == '.' && !first);
}

/* Percent-encodes a name. Returns the size of the whole result in bytes, but writes at most
 * NAME_FILE_PLAIN bytes. */
static size_t name_file_escape(const char *name, char *form)
{
    size_t n = 0;
    for (const char *p = name; *p; p++) {
        bool plain = name_file_is_plain(*p, p == name);
        size_t more = plain ? 1 : 3;
        if (n + more <= NAME_FILE_PLAIN) {
            const unsigned char c = (unsigned char)*p;
            const char escaped[3] = { '%', name_file_hex[c >> 4],
                                      name_file_hex[c & 15] };
            memcpy(form + n, plain ? p : escaped, more);
        }
        n += more;
    }
    return n;
}

/* Encodes a name in base 32: five bits per digit, high bits first. */
static size_t name_file_to_base32(const char *name, char *form)
{
    size_t n = 0;
    unsigned bits = 0, waiting = 0;
    form[n++] = '+';
    for (const char *p = name; *p; p++) {
        bits = (bits << 8 | (unsigned char)*p) & 0xfffff;
        for (waiting += 8; waiting >= 5; waiting -= 5) {
            form[n++] = name_file_base32[bits >> (waiting - 5) & 31];
        }
    }
    if (waiting) {
        form[n++] = name_file_base32[bits << (5 - waiting) & 31];
    }
    return n;
}

void name_file_encode(const char *name, char form[NAME_FILE_BYTES])
{
    size_t n = name_file_escape(name, form);
    if (n > NAME_FILE_PLAIN) {
        n = name_file_to_base32(name, form);
    }
    form[n] = 0;
}

/* Returns the index of c among the digits, or -1 if c is not one of them. */
static int name_file_digit(const char *digits, char c)
{
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The two decoders below also accept noncanonical text, so the caller must check that the text is
 * the name's canonical form. */
static bool name_file_unescape(const char *text, size_t n, char *name)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = n - i > 2 ? name_file_digit(name_file_hex, text[i + 1]) : -1;
            int low = n - i > 2 ? name_file_digit(name_file_hex, text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = high << 4 | low;
            i += 2;
        }
        if (c == 0 || out == BG_TENANT_NAME_MAX) {
            return false;
        }
        name[out++] = (char)c;
    }
    name[out] = 0;
    return out > 0;
}

static bool name_file_from_base32(const char *text, size_t n, char *name)
{
    size_t out = 0;
    unsigned bits = 0, waiting = 0;
    for (size_t i = 1; i < n; i++) {
        int digit = name_file_digit(name_file_base32, text[i]);
        if (digit < 0 || out == BG_TENANT_NAME_MAX) {
            return false;
        }
        bits = (bits << 5 | (unsigned)digit) & 0xfff;
        waiting += 5;
        if (waiting >= 8) {
            waiting -= 8;
            unsigned c = bits >> waiting & 0xff;
            if (c == 0) {
                return false;
            }
            name[out++] = (char)c;
        }
    }
    name[out] = 0;
    return out > 0;
}

bool name_file_decode(const char *text, size_t n, char name[BG_TENANT_NAME_MAX + 1])
{
    char form[NAME_FILE_BYTES];
    bool found = n > 0 && n < NAME_FILE_BYTES
                 && (text[0] == '+' ? name_file_from_base32(text, n, name)
                                    : name_file_unescape(text, n, name));
    if (!found) {
        return false;
    }
    name_file_encode(name, form);
    return strlen(form) == n && memcmp(form, text, n) == 0;
}

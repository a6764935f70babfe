/* letters.h - ASCII letters and digits, independent of the locale. */
#ifndef COMMON_LETTERS_H
#define COMMON_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline char letter_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static inline char letter_upper(char c)
{
    return (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* Copy n characters in lowercase or uppercase, and add a NUL. Characters that do not fit into `room`
 * bytes are left out. */
static inline void letters_lower(char *to, size_t room, const char *from, size_t n)
{
    n = n < room ? n : room - 1;
    for (size_t i = 0; i < n; i++) {
        to[i] = letter_lower(from[i]);
    }
    to[n] = 0;
}

static inline void letters_upper(char *to, size_t room, const char *from, size_t n)
{
    n = n < room ? n : room - 1;
    for (size_t i = 0; i < n; i++) {
        to[i] = letter_upper(from[i]);
    }
    to[n] = 0;
}

/* Parses the decimal digits at *text, up to `end`, and advances *text past them. Returns false if there
 * are no digits, or if the number does not fit. */
static inline bool digits_read(const char **text, const char *end, uint64_t *value)
{
    const char *p = *text;
    for (*value = 0; p < end && *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (*value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *value = *value * 10 + digit;
    }
    const bool any = p > *text;
    *text = p;
    return any;
}

/* Returns the value of a hexadecimal digit, or -1 for any other character. */
static inline int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

#endif

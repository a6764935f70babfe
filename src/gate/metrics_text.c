/*
 * metrics_text.c - buffers text for a sink, and formats strings and numbers for each format.
 *
 * Numbers. printf and strtod are precise, but depend on the locale, which the program may set.
 * So only the digits and the exponent of printf's output are used, and strtod parses only integers
 * with an exponent. Neither of these contains a decimal point.
 *
 * The result is the shortest decimal that parses to x. Any decimal of up to 15 digits survives
 * conversion to a normal double and back to 15 digits. So if x has a shorter form, its 15-digit
 * form is the shorter form followed by zeros. If the 15-digit form does not parse to x, no shorter
 * form does either, so 16 or 17 digits are needed. Subnormal numbers have less precision, so for
 * them all lengths are tried, starting with one digit.
 *
 * Strings are checked against Unicode's rules for well-formed UTF-8 (table 3-7): no overlong
 * sequences, no surrogates, nothing above U+10FFFF. Bytes that violate these rules are shown in the
 * form \xff instead of being replaced by a single character, so that different names stay
 * different. For the same reason, the backslash in a name that literally contains the characters
 * \xff is shown as \x5c.
 */
#include "gate/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The buffer -------------------------------------------------------------------- */

void metrics_text_begin(struct metrics_text *out, bg_metrics_sink_fn sink,
                        void *context)
{
    out->sink = sink;
    out->context = context;
    out->used = 0;
    out->stopped = false;
}

static void metrics_text_flush(struct metrics_text *out)
{
    if (out->used > 0 && !out->stopped) {
        out->stopped = !out->sink(out->context, out->buffer, out->used);
    }
    out->used = 0;
}

bool metrics_text_end(struct metrics_text *out)
{
    metrics_text_flush(out);
    return !out->stopped;
}

void metrics_text_put_some(struct metrics_text *out, const char *bytes, size_t n)
{
    while (n > 0 && !out->stopped) {
        size_t room = METRICS_BUFFER - out->used, now = n < room ? n : room;
        memcpy(out->buffer + out->used, bytes, now);
        out->used += now;
        bytes += now;
        n -= now;
        if (out->used == METRICS_BUFFER) {
            metrics_text_flush(out);
        }
    }
}

void metrics_text_put(struct metrics_text *out, const char *text)
{
    metrics_text_put_some(out, text, strlen(text));
}

/* ---- Strings ----------------------------------------------------------------------- */

static bool metrics_between(unsigned char byte, unsigned low, unsigned high)
{
    return byte >= low && byte <= high;
}

/* Returns the length in bytes of the well-formed sequence that starts at `s`, or 0 if there is
 * none. Does not read past the NUL, because a NUL never continues a sequence. */
static size_t metrics_utf8(const unsigned char *s)
{
    unsigned low = 0x80, high = 0xBF;
    size_t n;
    if (s[0] < 0x80) {
        return 1;
    }
    if (metrics_between(s[0], 0xC2, 0xDF)) {
        n = 2;
    } else if (metrics_between(s[0], 0xE0, 0xEF)) {
        n = 3;
        low = s[0] == 0xE0 ? 0xA0 : low;
        high = s[0] == 0xED ? 0x9F : high;
    } else if (metrics_between(s[0], 0xF0, 0xF4)) {
        n = 4;
        low = s[0] == 0xF0 ? 0x90 : low;
        high = s[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    for (size_t i = 1; i < n; i++, low = 0x80, high = 0xBF) {
        if (!metrics_between(s[i], low, high)) {
            return 0;
        }
    }
    return n;
}

/* Returns the escape sequence for a character, or NULL if the character needs none. */
static const char *metrics_escape(unsigned char c, bool json, char room[8])
{
    switch (c) {
    case '\\': return "\\\\";
    case '"': return "\\\"";
    case '\n': return "\\n";
    default: break;
    }
    if (json && c < 0x20) {
        (void)snprintf(room, 8, "\\u%04x", c);
        return room;
    }
    return NULL;
}

static bool metrics_is_hex(unsigned char c)
{
    return metrics_between(c, '0', '9') || metrics_between(c, 'a', 'f');
}

/* Returns whether the text would be mistaken for a byte shown in hexadecimal. Does not read past
 * the NUL. */
static bool metrics_is_shown_byte(const unsigned char *s)
{
    return s[0] == '\\' && s[1] == 'x' && metrics_is_hex(s[2]) && metrics_is_hex(s[3]);
}

static void metrics_text_quoted(struct metrics_text *out, const char *text, bool json)
{
    char room[8];
    const unsigned char *s = (const unsigned char *)text;
    metrics_text_put_some(out, "\"", 1);
    while (*s && !out->stopped) {
        const char *escape = metrics_escape(*s, json, room);
        size_t n = metrics_utf8(s);
        if (n == 0 || metrics_is_shown_byte(s)) {
            (void)snprintf(room, sizeof room, "\\\\x%02x", *s);
            escape = room;
            n = 1;
        }
        if (escape) {
            metrics_text_put(out, escape);
        } else {
            metrics_text_put_some(out, (const char *)s, n);
        }
        s += n;
    }
    metrics_text_put_some(out, "\"", 1);
}

void metrics_text_label(struct metrics_text *out, const char *text)
{
    metrics_text_quoted(out, text, false);
}

void metrics_text_json(struct metrics_text *out, const char *text)
{
    metrics_text_quoted(out, text, true);
}

/* ---- Numbers ----------------------------------------------------------------------- */

void metrics_text_whole(struct metrics_text *out, uint64_t number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    metrics_text_put(out, at);
}

/* The digits and exponent of a number x > 0, such that x is d.d... times 10^exponent. */
struct metrics_decimal {
    char digits[20];
    int n;
    int exponent;
};

static void metrics_decimal_of(double x, int n, struct metrics_decimal *decimal)
{
    char text[METRICS_NUMBER];
    const char *at = text;
    (void)snprintf(text, sizeof text, "%.*e", n - 1, x);
    decimal->n = 0;
    for (; *at && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9' && decimal->n < n) {
            decimal->digits[decimal->n++] = *at;
        }
    }
    decimal->digits[decimal->n] = 0;
    decimal->exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
}

static double metrics_decimal_value(const struct metrics_decimal *decimal)
{
    char text[METRICS_NUMBER];
    (void)snprintf(text, sizeof text, "%se%d", decimal->digits,
                   decimal->exponent - (decimal->n - 1));
    return strtod(text, NULL);
}

static void metrics_shortest(double x, struct metrics_decimal *decimal)
{
    int n = isnormal(x) ? 15 : 1;
    do {
        metrics_decimal_of(x, n, decimal);
    } while (n++ < 17 && metrics_decimal_value(decimal) != x);
    while (decimal->n > 1 && decimal->digits[decimal->n - 1] == '0') {
        decimal->digits[--decimal->n] = 0;
    }
}

/* Writes 123.45, 0.0012345 or 123450000. Writes numbers that are at least 1e17 or below 1e-5 in the
 * form 1.2345e+17. */
static void metrics_decimal_write(const struct metrics_decimal *decimal, char *to)
{
    int n = decimal->n, e = decimal->exponent;
    const char *digits = decimal->digits;
    size_t room = METRICS_NUMBER - 1; /* leaves space for a sign before the number */
    if (e < -5 || e >= 17) {
        (void)snprintf(to, room, "%.1s%s%se%+03d", digits, n > 1 ? "." : "", digits + 1,
                       e);
    } else if (e < 0) {
        (void)snprintf(to, room, "0.%.*s%s", -e - 1, "0000", digits);
    } else if (e + 1 >= n) {
        (void)snprintf(to, room, "%s%.*s", digits, e + 1 - n, "0000000000000000");
    } else {
        (void)snprintf(to, room, "%.*s.%s", e + 1, digits, digits + e + 1);
    }
}

void metrics_number(double number, char text[METRICS_NUMBER])
{
    struct metrics_decimal decimal;
    if (isnan(number) || isinf(number)) {
        (void)snprintf(text, METRICS_NUMBER, "%s",
                       isnan(number) ? "NaN"
                       : number > 0  ? "+Inf"
                                     : "-Inf");
        return;
    }
    if (number == 0) {
        (void)snprintf(text, METRICS_NUMBER, "0"); /* -0 is written as 0 */
        return;
    }
    if (number < 0) {
        *text++ = '-';
    }
    metrics_shortest(fabs(number), &decimal);
    metrics_decimal_write(&decimal, text);
}

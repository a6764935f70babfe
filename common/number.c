/*
 * number.c - see number.h. Whole numbers are parsed digit by digit as integers, because a double
 * has only 53 bits and an integer must not be rounded.
 */
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses an optional unit at the end of a text, and moves *text past it. Returns the unit's factor,
 * 1 if there is no unit, or 0 if any other text follows. */
static double number_unit(const char **text)
{
    static const char letters[] = "kMGTP";
    const char *at = **text ? strchr(letters, **text == 'K' ? 'k' : **text) : NULL;
    double factor = 1;
    if (at) {
        const bool binary = (*text)[1] == 'i';
        *text += binary ? 2 : 1;
        for (long i = 0; i <= at - letters; i++) {
            factor *= binary ? 1024 : 1000;
        }
    }
    *text += **text == 'B';
    return **text ? 0 : factor;
}

/* Parses the number at the start of a text. The number may have a fraction and an exponent, but no
 * sign. Hexadecimal numbers and infinity are not accepted. */
static bool number_front(const char *text, double *value, const char **rest)
{
    char *end;
    if (!(*text >= '0' && *text <= '9') && *text != '.') {
        return false;
    }
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        return false;
    }
    *value = strtod(text, &end);
    *rest = end;
    return end != text && isfinite(*value);
}

static bool number_digits(const char *text, uint64_t *value)
{
    uint64_t sum = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    *value = sum;
    return *text == 0;
}

bool number_count(const char *text, uint64_t *value)
{
    double front;
    const char *rest;
    if (*text && number_digits(text, value)) {
        return true;
    }
    if (!number_front(text, &front, &rest)) {
        return false;
    }
    front *= number_unit(&rest);
    if (!(front < 0x1p63) || *rest || (front <= 0 && strspn(text, "0.") == 0)) {
        return false;
    }
    *value = (uint64_t)front;
    return (double)*value == front; /* false if the value has a fraction, such as 1.5 */
}

bool number_real(const char *text, double *value)
{
    const char *rest;
    if (!number_front(text, value, &rest)) {
        return false;
    }
    const double unit = number_unit(&rest);
    *value *= unit;
    return unit > 0 && isfinite(*value);
}

bool number_share(const char *text, double *value)
{
    const char *rest;
    double below;
    if (!number_front(text, value, &rest)) {
        return false;
    }
    if (rest[0] == '/' && number_front(rest + 1, &below, &rest)) {
        *value /= below;
    } else if (rest[0] == '%') {
        *value /= 100;
        rest++;
    }
    return *rest == 0 && isfinite(*value);
}

bool number_rate(const char *text, double *value)
{
    return number_share(text, value) && *value > 0 && *value < 1;
}

bool number_seconds(const char *text, double *value)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "", 1 },      { "s", 1 },  { "ms", 1e-3 }, { "us", 1e-6 },
                  { "ns", 1e-9 }, { "m", 60 }, { "h", 3600 },  { "d", 86400 } };
    const char *rest;
    if (!number_front(text, value, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(rest, units[i].name) == 0) {
            *value *= units[i].seconds;
            return isfinite(*value);
        }
    }
    return false;
}

const char *number_show(uint64_t value, char text[NUMBER_TEXT])
{
    char digits[NUMBER_TEXT];
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *to = text;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            *to++ = ',';
        }
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}

const char *number_show_bytes(uint64_t bytes, char text[NUMBER_TEXT])
{
    static const char *const units[] = {
        "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"
    };
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) {
        value /= 1024;
    }
    (void)snprintf(text, NUMBER_TEXT, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s",
                   value, units[unit]);
    return text;
}

const char *number_show_rate(double rate, char text[NUMBER_TEXT])
{
    const double percent = 100 * rate;
    if (percent > 0.99e-6 && percent < 1e-4) { /* %g would use an exponent */
        size_t n = (size_t)snprintf(text, NUMBER_TEXT, "%.8f", percent);
        while (text[n - 1] == '0') {
            n--;
        }
        memcpy(text + n, "%", 2);
    } else if (percent > 0 && percent < 1e-4) { /* "1e-9": 1.00e-07% is hard to read */
        const size_t n = (size_t)snprintf(text, NUMBER_TEXT, "%.3g", rate);
        char *exponent = strstr(text, "e-0");
        if (exponent) {
            memmove(exponent + 2, exponent + 3, (size_t)(text + n - exponent) - 2);
        }
    } else {
        (void)snprintf(text, NUMBER_TEXT, "%.3g%%", percent);
    }
    return text;
}

const char *number_show_rate_of(double rate, double target, char text[2 * NUMBER_TEXT])
{
    const double low = target / 100; /* lower rates are shown as "below ..." */
    char now[NUMBER_TEXT], wanted[NUMBER_TEXT];
    if (!(target > 0) || (rate > 0.9 * target && rate < 1.1 * target)) {
        (void)number_show_rate(target > 0 ? target : rate, text);
    } else {
        (void)snprintf(text, (size_t)2 * NUMBER_TEXT, "%s%s (target %s)",
                       rate > 0 && rate < low ? "below " : "",
                       number_show_rate(rate > 0 && rate < low ? low : rate, now),
                       number_show_rate(target, wanted));
    }
    return text;
}

const char *number_show_seconds(double seconds, char text[NUMBER_TEXT])
{
    const bool known = seconds >= 0 && seconds < 1e9;
    const unsigned long long whole = known ? (unsigned long long)seconds : 0;
    if (!known) {
        (void)snprintf(text, NUMBER_TEXT, "?");
    } else if (seconds < 10) {
        (void)snprintf(text, NUMBER_TEXT, "%.2g s", seconds);
    } else if (whole < 60) {
        (void)snprintf(text, NUMBER_TEXT, "%llu s", whole);
    } else if (whole < 3600) {
        (void)snprintf(text, NUMBER_TEXT, "%llum %02llus", whole / 60, whole % 60);
    } else {
        (void)snprintf(text, NUMBER_TEXT, "%lluh %02llum", whole / 3600,
                       whole / 60 % 60);
    }
    return text;
}

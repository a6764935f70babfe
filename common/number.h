/*
 * number.h - parses and formats numbers for people: 10k, 5M, 2Gi, 1e6, 0.1%, 90s.
 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a whole number: digits, or a number with a fraction, an exponent or a unit if its value is
 * whole (1e6, 2.5k). k M G T P are powers of 1000, and Ki Mi Gi Ti Pi are powers of 1024; an
 * optional B may follow. */
bool number_count(const char *text, uint64_t *value);

/* Parses a finite, non-negative number, percentage or fraction: 0.5, 50%, 1/2. */
bool number_share(const char *text, double *value);

/* Like number_share, for values between 0 and 1, exclusive: 0.001, 1e-3, 0.1%, 1/1000. */
bool number_rate(const char *text, double *value);

/* Parses a finite, non-negative number. It may be followed by the same units as in number_count. */
bool number_real(const char *text, double *value);

/* Parses a duration: a number followed by ns, us, ms, s, m, h or d. Without a unit, the number is
 * in seconds. */
bool number_seconds(const char *text, double *value);

enum { NUMBER_TEXT = 32 };

/* Format a number as text: 1,234,567; 12.4 MiB; 0.98%; 3m 20s. They return `text`. */
const char *number_show(uint64_t value, char text[NUMBER_TEXT]);
const char *number_show_bytes(uint64_t bytes, char text[NUMBER_TEXT]);
const char *number_show_rate(double rate, char text[NUMBER_TEXT]);
const char *number_show_seconds(double seconds, char text[NUMBER_TEXT]);

/* Formats a rate and the rate that was requested, or 0: "1%" if they are about equal, and otherwise
 * "12.4% (target 1%)". A rate far below the target is "below 0.01% (target 1%)". */
const char *number_show_rate_of(double rate, double target, char text[2 * NUMBER_TEXT]);

/* The same texts, in memory that is valid until the end of the enclosing block. */
#define COUNT_TEXT(value) number_show(value, (char[NUMBER_TEXT]){ "" })
#define BYTES_TEXT(bytes) number_show_bytes(bytes, (char[NUMBER_TEXT]){ "" })
#define RATE_TEXT(rate)   number_show_rate(rate, (char[NUMBER_TEXT]){ "" })
#define RATE_OF_TEXT(rate, target)                                                     \
    number_show_rate_of(rate, target, (char[2 * NUMBER_TEXT]){ "" })
#define SECONDS_TEXT(seconds) number_show_seconds(seconds, (char[NUMBER_TEXT]){ "" })

#endif

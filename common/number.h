/*
 * number.h - numbers as people write and read them: 10k, 5M, 2Gi, 1e6, 0.1%, 90s.
 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number: digits, or with a fraction or exponent if it is whole then (1e6, 2.5k).
 * k M G T P are powers of 1000, Ki Mi Gi Ti Pi of 1024; a B may follow. */
bool number_count(const char *text, uint64_t *value);

/* A share above 0 and below 1: 0.001, 1e-3, 0.1%, 1/1000. */
bool number_rate(const char *text, double *value);

/* Any finite number, not below 0; the same letters as above may follow. */
bool number_real(const char *text, double *value);

/* Seconds: a number with ns, us, ms, s, m, h or d; without a letter seconds. */
bool number_seconds(const char *text, double *value);

enum { NUMBER_TEXT = 32 };

/* As text: 1,234,567; 12.4 MiB; 0.98 %; 3m 20s. They return `text`. */
const char *number_show(uint64_t value, char text[NUMBER_TEXT]);
const char *number_show_bytes(uint64_t bytes, char text[NUMBER_TEXT]);
const char *number_show_rate(double rate, char text[NUMBER_TEXT]);
const char *number_show_seconds(double seconds, char text[NUMBER_TEXT]);

#endif

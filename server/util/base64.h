/*
 * base64.h - base64 without padding, in either alphabet (RFC 4648). Callers add or remove padding.
 */
#ifndef SERVER_UTIL_BASE64_H
#define SERVER_UTIL_BASE64_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>

/* Encodes bytes with the digits + and /, or - and _ if `url` is set. `to` must have space for 4/3 of
 * the bytes, rounded up. Returns the number of digits. */
size_t base64_encode(bg_bytes bytes, bool url, char *to);

/* Decodes text into a buffer that is at least 3/4 as large; this may be the text itself. If `url` is
 * set, accepts the digits of both alphabets. Returns false if the text has another character, an
 * impossible length, or nonzero bits after the last byte. */
bool base64_decode(bg_bytes text, bool url, char *to, size_t *n);

#endif
